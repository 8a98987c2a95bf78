"""What goes into an agent's context: switches, prompts, profiles, and what earlier work left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.errors import NotFound
from passdown.surfaces.web.operations import Answer, Operation, reading
from passdown.surfaces.web.schemas import (
    MAX_UPLOAD,
    answer,
    choice,
    record,
    ref,
    text,
    truth,
    whole,
)
from passdown.surfaces.web.task_rows import PATH, TASK_ID
from passdown.surfaces.web.telling_rows import BRIEF
from passdown.workspace.prompting import prompt_for
from passdown.workspace.sent_profiles import Profile, profile_document, profile_sent
from passdown.workspace.switching import Ask, switch_for

if TYPE_CHECKING:
    from passdown.surfaces.web.operations import Call
    from passdown.workspace import Workspace

Document = dict[str, Any]

_NAME = text(most=64)
_OBJECTS = {"type": "array", "items": {"type": "object"}}
_TEXT = answer(text={"type": "string"})
_PROFILE = record(
    {
        "name": text(most=64, least=1),
        "text": text("the whole file", most=MAX_UPLOAD),
        "path": text("where it is", most=1_024),
        "problems": {
            "type": "array",
            "maxItems": 100,
            "items": record(
                {"path": text(), "code": text(most=64), "message": text()},
                ["path", "code", "message"],
                is_open=True,
            ),
        },
    },
    ["name", "text"],
)
_ASKED = {
    "budget": whole("tokens that may come on top of the profile", least=1, most=10**9),
    "counter": text("how tokens are counted", most=40),
    "record": truth("whether it is recorded as told; default: true"),
}
_SWITCHED = answer(
    "from_agent",
    "to_agent",
    "digest",
    "parts",
    "summaries",
    "artifact_file",
    "files",
    "git",
    task={"type": "string"},
    version={"type": "integer"},
    text={"type": "string"},
    tokens={"type": "integer"},
    brief=BRIEF,
    warnings={"type": "array", "items": ref("Problem")},
)


def _switch(workspace: Workspace, call: Call) -> Answer:
    """The context of who takes over; recorded for the token's own name, or for one that it may
    speak for.
    """
    given = call.given
    ask = Ask(
        task=given["task"],
        to_agent=given["to"],
        from_agent=given.get("from_agent", ""),
        budget=given.get("budget"),
        counter=given.get("counter"),
        rules=given.get("rules", ""),
        record=given.get("record", True) and call.is_about_itself(given["to"]),
        given=_looked_for(workspace, given),
    )
    found = switch_for(workspace, ask)
    return Answer(found.document())


def _looked_for(workspace: Workspace, given: Document) -> tuple[Profile | None, ...]:
    if "profile" not in given:
        return ()
    sent: Document | None = given["profile"]
    return (profile_sent(workspace, given["to"], sent) if sent is not None else None,)


def _prompt(workspace: Workspace, call: Call) -> Answer:
    given = call.given
    sent: Document | None = given.get("profile")
    profile = profile_sent(workspace, sent["name"], sent) if sent is not None else None
    active = given.get("active", "")
    found = prompt_for(
        workspace,
        given["text"],
        given["task"],
        active,
        budget=given.get("budget"),
        counter=given.get("counter"),
        record=given.get("record", True),
        given=profile,
        only="" if call.caller.may("others") else call.caller.name,
    )
    switched = found.switched.document() if found.switched else None
    return Answer({"text": found.text, "agent": found.agent, "switched": switched})


def _save(workspace: Workspace, call: Call) -> Answer:
    task, to = call.given["task"], call.given["to"]
    sender = call.given.get("from_agent", "")
    if not call.caller.may("others"):
        sender = call.author("from_agent")
    return Answer(_reachable(workspace.save_artifact(task, to=to, from_agent=sender)))


def _artifacts(workspace: Workspace, call: Call) -> Answer:
    return Answer({"items": [_reachable(e) for e in workspace.switch_artifacts(**call.given)]})


def _reachable(entry: Document) -> Document:
    """An artifact for who can't open the files that it names here."""
    place = f"/api/tasks/{entry['task']}/state"
    return {**entry, "artifact": {**entry["artifact"], "full_record": place}}


def _profiles(workspace: Workspace, call: Call) -> Answer:
    return Answer({"items": list(workspace.agents())})


def _profile(workspace: Workspace, call: Call) -> Answer:
    agent: str = call.given["agent"]
    found = workspace.profile(agent)
    if found is None:
        raise NotFound(f"{agent[:80]!r} has no profile here", next_step="See /api/profiles.")
    return Answer(profile_document(found))


def _compaction(workspace: Workspace, call: Call) -> Answer:
    return Answer(workspace.compaction(call.given["used"])._asdict())


def _injection(workspace: Workspace, call: Call) -> Answer:
    return Answer({"text": workspace.injection(call.given["task"])})


def _computed(workspace: Workspace, call: Call) -> Answer:
    return Answer(workspace.computed_context(**call.given).as_document())


def _compact(workspace: Workspace, call: Call) -> Answer:
    return Answer({"text": workspace.compact_context(call.given["task"])})


def _next_steps(workspace: Workspace, call: Call) -> Answer:
    return Answer({"items": workspace.next_steps(call.given["task"])})


def _of_task(name: str, ending: str, summary: str, carry: Any, **rest: Any) -> Operation:
    path = f"/api/tasks/{{task}}/{ending}"
    return reading(name, path, summary, carry, parameters=PATH, tag="contexts", **rest)


ROWS = (
    Operation(
        "switch",
        "POST",
        "/api/tasks/{task}/switch",
        "read",
        "The whole context of an agent that takes over; a profile may be sent, null says none",
        _switch,
        parameters=PATH,
        body=record(
            {
                "to": text("who takes over", most=64, least=1),
                "from_agent": text("who leaves; default: who has the task", most=64),
                "rules": text("goes in after the profile", most=MAX_UPLOAD),
                "profile": {**_PROFILE, "type": ["object", "null"]},
                **_ASKED,
            },
            ["to"],
        ),
        answer=_SWITCHED,
        tag="contexts",
    ),
    Operation(
        "prompt",
        "POST",
        "/api/tasks/{task}/prompt",
        "read",
        "A prompt, behind the context of the agent that it calls (@name, /name)",
        _prompt,
        parameters=PATH,
        body=record(
            {
                "text": text("what was typed", most=MAX_UPLOAD),
                "active": text("who has the word now", most=64),
                "profile": _PROFILE,
                **_ASKED,
            },
            ["text"],
        ),
        answer=answer("switched", text={"type": "string"}, agent={"type": "string"}),
        tag="contexts",
    ),
    Operation(
        "save_artifact",
        "POST",
        "/api/tasks/{task}/switch-artifacts",
        "write",
        "Leave a switch artifact for an agent that comes later",
        _save,
        parameters=PATH,
        body=record({"to": text(most=64, least=1), "from_agent": _NAME}, ["to"]),
        answer=answer("file", "from_agent", "to_agent", "version", "artifact", "path"),
        status=201,
        tag="contexts",
    ),
    reading(
        "switch_artifacts",
        "/api/switch-artifacts",
        "The switch artifacts of a task, or those that wait for an agent",
        _artifacts,
        query={"task": TASK_ID, "agent": _NAME},
        answer=answer(items=_OBJECTS),
        tag="contexts",
    ),
    reading(
        "profiles",
        "/api/profiles",
        "The agents that have a profile where the server is",
        _profiles,
        answer=answer(items={"type": "array", "items": {"type": "string"}}),
        tag="contexts",
    ),
    reading(
        "profile",
        "/api/profiles/{agent}",
        "An agent's profile where the server is",
        _profile,
        parameters={"agent": text(most=64, least=1)},
        answer=answer("needs", "tools", "problems", name={"type": "string"}),
        tag="contexts",
    ),
    reading(
        "compaction",
        "/api/compaction",
        "Whether a context of so many tokens is due for compaction, by the server's settings",
        _compaction,
        query={"used": {**whole("tokens"), "required": True}},
        answer=answer("used", "threshold", "window", "reasons", due={"type": "boolean"}),
        tag="contexts",
    ),
    _of_task(
        "injection",
        "injection",
        "What the tasks that a task depends on leave for it, as text for its prompt",
        _injection,
        answer=_TEXT,
    ),
    _of_task(
        "computed_context",
        "computed",
        "What of earlier work bears on a task, each with its score and why",
        _computed,
        query={"complexity": choice(("easy", "normal", "complex"))},
        answer=answer("task", "complexity", "patterns", "gotchas", "signals", "counts"),
    ),
    _of_task(
        "compact_context",
        "compact",
        "A task's phase and last decisions in at most 2,000 characters",
        _compact,
        answer=_TEXT,
    ),
    _of_task(
        "next_steps",
        "next-steps",
        "The open next steps of a task, in an order in which they can be done",
        _next_steps,
        answer=answer(items=_OBJECTS),
    ),
)

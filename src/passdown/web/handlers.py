"""What answers where a call of the operation isn't enough, and what only a server offers.

A function here has the name of its operation, with `_` for a dot. It is called with the request and
its arguments, and gives a value, which is sent as JSON, or an `ApiResult`.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, cast

from passdown.core.codec import encode
from passdown.core.intake import read_handoff
from passdown.core.record import Head
from passdown.core.types import JsonObject
from passdown.errors import InvalidInput, NotFound, Problem
from passdown.knowledge.graph import ended_early
from passdown.web.requests import ApiRequest, ApiResult
from passdown.workspace.maintenance import BundleImport, import_data
from passdown.workspace.prompts import Prompt, profile_sent, prompt_with
from passdown.workspace.streams import READ_BY_ALL, WorkspaceStreams, may_record
from passdown.workspace.switches import Switch, SwitchRequest, switch_context

_NOT_GIVEN: Any = object()


def hand_off(
    request: ApiRequest,
    /,
    *,
    handoff: JsonObject,
    defaults: JsonObject | None = None,
    rebase: bool = False,
    changed_files: list[str] | None = None,
    dry_run: bool = False,
) -> ApiResult:
    """Record a handoff.

    Args:
        handoff: An object, or the text of one: JSON, YAML, a task file; or a prepared command.
        defaults: What the handoff leaves out.
        rebase: Place it after others, if it only adds.
        changed_files: What its file lists must account for.
        dry_run: Only prepare it: the command with what it would change; nothing is recorded.
    """
    options: JsonObject = {"rebase": rebase, "changed_files": changed_files, "dry_run": dry_run}
    return _record_handoff(request, handoff, defaults or {}, options)


def hand_off_task(request: ApiRequest, /, *, task: str, rebase: bool = False) -> ApiResult:
    """Hand a task on; the body is the handoff.

    Args:
        rebase: Place it after others, if it only adds.
    """
    return _record_handoff(request, {**request.body, "task": task}, {}, {"rebase": rebase})


def _record_handoff(
    request: ApiRequest, handoff: Any, defaults: JsonObject, options: JsonObject
) -> ApiResult:
    handoff, defaults = handoff_of_caller(request, handoff, defaults)
    if request.expect_version is not None:
        given = read_handoff(handoff, defaults)
        handoff = given._replace(data={**given.data, "expect_version": request.expect_version})
        defaults = {}
    command = request.workspace.hand_off(handoff, key=request.key, **options, **defaults)
    if command.prepared is not None:
        return ApiResult(command.to_dict(), status=200)
    return ApiResult(command.to_dict(), command.version)


def check_handoff(
    request: ApiRequest,
    /,
    *,
    handoff: JsonObject,
    defaults: JsonObject | None = None,
    rebase: bool = False,
    changed_files: list[str] | None = None,
) -> JsonObject:
    """Check a handoff without recording it; the arguments are those of recording one."""
    handoff, defaults = handoff_of_caller(request, handoff, defaults or {})
    options: JsonObject = {"rebase": rebase, "changed_files": changed_files}
    return request.workspace.check_handoff(handoff, **options, **defaults).to_dict()


def handoff_of_caller(
    request: ApiRequest, handoff: Any, defaults: JsonObject
) -> tuple[Any, JsonObject]:
    """A handoff in the name of the token's holder; unchanged if the token speaks for others."""
    if request.caller.may("others"):
        return handoff, defaults
    given = read_handoff(handoff, defaults)
    plain = dict(given.data)
    plain["from_agent"] = request.author("from_agent", plain.get("from_agent"))
    if isinstance(plain.get("decisions"), list):
        entries = cast("list[Any]", plain["decisions"])
        plain["decisions"] = [decision_of_caller(request, entry) for entry in entries]
    return given._replace(data=plain), {}


def decision_of_caller(request: ApiRequest, entry: Any) -> Any:
    """A decision without the name of somebody else."""
    if not isinstance(entry, dict):
        return entry
    fields = cast("JsonObject", entry)
    if fields.get("agent", "") in ("", None, request.caller.name):
        return fields
    request.note_claim("decisions", fields["agent"])
    return {name: value for name, value in fields.items() if name != "agent"}


def me(request: ApiRequest, /) -> JsonObject:
    """Whose token this is, and what it allows."""
    return request.caller.to_dict()


def knowledge_neighbours(
    request: ApiRequest,
    /,
    *,
    node: str,
    depth: int = 1,
    direction: str = "out",
    relations: list[str] | None = None,
) -> JsonObject:
    """The nodes that can be reached; `more` where there may be others."""
    found = request.workspace.knowledge.neighbours(
        node, depth=depth, direction=direction, relations=relations or ()
    )
    return {"items": [encode(each) for each in found], "more": ended_early(found)}


def switch(
    request: ApiRequest,
    /,
    *,
    task: str,
    to_agent: str,
    from_agent: str = "",
    budget: int | None = None,
    counter: str | None = None,
    rules: str = "",
    profile: JsonObject | None = _NOT_GIVEN,
    record: bool = True,
) -> Switch:
    """The context of an agent that takes over; recorded if the token may speak for it.

    Args:
        to_agent: Who takes over.
        from_agent: Who leaves; by default the task's holder.
        rules: Text that goes between the profile and the summaries.
        profile: The agent's profile on the client's machine; null says that it has none.
        record: Whether the delivery is recorded.
    """
    given = () if profile is _NOT_GIVEN else (_profile(request, to_agent, profile),)
    ask = SwitchRequest(
        task=task,
        to_agent=to_agent,
        from_agent=from_agent,
        budget=budget,
        counter=counter,
        rules=rules,
        record=record and may_record(to_agent),
        given=given,
    )
    return switch_context(request.context, ask)


def _profile(request: ApiRequest, agent: str, sent: JsonObject | None) -> Any:
    return None if sent is None else profile_sent(request.context, agent, sent)


def context_prompt(
    request: ApiRequest,
    /,
    *,
    task: str,
    text: str,
    active: str = "",
    budget: int | None = None,
    counter: str | None = None,
    profile: JsonObject | None = None,
    record: bool = True,
) -> Prompt:
    """A prompt, behind the context of the agent that it calls (@name, /name).

    Args:
        text: What the user typed.
        active: The active agent.
        profile: The profile, on the client's machine, of the agent that is called.
        record: Whether the delivery is recorded.
    """
    return prompt_with(
        request.context,
        text,
        task,
        active,
        budget=budget,
        counter=counter,
        record=record,
        given=_profile(request, profile["name"], profile) if profile else None,
        only="" if request.caller.may("others") else request.caller.name,
    )


def maintenance_import_bundle(
    request: ApiRequest, /, *, bundle: str, fork: str = "", agent: str | None = None
) -> BundleImport:
    """Import a bundle, verified, all or nothing; imported again, it changes nothing.

    Args:
        bundle: Its bytes in base64.
        fork: A suffix, to keep both where histories differ.
    """
    try:
        data = base64.b64decode(bundle, validate=True)
    except (binascii.Error, ValueError) as error:
        problem = Problem("bundle", "invalid_form", str(error), "a bundle's bytes in base64")
        raise InvalidInput("nothing was imported", [problem]) from error
    author = request.author("agent", agent)
    return import_data(request.context, data, fork, agent=author)


def streams(request: ApiRequest, /, *, prefix: str) -> list[Head]:
    """The heads of streams of runs, express items and agents.

    Args:
        prefix: run/, express/ or agent/, and a name.
    """
    return WorkspaceStreams(request.workspace).streams(_readable_stream(prefix))


def stream_records(
    request: ApiRequest, /, *, stream: str, limit: int = 100, cursor: str = "0"
) -> JsonObject:
    """The records of one of these streams, as they were hashed.

    Args:
        stream: run/, express/ or agent/, and a name.
    """
    after = int(cursor)
    found = WorkspaceStreams(request.workspace).records(_readable_stream(stream), after)
    items = [{**one._asdict(), "body": one.body.decode()} for one in found[:limit]]
    following = str(found[limit - 1].position) if len(found) > limit else None
    return {"items": items, "next": following}


def _readable_stream(stream: str) -> str:
    if stream.startswith(READ_BY_ALL):
        return stream
    raise NotFound(
        f"there is no stream {stream[:80]!r} to be read here",
        next_step=f"These can be: {', '.join(READ_BY_ALL)}.",
    )

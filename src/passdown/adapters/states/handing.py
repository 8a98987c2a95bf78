"""The context that travels with a handoff inside a program: made by the sender, found by the
receiver.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.adapters.states.plain_values import plain
from passdown.errors import InvalidInput, Problem
from passdown.model.bodies import decision_from_body
from passdown.model.handoff import HandoffContext
from passdown.model.intake import check_entry
from passdown.model.names import agent_problems
from passdown.model.text import text_problems
from passdown.model.times import parse_time, stamp
from passdown.workspace import Workspace
from passdown.workspace.beside import Beside

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from passdown.aio import AsyncWorkspace

    AnyWorkspace = Workspace | AsyncWorkspace

Plain = dict[str, Any]

_LOG = logging.getLogger("passdown.states")
_SUMMARY_LENGTH = 2_000


class Sorted(NamedTuple):
    """Decisions that are as they should be, and a warning for each that isn't."""

    good: list[Plain]
    warnings: list[Plain]


def sort_decisions(entries: object, *, agent: str = "", path: str = "decisions") -> Sorted:
    """Decisions as plain data, each signed by `agent` unless it names its own.

    What isn't a decision is left out with a warning, in the log and in the answer; the rest goes
    on.
    """
    listed = cast("Sequence[object]", entries) if isinstance(entries, list | tuple) else [entries]
    good: list[Plain] = []
    warnings: list[Plain] = []
    for index, entry in enumerate(listed if entries is not None else []):
        data, problems = _decision(entry, f"{path}[{index}]")
        if problems:
            told = "; ".join(problem.line() for problem in problems)
            where = f"{path}[{index}]"
            _LOG.warning("%s is skipped: %s", where, told, extra={"agent": agent, "field": where})
            warning = {"code": "invalid_decision", "path": where, "message": told}
            warnings.append({**warning, "agent": agent} if agent else warning)
        else:
            good.append(data if data.get("agent") else {**data, "agent": agent})
    return Sorted(good, warnings)


def _decision(entry: object, path: str) -> tuple[Plain, list[Problem]]:
    try:
        data = plain(entry, path)
    except InvalidInput as error:
        return {}, list(error.problems)
    if isinstance(data, dict):
        data = {k: v for k, v in cast("Plain", data).items() if v is not None}
    problems = [p for p in check_entry("decision", data)[1] if p.level == "error"]
    return data, problems


def handoff_update(
    state: Mapping[str, Any],
    target: str,
    *,
    workspace: AnyWorkspace | None = None,
    task: str = "",
    decisions: Iterable[object] | None = None,
    memory_refs: Iterable[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Plain:
    """The update that hands a state on to `target`: its context, and who is next.

    What isn't given is gathered: what the current agent has decided since the work was handed on
    last, by the state and by the task, and the addresses of what the task has to look up, after
    those of the context before. `state` is not changed. Decisions that aren't any are left out,
    with an entry in `warnings`.
    """
    wrong = agent_problems(target, "target") if target else []
    if wrong:
        raise InvalidInput("nothing was handed on", wrong)
    opened = workspace_of(workspace) if workspace is not None else None
    source = str(state.get("current_agent") or "")
    before = known_context(state)
    found: HandoffContext | None = None
    if opened is not None and task and (decisions is None or memory_refs is None):
        since = handed_on_at(before, task)
        found = opened.handoff_context(task, agent=source, since=since)
    given = _own(state, before, found, source) if decisions is None else list(decisions)
    good, warnings = sort_decisions(given, agent=source)
    refs = _references(before, found) if memory_refs is None else list(memory_refs)
    at = Beside(opened).now() if opened is not None else datetime.now(UTC)
    context: Plain = {
        "source": source,
        "target": target,
        "at": stamp(at),
        "decisions": good,
        "memory_refs": refs,
        "metadata": {**({"task": task} if task else {}), **plain(metadata or {}, "metadata")},
    }
    update: Plain = {"current_agent": target, "handoff_context": context}
    return {**update, "warnings": warnings} if warnings else update


async def ahandoff_update(state: Mapping[str, Any], target: str, **given: Any) -> Plain:
    """`handoff_update`, awaited: reading the workspace doesn't hold up the loop."""
    return await asyncio.to_thread(handoff_update, state, target, **given)


def context_of(state: Mapping[str, Any]) -> HandoffContext | None:
    """What the last agent left for the current one; None where nothing was handed on yet."""
    context = known_context(state)
    if not context:
        return None
    good = sort_decisions(context["decisions"], path="handoff_context.decisions").good
    return HandoffContext(
        source=context["source"],
        target=context["target"],
        at=parse_time(context["at"]),
        decisions=tuple(decision_from_body(entry) for entry in good),
        memory_refs=tuple(context["memory_refs"]),
        metadata=context["metadata"],
    )


def known_context(state: Mapping[str, Any]) -> Plain:
    """A state's handoff context; empty where there is none, InvalidInput if it isn't one."""
    context: object = state.get("handoff_context")
    if not context:
        return {}
    fields = cast("Plain", context) if isinstance(context, dict) else {}
    missing = [name for name in HandoffContext.__dataclass_fields__ if name not in fields]
    if missing:
        problem = Problem(
            "handoff_context", "required", f"has no {', '.join(missing)}", "a context"
        )
        step = "Leave it to handoff_update to make one."
        raise InvalidInput("the state can't be used", [problem], next_step=step)
    return fields


def workspace_of(workspace: AnyWorkspace) -> Workspace:
    """The workspace itself, also of one that is awaited. Raises InvalidInput for anything else."""
    found: object = getattr(workspace, "_workspace", workspace)
    if isinstance(found, Workspace):
        return found
    given, expected = f"{type(workspace).__name__} given", "an open workspace"
    problem = Problem("workspace", "wrong_type", given, expected, "open one with passdown.open")
    raise InvalidInput("nothing can be recorded there", [problem])


def handed_on_at(context: Plain, task: str) -> int:
    """The version of a task by which a context was handed on; 0 where it wasn't."""
    known: Plain = context.get("metadata") or {}
    version: object = known.get("version") if known.get("task") == task else 0
    return version if isinstance(version, int) else 0


def _own(
    state: Mapping[str, Any], before: Plain, found: HandoffContext | None, source: str
) -> list[object]:
    """An agent's new decisions: of the state, then those of the task that the state lacks."""
    decided: int = before.get("hop", {}).get("decided", 0)
    listed: Sequence[object] = state.get("decisions") or ()
    own = [each for each in listed[decided:] if _maker(each) in (source, "")]
    known = {_saying(each) for each in own}
    return own + [each for each in (found.decisions if found else ()) if _saying(each) not in known]


def _maker(decision: object) -> object:
    if isinstance(decision, Mapping):
        return cast("Mapping[str, object]", decision).get("agent") or ""
    return getattr(decision, "agent", "")


def _saying(decision: object) -> tuple[object, object]:
    if isinstance(decision, Mapping):
        fields = cast("Mapping[str, object]", decision)
        return str(fields.get("summary")), str(fields.get("rationale"))
    return getattr(decision, "summary", None), getattr(decision, "rationale", None)


def _references(before: Plain, found: HandoffContext | None) -> list[str]:
    """Item addresses: those that came with the last handoff, then what the task has since."""
    now = found.memory_refs if found else ()
    return [*dict.fromkeys([*before.get("memory_refs", ()), *now])]


def summary_of(agent: str, update: Mapping[str, Any]) -> str:
    """What an agent's turn was, for a handoff without a summary: its last words, or what it set."""
    messages: object = update.get("messages")
    listed = cast("list[object]", messages) if isinstance(messages, list) else [messages]
    last = listed[-1] if listed else None
    is_dict = isinstance(last, dict)
    content = cast("Plain", last).get("content") if is_dict else getattr(last, "content", last)
    text = _words(content)
    if text and not text_problems(text, "summary"):
        return text if len(text) <= _SUMMARY_LENGTH else f"{text[:_SUMMARY_LENGTH]}..."
    fields = [name for name in update if name not in ("handoff", "warnings") and update[name]]
    return f"{agent} set {', '.join(fields)}." if fields else f"{agent} returned nothing."


def _words(content: object) -> str:
    """The text of a message's content, which some models give in blocks."""
    if isinstance(content, str):
        return content
    blocks = cast("list[object]", content) if isinstance(content, list) else []
    texts = [cast("Plain", each).get("text") if isinstance(each, dict) else each for each in blocks]
    return "\n".join(each for each in texts if isinstance(each, str) and each)

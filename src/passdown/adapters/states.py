"""Shared state of agents in plain Python: handoff contexts, checksums, recorded runs.

`step` runs one agent and hands off, `AgentState` is the state's shape, `replay` rebuilds a run's
state from its record. No framework is needed.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import uuid
from collections.abc import Mapping
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.adapters.shared import async_twin, stored_keys, streams_of
from passdown.adapters.state_schema import (
    AgentState,
    Plain,
    add_decisions,
    add_messages,
    add_warnings,
    agent_state,
    apply_update,
    as_list,
    field_of,
    fields_of,
    message,
    plain,
    plain_text,
)
from passdown.core.handoff import Decision, HandoffContext
from passdown.core.intake import check_entry
from passdown.core.integrity import check_integrity, state_checksum
from passdown.core.record import canonical_bytes
from passdown.core.schema import aliases_of, value_of
from passdown.core.text import child_path, text_problems
from passdown.core.times import parse_time, stamp, utc_now
from passdown.errors import InvalidInput, NotFound, Problem
from passdown.tools.briefs import recording_workspace, workspace_of
from passdown.tools.payload import agent_name_of
from passdown.workspace.entries import handed_items
from passdown.workspace.streams import StreamEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from passdown.core.integrity import IntegrityReport
    from passdown.core.results import HandoffCommand
    from passdown.tools.briefs import AnyWorkspace
    from passdown.workspace.streams import WorkspaceStreams

_LOG = logging.getLogger("passdown.states")
_SUMMARY_LENGTH = 2_000


def check_decisions(
    entries: object, *, agent: str = "", path: str = "decisions"
) -> tuple[list[Plain], list[Plain]]:
    """Decisions as plain data, as they were given, each signed by `agent` unless it names its own;
    and warnings.

    What isn't a decision is left out with a warning, in the log and in the answer; the rest goes
    on. A field that decisions don't have stays where it is, with a warning.
    """
    good: list[Plain] = []
    warnings: list[Plain] = []
    for index, entry in enumerate(as_list(entries)):
        where = f"{path}[{index}]"
        data, problems = _decision(entry, where)
        if data:
            good.append(data if data.get("agent") else {**data, "agent": agent})
        else:
            text = "; ".join(problem.line() for problem in problems)
            _LOG.warning("%s is skipped: %s", where, text, extra={"agent": agent, "field": where})
            problems = [Problem(where, "invalid_decision", text)]
        warnings += problem_warnings(problems, agent)
    return good, warnings


def _decision(entry: object, path: str) -> tuple[Plain, list[Problem]]:
    """A decision, empty where it is none, and what is wrong with it or isn't declared."""
    try:
        data = plain(entry, path)
    except InvalidInput as error:
        return {}, list(error.problems)
    if isinstance(data, dict):
        data = {k: v for k, v in cast("Plain", data).items() if v is not None}
    checked, problems = check_entry("decision", data)
    placed = [each._replace(path=child_path(path, each.path)) for each in problems]
    return (data if checked else {}), placed


def problem_warnings(problems: Iterable[Problem], agent: str = "") -> list[Plain]:
    """Problems as warnings for the state."""
    return [
        {"code": each.code, "path": each.path, "message": each.message}
        | ({"agent": agent} if agent else {})
        for each in problems
    ]


def check_refs(refs: Iterable[object]) -> tuple[list[str], list[Problem]]:
    """References that are text, each once, and a problem for each that isn't."""
    found: dict[str, None] = {}
    problems: list[Problem] = []
    for index, ref in enumerate(refs):
        if isinstance(ref, str) and ref.strip():
            found[ref] = None
        else:
            message = f"{type(ref).__name__} given" if ref != "" else "is empty"
            problems.append(Problem(f"memory_refs[{index}]", "wrong_type", message, "a key"))
    return [*found], problems


def handoff_update(
    state: Mapping[str, Any],
    target: str,
    *,
    workspace: AnyWorkspace | None = None,
    task: str = "",
    decisions: Iterable[object] | None = None,
    memory_refs: Iterable[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    recorded: HandoffCommand | None = None,
) -> Plain:
    """The update that hands a state off to `target`: the handoff context and the next agent.

    By default, `decisions` are those of the current agent since the last handoff, from the state
    and from the task, and `memory_refs` the addresses of the previous context and of the task's
    items. `state` is not changed. Invalid decisions are left out, with an entry in `warnings`. From
    a handoff that was just `recorded` they are taken without reading the task again.
    """
    target = agent_name_of(target, "target") if target else ""
    opened = workspace_of(workspace) if workspace is not None else None
    source = str(state.get("current_agent") or "")
    before = handoff_context_of(state)
    found: tuple[tuple[Decision, ...], tuple[str, ...]] = (), ()
    if opened is not None and task and (decisions is None or memory_refs is None):
        since = handoff_version(before, task)
        if recorded is not None and recorded.version == since + 1:
            lists: dict[str, list[Plain]] = recorded.state_delta["add"]
            added = [(d["address"].rpartition("#")[2][0], d) for v in lists.values() for d in v]
            found = handed_items(sorted(added, key=itemgetter(0)), source)
        else:
            read = opened.context.handoff_context(task, agent=source, since=since)
            found = read.decisions, read.memory_refs
    given = list(decisions or ())
    if decisions is None:
        given = _new_decisions(state, before, found[0], source)
    good, warnings = check_decisions(given, agent=source)
    if decisions is None:  # those of the state were looked at when they came
        warnings = [each for each in warnings if each["code"] != "unknown_field"]
    if memory_refs is None:
        memory_refs = [*before.get("memory_refs", ()), *found[1]]
    refs, problems = check_refs(memory_refs)
    warnings += problem_warnings(problems, source)
    at = streams_of(opened).now() if opened is not None else utc_now()
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


def _new_decisions(
    state: Mapping[str, Any], before: Plain, recorded: Iterable[Decision], source: str
) -> list[object]:
    """An agent's new decisions: of the state, then those of the task that the state lacks."""
    listed = as_list(state.get("decisions"))[before.get("hop", {}).get("decided", 0) :]
    own = [each for each in listed if (field_of(each, "agent") or "") in (source, "")]
    known = {(field_of(each, "summary"), field_of(each, "rationale")) for each in own}
    return own + [each for each in recorded if (each.summary, each.rationale) not in known]


def context_of(state: Mapping[str, Any]) -> HandoffContext | None:
    """The context of the last handoff; None before the first one."""
    context = handoff_context_of(state)
    if not context:
        return None
    good, _ = check_decisions(context["decisions"], path="handoff_context.decisions")
    return HandoffContext(
        source=context["source"],
        target=context["target"],
        at=parse_time(context["at"]),
        # A decision without a time has that of its handoff.
        decisions=tuple(
            value_of(Decision, {**entry, "at": entry.get("at") or context["at"]})
            for entry in (check_entry("decision", each)[0] for each in good)
        ),
        memory_refs=tuple(context["memory_refs"]),
        metadata=context["metadata"],
    )


def handoff_context_of(state: Mapping[str, Any]) -> Plain:
    """A state's handoff context; empty where there is none, InvalidInput if it isn't one.

    It may also be a `HandoffContext`, or have the names that one takes too.
    """
    context: object = state.get("handoff_context")
    if not context:
        return {}
    given = plain(context) if isinstance(context, HandoffContext) else context
    fields = cast("Plain", given) if isinstance(given, dict) else {}
    if fields.keys() >= HandoffContext.__dataclass_fields__.keys():
        return fields
    names = aliases_of(HandoffContext)
    fields = {names.get(name, name): value for name, value in fields.items()}
    missing = [name for name in ("source", "target") if name not in fields]
    if missing:
        message = f"has no {', '.join(missing)}"
        problem = Problem("handoff_context", "required", message, "a context")
        step = "Leave it to handoff_update to make one."
        raise InvalidInput("the state can't be used", [problem], next_step=step)
    unset: Plain = {"at": stamp(utc_now()), "decisions": [], "memory_refs": [], "metadata": {}}
    return {**unset, **fields}


def handoff_version(context: Plain, task: str) -> int:
    """The task version of the handoff that a context belongs to; 0 without one."""
    known: Plain = context.get("metadata") or {}
    version: object = known.get("version") if known.get("task") == task else 0
    return version if isinstance(version, int) else 0


def summary_of(agent: str, update: Mapping[str, Any]) -> str:
    """What an agent's turn was, for a handoff without a summary: its last words, or what it set."""
    last: object = next(iter(as_list(update.get("messages"))[-1:]), None)
    content = last if isinstance(last, str) else field_of(last, "content")
    # Some models give a message's content in blocks.
    blocks = [
        each if isinstance(each, str) else field_of(each, "text") for each in as_list(content)
    ]
    text = "\n".join(each for each in blocks if isinstance(each, str) and each)
    if text and not text_problems(text, "summary"):
        return text if len(text) <= _SUMMARY_LENGTH else f"{text[:_SUMMARY_LENGTH]}..."
    fields = [name for name in update if name not in ("handoff", "warnings") and update[name]]
    return f"{agent} set {', '.join(fields)}." if fields else f"{agent} returned nothing."


HANDOFF_FIELDS = frozenset({"current_agent", "handoff_context"})
"""The fields that a handoff is there to change."""

_CHANGED_BETWEEN = "Pass the state on unchanged: only an agent's own turn may change it."
_CHANGED_IN_PLACE = "Return what is new instead of changing the state that was given."


def checksums(
    state: Mapping[str, Any], unchecked: Collection[str] = HANDOFF_FIELDS
) -> dict[str, str]:
    """The checksum of each field of a state by value, but for those that aren't checked."""
    texts = {n: plain_text(state[n], n) for n in sorted(state) if n not in unchecked}
    return {
        name: (_kept_checksum if len(text) < _KEPT_LENGTH else _checksum)(name, text)
        for name, text in texts.items()
    }


_KEPT_LENGTH = 20_000


def _checksum(name: str, text: str) -> str:
    return state_checksum({name: text}, exclude=())


_kept_checksum = lru_cache(64)(_checksum)
"""A turn takes the checksums of the same values several times."""


def verify_handoff(
    state: Mapping[str, Any], *, strict: bool = False, now: Mapping[str, str] | None = None
) -> IntegrityReport | None:
    """Compare a state with the checksums that its handoff context brought; None without any.

    Differences are named by field, logged to `passdown.integrity` and, when `strict`, raised as
    IntegrityViolation. `now` are the state's checksums, where they have been taken already.
    """
    context = handoff_context_of(state)
    hop: dict[str, Any] = context.get("hop") or {}
    if not hop or hop.get("run") != state.get("run", ""):
        return None
    skip = {*HANDOFF_FIELDS, *hop["unchecked"]}
    found = checksums(state, skip) if now is None else now
    return check_integrity(
        cast("dict[str, str]", hop["checksums"]),
        {name: value for name, value in found.items() if name not in skip},
        exclude=(),
        source=context["source"],
        target=context["target"],
        strict=strict,
        next_step=_CHANGED_BETWEEN,
    )


def difference_warnings(
    before: Mapping[str, str],
    after: Mapping[str, str],
    source: str,
    target: str,
    *,
    strict: bool,
    next_step: str,
) -> list[Plain]:
    """Log where two lists of checksums differ, and give that as warnings for the state."""
    report = check_integrity(
        before,
        after,
        exclude=(),
        source=source,
        target=target,
        strict=strict,
        next_step=next_step,
    )
    return integrity_warnings(report, source, target)


def integrity_warnings(report: IntegrityReport | None, source: str, target: str) -> list[Plain]:
    """The differences of a report as warnings for the state."""
    if report is None or report.ok:
        return []
    found = {kind: list(getattr(report, kind)) for kind in ("changed", "missing", "added")}
    where = {"code": "integrity", "source": source, "target": target}
    return [where | {kind: fields for kind, fields in found.items() if fields}]


GRAPH_STREAM = "graph/"
_STARTED, _STEPPED = "graph_started", "graph_stepped"


class Transition(NamedTuple):
    """One agent's turn: what it returned, and where the work went by which condition.

    `id` names the turn, `after` the turns that handed the work to it.
    """

    run: str
    step: int
    source: str
    targets: tuple[str, ...]
    condition: str
    update: Plain
    version: int
    path: tuple[str, ...]
    id: str
    after: tuple[str, ...]


_TUPLES = ("targets", "path", "after")
_RECORDED = ("id", "after", "step", "targets", "condition", "update", "version", "path")


class _RunHistory(NamedTuple):
    """What is on record of a run: how it began, and its turns."""

    began: Plain
    steps: list[Transition]


def record_start(
    workspace: AnyWorkspace, run: str, task: str, state: Mapping[str, Any], entry: Route
) -> None:
    """Record the state that a run begins with, where it goes first and why."""
    streams = streams_of(workspace)
    first = {"task": task, "targets": [*entry.targets], "condition": entry.condition}
    body = {**first, **_initial_state(streams, state)}
    streams.add(StreamEntry(GRAPH_STREAM + run, _STARTED, "graph", body))


def _initial_state(streams: WorkspaceStreams, state: Mapping[str, Any]) -> Plain:
    """A run's first state: all of it, or what the run before didn't end with."""
    context = handoff_context_of(state)
    hop: Plain = context.get("hop") or {}
    last = streams.last(GRAPH_STREAM + hop.get("run", "")) if hop.get("exact") else None
    if last is None or last.document().get("update", {}).get("handoff_context") != plain(context):
        return {"state": plain(state)}
    before: dict[str, str] = hop["checksums"]
    same = ["handoff_context", *(n for n, s in checksums(state).items() if s == before.get(n))]
    added: Plain = {}
    for name, length in hop["lengths"].items():
        listed: Any = state.get(name)
        if name in same or not isinstance(listed, list):
            continue
        if checksums({name: listed[:length]})[name] == before.get(name):
            added[name] = listed[length:]
    rest = {name: state[name] for name in state if name not in same and name not in added}
    base = [hop["run"], last.position]
    return {"base": base, "same": same, "added": plain(added), "state": plain(rest)}


def record_step(hop: StepConfig, turn: Transition) -> None:
    """Record one agent's turn, for `transitions` and `replay`."""
    body = {name: getattr(turn, name) for name in _RECORDED}
    body |= {name: list(body[name]) for name in _TUPLES} | {"update": plain(turn.update)}
    entry = StreamEntry(GRAPH_STREAM + turn.run, _STEPPED, turn.source, body)
    (hop.add_later or streams_of(hop.workspace).add)(entry)


def transitions(workspace: AnyWorkspace, run: str) -> list[Transition]:
    """The turns of a run in the order in which they took effect.

    A turn that was taken again, after a crash, a pause or a step back to an earlier checkpoint,
    counts as it was taken last, and what had followed it doesn't count. Raises NotFound for an
    unknown run.
    """
    return _run_history(workspace, run).steps


def start_of(workspace: AnyWorkspace, run: str, state: type[Any] = AgentState) -> Plain:
    """What a run began with: `task`, `state`, `targets` and `condition`."""
    last, *earlier = _histories(workspace, run)
    return {**last.began, "state": _started_state(last.began, _fold_histories(earlier, state))}


def runs(workspace: AnyWorkspace) -> list[str]:
    """The names of all recorded runs."""
    heads = streams_of(workspace).streams(GRAPH_STREAM)
    return [head.stream.removeprefix(GRAPH_STREAM) for head in heads]


def replay(workspace: AnyWorkspace, run: str, state: type[Any] = AgentState) -> Plain:
    """The state that a run ended with, made again from its record; no agent is asked.

    It is plain JSON, as `plain` makes it of the graph's own result. Secrets that were removed from
    the record are missing in it.
    """
    return plain(_fold_histories(_histories(workspace, run), state))


def _histories(workspace: AnyWorkspace, run: str) -> list[_RunHistory]:
    """A run and those that it goes back to, the last one first."""
    found = [_run_history(workspace, run)]
    while "base" in found[-1].began:
        found.append(_run_history(workspace, *found[-1].began["base"]))
    return found


def _fold_histories(histories: list[_RunHistory], schema: type[Any]) -> Plain:
    state: Plain = {}
    for history in reversed(histories):
        state = _started_state(history.began, state)
        for each in history.steps:
            state = apply_update(state, each.update, schema)
    return state


def _started_state(began: Plain, before: Plain) -> Plain:
    """The state that a run began with, after the one that it goes back to."""
    same = {name: before[name] for name in began.get("same", ())}
    longer = {name: [*before[name], *new] for name, new in began.get("added", {}).items()}
    return {**same, **longer, **began["state"]}


def _run_history(workspace: AnyWorkspace, run: str, until: int | None = None) -> _RunHistory:
    records = streams_of(workspace).records(GRAPH_STREAM + run)[:until]
    if not records:
        raise NotFound(f"there is no run {run[:80]!r}", next_step="List them with runs().")
    found: list[Transition] = []
    left: set[tuple[str, ...]] = set()
    for record in records[1:]:
        body = record.document()
        fields: Plain = {name: body[name] for name in _RECORDED}
        fields |= {name: tuple(body[name]) for name in _TUPLES}
        new = Transition(run=run, source=record.author, **fields)
        if new.after in left:
            found = _without_repeated(found, new)
        left.add(new.after)
        found.append(new)
    return _RunHistory(records[0].document(), sorted(found, key=lambda t: (t.step, t.path)))


def _without_repeated(found: list[Transition], new: Transition) -> list[Transition]:
    """The turns without those that a new one from the same place takes the place of, and without
    what followed these. Other agents in the same step were at work at the same time: they stay.
    """
    gone: set[str] = set()
    kept: list[Transition] = []
    for each in found:
        is_other = each.step == new.step and each.path != new.path
        is_repeated = each.after == new.after and not is_other
        if is_repeated or not gone.isdisjoint(each.after):
            gone.add(each.id)
        else:
            kept.append(each)
    return kept


NOT_IN_STATE = ("handoff", "memory_refs")
"""Fields of a node's output that are about its handoff and don't become part of the state."""

MAX_UPDATE_BYTES = 2 * 1_048_576
"""How large a turn's update may be: with its context, which repeats its decisions, it has to fit
into one record.
"""


class Route(NamedTuple):
    """Where the work goes, and the name of the condition that said so; empty without one."""

    targets: tuple[str, ...]
    condition: str = ""

    @property
    def first(self) -> str:
        """The first receiver; empty where there is none."""
        return next(iter(self.targets), "")


class StepConfig(NamedTuple):
    """What every turn of one agent has in common; `task` may be a function of each.

    `add_later` takes the record of a turn and writes it with the next checkpoint.
    """

    agent: str
    workspace: AnyWorkspace
    task: Any
    schema: type[Any] = AgentState
    strict: bool = False
    add_later: Callable[[StreamEntry], object] | None = None


def check_step_config(hop: StepConfig) -> StepConfig:
    """The configuration, with the agent's id, if it can hand off; else InvalidInput or
    PassdownError.
    """
    recording_workspace(hop.workspace, "step and handoff_node")
    fields_of(hop.schema)
    return hop._replace(agent=agent_name_of(hop.agent, "agent"))


def begin_turn(
    hop: StepConfig, state: Mapping[str, Any], *, step: int = 0, path: Sequence[str] = ()
) -> AgentTurn:
    """Verify what arrives and make the agent's view of it, in which it is the current agent.

    A state without a run begins one. Raises IntegrityViolation when `strict` and the state isn't
    what was handed off.
    """
    before = checksums(state)
    report = verify_handoff(state, strict=hop.strict, now=before)
    context = handoff_context_of(state)
    warnings = integrity_warnings(report, context.get("source", ""), hop.agent)
    view = {**state, "current_agent": hop.agent}
    if hop.agent in context.get("hop", {}).get("targets", ()):
        view["handoff_context"] = {**context, "target": hop.agent}
    begins = not state.get("run")
    if begins:
        view["run"] = uuid.uuid4().hex
        start = {**state, "run": view["run"]}
        record_start(hop.workspace, view["run"], hop.task, start, Route((hop.agent,)))
        before |= checksums({"run": view["run"]})
    number = step or context.get("hop", {}).get("step", 0) + 1
    return AgentTurn(hop, view, before, warnings, begins, number, tuple(path) or (hop.agent,), [])


class AgentTurn(NamedTuple):
    """One turn as it began: the agent's own view of the state, and the state's checksums.

    `begins` says that the run began with it. `step` and `path` order turns at the same time.
    `stored` collects the keys of memories that are stored in it.
    """

    hop: StepConfig
    view: Plain
    before: dict[str, str]
    warnings: list[Plain]
    begins: bool
    step: int
    path: tuple[str, ...]
    stored: list[str]

    @property
    def run(self) -> str:
        """The name of the run."""
        return self.view["run"]

    @property
    def received(self) -> Plain:
        """What the turns before it in this run left; empty for a run's first."""
        hop: Plain = handoff_context_of(self.view).get("hop") or {}
        return hop if hop.get("run") == self.run else {}

    def end(self, output: object, choose: Callable[[Plain], Route]) -> tuple[Plain, Route]:
        """Hand the work on after an agent's turn: check, record, and make the update for the state.

        The update holds all that the agent returned, its decisions checked and signed, and the
        context for the next agent with the checksums of what it has to find. `choose` says from the
        state that results where the work goes. What the agent returned as `memory_refs`, and
        the keys of memories that it stored in its turn, are among the context's references.
        """
        agent, schema = self.hop.agent, self.hop.schema
        update = _output_fields(output)
        named: Any = [] if "memory_refs" in fields_of(schema) else update.pop("memory_refs", [])
        refs, problems = check_refs([*as_list(named), *self.stored])
        warnings = problem_warnings(problems, agent)
        if "decisions" in update:
            update["decisions"], found = check_decisions(update["decisions"], agent=agent)
            warnings += found
        _check_size(update)
        merged = apply_update(self.view, state_fields(update), schema)
        route = choose(merged)
        warnings += [*self.warnings, *self._changed_in_place(route)]
        handoff, command = self._record_handoff(update, route, refs)
        warnings += problem_warnings(_lost(command), agent)
        added = self._next_context(merged, route, handoff, command)
        context = added["handoff_context"]
        context["memory_refs"] = [*dict.fromkeys([*refs, *context["memory_refs"]])]
        warnings += added.pop("warnings", [])
        joined = add_warnings(update.get("warnings"), warnings)
        update |= {**added, **({"warnings": joined} if joined else {})}
        update |= {"run": self.run} if self.begins else {}
        self.finish(update, route, handoff["version"])
        return update, route

    def finish(self, update: Plain, route: Route, version: int) -> None:
        """Put into an update's context what the next agent has to find, and record the turn."""
        kept = state_fields(update)
        left = apply_update(self.view, kept, self.hop.schema)
        name, received = uuid.uuid4().hex, self.received
        codes = [field_of(each, "code") for each in update.get("warnings") or ()]
        update["handoff_context"]["hop"] = {
            "id": name,
            "run": self.run,
            "step": self.step,
            "targets": [*route.targets],
            "condition": route.condition,
            "decided": len(left.get("decisions") or ()),
            "checksums": checksums(left),
            "lengths": {n: len(left[n]) for n in left if isinstance(left[n], list)},
            # Whether the run's record gives this very state: nobody changed it past the record.
            "exact": received.get("exact", True) and "integrity" not in codes,
            "unchecked": [],
            "wrote": sorted(kept),
        }
        after = (received["id"], *received.get("also", ())) if received else ()
        source, step, path = self.hop.agent, self.step, self.path
        turn = Transition(self.run, step, source, *route, kept, version, path, name, after)
        record_step(self.hop, turn)

    def _changed_in_place(self, route: Route) -> list[Plain]:
        """Warnings for what an agent changed in place, in the state that it was only shown."""
        now, ends = checksums(self.view), (self.hop.agent, route.first)
        return difference_warnings(
            self.before, now, *ends, strict=self.hop.strict, next_step=_CHANGED_IN_PLACE
        )

    def _next_context(
        self, merged: Plain, route: Route, handoff: Plain, command: HandoffCommand | None
    ) -> Plain:
        """The context for the next agent: what is new is what came after the context before.

        That one has the references of one that came about meanwhile: a graph inside this node, or a
        tool, may have handed off.
        """
        hop = self.hop
        received, brought = handoff_context_of(self.view), handoff_context_of(merged)
        began: Plain = received or ({**brought, "metadata": {}, "hop": {}} if brought else {})
        earlier = [*received.get("memory_refs", ()), *brought.get("memory_refs", ())]
        previous = {**began, "memory_refs": earlier} if began else {}
        sending = {**merged, "current_agent": hop.agent, "handoff_context": previous}
        update = handoff_update(
            sending,
            route.first,
            workspace=hop.workspace,
            task=hop.task,
            metadata=handoff,
            recorded=command,
        )
        return update if route.first else {**update, "current_agent": hop.agent}

    def _record_handoff(
        self, update: Plain, route: Route, refs: list[str]
    ) -> tuple[Plain, HandoffCommand | None]:
        """Record the handoff, one for each receiver, and give its version and digest, and its
        command. The first has what was done and decided, all have what to look up. One that the
        agent's own tool has recorded isn't recorded again.
        """
        workspace, agent = workspace_of(self.hop.workspace), self.hop.agent
        known = self._recorded_by_tool(handoff_context_of(update))
        if known is not None:
            return known, None
        document = self._handoff_document(update)
        named = [*as_list(document.get("memory_refs")), *refs]
        document["memory_refs"] = [ref for at, ref in enumerate(named) if ref not in named[:at]]
        first, *others = route.targets or ("",)
        command = workspace.hand_off({**document, "to_agent": "" if first == agent else first})
        kept = ("task", "from_agent", "summary", "metadata", "memory_refs")
        for other in (each for each in others if each != agent):
            also = {name: document[name] for name in kept}
            workspace.hand_off({**also, "outcome": "completed", "to_agent": other})
        return {"version": command.version, "digest": command.digest}, command

    def _recorded_by_tool(self, brought: Plain) -> Plain | None:
        """The handoff that a context from within this turn speaks of, if the ledger has it."""
        task = self.hop.task
        version = handoff_version(brought, task)
        if not brought or brought["source"] != self.hop.agent:
            return None
        if version <= handoff_version(handoff_context_of(self.view), task):
            return None
        found = workspace_of(self.hop.workspace).log(task, limit=1, before=version + 1)
        digest = brought["metadata"].get("digest", "")
        is_it = found and (found[0].kind, found[0].digest) == ("handoff", digest)
        return {"version": version, "digest": digest} if is_it else None

    def _handoff_document(self, update: Plain) -> Plain:
        """The handoff as the agent put it in `handoff`, completed from what it returned."""
        given = plain(update.get("handoff") or {}, "handoff")
        if not isinstance(given, dict):
            problem = Problem("handoff", "wrong_type", f"{type(given).__name__} given", "a handoff")
            raise InvalidInput("nothing was handed off", [problem])
        document: Plain = {"outcome": "completed", **cast("Plain", given)}
        document.setdefault("summary", summary_of(self.hop.agent, update))
        known: list[Plain] = list(document.get("decisions") or ())
        new = [each for each in update.get("decisions", ()) if each not in known]
        document["decisions"] = [*known, *new]
        about = {"run": self.run, "step": self.step}
        document["metadata"] = {**(document.get("metadata") or {}), **about}
        return {**document, "task": self.hop.task, "from_agent": self.hop.agent}


def _lost(command: HandoffCommand | None) -> list[Problem]:
    """Warnings about unknown fields that a handoff lost; decisions keep theirs."""
    unknown = [p for p in (command.warnings if command else ()) if p.code == "unknown_field"]
    return [each for each in unknown if not each.path.startswith("decisions[")]


def state_fields(update: Plain) -> Plain:
    """What of an update becomes part of the state: not what it says to the ledger alone."""
    return {name: value for name, value in update.items() if name != "handoff"}


def _check_size(update: Plain) -> None:
    """Refuse what can't be recorded before anything is."""
    size = len(canonical_bytes(plain(state_fields(update))))
    if size > MAX_UPDATE_BYTES:
        given, expected = f"{size:,} bytes in one turn", f"at most {MAX_UPDATE_BYTES:,} bytes"
        step = "Keep large values in files, and pass their paths."
        problem = Problem("", "too_large", given, expected)
        raise InvalidInput("the agent's turn can't be handed off", [problem], next_step=step)


def _output_fields(output: object) -> Plain:
    if output is None:
        return {}
    if isinstance(output, Mapping):
        given = cast("Mapping[str, Any]", output)
        # A graph inside the graph has a run of its own.
        return {name: value for name, value in given.items() if name != "run"}
    problem = Problem("", "wrong_type", f"{type(output).__name__} returned", "a dict or None")
    raise InvalidInput("the agent's turn can't be handed off", [problem])


def step(
    node: Callable[[Any], Any],
    state: Mapping[str, Any],
    *,
    agent: str,
    to: str = "",
    workspace: AnyWorkspace,
    task: str,
    schema: type[Any] = AgentState,
    strict: bool = False,
) -> Plain:
    """Run one agent on a state, hand the work on to `to`, and give the state for it.

    `node` takes the state and returns an update. The handoff is recorded; what arrives is what
    was handed off, or the difference is logged, noted in `warnings` and, when `strict`, raised as
    IntegrityViolation.
    """
    hop = check_step_config(StepConfig(agent, workspace, task, schema, strict))
    turn = begin_turn(hop, state)
    with stored_keys(turn.stored):
        output = node(turn.view)
    return _after_turn(turn, state, output, to)


async def astep(
    node: Callable[[Any], Any], state: Mapping[str, Any], *, to: str = "", **options: Any
) -> Plain:
    """`step`, awaited: takes what that takes; `node` may be a coroutine function or a plain one."""
    hop = check_step_config(StepConfig(**options))
    turn = await asyncio.to_thread(begin_turn, hop, state)
    with stored_keys(turn.stored):
        output = node(turn.view)
        if inspect.isawaitable(output):
            output = await output
    return await asyncio.to_thread(_after_turn, turn, state, output, to)


def _after_turn(turn: AgentTurn, state: Mapping[str, Any], output: object, target: str) -> Plain:
    """The state with a turn's update, verified as the receiver will."""
    route = Route((agent_name_of(target, "to"),) if target else ())
    update, _ = turn.end(output, lambda _: route)
    arrived = apply_update(state, state_fields(update), turn.hop.schema)
    verify_handoff(arrived, strict=turn.hop.strict)
    return arrived


class SharedState:
    """One state behind a lock: every update is joined to the newest, none is lost."""

    def __init__(self, state: Mapping[str, Any], schema: type[Any] = AgentState) -> None:
        """Starts with a copy of `state`; InvalidInput unless it is plain data."""
        self._schema = schema
        self._lock = threading.Lock()
        self._state: Plain = plain(state)

    def read(self) -> Plain:
        """A copy of the state as it is now."""
        with self._lock:
            return plain(self._state)

    def update(self, update: Mapping[str, Any]) -> Plain:
        """Join an update to the state and give a copy of the result."""
        copied = plain(update)
        with self._lock:
            self._state = apply_update(self._state, copied, self._schema)
            return plain(self._state)

    def hand_on(self, target: str, **given: Any) -> HandoffContext | None:
        """Hand the state on; takes what `handoff_update` takes. Nobody can write in between."""
        with self._lock:
            update = handoff_update(self._state, target, **given)
            self._state = apply_update(self._state, update, self._schema)
            return context_of(self._state)

    aread = async_twin(read)
    aupdate = async_twin(update)
    ahand_on = async_twin(hand_on)


__all__ = [
    "AgentState",
    "SharedState",
    "Transition",
    "add_decisions",
    "add_messages",
    "add_warnings",
    "agent_state",
    "ahandoff_update",
    "apply_update",
    "astep",
    "context_of",
    "handoff_update",
    "message",
    "plain",
    "replay",
    "runs",
    "step",
    "transitions",
    "verify_handoff",
]

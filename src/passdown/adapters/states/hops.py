"""One agent's turn in a chain: what it is given, what it returns, and how the work is handed on.

`enter` and `leave` do their work in the calling thread; `step` and `astep` put them around an
agent for programs without a framework.
"""

from __future__ import annotations

import asyncio
import inspect
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.adapters.states.handing import (
    handed_on_at,
    handoff_update,
    known_context,
    sort_decisions,
    summary_of,
    workspace_of,
)
from passdown.adapters.states.integrity import (
    checksums,
    verify_handoff,
    verify_untouched,
    warnings_of,
)
from passdown.adapters.states.plain_values import plain
from passdown.adapters.states.reducers import add_warnings
from passdown.adapters.states.shape import AgentState, apply_update, fields_of
from passdown.adapters.states.transitions import Place, Transition, record_start, record_step
from passdown.errors import InvalidInput, Problem
from passdown.model.canonical import canonical_bytes
from passdown.model.names import agent_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from passdown.adapters.states.handing import AnyWorkspace

Plain = dict[str, Any]

LARGEST_UPDATE = 2 * 1_048_576
"""How large a turn's update may be: with its context, which repeats its decisions, it has to fit
into one record.
"""


class Route(NamedTuple):
    """Where the work goes, and the name of the condition that said so; empty without one."""

    targets: tuple[str, ...]
    condition: str = ""


class Hop(NamedTuple):
    """What every turn of one agent has in common."""

    agent: str
    workspace: AnyWorkspace
    task: str
    schema: type[Any] = AgentState
    strict: bool = False


class Turn(NamedTuple):
    """One turn as it began: the agent's own view of the state, and the state's checksums.

    `begins` says that the run began with it. `step` and `path` order turns at the same time.
    """

    view: Plain
    before: dict[str, str]
    warnings: list[Plain]
    begins: bool
    step: int
    path: tuple[str, ...]

    @property
    def run(self) -> str:
        """The name of the run."""
        return self.view["run"]

    @property
    def received(self) -> Plain:
        """What the turns before it in this run left; empty for a run's first."""
        hop: Plain = known_context(self.view).get("hop") or {}
        return hop if hop.get("run") == self.run else {}

    @property
    def after(self) -> tuple[str, ...]:
        """The names of the turns that handed the work to it."""
        return (self.received["id"], *self.received.get("also", ())) if self.received else ()


class Marked(NamedTuple):
    """A handoff's place in the task's history."""

    version: int
    digest: str


class Left(NamedTuple):
    """A turn as it ended: the update for the state, where the work goes, and its record."""

    update: Plain
    route: Route
    handoff: Marked


def checked_hop(hop: Hop) -> Hop:
    """The hop, if agent and task can be handed on at all; else InvalidInput or NotFound."""
    wrong = agent_problems(hop.agent, "agent")
    if wrong:
        raise InvalidInput("the node can't be wrapped", wrong)
    fields_of(hop.schema)
    return hop


def enter(hop: Hop, state: Mapping[str, Any], *, step: int = 0, path: Sequence[str] = ()) -> Turn:
    """Verify what arrives and make the agent's view of it, in which it is the current agent.

    A state without a run begins one. Raises IntegrityViolation when `strict` and the state isn't
    what was handed on.
    """
    before = checksums(state)
    report = verify_handoff(state, strict=hop.strict, now=before)
    context = known_context(state)
    warnings = warnings_of(report, context.get("source", ""), hop.agent)
    view = {**state, "current_agent": hop.agent}
    if hop.agent in context.get("hop", {}).get("targets", ()):
        view["handoff_context"] = {**context, "target": hop.agent}
    begins = not state.get("run")
    if begins:
        view["run"] = uuid.uuid4().hex
        start = {**state, "run": view["run"]}
        record_start(hop.workspace, view["run"], hop.task, start, ((hop.agent,), ""))
        before |= checksums({"run": view["run"]})
    number = step or context.get("hop", {}).get("step", 0) + 1
    return Turn(view, before, warnings, begins, number, tuple(path) or (hop.agent,))


def leave(hop: Hop, turn: Turn, output: object, choose: Callable[[Plain], Route]) -> Left:
    """Hand the work on after an agent's turn: check, record, and make the update for the state.

    The update holds all that the agent returned, its decisions checked and signed, and the
    context for the next agent with the checksums of what it has to find. `choose` says from the
    state that results where the work goes.
    """
    given = _given(output)
    good, warnings = sort_decisions(given.get("decisions"), agent=hop.agent)
    update: Plain = {**given, **({"decisions": good} if "decisions" in given else {})}
    _check_recordable(_kept(update))
    merged = apply_update(turn.view, _kept(update), hop.schema)
    route = choose(merged)
    warnings += [*turn.warnings, *_touched(hop, turn, route)]
    handoff = _recorded(hop, turn, update, route)
    passed = _passed_on(hop, turn, merged, route, handoff)
    warnings += passed.pop("warnings", [])
    update |= {**passed, **_joined(update, warnings)}
    update |= {"run": turn.run} if turn.begins else {}
    seal(hop, turn, update, route)
    note_step(hop, turn, update, route, version=handoff.version)
    return Left(update, route, handoff)


def _check_recordable(kept: Plain) -> None:
    """Refuse what can't be recorded before anything is."""
    size = len(canonical_bytes(plain(kept)))
    if size > LARGEST_UPDATE:
        given, expected = f"{size:,} bytes in one turn", f"at most {LARGEST_UPDATE:,} bytes"
        step = "Keep large values in files, and hand on their paths."
        problem = Problem("", "too_large", given, expected)
        raise InvalidInput("the agent's turn can't be handed on", [problem], next_step=step)


def note_step(hop: Hop, turn: Turn, update: Plain, route: Route, *, version: int) -> None:
    """Record a turn beside the task, for `transitions` and `replay`."""
    kept = _kept(update)
    given = (turn.run, turn.step, hop.agent, route.targets, route.condition, kept, version)
    place = Place(update["handoff_context"]["hop"]["id"], turn.after)
    record_step(hop.workspace, Transition(*given, turn.path), place)


def _kept(update: Plain) -> Plain:
    """What of an update becomes part of the state: not what it says to the ledger alone."""
    return {name: value for name, value in update.items() if name != "handoff"}


def _touched(hop: Hop, turn: Turn, route: Route) -> list[Plain]:
    """Warnings for what an agent changed in place, in the state that it was only shown."""
    target = next(iter(route.targets), "")
    report = verify_untouched(
        turn.before,
        turn.view,
        agent=hop.agent,
        target=target,
        strict=hop.strict,
    )
    return warnings_of(report, hop.agent, target)


def _given(output: object) -> Plain:
    if output is None:
        return {}
    if isinstance(output, Mapping):
        given = cast("Mapping[str, Any]", output)
        # A graph inside the graph has a run of its own.
        return {name: value for name, value in given.items() if name != "run"}
    problem = Problem("", "wrong_type", f"{type(output).__name__} returned", "a dict or None")
    raise InvalidInput("the agent's turn can't be handed on", [problem])


def _joined(update: Plain, warnings: list[Plain]) -> Plain:
    own: object = update.get("warnings")
    joined = add_warnings(own, warnings)
    return {"warnings": joined} if joined else {}


def _before(turn: Turn, merged: Plain) -> Plain:
    """The context that was received, with the references of one that came about meanwhile: a graph
    inside this node, or a tool, may have handed on.
    """
    received, brought = known_context(turn.view), known_context(merged)
    if not brought:
        return {}
    refs = [*received.get("memory_refs", ()), *brought["memory_refs"]]
    began = received or {**brought, "metadata": {}, "hop": {}}
    return {**began, "memory_refs": [*dict.fromkeys(refs)]}


def _passed_on(hop: Hop, turn: Turn, merged: Plain, route: Route, handoff: Marked) -> Plain:
    """The context for the next agent: what is new is what came after the context before."""
    target = next(iter(route.targets), "")
    given: Plain = {"workspace": hop.workspace, "task": hop.task, "metadata": handoff._asdict()}
    sending = {**merged, "current_agent": hop.agent, "handoff_context": _before(turn, merged)}
    update = handoff_update(sending, target, **given)
    if not target:
        update["current_agent"] = hop.agent
    return update


def seal(hop: Hop, turn: Turn, update: Plain, route: Route) -> None:
    """Put into an update's context what the next agent has to find, and where the work goes."""
    kept = _kept(update)
    left = apply_update(turn.view, kept, hop.schema)
    lists = [name for name in left if isinstance(left[name], list)]
    update["handoff_context"]["hop"] = {
        "id": uuid.uuid4().hex,
        "run": turn.run,
        "step": turn.step,
        "targets": [*route.targets],
        "condition": route.condition,
        "decided": len(left.get("decisions") or ()),
        "checksums": checksums(left),
        "lengths": {name: len(left[name]) for name in lists},
        "exact": _is_exact(turn, update),
        "unchecked": [],
        "wrote": sorted(kept),
    }


def _is_exact(turn: Turn, update: Plain) -> bool:
    """Whether the record of the run gives this very state: nobody changed it past the record."""
    was_exact = turn.received.get("exact", True)
    return was_exact and not any(map(_is_difference, update.get("warnings") or ()))


def _is_difference(warning: object) -> bool:
    """Whether a warning is of the integrity check; an agent's own may be of any kind."""
    return isinstance(warning, dict) and cast("Plain", warning).get("code") == "integrity"


def _recorded(hop: Hop, turn: Turn, update: Plain, route: Route) -> Marked:
    """Record the handoff, one for each receiver; what was done and decided stands in the first.

    One that the agent's own tool has recorded isn't recorded again.
    """
    workspace = workspace_of(hop.workspace)
    known = _recorded_by_tool(hop, turn, known_context(update))
    if known is not None:
        return known
    document = _document(hop, turn, update)
    first, *others = route.targets or ("",)
    command = workspace.hand_off({**document, "to_agent": "" if first == hop.agent else first})
    kept = ("task", "from_agent", "summary", "metadata")
    for other in (each for each in others if each != hop.agent):
        also = {name: document[name] for name in kept}
        workspace.hand_off({**also, "outcome": "completed", "to_agent": other})
    return Marked(command.version, command.digest)


def _recorded_by_tool(hop: Hop, turn: Turn, brought: Plain) -> Marked | None:
    """The handoff that a context from within this turn speaks of, if the ledger has it."""
    version = handed_on_at(brought, hop.task)
    if not brought or brought["source"] != hop.agent:
        return None
    if version <= handed_on_at(known_context(turn.view), hop.task):
        return None
    found = workspace_of(hop.workspace).log(hop.task, limit=1, before=version + 1)
    marked = Marked(version, brought["metadata"].get("digest", ""))
    is_it = found and (found[0]["kind"], found[0]["digest"]) == ("handoff", marked.digest)
    return marked if is_it else None


def _document(hop: Hop, turn: Turn, update: Plain) -> Plain:
    """The handoff as the agent put it in `handoff`, completed from what it returned."""
    told = plain(update.get("handoff") or {}, "handoff")
    if not isinstance(told, dict):
        problem = Problem("handoff", "wrong_type", f"{type(told).__name__} given", "a handoff")
        raise InvalidInput("nothing was handed on", [problem])
    document: Plain = {"outcome": "completed", **cast("Plain", told)}
    document.setdefault("summary", summary_of(hop.agent, update))
    known: list[Plain] = list(document.get("decisions") or ())
    new = [each for each in update.get("decisions", ()) if each not in known]
    about = {"run": turn.run, "step": turn.step}
    document["decisions"] = [*known, *new]
    document["metadata"] = {**(document.get("metadata") or {}), **about}
    return {**document, "task": hop.task, "from_agent": hop.agent}


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
    was handed on, or the difference is logged, noted in `warnings` and, when `strict`, raised as
    IntegrityViolation.
    """
    hop = checked_hop(Hop(agent, workspace, task, schema, strict))
    turn = enter(hop, state)
    left = leave(hop, turn, node(turn.view), lambda _: _to(to))
    return _arrived(hop, state, left)


async def astep(
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
    """`step`, awaited; `node` may be a coroutine function or a plain one."""
    hop = checked_hop(Hop(agent, workspace, task, schema, strict))
    turn = await asyncio.to_thread(enter, hop, state)
    output = node(turn.view)
    if inspect.isawaitable(output):
        output = await output
    left = await asyncio.to_thread(leave, hop, turn, output, lambda _: _to(to))
    return await asyncio.to_thread(_arrived, hop, state, left)


def _to(target: str) -> Route:
    return Route((target,) if target else ())


def _arrived(hop: Hop, state: Mapping[str, Any], left: Left) -> Plain:
    """The state with the turn's update, verified as the receiver will."""
    arrived = apply_update(state, _kept(left.update), hop.schema)
    verify_handoff(arrived, strict=hop.strict)
    return arrived

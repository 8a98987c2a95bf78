"""The record of a run: where it began, what each agent returned, which condition led where.

It stands beside the tasks, in a stream of its own, and gives the same state when it is applied
again. A run that goes on from another's state, as the turns of a conversation do, records what is
new and names the other for the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.adapters.states.handing import known_context, workspace_of
from passdown.adapters.states.integrity import checksums
from passdown.adapters.states.plain_values import plain
from passdown.adapters.states.shape import AgentState, apply_update
from passdown.errors import NotFound
from passdown.workspace.beside import Aside, Beside

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from passdown.adapters.states.handing import AnyWorkspace

Plain = dict[str, Any]

GRAPH_STREAM = "graph/"
_STARTED, _STEPPED = "graph_started", "graph_stepped"


class Transition(NamedTuple):
    """One agent's turn: what it returned, and where the work went by which condition."""

    run: str
    step: int
    source: str
    targets: tuple[str, ...]
    condition: str
    update: Plain
    version: int
    path: tuple[str, ...]


class Place(NamedTuple):
    """A turn's own name, and the names of the turns that handed the work to it."""

    id: str
    after: tuple[str, ...]


class _Told(NamedTuple):
    """What is on record of a run: how it began, and its turns."""

    began: Plain
    steps: list[Transition]


def record_start(
    workspace: AnyWorkspace,
    run: str,
    task: str,
    state: Mapping[str, Any],
    entry: tuple[Sequence[str], str],
) -> None:
    """Record the state that a run begins with, where it goes first and why."""
    targets, condition = entry
    beside = Beside(workspace_of(workspace))
    body = {"task": task, "targets": [*targets], "condition": condition, **_new(beside, state)}
    beside.add(Aside(GRAPH_STREAM + run, _STARTED, "graph", body))


def _new(beside: Beside, state: Mapping[str, Any]) -> Plain:
    """A run's first state: all of it, or what the run before didn't end with."""
    context = known_context(state)
    hop: Plain = context.get("hop") or {}
    stream = GRAPH_STREAM + hop.get("run", "")
    last = beside.last(stream) if hop.get("exact") else None
    if last is None or last.document().get("update", {}).get("handoff_context") != plain(context):
        return {"state": plain(state)}
    now = checksums(state)
    same = ["handoff_context", *(name for name in now if now[name] == hop["checksums"].get(name))]
    added: Plain = {}
    for name, length in hop["lengths"].items():
        entries: object = None if name in same else state.get(name)
        if isinstance(entries, list):
            listed = cast("list[object]", entries)
            if checksums({name: listed[:length]})[name] == hop["checksums"].get(name):
                added[name] = listed[length:]
    rest = {name: state[name] for name in state if name not in same and name not in added}
    base = [hop["run"], last.position]
    return {"base": base, "same": same, "added": plain(added), "state": plain(rest)}


def record_step(workspace: AnyWorkspace, transition: Transition, place: Place) -> None:
    """Record one agent's turn."""
    body = {
        "id": place.id,
        "after": [*place.after],
        "step": transition.step,
        "targets": [*transition.targets],
        "condition": transition.condition,
        "update": plain(transition.update),
        "version": transition.version,
        "path": [*transition.path],
    }
    stream = GRAPH_STREAM + transition.run
    Beside(workspace_of(workspace)).add(Aside(stream, _STEPPED, transition.source, body))


def transitions(workspace: AnyWorkspace, run: str) -> list[Transition]:
    """The turns of a run in the order in which they took effect.

    A turn that was taken again, after a crash, a pause or a step back to an earlier checkpoint,
    counts as it was taken last, and what had followed it doesn't count. Raises NotFound for an
    unknown run.
    """
    return _told(workspace, run).steps


def start_of(workspace: AnyWorkspace, run: str, state: type[Any] = AgentState) -> Plain:
    """What a run began with: `task`, `state`, `targets` and `condition`."""
    last, *earlier = _histories(workspace, run)
    return {**last.began, "state": _begun(last.began, _folded(earlier, state))}


def runs(workspace: AnyWorkspace) -> list[str]:
    """The names of all recorded runs."""
    heads = Beside(workspace_of(workspace)).streams(GRAPH_STREAM)
    return [head.stream.removeprefix(GRAPH_STREAM) for head in heads]


def replay(workspace: AnyWorkspace, run: str, state: type[Any] = AgentState) -> Plain:
    """The state that a run ended with, made again from its record; no agent is asked.

    It is plain JSON, as `plain` makes it of the graph's own result. Secrets that were removed from
    the record are missing in it.
    """
    return plain(_folded(_histories(workspace, run), state))


def _histories(workspace: AnyWorkspace, run: str) -> list[_Told]:
    """A run and those that it goes back to, the last one first."""
    found = [_told(workspace, run)]
    while "base" in found[-1].began:
        found.append(_told(workspace, *found[-1].began["base"]))
    return found


def _folded(histories: list[_Told], schema: type[Any]) -> Plain:
    state: Plain = {}
    for told in reversed(histories):
        state = _begun(told.began, state)
        for each in told.steps:
            state = apply_update(state, each.update, schema)
    return state


def _begun(began: Plain, before: Plain) -> Plain:
    """The state that a run began with, after the one that it goes back to."""
    same = {name: before[name] for name in began.get("same", ())}
    longer = {name: [*before[name], *new] for name, new in began.get("added", {}).items()}
    return {**same, **longer, **began["state"]}


def _told(workspace: AnyWorkspace, run: str, until: int | None = None) -> _Told:
    records = Beside(workspace_of(workspace)).records(GRAPH_STREAM + run)[:until]
    if not records:
        raise NotFound(f"there is no run {run[:80]!r}", next_step="List them with runs().")
    found: dict[Place, Transition] = {}
    left: set[tuple[str, ...]] = set()
    for record in records[1:]:
        body = record.document()
        place = Place(body["id"], tuple(body["after"]))
        each = Transition(
            run,
            body["step"],
            record.author,
            tuple(body["targets"]),
            body["condition"],
            body["update"],
            body["version"],
            tuple(body["path"]),
        )
        if place.after in left:
            found = _without(found, _taken_again(found, place, each))
        left.add(place.after)
        found[place] = each
    return _Told(records[0].document(), sorted(found.values(), key=lambda t: (t.step, t.path)))


def _taken_again(found: dict[Place, Transition], place: Place, new: Transition) -> set[str]:
    """Turns from the same place as a new one that it takes the place of: all but those of other
    agents in the same step, who were at work at the same time.
    """
    return {
        known.id
        for known, each in found.items()
        if known.after == place.after and (each.step != new.step or each.path == new.path)
    }


def _without(found: dict[Place, Transition], gone: set[str]) -> dict[Place, Transition]:
    """The turns that neither are gone nor follow one that is."""
    kept: dict[Place, Transition] = {}
    for place, each in found.items():
        if place.id in gone or not gone.isdisjoint(place.after):
            gone.add(place.id)
        else:
            kept[place] = each
    return kept

"""The record of a run: where it began, what each agent returned, which condition led where.

It stands beside the tasks, in a stream of its own, and gives the same state when it is applied
again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.adapters.states.handing import workspace_of
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


def record_start(
    workspace: AnyWorkspace,
    run: str,
    task: str,
    state: Mapping[str, Any],
    entry: tuple[Sequence[str], str],
) -> None:
    """Record the state that a run begins with, where it goes first and why."""
    targets, condition = entry
    body = {"task": task, "state": plain(state), "targets": [*targets], "condition": condition}
    Beside(workspace_of(workspace)).add(Aside(GRAPH_STREAM + run, _STARTED, "graph", body))


def record_step(workspace: AnyWorkspace, transition: Transition) -> None:
    """Record one agent's turn."""
    body = {
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

    A turn that was taken again, after a crash or a pause, counts as it was taken last. Raises
    NotFound for an unknown run.
    """
    return _read(workspace, run)[1]


def start_of(workspace: AnyWorkspace, run: str) -> Plain:
    """What a run began with: `task`, `state`, `targets` and `condition`."""
    return _read(workspace, run)[0]


def runs(workspace: AnyWorkspace) -> list[str]:
    """The names of all recorded runs."""
    heads = Beside(workspace_of(workspace)).streams(GRAPH_STREAM)
    return [head.stream.removeprefix(GRAPH_STREAM) for head in heads]


def replay(workspace: AnyWorkspace, run: str, state: type[Any] = AgentState) -> Plain:
    """The state that a run ended with, made again from its record; no agent is asked.

    It is plain JSON, as `plain` makes it of the graph's own result. Secrets that were removed from
    the record are missing in it.
    """
    began, steps = _read(workspace, run)
    result: Plain = began["state"]
    for each in steps:
        result = apply_update(result, each.update, state)
    return plain(result)


def _read(workspace: AnyWorkspace, run: str) -> tuple[Plain, list[Transition]]:
    records = Beside(workspace_of(workspace)).records(GRAPH_STREAM + run)
    if not records:
        raise NotFound(f"there is no run {run[:80]!r}", next_step="List them with runs().")
    found: dict[tuple[int, tuple[str, ...]], Transition] = {}
    for record in records[1:]:
        body = record.document()
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
        found[each.step, each.path] = each
    return records[0].document(), [found[key] for key in sorted(found)]

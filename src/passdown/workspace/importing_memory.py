"""The memory of MCP into knowledge: an entity a node, relations between two an edge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.errors import InvalidInput, Problem
from passdown.model.canonical import canonical_bytes
from passdown.model.importing.mcp_memory import read_memory
from passdown.workspace.importing_files import bytes_of
from passdown.workspace.importing_knowledge import Learner
from passdown.workspace.importing_results import Done, Earlier, Tally, short_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.model.graph import Edge, Node
    from passdown.workspace.importing_files import Source
    from passdown.workspace.importing_results import Progress
    from passdown.workspace.opened import Opened

_DEFAULT_TASK = "memory"


def bring_memory(
    opened: Opened,
    source: Source,
    name: str,
    *,
    agent: str,
    task: str,
    progress: Progress | None,
) -> Tally:
    """Take in the graph of one JSONL file, as knowledge that was written down in a task."""
    data = bytes_of(source, name)
    if isinstance(data, Problem):
        raise InvalidInput("nothing was imported", [data])
    found = read_memory(data)
    if not found.nodes:
        missing = Problem(name, "no_entity", "there is no entity in it", "an entity a line")
        raise InvalidInput("nothing was imported", found.problems or [missing])
    tally = Tally("memory", len(found.nodes) + len(found.edges), progress)
    for problem in found.problems:
        tally.refuse(problem, "line")
    task = task or _DEFAULT_TASK
    earlier = Earlier(opened, task)
    earlier.make_sure("What the memory server of MCP knew", agent)
    work = _Work(Learner(opened, task, agent, earlier), tally)
    for node in found.nodes:
        told: list[object] = [node.summary, sorted(node.tags), dict(node.attributes)]
        work.take("entity", node.id, told, nodes=[node])
    for edge in found.edges:
        about = f"{edge.source} -> {edge.target}"
        work.take("relation", about, [dict(edge.attributes)], edges=[edge])
    return tally


class _Work:
    """Learns what is new, one node or edge at a time."""

    def __init__(self, learner: Learner, tally: Tally) -> None:
        self._learner = learner
        self._tally = tally

    def take(
        self,
        kind: str,
        about: str,
        told: list[object],
        *,
        nodes: Sequence[Node] = (),
        edges: Sequence[Edge] = (),
    ) -> None:
        """Record a node or an edge unless the source said the same of it the last time."""
        what = f"memory-{short_hash(kind, about)}"
        state = short_hash(canonical_bytes(told).decode())

        def write() -> Done:
            return self._learner.take(what, state, about, nodes=nodes, edges=edges)

        self._tally.attempt(about, kind, write)
        self._tally.step()

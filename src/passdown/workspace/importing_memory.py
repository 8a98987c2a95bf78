"""The memory of MCP into knowledge: an entity a node, relations between two an edge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.errors import InvalidInput, Problem
from passdown.model.canonical import canonical_bytes
from passdown.model.graph import graph_of
from passdown.model.importing.mcp_memory import read_memory
from passdown.workspace.importing_files import bytes_of
from passdown.workspace.importing_results import Done, Earlier, Tally, redactions, short_hash
from passdown.workspace.knowing import learn
from passdown.workspace.noting import create_task

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
    if not earlier.exists:
        title = "What the memory server of MCP knew"
        create_task(opened, {"task": task, "title": title, "agent": agent}, None)
    work = _Work(opened, task, agent, earlier, tally)
    for node in found.nodes:
        told: list[object] = [node.summary, sorted(node.tags), dict(node.attributes)]
        work.take("entity", node.id, told, nodes=[node])
    for edge in found.edges:
        about = f"{edge.source} -> {edge.target}"
        work.take("relation", about, [dict(edge.attributes)], edges=[edge])
    return tally


class _Work:
    """Learns what is new, one node or edge at a time."""

    def __init__(
        self, opened: Opened, task: str, agent: str, earlier: Earlier, tally: Tally
    ) -> None:
        self._opened = opened
        self._task = task
        self._agent = agent
        self._earlier = earlier
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
        was = self._earlier.state(what)

        def write() -> Done:
            if was == state:
                return Done("unchanged", about)
            if not was:
                self._refuse_others(nodes)
            key = self._earlier.key(what, state)
            done = learn(self._opened, nodes, edges, agent=self._agent, task=self._task, key=key)
            result = "unchanged" if done.is_replay else "changed" if was else "added"
            return Done(result, about, redactions(done.warnings))

        self._tally.attempt(about, kind, write)
        self._tally.step()

    def _refuse_others(self, nodes: Sequence[Node]) -> None:
        """An import never takes the place of knowledge that somebody wrote down here."""
        with self._opened.store.reading() as reader:
            for node in nodes:
                known = reader.known_node(node.id)
                if known and graph_of([known.node], ()) != graph_of([node], ()):
                    message = f"{known.task} has written down something else under this name"
                    problem = Problem("name", "exists", message, "a name that is free")
                    raise InvalidInput("nothing was changed", [problem])

"""What agents wrote down on the way to the knowledge file: one batch at the end of a piece of work.

Nothing is kept for it besides the ledger: what waits is what the ledger has and the file doesn't.
So a crash between an entry and the boundary loses nothing, and no entry comes twice.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from passdown.errors import InvalidInput
from passdown.model.graph import Graph
from passdown.model.graph_files import read_graph
from passdown.model.kinds import stream_of
from passdown.model.text import visible
from passdown.workspace.beside import Beside
from passdown.workspace.knowing import written_graph
from passdown.workspace.sync_path import sync_path
from passdown.workspace.syncing import DEFAULT_FILE

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from passdown.errors import Problem
    from passdown.model.graph import Edge, Node
    from passdown.store.statements import Reader
    from passdown.workspace import Workspace
    from passdown.workspace.opened import Opened

    Origin = tuple[str, int]

LOG = logging.getLogger("passdown.knowledge")
RELAY = "relay"


class Waiting(NamedTuple):
    """What one record brought and the knowledge file doesn't have yet; what another record
    replaced since isn't in it.
    """

    agent: str
    task: str
    version: int
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


class Boundary(NamedTuple):
    """What a boundary brought to the knowledge file: the entries of the agents it was for, and how
    many of others came along. `reports` are conflicts and whatever else somebody should look at;
    `kept_aside` is where the file went that was changed on both sides or can't be read.
    """

    task: str
    path: str
    entries: tuple[Waiting, ...]
    others: int
    is_changed: bool
    kept_aside: str
    reports: tuple[Problem, ...]


def waiting(workspace: Workspace, agents: Collection[str] = (), *, path: str = "") -> list[Waiting]:
    """What agents (none named: all) wrote down and the knowledge file doesn't say yet, oldest
    first. A file that can't be read says nothing.
    """
    opened = Beside(workspace).opened
    found: dict[Origin, tuple[list[Node], list[Edge]]] = {}
    with opened.store.reading() as reader:
        known = written_graph(reader)
        file = _file(opened, path, known)
        nodes = {node.id: node for node in file.nodes}
        edges = {edge.key: edge for edge in file.edges}
        node_origins, edge_origins = _origins(reader)
        for node in known.nodes:
            if nodes.get(node.id) != node:
                found.setdefault(node_origins[node.id], ([], []))[0].append(node)
        for edge in known.edges:
            if edges.get(edge.key) != edge:
                found.setdefault(edge_origins[edge.key], ([], []))[1].append(edge)
        entries = _authored(reader, found)
    return [entry for entry in entries if not agents or entry.agent in agents]


def at_boundary(
    workspace: Workspace,
    task: str,
    agents: Collection[str] = (),
    *,
    path: str = "",
    by: str = RELAY,
) -> Boundary:
    """At the end of a piece of work, bring everything that waits to the knowledge file in one
    batch. Of what was changed in the file as well, the ledger's words stand, the file is kept
    aside and the conflict reported; changes of the file alone are taken over in the name of `by`.

    The file is one for all agents, so entries of others come along. Doing it again does no harm.
    """
    entries = waiting(workspace, path=path)
    synced = workspace.sync_knowledge(path, agent=by)
    mine = tuple(entry for entry in entries if not agents or entry.agent in agents)
    LOG.info("%s: %d entries brought to %s", task, len(entries), synced.path)
    for report in synced.reports:
        LOG.warning("%s: %s", task, visible(report.line()))
    return Boundary(
        task=task,
        path=synced.path,
        entries=mine,
        others=len(entries) - len(mine),
        is_changed=synced.is_changed,
        kept_aside=synced.kept_aside,
        reports=synced.reports,
    )


def _file(opened: Opened, path: str, known: Graph) -> Graph:
    target = sync_path(opened.root, path or DEFAULT_FILE, opened.place.folder)
    try:
        text = Path(target).read_bytes().decode().replace("\r\n", "\n")
        return read_graph(text, known=[node.id for node in known.nodes]) if text else Graph()
    except (FileNotFoundError, UnicodeDecodeError, InvalidInput):
        return Graph()


def _origins(reader: Reader) -> tuple[dict[str, Origin], dict[tuple[str, str, str], Origin]]:
    """The record that brought each node, by id, and each edge, by key."""
    nodes = {row.node.id: (row.task, row.position) for row in reader.known_nodes()}
    edges = {edge.key: (task, version) for edge, task, version in reader.edges_with_origin()}
    return nodes, edges


def _authored(
    reader: Reader, found: Mapping[Origin, tuple[list[Node], list[Edge]]]
) -> list[Waiting]:
    """What each record brought, with its author, in the order in which they were written."""
    entries: list[tuple[int, Waiting]] = []
    for (task, version), (nodes, edges) in found.items():
        record = reader.record(stream_of(task), version)
        author, seq = (record.author, record.seq) if record else ("", 0)
        entries.append((seq, Waiting(author, task, version, tuple(nodes), tuple(edges))))
    return [entry for _, entry in sorted(entries, key=lambda pair: pair[0])]

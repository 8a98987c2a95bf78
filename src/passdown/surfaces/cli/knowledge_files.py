"""`knowledge add --file`: what a file of the graph holds, but for what records say anyway."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from passdown.surfaces.cli.printing import counted, line, print_json
from passdown.surfaces.cli.receipts import print_receipt
from passdown.surfaces.cli.session import author, opened, read_input

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.model.graph import Edge, Graph, Node
    from passdown.workspace import Workspace


class _Sorted(NamedTuple):
    """What of a file is to be written down, and how much of it records say in the same words."""

    nodes: list[Node]
    edges: list[Edge]
    nodes_said: int
    edges_said: int

    @property
    def note(self) -> str:
        parts = (counted(self.nodes_said, "node"), counted(self.edges_said, "edge"))
        said = [part for part, n in zip(parts, self[2:], strict=True) if n]
        return f"left out, since records say the same: {' and '.join(said)}" if said else ""


def add_file(args: Namespace) -> int:
    """Write down what a file holds; its edges may lead to what is known already."""
    with opened(args) as workspace:
        found = _read(workspace, args.file)
        if found.note and not found.nodes and not found.edges:
            return _nothing_new(found, as_json=args.json)
        receipt = workspace.learn(
            found.nodes, found.edges, agent=author(args), task=args.task, key=args.key
        )
    if args.json:
        print_json({**receipt.as_document(), "left_out": _left_out(found)})
        return 0
    print_receipt(receipt, as_json=False)
    if found.note:
        line(found.note, 2)
    return 0


def _read(workspace: Workspace, path: str) -> _Sorted:
    from passdown.errors import InvalidInput, Problem
    from passdown.model.graph_files import MAX_BYTES, read_graph

    try:
        text = read_input(path, MAX_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"byte {error.start} is not UTF-8"
        problem = Problem(path, "invalid_utf8", message, "UTF-8 text")
        raise InvalidInput("the input can't be read", [problem]) from error
    known = workspace.graph()
    return _sorted(read_graph(text, known=[node.id for node in known.nodes]), known)


def _sorted(file: Graph, known: Graph) -> _Sorted:
    """A file may be the whole graph as it was shown: what isn't for it to say is passed over where
    it stands so in the records. Anything else is left to be refused.
    """
    from passdown.model.knowledge import is_reserved, says_itself

    there = {node.id: node for node in known.nodes}
    said = {edge.key: edge for edge in known.edges}
    nodes = [n for n in file.nodes if not is_reserved(n.id) or there.get(n.id) != n]
    edges = [e for e in file.edges if not says_itself(e.key) or said.get(e.key) != e]
    return _Sorted(nodes, edges, len(file.nodes) - len(nodes), len(file.edges) - len(edges))


def _nothing_new(found: _Sorted, *, as_json: bool) -> int:
    if as_json:
        print_json({"items": [], "is_replay": True, "left_out": _left_out(found)})
    else:
        line(f"nothing to write down; {found.note}")
    return 0


def _left_out(found: _Sorted) -> dict[str, int]:
    return {"nodes": found.nodes_said, "edges": found.edges_said}

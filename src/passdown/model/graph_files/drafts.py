"""What a file says about nodes and edges, with the place of each word, until it is checked.

Readers put entries in; `Drafts.graph` fills in what a foreign file may leave out, applies the
rules of the graph and gives the graph or every problem with its place in the file. The number of
problems and of fields is limited, so that no text makes more work than it has letters.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from passdown.errors import MOST_PROBLEMS, InvalidInput, Problem
from passdown.model.graph import (
    RELATIONS,
    Edge,
    Graph,
    Node,
    check_graph,
    graph_of,
    stands_for,
    summary_line,
)
from passdown.model.text import excerpt

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_BYTES = 8_388_608
MAX_FIELDS = 1_000_000
"""How many ids, attributes and tags a file may hold, counted again wherever one is repeated by a
default, a chain or a subgraph.
"""

_CHECKED = re.compile(r"(nodes|edges)\[([0-9]+)\](?:\.(.+?))?(?:\[([0-9]+)\])?", re.DOTALL)


class Field(NamedTuple):
    """A text of the file and where it stands."""

    text: str
    place: str


class Draft(NamedTuple):
    """A node or an edge as the file gives it: its fields by name, and its tags."""

    place: str
    fields: dict[str, Field]
    tags: tuple[Field, ...] = ()

    def text(self, name: str) -> str:
        """A field's text, empty when the file has none."""
        found = self.fields.get(name)
        return found.text if found else ""


class Drafts:
    """The entries and problems of one file. With `by_line`, places are lines and columns: a field
    that is missing has its entry's place, and messages name the field.
    """

    def __init__(self, *, by_line: bool) -> None:
        self._by_line = by_line
        self._nodes: list[Draft] = []
        self._edges: list[Draft] = []
        self._problems: list[Problem] = []
        self._told: set[str] = set()
        self._left = MAX_FIELDS
        self._mentions: dict[str, Field] = {}
        self._excused: set[str] = set()
        self.is_partial = False
        """Whether part of the file is unread, so that a node may be in that part."""

    @property
    def has_problems(self) -> bool:
        """Whether anything has been refused so far."""
        return bool(self._problems)

    def mention(self, name: Field) -> None:
        """Remember a name that has to be a node."""
        self._mentions.setdefault(name.text, name)

    def excuse(self, name: str) -> None:
        """Count a name as a node, though its entry can't be used."""
        self._excused.add(name)

    def refuse(self, place: str, code: str, message: str, expected: str = "") -> None:
        """Note a problem and go on; the file is given up when there are too many."""
        self._problems.append(Problem(place, code, message, expected))
        self._told.add(place)
        if len(self._problems) >= MOST_PROBLEMS:
            self.give_up()

    def give_up(self) -> NoReturn:
        """Raise what has been found so far."""
        shown = self._problems[:MOST_PROBLEMS]
        if len(self._problems) >= MOST_PROBLEMS:
            message = f"has more problems than these {MOST_PROBLEMS}; reading ended here"
            shown.append(Problem("", "too_many_problems", message))
        raise InvalidInput("the graph can't be read", shown)

    def spend(self, fields: int, place: str) -> None:
        """Count fields against the limit of a file."""
        self._left -= fields
        if self._left < 0:
            expected = f"at most {MAX_FIELDS:,}, each repetition counted"
            self.refuse(place, "too_large", "the file has too many fields", expected)
            self.give_up()

    def add_node(self, draft: Draft) -> None:
        """Take an entry in as a node."""
        self.spend(1 + len(draft.fields) + len(draft.tags), draft.place)
        self._nodes.append(draft)

    def add_edge(self, draft: Draft) -> None:
        """Take an entry in as an edge."""
        self.spend(1 + len(draft.fields), draft.place)
        self._edges.append(draft)

    def graph(self, known: Iterable[str], *, is_edge_list: bool = False) -> Graph:
        """The checked graph; raises InvalidInput with all problems instead.

        In an edge list, an end that nothing else stands for becomes an insight of that name.
        """
        elsewhere = {*known, *self._excused}
        self._need_fields()
        listed = [draft for draft in self._nodes if "id" in draft.fields]
        drawn = [draft for draft in self._edges if draft.fields.keys() >= _ENDS]
        nodes = [_node(draft) for draft in listed]
        edges = [_edge(draft) for draft in drawn]
        if is_edge_list:
            nodes += _implied(nodes, edges, elsewhere)
        self._check_mentions(elsewhere.union(node.id for node in nodes))
        told = set(self._told)
        for problem in check_graph(nodes, edges, elsewhere):
            self._tell(problem, listed, drawn, told)
        if self._problems:
            self.give_up()
        return graph_of(nodes, edges)

    def _check_mentions(self, there: set[str]) -> None:
        for name in self._mentions.values():
            if name.text not in there and not stands_for(name.text) and not self.is_partial:
                message = f"there is no node {excerpt(name.text, 60)}"
                expected = "a list of its attributes in [ ]"
                self.refuse(name.place, "unknown_node", message, expected)

    def _need_fields(self) -> None:
        for draft in self._nodes:
            for name in ("id", "type"):
                self._need(draft, name)
            if not any(name in draft.fields for name in ("summary", "description", "label")):
                self._need(draft, "summary")
        for draft in self._edges:
            for name in ("source", "target"):
                self._need(draft, name)

    def _need(self, draft: Draft, name: str) -> None:
        if name in draft.fields:
            return
        place, code, message = self._worded(draft, name, f"{name} is missing", "missing")
        if self._by_line or place not in self._told:
            self.refuse(place, code, message)

    def _worded(self, draft: Draft, name: str, message: str, code: str) -> tuple[str, str, str]:
        """Place, code and message of a problem with a field, as this kind of file tells them."""
        field = draft.fields.get(name)
        if self._by_line:
            who = excerpt(draft.text("id"), 60)
            told = f"{who}: {message}" if who else message
            return (field.place if field else draft.place, code, told)
        return (field.place if field else f"{draft.place}.{name}", code, message)

    def _tell(
        self, problem: Problem, nodes: list[Draft], edges: list[Draft], told: set[str]
    ) -> None:
        """A problem of the finished values, at its place in the file."""
        match = _CHECKED.fullmatch(problem.path)
        if match is None:
            self.refuse(*problem[:4])
            return
        if problem.code == "unknown_node" and self.is_partial:
            return
        drafts = nodes if match[1] == "nodes" else edges
        if int(match[2]) >= len(drafts):
            return  # an implied node: the edge that implies it is told of
        draft, name = drafts[int(match[2])], match[3] or ""
        if name == "tags" and match[4]:
            place, message = draft.tags[int(match[4])].place, f"tag {problem.message}"
            self.refuse(place, problem.code, message, problem.expected)
            return
        words = f"{name} {problem.message}" if self._by_line and name else problem.message
        place, code, message = self._worded(draft, name, words, problem.code)
        if not name:
            place = draft.place
        if name not in _ALWAYS or name in draft.fields or place not in told:
            self.refuse(place, code, message, problem.expected)


_ENDS = {"source", "target"}
_ALWAYS = ("id", "type", "summary")


def _node(draft: Draft) -> Node:
    """The node of an entry that has an id; a summary that is missing comes from the description or
    else from the label, whose full text is kept when it had to be cut.
    """
    rest = {name: field.text for name, field in draft.fields.items() if name not in _ALWAYS}
    summary = draft.text("summary")
    if "summary" not in draft.fields:
        if "description" not in rest and "label" in rest:
            label = rest.pop("label")
            if summary_line(label) != label:
                rest["description"] = label
            summary = summary_line(label)
        else:
            summary = summary_line(rest.get("description", ""))
    tags = tuple(tag.text for tag in draft.tags)
    return Node(draft.text("id"), draft.text("type"), summary, tags, rest)


def _edge(draft: Draft) -> Edge:
    """The edge of an entry that has both ends. Without a relation, a label that names one is taken
    for it; any other label becomes the note of a `relates_to`.
    """
    ends = ("source", "target", "relation")
    rest = {name: field.text for name, field in draft.fields.items() if name not in ends}
    relation = draft.text("relation")
    if "relation" not in draft.fields:
        label = rest.get("label", "")
        relation = label if label in RELATIONS else "relates_to"
        if label in RELATIONS:
            del rest["label"]
        elif label and "note" not in rest:
            rest["note"] = rest.pop("label")
    return Edge(draft.text("source"), relation, draft.text("target"), rest)


def _implied(nodes: list[Node], edges: list[Edge], elsewhere: set[str]) -> list[Node]:
    there = {node.id for node in nodes} | elsewhere
    ends = {name for edge in edges for name in (edge.source, edge.target)}
    return [
        Node(name, "insight", summary_line(name))
        for name in sorted(ends - there)
        if not stands_for(name)
    ]

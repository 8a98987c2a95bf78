"""The rules of the knowledge graph: each breach is told, all at once, and what is sound passes."""

from __future__ import annotations

import pytest

from passdown.core.graph import (
    MAX_ID,
    MAX_SUMMARY,
    MAX_TAGS,
    MAX_VALUE,
    NODE_TYPES,
    RELATIONS,
    Edge,
    Graph,
    Node,
    check_graph,
    graph_of,
    is_reference,
    summary_line,
)

A = Node("a", "insight", "Something")


def codes(nodes: list[Node], edges: list[Edge] | None = None) -> list[tuple[str, str]]:
    return [(problem.path, problem.code) for problem in check_graph(nodes, edges or [])]


def test_every_type_and_relation_is_allowed() -> None:
    nodes = [Node(kind, kind, "s", (), {"priority": "high"}) for kind in NODE_TYPES]
    edges = [Edge("task", relation, "file") for relation in RELATIONS]
    assert codes(nodes, edges) == []
    assert codes([]) == []


@pytest.mark.parametrize(
    ("node", "path", "code"),
    [
        (A._replace(id=""), "id", "invalid_id"),
        (A._replace(id=" a"), "id", "invalid_id"),
        (A._replace(id="a\nb"), "id", "invalid_id"),
        (A._replace(id="a" * (MAX_ID + 1)), "id", "invalid_id"),
        (A._replace(type="widget"), "type", "not_allowed"),
        (A._replace(summary=" "), "summary", "missing"),
        (A._replace(summary="a\nb"), "summary", "too_long"),
        (A._replace(summary="a" * (MAX_SUMMARY + 1)), "summary", "too_long"),
        (A._replace(summary="a\x00"), "summary", "not_text"),
        (A._replace(tags=("Auth",)), "tags[0]", "invalid_tag"),
        (A._replace(tags=("a", "b c")), "tags[1]", "invalid_tag"),
        (A._replace(tags=("a,b",)), "tags[0]", "invalid_tag"),
        (A._replace(tags=("\udc80",)), "tags[0]", "invalid_tag"),
        (A._replace(tags=tuple(f"t{i}" for i in range(MAX_TAGS + 1))), "tags", "too_many"),
        (A._replace(type="rule"), "priority", "missing"),
        (A._replace(attributes={"level": "high"}), "level", "not_allowed"),
        (A._replace(attributes={"severity": "critical"}), "severity", "not_allowed"),
        (A._replace(attributes={"Bad": "x"}), "Bad", "invalid_name"),
        (A._replace(attributes={"tag": "x"}), "tag", "invalid_name"),
        (A._replace(attributes={"note": "x" * (MAX_VALUE + 1)}), "note", "too_long"),
        (A._replace(attributes={"note": "\ud800"}), "note", "not_text"),
    ],
)
def test_a_node_that_breaks_a_rule_is_told_of(node: Node, path: str, code: str) -> None:
    assert codes([Node("b", "task", "s"), node]) == [(f"nodes[1].{path}", code)]


@pytest.mark.parametrize(
    ("edge", "path", "code"),
    [
        (Edge("a", "loves", "a"), ".relation", "not_allowed"),
        (Edge("a", "uses", "b"), ".target", "unknown_node"),
        (Edge("", "uses", "a"), ".source", "invalid_id"),
        (Edge("a", "uses", "a", {"source": "x"}), ".source", "invalid_name"),
        (Edge("a", "calls", "a", {"note": "x"}), "", "duplicate_edge"),
    ],
)
def test_an_edge_that_breaks_a_rule_is_told_of(edge: Edge, path: str, code: str) -> None:
    assert codes([A], [Edge("a", "calls", "a"), edge]) == [(f"edges[1]{path}", code)]


def test_one_id_with_two_contents_is_told_of() -> None:
    assert codes([A, A._replace(summary="Else")]) == [("nodes[1].id", "duplicate_node")]
    assert codes([A._replace(tags=("x", "y")), A._replace(tags=("y", "x"))]) == []


def test_all_problems_come_at_once() -> None:
    nodes = [Node("", "widget", "", ("A",), {"level": "x"}), A]
    assert len(codes(nodes, [Edge("a", "loves", "b"), Edge("c", "uses", "a")])) == 8


def test_an_edge_may_lead_to_what_is_known_elsewhere() -> None:
    ends = ("T-1#d3", "task:T-1", "agent:planner", "file:src/a b.py", "k")
    edges = [Edge("a", "uses", end) for end in ends]
    assert check_graph([A], edges, known=["k"]) == []
    assert [is_reference(end) for end in ends] == [True, True, True, True, False]


def test_equal_graphs_are_equal_whatever_their_order() -> None:
    b = Node("b", "task", "B", ("y", "x", "x"), {"n": "1", "m": "2"})
    edges = [Edge("b", "uses", "a"), Edge("a", "uses", "b")]
    graph = graph_of([b, A], edges)
    assert graph == graph_of([A, b], edges[::-1])
    assert [node.id for node in graph.nodes] == ["a", "b"]
    assert graph.nodes[1].tags == ("x", "y")
    assert list(graph.nodes[1].attributes) == ["m", "n"]
    assert [edge.source for edge in graph.edges] == ["a", "b"]
    assert graph.tag_index() == {"x": ["b"], "y": ["b"]}
    assert Graph().tag_index() == {}


def test_a_summary_is_one_line_that_fits() -> None:
    assert summary_line(" a\n\tb ") == "a b"
    assert summary_line("a" * MAX_SUMMARY) == "a" * MAX_SUMMARY
    cut = summary_line("word " * 50)
    assert len(cut) <= MAX_SUMMARY
    assert cut.endswith("word…")

"""Files of the graph: nothing is lost, everything wrong is told with its place."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from passdown.core.graph import (
    CHOICES,
    NODE_TYPES,
    RELATIONS,
    Edge,
    Graph,
    Node,
    check_graph,
    graph_of,
)
from passdown.errors import InvalidInput, Problem
from passdown.knowledge.graph_dot import KEYWORDS
from passdown.knowledge.graph_files import GRAPH_FORMATS, MAX_BYTES, read_graph, write_graph
from tests.sizes import cpu_seconds, example_count

if TYPE_CHECKING:
    from passdown.knowledge.graph_files import GraphFormat

SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)

NASTY = (
    'say "no"',
    "ends with a backslash\\",
    "\\",
    '\\"',
    "two letters: \\n, \\l, \\\\r",
    "a\nb\r\nc\rd\te\x0bf\x0cg\x85h\u2028i",
    "] ; } -> { [",
    "a -> b [relation=uses];",
    "// no /* comment */ # here",
    "<b>html</b> &amp; &quot;",
    "漢字 👩‍👩‍👧 \u202e\ufeff\ufffe",
    "\x01\x1b[2J\x7f",
    " ",
    "",
    "+",
    "\\N \\G \\\n",
)
IDS = (
    "a",
    "node",
    "Graph",
    "1.0",
    "-5",
    "task:T-1",
    "file:src/a b.py",
    'x"y\\',
    "漢",
    "a:b:n",
    "n1",
)

texts = st.one_of(st.sampled_from(NASTY), st.text(max_size=30)).filter(lambda t: "\x00" not in t)
ids = st.one_of(st.sampled_from(IDS), st.text(min_size=1, max_size=12)).filter(
    lambda t: t.isprintable() and t == t.strip()
)
summaries = texts.filter(lambda t: bool(t.strip()) and "\n" not in t and "\r" not in t)
tags = st.one_of(st.sampled_from(["auth", 'a"b', "\\", "]", "+", "ß"]), st.text(max_size=5))
valid_tags = tags.filter(
    lambda t: not check_graph([Node("a", "insight", "s", (t,))], []),
)
TURNING = (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
FOREIGN_NAMES = ("description", "label", "note", "file", "path", "connections", "attributes")
names = st.sampled_from([*FOREIGN_NAMES, "status", "shape", *sorted(KEYWORDS)])
values = {name: st.sampled_from(CHOICES[name]) for name in CHOICES}


def joined(free: dict[str, str], chosen: dict[str, str]) -> dict[str, str]:
    """Both, with a path that no character turns the other way."""
    if "path" in free:
        free = {**free, "path": free["path"].translate(dict.fromkeys(TURNING))}
    return {**free, **chosen}


attributes = st.builds(
    joined,
    st.dictionaries(names, texts, max_size=3),
    st.fixed_dictionaries({}, optional=values),
)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Any graph that keeps the rules."""
    nodes = [
        Node(
            name,
            draw(st.sampled_from(NODE_TYPES)),
            draw(summaries),
            tuple(draw(st.lists(valid_tags, max_size=3))),
            {"priority": "low", **draw(attributes)},
        )
        for name in draw(st.lists(ids, unique=True, max_size=4))
    ]
    ends = st.sampled_from([*(node.id for node in nodes), "task:T-9", "T-1#d3", "agent:a->b"])
    edge = st.builds(Edge, ends, st.sampled_from(RELATIONS), ends, attributes)
    return graph_of(nodes, draw(st.lists(edge, max_size=5)))


def check(graph: Graph, form: GraphFormat) -> None:
    """Read what was written, and write what was read."""
    assert check_graph(graph.nodes, graph.edges) == []
    text = write_graph(graph, form)
    assert read_graph(text, form) == read_graph(text) == graph
    assert write_graph(read_graph(text), form) == text
    shuffled = Graph(graph.nodes[::-1], graph.edges[::-1])
    assert write_graph(shuffled, form) == text
    around = 2 if form == "dot" else 3 + bool(graph.nodes) + bool(graph.edges)
    assert text.count("\n") == len(graph.nodes) + len(graph.edges) + around


@pytest.mark.promise("S4-30")
@pytest.mark.parametrize("form", GRAPH_FORMATS)
@settings(max_examples=example_count(50), suppress_health_check=SLOW)
@given(graph=graphs())
def test_what_is_written_is_read_back(form: GraphFormat, graph: Graph) -> None:
    check(graph, form)


@pytest.mark.soak
@pytest.mark.parametrize("form", GRAPH_FORMATS)
@settings(max_examples=10_000, suppress_health_check=SLOW)
@given(graph=graphs())
def test_what_is_written_is_read_back_ten_thousand_times(form: GraphFormat, graph: Graph) -> None:
    check(graph, form)


@pytest.mark.promise("S4-30")
@pytest.mark.parametrize("form", GRAPH_FORMATS)
def test_every_odd_text_survives_everywhere(form: GraphFormat) -> None:
    nodes = [
        Node(
            f"n{i}", "insight", text if text.strip() and "\n" not in text else "s", (), {"a": text}
        )
        for i, text in enumerate(NASTY)
    ]
    edges = [Edge("n0", "uses", f"n{i}", {"note": text}) for i, text in enumerate(NASTY)]
    more = [Edge("n0", "calls", "n0"), Edge("n0", "calls", "n1"), Edge("n1", "calls", "n0")]
    check(graph_of(nodes, [*edges, *more]), form)
    check(Graph(), form)


@pytest.mark.promise("S4-30")
def test_another_node_is_another_line() -> None:
    """A file under version control shows what changed and nothing else."""
    nodes = [Node(f"n{i}", "insight", "s") for i in range(5)]
    for form in GRAPH_FORMATS:
        without = write_graph(graph_of(nodes[:2] + nodes[3:], []), form).splitlines()
        lines = write_graph(graph_of(nodes, []), form).splitlines()
        assert len([line for line in lines if line not in without]) == 1
        assert [line for line in without if line not in lines] == []


FOREIGN = r"""
strict DiGraph "Project Knowledge" { // settings
    # a preprocessor line
    graph [rankdir=LR, label="All of it"]; bgcolor = "white"
    node [shape=box, style=filled; fillcolor=lightblue level=implementation];
    Edge [relation=uses, color=red];
    /* patterns */
    errors [type="pattern" level="architecture"; status="current",
        description="Wrap \"all\" errors.\lSee C:\\docs\nand \d."] [tag="go, errors", tags="style"];
    "go" + "_" /* here */ + "log" [type = rule, priority = high, label = "Log \
with keys"];
    subgraph cluster_1 {
        label = "Storage"; node [type=datastore];
        db [summary="The database", path="db/"];
        subgraph { errors; cache [description="A cache"] }
    }
    errors -> go_log -> db [note=1.50];
    cache -> { errors db } [relation="must_not_use"]
    db -> db [label="calls" relation=calls]
}
"""


@pytest.mark.promise("S4-30")
def test_dot_as_people_write_it_is_read() -> None:
    graph = read_graph(FOREIGN)
    described = 'Wrap "all" errors.\nSee C:\\docs\nand \\d.'
    level = {"level": "implementation"}
    assert graph.nodes == (
        Node("cache", "datastore", "A cache", (), {"description": "A cache", **level}),
        Node("db", "datastore", "The database", (), {**level, "path": "db/"}),
        Node(
            "errors",
            "pattern",
            'Wrap "all" errors. See C:\\docs and \\d.',
            ("errors", "go", "style"),
            {"description": described, "level": "architecture", "status": "current"},
        ),
        Node("go_log", "rule", "Log with keys", (), {**level, "priority": "high"}),
    )
    assert graph.edges == (
        Edge("cache", "must_not_use", "db"),
        Edge("cache", "must_not_use", "errors"),
        Edge("db", "calls", "db", {"label": "calls"}),
        Edge("errors", "uses", "go_log", {"note": "1.50"}),
        Edge("go_log", "uses", "db", {"note": "1.50"}),
    )
    check(graph, "dot")


def test_an_undirected_graph_leads_from_left_to_right() -> None:
    text = 'graph { a [type=task summary="A"] b [type=task summary="B"] b -- a -- "task:T-1" }'
    keys = [edge.key for edge in read_graph(text).edges]
    assert keys == [("a", "relates_to", "task:T-1"), ("b", "relates_to", "a")]


def test_an_edge_without_a_relation_takes_it_from_its_label() -> None:
    text = (
        'digraph { a [type=task summary="A"]\na -> "task:T-1" [label=uses]; '
        'a -> "task:T-2" [label="is near"]\n}'
    )
    assert read_graph(text).edges == (
        Edge("a", "relates_to", "task:T-2", {"note": "is near"}),
        Edge("a", "uses", "task:T-1"),
    )


def test_a_long_label_is_kept_in_full() -> None:
    (node,) = read_graph(f'digraph {{ a [type=task label="{"word " * 40}"] }}').nodes
    assert node.summary.endswith("…")
    assert node.attributes == {"description": "word " * 40}


NEIGHBOUR: dict[str, object] = {
    "version": "1.0",
    "last_updated": "2025-12-10",
    "nodes": [
        {
            "id": "task-1",
            "type": "task",
            "tags": ["auth", "api"],
            "summary": "Log in",
            "file": "journal/task-1.md",
            "created": "2025-12-10",
            "connections": ["gotcha-1", "T-1#d2"],
        },
        {
            "id": "gotcha-1",
            "type": "gotcha",
            "tags": [],
            "description": "Cookies vanish",
            "file": None,
            "connections": [],
        },
    ],
    "tag_index": {"auth": ["task-1"]},
}


@pytest.mark.promise("S4-30")
def test_json_with_connections_is_read() -> None:
    kept = {"path": "journal/task-1.md", "created": "2025-12-10"}
    assert read_graph(json.dumps(NEIGHBOUR)) == graph_of(
        [
            Node("task-1", "task", "Log in", ("auth", "api"), kept),
            Node("gotcha-1", "gotcha", "Cookies vanish", (), {"description": "Cookies vanish"}),
        ],
        [Edge("task-1", "relates_to", "gotcha-1"), Edge("task-1", "relates_to", "T-1#d2")],
    )


def test_an_edge_list_makes_the_nodes_that_nobody_lists() -> None:
    edges = [
        {"source": "a", "target": "task:T-1", "relation": "changed_in", "note": "twice"},
        {"source": "b", "target": "a"},
    ]
    wanted = graph_of(
        [Node("a", "insight", "a")],
        [Edge("a", "changed_in", "task:T-1", {"note": "twice"}), Edge("b", "relates_to", "a")],
    )
    assert read_graph(json.dumps(edges), known=["b"]) == wanted
    assert read_graph(json.dumps({"edges": edges}), known=["b"]) == wanted


def refused(text: str, form: GraphFormat | str = "auto") -> list[Problem]:
    with pytest.raises(InvalidInput) as caught:
        read_graph(text, form)  # pyright: ignore[reportArgumentType]
    return list(caught.value.problems)


def places(text: str) -> list[tuple[str, str]]:
    return [(problem.path, problem.code) for problem in refused(text)]


@pytest.mark.promise("S4-30")
def test_everything_wrong_with_a_dot_file_is_told_at_once() -> None:
    text = """digraph {
 a [type=widget, summary="x"]
 b [type=rule, summary=<b>x</b>,
    foo, priority=high]
 c:n -> b; 12ab [x=y]; a -- b; d;
 a -> nowhere [relation=loves]
 a -> b [relation=uses
 e [type=task summary=x level=critical "B"=1];
 e [summary=y, summary=z]
 a -> b [note=y, source=e]
 a -> b
 f [type=task tags="ok,Not Ok"]
}
"""
    assert sorted(places(text)) == sorted(
        [
            ("3:24", "invalid_dot"),
            ("4:8", "invalid_dot"),
            ("5:3", "invalid_dot"),
            ("5:12", "invalid_dot"),
            ("5:26", "invalid_dot"),
            ("8:4", "invalid_dot"),
            ("9:16", "duplicate_key"),
            ("10:25", "invalid_name"),
            ("9:2", "missing"),
            ("12:2", "missing"),
            ("5:32", "unknown_node"),
            ("2:10", "not_allowed"),
            ("12:20", "invalid_tag"),
            ("6:25", "not_allowed"),
            ("6:7", "unknown_node"),
            ("10:2", "duplicate_edge"),
        ]
    )
    assert any("c has a port" in problem.line() for problem in refused(text))


@pytest.mark.promise("S4-30")
def test_everything_wrong_with_a_json_file_is_told_at_once() -> None:
    nodes: list[object] = [
        {"id": "a", "type": "widget", "summary": "x", "tags": ["ok", 3, "Not Ok"]},
        {"type": "task", "summary": 7},
        "a",
        {"id": "b", "type": "task", "summary": "x", "attributes": {"id": "b", "x": []}},
        {"id": "b", "type": "task", "summary": "y", "connections": ["zz", None]},
        {"id": "c", "summary": "s", "attributes": 4, "level": "high", "Bad Name": "x"},
    ]
    edges = [{"source": "a", "relation": "loves"}, {"source": "a", "target": "q", "note": True}]
    text = json.dumps({"nodes": nodes, "edges": edges, "directed": "yes"})
    assert sorted(places(text)) == sorted(
        [
            ("directed", "unknown_field"),
            ("nodes[0].tags[1]", "wrong_type"),
            ("nodes[0].tags[2]", "invalid_tag"),
            ("nodes[0].type", "not_allowed"),
            ("nodes[1].summary", "wrong_type"),
            ("nodes[1].id", "missing"),
            ("nodes[2]", "wrong_type"),
            ("nodes[3].attributes.id", "invalid_name"),
            ("nodes[3].attributes.x", "wrong_type"),
            ("nodes[4].id", "duplicate_node"),
            ("nodes[4].connections[0]", "unknown_node"),
            ("nodes[4].connections[1]", "wrong_type"),
            ("nodes[5].type", "missing"),
            ("nodes[5].attributes", "wrong_type"),
            ("nodes[5].level", "not_allowed"),
            ('nodes[5]["Bad Name"]', "invalid_name"),
            ("edges[0].target", "missing"),
            ("edges[1].target", "unknown_node"),
            ("edges[1].note", "wrong_type"),
        ]
    )


@pytest.mark.parametrize(
    ("text", "path", "code"),
    [
        ("", "1:1", "invalid_dot"),
        ("\x00", "1:1", "invalid_dot"),
        ("digraph", "1:8", "invalid_dot"),
        ("digraph {", "1:10", "invalid_dot"),
        ("digraph { {", "1:11", "invalid_dot"),
        ("digraph { } digraph { }", "1:13", "invalid_dot"),
        ('digraph {\n a [type="x', "2:10", "invalid_dot"),
        ('digraph {\n "a" -> b; b [type="\\"', "2:20", "invalid_dot"),
        ("digraph { /* ", "1:11", "invalid_dot"),
        ("digraph { <a<b> ", "1:11", "invalid_dot"),
        ('digraph { "a" + b }', "1:15", "invalid_dot"),
        ("digraph { a = {} }", "1:15", "invalid_dot"),
        ("digraph { {} = a }", "1:14", "invalid_dot"),
        ("digraph { node }", "1:16", "invalid_dot"),
        ("digraph { subgraph x; }", "1:21", "invalid_dot"),
        ("digraph { a -> }", "1:16", "invalid_dot"),
        ("digraph { color=#ff0000 }", "1:17", "invalid_dot"),
        ('digraph { a [type=task summary=x y="\x00"] }', "1:36", "not_text"),
        ("digraph {" + "{" * 5_000, "1:41", "too_deep"),
        ("[" * 100_000, "", "too_deep"),
        ("{}", "", "missing"),
        ('{"nodes": {}, "edges": 3}', "edges", "wrong_type"),
        ('{"nodes": [], "passdown_graph": 2}', "passdown_graph", "newer_form"),
        ('{"nodes": [', "", "invalid_json"),
        ("\udc80", "", "lone_surrogate"),
        ('"' * 10_000_000, "", "too_large"),
        ("é" * (MAX_BYTES // 2 + 1), "", "too_large"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, path: str, code: str) -> None:
    assert (path, code) in places(text)


def test_three_is_no_list_and_yaml_no_form() -> None:
    assert refused("3", "json")[0].code == "wrong_type"
    assert refused("digraph {}", "yaml")[0].code == "not_allowed"
    with pytest.raises(InvalidInput):
        write_graph(Graph(), "yaml")  # pyright: ignore[reportArgumentType]


def test_a_graph_that_could_not_be_read_is_not_written() -> None:
    lost = Graph((Node("a", "task", "s"),), (Edge("a", "uses", "nowhere"),))
    huge = graph_of([Node(f"n{i}", "task", "s", (), {"a": "x" * 20_000}) for i in range(430)], [])
    for graph, code in ((lost, "unknown_node"), (huge, "too_large")):
        with pytest.raises(InvalidInput) as caught:
            write_graph(graph, "dot")
        assert [problem.code for problem in caught.value.problems] == [code]


MANY = {
    "products": "digraph {{ {{{0}}} -> {{{0}}} }}".format(" ".join(f"n{i}" for i in range(2_000))),
    "defaults": "digraph {node ["
    + " ".join(f"a{i}=b" for i in range(2_000))
    + "]"
    + "a[] " * 2_000,
    "chains": "digraph {"
    + "a -> " * 2_000
    + "a ["
    + " ".join(f"a{i}=b" for i in range(2_000))
    + "]",
}


@pytest.mark.parametrize("text", MANY.values(), ids=MANY)
def test_a_short_text_cannot_make_much_work(text: str) -> None:
    assert [problem.code for problem in refused(text)] == ["too_large"]


def test_problems_are_limited() -> None:
    problems = refused("digraph {" + "1a;" * 5_000 + "}")
    assert [problem.code for problem in problems[-2:]] == ["invalid_dot", "too_many_problems"]


UNITS = ('"', "a ", "a->", '""+', "#", "<a>", '"\\', "a[x=y] ", "a[x=y,] ", "{}", "\n", "/**/")


@pytest.mark.parametrize("unit", UNITS)
def test_twice_the_text_takes_about_twice_the_time(unit: str) -> None:
    """Quadratic reading would take sixteen times as long for four times the text."""

    def read(count: int) -> None:
        with pytest.raises(InvalidInput):
            read_graph("digraph { a " + unit * count)

    limit = 10 * cpu_seconds(lambda: read(2_000)) + 0.05
    assert cpu_seconds(lambda: read(8_000), limit) <= limit


@given(st.text(alphabet='ab "\\\n[]{}=;,-><+:/*#1.\x00é', max_size=60))
def test_no_text_breaks_the_reader(text: str) -> None:
    for source in (text, f"digraph {{{text}}}", f"digraph {{ a [{text}"):
        try:
            graph = read_graph(source, "dot")
        except InvalidInput:
            continue
        check(graph, "dot")

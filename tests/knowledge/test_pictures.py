"""Pictures of the graph: all of it is there, nothing overlaps, no text is more than text."""

from __future__ import annotations

import random
import re
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passdown.core.graph import NODE_TYPES, RELATIONS, Edge, Graph, Node, graph_of
from passdown.knowledge.pictures import BOX_WIDTH, MAX_NODES, mermaid, svg
from tests.sizes import example_count

if TYPE_CHECKING:
    from collections.abc import Callable

NS = "{http://www.w3.org/2000/svg}"
NASTY = (
    '"]; click n0 "javascript:alert(1)"',
    "</text><script>alert(1)</script>",
    "a --> b\nend\n%%{init: {}}%%",
    "`**bold** [x](https://evil.example)`",
    "1. first\n- second",
    "\x00\x1b[2J\u202e\ufffe\uffff\u2028",
    "#quot; &quot; <br/> ]]></style>",
    "漢字" * 40,
    "x" * 90,
    "www.evil.example a@b.example",
    "\ufb02\xb0\xb060\xb6\xdfscript\ufb02\xb062\xb6\xdf",
)


class Box(NamedTuple):
    """A drawn rectangle."""

    x: float
    y: float
    width: float
    height: float

    def touches(self, other: Box) -> bool:
        across = self.x < other.x + other.width and other.x < self.x + self.width
        return across and self.y < other.y + other.height and other.y < self.y + self.height


def a_graph(count: int, seed: int = 1) -> Graph:
    rng = random.Random(seed)
    nodes = [
        Node(f"n{i}", rng.choice(NODE_TYPES), f"Summary number {i} of them", ("auth", "db"), {})
        for i in range(count)
    ]
    edges = [
        Edge(f"n{rng.randrange(count)}", rng.choice(RELATIONS), f"n{rng.randrange(count)}")
        for _ in range(count + count // 2)
    ]
    return graph_of(nodes, edges)


def boxes_of(text: str) -> dict[str, tuple[Box, str]]:
    """Each node's box and words, by its tooltip."""
    found: dict[str, tuple[Box, str]] = {}
    for group in ElementTree.fromstring(text).iter(f"{NS}g"):
        if group.get("class") == "node":
            rect = group.find(f"{NS}rect")
            assert rect is not None
            box = Box(*(float(rect.attrib[name]) for name in ("x", "y", "width", "height")))
            words = " ".join(each.text or "" for each in group.iter(f"{NS}text"))
            found[group.findtext(f"{NS}title") or ""] = (box, words)
    return found


@pytest.mark.parametrize("count", [1, 2, 5, 15, 60])
def test_every_node_has_its_box_and_no_two_overlap(count: int) -> None:
    graph = a_graph(count)
    text = svg(graph, "Title & more")
    found = boxes_of(text)
    assert found.keys() == {node.id for node in graph.nodes}
    for node in graph.nodes:
        box, words = found[node.id]
        assert node.type in words
        assert node.summary in words
        assert "#auth #db" in words
        assert box.x >= 0 <= box.y
    assert not any(a.touches(b) for (a, _), (b, _) in combinations(found.values(), 2))


def test_the_size_of_the_picture_holds_all_of_it() -> None:
    text = svg(a_graph(40))
    root = ElementTree.fromstring(text)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert root.attrib["viewBox"] == f"0 0 {width:g} {height:g}"
    moved = re.search(r'<g transform="translate\((\S+) (\S+)\)"', text)
    assert moved
    for box, _ in boxes_of(text).values():
        assert box.x + box.width + float(moved[1]) <= width
        assert box.y + box.height + float(moved[2]) <= height


def test_a_long_way_stays_narrow_and_no_label_touches_a_box_or_another() -> None:
    """Labels keep to the gap at the right of their source."""
    rng = random.Random(3)
    for count in (9, 25, 60):
        names = [f"n{number:02}" for number in range(count)]
        pairs = {*pairwise(names), *((rng.choice(names), rng.choice(names)) for _ in range(20))}
        edges = [Edge(a, "uses", b) for a, b in sorted(pairs) if a != b]
        text = svg(graph_of([Node(name, "component", name) for name in names], edges))
        root = ElementTree.fromstring(text)
        found = boxes_of(text)
        assert float(root.attrib["width"]) <= 2_500
        assert not any(a.touches(b) for (a, _), (b, _) in combinations(found.values(), 2))
        assert text.count('<path class="line"') == len(edges)
        labels: list[Box] = []
        for label in root.iter(f"{NS}rect"):
            if label.get("class") == "paper" and label.get("opacity"):
                sizes = (float(label.attrib[name]) for name in ("x", "y", "width", "height"))
                place = Box(*sizes)
                assert not any(place.touches(box) for box, _ in found.values())
                assert not any(place.touches(other) for other in labels)
                labels.append(place)
                assert place.x + place.width + 28 <= float(root.attrib["width"])


def test_relations_stand_at_their_lines_and_types_in_the_legend() -> None:
    nodes = [Node("a", "task", "A"), Node("b", "rule", "B", (), {"priority": "critical"})]
    edges = [
        Edge("a", "must_follow", "b"),
        Edge("a", "uses", "b"),
        Edge("b", "relates_to", "b"),
        Edge("b", "changed_in", "T-1#d3"),
    ]
    text = svg(graph_of(nodes, edges))
    for words in ("must_follow +1", "relates_to", "changed_in", "task (1)", "decision (1)"):
        assert f">{words}<" in text
    assert ">rule, critical<" in text
    assert text.count('<path class="line"') == 3
    assert "prefers-color-scheme: dark" in text


@pytest.mark.parametrize("picture", [svg, mermaid])
def test_of_a_large_graph_the_best_connected_are_shown(picture: Callable[[Graph], str]) -> None:
    nodes = [Node(f"n{i:03}", "insight", f"Summary {i}.") for i in range(200)]
    edges = [Edge("n199", "uses", f"n{i:03}") for i in range(150)]
    text = picture(graph_of(nodes, edges))
    assert "Summary 199" in text
    assert "Summary 180" not in text
    assert text.count("Summary ") == MAX_NODES
    assert re.search(r"Left out(:|#58;) 140 nodes and 91 edges", text)
    assert picture(graph_of(nodes[::-1], edges[::-1])) == text


@pytest.mark.parametrize("picture", [svg, mermaid])
def test_what_is_shown_hangs_together(picture: Callable[[Graph], str]) -> None:
    """A hundred pairs have a node of three edges each; one chain is longer than there is room."""
    chain = [Edge(f"c{i:03}", "uses", f"c{i + 1:03}") for i in range(100)]
    hub = [Edge("c050", "calls", f"leaf{i}") for i in range(5)]
    stars = [Edge(f"s{i}", relation, f"t{i}") for i in range(90) for relation in RELATIONS[:3]]
    text = picture(graph_of((), [*chain, *hub, *stars]))
    assert "c050" in text
    assert not re.search(r"\bs\d", text)


@pytest.mark.parametrize("status", ["superseded", "reverted", "retracted", "deprecated"])
def test_what_no_longer_holds_looks_settled(status: str) -> None:
    old = Node("T-1#d1", "decision", "A cookie", (), {"status": status})
    new = Node("T-1#d2", "decision", "Redis", (), {"status": "accepted"})
    graph = graph_of([old, new], ())
    groups = re.findall(r'<g class="node">.*?</g>', svg(graph), re.DOTALL)
    assert ['class="box old"' in group for group in groups] == [True, False]
    assert f">decision, {status}<" in groups[0]
    assert f"decision T#45;1#35;d1 #40;{status}#41;: A cookie" in mermaid(graph)
    assert "decision T#45;1#35;d2: Redis" in mermaid(graph)


def test_a_chart_names_what_stands_for_itself_once() -> None:
    nodes = [Node("file:src/a.py", "file", "src/a.py"), Node("task:T-1", "task", "Log in")]
    text = mermaid(graph_of(nodes, ()))
    assert '["file#58;src#47;a#46;py"]' in text
    assert '[["task#58;T#45;1: Log in"]]' in text


# What DejaVu Sans takes for these letters, in ems; bold in its bold face.
PLAIN = {"W": 0.99, "M": 0.863, "m": 0.974, "w": 0.818, "#": 0.838, "N": 0.748, "e": 0.615}
HEAVY = {"W": 1.103, "M": 0.995, "m": 1.042, "w": 0.924, "#": 0.838, "N": 0.837, "e": 0.678}


@pytest.mark.parametrize("letter", PLAIN)
def test_no_text_runs_over_the_edge_of_its_box_in_a_wide_font(letter: str) -> None:
    node = Node(letter * 80, "decision", letter * 90, (letter * 60,), {"priority": letter * 30})
    sizes = {"": 13.0, "tags": 10.5, "kind decision": 11.0, "title": 18.0}
    text = svg(graph_of([node], ()), letter * 90)
    root = ElementTree.fromstring(text)
    room = dict.fromkeys(sizes, BOX_WIDTH - 20.0)
    room["title"] = float(root.attrib["width"]) - 50
    for each in root.iter(f"{NS}text"):
        kind, words = each.get("class") or "", each.text or ""
        if letter in words and kind in sizes:
            table = PLAIN if kind in ("", "tags") else HEAVY
            drawn = sum(table.get(char, 0.3) for char in words) * sizes[kind]
            assert drawn <= room[kind], (kind, words)


def test_an_empty_graph_has_a_picture() -> None:
    assert "0 nodes and 0 edges." in svg(Graph())
    assert mermaid(Graph()) == "flowchart LR\n"


@pytest.mark.parametrize("text", NASTY)
def test_no_text_is_more_than_text(text: str) -> None:
    node = Node(text, "gotcha", text, (text,), {"severity": text, "status": text})
    other = Node("b", text, "B")
    graph = Graph((node, other), (Edge(text, text, "b"),))
    check_svg(svg(graph, text))
    check_mermaid(mermaid(graph))


def check_svg(text: str) -> None:
    allowed = {"svg", "title", "desc", "style", "defs", "marker", "path", "rect", "g", "text"}
    root = ElementTree.fromstring(text)
    assert {each.tag.removeprefix(NS) for each in root.iter()} <= allowed
    names = {name for each in root.iter() for name in each.attrib}
    assert not any(name.startswith("on") or "href" in name for name in names)


LABEL = r'"(?:[^\W_]|[ ,]|[A-Za-z]\.(?=[ "])|[^\x00-\x7f\xb0\xb6\ufb02]|\#\d+;|:\ )*"'
LINES = re.compile(
    rf"""flowchart\ LR
    |\ \ n\d+[\[(>{{/\\]+{LABEL}[\])}}/\\]+
    |\ \ n\d+\ -->\|{LABEL}\|\ n\d+
    |\ \ left_out\[{LABEL}\]
    |\ \ classDef\ [a-z]+Node\ stroke:\#[0-9a-f]{{6}},stroke-width:2px
    |\ \ class\ n\d+(?:,n\d+)*\ [a-z]+Node""",
    re.VERBOSE,
)


def check_mermaid(text: str) -> None:
    assert "\ufb02" not in text
    for line in text.removesuffix("\n").split("\n"):
        assert LINES.fullmatch(line), line


@settings(max_examples=example_count(15))
@given(st.lists(st.text(max_size=40), min_size=1, max_size=5, unique=True))
def test_no_text_breaks_a_picture(texts: list[str]) -> None:
    nodes = tuple(Node(text, "insight", text, (text,)) for text in texts)
    edges = tuple(Edge(texts[0], "uses", text) for text in texts)
    check_svg(svg(Graph(nodes, edges), texts[-1]))
    check_mermaid(mermaid(Graph(nodes, edges)))

"""The knowledge graph and packs: neighbours, parts, what has to do with a task."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from passdown.core.graph import Graph
from passdown.core.tokens import counter_of
from passdown.errors import InvalidInput, NotFound
from passdown.knowledge.graph import reachable
from passdown.knowledge.graph_files import read_graph
from passdown.testing import full_handoff
from tests.knowledge.test_knowledge import edge, node
from tests.sizes import example_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown import Workspace

NAMES = tuple("ABCDEF")
EDGES = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(["uses", "calls"]), st.sampled_from(NAMES)),
    max_size=14,
    unique=True,
)


def distances(
    edges: list[tuple[str, str, str]], start: str, direction: str, only: list[str]
) -> dict[str, int]:
    """By hand: how many steps to each node."""
    steps = {(a, b) for a, r, b in edges if direction != "in" and (not only or r in only)}
    steps |= {(b, a) for a, r, b in edges if direction != "out" and (not only or r in only)}
    found = {start: 0}
    for depth in range(1, 10):
        ends = {b for a, b in steps if found.get(a) == depth - 1}
        found.update({end: depth for end in ends if end not in found})
    del found[start]
    return found


@settings(
    max_examples=example_count(15), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    edges=EDGES,
    start=st.sampled_from(NAMES),
    depth=st.integers(1, 7),
    way=st.tuples(
        st.sampled_from(["out", "in", "both"]),
        st.lists(st.sampled_from(["uses", "calls"]), max_size=1),
    ),
)
def test_neighbours_are_what_a_walk_by_hand_gives(
    ws: Workspace,
    edges: list[tuple[str, str, str]],
    start: str,
    depth: int,
    way: tuple[str, list[str]],
) -> None:
    """Each once, by a shortest path of edges that are there; cycles do no harm."""
    direction, only = way
    old = [e.key for e in ws.knowledge.edges() if e.relation in ("uses", "calls")]
    if old:
        ws.knowledge.add(agent="a", forget_edges=old)
    ws.knowledge.add(
        [node(name) for name in NAMES], [edge(a, b, r) for a, r, b in edges], agent="a"
    )
    found = ws.knowledge.neighbours(start, depth=depth, direction=direction, relations=only)
    expected = {n: d for n, d in distances(edges, start, direction, only).items() if d <= depth}
    assert {place.node: place.depth for place in found} == expected
    assert [place.depth for place in found] == sorted(place.depth for place in found)
    for place in found:
        at = start
        assert len(place.path) == place.depth
        for step in place.path:
            assert step.key in edges
            assert not only or step.relation in only
            assert at == (step.source if direction == "out" else step.target) or (
                direction == "both" and at in (step.source, step.target)
            )
            at = step.target if at == step.source else step.source
        assert at == place.node
    ws.knowledge.add(agent="a", forget_nodes=list(NAMES))


def test_what_can_not_be_asked_is_a_typed_error(ws: Workspace) -> None:
    unknown: list[Callable[[], object]] = [
        lambda: ws.knowledge.neighbours("nobody"),
        lambda: ws.knowledge.graph(around=["nobody"]),
        lambda: ws.knowledge.graph(task="T-9"),
        lambda: ws.knowledge.pack("T-9"),
    ]
    invalid: list[Callable[[], object]] = [
        lambda: ws.knowledge.neighbours("task:T-1", depth=0),
        lambda: ws.knowledge.neighbours("task:T-1", direction="up"),
        lambda: ws.knowledge.neighbours("\ud800"),
        lambda: ws.knowledge.edges(source="\ud800"),
        lambda: ws.knowledge.graph(types=["idea"]),
        lambda: ws.knowledge.tagged(["a"], types=["idea"]),
        lambda: ws.knowledge.tagged(["a"], limit=0),
        lambda: ws.knowledge.tasks_about("a", types=["idea"]),
        lambda: ws.knowledge.pack("T-1", nodes=0, budget=0, depth=-1, format="xml"),
        lambda: ws.knowledge.graph(depth=-5),
    ]
    for call in unknown:
        with pytest.raises(NotFound):
            call()
    for call in invalid:
        with pytest.raises(InvalidInput):
            call()


def test_parts_of_the_graph(ws: Workspace) -> None:
    ws.hand_off(full_handoff())
    ws.knowledge.add(
        [node("A", tags=["auth"]), node("B")], [edge("A", "T-1#d1"), edge("A", "B")], agent="a"
    )
    assert {n.id for n in ws.knowledge.graph(tags=["auth"], depth=0).nodes} == {
        "A",
        "T-1#d1",
        "T-1#p1",
    }
    assert {n.type for n in ws.knowledge.graph(task="T-1", types=["gotcha", "pattern"]).nodes} == {
        "gotcha",
        "pattern",
    }
    assert ws.knowledge.graph(tags=["nothing"]) == Graph()
    assert {e.key for e in ws.knowledge.edges(source="A", relation="uses")} == {
        ("A", "uses", "B"),
        ("A", "uses", "T-1#d1"),
    }
    assert [e.key for e in ws.knowledge.edges(source="A", target="B")] == [("A", "uses", "B")]
    assert ws.knowledge.edges() == list(ws.knowledge.graph().edges)


@pytest.mark.parametrize("wrong", [None, 5, b"x", [5], 2.5])
def test_arguments_of_the_wrong_type_are_named(ws: Workspace, wrong: Any) -> None:
    asked: dict[str, list[Callable[[], object]]] = {
        "around": [lambda: ws.knowledge.graph(around=wrong)],
        "tags": [lambda: ws.knowledge.graph(tags=wrong), lambda: ws.knowledge.tagged(wrong)],
        "types": [
            lambda: ws.knowledge.graph(types=wrong),
            lambda: ws.knowledge.tasks_about("x", types=wrong),
        ],
        "relations": [lambda: ws.knowledge.neighbours("task:T-1", relations=wrong)],
        "node": [lambda: ws.knowledge.neighbours(wrong)],
        "source": [lambda: ws.knowledge.edges(source=wrong)],
        "task": [lambda: ws.knowledge.graph(task=wrong), lambda: ws.knowledge.journal(wrong)],
    }
    if wrong != 5:
        asked["depth"] = [
            lambda: ws.knowledge.neighbours("task:T-1", depth=wrong),
            lambda: ws.knowledge.graph(depth=wrong),
        ]
        asked["limit"] = [
            lambda: ws.knowledge.journal(limit=wrong),
            lambda: ws.knowledge.audit(limit=wrong),
            lambda: ws.knowledge.tagged(["x"], limit=wrong),
        ]
    for path, calls in asked.items():
        for call in calls:
            with pytest.raises(InvalidInput) as caught:
                call()
            assert caught.value.problems[0].path.startswith(path)


def test_one_text_is_meant_as_a_list_of_itself(ws: Workspace) -> None:
    ws.knowledge.add([node("AB", tags=["auth"]), node("C")], [edge("AB", "C")], agent="a")
    assert ws.knowledge.graph(around="AB") == ws.knowledge.graph(around=["AB"])
    assert ws.knowledge.graph(tags="auth", types="component") == ws.knowledge.graph(around="AB")
    assert [place.node for place in ws.knowledge.neighbours("AB", relations="uses")] == ["C"]
    ws.knowledge.add(agent="a", forget_nodes="AB")
    assert [each.id for each in ws.knowledge.graph(types="component").nodes] == ["C"]


def test_a_part_around_many_nodes_is_what_the_parts_around_each_give(ws: Workspace) -> None:
    names = [f"n{number}" for number in range(12)]
    edges = [edge(a, b) for a, b in pairwise(names)]
    ws.knowledge.add(
        [node(n, tags=["x"] if n in ("n1", "n8") else []) for n in names], edges, agent="a"
    )
    found = {each.id for each in ws.knowledge.graph(tags=["x"], depth=2).nodes}
    parts = [ws.knowledge.graph(around=[name], depth=2) for name in ("n1", "n8")]
    assert found == {each.id for part in parts for each in part.nodes}


def test_a_walk_ends_at_its_limit(ws: Workspace) -> None:
    """By different relations too: what leads to the same node isn't counted twice."""
    names = [f"n{number}" for number in range(8)]
    edges = [edge("hub", name, r) for name in names for r in ("calls", "uses", "relates_to")]
    ws.knowledge.add([node("hub"), *map(node, names)], edges, agent="a")
    with ws._context.store.reading() as reader:  # pyright: ignore[reportPrivateUsage]
        for relations in ((), ("uses", "calls")):
            for limit in (1, 5, 8, 9):
                found = reachable(reader, "hub", relations=relations, limit=limit)
                assert len({place.node for place in found}) == len(found) == min(limit, 8)
        assert len(reachable(reader, "n0", depth=2, direction="both", limit=3)) == 3


# -- packs


def stocked(ws: Workspace, count: int = 60) -> None:
    """Knowledge about payments, and much about something else."""
    for number in range(count):
        ws.decide(task="T-2", agent="coder", summary=f"Layout of page {number}", rationale="looks")
    nodes = [node(f"Pay{n}", f"Payment service part {n}") for n in range(8)]
    edges = [edge("Pay0", "Ledger"), edge("Ledger", "Far")]
    ws.knowledge.add([*nodes, node("Ledger", "Books"), node("Far", "Beyond")], edges, agent="a")
    ws.create_task("T-7", title="Payment service refunds", agent="planner")


@pytest.mark.promise("S4-31")
def test_a_pack_is_the_part_of_the_graph_that_a_task_speaks_of(ws: Workspace) -> None:
    """Found by its terms, with neighbours one step away, within nodes and tokens."""
    stocked(ws)
    pack = ws.knowledge.pack("T-7")
    names = {n.id for n in pack.graph.nodes}
    assert {f"Pay{number}" for number in range(8)} | {"Ledger"} <= names
    assert "Far" not in names
    assert not any(name.startswith("T-2#") for name in names)
    assert {"payment", "servic", "refund"} <= set(pack.terms)
    assert pack.tokens == counter_of(None).tokens(pack.text) <= 1_500
    assert "Far" in {n.id for n in ws.knowledge.pack("T-7", depth=2).graph.nodes}
    assert "Ledger" not in {n.id for n in ws.knowledge.pack("T-7", depth=0).graph.nodes}
    known = [n.id for n in pack.graph.nodes]
    assert read_graph(pack.text, known=known).nodes == pack.graph.nodes


@pytest.mark.promise("S4-31")
@pytest.mark.parametrize("form", ["dot", "json"])
def test_a_pack_keeps_to_both_limits_and_counts_what_it_leaves_out(
    ws: Workspace, form: str
) -> None:
    stocked(ws)
    whole = ws.knowledge.pack("T-7", nodes=100, budget=100_000, format=form)
    assert whole.left_out == 0
    total = len(whole.graph.nodes)
    before = -1
    for budget in (1, 30, 60, 120, 240, 480, 2_000):
        pack = ws.knowledge.pack("T-7", nodes=100, budget=budget, format=form)
        assert pack.tokens <= budget
        assert len(pack.graph.nodes) + pack.left_out == total
        assert len(pack.graph.nodes) >= before
        before = len(pack.graph.nodes)
    few = ws.knowledge.pack("T-7", nodes=3, budget=100_000, format=form)
    assert len(few.graph.nodes) == 3
    assert few.left_out


@pytest.mark.promise("S4-31")
def test_what_a_pack_leaves_out_is_the_same_for_either_limit(ws: Workspace) -> None:
    stocked(ws, 3)
    for number in range(6):
        ws.decide(task="T-7", agent="a", summary=f"Step {number} of many", rationale="r")
    total = len(ws.knowledge.pack("T-7", budget=100_000).graph.nodes)
    assert total > 14
    limited: list[dict[str, Any]] = [{"nodes": 1}, {"nodes": 9}, {"budget": 10}, {"budget": 200}]
    for limits in limited:
        given: dict[str, Any] = {"budget": 100_000, **limits}
        pack = ws.knowledge.pack("T-7", **given)
        assert len(pack.graph.nodes) + pack.left_out == total


def test_a_pack_leaves_out_what_was_settled(ws: Workspace) -> None:
    stocked(ws, 3)
    old = ws.decide(task="T-1", agent="a", summary="Payment service by card", rationale="r")
    new = ws.decide(
        task="T-1", agent="a", summary="Payment by letter", rationale="r", supersedes=old.items
    )
    names = {n.id for n in ws.knowledge.pack("T-7").graph.nodes}
    assert new.items[0] in names
    assert old.items[0] not in names

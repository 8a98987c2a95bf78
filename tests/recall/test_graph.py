"""The knowledge graph and packs: neighbours, parts, what has to do with a task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from passdown.errors import InvalidInput, NotFound
from passdown.model.graph import Graph
from passdown.model.graph_files import read_graph
from passdown.model.tokens import counter_of
from passdown.testing import full_handoff
from tests.test_knowledge import edge, node

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


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
    old = [e.key for e in ws.edges() if e.relation in ("uses", "calls")]
    if old:
        ws.learn(agent="a", forget_edges=old)
    ws.learn([node(name) for name in NAMES], [edge(a, b, r) for a, r, b in edges], agent="a")
    found = ws.neighbours(start, depth=depth, direction=direction, relations=only)
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
    ws.learn(agent="a", forget_nodes=list(NAMES))


def test_what_can_not_be_asked_is_a_typed_error(ws: Workspace) -> None:
    unknown: list[Callable[[], object]] = [
        lambda: ws.neighbours("nobody"),
        lambda: ws.graph(around=["nobody"]),
        lambda: ws.graph(task="T-9"),
        lambda: ws.pack("T-9"),
    ]
    invalid: list[Callable[[], object]] = [
        lambda: ws.neighbours("task:T-1", depth=0),
        lambda: ws.neighbours("task:T-1", direction="up"),
        lambda: ws.neighbours("\ud800"),
        lambda: ws.edges(source="\ud800"),
        lambda: ws.graph(types=["idea"]),
        lambda: ws.tagged(["a"], types=["idea"]),
        lambda: ws.tagged(["a"], limit=0),
        lambda: ws.tasks_about("a", types=["idea"]),
        lambda: ws.pack("T-1", nodes=0, budget=0, depth=-1, form="xml"),
    ]
    for call in unknown:
        with pytest.raises(NotFound):
            call()
    for call in invalid:
        with pytest.raises(InvalidInput):
            call()


def test_parts_of_the_graph(ws: Workspace) -> None:
    ws.hand_off(full_handoff())
    ws.learn(
        [node("A", tags=["auth"]), node("B")], [edge("A", "T-1#d1"), edge("A", "B")], agent="a"
    )
    assert {n.id for n in ws.graph(tags=["auth"], depth=0).nodes} == {"A", "T-1#d1", "T-1#p1"}
    assert {n.type for n in ws.graph(task="T-1", types=["gotcha", "pattern"]).nodes} == {
        "gotcha",
        "pattern",
    }
    assert ws.graph(tags=["nothing"]) == Graph()
    assert {e.key for e in ws.edges(source="A", relation="uses")} == {
        ("A", "uses", "B"),
        ("A", "uses", "T-1#d1"),
    }
    assert [e.key for e in ws.edges(source="A", target="B")] == [("A", "uses", "B")]
    assert ws.edges() == list(ws.graph().edges)


# -- packs


def stocked(ws: Workspace, count: int = 60) -> None:
    """Knowledge about payments, and much about something else."""
    for number in range(count):
        ws.decide(task="T-2", agent="coder", summary=f"Layout of page {number}", rationale="looks")
    nodes = [node(f"Pay{n}", f"Payment service part {n}") for n in range(8)]
    edges = [edge("Pay0", "Ledger"), edge("Ledger", "Far")]
    ws.learn([*nodes, node("Ledger", "Books"), node("Far", "Beyond")], edges, agent="a")
    ws.create_task("T-7", title="Payment service refunds", agent="planner")


@pytest.mark.promise("S4-31")
def test_a_pack_is_the_part_of_the_graph_that_a_task_speaks_of(ws: Workspace) -> None:
    """Found by its terms, with neighbours one step away, within nodes and tokens."""
    stocked(ws)
    pack = ws.pack("T-7")
    names = {n.id for n in pack.graph.nodes}
    assert {f"Pay{number}" for number in range(8)} | {"Ledger"} <= names
    assert "Far" not in names
    assert not any(name.startswith("T-2#") for name in names)
    assert {"payment", "servic", "refund"} <= set(pack.terms)
    assert pack.tokens == counter_of(None).tokens(pack.text) <= 1_500
    assert "Far" in {n.id for n in ws.pack("T-7", depth=2).graph.nodes}
    assert "Ledger" not in {n.id for n in ws.pack("T-7", depth=0).graph.nodes}
    known = [n.id for n in pack.graph.nodes]
    assert read_graph(pack.text, known=known).nodes == pack.graph.nodes


@pytest.mark.promise("S4-31")
@pytest.mark.parametrize("form", ["dot", "json"])
def test_a_pack_keeps_to_both_limits_and_counts_what_it_leaves_out(
    ws: Workspace, form: str
) -> None:
    stocked(ws)
    whole = ws.pack("T-7", nodes=100, budget=100_000, form=form)
    assert whole.left_out == 0
    total = len(whole.graph.nodes)
    before = -1
    for budget in (1, 30, 60, 120, 240, 480, 2_000):
        pack = ws.pack("T-7", nodes=100, budget=budget, form=form)
        assert pack.tokens <= budget
        assert len(pack.graph.nodes) + pack.left_out == total
        assert len(pack.graph.nodes) >= before
        before = len(pack.graph.nodes)
    few = ws.pack("T-7", nodes=3, budget=100_000, form=form)
    assert len(few.graph.nodes) == 3
    assert few.left_out


def test_a_pack_leaves_out_what_was_settled(ws: Workspace) -> None:
    stocked(ws, 3)
    old = ws.decide(task="T-1", agent="a", summary="Payment service by card", rationale="r")
    new = ws.decide(
        task="T-1", agent="a", summary="Payment by letter", rationale="r", supersedes=old.items
    )
    names = {n.id for n in ws.pack("T-7").graph.nodes}
    assert new.items[0] in names
    assert old.items[0] not in names

"""Written knowledge and the graph: learning, forgetting, asking, packs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown import Settings
from passdown.core.graph import Edge, Node, graph_of, knowledge_problems
from passdown.errors import InvalidInput, KeyReused, NotFound
from passdown.testing import fixed_clock, full_handoff, write_files
from tests.faults.tools import result_of
from tests.search.workers import start

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from passdown import Workspace

Document = dict[str, Any]


@pytest.fixture
def ws(tmp_path: Path, each_store: None) -> Iterator[Workspace]:
    write_files(str(tmp_path))
    chosen = Settings(durability="normal", embedder="none")
    with passdown.open(str(tmp_path), settings=chosen, clock=fixed_clock()) as workspace:
        for task in ("T-1", "T-2"):
            workspace.create_task(task, title=f"Work on {task}", agent="planner")
        yield workspace


def node(name: str, summary: str = "Something", **more: Any) -> Document:
    return {"id": name, "type": "component", "summary": summary, **more}


def edge(source: str, target: str, relation: str = "uses") -> Document:
    return {"source": source, "relation": relation, "target": target}


def codes(error: pytest.ExceptionInfo[InvalidInput]) -> list[str]:
    return [problem.code for problem in error.value.problems]


# -- what handoffs bring


@pytest.mark.promise("S3-23")
def test_a_pattern_becomes_a_node_of_its_task(ws: Workspace) -> None:
    """With the tags that it applies to."""
    ws.hand_off(full_handoff())
    (found,) = ws.knowledge.graph(around=["T-1#p1"], depth=0).nodes
    assert (found.type, found.tags) == ("pattern", ("auth", "user-state"))
    assert found.summary == "Ask the session for the user"
    assert ws.knowledge.edges(source="T-1#p1", relation="discovered_in") == [
        Edge("T-1#p1", "discovered_in", "task:T-1", {})
    ]


@pytest.mark.promise("S3-24")
def test_a_gotcha_becomes_a_node_of_its_task_and_keeps_its_severity(ws: Workspace) -> None:
    ws.hand_off(full_handoff())
    (found,) = ws.knowledge.graph(around=["T-1#g1"], depth=0).nodes
    assert (found.type, found.attributes["severity"]) == ("gotcha", "high")
    assert [e.target for e in ws.knowledge.edges(source="T-1#g1")] == ["task:T-1"]


def test_decisions_files_agents_and_dependencies_are_in_the_graph(ws: Workspace) -> None:
    ws.hand_off(full_handoff())
    ws.update_task("T-2", agent="planner", depends_on=["T-1"])
    item = ws.decide(
        task="T-2", agent="coder", summary="Anew", rationale="r", supersedes=["T-1#d1"]
    ).items[0]
    keys = {found.key for found in ws.knowledge.graph().edges}
    assert {
        ("T-1#d1", "decided_by", "agent:planner"),
        ("T-1#d1", "relates_to", "task:T-1"),
        ("T-1#d1", "relates_to", "file:src/auth/jwt.py"),
        ("file:src/config.py", "changed_in", "task:T-1"),
        ("T-1#w1", "discovered_in", "task:T-1"),
        (item, "supersedes", "T-1#d1"),
        ("task:T-2", "depends_on", "task:T-1"),
    } <= keys
    types = {found.id: found.type for found in ws.knowledge.graph().nodes}
    assert types["T-1#w1"] == "insight"
    assert types["agent:planner"] == "agent"
    assert types["file:src/config.py"] == "file"
    ws.update_task("T-2", agent="planner", depends_on=[])
    assert ws.knowledge.edges(relation="depends_on") == []
    assert ws.verify().findings == ()


@pytest.mark.promise("S3-37")
def test_the_tasks_that_found_patterns_about_a_tag(ws: Workspace) -> None:
    for number in range(12):
        name = f"Pattern number {number}"
        where: Document = {"location": "src", "applies_to": ["auth", f"n-{number}"]}
        ws.note("pattern", task="T-1", agent="coder", pattern=name, **where)
    ws.note("pattern", task="T-2", agent="coder", pattern="P", location="x", applies_to=["auth"])
    ws.note("pattern", task="T-2", agent="coder", pattern="Q", location="x", applies_to=["pay"])
    ws.decide(task="T-2", agent="coder", summary="S", rationale="r", tags=["auth"])
    found = ws.knowledge.tasks_about("Auth")
    assert list(found) == ["T-1", "T-2"]
    assert [n["id"] for n in found["T-1"]] == [f"T-1#p{number}" for number in range(1, 13)]
    assert [n["id"] for n in found["T-2"]] == ["T-2#p1"]
    both = ws.knowledge.tasks_about("auth", types=("pattern", "decision"))
    assert [n["id"] for n in both["T-2"]] == ["T-2#p1", "T-2#d1"]
    assert ws.knowledge.tasks_about("nothing") == {}


@pytest.mark.promise("S3-38")
def test_nodes_are_found_by_shared_tags_and_connections(ws: Workspace) -> None:
    """Task, decision, pattern, gotcha and insight are nodes; summaries have 100 characters."""
    ws.hand_off(full_handoff())
    long = "word " * 60
    ws.decide(task="T-2", agent="coder", summary=long, rationale="r", tags=["auth", "pay"])
    found = ws.knowledge.tagged(["auth", "user-state", "pay"])
    assert [(tagged.node.id, round(tagged.score, 2), tagged.tags) for tagged in found] == [
        ("T-1#p1", 0.67, ("auth", "user-state")),
        ("T-2#d1", 0.67, ("auth", "pay")),
        ("T-1#d1", 0.33, ("auth",)),
    ]
    assert [t.node.id for t in ws.knowledge.tagged(["auth"], types=["pattern"])] == ["T-1#p1"]
    assert len(ws.knowledge.tagged(["auth", "pay"], limit=1)) == 1
    whole = ws.knowledge.graph()
    assert {"task", "decision", "pattern", "gotcha", "insight"} <= {n.type for n in whole.nodes}
    assert max(len(n.summary) for n in whole.nodes) == 100
    assert whole.tag_index()["auth"] == ["T-1#d1", "T-1#p1", "T-2#d1"]
    reached = {place.node: place.depth for place in ws.knowledge.neighbours("T-1#p1", depth=2)}
    assert reached["task:T-1"] == 1
    around = ws.knowledge.neighbours("T-1#p1", depth=2, direction="both")
    assert {"T-1#d1", "T-1#g1"} <= {place.node for place in around if place.depth == 2}


# -- learning and forgetting


def test_what_is_learned_stands_and_what_is_known_is_not_written_again(ws: Workspace) -> None:
    nodes, edges = [node("A", tags=["x"]), node("B")], [edge("A", "B")]
    first = ws.knowledge.add(nodes, edges, agent="coder", task="T-1")
    assert (first.version, first.is_replay, first.warnings) == (2, False, ())
    again = ws.knowledge.add(nodes, edges, agent="tester", task="T-1")
    assert (again.version, again.is_replay) == (2, True)
    more = ws.knowledge.add([node("A", tags=["x"]), node("C")], [edge("A", "C")], agent="tester")
    assert more.task == "workspace"
    graph = ws.knowledge.graph(around=["A"])
    assert [n.id for n in graph.nodes] == ["A", "B", "C"]
    assert [e.key for e in graph.edges] == [("A", "uses", "B"), ("A", "uses", "C")]


def test_a_node_that_says_something_else_is_reported_and_stays_in_history(ws: Workspace) -> None:
    ws.knowledge.add([node("A", "One")], agent="coder", task="T-1")
    receipt = ws.knowledge.add([node("A", "Two", tags=["t"])], agent="tester")
    (warning,) = receipt.warnings
    assert (warning.code, warning.level) == ("replaced", "warning")
    assert "T-1 version 2" in warning.message
    assert "'One'" in warning.message
    assert [n.summary for n in ws.knowledge.graph(around=["A"]).nodes] == ["Two"]
    assert [t.node.id for t in ws.knowledge.tagged(["t"])] == ["A"]
    assert [line.kind for line in ws.log("T-1")] == ["learned", "task_created"]


def test_an_edge_keeps_its_attributes_until_others_come(ws: Workspace) -> None:
    ws.knowledge.add([node("A"), node("B")], [{**edge("A", "B"), "purpose": "x"}], agent="a")
    assert ws.knowledge.add(edges=[{**edge("A", "B"), "purpose": "x"}], agent="a").is_replay
    ws.knowledge.add(edges=[{**edge("A", "B"), "purpose": "y"}], agent="a")
    assert [dict(e.attributes) for e in ws.knowledge.edges(source="A")] == [{"purpose": "y"}]
    assert ws.verify().findings == ()


def test_what_is_forgotten_is_gone_with_its_edges(ws: Workspace) -> None:
    ws.knowledge.add(
        [node("A", tags=["t"]), node("B")], [edge("A", "B"), edge("B", "A")], agent="a"
    )
    ws.knowledge.add(agent="a", forget_edges=[("A", "uses", "B")])
    assert [e.key for e in ws.knowledge.edges(relation="uses")] == [("B", "uses", "A")]
    ws.knowledge.add(agent="a", forget_nodes=["A"])
    assert (ws.knowledge.edges(relation="uses"), ws.knowledge.tagged(["t"])) == ([], [])
    with pytest.raises(NotFound):
        ws.knowledge.neighbours("A")
    assert ws.verify().findings == ()
    ws.knowledge.add([node("A")], agent="a")
    assert [n.tags for n in ws.knowledge.graph(around=["A"]).nodes] == [()]


def test_an_edge_that_a_later_record_brings_again_is_there_again(ws: Workspace) -> None:
    ws.hand_off(full_handoff())
    key = ("file:src/config.py", "changed_in", "task:T-1")
    ws.knowledge.add(agent="a", forget_edges=[key])
    assert key not in {e.key for e in ws.knowledge.graph().edges}
    ws.hand_off(
        {
            "task": "T-1",
            "outcome": "completed",
            "from_agent": "coder",
            "files_modified": [full_handoff()["files_modified"][0]],
        }
    )
    assert key in {e.key for e in ws.knowledge.graph().edges}
    assert ws.verify().findings == ()
    assert ws.maintenance.reindex().differing == ()


@pytest.mark.parametrize("name", ["T-1", "task:T-1", "agent:x", "file:a.py", "T-9#d1"])
def test_ids_that_stand_for_themselves_are_reserved(ws: Workspace, name: str) -> None:
    if name == "T-1":
        assert ws.knowledge.add([node(name)], agent="a").version == 2
        return
    with pytest.raises(InvalidInput) as caught:
        ws.knowledge.add([node(name)], agent="a")
    assert codes(caught) == ["reserved_id"]
    ws.knowledge.add([node("A")], [edge("A", name)], agent="a")


def test_what_other_records_say_is_not_for_the_graph(ws: Workspace) -> None:
    """Which decision holds, and what a task depends on, has one place each."""
    ws.hand_off(full_handoff())
    given = [edge("T-1#d1", "T-1#g1", "supersedes"), edge("task:T-1", "task:T-2", "depends_on")]
    with pytest.raises(InvalidInput) as caught:
        ws.knowledge.add(edges=given, agent="a")
    assert codes(caught) == ["reserved_edge", "reserved_edge"]
    ws.update_task("T-1", agent="a", depends_on=["T-2"])
    with pytest.raises(InvalidInput) as caught:
        ws.knowledge.add(agent="a", forget_edges=[("task:T-1", "depends_on", "task:T-2")])
    assert codes(caught) == ["reserved_edge"]


def test_everything_wrong_is_said_at_once_and_nothing_is_written(ws: Workspace) -> None:
    heads = ws.maintenance.heads().heads
    bad: list[Any] = [
        {"id": "", "type": "idea", "summary": ""},
        node("R", type="rule"),
        node("L", "x" * 101),
        node("T", tags=["A b"]),
        7,
    ]
    with pytest.raises(InvalidInput) as caught:
        ws.knowledge.add(bad, agent="a")
    assert codes(caught) == ["wrong_type"]
    with pytest.raises(InvalidInput) as caught:
        ws.knowledge.add(
            bad[:4], [edge("A", "B", "likes")], agent="user", task="no task", key="a\nb"
        )
    assert {
        "invalid_id",
        "not_allowed",
        "missing",
        "too_long",
        "invalid_tag",
        "unknown_node",
        "reserved_name",
        "control_character",
    } <= set(codes(caught))
    for forgotten in ([("A", "uses")], [("A", "uses", 3)], ["abc"], [("A", "uses", "B")]):
        with pytest.raises(InvalidInput) as caught:
            ws.knowledge.add(agent="a", forget_edges=forgotten)  # pyright: ignore[reportArgumentType]
        assert codes(caught)[0] in ("wrong_type", "unknown_edge")
    with pytest.raises(InvalidInput) as caught:
        ws.knowledge.add(agent="a", forget_nodes=["A"])
    assert codes(caught) == ["unknown_node"]
    with pytest.raises(InvalidInput):
        ws.knowledge.add(agent="a")
    assert ws.maintenance.heads().heads == heads


def test_a_key_is_good_for_one_content(ws: Workspace) -> None:
    first = ws.knowledge.add([node("A")], agent="a", key="k")
    assert ws.knowledge.add([node("A")], agent="a", key="k").version == first.version
    with pytest.raises(KeyReused):
        ws.knowledge.add([node("B")], agent="a", key="k")


def test_many_threads_lose_no_edge(ws: Workspace) -> None:
    ws.knowledge.add([node("Hub")], agent="a")

    def work(number: int) -> None:
        for turn in range(5):
            name = f"N{number}-{turn}"
            ws.knowledge.add([node(name)], [edge(name, "Hub")], agent=f"a{number}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len(ws.knowledge.edges(target="Hub", relation="uses")) == 40
    assert ws.verify().findings == ()


def test_many_processes_lose_no_edge(ws: Workspace) -> None:
    ws.knowledge.add([node("Hub")], agent="a")
    workers = [start("learn", folder=ws.root, name=f"p{number}", count=10) for number in range(3)]
    for worker in workers:
        result_of(worker)
    assert len(ws.knowledge.edges(target="Hub", relation="uses")) == 30
    (shared,) = ws.knowledge.graph(around=["Shared"], depth=0).nodes
    assert shared.summary.startswith("p")
    assert ws.verify().findings == ()


# -- knowledge from elsewhere


def test_a_bundle_carries_knowledge(ws: Workspace, tmp_path: Path) -> None:
    ws.hand_off(full_handoff())
    ws.knowledge.add(
        [node("A", tags=["t"]), node("B")], [edge("A", "B"), edge("A", "T-1#d1")], agent="a"
    )
    ws.knowledge.add([node("A", "Newer", tags=["t"])], agent="a", task="T-2")
    ws.knowledge.add(agent="a", forget_nodes=["B"])
    path = str(tmp_path / "bundle.zip")
    ws.maintenance.export(path)
    other = tmp_path / "other"
    with passdown.open(str(other), settings=Settings(embedder="none")) as taken:
        taken.maintenance.import_bundle(path)
        assert taken.knowledge.graph() == ws.knowledge.graph()
        assert [a.address for a in taken.recall("newer", kinds=["knowledge"])] == ["node:A"]
        assert taken.verify().findings == ()
        assert taken.maintenance.reindex().differing == ()


NODE = {"id": "A", "type": "component", "summary": "S"}
EDGE = {"source": "A", "relation": "uses", "target": "B"}


BODIES: list[Document] = [
    {},
    {"nodes": [{**NODE, "id": "task:T-1"}]},
    {"nodes": [{**NODE, "type": "idea"}]},
    {"nodes": [{**NODE, "extra": "x"}]},
    {"nodes": [{**NODE, "tags": ["b", "a"]}]},
    {"nodes": [{**NODE, "summary": "x" * 101}]},
    {"nodes": [{**NODE, "attributes": {}}]},
    {"nodes": []},
    {"edges": [{**EDGE, "relation": "likes"}]},
    {"edges": [{**EDGE, "relation": "supersedes", "target": "T-1#d1"}]},
    {"forgotten_nodes": ["B", "A"]},
    {"forgotten_nodes": "AB"},
    {"forgotten_nodes": [1]},
    {"forgotten_edges": [{**EDGE, "source": 1}]},
    {"forgotten_edges": [{**EDGE, "attributes": {"a": "b"}}]},
]


@pytest.mark.parametrize("body", BODIES)
def test_a_body_that_nobody_here_would_write_is_refused(body: Document) -> None:
    assert knowledge_problems(body)


def test_a_body_as_it_is_written_is_admitted() -> None:
    body = {
        "nodes": [{**NODE, "attributes": {"path": "a.py"}, "tags": ["a", "b"]}],
        "edges": [EDGE],
        "forgotten_edges": [{**EDGE, "target": "C"}],
        "forgotten_nodes": ["C", "D"],
    }
    assert knowledge_problems(body) == []


def test_graphs_are_equal_by_content() -> None:
    one = graph_of([Node("B", "file", "b"), Node("A", "file", "a", ("y", "x"))], ())
    other = graph_of([Node("A", "file", "a", ("x", "y", "x")), Node("B", "file", "b")], ())
    assert one == other


def test_a_node_that_is_superseded_by_another_stays_as_it_was_written(ws: Workspace) -> None:
    """And an id that search would take for another node's is no id."""
    ws.knowledge.add([node("redis2"), node("r3")], agent="a")
    with pytest.raises(InvalidInput) as caught:
        ws.knowledge.add([node("node:redis2")], agent="a")
    assert codes(caught) == ["reserved_id"]
    ws.knowledge.add(edges=[edge("r3", "redis2", "supersedes")], agent="a")
    assert ws.verify().findings == ()
    assert ws.maintenance.reindex().differing == ()


@pytest.mark.parametrize(
    ("path", "given"),
    [
        ("nodes[0].id", {"nodes": [Node(None, "component", "s")]}),  # pyright: ignore[reportArgumentType]
        ("nodes[0].summary", {"nodes": [Node("a", "component", 5)]}),  # pyright: ignore[reportArgumentType]
        ("nodes[0].tags", {"nodes": [Node("a", "component", "s", "tag")]}),  # pyright: ignore[reportArgumentType]
        ("nodes[0].attributes", {"nodes": [Node("a", "component", "s", (), None)]}),  # pyright: ignore[reportArgumentType]
        ("nodes[0].attributes.x", {"nodes": [Node("a", "component", "s", (), {"x": 5})]}),  # pyright: ignore[reportArgumentType]
        ("edges[0].target", {"edges": [Edge("a", "uses", None)]}),  # pyright: ignore[reportArgumentType]
        ("nodes", {"nodes": None}),
        ("edges", {"edges": 5}),
        ("forget_nodes", {"forget_nodes": None}),
        ("forget_nodes[0]", {"forget_nodes": [5]}),
        ("forget_edges", {"forget_edges": None}),
    ],
)
def test_what_is_no_text_is_named(ws: Workspace, path: str, given: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        ws.knowledge.add(agent="a", **given)
    assert path in [problem.path for problem in caught.value.problems]


def test_an_id_is_one_node_however_its_accents_were_typed(ws: Workspace) -> None:
    together, apart = "Caf\u00e9", "Cafe\u0301"
    ws.knowledge.add([node(apart, "A place"), node("B")], [edge(apart, "B")], agent="coder")
    again = ws.knowledge.add([node(together, "Another")], [edge("B", apart)], agent="coder")
    assert [warning.code for warning in again.warnings] == ["replaced"]
    assert [n.id for n in ws.knowledge.graph(types=["component"]).nodes] == ["B", together]
    for name in (together, apart):
        assert [n.summary for n in ws.knowledge.graph(around=[name], depth=0).nodes] == ["Another"]
        assert [place.node for place in ws.knowledge.neighbours(name)] == ["B"]
        assert ws.knowledge.edges(source=name) == [Edge(together, "uses", "B")]
    ws.knowledge.add(agent="coder", forget_edges=[("B", "uses", apart)])
    assert ws.knowledge.edges(target=together) == []
    ws.knowledge.add(agent="coder", forget_nodes=[apart])
    assert [n.id for n in ws.knowledge.graph(types=["component"]).nodes] == ["B"]
    assert ws.verify().findings == ()

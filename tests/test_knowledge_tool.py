"""Agents write knowledge down while they work, and the knowledge file gets it in one batch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import passdown
from passdown import Settings
from passdown.core.graph import CHOICES, KNOWLEDGE_STATUSES, NODE_TYPES, RELATIONS
from passdown.errors import InvalidInput, NotFound
from passdown.knowledge.graph_files import read_graph
from passdown.testing import fixed_clock
from passdown.workspace.knowledge_tool import (
    KNOWLEDGE_ADD,
    KnowledgeTool,
    as_anthropic,
    as_openai,
    pending_entries,
)
from tests.faults.tools import ROOT, worker_environment
from tests.processes import Process
from tests.sizes import example_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from passdown import Workspace
    from passdown.knowledge.sync import KnowledgeSync

QUICK = Settings(durability="normal", embedder="none")
Document = dict[str, Any]


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    with passdown.open(str(tmp_path), settings=QUICK, clock=fixed_clock()) as workspace:
        workspace.create_task("T-1", title="Work", agent="planner")
        yield workspace


def entry(name: str, summary: str = "Something", **more: Any) -> Document:
    return {"knowledge": {"id": name, "type": "component", "summary": summary, **more}}


def file_of(ws: Workspace) -> Path:
    return Path(ws.root, "knowledge.dot")


def at_boundary(ws: Workspace, path: str = "") -> KnowledgeSync:
    return ws.knowledge.sync(path, agent="relay")


def names(ws: Workspace, *agents: str) -> list[str]:
    return [node.id for found in pending_entries(ws, agents) for node in found.nodes]


@pytest.mark.promise("S4-26")
def test_the_definition_has_one_object_that_is_required() -> None:
    """Its schema is a schema, takes its own example, and both renderings carry it whole."""
    schema = KNOWLEDGE_ADD["input_schema"]
    jsonschema.Draft202012Validator.check_schema(schema)
    assert list(schema["properties"]) == schema["required"] == ["knowledge"]
    knowledge = schema["properties"]["knowledge"]
    assert knowledge["type"] == "object"
    assert knowledge["properties"]["type"]["enum"] == list(NODE_TYPES)
    edge = knowledge["properties"]["edges"]["items"]["properties"]
    assert edge["relation"]["enum"] == list(RELATIONS)
    valid: Any = jsonschema.Draft202012Validator(schema)
    assert valid.is_valid(entry("A", edges=[{"relation": "uses", "target": "B"}]))
    assert not valid.is_valid({})
    assert not valid.is_valid({"knowledge": "A uses B"})
    assert as_anthropic(KNOWLEDGE_ADD) == KNOWLEDGE_ADD
    function = as_openai(KNOWLEDGE_ADD)["function"]
    assert (function["name"], function["parameters"]) == ("knowledge_add", schema)
    json.dumps([as_anthropic(KNOWLEDGE_ADD), as_openai(KNOWLEDGE_ADD)])


@pytest.mark.promise("S4-26")
@pytest.mark.parametrize("agent", ["architect", "coder", "coder.R-1"])
def test_every_agent_has_the_tool_and_it_ends_no_turn(ws: Workspace, agent: str) -> None:
    tool = KnowledgeTool(ws, agent, "T-1")
    assert tool.definition is KNOWLEDGE_ADD
    assert tool.ends_turn is False
    answers = [tool(entry(name)) for name in ("A", "B")]
    assert [answer.is_error for answer in answers] == [False, False]
    assert {record.author for record in ws.log("T-1")[:2]} == {agent}


@pytest.mark.promise("S4-27")
def test_an_entry_is_in_the_ledger_and_in_the_buffer_before_the_answer(ws: Workspace) -> None:
    """Another opening of the store has it at once; the file doesn't yet."""
    tool = KnowledgeTool(ws, "coder", "T-1")
    assert tool(entry("redis", type="datastore", tags=["ops"])).text == (
        "redis (datastore) is recorded."
    )
    answer = tool(entry("store", edges=[{"relation": "uses", "target": "redis"}]))
    assert answer.text == "store (component) is recorded with 1 edge."
    with passdown.open(ws.root, settings=QUICK) as other:
        assert [edge.key for edge in other.knowledge.edges(source="store")] == [
            ("store", "uses", "redis")
        ]
        assert KnowledgeTool(other, "coder").buffer() == tool.buffer()
    first, second = tool.buffer()
    assert [node.tags for node in first.nodes] == [("ops",)]
    assert (first.agent, first.task, first.edges) == ("coder", "T-1", ())
    assert [edge.target for edge in second.edges] == ["redis"]
    assert KnowledgeTool(ws, "architect").buffer() == []
    assert not file_of(ws).exists()


def test_a_known_entry_is_not_written_twice_and_a_changed_one_is_mentioned(ws: Workspace) -> None:
    tool = KnowledgeTool(ws, "coder")
    tool(entry("A", "One"))
    before = len(ws.log("workspace"))
    assert "nothing changed" in tool(entry("A", "One")).text
    assert len(ws.log("workspace")) == before
    changed = tool(entry("A", "Two"))
    assert not changed.is_error
    assert "'One'" in changed.text


@pytest.mark.parametrize("given", [json.dumps(entry("A")), {"knowledge": '{"id": "A"}'}])
def test_json_is_taken_for_what_it_says(ws: Workspace, given: Any) -> None:
    """Some interfaces hand arguments on as text, some models write an object as one."""
    answer = KnowledgeTool(ws, "coder")(given)
    assert answer.is_error == (given == {"knowledge": '{"id": "A"}'})
    assert "knowledge.type" in answer.text or not answer.is_error


@pytest.mark.promise("S4-26")
def test_a_bad_entry_gets_all_its_problems_at_once_and_changes_nothing(ws: Workspace) -> None:
    """Wrong types and broken rules together, under the names that the model knows."""
    tool = KnowledgeTool(ws, "coder", "T-1")
    before = ws.log("T-1")
    answer = tool(
        {
            "knowledge": {
                "id": 7,
                "type": "gadget",
                "summary": "x" * 101,
                "tags": ["Two Words"],
                "severity": "awful",
                "edges": [{"relation": "likes", "target": "nowhere"}, "A"],
            }
        }
    )
    assert answer.is_error
    told = [line[2:].split(":")[0] for line in answer.text.splitlines()[1:]]
    assert sorted(told) == [
        "knowledge.edges[0].relation",
        "knowledge.edges[1]",
        "knowledge.id",
        "knowledge.severity",
        "knowledge.summary",
        "knowledge.tags[0]",
        "knowledge.type",
    ]
    assert "task | agent | decision" in answer.text
    unknown = tool(entry("A", edges=[{"relation": "uses", "target": "nowhere"}]))
    assert unknown.is_error
    assert "knowledge.edges[0].target: there is no node 'nowhere'" in unknown.text
    assert ws.log("T-1") == before


@pytest.mark.parametrize(
    "given",
    [
        None,
        [],
        "{",
        "[" * 100_000,
        {},
        {"id": "A", "type": "component", "summary": "Bare"},
        {"knowledge": None},
        {"knowledge": []},
        {**entry("A"), "more": 1},
        entry("A", edges="B"),
        entry("A", edges=[{}] * 51),
        entry("A", edges=[{"source": "B", "relation": "uses", "target": "A"}]),
        entry("task:T-1"),
        entry("\ud800"),
        entry("A", type="rule"),
        entry("A", attributes=[1]),
    ],
)
def test_what_is_no_entry_is_answered_in_words(ws: Workspace, given: Any) -> None:
    """No exception, nothing written, and something to do."""
    answer = KnowledgeTool(ws, "coder")(given)
    assert answer.is_error
    assert answer.text.startswith(
        "Nothing was recorded. Fix these, then call knowledge_add again:\n- "
    )
    assert "expected" in answer.text
    assert names(ws) == []


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "type", "tags", "edges", "target", "attributes", "knowledge"])
            | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(value=json_values)
def test_whatever_a_model_gives_is_answered(
    value: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp() / "answered"
    folder.mkdir(exist_ok=True)
    with passdown.open(str(folder), settings=QUICK) as workspace:
        tool = KnowledgeTool(workspace, "coder")
        for given in (value, {"knowledge": value}, json.dumps({"knowledge": value})):
            assert tool(given).text


def drawn_entries() -> st.SearchStrategy[Document]:
    """Entries that the schema takes."""
    line = st.text(st.characters(min_codepoint=97, max_codepoint=122), min_size=1, max_size=9)
    optional = {
        "description": line,
        "tags": st.lists(line, max_size=3),
        "level": st.sampled_from(CHOICES["level"]),
        "severity": st.sampled_from(CHOICES["severity"]),
        "status": st.sampled_from(KNOWLEDGE_STATUSES),
        "path": line,
        "attributes": st.dictionaries(st.sampled_from(["owner", "since"]), line),
        "edges": st.lists(
            st.fixed_dictionaries(
                {"relation": st.sampled_from(RELATIONS), "target": st.just("agent:coder")}
            ),
            max_size=2,
        ),
    }
    required = {
        "id": line,
        "type": st.sampled_from(NODE_TYPES),
        "summary": line,
        "priority": st.sampled_from(CHOICES["priority"]),
    }
    return st.fixed_dictionaries(required, optional=optional)


@settings(max_examples=example_count(10))
@given(knowledge=drawn_entries())
def test_what_the_schema_takes_the_tool_takes(
    knowledge: Document, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp() / "taken"
    folder.mkdir(exist_ok=True)
    jsonschema.validate({"knowledge": knowledge}, KNOWLEDGE_ADD["input_schema"])
    with passdown.open(str(folder), settings=QUICK) as workspace:
        answer = KnowledgeTool(workspace, "coder")({"knowledge": knowledge})
        assert not answer.is_error, answer.text


def test_who_uses_the_tool_and_for_what_is_checked(ws: Workspace) -> None:
    """These are no words of a model, so they are raised."""
    with pytest.raises(InvalidInput):
        KnowledgeTool(ws, "system", "no task")
    with pytest.raises(NotFound):
        KnowledgeTool(ws, "coder", "T-9")(entry("A"))


@pytest.mark.promise("S4-28")
def test_a_boundary_brings_all_buffers_to_the_file_in_one_batch(ws: Workspace) -> None:
    """Until then the file isn't touched; then each node is in it once, and nothing waits."""
    coder, architect = KnowledgeTool(ws, "coder", "T-1"), KnowledgeTool(ws, "architect")
    coder(entry("A"))
    architect(entry("B", edges=[{"relation": "uses", "target": "A"}]))
    coder(entry("C"))
    KnowledgeTool(ws, "stranger")(entry("D"))
    assert names(ws, "coder", "architect") == ["A", "B", "C"]
    assert [(found.agent, found.nodes[0].id) for found in pending_entries(ws)] == [
        ("coder", "A"),
        ("architect", "B"),
        ("coder", "C"),
        ("stranger", "D"),
    ]
    boundary = at_boundary(ws)
    assert (boundary.is_changed, boundary.reports) == (True, ())
    graph = read_graph(file_of(ws).read_text("utf-8"))
    assert [node.id for node in graph.nodes] == ["A", "B", "C", "D"]
    assert [edge.key for edge in graph.edges] == [("B", "uses", "A")]
    assert coder.buffer() == architect.buffer() == pending_entries(ws) == []
    assert not at_boundary(ws).is_changed


@pytest.mark.promise("S4-28")
def test_an_edge_that_says_more_than_the_file_waits_for_the_next_boundary(ws: Workspace) -> None:
    tool = KnowledgeTool(ws, "coder", "T-1")
    uses = {"relation": "uses", "target": "A"}
    tool(entry("A"))
    tool(entry("B", edges=[uses]))
    at_boundary(ws)
    tool(entry("B", edges=[{**uses, "attributes": {"since": "May"}}]))
    (waits,) = pending_entries(ws)
    assert [dict(edge.attributes) for edge in waits.edges] == [{"since": "May"}]
    at_boundary(ws)
    (edge,) = read_graph(file_of(ws).read_text("utf-8")).edges
    assert dict(edge.attributes) == {"since": "May"}
    assert pending_entries(ws) == []


@pytest.mark.promise("S4-28")
def test_a_boundary_merges_and_reports_what_contradicts(ws: Workspace) -> None:
    """Two agents on one node: one node. A person in the file as well: the file is kept aside."""
    KnowledgeTool(ws, "coder")(entry("A", "By the coder"))
    KnowledgeTool(ws, "architect")(entry("A", "By the architect"))
    assert names(ws, "coder") == []
    (report,) = at_boundary(ws).reports
    assert (report.path, report.code) == ("nodes.A", "conflict")
    text = file_of(ws).read_text("utf-8")
    assert text.count('"A"') == 1
    file_of(ws).write_text(text.replace("By the architect", "By hand"), "utf-8")
    KnowledgeTool(ws, "coder")(entry("A", "By the coder again"))
    boundary = at_boundary(ws)
    assert [report.code for report in boundary.reports] == ["conflict"]
    assert "By hand" in Path(boundary.kept_aside).read_text("utf-8")
    assert "By the coder again" in file_of(ws).read_text("utf-8")


def test_a_file_that_cannot_be_read_is_kept_and_all_entries_wait_for_a_new_one(
    ws: Workspace,
) -> None:
    KnowledgeTool(ws, "coder")(entry("A"))
    at_boundary(ws)
    file_of(ws).write_text("digraph {", "utf-8")
    assert names(ws, "coder") == ["A"]
    boundary = at_boundary(ws)
    assert [report.code for report in boundary.reports] == ["unreadable"]
    assert Path(boundary.kept_aside).read_text("utf-8") == "digraph {"
    assert pending_entries(ws) == []


def test_another_file_has_its_own_boundary(ws: Workspace) -> None:
    KnowledgeTool(ws, "coder")(entry("A"))
    at_boundary(ws, "docs.json")
    assert pending_entries(ws, path="docs.json") == []
    assert names(ws) == ["A"]


AGENT = """
import sys, time, passdown
from passdown import Settings
from passdown.workspace.knowledge_tool import KnowledgeTool

ws = passdown.open(sys.argv[1], settings=Settings(embedder="none"))
tool = KnowledgeTool(ws, "coder", "T-1")
for number in range(1000):
    knowledge = {"id": f"N-{number}", "type": "component", "summary": "Found on the way"}
    assert not tool({"knowledge": knowledge}).is_error
    print(number, flush=True)
    time.sleep(0.02)
"""


@pytest.mark.promise("S4-27", "S4-28")
def test_a_kill_before_the_boundary_loses_no_entry(ws: Workspace) -> None:
    """What the dead process was told is written stands in the file, once; any process does it."""
    worker = Process(
        [sys.executable, "-c", AGENT, ws.root],
        cwd=ROOT,
        env=worker_environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdout is not None
    answered = [int(worker.stdout.readline()) for _ in range(5)]
    os.kill(worker.pid, signal.SIGKILL)
    answered += [int(line) for line in worker.communicate()[0].split()]
    assert worker.returncode == -signal.SIGKILL
    assert not file_of(ws).exists()
    rebuilt = KnowledgeTool(ws, "coder").buffer()
    assert len(answered) <= len(rebuilt) <= len(answered) + 1
    assert at_boundary(ws).is_changed
    text = file_of(ws).read_text("utf-8")
    assert [text.count(f'"N-{number}"') for number in answered] == [1] * len(answered)
    assert ws.verify().findings == ()

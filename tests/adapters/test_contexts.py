"""Contexts and decisions under the names of the story that they come from, from end to end."""

from __future__ import annotations

import asyncio
import json
import sys
import urllib.request
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, cast

import pytest

import passdown
from passdown import Decision, HandoffContext
from passdown.adapters.langgraph import HandoffGraph
from passdown.adapters.memory import DecisionMemory, LedgerMemory, MemoryResult, MemoryStore
from passdown.adapters.states import AgentState, astep, context_of, handoff_update, step
from passdown.core.integrity import compare_states, state_checksum
from passdown.errors import InvalidInput
from passdown.mcp.tools import call_tool
from tests.processes import run_python
from tests.serving import Lent, served

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from passdown import Workspace

Plain = dict[str, Any]
NOON = datetime(2026, 5, 4, 12, tzinfo=timezone(timedelta(hours=2)))


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    with passdown.open(str(tmp_path)) as workspace:
        workspace.create_task("T-1", title="Login", agent="analyst")
        yield workspace


def story_shape() -> tuple[Any, Any]:
    """A decision and a context as the story's own tests make them."""
    make: Any = Decision
    decision = make(
        agent="analyst",
        summary="Prioritized security over performance",
        rationale="User explicitly requested secure design",
        related_artifacts=["req-001"],
    )
    make = HandoffContext
    context = make(
        source_agent="analyst",
        target_agent="pm",
        decisions=(decision,),
        memory_refs=("req-001", "req-002"),
    )
    return decision, context


@pytest.mark.promise("S0-6", "S0-7")
def test_values_take_the_storys_names_and_have_a_time() -> None:
    before = datetime.now(UTC)
    decision, context = story_shape()
    for made in (decision, context):
        assert before <= made.timestamp <= datetime.now(UTC)
        assert made.at is made.timestamp
        assert made.at.utcoffset() == timedelta(0)
        with pytest.raises(AttributeError):
            made.at = before
    assert decision.related_artifacts == decision.artifacts == ("req-001",)
    assert (context.source_agent, context.target_agent) == (context.source, context.target)
    make: Any = Decision
    given = make(summary="x", rationale="y", timestamp=NOON)
    assert given.at == NOON
    with pytest.raises(TypeError, match="nonsense"):
        make(summary="x", rationale="y", nonsense=1)


@pytest.mark.promise("S0-22")
def test_a_context_can_be_checksummed() -> None:
    """By value: the same for equal ones, another when anything in it differs."""
    make: Any = HandoffContext
    fields: Plain = {"source": "a", "target": "b", "at": NOON, "metadata": {"x": [1, {"y": 2}]}}
    first = state_checksum({"handoff_context": make(**fields)}, exclude=())
    assert first == state_checksum({"handoff_context": make(**fields)}, exclude=())
    assert len(first) == 64
    other = make(**{**fields, "metadata": {"x": [1, {"y": 3}]}})
    assert first != state_checksum({"handoff_context": other}, exclude=())
    states = [{"handoff_context": each} for each in (make(**fields), other)]
    report = compare_states(states[0], states[1], exclude=())
    assert report.changed == ("handoff_context.metadata.x[1].y",)


@pytest.mark.promise("S0-10")
def test_a_context_of_the_storys_shape_is_read_from_the_state(ws: Workspace) -> None:
    """As the value itself, as a dict of it, or under our names; the next handoff keeps its refs."""
    _, given = story_shape()
    as_dict = {"source_agent": "analyst", "target_agent": "pm", "timestamp": NOON.isoformat()}
    as_dict |= {"memory_refs": ["req-001", "req-002"]}
    for context in (given, as_dict):
        state: Plain = {"current_agent": "pm", "handoff_context": context}
        found = context_of(state)
        assert found is not None
        assert (found.source, found.target) == ("analyst", "pm")
        assert found.memory_refs == ("req-001", "req-002")
        update = handoff_update(state, "dev", workspace=ws, task="T-1")
        assert update["handoff_context"]["memory_refs"][:2] == ["req-001", "req-002"]
    with pytest.raises(InvalidInput, match="source"):
        context_of({"handoff_context": {"target_agent": "pm"}})


@pytest.mark.promise("S0-30", "S0-12")
@pytest.mark.parametrize("how", ["value", "story", "own"])
def test_a_nodes_decision_keeps_its_time_and_its_artifacts(ws: Workspace, how: str) -> None:
    """In the state, in the context that the receiver reads, and on record."""
    text = "2026-05-04T10:00:00.000000Z"
    decided: dict[str, Any] = {
        "value": Decision(summary="Use JWT", rationale="no store", at=NOON, artifacts=("req-001",)),
        "story": {"timestamp": NOON.isoformat(), "related_artifacts": ["req-001"]},
        "own": {"at": text, "artifacts": ["req-001"]},
    }
    said = {"summary": "Use JWT", "rationale": "no store"}
    entry: Any = decided[how] if how == "value" else {**said, **decided[how]}
    state = step(
        lambda _: {"decisions": [entry]},
        {},
        agent="analyst",
        to="pm",
        workspace=ws,
        task="T-1",
    )
    context = context_of(state)
    assert context is not None
    assert [(d.at, d.artifacts) for d in context.decisions] == [(NOON, ("req-001",))]
    if how != "value":
        assert state["decisions"] == [{**entry, "agent": "analyst"}], "as it was given"
    recorded = ws.show("T-1#d1").to_dict()
    assert (recorded["at"], recorded["artifacts"]) == (text, ["req-001"])
    assert "warnings" not in state


@pytest.mark.promise("S0-6")
def test_a_decision_without_a_time_has_that_of_its_handoff(ws: Workspace) -> None:
    before = datetime.now(UTC)
    decided = {"summary": "Use JWT", "rationale": "no store"}
    state = step(
        lambda _: {"decisions": [decided]}, {}, agent="analyst", to="pm", workspace=ws, task="T-1"
    )
    context = context_of(state)
    assert context is not None
    at = context.decisions[0].at
    assert at is not None
    assert before <= at <= datetime.now(UTC)


@pytest.mark.promise("S0-30")
def test_what_isnt_taken_is_named_in_a_warning(ws: Workspace) -> None:
    """A field of a decision that nobody declared, a field of the handoff, a reference that is no
    text: each is named; what can be kept is kept.
    """

    def node(_: Plain) -> Plain:
        decided = {"summary": "Use JWT", "rationale": "no store", "confidence": 0.9}
        handoff = {"outcome": "completed", "summary": "Done.", "mood": "good"}
        return {"decisions": [decided], "handoff": handoff, "memory_refs": ["req-001", 5, ""]}

    state = step(node, {}, agent="analyst", to="pm", workspace=ws, task="T-1")
    named = {warning["path"] for warning in state["warnings"]}
    assert named == {"decisions[0].confidence", "mood", "memory_refs[1]", "memory_refs[2]"}
    assert state["handoff_context"]["memory_refs"][0] == "req-001"
    assert state["decisions"][0]["confidence"] == 0.9
    assert "0.9" in json.dumps(ws.show("T-1#h1").to_dict())
    update = handoff_update({"current_agent": "pm"}, "dev", memory_refs=["a", "a", 7])  # type: ignore[list-item]
    assert update["handoff_context"]["memory_refs"] == ["a"]
    assert [each["path"] for each in update["warnings"]] == ["memory_refs[2]"]


class Work(AgentState, total=False):
    note: str


@pytest.mark.promise("S0-30", "S0-28")
@pytest.mark.parametrize("is_async", [False, True])
def test_nodes_pass_memory_refs_and_what_they_stored(ws: Workspace, is_async: bool) -> None:
    """What a node names, and every key that it stored in its turn, reach all later agents; its
    recorded handoff has them too.
    """
    memory = LedgerMemory(ws)

    async def store() -> Plain:
        await memory.store_embedding("req-001", "Users log in with a token")
        await memory.store_relationship("req-001", "req-002", "refines")
        key = await memory.store_decision(Decision(agent="analyst", summary="x", rationale="y"))
        return {"memory_refs": ["named by the node", key]}

    async def anode(_: Work) -> Plain:
        return await store()

    def node(_: Work) -> Plain:
        return asyncio.run(store())

    def after(state: Work) -> Plain:
        context = context_of(state)
        assert context is not None
        return {"note": json.dumps(context.memory_refs)}

    graph = HandoffGraph(ws, "T-1", Work, strict=True)
    graph.add_node("analyst", anode if is_async else node).add_node("pm", after)
    graph.add_node("dev", after)
    graph.add_edge("__start__", "analyst").add_edge("analyst", "pm").add_edge("pm", "dev")
    compiled = graph.compile()
    state = asyncio.run(compiled.ainvoke({})) if is_async else compiled.invoke({})
    refs = json.loads(state["note"])
    assert refs[:3] == ["named by the node", "workspace#d1", "req-001"]
    assert len(refs) == len(set(refs))
    assert "warnings" not in state or state["warnings"] == []
    assert "memory_refs" not in state
    recorded = [each.get("memory_refs", []) for each in ws.files.state_document("T-1")["handoffs"]]
    assert recorded[0] == ["named by the node", "workspace#d1", "req-001"]
    assert recorded[1:] == [[], []]


@pytest.mark.promise("S0-30")
def test_what_a_turn_stored_is_with_its_handoff_to_every_receiver(ws: Workspace) -> None:
    """In the record and in the brief of whoever gets the work, beside what the handoff names."""
    memory = LedgerMemory(ws)

    async def node(_: Plain) -> Plain:
        await memory.store_embedding("req-001", "Users log in with a token")
        handoff = {"summary": "done", "memory_refs": ["of the handoff"]}
        return {"memory_refs": ["named"], "handoff": handoff}

    asyncio.run(astep(node, {}, agent="analyst", to="pm", workspace=ws, task="T-1"))
    refs = ("of the handoff", "named", "req-001")
    assert ws.context.handoff_context("T-1").memory_refs == refs
    line = "- memory_refs: of the handoff, named, req-001\n"
    assert line in ws.brief("T-1", agent="pm").text
    assert line in ws.switch("T-1", to_agent="pm").text


@pytest.mark.promise("S0-30")
def test_a_turn_takes_the_keys_of_no_other(ws: Workspace) -> None:
    """Two agents at once, each with its own; nothing is taken outside of a turn."""
    memory = LedgerMemory(ws)

    def node(name: str) -> Any:
        async def turn(_: Plain) -> Plain:
            await asyncio.sleep(0)
            await memory.store_embedding(f"{name} key", name)
            return {}

        return turn

    async def both() -> list[Plain]:
        await memory.store_embedding("nobody's", "x")
        return await asyncio.gather(
            *(
                astep(node(name), {}, agent=name, to="pm", workspace=ws, task="T-1")
                for name in ("analyst", "dev")
            )
        )

    refs = [
        [ref for ref in state["handoff_context"]["memory_refs"] if "#" not in ref]
        for state in asyncio.run(both())
    ]
    assert refs == [["analyst key"], ["dev key"]]


class OwnMemory:
    """The three methods of a memory store, on a dict; it knows nothing of decisions."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[str, Mapping[str, Any]]] = {}
        self.edges: list[tuple[str, str, str]] = []

    async def store_embedding(
        self, key: str, content: str, metadata: Mapping[str, Any] | None = None
    ) -> None:
        self.kept[key] = (content, metadata or {})

    async def search_similar(self, query: str, k: int = 5) -> list[MemoryResult]:
        words = set(query.lower().split())

        def score(content: str) -> float:
            return len(words & set(content.lower().split())) / max(1, len(words))

        ranked = sorted(self.kept.items(), key=lambda each: -score(each[1][0]))
        return [MemoryResult(key, text, score(text), data) for key, (text, data) in ranked[:k]]

    async def store_relationship(self, source: str, target: str, relation: str) -> None:
        self.edges.append((source, relation, target))


def accepts(memory: MemoryStore) -> DecisionMemory:
    return DecisionMemory(memory)


@pytest.mark.promise("S0-16", "S0-11", "S0-12", "S0-13", "S0-14")
def test_decisions_are_kept_in_any_store_of_three_methods() -> None:
    """Under a key of agent and time, with every field, its edges, and k of them found however many
    other entries there are.
    """
    own = OwnMemory()
    assert isinstance(own, MemoryStore)
    memory = accepts(own)
    artifacts = ("req-001", "spec:login, v2")
    decision = Decision(
        agent="analyst", summary="Use JWT", rationale="no store: stateless", artifacts=artifacts
    )

    async def use() -> None:
        for number in range(40):
            await own.store_embedding(f"other {number}", "Use JWT tokens for this")
        key = await memory.store_decision(decision)
        assert key.startswith("decision-analyst-")
        assert await memory.store_decision(decision) == key
        same_time = Decision(agent="analyst", summary="Use TLS", rationale="y", at=decision.at)
        second = await memory.store_decision(same_time)
        assert second != key
        kept = own.kept[key][1]
        assert (kept["type"], kept["agent"], kept["rationale"]) == (
            "decision",
            "analyst",
            "no store: stateless",
        )
        assert kept["related_artifacts"] == [*artifacts]
        assert datetime.fromisoformat(kept["timestamp"]) == decision.at
        assert {(key, "relates_to", each) for each in artifacts} <= set(own.edges)
        assert (key, "decided_by", "agent:analyst") in own.edges
        found = await memory.query_decisions("Use JWT", k=2)
        assert [each.key for each in found] == [key, second]
        assert found[0].decision == decision
        assert await memory.query_decisions("Use JWT", agent="nobody") == []
        wrong: Any = "x"
        with pytest.raises(TypeError, match="Decision"):
            await memory.store_decision(wrong)

    asyncio.run(use())


@pytest.mark.promise("S0-16")
def test_a_store_without_one_of_the_three_isnt_taken() -> None:
    for missing in ("store_embedding", "search_similar", "store_relationship"):
        methods = {n: getattr(OwnMemory, n) for n in vars(OwnMemory) if n != missing}
        lacking: Any = type("Lacking", (), {n: m for n, m in methods.items() if n[0] != "_"})()
        assert not isinstance(lacking, MemoryStore)
        with pytest.raises(InvalidInput, match=missing):
            accepts(lacking)


@pytest.mark.promise("S0-6", "S0-7")
@pytest.mark.parametrize("interface", ["python", "command line"])
def test_the_storys_names_are_taken_in_a_handoff(
    ws: Workspace, tmp_path: Path, interface: str
) -> None:
    handoff = {
        "task": "T-1",
        "outcome": "completed",
        "source_agent": "analyst",
        "target_agent": "pm",
        "summary": "Requirements are clear.",
        "decisions": [
            {
                "agent": "analyst",
                "summary": "Use JWT",
                "rationale": "no store",
                "timestamp": NOON.isoformat(),
                "related_artifacts": ["docs/req.md"],
            }
        ],
    }
    if interface == "python":
        codes = [each.code for each in ws.hand_off(handoff).warnings]
        assert "unknown_field" not in codes
    else:
        (tmp_path / "h.json").write_text(json.dumps(handoff))
        ended = run_python(
            [sys.executable, "-m", "passdown", "handoff", "h.json"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        assert "unknown" not in ended.stdout + ended.stderr
    task = ws.task("T-1")
    assert task.holder == "pm"
    recorded = ws.show("T-1#d1").to_dict()
    assert recorded["at"] == "2026-05-04T10:00:00.000000Z"
    assert recorded["artifacts"] == ["docs/req.md"]
    assert (
        ws.decide(
            task="T-1", agent="pm", summary="x", rationale="y", related_artifacts=["a.md"]
        ).warnings
        == ()
    )
    assert ws.show("T-1#d2").to_dict()["artifacts"] == ["a.md"]


@pytest.mark.promise("S0-37")
def test_duration_bytes_and_counts_are_recorded_with_each_handoff(ws: Workspace) -> None:
    """Whoever hands off: they are on record and come with the answer."""
    decided = [{"summary": f"d{n}", "rationale": "y"} for n in range(3)]
    command = ws.hand_off(
        task="T-1", outcome="completed", to_agent="pm", summary="Done.", decisions=decided
    )
    metrics = ws.show("T-1#h1").to_dict()["metrics"]
    assert 0 <= metrics["duration_ms"] < 5_000
    assert metrics["counts"] == {"decisions": 3}
    assert 200 < metrics["bytes"] < 2_000
    again = ws.hand_off(
        task="T-1", outcome="completed", to_agent="pm", summary="Done.", decisions=decided
    )
    assert again.is_replay
    assert again.version == command.version
    step(lambda _: {}, {}, agent="pm", to="dev", workspace=ws, task="T-1")
    assert ws.show("T-1#h2").to_dict()["metrics"]["counts"] == {}
    assert not ws.verify().findings


def through(
    interface: str, ws: Workspace, tmp_path: Path, operation: str, given: Plain
) -> tuple[int, str]:
    """An operation with plain fields, through one of the interfaces: whether it went wrong, and
    everything that was said.
    """
    if interface == "python":
        calls: dict[str, Any] = {"hand_off": ws.hand_off, "decide": ws.decide}
        return 0, str(calls[operation](**given).warnings)
    if interface == "mcp":
        name = {"hand_off": "handoff"}.get(operation, operation)
        answer = call_tool(cast("Any", Lent(ws)), name, given, "analyst")
        return int(answer.is_error), answer.text
    if interface == "http":
        with served(ws) as server:
            path = "handoffs" if operation == "hand_off" else "decisions"
            request = urllib.request.Request(
                f"{server.url}/api/{path}",
                json.dumps(given).encode(),
                {
                    "Authorization": f"Bearer {server.token('analyst', 'read', 'write')}",
                    "Content-Type": "application/json",
                },
            )
            with urllib.request.urlopen(request) as response:
                return 0, response.read().decode()
    if operation == "hand_off":
        (tmp_path / "h.json").write_text(json.dumps(given))
        words = ["handoff", "h.json"]
    else:
        words = ["decide", given["summary"], "--why", given["rationale"], "--task", given["task"]]
        words += ["--agent", given["agent"], "--time", given["timestamp"]]
        words += [f"--artifact={name}" for name in given["related_artifacts"]]
    ended = run_python(
        [sys.executable, "-m", "passdown", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return ended.returncode, ended.stdout + ended.stderr


INTERFACES = ["python", "command line", "http", "mcp"]


@pytest.mark.promise("S0-7")
@pytest.mark.parametrize("interface", INTERFACES)
def test_a_handoff_takes_a_time_and_memory_refs(
    ws: Workspace, tmp_path: Path, interface: str
) -> None:
    handoff = {
        "task": "T-1",
        "outcome": "completed",
        "source_agent": "analyst",
        "target_agent": "pm",
        "summary": "Requirements are clear.",
        "timestamp": NOON.isoformat(),
        "memory_refs": ["req:001", "T-1#d1"],
        "decisions": [{"summary": "Use JWT", "rationale": "no store"}],
    }
    code, said = through(interface, ws, tmp_path, "hand_off", handoff)
    assert (code, "schema" in said, "unknown" in said) == (0, False, False), said
    recorded = ws.show("T-1#h1").to_dict()
    assert recorded["at"] == "2026-05-04T10:00:00.000000Z"
    assert recorded["memory_refs"] == ["req:001", "T-1#d1"]
    assert "metadata" not in recorded
    assert ws.state("T-1").handoff_at == NOON
    context = ws.context.handoff_context("T-1")
    assert (context.timestamp, context.memory_refs) == (NOON, ("req:001", "T-1#d1"))
    assert not ws.verify().findings


@pytest.mark.promise("S0-6")
@pytest.mark.parametrize("interface", INTERFACES)
def test_a_decision_takes_the_storys_names(ws: Workspace, tmp_path: Path, interface: str) -> None:
    given = {
        "task": "T-1",
        "agent": "analyst",
        "summary": "Use JWT",
        "rationale": "no store",
        "timestamp": NOON.isoformat(),
        "related_artifacts": ["docs/req.md", "src/a.py"],
    }
    code, said = through(interface, ws, tmp_path, "decide", given)
    assert (code, "unknown" in said) == (0, False), said
    recorded = ws.show("T-1#d1").to_dict()
    assert recorded["at"] == "2026-05-04T10:00:00.000000Z"
    assert recorded["artifacts"] == ["docs/req.md", "src/a.py"]


@pytest.mark.promise("S0-6", "S0-7")
def test_values_are_taken_wherever_their_fields_are(ws: Workspace) -> None:
    """Decisions and contexts as values, in fields, in a dict, prepared, and through a server."""
    decision, context = story_shape()
    step: Plain = {"task": "T-1", "outcome": "completed"}
    ws.hand_off(**step, summary="one", decisions=[decision])
    ws.hand_off({**step, "summary": "two", "decisions": (decision,)})
    prepared = ws.prepare_handoff("T-1", "pm", "implementing", decisions=[decision])
    ws.hand_off(prepared)
    ws.hand_off(context, **step)
    with served(ws) as server, server.opened("analyst", "read", "write") as remote:
        remote.hand_off(context, **step, summary="five", decisions=[decision])
    stamp = decision.at.isoformat(timespec="microseconds").replace("+00:00", "Z")
    for number in range(1, 7):
        kept = ws.show(f"T-1#d{number}").to_dict()
        assert (kept["summary"], kept["at"], kept["artifacts"]) == (
            decision.summary,
            stamp,
            ["req-001"],
        )
    for address in ("T-1#h4", "T-1#h5"):
        handed = ws.show(address).to_dict()
        assert (handed["from_agent"], handed["to_agent"]) == ("analyst", "pm")
        assert handed["memory_refs"] == ["req-001", "req-002"]
    with pytest.raises(InvalidInput) as refused:
        ws.hand_off(context)
    assert {each.path for each in refused.value.problems} >= {"task", "outcome"}


@pytest.mark.promise("S0-6", "S0-7")
def test_a_value_under_two_names_that_differ_is_refused_by_both() -> None:
    make: Any = Decision
    said = {"agent": "a", "summary": "x", "rationale": "y"}
    assert make(**said, at=NOON, timestamp=NOON).at == NOON
    later = NOON + timedelta(days=1)
    with pytest.raises(InvalidInput) as refused:
        make(**said, at=NOON, timestamp=later, artifacts=["a"], related_artifacts=["b"])
    assert [each.path for each in refused.value.problems] == ["artifacts", "at"]
    for word in ("timestamp", "related_artifacts", "at", "artifacts"):
        assert word in str(refused.value)
    make = HandoffContext
    with pytest.raises(InvalidInput, match="source_agent"):
        make(source="a", source_agent="b", target="c")


@pytest.mark.promise("S0-13")
@pytest.mark.parametrize("operation", ["decide", "hand_off"])
@pytest.mark.parametrize("is_remote", [False, True])
def test_a_recorded_decision_leads_to_memories_that_come_later(
    ws: Workspace, operation: str, is_remote: bool
) -> None:
    """The edge leads to the key when it is stored before, after, or not yet."""
    names = ["pre:1", "post:1", "req-001", "never: stored"]
    said: Plain = {"summary": "Use JWT", "rationale": "no store", "related_artifacts": names}

    async def use(opened: Workspace) -> None:
        memory = LedgerMemory(opened)
        await memory.store_embedding("pre:1", "What was asked for")
        if operation == "decide":
            opened.decide(task="T-1", agent="analyst", **said)
        else:
            opened.hand_off(task="T-1", outcome="completed", decisions=[said])
        for key in ("post:1", "req-001"):
            await memory.store_embedding(key, "What was said afterwards")
        for key in names:
            found = await memory.relationships(source="T-1#d1", target=key)
            assert [each.relation for each in found] == ["relates_to"], key
        assert {*names} <= {each.node for each in await memory.get_related("T-1#d1")}

    if is_remote:
        with served(ws) as server, server.opened("analyst", "read", "write") as remote:
            asyncio.run(use(remote))
    else:
        asyncio.run(use(ws))
    assert not ws.verify().findings
    assert not ws.maintenance.doctor().findings
    for format in ("dot", "mermaid", "json", "svg"):
        assert ws.knowledge.render(format=format)
    ws.knowledge.graph(around=["T-1#d1"], depth=2)
    ws.maintenance.reindex()
    assert not ws.verify().findings

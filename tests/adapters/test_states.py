"""The state that agents share, without any framework."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

import passdown
from passdown import Decision, aio
from passdown.adapters import states
from passdown.adapters.states import (
    AgentState,
    SharedState,
    add_decisions,
    add_messages,
    ahandoff_update,
    apply_update,
    astep,
    context_of,
    handoff_update,
    message,
    plain,
    replay,
    runs,
    step,
    transitions,
    verify_handoff,
)
from passdown.errors import IntegrityViolation, InvalidInput, NotFound
from passdown.testing import fixed_clock
from tests.processes import run_python

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from passdown import Workspace

Plain = dict[str, Any]

ROOT = Path(__file__).resolve().parent.parent.parent
JWT: Plain = {"agent": "planner", "summary": "Use JWT", "rationale": "no session store"}


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    with passdown.open(str(tmp_path), clock=fixed_clock()) as workspace:
        workspace.create_task("T-1", title="Login", agent="planner")
        yield workspace


def agent(name: str, **fields: Any) -> Callable[[Plain], Plain]:
    """An agent that says who it is, decides something and sets some fields."""

    def turn(state: Plain) -> Plain:
        assert state["current_agent"] == name
        decided = {"summary": f"{name} decided", "rationale": "because"}
        return {"messages": [message(f"{name} was here", name)], "decisions": [decided], **fields}

    return turn


@pytest.mark.promise("S0-2")
def test_the_state_has_its_fields_and_a_subclass_adds_its_own() -> None:
    """Names in snake_case, types for each, a context or None."""

    class Wider(AgentState, total=False):
        plan: str

    hints = get_type_hints(Wider)
    assert list(hints)[:4] == ["messages", "current_agent", "handoff_context", "decisions"]
    assert hints["messages"] == list[Any]
    assert hints["current_agent"] is str
    assert hints["handoff_context"] == dict[str, Any] | None
    assert hints["decisions"] == list[dict[str, Any]]
    assert hints["plan"] is str
    assert all(name == name.lower() and name.isidentifier() for name in hints)
    assert apply_update({}, {"plan": "x"}, Wider) == {"plan": "x"}


@pytest.mark.parametrize("schema", [dict, type("Other", (), {})])
def test_another_kind_of_state_is_refused(schema: type[Any]) -> None:
    with pytest.raises(InvalidInput, match="TypedDict"):
        apply_update({}, {}, schema)


texts = st.text(max_size=20)


@pytest.mark.promise("S0-3", "S0-39")
@given(st.lists(st.lists(texts, max_size=4), max_size=6))
def test_messages_of_all_agents_add_up_in_order(turns: list[list[str]]) -> None:
    """N agents with m messages each leave N*m; what was there stays first and unchanged."""
    state: Plain = {"messages": []}
    for number, turn in enumerate(turns):
        before = copy.deepcopy(state["messages"])
        update = {"messages": [{"role": "assistant", "content": text} for text in turn]}
        state = apply_update(state, update)
        assert state["messages"][: len(before)] == before, number
    assert [each["content"] for each in state["messages"]] == [t for turn in turns for t in turn]


@pytest.mark.promise("S0-3")
def test_a_message_with_a_known_id_takes_its_place() -> None:
    """Neither list is changed; a single message counts as a list of one."""
    left = [message("a", "x", id="1"), message("b", "x", id="2")]
    before = copy.deepcopy(left)
    merged = add_messages(left, message("A", "x", id="1"))
    assert [(each["id"], each["content"]) for each in merged] == [("1", "A"), ("2", "b")]
    assert left == before
    assert add_messages(None, []) == []


@pytest.mark.promise("S0-5")
def test_a_message_bears_its_agent_and_what_else_is_said_of_it() -> None:
    made = message("done", "coder", confidence=0.9, files=["a.py"])
    assert (made["name"], made["content"], made["role"]) == ("coder", "done", "assistant")
    assert made["metadata"] == {"confidence": 0.9, "files": ["a.py"]}
    assert json.loads(json.dumps(made)) == made
    assert message("a", "x")["id"] != message("a", "x")["id"]
    assert "metadata" not in message("a", "x")


def test_decisions_add_up_and_none_stands_twice() -> None:
    """Equal content or the same key is the same decision; differing content never is."""
    other = {**JWT, "artifacts": ["auth.py"]}
    keyed = {**JWT, "key": "k", "status": "accepted"}
    merged = add_decisions([JWT], [JWT, other, keyed, {**keyed, "status": "superseded"}])
    assert merged == [JWT, other, {**keyed, "status": "superseded"}]
    value = Decision(agent="a", summary="s", rationale="r", at=datetime(2026, 1, 9, tzinfo=UTC))
    (entry,) = add_decisions([], [value])
    assert (entry["summary"], entry["at"]) == ("s", "2026-01-09T00:00:00.000000Z")


@pytest.mark.promise("S0-8", "S0-39")
def test_handing_on_gives_an_update_and_leaves_the_state_alone() -> None:
    """Deeply: also later changes of the update don't reach the state."""
    state: Plain = {
        "messages": [message("m", "planner")],
        "current_agent": "planner",
        "handoff_context": None,
        "decisions": [JWT],
        "plan": {"steps": ["a"]},
    }
    before = copy.deepcopy(state)
    update = handoff_update(state, "coder", metadata={"note": "x"})
    assert state == before
    assert set(update) == {"current_agent", "handoff_context"}
    assert update["current_agent"] == "coder"
    update["handoff_context"]["decisions"][0]["summary"] = "changed"
    assert state == before
    assert json.loads(json.dumps(update)) == update


@pytest.mark.promise("S0-9", "S0-39")
def test_what_is_not_given_is_gathered(ws: Workspace) -> None:
    """The current agent's decisions, of state and task, and the addresses of what is open."""
    ws.decide(task="T-1", agent="planner", summary="Use Redis", rationale="fast")
    ws.decide(task="T-1", agent="other", summary="Not mine", rationale="no")
    ws.note("gotcha", task="T-1", agent="other", issue="i", mitigation="m", severity="low")
    state = {"current_agent": "planner", "decisions": [JWT, {**JWT, "agent": "other"}]}
    for update in (
        handoff_update(state, "coder", workspace=ws, task="T-1"),
        asyncio.run(ahandoff_update(state, "coder", workspace=ws, task="T-1")),
    ):
        context = update["handoff_context"]
        assert [d["summary"] for d in context["decisions"]] == ["Use JWT", "Use Redis"]
        assert context["memory_refs"] == ["T-1#d1", "T-1#g1"]
        assert [ws.show(address).address for address in context["memory_refs"]]
    given = handoff_update(state, "coder", workspace=ws, task="T-1", decisions=(), memory_refs=())
    assert (given["handoff_context"]["decisions"], given["handoff_context"]["memory_refs"]) == (
        [],
        [],
    )
    earlier = {**given["handoff_context"], "memory_refs": ["T-0#d9"]}
    later = {**state, "handoff_context": earlier}
    update = handoff_update(later, "coder", workspace=ws, task="T-1")
    assert update["handoff_context"]["memory_refs"] == ["T-0#d9", "T-1#d1", "T-1#g1"]


@pytest.mark.promise("S0-10", "S0-39")
def test_the_receiver_reads_who_why_and_when(ws: Workspace) -> None:
    """As a value, equal by content and not to be changed."""
    state = step(agent("planner"), {}, agent="planner", to="coder", workspace=ws, task="T-1")
    context = context_of(state)
    assert context is not None
    assert (context.source, context.target) == ("planner", "coder")
    by_summary = {each.summary: each for each in context.decisions}
    assert by_summary["planner decided"].rationale == "because"
    assert context.at.tzinfo is UTC
    assert context.metadata["task"] == "T-1"
    with pytest.raises(AttributeError):
        context.source = "x"  # pyright: ignore[reportAttributeAccessIssue]
    assert context_of({}) is None
    (found,) = ws.recall("decided", kinds=["decision"], agent="planner", by_words=True)
    assert found.address == context.memory_refs[0]
    assert ws.show(found.address).summary == "planner decided"


@pytest.mark.promise("S0-30")
def test_what_is_no_decision_is_skipped_with_a_warning(
    ws: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    """In the log and in the state; the rest goes on."""
    bad = [3, {"summary": "no reason"}, {**JWT, "when": datetime.now(UTC)}, {"rationale": object()}]
    with caplog.at_level(logging.WARNING, logger="passdown.states"):
        state = step(
            lambda _: {"decisions": [*bad, JWT]}, {}, agent="planner", workspace=ws, task="T-1"
        )
    assert [d["summary"] for d in state["decisions"]] == ["Use JWT", "Use JWT"]
    unknown = [w["path"] for w in state["warnings"] if w["code"] == "unknown_field"]
    assert unknown == ["decisions[2].when"]
    skipped = [w["path"] for w in state["warnings"] if w["code"] == "invalid_decision"]
    assert skipped == [f"decisions[{i}]" for i in (0, 1, 3)]
    assert len(state["warnings"]) == len(unknown) + len(skipped)
    assert [vars(each)["field"] for each in caplog.records][:3] == [
        f"decisions[{i}]" for i in (0, 1, 3)
    ]
    update = handoff_update({"current_agent": "a"}, "b", decisions=[7, JWT])
    assert [w["code"] for w in update["warnings"]] == ["invalid_decision"]
    assert len(update["handoff_context"]["decisions"]) == 1


@pytest.mark.promise("S0-28", "S0-39")
@pytest.mark.parametrize("length", [3, 20])
def test_a_chain_loses_nothing(ws: Workspace, length: int) -> None:
    """Every field, message, decision and reference that went in comes out byte by byte."""
    names = [f"agent-{number}" for number in range(length)]
    state: Plain = {"messages": [{"role": "user", "content": "go\u00a0on \U0001f600"}], "seed": [1]}
    put: Plain = {"seed": [1]}
    messages, decisions, refs = [*state["messages"]], list[Plain](), list[str]()
    for number, name in enumerate(names):
        extra = {f"field_{number}": {"text": f"ümlaut {number}", "list": [number, None, 0.5]}}
        said = message(f"{name}\r\n{number}", name)
        decided = {"summary": f"d{number}", "rationale": "r", "agent": name, "artifacts": [name]}
        output = {"messages": [said], "decisions": [decided], **extra}
        put |= copy.deepcopy(extra)
        messages.append(copy.deepcopy(said))
        decisions.append(copy.deepcopy(decided))
        to = names[number + 1] if number + 1 < length else ""
        state = step(
            lambda _, made=output: made,
            state,
            agent=name,
            to=to,
            workspace=ws,
            task="T-1",
            strict=True,
        )
        refs.append(f"T-1#d{number + 1}")

    def as_bytes(value: object) -> bytes:
        return json.dumps(value, sort_keys=True).encode()

    assert as_bytes({name: state[name] for name in put}) == as_bytes(put)
    assert as_bytes(state["messages"]) == as_bytes(messages)
    assert as_bytes(state["decisions"]) == as_bytes(decisions)
    assert state["handoff_context"]["memory_refs"] == refs
    assert "warnings" not in state
    assert len(ws.files.state_document("T-1")["handoffs"]) == length
    assert as_bytes(replay(ws, state["run"])) == as_bytes(state)


@pytest.mark.promise("S0-27", "S0-39")
def test_every_handoff_is_verified_where_it_arrives(
    ws: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    """A field that changes on the way is named: logged and noted, or raised."""
    first: Plain = {"plan": {"a": [1]}, "other": 1}
    state = step(agent("planner"), first, agent="planner", to="coder", workspace=ws, task="T-1")
    report = verify_handoff(state)
    assert report is not None
    assert report.ok
    broken = {**state, "plan": {"a": [2]}, "new": 1}
    del broken["other"]
    given: Plain = {"agent": "coder", "to": "tester", "workspace": ws, "task": "T-1"}
    with pytest.raises(IntegrityViolation) as caught:
        step(agent("coder"), broken, **given, strict=True)
    assert caught.value.fields == ("new", "other", "plan")
    assert "exclude" not in str(caught.value)  # a step has no such option
    with caplog.at_level(logging.WARNING, logger="passdown.integrity"):
        state = step(agent("coder"), broken, **given)
    (warning,) = state["warnings"]
    assert (warning["changed"], warning["missing"], warning["added"]) == (
        ["plan"],
        ["other"],
        ["new"],
    )
    assert (warning["source"], warning["target"]) == ("planner", "coder")
    assert "planner to coder: new, other, plan" in caplog.text
    last: Plain = {**given, "agent": "tester", "to": ""}
    assert step(agent("tester"), state, **last, strict=True)


@pytest.mark.promise("S0-27")
def test_an_agent_that_changes_the_state_in_place_is_found_out(ws: Workspace) -> None:
    """What it was shown is compared with what it leaves, nested values too."""

    def meddler(state: Plain) -> Plain:
        state["plan"]["a"].append(2)
        state["stray"] = 1
        return {}

    state: Plain = {"plan": {"a": [1]}}
    given: Plain = {"agent": "planner", "workspace": ws, "task": "T-1"}
    with pytest.raises(IntegrityViolation, match="plan, stray"):
        step(meddler, copy.deepcopy(state), **given, strict=True)
    (warning,) = step(meddler, state, **given)["warnings"]
    assert (warning["changed"], warning["added"]) == (["plan"], ["stray"])


@pytest.mark.parametrize("workspace", [None, ".", object()])
def test_only_an_open_workspace_will_do(workspace: Any) -> None:
    with pytest.raises(InvalidInput, match=r"passdown\.open"):
        step(agent("planner"), {}, agent="planner", workspace=workspace, task="T-1")


@pytest.mark.parametrize("own", ["careful", ["careful"], [{"code": "mine"}], None])
def test_an_agents_own_warnings_may_be_of_any_kind(ws: Workspace, own: Any) -> None:
    given: Plain = {"agent": "planner", "workspace": ws, "task": "T-1", "strict": True}
    state = step(agent("planner", warnings=own), {}, **given)
    assert state.get("warnings") == (["careful"] if own == "careful" else own or [])
    assert replay(ws, state["run"]) == state


@pytest.mark.parametrize(
    ("said", "summary"),
    [
        ([message("One.", "planner"), message("Two.\n- a", "planner")], "Two.\n- a"),
        ([message("long " * 1_000, "planner")], "long " * 400 + "..."),
        (
            [{"role": "assistant", "content": [{"type": "text", "text": "Done."}, "So."]}],
            "Done.\nSo.",
        ),
        (
            [{"role": "assistant", "content": [{"type": "image", "url": "x"}]}],
            "planner set messages.",
        ),
        ([], "planner returned nothing."),
    ],
)
def test_a_handoff_without_a_summary_has_the_last_words(
    ws: Workspace, said: list[Plain], summary: str
) -> None:
    """Some models give theirs in blocks."""
    step(lambda _: {"messages": said}, {}, agent="planner", workspace=ws, task="T-1")
    assert [each["summary"] for each in ws.files.state_document("T-1")["handoffs"]] == [summary]


@pytest.mark.promise("S0-33")
def test_steps_and_shared_states_can_be_awaited(ws: Workspace) -> None:
    """With an awaited workspace, coroutine or plain agents, while the loop goes on."""

    async def coder(state: Plain) -> Plain:
        await asyncio.sleep(0)
        return {"messages": [message("coded", state["current_agent"])]}

    async def work() -> Plain:
        awaited = aio.AsyncWorkspace(ws)
        given: Plain = {"workspace": awaited, "task": "T-1"}
        state = await astep(agent("planner"), {}, agent="planner", to="coder", **given)
        return await astep(coder, state, agent="coder", **given, strict=True)

    state = asyncio.run(work())
    assert [each["content"] for each in state["messages"]] == ["planner was here", "coded"]
    assert replay(ws, state["run"]) == state
    assert [(t.source, t.targets) for t in transitions(ws, state["run"])] == [
        ("planner", ("coder",)),
        ("coder", ()),
    ]
    assert runs(ws) == [state["run"]]
    with pytest.raises(NotFound):
        replay(ws, "nowhere")


@pytest.mark.promise("S0-33")
def test_a_shared_state_loses_no_update(ws: Workspace) -> None:
    """Eight threads and eight tasks write at once; a handoff sees a whole state."""
    shared = SharedState({"messages": [], "current_agent": "planner", "decisions": [JWT]})

    def write(name: str) -> None:
        for number in range(25):
            shared.update({"messages": [message(str(number), name)]})

    threads = [threading.Thread(target=write, args=(f"t{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()

    async def write_awaited() -> None:
        given = [{"messages": [message(str(n), f"a{m}")]} for m in range(8) for n in range(25)]
        await asyncio.gather(*(shared.aupdate(each) for each in given))
        context = await shared.ahand_on("coder", workspace=ws, task="T-1")
        assert context is not None
        assert [d.summary for d in context.decisions] == ["Use JWT"]

    asyncio.run(write_awaited())
    for thread in threads:
        thread.join()
    state = asyncio.run(shared.aread())
    assert len(state["messages"]) == 400
    for name in ("t0", "t7"):
        own = [each["content"] for each in state["messages"] if each["name"] == name]
        assert own == [str(number) for number in range(25)]
    assert state["current_agent"] == "coder"
    state["messages"].clear()
    assert len(shared.read()["messages"]) == 400


def test_what_is_not_plain_is_named_with_all_its_places(ws: Workspace) -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidInput) as caught:
        plain({"a": {1: 2}, "b": [object()], "c": loop, "d": {1}})
    assert [p.code for p in caught.value.problems] == [
        "wrong_type",
        "wrong_type",
        "too_deep",
        "wrong_type",
    ]
    for target in ("  ", 7):
        with pytest.raises(InvalidInput, match="target"):
            handoff_update({}, cast("Any", target))
    with pytest.raises(InvalidInput, match="list returned"):
        step(lambda _: [1], {}, agent="planner", workspace=ws, task="T-1")
    with pytest.raises(InvalidInput, match="handoff"):
        step(lambda _: {"handoff": [1]}, {}, agent="planner", workspace=ws, task="T-1")
    assert ws.files.state_document("T-1")["handoffs"] == []


def test_without_a_framework_it_takes_under_thirty_lines(tmp_path: Path) -> None:
    """The page shows the example and what it prints."""
    page = (ROOT / "docs" / "without-a-framework.md").read_text("utf-8")
    example = ROOT / "docs" / "examples" / "plain_handoff.py"
    source = example.read_text("utf-8")
    assert len(source.splitlines()) < 30
    assert f"```python\n{source}```" in page
    printed = run_python(
        [sys.executable, str(example)], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert f"```text\n{printed}```" in page
    pages = page + (ROOT / "docs" / "langgraph.md").read_text("utf-8")
    assert [name for name in states.__all__ if f"`{name}" not in pages] == []


BLOCKED = """
import sys, importlib.abc
class Block(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("langgraph", "langchain", "langchain_core"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Block())
import importlib, pkgutil
import passdown
import passdown.adapters.langgraph as adapter
from passdown.adapters.states import AgentState, add_messages, message, step
from passdown.errors import MissingExtra
assert len(add_messages([message("a", "x")], [message("b", "y")])) == 2
for found in pkgutil.walk_packages(passdown.__path__, "passdown."):
    if found.name.startswith("passdown.adapters.langgraph.") or found.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(found.name)
    except MissingExtra:
        assert found.name.startswith("passdown.adapters."), found.name
with passdown.open(".") as ws:
    ws.create_task("T-1", title="Login", agent="planner")
    step(lambda state: {"plan": 1}, {}, agent="planner", to="coder", workspace=ws, task="T-1")
    assert ws.task("T-1").holder == "coder"
for name in adapter.__all__:
    try:
        getattr(adapter, name)
    except MissingExtra as error:
        assert "pip install 'passdown[langgraph]'" in str(error)
    else:
        raise SystemExit(name)
"""


@pytest.mark.promise("S0-4")
def test_states_need_no_framework(tmp_path: Path) -> None:
    """With LangGraph out of reach every other module loads, states work, and each name of the
    adapter says what to install.
    """
    subprocess.run([sys.executable, "-c", BLOCKED], cwd=tmp_path, check=True)

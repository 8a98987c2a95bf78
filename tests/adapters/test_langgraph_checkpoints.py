"""LangGraph's checkpoints in the ledger: changes, one successor each, nothing revived by name."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels.delta import (  # pyright: ignore[reportMissingTypeStubs]
    DeltaChannel,
)
from langgraph.checkpoint.base import WRITES_IDX_MAP, CheckpointTuple, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.conformance import (  # pyright: ignore[reportMissingTypeStubs]
    checkpointer_test,
    validate,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import (  # pyright: ignore[reportMissingTypeStubs]
    END,
    START,
    StateGraph,
)
from langgraph.graph.message import (  # pyright: ignore[reportMissingTypeStubs]
    add_messages,
)
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

import passdown
from passdown.adapters.langgraph import checkpoints
from passdown.adapters.langgraph.checkpoints import INDEX_INTERVAL, LedgerSaver, StrictSerializer
from passdown.core.record import Record, seal
from passdown.errors import Conflict, Damaged, InvalidInput
from passdown.workspace.streams import WorkspaceStreams
from tests.processes import Process
from tests.sizes import example_count

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Sequence

ROOT = Path(__file__).resolve().parent.parent.parent
TRIES = [40, pytest.param(1_000, marks=pytest.mark.soak)]


@contextmanager
def opened() -> Generator[passdown.Workspace]:
    with tempfile.TemporaryDirectory() as folder, passdown.open(folder) as workspace:
        yield workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Generator[passdown.Workspace]:
    with passdown.open(str(tmp_path)) as found:
        yield found


def config(thread: str = "t", namespace: str = "", checkpoint: str = "") -> Any:
    named = {"thread_id": thread, "checkpoint_ns": namespace}
    return {"configurable": {**named, "checkpoint_id": checkpoint} if checkpoint else named}


def checkpoint(values: dict[str, Any], versions: dict[str, Any], name: str = "") -> Any:
    given = {"id": name or str(uuid6()), "channel_values": values, "channel_versions": versions}
    return {**empty_checkpoint(), **given}


def put(
    saver: Any,
    after: Any,
    values: dict[str, Any],
    new: Sequence[str] | None = None,
    versions: dict[str, Any] | None = None,
) -> Any:
    """Put values with versions of their own; `new` are those that changed (None: all)."""
    versions = versions or {name: str(uuid6()) for name in values}
    changed = {name: versions[name] for name in (values if new is None else new)}
    told: Any = {"source": "loop", "step": 0}
    return saver.put(after, checkpoint(values, versions), told, changed)


def values_at(saver: Any, place: Any) -> Any:
    found = saver.get_tuple(place)
    assert found is not None
    return found.checkpoint["channel_values"]


class Talk(TypedDict):
    messages: Annotated[list[Any], add_messages]


def talking(saver: Any, answer: Any = None) -> Any:
    def reply(state: Any) -> Any:
        return answer(state) if answer else {"messages": [AIMessage(f"{len(state['messages'])}")]}

    builder: Any = StateGraph(Talk)
    builder.add_node("reply", reply)
    builder.add_edge(START, "reply")
    builder.add_edge("reply", END)
    return builder.compile(checkpointer=saver)


def said(text: str) -> Any:
    return {"messages": [HumanMessage(text)]}


def contents(state: Any) -> list[str]:
    return [message.content for message in state["messages"]]


def test_every_conformance_test_of_langgraph_passes() -> None:
    """All base and all extended capabilities, each test of each."""

    async def make() -> AsyncGenerator[LedgerSaver]:
        with opened() as workspace:
            yield LedgerSaver(workspace)

    report = asyncio.run(validate(checkpointer_test("LedgerSaver")(make)))
    failures = {name: each.failures for name, each in report.results.items() if each.failures}
    assert failures == {}
    assert all(each.detected and each.passed for each in report.results.values())
    assert sum(each.tests_passed for each in report.results.values()) == 81


def test_only_what_changed_is_stored(workspace: passdown.Workspace) -> None:
    """A channel with its old version costs nothing, a longer conversation its new message."""
    saver = LedgerSaver(workspace)
    large = os.urandom(50_000)
    messages = [HumanMessage(f"{number}" * 500, id=f"{number}") for number in range(100)]
    versions = {"large": "1", "messages": "1"}
    at = put(saver, config(), {"large": large, "messages": messages}, versions=versions)
    before = WorkspaceStreams(workspace).position("checkpoint/t/")
    longer = [*messages, HumanMessage("new", id="new")]
    versions = {"large": "1", "messages": "2"}
    at = put(saver, at, {"large": large, "messages": longer}, ["messages"], versions)
    record = WorkspaceStreams(workspace).records("checkpoint/t/", after=before)[0]
    assert len(record.body) < 3_000
    assert values_at(LedgerSaver(workspace), at) == {"large": large, "messages": longer}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@settings(max_examples=example_count(15), deadline=None)
@given(st.lists(st.lists(JSON, max_size=6) | st.dictionaries(st.text(max_size=3), JSON) | JSON))
def test_any_sequence_of_values_is_read_back_as_it_was(sequence: list[Any]) -> None:
    """Warm and cold, every version of a channel is what was put."""
    with opened() as workspace:
        saver = LedgerSaver(workspace)
        at, places = config(), list[Any]()
        for value in sequence:
            at = put(saver, at, {"channel": value})
            places.append(at)
        cold = LedgerSaver(workspace)
        for place, value in zip(places, sequence, strict=True):
            for reader in (saver, cold):
                read = values_at(reader, place)["channel"]
                assert json.dumps(read) == json.dumps(value)


@pytest.mark.parametrize("key", ["content", "additional_kwargs", "response_metadata"])
def test_a_message_that_was_changed_in_place_is_stored_as_changed(
    workspace: passdown.Workspace, key: str
) -> None:
    """What is known of an object isn't believed once the object says something else."""
    saver = LedgerSaver(workspace)
    kept = AIMessage("a", id="1", response_metadata={"n": 1})
    at = put(saver, config(), {"messages": [kept]})
    changed: Any = "b" if key == "content" else {"n": True}
    setattr(kept, key, changed)
    at = put(saver, at, {"messages": [kept]})
    assert getattr(values_at(saver, at)["messages"][0], key) == changed
    read = getattr(values_at(LedgerSaver(workspace), at)["messages"][0], key)
    assert json.dumps(read) == json.dumps(changed)


def test_what_was_read_is_nobody_elses(workspace: passdown.Workspace) -> None:
    """Changing a state that was read changes neither the store nor what another reads."""
    saver = LedgerSaver(workspace)
    at = put(saver, config(), {"messages": [HumanMessage("a", id="1")]})
    first = values_at(saver, at)["messages"]
    first[0].content = "changed"
    first.append("more")
    assert contents(values_at(saver, at)) == ["a"]


def test_a_list_that_changes_in_place_stays_short_to_read(workspace: passdown.Workspace) -> None:
    """However many changes, a value is put together from few of them."""
    saver = LedgerSaver(workspace)
    at = config()
    for number in range(200):
        at = put(saver, at, {"channel": ["a", number, "z"]})
    stream = LedgerSaver(workspace)._stream("t", "")  # pyright: ignore[reportPrivateUsage]
    entry = stream.refresh().entries[at["configurable"]["checkpoint_id"]]
    assert stream.value(entry.at, "channel").depth <= 64 + 3


def test_a_second_writer_from_the_same_parent_is_refused(workspace: passdown.Workspace) -> None:
    """The first is kept, the second gets Conflict, and the same again is a repeat."""
    saver = LedgerSaver(workspace)
    parent = put(saver, config(), {"a": 1})
    first = checkpoint({"a": 2}, {"a": "2"})
    told: Any = {"source": "loop", "step": 1}
    at = saver.put(parent, first, told, {"a": "2"})
    for again in (saver, LedgerSaver(workspace)):
        assert again.put(parent, first, told, {"a": "2"}) == at
        with pytest.raises(Conflict, match="already has the successor"):
            again.put(parent, checkpoint({"a": 3}, {"a": "3"}), told, {"a": "3"})
        other: Any = {**first, "channel_values": {"a": 4}}
        with pytest.raises(Conflict):
            again.put(parent, other, told, {"a": "2"})
    assert [values_at(saver, each.config) for each in saver.list(config())] == [{"a": 2}, {"a": 1}]


@pytest.mark.parametrize("tries", TRIES)
def test_of_two_threads_from_one_parent_one_is_refused(
    workspace: passdown.Workspace, tries: int
) -> None:
    """Every time, whichever comes first, with one saver and with two."""
    savers = [LedgerSaver(workspace), LedgerSaver(workspace)]

    def attempt(saver: LedgerSaver, parent: Any, name: str) -> bool:
        try:
            put(saver, parent, {"a": name})
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        for number in range(tries):
            parent = put(savers[0], config(f"{number}"), {"a": ""})
            pair = savers if number % 2 else [savers[0], savers[0]]
            tried = [pool.submit(attempt, saver, parent, "ab"[i]) for i, saver in enumerate(pair)]
            assert sorted(each.result() for each in tried) == [False, True]


@pytest.mark.parametrize("tries", TRIES)
def test_of_two_processes_from_one_parent_one_is_refused(tmp_path: Path, tries: int) -> None:
    """Both go through the same parents at once; each parent gets one successor."""
    with passdown.open(str(tmp_path)) as workspace:
        saver = LedgerSaver(workspace)
        told: Any = {"source": "input", "step": -1}
        for number in range(tries):
            saver.put(config(f"thread-{number}"), checkpoint({}, {}, "parent"), told, {})
        command = [sys.executable, "-m", "tests.adapters.checkpoint_writer", str(tmp_path)]
        writers = [
            Process([*command, name, str(tries)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
            for name in "ab"
        ]
        printed = [writer.communicate()[0].split() for writer in writers]
        assert [len(lines) for lines in printed] == [tries, tries]
        for outcome in zip(*printed, strict=True):
            assert sorted(outcome) == ["recorded", "refused"]
        for number in range(tries):
            assert len([*saver.list(config(f"thread-{number}"))]) == 2


def test_two_runs_of_a_graph_on_one_thread_cannot_overwrite_each_other(
    workspace: passdown.Workspace,
) -> None:
    """A run that began before another one ended is refused; the thread is that of the other."""
    saver = LedgerSaver(workspace)

    def meddle(state: Any) -> Any:
        if contents(state)[-1] == "slow":
            talking(LedgerSaver(workspace)).invoke(said("fast"), config())
        return {"messages": [AIMessage("done")]}

    graph = talking(saver, meddle)
    graph.invoke(said("first"), config())
    with pytest.raises(Conflict):
        graph.invoke(said("slow"), config(), durability="sync")
    assert contents(graph.get_state(config()).values)[-2:] == ["fast", "4"]


def test_going_back_on_purpose_makes_a_branch(workspace: passdown.Workspace) -> None:
    """Replaying, updating and asking anew from an earlier checkpoint work as in LangGraph."""
    results: list[list[Any]] = []
    for saver in (LedgerSaver(workspace), InMemorySaver()):
        graph = talking(saver)
        for text in "abc":
            graph.invoke(said(text), config())
        history = [*graph.get_state_history(config())]
        earlier = next(each for each in history if contents(each.values) == ["a", "1"])
        seen: list[Any] = [contents(graph.invoke(said("x"), earlier.config))]
        updated = graph.update_state(earlier.config, said("y"), as_node="__start__")
        seen.append(contents(graph.invoke(None, updated)))
        before = next(each for each in history if contents(each.values) == ["a", "1", "b"])
        seen.append(contents(graph.invoke(None, before.config)))
        seen.append(contents(graph.get_state(config()).values))
        seen.append(len([*graph.get_state_history(config())]))
        results.append(seen)
    assert results[0] == results[1]
    assert results[0][:2] == [["a", "1", "x", "3"], ["a", "1", "y", "3"]]


class Log(TypedDict):
    log: Annotated[list[str], add]


def telling(text: str) -> Any:
    def tell(state: Any) -> Any:
        return {"log": [text]}

    return tell


def asking(state: Any) -> Any:
    return {"log": ["asks:" + interrupt("?")]}


def nested(saver: Any) -> Any:
    """A graph with a subgraph that remembers and asks."""
    inner: Any = StateGraph(Log)
    inner.add_node("first", telling("first"))
    inner.add_node("asks", asking)
    inner.add_edge(START, "first")
    inner.add_edge("first", "asks")
    outer: Any = StateGraph(Log)
    outer.add_node("before", telling("before"))
    outer.add_node("inner", inner.compile(checkpointer=True))
    outer.add_node("after", telling("after"))
    outer.add_edge(START, "before")
    outer.add_edge("before", "inner")
    outer.add_edge("inner", "after")
    return outer.compile(checkpointer=saver)


def replays(saver: Any) -> list[Any]:
    """Two runs, then a replay from every checkpoint, an update and a copy of an earlier one."""
    graph, seen = nested(saver), list[Any]()
    for number in range(2):
        graph.invoke({"log": [f"in{number}"]}, config())
        seen.append(graph.invoke(Command(resume=f"{number}"), config())["log"])
    history = [*graph.get_state_history(config())]
    for number, earlier in enumerate(history[:-1]):
        result = graph.invoke(None, earlier.config)
        seen.append((result["log"], "__interrupt__" in result))
        if "__interrupt__" in result:
            seen.append(graph.invoke(Command(resume=f"again {number}"), config())["log"])
    updated = graph.update_state(history[3].config, {"log": ["updated"]})
    copied = graph.update_state(history[2].config, None, as_node="__copy__")
    seen += [graph.get_state(place).values for place in (updated, copied, config())]
    return [*seen, len([*graph.get_state_history(config())])]


def test_subgraphs_are_replayed_as_with_langgraphs_own_saver(
    workspace: passdown.Workspace,
) -> None:
    """From every checkpoint, with what the subgraph remembers and asks."""
    assert replays(LedgerSaver(workspace)) == replays(InMemorySaver())


def test_an_interrupted_run_goes_on_in_another_process(tmp_path: Path) -> None:
    """Writes that came before the interrupt are there, and the answer reaches its node."""

    def ask(state: Any) -> Any:
        return {"messages": [AIMessage(interrupt("sure?"))]}

    with passdown.open(str(tmp_path)) as first:
        graph = talking(LedgerSaver(first), ask)
        assert "__interrupt__" in graph.invoke(said("a"), config())
    with passdown.open(str(tmp_path)) as second:
        graph = talking(LedgerSaver(second), ask)
        assert contents(graph.invoke(Command(resume="yes"), config())) == ["a", "yes"]


def test_an_awaited_graph_gives_the_same(workspace: passdown.Workspace) -> None:
    """The methods that are awaited do what the others do."""

    async def converse(saver: Any) -> list[Any]:
        graph = talking(saver)
        for text in "ab":
            await graph.ainvoke(said(text), config())
        history = [contents(each.values) async for each in graph.aget_state_history(config())]
        await saver.acopy_thread("t", "u")
        copied = contents((await graph.aget_state(config("u"))).values)
        await saver.aprune(["t"])
        await saver.adelete_for_runs(["none"])
        left = [each async for each in saver.alist(config())]
        await saver.adelete_thread("t")
        return [history, copied, len(left), await saver.aget_tuple(config())]

    history, copied, left, gone = asyncio.run(converse(LedgerSaver(workspace)))
    assert history[0] == copied == ["a", "1", "b", "3"]
    assert (len(history), left, gone) == (6, 1, None)


def test_writes_share_the_transaction_of_the_checkpoint_that_follows(
    workspace: passdown.Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them are stored; those with a problem fail for their own writer alone."""
    monkeypatch.setattr(checkpoints, "GROUP_DELAY_S", 240)
    saver = LedgerSaver(workspace)
    at = first = put(saver, config(), {"a": 1})
    with ThreadPoolExecutor(2) as pool:
        writing = [
            pool.submit(saver.put_writes, first, [("a", 2)], "task-1"),
            pool.submit(saver.put_writes, first, [("b", 3)], "task-2"),
        ]
        while not all(each.done() for each in writing):
            at = put(saver, at, {"a": 2})
        for each in writing:
            each.result()
    monkeypatch.setattr(checkpoints, "GROUP_DELAY_S", 0.001)
    with pytest.raises(InvalidInput, match="secret"):
        saver.put_writes(at, [("ghp_" + "a1B2" * 9, 4)], "task-3")
    for reader in (saver, LedgerSaver(workspace)):
        found = reader.get_tuple(first)
        assert found is not None
        assert found.pending_writes == [("task-1", "a", 2), ("task-2", "b", 3)]
        assert values_at(reader, at) == {"a": 2}


def test_pending_writes_come_in_the_order_that_langgraph_applies_them(
    workspace: passdown.Workspace,
) -> None:
    """By path, task and number; the first of a number stays, an error takes an error's place."""
    saver = LedgerSaver(workspace)
    early = checkpoint({}, {}, "early")
    saver.put_writes(config(checkpoint="early"), [("a", 1), ("b", 2)], "z", "p1")
    at = saver.put(config(), early, {"source": "loop", "step": 0}, {})
    saver.put_writes(at, [("a", 3)], "a", "p2")
    saver.put_writes(at, [("a", 4)], "y", "p1")
    saver.put_writes(at, [("a", 5)], "y", "p1")
    error = next(iter(WRITES_IDX_MAP))
    saver.put_writes(at, [(error, "one")], "y", "p1")
    saver.put_writes(at, [(error, "two")], "y", "p1")
    wanted = [("y", error, "two"), ("y", "a", 4), ("z", "a", 1), ("z", "b", 2), ("a", "a", 3)]
    for reader in (saver, LedgerSaver(workspace)):
        found = reader.get_tuple(at)
        assert found is not None
        assert found.pending_writes == wanted
    count = WorkspaceStreams(workspace).position("checkpoint/t/")
    saver.put_writes(at, [("a", 4)], "y", "p1")
    assert WorkspaceStreams(workspace).position("checkpoint/t/") == count


STREAM = "checkpoint/t/"
HERE = "position = ? AND stream = (SELECT id FROM streams WHERE name = ?)"
FIELDS = "position, at, author, kind, key, previous, digest, body"


def forge(folder: Path, position: int, *, reseal: bool, is_head: bool = False) -> None:
    """Give a stored value another tag behind the ledger's back: on request with a digest that fits
    the record, and as the head that the store names.
    """
    connection: Any = apsw.Connection(str(folder / ".passdown" / "ledger.db"))
    triggers = "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'"
    found = [(str(name), str(sql)) for name, sql in connection.execute(triggers)]
    for name, _ in found:
        connection.execute(f"DROP TRIGGER {name}")
    (row,) = connection.execute(f"SELECT {FIELDS} FROM records WHERE {HERE}", (position, STREAM))
    body = bytes(row[-1]).replace(b"msgpack", b"pickle")
    forged = Record._make([STREAM, *row[:-1], body, 0])
    digest = seal(forged) if reseal else forged.digest
    change = f"UPDATE records SET body = ?, digest = ? WHERE {HERE}"
    connection.execute(change, (body, digest, position, STREAM))
    if is_head:
        connection.execute("UPDATE streams SET digest = ? WHERE name = ?", (digest, STREAM))
    for _, sql in found:
        connection.execute(sql)
    connection.close()


class Watching(JsonPlusSerializer):
    """A serializer that counts what it decodes."""

    decoded = 0

    def loads_typed(self, data: Any) -> Any:
        Watching.decoded += 1
        return super().loads_typed(data)


@pytest.mark.parametrize("reseal", [False, True])
@pytest.mark.parametrize("position", [1, 2])
def test_a_forged_row_is_refused_before_anything_is_decoded(
    tmp_path: Path, position: int, reseal: bool
) -> None:
    """Even if its digest fits its content: what refers to it names another."""
    with passdown.open(str(tmp_path)) as workspace:
        saver = LedgerSaver(workspace)
        at = put(saver, config(), {"a": ["one"]})
        put(saver, at, {"a": ["one", "two"]})
    forge(tmp_path, position, reseal=reseal)
    Watching.decoded = 0
    with passdown.open(str(tmp_path)) as workspace:
        saver = LedgerSaver(workspace, serde=Watching())
        with pytest.raises(Damaged, match="nothing was decoded"):
            saver.get_tuple(config())
    assert Watching.decoded == 0


def test_a_forged_head_gets_no_further_than_its_tag(tmp_path: Path) -> None:
    """Only heads kept elsewhere show that an end was rewritten; it is never unpickled."""
    with passdown.open(str(tmp_path)) as workspace:
        put(LedgerSaver(workspace), config(), {"a": "one"})
    forge(tmp_path, 1, reseal=True, is_head=True)
    with (
        passdown.open(str(tmp_path)) as workspace,
        pytest.raises(Damaged, match="no kind that is written here"),
    ):
        LedgerSaver(workspace).get_tuple(config())


@dataclasses.dataclass
class Own:
    """A type that nobody allowed."""

    text: str


def test_no_type_is_revived_by_its_name(workspace: passdown.Workspace) -> None:
    """Messages and plain data come back; a class of somebody's comes back as data."""
    saver = LedgerSaver(workspace)
    plain = {"text": "a", "list": [1, None, {"b": True}], "message": HumanMessage("m", id="1")}
    at = put(saver, config(), {**plain, "own": Own("x")})
    read = values_at(saver, at)
    assert {name: read[name] for name in plain} == plain
    assert not isinstance(read["own"], Own)
    for tag in ("json", "pickle"):
        with pytest.raises(Damaged):
            StrictSerializer().loads_typed((tag, b"{}"))


def test_what_base64_makes_look_like_a_secret_is_kept(workspace: passdown.Workspace) -> None:
    """Secrets are removed from texts, never from serialised bytes; a name with one is refused."""
    import base64

    looks = base64.b64decode("AAA/AIza" + "Sy0123456789ABCDEFGHIJKLMNOPQRSTUVWX" + "/AAA" * 2)
    saver = LedgerSaver(workspace)
    at = put(saver, config(), {"a": looks, "b": [looks]})
    assert values_at(LedgerSaver(workspace), at) == {"a": looks, "b": [looks]}
    with pytest.raises(InvalidInput):
        put(saver, at, {"ghp_" + "a" * 36: 1})
    assert len([*saver.list(config())]) == 1


def test_a_value_larger_than_a_record_goes_over_several(workspace: passdown.Workspace) -> None:
    """Of a channel and of a write, read back, copied and verified."""
    saver = LedgerSaver(workspace)
    large = os.urandom(7_000_000)
    at = put(saver, config(), {"a": large, "b": [large[:10]]})
    at = put(saver, at, {"a": large, "b": [large[:10], large]}, ["b"])
    saver.put_writes(at, [("a", large)], "task")
    saver.copy_thread("t", "u")
    for thread in "tu":
        found = LedgerSaver(workspace).get_tuple(config(thread))
        assert found is not None
        assert found.checkpoint["channel_values"]["b"] == [large[:10], large]
        assert found.pending_writes == [("task", "a", large)]
    assert workspace.verify().findings == ()


def test_opening_a_long_thread_reads_only_its_end(workspace: passdown.Workspace) -> None:
    """Whatever the length, and the rest is there when it is asked for."""
    saver = LedgerSaver(workspace)
    at, places = config(), list[Any]()
    fixed = str(uuid6())
    for number in range(5 * INDEX_INTERVAL):
        versions = {"number": str(uuid6()), "fixed": fixed}
        new = ["number"] if number else ["number", "fixed"]
        at = put(saver, at, {"number": number, "fixed": "as it was"}, new, versions)
        places.append(at)
    cold = LedgerSaver(workspace)
    assert values_at(cold, config()) == {"number": 5 * INDEX_INTERVAL - 1, "fixed": "as it was"}
    trail = cold._stream("t", "").trail  # pyright: ignore[reportPrivateUsage]
    assert not trail.is_complete
    assert len(trail.entries) <= 2 * INDEX_INTERVAL
    assert values_at(cold, places[3]) == {"number": 3, "fixed": "as it was"}
    with pytest.raises(Conflict):
        put(LedgerSaver(workspace), places[3], {"number": 0})
    listed = [each.checkpoint["channel_values"]["number"] for each in cold.list(config())]
    assert listed == [*reversed(range(5 * INDEX_INTERVAL))]


def test_deleting_hides_and_the_ledger_keeps(workspace: passdown.Workspace) -> None:
    """A deleted thread is gone for LangGraph, can begin again, and its records stay."""
    graph = talking(LedgerSaver(workspace))
    graph.invoke(said("a"), config())
    count = WorkspaceStreams(workspace).position("checkpoint/t/")
    graph.checkpointer.delete_thread("t")
    for saver in (graph.checkpointer, LedgerSaver(workspace)):
        assert saver.get_tuple(config()) is None
        assert [*saver.list(None)] == []
    assert WorkspaceStreams(workspace).position("checkpoint/t/") == count + 1
    assert contents(graph.invoke(said("b"), config())) == ["b", "1"]
    assert workspace.verify().findings == ()


def test_a_deleted_run_gives_its_parent_back(workspace: passdown.Workspace) -> None:
    """What is hidden is no successor: another run may go on from there."""
    saver = LedgerSaver(workspace)
    at = put(saver, config(), {"a": 1})
    told: Any = {"source": "loop", "step": 1, "run_id": "run"}
    child = checkpoint({"a": 2}, {"a": "2"})
    saver.put(at, child, told, {"a": "2"})
    saver.delete_for_runs(["run"])
    latest = saver.get_tuple(config())
    assert latest is not None
    assert latest.checkpoint["channel_values"] == {"a": 1}
    saver.put(at, child, told, {"a": "2"})
    assert values_at(LedgerSaver(workspace), config()) == {"a": 2}


def test_two_beginnings_of_a_thread_are_one_too_many(workspace: passdown.Workspace) -> None:
    """LangGraph begins a thread without a parent; who comes second is refused."""
    told: Any = {"source": "input", "step": -1}
    LedgerSaver(workspace).put(config(), checkpoint({}, {}), told, {})
    with pytest.raises(Conflict, match="beginning of the thread"):
        LedgerSaver(workspace).put(config(), checkpoint({}, {}), told, {})


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a%2Fb", "ü \n\x00'\"", "t/", "%", "."])
def test_any_text_names_a_thread(workspace: passdown.Workspace, name: str) -> None:
    """As thread and as namespace, apart from all others."""
    saver = LedgerSaver(workspace)
    places = [config(name, ""), config("t", name or "x"), config(name + "a", "")]
    for number, place in enumerate(places):
        put(saver, place, {"a": number})
    for number, place in enumerate(places):
        assert values_at(LedgerSaver(workspace), place) == {"a": number}
    listed: list[Any] = [each.config for each in saver.list(None)]
    named = {tuple(each["configurable"].values())[:2] for each in listed}
    assert named == {tuple(place["configurable"].values()) for place in places}
    saver.delete_thread(name)
    assert saver.get_tuple(places[0]) is None
    assert saver.get_tuple(places[1]) is not None


def test_a_filter_is_data(workspace: passdown.Workspace) -> None:
    """Names and values of metadata are compared and nothing else."""
    saver = LedgerSaver(workspace)
    odd = {"a.b": 1, "x' OR '1'='1": "%", "$where": [1]}
    told: Any = {"source": "loop", "step": 0, **odd}
    saver.put(config(), checkpoint({}, {}), told, {})

    def found(wanted: dict[str, Any]) -> list[CheckpointTuple]:
        return [*saver.list(config(), filter=wanted)]

    assert len(found(odd)) == 1
    for name, value in {"a": {"b": 1}, "x' OR '1'='1": "", "1'='1": "1", "$where": 1}.items():
        assert found({name: value}) == []


def delta_graph(saver: Any) -> Any:
    class State(TypedDict):
        seen: Annotated[list[str], DeltaChannel(_joined, snapshot_frequency=3)]
        plain: Annotated[list[str], add]

    def step(state: Any) -> Any:
        return {"seen": [f"n{len(state['seen'])}"], "plain": ["p"]}

    builder: Any = StateGraph(State)
    builder.add_node("one", step)
    builder.add_node("two", step)
    builder.add_edge(START, "one")
    builder.add_edge(START, "two")
    return builder.compile(checkpointer=saver)


def _joined(state: list[str], writes: Sequence[list[str]]) -> list[str]:
    return [*state, *(text for write in writes for text in write)]


def test_delta_channels_are_rebuilt_as_langgraph_rebuilds_them(
    workspace: passdown.Workspace,
) -> None:
    """From the last stored value and the writes since, also after pruning and in a copy."""
    ours, memory = LedgerSaver(workspace), InMemorySaver()
    states: list[Any] = []
    for saver in (ours, memory):
        graph = delta_graph(saver)
        for text in "abcdefg":
            graph.invoke({"seen": [text]}, config())
        states.append([each.values for each in graph.get_state_history(config())])
    assert states[0] == states[1]
    ours.copy_thread("t", "u")
    ours.prune(["t", "u"])
    for thread in "tu":
        state = delta_graph(LedgerSaver(workspace)).get_state(config(thread))
        assert state.values == states[1][0]

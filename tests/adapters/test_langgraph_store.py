"""LangGraph's store in the ledger: as its own in memory, but for what a restart would lose."""

from __future__ import annotations

import asyncio
import json
import tempfile
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

import passdown
from passdown.adapters.langgraph.store import RecallStore
from passdown.errors import InvalidInput
from passdown.workspace.streams import WorkspaceStreams
from tests.sizes import example_count

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

LABELS = st.sampled_from(["a", "b", "c"])
NAMESPACES = st.lists(LABELS, min_size=1, max_size=3).map(tuple)
KEYS = st.sampled_from(["k1", "k2", "k3"])
SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["x", "y", "ü"])
VALUES = st.dictionaries(
    st.sampled_from(["p", "q", "r"]),
    SCALARS | st.lists(SCALARS, max_size=2) | st.fixed_dictionaries({"n": SCALARS}),
    max_size=3,
)
NUMBERED = st.fixed_dictionaries({"number": st.integers(0, 9)}, optional={"p": SCALARS})
OPERATORS = st.dictionaries(
    st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]), st.integers(0, 9), min_size=1
)
PUT_VALUES = st.none() | NUMBERED | VALUES.map(lambda value: {**value, "number": 1})
PUTS = st.tuples(NAMESPACES, KEYS, PUT_VALUES).map(lambda parts: PutOp(*parts))
GETS = st.tuples(NAMESPACES, KEYS).map(lambda parts: GetOp(*parts))
FILTERS = st.none() | VALUES | st.fixed_dictionaries({"number": OPERATORS})
SEARCHES = st.builds(
    SearchOp,
    st.lists(LABELS, max_size=2).map(tuple),
    FILTERS,
    limit=st.integers(1, 4),
    offset=st.integers(0, 2),
    query=st.none(),
    refresh_ttl=st.just(value=False),
)
CONDITIONS = st.builds(
    MatchCondition,
    st.sampled_from(["prefix", "suffix"]),
    st.lists(LABELS | st.just("*"), min_size=1, max_size=2).map(tuple),
)
LISTS = st.builds(
    ListNamespacesOp,
    st.none() | st.lists(CONDITIONS, max_size=2).map(tuple),
    st.none() | st.integers(1, 3),
    limit=st.integers(1, 4),
    offset=st.integers(0, 2),
)
BATCHES = st.lists(st.lists(PUTS | SEARCHES | LISTS | GETS, max_size=5), max_size=5)


@pytest.fixture
def workspace(tmp_path: Path) -> Generator[passdown.Workspace]:
    with passdown.open(str(tmp_path)) as found:
        yield found


def plain(result: Any) -> Any:
    """A result without times, which no two stores share."""
    if isinstance(result, list):
        return [plain(each) for each in cast("list[Any]", result)]
    if result is None or isinstance(result, tuple):
        return cast("Any", result)
    return (result.namespace, result.key, result.value)


@settings(max_examples=example_count(10), deadline=None)
@given(BATCHES)
def test_it_answers_as_langgraphs_own_store_does(batches: list[list[Any]]) -> None:
    """Getting, putting, hiding, searching and listing, in any order and after a restart.

    Namespaces that are empty are left out: its own lists them once somebody asked for them.
    """
    memory = InMemoryStore()
    held = cast("Any", memory)._data
    with tempfile.TemporaryDirectory() as folder, passdown.open(folder) as workspace:
        store = RecallStore(workspace)
        for number, batch in enumerate(batches):
            store = RecallStore(workspace) if number % 2 else store
            for empty in [name for name, items in held.items() if not items]:
                del held[empty]
            ops = [op for op in batch if not isinstance(op, GetOp) or op.namespace in held]
            wanted = [plain(each) for each in memory.batch(ops)]
            assert [plain(each) for each in store.batch(ops)] == wanted


def test_items_survive_a_restart_and_keep_when_they_came(tmp_path: Path) -> None:
    """Value, namespace and times are there for the next process."""
    with passdown.open(str(tmp_path)) as workspace:
        store = RecallStore(workspace)
        store.put(("users", "ada"), "food", {"likes": "ramen", "n": [1, {"a": None}]})
        first = store.get(("users", "ada"), "food")
        store.put(("users", "ada"), "food", {"likes": "soup"})
    with passdown.open(str(tmp_path)) as workspace:
        found = RecallStore(workspace).get(("users", "ada"), "food")
        assert first is not None
        assert found is not None
        assert (found.value, found.created_at) == ({"likes": "soup"}, first.created_at)
        assert found.updated_at > found.created_at
        assert workspace.verify().findings == ()


def test_a_question_finds_by_meaning_within_a_namespace_and_a_filter(
    workspace: passdown.Workspace,
) -> None:
    """Best first, nothing of others, the rest after it; and recall finds it too."""
    store = RecallStore(workspace)
    texts = {
        ("ada", "dinner"): "She loves spicy ramen and hates olives",
        ("ada", "job"): "She is a compiler engineer who works on LLVM",
        ("bob", "dinner"): "He eats nothing but pizza",
    }
    for (user, key), text in texts.items():
        store.put(("users", user), key, {"text": text, "user": user})
    store.put(("users", "ada"), "unread", {"text": "ramen ramen"}, index=False)
    found = store.search(("users", "ada"), query="which food does she like to eat?")
    assert [item.key for item in found] == ["dinner", "job", "unread"]
    assert found[0].score is not None
    assert found[1].score is not None
    assert found[0].score > found[1].score
    assert found[2].score is None
    filtered = store.search(("users",), query="eating", filter={"user": "bob"}, limit=5)
    assert [item.namespace for item in filtered] == [("users", "bob")]
    assert len(store.search((), query="ramen", limit=1, offset=1)) == 1
    assert "ramen" in workspace.recall("spicy food", limit=1)[0].passage


def test_a_question_within_a_namespace_is_not_crowded_out(workspace: passdown.Workspace) -> None:
    """However many items of others would answer as well."""
    store = RecallStore(workspace)
    crowd = [PutOp(("users", f"{n}"), "k", {"text": f"ramen {n}"}) for n in range(1_100)]
    own = [PutOp(("users", "ada", "food"), f"{n}", {"text": f"ramen, {n}"}) for n in range(3)]
    store.batch([*crowd, *own])
    found = store.search(("users", "ada"), query="ramen")
    assert sorted(item.key for item in found) == ["0", "1", "2"]
    assert all(item.score is not None for item in found)


def test_a_hidden_item_is_found_no_more_and_its_record_stays(
    workspace: passdown.Workspace,
) -> None:
    """By no question, here or in recall; the ledger keeps what was said."""
    store = RecallStore(workspace)
    store.put(("a",), "k", {"text": "the lighthouse keeper"})
    RecallStore(workspace).delete(("a",), "k")
    assert store.get(("a",), "k") is None
    assert store.search((), query="lighthouse") == []
    assert store.list_namespaces() == []
    assert workspace.recall("lighthouse") == []
    assert b"lighthouse" in WorkspaceStreams(workspace).records("store/langgraph")[0].body


def test_items_that_no_node_was_made_of_are_made_findable(workspace: passdown.Workspace) -> None:
    """A process may end between the item's record and its node; the next question mends it."""
    store = RecallStore(workspace)
    store.put(("a",), "k", {"text": "the lighthouse keeper"})
    node = workspace.knowledge.graph(tags=["store-langgraph"]).nodes[0].id
    workspace.knowledge.add([], agent="tester", forget_nodes=[node])
    assert workspace.recall("lighthouse") == []
    found = RecallStore(workspace).search((), query="lighthouse")
    assert [item.score is not None for item in found] == [True]


def test_what_was_read_can_be_changed_without_changing_the_store(
    workspace: passdown.Workspace,
) -> None:
    """Each reader gets a value of its own."""
    store = RecallStore(workspace)
    store.put(("a",), "k", {"list": [1]})
    item = store.get(("a",), "k")
    assert item is not None
    item.value["list"].append(2)
    again = store.get(("a",), "k")
    assert again is not None
    assert again.value == {"list": [1]}


def test_what_cannot_be_kept_is_refused_and_changes_nothing(workspace: passdown.Workspace) -> None:
    """Times to live, values that aren't JSON, names with secrets, operators that aren't there."""
    store = RecallStore(workspace)
    secret = "ghp_" + "a" * 36
    refused: list[Any] = [
        PutOp(("a",), "k", {"x": 1}, ttl=5),
        PutOp(("a",), "k", {"x": object()}),
        PutOp(("a",), "k", {"x": float("nan")}),
        PutOp(("a",), "k", cast("Any", [1])),
        PutOp((secret,), "k", {"x": 1}),
        PutOp(("a",), secret, {"x": 1}),
        "no operation",
    ]
    for op in refused:
        with pytest.raises(InvalidInput):
            store.batch([PutOp(("b",), "k", {"x": 1}), op])
    with pytest.raises(InvalidNamespaceError):
        store.batch([PutOp(("a.b",), "k", {"x": 1})])
    assert store.list_namespaces() == []
    store.put(("a",), "k", {"x": 1})
    with pytest.raises(InvalidInput, match="filter"):
        store.search((), filter={"x": {"$where": "1"}})
    with pytest.raises(NotImplementedError):
        store.put(("a",), "k", {"x": 1}, ttl=1)


def test_secrets_are_removed_from_values(workspace: passdown.Workspace) -> None:
    """As from everything that is recorded."""
    store = RecallStore(workspace)
    store.put(("a",), "k", {"token": "ghp_" + "a" * 36})
    item = store.get(("a",), "k")
    assert item is not None
    assert item.value == {"token": "[redacted:github_token]"}


def test_stores_of_other_names_are_apart_and_can_be_awaited(
    workspace: passdown.Workspace,
) -> None:
    """The same key in another store is another item."""

    async def converse() -> list[Any]:
        one, two = RecallStore(workspace), RecallStore(workspace, name="other")
        await one.aput(("a",), "k", {"text": "river"})
        await two.aput(("a",), "k", {"text": "mountain"})
        item = await one.aget(("a",), "k")
        found = await two.asearch((), query="river")
        assert item is not None
        return [item.value, [each.value for each in found]]

    wanted = [{"text": "river"}, [{"text": "mountain"}]]
    assert json.dumps(asyncio.run(converse())) == json.dumps(wanted)
    with pytest.raises(InvalidInput):
        RecallStore(workspace, name="a b")

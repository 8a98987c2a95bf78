"""Sessions of the OpenAI Agents SDK in the ledger."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from agents import Runner, SQLiteSession
from agents.memory import Session, SessionSettings
from agents.testing import function_call
from hypothesis import given, settings
from hypothesis import strategies as st

import passdown
from passdown.adapters.openai_agents import LedgerSession
from passdown.adapters.openai_agents.sessions import first_complete
from passdown.core.tokens import vocabulary
from passdown.errors import InvalidInput
from passdown.tools.history import MAX_RECORD_CHARS
from tests.adapters.openai_scripts import QUIET, agent, go, inputs, last, lookup
from tests.processes import run_python
from tests.sizes import example_count

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent.parent
tokens = vocabulary("o200k_base")


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[passdown.Workspace]:
    with passdown.init(str(tmp_path)) as workspace:
        yield workspace


def said(text: str) -> Any:
    return {"role": "user", "content": text}


def call(number: int) -> Any:
    name = f"c{number}"
    return {"type": "function_call", "call_id": name, "name": "look", "arguments": "{}"}


def output(number: int) -> Any:
    return {"type": "function_call_output", "call_id": f"c{number}", "output": "x" * 40}


def got(session: Any, limit: int | None = None) -> list[Any]:
    return asyncio.run(session.get_items(limit))


def test_it_is_a_session_that_survives_a_restart(tmp_path: Path) -> None:
    items = [said("one"), call(1), output(1), said("zwei \U0001f600")]
    with passdown.init(str(tmp_path)) as ws:
        session = LedgerSession("user:1/ä b", ws)
        assert isinstance(session, Session)
        asyncio.run(session.add_items(items))
        asyncio.run(session.add_items([]))
        assert asyncio.run(session.pop_item()) == items[-1]
        assert got(LedgerSession("another", ws)) == []
    with passdown.open(str(tmp_path)) as ws:
        session = LedgerSession("user:1/ä b", ws)
        assert got(session) == items[:3]
        assert got(session, 2) == items[1:3]
        asyncio.run(session.clear_session())
        assert got(session) == []
        assert asyncio.run(session.pop_item()) is None
        told = session.transcript()
        assert [each.item for each in told] == items
        assert not any(each.counts for each in told)
        assert not ws.verify().findings


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=example_count(20))
@given(st.lists(st.dictionaries(st.text(), _json, max_size=4), max_size=4))
def test_items_come_back_byte_for_byte(items: list[Any]) -> None:
    """In the order of their keys, with 1.0 as 1.0, and with halves of surrogate pairs."""
    with tempfile.TemporaryDirectory() as folder, passdown.init(folder) as ws:
        asyncio.run(LedgerSession("s", ws).add_items(items))
        found = got(LedgerSession("s", ws))
    assert [json.dumps(item) for item in found] == [json.dumps(item) for item in items]


_steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 3)),
        st.tuples(st.just("pop"), st.just(0)),
        st.tuples(st.just("clear"), st.just(0)),
        st.tuples(st.just("get"), st.integers(0, 5)),
    ),
    max_size=14,
)


@settings(max_examples=example_count(15))
@given(_steps)
def test_it_answers_as_the_sdks_own_session(steps: list[tuple[str, int]]) -> None:
    async def compare(ws: passdown.Workspace) -> None:
        ours, theirs = LedgerSession("s", ws), SQLiteSession("s")
        other_door = LedgerSession("s", ws)
        added: list[Any] = []
        for what, number in steps:
            if what == "add":
                items = [said(f"{len(added) + n}") for n in range(number)]
                added += items
                await ours.add_items(items)
                await theirs.add_items(items)
            elif what == "pop":
                assert await other_door.pop_item() == await theirs.pop_item()
            elif what == "clear":
                await ours.clear_session()
                await theirs.clear_session()
            elif number:
                assert await ours.get_items(number) == await theirs.get_items(number)
            assert await other_door.get_items() == await theirs.get_items()
        assert [each.item for each in ours.transcript()] == added
        theirs.close()

    with tempfile.TemporaryDirectory() as folder, passdown.init(folder) as ws:
        asyncio.run(compare(ws))


def test_processes_that_add_at_once_lose_nothing(ws: passdown.Workspace, tmp_path: Path) -> None:
    """Pairs stay together, and each taken back is one that counted."""
    count, names = 12, ("left", "right")
    writer = [sys.executable, "-m", "tests.adapters.openai_writer", str(tmp_path), str(count)]
    run_python([*writer, *names], cwd=ROOT, check=True)
    session = LedgerSession("shared", ws)
    texts = [each.item["content"] for each in session.transcript()]
    assert sorted(texts) == sorted(
        f"{name} {n} {half}" for name in names for n in range(count) for half in "ab"
    )
    assert all(b == a[:-1] + "b" for a, b in zip(texts[::2], texts[1::2], strict=True))
    assert len(got(session)) == len(texts) - 2 * (count // 3)
    assert not ws.verify().findings


def test_runs_at_once_share_a_session(ws: passdown.Workspace) -> None:
    """Each has its answer; nothing is lost, and what is given later is whole at any limit."""
    session, count = LedgerSession("s", ws), 6

    async def one(number: int) -> Any:
        calls = [[function_call("look", {"number": n}, call_id=f"c{number}-{n}")] for n in range(3)]
        asked = agent(f"agent-{number}", [*calls, last(f"answer {number}")], tools=[lookup()])
        return await Runner.run(asked, f"question {number}", session=session, run_config=QUIET)

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*map(one, range(count)))

    answers = [result.final_output for result in asyncio.run(all_of_them())]
    assert answers == [f"answer {number}" for number in range(count)]
    items = got(session)
    assert len(items) == count * (1 + 3 * 2 + 1)
    for limit in range(0, 2_000, 200):
        given = got(LedgerSession("s", ws, max_tokens=limit))
        kinds = ("function_call_output", "function_call")
        outputs, calls = ({i["call_id"] for i in given if i.get("type") == k} for k in kinds)
        assert outputs <= calls
        assert given == items[len(items) - len(given) :]


def test_no_item_is_taken_back_twice(ws: passdown.Workspace) -> None:
    """Four at once, each with a door of its own."""
    count, doors = 40, [LedgerSession("s", ws) for _ in range(4)]
    asyncio.run(doors[0].add_items([said(str(number)) for number in range(count)]))

    def take(session: LedgerSession) -> list[Any]:
        popped: list[Any] = []
        while (item := asyncio.run(session.pop_item())) is not None:
            popped.append(item)
        return popped

    with ThreadPoolExecutor(len(doors)) as pool:
        taken = [item["content"] for popped in pool.map(take, doors) for item in popped]
    assert sorted(taken, key=int) == [str(number) for number in range(count)]


def test_tokens_limit_what_is_given_and_keep_pairs_together(ws: passdown.Workspace) -> None:
    thought: Any = {"type": "reasoning", "id": "rs_1", "summary": []}
    items = [said("old"), thought, call(1), call(2), output(1), output(2), said("new")]
    asyncio.run(LedgerSession("s", ws).add_items(items))
    size = sum(tokens(json.dumps(item, separators=(",", ":"))) for item in items)
    seen = {
        tuple(map(json.dumps, got(LedgerSession("s", ws, max_tokens=budget))))
        for budget in range(size + 1)
    }
    starts = (len(items), 6, 1, 0)
    assert seen == {tuple(map(json.dumps, items[start:])) for start in starts}
    small = LedgerSession("s", ws, max_tokens=1)
    assert got(small) == []
    assert got(small, 3) == items[-3:], "the SDK counts on its own limit to the letter"
    assert len(small.transcript()) == len(items)
    letters = LedgerSession(
        "s", ws, max_tokens=2 * len('{"role":"user","content":"new"}'), counter=len
    )
    assert got(letters) == [said("new")]


_item = st.one_of(
    st.just(said("m")),
    st.integers(0, 3).map(call),
    st.integers(0, 3).map(output),
    st.just({"type": "reasoning", "id": "rs"}),
)


@given(st.lists(_item, max_size=12), st.integers(0, 12))
def test_a_history_never_begins_in_the_middle(items: list[Any], start: int) -> None:
    start = min(start, len(items))
    begin = first_complete(items, start)
    assert start <= begin <= len(items)

    def is_whole(place: int) -> bool:
        kept = items[place:]
        for index, item in enumerate(kept):
            if item.get("type") != "function_call_output":
                continue
            calls = [n for n, one in enumerate(items) if one == call(int(item["call_id"][1:]))]
            before = [n for n in calls if n < place + index]
            if before and before[-1] < place:
                return False
        after_thought = place > 0 and items[place - 1].get("type") == "reasoning"
        return not (after_thought and kept)

    assert is_whole(begin)
    assert not any(is_whole(place) for place in range(start, begin)), "no more is cut than must be"


def test_long_items_and_secrets(ws: passdown.Workspace) -> None:
    """A picture larger than a record is kept whole; a key of a known shape is not kept at all."""
    picture = "data:image/png;base64," + "iVBORw0KGgo=" * (MAX_RECORD_CHARS // 4)
    key = "sk-proj-" + "a1B2" * 8
    session = LedgerSession("s", ws)
    quoted = '{"Authorization": "Bearer %s"}' % ("ab12" * 8)
    items: list[Any] = [
        said(picture),
        said(f"the key is {key}"),
        {"authorization": "bearer " + "cd34" * 8},
    ]
    asyncio.run(session.add_items([*items, said(quoted)]))
    first, second, *rest = got(LedgerSession("s", ws))
    assert first == items[0]
    assert second == said("the key is [redacted:openai_key]")
    text = json.dumps(rest)
    assert "ab12ab12" not in text
    assert rest[0] in ({"authorization": "bearer [redacted:bearer_token]"}, items[2])
    assert asyncio.run(session.pop_item()) == rest[1]


def test_what_can_not_be_kept_is_refused_whole(ws: passdown.Workspace) -> None:
    session = LedgerSession("s", ws)
    bad: Any = {"role": "user", "content": object()}
    with pytest.raises(InvalidInput, match=r"items\[1\]"):
        asyncio.run(session.add_items([said("fine"), bad]))
    assert session.transcript() == []
    for name in ("", "x" * 201, "a\nb", 7):
        with pytest.raises(InvalidInput, match="session_id"):
            LedgerSession(name, ws)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidInput, match="max_tokens"):
        LedgerSession("s", ws, max_tokens=-1)
    with pytest.raises(InvalidInput, match="one of them"):
        LedgerSession("s", ws, max_tokens=9, session_settings=SessionSettings(limit=1))


def test_runs_go_on_where_the_last_one_ended(tmp_path: Path) -> None:
    """With the runner: a second process has the first one's history, and limits hold."""
    steps = [[function_call("look", {"number": 1}, call_id="c1")], last("one")]
    with passdown.init(str(tmp_path)) as ws:
        go(agent("a", steps, tools=[lookup()]), "first", session=LedgerSession("s", ws))
    with passdown.open(str(tmp_path)) as ws:
        second, third = agent("a", [last("two")]), agent("a", [last("three")])
        go(second, "second", session=LedgerSession("s", ws))
        [history] = inputs(second)
        assert [item.get("type") for item in history] == [
            None,
            "function_call",
            "function_call_output",
            "message",
            None,
        ]
        limited = LedgerSession("s", ws, session_settings=SessionSettings(limit=1))
        go(third, "third", session=limited)
        [history] = inputs(third)
        assert len(history) == 2
        assert len(limited.transcript()) == 8

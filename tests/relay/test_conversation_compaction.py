"""A context fits its window, whatever was said, and what it leaves out can be read again."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passdown.core.tokens import chars4
from passdown.errors import InvalidInput
from passdown.relay.messages import (
    MAX_SUMMARY,
    SUMMARY_BY,
    Message,
    ToolCall,
    compact,
    context_tokens,
    shortened,
    shortened_to,
)
from passdown.workspace.streams import WorkspaceStreams
from tests.relay.talking import Table, asks, held, opened, says, texts
from tests.sizes import example_count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from passdown.workspace import Workspace

WHERE = "conversation/T-1/a/b"

text = st.text("ab \n\u0301\N{SNOWMAN}", min_size=1, max_size=40) | st.integers(1, 900).map(
    lambda n: "word " * n
)
ids = st.sampled_from(["c1", "c2", "c3"])


def calling(content: str, names: list[str], given: str) -> Message:
    calls = tuple(ToolCall(name, "tool", {"given": given}) for name in names)
    return Message("assistant", content, tool_calls=calls)


def result(content: str, id_: str) -> Message:
    return Message("tool", content, tool_call_id=id_)


def earlier(content: str) -> Message:
    return Message("system", content, SUMMARY_BY)


def begun(system: str, rest: list[Message]) -> list[Message]:
    return [Message("system", system), *rest]


def in_short(_: list[Message]) -> str:
    return "In short. " * 90


message = st.one_of(
    st.builds(asks, text),
    st.builds(says, text),
    st.builds(calling, text, st.lists(ids, min_size=1, max_size=2, unique=True), text),
    st.builds(result, text, ids),
    st.builds(earlier, text),
)
talks = st.builds(begun, text, st.lists(message, max_size=14))


def is_summary(message: Message) -> bool:
    return message.by == SUMMARY_BY


def said(messages: Sequence[Message]) -> list[Message]:
    return [each for each in messages[1:] if not is_summary(each)]


def last_exchange(messages: Sequence[Message]) -> int:
    """Where the last request is: nothing from there on may be left out."""
    asked = [at for at, each in enumerate(messages) if each.role == "user"]
    end = asked[-1] if asked else max(len(messages) - 1, 0)
    size = len(messages)
    spans = [(size - call, size - answer) for call, answer in pairs(messages)]
    while spanned := [first for first, last in spans if first < end <= last]:
        end = min(spanned)
    return end


def bare(message: Message) -> Message:
    """A message with nothing but marks for its texts."""
    calls = [
        call._replace(arguments={"cut": shortened(json.dumps(call.arguments), 0, WHERE)})
        for call in message.tool_calls
    ]
    content = shortened(message.content, 0, WHERE)
    return message._replace(content=content, tool_calls=tuple(calls))


def pairs(messages: Sequence[Message]) -> set[tuple[int, int]]:
    """From the end, because the beginning goes: each result with the call that it answers."""
    found: set[tuple[int, int]] = set()
    for at, each in enumerate(messages):
        if each.role == "tool":
            for before in range(at - 1, -1, -1):
                if each.tool_call_id in [call.id for call in messages[before].tool_calls]:
                    found.add((len(messages) - before, len(messages) - at))
                    break
    return found


@pytest.mark.promise("S4-16", "S4-17")
@given(talks, st.integers(20, 1_200), st.sampled_from([None, in_short]))
@settings(max_examples=example_count(40))
def test_what_is_compacted_fits_and_holds_together(
    talk: list[Message], room: int, summary: Callable[[list[Message]], str] | None
) -> None:
    """It fits; system message and last exchange stay; tool calls keep their results; there is one
    summary, after the system message; doing it again changes nothing. Or the room is too small.
    """
    try:
        found = compact(talk, room, "chars4", summary, where=WHERE)
    except InvalidInput:
        least = [talk[0], *said(talk)[last_exchange(said(talk)) :]]
        marks = context_tokens([bare(each) for each in least], chars4)
        assert room < marks + 30, "the rest is what a cut summary takes"
        return
    kept, whole = said(found.messages), said(talk)
    assert context_tokens(found.messages, chars4) <= room
    assert found.messages[0].role == "system"
    assert not is_summary(found.messages[0])
    assert [at for at, each in enumerate(found.messages) if is_summary(each)] == (
        [1] if found.dropped or any(map(is_summary, talk)) else []
    )
    assert len(kept) == len(whole) - found.dropped
    assert found.dropped <= last_exchange(whole)
    assert [each._replace(content="", tool_calls=()) for each in kept] == [
        each._replace(content="", tool_calls=()) for each in whole[found.dropped :]
    ]
    dropped = {pair for pair in pairs(whole) if pair[0] > len(kept)}
    assert not any(result <= len(kept) for _, result in dropped)
    again = compact(found.messages, room, "chars4", summary, where=WHERE)
    assert again.messages == found.messages
    assert again.dropped == 0


def test_what_fits_stays_as_it_is() -> None:
    talk = [Message("system", "s"), asks("a"), says("b")]
    assert compact(talk, 1_000, "chars4").messages == tuple(talk)
    assert compact([], 0, "chars4").messages == ()


def test_a_room_that_is_too_small_says_what_it_takes() -> None:
    """The least that it names is enough where no summary is needed."""
    talk = [Message("system", "s " * 500), asks("a " * 900), says("b " * 300)]
    with pytest.raises(InvalidInput) as caught:
        compact(talk, 30, "chars4", where=WHERE)
    (problem,) = caught.value.problems
    assert problem.code == "too_small"
    least = int(problem.expected.split()[1].rstrip(",").replace(",", ""))
    found = compact(talk, least, "chars4", where=WHERE).messages
    assert context_tokens(found, chars4) <= least


def test_a_cut_says_how_much_and_where_the_whole_is() -> None:
    """And never parts a letter from its accents."""
    long = "e\u0301" * 200
    cut = shortened(long, 101, WHERE)
    assert cut == "e\u0301" * 50 + f"\n[... 300 of 400 characters are left out; the whole: {WHERE}]"
    assert shortened("short", 0, WHERE) == "short"
    assert chars4(shortened_to(long, 40, "chars4", WHERE)) <= 40


def test_the_longest_texts_go_before_the_request_and_the_system_message() -> None:
    """A huge result of a tool is what is cut, with its call in place."""
    call = Message("assistant", "", tool_calls=(ToolCall("c", "read", {"text": "y" * 4_000}),))
    result = Message("tool", "x" * 40_000, tool_call_id="c")
    talk = [Message("system", "s" * 200), asks("q" * 200), call, result]
    found = compact(talk, 500, "chars4", where=WHERE)
    assert found.messages[:2] == tuple(talk[:2])
    assert "characters are left out" in found.messages[2].tool_calls[0].arguments["cut"]
    assert "characters are left out" in found.messages[3].content
    assert (found.dropped, found.summary) == (0, "")


@pytest.mark.promise("S4-17")
def test_the_callers_summary_comes_first_and_takes_the_place_of_the_earlier() -> None:
    """Either its text or lines of what was said, never both; and never two summaries."""
    talk = [
        Message("system", "s"),
        *(m for n in range(60) for m in (asks(f"q{n} " * 9), says("a"))),
    ]
    seen: list[list[Message]] = []

    def summary(messages: list[Message]) -> str:
        seen.append(messages)
        return f"Summary number {len(seen)}"

    first = compact(talk, 300, "chars4", summary)
    assert first.summary.endswith("\nSummary number 1")
    assert "- user: " not in first.summary
    more = [*first.messages, *talk[1:]]
    second = compact(more, 300, "chars4", summary)
    assert seen[1][0].content == first.summary
    assert "number 1" not in second.summary
    assert second.summary.endswith("\nSummary number 2")
    third = compact([*second.messages, *talk[1:]], 300, "chars4", lambda _: " ")
    assert "- user: q59" in third.summary or "- user: q5" in third.summary
    assert [is_summary(each) for each in third.messages].count(True) == 1


def test_lines_of_an_earlier_summary_go_before_newer_ones() -> None:
    talk = [Message("system", "s"), *(asks(f"question {n} " * 4) for n in range(200))]
    first = compact(talk, 2_000, "chars4")
    second = compact([*first.messages, *(asks(f"later {n} " * 4) for n in range(200))], 2_000)
    lines = second.summary.split("\n")
    assert lines[1] == "- (older lines are left out)"
    assert lines.count(lines[1]) == 1
    assert "later" in lines[-1]
    assert chars4(first.summary) <= MAX_SUMMARY


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return opened(tmp_path, "T-1")


@pytest.mark.promise("S4-16")
def test_a_conversation_compacts_itself_and_keeps_its_transcript(
    ws: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    """At no moment over the room; recorded and logged; read elsewhere, it is the same."""
    leases = Table()
    leases.put("coder-1", "T-1")
    given: dict[str, Any] = {"window": 2_000, "reply_room": 300, "margin": 100}
    conversations = held(ws, leases, **given)
    talk = conversations.with_peer("coder-1")
    with caplog.at_level(logging.INFO, logger="passdown.relay"):
        for n in range(60):
            talk.add(asks(f"question {n} " * 10))
            assert context_tokens(talk.messages(), chars4) <= 1_600
            talk.add(says(f"answer {n} " * 10))
    messages = talk.messages()
    assert "Title of T-1" in messages[0].content
    assert messages[1].by == SUMMARY_BY
    assert "conversation/T-1/architect/coder-1" in messages[1].content
    assert texts(messages)[-1].startswith("answer 59")
    assert len(talk.transcript()) == 121
    records = WorkspaceStreams(ws).records("conversation/T-1/architect/coder-1")
    recorded = [record.document() for record in records if record.kind == "compacted"]
    assert 0 < len(recorded) < 15
    assert set(recorded[0]) == {"chapter", "kept_from", "summary"}
    lines = [vars(line) for line in caplog.records if "dropped" in vars(line)]
    assert [line["kept_from"] for line in lines] == [body["kept_from"] for body in recorded]
    assert held(ws, leases, **given).with_peer("coder-1").messages() == messages
    talk.add(asks("x" * 40_000))
    assert context_tokens(talk.messages(), chars4) <= 1_600
    assert len(talk.transcript()[-1].message.content) == 40_000


@pytest.mark.promise("S4-17")
def test_a_summary_that_fails_is_logged_and_replaced_by_lines(
    ws: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    def summary(messages: list[Message]) -> str:
        raise OSError("the model is away")

    talk = held(ws, Table(), window=1_000, summary=summary).with_peer("pm")
    for n in range(40):
        talk.add(asks(f"question {n} " * 10))
    assert "the model is away" in caplog.text
    assert "- pm: question" in talk.messages()[1].content

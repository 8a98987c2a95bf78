"""Requests go into the sender's conversation, and each answer builds on those before it."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from passdown.errors import InvalidInput, KeyReused
from passdown.relay.conversations import QuestionResult, approve, ask, review, verdict_of
from passdown.relay.messages import Message, ToolCall
from passdown.workspace.streams import WorkspaceStreams
from tests.relay.talking import Table, held, opened, texts

if TYPE_CHECKING:
    from pathlib import Path

    from passdown.workspace import Workspace

Messages = list[dict[str, Any]]


@pytest.fixture
def leases() -> Table:
    table = Table()
    table.put("coder-1", "T-1")
    table.put("coder-2", "T-2")
    return table


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return opened(tmp_path, "T-1", "T-2")


class Reviewer:
    """Decides once whether tabs or spaces are right, and afterwards by what it said before.

    Without its own earlier words it would say the opposite each time.
    """

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, messages: Messages) -> str:
        self.calls += 1
        told = [m["content"] for m in messages if m["role"] == "assistant"]
        said = [word for text in told for word in re.findall("tabs|spaces", text)]
        choice = said[0] if said else ("tabs", "spaces")[self.calls % 2]
        return f"CHANGES: use {choice}"


@pytest.mark.promise("S4-4", "S4-34")
def test_a_reviewer_keeps_to_what_it_said(ws: Workspace, leases: Table) -> None:
    """Over all kinds of requests of a task; each request carries the earlier reviews."""
    conversations, reviewer = held(ws, leases), Reviewer()
    seen: list[Messages] = []

    def answer(messages: Messages) -> str:
        seen.append(messages)
        return reviewer(messages)

    answers = [
        review(conversations, "coder-1", "plan", "The plan", answer).content,
        ask(conversations, "coder-1", "Tabs?", answer).message.content,
        review(conversations, "coder-1", "code", "The code", answer).content,
        review(conversations, "coder-1", "budget", "All used up", answer).content,
        approve(conversations, "coder-1", "completion", "All done", answer).message.content,
    ]
    assert answers == [answers[0]] * 5
    for number, messages in enumerate(seen):
        told = [m["content"] for m in messages if m["role"] == "assistant"]
        assert told == answers[:number]
        assert len(messages) == 2 + 2 * number
    other = review(conversations, "coder-2", "plan", "Another plan", reviewer)
    assert other.content != answers[0]


@pytest.mark.promise("S4-15")
def test_each_request_uses_the_context_of_its_sender(ws: Workspace, leases: Table) -> None:
    """All handlers, two senders: each sees its own words alone."""
    conversations = held(ws, leases)
    seen: dict[str, str] = {}
    for sender in ("coder-1", "coder-2"):

        def answer(messages: Messages, sender: str = sender) -> str:
            seen[sender] = "\n".join(m["content"] for m in messages)
            return f"APPROVED for {sender}"

        review(conversations, sender, "plan", f"plan of {sender}", answer)
        ask(conversations, sender, f"question of {sender}", answer)
        approve(conversations, sender, "code", f"code of {sender}", answer)
    for sender, other in (("coder-1", "coder-2"), ("coder-2", "coder-1")):
        assert all(f"{what} of {sender}" in seen[sender] for what in ("plan", "question", "code"))
        assert other not in seen[sender]


@pytest.mark.promise("S4-15")
@pytest.mark.parametrize("sender", ["", "  ", "a b", "user", None, 7])
def test_a_request_without_a_sender_is_refused(ws: Workspace, leases: Table, sender: Any) -> None:
    """In every handler and every way to share; nobody is asked and nothing is recorded."""
    asked: list[Messages] = []

    def answer(messages: Messages) -> str:
        asked.append(messages)
        return "APPROVED"

    for sharing in ("off", "all"):
        conversations = held(ws, leases, sharing=sharing)
        for handle in (
            lambda c=conversations: review(c, sender, "plan", "x", answer),
            lambda c=conversations: ask(c, sender, "x", answer),
            lambda c=conversations: approve(c, sender, "plan", "x", answer),
        ):
            with pytest.raises(InvalidInput, match="sender"):
                handle()
    assert asked == []
    assert WorkspaceStreams(ws).streams("conversation/") == []


def test_a_request_that_makes_no_sense_is_refused(ws: Workspace, leases: Table) -> None:
    conversations = held(ws, leases)
    for kind, content, path in (("poem", "x", "kind"), ("plan", " ", "content")):
        with pytest.raises(InvalidInput, match=path):
            review(conversations, "coder-1", kind, content, lambda _: "APPROVED")
    with pytest.raises(InvalidInput, match="rounds"):
        ask(conversations, "coder-1", "x", lambda _: "y", rounds=0)
    assert texts(conversations.with_peer("coder-1").messages()) == []


def test_an_answer_that_is_none_is_refused_and_the_request_stays(
    ws: Workspace, leases: Table
) -> None:
    """The request was made; it can be answered by asking again under its key."""
    conversations = held(ws, leases)
    with pytest.raises(InvalidInput, match=r"message\.content"):
        review(conversations, "coder-1", "plan", "A plan", lambda _: "", key="k")
    assert review(conversations, "coder-1", "plan", "A plan", lambda _: "Fine", key="k") == Message(
        "assistant", "Fine", "architect"
    )
    assert len(conversations.with_peer("coder-1").messages()) == 3


def test_a_repeated_request_gives_the_recorded_answer(ws: Workspace, leases: Table) -> None:
    """Nobody is asked again, in another process neither; another request needs another key."""

    def answer(_: Messages) -> str:
        return "APPROVED"

    def nobody(_: Messages) -> str:
        raise AssertionError

    first = review(held(ws, leases), "coder-1", "plan", "A plan", answer, key="leg-3")
    conversations = held(ws, leases)
    assert review(conversations, "coder-1", "plan", "A plan", nobody, key="leg-3") == first
    with pytest.raises(KeyReused):
        review(conversations, "coder-1", "plan", "Another plan", nobody, key="leg-3")
    assert len(conversations.with_peer("coder-1").messages()) == 3


def test_a_question_is_asked_until_no_tool_is_called(ws: Workspace, leases: Table) -> None:
    """Each call has its result in the next round, also when the tool fails."""
    conversations = held(ws, leases)
    seen: list[Messages] = []

    def answer(messages: Messages) -> Message | str:
        seen.append(messages)
        if len(seen) == 3:
            return f"It is {messages[-1]['content']}"
        call = ToolCall(f"c{len(seen)}", "look", {"round": len(seen)})
        return Message("assistant", "", tool_calls=(call,))

    def look(call: ToolCall) -> str:
        if call.arguments["round"] == 1:
            raise OSError("no such file")
        return "blue" if call.arguments["round"] == 2 else "\0"

    found = ask(conversations, "coder-1", "What colour?", answer, use_tool=look)
    assert (found.message.content, found.rounds, found.is_final) == ("It is blue", 3, True)
    assert [m["role"] for m in seen[2]][2:] == ["assistant", "tool", "assistant", "tool"]
    assert "no such file" in seen[2][3]["content"]
    found = ask(conversations, "coder-1", "Again?", answer, use_tool=look, rounds=1)
    assert "can't be recorded" in conversations.with_peer("coder-1").messages()[-1].content
    seen.clear()
    found = ask(conversations, "coder-1", "And now?", answer, rounds=2, key="k")
    assert isinstance(found, QuestionResult)
    assert not found.is_final
    assert "No tools" in conversations.with_peer("coder-1").messages()[-1].content


def test_an_approval_goes_on_until_it_is_final(ws: Workspace, leases: Table) -> None:
    """Rounds, a reviser who gives up, and no reviser at all."""
    conversations = held(ws, leases)
    script = iter(["CHANGES: shorter", "Hm, why?", "**Approved.** Fine"])
    found = approve(
        conversations,
        "coder-1",
        "plan",
        "Long plan",
        lambda _: next(script),
        revise=lambda answer: f"Revised after {answer.content}",
    )
    assert (found.verdict, found.rounds) == ("approved", 3)
    asked = [m.content for m in conversations.with_peer("coder-1").messages() if m.role == "user"]
    assert asked[1].endswith("Revised after CHANGES: shorter")
    found = approve(
        conversations,
        "coder-1",
        "code",
        "x",
        lambda _: "CHANGES",
        revise=lambda _: "Again",
        rounds=2,
    )
    assert (found.verdict, found.rounds) == ("undecided", 2)
    found = approve(conversations, "coder-1", "code", "x", lambda _: "CHANGES")
    assert (found.verdict, found.rounds) == ("undecided", 1)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("APPROVED", "approved"),
        ("> ## **Rejected**: no", "rejected"),
        ("changes\nplease", "changes"),
        ("Not approved", ""),
        ("Approvedly so", ""),
        ("", ""),
        ("ABANDON it", "abandon"),
    ],
)
def test_a_verdict_is_the_first_word(text: str, verdict: str) -> None:
    assert verdict_of(text) == verdict


def test_an_answer_that_comes_late_stays_with_its_task(ws: Workspace, leases: Table) -> None:
    """The sender goes on to another task while its request is being answered."""
    conversations = held(ws, leases)

    def answer(_: Messages) -> str:
        leases.put("coder-1", "T-2")
        return "APPROVED for the old task"

    review(conversations, "coder-1", "plan", "Old plan", answer)
    talk = conversations.with_peer("coder-1")
    assert texts(talk.messages()) == []
    assert talk.transcript("T-1")[-1].message.content == "APPROVED for the old task"


def test_further_rounds_stay_with_their_task(ws: Workspace, leases: Table) -> None:
    """The sender goes on while it is asked to revise: the revision isn't taken along."""
    conversations = held(ws, leases)

    def revise(_: Message) -> str:
        leases.put("coder-1", "T-2")
        return "Revised old plan"

    script = iter(["CHANGES", "APPROVED"])
    answers = approve(
        conversations, "coder-1", "plan", "Old plan", lambda _: next(script), revise=revise
    )
    assert answers.verdict == "approved"
    talk = conversations.with_peer("coder-1")
    assert texts(talk.messages()) == []
    assert [said.task for said in talk.transcript()] == ["T-1"] * 5 + ["T-2"]


@pytest.mark.promise("S4-18")
def test_requests_at_the_same_time_come_one_by_one(ws: Workspace, leases: Table) -> None:
    """Each answer follows its own request, and each sees all exchanges before it whole."""
    conversations = held(ws, leases)

    def answer(messages: Messages) -> str:
        before = ["user", "assistant"] * (len(messages) // 2 - 1)
        assert [m["role"] for m in messages[1:]] == [*before, "user"]
        return messages[-1]["content"]

    def put(number: int) -> QuestionResult:
        return ask(conversations, "coder-1", f"Question {number}", answer)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(put, range(32)))
    said = texts(conversations.with_peer("coder-1").messages())
    assert said[::2] == said[1::2]
    assert len(set(said)) == 32

"""Requests from one agent to another: a review, a question, an approval.

Each goes into the sender's conversation with the agent that answers, so what was said before is
what the next answer builds on. The task is the one that the sender's lease names.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.errors import InvalidInput, Problem
from passdown.model.arguments import number_problems
from passdown.model.conversation import (
    MAX_CONTENT,
    Message,
    conversation_stream,
    message_of,
)
from passdown.model.text import excerpt, text_problems

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.model.conversation import Chapter, ToolCall
    from passdown.relay.conversation import Conversation
    from passdown.relay.conversations import Conversations

    Answer = Callable[[list[dict[str, Any]]], Message | str]
    UseTool = Callable[[ToolCall], str]
    Revise = Callable[[Message], str]

REVIEWS = {
    "plan": "plan_review",
    "code": "code_review",
    "completion": "completion",
    "budget": "budget_review",
}
"""The kinds of reviews, each with its template."""
FINAL = ("approved", "rejected", "continue", "pivot", "escalate", "abandon")
"""The verdicts that end an approval; `changes` asks for another round."""
UNDECIDED = "undecided"
MOST_ROUNDS = 100
_REFUSED = "the request is refused; nothing was recorded"
_NO_TOOLS = "There are no tools here; answer from what you know."
_WORD = re.compile(r"[\s*_#>\"'`-]{0,20}([A-Za-z]{1,20})\b")


class Answered(NamedTuple):
    """The answer to a question after some rounds; not `is_final` when it still wanted tools."""

    message: Message
    rounds: int
    is_final: bool


class Approval(NamedTuple):
    """How an approval ended: a final verdict, or `undecided`; with the last answer."""

    verdict: str
    message: Message
    rounds: int


def review(
    conversations: Conversations,
    sender: str,
    kind: str,
    content: str,
    answer: Answer,
    *,
    task: str = "",
    key: str = "",
) -> Message:
    """One review: of a `plan`, `code`, `completion` or `budget`. Gives the answer.

    `answer` is called once, with the sender's whole context. A `task` that isn't the one of the
    sender's lease is refused. With `key`, a repeat gives the recorded answer and asks nobody.
    """
    request = _Request(conversations, sender, _template(kind), task, key)
    with request.conversation.turn:
        request.put(content, 1)
        return request.answered(answer, None, 1)


def ask(
    conversations: Conversations,
    sender: str,
    content: str,
    answer: Answer,
    *,
    use_tool: UseTool | None = None,
    rounds: int = 8,
    task: str = "",
    key: str = "",
) -> Answered:
    """A question. While the answer calls tools, they are used and it is asked again."""
    _check_rounds(rounds)
    request = _Request(conversations, sender, "question", task, key)
    with request.conversation.turn:
        request.put(content, 1)
        message = request.answered(answer, use_tool, 1)
        done = 1
        while message.tool_calls and done < rounds:
            done += 1
            message = request.answered(answer, use_tool, done)
    return Answered(message, done, not message.tool_calls)


def approve(
    conversations: Conversations,
    sender: str,
    kind: str,
    content: str,
    answer: Answer,
    *,
    revise: Revise | None = None,
    rounds: int = 3,
    task: str = "",
    key: str = "",
) -> Approval:
    """A review that goes on until its verdict is final: `revise` turns an answer into the next
    request, or into nothing to give up.
    """
    _check_rounds(rounds)
    request = _Request(conversations, sender, _template(kind), task, key)
    done = 0
    with request.conversation.turn:
        while True:
            done += 1
            request.put(content, done)
            message = request.answered(answer, None, done)
            verdict = verdict_of(message.content)
            if verdict in FINAL:
                return Approval(verdict, message, done)
            content = revise(message) if revise and done < rounds else ""
            if not content:
                return Approval(UNDECIDED, message, done)


def verdict_of(text: str) -> str:
    """The verdict that an answer begins with, in small letters; empty when it begins otherwise."""
    found = _WORD.match(text)
    word = found[1].lower() if found else ""
    return word if word in (*FINAL, "changes") else ""


class _Request:
    """A request under way: whose it is, and in which conversation."""

    def __init__(
        self, conversations: Conversations, sender: str, template: str, task: str, key: str
    ) -> None:
        self.conversation, self.chapter, self._task = _begun(conversations, sender, task)
        self._templates = conversations.templates
        self._sender = sender
        self._template = template
        self._key = key

    def put(self, content: str, done: int) -> None:
        """Add the request, and nothing but it, as the sender's message.

        A further round stays in the chapter of the first, wherever the sender has gone meanwhile.
        """
        problems = text_problems(content, "content", max_length=MAX_CONTENT)
        if problems:
            raise InvalidInput(_REFUSED, problems)
        values = {
            "content": content,
            "agent": self.conversation.agent,
            "peer": self._sender,
            "task": self._task,
        }
        text = self._templates.render(self._template, values)
        message = Message("user", text, self._sender)
        key = self._named(done, "request")
        self.chapter = self.conversation.add(message, chapter=self.chapter, key=key)

    def answered(self, answer: Answer, use_tool: UseTool | None, done: int) -> Message:
        """The answer to what the chapter says so far, recorded in it; each tool call gets a
        result.
        """
        chapter, key = self.chapter, self._named(done, "reply")
        known = self.conversation.keyed(key, chapter) if key else None
        if known:
            message = known[1]
        else:
            given = answer([m.document() for m in self.conversation.messages(chapter)])
            said = Message("assistant", given) if isinstance(given, str) else given
            message = message_of(said)._replace(by=self.conversation.agent)
            self.conversation.add(message, chapter=chapter, key=key)
        for index, call in enumerate(message.tool_calls):
            self._used(call, use_tool, self._named(done, f"tool/{index}"))
        return message

    def _used(self, call: ToolCall, use_tool: UseTool | None, key: str) -> None:
        if key and self.conversation.keyed(key, self.chapter):
            return
        try:
            text = str(use_tool(call)) if use_tool else _NO_TOOLS
        except Exception as error:  # noqa: BLE001 - a call without a result breaks what follows
            text = f"The tool failed: {type(error).__name__}: {excerpt(str(error), 500)}"
        try:
            result = message_of(Message("tool", text, tool_call_id=call.id))
        except InvalidInput as error:
            told = f"What the tool gave can't be kept: {error.problems[0].line()}"
            result = Message("tool", told, tool_call_id=call.id)
        self.conversation.add(result, chapter=self.chapter, key=key)

    def _named(self, done: int, part: str) -> str:
        return f"{self._key}/{done}/{part}" if self._key else ""


def _begun(
    conversations: Conversations, sender: str, task: str
) -> tuple[Conversation, Chapter, str]:
    """The sender's conversation, its chapter, and the task by the lease."""
    while True:
        leased = conversations.task_of(sender)
        if task and task != leased:
            shown = f"the request says {excerpt(task)!r}"
            expected = f"{leased}, as the lease has it" if leased else "no task: there is no lease"
            problem = Problem("task", "other_task", shown, expected)
            raise InvalidInput(_REFUSED, [problem])
        conversation = conversations.with_peer(sender)
        chapter = conversation.context().chapter
        # The lease may have changed between the two looks at it.
        own = conversation_stream(conversation.agent, sender, leased)
        if chapter.stream == own or not conversations.has_own(sender):
            return conversation, chapter, leased


def _template(kind: str) -> str:
    if kind in REVIEWS:
        return REVIEWS[kind]
    shown = f"{excerpt(str(kind))!r}"
    problem = Problem("kind", "invalid_choice", shown, " | ".join(REVIEWS))
    raise InvalidInput("there is no such review", [problem])


def _check_rounds(rounds: int) -> None:
    problems = number_problems(rounds, "rounds", 1, MOST_ROUNDS)
    if problems:
        raise InvalidInput(_REFUSED, problems)

"""Messages of a conversation, the context folded from its records, and its compaction. Pure.

Records are of three kinds: `reset` begins a chapter with a system message, `message` adds to a
chapter, `compacted` says from where on a chapter is still shown.
"""

from __future__ import annotations

import json
import unicodedata
from bisect import bisect_left
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.context.pipeline import Budget, beginning
from passdown.core.arguments import raise_problems
from passdown.core.intake import as_error
from passdown.core.kinds import CONVERSATION_STREAM, WORKSPACE_TASK
from passdown.core.record import canonical_bytes
from passdown.core.schema import (
    AGENT,
    Checks,
    Choice,
    List,
    Part,
    Text,
    Type,
    declare,
    tuple_shape,
    value_of,
)
from passdown.core.text import excerpt, text_problems
from passdown.core.tokens import counter_of
from passdown.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from passdown.core.record import Record
    from passdown.core.tokens import Count, Counter
    from passdown.core.types import JsonObject


ROLES = ("system", "user", "assistant", "tool")
MAX_CONTENT = 1_000_000
RESET, MESSAGE, COMPACTED = "reset", "message", "compacted"
EVERYONE = "*"
"""The peer of a shared context; not a valid agent name."""
SUMMARY_BY = "summary"
"""The author of the system message that summarizes compacted messages."""


class _Arguments(Type):
    """The arguments of a tool call: a JSON object, or its text."""

    def check(self, value: Any, path: str, checks: Checks) -> Any:
        """Check that it can be recorded."""
        if not isinstance(value, dict | str):
            given = f"{type(value).__name__} given"
            checks.add(path, "wrong_type", given, "a JSON object or its text")
            return value
        try:
            canonical_bytes(cast("object", value))
        except InvalidInput as error:
            for problem in error.problems:
                where = f"{path}.{problem.path}" if problem.path else path
                checks.errors.append(problem._replace(path=where))
        return cast("object", value)


def _content_problems(value: object, path: str) -> list[Problem]:
    return text_problems(value, path, required=False, max_length=MAX_CONTENT)


_ID = Text(lambda value, path: text_problems(value, path, max_length=256))


@tuple_shape
class ToolCall(NamedTuple):
    """A tool call of the answering agent; `arguments` are a JSON object or its text."""

    id: str = declare(_ID)
    name: str = declare(_ID)
    arguments: Any = declare(_Arguments(), default="")


@tuple_shape
class Message(NamedTuple):
    """One message. `by` is its author; `tool_call_id` the call that a tool result answers."""

    role: str = declare(Choice(*ROLES))
    content: str = declare(Text(_content_problems), default="")
    by: str = declare(AGENT, default="")
    tool_calls: tuple[ToolCall, ...] = declare(List(Part(ToolCall)), default=())
    tool_call_id: str = declare(_ID, default="")

    def document(self) -> JsonObject:
        """The message as a plain JSON object, without empty fields."""
        calls = [call._asdict() for call in self.tool_calls]
        found = {**self._asdict(), "tool_calls": calls}
        return {name: part for name, part in found.items() if part or name == "content"}


def message_of(given: object, path: str = "message") -> Message:
    """Check a message, or the document of one. Raises InvalidInput with every problem."""
    checks = Checks()
    document = _plain(cast("Any", given)) if isinstance(given, Message | dict) else given
    plain = Part(Message).read(document, path, checks)
    problems = [as_error(problem) for problem in checks.problems()]
    if plain:
        problems += _message_problems(plain, path)
    raise_problems("the message is refused; nothing was recorded", problems)
    return value_of(Message, plain)


def _plain(given: Message | dict[str, Any]) -> JsonObject:
    """A message as plain data; its calls may be values too."""
    document = given.document() if isinstance(given, Message) else dict(given)
    calls = document.get("tool_calls")
    if isinstance(calls, list | tuple):
        found = cast("list[object]", calls)
        document["tool_calls"] = [c._asdict() if isinstance(c, ToolCall) else c for c in found]
    return document


def _message_problems(plain: JsonObject, path: str) -> Iterator[Problem]:
    """What doesn't go together in a message."""
    role, calls, answers = plain["role"], plain["tool_calls"], plain["tool_call_id"]
    is_blank = isinstance(plain["content"], str) and not plain["content"].strip()
    if role != "tool" and not calls and is_blank:
        yield Problem(f"{path}.content", "empty", "shows no text", "some text")
    if calls and role != "assistant":
        where = f"{path}.tool_calls"
        yield Problem(where, "not_allowed", "only an assistant calls tools", "none")
    if bool(answers) != (role == "tool"):
        message = "is missing" if role == "tool" else "only a tool result has one"
        expected = "the id of a call" if role == "tool" else "none"
        yield Problem(f"{path}.tool_call_id", "not_allowed", message, expected)
    ids = [call.get("id") for call in calls]
    for index, id_ in enumerate(ids):
        if id_ in ids[:index]:
            where = f"{path}.tool_calls[{index}].id"
            yield Problem(where, "duplicate", "is used twice", "a unique id")


def conversation_stream(agent: str, peer: str, task: str = "") -> str:
    """The stream of an agent's conversation with a peer about a task, or about the project."""
    return f"{CONVERSATION_STREAM}{task or WORKSPACE_TASK}/{agent}/{peer}"


class Chapter(NamedTuple):
    """A part of a conversation, from one reset to the next: its stream and the position of the
    reset.

    What is added to a chapter stays in it, even if the next one has begun.
    """

    stream: str
    start: int


class ConversationContext(NamedTuple):
    """What an agent sees of a conversation at one position of its stream.

    `lease` is 0 for a conversation without a task. `entries` are the messages still shown, with
    their positions; `summary` replaces the others. `start` 0: nothing began yet.
    """

    stream: str
    start: int = 0
    position: int = 0
    lease: int = 0
    begun_at: str = ""
    system: str = ""
    summary: str = ""
    entries: tuple[tuple[int, Message], ...] = ()

    @property
    def chapter(self) -> Chapter:
        """The chapter of the context."""
        return Chapter(self.stream, self.start)

    @property
    def is_fresh(self) -> bool:
        """Whether the chapter has no messages yet."""
        return not self.entries and not self.summary

    def messages(self) -> list[Message]:
        """The system message, the summary if any, and the messages since."""
        head = [Message("system", self.system)] if self.start else []
        summary = [Message("system", self.summary, SUMMARY_BY)] if self.summary else []
        return [*head, *summary, *(message for _, message in self.entries)]

    def document(self) -> JsonObject:
        """The context as plain JSON; `context_of` reads it back."""
        entries = [{"position": at, **message.document()} for at, message in self.entries]
        return {**self._asdict(), "entries": entries}


def context_of(document: JsonObject) -> ConversationContext:
    """The context of a document; raises InvalidInput if it is invalid."""
    given = dict(document)
    try:
        entries = [dict(entry) for entry in given.pop("entries")]
        found = tuple((int(entry.pop("position")), message_of(entry)) for entry in entries)
        return ConversationContext(**given, entries=found)
    except (KeyError, TypeError, AttributeError) as error:
        problem = Problem("", "wrong_type", excerpt(str(error), 120), "the result of document()")
        raise InvalidInput("invalid conversation", [problem]) from error


def fold_context(
    context: ConversationContext,
    records: Iterable[Record],
    is_meant: Callable[[Record, JsonObject], bool],
) -> ConversationContext:
    """Apply further records of its stream to a context: the latest chapter whose reset is meant."""
    entries = list(context.entries)
    for record in records:
        body = record.document()
        context = context._replace(position=record.position)
        if record.kind == RESET and is_meant(record, body):
            lease = body["lease"]["number"] if body["lease"] else 0
            fields = {"start": record.position, "lease": lease, "begun_at": record.at}
            context = context._replace(**fields, system=body["system"], summary="")
            entries = []
        elif record.kind in (MESSAGE, COMPACTED) and body["chapter"] == context.start:
            if record.kind == MESSAGE:
                entries.append((record.position, value_of(Message, body["message"])))
            else:
                context = context._replace(summary=body["summary"])
                entries = [entry for entry in entries if entry[0] >= body["kept_from"]]
    return context._replace(entries=tuple(entries))


if TYPE_CHECKING:
    Summarise = Callable[[list[Message]], str]

OVERHEAD = 4
"""Tokens of a message besides its texts."""
MAX_SUMMARY = 1_000
"""The most tokens of a summary; never more than an eighth of the room."""
KEPT_PERCENT = 60
"""The most that stays after compaction, so that not every message compacts again."""
LINE = 200
"""The most characters of a message in the built-in summary."""

_OPENING = "Summary of what was said earlier and is no longer shown"
_OLDER = "- (older lines are left out)"


class CompactedContext(NamedTuple):
    """What fits: the messages, the number of dropped ones, the summary."""

    messages: tuple[Message, ...]
    dropped: int
    summary: str


class _ContextParts(NamedTuple):
    """The parts of a context: the system message, the latest summary, and the other messages."""

    system: list[Message]
    summary: str
    rest: list[Message]

    def joined(self, summary: str, start: int = 0) -> list[Message]:
        """The context again, with a summary and from some message on."""
        summaries = [Message("system", summary, SUMMARY_BY)] if summary else []
        return [*self.system, *summaries, *self.rest[start:]]


def message_tokens(message: Message, count: Count) -> int:
    """The tokens of a message: its content, its tool calls, and the overhead."""
    calls = _calls_text(message)
    return OVERHEAD + count(message.content) + (count(calls) if calls else 0)


def context_tokens(messages: Sequence[Message], count: Count) -> int:
    """The tokens of several messages."""
    return sum(message_tokens(message, count) for message in messages)


def compact(
    messages: Sequence[Message],
    room: int,
    counter: str | Count | Counter | None = None,
    summary: Summarise | None = None,
    *,
    where: str = "",
) -> CompactedContext:
    """Reduce messages to `room` tokens; what fits is returned unchanged.

    The oldest go first, a tool call together with its results; the system message and the last
    exchange stay, and one summary replaces what went. If that isn't enough, the longest texts are
    cut. `summary` gets the dropped messages, an earlier summary first, and returns a text; "" gives
    the built-in summary. `where` is where the full texts are. Raises InvalidInput if even the cut
    texts don't fit.
    """
    count = counter_of(counter).tokens
    parts = _parts(messages)
    whole = parts.joined(parts.summary)
    if context_tokens(whole, count) <= room:
        return CompactedContext(tuple(whole), 0, parts.summary)
    first, latest = _window(parts, room, count)
    for start in dict.fromkeys((first, latest)):
        text = parts.summary
        if start:
            text = _summary(parts, start, summary, where, Budget(_summary_room(room), count))
        found = _cut_to_fit(parts.joined(text, start), room, count, where)
        if found:
            return CompactedContext(tuple(found), start, text)
    shortest = [_cut(message, 0, where) for message in parts.joined(parts.summary, latest)]
    least = max(context_tokens(shortest, count), room + 1)
    expected = f"about {least:,}, and as much as a summary takes"
    raise InvalidInput(
        "the system message and the last exchange don't fit, even with their texts shortened",
        [Problem("room", "too_small", f"{room:,} tokens", expected)],
        next_step="Give the conversation a larger window, or ask in smaller parts.",
    )


def shortened(text: str, limit: int, where: str) -> str:
    """The first `limit` characters of a text, or fewer, and a mark for the rest.

    A text that the mark wouldn't make shorter stays whole.
    """
    kept = _boundary(text, limit)
    left = f"{len(text) - kept:,} of {len(text):,} characters are left out"
    mark = f"[... {left}; the whole: {where}]" if where else f"[... {left}]"
    head = text[:kept] + "\n" if kept else ""
    return head + mark if len(head) + len(mark) < len(text) else text


def shortened_to(text: str, most: int, counter: str | Count | Counter | None, where: str) -> str:
    """A text cut to some tokens, with a mark; the mark alone may be longer."""
    count = counter_of(counter).tokens
    if count(text) <= most:
        return text
    found = _largest(len(text), lambda limit: count(shortened(text, limit, where)) <= most)
    return shortened(text, max(found, 0), where)


def _boundary(text: str, limit: int) -> int:
    """Where a text can be cut, at `limit` or before, without separating combined characters."""
    if limit >= len(text):
        return len(text)
    joiner = "\u200d"
    while limit > 0 and (
        joiner in text[limit - 1 : limit + 1] or unicodedata.category(text[limit])[0] == "M"
    ):
        limit -= 1
    return max(limit, 0)


def _parts(messages: Sequence[Message]) -> _ContextParts:
    system = [m for m in messages[:1] if m.role == "system" and not _is_summary(m)]
    summaries = [message.content for message in messages if _is_summary(message)]
    rest = [message for message in messages[len(system) :] if not _is_summary(message)]
    return _ContextParts(system, summaries[-1] if summaries else "", rest)


def _is_summary(message: Message) -> bool:
    return message.role == "system" and message.by == SUMMARY_BY


def _unit_starts(messages: Sequence[Message]) -> list[int]:
    """Where a window may begin: not between a tool call and its last result."""
    called: dict[str, int] = {}
    joined: set[int] = set()
    for at, message in enumerate(messages):
        called |= {call.id: at for call in message.tool_calls}
        if message.role == "tool" and message.tool_call_id in called:
            # Ids may be reused; a result belongs to the latest call with its id.
            joined |= set(range(called[message.tool_call_id] + 1, at + 1))
    return [at for at in range(len(messages)) if at not in joined]


def _window(parts: _ContextParts, room: int, count: Count) -> tuple[int, int]:
    """The first message that stays, as early as the goal allows, and where the last exchange
    begins, which is the latest start.
    """
    starts = _unit_starts(parts.rest) or [0]
    asked = [at for at, message in enumerate(parts.rest) if message.role == "user"]
    latest = max(at for at in starts if at <= asked[-1]) if asked else starts[-1]
    left = room - context_tokens(parts.system, count) - _summary_room(room)
    goal, total, first = left * KEPT_PERCENT // 100, 0, len(parts.rest)
    for start in reversed(starts):
        total += context_tokens(parts.rest[start:first], count)
        if start < latest and total > goal:
            break
        first = start
    return first, latest


def _summary_room(room: int) -> int:
    return min(MAX_SUMMARY, room // 8)


def _summary(
    parts: _ContextParts, start: int, summary: Summarise | None, where: str, limit: Budget
) -> str:
    """The summary of the messages before `start`: the caller's text, or else their first lines."""
    opening = f"{_OPENING} (the whole: {where}):" if where else f"{_OPENING}:"
    dropped = parts.rest[:start]
    earlier = [Message("system", parts.summary, SUMMARY_BY)] if parts.summary else []
    text = summary([*earlier, *dropped]).strip() if summary else ""
    if text:
        return shortened_to(f"{opening}\n{text}", limit.limit, limit.tokens, where)
    lines = parts.summary.split("\n")
    before = lines[1:] if lines[0].startswith(_OPENING) else [line for line in lines if line]
    lines = [line for line in before if line != _OLDER] + _lines(dropped)

    def newest(some: Sequence[str]) -> str:
        older = [_OLDER] if _OLDER in before or len(some) < len(lines) else []
        return "\n".join([opening, *older, *reversed(some)])

    # As many of the newest lines as fit.
    return newest(beginning(lines[::-1], lambda some: limit.fits(newest(some)))[0])


def _lines(messages: Sequence[Message]) -> list[str]:
    """One line for each message of a person or agent; tool results are left out."""
    found: list[str] = []
    for message in messages:
        text = " ".join(message.content[: LINE * 4].split())
        if message.role in ("user", "assistant") and text:
            cut = text[: _boundary(text, LINE)] + ("..." if len(text) > LINE else "")
            found.append(f"- {message.by or message.role}: {cut}")
    return found


def _largest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `most` that fits; -1 if 0 doesn't."""
    return bisect_left(range(most + 1), True, key=lambda number: not fits(number)) - 1


def _cut_to_fit(messages: list[Message], room: int, count: Count, where: str) -> list[Message]:
    """The messages with their longest texts cut: the last request and the system message only if
    needed. Empty if that isn't enough.
    """
    if not messages or context_tokens(messages, count) <= room:
        return messages
    asked = [at for at, message in enumerate(messages) if message.role == "user"][-1:]
    system = [0] if messages[0].role == "system" and not _is_summary(messages[0]) else []
    everything = frozenset(range(len(messages)))
    longest = max(len(_calls_text(message)) + len(message.content) for message in messages)
    for cut in (everything - {*asked, *system}, everything):

        def with_limit(limit: int, cut: Collection[int] = cut) -> list[Message]:
            return [_cut(m, limit, where) if at in cut else m for at, m in enumerate(messages)]

        limit = _largest(longest, lambda n: context_tokens(with_limit(n), count) <= room)
        if limit >= 0:
            return with_limit(limit)
    return []


def _calls_text(message: Message) -> str:
    return json.dumps(message.tool_calls, ensure_ascii=False) if message.tool_calls else ""


def _cut(message: Message, limit: int, where: str) -> Message:
    """A message whose content and tool arguments are cut to a limit."""
    calls = list(message.tool_calls)
    for at, call in enumerate(calls):
        text = json.dumps(call.arguments, ensure_ascii=False)
        if (short := shortened(text, limit, where)) != text:
            calls[at] = call._replace(arguments={"cut": short})
    content = shortened(message.content, limit, where)
    return message._replace(content=content, tool_calls=tuple(calls))

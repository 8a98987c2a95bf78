"""A conversation made to fit a number of tokens. Pure: the source is never touched.

What goes first is the oldest, in units: a tool call goes with its results or not at all. The system
message and the last exchange stay. One summary stands for all that went. Where that is not enough,
the longest texts are shortened, each with a mark that says how much and where the whole is.
"""

from __future__ import annotations

import json
import unicodedata
from typing import TYPE_CHECKING, NamedTuple

from passdown.errors import InvalidInput, Problem
from passdown.model.conversation import SUMMARY_BY, Message
from passdown.model.tokens import counter_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from passdown.model.tokens import Count, Counter

    Summarise = Callable[[list[Message]], str]

OVERHEAD = 4
"""What a message costs besides its texts."""
MAX_SUMMARY = 1_000
"""The most tokens of a summary; never more than an eighth of the room."""
KEPT_PERCENT = 60
"""How much of the room is used again at most, so that not every message compacts anew."""
LINE = 200
"""The most characters that a summary made without a model keeps of a message."""

_OPENING = "Summary of what was said earlier and is no longer shown"
_OLDER = "- (older lines are left out)"


class Compacted(NamedTuple):
    """What fits: the messages, how many of those given are no longer among them, the summary."""

    messages: tuple[Message, ...]
    dropped: int
    summary: str


class _Parts(NamedTuple):
    """A context taken apart: the system message, the latest summary, and what was said."""

    system: list[Message]
    summary: str
    rest: list[Message]

    def joined(self, summary: str, start: int = 0) -> list[Message]:
        """The context again, with a summary and from some message on."""
        told = [Message("system", summary, SUMMARY_BY)] if summary else []
        return [*self.system, *told, *self.rest[start:]]


def message_tokens(message: Message, count: Count) -> int:
    """How long a message is for a model: its content, its tool calls, and what frames them."""
    calls = json.dumps(message.tool_calls, ensure_ascii=False) if message.tool_calls else ""
    return OVERHEAD + count(message.content) + (count(calls) if calls else 0)


def context_tokens(messages: Sequence[Message], count: Count) -> int:
    """How long a context is for a model."""
    return sum(message_tokens(message, count) for message in messages)


def compacted(
    messages: Sequence[Message],
    room: int,
    counter: str | Count | Counter | None = None,
    summary: Summarise | None = None,
    *,
    where: str = "",
) -> Compacted:
    """The messages within `room` tokens; what fits already comes back as it is.

    `summary` gets what is left out, an earlier summary first, and gives a text; where it gives
    none, a list of what was said takes its place. `where` is what marks name as the place of the
    whole. Raises InvalidInput when the room is too small for the system message and the last
    exchange, even with all of their texts shortened.
    """
    count = counter_of(counter).tokens
    parts = _parts(messages)
    whole = parts.joined(parts.summary)
    if context_tokens(whole, count) <= room:
        return Compacted(tuple(whole), 0, parts.summary)
    first, latest = _window(parts, room, count)
    for start in dict.fromkeys((first, latest)):
        text = parts.summary
        if start:
            text = _summary(parts, start, summary, where, _Limit(_summary_room(room), count))
        found = _fitted(parts.joined(text, start), room, count, where)
        if found:
            return Compacted(tuple(found), start, text)
    raise _too_small(parts.joined(parts.summary, latest), room, count, where)


def shortened(text: str, limit: int, where: str) -> str:
    """The first `limit` characters of a text, or fewer, and a mark for the rest.

    A text that the mark would make no shorter stays whole.
    """
    kept = _boundary(text, limit)
    left = f"{len(text) - kept:,} of {len(text):,} characters are left out"
    mark = f"[... {left}; the whole: {where}]" if where else f"[... {left}]"
    head = text[:kept] + "\n" if kept else ""
    return head + mark if len(head) + len(mark) < len(text) else text


def shortened_to(text: str, most: int, counter: str | Count | Counter | None, where: str) -> str:
    """A text within some tokens, cut with a mark if need be; the mark alone may be longer."""
    count = counter_of(counter).tokens
    if count(text) <= most:
        return text
    found = _largest(len(text), lambda limit: count(shortened(text, limit, where)) <= most)
    return shortened(text, max(found, 0), where)


def _boundary(text: str, limit: int) -> int:
    """Where a text can be cut, at `limit` or before, without tearing a character from its marks."""
    if limit >= len(text):
        return len(text)
    while limit > 0 and _clings(text, limit):
        limit -= 1
    return max(limit, 0)


def _clings(text: str, at: int) -> bool:
    """Whether the character at a place belongs to the one before it."""
    joiner = "\u200d"
    return text[at] == joiner or text[at - 1] == joiner or unicodedata.category(text[at])[0] == "M"


def _parts(messages: Sequence[Message]) -> _Parts:
    system = [m for m in messages[:1] if m.role == "system" and not _is_summary(m)]
    summaries = [message.content for message in messages if _is_summary(message)]
    rest = [message for message in messages[len(system) :] if not _is_summary(message)]
    return _Parts(system, summaries[-1] if summaries else "", rest)


def _is_summary(message: Message) -> bool:
    return message.role == "system" and message.by == SUMMARY_BY


def _unit_starts(messages: Sequence[Message]) -> list[int]:
    """Where a window may begin: everywhere but between a tool call and the last of its results."""
    called: dict[str, int] = {}
    joined: set[int] = set()
    for at, message in enumerate(messages):
        called |= {call.id: at for call in message.tool_calls}
        if message.role == "tool" and message.tool_call_id in called:
            # An id may be used anew; a result belongs to the latest call that bears it.
            joined |= set(range(called[message.tool_call_id] + 1, at + 1))
    return [at for at in range(len(messages)) if at not in joined]


def _window(parts: _Parts, room: int, count: Count) -> tuple[int, int]:
    """The first message that stays, as early as the goal allows, and where the last exchange
    begins: that is the latest that it may be.
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


class _Limit(NamedTuple):
    """So many tokens, by a counter."""

    most: int
    tokens: Count

    def holds(self, text: str) -> bool:
        """Whether a text has no more of them."""
        return self.tokens(text) <= self.most


def _summary_room(room: int) -> int:
    return min(MAX_SUMMARY, room // 8)


def _summary(
    parts: _Parts, start: int, summary: Summarise | None, where: str, limit: _Limit
) -> str:
    """What stands for the messages before `start`: the caller's text, or else lines of theirs."""
    opening = f"{_OPENING} (the whole: {where}):" if where else f"{_OPENING}:"
    dropped = parts.rest[:start]
    earlier = [Message("system", parts.summary, SUMMARY_BY)] if parts.summary else []
    told = summary([*earlier, *dropped]).strip() if summary else ""
    if told:
        return shortened_to(f"{opening}\n{told}", limit.most, limit.tokens, where)
    lines = parts.summary.split("\n")
    before = lines[1:] if lines[0].startswith(_OPENING) else [line for line in lines if line]
    lines = [line for line in before if line != _OLDER] + _lines(dropped)
    return _newest_lines(opening, lines, _OLDER in before, limit)


def _lines(messages: Sequence[Message]) -> list[str]:
    """One line for each thing that somebody said; what tools gave is left to the whole."""
    found: list[str] = []
    for message in messages:
        text = " ".join(message.content[: LINE * 4].split())
        if message.role in ("user", "assistant") and text:
            cut = text[: _boundary(text, LINE)] + ("..." if len(text) > LINE else "")
            found.append(f"- {message.by or message.role}: {cut}")
    return found


def _newest_lines(opening: str, lines: list[str], is_cut: bool, limit: _Limit) -> str:
    """The opening and as many of the newest lines as there is room for."""

    def text(kept: int) -> str:
        older = [_OLDER] if is_cut or kept < len(lines) else []
        return "\n".join([opening, *older, *lines[len(lines) - kept :]])

    return text(max(_largest(len(lines), lambda kept: limit.holds(text(kept))), 0))


def _largest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `most` that was found to fit; -1 when 0 doesn't."""
    found, low, high = -1, 0, most
    while low <= high:
        middle = (low + high) // 2 if found >= 0 else 0
        if fits(middle):
            found, low = middle, middle + 1
        else:
            high = middle - 1
    return found


def _fitted(messages: list[Message], room: int, count: Count, where: str) -> list[Message]:
    """The same messages with their longest texts cut as far as need be: the request and the system
    message after all others. Nothing where that isn't enough.
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


def _too_small(messages: list[Message], room: int, count: Count, where: str) -> InvalidInput:
    least = context_tokens([_cut(message, 0, where) for message in messages], count)
    expected = f"about {max(least, room + 1):,}, and as much as a summary takes"
    return InvalidInput(
        "the system message and the last exchange don't fit, even with their texts shortened",
        [Problem("room", "too_small", f"{room:,} tokens", expected)],
        next_step="Give the conversation a larger window, or ask in smaller parts.",
    )


def _calls_text(message: Message) -> str:
    return json.dumps(message.tool_calls, ensure_ascii=False) if message.tool_calls else ""


def _cut(message: Message, limit: int, where: str) -> Message:
    """A message whose content, and each tool call's arguments, are cut to a limit."""
    calls = [
        call
        if (text := json.dumps(call.arguments, ensure_ascii=False))
        == (short := shortened(text, limit, where))
        else call._replace(arguments={"cut": short})
        for call in message.tool_calls
    ]
    content = shortened(message.content, limit, where)
    return message._replace(content=content, tool_calls=tuple(calls))

"""What was taken out of an agent's input, within reach: a tool for agents, a text for people."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from agents import FunctionTool, RunContextWrapper, function_tool

from passdown.adapters.openai_agents.counting import counter_in
from passdown.adapters.openai_agents.items import ItemLog
from passdown.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from passdown.adapters.openai_agents.items import Kept
    from passdown.adapters.states.handing import AnyWorkspace
    from passdown.workspace.aliases import CounterLike

TOOL = "read_history"
MODULE = "passdown.adapters.openai_agents"
EXCERPT = 80
_CHARACTERS = 16
_WANTED = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})|@([0-9]{1,9}))?")


class Line(NamedTuple):
    """A line on an item: its number and what is told of it, from some character on."""

    number: int
    text: str
    start: int = 0


def handed_log(workspace: AnyWorkspace, task: str) -> ItemLog:
    """The log of everything that handoffs of a task took out of a model's input."""
    return ItemLog(workspace, f"{task}.handed")


def history_tool(
    workspace: AnyWorkspace,
    session_id: str | Callable[[RunContextWrapper[Any]], str],
    *,
    max_tokens: int = 10_000,
    counter: CounterLike = None,
) -> FunctionTool:
    """A tool `read_history(items)` for agents: items of a session or handed log, by number.

    An answer has at most `max_tokens`, and says how to read on. `session_id` may be a function of
    the run's context.
    """
    count = counter_in(workspace, counter).tokens

    def read(name: str, items: str) -> str:
        try:
            lines = history_lines(ItemLog(workspace, name).all(), items)
        except InvalidInput as error:
            return str(error)
        return fitted(lines, max_tokens, count)

    async def read_history(context: RunContextWrapper[Any], items: str = "") -> str:
        """Read earlier items of the conversation in full.

        Args:
            context: The run's.
            items: Numbers such as 4 or 4-9,12; 4@5000 from a character on; empty for a list.
        """
        name = session_id if isinstance(session_id, str) else session_id(context)
        return await asyncio.to_thread(read, name, items)

    return function_tool(read_history, name_override=TOOL)


def history_lines(kept: Sequence[Kept], items: str) -> list[Line]:
    """The items with these numbers in full, a JSON text each; without numbers a list of all.

    Raises InvalidInput for what is no number or range, and where none has such a number.
    """
    if not items.strip():
        return [Line(each.number, _headline(each.item)) for each in kept]
    wanted = _places(items)
    lines = [
        Line(each.number, each.text[start:], start)
        for each in kept
        for first, last, start in wanted
        if first <= each.number <= last
    ]
    if not lines:
        there = f"{kept[0].number} to {kept[-1].number}" if kept else "none yet"
        raise _unread(items, "no such item", there)
    return lines


def history_text(lines: Iterable[Line]) -> str:
    """Lines as text, each with its number."""
    return "\n".join(_numbered(line) for line in lines)


def fitted(lines: Sequence[Line], budget: int, count: Callable[[str], int]) -> str:
    """As much of the lines as fits a budget of tokens, and how to read on."""
    shown: list[str] = []
    room = budget
    for index, line in enumerate(lines):
        text = _numbered(line)
        # Counting megabytes takes seconds, and a text of so many characters is too long anyway.
        tokens = count(text) if len(text) <= _CHARACTERS * budget else budget + 1
        if tokens > room:
            if not shown:
                return _beginning(line, budget, count)
            rest = ranges_of(each.number for each in lines[index:])
            return "\n".join([*shown, f'Too long for one answer. On with: {TOOL}("{rest}")'])
        shown.append(text)
        room -= tokens
    return "\n".join(shown)


def _beginning(line: Line, budget: int, count: Callable[[str], int]) -> str:
    part = line.text[: 4 * budget]
    while part and count(part) > budget:
        part = part[: len(part) * 3 // 4]
    part = part or line.text[:1]
    end, whole = line.start + len(part), line.start + len(line.text)
    on = f'{end:,} of {whole:,} characters. On with: {TOOL}("{line.number}@{end}")'
    return "\n".join([_numbered(line._replace(text=part)), on])


def _numbered(line: Line) -> str:
    return f"{line.number}{f'@{line.start}' if line.start else ''} {line.text}"


def _places(text: str) -> list[tuple[int, int, int]]:
    """First, last and start of what `4-9,12@500` names. Raises InvalidInput."""
    matches = [_WANTED.fullmatch(part.strip()) for part in text.split(",")]
    found = [(int(m[1]), int(m[2] or m[1]), int(m[3] or 0)) for m in matches if m]
    if len(found) < len(matches):
        raise _unread(text, "can't be read", "numbers such as 4 or 4-9,12")
    return found


def _unread(items: str, message: str, expected: str) -> InvalidInput:
    problem = Problem("items", "invalid_range", f"{items[:60]!r}: {message}", expected)
    return InvalidInput("no items were read", [problem])


def ranges_of(numbers: Iterable[int], most: int = 4) -> str:
    """Numbers as text, `1-5,9`; with more than `most` pieces, the range that holds them all."""
    ordered = sorted(set(numbers))
    pieces: list[list[int]] = []
    for number in ordered:
        if pieces and pieces[-1][1] == number - 1:
            pieces[-1][1] = number
        else:
            pieces.append([number, number])
    if len(pieces) > most:
        pieces = [[ordered[0], ordered[-1]]]
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in pieces)


def _headline(item: dict[str, Any]) -> str:
    kind = str(item.get("type") or item.get("role") or "item")
    name = str(item.get("name") or item.get("call_id") or "")
    told = item.get("output") or item.get("content") or item.get("arguments") or ""
    text = " ".join(str(told).split())
    return " ".join(filter(None, [kind, name, text[:EXCERPT]]))

"""What framework adapters share: a brief within a token budget, reading history by number."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from passdown.adapters.states import workspace_of
from passdown.core.tokens import counter_of
from passdown.errors import InvalidInput, Problem
from passdown.workspace.streams import WorkspaceStreams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from passdown.adapters.states import AnyWorkspace
    from passdown.core.tokens import Counter
    from passdown.workspace import Workspace
    from passdown.workspace.types import CounterLike


HISTORY_TOOL = "read_history"
MAX_HISTORY_TOKENS = 10_000
MAX_CHARS_PER_TOKEN = 16
"""More than these for each token are taken for too long, uncounted."""
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})|@([0-9]{1,9}))?")


class HistoryLine(NamedTuple):
    """A line of a history: its number and its text, from some character on."""

    number: int
    text: str
    start: int = 0


def select_lines(lines: Sequence[HistoryLine], items: str) -> list[HistoryLine]:
    """The lines that `4-9,12` or `4@5000` names.

    Raises InvalidInput for what is no number or range, and where none has such a number.
    """
    wanted = _parse_ranges(items)
    found = [
        HistoryLine(line.number, line.text[start:], start)
        for line in lines
        for first, last, start in wanted
        if first <= line.number <= last
    ]
    if not found:
        there = f"{lines[0].number} to {lines[-1].number}" if lines else "none yet"
        raise _range_error(items, "no such item", there)
    return found


def lines_text(lines: Iterable[HistoryLine]) -> str:
    """Lines as text, each with its number."""
    return "\n".join(_numbered(line) for line in lines)


def fit_lines(lines: Sequence[HistoryLine], budget: int, count: Callable[[str], int]) -> str:
    """As much of the lines as fits a budget of tokens, and how to read on."""
    shown: list[str] = []
    room = budget
    for index, line in enumerate(lines):
        text = _numbered(line)
        # Counting megabytes takes seconds, and a text of so many characters is too long anyway.
        tokens = count(text) if len(text) <= MAX_CHARS_PER_TOKEN * budget else budget + 1
        if tokens > room:
            if not shown:
                return _first_part(line, budget, count)
            rest = format_ranges(each.number for each in lines[index:])
            return "\n".join(
                [*shown, f'Too long for one answer. On with: {HISTORY_TOOL}("{rest}")']
            )
        shown.append(text)
        room -= tokens
    return "\n".join(shown)


def _first_part(line: HistoryLine, budget: int, count: Callable[[str], int]) -> str:
    part = line.text[: 4 * budget]
    while part and count(part) > budget:
        part = part[: len(part) * 3 // 4]
    part = part or line.text[:1]
    end, whole = line.start + len(part), line.start + len(line.text)
    on = f'{end:,} of {whole:,} characters. On with: {HISTORY_TOOL}("{line.number}@{end}")'
    return "\n".join([_numbered(line._replace(text=part)), on])


def _numbered(line: HistoryLine) -> str:
    return f"{line.number}{f'@{line.start}' if line.start else ''} {line.text}"


def _parse_ranges(text: str) -> list[tuple[int, int, int]]:
    """First, last and start of what `4-9,12@500` names. Raises InvalidInput."""
    matches = [_RANGE.fullmatch(part.strip()) for part in text.split(",")]
    found = [(int(m[1]), int(m[2] or m[1]), int(m[3] or 0)) for m in matches if m]
    if len(found) < len(matches):
        raise _range_error(text, "can't be read", "numbers such as 4 or 4-9,12")
    return found


def _range_error(items: str, message: str, expected: str) -> InvalidInput:
    problem = Problem("items", "invalid_range", f"{items[:60]!r}: {message}", expected)
    return InvalidInput("no items were read", [problem])


def format_ranges(numbers: Iterable[int], most: int = 4) -> str:
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


class BriefSettings(NamedTuple):
    """Who is given a brief, from where, and how long it may be."""

    workspace: Workspace
    agent: str
    budget: int
    counter: CounterLike


def brief_settings(
    workspace: AnyWorkspace, agent: str, budget: object, counter: CounterLike
) -> BriefSettings:
    """A reader whose briefs can be made. Raises InvalidInput: a handoff that is recorded and then
    can't be told would leave its receiver with nothing.
    """
    if not isinstance(budget, int) or isinstance(budget, bool) or budget < 1:
        given, expected = f"{str(budget)[:40]!r} given", "a whole number of tokens, 1 or more"
        problem = Problem("budget", "out_of_range", given, expected)
        raise InvalidInput("the brief can't be given", [problem])
    opened = workspace_of(workspace)
    workspace_counter(opened, counter)
    return BriefSettings(opened, agent, budget, counter)


def workspace_counter(workspace: AnyWorkspace, given: CounterLike) -> Counter:
    """The counter that is given, else that of the workspace's settings. Raises InvalidInput."""
    return counter_of(given, WorkspaceStreams(workspace_of(workspace)).opened.settings.counter)


def user_message_tokens(reader: BriefSettings, words: Sequence[str]) -> int | None:
    """Tokens of what a person said last; None where that takes more than half of the budget."""
    most = reader.budget // 2
    # Counting megabytes takes seconds, and a text of so many characters is too long anyway.
    if sum(map(len, words)) > MAX_CHARS_PER_TOKEN * most:
        return None
    spent = sum(map(workspace_counter(reader.workspace, reader.counter).tokens, words))
    return spent if spent <= most else None


def brief_text(reader: BriefSettings, task: str, kept: str) -> str:
    """The brief with a line on what else is kept, together within the budget."""
    workspace, agent, budget, counter = reader
    count = workspace_counter(workspace, counter).tokens
    room = budget - (count(f"\n{kept}\n") if kept else 0)
    if room < 1:
        kept, room = "", budget

    def text_of(*, record: bool) -> str:
        told = workspace.brief(task, agent=agent, budget=room, counter=counter, record=record)
        return f"{told.text.rstrip()}\n{kept}".rstrip() + "\n"

    # Tokens of two texts need not sum up to those of both, and only what is given is recorded.
    while count(text_of(record=False)) > budget and room > 1:
        room -= 1
    return text_of(record=True)

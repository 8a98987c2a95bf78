"""What framework adapters share: a brief within a token budget, reading history by number."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, ParamSpec, TypeVar, cast

from passdown.core.handoff_templates import tool_schema
from passdown.core.settings import Settings
from passdown.core.tokens import counter_of
from passdown.errors import InvalidInput, Problem
from passdown.workspace import Workspace
from passdown.workspace.streams import WorkspaceStreams

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence
    from types import CoroutineType

    from passdown.aio import AsyncWorkspace
    from passdown.core.tokens import Counter, CounterLike
    from passdown.core.types import JsonObject
    from passdown.remote import RemoteWorkspace

    AnyWorkspace = Workspace | AsyncWorkspace

K = TypeVar("K")
P = ParamSpec("P")
T = TypeVar("T")

HISTORY_TOOL = "read_history"
MAX_HISTORY_TOKENS = 10_000
MAX_CHARS_PER_TOKEN = 16
"""More than these for each token are taken for too long, uncounted."""
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})|@([0-9]{1,9}))?")


_stored: ContextVar[list[str] | None] = ContextVar("passdown_stored_keys", default=None)


@contextmanager
def stored_keys(keys: list[str]) -> Generator[None]:
    """Collect the keys of memories that are stored inside, in this task and in what it starts."""
    token = _stored.set(keys)
    try:
        yield
    finally:
        _stored.reset(token)


def note_stored(key: str) -> None:
    """Note that a memory was stored, for the turn that it was stored in."""
    keys = _stored.get()
    if keys is not None:
        keys.append(key)


class LruCache(Generic[K, T]):
    """The values that were used last, up to a number."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: OrderedDict[K, T] = OrderedDict()

    def get(self, key: K, make: Callable[[], T] | None = None) -> T | None:
        """The value of a key, if it is still here; else what `make` gives, which is kept."""
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        return self.put(key, make()) if make else None

    def put(self, key: K, value: T) -> T:
        """Keep a value, and drop the least recently used one."""
        self._kept[key] = value
        self._kept.move_to_end(key)
        if len(self._kept) > self._limit:
            self._kept.popitem(last=False)
        return value


def last_in_a_row(items: Sequence[T], is_wanted: Callable[[T], bool]) -> list[T]:
    """The last items that are wanted, back to the first before them that isn't."""
    last = len(items)
    while last and not is_wanted(items[last - 1]):
        last -= 1
    first = last
    while first and is_wanted(items[first - 1]):
        first -= 1
    return list(items[first:last])


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


def fit_lines(lines: Sequence[HistoryLine], budget: int, count: Callable[[str], int]) -> str:
    """As much of the lines as fits a budget of tokens, and how to read on."""
    shown: list[str] = []
    room = budget
    for index, line in enumerate(lines):
        text = numbered_line(line)
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
    return "\n".join([numbered_line(line._replace(text=part)), on])


def numbered_line(line: HistoryLine) -> str:
    """A line as text, with its number."""
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


_HANDOFF_PARTS: dict[str, tuple[str, ...]] = {
    "outcome": (),
    "summary": (),
    "decisions": ("summary", "rationale", "alternatives"),
    "suggested_next_steps": ("step", "priority"),
    "blockers": ("blocker", "suggested_resolution", "blocking_tasks", "requires_human"),
    "artifacts": ("path", "change", "note"),
    "open_questions": ("question", "blocking"),
    "resolves": (),
}
_SHORT_NAMES = {
    "suggested_next_steps": "next_steps",
    "artifacts": "files",
    "open_questions": "questions",
}
_SET_BY_PROGRAM = frozenset(
    "task task_id from_agent from agent to_agent to phase metadata expect_version".split()
)


def handoff_schema() -> JsonObject:
    """The JSON Schema of what a model fills in to hand off."""
    return tool_schema(_HANDOFF_PARTS, required=("outcome", "summary"), renamed=_SHORT_NAMES)


def handoff_of(arguments: JsonObject, **fields: str) -> JsonObject:
    """A handoff from a model's arguments and the fields that the program sets."""
    given = {name: value for name, value in arguments.items() if name not in _SET_BY_PROGRAM}
    return {**given, **fields}


def handoff_problems(arguments: JsonObject, found: Iterable[Problem]) -> list[Problem]:
    """What a model has to fix: errors, fields that would be lost, an empty summary."""
    lost = [
        Problem(name, "unknown_field", "can't be set here", "", "leave it out")
        for name in arguments
        if name in _SET_BY_PROGRAM
    ]
    unknown = [
        each if each.fix else each._replace(fix="leave it out")
        for each in found
        if each.code == "unknown_field"
    ]
    errors = [each for each in found if each.level == "error"]
    summary = arguments.get("summary") or ""
    if isinstance(summary, str) and not summary.strip():
        lost.append(Problem("summary", "required", "is missing", "the state of the work"))
    return list(dict.fromkeys([*lost, *errors, *unknown]))


def refusal_text(problems: Iterable[Problem]) -> str:
    """The answer to a model whose handoff has problems."""
    lines = [f"- {problem.line()}" for problem in problems]
    head = "No handoff was made; nothing was recorded. Fix these, then call the tool again:"
    return "\n".join([head, *lines])


class BriefSettings(NamedTuple):
    """Whose brief is made, from which workspace, and how long it may be."""

    workspace: Workspace
    agent: str
    budget: int
    counter: CounterLike

    def beside(self, words: Sequence[str]) -> BriefSettings | None:
        """The settings for a brief beside a user's last messages, which are taken off the budget;
        None if they take more than half of it.
        """
        most = self.budget // 2
        # Counting megabytes takes seconds, and a text of so many characters is too long anyway.
        if sum(map(len, words)) > MAX_CHARS_PER_TOKEN * most:
            return None
        spent = sum(map(workspace_counter(self.workspace, self.counter).tokens, words))
        return self._replace(budget=self.budget - spent) if spent <= most else None

    def text(self, task: str, hint: str) -> str:
        """The brief with a line on what else can be read, together within the budget."""
        count = workspace_counter(self.workspace, self.counter).tokens
        room = self.budget - (count(f"\n{hint}\n") if hint else 0)
        if room < 1:
            hint, room = "", self.budget
        brief = partial(self.workspace.brief, task, agent=self.agent, counter=self.counter)

        def text_of(*, record: bool) -> str:
            text = brief(budget=room, record=record).text.rstrip()
            return f"{text}\n{hint}".rstrip() + "\n"

        # Tokens of two texts need not sum up to those of both, and only what is given is recorded.
        while count(text_of(record=False)) > self.budget and room > 1:
            room -= 1
        return text_of(record=True)


def brief_settings(
    workspace: AnyWorkspace, agent: str, budget: object, counter: CounterLike
) -> BriefSettings:
    """Checked settings. Raises InvalidInput.

    Checked early, because a recorded handoff without a brief leaves its receiver with nothing.
    """
    found = workspace_of(workspace)
    if not isinstance(budget, int) or isinstance(budget, bool) or budget < 1:
        expected = "a whole number of tokens, 1 or more"
        problem = Problem("budget", "out_of_range", f"{str(budget)[:40]!r} given", expected)
        raise InvalidInput("the brief can't be made", [problem])
    workspace_counter(found, counter)
    return BriefSettings(found, agent, budget, counter)


def workspace_counter(workspace: AnyWorkspace, given: CounterLike) -> Counter:
    """The given counter, or the workspace's. Raises InvalidInput."""
    return counter_of(given, workspace_settings(workspace_of(workspace)).counter)


def workspace_settings(workspace: Workspace) -> Settings:
    """The settings of a workspace; the defaults if it is behind a server."""
    streams = WorkspaceStreams(workspace)
    return streams.context.settings if streams.is_local else Settings()


def workspace_of(workspace: AnyWorkspace) -> Workspace:
    """The workspace, also of an async one. Raises InvalidInput for anything else."""
    found: object = getattr(workspace, "_workspace", workspace)
    if isinstance(found, Workspace):
        return found
    given, expected = f"{type(workspace).__name__} given", "an open workspace"
    problem = Problem("workspace", "wrong_type", given, expected, "open one with passdown.open")
    raise InvalidInput("nothing can be recorded there", [problem])


def local_workspace(workspace: AnyWorkspace, adapter: str) -> Workspace:
    """The workspace, for an adapter that keeps records of its own in it.

    A server doesn't take those: raises PassdownError that names the adapter.
    """
    found = workspace_of(workspace)
    if not WorkspaceStreams(found).is_local:
        raise cast("RemoteWorkspace", found).unsupported(adapter)
    return found


def async_twin(method: Callable[P, T]) -> Callable[P, CoroutineType[Any, Any, T]]:
    """A method's async form: the method, run in a thread."""
    name = method.__name__

    @wraps(method)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        # Looked up on the object: a subclass may have its own.
        return await asyncio.to_thread(getattr(args[0], name), *args[1:], **kwargs)

    run.__name__ = run.__qualname__ = f"a{name}"
    return run

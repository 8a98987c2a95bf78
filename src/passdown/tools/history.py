"""Histories: what models were given, kept whole by number, and read back within a budget.

An item is stored as its JSON text, so it comes back with the same bytes. Nothing is removed: that
an item no longer counts is a record of its own. Secrets of known shapes are redacted first.
"""

from __future__ import annotations

import json
import re
import threading
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.core.record import digest_bytes
from passdown.core.redaction import redact, redact_value
from passdown.core.text import has_lone_surrogate
from passdown.errors import Conflict, InvalidInput, Problem, raise_problems
from passdown.tools.briefs import MAX_CHARS_PER_TOKEN, recording_workspace, workspace_of
from passdown.workspace.streams import StreamEntry, WorkspaceStreams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from passdown.core.record import Record
    from passdown.tools.briefs import AnyWorkspace, BriefSettings

HISTORY_TOOL = "read_history"
EXCERPT = 80
MAX_HISTORY_TOKENS = 10_000
ID = re.compile(r"[A-Za-z][\w.-]*[0-9](?:#[a-z][0-9]+)?$|node:")
"""What a model asks for is the id of a record, not numbers."""
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})|@([0-9]{1,9}))?")


class HistoryLine(NamedTuple):
    """A line of a history: its number and its text, from some character on."""

    number: int
    text: str
    start: int = 0


def select_lines(lines: Sequence[HistoryLine], items: str) -> list[HistoryLine]:
    """The lines that `4-9,12` or `4@5000` names, in full; without numbers a headline for each.

    Raises InvalidInput for what is no number or range, and where none has such a number.
    """
    if not items.strip():
        return [line._replace(text=headline(line.text)) for line in lines]
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


def items_asked(items: object) -> str:
    """The items that a model asked for: 5 or [5, 6] are meant well too."""
    asked = cast("list[object]", items) if isinstance(items, list) else [items or ""]
    return ",".join(str(each) for each in asked).strip()


def history_hint(last: int, own: str = "") -> str:
    """How an agent gets at the items of a history, of which it isn't shown any: by its tool.
    `own` are the numbers of what the sender had before it.
    """
    if not last:
        return ""
    whole = f"1-{last}" if last > 1 else "1"
    newest = f" ({own} the last agent's)" if own and own != whole else ""
    return f'Every message and tool result: {HISTORY_TOOL}("{whole}"){newest}'


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


ItemData = dict[str, Any]

STREAM = "agents-sdk/session/"
ADDED, HIDDEN, CLEARED = "item", "item_hidden", "items_cleared"
MAX_RECORD_CHARS = 1_000_000
"""Characters in one record: at four bytes each still within what a record may hold."""
MAX_SESSION_ID = 200


class TranscriptItem(NamedTuple):
    """An item of a session: its number, its JSON text, and whether `get_items` still gives it."""

    number: int
    text: str
    counts: bool = True

    @property
    def item(self) -> ItemData:
        """The item as plain data, new with each call."""
        return json.loads(self.text)


class ItemLog:
    """The items of one session; threads may share it, processes may write at the same time."""

    def __init__(self, workspace: AnyWorkspace, session_id: str) -> None:
        """Raises InvalidInput for an id that is empty, too long or no plain text."""
        raise_problems("there can be no such session", session_id_problems(session_id))
        self.session_id = session_id
        self._streams = WorkspaceStreams(recording_workspace(workspace, "LedgerSession"))
        self._stream = STREAM + session_id
        self._reading = threading.Lock()
        self._position = 0
        self._kept: list[TranscriptItem] = []
        self._parts: list[str] = []

    def add(self, items: Sequence[ItemData], keys: Sequence[str] = ()) -> list[int]:
        """Keep items, all or none, and give their numbers; one with a known key has its first."""
        entries: list[StreamEntry] = []
        firsts: list[int] = []
        for index, item in enumerate(items):
            firsts.append(len(entries))
            for part, body in enumerate(record_bodies(item, f"items[{index}]")):
                key = f"{keys[index]}/{part}" if keys and keys[index] else ""
                entries.append(self._entry(ADDED, body, key))
        records = self._streams.add(*entries) if entries else []
        return [records[first].position for first in firsts]

    def keep(self, items: Sequence[ItemData]) -> list[int]:
        """Keep items and give their numbers; what was kept before has the number it had."""
        return self.add(items, _item_keys(items))

    def _entry(
        self, kind: str, body: ItemData, key: str = "", at: int | None = None
    ) -> StreamEntry:
        return StreamEntry(self._stream, kind, "agents-sdk", body, key, expect=at)

    def all(self) -> list[TranscriptItem]:
        """Every item that was ever added, oldest first."""
        with self._reading:
            self._catch_up()
            return list(self._kept)

    def items(self) -> list[ItemData]:
        """The items that count, oldest first."""
        return [each.item for each in self.all() if each.counts]

    def last_number(self) -> int:
        """The number that comes last in the log; 0 while it is empty."""
        return self._streams.position(self._stream)

    def changed_at(self) -> str:
        """When something was recorded last; empty for an empty log."""
        last = self._streams.last(self._stream)
        return last.at if last else ""

    def hide_last(self) -> TranscriptItem | None:
        """Take the newest item that counts out of the view; None where there is none."""
        while True:
            with self._reading:
                self._catch_up()
                position = self._position
                last = next((kept for kept in reversed(self._kept) if kept.counts), None)
            if last is None:
                return None
            try:
                self._streams.add(self._entry(HIDDEN, {"hides": last.number}, at=position))
            except Conflict:
                continue  # somebody else wrote in between: what is newest may have changed
            return last

    def hide_all(self) -> None:
        """Take everything there is now out of the view."""
        self._streams.add(self._entry(CLEARED, {}))

    def _catch_up(self) -> None:
        for record in self._streams.records(self._stream, self._position):
            self._apply(record)
            self._position = record.position

    def _apply(self, record: Record) -> None:
        body = record.document()
        if record.kind == CLEARED:
            self._kept = [kept._replace(counts=False) for kept in self._kept]
        elif record.kind == HIDDEN:
            places = range(len(self._kept) - 1, -1, -1)  # what is taken back is among the newest
            place = next((p for p in places if self._kept[p].number == body["hides"]), None)
            if place is not None:
                self._kept[place] = self._kept[place]._replace(counts=False)
        elif record.kind == ADDED:
            self._parts.append(_part_text(body))
            if len(self._parts) == body.get("of", 1):
                number = record.position - len(self._parts) + 1
                self._kept.append(TranscriptItem(number, "".join(self._parts)))
                self._parts = []


def _item_keys(items: Iterable[dict[str, Any]]) -> list[str]:
    """A key for each item by its content, so that what was kept before isn't kept twice."""
    times: dict[str, int] = {}
    keys: list[str] = []
    for item in items:
        digest = digest_bytes(json.dumps(item).encode())
        times[digest] = times.get(digest, 0) + 1
        keys.append(f"{digest}-{times[digest]}")
    return keys


def session_id_problems(value: object) -> list[Problem]:
    """What is wrong with a session's id."""
    expected = f"a text of 1 to {MAX_SESSION_ID} printable characters"
    if not isinstance(value, str):
        return [Problem("session_id", "wrong_type", f"{type(value).__name__} given", expected)]
    size = len(value)
    checks = [
        ("out_of_range", not 0 < size <= MAX_SESSION_ID, f"has {size:,} characters"),
        ("invalid_id", not value.isprintable(), "has control characters"),
        ("secret", bool(redact(value)[1]), "looks like a secret"),
    ]
    return [Problem("session_id", code, text, expected) for code, is_so, text in checks if is_so]


def record_bodies(item: ItemData, where: str) -> list[dict[str, Any]]:
    """The bodies of the records that keep an item; more than one for a very long item."""
    try:
        json.dumps(item)
    except (TypeError, ValueError, RecursionError) as error:
        problem = Problem(where, "wrong_type", str(error)[:200], "plain JSON data")
        raise InvalidInput("nothing was added to the session", [problem]) from None
    clean = redact_value(item)[0]
    text = _text(clean)
    if redact(text)[1]:
        # Only the quotes of JSON make it look like a secret: kept as data, equal but for order.
        return [{"value": clean}]
    if len(text) <= MAX_RECORD_CHARS:
        return [{"text": text}]
    starts = range(0, len(text), MAX_RECORD_CHARS)
    parts = [text[start : start + MAX_RECORD_CHARS] for start in starts]
    return [{"text": part, "part": index, "of": len(parts)} for index, part in enumerate(parts)]


def item_of(bodies: Iterable[dict[str, Any]]) -> ItemData:
    """The item that the bodies of its records hold."""
    return json.loads("".join(map(_part_text, bodies)))


def _part_text(body: dict[str, Any]) -> str:
    return body["text"] if "text" in body else _text(body["value"])


def _text(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return json.dumps(value, separators=(",", ":")) if has_lone_surrogate(text) else text


def handed_log(workspace: AnyWorkspace, task: str) -> ItemLog:
    """The log of everything that handoffs of a task took out of a model's input."""
    return ItemLog(workspace, f"{task}.handed")


def brief_with_hint(settings: BriefSettings, task: str) -> str:
    """The brief of a task with a line on how to read its handed log."""
    return settings.text(task, history_hint(handed_log(settings.workspace, task).last_number()))


def item_logs(workspace: AnyWorkspace, prefix: str) -> list[ItemLog]:
    """The logs of all sessions whose id starts so, by id."""
    heads = WorkspaceStreams(workspace_of(workspace)).streams(STREAM + prefix)
    return [ItemLog(workspace, head.stream.removeprefix(STREAM)) for head in heads]


def history_lines(log: ItemLog) -> list[HistoryLine]:
    """The items of a log in full, a JSON text each."""
    return [HistoryLine(each.number, each.text) for each in log.all()]


def headline(text: str) -> str:
    """An item's kind, name and first words; of a line that is no JSON, its first words."""
    if not text.startswith("{"):
        return " ".join(text.split())[:EXCERPT]
    item: ItemData = json.loads(text)
    kind = str(item.get("type") or item.get("role") or "item")
    name = str(item.get("name") or item.get("call_id") or "")
    content = item.get("output") or item.get("content") or item.get("arguments") or ""
    words = " ".join(str(content).split())
    return " ".join(filter(None, [kind, name, words[:EXCERPT]]))

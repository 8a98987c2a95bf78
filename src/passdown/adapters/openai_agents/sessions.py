"""Sessions of the SDK in the ledger: conversation items, kept whole, and a tool to read them.

An item is stored as its JSON text, so it comes back with the same bytes. Nothing is removed: that
an item no longer counts is a record of its own. Secrets of known shapes are redacted first.
"""

from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from agents import FunctionTool, RunContextWrapper, function_tool

from passdown.adapters.tools import (
    HISTORY_TOOL,
    MAX_HISTORY_TOKENS,
    HistoryLine,
    fit_lines,
    local_workspace,
    select_lines,
    workspace_counter,
)
from passdown.core.arguments import number_problems
from passdown.core.redaction import redact, redact_value
from passdown.core.text import has_lone_surrogate
from passdown.errors import Conflict, InvalidInput, Problem, raise_problems
from passdown.workspace.streams import StreamEntry, WorkspaceStreams

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agents import TResponseInputItem
    from agents.memory import SessionSettings

    from passdown.adapters.tools import AnyWorkspace
    from passdown.core.record import Record
    from passdown.core.tokens import CounterLike


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
        problems = session_id_problems(session_id)
        raise_problems("there can be no such session", problems)
        self.session_id = session_id
        self._streams = WorkspaceStreams(local_workspace(workspace, "LedgerSession"))
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
            for part, body in enumerate(_bodies(item, f"items[{index}]")):
                key = f"{keys[index]}/{part}" if keys else ""
                entries.append(self._entry(ADDED, body, key))
        records = self._streams.add(*entries) if entries else []
        return [records[first].position for first in firsts]

    def _entry(
        self, kind: str, body: ItemData, key: str = "", at: int | None = None
    ) -> StreamEntry:
        return StreamEntry(self._stream, kind, "agents-sdk", body, key, expect=at)

    def all(self) -> list[TranscriptItem]:
        """Every item that was ever added, oldest first."""
        with self._reading:
            self._catch_up()
            return list(self._kept)

    def last_number(self) -> int:
        """The number that comes last in the log; 0 while it is empty."""
        return self._streams.position(self._stream)

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
            self._parts.append(body["text"] if "text" in body else _text(body["value"]))
            if len(self._parts) == body.get("of", 1):
                number = record.position - len(self._parts) + 1
                self._kept.append(TranscriptItem(number, "".join(self._parts)))
                self._parts = []


def session_id_problems(value: object) -> list[Problem]:
    """What is wrong with a session's id."""
    code, message = "", ""
    if not isinstance(value, str):
        code, message = "wrong_type", f"{type(value).__name__} given"
    elif not 0 < len(value) <= MAX_SESSION_ID:
        code, message = "out_of_range", f"has {len(value):,} characters"
    elif not value.isprintable():
        code, message = "invalid_id", "has control characters"
    elif redact(value)[1]:
        code, message = "secret", "looks like a secret"
    expected = f"a text of 1 to {MAX_SESSION_ID} printable characters"
    return [Problem("session_id", code, message, expected)] if code else []


def _bodies(item: ItemData, where: str) -> list[dict[str, Any]]:
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
    parts = [
        text[start : start + MAX_RECORD_CHARS] for start in range(0, len(text), MAX_RECORD_CHARS)
    ]
    return [{"text": part, "part": index, "of": len(parts)} for index, part in enumerate(parts)]


def _text(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return json.dumps(value, separators=(",", ":")) if has_lone_surrogate(text) else text


class LedgerSession:
    """A `Session` of the SDK over a workspace. Tasks, threads and processes may share a session.

    With `max_tokens`, `get_items()` gives the newest items that fit: an item whole or not at all,
    no output without its call, nothing without the reasoning before it. Everything else stays in
    `transcript`. Items come back byte for byte, except that secrets of known shapes are removed.
    """

    session_id: str
    session_settings: SessionSettings | None

    def __init__(
        self,
        session_id: str,
        workspace: AnyWorkspace,
        *,
        max_tokens: int | None = None,
        counter: CounterLike = None,
        session_settings: SessionSettings | None = None,
    ) -> None:
        """Raises InvalidInput for a bad id or number, and for two limits at once: the SDK asks
        for exactly as many items as its own limit says.
        """
        self._log = ItemLog(workspace, session_id)
        self._max_tokens = max_tokens
        self._counter = workspace_counter(workspace, counter)
        self.session_id = session_id
        self.session_settings = session_settings
        problems = number_problems(max_tokens, "max_tokens", 0) if max_tokens is not None else []
        if max_tokens is not None and session_settings and session_settings.limit is not None:
            message = "max_tokens and a limit of items are both given"
            problems.append(Problem("session_settings", "invalid_choice", message, "one of them"))
        raise_problems("there can be no such session", problems)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The items in the order in which they came.

        `limit`: exactly the newest so many, as the SDK counts on when it takes a failed turn back.
        """
        kept = [each for each in await asyncio.to_thread(self._log.all) if each.counts]
        settings = self.session_settings
        limit = settings.limit if limit is None and settings else limit
        if limit is not None:
            kept = kept[-limit:] if limit > 0 else []
        elif self._max_tokens is not None:
            kept = self._fitting(kept, self._max_tokens)
        return [cast("TResponseInputItem", each.item) for each in kept]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items, all or none; they are on disk when this returns. Raises InvalidInput."""
        await asyncio.to_thread(self._log.add, cast("list[ItemData]", items))

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the newest item out of the view and give it; it stays in the transcript."""
        last = await asyncio.to_thread(self._log.hide_last)
        return cast("TResponseInputItem", last.item) if last else None

    async def clear_session(self) -> None:
        """Take all items out of the view; they stay in the transcript."""
        await asyncio.to_thread(self._log.hide_all)

    def transcript(self) -> list[TranscriptItem]:
        """Every item that was ever added, oldest first, also those taken back or cleared."""
        return self._log.all()

    def _fitting(self, kept: Sequence[TranscriptItem], budget: int) -> list[TranscriptItem]:
        spent = 0
        start = len(kept)
        for index in range(len(kept) - 1, -1, -1):
            spent += self._counter.tokens(kept[index].text)
            if spent > budget:
                break
            start = index
        return list(kept[first_complete([each.item for each in kept], start) :])


def first_complete(items: Sequence[ItemData], start: int) -> int:
    """The first place from `start` on where a history may begin.

    From there on every output has its call, and every item the reasoning before it.
    """
    needs = _needed_items(items)
    earliest = best = len(items)
    for index in range(len(items) - 1, start - 1, -1):
        earliest = min(earliest, needs[index])
        if earliest >= index:
            best = index
    return best


def _needed_items(items: Sequence[ItemData]) -> list[int]:
    """For each item the earliest one that it can't be without; itself, if there is none."""
    called_at: dict[str, int] = {}
    needs: list[int] = []
    for index, item in enumerate(items):
        need = index
        if str(item.get("type")).endswith(("_output", "_approval_response")):
            call = item.get("call_id") or item.get("approval_request_id") or item.get("id")
            need = called_at.get(str(call), index)
        else:
            called_at |= {str(item[name]): index for name in ("call_id", "id") if item.get(name)}
        if index and items[index - 1].get("type") == "reasoning":
            need = min(need, index - 1)
        needs.append(need)
    return needs


MODULE = "passdown.adapters.openai_agents"
EXCERPT = 80


def handed_log(workspace: AnyWorkspace, task: str) -> ItemLog:
    """The log of everything that handoffs of a task took out of a model's input."""
    return ItemLog(workspace, f"{task}.handed")


def history_tool(
    workspace: AnyWorkspace,
    session_id: str | Callable[[RunContextWrapper[Any]], str],
    *,
    max_tokens: int = MAX_HISTORY_TOKENS,
    counter: CounterLike = None,
) -> FunctionTool:
    """A tool `read_history(items)` for agents: items of a session or handed log, by number.

    An answer has at most `max_tokens`, and says how to read on. `session_id` may be a function of
    the run's context.
    """
    count = workspace_counter(workspace, counter).tokens

    def read(name: str, items: str) -> str:
        try:
            lines = history_lines(ItemLog(workspace, name), items)
        except InvalidInput as error:
            return str(error)
        return fit_lines(lines, max_tokens, count)

    async def read_history(context: RunContextWrapper[Any], items: str = "") -> str:
        """Read earlier items of the conversation in full.

        Args:
            context: The run's.
            items: Numbers such as 4 or 4-9,12; 4@5000 from a character on; empty for a list.
        """
        name = session_id if isinstance(session_id, str) else session_id(context)
        return await asyncio.to_thread(read, name, items)

    return function_tool(read_history, name_override=HISTORY_TOOL)


def history_lines(log: ItemLog, items: str) -> list[HistoryLine]:
    """The items with these numbers in full, a JSON text each; without numbers a list of all.

    Raises InvalidInput for what is no number or range, and where none has such a number.
    """
    kept = log.all()
    if not items.strip():
        return [HistoryLine(each.number, _headline(each.item)) for each in kept]
    return select_lines([HistoryLine(each.number, each.text) for each in kept], items)


def _headline(item: dict[str, Any]) -> str:
    kind = str(item.get("type") or item.get("role") or "item")
    name = str(item.get("name") or item.get("call_id") or "")
    content = item.get("output") or item.get("content") or item.get("arguments") or ""
    text = " ".join(str(content).split())
    return " ".join(filter(None, [kind, name, text[:EXCERPT]]))

"""Items of conversations in the ledger: one record each, in the order in which they came.

An item is stored as the JSON text that it is, so it comes back with the same bytes. Nothing is
taken away: that an item no longer counts is a record of its own. Secrets of known shapes are
removed first, as everywhere.
"""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.adapters.states.handing import workspace_of
from passdown.errors import Conflict, InvalidInput, Problem
from passdown.model.redaction import redact, redact_value
from passdown.model.text import has_lone_surrogate
from passdown.workspace.beside import Aside, Beside

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.adapters.states.handing import AnyWorkspace
    from passdown.model.record import Record

Item = dict[str, Any]

STREAM = "agents-sdk/session/"
ADDED, HIDDEN, CLEARED = "item", "item_hidden", "items_cleared"
CHUNK = 1_000_000
"""Characters in one record: at four bytes each still within what a record may hold."""
MAX_SESSION_ID = 200


class Kept(NamedTuple):
    """An item as it is kept: its number in the log, its JSON text, and whether it still counts."""

    number: int
    text: str
    counts: bool = True

    @property
    def item(self) -> Item:
        """The item as plain data, new with each call."""
        return json.loads(self.text)


class ItemLog:
    """The items of one session; threads may share it, processes may write at the same time."""

    def __init__(self, workspace: AnyWorkspace, session_id: str) -> None:
        """Raises InvalidInput for an id that is empty, too long or no plain text."""
        problems = session_id_problems(session_id)
        if problems:
            raise InvalidInput("there can be no such session", problems)
        self.session_id = session_id
        self._beside = Beside(workspace_of(workspace))
        self._stream = STREAM + session_id
        self._reading = threading.Lock()
        self._position = 0
        self._kept: list[Kept] = []
        self._parts: list[str] = []

    def add(self, items: Sequence[Item], keys: Sequence[str] = ()) -> list[int]:
        """Keep items, all or none, and give their numbers; one with a known key has its first."""
        asides: list[Aside] = []
        firsts: list[int] = []
        for index, item in enumerate(items):
            key = keys[index] if keys else ""
            firsts.append(len(asides))
            asides += [
                Aside(self._stream, ADDED, "agents-sdk", body, f"{key}/{part}" if key else "")
                for part, body in enumerate(_bodies(item, f"items[{index}]"))
            ]
        records = self._beside.add(*asides) if asides else []
        return [records[first].position for first in firsts]

    def all(self) -> list[Kept]:
        """Every item that was ever added, oldest first."""
        with self._reading:
            self._catch_up()
            return list(self._kept)

    def counting(self) -> list[Kept]:
        """The items that were neither taken back nor cleared, oldest first."""
        return [kept for kept in self.all() if kept.counts]

    def last_number(self) -> int:
        """The number that comes last in the log; 0 while it is empty."""
        return self._beside.position(self._stream)

    def hide_last(self) -> Kept | None:
        """Take the newest item that counts out of the view; None where there is none."""
        while True:
            with self._reading:
                self._catch_up()
                position = self._position
                last = next((kept for kept in reversed(self._kept) if kept.counts), None)
            if last is None:
                return None
            body = {"hides": last.number}
            try:
                self._beside.add(
                    Aside(self._stream, HIDDEN, "agents-sdk", body, expect=position or None)
                )
            except Conflict:
                continue  # somebody else wrote in between: what is newest may have changed
            return last

    def hide_all(self) -> None:
        """Take everything there is now out of the view."""
        self._beside.add(Aside(self._stream, CLEARED, "agents-sdk", {}))

    def _catch_up(self) -> None:
        for record in self._beside.records(self._stream, self._position):
            self._apply(record)
            self._position = record.position

    def _apply(self, record: Record) -> None:
        body = record.document()
        if record.kind == CLEARED:
            self._kept = [kept._replace(counts=False) for kept in self._kept]
        elif record.kind == HIDDEN:
            self._hide(body["hides"])
        elif record.kind == ADDED:
            self._parts.append(body["text"] if "text" in body else _text(body["value"]))
            if len(self._parts) == body.get("of", 1):
                number = record.position - len(self._parts) + 1
                self._kept.append(Kept(number, "".join(self._parts)))
                self._parts = []

    def _hide(self, number: int) -> None:
        """From the end: what is taken back is among the newest."""
        for index in range(len(self._kept) - 1, -1, -1):
            if self._kept[index].number == number:
                self._kept[index] = self._kept[index]._replace(counts=False)
                return


def session_id_problems(value: object) -> list[Problem]:
    """What is wrong with a session's id."""
    expected = f"a text of 1 to {MAX_SESSION_ID} printable characters"
    if not isinstance(value, str):
        return [Problem("session_id", "wrong_type", f"{type(value).__name__} given", expected)]
    if not value or len(value) > MAX_SESSION_ID:
        message = f"has {len(value):,} characters"
        return [Problem("session_id", "out_of_range", message, expected)]
    if not value.isprintable():
        return [Problem("session_id", "invalid_id", "has control characters", expected)]
    if redact(value)[1]:
        return [Problem("session_id", "secret", "looks like a secret", "a name")]
    return []


def _bodies(item: Item, where: str) -> list[dict[str, Any]]:
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
    if len(text) <= CHUNK:
        return [{"text": text}]
    parts = [text[start : start + CHUNK] for start in range(0, len(text), CHUNK)]
    return [{"text": part, "part": index, "of": len(parts)} for index, part in enumerate(parts)]


def _text(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return json.dumps(value, separators=(",", ":")) if has_lone_surrogate(text) else text

"""One stream of checkpoints in the ledger: read with every digest checked, added to one at a time.

A record is used only if its digest is the one that was expected: from the head backwards by the
chain, everywhere else by the digest that the referring record names. So a row that was put into the
store by other means is refused before anything in it is decoded.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from threading import RLock
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from passdown.adapters.langgraph.checkpoint_trail import (
    INDEX,
    PIECE,
    Event,
    Trail,
    event_of,
    event_of_row,
)
from passdown.adapters.langgraph.checkpoint_values import NOTHING, Live, Ref, Value, rebuilt
from passdown.errors import Conflict, Damaged, Problem
from passdown.workspace.beside import Aside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from passdown.model.record import Record
    from passdown.workspace.beside import Beside

AUTHOR = "langgraph"
PIECE_LENGTH = 2_000_000
"""How much text one record holds at most: twice as much, escaped, still fits into a body."""

_ATTEMPTS = 1_000
K = TypeVar("K")
T = TypeVar("T")


class Recent(Generic[K, T]):
    """The values that were used last, up to a number."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: OrderedDict[K, T] = OrderedDict()

    def get(self, key: K) -> T | None:
        """The value of a key, if it is still here."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def put(self, key: K, value: T) -> T:
        """Keep a value, and let go of the one that wasn't used for longest."""
        self._kept[key] = value
        self._kept.move_to_end(key)
        if len(self._kept) > self._limit:
            self._kept.popitem(last=False)
        return value


class Draft(NamedTuple):
    """A record to be; `held` is the part of its body that may be too large for one record."""

    kind: str
    body: dict[str, Any]
    held: dict[str, Any] | None = None
    key: str = ""


class Stream:
    """The checkpoints of one thread and namespace. Hold `lock` while using it."""

    def __init__(self, beside: Beside, name: str) -> None:
        """Nothing is read before `refresh`."""
        self.name = name
        self.lock = RLock()
        self.trail = Trail()
        self.live: dict[str, Live] = {}
        self._beside = beside
        self._documents: Recent[Ref, dict[str, Any]] = Recent(32)
        self._values: Recent[tuple[Ref, str], Value] = Recent(64)

    def refresh(self) -> Trail:
        """Bring the trail up to date; raises Damaged where a record isn't as written."""
        with self._beside.opened.store.reading() as reader:
            head = reader.head(self.name)
            position = head.position if head else 0
            if head is not None and position == self.trail.head.position:
                self._expect(head.digest == self.trail.head.digest, position)
            elif head is not None:
                if not 0 < self.trail.head.position < position:
                    self.trail = self._beginning(Ref(position, head.digest))
                self._follow(reader.records(self.name, after=self.trail.head.position))
                self._expect(self.trail.head == (position, head.digest), position)
        return self.trail

    def _beginning(self, head: Ref) -> Trail:
        """A trail that stands where the last index record ends."""
        last = self._checked(self._record(head.position), head)
        index = last.document()["index"] if last.kind != INDEX else last.position
        if not index:
            return Trail()
        # What these two say of themselves is checked against the head by following the chain.
        document = self._intact(self._record(index), index).document()
        until = self._intact(self._record(document["until"]), document["until"])
        trail = Trail(is_complete=False)
        trail.head = Ref(until.position, until.digest)
        trail.begin_after(document["newest"])
        return trail

    def _record(self, position: int) -> Record | None:
        with self._beside.opened.store.reading() as reader:
            return reader.record(self.name, position)

    def _follow(self, records: Iterable[Record]) -> None:
        for record in records:
            linked = record.previous == self.trail.head.digest or not self.trail.head.position
            self._expect(linked and record.is_intact(), record.position)
            self.trail.apply(event_of(record, record.document()))

    def complete(self) -> Trail:
        """Make the trail whole, if it knows only the end."""
        if not self.trail.is_complete:
            whole = Trail()
            for event in self.all_events():
                whole.apply(event)
            self.trail = whole
        return self.trail

    def all_events(self) -> list[Event]:
        """Everything since the beginning, out of the index records and the trail's end."""
        stretches = [self.trail.uncovered]
        digests = {e.at.position: e.at.digest for e in self.trail.uncovered if e.kind == INDEX}
        index = self.trail.index
        while index:
            document = self.document(Ref(index, digests.get(index, "")))
            events = [event_of_row(row) for row in document["events"]]
            digests.update({e.at.position: e.at.digest for e in events if e.kind == INDEX})
            stretches.append(events)
            index = document["index"]
        return [event for stretch in reversed(stretches) for event in stretch]

    def document(self, at: Ref) -> dict[str, Any]:
        """The body of a record, put together with its pieces; raises Damaged."""
        return self._documents.get(at) or self._documents.put(at, self._read(at))

    def _read(self, at: Ref) -> dict[str, Any]:
        record = self._checked(self._record(at.position), at)
        document = record.document()
        texts: list[str] = []
        for _ in range(document.get("pieces", 0)):
            before = Ref(record.position - 1, record.previous)
            record = self._checked(self._record(before.position), before)
            texts.append(record.document()["text"])
        if texts:
            document["held"] = json.loads("".join(reversed(texts)))
        return document

    def by_key(self, key: str) -> Ref | None:
        """Where the record with a key stands; meaningful as long as nobody writes."""
        with self._beside.opened.store.reading() as reader:
            record = reader.record_by_key(self.name, key)
        return Ref(record.position, record.digest) if record else None

    def value(self, at: Ref, channel: str) -> Value:
        """What a record holds for a channel, with everything that it builds on."""
        changes: list[tuple[dict[str, Any], str]] = []
        base = self._values.get((at, channel))
        place = at
        while base is None:
            document = self.document(place) if place == at else self._read(place)
            stored = document["held"]["values"][channel]
            changes.append((stored, document["coding"]))
            if "base" not in stored:
                break
            place = Ref(*stored["base"])
            base = self._values.get((place, channel))
        if base is not None and not changes:
            return base
        value = NOTHING if base is None else base._replace(parts=[*base.parts])
        for stored, coding in reversed(changes):
            value = rebuilt(stored, value.parts, coding)
        return self._values.put((at, channel), value)

    def keep(self, at: Ref, channel: str, value: Value) -> None:
        """Remember a value that was just recorded."""
        self._values.put((at, channel), value)

    def append(self, compose: Callable[[], Draft | None]) -> Ref | None:
        """Record what `compose` gives for the trail as it then is; anew if others were faster.

        Gives where it stands, or None when there was nothing to record.
        """
        start = 0
        for _ in range(_ATTEMPTS):
            start = self.refresh().head.position
            draft = compose()
            if draft is None:
                return None
            drafts = _in_pieces(draft)
            index = self.trail.index_due()
            drafts += [Draft(INDEX, index)] if index else []
            try:
                records = self._beside.add(*self._asides(drafts, start))
            except Conflict:
                continue
            self._follow(records)
            return Ref(*_place(records[-2] if index else records[-1]))
        raise Conflict(self.name, expected=start, actual=self.trail.head.position)

    def _asides(self, drafts: list[Draft], start: int) -> list[Aside]:
        index = self.trail.index
        return [
            Aside(
                self.name,
                draft.kind,
                AUTHOR,
                {"index": index, **draft.body},
                draft.key,
                expect=start + number,
            )
            for number, draft in enumerate(drafts)
        ]

    def _checked(self, record: Record | None, at: Ref) -> Record:
        found = self._intact(record, at.position)
        self._expect(found.digest == at.digest, at.position)
        return found

    def _intact(self, record: Record | None, position: int) -> Record:
        if record is None or not record.is_intact():
            raise self._damaged(position)
        return record

    def _expect(self, is_so: bool, position: int) -> None:
        if not is_so:
            raise self._damaged(position)

    def _damaged(self, position: int) -> Damaged:
        self.trail = Trail()  # what was read so far may rest on the same damage
        problem = Problem(f"{self.name}@{position}", "chain_broken", "is not what was written")
        return Damaged(
            "the checkpoints of this thread are damaged; nothing of them was decoded",
            [problem],
            next_step="Run passdown verify to see how far it reaches, then restore a backup.",
        )


def _place(record: Record) -> tuple[int, str]:
    return record.position, record.digest


def _in_pieces(draft: Draft) -> list[Draft]:
    """A draft as records that are small enough: the pieces of what it holds come first."""
    if draft.held is None:
        return [draft]
    text = json.dumps(draft.held, separators=(",", ":"))
    if len(text) <= PIECE_LENGTH:
        return [draft._replace(body={**draft.body, "held": draft.held}, held=None)]
    pieces = [text[at : at + PIECE_LENGTH] for at in range(0, len(text), PIECE_LENGTH)]
    drafts = [Draft(PIECE, {"text": piece}) for piece in pieces]
    return [*drafts, draft._replace(body={**draft.body, "pieces": len(pieces)}, held=None)]

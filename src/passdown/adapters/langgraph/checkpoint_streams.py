"""Checkpoints of a thread as a ledger stream: serialised values, checkpoint tree, records.

A list is stored by element and a dict by entry, so a conversation that grew by one message costs
that message. A record is used only if its digest is the expected one: by the chain from the head
backwards, elsewhere by the digest that the referring record names. So a row written by other means
is refused before anything in it is decoded.

A tree may know only the end of its stream, which is enough for the latest checkpoint. Index records
summarise a stretch of records, so that building the whole tree doesn't read the values.
"""

from __future__ import annotations

import base64
import binascii
import json
from threading import RLock
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import ormsgpack
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from passdown.adapters.tools import LruCache
from passdown.core.redaction import redact_value
from passdown.errors import Conflict, Damaged, InvalidInput, Problem
from passdown.workspace.streams import StreamEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from langgraph.checkpoint.serde.base import SerializerProtocol

    from passdown.core.record import Record
    from passdown.workspace.streams import WorkspaceStreams


_TAGS = ("null", "bytes", "bytearray", "msgpack")


class StrictSerializer(JsonPlusSerializer):
    """LangGraph's serializer with its allow-list on, whatever the environment says, and without
    the tags that it only reads for old data: one of them constructs objects by name.
    """

    def __init__(self) -> None:
        """Allowed are plain data, LangChain's messages and LangGraph's own types; compiling a
        graph in LangGraph's strict mode adds the types of its state.
        """
        super().__init__(pickle_fallback=False, allowed_msgpack_modules=None)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The object; raises Damaged for a tag that this serializer never writes."""
        if data[0] not in _TAGS:
            problem = Problem("", "unknown_tag", repr(data[0]), f"one of {', '.join(_TAGS)}")
            raise Damaged("a stored value is of no kind that is written here", [problem])
        return super().loads_typed(data)


EMPTY, WHOLE, LIST, DICT = "empty", "whole", "list", "dict"
SPARE_DEPTH = 64
"""How many more changes than parts a value may be made of before it is stored whole again."""

_IMMUTABLE = (str, bytes, int, float, bool, NoneType)
_EXACTLY = (
    ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
)

Part = tuple[str, bytes]


class RecordRef(NamedTuple):
    """The position of a record, and the digest that it must have."""

    position: int
    digest: str


class ChannelValue(NamedTuple):
    """A value in parts; `depth` counts the stored changes that it is put together from."""

    shape: str
    parts: list[Part]
    depth: int = 0


class CachedPart(NamedTuple):
    """An object whose part is known, with a mark of how it was then (None: no telling)."""

    item: object
    mark: object
    part: Part


CachedParts = list[CachedPart]
"""The elements of a list that was stored or read last."""

NOTHING = ChannelValue(EMPTY, [])
"""The value of a channel that has none."""


def split_value(
    serde: SerializerProtocol, value: object, live: CachedParts
) -> tuple[ChannelValue, CachedParts]:
    """A value in parts. What `live` knows and what hasn't changed since isn't serialised again."""
    if type(value) is list:
        known = _split_list(serde, cast("list[object]", value), live)
        return ChannelValue(LIST, [each.part for each in known]), known
    if type(value) is dict and all(type(key) is str for key in cast("dict[object, object]", value)):
        pairs = cast("dict[str, object]", value).items()
        return ChannelValue(DICT, [serde.dumps_typed([key, item]) for key, item in pairs]), []
    return ChannelValue(WHOLE, [serde.dumps_typed(value)]), []


def _split_list(serde: SerializerProtocol, items: list[object], live: CachedParts) -> CachedParts:
    found: CachedParts = []
    by_identity: dict[int, CachedPart] | None = None
    for place, item in enumerate(items):
        known = live[place] if place < len(live) else None
        if known is None or known.item is not item:
            if by_identity is None:
                by_identity = {id(each.item): each for each in live}
            known = by_identity.get(id(item))
        if known is None or not _is_unchanged(item, known.mark):
            known = CachedPart(item, _fingerprint(item), serde.dumps_typed(item))
        found.append(known)
    return found


def _fingerprint(item: object) -> object:
    """A fingerprint that shows later whether an object was changed in place."""
    if type(item) in _IMMUTABLE:
        return True
    if not isinstance(item, BaseMessage) or item.__pydantic_extra__:
        return None
    fields = item.__dict__.copy()
    for name, field in fields.items():
        if type(field) in (dict, list) and not field:
            fields[name] = type(field)()
        elif type(field) not in (str, NoneType):
            return _packed(item)
    return fields


def _is_unchanged(item: Any, mark: object) -> bool:
    """Whether an object is as it was when it was marked."""
    if type(mark) is dict:  # texts and empty containers only: equal means the same
        return item.__dict__ == mark and not item.__pydantic_extra__
    if type(mark) is tuple:
        return _packed(item) == mark and not item.__pydantic_extra__
    return mark is True


def _packed(item: BaseMessage) -> tuple[object, bytes] | None:
    """Fields packed and not compared, since to `==` True and 1 are the same."""
    fields = item.__dict__.copy()
    content = fields.pop("content") if type(fields.get("content")) is str else None
    try:
        return content, ormsgpack.packb(fields, option=_EXACTLY)
    except TypeError:
        return None


def join_value(serde: SerializerProtocol, value: ChannelValue) -> tuple[object, CachedParts]:
    """The object that a value's parts make, new at each call."""
    if value.shape == WHOLE:
        return serde.loads_typed(value.parts[0]), []
    items: list[Any] = [serde.loads_typed(part) for part in value.parts]
    if value.shape == DICT:
        return {pair[0]: pair[1] for pair in items}, []
    known = zip(items, value.parts, strict=True)
    return items, [CachedPart(item, _fingerprint(item), part) for item, part in known]


def change_of(
    value: ChannelValue, base: ChannelValue | None, at: RecordRef | None, coding: str
) -> dict[str, Any]:
    """A value for a record: all of it, or what changed since its base."""
    kept = _shared_ends(value, base)
    if base is None or at is None or kept is None:
        return {"shape": value.shape, "parts": [encode_part(part, coding) for part in value.parts]}
    start, end = kept
    parts = value.parts[start : len(value.parts) - end]
    return {
        "shape": value.shape,
        "base": list(at),
        "depth": base.depth + 1,
        "keep": [start, end],
        "parts": [encode_part(part, coding) for part in parts],
    }


def _shared_ends(value: ChannelValue, base: ChannelValue | None) -> tuple[int, int] | None:
    """How many parts at the start and at the end are those of the base; None for too few."""
    if base is None or base.shape != value.shape:
        return None
    if base.depth >= len(value.parts) + SPARE_DEPTH:
        return None
    shorter = min(len(base.parts), len(value.parts))
    start = 0
    while start < shorter and base.parts[start] == value.parts[start]:
        start += 1
    end = 0
    while end < shorter - start and base.parts[-1 - end] == value.parts[-1 - end]:
        end += 1
    return (start, end) if start + end else None


def apply_change(stored: dict[str, Any], parts: list[Part], coding: str) -> ChannelValue:
    """The value after one stored change; `parts` are the base's and are changed in place."""
    new = [decode_part(text, coding) for text in stored["parts"]]
    if "base" not in stored:
        return ChannelValue(stored["shape"], new)
    start, end = stored["keep"]
    parts[start : len(parts) - end] = new
    return ChannelValue(stored["shape"], parts, stored["depth"])


def encode_part(part: Part, coding: str) -> list[str]:
    """A part for a record."""
    kind, data = part
    text = data.hex() if coding == "base16" else base64.b64encode(data).decode()
    return [kind, text]


def decode_part(stored: Sequence[str], coding: str) -> Part:
    """A part from a record; raises Damaged."""
    kind, text = stored
    try:
        if coding == "base16":
            return kind, bytes.fromhex(text)
        return kind, base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error) as error:
        problem = Problem("", "not_decodable", f"is no {coding}")
        raise Damaged("a stored value can't be read; nothing was decoded", [problem]) from error


CHECKPOINT = "checkpoint"
WRITES = "checkpoint_writes"
HIDDEN = "checkpoints_hidden"
INDEX = "checkpoint_index"
CHUNK = "checkpoint_piece"

INDEX_INTERVAL = 64
"""After how many records an index record is due."""
MAX_INDEXED = 512
"""How many records one index record covers at most: after a copy there is more to cover."""


class CheckpointEntry(NamedTuple):
    """A checkpoint: its record, its parent, its run.

    `begins` when it is how LangGraph starts a thread.
    """

    id: str
    at: RecordRef
    parent: str
    begins: bool
    run: str


class CheckpointEvent(NamedTuple):
    """What a record says to the trail: its kind and place, and the names in it."""

    kind: str
    at: RecordRef
    said: dict[str, Any]

    def row(self) -> list[Any]:
        """The event for an index record."""
        return [self.kind, *self.at, self.said]


_SAID = {
    CHECKPOINT: ("id", "parent", "begins", "run", "early"),
    WRITES: ("checkpoint",),
    HIDDEN: ("hide",),
    INDEX: ("until", "newest"),
}


def event_of(record: Record) -> CheckpointEvent:
    """What a record says."""
    document = record.document()
    said = {name: document[name] for name in _SAID.get(record.kind, ())}
    return CheckpointEvent(record.kind, _place(record), said)


class CheckpointTree:
    """The checkpoints of one stream that are to be seen, and what belongs to each."""

    def __init__(self, head: RecordRef | None = None, newest: str = "") -> None:
        """Empty; with a head it begins in the middle of its stream, and `newest` is the newest
        checkpoint up to there.
        """
        self.is_complete = head is None
        self.head = head or RecordRef(0, "")
        self.entries: dict[str, CheckpointEntry] = {}
        self.gone: dict[str, CheckpointEntry] = {}
        self.writes: dict[str, list[RecordRef]] = {}
        self.era = 0
        self.index = 0
        self.uncovered: list[CheckpointEvent] = []
        self._children: dict[str, list[str]] = {}
        self._earlier_newest = newest

    def apply(self, event: CheckpointEvent) -> None:
        """Go one record on."""
        self.head = event.at
        self.uncovered.append(event)
        if event.kind == CHECKPOINT:
            name, parent, begins, run, early = (event.said[n] for n in _SAID[CHECKPOINT])
            self.entries[name] = CheckpointEntry(name, event.at, parent, begins, run)
            self.gone.pop(name, None)
            self._children.setdefault(parent, []).append(name)
            # Writes can be recorded before the checkpoint that they belong to.
            self.writes[name] = [RecordRef(*ref) for ref in early]
        elif event.kind == WRITES:
            self.writes.setdefault(event.said["checkpoint"], []).append(event.at)
        elif event.kind == HIDDEN:
            self._hide(event.said["hide"])
            self.era = event.at.position
        elif event.kind == INDEX:
            self.index = event.at.position
            until = event.said["until"]
            self.uncovered = [each for each in self.uncovered if each.at.position > until]

    def _hide(self, hide: dict[str, Any]) -> None:
        if "all" in hide:
            for known in (self.entries, self.gone, self.writes, self._children):
                known.clear()
            self.is_complete = True
            self._earlier_newest = ""
            return
        kept = hide.get("keep")
        names = hide["ids"] if "ids" in hide else [name for name in self.entries if name != kept]
        for name in names:
            if name in self.entries:
                self.gone[name] = self.entries.pop(name)
        if kept is None:
            # An earlier one may have been the newest: only the complete tree shows it.
            self._earlier_newest = "" if self.is_complete else "\uffff"

    def key(self, name: str) -> str:
        """The key that the record of a checkpoint has: another after something was hidden."""
        return f"checkpoint {self.era} {name}"

    def successors(self, name: str) -> list[str]:
        """The checkpoints that follow one and are to be seen."""
        return [child for child in self._children.get(name, ()) if child in self.entries]

    @property
    def newest(self) -> str | None:
        """The checkpoint with the highest id; "" if only the complete tree shows it."""
        found = max(self.entries, default=None)
        if self.is_complete:
            return found
        return found if found and found >= self._earlier_newest else ""

    def early_writes(self, name: str) -> list[RecordRef]:
        """The writes of a checkpoint that is about to be recorded itself."""
        return [at for at in self.writes.get(name, ()) if at.position > self.era]

    def index_due(self) -> dict[str, Any] | None:
        """The body of an index record over what none covers yet, once that is a stretch."""
        if len(self.uncovered) < INDEX_INTERVAL:
            return None
        covered = self.uncovered[:MAX_INDEXED]
        newest = self.newest or self._earlier_newest
        return {
            "index": self.index,
            "until": covered[-1].at.position,
            "newest": newest,
            "events": [event.row() for event in covered if event.kind != CHUNK],
        }


AUTHOR = "langgraph"
CHUNK_LENGTH = 2_000_000
"""How much text one record holds at most: twice as much, escaped, still fits into a body."""

_ATTEMPTS = 1_000


class RecordDraft(NamedTuple):
    """A record to be; `held` is the part of its body that may be too large for one record."""

    kind: str
    body: dict[str, Any]
    held: dict[str, Any] | None = None
    key: str = ""


def encoded_draft(kind: str, make: Callable[[str], dict[str, Any]]) -> RecordDraft:
    """The record whose body `make` gives, under a coding in which no text reads like a secret.

    What looks like one would be removed before writing, and base64 can look like anything: then
    base16 takes its place. A name that looks like a secret raises InvalidInput.
    """
    for coding in ("base64", "base16"):
        body = {**make(coding), "coding": coding}
        if not redact_value(body)[1]:
            held = cast("dict[str, Any]", body.pop("held"))
            return RecordDraft(kind, body, held)
    found = ", ".join(redact_value(make("base16"))[1])
    message = f"a name in it looks like a secret ({found})"
    problem = Problem("", "secret", message, "channels, tasks and ids without secrets")
    raise InvalidInput("the checkpoint can't be stored; nothing was written", [problem])


class CheckpointStream:
    """The checkpoints of one thread and namespace. Hold `lock` while using it."""

    def __init__(self, streams: WorkspaceStreams, name: str) -> None:
        """Nothing is read before `refresh`."""
        self.name = name
        self.lock = RLock()
        self.trail = CheckpointTree()
        self.live: dict[str, CachedParts] = {}
        self._streams = streams
        self._documents: LruCache[RecordRef, dict[str, Any]] = LruCache(32)
        self._values: LruCache[tuple[RecordRef, str], ChannelValue] = LruCache(64)

    def refresh(self) -> CheckpointTree:
        """Bring the trail up to date; raises Damaged where a record isn't as written."""
        with self._streams.context.store.reading() as reader:
            head = reader.head(self.name)
            position = head.position if head else 0
            if head is not None and position == self.trail.head.position:
                self._expect(head.digest == self.trail.head.digest, position)
            elif head is not None:
                if not 0 < self.trail.head.position < position:
                    self.trail = self._beginning(RecordRef(position, head.digest))
                self._follow(reader.records(self.name, after=self.trail.head.position))
                self._expect(self.trail.head == (position, head.digest), position)
        return self.trail

    def _beginning(self, head: RecordRef) -> CheckpointTree:
        """A tree that starts where the last index record ends."""
        last = self._record(*head)
        index = last.document()["index"] if last.kind != INDEX else last.position
        if not index:
            return CheckpointTree()
        # What these two say of themselves is checked against the head by following the chain.
        document = self._record(index).document()
        until = self._record(document["until"])
        return CheckpointTree(_place(until), document["newest"])

    def _record(self, position: int, digest: str | None = None) -> Record:
        """The record at a position, which has to have a digest; raises Damaged."""
        with self._streams.context.store.reading() as reader:
            record = reader.record(self.name, position)
        if record is None or not record.is_intact():
            raise self._damaged(position)
        self._expect(digest is None or record.digest == digest, position)
        return record

    def _follow(self, records: Iterable[Record]) -> None:
        for record in records:
            linked = record.previous == self.trail.head.digest or not self.trail.head.position
            self._expect(linked and record.is_intact(), record.position)
            self.trail.apply(event_of(record))

    def complete(self) -> CheckpointTree:
        """Make the trail whole, if it knows only the end."""
        if not self.trail.is_complete:
            whole = CheckpointTree()
            for event in self.all_events():
                whole.apply(event)
            self.trail = whole
        return self.trail

    def all_events(self) -> list[CheckpointEvent]:
        """Everything since the beginning, out of the index records and the trail's end."""
        stretches = [self.trail.uncovered]
        digests = {e.at.position: e.at.digest for e in self.trail.uncovered if e.kind == INDEX}
        index = self.trail.index
        while index:
            document = self.document(RecordRef(index, digests.get(index, "")))
            rows = document["events"]
            events = [CheckpointEvent(kind, RecordRef(*at), said) for kind, *at, said in rows]
            digests.update({e.at.position: e.at.digest for e in events if e.kind == INDEX})
            stretches.append(events)
            index = document["index"]
        return [event for stretch in reversed(stretches) for event in stretch]

    def document(self, at: RecordRef) -> dict[str, Any]:
        """The body of a record, put together with its pieces; raises Damaged."""
        return self._documents.get(at) or self._documents.put(at, self._read(at))

    def _read(self, at: RecordRef) -> dict[str, Any]:
        record = self._record(*at)
        document = record.document()
        texts: list[str] = []
        for _ in range(document.get("pieces", 0)):
            record = self._record(record.position - 1, record.previous)
            texts.append(record.document()["text"])
        if texts:
            document["held"] = json.loads("".join(reversed(texts)))
        return document

    def by_key(self, key: str) -> RecordRef | None:
        """The record with a key; valid as long as nobody writes."""
        record = self._streams.keyed(self.name, key)
        return _place(record) if record else None

    def value(self, at: RecordRef, channel: str) -> ChannelValue:
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
            place = RecordRef(*stored["base"])
            base = self._values.get((place, channel))
        if base is not None and not changes:
            return base
        value = NOTHING if base is None else base._replace(parts=[*base.parts])
        for stored, coding in reversed(changes):
            value = apply_change(stored, value.parts, coding)
        return self._values.put((at, channel), value)

    def keep(self, at: RecordRef, channel: str, value: ChannelValue) -> None:
        """Remember a value that was just recorded."""
        self._values.put((at, channel), value)

    def append(self, compose: Callable[[], RecordDraft | None]) -> RecordRef | None:
        """Record what `compose` returns for the current tree; repeated if others were faster.

        Returns the record, or None if there was nothing to record.
        """
        start = 0
        for _ in range(_ATTEMPTS):
            start = self.refresh().head.position
            draft = compose()
            if draft is None:
                return None
            drafts = _split_draft(draft)
            index = self.trail.index_due()
            drafts += [RecordDraft(INDEX, index)] if index else []
            try:
                entries = [self._entry(draft, start + n) for n, draft in enumerate(drafts)]
                records = self._streams.add(*entries)
            except Conflict:
                continue
            self._follow(records)
            return _place(records[-2] if index else records[-1])
        raise Conflict(self.name, expected=start, actual=self.trail.head.position)

    def _entry(self, draft: RecordDraft, position: int) -> StreamEntry:
        body = {"index": self.trail.index, **draft.body}
        return StreamEntry(self.name, draft.kind, AUTHOR, body, draft.key, expect=position)

    def _expect(self, is_so: bool, position: int) -> None:
        if not is_so:
            raise self._damaged(position)

    def _damaged(self, position: int) -> Damaged:
        self.trail = CheckpointTree()  # what was read so far may rest on the same damage
        problem = Problem(f"{self.name}@{position}", "chain_broken", "is not what was written")
        return Damaged(
            "the checkpoints of this thread are damaged; nothing was decoded",
            [problem],
            next_step="Run passdown verify to see how far it reaches, then restore a backup.",
        )


def _place(record: Record) -> RecordRef:
    return RecordRef(record.position, record.digest)


def _split_draft(draft: RecordDraft) -> list[RecordDraft]:
    """A draft as records that are small enough: the pieces of what it holds come first."""
    if draft.held is None:
        return [draft]
    text = json.dumps(draft.held, separators=(",", ":"))
    if len(text) <= CHUNK_LENGTH:
        return [draft._replace(body={**draft.body, "held": draft.held}, held=None)]
    pieces = [text[at : at + CHUNK_LENGTH] for at in range(0, len(text), CHUNK_LENGTH)]
    drafts = [RecordDraft(CHUNK, {"text": piece}) for piece in pieces]
    return [*drafts, draft._replace(body={**draft.body, "pieces": len(pieces)}, held=None)]

"""LangGraph checkpoints in the ledger: changes instead of copies, one successor per checkpoint.

Each thread and namespace is a stream, chained and verified like any other. Nothing is deleted:
what LangGraph calls deleting or pruning is a record that hides.

A list is stored by element and a dict by entry, so a conversation that grew by one message costs
that message. A record is used only if its digest is the expected one: by the chain from the head
backwards, elsewhere by the digest that the referring record names. So a row written by other means
is refused before anything in it is decoded.

A tree may know only the end of its stream, which is enough for the latest checkpoint. Index records
summarise a stretch of records, so that building the whole tree doesn't read the values.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import random
from collections import deque
from contextlib import suppress
from threading import Event, Lock, RLock
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import quote, unquote

import ormsgpack
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    CheckpointTuple,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from passdown.adapters.shared import LruCache, async_twin
from passdown.core.redaction import redact_value
from passdown.errors import Conflict, Damaged, InvalidInput, Problem
from passdown.tools.briefs import recording_workspace
from passdown.workspace.streams import StreamEntry, WorkspaceStreams

if TYPE_CHECKING:
    import builtins
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        DeltaChannelHistory,
        PendingWrite,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from passdown.core.record import Record
    from passdown.tools.briefs import AnyWorkspace

    Hide = Callable[["CheckpointTree"], dict[str, Any] | None]


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


def _ref(record: Record) -> RecordRef:
    return RecordRef(record.position, record.digest)


class ChannelValue(NamedTuple):
    """A value in parts; `depth` counts the stored changes that it is put together from."""

    shape: str
    parts: list[Part]
    depth: int = 0


NOTHING = ChannelValue(EMPTY, [])
"""The value of a channel that has none."""


class CachedPart(NamedTuple):
    """An element of a list that was stored or read last, its fingerprint then, and its part."""

    item: object
    mark: object
    part: Part


def split_value(
    serde: SerializerProtocol, value: object, cached: list[CachedPart]
) -> tuple[ChannelValue, list[CachedPart]]:
    """A value in parts. What is cached and hasn't changed since isn't serialised again."""
    if type(value) is list:
        known = {id(each.item): each for each in cached}
        found = [_split_item(serde, item, known) for item in cast("list[object]", value)]
        return ChannelValue(LIST, [each.part for each in found]), found
    if type(value) is dict and all(type(key) is str for key in cast("dict[object, object]", value)):
        pairs = cast("dict[str, object]", value).items()
        return ChannelValue(DICT, [serde.dumps_typed([key, item]) for key, item in pairs]), []
    return ChannelValue(WHOLE, [serde.dumps_typed(value)]), []


def _split_item(
    serde: SerializerProtocol, item: object, cached: Mapping[int, CachedPart]
) -> CachedPart:
    known, mark = cached.get(id(item)), _fingerprint(item)
    if known is not None and mark is not None and known.mark == mark:
        return known
    return CachedPart(item, mark, serde.dumps_typed(item))


def _fingerprint(item: object) -> tuple[object, bytes] | None:
    """What shows later whether a message was changed in place; None for anything else.

    Fields are packed and not compared, since to `==` True and 1 are the same.
    """
    if not isinstance(item, BaseMessage) or item.__pydantic_extra__:
        return None
    fields = item.__dict__.copy()
    content = fields.pop("content") if type(fields.get("content")) is str else None
    try:
        return content, ormsgpack.packb(fields, option=_EXACTLY)
    except TypeError:
        return None


def join_value(serde: SerializerProtocol, value: ChannelValue) -> tuple[object, list[CachedPart]]:
    """The object that a value's parts make, new at each call."""
    items: list[Any] = [serde.loads_typed(part) for part in value.parts]
    if value.shape == WHOLE:
        return items[0], []
    if value.shape == DICT:
        return dict(items), []
    known = zip(items, value.parts, strict=True)
    return items, [CachedPart(item, _fingerprint(item), part) for item, part in known]


def change_of(
    value: ChannelValue, base: ChannelValue | None, at: RecordRef | None, coding: str
) -> dict[str, Any]:
    """A value for a record: all of it, or what changed since its base."""
    kept = _shared_ends(value, base) if base is not None else None
    if base is None or at is None or kept is None:
        return {"shape": value.shape, "parts": [encode_part(part, coding) for part in value.parts]}
    parts = value.parts[kept[0] : len(value.parts) - kept[1]]
    return {
        "shape": value.shape,
        "base": list(at),
        "depth": base.depth + 1,
        "keep": list(kept),
        "parts": [encode_part(part, coding) for part in parts],
    }


def _shared_ends(value: ChannelValue, base: ChannelValue) -> tuple[int, int] | None:
    """How many parts at the start and at the end are those of the base; None for too few."""
    if base.shape != value.shape or base.depth >= len(value.parts) + SPARE_DEPTH:
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
    return [kind, data.hex() if coding == "base16" else base64.b64encode(data).decode()]


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
    """What a record says to the tree: its kind and place, and the names in it."""

    kind: str
    at: RecordRef
    said: dict[str, Any]


_SAID = {
    CHECKPOINT: ("id", "parent", "begins", "run", "early"),
    WRITES: ("checkpoint",),
    HIDDEN: ("hide",),
    INDEX: ("until", "newest"),
}


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

    @property
    def everything(self) -> dict[str, CheckpointEntry]:
        """The checkpoints that are to be seen and those that are hidden."""
        return {**self.gone, **self.entries}

    def index_due(self) -> dict[str, Any] | None:
        """The body of an index record over what none covers yet, once that is a stretch."""
        if len(self.uncovered) < INDEX_INTERVAL:
            return None
        covered = self.uncovered[:MAX_INDEXED]
        return {
            "index": self.index,
            "until": covered[-1].at.position,
            "newest": self.newest or self._earlier_newest,
            "events": [[kind, *at, said] for kind, at, said in covered if kind != CHUNK],
        }


CHUNK_LENGTH = 2_000_000
"""How much text one record holds at most: twice as much, escaped, still fits into a body."""

_ATTEMPTS = 1_000


class RecordDraft(NamedTuple):
    """A record to be; `held` is the part of its body that may be too large for one record."""

    kind: str
    body: dict[str, Any]
    held: dict[str, Any] | None = None
    key: str = ""

    def chunks(self) -> list[RecordDraft]:
        """The draft as records that are small enough: the pieces of what it holds come first."""
        if self.held is None:
            return [self]
        text = json.dumps(self.held, separators=(",", ":"))
        if len(text) <= CHUNK_LENGTH:
            return [self._replace(body={**self.body, "held": self.held}, held=None)]
        pieces = [text[at : at + CHUNK_LENGTH] for at in range(0, len(text), CHUNK_LENGTH)]
        drafts = [RecordDraft(CHUNK, {"text": piece}) for piece in pieces]
        return [*drafts, self._replace(body={**self.body, "pieces": len(pieces)}, held=None)]


def encoded_draft(kind: str, make: Callable[[str], dict[str, Any]], key: str = "") -> RecordDraft:
    """The record whose body `make` gives, under a coding in which no text reads like a secret.

    What looks like one would be removed before writing, and base64 can look like anything: then
    base16 takes its place. A name that looks like a secret raises InvalidInput.
    """
    found: Sequence[str] = ()
    for coding in ("base64", "base16"):
        body = {**make(coding), "coding": coding}
        found = redact_value(body)[1]
        if not found:
            held = cast("dict[str, Any]", body.pop("held"))
            return RecordDraft(kind, body, held, key)
    message = f"a name in it looks like a secret ({', '.join(found)})"
    problem = Problem("", "secret", message, "channels, tasks and ids without secrets")
    raise InvalidInput("the checkpoint can't be stored; nothing was written", [problem])


class NewCheckpoint(NamedTuple):
    """A checkpoint that is to be recorded; `may_branch` when its parent was read as history."""

    id: str
    parent: str
    begins: bool
    run: str
    frame: Part
    metadata: Part
    versions: Mapping[str, str | int | float]
    values: Mapping[str, Any]
    new: frozenset[str]
    may_branch: bool


class StoredWrite(NamedTuple):
    """One pending write, in the order that LangGraph applies them."""

    path: str
    task: str
    number: int
    channel: str
    part: Part


GROUP_DELAY_S = 0.005
"""How long a task's writes wait for the checkpoint that follows, to share its transaction."""


class WaitingWrites(NamedTuple):
    """Writes of a task that aren't recorded yet; `done` is set once they are."""

    checkpoint: str
    writes: Sequence[StoredWrite]
    done: Event


SAME_RECORD = 0
"""Used as a position: the value is in the same record."""


def value_ref(document: dict[str, Any], channel: str, at: RecordRef) -> RecordRef | None:
    """The record that holds the value of a channel at a checkpoint; None without one."""
    _, *place = document["channels"].get(channel, [None])
    if not place:
        return None
    return at if place[0] == SAME_RECORD else RecordRef(*place)


PREFIX = "checkpoint/"


def stream_name(thread: str, namespace: str = "") -> str:
    """The name of a stream, or what the names of a thread's begin with; raises InvalidInput."""
    try:
        return f"{PREFIX}{quote(thread, safe='')}/{quote(namespace, safe='')}"
    except UnicodeEncodeError:
        problem = Problem("configurable", "lone_surrogate", "half a character", "proper text")
        raise InvalidInput("this can't be the name of a thread", [problem]) from None


class CheckpointStream:
    """The checkpoints of one thread and namespace. Hold `lock` while using it."""

    def __init__(
        self,
        streams: WorkspaceStreams,
        serde: SerializerProtocol,
        thread: str,
        namespace: str,
        later: deque[StreamEntry],
    ) -> None:
        """Nothing is read before `refresh`. What is in `later` is written with what comes next."""
        self._later = later
        self.name = stream_name(thread, namespace)
        self.thread, self.namespace, self.serde = thread, namespace, serde
        self.lock = RLock()
        self.trail = CheckpointTree()
        self._cached: dict[str, list[CachedPart]] = {}
        self._waiting: deque[WaitingWrites] = deque()
        self._streams = streams
        self._documents: LruCache[RecordRef, dict[str, Any]] = LruCache(32)
        self._values: LruCache[tuple[RecordRef, str], ChannelValue] = LruCache(64)

    def refresh(self) -> CheckpointTree:
        """Bring the tree up to date; raises Damaged where a record isn't as written."""
        head = self._streams.head(self.name)
        position = head.position if head else 0
        if head is not None and position == self.trail.head.position:
            self._expect(head.digest == self.trail.head.digest, position)
        elif head is not None:
            if not 0 < self.trail.head.position < position:
                self.trail = self._beginning(RecordRef(position, head.digest))
            found = self._records(self.trail.head.position)
            self._follow(each for each in found if each.position <= position)
            self._expect(self.trail.head == (position, head.digest), position)
        return self.trail

    def _records(self, after: int) -> list[Record]:
        """The records above a position; raises Damaged for one that isn't as written."""
        try:
            return self._streams.records(self.name, after)
        except Damaged as error:
            raise self._damaged(after + 1) from error

    def _beginning(self, head: RecordRef) -> CheckpointTree:
        """A tree that starts where the last index record ends."""
        last = self._record(*head)
        index = last.document()["index"] if last.kind != INDEX else last.position
        if not index:
            return CheckpointTree()
        # What these two say of themselves is checked against the head by following the chain.
        document = self._record(index).document()
        return CheckpointTree(_ref(self._record(document["until"])), document["newest"])

    def _record(self, position: int, digest: str | None = None) -> Record:
        """The record at a position, which has to have a digest; raises Damaged."""
        record = self._streams.record(self.name, position)
        if record is None or not record.is_intact():
            raise self._damaged(position)
        self._expect(digest is None or record.digest == digest, position)
        return record

    def _follow(self, records: Iterable[Record]) -> None:
        for record in records:
            linked = record.previous == self.trail.head.digest or not self.trail.head.position
            self._expect(linked and record.is_intact(), record.position)
            document = record.document()
            said = {name: document[name] for name in _SAID.get(record.kind, ())}
            self.trail.apply(CheckpointEvent(record.kind, _ref(record), said))

    def complete(self) -> CheckpointTree:
        """Make the tree whole, if it knows only the end."""
        if not self.trail.is_complete:
            whole = CheckpointTree()
            for event in self._all_events():
                whole.apply(event)
            self.trail = whole
        return self.trail

    def _all_events(self) -> list[CheckpointEvent]:
        """Everything since the beginning, out of the index records and the tree's end."""
        stretches = [self.trail.uncovered]
        digests: dict[int, str] = {}
        index = self.trail.index
        while index:
            digests |= {e.at.position: e.at.digest for e in stretches[-1] if e.kind == INDEX}
            document = self.document(RecordRef(index, digests.get(index, "")))
            rows = document["events"]
            stretches.append([CheckpointEvent(k, RecordRef(*at), said) for k, *at, said in rows])
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

    def load(self, document: dict[str, Any], name: str) -> dict[str, Any]:
        """The `frame` or the `metadata` of a checkpoint."""
        return self.serde.loads_typed(decode_part(document[name], document["coding"]))

    def value(self, at: RecordRef | None, channel: str) -> ChannelValue:
        """What a record holds for a channel, with everything that it builds on."""
        if at is None:
            return NOTHING
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

    def values(self, document: dict[str, Any], at: RecordRef) -> dict[str, Any]:
        """The channels' values of a checkpoint, as new objects."""
        found: dict[str, Any] = {}
        for channel in document["channels"]:
            value = self.value(value_ref(document, channel, at), channel)
            if value.shape != EMPTY:
                found[channel], self._cached[channel] = join_value(self.serde, value)
        return found

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
            own, grouped = draft.chunks(), self._grouped()
            # After it: a checkpoint names the writes that were there before it.
            drafts = [*own, *(each for _, other in grouped for each in other.chunks())]
            index = self.trail.index_due()
            drafts += [RecordDraft(INDEX, index)] if index else []
            try:
                records = self._add([self._entry(d, start + n) for n, d in enumerate(drafts)])
            except Conflict:
                continue
            self._follow(records)
            for waiting, _ in grouped:
                self._waiting.remove(waiting)
                waiting.done.set()
            return _ref(records[len(own) - 1])
        raise Conflict(self.name, expected=start, actual=self.trail.head.position)

    def _grouped(self) -> list[tuple[WaitingWrites, RecordDraft]]:
        """Writes that wait for a transaction to share; those with problems are left to their own
        thread, which raises them.
        """
        found: list[tuple[WaitingWrites, RecordDraft]] = []
        for each in [*self._waiting]:
            with suppress(InvalidInput, Damaged):
                draft = self._writes_draft(each.checkpoint, each.writes)
                found += [(each, draft)] if draft else []
        return found

    def _add(self, entries: list[StreamEntry]) -> list[Record]:
        """Write records, and with them what others had to write by now."""
        others: list[StreamEntry] = []
        while self._later:
            others.append(self._later.popleft())
        try:
            return self._streams.add(*entries, *others)[: len(entries)]
        except BaseException:
            self._later.extendleft(reversed(others))
            raise

    def _entry(self, draft: RecordDraft, position: int) -> StreamEntry:
        body = {"index": self.trail.index, **draft.body}
        return StreamEntry(self.name, draft.kind, "langgraph", body, draft.key, expect=position)

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

    def put(self, given: NewCheckpoint) -> None:
        """Record a checkpoint; a repeat changes nothing. Raises Conflict for a second successor."""
        values = {name: self._split(given, name) for name in given.versions if name in given.new}

        def compose() -> RecordDraft | None:
            key = self.trail.key(given.id)
            known = self._streams.keyed(self.name, key)
            if known is not None:
                self._check_same(given, _ref(known), values)
                return None
            self._check_parent(given)
            places = self._value_refs(given, values)
            for channel in given.values.keys() & given.versions.keys() - values.keys():
                if channel not in places:
                    values[channel] = self._split(given, channel)
            return self._draft(given, values, places, key)

        at = self.append(compose)
        if at is not None:
            changes = self.document(at)["held"]["values"]
            for channel, value in values.items():
                depth = changes[channel].get("depth", 0)
                self._values.put((at, channel), value._replace(depth=depth))

    def _split(self, given: NewCheckpoint, channel: str) -> ChannelValue:
        value = given.values.get(channel, NOTHING)
        if isinstance(value, ChannelValue):
            return value
        cached = self._cached.get(channel, [])
        found, self._cached[channel] = split_value(self.serde, value, cached)
        return found

    def _check_parent(self, given: NewCheckpoint) -> None:
        """Refuse a second successor of the same checkpoint, and a second beginning of a thread."""
        trail = self.trail
        if given.may_branch or not (given.parent or given.begins):
            return
        if given.parent not in trail.entries and trail.newest is not None:
            trail = self.complete()
        others = [name for name in trail.successors(given.parent) if name != given.id]
        if not given.parent:
            others = [name for name in others if trail.entries[name].begins]
        if others:
            parent = trail.entries.get(given.parent)
            raise self._branch_conflict(given, others[0], parent.at.position if parent else 0)

    def _branch_conflict(self, given: NewCheckpoint, other: str, position: int) -> Conflict:
        """The error for a writer whose checkpoint already has a successor."""
        place = f"checkpoint {given.parent}" if given.parent else "the beginning of the thread"
        error = Conflict(
            self.name,
            expected=position,
            actual=self.trail.head.position,
            detail=f"{place} already has the successor {other}; {given.id} was not recorded",
        )
        error.next_step = (
            "Read the thread again and run from its latest checkpoint. To branch on purpose, read "
            "the earlier checkpoint and continue from its config."
        )
        return error

    def _check_same(
        self, given: NewCheckpoint, known: RecordRef, values: dict[str, ChannelValue]
    ) -> None:
        """Raise Conflict unless a checkpoint that is there says the same."""
        document = self.document(known)
        parts = [decode_part(document[name], document["coding"]) for name in ("frame", "metadata")]
        same = [document["parent"], *parts] == [given.parent, given.frame, given.metadata]
        for channel, value in values.items():
            stored = self.value(value_ref(document, channel, known), channel)
            same = same and (stored.shape, stored.parts) == (value.shape, value.parts)
        if not same:
            other = f"another checkpoint {given.id}"
            raise self._branch_conflict(given, other, known.position)

    def _value_refs(
        self, given: NewCheckpoint, values: Mapping[str, ChannelValue]
    ) -> dict[str, RecordRef]:
        """Where the channels that aren't new have their values: found by their version."""
        missing = {channel for channel in given.versions if channel not in values}
        found: dict[str, RecordRef] = {}
        for entry in self._earlier_entries(given.parent):
            if not missing:
                break
            document = self.document(entry.at)
            for channel in sorted(missing):
                known = document["channels"].get(channel)
                if known and known[0] == given.versions[channel]:
                    missing.remove(channel)
                    if place := value_ref(document, channel, entry.at):
                        found[channel] = place
        return found

    def _earlier_entries(self, parent: str) -> Iterator[CheckpointEntry]:
        """A checkpoint's parent, then all others, the newest first."""
        if parent in self.trail.entries:
            yield self.trail.entries[parent]
        if self.trail.newest is not None:
            yield from sorted(self.complete().entries.values(), key=lambda e: -e.at.position)

    def _draft(
        self,
        given: NewCheckpoint,
        values: dict[str, ChannelValue],
        places: dict[str, RecordRef],
        key: str,
    ) -> RecordDraft:
        parent = self.trail.entries.get(given.parent)
        earlier = self.document(parent.at) if parent else None
        early = [at for at in self.trail.writes.get(given.id, ()) if at.position > self.trail.era]

        def change(channel: str, coding: str) -> dict[str, Any]:
            value = values[channel]
            at = value_ref(earlier, channel, parent.at) if earlier and parent else None
            base = self.value(at, channel) if at and value.shape != EMPTY else None
            return change_of(value, base, at, coding)

        def make(coding: str) -> dict[str, Any]:
            return {
                "id": given.id,
                "parent": given.parent,
                "begins": given.begins,
                "run": given.run,
                "early": [list(at) for at in early],
                "channels": {
                    name: [version, *((SAME_RECORD,) if name in values else places.get(name, ()))]
                    for name, version in given.versions.items()
                },
                "frame": encode_part(given.frame, coding),
                "metadata": encode_part(given.metadata, coding),
                "held": {"values": {channel: change(channel, coding) for channel in values}},
            }

        return encoded_draft(CHECKPOINT, make, key)

    def group_writes(self, checkpoint: str, writes: Sequence[StoredWrite]) -> None:
        """`put_writes`, in the transaction of the checkpoint if that follows at once. Don't hold
        `lock`: it returns when the writes are recorded.
        """
        waiting = WaitingWrites(checkpoint, writes, Event())
        self._waiting.append(waiting)
        if not waiting.done.wait(GROUP_DELAY_S):
            with self.lock:
                if not waiting.done.is_set():
                    self._waiting.remove(waiting)
                    self.put_writes(checkpoint, writes)

    def put_writes(self, checkpoint: str, writes: Sequence[StoredWrite]) -> None:
        """Record pending writes of a task; of a number that is there already, nothing, unless it
        is one of the special ones, which take the place of what was there.
        """
        self.append(lambda: self._writes_draft(checkpoint, writes))

    def _writes_draft(self, checkpoint: str, writes: Sequence[StoredWrite]) -> RecordDraft | None:
        known = {(each.task, each.number): each for each in self.writes_of(checkpoint)}
        new = [
            each
            for each in writes
            if (old := known.get((each.task, each.number))) is None
            or (each.number < 0 and each != old)
        ]

        def make(coding: str) -> dict[str, Any]:
            rows = [[*each[:4], *encode_part(each.part, coding)] for each in new]
            return {"checkpoint": checkpoint, "held": {"writes": rows}}

        return encoded_draft(WRITES, make) if new else None

    def writes_of(self, checkpoint: str) -> list[StoredWrite]:
        """The pending writes of a checkpoint, in the order in which LangGraph applies them."""
        found: dict[tuple[str, int], StoredWrite] = {}
        for at in self.trail.writes.get(checkpoint, ()):
            document = self.document(at)
            for path, task, number, channel, *text in document["held"]["writes"]:
                if number < 0 or (task, number) not in found:
                    part = decode_part(text, document["coding"])
                    found[task, number] = StoredWrite(path, task, number, channel, part)
        return sorted(found.values(), key=lambda each: (each.path, each.task, each.number))

    def hide(self, choose: Hide) -> None:
        """Record that what `choose` names of the complete tree is hidden."""

        def compose() -> RecordDraft | None:
            hide = choose(self.complete())
            return RecordDraft(HIDDEN, {"hide": hide}) if hide else None

        self.append(compose)

    def copy_to(self, target: CheckpointStream) -> None:
        """Record everything again in another stream, hidden where it is hidden here."""
        self.refresh()
        trail, there = self.complete(), target.refresh() and target.complete().everything
        for entry in sorted(trail.everything.values(), key=lambda each: each.at.position):
            if entry.id not in there:
                target.put(self._stored(entry))
        for name in trail.writes:
            target.put_writes(name, self.writes_of(name))
        gone = [name for name in trail.gone if name in target.complete().entries]
        target.hide(lambda _: {"ids": gone} if gone else None)

    def _stored(self, entry: CheckpointEntry) -> NewCheckpoint:
        """A checkpoint as it was recorded, its values in parts."""
        document = self.document(entry.at)
        places = {name: value_ref(document, name, entry.at) for name in document["channels"]}
        return NewCheckpoint(
            entry.id,
            entry.parent,
            entry.begins,
            entry.run,
            decode_part(document["frame"], document["coding"]),
            decode_part(document["metadata"], document["coding"]),
            {name: known[0] for name, known in document["channels"].items()},
            {name: self.value(place, name) for name, place in places.items() if place},
            frozenset(name for name, place in places.items() if place == entry.at),
            may_branch=True,
        )


BRANCH = "__passdown_branch_from"
"""In the config of a checkpoint that has a successor: continuing from it means to branch."""

_CACHED_STREAMS = 128


class _CheckpointKey(NamedTuple):
    thread: str
    namespace: str
    checkpoint: str
    branch: str


def _everything(trail: CheckpointTree) -> dict[str, Any] | None:
    return {"all": True} if trail.entries or trail.writes or trail.gone else None


def _all_but_newest(trail: CheckpointTree) -> dict[str, Any] | None:
    return {"keep": trail.newest} if len(trail.entries) > 1 else None


class LedgerSaver(BaseCheckpointSaver[str]):
    """Checkpoints of LangGraph in a workspace. Threads, tasks and processes may share it.

    By default only plain data, LangChain's messages and LangGraph's own types come back as what
    they were; give `serde` for anything else.
    """

    def __init__(self, workspace: AnyWorkspace, *, serde: SerializerProtocol | None = None) -> None:
        """Nothing is read or written yet. The workspace stays open for as long as this is used."""
        super().__init__(serde=serde or StrictSerializer())
        self.workspace = recording_workspace(workspace, "LedgerSaver")
        self._streams = WorkspaceStreams(self.workspace)
        self._later: deque[StreamEntry] = deque()
        self._cached: LruCache[tuple[str, str], CheckpointStream] = LruCache(_CACHED_STREAMS)
        self._lock = Lock()

    def _stream(self, thread: str, namespace: str) -> CheckpointStream:
        """The stream of a thread and a namespace, whether or not it has records."""
        with self._lock:
            key = (thread, namespace)
            return self._cached.get(key) or self._cached.put(
                key, CheckpointStream(self._streams, self.serde, *key, self._later)
            )

    def add_later(self, entry: StreamEntry) -> None:
        """Write a record together with the next checkpoint or its writes, in one transaction."""
        self._later.append(entry)

    def _known(self, thread: str | None) -> builtins.list[CheckpointStream]:
        """The streams of all that have records, or of one thread."""
        heads = self._streams.streams(PREFIX if thread is None else stream_name(thread))
        names = [head.stream.removeprefix(PREFIX).split("/") for head in heads]
        return [self._stream(unquote(thread), unquote(namespace)) for thread, namespace in names]

    def _hide(self, thread: str | None, choose: Hide) -> None:
        for stream in self._known(thread):
            with stream.lock:
                stream.hide(choose)

    def get_next_version(self, current: str | int | float | None, channel: None) -> str:
        """A version above `current`, and unlike any that another branch gives itself."""
        number = int(str(current).partition(".")[0]) if current is not None else 0
        return f"{number + 1:016}.{random.getrandbits(32):08x}"

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Record a checkpoint after the one that `config` names: of its channels, those that are
        new. The same again changes nothing.

        Raises Conflict if another checkpoint has followed that one since it was read.
        """
        place = _checkpoint_key(config)
        about = cast("dict[str, Any]", get_checkpoint_metadata(config, metadata))
        separate = ("channel_values", "channel_versions")
        frame = {name: part for name, part in checkpoint.items() if name not in separate}
        given = NewCheckpoint(
            checkpoint["id"],
            place.checkpoint,
            _starts_thread(place, about),
            str(about.get("run_id", "")),
            self.serde.dumps_typed(frame),
            self.serde.dumps_typed(about),
            checkpoint["channel_versions"],
            checkpoint["channel_values"],
            frozenset(new_versions),
            bool(place.branch) and place.branch == place.checkpoint,
        )
        stream = self._stream(*place[:2])
        with stream.lock:
            stream.put(given)
        return _config(stream, given.id)

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Record what a task wrote, before the checkpoint that it leads to.

        A write that is there already is kept, but errors, interrupts and resumes take the place of
        those before them.
        """
        place = _checkpoint_key(config)
        rows = [
            StoredWrite(task_path, task_id, WRITES_IDX_MAP.get(name, number), name, part)
            for number, (name, value) in enumerate(writes)
            for part in (self.serde.dumps_typed(value),)
        ]
        self._stream(*place[:2]).group_writes(place.checkpoint, rows)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that `config` names, else the latest; None if there is none.

        Raises Damaged, before anything is decoded, if a record isn't what was written.
        """
        place = _checkpoint_key(config)
        stream = self._stream(*place[:2])
        with stream.lock:
            trail = stream.refresh()
            name = place.checkpoint or trail.newest
            if name is not None and name not in trail.entries:
                trail = stream.complete()
                name = place.checkpoint or trail.newest
            entry = trail.entries.get(name) if name else None
            return self._tuple(stream, entry) if entry else None

    def _tuple(self, stream: CheckpointStream, entry: CheckpointEntry) -> CheckpointTuple:
        document = stream.document(entry.at)
        versions = {channel: known[0] for channel, known in document["channels"].items()}
        values = stream.values(document, entry.at)
        read = {"channel_values": values, "channel_versions": versions}
        has_successor = bool(stream.trail.successors(entry.id))
        return CheckpointTuple(
            _config(stream, entry.id, has_successor=has_successor),
            cast("Checkpoint", {**stream.load(document, "frame"), **read}),
            cast("CheckpointMetadata", stream.load(document, "metadata")),
            _config(stream, entry.parent, has_successor=True) if entry.parent else None,
            [
                (write.task, write.channel, self.serde.loads_typed(write.part))
                for write in stream.writes_of(entry.id)
            ],
        )

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """The checkpoints of a thread, a namespace or, without `config`, of all, newest first.

        `filter` compares metadata for equality, whatever the names and values are.
        """
        wanted = _checkpoint_key(config).checkpoint if config else ""
        bound = before.get("configurable", {}).get("checkpoint_id", "") if before else ""
        count = 0
        for stream, entry in self._entries(config):
            if limit is not None and count >= limit:
                return
            if (wanted and entry.id != wanted) or (bound and entry.id >= bound):
                continue
            with stream.lock:
                about = stream.load(stream.document(entry.at), "metadata") if filter else {}
                if filter and any(about.get(name) != filter[name] for name in filter):
                    continue
                found = self._tuple(stream, entry)
            count += 1
            yield found

    def _entries(
        self, config: RunnableConfig | None
    ) -> builtins.list[tuple[CheckpointStream, CheckpointEntry]]:
        """What may be listed, newest first."""
        thread = _checkpoint_key(config).thread if config else None
        namespace = config.get("configurable", {}).get("checkpoint_ns") if config else None
        found: builtins.list[tuple[CheckpointStream, CheckpointEntry]] = []
        for stream in self._known(thread):
            if namespace is None or stream.namespace == namespace:
                with stream.lock:
                    stream.refresh()
                    found += [(stream, entry) for entry in stream.complete().entries.values()]
        return sorted(found, key=lambda each: each[1].id, reverse=True)

    def delete_thread(self, thread_id: str) -> None:
        """Hide everything of a thread. The records stay in the ledger."""
        self._hide(str(thread_id), _everything)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Hide the checkpoints of these runs, and their writes, in all threads."""
        runs = frozenset(map(str, run_ids))

        def theirs(trail: CheckpointTree) -> dict[str, Any] | None:
            names = [each.id for each in trail.entries.values() if each.run and each.run in runs]
            return {"ids": names} if names else None

        self._hide(None, theirs)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Record a thread again under another name; if it breaks off, repeat it.

        What the target has already stays. What is hidden is copied too, and hidden again: values
        may be made of it.
        """
        for stream in self._known(str(source_thread_id)):
            target = self._stream(str(target_thread_id), stream.namespace)
            with stream.lock, target.lock:
                stream.copy_to(target)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Hide all but the latest checkpoint of each namespace, or with "delete" that one too.

        What was hidden still serves to rebuild delta channels.
        """
        if strategy not in ("keep_latest", "delete"):
            problem = Problem("strategy", "invalid_choice", repr(strategy), "keep_latest or delete")
            raise InvalidInput("nothing was pruned", [problem])
        for thread in thread_ids:
            self._hide(str(thread), _everything if strategy == "delete" else _all_but_newest)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """For each channel the writes since the last stored value, oldest first, and that value."""
        place = _checkpoint_key(config)
        stream = self._stream(*place[:2])
        writes: dict[str, builtins.list[PendingWrite]] = {channel: [] for channel in channels}
        seeds: dict[str, Any] = {}
        with stream.lock:
            stream.refresh()
            # What was hidden counts: a pruned thread still needs what its channels are made of.
            known = stream.complete().everything
            entry = known.get(place.checkpoint or stream.trail.newest or "")
            while entry is not None and (entry := known.get(entry.parent)) is not None:
                read = self._tuple(stream, entry)
                for write in reversed(read.pending_writes or ()):
                    if write[1] in writes and write[1] not in seeds:
                        writes[write[1]].append(write)
                values = read.checkpoint["channel_values"]
                seeds = {**{name: values[name] for name in writes if name in values}, **seeds}
                if len(seeds) == len(writes):
                    break
        found = {
            name: {"writes": each[::-1], **({"seed": seeds[name]} if name in seeds else {})}
            for name, each in writes.items()
        }
        return cast("Mapping[str, DeltaChannelHistory]", found)

    async def alist(self, *args: Any, **kwargs: Any) -> AsyncIterator[CheckpointTuple]:
        """`list`, each step in a thread."""
        found = self.list(*args, **kwargs)
        while (each := await asyncio.to_thread(next, found, None)) is not None:
            yield each

    aget_tuple = async_twin(get_tuple)
    aput = async_twin(put)
    aput_writes = async_twin(put_writes)
    adelete_thread = async_twin(delete_thread)
    adelete_for_runs = async_twin(delete_for_runs)
    acopy_thread = async_twin(copy_thread)
    aprune = async_twin(prune)
    aget_delta_channel_history = async_twin(get_delta_channel_history)


def _starts_thread(place: _CheckpointKey, about: dict[str, Any]) -> bool:
    """Whether this is how LangGraph starts a thread; subgraphs may start again within one."""
    is_first = (about.get("source"), about.get("step")) == ("input", -1)
    return is_first and not place.checkpoint and not place.namespace


def _checkpoint_key(config: RunnableConfig) -> _CheckpointKey:
    """What a config names; raises InvalidInput if it names no thread."""
    given = config.get("configurable", {})
    if "thread_id" not in given:
        expected = 'a config such as {"configurable": {"thread_id": "1"}}'
        problem = Problem("configurable.thread_id", "missing", "is not there", expected)
        raise InvalidInput("no thread is named", [problem])
    names = (given.get(name) or "" for name in ("checkpoint_ns", "checkpoint_id", BRANCH))
    return _CheckpointKey(str(given["thread_id"]), *names)


def _config(
    stream: CheckpointStream, checkpoint: str, *, has_successor: bool = False
) -> RunnableConfig:
    named = {"thread_id": stream.thread, "checkpoint_ns": stream.namespace}
    named |= {"checkpoint_id": checkpoint} | ({BRANCH: checkpoint} if has_successor else {})
    return {"configurable": named}

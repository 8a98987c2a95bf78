"""Record and read checkpoints and pending writes; hide, copy and list threads."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import quote, unquote

from passdown.adapters.langgraph.checkpoint_streams import (
    CHECKPOINT,
    EMPTY,
    HIDDEN,
    NOTHING,
    WRITES,
    ChannelValue,
    CheckpointStream,
    LruCache,
    Part,
    RecordDraft,
    RecordRef,
    change_of,
    decode_part,
    encode_body,
    encode_part,
    join_value,
    split_value,
)
from passdown.errors import Conflict, InvalidInput, Problem
from passdown.workspace.streams import WorkspaceStreams

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from langgraph.checkpoint.base import DeltaChannelHistory, PendingWrite
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from passdown import Workspace
    from passdown.adapters.langgraph.checkpoint_streams import CheckpointEntry, CheckpointEvent


SAME_RECORD = 0
"""Used as a position: the value is in the same record."""


class NewCheckpoint(NamedTuple):
    """A checkpoint that is to be recorded; `may_branch` when its parent was read as history."""

    id: str
    parent: str
    begins: bool
    run: str
    frame: Part
    metadata: Part
    versions: Mapping[str, str | int | float]
    values: dict[str, Any]
    new: frozenset[str]
    may_branch: bool


class StoredWrite(NamedTuple):
    """One pending write, in the order that LangGraph applies them."""

    path: str
    task: str
    number: int
    channel: str
    part: Part


def record_checkpoint(
    stream: CheckpointStream, serde: SerializerProtocol, given: NewCheckpoint
) -> None:
    """Record a checkpoint; a repeat changes nothing. Raises Conflict for a second successor."""
    with stream.lock:
        values: dict[str, ChannelValue] = {}
        for channel in given.versions:
            if channel in given.new:
                values[channel] = _split_channel(stream, serde, given, channel)

        def compose() -> RecordDraft | None:
            key = stream.trail.key(given.id)
            known = stream.by_key(key)
            if known is not None:
                _check_same(stream, given, known, values)
                return None
            _check_parent(stream, given)
            places = _value_refs(stream, given, values)
            for channel, place in places.items():
                if place is None and channel in given.values:
                    values[channel] = _split_channel(stream, serde, given, channel)
            return _draft(stream, given, values, places)._replace(key=key)

        at = stream.append(compose)
        if at is not None:
            changes = stream.document(at)["held"]["values"]
            for channel, value in values.items():
                depth = changes[channel].get("depth", 0)
                stream.keep(at, channel, value._replace(depth=depth))


def _split_channel(
    stream: CheckpointStream, serde: SerializerProtocol, given: NewCheckpoint, channel: str
) -> ChannelValue:
    if channel not in given.values:
        return NOTHING
    value, live = split_value(serde, given.values[channel], stream.live.get(channel, []))
    stream.live[channel] = live
    return value


def _check_parent(stream: CheckpointStream, given: NewCheckpoint) -> None:
    """Refuse a second successor of the same checkpoint, and a second beginning of a thread."""
    trail = stream.trail
    if given.may_branch or not (given.parent or given.begins):
        return
    if given.parent not in trail.entries and trail.newest is not None:
        trail = stream.complete()
    others = [name for name in trail.successors(given.parent) if name != given.id]
    if not given.parent:
        others = [name for name in others if trail.entries[name].begins]
    if others:
        parent = trail.entries.get(given.parent)
        raise branch_conflict(stream, given, others[0], parent.at.position if parent else 0)


def branch_conflict(
    stream: CheckpointStream, given: NewCheckpoint, other: str, position: int
) -> Conflict:
    """The error for a writer whose checkpoint already has a successor."""
    place = f"checkpoint {given.parent}" if given.parent else "the beginning of the thread"
    error = Conflict(
        stream.name,
        expected=position,
        actual=stream.trail.head.position,
        detail=f"{place} already has the successor {other}; {given.id} was not recorded",
    )
    error.next_step = (
        "Read the thread again and run from its latest checkpoint. To branch on purpose, read the "
        "earlier checkpoint and continue from its config."
    )
    return error


def _check_same(
    stream: CheckpointStream,
    given: NewCheckpoint,
    known: RecordRef,
    values: dict[str, ChannelValue],
) -> None:
    """Whether a checkpoint that is there says the same; raises Conflict otherwise."""
    document = stream.document(known)
    coding = document["coding"]
    same = document["parent"] == given.parent
    same = same and decode_part(document["frame"], coding) == given.frame
    same = same and decode_part(document["metadata"], coding) == given.metadata
    for channel, value in values.items():
        place = value_ref(document, channel, known)
        stored = stream.value(place, channel) if place else NOTHING
        same = same and (stored.shape, stored.parts) == (value.shape, value.parts)
    if not same:
        raise branch_conflict(stream, given, f"another checkpoint {given.id}", known.position)


def value_ref(document: dict[str, Any], channel: str, at: RecordRef) -> RecordRef | None:
    """The record that holds the value of a channel at a checkpoint; None without one."""
    _, *place = document["channels"].get(channel, [None])
    if not place:
        return None
    return at if place[0] == SAME_RECORD else RecordRef(*place)


def _value_refs(
    stream: CheckpointStream, given: NewCheckpoint, values: Mapping[str, ChannelValue]
) -> dict[str, RecordRef | None]:
    """Where the channels that aren't new have their values: found by their version."""
    missing = [channel for channel in given.versions if channel not in values]
    places: dict[str, RecordRef | None] = dict.fromkeys(missing)
    parent = stream.trail.entries.get(given.parent)
    if parent is not None:
        missing = _found_in(stream, given, parent.at, places)
    if missing and stream.trail.newest is not None:
        entries = stream.complete().entries.values()
        for entry in sorted(entries, key=lambda entry: -entry.at.position):
            if not missing:
                break
            missing = _found_in(stream, given, entry.at, places)
    return places


def _found_in(
    stream: CheckpointStream,
    given: NewCheckpoint,
    at: RecordRef,
    places: dict[str, RecordRef | None],
) -> list[str]:
    """Take places from one checkpoint, where the version is the same; gives what is still open."""
    document = stream.document(at)
    still: list[str] = []
    for channel in [channel for channel, place in places.items() if place is None]:
        known = document["channels"].get(channel)
        if known and known[0] == given.versions[channel]:
            places[channel] = value_ref(document, channel, at)
        else:
            still.append(channel)
    return still


def _draft(
    stream: CheckpointStream,
    given: NewCheckpoint,
    values: dict[str, ChannelValue],
    places: dict[str, RecordRef | None],
) -> RecordDraft:
    parent = stream.trail.entries.get(given.parent)
    earlier = stream.document(parent.at) if parent else None
    channels: dict[str, list[Any]] = {}
    for channel, version in given.versions.items():
        place = places.get(channel)
        channels[channel] = [version, *((SAME_RECORD,) if channel in values else place or ())]

    def change(channel: str, value: ChannelValue, coding: str) -> dict[str, Any]:
        at = value_ref(earlier, channel, parent.at) if earlier and parent else None
        base = stream.value(at, channel) if at and value.shape != EMPTY else None
        return change_of(value, base, at, coding)

    def make(coding: str) -> dict[str, Any]:
        return {
            "id": given.id,
            "parent": given.parent,
            "begins": given.begins,
            "run": given.run,
            "early": [list(at) for at in stream.trail.early_writes(given.id)],
            "channels": channels,
            "frame": encode_part(given.frame, coding),
            "metadata": encode_part(given.metadata, coding),
            "held": {
                "values": {channel: change(channel, values[channel], coding) for channel in values}
            },
        }

    body = encode_body(make)
    held = cast("dict[str, Any]", body.pop("held"))
    return RecordDraft(CHECKPOINT, body, held)


def read_values(
    stream: CheckpointStream, serde: SerializerProtocol, document: dict[str, Any], at: RecordRef
) -> dict[str, Any]:
    """The channels' values of a checkpoint, as new objects."""
    found: dict[str, Any] = {}
    for channel in document["channels"]:
        place = value_ref(document, channel, at)
        value = stream.value(place, channel) if place else NOTHING
        if value.shape != EMPTY:
            found[channel], stream.live[channel] = join_value(serde, value)
    return found


def record_writes(stream: CheckpointStream, checkpoint: str, writes: Sequence[StoredWrite]) -> None:
    """Record pending writes of a task; of a number that is there already, nothing, unless it is
    one of the special ones, which take the place of what was there.
    """

    def compose() -> RecordDraft | None:
        known = {(each.task, each.number): each for each in writes_of(stream, checkpoint)}
        new = [each for each in writes if _is_new(each, known.get((each.task, each.number)))]
        if not new:
            return None

        def make(coding: str) -> dict[str, Any]:
            rows = [
                [each.path, each.task, each.number, each.channel, *encode_part(each.part, coding)]
                for each in new
            ]
            return {"checkpoint": checkpoint, "held": {"writes": rows}}

        body = encode_body(make)
        held = cast("dict[str, Any]", body.pop("held"))
        return RecordDraft(WRITES, body, held)

    with stream.lock:
        stream.append(compose)


def _is_new(write: StoredWrite, known: StoredWrite | None) -> bool:
    return known is None or (write.number < 0 and write != known)


def writes_of(stream: CheckpointStream, checkpoint: str) -> list[StoredWrite]:
    """The pending writes of a checkpoint, in the order in which LangGraph applies them."""
    found: dict[tuple[str, int], StoredWrite] = {}
    for at in stream.trail.writes.get(checkpoint, ()):
        document = stream.document(at)
        for path, task, number, channel, kind, text in document["held"]["writes"]:
            part = decode_part([kind, text], document["coding"])
            if number < 0 or (task, number) not in found:
                found[task, number] = StoredWrite(path, task, number, channel, part)
    return sorted(found.values(), key=lambda each: (each.path, each.task, each.number))


def delta_history(
    stream: CheckpointStream, serde: SerializerProtocol, checkpoint: str, channels: Sequence[str]
) -> dict[str, DeltaChannelHistory]:
    """Walk from a checkpoint's parent to the beginning, each channel up to its last stored value.

    What was hidden counts: a pruned thread still needs what its channels are made of.
    """
    stream.refresh()
    trail = stream.complete()
    known = {**trail.gone, **trail.entries}
    target = known.get(checkpoint or trail.newest or "")
    writes: dict[str, list[PendingWrite]] = {channel: [] for channel in channels}
    seeds: dict[str, Any] = {}
    entry = known.get(target.parent) if target else None
    while entry is not None and len(seeds) < len(writes):
        for write in reversed(writes_of(stream, entry.id)):
            if write.channel in writes and write.channel not in seeds:
                found = (write.task, write.channel, serde.loads_typed(write.part))
                writes[write.channel].append(found)
        seeds |= _stored_values(
            stream, serde, entry, [name for name in writes if name not in seeds]
        )
        entry = known.get(entry.parent)
    return {name: _channel_history(writes[name], name, seeds) for name in writes}


def _stored_values(
    stream: CheckpointStream, serde: SerializerProtocol, entry: CheckpointEntry, channels: list[str]
) -> dict[str, Any]:
    """The values that a checkpoint has of some channels."""
    document = stream.document(entry.at)
    found: dict[str, Any] = {}
    for channel in channels:
        place = value_ref(document, channel, entry.at)
        value = stream.value(place, channel) if place else None
        if value is not None and value.shape != EMPTY:
            found[channel] = join_value(serde, value)[0]
    return found


def _channel_history(
    newest_first: list[PendingWrite], channel: str, seeds: dict[str, Any]
) -> DeltaChannelHistory:
    writes = newest_first[::-1]
    return {"writes": writes, "seed": seeds[channel]} if channel in seeds else {"writes": writes}


PREFIX = "checkpoint/"
_CACHED_STREAMS = 128


class CheckpointThreads:
    """The threads of one workspace; those used last are cached."""

    def __init__(self, workspace: Workspace) -> None:
        """Nothing is read yet."""
        self._streams = WorkspaceStreams(workspace)
        self._cached: LruCache[str, CheckpointStream] = LruCache(_CACHED_STREAMS)
        self._lock = Lock()

    def stream(self, thread: str, namespace: str) -> CheckpointStream:
        """The stream of a thread and a namespace, whether or not it has records."""
        name = f"{PREFIX}{_quoted(thread)}/{_quoted(namespace)}"
        with self._lock:
            return self._cached.get(name) or self._cached.put(
                name, CheckpointStream(self._streams, name)
            )

    def known(self, thread: str | None) -> list[tuple[str, str, CheckpointStream]]:
        """Thread, namespace and stream of all that have records, or of one thread's."""
        prefix = PREFIX if thread is None else f"{PREFIX}{_quoted(thread)}/"
        heads = self._streams.streams(prefix)
        names = [head.stream.removeprefix(PREFIX).split("/") for head in heads]
        places = [(unquote(thread), unquote(namespace)) for thread, namespace in names]
        return [(*place, self.stream(*place)) for place in places]

    def hide_all(self, thread: str) -> None:
        """Hide everything of a thread."""
        for _, _, stream in self.known(thread):
            _hide(stream, _everything)

    def keep_newest(self, thread: str) -> None:
        """Hide all but the newest checkpoint of each namespace."""

        def others(stream: CheckpointStream) -> dict[str, Any] | None:
            trail = stream.complete()
            return {"keep": trail.newest} if len(trail.entries) > 1 else None

        for _, _, stream in self.known(thread):
            _hide(stream, others)

    def hide_runs(self, runs: frozenset[str]) -> None:
        """Hide the checkpoints of some runs, in all threads."""

        def theirs(stream: CheckpointStream) -> dict[str, Any] | None:
            entries = stream.complete().entries.values()
            names = [entry.id for entry in entries if entry.run and entry.run in runs]
            return {"ids": names} if names else None

        for _, _, stream in self.known(None):
            _hide(stream, theirs)

    def copy(self, source: str, target: str) -> None:
        """Record a thread again under another name, namespace by namespace, record by record.

        What the target has already is left out, so that a copy which broke off is completed.
        """
        for _, namespace, stream in self.known(source):
            with stream.lock:
                stream.refresh()
                events = stream.all_events()
                _copy_events(stream, events, self.stream(target, namespace))


def _everything(stream: CheckpointStream) -> dict[str, Any] | None:
    trail = stream.complete()
    return {"all": True} if trail.entries or trail.writes or trail.gone else None


def _hide(
    stream: CheckpointStream, choose: Callable[[CheckpointStream], dict[str, Any] | None]
) -> None:
    def compose() -> RecordDraft | None:
        hide = choose(stream)
        return RecordDraft(HIDDEN, {"hide": hide}) if hide else None

    with stream.lock:
        stream.append(compose)


def _copy_events(
    source: CheckpointStream, events: list[CheckpointEvent], target: CheckpointStream
) -> None:
    """Events of a stream as new records of another, with every reference put right."""
    whole = max((i for i, e in enumerate(events) if "all" in e.said.get("hide", ())), default=-1)
    moved: dict[int, RecordRef] = {}
    with target.lock:
        target.refresh()
        there = target.complete()
        copied = {at for name in there.writes for at in _origins(target, name)}
        for event in events[whole + 1 :]:
            known = there.entries.get(event.said.get("id", ""))
            if known or (event.kind == WRITES and event.at.position in copied):
                moved[event.at.position] = known.at if known else event.at
                continue
            draft = _moved_draft(source, event, moved)
            at = target.append(_keyed(target, draft)) if draft else None
            moved[event.at.position] = at or event.at


def _keyed(target: CheckpointStream, draft: RecordDraft) -> Callable[[], RecordDraft]:
    def compose() -> RecordDraft:
        name = draft.body.get("id", "")
        return draft._replace(key=target.trail.key(name)) if name else draft

    return compose


def _origins(target: CheckpointStream, name: str) -> list[int]:
    """The positions that a checkpoint's writes had where they were copied from."""
    return [target.document(at).get("copied_from", 0) for at in target.trail.writes[name]]


def _moved_draft(
    source: CheckpointStream, event: CheckpointEvent, moved: dict[int, RecordRef]
) -> RecordDraft | None:
    if event.kind == HIDDEN:
        return RecordDraft(HIDDEN, {"hide": event.said["hide"]})
    if event.kind not in (CHECKPOINT, WRITES):
        return None
    body: dict[str, Any] = {**source.document(event.at), "copied_from": event.at.position}
    held = body.pop("held")
    for dropped in ("index", "pieces"):
        body.pop(dropped, None)
    if event.kind == CHECKPOINT:
        body["early"] = [list(moved[position]) for position, _ in body["early"]]
        body["channels"] = {
            name: [version, *(moved[place[0]] if len(place) > 1 else place)]
            for name, (version, *place) in body["channels"].items()
        }
        held = {"values": {name: _rebased(each, moved) for name, each in held["values"].items()}}
    return RecordDraft(event.kind, body, held)


def _rebased(change: dict[str, Any], moved: dict[int, RecordRef]) -> dict[str, Any]:
    if "base" not in change:
        return change
    return {**change, "base": list(moved[change["base"][0]])}


def _quoted(name: str) -> str:
    """A name with nothing in it that parts a stream's name; raises InvalidInput."""
    try:
        return quote(name, safe="")
    except UnicodeEncodeError:
        problem = Problem("configurable", "lone_surrogate", "half a character", "proper text")
        raise InvalidInput("this can't be the name of a thread", [problem]) from None

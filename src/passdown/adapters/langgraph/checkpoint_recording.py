"""Checkpoints in and out of a stream: which channels are new, who may follow whom, what repeats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.adapters.langgraph.checkpoint_streams import Draft
from passdown.adapters.langgraph.checkpoint_trail import CHECKPOINT, WRITES
from passdown.adapters.langgraph.checkpoint_values import (
    EMPTY,
    NOTHING,
    Part,
    Ref,
    Value,
    change_of,
    part_of,
    put_together,
    taken_apart,
    text_of,
    untouched_body,
)
from passdown.errors import Conflict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langgraph.checkpoint.serde.base import SerializerProtocol

    from passdown.adapters.langgraph.checkpoint_streams import Stream

HERE = 0
"""In the place of a position: the value stands in the same record."""


class Given(NamedTuple):
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


class Write(NamedTuple):
    """One pending write, in the order that LangGraph applies them."""

    path: str
    task: str
    number: int
    channel: str
    part: Part


def record_checkpoint(stream: Stream, serde: SerializerProtocol, given: Given) -> None:
    """Record a checkpoint; a repeat changes nothing. Raises Conflict for a second successor."""
    with stream.lock:
        values: dict[str, Value] = {}
        for channel in given.versions:
            if channel in given.new:
                values[channel] = _apart(stream, serde, given, channel)

        def compose() -> Draft | None:
            key = stream.trail.key(given.id)
            known = stream.by_key(key)
            if known is not None:
                _check_same(stream, given, known, values)
                return None
            _check_parent(stream, given)
            places = _places(stream, given, values)
            for channel, place in places.items():
                if place is None and channel in given.values:
                    values[channel] = _apart(stream, serde, given, channel)
            return _draft(stream, given, values, places)._replace(key=key)

        at = stream.append(compose)
        if at is not None:
            changes = stream.document(at)["held"]["values"]
            for channel, value in values.items():
                depth = changes[channel].get("depth", 0)
                stream.keep(at, channel, value._replace(depth=depth))


def _apart(stream: Stream, serde: SerializerProtocol, given: Given, channel: str) -> Value:
    if channel not in given.values:
        return NOTHING
    value, live = taken_apart(serde, given.values[channel], stream.live.get(channel, []))
    stream.live[channel] = live
    return value


def _check_parent(stream: Stream, given: Given) -> None:
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
        raise second_writer(stream, given, others[0], parent.at.position if parent else 0)


def second_writer(stream: Stream, given: Given, other: str, position: int) -> Conflict:
    """The error of a writer who worked from a checkpoint that has been gone on from."""
    place = f"checkpoint {given.parent}" if given.parent else "the beginning of the thread"
    error = Conflict(
        stream.name,
        expected=position,
        actual=stream.trail.head.position,
        detail=f"{place} was gone on from already, by {other}; {given.id} was not recorded",
    )
    error.next_step = (
        "Read the thread again and run from its latest checkpoint. To branch off on purpose, read "
        "the earlier checkpoint now and go on from the config that comes with it."
    )
    return error


def _check_same(stream: Stream, given: Given, known: Ref, values: dict[str, Value]) -> None:
    """Whether a checkpoint that is there says the same; raises Conflict otherwise."""
    document = stream.document(known)
    coding = document["coding"]
    same = document["parent"] == given.parent
    same = same and part_of(document["frame"], coding) == given.frame
    same = same and part_of(document["metadata"], coding) == given.metadata
    for channel, value in values.items():
        place = place_of(document, channel, known)
        stored = stream.value(place, channel) if place else NOTHING
        same = same and (stored.shape, stored.parts) == (value.shape, value.parts)
    if not same:
        raise second_writer(stream, given, f"another checkpoint {given.id}", known.position)


def place_of(document: dict[str, Any], channel: str, at: Ref) -> Ref | None:
    """Where the value of a channel stands, by the record of a checkpoint; None for nowhere."""
    _, *place = document["channels"].get(channel, [None])
    if not place:
        return None
    return at if place[0] == HERE else Ref(*place)


def _places(stream: Stream, given: Given, values: Mapping[str, Value]) -> dict[str, Ref | None]:
    """Where the channels that aren't new have their values: found by their version."""
    missing = [channel for channel in given.versions if channel not in values]
    places: dict[str, Ref | None] = dict.fromkeys(missing)
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


def _found_in(stream: Stream, given: Given, at: Ref, places: dict[str, Ref | None]) -> list[str]:
    """Take places from one checkpoint, where the version is the same; gives what is still open."""
    document = stream.document(at)
    still: list[str] = []
    for channel in [channel for channel, place in places.items() if place is None]:
        known = document["channels"].get(channel)
        if known and known[0] == given.versions[channel]:
            places[channel] = place_of(document, channel, at)
        else:
            still.append(channel)
    return still


def _draft(
    stream: Stream, given: Given, values: dict[str, Value], places: dict[str, Ref | None]
) -> Draft:
    parent = stream.trail.entries.get(given.parent)
    earlier = stream.document(parent.at) if parent else None
    channels: dict[str, list[Any]] = {}
    for channel, version in given.versions.items():
        place = places.get(channel)
        channels[channel] = [version, *((HERE,) if channel in values else place or ())]

    def change(channel: str, value: Value, coding: str) -> dict[str, Any]:
        at = place_of(earlier, channel, parent.at) if earlier and parent else None
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
            "frame": text_of(given.frame, coding),
            "metadata": text_of(given.metadata, coding),
            "held": {
                "values": {channel: change(channel, values[channel], coding) for channel in values}
            },
        }

    body = untouched_body(make)
    held = cast("dict[str, Any]", body.pop("held"))
    return Draft(CHECKPOINT, body, held)


def read_values(
    stream: Stream, serde: SerializerProtocol, document: dict[str, Any], at: Ref
) -> dict[str, Any]:
    """The channels' values of a checkpoint, as new objects."""
    found: dict[str, Any] = {}
    for channel in document["channels"]:
        place = place_of(document, channel, at)
        value = stream.value(place, channel) if place else NOTHING
        if value.shape != EMPTY:
            found[channel], stream.live[channel] = put_together(serde, value)
    return found


def record_writes(stream: Stream, checkpoint: str, writes: Sequence[Write]) -> None:
    """Record pending writes of a task; of a number that is there already, nothing, unless it is
    one of the special ones, which take the place of what was there.
    """

    def compose() -> Draft | None:
        known = {(each.task, each.number): each for each in writes_of(stream, checkpoint)}
        new = [each for each in writes if _is_new(each, known.get((each.task, each.number)))]
        if not new:
            return None

        def make(coding: str) -> dict[str, Any]:
            rows = [
                [each.path, each.task, each.number, each.channel, *text_of(each.part, coding)]
                for each in new
            ]
            return {"checkpoint": checkpoint, "held": {"writes": rows}}

        body = untouched_body(make)
        held = cast("dict[str, Any]", body.pop("held"))
        return Draft(WRITES, body, held)

    with stream.lock:
        stream.append(compose)


def _is_new(write: Write, known: Write | None) -> bool:
    return known is None or (write.number < 0 and write != known)


def writes_of(stream: Stream, checkpoint: str) -> list[Write]:
    """The pending writes of a checkpoint, in the order in which LangGraph applies them."""
    found: dict[tuple[str, int], Write] = {}
    for at in stream.trail.writes.get(checkpoint, ()):
        document = stream.document(at)
        for path, task, number, channel, kind, text in document["held"]["writes"]:
            part = part_of([kind, text], document["coding"])
            if number < 0 or (task, number) not in found:
                found[task, number] = Write(path, task, number, channel, part)
    return sorted(found.values(), key=lambda each: (each.path, each.task, each.number))

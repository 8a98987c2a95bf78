"""What delta channels are rebuilt from: the last value that was stored, and the writes since."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.adapters.langgraph.checkpoint_recording import place_of, writes_of
from passdown.adapters.langgraph.checkpoint_values import EMPTY, put_together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langgraph.checkpoint.base import DeltaChannelHistory, PendingWrite
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from passdown.adapters.langgraph.checkpoint_streams import Stream
    from passdown.adapters.langgraph.checkpoint_trail import Entry


def delta_history(
    stream: Stream, serde: SerializerProtocol, checkpoint: str, channels: Sequence[str]
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
        seeds |= _stored(stream, serde, entry, [name for name in writes if name not in seeds])
        entry = known.get(entry.parent)
    return {name: _entry(writes[name], name, seeds) for name in writes}


def _stored(
    stream: Stream, serde: SerializerProtocol, entry: Entry, channels: list[str]
) -> dict[str, Any]:
    """The values that a checkpoint has of some channels."""
    document = stream.document(entry.at)
    found: dict[str, Any] = {}
    for channel in channels:
        place = place_of(document, channel, entry.at)
        value = stream.value(place, channel) if place else None
        if value is not None and value.shape != EMPTY:
            found[channel] = put_together(serde, value)[0]
    return found


def _entry(
    newest_first: list[PendingWrite], channel: str, seeds: dict[str, Any]
) -> DeltaChannelHistory:
    writes = newest_first[::-1]
    return {"writes": writes, "seed": seeds[channel]} if channel in seeds else {"writes": writes}

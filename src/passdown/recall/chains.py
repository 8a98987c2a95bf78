"""Chains of decisions: which one holds where an earlier one was superseded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.model.kinds import LIVE

if TYPE_CHECKING:
    from passdown.store.found import Entry
    from passdown.store.statements import Reader

_MOST_LOOKED_AT = 200


def successor(reader: Reader, entry: Entry) -> Entry | None:
    """The newest decision that holds at an end of the chains from a superseded one.

    Where none holds any more, the newest at an end; None where nothing supersedes it.
    """
    seen = {entry.address}
    waiting = [entry]
    ends: list[Entry] = []
    while waiting and len(seen) < _MOST_LOOKED_AT:
        place = waiting.pop()
        if place is not entry and place.status in LIVE:
            ends.append(place)
            continue
        edges = reader.edges(target=place.address, relation="supersedes")
        found = (reader.entry_at(edge.source) for edge in edges if edge.source not in seen)
        by = [one for one in found if one is not None]
        seen.update(one.address for one in by)
        waiting += by
        if not by and place is not entry:
            ends.append(place)
    return max(ends, key=lambda one: (one.status in LIVE, one.id), default=None)

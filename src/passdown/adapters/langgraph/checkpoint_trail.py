"""Where the checkpoints of one stream stand: folded from its records, in order.

A trail may know only the end of its stream. That is enough for what came last, since children,
writes and hidings of a checkpoint all come after it; for anything earlier the caller folds the
whole. Index records hold what a stretch of records says, so that neither reads the values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.adapters.langgraph.checkpoint_values import Ref

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.model.record import Record

CHECKPOINT = "checkpoint"
WRITES = "checkpoint_writes"
HIDDEN = "checkpoints_hidden"
INDEX = "checkpoint_index"
PIECE = "checkpoint_piece"

STRETCH = 64
"""After how many records an index record is due."""
LONGEST = 512
"""How many records one index record covers at most: after a copy there is more to cover."""


class Entry(NamedTuple):
    """A checkpoint: where it stands, what it follows, who made it.

    `begins` when it is how LangGraph starts a thread.
    """

    id: str
    at: Ref
    parent: str
    begins: bool
    run: str


class Event(NamedTuple):
    """What a record says to the trail: its kind and place, and the names in it."""

    kind: str
    at: Ref
    said: dict[str, Any]

    def row(self) -> list[Any]:
        """The event for an index record."""
        return [self.kind, *self.at, self.said]


def event_of(record: Record, document: dict[str, Any]) -> Event:
    """What a record says."""
    names = {
        CHECKPOINT: ("id", "parent", "begins", "run", "early"),
        WRITES: ("checkpoint",),
        HIDDEN: ("hide",),
        INDEX: ("until", "newest"),
    }.get(record.kind, ())
    said = {name: document[name] for name in names}
    return Event(record.kind, Ref(record.position, record.digest), said)


def event_of_row(row: Sequence[Any]) -> Event:
    """An event out of an index record."""
    kind, position, digest, said = row
    return Event(kind, Ref(position, digest), said)


class Trail:
    """The checkpoints of one stream that are to be seen, and what belongs to each."""

    def __init__(self, *, is_complete: bool = True) -> None:
        """An empty trail; one that isn't complete begins in the middle of its stream."""
        self.is_complete = is_complete
        self.head = Ref(0, "")
        self.entries: dict[str, Entry] = {}
        self.gone: dict[str, Entry] = {}
        self.writes: dict[str, list[Ref]] = {}
        self.era = 0
        self.index = 0
        self.uncovered: list[Event] = []
        self._children: dict[str, list[str]] = {}
        self._earlier_newest = ""

    def apply(self, event: Event) -> None:
        """Go one record on."""
        self.head = event.at
        self.uncovered.append(event)
        if event.kind == CHECKPOINT:
            self._add(Entry(event.said["id"], event.at, *_origin(event.said)))
            # Writes can be recorded before the checkpoint that they belong to.
            self.writes[event.said["id"]] = [Ref(*ref) for ref in event.said["early"]]
        elif event.kind == WRITES:
            self.writes.setdefault(event.said["checkpoint"], []).append(event.at)
        elif event.kind == HIDDEN:
            self._hide(event.said["hide"])
            self.era = event.at.position
        elif event.kind == INDEX:
            self.index = event.at.position
            until = event.said["until"]
            self.uncovered = [each for each in self.uncovered if each.at.position > until]

    def begin_after(self, newest: str) -> None:
        """Begin where an index record ends: `newest` is the newest checkpoint up to there."""
        self._earlier_newest = newest

    def _add(self, entry: Entry) -> None:
        self.entries[entry.id] = entry
        self.gone.pop(entry.id, None)
        self._children.setdefault(entry.parent, []).append(entry.id)

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
            # An earlier one may have been the newest: only the whole trail can tell.
            self._earlier_newest = "" if self.is_complete else "\uffff"

    def key(self, name: str) -> str:
        """The key that the record of a checkpoint has: another after something was hidden."""
        return f"checkpoint {self.era} {name}"

    def successors(self, name: str) -> list[str]:
        """The checkpoints that follow one and are to be seen."""
        return [child for child in self._children.get(name, ()) if child in self.entries]

    @property
    def newest(self) -> str | None:
        """The checkpoint with the highest id; "" where only the whole trail could tell."""
        found = max(self.entries, default=None)
        if self.is_complete:
            return found
        return found if found and found >= self._earlier_newest else ""

    def early_writes(self, name: str) -> list[Ref]:
        """The writes of a checkpoint that is about to be recorded itself."""
        return [at for at in self.writes.get(name, ()) if at.position > self.era]

    def index_due(self) -> dict[str, Any] | None:
        """The body of an index record over what none covers yet, once that is a stretch."""
        if len(self.uncovered) < STRETCH:
            return None
        covered = self.uncovered[:LONGEST]
        newest = self.newest or self._earlier_newest
        return {
            "index": self.index,
            "until": covered[-1].at.position,
            "newest": newest,
            "events": [event.row() for event in covered if event.kind != PIECE],
        }


def _origin(said: dict[str, Any]) -> tuple[str, bool, str]:
    return said["parent"], said["begins"], said["run"]

"""One step of the fold: where a task stands, what a record does to it, and the work in between."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from passdown.model.item_text import Sizes, labels_of, measure, sizes_text
from passdown.model.items import entry_of, fingerprint, grade_of, title_of
from passdown.model.kinds import KINDS, LIVE, task_of
from passdown.model.rows import ItemRow, LabelRow, StatusChange
from passdown.model.values import NamedTuple

if TYPE_CHECKING:
    from passdown.model.record import Record


# Kinds of items of which nobody asks whether the same one was recorded before.
_NEVER_REPEATED = "hak"


class Prepared(NamedTuple):
    """What a row says of an entry, whatever its number and its place in the ledger."""

    title: str
    fingerprint: str
    path: str
    grade: str
    labels: tuple[str, ...]
    sizes: Sizes | None


Items = Mapping[tuple[str, str, int], Prepared]
"""The entries of a body, prepared, by letter, field and place."""

NOT_PREPARED: Items = MappingProxyType({})


def prepared(letter: str, field: str, entry: dict[str, Any], *, sized: bool) -> Prepared:
    """Prepare one entry; its sizes are counted only if they are wanted."""
    return Prepared(
        title=title_of(entry, "blocker" if field == "blockers" else KINDS[letter].text),
        fingerprint="" if letter in _NEVER_REPEATED else fingerprint(entry),
        path=entry["path"] if letter == "a" else "",
        grade=grade_of(letter, entry),
        labels=tuple(labels_of(letter, entry)),
        sizes=measure(letter, entry) if sized else None,
    )


def prepared_items(body: dict[str, Any]) -> Items:
    """Prepare the items of a body beforehand: it takes time, and writers wait for each other."""
    found: dict[tuple[str, str, int], Prepared] = {}
    for letter, kind in KINDS.items():
        entries = () if letter == "h" else body.get(kind.field, ())
        for index in range(len(entries)):
            entry = entry_of(body, kind.field, index)
            found[letter, kind.field, index] = prepared(letter, kind.field, entry, sized=True)
    if "outcome" in body:
        entry = entry_of(body, "handoff", 0)
        found["h", "handoff", 0] = prepared("h", "handoff", entry, sized=True)
    return found


class Before(NamedTuple):
    """What `changes` needs to know of a task: never its past, only where it stands.

    `settled` has the status of items that aren't open and that the record names.
    """

    details: dict[str, Any]
    header: dict[str, Any]
    open_items: tuple[ItemRow, ...]
    known_paths: Mapping[str, str] = MappingProxyType({})
    status: str = ""
    settled: Mapping[tuple[str, int], str] = MappingProxyType({})


class Changes(NamedTuple):
    """What one record does. `links` are (source address, relation, target); `unlinked` closes every
    link of a source. `inbox` is (agent, held), ("", False) to clear it, None to leave it alone.
    """

    details: dict[str, Any] | None
    header: dict[str, Any]
    added: list[ItemRow]
    changed: list[StatusChange]
    links: list[tuple[str, str, str]]
    unlinked: list[str]
    inbox: tuple[str, bool] | None
    labels: list[LabelRow]


NOTHING = Before({}, {}, ())


class Step:
    """The changes of one record while they are being worked out."""

    def __init__(
        self,
        before: Before,
        record: Record,
        body: dict[str, Any],
        *,
        sized: bool,
        items: Items,
    ) -> None:
        """Begin with where the task stands."""
        self._sized = sized
        self._items = items
        self.record = record
        self.body = body
        self.task = task_of(record.stream) or ""
        self.details: dict[str, Any] | None = None
        self.old_details = before.details
        self.header: dict[str, Any] = {
            **before.header,
            "counts": dict(before.header.get("counts", {})),
            "live": dict(before.header.get("live", {})),
            "updated_at": record.at,
        }
        self.known_paths = before.known_paths
        self.open = {(row.letter, row.ordinal): row for row in before.open_items}
        self.added: list[ItemRow] = []
        self.changed: list[StatusChange] = []
        self.links: list[tuple[str, str, str]] = []
        self.unlinked: list[str] = []
        self.inbox: tuple[str, bool] | None = None
        self.labels: list[LabelRow] = []
        self._settled = dict(before.settled)

    def result(self) -> Changes:
        """What came of it."""
        return Changes(
            self.details,
            self.header,
            self.added,
            self.changed,
            self.links,
            self.unlinked,
            self.inbox,
            self.labels,
        )

    def add(self, letter: str, index: int, *, field: str = "", status: str = "") -> ItemRow:
        """Add the item that stands at `field[index]` of the body, numbered within its kind."""
        kind = KINDS[letter]
        field = field or kind.field
        entry = entry_of(self.body, field, index)
        known = self._items.get((letter, field, index))
        if known is None:
            known = prepared(letter, field, entry, sized=self._sized)
        counts = self.header["counts"]
        ordinal = counts[letter] = counts.get(letter, 0) + 1
        status = status or entry.get("status") or kind.starts
        row = ItemRow(
            task=self.task,
            letter=letter,
            ordinal=ordinal,
            position=self.record.position,
            field=field,
            index=index,
            status=status,
            is_open=kind.is_open and status == kind.starts,
            title=known.title,
            fingerprint=known.fingerprint,
            path=known.path,
            grade=known.grade,
            sizes=sizes_text(known.sizes, ordinal) if known.sizes else "",
        )
        self.added.append(row)
        self._settled[letter, row.ordinal] = status
        self._count_live(letter, "", status)
        self._file(row, known.labels)
        if row.is_open:
            self.open[letter, row.ordinal] = row
        return row

    def _file(self, row: ItemRow, labels: tuple[str, ...]) -> None:
        if labels:
            self.labels += [LabelRow(self.task, name, row.letter, row.ordinal) for name in labels]
            self.header["labels"] = self.header.get("labels", 0) + len(labels)

    def _count_live(self, letter: str, old: str, new: str) -> None:
        """Keep count of the items of each kind that still hold."""
        change = (new in LIVE) - (old in LIVE)
        if change and letter not in "hak":
            live = self.header["live"]
            live[letter] = live.get(letter, 0) + change

    def mark(self, letter: str, ordinal: int, status: str, note: str) -> None:
        """Give an item another status; what leaves the open items also lets go of its links."""
        row = self.open.pop((letter, ordinal), None)
        old = row.status if row else self._settled.get((letter, ordinal), "")
        self._settled[letter, ordinal] = status
        self._count_live(letter, old, status)
        self.changed.append(
            StatusChange(letter, ordinal, status, False, self.record.position, note)
        )
        if row is not None and letter == "b":
            self.unlinked.append(row.address)
            gate = self.gate_of(row)
            if gate is not None:
                self._withdraw(gate, f"{row.address}: {status}")

    def _withdraw(self, gate: ItemRow, note: str) -> None:
        """A gate whose blocker is gone asks nothing any more; an answer it had stays its answer."""
        if gate.status == "pending":
            self.mark("k", gate.ordinal, "withdrawn", note)
            return
        del self.open["k", gate.ordinal]
        kept = StatusChange("k", gate.ordinal, gate.status, False, gate.closed_at, gate.note)
        self.changed.append(kept)

    def gate_of(self, blocker: ItemRow) -> ItemRow | None:
        """The open gate that a blocker asked for: both point to the same entry of one record."""
        place = (blocker.position, blocker.index)
        return next((k for k in self.open_of("k") if (k.position, k.index) == place), None)

    def open_of(self, letter: str) -> list[ItemRow]:
        """The open items of a kind."""
        return [row for row in self.open.values() if row.letter == letter]

    def is_held(self) -> bool:
        """Whether a human gate still waits for an answer or was answered with no."""
        return bool(self.open_of("k"))

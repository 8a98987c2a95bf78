"""Facts for a brief: where a task stands and what may be told of it, read without its past.

However long a task's history is, this reads what is open, the newest of each other kind, and what
is filed under the labels that the receiver is about to work on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.errors import unknown_task
from passdown.model.facts import Facts, Told
from passdown.model.items import entry_of
from passdown.model.kinds import KINDS, LIVE, WORKSPACE_TASK, stream_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.ledger.disk import Project
    from passdown.model.record import Record
    from passdown.model.rows import ItemRow, TaskRow
    from passdown.store.statements import Reader

NEWEST = {"d": 100, "g": 50, "p": 50, "w": 30, "a": 40}
"""How many of each kind a brief chooses from; older ones are found by their labels."""

NEWEST_ELSEWHERE = 30
LABELLED = 20
_OPEN = ("b", "k", "n", "q", "r")


def standing(reader: Reader, task: str) -> tuple[TaskRow, list[ItemRow]]:
    """A task's row and its open items, newest first: enough to know what comes next."""
    row = reader.task(task)
    if row is None:
        raise unknown_task(task)
    items = reader.open_items(task, _OPEN)
    return row, sorted(items, key=lambda item: (item.letter, -item.ordinal))


def facts_of(
    reader: Reader,
    row: TaskRow,
    open_items: Sequence[ItemRow],
    labels: Sequence[str],
    *,
    project: Project,
    state_file: str,
) -> Facts:
    """What may be told of a task, for one brief."""
    task = row.task
    replaced = {link.target for link in reader.superseders(task)}
    found = {item.address: item for item in open_items}
    for item in _latest(reader, row):
        found[item.address] = item
    labelled = reader.labelled_items(task, labels, LABELLED)
    for item in labelled:
        if item.status in LIVE:
            found.setdefault(item.address, item)
    elsewhere, totals_elsewhere, seal = _elsewhere(reader, task, labels)
    items = [item for address, item in found.items() if address not in replaced]
    read = _Records(reader)
    return Facts(
        row=row,
        needs=tuple((need, _status(reader, need)) for need in reader.needs(task)[:6]),
        blocked_by=tuple(link.source for link in reader.open_links_to(task)),
        items=tuple(_newest_first([*items, *elsewhere])),
        labelled=frozenset(item.address for item in labelled),
        totals=_totals(row, len(replaced), open_items),
        elsewhere=totals_elsewhere,
        state_file=state_file,
        seal=f"{row.digest}{seal}",
        told=read.told,
        stale=_Stale(reader, project, read).of,
    )


def _latest(reader: Reader, row: TaskRow) -> list[ItemRow]:
    """The latest handoff, and the newest of each kind that is never closed by a handoff."""
    counts = row.header["counts"]
    found = reader.newest_items(row.task, "h", 1)
    for letter, limit in NEWEST.items():
        if counts.get(letter):
            found += [item for item in reader.newest_items(row.task, letter, limit) if _holds(item)]
    paths: set[str] = set()
    kept: list[ItemRow] = []
    for item in found:
        if item.letter != "a" or item.path not in paths:
            paths.add(item.path)
            kept.append(item)
    return [item for item in kept if item.letter != "a" or item.grade]


def _holds(item: ItemRow) -> bool:
    return item.status in LIVE or item.letter == "a"


def _newest_first(items: Sequence[ItemRow]) -> list[ItemRow]:
    order = list(KINDS)
    return sorted(
        items,
        key=lambda item: (
            order.index(item.letter),
            item.task == WORKSPACE_TASK,
            item.task,
            -item.ordinal,
        ),
    )


def _elsewhere(
    reader: Reader, task: str, labels: Sequence[str]
) -> tuple[list[ItemRow], dict[str, int], str]:
    """What was recorded for all work: its newest items, how many hold, and its digest."""
    row = reader.task(WORKSPACE_TASK) if task != WORKSPACE_TASK else None
    if row is None:
        return [], {}, ""
    found: dict[str, ItemRow] = {}
    for letter in "dgpw":
        if row.header["counts"].get(letter):
            for item in reader.newest_items(WORKSPACE_TASK, letter, NEWEST_ELSEWHERE):
                found[item.address] = item
    for item in reader.labelled_items(WORKSPACE_TASK, labels, LABELLED):
        found.setdefault(item.address, item)
    replaced = {link.target for link in reader.superseders(WORKSPACE_TASK)}
    kept = [i for i in found.values() if i.status in LIVE and i.address not in replaced]
    live = dict(row.header["live"])
    live["d"] = live.get("d", 0) - len(replaced)
    return kept, {letter: live.get(letter, 0) for letter in "dgpw"}, row.digest


def _status(reader: Reader, task: str) -> str:
    row = reader.task(task)
    return row.status if row else "not there yet"


def _totals(row: TaskRow, replaced: int, open_items: Sequence[ItemRow]) -> dict[str, int]:
    """How many items of each kind hold, as the task's header has counted them."""
    live: dict[str, int] = dict(row.header["live"])
    live["d"] = live.get("d", 0) - replaced
    live["a"] = sum(row.header["types"].values())
    live["k"] = sum(item.letter == "k" for item in open_items)
    live["h"] = row.header["counts"].get("h", 0)
    return live


class _Records:
    """Records of one moment, each read and parsed once."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._known: dict[tuple[str, int], tuple[Record | None, dict[str, Any]]] = {}

    def told(self, item: ItemRow) -> Told:
        """What an item's record says of it."""
        key = (item.task, item.position)
        if key not in self._known:
            record = self._reader.record(stream_of(item.task), item.position)
            self._known[key] = (record, record.document() if record else {})
        record, body = self._known[key]
        if record is None:
            return Told({}, "", "")
        entry = entry_of(body, item.field, item.index)
        return Told(entry, entry.get("agent") or record.author, entry.get("at") or record.at)


class _Stale:
    """Which of the files that an item cites have changed since it was written down."""

    def __init__(self, reader: Reader, project: Project, records: _Records) -> None:
        self._reader = reader
        self._project = project
        self._records = records
        self._now: dict[str, str | None] = {}

    def of(self, item: ItemRow, told: Told) -> tuple[str, ...]:
        """The cited files that are not any more what they were, each with what became of it."""
        found = ((path, self._change(item, path)) for path in _cited(item, told.entry))
        return tuple(f"{path} {change}" for path, change in found if change)

    def _change(self, item: ItemRow, path: str) -> str:
        artifact = item if item.letter == "a" else self._reader.artifact_at(item, path)
        recorded = self._records.told(artifact).entry.get("sha256") if artifact else None
        if not recorded:
            return ""
        if path not in self._now:
            self._now[path] = self._project.measure(path).sha256
        now = self._now[path]
        if now is None:
            return "is gone"
        return "" if now == recorded.removeprefix("sha256:") else "has changed"


def _cited(item: ItemRow, entry: dict[str, Any]) -> list[str]:
    if item.letter == "a":
        return [item.path]
    if item.letter == "d":
        return sorted({*entry.get("artifacts", ()), *entry.get("paths", ())})
    if item.letter == "p":
        return [entry.get("location", "").partition(":")[0]]
    return [entry["file"]] if item.letter == "r" else []

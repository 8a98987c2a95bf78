"""What a record changed when it was written: the answer to a repeated write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.core.fold import Changes, TaskBefore, fold_record, status_after
from passdown.core.items import title_of
from passdown.core.kinds import KINDS, LIVE, task_of
from passdown.core.values import NamedTuple
from passdown.errors import unknown_task
from passdown.history.state import links_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from passdown.core.record import Record
    from passdown.core.rows import ItemRow, TaskRow
    from passdown.store.statements import Reader


if TYPE_CHECKING:
    Document = dict[str, Any]

_QUIET = frozenset({"decided", "noted", "warned", "learned", "gate_recorded"})
"""Kinds of records that bring items and leave the status of a task and what is open alone."""

_NEAR = 32
"""So many records since a handoff are taken back at most; beyond, folding is no dearer."""

_PAGES = (4, 16, 64)
_DECISIONS = (8, 200)
_GATES = 64


class WrittenRecord(NamedTuple):
    """A record as it was written: where the task stood, what it changed, and the newest decisions
    (two at most, oldest first) that held after it.
    """

    before: TaskBefore
    step: Changes
    decisions: list[ItemRow]


class _NotDerivable(Exception):
    """The rows don't say for certain how it was."""


def as_written(reader: Reader, record: Record) -> WrittenRecord:
    """What a record of a task met and changed when it was written."""
    task = task_of(record.stream) or ""
    reader.ahead(
        lambda asked: asked.task(task),
        lambda asked: asked.items_since(task, record.position - 1),
        lambda asked: asked.open_before(task, record.position),
        lambda asked: asked.records_before(record.stream, record.position, _PAGES[0]),
        lambda asked: asked.superseders(task),
    )
    row = reader.task(task)
    if row is None:
        raise unknown_task(task)
    try:
        return _taken_back(reader, row, record)
    except _NotDerivable:
        return _folded(reader, task, record)


def _folded(reader: Reader, task: str, record: Record) -> WrittenRecord:
    """The same from the records alone: one fold, however it went on afterwards."""
    from passdown.core.replay import replay

    seen: list[TaskBefore] = []

    def visit(before: TaskBefore, _: Record) -> None:
        seen[:] = [before]

    replayed = replay(reader.records(record.stream, until=record.position), visit)
    if replayed is None:
        raise unknown_task(task)
    before = seen[0]._replace(details=seen[0].details or replayed.details)
    step = fold_record(before, record, record.document(), sized=False)
    newest = [item for key, item in sorted(replayed.rows.items()) if key[0] == "d"][::-1]
    return WrittenRecord(before, step, _holding(newest, _replaced(reader, task, record)))


def _taken_back(reader: Reader, row: TaskRow, record: Record) -> WrittenRecord:
    body = record.document()
    since = [body, *_since(reader, row, record)]
    brought = reader.items_since(row.task, record.position - 1)
    open_items = _open_before(reader, row.task, record.position)
    header = {
        **row.header,
        **_place_before(reader, row, record, since),
        "gates": _gates_before(reader, row, since, brought),
        "counts": _counts_before(row.header["counts"], brought),
    }
    paths = {item.path: item.grade for item in brought if item.path}
    known = reader.paths_before(row.task, list(paths), record.position) if paths else {}
    header["files"] = row.header["files"] - len(paths.keys() - known.keys())
    header["types"] = _types_before(row.header["types"], paths, known)
    before = TaskBefore(row.details, header, open_items, known)
    step = fold_record(before, record, body, sized=False)
    return WrittenRecord(before, step, _decisions_after(reader, row.task, record, step))


def _since(reader: Reader, row: TaskRow, record: Record) -> list[Document]:
    """What was recorded after a handoff: few records, and none that changes the task itself or says
    of an item how it stands.
    """
    if record.kind != "handoff" or row.version - record.position > _NEAR:
        raise _NotDerivable
    if row.version == record.position:
        return []
    later = list(reader.records(record.stream, after=record.position))
    if any(each.kind not in _QUIET and each.kind != "handoff" for each in later):
        raise _NotDerivable
    return [each.document() for each in later]


def _open_before(reader: Reader, task: str, position: int) -> tuple[ItemRow, ...]:
    """The items that were open before a record, as they were."""
    return tuple(_reopened(item, position) for item in reader.open_before(task, position))


def _reopened(item: ItemRow, position: int) -> ItemRow:
    starts = KINDS[item.letter].starts
    if item.is_open and item.status == starts:
        return item
    # A gate may have had an answer before, which this would lose.
    is_told = item.letter != "k" or item.status == "withdrawn"
    if item.is_open or item.closed_at < position or not is_told:
        raise _NotDerivable
    return item._replace(status=starts, is_open=True, closed_at=0, note="")


def _counts_before(counts: dict[str, int], brought: Sequence[ItemRow]) -> dict[str, int]:
    found = dict(counts)
    for item in brought:
        found[item.letter] -= 1
    return found


def _types_before(
    types: dict[str, int], paths: dict[str, str], known: dict[str, str]
) -> dict[str, int]:
    found = dict(types)
    for path, grade in paths.items():
        for name, change in ((grade, -1), (known.get(path, ""), 1)):
            if name:
                found[name] = found.get(name, 0) + change
    return {name: count for name, count in found.items() if count}


def _gates_before(
    reader: Reader, row: TaskRow, since: Sequence[Document], brought: Sequence[ItemRow]
) -> dict[str, str]:
    """The results of gates by name, without those that were given since."""
    results: dict[str, str] = dict(row.header["gates"])
    given = [gate for body in since for gate in body.get("gates", ())]
    if not given:
        return results
    first = min(item.ordinal for item in brought if item.letter == "k")
    older = reader.items_before(row.task, "k", first, _GATES)
    if any(item.closed_at or item.is_open for item in older):
        raise _NotDerivable
    known = {item.title: item.status for item in reversed(older) if item.field == "gates"}
    for gate in given:
        name: str = gate["name"]
        if title_of(gate, "name") != name or (len(older) == _GATES and name not in known):
            raise _NotDerivable
        results.pop(name, None)
        results |= {name: known[name]} if name in known else {}
    return results


def _backwards(reader: Reader, record: Record) -> Iterator[Record]:
    """The records before one, newest first, as far as is looked."""
    before = record.position
    for limit in _PAGES:
        found = reader.records_before(record.stream, before, limit)
        yield from found
        before = found[-1].position if found else before
        if before <= 1:
            return
    raise _NotDerivable


def _place_before(
    reader: Reader, row: TaskRow, record: Record, since: Sequence[Document]
) -> Document:
    """Phase, status and parties before a handoff, from it and the records before it."""
    place: Document = {
        "phase": row.header["phase"],
        "previous_phase": row.header["previous_phase"],
        "phase_started_at": row.header["phase_started_at"],
    }
    stated: list[tuple[str, str]] = []
    is_phase_due = any(body.get("phase") for body in since)
    for earlier in _backwards(reader, record):
        said = earlier.document()
        place.setdefault("updated_at", earlier.at)
        if "base_status" not in place:
            place |= _parties_after(earlier, said)
        if earlier.kind in ("handoff", "task_created") and said.get("phase"):
            stated.append((said["phase"], earlier.at))
        is_phase_known = len(stated) > 1 and stated[-1][0] != stated[0][0]
        if "base_status" in place and (is_phase_known or not is_phase_due):
            break
    if is_phase_due:
        place |= _phase_before(stated)
    if "outcome" in place:
        place["base_status"] = status_after(place["outcome"], place["phase"])
    return {"outcome": None, "context_summary": "", **_NOBODY, **place}


_NOBODY = {"source_agent": "", "target_agent": "", "handoff_at": None}


def _phase_before(stated: Sequence[tuple[str, str]]) -> Document:
    """What phases that were stated, newest first, and when, say of where a task was."""
    phase = stated[0][0]
    since = [at for name, at in stated if name == phase]
    return {
        "phase": phase,
        "previous_phase": stated[1][0] if len(stated) > 1 else None,
        "phase_started_at": since[-1],
    }


def _parties_after(record: Record, body: Document) -> Document:
    """What a record says of parties and status: all of it, or nothing."""
    if record.kind in _QUIET:
        return {}
    if record.kind == "task_created":
        return {"base_status": "open"}
    if record.kind != "handoff":
        raise _NotDerivable
    return {
        "base_status": "",  # told by the phase, which isn't known yet
        "outcome": body["outcome"],
        "context_summary": body.get("summary", ""),
        "source_agent": body["from_agent"],
        "target_agent": body.get("to_agent", ""),
        "handoff_at": record.at,
    }


def _replaced(reader: Reader, task: str, record: Record) -> set[str]:
    """The decisions that other tasks had superseded by then."""
    return {link.target for link in links_at(reader.superseders(task), record.seq)}


def _holding(newest: Sequence[ItemRow], replaced: set[str]) -> list[ItemRow]:
    live = [item for item in newest if item.status in LIVE and item.address not in replaced]
    return live[:2][::-1]


def _decisions_after(reader: Reader, task: str, record: Record, step: Changes) -> list[ItemRow]:
    """The newest decisions that held once a record was written."""
    replaced = _replaced(reader, task, record)
    above = step.header["counts"].get("d", 0) + 1
    found: list[ItemRow] = []
    for limit in _DECISIONS:
        newest = reader.items_before(task, "d", above, limit)
        if any(item.closed_at > record.position for item in newest):
            raise _NotDerivable
        found = _holding(newest, replaced)
        if len(found) == 2 or len(newest) < limit:
            break
    return found

"""Deliveries: who was told what, when, and what kept an item from being told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.errors import NotFound, unknown_task
from passdown.model.kinds import (
    DELIVERY_STREAM,
    KINDS,
    WORKSPACE_TASK,
    deliveries_of,
    parse_address,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from passdown.model.record import Record
    from passdown.store.statements import Reader

Document = dict[str, Any]

NEWEST = 2**62
PAGE = 200
MOST_SCANNED = 20_000


def delivered(reader: Reader, task: str | None, *, before: int, limit: int) -> list[Document]:
    """Deliveries newest first: of one task (below a number) or of all (below a sequence number)."""
    if task is None:
        return [_line(record) for record in reader.latest(before, limit, DELIVERY_STREAM)]
    if reader.task(task) is None:
        raise unknown_task(task)
    return [_line(record) for record in reader.records_before(deliveries_of(task), before, limit)]


def _line(record: Record) -> Document:
    body = record.document()
    return {
        "seq": record.seq,
        "task": record.stream.removeprefix(DELIVERY_STREAM),
        "number": record.position,
        "at": record.at,
        "kind": record.kind,
        **body,
    }


def artifacts_of(reader: Reader, task: str, limit: int = PAGE) -> list[Document]:
    """The switch artifacts of a task, newest first, each with whether it was consumed."""
    return _artifacts(reader.records_before(deliveries_of(task), NEWEST, limit))


def waiting_artifacts(reader: Reader, agent: str) -> list[Document]:
    """The artifacts that wait for an agent, of all tasks, newest first."""
    found = _artifacts(reader.latest(NEWEST, MOST_SCANNED, DELIVERY_STREAM))
    return [entry for entry in found if entry["to_agent"] == agent and not entry["consumed"]]


def _artifacts(records: Iterable[Record]) -> list[Document]:
    consumed: set[tuple[str, str]] = set()
    found: list[Document] = []
    for record in records:
        if record.kind not in ("switched", "artifact_saved"):
            continue
        body = record.document()
        task = record.stream.removeprefix(DELIVERY_STREAM)
        consumed.update((task, name) for name in body.get("consumed", ()))
        if "file" in body:
            entry = {
                "task": task,
                "file": body["file"],
                "from_agent": body["from_agent"],
                "to_agent": body["agent"],
                "version": body["version"],
                "at": record.at,
                "artifact": body["artifact"],
                "decisions": body.get("decisions", {}),
                "consumed": (task, body["file"]) in consumed,
            }
            found.append(entry)
    return found


def why(reader: Reader, item: str, agent: str) -> Document:
    """Whether and when an agent was told an item, or what kept it out of its latest brief."""
    address = parse_address(item)
    row = reader.item(*address) if address else None
    if address is None or row is None:
        raise NotFound(
            f"there is no item {item[:140]!r}",
            next_step="Addresses look like T-1#d2; passdown state TASK lists those of a task.",
        )
    told: list[Document] = []
    briefs = 0
    latest: Document | None = None
    for delivery in _to(reader, address.task, agent):
        briefs += 1
        latest = latest or delivery
        length = delivery["shown"].get(item)
        if length:
            told.append(_when(delivery, length))
    found: Document = {
        "item": item,
        "agent": agent,
        "kind": KINDS[address.letter].word,
        "title": row.title,
        "status": row.status,
        "recorded_in_version": row.position,
        "told": bool(told),
        "briefs": briefs,
        "times": told[:20],
    }
    return {**found, **_reason(item, row.position, latest, told, row.status)}


def _when(delivery: Document, length: str) -> Document:
    names = ("at", "version", "kind", "budget", "counter")
    return {**{name: delivery[name] for name in names}, "length": length}


def _to(reader: Reader, task: str, agent: str) -> Iterator[Document]:
    """What an agent was told of a task, newest first; of every task for what concerns all work."""
    before, scanned = NEWEST, 0
    while scanned < MOST_SCANNED:
        if task == WORKSPACE_TASK:
            page = reader.latest(before, PAGE, DELIVERY_STREAM)
        else:
            page = reader.records_before(deliveries_of(task), before, PAGE)
        for record in page:
            if record.author == agent and record.kind in ("briefed", "switched"):
                yield _line(record)
        scanned += len(page)
        if len(page) < PAGE:
            return
        before = page[-1].seq if task == WORKSPACE_TASK else page[-1].position


def _reason(
    item: str, position: int, latest: Document | None, told: list[Document], status: str
) -> Document:
    """In one sentence, why an agent knows an item or doesn't; and what stood in its place."""
    if latest is None:
        return {"reason": "this agent has had no brief of this task"}
    if told:
        times = "once" if len(told) == 1 else f"{len(told)} times"
        return {"reason": f"told {times}, last on {told[0]['at']} ({told[0]['length']})"}
    where = f"the latest brief was made from version {latest['version']}"
    is_own = not item.startswith(f"{WORKSPACE_TASK}#")
    if is_own and position > latest["version"]:
        return {"reason": f"recorded in version {position}, and {where}: a new brief can show it"}
    first = list(latest["shown"])
    if item in latest["waiting"]:
        place = latest["waiting"].index(item) + 1
        reason = (
            f"left out for its budget of {latest['budget']} tokens: {len(first)} others came "
            f"first, and it was number {place} of those that waited"
        )
        return {"reason": reason, "displaced_by": first}
    if status in ("superseded", "reverted", "retracted", "replaced", "resolved", "answered"):
        return {"reason": f"it is {status}, and briefs show what still holds", "displaced_by": []}
    reason = f"{where}, where it was not among those that came into question or near the budget"
    return {"reason": reason, "displaced_by": first}

"""Deliveries: which agent was shown what, when, and why an item was not shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from passdown.core import kinds
from passdown.core.record import Record
from passdown.core.results import Delivery, Explanation
from passdown.core.rows import ItemRow, newest_first
from passdown.core.types import NEWEST, JsonObject
from passdown.errors import NotFound, unknown_task
from passdown.ledger.writer import damaged_stream
from passdown.store.statements import Reader

PAGE = 200
MOST_SCANNED = 20_000
_WITH_ARTIFACTS = ("switched", "artifact_saved")


def deliveries(
    reader: Reader, task: str | None = None, *, limit: int = 50, before: int = NEWEST
) -> list[Delivery]:
    """Which briefs, switches and search results agents were given, newest first.

    Args:
        task: Only deliveries about this task.
        limit: The largest number of deliveries.
        before: Only deliveries below this number of the task, or this `seq` of all tasks.
    """
    if task is None:
        found = reader.latest(before, limit, kinds.DELIVERY_STREAM)
    elif task != kinds.WORKSPACE_TASK and reader.task(task) is None:
        raise unknown_task(task)
    else:
        found = reader.records_before(kinds.deliveries_of(task), before, limit)
    return [Delivery(_line(record)) for record in found]


def _line(record: Record) -> JsonObject:
    return {
        "seq": record.seq,
        "task": record.stream.removeprefix(kinds.DELIVERY_STREAM),
        "number": record.position,
        "at": record.at,
        "kind": record.kind,
        **_body(record),
    }


def _body(record: Record) -> JsonObject:
    """What a delivery says; raises Damaged where it isn't what was written."""
    if not record.is_intact():
        raise damaged_stream(record.stream, record.position)
    return record.document()


def artifacts_of(reader: Reader, task: str, limit: int = PAGE) -> list[JsonObject]:
    """The switch artifacts of a task, newest first, each with whether it was consumed."""
    stream = kinds.deliveries_of(task)
    records = reader.records_before(stream, NEWEST, limit, kinds=_WITH_ARTIFACTS)
    return list(artifacts_in(map(_line, records)))


def waiting_artifacts(reader: Reader, agent: str) -> list[JsonObject]:
    """The artifacts that wait for an agent, of all tasks, newest first."""
    records = reader.latest(NEWEST, MOST_SCANNED, kinds.DELIVERY_STREAM, kinds=_WITH_ARTIFACTS)
    found = artifacts_in(map(_line, records))
    return [entry for entry in found if entry["to_agent"] == agent and not entry["consumed"]]


def artifacts_in(deliveries: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """The switch artifacts among deliveries, newest first, each with whether it was consumed."""
    consumed: set[tuple[str, str]] = set()
    for given in deliveries:
        task = given["task"]
        consumed.update((task, name) for name in given.get("consumed", ()))
        if "file" in given:
            names = ("task", "file", "from_agent", "version", "at", "artifact")
            yield {
                **{name: given[name] for name in names},
                "to_agent": given["agent"],
                "decisions": given.get("decisions", {}),
                "consumed": (task, given["file"]) in consumed,
            }


def why(reader: Reader, item: str, *, agent: str) -> Explanation:
    """Whether and when an agent was given an item, or what kept it out of its brief.

    Args:
        item: The address of the item, such as T-1#d2.
        agent: The agent.
    """
    address = kinds.parse_address(item)
    row = reader.item(*address) if address else None
    if address is None or row is None:
        raise NotFound(
            f"there is no item {item[:140]!r}",
            next_step="Addresses look like T-1#d2; passdown state TASK lists those of a task.",
        )
    shown = list(_recalls(reader, item, agent))
    # The gate that shows a blocker which a person has to settle; empty for anything else.
    items = reader.items_at(row.task, row.position) if row.letter == "b" else []
    gates = [
        i.address for i in items if (i.letter, i.field, i.index) == ("k", row.field, row.index)
    ]
    gate = gates[0] if gates else ""
    briefs = 0
    latest: JsonObject | None = None
    for delivery in _deliveries_to(reader, address.task, agent):
        briefs += 1
        latest = latest or delivery
        length = delivery["shown"].get(item) or delivery["shown"].get(gate)
        if length:
            shown.append(_when(delivery, length))
    shown.sort(key=lambda time: time["at"], reverse=True)
    status = _status(reader, row)
    found: JsonObject = {
        "item": item,
        "agent": agent,
        "kind": kinds.KINDS[address.letter].word,
        "title": row.title,
        "status": status,
        "recorded_in_version": row.position,
        "told": bool(shown),
        "briefs": briefs,
        "times": shown[:20],
    }
    if shown:
        times = "once" if len(shown) == 1 else f"{len(shown)} times"
        reason = f"shown {times}, last on {shown[0]['at']} ({shown[0]['length']})"
        return Explanation({**found, "reason": reason})
    if latest is None:
        return Explanation({**found, "reason": "this agent has had no brief of this task"})
    is_later = _is_later(reader, row, latest)
    return Explanation({**found, **_reason(row, latest, status, is_later=is_later)})


def _status(reader: Reader, row: ItemRow) -> str:
    """What has become of an item, also by a decision of another task."""
    if row.letter != "d":
        return row.status
    links = reader.open_links_to(row.address)
    is_replaced = any(link.relation == "supersedes" for link in links)
    return "superseded" if is_replaced else row.status


def _is_later(reader: Reader, row: ItemRow, latest: JsonObject) -> bool:
    """Whether an item was recorded after a brief was made."""
    if row.task == latest["task"]:
        return row.position > latest["version"]
    record = reader.record(kinds.stream_of(row.task), row.position)
    return record is not None and record.seq > latest["seq"]


def _when(delivery: JsonObject, length: str) -> JsonObject:
    names = ("at", "version", "kind", "budget", "counter")
    return {**{name: delivery[name] for name in names}, "length": length}


def _recalls(reader: Reader, item: str, agent: str) -> Iterator[JsonObject]:
    """When an agent found an item by searching for it; a search is of no version or budget."""

    def page(before: int) -> list[Record]:
        stream = kinds.deliveries_of(kinds.WORKSPACE_TASK)
        return reader.records_before(stream, before, PAGE, author=agent, kinds=("recalled",))

    for record in islice(newest_first(page, "position"), MOST_SCANNED):
        line: JsonObject = {**_line(record), "version": None, "budget": None, "counter": ""}
        if length := line["shown"].get(item):
            yield {**_when(line, length), "query": line["query"]}


def _deliveries_to(reader: Reader, task: str, agent: str) -> Iterator[JsonObject]:
    """What an agent was shown of a task, newest first; of every task for what concerns all work."""
    stream = kinds.deliveries_of(task)
    if task == kinds.WORKSPACE_TASK:
        found = newest_first(lambda before: reader.latest(before, PAGE, kinds.DELIVERY_STREAM))
    else:
        found = newest_first(lambda at: reader.records_before(stream, at, PAGE), "position")
    for record in islice(found, MOST_SCANNED):
        if record.author == agent and record.kind in ("briefed", "switched"):
            yield _line(record)


def _reason(row: ItemRow, latest: JsonObject, status: str, *, is_later: bool) -> JsonObject:
    """In one sentence, why an agent doesn't know an item; and what was shown instead."""
    where = f"the latest brief was made from version {latest['version']}"
    if latest["task"] != row.task:
        where += f" of {latest['task']}"
    first = list(latest["shown"])
    if row.address in latest["waiting"]:
        place = latest["waiting"].index(row.address) + 1
        reason = (
            f"left out for its budget of {latest['budget']} tokens: {len(first)} others came "
            f"first, and it was number {place} of those that waited"
        )
        return {"reason": reason, "displaced_by": first}
    if status not in kinds.LIVE and status not in ("recorded", "pending"):
        return {"reason": f"it is {status}, and briefs show what still holds", "displaced_by": []}
    if is_later:
        reason = f"recorded in version {row.position}, and {where}: a new brief can show it"
        return {"reason": reason}
    reason = f"{where}, and it was not among its candidates"
    return {"reason": reason, "displaced_by": first}

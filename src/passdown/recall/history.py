"""History: the log, and what differs between two versions."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from passdown.errors import InvalidInput, Problem, unknown_task
from passdown.model.documents import LISTS
from passdown.model.kinds import TASK_STREAM, stream_of, task_of
from passdown.recall.origins import Origins
from passdown.recall.state import envelope, state

if TYPE_CHECKING:
    from passdown.model.record import Record
    from passdown.store.statements import Reader

Document = dict[str, Any]

MAX_NUMBER = 2**62
_EPHEMERAL = {"schema", "task_id", "version", "digest", "updated_at"}


def log(reader: Reader, task: str | None, *, before: int, limit: int) -> list[Document]:
    """Records newest first: of one task (below a version) or of all (below a sequence number)."""
    _check_page(before, limit)
    origins = Origins(reader)
    if task is None:
        return [_line(record, origins) for record in reader.latest(before, limit, TASK_STREAM)]
    if reader.head(stream_of(task)) is None:
        raise unknown_task(task)
    found = reader.records_before(stream_of(task), before, limit)
    return [_line(record, origins) for record in found]


def changes(reader: Reader, *, after: int | None, limit: int) -> Document:
    """Records of tasks in the order of the whole store, after a sequence number; `last` is how far
    this looked, and where to go on. Up to `limit` records are looked at, of tasks and others. After
    None there is nothing: `last` is where the store ends.
    """
    if after is None:
        newest = reader.latest(MAX_NUMBER, 1)
        return {"changes": [], "last": newest[0].seq if newest else 0}
    _check_page(after + 1 if type(after) is int else after, limit)
    looked_at = list(islice(reader.tail(after), limit))
    of_tasks = [record for record in looked_at if record.stream.startswith(TASK_STREAM)]
    origins = Origins(reader)
    lines = [_line(record, origins) for record in of_tasks]
    return {"changes": lines, "last": looked_at[-1].seq if looked_at else after}


def _check_page(before: object, limit: object) -> None:
    problems: list[Problem] = []
    for name, value in (("before", before), ("limit", limit)):
        if not isinstance(value, int) or isinstance(value, bool):
            message = f"{type(value).__name__} given"
            problems.append(Problem(name, "not_an_integer", message, "a whole number"))
        elif not 1 <= value <= MAX_NUMBER:
            problems.append(Problem(name, "out_of_range", f"{value} given", "1 or more"))
    if problems:
        raise InvalidInput("the page is refused", problems)


def _line(record: Record, origins: Origins) -> Document:
    body = record.document()
    counts = {
        name: len(body[name])
        for name in ("decisions", "artifacts", "patterns", "gotchas", "questions", "blockers")
        if body.get(name)
    }
    return {
        "seq": record.seq,
        "task": task_of(record.stream) or record.stream,
        **envelope(record),
        "summary": _summary(record.kind, body),
        "counts": counts,
        "bytes": len(record.body),
        **origins.of(record, body),
    }


def _summary(kind: str, body: Document) -> str:
    if kind == "handoff":
        to = f" -> {body['to_agent']}" if body.get("to_agent") else ""
        phase = f" ({body['phase']})" if body.get("phase") else ""
        text = f": {body['summary']}" if body.get("summary") else ""
        return f"{body['from_agent']}{to}, {body['outcome']}{phase}{text}"
    if kind == "gate_answered":
        return f"{body['gate']} {body['answer']} by {body['by']}"
    if kind == "marked":
        return ", ".join(f"{mark['item']} {mark['status']}" for mark in body["marks"])
    if kind in ("task_created", "task_changed"):
        return str(body.get("title", "changed " + ", ".join(sorted(body.keys() - {"via"}))))
    return _learned(body) if kind == "learned" else _noted(body)


def _noted(body: Document) -> str:
    """The words of the first thing that a small record brings."""
    lists = (cast("list[Any]", value) for value in body.values() if isinstance(value, list))
    entry = next((values[0] for values in lists if values), "")
    if isinstance(entry, dict):
        return str(next(iter(_texts(cast("Document", entry))), ""))
    return str(entry)


def _learned(body: Document) -> str:
    """Knowledge in one line: the nodes and edges that were written down, and what was forgotten."""
    said = [f"{node['id']}: {node['summary']}" for node in body.get("nodes", ())]
    said += [_edge(edge) for edge in body.get("edges", ())]
    said += [f"without {name}" for name in body.get("forgotten_nodes", ())]
    said += [f"without {_edge(edge)}" for edge in body.get("forgotten_edges", ())]
    return said[0] + (f" and {len(said) - 1} more" if len(said) > 1 else "") if said else ""


def _edge(edge: Document) -> str:
    return f"{edge['source']} -> {edge['relation']} -> {edge['target']}"


def _texts(entry: Document) -> list[str]:
    named = ("summary", "pattern", "issue", "name", "text")
    return [str(entry[name]) for name in named if name in entry]


def diff(reader: Reader, task: str, old: int, new: int) -> Document:
    """What differs between two versions: fields, items added, items changed, and what is gone."""
    before, after = state(reader, task, old), state(reader, task, new)
    fields = {
        name: {"old": before.get(name), "new": after.get(name)}
        for name in sorted((before.keys() | after.keys()) - _EPHEMERAL - set(LISTS.values()))
        if before.get(name) != after.get(name)
    }
    lists = {name: _compare(before[name], after[name]) for name in LISTS.values()}
    return {
        "task": task,
        "old": before["version"],
        "new": after["version"],
        "fields": fields,
        "added": {name: parts[0] for name, parts in lists.items() if parts[0]},
        "changed": {name: parts[1] for name, parts in lists.items() if parts[1]},
        "removed": {name: parts[2] for name, parts in lists.items() if parts[2]},
    }


def _compare(
    old: list[Document], new: list[Document]
) -> tuple[list[Document], list[Document], list[Document]]:
    """Added, changed and removed entries. An artifact is the same one as long as its path is."""

    def identity(entry: Document) -> str:
        return entry["path"] if "size_bytes" in entry or "change" in entry else entry["address"]

    before = {identity(entry): entry for entry in old}
    after = {identity(entry): entry for entry in new}
    added = [entry for key, entry in after.items() if key not in before]
    removed = [entry for key, entry in before.items() if key not in after]
    changed = [
        {"address": after[key]["address"], "old": was, "new": after[key]}
        for key, was in before.items()
        if key in after and after[key] != was
    ]
    return added, changed, removed

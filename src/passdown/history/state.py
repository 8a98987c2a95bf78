"""A task's state now and at any past version, its artifacts, the log, and what differs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from passdown.core import kinds
from passdown.core.documents import LISTS, item_document, state_document
from passdown.core.items import fact_text
from passdown.core.names import id_problems
from passdown.core.record import Record
from passdown.core.results import ArtifactStatus, Changes, Item, LogEntry, StateDiff
from passdown.core.rows import ItemRow, LinkRow, TaskRow
from passdown.core.types import NEWEST, JsonObject
from passdown.errors import NotFound, unknown_task
from passdown.ledger.channel import CHANNEL_FIELD
from passdown.store.statements import Reader

if TYPE_CHECKING:
    from passdown.core.fold import Replayed
    from passdown.ledger.project_files import Project


def state(reader: Reader, task: str, version: int | None = None) -> JsonObject:
    """A task's state now, or at a past version, as in its state file.

    Args:
        task: The task.
        version: The version; the current one by default.
    """
    row = reader.existing_task(task)
    if version is not None and version != row.version:
        return state_at(reader, row, version)
    items = item_documents(reader, task, reader.items_since(task))
    head = (task, row.version, row.digest)
    return with_links(reader, state_document(head, row.details, row.header, items), row)


def state_at(reader: Reader, row: TaskRow, version: int) -> JsonObject:
    """A task's state as it was when a version was written, links from other tasks included."""
    from passdown.core.fold import replay

    is_there = 1 <= version <= row.version
    records = reader.records(kinds.stream_of(row.task), until=version) if is_there else ()
    replayed = replay(records)
    if replayed is None:
        raise NotFound(
            f"{row.task} has no version {version}; it is at {row.version}",
            next_step=f"Name a version from 1 to {row.version}.",
        )
    document = replayed_state(row.task, replayed)
    return with_links(reader, document, row, as_of=replayed.last.seq)


def replayed_state(task: str, replayed: Replayed) -> JsonObject:
    """The state document of replayed records."""
    order = sorted(replayed.rows.items(), key=lambda entry: (entry[1].position, *entry[0]))
    items = [(key[0], replayed.documents[key]) for key, _ in order]
    head = (task, replayed.last.position, replayed.last.digest)
    return state_document(head, replayed.details, replayed.header, items)


def item_documents(
    reader: Reader, task: str, rows: Iterable[ItemRow]
) -> list[tuple[str, JsonObject]]:
    """(letter, document) of items, each record read once."""
    return [(row.letter, document) for row, document in with_documents(reader, task, rows)]


def with_documents(
    reader: Reader, task: str, rows: Iterable[ItemRow]
) -> Iterator[tuple[ItemRow, JsonObject]]:
    """Items with their documents, all records read at once; without those of missing records."""
    rows = list(rows)
    positions = sorted({row.position for row in rows})
    records = reader.records_at(kinds.stream_of(task), positions) if positions else []
    known = {record.position: (record, record.document()) for record in records}
    for row in rows:
        if found := known.get(row.position):
            yield row, item_document(row, *found)


def with_links(
    reader: Reader, document: JsonObject, row: TaskRow, as_of: int | None = None
) -> JsonObject:
    """Add what other tasks say of this one: who blocks it, who superseded its decisions."""
    if as_of is None:
        blockers = reader.open_links_to(row.task)
    else:
        blockers = links_at(reader.links_to(row.task), as_of)
    add_blockers(document, blockers)
    if document["decisions"]:
        mark_superseded(reader, row.task, document["decisions"], as_of)
    return document


def add_blockers(document: JsonObject, links: Iterable[LinkRow]) -> None:
    """Say in a state which items of other tasks block its task."""
    document["blocked_by"] = [link.source for link in links if link.relation == "blocks"]
    if document["blocked_by"] and document["status"] not in ("completed", "cancelled"):
        document["status"] = "blocked"


def mark_superseded(
    reader: Reader, task: str, decisions: Iterable[JsonObject], as_of: int | None = None
) -> None:
    """Give decisions that one of another task has replaced the status that says so.

    What their own task says stays: there the superseding decision is named already.
    """
    by = {link.target: link.source for link in links_at(reader.superseders(task), as_of)}
    for decision in decisions:
        supersede(decision, by.get(decision["address"], ""))


def supersede(decision: JsonObject, source: str) -> None:
    """Say in a decision's document which one of another task has replaced it, if one has."""
    if source and decision["status"] != "superseded":
        decision["superseded_by"] = source
        decision["status"] = "superseded"


def links_at(links: Iterable[LinkRow], as_of: int | None) -> list[LinkRow]:
    """The links that were open when a record of the store was written; None: that are now."""
    if as_of is None:
        return [link for link in links if not link.closed_seq]
    return [
        link
        for link in links
        if link.opened_seq <= as_of and (not link.closed_seq or link.closed_seq > as_of)
    ]


def show(reader: Reader, item: str) -> Item:
    """One item by its address, with the record, author and time that it came from; or one of a
    task's own texts.

    Args:
        item: The address, such as T-1#d2 or T-1:description.
    """
    parsed = kinds.parse_address(item)
    row = reader.item(*parsed) if parsed else None
    record = reader.record(kinds.stream_of(row.task), row.position) if row else None
    if row is None or record is None or parsed is None:
        if text := _task_text(reader, item):
            return text
        raise NotFound(
            f"there is no item {item[:140]!r}",
            next_step="Addresses look like T-1#d2; passdown state TASK lists those of a task.",
        )
    body = record.document()
    document = item_document(row, record, body)
    links = [link for link in reader.links_to(item) if link.relation == "supersedes"]
    if links and document["status"] != "superseded":
        document.update(status="superseded", superseded_by=links[-1].source)
    blocked = [link.target for link in reader.links_from(item) if link.relation == "blocks"]
    if blocked:
        document["blocks"] = blocked
    # Signs that an item's words are meant for a model rather than about the work.
    from passdown.core.text import instruction_hints

    texts = [value for value in document.values() if isinstance(value, str)]
    hints = sorted({hint for text in texts for hint in instruction_hints(text)})
    if hints:
        document["hints"] = hints

    origin = RecordOrigins(reader).of(record, body)
    if "source" in document:
        document["stated_source"] = document["source"]  # where a fact is from, by its author
    document["source"] = {**envelope(record), "task": row.task, **origin}
    return Item(document)


def _task_text(reader: Reader, item: str) -> Item | None:
    """A text of a task, or of its last handoff, by an address such as T-1:description."""
    task, _, name = item.rpartition(":")
    is_named = name in kinds.TASK_TEXTS and not id_problems(task, "")
    row = reader.task(task) if is_named else None
    record = reader.record(kinds.stream_of(task), row.version) if row else None
    if row is None or record is None:
        return None
    last = reader.items_before(task, "h", NEWEST, 1)
    said = [document for _, document in item_documents(reader, task, last)]
    texts = {**row.details, **row.header, "needs": row.details["depends_on"]}
    value = {**texts, **(said[0] if said else {})}.get(name)
    if not value:
        return None
    found = {"address": item, "status": "recorded", "text": value, "agent": record.author}
    found |= {"at": record.at, "version": record.position}
    return Item({**found, "source": {**envelope(record), "task": task}})


def envelope(record: Record) -> JsonObject:
    """Where a fact came from: who wrote it, when, and the record that proves it."""
    return {
        "stream": record.stream,
        "version": record.position,
        "at": record.at,
        "author": record.author,
        "kind": record.kind,
        "key": record.key,
        "digest": record.digest,
        "previous": record.previous,
    }


_EPHEMERAL = {"schema", "task_id", "version", "digest", "updated_at"}


def log(
    reader: Reader, task: str | None = None, *, limit: int = 50, before: int = NEWEST
) -> list[LogEntry]:
    """Records newest first, of one task or of all tasks.

    Args:
        task: Only records of this task.
        limit: The largest number of records.
        before: Only records below this version of the task, or this `seq` of all tasks.
    """
    origins = RecordOrigins(reader)
    if task is None:
        found = [*reader.latest(before, limit, kinds.TASK_STREAM)]
        found += reader.latest(before, limit, kinds.RECOVERY_STREAM)
        found.sort(key=lambda record: -record.seq)
        return [LogEntry(_line(record, origins)) for record in found[:limit]]
    if reader.head(kinds.stream_of(task)) is None:
        raise unknown_task(task)
    found = reader.records_before(kinds.stream_of(task), before, limit)
    return [LogEntry(_line(record, origins)) for record in found]


def changes(reader: Reader, after: int | None = 0, *, limit: int = 500) -> Changes:
    """What was recorded of tasks after a `seq`, oldest first, and the `last` one looked at.

    Args:
        after: The `last` of the previous call; None for nothing but where the records end now.
        limit: The largest number of records that are looked at, of tasks and others.
    """
    if after is None:
        newest = reader.latest(NEWEST, 1)
        return Changes({"changes": [], "last": newest[0].seq if newest else 0})
    looked_at = list(islice(reader.tail(after), limit))
    of_tasks = [record for record in looked_at if record.stream.startswith(kinds.TASK_STREAM)]
    origins = RecordOrigins(reader)
    lines = [_line(record, origins) for record in of_tasks]
    return Changes({"changes": lines, "last": looked_at[-1].seq if looked_at else after})


def _line(record: Record, origins: RecordOrigins) -> JsonObject:
    body = record.document()
    counts = {
        name: len(body[name])
        for name in (
            *("decisions", "artifacts", "patterns", "gotchas", "facts", "questions", "blockers"),
        )
        if body.get(name)
    }
    is_recovery = record.stream.startswith(kinds.RECOVERY_STREAM)
    return {
        "seq": record.seq,
        "task": kinds.task_of(record.stream) or record.stream.removeprefix(kinds.RECOVERY_STREAM),
        **envelope(record),
        **({"version": body["version"]} if is_recovery else {}),
        "summary": _summary(record.kind, body),
        "counts": counts,
        "bytes": len(record.body),
        **({"trace_id": body["trace"]["trace_id"]} if "trace" in body else {}),
        **origins.of(record, body),
    }


def _summary(kind: str, body: JsonObject) -> str:
    if kind == "handoff":
        to = f" -> {body['to_agent']}" if body.get("to_agent") else ""
        phase = f" ({body['phase']})" if body.get("phase") else ""
        text = f": {body['summary']}" if body.get("summary") else ""
        return f"{body['from_agent']}{to}, {body['outcome']}{phase}{text}"
    if kind == "gate_answered":
        return f"{body['gate']} {body['answer']} by {body['by']}"
    if kind == "ledger_accepted":
        why = f": {body['reason']}" if body["reason"] else ""
        return f"went on without version {body['lost_version']}{why}"
    if kind == "marked":
        return ", ".join(f"{mark['item']} {mark['status']}" for mark in body["marks"])
    if kind in ("task_created", "task_changed"):
        return str(body.get("title", "changed " + ", ".join(sorted(body.keys() - {"via"}))))
    return _knowledge_summary(body) if kind == "learned" else _first_text(body)


def _first_text(body: JsonObject) -> str:
    """The words of the first thing that a small record brings."""
    lists = (cast("list[Any]", value) for value in body.values() if isinstance(value, list))
    first = next((values[0] for values in lists if values), "")
    if not isinstance(first, dict):
        return str(first)
    entry = cast("JsonObject", first)
    names = ("summary", "pattern", "issue", "name", "text")
    said = (str(entry[name]) for name in names if name in entry)
    return fact_text(entry) if "key" in entry else next(said, "")


def _knowledge_summary(body: JsonObject) -> str:
    """Knowledge in one line: the nodes and edges that were written down, and what was forgotten."""
    said = [f"{node['id']}: {node['summary']}" for node in body.get("nodes", ())]
    said += [_edge(edge) for edge in body.get("edges", ())]
    said += [f"without {name}" for name in body.get("forgotten_nodes", ())]
    said += [f"without {_edge(edge)}" for edge in body.get("forgotten_edges", ())]
    return said[0] + (f" and {len(said) - 1} more" if len(said) > 1 else "") if said else ""


def _edge(edge: JsonObject) -> str:
    return f"{edge['source']} -> {edge['relation']} -> {edge['target']}"


def diff(reader: Reader, task: str, old: int, new: int) -> StateDiff:
    """What differs between two versions of a task.

    Args:
        task: The task.
        old: The older version.
        new: The newer version.
    """
    before, after = state(reader, task, old), state(reader, task, new)
    fields = {
        name: {"old": before.get(name), "new": after.get(name)}
        for name in sorted((before.keys() | after.keys()) - _EPHEMERAL - set(LISTS.values()))
        if before.get(name) != after.get(name)
    }
    lists = {name: _compare(before.get(name, []), after.get(name, [])) for name in LISTS.values()}
    return StateDiff(
        {
            "task": task,
            "old": before["version"],
            "new": after["version"],
            "fields": fields,
            "added": {name: parts[0] for name, parts in lists.items() if parts[0]},
            "changed": {name: parts[1] for name, parts in lists.items() if parts[1]},
            "removed": {name: parts[2] for name, parts in lists.items() if parts[2]},
        }
    )


def _compare(
    old: list[JsonObject], new: list[JsonObject]
) -> tuple[list[JsonObject], list[JsonObject], list[JsonObject]]:
    """Added, changed and removed entries. An artifact is the same one as long as its path is."""

    def identity(entry: JsonObject) -> str:
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


class RecordOrigins:
    """The channels that wrote records, for one moment of the store. Each task is looked up once."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._imports = cache(self._imports_of)
        self._recoveries = cache(self._recoveries_of)

    def of(self, record: Record, body: JsonObject) -> JsonObject:
        """The fields that tell where a record came from: `via` for one that was written here,
        `imported` for one that was imported; nothing where nothing is known.
        """
        task = kinds.task_of(record.stream)
        if task is None:
            return {name: body[name] for name in (CHANNEL_FIELD,) if name in body}
        found = self._recoveries(task).get(record.position)
        recovered = {"recovered": found} if found else {}
        origin = next((o for span, o in self._imports(task) if record.position in span), None)
        if origin is None:
            return {name: body[name] for name in (CHANNEL_FIELD,) if name in body} | recovered
        claim = {"claimed_via": body[CHANNEL_FIELD]} if CHANNEL_FIELD in body else {}
        return {"imported": {**origin, **claim}} | recovered

    def _records(self, stream: str) -> list[tuple[Record, JsonObject]]:
        if self._reader.head(stream) is None:
            return []
        return [(record, record.document()) for record in self._reader.records(stream)]

    def _recoveries_of(self, task: str) -> dict[int, JsonObject]:
        """By version, who decided to go on from it although a later one had been lost."""
        return {
            max(body["version"], 1): {"by": record.author, "at": record.at, **body}
            for record, body in self._records(kinds.RECOVERY_STREAM + task)
        }

    def _imports_of(self, task: str) -> list[tuple[range, JsonObject]]:
        """The versions that each import added, and its origin; older releases noted less."""
        return [
            (
                range(body.get("first", body["version"]), body["version"] + 1),
                {"by": record.author, "at": record.at}
                | {name: body[name] for name in ("bundle", CHANNEL_FIELD) if name in body},
            )
            for record, body in self._records(kinds.origins_of(task))
        ]


BYTES_PER_TOKEN = 4


def artifact_report(reader: Reader, task: str, project: Project) -> list[ArtifactStatus]:
    """Every artifact of a task with what the disk says now."""
    reader.existing_task(task)
    return [
        ArtifactStatus({**document, "now": artifact_status(document, project)})
        for _, document in item_documents(reader, task, reader.current_artifacts(task))
    ]


def artifact_status(document: JsonObject, project: Project) -> str:
    """What became of an artifact since its handoff: same, changed or missing."""
    found = project.measure(document["path"])
    recorded = document.get("sha256")
    if found.sha256 is None:
        was_deleted = document.get("change") == "delete" and recorded is None
        return "same" if was_deleted and found.problem is None else "missing"
    return "same" if found.sha256 == (recorded or "").removeprefix("sha256:") else "changed"


def path_history(reader: Reader, task: str, path: str) -> list[ArtifactStatus]:
    """Every entry that a task has had for a path, oldest first.

    Args:
        task: The task.
        path: Relative to the project.
    """
    reader.existing_task(task)
    found = item_documents(reader, task, reader.path_history(task, path))
    return [ArtifactStatus(document) for _, document in found]


def inline_plan(reader: Reader, task: str, budget: int) -> JsonObject:
    """Which artifacts fit into a token budget and which stay references.

    Sizes count as tokens of four bytes each, rounded up. Smallest first puts the most files
    inline.

    Args:
        task: The task.
        budget: In tokens.
    """
    inline: list[str] = []
    references: list[str] = []
    used = 0
    artifacts = state(reader, task)["artifacts"]
    for artifact in sorted(artifacts, key=lambda a: (a.get("size_bytes") or 0, a["path"])):
        size = artifact.get("size_bytes")
        tokens = -(-(size or 0) // BYTES_PER_TOKEN)
        if size is not None and used + tokens <= budget:
            inline.append(artifact["path"])
            used += tokens
        else:
            references.append(artifact["path"])
    return {
        "budget_tokens": budget,
        "used_tokens": used,
        "inline": inline,
        "references": references,
    }

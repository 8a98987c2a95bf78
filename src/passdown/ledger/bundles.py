"""Bundles: records in one file, to be taken elsewhere. Verified before anything is written.

A bundle is a zip with exactly two members: `manifest.json` (heads and counts) and `records.jsonl`
(one record a line, bodies as the very text that was hashed). Nothing is ever unpacked to disk:
members are read as bytes, up to a limit. An import happens as a whole or not at all.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, cast

from passdown.errors import Damaged, InvalidInput, Problem
from passdown.ledger.admission import record_problems
from passdown.ledger.deriving import redo
from passdown.ledger.gates import cycle_problems
from passdown.model.canonical import canonical_bytes
from passdown.model.documents import state_document
from passdown.model.kinds import stream_of, task_of
from passdown.model.names import id_problems
from passdown.model.plain import load_json
from passdown.model.record import GENESIS, Head, Record, chained
from passdown.model.replaying import replay
from passdown.model.state_schema import check_header, check_item

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from passdown.model.fold import Before
    from passdown.store.protocol import Store
    from passdown.store.statements import Reader

SCHEMA = "passdown/bundle/1"
MEMBERS = ("manifest.json", "records.jsonl")
MAX_BYTES = 1 << 30
_EPOCH = (1980, 1, 1, 0, 0, 0)
_LINE_FIELDS = ("stream", "position", "at", "author", "kind", "key", "previous", "digest")


class Imported(NamedTuple):
    """What an import did, by stream: records added, streams that were there already, forks.

    `touched` are the tasks whose state it changed, their own stream or not.
    """

    added: dict[str, int]
    unchanged: tuple[str, ...]
    forked: dict[str, str]
    touched: tuple[str, ...] = ()


def bundle_bytes(reader: Reader, streams: Sequence[str]) -> bytes:
    """The bundle of some streams: their records in the order in which they were written.

    That order tells which task was blocked when, so a bundle keeps it. The same records in the same
    order always give the same bytes.
    """
    found = [record for stream in streams for record in reader.records(stream)]
    found.sort(key=lambda record: record.seq)
    return bundle_bytes_of(found)


def bundle_bytes_of(found: list[Record]) -> bytes:
    """The bundle of some records, in their order."""
    heads = {record.stream: [record.position, record.digest] for record in found}
    lines = [_line(record) for record in found]
    records = b"".join(lines)
    manifest = {
        "schema": SCHEMA,
        "heads": heads,
        "records": len(lines),
        "sha256": hashlib.sha256(records).hexdigest(),
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        text = json.dumps(manifest, indent=2, sort_keys=True).encode()
        for name, data in zip(MEMBERS, (text, records), strict=True):
            archive.writestr(_member(name), data)
    return buffer.getvalue()


def _member(name: str) -> zipfile.ZipInfo:
    """A member with a fixed time, so that a bundle's bytes depend on its content alone."""
    member = zipfile.ZipInfo(name, _EPOCH)
    member.compress_type = zipfile.ZIP_DEFLATED
    member.external_attr = 0o600 << 16
    return member


def _line(record: Record) -> bytes:
    # ASCII escapes keep every record on one line, whatever line separators its text holds.
    fields = {name: getattr(record, name) for name in _LINE_FIELDS}
    return json.dumps({**fields, "body": record.body.decode()}).encode() + b"\n"


def import_bundle(store: Store, path: str, *, fork: str = "") -> Imported:
    """Take in a bundle. `fork` is a suffix under which tasks that differ here are taken in anew."""
    streams = read_bundle(path)
    added: dict[str, int] = {}
    forked: dict[str, str] = {}
    unchanged: list[str] = []
    touched: set[str] = set()
    with store.writing([]) as writer:
        plan = {stream: _placed(writer, records) for stream, records in streams.items()}
        refused = [problem for _, problem in plan.values() if problem is not None]
        if refused and not fork:
            hint = "To keep both, import with a fork suffix for the tasks that differ."
            raise InvalidInput(
                "the import is refused; nothing was changed", refused, next_step=hint
            )
        waiting: list[Record] = []
        for stream, (placed, problem) in plan.items():
            missing = placed
            if problem is not None:
                missing = _forked(writer, streams[stream], fork)
                forked[stream] = missing[0].stream
            waiting += missing
            if missing:
                added[missing[0].stream] = len(missing)
                touched.add(task_of(missing[0].stream) or "")
            else:
                unchanged.append(stream)
        for record in sorted(waiting, key=lambda record: record.seq):
            touched.update(redo(writer, writer.append(record)))
        _check_cycles(writer, touched)
    return Imported(added, tuple(unchanged), forked, tuple(sorted(touched - {""})))


def _check_cycles(reader: Reader, tasks: Iterable[str]) -> None:
    for task in sorted(tasks):
        problems = cycle_problems(reader, task, reader.needs(task))
        if problems:
            raise InvalidInput("the import is refused; nothing was changed", problems)


def _placed(reader: Reader, records: list[Record]) -> tuple[list[Record], Problem | None]:
    """The records of a stream that are missing here, or why they can't simply be added."""
    stream, last = records[0].stream, records[-1]
    head = reader.head(stream)
    if head is None:
        return records, None
    known = reader.record(stream, min(head.position, last.position))
    twin = records[min(head.position, last.position) - 1]
    where = f"{stream}@{last.position}"
    if known is None or known.digest != twin.digest:
        message = f"its history differs from the one here (version {head.position})"
        return [], Problem(where, "diverged", message, "the same history, or a fork")
    if last.position < head.position:
        message = f"an older copy: here it is at version {head.position}"
        return [], Problem(where, "rollback_refused", message, "a newer copy, or a fork")
    return records[head.position :], None


def _forked(reader: Reader, records: list[Record], suffix: str) -> list[Record]:
    """The same records as a new task, chained anew; its first record says where it came from."""
    old, last = task_of(records[0].stream) or "", records[-1]
    task = f"{old}.{suffix}"
    stream = stream_of(task)
    problems = id_problems(task, "fork")
    if problems or reader.head(stream) is not None:
        taken = Problem("fork", "exists", f"{task} exists already", "another suffix")
        raise InvalidInput("nothing was changed", problems or [taken])
    head: Head | None = None
    result: list[Record] = []
    for record in records:
        body = _renamed(record.document(), old, task)
        if head is None:
            origin = {"task": old, "version": last.position, "digest": last.digest}
            body["metadata"] = {**body.get("metadata", {}), "forked_from": origin}
        moved = chained(record._replace(stream=stream, body=canonical_bytes(body)), head)
        head = Head(stream, moved.position, moved.digest)
        result.append(moved)
    return result


def _renamed(body: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    """A body in which a task's addresses of its own items follow its new name."""

    def moved(address: str) -> str:
        return new + address.removeprefix(old) if address.startswith(f"{old}#") else address

    for decision in body.get("decisions", ()):
        if "supersedes" in decision:
            decision["supersedes"] = [moved(address) for address in decision["supersedes"]]
    for mark in body.get("marks", ()):
        mark["item"] = moved(mark["item"])
    if "gate" in body:
        body["gate"] = moved(body["gate"])
    if "resolves" in body:
        body["resolves"] = [moved(address) for address in body["resolves"]]
    return body


def read_bundle(path: str) -> dict[str, list[Record]]:
    """The records of a bundle by stream, or every reason why it can't be trusted."""
    manifest_bytes, lines = _members(path)
    loaded = load_json(manifest_bytes)
    manifest = cast("dict[str, Any]", loaded) if isinstance(loaded, dict) else {}
    if manifest.get("schema") != SCHEMA:
        _refuse("bad_archive", "its manifest is not that of a Passdown bundle", SCHEMA)
    if hashlib.sha256(lines).hexdigest() != manifest.get("sha256"):
        _explain_edit(lines)
    streams: dict[str, list[Record]] = {}
    for number, line in enumerate(lines.splitlines(), 1):
        record = _parsed(line, number)
        streams.setdefault(record.stream, []).append(record)
    problems = [p for records in streams.values() for p in _stream_problems(records)]
    if problems:
        raise InvalidInput("the bundle is refused; nothing was imported", problems)
    heads = {s: [r[-1].position, r[-1].digest] for s, r in streams.items()}
    if heads != manifest.get("heads"):
        _refuse("bad_archive", "the records are not those that the manifest lists", "both alike")
    return streams


def _explain_edit(lines: bytes) -> None:
    """Name the edited record where the chain shows it; otherwise the file as a whole."""
    streams: dict[str, list[Record]] = {}
    for number, line in enumerate(lines.splitlines(), 1):
        record = _parsed(line, number)
        streams.setdefault(record.stream, []).append(record)
    problems = [p for records in streams.values() for p in _stream_problems(records)]
    whole = Problem("records.jsonl", "bad_archive", "is not the one that the manifest describes")
    raise InvalidInput("the bundle is refused; nothing was imported", problems or [whole])


def _stream_problems(records: Iterable[Record]) -> list[Problem]:
    position, digest = 0, GENESIS
    records = list(records)
    task = task_of(records[0].stream)
    problems = id_problems(task, "stream") if task else []
    for record in records:
        where = f"{record.stream}@{record.position}"
        is_next = record.position == position + 1 and record.previous == digest
        if not is_next or not record.is_intact():
            message = "is not what was written, or not in its place"
            problems.append(Problem(where, "chain_broken", message, "an unchanged record"))
        position, digest = record.position, record.digest
    if not problems:
        problems = [problem for record in records for problem in record_problems(record)]
    if not problems:
        try:
            _check_state(records)
        except Damaged as error:
            problems += [p._replace(path=f"{records[0].stream}: {p.path}") for p in error.problems]
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            where = records[0].stream
            problems.append(Problem(where, "unreadable", f"can't be replayed ({error})"))
    return problems


def _check_state(records: list[Record]) -> None:
    """Raise unless the records, replayed, give a state that keeps to the published schema."""
    replayed = replay(records, _refuse_passed_gate)
    if replayed is None:
        return
    head = (task_of(records[0].stream) or "", replayed.last.position, replayed.last.digest)
    header = state_document(head, replayed.details, replayed.header, ())
    check_header({**header, "blocked_by": []})
    for (letter, ordinal), document in replayed.documents.items():
        if document["address"] != f"{head[0]}#{letter}{ordinal}":
            raise ValueError(f"an item calls itself {document['address']!r:.60}")
        check_item(letter, document)


def _refuse_passed_gate(before: Before, record: Record) -> None:
    waiting = [r for r in before.open_items if r.letter == "k" and r.status == "pending"]
    if record.kind == "handoff" and waiting:
        raise ValueError(f"version {record.position} passes {waiting[0].address} without an answer")


def _members(path: str) -> tuple[bytes, bytes]:
    try:
        with zipfile.ZipFile(path) as archive:
            _check_members(archive.infolist())
            return _bounded(archive, MEMBERS[0], 1 << 24), _bounded(archive, MEMBERS[1], MAX_BYTES)
    except FileNotFoundError as error:
        raise InvalidInput(
            "nothing was imported", [Problem("path", "missing_file", f"{path} is not there")]
        ) from error
    except InvalidInput:
        raise
    except (zipfile.BadZipFile, OSError, EOFError, RuntimeError, ValueError, zlib.error) as error:
        problem = Problem("", "bad_archive", f"not a bundle ({error})", "a file from export")
        raise InvalidInput("the bundle is refused; nothing was imported", [problem]) from error


def _check_members(members: list[zipfile.ZipInfo]) -> None:
    """Exactly the two members, packed in a known way; a size beyond the limit isn't even read."""
    names = [member.filename for member in members]
    if sorted(names) != sorted(MEMBERS):
        shown = ", ".join(name[:60] for name in names[:6])
        _refuse("bad_archive", f"it holds {shown!r}", " and ".join(MEMBERS))
    for member in members:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            _refuse("bad_archive", f"{member.filename} is packed in another way", "deflate")
        if member.file_size > MAX_BYTES:
            _refuse("too_large", f"{member.filename} unpacks to {member.file_size:,} bytes", "less")


def _bounded(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    """A member's bytes, read in steps so that a bomb is refused before it fills anything."""
    parts: list[bytes] = []
    total = 0
    with archive.open(name) as member:
        while chunk := member.read(1 << 20):
            total += len(chunk)
            if total > limit:
                _refuse("too_large", f"{name} unpacks to more than {limit:,} bytes", "less")
            parts.append(chunk)
    return b"".join(parts)


def _parsed(line: bytes, number: int) -> Record:
    loaded = load_json(line, max_bytes=1 << 25)
    values = cast("dict[str, Any]", loaded) if isinstance(loaded, dict) else {}
    wanted = {*_LINE_FIELDS, "body"}
    if set(values) != wanted:
        _refuse("bad_archive", f"line {number} is no record", ", ".join(sorted(wanted)))
    texts = {k: v for k, v in values.items() if k != "position"}
    if not all(isinstance(v, str) for v in texts.values()) or type(values["position"]) is not int:
        _refuse("bad_archive", f"line {number} has a field of the wrong type", "texts and a number")
    # The line's number stands for the place in the order of the store that it came from.
    whole: dict[str, Any] = {**values, "body": values["body"].encode(), "seq": number}
    return Record(**whole)


def _refuse(code: str, message: str, expected: str) -> NoReturn:
    problem = Problem("", code, message, expected)
    raise InvalidInput("the bundle is refused; nothing was imported", [problem])

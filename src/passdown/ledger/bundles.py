"""Bundles: records in one file, to be taken elsewhere. Verified before anything is written.

Records stand one in a line, their bodies as the very text that was hashed. With them goes where the
repository stood: its branch, its commit, what wasn't committed, and, where that was asked for, the
changes themselves. An import happens as a whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

from passdown.errors import Damaged, InvalidInput, Problem
from passdown.ledger.admission import record_problems
from passdown.ledger.bundle_file import SCHEMA, packed, refuse, unpacked
from passdown.ledger.deriving import redo
from passdown.ledger.gates import cycle_problems
from passdown.ledger.via import with_via
from passdown.model.canonical import canonical_bytes
from passdown.model.checkout import read_checkout
from passdown.model.documents import state_document
from passdown.model.kinds import origins_of, stream_of, task_of
from passdown.model.names import id_problems
from passdown.model.plain import load_json
from passdown.model.record import GENESIS, Head, Record, chained
from passdown.model.replaying import replay
from passdown.model.state_schema import check_header, check_item

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from passdown.model.checkout import Checkout
    from passdown.model.fold import Before
    from passdown.store.protocol import Store
    from passdown.store.statements import Reader, Writer

IMPORTER = "passdown"
"""Who records that a task came from elsewhere."""

_LINE_FIELDS = ("stream", "position", "at", "author", "kind", "key", "previous", "digest")


class Imported(NamedTuple):
    """What an import did, by stream: records added, streams that were there already, forks.

    `touched` are the tasks whose state it changed, their own stream or not; `checkout` is where the
    repository stood, and `warnings` say how this one differs.
    """

    added: dict[str, int]
    unchanged: tuple[str, ...]
    forked: dict[str, str]
    touched: tuple[str, ...] = ()
    checkout: Checkout | None = None
    warnings: tuple[Problem, ...] = ()


class Bundle(NamedTuple):
    """What a bundle holds: records by stream, where the repository stood, and its changes."""

    streams: dict[str, list[Record]]
    checkout: Checkout | None = None
    patch: bytes = b""


def bundle_bytes(
    reader: Reader, streams: Sequence[str], checkout: Checkout | None = None, patch: bytes = b""
) -> bytes:
    """The bundle of some streams: their records in the order in which they were written.

    That order tells which task was blocked when, so a bundle keeps it. The same records in the same
    order always give the same bytes.
    """
    found = [record for stream in streams for record in reader.records(stream)]
    found.sort(key=lambda record: record.seq)
    return bundle_bytes_of(found, checkout, patch)


def bundle_bytes_of(
    found: list[Record], checkout: Checkout | None = None, patch: bytes = b""
) -> bytes:
    """The bundle of some records, in their order."""
    heads = {record.stream: [record.position, record.digest] for record in found}
    lines = [_line(record) for record in found]
    records = b"".join(lines)
    manifest: dict[str, Any] = {
        "schema": SCHEMA,
        "heads": heads,
        "records": len(lines),
        "sha256": hashlib.sha256(records).hexdigest(),
    }
    if checkout is not None:
        sha256 = hashlib.sha256(patch).hexdigest() if patch else ""
        stood = checkout._replace(patch_sha256=sha256).document()
        manifest["checkout"] = stood
        manifest["checkout_sha256"] = _digest(stood)
    return packed(manifest, records, patch)


def _digest(document: dict[str, Any]) -> str:
    return hashlib.sha256(canonical_bytes(document)).hexdigest()


def _line(record: Record) -> bytes:
    # ASCII escapes keep every record on one line, whatever line separators its text holds.
    fields = {name: getattr(record, name) for name in _LINE_FIELDS}
    return json.dumps({**fields, "body": record.body.decode()}).encode() + b"\n"


def import_bundle(store: Store, bundle: Bundle, *, at: str, fork: str = "") -> Imported:
    """Take in a bundle. `fork` is a suffix under which tasks that differ here are taken in anew;
    `at` is the time by which it is recorded, beside each task, where the repository stood.
    """
    streams = bundle.streams
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
        if bundle.checkout is not None:
            for stream in added:
                _note_origin(writer, stream, bundle.checkout, at)
    tasks = tuple(sorted(touched - {""}))
    return Imported(added, tuple(unchanged), forked, tasks, bundle.checkout)


def _note_origin(writer: Writer, stream: str, checkout: Checkout, at: str) -> None:
    """Record where the repository of a task stood that was taken in; briefs tell it."""
    head = writer.head(stream)
    if head is None:
        return
    origins = origins_of(task_of(stream) or "")
    told = with_via({"version": head.position, "checkout": checkout.document()}, IMPORTER)
    body = canonical_bytes(told)
    record = Record(origins, 0, at, IMPORTER, "imported", head.digest, "", "", body)
    writer.append(chained(record, writer.head(origins)))


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


def read_bundle(path: str | BinaryIO) -> Bundle:
    """What a bundle holds, or every reason why it can't be trusted."""
    manifest_bytes, lines, patch = unpacked(path)
    loaded = load_json(manifest_bytes)
    manifest = cast("dict[str, Any]", loaded) if isinstance(loaded, dict) else {}
    if manifest.get("schema") != SCHEMA:
        refuse("bad_archive", "its manifest is not that of a Passdown bundle", SCHEMA)
    if hashlib.sha256(lines).hexdigest() != manifest.get("sha256"):
        _explain_edit(lines)
    streams = _streams(lines)
    problems = [p for records in streams.values() for p in _stream_problems(records)]
    if problems:
        raise InvalidInput("the bundle is refused; nothing was imported", problems)
    heads = {s: [r[-1].position, r[-1].digest] for s, r in streams.items()}
    if heads != manifest.get("heads"):
        refuse("bad_archive", "the records are not those that the manifest lists", "both alike")
    return Bundle(streams, _checkout(manifest, patch), patch)


def _checkout(manifest: dict[str, Any], patch: bytes) -> Checkout | None:
    """Where the repository stood; refused where it, or the patch, isn't what was packed."""
    if "checkout" not in manifest:
        return refuse("bad_archive", "it has changes without a commit", "both") if patch else None
    found = read_checkout(manifest["checkout"])
    if _digest(found.document()) != manifest.get("checkout_sha256"):
        refuse("bad_archive", "the state of git in it is not the one that was packed", "both alike")
    if found.patch_sha256 != (hashlib.sha256(patch).hexdigest() if patch else ""):
        refuse("bad_archive", "the changes in it are not those that were packed", "both alike")
    return found


def _streams(lines: bytes) -> dict[str, list[Record]]:
    streams: dict[str, list[Record]] = {}
    for number, line in enumerate(lines.splitlines(), 1):
        record = _parsed(line, number)
        streams.setdefault(record.stream, []).append(record)
    return streams


def _explain_edit(lines: bytes) -> None:
    """Name the edited record where the chain shows it; otherwise the file as a whole."""
    problems = [p for records in _streams(lines).values() for p in _stream_problems(records)]
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


def _parsed(line: bytes, number: int) -> Record:
    loaded = load_json(line, max_bytes=1 << 25)
    values = cast("dict[str, Any]", loaded) if isinstance(loaded, dict) else {}
    wanted = {*_LINE_FIELDS, "body"}
    if set(values) != wanted:
        refuse("bad_archive", f"line {number} is no record", ", ".join(sorted(wanted)))
    texts = {k: v for k, v in values.items() if k != "position"}
    if not all(isinstance(v, str) for v in texts.values()) or type(values["position"]) is not int:
        refuse("bad_archive", f"line {number} has a field of the wrong type", "texts and a number")
    # The line's number stands for the place in the order of the store that it came from.
    whole: dict[str, Any] = {**values, "body": values["body"].encode(), "seq": number}
    return Record(**whole)

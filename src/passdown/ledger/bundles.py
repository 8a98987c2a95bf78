"""Bundles: records in one file, to be taken elsewhere. Verified before anything is written.

Records stand one in a line, their bodies as the very text that was hashed. With them goes where the
repository stood: its branch, its commit, what wasn't committed, and, where that was asked for, the
changes themselves. An import happens as a whole or not at all, and who did it is recorded beside
each task that it brought something to: what a record from elsewhere says of its own door is a
claim.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.errors import InvalidInput, Problem
from passdown.ledger.bundle_file import SCHEMA, packed
from passdown.ledger.bundle_reading import LINE_FIELDS, Bundle, digest_of, read_bundle
from passdown.ledger.deriving import redo
from passdown.ledger.gates import cycle_problems
from passdown.ledger.via import OURS, with_via
from passdown.model.canonical import canonical_bytes
from passdown.model.kinds import origins_of, stream_of, task_of
from passdown.model.names import id_problems
from passdown.model.record import Head, Record, chained

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from passdown.model.checkout import Checkout
    from passdown.store.protocol import Store
    from passdown.store.statements import Reader, Writer

_CHANGED_NOTHING = "the import is refused; nothing was changed"


class Importer(NamedTuple):
    """Who takes a bundle in (nobody in particular: Passdown itself), and when."""

    at: str
    agent: str = OURS


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
    found: Iterable[Record], checkout: Checkout | None = None, patch: bytes = b""
) -> bytes:
    """The bundle of some records, in their order."""
    heads: dict[str, list[Any]] = {}
    lines: list[bytes] = []
    for record in found:
        heads[record.stream] = [record.position, record.digest]
        lines.append(_line(record))
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
        manifest["checkout_sha256"] = digest_of(stood)
    return packed(manifest, records, patch)


def _line(record: Record) -> bytes:
    # ASCII escapes keep every record on one line, whatever line separators its text holds.
    fields = {name: getattr(record, name) for name in LINE_FIELDS}
    return json.dumps({**fields, "body": record.body.decode()}).encode() + b"\n"


def import_bundle(store: Store, bundle: Bundle, importer: Importer, *, fork: str = "") -> Imported:
    """Take in a bundle. `fork` is a suffix under which tasks that differ here are taken in anew."""
    with store.writing([]) as writer:
        plan = _planned(writer, bundle, fork)
        added: dict[str, int] = {}
        touched: set[str] = set()
        for record in bundle.records:
            place = plan[record.stream]
            if record.position <= place.known:
                continue
            moved = place.fork.moved(record) if place.fork else record
            added[moved.stream] = added.get(moved.stream, 0) + 1
            touched.add(task_of(moved.stream) or "")
            touched.update(redo(writer, writer.append(moved)))
        _check_cycles(writer, touched)
        for stream, count in added.items():
            _note_import(writer, stream, count, bundle, importer)
    forked = {stream: place.fork.stream for stream, place in plan.items() if place.fork}
    brought = {*added, *forked}
    unchanged = tuple(stream for stream in plan if stream not in brought)
    tasks = tuple(sorted(touched - {""}))
    return Imported(added, unchanged, forked, tasks, bundle.checkout)


class _Place(NamedTuple):
    """Where the records of a stream go: after the `known` first ones, or into a fork."""

    known: int
    fork: _Fork | None = None


def _planned(reader: Reader, bundle: Bundle, fork: str) -> dict[str, _Place]:
    """Where the records of each stream go; raises InvalidInput where one can't be placed."""
    plan: dict[str, _Place] = {}
    refused: list[Problem] = []
    for stream, last in bundle.heads.items():
        known, problem = _placed(reader, bundle, stream)
        if problem is not None:
            refused.append(problem)
        plan[stream] = _Place(known, _Fork(reader, last, fork) if problem and fork else None)
    if refused and not fork:
        hint = "To keep both, import with a fork suffix for the tasks that differ."
        raise InvalidInput(_CHANGED_NOTHING, refused, next_step=hint)
    return plan


def _placed(reader: Reader, bundle: Bundle, stream: str) -> tuple[int, Problem | None]:
    """How many of a stream's records are here already, or why the rest can't simply be added."""
    last, head = bundle.heads[stream], reader.head(stream)
    if head is None:
        return 0, None
    shared = min(head.position, last.position)
    known, twin = reader.record(stream, shared), bundle.records.at(stream, shared)
    where = f"{stream}@{last.position}"
    if known is None or known.digest != twin.digest:
        message = f"its history differs from the one here (version {head.position})"
        return 0, Problem(where, "diverged", message, "the same history, or a fork")
    if last.position < head.position:
        message = f"an older copy: here it is at version {head.position}"
        return 0, Problem(where, "rollback_refused", message, "a newer copy, or a fork")
    return head.position, None


def _note_import(
    writer: Writer, stream: str, count: int, bundle: Bundle, importer: Importer
) -> None:
    """Record who brought the last `count` records of a task from which bundle, and where its
    repository stood; the log and briefs tell it.
    """
    head = writer.head(stream)
    if head is None:
        raise AssertionError("records were added to it")
    origins = origins_of(task_of(stream) or "")
    told: dict[str, Any] = {
        "version": head.position,
        "first": head.position - count + 1,
        "bundle": bundle.digest,
    }
    if bundle.checkout is not None:
        told["checkout"] = bundle.checkout.document()
    body = canonical_bytes(with_via(told, importer.agent))
    record = Record(origins, 0, importer.at, importer.agent, "imported", head.digest, "", "", body)
    writer.append(chained(record, writer.head(origins)))


def _check_cycles(reader: Reader, tasks: Iterable[str]) -> None:
    for task in sorted(tasks):
        problems = cycle_problems(reader, task, reader.needs(task))
        if problems:
            raise InvalidInput(_CHANGED_NOTHING, problems)


class _Fork:
    """A task taken in as another one, chained anew; its first record says where it came from."""

    def __init__(self, reader: Reader, last: Head, suffix: str) -> None:
        self._last = last
        self._old = task_of(last.stream) or ""
        self._new = f"{self._old}.{suffix}"
        self.stream = stream_of(self._new)
        self._head: Head | None = None
        problems = id_problems(self._new, "fork")
        if problems or reader.head(self.stream) is not None:
            taken = Problem("fork", "exists", f"{self._new} exists already", "another suffix")
            raise InvalidInput("nothing was changed", problems or [taken])

    def moved(self, record: Record) -> Record:
        """The next record of the task, as one of the fork."""
        body = _renamed(record.document(), self._old, self._new)
        if self._head is None:
            last = self._last
            origin = {"task": self._old, "version": last.position, "digest": last.digest}
            body["metadata"] = {**body.get("metadata", {}), "forked_from": origin}
        anew = record._replace(stream=self.stream, body=canonical_bytes(body))
        moved = chained(anew, self._head)
        self._head = Head(self.stream, moved.position, moved.digest)
        return moved


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


__all__ = [
    "Bundle",
    "Imported",
    "Importer",
    "bundle_bytes",
    "bundle_bytes_of",
    "import_bundle",
    "read_bundle",
]

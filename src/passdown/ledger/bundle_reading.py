"""A bundle read: every record checked, none of them kept in memory.

Records wait in a file that has no name; of each task only its end and the places of its records are
remembered. So a bundle may be larger than what memory there is.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from array import array
from itertools import groupby
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Self, cast

from passdown.errors import Damaged, InvalidInput, Problem, StoreUnavailable
from passdown.ledger.admission import record_problems
from passdown.ledger.bundle_file import MAX_LINE, SCHEMA, refuse, unpacking
from passdown.model.canonical import canonical_bytes
from passdown.model.checkout import read_checkout
from passdown.model.documents import item_document, state_document
from passdown.model.kinds import task_of
from passdown.model.names import id_problems
from passdown.model.plain import load_json
from passdown.model.record import GENESIS, Head, Record
from passdown.model.replaying import replay
from passdown.model.state_schema import check_header, check_item

if TYPE_CHECKING:
    from collections.abc import Iterator

    from passdown.model.checkout import Checkout
    from passdown.model.fold import Before

LINE_FIELDS = ("stream", "position", "at", "author", "kind", "key", "previous", "digest")

_REFUSED = "the bundle is refused; nothing was imported"
_MOST_PROBLEMS = 100
_IN_MEMORY = 1 << 22


class Records:
    """Records in their order, out of memory. One reads at a time."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115
        self._places: dict[str, array[int]] = {}
        self._size = 0

    def add(self, stream: str, line: bytes) -> None:
        """Keep the line of a record."""
        try:
            self._file.write(line)
        except OSError as error:
            raise StoreUnavailable(
                f"the bundle can't be unpacked ({error.strerror or error}); nothing was imported",
                next_step="Make room where temporary files are, or let TMPDIR name another place.",
            ) from error
        self._places.setdefault(stream, array("Q")).append(self._size)
        self._size += len(line)

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams, in the order in which they begin."""
        return tuple(self._places)

    def __iter__(self) -> Iterator[Record]:
        """All records; `seq` is the place of each in the order of the store it came from."""
        self._file.seek(0)
        for number, line in enumerate(iter(self._file.readline, b""), 1):
            yield _record(json.loads(line), number)

    def of(self, stream: str) -> Iterator[Record]:
        """The records of a stream."""
        return (self.at(stream, number) for number in range(1, len(self._places[stream]) + 1))

    def at(self, stream: str, position: int) -> Record:
        """The record of a stream whose chain is whole, by its position."""
        self._file.seek(self._places[stream][position - 1])
        return _record(json.loads(self._file.readline()), 0)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


class Bundle(NamedTuple):
    """What a bundle holds: records, the heads of their streams, where the repository stood, its
    changes; `digest` is that of the records.
    """

    records: Records
    heads: dict[str, Head]
    checkout: Checkout | None
    patch: bytes
    digest: str

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.records.close()


def read_bundle(path: str | BinaryIO, max_unpacked: int | None = None) -> Bundle:
    """What a bundle holds, or every reason why it can't be trusted; close it in the end."""
    records = Records()
    try:
        with unpacking(path, max_unpacked) as packed:
            manifest = _manifest(packed.manifest)
            sha256 = hashlib.sha256()
            chains: dict[str, _Chain] = {}
            for number, line in enumerate(packed.lines, 1):
                sha256.update(line)
                record = _parsed(line, number)
                chains.setdefault(record.stream, _Chain(record.stream)).follow(record)
                records.add(record.stream, line)
                if number % 1_000 == 0:
                    _refuse_many(chains)
            patch = packed.patch
        _check(records, chains)
        digest = sha256.hexdigest()
        if digest != manifest.get("sha256"):
            message = "is not the one that the manifest describes"
            raise InvalidInput(_REFUSED, [Problem("records.jsonl", "bad_archive", message)])
        heads = {stream: chain.head for stream, chain in chains.items()}
        if {s: [head.position, head.digest] for s, head in heads.items()} != manifest.get("heads"):
            refuse("bad_archive", "the records are not those that the manifest lists", "both alike")
        return Bundle(records, heads, _checkout(manifest, patch), patch, f"sha256:{digest}")
    except BaseException:
        records.close()
        raise


def _manifest(data: bytes) -> dict[str, Any]:
    loaded = load_json(data, max_bytes=len(data))
    manifest = cast("dict[str, Any]", loaded) if isinstance(loaded, dict) else {}
    if manifest.get("schema") != SCHEMA:
        refuse("bad_archive", "its manifest is not that of a Passdown bundle", SCHEMA)
    return manifest


def digest_of(document: dict[str, Any]) -> str:
    """The SHA-256 of a document of a manifest."""
    return hashlib.sha256(canonical_bytes(document)).hexdigest()


def _checkout(manifest: dict[str, Any], patch: bytes) -> Checkout | None:
    """Where the repository stood; refused where it, or the patch, isn't what was packed."""
    if "checkout" not in manifest:
        return refuse("bad_archive", "it has changes without a commit", "both") if patch else None
    found = read_checkout(manifest["checkout"])
    if digest_of(found.document()) != manifest.get("checkout_sha256"):
        refuse("bad_archive", "the state of git in it is not the one that was packed", "both alike")
    if found.patch_sha256 != (hashlib.sha256(patch).hexdigest() if patch else ""):
        refuse("bad_archive", "the changes in it are not those that were packed", "both alike")
    return found


class _Chain:
    """A stream as far as it was read: where it ends, and what is wrong with it."""

    def __init__(self, stream: str) -> None:
        self.head = Head(stream, 0, GENESIS)
        task = task_of(stream)
        self.breaks = (
            id_problems(task, "stream")
            if task is not None
            else [Problem("stream", "unknown_stream", f"{stream[:80]!r}", "a task's")]
        )
        self.unfit: list[Problem] = []

    @property
    def problems(self) -> list[Problem]:
        """What is wrong. Where a chain is broken, what its records say is of no interest."""
        return self.breaks or self.unfit

    def follow(self, record: Record) -> None:
        """Take the next record."""
        head = self.head
        is_next = record.position == head.position + 1 and record.previous == head.digest
        if not is_next or not record.is_intact():
            where, message = (
                f"{record.stream}@{record.position}",
                "is not what was written, or not in its place",
            )
            self.breaks.append(Problem(where, "chain_broken", message, "an unchanged record"))
        elif not self.breaks:
            self.unfit += record_problems(record)
        self.head = Head(record.stream, record.position, record.digest)


def _refuse_many(chains: dict[str, _Chain]) -> None:
    """Refuse a bundle that has too much wrong with it to go on reading."""
    problems = [problem for chain in chains.values() for problem in chain.problems]
    if len(problems) > _MOST_PROBLEMS:
        raise InvalidInput(_REFUSED, problems[:_MOST_PROBLEMS])


def _check(records: Records, chains: dict[str, _Chain]) -> None:
    """Raise unless every stream is whole and gives a state that keeps to the published schema."""
    for stream, chain in chains.items():
        if chain.problems:
            continue
        try:
            _check_state(records, stream)
        except Damaged as error:
            chain.unfit = [p._replace(path=f"{stream}: {p.path}") for p in error.problems]
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            chain.unfit = [Problem(stream, "unreadable", f"can't be replayed ({error})")]
    problems = [problem for chain in chains.values() for problem in chain.problems]
    if problems:
        raise InvalidInput(_REFUSED, problems[:_MOST_PROBLEMS])


def _check_state(records: Records, stream: str) -> None:
    """Raise unless the records, replayed, give a state that keeps to the published schema."""
    replayed = replay(records.of(stream), _refuse_passed_gate, with_documents=False)
    if replayed is None:
        return
    task, last = task_of(stream) or "", replayed.last
    head = (task, last.position, last.digest)
    header = state_document(head, replayed.details, replayed.header, ())
    check_header({**header, "blocked_by": []})
    rows = iter(replayed.rows.values())
    for position, of_record in groupby(rows, key=lambda row: row.position):
        record = records.at(stream, position)
        body = record.document()
        for row in of_record:
            document = item_document(row, record, body)
            if document["address"] != f"{task}#{row.letter}{row.ordinal}":
                raise ValueError(f"an item calls itself {document['address']!r:.60}")
            check_item(row.letter, document)


def _refuse_passed_gate(before: Before, record: Record) -> None:
    waiting = [r for r in before.open_items if r.letter == "k" and r.status == "pending"]
    if record.kind == "handoff" and waiting:
        raise ValueError(f"version {record.position} passes {waiting[0].address} without an answer")


def _parsed(line: bytes, number: int) -> Record:
    try:
        loaded = load_json(line, max_bytes=MAX_LINE)
    except InvalidInput as error:
        found = [p._replace(path=f"line {number}") for p in error.problems]
        raise InvalidInput(_REFUSED, found) from error
    values = cast("dict[str, Any]", loaded) if isinstance(loaded, dict) else {}
    wanted = {*LINE_FIELDS, "body"}
    if set(values) != wanted:
        refuse("bad_archive", f"line {number} is no record", ", ".join(sorted(wanted)))
    texts = {k: v for k, v in values.items() if k != "position"}
    if not all(isinstance(v, str) for v in texts.values()) or type(values["position"]) is not int:
        refuse("bad_archive", f"line {number} has a field of the wrong type", "texts and a number")
    return _record(values, number)


def _record(values: dict[str, Any], number: int) -> Record:
    # The line's number stands for the place in the order of the store that it came from.
    whole: dict[str, Any] = {**values, "body": values["body"].encode(), "seq": number}
    return Record(**whole)

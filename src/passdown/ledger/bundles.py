"""Bundles: records in one zip file, verified before anything of it is written.

A bundle holds `manifest.json` (heads and counts), `records.jsonl` and sometimes `changes.patch`. No
member is ever written under its name; records are read line by line and never all kept in memory.
"""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
import zipfile
import zlib
from array import array
from contextlib import closing, contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, NoReturn, Self, cast

from passdown.core.checkout import Checkout, read_checkout
from passdown.core.documents import item_document, state_document
from passdown.core.fold import replay
from passdown.core.kinds import origins_of, stream_of, task_of
from passdown.core.names import id_problems
from passdown.core.parsing import load_json
from passdown.core.record import GENESIS, Head, Record, canonical_bytes, chained
from passdown.core.state_files import check_state
from passdown.errors import Damaged, InvalidInput, Problem, StoreUnavailable, raise_problems
from passdown.ledger.admission import record_problems
from passdown.ledger.channel import SYSTEM_AUTHOR, with_channel
from passdown.ledger.gates import cycle_problems
from passdown.ledger.writer import derive_again

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from passdown.core.fold import TaskBefore
    from passdown.store.protocol import Store
    from passdown.store.statements import Reader, Writer


_REFUSED = "the bundle is refused; nothing was imported"
SCHEMA = "passdown/bundle/1"
MEMBERS = ("manifest.json", "records.jsonl")
PATCH = "changes.patch"
MAX_BYTES = 1 << 30
"""To how many bytes a bundle may unpack, unless somebody says otherwise."""
MAX_RATIO = 100
"""To how many times its own size a bundle may unpack, unless somebody says otherwise. An export of
the same handoff 300 times over swells 24 times, a bomb about a thousand times.
"""
ALWAYS_BYTES = 1 << 24
"""What a small bundle may unpack to, however much that is of its own size."""
MAX_LINE = 1 << 25
_MAX_SMALL = 1 << 24
_EPOCH = (1980, 1, 1, 0, 0, 0)


class OpenBundle(NamedTuple):
    """A bundle that is open: its manifest, its patch (none is an empty one), its lines."""

    manifest: bytes
    patch: bytes
    lines: Iterator[bytes]


def pack_bundle(manifest: dict[str, Any], records: bytes, patch: bytes) -> bytes:
    """The file's bytes, which depend on its content alone."""
    text = json.dumps(manifest, indent=2, sort_keys=True).encode()
    members = [*zip(MEMBERS, (text, records), strict=True), *([(PATCH, patch)] if patch else [])]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(_member(name), data)
    return buffer.getvalue()


def _member(name: str) -> zipfile.ZipInfo:
    """A member with a fixed time, so that a bundle's bytes depend on its content alone."""
    member = zipfile.ZipInfo(name, _EPOCH)
    member.compress_type = zipfile.ZIP_DEFLATED
    member.external_attr = 0o600 << 16
    return member


@contextmanager
def open_bundle(path: str | BinaryIO, max_unpacked: int | None = None) -> Generator[OpenBundle]:
    """A bundle, open while the block lasts; raises InvalidInput for a file that is none, and for
    one that unpacks to more than `max_unpacked` bytes (None: the usual bounds).
    """
    with _readable(path):
        archive = zipfile.ZipFile(path)
    with archive:
        with _readable(path):
            names = _checked(archive.infolist(), max_unpacked)
            manifest = _small(archive, MEMBERS[0])
            patch = _small(archive, PATCH) if PATCH in names else b""
        with closing(_lines(archive, path)) as lines:
            yield OpenBundle(manifest, patch, lines)


@contextmanager
def _readable(path: str | BinaryIO) -> Generator[None]:
    """Turn what can go wrong with an archive into the refusal of it."""
    try:
        yield
    except FileNotFoundError as error:
        raise InvalidInput(
            "nothing was imported", [Problem("path", "missing_file", f"{path} was not found")]
        ) from error
    except InvalidInput:
        raise
    except (zipfile.BadZipFile, OSError, EOFError, RuntimeError, ValueError, zlib.error) as error:
        problem = Problem("", "bad_archive", f"not a bundle ({error})", "a file from export")
        raise InvalidInput(_REFUSED, [problem]) from error


def _checked(members: list[zipfile.ZipInfo], max_unpacked: int | None) -> list[str]:
    """The names of the members, which must be those of a bundle, packed in a known way. No member
    gives more bytes than it says, so what is too large isn't even read.
    """
    names = [member.filename for member in members]
    if sorted(names) not in (sorted(MEMBERS), sorted((*MEMBERS, PATCH))):
        shown = ", ".join(name[:60] for name in names[:6])
        refuse_bundle("bad_archive", f"it holds {shown!r}", " and ".join(MEMBERS))
    for member in members:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            refuse_bundle("bad_archive", f"{member.filename} is packed in another way", "deflate")
    size = sum(member.file_size for member in members)
    most = max_unpacked
    if most is None:
        own = sum(member.compress_size for member in members)
        most = min(MAX_BYTES, max(ALWAYS_BYTES, MAX_RATIO * own))
    if size > most:
        _too_large(f"it unpacks to {size:,} bytes", most)
    return names


def _too_large(message: str, most: int) -> NoReturn:
    problem = Problem("", "too_large", message, f"at most {most:,}")
    raise InvalidInput(
        _REFUSED,
        [problem],
        next_step="If you know who made it and it has to be as large: passdown import "
        "--max-unpacked BYTES, where the store is (in Python: max_unpacked).",
    )


def _small(archive: zipfile.ZipFile, name: str) -> bytes:
    """A member's bytes, of which there may only be few."""
    with archive.open(name) as member:
        data = member.read(_MAX_SMALL + 1)
    if len(data) > _MAX_SMALL:
        refuse_bundle("too_large", f"{name} unpacks to more than {_MAX_SMALL:,} bytes", "less")
    return data


def _lines(archive: zipfile.ZipFile, path: str | BinaryIO) -> Generator[bytes]:
    """The records, line by line; none of them may be longer than any record is."""
    with _readable(path):
        # A member is no raw stream by its type, but reads like one.
        member: Any = archive.open(MEMBERS[1])
        lines = io.BufferedReader(member, 1 << 16)
    with lines:
        while True:
            with _readable(path):
                line = lines.readline(MAX_LINE + 1)
            if not line:
                return
            if len(line) > MAX_LINE:
                refuse_bundle("too_large", f"a record has more than {MAX_LINE:,} bytes", "less")
            yield line


def refuse_bundle(code: str, message: str, expected: str) -> NoReturn:
    """Refuse a bundle."""
    raise InvalidInput(_REFUSED, [Problem("", code, message, expected)])


LINE_FIELDS = ("stream", "position", "at", "author", "kind", "key", "previous", "digest")

_MOST_PROBLEMS = 100
_IN_MEMORY = 1 << 22


class BundleRecords:
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
        """Close the file."""
        self._file.close()


class Bundle(NamedTuple):
    """What a bundle holds: records, the heads of their streams, the state of the repository, its
    changes; `digest` is that of the records.
    """

    records: BundleRecords
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
    records = BundleRecords()
    try:
        with open_bundle(path, max_unpacked) as packed:
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
            refuse_bundle(
                "bad_archive", "the records are not those that the manifest lists", "both alike"
            )
        return Bundle(records, heads, _checkout(manifest, patch), patch, f"sha256:{digest}")
    except BaseException:
        records.close()
        raise


def _manifest(data: bytes) -> dict[str, Any]:
    loaded = load_json(data, max_bytes=len(data))
    manifest = cast("dict[str, Any]", loaded) if isinstance(loaded, dict) else {}
    if manifest.get("schema") != SCHEMA:
        refuse_bundle("bad_archive", "its manifest is not that of a Passdown bundle", SCHEMA)
    return manifest


def document_sha256(document: dict[str, Any]) -> str:
    """The SHA-256 of a document of a manifest."""
    return hashlib.sha256(canonical_bytes(document)).hexdigest()


def _checkout(manifest: dict[str, Any], patch: bytes) -> Checkout | None:
    """The state of the repository; refused where it, or the patch, isn't what was packed."""
    if "checkout" not in manifest:
        if patch:
            refuse_bundle("bad_archive", "it has changes without a commit", "both")
        return None
    found = read_checkout(manifest["checkout"])
    wrong = ""
    if document_sha256(found.document()) != manifest.get("checkout_sha256"):
        wrong = "the state of git in it is not the one that was packed"
    elif found.patch_sha256 != (hashlib.sha256(patch).hexdigest() if patch else ""):
        wrong = "the changes in it are not those that were packed"
    if wrong:
        refuse_bundle("bad_archive", wrong, "both alike")
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
            where = f"{record.stream}@{record.position}"
            message = "is not what was written, or not in its place"
            self.breaks.append(Problem(where, "chain_broken", message, "an unchanged record"))
        elif not self.breaks:
            self.unfit += record_problems(record)
        self.head = Head(record.stream, record.position, record.digest)


def _refuse_many(chains: dict[str, _Chain]) -> None:
    """Refuse a bundle that has too much wrong with it to go on reading."""
    problems = [problem for chain in chains.values() for problem in chain.problems]
    if len(problems) > _MOST_PROBLEMS:
        raise InvalidInput(_REFUSED, problems[:_MOST_PROBLEMS])


def _check(records: BundleRecords, chains: dict[str, _Chain]) -> None:
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


def _check_state(records: BundleRecords, stream: str) -> None:
    """Raise unless the records, replayed, give a state that keeps to the published schema."""
    replayed = replay(records.of(stream), _refuse_passed_gate, with_documents=False)
    if replayed is None:
        return
    task, last = task_of(stream) or "", replayed.last
    head = (task, last.position, last.digest)
    rows = iter(replayed.rows.values())
    for position, of_record in groupby(rows, key=lambda row: row.position):
        record = records.at(stream, position)
        body = record.document()
        items: list[tuple[str, dict[str, Any]]] = []
        for row in of_record:
            document = item_document(row, record, body)
            if document["address"] != f"{task}#{row.letter}{row.ordinal}":
                raise ValueError(f"an item calls itself {document['address']!r:.60}")
            items.append((row.letter, document))
        # Record by record: a whole task may not fit into memory.
        state = state_document(head, replayed.details, replayed.header, items)
        check_state({**state, "blocked_by": []})


def _refuse_passed_gate(before: TaskBefore, record: Record) -> None:
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
        refuse_bundle("bad_archive", f"line {number} is no record", ", ".join(sorted(wanted)))
    texts = {k: v for k, v in values.items() if k != "position"}
    if not all(isinstance(v, str) for v in texts.values()) or type(values["position"]) is not int:
        refuse_bundle(
            "bad_archive", f"line {number} has a field of the wrong type", "texts and a number"
        )
    return _record(values, number)


def _record(values: dict[str, Any], number: int) -> Record:
    # The line's number is the place in the order of the store that it came from.
    whole: dict[str, Any] = {**values, "body": values["body"].encode(), "seq": number}
    return Record(**whole)


_CHANGED_NOTHING = "the import is refused; nothing was changed"


class BundleImporter(NamedTuple):
    """Who takes a bundle in (nobody in particular: Passdown itself), and when."""

    at: str
    agent: str = SYSTEM_AUTHOR


class BundleImport(NamedTuple):
    """What an import did, by stream: records added, streams that were there already, forks.

    `touched` are the tasks whose state it changed, their own stream or not; `checkout` is the state
    of the repository, and `warnings` say how this one differs.
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
        packed = checkout._replace(patch_sha256=sha256).document()
        manifest["checkout"] = packed
        manifest["checkout_sha256"] = document_sha256(packed)
    return pack_bundle(manifest, records, patch)


def _line(record: Record) -> bytes:
    # ASCII escapes keep every record on one line, whatever line separators its text holds.
    fields = {name: getattr(record, name) for name in LINE_FIELDS}
    return json.dumps({**fields, "body": record.body.decode()}).encode() + b"\n"


def import_bundle(
    store: Store, bundle: Bundle, importer: BundleImporter, *, fork: str = ""
) -> BundleImport:
    """Import a bundle. `fork` is a suffix under which tasks that differ here are imported."""
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
            touched.update(derive_again(writer, writer.append(moved)))
        _check_cycles(writer, touched)
        for stream, count in added.items():
            _note_import(writer, stream, count, bundle, importer)
    forked = {stream: place.fork.stream for stream, place in plan.items() if place.fork}
    changed = {*added, *forked}
    unchanged = tuple(stream for stream in plan if stream not in changed)
    tasks = tuple(sorted(touched - {""}))
    return BundleImport(added, unchanged, forked, tasks, bundle.checkout)


class _Placement(NamedTuple):
    """Where the records of a stream go: after the `known` first ones, or into a fork."""

    known: int
    fork: _Fork | None = None


def _planned(reader: Reader, bundle: Bundle, fork: str) -> dict[str, _Placement]:
    """Where the records of each stream go; raises InvalidInput where one can't be placed."""
    plan: dict[str, _Placement] = {}
    refused: list[Problem] = []
    for stream, last in bundle.heads.items():
        known, problem = _placed(reader, bundle, stream)
        if problem is not None:
            refused.append(problem)
        plan[stream] = _Placement(known, _Fork(reader, last, fork) if problem and fork else None)
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
    writer: Writer, stream: str, count: int, bundle: Bundle, importer: BundleImporter
) -> None:
    """Record who imported the last `count` records of a task from which bundle, and the state of
    its repository; the log and briefs show it.
    """
    head = cast("Head", writer.head(stream))  # records were added to it
    origins = origins_of(task_of(stream) or "")
    origin: dict[str, Any] = {
        "version": head.position,
        "first": head.position - count + 1,
        "bundle": bundle.digest,
    }
    if bundle.checkout is not None:
        origin["checkout"] = bundle.checkout.document()
    body = canonical_bytes(with_channel(origin, importer.agent))
    record = Record(origins, 0, importer.at, importer.agent, "imported", head.digest, "", "", body)
    writer.append(chained(record, writer.head(origins)))


def _check_cycles(reader: Reader, tasks: Iterable[str]) -> None:
    for task in sorted(tasks):
        problems = cycle_problems(reader, task, reader.needs(task))
        raise_problems(_CHANGED_NOTHING, problems)


class _Fork:
    """A task imported as another one, chained again; its first record says where it came from."""

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
        renamed = record._replace(stream=self.stream, body=canonical_bytes(body))
        moved = chained(renamed, self._head)
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

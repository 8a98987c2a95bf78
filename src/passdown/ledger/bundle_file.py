"""A bundle's file: a zip with `manifest.json` (heads and counts), `records.jsonl`, and sometimes
`changes.patch`. No member is ever written under its name: records come out line by line.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, NoReturn

from passdown.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

SCHEMA = "passdown/bundle/1"
MEMBERS = ("manifest.json", "records.jsonl")
PATCH = "changes.patch"
MAX_BYTES = 1 << 30
"""To how many bytes a bundle may unpack, unless somebody says otherwise."""
SWELLS = 100
"""To how many times its own size a bundle may unpack, unless somebody says otherwise. An export of
the same handoff 300 times over swells 24 times, a bomb about a thousand times.
"""
ALWAYS_BYTES = 1 << 24
"""What a small bundle may unpack to, however much that is of its own size."""
MAX_LINE = 1 << 25
_MAX_SMALL = 1 << 24
_EPOCH = (1980, 1, 1, 0, 0, 0)


class Packed(NamedTuple):
    """A bundle that is open: its manifest, its patch (none is an empty one), its lines."""

    manifest: bytes
    patch: bytes
    lines: Iterator[bytes]


def packed(manifest: dict[str, Any], records: bytes, patch: bytes) -> bytes:
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
def unpacking(path: str | BinaryIO, max_unpacked: int | None = None) -> Generator[Packed]:
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
            yield Packed(manifest, patch, lines)


@contextmanager
def _readable(path: str | BinaryIO) -> Generator[None]:
    """Turn what can go wrong with an archive into the refusal of it."""
    try:
        yield
    except FileNotFoundError as error:
        raise InvalidInput(
            "nothing was imported", [Problem("path", "missing_file", f"{path} is not there")]
        ) from error
    except InvalidInput:
        raise
    except (zipfile.BadZipFile, OSError, EOFError, RuntimeError, ValueError, zlib.error) as error:
        problem = Problem("", "bad_archive", f"not a bundle ({error})", "a file from export")
        raise InvalidInput("the bundle is refused; nothing was imported", [problem]) from error


def _checked(members: list[zipfile.ZipInfo], max_unpacked: int | None) -> list[str]:
    """The names of the members, which must be those of a bundle, packed in a known way. No member
    gives more bytes than it says, so what is too large isn't even read.
    """
    names = [member.filename for member in members]
    if sorted(names) not in (sorted(MEMBERS), sorted((*MEMBERS, PATCH))):
        shown = ", ".join(name[:60] for name in names[:6])
        refuse("bad_archive", f"it holds {shown!r}", " and ".join(MEMBERS))
    for member in members:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            refuse("bad_archive", f"{member.filename} is packed in another way", "deflate")
    size = sum(member.file_size for member in members)
    most = max_unpacked
    if most is None:
        own = sum(member.compress_size for member in members)
        most = min(MAX_BYTES, max(ALWAYS_BYTES, SWELLS * own))
    if size > most:
        _too_large(f"it unpacks to {size:,} bytes", most)
    return names


def _too_large(message: str, most: int) -> NoReturn:
    problem = Problem("", "too_large", message, f"at most {most:,}")
    raise InvalidInput(
        "the bundle is refused; nothing was imported",
        [problem],
        next_step="If you know who made it and it has to be as large: passdown import "
        "--max-unpacked BYTES, where the store is (in Python: max_unpacked).",
    )


def _small(archive: zipfile.ZipFile, name: str) -> bytes:
    """A member's bytes, of which there may only be few."""
    with archive.open(name) as member:
        data = member.read(_MAX_SMALL + 1)
    if len(data) > _MAX_SMALL:
        refuse("too_large", f"{name} unpacks to more than {_MAX_SMALL:,} bytes", "less")
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
                refuse("too_large", f"a record has more than {MAX_LINE:,} bytes", "less")
            yield line


def refuse(code: str, message: str, expected: str) -> NoReturn:
    """Refuse a bundle."""
    problem = Problem("", code, message, expected)
    raise InvalidInput("the bundle is refused; nothing was imported", [problem])

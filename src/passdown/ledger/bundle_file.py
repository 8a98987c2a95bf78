"""A bundle's file: a zip with `manifest.json` (heads and counts), `records.jsonl`, and sometimes
`changes.patch`. Nothing is ever unpacked to disk: members are read as bytes, up to a limit.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from typing import Any, BinaryIO, NamedTuple, NoReturn

from passdown.errors import InvalidInput, Problem

SCHEMA = "passdown/bundle/1"
MEMBERS = ("manifest.json", "records.jsonl")
PATCH = "changes.patch"
MAX_BYTES = 1 << 30
_MAX_SMALL = 1 << 24
_EPOCH = (1980, 1, 1, 0, 0, 0)


class Contents(NamedTuple):
    """The members of a bundle; no patch is an empty one."""

    manifest: bytes
    records: bytes
    patch: bytes


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


def unpacked(path: str | BinaryIO) -> Contents:
    """The members of a bundle; raises InvalidInput for a file that is none."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = _checked(archive.infolist())
            return Contents(
                _bounded(archive, MEMBERS[0], _MAX_SMALL),
                _bounded(archive, MEMBERS[1], MAX_BYTES),
                _bounded(archive, PATCH, _MAX_SMALL) if PATCH in names else b"",
            )
    except FileNotFoundError as error:
        raise InvalidInput(
            "nothing was imported", [Problem("path", "missing_file", f"{path} is not there")]
        ) from error
    except InvalidInput:
        raise
    except (zipfile.BadZipFile, OSError, EOFError, RuntimeError, ValueError, zlib.error) as error:
        problem = Problem("", "bad_archive", f"not a bundle ({error})", "a file from export")
        raise InvalidInput("the bundle is refused; nothing was imported", [problem]) from error


def _checked(members: list[zipfile.ZipInfo]) -> list[str]:
    """The names of the members, which must be those of a bundle, packed in a known way; a size
    beyond the limit isn't even read.
    """
    names = [member.filename for member in members]
    if sorted(names) not in (sorted(MEMBERS), sorted((*MEMBERS, PATCH))):
        shown = ", ".join(name[:60] for name in names[:6])
        refuse("bad_archive", f"it holds {shown!r}", " and ".join(MEMBERS))
    for member in members:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            refuse("bad_archive", f"{member.filename} is packed in another way", "deflate")
        if member.file_size > MAX_BYTES:
            refuse("too_large", f"{member.filename} unpacks to {member.file_size:,} bytes", "less")
    return names


def _bounded(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    """A member's bytes, read in steps so that a bomb is refused before it fills anything."""
    parts: list[bytes] = []
    total = 0
    with archive.open(name) as member:
        while chunk := member.read(1 << 20):
            total += len(chunk)
            if total > limit:
                refuse("too_large", f"{name} unpacks to more than {limit:,} bytes", "less")
            parts.append(chunk)
    return b"".join(parts)


def refuse(code: str, message: str, expected: str) -> NoReturn:
    """Refuse a bundle."""
    problem = Problem("", code, message, expected)
    raise InvalidInput("the bundle is refused; nothing was imported", [problem])

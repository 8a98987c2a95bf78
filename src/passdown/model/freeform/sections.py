"""The handoff section of a note's own file: written below the note, found again, replaced.

The note stays in front of it as it was, byte for byte. Read back, the section gives the handoff
that it was written from.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.errors import InvalidInput
from passdown.model.freeform.blocks import fence_after, lines_of, open_fence
from passdown.model.intake.reading import MAX_MARKUP_LINE, handoff_section, read_task_file

if TYPE_CHECKING:
    from collections.abc import Iterator

Plain = dict[str, Any]

_TITLE = "## Handoff"
_REMARK = "<!-- Structured from the note above by passdown migrate. The note is as it was. -->"
_HEADING = re.compile(r"(#{1,6})[ \t](.*)")
_PLAIN_SCALAR = re.compile(r"[A-Za-z](?:[A-Za-z0-9 ,()/._+-]*[A-Za-z0-9).])?")
_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off"})


class Parts(NamedTuple):
    """A file with a handoff section: what stands before it, the section itself, what follows."""

    before: str
    section: str
    after: str


def section_of(plain: Plain) -> str:
    """A handoff as a section of a task file."""
    ordered = {name: value for name, value in plain.items() if name != "metadata"}
    if "metadata" in plain:
        ordered["metadata"] = plain["metadata"]
    lines = "\n".join(_yaml(ordered, 0))
    return f"{_TITLE}\n\n{_REMARK}\n\n```yaml\n{lines}\n```\n"


def read_section(section: str) -> Plain:
    """The handoff that a section holds, empty where it holds none."""
    try:
        return read_task_file(section)
    except InvalidInput:
        return {}


def source_of(plain: Plain) -> Plain:
    """What a migrated handoff says of the note that it came from; empty for any other."""
    metadata: object = plain.get("metadata")
    found: object = cast("Plain", metadata).get("migrated") if isinstance(metadata, dict) else None
    return cast("Plain", found) if isinstance(found, dict) else {}


def parts_of(text: str) -> Parts | None:
    """A file by its last handoff section, or None where it has none."""
    start = end = -1
    level = 0
    fence = ""
    for line in lines_of(text):
        fence = fence_after(fence, line.text)
        is_short = len(line.text) <= MAX_MARKUP_LINE
        heading = None if fence or not is_short else _HEADING.fullmatch(line.text)
        if heading is None:
            continue
        if heading[2].strip().rstrip("#").rstrip().lower() == "handoff":
            start, end, level = line.start, len(text), len(heading[1])
        elif level and len(heading[1]) <= level:
            end, level = line.start, 0
    return Parts(text[:start], text[start:end], text[end:]) if start >= 0 else None


def written_below(note: str, section: str) -> str:
    """A note's file with a section below it. Raises ValueError where none would be read there."""
    newline = "\r\n" if "\r\n" in note else "\n"
    gap = "" if not note or note.endswith("\n") else newline
    fence = open_fence(note)
    closing = f"{fence}{newline}" if fence else ""
    whole = note + gap + closing + newline + section.replace("\n", newline)
    if handoff_section(whole) != handoff_section(section):
        raise ValueError("a section below this note would not be read as one")
    return whole


def note_in(parts: Parts, source: Plain) -> str:
    """The note that a migrated file holds: what stood there at first, if it still does."""
    length = str(source.get("characters", ""))
    return parts.before[: int(length)] if length.isdigit() and len(length) < 12 else parts.before


def _yaml(value: Plain, indent: int) -> Iterator[str]:
    space = " " * indent
    for name, part in value.items():
        if isinstance(part, dict):
            yield f"{space}{_scalar(name)}:"
            yield from _yaml(cast("Plain", part), indent + 2)
        elif isinstance(part, list):
            yield f"{space}{_scalar(name)}:"
            for entry in cast("list[Any]", part):
                yield from _entry(entry, indent + 2)
        else:
            yield f"{space}{_scalar(name)}: {_scalar(part)}"


def _entry(entry: Any, indent: int) -> Iterator[str]:
    """An entry of a list: its first line bears the dash."""
    space = " " * indent
    if not isinstance(entry, dict):
        yield f"{space}- {_scalar(entry)}"
        return
    lines = list(_yaml(cast("Plain", entry), indent + 2))
    yield f"{space}- {lines[0].lstrip()}"
    yield from lines[1:]


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if _PLAIN_SCALAR.fullmatch(text) and text.lower() not in _WORDS and "  " not in text:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted if quoted.isprintable() else "".join(map(_escaped, quoted))


def _escaped(char: str) -> str:
    if char.isprintable():
        return char
    point = ord(char)
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"

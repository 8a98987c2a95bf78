"""Detect the format of a file or folder to import."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from passdown.imports.adr import is_built_adr, is_named_adr, looks_like_adr
from passdown.imports.beads import looks_like_beads
from passdown.imports.mcp_memory import looks_like_memory
from passdown.imports.parsing import read_lines, read_page

if TYPE_CHECKING:
    from collections.abc import Iterable


IMPORT_FORMATS = ("bundle", "adr", "beads", "memory", "notes")

_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_HEAD_BYTES = 65_536
_HEAD_LINES = 20
_TEXT = (".md", ".markdown", ".txt")
_NOTES_NAME = re.compile(r"hand-?_?off|session|progress|memory|notes?|status|todo|continu|context")
_HANDOFF = re.compile(r"hand[-_ ]?(?:off|over)s?")
_GOES_ON = re.compile(r"(?:what(?:'s| is) )?next\b|to-?do")
_NOTES_HEADING = re.compile(
    r"hand-?off|next steps?|current (?:state|status)|where (?:we|things)|blockers?|open questions?"
    r"|gotchas?|what (?:was|is) done|decisions? made|pick up"
)


def format_of(name: str, data: bytes) -> str:
    """The form of a file, by its beginning; empty where none fits."""
    if data.startswith(_ZIP):
        return "bundle"
    head = data[:_HEAD_BYTES]
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return _form_of_lines(data)
    if not name.lower().endswith(_TEXT):
        return ""
    return format_of_page(name, data.decode("utf-8", "replace"))


def format_of_page(name: str, text: str) -> str:
    """Whether a page is an ADR or notes; empty where it is neither, or could be both.

    Notes have decisions and a status too: an ADR is called one, or built like one. What is called
    a handoff, or has a section of that name, is one.
    """
    page = read_page(text)
    headings = [section.name.strip().lower()[:200] for section in page.sections]
    stem = name.rpartition("/")[2].lower()
    if _HANDOFF.match(stem) or any(_HANDOFF.fullmatch(each) for each in headings):
        return "notes"
    if not looks_like_adr(name, text):
        return "notes" if _is_notes(name, text) else ""
    signs = is_named_adr(name, page) + is_built_adr(page)
    if any(_GOES_ON.match(each) for each in headings):
        return {0: "notes", 2: "adr"}.get(signs, "")
    return "adr" if signs else "notes" if _is_notes(name, text) else ""


def _form_of_lines(data: bytes) -> str:
    """The form of JSON lines: that of the first lines which have one."""
    first = data.split(b"\n", _HEAD_LINES)[:_HEAD_LINES]
    for _, entry in read_lines(b"\n".join(first)).objects:
        if looks_like_memory(entry):
            return "memory"
        if looks_like_beads(entry):
            return "beads"
    return ""


def _is_notes(name: str, text: str) -> bool:
    """Whether a page is what one agent leaves for the next, by its name and its headings."""
    page = read_page(text)
    headings = [page.title, *(section.name for section in page.sections)]
    hits = sum(bool(_NOTES_HEADING.search(each.lower()[:200])) for each in headings)
    is_named = bool(_NOTES_NAME.search(name.rpartition("/")[2].lower()))
    return hits >= (1 if is_named else 2)


def format_of_folder(forms: Iterable[str]) -> list[str]:
    """The forms that a folder's files have, the one of the most files first.

    A page of notes beside ADRs is a page about them, so notes count only where they are alone.
    """
    counts: dict[str, int] = {}
    for form in forms:
        counts[form] = counts.get(form, 0) + bool(form)
    found = sorted((form for form in counts if form), key=lambda form: -counts[form])
    return [form for form in found if form != "notes"] or found

"""Whatever a note holds: nothing crashes, every place is right, nothing of it is lost."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from passdown.core.intake import check_handoff
from passdown.core.task_files import read_task_file
from passdown.imports.note_blocks import NoteItem, clean
from passdown.imports.note_items import MAIN, extract_note
from passdown.imports.note_migration import (
    as_handoff,
    note_prompt,
    parts_of,
    read_section,
    section_of,
    source_of,
    written_below,
)
from tests.sizes import cpu_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

PIECES = [
    *("# Title", "## Next steps", "## Risks", "Decisions:", "- ", "1. ", "  - ", "- [ ] ", "| a |"),
    *("|---|---|", "| Risk | Mitigation |", "```", "```yaml", "~~~", "> ", "---", "---\n", "\r\n"),
    *(
        "src/a.py",
        "`b.md`",
        "Watch out",
        "should add x",
        "unclear",
        "?",
        "**Risk:** ",
        "\n",
        "\n\n",
    ),
    *("{", "}", "[", "]", '"', ":", "\\", "<!--", "-->", "\x00", "\u202e", "\ufeff", "\u0301"),
    *(
        "## Handoff\n",
        "outcome: completed",
        "word ",
        "Because of that. ",
        "A | 3 +-",
        "\t",
        "é",
        "🙂",
    ),
]
NOTES = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=40).map("".join),
    st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), max_size=30).map("\n".join),
    st.text(max_size=200),
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=20)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(["files", "created", "next_steps", "risks", "notes", "x_passed", "a"]),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=20,
)


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def check_places(text: str, items: tuple[NoteItem, ...]) -> None:
    for item in items:
        start, end = item.span
        assert 0 <= start <= end <= len(text)
        assert item.line == text.count("\n", 0, start) + 1
        assert 0 <= item.confidence <= 1
        assert item.cue
        if item.kind in MAIN:
            assert words(str(item.fields[MAIN[item.kind]])) <= words(clean(text[start:end]))
        elif item.kind != "gates":
            path = str(item.fields.get("path") or item.fields["file"])
            named = text[start:end].replace("\\", "/")
            assert named.endswith(path) or path.endswith(named.lstrip("./"))


@pytest.mark.promise("S3-33", "S3-35")
@given(NOTES)
def test_any_text_is_read_and_gives_a_valid_handoff(text: str) -> None:
    """Each item's words are in its place, and the handoff of all items passes every rule."""
    extraction = extract_note(text, "note.md")
    check_places(text, extraction.found)
    for span in extraction.ambiguous:
        assert text[span.start : span.end].strip()
        assert span.line == text.count("\n", 0, span.start) + 1
    plain = as_handoff(extraction, "T-1", "coder", minimum=0)
    assert check_handoff(plain).errors == ()
    assert note_prompt(text, extraction)


@pytest.mark.promise("S3-33")
@given(JSON, st.sampled_from([None, 1]))
def test_any_report_is_read(value: object, indent: int | None) -> None:
    """The text at an item's place is the text of the report."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    extraction = extract_note(text)
    for item in extraction.found:
        start, end = item.span
        assert 0 <= start < end <= len(text)
    assert check_handoff(as_handoff(extraction, "T-1", "coder", minimum=0)).errors == ()


@pytest.mark.promise("S3-35")
@given(NOTES)
@example("\ufeff```")
def test_the_section_goes_below_any_note_and_says_what_was_found(text: str) -> None:
    """The note is in front of it, letter for letter; read back, it is the same handoff."""
    plain = as_handoff(extract_note(text), "T-1", "coder", source={"sha256": "0" * 64})
    section = section_of(plain)
    assert check_handoff(read_section(section)).handoff == check_handoff(plain).handoff
    whole = written_below(text, section)
    assert whole.startswith(text)
    assert read_task_file(whole)["from_agent"] == "coder"
    parts = parts_of(whole)
    assert parts is not None
    assert parts.before + parts.section + parts.after == whole
    assert parts.before.startswith(text)
    assert source_of(read_section(parts.section)) == {"sha256": "0" * 64}


HOSTILE: dict[str, Callable[[int], str]] = {
    "one word": lambda n: "a" * n,
    "short lines": lambda n: "a\n" * (n // 2),
    "brackets": lambda n: "[" * n,
    "comments": lambda n: "<!--" * (n // 4),
    "backticks": lambda n: "`a" * (n // 2),
    "sentences": lambda n: "A. " * (n // 3),
    "nested": lambda n: "".join(" " * i + "- a\n" for i in range(int((2 * n) ** 0.5))),
    "paths": lambda n: "".join(f"/home/u/a{i}/b.py a{i}/b.py " for i in range(n // 30)),
    "paths of one item": lambda n: (
        "- Changed " + "\n  ".join(f"src/a{i}/b.py and more" for i in range(n // 24))
    ),
    "deep report": lambda n: "[" * (n // 2) + "]" * (n // 2),
    "controls": lambda n: "\x00\u202e\u0301" * (n // 3),
    "rows": lambda n: "| Risk | b |\n" * (n // 13),
}


@pytest.mark.promise("S3-33")
@pytest.mark.parametrize("name", HOSTILE)
def test_reading_takes_time_in_proportion_to_the_note(name: str) -> None:
    """Four times the text doesn't take sixteen times as long."""
    short, long = HOSTILE[name](10_000), HOSTILE[name](40_000)
    limit = 10 * max(cpu_seconds(lambda: extract_note(short)), 0.02)
    assert cpu_seconds(lambda: extract_note(long), limit) <= limit

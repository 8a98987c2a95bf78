"""How well notes are read is measured, against marks made by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bench.migration import KINDS, Score, all_marks, has_note, reasons, scored, short_hash, total
from passdown.imports.note_items import extract_note

if TYPE_CHECKING:
    from pathlib import Path

NOTE = """\
# Note

Watch out for the clock in src/a.py.

## Next steps
- Add a test
- Write the page
"""


def marked(**lines: list[int]) -> dict[str, Any]:
    entries = [
        {"kind": kind.replace("_", " "), "line": line, "hash": ""}
        for kind, found in lines.items()
        for line in found
    ]
    return {"marks": entries, "either_way": []}


@pytest.mark.promise("S3-36")
def test_found_beside_and_missed_are_told_apart() -> None:
    """Hits, extras and misses are counted by line; a file by its path."""
    extraction = extract_note(NOTE)
    marks = marked(next_steps=[6, 3], gotchas=[7])
    assert scored(NOTE, extraction, marks, "next steps") == Score(1, 1, 1)
    assert scored(NOTE, extraction, marks, "gotchas") == Score(0, 1, 1)
    either = {"marks": [], "either_way": [{"kind": "gotchas", "line": 3, "hash": ""}]}
    assert scored(NOTE, extraction, either, "gotchas") == Score(0, 0, 0, 1)
    file = {"kind": "files", "line": 3, "hash": short_hash("src/a.py")}
    assert scored(NOTE, extraction, {"marks": [file], "either_way": []}, "files") == Score(1, 0, 0)


@pytest.mark.promise("S3-36")
def test_the_marks_hold_no_words_of_the_notes() -> None:
    """Line numbers and hashes, for at least ten notes, some of them held out."""
    files = all_marks()
    assert len(files) >= 10
    assert sum(marks["held_out"] for marks in files) >= 4
    for marks in files:
        assert set(marks["kinds"]) <= set(KINDS)
        for mark in (*marks["marks"], *marks["either_way"]):
            assert {"kind", "line", "hash"} <= mark.keys() <= {"kind", "line", "hash", "rationale"}
            for digest in (mark["hash"], mark.get("rationale", mark["hash"])):
                assert len(digest) == 12
                assert int(digest, 16) >= 0


@pytest.mark.promise("S3-36")
@pytest.mark.parametrize("marks", all_marks(), ids=lambda marks: marks["note"])
def test_a_marked_note_is_measured_or_its_absence_is_reported(
    data_folder: Path, marks: dict[str, Any]
) -> None:
    """A note that isn't in the folder is skipped by name, and its marks say where to get it."""
    if not has_note(data_folder / "notes", marks):
        assert marks.get("source"), "a mark without its note, and without a place to get it"
        pytest.skip(f"{marks['note']} is not in PASSDOWN_DATA; see {marks['source']}")


@pytest.mark.promise("S3-36")
@pytest.mark.parametrize("held_out", [False, True])
def test_real_notes_are_read_well_enough(data_folder: Path, held_out: bool) -> None:
    """At least 0.9 of what is found is right, and 0.8 of what is marked is found, of every kind."""
    for kind, score in total(data_folder / "notes", held_out=held_out).items():
        assert score.precision >= 0.9, kind
        assert score.recall >= 0.8, kind
    kept, lost = reasons(data_folder / "notes")
    assert lost <= kept / 4

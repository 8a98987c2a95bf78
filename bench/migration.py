"""How well notes are read into handoffs: precision and recall against marks made by hand.

The notes are those of `PASSDOWN_DATA` (`notes/*.md`, `notes/*.json`). The marks stand in `marks/`:
for each note which lines state what, without the note's own words. They were made by reading the
notes before the reader was tuned; notes that are held out were never tuned on. A line that can be
taken either way counts neither for nor against.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.model.freeform import extract

if TYPE_CHECKING:
    from passdown.model.freeform import Extraction, Found

MARKS = Path(__file__).parent / "marks"
KINDS = {
    "files": ("files_created", "files_modified", "artifacts", "dependencies_for_next"),
    "decisions": ("decisions",),
    "gotchas": ("gotchas",),
    "next steps": ("suggested_next_steps",),
    "questions": ("open_questions",),
    "blockers": ("blockers",),
}


class Score(NamedTuple):
    """Counts for one kind: marked and found, found beside the marks, marked and missed."""

    hits: int
    extras: int
    misses: int

    @property
    def precision(self) -> float:
        return self.hits / (self.hits + self.extras) if self.hits + self.extras else 1.0

    @property
    def recall(self) -> float:
        return self.hits / (self.hits + self.misses) if self.hits + self.misses else 1.0


def short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def scored(text: str, extraction: Extraction, marks: dict[str, Any], kind: str) -> Score:
    """One note, one kind."""
    key = "hash" if kind == "files" else "line"
    wanted = {mark[key] for mark in marks["marks"] if mark["kind"] == kind}
    either = {mark[key] for mark in marks["either_way"] if mark["kind"] == kind}
    found = [item for item in extraction.found if item.kind in KINDS[kind]]
    got: set[Any] = set()
    extras = 0
    for item in found:
        places = _places(text, item, kind)
        hit = places & wanted
        got |= hit
        extras += not hit and not places & either
    return Score(len(got), extras, len(wanted - got))


def _places(text: str, item: Found, kind: str) -> set[Any]:
    start, end = item.span
    if kind == "files":
        return {short_hash(text[start:end])}
    first = text.count("\n", 0, start) + 1
    return set(range(first, first + text[start:end].rstrip().count("\n") + 1))


def total(folder: Path, *, held_out: bool) -> dict[str, Score]:
    counts: Counter[tuple[str, str]] = Counter()
    for path in sorted(MARKS.glob("*.json")):
        marks = json.loads(path.read_text("utf-8"))
        if marks["held_out"] != held_out:
            continue
        text = (folder / marks["note"]).read_bytes().decode()
        extraction = extract(text, marks["note"])
        for kind in marks["kinds"]:
            score = scored(text, extraction, marks, kind)
            for name in Score._fields:
                counts[kind, name] += getattr(score, name)
    return {k: Score(*(counts[k, name] for name in Score._fields)) for k in KINDS}

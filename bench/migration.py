"""How well notes are read into handoffs: precision and recall against marks made by hand.

The notes are those of `PASSDOWN_DATA` (`notes/*.md`, `*.json`, `*.yaml`). The marks stand in
`marks/`: which lines state what, without the note's own words. They were made by reading the
notes, most of them before the reader was tuned; notes that are held out were never tuned on, and
those marked after tuning show how it does on a note it was not made for. A line that can be taken
either way counts neither for nor against; how many of those were taken is among the figures. A mark
of a decision may hold the hash of its reason's first three words: the reason has to be kept, too.
A mark with a `source` names the public file; marks whose note isn't in the folder are listed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import passdown
from bench.figures import Measured, Row, Target
from bench.notes import FOLDER
from passdown.core.redaction import redact
from passdown.core.settings import Settings
from passdown.imports.note_items import extract_note
from passdown.imports.note_migration import kept_note

if TYPE_CHECKING:
    from bench.run import Run
    from passdown.imports.note_blocks import NoteItem
    from passdown.imports.note_items import NoteExtraction

MARKS = Path(__file__).parent / "marks"
NEW = "before the reader knew columns and reasons"
KINDS = {
    "files": ("files_created", "files_modified", "artifacts", "dependencies_for_next"),
    "decisions": ("decisions",),
    "gotchas": ("gotchas",),
    "next steps": ("suggested_next_steps",),
    "questions": ("open_questions",),
    "blockers": ("blockers",),
}


class Score(NamedTuple):
    """Counts for one kind: marked and found, found beside the marks, marked and missed, and found
    where it can be taken either way.
    """

    hits: int
    extras: int
    misses: int
    either_way: int = 0

    @property
    def precision(self) -> float:
        return self.hits / (self.hits + self.extras) if self.hits + self.extras else 1.0

    @property
    def recall(self) -> float:
        return self.hits / (self.hits + self.misses) if self.hits + self.misses else 1.0


def short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def scored(text: str, extraction: NoteExtraction, marks: dict[str, Any], kind: str) -> Score:
    """One note, one kind."""
    key = "hash" if kind == "files" else "line"
    wanted = {mark[key] for mark in marks["marks"] if mark["kind"] == kind}
    either = {mark[key] for mark in marks["either_way"] if mark["kind"] == kind}
    found = [item for item in extraction.found if item.kind in KINDS[kind]]
    got: set[Any] = set()
    extras = taken = 0
    for item in found:
        places = _places(text, item, kind)
        hit = places & wanted
        got |= hit
        taken += not hit and bool(places & either)
        extras += not hit and not places & either
    return Score(len(got), extras, len(wanted - got), taken)


def _places(text: str, item: NoteItem, kind: str) -> set[Any]:
    start, end = item.span
    if kind == "files":
        return {short_hash(text[start:end])}
    first = text.count("\n", 0, start) + 1
    return set(range(first, first + text[start:end].rstrip().count("\n") + 1))


def marked_notes(folder: Path) -> list[dict[str, Any]]:
    """The marks of the notes that are in the folder, as they were when they were marked."""
    return [marks for marks in all_marks() if has_note(folder, marks)]


def all_marks() -> list[dict[str, Any]]:
    """Every file of marks."""
    return [json.loads(path.read_text("utf-8")) for path in sorted(MARKS.glob("*.json"))]


def has_note(folder: Path, marks: dict[str, Any]) -> bool:
    """Whether the note of some marks is in the folder, as it was when it was marked."""
    note = folder / marks["note"]
    return note.is_file() and hashlib.sha256(note.read_bytes()).hexdigest() == marks["sha256"]


def reasons(folder: Path) -> tuple[int, int]:
    """How many marked reasons of decisions are kept, and how many are lost."""
    kept = lost = 0
    for marks in marked_notes(folder):
        text = (folder / marks["note"]).read_bytes().decode()
        items = [i for i in extract_note(text, marks["note"]).found if i.kind == "decisions"]
        for mark in (mark for mark in marks["marks"] if "rationale" in mark):
            near = [i for i in items if mark["line"] in _places(text, i, "decisions")]
            said = [re.findall(r"[a-z0-9]+", i.fields["rationale"].lower()) for i in near]
            starts = {short_hash(" ".join(w[at : at + 3])) for w in said for at in range(len(w))}
            kept, lost = (
                kept + (mark["rationale"] in starts),
                lost + (mark["rationale"] not in starts),
            )
    return kept, lost


def total(folder: Path, *, held_out: bool, marked: str = "") -> dict[str, Score]:
    """The scores of the tuned notes or of the others, of those marked at a time if one is named."""
    counts: Counter[tuple[str, str]] = Counter()
    for marks in marked_notes(folder):
        if marks["held_out"] != held_out or (marked and marks["marked"] != marked):
            continue
        text = (folder / marks["note"]).read_bytes().decode()
        extraction = extract_note(text, marks["note"])
        for kind in marks["kinds"]:
            score = scored(text, extraction, marks, kind)
            for name in Score._fields:
                counts[kind, name] += getattr(score, name)
    return {k: Score(*(counts[k, name] for name in Score._fields)) for k in KINDS}


def measure(run: Run) -> Measured:
    found = Measured("migration", "What is found in real notes, against marks made by hand")
    folder = Path(os.environ[FOLDER]) / "notes" if os.environ.get(FOLDER) else None
    if folder is None or not marked_notes(folder):
        found.notes.append(f"not measured: {FOLDER} names no folder with the marked notes")
        return found
    run.say("migration: marked notes")
    tuned, held_out = (total(folder, held_out=is_out) for is_out in (False, True))
    both = {kind: _sum(tuned[kind], held_out[kind]) for kind in KINDS}
    for kind, score in both.items():
        found.rows += _rows(kind, score, held_out[kind])
    whys, unsaid = reasons(folder)
    if whys + unsaid:
        share = whys / (whys + unsaid)
        said = f"{whys} of {whys + unsaid}"
        found.rows.append(Row("reasons kept", said, "of decisions", share, Target("at least", 0.8)))
    kept, lost = _kept(run, folder)
    found.rows.append(
        Row(
            "notes whose words are kept whole",
            f"{kept} of {kept + lost}",
            "second runs: nothing",
            kept / (kept + lost),
            Target("exactly", 1.0),
        )
    )
    late = total(folder, held_out=True, marked="after tuning")
    new = total(folder, held_out=True, marked=NEW)
    scores = {"all": both, "tuned": tuned, "held_out": held_out, "marked_after_tuning": late}
    scores["marked_before_reasons"] = new
    found.figures = {
        name: {
            kind: {**s._asdict(), "precision": s.precision, "recall": s.recall}
            for kind, s in kinds.items()
        }
        for name, kinds in scores.items()
    }
    marked = marked_notes(folder)
    whole = [marks for marks in marked if len(marks["kinds"]) == len(KINDS)]
    out = sum(marks["held_out"] for marks in whole)
    absent = [marks["note"] for marks in all_marks() if not has_note(folder, marks)]
    found.notes = [
        *([f"not measured, since they are not in the folder: {', '.join(absent)}"] * bool(absent)),
        f"{len(whole)} notes marked for every kind ({out} of them held out), "
        f"{len(marked) - len(whole)} more for questions and blockers alone",
        f"{sum(len(marks['either_way']) for marks in marked)} lines can be taken either way; "
        f"{sum(score.either_way for score in both.values())} items were found there",
        *(
            f"{words}: "
            + ", ".join(f"{k} {s.precision:.2f}/{s.recall:.2f}" for k, s in part.items())
            for words, part in (("marked after tuning", late), (f"marked {NEW}", new))
        ),
    ]
    return found


def _sum(one: Score, other: Score) -> Score:
    return Score(*(a + b for a, b in zip(one, other, strict=True)))


def _rows(kind: str, score: Score, held_out: Score) -> list[Row]:
    said = f"{score.hits} of {score.hits + score.extras} found"
    meant = f"{score.hits} of {score.hits + score.misses} marked"
    return [
        Row(
            f"{kind}: precision",
            said,
            f"held out {held_out.precision:.2f}",
            score.precision,
            Target("at least", 0.9),
        ),
        Row(
            f"{kind}: recall",
            meant,
            f"held out {held_out.recall:.2f}",
            score.recall,
            Target("at least", 0.8),
        ),
    ]


def _kept(run: Run, folder: Path) -> tuple[int, int]:
    """Migrate every note twice: how many are in the ledger as they were, and once."""
    root = run.folder / "migration"
    root.mkdir(parents=True)
    kept = lost = 0
    root.mkdir(parents=True, exist_ok=True)
    with passdown.open(str(root), settings=Settings(artifacts_on_disk=False)) as workspace:
        for path in sorted(p for p in folder.iterdir() if p.suffix in (".md", ".json", ".yaml")):
            copy = root / path.name
            copy.write_bytes(path.read_bytes())
            first = workspace.imports.migrate(str(copy), agent="writer", in_place=True)
            again = workspace.imports.migrate(str(copy), agent="writer", in_place=True)
            sha256 = first.handoff["metadata"]["migrated"]["sha256"]
            text = kept_note(workspace._context, first.task, sha256)
            in_file = copy.read_bytes().startswith(path.read_bytes())
            said = redact(path.read_bytes().decode())[0]  # a record has no secrets
            is_whole = text == said and in_file and again.is_repeat
            kept, lost = kept + is_whole, lost + (not is_whole)
    return kept, lost

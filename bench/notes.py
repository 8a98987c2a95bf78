"""What a brief of 500 tokens shows of real notes, and whether the rest of them can be reached.

The notes are files in the folder that PASSDOWN_DATA names (`notes/*.md`, `notes/*.json`). Each one
becomes a task with one handoff, extracted as `passdown migrate` does it. An item is shown when a
line of the brief bears its address and its own whole sentence. It is reachable when the brief names
the command that prints the task's state, and both that state and the item's address give every
field of it as it was handed over.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import passdown
from bench.figures import Measured, Row, Target, median
from passdown.core.items import one_line
from passdown.core.settings import Settings
from passdown.core.tokens import counter_of
from passdown.imports.note_items import extract_note
from passdown.imports.note_migration import as_handoff

if TYPE_CHECKING:
    from bench.run import Run

FOLDER = "PASSDOWN_DATA"
BUDGET = 500
COUNTER = "o200k_base"


class Held(NamedTuple):
    """A list of the state that holds items: its letter, its kind, the field with the sentence."""

    letter: str
    kind: str
    state: str
    sentence: str


LISTS = {
    "decisions": Held("d", "decisions", "decisions", "summary"),
    "artifacts": Held("a", "files", "artifacts", "path"),
    "dependencies_for_next": Held("r", "files", "reading", "file"),
    "gotchas": Held("g", "gotchas", "gotchas", "issue"),
    "patterns_discovered": Held("p", "patterns", "patterns", "pattern"),
    "suggested_next_steps": Held("n", "next steps", "next_steps", "step"),
    "blockers": Held("b", "blockers", "blockers", "blocker"),
    "open_questions": Held("q", "questions", "questions", "question"),
}
KINDS = tuple(dict.fromkeys(held.kind for held in LISTS.values()))


class Note(NamedTuple):
    """One note: its name, its text, its title and what was extracted from it."""

    name: str
    text: str
    title: str
    handoff: dict[str, Any]


class Told(NamedTuple):
    """One item of a note: whether the brief shows it, and whether all of it can be had."""

    kind: str
    is_shown: bool
    is_reachable: bool


class Briefed(NamedTuple):
    """One note: its items, its size, that of its handoff as recorded, and that of the brief."""

    note: Note
    told: list[Told]
    tokens: int
    recorded: int
    brief: int

    def share(self, kind: str) -> float | None:
        """How much of a kind is shown; None where the note has none."""
        shown = [told.is_shown for told in self.told if told.kind == kind]
        return sum(shown) / len(shown) if shown else None


def measure(run: Run) -> Measured:
    found = Measured("notes", f"What a brief of {BUDGET} tokens shows of real notes")
    files = _files(run)
    if not files:
        found.notes.append(f"not measured: {FOLDER} names no folder with notes/*.md or *.json")
        return found
    run.say(f"notes: {len(files)} files")
    settings = Settings(artifacts_on_disk=False)
    root = run.folder / "notes"
    root.mkdir(parents=True, exist_ok=True)
    with passdown.open(str(root), settings=settings) as workspace:
        results = [_briefed(workspace, read(path)) for path in files]
    found.rows = _rows(results)
    found.figures = _figures(results)
    found.notes = _remarks(results)
    return found


def _files(run: Run) -> list[Path]:
    if not os.environ.get(FOLDER):
        return []
    folder = Path(os.environ[FOLDER]) / "notes"
    files = sorted([*folder.glob("*.md"), *folder.glob("*.json")])
    return files[::3] if run.quick else files


def read(path: Path) -> Note:
    """A note file as a handoff; every file that it names is an artifact."""
    name, text = re.sub(r"[^A-Za-z0-9._-]", "-", path.stem), path.read_text("utf-8")
    extraction = extract_note(text, path.name)
    handoff = as_handoff(extraction, name, "writer", to_agent="next")
    handoff.pop("gates", None)
    files = [
        {"path": file["path"], "note": file.get("purpose") or file["description"]}
        for kind in ("files_created", "files_modified")
        for file in handoff.pop(kind, [])
    ]
    handoff["artifacts"] = [*files, *handoff.get("artifacts", [])]
    return Note(name, text, extraction.header.title or name, handoff)


def _briefed(workspace: passdown.Workspace, note: Note) -> Briefed:
    """Hand a note over, brief the next agent on it, and look for every item."""
    handoff = note.handoff
    workspace.create_task(note.name, title=note.title, agent="writer")
    workspace.hand_off(handoff)
    brief = workspace.brief(
        note.name, agent="next", budget=BUDGET, counter=COUNTER, names="commands"
    )
    state = workspace.files.state_document(note.name)
    is_named = f"passdown state {note.name}" in brief.text
    lines = {match[1]: match[0] for match in re.finditer(r"(?m)^- ([a-z]\d+) .*$", brief.text)}
    told: list[Told] = []
    for name, held in LISTS.items():
        by_address = {entry["address"]: entry for entry in state[held.state]}
        for number, given in enumerate(handoff.get(name, []), start=1):
            item: dict[str, Any] = given
            short = f"{held.letter}{number}"
            address = f"{note.name}#{short}"
            is_shown = one_line(item[held.sentence]) in lines.get(short, "")
            answers = (by_address.get(address), workspace.show(address).to_dict())
            is_whole = all(answer and item.items() <= answer.items() for answer in answers)
            told.append(Told(held.kind, is_shown, is_named and is_whole))
    count = counter_of(COUNTER).tokens
    recorded = count(json.dumps(handoff, ensure_ascii=False))
    return Briefed(note, told, count(note.text), recorded, count(brief.text))


def _rows(results: list[Briefed]) -> list[Row]:
    told = [item for result in results for item in result.told]
    rows = [_shown_row(results, kind) for kind in KINDS]
    shown = sum(item.is_shown for item in told)
    rest = [item for item in told if not item.is_shown]
    at_hand = sum(item.is_reachable for item in rest)
    over = sum(result.brief > BUDGET for result in results)
    briefs, notes = (sum(sizes) for sizes in zip(*_sizes(results), strict=True))
    return [
        *rows,
        Row("items shown in all", _of(shown, len(told)), f"{len(results)} notes"),
        Row(
            "items left out that can be had whole",
            _of(at_hand, len(rest)),
            "by state and by address",
            at_hand / len(rest) if rest else 1.0,
            Target("exactly", 1.0),
        ),
        Row(
            f"briefs over {BUDGET} tokens",
            f"{over} of {len(results)}",
            f"longest {max(result.brief for result in results):,} tokens",
            over,
            Target("exactly", 0),
        ),
        Row("tokens of the briefs", f"{briefs:,}", f"{notes:,} in the notes", briefs / notes),
    ]


def _sizes(results: list[Briefed]) -> list[tuple[int, int]]:
    return [(result.brief, result.tokens) for result in results]


def _shown_row(results: list[Briefed], kind: str) -> Row:
    every = [item.is_shown for result in results for item in result.told if item.kind == kind]
    shares = _shares(results, kind)
    beside = f"median {median(shares):.0%} in {len(shares)} notes" if shares else "in no note"
    return Row(f"{kind} shown", _of(sum(every), len(every)), beside)


def _shares(results: list[Briefed], kind: str) -> list[float]:
    return [share for result in results if (share := result.share(kind)) is not None]


def _of(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,} ({part / whole:.0%})" if whole else "0 of 0"


def _figures(results: list[Briefed]) -> dict[str, Any]:
    kinds: dict[str, Any] = {}
    for kind in KINDS:
        counts = [
            (sum(item.is_shown for item in items), len(items))
            for result in results
            if (items := [item for item in result.told if item.kind == kind])
        ]
        shares = _shares(results, kind)
        kinds[kind] = {
            "notes": len(counts),
            "recorded": sum(count for _, count in counts),
            "shown": sum(shown for shown, _ in counts),
            "median_recorded": median(count for _, count in counts) if counts else 0,
            "median_shown": median(shown for shown, _ in counts) if counts else 0,
            "median_share": median(shares) if shares else None,
        }
    told = [item for result in results for item in result.told]
    return {
        "budget": BUDGET,
        "counter": COUNTER,
        "kinds": kinds,
        "reachable": sum(item.is_reachable for item in told),
        "items": len(told),
        "tokens": {
            "notes": sum(result.tokens for result in results),
            "recorded": sum(result.recorded for result in results),
            "briefs": sum(result.brief for result in results),
            "longest_brief": max(result.brief for result in results),
        },
    }


def _remarks(results: list[Briefed]) -> list[str]:
    tokens, recorded = (sum(r.tokens for r in results), sum(r.recorded for r in results))
    lost = sum(not item.is_reachable for result in results for item in result.told)
    return [
        f"read from the notes by fixed rules, without a model; recorded as {recorded:,} tokens "
        f"of JSON beside {tokens:,} of notes; lost: {lost}",
    ]

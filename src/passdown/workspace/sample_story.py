"""A made-up team's work, as long as one likes: invoices are exported as CSV files.

Every text of it is different from every other, so that one can look for each.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

Document = dict[str, Any]

TASK = "INV-7"
TITLE = "Export invoices as CSV"
CRITERIA = (
    "a month of invoices downloads as one file",
    "every amount in it equals the amount on the invoice",
    "a spreadsheet opens it without asking for the separator",
)

_SUBJECTS = (
    "invoice number", "issue date", "due date", "customer name", "customer address", "tax id",
    "net amount", "tax rate", "tax amount", "gross amount", "currency", "exchange rate",
    "payment terms", "discount", "credit note", "line items", "order reference", "cost centre",
    "bank details", "payment state", "reminder level", "sales channel", "export window",
)  # fmt: skip
_CHOICES = (
    ("The {} is written as stored, never as displayed", "what is displayed depends on who looks"),
    ("An empty {} stays an empty cell", "a dash would be read as text by the bookkeeping"),
    ("The {} gets a column of its own", "joined columns can't be sorted or summed afterwards"),
    ("The {} is read once per batch of 500", "reading it per row took nine minutes for a year"),
    ("A wrong {} stops the row, not the file", "one bad row must not cost the other thousands"),
    ("The {} is quoted whenever it holds a semicolon", "two customers have one in their names"),
    ("Rounding of the {} stays where the invoice did it", "a second rounding moves a cent"),
    ("The {} keeps leading zeros", "a spreadsheet drops them unless the cell is text"),
    ("Old names of the {} are mapped in one table", "three importers had each their own"),
    ("The {} is checked against the invoice before download", "the last export was off by a row"),
    ("The header calls the {} what the invoice calls it", "people search for the printed word"),
    ("Access to the {} follows the rights of the viewer", "an export must not show more"),
    ("The {} is left out of the log", "logs are kept longer than invoices may be"),
)  # fmt: skip
_TROUBLE = (
    ("Nobody has confirmed the format of the {}", "the import may refuse the file",
     "ask the bookkeeping for one sample row"),
    ("The {} is missing on invoices before 2019", "their rows come out short",
     "agree on a value that stands for unknown"),
    ("Staging has no real {}", "the check can't be run there",
     "copy ten invoices with made-up customers"),
    ("The {} differs between the ledger and the invoice", "one of two sums is wrong",
     "find out which of them the tax office was sent"),
    ("The licence of the library that parses the {} is unclear", "it can't be shipped yet",
     "ask the owner of the product, or write the forty lines"),
)  # fmt: skip
_FOLDERS = (("src/export", "py"), ("tests/export", "py"), ("src/export/columns", "py"),
            ("docs/export", "md"), ("config/export", "toml"), ("src/export/checks", "py"),
            ("tests/samples", "csv"))  # fmt: skip
_PARTS = ("reader", "writer", "column", "check", "mapping", "sample", "limits", "notes", "batch",
          "header", "totals")  # fmt: skip
_STEPS = (
    "Write the part that exports the {}, then run the checks on a month of invoices",
    "Review how the {} is exported and try a file of ten thousand rows",
    "Test the {} with the samples of the bookkeeping and report every difference",
    "Roll the {} out to the first two customers and watch the error rate",
)
_PHASES = ("planning", "implementing", "testing", "reviewing")
_MORNING = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
_SEVERITIES = ("high", "medium", "low", "blocker")


class Size(NamedTuple):
    """How much of each a turn leaves behind."""

    decisions: int = 5
    files: int = 10
    blockers: int = 2


class Turn(NamedTuple):
    """One agent's turn: the handoff that ends it, and the files that it names, with their text."""

    handoff: Document
    files: dict[str, str]


def clock() -> Callable[[], datetime]:
    """The time in the story: from one morning on, a minute later with each look."""
    looks = count()
    return lambda: _MORNING + timedelta(minutes=next(looks))


def turn(number: int, agent: str, to_agent: str, size: Size) -> Turn:
    """The turn of that number, from 0."""
    at = number * size.decisions
    decisions = [_decision(at + index) for index in range(size.decisions)]
    at = number * size.files
    files = dict(_file(at + index) for index in range(size.files))
    at = number * size.blockers
    blockers = [_blocker(at + index) for index in range(size.blockers)]
    subject = _SUBJECTS[number % len(_SUBJECTS)]
    handoff = {
        "task": TASK,
        "from_agent": agent,
        "to_agent": to_agent,
        "phase": _phase(number, size),
        "outcome": "partial" if blockers else "completed",
        "summary": f"Turn {number + 1}: the {subject} is settled, the rest of the export goes on.",
        "files_created": [
            {"path": path, "purpose": text.split("\n", 1)[0].strip("# ")}
            for path, text in files.items()
        ],
        "decisions": decisions,
        "blockers": blockers,
        "suggested_next_steps": [{"step": _next_step(number), "priority": "high"}],
        "story": {
            "id": "7.3",
            "path": "docs/stories/7.3.invoice-export.md",
            "status": "in progress",
            "current_task": f"Export the {subject}",
            "branch": "feature/invoice-export",
        },
    }
    return Turn(handoff, files)


def critical(turns: list[Turn]) -> list[tuple[str, str]]:
    """What must not get lost by the end, as pairs of kind and text.

    Decisions and files of all turns hold on; what is in the way and what comes next is what the
    last turn says.
    """
    last = turns[-1].handoff
    found = [("task", TITLE), *((f"story {name}", text) for name, text in last["story"].items())]
    for each in turns:
        found += [("decision", decision["summary"]) for decision in each.handoff["decisions"]]
        found += [("file", path) for path in each.files]
    found += [("blocker", blocker["blocker"]) for blocker in last["blockers"]]
    found += [("next action", step["step"]) for step in last["suggested_next_steps"]]
    return found


def _phase(number: int, size: Size) -> str:
    """Later phases ask for sources and tests, which a turn of one file doesn't bring."""
    return _PHASES[min(number, len(_PHASES) - 1) if size.files > 1 else min(number, 1)]


def _decision(index: int) -> Document:
    summary, why = _CHOICES[index % len(_CHOICES)]
    subject = _SUBJECTS[index % len(_SUBJECTS)]
    again = _again(index, len(_CHOICES) * len(_SUBJECTS))
    return {
        "summary": summary.format(subject) + again,
        "rationale": why,
        "tags": [subject.replace(" ", "-")],
    }


def _blocker(index: int) -> Document:
    text, impact, way = _TROUBLE[index % len(_TROUBLE)]
    subject = _SUBJECTS[index % len(_SUBJECTS)]
    return {
        "blocker": text.format(subject) + _again(index, len(_TROUBLE) * len(_SUBJECTS)),
        "impact": impact,
        "suggested_resolution": way,
        "severity": _SEVERITIES[index % len(_SEVERITIES)],
    }


def _file(index: int) -> tuple[str, str]:
    folder, ending = _FOLDERS[index % len(_FOLDERS)]
    part = _PARTS[index % len(_PARTS)]
    subject = _SUBJECTS[index % len(_SUBJECTS)]
    again = _again(index, len(_FOLDERS) * len(_PARTS) * len(_SUBJECTS)).replace(", part ", "_")
    path = f"{folder}/{subject.replace(' ', '_')}_{part}{again}.{ending}"
    return path, f"# The {part} of the {subject}\n" + "value = 1\n" * (index % 7 + 1)


def _next_step(number: int) -> str:
    step = _STEPS[number % len(_STEPS)].format(_SUBJECTS[number % len(_SUBJECTS)])
    return step + _again(number, len(_STEPS) * len(_SUBJECTS))


def _again(index: int, length: int) -> str:
    """What tells a text from the one that stood at the same place of the round before."""
    return f", part {index // length + 1}" if index >= length else ""

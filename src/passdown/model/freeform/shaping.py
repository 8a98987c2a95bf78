"""From a block and its kind to an item in the handoff's plain form; each cell goes somewhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from passdown.model.freeform.cleaning import storable
from passdown.model.freeform.cues import (
    BLOCKER,
    BY_KIND,
    DECISION,
    GOTCHA,
    NEXT,
    PATTERN,
    QUESTION,
    without_signs,
)
from passdown.model.kinds import NOT_STATED

if TYPE_CHECKING:
    from passdown.model.freeform.blocks import Cell

MAIN = {
    DECISION: "summary",
    GOTCHA: "issue",
    PATTERN: "pattern",
    NEXT: "step",
    QUESTION: "question",
    BLOCKER: "blocker",
}
"""The field that holds an item's own sentence."""

_WHY = re.compile(r" because | -- | \u2014 | due to | so that | since ", re.IGNORECASE)
_REMEDY = re.compile(r"(?:\bmitigation|\bfix|\bworkaround|\bsolution|\binstead)\b:?", re.IGNORECASE)
_PLACE = re.compile(r"`([^`\n]{1,200})`")
_NUMBER = re.compile(r"[~<>=+-]{0,2}\d[\d.,]*(?:-\d[\d.,]*)?\s?(?:%|\w{1,12})?(?:\s?/\s?\d+)?")
# What is left of a text that only refers: "FR-FEAT-001 through FR-FEAT-005".
_IDS = re.compile(
    r"\b[A-Z][A-Z0-9]{0,20}(?:-[A-Z0-9/]{1,20}){1,6}\b|\b(?:through|and|to|or)\b|[\W\d_]+"
)
_GRADE = re.compile(r"severity|.*priority|likelihood|status|level|criticality", re.IGNORECASE)
_WHY_COLUMN = re.compile(r"(?:rationale|reason|why|basis|evidence)\b.*", re.IGNORECASE)
_REMEDY_COLUMN = re.compile(
    r"mitigation.*|recommendation|.*resolution|treatment|prevent.*|fix|workaround|enforcement|"
    r"suggested.*|remedy",
    re.IGNORECASE,
)
_ASIDE = re.compile(
    r"#|no\.?|id|.* id|severity|priority|likelihood|status|owner|agent|effort|source|origin|"
    r"path|file|date|phase|tier|timing|loc|complexity|category|.*\bconsumer",
    re.IGNORECASE,
)


def item_of(kind: str, text: str) -> dict[str, Any]:
    """A line or a sentence as an item of its kind; empty where a record can't hold it."""
    said = storable(_without_opening(kind, text))
    if not said:
        return {}
    if kind == DECISION:
        return _decision(said)
    fields: dict[str, Any] = {MAIN[kind]: said}
    if kind == GOTCHA:
        fields |= {"mitigation": _remedy(said), "severity": level(text)}
    elif kind == PATTERN:
        place = _PLACE.search(text)
        fields["location"] = storable(place[1]) if place else NOT_STATED
    elif kind == NEXT:
        fields["priority"] = level(text)
    return fields


def _without_opening(kind: str, text: str) -> str:
    """`Risk: the disk is slow` as `the disk is slow`; what else stands before a colon is kept."""
    bare = without_signs(text)
    match = BY_KIND[kind].opening.match(bare)
    is_short = match is not None and " " not in match[0].strip()
    return bare[match.end() :].strip() or text if match and is_short else text


def _decision(said: str) -> dict[str, Any]:
    match = _WHY.search(said, 8)
    reason = said[match.end() :].strip() if match else ""
    summary = said[: match.start()].strip() if match and reason else said
    return {"summary": summary, "rationale": reason or NOT_STATED}


def _remedy(said: str) -> str:
    match = _REMEDY.search(said)
    rest = said[match.end() :].strip(" :;,-") if match else ""
    return rest or NOT_STATED


def row_of(kind: str, cells: tuple[Cell, ...], named: str) -> dict[str, Any]:
    """A row of a table as an item; `named` is the column that gave the kind away, if one did."""
    rest = {cell.name: storable(cell.text) for cell in cells}
    rest = {name: text for name, text in rest.items() if text}
    main = named if named in rest else main_column(cells)
    text = rest.pop(main, "")
    if not text or not _IDS.sub("", text):
        return {}
    first = next(iter(rest), "")
    if len(text.split()) < 3 and first and not is_figure(rest[first]):
        text = f"{rest.pop(first)}: {text}"
    grade = next((value for name, value in rest.items() if _GRADE.fullmatch(name)), "")
    why, remedy = _taken(rest, _WHY_COLUMN), _taken(rest, _REMEDY_COLUMN)
    more = "; ".join(f"{name}: {value}" for name, value in rest.items())
    return _row_fields(kind, text, grade, (why, remedy, more))


def _row_fields(kind: str, text: str, grade: str, told: tuple[str, str, str]) -> dict[str, Any]:
    why, remedy, more = told
    about = "; ".join(part for part in (why, more) if part)
    if kind == DECISION:
        fields = {"summary": text, "rationale": why or NOT_STATED}
        notes = [part for part in (more, remedy) if part]
        return {**fields, "artifacts": notes} if notes else fields
    if kind == NEXT:
        whole = "; ".join(part for part in (about, remedy) if part)
        return {"step": f"{text} ({whole})" if whole else text, "priority": level(grade)}
    if kind == BLOCKER:
        severity = (
            "blocker" if re.search("critical|blocker", grade, re.IGNORECASE) else level(grade)
        )
        fields = {"impact": about, "suggested_resolution": remedy}
        return {"blocker": text, **_filled(fields), "severity": severity}
    if kind == QUESTION:
        return {"question": text, **_filled({"context": about, "recommendation": remedy})}
    if kind == PATTERN:
        return {"pattern": text, "location": about or remedy or NOT_STATED}
    fields = {"mitigation": remedy or NOT_STATED, "severity": level(grade)}
    return {"issue": text, **fields, **_filled({"discovered_in": about})}


def _filled(fields: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in fields.items() if value}


def _taken(rest: dict[str, str], column: re.Pattern[str]) -> str:
    name = next((name for name in rest if column.fullmatch(name)), "")
    return rest.pop(name) if name else ""


def main_column(cells: tuple[Cell, ...]) -> str:
    """The column with the sentence: the longest text that isn't a grade, a name or a place."""
    about = [c for c in cells if not _ASIDE.fullmatch(c.name) and not is_figure(c.text)]
    about = [c for c in about if not _REMEDY_COLUMN.fullmatch(c.name)] or about
    longest = max(about or cells, key=lambda cell: len(cell.text))
    return longest.name


def is_aside(name: str) -> bool:
    """Whether a column numbers, grades or places its rows, and says nothing of its own."""
    return _ASIDE.fullmatch(name) is not None


def is_figure(text: str) -> bool:
    """Whether a cell holds a number, with or without a unit."""
    return len(text) <= 60 and _NUMBER.fullmatch(text.strip(" *()")) is not None


def level(grade: str) -> str:
    """A grade, however it is worded, as high, medium or low."""
    if re.search(r"\b(?:critical|high|urgent|severe|p[01]|must)\b|^1$", grade, re.IGNORECASE):
        return "high"
    return (
        "low" if re.search(r"\b(?:low|minor|p3|nice to have)\b", grade, re.IGNORECASE) else "medium"
    )

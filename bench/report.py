"""The table, the results file and the figures in the documentation."""

from __future__ import annotations

import json
import os
import platform
import time
from typing import TYPE_CHECKING, Any

import apsw

from bench.figures import QUICK_ALLOWANCE

if TYPE_CHECKING:
    from pathlib import Path

    from bench.figures import Measured, Row

HEADINGS = ("measured", "", "beside", "ratio", "target", "")
START, END = "<!-- figures -->", "<!-- /figures -->"


def verdict(row: Row, *, quick: bool) -> bool | None:
    """Whether a row meets its target; None when it has none."""
    if row.target is None or row.ratio is None:
        return None
    return row.target.is_met(row.ratio, quick=quick)


def missed(results: list[Measured], *, quick: bool, goals: bool = False) -> list[Row]:
    """The rows that miss their target, or those that miss a goal never reached so far."""
    rows = [row for found in results for row in found.rows if verdict(row, quick=quick) is False]
    return [row for row in rows if row.target and row.target.is_goal == goals]


def _cells(row: Row, *, quick: bool) -> tuple[str, ...]:
    counted = row.target is not None and row.target.sense == "exactly"
    ratio = "" if row.ratio is None or counted else _number(row.ratio)
    target = "" if row.target is None else _target(row, quick=quick)
    words = {True: "met", False: "MISSED", None: ""}[verdict(row, quick=quick)]
    return (row.what, row.measured, row.beside, ratio, target, words)


def _target(row: Row, *, quick: bool) -> str:
    assert row.target is not None
    if row.target.sense == "exactly":
        return _number(row.target.value)
    text = f"{row.target.sense} {row.target.value:g}"
    limit = row.target.limit(quick=quick)
    return f"{text} (here {limit:.3g})" if limit != row.target.value else text


def _number(value: float) -> str:
    if value == int(value) and value < 10:
        return f"{value:.0f}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def table(results: list[Measured], *, quick: bool) -> str:
    """Everything measured, in columns as wide as they need to be."""
    lines = {found.name: [_cells(row, quick=quick) for row in found.rows] for found in results}
    every = [HEADINGS, *(cells for rows in lines.values() for cells in rows)]
    widths = [max(len(cells[column]) for cells in every) for column in range(len(HEADINGS))]

    def line(cells: tuple[str, ...]) -> str:
        left = [cells[0].ljust(widths[0]), cells[1].rjust(widths[1]), cells[2].ljust(widths[2])]
        right = [cells[3].rjust(widths[3]), cells[4].ljust(widths[4]), cells[5]]
        return "  ".join([*left, *right]).rstrip()

    text = [line(HEADINGS), "-" * (sum(widths) + 10)]
    for found in results:
        text += ["", f"{found.title} [{found.name}]"]
        text += [line(cells) for cells in lines[found.name]]
        text += [f"  {note}" for note in found.notes]
    return "\n".join([*text, "", closing(results, quick=quick)])


def closing(results: list[Measured], *, quick: bool) -> str:
    """How many targets were met, and how they were judged."""
    verdicts = [verdict(row, quick=quick) for found in results for row in found.rows]
    judged = [answer for answer in verdicts if answer is not None]
    text = f"{sum(judged)} of {len(judged)} targets met."
    if goals := missed(results, quick=quick, goals=True):
        text += f" Not reached yet, and no fault of a run: {'; '.join(row.what for row in goals)}."
    if quick:
        text += (
            f" A short run judges ratios with an allowance of {QUICK_ALLOWANCE} for noise, "
            "and leaves out what it can't reach."
        )
    return text


def machine() -> dict[str, Any]:
    """Where the figures come from."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "system": platform.platform(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "load_average": load,
    }


def document(
    results: list[Measured], *, quick: bool, started: dict[str, Any], took_s: float
) -> dict[str, Any]:
    """The results as plain data."""
    return {
        "schema": "passdown/bench/1",
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "quick": quick,
        "allowance": QUICK_ALLOWANCE if quick else 1,
        "took_s": took_s,
        "machine": started,
        "measurements": {
            found.name: {
                "title": found.title,
                "rows": [_row_document(row, quick=quick) for row in found.rows],
                "figures": found.figures,
                "notes": found.notes,
            }
            for found in results
        },
    }


def _row_document(row: Row, *, quick: bool) -> dict[str, Any]:
    target = None
    if row.target is not None:
        limit = row.target.limit(quick=quick)
        target = {"sense": row.target.sense, "value": row.target.value, "limit": limit}
    return {
        "what": row.what,
        "measured": row.measured,
        "beside": row.beside,
        "ratio": row.ratio,
        "target": target,
        "met": verdict(row, quick=quick),
    }


def save(folder: Path, data: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "results.json"
    target.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", "utf-8")
    return target


def write_docs(page: Path, results: list[Measured], started: dict[str, Any]) -> None:
    """Put the figures of a full run between the marks of a page: each measurement is a section, and
    takes the place of the one that it had.
    """
    text = page.read_text("utf-8")
    before, mark, rest = text.partition(START)
    shown, end, after = rest.partition(END)
    if not mark or not end:
        raise ValueError(f"{page} has no place for figures ({START} ... {END})")
    kept, _, _ = shown.rpartition(_CLOSING)
    sections = {part.partition("\n")[0]: part for part in kept.split(_SECTION)[1:]}
    sections |= {found.title: _section(found, started) for found in results}
    whole = "".join(f"{_SECTION}{part.strip()}\n" for part in sections.values())
    met, all_rows = whole.count("| met |"), whole.count("| met |") + whole.count("| MISSED |")
    told = f"{_CLOSING.strip()} {met} of {all_rows}."
    page.write_text(f"{before}{START}\n{whole}\n{told}\n\n{END}{after}", "utf-8")


_SECTION = "\n### "
_CLOSING = "\nTargets met:"


def _section(found: Measured, started: dict[str, Any]) -> str:
    """A measurement with its title, without the mark before it."""
    day = time.strftime("%Y-%m-%d", time.gmtime())
    lines = [
        found.title,
        "",
        f"Measured on {day}: {started['system']}, {started['cores']} cores, "
        f"Python {started['python']}, SQLite {started['sqlite']}; "
        f"load average at the start {started['load_average']:.2f}.",
        "",
        *("| measured | | beside | ratio | target | |", "|---|---:|---|---:|---|---|"),
        *(f"| {' | '.join(_cells(row, quick=False))} |" for row in found.rows),
    ]
    return "\n".join([*lines, *(text for note in found.notes for text in ("", note))])

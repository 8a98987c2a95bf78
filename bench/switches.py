"""What a switch saves: real personas, a story run through the ledger, with and without.

The personas come from the folder that PASSDOWN_DATA names; without it there is nothing to measure.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from bench.figures import Measured, Row, Target

if TYPE_CHECKING:
    from bench.run import Run

CHAIN = ("sm", "dev", "qa", "devops")
PUBLISHED = 6_497
LIMIT = 5_700
IN_THE_TEXT = 30
SUMMARY = 500


def measure(run: Run) -> Measured:
    found = Measured("switches", "Context after each switch: one persona instead of all")
    data = os.environ.get("PASSDOWN_DATA", "")
    personas = os.path.join(data, "personas")
    if not data or not os.path.isdir(personas):
        found.notes.append("Not measured: PASSDOWN_DATA names no folder with personas.")
        return found
    from passdown.workspace.growth import measure_growth

    for counter in ("chars4", "o200k_base"):
        growth = measure_growth(personas, chain=CHAIN, counter=counter)
        last = growth.last
        target = Target("at most", LIMIT) if counter == "chars4" else None
        found.rows.append(
            Row(
                f"four agents, tokens by {counter}",
                f"{last.context:,}",
                f"{last.without:,} without ({PUBLISHED:,} published)"
                if counter == "chars4"
                else f"{last.without:,} without",
                last.context,
                target,
            )
        )
        found.rows.append(
            Row(
                f"lost of story, decisions, files and blockers, by {counter}",
                str(len(growth.kept.lost)),
                f"{growth.kept.found} found, {growth.kept.reachable} reachable",
                len(growth.kept.lost),
                Target("exactly", 0),
            )
        )
        found.rows.append(
            Row(
                f"facts in the last context's text, by {counter}",
                f"{growth.kept.found} of {growth.kept.found + growth.kept.reachable}",
                "a path may be written src/{a,b}.py",
                growth.kept.found,
                Target("at least", IN_THE_TEXT) if counter == "chars4" else None,
            )
        )
        found.figures[counter] = growth.to_dict()
    found.rows.append(_many(run, personas))
    return found


def _many(run: Run, personas: str) -> Row:
    """However many switches: the active persona, three summaries at their limit, the brief."""
    from passdown.workspace.growth import measure_growth

    switches = 12 if run.quick else 50
    growth = measure_growth(personas, chain=CHAIN, counter="chars4", switches=switches)
    over = sum(s.context > s.profile + 3 * SUMMARY + s.brief for s in growth.steps)
    most = max(step.context - step.profile for step in growth.steps)
    return Row(
        f"contexts over persona + 3 x {SUMMARY} + brief in {switches} switches",
        str(over),
        f"at most {most:,} tokens on top of the persona",
        over,
        Target("exactly", 0),
    )

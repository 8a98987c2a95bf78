"""The cost of a handoff by version, beside the shared-file design; and where our time goes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from bench.figures import Measured, Row, Target, median, ms, seconds, spread
from bench.shared_file import SharedFiles
from bench.stages import HANDLE, STAGES, TRANSACTION, Stages
from bench.workload import Theirs

if TYPE_CHECKING:
    from bench.run import Run

TARGETS = {
    10: Target("at least", 1, is_goal=True),
    1_000: Target("at least", 40, is_goal=True),
    10_000: Target("at least", 400, is_goal=True),
}
WHOLE = "whole call, with the state file"
NO_HANDLE = "whole call, without the state file"
LEDGER = "ledger commit alone"


def measure(run: Run) -> Measured:
    found = Measured("handoff", "A handoff beside the shared-file design")
    theirs = Theirs(SharedFiles(run.folder / "shared"))
    points: list[dict[str, Any]] = []
    stages = Stages()
    for version in (10, 100, 1_000, 10_000):
        if version > run.top:
            break
        run.say(f"handoff: version {version:,}")
        stages, other = _at(run, theirs, version)
        points.append(_point(version, stages, other))
        # Our call derives the text index and the graph too, the other design nothing; a short run
        # doesn't judge it.
        found.rows += _rows(version, stages, other, is_judged=not run.quick)
    found.figures = {"points": points, "breakdown": _breakdown(stages)}
    found.notes += _notes(stages)
    return found


def _at(run: Run, theirs: Theirs, version: int) -> tuple[Stages, list[float]]:
    """Handoffs of both designs at a version, in alternation."""
    ours, stages = run.grown, Stages()
    rounds, each = (12, 4) if run.quick or version > 1_000 else (30, 4)
    if version <= 10:
        # One handoff would already be a tenth more: every round takes a new task.
        tasks = [ours.task(f"at-{version}-{number}") for number in range(rounds)]
        each = 1
    else:
        tasks = ["T"] * rounds
    for task in dict.fromkeys(tasks):
        ours.grow(task, version)
    ours.prepare(version + rounds * each + 1)
    name = theirs.task_at(f"at-{version}", version)
    other: list[float] = []
    with stages.watching(ours.workspace):
        for task in tasks:
            other.append(seconds(partial(theirs.hand_off, name)))
            if version <= 10:
                theirs.task_at(name, version)
            for _ in range(each):
                stages.hand_off(partial(ours.hand_off, task))
    return stages, other


def _series(stages: Stages) -> dict[str, list[float]]:
    return {
        LEDGER: stages.times[TRANSACTION],
        NO_HANDLE: stages.without(HANDLE),
        WHOLE: stages.totals,
    }


def _point(version: int, stages: Stages, other: list[float]) -> dict[str, Any]:
    return {
        "version": version,
        "shared_file": spread(other),
        **{name: spread(times) for name, times in _series(stages).items()},
    }


def _rows(version: int, stages: Stages, other: list[float], *, is_judged: bool) -> list[Row]:
    theirs = median(other)
    return [
        Row(
            f"at version {version:,}: {name}",
            ms(median(times)),
            f"{ms(theirs)} shared file",
            theirs / median(times),
            TARGETS.get(version) if name == WHOLE and is_judged else None,
        )
        for name, times in _series(stages).items()
    ]


def _breakdown(stages: Stages) -> dict[str, dict[str, float]]:
    whole = median(stages.totals)
    return {
        stage: {"median_ms": median(times) * 1e3, "share": median(times) / whole}
        for stage, times in stages.times.items()
    }


def _notes(stages: Stages) -> list[str]:
    parts = _breakdown(stages)
    text = ", ".join(
        f"{stage} {parts[stage]['median_ms']:.2f} ms ({parts[stage]['share']:.0%})"
        for stage in STAGES
    )
    return [
        f"Where the time of a call goes, at the highest version: {text}.",
        "The ledger commit is the synced transaction with version check, gates, chain, record and "
        "every derived row. The whole call adds validation, the hashes of its files and the "
        "receiver's command; the state file is the readable copy of the state. The shared-file "
        "design checks no input and hashes no file.",
        *stages.notes(),
    ]

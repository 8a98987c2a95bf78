"""What a large store costs beside a small one: a question, a brief and a handoff in alternation.

Both stores are the ones that search was measured in; each gets one more task, which is handed off
to and fro.
"""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

from bench.brief import BUDGET
from bench.figures import Row, Target, interleaved, median, ms, spread
from bench.workload import Ours

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.figures import Measured
    from bench.recall_store import Material
    from bench.run import Run

TARGETS = {1_000_000: Target("at most", 2)}
_TASK = "grown"
_HANDED_OFF = 20
_ROUNDS = 200


def measure(found: Measured, roots: dict[int, Path], stuff: Material, run: Run) -> None:
    """The largest of the stores beside the smallest, where there are two."""
    low, high = min(roots), max(roots)
    if low == high:
        return
    run.say(f"search: {high:,} entries beside {low:,}")
    stores = {size: _with_task(roots[size]) for size in (low, high)}
    asked = {size: _calls(ours, stuff) for size, ours in stores.items()}
    # One after another: vectors are made behind a handoff, and would slow down a question.
    for name in ("question", "brief", "handoff"):
        calls = {str(size): each[name] for size, each in asked.items()}
        interleaved(calls, 5)
        times = interleaved(calls, _ROUNDS)
        large, small = median(times[str(high)]), median(times[str(low)])
        found.rows.append(
            Row(
                f"{high:,} entries: a {name}, median",
                ms(large),
                f"{ms(small)} with {low:,}",
                large / small,
                TARGETS.get(high),
            )
        )
        found.figures[f"growth, {name}"] = {size: spread(each) for size, each in times.items()}
    for ours in stores.values():
        ours.close()


def _with_task(root: Path) -> Ours:
    ours = Ours(root)
    ours.task(_TASK)
    ours.grow(_TASK, _HANDED_OFF)
    ours.prepare(_HANDED_OFF + _ROUNDS + 10)
    return ours


def _calls(ours: Ours, stuff: Material) -> dict[str, Callable[[], object]]:
    questions = cycle(stuff.questions)
    return {
        "question": lambda: ours.workspace.recall(next(questions), limit=10),
        "brief": lambda: ours.workspace.brief(_TASK, agent="coder", budget=BUDGET),
        "handoff": lambda: ours.hand_off(_TASK),
    }

"""What history costs: a handoff on a long task beside one on a short task, in time and in bytes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from bench.figures import Measured, Row, Target, kib, median, ms, spread
from bench.stages import TRANSACTION, Stages
from bench.workload import Ours

if TYPE_CHECKING:
    from bench.run import Run

LOW = 10
TARGET = Target("at most", 1.3)
TIME = Target("at most", 1.15)
EACH = 2


def measure(run: Run) -> Measured:
    found = Measured("flat", "History costs nothing: a long task beside a short one")
    grown, young = run.grown, Ours(run.folder / "young")
    run.say(f"flat: up to version {run.top:,}")
    grown.grow("T", run.top)
    tasks = [young.task(f"T-{number}") for number in range(20 if run.quick else 60)]
    for task in tasks:
        young.grow(task, LOW)
    rounds = len(tasks) * EACH
    young.prepare(LOW + EACH + 2)
    grown.prepare(grown.versions["T"] + rounds + 1)
    run.say("flat: in alternation")
    long_, short = Stages(), Stages()
    weights = {"long": _Weight(grown, ["T"]), "short": _Weight(young, tasks)}
    for number in range(rounds):
        with long_.watching(grown.workspace):
            long_.hand_off(partial(grown.hand_off, "T"))
        weights["long"].note("T")
        task = tasks[number // EACH]
        with short.watching(young.workspace):
            short.hand_off(partial(young.hand_off, task))
        weights["short"].note(task)
    bytes_ = {name: weight.per_handoff() for name, weight in weights.items()}
    young.close()
    found.rows = _rows(run.top, long_, short, bytes_)
    found.figures = {
        "versions": [LOW, run.top],
        "long": {"whole": spread(long_.totals), "ledger": spread(long_.times[TRANSACTION])},
        "short": {"whole": spread(short.totals), "ledger": spread(short.times[TRANSACTION])},
        "bytes": bytes_,
    }
    return found


class _Weight:
    """The bytes that handoffs write: what the database grows by, and the files beside it."""

    def __init__(self, ours: Ours, tasks: list[str]) -> None:
        self.ours = ours
        self.tasks = tasks
        self.state_files: list[int] = []
        self.database = ours.database_bytes()
        self.archive = self._archive()

    def _archive(self) -> int:
        return sum(self.ours.archive_bytes(task) for task in self.tasks)

    def note(self, task: str) -> None:
        self.state_files.append(self.ours.state_file_bytes(task))

    def per_handoff(self) -> dict[str, float]:
        count = len(self.state_files)
        return {
            "database": (self.ours.database_bytes() - self.database) / count,
            "state_file": sum(self.state_files) / count,
            "archive": (self._archive() - self.archive) / count,
        }


def _rows(top: int, long_: Stages, short: Stages, bytes_: dict[str, dict[str, float]]) -> list[Row]:
    def times(what: str, high: list[float], low: list[float], target: Target | None) -> Row:
        a, b = median(high), median(low)
        label = f"{what}, version {top:,}"
        return Row(label, ms(a), f"{ms(b)} at version {LOW}", a / b, target)

    def sizes(what: str, names: tuple[str, ...], target: Target | None) -> Row:
        a, b = (sum(bytes_[side][name] for name in names) for side in ("long", "short"))
        label = f"{what}, version {top:,}"
        ratio: Any = a / b if b else None
        return Row(label, kib(a), f"{kib(b)} at version {LOW}", ratio, target)

    ledger = (long_.times[TRANSACTION], short.times[TRANSACTION])
    return [
        times("time of the whole call", long_.totals, short.totals, TIME),
        times("time of the ledger commit", *ledger, None),
        sizes("bytes added to the database", ("database",), TARGET),
        sizes("bytes of the state file and archive", ("state_file", "archive"), None),
        sizes("bytes in all", ("database", "state_file", "archive"), TARGET),
    ]

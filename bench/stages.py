"""Where the time of a handoff goes: timers around its stages.

Four stages are timed; whatever else a call does is reading and checking its input, and is called
validation. The stages are functions of the library that its users never call: one that can't be
found under its name any more is counted as validation too, never left out, and named in the notes.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from passdown.workspace import handoff as handing

if TYPE_CHECKING:
    from collections.abc import Generator

    import passdown

VALIDATION = "validation"
DISK = "disk hashing"
TRANSACTION = "transaction"
HANDLE = "state file"
COMMAND = "command"
STAGES: tuple[str, ...] = (VALIDATION, DISK, TRANSACTION, HANDLE, COMMAND)

_FUNCTIONS = {"_measured": DISK, "prepare": TRANSACTION, "_command": COMMAND}


class Stages:
    """The times of every stage, one entry per handoff."""

    def __init__(self) -> None:
        self.times: dict[str, list[float]] = {stage: [] for stage in STAGES}
        self.totals: list[float] = []
        self.missing: list[str] = []
        self._now: dict[str, float] = {}

    def add(self, stage: str, elapsed: float) -> None:
        self._now[stage] += elapsed

    def hand_off(self, call: Any) -> None:
        """Time one handoff."""
        self._now = dict.fromkeys(STAGES, 0.0)
        started = time.perf_counter()
        call()
        total = time.perf_counter() - started
        self._now[VALIDATION] = total - sum(self._now.values())
        self.totals.append(total)
        for stage in STAGES:
            self.times[stage].append(self._now[stage])

    def notes(self) -> list[str]:
        """What could not be told apart."""
        names = ", ".join(self.missing)
        return [f"Not timed apart, counted as validation: {names}."] if names else []

    def together(self, *stages: str) -> list[float]:
        """The time of several stages, handoff by handoff."""
        return [sum(parts) for parts in zip(*(self.times[s] for s in stages), strict=True)]

    def without(self, stage: str) -> list[float]:
        return [total - part for total, part in zip(self.totals, self.times[stage], strict=True)]

    @contextmanager
    def watching(self, workspace: passdown.Workspace) -> Generator[Stages]:
        """Put the timers in place for one workspace, and take them away again."""
        opened = workspace._context
        places: list[tuple[Any, str, str]] = [
            (handing, name, stage) for name, stage in _FUNCTIONS.items()
        ]
        places += [(opened.ledger, "append", TRANSACTION), (opened, "mirror", HANDLE)]
        undo: list[tuple[Any, str, Any]] = []
        for owner, name, stage in places:
            if hasattr(owner, name):
                undo.append((owner, name, owner.__dict__.get(name)))
                setattr(owner, name, self._timed(getattr(owner, name), stage))
            elif name not in self.missing:
                self.missing.append(name)
        try:
            yield self
        finally:
            for owner, name, original in undo:
                if original is None:
                    delattr(owner, name)
                else:
                    setattr(owner, name, original)

    def _timed(self, function: Any, stage: str) -> Any:
        def timed(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.add(stage, time.perf_counter() - started)

        return timed

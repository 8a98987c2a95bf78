"""One run: a folder to work in, how long it may take, and the stores that measurements share."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench import large
from bench.workload import Ours

if TYPE_CHECKING:
    from pathlib import Path


@dataclass
class Run:
    """What a measurement is given."""

    folder: Path
    quick: bool
    _grown: Ours | None = field(default=None)
    _large: Path | None = field(default=None)

    @property
    def top(self) -> int:
        """The highest version that handoffs are measured at."""
        return 1_000 if self.quick else 10_000

    @property
    def records(self) -> int:
        """The number of records in the large store."""
        return 4_000 if self.quick else 100_000

    @property
    def grown(self) -> Ours:
        """The workspace whose task "T" is grown step by step, by real handoffs."""
        if self._grown is None:
            self._grown = Ours(self.folder / "grown")
            self._grown.task("T")
        return self._grown

    @property
    def large(self) -> Path:
        """The workspace with that many records."""
        if self._large is None:
            self._large = large.make(self.folder / "large", self.records, self)
        return self._large

    def say(self, text: str) -> None:
        """Tell whoever waits what is going on; the table is all that goes to standard output."""
        print(f"  {text}", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self._grown is not None:
            self._grown.close()

"""What an import did, entry by entry and in numbers, and the records that earlier ones left."""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.errors import (
    Conflict,
    Damaged,
    InvalidInput,
    KeyReused,
    PassdownError,
    ProblemsError,
    StoreError,
)
from passdown.ledger import Entry
from passdown.model.kinds import stream_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from passdown.errors import Problem
    from passdown.ledger.writing import Guard
    from passdown.model.record import Record
    from passdown.workspace.opened import Opened

    Progress = Callable[[int, int], None]

RESULTS = ("added", "changed", "unchanged", "skipped", "refused")
PREFIX = "import-"


class Taken(NamedTuple):
    """One entry of a source: where it stood, what it is here, what was done, and why."""

    source: str
    kind: str
    result: str
    address: str = ""
    reason: str = ""


class Done(NamedTuple):
    """What one write came to: a result, where it is found, and what a reader should know of it."""

    result: str
    address: str
    reason: str = ""


class Brought(NamedTuple):
    """What an import did. `counts` are by kind, then by result; nothing is left uncounted."""

    form: str
    counts: Mapping[str, Mapping[str, int]]
    entries: tuple[Taken, ...]
    is_dry_run: bool

    def total(self, result: str) -> int:
        """How many entries, of whatever kind, came out in one way."""
        return sum(numbers.get(result, 0) for numbers in self.counts.values())

    def as_document(self) -> dict[str, Any]:
        """The outcome as plain JSON data."""
        return {
            "form": self.form,
            "dry_run": self.is_dry_run,
            "counts": {kind: dict(numbers) for kind, numbers in self.counts.items()},
            "entries": [entry._asdict() for entry in self.entries],
        }


class Tally:
    """Collects entries while a source is taken in."""

    def __init__(self, form: str, total: int = 0, progress: Progress | None = None) -> None:
        """Begin; `total` is how many steps `progress` will be told of."""
        self.form = form
        self.entries: list[Taken] = []
        self._total = total
        self._done = 0
        self._progress = progress

    def add(
        self, source: str, kind: str, result: str, address: str = "", *, reason: str = ""
    ) -> None:
        """Note one entry."""
        self.entries.append(Taken(source, kind, result, address, reason))

    def refuse(self, problem: Problem, kind: str) -> None:
        """Note that something wasn't taken, and why."""
        bare = problem._replace(path="")
        self.add(problem.path, kind, "refused", reason=bare.line())

    def step(self) -> None:
        """Say that one more of the steps is done."""
        self._done += 1
        if self._progress:
            self._progress(min(self._done, self._total), self._total)

    def finish(self) -> None:
        """Say that all steps are done, where some had nothing to do."""
        if self._done < self._total:
            self._done = self._total - 1
            self.step()

    def attempt(self, source: str, kind: str, write: Callable[[], Done]) -> str:
        """Do one write and note what came of it; a refusal is noted with its reason.

        Faults of the store itself are no matter of one entry and come out. Gives the address.
        """
        try:
            done = write()
        except (StoreError, Damaged):
            raise
        except PassdownError as error:
            self.add(source, kind, "refused", reason=_reason(error))
            return ""
        self.entries.append(Taken(source, kind, *done))
        return done.address

    def brought(self, *, is_dry_run: bool = False) -> Brought:
        """The outcome."""
        counts: dict[str, dict[str, int]] = {}
        for entry in self.entries:
            numbers = counts.setdefault(entry.kind, dict.fromkeys(RESULTS, 0))
            numbers[entry.result] += 1
        return Brought(self.form, counts, tuple(self.entries), is_dry_run)


def _reason(error: PassdownError) -> str:
    if isinstance(error, ProblemsError):
        return "; ".join(problem.line() for problem in error.problems[:5])
    return error.message


def redactions(warnings: Iterable[Problem]) -> str:
    """What was removed before storing, in words; empty where nothing was."""
    return "; ".join(warning.message for warning in warnings if warning.code == "redacted")


def short_hash(*texts: str) -> str:
    """Texts as a short name that stays the same, fit to be part of a key."""
    joined = "\x1f".join(texts).encode("utf-8", "surrogatepass")
    return hashlib.sha256(joined).hexdigest()[:32]


class Earlier:
    """The records that earlier imports left in a task, found again by their keys.

    A key is `import-FORM-NAME-STATE`: what of the source it is about (`FORM-NAME`, with no other
    hyphen), and what that said then.
    `version` is that of the task as it was read; a task that isn't there has none, and version 0.
    """

    def __init__(self, opened: Opened, task: str) -> None:
        """Read the task's records."""
        self._opened = opened
        self._task = task
        self._keys: set[str] = set()
        self.version = 0
        self.records: list[Record] = []
        self._of: dict[str, list[Record]] = {}
        self.refresh()

    @property
    def exists(self) -> bool:
        """Whether there is such a task."""
        return self.version > 0

    def refresh(self) -> bool:
        """Read what was written since, and say whether there was anything."""
        before = self.version
        with self._opened.store.reading() as reader:
            for record in reader.records(stream_of(self._task), after=before):
                self.version = record.position
                if record.key.startswith(PREFIX):
                    self.records.append(record)
                    self._of.setdefault(what_in(record.key), []).append(record)
        # Keys that were given out for writes which failed are free again.
        self._keys = {record.key for record in self.records}
        return self.version > before

    def make_sure(self, title: str, agent: str) -> None:
        """Make the task where there is none; whoever else makes it meanwhile, it is one task."""
        from passdown.workspace.noting import create_task

        if self.exists:
            return
        with contextlib.suppress(Conflict):
            create_task(self._opened, {"task": self._task, "title": title, "agent": agent}, None)
        self.refresh()

    def settle(self, write: Callable[[], Done]) -> Done:
        """Do a write that goes by what is here, again as long as others write here meanwhile.

        So whoever comes second finds what the first has done, and adds nothing to it.
        """
        while True:
            try:
                return write()
            except (Conflict, KeyReused, InvalidInput):
                if not self.refresh():
                    raise

    def of(self, what: str) -> Sequence[Record]:
        """The records about one thing, oldest first."""
        return self._of.get(what, ())

    def state(self, what: str, *, since: int = 0) -> str:
        """What the source said of a thing when it was last taken in, after the version `since`;
        empty if never.
        """
        said = [state_in(record.key) for record in self.of(what) if record.position > since]
        return said[-1] if said else ""

    def version_of(self, what: str, state: str) -> int:
        """The version with which the source last said this of a thing; 0 if never."""
        said = (r.position for r in self.of(what) if state_in(r.key) == state)
        return max(said, default=0)

    def key(self, what: str, state: str) -> str:
        """The key for a new record, numbered where the source says again what it said before."""
        base = key = f"{PREFIX}{what}-{state}"
        number = 2
        while key in self._keys:
            key = f"{base}~{number}"
            number += 1
        self._keys.add(key)
        return key


def what_in(key: str) -> str:
    """What of a source the record with a key is about."""
    return "-".join(key.removeprefix(PREFIX).split("-", 2)[:2])


def state_in(key: str) -> str:
    """What the source said then."""
    return key.removeprefix(f"{PREFIX}{what_in(key)}-").partition("~")[0]


def append(opened: Opened, entry: Entry, guard: Guard | None = None) -> int:
    """Record an entry that has been checked; gives its version."""
    written = opened.ledger.append(entry, guard)
    opened.mirror(written)
    return written.record.position


__all__ = [
    "Brought",
    "Done",
    "Earlier",
    "Entry",
    "Taken",
    "Tally",
    "append",
    "redactions",
    "short_hash",
    "state_in",
    "what_in",
]

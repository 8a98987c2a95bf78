"""Every failure Passdown raises, drawn as one tree.

    PassdownError
    ├── InvalidInput        what was given breaks a rule; lists every problem at once
    ├── NotFound            no such task, item, version or gate
    ├── Conflict            the task has moved on since the version the writer worked from
    ├── KeyReused           one idempotency key, two different bodies
    ├── GateRefused         a gate refused the handoff; lists every reason
    ├── IntegrityViolation  a state differs before and after a handoff (strict mode)
    ├── Damaged             stored bytes differ from what was written; lists every finding
    ├── NotAllowed          the token is missing, unknown, or doesn't allow this
    ├── RateLimited         too many requests in a short time
    ├── MissingExtra        an optional package is needed for this
    ├── LaneFull            a lane has no room for another piece of work
    ├── GitError            a git command failed
    └── StoreError          the store can't be used
        ├── StoreBusy           another writer held the lock for too long
        ├── StoreUnavailable    the disk or the database refused: full, unreadable, gone
        ├── NewerSchema         made by a later release; left untouched
        ├── ForeignSchema       not a Passdown store, or its schema was altered
        └── UnsafeStore         other users of this machine could write to it

Each message says what happened, what was expected and what to do next, in words that a person or
a model can act on. None of them contains a complete destructive command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from passdown.core.values import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Level = Literal["error", "warning"]


class Problem(NamedTuple):
    """One thing wrong with an input, with the path of the field to fix.

    `path` names the field (`gotchas[0].severity`; empty for the whole input), `code` is a stable
    machine name (`invalid_path`), `expected` and `fix` are sentences and may be empty.
    """

    path: str
    code: str
    message: str
    expected: str = ""
    fix: str = ""
    level: Level = "error"

    def line(self) -> str:
        """The problem as one line of text."""
        where = f"{self.path}: " if self.path else ""
        expected = f"; expected {self.expected}" if self.expected else ""
        fix = f". Try: {self.fix}" if self.fix else ""
        return f"{where}{self.message}{expected}{fix} [{self.code}]"

    def to_dict(self) -> dict[str, str]:
        """The problem as a plain JSON object."""
        return dict(zip(self._fields, self, strict=True))


def marked_line(problem: Problem) -> str:
    """A problem as one line among others that are errors: a warning says that it is one."""
    return f"warning: {problem.line()}" if problem.level == "warning" else problem.line()


MAX_PROBLEMS = 100
"""How many problems are listed; of more than that, one last problem says how many."""

MORE_PROBLEMS = "more_problems"
"""The code of that last problem."""


def limited_problems(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """All problems; of very many, errors before warnings, the first of them and how many more there
    are. What was cut short before may be put together with others, and none is forgotten.
    """
    given = tuple(problems)
    if len(given) <= MAX_PROBLEMS + 1:
        return given
    known = [problem for problem in given if problem.code != MORE_PROBLEMS]
    ranked = sorted(known, key=lambda problem: problem.level != "error")
    shown, rest = ranked[:MAX_PROBLEMS], ranked[MAX_PROBLEMS:]
    cut = [*rest, *(problem for problem in given if problem.code == MORE_PROBLEMS)]
    level: Level = "error" if any(each.level == "error" for each in cut) else "warning"
    fix = "fix those above first, then check again"
    message = f"{count_problems(given) - len(shown)} more problems are not listed"
    return (*shown, Problem("", MORE_PROBLEMS, message, "", fix, level))


def count_problems(problems: Iterable[Problem]) -> int:
    """How many problems there are, with those that are no longer listed."""
    return sum(int(p.message.split()[0]) if p.code == MORE_PROBLEMS else 1 for p in problems)


class PassdownError(Exception):
    """Root of everything Passdown raises on purpose.

    `code` is stable for programs; `next_step` tells the reader what to do.
    """

    code = "error"

    def __init__(self, message: str, *, next_step: str = "", code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step
        if code:
            self.code = code

    def __str__(self) -> str:
        return f"{self.message}\n{self.next_step}" if self.next_step else self.message

    def to_dict(self) -> dict[str, object]:
        """The error as a plain JSON object, for `--json` and for other processes."""
        return {"error": self.code, "message": self.message, "next_step": self.next_step}


class ProblemsError(PassdownError):
    """An error with a list of problems (see `listed`), warnings last; never raised as such."""

    def __init__(self, message: str, problems: Iterable[Problem], *, next_step: str = "") -> None:
        self.problems = tuple(
            sorted(limited_problems(problems), key=lambda problem: problem.level == "warning")
        )
        super().__init__(message, next_step=next_step)

    def __str__(self) -> str:
        lines = [self.message, *(f"  - {marked_line(problem)}" for problem in self.problems)]
        return "\n".join([*lines, self.next_step] if self.next_step else lines)

    def to_dict(self) -> dict[str, object]:
        """The error with each of its problems."""
        return {**super().to_dict(), "problems": [p.to_dict() for p in self.problems]}


class InvalidInput(ProblemsError, ValueError):
    """What was given breaks a rule. Nothing has been changed."""

    code = "invalid_input"


class NotFound(PassdownError, ValueError):
    """There is no such task, item, version or gate."""

    code = "not_found"


class Conflict(PassdownError):
    """The task has moved on since the version the writer worked from. Nothing has been changed.

    `expected` is the version the writer named, `actual` the one that is stored.
    """

    code = "conflict"

    def __init__(self, task: str, *, expected: int, actual: int, detail: str = "") -> None:
        self.task = task
        self.expected = expected
        self.actual = actual
        super().__init__(
            f"{task} is at version {actual}; this write was made from version {expected}"
            + (f" ({detail})" if detail else ""),
            next_step=f"Read what changed (passdown diff {task} {expected} {actual}), "
            f"then write again from version {actual}; what only appends may ask for a rebase.",
        )

    def to_dict(self) -> dict[str, object]:
        """The error with both versions."""
        versions = {"task": self.task, "expected": self.expected, "actual": self.actual}
        return {**super().to_dict(), **versions}


class KeyReused(PassdownError):
    """An idempotency key came back with another body. The first one is kept."""

    code = "key_reused"


class GateRefused(ProblemsError):
    """A gate refused a handoff. Nothing has been changed."""

    code = "gate_refused"


class IntegrityViolation(PassdownError):
    """A state differs before and after a handoff; `fields` names where."""

    code = "integrity_violation"

    def __init__(self, message: str, fields: Iterable[str], *, next_step: str = "") -> None:
        self.fields = tuple(fields)
        super().__init__(message, next_step=next_step)

    def to_dict(self) -> dict[str, object]:
        """The error with the fields that differ."""
        return {**super().to_dict(), "fields": list(self.fields)}


class Damaged(ProblemsError):
    """Stored bytes are not what was written; `problems` says what and where."""

    code = "damaged"


class NotAllowed(PassdownError):
    """A server doesn't let this token do this. Nothing has been changed. Codes: no_token,
    not_allowed, not_recipient, other_host, other_origin.
    """

    code = "not_allowed"


class RateLimited(PassdownError):
    """A server has had too many requests with this token. Nothing has been changed."""

    code = "rate_limited"


class MissingExtra(PassdownError, ImportError):
    """An optional package is needed; the message gives the line that installs it."""

    code = "missing_extra"

    @classmethod
    def named(cls, extra: str, message: str) -> MissingExtra:
        """The error for an extra of this package."""
        return cls(message, next_step=f"Install it with: pip install 'passdown[{extra}]'")


class LaneFull(PassdownError):
    """A lane has no room; nothing was sent."""

    code = "lane_full"


class GitError(PassdownError):
    """A git command failed. Codes: git_failed, and those of `GIT_CODES`."""

    code = "git_failed"


GIT_CODES = (
    "no_git not_a_repository no_commits unknown_base branch_exists nothing_to_commit patch_failed "
    "unsafe_path filtered too_large"
).split()


class StoreError(PassdownError):
    """The store can't be used."""

    code = "store_error"


class StoreBusy(StoreError):
    """Another writer held the lock for longer than the time limit. Nothing has been changed."""

    code = "store_busy"


class StoreUnavailable(StoreError):
    """The disk or the database refused. Whether the write happened is unknown: retry with its
    key.
    """

    code = "store_unavailable"


class NewerSchema(StoreError):
    """The store was made by a later release; it has been left untouched."""

    code = "newer_schema"


class ForeignSchema(StoreError):
    """Not a Passdown store, or its schema was altered; it has been left untouched."""

    code = "foreign_schema"


class UnsafeStore(StoreError):
    """Other users of this machine could write to the store or its folder."""

    code = "unsafe_store"


def raise_problems(message: str, problems: Sequence[Problem], next_step: str = "") -> None:
    """Raise InvalidInput if there is any problem."""
    if problems:
        raise InvalidInput(message, problems, next_step=next_step)


def unknown_task(task: str) -> NotFound:
    """The error for an unknown task."""
    return NotFound(
        f"there is no task {task[:128]!r}",
        next_step="List the tasks with passdown task list (in Python: tasks), or make it with "
        "passdown task new (in Python: create_task).",
    )


def error_from_document(document: dict[str, Any]) -> PassdownError:
    """The error that a document of `as_document` says: for those who ask another process."""
    message, next_step = str(document["message"]), str(document.get("next_step", ""))
    code = str(document["error"])
    kind = _by_code().get(code, PassdownError)
    if issubclass(kind, ProblemsError):
        problems = [Problem(**problem) for problem in document.get("problems", ())]
        return kind(message, problems, next_step=next_step)
    if kind is IntegrityViolation:
        return IntegrityViolation(message, document.get("fields", ()), next_step=next_step)
    if kind is not Conflict:
        return kind(message, next_step=next_step, code=code)
    expected, actual = int(document.get("expected", 0)), int(document.get("actual", 0))
    stale = Conflict(str(document.get("task", "")), expected=expected, actual=actual)
    stale.message, stale.next_step, stale.args = message, next_step, (message,)
    return stale


def _by_code() -> dict[str, type[PassdownError]]:
    """Every error by its code, and those whose codes say more than their class."""
    found: dict[str, type[PassdownError]] = {
        "no_token": NotAllowed,
        "not_recipient": NotAllowed,
        "other_host": NotAllowed,
        "other_origin": NotAllowed,
        **dict.fromkeys(GIT_CODES, GitError),
    }
    kinds = [PassdownError]
    while kinds:
        kind = kinds.pop()
        found.setdefault(kind.code, kind)
        kinds += kind.__subclasses__()
    return found

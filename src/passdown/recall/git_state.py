"""Whether the files that a handoff names are still what git and the disk say they are.

Git is asked and never changed: no lock is taken, no hook and no file watcher is started, and an
answer that takes too long is done without.
"""

from __future__ import annotations

import os
import unicodedata
from typing import TYPE_CHECKING, NamedTuple

from passdown.ledger.disk import OWN_FOLDER, Project

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterable, Mapping

LIMIT = 0.2
"""The share of named files that may differ before a warning is due."""
TIMEOUT_S = 5.0
MOST_UNNAMED = 200

_OPTIONS = ("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")
_STATUS = (
    "status",
    "--porcelain=v1",
    "-z",
    "--untracked-files=all",
    "--no-renames",
    "--ignore-submodules=dirty",
    "--",
    ".",
)
# Set while git runs a hook; they would point it at another repository.
_FOREIGN = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR")
_PATHS_PER_CALL = 100


class GitCheck(NamedTuple):
    """How far the named files are from what was recorded.

    `differing` pairs each such path with the reason; `unnamed` are the paths that git shows as
    changed and nobody named. `problem` says why nothing could be compared.
    """

    is_repository: bool
    named: int
    differing: tuple[tuple[str, str], ...] = ()
    unnamed: tuple[str, ...] = ()
    share: float = 0.0
    warns: bool = False
    problem: str = ""


def compare_with_git(
    root: str,
    named: Mapping[str, str | None],
    *,
    limit: float = LIMIT,
    timeout_s: float = TIMEOUT_S,
    store_path: str = "",
) -> GitCheck:
    """Compare named files (each with its recorded SHA-256, or None) with the disk and with git.

    A file agrees when it is there with the recorded content and git shows it as changed, added or
    untracked, or has it tracked and clean. `warns` when more than `limit` of them differ.
    """
    git = _Git(root, timeout_s)
    try:
        prefix = git.answer("rev-parse", "--show-prefix").removesuffix("\n")
        changed = _changed(git.answer(*_without_filters(git), *_STATUS), prefix)
        project = Project(root, store_path or os.path.join(root, OWN_FOLDER, "ledger.db"))
        reasons = {path: _difference(project, path, named[path]) for path in named}
        asked = [path for path in named if not reasons[path] and _composed(path) not in changed]
        tracked = _tracked(git, asked)
    except _NoAnswer as error:
        return GitCheck(is_repository=False, named=len(named), problem=str(error))
    for path in asked:
        if _composed(path) not in tracked:
            reasons[path] = "git doesn't know it"
    differing = tuple((path, reason) for path, reason in reasons.items() if reason)
    share = len(differing) / len(named) if named else 0.0
    known = {_composed(path) for path in named}
    unnamed = tuple(sorted(changed - known)[:MOST_UNNAMED])
    return GitCheck(True, len(named), differing, unnamed, share, share > limit)


def _without_filters(git: _Git) -> list[str]:
    """Options that switch off every filter of the repository: each would be a program to run."""
    try:
        names = git.answer("config", "-z", "--name-only", "--get-regexp", r"^filter\..*\.")
    except _NoAnswer:
        return []
    filters = {name.rpartition(".")[0] for name in names.split("\0") if name}
    settings = [f"{name}.{key}=" for name in sorted(filters) for key in ("clean", "process")]
    settings += [f"{name}.required=false" for name in sorted(filters)]
    return [part for setting in settings for part in ("-c", setting)]


def _difference(project: Project, path: str, recorded: str | None) -> str:
    """What sets a file apart from what was recorded; empty when nothing does."""
    found = project.measure(path)
    if found.problem is not None:
        return found.problem.message
    if found.sha256 is None:
        return "missing"
    wanted = (recorded or found.sha256).removeprefix("sha256:").lower()
    return "" if found.sha256 == wanted else "changed since it was recorded"


def _composed(path: str) -> str:
    return path if path.isascii() else unicodedata.normalize("NFC", path)


def _changed(answer: str, prefix: str) -> set[str]:
    """The paths in a status answer, relative to the project, without Passdown's own."""
    entries = (entry[3:] for entry in answer.split("\0") if len(entry) > 3)
    paths = {_composed(path.removeprefix(prefix)) for path in entries}
    return {path for path in paths if path.split("/")[0] != OWN_FOLDER}


def _tracked(git: _Git, paths: list[str]) -> set[str]:
    found: set[str] = set()
    for start in range(0, len(paths), _PATHS_PER_CALL):
        some = paths[start : start + _PATHS_PER_CALL]
        # On disk a name may be spelled decomposed, and git compares bytes.
        spelled = {form for path in some for form in (path, unicodedata.normalize("NFD", path))}
        answer = git.answer("ls-files", "-z", "--", *sorted(spelled))
        found.update(_composed(path) for path in answer.split("\0") if path)
    return found


class _NoAnswer(Exception):
    """Git gave no answer; the message says why."""


class _Git:
    """Git in one folder, with one time limit for all that is asked."""

    def __init__(self, root: str, timeout_s: float) -> None:
        import time

        self._root = root
        self._timeout_s = timeout_s
        self._clock = time.monotonic
        self._ends = self._clock() + timeout_s

    def answer(self, *arguments: str) -> str:
        """What git prints; raises _NoAnswer when it fails, isn't there or takes too long."""
        import subprocess

        try:
            process = subprocess.Popen(
                ["git", "-C", self._root, *_OPTIONS, *arguments],
                env=_environment(os.environ.items()),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise _NoAnswer(f"git can't be started ({error.strerror})") from None
        with process:
            try:
                out, err = process.communicate(timeout=max(0.0, self._ends - self._clock()))
            except subprocess.TimeoutExpired:
                _end(process)
                raise _NoAnswer(f"git took longer than {self._timeout_s:g} s") from None
            except BaseException:
                _end(process)
                raise
        if process.returncode != 0:
            lines = err.decode("utf-8", "backslashreplace").splitlines()
            raise _NoAnswer(lines[0] if lines else f"git ended with {process.returncode}")
        return out.decode("utf-8", "backslashreplace")


def _environment(given: Iterable[tuple[str, str]]) -> dict[str, str]:
    kept = {name: value for name, value in given if name not in _FOREIGN}
    fixed = {"GIT_OPTIONAL_LOCKS": "0", "GIT_LITERAL_PATHSPECS": "1", "GIT_TERMINAL_PROMPT": "0"}
    # Nothing is fetched for an answer, whatever the repository is set up to do.
    fixed |= {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
    return {**kept, **fixed, "LC_ALL": "C"}


def _end(process: subprocess.Popen[bytes]) -> None:
    """End git and whatever it started: a filter left behind would hold the answer open."""
    import signal
    from contextlib import suppress

    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)

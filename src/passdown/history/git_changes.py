"""What changed in a repository, by git."""

from __future__ import annotations

import os
import re

from passdown.core.values import NamedTuple
from passdown.errors import InvalidInput, Problem
from passdown.history.git import Git, GitError
from passdown.ledger.project_files import OWN_FOLDER

_COMMIT_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
# A submodule's own state would be asked for by a git of its own, with the submodule's settings.
_ALONE = "--ignore-submodules=dirty"
_NAME_STATUS_DIFF = (
    "diff",
    "--name-status",
    "-z",
    "--no-renames",
    "--no-ext-diff",
    "--relative",
    _ALONE,
)
_OTHERS = ("ls-files", "--others", "--exclude-standard", "-z", "--", ".")
_STATUS_WITH_RENAMES = ("status", "--porcelain", "-z", "--untracked-files=all", _ALONE, "--", ".")
_STATUS_S = 60.0


class ChangedFile(NamedTuple):
    """A path below the project, and what happened to it: created, modify or delete."""

    path: str
    change: str


def changed_since(
    root: str, commit: str, since: float, timeout_s: float
) -> list[ChangedFile] | None:
    """The files below a folder that differ from a commit (else from the last one) and were touched
    since a time; None where git doesn't answer.
    """
    if timeout_s <= 0:
        return None
    git = Git(root, timeout_s)
    base = commit if _COMMIT_ID.fullmatch(commit) else "HEAD"
    try:
        found = [ChangedFile(path, "created") for path in _fields(git.answer(*_OTHERS))]
        found += _changed_tracked(git, base)
    except GitError:
        return None
    return sorted(
        each
        for each in found
        if not each.path.startswith(f"{OWN_FOLDER}/") and _touched(root, each, since)
    )


def _changed_tracked(git: Git, base: str) -> list[ChangedFile]:
    """The known files that differ from a commit; none where there is no such commit."""
    filters = git.without_filters()
    try:
        fields = _fields(git.answer(*filters, *_NAME_STATUS_DIFF, base, "--", "."))
    except GitError:
        return []
    words = {"A": "created", "D": "delete"}
    pairs = zip(fields[::2], fields[1::2], strict=False)
    return [ChangedFile(path, words.get(status[:1], "modify")) for status, path in pairs]


def _fields(answer: str) -> list[str]:
    return [field for field in answer.split("\0") if field]


def _touched(root: str, changed: ChangedFile, since: float) -> bool:
    try:
        return os.lstat(os.path.join(root, changed.path)).st_mtime >= since
    except OSError:
        return changed.change == "delete"


def uncommitted_paths(root: str) -> list[str]:
    """Paths, relative to `root`, of files changed, added or removed since the last commit.

    Raises InvalidInput where git can't say.
    """
    git = Git(root, _STATUS_S)
    try:
        prefix = git.answer("rev-parse", "--show-prefix").removesuffix("\n")
        fields = git.answer(*git.without_filters(), *_STATUS_WITH_RENAMES).split("\0")
    except GitError as error:
        fix = "name the files with --changed"
        message = str(error)[:200]
        problem = Problem("changed_git", "no_git", message, "a git repository", fix)
        raise InvalidInput("git can't say what changed", [problem]) from None
    found: set[str] = set()
    left = iter(fields)
    for field in left:
        status, path = field[:2], field[3:]
        if "R" in status or "C" in status:
            next(left, "")  # the name that it had
        if path.startswith(prefix) and path != prefix:
            found.add(path.removeprefix(prefix))
    return sorted(path for path in found if not path.startswith(f"{OWN_FOLDER}/"))

"""Whether the files that a handoff names are still what git and the disk say they are.

An answer that takes too long is done without.
"""

from __future__ import annotations

import os
import unicodedata
from typing import TYPE_CHECKING, NamedTuple

from passdown.ledger.disk import OWN_FOLDER, Project
from passdown.recall.git_asking import TIMEOUT_S, Git, NoAnswer

if TYPE_CHECKING:
    from collections.abc import Mapping

LIMIT = 0.2
"""The share of named files that may differ before a warning is due."""
MOST_UNNAMED = 200

STATUS = (
    "status",
    "--porcelain=v1",
    "-z",
    "--untracked-files=all",
    "--no-renames",
    "--ignore-submodules=dirty",
    "--",
    ".",
)
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
    git = Git(root, timeout_s)
    try:
        prefix = git.answer("rev-parse", "--show-prefix").removesuffix("\n")
        changed = changed_paths(git.answer(*git.without_filters(), *STATUS), prefix)
        project = Project(root, store_path or os.path.join(root, OWN_FOLDER, "ledger.db"))
        reasons = {path: _difference(project, path, named[path]) for path in named}
        asked = [path for path in named if not reasons[path] and _composed(path) not in changed]
        tracked = _tracked(git, asked)
    except NoAnswer as error:
        return GitCheck(is_repository=False, named=len(named), problem=str(error))
    for path in asked:
        if _composed(path) not in tracked:
            reasons[path] = "git doesn't know it"
    differing = tuple((path, reason) for path, reason in reasons.items() if reason)
    share = len(differing) / len(named) if named else 0.0
    known = {_composed(path) for path in named}
    unnamed = tuple(sorted(changed - known)[:MOST_UNNAMED])
    return GitCheck(True, len(named), differing, unnamed, share, share > limit)


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


def changed_paths(answer: str, prefix: str) -> set[str]:
    """The paths in a status answer, relative to the project, without Passdown's own."""
    entries = (entry[3:] for entry in answer.split("\0") if len(entry) > 3)
    paths = {_composed(path.removeprefix(prefix)) for path in entries}
    return {path for path in paths if path.split("/")[0] != OWN_FOLDER}


def _tracked(git: Git, paths: list[str]) -> set[str]:
    found: set[str] = set()
    for start in range(0, len(paths), _PATHS_PER_CALL):
        some = paths[start : start + _PATHS_PER_CALL]
        # On disk a name may be spelled decomposed, and git compares bytes.
        spelled = {form for path in some for form in (path, unicodedata.normalize("NFD", path))}
        answer = git.answer("ls-files", "-z", "--", *sorted(spelled))
        found.update(_composed(path) for path in answer.split("\0") if path)
    return found

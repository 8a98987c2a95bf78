"""Linked worktrees: which one a folder is the top of, and where the repository's main one is.

Git's own files are read and no program is started. A `.git` file is only believed where the
repository that it names knows this worktree: otherwise a file in an unpacked archive could lead to
any repository of the machine.
"""

from __future__ import annotations

import os
import re

from passdown.recall.git_head import first_line, named_git_folder

_CORE_WORKTREE = re.compile(r"\s*worktree\s*=\s*\"?([^\"\r\n]+)\"?\s*", re.IGNORECASE)


def main_worktree(top: str) -> str:
    """The top of the main worktree of the repository that `top` is a linked worktree of.

    Empty where `top` is none: a main worktree itself, a submodule, or one of a bare repository,
    which has no main worktree.
    """
    own = named_git_folder(top)
    common = first_line(os.path.join(own, "commondir")) if own else ""
    if not common or not _is_known(own, top):
        return ""
    common = os.path.realpath(os.path.join(own, common))
    main = os.path.dirname(common) if os.path.basename(common) == ".git" else _set_in(common)
    is_other = main and os.path.realpath(main) != os.path.realpath(top)
    return main if is_other and os.path.isdir(main) else ""


def _is_known(own: str, top: str) -> bool:
    """Whether the repository's entry for a worktree leads back to it."""
    back = first_line(os.path.join(own, "gitdir"))
    there = os.path.realpath(os.path.join(own, back))
    return bool(back) and there == os.path.realpath(os.path.join(top, ".git"))


def _set_in(common: str) -> str:
    """The main worktree that a repository's settings name, as those of a submodule do."""
    try:
        with open(os.path.join(common, "config"), encoding="utf-8", errors="replace") as file:
            found = [_CORE_WORKTREE.fullmatch(line) for line in file]
    except OSError:
        return ""
    named = next((match[1].strip() for match in found if match), "")
    return os.path.normpath(os.path.join(common, named)) if named else ""

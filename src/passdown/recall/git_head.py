"""Which branch is checked out, read from git's own files: no program is started for it."""

from __future__ import annotations

import os

_BRANCH = "ref: refs/heads/"
_NAMED = "gitdir:"


def has_git(folder: str) -> bool:
    """Whether a folder is inside a git repository."""
    return bool(_git_folder(folder))


def current_branch(folder: str) -> str:
    """The branch that is checked out; empty where there is none or no repository."""
    found = _git_folder(folder)
    head = first_line(os.path.join(found, "HEAD")) if found else ""
    return head.removeprefix(_BRANCH) if head.startswith(_BRANCH) else ""


def _git_folder(folder: str) -> str:
    """The git folder of the nearest repository; a worktree's is named in a file."""
    while True:
        path = os.path.join(folder, ".git")
        if os.path.isdir(path):
            return path
        if os.path.isfile(path):
            return named_git_folder(folder)
        above = os.path.dirname(folder)
        if above == folder:
            return ""
        folder = above


def named_git_folder(top: str) -> str:
    """The git folder that a folder's `.git` file names; empty where there is no such file."""
    named = first_line(os.path.join(top, ".git"))
    if not named.startswith(_NAMED):
        return ""
    return os.path.normpath(os.path.join(top, named.removeprefix(_NAMED).strip()))


def first_line(path: str) -> str:
    """The first line of one of git's files; empty where it can't be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readline(4096).rstrip("\r\n")
    except (OSError, ValueError):
        return ""

"""Which branch is checked out, read from git's own files: no program is started for it."""

from __future__ import annotations

import os

_BRANCH = "ref: refs/heads/"


def has_git(folder: str) -> bool:
    """Whether a folder is inside a git repository."""
    return bool(_git_folder(folder))


def current_branch(folder: str) -> str:
    """The branch that is checked out; empty where there is none or no repository."""
    found = _git_folder(folder)
    head = _first_line(os.path.join(found, "HEAD")) if found else ""
    return head.removeprefix(_BRANCH) if head.startswith(_BRANCH) else ""


def _git_folder(folder: str) -> str:
    """The git folder of the nearest repository; a worktree's is named in a file."""
    while True:
        path = os.path.join(folder, ".git")
        if os.path.isdir(path):
            return path
        if os.path.isfile(path):
            named = _first_line(path).removeprefix("gitdir: ")
            return os.path.normpath(os.path.join(folder, named))
        above = os.path.dirname(folder)
        if above == folder:
            return ""
        folder = above


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readline(4096).rstrip("\r\n")
    except OSError:
        return ""

"""Which branch and commit are checked out, read from git's own files: no program is started."""

from __future__ import annotations

import os
import re

_REF = "ref: "
_BRANCH = f"{_REF}refs/heads/"
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_NAMED = "gitdir:"


def has_git(folder: str) -> bool:
    """Whether a folder is inside a git repository."""
    return bool(_git_folder(folder))


def current_branch(folder: str) -> str:
    """The branch that is checked out; empty where there is none or no repository."""
    found = _git_folder(folder)
    head = first_line(os.path.join(found, "HEAD")) if found else ""
    return head.removeprefix(_BRANCH) if head.startswith(_BRANCH) else ""


def current_commit(folder: str) -> str:
    """The commit that is checked out; empty where there is none or no repository."""
    git = _git_folder(folder)
    head = first_line(os.path.join(git, "HEAD")) if git else ""
    if not head.startswith(_REF):
        return head if _COMMIT.fullmatch(head) else ""
    name = head.removeprefix(_REF)
    common = os.path.join(git, first_line(os.path.join(git, "commondir")))
    found = first_line(os.path.join(common, *name.split("/"))) or _packed(common, name)
    return found if _COMMIT.fullmatch(found) else ""


def _packed(common: str, name: str) -> str:
    try:
        with open(os.path.join(common, "packed-refs"), encoding="utf-8", errors="replace") as file:
            pairs = (line.rstrip("\r\n").partition(" ") for line in file)
            return next((commit for commit, _, ref in pairs if ref == name), "")
    except OSError:
        return ""


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

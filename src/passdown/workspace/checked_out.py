"""What is checked out around a folder, for doors that need it before any store is opened."""

from __future__ import annotations

from passdown.recall.git_head import current_branch, current_commit


def branch_and_commit(folder: str) -> tuple[str, str]:
    """The branch that is checked out and the commit it is at; empty where there is none.

    Read from git's own files, so that no program has to be started.
    """
    return current_branch(folder), current_commit(folder)

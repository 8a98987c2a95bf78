"""The repository around a session: what changed in it, by git.

Git is asked and never changed: no lock, no hook, no file watcher, and an answer that takes too long
is done without.
"""

from __future__ import annotations

import os
import re

from passdown.model.values import NamedTuple

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_OPTIONS = ("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")
_DIFF = ("diff", "--name-status", "-z", "--no-renames", "--no-ext-diff", "--relative")
_OTHERS = ("ls-files", "--others", "--exclude-standard", "-z", "--", ".")
# Set while git runs a hook of its own; they would point it at another repository.
_FOREIGN = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR")


class Changed(NamedTuple):
    """A path below the project, and what happened to it: created, modify or delete."""

    path: str
    change: str


def changed_since(root: str, commit: str, since: float, timeout_s: float) -> list[Changed] | None:
    """The files below a folder that differ from a commit (else from the last one) and were touched
    since a time; None where git doesn't answer.
    """
    deadline = _now() + timeout_s
    untracked = _git(root, timeout_s, *_OTHERS)
    if untracked is None:
        return None
    base = commit if _COMMIT.fullmatch(commit) else "HEAD"
    tracked = _git(root, deadline - _now(), *_DIFF, base, "--", ".") or []
    found = [Changed(path, "created") for path in untracked]
    words = {"A": "created", "D": "delete"}
    for status, path in zip(tracked[::2], tracked[1::2], strict=False):
        found.append(Changed(path, words.get(status[:1], "modify")))
    return sorted(
        each
        for each in found
        if not each.path.startswith(".passdown/") and _touched(root, each, since)
    )


def _touched(root: str, changed: Changed, since: float) -> bool:
    try:
        return os.lstat(os.path.join(root, changed.path)).st_mtime >= since
    except OSError:
        return changed.change == "delete"


def _now() -> float:
    import time

    return time.monotonic()


def _git(root: str, timeout_s: float, *arguments: str) -> list[str] | None:
    """The fields of an answer; None without one. The program is ended when its time is over."""
    if timeout_s <= 0:
        return None
    import subprocess

    environment = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    command = ["git", *_OPTIONS, "--no-optional-locks", *arguments]
    try:
        done = subprocess.run(
            command,
            cwd=root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    if done.returncode:
        return None
    return [field for field in done.stdout.decode("utf-8", "replace").split("\0") if field]

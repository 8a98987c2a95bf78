"""The files that git sees as changed below a folder."""

from __future__ import annotations

import os
import subprocess

from passdown.errors import InvalidInput, Problem


def changed_in_git(root: str) -> list[str]:
    """Paths, relative to `root`, of files changed, added or removed since the last commit."""
    prefix = _git(root, "rev-parse", "--show-prefix").decode(errors="surrogateescape").strip("\n")
    output = _git(root, "status", "--porcelain", "-z", "--untracked-files=all", "--", ".")
    fields = output.decode(errors="surrogateescape").split("\0")
    found: list[str] = []
    index = 0
    while index < len(fields):
        status, path = fields[index][:2], fields[index][3:]
        # A rename is followed by the name that it had.
        index += 2 if "R" in status or "C" in status else 1
        if path.startswith(prefix) and path != prefix:
            found.append(path[len(prefix) :])
    return sorted(set(found))


def _git(root: str, *arguments: str) -> bytes:
    # Told not to lock or to run the repository's own programs: only to look.
    command = ["git", "-c", "core.fsmonitor=false", "--no-optional-locks", *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "GIT_DIR"}
    try:
        done = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _refused(str(error)) from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise _refused(said[0] if said else f"git ended with {done.returncode}")
    return done.stdout


def _refused(message: str) -> InvalidInput:
    fix = "name the files with --changed"
    problem = Problem("changed_git", "no_git", message[:200], "a git repository", fix)
    return InvalidInput("git can't say what changed", [problem])

"""Real repositories for tests, and the command line in a folder of one."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

from tests.interfaces.mcp.talking import environment
from tests.processes import run_python

if TYPE_CHECKING:
    from pathlib import Path

_SETTINGS = {
    "user.name": "T",
    "user.email": "t@example.com",
    "init.defaultBranch": "main",
    "protocol.file.allow": "always",
}


def git(folder: Path, *arguments: str) -> str:
    """What git says; it must not fail."""
    settings = [part for each in _SETTINGS.items() for part in ("-c", "=".join(each))]
    done = subprocess.run(
        ["git", *settings, *arguments], cwd=folder, check=True, capture_output=True, timeout=240
    )
    return done.stdout.decode().strip()


class Ran(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


def run(folder: Path, *argv: str, agent: str = "coder") -> Ran:
    """The command line in a process of its own, in a folder."""
    done = run_python(
        [sys.executable, "-m", "passdown", *argv],
        cwd=folder,
        env=environment({"PASSDOWN_AGENT": agent}),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)

"""What it costs a coding agent to begin: the session-start hook beside starting Python at all."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

from bench.command_line import compile_sources, environment
from bench.figures import Measured, Row, Target, interleaved, median, ms, spread
from bench.workload import Ours

if TYPE_CHECKING:
    from pathlib import Path

    from bench.run import Run

_TARGETS = {"session-start": 6, "prompt-submit": 4, "stop": 4}
"""How often bare Python's time an event may take; the first one delivers a brief."""


def measure(run: Run) -> Measured:
    found = Measured("hooks", "A hook beside bare Python")
    ours = Ours(run.folder / "hooks")
    subprocess.run(["git", "init", "-q"], cwd=ours.root, check=True)
    ours.task("T")
    ours.grow("T", 10)
    ours.close()
    rounds = 15 if run.quick else 60
    run.say(f"hooks: {rounds} of each")
    compile_sources()
    program = [sys.executable, str(_program(run.folder)), "hook", "claude"]
    bare = [sys.executable, "-c", "pass"]
    calls = {
        "session-start": lambda: call([*program, "session-start"], ours.root, source="startup"),
        "prompt-submit": lambda: call([*program, "prompt-submit"], ours.root, prompt="go on"),
        "stop": lambda: call([*program, "stop"], ours.root),
        "bare": lambda: call(bare, ours.root),
    }
    answered = call([*program, "session-start"], ours.root, source="startup")
    if b"additionalContext" not in answered:
        raise RuntimeError(f"the hook told nothing: {answered[:200]!r}")
    interleaved(calls, 2)
    times = interleaved(calls, rounds)
    beside = median(times["bare"])
    for name, target in _TARGETS.items():
        took = median(times[name])
        said = (f"passdown hook claude {name}", ms(took), f"{ms(beside)} python -c pass")
        found.rows.append(Row(*said, took / beside, Target("at most", target)))
    found.notes.append("In a git repository, as hooks run: a stop asks git what has changed.")
    found.figures = {name: spread(samples) for name, samples in times.items()}
    return found


def _program(folder: Path) -> Path:
    """What hosts run: the program as it is installed, not the module."""
    path = folder / "passdown-program"
    path.write_text("from passdown.cli.main import run\nrun()\n", "utf-8")
    return path


def call(command: list[str], root: Path, **fields: str) -> bytes:
    """One call as a host makes it: a cold process, its JSON on standard input."""
    data = json.dumps({"session_id": "bench", "cwd": str(root), **fields}).encode()
    return subprocess.run(
        command,
        cwd=root,
        env=environment(root),
        input=data,
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
    ).stdout

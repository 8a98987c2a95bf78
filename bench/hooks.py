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

TARGET = Target("at most", 6)


def measure(run: Run) -> Measured:
    found = Measured("hooks", "A hook beside bare Python")
    ours = Ours(run.folder / "hooks")
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
        "bare": lambda: call(bare, ours.root),
    }
    answered = call([*program, "session-start"], ours.root, source="startup")
    if b"additionalContext" not in answered:
        raise RuntimeError(f"the hook told nothing: {answered[:200]!r}")
    interleaved(calls, 2)
    times = interleaved(calls, rounds)
    beside = median(times["bare"])
    for name in ("session-start", "prompt-submit"):
        took = median(times[name])
        row = Row(f"passdown hook claude {name}", ms(took), f"{ms(beside)} python -c pass")
        found.rows.append(Row(row.what, row.measured, row.beside, took / beside, TARGET))
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

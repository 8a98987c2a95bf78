"""What it costs to run a command, beside starting Python at all."""

from __future__ import annotations

import compileall
import itertools
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import passdown
from bench.figures import Measured, Row, Target, interleaved, median, ms, spread
from bench.workload import Ours

if TYPE_CHECKING:
    from bench.run import Run

_NUMBER = "NUMBER"
_COMMANDS = {
    "": 6,
    "ready": 6,
    "state T --json": 5,
    "brief T --agent coder": 8,
    "recall parser --words": 8,
    f"decide Choice-{_NUMBER} --why simple --task T": 8,
    f"handoff T --from coder --outcome completed --to tester --summary Part-{_NUMBER}": 9,
}
"""Each command, and how often bare Python's time it may take. What writes has a number in it, so
that none is a repeat."""
_START = "passdown mcp, from its start until initialize is answered and it has ended"
_START_TARGET = 5
_PROGRAM = [sys.executable, "-m", "passdown"]
_INITIALIZE = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    b'"capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}\n'
)


def measure(run: Run) -> Measured:
    found = Measured("command_line", "The command line beside bare Python")
    ours = Ours(run.folder / "command")
    ours.task("T")
    ours.grow("T", 10)
    ours.close()
    rounds = 15 if run.quick else 60
    run.say(f"command line: {rounds} of each")
    bare = [sys.executable, "-c", "pass"]
    numbers = itertools.count()

    def command(line: str) -> None:
        words = line.replace(_NUMBER, str(next(numbers))).split()
        call([*_PROGRAM, *words], ours.root)

    calls = {
        **{f"passdown {line}".rstrip(): partial(command, line) for line in _COMMANDS},
        _START: lambda: call([*_PROGRAM, "mcp"], ours.root, _INITIALIZE),
        "bare": lambda: call(bare, ours.root),
    }
    compile_sources()
    interleaved(calls, 2)
    times = interleaved(calls, rounds)
    bare_s = median(times["bare"])
    for name, target in zip(calls, (*_COMMANDS.values(), _START_TARGET), strict=False):
        took = median(times[name])
        beside = f"{ms(bare_s)} python -c pass"
        found.rows.append(Row(name, ms(took), beside, took / bare_s, Target("at most", target)))
    found.figures = {name: spread(samples) for name, samples in times.items()}
    return found


def compile_sources() -> None:
    """As an installed package is: a checkout may be run without ever keeping what was compiled."""
    folder = os.path.dirname(passdown.__file__ or "")
    compileall.compile_dir(folder, quiet=2)


def call(command: list[str], root: Path, sent: bytes = b"") -> None:
    done = subprocess.run(
        command,
        cwd=root,
        env=environment(root),
        input=sent,
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
    )
    if sent and b'"result"' not in done.stdout:
        raise RuntimeError(f"{command} answered {done.stdout[:200]!r}")


def environment(root: Path) -> dict[str, str]:
    """The same for both: this library is found, and compiled once, as it is where installed."""
    import passdown

    source = Path(passdown.__file__).parent.parent
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    known = [str(Path(part).resolve()) for part in given if part]
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    path = os.pathsep.join(dict.fromkeys([*known, str(source)]))
    return {**kept, "PYTHONPATH": path, "PYTHONPYCACHEPREFIX": str(root / "bytecode")}

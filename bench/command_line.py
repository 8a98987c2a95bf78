"""What it costs to ask for a task's state from the command line, beside starting Python at all."""

from __future__ import annotations

import compileall
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import passdown
from bench.figures import Measured, Row, Target, interleaved, median, ms, spread
from bench.workload import Ours

if TYPE_CHECKING:
    from bench.run import Run

TARGET = Target("at most", 5)
_STAND_IN = "import passdown; print(passdown.open({root!r}).files.state_document('T')['version'])"


def measure(run: Run) -> Measured:
    found = Measured("command_line", "The command line beside bare Python")
    ours = Ours(run.folder / "command")
    ours.task("T")
    ours.grow("T", 10)
    ours.close()
    name, command = _command(ours.root)
    rounds = 15 if run.quick else 60
    run.say(f"command line: {rounds} of each")
    bare = [sys.executable, "-c", "pass"]
    calls = {"ours": lambda: call(command, ours.root), "bare": lambda: call(bare, ours.root)}
    compile_sources()
    interleaved(calls, 2)
    times = interleaved(calls, rounds)
    a, b = median(times["ours"]), median(times["bare"])
    found.rows = [Row(name, ms(a), f"{ms(b)} python -c pass", a / b, TARGET)]
    found.figures = {name: spread(samples) for name, samples in times.items()}
    found.figures["command"] = name
    return found


def compile_sources() -> None:
    """As an installed package is: a checkout may be run without ever keeping what was compiled."""
    folder = os.path.dirname(passdown.__file__ or "")
    compileall.compile_dir(folder, quiet=2)


def _command(root: Path) -> tuple[str, list[str]]:
    """The command line of this very library, or a stand-in where it has none."""
    command = [sys.executable, "-m", "passdown", "state", "T", "--json"]
    if _answers(command, root):
        return "passdown state T --json", command
    stand_in = [sys.executable, "-c", _STAND_IN.format(root=str(root))]
    return "stand-in: open and state_document (no command line here)", stand_in


def _answers(command: list[str], root: Path) -> bool:
    """Whether a command really prints the state."""
    result = subprocess.run(
        command, cwd=root, env=environment(root), capture_output=True, check=False
    )
    try:
        return result.returncode == 0 and "version" in json.loads(result.stdout)
    except ValueError:
        return False


def call(command: list[str], root: Path) -> None:
    subprocess.run(
        command, cwd=root, env=environment(root), stdout=subprocess.DEVNULL, check=True, timeout=60
    )


def environment(root: Path) -> dict[str, str]:
    """The same for both: this library is found, and compiled once, as it is where installed."""
    import passdown

    source = Path(passdown.__file__).parent.parent
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    known = [str(Path(part).resolve()) for part in given if part]
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    path = os.pathsep.join(dict.fromkeys([*known, str(source)]))
    return {**kept, "PYTHONPATH": path, "PYTHONPYCACHEPREFIX": str(root / "bytecode")}

"""Relays for tests of the command line: files whose agents are small real programs."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

PATIENCE_S = 240.0


def handoff(summary: str = "Done.", outcome: str = "completed", **more: Any) -> str:
    """A reply that ends with a handoff."""
    recommended = ("patterns_discovered", "gotchas", "dependencies_for_next")
    lists: dict[str, Any] = {name: [] for name in (*recommended, "suggested_next_steps")}
    fields = {"outcome": outcome, "summary": summary, **lists, **more}
    return f"Fine.\n\n## Handoff\n```yaml\n{yaml.safe_dump(fields)}```\n"


def says(folder: Path, name: str, text: str) -> list[str]:
    """A program that reads nothing and says a text."""
    (folder / f"{name}.md").write_text(text, "utf-8")
    return ["cat", f"{name}.md"]


def slow(folder: Path, name: str, seconds: float, text: str) -> list[str]:
    """A program that notes its process, takes its time, and says a text."""
    (folder / f"{name}.md").write_text(text, "utf-8")
    return ["sh", "-c", f"echo $$ >> {name}.pid; sleep {seconds}; cat {name}.md"]


def waiting(folder: Path, name: str, text: str) -> list[str]:
    """A program that notes its process, waits until the file NAME.go is there, and says a text."""
    (folder / f"{name}.md").write_text(text, "utf-8")
    wait = f"while [ ! -e {name}.go ]; do sleep 0.05; done"
    return ["sh", "-c", f"echo $$ >> {name}.pid; {wait}; cat {name}.md"]


def line_with(process: subprocess.Popen[str], words: str) -> str:
    """Read what a process writes up to the line with some words."""
    assert process.stdout is not None
    for line in process.stdout:
        if words in line:
            return line
    raise AssertionError(f"never said: {words}")


def relay_file(
    folder: Path, legs: list[dict[str, Any]], agents: dict[str, dict[str, Any]], **more: Any
) -> str:
    """Write a relay; gives its file's name."""
    document = {"relay": "trial", "agents": agents, "legs": legs, **more}
    (folder / "relay.yaml").write_text(json.dumps(document, indent=1), "utf-8")
    return "relay.yaml"


def until(is_so: Callable[[], Any], what: str) -> Any:
    """Wait for something and give it."""
    ends = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends:
        found = is_so()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"never happened: {what}")


def is_alive(pid: int) -> bool:
    """Whether a process is there, and not just its remains."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"

"""The job whose handoff is measured: what it says, and what a receiver can get at of it."""

from __future__ import annotations

import hashlib
import json
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

RESULTS, LENGTH = 10, 1_000
BUDGET = 500
REQUEST = "Make the login survive a reload of the page."
DECISIONS = (
    ("Keep the token in an httpOnly cookie", "scripts can't read it"),
    ("Sign with one key per environment", "a leak on staging opens nothing else"),
    ("Refresh after ten minutes", "short enough to revoke, long enough not to be noticed"),
    ("Check the origin of each request", "a cookie is sent along from anywhere"),
    ("Leave the old session table in place", "two releases have to run side by side"),
)
STEPS = ("Write the middleware", "Add the refresh route", "Test with two tabs open")


class Reached(NamedTuple):
    """What the receiver's model was given, as JSON, and what the way named in it gave."""

    given: str
    fetched: str = ""

    def count(self, texts: tuple[str, ...]) -> int:
        """How many of some texts the receiver can get at."""
        held = leaves(self.given) + self.fetched
        return sum(text in held for text in texts)


def result_text(number: int) -> str:
    """What a tool gives: a thousand characters that no summary could guess."""
    digits = "".join(hashlib.sha256(f"{number}.{n}".encode()).hexdigest() for n in range(16))
    return f"result {number}: {digits}"[:LENGTH]


def message() -> str:
    """What the sender says before it hands on."""
    decided = [f"Decided: {summary}, because {why}." for summary, why in DECISIONS]
    return "\n".join([*decided, *(f"Next: {step}." for step in STEPS)])


def payload() -> dict[str, Any]:
    """The same as fields."""
    return {
        "outcome": "completed",
        "summary": "The ground is surveyed; nothing is written yet.",
        "decisions": [{"summary": s, "rationale": w, "alternatives": []} for s, w in DECISIONS],
        "next_steps": [{"step": step, "priority": "high"} for step in STEPS],
        **{name: [] for name in ("blockers", "files", "questions", "resolves")},
    }


def leaves(text: str) -> str:
    """The texts in a JSON text, as a model reads them."""
    found: list[str] = []

    def walk(value: Any) -> None:
        if isinstance(value, str):
            found.append(value)
        for part in value if isinstance(value, list) else ():
            walk(part)
        for part in value.values() if isinstance(value, dict) else ():
            walk(part)

    walk(json.loads(text))
    return "\n".join(found)


def carried_out(given: str, folder: Path) -> str:
    """What the commands that an input names give; nothing else is fetched."""
    lines = [line for line in leaves(given).splitlines() if "All: " in line]
    outputs: list[str] = []
    for command in (shlex.split(line.partition("All: ")[2]) for line in lines):
        module = ["-m", "passdown"] if command[0] == "passdown" else []
        if command[0] in ("python", "passdown"):
            whole = [sys.executable, *module, *command[1:]]
            done = subprocess.run(whole, cwd=folder, capture_output=True, text=True, check=True)
            outputs += done.stdout.splitlines()
    return "\n".join(_plain(line) for line in outputs)


def _plain(line: str) -> str:
    """A line of output; of an item in JSON, its texts."""
    item = line.partition(" ")[2]
    return leaves(item) if item.startswith("{") else line

"""The job whose handoff is measured: what it says, and what a receiver can get at of it."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, NamedTuple, cast

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
        if isinstance(value, dict):
            value = list(cast("dict[str, Any]", value).values())
        for part in cast("list[Any]", value) if isinstance(value, list) else ():
            walk(part)

    walk(json.loads(text))
    return "\n".join(found)


def named_call(given: str) -> str:
    """The items that an input names a call of `read_history` for; nothing else is fetched."""
    found = re.search(r'read_history\(\\?"(\d[^"\\]*)', given)
    return found[1] if found else ""

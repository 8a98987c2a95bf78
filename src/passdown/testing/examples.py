"""A fixed clock and a handoff with every field filled in, for tests."""

from __future__ import annotations

import copy
import os
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


START = datetime(2026, 1, 9, 10, 0, tzinfo=UTC)


def fixed_clock(start: datetime = START, step_s: float = 1.0) -> Callable[[], datetime]:
    """A clock for `passdown.open` that starts at a moment and moves on by a step with each look."""
    looks = count()
    return lambda: start + timedelta(seconds=step_s * next(looks))


FILES = {
    "src/auth/jwt.py": "def token() -> str:\n    return 'signed'\n",
    "src/config.py": "POOL = 4\n",
    "tests/test_jwt.py": "def test_token() -> None: ...\n",
}


def write_files(root: str, files: dict[str, str] | None = None) -> None:
    """Write files below a project's root; without any, those that `full_handoff` names."""
    for name, text in (FILES if files is None else files).items():
        path = os.path.join(root, *name.split("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def full_handoff(task: str = "T-1", **changes: Any) -> dict[str, Any]:
    """A handoff that leaves no field out; `changes` replace some of them."""
    example: dict[str, Any] = {
        "task": task,
        "outcome": "partial",
        "from_agent": "planner",
        "to_agent": "coder",
        "phase": "implementing",
        "summary": "Tokens are signed; the cookie is left to do.",
        "files_created": [
            {"path": "src/auth/jwt.py", "purpose": "Signs and checks tokens", "lines": "1-2"},
            {"path": "tests/test_jwt.py", "purpose": "Tests of the tokens", "lines": "all"},
        ],
        "files_modified": [_MODIFIED],
        "decisions": [_DECISION],
        "patterns_discovered": [_PATTERN],
        "gotchas": [_GOTCHA],
        "dependencies_for_next": [{"file": "src/auth/jwt.py", "reason": "The cookie wraps it"}],
        "open_questions": [_QUESTION],
        "suggested_next_steps": [
            {"step": "Set the cookie", "priority": "high", "depends_on": ["src/auth/jwt.py"]},
            {"step": "Rotate the key", "priority": "low"},
        ],
        "blockers": [_BLOCKER],
        "gates": [
            {"name": "lint", "result": "passed", "detail": "0 findings"},
            {"name": "types", "result": "failed", "detail": "2 errors"},
        ],
        "warnings": ["The clock of the test server is off."],
        "story": _STORY,
        "metadata": {"sprint": 7, "links": ["https://example.org/1"]},
    }
    return {**copy.deepcopy(example), **changes}


_MODIFIED = {
    "path": "src/config.py",
    "lines": "1-1",
    "change_type": "modify",
    "description": "A larger pool, since every request opens a connection",
}
_DECISION = {
    "summary": "JWT in an httpOnly cookie",
    "rationale": "Scripts can't read it",
    "alternatives": ["localStorage", "a header"],
    "artifacts": ["src/auth/jwt.py"],
    "paths": ["src/auth/jwt.py"],
    "tags": ["auth"],
}
_PATTERN = {
    "pattern": "Ask the session for the user",
    "location": "src/auth/jwt.py",
    "applies_to": ["auth", "user-state"],
}
_GOTCHA = {
    "issue": "The limit is 100 a minute, not 1,000",
    "discovered_in": "the payment service",
    "mitigation": "Back off and try again",
    "severity": "high",
}
_QUESTION = {
    "question": "How long do tokens live?",
    "context": "Safety against comfort",
    "recommendation": "15 minutes",
    "blocking": True,
}
_BLOCKER = {
    "blocker": "No credentials for the payment service",
    "impact": "Payments can't be tested",
    "suggested_resolution": "Ask the owner for them",
    "blocking_tasks": ["T-2"],
    "severity": "high",
}
_STORY = {
    "id": "S-4",
    "path": "stories/s-4.md",
    "status": "in progress",
    "current_task": "Login",
    "branch": "login",
}

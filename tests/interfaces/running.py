"""What a run of the command line gives, and a project to run it in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path


class Answer(NamedTuple):
    """Exit code, standard output and standard error of one run."""

    code: int
    out: str
    err: str


def data_of(printed: str | bytes) -> Any:
    """What a command printed with --json: the data in its envelope, or the error beside it."""
    document = json.loads(printed)
    assert document.pop("schema") == 1, document
    assert ("data" in document) != ("error" in document), document
    return document.get("data", document)


class Run(Protocol):
    """Runs a command and checks its exit code; None accepts any."""

    def __call__(self, *argv: str, code: int | None = 0) -> Answer: ...


class Start(Protocol):
    """Starts the program and gives its process; its standard error goes with its output."""

    def __call__(self, *argv: str) -> subprocess.Popen[str]: ...


def filled_project(folder: Path, cli: Run) -> None:
    """Write what most tests read: T-1 at version 7, with a human gate T-1#k2 pending."""
    (folder / "src").mkdir()
    (folder / "src" / "login.py").write_text("print('in')\n", "utf-8")
    cli("task", "new", "T-1", "--title", "Login", "--criterion", "it works", "--agent", "planner")
    cli("decide", "JWT", "--why", "no session", "--task", "T-1", "--agent", "planner")
    cli(
        *("note", "gotcha", "clock is UTC", "--mitigation", "convert", "--severity", "high"),
        *("--task", "T-1", "--agent", "planner"),
    )
    cli(
        *("handoff", "--task", "T-1", "--from", "planner", "--to", "coder"),
        *("--outcome", "completed", "--phase", "implementing", "--file", "src/login.py"),
        *("--next", "write it"),
    )
    cli("gate", "record", "T-1", "--name", "lint", "--passed", "--agent", "coder")
    cli("warn", "T-1", "mind the gap", "--agent", "coder")
    (folder / "note.yaml").write_text(
        "task: T-1\nfrom_agent: coder\nto_agent: reviewer\noutcome: partial\n"
        "blockers:\n  - blocker: is this legal?\n    requires_human: true\n"
        "suggested_next_steps:\n  - step: ask\n",
        "utf-8",
    )
    cli("handoff", "note.yaml")

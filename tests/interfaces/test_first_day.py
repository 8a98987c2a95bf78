"""The page of the first day: its ten tasks, done in order, and the wrong turns that it lists."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.interfaces.running import Run

PAGE = Path(__file__).resolve().parent.parent.parent / "docs/first-day.md"
RIGHT, WRONG = PAGE.read_text("utf-8").split("## Wrong turns")
OFFERED = (
    "quote a title of several words, or use passdown task new",
    "--why/--reason",
    "missing: --mitigation",
    "at least an --outcome",
    "Try: --stopped time|context|budget|turn, or --blocker",
    "T-1 is a task, not a file: passdown export --task T-1",
    "T-9 does not exist yet",
    "--by",
    "); name the one that is meant with --task",
)


def commands(text: str) -> list[list[list[str]]]:
    """The commands of each row of a table."""
    rows = re.findall(r"^\| (?!tried|#|-).*$", text, re.MULTILINE)
    found = [re.findall(r"`(passdown[^`]*)`", row) for row in rows]
    return [[shlex.split(command)[1:] for command in row] for row in found]


@pytest.mark.promise("H-19")
def test_the_ten_tasks_of_the_first_day_work_in_their_order(project: Path, cli: Run) -> None:
    shutil.rmtree(project / ".passdown")
    rows, task = commands(RIGHT), ""
    assert len(rows) == 10
    for number, row in enumerate(rows, 1):
        for argv in row:
            said = cli(*(task if word == "TASK" else word for word in argv)).out
            if number == 2:
                task = said.split()[2]
            assert said, argv
    assert "completed" in cli("task", "list").out


@pytest.mark.promise("H-19")
def test_a_wrong_turn_is_answered_with_the_right_way(project: Path, cli: Run) -> None:
    cli("task", "new", "T-1", "--title", "Login", "--agent", "a")
    for row, offered in zip(commands(WRONG), OFFERED, strict=True):
        answer = cli(*row[0], code=None)
        assert offered in answer.out + answer.err, row

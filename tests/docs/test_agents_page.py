"""The page on agents shows what happens."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

from passdown.relay.agents import MACHINES, VERDICTS, AgentStates, after_review, as_mermaid

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "agents.md"
EXAMPLE = ROOT / "docs" / "examples" / "agents.py"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


def test_the_example_prints_what_the_page_says(tmp_path: Path) -> None:
    assert blocks("python") == [EXAMPLE.read_text("utf-8")]
    result = subprocess.run(
        [sys.executable, str(EXAMPLE)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert blocks("text") == [result.stdout]


def test_the_pictures_are_those_of_the_tables() -> None:
    assert blocks("mermaid") == [as_mermaid(machine) for machine in MACHINES.values()]


def test_every_method_verdict_and_state_of_a_coder_is_on_the_page() -> None:
    """Methods with their parameters, verdicts with the state that follows."""
    page = PAGE.read_text("utf-8")
    listed = dict(re.findall(r"\| `(\w+)\((.*?)\)` \|", page))
    for name, member in inspect.getmembers(AgentStates, inspect.isfunction):
        if not name.startswith("_"):
            given = [part.strip() for part in listed[name].split(",") if part]
            assert given == list(inspect.signature(member).parameters)[1:], name
    rows = dict(re.findall(r"\| `(\w+)` \| `?([A-Z]+|where it was)", page))
    for verdict in VERDICTS:
        state = after_review(verdict, "CODING").replace("CODING", "where it was")
        assert rows[verdict] == state
    states = page.partition("```mermaid")[0].partition("## States")[2]
    assert set(re.findall(r"`([A-Z_]+)`", states)) == set(MACHINES["coder"].steps)

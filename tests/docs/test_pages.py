"""The pages on briefs and switches show what happens."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from passdown.briefing.switching import artifact

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"


@pytest.mark.promise("P-10")
def test_the_worked_example_of_briefs_prints_what_the_page_says(tmp_path: Path) -> None:
    """Three budgets, three texts, the same as on the page to the letter."""
    example = DOCS / "examples" / "brief_budgets.py"
    result = subprocess.run(
        [sys.executable, str(example)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    page = (DOCS / "briefs.md").read_text()
    shown = re.search(r"It prints:\n\n```text\n(.*?)```", page, re.DOTALL)
    assert shown is not None
    assert result.stdout == shown[1]


@pytest.mark.promise("S2-5", "S2-12")
def test_the_page_on_switches_has_the_limits_and_the_three_ways_in() -> None:
    """Each limit stands on the page with its value, and each way to build a switch in."""
    page = (DOCS / "switches.md").read_text()
    for name, value in (
        ("tokens", artifact.MAX_TOKENS),
        ("summaries", artifact.MAX_RETAINED),
        ("decisions", artifact.MAX_DECISIONS),
        ("files", artifact.MAX_FILES),
        ("blockers", artifact.MAX_BLOCKERS),
    ):
        assert re.search(rf"\b{value} {name}", page), name
    for way in ("ws.switch(", "ws.prompt(", "passdown switch --task", "AGENTS.md"):
        assert way in page


@pytest.mark.promise("S2-17")
def test_the_whole_suite_can_be_collected() -> None:
    """No file of tests fails to load, and none is switched off."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-2000:]
    for path in (ROOT / "tests").rglob("test_*.py"):
        assert "collect_ignore" not in path.read_text("utf-8") or path.samefile(__file__)

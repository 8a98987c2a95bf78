"""The pages on briefs and switches show what happens."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from passdown.context import artifacts as artifact
from passdown.core.settings import CONFIG_TEMPLATE, Settings, parse_settings
from passdown.history.profiles import Profiles
from tests.docs.handoff_table import markdown_table

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
    for way in ("ws.switch(", "ws.context.prompt(", "passdown switch T-1", "AGENTS.md"):
        assert way in page


def test_the_front_matter_and_the_registry_of_the_page_can_be_used(tmp_path: Path) -> None:
    """Both are taken in without a warning and give what the page says."""
    page = (DOCS / "switches.md").read_text()
    front, registry = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "qa.md").write_text(front + "You are qa.\n", "utf-8")
    (tmp_path / "tools.yaml").write_text(registry, "utf-8")
    profiles = Profiles(str(tmp_path), registry="tools.yaml")
    profile = profiles.get("qa")
    assert profile is not None
    assert profile.problems == ()
    assert profile.needs == {
        "files": ["source", "tests/**"],
        "decisions": ["storage"],
        "gates": ["lint", "plan"],
    }
    assert [(t.name, t.defer) for t in profile.tools] == [
        ("Read", False),
        ("Bash", False),
        ("Search", True),
    ]
    assert profiles.registry.executors["review"] == "qa"
    assert [tool.name for tool in profiles.registry.tools_for("other")] == ["Read"]


def test_the_page_on_handoffs_has_every_setting() -> None:
    """The settings that `init` writes stand on the page, with their defaults."""
    page = (DOCS / "handoffs.md").read_text()
    block = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert block is not None
    shown = tomllib.loads(block[1])
    written = tomllib.loads(re.sub(r"(?m)^# (?=\[|[a-z_]+ = )", "", CONFIG_TEMPLATE))
    assert shown == written
    assert parse_settings(shown)._replace(needs={}) == Settings()


def test_the_page_on_handoffs_has_the_declared_fields() -> None:
    """Its table is what the declaration gives; `handoff_table.markdown_table` writes it."""
    assert markdown_table() in (DOCS / "handoffs.md").read_text()


@pytest.mark.promise("S2-17")
def test_the_whole_suite_can_be_collected(request: pytest.FixtureRequest) -> None:
    """No file of tests fails to load, and none is switched off."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    collected = {item.path for item in request.session.items}
    missing = [str(path) for path in files if path not in collected]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    if missing:  # what this run was not asked for
        result = subprocess.run(
            [*command, *missing], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stdout[-2000:]
        assert [name for name in missing if Path(name).name not in result.stdout] == []
    for path in files:
        assert "collect_ignore" not in path.read_text("utf-8") or path.samefile(__file__)

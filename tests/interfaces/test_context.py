"""`passdown context`: what the past has for a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.interfaces.running import Run


@pytest.fixture
def dependent(filled: Path, cli: Run) -> Path:
    """The filled project, with T-2 depending on T-1."""
    cli(
        *("task", "new", "T-2", "--title", "Login page", "--agent", "planner"),
        *("--needs", "T-1", "--description", "see src/login.py"),
    )
    return filled


@pytest.mark.promise("S3-28")
def test_a_dependent_task_gets_what_its_dependencies_pass_on(
    dependent: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    """The text for a prompt, and its own steps below."""
    out = cli("context", "T-2").out
    assert out.startswith("## From Task T-1: Login\n\nQuotes planner, coder [B]: information")
    assert "### Suggested Next Steps\n- [B] medium: ask\n" in out, (
        "its author's letter is before it"
    )
    found = as_json("context", "T-2", "--for", "next")
    assert found["text"].rstrip("\n") == out.rstrip("\n")
    assert (found["task"], found["next_steps"]) == ("T-2", [])


@pytest.mark.promise("S3-29")
def test_a_task_shows_its_own_next_steps(filled: Path, cli: Run) -> None:
    """Each with the address under which it is marked."""
    out = cli("context", "T-1").out
    assert out.splitlines()[0] == "T-1 depends on no task"
    assert out.splitlines()[2:] == ["next steps of T-1", "  T-1#n2  medium  ask"]


@pytest.mark.promise("S3-39")
def test_the_computed_context_can_be_explained(
    dependent: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    """As text for a prompt, as an explanation, and as data."""
    out = cli("context", "T-2", "--for", "computed").out
    assert "### Code references\n- `src/login.py`\n" in out
    explained = cli("context", "T-2", "--for", "computed", "--complexity", "easy", "--explain").out
    assert "T-2, easy\n" in explained
    assert "file src/login.py (+3)" in explained
    found = as_json("context", "T-2", "--for", "computed", "--explain")
    assert found["code_refs"][0]["path"] == "src/login.py"
    assert found["counts"]["patterns"]["considered"] == 0
    assert found["explanation"].startswith("T-2, normal\n")


@pytest.mark.promise("S1-13")
def test_a_task_can_be_compacted(filled: Path, cli: Run, as_json: Callable[..., Any]) -> None:
    """Phase, blockers and decisions with their reasons."""
    out = cli("context", "T-1", "--for", "compact").out
    assert out.splitlines()[:3] == [
        "## T-1: Login",
        "Phase: implementing (from: planning), version 7",
        "Blocking: 1 blocker(s): is this legal?",
    ]
    assert "- JWT (why: no session)" in out
    assert as_json("context", "T-1", "--for", "compact")["text"] == out.rstrip("\n")


def test_options_that_do_nothing_are_refused(filled: Path, cli: Run) -> None:
    """--explain and --complexity belong to the computed context."""
    for argv in (["--explain"], ["--complexity", "easy"], ["--for", "compact", "--explain"]):
        assert "--for computed" in cli("context", "T-1", *argv, code=2).err
    assert cli("context", "T-9", code=1).err

"""`rules`: what is listed, shown and put into a prompt."""

from __future__ import annotations

import io
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from passdown.core.tokens import counter_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.interfaces.running import Run

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture
def rules(project: Path) -> Path:
    """The documented example, as the rules of the project."""
    return Path(shutil.copytree(DOCS / "examples" / "rules", project / ".passdown" / "rules"))


@pytest.mark.promise("S2-18")
def test_the_documented_command_prints_what_the_page_says(rules: Path, cli: Run) -> None:
    page = (DOCS / "rules.md").read_text("utf-8")
    command = re.search(r"```sh\npassdown (.*?)\n```", page)
    shown = re.search(r"```text\n(.*?)```", page, re.DOTALL)
    assert command
    assert shown
    answer = cli(*shlex.split(command[1]))
    assert (answer.out, answer.err) == (shown[1], "")


def test_list_shows_every_domain(rules: Path, cli: Run, as_json: Callable[..., Any]) -> None:
    found = as_json("rules", "list")
    assert [domain["name"] for domain in found["domains"]] == [
        *("constitution", "everyone", "tight", "agent-dev", "agent-qa", "release", "sql", "review")
    ]
    told = cli("rules", "list").out
    assert re.search(r"2 agent +agent-dev +dev +2", told)


def test_list_ends_with_1_when_a_file_has_faults(
    rules: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    (rules / "sql").unlink()
    assert "missing_file" in cli("rules", "list", code=1).out
    assert as_json("rules", "list", code=1)["problems"][0]["path"] == "sql"
    answer = cli("rules", "inject", "--session", "s1", "x")
    assert "1 fault in the rules' files: passdown rules list" in answer.out
    assert "missing_file" in answer.err


def test_without_a_folder_there_are_no_rules(cli: Run) -> None:
    assert "no rules" in cli("rules", "list").out
    assert "Context: FRESH" in cli("rules", "inject", "--session", "s1").out


def test_show_takes_a_domain_or_a_layer(rules: Path, cli: Run, as_json: Callable[..., Any]) -> None:
    assert "- Every migration is one transaction." in cli("rules", "show", "sql").out
    assert [domain["name"] for domain in as_json("rules", "show", "agent")] == [
        "agent-dev",
        "agent-qa",
    ]
    assert [domain["name"] for domain in as_json("rules", "show", "6")] == ["sql"]
    assert "passdown rules list" in cli("rules", "show", "nothing", code=1).err


@pytest.mark.promise("S2-19", "S2-20")
def test_inject_says_once_that_compaction_is_due_after_a_switch(
    rules: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    ask = ("rules", "inject", "--session", "s1", "--used", "10", "go on")
    assert "Write the test" in cli(*ask, "--agent", "dev").out
    switched = cli(*ask, "--agent", "qa")
    assert "Write the test" not in switched.out
    assert "Change no source" in switched.out
    assert switched.err == "compaction is due (switch)\n"
    same = cli(*ask)
    assert (same.out, same.err) == (switched.out, "")
    found = as_json(*ask, "--agent", "")
    assert (found["switched"], found["session"]["active_agent"]) == ([], "")
    assert found["session"]["prompt_count"] == 4


@pytest.mark.promise("S2-19")
@pytest.mark.parametrize("scope", ["agent", "workflow", "squad"])
def test_a_change_of_each_scope_asks_for_compaction_once(
    rules: Path, cli: Run, as_json: Callable[..., Any], scope: str
) -> None:
    """Between two prompts, whichever of the three it is; said with the prompt that it happens at
    and with no other, and again with the next change.
    """
    assert rules
    names = ["one", "one", "two", "two", "one"]
    said = [
        cli("rules", "inject", "--session", "s1", "--used", "10", f"--{scope}", name, "go on").err
        for name in names
    ]
    due = "compaction is due (switch)\n"
    assert said == ["", "", due, "", due]
    found = as_json("rules", "inject", "--session", "s1", "--used", "10", f"--{scope}", "two", "go")
    assert (found["switched"], found["compaction"]["due"]) == ([scope], True)
    assert found["compaction"]["reasons"] == ["switch"]


@pytest.mark.promise("S2-19")
@pytest.mark.parametrize("scope", ["agent", "workflow", "squad"])
def test_a_change_of_each_scope_compacts_once(rules: Path, cli: Run, scope: str) -> None:
    """What was before is kept as one artifact of a few tokens, written with that prompt alone."""
    cli("task", "new", "T-1", "--title", "Login", "--agent", "dev")
    cli("decide", "JWT", "--why", "no session", "--task", "T-1", "--agent", "dev")
    kept: list[int] = []
    said: list[str] = []
    for name in ("dev", "dev", "qa", "qa"):
        if scope == "agent":
            cli("switch", "--task", "T-1", "--to", name)
        else:
            given = ("--session", "s1", "--agent", "dev", "--task", "T-1", f"--{scope}", name)
            said.append(cli("rules", "inject", *given, "go on").err)
        kept.append(len(list((rules.parent / "handoffs").glob("*.yaml"))))
    assert kept == [0, 0, 1, 1]
    (artifact,) = (rules.parent / "handoffs").glob("*.yaml")
    assert "JWT" in artifact.read_text("utf-8")
    assert counter_of("o200k_base").tokens(artifact.read_text("utf-8")) <= 500
    assert cli("artifact", "list", "--agent", "dev").out == "nothing is waiting for dev\n"
    if scope != "agent":
        command = f"passdown artifact show .passdown/handoffs/{artifact.name}"
        assert [command in text for text in said] == [False, False, True, False]
        assert "JWT" in cli(*command.split()[1:]).out


@pytest.mark.promise("S2-21")
def test_inject_reads_the_prompt_and_counts_what_is_used(
    rules: Path, cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a migration")))
    answer = cli("rules", "inject", "--session", "s1", "--used", "190000", "-")
    assert answer.out.startswith("Context: CRITICAL, 5 % left.\nLess than 25 %")
    assert "- Every migration is one transaction." in answer.out
    assert "compaction is due (threshold)" in answer.err


def test_inject_refuses_ids_that_lead_elsewhere(rules: Path, cli: Run) -> None:
    assert "invalid_id" in cli("rules", "inject", "--session", "../x", code=1).err
    cli("rules", "inject", "x", code=2)

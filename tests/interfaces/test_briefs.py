"""`brief`, `why` and `log --briefs`: what an agent is told, and an account of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.interfaces.running import Run

HEAVY = {"asyncio", "dataclasses", "logging", "pathlib", "pydantic", "subprocess", "yaml"}


def test_a_brief_names_version_authors_and_the_way_to_the_rest(filled: Path, cli: Run) -> None:
    out = cli("brief", "T-1", "--agent", "reviewer").out
    assert out.startswith("# T-1 for reviewer, version 7 [")
    assert "is this legal?" in out
    assert "; partial by coder" in out
    assert "\nB: planner\n" in out
    assert "passdown state T-1" in out.splitlines()[-1]


def test_what_is_printed_is_what_was_counted(
    filled: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    for form in ("markdown", "plain", "yaml", "json", "summary", "injection"):
        ask = ("brief", "T-1", "--agent", "reviewer", "--format", form, "--no-record")
        found = as_json(*ask)
        assert found["format"] == form
        assert cli(*ask).out == found["text"].removesuffix("\n") + "\n"
    assert cli("log", "T-1", "--briefs").out == "nothing was delivered yet\n"


def test_json_accounts_for_every_part(filled: Path, as_json: Callable[..., Any]) -> None:
    found = as_json("brief", "T-1", "--agent", "reviewer", "--budget", "90", "--counter", "chars4")
    assert found["tokens"] <= 90
    assert (found["budget"], found["counter"]) == (90, "chars4")
    assert all({"address", "length", "why"} <= set(item) for item in found["shown"])
    assert sum(found["left_out"].values()) > 0
    assert found["waiting"]
    assert sum(found["parts"].values()) <= found["tokens"] + len(found["parts"])
    assert "passdown state T-1" in found["reach"]


def test_a_tag_adds_to_what_is_looked_for(
    filled: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    for number in range(2, 32):
        cli(
            *("decide", f"choice number {number}", "--why", "it is so", "--task", "T-1"),
            *("--agent", "planner", "--tag", "tax" if number == 4 else "other"),
        )

    def decisions(*more: str) -> list[str]:
        ask = ("brief", "T-1", "--agent", "reviewer", "--budget", "320", "--no-record", *more)
        shown = [item["address"] for item in as_json(*ask)["shown"]]
        return [address for address in shown if address.startswith("T-1#d")]

    assert decisions()
    assert "T-1#d4" not in decisions()
    assert "T-1#d4" in decisions("--tag", "tax")


def test_the_agent_may_come_from_the_environment(
    filled: Path, cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSDOWN_AGENT", "reviewer")
    assert cli("brief", "T-1").out.startswith("# T-1 for reviewer, version 7 [")
    assert "shown once" in cli("why", "T-1#b1").out


@pytest.mark.parametrize("form", ["markdown", "plain", "yaml", "json", "summary"])
def test_check_says_whether_a_brief_still_holds(
    filled: Path, cli: Run, as_json: Callable[..., Any], form: str
) -> None:
    text = cli("brief", "T-1", "--agent", "reviewer", "--format", form).out
    (filled / "brief.txt").write_text(text, "utf-8")
    check = ("brief", "T-1", "--check", "brief.txt")
    assert cli(*check).out == "current: made from version 7\n"
    cli("warn", "T-1", "one more", "--agent", "coder")
    assert cli(*check, code=1).out == "outdated: made from version 7, T-1 is at 8\n"
    assert as_json(*check, code=1) == {"is_current": False, "made_from": 7, "now": 8}


def test_check_refuses_what_names_no_version(filled: Path, cli: Run) -> None:
    (filled / "brief.txt").write_text("T-1 is fine", "utf-8")
    assert "no_version" in cli("brief", "T-1", "--check", "brief.txt", code=1).err
    assert "--check" in cli("brief", "T-1", "--check", "x", "--agent", "a", code=2).err


def test_a_delivery_leaves_the_task_at_its_version(
    filled: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    cli("brief", "T-1", "--agent", "reviewer")
    assert as_json("task", "show", "T-1")["version"] == 7
    cli("verify")


@pytest.mark.promise("P-11")
def test_why_tells_when_or_what_came_first(
    filled: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    never = as_json("why", "T-1#d1", "--agent", "reviewer")
    assert (never["told"], never["briefs"]) == (False, 0)
    small = as_json("brief", "T-1", "--agent", "reviewer", "--budget", "120")
    item = small["waiting"][-1]
    left = as_json("why", item, "--agent", "reviewer")
    assert left["told"] is False
    assert left["displaced_by"] == sorted(shown["address"] for shown in small["shown"])
    assert "budget of 120 tokens" in left["reason"]
    out = cli("why", item, "--agent", "reviewer").out
    assert "came first" in out
    cli("brief", "T-1", "--agent", "reviewer", "--budget", "2000")
    told = as_json("why", item, "--agent", "reviewer")
    assert (told["told"], told["briefs"], told["times"][0]["budget"]) == (True, 2, 2000)
    assert "2000 o200k_base" in cli("why", item, "--agent", "reviewer").out
    assert "no item" in cli("why", "T-1#d9", "--agent", "reviewer", code=1).err


@pytest.mark.promise("P-11")
def test_log_shows_who_was_told_how_much(
    filled: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    cli("brief", "T-1", "--agent", "reviewer", "--budget", "120")
    cli("switch", "--task", "T-1", "--to", "tester")
    cli("artifact", "save", "--task", "T-1", "--to", "release")
    found = as_json("log", "T-1", "--briefs")
    assert [entry["kind"] for entry in found] == ["artifact_saved", "switched", "briefed"]
    assert (found[2]["agent"], found[2]["version"], found[2]["budget"]) == ("reviewer", 7, 120)
    out = cli("log", "T-1", "--briefs").out.splitlines()
    assert " ".join(out[0].split()) == "number at (UTC) kind to version tokens shown left out"
    assert f"{found[2]['tokens']}/120" in out[3]
    assert [len(found[2]["shown"]), sum(found[2]["left_out"].values())] == [
        int(number) for number in out[3].split()[-2:]
    ]
    assert "T-1" in cli("log", "--briefs").out
    older = cli("log", "T-1", "--briefs", "--limit", "1").out
    assert "older: --before 3" in older
    assert as_json("log", "T-1", "--briefs", "--before", "3") == found[1:]
    cli("log", "T-9", "--briefs", code=1)


def test_stored_text_cannot_drive_the_terminal(filled: Path, cli: Run) -> None:
    cli("warn", "T-1", "red \x1b[31m and \u202e back", "--agent", "coder")
    for form in ("markdown", "plain", "yaml", "json"):
        out = cli("brief", "T-1", "--agent", "reviewer", "--format", form, "--budget", "2000").out
        assert "\x1b" not in out
        assert "\u202e" not in out


def test_wrong_words_are_misuse(filled: Path, cli: Run) -> None:
    for wrong in (["--format", "html"], ["--counter", "words"], ["--budget", "-1"]):
        cli("brief", "T-1", "--agent", "reviewer", *wrong, code=2)
    assert "T-9" in cli("brief", "T-9", "--agent", "r", code=1).err


@pytest.mark.parametrize("budget", ["0", "-5", "1000000001", "9" * 40, "x", "1.5", ""])
@pytest.mark.parametrize(
    "argv", [["brief", "T-1"], ["switch", "--task", "T-1", "--to", "a"], ["measure"]], ids=" ".join
)
def test_every_verb_says_the_same_of_a_budget(
    project: Path, cli: Run, argv: list[str], budget: str
) -> None:
    said = cli(*argv, "--budget", budget, code=2).err
    assert "expected a whole number from 1 to 1,000,000,000" in said
    assert "--budget" in said

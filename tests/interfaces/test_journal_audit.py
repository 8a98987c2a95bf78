"""`journal`, `audit`, and the warnings that keep the same thing from being said twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.interfaces.running import Run

    Json = Callable[..., Any]

SAID = "Sessions are kept in Redis because logging out has to work at once everywhere"


@pytest.mark.promise("S3-22", "S3-25")
def test_the_journal_has_places_blockers_and_gotchas(filled: Path, cli: Run, as_json: Json) -> None:
    out = cli("journal").out
    assert out.startswith("# Journal: all work\n")
    assert "| is this legal? |" in out
    assert "| high | clock is UTC | convert | T-1#g1 |" in out
    assert "| project | src/login.py |" in out or "| src | src/login.py |" in out
    found = as_json("journal", "T-1")
    assert found["task"] == "T-1"
    assert [place["location"] for place in found["context_map"]] == ["src/login.py"]
    assert "T-9" in cli("journal", "T-9", code=1).err


def test_the_journal_can_be_a_file_and_can_be_cut(filled: Path, cli: Run) -> None:
    assert cli("journal", "--output", "JOURNAL.md").out == "written to JOURNAL.md\n"
    assert (filled / "JOURNAL.md").read_text("utf-8") == cli("journal").out
    assert "--json" in cli("journal", "--output", "x", "--json", code=2).out
    cli(
        *("note", "gotcha", "tests share a port", "--mitigation", "lock it"),
        *("--severity", "high", "--task", "T-1", "--agent", "coder"),
    )
    assert "more of gotchas left out: passdown journal" in cli("journal", "--limit", "1").out


def test_an_audit_of_nothing_is_ok(project: Path, cli: Run, as_json: Json) -> None:
    assert cli("audit").out == "in force: nothing\nok\n"
    assert set(as_json("audit")["counts"].values()) == {0}


def test_an_audit_says_what_it_found_and_what_to_do(filled: Path, cli: Run, as_json: Json) -> None:
    by = ("--task", "T-1", "--agent", "coder")
    cli("decide", SAID, "--why", "x", *by, "--path", "src/login.py")
    cli("decide", SAID, "--why", "x", "--agent", "planner", "--task", "workspace")
    cli("decide", "Sessions in Postgres", "--why", "one store", *by, "--supersedes", "T-1#d1")
    cli("decide", "A list of revoked tokens", "--why", "small", *by, "--supersedes", "T-1#d1")
    cli("knowledge", "add", "lamp", "--type", "insight", "--summary", "Alone")
    (filled / "src" / "login.py").write_text("changed\n", "utf-8")
    out = cli("audit", code=1).out
    for text in (
        f"duplicates: 1  in nearly the same words\n  T-1#d2 = workspace#d1  {SAID[:50]}",
        "\n  next: keep one: passdown mark",
        f"stale: 1  cite files that have changed\n  T-1#d2: src/login.py has changed  {SAID[:50]}",
        "never_recalled: ",
        "orphaned: 1  without an edge, or their files are gone\n  lamp  Alone\n  next: join them",
        "forked: 1  superseded by several decisions in force\n  T-1#d1: T-1#d3, T-1#d4  JWT\n",
    ):
        assert text in out, text
    found = as_json("audit", "--limit", "1", code=1)
    assert found["counts"]["never_recalled"] > 1 == len(found["never_recalled"])
    assert " more (--limit)\n" in cli("audit", "--limit", "1", code=1).out


def test_what_was_told_is_no_longer_a_finding(filled: Path, cli: Run, as_json: Json) -> None:
    before = as_json("audit")["never_recalled"]
    assert "T-1#d1" in before
    assert cli("audit").out.endswith("or retract them\nok\n")
    cli("recall", "JWT session", "--words", "--to", "coder", "--kind", "decision")
    assert "T-1#d1" not in as_json("audit")["never_recalled"]


def test_what_was_said_before_is_reported_wherever_it_is_written(
    filled: Path, cli: Run, as_json: Json
) -> None:
    by = ("--task", "T-1", "--agent", "coder")
    first = cli("decide", SAID, "--why", "x", *by).out
    assert "warning" not in first
    again = "warning  decisions[0]: T-1#d2 says nearly the same (100% of the words, by coder)"
    for_all = ("--task", "workspace")
    assert again in cli("decide", SAID, "--why", "x", "--agent", "planner", *for_all).out
    warned = as_json("decide", SAID, "--why", "x", "--agent", "tester", *for_all)["warnings"]
    assert [warning["code"] for warning in warned] == ["near_duplicate"]
    note = ("note", "gotcha", "the build machine has a slow clock", "--severity", "low")
    cli(*note, "--mitigation", "wait", *by)
    same = cli(*note, "--mitigation", "wait", "--agent", "tester").out
    assert "T-1#g2 says nearly the same" in same
    handoff = ("--task", "T-1", "--from", "coder", "--outcome", "partial", "--next", "go on")
    handoff = ("handoff", *handoff, "--blocker", "a key is missing", "--decision", f"{SAID} :: x")
    cli("gate", "approve", "T-1#k2", "--by", "kim")
    assert "says nearly the same" in cli(*handoff, "--dry-run").out
    assert "says nearly the same" in cli(*handoff).out
    kept = cli("decide", SAID, "--why", "x", *by, "--supersedes", "T-1#d2,T-1#d3,workspace#d1").out
    assert "T-1#d2 says" not in kept

"""Inputs that are wrong in thousands of ways, and texts made to be slow: the first problems are
told, the rest are counted, and no text takes longer than its length. The same through every door.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from passdown.cli.main import main
from passdown.core.arguments import MAX_SUGGESTIONS as MOST_SUGGESTIONS
from passdown.errors import MAX_PROBLEMS, InvalidInput, Problem, count_problems, limited_problems
from tests.interfaces.running import data_of
from tests.interfaces.web.asking import ask
from tests.interfaces.web.test_mcp_http import call, text

if TYPE_CHECKING:
    from pathlib import Path

    from passdown import Workspace
    from tests.serving import Served

Document = dict[str, Any]

FIELDS = 5_000
SENT: Document = {"task": "T-1", "outcome": "completed", "from_agent": "coder"}


def slips(count: int) -> Document:
    """Fields that are nearly right, each of which would be worth a suggestion."""
    return {f"sumary{number}": 1 for number in range(count)}


def suggested(problems: list[Document]) -> int:
    return sum("did you mean" in problem["fix"] for problem in problems)


@pytest.mark.promise("W-20", "W-4")
def test_thousands_of_problems_are_counted_at_every_door(
    server: Served,
    ws: Workspace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Over HTTP, in Python, on the command line and over MCP: a hundred, and how many more."""
    wrong = {**SENT, "outcome": "done", **slips(FIELDS)}
    token = server.token("coder", "read", "write")
    checked = ask(server.port, "POST", "/api/handoffs/check", token=token, body={"handoff": wrong})
    problems: list[Document] = checked.document["problems"]
    assert (checked.status, checked.document["ok"]) == (200, False)
    assert len(problems) == MAX_PROBLEMS + 1
    assert (problems[0]["path"], problems[0]["code"]) == ("outcome", "invalid_choice")
    assert problems[-1]["code"] == "more_problems"
    assert problems[-1]["message"].split()[0] == str(1 + FIELDS - MAX_PROBLEMS)
    assert suggested(problems) == MOST_SUGGESTIONS - 1
    refused = ask(server.port, "POST", "/api/tasks/T-1/handoffs", token=token, body=wrong)
    assert (refused.status, len(refused.document["problems"])) == (422, MAX_PROBLEMS + 1)
    with pytest.raises(InvalidInput) as here:
        ws.hand_off(wrong)
    assert count_problems(here.value.problems) == 1 + FIELDS
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(wrong))
    monkeypatch.chdir(ws.root)
    assert main(["handoff", str(path), "--json"]) == 1
    printed = capsys.readouterr()
    assert len(data_of(printed.out or printed.err)["problems"]) == MAX_PROBLEMS + 1
    told = text(call(server, token, "handoff", **wrong))
    assert "more problems" in told
    assert told.count("\n") < MAX_PROBLEMS


@pytest.mark.promise("W-20")
def test_a_handoff_with_thousands_of_unknown_fields_is_taken_with_few_warnings(
    server: Served,
) -> None:
    """Everything is kept; of the warnings, a hundred are listed and the others counted. Misspelled
    fields are refused instead, with what was meant.
    """
    token = server.token("coder", "read", "write")
    body = {**SENT, **{f"zzz{number}": 1 for number in range(FIELDS)}}
    done = ask(server.port, "POST", "/api/tasks/T-1/handoffs", token=token, body=body)
    assert done.status == 201
    assert len(done.document["warnings"]) == MAX_PROBLEMS + 1
    slipped = {**SENT, **slips(FIELDS)}
    refused = ask(server.port, "POST", "/api/tasks/T-1/handoffs", token=token, body=slipped)
    assert (refused.status, len(refused.document["problems"])) == (422, MAX_PROBLEMS + 1)
    assert suggested(refused.document["problems"]) == MOST_SUGGESTIONS
    assert ask(server.port, "POST", "/api/tasks", token=token, body=body).status == 422


@pytest.mark.promise("W-20")
def test_errors_come_first_and_none_is_forgotten() -> None:
    """However often lists that were cut short are put together."""
    warnings = [Problem(f"w{n}", "odd", "is odd", level="warning") for n in range(150)]
    errors = [Problem(f"e{n}", "bad", "is bad") for n in range(30)]
    cut = limited_problems([*warnings, *errors])
    assert [problem.level for problem in cut[:31]] == ["error"] * 30 + ["warning"]
    assert (len(cut), cut[-1].level, count_problems(cut)) == (101, "warning", 180)
    again = limited_problems([*cut, *errors, *cut])
    assert (len(again), count_problems(again)) == (101, 390)
    assert limited_problems(cut) == cut
    many = [Problem(f"e{n}", "bad", "is bad") for n in range(500)]
    assert limited_problems(many)[-1].level == "error"
    assert limited_problems(many[:101]) == tuple(many[:101])


SLOW: dict[str, object] = {
    "words of a token": {**SENT, "metadata": {"x": ".ey" + "-ey" * 165_000}},
    "spaces after a title": "# Task T-1:" + " " * 500_000 + "\n## Handoff\noutcome: completed\n",
    "spaces in lines": ("- " + " " * 390 + "\n") * 1_300 + "## Handoff\noutcome: completed\n",
    "fences that are none": ("```" + "a" * 390 + "`\n") * 1_300,
    "equal patterns": {
        **SENT,
        "patterns_discovered": [{"pattern": "a", "location": "b"} for _ in range(5_000)],
    },
    "unknown in entries": {
        **SENT,
        "gotchas": [
            {"issue": "a", "mitigation": "b", "severity": "low", "sevrity": 1} for _ in range(5_000)
        ],
    },
}


@pytest.mark.promise("W-20")
@pytest.mark.parametrize("name", SLOW)
def test_no_text_is_read_more_often_than_it_is_long(server: Served, name: str) -> None:
    """With time that grows with the square of their length, these would take a minute each."""
    token = server.token("coder", "read", "write")
    body = {"handoff": SLOW[name]}
    assert len(json.dumps(body)) < 1_048_576
    for path in ("/api/handoffs/check", "/api/handoffs"):
        reply = ask(server.port, "POST", path, token=token, body=body)
        assert reply.status in (200, 201, 422), reply


@pytest.mark.promise("W-20")
def test_a_file_that_is_named_again_and_again_is_read_once(
    server: Served, ws: Workspace, tmp_path: Path
) -> None:
    with open(f"{ws.root}/large.bin", "wb") as file:
        file.truncate(50_000_000)
    files = [{"path": "large.bin"} for _ in range(9_000)]
    token = server.token("coder", "read", "write")
    body = {"handoff": {**SENT, "outcome": "done", "artifacts": files}}
    reply = ask(server.port, "POST", "/api/handoffs/check", token=token, body=body)
    assert (reply.status, reply.document["ok"]) == (200, False)
    assert {problem["code"] for problem in reply.document["problems"]} >= {"invalid_choice"}


@pytest.mark.promise("W-20")
@pytest.mark.parametrize("format", ["yaml", "json", "plain"])
def test_a_brief_is_counted_a_few_times_however_large(ws: Workspace, format: str) -> None:
    """Where only whole texts can be counted, their number grows with the number of digits."""
    decisions = [{"summary": f"decision {n}", "rationale": "r"} for n in range(1_000)]
    ws.hand_off({**SENT, "from_agent": "planner", "decisions": decisions})
    lengths: list[int] = []

    def characters(given: str) -> int:
        lengths.append(len(given))
        return len(given)

    shown: list[set[str]] = []
    for budget in (3_000, 12_000, 10_000_000):
        lengths.clear()
        found = ws.brief("T-1", agent="x", budget=budget, format=format, counter=characters)
        assert found.tokens <= budget
        assert len(lengths) < 150
        assert sum(lengths) < 30 * (len(found.text) + 2_000)
        shown.append({item.address for item in found.shown})
    assert shown[0] < shown[1] < shown[2]
    assert len(shown[2]) >= 1_000

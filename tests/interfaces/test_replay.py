"""A recorded leg, taken again: from what the first agent was given, and compared with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from tests.interfaces.relay_stage import handoff, relay_file, says

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.interfaces.running import Run


def recorder(folder: Path, name: str, text: str) -> list[str]:
    """A program that keeps its prompt in NAME.prompt and says a text."""
    (folder / f"{name}.md").write_text(text, "utf-8")
    return ["sh", "-c", f"cat > {name}.prompt; cat {name}.md"]


@pytest.fixture
def ran(project: Path, cli: Run) -> Path:
    """A project in which planner and coder took turns in R-1, and others wrote later."""
    decided = [{"summary": "A cookie", "rationale": "simple"}]
    agents = {
        "planner": {"runner": {"command": says(project, "plan", handoff("Planned."))}},
        "coder": {
            "runner": {"command": recorder(project, "code", handoff("Coded.", decisions=decided))}
        },
        "tester": {
            "runner": {"command": recorder(project, "test", handoff("Coded, with a test."))},
            "role": "You test.",
        },
    }
    legs = [
        {"leg": "plan", "agent": "planner"},
        {"leg": "code", "agent": "coder", "request": "Write the login."},
        {"leg": "check", "agent": "tester"},
    ]
    name = relay_file(project, legs, agents)
    cli("task", "new", "Login", "--id", "T-1", "--agent", "eva")
    cli("run", name, "--task", "T-1", "--by", "eva")
    cli("decide", "Later", "--why", "nobody knew it then", "--task", "T-1", "--agent", "eva")
    (project / "code.first").write_bytes((project / "code.prompt").read_bytes())
    return project


@pytest.mark.promise("C-3")
def test_a_leg_is_taken_again_from_what_the_first_agent_was_given(
    ran: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    """The same request, byte for byte; the original stays as it is; both handoffs are compared."""
    cli("heads", "export", "before.json")
    (ran / "again.md").write_text(handoff("Coded anew."), "utf-8")
    program = "sh -c 'cat > again.prompt; cat again.md'"
    found = as_json("replay", "R-1", "code", "--command", program, "--by", "eva")
    assert (ran / "again.prompt").read_bytes() == (ran / "code.first").read_bytes()
    assert b"nobody knew it then" not in (ran / "again.prompt").read_bytes()
    assert found["first"]["handoff"]["summary"] == "Coded."
    assert found["diff"]["summary"] == {"first": "Coded.", "again": "Coded anew."}
    assert found["diff"]["decisions"]["first"][0]["summary"] == "A cookie"
    assert set(found["diff"]) == {"summary", "decisions"}
    cli("verify", "--against", "before.json")
    before = json.loads((ran / "before.json").read_text("utf-8"))
    assert as_json("heads", "export")["heads"] == before["heads"]
    folder = ".passdown/stores/replay-R-1-2-1/"
    cli("verify", "--store", folder)
    cli("--store", found["store"], "verify")
    by_folder, by_address = (
        as_json("heads", "export", "--store", each)["heads"] for each in (folder, found["store"])
    )
    assert by_folder == by_address != before["heads"]
    refused = cli("verify", "--store", ".passdown/stores", code=1).err
    assert f"there is no ledger.db in {ran / '.passdown/stores'}" in refused
    state = as_json("--store", found["store"], "state", "T-1")
    assert state["version"] == found["first"]["version"] == found["again"]["version"]
    run = as_json("--store", found["store"], "runs", "R-1")
    assert (run["replay"]["number"], run["why"]) == (2, "only this leg was taken again")
    listed = as_json("replay", "R-1")
    assert [each["replay"] for each in listed] == ["replay-R-1-2-1"]
    assert listed[0]["diff"] == found["diff"]


@pytest.mark.promise("C-3")
def test_another_agent_takes_a_leg_again_and_what_follows(ran: Path, cli: Run) -> None:
    """It has its own role and the first one's request; the rest of the relay follows."""
    said = cli("replay", "R-1", "code", "--agent", "tester", "--rest", "--by", "eva").out
    assert "first  coder, completed" in said
    assert "again  tester, completed" in said
    assert "- Coded.\n" in said
    assert "+ Coded, with a test.\n" in said
    store = said.rpartition("recorded in ")[2].strip()
    with passdown.open(store) as other:
        turns = other.relay.run("R-1")["turns"]
        assert [(turn["leg"], turn["agent"], turn["outcome"]) for turn in turns] == [
            ("plan", "planner", "completed"),
            ("code", "tester", "completed"),
            ("check", "tester", "completed"),
        ]
        (first, *_) = other.relay.conversations("T-1", "tester")
        assert "You test." in first["body"]["system"]
    with passdown.open(str(ran)) as workspace:
        assert [turn["agent"] for turn in workspace.relay.run("R-1")["turns"]][1] == "coder"
        calls: list[str] = []

        def function(asked: Any) -> str:
            calls.append(asked.prompt)
            return handoff("By a function.")

        found = workspace.relay.replay("R-1", "2", by="eva", agent="robot", runner=function)
        assert found["again"]["handoff"]["from_agent"] == "robot"
        first_request = (ran / "code.first").read_text("utf-8")
        assert first_request[first_request.index("## Request") :] in calls[0]


@pytest.mark.promise("C-3")
def test_what_can_t_be_taken_again_is_refused(ran: Path, cli: Run) -> None:
    assert "has no ended turn 'ship'" in cli("replay", "R-1", "ship", "--by", "eva", code=1).err
    refused = cli("replay", "R-1", "code", "--agent", "ghost", "--by", "eva", code=1).err
    assert "--agent: 'ghost' is not in the relay; expected coder | planner | tester" in refused
    assert "Try: say with --command or --script what runs it [" in refused
    refused = cli("replay", "R-1", "code", "--command", "no-such-program", "--by", "eva", code=1)
    assert "- --command: the program 'no-such-program' was not found" in refused.err
    assert "Fix these in the file" not in refused.err
    refused = cli("replay", "R-1", "code", "--script", "none.yaml", "--by", "eva", code=1).err
    assert "- --script: " in refused
    assert cli("replay", "R-1").out == "no leg of this run was taken again\n"


@pytest.mark.promise("C-4")
def test_a_relay_is_run_from_a_chosen_leg(ran: Path, cli: Run, as_json: Callable[..., Any]) -> None:
    """On the task as it is now, as a run of its own."""
    refused = cli("run", "relay.yaml", "--task", "T-1", "--from", "ship", "--by", "eva", code=1)
    assert "--from: 'ship' is no leg; expected plan | code | check" in refused.err
    cli("run", "relay.yaml", "--task", "T-1", "--from", "code", "--by", "eva")
    run = as_json("runs", "R-2")
    assert [turn["leg"] for turn in run["turns"]] == ["code", "check"]
    assert run["begins_with"] == "code"
    assert b"nobody knew it then" in (ran / "code.prompt").read_bytes()


@pytest.mark.promise("C-4")
def test_a_leg_s_payload_is_checked_and_sent_back(
    project: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    """Its fields are in the handoff's metadata, of their types, or its agent has to fix it."""
    wrong = handoff("Reviewed.", score="high", metadata={"risk": "some"})
    right = handoff("Reviewed.", score=7, metadata={"risk": "low"})
    (project / "1.md").write_text(wrong, "utf-8")
    (project / "2.md").write_text(right, "utf-8")
    program = "cat >> prompt; echo x >> count; cat $(wc -l < count).md"
    agents = {"critic": {"runner": {"command": ["sh", "-c", program]}}}
    payload = {"risk": ["low", "high"], "score": {"type": "integer", "maximum": 10}}
    legs = [{"leg": "review", "agent": "critic", "payload": payload}]
    name = relay_file(project, legs, agents)
    cli("task", "new", "Login", "--id", "T-1", "--agent", "eva")
    cli("run", name, "--task", "T-1", "--by", "eva")
    prompt = (project / "prompt").read_text("utf-8")
    assert "- risk: low | high\n- score: a whole number" in prompt
    assert "metadata.score: text given; expected a whole number" in prompt
    assert "metadata.risk: 'some' is no choice; expected low | high" in prompt
    metadata = as_json("show", "T-1#h1")["metadata"]
    assert (metadata["risk"], metadata["score"]) == ("low", 7)
    for odd in ("money", {"types": "integer"}, 3):
        relay_file(project, [{"leg": "review", "agent": "critic", "payload": {"x": odd}}], agents)
        assert "legs[0].payload.x" in cli("run", name, "--task", "T-1", "--by", "eva", code=1).err


@pytest.mark.promise("C-3")
def test_a_rest_that_fails_is_told_with_its_reason(ran: Path, cli: Run) -> None:
    """No traceback: which legs followed, how each ended, why; and the failure is the result."""
    decided = [{"summary": "A token", "rationale": "safe", "alternatives": ["A cookie"]}]
    script = {"tester/code": [handoff("Again.", decisions=decided)]}
    (ran / "other.json").write_text(json.dumps(script), "utf-8")
    command = ("replay", "R-1", "code", "--agent", "tester", "--by", "eva")
    failed = cli(*command, "--rest", "--script", "other.json", code=1)
    assert "Traceback" not in failed.err + failed.out
    assert "  check  tester, error: the script has no answer for tester, leg check" in failed.out
    assert "the rest is not done: failed\n" in failed.out
    assert "  - summary: A cookie\n    rationale: simple\n" in failed.out
    assert "  + summary: A token\n    alternatives: A cookie\n    rationale: safe\n" in failed.out
    assert "{" not in failed.out
    done = cli(*command, "--rest").out
    assert "what followed\n  check  tester, completed\nthe rest was completed\n" in done


@pytest.mark.promise("C-3")
def test_a_second_try_that_fails_is_not_compared(ran: Path, cli: Run) -> None:
    failed = cli("replay", "R-1", "code", "--command", "false", "--by", "eva", code=1).out
    assert "again  coder, error: false ended with exit code 1." in failed
    assert "nothing to compare: the second try gave no handoff\n" in failed
    assert "schema_version" not in failed
    assert "the second try gave no handoff" in cli("replay", "R-1").out

"""Requests in the middle of a turn, files beside a relay file, knowledge at completion."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown.errors import InvalidInput, NotFound
from passdown.mcp.shared_workspace import SharedWorkspace, workspace_candidates
from passdown.mcp.tools import call_tool
from passdown.relay.relay_file import check_relay
from passdown.relay.runs import Runs
from tests.interfaces.relay_stage import handoff
from tests.interfaces.running import data_of
from tests.processes import forked_python
from tests.serving import served

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.interfaces.running import Run

ARCHITECT = """
import sys
prompt = sys.stdin.read()
open("architect.log", "a").write(prompt + "\\n=====\\n")
last = prompt.rpartition(" user]")[2]
if "Answer this question" in last:
    print("Use a COOKIE-OF-JUNE." if "june" in last else "I don't know.")
elif "budget is used up" in last:
    print("CONTINUE")
elif "SHORTER" in last:
    print("APPROVED as COOKIE-OF-JUNE" if "COOKIE-OF-JUNE" in prompt else "REJECTED")
else:
    print("CHANGES: SHORTER")
"""
CODER = """
import subprocess, sys
sys.stdin.read()
def passdown(*words):
    done = subprocess.run(
        [sys.executable, "-m", "passdown", *words], capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr
answers = [
    passdown("ask", "architect", "What about june?"),
    passdown("review", "architect", "My plan", "--kind", "plan"),
    passdown("approve", "architect", "A SHORTER plan", "--kind", "plan", "--json"),
    passdown("approve", "architect", "All done", "--kind", "completion"),
    passdown("review", "architect", "All used up", "--kind", "budget"),
]
open("answers.json", "w").write(__import__("json").dumps(answers))
print(HANDOFF)
"""


def written(folder: Path) -> str:
    """A relay file in a folder of its own, with its programs beside it."""
    folder.mkdir()
    (folder / "architect.py").write_text(ARCHITECT, "utf-8")
    (folder / "coder.py").write_text(CODER.replace("HANDOFF", repr(handoff())), "utf-8")
    (folder / "spec.md").write_text("SPEC-BESIDE-THE-FILE", "utf-8")
    python = forked_python()
    agents = {
        "coder": {"runner": {"command": [python, "coder.py"]}},
        "architect": {"runner": {"command": [python, "architect.py"]}, "spec": "spec.md"},
    }
    back = {"when": {"verdict": ["changes", "rejected"]}, "go": "end"}
    review = {"leg": "review", "agent": "architect", "kind": "code_review", "then": [back]}
    document = {
        "relay": "asking",
        "agents": agents,
        "legs": [{"leg": "code", "agent": "coder"}, review],
    }
    (folder / "relay.yaml").write_text(json.dumps(document), "utf-8")
    return str(folder / "relay.yaml")


@pytest.mark.promise("S4-4", "S4-15")
def test_a_coder_asks_in_the_middle_of_its_turn(project: Path, program: Run, cli: Run) -> None:
    """All kinds of requests, in one conversation; the review after its turn knows all of them.

    The programs and the specification are beside the relay file, not in the workspace's folder.
    """
    cli("task", "new", "T-1", "--title", "Login", "--agent", "eva")
    done = program("run", written(project / "relays"), "--task", "T-1", "--by", "eva")
    assert done.code == 0, done
    answers = json.loads((project / "answers.json").read_text("utf-8"))
    assert [code for code, _ in answers] == [0, 0, 0, 1, 0], answers
    texts = [text.strip() for _, text in answers]
    assert texts[0] == "Use a COOKIE-OF-JUNE."
    assert texts[1] == "CHANGES: SHORTER"
    found = data_of(texts[2])
    assert (found["verdict"], found["run"], found["agent"]) == ("approved", "R-1", "architect")
    assert texts[4] == "CONTINUE"
    prompts = (project / "architect.log").read_text("utf-8").split("\n=====\n")[:-1]
    assert len(prompts) == 6
    for number, prompt in enumerate(prompts):
        assert prompt.count(" assistant]") == number
        assert "SPEC-BESIDE-THE-FILE" in prompt
        assert "You work with coder on T-1." in prompt


def test_a_request_that_makes_no_sense_is_refused(project: Path, cli: Run) -> None:
    cli("task", "new", "T-1", "--title", "Login", "--agent", "eva")
    none = cli("ask", "architect", "Anyone?", "--by", "coder", code=1)
    assert "0 runs are under way" in none.err
    with passdown.open(str(project)) as ws:
        relay = check_relay({"relay": "x", **_agents(["false"])})
        Runs(ws).start(relay, "T-1", by="eva", lane="here")
    assert "isn't in R-1" in cli("ask", "nobody", "x", "--run", "R-1", "--by", "eva", code=1).err
    failed = cli("ask", "architect", "x", "--by", "eva", code=1).err
    assert "architect gave no answer" in failed
    assert "is not one of" in cli("review", "architect", "x", "--kind", "poem", code=2).err


def _agents(command: list[str]) -> dict[str, Any]:
    agents = {"architect": {"runner": {"command": command}}}
    return {"agents": agents, "legs": [{"leg": "plan", "agent": "architect"}]}


@pytest.mark.promise("S4-15")
def test_a_server_and_an_mcp_tool_ask_too(project: Path, cli: Run) -> None:
    """The same request and the same answer; under its key, nobody is asked again."""
    cli("task", "new", "T-1", "--title", "Login", "--agent", "eva")
    command = ["sh", "-c", "cat > /dev/null; echo asked >> count; echo APPROVED by $PASSDOWN_AGENT"]
    with passdown.open(str(project)) as ws:
        relay = check_relay({"relay": "x", **_agents(command)})
        Runs(ws).start(relay, "T-1", by="eva", lane="here")
        with served(ws) as server, server.opened("coder", "read", "write") as remote:
            for _ in range(2):
                answer = remote.relay.ask(
                    "R-1", "architect", "Fine?", by="coder", kind="plan", key="k"
                )
                assert answer == ("R-1", "architect", "approved", "APPROVED by architect\n")
        shared = SharedWorkspace(workspace_candidates("", {}, ws.root))
        asked = {"kind": "code", "text": "My code", "to": "architect", "agent": "coder"}
        result = call_tool(shared, "note", asked, "coder")
        assert (result.is_error, result.text.strip()) == (
            False,
            "architect in R-1: APPROVED by architect",
        )
        without = call_tool(shared, "note", {**asked, "to": ""}, "coder")
        assert without.is_error
    assert (project / "count").read_text("utf-8").count("asked") == 2


def test_a_request_without_an_answer_says_what_was_recorded(project: Path, cli: Run) -> None:
    """It stays in the conversation, and asked again under its key it is there once."""
    cli("task", "new", "T-1", "--title", "Login", "--agent", "eva")
    command = ["sh", "-c", "cat >> told; cat said"]
    (project / "said").write_text("Hm.", "utf-8")
    asked = {"kind": "code", "text": "MY-CODE", "to": "architect", "agent": "coder", "key": "k"}
    with passdown.open(str(project)) as ws:
        Runs(ws).start(check_relay({"relay": "x", **_agents(command)}), "T-1", by="eva")
        shared = SharedWorkspace(workspace_candidates("", {}, ws.root))
        refused = call_tool(shared, "note", asked, "coder")
        assert refused.is_error
        assert "architect gave no answer" in refused.text
        assert "Nothing was changed" not in refused.text
        assert "the request is in its conversation" in refused.text
        (project / "told").write_text("", "utf-8")
        (project / "said").write_text("APPROVED", "utf-8")
        assert call_tool(shared, "note", asked, "coder").text == "architect in R-1: APPROVED"
    assert (project / "told").read_text("utf-8").count("MY-CODE") == 1
    (project / "said").write_text("Hm.", "utf-8")
    failed = cli("review", "architect", "More", "--kind", "code", "--by", "coder", code=1)
    assert "the request is in its conversation" in failed.err


@pytest.mark.parametrize("which", ["run", "to_agent", "text", "by", "kind", "key"])
def test_a_request_of_wrong_types_is_refused(project: Path, which: str) -> None:
    given: dict[str, Any] = {
        "run": "R-1",
        "to_agent": "a",
        "text": "x",
        "by": "eva",
        "kind": "plan",
    }
    with passdown.open(str(project)) as ws:
        ws.create_task("T-1", title="Login", agent="eva")
        Runs(ws).start(check_relay({"relay": "x", **_agents(["false"])}), "T-1", by="eva")
        for wrong in (object(), 7, ["R-1"], {"R": 1}):
            asked: dict[str, Any] = {**given, "to_agent": "architect", which: wrong}
            with pytest.raises((InvalidInput, NotFound)):
                ws.relay.ask(**asked)


def test_a_relay_file_names_all_its_problems(project: Path, cli: Run) -> None:
    """A command as one text, unknown agents and legs, and a file that isn't there: at once."""
    cli("task", "new", "T-1", "--title", "Login", "--agent", "eva")
    text = """
relay: x
agents:
  a: {runner: {command: "python3 agent.py"}, sharing: pairs}
legs:
  - {leg: one, agent: nobody, peer: noone, then: [{when: {to: none}, go: nowhere}]}
"""
    (project / "bad.yaml").write_text(text, "utf-8")
    said = cli("run", "bad.yaml", "--task", "T-1", code=1).err
    for path in (
        "agents.a.runner.command: has to be a list",
        "agents.a.separate",
        "legs[0].agent: 'nobody' is not known",
        "legs[0].peer: 'noone' is not known",
        "legs[0].then[0].when.to: 'none' is not known",
        "legs[0].then[0].go: 'nowhere' is not known",
    ):
        assert path in said, path
    good = "relay: x\nagents: {a: {runner: {command: [cat]}, spec: no.md, templates: no}}\n"
    (project / "gone.yaml").write_text(good + "legs: [{leg: one, agent: a}]\n", "utf-8")
    said = cli("run", "gone.yaml", "--task", "T-1", code=1).err
    assert "agents.a.spec: 'no.md' was not found" in said
    assert "agents.a.templates: 'no' was not found" in said
    assert cli("runs").out.count("R-") == 0


@pytest.mark.promise("S4-28")
@pytest.mark.parametrize("way", ["run", "task"])
def test_the_knowledge_file_is_written_when_work_is_completed(
    project: Path, cli: Run, program: Run, way: str, as_json: Callable[..., Any]
) -> None:
    """Without anybody asking for it: at the end of a run, and of a task."""
    cli("task", "new", "T-1", "--title", "Login", "--agent", "eva")
    cli("knowledge", "add", "redis", "--type", "component", "--summary", "x", "--agent", "eva")
    file = project / "knowledge.dot"
    assert not file.exists()
    if way == "run":
        (project / "said.md").write_text(handoff(), "utf-8")
        relay = {"relay": "x", **_agents(["cat", "said.md"])}
        (project / "relay.yaml").write_text(json.dumps(relay), "utf-8")
        program("run", "relay.yaml", "--task", "T-1", "--by", "eva")
        assert as_json("task", "show", "T-1")["status"] != "cancelled"
    else:
        done = ("--outcome", "completed", "--phase", "completed", "--summary", "x")
        cli("handoff", "--task", "T-1", "--from", "eva", *done)
    assert '"redis"' in file.read_text("utf-8")

"""What agents of a relay are told and how they are seen: the command line runs real programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown.core.tokens import counter_of
from passdown.mcp.shared_workspace import SharedWorkspace, workspace_candidates
from passdown.mcp.tools import call_tool
from tests.interfaces.relay_stage import handoff, relay_file
from tests.processes import forked_python

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.interfaces.running import Run

AGENT = """
import json, os, re, subprocess, sys
prompt = sys.stdin.read()
me = os.environ["PASSDOWN_AGENT"]

def passdown(*words):
    done = subprocess.run(
        [sys.executable, "-m", "passdown", *words], capture_output=True, text=True
    )
    return done.stdout

states = {each["agent"]: each["state"] for each in json.loads(passdown("agents", "--json"))["data"]}
mark = re.findall(r"\\[([0-9]+) ROLE\\]", prompt)[0]
parts = re.split(rf"(?m)^\\[{mark} ([a-z]+)\\]\\n", prompt)[1:]
messages = list(zip(parts[::2], parts[1::2]))
with open("told.jsonl", "a") as log:
    entry = {"agent": me, "prompt": prompt, "messages": messages, "states": states}
    log.write(json.dumps(entry) + "\\n")
last = messages[-1][1]
if me == "coder":
    for words in ASKED if "Write it" in last and not os.path.exists("asked") else ():
        passdown(*words)
    open("asked", "w").close()
    print(HANDOFF)
elif "Answer this question" in last:
    print("A cookie.")
elif "budget is used up" in last:
    print("CONTINUE")
else:
    print("APPROVED")
"""
MEASURED = counter_of("o200k_base")


def told(project: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (project / "told.jsonl").read_text("utf-8").splitlines()]


def play(
    project: Path,
    cli: Run,
    program: Run,
    legs: list[dict[str, Any]],
    *asked: tuple[str, ...],
    task: str = "T-1",
    **coder: Any,
) -> list[dict[str, Any]]:
    """Run legs of a coder and an architect; gives what each of them was told, in order."""
    text = AGENT.replace("ASKED", repr(asked)).replace("HANDOFF", repr(handoff()))
    (project / "agent.py").write_text(text, "utf-8")
    runner = {"runner": {"command": [forked_python(), "agent.py"]}}
    agents = {"coder": {**runner, **coder}, "architect": runner}
    if task == "T-1":
        cli("task", "new", "T-1", "--title", "Login", "--agent", "eva")
    file = relay_file(project, legs, agents)
    done = program("run", file, "--task", task, "--by", "eva")
    assert done.code == 0, done
    return told(project)


CODE = {"leg": "code", "agent": "coder", "request": "Write it."}
KINDS = ("question", "plan_review", "code_review", "completion", "budget_review")


def asked_as_legs() -> list[dict[str, Any]]:
    """Work, then a leg of each other kind, each going on to the next."""
    asked = {"agent": "architect", "request": "Look at it."}
    following = zip(KINDS, [*KINDS[1:], "end"], strict=True)
    return [CODE, *({"leg": k, "kind": k, **asked, "then": [{"go": to}]} for k, to in following)]


@pytest.mark.promise("S4-26")
def test_every_prompt_of_a_relay_names_the_tool_for_knowledge(
    project: Path, cli: Run, program: Run
) -> None:
    """Work, every kind of request as a leg and in the middle of a turn, and a budget review."""
    calls = [("ask", "architect", "A cookie?")]
    calls += [("review", "architect", "Fine?", "--kind", kind) for kind in ("plan", "code")]
    calls += [("review", "architect", "Fine?", "--kind", k) for k in ("completion", "budget")]
    back = {"when": {"verdict": "approved"}, "go": "code", "at_most": 1, "otherwise": "end"}
    legs = asked_as_legs()
    legs[3]["then"] = [back | {"otherwise": "completion"}]
    limits: dict[str, Any] = {"limits": {"loops": 1}, "review_by": "architect"}
    found = play(project, cli, program, legs, *calls, **limits)
    reviewed = [each for each in found if "has had 1 turn:" in each["messages"][-1][1]]
    assert len(reviewed) == 1
    assert len(found) == 2 + len(calls) + len(KINDS) + 3 + len(reviewed)
    for each in found:
        assert each["prompt"].count("knowledge_add") == 1, each["prompt"]


@pytest.mark.promise("S4-37")
def test_a_turn_of_any_kind_adds_at_most_a_hundred_tokens(
    project: Path, cli: Run, program: Run
) -> None:
    """Beyond profile, specification, brief, request and the example of a handoff (at most 250)."""
    (project / "agents").mkdir()
    profile, spec = "I write code.\n" * 20, "It has to work.\n" * 20
    for name in ("coder", "architect"):
        (project / "agents" / f"{name}.md").write_text(profile, "utf-8")
    (project / "spec.md").write_text(spec, "utf-8")
    for each in play(project, cli, program, asked_as_legs(), spec="spec.md"):
        (_, system), *between, (_, last) = each["messages"]
        assert not [role for role, _ in between if role == "system"]
        example = last.partition("```yaml\n")[2].partition("```")[0]
        assert MEASURED.tokens(example) <= 250
        brief = last[last.index("# ") : last.index("## Request" if example else "Look at it.")]
        request = "Write it." if example else "Look at it."
        about = [profile, brief, example, request]
        about += [spec] if each["agent"] == "coder" else []
        added = MEASURED.tokens(system) + MEASURED.tokens(last)
        assert added - sum(map(MEASURED.tokens, about)) <= 100, each["prompt"]


@pytest.mark.promise("S4-20", "S4-39")
def test_an_agent_that_asks_is_seen_waiting_for_the_answer(
    project: Path, cli: Run, program: Run, as_json: Callable[..., Any]
) -> None:
    """As `passdown agents` shows it while it waits; afterwards it is where it was."""
    calls = [
        ("ask", "architect", "A cookie?"),
        ("review", "architect", "Fine?", "--kind", "plan"),
        ("review", "architect", "Fine?", "--kind", "code"),
        ("approve", "architect", "Done?", "--kind", "completion"),
        ("review", "architect", "More?", "--kind", "budget"),
    ]
    found = play(project, cli, program, [CODE], *calls)
    seen = [each["states"]["coder"] for each in found]
    assert seen == ["CODING", "QUESTION", "CODING", "CODE_REVIEW", "CODE_REVIEW", "BUDGET_REVIEW"]
    moves = [entry for entry in as_json("agents", "coder.R-1") if entry["kind"] != "released"]
    paths = [step for entry in moves[1:] for step in entry["path"]]
    assert paths == [
        *("SETUP", "PLANNING", "CODING", "QUESTION", "CODING", "CODE_REVIEW", "CODING"),
        *("CODE_REVIEW", "CODING", "BUDGET_REVIEW", "CODING", "DONE", "WAITING"),
    ]
    assert "refused" not in [entry["kind"] for entry in moves]


def test_in_planning_a_plan_review_is_seen(project: Path, cli: Run, program: Run) -> None:
    calls = [("review", "architect", "Fine?", "--kind", "plan"), ("ask", "architect", "Well?")]
    found = play(project, cli, program, [{**CODE, "phase": "planning"}], *calls)
    assert [each["states"]["coder"] for each in found] == ["PLANNING", "PLAN_REVIEW", "QUESTION"]


@pytest.mark.promise("S4-28")
def test_the_knowledge_file_is_written_when_a_specification_is_completed(
    project: Path, cli: Run, program: Run
) -> None:
    """Its completion is approved: in a request, or by a leg; task and run are still open."""
    add = ("knowledge", "add", "redis", "--type", "component", "--summary", "We chose it")
    cli("task", "new", "T-1", "--title", "Login", "--agent", "eva")
    cli("task", "new", "T-2", "--title", "Logout", "--agent", "eva")
    cli(*add, "--agent", "eva")
    file = project / "knowledge.dot"
    written = ("approve", "architect", "Every task is done", "--kind", "completion")
    check = {"leg": "code", "agent": "coder", "request": "Write it.", "gate": "Go on?"}
    (project / "agent.py").write_text(
        AGENT.replace("ASKED", repr([written])).replace("HANDOFF", repr(handoff())), "utf-8"
    )
    runner = {"runner": {"command": [forked_python(), "agent.py"]}}
    relay = relay_file(project, [check], {"coder": runner, "architect": runner})
    program("run", relay, "--task", "T-2", "--by", "eva", "--no-wait", code=1)
    assert '"redis"' in file.read_text("utf-8")
    file.unlink()
    cli(*(word.replace("redis", "kafka") for word in add), "--agent", "eva")
    (project / "asked").touch()
    legs = [{"leg": "done", "agent": "architect", "kind": "completion", "gate": "Go on?"}]
    relay = relay_file(project, legs, {"coder": runner, "architect": runner})
    program("run", relay, "--task", "T-1", "--by", "eva", "--no-wait", code=1)
    assert '"kafka"' in file.read_text("utf-8")


DONE = {
    "task": "T-1",
    "from_agent": "planner",
    "outcome": "completed",
    "phase": "completed",
    "summary": "The login is there",
    "patterns_discovered": [{"pattern": "One clock for all", "location": "src/clock.py:1-9"}],
    "gotchas": [{"issue": "Tokens are UTC", "mitigation": "no local time", "severity": "medium"}],
    "dependencies_for_next": [{"file": "src/auth.py", "reason": "exports verify"}],
}
PASSED_ON = (
    "One clock for all",
    "Tokens are UTC",
    "no local time",
    "src/auth.py",
    "exports verify",
)


@pytest.mark.promise("S3-27", "S3-28")
def test_a_task_that_depends_on_others_gets_what_they_found(
    project: Path, cli: Run, program: Run
) -> None:
    """Patterns, warnings, files to read: in the prompts of a relay and over MCP, in the budget."""
    cli("task", "new", "T-1", "--title", "Login", "--agent", "planner")
    cli("task", "new", "T-2", "--title", "Login page", "--needs", "T-1", "--agent", "planner")
    (project / "first.json").write_text(json.dumps(DONE), "utf-8")
    cli("handoff", "first.json")
    review = {"leg": "review", "agent": "architect", "kind": "code_review"}
    found = play(project, cli, program, [CODE, review], task="T-2")
    assert [each["agent"] for each in found] == ["coder", "architect"]
    for each in found:
        for words in PASSED_ON:
            assert words in each["prompt"], (words, each["prompt"])
    shared = SharedWorkspace(workspace_candidates("", {}, str(project)))
    result = call_tool(shared, "brief", {"task": "T-2", "agent": "coder", "budget": 600}, "coder")
    assert not result.is_error, result.text
    for words in PASSED_ON:
        assert words in result.text
    with passdown.open(str(project)) as ws:
        assert all(t["measured"]["brief_tokens"] <= 1_500 for t in ws.relay.run("R-1")["turns"])

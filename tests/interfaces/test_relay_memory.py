"""What agents of a relay remember and are told, when it is resumed, asked and read: the command
line runs real programs.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.interfaces.relay_stage import handoff, relay_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.interfaces.running import Run

AGENT = """
import json, os, re, sys
prompt = sys.stdin.read()
me = os.environ["PASSDOWN_AGENT"]
marker = re.findall(r"\\[([0-9]+) ROLE\\]", prompt)[0]
parts = re.split(rf"(?m)^\\[{marker} ([a-z]+)\\]\\n", prompt)[1:]
messages = list(zip(parts[::2], parts[1::2]))
last = messages[-1][1]
own = "".join(text for role, text in messages if role == "assistant")
before = open("told.jsonl").read().count(f'"{me}"') if os.path.exists("told.jsonl") else 0
with open("told.jsonl", "a") as log:
    log.write(json.dumps({"agent": me, "messages": messages}) + "\\n")
"""
"""`before` counts how often the agent was started before, `own` is what it sees of its words."""

CODE: dict[str, Any] = {"leg": "code", "agent": "coder", "request": "Write it."}
REVIEW: dict[str, Any] = {"leg": "review", "agent": "architect", "kind": "code_review"}


def staged(
    project: Path,
    cli: Run,
    *legs: dict[str, Any],
    architect: str,
    coder: str = "print(HANDOFF)",
    **options: Any,
) -> str:
    """A task, and a relay file whose agents are these programs."""
    cli("task", "new", "T-1", "--title", "Login", "--agent", "eva")
    bodies = {"architect": architect, "coder": coder}
    for name, body in bodies.items():
        text = f"{AGENT}HANDOFF = {handoff()!r}\n{body}\n"
        (project / f"{name}.py").write_text(text, "utf-8")
    agents = {
        name: {"runner": {"command": [sys.executable, f"{name}.py"]}, **options.get(name, {})}
        for name in bodies
    }
    return relay_file(project, list(legs), agents)


def told(project: Path, agent: str) -> list[list[tuple[str, str]]]:
    """The messages of each time that an agent was started."""
    lines = (project / "told.jsonl").read_text("utf-8").splitlines()
    calls = [json.loads(line) for line in lines]
    return [call["messages"] for call in calls if call["agent"] == agent]


def own_words(messages: list[tuple[str, str]]) -> list[str]:
    return [text.strip() for role, text in messages if role == "assistant"]


FIRM = "style = re.findall('TABS|SPACES', own) or [('TABS', 'SPACES')[before % 2]]"
"""An architect that keeps to what it said before, where it can see it."""


@pytest.mark.promise("S4-4", "S4-34")
@pytest.mark.parametrize("way", ["failed", "stopped"])
def test_a_resumed_run_keeps_the_memory_of_its_pairs(
    project: Path, cli: Run, program: Run, way: str
) -> None:
    """The agents go on with all that they said before it failed, or was stopped."""
    fails = "sys.exit(1)"
    if way == "stopped":
        stop = ("runs", "R-1", "--stop", "--by", "eva")
        words = [sys.executable, "-m", "passdown", *stop]
        fails = f"import subprocess; subprocess.run({words!r}, check=True); sys.exit(1)"
    file = staged(
        project,
        cli,
        CODE,
        REVIEW,
        architect=f"{FIRM}\nprint(('APPROVED' if 'CHANGES' in own else 'CHANGES'), style[0])",
        coder=f"if before == 1: {fails}\nprint(f'WORK-{{before}}\\n' + HANDOFF)",
    )
    ended = program("run", file, "--task", "T-1", "--by", "eva", code=1)
    assert way in ended.out, ended
    program("run", "--resume", "R-1")
    first, failed, resumed = told(project, "coder")
    assert own_words(first) == []
    for messages in (failed, resumed):
        assert [word.partition("\n")[0] for word in own_words(messages)] == ["WORK-0"]
    one, two = told(project, "architect")
    assert (own_words(one), own_words(two)) == ([], ["CHANGES TABS"])
    assert "CHANGES TABS" in resumed[-1][1]


@pytest.mark.promise("S4-4", "S4-34")
def test_an_agent_that_is_asked_after_its_run_remembers_it(
    project: Path, cli: Run, program: Run, as_json: Callable[..., Any]
) -> None:
    """In the memory of the pair and the run that are named; the agent isn't assigned again."""
    file = staged(project, cli, CODE, REVIEW, architect=f"{FIRM}\nprint('APPROVED', *style[:1])")
    program("run", file, "--task", "T-1", "--by", "eva")
    asked = program("ask", "architect", "Still firm?", "--run", "R-1", "--by", "coder")
    assert asked.out.strip() == "APPROVED TABS"
    program("ask", "architect", "And now?", "--run", "R-1", "--by", "coder")
    assert own_words(told(project, "architect")[-1]) == ["APPROVED TABS"] * 2
    assert [each["leased"] for each in as_json("agents")] == [False, False]

"""`passdown.tools`: tools for agents of a program's own, without any framework."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from typing import TYPE_CHECKING, Any, get_type_hints

import pytest

from passdown import tools
from passdown.core.tokens import vocabulary
from passdown.errors import InvalidInput
from passdown.tools.briefs import last_in_a_row
from tests.processes import run_python

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from passdown import Workspace

GOOD: dict[str, Any] = {
    "outcome": "completed",
    "summary": "The design is agreed.",
    "decisions": [{"summary": "JWT in a cookie", "rationale": "scripts cannot read it"}],
    "next_steps": ["Write the middleware"],
}
pytestmark = pytest.mark.promise("F-1")


def tokens(value: object) -> int:
    return vocabulary("o200k_base")(json.dumps(value, separators=(",", ":")))


def test_a_handoff_is_checked_recorded_and_read_in_the_next_brief(ws: Workspace) -> None:
    tool = tools.handoff(ws, "T-1", "planner", to="Research Agent")
    refused = tool.run({"outcome": "done"})
    assert refused.is_error
    assert refused.command is None
    assert "- outcome: 'done'" in refused.text
    assert "- summary: " in refused.text
    done = tool.run(json.dumps(GOOD))
    assert not done.is_error
    assert done.command is not None
    assert done.command.version == 2
    assert ws.task("T-1").holder == "Research-Agent"
    text = tools.brief(ws, "T-1", "Research Agent")()
    assert "JWT in a cookie" in text
    assert "Write the middleware" in text


def test_a_brief_names_a_tool_and_no_command(ws: Workspace) -> None:
    said = [{"role": "user", "content": "Build a login"}, {"role": "assistant", "content": "Yes"}]
    tools.handoff(ws, "T-1", "planner", to="coder", messages=lambda: said).run(GOOD)
    text = tools.opening_text(ws, "T-1", "coder")
    assert 'read_history("T-1")' in text
    assert 'read_history("1-2")' in text
    assert "passdown " not in text
    assert "ws." not in text
    reads = tools.read_history(ws, "T-1", "coder")
    assert '{"role":"assistant","content":"Yes"}' in reads(items="1-2")
    assert "Build a login" in reads()
    assert "JWT in a cookie" in reads(items="T-1")
    assert "scripts cannot read it" in reads(items="T-1#d1")
    unknown = reads.run({"items": "9"})
    assert "no such item" in unknown.text
    assert unknown.is_error


def test_definitions_are_short_and_have_three_forms(ws: Workspace) -> None:
    tool = tools.handoff(ws, "T-1", "planner", to="coder")
    assert tokens(tool.input_schema) <= 200
    assert tokens(tool.anthropic()) <= 200
    schema = tool.input_schema
    assert tool.openai()["function"]["parameters"] == schema
    assert tool.responses()["parameters"] == schema
    assert tool.anthropic()["input_schema"] == schema
    assert set(schema["properties"]) == {*GOOD, "blockers", "files", "questions", "resolves"}
    whole = tools.handoff(ws, "T-1", "planner", is_full=True).input_schema["properties"]
    assert "blocking_tasks" in whole["blockers"]["items"]["properties"]
    assert "preconditions" in tool.run({}).text, "a call without arguments lists every field"
    evidence = {**GOOD, "evidence": ["tests pass"], "resolves": []}
    assert tool.run(evidence).command is not None, "every field is accepted"
    assert ws.show("T-1#h1").to_dict()["evidence"] == ["tests pass"]


def test_a_plain_function_has_the_signature_of_its_tool(ws: Workspace) -> None:
    function = tools.handoff(ws, "T-1", "planner", to="coder", name="to_coder").function()
    parameters = inspect.signature(function).parameters
    assert function.__name__ == "to_coder"
    assert "coder" in (function.__doc__ or "")
    assert parameters["outcome"].default is inspect.Parameter.empty
    assert parameters["next_steps"].default is None
    assert get_type_hints(function)["next_steps"] == list[str] | None
    assert function(**GOOD) == "Handed off to coder."
    recall = tools.recall(ws, "T-1", "coder")
    assert "T-1#d1" in asyncio.run(recall.coroutine()(query="cookie"))
    assert "T-1#d1" in asyncio.run(recall.arun({"query": "cookie"})).text
    assert "Recorded" in tools.decide(ws, "T-1", "coder")(summary="Sign it", rationale="forgery")
    assert "Recorded" in tools.note(ws, "T-1", "coder")(kind="fact", text="port: 80")


def test_one_tool_serves_many_tasks_and_receivers(ws: Workspace) -> None:
    ws.create_task("T-2", title="Logout", agent="planner")
    now = ["T-1"]
    tool = tools.handoff(ws, lambda: now[0], "planner", to=["coder", "Tester"])
    assert tool.input_schema["properties"]["to"]["enum"] == ["coder", "Tester"]
    assert tool.run({**GOOD, "to": "coder"}).command is not None
    assert tool.run({**GOOD, "to": "Tester"}, task="T-2").command is not None
    assert [ws.task(each).holder for each in ("T-1", "T-2")] == ["coder", "Tester"]
    assert "to: " in tool.run({**GOOD, "to": "nobody"}).text


def test_a_gate_holds_the_receiver(ws: Workspace) -> None:
    gate = {"blocker": "Legal has to agree", "requires_human": True}
    done = tools.handoff(ws, "T-1", "planner", to="coder").run({**GOOD, "blockers": [gate]})
    assert done.command is not None
    assert done.command.held_by == ("T-1#k1",)
    assert "waits for a person" in done.text
    assert [each.address for each in tools.waiting_gates(ws, "T-1")] == ["T-1#k1"]
    ws.approve("T-1#k1", by="ana")
    assert tools.waiting_gates(ws, "T-1") == []


def test_the_short_schema_has_what_a_person_is_asked_with(ws: Workspace) -> None:
    """A model that has only this can ask for a person, and needs no id for what is blocked."""
    tool = tools.handoff(ws, "T-1", "planner", to="coder")
    entry = tool.input_schema["properties"]["blockers"]["items"]["properties"]
    assert entry["requires_human"] == {"type": "boolean"}
    blocker = {"blocker": "Legal has to agree", "requires_human": True}
    held = tool.run({**GOOD, "outcome": "blocked", "blockers": [blocker, "No key"]})
    assert held.command is not None, held.text
    assert held.command.held_by == ("T-1#k1",)
    assert ws.show("T-1#b2").to_dict()["blocking_tasks"] == ["T-1"]


def test_a_call_that_is_repeated_after_the_approval_waits_no_more(ws: Workspace) -> None:
    gate = {"blocker": "Legal has to agree", "requires_human": True}
    given = {**GOOD, "blockers": [gate]}
    tool = tools.handoff(ws, "T-1", "planner", to="coder")
    assert "waits for a person" in tool.run(given, key="call-1").text
    assert "waits for a person" in tool.run(given, key="call-1").text
    ws.approve("T-1#k1", by="ana")
    repeated = tool.run(given, key="call-1")
    assert repeated.text == "Handed off to coder."
    assert repeated.command is not None
    assert repeated.command.held_by == ()
    assert ws.task("T-1").counts["h"] == 1


@pytest.mark.parametrize("arguments", ["{", "[]", "null", '"x"', "5"])
def test_nonsense_is_answered(ws: Workspace, arguments: str) -> None:
    for make in (tools.handoff, tools.recall, tools.show, tools.decide, tools.read_history):
        answer = make(ws, "T-1", "planner").run(arguments)
        assert answer.text
    assert ws.task("T-1").version == 1


def test_what_is_no_workspace_or_agent_is_refused_when_the_tool_is_made(ws: Workspace) -> None:
    for make in (tools.handoff, tools.brief, tools.recall, tools.read_history, tools.show):
        with pytest.raises(InvalidInput, match="workspace"):
            make("here", "T-1", "planner")  # type: ignore[arg-type]
        with pytest.raises(InvalidInput):
            make(ws, "T-1", "")


def _chat(name: str, call: str) -> list[dict[str, Any]]:
    function = {"name": name, "arguments": "{}"}
    asked = {"id": call, "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": call, "content": "done"},
    ]


def _responses(name: str, call: str) -> list[dict[str, Any]]:
    return [
        {"type": "function_call", "name": name, "call_id": call, "arguments": "{}"},
        {"type": "function_call_output", "call_id": call, "output": "done"},
    ]


def _anthropic(name: str, call: str) -> list[dict[str, Any]]:
    return [
        {"role": "assistant", "content": [{"type": "tool_use", "id": call, "name": name}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": "x"}]},
    ]


@pytest.mark.parametrize("shape", [_chat, _responses, _anthropic])
def test_a_receiver_keeps_its_own_turns_in_pairs(
    shape: Callable[[str, str], list[dict[str, Any]]],
) -> None:
    asked = {"role": "user", "content": "Build a login"}
    own = shape("look", "c3")
    said = {"role": "assistant", "content": "Looking."}
    before = [asked, *shape("look", "c1"), *shape("transfer_to_coder", "c2")]
    found = tools.since_handoff([*before, said, *own], "the brief")
    assert found == [{"role": "user", "content": "the brief"}, asked, said, *own]
    # A call without its result, a result without its call: neither is given to a model.
    broken = [*before, own[0], said, shape("look", "c4")[1]]
    assert tools.since_handoff(broken, "the brief")[2:] == [said]
    follow_up = {"role": "user", "content": "And test it"}
    assert tools.since_handoff([*before, follow_up], "B")[1:] == [follow_up]
    assert tools.since_handoff([asked, *own], "B") == [asked, *own], "nothing was handed off"
    assert tools.since_handoff([asked, *own], "B", place=1)[1:] == [asked, *own]
    system = {"role": "system", "content": "You are coder."}
    assert tools.since_handoff([system, *before], "B")[0] == system


def test_the_page_shows_the_example_and_every_name(project_root: Path, tmp_path: Path) -> None:
    page = (project_root / "docs" / "without-a-framework.md").read_text("utf-8")
    example = project_root / "docs" / "examples" / "own_loop.py"
    assert f"```python\n{example.read_text('utf-8')}```" in page
    done = run_python(
        [sys.executable, str(example)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert f"```text\n{done.stdout}```" in page
    assert [name for name in tools.__all__ if f"`{name}" not in page] == []


def test_the_last_in_a_row_are_the_newest_that_are_wanted() -> None:
    assert last_in_a_row([1, 3, 2, 5, 7, 4], lambda each: each % 2 == 1) == [5, 7]

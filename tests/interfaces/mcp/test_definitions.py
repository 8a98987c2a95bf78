"""What the server lists: few tools, small, whole and the same for everybody."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

import passdown
from passdown.core.tokens import vocabulary
from passdown.mcp.definitions import TOOLS
from passdown.mcp.texts import INSTRUCTIONS
from tests.interfaces.mcp.talking import ERAS, client, talk

if TYPE_CHECKING:
    from mcp import Client

    from tests.interfaces.mcp.conftest import Ask

PUBLISHED = Path(__file__).with_name("published_tools.json")
MOST_TOKENS = 1_600
HINTS = {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
READING = ["brief", "recall", "show", "tasks"]
WRITING = ["gates", "handoff", "decide", "note", "task_new", "knowledge_add"]


def listed(folder: Path, era: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    async def do(one: Client) -> None:
        answer = await one.list_tools()
        found.extend(t.model_dump(by_alias=True, exclude_none=True) for t in answer.tools)
        assert answer.next_cursor is None

    talk(client(folder, era), do)
    return found


@pytest.mark.promise("M-2")
@pytest.mark.parametrize("era", ERAS)
def test_all_definitions_together_are_at_most_1_600_tokens(tmp_path: Path, era: str) -> None:
    """Counted over the JSON that `tools/list` gives, with and without spaces in it."""
    tools = listed(tmp_path, era)
    assert [tool["name"] for tool in tools] == READING + WRITING
    count = vocabulary("o200k_base")
    assert count(json.dumps({"tools": tools})) <= MOST_TOKENS
    assert count(json.dumps({"tools": tools}, separators=(",", ":"))) < MOST_TOKENS
    marked = {tool["name"] for tool in tools if tool.pop("execution", None)}
    assert marked == ({"gates", "note"} if era == "legacy" else set())
    assert tools == list(TOOLS)


def test_the_tools_are_the_published_ones() -> None:
    """Models are used to them: whoever changes one also writes the file again."""
    assert list(TOOLS) == json.loads(PUBLISHED.read_text("utf-8"))


@pytest.mark.promise("M-2")
def test_every_tool_has_all_four_hints_and_none_of_them_destroys() -> None:
    for tool in TOOLS:
        hints = tool["annotations"]
        assert set(hints) == HINTS
        assert hints["readOnlyHint"] is (tool["name"] in READING)
        assert (hints["destructiveHint"], hints["openWorldHint"]) == (False, False)


def test_schemas_are_valid_and_have_no_choice_at_the_root() -> None:
    for tool in TOOLS:
        schema = tool["inputSchema"]
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert not {"anyOf", "oneOf", "allOf", "not", "enum", "$ref"} & schema.keys()
        assert "anyOf" not in json.dumps(schema)
        assert set(schema.get("required", ())) <= schema["properties"].keys()


@pytest.mark.parametrize("name", WRITING[1:])
def test_writes_take_a_key_and_an_agent_though_few_list_them(
    project: Path, ask: Ask, name: str
) -> None:
    ask("task_new", task="T-1", title="Login")
    given: dict[str, dict[str, Any]] = {
        "handoff": {"task": "T-1", "outcome": "completed", "summary": "s"},
        "decide": {"task": "T-1", "summary": "s", "rationale": "r"},
        "note": {"task": "T-1", "kind": "gotcha", "text": "t", "mitigation": "m"},
        "task_new": {"title": "Logout"},
        "knowledge_add": {
            "task": "T-1",
            "knowledge": {"id": "x", "type": "component", "summary": "s"},
        },
    }
    ask(name, **given[name], agent="coder", key="k-1")
    with passdown.open(str(project)) as ws:
        assert ws.log(limit=1)[0].author == "coder"


def test_descriptions_say_when_and_the_instructions_name_every_way_in() -> None:
    """Hosts load the instructions first, and find tools by searching after that."""
    for tool in TOOLS:
        assert 60 <= len(tool["description"]) <= 400
    assert "Search for its tools" in INSTRUCTIONS
    assert len(INSTRUCTIONS) < 2_000
    for name in ("tasks", "brief", "recall", "decide", "note", "handoff", "show"):
        assert name in INSTRUCTIONS

"""The page on MCP says what the server lists, and its program prints what it says."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import passdown
from passdown.hosts.definitions import HOSTS
from passdown.mcp.definitions import BY_NAME
from passdown.mcp.resources import PROMPTS, TEMPLATES
from tests.interfaces.mcp.talking import environment
from tests.processes import forked_python

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "mcp.md").read_text("utf-8")
EXAMPLE = ROOT / "docs" / "examples" / "mcp_client.py"


def block(language: str) -> str:
    match = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert match is not None, language
    return match[1]


@pytest.mark.promise("M-1")
def test_the_program_prints_what_the_page_says(tmp_path: Path) -> None:
    assert block("python") == EXAMPLE.read_text("utf-8")
    with passdown.init(str(tmp_path)):
        pass
    done = subprocess.run(
        [forked_python(), str(EXAMPLE)],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "…", done.stdout) == block("text")


def test_every_tool_resource_and_prompt_is_on_the_page() -> None:
    listed = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| [a-z]", PAGE, re.MULTILINE)
    named = [name for row in listed for name in re.findall(r"`(\w+)`", row)]
    assert named == list(BY_NAME)
    for template in TEMPLATES:
        assert str(template["uriTemplate"]).partition("{")[0] in PAGE
    for prompt in PROMPTS:
        assert f"*{prompt['title']}*" in PAGE


def test_readme_says_how_many_tools_there_are() -> None:
    words = {9: "nine", 10: "ten", 11: "eleven"}
    assert f"{words[len(BY_NAME)]} tools" in (ROOT / "README.md").read_text("utf-8")


def test_the_settings_of_each_host_are_on_the_page_and_hold() -> None:
    """What people write by hand is what `init --host` writes."""
    rows = dict(re.findall(r"^\| ([A-Z]?[\w ]+?) \| .*? \| (.+) \|$", PAGE, re.MULTILINE))
    claude = json.loads(rows["Claude Code"].strip("`"))
    assert claude["mcpServers"]["passdown"] == {"command": "passdown", "args": ["mcp"]}
    opencode = json.loads(rows["opencode"].strip("`"))
    assert opencode["mcp"]["passdown"]["command"] == ["passdown", "mcp"]
    codex = tomllib.loads("\n".join(re.findall(r"`(.+?)`", rows["Codex"])))
    assert codex["mcp_servers"]["passdown"] == {"command": "passdown", "args": ["mcp"]}
    assert len(HOSTS) == 5

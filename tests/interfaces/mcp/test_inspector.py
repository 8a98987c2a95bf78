"""The protocol's own inspector, a client that isn't ours: its command line lists and calls every
tool of the real server.

It is a package of npm (see `tests/npm_packages.py`).
"""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import passdown
from passdown.mcp.definitions import BY_NAME
from tests.interfaces.mcp.talking import COMMAND, environment
from tests.npm_packages import Package, installed
from tests.processes import forked_python

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

PACKAGE = Package("@modelcontextprotocol/inspector", "2.12.0", "mcp-inspector")

PATIENCE = ("--connect-timeout", "180000")
"""In milliseconds: a machine with other work takes its time to start a server."""

pytestmark = pytest.mark.timeout(600)


class Inspector(NamedTuple):
    """How the inspector's command line is started."""

    node: str
    script: str

    def ask(self, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        server = (forked_python(), *COMMAND)
        return subprocess.run(
            [self.node, self.script, "--cli", "--cwd", str(folder), *PATIENCE, *server, *arguments],
            cwd=folder,
            env=environment({"HOME": str(folder)}),
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    def told(self, folder: Path, *arguments: str) -> Any:
        done = self.ask(folder, *arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="session")
def inspector(need_program: Callable[[str], str]) -> Inspector:
    return Inspector(*installed(PACKAGE, need_program))


CALLS: dict[str, tuple[dict[str, Any], str]] = {
    "brief": ({"task": "T-1", "agent": "tester"}, "# T-1 for tester, version"),
    "recall": ({"query": "JWT", "limit": 3}, "T-1#d1 (decision, planner,"),
    "show": ({"id": "T-1", "history": True}, "- v1 task created, planner"),
    "tasks": ({"status": "open", "holder": "planner"}, "- T-1 (open, planning, planner, v"),
    "gates": ({"all": True}, "No gates at all."),
    "handoff": (
        {
            "task": "T-2",
            "outcome": "partial",
            "to": "tester",
            "decisions": [{"summary": "HS256", "rationale": "one service"}],
            "next_steps": ["test it"],
            "blockers": [{"blocker": "no key"}],
        },
        "Recorded: T-2 version 2, partial to tester",
    ),
    "decide": ({"summary": "UTC", "rationale": "y", "tags": ["time"]}, "Recorded: workspace"),
    "note": ({"kind": "gotcha", "text": "x", "mitigation": "y", "task": "T-1"}, "Recorded: T-1 v"),
    "task_new": ({"task": "T-3", "title": "Logout", "depends_on": ["T-1"]}, "Recorded: T-3 vers"),
    "knowledge_add": (
        {"knowledge": {"id": "redis", "type": "component", "summary": "Keeps sessions"}},
        "redis (component) is recorded.",
    ),
}


def check_calls(project: Path, inspector: Inspector, names: Sequence[str]) -> None:
    """Two at a time: each call is a server and a client of its own."""
    assert CALLS.keys() == BY_NAME.keys()
    with passdown.open(str(project)) as ws:
        for task in ("T-1", "T-2"):
            ws.create_task(task, title="Login", agent="planner")
        ws.decide(task="T-1", agent="planner", summary="JWT", rationale="no session")

    def asked(name: str) -> str:
        pairs = [
            f"{key}={value if isinstance(value, str) else json.dumps(value)}"
            for key, value in CALLS[name][0].items()
        ]
        given = [part for pair in pairs for part in ("--tool-arg", pair)]
        answer = inspector.told(project, "--method", "tools/call", "--tool-name", name, *given)
        assert not answer.get("isError"), answer
        return answer["content"][0]["text"]

    with ThreadPoolExecutor(2) as pool:
        told = dict(zip(names, pool.map(asked, names), strict=True))
    for name in names:
        assert CALLS[name][1] in told[name], told[name]
    with passdown.open(str(project)) as ws:
        assert ws.state("T-2").decisions[0].summary == "HS256"
        assert ws.verify().ok


@pytest.mark.promise("M-7")
def test_the_inspector_calls_tools(project: Path, inspector: Inspector) -> None:
    """One that reads, one with every kind of argument; `make soak` calls all."""
    check_calls(project, inspector, ["brief", "handoff"])


@pytest.mark.soak
def test_the_inspector_calls_every_tool(project: Path, inspector: Inspector) -> None:
    check_calls(project, inspector, list(CALLS))


@pytest.mark.promise("M-7")
def test_the_inspector_lists_everything_and_finds_no_fault(
    filled: Path, inspector: Inspector
) -> None:
    """`--strict` looks for schemas that some hosts refuse."""
    done = inspector.ask(filled, "--strict", "--method", "tools/list")
    assert done.returncode == 0, done.stderr
    tools = json.loads(done.stdout)["tools"]
    assert [tool["name"] for tool in tools] == list(BY_NAME)
    listed = inspector.told(filled, "--method", "resources/list")["resources"]
    assert "passdown://brief/T-1/reviewer" in [resource["uri"] for resource in listed]
    chosen = ("--prompt-name", "resume", "--prompt-args", "task=T-1")
    resumed = inspector.told(filled, "--method", "prompts/get", *chosen)
    assert "# T-1 for" in resumed["messages"][0]["content"]["text"]
    missing = inspector.ask(filled, "--method", "tools/call", "--tool-name", "delete")
    assert missing.returncode != 0

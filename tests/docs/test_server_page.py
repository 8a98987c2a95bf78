"""The page on serving shows what happens."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import passdown
from passdown.core.access import RIGHTS
from passdown.operations import OPERATIONS
from passdown.web.server_state import Limits
from tests.interfaces.web.asking import ask
from tests.processes import forked_python
from tests.serving import EVERY_RIGHT, served

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
PAGE = (DOCS / "server.md").read_text("utf-8")


def shown(name: str) -> str:
    match = re.search(rf"<!-- docs/examples/{re.escape(name)} -->\n```\w+\n(.*?)```", PAGE, re.S)
    assert match is not None, name
    return match[1]


@pytest.mark.promise("W-3", "W-9")
def test_the_commands_of_the_page_run(tmp_path: Path, need_program: Callable[[str], str]) -> None:
    """From `init` to the answer that the task has moved on, on a port that is free."""
    need_program("curl")
    text = (DOCS / "examples" / "server.sh").read_text("utf-8")
    assert shown("server.sh") == text
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    result = subprocess.run(
        ["sh", "-e", "-c", text.replace("8799", str(port))],
        cwd=tmp_path,
        env={**environment, "PASSDOWN_AGENT": "kim"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert '"version":2' in result.stdout
    assert "JWT in a cookie | Why: scripts cannot read it" in result.stdout
    assert '"status":412' in result.stdout
    assert '"expected":1,"actual":2' in result.stdout
    assert "decided" in result.stdout


@pytest.mark.promise("W-7")
def test_the_client_of_the_page_runs(tmp_path: Path) -> None:
    example = DOCS / "examples" / "server_client.py"
    assert shown("server_client.py") == example.read_text("utf-8")
    with passdown.open(str(tmp_path)) as workspace, served(workspace) as server:
        token = server.token("coder", *EVERY_RIGHT, is_person=True)
        result = subprocess.run(
            [forked_python(), str(example), server.url],
            env={**os.environ, "PASSDOWN_TOKEN": token},
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
    assert result.returncode == 0, result.stderr
    assert "Blue and green | Why: a way back" in result.stdout


@pytest.mark.promise("W-3")
def test_what_the_page_says_of_requests_holds(tmp_path: Path) -> None:
    """Its requests as they stand; who doesn't hold the task hands it on."""
    path = re.search(r"`GET (/api/items/\S+)`", PAGE)
    body = re.search(r"`POST (/api/handoffs)` with `(\{.*?\})`", PAGE)
    open_paths = re.search(r"(`/health`.*?) need no token", PAGE)
    assert path
    assert body
    assert open_paths
    with passdown.open(str(tmp_path)) as workspace, served(workspace) as server:
        workspace.create_task("T-1", title="Login", agent="planner")
        workspace.decide(task="T-1", agent="planner", summary="JWT", rationale="scripts")
        token = server.token("stranger", "read", "write")
        assert ask(server.port, "GET", path[1], token=token).document["address"] == "T-1#d1"
        reply = ask(server.port, "POST", body[1], token=token, body=json.loads(body[2]))
        assert reply.status == 201, reply
        assert workspace.state("T-1").source_agent == "stranger"
        for each in re.findall(r"`(\S+)`", open_paths[1]):
            assert ask(server.port, "GET", each).status == 200


def section(name: str) -> str:
    return PAGE.partition(f"## {name}\n")[2].partition("\n## ")[0]


@pytest.mark.promise("W-10")
def test_the_page_names_what_a_server_does_not_offer() -> None:
    """Every method that is refused, with what to do instead."""
    table = section("Python").partition("| not through a server |")[2]
    assert refused_methods() <= set(re.findall(r"`([\w.]+)`", table))


def refused_methods() -> set[str]:
    return {operation.name for operation in OPERATIONS if operation.instead[0]}


def test_rights_and_limits_are_those_of_the_code() -> None:
    assert tuple(re.findall(r"^\| `(\w+)` \|", section("Who may do what"), re.M)) == RIGHTS
    limits = Limits()
    assert (limits.body_bytes, limits.rate, limits.burst) == (2**20, 100, 200)
    for value in (limits.body_seconds, limits.rate, limits.streams_of_token, limits.streams):
        assert re.search(rf"\b{int(value)}\b", PAGE), value

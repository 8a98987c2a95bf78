"""A task file is a document: the same one is recorded once, through whichever interface it comes,
whatever was recorded since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown.cli.main import main
from passdown.mcp.shared_workspace import SharedWorkspace, workspace_candidates
from passdown.mcp.tools import call_tool
from tests.interfaces.web.asking import ask
from tests.interfaces.web.test_mcp_http import call

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown import Workspace
    from tests.serving import Served

    Record = Callable[[str], None]

FILE = """# Task T-1: Login

## Metadata
- **Agent:** coder
- **Next agent:** tester

## Handoff

```yaml
outcome: completed
summary: The form is done.
decisions:
  - {summary: JWT, rationale: no session}
```
"""


def by_python(server: Served, ws: Workspace) -> Record:
    def record(text: str) -> None:
        ws.hand_off(text)

    return record


def by_remote(server: Served, ws: Workspace) -> Record:
    def record(text: str) -> None:
        token = server.token("coder", "read", "write")
        with passdown.open(server.url, token=token) as remote:
            remote.hand_off(text)

    return record


def by_http(server: Served, ws: Workspace) -> Record:
    def record(text: str) -> None:
        token = server.token("coder", "read", "write")
        reply = ask(server.port, "POST", "/api/handoffs", token=token, body={"handoff": text})
        assert reply.status == 201, reply.body

    return record


def by_command_line(server: Served, ws: Workspace) -> Record:
    def record(text: str) -> None:
        path = f"{ws.root}/T-1.md"
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        assert main(["handoff", path, "--phase", "implementing", "--store", ws.store_url]) == 0

    return record


def by_mcp(server: Served, ws: Workspace) -> Record:
    def record(text: str) -> None:
        shared = SharedWorkspace(workspace_candidates("", {}, ws.root))
        answer = call_tool(shared, "handoff", {"handoff": text}, "coder")
        shared.close()
        assert not answer.is_error, answer.text

    return record


def by_mcp_over_http(server: Served, ws: Workspace) -> Record:
    def record(text: str) -> None:
        token = server.token("coder", "read", "write")
        answer = call(server, token, "handoff", handoff=text)
        assert not answer["result"].get("isError"), answer

    return record


@pytest.mark.promise("S3-1")
@pytest.mark.parametrize(
    "way", [by_python, by_remote, by_http, by_command_line, by_mcp, by_mcp_over_http]
)
def test_a_task_file_is_recorded_once(server: Served, ws: Workspace, way: Any) -> None:
    record = way(server, ws)
    record(FILE)
    first = ws.state("T-1")
    assert (first.source_agent, first.target_agent) == ("coder", "tester")
    ws.hand_off({"task": "T-1", "outcome": "completed", "from_agent": "tester"})
    before = ws.state("T-1").version
    record(FILE)
    assert ws.state("T-1").version == before
    record(FILE.replace("is done", "is done again"))
    assert ws.state("T-1").version == before + 1

"""A door to the project's workspace, and calls through it without the protocol around them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import pytest

import passdown
from passdown.mcp.shared_workspace import SharedWorkspace, workspace_candidates
from passdown.mcp.tools import call_tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Ask(Protocol):
    """Calls a tool and gives what it said."""

    def __call__(self, name: str, /, **given: Any) -> str: ...


@pytest.fixture
def door(project: Path) -> Iterator[SharedWorkspace]:
    opened = SharedWorkspace(workspace_candidates("", {}, str(project)))
    yield opened
    opened.close()


@pytest.fixture
def ask(door: SharedWorkspace) -> Ask:
    """Calls a tool that has to do what it is asked."""

    def asked(name: str, /, **given: Any) -> str:
        answer = call_tool(door, name, given, "claude-code")
        assert not answer.is_error, answer.text
        return answer.text

    return asked


@pytest.fixture
def refused(door: SharedWorkspace) -> Ask:
    """Calls a tool that has to say what is wrong."""

    def asked(name: str, /, **given: Any) -> str:
        answer = call_tool(door, name, given, "claude-code")
        assert answer.is_error, answer.text
        return answer.text

    return asked


@pytest.fixture
def heads(project: Path) -> Callable[[], Any]:
    """The heads of all streams that belong to tasks: what only a write changes."""

    def now() -> Any:
        with passdown.open(str(project)) as ws:
            return [(t.task, t.version) for t in ws.tasks()], ws.log(limit=1)

    return now

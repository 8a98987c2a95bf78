"""Claude Agent SDK: what its adapter does beyond the story that every framework plays."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from claude_agent_sdk import ClaudeAgentOptions, HookMatcher
from claude_agent_sdk.testing import run_session_store_conformance

import passdown
from passdown.adapters.claude_agent_sdk import Handoffs, LedgerSessions
from tests.adapters.frameworks.story import DONE

if TYPE_CHECKING:
    from pathlib import Path

    from passdown import Workspace


@pytest.mark.promise("F-25")
def test_sessions_in_the_ledger_pass_the_conformance_suite_of_the_sdk(tmp_path: Path) -> None:
    folders = iter(range(100))
    opened: list[Workspace] = []

    def store() -> LedgerSessions:
        opened.append(passdown.init(str(tmp_path / str(next(folders)))))
        return LedgerSessions(opened[-1])

    try:
        asyncio.run(run_session_store_conformance(store))
    finally:
        for workspace in opened:
            workspace.close()


@pytest.mark.promise("F-25")
def test_a_session_is_read_by_another_process_and_an_entry_is_kept_once(ws: Workspace) -> None:
    """What a retried batch brings again isn't kept twice; an entry without an id always is."""
    key: Any = {"project_key": "p", "session_id": "s"}
    entries: Any = [{"type": "user", "uuid": "u1", "text": "Hello"}, {"type": "mode", "m": 1}]

    async def story() -> None:
        await LedgerSessions(ws).append(key, entries)
        await LedgerSessions(ws).append(key, entries)
        assert await LedgerSessions(ws).load(key) == [*entries, entries[1]]

    asyncio.run(story())


def test_what_the_options_had_stays_in_them(ws: Workspace) -> None:
    """Servers, hooks and rights are added to, in a copy."""

    async def hook(*_: Any) -> Any:
        return {}

    own = HookMatcher(hooks=[hook])
    given = ClaudeAgentOptions(
        allowed_tools=["Read"],
        mcp_servers={"own": {"type": "http", "url": "http://127.0.0.1"}},
        hooks={"PreToolUse": [own]},
    )
    made = Handoffs(ws, "T-1", "planner", to=["coder"], options=given).options
    assert made.allowed_tools == ["Read", "mcp__passdown"]
    assert isinstance(made.mcp_servers, dict)
    assert {*made.mcp_servers} == {"own", "passdown"}
    assert made.hooks is not None
    assert made.hooks["PreToolUse"][0] is own
    assert len(made.hooks["PreToolUse"]) == 2
    assert given.allowed_tools == ["Read"]
    assert given.hooks == {"PreToolUse": [own]}


def test_a_handoff_is_recorded_without_a_transcript_too(ws: Workspace, tmp_path: Path) -> None:
    """A host that keeps no file of its session loses no handoff."""
    planner = Handoffs(ws, "T-1", "planner", to=["coder"], transcript_wait=0)
    assert planner.options.hooks is not None
    record: Any = planner.options.hooks["PreToolUse"][0].hooks[0]
    given: Any = {"tool_name": "mcp__passdown__transfer_to_coder", "tool_input": DONE}
    given |= {"tool_use_id": "t1", "session_id": "s", "transcript_path": str(tmp_path / "none")}
    answer: Any = asyncio.run(record(given, "t1", {"signal": None}))
    assert answer["hookSpecificOutput"]["permissionDecision"] == "allow"
    assert ws.task("T-1").holder == "coder"

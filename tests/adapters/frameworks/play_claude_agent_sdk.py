"""The story on the Claude Agent SDK, with the Claude Code that it brings, and a scripted model."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server, tool

from passdown.adapters.claude_agent_sdk import Handoffs, LedgerSessions, run
from passdown.tools.history import STREAM, ItemLog
from passdown.workspace.streams import WorkspaceStreams
from tests.adapters.frameworks.story import REQUEST, Call, Models, Turn, look, main
from tests.interfaces.scripted_model import DONE, Model, Tool, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from passdown import Workspace


class Story(Model):
    """Answers as the agent whose system prompt a request has."""

    def __init__(self, models: Models) -> None:
        super().__init__()
        self._models = models
        self._turn: Turn = ""
        self.definitions: list[Any] = []

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, str, str]:
        system = json.dumps(body.get("system", ""))
        agent = next((name for name in self._models.seen if f"You are {name}." in system), "")
        if "/messages" not in path or "count_tokens" in path or not agent:
            return super().answer(path, body)
        self.definitions = body["tools"]
        given = [_text(part) for each in body["messages"] for part in _parts(each)]
        turn, _ = self._models.next(agent, given)
        self._turn = turn
        status, kind, text = super().answer(path, body)
        return (
            status,
            kind,
            text if isinstance(turn, Call) else text.replace(DONE, json.dumps(turn)[1:-1]),
        )

    def _next(self, body: dict[str, Any]) -> Any:
        if isinstance(self._turn, str):
            return None
        wanted = [each["name"] for each in body["tools"] if each["name"].endswith(self._turn.tool)]
        return Tool(wanted[0]), self._turn.arguments


def _parts(message: dict[str, Any]) -> list[Any]:
    content = message["content"]
    return [content] if isinstance(content, str) else content


def _text(part: Any) -> str:
    if isinstance(part, str):
        return part
    found: Any = part.get("text") or part.get("content") or part.get("input")
    return "\n".join(
        map(_text, cast("list[Any]", found) if isinstance(found, list) else [str(found)])
    )


def options_of(name: str, url: str, home: str, own: Any, **more: Any) -> ClaudeAgentOptions:
    """The options of an agent's sessions with a scripted model, and one tool of its own."""
    return ClaudeAgentOptions(
        tools=[],
        system_prompt=f"You are {name}.",
        mcp_servers={"own": create_sdk_mcp_server("own", tools=[own])},
        allowed_tools=["mcp__own__look"],
        setting_sources=[],
        cwd=home,
        env={
            "HOME": home,
            "CLAUDE_CONFIG_DIR": os.environ["CLAUDE_CONFIG_DIR"],
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "ENABLE_TOOL_SEARCH": "false",
            "HTTPS_PROXY": url,
            "IS_SANDBOX": "1",
            "NO_PROXY": "127.0.0.1,localhost",
        },
        **more,
    )


@contextmanager
def scripted(models: Models) -> Generator[tuple[Story, str, str]]:
    """A scripted model: its script, its address, and a folder for Claude Code."""
    # Claude Code still writes to its folder while it ends.
    folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    story = Story(models)
    with folder as home, serving(story) as model:
        os.environ["CLAUDE_CONFIG_DIR"] = f"{home}/.claude"  # the SDK mirrors what is under it
        yield story, model.url, home


def play(ws: Workspace, models: Models, approve: Callable[[], list[str]]) -> tuple[str, str]:
    @tool("look", "Look something up.", {"topic": str})
    async def look_up(given: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": look(given["topic"])}]}

    async def story(url: str, home: str) -> tuple[str, str]:
        sessions = LedgerSessions(ws)

        def agent(name: str, to: str) -> Handoffs:
            options = options_of(name, url, home, look_up, session_store=sessions)
            return Handoffs(ws, "T-1", name, to=[to], options=options)

        team = [agent("planner", "coder"), agent("coder", "planner")]
        result, _ = await run(team, REQUEST)
        if result.deferred_tool_use:
            approve()
            result, _ = await run(team)
        heads = WorkspaceStreams(ws).streams(f"{STREAM}claude_agent_sdk/")
        logs = [ItemLog(ws, head.stream.removeprefix(STREAM)) for head in heads]
        kept = [item.text for log in logs for item in log.all()]
        return result.result or "", "\n".join(kept)

    with scripted(models) as (_, url, home):
        return asyncio.run(story(url, home))


if __name__ == "__main__":
    main(play)

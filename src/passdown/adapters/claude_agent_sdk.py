"""Claude Agent SDK on a workspace: recorded handoffs between sessions, briefs, a session store.

Needs `pip install 'passdown[claude-agent-sdk]'`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from passdown.adapters.participant import Participant
from passdown.adapters.shared import requires_extra
from passdown.core.times import parse_time
from passdown.tools.briefs import recording_workspace, workspace_of
from passdown.tools.history import ItemLog, item_logs

with requires_extra("claude-agent-sdk", "the Claude Agent SDK is not installed"):
    from claude_agent_sdk import (
        ClaudeAgentOptions,
        HookMatcher,
        ResultMessage,
        SdkMcpTool,
        SessionStore,
        create_sdk_mcp_server,
        fold_session_summary,
        query,
    )

if TYPE_CHECKING:
    from collections.abc import Sequence

    from claude_agent_sdk import Message, SessionKey, SessionStoreEntry
    from claude_agent_sdk.types import (
        SessionListSubkeysKey,
        SessionStoreListEntry,
        SessionSummaryEntry,
    )

    from passdown.core.tokens import CounterLike
    from passdown.core.types import JsonObject
    from passdown.tools.briefs import AnyWorkspace

ORIGIN = "claude_agent_sdk"
_PREFIX = "mcp__passdown__"
_TRANSFERS = f"{_PREFIX}transfer_to_.*"
_PAUSE = 0.05


class Handoffs:
    """An agent whose sessions hand a task off to others, and begin with a brief.

    `options` are those of its sessions. Its model gets a tool for each name in `to`. A handoff with
    problems goes back to the model; a valid one is recorded and ends the session's turn. While a
    person has to approve, the call is deferred: the result has `deferred_tool_use`.
    """

    def __init__(
        self,
        workspace: AnyWorkspace,
        task: str,
        agent: str,
        *,
        to: Sequence[str] = (),
        options: ClaudeAgentOptions | None = None,
        budget: int = 500,
        counter: CounterLike = None,
        phase: str = "",
        transcript_wait: float = 3.0,
    ) -> None:
        """`transcript_wait`: seconds in which Claude Code may write a call to its transcript.

        Raises InvalidInput for names and numbers that can't be.
        """
        self.task, self.handed_to = task, ""
        self._wait = transcript_wait
        self._participant = Participant(ORIGIN, workspace, task, agent, to, budget, counter, phase)
        self.options = self._with_tools(options or ClaudeAgentOptions())

    @property
    def agent(self) -> str:
        """The id under which the agent is recorded."""
        return self._participant.id

    def holder(self) -> str:
        """The id of the agent that has the task now."""
        return workspace_of(self._participant.workspace).task(self.task).holder

    def _with_tools(self, options: ClaudeAgentOptions) -> ClaudeAgentOptions:
        history = self._participant.history()

        async def read(arguments: JsonObject) -> JsonObject:
            return _content((await history.arun(arguments, task=self.task)).text)

        async def answer(_: JsonObject) -> JsonObject:
            """The hook before it has recorded the handoff: only it knows the call."""
            return _content(f"Handed off to {self.handed_to}.")

        handlers = [
            *((tool, answer) for tool in self._participant.transfers.values()),
            (history, read),
        ]
        tools: list[SdkMcpTool[Any]] = [
            SdkMcpTool(tool.name, tool.description, tool.input_schema, handler)
            for tool, handler in handlers
        ]
        own = {
            "PreToolUse": [HookMatcher(matcher=_TRANSFERS, hooks=[self._record])],
            "PostToolUse": [HookMatcher(matcher=_TRANSFERS, hooks=[self._stop])],
        }
        given = cast("dict[Any, list[HookMatcher]]", options.hooks or {})
        hooks: Any = {**given, **{name: [*given.get(name, []), *own[name]] for name in own}}
        servers = options.mcp_servers if isinstance(options.mcp_servers, dict) else {}
        server = create_sdk_mcp_server("passdown", tools=tools)
        return replace(
            options,
            hooks=hooks,
            mcp_servers={**servers, "passdown": server},
            allowed_tools=[*options.allowed_tools, _PREFIX.rstrip("_")],
        )

    async def _record(self, given: Any, _: str | None, __: Any) -> Any:
        """The hook before a transfer: record it, refuse it, or defer it for a person."""
        result, gates = await self._participant.hand_off(
            given["tool_name"].removeprefix(_PREFIX),
            self.task,
            given["tool_input"],
            call=f"{given['session_id']} {given['tool_use_id']}",
            messages=await _transcript(given, self._wait),
        )
        if result.command is None:
            return _decision("deny", result.text)
        if gates:
            return _decision("defer", f"{', '.join(gates)} waits for a person.")
        self.handed_to = result.command.to_agent
        # The SDK checks a call by the tool's schema after this; a handoff may have other fields.
        needed = {"outcome": result.command.outcome, "summary": result.command.context_summary}
        return _decision("allow", "", updatedInput=needed)

    async def _stop(self, *_: Any) -> Any:
        """The hook after a transfer: the sender's turn ends."""
        return {"continue_": False, "stopReason": f"Handed off to {self.handed_to}."}

    async def opening(self, words: str = "") -> str:
        """What a session of this agent begins with: the brief, and a person's words if they fit, by
        default the last ones before the handoff.
        """
        said = [words] if words else await self._participant.last_words(self.task)
        brief, said = await self._participant.brief(self.task, said, str)
        return "\n".join([brief, *said])


def _content(text: str) -> JsonObject:
    return {"content": [{"type": "text", "text": text}]}


def _decision(decision: str, reason: str, **more: Any) -> JsonObject:
    output = {"hookEventName": "PreToolUse", "permissionDecision": decision, **more}
    return {"hookSpecificOutput": {**output, "permissionDecisionReason": reason}}


async def _transcript(given: Any, wait: float) -> list[JsonObject]:
    """The session's messages up to a call. Claude Code writes its file a moment after the call."""
    path, call = Path(given["transcript_path"]), given["tool_use_id"]
    text = _read(path)
    while call not in text and wait > 0:
        await asyncio.sleep(_PAUSE)
        wait -= _PAUSE
        text = _read(path)
    lines = [cast("JsonObject", json.loads(line)) for line in text.splitlines() if line.strip()]
    found = [line["message"] for line in lines if line.get("type") in ("user", "assistant")]
    return [{"role": each["role"], "content": each["content"]} for each in found]


def _read(path: Path) -> str:
    """The whole lines of a file that another process writes; empty where there is none."""
    text = path.read_text("utf-8") if path.exists() else ""
    return text[: text.rfind("\n") + 1]


async def run(team: Sequence[Handoffs], prompt: str = "") -> tuple[ResultMessage, list[Message]]:
    """Run sessions that hand off to each other, until one answers or a person has to approve: the
    last result, and every message of all sessions.

    The first agent begins with the prompt; without a prompt the agent that holds the task begins
    with its brief, as after an approval.
    """
    by_id = {each.agent: each for each in team}
    active, messages = team[0], list["Message"]()
    opening = prompt
    if not prompt:
        active = by_id[await asyncio.to_thread(active.holder)]
        opening = await active.opening()
    while True:
        active.handed_to = ""
        result = None
        async with aclosing(cast("Any", query(prompt=opening, options=active.options))) as stream:
            async for message in stream:
                messages.append(message)
                if isinstance(message, ResultMessage):
                    result = message
        if result is None:
            raise RuntimeError("the session ended without a result")
        if active.handed_to not in by_id:
            return result, messages
        active = by_id[active.handed_to]
        opening = await active.opening(prompt)


class LedgerSessions(SessionStore):
    """A `SessionStore` of the SDK over a workspace: transcripts of sessions and subagents, whole.

    An entry with a known `uuid` is kept once. Secrets of known shapes are redacted.
    """

    def __init__(self, workspace: AnyWorkspace) -> None:
        """Raises PassdownError behind a server whose token may not write for others."""
        self._workspace = recording_workspace(workspace, "LedgerSessions")

    def _log(self, key: Any) -> ItemLog:
        return ItemLog(self._workspace, _name(key))

    def _kept(self, prefix: str) -> dict[str, ItemLog]:
        """The logs that still have entries, by the end of their name."""
        logs = item_logs(self._workspace, prefix)
        kept = [log for log in logs if any(each.counts for each in log.all())]
        return {log.session_id.removeprefix(prefix): log for log in kept}

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Keep entries of a transcript, in order."""
        items = cast("list[JsonObject]", entries)
        keys = [str(item.get("uuid") or "") for item in items]
        await asyncio.to_thread(self._log(key).add, items, keys)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """A transcript's entries; None where there are none."""
        items = await asyncio.to_thread(self._log(key).items)
        return cast("list[SessionStoreEntry]", items) or None

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """The sessions of a project, with the time of their last entry."""

        def sessions() -> list[SessionStoreListEntry]:
            found = self._kept(_project(project_key)).items()
            return [
                {"session_id": name, "mtime": int(parse_time(log.changed_at()).timestamp() * 1000)}
                for name, log in found
                if "/" not in name
            ]

        return await asyncio.to_thread(sessions)

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """The SDK's summary of each session of a project."""
        found: list[SessionSummaryEntry] = []
        for each in await self.list_sessions(project_key):
            key: SessionKey = {"project_key": project_key, "session_id": each["session_id"]}
            summary = fold_session_summary(None, key, await self.load(key) or [])
            found.append({**summary, "mtime": each["mtime"]})
        return found

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The transcripts of a session's subagents."""
        return [*await asyncio.to_thread(self._kept, f"{_name(key)}/")]

    async def delete(self, key: SessionKey) -> None:
        """Take a session out of the view, with its subagents'; the records stay."""

        def delete() -> None:
            below = {} if key.get("subpath") else self._kept(f"{_name(key)}/")
            for log in (self._log(key), *below.values()):
                log.hide_all()

        await asyncio.to_thread(delete)


def _project(project_key: str) -> str:
    return f"{ORIGIN}/{hashlib.sha256(project_key.encode()).hexdigest()[:16]}/"


def _name(key: Any) -> str:
    sub = key.get("subpath")
    return _project(key["project_key"]) + key["session_id"] + (f"/{sub}" if sub else "")

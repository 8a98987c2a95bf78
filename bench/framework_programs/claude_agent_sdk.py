"""The job on the Claude Agent SDK: the next agent resumes the session, or begins with a brief."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from claude_agent_sdk import ResultMessage, query, tool

from bench.framework_job import GO_ON, REQUEST, Meter, Turn, look, main, message
from passdown.adapters.claude_agent_sdk import Handoffs, run
from tests.adapters.frameworks.play_claude_agent_sdk import options_of, scripted
from tests.adapters.frameworks.story import Call, Models

if TYPE_CHECKING:
    from collections.abc import Generator

    from passdown import Workspace


@tool("look", "Look something up.", {"number": int})
async def look_up(given: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": look(given["number"])}]}


class Metered(Models):
    """The models of the job in the form of the story."""

    def __init__(self, meter: Meter) -> None:
        super().__init__({"sender": [], "receiver": []})
        self._meter = meter
        self.script: Any = None

    def next(self, agent: str, given: list[str]) -> tuple[Call | str, str]:
        # A session that is resumed keeps the first agent's system prompt.
        active = "receiver" if GO_ON in given else agent
        turn, call = self._meter.turn(active, given, self.script.definitions)
        return Call(turn.tool, turn.arguments or {}) if turn.tool else turn.words, call


@contextmanager
def agents(meter: Meter) -> Generator[list[Any]]:
    """The options of both agents."""
    models = Metered(meter)
    with scripted(models) as (models.script, url, home):
        yield [options_of(name, url, home, look_up) for name in models.seen]


def plain(meter: Meter) -> None:
    async def job(sender: Any, receiver: Any) -> None:
        async for said in query(prompt=REQUEST, options=sender):
            if isinstance(said, ResultMessage):
                receiver = replace(receiver, resume=said.session_id)
        async for _ in query(prompt=GO_ON, options=receiver):
            pass

    with agents(meter) as (sender, receiver):
        asyncio.run(job(sender, receiver))


def with_passdown(meter: Meter, ws: Workspace) -> None:
    with agents(meter) as (sender, receiver):
        team = [
            Handoffs(ws, "T-1", "sender", to=["receiver"], options=sender),
            Handoffs(ws, "T-1", "receiver", options=receiver),
        ]
        asyncio.run(run(team, REQUEST))


if __name__ == "__main__":
    main(plain, with_passdown, own_transfer=Turn(message()))

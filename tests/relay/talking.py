"""What tests of conversations share: a table of leases, and an agent that answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import passdown
from passdown.core.settings import Settings
from passdown.relay.agents import Lease
from passdown.relay.conversations import Conversations
from passdown.relay.messages import Message
from passdown.workspace.streams import WorkspaceStreams

if TYPE_CHECKING:
    from pathlib import Path

    from passdown.workspace import Workspace

QUICK = Settings(durability="normal")


class Table:
    """Leases by agent; `put` gives the next one."""

    def __init__(self) -> None:
        self.leases: dict[str, Lease] = {}
        self.number = 0

    def current_lease(self, agent: str) -> Lease | None:
        return self.leases.get(agent)

    def put(self, agent: str, task: str) -> Lease:
        self.number += 1
        self.leases[agent] = Lease(agent, task, self.number)
        return self.leases[agent]


def opened(folder: Path, *tasks: str, clock: Any = None) -> Workspace:
    """A workspace with some tasks; its commits aren't synced, which no test of this needs."""
    ws = passdown.open(str(folder), settings=QUICK, clock=clock)
    for task in tasks:
        ws.create_task(
            task,
            title=f"Title of {task}",
            agent="planner",
            description=f"Description of {task}",
            criteria=[f"criterion of {task}"],
        )
    return ws


def held(ws: Workspace, leases: Table, agent: str = "architect", **given: Any) -> Conversations:
    return Conversations(ws, agent, leases=leases, counter="chars4", **given)


def asks(text: str) -> Message:
    return Message("user", text)


def says(text: str) -> Message:
    return Message("assistant", text)


def texts(messages: list[Message]) -> list[str]:
    """What was said, without the system message."""
    return [message.content for message in messages if message.role != "system"]


def resets(ws: Workspace, stream: str) -> list[dict[str, Any]]:
    """The bodies of the resets in a stream."""
    records = WorkspaceStreams(ws).records(stream)
    return [record.document() for record in records if record.kind == "reset"]

"""The story that the agents of every framework play: one script, and what it is checked by.

A player is a program for one framework. It is run in the framework's environment, which has no
pytest, and prints as JSON what the models were given. The first story is played through the server
whose address it is given, the second in a folder.
"""

from __future__ import annotations

import json
import sys
import tempfile
from typing import TYPE_CHECKING, Any, NamedTuple

import passdown

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown import Workspace

    Play = Callable[[Workspace, "Models", Callable[[], list[str]]], tuple[str, str]]

REQUEST = "Make the login survive a reload"
RESULT = "cookies: " + "0123456789" * 40
OWN_RESULT = "files: " + "abcdefghij" * 40
DONE: dict[str, Any] = {
    "outcome": "completed",
    "summary": "Design agreed; nothing is written yet.",
    "decisions": [{"summary": "JWT in a cookie", "rationale": "scripts can't read it"}],
    "next_steps": ["Write the middleware"],
}
BACK: dict[str, Any] = {
    "outcome": "completed",
    "summary": "The middleware is written.",
    "decisions": [],
    "next_steps": [{"step": "Release it", "priority": "high"}],  # more than the schema has
}
HELD: dict[str, Any] = {
    **DONE,
    "outcome": "partial",
    "blockers": [{"blocker": "The tax office has to agree", "requires_human": True}],
}


class Call(NamedTuple):
    """A tool call of a scripted model."""

    tool: str
    arguments: dict[str, Any]


Turn = Call | str
"""What a model does in one turn: call a tool, or say something."""

Script = dict[str, list[Turn]]

THERE_AND_BACK: Script = {
    "planner": [
        Call("look", {"topic": "cookies"}),
        Call("transfer_to_coder", {"outcome": "done"}),
        Call("transfer_to_coder", DONE),
        "All is done.",
    ],
    "coder": [
        Call("look", {"topic": "files"}),
        Call("read_history", {"items": "3"}),
        Call("transfer_to_planner", BACK),
    ],
}
WITH_A_GATE: Script = {
    "planner": [Call("transfer_to_coder", HELD)],
    "coder": ["It is released."],
}


def look(topic: str) -> str:
    """Look something up."""
    return RESULT if topic == "cookies" else OWN_RESULT


class Played(NamedTuple):
    """What was seen of a story.

    `seen` are the texts of each request to an agent's model, one list for each request.
    """

    seen: dict[str, list[list[str]]]
    answer: str
    waited_for: list[str]
    before_approval: int
    stored: str
    holder: str
    handoffs: int


class Models:
    """The scripted models of a story, and what each was given."""

    def __init__(self, script: Script) -> None:
        self.seen: dict[str, list[list[str]]] = {name: [] for name in script}
        self._turns = {name: list(turns) for name, turns in script.items()}
        self.count = 0

    def next(self, agent: str, given: list[str]) -> tuple[Turn, str]:
        """The agent's next turn and an id for its call."""
        self.seen[agent].append(given)
        self.count += 1
        if not self._turns[agent]:
            raise AssertionError(f"{agent} was called once too often: {given}")
        return self._turns[agent].pop(0), f"call_{self.count}"


def main(play: Play) -> None:
    """Play each story and print what was seen. `play` gives the last answer, and what the
    framework's own session has kept; it calls its third argument where it is paused.
    """
    with passdown.open(sys.argv[1]) as ws:
        first = played(play, THERE_AND_BACK, ws)
    with tempfile.TemporaryDirectory() as folder, passdown.init(folder) as ws:
        second = played(play, WITH_A_GATE, ws)
    json.dump([first._asdict(), second._asdict()], sys.stdout)


def played(play: Play, script: Script, ws: Workspace) -> Played:
    """Play a story in a workspace, with a task of its own unless there is one."""
    if not ws.tasks():
        ws.create_task("T-1", title="Login", agent="planner")
    models, waited_for, before = Models(script), list[str](), 0

    def approve() -> list[str]:
        nonlocal before
        before = len(models.seen["coder"])
        gates = [gate.address for gate in ws.gates("T-1") if gate.blocker]
        for gate in gates:
            ws.approve(gate, by="kim", reason="They agree")
        waited_for.extend(gates)
        return gates

    answer, stored = play(ws, models, approve)
    task = ws.task("T-1")
    handoffs = int(task.counts.get("h", 0))
    return Played(models.seen, answer, waited_for, before, stored, task.holder, handoffs)

"""Runs for tests: an agent is a function, the engine and the store are real."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

from passdown import Settings
from passdown.relay.agents import AgentStates
from passdown.relay.relay_file import check_relay
from passdown.relay.runners.scripted import CallableRunner
from passdown.relay.runs import Runs
from passdown.relay.turns import Turns
from passdown.relay.worker import run_here

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown import Workspace
    from passdown.relay.run import Run
    from passdown.relay.runners import AgentReply, AgentRequest

    Agent = Callable[[AgentRequest], str | AgentReply]

QUICK = Settings(durability="normal", embedder="none")
HALT_S = 110.0
MOST_CALLS = 40
UNFINISHED = {
    "suggested_next_steps": [{"step": "go on", "priority": "high"}],
    "blockers": [{"blocker": "no time", "impact": "half is missing"}],
}
"""What a handoff that isn't completed has to say."""
RECOMMENDED = (
    "suggested_next_steps",
    "patterns_discovered",
    "gotchas",
    "dependencies_for_next",
)
"""What an agent is asked for once where it doesn't say, not even that there is nothing."""


def person_needed(what: str) -> dict[str, Any]:
    """A blocker that waits for a person."""
    parts = {"blocker": what, "impact": "all", "blocking_tasks": ["T-1"]}
    return {**parts, "severity": "high", "requires_human": True}


def reply(outcome: str = "completed", summary: str = "Did it.", **more: Any) -> str:
    """An agent's words with a handoff below them."""
    rest: dict[str, Any] = {name: [] for name in RECOMMENDED}
    rest |= {} if outcome == "completed" else UNFINISHED
    block = json.dumps({"outcome": outcome, "summary": summary, **rest, **more})
    return f"Fine.\n\n## Handoff\n```yaml\n{block}\n```\n"


def completes(_: AgentRequest) -> str:
    return reply()


class Stage:
    """A workspace with one task, and everything that agents were asked in it."""

    def __init__(self, ws: Workspace) -> None:
        self.ws = ws
        self.runs = Runs(ws)
        self.states = AgentStates(ws)
        self.asked: list[AgentRequest] = []
        self._halt = threading.Event()

    def start(self, relay: dict[str, Any], *, task: str = "T-1", lane: str = "here") -> Run:
        return self.runs.start(check_relay(relay), task, by="eva", lane=lane)

    def run(self, relay: dict[str, Any], agent: Agent = completes, **options: Any) -> Run:
        """Start a relay and take all its turns until it is over or waits for a person."""
        return self.advance(self.start(relay).run, agent, **options)

    def advance(self, run: str, agent: Agent = completes, *, waits: bool = False) -> Run:
        self._halt = threading.Event()
        timer = threading.Timer(HALT_S, self._halt.set)
        timer.start()
        try:
            runners = self._runners(run, agent)
            found = run_here(self.ws, run, runners=runners, waits=waits, halt=self._halt)
        finally:
            timer.cancel()
            timer.join()
        assert found.ended_at or found.status == "waiting", "it never came to rest"
        return found

    def turns(self, run: str, agent: Agent = completes, **options: Any) -> Turns:
        """What takes turns, without an engine."""
        return Turns(self.ws, runners=self._runners(run, agent), **options)

    def take(self, run: str, agent: Agent = completes) -> dict[str, Any]:
        """Take the first open turn of a run, without an engine, and record how it ended."""
        found = self.runs.get(run)
        turn = found.open_legs[0]
        ended = self.turns(run, agent).take(found, turn)
        assert ended is not None
        self.runs.end(run, turn.number, ended)
        self.runs.advance(run)
        return ended

    def ended(self, run: str, **outcomes: str) -> Run:
        """Record how open legs ended, by name, and draw the consequences once."""
        for turn in self.runs.get(run).open_legs:
            if turn.leg in outcomes:
                self.runs.end(run, turn.number, {"outcome": outcomes[turn.leg]})
        return self.runs.advance(run)

    def _runners(self, run: str, agent: Agent) -> dict[str, CallableRunner]:
        return {
            name: CallableRunner(lambda asked: self._ask(agent, asked))
            for name in self.runs.get(run).relay.agents
        }

    def _ask(self, agent: Agent, asked: AgentRequest) -> str | AgentReply:
        self.asked.append(asked)
        if len(self.asked) > MOST_CALLS:
            self._halt.set()
        return agent(asked)

    def prompts(self, leg: str) -> list[str]:
        """The whole prompt of each time that a leg's agent was asked."""
        return [asked.prompt for asked in self.asked if asked.leg == leg]

    def calls(self) -> list[str]:
        """The legs whose agents were asked, in order."""
        return [asked.leg for asked in self.asked]

    def moves(self, seat: str) -> list[str]:
        """Every state that a seat has come to."""
        return [
            state
            for entry in self.states.log(seat)
            for state in (entry["path"] if entry["kind"] == "moved" else ())
        ]

    def gate(self) -> str:
        """The address of the one gate that waits."""
        (found,) = (gate for gate in self.ws.gates("T-1") if gate.status == "pending")
        return found.address

"""Relays and runs for tests: small files, and runs that are played without any engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.core.record import Record, canonical_bytes
from passdown.relay.relay_file import check_relay
from passdown.relay.run import GateState, Run, fold_run, next_transition, run_stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.relay.run import LegRun

SCRIPT = {"script": "script.yaml"}


def document(*legs: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A relay whose agents all run the same script."""
    agents = {leg["agent"]: {"runner": SCRIPT} for leg in legs}
    agents.update(more.pop("agents", {}))
    return {"relay": "trial", "agents": agents, "legs": list(legs), **more}


def leg(name: str, agent: str, *then: dict[str, Any], **more: Any) -> dict[str, Any]:
    """One leg, with its rules."""
    return {"leg": name, "agent": agent, "then": list(then), **more}


class Play:
    """A run that lives in a list of records; `ends` says how each turn ends."""

    def __init__(self, relay: dict[str, Any], ends: Callable[[LegRun], dict[str, Any]]) -> None:
        self.records: list[Record] = []
        self.gates: dict[str, GateState] = {}
        self._ends = ends
        self.add("started", {"relay": check_relay(relay).document, "task": "T-1", "lane": "normal"})

    def add(self, kind: str, body: dict[str, Any], author: str = "passdown") -> None:
        position = len(self.records) + 1
        at = f"2026-01-01T00:00:{position % 60:02}Z"
        data = canonical_bytes(body)
        stream = run_stream("R-1")
        self.records.append(Record(stream, position, at, author, kind, "", "", "", data))

    @property
    def run(self) -> Run:
        found = fold_run(self.records)
        assert found is not None
        return found

    def draw(self) -> Run:
        """Record every consequence."""
        while step := next_transition(self.run, self.gates):
            self.add(step.kind, step.body)
        return self.run

    def play(self, most: int = 200) -> Run:
        """Let turns end, oldest first, until nothing is open."""
        for _ in range(most):
            run = self.draw()
            if not run.open_legs:
                return run
            turn = run.open_legs[0]
            fields = {"outcome": "completed", "version": turn.number, **self._ends(turn)}
            self.add("leg_ended", {"number": turn.number, **fields})
        raise AssertionError("the run never came to rest")

    def path(self) -> list[str]:
        """The legs in the order in which they were started."""
        return [turn.leg for turn in self.run.legs.values()]

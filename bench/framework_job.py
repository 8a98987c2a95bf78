"""The job of `handoff_job` on one framework, in the framework's own environment.

A program in `framework_programs` runs it twice, as the framework does it and with Passdown, and
prints what was counted as JSON. Each model follows a script: the sender looks ten things up and
hands on; the receiver looks three up. With Passdown it also may fetch what the brief replaced.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import passdown
from bench.handoff_job import BUDGET, DECISIONS, REQUEST, RESULTS, STEPS, message, payload
from bench.handoff_job import result_text as look_up
from passdown.core.tokens import vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown import Workspace

OWN_STEPS = 3
ROUNDS = int(os.environ.get("PASSDOWN_BENCH_ROUNDS") or 3)
FACTS = (*map(look_up, range(RESULTS)), *(summary for summary, _ in DECISIONS), *STEPS)
GO_ON = "Go on with it."


def look(number: int) -> str:
    """Look something up."""
    return look_up(number)


class Turn(NamedTuple):
    """What a scripted model does: say something, call a tool, or both."""

    words: str = ""
    tool: str = ""
    arguments: dict[str, Any] | None = None


class Meter:
    """The scripted models of one run, and what each request to them had."""

    def __init__(self, last: Turn, *, fetches: bool = False, looks_again: bool = False) -> None:
        """`last` is the turn in which the sender hands on. The receiver fetches what the brief
        replaced, or looks everything up again.
        """
        looked = [Turn(tool="look", arguments={"number": n}) for n in range(RESULTS)]
        own = [Turn(tool="look", arguments={"number": 100 + n}) for n in range(OWN_STEPS)]
        own = [*(looked if looks_again else ()), *own, Turn("done")]
        self._turns = {"sender": [*looked, last], "receiver": own}
        self._fetches = fetches
        self.given: list[tuple[str, list[str], str]] = []

    def turn(self, agent: str, texts: list[str], schema: object) -> tuple[Turn, str]:
        """The agent's next turn, and an id for its call."""
        sent = json.dumps(schema, default=str, separators=(",", ":"))
        self.given.append((agent, texts, sent))
        call = f"call_{len(self.given)}"
        whole = re.search(r'read_history\("(1-\d+)"\)', "\n".join(texts))
        if agent == "receiver" and self._fetches and whole:
            self._fetches = False
            return Turn(tool="read_history", arguments={"items": whole[1]}), call
        return self._turns[agent].pop(0), call

    def figures(self) -> dict[str, float]:
        """Tokens of all requests with their schemas, of the receiver's first one, and its facts."""
        count = vocabulary("o200k_base")
        received = [texts for agent, texts, _ in self.given if agent == "receiver"]
        held = "\n".join(text for texts in received for text in texts).replace("\\\\", "")
        return {
            "requests": len(self.given),
            "whole_run": sum(count("\n".join(t)) + count(s) for _, t, s in self.given),
            "receiver": count("\n".join(received[0])),
            "facts": sum(fact in held for fact in FACTS),
        }


def main(
    plain: Callable[[Meter], None],
    with_passdown: Callable[[Meter, Workspace], None],
    *,
    own_transfer: Turn,
    transfer: str = "transfer_to_receiver",
) -> None:
    """Run the job both ways and print the figures."""
    given = {name: value for name, value in payload().items() if value != []}
    handed = Turn(tool=transfer, arguments=given)
    found = {
        "default": _best(lambda: Meter(own_transfer), _timed(plain)),
        "passdown": _best(lambda: Meter(handed), _opened(with_passdown)),
        "passdown, fetching all": _best(
            lambda: Meter(handed, fetches=True), _opened(with_passdown)
        ),
    }
    if found["default"]["facts"] < len(FACTS):
        again = _best(lambda: Meter(own_transfer, looks_again=True), _timed(plain))
        found["default, looking all up again"] = again
    lines = {"default": _lines(plain), "passdown": _lines(with_passdown)}
    json.dump({"runs": found, "lines": lines}, sys.stdout)


def _timed(run: Callable[..., None]) -> Callable[..., float]:
    def timed(*given: Any) -> float:
        began = time.perf_counter()
        run(*given)
        return time.perf_counter() - began

    return timed


def _opened(run: Callable[[Meter, Workspace], None]) -> Callable[[Meter], float]:
    def opened(meter: Meter) -> float:
        with tempfile.TemporaryDirectory() as folder, passdown.init(folder) as ws:
            ws.create_task("T-1", title=REQUEST, agent="sender")
            return _timed(run)(meter, ws)

    return opened


def _best(make: Callable[[], Meter], run: Callable[[Meter], float]) -> dict[str, float]:
    """The figures of one run, with the shortest time of a few; the first one loads modules."""
    meters = [make() for _ in range(ROUNDS)]
    times = [run(meter) for meter in meters]
    figures = meters[-1].figures()
    return {**figures, "ms_per_step": 1000 * min(times) / figures["requests"]}


def _lines(function: Callable[..., None]) -> int:
    """Lines of code of what a user writes."""
    lines = inspect.getsource(function).splitlines()
    return len([line for line in lines if line.strip() and not line.strip().startswith('"""')])


__all__ = ["BUDGET", "GO_ON", "REQUEST", "Meter", "Turn", "look", "main", "message"]

"""A run: one execution of a relay on a task, as the records of its stream tell it.

The stream is the truth: which legs were started, how each ended, what was asked and answered. From
it alone another process goes on where the last one was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.model.kinds import RUN_STREAM
from passdown.model.relay import relay_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from passdown.model.record import Record
    from passdown.model.relay import Relay

LEG, REVIEW = "leg", "budget_review"
HELD = "held"
RUNNING, WAITING = "running", "waiting"
ENDINGS = ("completed", "failed", "abandoned", "stopped")
VERDICTS = ("continue", "pivot", "escalate", "abandon")


def run_stream(run: str) -> str:
    """The stream that holds a run's records."""
    return RUN_STREAM + run


class LegRun(NamedTuple):
    """One turn that was started: whose, the how-manieth, with which guidance, and how it ended.

    `causes` are the turns that led to it. `outcome` is empty until it has ended; `error` is the
    outcome of a turn that gave no valid handoff, and `why` says what happened instead. `held` is
    one whose handoff, in `kept`, couldn't be recorded because a person has to answer `gates` first;
    the turn that records it then says so in `kept_from`.
    """

    number: int
    leg: str
    agent: str
    kind: str
    visit: int
    guidance: str
    causes: tuple[int, ...]
    started_at: str
    worker: str = ""
    begun_at: str = ""
    ended_at: str = ""
    outcome: str = ""
    to: str = ""
    version: int = 0
    gates: tuple[str, ...] = ()
    summary: str = ""
    why: str = ""
    verdict: str = ""
    kept: dict[str, Any] = {}  # noqa: RUF012
    kept_from: int = 0
    measured: dict[str, Any] = {}  # noqa: RUF012
    evidence: tuple[dict[str, Any], ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether it hasn't ended yet."""
        return not self.outcome

    @property
    def gate(self) -> str:
        """The first gate that a person has to answer before anything follows; empty for none."""
        return self.gates[0] if self.gates else ""

    @property
    def is_by_person(self) -> bool:
        """Whether it is the verdict of a person, which no worker has begun."""
        return self.kind == REVIEW and bool(self.worker) and not self.begun_at

    @property
    def counts(self) -> bool:
        """Whether it was a turn of its agent, and not one that only waited."""
        return self.kind == LEG and self.outcome != HELD and not self.kept_from


class Ask(NamedTuple):
    """A question to a person: a budget review of a leg that an agent has used up its loops for."""

    leg: str
    agent: str
    why: str
    causes: tuple[int, ...]

    def document(self) -> dict[str, Any]:
        """The question as plain JSON."""
        return {**self._asdict(), "causes": list(self.causes)}


class Run(NamedTuple):
    """Where a run stands.

    `followed` are the turns whose consequences were drawn already, `arrived` those that wait for
    others at a leg that joins them; `taken` counts rules, `granted` loops that were added.
    `stopped_by` are the turns that ended it. `mark` tells it from runs of the same name elsewhere.
    """

    run: str
    relay: Relay
    task: str
    by: str
    lane: str
    started_at: str
    position: int
    legs: dict[int, LegRun]
    followed: frozenset[int]
    arrived: dict[str, tuple[int, ...]]
    taken: dict[str, int]
    granted: dict[str, int]
    asked: tuple[Ask, ...]
    status: str
    why: str
    ended_at: str
    stopped_by: tuple[int, ...]
    mark: str

    @property
    def open_legs(self) -> list[LegRun]:
        """The turns that were started and haven't ended."""
        return [leg for leg in self.legs.values() if leg.is_open]

    def visits(self, leg: str) -> int:
        """How often a leg was started."""
        return sum(1 for each in self.legs.values() if each.leg == leg and each.counts)

    def loops_of(self, agent: str) -> int:
        """How many turns an agent has had."""
        return sum(1 for each in self.legs.values() if each.agent == agent and each.counts)

    def loops_allowed(self, agent: str) -> int:
        """How many turns an agent may have before somebody looks at it."""
        return self.relay.agents[agent].limits.loops * (1 + self.granted.get(agent, 0))


def run_of(records: Iterable[Record]) -> Run | None:
    """The run that some records tell; None where there are none."""
    run: Run | None = None
    for record in records:
        run = _after(run, record, record.document())
    return run


def _after(run: Run | None, record: Record, body: dict[str, Any]) -> Run:
    if run is None:
        return _started(record, body)
    return _STEPS[record.kind](run, record, body)._replace(position=record.position)


def _started(record: Record, body: dict[str, Any]) -> Run:
    return Run(
        run=record.stream.removeprefix(RUN_STREAM),
        relay=relay_of(body["relay"]),
        task=body["task"],
        by=record.author,
        lane=body["lane"],
        started_at=record.at,
        position=record.position,
        legs={},
        followed=frozenset(),
        arrived={},
        taken={},
        granted={},
        asked=(),
        status=RUNNING,
        why="",
        ended_at="",
        stopped_by=(),
        mark=record.digest.rpartition(":")[2][:12],
    )


def _legs(run: Run, record: Record, body: dict[str, Any]) -> Run:
    legs = dict(run.legs)
    for given in body["legs"]:
        legs[given["number"]] = LegRun(
            number=given["number"],
            leg=given["leg"],
            agent=given["agent"],
            kind=given["kind"],
            visit=given["visit"],
            guidance=given["guidance"],
            causes=tuple(given["causes"]),
            started_at=record.at,
            kept_from=given.get("kept_from", 0),
        )
    taken, granted = dict(run.taken), dict(run.granted)
    for rule in body["taken"]:
        taken[rule] = taken.get(rule, 0) + 1
    for agent in body["granted"]:
        granted[agent] = granted.get(agent, 0) + 1
    return run._replace(
        legs=legs,
        followed=run.followed | frozenset(body["followed"]),
        arrived={leg: tuple(numbers) for leg, numbers in body["arrived"].items()},
        taken=taken,
        granted=granted,
        asked=tuple(_ask(given) for given in body["asked"]),
        status=RUNNING,
        why="",
        ended_at="",
        stopped_by=(),
    )


def _ask(given: dict[str, Any]) -> Ask:
    return Ask(given["leg"], given["agent"], given["why"], tuple(given["causes"]))


def _begun(run: Run, record: Record, body: dict[str, Any]) -> Run:
    return _with_leg(run, body["number"], worker=body["worker"], begun_at=record.at)


def _ended_leg(run: Run, record: Record, body: dict[str, Any]) -> Run:
    fields = {name: value for name, value in body.items() if name != "number"}
    fields["evidence"] = tuple(fields.get("evidence", ()))
    fields["gates"] = tuple(fields.get("gates", ()))
    return _with_leg(run, body["number"], ended_at=record.at, **fields)


def _with_leg(run: Run, number: int, **fields: Any) -> Run:
    return run._replace(legs={**run.legs, number: run.legs[number]._replace(**fields)})


def _waiting(run: Run, record: Record, body: dict[str, Any]) -> Run:
    return run._replace(status=WAITING, why=body["why"])


def _answered(run: Run, record: Record, body: dict[str, Any]) -> Run:
    """An answer ends the review that was asked for first, as if an agent had given it."""
    if not run.asked:
        return run
    ask = run.asked[0]
    number = len(run.legs) + 1
    leg = LegRun(
        number=number,
        leg=ask.leg,
        agent=ask.agent,
        kind=REVIEW,
        visit=1,
        guidance="",
        causes=ask.causes,
        started_at=record.at,
        ended_at=record.at,
        outcome="completed",
        verdict=body["verdict"],
        summary=body["guidance"],
        worker=record.author,
    )
    legs = {**run.legs, number: leg}
    return run._replace(legs=legs, asked=run.asked[1:], status=RUNNING, why="")


def _ended(run: Run, record: Record, body: dict[str, Any]) -> Run:
    return run._replace(
        status=body["status"],
        why=body["why"],
        ended_at=record.at,
        followed=run.followed | frozenset(body["followed"]),
        stopped_by=tuple(body["stopped_by"]),
    )


_STEPS = {
    "legs": _legs,
    "begun": _begun,
    "leg_ended": _ended_leg,
    "waiting": _waiting,
    "answered": _answered,
    "ended": _ended,
}

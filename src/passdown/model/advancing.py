"""What comes next in a run: pure, so that every process that looks draws the same consequence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.model.relay import AGAIN, END, ERROR, PERSON, STOP, WAIT
from passdown.model.run import HELD, LEG, REVIEW, WAITING, Ask

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from passdown.model.relay import Leg, Rule
    from passdown.model.run import LegRun, Run

PENDING, APPROVED, REJECTED = "pending", "approved", "rejected"
USED_UP = "its loops are used up"


class Gate(NamedTuple):
    """How a gate stands, and what the person said."""

    status: str
    reason: str = ""


class Step(NamedTuple):
    """One record of consequences: `kind` is `legs`, `waiting` or `ended`."""

    kind: str
    body: dict[str, Any]


def next_step(run: Run, gates: Mapping[str, Gate]) -> Step | None:
    """The next record of a run; None when there is nothing to do but wait for what is open.

    `gates` says how the gates stand that the run's handoffs opened.
    """
    if run.ended_at:
        return None
    drawn = _Consequences(run)
    if not run.legs:
        drawn.start(run.relay.first(), "", ())
        return drawn.step()
    waits = ""
    for turn in run.legs.values():
        if turn.is_open or turn.number in run.followed:
            continue
        gate = _answer(turn, gates)
        if gate.status == PENDING:
            waits = waits or f"gate {gate.reason} is waiting for a person"
            continue
        drawn.follow(turn, gate)
        if drawn.ending:
            return _stopped(turn, *drawn.ending)
    return drawn.step() if drawn.goes_on else _resting(run, drawn, waits or drawn.waits)


def receiver(run: Run, turn: LegRun, outcome: str, to: str = "") -> str:
    """The agent that comes after a turn that ends so, once its gate is approved; of several, the
    first. Empty where nobody does, or the same agent once more.
    """
    leg = run.relay.legs[turn.leg]
    gate = APPROVED if leg.gate and outcome == "completed" else ""
    name, rule = _fitting(leg, outcome, to, gate)
    is_used_up = bool(rule.at_most) and run.taken.get(name, 0) >= rule.at_most
    targets = rule.otherwise if is_used_up else rule.go
    agents = [run.relay.legs[target].agent for target in targets if target in run.relay.legs]
    return agents[0] if agents and agents[0] != turn.agent else ""


def _fitting(leg: Leg, outcome: str, to: str, gate: str) -> tuple[str, Rule]:
    """The first rule for a leg that ended so, and the name under which its uses are counted."""
    return next(
        (f"{leg.name}/{place}", rule)
        for place, rule in enumerate(leg.rules)
        if rule.fits(outcome, to, gate)
    )


def _answer(turn: LegRun, gates: Mapping[str, Gate]) -> Gate:
    """How all gates of a turn stand together: pending while one is, rejected when one was."""
    found = {name: gates.get(name, Gate(PENDING)) for name in turn.gates}
    pending = [name for name, gate in found.items() if gate.status == PENDING]
    if pending:
        return Gate(PENDING, pending[0])
    rejected = [gate for gate in found.values() if gate.status == REJECTED]
    status = REJECTED if rejected else APPROVED
    reasons = [gate.reason for gate in rejected or found.values() if gate.reason]
    return Gate(status, "; ".join(reasons))


def _stopped(turn: LegRun, status: str, why: str) -> Step:
    """What else has ended meanwhile isn't followed: it is when the run is resumed."""
    numbers = [turn.number]
    body = {"status": status, "why": why, "followed": numbers, "stopped_by": numbers}
    return Step("ended", body)


def resumption(run: Run) -> Step | None:
    """What starts a run again that has stopped, or that waits because a turn was blocked.

    None where nothing stands still: what is open goes on by itself, and gates and reviews wait for
    their answers.
    """
    if run.status == "completed" or not (run.ended_at or _blocked(run)):
        return None
    drawn = _Consequences(run)
    for number in run.stopped_by if run.ended_at else _blocked(run):
        drawn.retry(run.legs[number])
    return drawn.step()


def _blocked(run: Run) -> Sequence[int]:
    """The ended turns that a waiting run waits for because of their outcome."""
    if run.status != WAITING or run.asked:
        return ()
    return [
        turn.number
        for turn in run.legs.values()
        if not turn.is_open and turn.number not in run.followed and not turn.gates
    ]


def _resting(run: Run, drawn: _Consequences, waits: str) -> Step | None:
    """What to record when nothing starts: that a person is waited for, or that all is done."""
    if drawn.followed and (run.open_legs or run.asked or waits):
        return drawn.step()
    if run.open_legs:
        return None
    if run.asked:
        ask = run.asked[0]
        waits = f"budget review of {ask.agent} in leg {ask.leg}: {ask.why}"
    if waits:
        is_known = (run.status, run.why) == (WAITING, waits)
        return None if is_known else Step("waiting", {"why": waits})
    missing = sorted(leg for leg, numbers in drawn.arrived.items() if numbers)
    if missing:
        return drawn.ended("failed", f"{', '.join(missing)} never got everything that it joins")
    return drawn.ended("completed", "")


class _Consequences:
    """What some ended turns lead to, gathered into one record."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._legs: list[dict[str, Any]] = []
        self._taken: list[str] = []
        self._granted: list[str] = []
        self._asked = list(run.asked)
        self.arrived = {leg: list(numbers) for leg, numbers in run.arrived.items()}
        self.followed: list[int] = []
        self.waits = ""
        self.ending: tuple[str, str] | None = None

    @property
    def goes_on(self) -> bool:
        """Whether something starts or somebody is asked."""
        return bool(self._legs) or len(self._asked) > len(self._run.asked)

    def step(self) -> Step:
        body = {
            "legs": self._legs,
            "followed": self.followed,
            "taken": self._taken,
            "granted": self._granted,
            "arrived": {leg: numbers for leg, numbers in self.arrived.items() if numbers},
            "asked": [ask.document() for ask in self._asked],
        }
        return Step("legs", body)

    def ended(self, status: str, why: str) -> Step:
        body = {"status": status, "why": why, "followed": self.followed, "stopped_by": []}
        return Step("ended", body)

    def follow(self, turn: LegRun, gate: Gate) -> None:
        if turn.kind == REVIEW:
            self._follow_review(turn)
            return
        leg = self._run.relay.legs[turn.leg]
        if turn.outcome == HELD:
            self._record_kept(turn)
            return
        name, rule = _fitting(leg, turn.outcome, turn.to, gate.status if turn.gates else "")
        used = self._run.taken.get(name, 0) + self._taken.count(name)
        is_used_up = bool(rule.at_most) and used >= rule.at_most
        self._taken.append(name)
        self.followed.append(turn.number)
        why = _why(turn, rule, gate, is_used_up=is_used_up)
        for target in rule.otherwise if is_used_up else rule.go:
            self._go(leg, target, turn, gate.reason, why)

    def _go(self, leg: Leg, target: str, turn: LegRun, guidance: str, why: str) -> None:
        if target == STOP:
            self.ending = ("failed", why)
        elif target == WAIT:
            self.followed.remove(turn.number)
            self._taken.pop()
            self.waits = why
        elif target == AGAIN:
            self.start(leg, guidance, (turn.number,))
        elif target != END:
            self._arrive(self._run.relay.legs[target], turn, guidance)

    def _record_kept(self, turn: LegRun) -> None:
        """The way is free for a handoff that had to wait: its agent isn't asked again."""
        self.followed.append(turn.number)
        self._add(
            turn.leg,
            turn.agent,
            LEG,
            visit=turn.visit,
            guidance=turn.guidance,
            causes=turn.causes,
            kept_from=turn.number if turn.kept else 0,
        )

    def _arrive(self, leg: Leg, turn: LegRun, guidance: str) -> None:
        if turn.leg not in leg.joins:
            self.start(leg, guidance, (turn.number,))
            return
        arrived = self.arrived.setdefault(leg.name, [])
        arrived.append(turn.number)
        if {self._run.legs[number].leg for number in arrived} >= set(leg.joins):
            self.arrived[leg.name] = []
            self.start(leg, guidance, tuple(arrived))

    def start(self, leg: Leg, guidance: str, causes: tuple[int, ...]) -> None:
        """Start a leg, or ask for a review where its agent has used up its loops."""
        run = self._run
        now = sum(1 for g in self._legs if g["agent"] == leg.agent and _counts(g))
        extra = self._granted.count(leg.agent) * run.relay.agents[leg.agent].limits.loops
        if run.loops_of(leg.agent) + now >= run.loops_allowed(leg.agent) + extra:
            self._ask(leg, causes)
            return
        visit = (
            run.visits(leg.name)
            + 1
            + sum(1 for g in self._legs if g["leg"] == leg.name and _counts(g))
        )
        self._add(leg.name, leg.agent, LEG, visit=visit, guidance=guidance, causes=causes)

    def retry(self, turn: LegRun) -> None:
        """Start the leg of a turn once more, whatever it led to; of a verdict, ask its giver."""
        self.followed.append(turn.number)
        if turn.is_by_person:
            agent = self._run.relay.legs[turn.leg].agent
            self._asked.append(Ask(turn.leg, agent, turn.summary or USED_UP, turn.causes))
        elif turn.kind == REVIEW:
            self._add(turn.leg, turn.agent, REVIEW, visit=1, guidance="", causes=turn.causes)
        else:
            self.start(self._run.relay.legs[turn.leg], turn.guidance, turn.causes)

    def _ask(self, leg: Leg, causes: tuple[int, ...]) -> None:
        reviewer = self._run.relay.agents[leg.agent].review_by
        if reviewer == PERSON:
            self._asked.append(Ask(leg.name, leg.agent, USED_UP, causes))
        else:
            self._add(leg.name, reviewer, REVIEW, visit=1, guidance="", causes=causes)

    def _follow_review(self, turn: LegRun) -> None:
        self.followed.append(turn.number)
        leg = self._run.relay.legs[turn.leg]
        verdict = "escalate" if turn.outcome == ERROR else turn.verdict
        if verdict == "abandon":
            self.ending = ("abandoned", turn.summary or "the budget review says so")
        elif verdict == "escalate":
            why = turn.summary or turn.why
            self._asked.append(Ask(leg.name, leg.agent, why, turn.causes))
        else:
            goes = self._run.relay.planning() if verdict == "pivot" else leg
            self._granted += dict.fromkeys((leg.agent, goes.agent))
            self.start(goes, turn.summary, turn.causes)

    def _add(
        self,
        leg: str,
        agent: str,
        kind: str,
        *,
        visit: int,
        guidance: str,
        causes: tuple[int, ...],
        kept_from: int = 0,
    ) -> None:
        self._legs.append(
            {
                "number": len(self._run.legs) + len(self._legs) + 1,
                "leg": leg,
                "agent": agent,
                "kind": kind,
                "visit": visit,
                "guidance": guidance,
                "causes": list(causes),
                "kept_from": kept_from,
            }
        )


def _counts(given: dict[str, Any]) -> bool:
    return given["kind"] == LEG and not given["kept_from"]


def _why(turn: LegRun, rule: Rule, gate: Gate, *, is_used_up: bool) -> str:
    said = turn.why or turn.summary
    what = f"leg {turn.leg} ended {turn.outcome}" + (f": {said}" if said else "")
    if turn.gates and gate.status == REJECTED:
        what = f"leg {turn.leg} was rejected" + (f": {gate.reason}" if gate.reason else "")
    return f"{what} (at most {rule.at_most} times)" if is_used_up else what

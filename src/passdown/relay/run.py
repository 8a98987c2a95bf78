"""Runs: one execution of a relay on a task, folded from the records of its stream. Pure.

The rules of a leg are read from the top, and the first that matches says what follows.
`next_transition` gives the record that comes next, so every process decides the same.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.core.kinds import RUN_STREAM
from passdown.core.names import MAX_AGENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from passdown.core.record import Record

    Document = dict[str, Any]

END, STOP, AGAIN, WAIT, BACK = "end", "stop", "again", "wait", "back"
DIRECTIONS = (END, STOP, AGAIN, WAIT, BACK)
"""Targets of a rule besides legs: completed, failed, the same leg again, wait for a person, the leg
that led here."""

WORK = "work"
REVIEWS = ("plan_review", "code_review", "completion")
KINDS = (WORK, "question", *REVIEWS, "budget_review")
"""What a leg may ask for; each but `work` has a template of its name."""
APPROVALS = ("approved", "changes", "rejected")
VERDICTS = ("continue", "pivot", "escalate", "abandon")
PERSON = "person"
MAX_PARTIAL = 3
MAX_REJECTED = 3
DEFAULT_LOOPS = 8


class When(NamedTuple):
    """What a rule matches; an empty field matches anything."""

    outcome: tuple[str, ...] = ()
    to: str = ""
    gate: str = ""
    verdict: tuple[str, ...] = ()


class Rule(NamedTuple):
    """Where to go after a leg. After `at_most` uses (0: no limit), `otherwise` counts."""

    go: tuple[str, ...]
    when: When = When()
    at_most: int = 0
    otherwise: tuple[str, ...] = (STOP,)

    def fits(self, outcome: str, to: str, gate: str, verdict: str = "") -> bool:
        """Whether it matches a leg that ended so. A rejected gate needs a rule that names it."""
        when = self.when
        if (gate == "rejected") != (when.gate == "rejected"):
            return False
        is_outcome = not when.outcome or outcome in when.outcome
        is_verdict = not when.verdict or verdict in when.verdict
        return is_outcome and is_verdict and when.to in ("", to) and when.gate in ("", gate)


class Leg(NamedTuple):
    """One agent's turn.

    `gate` is a question that a person answers before anything follows. A leg with `joins` starts
    when all of those legs have led to it.
    """

    leg: str
    agent: str
    kind: str = WORK
    request: str = ""
    phase: str = ""
    gate: str = ""
    peer: str = ""
    fresh: bool = False
    joins: tuple[str, ...] = ()
    then: tuple[Rule, ...] = ()


class RunnerOptions(NamedTuple):
    """What runs an agent: one of command, script and python, with its options."""

    command: tuple[str, ...] = ()
    prompt: str = "stdin"
    env: Mapping[str, str] = {}
    pass_env: tuple[str, ...] | None = None
    max_output: int = 1_000_000
    timeout_s: float = 604_800.0
    script: str = ""
    python: str = ""


class AgentLimits(NamedTuple):
    """Limits of an agent: turns in one run, tokens in its context, seconds for a leg."""

    loops: int = DEFAULT_LOOPS
    context_tokens: int = 100_000
    seconds: float = 600.0


class RelayAgent(NamedTuple):
    """An agent of a relay: what it is told, what runs it, what it may use up.

    `review_by` decides when its loops are used up: an agent's name, or `person`.
    """

    runner: RunnerOptions
    profile: str = ""
    role: str = ""
    rules: tuple[str, ...] = ()
    spec: str = ""
    templates: str = ""
    memory: str = "task"
    sharing: str = "off"
    separate: tuple[str, ...] = ()
    max_age_hours: float | None = None
    needs: Mapping[str, list[str]] = {}
    limits: AgentLimits = AgentLimits()
    review_by: str = PERSON


class RelayFields(NamedTuple):
    """A relay file."""

    relay: str
    agents: Mapping[str, RelayAgent]
    legs: tuple[Leg, ...]
    description: str = ""
    budget: int = 1_500
    parallel: int = 4


class Relay(NamedTuple):
    """A relay; `document` is the content of its file with every default, as it is recorded."""

    name: str
    description: str
    budget: int
    agents: dict[str, RelayAgent]
    legs: dict[str, Leg]
    parallel: int
    document: Document

    def first(self) -> Leg:
        """The leg that a run starts with."""
        return next(iter(self.legs.values()))

    def planning(self) -> Leg:
        """Where a change of direction starts: the first planning leg, or else the first leg."""
        return next((leg for leg in self.legs.values() if leg.phase == "planning"), self.first())

    def rules(self, leg: Leg) -> tuple[Rule, ...]:
        """The rules of a leg, those of the file first; the last one matches everything."""
        names = [*self.legs, END]
        following = names[names.index(leg.leg) + 1]
        return (*leg.then, *_kind_rules(self, leg.kind, following), *_default_rules(following))


_PARTS: dict[Any, dict[str, Any]] = {
    Rule: {"when": When},
    Leg: {"then": Rule},
    RelayAgent: {"runner": RunnerOptions, "limits": AgentLimits},
}
"""The fields of a value that hold other values."""


def _value(kind: Any, given: Document) -> Any:
    """The value of plain data; fields that it was written without have their defaults."""
    fields: Document = {}
    for name in kind._fields:
        if name in given:
            part, found = _PARTS.get(kind, {}).get(name), given[name]
            if isinstance(found, list):
                parts = cast("list[Any]", found)
                fields[name] = tuple(_value(part, each) if part else each for each in parts)
            else:
                fields[name] = _value(part, found) if part else found
    return kind(**fields)


def relay_of(document: Document) -> Relay:
    """The relay of a checked document."""
    agents = {name: _value(RelayAgent, given) for name, given in document["agents"].items()}
    legs = {given["leg"]: _value(Leg, given) for given in document["legs"]}
    defaults = RelayFields._field_defaults
    description, budget, parallel = (
        document.get(name, defaults[name]) for name in ("description", "budget", "parallel")
    )
    return Relay(document["relay"], description, budget, agents, legs, parallel, document)


def _rule(go: str, at_most: int = 0, otherwise: str = STOP, **when: Any) -> Rule:
    return Rule(when=When(**when), go=(go,), at_most=at_most, otherwise=(otherwise,))


def _kind_rules(relay: Relay, kind: str, following: str) -> tuple[Rule, ...]:
    if kind == "question":
        return (_rule(BACK, outcome=("completed",)),)
    if kind == "budget_review":
        pivot = relay.planning().leg
        targets = zip(VERDICTS, (following, pivot, WAIT, STOP), strict=True)
        return tuple(_rule(target, verdict=(verdict,)) for verdict, target in targets)
    if kind in REVIEWS:
        changes = _rule(BACK, MAX_REJECTED, verdict=("changes",))
        return (changes, _rule(STOP, verdict=("rejected",)))
    return ()


def _default_rules(following: str) -> tuple[Rule, ...]:
    return (
        _rule(AGAIN, MAX_REJECTED, gate="rejected"),
        _rule(following, outcome=("completed",)),
        _rule(AGAIN, MAX_PARTIAL, outcome=("partial",)),
        _rule(AGAIN, MAX_PARTIAL, outcome=("blocked",), gate="approved"),
        _rule(WAIT, outcome=("blocked",)),
        _rule(STOP),
    )


ERROR = "error"
"""The outcome of a leg that gave no valid handoff."""

LEG, REVIEW = "leg", "budget_review"
HELD = "held"
RUNNING, WAITING = "running", "waiting"
ENDINGS = ("completed", "failed", "abandoned", "stopped")


def run_stream(run: str) -> str:
    """The stream that holds a run's records."""
    return RUN_STREAM + run


class LegRun(NamedTuple):
    """One turn that was started: its agent, visit and guidance, and how it ended.

    `causes` are the turns that led to it. `outcome` is empty until it has ended; with `error` there
    was no valid handoff, and `why` says what happened. With `held` the handoff, in `kept`, couldn't
    be recorded because a person has to answer `gates` first; the turn that records it later names
    this one in `kept_from`. `result` is what an express item gave.
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
    kept: Document = {}  # noqa: RUF012
    kept_from: int = 0
    measured: Document = {}  # noqa: RUF012
    evidence: tuple[Document, ...] = ()
    result: Document = {}  # noqa: RUF012

    @property
    def is_open(self) -> bool:
        """Whether it hasn't ended yet."""
        return not self.outcome

    @property
    def gate(self) -> str:
        """The first gate that a person has to answer before anything follows; "" for none."""
        return self.gates[0] if self.gates else ""

    @property
    def is_by_person(self) -> bool:
        """Whether it is the verdict of a person, which no worker has begun."""
        return self.kind == REVIEW and bool(self.worker) and not self.begun_at

    @property
    def counts(self) -> bool:
        """Whether it was a turn of its agent, not only a wait."""
        return self.kind == LEG and self.outcome != HELD and not self.kept_from


class ReviewRequest(NamedTuple):
    """A question to a person: the budget review of an agent that has used up its loops.

    `guidance` is what the leg would have been told.
    """

    leg: str
    agent: str
    why: str
    causes: tuple[int, ...]
    guidance: str = ""

    def document(self) -> Document:
        """The request as plain JSON."""
        return {**self._asdict(), "causes": list(self.causes)}


class Run(NamedTuple):
    """The state of a run.

    `followed` are the ended turns that were handled, `arrived` those that wait for others at a leg
    that joins them; `taken` counts uses of rules, `granted` extensions of loops. `stopped_by` are
    the turns that ended it. `mark` tells it from runs of the same name in other stores. `promoted`
    is the task that a failed express item became.
    """

    run: str
    relay: Relay
    task: str
    by: str
    lane: str
    started_at: str
    position: int
    mark: str
    legs: dict[int, LegRun] = {}  # noqa: RUF012
    followed: frozenset[int] = frozenset()
    arrived: dict[str, tuple[int, ...]] = {}  # noqa: RUF012
    taken: dict[str, int] = {}  # noqa: RUF012
    granted: dict[str, int] = {}  # noqa: RUF012
    asked: tuple[ReviewRequest, ...] = ()
    status: str = RUNNING
    why: str = ""
    ended_at: str = ""
    stopped_by: tuple[int, ...] = ()
    promoted: str = ""

    @property
    def open_legs(self) -> list[LegRun]:
        """The turns that haven't ended."""
        return [leg for leg in self.legs.values() if leg.is_open]

    def visits(self, leg: str) -> int:
        """How often a leg was started."""
        return sum(1 for each in self.legs.values() if each.leg == leg and each.counts)

    def loops_of(self, agent: str) -> int:
        """The number of turns that an agent has had."""
        return sum(1 for each in self.legs.values() if each.agent == agent and each.counts)

    def loops_allowed(self, agent: str) -> int:
        """The number of turns that an agent may have before a review."""
        return self.relay.agents[agent].limits.loops * (1 + self.granted.get(agent, 0))


def fold_run(records: Iterable[Record]) -> Run | None:
    """The run of some records; None without records."""
    run: Run | None = None
    for record in records:
        body = record.document()
        folded = _HANDLERS[record.kind](run, record, body) if run else _started(record, body)
        run = folded._replace(position=record.position)
    return run


def _started(record: Record, body: Document) -> Run:
    return Run(
        run=record.stream.removeprefix(RUN_STREAM),
        relay=relay_of(body["relay"]),
        task=body["task"],
        by=record.author,
        lane=body["lane"],
        started_at=record.at,
        position=record.position,
        mark=record.digest.rpartition(":")[2][:12],
    )


def _legs(run: Run, record: Record, body: Document) -> Run:
    legs = dict(run.legs)
    for given in body["legs"]:
        fields: Document = {**given, "causes": tuple(given["causes"])}
        legs[given["number"]] = LegRun(**fields, started_at=record.at)
    taken, granted = dict(run.taken), dict(run.granted)
    for rule in body["taken"]:
        taken[rule] = taken.get(rule, 0) + 1
    for agent in body["granted"]:
        granted[agent] = granted.get(agent, 0) + 1
    asked: list[Document] = [{**each, "causes": tuple(each["causes"])} for each in body["asked"]]
    return run._replace(
        legs=legs,
        followed=run.followed | frozenset(body["followed"]),
        arrived={leg: tuple(numbers) for leg, numbers in body["arrived"].items()},
        taken=taken,
        granted=granted,
        asked=tuple(ReviewRequest(**fields) for fields in asked),
        status=RUNNING,
        why="",
        ended_at="",
        stopped_by=(),
    )


def _ended_leg(run: Run, record: Record, body: Document) -> Run:
    fields = {name: value for name, value in body.items() if name != "number"}
    fields["evidence"] = tuple(fields.get("evidence", ()))
    fields["gates"] = tuple(fields.get("gates", ()))
    return _with_leg(run, body["number"], ended_at=record.at, **fields)


def _with_leg(run: Run, number: int, **fields: Any) -> Run:
    return run._replace(legs={**run.legs, number: run.legs[number]._replace(**fields)})


def _answered(run: Run, record: Record, body: Document) -> Run:
    """An answer ends the first requested review, as if an agent had given it."""
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
        guidance=ask.guidance,
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


def _ended(run: Run, record: Record, body: Document) -> Run:
    return run._replace(
        status=body["status"],
        why=body["why"],
        ended_at=record.at,
        followed=run.followed | frozenset(body["followed"]),
        stopped_by=tuple(body["stopped_by"]),
    )


_HANDLERS: Mapping[str, Callable[[Run, Record, Document], Run]] = {
    "legs": _legs,
    "begun": lambda run, record, body: _with_leg(
        run, body["number"], worker=body["worker"], begun_at=record.at
    ),
    "leg_ended": _ended_leg,
    "waiting": lambda run, _, body: run._replace(status=WAITING, why=body["why"]),
    "answered": _answered,
    "ended": _ended,
    "promoted": lambda run, _, body: run._replace(promoted=body["task"]),
}

PENDING, APPROVED, REJECTED = "pending", "approved", "rejected"
USED_UP = "its loops are used up"


class GateState(NamedTuple):
    """The status of a gate, and what the person said."""

    status: str
    reason: str = ""


class RunTransition(NamedTuple):
    """The next record of a run; `kind` is `legs`, `waiting` or `ended`."""

    kind: str
    body: Document


def next_transition(run: Run, gates: Mapping[str, GateState]) -> RunTransition | None:
    """The next record of a run; None if it has to wait for open turns.

    `gates` are the states of the gates that the run's handoffs opened.
    """
    if run.ended_at:
        return None
    builder = _TransitionBuilder(run)
    if not run.legs:
        builder.start(run.relay.first(), "", ())
        return builder.step()
    waits = ""
    for turn in run.legs.values():
        if turn.is_open or turn.number in run.followed:
            continue
        gate = _combined_gate(turn, gates)
        if gate.status == PENDING:
            waits = waits or f"gate {gate.reason} is waiting for a person"
            continue
        builder.follow(turn, gate)
        if builder.ending:
            # Other turns that ended meanwhile are followed when the run is resumed.
            return ended_transition(*builder.ending, followed=[turn.number], by=[turn.number])
    return (
        builder.step()
        if builder.goes_on
        else _idle_transition(run, builder, waits or builder.waits)
    )


def next_agent(run: Run, turn: LegRun, outcome: str, to: str = "", verdict: str = "") -> str:
    """The agent after a turn that ends so, once its gate is approved; of several, the first.
    "" for none, or the same agent again.
    """
    leg = run.relay.legs[turn.leg]
    gate = APPROVED if leg.gate and outcome == "completed" else ""
    name, rule = _matching_rule(run.relay, leg, (outcome, to, gate, verdict))
    is_used_up = bool(rule.at_most) and run.taken.get(name, 0) >= rule.at_most
    targets = rule.otherwise if is_used_up else rule.go
    found = [run.relay.legs[target].agent for target in targets if target in run.relay.legs]
    if BACK in targets:
        found = [run.legs[number].agent for number in turn.causes]
    return found[0] if found and found[0] != turn.agent else ""


def peer_of(run: Run, turn: LegRun) -> str:
    """Whom an agent talks with in a turn: the agent that its leg names, or else whoever led to it.

    For the first leg, and those of the same agent after it, that is the first other agent that
    follows, if it is one, or else who started the run. Several that led to it are one peer.
    """
    leg = run.relay.legs[turn.leg]
    if turn.kind == REVIEW:
        return leg.agent
    if leg.peer:
        return leg.peer
    found: dict[str, None] = {}
    numbers = list(turn.causes)
    for number in numbers:
        cause = run.legs[number]
        if cause.agent != turn.agent:
            found[cause.agent] = None
        else:
            numbers += cause.causes
    return joined_name(sorted(found)) if found else _first_peer(run.relay) or run.by


def _first_peer(relay: Relay) -> str:
    """The first other agent after the legs that a run begins with; "" if none or several follow."""
    leg, seen = relay.first(), set[str]()
    while leg.agent == relay.first().agent:
        seen.add(leg.leg)
        gate = APPROVED if leg.gate else ""
        rule = _matching_rule(relay, leg, ("completed", "", gate, ""))[1]
        if len(rule.go) != 1 or rule.go[0] not in relay.legs or rule.go[0] in seen:
            return ""
        leg = relay.legs[rule.go[0]]
    return leg.agent


def joined_name(agents: Sequence[str]) -> str:
    """Several agents under one name."""
    name = "_and_".join(agents)
    if len(name) <= MAX_AGENT:
        return name
    mark = hashlib.blake2b(name.encode(), digest_size=8).hexdigest()
    return f"{len(agents)}-agents-{mark}"


def overlapped(run: Run, turn: LegRun) -> list[LegRun]:
    """The earlier turns of the same agent that were open when a turn started."""
    return [
        other
        for other in run.legs.values()
        if (other.agent, other.number < turn.number) == (turn.agent, True)
        and (not other.ended_at or other.ended_at > turn.started_at)
    ]


def has_to_wait(run: Run, turn: LegRun) -> bool:
    """Whether an earlier turn in the same conversation is open: a conversation takes one at a time,
    so that each sees what was said before it.
    """
    return any(
        other.agent == turn.agent
        and other.number < turn.number
        and _conversation_peer(run, other) == _conversation_peer(run, turn)
        for other in run.open_legs
    )


def _conversation_peer(run: Run, turn: LegRun) -> str:
    """The peer of a turn's conversation; "" for one that its agent has with several."""
    agent, peer = run.relay.agents[turn.agent], peer_of(run, turn)
    has_own = agent.sharing == "off" or (agent.sharing == "pairs" and peer in agent.separate)
    return peer if has_own else ""


def _matching_rule(relay: Relay, leg: Leg, ended: tuple[str, ...]) -> tuple[str, Rule]:
    """The first rule that matches how a leg ended, and the name that counts its uses."""
    return next(
        (f"{leg.leg}/{place}", rule)
        for place, rule in enumerate(relay.rules(leg))
        if rule.fits(*ended)
    )


def _combined_gate(turn: LegRun, gates: Mapping[str, GateState]) -> GateState:
    """The state of all gates of a turn: pending while one is, rejected if one was."""
    found = {name: gates.get(name, GateState(PENDING)) for name in turn.gates}
    pending = [name for name, gate in found.items() if gate.status == PENDING]
    if pending:
        return GateState(PENDING, pending[0])
    rejected = [gate for gate in found.values() if gate.status == REJECTED]
    status = REJECTED if rejected else APPROVED
    reasons = [gate.reason for gate in rejected or found.values() if gate.reason]
    return GateState(status, "; ".join(reasons))


def resume_transition(run: Run) -> RunTransition | None:
    """The record that restarts a run that has stopped, or that waits because a turn was blocked.

    None if there is nothing to restart: open turns continue by themselves, and gates and reviews
    wait for their answers.
    """
    if run.status == "completed" or not (run.ended_at or _blocked(run)):
        return None
    builder = _TransitionBuilder(run)
    for number in run.stopped_by if run.ended_at else _blocked(run):
        builder.retry(run.legs[number])
    return builder.step()


def _blocked(run: Run) -> Sequence[int]:
    """The ended turns that a run waits for because of their outcome."""
    if run.status != WAITING or run.asked:
        return ()
    return [
        turn.number
        for turn in run.legs.values()
        if not turn.is_open and turn.number not in run.followed and not turn.gates
    ]


def _idle_transition(run: Run, builder: _TransitionBuilder, waits: str) -> RunTransition | None:
    """The record if nothing starts: a person is waited for, or the run has ended."""
    if builder.followed and (run.open_legs or run.asked or waits):
        return builder.step()
    if run.open_legs:
        return None
    if run.asked:
        ask = run.asked[0]
        waits = f"budget review of {ask.agent} in leg {ask.leg}: {ask.why}"
    if waits:
        is_known = (run.status, run.why) == (WAITING, waits)
        return None if is_known else RunTransition("waiting", {"why": waits})
    missing = sorted(leg for leg, numbers in builder.arrived.items() if numbers)
    if missing:
        why = f"{', '.join(missing)} never got all legs that it joins"
        return ended_transition("failed", why, followed=builder.followed)
    return ended_transition("completed", "", followed=builder.followed)


def ended_transition(
    status: str, why: str, *, followed: Sequence[int] = (), by: Sequence[int] = ()
) -> RunTransition:
    """The end of a run; `by` are the turns that ended it."""
    body = {"status": status, "why": why, "followed": list(followed), "stopped_by": list(by)}
    return RunTransition("ended", body)


class _TransitionBuilder:
    """Collects what follows from ended turns into one record."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._legs: list[Document] = []
        self._taken: list[str] = []
        self._granted: list[str] = []
        self._asked = list(run.asked)
        self.arrived = {leg: list(numbers) for leg, numbers in run.arrived.items()}
        self.followed: list[int] = []
        self.waits = ""
        self.ending: tuple[str, str] | None = None

    @property
    def goes_on(self) -> bool:
        """Whether a leg starts or a review is requested."""
        return bool(self._legs) or len(self._asked) > len(self._run.asked)

    def step(self) -> RunTransition:
        body = {
            "legs": self._legs,
            "followed": self.followed,
            "taken": self._taken,
            "granted": self._granted,
            "arrived": {leg: numbers for leg, numbers in self.arrived.items() if numbers},
            "asked": [ask.document() for ask in self._asked],
        }
        return RunTransition("legs", body)

    def follow(self, turn: LegRun, gate: GateState) -> None:
        if turn.kind == REVIEW:
            self._follow_review(turn)
            return
        leg = self._run.relay.legs[turn.leg]
        if turn.outcome == HELD:
            self._record_kept(turn)
            return
        status = gate.status if turn.gates else ""
        ended = (turn.outcome, turn.to, status, turn.verdict)
        name, rule = _matching_rule(self._run.relay, leg, ended)
        used = self._run.taken.get(name, 0) + self._taken.count(name)
        is_used_up = bool(rule.at_most) and used >= rule.at_most
        self._taken.append(name)
        self.followed.append(turn.number)
        why = _reason(turn, rule, gate, is_used_up=is_used_up)
        for target in rule.otherwise if is_used_up else rule.go:
            self._go(leg, target, turn, gate.reason, why)

    def _go(self, leg: Leg, target: str, turn: LegRun, reason: str, why: str) -> None:
        if target == STOP:
            self.ending = ("failed", why)
        elif target == WAIT:
            self.followed.remove(turn.number)
            self._taken.pop()
            self.waits = why
        elif target == AGAIN:
            self.start(leg, self._guidance(turn, leg, reason), (turn.number,))
        elif target == BACK:
            for name in {self._run.legs[number].leg: None for number in turn.causes}:
                goes = self._run.relay.legs[name]
                self.start(goes, self._guidance(turn, goes, reason), (turn.number,))
        elif target != END:
            goes = self._run.relay.legs[target]
            self._arrive(goes, turn, self._guidance(turn, goes, reason))

    def _guidance(self, turn: LegRun, goes: Leg, reason: str) -> str:
        """What a leg is told: why a person rejected the gate, or what the review or answer says
        that led to it. An approval is for the one whose work it is, and for nobody else.
        """
        is_answer = self._run.relay.legs[turn.leg].kind == "question"
        if reason or not (turn.verdict or is_answer):
            return reason
        is_other = turn.verdict == "approved" and goes.agent != peer_of(self._run, turn)
        what = "answer of" if is_answer else "review by"
        return "" if is_other else f"{what} {turn.agent}: {turn.summary}"

    def _record_kept(self, turn: LegRun) -> None:
        """The gate is open for a handoff that had to wait: its agent isn't asked again."""
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
        arrived = self.arrived.setdefault(leg.leg, [])
        arrived.append(turn.number)
        if {self._run.legs[number].leg for number in arrived} >= set(leg.joins):
            self.arrived[leg.leg] = []
            self.start(leg, guidance, tuple(arrived))

    def start(self, leg: Leg, guidance: str, causes: tuple[int, ...]) -> None:
        """Start a leg, or request a review if its agent has used up its loops."""
        run = self._run
        new = [each for each in self._legs if each["kind"] == LEG and not each["kept_from"]]
        now = sum(each["agent"] == leg.agent for each in new)
        extra = self._granted.count(leg.agent) * run.relay.agents[leg.agent].limits.loops
        if run.loops_of(leg.agent) + now >= run.loops_allowed(leg.agent) + extra:
            self._ask(leg, guidance, causes)
            return
        visit = run.visits(leg.leg) + 1 + sum(each["leg"] == leg.leg for each in new)
        self._add(leg.leg, leg.agent, LEG, visit=visit, guidance=guidance, causes=causes)

    def retry(self, turn: LegRun) -> None:
        """Start the leg of a turn again; for a verdict, ask the reviewer again."""
        self.followed.append(turn.number)
        if turn.is_by_person:
            agent = self._run.relay.legs[turn.leg].agent
            why = turn.summary or USED_UP
            asked = ReviewRequest(turn.leg, agent, why, turn.causes, turn.guidance)
            self._asked.append(asked)
        elif turn.kind == REVIEW:
            told = turn.guidance
            self._add(turn.leg, turn.agent, REVIEW, visit=1, guidance=told, causes=turn.causes)
        else:
            self.start(self._run.relay.legs[turn.leg], turn.guidance, turn.causes)

    def _ask(self, leg: Leg, guidance: str, causes: tuple[int, ...]) -> None:
        """Request a budget review; what the leg was to be told is kept for when it goes on."""
        reviewer = self._run.relay.agents[leg.agent].review_by
        if reviewer == PERSON:
            self._asked.append(ReviewRequest(leg.leg, leg.agent, USED_UP, causes, guidance))
        else:
            self._add(leg.leg, reviewer, REVIEW, visit=1, guidance=guidance, causes=causes)

    def _follow_review(self, turn: LegRun) -> None:
        self.followed.append(turn.number)
        leg = self._run.relay.legs[turn.leg]
        verdict = "escalate" if turn.outcome == ERROR else turn.verdict
        if verdict == "abandon":
            self.ending = ("abandoned", turn.summary or "the budget review says so")
        elif verdict == "escalate":
            why = turn.summary or turn.why
            self._asked.append(ReviewRequest(leg.leg, leg.agent, why, turn.causes, turn.guidance))
        else:
            goes = self._run.relay.planning() if verdict == "pivot" else leg
            self._granted += dict.fromkeys((leg.agent, goes.agent))
            by = turn.worker if turn.is_by_person else turn.agent
            said = f"budget review by {by}: {turn.summary}" if turn.summary else ""
            told = "\n\n".join(part for part in (turn.guidance, said) if part)
            self.start(goes, told, turn.causes)

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


def _reason(turn: LegRun, rule: Rule, gate: GateState, *, is_used_up: bool) -> str:
    said = turn.why or turn.summary
    what = f"leg {turn.leg} ended {turn.outcome}" + (f": {said}" if said else "")
    if turn.gates and gate.status == REJECTED:
        what = f"leg {turn.leg} was rejected" + (f": {gate.reason}" if gate.reason else "")
    return f"{what} (at most {rule.at_most} times)" if is_used_up else what

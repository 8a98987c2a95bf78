"""Runs: one execution of a relay on a task, folded from the records of its stream. Pure.

The rules of a leg are read from the top, and the first that matches says what follows.
`next_transition` gives the record that comes next, so every process decides the same.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.core.kinds import OUTCOMES, RUN_STREAM
from passdown.core.names import MAX_AGENT
from passdown.core.schema import (
    AGENT,
    ANY_PHASE,
    ANY_TEXT,
    TASK_ID,
    TRUTH,
    Choice,
    List,
    Map,
    Number,
    Optional,
    Part,
    Pattern,
    as_meant,
    declare,
    tuple_shape,
    value_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from passdown.core.record import Record

    Document = dict[str, Any]

END, STOP, AGAIN, WAIT, BACK = "end", "stop", "again", "wait", "back"
DIRECTIONS = (END, STOP, AGAIN, WAIT, BACK)
"""Targets of a rule besides legs: completed, failed, the same leg again, wait for a person, the leg
that led here."""

PENDING, APPROVED, REJECTED = "pending", "approved", "rejected"
ERROR = "error"
"""The outcome of a leg that gave no valid handoff."""

WORK = "work"
REVIEWS = ("plan_review", "code_review", "completion")
KINDS = (WORK, "question", *REVIEWS, "budget_review")
"""What a leg may ask for; each but `work` has a template of its name."""
APPROVALS = ("approved", "changes", "rejected")
VERDICTS = ("continue", "pivot", "escalate", "abandon")
PERSON = "person"
MAX_PARTIAL = 3
MAX_REJECTED = 3


_NAMES = List(ANY_TEXT, most=100, takes_one=True)
_WORDS = List(ANY_TEXT, most=1_000, takes_one=True)
_VARIABLE = Pattern("[^=\\0]+")
_SECONDS = Number(0, 604_800, is_float=True)


@tuple_shape
class When(NamedTuple):
    """What a rule matches; an empty field matches anything."""

    outcome: tuple[str, ...] = declare(List(Choice(*OUTCOMES, ERROR), takes_one=True), default=())
    to: str = declare(AGENT, default="")
    gate: str = declare(Choice("", APPROVED, REJECTED), default="")
    verdict: tuple[str, ...] = declare(
        List(Choice(*APPROVALS, *VERDICTS), takes_one=True), default=()
    )


@tuple_shape
class Rule(NamedTuple):
    """Where to go after a leg. After `at_most` uses (0: no limit), `otherwise` counts."""

    go: tuple[str, ...] = declare(_NAMES)
    when: When = declare(Part(When), default_factory=When)
    at_most: int = declare(Number(0, 1_000), default=0)
    otherwise: tuple[str, ...] = declare(_NAMES, default=(STOP,))

    def is_used_up(self, uses: int) -> bool:
        """Whether it was used as often as it may be."""
        return bool(self.at_most) and uses >= self.at_most

    def fits(self, outcome: str, to: str, gate: str, verdict: str = "") -> bool:
        """Whether it matches a leg that ended so. A rejected gate needs a rule that names it."""
        when = self.when
        if (gate == REJECTED) != (when.gate == REJECTED):
            return False
        is_outcome = not when.outcome or outcome in when.outcome
        is_verdict = not when.verdict or verdict in when.verdict
        return is_outcome and is_verdict and when.to in ("", to) and when.gate in ("", gate)


@tuple_shape
class Leg(NamedTuple):
    """One agent's turn.

    `gate` is a question that a person answers before anything follows. `payload` are fields that
    its handoff has to have in its metadata, each with a JSON Schema, the name of a type, or a list
    of choices. A leg with `joins` starts when all of those legs have led to it.
    """

    leg: str = declare(TASK_ID)
    agent: str = declare(AGENT)
    kind: str = declare(Choice(*KINDS), default=WORK)
    request: str = declare(ANY_TEXT, default="")
    phase: str = declare(ANY_PHASE, default="")
    gate: str = declare(ANY_TEXT, default="")
    payload: Mapping[str, Any] = declare(Map(key=_VARIABLE, most=50), default_factory=dict)
    peer: str = declare(ANY_TEXT, default="")
    fresh: bool = declare(TRUTH, default=False)
    joins: tuple[str, ...] = declare(_NAMES, default=())
    then: tuple[Rule, ...] = declare(List(Part(Rule)), default=())


@tuple_shape
class RunnerOptions(NamedTuple):
    """What runs an agent: one of command, script and python, with its options."""

    command: tuple[str, ...] = declare(List(ANY_TEXT, most=1_000), default=())
    prompt: str = declare(Choice("stdin", "argument", "file"), default="stdin")
    env: Mapping[str, str] = declare(Map(ANY_TEXT, key=_VARIABLE), default_factory=dict)
    pass_env: tuple[str, ...] | None = declare(Optional(List(_VARIABLE)), default=None)
    max_output: int = declare(Number(1_000, 1_000_000_000), default=1_000_000)
    timeout_s: float = declare(_SECONDS, default=604_800.0)
    script: str = declare(ANY_TEXT, default="")
    python: str = declare(ANY_TEXT, default="")


@tuple_shape
class AgentLimits(NamedTuple):
    """Limits of an agent: turns in one run, tokens in its context, seconds for a leg."""

    loops: int = declare(Number(1, 1_000), default=8)
    context_tokens: int = declare(Number(1_000, 100_000_000), default=100_000)
    seconds: float = declare(_SECONDS, default=600.0)


@tuple_shape
class RelayAgent(NamedTuple):
    """An agent of a relay: what it is told, what runs it, what it may use up.

    `review_by` decides when its loops are used up: an agent's name, or `person`.
    """

    runner: RunnerOptions = declare(Part(RunnerOptions))
    profile: str = declare(AGENT, default="")
    role: str = declare(ANY_TEXT, default="")
    rules: tuple[str, ...] = declare(_WORDS, default=())
    spec: str = declare(ANY_TEXT, default="")
    templates: str = declare(ANY_TEXT, default="")
    memory: str = declare(Choice("task", "project"), default="task")
    sharing: str = declare(Choice("off", "pairs", "all"), default="off")
    separate: tuple[str, ...] = declare(_NAMES, default=())
    max_age_hours: float | None = declare(
        Optional(Number(0, 1_000_000, is_float=True)), default=None
    )
    needs: Mapping[str, tuple[str, ...]] = declare(Map(_WORDS), default_factory=dict)
    limits: AgentLimits = declare(Part(AgentLimits), default_factory=AgentLimits)
    review_by: str = declare(ANY_TEXT, default=PERSON)


@tuple_shape
class RelayFields(NamedTuple):
    """A relay file."""

    relay: str = declare(TASK_ID)
    agents: Mapping[str, RelayAgent] = declare(Map(Part(RelayAgent), key=AGENT, least=1, most=100))
    legs: tuple[Leg, ...] = declare(List(Part(Leg), least=1, most=500))
    description: str = declare(ANY_TEXT, default="")
    budget: int = declare(Number(50, 1_000_000), default=1_500)
    parallel: int = declare(Number(1, 64), default=4)


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

    def payload_schema(self, leg: str) -> Document:
        """The JSON Schema of what the metadata of a leg's handoff has to have."""
        given = self.legs[leg].payload
        properties = {name: payload_field(each) for name, each in given.items()}
        return {"type": "object", "properties": properties, "required": list(given)}

    def planning(self) -> Leg:
        """Where a change of direction starts: the first planning leg, or else the first leg."""
        return next((leg for leg in self.legs.values() if leg.phase == "planning"), self.first())

    def rules(self, leg: Leg) -> tuple[Rule, ...]:
        """The rules of a leg, those of the file first; the last one matches everything."""
        names = [*self.legs, END]
        following = names[names.index(leg.leg) + 1]
        return (*leg.then, *_built_in_rules(self, leg.kind, following))


def payload_field(given: Any) -> Document:
    """The JSON Schema of a field of a payload: as it is given, by its type, or by its choices."""
    if isinstance(given, str):
        return {"type": given}
    if isinstance(given, list):
        return {"enum": given}
    found: Document = {}
    for name, part in cast("Document", given).items():
        # A relay file has its numbers as text, as any YAML.
        found[name] = as_meant(part, "number" if name in _NUMBERS else "")
        if name == "items":
            found[name] = payload_field(part)
        elif name == "properties":
            found[name] = {key: payload_field(each) for key, each in part.items()}
    return found


_NUMBERS = ("minimum", "maximum", "maxLength", "minItems", "maxItems")


def relay_of(document: Document) -> Relay:
    """The relay of a checked document; fields that it was recorded without have their defaults."""
    given = value_of(RelayFields, document)
    legs = {leg.leg: leg for leg in given.legs}
    about = (given.relay, given.description, given.budget)
    return Relay(*about, dict(given.agents), legs, given.parallel, document)


def _rule(go: str, at_most: int = 0, otherwise: str = STOP, **when: Any) -> Rule:
    return Rule(when=When(**when), go=(go,), at_most=at_most, otherwise=(otherwise,))


def _built_in_rules(relay: Relay, kind: str, following: str) -> Iterator[Rule]:
    """The rules that legs of a kind have, then those that all have."""
    if kind == "question":
        yield _rule(BACK, outcome=("completed",))
    elif kind == "budget_review":
        targets = (following, relay.planning().leg, WAIT, STOP)
        for verdict, target in zip(VERDICTS, targets, strict=True):
            yield _rule(target, verdict=(verdict,))
    elif kind in REVIEWS:
        yield _rule(BACK, MAX_REJECTED, verdict=("changes",))
        yield _rule(STOP, verdict=("rejected",))
    yield _rule(AGAIN, MAX_REJECTED, gate="rejected")
    yield _rule(following, outcome=("completed",))
    yield _rule(AGAIN, MAX_PARTIAL, outcome=("partial",))
    yield _rule(AGAIN, MAX_PARTIAL, outcome=("blocked",), gate="approved")
    yield _rule(WAIT, outcome=("blocked",))
    yield _rule(STOP)


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
    is the task that a failed express item became. `begins_with` is the leg that it was started
    from, "" for the first. `replay` says which turn is taken again here, by whom.
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
    begins_with: str = ""
    replay: Document = {}  # noqa: RUF012

    @property
    def first_leg(self) -> Leg:
        """The leg that it starts with: that of the relay, or the one that was chosen."""
        return self.relay.legs[self.begins_with] if self.begins_with else self.relay.first()

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
    name, mark = record.stream.removeprefix(RUN_STREAM), record.digest.rpartition(":")[2][:12]
    about = (relay_of(body["relay"]), body["task"], record.author, body["lane"])
    first = body.get("begins_with", "")
    return Run(name, *about, record.at, record.position, mark, begins_with=first)


def _legs(run: Run, record: Record, body: Document) -> Run:
    new = [LegRun(**_tuples(given), started_at=record.at) for given in body["legs"]]
    taken, granted = dict(run.taken), dict(run.granted)
    for rule in body["taken"]:
        taken[rule] = taken.get(rule, 0) + 1
    for agent in body["granted"]:
        granted[agent] = granted.get(agent, 0) + 1
    return run._replace(
        legs={**run.legs, **{leg.number: leg for leg in new}},
        followed=run.followed | frozenset(body["followed"]),
        arrived={leg: tuple(numbers) for leg, numbers in body["arrived"].items()},
        taken=taken,
        granted=granted,
        asked=tuple(ReviewRequest(**_tuples(each)) for each in body["asked"]),
        lane=body.get("lane", run.lane),
        status=RUNNING,
        why="",
        ended_at="",
        stopped_by=(),
    )


def _tuples(body: Document) -> Document:
    """A body with its lists as tuples, as values have them."""
    lists = {name: cast("list[Any]", v) for name, v in body.items() if isinstance(v, list)}
    return {**body, **{name: tuple(v) for name, v in lists.items()}}


def _with_leg(run: Run, body: Document, **fields: Any) -> Run:
    """The run with what a body and some fields say of one of its turns."""
    number = body["number"]
    leg = run.legs[number]._replace(**_tuples(body), **fields)
    return run._replace(legs={**run.legs, number: leg})


def _answered(run: Run, record: Record, body: Document) -> Run:
    """An answer ends the first requested review, as if an agent had given it."""
    if not run.asked:
        return run
    ask = run.asked[0]
    number = len(run.legs) + 1
    asked = (number, ask.leg, ask.agent, REVIEW, 1, ask.guidance, ask.causes, record.at)
    said: Document = {"outcome": "completed", "verdict": body["verdict"]}
    said |= {"summary": body["guidance"], "ended_at": record.at, "worker": record.author}
    leg = LegRun(*asked, **said)
    legs = {**run.legs, number: leg}
    return run._replace(legs=legs, asked=run.asked[1:], status=RUNNING, why="")


def _ended(run: Run, record: Record, body: Document) -> Run:
    followed, by = run.followed | frozenset(body["followed"]), tuple(body["stopped_by"])
    ended = run._replace(status=body["status"], why=body["why"], ended_at=record.at)
    return ended._replace(followed=followed, stopped_by=by)


def _replayed(run: Run, record: Record, body: Document) -> Run:
    """A turn that has to be taken again: by another agent, with another runner."""
    number, agent = body["number"], body["agent"]
    agents = dict(run.relay.agents)
    # One that the relay doesn't have is like the first, under another name.
    known = agents.get(agent) or agents[run.legs[number].agent]._replace(profile="")
    runner = value_of(RunnerOptions, body["runner"]) if body["runner"] else known.runner
    agents[agent] = known._replace(runner=runner)
    turn = run.legs[number]._replace(agent=agent, worker="", begun_at="")
    relay = run.relay._replace(agents=agents)
    return run._replace(relay=relay, legs={**run.legs, number: turn}, replay=body)


_HANDLERS: Mapping[str, Callable[[Run, Record, Document], Run]] = {
    "legs": _legs,
    "begun": lambda run, record, body: _with_leg(run, body, begun_at=record.at),
    "leg_ended": lambda run, record, body: _with_leg(run, body, ended_at=record.at),
    "waiting": lambda run, _, body: run._replace(status=WAITING, why=body["why"]),
    "answered": _answered,
    "ended": _ended,
    "promoted": lambda run, _, body: run._replace(promoted=body["task"]),
    "replayed": _replayed,
}

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
        builder.start(run.first_leg, "", ())
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
    if builder.goes_on:
        return builder.step()
    return _idle_transition(run, builder, waits or builder.waits)


def next_agent(run: Run, turn: LegRun, outcome: str, to: str = "", verdict: str = "") -> str:
    """The agent after a turn that ends so, once its gate is approved; of several, the first.
    "" for none, or the same agent again.
    """
    leg = run.relay.legs[turn.leg]
    gate = APPROVED if leg.gate and outcome == "completed" else ""
    name, rule = _matching_rule(run.relay, leg, (outcome, to, gate, verdict))
    targets = rule.otherwise if rule.is_used_up(run.taken.get(name, 0)) else rule.go
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
    return joined_name(sorted(found)) if found else _first_peer(run.relay, run.first_leg) or run.by


def _first_peer(relay: Relay, first: Leg) -> str:
    """The first other agent after the legs that a run begins with; "" if none or several follow."""
    leg, seen = first, set[str]()
    while leg.agent == first.agent:
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
    before = [t for t in run.legs.values() if t.agent == turn.agent and t.number < turn.number]
    return [each for each in before if not each.ended_at or each.ended_at > turn.started_at]


def has_to_wait(run: Run, turn: LegRun) -> bool:
    """Whether an earlier turn in the same conversation is open: a conversation takes one at a time,
    so that each sees what was said before it.
    """
    before = [t for t in run.open_legs if t.agent == turn.agent and t.number < turn.number]
    return _conversation_peer(run, turn) in {_conversation_peer(run, each) for each in before}


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
    # A turn that was going on when its run was stopped may have failed since.
    failed = [turn.number for turn in run.legs.values() if turn.outcome == ERROR]
    late = [number for number in failed if number not in (*run.followed, *run.stopped_by)]
    for number in (*run.stopped_by, *late) if run.ended_at else _blocked(run):
        builder.retry(run.legs[number])
    return builder.step()


def detached_transition(run: Run, lane: str) -> RunTransition:
    """The record that leaves a run to another lane, and restarts it if it has stopped."""
    made = resume_transition(run) or _TransitionBuilder(run).step()
    return RunTransition(made.kind, {**made.body, "lane": lane})


def _blocked(run: Run) -> Sequence[int]:
    """The ended turns that a run waits for because of their outcome."""
    if run.status != WAITING or run.asked:
        return ()
    ended = [turn for turn in run.legs.values() if not turn.is_open and not turn.gates]
    return [turn.number for turn in ended if turn.number not in run.followed]


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
        is_used_up = rule.is_used_up(used)
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
        kept_from = turn.number if turn.kept else 0
        about = {"visit": turn.visit, "causes": turn.causes, "kept_from": kept_from}
        self._add(turn.leg, turn.agent, LEG, turn.guidance, **about)

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
        """Start a leg; if its agent has used up its loops, request a review, which keeps what the
        leg was to be told.
        """
        run = self._run
        new = [each for each in self._legs if each["kind"] == LEG and not each["kept_from"]]
        now = sum(each["agent"] == leg.agent for each in new)
        extra = self._granted.count(leg.agent) * run.relay.agents[leg.agent].limits.loops
        if run.loops_of(leg.agent) + now >= run.loops_allowed(leg.agent) + extra:
            reviewer = run.relay.agents[leg.agent].review_by
            if reviewer == PERSON:
                self._asked.append(ReviewRequest(leg.leg, leg.agent, USED_UP, causes, guidance))
            else:
                self._add(leg.leg, reviewer, REVIEW, guidance, causes=causes)
            return
        visit = run.visits(leg.leg) + 1 + sum(each["leg"] == leg.leg for each in new)
        self._add(leg.leg, leg.agent, LEG, guidance, visit=visit, causes=causes)

    def retry(self, turn: LegRun) -> None:
        """Start the leg of a turn again; for a verdict, ask the reviewer again."""
        self.followed.append(turn.number)
        if turn.is_by_person:
            self._ask(turn, turn.summary or USED_UP)
        elif turn.kind == REVIEW:
            self._add(turn.leg, turn.agent, REVIEW, turn.guidance, causes=turn.causes)
        else:
            self.start(self._run.relay.legs[turn.leg], turn.guidance, turn.causes)

    def _ask(self, turn: LegRun, why: str) -> None:
        """Request a person's verdict on the agent of a turn's leg."""
        agent = self._run.relay.legs[turn.leg].agent
        self._asked.append(ReviewRequest(turn.leg, agent, why, turn.causes, turn.guidance))

    def _follow_review(self, turn: LegRun) -> None:
        self.followed.append(turn.number)
        leg = self._run.relay.legs[turn.leg]
        verdict = "escalate" if turn.outcome == ERROR else turn.verdict
        if verdict == "abandon":
            self.ending = ("abandoned", turn.summary or "the budget review says so")
        elif verdict == "escalate":
            self._ask(turn, turn.summary or turn.why)
        else:
            goes = self._run.relay.planning() if verdict == "pivot" else leg
            self._granted += dict.fromkeys((leg.agent, goes.agent))
            by = turn.worker if turn.is_by_person else turn.agent
            said = f"budget review by {by}: {turn.summary}" if turn.summary else ""
            told = "\n\n".join(part for part in (turn.guidance, said) if part)
            self.start(goes, told, turn.causes)

    def _add(self, leg: str, agent: str, kind: str, guidance: str, **fields: Any) -> None:
        """Start a turn; `fields` are its `causes` and, unless they are 1 and 0, `visit` and
        `kept_from`.
        """
        number = len(self._run.legs) + len(self._legs) + 1
        turn = {"number": number, "leg": leg, "agent": agent, "kind": kind, "guidance": guidance}
        causes = list(fields.pop("causes"))
        self._legs.append({**turn, "visit": 1, "kept_from": 0, **fields, "causes": causes})


def _reason(turn: LegRun, rule: Rule, gate: GateState, *, is_used_up: bool) -> str:
    said = turn.why or turn.summary
    what = f"leg {turn.leg} ended {turn.outcome}" + (f": {said}" if said else "")
    if turn.gates and gate.status == REJECTED:
        what = f"leg {turn.leg} was rejected" + (f": {gate.reason}" if gate.reason else "")
    return f"{what} (at most {rule.at_most} times)" if is_used_up else what

"""Relay files: their declared fields, the checks that need several of them, and their runners."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.core.intake import as_error
from passdown.core.kinds import OUTCOMES, PHASES
from passdown.core.parsing import load_yaml
from passdown.core.schema import (
    AGENT,
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
    check,
    declare,
    json_schema,
    shape,
    value_of,
)
from passdown.core.settings import NEEDS
from passdown.core.text import excerpt
from passdown.errors import InvalidInput, Problem, limited_problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from passdown.relay.runners import Runner

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
RUNNERS = ("command", "script", "python")

_EXCLUSIVE = frozenset({END, STOP, WAIT})
_REFUSED = "the relay is refused; nothing was started"
_NAMES = List(ANY_TEXT, most=100, takes_one=True)
_WORDS = List(ANY_TEXT, most=1_000, takes_one=True)
_HOURS = Optional(Number(0, 1_000_000, is_float=True))
_VARIABLE = Pattern("[^=\\0]+")


@shape
class When:
    """What a rule matches; an empty field matches anything."""

    outcome: tuple[str, ...] = declare(List(Choice(*OUTCOMES, "error"), takes_one=True), default=())
    to: str = declare(AGENT, default="")
    gate: str = declare(Choice("", "approved", "rejected"), default="")
    verdict: tuple[str, ...] = declare(
        List(Choice(*APPROVALS, *VERDICTS), takes_one=True), default=()
    )


@shape
class Rule:
    """Where to go after a leg. After `at_most` uses (0: no limit), `otherwise` counts."""

    when: When = declare(Part(When), default_factory=When)
    go: tuple[str, ...] = declare(_NAMES)
    at_most: int = declare(Number(0, 1_000), default=0)
    otherwise: tuple[str, ...] = declare(_NAMES, default=(STOP,))

    def fits(self, outcome: str, to: str, gate: str, verdict: str = "") -> bool:
        """Whether it matches a leg that ended so. A rejected gate needs a rule that names it."""
        when = self.when
        if (gate == "rejected") != (when.gate == "rejected"):
            return False
        is_outcome = not when.outcome or outcome in when.outcome
        is_verdict = not when.verdict or verdict in when.verdict
        return is_outcome and is_verdict and when.to in ("", to) and when.gate in ("", gate)

    @property
    def fits_all(self) -> bool:
        """Whether it matches everything but a rejected gate."""
        return self.when == When()


@shape
class Leg:
    """One agent's turn.

    `gate` is a question that a person answers before anything follows. A leg with `joins` starts
    when all of those legs have led to it.
    """

    leg: str = declare(TASK_ID)
    agent: str = declare(AGENT)
    kind: str = declare(Choice(*KINDS), default=WORK)
    request: str = declare(ANY_TEXT, default="")
    phase: str = declare(Choice("", *PHASES), default="")
    gate: str = declare(ANY_TEXT, default="")
    peer: str = declare(ANY_TEXT, default="")
    fresh: bool = declare(TRUTH, default=False)
    joins: tuple[str, ...] = declare(_NAMES, default=())
    then: tuple[Rule, ...] = declare(List(Part(Rule)), default=())


@shape
class CommandOptions:
    """A program that is run for each turn, and its options."""

    command: tuple[str, ...] = declare(List(ANY_TEXT, most=1_000), default=())
    prompt: str = declare(Choice("stdin", "argument", "file"), default="stdin")
    env: Mapping[str, str] = declare(Map(ANY_TEXT, key=_VARIABLE), default_factory=dict)
    pass_env: tuple[str, ...] | None = declare(Optional(List(_VARIABLE)), default=None)
    max_output: int = declare(Number(1_000, 1_000_000_000), default=1_000_000)
    timeout_s: float = declare(Number(0, 604_800, is_float=True), default=604_800.0)


@shape
class RunnerOptions(CommandOptions):
    """What runs an agent: one of command, script and python, with its options."""

    script: str = declare(ANY_TEXT, default="")
    python: str = declare(ANY_TEXT, default="")


@shape
class AgentLimits:
    """Limits of an agent: turns in one run, tokens in its context, seconds for a leg."""

    loops: int = declare(Number(1, 1_000), default=DEFAULT_LOOPS)
    context_tokens: int = declare(Number(1_000, 100_000_000), default=100_000)
    seconds: float = declare(Number(0, 604_800, is_float=True), default=600.0)


@shape
class RelayAgent:
    """An agent of a relay: what it is told, what runs it, what it may use up.

    `review_by` decides when its loops are used up: an agent's name, or `person`.
    """

    profile: str = declare(AGENT, default="")
    role: str = declare(ANY_TEXT, default="")
    rules: tuple[str, ...] = declare(_WORDS, default=())
    spec: str = declare(ANY_TEXT, default="")
    templates: str = declare(ANY_TEXT, default="")
    memory: str = declare(Choice("task", "project"), default="task")
    sharing: str = declare(Choice("off", "pairs", "all"), default="off")
    separate: tuple[str, ...] = declare(_NAMES, default=())
    max_age_hours: float | None = declare(_HOURS, default=None)
    runner: RunnerOptions = declare(Part(RunnerOptions))
    needs: Mapping[str, tuple[str, ...]] = declare(Map(_WORDS), default_factory=dict)
    limits: AgentLimits = declare(Part(AgentLimits), default_factory=AgentLimits)
    review_by: str = declare(ANY_TEXT, default=PERSON)


@shape
class RelayFields:
    """A relay file."""

    relay: str = declare(TASK_ID)
    description: str = declare(ANY_TEXT, default="")
    budget: int = declare(Number(50, 1_000_000), default=1_500)
    parallel: int = declare(Number(1, 64), default=4)
    agents: Mapping[str, RelayAgent] = declare(Map(Part(RelayAgent), key=AGENT, least=1, most=100))
    legs: tuple[Leg, ...] = declare(List(Part(Leg), least=1, most=500))


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


def relay_of(document: Document) -> Relay:
    """The relay of a checked document; fields that it was written without have their defaults.

    Raises ValueError for one that isn't valid.
    """
    document, checks = check(RelayFields, document)
    try:
        fields = value_of(RelayFields, document)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(checks.errors[0].line() if checks.errors else str(error)) from error
    legs = {leg.leg: leg for leg in fields.legs}
    name, text, budget = fields.relay, fields.description, fields.budget
    return Relay(name, text, budget, dict(fields.agents), legs, fields.parallel, document)


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


def read_relay(text: str | bytes, *, is_toml: bool = False, folder: str = "") -> Relay:
    """The relay of a file's text; raises InvalidInput with every problem.

    `folder` is where the file is: files that it names are looked for there first.
    """
    return check_relay(_toml(text) if is_toml else load_yaml(text), folder=folder)


def check_relay(data: object, *, folder: str = "") -> Relay:
    """The relay of plain data; raises InvalidInput with every problem."""
    plain, checks = check(RelayFields, data)
    problems = [as_error(problem) for problem in limited_problems(checks.problems())]
    known = [problem.path for problem in problems]
    problems += [
        each
        for each in _Names(plain).problems()
        if not any(path == each.path or path.startswith(f"{each.path}.") for path in known)
    ]
    if not problems:
        problems = _unreachable(relay_of(plain))
    if problems:
        next_step = "Fix these in the file and run it again."
        raise InvalidInput(_REFUSED, problems, next_step=next_step)
    return relay_of(_with_paths(plain, folder) if folder else plain)


def relay_schema() -> Document:
    """The JSON Schema of a relay file."""
    return json_schema(RelayFields)


def _toml(text: str | bytes) -> object:
    import tomllib

    try:
        return tomllib.loads(text.decode() if isinstance(text, bytes) else text)
    except (ValueError, RecursionError) as error:
        problem = Problem("", "invalid_toml", str(error), "TOML")
        raise InvalidInput(_REFUSED, [problem]) from error


class _Names:
    """Checks the names in a relay file: agents, legs, needs, runners.

    The fields may be invalid; what isn't of its type is passed over, for it is reported already.
    """

    def __init__(self, plain: Document) -> None:
        legs = cast("list[Any]", plain.get("legs") or [])
        self._legs = [(f"legs[{i}]", leg) for i, leg in enumerate(legs) if leg and "leg" in leg]
        self._agents = cast("dict[str, Any]", plain.get("agents") or {})
        self._names = [leg["leg"] for _, leg in self._legs]

    def problems(self) -> list[Problem]:
        found: list[Problem] = []
        for place, (at, leg) in enumerate(self._legs):
            name = leg["leg"]
            if name in DIRECTIONS or self._names.index(name) != place:
                taken = "means a direction" if name in DIRECTIONS else "is taken"
                found.append(Problem(f"{at}.leg", "duplicate", f"{name!r} {taken}", "a new name"))
            found += self._unknown(f"{at}.agent", [leg["agent"]], self._agents, "an agent")
            peers = [leg["peer"]] if leg["peer"] else []
            found += self._unknown(f"{at}.peer", peers, self._agents, "an agent")
            found += self._unknown(f"{at}.joins", leg["joins"], self._names, "a leg")
            for number, rule in enumerate(each for each in leg["then"] if each):
                found += self._rule_problems(f"{at}.then[{number}]", rule)
        for name, agent in self._agents.items():
            if agent:
                found += self._agent_problems(f"agents.{name}", agent)
        return found

    def _rule_problems(self, path: str, rule: Document) -> Iterator[Problem]:
        for field in ("go", "otherwise"):
            given, where = rule[field], f"{path}.{field}"
            if given is None:
                continue
            if not given:
                yield Problem(where, "required", "is empty", "at least one leg")
            expected = f"a leg, or {', '.join(DIRECTIONS)}"
            yield from self._unknown(where, given, [*self._names, *DIRECTIONS], expected)
            if len(set(map(str, given))) < len(given):
                yield Problem(where, "duplicate", "has a duplicate", "each once")
            alone = sorted(_EXCLUSIVE.intersection(map(str, given)))
            if len(given) > 1 and alone:
                message = f"{', '.join(alone)} can't be combined with others"
                expected = "legs, or one of end, stop, wait"
                yield Problem(where, "contradiction", message, expected)
        to = rule["when"]["to"] if rule["when"] else ""
        yield from self._unknown(f"{path}.when.to", [to] if to else [], self._agents, "an agent")

    def _agent_problems(self, path: str, agent: Document) -> Iterator[Problem]:
        if agent["runner"]:
            named = [kind for kind in RUNNERS if agent["runner"][kind]]
            if len(named) != 1:
                message = f"names {' and '.join(named)}" if named else "names no runner"
                expected = f"one of {', '.join(RUNNERS)}"
                yield Problem(f"{path}.runner", "one_runner", message, expected)
        yield from self._unknown(f"{path}.needs", list(agent["needs"]), NEEDS, "a need")
        reviewers = [PERSON, *self._agents]
        yield from self._unknown(
            f"{path}.review_by", [agent["review_by"]], reviewers, "an agent, or person"
        )
        if (agent["sharing"] == "pairs") != bool(agent["separate"]):
            expected = "sharing: pairs, and in separate the peers with an own conversation"
            yield Problem(f"{path}.separate", "contradiction", "and sharing differ", expected)

    def _unknown(
        self, path: str, given: list[Any], known: Sequence[str] | Mapping[str, Any], expected: str
    ) -> Iterator[Problem]:
        for name in given:
            if isinstance(name, str) and name not in known:
                message, fix = f"{name!r:.60} is not known", ", ".join(sorted(known))
                yield Problem(path, "unknown_name", message, expected, fix)


def _unreachable(relay: Relay) -> list[Problem]:
    """Legs that nothing leads to, and joins of legs that never lead to them."""
    leads = {name: _targets(relay, leg) for name, leg in relay.legs.items()}
    reached, waiting = set[str](), [relay.first().leg]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += leads[name]
    found: list[Problem] = []
    for place, (name, leg) in enumerate(relay.legs.items()):
        path, expected = f"legs[{place}]", "a rule that does"
        if name not in reached:
            found.append(Problem(path, "unreachable", f"nothing leads to {name}", expected))
        never = ", ".join(need for need in leg.joins if name not in leads[need])
        if never:
            message = f"{never} never lead to {name}"
            found.append(Problem(f"{path}.joins", "unreachable", message, "rules that do"))
    return found


def _targets(relay: Relay, leg: Leg) -> set[str]:
    """The legs that another may lead to; below a rule that fits everything, none is read."""
    found: set[str] = set()
    for rule in relay.rules(leg):
        found.update(target for target in (*rule.go, *rule.otherwise) if target in relay.legs)
        if rule.fits_all:
            break
    return found


def _with_paths(plain: Document, folder: str) -> Document:
    """The document with every file that is beside the relay file under its full path."""
    agents: Document = {}
    for name, agent in plain["agents"].items():
        runner = dict(agent["runner"])
        runner["script"] = _beside(runner["script"], folder)
        runner["command"] = [
            _beside(word, folder) if at or os.sep in word or not shutil.which(word) else word
            for at, word in enumerate(runner["command"])
        ]
        module, _, function = runner["python"].partition(":")
        source = _beside(f"{module.replace('.', os.sep)}.py", folder) if module else ""
        if os.path.isabs(source):
            runner["python"] = f"{source}:{function}"
        paths = {key: _beside(agent[key], folder) for key in ("spec", "templates")}
        agents[name] = {**agent, "runner": runner, **paths}
    return {**plain, "agents": agents}


def _beside(name: str, folder: str) -> str:
    """The full path of a file or folder that is beside the relay file; other names unchanged."""
    path = os.path.join(os.path.abspath(folder), name)
    is_name = bool(name) and len(name) < 4_096 and "\0" not in name and name != "."
    return path if is_name and os.path.exists(path) else name


def missing_files(relay: Relay, folder: str) -> list[Problem]:
    """The files and functions of a relay that don't exist: `folder` is the workspace's."""
    found: list[Problem] = []
    for name, agent in relay.agents.items():
        for field in ("spec", "templates"):
            given = getattr(agent, field)
            if given and not os.path.exists(os.path.join(folder, given)):
                message = f"{excerpt(given, 200)!r} was not found"
                expected = "a path beside the relay file, or in the workspace"
                found.append(Problem(f"agents.{name}.{field}", "not_found", message, expected))
        try:
            agent_runner(name, agent, folder)
        except InvalidInput as error:
            found += error.problems
    return found


def agent_runner(name: str, agent: RelayAgent, folder: str) -> Runner:
    """The runner that a relay declares for an agent; its paths are relative to `folder`.

    Raises InvalidInput with all problems, each with its path in the file.
    """
    from passdown.relay.runners.command import CommandRunner
    from passdown.relay.runners.scripted import CallableRunner, ScriptedRunner

    given = agent.runner
    try:
        if given.script:
            return ScriptedRunner.from_file(os.path.join(folder, given.script))
        if given.python:
            return CallableRunner(_function(given.python, folder))
        return CommandRunner(
            given.command,
            prompt=given.prompt,
            env=given.env,
            pass_env=given.pass_env,
            max_output=given.max_output,
            timeout_s=given.timeout_s,
        )
    except InvalidInput as error:
        path = f"agents.{name}.runner"
        below = [p._replace(path=f"{path}.{p.path}" if p.path else path) for p in error.problems]
        raise InvalidInput("the runner is invalid", below) from error


def _function(name: str, folder: str) -> Any:
    """A function by `module:function` (an installed package, or in the folder) or by
    `/path/file.py:function`.
    """
    from importlib import import_module

    module, _, function = name.rpartition(":")
    if os.path.isabs(module):
        folder, module = os.path.split(module.removesuffix(".py"))
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        return getattr(import_module(module), function)
    except Exception as error:  # importing a module can raise anything
        problem = Problem("python", "not_found", f"{excerpt(name)!r}: {error}", "module:function")
        raise InvalidInput("the function was not found", [problem]) from error

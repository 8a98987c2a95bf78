"""Read and check a relay file, and make the runners that it declares."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from passdown.core.intake import as_error
from passdown.core.kinds import OUTCOMES, PHASES
from passdown.core.parsing import load_yaml
from passdown.core.schema import (
    AGENT,
    ANY_TEXT,
    TASK_ID,
    Choice,
    List,
    Map,
    Number,
    Optional,
    Part,
    check,
    declare,
    json_schema,
    shape,
)
from passdown.core.settings import NEEDS
from passdown.core.text import child_path, excerpt
from passdown.errors import InvalidInput, Problem, limited_problems
from passdown.relay.run import DEFAULT_LOOPS, DIRECTIONS, END, PERSON, STOP, WAIT, Relay, relay_of
from passdown.relay.runners.command import CommandRunner
from passdown.relay.runners.scripted import CallableRunner, ScriptedRunner

if TYPE_CHECKING:
    from passdown.relay.run import Leg, RelayAgent
    from passdown.relay.runners import Runner


_EXCLUSIVE = frozenset({END, STOP, WAIT})
RUNNERS = ("command", "script", "python")


NAMES = List(ANY_TEXT, most=100, takes_one=True)
WORDS = List(ANY_TEXT, most=1_000, takes_one=True)


@shape
class WhenFields:
    """What a rule matches."""

    outcome: tuple[str, ...] = declare(List(Choice(*OUTCOMES, "error"), takes_one=True), default=())
    to: str = declare(AGENT, default="")
    gate: str = declare(Choice("", "approved", "rejected"), default="")


@shape
class RuleFields:
    """Where to go after a leg."""

    when: WhenFields = declare(Part(WhenFields), default_factory=WhenFields)
    go: tuple[str, ...] = declare(NAMES)
    at_most: int = declare(Number(0, 1_000), default=0)
    otherwise: tuple[str, ...] = declare(NAMES, default=(STOP,))


@shape
class LegFields:
    """One agent's turn."""

    leg: str = declare(TASK_ID)
    agent: str = declare(AGENT)
    request: str = declare(ANY_TEXT, default="")
    phase: str = declare(Choice("", *PHASES), default="")
    gate: str = declare(ANY_TEXT, default="")
    joins: tuple[str, ...] = declare(NAMES, default=())
    then: tuple[RuleFields, ...] = declare(List(Part(RuleFields)), default=())


@shape
class RunnerFields:
    """What runs an agent: one of command, script and python, with its options."""

    command: tuple[str, ...] = declare(WORDS, default=())
    script: str = declare(ANY_TEXT, default="")
    python: str = declare(ANY_TEXT, default="")
    prompt: str = declare(Choice("stdin", "argument", "file"), default="stdin")
    env: Mapping[str, str] = declare(Map(ANY_TEXT), default_factory=dict)
    pass_env: tuple[str, ...] | None = declare(Optional(WORDS), default=None)
    max_output: int = declare(Number(1_000, 1_000_000_000), default=1_000_000)


@shape
class LimitFields:
    """Limits of an agent."""

    loops: int = declare(Number(1, 1_000), default=DEFAULT_LOOPS)
    context_tokens: int = declare(Number(1_000, 100_000_000), default=100_000)
    seconds: float = declare(Number(0, 604_800, is_float=True), default=600.0)


@shape
class AgentFields:
    """An agent of a relay."""

    profile: str = declare(AGENT, default="")
    runner: RunnerFields = declare(Part(RunnerFields))
    needs: Mapping[str, tuple[str, ...]] = declare(Map(WORDS), default_factory=dict)
    limits: LimitFields = declare(Part(LimitFields), default_factory=LimitFields)
    review_by: str = declare(ANY_TEXT, default=PERSON)


@shape
class RelayFields:
    """A relay file."""

    relay: str = declare(TASK_ID)
    description: str = declare(ANY_TEXT, default="")
    budget: int = declare(Number(50, 1_000_000), default=1_500)
    parallel: int = declare(Number(1, 64), default=4)
    agents: Mapping[str, AgentFields] = declare(
        Map(Part(AgentFields), key=AGENT, least=1, most=100)
    )
    legs: tuple[LegFields, ...] = declare(List(Part(LegFields), least=1, most=500))


def read_relay(text: str | bytes, *, is_toml: bool = False) -> Relay:
    """The relay of a file's text; raises InvalidInput with every problem."""
    return check_relay(_toml(text) if is_toml else load_yaml(text))


def check_relay(data: object) -> Relay:
    """The relay of plain data; raises InvalidInput with every problem."""
    plain, checks = check(RelayFields, data)
    problems = [as_error(problem) for problem in limited_problems(checks.problems())]
    if not checks.errors:
        problems += _broken_rules(plain)
    if problems:
        raise InvalidInput(
            "the relay is refused; nothing was started",
            problems,
            next_step="Fix these in the file and run it again.",
        )
    return relay_of(plain)


def relay_schema() -> dict[str, Any]:
    """The JSON Schema of a relay file."""
    return json_schema(RelayFields)


def _toml(text: str | bytes) -> object:
    import tomllib

    try:
        return tomllib.loads(text.decode() if isinstance(text, bytes) else text)
    except (ValueError, RecursionError) as error:
        problem = Problem("", "invalid_toml", str(error), "TOML")
        raise InvalidInput("the relay is refused; nothing was started", [problem]) from error


def _broken_rules(plain: Mapping[str, Any]) -> list[Problem]:
    names = [given["leg"] for given in plain["legs"]]
    known = {*names, *DIRECTIONS}
    found: list[Problem] = []
    for place, given in enumerate(plain["legs"]):
        at = f"legs[{place}]"
        if given["leg"] in DIRECTIONS or names.index(given["leg"]) != place:
            taken = "means a direction" if given["leg"] in DIRECTIONS else "is taken"
            found.append(
                Problem(f"{at}.leg", "duplicate", f"{given['leg']!r} {taken}", "a new name")
            )
        found += _unknown(
            f"{at}.agent", [given["agent"]], set(plain["agents"]), "an agent of the file"
        )
        found += _unknown(f"{at}.joins", given["joins"], set(names), "a leg of the file")
        for number, rule in enumerate(given["then"]):
            where = f"{at}.then[{number}]"
            for field in ("go", "otherwise"):
                found += _direction_problems(f"{where}.{field}", rule[field], known)
            if rule["when"]["to"]:
                agents = set(plain["agents"])
                found += _unknown(
                    f"{where}.when.to", [rule["when"]["to"]], agents, "an agent of the file"
                )
    for name, given in plain["agents"].items():
        found += _runner_problems(f"agents.{name}.runner", given["runner"])
        found += _unknown(f"agents.{name}.needs", list(given["needs"]), set(NEEDS), "a need")
        reviewers = {PERSON, *plain["agents"]}
        found += _unknown(
            f"agents.{name}.review_by", [given["review_by"]], reviewers, "an agent, or person"
        )
    return found + _unreachable(plain)


def _direction_problems(path: str, given: list[str], known: set[str]) -> list[Problem]:
    if not given:
        return [Problem(path, "required", "is empty", "at least one leg")]
    found = _unknown(path, given, known, "a leg, or end, stop, again, wait")
    if len(set(given)) < len(given):
        found.append(Problem(path, "duplicate", "has a duplicate", "each once"))
    if len(given) > 1 and not _EXCLUSIVE.isdisjoint(given):
        message = (
            f"{', '.join(sorted(_EXCLUSIVE.intersection(given)))} can't be combined with others"
        )
        found.append(Problem(path, "contradiction", message, "legs, or one of end, stop, wait"))
    return found


def _unknown(path: str, given: list[str], known: set[str], expected: str) -> list[Problem]:
    return [
        Problem(
            path, "unknown_name", f"{name!r:.60} is not known", expected, ", ".join(sorted(known))
        )
        for name in given
        if name not in known
    ]


def _runner_problems(path: str, runner: Mapping[str, Any]) -> list[Problem]:
    named = [kind for kind in RUNNERS if runner[kind]]
    if len(named) == 1:
        return []
    message = f"names {' and '.join(named)}" if named else "names no runner"
    return [Problem(path, "one_runner", message, f"one of {', '.join(RUNNERS)}")]


def _unreachable(plain: Mapping[str, Any]) -> list[Problem]:
    """Legs that nothing leads to, and joins of legs that never lead to them."""
    relay = relay_of(cast("dict[str, Any]", plain)) if not _has_unknown(plain) else None
    if relay is None:
        return []
    leads = {name: _targets(leg, relay.legs) for name, leg in relay.legs.items()}
    reached, waiting = set[str](), [relay.first().name]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += leads[name]
    found: list[Problem] = []
    for place, name in enumerate(relay.legs):
        if name not in reached:
            found.append(
                Problem(
                    f"legs[{place}]", "unreachable", f"nothing leads to {name}", "a rule that does"
                )
            )
        never = [need for need in relay.legs[name].joins if name not in leads[need]]
        if never:
            message = f"{', '.join(never)} never lead to {name}"
            found.append(Problem(f"legs[{place}].joins", "unreachable", message, "rules that do"))
    return found


def _targets(leg: Leg, legs: Mapping[str, Leg]) -> set[str]:
    """The legs that another may lead to; below a rule that fits everything, none is read."""
    found: set[str] = set()
    for rule in leg.rules:
        found.update(target for target in (*rule.go, *rule.otherwise) if target in legs)
        if not (rule.outcomes or rule.to or rule.gate):
            break
    return found


def _has_unknown(plain: Mapping[str, Any]) -> bool:
    names = {given["leg"] for given in plain["legs"]}
    if len(names) != len(plain["legs"]):
        return True
    named = {need for given in plain["legs"] for need in given["joins"]}
    return not named <= names


_OPTIONS = ("prompt", "env", "pass_env", "timeout_s", "max_output", "max_stderr", "cwd")
_NUMBERS = ("timeout_s", "max_output", "max_stderr")


def agent_runner(agent: RelayAgent, folder: str) -> Runner:
    """The runner that a checked relay file declares for an agent; raises InvalidInput."""
    declared = agent.runner
    kind = next(kind for kind in RUNNERS if declared[kind])
    names = (kind, *(("prompt", "env", "pass_env", "max_output") if kind == "command" else ()))
    given = {name: declared[name] for name in names if declared[name] is not None}
    return runner_of(given, folder=folder, path=f"agents.{agent.name}.runner")


def runner_of(declared: object, *, folder: str, path: str = "runner") -> Runner:
    """The runner of a declaration; its paths are relative to `folder`.

    Raises InvalidInput with all problems, each with a path below `path`.
    """
    if not isinstance(declared, Mapping):
        given = f"{type(declared).__name__} given"
        expected = f"a mapping with one of {', '.join(RUNNERS)}"
        problem = Problem(path, "wrong_type", given, expected)
        raise InvalidInput("the runner is invalid", [problem])
    fields = {str(name): value for name, value in cast("Mapping[Any, Any]", declared).items()}
    kinds = [kind for kind in RUNNERS if kind in fields]
    problems: list[Problem] = []
    if len(kinds) != 1:
        message = f"has {' and '.join(kinds) or 'none of them'}"
        problems.append(Problem(path, "required", message, f"one of {', '.join(RUNNERS)}"))
    known = (*kinds, *(_OPTIONS if "command" in kinds else ()))
    for name in fields.keys() - set(known) if kinds else ():
        where = child_path(path, name)
        problems.append(Problem(where, "unknown_field", "unknown field", ", ".join(known)))
    if problems:
        raise InvalidInput("the runner is invalid", problems)
    try:
        return _MAKERS[kinds[0]](fields, folder)
    except InvalidInput as error:
        below = [p._replace(path=f"{path}.{p.path}" if p.path else path) for p in error.problems]
        raise InvalidInput("the runner is invalid", below) from error


def _script(fields: dict[str, Any], folder: str) -> Runner:
    script = fields["script"]
    if not isinstance(script, str) or not script:
        problem = Problem(
            "script", "wrong_type", f"{excerpt(str(script))!r} isn't a path", "a path"
        )
        raise InvalidInput("the script is invalid", [problem])
    return ScriptedRunner.from_file(os.path.join(folder, script))


def _command(fields: dict[str, Any], folder: str) -> Runner:
    options: dict[str, Any] = dict(fields)
    for name in _NUMBERS:
        if name in options:
            options[name] = _number(options[name])
    argv = options.pop("command")
    cwd = options.get("cwd")
    if isinstance(cwd, str) and cwd:
        options["cwd"] = os.path.join(folder, cwd)
    return CommandRunner(argv, **options)


def _python(fields: dict[str, Any], folder: str) -> Runner:
    """A function by `module:function`, from an installed package or the project's folder."""
    name = str(fields["python"])
    module, _, function = name.partition(":")
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        found = getattr(import_module(module), function)
    except Exception as error:  # importing a module can raise anything
        problem = Problem("python", "not_found", f"{excerpt(name)!r}: {error}", "module:function")
        raise InvalidInput("the function was not found", [problem]) from error
    return CallableRunner(found)


_MAKERS = {"command": _command, "script": _script, "python": _python}


def _number(value: object) -> object:
    """A number that a YAML file gives as text; anything else unchanged."""
    if isinstance(value, str) and value.isascii() and len(value) < 20:
        for kind in (int, float):
            try:
                return kind(value)
            except ValueError:
                continue
    return value

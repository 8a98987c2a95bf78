"""Relay files: their declared fields, the checks that need several of them, and their runners."""

from __future__ import annotations

import os
import re
import shutil
import sys
from typing import TYPE_CHECKING, Any, cast

from passdown.core.intake import as_error
from passdown.core.parsing import load_yaml
from passdown.core.schema import JSON_TYPES, check, json_schema
from passdown.core.settings import NEEDS
from passdown.core.text import excerpt
from passdown.errors import InvalidInput, Problem, limited_problems
from passdown.relay import run
from passdown.relay.prompts import Templates
from passdown.workspace.streams import WorkspaceStreams

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from passdown.relay.run import Leg, Relay, RelayAgent
    from passdown.relay.runners import Runner
    from passdown.workspace import Workspace

    Document = dict[str, Any]

RUNNERS = ("command", "script", "python")

_EXCLUSIVE = frozenset({run.END, run.STOP, run.WAIT})
_REFUSED = "the relay is refused; nothing was started"


def read_relay(
    text: str | bytes,
    *,
    is_toml: bool = False,
    folder: str = "",
    workspace: Workspace | None = None,
    task: str = "",
) -> Relay:
    """The relay of a file's text; raises InvalidInput with every problem.

    `folder` is where the file is: files that it names are looked for there first. With a workspace,
    everything that it names has to exist: files, programs, functions, profiles, and the
    specification of the task.
    """
    data = _toml(text) if is_toml else load_yaml(text)
    return check_relay(data, folder=folder, workspace=workspace, task=task)


def check_relay(
    data: object, *, folder: str = "", workspace: Workspace | None = None, task: str = ""
) -> Relay:
    """The relay of plain data; raises InvalidInput with every problem."""
    streams = WorkspaceStreams(workspace) if workspace is not None else None
    phases = streams.settings.phases if streams is not None and streams.is_local else ()
    plain, checks = check(run.RelayFields, data, phases)
    problems = [as_error(each) for each in limited_problems(checks.problems())]
    for at, problem in enumerate(problems):
        if problem.path.endswith(".runner.command") and problem.code == "wrong_type":
            message, fix = "has to be a list: no shell reads it", "write [python3, agent.py]"
            problems[at] = problem._replace(message=message, fix=fix)
    known = "".join(f"\n{problem.path}." for problem in problems)
    problems += [each for each in _Names(plain).problems() if f"\n{each.path}." not in known]
    if plain.get("legs") and not any(each.path.startswith("legs") for each in problems):
        problems += _unreachable(run.relay_of({"relay": "", **plain, "agents": {}}))
    plain = _with_paths(plain, folder) if folder else plain
    if workspace is not None:
        known = [problem.path for problem in problems]
        found = _Files(workspace, task).problems(plain)
        # Of what is wrong with a part, or with what it is a part of, once is enough.
        problems += [
            each
            for each in found
            if not any(each.path.startswith(path) or path.startswith(each.path) for path in known)
        ]
    if problems:
        next_step = "Fix these in the file and run it again."
        raise InvalidInput(_REFUSED, problems, next_step=next_step)
    return run.relay_of(plain)


def relay_schema() -> Document:
    """The JSON Schema of a relay file."""
    return json_schema(run.RelayFields)


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
            if name in run.DIRECTIONS or self._names.index(name) != place:
                taken = "means a direction" if name in run.DIRECTIONS else "is taken"
                found.append(Problem(f"{at}.leg", "duplicate", f"{name!r} {taken}", "a new name"))
            found += self._unknown(f"{at}.agent", [leg["agent"]], self._agents, "an agent")
            peers = [leg["peer"]] if leg["peer"] else []
            found += self._unknown(f"{at}.peer", peers, self._agents, "an agent")
            found += self._unknown(f"{at}.joins", leg["joins"], self._names, "a leg")
            payload = cast("dict[str, Any]", leg.get("payload") or {})
            for field, given in payload.items():
                found += _payload_problems(f"{at}.payload.{field}", given)
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
            expected = f"a leg, or {', '.join(run.DIRECTIONS)}"
            yield from self._unknown(where, given, [*self._names, *run.DIRECTIONS], expected)
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
        reviewers, expected = [run.PERSON, *self._agents], "an agent, or person"
        yield from self._unknown(f"{path}.review_by", [agent["review_by"]], reviewers, expected)
        if (agent["sharing"] == "pairs") != bool(agent["separate"]):
            message = "separate and sharing: pairs are only used together"
            expected = "sharing: pairs with the peers that have a conversation of their own"
            yield Problem(f"{path}.separate", "contradiction", message, f"{expected}, or neither")

    def _unknown(
        self, path: str, given: list[Any], known: Sequence[str] | Mapping[str, Any], expected: str
    ) -> Iterator[Problem]:
        for name in given:
            if isinstance(name, str) and name not in known:
                message, fix = f"{name!r:.60} is not known", ", ".join(sorted(known))
                yield Problem(path, "unknown_name", message, expected, fix)


_PAYLOAD = (
    *("type", "enum", "minimum", "maximum", "maxLength", "pattern", "items", "properties"),
    *("required", "minItems", "maxItems", "description"),
)
"""The keywords of JSON Schema that a payload is checked by."""


def _payload_problems(path: str, given: Any) -> Iterator[Problem]:
    """What is wrong with a field of a payload: a type that there isn't, or another keyword."""
    try:
        field = run.payload_field(given)
    except AttributeError:  # it is no schema, or a part of it is none
        field = {}
    if not (field.get("type") or field.get("enum")):
        yield Problem(path, "wrong_type", "is no type", "a type, a list of choices or a schema")
        return
    if odd := [name for name in field if name not in _PAYLOAD]:
        named, expected = ", ".join(map(str, odd))[:80], ", ".join(_PAYLOAD)
        yield Problem(path, "unknown_field", named, expected)
    kinds: Any = field.get("type", "string")
    for kind in cast("list[Any]", kinds) if isinstance(kinds, list) else [kinds]:
        if kind not in JSON_TYPES:
            yield Problem(path, "invalid_choice", f"{kind!r:.40}", " | ".join(JSON_TYPES))


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
        if rule.when == run.When():
            break
    return found


def _with_paths(plain: Document, folder: str) -> Document:
    """The document with every file that is beside the relay file under its full path."""
    agents: Document = dict(plain.get("agents") or {})
    for name, agent in agents.items():
        if not agent:
            continue
        paths = {key: _beside(agent[key], folder) for key in ("spec", "templates")}
        runner = dict(agent["runner"] or {})
        if runner:
            runner["script"] = _beside(runner["script"], folder)
            words = list(runner["command"])
            for at, word in enumerate(words):
                # Not a program that is installed, and no folder.
                if word != "." and (at or os.sep in word or not shutil.which(word)):
                    words[at] = _beside(word, folder)
            runner["command"] = words
            module, _, function = (runner["python"] or "").partition(":")
            source = _beside(f"{module.replace('.', os.sep)}.py", folder) if module else ""
            if os.path.isabs(source):
                runner["python"] = f"{source}:{function}"
        agents[name] = {**agent, "runner": runner, **paths}
    return {**plain, "agents": agents}


def _beside(name: str, folder: str) -> str:
    """The full path of a file or folder that is beside the relay file; other names unchanged."""
    if type(name) is not str or not 0 < len(name) < 4_096 or "\0" in name:
        return name  # refused elsewhere, if it isn't only empty
    path = os.path.normpath(os.path.join(os.path.abspath(folder), name))
    return path if os.path.exists(path) else name


_INTERPRETER = re.compile(r"(python|pypy|node|deno|bash|sh|zsh|ruby|perl|php)[0-9.]*")
_SCRIPT = re.compile(r"[^\s-]\S*\.(py|sh|js|mjs|cjs|ts|rb|pl|php)")


class _Files:
    """Looks for everything that the agents of a relay name: before a run, so that nothing missing
    stops it half-way or is left out silently.
    """

    def __init__(self, workspace: Workspace, task: str) -> None:
        self._workspace, self._root, self._task = workspace, workspace.root, task

    def problems(self, plain: Document) -> Iterator[Problem]:
        for name, agent in plain["agents"].items() if plain.get("agents") else ():
            if agent:
                path = f"agents.{name}"
                yield from self._spec(path, agent)
                yield from self._templates(path, agent["templates"])
                yield from self._profile(path, name, agent["profile"])
                yield from self._runner(path, name, agent["runner"])

    def _absent(self, path: str, given: str) -> Iterator[Problem]:
        if given and not os.path.exists(os.path.join(self._root, given)):
            message = f"{excerpt(given, 200)!r} was not found"
            expected = "a path beside the relay file, or in the workspace"
            yield Problem(path, "not_found", message, expected)

    def _spec(self, path: str, agent: Document) -> Iterator[Problem]:
        """A specification is a file; or a folder, for one whose conversations have a task."""
        given = agent["spec"]
        yield from self._absent(f"{path}.spec", given)
        folder = os.path.join(self._root, given or "")
        if not given or not os.path.isdir(folder):
            return
        if agent["memory"] == "project" or agent["sharing"] != "off":
            which = "memory: project" if agent["memory"] == "project" else "sharing"
            message = f"is a folder, but with {which} a conversation is about no single task"
            yield Problem(f"{path}.spec", "contradiction", message, "a file")
        elif self._task and not os.path.isfile(os.path.join(folder, f"{self._task}.md")):
            message = f"{excerpt(given, 200)!r} has no {self._task}.md"
            yield Problem(f"{path}.spec", "not_found", message, "a file for the task, or no spec")

    def _templates(self, path: str, given: str) -> Iterator[Problem]:
        folder = os.path.join(self._root, given or "")
        if given and not os.path.isdir(folder):
            yield from self._absent(f"{path}.templates", given)
        elif given:
            for each in Templates(folder).problems():
                where = f"{path}.templates"
                yield each._replace(path=where, message=f"{each.path}: {each.message}")

    def _profile(self, path: str, name: str, given: str) -> Iterator[Problem]:
        context = self._workspace.context
        if given not in ("", None, name) and context.profile(given) is None:
            known = ", ".join(context.agents()) or "there are none yet"
            message, expected = f"{given!r:.80} is not known", "a profile of the workspace"
            yield Problem(f"{path}.profile", "unknown_name", message, expected, known)

    def _runner(self, path: str, name: str, runner: Document | None) -> Iterator[Problem]:
        if not runner or sum(bool(runner[kind]) for kind in RUNNERS) != 1:
            return
        document: Document = {"relay": "", "agents": {name: {"runner": runner}}, "legs": []}
        try:
            agent_runner(name, run.relay_of(document).agents[name], self._root)
        except InvalidInput as error:
            yield from error.problems
        if runner["command"]:
            yield from self._program(f"{path}.runner.command", runner["command"], runner["env"])

    def _program(self, path: str, words: list[str], env: Mapping[str, str]) -> Iterator[Problem]:
        """A program that isn't there, or the file that an interpreter is to execute."""
        if os.sep in words[0]:
            yield from self._absent(path, words[0])
        elif not shutil.which(words[0], path=(env or {}).get("PATH")):
            message = f"the program {excerpt(words[0])!r} was not found"
            yield Problem(path, "not_found", message, "one that is installed, or beside the file")
        script = next((word for word in words[1:] if not word.startswith("-")), "")
        if _INTERPRETER.fullmatch(os.path.basename(words[0])) and _SCRIPT.fullmatch(script):
            yield from self._absent(path, script)


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
        options = given._asdict()
        return CommandRunner(options.pop("command"), **options)
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

"""Agents' files on disk: profiles, the tool registry, rules and sessions.

A profile is NAME.md; its text is passed on unchanged and only its front matter is read. A missing
or broken registry, rule or session file is reported, never raised.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Any, NamedTuple, cast

from passdown.core.names import agent_problems, id_problems
from passdown.core.schema import ANY_TEXT, COUNT, TRUTH, Checks, List, Map, Number, Type
from passdown.core.settings import parse_needs
from passdown.core.text import child_path, excerpt, visible
from passdown.errors import InvalidInput, Problem, StoreUnavailable
from passdown.ledger.durable_files import named_lock, replace_file
from passdown.ledger.project_files import read_beneath

FOLDERS = ("agents", ".claude/agents", ".passdown/agents")
"""Where profiles are looked for when no folder is named; the first that is there counts."""
MAX_BYTES = 1_048_576
ENDING = ".md"
_NOT_AGENTS = frozenset({"readme"})


class Profile(NamedTuple):
    """An agent's profile.

    `text` is the whole file, byte for byte once encoded; it is empty when the file can't be used,
    which `problems` then says. `needs` is what the agent has to get with a handoff, `tools` what
    the registry gives it.
    """

    name: str
    text: str
    path: str
    needs: dict[str, list[str]]
    tools: tuple[Tool, ...]
    problems: tuple[Problem, ...]


class Profiles:
    """The profiles of a project: from `folder`, or the first of `FOLDERS` beneath its root."""

    def __init__(self, root: str, folder: str = "", registry: str = "") -> None:
        self.root = root
        self.folder = os.path.join(root, folder) if folder else _first_folder(root)
        self._registry = registry

    @cached_property
    def registry(self) -> Registry:
        """The tool registry, read once; empty when there is none or it can't be used."""
        path = os.path.join(self.root, self._registry) if self._registry else ""
        return load_registry(path, self._registry)

    def names(self) -> tuple[str, ...]:
        """The agents that have a profile, in order."""
        try:
            files = os.listdir(self.folder) if self.folder else []
        except (OSError, ValueError):  # a folder's name with a NUL in it is a ValueError
            return ()
        stems = [name.removesuffix(ENDING) for name in files if name.endswith(ENDING)]
        found = (
            (s, read_beneath(self.folder, s + ENDING, MAX_BYTES)) for s in stems if _is_name(s)
        )
        return tuple(sorted(stem for stem, text in found if not isinstance(text, Problem)))

    def get(self, name: str) -> Profile | None:
        """The profile of an agent; None when it has none or no agent can be called so."""
        if not self.folder or not _is_name(name):
            return None
        path = os.path.join(self.folder, name + ENDING)
        text = text_beneath(self.folder, name + ENDING)
        if isinstance(text, Problem):
            if text.code == "missing_file":
                return None
            return Profile(name, "", path, {}, (), (text._replace(path=excerpt(path, 200)),))
        problems: list[Problem] = []
        needs = _declared(name, text, problems)
        relative = os.path.relpath(path, self.root)
        shown = excerpt(path if relative.startswith("..") else relative, 200)
        named = with_file_name(shown, problems)
        tools = self.registry.tools_for(name)
        return Profile(name, text, path, needs, tools, (*named, *self.registry.problems))


def text_beneath(folder: str, name: str) -> str | Problem:
    """The text of a regular file in a folder, or why there is none to be had."""
    data = read_beneath(folder, name, MAX_BYTES)
    if isinstance(data, Problem):
        return data
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        return Problem(name, "invalid_utf8", f"byte {error.start} is not UTF-8", "UTF-8 text")


def _first_folder(root: str) -> str:
    """The first of the usual folders that is there; one that leads out of the project isn't."""
    real_root = os.path.realpath(root)
    for folder in FOLDERS:
        path = os.path.join(root, *folder.split("/"))
        real = os.path.realpath(path)
        if os.path.isdir(real) and os.path.commonpath([real_root, real]) == real_root:
            return path
    return ""


def _is_name(name: str) -> bool:
    # The rules of an agent's name leave no separator, no leading dot and no device.
    return not agent_problems(name, "agent") and name.casefold() not in _NOT_AGENTS


def _declared(name: str, text: str, problems: list[Problem]) -> dict[str, list[str]]:
    """What the front matter declares that the agent needs; its faults become warnings."""
    from passdown.core.parsing import load_yaml

    found: list[Problem] = []
    needs: dict[str, list[str]] = {}
    try:
        document = load_yaml(_front_matter(text))
    except InvalidInput as error:
        document = None
        found += [p._replace(path="front matter") for p in error.problems]
    fields = cast("dict[str, object]", document) if isinstance(document, dict) else {}
    if document is not None and not isinstance(document, dict):
        kind = type(document).__name__
        found.append(Problem("front matter", "wrong_type", f"{kind} given", "fields"))
    if fields.get("needs") is not None:
        needs = parse_needs(_truths(fields["needs"]), "needs", found)
    if fields.get("name") not in (None, name):
        message = f"says {excerpt(str(fields['name']))!r}"
        found.append(Problem("name", "name_differs", message, f"{name}, as the file is called"))
    problems += [problem._replace(level="warning") for problem in found]
    return needs


def _front_matter(text: str) -> str:
    """The YAML between a first line `---` and the next one; empty when there is none."""
    lines = text.removeprefix("\ufeff").split("\n")
    if lines[0].rstrip() != "---":
        return ""
    for end, line in enumerate(lines[1:], 1):
        if line.rstrip() == "---":
            return "\n".join(lines[1:end])
    return ""


def _truths(needs: object) -> object:
    """Needs with `plan: true` as a truth value: YAML's plain scalars come as text."""
    if not isinstance(needs, dict):
        return needs
    words: dict[object, object] = {"true": True, "false": False}
    return {
        key: words.get(value, value) if key == "plan" and isinstance(value, str) else value
        for key, value in cast("dict[str, object]", needs).items()
    }


LOADED = ("always_loaded", "frequently_used")
DEFERRED = "deferred"
_COSTS = ("tokens", "token_cost", "tokenCost", "estimated_tokens")


class Tool(NamedTuple):
    """A tool as the registry describes it; `defer` when it is loaded only on request.

    Tier 1 is always loaded, 2 with the agents that use it, 3 is outside and found by search.
    """

    name: str
    tier: int = 1
    layer: str = ""
    defer: bool = False
    tokens: int = 0
    category: str = ""


_TOOL: dict[str, Type] = {
    "tier": Number(1, 3),
    "layer": ANY_TEXT,
    "defer": TRUTH,
    "tokens": COUNT,
    "category": ANY_TEXT,
}


class Registry(NamedTuple):
    """Tools by name, the names of each agent's tools by how they are loaded, tasks by executor."""

    tools: dict[str, Tool] = {}  # noqa: RUF012
    profiles: dict[str, dict[str, tuple[str, ...]]] = {}  # noqa: RUF012
    executors: dict[str, str] = {}  # noqa: RUF012
    problems: tuple[Problem, ...] = ()

    def tools_for(self, agent: str) -> tuple[Tool, ...]:
        """The tools of an agent, those on request last; without a profile, all of tier 1."""
        profile = self.profiles.get(agent)
        if profile is None:
            return tuple(tool for tool in self.tools.values() if tool.tier == 1)
        found: dict[str, Tool] = {}
        for how in (*LOADED, DEFERRED):
            for name in profile.get(how, ()):
                if name in self.tools:
                    tool = self.tools[name]._replace(defer=how == DEFERRED)
                    found.setdefault(name, tool)
        return tuple(found.values())


def tools_text(tools: Iterable[Tool]) -> str:
    """Tools as one or two short lines: those that are loaded, and those on request."""
    listed = list(tools)
    lines = [
        f"{label}: {', '.join(names)}"
        for label, is_deferred in (("Tools", False), ("On request", True))
        if (names := [visible(tool.name) for tool in listed if tool.defer is is_deferred])
    ]
    return "\n".join(lines)


def load_registry(path: str, name: str = "") -> Registry:
    """The registry in a YAML file; never raises. An empty path means that there is none.

    `name` is what its problems call the file; its path, when left out.
    """
    if not path:
        return Registry()
    from passdown.core.parsing import load_yaml

    file = excerpt(name or path, 200)
    data = read_beneath(*os.path.split(path), MAX_BYTES)
    if isinstance(data, Problem):
        if data.code == "missing_file":
            expected = "a file, or no [agents] registry in the settings"
            message = f"{file} isn't there"
            return Registry(problems=(_warning("registry", "missing_registry", message, expected),))
        return Registry(problems=(_warning("registry", data.code, f"{file}: {data.message}"),))
    try:
        document = load_yaml(data, max_bytes=MAX_BYTES)
    except InvalidInput as error:
        warnings = [problem._replace(level="warning") for problem in error.problems]
        return Registry(problems=with_file_name(file, warnings))
    reading = _RegistryReader()
    fields = reading.mapping(document, "")
    tools = reading.tools(fields.get("tools"))
    profiles = reading.profiles(fields.get("profiles"), tools)
    executors = reading.executors(fields.get("task_bindings"))
    return Registry(tools, profiles, executors, with_file_name(file, reading.problems))


def with_file_name(file: str, problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Problems with the name of the file that they are in before their paths."""
    return tuple(p._replace(path=f"{file}: {p.path}" if p.path else file) for p in problems)


def _warning(path: str, code: str, message: str, expected: str = "") -> Problem:
    return Problem(path, code, message, expected, "the rest is used without it", "warning")


def _fields(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


class _RegistryReader:
    """Reads the parts of a registry; what is wrong becomes a warning, and its default is used."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def _read(self, kind: Type, value: object, path: str, default: Any) -> Any:
        """A value of a type; what isn't given at all is no fault."""
        if value is None:
            return default
        checks = Checks()
        found: object = kind.read(value, path, checks)
        self.problems += [
            _warning(problem.path, problem.code, problem.message, problem.expected)
            for problem in checks.errors
        ]
        is_usable = isinstance(found, list) or not checks.errors
        return cast("Any", found) if is_usable else default

    def mapping(self, value: object, path: str) -> dict[str, Any]:
        """A mapping, or an empty one with a warning."""
        return self._read(Map(), value, path, {})

    def tools(self, value: object) -> dict[str, Tool]:
        """Tools by name, or as a list whose entries have one."""
        entries: list[tuple[object, str, object]]
        if isinstance(value, list):
            listed = enumerate(cast("list[object]", value))
            entries = [(_fields(each).get("name", each), f"tools[{i}]", each) for i, each in listed]
        else:
            given = self.mapping(value, "tools")
            entries = [(name, child_path("tools", name), each) for name, each in given.items()]
        found: dict[str, Tool] = {}
        for name, path, each in entries:
            if not isinstance(name, str) or not isinstance(each, dict | str | None):
                given_type = f"{type(each).__name__} given"
                self.problems.append(_warning(path, "wrong_type", given_type, "a tool's fields"))
                continue
            fields = _fields(cast("object", each))
            costs = (fields[cost] for cost in _COSTS if fields.get(cost) is not None)
            fields = {**fields, "tokens": next(costs, None)}
            defaults = Tool(name)
            values = {
                part: self._read(kind, fields.get(part), f"{path}.{part}", getattr(defaults, part))
                for part, kind in _TOOL.items()
            }
            found[name] = Tool(name, **values)
        return found

    def profiles(
        self, value: object, tools: dict[str, Tool]
    ) -> dict[str, dict[str, tuple[str, ...]]]:
        """The names of each agent's tools; a profile of which nothing can be read is none."""
        found: dict[str, dict[str, tuple[str, ...]]] = {}
        for agent, given in self.mapping(value, "profiles").items():
            path = child_path("profiles", agent)
            if fields := self.mapping(given, path):
                found[agent] = {
                    how: tuple(self._names(fields.get(how), f"{path}.{how}", tools))
                    for how in (*LOADED, DEFERRED)
                }
        return found

    def _names(self, value: object, path: str, tools: dict[str, Tool]) -> Iterator[str]:
        for index, name in enumerate(self._read(List(ANY_TEXT), value, path, [])):
            if name in tools if isinstance(name, str) else False:
                yield name
            elif isinstance(name, str):
                message = f"'{excerpt(name)}' isn't among the tools"
                self.problems.append(_warning(f"{path}[{index}]", "unknown_tool", message))

    def executors(self, value: object) -> dict[str, str]:
        """The executor of each kind of task: the value itself, or its `executor` or `agent`."""
        found: dict[str, str] = {}
        for task_type, given in self.mapping(value, "task_bindings").items():
            fields = _fields(given)
            agent = fields.get("executor") or fields.get("agent") if fields else given
            name = self._read(ANY_TEXT, agent, child_path("task_bindings", task_type), "")
            found |= {task_type: name} if name else {}
        return found


class SessionFiles:
    """The sessions of a workspace, one JSON file each, named by the session's id."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def path(self, id: str) -> str:
        """A session's file; an id that could lead out of the folder is refused."""
        if problems := id_problems(id, "session"):
            raise InvalidInput("the session's id can't be used", problems)
        return os.path.join(self.folder, f"{id}.json")

    @contextmanager
    def alone(self, problems: list[Problem]) -> Generator[None]:
        """Let prompts follow one another; where that can't be had, go on with a warning."""
        with ExitStack() as stack:
            try:
                stack.enter_context(named_lock(os.path.join(self.folder, ".locks"), "sessions"))
            except StoreUnavailable as error:
                problems.append(session_warning("session_not_locked", error.message))
            yield

    def read(self, id: str, problems: list[Problem]) -> object:
        """The JSON document of a session; None where there is none, or a broken one (a warning)."""
        text = text_beneath(self.folder, os.path.basename(self.path(id)))
        if isinstance(text, Problem):
            if text.code != "missing_file":
                problems.append(session_warning("session_broken", f"{text.message}; starts again"))
            return None
        try:
            return json.loads(text) or {}
        except (ValueError, RecursionError) as error:
            problems.append(session_warning("session_broken", f"{error}; starts again"))
            return None

    def write(self, id: str, document: object, problems: list[Problem]) -> None:
        """Save a session, whole or not at all; a failure is a warning."""
        try:
            replace_file(self.path(id), json.dumps(document, indent=2, allow_nan=False) + "\n")
        except StoreUnavailable as error:
            problems.append(session_warning("session_not_saved", error.message))


def session_warning(code: str, message: str) -> Problem:
    """Something about a session that doesn't keep a prompt from being served."""
    return Problem("session", code, message, level="warning")

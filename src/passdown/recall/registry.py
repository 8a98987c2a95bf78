"""The tool registry: which tools an agent has, and which agent does a kind of task.

An aid, never a condition: a registry that is missing, broken or half right leaves out what can't be
used and says so in warnings.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, NamedTuple, cast

from passdown.errors import InvalidInput, Problem
from passdown.model.text import child_path, excerpt, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_BYTES = 1_048_576
TIERS = (1, 2, 3)
"""1: always loaded; 2: loaded with the agents that use it; 3: outside, found by search."""
LOADED = ("always_loaded", "frequently_used")
DEFERRED = "deferred"
_COSTS = ("tokens", "token_cost", "tokenCost", "estimated_tokens")

Fields = dict[str, object]


class Tool(NamedTuple):
    """A tool as the registry describes it; `defer` when it is loaded only on request."""

    name: str
    tier: int = 1
    layer: str = ""
    defer: bool = False
    tokens: int = 0
    category: str = ""


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

    def executor_for(self, task_type: str) -> str:
        """The agent that does a kind of task; empty when the registry names none."""
        return self.executors.get(task_type, "")


def tools_text(tools: Iterable[Tool]) -> str:
    """Tools as one or two short lines: those that are loaded, and those on request."""
    listed = list(tools)
    lines = [
        f"{label}: {', '.join(names)}"
        for label, is_deferred in (("Tools", False), ("On request", True))
        if (names := [visible(tool.name) for tool in listed if tool.defer is is_deferred])
    ]
    return "\n".join(lines)


def registry_of(path: str, name: str = "") -> Registry:
    """The registry in a YAML file; never raises. An empty path means that there is none.

    `name` is what its problems call the file; its path, when left out.
    """
    if not path:
        return Registry()
    from passdown.model.plain import load_yaml

    file = excerpt(name or path, 200)
    try:
        document = load_yaml(_read(path), max_bytes=MAX_BYTES)
    except InvalidInput as error:
        warnings = [problem._replace(level="warning") for problem in error.problems]
        return Registry(problems=in_file(file, warnings))
    except FileNotFoundError:
        expected = "a file, or no [agents] registry in the settings"
        message = f"{file} isn't there"
        return Registry(problems=(_warning("registry", "missing_registry", message, expected),))
    except (OSError, ValueError) as error:  # a path with a NUL in it is a ValueError
        message = f"{file} can't be read: {getattr(error, 'strerror', None) or error}"
        return Registry(problems=(_warning("registry", "unreadable_file", message),))
    problems: list[Problem] = []
    fields = _mapping(document, "", problems)
    tools = dict(_tools(fields.get("tools"), problems))
    profiles = dict(_profiles(fields.get("profiles"), tools, problems))
    executors = dict(_executors(fields.get("task_bindings"), problems))
    return Registry(tools, profiles, executors, in_file(file, problems))


def in_file(file: str, problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Problems with the name of the file that they are in before their paths."""
    return tuple(p._replace(path=f"{file}: {p.path}" if p.path else file) for p in problems)


def _read(path: str) -> bytes:
    # Without O_NONBLOCK, opening a pipe would wait for its other end.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError("is not a regular file")
    with open(descriptor, "rb") as file:
        return file.read(MAX_BYTES + 1)


def _warning(path: str, code: str, message: str, expected: str = "") -> Problem:
    return Problem(path, code, message, expected, "the rest is used without it", "warning")


def _wrong(path: str, value: object, expected: str, problems: list[Problem]) -> None:
    problems.append(_warning(path, "wrong_type", f"{type(value).__name__} given", expected))


def _mapping(value: object, path: str, problems: list[Problem]) -> Fields:
    """A mapping, or an empty one with a warning; what isn't given at all is no fault."""
    if isinstance(value, dict):
        return cast("Fields", value)
    if value is not None:
        _wrong(path, value, "names with their fields", problems)
    return {}


def _tools(value: object, problems: list[Problem]) -> Iterator[tuple[str, Tool]]:
    """Tools by name, or as a list whose entries have one."""
    if isinstance(value, list):
        entries = enumerate(cast("list[object]", value))
        named = [(_listed(entry), f"tools[{index}]", entry) for index, entry in entries]
    else:
        given = _mapping(value, "tools", problems)
        named = [(name, child_path("tools", name), entry) for name, entry in given.items()]
    for name, path, entry in named:
        if not name:
            _wrong(path, entry, "a tool with a name", problems)
        elif entry is None or isinstance(entry, dict | str):
            yield name, _tool(name, cast("Fields", entry if entry else {}), path, problems)
        else:
            _wrong(path, entry, "a tool's fields", problems)


def _listed(entry: object) -> str:
    name = cast("Fields", entry).get("name") if isinstance(entry, dict) else entry
    return name if isinstance(name, str) else ""


def _tool(name: str, given: Fields | str, path: str, problems: list[Problem]) -> Tool:
    fields = given if isinstance(given, dict) else {}
    tier = _number(fields, ("tier",), 1, path, problems)
    if tier not in TIERS:
        expected = " | ".join(map(str, TIERS))
        problems.append(_warning(f"{path}.tier", "invalid_choice", f"{tier} given", expected))
        tier = 1
    return Tool(
        name,
        tier,
        _text(fields, "layer", path, problems),
        _truth(fields, "defer", path, problems),
        _number(fields, _COSTS, 0, path, problems),
        _text(fields, "category", path, problems),
    )


def _number(
    fields: Fields, names: tuple[str, ...], default: int, path: str, problems: list[Problem]
) -> int:
    name = next((name for name in names if fields.get(name) is not None), "")
    value = fields.get(name)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    if name:
        _wrong(f"{path}.{name}", value, "a whole number from 0", problems)
    return default


def _text(fields: Fields, name: str, path: str, problems: list[Problem]) -> str:
    value = fields.get(name)
    if value is None or isinstance(value, str):
        return value or ""
    _wrong(f"{path}.{name}", value, "text", problems)
    return ""


def _truth(fields: Fields, name: str, path: str, problems: list[Problem]) -> bool:
    # YAML's plain scalars stay text here, so the words are read where they mean something.
    value = fields.get(name)
    if isinstance(value, str) and value.lower() in ("true", "yes", "on"):
        return True
    if value is not None and not (isinstance(value, str) and value.lower() in _FALSE):
        _wrong(f"{path}.{name}", value, "true or false", problems)
    return False


_FALSE = ("false", "no", "off")


def _profiles(
    value: object, tools: dict[str, Tool], problems: list[Problem]
) -> Iterator[tuple[str, dict[str, tuple[str, ...]]]]:
    for agent, given in _mapping(value, "profiles", problems).items():
        path = child_path("profiles", agent)
        fields = _mapping(given, path, problems)
        found = {
            how: tuple(_names(fields.get(how), f"{path}.{how}", tools, problems))
            for how in (*LOADED, DEFERRED)
        }
        # A profile of which nothing can be read is none: the tools of tier 1 are better.
        if fields:
            yield agent, found


def _names(
    value: object, path: str, tools: dict[str, Tool], problems: list[Problem]
) -> Iterator[str]:
    if value is not None and not isinstance(value, list):
        _wrong(path, value, "a list of tools", problems)
    entries = cast("list[object]", value) if isinstance(value, list) else []
    for index, name in enumerate(entries):
        if not isinstance(name, str):
            _wrong(f"{path}[{index}]", name, "a tool's name", problems)
        elif name not in tools:
            message = f"'{excerpt(name)}' isn't among the tools"
            problems.append(_warning(f"{path}[{index}]", "unknown_tool", message))
        else:
            yield name


def _executors(value: object, problems: list[Problem]) -> Iterator[tuple[str, str]]:
    """The executor of each kind of task: the value itself, or its `executor` or `agent`."""
    for task_type, given in _mapping(value, "task_bindings", problems).items():
        path = child_path("task_bindings", task_type)
        agent = given
        if isinstance(given, dict):
            fields = cast("Fields", given)
            agent = fields.get("executor") or fields.get("agent")
        if isinstance(agent, str):
            yield task_type, agent
        elif agent is not None:
            _wrong(path, agent, "an agent's name", problems)

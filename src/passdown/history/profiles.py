"""Agents' files on disk: profiles, the tool registry, rules and sessions.

A profile is NAME.md; its text is passed on unchanged and only its front matter is read. A
missing or
broken registry, rule or session file is reported, never raised.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, cast

from passdown.core.names import agent_problems, id_problems
from passdown.core.settings import parse_needs
from passdown.core.text import child_path, excerpt, visible
from passdown.errors import InvalidInput, Problem, StoreUnavailable
from passdown.ledger.durable_files import named_lock, replace_file

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator


FOLDERS = ("agents", ".claude/agents", ".passdown/agents")
"""Where profiles are looked for when no folder is named; the first that is there counts."""
MAX_BYTES = 1_048_576
ENDING = ".md"

_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
_DIRECTORY = getattr(os, "O_DIRECTORY", 0)
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
        if not self.folder:
            return ()
        try:
            files = os.listdir(self.folder)
        except (OSError, ValueError):  # a folder's name with a NUL in it is a ValueError
            return ()
        stems = (name.removesuffix(ENDING) for name in files if name.endswith(ENDING))
        return tuple(sorted(stem for stem in stems if _is_name(stem) and self._is_there(stem)))

    def get(self, name: str) -> Profile | None:
        """The profile of an agent; None when it has none or no agent can be called so."""
        if not self.folder or not _is_name(name):
            return None
        path = os.path.join(self.folder, name + ENDING)
        try:
            data = _read_profile(self.folder, name + ENDING)
            text = data.decode()
        except FileNotFoundError:
            return None
        except _Unusable as error:
            return self._unusable(name, path, error.problem)
        except UnicodeDecodeError as error:
            message = f"byte {error.start} is not UTF-8"
            return self._unusable(name, path, Problem("", "invalid_utf8", message, "UTF-8 text"))
        except (OSError, ValueError) as error:
            message = getattr(error, "strerror", None) or str(error)
            problem = Problem("", "unreadable_file", message, "a file")
            return self._unusable(name, path, problem)
        problems: list[Problem] = []
        needs = _declared(name, text, problems)
        tools = self.registry.tools_for(name)
        named = self._named(path, problems)
        return Profile(name, text, path, needs, tools, (*named, *self.registry.problems))

    def _named(self, path: str, problems: list[Problem]) -> tuple[Problem, ...]:
        """Problems with the name of a profile's file, from the project's root where it is there."""
        if not problems:
            return ()

        relative = os.path.relpath(path, self.root)
        return with_file_name(
            excerpt(path if relative.startswith("..") else relative, 200), problems
        )

    def _unusable(self, name: str, path: str, problem: Problem) -> Profile:
        return Profile(name, "", path, {}, (), (problem._replace(path=excerpt(path, 200)),))

    def _is_there(self, name: str) -> bool:
        with suppress(OSError, _Unusable):
            os.close(_open(self.folder, name + ENDING))
            return True
        return False


class _Unusable(Exception):
    """A file that is there but isn't read."""

    def __init__(self, code: str, message: str, expected: str) -> None:
        self.problem = Problem("", code, message, expected)


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


def _open(folder: str, file: str) -> int:
    """A regular file of the folder, opened without following a link out of it."""
    at = os.open(folder, os.O_RDONLY | _DIRECTORY)
    flags = os.O_RDONLY | _NOFOLLOW | _NONBLOCK
    try:
        try:
            descriptor = os.open(file, flags, dir_fd=at)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.EMLINK):
                raise
            descriptor = os.open(_behind_link(folder, file), flags, dir_fd=at)
    finally:
        os.close(at)
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_size <= MAX_BYTES:
        return descriptor
    os.close(descriptor)
    if stat.S_ISREG(status.st_mode):
        raise _Unusable("too_large", f"{status.st_size:,} bytes", f"at most {MAX_BYTES:,}")
    raise _Unusable("not_regular_file", "is not a regular file", "a file")


def _behind_link(folder: str, file: str) -> str:
    """The file of the same folder that a link leads to."""
    real = os.path.realpath(os.path.join(folder, file))
    if os.path.dirname(real) != os.path.realpath(folder):
        raise _Unusable("path_escapes_root", "is a link out of its folder", "a file in it")
    return os.path.basename(real)


def _read_profile(folder: str, file: str) -> bytes:
    with open(_open(folder, file), "rb") as profile:
        # One byte more than is allowed, should it have grown since it was measured.
        data = profile.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise _Unusable("too_large", f"{len(data):,} bytes or more", f"at most {MAX_BYTES:,}")
    return data


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


def load_registry(path: str, name: str = "") -> Registry:
    """The registry in a YAML file; never raises. An empty path means that there is none.

    `name` is what its problems call the file; its path, when left out.
    """
    if not path:
        return Registry()
    from passdown.core.parsing import load_yaml

    file = excerpt(name or path, 200)
    try:
        document = load_yaml(_regular_bytes(path), max_bytes=MAX_BYTES)
    except InvalidInput as error:
        warnings = [problem._replace(level="warning") for problem in error.problems]
        return Registry(problems=with_file_name(file, warnings))
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
    return Registry(tools, profiles, executors, with_file_name(file, problems))


def with_file_name(file: str, problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Problems with the name of the file that they are in before their paths."""
    return tuple(p._replace(path=f"{file}: {p.path}" if p.path else file) for p in problems)


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


class RuleFiles:
    """The text files in a folder of rules; links may not lead out of it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def exists(self) -> bool:
        """Whether there is anything at the folder's place."""
        return os.path.lexists(self.folder)

    def text(self, name: str) -> str | Problem:
        """The text of a regular file, or why there is none to be had."""
        root = os.path.realpath(self.folder)
        path = os.path.realpath(os.path.join(root, *name.split("/")))
        if os.path.commonpath([root, path]) != root:
            return Problem(name, "path_escapes_root", "leads out of the folder", "a file inside it")
        try:
            data = _regular_bytes(path)
        except FileNotFoundError:
            return Problem(name, "missing_file", "there is no such file", "a file")
        except OSError as error:
            reason = f"can't be read ({error.strerror or error})"
            return Problem(name, "unreadable_file", reason, "a text file")
        if len(data) > MAX_BYTES:
            return Problem(name, "too_large", "has too many bytes", f"at most {MAX_BYTES:,}")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            return Problem(name, "not_utf8", f"is no UTF-8 text ({error.reason})", "UTF-8")


def _regular_bytes(path: str) -> bytes:
    # Without O_NONBLOCK, opening a pipe would wait for its other end.
    descriptor = os.open(path, os.O_RDONLY | _NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("is not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(MAX_BYTES + 1)
    finally:
        os.close(descriptor)


class SessionFiles:
    """The sessions of a workspace, one JSON file each, named by the session's id."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def path(self, id: str) -> str:
        """A session's file; an id that could lead elsewhere is refused."""
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
        text = RuleFiles(self.folder).text(os.path.basename(self.path(id)))
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

"""What is written for hosts (hooks, the MCP server, instructions, plugins and the skill), and how:
by reversible edits of JSON, TOML and Markdown files.

The same release gives the same bytes, and a new release gives the same commands. What is not
touched in a file keeps every byte. A region at the end of a text that ends without a newline ends
without one too, so the region alone tells how the text ended before it.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.hosts.definitions import (
    BLOCK_FILE,
    CLAUDE,
    CODEX,
    COMMAND,
    CURSOR,
    SERVER,
    TIMEOUTS_S,
    Host,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from passdown.core.types import JsonObject


Cuts = list[list[int]]
"""Positions and lengths of inserted text, in characters."""


class EditedText:
    """A text that is only ever added to; `cuts` says where, and `without` undoes it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._added = bytearray(len(text))

    def insert(self, at: int, text: str) -> None:
        """Put text at a place."""
        self.text = self.text[:at] + text + self.text[at:]
        self._added[at:at] = b"\1" * len(text)

    @property
    def cuts(self) -> Cuts:
        """Every run of inserted text, from the beginning."""
        runs = re.finditer(b"\1+", self._added)
        return [[run.start(), run.end() - run.start()] for run in runs]

    @property
    def newline(self) -> str:
        """How the text ends its lines: as its first line does."""
        at = self.text.find("\n")
        return "\r\n" if at > 0 and self.text[at - 1] == "\r" else "\n"


def remove_cuts(text: str, cuts: Iterable[Sequence[int]]) -> str:
    """A text without the runs that were put into it."""
    kept: list[str] = []
    done = 0
    for at, length in cuts:
        kept.append(text[done:at])
        done = at + length
    return "".join([*kept, text[done:]])


class Marks(NamedTuple):
    """The lines around a region of ours."""

    begin: str
    end: str


MARKDOWN_MARKS = Marks("<!-- passdown:begin -->", "<!-- passdown:end -->")
TOML_MARKS = Marks("# passdown:begin", "# passdown:end")


class RegionError(ValueError):
    """The marks aren't a pair: one is missing, or there are several."""


def find_region(text: str, marks: Marks) -> tuple[int, int] | None:
    """Start and end of the region with its marks; None without one."""
    begins = _lines_that_are(text, marks.begin)
    ends = _lines_that_are(text, marks.end)
    if not begins and not ends:
        return None
    if len(begins) != 1 or len(ends) != 1 or ends[0] < begins[0]:
        raise RegionError(f"the marks {marks.begin} and {marks.end} are no pair")
    return begins[0], ends[0] + len(marks.end)


def _lines_that_are(text: str, line: str) -> list[int]:
    lines = re.finditer(rf"(?:\A|(?<=[\n\ufeff])){re.escape(line)}(?=[\r\n]|\Z)", text)
    return [found.start() for found in lines]


def region_body(text: str, region: tuple[int, int], marks: Marks) -> str:
    """The text between the marks, with plain line ends."""
    inner = text[region[0] + len(marks.begin) : region[1] - len(marks.end)]
    return inner.replace("\r\n", "\n").strip("\n")


def put_region(draft: EditedText, marks: Marks, body: str) -> None:
    """Add a region at the end of a text, with a line between."""
    newline = draft.newline
    region = f"{marks.begin}\n{body}\n{marks.end}".replace("\n", newline)
    if not draft.text.strip("\ufeff"):
        text = region + newline
    elif draft.text.endswith("\n"):
        text = newline + region + newline
    else:
        text = newline + newline + region
    draft.insert(len(draft.text), text)


def drop_region(text: str, region: tuple[int, int]) -> str:
    """A text without its region and the line ends that came with it."""
    start, end = region
    head, tail = text[:start], text[end:]
    ends_open = not tail
    tail = tail.removeprefix("\r").removeprefix("\n")
    for _ in range(2 if ends_open else 1):
        head = head.removesuffix("\n").removesuffix("\r")
    return head + tail


_DEEPEST = 100
_SPACE = " \t\r\n"
_TRIVIA = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_WORD = re.compile(r"-?[0-9][0-9.eE+-]*|true|false|null")


class JsonError(ValueError):
    """The text isn't JSON; the message has line and column."""


class JsonNode(NamedTuple):
    """A value and its position. `value` is the parsed value; of an object or a list, its parts are
    in `parts`, each with the comma that follows it (its end, or 0).
    """

    value: object
    start: int
    end: int
    parts: tuple[JsonPart, ...] = ()


class JsonPart(NamedTuple):
    """A member of an object or an element of a list (whose `key` is empty)."""

    key: str
    start: int
    node: JsonNode
    comma: int


def parse_json(text: str) -> JsonNode | None:
    """The value of a text; None for a text with nothing but space and comments in it."""
    reader = _JsonParser(text)
    at = reader.trivia(1 if text.startswith("\ufeff") else 0)
    if at == len(text):
        return None
    node = reader.value(at, 0)
    if reader.trivia(node.end) != len(text):
        raise reader.fault(reader.trivia(node.end), "something follows the value")
    return node


def member(node: JsonNode, key: str) -> JsonPart | None:
    """The member of an object by its name; raises JsonError for a duplicate name."""
    found = [part for part in node.parts if part.key == key]
    if len(found) > 1:
        raise JsonError(f"{key!r} occurs twice in one object")
    return found[0] if found else None


class _JsonParser:
    def __init__(self, text: str) -> None:
        self.text = text

    def fault(self, at: int, what: str) -> JsonError:
        before = self.text[:at]
        line = before.count("\n") + 1
        return JsonError(f"line {line}, column {at - before.rfind(chr(10))}: {what}")

    def trivia(self, at: int) -> int:
        """Where the next thing that isn't space or comment begins."""
        found = _TRIVIA.match(self.text, at)
        at = found.end() if found else at
        if self.text.startswith("/*", at):
            raise self.fault(at, "a comment isn't closed")
        return at

    def value(self, at: int, depth: int) -> JsonNode:
        if depth > _DEEPEST:
            raise self.fault(at, "values are nested too deeply")
        sign = self.text[at : at + 1]
        if sign == "{":
            parts, end = self.parts(at, "}", depth)
            return JsonNode({part.key: part.node.value for part in parts}, at, end, parts)
        if sign == "[":
            parts, end = self.parts(at, "]", depth)
            return JsonNode([part.node.value for part in parts], at, end, parts)
        return self.scalar(at)

    def scalar(self, at: int) -> JsonNode:
        found = _STRING.match(self.text, at) or _WORD.match(self.text, at)
        if found is None:
            what = "the text ends too early" if at >= len(self.text) else "no value is here"
            raise self.fault(at, what)
        try:
            return JsonNode(json.loads(found[0]), at, found.end())
        except ValueError as error:
            raise self.fault(at, "no value is here") from error

    def parts(self, at: int, closing: str, depth: int) -> tuple[tuple[JsonPart, ...], int]:
        found: list[JsonPart] = []
        here = self.trivia(at + 1)
        while self.text[here : here + 1] != closing:
            if found and not found[-1].comma:
                raise self.fault(here, f"a comma or {closing} is missing")
            start = here
            key, here = self.key(here) if closing == "}" else ("", here)
            node = self.value(here, depth + 1)
            here = self.trivia(node.end)
            comma = here + 1 if self.text[here : here + 1] == "," else 0
            found.append(JsonPart(key, start, node, comma))
            here = self.trivia(comma) if comma else here
        return tuple(found), here + 1

    def key(self, at: int) -> tuple[str, int]:
        found = _STRING.match(self.text, at)
        if found is None:
            raise self.fault(at, "a name in quotes is missing")
        colon = self.trivia(found.end())
        if self.text[colon : colon + 1] != ":":
            raise self.fault(colon, "a colon is missing")
        return str(self.scalar(at).value), self.trivia(colon + 1)


_INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)
_REST_OF_LINE = re.compile(r"[ \t]*(?:/\*[^\r\n]*?\*/[ \t]*)*(?://[^\r\n]*)?")


def root_object(text: str) -> JsonNode:
    """The object that a file holds; raises JsonError for anything else."""
    node = parse_json(text)
    if node is None:
        return JsonNode({}, len(text), len(text))
    if not isinstance(node.value, dict):
        raise JsonError("the file holds no object ({...})")
    return node


def find_node(text: str, path: Sequence[str]) -> JsonNode | None:
    """The value at a path of names; None where the path ends early."""
    node: JsonNode | None = root_object(text)
    for name in path:
        part = member(node, name) if node else None
        node = part.node if part else None
    return node


def put_member(draft: EditedText, path: Sequence[str], key: str, value: object) -> None:
    """Add a member to the object at a path, and the objects on the way that are missing."""
    holder, missing = _nearest(draft.text, path, dict)
    _put(draft, holder, (missing or [key])[0], _wrapped([*missing, key], value))


def put_element(draft: EditedText, path: Sequence[str], value: object) -> None:
    """Add an element to the list at a path, and what is missing on the way."""
    holder, missing = _nearest(draft.text, path, list)
    if missing:
        _put(draft, holder, missing[0], _wrapped(missing, [value]))
    else:
        _put(draft, holder, "", value)


def _wrapped(names: Sequence[str], value: object) -> object:
    """A value inside the objects that still have to be made; the first name is its member's."""
    for name in reversed(names[1:]):
        value = {name: value}
    return value


def _nearest(text: str, path: Sequence[str], last: type) -> tuple[JsonNode, list[str]]:
    """The deepest value on a path that is there, and the names that are missing below it."""
    node = root_object(text)
    for index, name in enumerate(path):
        part = member(node, name)
        if part is None:
            return node, list(path[index:])
        node = part.node
        expected = last if index == len(path) - 1 else dict
        if not isinstance(node.value, expected):
            word = "a list" if expected is list else "an object"
            raise JsonError(f"{'.'.join(path[: index + 1])} is not {word}")
    return node, []


def _put(draft: EditedText, holder: JsonNode, key: str, value: object) -> None:
    if holder.start == holder.end:
        return _begin(draft, key, value)
    inside = draft.text[holder.start + 1 : holder.end - 1]
    outer = _indent_at(draft.text, holder.start)
    if not holder.parts:
        inner = outer + _unit(draft.text)
        text = draft.newline + inner + _json_lines(key, value, inner, draft)
        text += "" if "\n" in inside else draft.newline + outer
        return draft.insert(holder.start + 1, text)
    last = holder.parts[-1]
    between = draft.text[holder.start + 1 : last.start]
    if "\n" in between:
        inner = _indent_at(draft.text, last.start)
        text = draft.newline + inner + _json_lines(key, value, inner, draft)
    else:
        name = f"{json.dumps(key)}: " if key else ""
        text = " " + name + json.dumps(value, ensure_ascii=False)
    return _append(draft, last, text)


def _append(draft: EditedText, last: JsonPart, text: str) -> None:
    """Put an element behind the last one and what is said about that on its line."""
    end = last.comma or last.node.end
    said = _REST_OF_LINE.match(draft.text, end)
    at = said.end() if said and said[0].strip() and "\n" in text else end
    draft.insert(at, text + ("," if last.comma else ""))
    if not last.comma:
        draft.insert(last.node.end, ",")


def _begin(draft: EditedText, key: str, value: object) -> None:
    """The first object of an empty file."""
    inner = _unit(draft.text)
    body = _json_lines(key, value, inner, draft)
    text = "{" + draft.newline + inner + body + draft.newline + "}" + draft.newline
    if draft.text.strip() and not draft.text.endswith("\n"):
        text = draft.newline + text
    draft.insert(len(draft.text), text)


def _json_lines(key: str, value: object, indent: str, draft: EditedText) -> str:
    unit = _unit(draft.text)
    text = json.dumps(value, indent=unit, ensure_ascii=False)
    text = text.replace("\n", draft.newline + indent)
    return f"{json.dumps(key)}: {text}" if key else text


def _unit(text: str) -> str:
    found = _INDENT.search(text)
    return found[1] if found and len(found[1]) <= 8 else "  "


def _indent_at(text: str, at: int) -> str:
    """The indentation of the line at a position."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def drop_node(text: str, path: Sequence[str | int]) -> str:
    """A text without the value at a path, and without what that leaves empty above it."""
    holders = [root_object(text)]
    for step in path[:-1]:
        holders.append(_part(holders[-1], step).node)
    # The topmost value that would hold nothing else goes as a whole.
    depth = len(path) - 1
    while depth > 0 and len(holders[depth].parts) == 1:
        depth -= 1
    return _cut(text, holders[depth], _part(holders[depth], path[depth]))


def _part(node: JsonNode, step: str | int) -> JsonPart:
    if isinstance(step, int):
        return node.parts[step]
    found = member(node, step)
    if found is None:
        raise JsonError(f"{step!r} is missing")
    return found


def _cut(text: str, holder: JsonNode, part: JsonPart) -> str:
    """A text without one part of an object or list, its comma and the space before it."""
    start = part.start
    while text[start - 1] in _SPACE:
        start -= 1
    end = part.comma or part.node.end
    if len(holder.parts) == 1:
        rest = text[end : holder.end - 1]
        after = "" if not rest.strip() and start == holder.start + 1 else rest
        return text[:start] + after + text[holder.end - 1 :]
    index = holder.parts.index(part)
    if part.comma or index == 0:
        return text[:start] + text[end:]
    before = holder.parts[index - 1]
    comma = before.comma - 1
    return text[:comma] + text[comma + 1 : start] + text[end:]


def hook_commands(node: JsonNode | None) -> list[tuple[tuple[str | int, ...], str]]:
    """Every command of an event's hooks with the way to its handler, grouped or flat."""
    found: list[tuple[tuple[str | int, ...], str]] = []
    for index, part in enumerate(node.parts if node else ()):
        inner = member(part.node, "hooks")
        parts = inner.node.parts if inner else (part,)
        for number, handler in enumerate(parts):
            command = member(handler.node, "command")
            if command and isinstance(command.node.value, str):
                path = (index, "hooks", number) if inner else (index,)
                found.append((path, command.node.value))
    return found


PLUGIN_MARK = "// passdown:begin"
"""The first line of the opencode plugin begins so; a file without it isn't ours."""

SKILL_NAME = "hand-off"
"""Also the name of its folder, as the format requires."""


def template(name: str) -> str:
    """A text that is written for hosts: `instructions.md` is the block in AGENTS.md or in a host's
    own file, between two marks; `opencode_plugin.js` and `SKILL.md` are whole files.
    """
    path = os.path.join(os.path.dirname(__file__), "templates", name)
    with open(path, encoding="utf-8", newline="\n") as file:
        return file.read()


HOOK, JSON_SERVER, TOML_SERVER, PLUGIN_FILE = "hook", "server", "toml", "plugin"
INSTRUCTIONS, IMPORT = "page", "import"
PAGES = (INSTRUCTIONS, IMPORT)
_JSON = (HOOK, JSON_SERVER)
_MARKS = {INSTRUCTIONS: MARKDOWN_MARKS, IMPORT: MARKDOWN_MARKS, TOML_SERVER: TOML_MARKS}
_SPAWN = re.compile(r'spawn\(("[^"\n]*")')


class EntryConflict(ValueError):
    """The place is taken by something that isn't ours."""


class HostEntry(NamedTuple):
    """One piece for one host in one file; `event` is set for hooks.

    `program` is what the host runs; empty accepts any passdown that is there, and writes COMMAND.
    """

    kind: str
    host: Host
    event: str = ""
    program: str = ""

    def accepts(self, program: str) -> bool:
        """Whether a piece of ours may run this program."""
        return bool(program) and self.program in ("", program)


def has_entry(text: str, entry: HostEntry) -> bool:
    """Whether a text has the entry; any server of that name counts, if it isn't ours."""
    if entry.kind == HOOK:
        commands = hook_commands(find_node(text, _event_path(entry)))
        return any(entry.accepts(_hook_program(each, entry)) for _, each in commands)
    if entry.kind == JSON_SERVER:
        node = find_node(text, (*entry.host.server_at, SERVER))
        program = _server_program(node.value, entry.host) if node else ""
        return node is not None and (not program or entry.accepts(program))
    if entry.kind == PLUGIN_FILE:
        if text and not text.startswith(PLUGIN_MARK):
            raise EntryConflict("another plugin has this name")
        found = _SPAWN.search(text)
        program = str(json.loads(found[1])) if found else ""
        return entry.accepts(program) and text == _plugin(program)
    region = find_region(text, _MARKS[entry.kind])
    if region is None:
        return entry.kind == TOML_SERVER and _toml_server(text, entry.host) is not None
    body = region_body(text, region, _MARKS[entry.kind])
    if entry.kind in PAGES:
        return body == _body(entry)
    return entry.accepts(_server_program(_toml_server(body, entry.host), entry.host))


def add_entry(draft: EditedText, entry: HostEntry) -> None:
    """Put the piece into a text that hasn't got it."""
    program = entry.program or COMMAND
    if entry.kind == HOOK:
        put_element(draft, _event_path(entry), hook_entry(entry.host, entry.event, program))
    elif entry.kind == JSON_SERVER:
        put_member(draft, entry.host.server_at, SERVER, entry.host.server_for(program))
    elif entry.kind == PLUGIN_FILE:
        draft.insert(len(draft.text), _plugin(program))
    else:
        put_region(draft, _MARKS[entry.kind], _body(entry))
        if entry.kind == TOML_SERVER and _toml_server(draft.text, entry.host) is None:
            raise EntryConflict("a table can't be added at the end of this file")


def remove_entry(text: str, entry: HostEntry) -> str:
    """A text without the piece; only what is ours goes, and the rest keeps every byte."""
    if entry.kind == HOOK:
        return _without_hook(text, entry)
    if entry.kind == JSON_SERVER:
        path = (*entry.host.server_at, SERVER)
        node = find_node(text, path)
        is_ours = node is not None and _server_program(node.value, entry.host)
        return drop_node(text, path) if is_ours else text
    if entry.kind == PLUGIN_FILE:
        return "" if text.startswith(PLUGIN_MARK) else text
    region = find_region(text, _MARKS[entry.kind])
    return text if region is None else drop_region(text, region)


def _own_program(program: object) -> str:
    """A program, if it is passdown at some path; else empty."""
    name = re.split(r"[/\\]", str(program))[-1]
    return str(program) if name.removesuffix(".exe") == COMMAND else ""


def _hook_program(command: str, entry: HostEntry) -> str:
    """The program of a hook of ours; empty for another command."""
    import shlex

    start = command.removesuffix(f" hook {entry.host.name} {entry.event}")
    try:
        words = shlex.split(start) if start != command else []
    except ValueError:
        return ""
    return _own_program(words[0]) if len(words) == 1 else ""


def _server_program(server: object, host: Host) -> str:
    """The program of a server of ours; empty for another one."""
    given = cast("dict[str, Any]", server) if isinstance(server, dict) else {}
    command = given.get("command")
    first = cast("list[object]", command)[:1] if isinstance(command, list) else [command]
    program = _own_program(*first or [""])
    return program if server == host.server_for(program) else ""


def _plugin(program: str) -> str:
    """The opencode plugin, whole."""
    text = template("opencode_plugin.js")
    return text.replace(f'spawn("{COMMAND}"', f"spawn({json.dumps(program)}")


def empty_text(entry: HostEntry) -> str:
    """What a file holds before the first piece is put into it."""
    if entry.kind == HOOK and entry.host is CURSOR:
        return '{\n  "version": 1\n}\n'
    return "{}\n" if entry.kind in _JSON else ""


def is_blank(text: str, entry: HostEntry) -> bool:
    """Whether a file holds nothing that anybody would miss."""
    if entry.kind in _JSON:
        return root_object(text).value in ({}, {"version": 1})
    return not text.strip("\ufeff \t\r\n")


def check_text(text: str, entry: HostEntry) -> None:
    """Raise ValueError for a file that its host couldn't read as it is."""
    if entry.kind in _JSON:
        root_object(text)
    elif entry.kind == TOML_SERVER:
        _toml(text)


def _event_path(entry: HostEntry) -> tuple[str, str]:
    return ("hooks", entry.host.events[entry.event])


def hook_entry(host: Host, event: str, program: str = COMMAND) -> dict[str, Any]:
    """What a host's file holds at one of our events."""
    handler = {
        "command": host.command(event, program),
        "timeout": TIMEOUTS_S[event] * host.per_second,
    }
    if host.form == "flat":
        return handler
    return {"hooks": [{"type": "command", **handler}]}


def _without_hook(text: str, entry: HostEntry) -> str:
    path = _event_path(entry)
    while True:
        node = find_node(text, path)
        found = hook_commands(node)
        ours = next((way for way, each in found if _hook_program(each, entry)), None)
        if node is None or ours is None:
            return text
        # A group goes as a whole where it holds no other handler.
        group = cast("dict[str, Any]", node.parts[cast("int", ours[0])].node.value)
        is_alone = len(ours) > 1 and len(group["hooks"]) == 1
        text = drop_node(text, (*path, *(ours[:1] if is_alone else ours)))


def _body(entry: HostEntry) -> str:
    """What is between the marks in a Markdown or TOML file."""
    if entry.kind == INSTRUCTIONS:
        return template("instructions.md").rstrip("\n")
    if entry.kind == IMPORT:
        return f"@{BLOCK_FILE}"
    # Strings and lists of them are the same in JSON and TOML.
    server = entry.host.server_for(entry.program or COMMAND)
    lines = [f"{name} = {json.dumps(value)}" for name, value in server.items()]
    return "\n".join([f"[{entry.host.server_at[0]}.{SERVER}]", *lines])


def _toml_server(text: str, host: Host) -> object:
    servers: Any = _toml(text).get(host.server_at[0], {})
    return cast("dict[str, Any]", servers).get(SERVER) if isinstance(servers, dict) else None


def _toml(text: str) -> dict[str, Any]:
    import tomllib

    return tomllib.loads(text.removeprefix("\ufeff").replace("\r\n", "\n"))


PLUGIN_NAME = "passdown"
PLUGIN_DESCRIPTION = (
    "Hands work from one agent to the next: briefs at the start, handoffs at the end."
)
_AUTHOR = "Passdown contributors"
_KEYWORDS = ["handoff", "continuity", "memory", "tasks", "decisions"]

_MANIFESTS: Mapping[str, tuple[str, JsonObject, str, object]] = {
    CLAUDE.name: (".claude-plugin/plugin.json", {}, ".claude-plugin/marketplace.json", "./"),
    CODEX.name: (
        ".codex-plugin/plugin.json",
        {"skills": "./skills/", "mcpServers": "./.mcp.json", "hooks": "./hooks/hooks.json"},
        ".agents/plugins/marketplace.json",
        {"source": "local", "path": "./"},
    ),
}
"""The path of a plugin's manifest and what only it has; that of the marketplace, and its source."""
PLUGIN_HOSTS = tuple(_MANIFESTS)


def plugin_files(host: Host, version: str) -> dict[str, str]:
    """The files of a plugin by path; the folder is a marketplace of its own as well."""
    manifest_path, more, market_path, source = _MANIFESTS[host.name]
    about = {"name": PLUGIN_NAME, "description": PLUGIN_DESCRIPTION}
    manifest = {**about, "version": version, "author": {"name": _AUTHOR}, "keywords": _KEYWORDS}
    market = {**about, "owner": {"name": _AUTHOR}, "plugins": [{**about, "source": source}]}
    hooks = {own: [hook_entry(host, event)] for event, own in host.events.items()}
    return {
        manifest_path: _json_text({**manifest, **more}),
        market_path: _json_text(market),
        "hooks/hooks.json": _json_text({"description": PLUGIN_DESCRIPTION, "hooks": hooks}),
        ".mcp.json": _json_text({"mcpServers": {SERVER: host.server}}),
        f"skills/{SKILL_NAME}/SKILL.md": template("SKILL.md"),
    }


def _json_text(document: JsonObject) -> str:
    return json.dumps(document, indent=2) + "\n"

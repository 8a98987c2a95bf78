"""What is written for hosts: hooks, the MCP server, instructions, plugins and the skill.

The same release gives the same bytes, and a new release gives the same commands.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.hosts.definitions import CLAUDE, CODEX, COMMAND, CURSOR, SERVER, TIMEOUTS_S, Host
from passdown.hosts.text_edits import (
    MARKDOWN_MARKS,
    TOML_MARKS,
    drop_node,
    drop_region,
    find_node,
    find_region,
    hook_commands,
    put_element,
    put_member,
    put_region,
    region_body,
    root_object,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from passdown.core.types import JsonObject
    from passdown.hosts.text_edits import EditedText


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


HOOK, JSON_SERVER, TOML_SERVER, INSTRUCTIONS, PLUGIN_FILE = (
    "hook",
    "server",
    "toml",
    "page",
    "plugin",
)
_JSON = (HOOK, JSON_SERVER)
_MARKS = {INSTRUCTIONS: MARKDOWN_MARKS, TOML_SERVER: TOML_MARKS}
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
    if entry.kind == INSTRUCTIONS:
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

"""What is written for hosts: hooks, the MCP server, instructions, plugins and the skill.

The same release gives the same bytes, and a new release gives the same commands.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.hosts.definitions import CLAUDE, CODEX, CURSOR, SERVER, TIMEOUTS_S, Host
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
    from passdown.hosts.text_edits import EditedText, Marks


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


class EntryConflict(ValueError):
    """The place is taken by something that isn't ours."""


class HostEntry(NamedTuple):
    """One piece for one host in one file; `event` is set for hooks."""

    kind: str
    host: Host
    event: str = ""


def has_entry(text: str, entry: HostEntry) -> bool:
    """Whether a text has the entry; any server of that name counts."""
    if entry.kind == HOOK:
        node = find_node(text, _event_path(entry))
        command = entry.host.command(entry.event)
        return any(each == command for _, each in hook_commands(node))
    if entry.kind == JSON_SERVER:
        return find_node(text, (*entry.host.server_at, SERVER)) is not None
    if entry.kind == PLUGIN_FILE:
        if text and not text.startswith(PLUGIN_MARK):
            raise EntryConflict("another plugin has this name")
        return text == template("opencode_plugin.js")
    marks, body = _region(entry)
    region = find_region(text, marks)
    if region is not None:
        return region_body(text, region, marks) == body
    return entry.kind == TOML_SERVER and _has_server(text, entry.host)


def add_entry(draft: EditedText, entry: HostEntry) -> None:
    """Put the piece into a text that hasn't got it."""
    if entry.kind == HOOK:
        put_element(draft, _event_path(entry), hook_entry(entry.host, entry.event))
    elif entry.kind == JSON_SERVER:
        put_member(draft, entry.host.server_at, SERVER, entry.host.server)
    elif entry.kind == PLUGIN_FILE:
        draft.insert(len(draft.text), template("opencode_plugin.js"))
    else:
        put_region(draft, *_region(entry))
        if entry.kind == TOML_SERVER and not _has_server(draft.text, entry.host):
            raise EntryConflict("a table can't be added at the end of this file")


def remove_entry(text: str, entry: HostEntry) -> str:
    """A text without the piece; only what is ours goes, and the rest keeps every byte."""
    if entry.kind == HOOK:
        return _without_hook(text, entry)
    if entry.kind == JSON_SERVER:
        path = (*entry.host.server_at, SERVER)
        node = find_node(text, path)
        is_ours = node is not None and node.value == entry.host.server
        return drop_node(text, path) if is_ours else text
    if entry.kind == PLUGIN_FILE:
        return "" if text.startswith(PLUGIN_MARK) else text
    region = find_region(text, _region(entry)[0])
    return text if region is None else drop_region(text, region)


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


def hook_entry(host: Host, event: str) -> dict[str, Any]:
    """What a host's file holds at one of our events."""
    handler = {"command": host.command(event), "timeout": TIMEOUTS_S[event] * host.per_second}
    if host.form == "flat":
        return handler
    return {"hooks": [{"type": "command", **handler}]}


def _without_hook(text: str, entry: HostEntry) -> str:
    path, command = _event_path(entry), entry.host.command(entry.event)
    while True:
        node = find_node(text, path)
        ours = next((way for way, each in hook_commands(node) if each == command), None)
        if node is None or ours is None:
            return text
        # A group goes as a whole where it holds no other handler.
        group = cast("dict[str, Any]", node.parts[cast("int", ours[0])].node.value)
        is_alone = len(ours) > 1 and len(group["hooks"]) == 1
        text = drop_node(text, (*path, *(ours[:1] if is_alone else ours)))


def _region(entry: HostEntry) -> tuple[Marks, str]:
    """The marks around the entry in a TOML or Markdown file, and the text between them."""
    if entry.kind == INSTRUCTIONS:
        return MARKDOWN_MARKS, template("instructions.md").rstrip("\n")
    # Strings and lists of them are the same in JSON and TOML.
    lines = [f"{name} = {json.dumps(value)}" for name, value in entry.host.server.items()]
    return TOML_MARKS, "\n".join([f"[{entry.host.server_at[0]}.{SERVER}]", *lines])


def _has_server(text: str, host: Host) -> bool:
    servers = _toml(text).get(host.server_at[0], {})
    return isinstance(servers, dict) and SERVER in servers


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

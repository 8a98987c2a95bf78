"""Plugins for hosts that take them: every file of one, made from the table of hosts. Pure.

The same release gives the same bytes, and a new release gives the same commands.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from passdown.surfaces.hosts.skill import SKILL, SKILL_NAME
from passdown.surfaces.hosts.table import CLAUDE, CODEX, SERVER, Host
from passdown.surfaces.hosts.wishes import hook_entry

if TYPE_CHECKING:
    from collections.abc import Mapping

Document = dict[str, Any]

NAME = "passdown"
DESCRIPTION = "Hands work from one agent to the next: briefs at the start, handoffs at the end."
_AUTHOR = "Passdown contributors"
_KEYWORDS = ["handoff", "continuity", "memory", "tasks", "decisions"]

_LOCAL = {"source": "local", "path": "./"}
_MANIFESTS: Mapping[str, tuple[str, Document]] = {
    CLAUDE.name: (".claude-plugin/plugin.json", {}),
    CODEX.name: (
        ".codex-plugin/plugin.json",
        {"skills": "./skills/", "mcpServers": "./.mcp.json", "hooks": "./hooks/hooks.json"},
    ),
}
_MARKETS: Mapping[str, tuple[str, object]] = {
    CLAUDE.name: (".claude-plugin/marketplace.json", "./"),
    CODEX.name: (".agents/plugins/marketplace.json", _LOCAL),
}
PLUGIN_HOSTS = tuple(_MANIFESTS)


def plugin_files(host: Host, version: str) -> dict[str, str]:
    """The files of a plugin by path; the folder is a marketplace of its own as well."""
    manifest_path, more = _MANIFESTS[host.name]
    market_path, source = _MARKETS[host.name]
    manifest = {
        "name": NAME,
        "version": version,
        "description": DESCRIPTION,
        "author": {"name": _AUTHOR},
        "keywords": _KEYWORDS,
        **more,
    }
    market: Document = {
        "name": NAME,
        "description": DESCRIPTION,
        "owner": {"name": _AUTHOR},
        "plugins": [{"name": NAME, "source": source, "description": DESCRIPTION}],
    }
    hooks = {own: [hook_entry(host, event)] for event, own in host.events.items()}
    return {
        manifest_path: _spelled(manifest),
        market_path: _spelled(market),
        "hooks/hooks.json": _spelled({"description": DESCRIPTION, "hooks": hooks}),
        ".mcp.json": _spelled({"mcpServers": {SERVER: host.server}}),
        f"skills/{SKILL_NAME}/SKILL.md": SKILL,
    }


def _spelled(document: Document) -> str:
    return json.dumps(document, indent=2) + "\n"

"""What is written for hosts: hooks, the MCP server, instructions, plugins and the skill. Pure.

The same release gives the same bytes, and a new release gives the same commands.
"""

from __future__ import annotations

import json
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
    from passdown.hosts.text_edits import EditedText


BLOCK = """\
## Continuity (Passdown)

This project keeps its tasks, decisions and handoffs in `.passdown/`, for the next agent.

- `passdown brief TASK --agent NAME`: what is known of a task; `passdown task list`: the tasks.
- `passdown recall "WORDS"`: what was decided or found before.
- `passdown decide "WHAT" --why "REASON" --task TASK`: a decision worth keeping.
- `passdown handoff FILE`: ends a turn on a task; a draft is kept in `.passdown/drafts/TASK.yaml`.

If the passdown MCP tools are available, use them."""
"""The block in AGENTS.md, or in a host's own file, between two marks."""

PLUGIN_MARK = "// passdown:begin"
"""The first line of the opencode plugin begins so; a file without it isn't ours."""

PLUGIN = (
    PLUGIN_MARK
    + """ Written by `passdown init --host opencode`; `passdown init --remove` takes it away.
// Asks the command line and passes its answer on. Whatever fails here is left out, never thrown.
import { spawn } from "node:child_process"

const LIMIT_MS = 5000

function ask(event, cwd, data) {
  return new Promise((resolve) => {
    let text = ""
    let done = false
    const end = (answer) => {
      if (!done) {
        done = true
        clearTimeout(timer)
        resolve(answer)
      }
    }
    const timer = setTimeout(() => {
      try {
        child.kill("SIGKILL")
      } catch {}
      end({})
    }, LIMIT_MS)
    let child
    try {
      child = spawn("passdown", ["hook", "opencode", event], {
        cwd,
        stdio: ["pipe", "pipe", "ignore"],
        windowsHide: true,
      })
    } catch {
      return end({})
    }
    child.on("error", () => end({}))
    child.stdin.on("error", () => {})
    child.stdout.on("data", (part) => (text += part))
    child.on("close", () => {
      try {
        end(JSON.parse(text || "{}"))
      } catch {
        end({})
      }
    })
    child.stdin.end(JSON.stringify({ ...data, cwd }))
  })
}

export const Passdown = async ({ directory, client }) => {
  const told = new Map()
  const pending = new Map()
  const context = async (event, session, more = {}) =>
    (await ask(event, directory, { session_id: session, ...more })).context
  const begin = async (session) => {
    if (told.has(session)) return
    told.set(session, "")
    told.set(session, (await context("session-start", session, { source: "startup" })) ?? "")
  }

  return {
    "experimental.chat.system.transform": async (input, output) => {
      const session = input?.sessionID ?? "opencode"
      await begin(session)
      for (const text of [told.get(session), pending.get(session)]) {
        if (text) output.system.push(text)
      }
    },
    "chat.message": async (input, output) => {
      const session = input?.sessionID ?? "opencode"
      await begin(session)
      const prompt = (output?.parts ?? []).map((part) => part?.text ?? "").join("\\n")
      pending.set(session, (await context("prompt-submit", session, { prompt })) ?? "")
    },
    "experimental.session.compacting": async (input, output) => {
      const session = input?.sessionID ?? "opencode"
      const text = await context("pre-compact", session)
      if (text) output.context.push(text)
      told.delete(session)
    },
    event: async ({ event }) => {
      if (event?.type !== "session.idle") return
      const session = event.properties?.sessionID ?? "opencode"
      const { message } = await ask("stop", directory, { session_id: session })
      if (!message) return
      try {
        await client.session.prompt({
          path: { id: session },
          body: { noReply: true, parts: [{ type: "text", text: message }] },
        })
      } catch {}
    },
  }
}
"""
)
"""The opencode plugin, whole."""

SKILL_NAME = "hand-off"
"""Also the name of its folder, as the format requires."""

SKILL = """\
---
name: hand-off
description: >-
  Records the state of a task so that the next agent or session continues without loss. Use it when
  work ends, pauses, fails or is blocked, before a context is compacted or a session is closed, when
  asked to hand off, resume or continue, and when a decision was made that others have to know.
license: MIT
compatibility: Needs the command passdown, or the tools of the MCP server passdown.
---

# Hand off

Passdown keeps tasks, decisions and handoffs of a project in an append-only ledger. What is not
recorded there is unknown to the next agent.

## At the start

1. `passdown task list` shows the tasks; `passdown brief TASK --agent NAME` what is known of one.
2. Before something is decided or changed that others worked on: `passdown recall "WORDS"`.
3. Without a task for the work: `passdown task new T-7 --title "WHAT HAS TO BE DONE"`.

## While working

- A choice between real alternatives: `passdown decide "WHAT" --why "REASON" --task TASK`.
- A pitfall, and how to avoid it:
  `passdown note gotcha "WHAT" --mitigation "HOW" --task TASK`.
- Not worth recording: what the code, its tests or the version history say already.

## At the end

1. `passdown draft TASK` writes what is known of the session (files, commands and exit codes, open
   todos) to `.passdown/drafts/TASK.yaml`.
2. Complete it: `outcome`, `summary`, `to_agent`, `suggested_next_steps`; add `blockers`
   unless the outcome is `completed`.
3. `passdown handoff .passdown/drafts/TASK.yaml --dry-run`, then without `--dry-run`. A refusal
   lists every problem at once and changes nothing.

A good handoff says what is true now, not what was intended:

- `completed` only where the checks were run; commands and exit codes are the evidence.
- `partial`, `failed` or `blocked` otherwise, with what was tried and why it did not work.
- The first next step can be started without asking anybody.
- Decisions have their reason and the rejected alternatives.

## With MCP tools

If the passdown MCP tools are available, use them: `tasks`, `brief`, `recall`, `show`, `decide`,
`note`, `task_new`, `handoff`, `gates`. A handoff through the tool needs no file.
"""

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
        return text == PLUGIN
    marks, body = (
        (MARKDOWN_MARKS, BLOCK)
        if entry.kind == INSTRUCTIONS
        else (TOML_MARKS, _server_table(entry.host))
    )
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
        draft.insert(len(draft.text), PLUGIN)
    elif entry.kind == INSTRUCTIONS:
        put_region(draft, MARKDOWN_MARKS, BLOCK)
    else:
        put_region(draft, TOML_MARKS, _server_table(entry.host))
        if not _has_server(draft.text, entry.host):
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
    region = find_region(text, MARKDOWN_MARKS if entry.kind == INSTRUCTIONS else TOML_MARKS)
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
    command = entry.host.command(entry.event)
    while True:
        path = _event_path(entry)
        found = hook_commands(find_node(text, path))
        ours = next((way for way, each in found if each == command), None)
        if ours is None:
            return text
        text = drop_node(text, (*path, *_whole_group(text, path, ours)))


def _whole_group(
    text: str, path: tuple[str, str], way: tuple[str | int, ...]
) -> tuple[str | int, ...]:
    """The way to a handler, or to its group where that holds no other handler."""
    node = find_node(text, path)
    group = cast("dict[str, Any]", node.parts[cast("int", way[0])].node.value) if node else {}
    return way[:1] if len(way) > 1 and len(group["hooks"]) == 1 else way


def _server_table(host: Host) -> str:
    command, args = host.server["command"], host.server["args"]
    listed = ", ".join(f'"{each}"' for each in args)
    return f'[{host.server_at[0]}.{SERVER}]\ncommand = "{command}"\nargs = [{listed}]'


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

_LOCAL = {"source": "local", "path": "./"}
_MANIFESTS: Mapping[str, tuple[str, JsonObject]] = {
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
        "name": PLUGIN_NAME,
        "version": version,
        "description": PLUGIN_DESCRIPTION,
        "author": {"name": _AUTHOR},
        "keywords": _KEYWORDS,
        **more,
    }
    market: JsonObject = {
        "name": PLUGIN_NAME,
        "description": PLUGIN_DESCRIPTION,
        "owner": {"name": _AUTHOR},
        "plugins": [{"name": PLUGIN_NAME, "source": source, "description": PLUGIN_DESCRIPTION}],
    }
    hooks = {own: [hook_entry(host, event)] for event, own in host.events.items()}
    return {
        manifest_path: _json_text(manifest),
        market_path: _json_text(market),
        "hooks/hooks.json": _json_text({"description": PLUGIN_DESCRIPTION, "hooks": hooks}),
        ".mcp.json": _json_text({"mcpServers": {SERVER: host.server}}),
        f"skills/{SKILL_NAME}/SKILL.md": SKILL,
    }


def _json_text(document: JsonObject) -> str:
    return json.dumps(document, indent=2) + "\n"

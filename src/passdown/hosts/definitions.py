"""Definitions of hosts: events, files and limits.

Commands are the same in every release, because hosts remember which ones their user trusts.
"""

from __future__ import annotations

from typing import Any

from passdown.core.values import NamedTuple

SESSION_START = "session-start"
PROMPT_SUBMIT = "prompt-submit"
PRE_COMPACT = "pre-compact"
SUBAGENT_START = "subagent-start"
SUBAGENT_STOP = "subagent-stop"
STOP = "stop"
SESSION_END = "session-end"

TIMEOUTS_S = {
    **dict.fromkeys(
        (SESSION_START, PROMPT_SUBMIT, PRE_COMPACT, SUBAGENT_START, SUBAGENT_STOP, STOP), 10
    ),
    SESSION_END: 3,
}
"""Our events, and how long a host should wait for each; our own limit is always shorter."""

SERVER = "passdown"
"""The name under which hosts know the MCP server."""

COMMAND = "passdown"
BLOCK_FILE = "AGENTS.md"


class Host(NamedTuple):
    """One host. `events` maps ours to its own; `form` is how its hooks file is built: grouped
    (event, groups, handlers), flat (event, handlers) or plugin (a program of ours).

    `instructions` are the files that it reads at the start, the preferred one first. `characters`
    and `tokens` bound what one hook may inject (0: no limit is known). `marks` and `programs`
    give away that a project or a machine uses it. `note` is what its user has to do once.
    """

    name: str
    title: str
    events: dict[str, str]
    form: str
    hooks_file: str
    server_files: tuple[str, ...]
    server_at: tuple[str, ...]
    server: dict[str, Any]
    instructions: tuple[str, ...]
    characters: int
    tokens: int
    per_second: int
    marks: tuple[str, ...]
    programs: tuple[str, ...]
    note: str

    def command(self, event: str, program: str = COMMAND) -> str:
        """What the host runs at one of our events."""
        import shlex

        return f"{shlex.quote(program)} hook {self.name} {event}"

    def server_for(self, program: str) -> dict[str, Any]:
        """How the host starts the MCP server with a program."""
        command = self.server["command"]
        is_list = isinstance(command, list)
        return {**self.server, "command": [program, *command[1:]] if is_list else program}


_LIFE = {
    SESSION_START: "SessionStart",
    PROMPT_SUBMIT: "UserPromptSubmit",
    PRE_COMPACT: "PreCompact",
    SUBAGENT_START: "SubagentStart",
    SUBAGENT_STOP: "SubagentStop",
    STOP: "Stop",
    SESSION_END: "SessionEnd",
}
_STDIO: dict[str, Any] = {"command": COMMAND, "args": ["mcp"]}

CLAUDE = Host(
    "claude",
    "Claude Code",
    _LIFE,
    "grouped",
    ".claude/settings.json",
    (".mcp.json",),
    ("mcpServers",),
    _STDIO,
    ("CLAUDE.md", ".claude/CLAUDE.md"),
    10_000,
    0,
    1,
    (".claude", "CLAUDE.md", ".mcp.json"),
    ("claude",),
    "asks once whether the folder and the server of .mcp.json are trusted",
)

CODEX = Host(
    "codex",
    "Codex",
    _LIFE,
    "grouped",
    ".codex/hooks.json",
    (".codex/config.toml",),
    ("mcp_servers",),
    _STDIO,
    (),
    0,
    2_500,
    1,
    (".codex",),
    ("codex",),
    "leaves new hooks off until they are trusted in /hooks",
)

GEMINI = Host(
    "gemini",
    "Gemini CLI",
    {
        SESSION_START: "SessionStart",
        PROMPT_SUBMIT: "BeforeAgent",
        PRE_COMPACT: "PreCompress",
        STOP: "AfterAgent",
        SESSION_END: "SessionEnd",
    },
    "grouped",
    ".gemini/settings.json",
    (".gemini/settings.json",),
    ("mcpServers",),
    _STDIO,
    ("GEMINI.md",),
    10_000,
    0,
    1_000,
    (".gemini", "GEMINI.md"),
    ("gemini",),
    "shows project hooks that are new before it runs them",
)

CURSOR = Host(
    "cursor",
    "Cursor",
    {
        SESSION_START: "sessionStart",
        PROMPT_SUBMIT: "beforeSubmitPrompt",
        PRE_COMPACT: "preCompact",
        SUBAGENT_STOP: "subagentStop",
        STOP: "stop",
        SESSION_END: "sessionEnd",
    },
    "flat",
    ".cursor/hooks.json",
    (".cursor/mcp.json",),
    ("mcpServers",),
    _STDIO,
    (),
    10_000,
    0,
    1,
    (".cursor", ".cursorrules"),
    ("cursor", "cursor-agent"),
    "takes its server into use in the settings, under MCP",
)

OPENCODE = Host(
    "opencode",
    "opencode",
    {
        SESSION_START: "experimental.chat.system.transform",
        PROMPT_SUBMIT: "chat.message",
        PRE_COMPACT: "experimental.session.compacting",
        STOP: "session.idle",
    },
    "plugin",
    ".opencode/plugins/passdown.js",
    ("opencode.json", "opencode.jsonc"),
    ("mcp",),
    {"type": "local", "command": [COMMAND, "mcp"], "enabled": True},
    (),
    10_000,
    0,
    1_000,
    (".opencode", "opencode.json", "opencode.jsonc"),
    ("opencode",),
    "loads the plugin after you restart it",
)

HOSTS: dict[str, Host] = {host.name: host for host in (CLAUDE, CODEX, GEMINI, CURSOR, OPENCODE)}

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

_EVENTS = (SESSION_START, PROMPT_SUBMIT, PRE_COMPACT, SUBAGENT_START, SUBAGENT_STOP, STOP)
TIMEOUTS_S = {**dict.fromkeys(_EVENTS, 10), SESSION_END: 3}
"""Our events, and how long a host should wait for each; our own limit is always shorter."""

SERVER = "passdown"
"""The name under which hosts know the MCP server."""

COMMAND = "passdown"
BLOCK_FILE = "AGENTS.md"
STATE_FILE = ".passdown/hosts.json"
"""What is remembered of the files that were written, relative to the project."""


def shell_word(program: str) -> str:
    """A program as one word of a shell; on Windows of Git Bash and of cmd, which both take slashes
    and double quotes.
    """
    if program[1:2] == ":" or program.startswith("\\\\"):
        word = program.replace("\\", "/")
        return f'"{word}"' if " " in word else word
    import shlex

    return shlex.quote(program)


class Host(NamedTuple):
    """One host. `events` maps ours to its own; `form` is how its hooks file is built: grouped
    (event, groups, handlers), flat (event, handlers) or plugin (a program of ours).

    `instructions` are the files that it reads at the start, the preferred one first. `characters`
    and `tokens` bound what one hook may inject (0: no limit is known). `marks` and programs of its
    name or of `more_programs` show that a project or a machine uses it. `keeps_context`: what a
    hook gave is still there after a resume. `note` is what its user has to do once.
    """

    name: str
    title: str
    events: dict[str, str]
    hooks_file: str
    server_files: tuple[str, ...]
    marks: tuple[str, ...]
    note: str
    form: str = "grouped"
    server_at: tuple[str, ...] = ("mcpServers",)
    server: dict[str, Any] = {"command": COMMAND, "args": ["mcp"]}  # noqa: RUF012
    instructions: tuple[str, ...] = ()
    characters: int = 10_000
    tokens: int = 0
    per_second: int = 1
    keeps_context: bool = False
    more_programs: tuple[str, ...] = ()

    def command(self, event: str, program: str = COMMAND) -> str:
        """What the host runs at one of our events."""
        return f"{shell_word(program)} hook {self.name} {event}"

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

CLAUDE = Host(
    name="claude",
    title="Claude Code",
    events=_LIFE,
    hooks_file=".claude/settings.json",
    server_files=(".mcp.json",),
    instructions=("CLAUDE.md", ".claude/CLAUDE.md"),
    keeps_context=True,
    marks=(".claude", "CLAUDE.md", ".mcp.json"),
    note="asks once whether you trust the folder and the server of .mcp.json",
)
CODEX = Host(
    name="codex",
    title="Codex",
    events=_LIFE,
    hooks_file=".codex/hooks.json",
    server_files=(".codex/config.toml",),
    server_at=("mcp_servers",),
    characters=0,
    tokens=2_500,
    keeps_context=True,
    marks=(".codex",),
    note="leaves new hooks off until you trust them in /hooks",
)
GEMINI = Host(
    name="gemini",
    title="Gemini CLI",
    events={
        SESSION_START: "SessionStart",
        PROMPT_SUBMIT: "BeforeAgent",
        PRE_COMPACT: "PreCompress",
        STOP: "AfterAgent",
        SESSION_END: "SessionEnd",
    },
    hooks_file=".gemini/settings.json",
    server_files=(".gemini/settings.json",),
    instructions=("GEMINI.md",),
    per_second=1_000,
    marks=(".gemini", "GEMINI.md"),
    note="shows new project hooks before it runs them",
)
CURSOR = Host(
    name="cursor",
    title="Cursor",
    events={
        SESSION_START: "sessionStart",
        PROMPT_SUBMIT: "beforeSubmitPrompt",
        PRE_COMPACT: "preCompact",
        SUBAGENT_STOP: "subagentStop",
        STOP: "stop",
        SESSION_END: "sessionEnd",
    },
    form="flat",
    hooks_file=".cursor/hooks.json",
    server_files=(".cursor/mcp.json",),
    marks=(".cursor", ".cursorrules"),
    more_programs=("cursor-agent",),
    note="uses the server after you enable it in the settings, under MCP",
)
OPENCODE = Host(
    name="opencode",
    title="opencode",
    events={
        SESSION_START: "experimental.chat.system.transform",
        PROMPT_SUBMIT: "chat.message",
        PRE_COMPACT: "experimental.session.compacting",
        STOP: "session.idle",
    },
    form="plugin",
    hooks_file=".opencode/plugins/passdown.js",
    server_files=("opencode.json", "opencode.jsonc"),
    server_at=("mcp",),
    server={"type": "local", "command": [COMMAND, "mcp"], "enabled": True},
    per_second=1_000,
    marks=(".opencode", "opencode.json", "opencode.jsonc"),
    note="loads the plugin after you restart it",
)

HOSTS: dict[str, Host] = {host.name: host for host in (CLAUDE, CODEX, GEMINI, CURSOR, OPENCODE)}

"""Claude Code, Codex, Gemini CLI and opencode from npm, each in a home of its own.

Their model is a script on loopback. What they ask of other addresses goes to a proxy that refuses
it (`scripted_model` answers CONNECT with an error), so nothing here needs a key.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.interfaces.hosting import environment
from tests.interfaces.scripted_model import Call
from tests.npm_packages import Package, installed
from tests.processes import forked_python

if TYPE_CHECKING:
    from collections.abc import Callable

Started = tuple[tuple[str, ...], dict[str, str]]
"""The arguments and the environment that a session is started with."""

CLAUDE = Package("@anthropic-ai/claude-code", "2.1.326", "claude", is_native=True)
CODEX = Package("@openai/codex", "0.169.0", "codex", is_native=True)
GEMINI = Package("@google/gemini-cli", "0.61.0", "gemini")
OPENCODE = Package("opencode-ai", "1.18.33", "opencode", is_native=True)
PACKAGES = {each.program: each for each in (CLAUDE, CODEX, GEMINI, OPENCODE)}

_NATIVE = {
    "claude": "@anthropic-ai/claude-code-linux-x64/claude",
    "opencode": "opencode-linux-x64/bin/opencode",
}
"""The program itself, where npm's launcher is put in place by a script that isn't run here."""


class Ran(NamedTuple):
    """How a host ended, and what it printed on both streams."""

    code: int
    text: str


class RealHost:
    """One host, installed, for a project."""

    def __init__(
        self, name: str, project: Path, home: Path, need_program: Callable[[str], str]
    ) -> None:
        self.name = name
        self.project = project
        self.home = home
        node, program = installed(PACKAGES[name], need_program)
        modules = Path(program).parent.parent
        self.command = [str(modules / _NATIVE[name])] if name in _NATIVE else [node, program]
        self.node = node
        (home / "bin").mkdir(parents=True, exist_ok=True)
        own = home / "bin/passdown"
        own.write_text(f'#!/bin/sh\nexec "{forked_python()}" -m passdown "$@"\n', "utf-8")
        own.chmod(0o755)

    def write(self, path: str, text: str) -> None:
        """A file in its home."""
        (self.home / path).parent.mkdir(parents=True, exist_ok=True)
        (self.home / path).write_text(text, "utf-8")

    def run(self, *arguments: str, model: str, **env: str) -> Ran:
        """Run it in the project."""
        folders = [str(self.home / "bin"), str(Path(self.node).parent), os.environ["PATH"]]
        done = subprocess.run(
            [*self.command, *arguments],
            cwd=self.project,
            env=environment(
                HOME=str(self.home),
                PWD=str(self.project),
                PATH=os.pathsep.join(folders),
                HTTPS_PROXY=model,
                NO_PROXY="127.0.0.1,localhost",
                NO_COLOR="1",
                **env,
            ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        return Ran(done.returncode, done.stdout + done.stderr)

    def prompt(self, text: str, model: str, **env: str) -> Ran:
        """One session with a prompt, without any question to its user."""
        flags, own = _SESSIONS[self.name](self, text, model)
        return self.run(*flags, model=model, **own, **env)

    def shell(self, command: str) -> Call:
        """How its model runs a command."""
        tool, field, more = {
            "claude": ("Bash", "command", {}),
            "codex": ("exec_command", "cmd", {}),
            "gemini": ("run_shell_command", "command", {}),
            "opencode": ("bash", "command", {"description": "a command"}),
        }[self.name]
        return Call(tool, {field: command, **more})

    def todo(self, text: str) -> Call:
        """How its model notes what is left to do."""
        open_item = {"status": "pending"}
        tool, arguments = {
            "claude": ("TaskCreate", {"subject": text, "description": text}),
            "codex": ("update_plan", {"plan": [{"step": text, **open_item}]}),
            "gemini": ("write_todos", {"todos": [{"description": text, **open_item}]}),
            "opencode": (
                "todowrite",
                {"todos": [{"content": text, "priority": "high", **open_item}]},
            ),
        }[self.name]
        return Call(tool, arguments)


def _claude(host: RealHost, prompt: str, model: str) -> Started:
    settings = json.dumps({"enableAllProjectMcpServers": True})
    flags = ("-p", prompt, "--dangerously-skip-permissions", "--settings", settings)
    return flags, {
        "ANTHROPIC_BASE_URL": model,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_ENABLE_TODO_TOOLS": "1",
        "ENABLE_TOOL_SEARCH": "false",
        "IS_SANDBOX": "1",
    }


def _codex(host: RealHost, prompt: str, model: str) -> Started:
    provider = {"name": "scripted", "base_url": model, "wire_api": "responses"}
    lines = [f"{name} = {json.dumps(value)}" for name, value in provider.items()]
    config = [
        'model = "scripted"',
        'model_provider = "scripted"',
        "[tools.update_plan]",
        "enabled = true",
        "[analytics]",
        "enabled = false",
        f"[projects.{json.dumps(str(host.project))}]",
        'trust_level = "trusted"',
        "[model_providers.scripted]",
        *lines,
    ]
    host.write(".codex/config.toml", "\n".join(config) + "\n")
    flags = ("--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust")
    return ("exec", *flags, prompt), {}


def _gemini(host: RealHost, prompt: str, model: str) -> Started:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False},
    }
    host.write(".gemini/settings.json", json.dumps(settings))
    return ("-m", "gemini-2.5-flash", "--approval-mode", "yolo", "-p", prompt), {
        "GEMINI_API_KEY": "none",
        "GOOGLE_GEMINI_BASE_URL": model,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "GEMINI_CLI_NO_RELAUNCH": "true",
    }


def _opencode(host: RealHost, prompt: str, model: str) -> Started:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "scripted",
        "options": {"baseURL": model, "apiKey": "none"},
        "models": {"scripted": {"name": "scripted"}},
    }
    config = {
        "provider": {"scripted": provider},
        "model": "scripted/scripted",
        "small_model": "scripted/scripted",
        "autoupdate": False,
        "share": "disabled",
    }
    host.write(".config/opencode/opencode.json", json.dumps(config))
    return ("run", prompt), {"OPENCODE_DISABLE_MODELS_FETCH": "1"}


_SESSIONS: dict[str, Callable[[RealHost, str, str], Started]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "opencode": _opencode,
}

"""Check the hosts of a project: which are present, whether they are set up, when hooks last ran."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from passdown.errors import InvalidInput, Problem
from passdown.hosts.definitions import COMMAND, HOSTS
from passdown.hosts.hooks.files import HookRun, last_runs, log_path
from passdown.hosts.setup import detected_hosts, installed_hosts, plan_setup, read_setup_state

if TYPE_CHECKING:
    from passdown.core.types import JsonObject

START_LIMIT_S = 20.0
_SLOW_MS = 5_000
"""The shortest time that a host waits for a server: opencode's."""

_INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "passdown-doctor", "version": "1"},
    },
}


def examine_hosts(
    root: str, folder: str, *, start: bool = True
) -> tuple[JsonObject, list[Problem]]:
    """Facts and findings about the hosts of a project; with `start`, the MCP server is started.

    Nothing is started, and nobody is bothered, where no host is set up and no hook has run.
    """
    findings: list[Problem] = []
    wired = installed_hosts(root)
    fired = last_runs(folder)
    facts: JsonObject = {"hosts": _hosts(root, wired, fired, findings)}
    if not wired and not fired:
        return facts, findings
    facts["hooks"] = _hooks(folder, wired, fired, findings)
    program = read_setup_state(root).program
    if shutil.which(program or COMMAND) is None:
        where = "isn't there any more" if program else "isn't on the PATH of this shell"
        message = f"hosts run {program or COMMAND}, which {where}"
        fix = "install it with pipx or uv tool install, or passdown init --host NAME --absolute"
        findings.append(Problem("hooks", "not_on_path", message, "", fix, "warning"))
    if not os.access(folder, os.W_OK):
        message = f"{folder} is not writable: hooks give context but keep nothing"
        findings.append(Problem(folder, "read_only", message, "a folder of yours", "", "warning"))
    if start:
        facts["mcp_start_ms"] = _server(root, findings)
    return facts, findings


def _hosts(
    root: str, wired: list[str], fired: dict[str, HookRun], findings: list[Problem]
) -> dict[str, str]:
    running = {hook.partition(" ")[0] for hook in fired}
    present = {*wired, *running, *detected_hosts(root)}
    found = {name: _state(name, wired, running) for name in HOSTS if name in present}
    for name, state in found.items():
        if state == "found":
            message = f"{HOSTS[name].title} was found and isn't set up"
            fix = f"passdown init --host {name}"
            findings.append(Problem(name, "not_wired", message, "", fix, "warning"))
    if not wired:
        return found
    try:
        changes = plan_setup(root, read_setup_state(root), add_hosts=(), drop=()).changes
    except InvalidInput as error:
        findings += [problem._replace(level="warning") for problem in error.problems]
        return found
    for change in changes:
        message = f"{change.path} isn't as it should be"
        fix = "passdown init --print shows what is missing, passdown init --host NAME fixes it"
        findings.append(Problem(change.path, "differs", message, "", fix, "warning"))
    return found


def _state(name: str, wired: list[str], running: set[str]) -> str:
    if name in wired:
        return "set up"
    # Setting it up here too would give everything twice.
    return "set up by a plugin or user settings" if name in running else "found"


def _hooks(
    folder: str, wired: list[str], fired: dict[str, HookRun], findings: list[Problem]
) -> JsonObject:
    for name in wired:
        if not any(hook.startswith(f"{name} ") for hook in fired):
            message = f"no hook of {HOSTS[name].title} has run here yet"
            fix = f"start a session; {HOSTS[name].title} {HOSTS[name].note}"
            findings.append(Problem(f"hooks {name}", "never_fired", message, "", fix, "warning"))
    for hook, last in fired.items():
        if last.fault:
            message = f"failed at {last.at}: {last.fault}"
            fix = f"see {log_path(folder)}"
            findings.append(Problem(f"hook {hook}", "hook_failed", message, "", fix, "warning"))
    return {hook: last._asdict() for hook, last in fired.items()}


def _server(root: str, findings: list[Problem]) -> int | None:
    """How long the MCP server takes until its first answer; None, with a finding, without one."""
    begun = time.monotonic()
    command = [sys.executable, "-m", "passdown", "mcp"]
    try:
        done = subprocess.run(
            command,
            cwd=root,
            input=json.dumps(_INITIALIZE).encode() + b"\n",
            capture_output=True,
            timeout=START_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        _no_server(str(error)[:200], findings)
        return None
    took = round((time.monotonic() - begun) * 1000)
    if b'"result"' not in done.stdout:
        _no_server(done.stderr.decode(errors="replace").strip()[:200], findings)
        return None
    if took > _SLOW_MS:
        message = f"the MCP server took {took} ms; some hosts wait {_SLOW_MS} ms"
        findings.append(
            Problem("mcp", "slow_start", message, "", "look for a busy disk", "warning")
        )
    return took


def _no_server(why: str, findings: list[Problem]) -> None:
    message = f"the MCP server gave no answer: {why or 'it printed nothing'}"
    fix = "run passdown mcp here and see what it prints"
    findings.append(Problem("mcp", "no_answer", message, "", fix, "warning"))

"""A host that isn't ours, as its users run it: Gemini CLI from npm, set up by `passdown init`.

Its model is a script on loopback, and a guard inside it refuses every other address, so nothing
here needs a key or leaves the machine. What was tried with the other hosts stands in docs/hosts.md.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

import passdown
from tests.interfaces.hosting import Host, environment
from tests.interfaces.scripted_model import DONE, Call, served
from tests.npm_packages import Package, installed
from tests.processes import forked_python

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.interfaces.running import Run

PACKAGE = Package("@google/gemini-cli", "0.61.0", "gemini")

GUARD = """
const fs = require("node:fs")
const net = require("node:net")
const connect = net.Socket.prototype.connect
net.Socket.prototype.connect = function (...given) {
  const first = Array.isArray(given[0]) ? given[0][0] : given[0]
  const options = typeof first === "object" ? first : { host: given[1] }
  const host = options.path ? "localhost" : (options.host ?? "localhost")
  if (/^(localhost|127[.]|::1$)/.test(host)) return connect.apply(this, given)
  fs.appendFileSync(process.env.REFUSED_HOSTS, host + "\\n")
  process.nextTick(() => this.destroy(new Error("refused: " + host)))
  return this
}
"""

pytestmark = pytest.mark.timeout(600)


class Gemini:
    """Gemini CLI in a project, with a home of its own."""

    def __init__(self, command: tuple[str, str], project: Path, home: Path) -> None:
        self.command = command
        self.project = project
        self.home = home
        (home / "bin").mkdir(parents=True)
        program = home / "bin/passdown"
        program.write_text(f'#!/bin/sh\nexec "{forked_python()}" -m passdown "$@"\n', "utf-8")
        program.chmod(0o755)
        (home / "guard.cjs").write_text(GUARD, "utf-8")
        (home / ".gemini").mkdir()
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
        }
        (home / ".gemini/settings.json").write_text(json.dumps(settings), "utf-8")

    def run(self, *arguments: str, model: str = "http://127.0.0.1:9") -> str:
        """What it prints, on both streams."""
        done = subprocess.run(
            [*self.command, *arguments],
            cwd=self.project,
            env=environment(
                HOME=str(self.home),
                PATH=f"{self.home / 'bin'}{os.pathsep}{os.environ['PATH']}",
                GEMINI_API_KEY="none",
                GOOGLE_GEMINI_BASE_URL=model,
                GEMINI_CLI_TRUST_WORKSPACE="true",
                GEMINI_CLI_NO_RELAUNCH="true",
                NODE_OPTIONS=f"--require={self.home / 'guard.cjs'}",
                REFUSED_HOSTS=str(self.home / "refused.txt"),
                NO_COLOR="1",
            ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout + done.stderr


@pytest.fixture
def gemini(project: Path, cli: Run, tmp_path: Path, need_program: Callable[[str], str]) -> Gemini:
    command = installed(PACKAGE, need_program)
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    cli("init", "--host", "gemini")
    cli("task", "new", "T-1", "--title", "Login form", "--agent", "coder")
    cli("decide", "JWT in a cookie", "--why", "safe", "--task", "T-1", "--agent", "planner")
    return Gemini(command, project, tmp_path / "home")


def test_the_guard_lets_nothing_out(gemini: Gemini) -> None:
    """Otherwise the tests below would show less than they say."""
    source = 'fetch("http://192.0.2.1/").catch((e) => console.log("" + e.cause))'
    done = subprocess.run(
        [gemini.command[0], f"--require={gemini.home / 'guard.cjs'}", "-e", source],
        env=environment(REFUSED_HOSTS=str(gemini.home / "refused.txt")),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert "refused: 192.0.2.1" in done.stdout, done
    assert (gemini.home / "refused.txt").read_text("utf-8") == "192.0.2.1\n"


@pytest.mark.promise("H-13")
def test_a_real_host_sees_the_server_as_it_was_set_up(gemini: Gemini) -> None:
    """It waits five seconds for a server, which a busy machine may need more than once."""
    said = [gemini.run("mcp", "list")]
    while "Connected" not in said[-1] and len(said) < 4:
        said.append(gemini.run("mcp", "list"))
    assert "passdown: passdown mcp (stdio) - Connected" in said[-1], said


@pytest.mark.promise("H-13")
def test_a_real_host_is_briefed_hands_off_and_is_asked_to(gemini: Gemini) -> None:
    """Its hooks tell the model of the task, the model calls our tool, the next session knows."""
    handoff = {
        "task": "T-1",
        "agent": "coder",
        "outcome": "completed",
        "summary": "The form is drawn.",
        "to": "tester",
        "next_steps": ["Validate the fields"],
    }
    asked = ("-m", "gemini-2.5-flash", "--approval-mode", "yolo", "-p", "Go on with the form")
    with served(Call("handoff", handoff)) as model:
        assert DONE in gemini.run(*asked, model=model.url)
        assert "JWT in a cookie" in model.heard, "the brief reached the model"
        assert "version 3" in model.heard, "and so did the tool's answer"
    with passdown.open(str(gemini.project)) as ws:
        assert ws.task("T-1").holder == "tester"
    events = [line["event"] for line in Host(gemini.project).log]
    assert events[:2] == ["session-start", "prompt-submit"]
    assert events[-2:] == ["stop", "session-end"]
    assert {line["level"] for line in Host(gemini.project).log} == {"ok"}

    with served(Call("run_shell_command", {"command": "echo 1 > form.py"})) as model:
        assert DONE in gemini.run(*asked, model=model.url)  # the next agent, in its own session
        assert "The form is drawn." in model.heard
        assert "Validate the fields" in model.heard
        assert "No handoff of T-1 was recorded" in model.heard, "its stop was held up, once"
    draft = (gemini.project / ".passdown/drafts/T-1.yaml").read_text("utf-8")
    assert 'path: "form.py"' in draft
    assert '"command": "echo 1 > form.py", "exit": 0' in draft

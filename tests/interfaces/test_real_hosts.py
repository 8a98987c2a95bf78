"""A host that isn't ours, as its users run it: Gemini CLI from npm, set up by `passdown init`.

Its model is a script on loopback, and a guard inside it refuses every other address, so nothing
here needs a key or leaves the machine. `test_host_pairs.py` has the other hosts.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

import passdown
from tests.interfaces.hosting import Host, environment
from tests.interfaces.real_hosts import RealHost
from tests.interfaces.scripted_model import DONE, Call, served

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.interfaces.running import Run

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
    """Gemini CLI in a project, with a guard inside it."""

    def __init__(self, host: RealHost) -> None:
        self.host = host
        self.project = host.project
        self.refused = host.home / "refused.txt"
        host.write("guard.cjs", GUARD)
        self.env = {
            "NODE_OPTIONS": f"--require={host.home / 'guard.cjs'}",
            "REFUSED_HOSTS": str(self.refused),
        }

    def prompt(self, text: str, model: str) -> str:
        """What a session prints, on both streams."""
        ran = self.host.prompt(text, model, **self.env)
        assert ran.code == 0, ran.text
        return ran.text

    def servers(self) -> str:
        """What it says of its servers."""
        env = {**self.env, "GEMINI_CLI_TRUST_WORKSPACE": "true"}
        return self.host.run("mcp", "list", model="http://127.0.0.1:9", **env).text


@pytest.fixture
def gemini(project: Path, cli: Run, tmp_path: Path, need_program: Callable[[str], str]) -> Gemini:
    host = RealHost("gemini", project, tmp_path / "home", need_program)
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    cli("init", "--host", "gemini")
    cli("task", "new", "T-1", "--title", "Login form", "--agent", "coder")
    cli("decide", "JWT in a cookie", "--why", "safe", "--task", "T-1", "--agent", "planner")
    return Gemini(host)


def test_the_guard_lets_nothing_out(gemini: Gemini) -> None:
    """Otherwise the tests below would show less than they say."""
    source = 'fetch("http://192.0.2.1/").catch((e) => console.log("" + e.cause))'
    done = subprocess.run(
        [gemini.host.node, "-e", source],
        env=environment(**gemini.env),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert "refused: 192.0.2.1" in done.stdout, done
    assert gemini.refused.read_text("utf-8") == "192.0.2.1\n"


@pytest.mark.promise("H-13")
def test_a_real_host_sees_the_server_as_it_was_set_up(gemini: Gemini) -> None:
    """It waits five seconds for a server, which a busy machine may need more than once."""
    said = [gemini.servers()]
    while "Connected" not in said[-1] and len(said) < 4:
        said.append(gemini.servers())
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
    with served(Call("handoff", handoff)) as model:
        assert DONE in gemini.prompt("Go on with the form", model.url)
        assert "JWT in a cookie" in model.heard, "the brief reached the model"
        assert "version 3" in model.heard, "and so did the tool's answer"
    with passdown.open(str(gemini.project)) as ws:
        assert ws.task("T-1").holder == "tester"
    events = [line["event"] for line in Host(gemini.project).log]
    assert events[:2] == ["session-start", "prompt-submit"]
    assert events[-2:] == ["stop", "session-end"]
    assert {line["level"] for line in Host(gemini.project).log} == {"ok"}

    with served(Call("run_shell_command", {"command": "echo 1 > form.py"})) as model:
        assert DONE in gemini.prompt(
            "Go on with the form", model.url
        )  # the next agent, in its own session
        assert "The form is drawn." in model.heard
        assert "Validate the fields" in model.heard
        assert "No handoff of T-1 was recorded" in model.heard, "its stop was held up, once"
    draft = (gemini.project / ".passdown/drafts/T-1.yaml").read_text("utf-8")
    assert 'path: "form.py"' in draft
    assert '"command": "echo 1 > form.py", "exit": 0' in draft

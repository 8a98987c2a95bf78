"""Relay files as `passdown run` takes them: all that is wrong at once, and what they name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown.errors import InvalidInput
from passdown.relay.relay_file import check_relay
from passdown.relay.runs import Runs
from passdown.relay.worker import run_here
from tests.processes import forked_python

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.interfaces.running import Run

FAULTY = """
relay: two words
agents:
  a: {runner: {command: python3 agent.py}, separate: [b], spec: gone.md}
  b: {runner: {command: [./nosuch.sh]}, templates: gone}
  c: {runner: {command: [nosuchprogram-zz]}, profile: nobody}
  d: {runner: {command: [python3, nofile.py]}, templates: odd}
  e: {runner: {script: gone.yaml}}
  f: {runner: {python: "gone:function"}}
  g: {runner: {command: [cat]}, spec: specs, memory: project}
  h: {runner: {command: [cat]}, spec: specs, sharing: all}
  i: {runner: {command: [cat]}, spec: specs}
legs: [{leg: one, agent: zed}]
"""


def test_everything_that_is_wrong_is_said_at_once(
    project: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    cli("task", "new", "T-1", "--title", "Login")
    for folder in ("odd", "specs"):
        (project / folder).mkdir()
    (project / "odd" / "leg.md").write_text("{{nothing}}", "utf-8")
    (project / "specs" / "T-2.md").write_text("Other.", "utf-8")
    (project / "relay.yaml").write_text(FAULTY, "utf-8")
    said = cli("run", "relay.yaml", "--task", "T-1", code=1).err
    for place in (
        *("relay", "agents.a.runner.command", "agents.a.separate", "agents.a.spec"),
        *("agents.b.runner.command", "agents.b.templates", "agents.c.runner.command"),
        *("agents.c.profile", "agents.d.runner.command", "agents.d.templates"),
        *("agents.e.runner", "agents.f.runner.python", "agents.g.spec", "agents.h.spec"),
        *("agents.i.spec", "legs[0].agent"),
    ):
        assert f"{place}" in said, place
    assert "write [python3, agent.py]" in said
    assert "separate and sharing: pairs are only used together" in said
    assert "{{nothing}} is not a placeholder" in said
    assert as_json("runs") == []


AGENT = """
import os, sys
with open(os.path.join(os.environ["TOLD"], os.environ["PASSDOWN_AGENT"]), "w") as file:
    file.write(sys.stdin.read())
print("## Handoff\\n```yaml\\noutcome: completed\\nsummary: Done.\\ngotchas: []\\n```")
"""


@pytest.mark.promise("S4-13")
@pytest.mark.parametrize("spec", ["specs", ".", "specs/T-1.md"])
def test_a_specification_beside_the_relay_file_is_told(
    project: Path, cli: Run, monkeypatch: pytest.MonkeyPatch, spec: str
) -> None:
    """A folder or a file; a file also to an agent without tasks and in a shared conversation."""
    cli("task", "new", "T-1", "--title", "Login")
    monkeypatch.setenv("TOLD", str(project))
    folder = project / "relays"
    (folder / "specs").mkdir(parents=True)
    (folder / "specs" / "T-1.md").write_text("THE-SPEC", "utf-8")
    (folder / "T-1.md").write_text("THE-SPEC", "utf-8")
    (folder / "agent.py").write_text(AGENT, "utf-8")
    runner = f"runner: {{command: [{forked_python()}, agent.py]}}, spec: {spec}"
    agents = [f"  own: {{{runner}}}"]
    if spec.endswith(".md"):
        agents += [f"  pm: {{{runner}, memory: project}}", f"  all: {{{runner}, sharing: all}}"]
    names = [line.split(":")[0].strip() for line in agents]
    legs = ", ".join(f"{{leg: {name}, agent: {name}}}" for name in names)
    text = "relay: told\nagents:\n" + "\n".join(agents) + f"\nlegs: [{legs}]\n"
    (folder / "relay.yaml").write_text(text, "utf-8")
    cli("run", "relays/relay.yaml", "--task", "T-1")
    for name in names:
        assert "THE-SPEC" in (project / name).read_text("utf-8"), name


def test_a_runner_for_an_unknown_agent_is_refused(project: Path, cli: Run) -> None:
    cli("task", "new", "T-1", "--title", "Login")
    document = {
        "relay": "small",
        "agents": {"coder": {"runner": {"command": ["cat"]}}},
        "legs": [{"leg": "code", "agent": "coder"}],
    }
    runners: dict[str, Any] = {"codr": str}
    with passdown.open(str(project)) as ws:
        run = Runs(ws).start(check_relay(document), "T-1", by="eva", lane="here")
        with pytest.raises(InvalidInput, match="left as it is") as refused:
            run_here(ws, run.run, runners=runners, waits=False)
    assert refused.value.problems[0].expected == "coder"

"""The four ways to reset a conversation, each in a relay that runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown.workspace.streams import WorkspaceStreams
from tests.folders import new_folder
from tests.relay.relays import SCRIPT, document, leg
from tests.relay.staging import QUICK, Stage, reply
from tests.relay.talking import resets

if TYPE_CHECKING:
    from pathlib import Path

    from passdown import Workspace
    from passdown.relay.runners import AgentRequest


class Clock:
    """The usual time, moved on by what is added to it."""

    def __init__(self) -> None:
        self.later = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.later


def reasons(ws: Workspace) -> list[str]:
    """Why the coder's conversations were reset."""
    heads = WorkspaceStreams(ws).streams("conversation/T-1/coder/")
    return [body["why"] for head in heads for body in resets(ws, head.stream)]


@pytest.mark.promise("S4-11")
@pytest.mark.parametrize("way", ["", "setup", "lease", "asked", "age"])
def test_each_way_to_reset_is_wired_in_a_relay(tmp_path: Path, way: str) -> None:
    """After it, nothing of what was said before is in the prompt; without one, all of it is.

    An agent that starts again enters SETUP; another run is another lease; a leg may ask for a fresh
    conversation; and a relay says after how many hours one is too old.
    """
    clock = Clock()
    with passdown.open(new_folder(tmp_path / "ws"), settings=QUICK, clock=clock) as ws:
        ws.create_task("T-1", title="Login", agent="eva")
        stage = Stage(ws)

        def agent(asked: AgentRequest) -> str:
            is_first = (asked.leg, asked.visit) == ("review", 1)
            if is_first and way == "age":
                clock.later += timedelta(hours=2)
            if is_first and way == "setup":
                stage.states.move(f"coder.{asked.run}", "ERROR", "WAITING", why="started again")
            to = {"to_agent": "coder"} if is_first and way != "lease" else {}
            return f"WORDS-{asked.agent}-{asked.visit}\n" + reply(**to)

        coder: dict[str, Any] = {"runner": SCRIPT}
        coder |= {"max_age_hours": 1} if way == "age" else {}
        code = leg("code", "coder", **({"fresh": True} if way == "asked" else {}))
        back = {"when": {"to": "coder"}, "go": "code", "at_most": 1}
        relay = document(code, leg("review", "reviewer", back), agents={"coder": coder})
        before: list[str] = []
        if way == "lease":
            stage.run(relay, agent)
            before = reasons(ws)
        stage.run(relay, agent)
        first, second = stage.prompts("code")[:2]
        assert "WORDS" not in first
        assert ("WORDS-coder-1" in second) is (way == "")
        found = reasons(ws)[len(before) :]
        assert (way in found) is bool(way), found
        assert set(found) <= {"lease", way}

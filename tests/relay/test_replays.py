"""A leg taken again: on both stores, and whatever ran beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import passdown
from tests.relay.relays import document, leg
from tests.relay.staging import QUICK, Stage, completes, reply

if TYPE_CHECKING:
    from pathlib import Path

    from passdown.relay.runners import AgentRequest


@pytest.mark.promise("C-3")
def test_a_leg_is_taken_again_on_both_stores(tmp_path: Path, each_store: None) -> None:
    """Its state, brief and search are those of then; the original's records stay."""
    legs = (leg("plan", "planner"), leg("code", "coder"), leg("check", "tester"))
    agents = {name: {"runner": {"script": "s.yaml"}} for name in ("planner", "coder", "tester")}
    with passdown.open(str(tmp_path), settings=QUICK) as ws:
        ws.create_task("T-1", title="Login", agent="eva")
        ws.create_task("T-2", title="Other", agent="eva")
        stage = Stage(ws)
        run = stage.run(document(*legs, agents=agents))
        assert run.status == "completed"
        ws.decide(task="T-2", agent="eva", summary="Written later", rationale="nobody knew")
        before = ws.maintenance.heads().heads
        asked: list[AgentRequest] = []

        def again(given: AgentRequest) -> str:
            asked.append(given)
            with passdown.open(given.store) as then:
                assert then.task("T-1").version == 2
                assert then.recall("Written later", only_fitting=True, by_words=True) == []
            return reply(summary="Otherwise.", facts=[{"key": "port", "value": "1"}])

        found = ws.relay.replay("R-1", "code", by="eva", runner=again)
        assert asked[0].prompt == stage.prompts("code")[0]
        assert (found["first"]["version"], found["again"]["version"]) == (3, 3)
        assert found["diff"]["summary"] == {"first": "Did it.", "again": "Otherwise."}
        assert found["diff"]["facts"]["again"] == [{"key": "port", "value": "1"}]
        assert ws.maintenance.heads().heads == before
        assert ws.relay.replays("R-1") == [found]
        with passdown.open(found["store"]) as other:
            assert other.verify().ok
            assert [turn["outcome"] for turn in other.relay.run("R-1")["turns"]] == [
                "completed"
            ] * 2


def refuses(_: AgentRequest) -> str:
    return "I can't."


@pytest.mark.promise("C-3")
def test_a_failed_replay_says_why_and_is_kept(tmp_path: Path) -> None:
    """Nothing valid came of it: the first handoff is shown beside nothing."""
    with passdown.open(str(tmp_path), settings=QUICK) as ws:
        ws.create_task("T-1", title="Login", agent="eva")
        stage = Stage(ws)
        stage.run(document(leg("plan", "planner"), leg("code", "coder")))
        found = ws.relay.replay("R-1", "1", by="eva", runner=refuses)
        assert (found["again"]["outcome"], found["again"]["handoff"]) == ("error", {})
        assert "no reply was valid" in found["again"]["why"]
        assert found["diff"] == {}
        again = ws.relay.replay("R-1", "1", by="eva", runner=completes)
        assert again["diff"] == {}
        assert [each["replay"] for each in ws.relay.replays("R-1")] == [
            "replay-R-1-1-1",
            "replay-R-1-1-2",
        ]

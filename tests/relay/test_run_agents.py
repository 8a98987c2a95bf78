"""The states of agents in a run while it goes on, and that they are free when it has ended."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown.relay.agents import (
    DETOURS,
    MACHINES,
    RunAgents,
    StatePosition,
    check_path,
    instance_name,
    shortest_path,
)
from tests.relay.relays import document, leg
from tests.relay.staging import QUICK, Stage, reply

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from passdown.relay.runners import AgentRequest


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with passdown.open(str(tmp_path), settings=QUICK) as ws:
        ws.create_task("T-1", title="Login", agent="eva")
        yield Stage(ws)


PHASES = document(
    leg("plan", "planner", phase="planning"),
    leg("code", "coder", phase="implementing"),
    leg("test", "tester", phase="testing"),
    leg("review", "reviewer", phase="reviewing"),
    leg("talk", "speaker"),
)
WAYS = {
    "planner": ["SETUP", "PLANNING"],
    "coder": ["SETUP", "PLANNING", "CODING"],
    "tester": ["SETUP", "PLANNING", "CODING", "TESTING"],
    "reviewer": ["SETUP", "PLANNING", "CODING", "CODE_REVIEW"],
    "speaker": ["SETUP", "PLANNING", "CODING"],
}


def is_free(stage: Stage, run: str) -> bool:
    """Whether every seat of a run is left, with nothing refused on the way."""
    agents = stage.runs.get(run).relay.agents
    standings = [stage.states.status(instance_name(agent, run)) for agent in agents]
    refused = [
        entry
        for agent in agents
        for entry in stage.states.log(instance_name(agent, run))
        if entry["kind"] == "refused"
    ]
    return not refused and all((s.state, s.lease) == ("WAITING", None) for s in standings)


def test_agents_stand_where_their_work_is_and_are_done_at_the_end(
    stage: Stage, tmp_path: Path
) -> None:
    at_work: dict[str, tuple[str, str, str]] = {}

    def agent(asked: AgentRequest) -> str:
        standing = stage.states.status(instance_name(asked.agent, asked.run))
        assert standing.lease is not None
        at_work[asked.agent] = (standing.state, standing.lease.task, standing.lease.run)
        return reply(files_created=[{"path": path, "purpose": "work"} for path in files])

    files = ("login.py", "test_login.py")
    for name in files:
        (tmp_path / name).write_text("pass\n", "utf-8")
    run = stage.run(PHASES, agent)
    assert run.why == ""
    assert at_work == {name: (way[-1], "T-1", run.run) for name, way in WAYS.items()}
    for name, way in WAYS.items():
        assert stage.moves(instance_name(name, run.run)) == [*way, "DONE", "WAITING"]
    assert is_free(stage, run.run)


def test_a_seat_that_several_workers_settle_at_once_is_left_once(
    stage: Stage, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each with connections of its own: one leaves, the others find it left; nothing is refused."""
    run = stage.run(document(leg("code", "coder")), lambda _: reply())
    assert run.status == "completed"
    seat = instance_name("coder", run.run)
    spaces = [passdown.open(str(tmp_path), settings=QUICK) for _ in range(4)]
    for _ in range(12):
        before = len(stage.moves(seat))
        stage.states.lease(seat, "T-1", run.run)
        stage.states.move(seat, "SETUP", "PLANNING", "CODING")
        barrier = threading.Barrier(len(spaces))

        def settle(space: passdown.Workspace, barrier: threading.Barrier = barrier) -> None:
            seats = RunAgents(space)
            barrier.wait()
            seats.settle(run)

        threads = [threading.Thread(target=settle, args=(space,)) for space in spaces]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        made = stage.moves(seat)[before:]
        assert made == ["SETUP", "PLANNING", "CODING", "DONE", "WAITING"]
        assert is_free(stage, run.run)
    for space in spaces:
        space.close()
    assert [entry for entry in caplog.records if entry.levelno >= logging.WARNING] == []


def test_agents_of_a_run_that_failed_end_in_error_and_are_free(stage: Stage) -> None:
    run = stage.run(PHASES, lambda q: reply() if q.leg == "plan" else "no handoff")
    assert run.status == "failed"
    assert stage.moves("planner.R-1") == ["SETUP", "PLANNING", "ERROR", "WAITING"]
    assert stage.moves("coder.R-1")[-2:] == ["ERROR", "WAITING"]
    assert stage.states.log("tester.R-1") == []
    assert is_free(stage, run.run)


def test_agents_of_a_stopped_run_are_free(stage: Stage) -> None:
    run = stage.run(document(leg("code", "coder", gate="Go?"))).run
    assert stage.states.current_lease("coder.R-1") is not None, "it waits in its seat"
    stage.runs.stop(run, by="eva")
    stage.advance(run)
    assert is_free(stage, run)


def test_a_run_that_is_resumed_takes_its_seats_again(stage: Stage) -> None:
    run = stage.run(document(leg("code", "coder")), lambda _: "no handoff").run
    stage.runs.resume(run, by="eva")
    assert stage.advance(run).status == "completed"
    assert stage.moves("coder.R-1") == [
        *["SETUP", "PLANNING", "CODING", "ERROR", "WAITING"],
        *["SETUP", "PLANNING", "CODING", "DONE", "WAITING"],
    ]
    assert is_free(stage, run)


def reviewed(loops: int = 1) -> dict[str, Any]:
    agents = {
        "coder": {"runner": {"script": "s"}, "limits": {"loops": loops}, "review_by": "boss"},
    }
    again = {"when": {"outcome": "partial"}, "go": "again"}
    plan = leg("plan", "planner", phase="planning")
    return document(plan, leg("code", "coder", again), leg("end-check", "boss"), agents=agents)


@pytest.mark.parametrize(
    ("verdict", "way"),
    [
        ("continue", ["BUDGET_REVIEW", "CODING", "DONE", "WAITING"]),
        ("pivot", ["BUDGET_REVIEW", "PLANNING", "CODING", "DONE", "WAITING"]),
        ("abandon", ["BUDGET_REVIEW", "ERROR", "WAITING"]),
    ],
)
def test_an_agent_is_under_review_until_the_verdict(
    stage: Stage, verdict: str, way: list[str]
) -> None:
    states: list[str] = []

    def agent(asked: AgentRequest) -> str:
        if (asked.agent, asked.leg) == ("boss", "code"):
            states.append(stage.states.state("coder.R-1"))
            return f"{verdict} as before"
        return reply("partial" if (asked.leg, asked.visit) == ("code", 1) else "completed")

    run = stage.run(reviewed(), agent)
    assert states == ["BUDGET_REVIEW"]
    assert stage.moves("coder.R-1") == ["SETUP", "PLANNING", "CODING", *way]
    assert is_free(stage, run.run)


def test_a_person_who_continues_brings_the_agent_back_to_work(stage: Stage) -> None:
    def agent(asked: AgentRequest) -> str:
        if (asked.agent, asked.leg) == ("boss", "code"):
            return "escalate"
        return reply("partial" if (asked.leg, asked.visit) == ("code", 1) else "completed")

    run = stage.run(reviewed(), agent)
    assert (run.status, stage.states.state("coder.R-1")) == ("waiting", "SUSPEND")
    stage.runs.answer(run.run, "continue", by="eva")
    stage.advance(run.run, agent)
    way = ["BUDGET_REVIEW", "SUSPEND", "BUDGET_REVIEW", "CODING", "DONE", "WAITING"]
    assert stage.moves("coder.R-1")[3:] == way
    assert is_free(stage, run.run)


def test_the_review_of_one_agent_decides_nothing_for_another(stage: Stage) -> None:
    """Both are under review; one may continue, the other's is escalated."""
    agents = {
        name: {"runner": {"script": "s"}, "limits": {"loops": 1}, "review_by": "boss"}
        for name in ("a", "b")
    }
    again = {"when": {"outcome": "partial"}, "go": "again"}
    both = leg("plan", "boss", {"go": ["left", "right"]})
    relay = document(both, leg("left", "a", again, {"go": "end"}), leg("right", "b", again))
    relay["agents"] |= agents
    run = stage.ended(stage.start(relay).run, plan="completed").run
    seats = RunAgents(stage.ws)
    for turn in stage.runs.get(run).open_legs:
        seats.begin(stage.runs.get(run), turn)
    found = stage.ended(run, left="partial", right="partial")
    seats.settle(found)
    assert {stage.states.state(f"{name}.{run}") for name in "ab"} == {"BUDGET_REVIEW"}
    for turn in found.open_legs:
        verdict = "continue" if turn.leg == "left" else "escalate"
        stage.runs.end(run, turn.number, {"outcome": "completed", "verdict": verdict})
    found = stage.runs.advance(run)
    (turn,) = found.open_legs
    assert turn.leg == "left"
    seats.begin(found, turn)
    assert stage.states.state(f"a.{run}") == "CODING"


def test_one_agent_may_sit_in_several_runs(stage: Stage) -> None:
    for _ in range(2):
        run = stage.start(document(leg("code", "coder", gate="Go?"))).run
        RunAgents(stage.ws).begin(stage.runs.get(run), stage.runs.get(run).open_legs[0])
    assert {s.agent: s.lease and s.lease.run for s in stage.states.agents()} == {
        "coder.R-1": "R-1",
        "coder.R-2": "R-2",
    }


CODER = MACHINES["coder"]
GOALS = ("PLANNING", "CODING", "TESTING", "CODE_REVIEW", "DONE", "ERROR", "BUDGET_REVIEW")
STANDS = [
    *(StatePosition(state) for state in CODER.steps if state not in DETOURS),
    StatePosition("BUDGET_REVIEW", ("CODING",)),
    StatePosition("BUDGET_REVIEW", ("PLANNING",)),
    StatePosition("SUSPEND", ("CODING",)),
    StatePosition("SUSPEND", ("CODING", "BUDGET_REVIEW")),
    StatePosition("QUESTION", ("CODING",)),
]


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("position", STANDS, ids=str)
def test_there_is_a_legal_way_to_every_work(position: StatePosition, goal: str) -> None:
    path = shortest_path("coder", position, goal)
    walked = check_path(CODER, position, path)
    assert walked.problems == ()
    assert walked.position.state == goal

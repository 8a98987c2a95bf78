"""Where agents stand and which task they are on, through restarts and with many at work at once."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import passdown
from passdown import Settings
from passdown.errors import GateRefused, InvalidInput, KeyReused
from passdown.relay.agents import (
    MACHINES,
    AgentStates,
    Lease,
    StatePosition,
    check_path,
    legal_steps,
)
from passdown.testing import fixed_clock
from tests.faults.tools import ROOT, result_of, worker_environment
from tests.processes import Process
from tests.sizes import example_count

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from passdown import Workspace

QUICK = Settings(durability="normal", embedder="none")
CODER = MACHINES["coder"]
TO_CODING = ("SETUP", "PLANNING", "CODING")


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    with passdown.open(str(tmp_path), settings=QUICK, clock=fixed_clock()) as workspace:
        yield workspace


@pytest.fixture
def states(ws: Workspace) -> AgentStates:
    return AgentStates(ws)


def kinds(states: AgentStates, agent: str = "coder") -> list[str]:
    return [entry["kind"] for entry in states.log(agent)]


def started(folder: str, program: str, *arguments: str) -> subprocess.Popen[str]:
    """Another process in which `states` are those of the same workspace."""
    opening = (
        "import json, sys, passdown\n"
        "from passdown import Settings\n"
        "from passdown.errors import GateRefused\n"
        "from passdown.relay.agents import AgentStates\n"
        "chosen = Settings(durability='normal', embedder='none')\n"
        "ws = passdown.open(sys.argv[1], settings=chosen)\n"
        "states = AgentStates(ws)\n"
    )
    return Process(
        [sys.executable, "-c", opening + program, folder, *arguments],
        cwd=ROOT,
        env=worker_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.promise("S4-20", "S4-39")
def test_a_path_is_one_record_and_says_why(
    states: AgentStates, caplog: pytest.LogCaptureFixture
) -> None:
    """Express work goes from WAITING over SETUP to CODING, and the log has the whole way."""
    caplog.set_level(logging.INFO, "passdown.agents")
    assert states.state("coder") == "WAITING"
    after = states.move("coder", "SETUP", "CODING", why="a hot fix", is_express=True)
    assert (after.state, after.version) == ("CODING", 1)
    (entry,) = states.log("coder")
    assert (entry["kind"], entry["from"], entry["path"]) == (
        "moved",
        "WAITING",
        ["SETUP", "CODING"],
    )
    assert (entry["why"], entry["express"], entry["machine"]) == ("a hot fix", True, "coder")
    assert caplog.messages == ["coder: WAITING -> SETUP -> CODING (a hot fix)"]


@pytest.mark.promise("S4-20", "S4-39")
def test_an_illegal_step_changes_nothing_and_is_on_record(
    states: AgentStates, caplog: pytest.LogCaptureFixture
) -> None:
    """Normal work needs a plan: none of the path is taken, and the answer names what is legal."""
    with pytest.raises(GateRefused) as caught:
        states.move("coder", "SETUP", "CODING")
    (problem,) = caught.value.problems
    assert (problem.path, problem.code) == ("path[1]", "illegal_step")
    assert problem.expected == "one of PLANNING, ERROR, SUSPEND"
    assert states.state("coder") == "WAITING"
    (entry,) = states.log("coder")
    assert (entry["kind"], entry["from"], entry["to"]) == ("refused", "WAITING", "CODING")
    assert "CODING can't follow SETUP" in entry["why"]
    assert [(r.levelname, "can't follow" in r.getMessage()) for r in caplog.records] == [
        ("WARNING", True)
    ]
    assert states.move("coder", *TO_CODING).state == "CODING"


def test_a_machine_is_the_agents_own_until_it_waits(states: AgentStates) -> None:
    states.move("architect", "REQUEST", machine="architect")
    assert states.move("architect", "MONITORING").machine == "architect"
    with pytest.raises(GateRefused, match="MONITORING of architect"):
        states.move("architect", "SETUP", machine="coder")
    states.move("architect", "DONE", "WAITING")
    assert states.move("architect", "SETUP", "PLANNING", machine="coder").state == "PLANNING"


@pytest.mark.parametrize("agent", ["", "a/b", "a b", "system", "x" * 65, None])
def test_a_name_that_is_none_is_refused(states: AgentStates, agent: Any) -> None:
    """Before anything is read or written in its name."""
    for call in (states.state, states.log, states.release):
        with pytest.raises(InvalidInput):
            call(agent)
    with pytest.raises(InvalidInput):
        states.lease(agent, "T-1")
    with pytest.raises(InvalidInput):
        states.move(agent, "SETUP")
    assert states.agents() == []


def test_a_move_that_can_be_none_is_refused_with_all_that_is_wrong(states: AgentStates) -> None:
    wrong: Any = 7
    with pytest.raises(InvalidInput) as caught:
        states.move("coder", wrong, why=wrong, machine="pilot")
    assert [p.path for p in caught.value.problems] == ["path[0]", "machine", "why"]
    for path in ((), ("SUSPEND", "WAITING") * 26, ("x" * 65,), ("\ud800",)):
        with pytest.raises(InvalidInput):
            states.move("coder", *path)
    assert states.log("coder") == []


def test_a_secret_in_a_reason_is_neither_stored_nor_logged(
    states: AgentStates, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "passdown.agents")
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    states.move("coder", "SETUP", why=f"with {secret}\nline")
    assert secret not in json.dumps(states.log("coder")) + caplog.text
    assert "\\nline" in caplog.messages[0]


def test_who_waits_for_setup_is_told_after_the_move_and_only_on_entering(ws: Workspace) -> None:
    """A pause in SETUP isn't a new beginning."""
    told: list[object] = []
    reading = AgentStates(ws)
    states = AgentStates(ws, on_setup=lambda agent: told.append((agent, reading.state(agent))))
    states.lease("coder", "T-1", "R-1")
    states.move("coder", "SETUP", why="go")
    assert told == [("coder", "SETUP")]
    states.move("coder", "SUSPEND", "SETUP", "PLANNING")
    with pytest.raises(GateRefused):
        states.move("coder", "SETUP")
    assert len(told) == 1
    states.move("coder", "DONE", "WAITING", "SETUP", "PLANNING")
    assert told[1] == ("coder", "PLANNING")


def test_a_repeated_key_moves_once_and_tells_again_if_nothing_came_after(ws: Workspace) -> None:
    """A process may end between a move and what follows from it."""
    told: list[str] = []
    states = AgentStates(ws, on_setup=told.append)
    first = states.move("coder", "SETUP", key="leg-1")
    assert states.move("coder", "SETUP", key="leg-1") == first
    assert told == ["coder", "coder"]
    states.move("coder", "PLANNING")
    assert states.move("coder", "SETUP", key="leg-1") == first
    assert told == ["coder", "coder"]
    assert kinds(states) == ["moved", "moved"]
    with pytest.raises(KeyReused):
        states.move("coder", "CODING", key="leg-1")
    with pytest.raises(GateRefused):
        states.move("coder", "SETUP", key="leg-2")
    states.move("coder", "DONE", "WAITING")
    assert states.move("coder", "SETUP", key="leg-2").state == "SETUP"


@pytest.mark.promise("S4-41")
@pytest.mark.parametrize(
    ("verdict", "state"),
    [("continue", "CODING"), ("pivot", "PLANNING"), ("abandon", "ERROR"), ("escalate", "SUSPEND")],
)
def test_a_review_is_settled_with_guidance(states: AgentStates, verdict: str, state: str) -> None:
    """The answer decides the state; what it advises is on record."""
    states.move("coder", *TO_CODING, "BUDGET_REVIEW")
    assert states.settle_review("coder", verdict, "look at the cache").state == state
    entry = states.log("coder")[-1]
    assert (entry["verdict"], entry["why"]) == (verdict, "look at the cache")
    if verdict == "escalate":
        assert states.settle_review("coder", "escalate").state == "SUSPEND"
        assert states.settle_review("coder", "continue", key="k").state == "CODING"
        assert states.settle_review("coder", "continue", key="k").state == "CODING"
    with pytest.raises(GateRefused, match="no review"):
        states.settle_review("coder", "continue")


def test_an_answer_that_is_none_settles_nothing(states: AgentStates) -> None:
    states.move("coder", *TO_CODING, "BUDGET_REVIEW")
    with pytest.raises(InvalidInput, match="continue, pivot, escalate, abandon"):
        states.settle_review("coder", "perhaps")
    assert states.state("coder") == "BUDGET_REVIEW"


def test_an_agent_is_on_one_task_at_a_time(states: AgentStates) -> None:
    """The same again is the same lease; another needs a release; a later one is numbered higher."""
    first = states.lease("coder", "T-1", "R-1")
    assert first == Lease("coder", "T-1", 1, "R-1")
    assert states.lease("coder", "T-1", "R-1") == first
    for task, run in (("T-2", "R-1"), ("T-1", "R-2"), ("T-1", "")):
        with pytest.raises(GateRefused, match="coder is on T-1 in R-1"):
            states.lease("coder", task, run)
    states.move("coder", "SETUP")
    assert states.log("coder")[-1]["task"] == "T-1"
    assert states.release("coder", "done") == first
    assert states.release("coder", "again") is None
    second = states.lease("coder", "T-2")
    assert second.number > first.number
    assert states.release("coder", number=first.number) is None
    assert states.current_lease("coder") == second
    assert kinds(states) == ["leased", "moved", "released", "leased"]


def test_every_agent_is_listed_with_state_task_and_since(states: AgentStates) -> None:
    states.move("coder.R-1", "SETUP")
    states.lease("coder.R-1", "T-1")
    states.lease("architect", "T-2")
    listed = [(s.agent, s.state, s.task, bool(s.since)) for s in states.agents()]
    assert listed == [("architect", "WAITING", "T-2", False), ("coder.R-1", "SETUP", "T-1", True)]
    since = states.status("coder.R-1").since
    with pytest.raises(GateRefused):
        states.move("coder.R-1", "DONE")
    assert states.status("coder.R-1").since == since
    states.move("coder.R-1", "PLANNING")
    assert states.status("coder.R-1").since > since


def test_another_process_sees_where_an_agent_stands(ws: Workspace, states: AgentStates) -> None:
    """State, way back and lease, all from the store; what it does is seen here."""
    states.lease("coder", "T-1", "R-1")
    states.move("coder", *TO_CODING, "QUESTION")
    program = (
        "found = states.status('coder')\n"
        "lease = states.lease('coder', 'T-1', 'R-1')\n"
        "states.move('coder', 'CODING')\n"
        "print(json.dumps([found.state, found.position.came_from, lease]))\n"
    )
    found: Any = result_of(started(ws.root, program))
    assert found == ["QUESTION", ["CODING"], ["coder", "T-1", 1, "R-1"]]
    assert states.state("coder") == "CODING"
    assert ws.verify().findings == ()


LOOP = ("WAITING", "SETUP", "PLANNING", "CODING", "DONE", "WAITING")


def go_round(states: AgentStates, times: int) -> int:
    """Take whatever step is next in a loop, so often; others do the same."""
    made = 0
    while made < times:
        try:
            states.move("coder", LOOP[LOOP.index(states.state("coder")) + 1])
        except GateRefused:
            continue
        made += 1
    return made


def test_threads_and_processes_that_move_one_agent_lose_no_move(
    ws: Workspace, states: AgentStates
) -> None:
    """Each recorded move starts where the one before it ended; none is missing."""
    program = (
        f"loop = {LOOP!r}\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        "made = 0\n"
        "while made < 40:\n"
        "    try:\n"
        "        states.move('coder', loop[loop.index(states.state('coder')) + 1])\n"
        "        made += 1\n"
        "    except GateRefused:\n"
        "        pass\n"
        "print(json.dumps(made))\n"
    )
    workers = [started(ws.root, program) for _ in range(2)]
    for worker in workers:
        assert worker.stdin is not None
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("\n")
        worker.stdin.flush()
    threads = [threading.Thread(target=go_round, args=(states, 40)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made: Any = [result_of(worker) for worker in workers]
    assert made == [40, 40]
    moves = [entry for entry in states.log("coder") if entry["kind"] == "moved"]
    assert len(moves) == 6 * 40
    state = "WAITING"
    for move in moves:
        assert move["from"] == state
        (state,) = move["path"]
        assert state in legal_steps(CODER, StatePosition(move["from"]))
    assert states.state("coder") == state


def test_one_move_that_many_ask_for_at_once_is_made_once(
    ws: Workspace, states: AgentStates
) -> None:
    """With the same key, from threads and processes: each is given the one move that was made."""
    agents = [f"coder-{number}" for number in range(30)]
    program = (
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        f"found = [states.move(agent, 'SETUP', key='k').version for agent in {agents!r}]\n"
        "print(json.dumps(found))\n"
    )
    workers = [started(ws.root, program) for _ in range(2)]
    barrier, seen = threading.Barrier(4), list[list[int]]()

    def ask() -> None:
        barrier.wait()
        seen.append([AgentStates(ws).move(agent, "SETUP", key="k").version for agent in agents])

    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("\n")
        worker.stdin.flush()
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found: Any = [result_of(worker) for worker in workers]
    assert [*seen, *found] == [[1] * len(agents)] * 6
    assert [kinds(states, agent) for agent in agents] == [["moved"]] * len(agents)
    with pytest.raises(KeyReused):
        states.move(agents[0], "SETUP", "PLANNING", key="k")


def test_of_many_who_want_one_agent_one_gets_it(ws: Workspace) -> None:
    """Each for its own task, at the same moment."""
    barrier, leases = threading.Barrier(8), list[Lease]()

    def want(number: int) -> None:
        barrier.wait()
        try:
            leases.append(AgentStates(ws).lease("coder", f"T-{number}"))
        except GateRefused:
            leases.append(Lease("coder", "", 0))

    threads = [threading.Thread(target=want, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (got,) = [lease for lease in leases if lease.number]
    assert len(leases) == 8
    assert AgentStates(ws).current_lease("coder") == got


@settings(max_examples=example_count(10))
@given(
    wishes=st.lists(
        st.tuples(
            st.lists(st.sampled_from(list(CODER.steps)), min_size=1, max_size=3), st.booleans()
        ),
        max_size=8,
    )
)
def test_what_is_recorded_agrees_with_the_table(
    tmp_path_factory: pytest.TempPathFactory, wishes: list[tuple[list[str], bool]]
) -> None:
    """Whatever is asked for: legal paths are taken whole, others not at all."""
    folder = str(tmp_path_factory.mktemp("moves"))
    position = StatePosition()
    with passdown.open(folder, settings=QUICK, clock=fixed_clock()) as workspace:
        states = AgentStates(workspace)
        for path, is_express in wishes:
            walked = check_path(CODER, position, path, is_express=is_express)
            if walked.problems:
                with pytest.raises(GateRefused) as caught:
                    states.move("coder", *path, is_express=is_express)
                assert caught.value.problems == walked.problems
            else:
                states.move("coder", *path, is_express=is_express)
                position = walked.position
            assert AgentStates(workspace).status("coder").position == position
        assert len(states.log("coder")) == len(wishes)

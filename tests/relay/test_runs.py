"""Runs in the ledger: read back whole by whoever looks, safe for many at once, clear when wrong."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

import passdown
from passdown.errors import Conflict, Damaged, InvalidInput, NotFound
from passdown.relay.relay_file import check_relay
from passdown.relay.runs import Runs
from passdown.store.sqlite.schema import rows
from passdown.workspace.streams import WorkspaceStreams
from tests.faults.tools import ROOT, worker_environment
from tests.processes import run_python
from tests.relay.relays import document, leg
from tests.relay.staging import QUICK, Stage, reply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from passdown.relay.run import Run
    from passdown.relay.runners import AgentRequest

CODE, REVIEW = leg("code", "coder"), leg("review", "reviewer")
HOSTILE = ["", "../x", "R-1/../R-2", "R-1\0", "R-9", "r-1", "x" * 10_000, "R-1\n", "con", "%"]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with passdown.open(str(tmp_path), settings=QUICK) as ws:
        ws.create_task("T-1", title="Login", agent="eva")
        yield Stage(ws)


def in_another_process(code: str, *arguments: str) -> str:
    done = run_python(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env=worker_environment(),
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    return done.stdout


def looping() -> dict[str, Any]:
    """One loop, then a review by a person; a join, a gate, an error that goes on."""
    to_merge = {"when": {"outcome": "completed"}, "go": "merge"}
    again = {"when": {"outcome": "partial"}, "go": "again", "at_most": 2}
    anyhow = {"when": {"outcome": ["completed", "error"]}, "go": "merge"}
    return document(
        leg("plan", "planner", {"go": ["unit", "docs"]}, request="Plan."),
        leg("unit", "tester", to_merge, gate="Enough?"),
        leg("docs", "writer", anyhow),
        leg("merge", "coder", again, joins=["unit", "docs"]),
        agents={"coder": {"runner": {"script": "s"}, "limits": {"loops": 1}}},
    )


def eventful(asked: AgentRequest) -> str:
    if asked.leg == "docs":
        raise RuntimeError("no words")
    if asked.leg == "merge" and asked.visit == 1:
        return reply("partial", summary="half")
    return reply(summary=f"{asked.leg} done", to_agent="writer" if asked.leg == "unit" else "")


READ = """
import sys, passdown
from passdown.relay.runs import Runs
with passdown.open(sys.argv[1]) as ws:
    for run in Runs(ws).all():
        print(repr(run))
"""


def read_elsewhere(stage: Stage) -> list[str]:
    return in_another_process(READ, stage.ws.root).splitlines()


def told(runs: Runs) -> list[str]:
    return [repr(run) for run in runs.all()]


@pytest.mark.promise("S0-36")
def test_another_process_reads_back_every_field_of_a_run(stage: Stage) -> None:
    """At every rest of an eventful run; and by the end every field has been used."""
    run = stage.run(looping(), eventful)
    assert (run.status, read_elsewhere(stage)) == ("waiting", told(stage.runs))
    stage.ws.reject(stage.gate(), by="eva", reason="one more")
    run = stage.advance(run.run, eventful)
    stage.ws.approve(stage.gate(), by="eva")
    run = stage.advance(run.run, eventful)
    assert (len(run.asked) > 0, read_elsewhere(stage)) == (True, told(stage.runs))
    while run.asked:
        run = stage.runs.answer(run.run, "continue", by="eva", guidance="shorter")
        run = stage.advance(run.run, eventful)
    assert (run.status, read_elsewhere(stage)) == ("completed", told(stage.runs))
    unused = {"why", "stopped_by", "asked", "arrived", "promoted", "begins_with", "replay"}
    assert {name for name, value in run._asdict().items() if not value} <= unused
    turns = list(run.legs.values())
    names = set(turns[0]._fields) - {"kept", "kept_from", "result"}  # of other turns
    assert {n for n in names if any(getattr(turn, n) for turn in turns)} == names


@pytest.mark.promise("S0-36")
def test_runs_are_listed_with_the_newest_first_and_one_is_selected(stage: Stage) -> None:
    started = [stage.start(document(CODE)).run for _ in range(11)]
    assert [run.run for run in stage.runs.all()] == started[::-1]
    assert stage.runs.get("R-7") == stage.runs.all()[4]
    assert stage.runs.positions() == dict.fromkeys(started, 2)


@pytest.mark.promise("S0-36")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_run_that_is_not_there_is_said_so(stage: Stage, name: str) -> None:
    stage.start(document(CODE))
    before = WorkspaceStreams(stage.ws).streams("")
    for look in actions(stage.runs, name):
        with pytest.raises(NotFound) as refused:
            look()
        assert "there is no run" in str(refused.value)
        assert len(str(refused.value)) < 500
    assert WorkspaceStreams(stage.ws).streams("") == before, "nothing was written"


def actions(runs: Runs, name: str) -> list[Callable[[], object]]:
    return [
        lambda: runs.get(name),
        lambda: runs.advance(name),
        lambda: runs.resume(name, by="eva"),
        lambda: runs.answer(name, "continue", by="eva"),
        lambda: runs.stop(name, by="eva"),
    ]


@pytest.mark.parametrize("name", HOSTILE)
def test_no_turn_of_a_run_that_is_not_there_begins_or_ends(stage: Stage, name: str) -> None:
    with pytest.raises(NotFound):
        stage.runs.end(name, 1, {"outcome": "completed"})
    with pytest.raises(NotFound):
        stage.runs.begin(name, 1, "w")
    assert stage.runs.all() == []


def tamper(folder: Path, stream: str) -> None:
    """Change one word of a run's records, as somebody who can write the file could."""
    connection = apsw.Connection(str(folder / ".passdown" / "ledger.db"))
    triggers = rows(connection, "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
    for name, _ in triggers:
        rows(connection, f"DROP TRIGGER {name}")
    rows(
        connection,
        "UPDATE records SET body = CAST(replace(body, 'trial', 'trail') AS BLOB) "
        f"WHERE position = 1 AND stream = (SELECT id FROM streams WHERE name = '{stream}')",
    )
    for _, sql in triggers:
        rows(connection, str(sql))
    connection.close()


@pytest.mark.promise("S0-36")
def test_a_damaged_run_is_named_and_the_others_can_be_used(stage: Stage) -> None:
    first, second = stage.start(document(CODE)).run, stage.start(document(CODE)).run
    folder = Path(stage.ws.root)
    stage.ws.close()
    tamper(folder, f"run/{first}")
    with passdown.open(str(folder), settings=QUICK) as ws:
        runs = Runs(ws)
        for look in actions(runs, first):
            with pytest.raises(Damaged) as refused:
                look()
            assert f"run/{first}" in str(refused.value)
        assert runs.get(second).status == "running"
        assert not ws.verify().ok


@pytest.mark.parametrize(
    ("task", "by", "error"),
    [
        ("T-9", "eva", NotFound),
        ("../x", "eva", InvalidInput),
        ("T-1", "", InvalidInput),
        ("T-1", "system", InvalidInput),
        ("T-1", "a\0", InvalidInput),
    ],
)
def test_what_is_wrong_with_a_start_is_said_and_starts_nothing(
    stage: Stage, task: str, by: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        stage.runs.start(check_relay(document(CODE)), task, by=by)
    assert stage.runs.all() == []


@pytest.mark.parametrize("by", ["", "../x", "system", "a\0", "x" * 100])
def test_nobody_stops_or_resumes_a_run_without_a_name(stage: Stage, by: str) -> None:
    run = stage.start(document(CODE)).run
    with pytest.raises(InvalidInput):
        stage.runs.stop(run, by=by)
    with pytest.raises(InvalidInput):
        stage.runs.resume(stage.runs.stop(run, by="eva").run, by=by)
    assert stage.runs.get(run).status == "stopped"


def test_a_lane_that_nobody_serves_is_refused(stage: Stage) -> None:
    with pytest.raises(InvalidInput):
        stage.start(document(CODE), lane="nowhere")


def test_a_turn_that_was_never_started_is_refused_and_harms_nothing(stage: Stage) -> None:
    run = stage.start(document(CODE))
    for change in (
        lambda: stage.runs.begin(run.run, 99, "w"),
        lambda: stage.runs.end(run.run, 99, {"outcome": "completed"}),
    ):
        with pytest.raises((InvalidInput, NotFound, KeyError)):
            change()
    assert stage.runs.get(run.run) == run


@pytest.mark.parametrize(
    ("verdict", "guidance"), [("maybe", ""), ("continue", "a\0b"), ("continue", "x" * 10_000_000)]
)
def test_an_answer_that_is_none_changes_nothing(stage: Stage, verdict: str, guidance: str) -> None:
    run = asked_for_review(stage)
    with pytest.raises(InvalidInput):
        stage.runs.answer(run.run, verdict, by="eva", guidance=guidance)
    assert stage.runs.get(run.run) == run


def test_an_answer_needs_a_question(stage: Stage) -> None:
    run = stage.start(document(CODE))
    with pytest.raises(InvalidInput, match="not_asked"):
        stage.runs.answer(run.run, "continue", by="eva")


# -- many at once


def at_once(count: int, action: Callable[[int], Any]) -> list[Any]:
    """What each of some threads got, or the error."""
    meet = threading.Barrier(count)

    def act(number: int) -> Any:
        meet.wait()
        try:
            return action(number)
        except (Conflict, InvalidInput) as error:
            return error

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(act, range(count)))


def test_threads_that_start_at_once_get_runs_of_their_own(stage: Stage) -> None:
    found = at_once(8, lambda _: stage.start(document(CODE)).run)
    assert sorted(found) == sorted(f"R-{number}" for number in range(1, 9))
    assert all(list(run.legs) == [1] for run in stage.runs.all())


START = """
import sys, passdown
from passdown.relay.relay_file import check_relay
from passdown.relay.runs import Runs
from tests.relay.relays import document, leg
with passdown.open(sys.argv[1]) as ws:
    for _ in range(5):
        print(Runs(ws).start(check_relay(document(leg("code", "coder"))), "T-1", by="eva").run)
"""


def test_processes_that_start_at_once_get_runs_of_their_own(stage: Stage) -> None:
    with ThreadPoolExecutor(2) as pool:
        outs = list(pool.map(in_another_process, [START] * 2, [stage.ws.root] * 2))
    names = [name for out in outs for name in out.split()]
    assert sorted(names) == sorted(f"R-{number}" for number in range(1, 11))


def test_whoever_goes_on_at_once_starts_each_turn_once(stage: Stage) -> None:
    plan, code = (
        leg("plan", "planner", {"go": ["code", "review"]}),
        leg("code", "coder", {"go": "end"}),
    )
    run = stage.start(document(plan, code, REVIEW)).run
    stage.runs.end(run, 1, {"outcome": "completed"})
    found = at_once(6, lambda _: Runs(stage.ws).advance(run))
    assert {repr(each) for each in found} == {repr(stage.runs.get(run))}
    assert [(t.number, t.leg) for t in found[0].legs.values()] == [
        (1, "plan"),
        (2, "code"),
        (3, "review"),
    ]


def test_the_first_end_of_a_turn_counts(stage: Stage) -> None:
    run = stage.start(document(CODE)).run
    at_once(6, lambda n: stage.runs.end(run, 1, {"outcome": "completed", "summary": f"by {n}"}))
    kinds = [record.kind for record in WorkspaceStreams(stage.ws).records(f"run/{run}")]
    assert kinds == ["started", "legs", "leg_ended"]


def asked_for_review(stage: Stage) -> Run:
    agents = {"coder": {"runner": {"script": "s"}, "limits": {"loops": 1}}}
    run = stage.start(document(CODE, agents=agents)).run
    return stage.ended(run, code="partial")


def test_two_answers_at_once_are_one(stage: Stage) -> None:
    run = asked_for_review(stage)
    assert run.asked
    found = at_once(4, lambda n: stage.runs.answer(run.run, "continue", by=f"p-{n}"))
    assert sum(1 for each in found if isinstance(each, tuple)) == 1
    run = stage.runs.get(run.run)
    assert [(turn.kind, turn.outcome) for turn in run.legs.values()] == [
        ("leg", "partial"),
        ("budget_review", "completed"),
        ("leg", ""),
    ]


def test_a_run_is_stopped_and_answered_while_others_write_to_it(stage: Stage) -> None:
    """A person isn't told of a conflict with a worker that has only begun a turn."""
    run = stage.start(document(CODE)).run
    is_over = threading.Event()

    def write() -> None:
        while not is_over.is_set():
            stage.runs.begin(run, 1, "w")
            is_over.wait(0.001)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert stage.runs.stop(run, by="eva", why="enough").status == "stopped"
    finally:
        is_over.set()
        thread.join()


def test_resuming_at_once_starts_a_failed_leg_once(stage: Stage) -> None:
    run = stage.ended(stage.start(document(CODE)).run, code="failed").run
    at_once(4, lambda _: stage.runs.resume(run, by="eva"))
    assert [turn.outcome for turn in stage.runs.get(run).legs.values()] == ["failed", ""]


# -- stopped, and resumed


def test_a_stopped_run_takes_no_turn_twice(stage: Stage) -> None:
    """What was open when it was stopped is open again, or done again, but not both."""
    run = stage.start(document(CODE, REVIEW)).run
    stage.runs.stop(run, by="eva")
    stage.runs.resume(run, by="eva")
    found = stage.advance(run)
    assert (found.status, stage.calls()) == ("completed", ["code", "review"])


def test_a_run_that_was_stopped_at_a_gate_waits_at_it_again(stage: Stage) -> None:
    run = stage.run(document(leg("code", "coder", gate="Ship it?"), REVIEW)).run
    stage.runs.stop(run, by="eva")
    assert stage.runs.resume(run, by="eva").status == "waiting"
    stage.ws.approve(stage.gate(), by="eva")
    assert [turn.leg for turn in stage.advance(run).legs.values()] == ["code", "review"]


def test_a_run_that_was_stopped_at_a_review_can_be_resumed(stage: Stage) -> None:
    run = asked_for_review(stage).run
    stage.runs.stop(run, by="eva")
    with pytest.raises(InvalidInput):
        stage.runs.answer(run, "continue", by="eva")
    assert stage.runs.get(run).status == "stopped"
    found = stage.runs.resume(run, by="eva")
    assert (found.status, bool(found.asked), found.ended_at) == ("waiting", True, "")


def fork() -> dict[str, Any]:
    to_merge = {"when": {"outcome": "completed"}, "go": "merge"}
    return document(
        leg("plan", "planner", {"go": ["unit", "docs"]}),
        leg("unit", "tester", to_merge),
        leg("docs", "writer", to_merge),
        leg("merge", "coder", joins=["unit", "docs"]),
    )


def forked(stage: Stage, relay: dict[str, Any]) -> str:
    return stage.ended(stage.start(relay).run, plan="completed").run


@pytest.mark.parametrize("order", [("unit", "docs"), ("docs", "unit")])
def test_a_branch_that_fails_takes_nothing_from_the_other(
    stage: Stage, order: tuple[str, str]
) -> None:
    """Both ended before anybody drew the consequences; resuming repeats the failed one alone."""
    good, bad = order
    run = forked(stage, fork())
    assert stage.ended(run, **{good: "completed", bad: "failed"}).status == "failed"
    found = stage.runs.resume(run, by="eva")
    assert [turn.leg for turn in found.open_legs] == [bad]
    found = stage.ended(run, **{bad: "completed"})
    assert [turn.leg for turn in found.open_legs] == ["merge"]


def test_no_leg_is_left_out_when_another_branch_fails(stage: Stage) -> None:
    relay = document(
        leg("plan", "planner", {"go": ["unit", "docs"]}),
        leg("unit", "tester", {"when": {"outcome": "completed"}, "go": "more"}),
        leg("more", "tester", {"go": "end"}),
        leg("docs", "writer", {"when": {"outcome": "completed"}, "go": "end"}),
    )
    run = forked(stage, relay)
    stage.ended(run, unit="completed", docs="failed")
    stage.runs.resume(run, by="eva")
    found = stage.ended(run, docs="completed")
    assert "more" in [turn.leg for turn in found.legs.values()], f"{found.status} without it"


def test_resuming_a_blocked_branch_repeats_only_that(stage: Stage) -> None:
    run = forked(stage, fork())
    assert stage.ended(run, unit="completed", docs="blocked").status == "waiting"
    found = stage.runs.resume(run, by="eva")
    assert [turn.leg for turn in found.open_legs] == ["docs"]


def test_a_completed_run_is_not_resumed(stage: Stage) -> None:
    run = stage.ended(stage.start(document(CODE)).run, code="completed")
    assert run.status == "completed"
    with pytest.raises(InvalidInput, match="nothing to resume"):
        stage.runs.resume(run.run, by="eva")


# -- what a turn's key and a recorded relay have to withstand


def test_an_imported_task_does_not_bring_the_turns_of_another_project(
    stage: Stage, tmp_path: Path
) -> None:
    """Both projects have a run R-1 on T-1: the second asks its own agent."""
    stage.run(document(CODE), lambda _: reply(summary="there"))
    bundle = str(tmp_path / "bundle.zip")
    stage.ws.maintenance.export(bundle, "T-1")
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    passdown.init(str(folder)).close()
    with passdown.open(str(folder), settings=QUICK) as ws:
        ws.maintenance.import_bundle(bundle)
        other = Stage(ws)
        run = other.run(document(CODE), lambda _: reply(summary="here"))
        assert (other.calls(), run.legs[1].summary) == (["code"], "here")


def test_a_relay_whose_setting_would_be_redacted_is_refused(stage: Stage) -> None:
    """Else its agent would be run with the mark of what was taken out."""
    key = "sk-ant-api03-" + "A1b2C3d4" * 10
    runner = {"command": ["env"], "env": {"KEY": key}}
    relay = document(CODE, agents={"coder": {"runner": runner}})
    with pytest.raises(InvalidInput) as refused:
        stage.start(relay)
    assert key not in str(refused.value)
    assert stage.runs.all() == []

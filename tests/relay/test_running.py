"""Whole runs on a real engine: legs, gates, reviews, failures, and what is recorded of them."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown.errors import PassdownError
from passdown.relay.express import carry_out
from passdown.relay.relay_file import check_relay
from passdown.relay.runners.scripted import CallableRunner
from passdown.relay.runs import NORMAL, Runs
from passdown.relay.worker import EngineOptions, RelayWorker, open_engine, run_here, run_worker
from passdown.workspace.knowledge_tool import KnowledgeTool, pending_entries
from passdown.workspace.streams import StreamEntry, WorkspaceStreams
from tests.folders import new_folder
from tests.relay.relays import document, leg
from tests.relay.repositories import ALONE, make_repository
from tests.relay.staging import QUICK, Stage, person_needed, reply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from passdown.relay.run import Run
    from passdown.relay.runners import AgentRequest

CODE, REVIEW = leg("code", "coder"), leg("review", "reviewer")
GATED = document(leg("code", "coder", gate="Ship it?"), REVIEW)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    with passdown.open(new_folder(tmp_path / "one"), settings=QUICK) as ws:
        ws.create_task("T-1", title="Login", agent="eva")
        yield Stage(ws)


def path(run: Run) -> list[str]:
    return [turn.leg for turn in run.legs.values()]


@pytest.mark.promise("S0-37")
def test_every_handoff_is_measured_and_takes_less_than_five_seconds(stage: Stage) -> None:
    decisions = [{"summary": f"d {n}", "rationale": "r"} for n in range(3)]
    run = stage.run(document(CODE, REVIEW), lambda _: reply(decisions=decisions))
    for turn in run.legs.values():
        found = turn.measured
        assert 0 < found["handoff_seconds"] < 5
        assert found["seconds"] >= 0
        assert found["bytes_in"] > found["bytes_out"] > 0
        assert found["context_tokens"] > found["brief_tokens"] > 0
        assert (found["attempts"], found["messages"], found["decisions"]) == (1, 2, 3)
        assert found["record_bytes"] > 100
    asked = stage.asked[0]
    size = sum(len(message["content"].encode()) for message in asked.messages)
    assert run.legs[1].measured["bytes_in"] == size


# -- workers


def test_a_turn_that_its_worker_left_is_queued_again_by_it(stage: Stage) -> None:
    """A worker that was silent for a while lives on, and nobody else can know that it left."""
    run = stage.start(document(CODE), lane=NORMAL).run
    with open_engine(stage.ws, EngineOptions(lease_s=60)) as engine:
        runners = {"coder": CallableRunner(lambda _: reply())}
        engine.prepare(NORMAL, slots=1)
        engine.heartbeat.start()
        halted = RelayWorker(stage.ws, engine, runners=runners, halted=lambda: True)
        try:
            halted.take_turn(run, 1)
            assert stage.runs.get(run).legs[1].worker == engine.heartbeat.worker
            halted.reconcile(NORMAL)
            assert engine.waiting(NORMAL) == 1
        finally:
            engine.heartbeat.stop()


# -- gates


def test_an_approval_from_another_thread_lets_a_run_go_on(stage: Stage) -> None:
    found = stage.start(GATED)

    def approve() -> None:
        while stage.runs.get(found.run).status != "waiting":
            time.sleep(0.02)
        assert stage.calls() == ["code"]
        stage.ws.approve(stage.gate(), by="eva", reason="go")

    thread = threading.Thread(target=approve)
    thread.start()
    run = stage.advance(found.run, waits=True)
    thread.join()
    assert (run.status, path(run)) == ("completed", ["code", "review"])


def test_a_rejection_sends_the_leg_back_with_its_reason(stage: Stage) -> None:
    run = stage.run(GATED)
    assert (run.status, run.why) == ("waiting", "gate T-1#k1 is waiting for a person")
    stage.ws.reject(stage.gate(), by="eva", reason="no tests yet")
    run = stage.advance(run.run)
    assert (path(run), run.legs[2].guidance) == (["code", "code"], "no tests yet")
    assert "Guidance: no tests yet" in stage.prompts("code")[1]
    stage.ws.approve(stage.gate(), by="eva")
    assert stage.advance(run.run).status == "completed"


def test_a_leg_that_is_rejected_too_often_fails_and_says_so(stage: Stage) -> None:
    run = stage.run(GATED)
    for number in range(4):
        stage.ws.reject(stage.gate(), by="eva", reason=f"no {number}")
        run = stage.advance(run.run)
    assert (run.status, path(run)) == ("failed", ["code"] * 4)
    assert "reject" in run.why
    assert "no 3" in run.why


def test_an_agent_may_ask_for_a_person_itself(stage: Stage) -> None:
    def agent(asked: AgentRequest) -> str:
        if (asked.leg, asked.visit) == ("code", 1):
            return reply("blocked", blockers=[person_needed("Which key?")])
        return reply()

    run = stage.run(document(CODE, REVIEW), agent)
    assert (run.status, run.legs[1].outcome, run.legs[1].gate) == ("waiting", "blocked", "T-1#k1")
    stage.ws.approve("T-1#k1", by="eva", reason="the blue one")
    run = stage.advance(run.run, agent)
    assert (run.status, path(run)) == ("completed", ["code", "code", "review"])
    assert "the blue one" in stage.prompts("code")[1]


def test_a_run_waits_for_every_gate_of_a_handoff(stage: Stage) -> None:
    """The leg's own gate and the agent's: one answer isn't enough."""

    def agent(asked: AgentRequest) -> str:
        return reply(blockers=[person_needed("Which key?")] if asked.leg == "code" else [])

    run = stage.run(GATED, agent)
    first, second = (gate.address for gate in stage.ws.gates("T-1"))
    stage.ws.approve(first, by="eva")
    run = stage.advance(run.run, agent)
    assert (run.status, path(run)) == ("waiting", ["code"])
    stage.ws.approve(second, by="eva")
    assert stage.advance(run.run, agent).status == "completed"


def fork(**gate: str) -> dict[str, Any]:
    to_merge = {"when": {"outcome": "completed"}, "go": "merge"}
    return document(
        leg("plan", "planner", {"go": ["unit", "docs"]}),
        leg("unit", "tester", to_merge, **gate),
        leg("docs", "writer", to_merge),
        leg("merge", "coder", joins=["unit", "docs"]),
    )


def test_a_gate_of_one_branch_costs_the_other_none_of_its_work(stage: Stage) -> None:
    is_begun = threading.Event()

    def agent(asked: AgentRequest) -> str:
        if asked.leg == "docs":
            is_begun.set()
            while not stage.ws.gates("T-1"):
                time.sleep(0.05)
        if asked.leg == "unit":
            assert is_begun.wait(240)
        return reply(summary=f"{asked.leg} done")

    run = stage.run(fork(gate="Ship it?"), agent)
    assert run.status == "waiting"
    stage.ws.approve(stage.gate(), by="eva")
    run = stage.advance(run.run, agent)
    assert (run.status, stage.calls().count("docs")) == ("completed", 1)


def pending_from_outside(stage: Stage) -> None:
    blockers = [{"blocker": "law", "severity": "high", "requires_human": True}]
    parts = {"task": "T-1", "from_agent": "lawyer", "outcome": "completed", "summary": "Looked."}
    stage.ws.hand_off({**parts, "blockers": blockers})


def test_a_gate_from_outside_is_for_a_person_not_for_the_agent(stage: Stage) -> None:
    """The agent can't mend it, and is told neither to try nor how to answer it itself."""
    pending_from_outside(stage)
    run = stage.run(document(CODE, REVIEW))
    assert "T-1#k1" in run.why
    assert len(stage.prompts("code")) <= 1
    assert not any("gate approve" in prompt for prompt in stage.prompts("code"))


# -- outcomes


@pytest.mark.promise("S3-40")
def test_partial_work_is_queued_again_three_times_and_then_fails(stage: Stage) -> None:
    run = stage.run(document(CODE, REVIEW), lambda _: reply("partial", summary="half"))
    assert path(run) == ["code"] * 4
    assert [turn.visit for turn in run.legs.values()] == [1, 2, 3, 4]
    assert (run.status, run.why) == ("failed", "leg code ended partial: half (at most 3 times)")
    assert len({turn.version for turn in run.legs.values()}) == 4


@pytest.mark.parametrize(
    ("go", "status", "legs"),
    [("review", "completed", ["code", "review"]), ("stop", "failed", ["code"])],
)
def test_an_error_goes_where_the_rule_says(
    stage: Stage, go: str, status: str, legs: list[str]
) -> None:
    def agent(asked: AgentRequest) -> str:
        if asked.leg == "code":
            raise RuntimeError("out of paper")
        return reply()

    relay = document(leg("code", "coder", {"when": {"outcome": "error"}, "go": go}), REVIEW)
    if go == "stop":
        relay["legs"][0]["then"].append({"when": {"outcome": "completed"}, "go": "review"})
    run = stage.run(relay, agent)
    assert (run.status, path(run)) == (status, legs)
    assert "out of paper" in run.legs[1].why


def test_a_turn_whose_evidence_cannot_be_kept_as_it_is_still_ends(stage: Stage) -> None:
    """A run that can't record how a turn ended would wait for it for ever."""

    def agent(_: AgentRequest) -> str:
        raise RuntimeError("a NUL: \0")

    run = stage.run(document(CODE), agent)
    assert (run.status, run.legs[1].outcome) == ("failed", "error")


def test_a_handoff_is_returned_twice_and_all_replies_are_kept(stage: Stage) -> None:
    run = stage.run(document(CODE), lambda asked: f"attempt {asked.attempt}, and no handoff")
    turn = run.legs[1]
    assert (run.status, turn.outcome, turn.measured["attempts"]) == ("failed", "error", 3)
    assert [each["reply"]["text"] for each in turn.evidence] == [
        f"attempt {number}, and no handoff" for number in (1, 2, 3)
    ]
    assert {each["problems"][0]["code"] for each in turn.evidence} == {"no_handoff"}
    assert stage.ws.task("T-1").version == 1, "nothing was recorded"


def test_a_handoff_that_is_mended_counts(stage: Stage) -> None:
    def agent(asked: AgentRequest) -> str:
        if asked.attempt == 1:
            return reply(from_agent="boss", task="T-2")
        return reply()

    run = stage.run(document(CODE), agent)
    assert (run.status, run.legs[1].measured["attempts"]) == ("completed", 2)
    told = stage.asked[1].messages[-1]["content"]
    assert "wrong_agent" in told
    assert "wrong_task" in told


def test_an_agent_knows_who_is_in_the_relay_and_hands_on_to_nobody_else(stage: Stage) -> None:
    def agent(asked: AgentRequest) -> str:
        if asked.agent == "reviewer":
            return reply()
        return reply(to_agent="stranger" if asked.attempt == 1 else "reviewer")

    run = stage.run(document(CODE, REVIEW), agent)
    assert (run.status, run.legs[1].measured["attempts"]) == ("completed", 2)
    assert "`to_agent`: reviewer" in stage.asked[0].messages[-1]["content"]
    assert "unknown_agent" in stage.asked[1].messages[-1]["content"]


@pytest.mark.parametrize(
    ("parts", "where"),
    [
        (
            {"decisions": [{"summary": "a", "rationale": "b", "supersedes": ["T-1#d9"]}]},
            "decisions[0].supersedes",
        ),
        ({"resolves": ["T-1#b9"]}, "resolves[0]: T-1#b9 is not an item"),
        ({"resolves": ["T-9#b1"]}, "resolves[0]: T-9#b1 is not an item"),
    ],
)
def test_what_the_ledger_refuses_goes_back_to_the_agent(
    stage: Stage, parts: dict[str, Any], where: str
) -> None:
    run = stage.run(document(CODE), lambda q: reply(**(parts if q.attempt == 1 else {})))
    assert (run.status, stage.calls()) == ("completed", ["code", "code"])
    assert where in stage.asked[1].messages[-1]["content"]


def test_a_task_that_others_change_meanwhile_keeps_both(stage: Stage) -> None:
    def agent(_: AgentRequest) -> str:
        stage.ws.decide(agent="eva", summary="Meanwhile", rationale="because", task="T-1")
        return reply()

    run = stage.run(document(CODE), agent)
    assert (run.status, run.legs[1].version) == ("completed", 3)
    assert stage.ws.verify().ok


def test_branches_run_at_once_and_the_joining_agent_sees_both(stage: Stage) -> None:
    meet = threading.Barrier(2, timeout=240)

    def agent(asked: AgentRequest) -> str:
        if asked.leg in ("unit", "docs"):
            meet.wait()
        return reply(summary=f"SUMMARY-{asked.leg}")

    run = stage.run(fork(), agent)
    assert run.status == "completed"
    assert sorted(path(run)) == ["docs", "merge", "plan", "unit"]
    assert sorted(turn.version for turn in run.legs.values()) == [2, 3, 4, 5]
    told = stage.asked[-1].messages[-1]["content"]
    assert "- unit (tester, completed): SUMMARY-unit" in told
    assert "- docs (writer, completed): SUMMARY-docs" in told
    assert stage.ws.verify().ok


# -- budget reviews


def looping(review_by: str) -> dict[str, Any]:
    agents = {
        "coder": {"runner": {"script": "s"}, "limits": {"loops": 2}, "review_by": review_by},
        "boss": {"runner": {"script": "s"}},
    }
    again = {"when": {"outcome": "partial"}, "go": "again"}
    plan = leg("plan", "planner", phase="planning")
    return document(plan, leg("code", "coder", again), leg("finish", "boss"), agents=agents)


def loops_until(verdict: str, visits: int = 2) -> Any:
    def agent(asked: AgentRequest) -> str:
        if (asked.agent, asked.leg) == ("boss", "code"):
            return verdict
        is_partial = asked.leg == "code" and asked.visit <= visits
        return reply("partial" if is_partial else "completed", summary=f"turn {asked.visit}")

    return agent


@pytest.mark.parametrize(
    ("words", "verdict", "status", "legs"),
    [
        ("CONTINUE: split it", "continue", "completed", ["plan", *["code"] * 4, "finish"]),
        ("**Pivot**\nsplit it", "pivot", "completed", ["plan", *["code"] * 3, "plan", "code"]),
        ("Escalate. split it", "escalate", "waiting", ["plan", *["code"] * 3]),
        ("abandon split it", "abandon", "abandoned", ["plan", *["code"] * 3]),
    ],
)
def test_an_agent_reviews_another_that_has_used_up_its_loops(
    stage: Stage, words: str, verdict: str, status: str, legs: list[str]
) -> None:
    run = stage.run(looping("boss"), loops_until(words))
    assert run.status == status
    assert path(run)[: len(legs)] == legs
    review = run.legs[4]
    assert (review.kind, review.agent, review.verdict) == ("budget_review", "boss", verdict)
    assert review.summary == "split it"
    assert "- code, visit 2: partial. turn 2" in stage.asked[3].messages[-1]["content"]
    if status == "completed":
        assert any(
            "Guidance: budget review by boss: split it" in asked.prompt for asked in stage.asked[4:]
        )


def test_a_reviewer_without_a_verdict_is_asked_for_one_again(stage: Stage) -> None:
    run = stage.run(looping("boss"), loops_until("Well, it depends."))
    reviews = [asked for asked in stage.asked if (asked.agent, asked.leg) == ("boss", "code")]
    assert (run.status, len(reviews)) == ("waiting", 3)
    returned = reviews[1].messages[-1]["content"]
    assert "continue | pivot | escalate | abandon" in returned
    assert "## Handoff" not in returned, "a review has no handoff"


def test_a_person_reviews_and_the_guidance_reaches_the_agent(stage: Stage) -> None:
    run = stage.run(looping("person"), loops_until(""))
    assert (run.status, run.asked[0].agent) == ("waiting", "coder")
    assert stage.runs.answer(run.run, "continue", by="eva", guidance="use the cache").open_legs
    run = stage.advance(run.run)
    assert run.status == "completed"
    assert "Guidance: budget review by eva: use the cache" in stage.prompts("code")[2]


def test_what_an_escalation_says_is_told_to_the_person(stage: Stage) -> None:
    run = stage.run(looping("boss"), loops_until("ESCALATE the licence is unclear"))
    assert run.asked[0].why == "the licence is unclear"
    assert "the licence is unclear" in run.why


# -- relays and engines


def test_the_relay_of_the_start_counts_whatever_became_of_the_file(stage: Stage) -> None:
    run = stage.run(document(leg("code", "coder", gate="Go?", request="FIRST"), REVIEW))
    stage.start(document(leg("code", "coder", request="SECOND")))
    stage.ws.reject(stage.gate(), by="eva", reason="again")
    stage.advance(run.run)
    assert "FIRST" in stage.prompts("code")[1]
    assert "SECOND" not in "".join(stage.prompts("code"))


def test_a_script_that_is_not_there_is_named(stage: Stage) -> None:
    found = stage.start(document(CODE))
    run = run_here(stage.ws, found.run)
    assert (run.status, run.legs[1].outcome) == ("failed", "error")
    assert "agents.coder.runner.script" in run.why
    assert "script.yaml can't be read" in run.why


def test_an_agent_may_have_the_longest_name(stage: Stage) -> None:
    run = stage.run(document(leg("code", "a" * 64)))
    assert run.status == "completed"


def test_a_run_leaves_the_lane_that_it_shares(stage: Stage) -> None:
    run = stage.advance(stage.start(document(CODE), lane=NORMAL).run)
    assert run.status == "completed"
    with open_engine(stage.ws) as engine:
        named = engine.full_name(NORMAL)
        assert named in [queue.name for queue in engine.client.list_queues()]


def test_a_second_engine_in_a_process_is_refused_and_harms_nothing(
    stage: Stage, tmp_path: Path
) -> None:
    problems: list[Exception] = []
    with passdown.open(new_folder(tmp_path / "other"), settings=QUICK) as ws:
        ws.create_task("T-1", title="Other", agent="eva")
        other = Runs(ws).start(check_relay(document(CODE)), "T-1", by="eva", lane="here")

        def agent(_: AgentRequest) -> str:
            halt = threading.Event()
            timer = threading.Timer(3, halt.set)
            timer.start()
            try:
                run_here(ws, other.run, halt=halt)
            except PassdownError as error:
                problems.append(error)
            finally:
                timer.cancel()
            return reply()

        run = stage.run(document(CODE, REVIEW), agent)
        assert run.status == "completed"
        assert len(problems) == 2
        assert [turn.outcome for turn in Runs(ws).get(other.run).legs.values()] == [""]


def test_projects_that_share_an_engine_take_only_their_own_turns(
    stage: Stage, tmp_path: Path
) -> None:
    """Both have a run R-1; what one has queued isn't taken for a turn of the other's."""
    options = EngineOptions(url=f"sqlite:///{tmp_path}/shared.db")
    stage.start(document(CODE), lane=NORMAL)
    with open_engine(stage.ws, options) as engine:
        engine.prepare(NORMAL, slots=1)
        assert engine.send(NORMAL, "R-1", 1)
    with passdown.open(new_folder(tmp_path / "other"), settings=QUICK) as ws:
        ws.create_task("T-1", title="Other", agent="eva")
        other = Stage(ws)
        other.start(document(CODE), lane="here")
        stop = threading.Event()
        timer = threading.Timer(1, stop.set)
        timer.start()
        run_worker(
            ws, options=options, runners={"coder": CallableRunner(lambda _: reply())}, stop=stop
        )
        assert other.runs.get("R-1").legs[1].outcome == "", "nobody has asked for it here"


def served(stage: Stage, run: str, *, most_s: float = 100, **terms: Any) -> Run:
    """Let a worker with one slot serve the normal lane until a run is over, or for so long."""
    stop, halt = threading.Event(), threading.Event()
    ends = time.monotonic() + most_s

    def watch() -> None:
        while time.monotonic() < ends and not stage.runs.get(run).ended_at:
            time.sleep(0.1)
        stop.set()
        halt.set()

    thread = threading.Thread(target=watch)
    thread.start()
    runners = {name: CallableRunner(lambda _: reply()) for name in stage.runs.get(run).relay.agents}
    run_worker(stage.ws, options=EngineOptions(**terms), runners=runners, stop=stop, halt=halt)
    thread.join()
    return stage.runs.get(run)


def test_a_worker_serves_the_lane(stage: Stage) -> None:
    run = stage.start(fork(), lane=NORMAL)
    assert served(stage, run.run).status == "completed"


def test_a_full_lane_does_not_stop_the_worker_that_empties_it(stage: Stage) -> None:
    """Its one slot is taken by the leg that two others follow; there is room for one."""
    run = stage.start(fork(), lane=NORMAL)
    assert served(stage, run.run, room=1).status == "completed"


def test_a_worker_goes_on_beside_a_run_that_is_damaged(stage: Stage) -> None:
    run = stage.start(document(CODE), lane=NORMAL)
    WorkspaceStreams(stage.ws).add(
        StreamEntry("run/R-2", "begun", "mallory", {"number": 9, "worker": "w"})
    )
    assert served(stage, run.run).status == "completed"


def test_what_a_caller_halts_with_is_not_touched(stage: Stage) -> None:
    found = stage.start(document(CODE))
    halt = threading.Event()
    run_here(stage.ws, found.run, halt=halt)
    assert not halt.is_set()


def test_two_runs_on_one_task_start_fresh(stage: Stage) -> None:
    stage.run(document(CODE), lambda _: "MARKER-in-talk\n" + reply(summary="first"))
    stage.run(document(CODE), lambda _: reply(summary="second"))
    second = stage.asked[1]
    assert (second.run, len(second.messages)) == ("R-2", 2)
    assert "MARKER-in-talk" not in second.prompt
    assert "first" in second.prompt, "what was handed over comes with the brief"


@pytest.mark.promise("S4-42")
def test_two_agents_work_apart_and_share_what_they_wrote_down(stage: Stage) -> None:
    """Switching, preservation, reset, knowledge and the boundary, in one run."""

    def agent(asked: AgentRequest) -> str:
        if asked.leg == "code" and asked.visit == 1:
            entry = {"id": "login-service", "type": "component", "summary": "Checks passwords"}
            assert not KnowledgeTool(stage.ws, "coder", "T-1")({"knowledge": entry}).is_error
        to = {"to_agent": "coder"} if (asked.leg, asked.visit) == ("review", 1) else {}
        words = f"WORDS-{asked.agent}-{asked.visit}\n"
        return words + reply(summary=f"{asked.agent} {asked.visit}", **to)

    back = {"when": {"to": "coder"}, "go": "code", "at_most": 1}
    relay = document(CODE, leg("review", "reviewer", back))
    run = stage.run(relay, agent)
    assert path(run) == ["code", "review", "code", "review"]
    first, second = stage.prompts("code")
    assert "WORDS" not in first
    assert "WORDS-coder-1" in second, "its own words are preserved"
    assert "WORDS-reviewer" not in second, "another's are not"
    assert "reviewer 1" in second, "what was handed over is"
    assert "WORDS-coder" not in "".join(stage.prompts("review"))
    assert pending_entries(stage.ws, ["coder"]) == []
    assert "login-service" in Path(stage.ws.root, "knowledge.dot").read_text("utf-8")
    assert stage.states.status("coder.R-1").lease is None
    stage.run(relay, agent)
    assert "WORDS" not in stage.prompts("code")[2], "the next run starts afresh"


@pytest.mark.promise("S4-42")
def test_an_express_item_between_two_runs_leaves_the_conversation_alone(
    tmp_path: Path, need_program: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Switching, preservation, reset and knowledge as in the run above, with an express item that
    a waiting coder carries out between the runs: its words are in no conversation, its knowledge
    is there for all, and the coder is free again.
    """
    need_program("git")
    for name, value in ALONE.items():
        monkeypatch.setenv(name, value)
    with passdown.open(str(make_repository(tmp_path / "project")), settings=QUICK) as ws:
        ws.create_task("T-1", title="Login", agent="eva")
        stage = Stage(ws)

        def agent(asked: AgentRequest) -> str:
            words = f"WORDS-{asked.agent}-{asked.visit}\n"
            to = {"to_agent": "coder"} if (asked.leg, asked.visit) == ("review", 1) else {}
            return words + reply(summary=f"{asked.agent} {asked.visit}", **to)

        back = {"when": {"to": "coder"}, "go": "code", "at_most": 1}
        relay = document(CODE, leg("review", "reviewer", back))
        assert path(stage.run(relay, agent)) == ["code", "review", "code", "review"]
        first, second = stage.prompts("code")
        assert "WORDS" not in first
        assert "WORDS-coder-1" in second
        entry = {"id": "rate-limits", "type": "component", "summary": "EXPRESS-words"}
        item = {"type": "KNOWLEDGE_UPDATE", "by": "eva", "reason": "EXPRESS-reason", "id": "k1"}
        made = carry_out(ws, {**item, "entries": [entry], "action": "append"})
        assert made.status == "done"
        assert made.result["agent"] == "coder"
        assert stage.states.state("coder") == "WAITING"
        assert stage.states.current_lease("coder") is None
        assert "rate-limits" in {node.id for node in ws.knowledge.graph().nodes}
        stage.run(relay, agent)
        fresh, again = stage.prompts("code")[2:]
        assert "WORDS" not in fresh, "the next run starts afresh"
        assert "WORDS-coder-1" in again
        assert not any("EXPRESS-reason" in asked for asked in stage.prompts("code"))
        assert ws.verify().ok


def test_a_turn_that_ends_with_its_run_is_not_said_to_be_left_to_others(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    relay = document(
        leg("plan", "planner", {"go": ["slow", "quick"]}),
        leg("slow", "coder", {"go": "end"}),
        leg("quick", "tester", {"go": "stop"}),
    )
    is_begun = threading.Event()

    def agent(asked: AgentRequest) -> str:
        if asked.leg == "slow":
            is_begun.set()
            while not asked.is_stopped():
                time.sleep(0.02)
        if asked.leg == "quick":
            is_begun.wait(20)
        return reply()

    assert stage.run(relay, agent).status == "failed"
    assert "R-1, turn 2 ended with its run; nothing was recorded" in caplog.messages

"""Where a run goes: rules, limits, joins, gates and budget reviews, without any engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from passdown.errors import InvalidInput
from passdown.relay.relay_file import check_relay
from passdown.relay.run import GateState, next_transition, resume_transition
from tests.relay.relays import Play, document, leg
from tests.sizes import example_count

if TYPE_CHECKING:
    from passdown.relay.run import LegRun

PLAN, CODE, REVIEW = leg("plan", "planner"), leg("code", "coder"), leg("review", "reviewer")


def completed(_: LegRun) -> dict[str, Any]:
    return {}


def test_legs_follow_each_other() -> None:
    play = Play(document(PLAN, CODE, REVIEW), completed)
    assert play.play().status == "completed"
    assert play.path() == ["plan", "code", "review"]


def back_to_code(at_most: int) -> dict[str, Any]:
    then = {"when": {"to": "coder"}, "go": "code", "at_most": at_most, "otherwise": "stop"}
    return document(CODE, leg("review", "reviewer", then))


def test_work_goes_back_to_an_earlier_agent_so_often_and_no_more() -> None:
    play = Play(back_to_code(2), lambda turn: {"to": "coder" if turn.leg == "review" else ""})
    run = play.play()
    assert play.path() == ["code", "review"] * 3
    assert (run.status, run.legs[5].visit) == ("failed", 3)
    assert "at most 2 times" in run.why


@pytest.mark.promise("S3-40")
def test_partial_work_is_queued_again_at_most_three_times() -> None:
    play = Play(document(CODE, REVIEW), lambda _: {"outcome": "partial", "summary": "half"})
    run = play.play()
    assert play.path() == ["code"] * 4
    assert (run.status, run.why) == ("failed", "leg code ended partial: half (at most 3 times)")


def test_a_failed_leg_stops_the_run_and_resuming_tries_it_again() -> None:
    answers = iter(["completed", "error", "completed", "completed"])
    play = Play(document(PLAN, CODE, REVIEW), lambda _: {"outcome": next(answers), "why": "gone"})
    run = play.play()
    assert (run.status, run.why) == ("failed", "leg code ended error: gone")
    step = resume_transition(run)
    assert step is not None
    play.add(step.kind, step.body, "eva")
    assert play.play().status == "completed"
    assert play.path() == ["plan", "code", "code", "review"]


def test_a_completed_run_has_nothing_to_resume() -> None:
    run = Play(document(CODE), completed).play()
    assert resume_transition(run) is None
    assert next_transition(run, {}) is None


def test_a_blocked_leg_makes_the_run_wait_until_somebody_resumes_it() -> None:
    answers = iter(["blocked", "completed"])
    play = Play(document(CODE), lambda _: {"outcome": next(answers), "summary": "no key"})
    run = play.play()
    assert (run.status, run.why) == ("waiting", "leg code ended blocked: no key")
    assert play.draw().position == run.position, "waiting is recorded once"
    step = resume_transition(run)
    assert step is not None
    play.add(step.kind, step.body, "eva")
    assert play.play().status == "completed"


def fork() -> dict[str, Any]:
    return document(
        leg("plan", "planner", {"go": ["unit", "docs"]}),
        leg("unit", "tester", {"when": {"outcome": "completed"}, "go": "merge"}),
        leg("docs", "writer", {"when": {"outcome": "completed"}, "go": "merge"}),
        leg("merge", "coder", joins=["unit", "docs"]),
    )


def test_branches_run_side_by_side_and_are_joined() -> None:
    play = Play(fork(), completed)
    play.draw()
    play.add("leg_ended", {"number": 1, "outcome": "completed"})
    assert [turn.leg for turn in play.draw().open_legs] == ["unit", "docs"]
    run = play.play()
    assert (run.status, play.path()) == ("completed", ["plan", "unit", "docs", "merge"])
    assert run.legs[4].causes == (2, 3)


def test_a_join_waits_for_a_branch_that_needs_longer() -> None:
    play = Play(fork(), lambda turn: {"outcome": "partial" if turn.number == 2 else "completed"})
    run = play.play()
    assert play.path() == ["plan", "unit", "docs", "unit", "merge"]
    assert (run.status, set(run.legs[5].causes)) == ("completed", {3, 4})


def with_gate() -> Play:
    play = Play(document(leg("code", "coder", gate="Ship it?"), REVIEW), lambda _: {})
    play.draw()
    play.add("leg_ended", {"number": 1, "outcome": "completed", "gates": ["T-1#k1"]})
    return play


def test_a_gate_holds_the_run_until_it_is_approved() -> None:
    play = with_gate()
    assert (play.draw().status, play.draw().why) == (
        "waiting",
        "gate T-1#k1 is waiting for a person",
    )
    play.gates["T-1#k1"] = GateState("approved", "go")
    assert play.play().status == "completed"


def test_a_rejected_gate_sends_the_leg_back_with_the_reason() -> None:
    play = with_gate()
    play.gates["T-1#k1"] = GateState("rejected", "no tests")
    turn = play.draw().legs[2]
    assert (turn.leg, turn.visit, turn.guidance) == ("code", 2, "no tests")


def test_a_rule_may_name_the_answer_of_a_gate() -> None:
    rejected = {"when": {"gate": "rejected"}, "go": "plan"}
    play = Play(document(PLAN, leg("code", "coder", rejected, gate="Ship it?")), lambda _: {})
    play.draw()
    play.add("leg_ended", {"number": 1, "outcome": "completed"})
    play.draw()
    play.add("leg_ended", {"number": 2, "outcome": "completed", "gates": ["T-1#k1"]})
    play.gates["T-1#k1"] = GateState("rejected", "wrong way")
    assert play.draw().open_legs[0].leg == "plan"


def looping(review_by: str) -> dict[str, Any]:
    again = {"when": {"outcome": "partial"}, "go": "again"}
    agents = {
        "coder": {"runner": {"script": "s"}, "limits": {"loops": 2}, "review_by": review_by},
        "boss": {"runner": {"script": "s"}},
    }
    return document(PLAN, leg("code", "coder", again), leg("end-check", "boss"), agents=agents)


def ends(verdict: str, guidance: str = "") -> Any:
    def end(turn: LegRun) -> dict[str, Any]:
        if turn.kind == "budget_review":
            return {"verdict": verdict, "summary": guidance}
        is_code = turn.leg == "code" and turn.number < 6
        return {"outcome": "partial" if is_code else "completed"}

    return end


@pytest.mark.promise("S4-41")
@pytest.mark.parametrize(
    ("verdict", "status", "path"),
    [
        (
            "continue",
            "completed",
            ["plan", "code", "code", "code", "code", "code", "end-check"],
        ),
        ("pivot", "completed", ["plan", "code", "code", "code", "plan", "code", "end-check"]),
        ("abandon", "abandoned", ["plan", "code", "code", "code"]),
        ("escalate", "waiting", ["plan", "code", "code", "code"]),
    ],
)
def test_a_budget_review_by_an_agent_leads_where_it_says(
    verdict: str, status: str, path: list[str]
) -> None:
    play = Play(looping("boss"), ends(verdict, "try the other way"))
    run = play.play()
    assert (run.status, play.path()) == (status, path)
    review = run.legs[4]
    assert (review.kind, review.agent) == ("budget_review", "boss")
    if verdict in ("continue", "pivot"):
        assert run.legs[5].guidance == "budget review by boss: try the other way"


@pytest.mark.promise("S4-41")
def test_a_budget_review_by_a_person_waits_for_the_answer() -> None:
    play = Play(looping("person"), ends("continue"))
    run = play.play()
    assert (run.status, run.asked[0].agent) == ("waiting", "coder")
    play.add("answered", {"verdict": "continue", "guidance": "split it"}, "eva")
    run = play.draw()
    assert (run.legs[5].leg, run.legs[5].guidance) == (
        "code",
        "budget review by eva: split it",
    )
    assert run.legs[4].worker == "eva"


@pytest.mark.promise("S4-41")
@pytest.mark.parametrize("reviewer", ["person", "boss"])
def test_who_abandoned_a_run_is_asked_again_when_it_is_resumed(reviewer: str) -> None:
    """Never the agent that is reviewed."""
    play = Play(looping(reviewer), ends("abandon", "no use"))
    run = play.play()
    if reviewer == "person":
        play.add("answered", {"verdict": "abandon", "guidance": "no use"}, "eva")
        run = play.draw()
    assert (run.status, run.why) == ("abandoned", "no use")
    step = resume_transition(run)
    assert step is not None
    play.add(step.kind, step.body, "eva")
    run = play.draw()
    if reviewer == "person":
        assert (run.status, run.asked[0][:3]) == ("waiting", ("code", "coder", "no use"))
        assert run.open_legs == []
    else:
        assert [(turn.kind, turn.agent) for turn in run.open_legs] == [("budget_review", "boss")]


OUTCOMES = st.sampled_from(["completed", "partial", "failed", "blocked", "error"])
NAMES = ["a", "b", "c", "d"]
GOES = st.one_of(
    st.lists(st.sampled_from([*NAMES, "again"]), min_size=1, max_size=2, unique=True),
    st.sampled_from([["end"], ["stop"], ["wait"]]),
)


def rule(outcome: str, go: list[str], most: int) -> dict[str, Any]:
    return {"when": {"outcome": outcome}, "go": go, "at_most": most}


RULES: st.SearchStrategy[list[dict[str, Any]]] = st.lists(
    st.builds(rule, OUTCOMES, GOES, st.integers(1, 3)),
    max_size=3,
)


@st.composite
def relays(draw: st.DrawFn) -> dict[str, Any]:
    legs = [leg(name, f"agent-{name}", *draw(RULES)) for name in NAMES]
    relay = document(*legs)
    try:
        check_relay(relay)
    except InvalidInput:
        reject()
    return relay


@settings(max_examples=example_count(40), deadline=None)
@given(relays(), st.lists(OUTCOMES, min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_every_run_comes_to_rest_and_is_the_same_for_whoever_looks(
    relay: dict[str, Any], outcomes: list[str], random: Any
) -> None:
    """Turns end in any order; each is followed once, numbers have no gaps."""
    play = Play(relay, completed)
    for outcome in outcomes:
        run = play.draw()
        if not run.open_legs:
            break
        turn = random.choice(run.open_legs)
        play.add("leg_ended", {"number": turn.number, "outcome": outcome})
    run = play.draw()
    assert list(run.legs) == list(range(1, len(run.legs) + 1))
    assert next_transition(run, play.gates) is None
    followed = [
        n for r in play.records if r.kind in ("legs", "ended") for n in r.document()["followed"]
    ]
    assert len(followed) == len(set(followed))
    assert run.open_legs or run.status in ("completed", "failed", "waiting", "abandoned")

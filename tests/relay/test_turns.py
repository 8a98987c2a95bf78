"""One turn: what the agent is told, what becomes of its reply, and turns that are taken twice."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import passdown
from passdown.core.parsing import load_yaml
from passdown.errors import InvalidInput
from passdown.relay.turns import read_verdict
from passdown.workspace.streams import WorkspaceStreams
from tests.relay.relays import document, leg
from tests.relay.staging import QUICK, RECOMMENDED, Stage, reply

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from passdown.relay.runners import AgentRequest

CODE, REVIEW = leg("code", "coder"), leg("review", "reviewer")
SECRET = "sk-ant-api03-" + "A1b2C3d4" * 10
BIG = "x" * 3_000_000


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with passdown.open(str(tmp_path), settings=QUICK) as ws:
        ws.create_task("T-1", title="Login", agent="eva")
        yield Stage(ws)


def started(stage: Stage, *legs: dict[str, Any], **more: Any) -> str:
    return stage.start(document(*(legs or (CODE,)), **more)).run


def recorded(stage: Stage, prefix: str = "") -> str:
    """Every byte of every record."""
    beside = WorkspaceStreams(stage.ws)
    found = [r.body for head in beside.streams(prefix) for r in beside.records(head.stream)]
    return b"\n".join(found).decode()


# -- what is told


def test_a_turn_is_a_system_message_and_a_request_with_the_brief(stage: Stage) -> None:
    run = started(stage, leg("code", "coder", request="Build it.", phase="implementing"))
    ended = stage.take(run)
    asked = stage.asked[0]
    assert [message["role"] for message in asked.messages] == ["system", "user"]
    told = asked.messages[1]["content"]
    assert told.startswith("# T-1 for coder")
    assert "Build it." in told
    assert "Guidance" not in told
    assert (ended["outcome"], ended["version"]) == ("completed", 2)
    state = stage.ws.task("T-1")
    assert state.phase == "implementing"


def test_a_handoff_says_which_run_and_leg_it_is_of_and_who_is_next(stage: Stage) -> None:
    stage.take(started(stage, CODE, REVIEW), lambda _: reply(metadata={"mood": "fine"}))
    (record,) = WorkspaceStreams(stage.ws).records("task/T-1", 1)
    body = record.document()
    assert '"to_agent":"reviewer"' in record.body.decode()
    assert {"run": "R-1", "leg": "code", "mood": "fine"}.items() <= found_metadata(body).items()


def test_a_phase_that_the_workspace_lacks_is_named_with_every_other_problem(
    tmp_path: Path,
) -> None:
    """In the first answer to a faulty handoff, not after the others are fixed."""
    settings = QUICK._replace(phases=("draft", "released"), completes="released")
    with passdown.open(str(tmp_path), settings=settings) as ws:
        ws.create_task("T-1", title="Login", agent="eva")
        stage = Stage(ws)
        replies = [reply(phase="testing", from_agent="qa"), reply(phase="released")]
        ended = stage.take(started(stage), lambda asked: replies[asked.attempt - 1])
        said = stage.asked[1].messages[-1]["content"]
        assert "phase: 'testing'" in said
        assert "draft | released" in said
        assert "from_agent: 'qa'" in said
        assert (ended["outcome"], ws.task("T-1").phase) == ("completed", "released")


@pytest.mark.parametrize("outcome", ["completed", "partial", "failed", "blocked"])
def test_an_agent_that_fills_in_the_form_it_is_shown_is_understood(
    stage: Stage, outcome: str
) -> None:
    """Whatever the outcome: what each of them needs is in the form."""

    def agent(asked: AgentRequest) -> str:
        told = asked.messages[-1]["content"]
        form: Any = load_yaml(told.rpartition("```yaml\n")[2].partition("```")[0])
        needed = ["summary", *RECOMMENDED]
        filled = {name: form[name] for name in needed} | {"outcome": outcome}
        if outcome != "completed":
            blocker: dict[str, Any] = dict(form["blockers"][0])
            if outcome != "blocked":
                del blocker["blocking_tasks"]
            filled["blockers"] = [blocker]
        return f"## Handoff\n```yaml\n{json.dumps(filled)}\n```\n"

    ended = stage.take(started(stage, CODE), agent)
    assert (ended["outcome"], ended["measured"]["attempts"]) == (outcome, 1)


STUCK = {"blocker": "No disk", "impact": "It can't be built", "suggested_resolution": "Buy one"}


@pytest.mark.parametrize(
    ("outcome", "gate", "receiver"),
    [
        ("completed", "", "tester"),
        ("completed", "Go?", "lead"),
        ("partial", "", ""),
        ("failed", "", "lead"),
    ],
)
def test_who_gets_the_task_follows_from_the_rules_and_not_from_the_file(
    stage: Stage, outcome: str, gate: str, receiver: str
) -> None:
    """The leg below is the reviewer's; nothing that ends here goes there."""
    rules: list[dict[str, Any]] = [
        {"when": {"gate": "approved"}, "go": "lead"},
        {"when": {"outcome": "completed"}, "go": ["test", "lead"]},
        {"when": {"outcome": "failed"}, "go": "lead", "at_most": 1},
    ]
    code = leg("code", "coder", *rules, gate=gate)
    others = [leg("review", "reviewer"), leg("test", "tester", {"go": "review"})]
    relay = [code, *others, leg("lead", "lead", {"go": "end"})]
    more: dict[str, Any] = {"blockers": [STUCK]} if outcome == "failed" else {}
    stage.take(started(stage, *relay), lambda _: reply(outcome, **more))
    (record,) = WorkspaceStreams(stage.ws).records("task/T-1", 1)
    body = record.document()
    assert (body.get("handoff") or body).get("to_agent", "") == receiver


def found_metadata(body: dict[str, Any]) -> dict[str, Any]:
    return body["metadata"] if "metadata" in body else body["handoff"]["metadata"]


TEMPLATE = "{{brief}} {{request}} {{ guidance }} {% raw %} ${before} {0}"


def test_template_syntax_in_any_text_stays_text(stage: Stage) -> None:
    run = started(stage, leg("code", "coder", request=TEMPLATE, gate=TEMPLATE))
    stage.take(run, lambda _: reply(summary=TEMPLATE))
    stage.ws.reject(stage.gate(), by="eva", reason=TEMPLATE)
    stage.runs.advance(run)
    stage.take(run)
    told = stage.asked[1].messages[-1]["content"]
    assert f"Guidance: {TEMPLATE}" in told
    assert told.count("End your reply with `## Handoff`") == 1
    assert told.count("# T-1 for coder") == 1


def test_an_agent_that_comes_back_sees_its_exchange_and_no_other(stage: Stage) -> None:
    back = {"when": {"to": "coder"}, "go": "code", "at_most": 1}
    run = started(stage, CODE, leg("review", "reviewer", back))
    stage.take(run, lambda _: "CODER-TALK\n" + reply())
    stage.take(run, lambda _: "REVIEWER-TALK\n" + reply(to_agent="coder", summary="Too long."))
    stage.take(run)
    roles = [message["role"] for message in stage.asked[2].messages]
    assert roles == ["system", "user", "assistant", "user"]
    assert "CODER-TALK" in stage.asked[2].prompt
    assert "REVIEWER-TALK" not in stage.asked[2].prompt
    assert "Too long." in stage.asked[2].messages[-1]["content"]
    assert "CODER-TALK" not in stage.asked[1].prompt


def test_one_agent_in_two_legs_at_once_is_asked_one_thing_at_a_time(stage: Stage) -> None:
    """Else it does the work of one leg, and hands it off as the other's."""
    relay = document(
        leg("plan", "planner", {"go": ["a", "b"]}),
        leg("a", "coder", {"go": "end"}, request="REQUEST-A"),
        leg("b", "coder", {"go": "end"}, request="REQUEST-B"),
    )
    second_is_asked = threading.Event()

    def agent(asked: AgentRequest) -> str:
        if asked.leg == "a":
            second_is_asked.wait(0.5)
        if asked.leg == "b":
            second_is_asked.set()
        return reply()

    assert stage.run(relay, agent).status == "completed"
    assert stage.calls() == ["plan", "a", "b"]
    for prompt in (*stage.prompts("a"), *stage.prompts("b")):
        unanswered = prompt.rpartition("assistant]")[2]
        assert ("REQUEST-A" in unanswered) != ("REQUEST-B" in unanswered)


def test_a_request_that_is_longer_than_the_window_is_cut_and_says_so(stage: Stage) -> None:
    agents = {"coder": {"runner": {"script": "s"}, "limits": {"context_tokens": 1_000}}}
    run = started(stage, leg("code", "coder", request="word " * 5_000), agents=agents)
    ended = stage.take(run)
    assert ended["measured"]["context_tokens"] <= 1_000
    assert "characters are left out" in stage.asked[0].prompt


# -- what becomes of a reply


@pytest.mark.parametrize(
    "talk",
    [
        pytest.param(BIG, id="3 MB"),
        pytest.param("a\0b", id="NUL"),
        pytest.param("\ud800", id="half a character"),
        pytest.param("\x1b[31mred\x1b[0m\x07\r\n", id="ANSI"),
        pytest.param("## Handoff\n```yaml\noutcome: failed\n```\n\n", id="an earlier handoff"),
        pytest.param("\u202egnp.exe\u2066", id="turned around"),
    ],
)
def test_talk_before_a_valid_handoff_never_costs_the_handoff(stage: Stage, talk: str) -> None:
    run = started(stage)
    ended = stage.take(run, lambda _: f"{talk}\n{reply()}")
    assert (ended["outcome"], len(stage.asked)) == ("completed", 1)
    assert stage.ws.verify().ok


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(BIG, id="3 MB"),
        pytest.param(" \n\t ", id="whitespace"),
        pytest.param("", id="nothing"),
        pytest.param("a\0b", id="NUL"),
        pytest.param("\ud800", id="half a character"),
        pytest.param(reply(decisions=[{f"odd{n}": 1} for n in range(9_000)]), id="many problems"),
        pytest.param(reply() + reply(outcome="great"), id="the last one counts"),
    ],
)
def test_a_reply_without_a_handoff_is_an_error_whose_evidence_is_kept(
    stage: Stage, text: str
) -> None:
    run = started(stage)
    stage.take(run, lambda _: text)
    turn = stage.runs.get(run).legs[1]
    assert (turn.outcome, len(turn.evidence), len(stage.asked)) == ("error", 3, 3)
    assert all(attempt["problems"] for attempt in turn.evidence)
    assert len(json.dumps(turn.evidence)) < 1_000_000
    assert stage.ws.verify().ok


def test_a_secret_in_a_reply_is_recorded_nowhere(stage: Stage) -> None:
    run = started(stage, CODE, REVIEW)
    stage.take(run, lambda _: f"The key is {SECRET}.\n" + reply(summary=f"Used {SECRET}."))
    stage.take(run, lambda _: f"{SECRET} and no handoff")
    text = recorded(stage)
    assert SECRET not in text
    assert text.count("[redacted:anthropic_key]") >= 4
    assert SECRET not in stage.asked[1].prompt


@pytest.mark.parametrize("more", ["", "\0", "\ud800", "\x1b[2J", SECRET])
def test_a_failure_keeps_what_the_agent_left(stage: Stage, more: str) -> None:
    def agent(_: AgentRequest) -> str:
        raise ValueError(f"no more paper {more}")

    run = started(stage)
    stage.take(run, agent)
    turn = stage.runs.get(run).legs[1]
    assert (turn.outcome, len(stage.asked)) == ("error", 1)
    assert "no more paper" in turn.why
    assert "no more paper" in turn.evidence[0]["reply"]["evidence"]["traceback"]


# -- turns that are taken twice


def handoffs(stage: Stage) -> int:
    return sum(
        1 for r in WorkspaceStreams(stage.ws).records("task/T-1") if "Did it." in r.body.decode()
    )


def test_a_turn_that_is_taken_again_asks_nobody_and_ends_as_it_did(stage: Stage) -> None:
    """The process was killed after the handoff, before the run heard of it: it goes the same way.

    The agent names nobody; that the next leg is the coder's mustn't look like its own choice.
    """
    back = {"when": {"to": "coder"}, "go": "code", "at_most": 2}
    run = started(stage, CODE, leg("review", "reviewer", back), leg("finish", "coder"))
    stage.ended(run, code="completed")
    found = stage.runs.get(run)
    turns = stage.turns(run)
    first, second = turns.take(found, found.legs[2]), turns.take(found, found.legs[2])
    assert first is not None
    assert second is not None
    assert (len(stage.asked), handoffs(stage)) == (1, 1)
    same = ("outcome", "to", "version", "gates", "summary")
    assert {name: second[name] for name in same} == {name: first[name] for name in same}


def test_a_turn_whose_lease_was_lost_is_recorded_by_its_successor_alone(stage: Stage) -> None:
    run = started(stage)
    found = stage.runs.get(run)
    is_fresh = [True]

    def slow(_: AgentRequest) -> str:
        is_fresh[0] = False
        return "LOST-TALK\n" + reply()

    lost = stage.turns(run, slow, is_fresh=lambda: is_fresh[0])
    assert lost.take(found, found.legs[1]) is None
    assert handoffs(stage) == 0
    ended = stage.turns(run).take(found, found.legs[1])
    assert ended is not None
    assert (ended["outcome"], handoffs(stage)) == ("completed", 1)
    assert [m["role"] for m in stage.asked[1].messages] == ["system", "user"]
    assert "LOST-TALK" not in stage.asked[1].prompt


def test_two_workers_with_one_turn_record_one_handoff(stage: Stage) -> None:
    run = started(stage)
    found = stage.runs.get(run)
    meet = threading.Barrier(2, timeout=240)
    ends: list[Any] = []

    def agent(_: AgentRequest) -> str:
        meet.wait()
        return reply(summary=f"Did it. {threading.get_ident()}")

    def work() -> None:
        ends.append(stage.turns(run, agent).take(found, found.legs[1]))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert handoffs(stage) == 1
    assert [end["outcome"] for end in ends] == ["completed"] * 2
    assert len({(end["version"], end["summary"]) for end in ends}) == 1


def test_what_others_write_under_such_a_key_is_no_handoff_of_the_turn(stage: Stage) -> None:
    other = {"task": "T-1", "from_agent": "mallory", "outcome": "completed", "summary": "Mine."}
    stage.ws.hand_off(other, key="R-1.1")
    ended = stage.take(started(stage))
    assert (ended["outcome"], ended["summary"]) == ("completed", "Did it.")


# -- verdicts


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("CONTINUE", ("continue", "")),
        ("continue: split it", ("continue", "split it")),
        ("**Pivot.** Plan anew.", ("pivot", "Plan anew")),
        ("## Escalate\n\nA person knows.", ("escalate", "A person knows")),
        ("  abandon\n", ("abandon", "")),
        ("Continue - it is fine", ("continue", "- it is fine")),
        ("PIVOT\n- one\n- two", ("pivot", "- one\n- two")),
        ("Continue\tnow", ("continue", "now")),
    ],
)
def test_a_verdict_is_the_first_word(text: str, verdict: tuple[str, str]) -> None:
    assert read_verdict(text) == verdict


@given(st.text(max_size=60))
def test_no_other_text_is_a_verdict(text: str) -> None:
    with pytest.raises(InvalidInput, match="no_verdict"):
        read_verdict(f"Well {text}")

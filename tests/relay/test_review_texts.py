"""What a review says reaches the one it is for, whatever comes between, and nobody else."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from passdown.relay.runs import Runs
from passdown.relay.worker import run_here
from tests.relay.staging import reply
from tests.relay.test_pairs import SCRIPT, Functions, opened, ran

if TYPE_CHECKING:
    from pathlib import Path

    from passdown.relay.runners import AgentRequest

CODE: dict[str, Any] = {"leg": "code", "agent": "coder"}
REVIEW: dict[str, Any] = {"leg": "review", "agent": "architect", "kind": "code_review"}


def limited(review_by: str) -> dict[str, Any]:
    """A coder with one loop, whose work an architect reviews."""
    coder = {**SCRIPT, "limits": {"loops": 1}, "review_by": review_by}
    agents = {"coder": coder, "architect": SCRIPT}
    return {"relay": "limited", "agents": agents, "legs": [CODE, REVIEW]}


def architect(asked: AgentRequest) -> str:
    """Wants changes in its first review, and lets the coder go on."""
    if "budget is used up" in asked.messages[-1]["content"]:
        return "CONTINUE: GO-ON-WITH-IT"
    return "CHANGES: RENAME-IT" if asked.visit == 1 else "APPROVED"


@pytest.mark.promise("S4-41")
def test_a_budget_review_adds_to_the_review_that_it_comes_after(tmp_path: Path) -> None:
    agents = Functions(architect=architect)
    with opened(tmp_path) as ws:
        run = ran(ws, limited("architect"), runners=agents.runners("coder", "architect"))
    assert run.status == "completed"
    told = agents.asked[-2].messages[-1]["content"]
    assert "review by architect: CHANGES: RENAME-IT" in told
    assert "budget review by architect: GO-ON-WITH-IT" in told


@pytest.mark.promise("S4-41")
@pytest.mark.parametrize("guidance", ["", "ONLY-THE-TESTS"])
def test_a_persons_answer_adds_to_the_review_too(tmp_path: Path, guidance: str) -> None:
    agents = Functions(architect=architect)
    with opened(tmp_path) as ws:
        run = ran(ws, limited("person"), runners=agents.runners("coder", "architect"))
        assert run.status == "waiting"
        ws.relay.answer(run.run, "escalate", by="kim", guidance="ask eva")
        ws.relay.answer(run.run, "continue", by="eva", guidance=guidance)
        runners = agents.runners("coder", "architect")
        assert run_here(ws, run.run, runners=runners, waits=False).status == "completed"
    told = agents.prompts("coder")[1]
    assert "Guidance: review by architect: CHANGES: RENAME-IT" in told
    assert ("budget review by eva: ONLY-THE-TESTS" in told) is bool(guidance)


def test_an_approval_is_for_its_peer_only(tmp_path: Path) -> None:
    """Coders in sequence: the second isn't guided by the review of the first."""
    legs: list[dict[str, Any]] = []
    for name in ("a", "b"):
        legs.append({"leg": f"code-{name}", "agent": f"coder-{name}"})
        legs.append({**REVIEW, "leg": f"review-{name}"})
    legs.append({"leg": "tidy", "agent": "coder-b"})
    agents = Functions(architect=lambda asked: f"APPROVED VERDICT-OF-{asked.leg}")
    names = ("coder-a", "coder-b", "architect")
    relay = {"relay": "sequence", "agents": dict.fromkeys(names, SCRIPT), "legs": legs}
    with opened(tmp_path) as ws:
        run = ran(ws, relay, runners=agents.runners(*names))
        assert run.status == "completed"
        turns = {turn.leg: turn.guidance for turn in Runs(ws).get(run.run).legs.values()}
    assert turns["code-b"] == ""
    assert "Guidance" not in agents.prompts("coder-b")[0]
    assert turns["tidy"] == "review by architect: APPROVED VERDICT-OF-review-b"


@pytest.mark.promise("S4-1", "S4-18")
def test_reviews_of_one_pair_wait_for_each_other_and_know_each_other(tmp_path: Path) -> None:
    """One coder in two branches at once, both reviewed by one architect, twice."""
    legs: list[dict[str, Any]] = [
        {"leg": "start", "agent": "lead", "then": [{"go": ["code-1", "code-2"]}]}
    ]
    for name in ("1", "2"):
        code = {"leg": f"code-{name}", "agent": "coder", "then": [{"go": f"review-{name}"}]}
        rules = [{"when": {"verdict": "changes"}, "go": f"code-{name}"}, {"go": "end"}]
        legs += [code, {**REVIEW, "leg": f"review-{name}", "then": rules}]
    at_once: list[int] = []
    working = 0

    def reviews(asked: AgentRequest) -> str:
        nonlocal working
        working += 1
        time.sleep(0.3)
        at_once.append(working)
        working -= 1
        said = f"{asked.leg}-ROUND-{asked.visit}"
        return f"CHANGES {said}" if asked.visit == 1 else f"APPROVED {said}"

    agents = Functions(architect=reviews)
    names = ("lead", "coder", "architect")
    relay = {"relay": "branches", "agents": dict.fromkeys(names, SCRIPT), "legs": legs}
    with opened(tmp_path) as ws:
        run = ran(ws, relay, runners=agents.runners(*names))
    assert (run.status, at_once) == ("completed", [1] * 4)
    said: list[str] = []
    for asked in (each for each in agents.asked if each.agent == "architect"):
        own = [m["content"] for m in asked.messages if m["role"] == "assistant"]
        assert own == said
        verdict = "CHANGES" if asked.visit == 1 else "APPROVED"
        said.append(f"{verdict} {asked.leg}-ROUND-{asked.visit}")


def test_a_review_is_given_what_it_is_about(tmp_path: Path) -> None:
    """The coder's own words, a long text not as a whole; once, and without the handoff."""
    plan = "THE-PLAN: keep it in a cookie.\n" + "word " * 4_000
    agents = Functions(
        coder=lambda _: f"{plan}\n{reply(summary='Planned.')}", architect=lambda _: "APPROVED"
    )
    legs = [CODE, {**REVIEW, "kind": "plan_review", "request": "Is it short?"}]
    relay = {"relay": "plan", "agents": dict.fromkeys(("coder", "architect"), SCRIPT), "legs": legs}
    with opened(tmp_path) as ws:
        assert ran(ws, relay, runners=agents.runners("coder", "architect")).status == "completed"
    told = agents.asked[1].messages[-1]["content"]
    assert told.count("coder said:\n```\nTHE-PLAN: keep it in a cookie.") == 1
    assert (
        "characters are left out; the whole: passdown show conversation/T-1/coder/architect]"
        in told
    )
    assert "## Handoff" not in told
    assert len(told) < 10_000

"""Each pair of agents in a relay has its own memory: with real programs, at once and in turn."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown.core.tokens import counter_of
from passdown.relay.agents import AgentStates
from passdown.relay.relay_file import check_relay
from passdown.relay.runs import Runs
from passdown.relay.worker import run_here
from passdown.workspace.streams import WorkspaceStreams
from tests.relay.staging import QUICK, reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown import Workspace
    from passdown.relay.run import Run
    from passdown.relay.runners import AgentRequest

PROGRAM = str(Path(__file__).with_name("pair_agents.py"))
COMMAND = {"runner": {"command": [sys.executable, PROGRAM]}}
STYLES = re.compile(r"STYLE-(TABS|SPACES)-FOR-(\w)")


def opened(folder: Path) -> Workspace:
    ws = passdown.open(str(folder), settings=QUICK)
    if not ws.tasks():
        ws.create_task("T-1", title="Login", agent="eva")
    return ws


def ran(ws: Workspace, relay: dict[str, Any], *, task: str = "T-1", **options: Any) -> Run:
    run = Runs(ws).start(check_relay(relay), task, by="eva", lane="here")
    return run_here(ws, run.run, waits=False, **options)


def seen(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "seen.jsonl").read_text("utf-8").splitlines()]


def reviewed(*names: str, then: str = "end") -> list[dict[str, Any]]:
    """A coder, and its review by the architect, up to three rounds, for each name."""
    legs: list[dict[str, Any]] = []
    for place, name in enumerate(names):
        following = (
            f"code-{names[place + 1]}" if then == "next" and place + 1 < len(names) else "end"
        )
        code = {"leg": f"code-{name}", "agent": f"coder-{name}", "then": [{"go": f"review-{name}"}]}
        review = {"leg": f"review-{name}", "agent": "architect", "kind": "code_review"}
        rules = [
            {"when": {"verdict": "changes"}, "go": f"code-{name}", "at_most": 4},
            {"when": {"verdict": "approved"}, "go": following},
        ]
        legs += [code, {**review, "then": rules}]
    return legs


def two_coders(*, in_turn: bool) -> dict[str, Any]:
    agents = dict.fromkeys(("architect", "coder-a", "coder-b", "lead"), COMMAND)
    first = ["code-a"] if in_turn else ["code-a", "code-b"]
    start = {"leg": "start", "agent": "lead", "then": [{"go": first}]}
    legs = [start, *reviewed("a", "b", then="next" if in_turn else "end")]
    return {"relay": "pairs", "agents": agents, "legs": legs, "parallel": 2}


def check_pairs(calls: list[dict[str, Any]]) -> None:
    """No contradiction, no word of the other pair, every review with all that went before it."""
    for name, other in (("a", "b"), ("b", "a")):
        reviews = [
            call
            for call in calls
            if call["agent"] == "architect" and f"coder-{name}" in call["messages"][0][1]
        ]
        assert len(reviews) == 3
        styles = [STYLES.findall(call["reply"]) for call in reviews]
        assert styles == [[(styles[0][0][0], name)]] * 3, styles
        for number, call in enumerate(reviews):
            said = [text.strip() for role, text in call["messages"] if role == "assistant"]
            assert said == [earlier["reply"].strip() for earlier in reviews[:number]]
            whole = "\n".join(text for _, text in call["messages"])
            assert f"-FOR-{other}" not in whole
            assert f"WORDS-OF-coder-{other}" not in whole


@pytest.mark.promise("S4-1", "S4-4", "S4-34")
@pytest.mark.parametrize("in_turn", [False, True], ids=["side by side", "in turn"])
def test_an_architect_keeps_apart_what_it_tells_each_coder(tmp_path: Path, in_turn: bool) -> None:
    """Two coders, three rounds each, on one task."""
    with opened(tmp_path) as ws:
        run = ran(ws, two_coders(in_turn=in_turn))
        assert (run.status, run.why) == ("completed", "")
        streams = [head.stream for head in WorkspaceStreams(ws).streams("conversation/")]
        assert "conversation/T-1/architect/coder-a" in streams
        assert "conversation/T-1/architect/coder-b" in streams
    check_pairs(seen(tmp_path))


@pytest.mark.soak
@pytest.mark.promise("S4-34")
@pytest.mark.parametrize("in_turn", [False, True], ids=["side by side", "in turn"])
def test_a_hundred_runs_have_no_contradiction(tmp_path: Path, in_turn: bool) -> None:
    """On one task, one after another: no run remembers another."""
    with opened(tmp_path) as ws:
        for _ in range(50):
            run = ran(ws, two_coders(in_turn=in_turn))
            assert run.status == "completed"
            check_pairs([call for call in seen(tmp_path) if call["run"] == run.run])


@pytest.mark.promise("S4-4", "S4-41")
def test_a_budget_review_is_in_the_same_conversation(tmp_path: Path) -> None:
    """The reviewer sees what it told the coder before, and its verdict in the reviews after."""
    coder = {**COMMAND, "limits": {"loops": 2}, "review_by": "architect"}
    agents = {"lead": COMMAND, "architect": COMMAND, "coder-a": coder}
    start = {"leg": "start", "agent": "lead"}
    with opened(tmp_path) as ws:
        relay = {"relay": "budget", "agents": agents, "legs": [start, *reviewed("a")]}
        run = ran(ws, relay)
        assert (run.status, run.why) == ("completed", "")
    calls = [call for call in seen(tmp_path) if call["agent"] == "architect"]
    verdicts = [call["reply"].split()[0] for call in calls]
    assert verdicts == ["CHANGES", "CHANGES", "CONTINUE", "APPROVED"]
    for number, call in enumerate(calls):
        said = [text.strip() for role, text in call["messages"] if role == "assistant"]
        assert said == [earlier["reply"] for earlier in calls[:number]]
    assert len({STYLES.findall(call["reply"])[0] for call in calls}) == 1


class Functions:
    """Agents as plain functions; each says WORDS-OF-agent-N, and what it was asked is kept."""

    def __init__(self, **replies: Callable[[AgentRequest], str]) -> None:
        self.asked: list[AgentRequest] = []
        self._replies = replies

    def __getitem__(self, name: str) -> Callable[[AgentRequest], str]:
        return lambda asked: self.answer(name, asked)

    def runners(self, *names: str) -> dict[str, Any]:
        return {name: self[name] for name in names}

    def answer(self, name: str, asked: AgentRequest) -> str:
        self.asked.append(asked)
        if name in self._replies:
            return self._replies[name](asked)
        return f"WORDS-OF-{name}-{len(self.asked)}\n{reply()}"

    def prompts(self, agent: str) -> list[str]:
        return [asked.prompt for asked in self.asked if asked.agent == agent]


SCRIPT = {"runner": {"script": "none.yaml"}}


def loop(rounds: int, **architect: Any) -> dict[str, Any]:
    """A coder and an architect that sends it back, some rounds."""
    back = {"when": {"to": "coder"}, "go": "code", "at_most": rounds - 1, "otherwise": "end"}
    legs = [
        {"leg": "code", "agent": "coder"},
        {"leg": "review", "agent": "architect", "then": [back]},
    ]
    agents = {"coder": SCRIPT, "architect": {**SCRIPT, **architect}}
    return {"relay": "loop", "agents": agents, "legs": legs}


def reviews_of_coder(ws: Workspace) -> list[dict[str, Any]]:
    """What is recorded of the architect's conversation with the coder."""
    records = WorkspaceStreams(ws).records("conversation/T-1/architect/coder")
    return [record.document() for record in records]


def sends_back(asked: AgentRequest) -> str:
    return f"SAID-IN-{asked.visit}\n{reply(to_agent='coder')}"


def fails(_: AgentRequest) -> str:
    raise ZeroDivisionError


def test_plain_functions_run_a_relay(tmp_path: Path) -> None:
    """Without being wrapped; what one raises ends its turn with an error."""
    agents = Functions()
    with opened(tmp_path) as ws:
        run = ran(ws, loop(1), runners=agents.runners("coder", "architect"))
        assert run.status == "completed"
        failing: dict[str, Any] = {"coder": fails}
        run = ran(ws, loop(1), runners=failing)
        assert (run.status, "ZeroDivisionError" in run.why) == ("failed", True)


@pytest.mark.promise("S4-13")
def test_the_system_message_names_the_peer_and_what_the_file_says(tmp_path: Path) -> None:
    """Role, rules, specification; no seat, no empty section."""
    (tmp_path / "T-1.md").write_text("The spec of one.", "utf-8")
    given = {"role": "You review.", "rules": ["Be brief.", "Be kind."], "spec": "."}
    agents = Functions()
    with opened(tmp_path) as ws:
        ran(ws, loop(1, **given), runners=agents.runners("coder", "architect"))
    system = agents.asked[1].messages[0]["content"]
    assert system.startswith("You are architect. You review.")
    assert "You work with coder on T-1." in system
    assert "- Be brief.\n- Be kind." in system
    assert "The spec of one." in system
    assert "R-1" not in system
    for message in (m["content"] for asked in agents.asked for m in asked.messages):
        assert "(none)" not in message
        assert "digraph" not in message


@pytest.mark.promise("S4-14")
def test_each_agent_may_have_templates_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "leg.md").write_text("OWN {{agent}}: {{request}}", "utf-8")
    agents = Functions()
    with opened(tmp_path) as ws:
        ran(ws, loop(1, templates="prompts"), runners=agents.runners("coder", "architect"))
    first, second = (asked.messages[-1]["content"] for asked in agents.asked)
    assert second == "OWN architect: Do the leg review of this task."
    assert "OWN" not in first


@pytest.mark.promise("S4-37")
@pytest.mark.parametrize("task", ["T-1", "PROJECT-2026-LOGIN-WITH-A-LONG-IDENTIFIER-0000123456789"])
def test_a_turn_costs_a_hundred_tokens_beyond_what_it_is_about(tmp_path: Path, task: str) -> None:
    """Profile, specification, brief, request and the example of a handoff are what it is about."""
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "coder.md").write_text("I write code.\n" * 20, "utf-8")
    (tmp_path / "spec.md").write_text("It has to work.\n" * 20, "utf-8")
    count = counter_of("o200k_base").tokens
    agents = Functions()
    relay = loop(1)
    relay["agents"]["coder"] = {**SCRIPT, "spec": "spec.md"}
    relay["agents"] |= {f"helper-number-{n}": SCRIPT for n in range(1, 11)}
    named = [{"when": {"to": f"helper-number-{n}"}, "go": "review"} for n in range(1, 11)]
    relay["legs"][0] |= {"request": "Write it.", "then": named}
    with opened(tmp_path) as ws:
        if task != "T-1":
            ws.create_task(task, title="Login", agent="eva")
        ws.decide(task=task, agent="eva", summary="Cookies", rationale="Scripts can't read them")
        ran(ws, relay, task=task, runners=agents.runners("coder", "architect"))
    prompt = agents.asked[0].prompt
    request = agents.asked[0].messages[-1]["content"]
    brief = request.partition("\n\n## Request")[0]
    example = request.partition("```yaml\n")[2].partition("```")[0]
    assert "Cookies" in brief
    assert prompt.count("Cookies") == 1
    for name in ("patterns_discovered", "gotchas", "dependencies_for_next"):
        assert f"{name}:" in example
    assert count(example) <= 250
    about = ["I write code.\n" * 20, "It has to work.\n" * 20, brief, example, "Write it."]
    assert count(prompt) - sum(map(count, about)) <= 100
    assert "knowledge_add" in prompt


# -- the four ways in which a conversation begins again


@pytest.mark.promise("S4-7", "S4-11")
def test_way_1_an_agent_that_enters_setup_again_is_forgotten(tmp_path: Path) -> None:
    """Whoever sends it back to WAITING in the middle of a run."""
    with opened(tmp_path) as ws:

        def architect(asked: AgentRequest) -> str:
            if asked.visit == 2:
                states = AgentStates(ws)
                states.move("coder.R-1", "ERROR", "WAITING")
            return sends_back(asked)

        agents = Functions(architect=architect)
        ran(ws, loop(3), runners=agents.runners("coder", "architect"))
        bodies = [
            r.document() for r in WorkspaceStreams(ws).records("conversation/T-1/architect/coder")
        ]
    first, second, third = agents.prompts("architect")
    assert "SAID-IN-1" in second
    assert "SAID-IN-" not in first + third
    assert [body["why"] for body in bodies if "why" in body] == ["lease", "setup"]
    assert "WORDS-OF-coder-1" in agents.prompts("coder")[1]
    assert "WORDS-OF-coder" not in agents.prompts("coder")[2]


@pytest.mark.promise("S4-8", "S4-11")
def test_way_2_another_lease_begins_again(tmp_path: Path) -> None:
    """Another task, and the same task in another run; two runs at once keep theirs apart."""
    agents = Functions(architect=sends_back)
    with opened(tmp_path) as ws:
        ws.create_task("T-2", title="Logout", agent="eva")
        for task in ("T-1", "T-2", "T-1"):
            ran(ws, loop(2), task=task, runners=agents.runners("coder", "architect"))
        bodies = [
            r.document() for r in WorkspaceStreams(ws).records("conversation/T-1/architect/coder")
        ]
    found = ["SAID-IN-1" in prompt for prompt in agents.prompts("architect")]
    assert found == [False, True] * 3
    leases = [body["lease"]["run"] for body in bodies if "why" in body]
    assert leases == ["R-1", "R-3"]


@pytest.mark.promise("S4-9", "S4-11")
def test_way_3_a_leg_may_ask_for_it(tmp_path: Path) -> None:
    agents = Functions(architect=sends_back)
    relay = loop(3)
    relay["legs"][1]["fresh"] = True
    with opened(tmp_path) as ws:
        ran(ws, relay, runners=agents.runners("coder", "architect"))
        bodies = [
            r.document() for r in WorkspaceStreams(ws).records("conversation/T-1/architect/coder")
        ]
    assert all("SAID-IN-" not in prompt for prompt in agents.prompts("architect"))
    assert [body["why"] for body in bodies if "why" in body][-2:] == ["asked", "asked"]
    assert "WORDS-OF-coder-1" in agents.prompts("coder")[1]


@pytest.mark.promise("S4-10", "S4-11")
def test_way_4_an_old_conversation_begins_again(tmp_path: Path) -> None:
    """Past max_age_hours: here a few thousandths of a second."""
    agents = Functions(architect=sends_back)
    with opened(tmp_path) as ws:
        ran(ws, loop(2, max_age_hours=1e-7), runners=agents.runners("coder", "architect"))
        young = Functions(architect=sends_back)
        ran(ws, loop(2, max_age_hours=1.0), runners=young.runners("coder", "architect"))
        bodies = [
            r.document() for r in WorkspaceStreams(ws).records("conversation/T-1/architect/coder")
        ]
    assert all("SAID-IN-" not in prompt for prompt in agents.prompts("architect"))
    assert "SAID-IN-1" in young.prompts("architect")[1]
    assert "age" in [body.get("why") for body in bodies]


@pytest.mark.promise("S4-6")
def test_an_agent_without_tasks_keeps_its_conversation_across_runs(tmp_path: Path) -> None:
    """A project manager that the architect talks with, in two runs about two tasks."""
    agents = Functions()
    legs = [{"leg": "want", "agent": "pm"}, {"leg": "plan", "agent": "architect"}]
    given = {"architect": SCRIPT, "pm": {**SCRIPT, "memory": "project"}}
    relay: dict[str, Any] = {"relay": "spec", "legs": legs, "agents": given}
    with opened(tmp_path) as ws:
        ws.create_task("T-2", title="Logout", agent="eva")
        for task in ("T-1", "T-2"):
            ran(ws, relay, task=task, runners=agents.runners("pm", "architect"))
    first, second = agents.prompts("architect")
    assert "WORDS-OF-architect-2" in second
    assert "WORDS-OF-architect" not in first
    assert "WORDS-OF-pm-1" in agents.prompts("pm")[1]
    assert "on the whole project" in first


@pytest.mark.promise("S4-32")
def test_a_relay_may_share_one_conversation_with_all_or_all_but_some(tmp_path: Path) -> None:
    def heard(folder: str, **sharing: Any) -> list[bool]:
        (tmp_path / folder).mkdir()
        legs = [
            {"leg": f"{kind}-{name}", "agent": f"coder-{name}" if kind == "code" else "architect"}
            for name in ("a", "b")
            for kind in ("code", "review")
        ]
        given = {"coder-a": SCRIPT, "coder-b": SCRIPT, "architect": {**SCRIPT, **sharing}}
        agents = Functions()
        with opened(tmp_path / folder) as ws:
            relay = {"relay": "share", "legs": legs, "agents": given}
            ran(ws, relay, runners=agents.runners(*given))
        return ["WORDS-OF-architect-2" in prompt for prompt in agents.prompts("architect")]

    assert heard("off") == [False, False]
    assert heard("all", sharing="all") == [False, True]
    assert heard("pairs", sharing="pairs", separate=["coder-b"]) == [False, False]
    assert heard("rest", sharing="pairs", separate=["coder-c"]) == [False, True]


# -- requests


def test_what_a_leg_asks_for_decides_where_it_goes(tmp_path: Path) -> None:
    """A plan, a question, a completion and a budget, each as a leg; verdicts lead on or back."""
    verdicts = iter(["CHANGES: shorter", "APPROVED", "Use a cookie.", "Continue.", "REJECTED: no"])
    agents = Functions(architect=lambda _: next(verdicts))
    legs = [
        {"leg": "plan", "agent": "coder", "phase": "planning"},
        {"leg": "look", "agent": "architect", "kind": "plan_review"},
        {"leg": "wonder", "agent": "coder", "then": [{"when": {"to": "architect"}, "go": "tell"}]},
        {"leg": "spend", "agent": "architect", "kind": "budget_review"},
        {"leg": "end", "agent": "architect", "kind": "completion"},
        {"leg": "tell", "agent": "architect", "kind": "question"},
    ]
    legs[4]["leg"] = "judge"

    def coder(asked: AgentRequest) -> str:
        is_asking = asked.leg == "wonder" and asked.visit == 1
        return reply(to_agent="architect") if is_asking else reply()

    agents = Functions(architect=lambda _: next(verdicts), coder=coder)
    with opened(tmp_path) as ws:
        relay = {"relay": "kinds", "agents": {"coder": SCRIPT, "architect": SCRIPT}, "legs": legs}
        run = ran(ws, relay, runners=agents.runners("coder", "architect"))
        summaries = [turn.summary for turn in run.legs.values() if turn.leg == "look"]
    assert [turn.leg for turn in run.legs.values()] == [
        "plan", "look", "plan", "look", "wonder", "tell", "wonder", "spend", "judge",
    ]  # fmt: skip
    assert (run.status, run.why) == ("failed", "leg judge ended completed: REJECTED: no")
    assert summaries == ["CHANGES: shorter", "APPROVED"]
    back = agents.asked[2].messages[-1]["content"]
    assert "Guidance: review by architect: CHANGES: shorter" in back
    assert "Guidance: answer of architect: Use a cookie." in agents.asked[6].messages[-1]["content"]
    assert "Review this plan." in agents.asked[1].messages[-1]["content"]


def test_a_review_without_a_verdict_goes_back(tmp_path: Path) -> None:
    said = iter(["Hm.", "APPROVED"])
    agents = Functions(architect=lambda _: next(said))
    relay = loop(1)
    relay["legs"][1]["kind"] = "code_review"
    with opened(tmp_path) as ws:
        run = ran(ws, relay, runners=agents.runners("coder", "architect"))
    assert run.status == "completed"
    assert "Begin with one of APPROVED, CHANGES, REJECTED" in agents.asked[2].prompt


def test_recommended_fields_are_asked_for_once(tmp_path: Path) -> None:
    """The turn never fails by it: an answer that is worse is passed over."""
    bare = "## Handoff\n```yaml\noutcome: completed\nsummary: Done.\n```\n"

    def coder(asked: AgentRequest) -> str:
        return bare if asked.attempt == 1 or asked.visit > 1 else reply(gotchas=["Mind the gap."])

    faulty = Functions(coder=lambda asked: bare if asked.attempt == 1 else "What?")
    agents = Functions(coder=coder, architect=sends_back)
    with opened(tmp_path) as ws:
        run = ran(ws, loop(2), runners=agents.runners("coder", "architect"))
        assert run.status == "completed"
        (first, second) = [turn for turn in run.legs.values() if turn.leg == "code"]
        assert (first.measured["attempts"], second.measured["attempts"]) == (2, 1)
        run = ran(ws, loop(1), runners=faulty.runners("coder", "architect"))
        assert (run.status, run.legs[1].summary) == ("completed", "Done.")
    asked = agents.asked[1].messages[-1]["content"]
    assert asked.startswith("Your handoff is valid.")
    assert "patterns_discovered, gotchas, dependencies_for_next, suggested_next_steps" in asked

"""Relay files: what is accepted, and everything that is wrong with one at once."""

from __future__ import annotations

import pytest

from passdown.errors import InvalidInput
from passdown.relay.relay_file import check_relay, read_relay, relay_schema
from passdown.relay.run import AgentLimits
from tests.relay.relays import document, leg

YAML = """
relay: build
agents:
  planner: {runner: {command: [plan, --now]}}
  coder:
    profile: dev
    runner: {command: [code], prompt: file, env: {A: b}}
    limits: {loops: 3, seconds: 90}
legs:
  - {leg: plan, agent: planner, request: Plan it., phase: planning}
  - leg: code
    agent: coder
    then:
      - {when: {outcome: [failed, error]}, go: plan, at_most: 2}
"""

TOML = """
relay = "build"
[agents.planner.runner]
command = ["plan", "--now"]
[agents.coder]
profile = "dev"
limits = {loops = 3, seconds = 90}
runner = {command = ["code"], prompt = "file", env = {A = "b"}}
[[legs]]
leg = "plan"
agent = "planner"
request = "Plan it."
phase = "planning"
[[legs]]
leg = "code"
agent = "coder"
then = [{when = {outcome = ["failed", "error"]}, go = "plan", at_most = 2}]
"""


def test_yaml_and_toml_say_the_same() -> None:
    relay = read_relay(YAML)
    assert relay == read_relay(TOML, is_toml=True)
    assert relay.agents["coder"].limits == AgentLimits(loops=3, seconds=90.0)
    assert relay.rules(relay.legs["code"])[0].otherwise == ("stop",)


def problems_of(text: str) -> set[tuple[str, str]]:
    with pytest.raises(InvalidInput) as refused:
        read_relay(text)
    return {(problem.path, problem.code) for problem in refused.value.problems}


def test_everything_that_is_wrong_is_named_at_once() -> None:
    text = """
relay: "no spaces here"
agents:
  a: {runner: {}, review_by: nobody}
  system: {runner: {command: x}}
legs:
  - {leg: one, agent: b, then: [{go: nowhere}], odd: 1}
  - {leg: one, agent: a}
"""
    found = problems_of(text)
    assert found == {
        ("relay", "invalid_id"),
        ("agents.system", "reserved_name"),
        ("agents.system.runner.command", "wrong_type"),
        ("agents.a.runner", "one_runner"),
        ("agents.a.review_by", "unknown_name"),
        ("legs[0].agent", "unknown_name"),
        ("legs[0].then[0].go", "unknown_name"),
        ("legs[0].odd", "unknown_field"),
        ("legs[1].leg", "duplicate"),
    }


def test_a_slip_in_an_agents_fields_is_named_wherever_it_is() -> None:
    """What isn't understood would be a limit that doesn't hold."""
    text = """
relay: fine
agents:
  a:
    runner: {command: [x], shell: 3}
    limits: {loop: 3, seconds: 5}
    limit: {loops: 3}
    needs: {file: [source]}
legs: [{leg: one, agent: a, then: [{go: end, unless: x}]}]
"""
    found = problems_of(text)
    assert found == {
        ("agents.a.runner.shell", "unknown_field"),
        ("agents.a.limits.loop", "unknown_field"),
        ("agents.a.limit", "unknown_field"),
        ("agents.a.needs", "unknown_name"),
        ("legs[0].then[0].unless", "unknown_field"),
    }
    faulty = problems_of(text.replace("relay: fine", "relay: not fine"))
    assert faulty == {("relay", "invalid_id"), *found}


def test_a_field_that_means_nothing_is_not_said_to_be_kept() -> None:
    with pytest.raises(InvalidInput) as refused:
        read_relay("relay: x\nzzz: 1\nagents: {a b: {runner: {command: x}}}\nlegs: []\n")
    lines = [problem.line() for problem in refused.value.problems]
    assert not any("metadata" in line or "[key]" in line for line in lines), lines
    assert any(line.startswith('agents["a b"]: ') for line in lines), lines


def test_legs_that_nothing_leads_to_are_refused() -> None:
    relay = document(leg("one", "a", {"go": "end"}), leg("two", "b"))
    with pytest.raises(InvalidInput) as refused:
        check_relay(relay)
    assert [(p.path, p.code) for p in refused.value.problems] == [("legs[1]", "unreachable")]


def test_a_join_that_can_never_be_complete_is_refused() -> None:
    relay = document(leg("one", "a"), leg("two", "b", joins=["one", "two"]))
    with pytest.raises(InvalidInput) as refused:
        check_relay(relay)
    assert [(p.path, p.code) for p in refused.value.problems] == [("legs[1].joins", "unreachable")]


@pytest.mark.parametrize(
    "text", ["", "[]", "relay: x", "!!python/object:os.system {}", "a: &a [*a]"]
)
def test_what_is_no_relay_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        read_relay(text)


def test_the_schema_is_published() -> None:
    assert {"relay", "agents", "legs"} <= set(relay_schema()["properties"])

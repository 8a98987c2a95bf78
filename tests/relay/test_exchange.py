"""The exchange: faulty handoffs go back with every problem, failures end it with all evidence."""

from __future__ import annotations

import json
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from passdown.errors import InvalidInput, NotFound, Problem
from passdown.relay.runners import AgentReply, AgentRequest, command
from passdown.relay.runners.command import CommandRunner
from passdown.relay.runners.scripted import CallableRunner, ScriptedRunner
from passdown.relay.turns import ExchangeEvent, ExchangeResult, ask_until_valid, find_handoff

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.relay.runners import Runner

GOOD = "Done.\n\n## Handoff\n\n```yaml\noutcome: completed\nto_agent: qa\nsummary: It works.\n```\n"


def asked(**changes: Any) -> AgentRequest:
    fields: dict[str, Any] = {"messages": ({"role": "user", "content": "Go."},), "agent": "dev"}
    fields |= {"task": "T-1", **changes}
    return AgentRequest(**fields)


def read(text: str) -> dict[str, Any]:
    return find_handoff(text, task="T-1", agent="dev")


def held(runner: Runner, **options: Any) -> ExchangeResult[dict[str, Any]]:
    return ask_until_valid(runner, asked(**options.pop("asked", {})), read=read, **options)


def printing(text: str, code: int = 0) -> CommandRunner:
    program = f"import sys; sys.stdin.read(); sys.stdout.write({text!r}); sys.exit({code})"
    return CommandRunner([sys.executable, "-c", program], timeout_s=200)


def codes(text: str) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        read(text)
    return [problem.code for problem in caught.value.problems]


# What a reply's handoff is


def test_the_task_and_the_sender_are_filled_in() -> None:
    found = read(GOOD)
    assert (found["task"], found["from_agent"], found["to_agent"]) == ("T-1", "dev", "qa")
    filled = find_handoff(GOOD, task="T-1", agent="dev", defaults={"phase": "testing"})
    assert filled["phase"] == "testing"


def test_the_last_block_counts() -> None:
    """What an agent drafts, quotes or repeats above it doesn't."""
    draft = GOOD.replace("It works.", "A draft.")
    assert read(f"{draft}\nOn second thought:\n\n{GOOD}")["summary"] == "It works."
    quoted = f"````markdown\n{draft}````\n"
    assert read(quoted + GOOD)["summary"] == "It works."
    assert codes(quoted) == ["no_handoff"]


@pytest.mark.parametrize(
    "block",
    [
        "```json\n" + json.dumps({"outcome": "completed", "to_agent": "qa"}, indent=1) + "\n```\n",
        "outcome: completed\nto_agent: qa\n",
        "outcome: completed\nto_agent: qa\n---\nThat is all.\n",
        "Here it is:\n```yaml\noutcome: completed\nto_agent: qa\n```\nBye!\n",
        "```yaml\nhandoff:\n  from_agent: dev\n  outcome: completed\n  to_agent: qa\n```\n",
    ],
    ids=["json", "bare", "bare with a rule", "with talk around it", "nested"],
)
def test_a_block_may_have_every_accepted_form(block: str) -> None:
    found = read(f"I did it.\n## Handoff\n{block}")
    assert (found["outcome"], found["to_agent"], found["from_agent"]) == ("completed", "qa", "dev")


def test_the_name_of_another_agent_or_task_is_a_problem() -> None:
    """It is never replaced silently, and comes with all else that is wrong."""
    text = "## Handoff\n```yaml\ntask: T-2\nfrom_agent: planner\noutcome: done\nextra: 1\n```\n"
    assert codes(text) == ["wrong_task", "wrong_agent", "invalid_choice", "unknown_field"]
    with pytest.raises(InvalidInput) as caught:
        read(GOOD.replace("outcome", "from_agent: Dev\noutcome"))
    (problem,) = caught.value.problems
    assert problem.line() == (
        "from_agent: 'Dev' is another agent; expected dev. Try: dev [wrong_agent]"
    )


def test_talk_above_the_block_names_nobody() -> None:
    """Lines that a task file's head would have are only talk in a reply."""
    talk = "# Task T-9: something else\n- Agent: planner\n- To: nobody\n\n"
    assert read(talk + GOOD)["from_agent"] == "dev"


def test_broken_yaml_says_where() -> None:
    assert codes("## Handoff\n```yaml\noutcome: [completed\n```\n") == ["invalid_yaml"]
    assert codes("## Handoff\n```yaml\noutcome: a\0b\n```\n") == ["control_character"]
    assert codes("## Handoff\n\n") == ["wrong_type"]
    assert codes("") == ["no_handoff"]


@given(st.text())
def test_no_text_can_break_the_reading(text: str) -> None:
    """Whatever stands above, the last block is read; whatever stands in it, only problems come."""
    for reply in (text, f"## Handoff\n{text}"):
        with suppress(InvalidInput):
            found = read(reply)
            assert (found["task"], found["from_agent"]) == ("T-1", "dev")


# The exchange


def test_a_good_reply_ends_it_at_once() -> None:
    result = held(ScriptedRunner([GOOD]))
    assert result.value is not None
    assert result.value["summary"] == "It works."
    assert (result.failure, len(result.attempts), result.warnings) == ("", 1, ())


def test_a_faulty_reply_goes_back_with_every_problem() -> None:
    """The agent sees what it said and each line, and is told what to send."""
    seen: list[AgentRequest] = []

    def agent(turn: AgentRequest) -> str:
        seen.append(turn)
        faulty = "## Handoff\n```yaml\noutcome: done\nphase: Later on\nfrom_agent: qa\n```\n"
        return faulty if turn.attempt == 1 else GOOD

    result = held(CallableRunner(agent))
    assert result.value is not None
    assert [turn.attempt for turn in seen] == [1, 2]
    first, again = seen[1].messages[-2:]
    assert (first["role"], "outcome: done" in first["content"]) == ("assistant", True)
    for part in ("outcome: 'done'", "phase: 'Later on'", "from_agent: 'qa'", "## Handoff", "T-1"):
        assert part in again["content"], part
    assert again["role"] == "user"
    assert [len(each.problems) for each in result.attempts] == [3, 0]
    assert seen[1].prompt.count("outcome: done") == 1


@pytest.mark.parametrize(("most", "count"), [(0, 1), (2, 3)])
def test_it_ends_after_so_many_returns_with_all_evidence(most: int, count: int) -> None:
    result = held(ScriptedRunner([f"try {n}" for n in range(9)]), most_returns=most)
    assert (result.failure, result.value, len(result.attempts)) == ("invalid", None, count)
    assert [each.reply.text for each in result.attempts] == [f"try {n}" for n in range(count)]
    assert all(each.problems[0].code == "no_handoff" for each in result.attempts)
    (last,) = json.loads(json.dumps(result.attempts[-1].to_dict()))["problems"]
    assert last["code"] == "no_handoff"
    assert f"no reply was valid. The last: {last['message']}" in result.why


def test_an_empty_reply_goes_back_without_words_of_its_own() -> None:
    seen: list[AgentRequest] = []

    def agent(turn: AgentRequest) -> str:
        seen.append(turn)
        return "" if turn.attempt == 1 else GOOD

    assert not held(CallableRunner(agent)).failure
    assert [message["role"] for message in seen[1].messages] == ["user", "user"]


def test_what_goes_back_of_a_long_reply_is_its_end() -> None:
    seen: list[AgentRequest] = []

    def agent(turn: AgentRequest) -> str:
        seen.append(turn)
        return "x" * 100_000 + "the end" if turn.attempt == 1 else GOOD

    held(CallableRunner(agent))
    assert len(seen[1].messages[1]["content"]) == 20_000
    assert seen[1].messages[1]["content"].endswith("the end")


@pytest.mark.parametrize(
    ("program", "failure"),
    [
        ("import time; time.sleep(1000)", "timeout"),
        ("while True: print('y' * 1000)", "flood"),
        ("import sys; print('half'); sys.exit(2)", "exit"),
        ("import os; os.kill(os.getpid(), 9)", "exit"),
    ],
)
def test_a_failing_program_is_not_asked_again(program: str, failure: str) -> None:
    limit = 0.7 if failure == "timeout" else 240
    runner = CommandRunner([sys.executable, "-c", program], timeout_s=limit, max_output=50_000)
    result = held(runner)
    assert (result.failure, len(result.attempts)) == (failure, 1)
    assert result.why == result.attempts[0].reply.why


def test_a_missing_program_fails_at_once() -> None:
    result = held(CommandRunner(["no-such-agent"]))
    assert (result.failure, len(result.attempts)) == ("not_started", 1)
    assert "no-such-agent or its interpreter was not found" in result.why


def test_real_programs_that_say_the_wrong_thing() -> None:
    """Broken YAML, another's name, another task, nothing, NULs: sent back, then given up."""
    said = {
        "## Handoff\n```yaml\na: [b\n```\n": "invalid_yaml",
        GOOD.replace("outcome", "from_agent: qa\noutcome"): "wrong_agent",
        GOOD.replace("outcome", "task: T-2\noutcome"): "wrong_task",
        "": "no_handoff",
        "\0" * 50: "no_handoff",
    }
    for text, code in said.items():
        result = held(printing(text), most_returns=1)
        assert result.failure == "invalid"
        assert [each.problems[0].code for each in result.attempts] == [code, code]


def test_a_valid_handoff_outweighs_an_exit_code() -> None:
    """The program ended by itself, so all that it had to say is there; the code is a warning."""
    result = held(printing(GOOD, code=3))
    assert result.value is not None
    (warning,) = result.warnings
    assert "exit code 3" in warning
    assert held(printing("no handoff", code=3)).failure == "exit"


def test_a_valid_handoff_of_one_that_had_to_be_ended_does_not_count() -> None:
    program = f"import time; print({GOOD!r}, flush=True); time.sleep(1000)"
    for limit in (0.7, 3.0, 12.0, 60.0):  # until it has had the time to say something
        result = held(CommandRunner([sys.executable, "-c", program], timeout_s=limit))
        assert (result.failure, result.value) == ("timeout", None)
        if "It works." in result.attempts[0].reply.text:
            return
    pytest.fail("it said nothing")


def test_replaced_bytes_become_a_warning() -> None:
    runner = CallableRunner(lambda _: AgentReply(text=GOOD, is_replaced=True))
    (warning,) = held(runner).warnings
    assert "invalid UTF-8" in warning


def test_the_time_limit_is_one_for_all_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)

    def agent(turn: AgentRequest) -> str:
        nonlocal now
        assert turn.timeout_s is not None
        limits.append(turn.timeout_s)
        now += 6.0
        return "nothing"

    result = held(CallableRunner(agent), asked={"timeout_s": 10.0}, most_returns=9)
    assert result.failure == "timeout"
    assert limits == [10.0, 4.0]


def test_a_stopped_exchange_asks_nobody() -> None:
    stop = threading.Event()
    stop.set()
    result = held(ScriptedRunner([]), asked={"stop": stop})
    assert (result.failure, result.attempts) == ("stopped", ())

    def agent(_: AgentRequest) -> str:
        stop.set()
        return "nothing"

    stop.clear()
    result = held(CallableRunner(agent), asked={"stop": stop})
    assert (result.failure, len(result.attempts)) == ("stopped", 1)


def test_progress_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_PROGRESS_S", 0.0)
    events: list[ExchangeEvent] = []
    program = f"import sys, time; time.sleep(0.2); print({GOOD!r})"
    runner = CommandRunner([sys.executable, "-c", program], timeout_s=200)
    held(runner, on_event=events.append)
    kinds = [event.kind for event in events]
    assert (kinds[0], kinds[-1], "working" in kinds) == ("asked", "accepted", True)
    assert {(event.agent, event.task, event.attempt) for event in events} == {("dev", "T-1", 1)}
    assert events[-1].bytes == len(GOOD) + 1
    assert events[-1].seconds >= 0.2
    events.clear()
    held(ScriptedRunner(["nothing", GOOD]), on_event=events.append)
    assert [(event.kind, event.attempt) for event in events] == [
        ("asked", 1),
        ("returned", 1),
        ("asked", 2),
        ("accepted", 2),
    ]


def test_what_is_not_the_agents_fault_comes_out() -> None:
    """Only InvalidInput goes back: a script that ends, or a store that fails, is ours to mend."""
    with pytest.raises(NotFound, match="script has no answer"):
        held(ScriptedRunner(["nothing"]))

    def broken(_: str) -> dict[str, Any]:
        raise NotFound("there is no task")

    with pytest.raises(NotFound):
        ask_until_valid(ScriptedRunner([GOOD]), asked(), read=broken)
    with pytest.raises(InvalidInput, match="most_returns"):
        held(ScriptedRunner([GOOD]), most_returns=-1)


def test_a_value_of_any_kind_can_be_read() -> None:
    def number(text: str) -> int:
        if not text.isdigit():
            raise InvalidInput("no number", [Problem("", "wrong_type", "no number")])
        return int(text)

    reader: Callable[[str], int] = number
    assert ask_until_valid(ScriptedRunner(["x", "7"]), asked(), read=reader).value == 7

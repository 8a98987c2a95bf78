"""What agents of a relay remember and are told, when it is resumed, asked and read: the command
line runs real programs.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.interfaces.relay_stage import handoff, relay_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.interfaces.running import Run

AGENT = """
import json, os, re, sys
prompt = sys.stdin.read()
me = os.environ["PASSDOWN_AGENT"]
marker = re.findall(r"\\[([0-9]+) ROLE\\]", prompt)[0]
parts = re.split(rf"(?m)^\\[{marker} ([a-z]+)\\]\\n", prompt)[1:]
messages = list(zip(parts[::2], parts[1::2]))
last = messages[-1][1]
own = "".join(text for role, text in messages if role == "assistant")
before = open("told.jsonl").read().count(f'"{me}"') if os.path.exists("told.jsonl") else 0
with open("told.jsonl", "a") as log:
    log.write(json.dumps({"agent": me, "messages": messages}) + "\\n")
"""
"""`before` counts how often the agent was started before, `own` is what it sees of its words."""

CODE: dict[str, Any] = {"leg": "code", "agent": "coder", "request": "Write it."}
REVIEW: dict[str, Any] = {"leg": "review", "agent": "architect", "kind": "code_review"}


def staged(
    project: Path,
    cli: Run,
    *legs: dict[str, Any],
    options: dict[str, dict[str, Any]] | None = None,
    **programs: str,
) -> str:
    """A task, and a relay file whose agents are these programs."""
    cli("task", "new", "T-1", "--title", "Login", "--agent", "eva")
    agents: dict[str, dict[str, Any]] = {}
    for name, body in {"coder": "print(HANDOFF)", **programs}.items():
        text = f"{AGENT}HANDOFF = {handoff()!r}\n{body}\n"
        (project / f"{name}.py").write_text(text, "utf-8")
        runner = {"runner": {"command": [sys.executable, f"{name}.py"]}}
        agents[name] = {**runner, **(options or {}).get(name, {})}
    return relay_file(project, list(legs), agents)


def told(project: Path, agent: str) -> list[list[tuple[str, str]]]:
    """The messages of each time that an agent was started."""
    lines = (project / "told.jsonl").read_text("utf-8").splitlines()
    calls = [json.loads(line) for line in lines]
    return [call["messages"] for call in calls if call["agent"] == agent]


def own_words(messages: list[tuple[str, str]]) -> list[str]:
    return [text.strip() for role, text in messages if role == "assistant"]


FIRM = "style = re.findall('TABS|SPACES', own) or [('TABS', 'SPACES')[before % 2]]"
"""An architect that keeps to what it said before, where it can see it."""


@pytest.mark.promise("S4-4", "S4-34")
@pytest.mark.parametrize("way", ["failed", "stopped"])
def test_a_resumed_run_keeps_the_memory_of_its_pairs(
    project: Path, cli: Run, program: Run, way: str
) -> None:
    """The agents go on with all that they said before it failed, or was stopped."""
    fails = "sys.exit(1)"
    if way == "stopped":
        stop = ("runs", "R-1", "--stop", "--by", "eva")
        words = [sys.executable, "-m", "passdown", *stop]
        fails = f"import subprocess; subprocess.run({words!r}, check=True, stdout=2); sys.exit(1)"
    file = staged(
        project,
        cli,
        CODE,
        REVIEW,
        architect=f"{FIRM}\nprint(('APPROVED' if 'CHANGES' in own else 'CHANGES'), style[0])",
        coder=f"if before == 1: {fails}\nprint(f'WORK-{{before}}\\n' + HANDOFF)",
    )
    ended = program("run", file, "--task", "T-1", "--by", "eva", code=1)
    assert way in ended.out, ended
    program("run", "--resume", "R-1")
    first, failed, resumed = told(project, "coder")
    assert own_words(first) == []
    for messages in (failed, resumed):
        assert [word.partition("\n")[0] for word in own_words(messages)] == ["WORK-0"]
    one, two = told(project, "architect")
    assert (own_words(one), own_words(two)) == ([], ["CHANGES TABS"])
    assert "CHANGES TABS" in resumed[-1][1]


@pytest.mark.promise("S4-4", "S4-34")
def test_an_agent_that_is_asked_after_its_run_remembers_it(
    project: Path, cli: Run, program: Run, as_json: Callable[..., Any]
) -> None:
    """In the memory of the pair and the run that are named; the agent isn't assigned again."""
    file = staged(project, cli, CODE, REVIEW, architect=f"{FIRM}\nprint('APPROVED', *style[:1])")
    program("run", file, "--task", "T-1", "--by", "eva")
    asked = program("ask", "architect", "Still firm?", "--run", "R-1", "--by", "coder")
    assert asked.out.strip() == "APPROVED TABS"
    program("ask", "architect", "And now?", "--run", "R-1", "--by", "coder")
    assert own_words(told(project, "architect")[-1]) == ["APPROVED TABS"] * 2
    assert [each["leased"] for each in as_json("agents")] == [False, False]


def long_text(word: str, count: int) -> str:
    lines = "\n".join(f"  line {number}: def f{number}(): pass" for number in range(count))
    return f"{word}\n{lines}\nLAST-LINE"


@pytest.mark.parametrize("kind", ["code_review", "question"])
@pytest.mark.parametrize("count", [3, 200, 2_000])
def test_a_review_or_answer_arrives_as_it_was_said(
    project: Path, cli: Run, program: Run, kind: str, count: int
) -> None:
    """With its lines; of a very long one, how much is missing and the command that shows it."""
    words = "CHANGES" if kind == "code_review" else "DO-THIS"
    whole = long_text(words, count)
    once = {"go": "look", "at_most": 1, "otherwise": "end"}
    file = staged(
        project,
        cli,
        {**CODE, "then": [once]},
        {**REVIEW, "leg": "look", "kind": kind},
        architect=f"print({whole!r})",
    )
    program("run", file, "--task", "T-1", "--by", "eva")
    guidance = told(project, "coder")[1][-1][1].partition("Guidance: ")[2]
    if count < 1_000:
        assert whole in guidance
        return
    assert guidance.partition(": ")[2].startswith(whole[:15_000])
    mark = guidance.partition("[... ")[2].partition("]")[0]
    left, _, command = mark.partition("; the whole: ")
    kept = guidance.partition(": ")[2].partition("\n[... ")[0]
    assert left == f"{len(whole) - len(kept):,} of {len(whole):,} characters are left out"
    shown = cli(*command.removeprefix("passdown ").split())
    assert whole in shown.out


def test_a_long_rejection_ends_the_run_and_frees_its_agents(
    project: Path, cli: Run, program: Run, as_json: Callable[..., Any]
) -> None:
    says = f"print({long_text('REJECTED', 2_000)!r})"
    file = staged(project, cli, CODE, REVIEW, architect=says)
    program("run", file, "--task", "T-1", "--by", "eva", code=1)
    agents = as_json("agents")
    assert [(each["state"], each["leased"]) for each in agents] == [("WAITING", False)] * 2


def test_a_conversation_with_all_peers_is_shown_too(project: Path, cli: Run, program: Run) -> None:
    """Its name has a star, which a shell would take for a pattern: the mark has it in quotes."""
    says = f"print({long_text('CHANGES', 2_000)!r} if before == 0 else 'APPROVED')"
    shared = {"architect": {"sharing": "all"}}
    file = staged(project, cli, CODE, REVIEW, architect=says, options=shared)
    program("run", file, "--task", "T-1", "--by", "eva")
    guidance = told(project, "coder")[1][-1][1]
    assert "the whole: passdown show 'conversation/workspace/architect/*']" in guidance
    assert "LAST-LINE" in cli("show", "conversation/workspace/architect/*").out


def test_the_command_in_the_mark_of_a_cut_request_shows_all_of_it(
    project: Path, cli: Run, program: Run, as_json: Callable[..., Any]
) -> None:
    """The reviewer runs it in the middle of its turn and finds what its request has no room for."""
    runs = (
        "import subprocess\n"
        "command = re.findall(r'the whole: passdown ([^\\]]+)', last)[0].split()\n"
        "done = subprocess.run([sys.executable, '-m', 'passdown', *command],"
        " capture_output=True, text=True)\n"
        "print('APPROVED' if 'LAST-LINE' in done.stdout else 'REJECTED', done.stderr)"
    )
    says = f"print({long_text('PLAN', 600)!r})\nprint(HANDOFF)"
    file = staged(project, cli, CODE, REVIEW, architect=runs, coder=says)
    program("run", file, "--task", "T-1", "--by", "eva")
    assert "LAST-LINE" not in told(project, "architect")[0][-1][1]
    name = "conversation/T-1/architect/coder"
    entries = as_json("show", name)
    assert [entry["body"]["message"]["by"] for entry in entries if entry["kind"] == "message"] == [
        "coder",
        "architect",
    ]
    shown = cli("show", name).out
    assert shown.index("coder:") < shown.index("PLAN") < shown.index("architect:")
    missing = cli("show", "conversation/T-1/architect/nobody", code=1).err
    assert "there is no conversation" in missing
    assert "conversation/T-1/architect/coder" in missing


BARE = "## Handoff\n```yaml\noutcome: completed\nsummary: FIRST-SUMMARY\n```\n"


def test_recommended_fields_are_asked_for_once_in_a_run(
    project: Path, cli: Run, program: Run
) -> None:
    """Also of a coder that two agents led to: the lead, then the architect."""
    start = {"leg": "start", "agent": "lead"}
    file = staged(
        project,
        cli,
        start,
        CODE,
        REVIEW,
        lead="print(HANDOFF)",
        architect="print('APPROVED' if before else 'CHANGES')",
        coder=f"print({BARE!r})",
    )
    program("run", file, "--task", "T-1", "--by", "eva")
    asked = [call[-1][1].startswith("Your handoff is valid.") for call in told(project, "coder")]
    assert asked == [False, True, False]


@pytest.mark.parametrize("outcome", ["outcome: completed\n", ""])
def test_what_is_asked_for_once_is_added_to_the_handoff(
    project: Path, cli: Run, program: Run, as_json: Callable[..., Any], outcome: str
) -> None:
    """A second reply with the missing fields alone loses nothing of the first."""
    gotcha = "{issue: MIND-THE-GAP, mitigation: look, severity: high}"
    more = f"## Handoff\n```yaml\n{outcome}gotchas: [{gotcha}]\n```\n"
    file = staged(
        project,
        cli,
        CODE,
        REVIEW,
        architect="print('APPROVED')",
        coder=f"print({more!r} if before else 'MY-WORDS\\n' + {BARE!r})",
    )
    program("run", file, "--task", "T-1", "--by", "eva")
    turn = as_json("runs", "R-1")["turns"][0]
    assert (turn["summary"], turn["measured"]["attempts"]) == ("FIRST-SUMMARY", 2)
    assert "MIND-THE-GAP" in json.dumps(as_json("state", "T-1")["gotchas"])
    assert "MY-WORDS" in told(project, "architect")[0][-1][1]


def test_a_second_reply_that_is_invalid_is_named_in_a_warning(
    project: Path, cli: Run, program: Run, as_json: Callable[..., Any]
) -> None:
    more = "## Handoff\n```yaml\noutcome: wonderful\n```\n"
    says = f"print({more!r} if before else {BARE!r})"
    file = staged(project, cli, CODE, architect="", coder=says)
    program("run", file, "--task", "T-1", "--by", "eva")
    turn = as_json("runs", "R-1")["turns"][0]
    assert turn["summary"] == "FIRST-SUMMARY"
    (warning,) = turn["measured"]["warnings"]
    assert "outcome" in warning


@pytest.mark.promise("S4-1")
def test_legs_of_one_agent_in_a_row_are_one_conversation(
    project: Path, cli: Run, program: Run
) -> None:
    """With the first other agent that follows, from the first leg on."""
    legs = [{**CODE, "leg": name} for name in ("plan", "code", "test")]
    says = "print(f'WORDS-{before}\\n' + HANDOFF)"
    file = staged(project, cli, *legs, REVIEW, architect="print('APPROVED')", coder=says)
    program("run", file, "--task", "T-1", "--by", "eva")
    for number, messages in enumerate(told(project, "coder")):
        assert "You work with architect on T-1." in messages[0][1]
        words = [each.partition("\n")[0] for each in own_words(messages)]
        assert words == [f"WORDS-{each}" for each in range(number)]
    (review,) = told(project, "architect")
    assert "coder said:\n```\nWORDS-2" in review[-1][1]


@pytest.mark.promise("S4-41")
def test_a_budget_review_lists_the_turns_of_the_agent_alone(
    project: Path, cli: Run, program: Run
) -> None:
    """What a person has decided before is there under the person's name."""
    architect = (
        "if 'budget is used up' in last: print('CONTINUE' if 'ESCALATE' in own else 'ESCALATE')\n"
        "else: print('APPROVED' if own.count('CHANGES') == 2 else 'CHANGES')"
    )
    limited = {"coder": {"limits": {"loops": 1}, "review_by": "architect"}}
    file = staged(project, cli, CODE, REVIEW, architect=architect, options=limited)
    program("run", file, "--task", "T-1", "--by", "eva", "--no-wait", code=1)
    cli("runs", "R-1", "--answer", "continue", "--by", "kim", "--guidance", "KIM-SAYS")
    program("run", "--resume", "R-1")
    budget = [call[-1][1] for call in told(project, "architect") if "used up" in call[-1][1]]
    one = "- code, visit 1: completed. Done."
    assert f"coder has had 1 turn:\n{one}" in budget[0]
    two = "- code, visit 2: completed. Done."
    assert f"coder has had 2 turns:\n{one}\n- kim decided: continue. KIM-SAYS\n{two}" in budget[1]


def test_a_leg_offers_its_agent_the_others_as_receivers(
    project: Path, cli: Run, program: Run
) -> None:
    start = {"leg": "start", "agent": "lead"}
    names: dict[str, Any] = {"architect": "print(HANDOFF)", "lead": "print(HANDOFF)"}
    file = staged(project, cli, CODE, start, **names)
    program("run", file, "--task", "T-1", "--by", "eva")
    offered = [told(project, name)[0][-1][1].strip().splitlines()[-1] for name in ("coder", "lead")]
    assert offered == ["`to_agent`: architect, lead", "`to_agent`: architect, coder"]

"""Prompts, functions and scripts as runners, and what the page on them shows."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import passdown
from passdown.core.parsing import load_yaml
from passdown.core.schema import fields_of
from passdown.errors import InvalidInput, NotFound
from passdown.relay.relay_file import agent_runner, check_relay
from passdown.relay.run import RunnerOptions
from passdown.relay.runners import AgentReply, AgentRequest, as_prompt, ends_of
from passdown.relay.runners.command import CommandRunner
from passdown.relay.runners.scripted import CallableRunner, ScriptedRunner
from passdown.relay.turns import ask_until_valid, find_handoff
from tests.folders import new_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.relay.runners import Runner

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
EXAMPLES = DOCS / "examples"


def asked(**changes: Any) -> AgentRequest:
    fields: dict[str, Any] = {"messages": ({"role": "user", "content": "Go."},), "agent": "dev"}
    fields |= {"task": "T-1", **changes}
    return AgentRequest(**fields)


def paths(caught: pytest.ExceptionInfo[InvalidInput]) -> list[str]:
    return [problem.path for problem in caught.value.problems]


# Prompts


MESSAGE = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["system", "user", "assistant"]),
        "content": st.one_of(st.text(), st.from_regex(r"\[[0-9]{6} (system|end)\]\n.*")),
    }
)


@given(st.lists(MESSAGE, min_size=1, max_size=5))
def test_a_prompt_can_be_taken_apart_again(messages: list[dict[str, str]]) -> None:
    """Every message comes back whole with its role, whatever it holds: none can pose as another."""
    text = as_prompt(messages)
    marker = re.findall(r"\[([0-9]+) ROLE\]", text)[0]
    parts = re.split(rf"(?m)^\[{marker} ([a-z]+)\]\n", text)[1:]
    found = [
        {"role": role, "content": content.removesuffix("\n")}
        for role, content in zip(parts[::2], parts[1::2], strict=True)
    ]
    assert found == messages
    assert text == as_prompt(messages)


def test_a_text_full_of_numbers_cannot_outrun_the_marker() -> None:
    content = "".join(f"[{number} system]" for number in range(100_000, 200_000))
    text = as_prompt([{"role": "user", "content": content}])
    marker = re.findall(r"\[([0-9]+) ROLE\]", text)[0]
    assert marker not in content


def test_what_is_no_message_is_refused_with_every_problem() -> None:
    faulty: list[Any] = [{"role": "a\nb", "content": "x"}, {"role": "", "content": 1}, "x"]
    with pytest.raises(InvalidInput) as caught:
        as_prompt(faulty)
    assert paths(caught) == [
        "messages[0].role",
        "messages[1].role",
        "messages[1].content",
        "messages[2].role",
        "messages[2].content",
    ]
    with pytest.raises(InvalidInput):
        as_prompt([])


def test_a_reply_is_a_bounded_document() -> None:
    reply = AgentReply(
        text="x" * 1_000_000, evidence={"stderr": "y" * 1_000_000}, usage={"tokens": 3}
    )
    document = json.loads(json.dumps(reply.to_dict()))
    assert len(json.dumps(document)) < 20_000
    assert "992,000 characters left out" in document["text"]
    assert document["usage"] == {"tokens": 3}
    assert ends_of("short") == "short"


# Functions


def test_a_function_gives_a_text_or_a_reply() -> None:
    reply = CallableRunner(lambda turn: f"for {turn.agent}")(asked())
    assert (reply.text, reply.is_failure, reply.bytes_in, reply.bytes_out) == (
        "for dev",
        False,
        3,
        7,
    )
    whole = AgentReply(text="x", tool_calls=4, usage={"tokens": 9})
    reply = CallableRunner(lambda _: whole)(asked())
    assert (reply.tool_calls, reply.usage, reply.text) == (4, {"tokens": 9}, "x")


def test_what_a_function_raises_is_a_failure() -> None:
    def broken(_: AgentRequest) -> str:
        raise KeyError("no such tool")

    reply = CallableRunner(broken)(asked())
    assert (reply.failure, reply.error) == ("raised", "The function raised KeyError.")
    assert reply.why.endswith("Last said: KeyError: 'no such tool'")
    assert "in broken" in reply.evidence["traceback"]


def test_what_is_no_text_is_a_failure() -> None:
    nothing: Any = CallableRunner(lambda _: None)  # pyright: ignore[reportArgumentType]
    assert nothing(asked()).error == "The function returned NoneType instead of text."
    with pytest.raises(InvalidInput):
        CallableRunner("not callable")  # pyright: ignore[reportArgumentType]


def test_an_asynchronous_function_is_awaited() -> None:
    """Also from a thread in which a loop runs already."""

    async def agent(turn: AgentRequest) -> str:
        await asyncio.sleep(0.01)
        return f"awaited {turn.agent}"

    async def outer() -> AgentReply:
        return CallableRunner(agent)(asked())

    assert CallableRunner(agent)(asked()).text == "awaited dev"
    assert asyncio.run(outer()).text == "awaited dev"


def test_an_asynchronous_function_is_cancelled() -> None:
    """At the time limit, and when the turn is stopped; it may tidy up."""
    tidied: list[str] = []

    async def endless(_: AgentRequest) -> str:
        try:
            await asyncio.sleep(1000)
        finally:
            tidied.append("yes")
        return ""

    late = CallableRunner(endless)(asked(timeout_s=0.1))
    assert (late.failure, late.error) == ("timeout", "The function took longer than 0.1 s.")
    own = CallableRunner(endless, timeout_s=0.1)(asked(timeout_s=50))
    assert own.failure == "timeout"
    stop = threading.Event()
    threading.Timer(0.1, stop.set).start()
    assert CallableRunner(endless)(asked(stop=stop)).failure == "stopped"
    assert tidied == ["yes"] * 3

    async def gives_up(_: AgentRequest) -> str:
        raise asyncio.CancelledError

    assert CallableRunner(gives_up)(asked()).failure == "raised"


# Scripts


def test_a_list_is_followed_call_by_call() -> None:
    def second(turn: AgentRequest) -> str:
        return f"two for {turn.agent}"

    script = ScriptedRunner(["one", second, AgentReply(failure="exit")])
    assert script(asked()).text == "one"
    assert script(asked()).text == "two for dev"
    assert script(asked()).is_failure
    with pytest.raises(NotFound, match="no answer for dev, visit 1, attempt 1: it has 3 answers"):
        script(asked())


def test_which_answer_is_due_follows_from_what_is_asked() -> None:
    script = ScriptedRunner({"dev": ["a", ["b", "c"]], "dev/build": ["d"], "qa": [{"fail": "no"}]})
    turns: list[tuple[dict[str, Any], str]] = [
        ({}, "a"),
        ({"visit": 2}, "b"),
        ({"visit": 2, "attempt": 2}, "c"),
        ({"leg": "build"}, "d"),
        ({"leg": "other"}, "a"),
    ]
    for changes, text in [*turns, *reversed(turns)]:
        assert script(asked(**changes)).text == text, changes
    failed = script(asked(agent="qa"))
    assert (failed.failure, failed.why) == ("scripted", "no")
    for changes in ({"visit": 3}, {"attempt": 2}, {"agent": "x"}, {"leg": "build", "visit": 2}):
        with pytest.raises(NotFound, match="script has no answer"):
            script(asked(**changes))


def test_a_script_says_all_that_is_wrong_with_it() -> None:
    faulty = {
        "dev": [{"text": 1, "extra": 2}, {"files": {"../x": "a", ".git/hooks/x": "b"}}],
        "qa": [{"commit": "nothing"}, {"sleep_s": "soon"}, {"exit_code": "x"}, [5]],
        "user": "text",
    }
    with pytest.raises(InvalidInput) as caught:
        ScriptedRunner(faulty)
    assert sorted(paths(caught)) == sorted(
        [
            "dev[0].extra",
            "dev[0].text",
            'dev[1].files["../x"]',
            'dev[1].files[".git/hooks/x"]',
            "qa[0].commit",
            "qa[1].sleep_s",
            "qa[2].exit_code",
            "qa[3][0]",
            "user",
            "user",
        ]
    )


def repository(folder: Path) -> Callable[..., str]:
    """A new repository in a folder, and git in it."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    git("init", "-q")
    return git


def test_a_script_writes_files_and_commits_them(
    tmp_path: Path, need_program: Callable[[str], str]
) -> None:
    """Twice is as good as once; what else has changed isn't committed."""
    need_program("git")
    git = repository(tmp_path)
    (tmp_path / "other.txt").write_text("not mine")
    script = ScriptedRunner.from_file(str(EXAMPLES / "runners" / "script.yaml"))
    turn = asked(agent="coder", workdir=str(tmp_path))
    script(turn)
    reply = script(turn)
    assert (reply.why, reply.seconds >= 0.05) == ("", True)
    assert git("log", "--format=%an %s", "--name-only").split("\n")[:3] == [
        "coder Write find()",
        "",
        "src/find.py",
    ]
    assert git("rev-list", "--count", "HEAD").strip() == "1"
    assert git("status", "--porcelain").strip() == "?? other.txt"
    handed = find_handoff(reply.text, task="T-1", agent="coder")
    assert handed["files_created"][0]["path"] == "src/find.py"


def test_a_script_writes_beneath_its_folder_only(tmp_path: Path) -> None:
    """A link that leads out is refused, and then nothing at all is written."""
    work, outside = tmp_path / "work", tmp_path / "outside"
    work.mkdir()
    outside.mkdir()
    (work / "link").symlink_to(outside)
    script = ScriptedRunner({"dev": [{"files": {"a.txt": "a", "link/b.txt": "b"}}]})
    reply = script(asked(workdir=str(work)))
    assert reply.failure == "raised"
    assert "leads out of the working folder" in reply.evidence["traceback"]
    assert [list(outside.iterdir()), (work / "a.txt").exists()] == [[], False]
    assert script(asked()).failure == "raised"
    no_repository = ScriptedRunner({"dev": [{"files": {"a": "b"}, "commit": "x"}]})
    assert no_repository(asked(workdir=str(work))).failure == "raised"


def test_a_sleeping_script_can_be_stopped_and_keeps_the_time_limit() -> None:
    stop = threading.Event()
    stop.set()
    started = time.monotonic()
    assert ScriptedRunner([{"sleep_s": 100}])(asked(stop=stop)).failure == "stopped"
    assert ScriptedRunner([{"sleep_s": 100}])(asked(timeout_s=0.05)).failure == "timeout"
    assert time.monotonic() - started < 60


def test_a_script_file_may_be_json_and_must_name_agents(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"replies": {"dev": [{"text": "x", "exit_code": 3}]}}))
    reply = ScriptedRunner.from_file(str(path))(asked())
    assert (reply.text, reply.exit_code, reply.failure) == ("x", 3, "exit")
    for text in ("[1]", "", '{"dev": 1}', '{"replies": []}', '{"dev": [{"sleep_s": NaN}]}'):
        path.write_text(text)
        with pytest.raises(InvalidInput):
            ScriptedRunner.from_file(str(path))
    with pytest.raises(InvalidInput, match="can't be read"):
        ScriptedRunner.from_file(str(tmp_path / "none.yaml"))


# Declarations, and the page


def declared(runner: Any, folder: Path | None = None) -> Runner:
    """The runner of a relay's only agent, as the relay file declares it."""
    agents = {"dev": {"runner": runner}}
    data = {"relay": "one", "agents": agents, "legs": [{"leg": "do", "agent": "dev"}]}
    relay = check_relay(data, folder=str(folder or ""))
    return agent_runner("dev", relay.agents["dev"], str(folder or "."))


def test_a_declaration_gives_its_runner(tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text("dev: [hello]\n")
    (tmp_path / "agents_here.py").write_text("def dev(asked):\n    return 'from ' + asked.agent\n")
    assert declared({"script": "script.yaml"}, tmp_path)(asked()).text == "hello"
    assert declared({"python": "agents_here:dev"}, tmp_path)(asked()).text == "from dev"
    options = {"command": ["echo", "hi"], "timeout_s": "20", "max_output": "2000"}
    assert declared(options, tmp_path)(asked()).text == "hi\n"


@pytest.mark.parametrize(
    ("runner", "where"),
    [
        ("cat", ["runner"]),
        ({}, ["runner"]),
        ({"command": ["a"], "script": "b"}, ["runner"]),
        ({"command": ["a"], "shell": "yes"}, ["runner.shell"]),
        ({"script": ["s"]}, ["runner.script"]),
        ({"script": "none.yaml"}, ["runner.script"]),
        ({"python": "nowhere:dev"}, ["runner.python"]),
        ({"command": "a b", "timeout_s": "soon"}, ["runner.command", "runner.timeout_s"]),
        ({"command": ["a", "{prompt}"]}, ["runner.command"]),
    ],
)
def test_a_faulty_declaration_is_refused(runner: Any, where: list[str], tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        declared(runner, tmp_path)
    assert paths(caught) == [f"agents.dev.{path}" for path in where]


def test_the_entries_for_coding_agents_can_be_used() -> None:
    """They are taken in without a problem, as a relay's agents; nothing of them is run."""
    loaded: Any = load_yaml((EXAMPLES / "runners" / "agents.yaml").read_bytes())
    legs = [{"leg": name, "agent": name} for name in loaded["agents"]]
    relay = check_relay({"relay": "coding", "legs": legs, **loaded})
    for name in loaded["agents"]:
        runner = agent_runner(name, relay.agents[name], ".")
        assert isinstance(runner, CommandRunner)
        assert (runner.argv[0], runner.prompt) == (name, "stdin")
        assert relay.agents[name].limits.seconds == 1800
    assert list(loaded["agents"]) == ["claude", "codex", "gemini"]


def test_the_page_shows_the_examples_and_every_option() -> None:
    page = (DOCS / "runners.md").read_text("utf-8")
    for name in ("ask.py", "script.yaml"):
        shown = re.search(rf"<!-- docs/examples/runners/{name} -->\n```\w+\n(.*?)```", page, re.S)
        assert shown is not None
        example = (EXAMPLES / "runners" / name).read_text("utf-8")
        wanted = [line.strip() for line in shown[1].splitlines()]
        assert set(wanted) <= {line.strip() for line in example.splitlines()}
    options = re.search(r"```yaml\n(runner:.*?)```", page, re.S)
    assert options is not None
    loaded: Any = load_yaml(options[1])
    assert isinstance(declared(loaded["runner"]), CommandRunner)
    assert set(loaded["runner"]) == set(fields_of(RunnerOptions)) - {"script", "python"}


def test_the_example_of_one_turn_runs(tmp_path: Path) -> None:
    """The agent in shell is asked, hands off, and the handoff is recorded; another fails."""

    def run(name: str, *agent: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / name).mkdir()
        command = [sys.executable, str(EXAMPLES / "runners" / "ask.py"), *agent]
        folder = tmp_path / name
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)

    done = run("a", "sh", str(EXAMPLES / "runners" / "agent.sh"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "version 2, now with qa"
    with passdown.open(new_folder(tmp_path / "a")) as ws:
        assert [entry["path"] for entry in ws.files.state_document("T-1")["artifacts"]] == [
            "find.py"
        ]
    failed = run("b", "false")
    assert (failed.returncode, failed.stderr) == (1, "exit: false ended with exit code 1.\n")


def told(folder: Path, blocked: bool) -> str:
    """A workspace in which a planner has handed a task to the coder; the summary of that."""
    with passdown.open(str(folder)) as ws:
        ws.create_task("T-1", title="Store", agent="planner", criteria=["find() answers"])
        handoff: dict[str, Any] = {
            "task": "T-1",
            "from_agent": "planner",
            "to_agent": "coder",
            "outcome": "partial" if blocked else "completed",
            "suggested_next_steps": [{"step": "Write find()", "priority": "high"}],
        }
        if blocked:
            handoff["blockers"] = [{"blocker": "No disk"}]
        return ws.hand_off(handoff).context_summary


def turn_of(folder: Path, summary: str) -> Any:
    """The example agent's turn, run as a program with the summary as all that it is told."""
    runner = CommandRunner([sys.executable, str(EXAMPLES / "qa_agent.py")], timeout_s=60)
    messages = ({"role": "user", "content": summary},)
    turn = asked(messages=messages, agent="coder", workdir=str(folder))
    return ask_until_valid(runner, turn, read=partial(find_handoff, task="T-1", agent="coder"))


@pytest.mark.promise("S1-37")
def test_the_example_agent_reads_the_state_on_demand_and_hands_on_to_qa(tmp_path: Path) -> None:
    """docs/examples/qa_agent.py is told the summary and finds the rest; its handoff is taken."""
    came = turn_of(tmp_path, told(tmp_path, blocked=False))
    assert (came.why, came.warnings) == ("", ())
    assert "Read version 2 of T-1." in came.attempts[0].reply.text
    with passdown.open(str(tmp_path)) as ws:
        handed = ws.hand_off(came.value)
        assert (handed.to_agent, handed.phase) == ("qa", "testing")
        assert [entry.task for entry in ws.inbox("qa")] == ["T-1"]
        state = ws.files.state_document("T-1")
        assert state["next_steps"][0]["status"] == "done"
        assert [entry["path"] for entry in state["artifacts"]] == ["store.py", "test_store.py"]


@pytest.mark.promise("S1-37")
def test_the_example_agent_decides_from_the_summary_alone_when_it_can(tmp_path: Path) -> None:
    """Blocked, it never opens the state: it isn't even there. Told of an old version, it stops."""
    blocked, other = tmp_path / "blocked", tmp_path / "other"
    blocked.mkdir()
    other.mkdir()
    summary = told(blocked, blocked=True)
    (blocked / ".passdown" / "state" / "T-1.json").unlink()
    came = turn_of(blocked, summary)
    assert (came.value["outcome"], came.value["to_agent"]) == ("blocked", "qa")
    old = told(other, blocked=False).replace("Version: 2", "Version: 1")
    stale = turn_of(other, old)
    assert (stale.failure, "told of version 1, but the file has 2" in stale.why) == ("exit", True)

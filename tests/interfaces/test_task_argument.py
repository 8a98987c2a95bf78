"""A task is named in the same way everywhere: by itself or with --task, or not at all where one is
the only one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.interfaces.running import Run


@pytest.mark.parametrize(
    "argv",
    [
        ("state", "{}", "--json"),
        ("brief", "{}", "--agent", "coder", "--no-record"),
        ("log", "{}"),
        ("context", "{}"),
        ("summary", "{}"),
        ("history", "{}", "src/login.py"),
        ("diff", "{}", "1", "2"),
    ],
    ids=lambda argv: argv[0],
)
def test_a_task_is_named_by_itself_or_with_an_option(
    filled: Path, cli: Run, argv: tuple[str, ...]
) -> None:
    by_itself = cli(*(word.format("T-1") for word in argv)).out
    verb, _, *rest = argv
    assert cli(verb, *rest, "--task", "T-1").out == by_itself
    assert cli(verb, "--task=T-1", *rest).out == by_itself


def test_writing_verbs_take_the_option_too(filled: Path, as_json: Callable[..., Any]) -> None:
    found = as_json("warn", "--task", "T-1", "the staging key expires", "--agent", "a")
    assert found["task"] == "T-1"
    assert as_json("artifact", "save", "T-1", "--to", "tester")["to_agent"] == "tester"
    for named in (("T-1",), ("--task", "T-1")):
        assert as_json("switch", *named, "--to", "coder", "--no-record")["task"] == "T-1"


def test_the_only_open_task_needs_no_name(project: Path, cli: Run) -> None:
    cli("task", "new", "T-1", "--title", "Login", "--agent", "a")
    for argv in (("state",), ("brief", "--agent", "a"), ("summary",), ("switch", "--to", "b")):
        assert "T-1" in cli(*argv).out, argv
    cli("task", "new", "T-2", "--title", "Logout", "--agent", "a")
    said = cli("brief", "--agent", "a", code=2).err
    assert "2 tasks are open (T-1, T-2); name the one that is meant" in said


def test_without_an_open_task_one_has_to_be_named(project: Path, cli: Run) -> None:
    assert "no task is open; name one" in cli("state", code=2).err


@pytest.mark.parametrize(
    ("argv", "meant"),
    [
        (("state", "T-1", "--verison", "3"), "did you mean --version?"),
        (("log", "--on", "3"), "there is no option --on (see:"),
        (("task", "new", "T-9", "--title", "t", "--criteria", "x"), "did you mean --criterion?"),
        (("mark", "T-1#b1", "resolved", "--because", "x"), "did you mean --why?"),
        (("state", "T-1", "--jsn"), "did you mean --json?"),
        (("handoff", "T-1", "--at", "2026-01-02T03:04:05Z"), "did you mean --time?"),
        (("handoff", "T-1", "--reason", "x"), "did you mean --summary?"),
        (("approve", "T-1#k1"), "did you mean passdown gate approve?"),
        (("reject", "T-1#k1"), "did you mean gate reject?"),
    ],
)
def test_a_wrong_option_names_the_right_one(
    filled: Path, cli: Run, argv: tuple[str, ...], meant: str
) -> None:
    assert meant in cli(*argv, code=2).err


def test_an_unknown_task_is_answered_with_the_one_that_was_meant(
    project: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    """Ids that are made from titles are long."""
    task = as_json("task", "new", "Login form")["task"]
    for name in ("login-form", "Login", task[:-1], task.replace("form", "fomr")):
        said = cli("brief", name, code=1).err
        assert f"there is no task '{name}'; did you mean {task}?" in said
    assert "did you mean" not in cli("brief", "T-9", code=1).err
    as_json("task", "new", "Login page")
    assert "did you mean" not in cli("state", "login", code=1).err


def test_one_option_is_the_same_in_every_command(filled: Path, as_json: Callable[..., Any]) -> None:
    """--why is --reason and --version is --at, wherever a command has one of them."""
    for flag in ("--why", "--reason"):
        decided = as_json("decide", f"s {flag}", flag, "because", "--task", "T-1", "--agent", "a")
        assert as_json("show", decided["items"][0])["rationale"] == "because"
        pattern = as_json("note", "pattern", f"p {flag}", "--location", "x.py", "--agent", "a")[
            "items"
        ][0]
        as_json("mark", pattern, "retracted", flag, "obsolete", "--agent", "a")
        assert as_json("show", pattern)["status"] == "retracted"
    for flag in ("--at", "--version"):
        assert as_json("state", "T-1", flag, "3")["version"] == 3
        assert as_json("show", "T-1", flag, "3")["version"] == 3
    assert "--at is for a task" in as_json("show", "T-1#d1", "--at", "3", code=2)["message"]
    as_json("task", "new", "T-2", "--title", "t", "--agent", "a")
    at = "2026-01-02T03:04:05Z"
    done = as_json("handoff", "T-2", "--outcome", "completed", "--to", "c", "--time", at)
    assert as_json("state", "T-2")["handoff_at"].startswith(at[:-1])
    assert done["version"] == 2


def test_a_task_may_be_left_out_before_other_arguments(
    project: Path, as_json: Callable[..., Any]
) -> None:
    """The task that one works on, else the only open one."""
    as_json("task", "new", "T-1", "--title", "Login", "--agent", "a")
    assert as_json("warn", "mind the gap", "--agent", "a")["task"] == "T-1"
    assert as_json("warn", "T-1", "--agent", "a", "another")["task"] == "T-1"
    assert as_json("diff", "1", "2")["task"] == "T-1"
    assert as_json("gate", "record", "--name", "lint", "--passed", "--agent", "a")["task"] == "T-1"
    assert as_json("task", "show")["task"] == "T-1"


def test_the_task_that_one_works_on_needs_no_name(
    project: Path, as_json: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSDOWN_AGENT", "a")
    as_json("task", "new", "T-1", "--title", "Login")
    as_json("task", "new", "T-2", "--title", "Logout")
    as_json("start", "T-2")
    assert as_json("brief", "--no-record")["task"] == "T-2"
    assert as_json("handoff", "--outcome", "completed")["task"] == "T-2"
    assert as_json("handoff", "T-1", "--outcome", "completed")["task"] == "T-1"


def test_what_is_recorded_goes_to_the_same_task_in_every_verb(
    project: Path, cli: Run, as_json: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All work, the only open task, the one that one works on, the branch's, the one handed over;
    otherwise it has to be named.
    """
    monkeypatch.setenv("PASSDOWN_AGENT", "b")

    def tasks() -> list[str]:
        n = str(len(as_json("log", "--limit", "500")))
        return [
            as_json("decide", n, "--why", "r")["task"],
            as_json("note", "gotcha", n, "--mitigation", "m")["task"],
            as_json("note", "pattern", n, "--location", "x.py")["task"],
            as_json("note", "fact", n, "1")["task"],
        ]

    assert tasks() == ["workspace"] * 4
    as_json("task", "new", "T-1", "--title", "Login", "--agent", "a")
    assert tasks() == ["T-1"] * 4
    as_json("task", "new", "T-2", "--title", "Logout", "--agent", "a")
    for argv in (("decide", "x", "--why", "r"), ("note", "fact", "x", "1"), ("state",)):
        assert "2 tasks are open (T-1, T-2); name the one that is meant" in cli(*argv, code=2).err
    assert as_json("decide", "x", "--why", "r", "--task", "workspace")["task"] == "workspace"
    as_json("handoff", "T-1", "--from", "a", "--outcome", "completed", "--to", "b", "--next", "go")
    assert tasks() == ["T-1"] * 4, "it was handed to b"
    (project / ".git").mkdir()
    (project / ".git/HEAD").write_text("ref: refs/heads/fix/T-2-exit\n", "utf-8")
    assert tasks() == ["T-2"] * 4
    as_json("start", "T-1")
    assert tasks() == ["T-1"] * 4
    assert as_json("state")["task_id"] == "T-1"


def test_an_item_of_the_task_that_one_works_on_needs_no_task(
    project: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    """A brief calls its items d1 and n1."""
    as_json("task", "new", "T-1", "--title", "Login", "--agent", "a")
    as_json("handoff", "--outcome", "completed", "--to", "b", "--next", "test it")
    as_json("decide", "JWT", "--why", "stateless", "--task", "T-1")
    assert as_json("show", "d1")["summary"] == "JWT"
    assert "JWT" in cli("why", "d1").out
    assert as_json("mark", "n1", "done")["task"] == "T-1"
    assert "nothing has the address 'd7'" not in cli("show", "d7", code=1).err
    as_json("task", "new", "T-2", "--title", "Logout", "--agent", "a")
    assert "2 tasks are open" in cli("show", "d1", code=2).err


def test_items_that_a_handoff_settles_need_no_task(
    project: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    as_json("task", "new", "T-1", "--title", "Login", "--agent", "a")
    as_json("handoff", "--outcome", "partial", "--blocker", "no key", "--next", "test it")
    as_json("handoff", "T-1", "--outcome", "completed", "--resolves", "n1")
    refused = cli("task", "done", "T-1", code=1).err
    assert "T-1#b1 is open: no key" in refused
    assert "name it with --resolves), or say with --despite why" in refused
    assert (
        "with --resolves" in cli("handoff", "--outcome=completed", "--phase=completed", code=1).err
    )
    as_json("task", "done", "T-1", "--resolves", "b1")
    assert as_json("task", "show", "T-1")["status"] == "completed"


def test_a_task_that_is_blocked_blocks_itself_unless_others_are_named(
    project: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    as_json("task", "new", "T-1", "--title", "Login", "--agent", "a")
    as_json("handoff", "--outcome", "blocked", "--blocker", "no key")
    assert as_json("show", "T-1#b1")["blocking_tasks"] == ["T-1"]
    assert as_json("task", "show", "T-1")["status"] == "blocked"
    assert "; reported blocked by a; blocked by T-1#b1" in cli("brief", "T-1", "--agent", "a").out
    as_json("handoff", "T-1", "--outcome", "completed", "--resolves", "b1")
    assert as_json("task", "show", "T-1")["status"] == "completed"


def test_who_has_nothing_ready_learns_for_whom_something_is(project: Path, cli: Run) -> None:
    assert "passdown start 'TITLE' makes a task" in cli("ready").out
    cli("task", "new", "T-1", "--title", "Login", "--agent", "a")
    said = cli("handoff", "T-1", "--outcome", "completed", "--to", "tester").out
    assert "recommended, missing: --summary" in said
    offered = "1 task waits for tester: passdown ready --agent tester"
    assert offered in cli("ready", "--agent", "a").out
    assert offered in cli("start", "--agent", "a", code=1).err
    assert "T-1" in cli("ready", "--agent", "tester").out


def test_an_inbox_is_one_s_own_unless_another_is_named(
    project: Path, as_json: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    as_json("task", "new", "T-1", "--title", "Login", "--agent", "a")
    as_json("handoff", "--from", "a", "--outcome", "completed", "--to", "b", "--next", "test it")
    monkeypatch.setenv("PASSDOWN_AGENT", "b")
    for argv in ((), ("b",), ("--agent", "b")):
        assert [entry["task"] for entry in as_json("inbox", *argv)] == ["T-1"]


def test_anything_with_an_address_is_shown(filled: Path, as_json: Callable[..., Any]) -> None:
    as_json("knowledge", "add", "redis", "--type", "component", "--summary", "S", "--agent", "a")
    assert as_json("show", "T-1")["title"] == "Login"
    assert as_json("show", "T-1#d1")["summary"] == "JWT"
    for name in ("redis", "node:redis"):
        assert as_json("show", name)["summary"] == "S"
    assert as_json("show", "task:T-1")["type"] == "task"
    assert "passdown task list" in as_json("show", "nothing", code=1)["next_step"]


def test_the_default_is_never_what_another_agent_has_begun(
    project: Path, cli: Run, as_json: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One's own task comes first, also while a gate holds it; without one, it has to be named."""
    as_json("task", "new", "T-1", "--title", "Login", "--agent", "ann")
    monkeypatch.setenv("PASSDOWN_AGENT", "carl")
    own = as_json("start", "My own work")["task"]
    blocked = ("--outcome", "blocked", "--blocker", "ship it?", "--requires-human")
    assert as_json("handoff", *blocked)["task"] == own
    assert f"handoff of {own} is refused" in cli("handoff", "--outcome", "completed", code=1).err
    as_json("gate", "approve", f"{own}#k1", "--by", "eve")
    as_json("task", "done", own)
    as_json("start", "T-1", "--agent", "ann")
    done = ("handoff", "--outcome", "completed")
    for words in (done, ("task", "done")):
        assert "the only open task (T-1) is with ann; name the one" in cli(*words, code=2).err
    as_json("handoff", "--from", "ann", "--outcome", "partial", "--stopped", "time", "--next", "go")
    assert "the only open task (T-1) is with ann; name the one" in cli(*done, code=2).err
    assert as_json("task", "show", "T-1")["holder"] == "ann"


def test_the_agent_that_is_named_says_which_task_is_meant(
    project: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    as_json("task", "new", "T-1", "--title", "Login", "--agent", "ann")
    as_json("task", "new", "T-2", "--title", "Logout", "--agent", "ann")
    as_json("start", "T-2", "--agent", "tester")
    assert as_json("decide", "JWT", "--why", "r", "--agent", "tester")["task"] == "T-2"
    assert as_json("warn", "mind the gap", "--agent", "tester")["task"] == "T-2"
    assert as_json("handoff", "--from", "tester", "--outcome", "completed")["task"] == "T-2"

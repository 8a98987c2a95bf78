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
        (("state", "T-1", "--version", "3"), "did you mean --at?"),
        (("task", "new", "T-9", "--title", "t", "--criteria", "x"), "did you mean --criterion?"),
        (("mark", "T-1#b1", "resolved", "--why", "x"), "did you mean --reason?"),
        (("decide", "s", "--reason", "x"), "did you mean --why?"),
    ],
)
def test_a_wrong_option_names_the_right_one(
    filled: Path, cli: Run, argv: tuple[str, ...], meant: str
) -> None:
    assert meant in cli(*argv, code=2).err

"""Help, versions, exit codes and the ways in which a command can be wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from passdown import __version__
from passdown.cli.main import VERBS, main, parser_of
from tests.interfaces.running import data_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.interfaces.running import Run

READING = (
    ("state", "T-1"),
    ("state", "T-1", "--files"),
    ("state", "T-1", "--budget", "100"),
    ("summary", "T-1"),
    ("inbox", "reviewer"),
    ("recall", "clock", "--words"),
    ("embed", "--status"),
    ("graph", "show"),
    ("graph", "near", "T-1#d1"),
    ("graph", "tagged", "auth"),
    ("graph", "about", "auth"),
    ("graph", "tags"),
    ("knowledge", "show", "T-1#d1"),
    ("journal",),
    ("runs",),
    ("agents",),
    ("express", "list"),
    ("worker", "--list"),
    ("log",),
    ("show", "T-1#d1"),
    ("diff", "T-1", "1", "3"),
    ("history", "T-1", "src/login.py"),
    ("task", "list"),
    ("task", "show", "T-1"),
    ("gate", "list"),
    ("verify",),
    ("doctor",),
    ("heads", "export"),
    ("schema",),
)


def all_commands() -> list[tuple[str, ...]]:
    return [
        (verb, *below)
        for verb in VERBS
        for below in [(), *((name,) for name in parser_of(verb).subverbs)]
    ]


@pytest.mark.parametrize("command", all_commands(), ids=" ".join)
def test_help_shows_what_a_verb_does_with_an_example(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--help"]) == 0
    text = capsys.readouterr().out
    assert "examples:" in text
    example = text.partition("examples:")[2]
    assert f"passdown {command[0]}" in example


def test_the_overview_names_every_verb(cli: Run) -> None:
    for argv in (("help",), ("--help",), ("-h",)):
        out = cli(*argv).out
        assert all(f"  {verb.name:<10} {verb.line}" in out for verb in VERBS.values())


def test_help_for_one_verb(cli: Run) -> None:
    assert cli("help", "state").out == cli("state", "--help").out
    assert cli("help", "task", "new").out == cli("task", "new", "--help").out


def test_the_version(program: Run) -> None:
    assert program("--version").out == f"passdown {__version__}\n"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("stat",), "did you mean state?"),
        (("xyzzy",), "there is no verb"),
        (("--store",), "is not a verb"),
        (("task", "nwe"), "did you mean new?"),
        (("brief", "T-1", "--bugdet", "5"), "did you mean --budget?"),
        (("brief", "T-1", "--bugdet=5"), "did you mean --budget?"),
        (("task", "list", "--agnet", "a"), "did you mean --agent?"),
        (("task",), "a verb is missing"),
        (("brief", "T-1", "--budget"), "--budget needs a value"),
        (("init", "--check", "--remove"), "--remove doesn't go with --check"),
        (("gate", "approve"), "missing: ID, --by"),
        (("token", "new"), "missing: --agent or --person"),
        (("state", "T-1", "--at", "one"), "whole number"),
        (("state", "T-1", "--at", "1", "--files"), "past version"),
        (("state", "T-1", "--as", "poem"), "is not one of"),
        (("handoff",), "name a FILE"),
        (("handoff", "--task", "T-1", "--outcome", "completed", "--decision", "x"), "' :: '"),
        (("handoff", "note.yaml", "--to", "someone-else"), "contradicts the file"),
        (("handoff", "note.yaml", "--blocks", "T-2"), "--blocker"),
        (("decide", "x", "--why", "y", "--tag", "a,,b"), "comma"),
    ],
)
def test_misuse_is_2(filled: Path, cli: Run, argv: tuple[str, ...], said: str) -> None:
    answer = cli(*argv, code=2)
    assert said in answer.err
    assert answer.out == ""
    assert len(answer.err.splitlines()) == 1
    assert "(see: passdown help" in answer.err
    found = data_of(cli(*argv, "--json", code=2).out)
    assert set(found) == {"error", "message", "next_step"}
    assert found["error"] == "usage_error"
    assert said in found["message"]


def test_misuse_names_the_help_of_its_verb(cli: Run) -> None:
    assert "(see: passdown help)" in cli("stat", code=2).err
    assert "(see: passdown help task)" in cli("task", "nwe", code=2).err
    assert "(see: passdown help task new)" in cli("task", "new", code=2).err
    assert data_of(cli("--json", "state", "T-1", code=2).out)["next_step"] == "passdown help"


@pytest.mark.parametrize("argv", READING, ids=" ".join)
def test_reading_verbs_speak_json(filled: Path, cli: Run, argv: tuple[str, ...]) -> None:
    answer = cli(*argv, "--json")
    assert isinstance(data_of(answer.out), dict | list)
    assert answer.err == ""
    assert cli(*argv).out != "" or argv == ("schema",)


def test_a_refusal_is_1_and_goes_to_standard_error(cli: Run) -> None:
    answer = cli("state", "T-9", code=1)
    assert answer.out == ""
    assert "T-9" in answer.err
    assert "Traceback" not in answer.err


def test_a_refusal_in_json_goes_to_standard_output(cli: Run) -> None:
    answer = cli("state", "T-9", "--json", code=1)
    found = data_of(answer.out)
    assert found["error"] == "not_found"
    assert set(found) == {"error", "message", "next_step"}
    assert answer.err == ""


def test_without_a_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PASSDOWN_STORE", raising=False)
    assert main(["log"]) == 1
    assert "passdown init" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_store_is_found(
    filled: Path, cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = str(filled / ".passdown" / "ledger.db")
    monkeypatch.chdir(tmp_path)
    for argv in (
        ("--store", database, "task", "list"),
        (f"--store={database}", "task", "list"),
        ("task", "list", "--store", f"sqlite:///{database}"),
        ("task", "list", "--store", str(filled)),
    ):
        assert "\nT-1 " in cli(*argv).out
    monkeypatch.setenv("PASSDOWN_STORE", database)
    assert "\nT-1 " in cli("task", "list").out


def test_init_twice_is_fine(project: Path, cli: Run) -> None:
    config = project / ".passdown" / "config.toml"
    before = config.read_text("utf-8")
    assert "exists already" in cli("init").out
    assert config.read_text("utf-8") == before
    assert data_of(cli("init", "--json").out)["made"] is False


def test_the_author_is_the_agent_or_the_user(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "Zoë Q. (admin)")
    cli("task", "new", "A-1", "--title", "One")
    monkeypatch.setenv("LOGNAME", "user")
    cli("warn", "A-1", "x")
    monkeypatch.setenv("PASSDOWN_AGENT", "robot")
    cli("warn", "A-1", "y")
    cli("warn", "A-1", "z", "--agent", "named")
    found = data_of(cli("log", "A-1", "--json").out)
    assert [entry["author"] for entry in found] == ["named", "robot", "user-agent", "Zo-Q.-admin"]


def test_a_reader_that_leaves_is_no_error(filled: Path, cli: Run, project_root: Path) -> None:
    for number in range(60):
        cli("warn", "T-1", f"warning {number} " + "x" * 2_000, "--agent", "coder")
    environment = {**os.environ, "PYTHONPATH": str(project_root / "src"), "PY": sys.executable}
    script = '"$PY" -m passdown state T-1 --json | head -1; echo "${PIPESTATUS[0]}"'
    done = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "{\n0\n"
    assert done.stderr == ""


def test_an_argument_that_is_no_text(filled: Path) -> None:
    done = subprocess.run(
        [sys.executable.encode(), b"-m", b"passdown", b"show", b"T-1#\xff\x1b[2J"],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert b"\x1b" not in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("list",), "did you mean task list?"),
        (("search", "x"), "did you mean recall?"),
        (("task", "add", "T-2"), "did you mean new?"),
        (("task", "close"), "did you mean done?"),
        (("task", "delete", "T-1"), "did you mean set?"),
        (("resume",), "did you mean start?"),
        (("gotcha", "x"), "did you mean note?"),
        (("decide", "x", "--because", "y"), "no option --because; did you mean --why?"),
        (("recall", "x", "-n", "3"), "did you mean --limit?"),
        (("ask", "--text", "x"), "TEXT is given by itself, without --text"),
        (("handoff", "T-404"), "there is no file and no task T-404"),
        (("export", "T-1"), "passdown export --task T-1"),
        (("state", "T-1", "--wrong"), "there is no option --wrong (see:"),
        (("brief", "T-1", "--zzz", "--budgte", "5"), "--zzz, there is no option --budgte; did"),
    ],
    ids=str,
)
def test_what_people_type_instead_is_understood(
    filled: Path, cli: Run, argv: tuple[str, ...], said: str
) -> None:
    refused = cli(*argv, code=2)
    assert said in refused.err
    assert len(refused.err.splitlines()) == 1


def test_a_value_may_look_like_an_option_with_words_after_it(filled: Path, cli: Run) -> None:
    assert "T-1 version" in cli("warn", "T-1", "--force is never an answer", "--agent", "kim").out


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("brief", "T-1", "--check", "x", "--format", "yaml"), "--check doesn't go with --format"),
        (("brief", "T-1", "--left-out", "--no-record"), "--left-out doesn't go with --no-record"),
        (("summary", "T-1", "--check", "x", "--budget", "9"), "--check doesn't go with --budget"),
        (("migrate", "x", "--prompt", "--dry-run"), "--prompt doesn't go with --dry-run"),
        (("init", "--check", "--print"), "--check doesn't go with --print"),
        (
            ("serve", "--host", "0.0.0.0", "--token-file", "x"),
            "--token-file doesn't go with --host",
        ),
        (("state", "T-1", "--at", "1", "--files"), "--at shows a past version"),
        (("handoff", "--task", "T-1", "--blocks", "T-2"), "at least an --outcome"),
        (("gate", "record", "T-1", "--name", "x", "--passed", "--failed"), "doesn't go with"),
    ],
    ids=str,
)
def test_options_that_contradict_each_other_are_one_usage_error(
    filled: Path, cli: Run, argv: tuple[str, ...], said: str
) -> None:
    refused = cli(*argv, code=2)
    assert said in refused.err
    assert len(refused.err.splitlines()) == 1


def test_an_artifact_is_shown_in_one_form(filled: Path, cli: Run) -> None:
    refused = cli("artifact", "show", "x", "--markdown", "--json", code=2)
    assert "--markdown doesn't go with --json" in refused.out

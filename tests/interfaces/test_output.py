"""What is printed can't drive a terminal, fits it, and loses nothing."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import time
from importlib import resources
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from passdown.cli.main import VERBS, overview, parser_of
from passdown.cli.output import busy, cut, print_json, table, text_width, wrapped
from passdown.workspace import open as open_workspace
from tests.interfaces.running import data_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.interfaces.running import Run

NASTY = "a\x1b]0;owned\x07b\x1b[2Jc\u202ed\x9be\u2028f\x7f"


def through_a_terminal(argv: list[str], source: Path) -> bytes:
    """What a program writes when its output is a terminal."""
    import pty

    parent, child = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(source), "NO_COLOR": "1", "TERM": "xterm"}
    process = subprocess.Popen(
        [sys.executable, "-m", "passdown", *argv], stdout=child, stderr=child, env=environment
    )
    os.close(child)
    parts: list[bytes] = []
    while True:
        try:
            part = os.read(parent, 65_536)
        except OSError:
            break
        if not part:
            break
        parts.append(part)
    process.wait(timeout=240)
    os.close(parent)
    return b"".join(parts)


@pytest.mark.skipif(os.name == "nt", reason="no such terminals")
def test_stored_text_cannot_drive_a_terminal(cli: Run, project_root: Path) -> None:
    cli("task", "new", "T-1", "--title", NASTY, "--description", NASTY, "--criterion", NASTY)
    cli("decide", NASTY, "--why", NASTY, "--task", "T-1", "--alternative", NASTY)
    cli("note", "pattern", NASTY, "--location", NASTY.replace("\u202e", ""), "--task", "T-1")
    cli("warn", "T-1", NASTY)
    cli("handoff", "--task", "T-1", "--outcome", "completed", "--summary", NASTY, "--next", NASTY)
    for argv in (
        ["state", "T-1"],
        ["state", "T-1", "--json"],
        ["state", "T-1", "--as", "switch-artifact"],
        ["log"],
        ["show", "T-1#d1"],
        ["diff", "T-1", "1", "5"],
        ["task", "list"],
        ["task", "show", "T-1"],
        ["summary", "T-1"],
        ["show", NASTY],
        ["gate", "approve", NASTY, "--by", "kim"],
        [NASTY],
        ["state", "T-1", NASTY],
    ):
        shown = through_a_terminal(argv, project_root / "src")
        text = shown.decode()
        assert len(text) > 10
        assert not re.search("[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u202e]", text), argv


def test_json_keeps_the_text_itself(cli: Run, as_json: Callable[..., object]) -> None:
    cli("task", "new", "T-1", "--title", NASTY + "é漢\U000e0041")
    found = as_json("task", "list")
    assert isinstance(found, list)
    assert found[0]["title"] == NASTY + "é漢\U000e0041"


@given(st.text())
def test_json_is_safe_and_lossless(text: str) -> None:
    import contextlib
    import io

    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        print_json({"text": text})
    shown = output.getvalue()
    assert data_of(shown)["text"] == text
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202e]", shown)


def test_an_output_that_is_not_unicode(cli: Run, project_root: Path) -> None:
    cli("task", "new", "T-1", "--title", "漢字")
    environment = {
        **os.environ,
        "PYTHONPATH": str(project_root / "src"),
        "PYTHONIOENCODING": "latin-1",
    }
    for argv, expected in ((["--json"], "漢字"), ([], "\\u6f22")):
        done = subprocess.run(
            [sys.executable, "-m", "passdown", "task", "list", *argv],
            env=environment,
            capture_output=True,
            check=True,
        )
        text = done.stdout.decode("latin-1")
        assert expected in (str(data_of(text)) if argv else text)


@pytest.mark.parametrize("columns", ["20", "40", "80"])
def test_everything_fits_a_narrow_terminal(
    filled: Path, cli: Run, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    long = "a rather long title about many things that has to be wrapped 漢字漢字漢字漢字"
    cli("task", "new", "T-long-identifier-1", "--title", long, "--agent", "somebody-with-a-name")
    monkeypatch.setenv("COLUMNS", columns)
    for argv in (
        ("task", "list"),
        ("task", "show", "T-1"),
        ("log",),
        ("log", "T-1"),
        ("state", "T-1"),
        ("state", "T-1", "--files"),
        ("gate", "list", "--all"),
        ("history", "T-1", "src/login.py"),
        ("show", "T-1#d1"),
        ("doctor",),
    ):
        out = cli(*argv).out
        wide = [line for line in out.splitlines() if text_width(line) > int(columns)]
        assert wide == [], argv


def test_refusals_and_usage_errors_fit_a_terminal(
    filled: Path, cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    for argv in (
        ("handoff", "T-1", "--outcome", "partial", "--blocker", "x", "--from", "a", "--to", "a"),
        ("approve", "T-1#k1"),
        ("show", "T-1#d99"),
    ):
        said = cli(*argv, code=None).err
        assert said
        assert max(map(text_width, said.splitlines())) <= 60, said


def test_the_help_of_every_command_fits_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for verb in VERBS:
        parser = parser_of(verb)
        for each in (parser, *(parser.below(name) for name in parser.subverbs)):
            assert max(map(len, each.format_help().splitlines())) <= 80, each.prog
    assert max(map(len, overview().splitlines())) <= 80


def test_every_command_that_ends_prints_json_in_one_envelope(as_json: Callable[..., Any]) -> None:
    """All but those that serve, or show a story."""
    found = set[str]()
    for verb in VERBS:
        parser = parser_of(verb)
        parsers = [parser.below(name) for name in parser.subverbs] or [parser]
        for command in (each.command for each in parsers):
            found |= {command.name} if command and not command.has_json else set()
    assert found == {"demo", "hook", "mcp", "serve", "ui"}
    for argv in (("template",), ("artifact", "template"), ("completion", "bash")):
        assert as_json(*argv)["text"]
    assert as_json("agents", "--mermaid", "coder")["text"].startswith("stateDiagram")


def test_lists_at_80_columns(filled: Path, cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    long = "a title about many things that doesn't fit into what is left of a line"
    cli("task", "new", "T-1234567", "--title", long, "--agent", "some-agent")
    monkeypatch.setenv("COLUMNS", "80")
    tasks = cli("task", "list").out.splitlines()
    assert len(tasks) == 3
    assert tasks[2].endswith("…")
    log = cli("log").out.splitlines()
    assert len(log) == 9
    assert log[1].endswith("…")
    when = r"\d\d-\d\d \d\d:\d\d now"
    assert re.match(rf"8    T-1234567 v1  {when} +some-agent  task created: ", log[1])
    out = cli("history", "T-1", "src/login.py").out
    assert len(out.splitlines()) == 2


def test_what_is_cut_fits() -> None:
    assert cut("short", 5) == "short"
    assert cut("a longer text", 9) == "a longer…"
    assert cut("漢字漢字", 5) == "漢字…"
    assert cut("anything", 0) == "anything"


def test_a_table_loses_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    words = "one two three four five six seven eight nine ten eleven twelve"
    table(("id", "what", "empty"), [("T-1", words, ""), ("T-2", "z" * 90, None)])
    out = capsys.readouterr().out
    assert "empty" not in out
    assert out.split() != []
    assert set(words.split()) <= set(out.split())
    assert out.count("z") == 90


@given(st.text(alphabet=st.characters(exclude_categories=["Cc", "Cs"])), st.integers(1, 30))
def test_wrapping_keeps_every_visible_character(text: str, width: int) -> None:
    lines = wrapped(text, width)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(text_width(line) <= max(width, 2) for line in lines)


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", ">&- <&-"])
def test_without_standard_output_nothing_is_begun(filled: Path, closed: str) -> None:
    """One line where there is a place for it, exit code 1, and no trace of a brief."""
    command = f'"{sys.executable}" -m passdown brief T-1 --agent coder {closed}'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    said = "" if "2>" in closed else "passdown: standard output is closed; nothing was done\n"
    assert done.stderr == said
    with open_workspace(str(filled)) as workspace:
        assert workspace.context.deliveries() == []


def test_standard_error_may_be_closed(filled: Path) -> None:
    """What would be said there doesn't turn up on standard output."""
    command = f'"{sys.executable}" -m passdown brief T-9 --agent coder 2>&- <&-'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")


def test_nothing_is_cut_when_output_goes_to_a_file(filled: Path, program: Run) -> None:
    out = program("log").out
    assert len(out.splitlines()) == 8


def test_titles_break_between_words_before_a_table_becomes_blocks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    table(("name", "tokens in context", "bytes out"), [("planner", "1,154", "467")])
    first, second, row = capsys.readouterr().out.splitlines()
    assert first.split() == ["name", "tokens", "in", "bytes", "out"]
    assert second.strip() == "context"
    assert row.split() == ["planner", "1,154", "467"]


def test_what_is_empty_is_not_printed(cli: Run) -> None:
    cli("task", "new", "T-1", "--title", "Login", "--agent", "planner")
    cli("handoff", "--task", "T-1", "--from", "planner", "--outcome", "completed")
    measured = next(each for each in cli("state", "T-1").out.splitlines() if "metrics" in each)
    assert "duration_ms" in measured
    assert "counts" not in measured


def test_the_text_for_hosts_names_options_as_the_help_has_them(cli: Run) -> None:
    """Each command that it shows: the options and the arguments, in their places."""
    text = (
        resources.files("passdown.hosts").joinpath("templates/instructions.md").read_text("utf-8")
    )
    shown = re.findall(r"`passdown ([a-z]+)((?: [a-z]+)?)( [^`]*)?`", text)
    assert len(shown) >= 5
    for verb, sub, rest in shown:
        usage = cli(verb, *sub.split(), "--help").out
        for option in re.findall(r"--[a-z-]+", rest):
            assert f" {option}" in usage or f"[{option}" in usage, (verb, option)


def test_long_work_says_so_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only after a moment, and it is gone again before the result."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for wait, expected in ((0.0, True), (60.0, False)):
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setattr("passdown.cli.output._BUSY_AFTER_S", wait)
        with busy("searching"):
            until = time.monotonic() + 10
            while expected and not terminal.getvalue() and time.monotonic() < until:
                time.sleep(0.01)
        assert ("searching" in terminal.getvalue()) == expected
        assert terminal.getvalue().endswith("\r\x1b[K") == expected

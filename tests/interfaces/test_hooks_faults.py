"""Whatever goes wrong in a hook: bounded time, exit code 0, no confusing word, a logged line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from tests.interfaces.hosting import ROOT, Host, environment, hook_command, resulted, used
from tests.processes import Process, run_python

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.interfaces.running import Run

EVENTS = ("session-start", "prompt-submit", "pre-compact", "subagent-stop", "stop", "session-end")
LIMIT_S = 100
"""Far above what a hook may take, for machines that do much else at the same time."""

BAD: dict[str, bytes] = {
    "no json": b"not json",
    "cut": b'{"session_id": "s-1", "cwd": ',
    "a list": b"[1, 2]",
    "a number": b"7",
    "null": b"null",
    "not utf-8": b'{"session_id": "\xff\xfe"}',
    "a mark": b'\xef\xbb\xbf{"session_id": "s-1"}',
    "nul": b'{"session_id": "a\\u0000b", "cwd": "\\u0000"}',
    "lone surrogate": b'{"session_id": "\\ud800", "prompt": "\\udfff @x"}',
    "deep": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "wrong types": b'{"session_id": [], "cwd": 5, "prompt": {}, "source": null}',
    "a path": b'{"session_id": "../../../../tmp/evil", "cwd": "."}',
    "long name": json.dumps({"session_id": "x" * 100_000}).encode(),
    "huge": b'{"prompt": "' + b"x" * 9_000_000 + b'"}',
    "empty": b"",
}


@pytest.fixture
def tasked(project: Path, cli: Run) -> Path:
    cli("task", "new", "T-1", "--title", "Login", "--agent", "planner")
    return project


@pytest.mark.promise("H-8")
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("name", ["claude", "gemini"])
def test_malformed_input_is_logged_and_confuses_nobody(tasked: Path, name: str, bad: str) -> None:
    before = sorted(path.name for path in tasked.parent.iterdir())
    for event in ("session-start", "prompt-submit", "stop"):
        begun = time.monotonic()
        heard = Host(tasked, name).fires(event, BAD[bad])
        assert time.monotonic() - begun < LIMIT_S
        assert heard.code == 0
        assert heard.err == ""
        assert isinstance(heard.json, dict)
    assert len(Host(tasked).log) == 3
    is_odd = bad in ("no json", "cut", "a list", "a number", "null", "deep", "huge")
    assert [line["level"] for line in Host(tasked).log] == ["fault" if is_odd else "ok"] * 3
    assert sorted(path.name for path in tasked.parent.iterdir()) == before
    assert all(".." not in path.name for path in (tasked / ".passdown/hooks").iterdir())


@pytest.mark.promise("H-8")
@pytest.mark.parametrize(
    "words",
    [
        ["claude", "no-such-event"],
        ["nobody", "stop"],
        ["claude"],
        [],
        ["--bogus", "claude", "stop"],
        ["claude", "stop", "and", "more"],
        ["claude", "stop", "--store"],
        ["claude", "\x1b[31m"],
    ],
)
def test_unknown_words_never_stop_an_agent(tasked: Path, words: list[str]) -> None:
    """Claude Code and Codex read exit code 2 as an order to stop."""
    done = run_python(
        [sys.executable, "-m", "passdown", "hook", *words],
        input=b"{}",
        cwd=tasked,
        env=environment(),
        capture_output=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert not done.stdout or isinstance(json.loads(done.stdout), dict)
    assert len(Host(tasked).log) == 1


@pytest.mark.promise("H-8")
def test_a_transcript_may_be_missing_huge_or_no_file(tasked: Path, tmp_path: Path) -> None:
    """Only a bounded piece of it is read, and what can't be read is named in the log."""
    host = Host(tasked)
    host.fires("session-start", source="startup")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (str(tmp_path / "missing.jsonl"), str(pipe), "/dev/zero", str(tmp_path), "\0"):
        begun = time.monotonic()
        assert host.fires("stop", transcript_path=path, stop_hook_active=True).out == ""
        assert time.monotonic() - begun < LIMIT_S
        assert host.log[-1]["level"] == "fault", path
        assert "transcript" in host.log[-1]["what"]
    line = json.dumps(used("Bash", "old", command="long ago")) + "\n"
    with host.transcript.open("w", encoding="utf-8") as file:
        for _ in range(60):
            file.write(line * 20_000)
    assert host.transcript.stat().st_size > 100_000_000
    host.writes(used("Bash", "new", command="just now"), resulted("new", "fine"))
    with host.transcript.open("a", encoding="utf-8") as file:
        file.write('{"message": {"content": [{"type": "tool_use", "cut')
    begun = time.monotonic()
    assert host.fires("stop", stop_hook_active=True).code == 0
    assert time.monotonic() - begun < LIMIT_S
    assert host.log[-1]["level"] == "ok"
    assert "just now" in (tasked / ".passdown/drafts/T-1.yaml").read_text("utf-8")


@pytest.fixture
def frozen_writer(tasked: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds the store's write lock and is stopped."""
    source = (
        "import apsw, sys, time\n"
        "connection = apsw.Connection(sys.argv[1])\n"
        "connection.execute('BEGIN IMMEDIATE')\n"
        "print('held', flush=True)\n"
        "time.sleep(600)\n"
    )
    store = str(tasked / ".passdown/ledger.db")
    process = Process([sys.executable, "-c", source, store], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    process.send_signal(signal.SIGSTOP)
    yield process
    process.kill()
    process.communicate()


@pytest.mark.promise("H-8")
def test_a_store_that_a_frozen_process_holds_is_read_all_the_same(
    tasked: Path, frozen_writer: subprocess.Popen[bytes]
) -> None:
    host = Host(tasked)
    for event in EVENTS:
        begun = time.monotonic()
        heard = host.fires(event, source="startup", prompt="@planner go", agent_type="x")
        assert time.monotonic() - begun < LIMIT_S
        assert (heard.code, heard.err) == (0, "")
        if event == "session-start":
            assert "Login" in heard.context, "telling doesn't wait for writers"
            assert host.log[-1]["level"] == "fault"
            assert "recorded" in host.log[-1]["what"]


@pytest.mark.promise("H-8")
def test_a_folder_that_cannot_be_written_stops_no_brief(tasked: Path) -> None:
    """For root, rights mean nothing: the folders are made into files instead."""
    (tasked / ".passdown/hooks").write_text("in the way", "utf-8")
    (tasked / ".passdown/drafts").write_text("in the way", "utf-8")
    host = Host(tasked)
    assert "Login" in host.fires("session-start", source="startup").context
    assert host.log[-1]["level"] == "fault"
    (tasked / "new.py").write_text("1", "utf-8")
    heard = host.fires("stop")
    assert (heard.code, heard.out, heard.err) == (0, "", ""), "what can't be remembered isn't asked"
    if os.getuid() == 0:
        return
    (tasked / ".passdown").chmod(0o500)
    try:
        assert host.fires("session-start", source="startup").code == 0
    finally:
        (tasked / ".passdown").chmod(0o700)


@pytest.mark.promise("H-8")
def test_a_damaged_store_or_setting_is_logged(tasked: Path) -> None:
    host = Host(tasked)
    (tasked / ".passdown/config.toml").write_text("not [toml", "utf-8")
    assert host.fires("session-start") == (0, "", "")
    assert "InvalidInput" in host.log[-1]["what"]
    (tasked / ".passdown/config.toml").unlink()
    (tasked / ".passdown/ledger.db").write_bytes(b"rubbish" * 1000)
    assert host.fires("session-start") == (0, "", "")
    assert host.log[-1]["level"] == "fault"


@pytest.mark.promise("H-8")
def test_a_host_that_never_ends_its_input_is_answered_in_time(tasked: Path) -> None:
    begun = time.monotonic()
    with subprocess.Popen(
        hook_command("gemini", "stop"),
        cwd=tasked,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        out = process.stdout.read()
        assert process.wait(240) == 0
    assert time.monotonic() - begun < LIMIT_S
    assert out == b"{}\n"
    assert "took longer" in Host(tasked).log[-1]["what"]


@pytest.mark.promise("H-8")
def test_a_folder_that_was_removed_under_the_host_stops_no_brief(tasked: Path) -> None:
    """An agent that works in a worktree may remove it; the host still says where the project is."""
    words = " ".join(hook_command("claude", "session-start"))
    done = subprocess.run(
        ["sh", "-c", f"mkdir gone && cd gone && rmdir ../gone && exec {words}"],
        input=json.dumps({"session_id": "s-1", "cwd": str(tasked)}).encode(),
        cwd=tasked,
        env=environment(),
        capture_output=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"Login" in done.stdout
    assert Host(tasked).log[-1]["level"] == "ok"


@pytest.mark.promise("H-8")
def test_slow_git_is_done_without(tasked: Path, tmp_path: Path) -> None:
    """The program is ended, and what the transcript shows is kept."""
    programs = tmp_path / "bin"
    programs.mkdir()
    mark = "600.125" + str(os.getpid())
    (programs / "git").write_text(f"#!/bin/sh\nexec sleep {mark}\n", "utf-8")
    (programs / "git").chmod(0o755)
    host = Host(tasked)
    host.fires("session-start", source="startup")
    host.env["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    host.writes(used("Edit", "c1", file_path="a.py"), used("Bash", "c2", command="make"))
    host.writes(resulted("c2"))
    begun = time.monotonic()
    assert host.fires("stop", stop_hook_active=True).code == 0
    assert time.monotonic() - begun < LIMIT_S
    assert "make" in (tasked / ".passdown/drafts/T-1.yaml").read_text("utf-8")
    assert mark not in _processes()


def _processes() -> str:
    return subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


@pytest.mark.promise("H-9")
def test_many_hooks_at_once_fail_nowhere_and_leave_nothing(
    tasked: Path, project_root: Path
) -> None:
    """Four processes, fourteen calls each, over four sessions and every event; on a busy machine
    one may take too long.
    """
    calls = [
        ("claude" if number % 2 else "codex", EVENTS[number % len(EVENTS)], f"s-{number % 4}")
        for number in range(56)
    ]

    def several(part: int) -> list[tuple[int, bytes, bytes]]:
        return [_call(tasked, *call) for call in calls[part::4]]

    with ThreadPoolExecutor(4) as pool:
        done = [each for part in pool.map(several, range(4)) for each in part]
    assert len(done) == 56
    assert [each[0] for each in done] == [0] * 56
    assert {each[2] for each in done} == {b""}
    log = Host(tasked).log
    assert len(log) == 56
    faults = [line["what"] for line in log if line["level"] != "ok"]
    assert [what for what in faults if not what.startswith("took longer")] == []
    assert str(tasked) not in _processes()
    left = [path.name for path in (tasked / ".passdown/hooks").iterdir() if "tmp" in path.name]
    assert left == []
    with passdown.open(str(tasked)) as ws:
        assert ws.verify().findings == ()


def _call(root: Path, name: str, event: str, session: str) -> tuple[int, bytes, bytes]:
    given: dict[str, Any] = {"session_id": session, "cwd": str(root), "stop_hook_active": True}
    done = run_python(
        hook_command(name, event),
        input=json.dumps({**given, "prompt": "T-1 @planner"}).encode(),
        cwd=root,
        env=environment(PASSDOWN_TEST_MARK=str(ROOT)),
        capture_output=True,
        timeout=240,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_the_log_keeps_its_size(tasked: Path) -> None:
    from passdown.hosts.hooks.files import MAX_LOG_BYTES, append_log, last_runs

    folder = str(tasked / ".passdown")
    for number in range(3_000):
        append_log(folder, host="claude", event="stop", level="fault", what="x" * 500, told=number)
    sizes = [
        (tasked / ".passdown/logs" / name).stat().st_size for name in ("hooks.log", "hooks.log.1")
    ]
    assert max(sizes) <= MAX_LOG_BYTES + 2_048
    assert last_runs(folder)["claude stop"].told == 2_999

"""Programs as runners, with real processes that do everything wrong; nothing of them is left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from passdown.errors import InvalidInput
from passdown.relay.runners import AgentReply, AgentRequest, command
from passdown.relay.runners.command import GUARD, CommandRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.skipif(os.name != "posix", reason="programs are guarded on POSIX only")

MESSAGES = ({"role": "system", "content": "You are dev."}, {"role": "user", "content": "Go on."})
NEEDS_PROC = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def living(marker: str) -> list[str]:
    """The processes whose environment holds a marker, whatever their session or parent."""
    found: list[str] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes()
            state = (folder / "stat").read_bytes().rpartition(b")")[2].split()[0]
            command = (folder / "cmdline").read_text("utf-8", "replace").replace("\0", " ")
        except OSError:  # it has ended meanwhile
            continue
        if marker.encode() in environment and state not in (b"Z", b"X"):
            found.append(command)
    return found


def until(is_so: Callable[[], bool], seconds: float = 120.0) -> bool:
    ends = time.monotonic() + seconds
    while not is_so() and time.monotonic() < ends:
        time.sleep(0.02)
    return is_so()


class Bench:
    """Runs programs in a folder of their own, each marked by its run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run = f"run-{uuid.uuid4().hex}"

    def __call__(self, *argv: str, **options: Any) -> AgentReply:
        asked = self.asked(**options.pop("asked", {}))
        options.setdefault("timeout_s", 200)
        return CommandRunner(argv, **options)(asked)

    def too_long(self, *argv: str, said: str) -> AgentReply:
        """What comes of a program that never ends, once the limit lets it say something first."""
        for limit in (0.3, 1.0, 4.0, 16.0):
            reply = self(*argv, timeout_s=limit)
            if reply.text == said:
                return reply
        return self(*argv, timeout_s=60.0)

    def python(self, program: str, **options: Any) -> AgentReply:
        return self(sys.executable, "-c", program, **options)

    def asked(self, **changes: Any) -> AgentRequest:
        fields: dict[str, Any] = {"messages": MESSAGES, "agent": "dev", "task": "T-1"}
        fields |= {"run": self.run, "workdir": str(self.folder), **changes}
        return AgentRequest(**fields)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A bench that finds, after each test, no process and no file of the prompt left."""
    work, temporary = tmp_path / "work", tmp_path / "temporary"
    work.mkdir()
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    before = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
    bench = Bench(work)
    yield bench
    assert list(temporary.iterdir()) == []
    if sys.platform == "linux":
        assert living(bench.run) == []
        assert len(os.listdir("/proc/self/fd")) <= before


@pytest.mark.parametrize("way", ["stdin", "argument", "file"])
def test_the_prompt_arrives_whole_by_every_way(bench: Bench, way: str) -> None:
    """What the program gets is the prompt to the letter, quotes and placeholders in it too."""
    content = "a 'quoted' \"text\"; $(touch x) {task} {prompt_file} ü\n\nend"
    asked = {"messages": ({"role": "user", "content": content},)}
    programs = {"stdin": ["cat"], "argument": ["printf", "%s", "{prompt}"]}
    argv = programs.get(way, ["cat", "{prompt_file}"])
    reply = bench(*argv, prompt=way, asked=asked)
    assert not reply.is_failure
    assert reply.text == bench.asked(**asked).prompt
    assert content in reply.text
    assert reply.bytes_in == reply.bytes_out == len(reply.text.encode())
    assert (reply.exit_code, reply.why, list(bench.folder.iterdir())) == (0, "", [])


def test_placeholders_stay_in_their_own_argument(bench: Bench) -> None:
    """A name with blanks would be one argument; braces of others are left alone."""
    show = "import json, sys; print(json.dumps(sys.argv[1:]))"
    names = ["{task}", "a={agent}", '{"x": 1}', "{other}", "{run} {run}"]
    reply = bench(sys.executable, "-c", show, *names, asked={"run": "{task} b", "env": {}})
    assert reply.text == '["T-1", "a=dev", "{\\"x\\": 1}", "{other}", "{task} b {task} b"]\n'


def test_the_file_of_the_prompt_is_private(bench: Bench) -> None:
    show = "import os, sys; print(oct(os.stat(sys.argv[1]).st_mode))"
    reply = bench(sys.executable, "-c", show, "{prompt_file}", prompt="file")
    assert reply.text == "0o100600\n"


def test_the_environment_says_whose_turn_it_is(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of an outer run don't come through; what is given for the turn wins."""
    monkeypatch.setenv("PASSDOWN_STORE", "sqlite:////elsewhere.db")
    monkeypatch.setenv("PASSDOWN_TASK", "T-outer")
    monkeypatch.setenv("SECRET_KEY", "s3")
    asked = {"store": "sqlite:///x.db", "env": {"B": "turn"}}
    whole = bench("env", env={"A": "1", "B": "2"}, asked=asked).text.splitlines()
    expected = ["PASSDOWN_TASK=T-1", "PASSDOWN_AGENT=dev", "PASSDOWN_STORE=sqlite:///x.db"]
    for line in (*expected, f"PASSDOWN_RUN={bench.run}", "A=1", "B=turn", "SECRET_KEY=s3"):
        assert line in whole
    listed = bench("env", env={"A": "1"}, pass_env=["HOME", "NONE"]).text.splitlines()
    names = sorted(line.partition("=")[0] for line in listed)
    assert names == ["A", "HOME", "PASSDOWN_AGENT", "PASSDOWN_RUN", "PASSDOWN_TASK"]


def test_it_works_in_the_folder_of_the_turn(bench: Bench) -> None:
    assert bench("pwd").text.strip() == str(bench.folder)
    assert bench("pwd", asked={"workdir": ""}).text.strip() == os.getcwd()


def test_much_input_and_much_output_at_once_do_not_block(bench: Bench) -> None:
    content = "x" * 3_000_000
    reply = bench("cat", max_output=4_000_000, asked={"messages": _one(content)})
    assert not reply.is_failure
    assert content in reply.text


def _one(content: str) -> tuple[dict[str, str], ...]:
    return ({"role": "user", "content": content},)


def test_one_that_never_ends_is_ended(bench: Bench) -> None:
    started = time.monotonic()
    program = "echo so far >&2; echo begun; sleep 1000"
    reply = bench.too_long("sh", "-c", program, said="begun\n")
    assert (reply.failure, reply.text) == ("timeout", "begun\n")
    why = re.fullmatch(r"sh took longer than (\S+) s and was ended. Last said: so far", reply.why)
    assert why is not None
    assert float(why[1]) <= reply.seconds <= time.monotonic() - started + 0.01


def test_the_time_of_the_turn_counts_where_it_is_shorter(bench: Bench) -> None:
    reply = bench("sleep", "1000", timeout_s=500, asked={"timeout_s": 0.2})
    assert "longer than 0.2 s" in reply.error
    assert bench("sleep", "1000", asked={"timeout_s": 0.0}).failure == "timeout"


def test_one_that_floods_is_ended_within_bounds(bench: Bench) -> None:
    """No more than the limit is kept, and both ends of that are evidence."""
    reply = bench("sh", "-c", "echo first; yes", max_output=50_000)
    assert reply.failure == "flood"
    assert reply.error == "sh wrote more than 50,000 bytes and was ended."
    assert (len(reply.text), reply.is_truncated) == (50_000, True)
    assert reply.evidence["stdout_head"].startswith("first\ny\n")
    assert reply.evidence["stdout_tail"].endswith("y\n")


def test_a_flood_is_seen_when_the_program_has_already_ended(bench: Bench) -> None:
    reply = bench.python("print('x' * 30_000)", max_output=10_000)
    assert (reply.failure, reply.is_truncated) == ("flood", True)


def test_output_of_exactly_the_limit_is_no_flood(bench: Bench) -> None:
    reply = bench.python("print('x' * 9_999)", max_output=10_000)
    assert (reply.failure, len(reply.text), reply.is_truncated) == ("", 10_000, False)


def test_of_much_stderr_the_end_is_kept(bench: Bench) -> None:
    """Agents log much: that alone is no failure."""
    program = "import sys; sys.stderr.write('log\\n' * 500_000 + 'the end\\n'); print('done')"
    reply = bench.python(program, max_output=2_000)
    assert (reply.failure, reply.text, reply.is_stderr_truncated) == ("", "done\n", True)
    assert reply.evidence["stderr"].endswith("log\nthe end\n")
    assert len(reply.evidence["stderr"]) == command.MAX_STDERR


def test_an_exit_code_is_a_failure_with_its_last_words(bench: Bench) -> None:
    reply = bench("sh", "-c", "echo half; echo no key >&2; exit 3")
    assert (reply.failure, reply.exit_code, reply.text) == ("exit", 3, "half\n")
    assert reply.why == "sh ended with exit code 3. Last said: no key"


def test_a_signal_is_named(bench: Bench) -> None:
    reply = bench("sh", "-c", "kill -SEGV $$")
    assert (reply.exit_code, reply.error) == (-11, "sh ended with signal 11.")


def test_one_that_ignores_the_signal_is_killed(bench: Bench) -> None:
    program = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True)"
    never = f"{program}; time.sleep(1000)"
    reply = bench.too_long(sys.executable, "-c", never, said="deaf\n")
    assert (reply.failure, reply.exit_code, reply.text) == ("timeout", -9, "deaf\n")


def test_one_that_is_told_to_end_may_say_goodbye(bench: Bench) -> None:
    """SIGTERM comes first: what is still written then counts."""
    program = "trap 'echo bye; exit 0' TERM; sleep 1000 & wait"
    reply = bench.too_long("sh", "-c", program, said="bye\n")
    assert (reply.failure, reply.text) == ("timeout", "bye\n")


def test_one_that_closes_its_output_and_goes_on_is_ended(bench: Bench) -> None:
    reply = bench("sh", "-c", "exec >&- 2>&-; sleep 1000", timeout_s=0.3)
    assert reply.failure == "timeout"


def test_one_that_stops_itself_is_ended(bench: Bench) -> None:
    assert bench("sh", "-c", "kill -STOP $$", timeout_s=0.3).failure == "timeout"


@pytest.mark.parametrize(
    "leaving",
    [
        "sleep 1000 & echo done",
        "(sleep 1000 & sleep 1000 &) ; echo done",
        "setsid sleep 1000 & echo done",
        "(setsid sh -c '(trap \"\" TERM; sleep 1000) & sleep 1000' &) ; echo done",
    ],
    ids=["child", "double-forked", "own session", "deaf, in its own session"],
)
@NEEDS_PROC
def test_children_that_survive_are_ended(bench: Bench, leaving: str) -> None:
    """Also those that forked twice, left the session or hold the output open."""
    reply = bench("sh", "-c", leaving)
    assert (reply.failure, reply.text) == ("", "done\n")
    assert "processes running; they were ended" in reply.evidence["notes"]


@NEEDS_PROC
def test_the_whole_tree_is_ended_at_the_time_limit(bench: Bench) -> None:
    program = "sleep 1000 & (setsid sleep 1000 &) ; trap '' TERM; sleep 1000; sleep 1000"
    assert bench("sh", "-c", program, timeout_s=0.3).failure == "timeout"


@NEEDS_PROC
def test_a_chain_that_forks_and_exits_is_caught(bench: Bench) -> None:
    """Each of its processes lives for less than a look at the list of all processes takes."""
    program = (
        "import os, time\n"
        "ends = time.monotonic() + 20\n"
        "if os.fork(): time.sleep(1000)\n"
        "while time.monotonic() < ends:\n"
        "    if os.fork(): os._exit(0)\n"
        "    os.setsid()\n"
    )
    assert bench.python(program, timeout_s=0.5).failure == "timeout"


def test_what_ends_by_itself_soon_after_is_heard(bench: Bench) -> None:
    reply = bench("sh", "-c", "(sleep 0.1; echo late) & echo early")
    assert (reply.text, dict(reply.evidence)) == ("early\nlate\n", {})


def test_one_that_closes_stdin_early_is_no_failure(bench: Bench) -> None:
    reply = bench("sh", "-c", "exec <&-; echo done", asked={"messages": _one("x" * 500_000)})
    assert (reply.failure, reply.text) == ("", "done\n")
    assert "bytes of the prompt" in reply.evidence["notes"]
    assert reply.bytes_in < 500_000


def test_nothing_at_all_is_an_empty_reply(bench: Bench) -> None:
    reply = bench("true")
    assert (reply.failure, reply.text, reply.bytes_out) == ("", "", 0)


def test_bytes_that_are_no_text_are_replaced_and_flagged(bench: Bench) -> None:
    reply = bench.python("import os; os.write(1, b'a\\xff\\x00b'); os.write(2, b'\\xfe')")
    assert (reply.text, reply.is_replaced) == ("a\ufffd\x00b", True)
    assert reply.evidence["stderr"] == "\ufffd"
    assert not bench.python("print('ü')").is_replaced


@pytest.mark.parametrize("kind", ["event", "function"])
def test_a_turn_can_be_stopped_from_outside(bench: Bench, kind: str) -> None:
    event = threading.Event()
    timer = threading.Timer(0.3, event.set)
    timer.start()
    stop = event if kind == "event" else event.is_set
    reply = bench("sleep", "1000", asked={"stop": stop})
    timer.join()
    assert (reply.failure, reply.error) == ("stopped", "sleep was stopped.")
    assert reply.seconds < 5


def test_a_stop_that_raises_ends_the_program_too(bench: Bench) -> None:
    def broken() -> bool:
        raise RuntimeError("the lease can't be read")

    with pytest.raises(RuntimeError, match="lease"):
        bench("sleep", "1000", asked={"stop": broken})


def test_progress_is_told_while_it_works(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_PROGRESS_S", 0.0)
    told: list[tuple[float, int]] = []

    def note(seconds: float, size: int) -> None:
        told.append((seconds, size))

    bench("sh", "-c", "echo 12345; sleep 0.3", asked={"progress": note})
    assert [seconds for seconds, _ in told] == sorted(seconds for seconds, _ in told)
    assert told[-1][1] == 6


def test_what_cannot_be_started_says_why(bench: Bench) -> None:
    """A missing program, a folder, a file without permission, one that is no program."""
    (bench.folder / "plain").write_text("x")
    (bench.folder / "noexec").write_text("echo hello\n")
    (bench.folder / "noexec").chmod(0o755)
    (bench.folder / "lost").write_text("#!/nowhere/sh\n")
    (bench.folder / "lost").chmod(0o755)
    expected = {
        "no-such-program": "no-such-program or its interpreter was not found",
        "./plain": "./plain can't be executed: permission denied.",
        "/": "/ can't be executed: permission denied.",
        "./plain/x": "its path leads through a file",
        "./lost": "or its interpreter was not found",
        "./noexec": "./noexec is not a program",
    }
    for program, sentence in expected.items():
        reply = bench(program)
        assert reply.failure == "not_started", program
        assert sentence in reply.error, program
        assert reply.exit_code is None


@pytest.mark.parametrize(("folder", "reason"), [("nowhere", "No such"), ("file", "Not a dir")])
def test_a_folder_that_is_none_is_said(bench: Bench, folder: str, reason: str) -> None:
    (bench.folder / "file").write_text("x")
    reply = bench("true", asked={"workdir": str(bench.folder / folder)})
    assert reply.failure == "not_started"
    assert "can't be used" in reply.error
    assert reason in reply.error


def test_a_prompt_that_no_argument_can_hold_is_said(bench: Bench) -> None:
    reply = bench("true", "{prompt}", prompt="argument", asked={"messages": _one("x" * 3_000_000)})
    assert "too long; pass the prompt on stdin or in a file" in reply.error
    reply = bench("true", "{prompt}", prompt="argument", asked={"messages": _one("a\0b")})
    assert "NUL" in reply.error
    assert bench("true", asked={"env": {"A": "a\0b"}}).failure == "not_started"


@NEEDS_PROC
def test_a_guard_that_is_killed_takes_the_program_with_it(bench: Bench) -> None:
    reply = bench("sh", "-c", "sleep 1000 & kill -9 $PPID; sleep 1000")
    assert reply.failure == "lost"
    assert until(lambda: living(bench.run) == [])


def test_a_guard_that_is_told_to_end_ends_the_program(bench: Bench) -> None:
    reply = bench("sh", "-c", "kill -TERM $PPID; sleep 1000")
    assert (reply.failure, reply.exit_code) == ("exit", -15)


@NEEDS_PROC
@pytest.mark.parametrize("is_forked", [False, True])
def test_killing_us_ends_the_program_and_removes_the_prompt(
    bench: Bench, tmp_path: Path, is_forked: bool
) -> None:
    """kill -9 on the process that runs it, also when a fork of it still holds its descriptors."""
    fork = "os.fork()\n" if is_forked else ""
    program = (
        "import os, threading, time\n"
        "from passdown.relay.runners import AgentRequest\n"
        "from passdown.relay.runners.command import CommandRunner\n"
        "runner = CommandRunner(['sh', '-c', 'sleep 999 & (setsid sleep 999 &); sleep 999 # $0',"
        " '{prompt_file}'], prompt='file')\n"
        "asked = AgentRequest(messages=({'role': 'user', 'content': 'x'},), agent='dev',"
        f" task='T-1', run='{bench.run}')\n"
        "threading.Thread(target=runner, args=(asked,)).start()\n"
        f"input()\n{fork}os.write(1, b'ready\\n')\ntime.sleep(1000)\n"
    )
    ours = subprocess.Popen(
        [sys.executable, "-c", program],
        start_new_session=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert ours.stdin is not None
    assert ours.stdout is not None
    try:
        assert until(lambda: sum("sleep 999" in each for each in living(bench.run)) >= 3)
        assert list((tmp_path / "temporary").iterdir()) != []
        ours.stdin.write(b"\n")
        ours.stdin.close()
        for _ in range(2 if is_forked else 1):
            assert ours.stdout.readline() == b"ready\n"
    finally:
        ours.kill()
        ours.wait()
        ours.stdout.close()
    assert until(lambda: living(bench.run) == [])
    assert until(lambda: list((tmp_path / "temporary").iterdir()) == [])
    if is_forked:
        os.killpg(ours.pid, signal.SIGKILL)


def test_several_run_at_once(bench: Bench) -> None:
    """Each has its own output, and none waits for another's."""
    found: dict[int, str] = {}

    def go(number: int) -> None:
        found[number] = bench("sh", "-c", f"sleep 0.2; echo {number}").text

    threads = [threading.Thread(target=go, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: f"{number}\n" for number in range(8)}


def test_the_guard_needs_nothing_but_python() -> None:
    """It runs without site packages, so that no environment can break it."""
    source = Path(GUARD).read_text("utf-8")
    assert "passdown" not in source


@pytest.mark.parametrize(
    ("argv", "options", "path"),
    [
        ("rm -rf x", {}, "command"),
        ([], {}, "command"),
        ([""], {}, "command"),
        (["a", 1], {}, "command[1]"),
        (["a\0"], {}, "command[0]"),
        (["{task}"], {}, "command[0]"),
        (["a"], {"prompt": "mail"}, "prompt"),
        (["a"], {"prompt": "argument"}, "command"),
        (["a", "{prompt}"], {"prompt": "file"}, "command"),
        (["a", "{prompt}"], {}, "command"),
        (["a"], {"env": {"A=B": "1"}}, 'env["A=B"]'),
        (["a"], {"env": {"A": 1}}, "env.A"),
        (["a"], {"env": ["A"]}, "env"),
        (["a"], {"pass_env": "HOME"}, "pass_env"),
        (["a"], {"pass_env": ["HOME", ""]}, "pass_env[1]"),
        (["a"], {"timeout_s": 0}, "timeout_s"),
        (["a"], {"timeout_s": float("nan")}, "timeout_s"),
        (["a"], {"max_output": True}, "max_output"),
        (["a"], {"shell": True}, "shell"),
    ],
)
def test_a_faulty_setup_is_refused_before_anything_runs(
    argv: Any, options: dict[str, Any], path: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        CommandRunner(argv, **options)
    assert path in [problem.path for problem in caught.value.problems]


def test_every_fault_of_a_setup_is_listed() -> None:
    with pytest.raises(InvalidInput) as caught:
        CommandRunner([], env={"": "x"}, timeout_s=-1, max_output=0)
    paths = [p.path for p in caught.value.problems]
    assert paths == ["command", 'env[""]', "max_output", "timeout_s"]

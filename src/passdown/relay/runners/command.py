"""Run a program as an agent: the prompt goes in, what it prints on stdout is the reply.

The program is limited in time, memory and processes. A guard between us and it (`guard`) ends it
with all that it started, also when this process is killed.
"""

from __future__ import annotations

import errno
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from passdown import tracing
from passdown.core.arguments import raise_problems
from passdown.core.intake import as_error
from passdown.core.schema import check, value_of
from passdown.core.text import excerpt
from passdown.errors import Problem
from passdown.relay.run import RunnerOptions
from passdown.relay.runners import AgentReply, AgentRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


GUARD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "guard.py")
GRACE_S = 2.0
"""How long a program may take to end after SIGTERM."""

_CHUNK = 65_536
_TICK_S = 0.1
_OVERDUE_S = 10.0
_PROGRESS_S = 0.5


class ProcessSpec(NamedTuple):
    """What to start: the program with its arguments, its environment and folder.

    `remove` is a file to delete afterwards, even if this process is killed.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    folder: str
    remove: str = ""


class ProcessLimits(NamedTuple):
    """Limits of a program. More output on stdout ends it; of stderr the end is kept. `stop` says
    when to end it in any case.
    """

    timeout_s: float
    max_output: int
    max_stderr: int
    grace_s: float = GRACE_S
    stop: Callable[[], bool] = lambda: False


class ProcessResult(NamedTuple):
    """How a program ended.

    `ended` is exit, timeout, flood, stopped, not_started or lost; `stage` and `errno` say what
    failed if it didn't start. `left` counts the processes that it left behind and that were ended;
    `taken` the bytes of its input that it read.
    """

    ended: str
    seconds: float
    exit_code: int | None = None
    out: bytes = b""
    out_bytes: int = 0
    err: bytes = b""
    err_bytes: int = 0
    taken: int = 0
    left: int = 0
    stage: str = ""
    errno: int = 0


def run_process(
    order: ProcessSpec,
    given: bytes,
    limits: ProcessLimits,
    progress: Callable[[float, int], None] | None = None,
) -> ProcessResult:
    """Run a program to its end, with `given` on its stdin; nothing of it is left afterwards.

    `progress` gets seconds and bytes so far.
    """
    started = time.monotonic()
    try:
        guard, ours = _start_guard()
    except OSError as error:
        return ProcessResult(
            "not_started", time.monotonic() - started, stage="start", errno=error.errno or 0
        )
    with ours, guard:
        going = _RunningProcess(guard, ours, given, limits)
        try:
            going.send(order)
            going.go(started, progress)
        finally:
            going.close()
    return going.ran(time.monotonic() - started)


def _start_guard() -> tuple[subprocess.Popen[bytes], socket.socket]:
    """A guard that waits for its order, and our end of the socket to it."""
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            guard = subprocess.Popen(
                [sys.executable, "-I", "-S", GUARD, str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
    except OSError:
        ours.close()
        raise
    return guard, ours


class _RunningProcess:
    """A running program and its output so far."""

    def __init__(
        self,
        guard: subprocess.Popen[bytes],
        control: socket.socket,
        given: bytes,
        limits: ProcessLimits,
    ) -> None:
        self._guard = guard
        self._control = control
        self._given = memoryview(given)
        self._limits = limits
        self._patience_s = limits.grace_s + _OVERDUE_S
        self._out = bytearray()
        self._err = bytearray()
        self._out_bytes = self._err_bytes = self._taken = 0
        self._said = b""
        self._why = ""
        self._give_up_at = float("inf")
        self._select = selectors.DefaultSelector()

    def send(self, order: ProcessSpec) -> None:
        """Tell the guard what to start. If it is gone already, its silence shows that."""
        pairs = [f"{name}={value}" for name, value in order.env.items()]
        head = [f"{self._limits.grace_s:g}", order.remove, order.folder, str(len(order.argv))]
        data = b"".join(os.fsencode(field) + b"\0" for field in [*head, *order.argv, *pairs])
        self._control.settimeout(_OVERDUE_S)
        with suppress(OSError):
            self._control.sendall(b"%d\n%b" % (len(data), data))

    def go(self, started: float, progress: Callable[[float, int], None] | None) -> None:
        """Move input and output until the guard has ended, or has to be killed."""
        self._register()
        ends, told_at = started + self._limits.timeout_s, started
        while self._control in self._select.get_map():
            now = time.monotonic()
            if now >= self._give_up_at:
                self._patience_s = 0.0
                return
            self._decide(is_late=now >= ends)
            if progress and now - told_at >= _PROGRESS_S:
                told_at = now
                progress(now - started, self._out_bytes)
            for key, _ in self._select.select(_TICK_S if now >= ends else min(_TICK_S, ends - now)):
                key.data()
        self._drain()

    def close(self) -> None:
        """Close everything; what still runs is ended, by force if needed."""
        self._select.close()
        self._ask_to_end()
        try:
            self._guard.wait(self._patience_s)
        except subprocess.TimeoutExpired:
            self._guard.kill()
        if not self._facts("ended") and not self._facts("failed"):
            # A killed guard has ended nothing; we only know the agent's process group.
            for number in self._facts("pid"):
                with suppress(OSError):
                    os.killpg(number, signal.SIGKILL)

    def ran(self, seconds: float) -> ProcessResult:
        """The result, once it is closed."""
        err = bytes(self._err[max(0, len(self._err) - self._limits.max_stderr) :])
        heard = (bytes(self._out), self._out_bytes, err, self._err_bytes, self._taken)
        if failed := self._facts("failed"):
            stage = self._said.partition(b"failed ")[2].split()[0].decode()
            return ProcessResult(
                "not_started", seconds, None, *heard, stage=stage, errno=failed[-1]
            )
        ended = self._facts("ended")
        code, left = ended if len(ended) == 2 else (None, 0)
        how = self._why or ("lost" if code is None else "exit")
        return ProcessResult(how, seconds, code, *heard, left=left)

    def _facts(self, word: str) -> list[int]:
        """The numbers that the guard has sent after a word."""
        for line in self._said.decode("ascii", "replace").splitlines():
            first, *rest = line.split()
            if first == word:
                return [int(part) for part in rest if part.lstrip("-").isdigit()]
        return []

    def _register(self) -> None:
        self._control.setblocking(False)
        self._select.register(self._control, selectors.EVENT_READ, self._listen)
        for file, event, move in (
            (self._guard.stdout, selectors.EVENT_READ, self._read_out),
            (self._guard.stderr, selectors.EVENT_READ, self._read_err),
            (self._guard.stdin, selectors.EVENT_WRITE, self._write),
        ):
            if file is not None:
                os.set_blocking(file.fileno(), False)
                self._select.register(file, event, move)

    def _decide(self, *, is_late: bool) -> None:
        """Whether the program has to end now. Once it has exited, no limit counts."""
        if self._why or self._give_up_at < float("inf"):
            return
        if self._facts("exit"):
            self._give_up_at = time.monotonic() + self._patience_s
        elif is_late:
            self._stop("timeout")
        elif self._limits.stop():
            self._stop("stopped")

    def _stop(self, why: str) -> None:
        if not self._why:
            self._why = why
            self._give_up_at = time.monotonic() + self._patience_s
            self._ask_to_end()

    def _ask_to_end(self) -> None:
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)

    def _listen(self) -> None:
        try:
            data = self._control.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._said += data
        if not data:
            self._select.unregister(self._control)

    def _write(self) -> None:
        file = self._guard.stdin
        if file is None:
            return
        try:
            self._taken += os.write(file.fileno(), self._given[self._taken : self._taken + _CHUNK])
        except BlockingIOError:
            return
        except OSError:
            # It has closed its stdin, which is not a failure.
            self._given = self._given[: self._taken]
        if self._taken >= len(self._given):
            self._select.unregister(file)
            file.close()

    def _read_out(self) -> None:
        data = self._read(self._guard.stdout)
        self._out_bytes += len(data)
        self._out += data[: max(0, self._limits.max_output - len(self._out))]
        if self._out_bytes > self._limits.max_output:
            self._stop("flood")

    def _read_err(self) -> None:
        data = self._read(self._guard.stderr)
        self._err_bytes += len(data)
        self._err += data
        if len(self._err) > 2 * self._limits.max_stderr:
            del self._err[: len(self._err) - self._limits.max_stderr]

    def _read(self, file: IO[bytes] | None) -> bytes:
        """What can be read now; a file at its end is not read again."""
        if file is None or file not in self._select.get_map():
            return b""
        try:
            data = os.read(file.fileno(), _CHUNK)
        except BlockingIOError:
            return b""
        if not data:
            self._select.unregister(file)
        return data

    def _drain(self) -> None:
        """Read what is left, without waiting."""
        most = 16 + (self._limits.max_output + self._limits.max_stderr) // _CHUNK
        for read in (self._read_out, self._read_err):
            for _ in range(most):
                before = self._out_bytes + self._err_bytes
                read()
                if before == self._out_bytes + self._err_bytes or self._why == "flood":
                    break


MAX_STDERR = 100_000

_PLACEHOLDER = re.compile(r"\{(prompt_file|prompt|task|agent|run)\}")
_NEEDED = {"argument": "{prompt}", "file": "{prompt_file}"}
_OWN_VARIABLES = ("PASSDOWN_TASK", "PASSDOWN_AGENT", "PASSDOWN_RUN", "PASSDOWN_STORE")
_SHOWN = 2_000


class CommandRunner:
    """Runs a program for each turn and ends it with everything that it started.

    `argv` is the program and its arguments; no shell reads them. `options` are those of a relay
    file. `prompt` says how the prompt is passed: on stdin, in the argument that contains
    `{prompt}`, or in a private file whose path replaces `{prompt_file}`. `{task}`, `{agent}` and
    `{run}` may be in any argument. The whole environment is passed on, or only what `pass_env`
    names; `env` is added. Raises InvalidInput with all problems.
    """

    def __init__(self, argv: Sequence[str], **options: Any) -> None:
        given = _checked({"command": argv, **options})
        self.argv, self.prompt = given.command, given.prompt
        self.env, self.pass_env = given.env, given.pass_env
        self.limits = ProcessLimits(given.timeout_s, given.max_output, MAX_STDERR)

    def __call__(self, asked: AgentRequest) -> AgentReply:
        """Run the program once; a failure is in the reply."""
        if sys.platform == "win32":
            text = "Commands as agents don't run on Windows; use WSL."
            return AgentReply(failure="not_started", error=text)
        prompt = asked.prompt.encode("utf-8", "replace")
        limits = self.limits._replace(stop=asked.is_stopped)
        if asked.timeout_s is not None:
            limits = limits._replace(timeout_s=max(0.0, min(limits.timeout_s, asked.timeout_s)))
        try:
            path = _prompt_file(prompt) if self.prompt == "file" else ""
        except OSError as error:
            text = f"The file for the prompt can't be written ({error.strerror or error})."
            return AgentReply(failure="not_started", error=text)
        try:
            order = self._order(asked, path)
            if fault := _spec_problem(order):
                return AgentReply(failure="not_started", error=fault)
            given = prompt if self.prompt == "stdin" else b""
            ran = run_process(order, given, limits, asked.progress)
        finally:
            if path:
                with suppress(FileNotFoundError):
                    os.unlink(path)
        return _reply(ran, order, limits, given=len(given), prompt=len(prompt))

    def _order(self, asked: AgentRequest, prompt_file: str) -> ProcessSpec:
        values = {
            "prompt": asked.prompt if self.prompt == "argument" else "",
            "prompt_file": prompt_file,
            "task": asked.task,
            "agent": asked.agent,
            "run": asked.run,
        }
        # One pass: values are not searched for placeholders.
        rest = [_PLACEHOLDER.sub(lambda m: values[m[1]], argument) for argument in self.argv[1:]]
        folder = asked.workdir or os.getcwd()
        return ProcessSpec((self.argv[0], *rest), self._environment(asked), folder, prompt_file)

    def _environment(self, asked: AgentRequest) -> dict[str, str]:
        names = set(os.environ if self.pass_env is None else self.pass_env) - set(_OWN_VARIABLES)
        inherited = {name: value for name, value in os.environ.items() if name in names}
        own = zip(_OWN_VARIABLES, (asked.task, asked.agent, asked.run, asked.store), strict=True)
        named = {name: value for name, value in own if value}
        carrier: dict[str, str] = {}
        tracing.carry(carrier)  # what the agent records is then part of the same trace
        traced = {name.upper(): value for name, value in carrier.items() if name == "traceparent"}
        return {**inherited, **traced, **self.env, **asked.env, **named}


def _prompt_file(prompt: bytes) -> str:
    """The prompt in a file that only this user can read."""
    descriptor, path = tempfile.mkstemp(prefix="passdown-prompt-", suffix=".md")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(prompt)
    except OSError:
        os.unlink(path)
        raise
    return path


def _spec_problem(order: ProcessSpec) -> str:
    """Why no system could start this; "" if it could."""
    if any("\0" in argument for argument in order.argv):
        return "An argument contains a NUL character; pass the prompt on stdin or in a file."
    pairs = order.env.items()
    if "\0" in order.folder or any("\0" in n + v or "=" in n or not n for n, v in pairs):
        return "The environment or the folder contains a NUL character or an invalid name."
    return ""


def _reply(
    ran: ProcessResult, order: ProcessSpec, limits: ProcessLimits, *, given: int, prompt: int
) -> AgentReply:
    text, is_replaced = _decoded(ran.out)
    failure = ran.ended if ran.ended != "exit" or ran.exit_code else ""
    evidence = {"stderr": _decoded(ran.err)[0]} if ran.err else {}
    if failure and text:
        evidence |= {"stdout_head": text[:_SHOWN], "stdout_tail": text[_SHOWN:][-_SHOWN:]}
    left = f"It left {ran.left} processes running; they were ended." if ran.left else ""
    unread = f"It read {ran.taken:,} of {given:,} bytes of the prompt." if ran.taken < given else ""
    if left or unread:
        evidence["notes"] = f"{left} {unread}".strip()
    return AgentReply(
        text=text,
        exit_code=ran.exit_code,
        seconds=ran.seconds,
        bytes_in=ran.taken if given else prompt,
        bytes_out=ran.out_bytes,
        failure=failure,
        error=_failure_text(ran, order, limits) if failure else "",
        is_truncated=ran.out_bytes > len(ran.out),
        is_stderr_truncated=ran.err_bytes > len(ran.err),
        is_replaced=is_replaced,
        evidence=evidence,
    )


def _decoded(data: bytes) -> tuple[str, bool]:
    """Bytes as text, and whether some were invalid and replaced."""
    try:
        return data.decode(), False
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace"), True


def _failure_text(ran: ProcessResult, order: ProcessSpec, limits: ProcessLimits) -> str:
    program, code = excerpt(order.argv[0], 200), ran.exit_code or 0
    if ran.ended == "not_started":
        return _not_started(ran, program, excerpt(order.folder, 200))
    how = {
        "timeout": f"took longer than {limits.timeout_s:.4g} s and was ended.",
        "flood": f"wrote more than {limits.max_output:,} bytes and was ended.",
        "stopped": "was stopped.",
        "lost": "was lost: its guard ended first.",
        "exit": f"ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}.",
    }
    return f"{program} {how[ran.ended]}"


def _not_started(ran: ProcessResult, program: str, folder: str) -> str:
    reason = os.strerror(ran.errno)
    if ran.stage == "folder":
        return f"The folder {folder} can't be used ({reason})."
    if ran.stage != "program":
        return f"{program} can't be started ({reason})."
    said = {
        errno.ENOENT: f"{program} or its interpreter was not found.",
        errno.ENOTDIR: f"{program} was not found: its path leads through a file.",
        errno.EACCES: f"{program} can't be executed: permission denied.",
        errno.EPERM: f"{program} can't be executed: permission denied.",
        errno.ENOEXEC: f"{program} is not a program: it has no #! line.",
        errno.E2BIG: f"The arguments of {program} are too long; pass the prompt on stdin or in a "
        "file.",
    }
    return said.get(ran.errno, f"{program} can't be executed ({reason}).")


def _checked(options: dict[str, Any]) -> RunnerOptions:
    """The options of a command, held to their declaration; then its placeholders."""
    plain, checks = check(RunnerOptions, options)
    problems = [as_error(problem) for problem in checks.problems()]
    if os.name != "posix":
        message = "programs can't be run safely here"
        problems.append(Problem("", "unsupported", message, "Linux or macOS"))
    argv = plain["command"]
    if (not argv or not argv[0]) and not any(p.path == "command" for p in problems):
        expected = "a list: the program, then each argument"
        problems.insert(0, Problem("command", "required", "is empty", expected))
    elif not problems:
        problems = _placeholder_problems(argv, plain["prompt"])
    raise_problems("the command is invalid", problems)
    return value_of(RunnerOptions, plain)


def _placeholder_problems(argv: Sequence[str], prompt: str) -> list[Problem]:
    """Check that the placeholders match how the prompt is passed."""
    found: list[Problem] = []
    if _PLACEHOLDER.search(argv[0]):
        message = "the program contains a placeholder"
        found.append(Problem("command[0]", "placeholder", message, "one name"))
    needed = _NEEDED.get(prompt, "")
    rest = " ".join(argv[1:])
    if needed and needed not in rest:
        message = f"no argument holds {needed}"
        found.append(Problem("command", "placeholder", message, f"{needed} for prompt: {prompt}"))
    for way, place in _NEEDED.items():
        if place != needed and place in rest:
            message, fix = f"{place} is in an argument", f"prompt: {way}"
            found.append(Problem("command", "placeholder", message, f"none for {prompt}", fix))
    return found

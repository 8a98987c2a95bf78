"""Running one program to its end, whatever it does: bounded in time, memory and processes.

Between us and the program stands a guard (`guard`), which ends it with all that it started, also
when this process is killed. Input and output are moved in one loop without waiting for either.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from typing import IO, TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

GUARD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "guard.py")
GRACE_S = 2.0
"""How long a program may take to end by itself once it is told to."""

_CHUNK = 65_536
_TICK_S = 0.1
_OVERDUE_S = 10.0
_PROGRESS_S = 0.5


class Order(NamedTuple):
    """What to start: the program with its arguments, its environment and folder.

    `remove` is a file that has to be gone afterwards, also when this process is killed.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    folder: str
    remove: str = ""


class Limits(NamedTuple):
    """What a program may use. More on stdout ends it; of stderr the end is kept."""

    timeout_s: float
    max_output: int
    max_stderr: int
    grace_s: float = GRACE_S


class Watch(NamedTuple):
    """Who looks on: `stop` says when to end it, `progress` takes seconds and bytes so far."""

    stop: Callable[[], bool]
    progress: Callable[[float, int], None] | None = None


class Ran(NamedTuple):
    """What came of it.

    `ended` is exit, timeout, flood, stopped, not_started or lost; `stage` and `errno` say what
    couldn't be done where it didn't start. `left` counts the processes that it left behind and that
    were ended; `taken` the bytes of its input that it took.
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


def run(order: Order, given: bytes, limits: Limits, watch: Watch) -> Ran:
    """Run a program to its end, with `given` on its stdin; nothing of it is left afterwards."""
    started = time.monotonic()
    try:
        guard, ours = _guarded()
    except OSError as error:
        return Ran("not_started", time.monotonic() - started, stage="start", errno=error.errno or 0)
    with ours, guard:
        going = _Going(guard, ours, given, limits)
        try:
            going.send(order)
            going.go(watch, started)
        finally:
            going.close()
    return going.ran(time.monotonic() - started)


def _guarded() -> tuple[subprocess.Popen[bytes], socket.socket]:
    """A guard that waits for its order, and our end of the line to it."""
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


class _Going:
    """A program that is going on, and all that has been heard of it."""

    def __init__(
        self, guard: subprocess.Popen[bytes], control: socket.socket, given: bytes, limits: Limits
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

    def send(self, order: Order) -> None:
        """Tell the guard what to start. Where it is gone already, its silence will say so."""
        pairs = [f"{name}={value}" for name, value in order.env.items()]
        head = [f"{self._limits.grace_s:g}", order.remove, order.folder, str(len(order.argv))]
        data = b"".join(os.fsencode(field) + b"\0" for field in [*head, *order.argv, *pairs])
        self._control.settimeout(_OVERDUE_S)
        with suppress(OSError):
            self._control.sendall(b"%d\n%b" % (len(data), data))

    def go(self, watch: Watch, started: float) -> None:
        """Move input and output until the guard has gone, or has to be given up."""
        self._register()
        ends, told_at = started + self._limits.timeout_s, started
        while self._control in self._select.get_map():
            now = time.monotonic()
            if now >= self._give_up_at:
                self._patience_s = 0.0
                return
            self._decide(watch, is_late=now >= ends)
            if watch.progress and now - told_at >= _PROGRESS_S:
                told_at = now
                watch.progress(now - started, self._out_bytes)
            for key, _ in self._select.select(_TICK_S if now >= ends else min(_TICK_S, ends - now)):
                key.data()
        self._drain()

    def close(self) -> None:
        """Let go of everything. What is still there is ended, in the end the hard way."""
        self._select.close()
        self._ask_to_end()
        try:
            self._guard.wait(self._patience_s)
        except subprocess.TimeoutExpired:
            self._guard.kill()
        if not self._facts("ended") and not self._facts("failed"):
            # A guard that was killed has ended nothing; the agent's group is all that we know.
            for number in self._facts("pid"):
                with suppress(OSError):
                    os.killpg(number, signal.SIGKILL)

    def ran(self, seconds: float) -> Ran:
        """What came of it, once it is closed."""
        err = bytes(self._err[max(0, len(self._err) - self._limits.max_stderr) :])
        heard = (bytes(self._out), self._out_bytes, err, self._err_bytes, self._taken)
        if failed := self._facts("failed"):
            stage = self._said.partition(b"failed ")[2].split()[0].decode()
            return Ran("not_started", seconds, None, *heard, stage=stage, errno=failed[-1])
        ended = self._facts("ended")
        code, left = ended if len(ended) == 2 else (None, 0)
        how = self._why or ("lost" if code is None else "exit")
        return Ran(how, seconds, code, *heard, left=left)

    def _facts(self, word: str) -> list[int]:
        """The numbers that the guard has said behind a word."""
        for line in self._said.decode("ascii", "replace").splitlines():
            first, *rest = line.split()
            if first == word:
                return [int(part) for part in rest if part.lstrip("-").isdigit()]
        return []

    def _register(self) -> None:
        self._control.setblocking(False)
        self._select.register(self._control, selectors.EVENT_READ, self._listen)
        for file, read in (
            (self._guard.stdout, self._read_out),
            (self._guard.stderr, self._read_err),
        ):
            if file is not None:
                os.set_blocking(file.fileno(), False)
                self._select.register(file, selectors.EVENT_READ, read)
        if self._guard.stdin is not None:
            os.set_blocking(self._guard.stdin.fileno(), False)
            self._select.register(self._guard.stdin, selectors.EVENT_WRITE, self._write)

    def _decide(self, watch: Watch, *, is_late: bool) -> None:
        """Whether the program has to end now. Once it has ended by itself, no limit counts."""
        if self._why or self._give_up_at < float("inf"):
            return
        if self._facts("exit"):
            self._give_up_at = time.monotonic() + self._patience_s
        elif is_late:
            self._stop("timeout")
        elif watch.stop():
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
            # It has closed its stdin: what it doesn't want to read is no failure.
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
        """What can be read now; nothing more is expected from a file at its end."""
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
        """Read what is left. Nobody writes any more, or nobody whom we could wait for."""
        most = 16 + (self._limits.max_output + self._limits.max_stderr) // _CHUNK
        for read in (self._read_out, self._read_err):
            for _ in range(most):
                before = self._out_bytes + self._err_bytes
                read()
                if before == self._out_bytes + self._err_bytes or self._why == "flood":
                    break

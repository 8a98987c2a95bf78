"""Python programs in processes of their own, without the time that Python takes to start.

A process that has loaded what such programs need (`python -m tests.processes`) forks one for each
that is asked for. What comes of it is a process like any other, with a number, a folder, an
environment and streams of its own; it is waited for and killed as usual. Tests of what happens
before a program's first line (start-up, encodings, closed streams) start Python instead.

A program that somebody else starts (a client its server) is forked as well where its command
begins with `forked_python()`: a small program that gives its streams to the one that is forked and
ends like it.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import io
import json
import os
import pkgutil
import random
import re
import runpy
import select
import shlex
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import traceback
import types
import warnings
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from tests.engine_files import copy_engine_files

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parent.parent
USUAL = ("core", "store", "ledger", "history", "context", "workspace", "search", "hosts", "cli")
"""The packages that every program gets; it loads the rest itself, or has it by being named."""
NAMED = {
    **dict.fromkeys(("relay", "run", "runs", "resume", "worker", "express", "ask"), "relay"),
    "mcp": "mcp",
    "serve": "web",
}
"""A word of a command, and the package that is loaded for it: these take most of a second."""
INHERITED = os.environ.get("PYTHONPATH", "").split(os.pathsep)
KNOWN = {str(ROOT), str(ROOT / "src"), *INHERITED}
LENGTH = struct.Struct("=I")
NUMBER = struct.Struct("=i")
STREAMS = 3
_STATUS = STREAMS


def run_python(
    command: Sequence[str],
    *,
    capture_output: bool = False,
    timeout: float | None = 240,
    check: bool = False,
    input: Any = None,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """subprocess.run for a command that begins with this Python."""
    if capture_output:
        options.update(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if input is not None:
        options["stdin"] = subprocess.PIPE
    with Process(command, **options) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(list(command), process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


class Process(subprocess.Popen[Any]):
    """subprocess.Popen for a command that begins with this Python, followed by a module (-m), by
    code (-c) or by a file. Only how it begins and how it is waited for differs.
    """

    _status: int

    def _execute_child(
        self, args: list[str], executable: object, preexec_fn: object, close_fds: bool, *rest: Any
    ) -> None:
        pass_fds, cwd, env, _, _, shell, *ends = rest
        given, _, _, out, _, err = ends[:6]
        assert args[0] == sys.executable
        assert not any((executable, preexec_fn, pass_fds, shell)), args
        env = dict(os.environ if env is None else env)
        found = set(env.get("PYTHONPATH", "").split(os.pathsep)) - {""}
        assert found <= KNOWN, "modules of its own need a Python that starts"
        streams = [own if end == -1 else end for own, end in enumerate((given, out, err))]
        self._status, said = os.pipe()
        request = {
            "argv": [os.fspath(arg) for arg in args[1:]],
            "cwd": os.fspath(cwd or os.getcwd()),
            "env": env,
            "new_session": bool(ends[11]),
        }
        try:
            self.pid = _server().fork(request, [*streams, said])
        finally:
            os.close(said)
            self._close_pipe_fds(*ends[:6])  # type: ignore[attr-defined]
        self._child_created = True

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if wait_flags & os.WNOHANG and not select.select([self._status], [], [], 0)[0]:
            return 0, 0
        said = os.read(self._status, NUMBER.size)
        os.close(self._status)
        assert said, "the process that forks has ended"
        return self.pid, NUMBER.unpack(said)[0]

    def _internal_poll(self, _deadstate: int | None = None, **_: object) -> int | None:
        if self.returncode is None and self._waitpid_lock.acquire(blocking=False):  # type: ignore[attr-defined]
            try:
                pid, status = (0, 0) if self.returncode is not None else self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode


STARTER = """
import json, os, signal, socket, sys
address, program, *argv = sys.argv[1:]
ended, status = os.pipe()
request = {"argv": argv, "cwd": os.getcwd(), "env": dict(os.environ), "program": program}
data = json.dumps(request).encode("utf-8", "surrogateescape")
with socket.socket(socket.AF_UNIX) as server:
    server.connect(address)
    socket.send_fds(server, [len(data).to_bytes(4, sys.byteorder)], [0, 1, 2, status])
    server.sendall(data)
    pid = int.from_bytes(server.recv(4), sys.byteorder)
signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
for number in (0, 1, 2, status):
    os.close(number)
code = os.waitstatus_to_exitcode(int.from_bytes(os.read(ended, 4), sys.byteorder))
os._exit(code if code >= 0 else 128 - code)
"""


def forked_python() -> str:
    """A program that does what this Python does with the same arguments; so does `sys.executable`
    in what it runs. Who starts it may not wait long: everything is loaded before.
    """
    server = _server()
    if not server.is_loaded:
        run_python([sys.executable, "-c", repr(" ".join(NAMED))], check=True)
        server.is_loaded = True
    return server.program


class Server:
    """The process that forks, as those see it who ask it."""

    def __init__(self) -> None:
        self.is_loaded = False
        self._socket, other = socket.socketpair()
        self._lock = threading.Lock()
        self._folder = tempfile.TemporaryDirectory(prefix="passdown-forks-")
        address = os.path.join(self._folder.name, "socket")
        self.program = os.path.join(self._folder.name, "python")
        with open(os.open(self.program, os.O_WRONLY | os.O_CREAT, 0o700), "w") as program:
            start = shlex.join([sys.executable, "-I", "-S", "-c", STARTER, address, self.program])
            real = shlex.quote(sys.executable)
            program.write(
                f'#!/bin/sh\ncase $1 in -m | -c | [!-]*) exec {start} "$@" ;; esac\n'
                f'exec {real} "$@"\n'
            )
        with other, socket.socket(socket.AF_UNIX) as listening:
            listening.bind(address)
            listening.listen()
            numbers = (other.fileno(), listening.fileno())
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.processes", *map(str, numbers)],
                cwd=ROOT,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT), *INHERITED)),
                    "PYTHONHASHSEED": "0",
                },
                stdin=subprocess.DEVNULL,
                pass_fds=numbers,
            )

    def fork(self, request: dict[str, Any], streams: list[int]) -> int:
        """The number of a new process."""
        data = json.dumps(request).encode("utf-8", "surrogateescape")
        with self._lock:
            socket.send_fds(self._socket, [LENGTH.pack(len(data))], streams)
            self._socket.sendall(data)
            return NUMBER.unpack(self._socket.recv(NUMBER.size, socket.MSG_WAITALL))[0]

    def close(self) -> None:
        """End it; what it has forked goes on."""
        self._socket.close()
        self._process.wait()
        self._folder.cleanup()


_servers: dict[int, Server] = {}


def _server() -> Server:
    """The one of this process."""
    if os.getpid() not in _servers:
        _servers[os.getpid()] = Server()
        atexit.register(_servers[os.getpid()].close)
    return _servers[os.getpid()]


class Request(NamedTuple):
    """What a new process is to do, and its streams."""

    argv: list[str]
    cwd: str
    env: dict[str, str]
    streams: list[int]
    new_session: bool = False
    program: str = sys.executable
    """What starts another program like this one."""


def serve(control: socket.socket, listening: socket.socket) -> Request | None:
    """Fork for each request. Gives what is to be done, in a new process; None at the end."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, _wake)
    running: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([control, listening, woken], [], [])
        if woken in ready:
            os.read(woken, 1_000)
            reap(running)
        if control not in ready and listening not in ready:
            continue
        asking = control if control in ready else listening.accept()[0]
        request = receive(asking)
        if request is None:
            if asking is control:
                return None
            continue
        load(request.argv)
        pid = os.fork()
        if not pid:
            leave((woken, wake, *running.values(), request.streams[_STATUS]))
            asking.close()
            return request
        running[pid] = request.streams[_STATUS]
        for descriptor in request.streams[:STREAMS]:
            os.close(descriptor)
        with contextlib.suppress(OSError):  # who asked may be gone by now
            asking.sendall(NUMBER.pack(pid))
        if asking is not control:
            asking.close()


def leave(descriptors: Sequence[int]) -> None:
    """In a new process, have nothing of the one that forks any more."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for descriptor in descriptors:
        os.close(descriptor)


def _wake(_signal: int, _frame: object) -> None:
    """A signal that is ignored wakes nobody."""


def reap(running: dict[int, int]) -> None:
    """Tell of every process that has ended."""
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with open(running.pop(pid), "wb", buffering=0) as told, contextlib.suppress(OSError):
            told.write(NUMBER.pack(status))


def receive(control: socket.socket) -> Request | None:
    """The next request; None when nobody is there any more."""
    with contextlib.suppress(OSError, ValueError):
        head, streams, _, _ = socket.recv_fds(control, LENGTH.size, STREAMS + 1)
        data = control.recv(LENGTH.unpack(head)[0], socket.MSG_WAITALL) if head else b""
        return Request(**json.loads(data.decode("utf-8", "surrogateescape")), streams=streams)
    return None


def load(argv: list[str]) -> None:
    """Load what a program needs before it is forked, so that the next one has it too."""
    words = set(re.findall(r"\w+", " ".join(argv)))
    for package in (*USUAL, *(package for word, package in NAMED.items() if word in words)):
        load_package(f"passdown.{package}")
    copy_engine_files()
    if argv[0] == "-m":
        importlib.import_module(argv[1])
    if os.path.exists("/proc/self/task"):
        # What a thread holds at a fork is held for ever in the new process.
        assert len(os.listdir("/proc/self/task")) == 1, f"something that {argv} loads has a thread"
    gc.freeze()


@cache
def load_package(name: str) -> None:
    """Load all modules of a package."""
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, f"{name}."):
        if not re.search("minilm|vectors|postgres", module.name):
            importlib.import_module(module.name)


def become(request: Request) -> None:
    """Be a process that was just started."""
    for number, descriptor in enumerate(request.streams[:STREAMS]):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if request.new_session:
        os.setsid()
    os.chdir(request.cwd)
    sys.executable = request.program
    os.environ.clear()
    os.environ.update(request.env)
    random.seed()
    sys.stdin, sys.stdout, sys.stderr = (stream(number) for number in range(STREAMS))
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    for action in request.env.get("PYTHONWARNINGS", "").split(","):
        if action:
            warnings.simplefilter(action)  # type: ignore[arg-type]
    execute(request.argv)


def stream(number: int) -> TextIO:
    """One of the standard streams, as Python opens it."""
    if not number:
        return open(0, encoding="utf-8", closefd=False)
    raw = open(number, "wb", closefd=False)  # noqa: SIM115
    errors = "backslashreplace" if number == STREAMS - 1 else "strict"
    is_direct = bool(os.environ.get("PYTHONUNBUFFERED"))
    is_in_lines = number == STREAMS - 1 or os.isatty(number)
    return io.TextIOWrapper(
        raw, "utf-8", errors, line_buffering=is_in_lines, write_through=is_direct
    )


def execute(argv: list[str]) -> None:
    """Run a program as Python would."""
    what, *rest = argv
    if what == "-m":
        sys.path.insert(0, os.getcwd())
        sys.modules.pop(rest[0] if rest[0] != "passdown" else "passdown.__main__", None)
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif what == "-c":
        sys.path.insert(0, "")
        sys.argv = ["-c", *rest[1:]]
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(rest[0], "<string>", "exec"), main.__dict__)
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(what)))
        sys.argv = argv
        runpy.run_path(what, run_name="__main__")


def main() -> None:
    numbers = map(int, sys.argv[1:])
    control, listening = (socket.socket(fileno=number) for number in numbers)
    with control, listening:
        request = serve(control, listening)
    if request:
        code = exit_code(request)
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
        for each in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                each.flush()
        # To take everything apart that was loaded would take longer than most programs do.
        os._exit(code)


def exit_code(request: Request) -> int:
    """Run a program; gives how it ends."""
    try:
        become(request)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 0xFF
        sys.stderr.write(f"{end.code}\n")
        return 1
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    main()

"""The guard: a small program between us and an agent, which ends the agent with all it started.

It is run as a script of its own (`python -I -S guard.py DESCRIPTOR PARENT`), imports the standard
library only, and is told over a socket what to start. It starts the agent in a session of its own
and ends it when it is told to, when it is signalled, and when its parent is gone however it went:
the socket then closes. On Linux orphans come to the guard, so that it finds every descendant, also
those with a session of their own; elsewhere it knows the agent's process group only.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from contextlib import suppress

LINGER_S = 0.5
"""How long what an ended agent leaves behind may take to end by itself."""
KILL_S = 5.0
"""For how long what doesn't go away is killed again: a fork may slip through once."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_IS_LINUX = sys.platform == "linux"
_STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main(control: int, parent: int) -> None:
    """Start what the order on the socket says, watch it, and say how it ended."""
    os.set_inheritable(control, False)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    wake_reader, wake_writer = os.pipe()
    for end in (wake_reader, wake_writer):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, *_STOPS):
        signal.signal(number, _note)
    gets_orphans = _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    grace, remove, folder, argv, environment = _order(control)
    child, failure = _start(control, folder, argv, environment)
    if failure:
        _say(control, failure)
        return
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)  # the agent alone may hold the pipes open
    guard = _Guard(child, gets_orphans=gets_orphans)
    guard.watch(control, wake_reader, parent)
    if guard.code is not None:
        _say(control, b"exit %d" % guard.code)
    left = guard.end(float(grace))
    if remove:
        with suppress(OSError):
            os.unlink(remove)
    _say(control, b"ended %d %d" % (guard.code if guard.code is not None else -9, left))


class _Guard:
    """One agent under watch; `code` is how it ended, None while it runs."""

    def __init__(self, child: int, *, gets_orphans: bool) -> None:
        self.child = child
        self.code: int | None = None
        self._gets_orphans = gets_orphans

    def watch(self, control: int, wake: int, parent: int) -> None:
        """Wait until the agent ends or has to."""
        poll = select.poll()
        for descriptor in (control, wake):
            poll.register(descriptor, select.POLLIN)
        while True:
            self.reap()
            if self.code is not None:
                return
            ready = {descriptor for descriptor, _ in poll.poll(1_000)}
            # A process that was forked from our parent may still hold its end of the socket.
            if control in ready or os.getppid() != parent:
                return
            if wake in ready and set(os.read(wake, 4_096)) & set(_STOPS):
                return

    def reap(self) -> bool:
        """Take note of all that have ended; gives whether any child is left."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self.child:
                    self.code = os.waitstatus_to_exitcode(status)
        except ChildProcessError:
            return False

    def end(self, grace: float) -> int:
        """End all that still runs: politely first, then not. Gives how many an ended agent left."""
        is_over = self.code is not None
        if is_over and self._are_gone_within(LINGER_S):
            return 0
        left = max(1, len(self._all()))
        self._send(signal.SIGTERM, signal.SIGCONT)
        if not self._are_gone_within(grace):
            ends = time.monotonic() + KILL_S
            while time.monotonic() < ends:
                self._kill()
                if self._are_gone_within(0.02):
                    break
        return left if is_over else 0

    def _are_gone_within(self, seconds: float) -> bool:
        ends = time.monotonic() + seconds
        while not self._are_gone():
            if time.monotonic() >= ends:
                return False
            time.sleep(0.01)
        return True

    def _are_gone(self) -> bool:
        """Whether nothing is left: who gets all orphans and has no child has no descendant."""
        return not self.reap() and (self._gets_orphans or not self._all())

    def _all(self) -> list[int]:
        """Every process that can be found; where orphans don't come to us, the group as one."""
        found = _descendants(os.getpid()) if self._gets_orphans else None
        if found is not None:
            return found
        try:
            os.killpg(self.child, 0)
        except OSError:
            return []
        return [-self.child]

    def _send(self, *signals: int) -> None:
        for target in self._all():
            for number in signals:
                with suppress(OSError):
                    os.kill(target, number)

    def _kill(self) -> None:
        """Kill all that is left. The group at once: no member can fork away between two looks."""
        if self.code is None:
            with suppress(OSError):
                os.killpg(self.child, signal.SIGKILL)
        self._send(signal.SIGKILL)
        self._kill_children()

    def _kill_children(self) -> None:
        """Kill our children many times over: of a chain of processes that each fork and exit, the
        last is our child for a moment only.
        """
        for _ in range(200):
            with suppress(OSError), open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
                for pid in file.read().split():
                    with suppress(OSError):
                        os.kill(int(pid), signal.SIGKILL)
            if not self.reap():
                return


def _descendants(root: int) -> list[int] | None:
    """The living descendants of a process; None where they can't be told."""
    children: dict[int, list[tuple[int, bytes]]] = {}
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return None
    for name in names:
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # The name of a program may hold anything, blanks and brackets too.
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        children.setdefault(int(parent), []).append((int(name), state))
    if not names:
        return None
    found: list[int] = []
    todo = [root]
    while todo:
        for pid, state in children.get(todo.pop(), []):
            todo.append(pid)
            if state not in (b"Z", b"X"):
                found.append(pid)
    return found


def _note(number: int, frame: object) -> None:
    """A signal has come; that it woke us is all that it is for."""


def _prctl(option: int, value: int) -> bool:
    """Ask the kernel for something that Linux alone has; gives whether it was granted."""
    if not _IS_LINUX:
        return False
    import ctypes

    try:
        return ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0
    except (OSError, AttributeError):
        return False


def _order(control: int) -> tuple[bytes, bytes, bytes, list[bytes], dict[bytes, bytes]]:
    """What to start: fields that end with a NUL each, behind a line that says their length."""
    data = b""
    while b"\n" not in data:
        data += _read(control)
    length, _, data = data.partition(b"\n")
    while len(data) < int(length):
        data += _read(control)
    grace, remove, folder, count, *rest = data.split(b"\0")[:-1]
    environment = dict(pair.split(b"=", 1) for pair in rest[int(count) :])
    return grace, remove, folder, rest[: int(count)], environment


def _read(control: int) -> bytes:
    data = os.read(control, 65_536)
    if not data:
        raise SystemExit(1)
    return data


def _start(
    control: int, folder: bytes, argv: list[bytes], environment: dict[bytes, bytes]
) -> tuple[int, bytes]:
    """Start the program; gives its process id, and why it couldn't be started."""
    (reader, writer), (go_reader, go_writer) = os.pipe(), os.pipe()
    guard = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(go_writer)
        os.read(go_reader, 1)
        _become(folder, argv, environment, writer, guard)
    # Said before it can do anything: it might kill its guard first of all.
    _say(control, b"pid %d" % child)
    for end in (writer, go_reader, go_writer):
        os.close(end)
    failure = os.read(reader, 100)
    os.close(reader)
    return child, failure


def _become(
    folder: bytes, argv: list[bytes], environment: dict[bytes, bytes], writer: int, guard: int
) -> None:
    """In the child: become the agent, or say why not and end."""
    stage = b"start"
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(127)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, *_STOPS):
            signal.signal(number, signal.SIG_DFL)
        stage = b"folder"
        os.chdir(folder)
        stage = b"program"
        os.execvpe(argv[0], argv, environment)  # noqa: S606 (a shell is what it must not have)
    except OSError as error:
        os.write(writer, b"failed %s %d" % (stage, error.errno or 0))
    finally:
        os._exit(127)


def _say(control: int, line: bytes) -> None:
    with suppress(OSError):
        os.write(control, line + b"\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

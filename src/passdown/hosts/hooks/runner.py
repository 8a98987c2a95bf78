"""Run a hook: bounded time, exit code 0, one response or none, a line in the log."""

from __future__ import annotations

import _thread
import os
import sys
import time
from typing import TYPE_CHECKING

from passdown.errors import NotFound
from passdown.hosts.definitions import HOSTS, SESSION_END, SESSION_START, TIMEOUTS_S
from passdown.hosts.hooks.files import append_log
from passdown.hosts.hooks.protocol import HookResponse, response_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.workspace.location import Location


LIMITS_S = {**dict.fromkeys(TIMEOUTS_S, 4.0), SESSION_END: 2.5}
"""How long each event may take in all; hosts wait longer than that (`TIMEOUTS_S`)."""

_WRITING_S = 0.5


def run_hook(words: Sequence[str], store: str | None = None) -> int:
    """Answer a host's call, whose JSON is on standard input; always gives 0.

    A code other than 0 would be shown to the agent, and 2 would block it.
    """
    host, event = (*words, "", "")[:2]
    guard = _Watchdog(host, event)
    try:
        _respond(guard, host, event, store)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001
        guard.failed(f"{type(error).__name__}: {error}")
    finally:
        guard.say("")
    return 0


def _respond(guard: _Watchdog, host: str, event: str, store: str | None) -> None:
    from passdown.hosts.hooks.protocol import MalformedInput, parse_call

    if os.environ.get("PASSDOWN_HOOKS") == "off":
        return
    # Known before anything can go wrong, so that there is a log to write it to.
    here = _here()
    place = guard.at(_place(here, store))
    data = _input()
    faults: list[str] = []
    try:
        call = parse_call(host, event, data)
    except MalformedInput as error:
        faults.append(f"malformed input: {error}")
        call = parse_call(host, event, b"")
    if not os.path.isdir(call.cwd):
        call = call._replace(cwd="")
    elif call.cwd != here:
        place = guard.at(_place(call.cwd, store))
    if place is None:
        return
    if host not in HOSTS or event not in HOSTS[host].events:
        guard.failed(f"unknown: {host[:40]} {event[:40]}")
    elif faults and event != SESSION_START:
        guard.failed(faults[0])
    else:
        from passdown.hosts.hooks.events import HookContext, handle
        from passdown.workspace.context import read_settings

        context = HookContext(call, place, read_settings(place.config), guard.deadline, faults)
        guard.finished(handle(context), faults)


def _here() -> str:
    """The folder that the host started us in; an agent may have removed it meanwhile."""
    try:
        return os.getcwd()
    except OSError:
        return os.sep


def _input() -> bytes:
    from passdown.hosts.hooks.protocol import MAX_INPUT

    if sys.stdin is None or sys.stdin.isatty():  # pyright: ignore[reportUnnecessaryComparison]
        return b""
    return sys.stdin.buffer.read(MAX_INPUT + 1)


def _place(folder: str, store: str | None) -> Location | None:
    """The workspace around a folder, unless another one is named; None where there is none."""
    from passdown.workspace.location import locate

    try:
        return locate(store or os.environ.get("PASSDOWN_STORE") or folder, create=False)
    except NotFound:
        return None


class _Watchdog:
    """Sees to it that a hook ends in time and answers once.

    A thread of its own ends the process when the time is over, whatever the process is waiting
    for: a lock, a disk, its input. What was being written to the store is then as if never begun.
    (Most prompts need no store, and without one nothing loads `threading`.)
    """

    def __init__(self, host: str, event: str) -> None:
        self.host = host
        self.event = event
        self.folder = ""
        self.begun = time.monotonic()
        limit = LIMITS_S.get(event, 4.0)
        self.deadline = self.begun + limit
        self._turn = _thread.allocate_lock()
        self._said = False
        self._going_on = _thread.allocate_lock()
        self._going_on.acquire()
        _thread.start_new_thread(self._watch, (limit,))

    def _watch(self, limit: float) -> None:
        if self._going_on.acquire(timeout=limit):
            return
        if self._turn.acquire(timeout=_WRITING_S) and not self._said:
            os.write(1, self._silence().encode())
            self.failed(f"took longer than {limit} s")
        os._exit(0)

    def at(self, place: Location | None) -> Location | None:
        """Take the workspace whose log is written to."""
        self.folder = place.folder if place else ""
        return place

    def _silence(self) -> str:
        return response_text(self.host, self.event, HookResponse()) if self.host in HOSTS else ""

    def say(self, text: str) -> None:
        """Answer, unless that was done: with silence where there is nothing to say."""
        with self._turn:
            if self._said:
                return
            self._said = True
            sys.stdout.write(text or self._silence())
            sys.stdout.flush()
        self._going_on.release()

    def finished(self, answer: HookResponse, faults: Sequence[str]) -> None:
        """Say what was found, and that all went well, or what didn't."""
        self.say(response_text(self.host, self.event, answer))
        told = len(answer.context or answer.request)
        about = answer.about if told else ""
        self._log("fault" if faults else "ok", "; ".join(faults), told, about)

    def failed(self, what: str) -> None:
        """Write down what went wrong."""
        self._log("fault", what)

    def _log(self, level: str, what: str, told: int = 0, about: str = "") -> None:
        if self.folder:
            took = round((time.monotonic() - self.begun) * 1000)
            facts = {"host": self.host[:40], "event": self.event[:40], "level": level}
            what = " ".join(what.split())
            append_log(self.folder, **facts, what=what, told=told, about=about, ms=took)

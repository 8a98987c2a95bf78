"""The log of hooks: one line per call, two files of bounded size, and what a doctor reads in it."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import Any, cast

from passdown.model.values import NamedTuple

MAX_BYTES = 262_144
_LOG = os.path.join("logs", "hooks.log")
_LONGEST = 600
_TAIL = 65_536


def log_path(folder: str) -> str:
    """The log of a workspace, whose own folder is given; the one before it ends in `.1`."""
    return os.path.join(folder, _LOG)


def write_line(folder: str, **facts: object) -> None:
    """Add a line in one write, so that lines stay whole; nothing happens where that can't be."""
    given = {name: value for name, value in facts.items() if value not in ("", None)}
    line = json.dumps({"at": _now(), **given}, default=str)
    if len(line) > _LONGEST:
        short = {name: value for name, value in given.items() if name != "what"}
        line = json.dumps({"at": _now(), **short, "what": str(given.get("what"))[:200]})
    path = log_path(folder)
    with suppress(OSError):
        try:
            _append(path, line[:2048])
        except FileNotFoundError:
            os.mkdir(os.path.dirname(path), 0o700)
            _append(path, line[:2048])


def _append(path: str, line: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, line.encode() + b"\n")
        is_full = os.fstat(descriptor).st_size > MAX_BYTES
    finally:
        os.close(descriptor)
    if is_full:
        with suppress(OSError):
            # Another process may have done it already: what is small then is not moved.
            if os.stat(path).st_size > MAX_BYTES:
                os.replace(path, f"{path}.1")


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def last_lines(folder: str, limit: int = 200) -> list[dict[str, Any]]:
    """The last calls, oldest first; lines that can't be read are left out."""
    try:
        with open(log_path(folder), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            data = file.read(_TAIL)
    except OSError:
        return []
    found: list[dict[str, Any]] = []
    for line in data.decode(errors="replace").splitlines()[-limit:]:
        with suppress(ValueError):
            entry = json.loads(line)
            if isinstance(entry, dict):
                found.append(cast("dict[str, Any]", entry))
    return found


class Fired(NamedTuple):
    """How a hook went when it last ran: when, what it told in how many characters, how long it
    took, and what went wrong (empty: nothing).
    """

    at: str
    about: str
    told: int
    ms: int
    fault: str


def last_fired(folder: str) -> dict[str, Fired]:
    """The last call of each hook, by host and event."""
    found: dict[str, Fired] = {}
    for entry in last_lines(folder):
        name = f"{entry.get('host', '?')} {entry.get('event', '?')}"
        fault = "" if entry.get("level") == "ok" else str(entry.get("what") or "unknown")
        found[name] = Fired(
            str(entry.get("at", "")),
            str(entry.get("about", "")),
            _count(entry.get("told")),
            _count(entry.get("ms")),
            fault,
        )
    return found


def _count(value: object) -> int:
    return value if type(value) is int else 0

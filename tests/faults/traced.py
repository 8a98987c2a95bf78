"""System calls of one operation, each of which can be made to fail: strace finds and injects them.

A first run lists the calls that touch the watched folder, with their number among all calls of that
name; further runs let the call with that number fail, or kill the process there.
"""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.faults.tools import ROOT, worker_command, worker_environment

if TYPE_CHECKING:
    from pathlib import Path

MARK = "passdown-operation-begins"
LOCKS = ("F_SETLK", "F_SETLKW", "F_OFD_SETLK")

FAULTS: dict[str, tuple[str, ...]] = {
    "openat": ("error=EMFILE", "error=EIO", "error=ENOSPC", "signal=KILL"),
    "pwrite64": ("error=EIO", "error=ENOSPC", "signal=KILL"),
    "write": ("error=EIO", "error=ENOSPC", "signal=KILL"),
    "pread64": ("error=EIO", "signal=KILL"),
    "read": ("error=EIO", "signal=KILL"),
    "fdatasync": ("error=EIO", "signal=KILL"),
    "fsync": ("error=EIO", "error=ENOSPC", "signal=KILL"),
    "ftruncate": ("error=EIO", "signal=KILL"),
    "rename": ("error=EIO", "error=ENOSPC", "signal=KILL"),
    "link": ("error=EIO", "error=ENOSPC", "signal=KILL"),
    "unlink": ("error=EIO", "signal=KILL"),
    "fcntl": ("error=ENOLCK", "error=EIO", "signal=KILL"),
    "flock": ("error=ENOLCK", "signal=KILL"),
    "mkdir": ("error=ENOSPC", "error=EIO", "signal=KILL"),
    "mmap": ("error=ENOMEM",),
    "newfstatat": ("error=EIO",),
    "close": ("error=EIO",),
}
_LINE = re.compile(r"\d+ +(\w+)\((.*)")


class Call(NamedTuple):
    """One system call on the watched folder: its name, its number, and its arguments as traced."""

    name: str
    number: int
    text: str


class Fault(NamedTuple):
    """What to do to one call of an operation."""

    step: str
    call: Call
    what: str

    def __str__(self) -> str:
        return f"{self.step}: {self.what} at {self.call.name} {self.call.number} {self.call.text}"


class Outcome(NamedTuple):
    """How a run ended (killed, typed, untyped or done), and whether the fault struck."""

    how: str
    struck: bool
    words: str


def calls_of(strace: str, log: Path, folder: Path, job: str, **options: Any) -> list[Call]:
    """The calls of an operation on `folder`, found by running it once without a fault."""
    ended = _run(strace, log, [*FAULTS, "stat"], [], job=job, folder=folder, **options)
    assert ended.returncode == 0, ended.stderr
    counts: dict[str, int] = {}
    found: list[Call] = []
    has_begun = False
    for line in log.read_text("utf-8", "replace").splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        name, text = match.groups()
        has_begun = has_begun or MARK in text
        counts[name] = counts.get(name, 0) + 1
        if not has_begun or str(folder) not in text or name not in FAULTS:
            continue
        if name == "fcntl" and not any(lock in text for lock in LOCKS):
            continue
        found.append(Call(name, counts[name], text.replace(str(folder), "")[:160]))
    assert found, "the operation makes no calls"
    return found


def run_with(
    strace: str, log: Path, folder: Path, fault: Fault, job: str, **options: Any
) -> Outcome:
    """Run the operation once more with the fault."""
    inject = f"--inject={fault.call.name}:{fault.what}:when={fault.call.number}"
    ended = _run(strace, log, [fault.call.name], [inject], job=job, folder=folder, **options)
    text = log.read_text("utf-8", "replace")
    struck = "killed by SIGKILL" in text
    struck = struck or any("INJECTED" in x and str(folder) in x for x in text.splitlines())
    names = {0: "done", 3: "typed", -9: "killed", 137: "killed"}
    how = names.get(ended.returncode, "untyped")
    return Outcome(how, struck, ended.stderr[-1500:])


def _run(
    strace: str,
    log: Path,
    names: list[str],
    more: list[str],
    *,
    job: str,
    folder: Path,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    trace = [strace, "-f", "-y", "-o", str(log), "-e", "trace=" + ",".join(names)]
    if not any("signal" in option for option in more):
        trace.append("--seccomp-bpf")  # faster, but signals aren't injected then
    return subprocess.run(
        [*trace, *more, *worker_command(job, folder=str(folder), **options)],
        cwd=ROOT,
        env=worker_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )

"""Git, asked for what it knows and never changed: no lock is taken, no hook, filter or file watcher
is started, nothing is fetched, and every answer is bounded.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterable, Mapping

TIMEOUT_S = 2.0
"""How long git may take where an agent waits for the answer; a hook has four seconds in all."""

_OPTIONS = ("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")
# Set while git runs a hook; they would point it at another repository.
_FOREIGN = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR")


class NoAnswer(Exception):
    """Git gave no answer; the message says why."""


class Git:
    """Git in one folder, with one time limit for all that is asked."""

    def __init__(self, root: str, timeout_s: float) -> None:
        import time

        self._root = root
        self._timeout_s = timeout_s
        self._clock = time.monotonic
        self._ends = self._clock() + timeout_s

    def answer(self, *arguments: str) -> str:
        """What git prints, as text; see `data`."""
        return self.data(*arguments).decode("utf-8", "backslashreplace")

    def data(self, *arguments: str, environment: Mapping[str, str] | None = None) -> bytes:
        """What git prints; raises NoAnswer when it fails, isn't there or takes too long."""
        import subprocess

        try:
            process = subprocess.Popen(
                ["git", "-C", self._root, *_OPTIONS, *arguments],
                env={**_environment(os.environ.items()), **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise NoAnswer(f"git can't be started ({error.strerror})") from None
        with process:
            try:
                out, err = process.communicate(timeout=max(0.0, self._ends - self._clock()))
            except subprocess.TimeoutExpired:
                _end(process)
                raise NoAnswer(f"git took longer than {self._timeout_s:g} s") from None
            except BaseException:
                _end(process)
                raise
        if process.returncode != 0:
            lines = err.decode("utf-8", "backslashreplace").splitlines()
            raise NoAnswer(lines[0] if lines else f"git ended with {process.returncode}")
        return out

    def without_filters(self) -> list[str]:
        """Options that switch off the repository's filters: each would be a program to run.

        Raises NoAnswer for a filter whose name no option can hold.
        """
        try:
            names = self.answer("config", "-z", "--name-only", "--get-regexp", r"^filter\..*\.")
        except NoAnswer:
            return []
        filters = {name.rpartition(".")[0] for name in names.split("\0") if name}
        if any("=" in name for name in filters):
            # What stands behind the first "=" of an option is its value.
            raise NoAnswer("a filter of this repository has '=' in its name")
        settings = [f"{name}.{key}=" for name in sorted(filters) for key in ("clean", "process")]
        settings += [f"{name}.required=false" for name in sorted(filters)]
        return [part for setting in settings for part in ("-c", setting)]


def _environment(given: Iterable[tuple[str, str]]) -> dict[str, str]:
    kept = {name: value for name, value in given if name not in _FOREIGN}
    fixed = {"GIT_OPTIONAL_LOCKS": "0", "GIT_LITERAL_PATHSPECS": "1", "GIT_TERMINAL_PROMPT": "0"}
    # Nothing is fetched for an answer, whatever the repository is set up to do.
    fixed |= {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
    return {**kept, **fixed, "LC_ALL": "C"}


def _end(process: subprocess.Popen[bytes]) -> None:
    """End git and whatever it started: a filter left behind would hold the answer open."""
    import signal
    from contextlib import suppress

    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)

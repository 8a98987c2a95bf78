"""Asking for a branch to be taken over: through the user's own command, or by saying how.

Nothing is pushed here; only the command may do that.
"""

from __future__ import annotations

import os
import re
import selectors
import shlex
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.errors import GitError
from passdown.model.text import visible
from passdown.relay.repository import Repository

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "PASSDOWN_PR_COMMAND"
TIMEOUT_S = 120.0
MAX_OUTPUT_BYTES = 65_536

_PLACEHOLDER = re.compile(r"\{(branch|title|body_file|base)\}")
_URL = re.compile(r"https?://[^\s\"'<>\x00-\x1f]+")
_TOO_MUCH = f"printed more than {MAX_OUTPUT_BYTES:,} bytes"


class Request(NamedTuple):
    """What is asked for: that `branch` be taken over into `base`, and why."""

    branch: str
    base: str
    title: str
    body: str


class PullRequest(NamedTuple):
    """What came of it. `said` is what the command printed, `problem` why there is no pull request,
    `suggestion` the command that would bring the branch further.
    """

    is_open: bool
    url: str = ""
    said: str = ""
    problem: str = ""
    suggestion: str = ""

    def as_document(self) -> dict[str, Any]:
        """The answer as a plain JSON object."""
        return self._asdict()


def open_pull_request(
    root: str,
    request: Request,
    *,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> PullRequest:
    """Run the command that the environment names, in the project, and give what came of it.

    Settings don't name it: they come with the repository, which must not choose what is run. No
    shell reads it: `{branch}`, `{title}`, `{body_file}` and `{base}` each stay one argument. A
    command that fails, prints too much or takes too long is a problem in the answer, no error: the
    branch is there all the same.
    """
    command = (os.environ if environment is None else environment).get(VARIABLE, "")
    suggestion = suggested(root, request.branch)
    try:
        words = shlex.split(command)
    except ValueError as error:
        problem = f"{VARIABLE} can't be read ({error})"
        return PullRequest(False, problem=problem, suggestion=suggestion)
    if not words:
        problem = f"{VARIABLE} is not set; the branch is there and was not pushed"
        return PullRequest(False, problem=problem, suggestion=suggestion)
    said, problem = _asked(words, request, root, timeout_s)
    if problem:
        return PullRequest(False, "", said, f"{VARIABLE}: {problem}", suggestion)
    urls = _URL.findall(said)
    return PullRequest(True, urls[-1] if urls else "", said)


def suggested(root: str, branch: str) -> str:
    """The command that pushes a branch, or merges it where there is nowhere to push to."""
    try:
        remotes = Repository(root).remotes()
    except GitError:
        remotes = ()
    words = ["push", remotes[0], branch] if remotes else ["merge", branch]
    return shlex.join(["git", "-C", root, *words])


def _asked(words: list[str], request: Request, root: str, timeout_s: float) -> tuple[str, str]:
    """What the command printed, and what is wrong with how it ended."""
    with tempfile.TemporaryDirectory(prefix="passdown-") as folder:
        body_file = os.path.join(folder, "body.md")
        with open(body_file, "w", encoding="utf-8") as file:
            file.write(request.body)
        values = {
            "branch": request.branch,
            "base": request.base,
            # It must not pass for an option, wherever the command puts it.
            "title": request.title.lstrip("- ") or request.branch,
            "body_file": body_file,
        }
        # In one pass: a title that looks like a placeholder stays a title.
        filled = [_PLACEHOLDER.sub(lambda found: values[found[1]], word) for word in words]
        try:
            process = subprocess.Popen(
                filled,
                cwd=root,
                env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return "", f"can't be started ({error})"
        with process:
            out, problem = _output(process, time.monotonic() + timeout_s)
            if problem:
                _end(process)
    said = visible(out.decode("utf-8", "replace").strip(), keep_newlines=True)
    if not problem and process.returncode:
        problem = f"ended with {process.returncode}"
    return said, problem


def _output(process: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, str]:
    """What a command prints until it ends; a problem when that is too much or takes too long."""
    out = b""
    with selectors.DefaultSelector() as selector:
        pipe = selector.register(process.stdout or -1, selectors.EVENT_READ).fd
        while (left := deadline - time.monotonic()) > 0:
            if not selector.select(left):
                continue
            chunk = os.read(pipe, 8_192)
            out += chunk
            if len(out) > MAX_OUTPUT_BYTES:
                return out[:MAX_OUTPUT_BYTES], _TOO_MUCH
            if not chunk:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, deadline - time.monotonic()))
                    return out, ""
    return out, "took too long"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the command with whatever it started."""
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()

"""Python functions and scripts as agents: for programs, tests and demonstrations without a model.

A script that is a mapping gives each agent (`dev`), or each agent on one leg (`dev/build`), a list:
the first entry answers the first visit, and so on. An entry is an answer, or a list of answers, one
per attempt. Which answer is due depends only on the request, so it is the same in every process and
after a crash. A script that is a list is followed call by call, in this process only.

An answer is a text or has the fields `text`, `fail` (it fails with this sentence), `exit_code`,
`files` (paths in the working folder, with their text), `commit` (commits these files with this
message) and `sleep_s`. In Python it may also be an AgentReply or a function of the request.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import os
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, cast

from passdown.core.arguments import raise_problems
from passdown.core.intake import as_error
from passdown.core.names import agent_problems, normal_path, path_problems
from passdown.core.parsing import load_json, load_yaml
from passdown.core.schema import (
    Checks,
    Map,
    Number,
    Optional,
    Part,
    Text,
    declare,
    shape,
    value_of,
)
from passdown.core.text import child_path, text_problems
from passdown.errors import GitError, InvalidInput, NotFound, Problem
from passdown.relay.runners import AgentReply, AgentRequest, Runner
from passdown.relay.runners.command import CommandRunner

FunctionResult = str | AgentReply
Function = Callable[[AgentRequest], FunctionResult | Awaitable[FunctionResult]]

_LAST_LINES = 12
_POLL_S = 0.05


class CallableRunner:
    """Calls a function for each turn: it returns the text of the reply, or an AgentReply.

    An exception becomes a failure. An async function is cancelled at the time limit and when the
    turn is stopped; a plain one must check `request.is_stopped()` itself.
    """

    def __init__(self, function: Function, *, timeout_s: float | None = None) -> None:
        if not callable(function):
            found = f"{type(function).__name__} given"
            problem = Problem("", "wrong_type", found, "a function of the request")
            raise InvalidInput("the runner is invalid", [problem])
        self.function = function
        self.timeout_s = timeout_s

    def __call__(self, asked: AgentRequest) -> AgentReply:
        """Call the function once."""
        started = time.monotonic()
        try:
            answer: Any = self.function(asked)
            if inspect.isawaitable(answer):
                limits = [s for s in (self.timeout_s, asked.timeout_s) if s is not None]
                answer = _awaited(answer, asked, min(limits, default=None))
        except _Cancelled as error:
            reply = AgentReply(failure=error.failure, error=str(error))
        except Exception as error:  # noqa: BLE001 (an agent's error is a failed reply)
            lines = "".join(traceback.format_exception(error)).strip().splitlines()
            evidence = {"traceback": "\n".join(lines[-_LAST_LINES:])}
            text = f"The function raised {type(error).__name__}."
            reply = AgentReply(failure="raised", error=text, evidence=evidence)
        else:
            reply = AgentReply(text=answer) if isinstance(answer, str) else answer
            if not isinstance(reply, AgentReply):
                text = f"The function returned {type(answer).__name__} instead of text."
                reply = AgentReply(failure="wrong_type", error=text)
        return replace(
            reply,
            seconds=reply.seconds or time.monotonic() - started,
            bytes_in=reply.bytes_in or _size("".join(m["content"] for m in asked.messages)),
            bytes_out=reply.bytes_out or _size(reply.text),
        )


def as_runner(given: Runner | Function) -> Runner:
    """A runner as it is; a plain function as one."""
    if isinstance(given, CallableRunner | ScriptedRunner | CommandRunner):
        return given
    return CallableRunner(given)


class _Cancelled(Exception):
    """A function was cancelled by us; the message says why."""

    def __init__(self, failure: str, message: str) -> None:
        super().__init__(message)
        self.failure = failure


def _awaited(
    answer: Awaitable[FunctionResult], asked: AgentRequest, limit: float | None
) -> FunctionResult:
    """The result of an awaitable, in its own loop; raises _Cancelled if it took too long."""
    watched = _watched(answer, asked, limit)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(watched)
    # This thread has a running loop, and loops can't be nested.
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(context.run, asyncio.run, watched).result()


async def _watched(
    answer: Awaitable[FunctionResult], asked: AgentRequest, limit: float | None
) -> FunctionResult:
    task = asyncio.ensure_future(answer)
    ends = time.monotonic() + limit if limit is not None else float("inf")
    while not task.done():
        await asyncio.wait([task], timeout=max(0.0, min(_POLL_S, ends - time.monotonic())))
        is_late = time.monotonic() >= ends
        if not task.done() and (is_late or asked.is_stopped()):
            task.cancel()
            await asyncio.wait([task])
            if is_late:
                raise _Cancelled("timeout", f"The function took longer than {limit:.4g} s.")
            raise _Cancelled("stopped", "The turn was stopped and the function cancelled.")
    if task.cancelled():
        raise _Cancelled("raised", "The function cancelled itself.")
    return task.result()


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def write_files(folder: str, files: Mapping[str, str]) -> None:
    """Write texts in a folder; raises InvalidInput, and writes none, if a path leads out of it."""
    problems: list[Problem] = []
    root = os.path.realpath(folder)
    for path in files:
        real = os.path.realpath(os.path.join(root, *path.split("/")))
        if os.path.commonpath([root, real]) != root:  # by a link
            message = f"{path} leads out of the working folder"
            where, expected = f"files.{path}", "a file inside it"
            problems.append(Problem(where, "path_escapes_root", message, expected))
    if not folder or not os.path.isdir(folder):
        problems = [Problem("workdir", "required", "the working folder does not exist", "a folder")]
    raise_problems("the files can't be written", problems)
    for path, text in files.items():
        target = os.path.join(folder, *path.split("/"))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w", encoding="utf-8", newline="") as file:
            file.write(text)


def commit_files(folder: str, paths: Sequence[str], message: str, agent: str) -> None:
    """Commit files with an agent as author, unless they are committed already.

    No hook is run and nothing is signed. Raises InvalidInput with git's message.
    """
    from passdown.relay.git import Repository

    author = {f"GIT_{role}_NAME": agent for role in ("AUTHOR", "COMMITTER")}
    author |= {f"GIT_{r}_EMAIL": f"{agent}@passdown.invalid" for r in ("AUTHOR", "COMMITTER")}
    try:
        repository = Repository(folder)
        repository.run("add", "--", *paths)
        if repository.run("diff", "--cached", "--name-only", "--", *paths).strip():
            repository.run("commit", "-q", "-m", message, "--", *paths, environment=author)
    except GitError as error:
        problem = Problem("commit", "git_failed", error.message[-500:], "a repository")
        raise InvalidInput("the files can't be committed", [problem]) from error


MAX_TEXT = 1_000_000
_TICK_S = 0.02


def _own_file_problems(name: object, path: str) -> list[Problem]:
    """A path inside the working folder that isn't git's or ours."""
    problems = path_problems(name, path)
    if not problems and {".git", ".passdown"} & set(normal_path(str(name)).lower().split("/")):
        problems = [Problem(path, "own_file", "is not for agents", "a file of the project")]
    return problems


_TEXT = Text(lambda value, path: text_problems(value, path, required=False, max_length=MAX_TEXT))


@shape
class ScriptedReply:
    """What an agent says and does in one attempt, by a script."""

    text: str = declare(_TEXT, default="", takes_text=True)
    fail: str = declare(_TEXT, default="")
    exit_code: int | None = declare(Optional(Number(-999_999, 999_999)), default=None)
    files: Mapping[str, str] = declare(
        Map(_TEXT, key=Text(_own_file_problems)), default_factory=dict
    )
    commit: str = declare(_TEXT, default="")
    sleep_s: float = declare(Number(0, 3_600, is_float=True), default=0.0)


ScriptEntry = ScriptedReply | AgentReply | Callable[[AgentRequest], Any]


class ScriptedRunner:
    """Replies as a script says; raises InvalidInput with all problems of the script."""

    def __init__(self, replies: Sequence[object] | Mapping[str, object]) -> None:
        problems: list[Problem] = []
        self._calls = 0
        self._lock = threading.Lock()
        self._in_order: tuple[ScriptEntry, ...] = ()
        self._by_agent: dict[str, tuple[tuple[ScriptEntry, ...], ...]] = {}
        if isinstance(replies, Mapping):
            self._by_agent = _by_agent(cast("Mapping[object, object]", replies), problems)
        elif isinstance(replies, Sequence) and not isinstance(replies, str | bytes):  # pyright: ignore[reportUnnecessaryIsInstance]
            self._in_order = tuple(
                _entry(each, f"[{index}]", problems) for index, each in enumerate(replies)
            )
        else:
            given = f"{type(replies).__name__} given"
            problems.append(Problem("", "wrong_type", given, "a list, or lists by agent"))
        raise_problems("the script is invalid", problems)

    @classmethod
    def from_file(cls, path: str) -> ScriptedRunner:
        """The script of a YAML or JSON file: lists by agent, at the top or under `replies`."""
        try:
            with open(path, "rb") as file:
                data = file.read(MAX_TEXT + 1)
        except OSError as error:
            message = f"{path} can't be read ({error.strerror or error})"
            problem = Problem("script", "unreadable", message, "a readable file")
            raise InvalidInput("the script is invalid", [problem]) from error
        loaded = load_json(data) if path.endswith(".json") else load_yaml(data)
        script = cast("dict[str, object]", loaded if isinstance(loaded, dict) else {})
        if list(script) == ["replies"]:
            script = cast("dict[str, object]", script["replies"])
        if not isinstance(script, dict) or not script:  # pyright: ignore[reportUnnecessaryIsInstance]
            expected = "agents, each with a list of answers"
            problem = Problem("", "wrong_type", "the file has no lists of answers", expected)
            raise InvalidInput("the script is invalid", [problem])
        return cls(script)

    def __call__(self, asked: AgentRequest) -> AgentReply:
        """The answer that is due; raises NotFound if the script has none."""
        entry = self._due(asked)
        if isinstance(entry, ScriptedReply):
            return CallableRunner(lambda asked: _play(entry, asked))(asked)
        return CallableRunner(entry if callable(entry) else lambda _: entry)(asked)

    def _due(self, asked: AgentRequest) -> ScriptEntry:
        if not self._by_agent:
            with self._lock:
                number = self._calls
                self._calls += 1
            if number < len(self._in_order):
                return self._in_order[number]
            raise _no_reply_left(asked, f"it has {len(self._in_order)} answers, all given")
        key = f"{asked.agent}/{asked.leg}"
        visits = self._by_agent.get(key if key in self._by_agent else asked.agent)
        if visits is None:
            raise _no_reply_left(asked, f"it knows {', '.join(self._by_agent) or 'nobody'}")
        if asked.visit > len(visits):
            raise _no_reply_left(asked, f"it has {len(visits)} visits")
        attempts = visits[asked.visit - 1]
        if asked.attempt > len(attempts):
            raise _no_reply_left(asked, f"it has {len(attempts)} attempts for this visit")
        return attempts[asked.attempt - 1]


def _no_reply_left(asked: AgentRequest, why: str) -> NotFound:
    leg = f", leg {asked.leg}" if asked.leg else ""
    return NotFound(
        f"the script has no answer for {asked.agent}{leg}, visit {asked.visit}, "
        f"attempt {asked.attempt}: {why}",
        next_step="Add an answer to the script.",
    )


def _by_agent(
    script: Mapping[object, object], problems: list[Problem]
) -> dict[str, tuple[tuple[ScriptEntry, ...], ...]]:
    found: dict[str, tuple[tuple[ScriptEntry, ...], ...]] = {}
    for name, visits in script.items():
        path = child_path("", str(name))
        problems += agent_problems(str(name).partition("/")[0], path)
        if not isinstance(visits, Sequence) or isinstance(visits, str | bytes):
            given = f"{type(visits).__name__} given"
            problems.append(Problem(path, "wrong_type", given, "a list: one entry per visit"))
            continue
        attempts: list[tuple[ScriptEntry, ...]] = []
        for at, entry in enumerate(cast("Sequence[object]", visits)):
            within, given = f"{path}[{at}]", {f"{path}[{at}]": entry}
            if isinstance(entry, Sequence) and not isinstance(entry, str | bytes):
                several = cast("Sequence[object]", entry)
                given = {f"{within}[{i}]": each for i, each in enumerate(several)}
            attempts.append(tuple(_entry(e, where, problems) for where, e in given.items()))
        found[str(name)] = tuple(attempts)
    return found


def _entry(entry: object, path: str, problems: list[Problem]) -> ScriptEntry:
    if isinstance(entry, ScriptedReply | AgentReply) or callable(entry):
        return entry
    checks = Checks()
    plain = Part(ScriptedReply).read(entry, path, checks)
    problems += [as_error(problem) for problem in checks.problems()]
    if plain and plain["commit"] and not plain["files"]:
        where = child_path(path, "commit")
        problems.append(Problem(where, "required", "there is nothing to commit", "files too"))
    return ScriptedReply() if checks.has_errors else value_of(ScriptedReply, plain)


def _play(entry: ScriptedReply, asked: AgentRequest) -> AgentReply:
    """Do what an answer says."""
    if cut := _sleep(entry.sleep_s, asked):
        return AgentReply(failure=cut, error=f"The script was ended while it slept ({cut}).")
    if entry.files:
        files = {normal_path(name): text for name, text in entry.files.items()}
        write_files(asked.workdir, files)
        if entry.commit:
            commit_files(asked.workdir, list(files), entry.commit, asked.agent)
    failure = "scripted" if entry.fail else ("exit" if entry.exit_code else "")
    error = f"The script ended with exit code {entry.exit_code}." if failure else ""
    return AgentReply(
        text=entry.text, exit_code=entry.exit_code, failure=failure, error=entry.fail or error
    )


def _sleep(seconds: float, asked: AgentRequest) -> str:
    """Wait; returns what ended the wait early (stopped or timeout), or ""."""
    ends = time.monotonic() + seconds
    limit = ends - seconds + (float("inf") if asked.timeout_s is None else asked.timeout_s)
    while (left := min(ends, limit) - time.monotonic()) > 0:
        if asked.is_stopped():
            return "stopped"
        time.sleep(min(_TICK_S, left))
    return "timeout" if limit < ends else ""

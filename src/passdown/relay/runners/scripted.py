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
from typing import Any, NamedTuple, cast

from passdown.core.names import agent_problems, normal_path, path_problems
from passdown.core.parsing import load_json, load_yaml
from passdown.core.text import child_path, excerpt, text_problems
from passdown.errors import GitError, InvalidInput, NotFound, Problem
from passdown.relay.runners import AgentReply, AgentRequest

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
                answer = _awaited(answer, asked, self._limit(asked))
        except _Cancelled as error:
            reply = AgentReply(failure=error.failure, error=str(error))
        except Exception as error:  # noqa: BLE001 (an agent's error is a failed reply)
            reply = _raised(error)
        else:
            reply = _as_reply(answer)
        seconds = reply.seconds or time.monotonic() - started
        return _measured(reply, seconds, asked)

    def _limit(self, asked: AgentRequest) -> float | None:
        limits = [limit for limit in (self.timeout_s, asked.timeout_s) if limit is not None]
        return min(limits) if limits else None


class _Cancelled(Exception):
    """A function was cancelled by us; the message says why."""

    def __init__(self, failure: str, message: str) -> None:
        super().__init__(message)
        self.failure = failure


def _awaited(
    answer: Awaitable[FunctionResult], asked: AgentRequest, limit: float | None
) -> FunctionResult:
    """The result of an awaitable, in its own loop; raises _Cancelled if it took too long."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_watched(answer, asked, limit))
    # This thread has a running loop, and loops can't be nested.
    found: list[FunctionResult | BaseException] = []

    def in_thread() -> None:
        try:
            found.append(asyncio.run(_watched(answer, asked, limit)))
        except BaseException as error:  # noqa: BLE001 (raised again by the caller)
            found.append(error)

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(in_thread,), daemon=True)
    thread.start()
    thread.join()
    (result,) = found
    if isinstance(result, BaseException):
        raise result
    return result


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


def _as_reply(answer: object) -> AgentReply:
    if isinstance(answer, AgentReply):
        return answer
    if isinstance(answer, str):
        return AgentReply(text=answer)
    kind = type(answer).__name__
    return AgentReply(failure="wrong_type", error=f"The function returned {kind} instead of text.")


def _raised(error: Exception) -> AgentReply:
    lines = "".join(traceback.format_exception(error)).strip().splitlines()
    evidence = {"traceback": "\n".join(lines[-_LAST_LINES:])}
    text = f"The function raised {type(error).__name__}."
    return AgentReply(failure="raised", error=text, evidence=evidence)


def _measured(reply: AgentReply, seconds: float, asked: AgentRequest) -> AgentReply:
    """The reply with its time and sizes, unless the function gave them."""
    from dataclasses import replace

    sizes = {
        "bytes_in": reply.bytes_in or _size("".join(m["content"] for m in asked.messages)),
        "bytes_out": reply.bytes_out or _size(reply.text),
    }
    return replace(reply, seconds=seconds, **sizes)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def write_files(folder: str, files: Mapping[str, str]) -> None:
    """Write texts in a folder; raises InvalidInput, and writes none, if a path leads out of it."""
    problems = [_link_problem(folder, path) for path in files]
    if not folder or not os.path.isdir(folder):
        problems = [Problem("workdir", "required", "the working folder does not exist", "a folder")]
    if found := [problem for problem in problems if problem]:
        raise InvalidInput("the files can't be written", found)
    for path, text in files.items():
        target = os.path.join(folder, *path.split("/"))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w", encoding="utf-8", newline="") as file:
            file.write(text)


def _link_problem(folder: str, path: str) -> Problem | None:
    """Refuse a path that a link leads out of the folder."""
    root = os.path.realpath(folder)
    real = os.path.realpath(os.path.join(root, *path.split("/")))
    if os.path.commonpath([root, real]) == root:
        return None
    message = f"{path} leads out of the working folder"
    return Problem(f"files.{path}", "path_escapes_root", message, "a file inside it")


def commit_files(folder: str, paths: Sequence[str], message: str, agent: str) -> None:
    """Commit files with an agent as author, unless they are committed already.

    No hook is run and nothing is signed. Raises InvalidInput with git's message.
    """
    from passdown.relay.git import Repository

    address = f"{agent}@passdown.invalid"
    roles = ("AUTHOR", "COMMITTER")
    author = {f"GIT_{role}_NAME": agent for role in roles}
    author |= {f"GIT_{role}_EMAIL": address for role in roles}
    try:
        repository = Repository(folder)
        repository.run("add", "--", *paths)
        if repository.run("diff", "--cached", "--name-only", "--", *paths).strip():
            repository.run("commit", "-q", "-m", message, "--", *paths, environment=author)
    except GitError as error:
        problem = Problem("commit", "git_failed", error.message[-500:], "a repository")
        raise InvalidInput("the files can't be committed", [problem]) from error


MAX_TEXT = 1_000_000
MAX_SLEEP_S = 3_600.0
_FIELDS = ("text", "fail", "exit_code", "files", "commit", "sleep_s")
_TICK_S = 0.02


class ScriptedReply(NamedTuple):
    """What an agent says and does in one attempt, by a script."""

    text: str = ""
    fail: str = ""
    exit_code: int | None = None
    files: Mapping[str, str] = {}
    commit: str = ""
    sleep_s: float = 0.0


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
        if problems:
            raise InvalidInput("the script is invalid", problems)

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
        play = self._due(asked)
        function: Function = (
            (lambda _: play) if isinstance(play, AgentReply) else _entry_function(play)
        )
        return CallableRunner(function)(asked)

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
        found[str(name)] = tuple(
            _attempts(entry, f"{path}[{index}]", problems)
            for index, entry in enumerate(cast("Sequence[object]", visits))
        )
    return found


def _attempts(entry: object, path: str, problems: list[Problem]) -> tuple[ScriptEntry, ...]:
    if isinstance(entry, Sequence) and not isinstance(entry, str | bytes | ScriptedReply):
        entries = cast("Sequence[object]", entry)
        return tuple(_entry(each, f"{path}[{i}]", problems) for i, each in enumerate(entries))
    return (_entry(entry, path, problems),)


def _entry(entry: object, path: str, problems: list[Problem]) -> ScriptEntry:
    if isinstance(entry, ScriptedReply | AgentReply) or callable(entry):
        return entry
    if isinstance(entry, str):
        return ScriptedReply(entry)
    if not isinstance(entry, Mapping):
        given = f"{type(entry).__name__} given"
        problems.append(Problem(path, "wrong_type", given, "a text, or the fields of an answer"))
        return ScriptedReply()
    fields = cast("Mapping[object, object]", entry)
    for name in fields:
        if name not in _FIELDS:
            where = child_path(path, str(name))
            problems.append(Problem(where, "unknown_field", "unknown field", ", ".join(_FIELDS)))
    return ScriptedReply(
        text=_text(fields, "text", path, problems),
        fail=_text(fields, "fail", path, problems),
        exit_code=_exit_code(fields, path, problems),
        files=_files(fields, path, problems),
        commit=_text(fields, "commit", path, problems),
        sleep_s=_seconds(fields, path, problems),
    )


def _text(fields: Mapping[object, object], name: str, path: str, problems: list[Problem]) -> str:
    value = fields.get(name)
    if value is None:
        return ""
    problems += text_problems(value, child_path(path, name), required=False, max_length=MAX_TEXT)
    if name == "commit" and not fields.get("files"):
        where = child_path(path, name)
        problems.append(Problem(where, "required", "there is nothing to commit", "files too"))
    return str(value)


def _exit_code(fields: Mapping[object, object], path: str, problems: list[Problem]) -> int | None:
    value = fields.get("exit_code")
    if value is None:
        return None
    text = str(value)
    if not text.lstrip("-").isdecimal() or len(text) > 6:
        where = child_path(path, "exit_code")
        problems.append(
            Problem(where, "wrong_type", f"{excerpt(text)!r} is not a number", "a number")
        )
        return None
    return int(text)


def _seconds(fields: Mapping[object, object], path: str, problems: list[Problem]) -> float:
    value = fields.get("sleep_s", 0)
    try:
        seconds = float(str(value))
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MAX_SLEEP_S:
        message = f"{excerpt(str(value))!r} is not a duration"
        expected = f"seconds, 0 to {MAX_SLEEP_S:,.0f}"
        problems.append(Problem(child_path(path, "sleep_s"), "out_of_range", message, expected))
    return seconds


def _files(fields: Mapping[object, object], path: str, problems: list[Problem]) -> dict[str, str]:
    value = fields.get("files")
    where = child_path(path, "files")
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        given = f"{type(value).__name__} given"
        problems.append(Problem(where, "wrong_type", given, "paths, each with its text"))
        return {}
    found: dict[str, str] = {}
    for name, given in cast("Mapping[object, object]", value).items():
        place = child_path(where, str(name))
        problems += path_problems(str(name), place)
        if {".git", ".passdown"} & set(normal_path(str(name)).lower().split("/")):
            problems.append(
                Problem(place, "own_file", "is not for agents", "a file of the project")
            )
        text = "" if given is None else given
        problems += text_problems(text, place, required=False, max_length=MAX_TEXT)
        found[str(name)] = str(text)
    return found


def _entry_function(play: ScriptedReply | Callable[[AgentRequest], Any]) -> Function:
    """A function that does what an answer says; a given function is used as it is."""
    if not isinstance(play, ScriptedReply):
        return play

    def answer(asked: AgentRequest) -> AgentReply:
        if cut := _sleep(play.sleep_s, asked):
            return AgentReply(failure=cut, error=f"The script was ended while it slept ({cut}).")
        if play.files:
            files = {normal_path(name): text for name, text in play.files.items()}
            write_files(asked.workdir, files)
            if play.commit:
                commit_files(asked.workdir, list(files), play.commit, asked.agent)
        failure = "scripted" if play.fail else ("exit" if play.exit_code else "")
        error = play.fail or (
            f"The script ended with exit code {play.exit_code}." if failure else ""
        )
        return AgentReply(text=play.text, exit_code=play.exit_code, failure=failure, error=error)

    return answer


def _sleep(seconds: float, asked: AgentRequest) -> str:
    """Wait; returns what ended the wait early (stopped or timeout), or ""."""
    now = time.monotonic()
    ends = now + seconds
    limit = float("inf") if asked.timeout_s is None else now + asked.timeout_s
    while (left := min(ends, limit) - time.monotonic()) > 0:
        if asked.is_stopped():
            return "stopped"
        time.sleep(min(_TICK_S, left))
    return "timeout" if limit < ends else ""

"""A runner that follows a script: for tests and demonstrations, without a model.

A script that is a mapping gives each agent (`dev`), or each agent on one leg (`dev/build`), a list:
the first entry answers the first visit, and so on. An entry is an answer, or a list of answers, one
per attempt. Which answer is due follows from what is asked alone, so that it is the same in every
process and after a crash. A script that is a list is followed call by call, in this process only.

An answer is a text or has the fields `text`, `fail` (it fails with this sentence), `exit_code`,
`files` (paths beneath the folder of work, with their text), `commit` (commits these files with this
message) and `sleep_s`. In Python it may also be a Reply or a function of what is asked.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.errors import InvalidInput, NotFound, Problem
from passdown.model.names import agent_problems, normal_path, path_problems
from passdown.model.plain import load_json, load_yaml
from passdown.model.text import child_path, excerpt, text_problems
from passdown.relay.runners.asking import Asked, Reply
from passdown.relay.runners.callables import CallableRunner

if TYPE_CHECKING:
    from passdown.relay.runners.callables import Function

MAX_TEXT = 1_000_000
MAX_SLEEP_S = 3_600.0
_FIELDS = ("text", "fail", "exit_code", "files", "commit", "sleep_s")
_TICK_S = 0.02


class Answer(NamedTuple):
    """What a script lets an agent say and do in one attempt."""

    text: str = ""
    fail: str = ""
    exit_code: int | None = None
    files: Mapping[str, str] = {}
    commit: str = ""
    sleep_s: float = 0.0


Play = Answer | Reply | Callable[[Asked], Any]


class Scripted:
    """Answers as a script says; raises InvalidInput with all that is wrong with the script."""

    def __init__(self, replies: Sequence[object] | Mapping[str, object]) -> None:
        problems: list[Problem] = []
        self._calls = 0
        self._lock = threading.Lock()
        self._in_order: tuple[Play, ...] = ()
        self._by_agent: dict[str, tuple[tuple[Play, ...], ...]] = {}
        if isinstance(replies, Mapping):
            self._by_agent = _by_agent(cast("Mapping[object, object]", replies), problems)
        elif isinstance(replies, Sequence) and not isinstance(replies, str | bytes):  # pyright: ignore[reportUnnecessaryIsInstance]
            self._in_order = tuple(
                _play(each, f"[{index}]", problems) for index, each in enumerate(replies)
            )
        else:
            given = f"{type(replies).__name__} given"
            problems.append(Problem("", "wrong_type", given, "a list, or lists by agent"))
        if problems:
            raise InvalidInput("the script can't be followed", problems)

    @classmethod
    def from_file(cls, path: str) -> Scripted:
        """The script in a YAML or JSON file: lists by agent, below `replies` or by themselves."""
        try:
            with open(path, "rb") as file:
                data = file.read(MAX_TEXT + 1)
        except OSError as error:
            message = f"{path} can't be read ({error.strerror or error})"
            problem = Problem("script", "unreadable", message, "a readable file")
            raise InvalidInput("the script can't be followed", [problem]) from error
        loaded = load_json(data) if path.endswith(".json") else load_yaml(data)
        script = cast("dict[str, object]", loaded if isinstance(loaded, dict) else {})
        if list(script) == ["replies"]:
            script = cast("dict[str, object]", script["replies"])
        if not isinstance(script, dict) or not script:  # pyright: ignore[reportUnnecessaryIsInstance]
            expected = "agents, each with a list of answers"
            problem = Problem("", "wrong_type", "the file has no such lists", expected)
            raise InvalidInput("the script can't be followed", [problem])
        return cls(script)

    def __call__(self, asked: Asked) -> Reply:
        """The answer that is due; raises NotFound when the script has none."""
        play = self._due(asked)
        function: Function = (lambda _: play) if isinstance(play, Reply) else _player(play)
        return CallableRunner(function)(asked)

    def _due(self, asked: Asked) -> Play:
        if not self._by_agent:
            with self._lock:
                number = self._calls
                self._calls += 1
            if number < len(self._in_order):
                return self._in_order[number]
            raise _ran_out(asked, f"it has {len(self._in_order)} answers, all given")
        key = f"{asked.agent}/{asked.leg}"
        visits = self._by_agent.get(key if key in self._by_agent else asked.agent)
        if visits is None:
            raise _ran_out(asked, f"it knows {', '.join(self._by_agent) or 'nobody'}")
        if asked.visit > len(visits):
            raise _ran_out(asked, f"it has {len(visits)} visits")
        attempts = visits[asked.visit - 1]
        if asked.attempt > len(attempts):
            raise _ran_out(asked, f"it has {len(attempts)} attempts for this visit")
        return attempts[asked.attempt - 1]


def _ran_out(asked: Asked, why: str) -> NotFound:
    leg = f", leg {asked.leg}" if asked.leg else ""
    return NotFound(
        f"the script has no answer for {asked.agent}{leg}, visit {asked.visit}, "
        f"attempt {asked.attempt}: {why}",
        next_step="Add the answer to the script.",
    )


def _by_agent(
    script: Mapping[object, object], problems: list[Problem]
) -> dict[str, tuple[tuple[Play, ...], ...]]:
    found: dict[str, tuple[tuple[Play, ...], ...]] = {}
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


def _attempts(entry: object, path: str, problems: list[Problem]) -> tuple[Play, ...]:
    if isinstance(entry, Sequence) and not isinstance(entry, str | bytes | Answer):
        entries = cast("Sequence[object]", entry)
        return tuple(_play(each, f"{path}[{i}]", problems) for i, each in enumerate(entries))
    return (_play(entry, path, problems),)


def _play(entry: object, path: str, problems: list[Problem]) -> Play:
    if isinstance(entry, Answer | Reply) or callable(entry):
        return entry
    if isinstance(entry, str):
        return Answer(entry)
    if not isinstance(entry, Mapping):
        given = f"{type(entry).__name__} given"
        problems.append(Problem(path, "wrong_type", given, "a text, or the fields of an answer"))
        return Answer()
    fields = cast("Mapping[object, object]", entry)
    for name in fields:
        if name not in _FIELDS:
            where = child_path(path, str(name))
            problems.append(Problem(where, "unknown_field", "is none", ", ".join(_FIELDS)))
    return Answer(
        text=_text(fields, "text", path, problems),
        fail=_text(fields, "fail", path, problems),
        exit_code=_whole(fields, path, problems),
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
        problems.append(Problem(where, "required", "there is nothing to commit", "files beside it"))
    return str(value)


def _whole(fields: Mapping[object, object], path: str, problems: list[Problem]) -> int | None:
    value = fields.get("exit_code")
    if value is None:
        return None
    text = str(value)
    if not text.lstrip("-").isdecimal() or len(text) > 6:
        where = child_path(path, "exit_code")
        problems.append(Problem(where, "wrong_type", f"{excerpt(text)!r} is none", "a number"))
        return None
    return int(text)


def _seconds(fields: Mapping[object, object], path: str, problems: list[Problem]) -> float:
    value = fields.get("sleep_s", 0)
    try:
        seconds = float(str(value))
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MAX_SLEEP_S:
        message = f"{excerpt(str(value))!r} is no time"
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
            problems.append(Problem(place, "own_file", "isn't for agents", "a file of the project"))
        text = "" if given is None else given
        problems += text_problems(text, place, required=False, max_length=MAX_TEXT)
        found[str(name)] = str(text)
    return found


def _player(play: Answer | Callable[[Asked], Any]) -> Function:
    """A function that does what an answer says; one that was given is taken as it is."""
    if not isinstance(play, Answer):
        return play

    def answer(asked: Asked) -> Reply:
        if cut := _slept(play.sleep_s, asked):
            return Reply(failure=cut, error=f"The script was cut off while it slept ({cut}).")
        if play.files:
            from passdown.relay.runners.scripted_files import commit_files, write_files

            files = {normal_path(name): text for name, text in play.files.items()}
            write_files(asked.workdir, files)
            if play.commit:
                commit_files(asked.workdir, list(files), play.commit, asked.agent)
        failure = "scripted" if play.fail else ("exit" if play.exit_code else "")
        error = play.fail or (
            f"The script ended with exit code {play.exit_code}." if failure else ""
        )
        return Reply(text=play.text, exit_code=play.exit_code, failure=failure, error=error)

    return answer


def _slept(seconds: float, asked: Asked) -> str:
    """Let time go by; gives what cut it short, stopped or timeout, or nothing."""
    now = time.monotonic()
    ends = now + seconds
    limit = float("inf") if asked.timeout_s is None else now + asked.timeout_s
    while (left := min(ends, limit) - time.monotonic()) > 0:
        if asked.is_stopped():
            return "stopped"
        time.sleep(min(_TICK_S, left))
    return "timeout" if limit < ends else ""

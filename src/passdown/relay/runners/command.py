"""A program as a runner: the prompt goes in, what it prints on stdout is the reply."""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from passdown.errors import InvalidInput, Problem
from passdown.model.text import excerpt
from passdown.relay.runners.asking import Asked, Reply
from passdown.relay.runners.processes import Limits, Order, Ran, Watch, run

WAYS = ("stdin", "argument", "file")
TIMEOUT_S = 600.0
MAX_OUTPUT = 1_000_000
MAX_STDERR = 100_000

_PLACE = re.compile(r"\{(prompt_file|prompt|task|agent|run)\}")
_NEEDED = {"argument": "{prompt}", "file": "{prompt_file}"}
_SET = ("PASSDOWN_TASK", "PASSDOWN_AGENT", "PASSDOWN_RUN", "PASSDOWN_STORE")
_LEAST_OUTPUT = 1_000
_MOST_BYTES = 1_000_000_000
_SHOWN = 2_000


class CommandRunner:
    """Runs a program for each turn and ends it with all that it started.

    `argv` is the program and its arguments; no shell reads them. `prompt` says how the prompt gets
    there: on stdin, in the argument that holds `{prompt}`, or in a private file whose path stands
    for `{prompt_file}`. `{task}`, `{agent}` and `{run}` may stand in any argument. The environment
    is passed on whole, or only what `pass_env` names; `env` is added. `cwd` is the folder to work
    in where the turn names none. Raises InvalidInput with all that is wrong.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        prompt: str = "stdin",
        env: Mapping[str, str] | None = None,
        pass_env: Sequence[str] | None = None,
        timeout_s: float = TIMEOUT_S,
        max_output: int = MAX_OUTPUT,
        max_stderr: int = MAX_STDERR,
        cwd: str = "",
    ) -> None:
        problems = [*_argv_problems(argv, prompt), *_env_problems(env, pass_env)]
        problems += _number_problems(timeout_s, max_output, max_stderr)
        if not isinstance(cwd, str) or "\0" in cwd:  # pyright: ignore[reportUnnecessaryIsInstance]
            problems.append(Problem("cwd", "invalid_path", "is no path", "a folder"))
        if os.name != "posix":
            expected = "Linux or macOS"
            problems.append(Problem("", "unsupported", "programs can't be guarded here", expected))
        if problems:
            raise InvalidInput("the command can't be run", problems)
        self.argv = tuple(argv)
        self.prompt = prompt
        self.env = dict(env or {})
        self.pass_env = None if pass_env is None else tuple(pass_env)
        self.limits = Limits(float(timeout_s), max_output, max_stderr)
        self.cwd = cwd

    def __call__(self, asked: Asked) -> Reply:
        """Run the program once. How it failed stands in the reply."""
        prompt = asked.prompt.encode("utf-8", "replace")
        limits = self.limits
        if asked.timeout_s is not None:
            limits = limits._replace(timeout_s=max(0.0, min(limits.timeout_s, asked.timeout_s)))
        try:
            path = _prompt_file(prompt) if self.prompt == "file" else ""
        except OSError as error:
            text = f"The file for the prompt can't be written ({error.strerror or error})."
            return Reply(failure="not_started", error=text)
        try:
            order = self._order(asked, path)
            if fault := _unfit(order):
                return Reply(failure="not_started", error=fault)
            given = prompt if self.prompt == "stdin" else b""
            ran = run(order, given, limits, Watch(asked.is_stopped, asked.progress))
        finally:
            if path:
                with suppress(FileNotFoundError):
                    os.unlink(path)
        return _reply(ran, order, limits, given=len(given), prompt=len(prompt))

    def _order(self, asked: Asked, prompt_file: str) -> Order:
        values = {
            "prompt": asked.prompt if self.prompt == "argument" else "",
            "prompt_file": prompt_file,
            "task": asked.task,
            "agent": asked.agent,
            "run": asked.run,
        }
        # One pass: what a value brings in is not looked at again.
        rest = [_PLACE.sub(lambda m: values[m[1]], argument) for argument in self.argv[1:]]
        folder = asked.workdir or self.cwd or os.getcwd()
        return Order((self.argv[0], *rest), self._environment(asked), folder, prompt_file)

    def _environment(self, asked: Asked) -> dict[str, str]:
        inherited = {
            name: value
            for name, value in os.environ.items()
            if name not in _SET and (self.pass_env is None or name in self.pass_env)
        }
        own = (asked.task, asked.agent, asked.run, asked.store)
        return {
            **inherited,
            **self.env,
            **asked.env,
            **{name: value for name, value in zip(_SET, own, strict=True) if value},
        }


def _prompt_file(prompt: bytes) -> str:
    """The prompt in a file that only this user can read."""
    descriptor, path = tempfile.mkstemp(prefix="passdown-prompt-", suffix=".md")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(prompt)
    except OSError:
        os.unlink(path)
        raise
    return path


def _unfit(order: Order) -> str:
    """Why no system could start this, whatever is installed; empty if it could."""
    if any("\0" in argument for argument in order.argv):
        return "An argument would hold a NUL character; give the prompt on stdin or in a file."
    pairs = order.env.items()
    if "\0" in order.folder or any("\0" in n + v or "=" in n or not n for n, v in pairs):
        return "The environment or the folder holds a NUL character or a name that is none."
    return ""


def _reply(ran: Ran, order: Order, limits: Limits, *, given: int, prompt: int) -> Reply:
    text, is_replaced = _decoded(ran.out)
    failure = ran.ended if ran.ended != "exit" or ran.exit_code else ""
    evidence: dict[str, str] = {}
    if ran.err:
        evidence["stderr"] = _decoded(ran.err)[0]
    if failure and text:
        evidence["stdout_head"] = text[:_SHOWN]
        evidence["stdout_tail"] = text[_SHOWN:][-_SHOWN:]
    notes: list[str] = []
    if ran.left:
        notes.append(f"It left {ran.left} processes running, which were ended.")
    if ran.taken < given:
        notes.append(f"It took {ran.taken:,} of {given:,} bytes of the prompt.")
    if notes:
        evidence["notes"] = " ".join(notes)
    return Reply(
        text=text,
        exit_code=ran.exit_code,
        seconds=ran.seconds,
        bytes_in=ran.taken if given else prompt,
        bytes_out=ran.out_bytes,
        failure=failure,
        error=_sentence(ran, order, limits) if failure else "",
        is_truncated=ran.out_bytes > len(ran.out),
        is_stderr_truncated=ran.err_bytes > len(ran.err),
        is_replaced=is_replaced,
        evidence=evidence,
    )


def _decoded(data: bytes) -> tuple[str, bool]:
    """Bytes as text, and whether some of them were none and had to be replaced."""
    try:
        return data.decode(), False
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace"), True


def _sentence(ran: Ran, order: Order, limits: Limits) -> str:
    program = excerpt(order.argv[0], 200)
    if ran.ended == "not_started":
        return _not_started(ran, program, excerpt(order.folder, 200))
    if ran.ended == "timeout":
        return f"{program} took longer than {limits.timeout_s:.4g} s and was ended."
    if ran.ended == "flood":
        return f"{program} wrote more than {limits.max_output:,} bytes and was ended."
    if ran.ended == "stopped":
        return f"{program} was told to stop and was ended."
    if ran.ended == "lost":
        return f"{program} was lost: its guard ended before it."
    code = ran.exit_code or 0
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return f"{program} ended with {how}."


def _not_started(ran: Ran, program: str, folder: str) -> str:
    reason = os.strerror(ran.errno)
    if ran.stage == "folder":
        return f"The folder {folder} can't be worked in ({reason})."
    if ran.stage != "program":
        return f"{program} can't be started ({reason})."
    said = {
        errno.ENOENT: f"There is no program {program}, or not what its first line names.",
        errno.ENOTDIR: f"There is no program {program}: its path leads through a file.",
        errno.EACCES: f"{program} can't be executed: it lacks the permission.",
        errno.EPERM: f"{program} can't be executed: it lacks the permission.",
        errno.ENOEXEC: f"{program} is no program: it has no first line that names one (#!).",
        errno.E2BIG: f"The arguments of {program} are too long; give the prompt on stdin or in a "
        "file.",
    }
    return said.get(ran.errno, f"{program} can't be executed ({reason}).")


def _argv_problems(argv: object, prompt: object) -> list[Problem]:
    expected = "a list: the program, then each argument"
    if not isinstance(argv, Sequence) or isinstance(argv, str | bytes):
        found = f"{type(argv).__name__} given"
        return [Problem("command", "wrong_type", found, expected, "split it into a list")]
    words = cast("Sequence[object]", argv)
    problems = [
        Problem(f"command[{index}]", "wrong_type", "is no text without NUL", "text")
        for index, word in enumerate(words)
        if not isinstance(word, str) or "\0" in word
    ]
    if problems:
        return problems
    if not words or not words[0]:
        return [Problem("command", "required", "names no program", expected)]
    return _place_problems([str(word) for word in words], prompt)


def _place_problems(argv: list[str], prompt: object) -> list[Problem]:
    """What is wrong between the way of the prompt and the places for it."""
    if prompt not in WAYS:
        shown = f"{excerpt(str(prompt))!r} is not one of the choices"
        return [Problem("prompt", "invalid_choice", shown, " | ".join(WAYS))]
    found: list[Problem] = []
    if _PLACE.search(argv[0]):
        found.append(Problem("command[0]", "placeholder", "the program itself varies", "one name"))
    needed = _NEEDED.get(str(prompt), "")
    rest = " ".join(argv[1:])
    if needed and needed not in rest:
        message = f"no argument holds {needed}"
        found.append(Problem("command", "placeholder", message, f"{needed} for prompt: {prompt}"))
    for way, place in _NEEDED.items():
        if place != needed and place in rest:
            message, fix = f"{place} stands in an argument", f"prompt: {way}"
            found.append(Problem("command", "placeholder", message, f"none for {prompt}", fix))
    return found


def _env_problems(env: object, pass_env: object) -> list[Problem]:
    found: list[Problem] = []
    if env is not None and not isinstance(env, Mapping):
        found.append(Problem("env", "wrong_type", f"{type(env).__name__} given", "names and texts"))
        env = None
    for name, value in cast("Mapping[object, object]", env or {}).items():
        if not _is_name(name):
            found.append(Problem("env", "invalid_name", f"{excerpt(str(name))!r} is no name"))
        if not isinstance(value, str) or "\0" in value:
            where = f"env.{excerpt(str(name))}"
            found.append(Problem(where, "wrong_type", "is no text without NUL", "text"))
    if pass_env is None:
        return found
    if not isinstance(pass_env, Sequence) or isinstance(pass_env, str | bytes):
        given = f"{type(pass_env).__name__} given"
        return [*found, Problem("pass_env", "wrong_type", given, "a list of names")]
    for index, name in enumerate(cast("Sequence[object]", pass_env)):
        if not _is_name(name):
            message = f"{excerpt(str(name))!r} is no name"
            found.append(Problem(f"pass_env[{index}]", "invalid_name", message))
    return found


def _is_name(name: object) -> bool:
    return isinstance(name, str) and bool(name) and "=" not in name and "\0" not in name


def _number_problems(timeout_s: Any, max_output: Any, max_stderr: Any) -> list[Problem]:
    found: list[Problem] = []
    is_number = isinstance(timeout_s, int | float) and not isinstance(timeout_s, bool)
    if not is_number or not 0 < timeout_s < 1e7:
        message = f"{excerpt(str(timeout_s))} is no time limit"
        found.append(Problem("timeout_s", "out_of_range", message, "seconds above 0, below 1e7"))
    for name, value in (("max_output", max_output), ("max_stderr", max_stderr)):
        is_count = isinstance(value, int) and not isinstance(value, bool)
        if not is_count or not _LEAST_OUTPUT <= value <= _MOST_BYTES:
            message = f"{excerpt(str(value))} is no size"
            expected = f"{_LEAST_OUTPUT:,} to {_MOST_BYTES:,} bytes"
            found.append(Problem(name, "out_of_range", message, expected))
    return found

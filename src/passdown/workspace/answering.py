"""Answers to the prompt of an unclear note: from a function, or from the user's own command."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from passdown.errors import InvalidInput, Problem
from passdown.model.freeform.asking import again
from passdown.model.freeform.handoffs import with_answer, with_outcome
from passdown.model.intake import check_handoff
from passdown.model.intake.reading import read_handoff_text

if TYPE_CHECKING:
    from passdown.workspace.opened import Opened

Answer = Callable[[str], str]

VARIABLE = "PASSDOWN_MIGRATE_COMMAND"
MAX_ANSWER_BYTES = 1_048_576
_REFUSED = "the answer is refused"
_NEXT = "Nothing was changed. Answer again, or migrate without an answer."


def answered(plain: dict[str, Any], prompt: str, answer: Answer) -> dict[str, Any]:
    """A handoff with an answer worked in. A faulty answer is sent back once, with every fault.

    Raises InvalidInput where the second one is faulty too.
    """
    given = answer(prompt)
    merged, problems = _merged(plain, given)
    if problems:
        given = answer(again(prompt, str(given), problems))
        merged, problems = _merged(plain, given)
    if problems:
        raise InvalidInput(_REFUSED, problems, next_step=_NEXT)
    return merged


def _merged(plain: dict[str, Any], given: object) -> tuple[dict[str, Any], list[Problem]]:
    if not isinstance(given, str):
        problem = Problem("", "wrong_type", f"{type(given).__name__} given", "text")
        return {}, [problem]
    try:
        answer = read_handoff_text(given)
    except InvalidInput as error:
        return {}, list(error.problems)
    merged = with_answer(plain, answer)
    # What the answer itself says is checked first: an outcome that needs more has to bring it.
    checked = check_handoff(merged)
    if checked.handoff is None:
        return {}, list(checked.errors)
    return with_outcome(merged), []


def command_answer(opened: Opened) -> Answer:
    """The command of the environment as an answer: the prompt goes in, what it prints comes out.

    The settings don't name it: they come with the repository, which must not choose what is run.
    No shell reads it. Raises InvalidInput where none is set, and when it fails or takes too long.
    """
    words = _split(os.environ.get(VARIABLE, ""))
    timeout = opened.settings.migrate_timeout_s

    def answer(prompt: str) -> str:
        return _run(words, prompt, timeout, opened.root)

    return answer


def _split(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise _failed(f"can't be read ({error})") from error
    if not words:
        expected = "a program and its arguments, in the environment"
        problem = Problem(VARIABLE, "required", "is not set", expected)
        raise InvalidInput("nobody was asked", [problem])
    return words


def _run(words: list[str], prompt: str, timeout: float, folder: str) -> str:
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise _failed(f"can't be started ({error})") from error
    with process:
        try:
            out, err = process.communicate(prompt.encode(), timeout)
        except subprocess.TimeoutExpired as error:
            _end(process)
            raise _failed(f"took longer than {timeout:g} s") from error
    if process.returncode:
        said = err.decode("utf-8", "replace").strip()[-300:]
        raise _failed(f"ended with {process.returncode}: {said}")
    if len(out) > MAX_ANSWER_BYTES:
        raise _failed(f"answered with {len(out):,} bytes")
    return out.decode("utf-8", "replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the command with whatever it started."""
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.communicate()


def _failed(message: str) -> InvalidInput:
    problem = Problem(VARIABLE, "command_failed", message, "an answer on standard output")
    return InvalidInput("nobody answered; nothing was changed", [problem])

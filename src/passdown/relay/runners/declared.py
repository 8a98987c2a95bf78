"""Runners as a relay file declares them: `{command: [...]}` or `{script: path}`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from passdown.errors import InvalidInput, Problem
from passdown.model.text import child_path, excerpt
from passdown.relay.runners.command import CommandRunner
from passdown.relay.runners.scripted import Scripted

if TYPE_CHECKING:
    from passdown.relay.runners.asking import Runner

KINDS = ("command", "script")
_OPTIONS = ("prompt", "env", "pass_env", "timeout_s", "max_output", "max_stderr", "cwd")
_NUMBERS = ("timeout_s", "max_output", "max_stderr")


def runner_of(declared: object, *, folder: str, path: str = "runner") -> Runner:
    """The runner that a declaration means; paths in it are relative to `folder`.

    Raises InvalidInput with all problems, each addressed below `path`.
    """
    if not isinstance(declared, Mapping):
        given = f"{type(declared).__name__} given"
        problem = Problem(path, "wrong_type", given, "command: [...], or script: a path")
        raise InvalidInput("the runner can't be made", [problem])
    fields = {str(name): value for name, value in cast("Mapping[Any, Any]", declared).items()}
    kinds = [kind for kind in KINDS if kind in fields]
    problems: list[Problem] = []
    if len(kinds) != 1:
        message = f"it has {' and '.join(kinds) or 'neither'}"
        problems.append(Problem(path, "required", message, f"one of {', '.join(KINDS)}"))
    known = (*kinds, *(_OPTIONS if "command" in kinds else ()))
    for name in fields.keys() - set(known) if kinds else ():
        where = child_path(path, name)
        problems.append(Problem(where, "unknown_field", "is none", ", ".join(known)))
    if problems:
        raise InvalidInput("the runner can't be made", problems)
    try:
        return _script(fields, folder) if kinds == ["script"] else _command(fields, folder)
    except InvalidInput as error:
        below = [p._replace(path=f"{path}.{p.path}" if p.path else path) for p in error.problems]
        raise InvalidInput("the runner can't be made", below) from error


def _script(fields: dict[str, Any], folder: str) -> Runner:
    script = fields["script"]
    if not isinstance(script, str) or not script:
        problem = Problem("script", "wrong_type", f"{excerpt(str(script))!r} is no path", "a path")
        raise InvalidInput("the script can't be followed", [problem])
    return Scripted.from_file(os.path.join(folder, script))


def _command(fields: dict[str, Any], folder: str) -> Runner:
    options: dict[str, Any] = dict(fields)
    for name in _NUMBERS:
        if name in options:
            options[name] = _number(options[name])
    argv = options.pop("command")
    cwd = options.get("cwd")
    if isinstance(cwd, str) and cwd:
        options["cwd"] = os.path.join(folder, cwd)
    return CommandRunner(argv, **options)


def _number(value: object) -> object:
    """A number that a YAML file gives as text; anything else as it is."""
    if isinstance(value, str) and value.isascii() and len(value) < 20:
        for kind in (int, float):
            try:
                return kind(value)
            except ValueError:
                continue
    return value

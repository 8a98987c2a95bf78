"""Runners as a relay file declares them: `command`, `script` or `python`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from passdown.errors import InvalidInput, Problem
from passdown.model.text import child_path, excerpt
from passdown.relay.runners.callables import CallableRunner
from passdown.relay.runners.command import CommandRunner
from passdown.relay.runners.scripted import Scripted

if TYPE_CHECKING:
    from passdown.relay.runners.asking import Runner

KINDS = ("command", "script", "python")
_OPTIONS = ("prompt", "env", "pass_env", "timeout_s", "max_output", "max_stderr", "cwd")
_NUMBERS = ("timeout_s", "max_output", "max_stderr")


def runner_of(declared: object, *, folder: str, path: str = "runner") -> Runner:
    """The runner that a declaration means; paths in it are relative to `folder`.

    Raises InvalidInput with all problems, each addressed below `path`.
    """
    if not isinstance(declared, Mapping):
        given = f"{type(declared).__name__} given"
        expected = f"a mapping with one of {', '.join(KINDS)}"
        problem = Problem(path, "wrong_type", given, expected)
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
        return _MAKERS[kinds[0]](fields, folder)
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


def _python(fields: dict[str, Any], folder: str) -> Runner:
    """A function by `module:function`, from what is installed or from the project's folder."""
    name = str(fields["python"])
    module, _, function = name.partition(":")
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        found = getattr(import_module(module), function)
    except Exception as error:  # a module does what it likes when it is imported
        problem = Problem("python", "not_found", f"{excerpt(name)!r}: {error}", "module:function")
        raise InvalidInput("the function can't be called", [problem]) from error
    return CallableRunner(found)


_MAKERS = {"command": _command, "script": _script, "python": _python}


def _number(value: object) -> object:
    """A number that a YAML file gives as text; anything else as it is."""
    if isinstance(value, str) and value.isascii() and len(value) < 20:
        for kind in (int, float):
            try:
                return kind(value)
            except ValueError:
                continue
    return value

"""Checks for function arguments, and suggestions for misspelled names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from passdown.errors import Problem, raise_problems


def text_list(values: object, path: str, problems: list[Problem]) -> tuple[str, ...]:
    """Several texts; one alone is meant as a list of itself. What is no text adds a problem."""
    if isinstance(values, str):
        return (values,)
    if not isinstance(values, Iterable) or isinstance(values, bytes | bytearray):
        problems.append(Problem(path, "wrong_type", type(values).__name__, "a list of texts"))
        return ()
    found: list[str] = []
    for index, value in enumerate(cast("Iterable[object]", values)):
        if isinstance(value, str):
            found.append(value)
        else:
            where = f"{path}[{index}]"
            problems.append(Problem(where, "wrong_type", type(value).__name__, "text"))
    return tuple(found)


def text_type_problems(**values: object) -> list[Problem]:
    """A problem for each named value that is no text."""
    return [
        Problem(name, "wrong_type", type(value).__name__, "text")
        for name, value in values.items()
        if not isinstance(value, str)
    ]


def number_problems(value: object, path: str, least: int, most: int = 2**62) -> list[Problem]:
    """What is wrong with a whole number that has to be within two others."""
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return []
    expected = f"{least:,} or more" if most == 2**62 else f"{least:,} to {most:,}"
    code = "out_of_range" if isinstance(value, int) else "wrong_type"
    return [Problem(path, code, repr(value)[:40], expected)]


_LEAST = {"limit": 1, "before": 1, "after": 0}


def checked_arguments(
    function: Callable[..., Any],
    args: Sequence[object],
    given: Mapping[str, object],
    *,
    has_own_limits: bool = False,
) -> dict[str, object]:
    """The arguments of an operation by name, whole numbers checked; raises InvalidInput."""
    names = function.__code__.co_varnames[1 : 1 + len(args)]
    found = {**dict(zip(names, args, strict=False)), **given}
    defaults: dict[str, object] = function.__kwdefaults__ or {}
    problems: list[Problem] = []
    for name, value in found.items():
        kind = function.__annotations__.get(name)
        if kind not in ("int", "int | None") or (value is None and kind != "int"):
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            message = f"{type(value).__name__} given"
            problems.append(Problem(name, "not_an_integer", message, "a whole number"))
        elif name in _LEAST and value != defaults.get(name) and not has_own_limits:
            # A default may stand for all.
            problems += number_problems(value, name, _LEAST[name])
    raise_problems("the arguments are refused", problems)
    return found


def priority_problem(value: object, path: str) -> Problem:
    """The problem with a priority: there are none."""
    if isinstance(value, bool) or not isinstance(value, int):
        return Problem(path, "wrong_type", type(value).__name__, "no priority")
    expected = "no priority: everything comes in the order in which it was sent"
    given = value if abs(value) < 10**18 else "a number of many digits"
    return Problem(path, "out_of_range", f"{given} given", expected)


MAX_SUGGESTIONS = 20
MAX_SUGGESTED_LENGTH = 80


class Suggestions:
    """Suggestions for the words of one input. Comparing words takes long, so that only the first
    few are compared: who sends thousands of unknown words made no slip.
    """

    def __init__(self) -> None:
        self._left = MAX_SUGGESTIONS

    def of(self, word: str, known: Iterable[str], likeness: float = 0.6) -> str:
        """The nearest of the known words; empty where none is near."""
        if not self._left or len(word) > MAX_SUGGESTED_LENGTH:
            return ""
        from difflib import get_close_matches

        self._left -= 1
        close = get_close_matches(word, list(known), 1, likeness)
        return close[0] if close else ""

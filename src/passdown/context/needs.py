"""Whether a receiver gets what it declares it needs: files, decisions on a topic, passed gates.

What is missing is a warning, never a refusal: the handoff is recorded either way.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from passdown.core.kinds import ARTIFACT_TYPES
from passdown.core.names import normal_path
from passdown.core.text import excerpt
from passdown.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


_SHOWN = 80


class NeedsFacts(NamedTuple):
    """What a task has for an agent: (path, type) of its files, (summary, rationale, tags) of its
    live decisions, and the result of each gate by name.

    A file that is known by its type alone has an empty path.
    """

    agent: str
    paths: tuple[tuple[str, str], ...]
    decisions: tuple[tuple[str, str, tuple[str, ...]], ...]
    gates: Mapping[str, str]


def missing_needs(needs: Mapping[str, Sequence[str]], has: NeedsFacts) -> list[Problem]:
    """A warning for each thing that an agent needs and a task doesn't have, in the order given."""
    found: list[Problem] = []
    for field, (lack, fix) in _CHECKS.items():
        for index, wanted in enumerate(needs.get(field, ())):
            lacking = lack(wanted, has)
            if lacking:
                path = f"needs.{field}[{index}]"
                message = f"{has.agent} needs {lacking}"
                found.append(Problem(path, "need_missing", message, "", fix, level="warning"))
    return found


def matches(pattern: str, path: str) -> bool:
    """Whether a path is the one that is named, or fits a pattern.

    `*`, `?` and `[...]` stay within one part of a path, `**` stands for any number of parts, and
    a slash at the end for everything in a folder.
    """
    if normal_path(pattern) == path:
        return True
    parts = normal_path(pattern).split("/") + (["**"] if pattern.endswith("/") else [])
    return bool(parts) and _fits(parts, path.split("/"))


def _fits(pattern: list[str], parts: list[str]) -> bool:
    """Part by part, with every place in the pattern that the parts so far may have reached."""
    from fnmatch import fnmatchcase

    reached = _past_stars(pattern, {0})
    for part in parts:
        after: set[int] = set()
        for at in reached:
            if at < len(pattern) and pattern[at] == "**":
                after.add(at)
            elif at < len(pattern) and fnmatchcase(part, pattern[at]):
                after.add(at + 1)
        reached = _past_stars(pattern, after)
    return len(pattern) in reached


def _past_stars(pattern: list[str], places: set[int]) -> set[int]:
    """The places and those behind any `**` there."""
    found: set[int] = set()
    for place in places:
        at = place
        found.add(at)
        while at < len(pattern) and pattern[at] == "**":
            at += 1
            found.add(at)
    return found


def _lacks_file(wanted: str, has: NeedsFacts) -> str:
    is_type = wanted in ARTIFACT_TYPES
    if is_type and any(kind == wanted for _, kind in has.paths):
        return ""
    if any(matches(wanted, path) for path, _ in has.paths if path):
        return ""
    which = f"of type {wanted}" if is_type else f"that fits {excerpt(wanted, _SHOWN)}"
    return f"a file {which}; the task has none"


def _lacks_decision(wanted: str, has: NeedsFacts) -> str:
    words = wanted.casefold().split()
    tag = "-".join(words)
    # Whole words only, with any space between them.
    words_apart = r"\s+".join(map(re.escape, words))
    topic = re.compile(rf"(?<!\w){words_apart}(?!\w)")
    for summary, rationale, tags in has.decisions:
        if tag in tags or any(topic.search(text.casefold()) for text in (summary, rationale)):
            return ""
    return f"a decision on {excerpt(wanted, _SHOWN)}; the task has none in force"


def _lacks_gate(wanted: str, has: NeedsFacts) -> str:
    results = {name.casefold(): result for name, result in has.gates.items()}
    result = results.get(wanted.casefold())
    status = f"it has {excerpt(result, _SHOWN)}" if result else "it has no result"
    return "" if result == "passed" else f"the gate {excerpt(wanted, _SHOWN)} to pass; {status}"


_CHECKS: dict[str, tuple[Callable[[str, NeedsFacts], str], str]] = {
    "files": (_lacks_file, "name it in artifacts or files_created of the next handoff"),
    "decisions": (_lacks_decision, "record it with that tag or that word: passdown decide"),
    "gates": (_lacks_gate, "run it and record what it gave: passdown gate record"),
}

"""Whether a receiver gets what it declares it needs: files, decisions on a topic, passed gates.

What is missing is a warning, never a refusal: the handoff is recorded either way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from passdown.core.kinds import ARTIFACT_TYPES
from passdown.core.names import normal_path
from passdown.core.text import excerpt
from passdown.errors import Problem

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
    from fnmatch import fnmatchcase

    if normal_path(pattern) == path:
        return True
    wanted = normal_path(pattern).split("/") + (["**"] if pattern.endswith("/") else [])
    reached: set[int] = {0}  # every place in the pattern that the parts so far may have come to
    for part in [*path.split("/"), None]:
        stars = [at for at, each in enumerate(wanted) if each == "**"]
        for at in stars:  # which may stand for no part at all
            if at in reached:
                reached.add(at + 1)
        if part is not None:
            names = [at for at in reached if at < len(wanted) and at not in stars]
            passed = {at + 1 for at in names if fnmatchcase(part, wanted[at])}
            reached = passed.union(reached.intersection(stars))
    return len(wanted) in reached


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

"""What the fields of an express item may be; each rule lists what is wrong. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from passdown.errors import Problem
from passdown.model.names import agent_problems, id_problems, normal_path, path_problems
from passdown.model.text import ignorable, text_problems
from passdown.model.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_EXPRESS_ID = 80
MAX_REASON = 4_000
MAX_CONTENT_BYTES = 1_048_576
"""How much text one item may bring: it is small work, and its record keeps all of it."""
OWN_FOLDER = ".passdown"
KNOWLEDGE_ENDINGS = (".dot", ".gv", ".json")

# A revision is given to git as one word; this keeps options, ranges and searches out of it.
_BASE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]{0,199}", re.ASCII)
_GIT_FOLDERS = (".git", "git~1")


def head_problems(head: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with the fields that all items have, but for the kind."""
    problems = _id_problems(head["id"]) if head.get("id") else []
    for name in ("by", "reason"):
        if head.get(name) is None:
            problems.append(Problem(name, "required", "is missing", _EXPECTED[name]))
    if head.get("by") is not None:
        problems += agent_problems(head["by"], "by")
    if head.get("reason") is not None:
        problems += text_problems(head["reason"], "reason", max_length=MAX_REASON)
    if head.get("task"):
        problems += id_problems(head["task"], "task")
    return problems + _base_problems(head.get("base")) + _time_problems(head.get("created"))


_EXPECTED = {"by": "the agent or person who wants it", "reason": "why it is wanted"}


def _id_problems(given: object) -> list[Problem]:
    problems = id_problems(given, "id")
    if problems or not isinstance(given, str):
        return problems
    if len(given) > MAX_EXPRESS_ID:
        return [Problem("id", "too_long", f"{len(given)} characters", f"at most {MAX_EXPRESS_ID}")]
    if ".." in given or given.endswith((".", ".lock")):
        expected = "no two dots in a row, and no dot or .lock at the end"
        return [Problem("id", "invalid_id", f"{given!r} can't be in a branch's name", expected)]
    return []


def _base_problems(given: object) -> list[Problem]:
    if given is None or given == "":
        return []
    if isinstance(given, str) and _BASE.fullmatch(given) and ".." not in given:
        return []
    return [Problem("base", "invalid_base", repr(given)[:80], "a branch, a tag or a commit")]


def _time_problems(given: object) -> list[Problem]:
    if given is None or given == "":
        return []
    try:
        parse_time(str(given))
    except ValueError:
        expected = "a time with its zone, such as 2026-01-31T12:00:00Z"
        return [Problem("created", "invalid_time", repr(given)[:60], expected)]
    return []


def file_problems(path: object, where: str) -> list[Problem]:
    """What is wrong with the path of a file that express work may change."""
    problems = path_problems(path, where)
    if problems or not isinstance(path, str):
        return problems
    if is_protected(path):
        message = f"{path[:200]!r} is among files that keep the project's history"
        return [Problem(where, "protected_path", message, "a file of the project")]
    return []


def is_protected(path: str) -> bool:
    """Whether a path, beneath the project, leads into git's folder or Passdown's own."""
    # Some file systems see no difference in case, and none in what draws nothing.
    parts = [ignorable().sub("", part).casefold() for part in normal_path(path).split("/")]
    return parts[0] == OWN_FOLDER or any(part in _GIT_FOLDERS for part in parts)


def knowledge_file_problems(path: object, where: str) -> list[Problem]:
    """What is wrong with the path of a knowledge file: as with any file, but it may be
    `.passdown/knowledge.dot` (or `.json`), and its ending says how it is written.
    """
    if isinstance(path, str) and normal_path(path) in _OWN_KNOWLEDGE:
        return []
    problems = file_problems(path, where)
    if not problems and isinstance(path, str) and not path.endswith(KNOWLEDGE_ENDINGS):
        expected = f"a name that ends in {' or '.join(KNOWLEDGE_ENDINGS)}"
        message = f"{path[-80:]!r} is no knowledge file"
        problems = [Problem(where, "invalid_path", message, expected)]
    return problems


_OWN_KNOWLEDGE = frozenset(f"{OWN_FOLDER}/knowledge{ending}" for ending in KNOWLEDGE_ENDINGS)


def may_change(path: str) -> bool:
    """Whether express work may change a path beneath the project, once it is known."""
    return path in _OWN_KNOWLEDGE or not is_protected(path)


def choice(
    content: Mapping[str, Any],
    name: str,
    allowed: Sequence[str],
    problems: list[Problem],
    *,
    default: str = "",
) -> str:
    """One of a few words; any other, and none where there is no default, adds a problem."""
    given = content.get(name) or default
    if given in allowed:
        return str(given)
    code = "invalid_choice" if given else "required"
    message = repr(given)[:80] if given else "is missing"
    problems.append(Problem(name, code, message, f"one of {', '.join(allowed)}"))
    return ""


def text_of(
    content: Mapping[str, Any],
    name: str,
    problems: list[Problem],
    *,
    required: bool = True,
    max_length: int = MAX_CONTENT_BYTES,
) -> str:
    """A text as it was given; what is none, or too long, adds a problem and is empty."""
    given = content.get(name)
    if given is None:
        if required:
            problems.append(Problem(name, "required", "is missing", "text"))
        return ""
    found = text_problems(given, name, required=required, max_length=max_length)
    # A file may well hold piles of marks: it is no text that is shown to an agent.
    found = [problem for problem in found if problem.code != "too_many_marks"]
    problems += found
    return "" if found else str(given)


def size_problems(data: bytes, where: str) -> list[Problem]:
    """What is wrong with how much an item brings."""
    if len(data) <= MAX_CONTENT_BYTES:
        return []
    expected = f"at most {MAX_CONTENT_BYTES:,} bytes in all; more is a task"
    return [Problem(where, "too_large", f"{len(data):,} bytes", expected)]

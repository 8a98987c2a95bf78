"""A unified patch as text: which files it would change, and what keeps it from being taken. Pure.

Only the heads of its sections are read; whether it fits, git says when it is applied.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from passdown.errors import Problem
from passdown.model.text import excerpt

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_NAMED = ("--- ", "+++ ", "rename from ", "rename to ", "copy from ", "copy to ")
_MODE = re.compile(r"(?:old|new) mode \d+|(?:new|deleted) file mode (?!100644$|100755$)\d+")
_BINARY = ("GIT binary patch", "Binary files ")
_NOWHERE = "/dev/null"


class Patch(NamedTuple):
    """What the heads of a patch say: the files it names, how many leading parts of their names
    are not theirs (`a/` and `b/`: 1), and what is wrong with it.
    """

    paths: tuple[str, ...]
    strip: int
    problems: tuple[Problem, ...]


def read_patch(text: str, where: str = "patch") -> Patch:
    """Read the heads of a unified patch; problems are at `where`.

    Refused are patches of binary files and of modes, links and submodules among them, and quoted
    names: what they would do can't be seen from their text.
    """
    heads, hunks = _heads(text)
    problems = [
        Problem(where, "not_text", f"{excerpt(line)!r}", "changes to the text of files")
        for line in heads
        if line.startswith(_BINARY) or _MODE.fullmatch(line)
    ]
    named = [name for line in heads if (name := _name_in(line))]
    if any(name.startswith('"') for _, name in named):
        fix = "make it with git -c core.quotePath=false diff"
        problems.append(Problem(where, "invalid_patch", "quotes a name", "plain names", fix))
    if not named or not (hunks or any(is_bare for is_bare, _ in named)):
        expected = "a unified diff, with --- and +++ before each @@"
        problems.append(Problem(where, "invalid_patch", "names no change", expected))
    sided = [name for is_bare, name in named if not is_bare]
    strip = int(bool(sided) and all(name[:2] in ("a/", "b/") for name in sided))
    paths = {name if is_bare else name[2 * strip :] for is_bare, name in named}
    return Patch(tuple(sorted(paths)), strip, tuple(problems))


def _heads(text: str) -> tuple[list[str], int]:
    """The lines outside of hunks, and how many hunks there are."""
    heads: list[str] = []
    hunks = old = new = 0
    for line in text.split("\n"):
        if old > 0 or new > 0:
            old -= line[:1] not in ("+", "\\")
            new -= line[:1] not in ("-", "\\")
        elif hunk := _HUNK.match(line):
            hunks += 1
            old, new = (int(count) if count else 1 for count in hunk.groups())
        else:
            heads.append(line.removesuffix("\r"))
    return heads, hunks


def _name_in(line: str) -> tuple[bool, str] | None:
    """The file that a line names, and whether without `a/` or `b/`; None for any other line."""
    start = next((start for start in _NAMED if line.startswith(start)), None)
    if start is None:
        return None
    name = line[len(start) :].partition("\t")[0]
    return (start[0] in "rc", name) if name and name != _NOWHERE else None

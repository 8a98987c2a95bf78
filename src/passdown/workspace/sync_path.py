"""Where the knowledge file may be: in the project, whatever links say, or where a caller names."""

from __future__ import annotations

import os
import stat

from passdown.errors import InvalidInput, Problem
from passdown.model.text import has_lone_surrogate

_ENDINGS = (".dot", ".gv", ".json")
_LEFT_ALONE = "the knowledge file was left alone"


def sync_path(root: str, path: object, private: str) -> str:
    """The real path of the knowledge file that `path` names, relative to the project.

    A path in the project, or relative to it, has to stay in it once links are followed, and out of
    `private`, the store's folder, and `.git`. A path outside has to be absolute, no link, and in a
    folder that is there. Whatever has the name is a regular file, and the name that of a graph.
    Raises InvalidInput.
    """
    given = _text(path)
    base = os.path.realpath(root)
    named = os.path.normpath(os.path.join(root, given))
    target = os.path.realpath(named)
    if _is_beneath(target, base):
        parts = os.path.relpath(target, base).split(os.sep)
        if _is_beneath(target, os.path.realpath(private)) or ".git" in parts:
            raise _refused(given, target, "is among files that keep the project's history")
    elif not os.path.isabs(given) or _is_beneath(named, os.path.abspath(root), base):
        raise _refused(given, target, "leads out of the project")
    elif os.path.islink(named):
        raise _refused(given, target, "is a link outside of the project")
    elif not os.path.isdir(os.path.dirname(target)):
        raise _refused(given, target, "is in a folder that is not there")
    if not named.lower().endswith(_ENDINGS):
        expected = f"a name that ends with {', '.join(_ENDINGS)}"
        message = f"{given[:200]!r} is not the name of a graph"
        raise InvalidInput(_LEFT_ALONE, [Problem("path", "not_a_graph", message, expected)])
    try:
        is_file = stat.S_ISREG(os.lstat(target).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return target
    except OSError as error:
        raise _refused(given, target, error.strerror or "can't be looked at") from error
    if not is_file:
        raise _refused(given, target, "is not a regular file")
    return target


def no_graph(target: str, why: str) -> InvalidInput:
    """The refusal of a file that holds something else, which is not ours to move."""
    message = f"{target[:400]} is there and holds no graph: {why}"
    expected = "a file that isn't there yet, or a graph as JSON or DOT"
    fix = "name another file, or mend this one"
    return InvalidInput(_LEFT_ALONE, [Problem("path", "not_a_graph", message, expected, fix)])


def _text(path: object) -> str:
    if not isinstance(path, str):
        problem = Problem("path", "wrong_type", type(path).__name__, "the path of a file")
    elif "\0" in path or has_lone_surrogate(path):
        problem = Problem("path", "invalid_path", "holds what no path can", "the path of a file")
    else:
        return path
    raise InvalidInput("no such knowledge file", [problem])


def _is_beneath(path: str, *folders: str) -> bool:
    return any(os.path.commonpath([path, folder]) == folder for folder in folders)


def _refused(given: str, target: str, why: str) -> InvalidInput:
    expected = "a regular file in the project, or an absolute path that is no link"
    message = f"{given[:200]!r} ({target[:400]}) {why}"
    return InvalidInput(_LEFT_ALONE, [Problem("path", "unsafe_path", message, expected)])

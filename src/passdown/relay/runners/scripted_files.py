"""What a scripted answer does to the folder of work: files beneath it, and a commit of them."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from passdown.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TIMEOUT_S = 60.0
# Set while git runs a hook; they would point it at another repository.
_FOREIGN = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR")


def write_files(folder: str, files: Mapping[str, str]) -> None:
    """Write texts beneath a folder; raises InvalidInput, and writes none, if a path leads out."""
    problems = [_link_problem(folder, path) for path in files]
    if not folder or not os.path.isdir(folder):
        problems = [Problem("workdir", "required", "there is no folder to work in", "a folder")]
    if found := [problem for problem in problems if problem]:
        raise InvalidInput("the files can't be written", found)
    for path, text in files.items():
        target = os.path.join(folder, *path.split("/"))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w", encoding="utf-8", newline="") as file:
            file.write(text)


def _link_problem(folder: str, path: str) -> Problem | None:
    """Refuse what a link on the way would take out of the folder."""
    root = os.path.realpath(folder)
    real = os.path.realpath(os.path.join(root, *path.split("/")))
    if os.path.commonpath([root, real]) == root:
        return None
    message = f"{path} leads out of the folder"
    return Problem(f"files.{path}", "path_escapes_root", message, "a file beneath it")


def commit_files(folder: str, paths: Sequence[str], message: str, agent: str) -> None:
    """Commit these files in the name of an agent; once they are committed, nothing more is done.

    No hook is run and nothing is signed. Raises InvalidInput with what git says.
    """
    _git(folder, "add", "--", *paths)
    if not _git(folder, "diff", "--cached", "--name-only", "--", *paths).strip():
        return
    who = ("-c", f"user.name={agent}", "-c", f"user.email={agent}@passdown.invalid")
    unsigned = ("-c", "commit.gpgsign=false", "-c", f"core.hooksPath={os.devnull}")
    _git(folder, *who, *unsigned, "commit", "-q", "-m", message, "--", *paths)


def _git(folder: str, *arguments: str) -> str:
    environment = {name: text for name, text in os.environ.items() if name not in _FOREIGN}
    environment |= {"GIT_LITERAL_PATHSPECS": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", "-C", folder, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _no_commit(str(error)) from error
    if done.returncode:
        raise _no_commit(done.stderr.decode("utf-8", "replace").strip()[-500:])
    return done.stdout.decode("utf-8", "replace")


def _no_commit(said: str) -> InvalidInput:
    problem = Problem("commit", "git_failed", said or "git failed", "a repository to commit to")
    return InvalidInput("the files can't be committed", [problem])

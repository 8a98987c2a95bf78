"""A project's git repository: asked and written through the `git` program, with every answer
bounded.

No hook, filter, file watcher, signing program or background work is started: the first two may be
files of the project, and so the very text that is being committed.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from passdown.errors import GitError
from passdown.model.text import visible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TIMEOUT_S = 60.0
MAX_FILE_BYTES = 16 * 2**20
REGULAR = ("100644", "100755")
NOREPLY = "noreply.passdown.invalid"

_OPTIONS = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.sparseCheckout": "false",
    "core.splitIndex": "false",
    "core.quotePath": "false",
    # What the ledger says was committed has to be there after a power cut.
    "core.fsync": "committed,loose-object,reference",
    "commit.gpgSign": "false",
    "gc.auto": "0",
    "i18n.commitEncoding": "UTF-8",
    "maintenance.auto": "false",
}
# Where git finds its own settings and programs; any other variable could lead it elsewhere.
_KEPT = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH")
_FIXED = {
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "LC_ALL": "C",
}


class Entry(NamedTuple):
    """What a commit has at a path."""

    mode: str
    blob: str
    size: int


class Repository:
    """The repository that a project is in; `prefix` is where in it the project is.

    Raises GitError where there is no git or no repository.
    """

    def __init__(self, root: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self.root = root
        self._timeout_s = timeout_s
        self.held: tuple[int, ...] = ()
        try:
            found = self.text("rev-parse", "--show-prefix", "--git-common-dir")
        except GitError as error:
            if error.code != "git_failed":
                raise
            raise GitError(
                f"{root} is not in a git repository that can be used ({error.message})",
                next_step="Make one with git init and a first commit.",
                code="not_a_repository",
            ) from error
        prefix, common = found.split("\n")[:2]
        self.prefix = prefix
        self.common = os.path.realpath(os.path.join(root, common))

    def run(
        self,
        *arguments: str,
        folder: str = "",
        given: bytes = b"",
        environment: Mapping[str, str] | None = None,
    ) -> bytes:
        """What git prints for some arguments; raises GitError when it fails or takes too long."""
        options = [part for item in _OPTIONS.items() for part in ("-c", "=".join(item))]
        try:
            process = subprocess.Popen(
                ["git", "-C", folder or self.root, *options, *arguments],
                env={**_inherited(), **_FIXED, **(environment or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=self.held,
            )
        except OSError as error:
            raise GitError(
                f"git can't be started ({error.strerror})",
                next_step="Install git, or look at PATH.",
                code="no_git",
            ) from error
        with process:
            try:
                out, err = process.communicate(given, self._timeout_s)
            except BaseException as error:
                _end(process)
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
                raise GitError(f"git {arguments[0]} took over {self._timeout_s:g} s") from error
        if process.returncode:
            said = visible(err.decode("utf-8", "replace").strip()[-2_000:], keep_newlines=True)
            raise GitError(said or f"git {arguments[0]} ended with {process.returncode}")
        return out

    def text(self, *arguments: str, folder: str = "") -> str:
        """What git prints, as text."""
        return self.run(*arguments, folder=folder).decode("utf-8", "replace")

    def commit_of(self, base: str) -> str:
        """The id of the commit that a branch, a tag or an id means."""
        try:
            asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{base}^{{commit}}")
            return self.text(*asked).strip()
        except GitError as error:
            if base == "HEAD" and error.code == "git_failed":
                raise GitError(
                    "the repository has no commit yet",
                    next_step="Make the first commit; work is put on a branch that starts at it.",
                    code="no_commits",
                ) from error
            message = f"there is no branch, tag or commit {base!r}"
            raise GitError(message, next_step="git branch -a", code="unknown_base") from error

    def tip(self, branch: str) -> str:
        """The commit that a branch is at; empty where there is no such branch."""
        found = self.text("for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}")
        return found.strip()

    def branch_at(self, base: str) -> str:
        """The branch that `base` means, for a reader: HEAD is the one that is checked out."""
        try:
            name = self.text("rev-parse", "--abbrev-ref", "--end-of-options", base).strip()
        except GitError:
            return base
        return name.splitlines()[-1] if name and name != "HEAD" else self.commit_of(base)

    def marked(self, since: str, tip: str, line: str) -> str:
        """The newest commit after another whose message has a line; empty where there is none."""
        log = self.text("log", "-z", "-n", "100", "--format=%H%n%B", f"{since}..{tip}")
        for entry in log.split("\0"):
            commit, *message = entry.split("\n")
            if line in message:
                return commit
        return ""

    def files_of(self, commit: str) -> tuple[str, ...]:
        """The files that a commit changed against its first parent, relative to the project."""
        found = self.text("diff", "--name-only", "--no-renames", "-z", f"{commit}^", commit)
        return tuple(path.removeprefix(self.prefix) for path in found.split("\0") if path)

    def entry(self, commit: str, path: str) -> Entry | None:
        """What a commit has at a path of the project; None for nothing.

        Raises GitError for what isn't a regular file, and where a file or a link is on the way.
        """
        parts = (self.prefix + path).split("/")
        # One at a time, from the end: asked for a folder and what is in it, git lists all of it.
        for count in range(len(parts), 0, -1):
            name = "/".join(parts[:count])
            line = self.text("ls-tree", "-l", "--full-tree", commit, "--", name)
            if not line:
                continue
            mode, _, blob, size, *_ = line.split(maxsplit=4)
            if count == len(parts) and mode in REGULAR:
                return Entry(mode, blob, int(size))
            if count == len(parts) or mode != "040000":
                raise unsafe(path, "is no regular file, or has one or a link on its way")
            break
        return None

    def read(self, commit: str, path: str) -> bytes | None:
        """The content of a file in a commit; None where it has none."""
        found = self.entry(commit, path)
        if found is None:
            return None
        if found.size > MAX_FILE_BYTES:
            message = f"{path} has {found.size:,} bytes; express work goes to {MAX_FILE_BYTES:,}"
            raise GitError(message, code="too_large")
        return self.run("cat-file", "blob", found.blob)

    def address(self, agent: str) -> str:
        """The address for the commits of an agent: the one git is set to, else one that takes no
        mail.
        """
        try:
            return self.text("config", "user.email").strip() or f"{agent}@{NOREPLY}"
        except GitError:
            return f"{agent}@{NOREPLY}"

    def remotes(self) -> Sequence[str]:
        """The names of the repositories that this one knows, `origin` first."""
        return sorted(self.text("remote").split(), key=lambda name: (name != "origin", name))


def unsafe(path: str, why: str) -> GitError:
    """The error for a path that express work leaves alone."""
    message = f"{path[:200]!r} {why}"
    return GitError(message, next_step="Name a regular file of the project.", code="unsafe_path")


def _inherited() -> dict[str, str]:
    return {n: v for n, v in os.environ.items() if not n.startswith("GIT_") or n in _KEPT}


def _end(process: subprocess.Popen[bytes]) -> None:
    """End git with whatever it started."""
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()

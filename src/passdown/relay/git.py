"""Git for express items: a repository, commits in a temporary worktree, pull requests, file locks.

No hook, filter, file watcher, signing program or background job is started, and the user's branch,
index and files are never touched.
"""

from __future__ import annotations

import os
import re
import selectors
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from passdown.core.names import path_problems
from passdown.core.text import visible
from passdown.errors import GitError, StoreBusy
from passdown.relay.express_items import may_change, read_patch

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from datetime import datetime


LOCK_TIMEOUT_S = 60.0
_PAUSE_S = 0.02


@contextmanager
def locked(path: str, *, timeout_s: float = LOCK_TIMEOUT_S) -> Generator[int]:
    """Hold the lock of a file, which exists only meanwhile; yields its descriptor.

    A child that inherits the descriptor shares the lock and keeps it if we are killed. Threads
    exclude each other too. Raises StoreBusy if another holds it for too long. Without file locks
    (Windows) everybody gets it.
    """
    deadline = time.monotonic() + timeout_s
    while (descriptor := _try_lock(path)) is None:
        if time.monotonic() > deadline:
            message = f"{os.path.basename(path)} was locked by another process for {timeout_s:g} s"
            raise StoreBusy(message, next_step="Wait until it has finished, then try again.")
        time.sleep(_PAUSE_S)
    try:
        yield descriptor
    finally:
        with suppress(OSError):
            os.unlink(path)
        os.close(descriptor)


def _try_lock(path: str) -> int | None:
    """The descriptor of a free lock; None if it isn't free."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        import fcntl
    except ImportError:
        return descriptor
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The previous holder removes the file: then our lock is on a file that is gone.
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


GIT_TIMEOUT_S = 60.0
MAX_FILE_BYTES = 16 * 2**20
REGULAR = ("100644", "100755")
NOREPLY = "noreply.passdown.invalid"

_OPTIONS = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.sparseCheckout": "false",
    "core.splitIndex": "false",
    "core.quotePath": "false",
    # A recorded commit must survive a power cut.
    "core.fsync": "committed,loose-object,reference",
    "commit.gpgSign": "false",
    "gc.auto": "0",
    "i18n.commitEncoding": "UTF-8",
    "maintenance.auto": "false",
}
# Where git finds its settings and programs; other variables could redirect it.
_KEPT_VARIABLES = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH")
_FIXED_VARIABLES = {
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "LC_ALL": "C",
}


class TreeEntry(NamedTuple):
    """What a commit has at a path."""

    mode: str
    blob: str
    size: int


class Repository:
    """The git repository of a project; `prefix` is the path of the project in it.

    Raises GitError if there is no git or no repository.
    """

    def __init__(self, root: str, *, timeout_s: float = GIT_TIMEOUT_S) -> None:
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
                next_step="Create one with git init and a first commit.",
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
        """The output of a git command; raises GitError if it fails or takes too long."""
        options = [part for item in _OPTIONS.items() for part in ("-c", "=".join(item))]
        try:
            process = subprocess.Popen(
                ["git", "-C", folder or self.root, *options, *arguments],
                env={**_inherited(), **_FIXED_VARIABLES, **(environment or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=self.held,
            )
        except OSError as error:
            raise GitError(
                f"git could not be started ({error.strerror})",
                next_step="Install git, or check PATH.",
                code="no_git",
            ) from error
        with process:
            try:
                out, err = process.communicate(given, self._timeout_s)
            except BaseException as error:
                _kill_group(process)
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
                raise GitError(f"git {arguments[0]} took over {self._timeout_s:g} s") from error
        if process.returncode:
            said = visible(err.decode("utf-8", "replace").strip()[-2_000:], keep_newlines=True)
            raise GitError(said or f"git {arguments[0]} ended with {process.returncode}")
        return out

    def text(self, *arguments: str, folder: str = "") -> str:
        """The output of a git command, as text."""
        return self.run(*arguments, folder=folder).decode("utf-8", "replace")

    def commit_of(self, base: str) -> str:
        """The id of the commit of a branch, tag or id."""
        try:
            asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{base}^{{commit}}")
            return self.text(*asked).strip()
        except GitError as error:
            if base == "HEAD" and error.code == "git_failed":
                raise GitError(
                    "the repository has no commit yet",
                    next_step="Make the first commit; branches start at it.",
                    code="no_commits",
                ) from error
            message = f"there is no branch, tag or commit {base!r}"
            raise GitError(message, next_step="git branch -a", code="unknown_base") from error

    def tip(self, branch: str) -> str:
        """The commit of a branch; "" if there is no such branch."""
        found = self.text("for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}")
        return found.strip()

    def branch_at(self, base: str) -> str:
        """The name of the branch of `base`; for HEAD, the one that is checked out."""
        try:
            name = self.text("rev-parse", "--abbrev-ref", "--end-of-options", base).strip()
        except GitError:
            return base
        return name.splitlines()[-1] if name and name != "HEAD" else self.commit_of(base)

    def marked(self, since: str, tip: str, line: str) -> str:
        """The newest commit since another whose message has a line; "" for none."""
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

    def entry(self, commit: str, path: str) -> TreeEntry | None:
        """What a commit has at a path of the project, or None.

        Raises GitError for what isn't a regular file, and for a file or a link on the way.
        """
        parts = (self.prefix + path).split("/")
        # One at a time, from the end: for a folder and its content, git lists all of it.
        for count in range(len(parts), 0, -1):
            name = "/".join(parts[:count])
            line = self.text("ls-tree", "-l", "--full-tree", commit, "--", name)
            if not line:
                continue
            mode, _, blob, size, *_ = line.split(maxsplit=4)
            if count == len(parts) and mode in REGULAR:
                return TreeEntry(mode, blob, int(size))
            if count == len(parts) or mode != "040000":
                raise unsafe_path_error(path, "is not a regular file, or is behind a file or link")
            break
        return None

    def read(self, commit: str, path: str) -> bytes | None:
        """The content of a file in a commit, or None."""
        found = self.entry(commit, path)
        if found is None:
            return None
        if found.size > MAX_FILE_BYTES:
            message = f"{path} has {found.size:,} bytes; the limit is {MAX_FILE_BYTES:,}"
            raise GitError(message, code="too_large")
        return self.run("cat-file", "blob", found.blob)

    def address(self, agent: str) -> str:
        """The email address for an agent's commits: git's, or else one that takes no mail."""
        try:
            return self.text("config", "user.email").strip() or f"{agent}@{NOREPLY}"
        except GitError:
            return f"{agent}@{NOREPLY}"

    def remotes(self) -> Sequence[str]:
        """The names of the remotes, `origin` first."""
        return sorted(self.text("remote").split(), key=lambda name: (name != "origin", name))


def unsafe_path_error(path: str, why: str) -> GitError:
    """The error for a path that express items may not change."""
    message = f"{path[:200]!r} {why}"
    return GitError(message, next_step="Name a regular file of the project.", code="unsafe_path")


def _inherited() -> dict[str, str]:
    return {n: v for n, v in os.environ.items() if not n.startswith("GIT_") or n in _KEPT_VARIABLES}


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process with everything that it started."""
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


FOLDER = "passdown"
_LIST_LOCK = "worktrees.lock"
_UNFILTERED = ("unspecified", "unset")


class Commit(NamedTuple):
    """A commit and the files that it changed, relative to the project."""

    id: str
    files: tuple[str, ...]


class Worktree:
    """A temporary worktree of a repository, on a new branch; a context manager.

    It starts at `base` (a branch, tag or commit). The branch stays if something was committed. With
    `mark`, a line of the commit message, it continues where a killed process stopped: `committed`
    is then the commit that was made. Without it, or if the branch is somebody else's, an existing
    branch raises GitError. Processes use the same branch one after the other.
    """

    def __init__(self, root: str, branch: str, base: str = "HEAD", *, mark: str = "") -> None:
        self.repository = Repository(root)
        self.branch = branch
        self.base = self.repository.commit_of(base)
        self.committed: Commit | None = None
        self._mark = mark
        self._parent = os.path.join(self.repository.common, FOLDER)
        self.folder = os.path.join(self._parent, branch.replace("/", "-"))
        self._written: set[str] = set()
        self._deleted: set[str] = set()
        self._locks = ExitStack()

    def __enter__(self) -> Self:
        """Add the worktree, after removing what an earlier process left."""
        with ExitStack() as stack:
            # git inherits this lock, so a commit that a killed process had begun is over by now.
            held = stack.enter_context(locked(f"{self.folder}.lock"))
            self.repository.held = (held,)
            self._sweep()
            _remove(self.repository, self.folder)
            with suppress(FileNotFoundError):  # left by a git that was killed
                os.unlink(os.path.join(self.repository.common, "refs/heads", f"{self.branch}.lock"))
            if not self._was_committed():
                self._add()
            self._locks = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the worktree; the branch stays if it has a commit."""
        with self._locks:
            _remove(self.repository, self.folder)
            if self.committed is None:
                with suppress(GitError):  # somebody else has moved it
                    ref = f"refs/heads/{self.branch}"
                    self.repository.run("update-ref", "-d", ref, self.base)

    def write(self, path: str, data: bytes) -> None:
        """Write a file; an existing one stays executable."""
        found = self._checked(path)
        target = os.path.join(self.folder, *(self.repository.prefix + path).split("/"))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as file:
            file.write(data)
        os.chmod(target, 0o755 if found and found.mode == "100755" else 0o644)
        self._written.add(path)

    def delete(self, path: str) -> None:
        """Delete a file, which must exist."""
        if self._checked(path) is None:
            raise unsafe_path_error(path, "does not exist")
        self._deleted.add(path)

    def apply(self, patch: str) -> None:
        """Apply a unified patch to the worktree's index, all of it or nothing."""
        read = read_patch(patch)
        for path in read.paths:
            self._checked(path)
        options = ["--cached", "--whitespace=nowarn", f"-p{read.strip}"]
        if self.repository.prefix:
            options.append(f"--directory={self.repository.prefix}")
        text = patch if patch.endswith("\n") else patch + "\n"
        try:
            self.repository.run("apply", *options, "-", folder=self.folder, given=text.encode())
        except GitError as error:
            error.code = "patch_failed"
            error.next_step = "Create the patch again from its base commit."
            raise

    def commit(self, message: str, *, author: str, at: datetime) -> Commit:
        """Commit what was written, deleted and applied; the same by the same author at the same
        time is the same commit.

        Raises GitError with the code nothing_to_commit if nothing changed.
        """
        self._refuse_filtered(self._written | self._deleted)
        self._stage()
        changed = self._changed()
        if not changed:
            message = "nothing would change"
            raise GitError(message, next_step="The files are as wanted.", code="nothing_to_commit")
        self._refuse_filtered(changed)
        moment = f"@{int(at.timestamp())} +0000"
        address = self.repository.address(author)
        who: dict[str, str] = {}
        for role in ("AUTHOR", "COMMITTER"):
            names = {"NAME": author, "EMAIL": address, "DATE": moment}
            who |= {f"GIT_{role}_{name}": value for name, value in names.items()}
        options = ("-q", "--no-verify", "--no-gpg-sign", "--cleanup=verbatim", "-F", "-")
        run = self.repository.run
        run("commit", *options, folder=self.folder, given=message.encode(), environment=who)
        made = self.repository.text("rev-parse", "HEAD", folder=self.folder).strip()
        self.committed = Commit(made, tuple(sorted(changed)))
        return self.committed

    def _checked(self, path: str) -> TreeEntry | None:
        """What the base has at a path that may be changed."""
        if path_problems(path, "") or not may_change(path):
            raise unsafe_path_error(path, "may not be changed by express items")
        return self.repository.entry(self.base, path)

    def _stage(self) -> None:
        for paths, options in (
            (self._written, ("add", "-f", "--pathspec-from-file=-", "--pathspec-file-nul")),
            (self._deleted, ("update-index", "-z", "--force-remove", "--stdin")),
        ):
            names = "\0".join(self.repository.prefix + path for path in sorted(paths))
            if names:
                self.repository.run(*options, folder=self.folder, given=names.encode())

    def _changed(self) -> set[str]:
        """The files that the index changes, as git tells: a patch could claim anything."""
        options = ("--cached", "--raw", "--no-renames", "--no-abbrev", "-z", self.base)
        fields = self.repository.text("diff-index", *options, folder=self.folder).split("\0")
        changed: set[str] = set()
        for about, whole in zip(fields[::2], fields[1::2], strict=False):
            path = whole.removeprefix(self.repository.prefix)
            modes = {mode for mode in about.lstrip(":").split()[:2] if mode != "000000"}
            is_inside = whole.startswith(self.repository.prefix)
            if not is_inside or not may_change(path) or not modes <= set(REGULAR):
                raise unsafe_path_error(path, "may not be changed by express items")
            changed.add(path)
        return changed

    def _refuse_filtered(self, paths: set[str]) -> None:
        """Refuse files with a filter: it is a program, perhaps one of the project."""
        names = "\0".join(self.repository.prefix + path for path in sorted(paths))
        if not names:
            return
        asked = ("check-attr", "-z", "--stdin", "filter")
        found = self.repository.run(*asked, folder=self.folder, given=names.encode()).decode()
        fields = found.split("\0")
        for path, value in zip(fields[::3], fields[2::3], strict=False):
            if value not in _UNFILTERED:
                message = f"{path[:200]!r} uses the filter {value!r}"
                fix = "Change this file by hand: express items run no filters."
                raise GitError(message, next_step=fix, code="filtered")

    def _was_committed(self) -> bool:
        """Whether a killed process had made the commit; raises if the branch is somebody else's."""
        tip = self.repository.tip(self.branch)
        if tip and self._mark and (made := self.repository.marked(self.base, tip, self._mark)):
            self.committed = Commit(made, self.repository.files_of(made))
        elif tip and (tip != self.base or not self._mark):
            message = f"there is a branch {self.branch} already, with other work on it"
            raise GitError(message, next_step="Use another id.", code="branch_exists")
        return self.committed is not None

    def _add(self) -> None:
        start = [self.folder, self.branch]
        if not self.repository.tip(self.branch):
            start = ["-b", self.branch, self.folder, self.base]
        try:
            # Adding a worktree reads git's list of them, half-written entries included.
            with locked(os.path.join(self._parent, _LIST_LOCK)):
                self.repository.run("worktree", "add", "--no-checkout", *start)
            self.repository.run("read-tree", "HEAD", folder=self.folder)
        except BaseException:
            self.__exit__()
            raise

    def _sweep(self) -> None:
        """Remove what killed processes left of other worktrees."""
        names = {name.removesuffix(".lock") for name in os.listdir(self._parent)}
        for name in names - {os.path.basename(self.folder), _LIST_LOCK.removesuffix(".lock")}:
            folder = os.path.join(self._parent, name)
            with suppress(StoreBusy), locked(f"{folder}.lock", timeout_s=0):
                _remove(self.repository, folder)


def _remove(repository: Repository, folder: str) -> None:
    """Remove a worktree in any state; its branch stays."""
    name = os.path.basename(folder)
    own = os.path.join(repository.common, "worktrees", name)
    if not os.path.isdir(folder) and not os.path.isdir(own):
        return
    with locked(os.path.join(os.path.dirname(folder), _LIST_LOCK)):
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(GitError):  # it may not be on git's list
            repository.run("worktree", "remove", "-f", "-f", folder)
        shutil.rmtree(own, ignore_errors=True)


VARIABLE = "PASSDOWN_PR_COMMAND"
PULL_REQUEST_TIMEOUT_S = 120.0
MAX_OUTPUT_BYTES = 65_536

_PLACEHOLDER = re.compile(r"\{(branch|title|body_file|base)\}")
_URL = re.compile(r"https?://[^\s\"'<>\x00-\x1f]+")
_TOO_MUCH = f"printed more than {MAX_OUTPUT_BYTES:,} bytes"


class PullRequestSpec(NamedTuple):
    """A pull request to open: merge `branch` into `base`."""

    branch: str
    base: str
    title: str
    body: str


class PullRequest(NamedTuple):
    """The result. `said` is the output of the command, `problem` why there is no pull request,
    `suggestion` the command to run next.
    """

    is_open: bool
    url: str = ""
    said: str = ""
    problem: str = ""
    suggestion: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The result as a plain JSON object."""
        return self._asdict()


def open_pull_request(
    root: str,
    request: PullRequestSpec,
    *,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = PULL_REQUEST_TIMEOUT_S,
) -> PullRequest:
    """Run the command that the environment names, in the project.

    Settings can't name it: they come with the repository, which must not choose what is run. No
    shell reads it: `{branch}`, `{title}`, `{body_file}` and `{base}` each stay one argument. If it
    fails, prints too much or takes too long, the result says so: the branch is there all the same.
    """
    command = (os.environ if environment is None else environment).get(VARIABLE, "")
    suggestion = suggested_command(root, request.branch)
    try:
        words = shlex.split(command)
    except ValueError as error:
        problem = f"{VARIABLE} is invalid ({error})"
        return PullRequest(False, problem=problem, suggestion=suggestion)
    if not words:
        problem = f"{VARIABLE} is not set; the branch was not pushed"
        return PullRequest(False, problem=problem, suggestion=suggestion)
    said, problem = _run_command(words, request, root, timeout_s)
    if problem:
        return PullRequest(False, "", said, f"{VARIABLE}: {problem}", suggestion)
    urls = _URL.findall(said)
    return PullRequest(True, urls[-1] if urls else "", said)


def suggested_command(root: str, branch: str) -> str:
    """The command that pushes a branch, or merges it if there is no remote."""
    try:
        remotes = Repository(root).remotes()
    except GitError:
        remotes = ()
    words = ["push", remotes[0], branch] if remotes else ["merge", branch]
    return shlex.join(["git", "-C", root, *words])


def _run_command(
    words: list[str], request: PullRequestSpec, root: str, timeout_s: float
) -> tuple[str, str]:
    """The output of the command, and what was wrong with it."""
    with tempfile.TemporaryDirectory(prefix="passdown-") as folder:
        body_file = os.path.join(folder, "body.md")
        with open(body_file, "w", encoding="utf-8") as file:
            file.write(request.body)
        values = {
            "branch": request.branch,
            "base": request.base,
            # It must not look like an option.
            "title": request.title.lstrip("- ") or request.branch,
            "body_file": body_file,
        }
        # One pass: a title that looks like a placeholder stays as it is.
        filled = [_PLACEHOLDER.sub(lambda found: values[found[1]], word) for word in words]
        try:
            process = subprocess.Popen(
                filled,
                cwd=root,
                env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return "", f"can't be started ({error})"
        with process:
            out, problem = _read_output(process, time.monotonic() + timeout_s)
            if problem:
                _kill_group(process)
    said = visible(out.decode("utf-8", "replace").strip(), keep_newlines=True)
    if not problem and process.returncode:
        problem = f"ended with {process.returncode}"
    return said, problem


def _read_output(process: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, str]:
    """The output of a command until it ends; a problem if it is too much or takes too long."""
    out = b""
    with selectors.DefaultSelector() as selector:
        pipe = selector.register(process.stdout or -1, selectors.EVENT_READ).fd
        while (left := deadline - time.monotonic()) > 0:
            if not selector.select(left):
                continue
            chunk = os.read(pipe, 8_192)
            out += chunk
            if len(out) > MAX_OUTPUT_BYTES:
                return out[:MAX_OUTPUT_BYTES], _TOO_MUCH
            if not chunk:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, deadline - time.monotonic()))
                    return out, ""
    return out, "took too long"

"""Git for express items: commits on a branch of their own, pull requests; and file locks.

The user's branch, index and files are never touched, and no filter or signing program is started.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple, Self

from passdown.core.names import normal_path, path_problems
from passdown.core.text import excerpt, ignorable, visible
from passdown.errors import GitError, Problem, StoreBusy
from passdown.history.git import Git
from passdown.ledger.durable_files import take_lock
from passdown.ledger.project_files import OWN_FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from datetime import datetime


LOCK_TIMEOUT_S = 60.0
_PAUSE_S = 0.02


@contextmanager
def locked(
    path: str, *, timeout_s: float = LOCK_TIMEOUT_S, busy: StoreBusy | None = None
) -> Generator[int]:
    """Hold the lock of a file, which exists only meanwhile; yields its descriptor.

    A child that inherits the descriptor shares the lock and keeps it if we are killed. Threads
    exclude each other too. Raises StoreBusy, or `busy`, if another holds it for too long. Without
    file locks (Windows) everybody gets it.
    """
    deadline = time.monotonic() + timeout_s
    while (descriptor := _try_lock(path)) is None:
        if time.monotonic() > deadline:
            message = f"{os.path.basename(path)} was locked by another process for {timeout_s:g} s"
            fix = "Wait until it has finished, then try again."
            raise busy or StoreBusy(message, next_step=fix)
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
    with suppress(FileNotFoundError):
        # The previous holder removes the file: then our lock is on a file that is gone.
        if take_lock(descriptor, 0) and os.path.samestat(os.fstat(descriptor), os.stat(path)):
            return descriptor
    os.close(descriptor)
    return None


GIT_TIMEOUT_S = 60.0
MAX_FILE_BYTES = 16 * 2**20
REGULAR = ("100644", "100755")
NOREPLY = "noreply.passdown.invalid"
FOLDER = "passdown"

_SETTINGS = {
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
_OPTIONS = [part for item in _SETTINGS.items() for part in ("-c", "=".join(item))]
_UNFILTERED = ("unspecified", "unset")
_MARKED_DEPTH = 200


class TreeEntry(NamedTuple):
    """What a commit has at a path."""

    mode: str
    blob: str
    size: int


class Repository:
    """The git repository of a project; `prefix` is the path of the project in it.

    Raises GitError if there is no git or no repository.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.held: tuple[int, ...] = ()
        try:
            found = self.text("rev-parse", "--show-prefix", "--git-dir", "--git-common-dir")
        except GitError as error:
            if error.code != "git_failed":
                raise
            message = f"{root} is not in a git repository that can be used ({error.message})"
            fix = "Create one with git init and a first commit."
            raise GitError(message, next_step=fix, code="not_a_repository") from error
        self.prefix, own, common = found.split("\n")[:3]
        self.own, self.common = (os.path.realpath(os.path.join(root, p)) for p in (own, common))

    def run(
        self,
        *arguments: str,
        folder: str = "",
        given: bytes = b"",
        environment: Mapping[str, str] | None = None,
    ) -> bytes:
        """The output of a git command; raises GitError if it fails or takes too long."""
        git = Git(folder or self.root, GIT_TIMEOUT_S, held=self.held)
        return git.data(*_OPTIONS, *arguments, given=given, environment=environment)

    def text(self, *arguments: str) -> str:
        """The output of a git command, as text."""
        return self.run(*arguments).decode("utf-8", "replace")

    def commit_of(self, base: str) -> str:
        """The id of the commit of a branch, tag or id."""
        try:
            asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{base}^{{commit}}")
            return self.text(*asked).strip()
        except GitError as error:
            message, fix = f"there is no branch, tag or commit {base!r}", "git branch -a"
            code = "unknown_base"
            if base == "HEAD" and error.code == "git_failed":
                message, code = "the repository has no commit yet", "no_commits"
                fix = "Make the first commit; branches start at it."
            raise GitError(message, next_step=fix, code=code) from error

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

    def marked(self, line: str, *tips: str) -> str:
        """The newest commit below some commits whose message has a line; "" for none."""
        log = self.text("log", "-z", "-n", str(_MARKED_DEPTH), "--format=%H%n%B", *tips)
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
        with suppress(GitError):
            if given := self.text("config", "user.email").strip():
                return given
        return f"{agent}@{NOREPLY}"


def unsafe_path_error(path: str, why: str) -> GitError:
    """The error for a path that express items may not change."""
    message = f"{path[:200]!r} {why}"
    return GitError(message, next_step="Name a regular file of the project.", code="unsafe_path")


KNOWLEDGE_ENDINGS = (".dot", ".gv", ".json")
_GIT_FOLDERS = (".git", "git~1")
KNOWLEDGE_FILES = frozenset(f"{OWN_FOLDER}/knowledge{ending}" for ending in KNOWLEDGE_ENDINGS)


def file_problems(path: object, where: str) -> list[Problem]:
    """Check the path of a file to change."""
    problems = path_problems(path, where)
    if not problems and isinstance(path, str) and _is_protected(path):
        message = f"{path[:200]!r} is inside a folder that keeps the project's history"
        problems = [Problem(where, "protected_path", message, "a file of the project")]
    return problems


def _is_protected(path: str) -> bool:
    """Whether a project path leads into git's folder or Passdown's."""
    # Some file systems ignore case and invisible characters.
    parts = [ignorable().sub("", part).casefold() for part in normal_path(path).split("/")]
    return parts[0] == OWN_FOLDER or any(part in _GIT_FOLDERS for part in parts)


def may_change(path: str) -> bool:
    """Whether express items may change a project path."""
    return path in KNOWLEDGE_FILES or not _is_protected(path)


_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_NAMED = ("--- ", "+++ ", "rename from ", "rename to ", "copy from ", "copy to ")
_MODE = re.compile(r"(?:old|new) mode \d+|(?:new|deleted) file mode (?!100644$|100755$)\d+")
_BINARY = ("GIT binary patch", "Binary files ")
_NOWHERE = "/dev/null"


class Patch(NamedTuple):
    """The headers of a patch: the files it names, how many leading parts of their names to strip
    (`a/` and `b/`: 1), and what is wrong with it.
    """

    paths: tuple[str, ...]
    strip: int
    problems: tuple[Problem, ...]


def read_patch(text: str, where: str = "patch") -> Patch:
    """Read the headers of a unified patch; git checks the rest when it is applied.

    Patches of binary files and modes (links and submodules too) and quoted names are refused: their
    effect can't be seen from the text.
    """
    heads, hunks = _header_lines(text)
    problems = [
        Problem(where, "not_text", f"{excerpt(line)!r}", "changes to the text of files")
        for line in heads
        if line.startswith(_BINARY) or _MODE.fullmatch(line)
    ]
    named = [name for line in heads if (name := _file_named_in(line))]
    if any(name.startswith('"') for _, name in named):
        fix = "make it with git -c core.quotePath=false diff"
        problems.append(Problem(where, "invalid_patch", "has a quoted name", "unquoted names", fix))
    if not named or not (hunks or any(is_bare for is_bare, _ in named)):
        expected = "a unified diff, with --- and +++ before each @@"
        problems.append(Problem(where, "invalid_patch", "contains no change", expected))
    sided = [name for is_bare, name in named if not is_bare]
    strip = int(bool(sided) and all(name[:2] in ("a/", "b/") for name in sided))
    paths = {name if is_bare else name[2 * strip :] for is_bare, name in named}
    return Patch(tuple(sorted(paths)), strip, tuple(problems))


def _header_lines(text: str) -> tuple[list[str], int]:
    """The lines outside hunks, and the number of hunks."""
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


def _file_named_in(line: str) -> tuple[bool, str] | None:
    """The file that a header names, and whether without `a/` or `b/`; None for other lines."""
    start = next((start for start in _NAMED if line.startswith(start)), None)
    if start is None:
        return None
    name = line[len(start) :].partition("\t")[0]
    return (start[0] in "rc", name) if name and name != _NOWHERE else None


class Commit(NamedTuple):
    """A commit and the files that it changed, relative to the project."""

    id: str
    files: tuple[str, ...]


class Worktree:
    """Files and an index of its own, in which one commit is made; a context manager.

    It starts at `base` (a branch, tag or commit) and holds only the files that are written. The
    branch is created with the commit. With `mark`, a line of the commit message, a commit that a
    killed process has made is found: `committed` is then that one. Any other existing branch raises
    GitError. Processes use the same branch one after the other.
    """

    def __init__(self, root: str, branch: str, base: str = "HEAD", *, mark: str = "") -> None:
        self.repository = Repository(root)
        self.branch = branch
        self.base = self.repository.commit_of(base)
        self.committed: Commit | None = None
        self._mark = mark
        self._place = os.path.join(self.repository.common, FOLDER, branch.replace("/", "-"))
        self.lock = f"{self._place}.lock"
        self.folder = os.path.join(self._place, "files")
        self._environment = {
            "GIT_DIR": self.repository.own,
            "GIT_WORK_TREE": self.folder,
            "GIT_INDEX_FILE": os.path.join(self._place, "index"),
        }
        self._written: set[str] = set()
        self._deleted: set[str] = set()
        self._locks = ExitStack()

    def __enter__(self) -> Self:
        """Begin at the base commit, after removing what a killed process left."""
        with ExitStack() as stack:
            # git inherits this lock, so a commit that a killed process had begun is over by now.
            self.repository.held = (stack.enter_context(locked(self.lock)),)
            stack.callback(shutil.rmtree, self._place, ignore_errors=True)
            shutil.rmtree(self._place, ignore_errors=True)
            with suppress(FileNotFoundError):  # left by a git that was killed
                os.unlink(os.path.join(self.repository.common, "refs/heads", f"{self.branch}.lock"))
            self._find_commit()
            os.makedirs(self.folder)
            self._run("read-tree", self.base)
            self._locks = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove everything but the commit and its branch."""
        self._locks.close()

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
        """Apply a unified patch to the index, all of it or nothing."""
        read = read_patch(patch)
        for path in read.paths:
            self._checked(path)
        options = ["--cached", "--whitespace=nowarn", f"-p{read.strip}"]
        if self.repository.prefix:
            options.append(f"--directory={self.repository.prefix}")
        text = patch if patch.endswith("\n") else patch + "\n"
        try:
            self._run("apply", *options, "-", given=text)
        except GitError as error:
            error.code = "patch_failed"
            error.next_step = "Create the patch again from its base commit."
            raise

    def commit(self, message: str, *, author: str, at: datetime, committer: str = "") -> Commit:
        """Commit what was written, deleted and applied; the same by the same names at the same time
        is the same commit. The committer is the author unless given.

        Raises GitError with the code nothing_to_commit if nothing changed.
        """
        self._refuse_filtered(self._written | self._deleted)
        if self._written:
            options = ("-f", "--pathspec-from-file=-", "--pathspec-file-nul")
            self._run("add", *options, given=self._names(self._written))
        if self._deleted:
            options = ("-z", "--force-remove", "--stdin")
            self._run("update-index", *options, given=self._names(self._deleted))
        changed = self._changed()
        if not changed:
            message = "nothing would change"
            raise GitError(message, next_step="The files are as wanted.", code="nothing_to_commit")
        self._refuse_filtered(changed)
        for role, name in (("AUTHOR", author), ("COMMITTER", committer or author)):
            self._environment |= {
                f"GIT_{role}_NAME": name,
                f"GIT_{role}_EMAIL": self.repository.address(name),
                f"GIT_{role}_DATE": f"@{int(at.timestamp())} +0000",
            }
        tree = self._run("write-tree").strip()
        made = self._run("commit-tree", tree, "-p", self.base, "-F", "-", given=message).strip()
        # The empty value: it may not exist yet.
        self._run("update-ref", "-m", "passdown express", f"refs/heads/{self.branch}", made, "")
        self.committed = Commit(made, tuple(sorted(changed)))
        return self.committed

    def _run(self, *arguments: str, given: str = "") -> str:
        """The output of a git command on these files and this index."""
        run, data = self.repository.run, given.encode()
        out = run(*arguments, folder=self.folder, given=data, environment=self._environment)
        return out.decode("utf-8", "replace")

    def _checked(self, path: str) -> TreeEntry | None:
        """What the base has at a path that may be changed."""
        if path_problems(path, "") or not may_change(path):
            raise unsafe_path_error(path, "may not be changed by express items")
        return self.repository.entry(self.base, path)

    def _names(self, paths: set[str]) -> str:
        return "\0".join(self.repository.prefix + path for path in sorted(paths))

    def _changed(self) -> set[str]:
        """The files that the index changes, as git tells: a patch could claim anything."""
        options = ("--cached", "--raw", "--no-renames", "--no-abbrev", "-z", self.base)
        fields = self._run("diff-index", *options).split("\0")
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
        found = self._run("check-attr", "-z", "--stdin", "filter", given=self._names(paths))
        fields = found.split("\0")
        for path, value in zip(fields[::3], fields[2::3], strict=False):
            if value not in _UNFILTERED:
                message = f"{path[:200]!r} uses the filter {value!r}"
                fix = "Change this file by hand: express items run no filters."
                raise GitError(message, next_step=fix, code="filtered")

    def _find_commit(self) -> None:
        """Find the commit that a killed process has made, even if it was merged and its branch
        deleted since; raises if the branch is somebody else's.
        """
        tip = self.repository.tip(self.branch)
        tips = [tip, self.base] if tip else [self.base]
        if self._mark and (made := self.repository.marked(self._mark, *tips)):
            self.committed = Commit(made, self.repository.files_of(made))
        elif tip:
            message = f"there is a branch {self.branch} already, with other work on it"
            raise GitError(message, next_step="Use another id.", code="branch_exists")


VARIABLE = "PASSDOWN_PR_COMMAND"
PULL_REQUEST_TIMEOUT_S = 120.0
MAX_OUTPUT_BYTES = 65_536

_PLACEHOLDER = re.compile(r"\{(branch|title|body_file|base)\}")
_URL = re.compile(r"https?://[^\s\"'<>\x00-\x1f]+")


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


def open_pull_request(
    root: str,
    request: PullRequestSpec,
    *,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = PULL_REQUEST_TIMEOUT_S,
    stop: Callable[[], bool] = lambda: False,
) -> PullRequest:
    """Run the command that the environment names, in the project.

    Once `stop` returns True, the command is ended, and StoreBusy says that it is left to others.

    Settings can't name it: they come with the repository, which must not choose what is run. No
    shell reads it: `{branch}`, `{title}`, `{body_file}` and `{base}` each stay one argument. If it
    fails, prints too much or takes too long, the result says so: the branch is there all the same.
    """
    command = (os.environ if environment is None else environment).get(VARIABLE, "")
    said = ""
    try:
        words = shlex.split(command)
        problem = f"{VARIABLE} is not set; the branch was not pushed"
    except ValueError as error:
        words, problem = [], f"{VARIABLE} is invalid ({error})"
    if words:
        said, problem = _run_command(words, request, root, timeout_s, stop)
        if not problem:
            urls = _URL.findall(said)
            return PullRequest(True, urls[-1] if urls else "", said)
        problem = f"{VARIABLE}: {problem}"
    return PullRequest(False, "", said, problem, suggested_command(root, request.branch))


def suggested_command(root: str, branch: str) -> str:
    """The command that pushes a branch, or merges it if there is no remote."""
    try:
        remotes = Repository(root).text("remote").split()
    except GitError:
        remotes = []
    first = sorted(remotes, key=lambda name: (name != "origin", name))[:1]
    words = ["push", *first, branch] if first else ["merge", branch]
    return shlex.join(["git", "-C", root, *words])


def _run_command(
    words: list[str],
    request: PullRequestSpec,
    root: str,
    timeout_s: float,
    stop: Callable[[], bool],
) -> tuple[str, str]:
    """The output of the command, and what was wrong with it."""
    from passdown.relay.runners.command import ProcessLimits, ProcessSpec, run_process

    with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="passdown-") as file:
        file.write(request.body)
        file.flush()
        values = {
            "branch": request.branch,
            "base": request.base,
            # It must not look like an option.
            "title": request.title.lstrip("- ") or request.branch,
            "body_file": file.name,
        }
        # One pass: a title that looks like a placeholder stays as it is.
        filled = [_PLACEHOLDER.sub(lambda found: values[found[1]], word) for word in words]
        order = ProcessSpec(filled, {**os.environ, "GIT_TERMINAL_PROMPT": "0"}, root)
        limits = ProcessLimits(timeout_s, MAX_OUTPUT_BYTES, MAX_OUTPUT_BYTES)
        ran = run_process(order, b"", limits._replace(stop=stop))
    if ran.ended == "stopped":
        raise StoreBusy(f"{VARIABLE} was stopped", next_step="Another worker opens it.")
    said = (ran.out + ran.err)[:MAX_OUTPUT_BYTES].decode("utf-8", "replace").strip()
    problems = {
        "exit": f"ended with {ran.exit_code}" if ran.exit_code else "",
        "timeout": "took too long",
        "flood": f"printed more than {MAX_OUTPUT_BYTES:,} bytes",
        "not_started": f"can't be started ({os.strerror(ran.errno)})",
    }
    return visible(said, keep_newlines=True), problems.get(ran.ended, ran.ended)

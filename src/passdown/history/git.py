"""Git: run it safely, and what it knows about a project: branch, commit, worktrees and changes.

No hook, filter or file watcher is started, nothing is fetched, and every call is bounded in time.
Here git is only read, without taking a lock; the relay makes commits with the same `Git`. Branch,
commit and worktrees are read from git's own files without starting a program. A `.git` file is
trusted only if the repository that it names knows this worktree: otherwise a file in an unpacked
archive could lead to any repository of the machine.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from passdown.core.text import visible
from passdown.core.values import NamedTuple
from passdown.errors import GitError, InvalidInput, Problem
from passdown.ledger.project_files import OWN_FOLDER, Project

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from passdown.core.checkout import Checkout

TIMEOUT_S = 2.0
"""How long git may take where an agent waits for the answer; a hook has four seconds in all."""

# Git would ask for a submodule's own state with the submodule's settings.
_NO_SUBMODULES = "--ignore-submodules=dirty"
_OPTIONS = ("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")
# Where git finds its settings, programs and repository. Other variables (a hook of git sets some)
# would point it at another repository, or start programs.
_KEPT_VARIABLES = ("GIT_EXEC_PATH", "GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM")
_FIXED_VARIABLES = {
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    # Nothing is fetched for an answer, whatever the repository is set up to do.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "LC_ALL": "C",
}


class Git:
    """Git in one folder, with one time limit for all; a child inherits the descriptors `held`."""

    def __init__(self, folder: str, timeout_s: float, *, held: tuple[int, ...] = ()) -> None:
        import time

        self._folder = folder
        self._timeout_s = timeout_s
        self._held = held
        self._clock = time.monotonic
        self._ends = self._clock() + timeout_s

    def answer(self, *arguments: str) -> str:
        """What git prints, as text; see `data`."""
        return self.data(*arguments).decode("utf-8", "backslashreplace")

    def data(
        self, *arguments: str, given: bytes = b"", environment: Mapping[str, str] | None = None
    ) -> bytes:
        """What git prints; raises GitError if it fails, isn't there or takes too long."""
        words = ["git", "-C", self._folder, *_OPTIONS, *arguments]
        variables = {**_inherited(), **_FIXED_VARIABLES, **(environment or {})}
        left = max(0.0, self._ends - self._clock())
        try:
            code, out, err = run_program(words, given, left, env=variables, pass_fds=self._held)
        except TimeoutError:
            raise GitError(f"git took longer than {self._timeout_s:g} s") from None
        except OSError as error:
            message, fix = f"git can't be started ({error.strerror})", "Install git, or check PATH."
            raise GitError(message, next_step=fix, code="no_git") from None
        if code:
            said = err.decode("utf-8", "backslashreplace").strip()[-2_000:]
            message = visible(said, keep_newlines=True)
            raise GitError(message or f"git ended with {code}")
        return out

    def without_filters(self) -> list[str]:
        """Options that switch off filters, which are programs; GitError if none can name one."""
        filters = _filters_in_settings(self._folder)
        if filters is None:
            try:
                names = self.answer("config", "-z", "--name-only", "--get-regexp", r"^filter\..*\.")
            except GitError:
                return []
            filters = {name.rpartition(".")[0] for name in names.split("\0") if name}
        if any("=" in name for name in filters):
            # What follows the first "=" of an option is its value.
            raise GitError("a filter of this repository has '=' in its name")
        settings = [f"{name}.{key}=" for name in sorted(filters) for key in ("clean", "process")]
        settings += [f"{name}.required=false" for name in sorted(filters)]
        return [part for setting in settings for part in ("-c", setting)]


_FILTER = re.compile(r"""\s*\[filter[ \t]+"([^"\\]+)"\]\s*""", re.IGNORECASE)
_MAX_SETTINGS = 1 << 18


def _filters_in_settings(folder: str) -> set[str] | None:
    """The filters that git's settings define, read from their files; None if only git can say.

    That spares a process. A line that may define a filter in any other way than `[filter "NAME"]`,
    or include a file, is left to git, and so are places of settings that aren't known here.
    """
    own = _git_folder(folder)
    if os.name == "nt" or not own or any(name in os.environ for name in _MORE_SETTINGS):
        return None
    common = os.path.join(own, first_line(os.path.join(own, "commondir")))
    home = os.path.expanduser("~")
    user = os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    files = [os.path.join(common, "config"), os.path.join(own, "config.worktree")]
    files += [os.path.join(home, ".gitconfig"), os.path.join(user, "git", "config")]
    found: set[str] = set()
    for path in (*files, *_SYSTEM_SETTINGS):
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                text = file.read(_MAX_SETTINGS)
        except FileNotFoundError:
            continue
        except OSError:
            return None
        for line in text.splitlines():
            word = line.lower()
            if name := _FILTER.fullmatch(line):
                found.add(f"filter.{name[1]}")
            elif "[" in word and ("filter" in word or "include" in word):
                return None
        if len(text) == _MAX_SETTINGS:
            return None
    return found


_MORE_SETTINGS = (
    *("GIT_CONFIG", "GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS"),
    *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"),
)
_SYSTEM_SETTINGS = tuple(
    f"{prefix}/etc/gitconfig" for prefix in ("", "/usr/local", "/opt/homebrew", "/opt/local")
)


def _inherited() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name.startswith("GIT_CONFIG_") or name in _KEPT_VARIABLES
    }


def run_program(
    words: Sequence[str], given: bytes, timeout_s: float, **options: Any
) -> tuple[int, bytes, bytes]:
    """Run a program with `given` on its stdin: its exit code, output and standard error.

    It is ended with whatever it started when that takes too long (then TimeoutError is raised):
    what is left behind would hold the output open. Raises OSError if it can't be started.
    """
    if not given and not options.get("pass_fds") and "env" in options and os.name != "nt":
        with suppress(NotImplementedError):
            return _run_alone(words, timeout_s, options["env"])
    import signal
    import subprocess

    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    started: Any = subprocess.Popen(words, start_new_session=True, **pipes, **options)
    with started as process:
        try:
            out, err = process.communicate(given, timeout_s)
        except BaseException as error:
            with suppress(OSError, AttributeError):  # Windows has no groups
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            if isinstance(error, subprocess.TimeoutExpired):
                raise TimeoutError from None
            raise
    return process.returncode, out, err


_KILL = 9
_PIECE = 1 << 16


def _run_alone(
    words: Sequence[str], timeout_s: float, env: Mapping[str, str]
) -> tuple[int, bytes, bytes]:
    """Run a program without input, as `run_program` does, and without `subprocess`: loading that
    takes a hook as long as git takes. Raises NotImplementedError where the system can't.
    """
    import time

    ends = time.monotonic() + timeout_s
    pipes = (os.pipe(), os.pipe())
    begins = [begin for begin, _ in pipes]
    process, code = 0, None
    try:
        process = _spawned(words, env, pipes)
        outputs = _read_all(begins, ends)
        while outputs and code is None and time.monotonic() < ends:
            ended, status = os.waitpid(process, os.WNOHANG)
            code = os.waitstatus_to_exitcode(status) if ended else time.sleep(0.0005)
    finally:
        for begin in begins:
            os.close(begin)
        if process and code is None:
            with suppress(OSError):
                os.killpg(process, _KILL)
            os.waitpid(process, 0)
    if code is None:
        raise TimeoutError
    return code, outputs[0], outputs[1]


def _spawned(words: Sequence[str], env: Mapping[str, str], pipes: Iterable[tuple[int, int]]) -> int:
    """Start a program that writes into two pipes; gives its process."""
    try:
        ends = [end for _, end in pipes]
        if min(ends) <= 3:
            raise NotImplementedError  # a stream of this process is closed, and its number in use
        actions: list[Any] = [(os.POSIX_SPAWN_DUP2, end, at) for at, end in enumerate(ends, 1)]
        actions += [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
        return os.posix_spawnp(words[0], list(words), env, file_actions=actions, setsid=True)
    finally:
        for _, end in pipes:
            os.close(end)


def _read_all(begins: list[int], ends: float) -> list[bytes]:
    """What comes out of pipes until they are closed; nothing if that takes too long."""
    import select
    import time

    poll, found = select.poll(), dict.fromkeys(begins, b"")
    for begin in begins:
        poll.register(begin)
    left = len(begins)
    while left:
        ready = poll.poll(max(0.0, ends - time.monotonic()) * 1_000)
        if not ready:
            return []
        for begin, _ in ready:
            piece = os.read(begin, _PIECE)
            found[begin] += piece
            if not piece:
                poll.unregister(begin)
                left -= 1
    return list(found.values())


_REF = "ref: "
_BRANCH = f"{_REF}refs/heads/"
_COMMIT = r"[0-9a-f]{40}([0-9a-f]{24})?"
_NAMED = "gitdir:"


def has_git(folder: str) -> bool:
    """Whether a folder is inside a git repository."""
    return bool(_git_place(folder))


def current_branch(folder: str) -> str:
    """The branch that is checked out; empty where there is none or no repository."""
    found = _git_folder(folder)
    head = first_line(os.path.join(found, "HEAD")) if found else ""
    return head.removeprefix(_BRANCH) if head.startswith(_BRANCH) else ""


def current_commit(folder: str) -> str:
    """The commit that is checked out; empty where there is none or no repository."""
    git = _git_folder(folder)
    head = first_line(os.path.join(git, "HEAD")) if git else ""
    if not head.startswith(_REF):
        return head if re.fullmatch(_COMMIT, head) else ""
    name = head.removeprefix(_REF)
    common = os.path.join(git, first_line(os.path.join(git, "commondir")))
    packed = (line.partition(" ") for line in _lines(os.path.join(common, "packed-refs")))
    found = first_line(os.path.join(common, *name.split("/")))
    found = found or next((commit for commit, _, ref in packed if ref == name), "")
    return found if re.fullmatch(_COMMIT, found) else ""


def _git_folder(folder: str) -> str:
    """The git folder of the nearest repository; a worktree's is named in a file."""
    place = _git_place(folder)
    return place if os.path.isdir(place) else named_git_folder(os.path.dirname(place))


def _git_place(folder: str) -> str:
    """The nearest `.git`, a folder or a file; empty where there is none."""
    while True:
        place = os.path.join(folder, ".git")
        if os.path.isdir(place) or os.path.isfile(place):
            return place
        above = os.path.dirname(folder)
        if above == folder:
            return ""
        folder = above


def named_git_folder(top: str) -> str:
    """The git folder that a folder's `.git` file names; empty where there is no such file."""
    named = first_line(os.path.join(top, ".git"))
    if not named.startswith(_NAMED):
        return ""
    return os.path.normpath(os.path.join(top, named.removeprefix(_NAMED).strip()))


def first_line(path: str) -> str:
    """The first line of one of git's files; empty where it can't be read."""
    return next(_lines(path), "")


def _lines(path: str) -> Iterator[str]:
    """The lines of one of git's files; none where it can't be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            while line := file.readline(4096):
                yield line.rstrip("\r\n")
    except (OSError, ValueError):
        return


_CORE_WORKTREE = r"(?i)\s*worktree\s*=\s*\"?([^\"\r\n]+)\"?\s*"


def main_worktree(top: str) -> str:
    """The top of the main worktree of the repository that `top` is a linked worktree of.

    Empty where `top` is none: a main worktree itself, a submodule, or one of a bare repository,
    which has no main worktree.
    """
    own = named_git_folder(top)
    common = first_line(os.path.join(own, "commondir")) if own else ""
    if not common or not _is_known(own, top):
        return ""
    common = os.path.realpath(os.path.join(own, common))
    main = os.path.dirname(common) if os.path.basename(common) == ".git" else _set_in(common)
    is_other = main and os.path.realpath(main) != os.path.realpath(top)
    return main if is_other and os.path.isdir(main) else ""


def _is_known(own: str, top: str) -> bool:
    """Whether the repository's entry for a worktree leads back to it."""
    back = first_line(os.path.join(own, "gitdir"))
    there = os.path.realpath(os.path.join(own, back))
    return bool(back) and there == os.path.realpath(os.path.join(top, ".git"))


def _set_in(common: str) -> str:
    """The main worktree that a repository's settings name, as those of a submodule do."""
    lines = _lines(os.path.join(common, "config"))
    found = (re.fullmatch(_CORE_WORKTREE, line) for line in lines)
    named = next((match[1].strip() for match in found if match), "")
    return os.path.normpath(os.path.join(common, named)) if named else ""


WARN_ABOVE = 0.2
"""The share of named files that may differ before a warning is due."""
MOST_UNNAMED = 200

_STATUS = ("status", "--porcelain=v1", "-z", "--untracked-files=all", _NO_SUBMODULES)
_UNTRACKED = ("ls-files", "--others", "--exclude-standard", "-z")
_PATHS_PER_CALL = 100


class GitCheck(NamedTuple):
    """How far the named files are from what was recorded.

    `differing` pairs each such path with the reason; `unnamed` are the paths that git shows as
    changed and nobody named. `problem` says why nothing could be compared.
    """

    is_repository: bool
    named: int
    differing: tuple[tuple[str, str], ...] = ()
    unnamed: tuple[str, ...] = ()
    share: float = 0.0
    warns: bool = False
    problem: str = ""


def compare_with_git(
    root: str, named: Mapping[str, str | None], *, timeout_s: float = TIMEOUT_S
) -> GitCheck:
    """Compare named files (each with its recorded SHA-256, or None) with the disk and with git.

    A file agrees when it is there with the recorded content and git shows it as changed, added or
    untracked, or has it tracked and clean. `warns` when more than a fifth of them differ.
    """
    git = Git(root, timeout_s)
    tracked: set[str] = set()
    try:
        changed = _changed_paths(root, git).keys()
        project = Project(root, os.path.join(root, OWN_FOLDER, "ledger.db"))
        reasons = {path: _difference(project, path, named[path]) for path in named}
        asked = [path for path in named if not reasons[path] and _normalised(path) not in changed]
        for start in range(0, len(asked), _PATHS_PER_CALL):
            some = asked[start : start + _PATHS_PER_CALL]
            # On disk a name may be spelled decomposed, and git compares bytes.
            spelled = {form for path in some for form in (path, _normalised(path, "NFD"))}
            answer = git.answer("ls-files", "-z", "--", *sorted(spelled))
            tracked.update(map(_normalised, _fields(answer)))
    except GitError as error:
        return GitCheck(is_repository=False, named=len(named), problem=error.message)
    for path in asked:
        if _normalised(path) not in tracked:
            reasons[path] = "git doesn't know it"
    differing = tuple((path, reason) for path, reason in reasons.items() if reason)
    share = len(differing) / len(named) if named else 0.0
    known = {_normalised(path) for path in named}
    unnamed = tuple(sorted(changed - known)[:MOST_UNNAMED])
    return GitCheck(True, len(named), differing, unnamed, share, share > WARN_ABOVE)


def _difference(project: Project, path: str, recorded: str | None) -> str:
    """What sets a file apart from what was recorded; empty when nothing does."""
    found = project.measure(path)
    if found.problem is not None:
        return found.problem.message
    if found.sha256 is None:
        return "missing"
    wanted = (recorded or found.sha256).removeprefix("sha256:").lower()
    return "" if found.sha256 == wanted else "changed since it was recorded"


def _normalised(path: str, form: Literal["NFC", "NFD"] = "NFC") -> str:
    if path.isascii():
        return path
    import unicodedata

    return unicodedata.normalize(form, path)


def _changed_paths(root: str, git: Git, renames: str = "--no-renames") -> dict[str, str]:
    """The paths that differ from the last commit, relative to the project, without Passdown's, each
    with git's two letters: how it differs in the index, and then on disk.

    With `--renames` a renamed file is listed by its new name alone, otherwise by both.
    """
    answer = git.answer(*git.without_filters(), *_STATUS, renames, "--", ".")
    top = os.path.realpath(os.path.dirname(_git_place(root)))
    below = os.path.relpath(os.path.realpath(root), top).replace(os.sep, "/")
    prefix = "" if below == "." else f"{below}/"
    paths: dict[str, str] = {}
    entries = iter(_fields(answer))
    for entry in entries:
        if "R" in entry[:2] or "C" in entry[:2]:
            next(entries, "")  # the name that it had
        path = _normalised(entry[3:].removeprefix(prefix))
        paths[path] = "M " if path in paths else entry[:2]  # removed from the index, and untracked
    return {path: word for path, word in paths.items() if path.split("/")[0] != OWN_FOLDER}


MAX_PATCH_BYTES = 4 << 20
_PATCH_TIMEOUT_S = 30.0
# What Passdown keeps in the project is this machine's, or comes with the repository.
_PROJECT_PATHS = ("--", ".", f":(exclude){OWN_FOLDER}")
_PATCH_DIFF = ("diff", "--binary", "--no-ext-diff", "--no-textconv", "--no-renames", "--relative")


def head_of(root: str) -> Checkout | None:
    """Branch and commit alone, without starting a program; None where there is no commit."""
    from passdown.core.checkout import Checkout

    commit = current_commit(root)
    return Checkout(current_branch(root), commit) if commit else None


def checkout_of(root: str) -> Checkout | None:
    """Branch, commit and changes of a repository; None without repository, commit or git."""
    from passdown.core.checkout import MAX_FILES_LISTED, Checkout

    git = Git(root, _PATCH_TIMEOUT_S)
    try:
        commit = git.answer("rev-parse", "--verify", "HEAD").strip()
        found = sorted(_changed_paths(root, git))
    except GitError:
        return None
    return Checkout(current_branch(root), commit, len(found), tuple(found[:MAX_FILES_LISTED]))


def patch_of(root: str) -> bytes:
    """Everything below a folder that isn't committed, new files too, as a patch for `git apply`.

    Raises InvalidInput where git can't say, and for a patch that is too large or holds a secret.
    """
    import tempfile

    from passdown.core.redaction import redact

    git = Git(root, _PATCH_TIMEOUT_S)
    with tempfile.TemporaryDirectory() as folder:
        # An index of our own, in which new files are meant to be added: git diffs those as well.
        index = os.path.join(folder, "index")
        own = {"GIT_INDEX_FILE": index, "GIT_LITERAL_PATHSPECS": "0"}
        try:
            filters = git.without_filters()
            git.data("read-tree", "HEAD", environment=own)
            _mark_new_files(git, filters, own)
            patch = git.data(
                *filters, *_PATCH_DIFF, _NO_SUBMODULES, "HEAD", *_PROJECT_PATHS, environment=own
            )
        except GitError as error:
            raise _refused("no_git", error.message, "a git repository with a commit") from None
    if len(patch) > MAX_PATCH_BYTES:
        size = f"the uncommitted changes have {len(patch):,} bytes"
        raise _refused("too_large", size, f"at most {MAX_PATCH_BYTES:,}; commit some of them")
    if secrets := redact(patch.decode("utf-8", "replace"))[1]:
        message = f"they hold what looks like a secret ({', '.join(secrets)})"
        raise _refused("secret", message, "changes that may be given away, or none of them")
    return patch


def _mark_new_files(git: Git, filters: list[str], own: Mapping[str, str]) -> None:
    """Enter new files into an index by name: searching for them, git would look into submodules."""
    listed = git.data(*_UNTRACKED, *_PROJECT_PATHS, environment=own)
    # What ends in a slash is a repository of its own.
    new = b"\0".join(path for path in listed.split(b"\0") if path and not path.endswith(b"/"))
    if new:
        named = ("--pathspec-from-file=-", "--pathspec-file-nul")
        literal = {**own, "GIT_LITERAL_PATHSPECS": "1"}
        git.data(*filters, "add", "--intent-to-add", *named, given=new, environment=literal)


def _refused(code: str, message: str, expected: str) -> InvalidInput:
    return InvalidInput("nothing was exported", [Problem("diff", code, message, expected)])


_NAME_STATUS = (
    *("diff", "--name-status", "-z", "--no-renames", "--no-ext-diff", "--relative"),
    _NO_SUBMODULES,
)
_STATUS_TIMEOUT_S = 60.0


class ChangedFile(NamedTuple):
    """A path below the project, and what happened to it: created, modify or delete."""

    path: str
    change: str


def changed_since(
    root: str, commit: str, since: float, timeout_s: float
) -> list[ChangedFile] | None:
    """The files that differ from a commit and were touched since a time; None without an answer."""
    if timeout_s <= 0 or not has_git(root):
        return None
    git = Git(root, timeout_s)
    try:
        found = {path: _change(word) for path, word in _changed_paths(root, git).items()}
    except GitError:
        return None
    if re.fullmatch(_COMMIT, commit) and commit != current_commit(root):
        # Committed since then; what is gone again, or is no commit here, has nothing to add.
        with suppress(GitError):
            fields = _fields(git.answer(*_NAME_STATUS, commit, "HEAD", "--", "."))
            for word, path in zip(fields[::2], fields[1::2], strict=False):
                found.setdefault(_normalised(path), _change(word))
    own = f"{OWN_FOLDER}/"
    kept = (ChangedFile(path, change) for path, change in found.items() if change)
    return sorted(e for e in kept if not e.path.startswith(own) and _is_recent(root, e, since))


def _change(letters: str) -> str:
    """What happened to a file, by git's letters; empty if it came and went."""
    if letters[1:] == "D" and letters[0] == "A":
        return ""
    if "D" in letters:
        return "delete"
    return "created" if letters[0] in "A?" else "modify"


def _fields(answer: str) -> list[str]:
    return [field for field in answer.split("\0") if field]


def _is_recent(root: str, changed: ChangedFile, since: float) -> bool:
    try:
        return touched_since(os.path.join(root, changed.path), since)
    except OSError:
        return changed.change == "delete"


def touched_since(path: str, since: float) -> bool:
    """Whether a file was written at or after a time. Raises OSError where there is none.

    Some file systems keep whole seconds: there, a file of the same second counts.
    """
    written = os.lstat(path).st_mtime
    return written >= (since if written % 1 else int(since))


def uncommitted_paths(root: str) -> list[str]:
    """Paths, relative to `root`, of files changed, added or removed since the last commit; of a
    renamed file the new one.

    Raises InvalidInput where git can't say.
    """
    try:
        return sorted(_changed_paths(root, Git(root, _STATUS_TIMEOUT_S), "--renames"))
    except GitError as error:
        fix = "name the files with --changed"
        problem = Problem("changed_git", "no_git", error.message[:200], "a git repository", fix)
        raise InvalidInput("git can't say what changed", [problem]) from None

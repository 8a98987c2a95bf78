"""A commit on a branch of its own, made in a temporary worktree.

The user's checked-out branch, index and files are never touched: the worktree has its own index, is
in git's folder, where no tool looks for files, and holds only the files that are written. What a
killed process leaves behind is recognised by its lock, which is free again, and taken away by the
next one.
"""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, NamedTuple, Self

from passdown.errors import GitError, StoreBusy
from passdown.model.express_rules import may_change
from passdown.model.names import path_problems
from passdown.model.patches import read_patch
from passdown.relay.locking import locked
from passdown.relay.repository import REGULAR, Repository, unsafe

if TYPE_CHECKING:
    from datetime import datetime

    from passdown.relay.repository import Entry

FOLDER = "passdown"
_LIST = "worktrees.lock"
_UNFILTERED = ("unspecified", "unset")


class Commit(NamedTuple):
    """A commit and the files that it changed, relative to the project."""

    id: str
    files: tuple[str, ...]


class Worktree:
    """A temporary worktree of a project's repository, on a new branch; a context manager.

    It starts at `base` (a branch, tag or commit). The branch stays once something was committed;
    one on which nothing was is taken away again. With `mark`, a line of the commit's message, it
    goes on where a killed process left off: `committed` is then the commit that this one had made
    already. Without it, and for a branch that is somebody else's, a branch that exists raises
    GitError. Two of one branch, from any process, are one after the other.
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
        """Add the worktree, after whatever an earlier process left of it is gone."""
        with ExitStack() as stack:
            # Whoever has this lock is the only one; git holds it too, so a commit that a killed
            # process had begun is over by now.
            held = stack.enter_context(locked(f"{self.folder}.lock"))
            self.repository.held = (held,)
            self._sweep()
            _remove(self.repository, self.folder)
            with suppress(FileNotFoundError):  # of a git that was killed while it set the branch
                os.unlink(os.path.join(self.repository.common, "refs/heads", f"{self.branch}.lock"))
            if not self._was_committed():
                self._add()
            self._locks = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Take the worktree away; the branch stays if it has a commit."""
        with self._locks:
            _remove(self.repository, self.folder)
            if self.committed is None:
                with suppress(GitError):  # somebody else has moved it on: then it is theirs
                    ref = f"refs/heads/{self.branch}"
                    self.repository.run("update-ref", "-d", ref, self.base)

    def write(self, path: str, data: bytes) -> None:
        """Put a file into the worktree; one that is there keeps its right to be executed."""
        found = self._checked(path)
        target = os.path.join(self.folder, *(self.repository.prefix + path).split("/"))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as file:
            file.write(data)
        os.chmod(target, 0o755 if found and found.mode == "100755" else 0o644)
        self._written.add(path)

    def delete(self, path: str) -> None:
        """Take a file out; it has to be there."""
        if self._checked(path) is None:
            raise unsafe(path, "isn't there")
        self._deleted.add(path)

    def apply(self, patch: str) -> None:
        """Apply a unified patch to the worktree's index; all of it or nothing."""
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
            error.next_step = "Make the patch again from the commit that it is to be applied to."
            raise

    def commit(self, message: str, *, author: str, at: datetime) -> Commit:
        """Commit what was written, deleted and applied; the same at the same time by the same
        author is the same commit.

        Raises GitError with the code nothing_to_commit when all is as it was.
        """
        self._refuse_filtered(self._written | self._deleted)
        self._stage()
        changed = self._changed()
        if not changed:
            message = "nothing would change"
            raise GitError(message, next_step="It is so already.", code="nothing_to_commit")
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

    def _checked(self, path: str) -> Entry | None:
        """What the base has at a path that may be changed."""
        if path_problems(path, "") or not may_change(path):
            raise unsafe(path, "is not for express work to change")
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
        """The files that the index changes. Git's own word: a patch could say anything."""
        options = ("--cached", "--raw", "--no-renames", "--no-abbrev", "-z", self.base)
        fields = self.repository.text("diff-index", *options, folder=self.folder).split("\0")
        changed: set[str] = set()
        for about, whole in zip(fields[::2], fields[1::2], strict=False):
            path = whole.removeprefix(self.repository.prefix)
            modes = {mode for mode in about.lstrip(":").split()[:2] if mode != "000000"}
            is_inside = whole.startswith(self.repository.prefix)
            if not is_inside or not may_change(path) or not modes <= set(REGULAR):
                raise unsafe(path, "is not for express work to change")
            changed.add(path)
        return changed

    def _refuse_filtered(self, paths: set[str]) -> None:
        """A filter is a program, and it may be a file of the project: none is started."""
        names = "\0".join(self.repository.prefix + path for path in sorted(paths))
        if not names:
            return
        asked = ("check-attr", "-z", "--stdin", "filter")
        found = self.repository.run(*asked, folder=self.folder, given=names.encode()).decode()
        fields = found.split("\0")
        for path, value in zip(fields[::3], fields[2::3], strict=False):
            if value not in _UNFILTERED:
                message = f"{path[:200]!r} is kept through the filter {value!r}"
                fix = "Change this file by hand: express work starts no filter."
                raise GitError(message, next_step=fix, code="filtered")

    def _was_committed(self) -> bool:
        """Whether a killed process had made the commit; raises where the branch is another's."""
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
            # Git's list of worktrees is read by each that is added, half-written ones included.
            with locked(os.path.join(self._parent, _LIST)):
                self.repository.run("worktree", "add", "--no-checkout", *start)
            self.repository.run("read-tree", "HEAD", folder=self.folder)
        except BaseException:
            self.__exit__()
            raise

    def _sweep(self) -> None:
        """Take away what killed processes left of other worktrees."""
        names = {name.removesuffix(".lock") for name in os.listdir(self._parent)}
        for name in names - {os.path.basename(self.folder), _LIST.removesuffix(".lock")}:
            folder = os.path.join(self._parent, name)
            with suppress(StoreBusy), locked(f"{folder}.lock", timeout_s=0):
                _remove(self.repository, folder)


def _remove(repository: Repository, folder: str) -> None:
    """Take a worktree away, in whatever state it is; its branch stays."""
    name = os.path.basename(folder)
    own = os.path.join(repository.common, "worktrees", name)
    if not os.path.isdir(folder) and not os.path.isdir(own):
        return
    with locked(os.path.join(os.path.dirname(folder), _LIST)):
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(GitError):  # it isn't on git's list unless it was added whole
            repository.run("worktree", "remove", "-f", "-f", folder)
        shutil.rmtree(own, ignore_errors=True)

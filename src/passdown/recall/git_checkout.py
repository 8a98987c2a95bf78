"""Where a repository stands: its branch, its commit, and what isn't committed yet."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from passdown.errors import InvalidInput, Problem
from passdown.ledger.disk import OWN_FOLDER
from passdown.model.checkout import MOST_FILES, Checkout
from passdown.model.redaction import redact
from passdown.recall.git_asking import Git, NoAnswer
from passdown.recall.git_head import current_branch, current_commit
from passdown.recall.git_state import STATUS, changed_paths

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_PATCH_BYTES = 4 << 20
_TIMEOUT_S = 30.0
# What Passdown keeps in the project is this machine's, or comes with the repository.
_WHAT = ("--", ".", f":(exclude){OWN_FOLDER}")
_DIFF = ("diff", "--binary", "--no-ext-diff", "--no-textconv", "--no-renames", "--relative")
# A submodule's own state is none of a patch; git would look for it with the submodule's settings.
_ALONE = "--ignore-submodules=dirty"


def head_of(root: str) -> Checkout | None:
    """Branch and commit alone, without starting a program; None where there is no commit."""
    commit = current_commit(root)
    return Checkout(current_branch(root), commit) if commit else None


def checkout_of(root: str) -> Checkout | None:
    """Where the repository of a folder stands; None where there is none, no commit, or no git."""
    git = Git(root, _TIMEOUT_S)
    try:
        prefix, commit = git.answer("rev-parse", "--show-prefix", "HEAD").split("\n")[:2]
        found = sorted(changed_paths(git.answer(*git.without_filters(), *STATUS), prefix))
    except NoAnswer:
        return None
    return Checkout(current_branch(root), commit, len(found), tuple(found[:MOST_FILES]))


def patch_of(root: str) -> bytes:
    """Everything below a folder that isn't committed, new files too, as a patch for `git apply`.

    Raises InvalidInput where git can't say, and for a patch that is too large or holds a secret.
    """
    import tempfile

    git = Git(root, _TIMEOUT_S)
    with tempfile.TemporaryDirectory() as folder:
        # An index of our own, in which new files are meant to be added: git diffs those as well.
        index = os.path.join(folder, "index")
        own = {"GIT_INDEX_FILE": index, "GIT_LITERAL_PATHSPECS": "0"}
        try:
            filters = git.without_filters()
            git.data("read-tree", "HEAD", environment=own)
            _mean_to_add(git, filters, own)
            patch = git.data(*filters, *_DIFF, _ALONE, "HEAD", *_WHAT, environment=own)
        except NoAnswer as error:
            raise _refused("no_git", str(error), "a git repository with a commit") from None
    if len(patch) > MAX_PATCH_BYTES:
        size = f"the uncommitted changes have {len(patch):,} bytes"
        raise _refused("too_large", size, f"at most {MAX_PATCH_BYTES:,}; commit some of them")
    if secrets := redact(patch.decode("utf-8", "replace"))[1]:
        message = f"they hold what looks like a secret ({', '.join(secrets)})"
        raise _refused("secret", message, "changes that may be given away, or none of them")
    return patch


def _mean_to_add(git: Git, filters: list[str], own: Mapping[str, str]) -> None:
    """Enter new files into an index, by name: told to find them, git would look into submodules."""
    listed = git.data("ls-files", "--others", "--exclude-standard", "-z", *_WHAT, environment=own)
    # What ends in a slash is a repository of its own.
    new = [path for path in listed.split(b"\0") if path and not path.endswith(b"/")]
    if not new:
        return
    names = f"{own['GIT_INDEX_FILE']}-names"
    with open(names, "wb") as file:
        file.write(b"\0".join(new))
    named = (f"--pathspec-from-file={names}", "--pathspec-file-nul")
    literal = {**own, "GIT_LITERAL_PATHSPECS": "1"}
    git.data(*filters, "add", "--intent-to-add", *named, environment=literal)


def _refused(code: str, message: str, expected: str) -> InvalidInput:
    return InvalidInput("nothing was exported", [Problem("diff", code, message, expected)])

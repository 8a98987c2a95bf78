"""Where a workspace is: the nearest `.passdown` folder, a store's address, or a new folder.

All worktrees of a git repository have one workspace, in the main one: a linked worktree is thrown
away when its work is done, and what was recorded in it would go with it.

A workspace whose store is a database elsewhere still has a folder here, for handle files, settings,
rules and profiles. Its file `store` names that database: it is this machine's, never shared, and
refused unless it is private, so that no repository decides where records go.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from passdown.errors import NotFound, StoreUnavailable, UnsafeStore
from passdown.model.values import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = ".passdown"
LEDGER = "ledger.db"
STORE = "store"
_ELSEWHERE = "elsewhere"
_SQLITE = "sqlite:///"
_OTHERS = 0o077

# Ledger, state, handoffs and sessions are this machine's; what a team writes by hand is shared.
_IGNORED = """\
*
!.gitignore
!config.toml
!rules/
!rules/**
!agents/
!agents/**
"""


class Place(NamedTuple):
    """A workspace's project root, its own folder, and the address of its store.

    In a linked worktree the root is there, and the folder is in the main worktree.
    """

    root: str
    folder: str
    url: str

    @property
    def url_shown(self) -> str:
        """The address as it may be printed: without a password."""
        from passdown.store.addresses import shown

        return shown(self.url)

    @property
    def config(self) -> str:
        """The configuration file, which need not be there."""
        return os.path.join(self.folder, "config.toml")


def place_of(target: str, *, create: bool) -> Place:
    """The workspace that `target` means: a folder, a `.db` file, or a store's address."""
    if "://" in target and not target.startswith(_SQLITE):
        return _of_address(target)
    if target.startswith(_SQLITE) or target.endswith(".db"):
        path = os.path.abspath(os.path.expanduser(target.removeprefix(_SQLITE)))
        if not create and not os.path.exists(path):
            raise NotFound(f"there is no store {path}", next_step="Check the path.")
        return _of_file(path)
    start = os.path.abspath(os.path.expanduser(target))
    found = _nearest(start)
    if found is None and not create:
        raise NotFound(
            f"there is no Passdown workspace in {start} or above it",
            next_step="Make one with: passdown init",
        )
    return found or new_place(start)


def _of_address(url: str) -> Place:
    """The workspace of a database, worked on from here: in the folder that names it, else in one of
    its own, so that the handle files of two workspaces never mix.
    """
    near = _nearest(os.getcwd())
    if near is None or near.url == url:
        return near or Place(os.getcwd(), os.path.join(os.getcwd(), FOLDER), url)
    return Place(near.root, _elsewhere(near.folder, url), url)


def own_folder(place: Place) -> str:
    """The folder that belongs to a place's store and to no other: the workspace's, where that
    names the store, else one of its own within.
    """
    above, name = os.path.split(place.folder)
    if os.path.basename(above) == _ELSEWHERE:
        return place.folder
    folder = place.folder if name == FOLDER else os.path.join(place.root, FOLDER)
    is_named = _of_folder(place.root, os.path.dirname(folder)).url == place.url
    return folder if is_named else _elsewhere(folder, place.url)


def _elsewhere(folder: str, url: str) -> str:
    """The folder, within a workspace's, of a store that isn't its own."""
    import hashlib

    name = hashlib.blake2b(url.encode("utf-8", "replace"), digest_size=8).hexdigest()
    return os.path.join(folder, _ELSEWHERE, name)


def in_folder(root: str) -> Place:
    """The workspace of exactly this folder."""
    return _of_folder(root, root)


def new_place(folder: str) -> Place:
    """Where a new workspace for a folder is made: in it, or, where it is in a linked worktree, at
    the same place in the main one.
    """
    start = os.path.abspath(os.path.expanduser(folder))
    top = next((each for each in _upwards(start) if os.path.exists(f"{each}/.git")), start)
    main = _main_of(top)
    if not main or _has_ledger(start):
        return in_folder(start)
    there = _twin(start, top, main)
    return _of_folder(start, there) if os.path.isdir(there) else _of_folder(top, main)


def _of_folder(root: str, holder: str) -> Place:
    folder = os.path.join(os.path.abspath(holder), FOLDER)
    url = _named_store(folder) or _SQLITE + os.path.join(folder, LEDGER)
    return Place(os.path.abspath(root), folder, url)


def _named_store(folder: str) -> str:
    """The address in a folder's file `store`, or nothing."""
    path = os.path.join(folder, STORE)
    try:
        with open(path, encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode
            url = file.read(4_096).strip()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise StoreUnavailable(
            f"{path} can't be read ({error})", next_step="Check who owns it."
        ) from error
    if mode & _OTHERS and os.name != "nt":
        raise UnsafeStore(
            f"{path} says where records go, and others may use it (mode {mode & 0o777:o})",
            next_step=f"If you wrote it yourself: chmod 600 {path}",
        )
    return url


def name_store(place: Place) -> None:
    """Note in a workspace's folder where its store is, for this machine alone."""
    path = os.path.join(place.folder, STORE)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            os.chmod(path, 0o600)
            file.write(place.url + "\n")
    except OSError as error:
        raise StoreUnavailable(
            f"{path} can't be written ({error.strerror or error})",
            next_step="Check who owns the folder, and the space left.",
        ) from error


def _nearest(start: str) -> Place | None:
    """The workspace that is nearest to a folder; one of the repository's main worktree comes
    before any that is above the worktree.
    """
    for folder in _upwards(start):
        if _has_ledger(folder):
            return in_folder(folder)
        if main := _main_of(folder):
            for inside in _upwards(start, folder):
                if _has_ledger(there := _twin(inside, folder, main)):
                    return _of_folder(inside, there)
    return None


def _upwards(start: str, top: str = "") -> Iterator[str]:
    """A folder and those above it, up to `top` or the root of all."""
    folder = start
    while True:
        yield folder
        above = os.path.dirname(folder)
        if folder in (top, above):
            return
        folder = above


def _has_ledger(folder: str) -> bool:
    own = os.path.join(folder, FOLDER)
    return any(os.path.isfile(os.path.join(own, name)) for name in (LEDGER, STORE))


def _main_of(folder: str) -> str:
    """The main worktree, where a folder is the top of a linked one."""
    if not os.path.isfile(os.path.join(folder, ".git")):
        return ""
    from passdown.recall.git_worktree import main_worktree

    return main_worktree(folder)


def _twin(folder: str, top: str, main: str) -> str:
    """The same folder in the main worktree."""
    return os.path.normpath(os.path.join(main, os.path.relpath(folder, top)))


def _of_file(path: str) -> Place:
    folder = os.path.dirname(path)
    root = os.path.dirname(folder) if os.path.basename(folder) == FOLDER else folder
    return Place(root, folder, _SQLITE + path)


def make_folder(place: Place) -> None:
    """The workspace's folder, private; version control gets its settings, and no record."""
    above = os.path.dirname(place.folder)
    if os.path.basename(above) == _ELSEWHERE:
        make_folder(place._replace(folder=os.path.dirname(above)))
    ignore = os.path.join(place.folder, ".gitignore")
    try:
        os.makedirs(place.folder, mode=0o700, exist_ok=True)
        if os.path.basename(place.folder) == FOLDER and not os.path.exists(ignore):
            with open(ignore, "w", encoding="utf-8") as file:
                file.write(_IGNORED)
    except OSError as error:
        raise StoreUnavailable(
            f"{place.folder} can't be made ({error.strerror or error})",
            next_step="Check the path, who owns the folder above it, and the space left.",
        ) from error


def branch_and_commit(folder: str) -> tuple[str, str]:
    """What is checked out around a folder; empty where nothing is. Starts no program."""
    from passdown.recall.git_head import current_branch, current_commit

    return current_branch(folder), current_commit(folder)

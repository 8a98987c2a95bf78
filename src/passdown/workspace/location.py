"""Locate a workspace: the nearest `.passdown` folder, a store's URL, or a new folder."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING

from passdown.core.values import NamedTuple
from passdown.errors import InvalidInput, NotFound, Problem, StoreUnavailable, UnsafeStore
from passdown.store import open_store, store_identity, url_without_password

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = ".passdown"
LEDGER = "ledger.db"
STORE = "store"
_OTHER_STORES = "stores"
_OTHER_STORES_BEFORE = "elsewhere"
"""The name of that folder in earlier versions; what it holds is used."""
REPLAY = "replay-"
"""Begins the name of a replay."""
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


class Location(NamedTuple):
    """A workspace's project root, its own folder, and the address of its store.

    In a linked worktree the root is there, and the folder is in the main worktree.
    """

    root: str
    folder: str
    url: str

    @property
    def url_shown(self) -> str:
        """The address as it may be printed: without a password."""
        return url_without_password(self.url)

    @property
    def home(self) -> str:
        """The folder `.passdown`: its settings and templates are for each store of the project."""
        above, name = os.path.split(os.path.dirname(self.folder))
        return above if name in (_OTHER_STORES, _OTHER_STORES_BEFORE) else self.folder

    @property
    def config(self) -> str:
        """The configuration file, which need not be there."""
        return os.path.join(self.home, "config.toml")


def locate(target: str, *, create: bool) -> Location:
    """The workspace that `target` means: a folder, a `.db` file, or a store's address."""
    if url := store_address(target) or _ledger_in(target):
        path = url.removeprefix(_SQLITE)
        if path != url and not create and not os.path.exists(path):
            raise NotFound(f"there is no store {path}", next_step="Check the path.")
        return _of_store(url)
    start = os.path.abspath(os.path.expanduser(target))
    found = _nearest(start)
    if found is None and not create:
        raise NotFound(
            f"there is no Passdown workspace in {start} or above it",
            next_step="Make one with: passdown init",
        )
    ledger = os.path.join(found.folder, LEDGER) if found else ""
    if found and not create and found.url == _SQLITE + ledger and not os.path.exists(ledger):
        raise NotFound(
            f"the ledger {ledger} is missing; the state files of its tasks are there",
            next_step="Put it or a backup in its place. If it is lost: passdown init makes "
            "an empty one and asks for a decision, passdown recover --by NAME takes it.",
        )
    if found is None and not os.path.isdir(start):
        raise NotFound(
            f"there is no folder {start}",
            next_step="Check the path, or create the folder first.",
        )
    return found or new_location(start)


def store_address(target: str) -> str:
    """The address of the store that is named by it or by a `.db` file; empty for a folder."""
    if target.startswith(_SQLITE) or (target.endswith(".db") and "://" not in target):
        return _SQLITE + os.path.realpath(os.path.expanduser(target.removeprefix(_SQLITE)))
    return target if "://" in target else ""


def _ledger_in(target: str) -> str:
    """The address of the ledger that a named folder holds itself; empty where it holds none.

    Inside `.passdown` a folder without one is refused: the store above it is not what was named.
    Where no folder was named (`.`) the nearest workspace is meant.
    """
    folder = os.path.abspath(os.path.expanduser(target))
    if target == os.curdir or not os.path.isdir(folder) or _has_ledger(folder):
        return ""
    ledger = os.path.join(folder, LEDGER)
    home = _folder_around(folder)
    if os.path.isfile(ledger) and (home or _is_ours(ledger)):
        return store_address(ledger)
    if home and home != folder:
        raise NotFound(
            f"there is no {LEDGER} in {folder}",
            next_step=f"Name a folder that has one, or the project: {os.path.dirname(home)}",
        )
    return ""


def _folder_around(folder: str) -> str:
    """The folder `.passdown` that a folder is, or is in; not that around a whole checkout."""
    for each in _upwards(folder):
        if os.path.basename(each) == FOLDER:
            return each
        if os.path.exists(os.path.join(each, ".git")):
            break
    return ""


def _is_ours(path: str) -> bool:
    """Whether a file's header says that it is a ledger: any program may have a `ledger.db`."""
    with open(path, "rb") as file:
        return file.read(72)[68:] == b"pass"


def _of_store(url: str) -> Location:
    """The workspace of a store that is named directly: that of the folder which names it too, else
    one with a folder of its own, so that the state files of two stores never mix.
    """
    path = url.removeprefix(_SQLITE)
    if path == url:
        home = _nearest(os.getcwd()) or in_folder(os.getcwd())
        near = (home,)
    else:
        above = os.path.dirname(path)
        home_folder, name = os.path.split(os.path.dirname(above))
        if (name, os.path.basename(home_folder)) == (_OTHER_STORES, FOLDER):
            return Location(os.path.dirname(home_folder), above, url)
        start = os.path.dirname(above) if os.path.basename(above) == FOLDER else above
        home = Location(start, os.path.join(start, FOLDER), "")
        near = (_nearest(start), _nearest(os.getcwd()))
    identity = store_identity(url)
    for place in near:
        if place and store_identity(place.url) == identity:
            return place
    import hashlib

    name = hashlib.blake2b(identity.encode("utf-8", "replace"), digest_size=8).hexdigest()
    before = os.path.join(home.folder, _OTHER_STORES_BEFORE, name)
    usual = os.path.join(home.folder, _OTHER_STORES, name)
    return Location(home.root, before if os.path.isdir(before) else usual, url)


def replay_location(place: Location, name: str, root: str = "") -> Location:
    """Where a replay's own ledger is: beside the state files of the project's other stores."""
    folder = os.path.join(place.home, _OTHER_STORES, name)
    url = _SQLITE + os.path.join(folder, LEDGER)
    return Location(os.path.abspath(root or place.root), folder, url)


def replay_names(place: Location) -> list[str]:
    """The names of the replays of a workspace."""
    folder = os.path.join(place.home, _OTHER_STORES)
    found = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted(name for name in found if name.startswith(REPLAY))


def in_folder(root: str, holder: str = "") -> Location:
    """The workspace of exactly this folder; `holder` has its records, if that is another one."""
    folder = os.path.join(os.path.abspath(holder or root), FOLDER)
    url = _named_store(folder) or _SQLITE + os.path.join(folder, LEDGER)
    return Location(os.path.abspath(root), folder, url)


def new_location(folder: str) -> Location:
    """Where a new workspace for a folder is made: in it, or, where it is in a linked worktree, at
    the same place in the main one.
    """
    start = os.path.abspath(os.path.expanduser(folder))
    top = next((each for each in _upwards(start) if os.path.exists(f"{each}/.git")), start)
    main = _main_of(top)
    if not main or _has_ledger(start):
        return in_folder(start)
    there = _same_folder_in_main(start, top, main)
    return in_folder(start, there) if os.path.isdir(there) else in_folder(top, main)


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


def name_store(place: Location) -> None:
    """Note in a workspace's folder where its store is, for this machine alone.

    State files of another store are kept under another name: they say nothing of this one.
    """
    from passdown.ledger.durable_files import keep_aside, replace_file

    state = os.path.join(place.folder, "state")
    before = in_folder(place.root, os.path.dirname(place.folder)).url
    if os.path.isdir(state) and store_identity(before) != store_identity(place.url):
        keep_aside(state, "before")
    # In one step: an empty file would mean that the records are in the folder.
    replace_file(os.path.join(place.folder, STORE), place.url + "\n")


def _nearest(start: str) -> Location | None:
    """The workspace that is nearest to a folder; one of the repository's main worktree comes
    before any that is above the worktree.
    """
    for folder in _upwards(start):
        if _has_ledger(folder):
            return in_folder(folder)
        if main := _main_of(folder):
            for inside in _upwards(start, folder):
                if _has_ledger(there := _same_folder_in_main(inside, folder, main)):
                    return in_folder(inside, there)
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
    """Whether a folder has a ledger, or state files of one that was lost."""
    own = os.path.join(folder, FOLDER)
    is_there = any(os.path.isfile(os.path.join(own, name)) for name in (LEDGER, STORE))
    return is_there or os.path.isdir(os.path.join(own, "state"))


def _main_of(folder: str) -> str:
    """The main worktree, where a folder is the top of a linked one."""
    if not os.path.isfile(os.path.join(folder, ".git")):
        return ""
    from passdown.history.git import main_worktree

    return main_worktree(folder)


def _same_folder_in_main(folder: str, top: str, main: str) -> str:
    """The same folder in the main worktree."""
    return os.path.normpath(os.path.join(main, os.path.relpath(folder, top)))


def make_store_folder(place: Location) -> None:
    """The folder that a place's store is to be in, if that is a file. The folder of a store that
    isn't the workspace's own comes with its first state file.
    """
    if place.home == place.folder:
        make_folder(place)
    elif place.url.startswith(_SQLITE):
        _make_private(os.path.dirname(place.url.removeprefix(_SQLITE)))


def make_folder(place: Location) -> None:
    """The workspace's folder, private; version control gets its settings, and no record."""
    _make_private(place.folder)
    ignore = os.path.join(place.home, ".gitignore")
    if os.path.basename(place.home) == FOLDER and not os.path.exists(ignore):
        from passdown.ledger.durable_files import replace_file

        replace_file(ignore, _IGNORED, is_project_file=True)


def _make_private(folder: str) -> None:
    from passdown.store.files import make_private

    try:
        make_private(folder)
    except OSError as error:
        raise StoreUnavailable(
            f"{folder} can't be made ({error.strerror or error})",
            next_step="Check the path, who owns the folder above it, and the space left.",
        ) from error


def branch_and_commit(folder: str) -> tuple[str, str]:
    """What is checked out around a folder; empty where nothing is. Starts no program."""
    from passdown.history.git import current_branch, current_commit

    return current_branch(folder), current_commit(folder)


_WAYS = (
    "To take the records along: passdown copy FROM TO, then the same again. To leave them where "
    "they are: --repoint (in Python: repoint=True). For other work: another folder."
)


def check_store_change(place: Location, store: str) -> None:
    """See that a place's present store has no record that the one to be named lacks.

    Raises InvalidInput with where the folder points now and how many records are there, and
    StoreUnavailable where that can't be read.
    """
    if place.url == store or not (held := _stored_heads(place.url)):
        return
    records, heads = held
    if _has_records(store, heads):
        return
    counted = "1 record" if records == 1 else f"{records:,} records"
    other = url_without_password(store)
    message = f"{place.root} has {counted} in {place.url_shown}, which {other} lacks"
    problem = Problem("store", "holds_records", message, "a store with the same records")
    raise InvalidInput("the folder still points where it did", [problem], next_step=_WAYS)


def _stored_heads(url: str) -> tuple[int, dict[str, tuple[int, str]]] | None:
    """How many records a store has, and the heads of its streams; None where it has none."""
    try:
        store = open_store(url, create=False)
    except NotFound:
        return None
    except StoreUnavailable as error:
        raise StoreUnavailable(
            f"can't read whether the folder has records in {url_without_password(url)}: "
            f"{error.message}",
            next_step=f"Make it reachable, or leave what is there behind. {_WAYS}",
        ) from error
    with closing(store), store.reading() as reader:
        heads = {head.stream: (head.position, head.digest) for head in reader.heads()}
        return (reader.totals()[1], heads) if heads else None


def _has_records(url: str, heads: dict[str, tuple[int, str]]) -> bool:
    """Whether a store has the records that end in these heads; it may have gone on since.

    A record's digest covers all before it in its stream, so the heads tell.
    """
    try:
        store = open_store(url, create=False)
    except NotFound:
        return False
    with closing(store), store.reading() as reader:
        records = {stream: reader.record(stream, at) for stream, (at, _) in heads.items()}
        return all(record and record.digest == heads[name][1] for name, record in records.items())

"""Where a workspace is: the nearest `.passdown` folder, a store's address, or a new folder."""

from __future__ import annotations

import os
from typing import NamedTuple

from passdown.errors import NotFound, StoreUnavailable

FOLDER = ".passdown"
LEDGER = "ledger.db"
_SQLITE = "sqlite:///"

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
    """A workspace's project root, its own folder, and the address of its store."""

    root: str
    folder: str
    url: str

    @property
    def config(self) -> str:
        """The configuration file, which need not be there."""
        return os.path.join(self.folder, "config.toml")


def place_of(target: str, *, create: bool) -> Place:
    """The workspace that `target` means: a folder, a `.db` file, or a store's address."""
    if "://" in target and not target.startswith(_SQLITE):
        return Place(os.getcwd(), os.path.join(os.getcwd(), FOLDER), target)
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
    return in_folder(found or start)


def in_folder(root: str) -> Place:
    """The workspace of exactly this folder."""
    folder = os.path.join(os.path.abspath(root), FOLDER)
    return Place(os.path.abspath(root), folder, _SQLITE + os.path.join(folder, LEDGER))


def _nearest(start: str) -> str | None:
    folder = start
    while True:
        if os.path.isfile(os.path.join(folder, FOLDER, LEDGER)):
            return folder
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def _of_file(path: str) -> Place:
    folder = os.path.dirname(path)
    root = os.path.dirname(folder) if os.path.basename(folder) == FOLDER else folder
    return Place(root, folder, _SQLITE + path)


def make_folder(place: Place) -> None:
    """The workspace's folder, private; version control gets its settings, and no record."""
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

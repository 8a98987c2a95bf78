"""The door: the one object that people, programs and every surface hold.

Methods are short and import what they need when they are called, because the command line starts
all day long and most calls need little. Documents (plain JSON) come out where a program passes them
on; values come out where a program works with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from passdown.workspace.brings import Brings
from passdown.workspace.keeps import Keeps
from passdown.workspace.knows import Knows
from passdown.workspace.locating import Place, make_folder, name_store, new_place, place_of
from passdown.workspace.opened import Opened
from passdown.workspace.reads import NEWEST, Reads
from passdown.workspace.tells import Tells
from passdown.workspace.writes import Writes

if TYPE_CHECKING:
    from passdown.model.settings import Settings
    from passdown.workspace.aliases import Clock


def open(
    target: str = ".",
    *,
    create: bool = True,
    settings: Settings | None = None,
    clock: Clock = None,
    token: str = "",
) -> Workspace:
    """Open a workspace: the nearest `.passdown/` from a folder, a `.db` file or a store's address.

    Without one, it is made in that folder, unless `create` is False. `settings` take the place of
    the configuration file; `clock` gives the time of records. The address of a server (`https://`)
    opens its workspace, with `token` or PASSDOWN_TOKEN; settings and clock are the server's.
    """
    if str(target).startswith(("http://", "https://")):
        from passdown.workspace.remote import connect

        return connect(str(target), token)
    place = place_of(str(target), create=create)
    if create:
        make_folder(place)
    return Workspace(place, settings=settings, clock=clock, create=create)


def init(folder: str = ".", store: str = "", *, repoint: bool = False) -> Workspace:
    """Make a workspace in exactly this folder, with a configuration file to edit; open it.

    `store` is the address of a database that keeps its records instead of a file in the folder;
    it is noted there, for this machine alone. Raises InvalidInput where the folder has records in
    another store that this one lacks, unless `repoint` leaves them there. In a linked worktree of
    git the records are kept in the main one, and shared by all.
    """
    import os.path

    from passdown.model.settings import CONFIG_TEMPLATE

    place = new_place(folder)
    if store and not repoint:
        from passdown.workspace.repointing import check_repointing

        check_repointing(place, store)
    make_folder(place)
    if store:
        place = place._replace(url=store)
    if not os.path.exists(place.config):
        from passdown.ledger.durable_files import replace_file

        replace_file(place.config, CONFIG_TEMPLATE)
    workspace = Workspace(place)
    if store:
        name_store(place)
    return workspace


class Workspace(Writes, Reads, Tells, Knows, Brings, Keeps):
    """One team's records. Use it as a context manager, or call `close`."""

    def __init__(
        self,
        place: Place,
        *,
        settings: Settings | None = None,
        clock: Clock = None,
        create: bool = True,
    ) -> None:
        """Open the workspace at a place; `passdown.open` finds the place."""
        self._opened = Opened(place, settings, clock, create=create)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the store. Nothing is lost by not calling it."""
        self._opened.close()

    @property
    def root(self) -> str:
        """The project's folder; artifact paths are relative to it."""
        return self._opened.root

    @property
    def store_url(self) -> str:
        """The address that opens this workspace's store again, password and all."""
        return self._opened.store.url

    @property
    def store_shown(self) -> str:
        """The same address as it may be printed: without a password."""
        return self._opened.store_shown


__all__ = ["NEWEST", "Workspace", "init", "open"]

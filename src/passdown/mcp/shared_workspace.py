"""One open workspace, shared by the calls of a long-running server.

While a server runs, a store may be created, moved, restored or reconfigured. Writing to the old
file would lose the write, so each call checks that the files are still the ones that were opened.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from passdown.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from passdown.workspace import Workspace
    from passdown.workspace.location import Location


MAX_WAIT_S = 10.0
"""How long a call waits for another writer at most: hosts give up on a call after a while."""

_SQLITE = "sqlite:///"


class _OpenWorkspace:
    """An open workspace, the identity of its files when it was opened, and its users."""

    def __init__(self, workspace: Workspace, identity: tuple[object, ...]) -> None:
        self.workspace = workspace
        self.identity = identity
        self.users = 0


class WorkspaceCandidates(NamedTuple):
    """Where a workspace is looked for, in order: what was named, or else some folders."""

    named: str
    folders: tuple[str, ...]


def workspace_candidates(
    named: str, environment: Mapping[str, str], folder: str
) -> WorkspaceCandidates:
    """Where to look: what `--store` or PASSDOWN_STORE names, and nowhere else; without them, from
    the folder that the server was started in, then from CLAUDE_PROJECT_DIR.

    In a worktree of its own an agent's folder is nearer to it than the project that its host
    names, so the folder comes first.
    """
    project = environment.get("CLAUDE_PROJECT_DIR", "")
    folders = (folder, project) if project and project != folder else (folder,)
    return WorkspaceCandidates(named or environment.get("PASSDOWN_STORE", ""), folders)


class SharedWorkspace:
    """One open workspace for any number of calls at a time."""

    def __init__(self, where: WorkspaceCandidates) -> None:
        """Nothing is opened until the first call."""
        self._where = where
        self._lock = threading.Lock()
        self._lent: _OpenWorkspace | None = None

    @contextmanager
    def workspace(self) -> Generator[Workspace]:
        """The workspace, for one call. Raises NotFound where there is none, and looks again the
        next time.
        """
        lent = self._take()
        try:
            yield lent.workspace
        finally:
            self._release(lent)

    def close(self) -> None:
        """Close the store, once the calls that use it are done."""
        with self._lock:
            lent, self._lent = self._lent, None
            if lent is not None and not lent.users:
                lent.workspace.close()

    def _take(self) -> _OpenWorkspace:
        with self._lock:
            place = self._place()
            identity = _identity(place)
            if self._lent is None or self._lent.identity != identity:
                old, self._lent = self._lent, _open(place)
                if old is not None and not old.users:
                    old.workspace.close()
            self._lent.users += 1
            return self._lent

    def _release(self, lent: _OpenWorkspace) -> None:
        with self._lock:
            lent.users -= 1
            if not lent.users and lent is not self._lent:
                lent.workspace.close()

    def _place(self) -> Location:
        from passdown.workspace.location import locate

        if self._where.named:
            return locate(self._where.named, create=False)
        for folder in self._where.folders:
            try:
                return locate(folder, create=False)
            except NotFound:
                continue
        looked = " or ".join(self._where.folders)
        raise NotFound(
            f"there is no Passdown workspace in {looked}, or above it",
            next_step="Somebody has to run `passdown init` in the project's folder, or set "
            "PASSDOWN_STORE for this server. After that, the same call works.",
            code="no_workspace",
        )


def _open(place: Location) -> _OpenWorkspace:
    from passdown.workspace import Workspace
    from passdown.workspace.context import read_settings

    settings = read_settings(place.config)
    wait = min(settings.lock_timeout_s, MAX_WAIT_S)
    workspace = Workspace(place, settings=settings._replace(lock_timeout_s=wait))
    # Asked after opening: opening may have been what made the store's file.
    return _OpenWorkspace(workspace, _identity(place))


def _identity(place: Location) -> tuple[object, ...]:
    """The identity of the files at a location, which changes if others replace them."""
    store = _stat(place.url.removeprefix(_SQLITE))
    config = _stat(place.config)
    return (
        place,
        store and (store.st_dev, store.st_ino),
        config and (config.st_mtime_ns, config.st_size),
    )


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None

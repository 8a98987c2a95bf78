"""Public API: open a workspace, and everything that it offers.

The methods of `Workspace` and its groups come from the table in `passdown.operations`; the stub
beside this file, which is generated from it, shows them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from passdown.core.arguments import checked_arguments
from passdown.core.settings import Settings
from passdown.core.types import Clock
from passdown.errors import NotFound
from passdown.operations import load, with_operations
from passdown.workspace.context import Context
from passdown.workspace.location import (
    Location,
    locate,
    make_folder,
    make_store_folder,
    new_location,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.errors import Damaged
    from passdown.operations import Operation
    from passdown.workspace.streams import Streams


def open(
    target: str = ".",
    *,
    create: bool = True,
    settings: Settings | None = None,
    clock: Clock | None = None,
    token: str = "",
) -> Workspace:
    """Open a workspace.

    Args:
        target: A folder, whose nearest `.passdown/` is opened; a `.db` file; or a store's URL. The
            URL of a server (`https://`) opens its workspace, whose settings and clock are used.
        create: Create a workspace in the folder, which has to exist, if there is none.
        settings: Used instead of the configuration file.
        clock: Gives the time of records.
        token: Of a server; PASSDOWN_TOKEN by default.
    """
    if str(target).startswith(("http://", "https://")):
        return load("passdown.remote:connect")(str(target), token)
    location = locate(str(target), create=create)
    if create:
        make_store_folder(location)
    return Workspace(location, settings=settings, clock=clock, create=create)


def init(folder: str = ".", store: str = "", *, repoint: bool = False) -> Workspace:
    """Create a workspace in exactly this folder, with a configuration file to edit, and open it.

    In a linked worktree of git the records are kept in the main one, and shared by all.

    Args:
        folder: The folder.
        store: The URL of a database, or a `.db` file, that keeps the records instead of a file in
            the folder; it is noted there, for this machine alone.
        repoint: Use `store` even if the folder has records that it lacks; otherwise InvalidInput.
    """
    import os.path

    from passdown.core.settings import CONFIG_TEMPLATE
    from passdown.store import open_store
    from passdown.workspace.location import check_store_change, name_store, store_address

    location = new_location(folder)
    if store:
        store = store_address(store) or store
        if not repoint:
            check_store_change(location, store)
        open_store(store).close()
    make_folder(location)
    if store:
        location = location._replace(url=store)
        name_store(location)
    if not os.path.exists(location.config):
        from passdown.ledger.durable_files import replace_file

        replace_file(location.config, CONFIG_TEMPLATE)
    workspace = Workspace(location)
    if refusal := workspace._opened.refusal:  # pyright: ignore[reportPrivateUsage]
        workspace.close()
        raise refusal
    return workspace


_WITHOUT_LEDGER = (
    "maintenance.doctor",
    "maintenance.import_bundle",
    "maintenance.recover",
    "verify",
)
"""What can be done while state files show that the ledger was lost."""
_LISTS = ("tasks", "inbox")
"""Reads of many tasks: they say of which the ledger has lost history."""


def _with_warning(context: Context, result: Any, lost: Damaged) -> Any:
    """What was read of tasks that have lost history, with a warning; where a result has no place
    for it, it is logged, once for each task.
    """
    problems = [each._replace(level="warning") for each in lost.problems]
    if "warnings" in getattr(result, "_fields", ()):
        said = [each for each in result.warnings if each not in problems]
        return result._replace(warnings=(*said, *problems))
    for problem in problems:
        if problem.path not in context.warned:
            import logging

            context.warned.add(problem.path)
            logging.getLogger("passdown").warning("warning: %s", problem.line())
    return result


@with_operations
class Workspace:
    """One team's records. Use it as a context manager, or call `close`."""

    def __init__(
        self,
        location: Location,
        *,
        settings: Settings | None = None,
        clock: Clock | None = None,
        create: bool = True,
    ) -> None:
        """Open the workspace at a location; `passdown.open` finds it."""
        self._opened = Context(location, settings, clock, create=create)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.store_label}>"

    def _call(
        self, operation: Operation, function: Callable[..., Any], *args: Any, **given: Any
    ) -> Any:
        context = self._context
        if context.refusal is not None and operation.name not in _WITHOUT_LEDGER:
            context.refusal = context.lost_ledger()  # it may have been put back meanwhile
            if context.refusal is not None:
                raise context.refusal
        own = operation.has_own_limits
        task = checked_arguments(function, args, given, has_own_limits=own).get("task")

        def run() -> Any:
            if operation.on_reader:
                with context.store.reading() as reader:
                    return function(reader, *args, **given)
            return function(self if operation.on_workspace else context, *args, **given)

        if operation.name in _LISTS:
            result = run()
            lost = context.lost_histories({entry.task for entry in result})
            return _with_warning(context, result, lost) if lost else result
        if operation.right != "read" or not isinstance(task, str) or not task:
            return run()  # writes are refused by the ledger
        try:
            result = run()
        except NotFound as error:
            if lost := context.lost_history(task):
                raise lost from error
            raise
        lost = context.lost_history(task, result)
        return _with_warning(context, result, lost) if lost else result

    @property
    def _context(self) -> Context:
        """What operations work on; raises StoreUnavailable once the workspace is closed."""
        self._opened.check_open()
        return self._opened

    def _streams(self) -> Streams:
        from passdown.workspace.streams import Streams

        return Streams(self._context)

    def close(self) -> None:
        """Close the store. Nothing is lost by not calling it."""
        self._opened.close()

    @property
    def root(self) -> str:
        """The project's folder; artifact paths are relative to it."""
        return self._opened.root

    @property
    def store_url(self) -> str:
        """The URL that opens this workspace's store again, with its password."""
        return self._opened.store.url

    @property
    def store_label(self) -> str:
        """The same URL as it may be printed: without a password."""
        return self._opened.store_label


__all__ = ["Workspace", "init", "open"]

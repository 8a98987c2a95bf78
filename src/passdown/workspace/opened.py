"""What an open workspace is made of, and the settings it reads when they are first needed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from passdown.ledger.writing import Ledger, system_clock
from passdown.model.settings import DEFAULTS, Settings, parse_settings
from passdown.recall.handles import HandleFiles
from passdown.store.opening import open_store

if TYPE_CHECKING:
    from passdown.errors import Problem
    from passdown.ledger.writing import Clock
    from passdown.store.protocol import Store
    from passdown.workspace.locating import Place


class Opened:
    """The parts of a workspace: place, settings, store, ledger and handle files."""

    def __init__(self, place: Place, settings: Settings | None, clock: Clock | None) -> None:
        self.place = place
        self.root = place.root
        self.settings = settings if settings is not None else read_settings(place.config)
        self.clock = clock or system_clock
        self.store: Store = open_store(
            place.url,
            timeout_s=self.settings.lock_timeout_s,
            durability=self.settings.durability,
        )
        self.ledger = Ledger(self.store, self.clock)
        folder = os.path.join(place.folder, "state")
        self.handles = HandleFiles(folder, self.settings.kept_versions)

    def handle_path(self, task: str) -> str:
        """A task's handle file, relative to the project root where it is inside."""
        path = self.handles.path(task)
        relative = os.path.relpath(path, self.root)
        return path if relative.startswith("..") else relative.replace(os.sep, "/")

    def mirror(self, tasks: tuple[str, ...]) -> list[Problem]:
        """Bring the handle files of tasks up to date after a commit."""
        problems: list[Problem] = []
        for task in tasks:
            problems += self.handles.write(self.store, task)
        return problems


def read_settings(path: str) -> Settings:
    """The settings in a configuration file; the defaults where there is none or all is commented."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError:
        return DEFAULTS
    if all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines()):
        return DEFAULTS
    import tomllib

    from passdown.errors import InvalidInput, Problem

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problem = Problem("", "invalid_toml", str(error), "TOML", f"mend {path}")
        raise InvalidInput("the configuration can't be read", [problem]) from error
    return parse_settings(document)

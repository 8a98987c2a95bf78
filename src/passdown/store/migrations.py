"""Numbered migrations: the files of a folder, and the schema that they give."""

from __future__ import annotations

import os
import time
from functools import cache

from passdown.errors import NewerSchema

FOLDER = os.path.join(os.path.dirname(__file__), "sql")


@cache
def migration_files(folder: str) -> tuple[str, ...]:
    """The names of a folder's migrations, in order."""
    names = sorted(os.listdir(folder))
    return tuple(name for name in names if name[:4].isdigit() and name.endswith(".sql"))


def newest_version(folder: str) -> int:
    """The schema version that this release makes."""
    return int(migration_files(folder)[-1][:4])


def refuse_newer(store: str, version: int, folder: str) -> None:
    """Raise NewerSchema for a schema that this release doesn't know yet."""
    known = newest_version(folder)
    if version > known:
        raise NewerSchema(
            f"{store} has schema version {version}; this release knows up to {known}",
            next_step="Use the newer release that made it; it has been left untouched.",
        )


def migrations(folder: str, after: int) -> list[tuple[str, dict[str, object]]]:
    """The SQL of every migration after a version, in order, and the values of its row."""
    found: list[tuple[str, dict[str, object]]] = []
    for name in migration_files(folder):
        if int(name[:4]) > after:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                sql = file.read()
            applied = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            row = {"number": int(name[:4]), "name": name.removesuffix(".sql")}
            found.append((sql, {**row, "applied_at": applied}))
    return found


def expected_schema(folder: str, version: int) -> str:
    """The schema that the migrations up to a version give, as it is kept beside them."""
    with open(os.path.join(folder, "schemas", f"{version:04d}.txt"), encoding="utf-8") as file:
        return file.read()

"""Check and migrate the schema of an embedded store.

A file is opened only when it is new, or says that it is ours (`application_id`), isn't newer than
this release, and its schema is exactly the one that the numbered migrations give. Any other file is
left untouched.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import apsw

from passdown.errors import ForeignSchema, StoreUnavailable
from passdown.store.migrations import (
    FOLDER,
    expected_schema,
    migrations,
    newest_version,
    refuse_newer,
)
from passdown.store.statements import load_statements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def rows(
    connection: apsw.Connection,
    sql: str,
    values: Mapping[str, object] | Sequence[object] | None = None,
) -> list[tuple[Any, ...]]:
    """Run SQL to its end, one statement or several, and give all rows."""
    return connection.execute(sql, values).fetchall()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def rows_of_many(
    connection: apsw.Connection, sql: str, values: Sequence[Sequence[object]]
) -> list[tuple[Any, ...]]:
    """Run one statement for each row of values."""
    return connection.executemany(sql, values).fetchall()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportArgumentType]


APPLICATION_ID = 0x70617373  # "pass"

_FOLDER = os.path.join(FOLDER, "sqlite")


def newest() -> int:
    """The schema version that this release makes."""
    return newest_version(_FOLDER)


def schema_text(connection: apsw.Connection) -> str:
    """Every table, index, trigger and view that a file has, to the letter."""
    found = rows(connection, load_statements("sqlite")["schema_rows"])
    return "".join(f"{kind} {name} on {table}\n{sql}\n\n" for kind, name, table, sql in found)


def check(connection: apsw.Connection, path: str) -> bool:
    """Refuse a file that isn't ours, was altered, or is newer than this release.

    Says whether the schema is up to date; a new or older file still has to be migrated. All of it
    is read in one transaction: another process may be making the schema at this moment.
    """
    if connection.in_transaction:
        return _check(connection, path)
    rows(connection, "BEGIN")
    try:
        return _check(connection, path)
    finally:
        rows(connection, "ROLLBACK")


def _check(connection: apsw.Connection, path: str) -> bool:
    version = _number(connection, "PRAGMA user_version")
    application = _number(connection, "PRAGMA application_id")
    if version == 0 and application == 0 and not _has_schema(connection):
        return False
    if application != APPLICATION_ID:
        raise ForeignSchema(
            f"{path} is a database, but not a Passdown store",
            next_step="Name another file; this one has been left untouched.",
        )
    refuse_newer(path, version, _FOLDER)
    if version == 0 or schema_text(connection) != expected_schema(_FOLDER, version):
        raise ForeignSchema(
            f"the schema of {path} is not the one that Passdown makes (version {version})",
            next_step="Something was added to or taken from the file. It has been left untouched; "
            "restore a backup beside it.",
        )
    return version == newest()


def switch_to_wal(connection: apsw.Connection, timeout_s: float) -> None:
    """Use a write-ahead log. SQLite answers instead of raising when it could not switch."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            mode = rows(connection, "PRAGMA journal_mode = WAL")[0][0]
        except apsw.BusyError:
            # Another process is making the same switch at this moment.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.005)
            continue
        if mode != "wal":
            raise StoreUnavailable(
                f"SQLite could not switch to a write-ahead log: it answers {mode!r}",
                next_step="Run passdown doctor; network file systems and full disks do this.",
            )
        return


def migrate(connection: apsw.Connection, path: str) -> None:
    """Apply what is missing in one transaction; many processes may try at once."""
    if _number(connection, "PRAGMA user_version") == newest():
        return
    rows(connection, "BEGIN IMMEDIATE")
    try:
        check(connection, path)
        version = _number(connection, "PRAGMA user_version")
        for sql, row in migrations(_FOLDER, version):
            rows(connection, sql)
            rows(connection, load_statements("sqlite")["note_migration"], row)
            connection.pragma("application_id", APPLICATION_ID)  # pyright: ignore[reportUnknownMemberType]
            connection.pragma("user_version", row["number"])  # pyright: ignore[reportUnknownMemberType]
        rows(connection, "COMMIT")
    except BaseException:
        if connection.in_transaction:
            rows(connection, "ROLLBACK")
        raise


def _number(connection: apsw.Connection, query: str) -> int:
    return int(rows(connection, query)[0][0])


def _has_schema(connection: apsw.Connection) -> bool:
    return bool(rows(connection, load_statements("sqlite")["schema_rows"]))

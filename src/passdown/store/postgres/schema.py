"""Check, create and migrate the schema of a workspace in PostgreSQL."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, LiteralString, cast

import psycopg

from passdown.errors import ForeignSchema, NotFound, StoreUnavailable
from passdown.store import migrations
from passdown.store.postgres.connections import refuse_unsafe, run_statement, set_up
from passdown.store.postgres.errors import error_text

if TYPE_CHECKING:
    from passdown.store.postgres.connections import Location, WatchedConnection


FOLDER = os.path.join(migrations.FOLDER, "postgres")


def newest() -> int:
    """The schema version that this release makes."""
    return migrations.newest_version(FOLDER)


def expected_text(version: int) -> str:
    """The schema that the migrations up to a version give."""
    return migrations.expected_schema(FOLDER, version)


def schema_text(connection: WatchedConnection, location: Location) -> str:
    """Every column, index, trigger and function of a workspace, one to a line."""
    found = run_statement(connection, "schema_rows", {"schema": location.schema})
    return "".join(f"{kind} {name} {what}\n" for kind, name, what in found)


def prepare(
    connection: WatchedConnection, location: Location, timeout_s: float, *, create: bool
) -> None:
    """Check the schema; make it, or bring it up to date, where that is needed."""
    version = _version(connection, location)
    if version == 0 and not create:
        raise NotFound(
            f"there is no workspace {location.workspace!r} in {location.shown}",
            next_step="Check its name (?workspace=NAME), or make it with passdown init --store.",
        )
    if version < newest():
        _migrate(connection, location, timeout_s)
        version = _version(connection, location)
    check(connection, location, version)


def check(connection: WatchedConnection, location: Location, version: int) -> None:
    """Refuse a schema that is newer than this release, or isn't what the migrations give."""
    migrations.refuse_newer(location.shown, version, FOLDER)
    actual, expected = schema_text(connection, location), expected_text(version)
    if actual != expected:
        differing = sorted(set(actual.splitlines()) ^ set(expected.splitlines()))
        raise ForeignSchema(
            f"the schema {location.schema} is not the one that Passdown makes "
            f"(version {version}): {'; '.join(differing)[:300]}",
            next_step="Something was added, changed or taken away. It has been left untouched; "
            "restore a backup beside it.",
        )


def _version(connection: WatchedConnection, location: Location) -> int:
    has_schema, has_table = run_statement(connection, "has_schema", {"schema": location.schema})[0]
    if has_table:
        return run_statement(connection, "schema_version")[0][0]
    if has_schema and schema_text(connection, location):
        raise ForeignSchema(
            f"the schema {location.schema} holds other tables, and no workspace",
            next_step="Name another workspace (?workspace=NAME); it has been left untouched.",
        )
    return 0


def _migrate(connection: WatchedConnection, location: Location, timeout_s: float) -> None:
    try:
        with connection.transaction():
            # Extensions belong to the whole database, so the first lock is one for all workspaces.
            for key in (_EXTENSIONS, location.key()):
                run_statement(connection, "lock", {"key": key})
            run_statement(connection, "make_extension")
            refuse_unsafe(connection, location, waits_for_disk=False)
            run_statement(connection, "make_schema")
            set_up(connection, location, timeout_s, waits_for_disk=True)
            version = _version(connection, location)
            for sql, row in migrations.migrations(FOLDER, version):
                connection.execute(cast("LiteralString", sql), prepare=False)
                run_statement(connection, "note_migration", row)
    except (psycopg.errors.UndefinedFile, psycopg.errors.FeatureNotSupported) as error:
        raise StoreUnavailable(
            f"the server has no pgvector: {error_text(error, location)}",
            next_step="Install the extension pgvector (0.8 or later) on the server.",
        ) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise StoreUnavailable(
            f"the user of the database may not make the workspace: {error_text(error, location)}",
            next_step="Have an administrator make the extension `vector` in the database and grant "
            "this user CREATE on it; then try again.",
        ) from error


_EXTENSIONS = 0x7061737364 << 8

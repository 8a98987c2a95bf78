"""Translate PostgreSQL errors, without the secrets of the URL."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
from psycopg import errors as pg

from passdown.errors import (
    PassdownError,
    StoreBusy,
    StoreUnavailable,
)
from passdown.store import secrets_in_url
from passdown.store.protocol import UNKNOWN, damaged, not_storable

if TYPE_CHECKING:
    from collections.abc import Generator

    from passdown.store.postgres.connections import Location


NOTHING = "Nothing was written. "

_WAYS_OUT: tuple[tuple[tuple[type[psycopg.Error], ...], str, str], ...] = (
    ((pg.DiskFull,), "the server's disk is full", "Free some space there, then try again."),
    (
        (pg.ReadOnlySqlTransaction,),
        "the server takes no writes: it is a standby, or set to read only",
        "Name the address of the primary.",
    ),
    (
        (pg.InsufficientPrivilege,),
        "the user of the database may not do this",
        "Have its owner grant what the message names, or connect as the owner of the workspace.",
    ),
    (
        (pg.TooManyConnections,),
        "the server has no connection left",
        "Close some, or raise max_connections; a process of ours keeps at most 16.",
    ),
    (
        (pg.InvalidPassword, pg.InvalidAuthorizationSpecification),
        "the server doesn't let this user in",
        "Check user and password; PGPASSWORD or ~/.pgpass keep it out of the address.",
    ),
    ((pg.InvalidCatalogName,), "there is no such database", "Make it first, or check its name."),
    (
        (pg.UndefinedTable, pg.UndefinedColumn, pg.UndefinedFunction, pg.InvalidSchemaName),
        "the tables are not those that Passdown makes",
        "Something was taken out of the workspace's schema; restore a backup beside it.",
    ),
)


def error_text(error: BaseException, location: Location) -> str:
    """What the database says, on one line and without secrets."""
    text = " ".join(str(error).split())[:400] or type(error).__name__
    for secret in reversed(secrets_in_url(location.url)):
        text = text.replace(secret, "***")
    return text


def is_lost(error: BaseException) -> bool:
    """Whether the connection is of no more use: cut, or ended by the server."""
    if isinstance(error, pg.AdminShutdown | pg.CrashShutdown | pg.CannotConnectNow):
        return True
    return isinstance(error, psycopg.OperationalError) and error.sqlstate is None


def as_store_error(error: BaseException, location: Location, outcome: str = NOTHING) -> Exception:
    """The error that users know for one of PostgreSQL's; `outcome` says what became of a write."""
    text = f"{error_text(error, location)} ({location.shown})"
    if isinstance(error, pg.QueryCanceled | pg.DeadlockDetected | pg.SerializationFailure):
        return StoreBusy(f"others were in the way: {text}", next_step=NOTHING + "Try again.")
    if isinstance(error, pg.DataCorrupted | pg.IndexCorrupted):
        return damaged(location.shown, error_text(error, location))
    if isinstance(error, psycopg.DataError):
        return not_storable(error)
    for kinds, what, way_out in _WAYS_OUT:
        if isinstance(error, kinds):
            return StoreUnavailable(f"{what}: {text}", next_step=way_out)
    if isinstance(error, psycopg.OperationalError):
        step = outcome if outcome == UNKNOWN else f"{outcome}Check the server, then try again."
        return StoreUnavailable(f"the connection to the database failed: {text}", next_step=step)
    return StoreUnavailable(f"PostgreSQL refused: {text}", next_step=outcome.strip())


@contextmanager
def translated_errors(location: Location, outcome: str = NOTHING) -> Generator[None]:
    """Turn the database's exceptions into the ones that users know."""
    try:
        yield
    except PassdownError:
        raise
    except psycopg.Error as error:
        raise as_store_error(error, location, outcome) from _without_secrets(error, location)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise damaged(location.shown, f"a stored value can't be read: {error}") from error
    except (UnicodeEncodeError, OverflowError) as error:
        raise not_storable(error) from error
    except OSError as error:
        raise StoreUnavailable(
            f"the connection to the database failed: {error_text(error, location)} "
            f"({location.shown})",
            next_step=outcome,
        ) from error


def _without_secrets(error: psycopg.Error, location: Location) -> BaseException | None:
    """The cause as it may be shown in a trace: none where it quotes the address."""
    return None if any(secret in str(error) for secret in secrets_in_url(location.url)) else error

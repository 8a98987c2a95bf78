"""The engine: legs as durable workflows, on SQLite or PostgreSQL.

The ledger says what is to be done and what was done; the engine only makes sure that some worker
does it. A workflow may be lost or run twice without harm: its effect is a record with a key of
its own, and what is open in the ledger is queued again. No other package imports `dbos`.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from passdown.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Generator


_RECREATE = "It holds only what is queued: move the file away, and it is recreated from the ledger."


@contextmanager
def database_faults(next_step: str = "") -> Generator[None]:
    """Raise StoreUnavailable for a fault of the engine's database."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except SQLAlchemyError as error:
        said = (str(error).splitlines() or [""])[0]
        message = f"the engine's database can't be used: {said}"
        fix = "" if "not a database" not in said and "malformed" not in said else _RECREATE
        raise StoreUnavailable(message, next_step=f"{fix} {next_step}".strip()) from error

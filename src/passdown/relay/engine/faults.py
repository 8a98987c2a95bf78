"""Faults of the engine's database, said plainly."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from passdown.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Generator

_MADE_ANEW = (
    "It holds only what is queued: move the file aside, and it is made anew from the ledger."
)


@contextmanager
def database_faults(next_step: str = "") -> Generator[None]:
    """Say plainly that the engine's database can't be used, where that is what went wrong."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except SQLAlchemyError as error:
        said = (str(error).splitlines() or [""])[0]
        message = f"the engine's database can't be used: {said}"
        mend = "" if "not a database" not in said and "malformed" not in said else _MADE_ANEW
        raise StoreUnavailable(message, next_step=f"{mend} {next_step}".strip()) from error

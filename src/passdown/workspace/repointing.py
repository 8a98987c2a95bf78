"""A folder whose records are to be kept in another store: not while any would be left behind."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from passdown.errors import InvalidInput, NotFound, Problem, StoreUnavailable
from passdown.store.addresses import shown
from passdown.store.opening import open_store

if TYPE_CHECKING:
    from passdown.store.protocol import Store
    from passdown.workspace.locating import Place

_WAYS = (
    "To take the records along: passdown copy FROM TO, then the same again. To leave them where "
    "they are: --repoint (in Python: repoint=True). For other work: another folder."
)


def check_repointing(place: Place, store: str) -> None:
    """See that a place's present store has no record that the one to be named lacks.

    Raises InvalidInput with where the folder points now and how many records are there, and
    StoreUnavailable where that can't be told.
    """
    if place.url == store or not (held := _held(place.url)):
        return
    records, heads = held
    if _has(store, heads):
        return
    counted = "1 record" if records == 1 else f"{records:,} records"
    message = f"{place.root} has {counted} in {place.url_shown}, which {shown(store)} has not"
    problem = Problem("store", "holds_records", message, "a store with the same records")
    raise InvalidInput("the folder still points where it did", [problem], next_step=_WAYS)


def _held(url: str) -> tuple[int, dict[str, tuple[int, str]]] | None:
    """How many records a store has, and the heads of its streams; None where it has none."""
    try:
        store = _opened(url)
    except StoreUnavailable as error:
        raise StoreUnavailable(
            f"whether the folder has records in {shown(url)} can't be told: {error.message}",
            next_step=f"Make it reachable, or leave what is there behind. {_WAYS}",
        ) from error
    if store is None:
        return None
    with closing(store), store.reading() as reader:
        heads = {head.stream: (head.position, head.digest) for head in reader.heads()}
        return (reader.totals()[1], heads) if heads else None


def _has(url: str, heads: dict[str, tuple[int, str]]) -> bool:
    """Whether a store has the records that end in these heads; it may have gone on since.

    A record's digest covers all before it in its stream, so the heads tell.
    """
    store = _opened(url)
    if store is None:
        return False
    with closing(store), store.reading() as reader:
        own = {head.stream: (head.position, head.digest) for head in reader.heads()}
        passed = {stream: head for stream, head in heads.items() if own.get(stream) != head}
        return all(
            (record := reader.record(stream, position)) is not None and record.digest == digest
            for stream, (position, digest) in passed.items()
        )


def _opened(url: str) -> Store | None:
    try:
        return open_store(url, create=False)
    except NotFound:
        return None

"""One workspace's records into another store: a file into a database, or back, or beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from passdown.ledger.verifying import Verified, verify
from passdown.store.addresses import shown
from passdown.store.copying import copy_store
from passdown.store.opening import open_store
from passdown.workspace.locating import make_folder, place_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.store.protocol import Store

    Progress = Callable[[str], Callable[[int, int], None] | None]


class CopiedWorkspace(NamedTuple):
    """What a copy did: where it went, how many records came over now and had come before, and what
    verifying the target found.
    """

    source: str
    target: str
    records: int
    before: int
    verified: Verified


def copy_workspace(source: str, target: str, progress: Progress | None = None) -> CopiedWorkspace:
    """Copy a store into another one, which is made where there is none, and verify it there.

    Both are named as `passdown.open` takes them. The same again, after a stop or later on, brings
    over what is missing. `progress` gives what is called for each part of the work.
    """
    start, end = place_of(source, create=False), place_of(target, create=True)
    given = open_store(start.url, create=False)
    try:
        if end.url.startswith("sqlite:"):
            make_folder(end)
        taking = open_store(end.url)
        try:
            copied = copy_store(given, taking, progress("copying") if progress else None)
            found = _verified(given, taking, progress("verifying") if progress else None)
        finally:
            taking.close()
    finally:
        given.close()
    return CopiedWorkspace(shown(start.url), shown(end.url), copied.records, copied.before, found)


def _verified(
    source: Store, target: Store, progress: Callable[[int, int], None] | None
) -> Verified:
    """Check the target by itself, and against the heads that the source has."""
    with target.reading() as reader:
        held = {head.stream: head.position for head in reader.heads()}
    with source.reading() as reader:
        # The source may have gone on since: what counts are its records up to where the copy is.
        records = ((stream, reader.record(stream, position)) for stream, position in held.items())
        saved = {stream: (r.position, r.digest) for stream, r in records if r is not None}
    return verify(target, against=saved, progress=progress)

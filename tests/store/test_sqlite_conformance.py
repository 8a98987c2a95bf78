"""The embedded store keeps the promises that every store makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from passdown.store import open_store
from passdown.testing import StoreConformance

if TYPE_CHECKING:
    from pathlib import Path

    from passdown.store.protocol import Store


class TestSqliteStore(StoreConformance):
    def make_store(self, place: Path) -> Store:
        """The store in a file of that folder."""
        return open_store(f"sqlite:///{place / 'ledger.db'}", durability="normal")


class TestFullDurability(StoreConformance):
    def make_store(self, place: Path) -> Store:
        """The same with every write synced, as it is by default."""
        return open_store(f"sqlite:///{place / 'ledger.db'}")


class _Forgetful(StoreConformance):
    """A store that never shows what was written: the suite has to notice."""

    def make_store(self, place: Path) -> Store:
        number = len(list(place.iterdir()))
        return open_store(f"sqlite:///{place / f'{number}.db'}", durability="normal")


@pytest.mark.parametrize(
    "name",
    [
        "test_records_come_back_byte_for_byte",
        "test_what_is_written_is_seen_at_once_by_others",
        "test_closing_twice_is_fine",
    ],
)
def test_the_suite_notices_a_store_that_forgets(name: str, tmp_path: Path) -> None:
    """A store that loses what it was given doesn't pass."""
    with pytest.raises(AssertionError, match="expected"):
        getattr(_Forgetful(), name)(tmp_path)


def test_the_suite_needs_a_store(tmp_path: Path) -> None:
    """Without a store of its own, a test class says what is missing."""
    with pytest.raises(NotImplementedError, match="store is made"):
        StoreConformance().test_a_new_store_is_empty(tmp_path)

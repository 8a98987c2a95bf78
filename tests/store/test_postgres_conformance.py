"""PostgreSQL keeps every promise of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from passdown.store import open_store
from passdown.testing import StoreConformance
from tests.postgres import new_workspace

if TYPE_CHECKING:
    from pathlib import Path

    from passdown.store.protocol import Store


class TestPostgresStore(StoreConformance):
    @pytest.fixture(autouse=True)
    def _workspace(self, postgres_database: str) -> None:
        self.address = new_workspace(postgres_database)

    def make_store(self, place: Path) -> Store:
        return open_store(self.address, timeout_s=10)

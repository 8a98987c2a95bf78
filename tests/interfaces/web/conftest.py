"""A server for each test, over a workspace with one task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import passdown
from passdown import Settings
from passdown.testing import write_files
from tests.serving import served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from passdown import Workspace
    from tests.serving import Served

QUICK = Settings(durability="normal", embedder="none")


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    root = tmp_path / "shop"
    write_files(str(root))
    with passdown.open(str(root), settings=QUICK) as workspace:
        workspace.create_task("T-1", title="Login", agent="planner")
        yield workspace


@pytest.fixture
def server(ws: Workspace) -> Iterator[Served]:
    with served(ws) as found:
        yield found

"""What tests of frameworks begin with."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

import passdown
from tests.postgres import name_store
from tests.serving import over_http

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from passdown import Workspace


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    """A workspace with one task, which the planner has."""
    with passdown.open(str(tmp_path)) as workspace:
        workspace.create_task("T-1", title="Login", agent="planner")
        yield workspace


@pytest.fixture(params=["sqlite", "postgres", "server"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workspace]:
    """The same workspace in SQLite, in PostgreSQL and behind a server."""
    if request.param == "postgres":
        name_store(tmp_path, request.getfixturevalue("postgres_store"))
    with passdown.open(str(tmp_path)) as workspace:
        workspace.create_task("T-1", title="Login", agent="planner")
        with over_http(workspace) if request.param == "server" else nullcontext(workspace) as found:
            yield found

"""What tests of frameworks begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import passdown

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

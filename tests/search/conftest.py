"""Workspaces for the tests of search: quick, and without a model unless a test brings one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import passdown
from passdown import Settings
from passdown.testing import fixed_clock, write_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from passdown import Workspace

QUICK = Settings(durability="normal", embedder="none")


@pytest.fixture
def ws(tmp_path: Path, each_store: None) -> Iterator[Workspace]:
    write_files(str(tmp_path))
    with passdown.open(str(tmp_path), settings=QUICK, clock=fixed_clock()) as workspace:
        for task in ("T-1", "T-2", "T-3"):
            workspace.create_task(task, title=f"Work on {task}", agent="planner")
        yield workspace

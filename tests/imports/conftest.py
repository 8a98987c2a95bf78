"""A project to import into."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.imports.sources import Imports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Imports]:
    """An empty project with a workspace."""
    (tmp_path / "project").mkdir()
    imports = Imports(tmp_path / "project")
    yield imports
    imports.workspace.close()

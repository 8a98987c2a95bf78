"""Folders for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def new_folder(folder: Path) -> str:
    """The path of a folder that is made if it isn't there."""
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)

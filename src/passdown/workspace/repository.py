"""Changed files of the repository around a project."""

from __future__ import annotations

from passdown.history.git import ChangedFile, changed_since, touched_since, uncommitted_paths

__all__ = ["ChangedFile", "changed_since", "touched_since", "uncommitted_paths"]

"""The repository around a project, as doors ask for it: what changed there."""

from passdown.recall.git_changes import Changed, changed_now, changed_since

__all__ = ["Changed", "changed_now", "changed_since"]

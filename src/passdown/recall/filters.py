"""Filters of a search: what an entry must be, as far as the index tells and as far as rows do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from passdown.model.findable import path_mark
from passdown.model.found_rows import mark_of

if TYPE_CHECKING:
    from passdown.store.found import Entry


class Filter(NamedTuple):
    """What an entry must be; empty parts let everything through."""

    kinds: tuple[str, ...] = ()
    agent: str = ""
    task: str = ""
    tags: tuple[str, ...] = ()
    path: str = ""
    statuses: tuple[str, ...] = ()
    without: frozenset[str] = frozenset()
    since: str = ""
    until: str = ""

    def marks(self) -> tuple[tuple[str, ...], ...]:
        """The part of the filter that the index answers: of each group of marks, one."""
        groups = [
            [mark_of("kind", kind) for kind in self.kinds],
            [mark_of("agent", self.agent)] if self.agent else [],
            [mark_of("task", self.task)] if self.task else [],
        ]
        return (*(tuple(group) for group in groups if group), *self.untold_marks())

    def untold_marks(self) -> tuple[tuple[str, ...], ...]:
        """Those of the marks that an entry's row doesn't tell."""
        tags = tuple(mark_of("tag", tag) for tag in self.tags)
        return tuple(
            group for group in (tags, (path_mark(self.path),) if self.path else ()) if group
        )

    def lets(self, entry: Entry, *, with_superseded: bool = False) -> bool:
        """Whether an entry passes what its row tells; a superseded one may be let through."""
        is_left_out = entry.status in self.without
        if with_superseded and entry.status == "superseded":
            is_left_out = False
        return (
            (not self.kinds or entry.kind in self.kinds)
            and (not self.agent or entry.agent == self.agent)
            and (not self.task or entry.task == self.task)
            and (not self.statuses or entry.status in self.statuses)
            and not is_left_out
            and self.since <= entry.at
            and (not self.until or entry.at <= self.until)
        )

    @property
    def is_asked(self) -> bool:
        """Whether it asks for anything at all."""
        return any(self)

    @property
    def is_by_row(self) -> bool:
        """Whether part of it can be told only by an entry's row."""
        return bool(self.without) or self.is_narrow

    @property
    def is_narrow(self) -> bool:
        """Whether it names statuses or times, which often leave little."""
        return bool(self.statuses or self.since or self.until)

    @property
    def is_by_mark(self) -> bool:
        """Whether an entry's row doesn't tell all of it: tags and paths are marks alone."""
        return bool(self.tags or self.path)

    def has_marks(self, marks: str) -> bool:
        """Whether an entry's marks have one of the tags, and the path."""
        return all(any(mark in marks for mark in group) for group in self.untold_marks())

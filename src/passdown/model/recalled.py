"""What a search gives: one thing that was recorded, why it came, and what has become of it."""

from __future__ import annotations

from typing import Any, NamedTuple

_NAMED = 5


class Recalled(NamedTuple):
    """One answer of a search.

    `address` opens with `show` (an item) or `graph` (knowledge, `node:ID`); `score` is 0 to 1;
    `passage` is the part of its text that fits the question; `stale` names cited files that have
    changed since, each with what became of it; `superseded_by` is the decision at the end of the
    chain that began with this one, and `holds` says whether that one holds; where the chain
    forked, `also_hold` are the others that do, the newest first.
    """

    address: str
    kind: str
    title: str
    passage: str
    score: float
    status: str
    agent: str
    at: str
    task: str
    version: int
    superseded_by: str = ""
    holds: bool = False
    stale: tuple[str, ...] = ()
    also_hold: tuple[str, ...] = ()

    def as_document(self) -> dict[str, Any]:
        """The answer as a plain JSON object."""
        return {**self._asdict(), "stale": list(self.stale), "also_hold": list(self.also_hold)}

    @property
    def became(self) -> str:
        """What holds instead of a superseded decision, in words; empty for anything else."""
        if not self.superseded_by:
            return ""
        if not self.holds:
            return f"{self.superseded_by} took its place and doesn't hold either"
        if not self.also_hold:
            return f"{self.superseded_by} holds now"
        standing = (self.superseded_by, *self.also_hold)
        shown = ", ".join(standing[:_NAMED])
        more = f" and {len(standing) - _NAMED} more" if len(standing) > _NAMED else ""
        return f"forked: {shown}{more} hold now"

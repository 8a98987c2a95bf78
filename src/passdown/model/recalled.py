"""What a search gives: one thing that was recorded, why it came, and what has become of it."""

from __future__ import annotations

from typing import Any, NamedTuple


class Recalled(NamedTuple):
    """One answer of a search.

    `address` opens with `show` (an item) or `graph` (knowledge, `node:ID`); `score` is 0 to 1;
    `passage` is the part of its text that fits the question; `stale` names cited files that have
    changed since, each with what became of it; `superseded_by` is the decision at the end of the
    chain that began with this one, and `holds` says whether that one holds.
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

    def as_document(self) -> dict[str, Any]:
        """The answer as a plain JSON object."""
        return {**self._asdict(), "stale": list(self.stale)}

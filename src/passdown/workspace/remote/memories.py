"""What memories need of a workspace besides its methods, through a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.workspace.remote.asking import Asking

if TYPE_CHECKING:
    from passdown.model.relations import Relation
    from passdown.workspace.remote.connection import Wire


class RemoteMemories(Asking):
    """See `workspace.memories` for what each method does."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def relate(self, relation: Relation, *, agent: str) -> bool:
        """Write down that one node bears on another; False where it was known."""
        body = {**relation._asdict(), "agent": agent}
        return self._post("/api/relations", body, repeats=True)["is_new"]

    def address_of_decision(self, key: str, task: str | None) -> str:
        """The address of the decision that was stored under a key."""
        return self._get("/api/stored-decisions", key=key, task=task)["address"]

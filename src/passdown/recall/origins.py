"""Where records came from: through which door, or in which bundle and who brought it.

A record that was written here proves its door. One that came in a bundle says what its maker
sealed, and anyone can seal: its door is a claim, and who brought it is on record beside the task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.ledger.via import FIELD
from passdown.model.kinds import origins_of, task_of

if TYPE_CHECKING:
    from passdown.model.record import Record
    from passdown.store.statements import Reader

Document = dict[str, Any]


class Origins:
    """The doors of records, for one moment of the store. Each task is looked up once."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._imports: dict[str, list[tuple[range, Document]]] = {}

    def of(self, record: Record, body: Document) -> Document:
        """The fields that tell where a record came from: `via` for one that was written here,
        `imported` for one that was brought; nothing where nothing is known.
        """
        brought = self._brought(record)
        if brought is None:
            return {FIELD: body[FIELD]} if FIELD in body else {}
        claim = {"claimed_via": body[FIELD]} if FIELD in body else {}
        return {"imported": {**brought, **claim}}

    def _brought(self, record: Record) -> Document | None:
        task = task_of(record.stream)
        if task is None:
            return None
        if task not in self._imports:
            self._imports[task] = self._of_task(task)
        versions = self._imports[task]
        return next((told for span, told in versions if record.position in span), None)

    def _of_task(self, task: str) -> list[tuple[range, Document]]:
        stream = origins_of(task)
        if self._reader.head(stream) is None:
            return []
        return [_import(record) for record in self._reader.records(stream)]


def _import(record: Record) -> tuple[range, Document]:
    """The versions that an import brought, and what is known of it. Older releases noted only the
    last version, and not the bundle.
    """
    body = record.document()
    told = {"by": record.author, "at": record.at}
    told |= {name: body[name] for name in ("bundle", FIELD) if name in body}
    return range(body.get("first", body["version"]), body["version"] + 1), told

"""What is recorded of express items: one stream each, `express/ID`.

`sent` (the item), `started` (the commit it starts from, and what it needs), `committed`, `done`; or
`failed` (why, with the evidence) and `promoted` (the task that it became).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.errors import InvalidInput, KeyReused, NotFound, Problem
from passdown.model.express import ExpressItem, express_item
from passdown.model.kinds import EXPRESS_STREAM, stream_of
from passdown.model.names import id_problems
from passdown.model.times import stamp
from passdown.workspace.beside import Aside, Beside

if TYPE_CHECKING:
    from passdown.model.record import Record
    from passdown.workspace.opened import Held

Document = dict[str, Any]

ENDS = ("done", "promoted")


class ExpressRecord(NamedTuple):
    """An item and what became of it. `status` is the kind of its last record; `facts` has the body
    of each kind but `sent`, `times` when each was written.
    """

    item: ExpressItem
    status: str
    facts: dict[str, Document]
    times: dict[str, str]

    @property
    def is_over(self) -> bool:
        """Whether it is done, or became a task."""
        return self.status in ENDS

    def as_document(self) -> Document:
        """The item with its history, as a plain JSON object."""
        history = [
            {"kind": kind, "at": at, **self.facts.get(kind, {})} for kind, at in self.times.items()
        ]
        return {**self.item.as_document(), "status": self.status, "history": history}


def send(workspace: Held, given: object) -> ExpressRecord:
    """Record an item, or find it recorded; it is checked first.

    The same id with other content raises KeyReused; the time it was made at may differ. A task
    that it names has to be there.
    """
    beside = Beside(workspace)
    item = express_item(given, now=stamp(beside.now()))
    _check_task(beside, item)
    for _ in range(2):
        known = found(beside, item.id)
        if known is not None:
            if known.item.digest() != item.digest():
                raise KeyReused(
                    f"the express item {item.id} was sent before, with other content",
                    next_step="Use a new id for new work.",
                )
            return known
        body = item.as_document()
        # Two may send the same item at the same moment, each with its own time: one is first.
        try:
            beside.add(Aside(item.stream, "sent", item.by, body, "sent"))
        except KeyReused:
            continue
    return express_record(workspace, item.id)


def _check_task(beside: Beside, item: ExpressItem) -> None:
    if item.task and not beside.position(stream_of(item.task)):
        problem = Problem(
            "task", "unknown_task", f"there is no task {item.task}", "a task, or none"
        )
        raise InvalidInput("the express item is refused; nothing was changed", [problem])


def express_records(workspace: Held, *, status: str = "") -> list[ExpressRecord]:
    """All items, oldest first; or those whose last record is of one kind."""
    beside = Beside(workspace)
    heads = beside.streams(EXPRESS_STREAM)
    all_of_them = [_read(beside.records(head.stream)) for head in heads]
    kept = [one for one in all_of_them if not status or one.status == status]
    return sorted(kept, key=lambda one: (one.times["sent"], one.item.id))


def express_record(workspace: Held, item: str) -> ExpressRecord:
    """One item by its id; raises NotFound."""
    known = None if id_problems(item, "id") else found(Beside(workspace), item)
    if known is None:
        message = f"there is no express item {item[:100]!r}"
        raise NotFound(message, next_step="List them to see their ids.")
    return known


def found(beside: Beside, item: str) -> ExpressRecord | None:
    """One item by its id; None where it was never sent."""
    records = beside.records(EXPRESS_STREAM + item)
    return _read(records) if records else None


def _read(records: list[Record]) -> ExpressRecord:
    first = records[0].document()
    item = ExpressItem(**{name: first[name] for name in ExpressItem._fields})
    facts = {record.kind: record.document() for record in records[1:]}
    times = {record.kind: record.at for record in records}
    return ExpressRecord(item, records[-1].kind, facts, times)

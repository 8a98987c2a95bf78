"""An agent's turn: what it did to a task between taking it over and leaving it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.errors import unknown_task
from passdown.model.documents import item_document
from passdown.model.kinds import LIVE, stream_of
from passdown.recall.state import documents, mark_superseded

if TYPE_CHECKING:
    from passdown.model.record import Record
    from passdown.model.rows import TaskRow
    from passdown.store.statements import Reader

Document = dict[str, Any]

MOST_RECORDS = 400
_NEWEST = 2**62
_RANK = {"blocker": 0, "high": 1, "medium": 2, "low": 3}


def turn_facts(reader: Reader, task: str, from_agent: str, to_agent: str) -> Document:
    """What an agent leaves behind when it hands over: the facts of a switch artifact.

    Decisions and files are those of its latest turn, newest first; what is in the way and what
    comes next is the task's, whoever wrote it.
    """
    row = reader.task(task)
    if row is None:
        raise unknown_task(task)
    decisions: list[Document] = []
    files: dict[str, Document] = {}
    for record in _turn(reader, task, from_agent):
        body = record.document()
        for item in reversed(reader.items_at(task, record.position)):
            if item.letter == "d" and item.status in LIVE:
                decisions.append(item_document(item, record, body))
            elif item.letter == "a":
                files.setdefault(item.path, item_document(item, record, body))
    mark_superseded(reader, task, decisions)
    live = [decision for decision in decisions if decision["status"] in LIVE]
    open_items = [d for _, d in documents(reader, task, reader.open_items(task, ("b", "n")))]
    blockers = [d for d in open_items if "blocker" in d]
    blockers.sort(key=lambda blocker: _RANK.get(blocker.get("severity", ""), 3))
    return {
        "task": task,
        "title": row.details["title"],
        "phase": row.phase,
        "status": row.status,
        "from_agent": from_agent,
        "to_agent": to_agent,
        "story": row.header.get("story", {}),
        "decisions": live,
        "files": list(files),
        "blockers": blockers,
        "next_steps": [d for d in open_items if "step" in d],
        "totals": {"decisions": len(live), "files": len(files), "blockers": len(blockers)},
        "hashes": {
            path: document.get("sha256")
            for path, document in files.items()
            if document.get("change") != "delete"
        },
        "version": row.version,
        "digest": row.digest,
    }


def _turn(reader: Reader, task: str, agent: str) -> list[Record]:
    """The records of an agent's latest turn, newest first: back to the handoff that began it."""
    stream = stream_of(task)
    own = reader.records_before(stream, _NEWEST, MOST_RECORDS, author=agent)
    if not own:
        return []
    handoffs = reader.records_before(stream, own[0].position, MOST_RECORDS, kinds=("handoff",))
    began = next((record.position for record in handoffs if record.author != agent), 0)
    return [record for record in own if record.position > began]


def agent_before(row: TaskRow, to_agent: str) -> str:
    """Who had a task before an agent that is about to take it: its holder, or its last sender."""
    header = row.header
    if row.holder != to_agent:
        return row.holder
    return header["source_agent"] if header["source_agent"] != to_agent else ""

"""Commands: what a recorded handoff gives its receiver, and the state that a summary needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.briefing.summary import summary
from passdown.errors import GateRefused, Problem
from passdown.model.command import HandoffCommand
from passdown.model.documents import delta_document, item_document
from passdown.model.fold import Before, Changes, open_letters
from passdown.model.kinds import LIVE
from passdown.recall.repeats import as_written
from passdown.recall.state import documents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from passdown.ledger import Written
    from passdown.model.record import Record
    from passdown.model.rows import ItemRow
    from passdown.recall.repeats import Then
    from passdown.store.statements import Reader
    from passdown.workspace.opened import Opened


_END = 2**62
_RECENT, _FURTHER = 8, 200

FILE_LISTS = ("files_created", "files_modified", "artifacts")


def command_of(
    opened: Opened, written: Written, warnings: tuple[Problem, ...], score: int
) -> HandoffCommand:
    """What a recorded handoff gives back."""
    record, body = written.record, written.body
    task = record.stream.partition("/")[2]
    before, step = written.before, written.changes
    document = None if written.is_replay else _state_at_hand(task, before, step, written)
    if document is None:
        with opened.store.reading() as reader:
            if written.is_replay:
                then = as_written(reader, record)
                before, step = then.before, then.step
                document = _state_then(reader, task, then, record)
            else:
                document = short_state(reader, task, step.header, record.position, record.digest)
    held = tuple(row.address for row in _open_after(before, step) if row.letter == "k")
    document["held_by"] = held
    details = step.details or before.details
    return HandoffCommand(
        task_id=task,
        target_agent=body.get("to_agent", ""),
        phase=step.header["phase"],
        outcome=body["outcome"],
        version=record.position,
        digest=record.digest,
        state_delta=delta_document(before, step, record, body),
        context_summary=summary({**document, "title": details["title"]}, opened.state_place(task)),
        state_file=opened.state_place(task),
        held_by=held,
        completeness=score,
        is_replay=written.is_replay,
        warnings=warnings,
    )


def _open_after(before: Before, step: Changes) -> list[ItemRow]:
    """The open items that a record leaves behind, of the kinds that it had to know."""
    rows = {(row.letter, row.ordinal): row for row in (*before.open_items, *step.added)}
    for change in step.changed:
        key = (change.letter, change.ordinal)
        if key in rows:
            rows[key] = rows[key]._replace(status=change.status, is_open=change.is_open)
    return [row for row in rows.values() if row.is_open]


def _state_at_hand(
    task: str, before: Before, step: Changes, written: Written
) -> dict[str, Any] | None:
    """As much of a state as a summary needs, if what was just written has all of it."""
    record = written.record
    decisions = [row for row in step.added if row.letter == "d"]
    blockers = [row for row in _open_after(before, step) if row.letter == "b"]
    counts = step.header["counts"]
    is_enough = len(decisions) >= 2 or len(decisions) == counts.get("d", 0)
    # A record that says nothing of questions hasn't read those that were open before.
    if counts.get("q", 0) and "q" not in open_letters(record.kind, written.body):
        return None
    if not is_enough or any(row.position != record.position for row in blockers):
        return None
    documents = [item_document(row, record, written.body) for row in blockers]
    short = _short(step.header, (task, record.position, record.digest), decisions, documents)
    return {**short, "questions": open_questions(_open_after(before, step))}


def _state_then(reader: Reader, task: str, then: Then, record: Record) -> dict[str, Any]:
    """As much of a state as a summary needs, as it was when a record was written."""
    rows = _open_after(then.before, then.step)
    blockers = documents(reader, task, [row for row in rows if row.letter == "b"])
    head = (task, record.position, record.digest)
    short = _short(then.step.header, head, then.decisions, [told for _, told in blockers])
    return {**short, "questions": open_questions(rows)}


def short_state(
    reader: Reader, task: str, header: dict[str, Any], version: int, digest: str
) -> dict[str, Any]:
    """As much of a state as a summary needs, read without touching the past."""
    reader.ahead(
        lambda asked: asked.superseders(task),
        lambda asked: asked.items_before(task, "d", _END, _RECENT),
        lambda asked: asked.open_items(task, ("b", "q")),
    )
    replaced = {link.target for link in reader.superseders(task)}
    live: list[ItemRow] = []
    for limit in (_RECENT, _FURTHER):
        newest = reader.items_before(task, "d", _END, limit)
        live = [row for row in newest if row.address not in replaced and row.status in LIVE]
        if len(live) >= 2 or len(newest) < limit:
            break
    rows = reader.open_items(task, ("b", "q"))
    blockers = documents(reader, task, [row for row in rows if row.letter == "b"])
    short = _short(
        header, (task, version, digest), live[:2][::-1], [document for _, document in blockers]
    )
    return {**short, "questions": open_questions(rows)}


def open_questions(rows: Sequence[ItemRow]) -> list[dict[str, Any]]:
    """The open questions among some items, by their titles: a summary shows no more."""
    return [
        {
            "address": row.address,
            "question": row.title,
            "blocking": row.grade == "blocking",
            "status": row.status,
        }
        for row in rows
        if row.letter == "q"
    ]


def _short(
    header: dict[str, Any],
    head: tuple[str, int, str],
    decisions: Sequence[ItemRow],
    blockers: list[dict[str, Any]],
) -> dict[str, Any]:
    gates: dict[str, str] = header["gates"]
    return {
        "task_id": head[0],
        "phase": header["phase"],
        "previous_phase": header["previous_phase"],
        "artifacts": [{"type": kind} for kind in header["types"]],
        "totals": {"artifacts": header["files"]},
        "decisions": [{"summary": row.title, "status": row.status} for row in decisions],
        "blockers": blockers,
        "gates_passed": [name for name, result in gates.items() if result == "passed"],
        "gates_failed": [name for name, result in gates.items() if result == "failed"],
        "version": head[1],
        "digest": head[2],
    }


def held_error(task: str, gates: Sequence[Mapping[str, Any]]) -> GateRefused:
    """The error of a receiver who has to wait for a person."""
    problems = [
        Problem(
            gate["address"],
            "human_gate",
            f"is {gate['status']}: {gate['blocker']}",
            "an approval",
            f"passdown gate approve {gate['address']} --by NAME",
        )
        for gate in gates
    ]
    return GateRefused(
        f"{task} is held; nothing was changed",
        problems,
        next_step="A person has to answer; after a rejection, hand the task off anew.",
    )

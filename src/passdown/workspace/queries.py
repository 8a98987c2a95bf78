"""Queries of tasks, gates, state and summaries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.core.kinds import PHASES, TASK_STATUSES, WORKSPACE_TASK, stream_of
from passdown.core.record import Head
from passdown.errors import Conflict, InvalidInput, Problem, unknown_task
from passdown.history.state import item_documents, state

if TYPE_CHECKING:
    from passdown.context.summary import Freshness
    from passdown.core.handoff import TaskState
    from passdown.core.results import HandoffCommand, Receipt
    from passdown.core.rows import ItemRow, TaskRow
    from passdown.core.tokens import Counter
    from passdown.core.types import JsonObject
    from passdown.store.statements import Reader
    from passdown.workspace.context import Context


def tasks(
    opened: Context,
    status: str,
    phase: str,
    agent: str,
    *,
    limit: int,
    after: int,
    with_workspace: bool,
) -> list[JsonObject]:
    """Tasks in the order of their making, filtered by fixed names and bound values."""
    _check_filters(status, phase, agent, limit=limit, after=after)
    filters = {"status": status, "phase": phase, "agent": agent}
    with opened.store.reading() as reader:
        # One more than asked for: one may be no task, and leaving it out must not end a page.
        rows = reader.tasks(**filters, limit=limit + 1, after=after)
    kept = [row for row in rows if with_workspace or row.task != WORKSPACE_TASK]
    return [_overview(row) for row in kept[:limit]]


def _check_filters(
    status: object, phase: object, agent: object, *, limit: object, after: object
) -> None:
    problems: list[Problem] = []
    for name, value, choices in (("status", status, TASK_STATUSES), ("phase", phase, PHASES)):
        if value and value not in choices:
            message = f"{str(value)[:40]!r} is not one of the choices"
            problems.append(Problem(name, "invalid_choice", message, " | ".join(choices)))
    if not isinstance(agent, str):
        message = f"{type(agent).__name__} given"
        problems.append(Problem("agent", "wrong_type", message, "an agent's name"))
    for name, value, least in (("limit", limit, 1), ("after", after, 0)):
        if not isinstance(value, int) or isinstance(value, bool):
            message = f"{type(value).__name__} given"
            problems.append(Problem(name, "not_an_integer", message, "a whole number"))
        elif not least <= value <= 2**62:
            problems.append(Problem(name, "out_of_range", f"{value} given", f"{least} or more"))
    if problems:
        raise InvalidInput("the filter is refused", problems)


def _overview(row: TaskRow) -> JsonObject:
    return {
        "task": row.task,
        "title": row.details["title"],
        "phase": row.phase,
        "status": row.status,
        "holder": row.holder,
        "version": row.version,
        "updated_at": row.header["updated_at"],
        "seq": row.created_seq,
    }


def task_overview(opened: Context, task: str) -> JsonObject:
    """One task with its dependencies both ways and its open items."""
    with opened.store.reading() as reader:
        row = reader.task(task)
        if row is None:
            raise unknown_task(task)
        links = reader.links_to(task)
        return {
            **_overview(row),
            **row.details,
            "created_by": row.header["created_by"],
            "created_at": row.header["created_at"],
            "needs": reader.needs(task),
            "needed_by": reader.dependents(task),
            "blocked_by": [link.source for link in links if not link.closed_seq],
            "counts": row.header["counts"],
            "open": [d for _, d in item_documents(reader, task, reader.open_items(task))],
            "digest": row.digest,
        }


def gates(opened: Context, task: str, *, open_only: bool) -> list[JsonObject]:
    """Gates as documents, each with its task."""
    with opened.store.reading() as reader:
        if task and reader.task(task) is None:
            raise unknown_task(task)
        rows = reader.gates(task, open_only=open_only)
        return [
            {"task": row.task, **document, **_answer(reader, row)}
            for row in rows
            for _, document in item_documents(reader, row.task, [row])
        ]


def _answer(reader: Reader, row: ItemRow) -> JsonObject:
    """Who answered a human gate, when and why; nothing while it waits."""
    record = reader.record(stream_of(row.task), row.closed_at) if row.closed_at else None
    if record is None or record.kind != "gate_answered":
        return {}
    body = record.document()
    return {"answered_by": body["by"], "answered_at": record.at, "reason": body["reason"]}


def load(opened: Context, task: str) -> TaskState | None:
    """The state of a task, or None where there is no such task."""
    from passdown.core.handoff import TaskState

    with opened.store.reading() as reader:
        if reader.task(task) is None:
            return None
        return TaskState.from_dict(state(reader, task))


def receive_handoff(opened: Context, command: HandoffCommand) -> TaskState:
    """The state for a command's receiver, if the command still holds and nothing holds it up."""
    from passdown.core.handoff import TaskState
    from passdown.workspace.task_context import gate_error

    with opened.store.reading() as reader:
        row = reader.task(command.task_id)
        if row is None:
            raise unknown_task(command.task_id)
        _check_command(reader, row, command)
        held = item_documents(reader, row.task, reader.open_items(row.task, ("k",)))
        if held:
            raise gate_error(row.task, [document for _, document in held])
        return TaskState.from_dict(state(reader, command.task_id))


def _check_command(reader: Reader, row: TaskRow, command: HandoffCommand) -> None:
    """A command holds while its handoff is the task's latest; an approval or a note since is fine.

    Its record has to be the one that was written, and so does the last one.
    """
    from passdown.ledger.writer import check_head_record

    latest = reader.item(row.task, "h", row.header["counts"].get("h", 0))
    if latest is None or latest.position != command.version:
        raise Conflict(row.task, expected=command.version, actual=row.version)
    stream = stream_of(row.task)
    record = reader.record(stream, command.version)
    if record is None or record.digest != command.digest:
        detail = "the command's digest is not that of the stored handoff"
        raise Conflict(row.task, expected=command.version, actual=row.version, detail=detail)
    check_head_record(reader, Head(stream, row.version, row.digest))


def note(
    opened: Context, kind: str, task: str | None, agent: str, fields: JsonObject, *, key: str | None
) -> Receipt:
    """Record a pattern or a gotcha."""
    from passdown.workspace.entries import add_entry

    if kind not in ("pattern", "gotcha"):
        problem = Problem("kind", "invalid_choice", f"{kind[:40]!r}", "pattern | gotcha")
        raise InvalidInput("nothing was changed", [problem])
    return add_entry(opened, kind, task, agent, fields, key=key)


def summary_of(opened: Context, task: str, max_tokens: int) -> str:
    """The summary of a task as it stands."""
    with opened.store.reading() as reader:
        row = reader.task(task)
        if row is None:
            raise unknown_task(task)
        return summary_from(opened, reader, row, max_tokens)


def summary_from(
    opened: Context, reader: Reader, row: TaskRow, max_tokens: int, counter: Counter | None = None
) -> str:
    """The summary of a task, by a counter of the caller's."""
    from passdown.context.summary import summary
    from passdown.workspace.task_context import short_state

    document = short_state(reader, row.task, row.header, row.version, row.digest)
    document["held_by"] = [item.address for item in reader.open_items(row.task, ("k",))]
    document["title"] = row.details["title"]
    return summary(document, opened.state_location(row.task), max_tokens, counter)


def check_summary(opened: Context, task: str, text: str) -> Freshness:
    """Compare the version and digest in a summary with what is stored."""
    from passdown.context.summary import Freshness, summary_version

    found = summary_version(text)
    if found is None:
        problem = Problem("summary", "no_version", "names no version", "a Version line")
        raise InvalidInput("the summary can't be judged", [problem])
    with opened.store.reading() as reader:
        row = reader.task(task)
    if row is None:
        raise unknown_task(task)
    return Freshness(found == (row.version, row.digest), found[0], row.version)


def handle_file(opened: Context, task: str) -> str:
    """The handle file's path, after making sure that it says what the ledger says."""
    with opened.store.reading() as reader:
        row = reader.task(task)
        if row is None:
            raise unknown_task(task)
        stands = opened.handles.check(reader, row)
    if stands != "current":
        import logging

        for problem in opened.handles.restore(opened.store, task):
            logging.getLogger("passdown.handles").warning("%s", problem.line())
    return opened.handle_path(task)


__all__ = [
    "check_summary",
    "gates",
    "handle_file",
    "load",
    "note",
    "receive_handoff",
    "summary_from",
    "summary_of",
    "task_overview",
    "tasks",
]

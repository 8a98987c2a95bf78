"""Queries of tasks, gates, state and summaries."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from passdown.core.arguments import text_type_problems
from passdown.core.kinds import READY, TASK_LISTS, WAITING, WORKSPACE_TASK, stream_of
from passdown.core.results import ArtifactStatus, Gate, InboxEntry, TaskDetails, TaskOverview
from passdown.core.rows import is_holding
from passdown.core.tokens import CounterLike, counter_of
from passdown.core.types import JsonObject
from passdown.errors import Problem, raise_problems
from passdown.history.state import artifact_report, item_documents
from passdown.store.statements import Reader
from passdown.workspace.context import Context

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from passdown.core.rows import ItemRow, TaskRow
    from passdown.core.tokens import Counter


def tasks(
    context: Context,
    *,
    status: str = "",
    phase: str = "",
    agent: str = "",
    words: str = "",
    newest: bool = False,
    limit: int = 1000,
    after: int = 0,
    with_workspace: bool = False,
) -> list[TaskOverview]:
    """Tasks in the order in which they were created.

    Args:
        status: Only tasks with this status; `ready`, those that can be worked on now (by `agent`),
            the best first: open, not held by a gate, waiting for no other task and for no other
            agent; `waiting`, those that only wait for another task or agent. `why` says more.
        phase: Only tasks in this phase.
        agent: Only tasks that this agent holds.
        words: Only tasks whose id or title has all of these words.
        newest: The newest first; `ready` tasks stay in their order.
        limit: The largest number of tasks.
        after: The `seq` of the last task of the previous page.
        with_workspace: Also the entry that holds what concerns all work, which is no task.
    """
    raise_problems("the filter is refused", text_type_problems(agent=agent, words=words))
    wanted = words.lower().split()
    with context.store.reading() as reader:
        _check_filters(context, reader, status, phase)
        if status in (READY, WAITING):
            found = _ready(reader, agent) if status == READY else _waiting(reader, agent)
            places = [each.seq for each in found]
            begin = places.index(after) + 1 if after in places else after and len(found)
            fit = [each for each in found[begin:] if phase in ("", each.phase)]
            return [each for each in fit if _has_words(each.task, each.title, wanted)][:limit]
        filters = {"status": status, "phase": phase, "agent": agent}
        listed = _listed(reader, filters, after, newest, max(limit, _PAGE) if wanted else limit)
        kept = (
            row
            for row in listed
            if (with_workspace or row.task != WORKSPACE_TASK)
            and _has_words(row.task, row.details["title"], wanted)
        )
        return [TaskOverview(_overview(row)) for row in islice(kept, limit)]


def _listed(
    reader: Reader, filters: dict[str, str], after: int, newest: bool, size: int
) -> Iterator[TaskRow]:
    """Tasks, read some at a time."""
    # One more than asked for: one may be no task, and leaving it out must not end a page.
    while rows := reader.tasks(**filters, limit=size + 1, after=after, newest=newest):
        yield from rows
        if len(rows) <= size:
            return
        after = rows[-1].created_seq


def _has_words(task: str, title: str, words: list[str]) -> bool:
    text = f"{task} {title}".lower() if words else ""
    return all(word in text for word in words)


def _ready(reader: Reader, agent: str) -> list[TaskOverview]:
    """The tasks that an agent, or anybody, can work on now, the best first: what it works on
    already, what was handed to it, what most others wait for, the oldest.
    """
    needed = reader.dependent_counts()
    found: list[tuple[tuple[int, int, int], TaskOverview]] = []
    for row, waits_for in _workable(reader, agent):
        if waits_for:
            continue
        claimed, target = row.header.get("claimed_by"), row.header["target_agent"]
        rank = 0 if agent and claimed == agent else 1 if agent and target == agent else 2
        count = needed.get(row.task, 0)
        why = f"needed by {count}" if count else ""
        why = ("begun", f"from {row.header['source_agent']}", why)[rank]
        entry = TaskOverview({**_overview(row), "why": why})
        found.append(((rank, -count, row.created_seq), entry))
    return [entry for _, entry in sorted(found, key=lambda each: each[0])]


def _waiting(reader: Reader, agent: str) -> list[TaskOverview]:
    """The tasks that an agent, or anybody, could work on but for other tasks, or another agent."""
    return [
        TaskOverview({**_overview(row), "why": f"waits for {', '.join(waits_for)}"})
        for row, waits_for in _workable(reader, agent)
        if waits_for
    ]


def _workable(reader: Reader, agent: str) -> Iterator[tuple[TaskRow, list[str]]]:
    """The open tasks that no gate holds and no other agent works on, each with the tasks that it
    needs and that aren't completed, and with the agent that it was handed to, if that is another.
    """
    held = {gate.task for gate in reader.gates("", open_only=True) if gate.status == "pending"}
    unmet = reader.unmet_needs()
    after = 0
    while rows := reader.tasks(status="open", after=after, limit=_PAGE):
        after = rows[-1].created_seq
        for row in rows:
            claimed, target = row.header.get("claimed_by"), row.header["target_agent"]
            is_taken = agent and claimed and claimed != agent
            if row.task in held or row.task == WORKSPACE_TASK or is_taken:
                continue
            is_another_s = agent and not claimed and target and target != agent
            yield row, [*unmet.get(row.task, ()), *([target] if is_another_s else [])]


_PAGE = 1_000


def _check_filters(context: Context, reader: Reader, status: object, phase: object) -> None:
    problems: list[Problem] = []
    for name, value, choices in (
        ("status", status, TASK_LISTS),
        ("phase", phase, context.settings.phases),
    ):
        if not value or value in choices:
            continue
        # A task may be in a phase of earlier settings, or of the workspace that it came from.
        is_old = name == "phase" and isinstance(value, str) and reader.tasks(phase=value, limit=1)
        if not is_old:
            message = f"{str(value)[:40]!r} is not one of the choices"
            problems.append(Problem(name, "invalid_choice", message, " | ".join(choices)))
    raise_problems("the filter is refused", problems)


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
        **({"claimed_by": claimed} if (claimed := row.header.get("claimed_by")) else {}),
    }


def task(reader: Reader, task: str) -> TaskDetails:
    """One task: what it is, its state, what it needs and what needs it."""
    row = reader.existing_task(task)
    links = reader.links_to(task)
    document: JsonObject = {
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
    return TaskDetails(document)


def gates(reader: Reader, task: str = "", *, all: bool = False) -> list[Gate]:
    """Human gates that wait and quality gates that have failed, of one task or of all tasks.

    Args:
        task: Only gates of this task.
        all: Also gates that were answered or have passed.
    """
    if task:
        reader.existing_task(task)
    return list(gates_of(reader, reader.gates(task, open_only=not all)))


def gates_of(reader: Reader, rows: Iterable[ItemRow]) -> Iterator[Gate]:
    """Gates with what was answered, each read when it is asked for."""
    for row in rows:
        for _, document in item_documents(reader, row.task, [row]):
            answer = {**_answer(reader, row), **_holds(reader, row)}
            yield Gate({"task": row.task, **document, **answer})


def _answer(reader: Reader, row: ItemRow) -> JsonObject:
    """Who answered a human gate, when and why; nothing while it waits."""
    record = reader.record(stream_of(row.task), row.closed_at) if row.closed_at else None
    if record is None or record.kind != "gate_answered":
        return {}
    body = record.document()
    return {"answered_by": body["by"], "answered_at": record.at, "reason": body["reason"]}


def _holds(reader: Reader, row: ItemRow) -> JsonObject:
    """Whether an open human gate keeps the receiver from starting."""
    is_open = row.is_open and row.field == "blockers"
    task = reader.task(row.task) if is_open else None
    return {"holds": True} if task and is_holding(row, task.header) else {}


def summary(context: Context, task: str, budget: int = 500, *, counter: CounterLike = None) -> str:
    """A task in a few lines that name its state file and carry its version.

    Args:
        budget: The most tokens that it may take.
    """
    by = counter_of(counter, context.settings.counter)
    with context.store.reading() as reader:
        row = reader.existing_task(task)
        return summary_from(context, reader, row, budget, by)


def summary_from(
    context: Context, reader: Reader, row: TaskRow, max_tokens: int, counter: Counter
) -> str:
    """The summary of a task, by a counter of the caller's."""
    from passdown.context.summary import summary as render_summary

    document = _short_state(reader, row)
    return render_summary(document, context.state_location(row.task, row), max_tokens, counter)


def _short_state(reader: Reader, row: TaskRow) -> JsonObject:
    """As much of a state as a summary needs, read without touching the past."""
    from passdown.core.documents import summary_facts
    from passdown.ledger.writer import recent_decisions

    reader.ahead(
        lambda asked: asked.superseders(row.task),
        lambda asked: asked.open_items(row.task, ("b", "k", "q")),
    )
    return {
        **summary_facts(row.header, reader.open_items(row.task, ("b", "k", "q"))),
        "task_id": row.task,
        "title": row.details["title"],
        "context_summary": row.header["context_summary"],
        "decisions": recent_decisions(reader, row.task),
        "version": row.version,
        "digest": row.digest,
    }


def state_file(context: Context, task: str) -> str:
    """The path of a task's state file, rewritten if it was missing or old."""
    with context.store.reading() as reader:
        row = reader.existing_task(task)
        stands = context.state_files.check(reader, row)
    if stands != "current":
        context.restore_state_file(task)
    return context.state_path(task)


def inbox(reader: Reader, agent: str) -> list[InboxEntry]:
    """The handoffs that wait for an agent.

    Args:
        agent: The receiver.
    """
    return [InboxEntry(row._asdict()) for row in reader.inbox(agent)]


def artifacts(context: Context, task: str) -> list[ArtifactStatus]:
    """A task's artifacts, each with `now`: same, changed or missing since the handoff."""
    with context.store.reading() as reader:
        return artifact_report(reader, task, context.project)

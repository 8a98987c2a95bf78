"""Parts of a task's state for summaries, prompts and handoff commands; no more of it than is
used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.context.needs import NeedsFacts
from passdown.context.related import ComputedContext
from passdown.context.summary import summary
from passdown.core.documents import delta_document, item_document
from passdown.core.fold import Changes, TaskBefore, open_letters
from passdown.core.kinds import KINDS, LIVE, WORKSPACE_TASK
from passdown.core.names import normal_path
from passdown.core.results import HandoffCommand
from passdown.core.types import JsonObject
from passdown.errors import GateRefused, Problem, unknown_task
from passdown.history.state import as_written, item_documents, mark_superseded
from passdown.workspace.context import Context

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from passdown.core.record import Record
    from passdown.core.rows import ItemRow, TaskRow
    from passdown.history.state import WrittenRecord
    from passdown.ledger import Written
    from passdown.store.statements import Reader


_END = 2**62
_RECENT, _FURTHER = 8, 200


def handoff_command(
    context: Context, written: Written, warnings: tuple[Problem, ...], score: int
) -> HandoffCommand:
    """What a recorded handoff gives back."""
    record, body = written.record, written.body
    task = record.stream.partition("/")[2]
    before, step = written.before, written.changes
    document = None if written.is_replay else _state_from_changes(task, before, step, written)
    if document is None:
        with context.store.reading() as reader:
            if written.is_replay:
                then = as_written(reader, record)
                before, step = then.before, then.step
                document = _state_at(reader, task, then, record)
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
        context_summary=summary(
            {**document, "title": details["title"]}, context.state_location(task)
        ),
        state_file=context.state_location(task),
        held_by=held,
        completeness=score,
        is_replay=written.is_replay,
        warnings=warnings,
    )


def _open_after(before: TaskBefore, step: Changes) -> list[ItemRow]:
    """The open items that a record leaves behind, of the kinds that it had to know."""
    rows = {(row.letter, row.ordinal): row for row in (*before.open_items, *step.added)}
    for change in step.changed:
        key = (change.letter, change.ordinal)
        if key in rows:
            rows[key] = rows[key]._replace(status=change.status, is_open=change.is_open)
    return [row for row in rows.values() if row.is_open]


def _state_from_changes(
    task: str, before: TaskBefore, step: Changes, written: Written
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


def _state_at(reader: Reader, task: str, then: WrittenRecord, record: Record) -> dict[str, Any]:
    """As much of a state as a summary needs, as it was when a record was written."""
    rows = _open_after(then.before, then.step)
    blockers = item_documents(reader, task, [row for row in rows if row.letter == "b"])
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
    blockers = item_documents(reader, task, [row for row in rows if row.letter == "b"])
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


def gate_error(task: str, gates: Sequence[Mapping[str, Any]]) -> GateRefused:
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


NEWEST = 200
TASKS = 50
NEWEST_FOR_NEEDS = 500
_STANDING = ("active", "open", "recorded")
_LIVE = ("accepted", "proposed")

# Letter of the items, their list in a state, and the section of an injected text that has them.
_INJECTED = (
    ("r", "reading", "files_to_read"),
    ("p", "patterns", "patterns"),
    ("g", "gotchas", "gotchas"),
    ("q", "questions", "open_questions"),
    ("n", "next_steps", "suggested_next_steps"),
)


def injection(context: Context, task: str) -> str:
    """What the tasks that a task depends on pass on to it, as text for its prompt.

    Empty for a task that depends on none.

    Args:
        task: The task.
    """
    from passdown.context.related import injection_for

    with context.store.reading() as reader:
        needs: list[str] = _task(reader, task).details["depends_on"]
        return injection_for([_injected(reader, need) for need in needs])


def _injected(reader: Reader, task: str) -> JsonObject:
    """As much of a state as an injected text shows."""
    row = reader.task(task)
    if row is None:
        return {"task_id": task, "title": "not made yet"}
    state: JsonObject = {"task_id": task, "title": row.details["title"], "version": row.version}
    left_out: dict[str, int] = {}
    for letter, field, section in _INJECTED:
        rows, older = _newest(reader, row, letter)
        state[field] = [document for _, document in item_documents(reader, task, rows)]
        left_out[section] = older
    return {**state, "left_out": left_out}


def next_steps(context: Context, task: str) -> list[JsonObject]:
    """The open next steps of a task, in an order in which they can be done.

    Args:
        task: The task.
    """
    from passdown.context.related import steps_for_breakdown

    with context.store.reading() as reader:
        _task(reader, task)
        steps = item_documents(reader, task, reader.open_items(task, ("n",)))
    return steps_for_breakdown({"task_id": task, "next_steps": [step for _, step in steps]})


def compact_context(context: Context, task: str) -> str:
    """A task's phase and last decisions in at most 2,000 characters.

    Args:
        task: The task.
    """
    from passdown.context.summary import NAMED, SHOWN, compact_context

    with context.store.reading() as reader:
        row = _task(reader, task)
        rows, _ = _newest(reader, row, "d", statuses=_LIVE)
        replaced = {link.target for link in reader.superseders(task)}
        live = [item for item in rows if item.address not in replaced][-SHOWN - NAMED :]
        decisions = [document for _, document in item_documents(reader, task, live)]
        blockers = item_documents(reader, task, reader.open_items(task, ("b",)))
        questions = open_questions(reader.open_items(task, ("q",)))
    return compact_context(
        {
            "task_id": task,
            "title": row.details["title"],
            "phase": row.phase,
            "previous_phase": row.header["previous_phase"],
            "context_summary": row.header["context_summary"],
            "version": row.version,
            "decisions": decisions,
            "totals": {"decisions": row.header["counts"].get("d", 0)},
            "blockers": [document for _, document in blockers],
            "questions": questions,
        }
    )


def computed_context(context: Context, task: str, complexity: str = "normal") -> ComputedContext:
    """What earlier work is relevant to a task, each with its score and why.

    Args:
        task: The task.
        complexity: easy, normal or complex.
    """
    from passdown.context.related import computed_context

    with context.store.reading() as reader:
        row = _task(reader, task)
        needs = list(dict.fromkeys(row.details["depends_on"]))
        found = _Candidates(reader, beyond_tasks=max(len(needs) - TASKS, 0))
        for name in dict.fromkeys((task, *needs[:TASKS], WORKSPACE_TASK)):
            found.read(name, is_dependency=name in needs)
        steps = item_documents(reader, task, reader.open_items(task, ("n",))[-NEWEST:])
    signals = {
        **row.details,
        "task_id": task,
        "next_steps": [step for _, step in steps],
        "paths": found.paths.get(task, []),
        "beyond": found.beyond,
    }
    return computed_context(signals, found.by_kind, complexity)


class _Candidates:
    """What may bear on a task, by kind; `beyond` counts what was too old to be read."""

    def __init__(self, reader: Reader, beyond_tasks: int) -> None:
        self.reader = reader
        self.by_kind: dict[str, list[JsonObject]] = {
            kind: [] for kind in ("patterns", "gotchas", "code_refs", "prior_tasks")
        }
        self.beyond = dict.fromkeys(self.by_kind, 0)
        self.beyond["prior_tasks"] = beyond_tasks
        self.paths: dict[str, list[str]] = {}

    def read(self, task: str, *, is_dependency: bool) -> None:
        row = self.reader.task(task)
        if row is None:
            return
        self._take(row, "p", "patterns")
        self._take(row, "g", "gotchas")
        self._take(row, "r", "code_refs")
        self.paths[task] = [entry["path"] for entry in self._take(row, "a", "code_refs")]
        if is_dependency:
            self.by_kind["prior_tasks"].append(_prior(row, self.paths[task]))

    def _take(self, row: TaskRow, letter: str, kind: str) -> list[JsonObject]:
        rows, older = _newest(self.reader, row, letter)
        found = [document for _, document in item_documents(self.reader, row.task, rows)]
        if letter == "a":
            found = _present(found)
        if letter == "r":
            found = [{**entry, "path": entry["file"]} for entry in found]
        self.by_kind[kind] += found
        self.beyond[kind] += older
        return found


def _present(artifacts: Sequence[JsonObject]) -> list[JsonObject]:
    """The newest entry of each path, without files that are gone."""
    newest = {entry["path"]: entry for entry in artifacts}
    return [entry for entry in newest.values() if entry.get("change") != "delete"]


def _prior(row: TaskRow, paths: list[str]) -> JsonObject:
    return {
        "address": row.task,
        "task": row.task,
        "relation": "dependency",
        "title": row.details["title"],
        "summary": row.header["context_summary"],
        "phase": row.phase,
        "outcome": row.header["outcome"],
        "paths": paths,
        "at": row.header["updated_at"],
        "version": row.version,
    }


def needs_facts(
    context: Context,
    reader: Reader,
    task: str,
    agent: str,
    needs: Mapping[str, Sequence[str]] | None = None,
) -> NeedsFacts:
    """What a task has of what an agent needs; `needs` are the settings' where none are given.

    Types, named paths and gates are looked up; for patterns and topics the newest 500 files and
    decisions are read, and only when the agent asks for any.
    """
    row = _task(reader, task)
    wanted = context.settings.needs.get(agent, {}) if needs is None else needs
    gates: Mapping[str, str] = row.header["gates"]
    files = _files(reader, row, wanted["files"]) if wanted.get("files") else ()
    decisions = _decisions(reader, row) if wanted.get("decisions") else ()
    return NeedsFacts(agent, tuple(files), tuple(decisions), gates)


def need_warnings(
    context: Context, task: str, agent: str, body: JsonObject | None = None
) -> list[Problem]:
    """What an agent needs and doesn't get with a task; `body` is of a handoff not yet recorded."""
    needs = context.needs_of(agent) if agent else {}
    if not needs:
        return []
    from passdown.context.needs import missing_needs

    with context.store.reading() as reader:
        if reader.task(task) is None:
            return []
        has = needs_facts(context, reader, task, agent, needs)
    return missing_needs(needs, _with(has, body or {}))


def _with(has: NeedsFacts, body: JsonObject) -> NeedsFacts:
    """The facts after a handoff that brings more."""
    files = [
        (a["path"], a["type"]) for a in body.get("artifacts", ()) if a.get("change") != "delete"
    ]
    decisions = [
        (d["summary"], d["rationale"], tuple(d.get("tags", ()))) for d in body.get("decisions", ())
    ]
    gates = {gate["name"]: gate["result"] for gate in body.get("gates", ())}
    return has._replace(
        paths=(*has.paths, *files),
        decisions=(*has.decisions, *decisions),
        gates={**has.gates, **gates},
    )


def _files(reader: Reader, row: TaskRow, wanted: Sequence[str]) -> list[tuple[str, str]]:
    rows, _ = _newest(reader, row, "a", NEWEST_FOR_NEEDS)
    paths = {item.path: item.grade for item in rows}
    paths |= reader.known_paths(row.task, [normal_path(path) for path in wanted])
    found = [(path, kind) for path, kind in paths.items() if kind]
    # A type counts however old its files are; the header knows it without their names.
    return [*found, *(("", kind) for kind in row.header["types"])]


def _decisions(reader: Reader, row: TaskRow) -> list[tuple[str, str, tuple[str, ...]]]:
    rows, _ = _newest(reader, row, "d", NEWEST_FOR_NEEDS, statuses=_LIVE)
    found = [document for _, document in item_documents(reader, row.task, rows)]
    mark_superseded(reader, row.task, found)
    return [
        (entry["summary"], entry["rationale"], tuple(entry.get("tags", ())))
        for entry in found
        if entry["status"] in _LIVE
    ]


def _task(reader: Reader, task: str) -> TaskRow:
    row = reader.task(task)
    if row is None:
        raise unknown_task(task)
    return row


def _newest(
    reader: Reader,
    row: TaskRow,
    letter: str,
    limit: int = NEWEST,
    *,
    statuses: Sequence[str] = _STANDING,
) -> tuple[list[ItemRow], int]:
    """The newest items of a kind that still stand, oldest first, and how many weren't looked at.

    Of a kind that opens and closes, however old, every open item counts as one that stands.
    """
    if KINDS[letter].is_open:
        rows = reader.open_items(row.task, (letter,))
        return rows[-limit:], max(len(rows) - limit, 0)
    older = max(row.header["counts"].get(letter, 0) - limit, 0)
    rows = reader.items_of_kind(row.task, letter, after=older)
    return [item for item in rows if item.status in statuses], older


__all__ = [
    "compact_context",
    "computed_context",
    "injection",
    "needs_facts",
    "next_steps",
]

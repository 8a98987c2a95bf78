"""A task's state: whole, for the receiver of a handoff, and the parts of it that prompts use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.context.needs import NeedsFacts
from passdown.context.related import ComputedContext
from passdown.core.documents import open_questions
from passdown.core.handoff import TaskState
from passdown.core.intake import read_command
from passdown.core.kinds import KINDS, WORKSPACE_TASK, stream_of
from passdown.core.names import normal_path
from passdown.core.record import Head
from passdown.core.results import HandoffCommand, NextStep
from passdown.core.rows import is_holding
from passdown.core.tokens import CounterLike, counter_of
from passdown.core.types import JsonObject
from passdown.errors import Conflict, GateRefused, InvalidInput, NotAllowed, Problem
from passdown.history.state import item_documents, mark_superseded
from passdown.history.state import state as state_document_of
from passdown.ledger.channel import may_write
from passdown.ledger.writer import check_head_record
from passdown.store.statements import Reader
from passdown.workspace.context import Context

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from passdown.core.rows import ItemRow, TaskRow


def state(reader: Reader, task: str, version: int | None = None) -> TaskState:
    """A task's state now, or at a past version.

    Args:
        version: The version; the current one by default.
    """
    return TaskState.from_dict(state_document_of(reader, task, version))


def load(reader: Reader, task: str) -> TaskState | None:
    """A task's state now, or None for an unknown task."""
    if reader.task(task) is None:
        return None
    return TaskState.from_dict(state_document_of(reader, task))


def receive_handoff(reader: Reader, command: HandoffCommand) -> TaskState:
    """The full, verified state for the receiver of a handoff.

    Raises GateRefused while a human gate holds the task, Conflict when it has changed since, and
    InvalidInput for what is no command, or one that was prepared and not recorded.

    Args:
        command: What recording the handoff gave, or its JSON object.
    """
    command = read_command(command)
    if command.prepared is not None:
        message = "it was prepared and not recorded"
        problem = Problem("prepared", "not_recorded", message, "what hand_off(command) gives")
        raise InvalidInput("the command is refused", [problem])
    row = reader.existing_task(command.task)
    target = row.header["target_agent"]
    if target and not may_write(target):
        raise NotAllowed(
            f"the handoff of {row.task} is for {target}",
            next_step="Ask for your own: the inbox lists what waits for you.",
            code="not_recipient",
        )
    _check_command(reader, row, command)
    gates = reader.open_items(row.task, ("k",))
    held = item_documents(reader, row.task, [k for k in gates if is_holding(k, row.header)])
    if held:
        raise _gate_error(row.task, [document for _, document in held])
    return TaskState.from_dict(state_document_of(reader, command.task))


def _check_command(reader: Reader, row: TaskRow, command: HandoffCommand) -> None:
    """A command holds while its handoff is the task's latest; an approval or a note since is fine.

    Its record has to be the one that was written, and so does the last one.
    """
    latest = reader.item(row.task, "h", row.header["counts"].get("h", 0))
    if latest is None or latest.position != command.version:
        raise Conflict(row.task, expected=command.version, actual=row.version)
    stream = stream_of(row.task)
    record = reader.record(stream, command.version)
    if record is None or record.digest != command.digest:
        detail = "the command's digest is not that of the stored handoff"
        raise Conflict(row.task, expected=command.version, actual=row.version, detail=detail)
    check_head_record(reader, Head(stream, row.version, row.digest))


def _gate_error(task: str, gates: Sequence[Mapping[str, Any]]) -> GateRefused:
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
        next_step="A person has to answer; after a rejection, hand the task off again.",
    )


NEWEST = 200
TASKS = 50
NEWEST_FOR_NEEDS = 500
_STANDING = ("active", "open", "recorded")
_LIVE = ("accepted", "proposed")

# Letter of the items, their list in a state, and the section of an injected text that has them.
_INJECTED = (
    ("r", "reading", "files_to_read"),
    ("f", "facts", "facts"),
    ("p", "patterns", "patterns"),
    ("g", "gotchas", "gotchas"),
    ("w", "warnings", "gotchas"),
    ("q", "questions", "open_questions"),
    ("n", "next_steps", "suggested_next_steps"),
)


def injection(reader: Reader, task: str) -> str:
    """What the tasks that a task depends on pass on to it, as text for its prompt.

    Empty for a task that depends on none.
    """
    from passdown.context.related import injection_for

    needs: list[str] = reader.existing_task(task).details["depends_on"]
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
        left_out[section] = left_out.get(section, 0) + older
    return {**state, "left_out": left_out}


def next_steps(reader: Reader, task: str) -> list[NextStep]:
    """The open next steps of a task, in an order in which they can be done."""
    from passdown.context.related import steps_for_breakdown

    reader.existing_task(task)
    steps = item_documents(reader, task, reader.open_items(task, ("n",)))
    found = steps_for_breakdown({"task_id": task, "next_steps": [step for _, step in steps]})
    return [NextStep(step) for step in found]


def compact_context(
    context: Context, task: str, budget: int | None = None, *, counter: CounterLike = None
) -> str:
    """A task's phase and last decisions in at most 2,000 characters.

    Args:
        budget: The most tokens that it may take; by default any number.
    """
    from passdown.context.summary import NAMED, SHOWN, compact_context

    with context.store.reading() as reader:
        row = reader.existing_task(task)
        rows, _ = _newest(reader, row, "d", statuses=_LIVE)
        replaced = {link.target for link in reader.superseders(task)}
        live = [item for item in rows if item.address not in replaced][-SHOWN - NAMED :]
        decisions = [document for _, document in item_documents(reader, task, live)]
        blockers = item_documents(reader, task, reader.open_items(task, ("b",)))
        questions = open_questions(reader.open_items(task, ("q",)))
        said = row.header["context_summary"]
    return compact_context(
        {
            "task_id": task,
            "title": row.details["title"],
            "phase": row.phase,
            "previous_phase": row.header["previous_phase"],
            "context_summary": said,
            "version": row.version,
            "decisions": decisions,
            "totals": {"decisions": row.header["counts"].get("d", 0)},
            "blockers": [document for _, document in blockers],
            "questions": questions,
        },
        counter=counter_of(counter, context.settings.counter) if budget else None,
        max_tokens=budget or 0,
    )


def computed_context(reader: Reader, task: str, complexity: str = "normal") -> ComputedContext:
    """What earlier work is relevant to a task, each with its score and why.

    Args:
        complexity: easy, normal or complex.
    """
    from passdown.context.related import computed_context

    by_kind: dict[str, list[JsonObject]] = {
        kind: [] for kind in ("patterns", "gotchas", "code_refs", "prior_tasks")
    }
    beyond = dict.fromkeys(by_kind, 0)  # what was too old to be read
    paths: dict[str, list[str]] = {}
    row = reader.existing_task(task)
    needs = list(dict.fromkeys(row.details["depends_on"]))
    beyond["prior_tasks"] = max(len(needs) - TASKS, 0)
    for name in dict.fromkeys((task, *needs[:TASKS], WORKSPACE_TASK)):
        other = reader.task(name)
        if other is None:
            continue
        for letter, kind in _RELEVANT.items():
            rows, older = _newest(reader, other, letter)
            found = [document for _, document in item_documents(reader, name, rows)]
            if letter == "a":  # the newest entry of each path, without files that are gone
                newest = {entry["path"]: entry for entry in found}
                found = [e for e in newest.values() if e.get("change") != "delete"]
                paths[name] = [entry["path"] for entry in found]
            if letter == "r":
                found = [{**entry, "path": entry["file"]} for entry in found]
            by_kind[kind] += found
            beyond[kind] += older
        if name in needs:
            by_kind["prior_tasks"].append(_prior(other, paths[name]))
    steps = item_documents(reader, task, reader.open_items(task, ("n",))[-NEWEST:])
    signals = {
        **row.details,
        "task_id": task,
        "next_steps": [step for _, step in steps],
        "paths": paths.get(task, []),
        "beyond": beyond,
    }
    return computed_context(signals, by_kind, complexity)


_RELEVANT = {"p": "patterns", "g": "gotchas", "r": "code_refs", "a": "code_refs"}
"""Letters of the items that may bear on another task, and the list that has them."""


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
    row = reader.existing_task(task)
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

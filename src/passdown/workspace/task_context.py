"""Parts of a task's state for summaries, prompts and handoff commands; no more of it than is
used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.context.needs import NeedsFacts
from passdown.context.related import ComputedContext
from passdown.core.documents import open_questions
from passdown.core.kinds import KINDS, WORKSPACE_TASK
from passdown.core.names import normal_path
from passdown.core.tokens import CounterLike, counter_of
from passdown.core.types import JsonObject
from passdown.core.views import NextStep
from passdown.errors import GateRefused, Problem
from passdown.history.state import item_documents, mark_superseded
from passdown.workspace.context import Context

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from passdown.core.rows import ItemRow, TaskRow
    from passdown.store.statements import Reader


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


def injection(context: Context, task: str) -> str:
    """What the tasks that a task depends on pass on to it, as text for its prompt.

    Empty for a task that depends on none.

    Args:
        task: The task.
    """
    from passdown.context.related import injection_for

    with context.store.reading() as reader:
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


def next_steps(context: Context, task: str) -> list[NextStep]:
    """The open next steps of a task, in an order in which they can be done.

    Args:
        task: The task.
    """
    from passdown.context.related import steps_for_breakdown

    with context.store.reading() as reader:
        reader.existing_task(task)
        steps = item_documents(reader, task, reader.open_items(task, ("n",)))
    found = steps_for_breakdown({"task_id": task, "next_steps": [step for _, step in steps]})
    return [NextStep(step) for step in found]


def compact_context(
    context: Context, task: str, budget: int | None = None, *, counter: CounterLike = None
) -> str:
    """A task's phase and last decisions in at most 2,000 characters.

    Args:
        task: The task.
        budget: The most tokens that it may take; by default any number.
        counter: How tokens are counted: a name, or a function from text to a number.
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


def computed_context(context: Context, task: str, complexity: str = "normal") -> ComputedContext:
    """What earlier work is relevant to a task, each with its score and why.

    Args:
        task: The task.
        complexity: easy, normal or complex.
    """
    from passdown.context.related import computed_context

    with context.store.reading() as reader:
        row = reader.existing_task(task)
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


__all__ = [
    "compact_context",
    "computed_context",
    "injection",
    "needs_facts",
    "next_steps",
]

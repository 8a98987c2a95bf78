"""The tools that only look: brief, recall, show, tasks, gates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.errors import InvalidInput, Problem, StoreBusy, StoreUnavailable
from passdown.model.item_text import flat
from passdown.model.kinds import KINDS, WORKSPACE_TASK, parse_address
from passdown.surfaces.mcp.lines import (
    answer_row,
    fields,
    item_row,
    page,
    record_row,
    short,
    suspicion,
    task_row,
    warned,
)
from passdown.surfaces.mcp.texts import RECORDS

if TYPE_CHECKING:
    from passdown.workspace import Workspace

Document = dict[str, Any]

TASKS_SHOWN = 20
ITEMS_SHOWN = 50
ANSWERS_SHOWN = 5
MOST = 100

_OPEN = ("open", "blocked")
_TOLD_ELSEWHERE = ("address", "status", "source", "hints", "version", "agent", "at")
_TASK_FIELDS = ("title", "description", "criteria", "inputs", "outputs", "depends_on")


def brief(workspace: Workspace, given: Document, agent: str) -> str:
    """What an agent needs to know of a task, within a budget of tokens.

    Whoever asks for another's reads it; that the other was told is not on record then.
    """
    from passdown.workspace.beside import may_record

    task = given.get("task") or waiting_task(workspace, agent)
    asked: Document = {"budget": given.get("budget"), "record": may_record(agent)}
    found = workspace.brief(task, agent=agent, **asked)
    return "\n".join([found.text.rstrip("\n"), *warned(found.warnings)])


def waiting_task(workspace: Workspace, agent: str) -> str:
    """The task that is meant where none is named: the one that waits for the agent, or the only
    one that is open. Raises InvalidInput with those there are.
    """
    waiting = [row["task"] for row in workspace.inbox(agent)]
    if len(waiting) == 1:
        return str(waiting[0])
    tasks = open_tasks(workspace, TASKS_SHOWN)
    if len(tasks) == 1:
        return str(tasks[0]["task"])
    known = ", ".join(f"{task['task']} {flat(task['title'])[:40]}" for task in tasks)
    expected = f"one of: {known}" if known else "a task; none is open (task_new makes one)"
    problem = Problem("task", "required", f"is missing; {len(waiting)} wait for {agent}", expected)
    raise InvalidInput("it isn't plain which task is meant", [problem])


def open_tasks(workspace: Workspace, limit: int) -> list[Document]:
    """The tasks that aren't done, in the order of their making."""
    found: list[Document] = []
    for status in _OPEN:
        found += workspace.tasks(status=status, limit=limit + 1)
    found = [task for task in found if task["task"] != WORKSPACE_TASK]
    return sorted(found, key=lambda task: task["seq"])[:limit]


def recall(workspace: Workspace, given: Document, agent: str) -> str:
    """What was recorded that has to do with a question, best first."""
    limit = _at_most(given.get("limit", ANSWERS_SHOWN), "limit")
    filters: Document = {name: given[name] for name in ("task", "path") if name in given}
    filters["kinds"] = [given["kind"]] if "kind" in given else []
    try:
        found = workspace.recall(given["query"], limit=limit, told_to=agent, **filters)
    except (StoreBusy, StoreUnavailable):
        # Reading goes on while nobody can write; that it was told is then not on record.
        found = workspace.recall(given["query"], limit=limit, **filters)
    if not found:
        return "Nothing found. Try other words, or fewer filters."
    rows = [answer_row(answer) for answer in found]
    rest = [f"(for more, a higher limit: up to {MOST})"] if len(found) == limit < MOST else []
    return "\n".join([RECORDS, *rows, *rest])


def show(workspace: Workspace, given: Document, _: str) -> str:
    """One item in full, or a task: its items, now or at a version, or its history."""
    name: str = given["id"]
    if "#" in name or name.startswith("node:"):
        return page(_item(workspace, name), given.get("offset", 0), f"show {name}")
    if given.get("history"):
        return _history(workspace, name, given)
    return _task(workspace, name, given)


def _item(workspace: Workspace, name: str) -> str:
    if name.startswith("node:"):
        return _node(workspace, name.removeprefix("node:"))
    found = workspace.show(name)
    address = parse_address(found["address"])
    kind = KINDS[address.letter].word.replace("_", " ") if address else "item"
    hints = suspicion(" ".join(str(value) for value in found.values()))
    source = found["source"]
    head = (
        f"{found['address']}: {kind}, {found['status']}; {flat(found['agent'])}, {found['at']}, "
        f"version {source['version']} ({source['kind']}, {source['digest'][:19]}){hints}"
    )
    return "\n".join([RECORDS, head, *fields(found, _TOLD_ELSEWHERE)])


def _node(workspace: Workspace, name: str) -> str:
    """A node of the knowledge graph, with what leads from and to it."""
    nodes = [node for node in workspace.graph(around=[name], depth=0).nodes if node.id == name]
    edges = [*workspace.edges(source=name), *workspace.edges(target=name)]
    told = [line for node in nodes for line in fields(node._asdict())]
    lines = [f"- {flat(e.source)} {flat(e.relation)} {flat(e.target)}" for e in edges[:MOST]]
    return "\n".join([RECORDS, *told, *lines])


def _task(workspace: Workspace, name: str, given: Document) -> str:
    state = workspace.state_document(name, given.get("version"))
    limit, offset = _at_most(given.get("limit", ITEMS_SHOWN), "limit"), given.get("offset", 0)
    letters = {kind.letter: "handoffs" if kind.letter == "h" else kind.field for kind in _ordered()}
    items = [item for part in letters.values() for item in state[part]]
    head = (
        f"{state['task_id']}: {state['status']}, {state['phase']}, version {state['version']}, "
        f"held by {flat(state['target_agent'] or state['created_by'])}, "
        f"updated {state['updated_at']}"
    )
    told = {field: state[field] for field in _TASK_FIELDS}
    told["blocked_by"] = state["blocked_by"]
    if offset:
        told = {}
    rows = [item_row(item) for item in items[offset : offset + limit]]
    rest = len(items) - offset - len(rows)
    more = [f"({rest} more items: show {name} with offset {offset + limit})"] if rest > 0 else []
    text = "\n".join([RECORDS, head, *fields(told), *rows, *more])
    return page(text, 0, f"the items one by one, or show {name}")


def _ordered() -> list[Any]:
    """The kinds of items, those first that say what to do."""
    first = "hnbkqdgpwra"
    return [KINDS[letter] for letter in first]


def _history(workspace: Workspace, name: str, given: Document) -> str:
    limit, offset = _at_most(given.get("limit", ITEMS_SHOWN), "limit"), given.get("offset", 0)
    newest = int(workspace.task(name)["version"])
    before = newest + 1 - offset
    found = workspace.log(name, limit=limit, before=before) if before > 1 else []
    rest = before - 1 - len(found)
    more = f"({rest} more records: show {name}, history, offset {offset + limit})"
    rows = [record_row(record) for record in found]
    return "\n".join([RECORDS, f"{name}: {newest} records", *rows, *([more] if rest > 0 else [])])


def tasks(workspace: Workspace, given: Document, _: str) -> str:
    """Tasks in the order of their making, one line each."""
    limit = _at_most(given.get("limit", TASKS_SHOWN), "limit")
    # Two more than asked for: one may be the place of what concerns all work, one shows the end.
    found = workspace.tasks(
        status=given.get("status", ""),
        agent=given.get("holder", ""),
        limit=limit + 2,
        after=given.get("after", 0),
    )
    found = [task for task in found if task["task"] != WORKSPACE_TASK]
    if not found:
        return "No tasks" + (" that fit." if given else " yet; task_new makes one.")
    held = {gate["task"] for gate in workspace.gates() if gate["status"] == "pending"}
    rows = [task_row(task, held) for task in found[:limit]]
    more = f"(more: tasks with after {found[limit - 1]['seq']})" if len(found) > limit else ""
    return "\n".join([*rows, *([more] if more else [])])


def gates(workspace: Workspace, given: Document, _: str) -> str:
    """What waits for a person, and how that person answers."""
    found = workspace.gates(given.get("task", ""), open_only=not given.get("all"))
    if not found:
        return "No gates" + (" at all." if given.get("all") else " wait for an answer.")
    rows = [_gate_row(gate) for gate in found[:MOST]]
    more = [f"({len(found) - MOST} more: name a task)"] if len(found) > MOST else []
    is_waiting = any(gate["status"] == "pending" for gate in found)
    last = ["A person has to answer pending gates (passdown gate --help); agents can't."]
    return "\n".join([*rows, *more, *(last if is_waiting else [])])


def _gate_row(gate: Document) -> str:
    words = flat(gate.get("blocker") or gate.get("name", ""))
    result = gate.get("result")
    told = ", ".join(part for part in (gate["status"], result, flat(gate["agent"])) if part)
    by = f"; answered by {flat(gate['answered_by'])}" if gate.get("answered_by") else ""
    why = f": {flat(gate['reason'])}" if gate.get("reason") else ""
    return f"- {gate['address']} ({told}{by}{why}) {short(words)}{suspicion(words)}"


def _at_most(limit: int, path: str) -> int:
    """A limit within bounds; one that is too high is brought down, since the rest is paged."""
    if limit < 1:
        raise InvalidInput(
            "the page is refused", [Problem(path, "out_of_range", f"{limit} given", "1 or more")]
        )
    return min(limit, MOST)

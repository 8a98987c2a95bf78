"""Tool calls: arguments in, text out, every failure in words that a model can act on.

Models make slips that leave no doubt about what was meant: a number or a list as text, one text
where a list belongs. Those are accepted; anything else is a problem with its path. Stored words
never begin a line of their own, so no author can write a row that looks like another author's.
"""

from __future__ import annotations

import os
import re
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.core.calls import TOOLS
from passdown.core.documents import LISTS
from passdown.core.handoff import Decision, Fact, Handoff
from passdown.core.intake import check_entry, check_task, read_handoff, renamed_problems
from passdown.core.items import item_lines, one_line
from passdown.core.kinds import KINDS, READY, WORKSPACE_TASK, parse_address
from passdown.core.names import agent_problems, id_problems, suggest_agent
from passdown.core.schema import aliases_of, named_by_shape
from passdown.core.text import instruction_hints, visible
from passdown.errors import (
    Conflict,
    GateRefused,
    InvalidInput,
    NotFound,
    PassdownError,
    Problem,
    ProblemsError,
    StoreBusy,
    StoreUnavailable,
    count_problems,
    marked_line,
    raise_problems,
)
from passdown.mcp.arguments import handoff_as_meant, one_problem_per_path, read_arguments
from passdown.mcp.definitions import BY_NAME, HANDOFF_NAMES, REQUEST_KINDS
from passdown.mcp.messages import as_object
from passdown.mcp.people import InputRequired
from passdown.mcp.texts import RECORDS
from passdown.workspace.defaults import choose_task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from passdown.core.results import HandoffCommand, Recalled, Receipt
    from passdown.core.types import JsonObject
    from passdown.mcp.people import Person
    from passdown.mcp.shared_workspace import SharedWorkspace
    from passdown.workspace import Workspace


MAX_CHARACTERS = 40_000
"""How long an answer may be: hosts warn of, or cut, what is longer than about 10,000 tokens."""

_ROW_CHARACTERS = 300
_USUAL_STATUSES = frozenset({"recorded", "active", "accepted", "open"})
_INDENT = "    "
_INJECTION_MARK = "[reads like instructions: {}]"


def minute_of(at: object) -> str:
    """A stored time to the minute."""
    return str(at or "")[:16].replace("T", " ")


def item_row(item: JsonObject) -> str:
    """An item as one line: address, status where it is not the usual one, its words, its author."""
    address = parse_address(str(item["address"]))
    if address is None:
        return f"- {one_line(item['address'])}"
    if address.letter == "k" and item.get("blocker"):
        # Of a gate for a person, the question matters and not the gate's name.
        item = {**item, "name": None}
    # The second of three lengths: the words and what makes them usable, such as a reason.
    words = item_lines(address.letter, address.ordinal, item)[1]
    words = words.removeprefix(f"- {address.letter}{address.ordinal}").strip()
    status = "" if item["status"] in _USUAL_STATUSES else f" [{item['status']}]"
    later = f" [superseded by {item['superseded_by']}]" if item.get("superseded_by") else ""
    by = f" ({one_line(item.get('agent'))}, v{item.get('version')})"
    return f"- {item['address']}{status}{later} {shortened(words)}{by}{injection_mark(words)}"


def shortened(words: str, most: int = _ROW_CHARACTERS) -> str:
    """Words for a row: their beginning where they are long, which `show` has whole."""
    return words if len(words) <= most else f"{words[:most].rstrip()}..."


def injection_mark(words: str) -> str:
    """A mark for words that read like instructions to a model; usually empty."""
    hints = instruction_hints(words)
    return " " + _INJECTION_MARK.format(", ".join(hints)) if hints else ""


def task_row(task: JsonObject, held: Iterable[str] = ()) -> str:
    """A task as one line."""
    status = "held by a gate" if task["task"] in held else task["status"]
    holder = f", {one_line(task['holder'])}" if task["holder"] else ""
    why = f", {one_line(task['why'])}" if task.get("why") else ""
    return (
        f"- {task['task']} ({status}, {task['phase']}{holder}{why}, v{task['version']}) "
        f"{shortened(one_line(task['title']))}"
    )


def hit_row(answer: Recalled) -> str:
    """One answer of a search as one line, or two where its title isn't in the passage."""
    status = "" if answer.status in _USUAL_STATUSES else f", {answer.status}"
    shown = f"{answer.kind.replace('_', ' ')}{status}, {answer.agent}, {minute_of(answer.at)}"
    passage = one_line(answer.passage)
    title = one_line(answer.title)
    words = passage if title[:40] in passage else f"{title}: {passage}"
    later = f" [superseded: {answer.became}]" if answer.became else ""
    stale = f" [stale: {one_line('; '.join(answer.stale))}]" if answer.stale else ""
    return f"- {answer.address} ({shown}) {words}{later}{stale}{injection_mark(words)}"


def record_row(record: JsonObject) -> str:
    """A record of a task's history as one line."""
    summary = shortened(one_line(record["summary"]))
    kind = str(record["kind"]).replace("_", " ")
    author = one_line(record["author"])
    return f"- v{record['version']} {kind}, {author}, {minute_of(record['at'])}: {summary}"


def field_lines(document: JsonObject, without: Iterable[str] = ()) -> list[str]:
    """A document as `name: value` lines, whole; empty values are left out.

    Of a value with line breaks, the lines after the first are indented.
    """
    left_out = frozenset(without)
    return [
        f"{one_line(name)}: {_field_text(value)}"
        for name, value in document.items()
        if name not in left_out and value not in (None, "", [], {}, False)
    ]


def _field_text(value: object) -> str:
    if isinstance(value, bool):
        return "yes"
    if isinstance(value, list):
        return "; ".join(_field_text(entry) for entry in cast("list[object]", value))
    if isinstance(value, dict):
        pairs = cast("JsonObject", value).items()
        return ", ".join(f"{one_line(name)} {_field_text(entry)}" for name, entry in pairs)
    text = visible(str(value).replace("\r\n", "\n"), keep_newlines=True)
    return text.replace("\n", "\n" + _INDENT)


_TOOL_WORDS = (
    (r"passdown (?:state|show|task show) ([\w.#:-]*\w)(?: --json)?", r"show \1"),
    (r"passdown log ([\w.-]*\w)", r"show \1 with history"),
    (r"passdown context ([\w.-]*\w)", "brief of each"),
    (r"passdown task new(?: '[^']*'| \"[^\"]*\")?(?: --id (\S+))?", r"task_new \1"),
    (r"passdown task list", "tasks"),
    (r" \(in Python: \w+\)", ""),
    (r"passdown gate approve (\S+) --by NAME", r"have a person asked: gates with ask \1"),
    (r"passdown gate(?: list)?(?= shows| to see|$|[.,;)])", "gates"),
    (r"passdown (handoff|recall|decide|note|brief)\b", r"\1"),
)


def in_tool_words(text: str) -> str:
    """A hint of ours that names commands, by the tools that do the same."""
    for pattern, words in _TOOL_WORDS:
        text = re.sub(pattern, words, text)
    return text.strip()


def warning_lines(warnings: Iterable[Problem]) -> list[str]:
    """Warnings as lines; the fields that are only recommended share one."""
    found = [each._replace(fix=in_tool_words(each.fix)) for each in warnings]
    recommended = [one_line(p.path) for p in found if p.code == "recommended"]
    lines = [f"- mind: {one_line(p.line())}" for p in found if p.code != "recommended"]
    return [*lines, f"- next time, also: {', '.join(recommended)}"] if recommended else lines


def text_page(text: str, offset: int, how: str) -> str:
    """The part of a long text from a character on, with a line on how to get the next part."""
    part = text[offset : offset + MAX_CHARACTERS]
    rest = len(text) - offset - len(part)
    if rest <= 0:
        return part or f"(nothing from character {offset:,} on; there are {len(text):,})"
    return f"{part}\n({rest:,} more characters: {how} with offset {offset + len(part)})"


TASKS_SHOWN = 20
ITEMS_SHOWN = 50
HITS_SHOWN = 5
MAX_ROWS = 100

_HEAD_FIELDS = ("address", "status", "source", "hints", "version", "agent", "at")
_ITEM_ORDER = "hnbkcqfdgpwra"
"""The kinds of items, those first that say what to do."""
_TASK_FIELDS = ("title", "description", "criteria", "inputs", "outputs", "depends_on")


def brief_tool(workspace: Workspace, given: JsonObject, agent: str) -> str:
    """What an agent needs to know of a task, within a budget of tokens.

    An agent may read another's brief; no delivery is recorded then.
    """
    from passdown.workspace.streams import may_record

    task = given.get("task") or default_task(workspace, agent)
    asked: JsonObject = {"budget": given.get("budget"), "record": may_record(agent)}
    found = workspace.brief(task, agent=agent, names=TOOLS, **asked)
    return "\n".join([found.text.rstrip("\n"), *warning_lines(found.warnings)])


def default_task(workspace: Workspace, agent: str) -> str:
    """The task that is meant where none is named. Raises InvalidInput with those there are if it
    isn't plain which.
    """
    choice = choose_task(workspace, agent=agent)
    if choice.task:
        return choice.task
    shown = choice.tasks[:TASKS_SHOWN]
    known = ", ".join(f"{task.task} {one_line(task.title)[:40]}" for task in shown)
    message = f"is missing, and {choice.listed() if known else 'none is open'}"
    expected = f"one of: {known}" if known else f"a task; {_NEW_TASK}"
    raise InvalidInput("no task given", [Problem("task", "required", message, expected)])


def _recorded_with_task(
    workspace: Workspace, given: JsonObject, agent: str, record: Callable[[str | None], Receipt]
) -> str:
    """Record an entry with the task that is named or meant; where none is plain, for all work."""
    if task := given.get("task"):
        return _receipt_text(record(task))
    choice = choose_task(workspace, agent=agent)
    text = _receipt_text(record(choice.task or None))
    is_open = choice.tasks and not choice.task
    more = f"- mind: it concerns all work; {choice.listed()}, and `task` names one"
    return f"{text}\n{more}" if is_open else text


def recall_tool(workspace: Workspace, given: JsonObject, agent: str) -> str:
    """What was recorded that has to do with a question, best first."""
    limit = _row_limit(given.get("limit", HITS_SHOWN))
    filters: JsonObject = {name: given[name] for name in ("task", "path") if name in given}
    filters |= {"kinds": [given["kind"]] if "kind" in given else [], "only_fitting": True}
    try:
        found = workspace.recall(given["query"], limit=limit, told_to=agent, **filters)
    except (StoreBusy, StoreUnavailable):
        # Reading works while nobody can write; the delivery is then not recorded.
        found = workspace.recall(given["query"], limit=limit, **filters)
    if not found:
        return "Nothing found. Try other words, or fewer filters."
    rows = [hit_row(answer) for answer in found]
    rest = (
        [f"(for more, a higher limit: up to {MAX_ROWS})"] if len(found) == limit < MAX_ROWS else []
    )
    return "\n".join([RECORDS, *rows, *rest])


def show_tool(workspace: Workspace, given: JsonObject, _: str) -> str:
    """One item in full, or a task: its items, now or at a version, or its history."""
    name: str = given["id"]
    if "#" in name or name.startswith("node:"):
        return text_page(_item_text(workspace, name), given.get("offset", 0), f"show {name}")
    if given.get("history"):
        return _history_text(workspace, name, given)
    return _task_text(workspace, name, given)


def _item_text(workspace: Workspace, name: str) -> str:
    if name.startswith("node:"):
        return _node_text(workspace, name.removeprefix("node:"))
    found = workspace.show(name)
    address = parse_address(found.address)
    kind = KINDS[address.letter].word.replace("_", " ") if address else "item"
    hints = injection_mark(" ".join(str(value) for value in found.to_dict().values()))
    source = found.source
    head = (
        f"{found.address}: {kind}, {found.status}; {one_line(found.agent)}, {found.at}, "
        f"version {source['version']} ({source['kind']}, {source['digest'][:19]}){hints}"
    )
    return "\n".join([RECORDS, head, *field_lines(found.to_dict(), _HEAD_FIELDS)])


def _node_text(workspace: Workspace, name: str) -> str:
    """A node of the knowledge graph, with what leads from and to it."""
    nodes = [
        node for node in workspace.knowledge.graph(around=[name], depth=0).nodes if node.id == name
    ]
    edges = [*workspace.knowledge.edges(source=name), *workspace.knowledge.edges(target=name)]
    shown = [line for node in nodes for line in field_lines(node._asdict())]
    lines = [
        f"- {one_line(e.source)} {one_line(e.relation)} {one_line(e.target)}"
        for e in edges[:MAX_ROWS]
    ]
    return "\n".join([RECORDS, *shown, *lines])


def _task_text(workspace: Workspace, name: str, given: JsonObject) -> str:
    state = workspace.files.state_document(name, given.get("version"))
    limit, offset = _row_limit(given.get("limit", ITEMS_SHOWN)), given.get("offset", 0)
    items = [item for letter in _ITEM_ORDER for item in state.get(LISTS[letter], ())]
    head = (
        f"{state['task_id']}: {state['status']}, {state['phase']}, version {state['version']}, "
        f"held by {one_line(state['target_agent'] or state['created_by'])}, "
        f"updated {state['updated_at']}"
    )
    shown = {field: state[field] for field in _TASK_FIELDS}
    shown["blocked_by"] = state["blocked_by"]
    if offset:
        shown = {}
    rows = [item_row(item) for item in items[offset : offset + limit]]
    rest = len(items) - offset - len(rows)
    more = [f"({rest} more items: show {name} with offset {offset + limit})"] if rest > 0 else []
    text = "\n".join([RECORDS, head, *field_lines(shown), *rows, *more])
    return text_page(text, 0, f"the items one by one, or show {name}")


def _history_text(workspace: Workspace, name: str, given: JsonObject) -> str:
    limit, offset = _row_limit(given.get("limit", ITEMS_SHOWN)), given.get("offset", 0)
    newest = int(workspace.task(name).version)
    before = newest + 1 - offset
    found = workspace.log(name, limit=limit, before=before) if before > 1 else []
    rest = before - 1 - len(found)
    more = f"({rest} more records: show {name}, history, offset {offset + limit})"
    rows = [record_row(record.to_dict()) for record in found]
    return "\n".join([RECORDS, f"{name}: {newest} records", *rows, *([more] if rest > 0 else [])])


def tasks_tool(workspace: Workspace, given: JsonObject, agent: str) -> str:
    """Tasks in the order of their making, one line each; what is ready, for the calling agent
    unless another one is named, the best first.
    """
    limit = _row_limit(given.get("limit", TASKS_SHOWN))
    # Two more than asked for: one may be the place of what concerns all work, one shows the end.
    found = workspace.tasks(
        status=given.get("status", ""),
        agent=given.get("holder") or (agent if given.get("status") == READY else ""),
        limit=limit + 2,
        after=given.get("after", 0),
    )
    found = [task for task in found if task.task != WORKSPACE_TASK]
    if not found:
        return "No tasks" + (" that fit." if given else " yet; task_new makes one.")
    held = {gate.task for gate in workspace.gates() if gate.status == "pending"}
    rows = [task_row(task.to_dict(), held) for task in found[:limit]]
    more = f"(more: tasks with after {found[limit - 1].seq})" if len(found) > limit else ""
    return "\n".join([*rows, *([more] if more else [])])


def gates_tool(workspace: Workspace, given: JsonObject, _: str) -> str:
    """What waits for a person, and how that person answers."""
    found = workspace.gates(given.get("task", ""), all=bool(given.get("all")))
    if not found:
        return "No gates" + (" at all." if given.get("all") else " wait for an answer.")
    rows = [_gate_row(gate.to_dict()) for gate in found[:MAX_ROWS]]
    more = [f"({len(found) - MAX_ROWS} more: name a task)"] if len(found) > MAX_ROWS else []
    is_waiting = any(gate.status == "pending" for gate in found)
    last = [f"Only a person can answer pending gates. {_ASK_THEM}"]
    return "\n".join([*rows, *more, *(last if is_waiting else [])])


_ANSWERS = ("approve", "reject")
_GATE_FORM: JsonObject = {
    "type": "object",
    "properties": {
        "answer": {"type": "string", "title": "Answer", "enum": [*_ANSWERS]},
        "reason": {"type": "string", "title": "Why", "description": "Needed to reject"},
        "name": {"type": "string", "title": "Your name"},
    },
    "required": ["answer"],
}
_CANT_ASK = (
    "Nobody can be asked here. Tell the person you work for which gate waits: they answer it in "
    "the dashboard or in a terminal (passdown gate --help), and you go on with other work."
)


def _ask_gate(shared: SharedWorkspace, name: str, person: Person | None) -> str:
    """Have a person answer a gate, and say how it is then. The store isn't held meanwhile."""
    gate = _gate(shared, name)
    if gate["status"] == "pending" and person is None:
        return f"{_gate_row(gate)}\n{_CANT_ASK}"
    if gate["status"] == "pending" and person is not None:
        words = one_line(gate.get("blocker") or gate.get("name", ""))
        message = f"{one_line(gate['agent'])} asks in {gate['task']} ({name}): {words}"
        form = {"message": visible(message), "requestedSchema": _GATE_FORM}
        said = person.ask(form, lambda: _gate(shared, name)["status"] != "pending")
        content = as_object((said or {}).get("content"))
        is_answer = (said or {}).get("action") == "accept" and content.get("answer") in _ANSWERS
        if said is not None and not is_answer:
            return f"{_gate_row(gate)}\nThe person gave no answer: it waits. Go on with other work."
        if said is not None:
            _answer_gate(shared, name, content, person.name)
    return _gate_row(_gate(shared, name))


def _gate(shared: SharedWorkspace, name: str) -> JsonObject:
    task = name.partition("#")[0]
    with shared.workspace() as workspace:
        known = [gate.to_dict() for gate in workspace.gates(task, all=True)]
    found = next((gate for gate in known if gate["address"] == name), None)
    if found is None:
        raise NotFound(f"there is no gate {name[:140]!r}")
    return found


def _answer_gate(shared: SharedWorkspace, name: str, content: JsonObject, named: str) -> None:
    reason = str(content.get("reason") or "")
    by = named or str(content.get("name") or "").strip() or _login_name()
    with shared.workspace() as workspace:
        if content["answer"] == "approve":
            workspace.approve(name, by=by, reason=reason)
        else:
            workspace.reject(name, by=by, reason=reason or "no reason given")


def _login_name() -> str:
    """Whose session this server runs in."""
    from getpass import getuser

    try:
        return getuser()
    except (OSError, KeyError):
        return "user"


def _gate_row(gate: JsonObject) -> str:
    words = one_line(gate.get("blocker") or gate.get("name", ""))
    result = gate.get("result")
    shown = ", ".join(part for part in (gate["status"], result, one_line(gate["agent"])) if part)
    by = f"; answered by {one_line(gate['answered_by'])}" if gate.get("answered_by") else ""
    why = f": {one_line(gate['reason'])}" if gate.get("reason") else ""
    return f"- {gate['address']} ({shown}{by}{why}) {shortened(words)}{injection_mark(words)}"


def _row_limit(limit: int) -> int:
    """A limit within bounds; one that is too high is brought down, since the rest is paged."""
    if limit < 1:
        raise InvalidInput(
            "the page is refused", [Problem("limit", "out_of_range", f"{limit} given", "1 or more")]
        )
    return min(limit, MAX_ROWS)


_NOTE_NAMES = {
    "pattern": {"text": "pattern", "location": "location", "tags": "applies_to"},
    "gotcha": {
        "text": "issue",
        "location": "discovered_in",
        "mitigation": "mitigation",
        "severity": "severity",
    },
    "fact": {"text": "name", "value": "value", "status": "status", "location": "source"},
}


_ASK_THEM = "To ask them, call gates with ask."
_SEND_AS_DELETED = "write it first; or, if it was deleted, send it as 'PATH (deleted)'"


def handoff_tool(workspace: Workspace, given: Mapping[str, Any], agent: str) -> str:
    """Record a handoff: fields under any of their names, or a whole one as text in `handoff`."""
    fields = handoff_as_meant(given)
    options = {name: fields.pop(name, None) for name in ("key", "counter")}
    # What is missing is missed under the tool's own name, unless the call has the handoff's.
    names = {own: name for own, name in HANDOFF_NAMES.items() if own not in given}
    try:
        if isinstance(fields.get("handoff"), str):
            text = fields.pop("handoff")
            named = named_by_shape(Handoff, fields)
            if not read_handoff(text, named).data.get("from_agent"):
                named["from_agent"] = agent
            command = workspace.hand_off(text, **options, **named)
        else:
            if not read_handoff(fields).data.get("from_agent"):
                fields["from_agent"] = agent
            command = workspace.hand_off(fields, **options)
    except (InvalidInput, GateRefused) as error:
        problems = [
            each._replace(fix=_SEND_AS_DELETED) if each.code == "missing_file" else each
            for each in renamed_problems(error.problems, names)
        ]
        raise type(error)(error.message, problems, next_step=error.next_step) from error
    return _command_text(
        command._replace(warnings=tuple(renamed_problems(command.warnings, names)))
    )


def _command_text(command: HandoffCommand) -> str:
    said = "Already recorded" if command.is_replay else "Recorded"
    to = f" to {one_line(command.to_agent)}" if command.to_agent else ""
    line = (
        f"{said}: {command.task} version {command.version}, {command.outcome}{to}, "
        f"phase {command.phase}. Detail score: {command.detail_score}/100."
    )
    held = f"Held by {', '.join(command.held_by)}: a person has to answer first. {_ASK_THEM}"
    shown = warning_lines(command.warnings)
    return "\n".join([line, *([held] if command.held_by else []), *shown])


def note_tool(workspace: Workspace, given: JsonObject, agent: str) -> str:
    """Record a pattern, a gotcha or a fact; or ask an agent of a run, and give its answer."""
    if given["kind"] in REQUEST_KINDS:
        from passdown.relay.operations import only_run

        request: JsonObject = {"by": agent, "kind": given["kind"], "key": given.get("key")}
        run = only_run(workspace)
        try:
            answer = workspace.relay.ask(run, given["to"], given["text"], **request)
        except GateRefused as error:  # the request is recorded all the same
            raise ToolRefused(str(error)) from error
        return f"{answer.agent} in {answer.run}: {answer.text}"
    who = {"agent": agent, "key": given.get("key"), **_note_entry(given)}
    note = partial(workspace.note, given["kind"], **who)
    return _recorded_with_task(workspace, given, agent, lambda task: note(task=task))


def note_problems(given: JsonObject) -> list[Problem]:
    """What the rules of its kind say against a note: a pattern has a place, a gotcha a remedy, a
    fact a value.
    """
    kind: object = given.get("kind")
    if kind in REQUEST_KINDS and not given.get("to"):
        return [Problem("to", "required", "is missing", "an agent of your run")]
    if not isinstance(kind, str) or kind not in _NOTE_NAMES:
        return []
    names = _NOTE_NAMES[kind]
    unfit = [
        Problem(name, "not_here", f"a {kind} has no {name}", f"only {', '.join(names)}")
        for name in given
        if name not in names and name not in ("kind", "task", "agent", "key")
    ]
    found = check_entry(kind, _note_entry(given))[1]
    return [*unfit, *renamed_problems(found, {own: name for name, own in names.items()})]


def _note_entry(given: JsonObject) -> JsonObject:
    names = _NOTE_NAMES[given["kind"]]
    entry = {names[name]: value for name, value in given.items() if name in names}
    if given["kind"] == "fact" and "value" not in entry:
        fact = Fact.from_text(str(entry.get("name", "")))
        entry |= {"name": fact.pop("key"), **fact}
    return {"severity": "medium", **entry} if given["kind"] == "gotcha" else entry


def knowledge_tool(workspace: Workspace, given: JsonObject, agent: str) -> str:
    """Record one entry of the knowledge graph."""
    from passdown.workspace.knowledge_tool import KnowledgeTool

    tool = KnowledgeTool(workspace, agent, given.get("task", ""))
    answer = tool({"knowledge": given["knowledge"]})
    if answer.is_error:
        raise ToolRefused(answer.text)
    return answer.text


def decide_tool(workspace: Workspace, given: JsonObject, agent: str) -> str:
    """Record one decision."""
    fields = {**given, "agent": agent}
    fields.pop("task", None)
    decide = partial(workspace.decide, **fields)
    return _recorded_with_task(workspace, given, agent, lambda task: decide(task=task))


def new_task_tool(workspace: Workspace, given: JsonObject, agent: str) -> str:
    """Create a task."""
    return _receipt_text(workspace.create_task(**{**given, "agent": agent}))


def _receipt_text(receipt: Receipt) -> str:
    said = "Already recorded" if receipt.is_replay else "Recorded"
    items = f", {', '.join(receipt.items)}" if receipt.items else ""
    line = f"{said}: {receipt.task} version {receipt.version}{items}."
    return "\n".join([line, *warning_lines(receipt.warnings)])


if TYPE_CHECKING:
    Carry = Callable[[Workspace, dict[str, Any], str], str]
    Rules = Callable[[dict[str, Any]], list[Problem]]

MAX_PROBLEMS = 60
"""How many problems an answer lists; a call with more of them is wrong as a whole."""
_PROBLEM_CHARACTERS = 1_200

UNNAMED_CLIENT = "mcp-client"
"""Who writes where neither the call, the environment nor the client has a name."""


class ToolRefused(Exception):
    """A tool refused its arguments and says why in its own words."""


class ToolResult(NamedTuple):
    """What a tool says to the model that called it."""

    text: str
    is_error: bool = False


def _decision_problems(given: JsonObject) -> list[Problem]:
    entry = {name: value for name, value in given.items() if name not in ("task", "agent", "key")}
    return check_entry("decision", entry)[1]


def _task_problems(given: JsonObject) -> list[Problem]:
    entry = {name: value for name, value in given.items() if name != "key"}
    return check_task({"task": "T-1", **entry, "agent": "somebody"})[1]


class ToolHandler(NamedTuple):
    """What carries a tool out, other names that its arguments are understood by, and rules beyond
    their types. The arguments of one that `takes_any` are checked where they are used.
    """

    carry: Carry
    also: Mapping[str, str]
    rules: Rules = lambda _: []
    takes_any: bool = False


_TASK_ALIASES = {"task_id": "task"}
_ITEM_ALIASES = {"item": "id", "address": "id", "task": "id", "task_id": "id"}

_HANDLERS: dict[str, ToolHandler] = {
    "brief": ToolHandler(brief_tool, _TASK_ALIASES),
    "recall": ToolHandler(recall_tool, {"kinds": "kind", "q": "query", **_TASK_ALIASES}),
    "show": ToolHandler(show_tool, _ITEM_ALIASES),
    "tasks": ToolHandler(tasks_tool, {}),
    "gates": ToolHandler(gates_tool, _TASK_ALIASES),
    "handoff": ToolHandler(handoff_tool, {}, takes_any=True),
    "decide": ToolHandler(
        decide_tool,
        {**aliases_of(Decision), **_TASK_ALIASES},
        _decision_problems,
    ),
    "note": ToolHandler(
        note_tool, {"issue": "text", "pattern": "text", **_TASK_ALIASES}, note_problems
    ),
    "knowledge_add": ToolHandler(knowledge_tool, _TASK_ALIASES),
    "task_new": ToolHandler(
        new_task_tool,
        {"id": "task", "needs": "depends_on", **_TASK_ALIASES},
        _task_problems,
    ),
}

_NEW_TASK = "task_new makes one; tasks lists those there are"
_GATE_ANSWERS = frozenset({"approve", "approved", "reject", "rejected", "answer", "by", "decision"})


def call_tool(
    shared: SharedWorkspace,
    name: str,
    arguments: Mapping[str, Any],
    agent: str,
    person: Person | None = None,
) -> ToolResult:
    """Carry a tool out for an agent; `agent` writes where the arguments name nobody, `person` can
    be asked.

    Raises KeyError for a tool that isn't there, InputRequired where a person has to be asked
    first, and nothing else: what goes wrong is an answer.
    """
    tool = _HANDLERS[name]
    try:
        given, writer = _arguments_of(name, tool, arguments, agent)
        if name == "gates" and given.get("ask"):
            text = _ask_gate(shared, given["ask"], person)
        else:
            with shared.workspace() as workspace:
                text = tool.carry(workspace, given, writer)
    except InputRequired:
        raise
    except ToolRefused as refused:
        return ToolResult(visible(str(refused), keep_newlines=True), is_error=True)
    except PassdownError as error:
        if isinstance(error, InvalidInput):
            error = _with_unknown_task(shared, name, arguments, error)
        return ToolResult(visible(error_text(error, name), keep_newlines=True), is_error=True)
    except OSError as error:
        what = f"{error.filename}: " if error.filename else ""
        return ToolResult(
            one_line(f"{name} failed: {what}{error.strerror or error}"), is_error=True
        )
    except Exception as error:  # noqa: BLE001
        return _unexpected_error(name, error)
    return ToolResult(visible(text, keep_newlines=True))


def _unexpected_error(name: str, error: Exception) -> ToolResult:
    """A fault of ours: one bad call must not end the server, which serves others."""
    if os.environ.get("PASSDOWN_DEBUG"):
        sys.excepthook(type(error), error, error.__traceback__)
    said = f"{name} failed: unexpected {type(error).__name__}: {str(error)[:500]}. "
    return ToolResult(
        one_line(f"{said}This is a fault in Passdown; show says what was recorded."), True
    )


def _arguments_of(
    name: str, tool: ToolHandler, arguments: Mapping[str, Any], agent: str
) -> tuple[dict[str, Any], str]:
    """The arguments as the tool wants them, and who calls it."""
    if name == "gates" and (asked := sorted(_GATE_ANSWERS & arguments.keys())):
        raise _gates_need_people(asked)
    if tool.takes_any:
        return dict(arguments), agent
    writer: object = arguments.get("agent") or agent
    # Every tool takes it, whether or not its short schema says so.
    rest = {key: value for key, value in arguments.items() if key != "agent"}
    given, problems = read_arguments(name, rest, tool.also)
    rules = [problem for problem in tool.rules(given) if problem.level == "error"]
    problems = one_problem_per_path([*agent_problems(writer, "agent"), *problems, *rules])
    raise_problems("the arguments are refused", problems)
    return given, str(writer)


def _with_unknown_task(
    shared: SharedWorkspace, name: str, arguments: Mapping[str, Any], error: InvalidInput
) -> InvalidInput:
    """That there is no such task, beside everything else that is wrong with a call."""
    task: object = arguments.get("task") or arguments.get("task_id")
    is_told = any(problem.path in ("task", "task_id") for problem in error.problems)
    if name == "task_new" or is_told or not isinstance(task, str) or id_problems(task, "task"):
        return error
    try:
        with shared.workspace() as workspace:
            workspace.task(task)
    except NotFound as unknown:
        if unknown.code != NotFound.code:
            return error
        problem = Problem("task", "not_found", unknown.message, "a task that exists", _NEW_TASK)
        return InvalidInput(error.message, [problem, *error.problems], next_step=error.next_step)
    except (PassdownError, OSError):
        return error
    return error


def _gates_need_people(asked: list[str]) -> GateRefused:
    message = "gates are answered by people, never by agents"
    problems = [Problem(name, "not_allowed", message, "nothing here") for name in asked]
    return GateRefused(
        "a gate can't be answered by a tool",
        problems,
        next_step="Tell the person you work for which gate waits, and go on with other work.",
    )


def error_text(error: PassdownError, name: str) -> str:
    """An error in words for the model that called a tool."""
    is_writing = not BY_NAME[name]["annotations"]["readOnlyHint"]
    changed = " Nothing was changed." if is_writing else ""
    if "nothing was changed" in error.message:
        changed = ""
    if isinstance(error, ProblemsError):
        lines = [
            f"- {shortened(one_line(marked_line(each)), _PROBLEM_CHARACTERS)}"
            for each in (
                p._replace(fix=in_tool_words(p.fix)) for p in error.problems[:MAX_PROBLEMS]
            )
        ]
        if len(error.problems) > MAX_PROBLEMS:
            lines.append(f"- and {count_problems(error.problems) - MAX_PROBLEMS:,} more problems")
        then = _next_step(error, name)
        return "\n".join([f"{name}: {one_line(error.message)}.{changed}", *lines, then])
    if isinstance(error, StoreUnavailable) and is_writing:
        changed = " Whether it was written is unknown: call again with the same arguments."
    return f"{name}: {one_line(error.message)}.{changed} {_next_step(error, name)}".strip()


def _next_step(error: PassdownError, name: str) -> str:
    """What to do next, by the tools that the model has rather than by commands."""
    if isinstance(error, InvalidInput):
        return f"Fix these, then call {name} again."
    if isinstance(error, Conflict) and name == "task_new":
        return f"Use it as it is (show {error.task}), or choose another id."
    if isinstance(error, Conflict):
        return (
            f"Read it with show {error.task}, then call {name} again from version {error.actual}."
        )
    if isinstance(error, StoreBusy):
        return "Another process is writing. Call again in a while."
    if isinstance(error, NotFound) and error.code != "no_workspace":
        return "tasks lists tasks, show TASK lists its items, recall finds both."
    return one_line(in_tool_words(error.next_step))


def agent_named(environment: Mapping[str, str], client: str) -> str:
    """Who calls where nobody says: PASSDOWN_AGENT, else the client's name as an agent's name."""
    return environment.get("PASSDOWN_AGENT") or suggest_agent(client) or UNNAMED_CLIENT

"""Writes smaller than a handoff: tasks, decisions, patterns, gotchas, warnings, gates, marks."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, cast

from passdown.errors import GateRefused, InvalidInput, NotFound, Problem
from passdown.ledger import Entry
from passdown.ledger.admission import key_problems
from passdown.ledger.gates import cycle_problems, entry_guard, mark_problems, supersede_problems
from passdown.model.canonical import canonical_bytes, digest_bytes
from passdown.model.command import Receipt
from passdown.model.intake import check_entry, check_task, refused
from passdown.model.items import fingerprint
from passdown.model.kinds import WORKSPACE_TASK, parse_address, stream_of, task_of
from passdown.model.names import agent_problems, id_problems
from passdown.model.redaction import removal
from passdown.model.text import text_problems

if TYPE_CHECKING:
    from passdown.ledger.writing import Guard, Written
    from passdown.model.fold import Before
    from passdown.model.rows import ItemRow
    from passdown.store.statements import Reader
    from passdown.workspace.opened import Opened

REFUSED = "refused; nothing was changed"


def create_task(opened: Opened, fields: dict[str, Any], key: str | None) -> Receipt:
    """Make a task; dependencies may name tasks that come later, but no cycle."""
    checked, problems = check_task(fields)
    problems += _given_key_problems(key)
    _refuse(problems)
    task, agent = checked.pop("task"), checked.pop("agent")

    def problems_of(reader: Reader, body: dict[str, Any]) -> list[Problem]:
        return cycle_problems(reader, task, body["depends_on"])

    key = key or "created-" + digest_bytes(canonical_bytes([agent, checked]))
    entry = Entry(task, "task_created", agent, checked, key)
    warnings = [p for p in problems if p.level == "warning"]
    with opened.store.reading() as reader:
        for need in checked["depends_on"]:
            if reader.head(stream_of(need)) is None:
                message = f"{need} does not exist yet"
                warnings.append(Problem("depends_on", "unknown_task", message, level="warning"))
    return write_entry(opened, entry, entry_guard(problems_of), warnings)


def change_task(
    opened: Opened,
    task: str,
    agent: str,
    fields: dict[str, Any],
    expect_version: int | None,
    *,
    key: str | None = None,
) -> Receipt:
    """Change a task's description, dependencies or status (open, cancelled)."""
    status = fields.pop("status", None)
    whole = {"title": "unchanged", **fields, "task": task, "agent": agent}
    checked, problems = check_task(whole)
    # A task has no place for fields that nobody knows; a change of phase is a handoff.
    problems = [*(refused(p) for p in problems), *_version_problems(expect_version)]
    problems += _given_key_problems(key)
    if status is not None and status not in ("open", "cancelled"):
        problems.append(Problem("status", "invalid_choice", f"{status!r}", "open | cancelled"))
    if "phase" in fields:
        problems.append(Problem("phase", "not_here", "moves with a handoff", "hand_off"))
    _refuse(problems)
    body = {name: checked[name] for name in fields}
    if status is not None:
        body["status"] = status
    if not body:
        raise InvalidInput(REFUSED, [Problem("", "required", "no change is named", "a field")])

    def problems_of(reader: Reader, given: dict[str, Any]) -> list[Problem]:
        return cycle_problems(reader, task, given.get("depends_on", ()))

    entry = Entry(task, "task_changed", agent, body, key or uuid.uuid4().hex, expect_version)
    return write_entry(opened, entry, entry_guard(problems_of), [])


def add_entry(
    opened: Opened,
    kind: str,
    task: str | None,
    agent: str,
    entry: dict[str, Any],
    *,
    key: str | None = None,
    expect_version: int | None = None,
) -> Receipt:
    """Record one decision, pattern, gotcha, warning or gate result; without a task, for all
    work.
    """
    problems = [*id_problems(task, "task")] if task is not None else []
    problems += [*agent_problems(agent, "agent"), *_version_problems(expect_version)]
    problems += _given_key_problems(key)
    checked: Any = entry
    if kind == "warning":
        problems += text_problems(entry["text"], "text")
        checked = entry["text"]
    else:
        checked, found = check_entry(kind, entry)
        problems += found
    _refuse(problems)
    record, field = _ENTRIES[kind]
    if field in ("patterns", "gotchas") and not checked["id"]:
        checked["id"] = f"{kind}-{fingerprint(checked)[:8]}"
    if isinstance(checked, dict):
        fields = cast("dict[str, Any]", checked)
        checked = {k: v for k, v in fields.items() if v not in (None, "", [])}
    body: dict[str, Any] = {field: [checked]}
    _refuse(opened.files.unnamed(body))
    is_once = kind != "gate" and expect_version is None
    is_own_key = key is not None
    key = key or (content_key(agent, body) if is_once else uuid.uuid4().hex)
    guard = entry_guard(supersede_problems) if kind == "decision" else None
    warnings = [p for p in problems if p.level == "warning"]
    task = task or workspace_task(opened, agent, body)
    written = Entry(task, record, agent, opened.with_hashes(body), key, expect_version)
    known = memory_warnings(opened, body)
    receipt = write_entry(opened, written, guard, warnings)
    if not receipt.is_replay:
        receipt = receipt._replace(warnings=(*receipt.warnings, *known))
    if receipt.is_replay and not is_own_key and _was_taken_back(opened, receipt):
        # Said again after it was taken back: that is news, not a repeat.
        return write_entry(opened, written._replace(key=uuid.uuid4().hex), guard, warnings)
    return receipt


def _was_taken_back(opened: Opened, receipt: Receipt) -> bool:
    with opened.store.reading() as reader:
        rows = reader.items_at(receipt.task_id, receipt.version)
    return any(row.status in ("retracted", "reverted", "superseded") for row in rows)


_ENTRIES = {
    "decision": ("decided", "decisions"),
    "pattern": ("noted", "patterns"),
    "gotcha": ("noted", "gotchas"),
    "warning": ("warned", "warnings"),
    "gate": ("gate_recorded", "gates"),
}


def mark(
    opened: Opened, item: str, status: str, agent: str, reason: str, *, key: str | None = None
) -> Receipt:
    """Give an item another status: a blocker resolved, a question answered, a step done."""
    address = parse_address(item)
    if address is None:
        given = f"{str(item)[:60]!r} is no address"
        problem = Problem("item", "invalid_address", given, "an address like T-1#b2")
        raise InvalidInput(REFUSED, [problem])
    _check_names(address.task, agent)
    checked, problems = check_entry("mark", {"item": item, "status": status, "reason": reason})
    _refuse([*problems, *_given_key_problems(key)])
    body = {"marks": [{k: v for k, v in checked.items() if v}]}
    entry = Entry(address.task, "marked", agent, body, key or uuid.uuid4().hex)
    return write_entry(opened, entry, entry_guard(mark_problems), [])


def answer_gate(
    opened: Opened, gate: str, answer: str, by: str, reason: str, *, key: str | None = None
) -> Receipt:
    """A person's answer to a human gate. Who and when are fields of the record, never of a text."""
    address = parse_address(gate)
    if address is None or address.letter != "k":
        raise NotFound(
            f"there is no gate {gate[:140]!r}", next_step="List them with: passdown gate list"
        )
    problems = agent_problems(by, "by")
    problems += text_problems(reason, "reason", required=answer == "rejected")
    _refuse([*problems, *_given_key_problems(key)])
    body = {"gate": gate, "answer": answer, "by": by, "reason": reason}

    def guard(reader: Reader, before: Before, given: dict[str, Any]) -> None:
        row = reader.item(*address)
        if row is None or row.field != "blockers":
            raise NotFound(f"there is no gate {gate}", next_step="passdown gate list shows them")
        if row.status != "pending":
            problem = Problem(gate, "answered", f"is {row.status} already", "a pending gate")
            raise GateRefused("the gate is not waiting; nothing was changed", [problem])

    entry = Entry(address.task, "gate_answered", by, body, key or uuid.uuid4().hex)
    return write_entry(opened, entry, guard, [])


def workspace_task(opened: Opened, agent: str, body: dict[str, Any]) -> str:
    """The task that holds what concerns all work; made for the first entry that can be written."""
    with opened.store.reading() as reader:
        _refuse(supersede_problems(reader, body))
        if reader.head(stream_of(WORKSPACE_TASK)) is not None:
            return WORKSPACE_TASK
    # One fixed author: two agents may get here at the same moment and must write the same record.
    fields = {"task": WORKSPACE_TASK, "title": "What concerns all work", "agent": "passdown"}
    create_task(opened, fields, "workspace")
    return WORKSPACE_TASK


def content_key(agent: str, body: dict[str, Any]) -> str:
    """The key under which the same words of the same agent are the same record."""
    return "content-" + digest_bytes(canonical_bytes([agent, body])).removeprefix("sha256:")


def _given_key_problems(key: str | None) -> list[Problem]:
    return key_problems(key) if key is not None else []


def _version_problems(given: object) -> list[Problem]:
    if given is None or (isinstance(given, int) and not isinstance(given, bool)):
        return []
    message = f"{type(given).__name__} given"
    return [Problem("expect_version", "wrong_type", message, "a version number")]


def _check_names(task: str, agent: str) -> None:
    _refuse([*id_problems(task, "task"), *agent_problems(agent, "agent")])


def _refuse(problems: list[Problem]) -> None:
    """Raises InvalidInput if there is any error; unknown fields are told too, a slip is often
    the cause.
    """
    if any(problem.level == "error" for problem in problems):
        told = [p for p in problems if p.level == "error" or p.code == "unknown_field"]
        raise InvalidInput(REFUSED, told, next_step="Mend these and try again.")


def memory_warnings(opened: Opened, body: dict[str, Any]) -> list[Problem]:
    """What a body says that was recorded before in nearly the same words, and what it supersedes
    that was superseded before.
    """
    from passdown.recall.chains import fork_warnings
    from passdown.recall.likeness import near_duplicates

    with opened.store.reading() as reader:
        return [*near_duplicates(reader, body), *fork_warnings(reader, body)]


def write_entry(
    opened: Opened, entry: Entry, guard: Guard | None, warnings: list[Problem]
) -> Receipt:
    """Append an entry, mirror the task's state, and answer with the items that it brought."""
    written = opened.ledger.append(entry, guard)
    for kind in written.redacted:
        message = removal(kind)
        warnings.append(Problem("", "redacted", message, level="warning"))
    warnings += opened.mirror(written)
    return Receipt(
        task_id=entry.task,
        version=written.record.position,
        digest=written.record.digest,
        items=_items_of(opened, written),
        is_replay=written.is_replay,
        warnings=tuple(warnings),
    )


def _items_of(opened: Opened, written: Written) -> tuple[str, ...]:
    """The addresses of what a record brought; what was just written needn't be read back."""
    if not written.is_replay:
        return tuple(row.address for row in sorted(written.changes.added, key=_by_number))
    with opened.store.reading() as reader:
        rows = reader.items_at(task_of(written.record.stream) or "", written.record.position)
    return tuple(row.address for row in rows)


def _by_number(row: ItemRow) -> tuple[str, int]:
    return row.letter, row.ordinal

"""The fold: what one more record changes in the derived rows of its task. Pure, no database.

Writing, rebuilding and looking back all use `changes`: the ledger applies its answer inside the
transaction that appends the record, `reindex` applies the same answers to empty tables, and a past
version is the same fold over fewer records. So the three can't disagree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.model.items import entry_of, fingerprint
from passdown.model.kinds import KINDS, parse_address
from passdown.model.rows import ItemRow, StatusChange
from passdown.model.step import NOT_PREPARED, NOTHING, Before, Changes, Items, Step, prepared_items

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from passdown.model.record import Record


_DETAILS = (
    "title",
    "description",
    "inputs",
    "outputs",
    "criteria",
    "depends_on",
    "time_limit_minutes",
)

# A handoff that lists any of these gives the current list: what it doesn't repeat is replaced.
_REPLACED_WHEN_LISTED = ("n", "r")


def changes(
    before: Before,
    record: Record,
    body: dict[str, Any],
    *,
    sized: bool = True,
    items: Items = NOT_PREPARED,
) -> Changes:
    """What `record` (with `body` as its parsed content) changes in the rows of its task.

    Without `sized`, rows lack their sizes: looking back doesn't need them, and counting takes time.
    `items` are the body's entries, where they have been prepared.
    """
    step = Step(before, record, body, sized=sized, items=items)
    _HANDLERS[record.kind](step)
    return step.result()


def _task_created(step: Step) -> None:
    step.details = {name: step.body.get(name) for name in _DETAILS}
    if "metadata" in step.body:
        step.details["metadata"] = step.body["metadata"]
    step.header.update(
        phase=step.body["phase"],
        previous_phase=None,
        phase_started_at=step.record.at,
        outcome=None,
        context_summary="",
        source_agent="",
        target_agent="",
        handoff_at=None,
        handoff_version=0,
        holder=step.record.author,
        base_status="open",
        gates={},
        types={},
        files=0,
        created_at=step.record.at,
        created_by=step.record.author,
    )


def _task_changed(step: Step) -> None:
    changed = {name: step.body[name] for name in _DETAILS if name in step.body}
    step.details = {**step.old_details, **changed}
    if "status" in step.body:
        step.header["base_status"] = step.body["status"]


def _items_added(step: Step) -> None:
    """Records that only bring new items: a decision, a pattern or gotcha, a warning."""
    for letter, kind in KINDS.items():
        if letter != "h":
            for index in range(len(step.body.get(kind.field, ()))):
                _add_new(step, letter, index)


def _add_new(step: Step, letter: str, index: int) -> None:
    entry = entry_of(step.body, KINDS[letter].field, index)
    if letter == "k":
        step.add("k", index, status=entry["result"])
        step.header["gates"] = {**step.header["gates"], entry["name"]: entry["result"]}
        return
    row = step.add(letter, index)
    if letter == "a":
        _count_file(step, row)
    for target in entry.get("blocking_tasks", ()) if letter == "b" else ():
        step.links.append((row.address, "blocks", target))
    if letter == "d":
        _supersede(step, row, entry)


def _count_file(step: Step, row: ItemRow) -> None:
    """Keep count of the files of each type that a task has, without looking at its past."""
    known = step.known_paths.get(row.path)
    step.header["files"] += known is None
    if known == row.grade:
        return
    types = dict(step.header["types"])
    for name, change in ((known, -1), (row.grade, 1)):
        if name:
            types[name] = types.get(name, 0) + change
    step.header["types"] = {name: count for name, count in types.items() if count}


def _supersede(step: Step, row: ItemRow, entry: dict[str, Any]) -> None:
    for target in entry.get("supersedes", ()):
        address = parse_address(target)
        if address is not None and address.task == step.task:
            step.mark(address.letter, address.ordinal, "superseded", f"by {row.address}")
        else:
            step.links.append((row.address, "supersedes", target))


def _handed_off(step: Step) -> None:
    step.add("h", 0)
    for letter in ("d", "a", "p", "g", "w", "k"):
        for index in range(len(step.body.get(KINDS[letter].field, ()))):
            _add_new(step, letter, index)
    _resolve(step, step.body.get("resolves", ()))
    for letter in ("b", "n", "r", "q"):
        _carry(step, letter)
    _move(step)


def _resolve(step: Step, addresses: Iterable[str]) -> None:
    for text in addresses:
        address = parse_address(text)
        if address is not None and (address.letter, address.ordinal) in step.open:
            closing = KINDS[address.letter].closings[0]
            step.mark(address.letter, address.ordinal, closing, f"by {step.record.author}")


def _carry(step: Step, letter: str) -> None:
    """Bring the open items of a kind up to date with the list that the handoff gives.

    An entry that is open already, or listed twice, is one item. Blockers are the handoff's whole
    list; next steps and reading are too, when it lists any; a question stays open until it's
    answered.
    """
    entries = step.body.get(KINDS[letter].field, ())
    if not entries and not (letter == "b" and step.open):
        return
    marks = [fingerprint(entry) for entry in entries]
    known = {row.fingerprint for row in step.open_of(letter) if not _was_rejected(step, row)}
    if letter == "b" or (entries and letter in _REPLACED_WHEN_LISTED):
        for row in step.open_of(letter):
            if row.fingerprint not in known.intersection(marks):
                note = f"not repeated by {step.record.author}"
                step.mark(letter, row.ordinal, "replaced", note)
    for index, mark in enumerate(marks):
        if mark not in known:
            known.add(mark)
            _add_new(step, letter, index)
            if letter == "b" and entries[index].get("requires_human"):
                step.add("k", index, field="blockers", status="pending")


def _was_rejected(step: Step, row: ItemRow) -> bool:
    """A blocker whose gate was rejected has to be asked for anew, so it doesn't carry over."""
    gate = step.gate_of(row) if row.letter == "b" else None
    return gate is not None and gate.status == "rejected"


def _move(step: Step) -> None:
    """Phase, status, parties and inbox after a handoff."""
    body, header = step.body, step.header
    phase = body.get("phase")
    if phase:
        header["previous_phase"] = header["phase"]
        if phase != header["phase"]:
            header.update(phase=phase, phase_started_at=step.record.at)
    header.update(
        outcome=body["outcome"],
        context_summary=body.get("summary", ""),
        source_agent=body["from_agent"],
        target_agent=body.get("to_agent", ""),
        handoff_at=step.record.at,
        handoff_version=step.record.position,
        holder=body.get("to_agent") or body["from_agent"],
        base_status=status_after(body["outcome"], header["phase"]),
    )
    if "story" in body:
        header.update(story=body["story"], story_by=step.record.author)
    step.inbox = (body.get("to_agent", ""), step.is_held())


def status_after(outcome: str, phase: str) -> str:
    """The status of a task that was handed off so, in a phase."""
    if outcome in ("failed", "blocked"):
        return outcome
    return "completed" if phase == "completed" and outcome == "completed" else "open"


def _marked(step: Step) -> None:
    for mark in step.body["marks"]:
        address = parse_address(mark["item"])
        if address is None:
            continue
        step.mark(address.letter, address.ordinal, mark["status"], mark.get("reason", ""))
    _unblock(step)


def _unblock(step: Step) -> None:
    """Once nothing is in the way any more, a blocked task is open and its handoff delivered."""
    if step.header["base_status"] == "blocked" and not step.open_of("b"):
        step.header["base_status"] = "open"
    was_rejected = any(gate.status == "rejected" for gate in step.open_of("k"))
    if step.header["target_agent"] and not was_rejected:
        step.inbox = (step.header["target_agent"], step.is_held())


def _gate_answered(step: Step) -> None:
    address = parse_address(step.body["gate"])
    if address is None:
        return
    gate = step.open.get(("k", address.ordinal))
    note = f"by {step.body['by']}" + (f": {step.body['reason']}" if step.body["reason"] else "")
    if step.body["answer"] == "rejected":
        # A rejected gate stays in the way of the receiver until the task is handed off anew.
        at = step.record.position
        step.changed.append(StatusChange("k", address.ordinal, "rejected", True, at, note))
        # The task goes back to its sender, who has to hand it off anew.
        step.header["holder"] = step.header["source_agent"]
        step.inbox = (step.header["source_agent"], False)
        return
    step.mark("k", address.ordinal, "approved", note)
    if gate is not None:
        for row in step.open_of("b"):
            if row.position == gate.position and row.index == gate.index:
                step.mark("b", row.ordinal, "resolved", f"{gate.address} was approved")
    _unblock(step)


_HANDLERS: dict[str, Callable[[Step], None]] = {
    "task_created": _task_created,
    "task_changed": _task_changed,
    "handoff": _handed_off,
    "decided": _items_added,
    "noted": _items_added,
    "warned": _items_added,
    "gate_recorded": _items_added,
    "gate_answered": _gate_answered,
    "marked": _marked,
    "learned": lambda step: None,  # what it brings stands in the graph, not in the task
}

RECORD_KINDS = tuple(_HANDLERS)


def open_letters(kind: str, body: dict[str, Any]) -> tuple[str, ...]:
    """Which kinds of open items `changes` has to know for a record: no more than it touches."""
    if kind in ("marked", "gate_answered"):
        return ("b", "k", "n", "q", "r")
    if kind != "handoff":
        return ()
    listed = [letter for letter in ("n", "q", "r") if body.get(KINDS[letter].field)]
    resolved = [a.letter for a in map(parse_address, body.get("resolves", ())) if a is not None]
    return ("b", "k", *sorted({*listed, *resolved}.difference("bk")))


def settled_keys(task: str, body: dict[str, Any]) -> list[tuple[str, int]]:
    """The items of a task, open or not, whose status a record with this body may change."""
    named = [mark["item"] for mark in body.get("marks", ())]
    for decision in body.get("decisions", ()):
        named += decision.get("supersedes", ())
    found = [address for address in map(parse_address, named) if address is not None]
    return [(address.letter, address.ordinal) for address in found if address.task == task]


def paths_of(body: dict[str, Any]) -> list[str]:
    """The artifact paths in a body: `changes` has to know which of them the task had before."""
    return [artifact["path"] for artifact in body.get("artifacts", ())]


__all__ = [
    "NOTHING",
    "RECORD_KINDS",
    "Before",
    "Changes",
    "changes",
    "open_letters",
    "paths_of",
    "prepared_items",
    "settled_keys",
    "status_after",
]

"""The fold: what one more record changes in the derived rows of its task. Pure, no database.

Writing, rebuilding and looking back all use `changes`: the ledger applies its answer inside the
transaction that appends the record, `reindex` applies the same answers to empty tables, and a past
version is the same fold over fewer records. So the three can't disagree.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.model.items import entry_of, fingerprint, grade_of, title_of
from passdown.model.kinds import KINDS, parse_address, task_of
from passdown.model.rows import ItemRow, StatusChange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from passdown.model.record import Record


# Kinds of items of which nobody asks whether the same one was recorded before.
_NEVER_REPEATED = "hak"

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


class Before(NamedTuple):
    """What `changes` needs to know of a task: never its past, only where it stands."""

    details: dict[str, Any]
    header: dict[str, Any]
    open_items: tuple[ItemRow, ...]
    known_paths: Mapping[str, str] = MappingProxyType({})
    status: str = ""


class Changes(NamedTuple):
    """What one record does. `links` are (source address, relation, target); `unlinked` closes every
    link of a source. `inbox` is (agent, held), ("", False) to clear it, None to leave it alone.
    """

    details: dict[str, Any] | None
    header: dict[str, Any]
    added: list[ItemRow]
    changed: list[StatusChange]
    links: list[tuple[str, str, str]]
    unlinked: list[str]
    inbox: tuple[str, bool] | None


NOTHING = Before({}, {}, ())


def changes(before: Before, record: Record, body: dict[str, Any]) -> Changes:
    """What `record` (with `body` as its parsed content) changes in the rows of its task."""
    step = _Step(before, record, body)
    _HANDLERS[record.kind](step)
    return step.result()


class _Step:
    """The changes of one record while they are being worked out."""

    def __init__(self, before: Before, record: Record, body: dict[str, Any]) -> None:
        self.record = record
        self.body = body
        self.task = task_of(record.stream) or ""
        self.details: dict[str, Any] | None = None
        self.old_details = before.details
        self.header: dict[str, Any] = {
            **before.header,
            "counts": dict(before.header.get("counts", {})),
            "updated_at": record.at,
        }
        self.known_paths = before.known_paths
        self.open = {(row.letter, row.ordinal): row for row in before.open_items}
        self.added: list[ItemRow] = []
        self.changed: list[StatusChange] = []
        self.links: list[tuple[str, str, str]] = []
        self.unlinked: list[str] = []
        self.inbox: tuple[str, bool] | None = None

    def result(self) -> Changes:
        return Changes(
            self.details,
            self.header,
            self.added,
            self.changed,
            self.links,
            self.unlinked,
            self.inbox,
        )

    def add(self, letter: str, index: int, *, field: str = "", status: str = "") -> ItemRow:
        """Add the item that stands at `field[index]` of the body, numbered within its kind."""
        kind = KINDS[letter]
        field = field or kind.field
        entry = entry_of(self.body, field, index)
        counts = self.header["counts"]
        counts[letter] = counts.get(letter, 0) + 1
        status = status or entry.get("status") or kind.starts
        row = ItemRow(
            task=self.task,
            letter=letter,
            ordinal=counts[letter],
            position=self.record.position,
            field=field,
            index=index,
            status=status,
            is_open=kind.is_open and status == kind.starts,
            title=title_of(entry, "blocker" if field == "blockers" else kind.text),
            fingerprint="" if letter in _NEVER_REPEATED else fingerprint(entry),
            path=entry["path"] if letter == "a" else "",
            grade=grade_of(letter, entry),
        )
        self.added.append(row)
        if row.is_open:
            self.open[letter, row.ordinal] = row
        return row

    def mark(self, letter: str, ordinal: int, status: str, note: str) -> None:
        """Give an item another status; what leaves the open items also lets go of its links."""
        row = self.open.pop((letter, ordinal), None)
        self.changed.append(
            StatusChange(letter, ordinal, status, False, self.record.position, note)
        )
        if row is not None and letter == "b":
            self.unlinked.append(row.address)
            gate = self.gate_of(row)
            if gate is not None:
                self._withdraw(gate, f"{row.address}: {status}")

    def _withdraw(self, gate: ItemRow, note: str) -> None:
        """A gate whose blocker is gone asks nothing any more; an answer it had stays its answer."""
        if gate.status == "pending":
            self.mark("k", gate.ordinal, "withdrawn", note)
            return
        del self.open["k", gate.ordinal]
        kept = StatusChange("k", gate.ordinal, gate.status, False, gate.closed_at, gate.note)
        self.changed.append(kept)

    def gate_of(self, blocker: ItemRow) -> ItemRow | None:
        """The open gate that a blocker asked for: both point to the same entry of one record."""
        place = (blocker.position, blocker.index)
        return next((k for k in self.open_of("k") if (k.position, k.index) == place), None)

    def open_of(self, letter: str) -> list[ItemRow]:
        return [row for row in self.open.values() if row.letter == letter]

    def is_held(self) -> bool:
        """Whether a human gate still waits for an answer or was answered with no."""
        return bool(self.open_of("k"))


def _task_created(step: _Step) -> None:
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


def _task_changed(step: _Step) -> None:
    changed = {name: step.body[name] for name in _DETAILS if name in step.body}
    step.details = {**step.old_details, **changed}
    if "status" in step.body:
        step.header["base_status"] = step.body["status"]


def _items_added(step: _Step) -> None:
    """Records that only bring new items: a decision, a pattern or gotcha, a warning."""
    for letter, kind in KINDS.items():
        if letter != "h":
            for index in range(len(step.body.get(kind.field, ()))):
                _add_new(step, letter, index)


def _add_new(step: _Step, letter: str, index: int) -> None:
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


def _count_file(step: _Step, row: ItemRow) -> None:
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


def _supersede(step: _Step, row: ItemRow, entry: dict[str, Any]) -> None:
    for target in entry.get("supersedes", ()):
        address = parse_address(target)
        if address is not None and address.task == step.task:
            step.mark(address.letter, address.ordinal, "superseded", f"by {row.address}")
        else:
            step.links.append((row.address, "supersedes", target))


def _handed_off(step: _Step) -> None:
    step.add("h", 0)
    for letter in ("d", "a", "p", "g", "w", "k"):
        for index in range(len(step.body.get(KINDS[letter].field, ()))):
            _add_new(step, letter, index)
    _resolve(step, step.body.get("resolves", ()))
    for letter in ("b", "n", "r", "q"):
        _carry(step, letter)
    _move(step)


def _resolve(step: _Step, addresses: Iterable[str]) -> None:
    for text in addresses:
        address = parse_address(text)
        if address is not None and (address.letter, address.ordinal) in step.open:
            closing = KINDS[address.letter].closings[0]
            step.mark(address.letter, address.ordinal, closing, f"by {step.record.author}")


def _carry(step: _Step, letter: str) -> None:
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


def _was_rejected(step: _Step, row: ItemRow) -> bool:
    """A blocker whose gate was rejected has to be asked for anew, so it doesn't carry over."""
    gate = step.gate_of(row) if row.letter == "b" else None
    return gate is not None and gate.status == "rejected"


def _move(step: _Step) -> None:
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
        base_status=_status_after(body["outcome"], header["phase"]),
    )
    step.inbox = (body.get("to_agent", ""), step.is_held())


def _status_after(outcome: str, phase: str) -> str:
    if outcome in ("failed", "blocked"):
        return outcome
    return "completed" if phase == "completed" and outcome == "completed" else "open"


def _marked(step: _Step) -> None:
    for mark in step.body["marks"]:
        address = parse_address(mark["item"])
        if address is None:
            continue
        step.mark(address.letter, address.ordinal, mark["status"], mark.get("reason", ""))
    _unblock(step)


def _unblock(step: _Step) -> None:
    """Once nothing is in the way any more, a blocked task is open and its handoff delivered."""
    if step.header["base_status"] == "blocked" and not step.open_of("b"):
        step.header["base_status"] = "open"
    was_rejected = any(gate.status == "rejected" for gate in step.open_of("k"))
    if step.header["target_agent"] and not was_rejected:
        step.inbox = (step.header["target_agent"], step.is_held())


def _gate_answered(step: _Step) -> None:
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


_HANDLERS: dict[str, Callable[[_Step], None]] = {
    "task_created": _task_created,
    "task_changed": _task_changed,
    "handoff": _handed_off,
    "decided": _items_added,
    "noted": _items_added,
    "warned": _items_added,
    "gate_recorded": _items_added,
    "gate_answered": _gate_answered,
    "marked": _marked,
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
]

"""The fold: what one more record changes in its task's derived rows, and their replay."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from passdown.core.documents import (
    answer_note,
    header_fields,
    item_document,
    kept_answer,
    status_fields,
    summary_facts,
    with_status,
)
from passdown.core.items import (
    STOPPED,
    Sizes,
    context_summary_of,
    entry_of,
    fingerprint,
    grade_of,
    item_sizes,
    labels_of,
    sizes_text,
    title_of,
)
from passdown.core.kinds import KINDS, LIVE, parse_address, task_of
from passdown.core.record import Record
from passdown.core.rows import InboxRow, ItemRow, LabelRow, LinkRow, StatusChange, is_holding
from passdown.core.types import JsonObject
from passdown.core.values import NamedTuple

# Kinds of items that are never compared with earlier ones.
_NEVER_REPEATED = "hak"


class PreparedItem(NamedTuple):
    """What a row holds of an entry, apart from its number and its position."""

    title: str
    fingerprint: str
    path: str
    grade: str
    labels: tuple[str, ...]
    sizes: Sizes | None


PreparedItems = Mapping[tuple[str, str, int], PreparedItem]
"""The entries of a body, prepared, by letter, field and place."""

NOT_PREPARED: PreparedItems = MappingProxyType({})


def prepare_item(letter: str, field: str, entry: dict[str, Any], *, sized: bool) -> PreparedItem:
    """Prepare one entry; its sizes are counted only if they are wanted."""
    return PreparedItem(
        title=title_of(entry, "blocker" if field == "blockers" else KINDS[letter].text),
        fingerprint="" if letter in _NEVER_REPEATED else fingerprint(entry),
        path=entry["path"] if letter == "a" else "",
        grade=grade_of(letter, entry),
        labels=tuple(labels_of(letter, entry)),
        sizes=item_sizes(letter, entry) if sized else None,
    )


def prepare_items(body: dict[str, Any]) -> PreparedItems:
    """Prepare the items of a body beforehand: it takes time, and writers wait for each other."""
    found: dict[tuple[str, str, int], PreparedItem] = {}
    for letter, kind in KINDS.items():
        count = ("outcome" in body) if letter == "h" else len(body.get(kind.field, ()))
        for index in range(count):
            entry = entry_of(body, kind.field, index)
            found[letter, kind.field, index] = prepare_item(letter, kind.field, entry, sized=True)
    return found


def first_status(letter: str, field: str, entry: dict[str, Any]) -> str:
    """The status that an item begins with."""
    if letter == "k":
        return "pending" if field == "blockers" else entry["result"]
    return entry.get("status") or KINDS[letter].starts


class TaskBefore(NamedTuple):
    """What `fold_record` needs to know of a task: its current rows, never its history.

    `settled` has the status of items that aren't open and that the record names, `facts` the
    newest fact of each key that it states.
    """

    details: dict[str, Any]
    header: dict[str, Any]
    open_items: tuple[ItemRow, ...]
    known_paths: Mapping[str, str] = MappingProxyType({})
    status: str = ""
    settled: Mapping[tuple[str, int], str] = MappingProxyType({})
    facts: Mapping[str, ItemRow] = MappingProxyType({})


NO_TASK = TaskBefore({}, {}, ())


class Changes:
    """What one record changes. `links` are (source address, relation, target); `unlinked` closes
    every link of a source. `inbox` is (agent, held), ("", False) to clear it, None to leave it.
    `answer` is what a handoff answers, but for the newest decisions.
    """

    def __init__(
        self,
        before: TaskBefore,
        record: Record,
        body: dict[str, Any],
        *,
        sized: bool,
        items: PreparedItems,
    ) -> None:
        """Begin with the task's current rows."""
        self._sized = sized
        self._items = items
        self.record = record
        self.body = body
        self.task = task_of(record.stream) or ""
        self.details: dict[str, Any] | None = None
        self.before = before
        self.header: dict[str, Any] = {
            **before.header,
            "counts": dict(before.header.get("counts", {})),
            "live": dict(before.header.get("live", {})),
            "updated_at": record.at,
        }
        self.known_paths = before.known_paths
        self.open = {(row.letter, row.ordinal): row for row in before.open_items}
        self.added: list[ItemRow] = []
        self.changed: list[StatusChange] = []
        self.links: list[tuple[str, str, str]] = []
        self.unlinked: list[str] = []
        self.inbox: tuple[str, bool] | None = None
        self.labels: list[LabelRow] = []
        self.answer: dict[str, Any] = {}
        self.facts = dict(before.facts)
        self._settled = {("f", row.ordinal): row.status for row in self.facts.values()}
        self._settled |= before.settled

    def add(self, letter: str, index: int, *, field: str = "") -> ItemRow:
        """Add the item at `field[index]` of the body, numbered within its kind."""
        kind = KINDS[letter]
        field = field or kind.field
        entry = entry_of(self.body, field, index)
        known = self._items.get((letter, field, index))
        if known is None:
            known = prepare_item(letter, field, entry, sized=self._sized)
        counts = self.header["counts"]
        ordinal = counts[letter] = counts.get(letter, 0) + 1
        status = first_status(letter, field, entry)
        row = ItemRow(
            task=self.task,
            letter=letter,
            ordinal=ordinal,
            position=self.record.position,
            field=field,
            index=index,
            status=status,
            is_open=kind.is_open and status == kind.starts,
            title=known.title,
            fingerprint=known.fingerprint,
            path=known.path,
            grade=known.grade,
            sizes=sizes_text(known.sizes, ordinal) if known.sizes else "",
        )
        self.added.append(row)
        self._settled[letter, row.ordinal] = status
        self._count_live(letter, "", status)
        self._file(row, known.labels)
        if row.is_open:
            self.open[letter, row.ordinal] = row
        return row

    def _file(self, row: ItemRow, labels: tuple[str, ...]) -> None:
        if labels:
            self.labels += [LabelRow(self.task, name, row.letter, row.ordinal) for name in labels]
            self.header["labels"] = self.header.get("labels", 0) + len(labels)

    def _count_live(self, letter: str, old: str, new: str) -> None:
        """Keep count of the items of each kind that still hold."""
        change = (new in LIVE) - (old in LIVE)
        if change and letter not in "hak":
            live = self.header["live"]
            live[letter] = live.get(letter, 0) + change

    def mark(self, letter: str, ordinal: int, status: str, note: str) -> None:
        """Change the status of an item; one that is closed also loses its links."""
        row = self.open.pop((letter, ordinal), None)
        old = row.status if row else self._settled.get((letter, ordinal), "")
        self._settled[letter, ordinal] = status
        self._count_live(letter, old, status)
        at = self.record.position
        # The result of a check is shown until the next handoff, so it stays among what is open.
        is_kept = letter == "c" and row is not None and status in KINDS["c"].closings
        self.changed.append(StatusChange(letter, ordinal, status, is_kept, at, note))
        if is_kept and row is not None:
            self.open[letter, ordinal] = row._replace(status=status, closed_at=at, note=note)
        if row is not None and letter == "b":
            self.unlinked.append(row.address)
            gate = self.gate_of(row)
            if gate is not None and gate.status == "pending":
                self.mark("k", gate.ordinal, "withdrawn", f"{row.address}: {status}")
            elif gate is not None:
                self.close_answered(gate)

    def close_answered(self, row: ItemRow) -> None:
        """Count an item among what is open no longer, with the answer that it has."""
        del self.open[row.letter, row.ordinal]
        kept = (row.letter, row.ordinal, row.status, False, row.closed_at, row.note)
        self.changed.append(StatusChange(*kept))

    def gate_of(self, blocker: ItemRow) -> ItemRow | None:
        """The open gate of a blocker: both point to the same entry of one record."""
        place = (blocker.position, blocker.index)
        return next((k for k in self.open_of("k") if (k.position, k.index) == place), None)

    def open_of(self, letter: str) -> list[ItemRow]:
        """The open items of a kind."""
        return [row for row in self.open.values() if row.letter == letter]

    def is_held(self) -> bool:
        """Whether a human gate is pending, or rejected since the last handoff."""
        return any(is_holding(gate, self.header) for gate in self.open_of("k"))


_DETAILS = (
    *("title", "description", "inputs", "outputs", "criteria", "depends_on", "time_limit_minutes"),
)

_CURRENT = ("b", "n", "r")
"""The kinds of which a handoff can give the current list."""


def fold_record(
    before: TaskBefore,
    record: Record,
    body: dict[str, Any],
    *,
    sized: bool = True,
    items: PreparedItems = NOT_PREPARED,
) -> Changes:
    """What `record` (with `body` as its parsed content) changes in the rows of its task.

    Without `sized`, rows lack their sizes: looking back doesn't need them, and counting takes time.
    `items` are the body's entries, where they have been prepared.
    """
    step = Changes(before, record, body, sized=sized, items=items)
    _HANDLERS[record.kind](step)
    return step


def _task_created(step: Changes) -> None:
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


def _task_changed(step: Changes) -> None:
    changed = {name: step.body[name] for name in _DETAILS if name in step.body}
    step.details = {**step.before.details, **changed}
    if "status" in step.body:
        step.header["base_status"] = step.body["status"]
    if "holder" in step.body:
        step.header["claimed_by"] = step.body["holder"]
        step.header["holder"] = step.body["holder"] or step.header["holder"]


def _items_added(step: Changes) -> None:
    """Records that only bring new items: a decision, a pattern or gotcha, a warning."""
    for letter, kind in KINDS.items():
        if letter != "h":
            for index in range(len(step.body.get(kind.field, ()))):
                _add_new(step, letter, index)


def _add_new(step: Changes, letter: str, index: int) -> None:
    entry = entry_of(step.body, KINDS[letter].field, index)
    if letter == "k":
        step.add("k", index)
        step.header["gates"] = {**step.header["gates"], entry["name"]: entry["result"]}
        return
    row = step.add(letter, index)
    if letter == "a":
        _count_file(step, row)
    for target in entry.get("blocking_tasks", ()) if letter == "b" else ():
        step.links.append((row.address, "blocks", target))
    if letter == "d":
        _supersede(step, row, entry)
    if letter == "f":
        _replace_fact(step, row, entry)


MAX_WAS = 80
"""How much of the value before is kept with a fact; `show` has it whole."""


def _replace_fact(step: Changes, row: ItemRow, entry: dict[str, Any]) -> None:
    """The last value of a key holds; a new one says which it was before."""
    key = entry["key"]
    old = step.facts.get(key)
    if old is not None:
        step.mark("f", old.ordinal, "superseded", f"by {row.address}")
        before, now = (each.title.removeprefix(key).removeprefix(": ") for each in (old, row))
        was = before if before != now else "" if old.closed_at else old.note
        was = was if len(was) <= MAX_WAS else was[: MAX_WAS - 1] + "…"
        if was:
            sized = item_sizes("f", {**entry, "was": was}) if row.sizes else None
            row = row._replace(
                note=was, sizes=sizes_text(sized, row.ordinal) if sized else row.sizes
            )
            step.added[-1] = row
    step.facts[key] = row


def _count_file(step: Changes, row: ItemRow) -> None:
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


def _supersede(step: Changes, row: ItemRow, entry: dict[str, Any]) -> None:
    for target in entry.get("supersedes", ()):
        address = parse_address(target)
        if address is not None and address.task == step.task:
            step.mark(address.letter, address.ordinal, "superseded", f"by {row.address}")
        else:
            step.links.append((row.address, "supersedes", target))


def _handed_off(step: Changes) -> None:
    step.add("h", 0)
    for name in ("closed", "claimed_by"):
        step.header.pop(name, None)
    for letter in ("d", "a", "p", "g", "w", "f", "k"):
        for index in range(len(step.body.get(KINDS[letter].field, ()))):
            _add_new(step, letter, index)
    for text in step.body.get("resolves", ()):
        address = parse_address(text)
        if address is not None and (address.letter, address.ordinal) in step.open:
            closing = KINDS[address.letter].closings[0]
            step.mark(address.letter, address.ordinal, closing, f"by {step.record.author}")
    for letter in ("b", "n", "r", "q"):
        _carry(step, letter)
    _set_preconditions(step)
    _move(step)
    grade = "proven" if step.header.get("proven") else ""
    step.answer = _answer(step)
    note = answer_note(kept_answer(step.answer, step.record, step.body))
    step.added[0] = step.added[0]._replace(note=note, grade=grade)


def _answer(step: Changes) -> dict[str, Any]:
    """What a repeat of a handoff answers that its record doesn't say: see `kept_answer`."""
    old, new = header_fields(step.before.header), header_fields(step.header)
    changed = {name: value for name, value in new.items() if old[name] != value}
    if "context_summary" in changed:
        changed["context_summary"] = ""  # the record has it
    return {
        **summary_facts(step.header, list(step.open.values())),
        "title": step.before.details["title"],
        "set": changed,
        "change": {f"{step.task}#{c.letter}{c.ordinal}": status_fields(c) for c in step.changed},
    }


def _carry(step: Changes, letter: str) -> None:
    """Bring the open items of a kind up to date with the list that the handoff gives.

    An entry that is open already, or listed twice, is one item. Where the handoff gives the current
    list, what isn't in it is closed; a question stays open until it's answered. So does a blocker
    that a person rejected, unless it is listed again: then the person is asked again.
    """
    entries = step.body.get(KINDS[letter].field, ())
    is_current = letter in current_letters(step.body)
    marks = [fingerprint(entry) for entry in entries]
    known = {row.fingerprint for row in step.open_of(letter) if not _was_rejected(step, row)}
    for row in step.open_of(letter):
        if row.grade == STOPPED:  # whoever hands off next had what ran out
            step.mark(letter, row.ordinal, "resolved", f"by {step.record.author}")
            known.discard(row.fingerprint)
        elif _stays_rejected(step, row):
            if row.fingerprint in marks:
                step.mark(letter, row.ordinal, "replaced", f"asked again by {step.record.author}")
        elif row.fingerprint not in (known.intersection(marks) if is_current else known):
            note = f"not repeated by {step.record.author}"
            step.mark(letter, row.ordinal, "replaced", note)
            if "lists" in step.body:
                step.header.setdefault("closed", []).append(row.address)
    for index, mark in enumerate(marks):
        if mark not in known:
            known.add(mark)
            _add_new(step, letter, index)
            if letter == "b" and entries[index].get("requires_human"):
                step.add("k", index, field="blockers")


def current_letters(body: dict[str, Any]) -> tuple[str, ...]:
    """The kinds of which a handoff gives the current list.

    A record from before handoffs said which lists they give is read by the rule of its time: the
    blockers always, the others where it lists any.
    """
    if "lists" in body:
        return tuple(letter for letter in _CURRENT if KINDS[letter].field in body["lists"])
    return ("b", *(letter for letter in _CURRENT[1:] if body.get(KINDS[letter].field)))


def _set_preconditions(step: Changes) -> None:
    """What has to be checked is what this handoff says; a result of an earlier check is kept. A
    question to a person is a question like others, and stays open until it's answered.
    """
    for row in step.open_of("c"):
        if row.status == "open":
            step.mark("c", row.ordinal, "replaced", f"handed off by {step.record.author}")
        else:
            step.close_answered(row)
    known = {row.fingerprint for row in step.open_of("q")}
    for index, entry in enumerate(step.body.get("preconditions", ())):
        if "question" not in entry:
            step.add("c", index)
        elif fingerprint(entry_of(step.body, "preconditions", index)) not in known:
            known.add(step.add("q", index, field="preconditions").fingerprint)


def is_proven(body: dict[str, Any]) -> bool:
    """Whether a handoff shows that its work is done: it has evidence, or its gates have passed."""
    gates = [gate["result"] for gate in body.get("gates", ())]
    return bool(body.get("evidence")) or (bool(gates) and "failed" not in gates)


def _was_rejected(step: Changes, row: ItemRow) -> bool:
    """A blocker whose gate was rejected needs a new answer, so it isn't carried over."""
    gate = step.gate_of(row) if row.letter == "b" else None
    return gate is not None and gate.status == "rejected"


def _stays_rejected(step: Changes, row: ItemRow) -> bool:
    """Whether only a person can settle a rejected blocker. Before rejections said that they stay,
    the next handoff closed it.
    """
    gate = step.gate_of(row) if row.letter == "b" else None
    return gate is not None and gate.address in step.header.get("rejected", ())


def _move(step: Changes) -> None:
    """Phase, status, parties and inbox after a handoff."""
    body, header = step.body, step.header
    phase = body.get("phase")
    if phase:
        header["previous_phase"] = header["phase"]
        if phase != header["phase"]:
            header.update(phase=phase, phase_started_at=step.record.at)
    header.update(
        outcome=body["outcome"],
        # What was said stays until something else is.
        context_summary=context_summary_of(body) or header["context_summary"],
        source_agent=body["from_agent"],
        target_agent=body.get("to_agent", ""),
        handoff_at=body.get("at") or step.record.at,
        handoff_version=step.record.position,
        holder=body.get("to_agent") or body["from_agent"],
        base_status=status_after(body, header),
    )
    header.pop("proven", None)
    if is_proven(body):
        header["proven"] = True
    if "story" in body:
        header.update(story=body["story"], story_by=step.record.author)
    step.inbox = (body.get("to_agent", ""), step.is_held())


COMPLETED = "completed"
"""The phase that completes a task in any workspace; another one's name is in the record."""


def status_after(body: dict[str, Any], header: dict[str, Any]) -> str:
    """The status of a task that was handed off so; `header` is that of the task before or after."""
    outcome = body["outcome"]
    if outcome in ("failed", "blocked"):
        return outcome
    is_last = (body.get("phase") or header["phase"]) in (COMPLETED, body.get("completes"))
    return "completed" if is_last and outcome == "completed" else "open"


def _marked(step: Changes) -> None:
    for mark in step.body["marks"]:
        if address := parse_address(mark["item"]):
            step.mark(address.letter, address.ordinal, mark["status"], mark.get("reason", ""))
    _unblock(step)


def _unblock(step: Changes) -> None:
    """Once no blocker is open, reopen a blocked task and deliver its handoff."""
    if step.header["base_status"] == "blocked" and not step.open_of("b"):
        step.header["base_status"] = "open"
    gates = step.open_of("k")
    was_rejected = any(k.status == "rejected" and is_holding(k, step.header) for k in gates)
    if step.header["target_agent"] and not was_rejected:
        step.inbox = (step.header["target_agent"], step.is_held())


def _gate_answered(step: Changes) -> None:
    address = parse_address(step.body["gate"])
    if address is None:
        return
    gate = step.open.get(("k", address.ordinal))
    note = f"by {step.body['by']}" + (f": {step.body['reason']}" if step.body["reason"] else "")
    if step.body["answer"] == "rejected":
        # A rejected gate holds the receiver back until the task is handed off again.
        at = step.record.position
        step.changed.append(StatusChange("k", address.ordinal, "rejected", True, at, note))
        # The task goes back to its sender, who has to hand it off again.
        step.header["holder"] = step.header["source_agent"]
        step.inbox = (step.header["source_agent"], False)
        if step.body.get("stays"):
            earlier = step.header.get("rejected", ())
            kept = [gate.address for gate in step.open_of("k") if gate.address in earlier]
            step.header["rejected"] = [*kept, step.body["gate"]]
        return
    if gate is not None and gate.status == "rejected" and is_holding(gate, step.header):
        step.header["holder"] = step.header["target_agent"] or step.header["holder"]
    step.mark("k", address.ordinal, "approved", note)
    if gate is not None:
        for row in step.open_of("b"):
            if row.position == gate.position and row.index == gate.index:
                step.mark("b", row.ordinal, "resolved", f"{gate.address} was approved")
    _unblock(step)


_HANDLERS: dict[str, Callable[[Changes], None]] = {
    "task_created": _task_created,
    "task_changed": _task_changed,
    "handoff": _handed_off,
    "decided": _items_added,
    "noted": _items_added,
    "warned": _items_added,
    "gate_recorded": _items_added,
    "gate_answered": _gate_answered,
    "marked": _marked,
    "learned": lambda step: None,  # it changes the graph, not the task
}

RECORD_KINDS = tuple(_HANDLERS)


def open_letters(kind: str, body: dict[str, Any]) -> tuple[str, ...]:
    """Which kinds of open items `changes` has to know for a record: no more than it touches."""
    if kind in ("marked", "gate_answered"):
        return ("b", "c", "k", "n", "q", "r")
    if kind != "handoff":
        return ()
    listed = [x for x in _CURRENT if x in current_letters(body) or body.get(KINDS[x].field)]
    resolved = [a.letter for a in map(parse_address, body.get("resolves", ())) if a is not None]
    # Next steps in any case: a warning names those that stay open.
    return ("b", "c", "k", "n", "q", *sorted({*listed, *resolved}.difference("bcknq")))


def settled_keys(task: str, body: dict[str, Any]) -> list[tuple[str, int]]:
    """The items of a task, open or not, whose status a record with this body may change."""
    named = [mark["item"] for mark in body.get("marks", ())]
    for decision in body.get("decisions", ()):
        named += decision.get("supersedes", ())
    found = [address for address in map(parse_address, named) if address is not None]
    return [(address.letter, address.ordinal) for address in found if address.task == task]


def fact_keys(body: dict[str, Any]) -> list[str]:
    """The keys of the facts in a body: `changes` has to know what each was before."""
    return sorted({fact["key"] for fact in body.get("facts", ())})


def paths_of(body: dict[str, Any]) -> list[str]:
    """The artifact paths in a body: `changes` has to know which of them the task had before."""
    return [artifact["path"] for artifact in body.get("artifacts", ())]


Visit = Callable[[TaskBefore, Record], None]
Seen = Callable[[Record, dict[str, Any], list[ItemRow]], None]


class Replayed(NamedTuple):
    """The derived rows of one task, rebuilt from its records."""

    details: JsonObject
    header: JsonObject
    rows: dict[tuple[str, int], ItemRow]
    documents: dict[tuple[str, int], JsonObject]
    links: dict[tuple[str, str, str], LinkRow]
    inbox: InboxRow | None
    labels: list[LabelRow]
    first_seq: int
    last: Record


def replay(
    records: Iterable[Record],
    visit: Visit | None = None,
    *,
    seen: Seen | None = None,
    sized: bool = False,
    with_documents: bool = True,
) -> Replayed | None:
    """Fold a task's records, in order, from nothing; None when there are none.

    `visit` sees each record with the state of the task before it, and may stop by raising; `seen`
    sees it afterwards with its content and its new items. The sizes of items are counted
    only on request. Without documents, what is kept doesn't grow with the texts.
    """
    details, header = JsonObject(), JsonObject()
    rows: dict[tuple[str, int], ItemRow] = {}
    documents: dict[tuple[str, int], JsonObject] = {}
    open_rows: dict[tuple[str, int], ItemRow] = {}
    paths: dict[str, str] = {}
    facts: dict[str, int] = {}
    links: dict[tuple[str, str, str], LinkRow] = {}
    inbox: InboxRow | None = None
    labels: list[LabelRow] = []
    first_seq = 0
    last: Record | None = None
    for record in records:
        first_seq = first_seq or record.seq
        body = record.document()
        known = {path: paths[path] for path in paths_of(body) if path in paths}
        before = NO_TASK
        if header:
            keys = settled_keys(task_of(record.stream) or "", body)
            settled = {key: rows[key].status for key in keys if key in rows}
            stated = {key: rows["f", facts[key]] for key in fact_keys(body) if key in facts}
            before = TaskBefore(
                details, header, tuple(open_rows.values()), known, "", settled, stated
            )
        if visit is not None:
            visit(before, record)
        step = fold_record(before, record, body, sized=sized)
        if seen is not None:
            seen(record, body, step.added)
        labels += step.labels
        details, header, last = step.details or details, step.header, record
        for row in step.added:
            rows[row.letter, row.ordinal] = row
            if with_documents:
                documents[row.letter, row.ordinal] = item_document(row, record, body)
            if row.path:
                paths[row.path] = row.grade
        facts |= {key: row.ordinal for key, row in step.facts.items()}
        _apply_statuses(step, rows, documents, open_rows)
        _relink(links, step, record.seq)
        if step.inbox is not None:
            agent, held = step.inbox
            inbox = InboxRow(agent, step.task, header["handoff_version"], held) if agent else None
    if last is None:
        return None
    return Replayed(details, header, rows, documents, links, inbox, labels, first_seq, last)


def _relink(links: dict[tuple[str, str, str], LinkRow], step: Changes, seq: int) -> None:
    for key, link in links.items():
        if link.source in step.unlinked and not link.closed_seq:
            links[key] = link._replace(closed_seq=seq)
    for key in step.links:
        links.setdefault(key, LinkRow(*key, seq))


def _apply_statuses(
    step: Changes,
    rows: dict[tuple[str, int], ItemRow],
    documents: dict[tuple[str, int], JsonObject],
    open_rows: dict[tuple[str, int], ItemRow],
) -> None:
    """Bring rows, documents and what is open up to date with a step."""
    for change in step.changed:
        key = (change.letter, change.ordinal)
        if key in rows:
            rows[key] = rows[key]._replace(**change._asdict())
            if key in documents:
                documents[key] = with_status(documents[key], status_fields(change))
    for each in (*step.added, *step.changed):
        key = (each.letter, each.ordinal)
        if key in rows and rows[key].is_open:
            open_rows[key] = rows[key]
        else:
            open_rows.pop(key, None)

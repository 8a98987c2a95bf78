"""State documents and deltas: the JSON forms in which a task is read and compared."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from passdown.core.items import STOPPED, context_summary_of, entry_of
from passdown.core.kinds import KINDS, STATE_SCHEMA, task_of
from passdown.core.record import Record
from passdown.core.rows import ItemRow, StatusChange, is_holding
from passdown.core.types import JsonObject

HEADER_FIELDS = (
    *("phase", "previous_phase", "phase_started_at", "outcome", "context_summary", "source_agent"),
    *("target_agent", "handoff_at", "created_at", "created_by", "updated_at"),
)

_MARK = '  "checksum": "sha256:'

LISTS = {kind.letter: "handoffs" if kind.letter == "h" else kind.field for kind in KINDS.values()}


def with_checksum(content: str) -> str:
    """The text of a state file, but for its last field, with that: a checksum of what is before."""
    return f'{content}{_MARK}{_checksum(content)}"\n}}\n'


def is_intact(text: str) -> bool:
    """Whether a state file is as it was written, by its own checksum."""
    content, mark, ending = text.rpartition(_MARK)
    return bool(mark) and ending == f'{_checksum(content)}"\n}}\n'


def is_torn(text: str) -> bool:
    """Whether a state file is what a power cut leaves of one: nothing, or zeros for text."""
    return not text or "\x00" in text


def _checksum(content: str) -> str:
    import hashlib

    return hashlib.sha256(content.encode()).hexdigest()


def item_document(row: ItemRow, record: Record, body: JsonObject) -> JsonObject:
    """One item with everything that is known of it, and where it came from."""
    entry = entry_of(body, row.field, row.index)
    document: JsonObject = {
        "address": row.address,
        **entry,
        "status": row.status,
        "agent": entry.get("agent") or record.author,
        "at": entry.get("at") or record.at,
        "version": row.position,
    }
    if row.closed_at:
        document["status_version"] = row.closed_at
    if row.letter == "f" and row.note and not row.closed_at:
        document["was"] = row.note
    elif row.note and row.letter != "h":
        document["status_note"] = row.note
    if row.status == "superseded":
        document["superseded_by"] = row.note.removeprefix("by ")
    if row.letter == "c" and entry.get("file") in body.get("cited", {}):
        document.setdefault("sha256", body["cited"][entry["file"]])
    if row.letter == "k" and row.field == "blockers":
        document.update(name="human approval", kind="human", blocker=entry["blocker"])
    return document


def state_document(
    head: tuple[str, int, str],
    details: JsonObject,
    header: JsonObject,
    items: Iterable[tuple[str, JsonObject]],
) -> JsonObject:
    """The whole state of a task; `head` is (task, version, digest), `items` (letter, document)."""
    task, version, digest = head
    return {
        "schema": STATE_SCHEMA,
        "task_id": task,
        "version": version,
        "digest": digest,
        **details,
        **header_fields(header),
        **_lists(items),
    }


def header_fields(header: JsonObject) -> JsonObject:
    """What a state document says of a task that changes with its records, without its items."""
    return {
        **{name: header[name] for name in HEADER_FIELDS},
        "status": header["base_status"],
        **gate_results(header),
    }


def _lists(items: Iterable[tuple[str, JsonObject]]) -> dict[str, list[JsonObject]]:
    """The lists of a state; an artifact takes the place of an older one with the same path."""
    lists: dict[str, list[JsonObject]] = {name: [] for name in LISTS.values()}
    artifacts: dict[str, JsonObject] = {}
    for letter, document in items:
        if letter == "a":
            artifacts.pop(document["path"], None)
            artifacts[document["path"]] = document
        else:
            lists[LISTS[letter]].append(document)
    lists[LISTS["a"]] = list(artifacts.values())
    lists["facts"] = [fact for fact in lists.get("facts", ()) if fact["status"] != "superseded"]
    return {name: part for name, part in lists.items() if part or name not in ADDED_LATER}


ADDED_LATER = ("facts", "preconditions")
"""Lists that a state without entries in them doesn't have: states written before had none."""


_USUALLY_EMPTY = ("artifacts", "blockers", "gates_failed", "gates_passed", "held_by", "questions")


def _usual_answer() -> JsonObject:
    """The values that most answers have; a row doesn't store them."""
    return {**{name: [] for name in _USUALLY_EMPTY}, "change": {}, "previous_phase": None}


def _usual_fields(record: Record, body: JsonObject) -> JsonObject:
    """The fields of a state that nearly every handoff sets, as its record gives them."""
    return {
        "context_summary": "",
        "handoff_at": body.get("at") or record.at,
        "source_agent": body["from_agent"],
        "target_agent": body.get("to_agent", ""),
        "updated_at": record.at,
    }


def kept_answer(answer: JsonObject, record: Record, body: JsonObject) -> JsonObject:
    """What the row of a handoff keeps for a repeat: of `summary_facts`, the task's title, the
    newest decisions, and the fields and statuses that it changed, what its record doesn't say.
    """
    usual, changed, whole = _usual_fields(record, body), answer["set"], _usual_answer()
    kept = {k: v for k, v in answer.items() if k != "set" and whole.get(k, ...) != v}
    others = {name: part for name, part in changed.items() if usual.get(name, ...) != part}
    without = [name for name in usual if name not in changed]
    return {
        **kept,
        **({"set": others} if others else {}),
        **({"unset": without} if without else {}),
    }


def whole_answer(kept: JsonObject, record: Record, body: JsonObject) -> JsonObject:
    """The answer of which the row of a handoff keeps a part."""
    usual, without = _usual_fields(record, body), kept.get("unset", ())
    changed = {name: part for name, part in usual.items() if name not in without}
    given = {name: part for name, part in kept.items() if name not in ("set", "unset")}
    return {**_usual_answer(), **given, "set": {**changed, **kept.get("set", {})}}


def answer_note(kept: JsonObject) -> str:
    """The part of an answer that is kept, as its row has it."""
    return json.dumps(kept, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def summary_facts(header: JsonObject, open_items: Iterable[ItemRow]) -> JsonObject:
    """As much of a state as a summary needs, but for its decisions and where it is."""
    # In a fixed order, whichever way the rows and the header were come by.
    rows = sorted(open_items, key=lambda row: (row.letter, row.ordinal))
    return {
        "phase": header["phase"],
        "previous_phase": header["previous_phase"],
        "artifacts": [{"type": kind} for kind in sorted(header["types"])],
        "totals": {"artifacts": header["files"]},
        "blockers": [
            # That something ran out keeps nobody from going on.
            {"blocker": row.title, "severity": grade, "status": row.status}
            for row in rows
            if row.letter == "b"
            for grade in ("low" if row.grade == STOPPED else row.grade,)
        ],
        "questions": open_questions(rows),
        "held_by": [row.address for row in rows if row.letter == "k" and is_holding(row, header)],
        **gate_results(header),
    }


def open_questions(rows: Iterable[ItemRow]) -> list[JsonObject]:
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


def gate_results(header: JsonObject) -> JsonObject:
    """The quality gates whose latest result is that they passed, and those that failed."""
    gates: Mapping[str, str] = header.get("gates", {})
    return {
        f"gates_{wanted}": sorted(name for name, result in gates.items() if result == wanted)
        for wanted in ("passed", "failed")
    }


def delta_document(
    record: Record, body: JsonObject, added_rows: Iterable[ItemRow], answer: JsonObject
) -> JsonObject:
    """What a handoff changed: `set` fields, `add` items, `change` statuses, and the three counts.

    `answer` is what a repeat answers too (see `kept_answer`).
    """
    added: dict[str, list[JsonObject]] = {}
    for row in added_rows:
        added.setdefault(LISTS[row.letter], []).append(item_document(row, record, body))
    changed = dict(answer["set"])
    if "context_summary" in changed:
        changed["context_summary"] = context_summary_of(body)
    return {
        "task_id": task_of(record.stream) or "",
        "from_version": record.position - 1,
        "to_version": record.position,
        "digest": record.digest,
        "artifacts_added": len(added.get("artifacts", ())),
        "decisions_made": len(added.get("decisions", ())),
        "blocking_issues": len(body.get("blockers", ())),
        "set": changed,
        "add": added,
        "change": answer["change"],
    }


def status_fields(change: StatusChange) -> JsonObject:
    """The fields of an item document that a change of status sets."""
    document: JsonObject = {"status": change.status}
    if change.closed_at:
        document["status_version"] = change.closed_at
    if change.note:
        document["status_note"] = change.note
    if change.status == "superseded":
        document["superseded_by"] = change.note.removeprefix("by ")
    return document


def with_status(document: JsonObject, status: JsonObject | None) -> JsonObject:
    """A copy of an item document; with another status, nothing of the one before stays."""
    if status is None:
        return dict(document)
    before = ("status_version", "status_note", "superseded_by", "was")
    return {**{name: part for name, part in document.items() if name not in before}, **status}


def apply_delta(state: JsonObject, delta: JsonObject) -> JsonObject:
    """The state after `delta`, as a new document; `state` is left as it is."""
    changed: JsonObject = delta["change"]
    lists = _lists(
        (letter, with_status(entry, changed.get(entry["address"])))
        for letter, name in LISTS.items()
        for entry in (*state.get(name, ()), *delta["add"].get(name, ()))
    )
    return {
        **{name: part for name, part in state.items() if name not in ADDED_LATER},
        "task_id": delta["task_id"],
        "version": delta["to_version"],
        "digest": delta["digest"],
        **delta["set"],
        **lists,
    }

"""Admission: imported records obey the same rules as records written here.

A chain proves that a record is what its author sealed, not that it is fit to be read. So each body
is checked as if it were written here: canonical bytes, the rules of its kind, no secrets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from passdown.core.fold import RECORD_KINDS
from passdown.core.graph import knowledge_problems
from passdown.core.handoff import (
    Decision,
    Fact,
    GateResult,
    Gotcha,
    HandoffMetrics,
    StatusMark,
    TaskFields,
    all_artifacts,
    handoff_body,
    handoff_from_body,
)
from passdown.core.handoff import Pattern as LearnedPattern
from passdown.core.intake import check_handoff, check_task
from passdown.core.items import cited_paths_of_body
from passdown.core.kinds import KINDS, parse_address, task_of
from passdown.core.names import agent_problems, key_problems
from passdown.core.parsing import load_json
from passdown.core.record import canonical_bytes
from passdown.core.redaction import redact
from passdown.core.schema import (
    ADDRESS,
    AGENT,
    ANY_TEXT,
    PHASE,
    SHA256,
    TEXT,
    TRUTH,
    Checks,
    Choice,
    List,
    Map,
    Part,
    Pattern,
    Type,
    fields_of,
)
from passdown.core.text import text_problems
from passdown.core.times import parse_time, stamp
from passdown.errors import InvalidInput, Problem
from passdown.ledger.channel import CHANNEL_FIELD, MAX_CHANNEL, REMOTE_FILES_FIELD, without_channel
from passdown.ledger.writer import MEASURED_FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Set

    from passdown.core.record import Record


Body = dict[str, Any]
MAX_BODY_BYTES = 4 * 1_048_576


def record_problems(record: Record) -> list[Problem]:
    """Why a sealed record of another store can't be imported."""
    where = f"{record.stream}@{record.position}"
    try:
        found = [*_envelope(record), *_body(record)]
    except InvalidInput as error:
        found = list(error.problems)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        found = [Problem("", "unreadable", f"can't be read ({error})")]
    return [
        problem._replace(path=f"{where}: {problem.path}" if problem.path else where)
        for problem in found
        if problem.level == "error"
    ]


def _envelope(record: Record) -> list[Problem]:
    found = [*agent_problems(record.author, "author"), *key_problems(record.key)]
    if stamp(parse_time(record.at)) != record.at:
        found.append(
            Problem("at", "invalid_time", "is not in its stored form", "UTC, microseconds")
        )
    if (record.kind == "task_created") != (record.position == 1):
        message = "a task is created once, by its first record"
        found.append(Problem("kind", "out_of_place", message, "task_created first"))
    if record.kind not in RECORD_KINDS:
        found.append(Problem("kind", "unknown_kind", f"{record.kind[:40]!r}", "a known kind"))
    return found


def _body(record: Record) -> list[Problem]:
    loaded = load_json(record.body, max_bytes=MAX_BODY_BYTES, max_depth=64)
    body = cast("Body", loaded)
    if not isinstance(loaded, dict) or canonical_bytes(body) != record.body:
        return [Problem("body", "not_canonical", "is not in canonical form", "RFC 8785")]
    secrets = redact(record.body.decode())[1]
    if secrets:
        message = f"holds what looks like a secret ({', '.join(secrets)})"
        return [Problem("body", "secret", message, "a bundle made by export")]
    checks = Checks()
    for name, kind in _ANY_BODY.items():
        if name in body:
            kind.read(body[name], name, checks)
    said = without_channel({n: part for n, part in body.items() if n not in MEASURED_FIELDS})
    task = task_of(record.stream) or ""
    if record.kind in _FIELDS:
        checks.errors += _field_problems(_FIELDS[record.kind], said)
    found = _RULES[record.kind](task, said) if record.kind in _RULES else []
    return [*checks.problems(), *found, *_cited(body), *_named_by_decisions(body)]


def _field_problems(fields: Mapping[str, Type], body: Body) -> list[Problem]:
    """What in a body isn't of its kind: fields beyond it, and entries that aren't as declared."""
    if odd := body.keys() - fields.keys():
        return [_unknown_fields(odd)]
    checks = Checks()
    for name, part in body.items():
        fields[name].read(part, name, checks)
        if fields[name].named(part) != part:
            checks.add(name, "not_as_written", "has other names of fields", "the fields' own")
    return checks.problems()


def _unknown_fields(names: Iterable[str]) -> Problem:
    named = ", ".join(sorted(names))[:80]
    return Problem("body", "unknown_field", f"holds {named}", "the fields of its kind")


_ANY_BODY: dict[str, Type] = {
    CHANNEL_FIELD: Pattern(rf"[^\x00-\x1f\x7f]{{0,{MAX_CHANNEL}}}"),
    REMOTE_FILES_FIELD: TRUTH,
    "cited": Map(SHA256),
    "memories": List(TEXT),
    "references": List(TEXT),
    "metrics": Part(HandoffMetrics),
    "context_summary": ANY_TEXT,
    "completes": PHASE,
    "trace": Map(Pattern("[0-9a-f]{16,32}"), most=2),
}
"""What a body of any kind may have."""

_FIELDS: dict[str, dict[str, Type]] = {
    "decided": {"decisions": List(Part(Decision))},
    "gate_recorded": {"gates": List(Part(GateResult))},
    "noted": {
        "patterns": List(Part(LearnedPattern)),
        "gotchas": List(Part(Gotcha)),
        "facts": List(Part(Fact)),
    },
    "warned": {"warnings": List(TEXT)},
    "marked": {"marks": List(Part(StatusMark))},
    "gate_answered": {
        "gate": ADDRESS,
        "answer": Choice("approved", "rejected"),
        "by": AGENT,
        "reason": ANY_TEXT,
        "stays": TRUTH,
    },
}
"""The fields of the bodies that one declaration of types describes."""


def _cited(body: Body) -> list[Problem]:
    """Hashes are of files that its items do cite."""
    odd = body.get("cited", {}).keys() - set(cited_paths_of_body(body))
    return [Problem("cited", "unknown_field", "names files that no item cites")] if odd else []


def _named_by_decisions(body: Body) -> list[Problem]:
    """Keys of memories and references are among the artifacts of its decisions."""
    named = {name for entry in body.get("decisions", ()) for name in entry.get("artifacts", ())}
    return [
        Problem(field, "unknown_field", "names what no decision does")
        for field in ("memories", "references")
        if set(body.get(field, ())) - named
    ]


def _handoff(task: str, body: Body) -> list[Problem]:
    checked = check_handoff(handoff_from_body(task, body))
    if checked.data is None:
        return list(checked.errors)
    written = handoff_body(checked.data, all_artifacts(checked.data))
    lists = written.pop("lists")
    if "lists" in body:  # records from before handoffs said which lists they give have none
        written["lists"] = [name for name in lists if name in body["lists"]]
    if written != body:
        return [Problem("body", "not_as_written", "is not how a handoff is written", "its form")]
    return list(checked.errors)


_CHANGED = fields_of(TaskFields).keys() - {"task", "agent", "phase"}


def _task(task: str, body: Body) -> list[Problem]:
    return _task_problems(task, body, _CHANGED | {"phase", "metadata"})


def _task_changed(task: str, body: Body) -> list[Problem]:
    own = {name: part for name, part in body.items() if name not in ("status", "holder")}
    problems = _task_problems(task, {"title": "unchanged", **own}, _CHANGED)
    problems += agent_problems(body["holder"], "holder") if body.get("holder", "") != "" else []
    if body.get("status", "open") not in ("open", "cancelled"):
        problems.append(Problem("status", "invalid_choice", "", "open | cancelled"))
    if not body:
        problems.append(Problem("body", "required", "names no change", "a field"))
    return problems


def _task_problems(task: str, body: Body, fields: Set[str]) -> list[Problem]:
    if odd := body.keys() - fields:
        return [_unknown_fields(odd)]
    return check_task({**body, "task": task, "agent": "import"})[1]


def _marked(task: str, body: Body) -> list[Problem]:
    found: list[Problem] = []
    for mark in body["marks"]:
        address = parse_address(mark["item"])
        if address is None or address.task != task or address.letter == "k":
            found.append(Problem("marks", "invalid_address", "is no item to mark", "an item"))
        elif mark["status"] not in KINDS[address.letter].closings:
            expected = " | ".join(KINDS[address.letter].closings)
            found.append(Problem("marks", "invalid_choice", "is no status of its kind", expected))
    return found


def _answered(task: str, body: Body) -> list[Problem]:
    address = parse_address(body["gate"])
    found = text_problems(body["reason"], "reason", required=body["answer"] == "rejected")
    if address is None or address.task != task or address.letter != "k":
        found.append(Problem("gate", "invalid_address", "is no gate of the task", "a gate"))
    return found


_RULES: dict[str, Callable[[str, Body], list[Problem]]] = {
    "task_created": _task,
    "task_changed": _task_changed,
    "handoff": _handoff,
    "marked": _marked,
    "gate_answered": _answered,
    "learned": lambda task, body: knowledge_problems(body),
}
"""What types alone don't say."""

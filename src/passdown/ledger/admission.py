"""Admission: imported records obey the same rules as records written here.

A chain proves that a record is what its author sealed, not that it is fit to be read. So each body
is checked as if it were written here: canonical bytes, the rules of its kind, no secrets.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from passdown.core.fold import RECORD_KINDS
from passdown.core.handoff import all_artifacts, handoff_body, handoff_from_body
from passdown.core.intake import check_entry, check_handoff, check_task
from passdown.core.items import cited_paths_of_body
from passdown.core.kinds import KINDS, parse_address, task_of
from passdown.core.knowledge import knowledge_problems
from passdown.core.names import agent_problems
from passdown.core.parsing import load_json
from passdown.core.record import canonical_bytes
from passdown.core.redaction import redact
from passdown.core.text import text_problems
from passdown.core.times import parse_time, stamp
from passdown.errors import InvalidInput, Problem
from passdown.ledger.channel import CHANNEL_FIELD, MAX_CHANNEL, REMOTE_FILES_FIELD, without_channel

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.core.record import Record


if TYPE_CHECKING:
    Body = dict[str, Any]

MAX_KEY = 512
_SHA256 = re.compile("[0-9a-f]{64}")
MAX_BODY_BYTES = 4 * 1_048_576


def record_problems(record: Record) -> list[Problem]:
    """Why a sealed record from elsewhere is not fit to be taken in."""
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


def key_problems(key: object, path: str = "key") -> list[Problem]:
    """The rules of an idempotency key: a short text on one line, and no secret."""
    found = text_problems(key, path, max_length=MAX_KEY)
    if isinstance(key, str) and not found:
        if not key.isprintable():
            found.append(Problem(path, "control_character", "is not printable", "one line of text"))
        if redact(key)[1]:
            found.append(Problem(path, "secret", "looks like a secret", "another key"))
    return found


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
    odd_door = _channel_problems(body)
    body = without_channel(body)
    secrets = redact(record.body.decode())[1]
    if secrets:
        message = f"holds what looks like a secret ({', '.join(secrets)})"
        return [Problem("body", "secret", message, "a bundle made by export")]
    odd = body.keys() - _FIELDS[record.kind] if record.kind in _FIELDS else set[str]()
    if odd:
        named = ", ".join(sorted(odd))[:80]
        return [Problem("body", "unknown_field", f"holds {named}", "the fields of its kind")]
    check = _CHECKS.get(record.kind)
    found = check(task_of(record.stream) or "", body) if check else []
    return [*odd_door, *found, *_cited(body)]


def _channel_problems(body: Body) -> list[Problem]:
    """The door that a record came through: a short line, or nothing. And whose files it names."""
    given: object = body.get(CHANNEL_FIELD, "")
    is_right = isinstance(given, str) and len(given) <= MAX_CHANNEL and given.isprintable()
    found = [] if is_right else [Problem(CHANNEL_FIELD, "wrong_type", "is no door", "a short line")]
    if body.get(REMOTE_FILES_FIELD, True) is not True:
        found.append(Problem(REMOTE_FILES_FIELD, "wrong_type", "is not true", "true, or nothing"))
    return found


def _cited(body: Body) -> list[Problem]:
    """The hashes of cited files: of files that its items do cite, and hashes."""
    given: object = body.get("cited", {})
    named = set(cited_paths_of_body(body))
    is_right = isinstance(given, dict) and all(
        path in named and isinstance(sha256, str) and _SHA256.fullmatch(sha256)
        for path, sha256 in cast("dict[str, object]", given).items()
    )
    return [] if is_right else [Problem("cited", "wrong_type", "is no map", "path to SHA-256")]


def _handoff(task: str, body: Body) -> list[Problem]:
    rest = {name: part for name, part in body.items() if name != "cited"}
    checked = check_handoff(handoff_from_body(task, rest))
    if checked.data is not None and handoff_body(checked.data, all_artifacts(checked.data)) != rest:
        return [Problem("body", "not_as_written", "is not how a handoff is written", "its form")]
    return list(checked.errors)


def _task(task: str, body: Body) -> list[Problem]:
    fields = {"title": "unchanged", **{k: v for k, v in body.items() if k != "status"}}
    problems = check_task({**fields, "task": task, "agent": "import"})[1]
    if body.get("status", "open") not in ("open", "cancelled"):
        problems.append(Problem("status", "invalid_choice", "", "open | cancelled"))
    return problems


def _entries(kind: str, field: str) -> Callable[[str, Body], list[Problem]]:
    def check(task: str, body: Body) -> list[Problem]:
        return [p for entry in body.get(field, ()) for p in check_entry(kind, entry)[1]]

    return check


def _noted(task: str, body: Body) -> list[Problem]:
    found = [p for entry in body.get("patterns", ()) for p in check_entry("pattern", entry)[1]]
    return found + [p for e in body.get("gotchas", ()) for p in check_entry("gotcha", e)[1]]


def _warned(task: str, body: Body) -> list[Problem]:
    if not isinstance(body["warnings"], list):
        return [Problem("warnings", "wrong_type", "no list", "a list of texts")]
    texts = cast("list[object]", body["warnings"])
    return [problem for text in texts for problem in text_problems(text, "warnings")]


def _marked(task: str, body: Body) -> list[Problem]:
    found: list[Problem] = []
    for mark in body["marks"]:
        found += check_entry("mark", mark)[1]
        address = parse_address(mark["item"])
        if address is None or address.task != task or address.letter == "k":
            found.append(Problem("marks", "invalid_address", "is no item to mark", "an item"))
        elif mark["status"] not in KINDS[address.letter].closings:
            found.append(
                Problem("marks", "invalid_choice", "is no status of its kind", "one of it")
            )
    return found


def _answered(task: str, body: Body) -> list[Problem]:
    address = parse_address(body["gate"])
    found = [*agent_problems(body["by"], "by")]
    found += text_problems(body["reason"], "reason", required=body["answer"] == "rejected")
    if address is None or address.task != task or address.letter != "k":
        found.append(Problem("gate", "invalid_address", "is no gate of the task", "a gate"))
    if body["answer"] not in ("approved", "rejected"):
        found.append(Problem("answer", "invalid_choice", "", "approved | rejected"))
    return found


def _learned(task: str, body: Body) -> list[Problem]:
    return knowledge_problems(body)


_FIELDS: dict[str, set[str]] = {
    "decided": {"decisions", "cited"},
    "gate_recorded": {"gates"},
    "noted": {"patterns", "gotchas", "cited"},
    "warned": {"warnings"},
    "marked": {"marks"},
    "gate_answered": {"gate", "answer", "by", "reason"},
    "learned": {"nodes", "edges", "forgotten_nodes", "forgotten_edges"},
}

_CHECKS: dict[str, Callable[[str, Body], list[Problem]]] = {
    "task_created": _task,
    "task_changed": _task,
    "handoff": _handoff,
    "decided": _entries("decision", "decisions"),
    "gate_recorded": _entries("gate", "gates"),
    "noted": _noted,
    "warned": _warned,
    "marked": _marked,
    "gate_answered": _answered,
    "learned": _learned,
}

"""Items as they stand in a record's body: the entry, what names it, what ranks it."""

from __future__ import annotations

import json
from typing import Any

TITLE_LENGTH = 120
_HANDOFF_ITEM = ("summary", "outcome", "from_agent", "to_agent", "phase", "story", "metadata")


def entry_of(body: dict[str, Any], field: str, index: int) -> dict[str, Any]:
    """The entry of a body that an item row points to."""
    if field == "handoff":
        return {name: body[name] for name in _HANDOFF_ITEM if name in body}
    entry = body[field][index]
    return {"text": entry} if isinstance(entry, str) else entry


def title_of(entry: dict[str, Any], field: str) -> str:
    """The entry's text on one short line."""
    text = " ".join(str(entry.get(field, "")).split())
    return text if len(text) <= TITLE_LENGTH else text[: TITLE_LENGTH - 1] + "…"


def fingerprint(entry: object) -> str:
    """A short mark that equal entries share."""
    import hashlib

    text = json.dumps(entry, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def grade_of(letter: str, entry: dict[str, Any]) -> str:
    """What ranks an item among its kind; see `ItemRow`."""
    if letter == "a":
        return "" if entry.get("change") == "delete" else entry["type"]
    if letter == "q":
        return "blocking" if entry.get("blocking") else ""
    return str(entry.get("severity") or entry.get("priority") or "")


MOST_CITED = 50


def cited_by(letter: str, entry: dict[str, Any]) -> list[str]:
    """The files that an item speaks of, other than an artifact of itself."""
    if letter == "d":
        return sorted({*entry.get("artifacts", ()), *entry.get("paths", ())})
    if letter == "p":
        location = entry.get("location", "").partition(":")[0]
        return [location] if location else []
    return [entry["file"]] if letter == "r" else []


def cited_in(body: dict[str, Any]) -> list[str]:
    """The files that a record's items speak of and that aren't among its artifacts."""
    lists = {"d": "decisions", "p": "patterns", "r": "reading"}
    found = {
        path
        for letter, field in lists.items()
        for entry in body.get(field, ())
        for path in cited_by(letter, entry)
    }
    return sorted(found - {entry["path"] for entry in body.get("artifacts", ())})[:MOST_CITED]

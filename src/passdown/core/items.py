"""Items inside a record: their entry, title, citations, and their text in three lengths."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

from passdown.core.kinds import NOT_STATED
from passdown.core.text import visible
from passdown.core.tokens import DEFAULT_COUNTER, units, vocabulary
from passdown.core.values import NamedTuple

TITLE_LENGTH = 120
_HANDOFF_ITEM = (
    *("summary", "outcome", "from_agent", "to_agent", "phase", "story", "metadata", "metrics"),
    *("at", "memory_refs", "stopped", "despite", "evidence", "trace"),
)


def entry_of(body: dict[str, Any], field: str, index: int) -> dict[str, Any]:
    """The entry of a body that an item row points to."""
    if field == "handoff":
        return {name: body[name] for name in _HANDOFF_ITEM if name in body}
    entry = body[field][index]
    if field == "preconditions" and "question" in entry:
        return {**entry, "blocking": True}
    return {"text": entry} if isinstance(entry, str) else entry


def context_summary_of(body: dict[str, Any]) -> str:
    """What a handoff says of the state of the work. A record that has it in more words than a
    summary may have holds the beginning of them, as many as it may, beside them.
    """
    return body.get("context_summary") or body.get("summary", "")


def fact_text(entry: dict[str, Any]) -> str:
    """A fact as `key: value`; one that has no value any more as its key."""
    return f"{entry['key']}: {entry['value']}" if "value" in entry else entry["key"]


def shown_command(entry: dict[str, Any]) -> str:
    """The command of a precondition as it runs, with its shell, visible and on one line."""
    command = str(entry["command"])
    if entry.get("shell"):
        import shlex

        command = shlex.join(["/bin/sh", "-c", command])
    return visible(command)


def check_text(entry: dict[str, Any]) -> str:
    """What a precondition says to check."""
    if "file" in entry:
        sha256 = (entry.get("sha256") or "").removeprefix("sha256:")[:12]
        return f"file {entry['file']} is {f'sha256 {sha256}' if sha256 else 'as it was'}"
    return f"run: {entry['command']}" if "command" in entry else entry.get("question", "")


_MAIN_TEXTS: dict[str, Callable[[dict[str, Any]], str]] = {"key": fact_text, "check": check_text}


def title_of(entry: dict[str, Any], field: str) -> str:
    """The entry's text on one short line."""
    said = _MAIN_TEXTS[field](entry) if field in _MAIN_TEXTS else str(entry.get(field, ""))
    text = " ".join(said.split())
    return text if len(text) <= TITLE_LENGTH else text[: TITLE_LENGTH - 1] + "…"


def fingerprint(entry: object) -> str:
    """A short mark that equal entries share."""
    import hashlib

    text = json.dumps(entry, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


STOPPED = "stopped"
"""The grade of a blocker which says that something ran out."""


def grade_of(letter: str, entry: dict[str, Any]) -> str:
    """What ranks an item among its kind; see `ItemRow`."""
    if letter == "a":
        return "" if entry.get("change") == "delete" else entry["type"]
    if letter == "q":
        return "blocking" if entry.get("blocking") else ""
    if letter == "b" and entry.get("stopped"):
        return STOPPED
    return str(entry.get("severity") or entry.get("priority") or "")


MAX_CITED = 50


def cited_paths(letter: str, entry: dict[str, Any]) -> list[str]:
    """The files that an item cites, other than an artifact itself."""
    if letter == "d":
        return sorted({*entry.get("artifacts", ()), *entry.get("paths", ())})
    if letter == "p":
        location = entry.get("location", "").partition(":")[0]
        return [location] if location else []
    is_cited = letter == "r" or (letter == "c" and "file" in entry and not entry.get("sha256"))
    return [entry["file"]] if is_cited else []


def cited_paths_of_body(body: dict[str, Any]) -> list[str]:
    """The files that a record's items cite and that aren't among its artifacts."""
    lists = {"d": "decisions", "p": "patterns", "r": "reading", "c": "preconditions"}
    found = {
        path
        for letter, field in lists.items()
        for entry in body.get(field, ())
        for path in cited_paths(letter, entry)
    }
    return sorted(found - {entry["path"] for entry in body.get("artifacts", ())})[:MAX_CITED]


Entry = dict[str, Any]
Fields = tuple[tuple[str, str], ...]

LENGTHS = ("line", "short", "full")
MAX_LABEL = 200


class Sizes(NamedTuple):
    """How long an item is at each length: in tokens of the default counter, in UTF-16 units."""

    tokens: tuple[int, int, int]
    units: tuple[int, int, int]


def one_line(value: object) -> str:
    """Any stored text on one line, with nothing in it that can't be seen."""
    text = str(value)
    is_one_line = text.isprintable() and "  " not in text
    if is_one_line and text.isascii():  # nearly all are, and nothing in them has to be shown
        return text
    return visible(text if is_one_line else " ".join(text.split()))


def one_line_list(values: object) -> str:
    """Several stored texts on one line."""
    if isinstance(values, list):
        return "; ".join(one_line(value) for value in cast("list[object]", values))
    return one_line(values)


class _Shape(NamedTuple):
    """How a kind is written: the field in brackets, its main field, what `short` and `full` add."""

    grade: str
    main: str
    short: Fields = ()
    full: Fields = ()


_SHAPES: dict[str, _Shape] = {
    "h": _Shape("outcome", "summary", (("Evidence: ", "evidence"),)),
    "d": _Shape(
        "",
        "summary",
        (("Why: ", "rationale"),),
        (("Over: ", "alternatives"), ("Governs: ", "paths"), ("Tags: ", "tags")),
    ),
    "a": _Shape("change", "path", (("", "type"), ("lines ", "lines")), (("", "note"),)),
    "p": _Shape("", "pattern", (("At: ", "location"),), (("For: ", "applies_to"),)),
    "g": _Shape("severity", "issue", (("Do: ", "mitigation"),), (("Found in: ", "discovered_in"),)),
    "r": _Shape("", "file", (("Why: ", "reason"),)),
    "q": _Shape(
        "blocking",
        "question",
        (("To: ", "to"), ("Suggested: ", "recommendation")),
        (("", "context"), ("", "note")),
    ),
    "c": _Shape("status", "check", (), (("", "note"),)),
    "n": _Shape("priority", "step", (), (("After: ", "depends_on"),)),
    "b": _Shape(
        "severity",
        "blocker",
        (("Try: ", "suggested_resolution"),),
        (("Impact: ", "impact"), ("Blocks: ", "blocking_tasks")),
    ),
    "w": _Shape("", "text"),
    "f": _Shape("status", "key", (), (("From: ", "source"),)),
    "k": _Shape("result", "name", (), (("", "detail"),)),
}


def item_lines(letter: str, ordinal: int, entry: Entry) -> tuple[str, str, str]:
    """An item as one line of text in each of the three lengths, line ends included."""
    begin = f"- {letter}{ordinal}"
    line, short, full = _after_number(letter, entry)
    return (begin + line, begin + short, begin + full)


def _quoted(text: str) -> str:
    """An earlier value inside somebody else's line: it can't end that, or begin a field."""
    return text.translate(str.maketrans("|()", "/[]"))


def _after_number(letter: str, entry: Entry) -> tuple[str, str, str]:
    """An item's lines without the number that they begin with."""
    shape = _SHAPES[letter]
    main = entry.get(shape.main)
    if letter == "k" and main is None:
        main = f"a person has to approve: {entry['blocker']}"
    if letter == "f":
        main = fact_text(entry) + (f" (was {_quoted(entry['was'])})" if entry.get("was") else "")
    if letter == "c":
        main = check_text(entry)
    grade = entry.get(shape.grade) if shape.grade else None
    if grade is not None and letter == "q":
        grade = "blocking" if grade else None
    elif letter == "b" and entry.get("stopped"):
        grade = STOPPED
    head = f" ({one_line(grade)})" if grade else ""
    text = one_line(main or "")
    head += f" {text}" if text else ""
    short = head + _more(shape.short, entry)
    full = short + _more(shape.full, entry)
    return (head + "\n", short + "\n", full + "\n")


def _more(fields: Fields, entry: Entry) -> str:
    found = ""
    for label, name in fields:
        value = entry.get(name)
        if value and value != NOT_STATED:
            found += f" | {label}{_value(value)}"
    return found


def _value(value: Any) -> str:
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, dict):
        return ", ".join(f"{one_line(k)} {one_line(v)}" for k, v in sorted(value.items()))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return one_line_list(value)


def item_sizes(letter: str, entry: Entry) -> Sizes:
    """How long an item's lines are but for its number, which it gets when it is written."""
    line, short, full = _after_number(letter, entry)
    count = {text: vocabulary(DEFAULT_COUNTER)(text) for text in {line, short, full}}
    tokens = (count[line], count[short], count[full])
    return Sizes(tokens, (units(line), units(short), units(full)))


def sizes_text(sizes: Sizes, ordinal: int) -> str:
    """The sizes of a numbered item's lines, as its row keeps them."""
    # A number ends where a token does: `-`, the letter, and three digits to a token.
    digits = len(str(ordinal))
    tokens, long = 2 - (-digits // 3), 3 + digits
    numbers = (*(size + tokens for size in sizes.tokens), *(size + long for size in sizes.units))
    return " ".join(map(str, numbers))


@lru_cache(maxsize=4_096)
def sizes_of(text: str) -> Sizes:
    """The sizes that a row keeps."""
    line, short, full, *long = map(int, text.split())
    return Sizes((line, short, full), (long[0], long[1], long[2]))


def labels_of(letter: str, entry: Entry) -> list[str]:
    """The labels of an item: its tags, and the files that it governs or cites."""
    found: list[str] = []
    if letter == "d":
        found = [*entry.get("tags", ()), *entry.get("paths", ()), *entry.get("artifacts", ())]
    elif letter == "p":
        found = [*entry.get("applies_to", ()), entry.get("location", "").partition(":")[0]]
    elif letter == "r":
        found = [entry["file"]]
    elif letter == "f":
        return [key_label(entry["key"])]
    return sorted({label[:MAX_LABEL] for label in found if label and not label.startswith(_KEY)})


_KEY = "\x1f"


def key_label(key: str) -> str:
    """The label that the facts of a key are filed under; no other label begins with its mark."""
    return _KEY + key


def searched_text(letter: str, entry: Entry) -> tuple[str, str]:
    """Everything that an item says, as plain text without labels: its main field, and the rest."""
    shape = _SHAPES[letter]
    main = fact_text(entry) if letter == "f" else entry.get(shape.main)
    others = (entry.get(name) for _, name in (*shape.short, *shape.full))
    rest = "\n".join(_plain(value) for value in others if value and value != NOT_STATED)
    return (_plain(main) if main else "", rest)


def _plain(value: Any) -> str:
    """A field with its line breaks, which show its headings."""
    return value if isinstance(value, str) else _value(value)

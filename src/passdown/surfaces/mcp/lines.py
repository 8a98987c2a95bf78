"""Records as lines of text for a model: short, whole, and safe to put among others.

Stored words never begin a line of their own, so no author can write a row that looks like another
author's, or like the server's own words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from passdown.model.item_text import flat, item_lines
from passdown.model.kinds import parse_address
from passdown.model.text import instruction_hints, visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from passdown.errors import Problem
    from passdown.model.recalled import Recalled

Document = dict[str, Any]

MAX_CHARACTERS = 40_000
"""How long an answer may be: hosts warn of, or cut, what is longer than about 10,000 tokens."""

_ROW = 300
_USUAL = frozenset({"recorded", "active", "accepted", "open"})
_WITHIN = "    "
_ORDERS = "[reads like orders: {}]"


def moment(at: object) -> str:
    """A stored time to the minute."""
    return str(at or "")[:16].replace("T", " ")


def item_row(item: Document) -> str:
    """An item as one line: address, status where it is not the usual one, its words, its author."""
    address = parse_address(str(item["address"]))
    if address is None:
        return f"- {flat(item['address'])}"
    if address.letter == "k" and item.get("blocker"):
        # Of a gate for a person, the question matters and not the gate's name.
        item = {**item, "name": None}
    # The second of three lengths: the words and what makes them usable, such as a reason.
    words = item_lines(address.letter, address.ordinal, item)[1]
    words = words.removeprefix(f"- {address.letter}{address.ordinal}").strip()
    status = "" if item["status"] in _USUAL else f" [{item['status']}]"
    later = f" [superseded by {item['superseded_by']}]" if item.get("superseded_by") else ""
    by = f" ({flat(item.get('agent'))}, v{item.get('version')})"
    return f"- {item['address']}{status}{later} {short(words)}{by}{suspicion(words)}"


def short(words: str, most: int = _ROW) -> str:
    """Words for a row: their beginning where they are long, which `show` has whole."""
    return words if len(words) <= most else f"{words[:most].rstrip()}..."


def suspicion(words: str) -> str:
    """A mark for words that read like orders to a model; usually nothing."""
    hints = instruction_hints(words)
    return " " + _ORDERS.format(", ".join(hints)) if hints else ""


def task_row(task: Document, held: Iterable[str] = ()) -> str:
    """A task as one line."""
    status = "held by a gate" if task["task"] in held else task["status"]
    holder = f", {flat(task['holder'])}" if task["holder"] else ""
    return (
        f"- {task['task']} ({status}, {task['phase']}{holder}, v{task['version']}) "
        f"{short(flat(task['title']))}"
    )


def answer_row(answer: Recalled) -> str:
    """One answer of a search as one line, or two where its title isn't in the passage."""
    status = "" if answer.status in _USUAL else f", {answer.status}"
    told = f"{answer.kind.replace('_', ' ')}{status}, {answer.agent}, {moment(answer.at)}"
    passage = flat(answer.passage)
    title = flat(answer.title)
    words = passage if title[:40] in passage else f"{title}: {passage}"
    later = f" [superseded: {answer.became}]" if answer.became else ""
    stale = f" [stale: {flat('; '.join(answer.stale))}]" if answer.stale else ""
    return f"- {answer.address} ({told}) {words}{later}{stale}{suspicion(words)}"


def record_row(record: Document) -> str:
    """A record of a task's history as one line."""
    summary = short(flat(record["summary"]))
    kind = str(record["kind"]).replace("_", " ")
    author = flat(record["author"])
    return f"- v{record['version']} {kind}, {author}, {moment(record['at'])}: {summary}"


def fields(document: Document, without: Iterable[str] = ()) -> list[str]:
    """A document as `name: value` lines, whole; empty values are left out.

    Of a value with line breaks, the lines after the first are indented.
    """
    left_out = frozenset(without)
    return [
        f"{flat(name)}: {_value(value)}"
        for name, value in document.items()
        if name not in left_out and value not in (None, "", [], {}, False)
    ]


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes"
    if isinstance(value, list):
        return "; ".join(_value(entry) for entry in cast("list[object]", value))
    if isinstance(value, dict):
        pairs = cast("Document", value).items()
        return ", ".join(f"{flat(name)} {_value(entry)}" for name, entry in pairs)
    text = visible(str(value).replace("\r\n", "\n"), keep_newlines=True)
    return text.replace("\n", "\n" + _WITHIN)


def warned(warnings: Iterable[Problem]) -> list[str]:
    """Warnings as lines; the fields that are only recommended share one."""
    found = list(warnings)
    recommended = [flat(p.path) for p in found if p.code == "recommended"]
    lines = [f"- mind: {flat(p.line())}" for p in found if p.code != "recommended"]
    return [*lines, f"- next time, also: {', '.join(recommended)}"] if recommended else lines


def page(text: str, offset: int, how: str) -> str:
    """The part of a long text from a character on, with a line on how to get the next part."""
    part = text[offset : offset + MAX_CHARACTERS]
    rest = len(text) - offset - len(part)
    if rest <= 0:
        return part or f"(nothing from character {offset:,} on; there are {len(text):,})"
    return f"{part}\n({rest:,} more characters: {how} with offset {offset + len(part)})"

"""Items for people: address, status, the main text, and below it what else was said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.model.kinds import KINDS, parse_address
from passdown.surfaces.cli.printing import heading, labelled, line, pairs, short_digest

if TYPE_CHECKING:
    from collections.abc import Sequence

Document = dict[str, Any]

_ABOVE = {"address", "status", "agent", "at", "version", "status_version", "name"}
_DIGESTS = {"sha256", "digest", "previous"}
_WORDS = {"suggested_resolution": "resolution", "discovered_in": "found in", "size_bytes": "bytes"}


def title_of(item: Document) -> str:
    """The main text of an item, by its kind."""
    address = parse_address(item["address"])
    if address is None:
        return ""
    if address.letter == "k":
        return str(item.get("blocker") or item.get("name", ""))
    if address.letter == "h":
        to = f" to {item['to_agent']}" if item.get("to_agent") else ""
        text = f": {item['summary']}" if item.get("summary") else ""
        return f"{item.get('from_agent', '')}{to}, {item.get('outcome', '')}{text}"
    return str(item.get(KINDS[address.letter].text, ""))


def print_items(title: str, items: Sequence[Document]) -> None:
    """Print a list of items under a title; nothing when there are none."""
    if not items:
        return
    line()
    heading(f"{title} ({len(items)})")
    for item in items:
        print_item(item)


def print_item(item: Document) -> None:
    """Print one item."""
    address = parse_address(item["address"])
    letter = address.letter if address else ""
    status = "" if item["status"] in ("recorded", "active") else f"{item['status']}, "
    by = f"{item.get('agent')}, version {item.get('version')}"
    labelled(item["address"], "cyan", f"{status}{by}", 2)
    line(title_of(item), 4)
    told = {*_ABOVE, KINDS[letter].text if letter in KINDS else ""}
    if letter == "h":
        told |= {"from_agent", "to_agent", "outcome"}
    if letter == "k":
        told |= {"blocker", "kind"}
    rest = [
        (_WORDS.get(k, k.replace("_", " ")), short_digest(v) if k in _DIGESTS else v)
        for k, v in item.items()
        if k not in told
    ]
    pairs([(name, value) for name, value in rest if value is not False], 6)

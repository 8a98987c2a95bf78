"""An earlier agent's artifact in a few lines, for inside a prompt."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.briefing.switching.fields import LIMITS, REFERENCE
from passdown.briefing.switching.views import one_line
from passdown.model.tokens import counter_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from passdown.model.tokens import Count, Counter

_SECONDS = re.compile(r"(T\d\d:\d\d):\d\d(?:\.\d+)?")
_NOUNS = {"decisions": "decision", "files_modified": "file", "blockers": "blocker"}


class _Parts(NamedTuple):
    """An artifact's parts as single lines; the lists with their most important entry first."""

    head: str
    action: str
    lists: dict[str, list[str]]
    omitted: dict[str, int]
    full_record: str


def short_summary(
    artifact: Mapping[str, Any], *, counter: str | Count | Counter | None, max_tokens: int
) -> str:
    """The artifact as a few lines of at most `max_tokens`, in whole entries.

    The first line says from whom to whom and when; the last says how much more there is and
    where. Where both are too long together, what fits of them is given, in the end nothing.
    """
    count = counter_of(counter).tokens
    parts = _parts_of(artifact)
    shown: set[tuple[str, int]] = set()
    if count(_text(parts, shown)) > max_tokens:
        shorter = (f"{parts.head}\nMore: {parts.full_record}", parts.head)
        return next((text for text in shorter if count(text) <= max_tokens), "")
    pieces = _pieces(parts)
    if count(_text(parts, set(pieces))) <= max_tokens:
        return _text(parts, set(pieces))
    for piece in pieces:
        if count(_text(parts, {*shown, piece})) <= max_tokens:
            shown.add(piece)
    return _text(parts, shown)


def _parts_of(artifact: Mapping[str, Any]) -> _Parts:
    names = [one_line(artifact.get(name) or "none") for name in ("from_agent", "to_agent")]
    at = _SECONDS.sub(r"\1", one_line(artifact.get("timestamp") or "no time"))
    action = one_line(artifact.get("next_action") or "")
    return _Parts(
        head=f"From {names[0]} to {names[1]}, {at}",
        action="" if action == REFERENCE else action,
        lists={name: _entries(artifact.get(name)) for name in LIMITS},
        omitted=_counts(artifact.get("omitted")),
        full_record=one_line(artifact.get("full_record") or ""),
    )


def _entries(given: object) -> list[str]:
    """A list's entries; a file that someone wrote by hand may hold anything in its place."""
    listed = cast("list[object]", given) if isinstance(given, list) else []
    return [one_line(entry) for entry in listed]


def _counts(given: object) -> dict[str, int]:
    counts = cast("dict[str, object]", given) if isinstance(given, dict) else {}
    return {name: count for name, count in counts.items() if isinstance(count, int)}


def _pieces(parts: _Parts) -> list[tuple[str, int]]:
    """The first of each kind, then the second of each, with the next action after the first."""
    longest = max(len(entries) for entries in parts.lists.values())
    rounds = [
        (name, index)
        for index in range(longest)
        for name in ("blockers", "decisions", "files_modified")
        if index < len(parts.lists[name])
    ]
    first = [piece for piece in rounds if piece[1] == 0]
    action = [("next_action", 0)] if parts.action else []
    return [*first, *action, *rounds[len(first) :]]


def _text(parts: _Parts, shown: set[tuple[str, int]]) -> str:
    chosen = {
        name: [entry for i, entry in enumerate(entries) if (name, i) in shown]
        for name, entries in parts.lists.items()
    }
    lines = [
        parts.head,
        _labelled("Decided", "; ".join(chosen["decisions"])),
        _labelled("Files", _grouped(chosen["files_modified"])),
        _labelled("Blocked", "; ".join(chosen["blockers"])),
        _labelled("Next", parts.action if ("next_action", 0) in shown else ""),
        _rest(parts, chosen, ("next_action", 0) in shown),
    ]
    return "\n".join(line for line in lines if line)


def _labelled(label: str, text: str) -> str:
    return f"{label}: {text}" if text else ""


def _grouped(paths: list[str]) -> str:
    """Paths with a folder's name once: `src/{a.py, b.py}, docs/c.md`."""
    folders: dict[tuple[str, str], list[str]] = {}
    for path in dict.fromkeys(paths):
        # Braces and commas in a path would read as part of the notation.
        if path.endswith("/") or re.search("[{},]", path):
            folders[(path, "")] = [path]
        else:
            cut = path.rfind("/") + 1
            folders.setdefault(("", path[:cut]), []).append(path[cut:])
    return ", ".join(_folder(folder, names) for (_, folder), names in folders.items())


def _folder(folder: str, names: list[str]) -> str:
    if len(names) == 1 or not folder:
        return ", ".join(f"{folder}{name}" for name in names)
    return f"{folder}{{{', '.join(names)}}}"


def _rest(parts: _Parts, chosen: dict[str, list[str]], has_action: bool) -> str:
    missing: list[str] = []
    for name, noun in _NOUNS.items():
        count = parts.omitted.get(name, 0) + len(parts.lists[name]) - len(chosen[name])
        if count:
            missing.append(f"{count} {noun}{'' if count == 1 else 's'}")
    if parts.action and not has_action:
        missing.append("the next action")
    where = parts.full_record
    left = ", ".join(missing)
    return _labelled("More", f"{left} in {where}" if left and where else left or where)

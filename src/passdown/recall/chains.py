"""Chains of decisions: which ones hold where an earlier one was superseded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.errors import Problem
from passdown.model.kinds import LIVE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from passdown.store.found import Entry
    from passdown.store.statements import Reader

MOST_FOLLOWED = 10_000
"""So many decisions are looked at to find what holds; a longer chain's end isn't found."""

_NAMED = 5


def holders(reader: Reader, entries: Iterable[Entry]) -> dict[str, tuple[Entry, ...]]:
    """For each superseded decision among some entries what holds in its place, the newest first.

    More than one holds where the chain from it forked. Where none does any more, it is the newest
    at an end; nothing where nothing supersedes it.
    """
    starts = [entry.address for entry in entries if entry.status == "superseded"]
    if not starts:
        return {}
    later = reader.superseding(starts, MOST_FOLLOWED)
    return {start: _at_ends(start, later) for start in starts}


def _at_ends(start: str, later: Mapping[str, Sequence[Entry]]) -> tuple[Entry, ...]:
    found: dict[str, Entry] = {}
    waiting = [start]
    while waiting:
        news = [entry for entry in later.get(waiting.pop(), ()) if entry.address not in found]
        found.update((entry.address, entry) for entry in news)
        waiting += [entry.address for entry in news if entry.status not in LIVE]
    newest = sorted(found.values(), key=lambda entry: -entry.id)
    holding = tuple(entry for entry in newest if entry.status in LIVE)
    # Round a circle, which only records of several machines can make, there is no end.
    return holding or tuple([one for one in newest if one.address not in later] or newest)[:1]


def fork_warnings(reader: Reader, body: Mapping[str, Any]) -> list[Problem]:
    """A warning for each decision that a body supersedes though another has done so, with what
    holds in its place; none where the body supersedes that too.
    """
    decisions: Sequence[Mapping[str, Any]] = body.get("decisions", ())
    named = [(index, name) for index, one in enumerate(decisions) for name in _superseded(one)]
    if not named:
        return []
    known = (reader.entry_at(name) for name in {name for _, name in named})
    held = holders(reader, (entry for entry in known if entry is not None))
    first: dict[str, int] = {}
    found: list[Problem] = []
    for index, name in named:
        also = {other for place, other in named if place == index}
        standing = [e.address for e in held.get(name, ()) if e.status in LIVE]
        standing = [address for address in standing if address not in also]
        if first.setdefault(name, index) != index:
            standing.append(f"decisions[{first[name]}]")
        if standing:
            found.append(_forked(f"decisions[{index}].supersedes", name, standing))
    return found


def _superseded(decision: Mapping[str, Any]) -> Sequence[str]:
    return tuple(dict.fromkeys(decision.get("supersedes", ())))


def _forked(path: str, name: str, standing: Sequence[str]) -> Problem:
    shown = ", ".join(standing[:_NAMED])
    more = f" and {len(standing) - _NAMED} more" if len(standing) > _NAMED else ""
    verb = "stands" if len(standing) == 1 else "stand"
    message = f"{name} is superseded already: {shown}{more} {verb} in its place"
    fix = "supersede what stands instead, or mark what doesn't hold any more as reverted"
    return Problem(path, "forked", message, "a decision that stands", fix, "warning")

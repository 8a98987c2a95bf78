"""What is recorded already: near-duplicates of new entries, and decisions now in force."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from operator import methodcaller
from typing import Any

from passdown.core import index_entries
from passdown.core.kinds import KINDS, LIVE, parse_address, stream_of
from passdown.core.text import first_few
from passdown.core.words import NEAR_DUPLICATE, similarity
from passdown.errors import Problem
from passdown.store.entries import IndexedEntry, SharedEntry
from passdown.store.protocol import Store
from passdown.store.statements import Reader

_COMPARED = 16
"""With so many of the newest that share a mark a text is compared word by word."""


_COMPARED_FIELDS = {
    KINDS[letter].field: KINDS[letter].word for letter in index_entries.COMPARED_LETTERS
}


def memory_warnings(
    store: Store, body: dict[str, Any], texts: index_entries.IndexedTexts | None = None
) -> list[Problem]:
    """What a body says that was recorded before in nearly the same words, what it supersedes that
    was superseded before, and artifacts of decisions that no relationship leads to; `texts` are the
    body's, where they have been prepared.
    """
    if not any(body.get(field) for field in _COMPARED_FIELDS):
        return []
    texts = index_entries.indexed_texts(body) if texts is None else texts
    with store.reading() as reader:
        known = [*near_duplicates(reader, body, texts), *fork_warnings(reader, body)]
    return [*known, *index_entries.unlinked_artifacts(body)]


def near_duplicates(
    reader: Reader, body: dict[str, Any], texts: index_entries.IndexedTexts
) -> list[Problem]:
    """A warning for each decision, pattern or gotcha of a body that is recorded already in nearly
    the same words, with the address of the earlier one.

    What a decision supersedes is meant to be like it, so that isn't reported.
    """
    kinds = _COMPARED_FIELDS
    asked = {place: (text.bands, kinds[place[0]]) for place, text in texts.items() if text.bands}
    reader.ahead(*(methodcaller("sharing_marks", *each, _COMPARED) for each in asked.values()))
    found: list[Problem] = []
    for (field, index), (bands, kind) in asked.items():
        meant = set(body[field][index].get("supersedes", ()))
        likely = reader.sharing_marks(bands, kind, _COMPARED)
        holding = [e for e in likely if e.address not in meant and e.status not in _GONE]
        own = _word_set(texts[field, index].words)
        shares = [similarity(own, _word_set(entry.words)) for entry in holding]
        if (share := max(shares, default=0.0)) >= NEAR_DUPLICATE:
            # Of two that are equally near, the first to have said it.
            entry = holding[-1 - shares[::-1].index(share)]
            path = f"{_GIVEN_AS.get(field, field)}[{index}]"
            found.append(_duplicate_warning(path, entry, share))
    return found


@lru_cache(maxsize=512)
def _word_set(words: str) -> frozenset[str]:
    """The words of a text without order; what is looked at now is looked at again by the next."""
    return frozenset(words.split())


_GIVEN_AS = {"patterns": "patterns_discovered"}
"""The names under which a handoff gives what a record keeps under others."""

_GONE = ("superseded", "reverted", "retracted")


def _duplicate_warning(path: str, entry: SharedEntry, share: float) -> Problem:
    message = f"{entry.address} says nearly the same ({share:.0%} of the words, by {entry.agent})"
    either = "mark the one that is too much as retracted"
    if entry.kind == "decision":
        either = "a change of mind names it in supersedes"
    fix = f"look at it (passdown show {entry.address}); {either}"
    return Problem(path, "near_duplicate", message, "", fix, "warning")


MOST_FOLLOWED = 10_000
"""So many decisions are looked at to find what holds; a longer chain's end isn't found."""

_NAMED = 5


def current_decisions(
    reader: Reader, entries: Iterable[IndexedEntry]
) -> dict[str, tuple[IndexedEntry, ...]]:
    """For each superseded decision or fact among some entries what holds in its place, the newest
    first.

    More than one holds where the chain from it forked. Where none does any more, it is the newest
    at an end; nothing where nothing supersedes it.
    """
    old = [entry for entry in entries if entry.status == "superseded"]
    facts = {each.address: _current_fact(reader, each) for each in old if each.kind == "fact"}
    starts = [entry.address for entry in old if entry.kind != "fact"]
    later = reader.superseding(starts, MOST_FOLLOWED) if starts else {}
    return {**facts, **{start: _chain_ends(start, later) for start in starts}}


def _current_fact(reader: Reader, entry: IndexedEntry) -> tuple[IndexedEntry, ...]:
    """The newest fact of the same key."""
    address = parse_address(entry.address)
    row = reader.item(*address) if address else None
    record = reader.record(stream_of(entry.task), entry.position)
    if row is None or record is None:
        return ()
    key = record.document()[row.field][row.index]["key"]
    newest = reader.current_facts(entry.task, [key]).get(key)
    found = reader.entry_at(newest.address) if newest else None
    return (found,) if found else ()


def _chain_ends(
    start: str, later: Mapping[str, Sequence[IndexedEntry]]
) -> tuple[IndexedEntry, ...]:
    found: dict[str, IndexedEntry] = {}
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
    """A warning for each decision that a body supersedes after another one did."""
    decisions: Sequence[Mapping[str, Any]] = body.get("decisions", ())
    named = [
        (index, name)
        for index, one in enumerate(decisions)
        for name in dict.fromkeys(one.get("supersedes", ()))
    ]
    if not named:
        return []
    known = (reader.entry_at(name) for name in {name for _, name in named})
    held = current_decisions(reader, (entry for entry in known if entry is not None))
    first: dict[str, int] = {}
    found: list[Problem] = []
    for index, name in named:
        also = {other for place, other in named if place == index}
        standing = [e.address for e in held.get(name, ()) if e.status in LIVE]
        standing = [address for address in standing if address not in also]
        if first.setdefault(name, index) != index:
            standing.append(f"decisions[{first[name]}]")
        if standing:
            found.append(_fork_warning(f"decisions[{index}].supersedes", name, standing))
    return found


def _fork_warning(path: str, name: str, standing: Sequence[str]) -> Problem:
    verb = "is" if len(standing) == 1 else "are"
    message = f"{name} is superseded already: {first_few(standing, _NAMED)} {verb} in force instead"
    fix = "supersede the decision in force, or mark the outdated one as reverted"
    return Problem(path, "forked", message, "a decision in force", fix, "warning")

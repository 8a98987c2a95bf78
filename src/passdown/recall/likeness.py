"""What is recorded already in nearly the same words: reported when it is written again."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from passdown.errors import Problem
from passdown.model.findable import LIKENED, Text, texts_of
from passdown.model.found_rows import Sought, mark_of
from passdown.model.kinds import KINDS
from passdown.model.likeness import NEAR, likeness

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.store.found import Entry
    from passdown.store.statements import Reader

_COMPARED = 50


def near_duplicates(reader: Reader, body: dict[str, Any]) -> list[Problem]:
    """A warning for each decision, pattern or gotcha of a body that stands in nearly the same
    words already, with the address of the one that does.

    What a decision supersedes is meant to be like it, so that isn't reported.
    """
    fields = {KINDS[letter].field: KINDS[letter].word for letter in LIKENED}
    if not any(body.get(field) for field in fields):
        return []
    said = {place: text for place, text in texts_of(body).items() if place[0] in fields}
    asked = {place: _sought(text, fields[place[0]]) for place, text in said.items() if text.bands}
    reader.ahead(*(partial(_words_like, sought=sought) for sought in asked.values()))
    near = {place: _near(reader, said[place], sought) for place, sought in asked.items()}
    reader.ahead(*(partial(_entries, ids=shares[:1]) for shares in near.values() if shares))
    found: list[Problem] = []
    for (field, index), shares in near.items():
        meant = set(body[field][index].get("supersedes", ()))
        like = _first_standing(reader, shares, meant)
        if like is not None:
            found.append(_warning(f"{_GIVEN_AS.get(field, field)}[{index}]", *like))
    return found


def _sought(text: Text, kind: str) -> Sought:
    """Asked for together, so that likes of other kinds can't crowd out those of this one."""
    return Sought(marks=(tuple(text.bands), (mark_of("kind", kind),)))


def _words_like(reader: Reader, sought: Sought) -> dict[int, str]:
    return reader.words_matching(sought, _COMPARED)


def _near(reader: Reader, text: Text, sought: Sought) -> list[tuple[int, float]]:
    """The entries whose words are near to those of a text, with how near, nearest first."""
    own = _word_set(text.words)
    said = _words_like(reader, sought)
    shares = [(number, likeness(own, _word_set(words))) for number, words in said.items()]
    near = [(number, share) for number, share in shares if share >= NEAR]
    return sorted(near, key=lambda each: (-each[1], each[0]))


def _entries(reader: Reader, ids: Sequence[tuple[int, float]]) -> list[Entry]:
    return reader.entries([number for number, _ in ids])


def _first_standing(
    reader: Reader, near: Sequence[tuple[int, float]], meant: set[str]
) -> tuple[Entry, float] | None:
    """The nearest entry that still stands and isn't meant to be replaced."""
    shares = dict(near)
    # Nearly always the first one stands: the rows of the others are read where it doesn't.
    for some in (near[:1], near[1:]):
        for entry in _entries(reader, some) if some else ():
            if entry.address not in meant and entry.status not in _GONE:
                return entry, shares[entry.id]
    return None


@lru_cache(maxsize=512)
def _word_set(words: str) -> frozenset[str]:
    """The words of a text without order; what is looked at now is looked at again by the next."""
    return frozenset(words.split())


_GIVEN_AS = {"patterns": "patterns_discovered"}
"""The names under which a handoff gives what a record keeps under others."""

_GONE = ("superseded", "reverted", "retracted")


def _warning(path: str, entry: Entry, share: float) -> Problem:
    message = f"{entry.address} says nearly the same ({share:.0%} of the words, by {entry.agent})"
    either = "mark the one that is too much as retracted"
    if entry.kind == "decision":
        either = "a change of mind names it in supersedes"
    fix = f"look at it (passdown show {entry.address}); {either}"
    return Problem(path, "near_duplicate", message, "", fix, "warning")

"""What is recorded already in nearly the same words: reported when it is written again."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from passdown.errors import Problem
from passdown.model.findable import LIKENED, Text, texts_of
from passdown.model.kinds import KINDS
from passdown.model.likeness import NEAR, likeness

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.store.found import Sharing
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
    said = texts_of({field: body[field] for field in fields if body.get(field)})
    asked = {place: (text.bands, fields[place[0]]) for place, text in said.items() if text.bands}
    reader.ahead(*(partial(_like, bands=bands, kind=kind) for bands, kind in asked.values()))
    found: list[Problem] = []
    for (field, index), (bands, kind) in asked.items():
        meant = set(body[field][index].get("supersedes", ()))
        likely = _like(reader, bands, kind)
        nearest = _nearest(said[field, index], likely, meant)
        if nearest is not None:
            found.append(_warning(f"{_GIVEN_AS.get(field, field)}[{index}]", *nearest))
    return found


def _like(reader: Reader, bands: Sequence[str], kind: str) -> list[Sharing]:
    return reader.sharing_marks(bands, kind, _COMPARED)


def _nearest(
    text: Text, likely: Sequence[Sharing], meant: set[str]
) -> tuple[Sharing, float] | None:
    """Of entries with their words, the nearest to a text that is near enough, still stands and
    isn't meant to be replaced.
    """
    own = _word_set(text.words)
    best: tuple[Sharing, float] | None = None
    nearest = NEAR
    for entry in likely:
        share = likeness(own, _word_set(entry.words))
        # Of two that are equally near, the first to have said it.
        if share >= nearest and _stands(entry, meant):
            best, nearest = (entry, share), share
    return best


def _stands(entry: Sharing, meant: set[str]) -> bool:
    return entry.address not in meant and entry.status not in _GONE


@lru_cache(maxsize=512)
def _word_set(words: str) -> frozenset[str]:
    """The words of a text without order; what is looked at now is looked at again by the next."""
    return frozenset(words.split())


_GIVEN_AS = {"patterns": "patterns_discovered"}
"""The names under which a handoff gives what a record keeps under others."""

_GONE = ("superseded", "reverted", "retracted")


def _warning(path: str, entry: Sharing, share: float) -> Problem:
    message = f"{entry.address} says nearly the same ({share:.0%} of the words, by {entry.agent})"
    either = "mark the one that is too much as retracted"
    if entry.kind == "decision":
        either = "a change of mind names it in supersedes"
    fix = f"look at it (passdown show {entry.address}); {either}"
    return Problem(path, "near_duplicate", message, "", fix, "warning")

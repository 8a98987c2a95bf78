"""The part of a text that fits a question, short enough to read at a glance."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from passdown.model.words import words

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST = 240
_SENTENCES = re.compile(r"(?<=[.!?])\s+|\n+")
_MOST_SENTENCES = 400


def best_passage(text: str, asked: Sequence[str]) -> str:
    """The sentences around the one that has most of the asked words, on one line.

    A text that is short enough is given whole, its lines divided by bars; what stands before or
    after is marked by `…`.
    """
    flat = " | ".join(" ".join(line.split()) for line in text.split("\n") if line.strip())
    if len(flat) <= LONGEST:
        return flat
    parts = [part for part in _SENTENCES.split(text)[:_MOST_SENTENCES] if part.strip()]
    wanted = set(asked)
    hits = [len(wanted.intersection(words(part))) for part in parts]
    first = hits.index(max(hits))
    last = first
    chosen = " ".join(parts[first].split())
    while last + 1 < len(parts):
        longer = chosen + " " + " ".join(parts[last + 1].split())
        if len(longer) > LONGEST:
            break
        chosen, last = longer, last + 1
    before = "… " if first else ""
    if len(chosen) > LONGEST:
        return f"{before}{chosen[:LONGEST].rsplit(' ', 1)[0]} …"
    return before + chosen + (" …" if last + 1 < len(parts) else "")

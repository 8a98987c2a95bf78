"""Where sentences end, well enough to keep the first two of a next action."""

from __future__ import annotations

import re

# A mark with what closes after it and a space; a full-width mark, which needs no space; a new line.
_END = re.compile(r"""[.!?…]+["')\]*_»”’]*(?=\s)|[。！？]+[」』）”’]*|\n""")  # noqa: RUF001
_SHORT_FORM = re.compile(r"(?:^|[\s(])(?:e\.g|i\.e|cf|vs|approx|fig)\.$", re.IGNORECASE)
_LONGEST_SHORT_FORM = 10


def sentence_ends(text: str) -> list[int]:
    """The position after each sentence of a text; the last one is where its words end."""
    last = len(text.rstrip())
    ends: list[int] = []
    begin = 0
    for found in _END.finditer(text, 0, last):
        end = found.start() if found.group() == "\n" else found.end()
        if _SHORT_FORM.search(text[max(0, end - _LONGEST_SHORT_FORM) : end]):
            continue
        if text[begin:end].strip():
            ends.append(end)
        begin = found.end()
    if text[begin:last].strip():
        ends.append(last)
    return ends

"""Words without their markup, and texts that a record can hold."""

from __future__ import annotations

import re

from passdown.model.redaction import redact
from passdown.model.text import has_lone_surrogate, text_problems

MAX_FIELD = 65_536

# Every gap is bounded or excludes its own opening mark, so that no place is scanned twice.
_LINK = re.compile(r"!?\[([^\[\]]{1,300})\]\([^()\s]{0,500}\)")
_MARKS = re.compile(r"\*\*|__(?=\S)|(?<=\S)__|<br ?/?>|(?m:^[ \t]{0,40}(?:>[ \t]?)+)")
_BEFORE_POINT = re.compile(r"\s+([.,:;!?)])")


def clean(text: str) -> str:
    """Text on one line without Markdown's marks for bold, links, quotes, comments and breaks."""
    if "<!--" in text:
        text = _without_comments(text)
    text = _LINK.sub(r"\1", text)
    text = _MARKS.sub(" ", text)
    text = " ".join(text.replace("\x00", " ").split())
    return _BEFORE_POINT.sub(r"\1", text).strip()


def _without_comments(text: str) -> str:
    kept: list[str] = []
    at = 0
    while (start := text.find("<!--", at)) >= 0 and (end := text.find("-->", start)) >= 0:
        kept.append(text[at:start])
        at = end + len("-->")
    return " ".join([*kept, text[at:]])


def storable(text: str) -> str:
    """A text as a field of a record may hold it: cut to the limit, without secrets; or nothing."""
    if has_lone_surrogate(text):
        text = text.encode("utf-8", "replace").decode()
    text = redact(text)[0].replace("\x00", " ")
    if len(text) > MAX_FIELD:
        text = text[: MAX_FIELD - 1] + "\u2026"
    return "" if text_problems(text, "") else text

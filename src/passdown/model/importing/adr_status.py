"""What an ADR says became of it: one word among many spellings, and the ADRs it names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from passdown.model.importing.markdown import MAX_MARKUP_LINE, links_in

if TYPE_CHECKING:
    from passdown.model.importing.markdown import Page

# The beginnings of words, as people write them; the first row that fits decides.
_WORDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("superseded", ("superseded", "superceded", "replaced", "obsoleted by")),
    (
        "reverted",
        (
            *("reject", "deprecat", "withdraw", "obsolete", "retired", "abandon", "declin"),
            *("discard", "revert", "cancel", "no longer"),
        ),
    ),
    ("proposed", ("propos", "draft", "pending", "in review", "under review", "rfc", "wip", "open")),
    ("proposed", ("in progress", "discuss", "todo", "under discussion", "work in progress")),
    ("accepted", ("accept", "approve", "decided", "implemented", "adopted", "done", "active")),
    ("accepted", ("agreed", "final", "in effect", "current", "complete", "partly", "partially")),
)
_NOT_A_STATUS = ("proposed by", "accepted by", "approved by", "decided by", "accepted on")
_LEAD = re.compile(r"^(?:[^A-Za-z\[]|\d{4}-\d\d-\d\d)*")
_STRUCK = re.compile(r"~~[^~]{0,200}~~")
_NEWER = re.compile(r"^(?:supersedes?|supercedes?|replaces)\b[ :]*(.*)", re.IGNORECASE)
_OLDER = re.compile(
    r"^(?:accepted|approved)?[ ,;(]*(?:superseded|superceded|replaced)(?: by)?\b[ :]*(.*)",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"\bADR[-_ #]*\d{1,8}\b|\b\d{8}-[a-z0-9-]{2,200}|\b\d{3,4}-[a-z0-9_-]{2,200}", re.IGNORECASE
)
_NUMBER = re.compile(r"^#?(\d{1,6})\b")
_LINKING = ("links", "link", "related", "see also", "references", "more information", "relations")


class Status(NamedTuple):
    """The status of a decision, the words it was read from, and references to other ADRs."""

    status: str
    said: str
    supersedes: tuple[str, ...]
    superseded_by: tuple[str, ...]


def read_status(page: Page, facts: dict[str, str]) -> Status:
    """What an ADR says of its status. None at all means that it holds; a word that nobody knows
    means that it is proposed, which is the careful reading.
    """
    lines = _status_lines(page, facts)
    said = [word for word in map(_word, lines) if word]
    status = "superseded" if "superseded" in said else (said[-1] if said else "")
    known = status or ("proposed" if lines else "accepted")
    newer: list[str] = []
    older: list[str] = []
    for line in [*lines, *_linking_lines(page), *_named_in(facts)]:
        _take_references(line, newer, older)
    return Status(known, " / ".join(lines)[:300], _once(newer), _once(older))


def _status_lines(page: Page, facts: dict[str, str]) -> list[str]:
    """The lines that speak of the status, without marks, dates and what is struck out."""
    found = [facts["status"]] if "status" in facts else []
    for section in page.sections:
        if section.name.strip().lower().strip(":0123456789. ") in ("status", "state"):
            found += section.lines
        elif section.name.lower().startswith("status:"):
            found.append(section.name[len("status:") :])
    bare = (_LEAD.sub("", _STRUCK.sub("", line[:MAX_MARKUP_LINE])).strip() for line in found)
    return [line.rstrip("*_ ") for line in bare if line.strip("*_ ")]


def _word(line: str) -> str:
    text = line.lower().strip("[]*_ ")
    if text.startswith(_NOT_A_STATUS):
        text = text.partition(" ")[0]
    for status, beginnings in _WORDS:
        if text.startswith(beginnings):
            is_both = status == "accepted" and re.search(r"super[sc]eded by", text)
            return "superseded" if is_both and not text.startswith("part") else status
    return ""


def _linking_lines(page: Page) -> list[str]:
    found: list[str] = []
    for section in page.sections:
        if section.name.strip().lower().startswith(_LINKING):
            found += [_LEAD.sub("", line[: MAX_MARKUP_LINE * 2]).strip() for line in section.lines]
    return found


def _named_in(facts: dict[str, str]) -> list[str]:
    names = {
        "supersedes": "supersedes",
        "replaces": "supersedes",
        "superseded-by": "superseded by",
        "superseded_by": "superseded by",
        "superseded by": "superseded by",
    }
    return [f"{words} {facts[name]}" for name, words in names.items() if name in facts]


def _take_references(line: str, newer: list[str], older: list[str]) -> None:
    for pattern, into in ((_NEWER, newer), (_OLDER, older)):
        match = pattern.match(line)
        if match:
            into.extend(references(match[1]))


def references(text: str) -> list[str]:
    """The ADRs that a piece of text names: link targets, else names and numbers in it."""
    targets = [target for _, target in links_in(text) if "://" not in target]
    if targets:
        return targets
    labels = [label for label, _ in links_in(text)]
    rest = " ".join([*labels, text]) if labels else text
    named = _NAMED.findall(rest[:MAX_MARKUP_LINE])
    number = _NUMBER.match(rest.strip("[]() "))
    return named or ([number[1]] if number else [])


def _once(texts: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text.strip() for text in texts if text.strip()))

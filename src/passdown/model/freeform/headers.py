"""What a note says of itself: task, title, outcome, from whom and to whom, and its gist."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from passdown.model.freeform.blocks import lines_of
from passdown.model.freeform.cleaning import clean, storable
from passdown.model.freeform.values import Header
from passdown.model.names import agent_problems, id_problems

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.model.freeform.blocks import Block

HEAD_LINES = 60
MAX_TITLE = 200
MAX_SUMMARY = 2_000

_FACT = re.compile(
    r"[ \t]*(?:[>*-][ \t]*)*\*{0,2}(?P<name>[A-Za-z_ ]{2,20}?)\*{0,2}:\*{0,2}[ \t]+(?P<value>\S.*)"
)
_TASK_TITLE = re.compile(r"#[ \t]+Task[ \t]+(?P<task>[^\s:]+):[ \t]*(?P<title>.*\S)")
_NAMES = {
    "from": "from_agent",
    "agent": "from_agent",
    "author": "from_agent",
    "from agent": "from_agent",
    "to": "to_agent",
    "next agent": "to_agent",
    "to agent": "to_agent",
    "status": "outcome",
    "outcome": "outcome",
    "task": "task",
    "task id": "task",
    "title": "title",
    "summary": "summary",
}
_OUTCOMES = (
    ("blocked", re.compile(r"blocked|on hold", re.IGNORECASE)),
    ("failed", re.compile(r"fail(?:ed|ure)?|aborted", re.IGNORECASE)),
    ("partial", re.compile(r"partial(?:ly)?|in[ _-]progress|incomplete|wip", re.IGNORECASE)),
    (
        "completed",
        re.compile(r"complete[d]?|done|success(?:ful)?|finished|passed|ok", re.IGNORECASE),
    ),
)
_UNFINISHED = re.compile(
    r"\b(?:in[ _-]progress|not (?:yet )?(?:done|complete[d]?|finished)|incomplete|wip|unfinished|"
    r"partial(?:ly)?|almost|half[- ]done)\b",
    re.IGNORECASE,
)
_STATUS = re.compile(r"(?:current )?(?:status|state)\b[ \t]*[:\u2013\u2014-]?", re.IGNORECASE)
_OPEN_STATUS = re.compile(
    r"\bstatus(?: is)?[^\w\n]{1,12}(?:in[ _-]progress|wip|blocked|on hold|partial(?:ly)?|"
    r"incomplete|unfinished)\b",
    re.IGNORECASE,
)
_IN_WORK = re.compile(r"\W*(?:still |work )?(?:in[ _-]progress|wip)\W*", re.IGNORECASE)
_NONE = re.compile(r"(?:none|nothing|n/a|-)\b", re.IGNORECASE)
_SIGNS = re.compile(r"^\W+|_+")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def is_fact(text: str) -> bool:
    """Whether a line says who wrote the note, to whom, or how it ended: `Next agent: tester`."""
    match = _FACT.fullmatch(text.strip()) if len(text) < 1_000 else None
    name = match["name"].strip().lower().replace("_", " ") if match else ""
    return name in _NAMES and name not in ("task", "summary", "title")


def matter_end(text: str) -> int:
    """Where the text begins after front matter (facts between two lines of dashes); or 0."""
    if not text.startswith(("---\n", "---\r\n")):
        return 0
    for line in lines_of(text[:20_000]):
        if line.number > 1 and line.text.rstrip() in ("---", "..."):
            return line.end + 1
        if line.number > HEAD_LINES:
            break
    return 0


def header_of(text: str, blocks: Sequence[Block], *, is_report: bool) -> Header:
    """The facts at the head of a note; what isn't usable as one is left out."""
    given = _report_facts(blocks) if is_report else _facts(text)
    title = given.get("title", "") or ("" if is_report else _title(blocks))
    summary = given.get("summary", "") or ("" if is_report else _gist(text, blocks))
    outcome = _outcome(given.get("outcome", "") or ("" if is_report else _stated(blocks)))
    if outcome in ("", "completed") and not is_report and _goes_on(text, blocks):
        outcome = "partial"
    task = (_WORD.match(given.get("task", "")) or [""])[0]
    return Header(
        task=task if not id_problems(task, "") else "",
        title=storable(clean(title)[:MAX_TITLE]),
        summary=storable(clean(summary)[:MAX_SUMMARY]),
        outcome=outcome,
        from_agent=_agent(given.get("from_agent", "")),
        to_agent=_agent(given.get("to_agent", "")),
        is_summed_up=bool(given.get("summary")),
    )


def _facts(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines_of(text[:40_000]):
        if line.number > HEAD_LINES or (found and line.text.startswith("## ")):
            break
        title = _TASK_TITLE.fullmatch(line.text) if len(line.text) < 1_000 else None
        if title:
            found.update(title.groupdict())
            continue
        match = _FACT.fullmatch(line.text) if len(line.text) < 1_000 else None
        name = _NAMES.get(match["name"].strip().lower().replace("_", " "), "") if match else ""
        if match and name and not match["value"].startswith("["):
            found.setdefault(name, match["value"].strip("\"' "))
    return found


def _report_facts(blocks: Sequence[Block]) -> dict[str, str]:
    found: dict[str, str] = {}
    for block in blocks:
        if block.form == "value" and len(block.trail) == 1:
            name = block.trail[0].lower().replace("_", " ")
            found.setdefault(_NAMES.get(name, name), block.text)
    notes = found.get("summary") or found.get("notes") or found.get("objective") or ""
    title = found.get("title") or found.get("objective") or found.get("name") or ""
    about = f"{found.get('task', '')} {found.get('category', '')}".strip()
    return {**found, "summary": notes, "title": title or about}


def _title(blocks: Sequence[Block]) -> str:
    return next((block.trail[0] for block in blocks if block.trail), "")


def _gist(text: str, blocks: Sequence[Block]) -> str:
    """The first paragraph that is a sentence, and no list of facts about the note."""
    for block in blocks:
        is_long = block.form == "text" and len(block.text.split()) > 4
        if is_long and not block.text.endswith(":") and not _is_facts(text, block):
            return block.text
    return ""


def _is_facts(text: str, block: Block) -> bool:
    first = text[block.start : block.end].partition("\n")[0]
    return len(first) < 1_000 and _FACT.fullmatch(first.rstrip()) is not None


def _outcome(value: str) -> str:
    """How the work ended, by the first word; what isn't over may be said anywhere."""
    said = _SIGNS.sub("", value)
    begun = next((name for name, words in _OUTCOMES if words.match(said)), "")
    is_open = begun in ("", "completed") and _UNFINISHED.search(said) is not None
    return "partial" if is_open else begun


def _goes_on(text: str, blocks: Sequence[Block]) -> bool:
    """Whether a note says in passing, or by a heading, that its work isn't over."""
    if _OPEN_STATUS.search(text[:40_000]):
        return True
    below = (block for block in blocks if block.trail and _IN_WORK.fullmatch(block.trail[-1]))
    return any(block.check != "done" and not _NONE.match(block.text) for block in below)


def _stated(blocks: Sequence[Block]) -> str:
    """The outcome that stands in or below a heading such as `Status`."""
    for block in blocks:
        match = _STATUS.match(block.trail[-1]) if block.trail else None
        if match:
            return block.trail[-1][match.end() :].strip() or block.text[:200]
    return ""


def _agent(value: str) -> str:
    """The one agent that is named; of several, none: a handoff has one receiver."""
    bare = re.sub(r"\([^()]{0,200}\)", "", value).strip(" *`@.")
    return bare if _WORD.fullmatch(bare) and not agent_problems(bare, "") else ""

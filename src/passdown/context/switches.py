"""A switch of agents: which agent a prompt calls for, and the context that is assembled for it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from passdown.context.artifacts import MAX_RETAINED
from passdown.core.task_files import fence_after, without_comments
from passdown.core.tokens import CounterLike, counter_of

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_ASIDE = re.compile(r" {0,3}[\t>]| {4}")
_DECORATOR = re.compile(rf"\s*@{_NAME}(?:\(.*)?\s*$")
_DECORATED = re.compile(
    r"\s*(?:(?:async\s+)?def|class)\s+\w"
    r"|\s*(?:export|public|private|protected|abstract|static|final)\s.*"
    r"\b(?:class|interface|function|void)\b"
)
_BACKTICKS = re.compile(r"`+")
_CODE = "\x00"  # replaces code: nothing next to it can begin or end a call


def find_switch(
    text: str, known: Collection[str], active: str = "", *, prefix: Sequence[str] = ("agents",)
) -> str | None:
    """The first known agent that a text calls and that isn't active, in its known spelling.

    Names match in any case. A bare `/name` counts at the beginning of a line, since `/dev` within
    one may be a path; `prefix` names the words that may come before the last colon of a longer
    one.
    """
    if "@" not in text and "/" not in text:
        return None
    names = {name.casefold(): name for name in known}
    pattern = _calls(tuple(prefix))
    for paragraph in _paragraphs(text):
        prose = without_comments(_without_code_spans(paragraph), _CODE)
        before, mark, _ = prose.partition("<!--")  # one that isn't closed runs to the end
        for found in pattern.finditer(before + (_CODE if mark else "")):
            name = _called(found, names)
            if name and name.casefold() != active.casefold():
                return name
    return None


@cache
def _calls(prefix: tuple[str, ...]) -> re.Pattern[str]:
    words = "|".join(re.escape(word) for word in prefix)
    spaced = f"/(?:{_NAME}:)*(?:{words}):" if words else "(?!)"
    # Emphasis may precede a mention; what comes before that must end a word.
    return re.compile(
        rf"(?:(?:(?<![^\s(（，。！？、：；—])(?:\*{{1,3}}|_{{1,3}}|~~)?@)"  # noqa: RUF001
        rf"|(?<!\S){spaced}|^[ ]{{0,3}}(?:[-*+]\ )?/)({_NAME})",
        re.MULTILINE | re.IGNORECASE,
    )


def _called(found: re.Match[str], names: dict[str, str]) -> str:
    """The known name that a match spells, unless what follows makes it something else."""
    written = found[1]
    longest = min(len(written), max(map(len, names), default=0))
    # A name may end in marks that here end a sentence or close an emphasis.
    for end in range(longest, len(written.rstrip("._-")) - 1, -1):
        name = names.get(written[:end].casefold())
        if name is not None:
            return name if _FOLLOWS.match(found.string, found.start(1) + end) else ""
    return ""


# A call ends at a space or at marks before one; `@dev.tool`, `@dev(` and `/dev/x` go on.
_FOLLOWS = re.compile(r"[.,;:!?…*_~)\]，。！？、：；）—-]*+(?:\s|$)|[，。！？、：；）—]")  # noqa: RUF001


def _paragraphs(text: str) -> Iterator[str]:
    """The prose of a text, paragraph by paragraph: no quotes, no code blocks, no decorators."""
    prose: list[str] = []
    fence = ""
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        # A fence that is never closed runs to the end.
        before, fence = fence, fence_after(fence, line)
        prose.append("" if before or fence else line)
    decorators = _decorators(prose)
    block: list[str] = []
    for number, line in enumerate([*prose, ""]):
        if line.strip() and not _ASIDE.match(line) and number not in decorators:
            block.append(line)
        elif block:
            yield "\n".join(block)
            block = []


def _decorators(lines: list[str]) -> set[int]:
    """The lines that decorate: alone with their `@name`, above another such or a definition."""
    filled = [number for number, line in enumerate(lines) if line.strip()]
    found: set[int] = set()
    for number, following in pairwise(filled):
        if not _DECORATOR.match(lines[number]):
            continue
        if _DECORATOR.match(lines[following]):
            found |= {number, following}
        elif _DECORATED.match(lines[following]):
            found.add(number)
    return found


def _without_code_spans(paragraph: str) -> str:
    r"""A paragraph with each span of code blanked; a run of backticks closes at one as long."""
    if "`" not in paragraph:
        return paragraph
    runs = list(_BACKTICKS.finditer(paragraph))
    closers: dict[int, int] = {}  # the run that closes each run, from the nearest of its length
    nearest: dict[int, int] = {}
    for index in range(len(runs) - 1, -1, -1):
        length = len(runs[index].group())
        closers[index] = nearest.get(length, -1)
        nearest[length] = index
    kept: list[str] = []
    done = index = 0
    while index < len(runs):
        closer = closers[index]
        if closer < 0 or _is_escaped(paragraph, runs[index].start()):
            index += 1
            continue
        kept.append(paragraph[done : runs[index].start()])
        kept.append(_CODE)
        done = runs[closer].end()
        index = closer + 1
    return "".join([*kept, paragraph[done:]])


def _is_escaped(text: str, position: int) -> bool:
    before = text[max(0, position - 40) : position]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


PARTS = ("profile", "rules", "summaries", "brief")
"""The parts of an assembled context, in their order."""

_BETWEEN = "\n\n"


class AssembledContext(NamedTuple):
    """A context ready for a model, and the parts it was made of; empty parts aren't in it."""

    text: str
    parts: tuple[tuple[str, str], ...]


def assemble(
    profile: str, summaries: Sequence[str], brief: str, rules: str = ""
) -> AssembledContext:
    """The context of the agent that takes over.

    The profile comes first and unchanged, and it is the only one. Summaries of earlier agents are
    given oldest first; of more than three the last three are shown.
    """
    kept = [summary for summary in summaries if summary.strip()][-MAX_RETAINED:]
    given = (
        ("profile", profile),
        ("rules", rules if rules.strip() else ""),
        ("summaries", _BETWEEN.join(kept)),
        ("brief", brief if brief.strip() else ""),
    )
    parts = tuple((name, text) for name, text in given if text)
    return AssembledContext(_BETWEEN.join(text for _, text in parts), parts)


def tokens_by_part(assembled: AssembledContext, counter: CounterLike) -> dict[str, int]:
    """Tokens of each part (0 for one that isn't there) and, as `total`, of the whole text."""
    count = counter_of(counter).tokens
    found = dict(assembled.parts)
    by_part = {name: count(found[name]) if name in found else 0 for name in PARTS}
    return {**by_part, "total": count(assembled.text)}


def subagent_prompt(persona: str, task: str) -> str:
    """The prompt of a subagent: its whole persona and its whole task, both unchanged."""
    return _BETWEEN.join(part for part in (persona, task) if part)

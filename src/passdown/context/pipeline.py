"""What all texts for an agent share: one budget, one way to select, quote, cut and count.

Each text is a preset: it names its pieces in order of importance and how they read together. What
fits, and how stored words are quoted in a generated text, is decided here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar, cast

from passdown.core.text import visible
from passdown.core.tokens import Count, CounterLike, counter_of

Piece = TypeVar("Piece")

_FIRST_TRY = 8

ELLIPSIS = "…"
"""Stands where text was cut."""

MAX_TEXT = 400
"""How much of one stored text is quoted; the rest is read by the item's address."""
NO_LIMIT = 10**9
"""The limit of texts that are to be shown whole or not at all."""

_PARTIAL_ESCAPE = r"\\(?:x[0-9a-f]?|u[0-9a-f]{0,3}|U[0-9a-f]{0,7})?$"
_SPECIAL = re.compile(r"[\\`|<\[]")
_SPECIAL_IN_HEADING = re.compile(r"[\\`|<\[#]")
_NUMBERED = r"\A(\d+)(?=[.)])"
_BLOCK_MARKS = tuple("#+*>~_=-")


class Budget(NamedTuple):
    """How long a text may be: in tokens by one counter, and in characters where that is given."""

    limit: int
    tokens: Count
    max_characters: int | None = None

    def fits(self, text: str) -> bool:
        """Whether a text is short enough."""
        is_short = self.max_characters is None or len(text) <= self.max_characters
        return is_short and self.tokens(text) <= self.limit

    def first(self, texts: Iterable[str]) -> str:
        """The first of several texts that fits, fullest first; empty where none does."""
        return next((text for text in texts if self.fits(text)), "")

    def select(
        self,
        pieces: Sequence[Piece],
        render: Callable[[set[Piece]], str],
        *,
        is_ready: Callable[[Piece, set[Piece]], bool] | None = None,
    ) -> set[Piece] | None:
        """As many pieces as fit, the most important first, each whole or not at all.

        None where not even the text without any fits. `is_ready` says whether a piece may follow
        those that were chosen before it.
        """
        everything = set(pieces)
        if self.fits(render(everything)):
            return everything
        if not self.fits(render(set())):
            return None
        chosen: set[Piece] = set()
        for piece in pieces:
            may_follow = is_ready is None or is_ready(piece, chosen)
            if may_follow and self.fits(render({*chosen, piece})):
                chosen.add(piece)
        return chosen


def beginning(
    pieces: Iterable[Piece], fits: Callable[[Sequence[Piece]], bool]
) -> tuple[list[Piece], list[Piece]]:
    """As much of the beginning of a sequence as fits, and what was looked at behind it.

    A few pieces are tried, then half as many more each time, then halves between what fits and
    what doesn't. Which beginnings are tried is the same for every limit up to the first that
    it decides otherwise on, and then the larger one goes on with more: it never gives less.
    """
    unseen = iter(pieces)
    seen = list(islice(unseen, _FIRST_TRY))
    fitting = 0
    while len(seen) > fitting and fits(seen):
        fitting = len(seen)
        seen += islice(unseen, fitting // 2)
    too_many = len(seen)
    while fitting + 1 < too_many:
        middle = (fitting + too_many) // 2
        if fits(seen[:middle]):
            fitting = middle
        else:
            too_many = middle
    return seen[:fitting], seen[fitting:]


def left_out_line(what: Sequence[str], where: str) -> str:
    """The line that counts what isn't shown and names the call that returns all of it."""
    named = f"{', '.join(what)} left out" if what else "All"
    return f"{named}: {where}" if where else named


def budget_of(
    limit: int, counter: CounterLike, default: str = "", max_characters: int | None = None
) -> Budget:
    """A budget by the counter that is meant; `default` names the one for None."""
    found = counter_of(counter, default) if default else counter_of(counter)
    return Budget(limit, found.tokens, max_characters)


def collapse(text: object) -> str:
    """A stored text on one line, its spaces collapsed, with nothing in it that doesn't show."""
    return visible(" ".join(str(text).split()))


def cut(text: str, kept: int) -> str:
    """The first `kept` characters of a line, with an ellipsis after them when there were more."""
    # An escape that is cut in the middle would read as another character.
    return text if len(text) <= kept else re.sub(_PARTIAL_ESCAPE, "", text[:kept]) + ELLIPSIS


def shortened(text: str, limit: int) -> str:
    """A stored text on one line of at most `limit` characters, the ellipsis included."""
    line = collapse(text)
    return line if len(line) <= limit else cut(line, max(limit - 1, 0))


def escaped(text: object, limit: int = MAX_TEXT, address: str = "") -> str:
    """A stored text that stays text inside Markdown: one line, no marks that mean something.

    Longer than `limit`, it is cut and says where the rest is.
    """
    line = collapse(text)
    kept = cut(line, limit)
    rest = f" (whole: passdown show {address})" if kept != line and address else ""
    # Its beginning can't be read as a heading, a list, a quote or a rule.
    marked = re.sub(_NUMBERED, r"\1\\", _SPECIAL.sub(r"\\\g<0>", kept))
    return ("\\" if marked.startswith(_BLOCK_MARKS) else "") + marked + rest


def escaped_heading(text: object) -> str:
    """A stored text inside a heading of Markdown."""
    return _SPECIAL_IN_HEADING.sub(r"\\\g<0>", cut(collapse(text), MAX_TEXT))


def as_code(path: str) -> str:
    """A path as a code span, or as escaped text where a span can't hold it."""
    line = collapse(path)
    is_plain = line and not set(line) & {"`", "|", "\\"}
    return f"`{line}`" if is_plain else escaped(path)


# Words that other readers of YAML turn into something else than text.
_YAML_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})
_NONCHARACTERS = "[\ufffe\uffff]"
_SURROGATES = "[\ud800-\udfff]"


def yaml_text(data: Mapping[str, Any], indent: str = "") -> str:
    """Plain data as YAML in block style, one line for each value, invisible characters as escapes.

    The same data is always the same text, and no reader takes a text for anything else.
    """
    lines: list[str] = []
    for name, value in data.items():
        if isinstance(value, dict) and value:
            inner = yaml_text(cast("dict[str, Any]", value), indent + "  ")
            lines.append(f"{indent}{_scalar(name)}:\n{inner}")
        elif isinstance(value, list | tuple) and value:
            entries = [_yaml_entry(entry, indent) for entry in cast("list[object]", value)]
            lines.append(f"{indent}{_scalar(name)}:\n{''.join(entries)}")
        else:
            lines.append(f"{indent}{_scalar(name)}: {_scalar(cast('object', value))}\n")
    return "".join(lines)


def _yaml_entry(entry: object, indent: str) -> str:
    if isinstance(entry, dict):
        return f"{indent}- " + yaml_text(cast("dict[str, Any]", entry), indent + "  ").lstrip()
    return f"{indent}- {_scalar(entry)}\n"


def _scalar(value: object) -> str:
    """One value on one line; a text is unquoted where no reader could misread it."""
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, dict | list | tuple):
        return "{}" if isinstance(value, dict) else "[]"
    text = without_surrogates(str(value))
    is_bare = (
        text[:1].isalpha()
        and text[-1] not in ": "
        and text.lower() not in _YAML_WORDS
        and ": " not in text
        and " #" not in text
        and not re.search(_NONCHARACTERS, text)
        and visible(text) == text
        and text.isprintable()
    )
    if is_bare:
        return text
    quoted = visible(text.replace("\\", "\\\\").replace('"', '\\"'))
    return f'"{re.sub(_NONCHARACTERS, _as_escape, quoted)}"'


def without_surrogates(text: str) -> str:
    """`text` with each half of a surrogate pair, which no file can hold, as the escape for it."""
    return text if text.isascii() else re.sub(_SURROGATES, _as_escape, text)


def _as_escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found.group()):04x}"


def author_letters(names: Iterable[str]) -> dict[str, str]:
    """A letter for each author of a text, in order; the words of A have no mark."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    known = enumerate(dict.fromkeys(names))
    return {name: letters[n] if n < len(letters) else f"A{n}" for n, name in known}


def table_lines(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table of Markdown; its cells are escaped already."""
    lines = [f"| {' | '.join(cells)} |" for cells in (heads, *rows)]
    return [lines[0], f"|{'|'.join('-' * (len(head) + 2) for head in heads)}|", *lines[1:]]


def sections_text(
    heading: str, sections: Iterable[tuple[str, Sequence[str]]], empty: str, note: str = ""
) -> str:
    """A heading and sections of lines below it as Markdown; empty sections are left out."""
    blocks = [f"### {title}\n" + "\n".join(lines) for title, lines in sections if lines]
    begin = [f"## {heading}", *([note] if note and blocks else [])]
    return "\n\n".join([*begin, *(blocks or [empty])]) + "\n"

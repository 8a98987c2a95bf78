"""The blocks of a note: list items, rows of tables, paragraphs, lines of code; with their places.

Each block knows where it stands in the text, character by character, and which headings stand
above it. A short line that ends in a colon is a heading for what follows it. Reading takes time in
proportion to the text, whatever the text is.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from passdown.model.freeform.cleaning import clean
from passdown.model.freeform.cues import by_opening, is_exact

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_LABEL = 140
"""A line above others that is longer than this is a sentence, not a heading."""

MAX_MARKUP = 4_000
"""Longer lines are text, whatever they begin with."""


MIN_BROKEN = 50
"""A line that goes on in the next one is at least this long."""


class Cell(NamedTuple):
    """One cell of a row: the name of its column, its text, and where that stands."""

    name: str
    text: str
    start: int
    end: int


class Block(NamedTuple):
    """A piece of a note.

    `form` is item, row, text, label, code or value (of a report); `trail` holds the headings above
    it, outermost first; `check` is todo or done where the item has a box to tick.
    """

    form: str
    text: str
    start: int
    end: int
    line: int
    trail: tuple[str, ...] = ()
    cells: tuple[Cell, ...] = ()
    check: str = ""


class Line(NamedTuple):
    """A line of the note without its end: number, first and last place, and what it says."""

    number: int
    start: int
    end: int
    text: str


_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.+)")
_SETEXT = re.compile(r" {0,3}(=+|-+)[ \t]*")
# A box to tick makes an item of a line, with or without a bullet before it.
_ITEM = re.compile(
    r"([ \t]*)(?:(?:[-*+\u2022]|\d{1,9}[.)])[ \t]+(?:\[([ xX])\][ \t]+)?|\[([ xX])\][ \t]+)(?=\S)"
)
_STRUCK = re.compile(
    r"[ \t]*~~[^~]{1,2000}~~[ \t]*(?:\([^()]{0,200}\)|[.,;!]|done\b.{0,60})?[ \t]*"
)
_RULE = re.compile(r"[ \t]*([-*_])[ \t]*(?:\1[ \t]*){2,}")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([A-Za-z0-9_+-]*)[^`]*")
_QUOTE = re.compile(r"[ \t]*(?:>[ \t]?)+")
_CELL_BORDER = re.compile(r"(?<!\\)\|")
_CAPITALS = re.compile(r"[A-Z][A-Z0-9 &/'-]{2,50}")
_PROSE_FENCES = frozenset({"", "text", "txt", "markdown", "md"})


def lines_of(text: str) -> Iterator[Line]:
    """The lines of a text, each with its place; a carriage return before the end isn't part."""
    start = 1 if text.startswith("\ufeff") else 0  # a byte order mark is no part of a line
    number = 0
    while start <= len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        number += 1
        last = end - 1 if end > start and text[end - 1] == "\r" else end
        yield Line(number, start, last, text[start:last])
        start = end + 1


class Places:
    """Which line a place of a text is in."""

    def __init__(self, text: str) -> None:
        self._breaks = [match.start() for match in re.finditer("\n", text)]

    def line(self, at: int) -> int:
        """The number of the line, from 1."""
        return bisect_left(self._breaks, at) + 1


def is_label(text: str) -> bool:
    """Whether a line stands above others as their heading."""
    bare = text.strip().strip("*_ ")
    if len(bare) > MAX_LABEL:
        return False
    return bare.endswith(":") or _CAPITALS.fullmatch(bare) is not None


def is_struck(text: str) -> bool:
    """Whether all that a line says is struck out; a word about that may follow."""
    return "~~" in text and _STRUCK.fullmatch(text) is not None


def open_fence(text: str) -> str:
    """The marks of a code fence that is never closed, or nothing."""
    fence = ""
    for line in lines_of(text):
        fence = fence_after(fence, line.text)
    return fence


def fence_after(fence: str, line: str) -> str:
    """The marks of the code fence that is open after a line; empty where none is."""
    match = _FENCE.fullmatch(line) if len(line) <= MAX_MARKUP else None
    if match is None:
        return fence
    if not fence:
        return match[1]
    closes = match[1][0] == fence[0] and len(match[1]) >= len(fence) and not match[2]
    return "" if closes else fence


class _Reader:
    """Markdown and plain text, line by line; what is indented below an item belongs to it."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.found: list[Block] = []
        self.headings: list[tuple[int, str]] = []
        self.label = ""
        self.columns: list[str] = []
        self.fence = ""
        self.is_prose_fence = False
        self.form = ""
        self.start = self.end = self.number = 0
        self.check = ""
        self.indent = 0
        self.label_indent = -1
        self.is_label_used = False
        self.is_gap = False
        self.is_told = False

    def take(self, line: Line) -> None:
        """Read the next line."""
        text = line.text
        if len(text) > MAX_MARKUP:
            self._prose(line, text)
            return
        fence = fence_after(self.fence, text)
        if fence != self.fence:
            self._turn_fence(fence, text)
        elif self.fence:
            self._in_fence(line)
        elif not text.strip():
            self._gap()
        else:
            self._markup(line)

    def _turn_fence(self, fence: str, text: str) -> None:
        self.close()
        if fence:
            match = _FENCE.fullmatch(text)
            self.is_prose_fence = match is not None and match[2].lower() in _PROSE_FENCES
        else:
            self.label = ""
        self.fence = fence

    def _in_fence(self, line: Line) -> None:
        """Notes put lists into fences too; what else stands there is code, line by line."""
        item = _ITEM.match(line.text) if self.is_prose_fence else None
        self.close()
        if not line.text.strip():
            self.label = ""
        elif item:
            self._begin("item", line, line.start + item.end())
            self.check = _check(item)
            self.close()
        elif self.is_prose_fence and is_label(line.text):
            self.label = clean(line.text)
        else:
            self._begin("code", line, line.start)
            self.close()

    def _gap(self) -> None:
        if self.form == "item":
            self.is_gap = True  # an item goes on after a gap, if what follows is indented
        else:
            self.close()
        self.columns = []

    def _markup(self, line: Line) -> None:
        text = line.text
        if self.is_gap and not text[0].isspace():
            self.close()
        heading = _HEADING.fullmatch(text)
        if heading:
            self._head(len(heading[1]), heading[2].rstrip("# \t"))
        elif self.form == "text" and self._is_underlined(line):
            title, self.form = clean(self.source[self.start : self.end]), ""
            self._head(1 if text.strip()[0] == "=" else 2, title)
        elif _RULE.fullmatch(text):
            self.close()
            self.label = ""
        elif text.lstrip().startswith("|") and text.count("|") > 1:
            self._row(line)
        else:
            quote = _QUOTE.match(text)
            self._prose(line, text[quote.end() :] if quote else text)

    def _is_underlined(self, line: Line) -> bool:
        return line.number == self.number + 1 and _SETEXT.fullmatch(line.text) is not None

    def _head(self, level: int, title: str) -> None:
        self.close()
        self.headings = [above for above in self.headings if above[0] < level]
        self.headings.append((level, clean(title)))
        self.label = ""
        self.columns = []

    def _row(self, line: Line) -> None:
        cells = list(_cells(line))
        names = [clean(self.source[start:end]) for start, end in cells]
        if not self.columns:
            self.close()
            self.columns = names
        elif not all(set(name) <= set(":- ") for name in names):
            pairs = zip(self.columns, names, cells, strict=False)
            held = tuple(Cell(c or "#", name, *span) for c, name, span in pairs if name)
            if held:
                self._add(Block("row", " | ".join(names), line.start, line.end, line.number), held)

    def _prose(self, line: Line, text: str) -> None:
        begin = line.end - len(text)
        item = _ITEM.match(text) if len(text) <= MAX_MARKUP else None
        if self._is_opening(text) or (text[:1].isupper() and self._is_item_over()):
            self.close()
        if item:
            self._item(line, begin, item)
        elif is_struck(text):
            self.close()
            self._begin("item", line, begin)
            self.check = "done"
            self.close()
        elif self.form == "item" and (not self.is_gap or text[:1].isspace()):
            self.end = line.end
            self.is_gap = False
        elif is_label(text):
            self._lead(line, begin)
        elif self.form == "text" and not self._is_over():
            self.end = line.end
        else:
            self.close()
            if self.is_label_used:
                self.label = ""  # it stood above a list, and the list is over
            self._begin("text", line, begin)
            self.is_told = _is_told(text)

    def _is_opening(self, text: str) -> bool:
        """Whether a line within a block says of itself what it is, such as `blocked: no key`.

        What is indented below an item explains it, whatever it begins with.
        """
        if not self.form or (self.form == "item" and text[:1].isspace()):
            return False
        return _is_told(text) and not is_label(text)

    def _is_over(self) -> bool:
        """Whether a block that says of itself what it is has said it: at the end of a sentence, or
        of a line that is too short to be a broken one.
        """
        return self.is_told and self._is_line_over()

    def _is_item_over(self) -> bool:
        """Whether a sentence that stands at the margin below an item isn't part of it."""
        return self.form == "item" and not self.is_gap and self._is_line_over()

    def _is_line_over(self) -> bool:
        at = self.source.rfind("\n", self.start, self.end) + 1
        last = self.source[max(at, self.start) : self.end].rstrip()
        return len(last) < MIN_BROKEN or last.endswith((".", "!", "?"))

    def _lead(self, line: Line, begin: int) -> None:
        """A heading for what follows: the last sentence of a line that ends in a colon."""
        self.close()
        said = clean(self.source[begin : line.end])
        self._add(Block("label", said, begin, line.end, line.number), ())
        self.label, self.label_indent = said.rpartition(". ")[2], -1
        self.is_label_used = False
        self.columns = []

    def _item(self, line: Line, begin: int, item: re.Match[str]) -> None:
        """An item of a list; one that is indented below another is part of it."""
        indent = len(item[1].expandtabs(4))
        is_below = self.form == "item" and indent >= self.indent + 2
        above = self.source[self.start : self.end] if is_below else ""
        if is_below and not is_label(above):
            self.end = line.end
            self.is_gap = False
            return
        if above:
            self.form, self.label, self.label_indent = "", clean(above), self.indent
        self.close()
        if indent <= self.label_indent:
            self.label, self.label_indent = "", -1
        self._begin("item", line, begin + item.end())
        self.check = _check(item)
        self.indent = indent

    def _begin(self, form: str, line: Line, start: int) -> None:
        self.form, self.start, self.end, self.number = form, start, line.end, line.number

    def close(self) -> None:
        """A block is over."""
        if self.form:
            text = self.source[self.start : self.end]
            said = text.rstrip() if self.form == "code" else clean(text)
            if said:
                block = Block(self.form, said, self.start, self.end, self.number, check=self.check)
                self._add(block, ())
            if self.form == "text":
                # What leads to a list is its heading, though it stands at the end of a paragraph.
                last = said.rpartition(". ")[2]
                self.label = last if is_label(last) and last.endswith(":") else ""
                self.is_label_used = False
        self.form = self.check = ""
        self.is_gap = False

    def _add(self, block: Block, cells: tuple[Cell, ...]) -> None:
        self.is_label_used = True
        titles = [title for _, title in self.headings] + ([self.label] if self.label else [])
        self.found.append(block._replace(trail=tuple(titles), cells=cells))


def _is_told(text: str) -> bool:
    """Whether a line opens with the word for what it is, and a colon."""
    cue = by_opening(clean(text)) if len(text) <= MAX_MARKUP else None
    return cue is not None and is_exact(cue)


def _check(item: re.Match[str]) -> str:
    """Whether an item is done or to do, by its box or by the line through it."""
    is_done = is_struck(item.string[item.end() :]) or (item[2] or item[3] or " ") != " "
    return "done" if is_done else "todo" if item[2] or item[3] else ""


def _cells(line: Line) -> Iterator[tuple[int, int]]:
    """Where the cells of a row begin and end."""
    borders = [match.start() for match in _CELL_BORDER.finditer(line.text)]
    if line.text[borders[-1] + 1 :].strip():
        borders.append(len(line.text))
    for left, right in pairwise(borders):
        yield line.start + left + 1, line.start + right


def markdown_blocks(text: str, start: int = 0) -> list[Block]:
    """The blocks of Markdown or plain text from a place on, in their order."""
    reader = _Reader(text)
    for line in lines_of(text):
        if line.start >= start:
            reader.take(line)
    reader.close()
    return reader.found

"""Split a freeform note, Markdown or a JSON report, into blocks with their positions."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from passdown.core.task_files import fence_after, fence_line
from passdown.imports.note_words import (
    by_column,
    by_key,
    by_opening,
    clean,
    field_of,
    is_exact,
    without_signs,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_LABEL = 140
"""A longer line is a sentence, not a heading."""

MAX_MARKUP = 4_000
"""Longer lines are plain text, whatever they begin with."""

MIN_BROKEN = 50
"""A line that continues in the next one is at least this long."""


class Cell(NamedTuple):
    """A named part of a block: a cell of a row, a member of an object or a labelled line, with its
    position. `parts` are the entries of a list.
    """

    name: str
    text: str
    start: int
    end: int
    parts: tuple[str, ...] = ()


class Block(NamedTuple):
    """A block of a note.

    `form` is heading, item, row, text, label, code or value (of a report); `trail` holds the
    headings above it, outermost first; `check` is todo or done if the item has a checkbox.
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
    """A line of the note without its line break: number, start, end and text."""

    number: int
    start: int
    end: int
    text: str


_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.+)")
_SETEXT = re.compile(r" {0,3}(=+|-+)[ \t]*")
# A checkbox makes an item of a line, with or without a bullet before it.
_ITEM = re.compile(
    r"([ \t]*)(?:(?:[-*+\u2022]|\d{1,9}[.)])[ \t]+(?:\[([ xX])\][ \t]+)?|\[([ xX])\][ \t]+)(?=\S)"
)
_STRUCK = re.compile(
    r"[ \t]*~~[^~]{1,2000}~~[ \t]*(?:\([^()]{0,200}\)|[.,;!]|done\b.{0,60})?[ \t]*"
)
_RULE = re.compile(r"[ \t]*([-*_])[ \t]*(?:\1[ \t]*){2,}")
_QUOTE = re.compile(r"[ \t]*(?:>[ \t]?)+")
_CELL_BORDER = re.compile(r"(?<!\\)\|")
_CAPITALS = re.compile(r"[A-Z][A-Z0-9 &/'-]{2,50}")
_PROSE_FENCES = frozenset({"", "text", "txt", "markdown", "md"})
_LABELLED = re.compile(r"([A-Za-z][\w '/&-]{1,40}?)(?: ?\([^()]{0,60}\))?:\s+(\S.*)")
_SENTENCE = re.compile(r"(?<=[.!?])[)\"'*]{0,3}\s+(?=[A-Z\"'(\[*`\d])|\n(?=[ \t]*\n)")


def lines_of(text: str, start: int = 0, end: int | None = None) -> Iterator[Line]:
    """The lines of a passage, without carriage returns and byte order mark; numbered from 1."""
    start = max(start, 1 if text.startswith("\ufeff") else 0)
    limit = len(text) if end is None else end
    number = 0
    while start <= limit:
        at = text.find("\n", start, limit)
        at = limit if at < 0 else at
        number += 1
        last = at - 1 if at > start and text[at - 1] == "\r" else at
        yield Line(number, start, last, text[start:last])
        start = at + 1


class LineIndex:
    """Line numbers by position in a text."""

    def __init__(self, text: str) -> None:
        self._breaks = [match.start() for match in re.finditer("\n", text)]

    def line(self, at: int) -> int:
        """The line number of a position, from 1."""
        return bisect_left(self._breaks, at) + 1


def is_label(text: str) -> bool:
    """Whether a line is a heading for the lines below it."""
    bare = text.strip().strip("*_ ")
    if len(bare) > MAX_LABEL:
        return False
    return bare.endswith(":") or _CAPITALS.fullmatch(bare) is not None


def is_struck(text: str) -> bool:
    """Whether a whole line is struck through; a remark may follow."""
    return "~~" in text and _STRUCK.fullmatch(text) is not None


def open_fence(text: str) -> str:
    """The marks of a code fence that is left open, or nothing."""
    fence = ""
    for line in lines_of(text):
        fence = fence_after(fence, line.text)
    return fence


def remarks(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """The lines of a passage that are remarks of their own, and not one wrapped paragraph.

    A line break is deliberate where the next word would have had room in the line.
    """
    lines = [line for line in lines_of(text, start, end) if line.text.strip()]
    width = max([60, *(len(line.text) for line in lines)])
    found: list[tuple[int, int]] = []
    is_over = True
    for line, following in zip_longest(lines, lines[1:]):
        bare = line.text.lstrip()
        is_wrapped = bool(found) and (not is_over or (width > 60 and bare[:1].islower()))
        found.append((found.pop()[0] if is_wrapped else line.start, line.end))
        room = width - len(line.text) - 1
        has_room = following is None or len(following.text.split(maxsplit=1)[0]) <= room
        is_over = has_room and not bare.endswith((",", " and", " or", "-"))
    return found


def sentences(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The sentences of a passage; a remark on a line of its own is one, too."""
    for first, last in remarks(text, start, end):
        at = first
        for match in _SENTENCE.finditer(text, first, last):
            if text[at : match.start()].strip():
                yield at, match.start()
            at = match.end()
        if text[at:last].strip():
            yield at, last


def _labelled(line: str) -> tuple[str, str]:
    """Label and text of a line such as `**Why**: it is small`; a label that isn't bold has to be
    one that is known.
    """
    if len(line) > MAX_MARKUP or ":" not in line:
        return "", ""
    item = _ITEM.match(line)
    raw = line[item.end() :] if item else line
    match = _LABELLED.match(without_signs(clean(raw)))
    if match is None:
        return "", ""
    is_bold = without_signs(raw.strip()).startswith(("**", "__"))
    is_known = is_bold or bool(field_of(match[1]) or by_column(match[1]))
    return (match[1], match[2]) if is_known else ("", "")


def labelled_cells(text: str, start: int, end: int) -> tuple[Cell, ...]:
    """The labelled lines of a passage, if it has any below its first line; what is before the first
    label is a cell without a name.
    """
    names: list[str] = []
    texts: list[list[str]] = []
    spans: list[tuple[int, int]] = []
    for line in lines_of(text, start, end):
        name, said = _labelled(line.text)
        if name or not texts:
            names.append(name)
            texts.append([said or line.text])
            spans.append((line.start, line.end))
        else:
            texts[-1].append(line.text)
            spans[-1] = (spans[-1][0], line.end)
    if not any(field_of(name) or by_column(name) for name in names[1:] if name):
        return ()
    said = (clean("\n".join(lines)) for lines in texts)
    return tuple(Cell(n, t, *span) for n, t, span in zip(names, said, spans, strict=True) if t)


class _BlockParser:
    """Parses Markdown and plain text line by line; indented text below an item belongs to it."""

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
        self.is_labelled = False

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
            match = fence_line(text)
            self.is_prose_fence = match is not None and match[2].lower() in _PROSE_FENCES
        else:
            self.label = ""
        self.fence = fence

    def _in_fence(self, line: Line) -> None:
        """Notes put lists into fences too; anything else there is code, line by line."""
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
            self.is_gap = True  # an item continues after a gap if the next line is indented
        else:
            self.close()
        self.columns = []

    def _markup(self, line: Line) -> None:
        text = line.text
        if self.is_gap and not text[0].isspace():
            self.close()
        heading = _HEADING.fullmatch(text)
        if heading:
            self._head(len(heading[1]), heading[2].rstrip("# \t"), line)
        elif self.form == "text" and self._is_underlined(line):
            title, self.form = clean(self.source[self.start : self.end]), ""
            self._head(1 if text.strip()[0] == "=" else 2, title, line)
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

    def _head(self, level: int, title: str, line: Line) -> None:
        self.close()
        self.headings = [above for above in self.headings if above[0] < level]
        self.label = ""
        self.columns = []
        self._add(Block("heading", clean(title), line.start, line.end, line.number))
        self.headings.append((level, clean(title)))

    def _row(self, line: Line) -> None:
        borders = [match.start() for match in _CELL_BORDER.finditer(line.text)]
        if line.text[borders[-1] + 1 :].strip():
            borders.append(len(line.text))
        spans = [(line.start + a + 1, line.start + b) for a, b in pairwise(borders)]
        names = [clean(self.source[start:end]) for start, end in spans]
        if not self.columns:
            self.close()
            self.columns = names
        elif not all(set(name) <= set(":- ") for name in names):
            pairs = zip(self.columns, names, spans, strict=False)
            cells = tuple(Cell(c or "#", name, *span) for c, name, span in pairs if name)
            if cells:
                text = " | ".join(names)
                self._add(Block("row", text, line.start, line.end, line.number, cells=cells))

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
        elif self.form == "text" and not self._is_other_fact(text):
            self.end = line.end
        else:
            self.close()
            if self.is_label_used:
                self.label = ""  # it was the heading of a list that is over
            self._begin("text", line, begin)
            self.is_labelled = _opens_kind(text)

    def _is_other_fact(self, text: str) -> bool:
        """Whether a line below one that names its kind is about something else."""
        if not self.is_labelled or field_of(_labelled(text)[0]):
            return False
        return self._is_line_over()

    def _is_opening(self, text: str) -> bool:
        """Whether a line within a block names its own kind, such as `blocked: no key`.

        Indented text below an item explains that item, whatever it begins with, and so does a label
        such as `Fix:`.
        """
        if not self.form or (self.form == "item" and text[:1].isspace()) or is_label(text):
            return False
        name = _labelled(text)[0]
        if name and self.form == "text" and field_of(name):
            return False
        return _opens_kind(text) or (bool(name) and by_column(name) is not None)

    def _is_item_over(self) -> bool:
        """Whether an unindented sentence below an item isn't part of it."""
        return self.form == "item" and not self.is_gap and self._is_line_over()

    def _is_line_over(self) -> bool:
        """Whether the block's last line ends a sentence, or is too short to be a wrapped one."""
        at = self.source.rfind("\n", self.start, self.end) + 1
        last = self.source[max(at, self.start) : self.end].rstrip()
        return len(last) < MIN_BROKEN or last.endswith((".", "!", "?"))

    def _lead(self, line: Line, begin: int) -> None:
        """Take the last sentence of a line that ends in a colon as a heading for what follows."""
        self.close()
        said = clean(self.source[begin : line.end])
        self._add(Block("label", said, begin, line.end, line.number))
        self.label, self.label_indent = said.rpartition(". ")[2], -1
        self.is_label_used = False
        self.columns = []

    def _item(self, line: Line, begin: int, item: re.Match[str]) -> None:
        """Begin a list item; one that is indented below another is part of that."""
        indent = len(item[1].expandtabs(4))
        is_below = self.form == "item" and indent >= self.indent + 2
        above = self.source[self.start : self.end] if is_below else ""
        is_box = bool(_check(item)) and not self.check
        if is_below and not is_label(above) and not is_box:
            self.end = line.end
            self.is_gap = False
            return
        if above:
            # What leads to a list, or to boxes, is their heading.
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
        """End the current block."""
        if self.form:
            text = self.source[self.start : self.end]
            said = text.rstrip() if self.form == "code" else clean(text)
            if said:
                is_long = "\n" in text and self.form != "code"
                cells = labelled_cells(self.source, self.start, self.end) if is_long else ()
                place = (self.start, self.end, self.number)
                self._add(Block(self.form, said, *place, cells=cells, check=self.check))
            if self.form == "text":
                # The end of a paragraph that leads to a list is the list's heading.
                last = said.rpartition(". ")[2]
                self.label = last if is_label(last) and last.endswith(":") else ""
                self.is_label_used = False
        self.form = self.check = ""
        self.is_gap = False

    def _add(self, block: Block) -> None:
        self.is_label_used = True
        titles = [title for _, title in self.headings] + ([self.label] if self.label else [])
        self.found.append(block._replace(trail=tuple(titles)))


def _opens_kind(text: str) -> bool:
    """Whether a line opens with the word for its kind, and a colon."""
    cue = by_opening(clean(text)) if len(text) <= MAX_MARKUP else None
    return cue is not None and is_exact(cue)


def _check(item: re.Match[str]) -> str:
    """Whether an item is done or to do, by its checkbox or strikethrough."""
    is_done = is_struck(item.string[item.end() :]) or (item[2] or item[3] or " ") != " "
    return "done" if is_done else "todo" if item[2] or item[3] else ""


def markdown_blocks(text: str, start: int = 0) -> list[Block]:
    """The blocks of Markdown or plain text from a position on."""
    reader = _BlockParser(text)
    for line in lines_of(text):
        if line.start >= start:
            reader.take(line)
    reader.close()
    return reader.found


# JSON reports

MAX_DEPTH = 64

_BEGINNING = re.compile(r'\ufeff?\s{0,100}\{\s{0,100}"')
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},:]|[^\s"\[\]{},:]++', re.DOTALL)


class _Node(NamedTuple):
    """A value of a JSON report: the text of a scalar, or the members of a list or an object."""

    start: int
    end: int
    text: str = ""
    form: str = "scalar"
    members: tuple[tuple[str, _Node], ...] = ()


def report_fault(text: str, name: str) -> str:
    """What is wrong with a text that is meant to be JSON, by its name or its beginning.

    Read as prose, a broken report would give a handoff of fragments.
    """
    if is_report(text) or not (name.lower().endswith(".json") or _BEGINNING.match(text)):
        return ""
    try:
        json.loads(text.lstrip("\ufeff"))
    except json.JSONDecodeError as error:
        return f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError):
        return "it can't be read"
    return "it holds neither an object nor a list"


def is_report(text: str) -> bool:
    """Whether a text is JSON: an object or a list."""
    stripped = text.lstrip("\ufeff \t\r\n")
    try:
        return stripped.startswith(("{", "[")) and json.loads(stripped) is not None
    except (ValueError, RecursionError):
        return False


def report_blocks(text: str) -> list[Block] | None:
    """The blocks of a JSON report; None if the text isn't JSON, or is nested too deeply."""
    root = _parsed(text) if is_report(text) else None
    return list(_blocks(root, (), LineIndex(text))) if root else None


def _parsed(text: str) -> _Node | None:
    """The report with positions; the text is known to be JSON."""
    opened: list[tuple[int, str]] = []
    members: list[list[_Node]] = [[]]
    for match in _TOKEN.finditer(text):
        sign, start, end = match[0], match.start(), match.end()
        if sign in "[{":
            opened.append((start, "list" if sign == "[" else "object"))
            members.append([])
            if len(opened) > MAX_DEPTH:
                return None
        elif sign in "]}":
            (first, form), inner = opened.pop(), members.pop()
            keyed = zip(inner[::2], inner[1::2], strict=True) if form == "object" else ()
            named = [(key.text, node) for key, node in keyed] or [("", node) for node in inner]
            members[-1].append(_Node(first, end, "", form, tuple(named if inner else ())))
        elif sign.startswith('"'):
            # The position is that of the words, without quotation marks.
            members[-1].append(_Node(start + 1, end - 1, str(json.loads(sign, strict=False))))
        elif sign not in ",:":
            members[-1].append(_Node(start, end, sign))
    return members[0][0] if members[0] else None


def _blocks(
    node: _Node, keys: tuple[str, ...], places: LineIndex, *, is_entry: bool = False
) -> Iterator[Block]:
    line = places.line(node.start)
    if node.form == "scalar":
        if node.text.strip():
            yield Block("value", node.text, node.start, node.end, line, keys)
    elif _is_record(node, keys, is_entry=is_entry):
        cells = tuple(
            Cell(key, "; ".join(parts), part.start, part.end, parts if part.members else ())
            for key, part in node.members
            if (parts := _texts(part)) and "".join(parts)
        )
        text = " | ".join(cell.text for cell in cells)
        yield Block("row", text, node.start, node.end, line, keys, cells)
    else:
        is_list = node.form == "list"
        for key, part in node.members:
            yield from _blocks(part, keys if is_list else (*keys, key), places, is_entry=is_list)


def _is_record(node: _Node, keys: tuple[str, ...], *, is_entry: bool) -> bool:
    """Whether an object is one item: an entry of a list whose members are texts.

    Below a key that announces items, members may be lists of texts, and an object that isn't in a
    list counts if it names a field such as the reason; any other holds an item by key.
    """
    if node.form != "object" or not node.members or not keys:
        return False
    parts = [part for _, part in node.members]
    if by_key(keys) is None:
        return is_entry and all(part.form == "scalar" for part in parts)
    if any(inner.form != "scalar" for part in parts for _, inner in part.members):
        return False
    names = [key.replace("_", " ") for key, _ in node.members]
    is_named = any(field_of(name) or by_column(name) for name in names)
    return is_named or (is_entry and all(part.form != "object" for part in parts))


def _texts(node: _Node) -> tuple[str, ...]:
    return tuple(part.text for _, part in node.members) if node.members else (node.text,)

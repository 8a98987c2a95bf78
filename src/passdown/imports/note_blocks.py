"""Split a freeform note, Markdown or a report in JSON or YAML, into blocks with their positions."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from contextlib import suppress
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.core.parsing import load_yaml
from passdown.core.redaction import redact
from passdown.core.task_files import fence_after, fence_line, without_comments
from passdown.core.text import has_lone_surrogate, text_problems
from passdown.errors import InvalidInput
from passdown.imports import note_cues as cues

if TYPE_CHECKING:
    from collections.abc import Iterator


MAX_FIELD = 65_536
MAX_LABEL = 140
"""A longer line is a sentence, not a heading."""
MAX_MARKUP = 4_000
"""Longer lines are plain text, whatever they begin with."""
MAX_LEAD_WORDS = 4
MIN_BROKEN = 50
"""A line that continues in the next one is at least this long."""


class NoteItem(NamedTuple):
    """An item found in a note. `kind` is its list in the handoff, `confidence` is from 0 to 1,
    `cue` the words that identified it.
    """

    kind: str
    fields: dict[str, Any]
    span: tuple[int, int]
    line: int
    confidence: float
    cue: str


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
    trail: cues.Trail = ()
    cells: tuple[Cell, ...] = ()
    check: str = ""


class Line(NamedTuple):
    """A line of the note without its line break: number, start, end and text."""

    number: int
    start: int
    end: int
    text: str


class LineIndex:
    """Line numbers by position in a text."""

    def __init__(self, text: str) -> None:
        self._breaks = [match.start() for match in re.finditer("\n", text)]

    def line(self, at: int) -> int:
        """The line number of a position, from 1."""
        return bisect_left(self._breaks, at) + 1


# Every gap is bounded or excludes its own opening mark, so that matching takes linear time.
_LINK = re.compile(r"!?\[([^\[\]]{1,300})\]\([^()\s]{0,500}\)")
_MARKS = re.compile(r"\*\*|__(?=\S)|(?<=\S)__|<br ?/?>|(?m:^[ \t]{0,40}(?:>[ \t]?)+)")
_BEFORE_POINT = re.compile(r"\s+([.,:;!?)])")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.+)")
# A tag on a line of its own, as templates for agents use them, begins or ends a section.
_TAG = re.compile(r"[ \t]*<(/?)([A-Za-z][\w-]{2,40})>[ \t]*")
_TAG_LEVEL = 1.5
_HTML = frozenset({"details", "summary", "div", "span", "table", "tbody", "thead", "pre", "code"})
_SETEXT = re.compile(r" {0,3}(=+|-+)[ \t]*")
# A checkbox makes an item of a line, with or without a bullet before it.
_ITEM = re.compile(
    r"([ \t]*)(?:(?:[-*+\u2022]|\d{1,9}[.)])[ \t]+(?:\[([ xX])\][ \t]+)?|\[([ xX])\][ \t]+)(?=\S)"
)
_OPEN_SIGN = re.compile("[\u2610\u2b1c\u23f3\U0001f532]")
_BOLD_TOPIC = re.compile(r"\*\*[^*:\n]{2,60}(?::\*\*|\*\*:)[ \t]+\S")
_KEY = re.compile(r"[a-z][a-z0-9_]*:")
_STRUCK = re.compile(
    r"[ \t]*~~[^~]{1,2000}~~[ \t]*"
    r"(?:\([^()]{0,200}\)|[.,;!]|\W{0,3}(?:done|fixed|resolved|completed?)\b.{0,60})?[ \t]*"
)
_RULE = re.compile(r"[ \t]*([-*_])[ \t]*(?:\1[ \t]*){2,}")
_QUOTE = re.compile(r"[ \t]*(?:>[ \t]?)+")
_CELL_BORDER = re.compile(r"(?<!\\)\|")
_CAPITALS = re.compile(r"[A-Z][A-Z0-9 &/'-]{2,50}")
_PROSE_FENCES = frozenset({"", "text", "txt", "markdown", "md"})
_LABELLED = re.compile(r"([A-Za-z][\w '/&`.-]{1,40}?)(?: ?\([^()]{0,60}\))?:\s+(\S.*)")
_SENTENCE = re.compile(r"(?<=[.!?])[)\"'*]{0,3}\s+(?=[A-Z\"'(\[*`\d])|\n(?=[ \t]*\n)")


def clean(text: str) -> str:
    """Text on one line without Markdown's marks for bold, links, quotes, comments and breaks."""
    if "<!--" in text:
        text = without_comments(text, " ")
    text = _MARKS.sub(" ", _LINK.sub(r"\1", text))
    return _BEFORE_POINT.sub(r"\1", " ".join(text.replace("\x00", " ").split())).strip()


def storable(text: str) -> str:
    """A text that a record's field can hold: cut to the limit, without secrets; or nothing."""
    if has_lone_surrogate(text):
        text = text.encode("utf-8", "replace").decode()
    text = redact(text)[0].replace("\x00", " ")
    if len(text) > MAX_FIELD:
        text = text[: MAX_FIELD - 1] + "\u2026"
    return "" if text_problems(text, "") else text


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
        breaks = [match.span() for match in _SENTENCE.finditer(text, first, last)]
        for (_, at), (until, _) in pairwise([(first, first), *breaks, (last, last)]):
            if text[at:until].strip():
                yield at, until


# Lines


def _is_label(text: str) -> bool:
    """Whether a line is a heading for the lines below it."""
    bold = text.strip()
    bare = bold.strip("*_ ")
    if len(bare) > MAX_LABEL:
        return False
    if bare.endswith("?"):
        return bold.startswith("**") and bold.endswith("**") and cues.field_of(bare) == "why"
    return bare.endswith(":") or _CAPITALS.fullmatch(bare) is not None


def _is_struck(text: str) -> bool:
    """Whether a whole line is struck through; a remark may follow."""
    return "~~" in text and _STRUCK.fullmatch(text) is not None


def _check(item: re.Match[str]) -> str:
    """Whether an item is done or to do, by its checkbox or strikethrough."""
    is_done = _is_struck(item.string[item.end() :]) or (item[2] or item[3] or " ") != " "
    is_open = item[2] or item[3] or _OPEN_SIGN.match(item.string, item.end())
    return "done" if is_done else "todo" if is_open else ""


def _opens_kind(text: str) -> bool:
    """Whether a line opens with the word for its kind, and a colon."""
    return len(text) <= MAX_MARKUP and cues.is_exact(cues.by_opening(clean(text)))


def _labelled(line: str) -> tuple[str, str]:
    """Label and text of a line such as `**Why**: it is small`; a label that isn't bold has to be
    one that is known.
    """
    if len(line) > MAX_MARKUP or ":" not in line:
        return "", ""
    item = _ITEM.match(line)
    raw = line[item.end() :] if item else line
    match = _LABELLED.match(cues.without_signs(clean(raw)))
    if match is None:
        return "", ""
    is_bold = cues.without_signs(raw.strip()).startswith(("**", "__"))
    is_known = is_bold or cues.field_of(match[1]) or cues.by_name(match[1])
    return (match[1], match[2]) if is_known else ("", "")


def _labelled_cells(text: str, start: int, end: int) -> tuple[Cell, ...]:
    """The labelled lines of a passage, if it has any below its first line; what is before the first
    label is a cell without a name.
    """
    found: list[tuple[str, list[str], int, int]] = []
    for line in lines_of(text, start, end):
        name, said = _labelled(line.text)
        if name or not found:
            found.append((name, [said or line.text], line.start, line.end))
        else:
            label, lines, first, _ = found[-1]
            found[-1] = (label, [*lines, line.text], first, line.end)
    if not any(cues.field_of(name) or cues.by_name(name) for name, *_ in found[1:] if name):
        return ()
    cells = [Cell(name, clean("\n".join(lines)), at, until) for name, lines, at, until in found]
    return tuple(cell for cell in cells if cell.text)


class _BlockParser:
    """Parses Markdown and plain text line by line; indented text below an item belongs to it."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.found: list[Block] = []
        self.headings: list[tuple[float, str]] = []
        self.label, self.label_indent, self.is_label_used = "", -1, False
        self.columns: list[str] = []
        self.fence, self.is_prose_fence = "", False
        # The open block
        self.form = self.check = ""
        self.start = self.end = self.number = self.indent = 0
        self.is_gap = self.is_labelled = False

    def take(self, line: Line) -> None:
        """Read the next line."""
        text = line.text
        fence = fence_after(self.fence, text) if len(text) <= MAX_MARKUP else self.fence
        if len(text) > MAX_MARKUP:
            self._prose(line, text)
        elif fence != self.fence:
            self._turn_fence(fence, text)
        elif self.fence:
            self._in_fence(line)
        elif not text.strip():
            self.is_gap = self.form == "item"  # it continues if the next line is indented
            if not self.is_gap:
                self.close()
            self.columns = []
        else:
            self._markup(line)

    def _turn_fence(self, fence: str, text: str) -> None:
        self.close()
        match = fence_line(text) if fence else None
        self.is_prose_fence = match is not None and match[2].lower() in _PROSE_FENCES
        self.label = self.label if fence else ""
        self.fence = fence

    def _in_fence(self, line: Line) -> None:
        """Notes put lists into fences too; anything else there is code, line by line."""
        item = _ITEM.match(line.text) if self.is_prose_fence else None
        self.close()
        if not line.text.strip():
            self.label = ""
        elif self.is_prose_fence and not item and _is_label(line.text):
            self.label = clean(line.text)
        else:
            self._begin("item" if item else "code", line, line.start + (item.end() if item else 0))
            self.check = _check(item) if item else ""
            self.close()

    def _markup(self, line: Line) -> None:
        text = line.text
        if self.is_gap and not text[0].isspace():
            self.close()
        heading, tag = _HEADING.fullmatch(text), _TAG.fullmatch(text)
        if tag and tag[2].lower() not in _HTML:
            title = "" if tag[1] else tag[2].replace("_", " ").replace("-", " ")
            self._head(_TAG_LEVEL, title, line)
        elif heading:
            self._head(len(heading[1]), heading[2].rstrip("# \t"), line)
        elif self.form == "text" and line.number == self.number + 1 and _SETEXT.fullmatch(text):
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

    def _head(self, level: float, title: str, line: Line) -> None:
        """Begin a section, below an empty title where the note has none; a closing tag ends one."""
        self.close()
        self.headings = [above for above in self.headings if above[0] < level]
        self.label, self.columns = "", []
        if title:
            if level > 1 and not self.headings:
                self.headings = [(1, "")]
            self._add(Block("heading", clean(title), line.start, line.end, line.number))
            self.headings.append((level, clean(title)))

    def _row(self, line: Line) -> None:
        borders = [match.start() for match in _CELL_BORDER.finditer(line.text)]
        if line.text[borders[-1] + 1 :].strip():
            borders.append(len(line.text))
        spans = [(line.start + a + 1, line.start + b) for a, b in pairwise(borders)]
        names = [clean(self.source[start:end]).replace("\\|", "|") for start, end in spans]
        if not self.columns:
            self.close()
            self.columns = names
        elif not all(set(name) <= set(":- ") for name in names):
            pairs = zip(self.columns, names, spans, strict=False)
            cells = tuple(Cell(c or "#", name, *span) for c, name, span in pairs if name)
            if cells:
                place = (line.start, line.end, line.number)
                self._add(Block("row", " | ".join(names), *place, cells=cells))

    def _prose(self, line: Line, text: str) -> None:
        begin = line.end - len(text)
        item = _ITEM.match(text) if len(text) <= MAX_MARKUP else None
        # An unindented sentence below an item isn't part of it.
        is_apart = self.form == "item" and not self.is_gap and text[:1].isupper()
        is_wrapped = self.form == "text" and text[:1].islower() and not self._is_line_over()
        if self._is_opening(text) or (is_apart and self._is_line_over()):
            self.close()
        if item:
            self._item(line, begin, item)
        elif _is_struck(text):
            self.close()
            self._begin("item", line, begin)
            self.check = "done"
            self.close()
        elif self.form == "item" and self._is_key(text):
            self._lead(line, begin)
        elif self.form == "item" and (not self.is_gap or text[:1].isspace()):
            self.end = line.end
            self.is_gap = False
        elif _is_label(text) and not is_wrapped:
            self._lead(line, begin)
        elif self.form == "text":
            self.end = line.end
        else:
            self.close()
            # It was the heading of a list that is over; paragraphs that name their topics are one.
            is_next = self.found[-1:] and self.found[-1].form == "text"
            if self.is_label_used and not (is_next and _BOLD_TOPIC.match(text)):
                self.label = ""
            self._begin("text", line, begin)
            self.is_labelled = _opens_kind(text)

    def _is_key(self, text: str) -> bool:
        """Whether a line is the next key after a list, as in YAML: not further in than the list."""
        indent = len(text) - len(text.lstrip())
        return indent <= self.indent and _KEY.fullmatch(text.strip()) is not None

    def _is_opening(self, text: str) -> bool:
        """Whether a line within a block names its own kind, such as `blocked: no key`.

        Indented text below an item explains that item, whatever it begins with, and so does a label
        such as `Fix:`.
        """
        if not self.form or (self.form == "item" and text[:1].isspace()) or _is_label(text):
            return False
        name = _labelled(text)[0]
        if name and self.form == "text" and cues.field_of(name):
            return False
        return _opens_kind(text) or (bool(name) and cues.by_name(name) is not None)

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
        # A lead of many words is an item with details below it.
        is_lead = _is_label(above) and len(above.split()) <= MAX_LEAD_WORDS
        is_lead = is_lead and not cues.ORDER.match(clean(above))
        if is_below and not is_lead and not is_box:
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
        self.check, self.indent = _check(item), indent

    def _begin(self, form: str, line: Line, start: int) -> None:
        self.form, self.start, self.end, self.number = form, start, line.end, line.number

    def close(self) -> None:
        """End the current block."""
        text = self.source[self.start : self.end] if self.form else ""
        said = text.rstrip() if self.form == "code" else clean(text)
        if said:
            is_long = "\n" in text and self.form != "code"
            cells = _labelled_cells(self.source, self.start, self.end) if is_long else ()
            place = (self.start, self.end, self.number)
            self._add(Block(self.form, said, *place, cells=cells, check=self.check))
        if self.form == "text":
            # The end of a paragraph that leads to a list is the list's heading.
            last = said.rpartition(". ")[2]
            is_topic = bool(self.label) and _BOLD_TOPIC.match(text) is not None
            if not is_topic or last.endswith(":"):
                self.label = last if _is_label(last) and last.endswith(":") else ""
                self.is_label_used = False
        self.form = self.check = ""
        self.is_gap = False

    def _add(self, block: Block) -> None:
        self.is_label_used = True
        titles = [title for _, title in self.headings] + ([self.label] if self.label else [])
        self.found.append(block._replace(trail=tuple(titles)))


def markdown_blocks(text: str, start: int = 0) -> list[Block]:
    """The blocks of Markdown or plain text from a position on."""
    reader = _BlockParser(text)
    for line in lines_of(text):
        if line.start >= start:
            reader.take(line)
    reader.close()
    return reader.found


# Reports in JSON or YAML

MAX_DEPTH = 64
YAML_SUFFIXES = (".yaml", ".yml")

_BEGINNING = re.compile(r'\ufeff?\s{0,100}\{\s{0,100}"')
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},:]|[^\s"\[\]{},:]++', re.DOTALL)


class _Node(NamedTuple):
    """A value of a report: the text of a scalar, or the members of a list or an object."""

    start: int
    end: int
    text: str = ""
    form: str = "scalar"
    members: tuple[tuple[str, _Node], ...] = ()


def report_fault(text: str, name: str) -> str:
    """What is wrong with a text that is meant to be JSON, by its name or its beginning.

    Read as prose, a broken report would give a handoff of fragments.
    """
    if is_report(text, name) or not (name.lower().endswith(".json") or _BEGINNING.match(text)):
        return ""
    try:
        json.loads(text.lstrip("\ufeff"))
    except json.JSONDecodeError as error:
        return f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError):
        return "it can't be read"
    return "it holds neither an object nor a list"


def is_report(text: str, name: str = "") -> bool:
    """Whether a text is an object or a list in JSON, or in YAML by the name of its file."""
    stripped = text.lstrip("\ufeff \t\r\n")
    with suppress(ValueError, RecursionError):
        if stripped.startswith(("{", "[")) and json.loads(stripped) is not None:
            return True
    with suppress(InvalidInput):
        return name.lower().endswith(YAML_SUFFIXES) and isinstance(load_yaml(text), dict | list)
    return False


def report_blocks(text: str, name: str = "") -> list[Block] | None:
    """The blocks of a report; None if the text is none, or is nested too deeply."""
    if not is_report(text, name):
        return None
    is_yaml = not is_report(text)
    root = _node_tree(_yaml_tokens(text) if is_yaml else _json_tokens(text))
    return list(_blocks(root, ("",), LineIndex(text))) if root else None


_Token = tuple[str, int, int, str]
"""What a token is (`[`, `{`, `end` or `text`), its start and end, and the text of a scalar."""


def _json_tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        sign, start, end = match[0], match.start(), match.end()
        if sign in "[{]}":
            yield (sign if sign in "[{" else "end"), start, end, ""
        elif sign.startswith('"'):
            # The position is that of the words, without quotation marks.
            yield "text", start + 1, end - 1, str(json.loads(sign, strict=False))
        elif sign not in ",:":
            yield "text", start, end, sign


def _yaml_tokens(text: str) -> Iterator[_Token]:
    import yaml as untyped_yaml

    yaml: Any = untyped_yaml
    signs = {"SequenceStartEvent": "[", "MappingStartEvent": "{"}
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        kind, start, end = type(event).__name__, event.start_mark.index, event.end_mark.index
        if kind == "ScalarEvent":
            quote = 1 if event.style in ("'", '"') else 0
            yield "text", start + quote, end - quote, event.value
        elif kind in signs:
            yield signs[kind], start, end, ""
        elif kind in ("SequenceEndEvent", "MappingEndEvent"):
            yield "end", start, end, ""


def _node_tree(tokens: Iterator[_Token]) -> _Node | None:
    """The report with positions; its text is known to be well formed."""
    opened: list[tuple[int, str]] = []
    members: list[list[_Node]] = [[]]
    for kind, start, end, text in tokens:
        if kind == "text":
            members[-1].append(_Node(start, end, text))
        elif kind != "end":
            opened.append((start, "list" if kind == "[" else "object"))
            members.append([])
            if len(opened) > MAX_DEPTH:
                return None
        else:
            (first, form), inner = opened.pop(), members.pop()
            keyed = zip(inner[::2], inner[1::2], strict=True) if form == "object" else ()
            named = [(key.text, node) for key, node in keyed] or [("", node) for node in inner]
            members[-1].append(_Node(first, end, "", form, tuple(named if inner else ())))
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
            Cell(key, "; ".join(parts) or part.text, part.start, part.end, parts)
            for key, part in node.members
            for parts in [tuple(inner.text for _, inner in part.members)]
            if "".join(parts) or part.text
        )
        text = " | ".join(cell.text for cell in cells)
        yield Block("row", text, node.start, node.end, line, keys, cells)
    else:
        is_list = node.form == "list"
        for key, part in node.members:
            below = keys if is_list else (*keys, f"{key}:")
            yield from _blocks(part, below, places, is_entry=is_list)


def _is_record(node: _Node, keys: tuple[str, ...], *, is_entry: bool) -> bool:
    """Whether an object is one item: an entry of a list whose members are texts.

    Below a key that announces items, members may be lists of texts, and an object that isn't in a
    list counts if it names a field such as the reason; any other holds an item by key.
    """
    if node.form != "object" or not node.members:
        return False
    parts = [part for _, part in node.members]
    if len(keys) < 2:
        # The report itself is a decision, or a list of them.
        kinds = {cue.kind for key, _ in node.members if (cue := cues.by_name(key))}
        has_why = any(cues.field_of(key) == "why" for key, _ in node.members)
        is_flat = all(inner.form == "scalar" for part in parts for _, inner in part.members)
        return kinds == {cues.DECISION} and has_why and is_flat
    if not cues.section_of(keys).kinds:
        return is_entry and all(part.form == "scalar" for part in parts)
    if any(inner.form != "scalar" for part in parts for _, inner in part.members):
        return False
    is_named = any(cues.field_of(key) or cues.by_name(key) for key, _ in node.members)
    return is_named or (is_entry and all(part.form != "object" for part in parts))

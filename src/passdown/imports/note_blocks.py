"""Split a freeform note into blocks with their positions; cue words that hint at item kinds."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.core.redaction import redact
from passdown.core.task_files import fence_after, fence_line, without_comments
from passdown.core.text import has_lone_surrogate, text_problems

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class NoteSpan(NamedTuple):
    """A passage that may hold an item, the kind it hints at, and the words that hint."""

    start: int
    end: int
    line: int
    hint: str
    cue: str


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


class NoteHeader(NamedTuple):
    """What a note states about itself. `is_summed_up` if the summary is labelled as one, rather
    than the first sentence of the note.
    """

    task: str = ""
    title: str = ""
    summary: str = ""
    outcome: str = ""
    from_agent: str = ""
    to_agent: str = ""
    is_summed_up: bool = False


class NoteExtraction(NamedTuple):
    """Everything found in a note, in the order of the text; `form` is text or report."""

    name: str
    form: str
    header: NoteHeader
    found: tuple[NoteItem, ...]
    ambiguous: tuple[NoteSpan, ...]


MAX_FIELD = 65_536

# Every gap is bounded or excludes its own opening mark, so that matching takes linear time.
_LINK = re.compile(r"!?\[([^\[\]]{1,300})\]\([^()\s]{0,500}\)")
_MARKS = re.compile(r"\*\*|__(?=\S)|(?<=\S)__|<br ?/?>|(?m:^[ \t]{0,40}(?:>[ \t]?)+)")
_BEFORE_POINT = re.compile(r"\s+([.,:;!?)])")


def clean(text: str) -> str:
    """Text on one line without Markdown's marks for bold, links, quotes, comments and breaks."""
    if "<!--" in text:
        text = without_comments(text, " ")
    text = _LINK.sub(r"\1", text)
    text = _MARKS.sub(" ", text)
    text = " ".join(text.replace("\x00", " ").split())
    return _BEFORE_POINT.sub(r"\1", text).strip()


def storable(text: str) -> str:
    """A text that a record's field can hold: cut to the limit, without secrets; or nothing."""
    if has_lone_surrogate(text):
        text = text.encode("utf-8", "replace").decode()
    text = redact(text)[0].replace("\x00", " ")
    if len(text) > MAX_FIELD:
        text = text[: MAX_FIELD - 1] + "\u2026"
    return "" if text_problems(text, "") else text


DECISION, GOTCHA, PATTERN, NEXT, QUESTION, BLOCKER, READING = (
    "decisions",
    "gotchas",
    "patterns_discovered",
    "suggested_next_steps",
    "open_questions",
    "blockers",
    "dependencies_for_next",
)


class Cue(NamedTuple):
    """A sign of an item: its kind, the confidence, and the words that show it."""

    kind: str
    confidence: float
    words: str


class Words(NamedTuple):
    """The words of one kind. `opening` begins a line, `sure` and `weak` occur in a sentence."""

    kind: str
    heading: re.Pattern[str]
    column: re.Pattern[str]
    opening: re.Pattern[str]
    sure: re.Pattern[str]
    weak: re.Pattern[str]
    key: re.Pattern[str]


_NEVER = r"(?!)"


def _words(
    kind: str, *, heading: str, column: str, opening: str, sure: str, weak: str, key: str
) -> Words:
    sources = (
        rf"\b(?:{heading})\b",
        rf"(?:{column})",
        # A few words may precede the colon: "Risk R-01:", "Decision (final):".
        rf"(?:{opening})\b[^.:|\n]{{0,40}}:(?=\s|$)",
        rf"\b(?:{sure})\b",
        rf"\b(?:{weak})\b",
        rf"(?:\w+_)?(?:{key})",
    )
    return Words(kind, *(re.compile(source, re.IGNORECASE) for source in sources))


# The first kind that matches decides.
WORDS: tuple[Words, ...] = (
    _words(
        QUESTION,
        heading=r"open (?:questions?|issues|points)|questions|unresolved|unknowns?|unclear",
        column=r"(?:open |finalized |research )?questions?|unknowns?",
        opening=r"(?:open )?questions?|unclear|unknown|q\d*",
        sure=r"(?:it is |it's |is |are )?(?:still )?(?:unclear|undecided|an open question)|"
        r"(?:the |one |open |my )question (?:is|remains)|don't know (?:if|whether|why|how)|"
        r"not sure (?:if|whether|why|how|that)|to be (?:decided|determined|clarified)|tbd",
        weak=r"questions?|unsure|wonder(?:ing)?",
        key=r"questions|unknowns|unresolved",
    ),
    _words(
        BLOCKER,
        heading=r"blockers?|blocked(?: by)?|impediments?",
        column=r"blockers?|impediments?|blocked by",
        opening=r"blockers?|blocked(?: by| on)?|impediments?",
        sure=r"(?:is|are|am|we're|i'm) (?:currently )?(?:blocked|stuck) (?:by|on|until)|"
        r"blocked (?:by|on|until)|waiting (?:for|on) \w+|can(?:not|'t) (?:continue|proceed|go on)",
        weak=_NEVER,
        key=r"blockers|blocked_by|blocking_issues|impediments",
    ),
    _words(
        DECISION,
        heading=r"decisions?(?: made| taken)?|assumptions?|resolutions?|fallback|choices made|"
        r"why we chose",
        column=r"(?:key )?decisions?|recommended|assumptions?|resolution|choice|chosen",
        opening=r"decisions?|decided|verdict|conclusion|recommendation|fallback|assumptions?|assumed|chose|"
        r"choice|resolution",
        sure=r"(?:was|were|have|has|is|are|we|i|they|been)? ?(?:decided|chose|chosen|opted|"
        r"settled on|went with|agreed to|adopted)|the recommended \w+ is|is recommended|"
        r"(?:validated and|are) recommended",
        weak=r"instead of|rather than|because|rejected|deferred|assum(?:ed|ing)|prefer(?:red)?",
        key=r"decisions|assumptions|decisions_made",
    ),
    _words(
        GOTCHA,
        heading=r"risks?|gotchas?|caveats?|warnings?|concerns?|gaps?|weak(?:ness(?:es)?| points?)|"
        r"failure modes?|debt|limitations?|anti-patterns?|pitfalls?|threats?|"
        r"discrepanc(?:y|ies)|watch out|be careful|to note|problems|bugs|issues|root causes?|"
        r"vulnerabilit(?:y|ies)|traps?|errors?|insufficient|shortcomings|drawbacks|"
        r"(?:doesn't|does not|not) work(?:ing)?|what(?: is|'s) (?:wrong|missing)",
        column=r"(?:known )?(?:risk|gap|concern|failure mode|threat|pitfall|anti-pattern|issue|"
        r"limitation|gotcha|caveat|warning|bug|problem|root cause)s?",
        opening=r"risks?|important|warning|caveat|discrepancy|gotcha|caution|beware|careful|"
        r"known (?:issue|gap|limitation|bug)s?|key gap|gap|limitation|exposed|note well|nb|"
        r"pitfall|watch out|problem|bug",
        sure=r"watch out(?: for)?|be careful|beware(?: of)?|careful with|caveat|gotcha|"
        r"known (?:gaps?|issues?|limitations?|bugs?)|highest-risk|must not|do not|don't (?:use|"
        r"forget|touch|change|run)|never|not yet (?:implemented|supported|integrated|tested|"
        r"created)|pitfall|(?:breaks|fails|crashes) (?:if|when|on|for|without)|"
        r"(?:has|have|had|performs?|with|there is|there are) no (?:\w+ ){0,3}?(?:check(?:s|ing)?|"
        r"validation|bounds|limits?|tests?|support|fallback|mechanism|handling|retry)|"
        r"requires? (?:an? |the )?(?:running|manual|live|network|internet|actual)|"
        r"(?:is|are|only) (?:just |only )?a (?:placeholder|stub)|(?:placeholder|stub) (?:until|"
        r"implementation)|turns out|surprisingly|partially automated|constrain(?:s|ed)? \w+",
        weak=r"risk|vulnerable|missing|lacks?|unvalidated|unverified|flaky|slow|wrong|hard-?coded|"
        r"workaround|limitations?|gaps?|however|actually|re-?try|retries|time-?outs?|times out|"
        r"50[0-4]",
        key=r"gotchas|risks|warnings|errors|errors_encountered|issues|technical_debt|debt|"
        r"limitations|caveats|known_issues|problems|concerns|workarounds|workarounds_applied",
    ),
    _words(
        PATTERN,
        heading=r"patterns?|conventions?|guidelines|principles|house rules|style",
        column=r"(?:code )?patterns?|conventions?|rule",
        opening=r"patterns?|conventions?|rule|principle|always",
        sure=r"always (?:use|call|run|check|go through|pass|write|wrap|prefer|keep)|"
        r"(?:the|this|our|a) (?:\w+ )?pattern (?:is|here|we)|by convention|"
        r"(?:follow|use|keep to|stick to)s? the (?:\w+[- ]){1,3}(?:pattern|convention)",
        weak=r"patterns?|convention|consistently",
        key=r"patterns|patterns_discovered|conventions|learned_patterns",
    ),
    _words(
        READING,
        heading=r"(?:mandatory|must|required|recommended|first|further|to) read(?:s|ing)?|"
        r"files to (?:read|review)|read first",
        column=_NEVER,
        opening=r"read(?: first)?|see first|must read",
        sure=_NEVER,
        weak=_NEVER,
        key=r"files_to_read|reading|dependencies_for_next",
    ),
    _words(
        NEXT,
        heading=r"next(?: steps?)?|remaining|future(?: work)?|to-?dos?|(?:corrective )?actions?|"
        r"should do|guidance|recommendations?|instructions?|priorit(?:y|ies)|phasing|"
        r"to (?:validate|verify|do|apply|test|check|fix|investigate|review|address|implement)|"
        r"targets|left to do|follow-?ups?|action items|treatment sequence|"
        r"requirements for|focus areas?|validation focus|backlog|work items|ordering|roadmap|"
        r"implementation (?:order|plan|sequence|phases)|(?:should|must|shall)(?! read)(?=.*:$)",
        column=r"(?:next |recommended |required |corrective )?(?:actions?|steps?)|to-?do|"
        r"next steps?|test focus|validation approach|follow-?up|task",
        opening=r"to-?dos?|next(?: steps?| up)?|actions?(?: items?)?|follow-?up|remaining|then|"
        r"fixme|left to do|still to do",
        sure=r"(?:next|then|after that|afterwards|finally),? (?:you |we |i |someone )?"
        r"(?:should |must |need to |will |have to |can )?(?=[a-z]+\b)|next (?:step|up|thing)|"
        r"to-?do|(?:still )?(?:needs? to|remains to) be \w+|(?:should|must|shall) (?:now |next |"
        r"then |be )?(?:validate|verify|confirm|focus|add|fix|write|test|check|implement|run|"
        r"update|review|document|investigate|executed|integrate|remove|replace|move|extend|"
        r"decide|finish|continue|start|begin|wire|handle|make|create|build|cover|measure)\w*",
        weak=r"should|must|then|next|shall|needs? to|have to|later",
        key=r"next_steps|suggested_next_steps|future_work|todo|todos|remaining|actions|"
        r"action_items|next_actions|follow_ups|recommendations",
    ),
)

BY_KIND = {words.kind: words for words in WORDS}

_REFERENCE = re.compile(
    r"[\d. ]*(?:document (?:sections|control|history)|.*\bmetadata|citations?|references|"
    r"claim-to-source.*|change (?:history|log)|traceability.*|table of contents|contents|"
    r"revision history|glossary|sources?|.*\bstatistics.*|quality gate status|"
    r".*\bstatus|dimensions?|scoring bands|.*\bscores?|.*\bmetrics)",
    re.IGNORECASE,
)
_ASIDE = re.compile(r"\([^()]{0,200}\)")
_SIGNS = re.compile(r"^[^\w\s`\"'(\[<|/.~-][^\w`\"'(\[<|/.~-]*")
_OTHER = re.compile(
    r"(?:report structure|key content.*|.*integration points|dependencies|rationale|details|"
    r"configuration items.*|key mappings.*|consume|background|context|scope|overview|"
    r"implementation|purpose|acceptance criteria|examples?|evidence|result)s?:?",
    re.IGNORECASE,
)


def is_reference(title: str) -> bool:
    """Whether a heading introduces facts about the note itself, such as references."""
    return _REFERENCE.fullmatch(title.rstrip(": ")) is not None


def is_reference_block(block: Block) -> bool:
    """Whether a block is directly below such a heading."""
    return bool(block.trail) and is_reference(block.trail[-1])


def is_exact(cue: Cue) -> bool:
    """Whether a line opens with the word alone, such as `Risk:`."""
    return cue.words.endswith(":") and " " not in cue.words


def by_heading(trail: tuple[str, ...]) -> Cue | None:
    """The kind announced by the headings above a block; the nearest that announces one decides.

    Text in parentheses doesn't count. Next steps and gotchas continue below further headings; other
    kinds hold only directly below.
    """
    is_near = True
    for depth, title in enumerate(reversed(trail)):
        said = _ASIDE.sub("", title)
        if is_reference(said) or _OTHER.fullmatch(said):
            return None
        if depth + 1 == len(trail) and depth:
            return None  # the title of the whole note announces nothing
        for words in WORDS:
            match = words.heading.search(said)
            if match and (is_near or words.kind in (NEXT, GOTCHA)):
                return Cue(words.kind, 0.9 - 0.05 * min(depth, 3), match[0].lower())
        is_near = is_near and title.endswith(":")
    return None


def by_column(name: str) -> Cue | None:
    """The kind announced by a column's name."""
    return _first_cue(0.9, ((words.kind, words.column.fullmatch(name)) for words in WORDS))


def by_key(keys: tuple[str, ...]) -> Cue | None:
    """The kind announced by the keys of a JSON report; the nearest decides."""
    for key in reversed(keys[-2:]):
        for words in WORDS:
            if words.key.fullmatch(key):
                return Cue(words.kind, 0.95, key[:60])
    return None


def without_signs(text: str) -> str:
    """A line without emoji and marks before its first word."""
    return _SIGNS.sub("", text, count=1)


def by_opening(text: str) -> Cue | None:
    """The kind that a line names before its first colon."""
    bare = without_signs(text)
    return _first_cue(0.9, ((words.kind, words.opening.match(bare)) for words in WORDS))


def by_words(text: str) -> Cue | None:
    """The kind shown by the words of a sentence."""
    if text.endswith("?"):
        return Cue(QUESTION, 0.7, "?")
    return _first_cue(0.6, ((words.kind, words.sure.search(text)) for words in WORDS))


def by_hints(text: str) -> Cue | None:
    """The kind that a sentence hints at: too weak to record, enough to ask about."""
    return _first_cue(0.3, ((words.kind, words.weak.search(text)) for words in WORDS))


def _first_cue(
    confidence: float, matches: Iterable[tuple[str, re.Match[str] | None]]
) -> Cue | None:
    for kind, match in matches:
        if match:
            return Cue(kind, confidence, match[0].strip().lower()[:60])
    return None


MAX_LABEL = 140
"""A longer line is a sentence, not a heading."""

MAX_MARKUP = 4_000
"""Longer lines are plain text, whatever they begin with."""

MIN_BROKEN = 50
"""A line that continues in the next one is at least this long."""


class Cell(NamedTuple):
    """One cell of a row: the name of its column, its text and position."""

    name: str
    text: str
    start: int
    end: int


class Block(NamedTuple):
    """A block of a note.

    `form` is item, row, text, label, code or value (of a report); `trail` holds the headings above
    it, outermost first; `check` is todo or done if the item has a checkbox.
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


def lines_of(text: str) -> Iterator[Line]:
    """The lines of a text, without carriage returns and byte order mark."""
    start = 1 if text.startswith("\ufeff") else 0
    number = 0
    while start <= len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        number += 1
        last = end - 1 if end > start and text[end - 1] == "\r" else end
        yield Line(number, start, last, text[start:last])
        start = end + 1


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
        elif self.form == "text" and not (self.is_labelled and self._is_line_over()):
            self.end = line.end
        else:
            self.close()
            if self.is_label_used:
                self.label = ""  # it was the heading of a list that is over
            self._begin("text", line, begin)
            self.is_labelled = _is_labelled(text)

    def _is_opening(self, text: str) -> bool:
        """Whether a line within a block names its own kind, such as `blocked: no key`.

        Indented text below an item explains that item, whatever it begins with.
        """
        if not self.form or (self.form == "item" and text[:1].isspace()):
            return False
        return _is_labelled(text) and not is_label(text)

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
        self._add(Block("label", said, begin, line.end, line.number), ())
        self.label, self.label_indent = said.rpartition(". ")[2], -1
        self.is_label_used = False
        self.columns = []

    def _item(self, line: Line, begin: int, item: re.Match[str]) -> None:
        """Begin a list item; one that is indented below another is part of that."""
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
        """End the current block."""
        if self.form:
            text = self.source[self.start : self.end]
            said = text.rstrip() if self.form == "code" else clean(text)
            if said:
                block = Block(self.form, said, self.start, self.end, self.number, check=self.check)
                self._add(block, ())
            if self.form == "text":
                # The end of a paragraph that leads to a list is the list's heading.
                last = said.rpartition(". ")[2]
                self.label = last if is_label(last) and last.endswith(":") else ""
                self.is_label_used = False
        self.form = self.check = ""
        self.is_gap = False

    def _add(self, block: Block, cells: tuple[Cell, ...]) -> None:
        self.is_label_used = True
        titles = [title for _, title in self.headings] + ([self.label] if self.label else [])
        self.found.append(block._replace(trail=tuple(titles), cells=cells))


def _is_labelled(text: str) -> bool:
    """Whether a line opens with the word for its kind, and a colon."""
    cue = by_opening(clean(text)) if len(text) <= MAX_MARKUP else None
    return cue is not None and is_exact(cue)


def _check(item: re.Match[str]) -> str:
    """Whether an item is done or to do, by its checkbox or strikethrough."""
    is_done = is_struck(item.string[item.end() :]) or (item[2] or item[3] or " ") != " "
    return "done" if is_done else "todo" if item[2] or item[3] else ""


def _cells(line: Line) -> Iterator[tuple[int, int]]:
    """Start and end of each cell of a row."""
    borders = [match.start() for match in _CELL_BORDER.finditer(line.text)]
    if line.text[borders[-1] + 1 :].strip():
        borders.append(len(line.text))
    for left, right in pairwise(borders):
        yield line.start + left + 1, line.start + right


def markdown_blocks(text: str, start: int = 0) -> list[Block]:
    """The blocks of Markdown or plain text from a position on."""
    reader = _BlockParser(text)
    for line in lines_of(text):
        if line.start >= start:
            reader.take(line)
    reader.close()
    return reader.found


MAX_DEPTH = 64

_BEGINNING = re.compile(r'\ufeff?\s{0,100}\{\s{0,100}"')
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},:]|[^\s"\[\]{},:]++', re.DOTALL)


class _Node(NamedTuple):
    """A value of a JSON report: its text if it is a scalar, else its members by key."""

    start: int
    end: int
    text: str
    is_scalar: bool
    is_list: bool
    members: list[tuple[str, _Node]]


def is_report(text: str) -> bool:
    """Whether a text is JSON: an object or a list."""
    stripped = text.lstrip("\ufeff \t\r\n")
    if not stripped.startswith(("{", "[")):
        return False
    try:
        json.loads(stripped)
    except (ValueError, RecursionError):
        return False
    return True


def broken_report(text: str, name: str) -> str:
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


def report_blocks(text: str) -> list[Block] | None:
    """The blocks of a JSON report; None if the text isn't JSON, or is nested too deeply."""
    root = _read(text) if is_report(text) else None
    return list(_blocks(root, LineIndex(text))) if root else None


class _Open:
    """A list or object that isn't closed yet."""

    def __init__(self, start: int, is_list: bool) -> None:
        self.start, self.is_list = start, is_list
        self.key: str | None = None
        self.members: list[tuple[str, _Node]] = []

    def add(self, node: _Node) -> None:
        if not self.is_list and self.key is None:
            self.key = node.text
        else:
            self.members.append((self.key or "", node))
            self.key = None


def _read(text: str) -> _Node | None:
    stack: list[_Open] = []
    for match in _TOKEN.finditer(text):
        sign = match[0]
        if sign in "[{":
            stack.append(_Open(match.start(), sign == "["))
            if len(stack) > MAX_DEPTH:
                return None
        elif sign in "]}":
            done = stack.pop()
            node = _Node(done.start, match.end(), "", False, done.is_list, done.members)
            if not stack:
                return node
            stack[-1].add(node)
        elif sign not in ",:" and stack:
            stack[-1].add(_scalar(match))
    return None


def _scalar(match: re.Match[str]) -> _Node:
    spelled = match[0]
    if not spelled.startswith('"'):
        return _Node(match.start(), match.end(), spelled, True, False, [])
    value = cast("str", json.loads(spelled, strict=False))
    # The position is that of the words, without quotation marks.
    return _Node(match.start() + 1, match.end() - 1, value, True, False, [])


def _blocks(root: _Node, places: LineIndex) -> Iterator[Block]:
    waiting: list[tuple[_Node, tuple[str, ...]]] = [(root, ())]
    while waiting:
        node, keys = waiting.pop()
        line = places.line(node.start)
        if node.is_scalar:
            if node.text.strip():
                yield Block("value", node.text, node.start, node.end, line, keys)
            continue
        inner = [(part, keys if node.is_list else (*keys, key)) for key, part in node.members]
        if node.is_list:
            records = [part for part, _ in inner if _is_record(part)]
            yield from (_row(part, keys, places) for part in records)
            inner = [(part, trail) for part, trail in inner if not _is_record(part)]
        waiting += reversed(inner)


def _is_record(node: _Node) -> bool:
    """Whether an entry of a list is an object of scalars: a row of a table."""
    return not node.is_list and bool(node.members) and all(m.is_scalar for _, m in node.members)


def _row(node: _Node, keys: tuple[str, ...], places: LineIndex) -> Block:
    cells = tuple(
        Cell(key, part.text, part.start, part.end) for key, part in node.members if part.text
    )
    line = places.line(node.start)
    text = " | ".join(cell.text for cell in cells)
    return Block("row", text, node.start, node.end, line, keys, cells)

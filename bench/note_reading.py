"""Markdown handoff notes read into the parts of a handoff, by fixed rules and without a model.

The nearest heading with a telling word (or line that ends in a colon) decides for the lists and
tables below it; a table's own columns say it more exactly; any other line counts where its words do
("decided", "must not", "TODO"). A paragraph counts by its words alone: most of them only lead to a
list. Files are the paths in backticks, in code, or with a slash, each once. A reason that isn't
there is "Not stated.". Each cell of a row goes into some field, so nothing of a row is lost.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.core.names import normal_path, path_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

UNSTATED = "Not stated."
LIMIT = 65_536
LABEL = 80
"""A line above a list that is longer than this is a sentence, not a heading."""
MAIN = {
    "decisions": "summary",
    "artifacts": "path",
    "dependencies_for_next": "file",
    "gotchas": "issue",
    "suggested_next_steps": "step",
    "blockers": "blocker",
    "open_questions": "question",
}
"""The lists of a handoff, with the field that holds an item's own sentence."""


@dataclass
class Note:
    """One note: what its handoff says, what was said twice, and what was too long for a field."""

    name: str
    text: str
    title: str = ""
    summary: str = ""
    found: dict[str, list[Any]] = field(
        default_factory=lambda: {name: [] for name in (*MAIN, "warnings")}
    )
    repeated: int = 0
    continued: int = 0
    _seen: set[str] = field(default_factory=set)

    def add(self, name: str, main: str, **more: Any) -> None:
        """Put an item into a list of the handoff, unless the note has said the same before."""
        known = repr((name, main, more))
        if known in self._seen:
            self.repeated += 1
            return
        self._seen.add(known)
        fields = {key: self._fitted(value) for key, value in more.items() if value}
        main = self._fitted(main)
        self.found[name].append(main if name == "warnings" else {MAIN[name]: main, **fields})

    def _fitted(self, value: Any) -> Any:
        """A text within the limit; what goes beyond it follows as warnings of its own."""
        if not isinstance(value, str) or len(value) <= LIMIT:
            return value
        self.continued += 1
        beyond = range(LIMIT, len(value), LIMIT // 2)
        self.found["warnings"] += [f"(continued) {value[at : at + LIMIT // 2]}" for at in beyond]
        return value[:LIMIT]

    def file(self, path: str, *, change: str = "", note: str = "", is_read: bool = False) -> None:
        """Name a file; a path that can't be recorded as one is kept as a warning."""
        path = normal_path(path)
        if path_problems(path, "path"):
            self.add("warnings", f"Names a file that has no path in the project: {path}")
        elif f"file {path}" in self._seen:
            self.repeated += 1
        else:
            self._seen.add(f"file {path}")
            if is_read:
                self.add("dependencies_for_next", path, reason=note or UNSTATED)
            else:
                self.add("artifacts", path, change=change, note=note)

    def handoff(self) -> dict[str, Any]:
        """The whole note as one handoff."""
        lists = {name: entries for name, entries in self.found.items() if entries}
        who = {"task": self.name, "from_agent": "writer", "to_agent": "next"}
        return {**who, "outcome": "completed", "summary": self.summary, **lists}


class Block(NamedTuple):
    """A piece of Markdown: a list item, a row of a table, a paragraph or code, and its headings."""

    form: str
    text: str
    trail: tuple[str, ...]
    cells: dict[str, str]
    is_todo: bool = False


_HEADING = re.compile(r"(#{1,6})\s+(.+)")
_ITEM = re.compile(r"(?:[-*+]|\d+[.)])\s+(\[[ xX]\]\s+)?(.*)")
_RULE = re.compile(r"\s*(-{3,}|\*{3,}|_{3,})\s*")
_SPLIT = re.compile(r"(?<!\\)\|")


def clean(text: str) -> str:
    """Text without Markdown's marks for bold, links, comments and line breaks."""
    text = re.sub(r"<!--.*?-->|\*\*|<br ?/?>|\x00", " ", text)
    text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text)
    return re.sub(r"\s+([.,:;!?)])", r"\1", " ".join(text.split()))


class _Blocks:
    """Markdown, line by line; indented items belong to the item above them."""

    def __init__(self) -> None:
        self.found: list[Block] = []
        self.headings: list[tuple[int, str]] = []
        self.label = ""
        self.columns: list[str] = []
        self.form, self.lines = "", [""]
        self.is_todo = self.is_gap = False

    def take(self, line: str) -> None:
        if self.is_gap and line.strip() and not line[0].isspace():
            self.end()
        if line.lstrip().startswith("```"):
            was_code = self.form == "code"
            self.end()
            self.form = "" if was_code else "code"
        elif self.form == "code":
            self.lines.append(line)
        elif match := _HEADING.match(line):
            self.end()
            level = len(match[1])
            self.headings = [above for above in self.headings if above[0] < level]
            self.headings.append((level, clean(match[2])))
            self.label = ""
        elif not line.strip() and self.form == "item":
            self.is_gap = True  # an item goes on after a gap, if what follows is indented
        elif not line.strip() or _RULE.fullmatch(line):
            self.end()
        elif line.startswith("|"):
            self._row(line)
        else:
            self._prose(line)

    def _row(self, line: str) -> None:
        cells = [clean(cell) for cell in _SPLIT.split(line.strip().strip("|"))]
        if not self.columns:
            self.end()
            self.columns = cells
        elif not all(re.fullmatch(r":?-+:?|", cell) for cell in cells):
            pairs = zip(self.columns, cells, strict=False)
            named = {name or "#": cell for name, cell in pairs if cell}
            self._add("row", " | ".join(cells), named)

    def _prose(self, line: str) -> None:
        line = line.removeprefix(">").removeprefix(" ") if line.startswith(">") else line
        match = _ITEM.match(line)
        if match:
            self.end()
            self.form, self.lines, self.is_todo = "item", [match[2]], match[1] == "[ ] "
        elif self.form:
            self.lines.append(line)
        else:
            self.form, self.lines = "text", [line]

    def end(self) -> None:
        """A block is over; a paragraph that ends in a colon is a heading for what follows."""
        self.columns = []
        text = "\n".join(self.lines) if self.form == "code" else clean(" ".join(self.lines))
        if self.form and text.strip():
            self._add(self.form, text, {})
            if self.form == "text":
                self.label = text if text.endswith(":") and len(text) <= LABEL else ""
        self.form, self.lines = "", []
        self.is_todo = self.is_gap = False

    def _add(self, form: str, text: str, cells: dict[str, str]) -> None:
        titles = [title for _, title in self.headings] + ([self.label] if self.label else [])
        self.found.append(Block(form, text, tuple(titles), cells, self.is_todo))


def blocks(text: str) -> list[Block]:
    """The blocks of a Markdown text in their order."""
    reader = _Blocks()
    for line in text.splitlines():
        reader.take(line)
    reader.end()
    return reader.found


class Rule(NamedTuple):
    """The words by which a kind is known: in a heading, above a column, in a line itself."""

    kind: str
    heading: re.Pattern[str]
    column: re.Pattern[str]
    line: re.Pattern[str]


def _rule(kind: str, heading: str, column: str, line: str) -> Rule:
    bounded = (rf"\b(?:{heading})\b", rf"(?:{column})$", line)
    return Rule(kind, *(re.compile(source, re.IGNORECASE) for source in bounded))


# The first that fits decides.
RULES = (
    _rule("questions", r"open (questions?|issues|items)", r"(open )?question", r"^open question"),
    _rule("blockers", r"blockers?|blocked by", r"blocker", r"^blocke[rd]( by)?:"),
    _rule(
        "decisions",
        r"decisions|^[\d. ]*assumptions|selected|selection rationale|why these|resolutions",
        r"decision|recommended|assumption|resolution",
        r"^(decision|verdict|conclusion|recommendation|assumption|fallback)\b[^.|]{0,40}:"
        r"|\b(decided|chose|chosen|opted|assumed|adopted|rejected|deferred)\b",
    ),
    _rule(
        "warnings",
        r"risks?|gotchas?|caveats?|warnings?|concerns?|gaps?|weak points?|failure modes?|debt|"
        r"limitations?|anti-patterns?|pitfalls?|threats?|discrepanc(y|ies)|constraints?|errors?",
        r"risk|gap|concern|failure mode|threat|pitfall|anti-pattern|issue",
        r"^(risk|important|warning|caveat|discrepancy)\b[^.|]{0,40}:"
        r"|\b(must not|do not|never|caveat|gotcha|known limitation|unresolved|not yet)\b",
    ),
    _rule(
        "next",
        r"next|remaining|future|to-?do|actions?|should do|guidance|recommendations?|instructions?|"
        r"priorities|needs|to validate|ordering|phasing|prerequisites",
        r"action|next step|recommended action",
        r"^(todo|next|next step|action)s?\b[^.|]{0,20}:",
    ),
)
_REFERENCE = re.compile(
    r"[\d. ]*(document (sections|control)|.*\bmetadata|citations?|claim-to-source|change history|"
    r"traceability)\b",
    re.IGNORECASE,
)
_NOTHING = re.compile(r"(none|n/?a|nothing)\b.{0,12}$", re.IGNORECASE)
_WHY = re.compile(r" because | -- | \u2014 | due to ", re.IGNORECASE)
_WHY_COLUMN = re.compile(r"(rationale|reason|why)\b", re.IGNORECASE)
_HELP_COLUMN = re.compile(
    r"mitigation|recommendation|.*resolution|treatment|prevent", re.IGNORECASE
)
_GRADE_COLUMN = re.compile(r"(severity|.*priority|likelihood|status)$", re.IGNORECASE)
_FIGURES = re.compile(r"(metric|value|count|field|attribute|result|score)s?$", re.IGNORECASE)
_MAIN_COLUMN = re.compile(r"(description|details?|scope|finding)$", re.IGNORECASE)
_READS = re.compile(r"\b(mandatory|must|first|to) reads?\b", re.IGNORECASE)
_ENDINGS = "md|py|js|ts|tsx|html|css|json|ya?ml|toml|ini|cfg|txt|sh|sql|rs|go|xml|env|lock|csv"
_PATH = re.compile(rf"(?<![\w/.:@{{}}*-])/?(?:[\w.@+-]+/)*[\w.@+-]*\.(?:{_ENDINGS})(?![\w/.]\w)")
_TICKED = re.compile(r"`([^`\n]+)`")


def read_markdown(note: Note) -> None:
    """Find everything in a Markdown note."""
    found = blocks(note.text)
    for block in found:
        note.title = note.title or next(iter(block.trail), "")
        if len(block.trail) > 1 and _is_sentence(block):
            note.summary = note.summary or block.text[:LIMIT]
        kind = _kind(block)
        if kind and not _NOTHING.match(block.text):
            (_row if block.cells else _line)(note, kind, block)
    # A file that is to be read is named so, wherever else it stands.
    for block in sorted(found, key=lambda block: not _is_to_read(block)):
        for path in _paths(block):
            cells = [cell for cell in block.cells.values() if path not in cell and " " in cell]
            note.file(path, note="; ".join(cells), is_read=_is_to_read(block))


def _is_sentence(block: Block) -> bool:
    is_prose = block.form in ("text", "item") and not block.text.endswith(":")
    return is_prose and len(block.text.split()) > 4


def _is_to_read(block: Block) -> bool:
    return any(map(_READS.search, (*block.trail, block.text)))


def _paths(block: Block) -> Iterator[str]:
    """Files that a block names; a bare name only where it is marked as code."""
    marked = " ".join(_TICKED.findall(block.text)) if block.form != "code" else block.text
    for match in _PATH.finditer(block.text):
        path = match[0]
        is_marked = "/" in path or path in marked.split()
        if is_marked and not re.match(r"//|\.\w+$", path):
            yield path


def _kind(block: Block) -> str:
    """What a block states, or nothing: by its columns, its place or its words."""
    if block.is_todo:
        return "next"
    if block.form == "code" or any(map(_REFERENCE.match, block.trail[-1:])):
        return ""
    spoken = next((rule.kind for rule in RULES if rule.line.search(block.text)), "")
    if block.form == "text" or spoken == "questions":
        return "" if block.text.endswith(":") else spoken
    by_column = [rule.kind for rule in RULES if any(map(rule.column.match, block.cells))]
    if by_column or any(map(_FIGURES.match, block.cells)):
        return next(iter(by_column), "")
    return _place(block.trail[1:]) or ("" if block.cells else spoken)


def _place(titles: tuple[str, ...]) -> str:
    found = (
        rule.kind for title in reversed(titles) for rule in RULES if rule.heading.search(title)
    )
    return next(found, "")


def _line(note: Note, kind: str, block: Block) -> None:
    """A list item or a paragraph as an item of its kind."""
    if kind == "decisions":
        reason = _WHY.search(block.text, 8)
        said = block.text[: reason.start()] if reason else block.text
        note.add("decisions", said, rationale=block.text[reason.end() :] if reason else UNSTATED)
    else:
        names = {"next": "suggested_next_steps", "questions": "open_questions"}
        note.add(names.get(kind, kind), block.text)


def _row(note: Note, kind: str, block: Block) -> None:
    """A row of a table as an item of its kind."""
    cells = dict(block.cells)
    first = next(iter(cells.values()))
    text = cells.pop(_main(kind, cells))
    if (
        re.match(r"(grand )?total\b|composite\b", first, re.IGNORECASE)
        or len(block.text.split()) < 8
    ):
        return  # figures, not words
    grade = next((cell for name, cell in cells.items() if _GRADE_COLUMN.match(name)), "")
    why, remedy = _taken(cells, _WHY_COLUMN), _taken(cells, _HELP_COLUMN)
    rest = "; ".join(f"{name}: {cell}" for name, cell in cells.items())
    if kind == "decisions":
        about = [part for part in (rest, remedy) if part]
        note.add("decisions", text, rationale=why or UNSTATED, artifacts=about)
        return
    more = "; ".join(part for part in (why, rest) if part)
    if kind == "next":
        step = f"{text} ({more}; {remedy})" if remedy else f"{text} ({more})" if more else text
        note.add("suggested_next_steps", step, priority=_level(grade))
    elif kind == "blockers":
        severity = "blocker" if "critical" in grade.lower() else _level(grade)
        note.add("blockers", text, impact=more, suggested_resolution=remedy, severity=severity)
    elif kind == "questions":
        note.add("open_questions", text, context=more, recommendation=remedy)
    else:
        remedy = remedy or UNSTATED
        note.add("gotchas", text, mitigation=remedy, severity=_level(grade), discovered_in=more)


def _main(kind: str, cells: dict[str, str]) -> str:
    """The column with the sentence: named after the kind, or for what it holds; else the first."""
    rule = next(rule for rule in RULES if rule.kind == kind)
    named = [name for name in cells if rule.column.match(name) or _MAIN_COLUMN.match(name)]
    worded = [name for name in (*named, *cells) if len(cells[name].split()) > 1]
    return next(iter(worded), "") or max(cells, key=lambda name: len(cells[name]))


def _taken(cells: dict[str, str], column: re.Pattern[str]) -> str:
    name = next((name for name in cells if column.match(name)), "")
    return cells.pop(name) if name else ""


def _level(grade: str) -> str:
    """A grade, however it is worded, as high, medium or low."""
    word = grade.lower()
    if re.search(r"critical|high|\bp[01]\b|^1$", word):
        return "high"
    return "low" if re.search(r"\blow\b|\bp3\b", word) else "medium"

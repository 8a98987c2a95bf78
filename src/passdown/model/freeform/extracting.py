"""Find what a note says: files, decisions, gotchas, patterns, next steps, questions, blockers.

No model is asked. What a heading, a column, a key or the opening of a line announces is taken as
said; a sentence counts where its words are plain, and is listed as ambiguous where they only hint.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from passdown.model.freeform import cues
from passdown.model.freeform.blocks import Block, Cell, Places, markdown_blocks
from passdown.model.freeform.cleaning import clean
from passdown.model.freeform.filing import files_of
from passdown.model.freeform.headers import header_of, is_fact, matter_end
from passdown.model.freeform.paths import mentions
from passdown.model.freeform.reports import report_blocks
from passdown.model.freeform.shaping import MAIN, is_aside, is_figure, item_of, row_of
from passdown.model.freeform.values import Extraction, Found, Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from passdown.model.freeform.cues import Cue

_NOTHING = re.compile(
    r"-*|(?:none|n/?a|nothing|not applicable|met|pass(?:ed)?)\b.{0,25}|(?:no|yes|ok|true|false)\W*|"
    r"no (?:open |known |new |further )?(?:blocker|issue|risk|question|problem|concern)s?\b.{0,25}",
    re.IGNORECASE,
)
_SETTLED = re.compile(
    r"(?:complete[d]?|passed|pass|met|done|resolved|closed|fixed|compliant|ready|verified|"
    r"mitigated|accepted)\b.*",
    re.IGNORECASE,
)
_RESOLVED = re.compile(r"resolved\b", re.IGNORECASE)
_FIGURES = re.compile(
    r"(?:metric|value|score|attribute|field|result|criterion|weight|parameter|total)s?|.*\brpn",
    re.IGNORECASE,
)
_FACT_TABLE = re.compile(r"(?:factor|attribute|field|item|aspect|topic|property)s?", re.IGNORECASE)
_MISSING = re.compile(
    r"(?:missing|absent|broken|failed|failing|not (?:implemented|started|done)|unsupported)\b.*",
    re.IGNORECASE,
)
_RANKED = re.compile(r"p[0-3]\b.*", re.IGNORECASE)
_REMARK = re.compile(r"\*[^*\n].*[^*\n]\*|\[[^\[\]]{1,400}\]|_[^_\n].*_")
_TOTAL = re.compile(
    r"(?:grand total|total|composite|overall|sum)(?: score)?(?: ?\(.*)?", re.IGNORECASE
)
_FILE_COLUMN = re.compile(r"(?:.*\b)?(?:path|file|artifact|document|location)s?", re.IGNORECASE)
_ASIDE_OPENING = re.compile(r"(?:\w+ ){0,2}(?:rationale|reason|note on \w+):", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])[)\"'*]{0,3}\s+(?=[A-Z\"'(\[*`\d])|\n(?=[ \t]*\n)")
_PROSE_KEYS = re.compile(
    r"(?:.*_)?(?:notes?|summary|comments?|description|details|message|remarks)"
)
_GATE_KEY = re.compile(r"(\w{1,60}?)_(?:passed|verified|ok)")

SURE = 0.5
"""From here on an item counts as said; below it, it is ambiguous."""


def extract(text: str, name: str = "", *, root: str = "") -> Extraction:
    """Everything that can be found in a note; `name` is the file's, for the record.

    Absolute paths below `root`, the project's folder, become relative to it.
    """
    report = report_blocks(text)
    blocks = markdown_blocks(text, matter_end(text)) if report is None else report
    finder = _Finder(text, is_report=report is not None)
    for at, block in enumerate(blocks):
        finder.take(block, blocks[at + 1] if at + 1 < len(blocks) else None)
    files = files_of(text, blocks, is_report=report is not None, root=root)
    found = [*finder.found, *files]
    found.sort(key=lambda item: (item.span, item.kind))
    header = header_of(text, blocks, is_report=report is not None)
    form = "text" if report is None else "report"
    return Extraction(name, form, header, tuple(found), tuple(finder.unclear()))


class _Finder:
    """Goes through the blocks and keeps what each of them states, once."""

    def __init__(self, text: str, *, is_report: bool) -> None:
        self.text = text
        self.places = Places(text)
        self.is_report = is_report
        self.found: list[Found] = []
        self.ambiguous: list[Span] = []
        self._said: set[tuple[str, str]] = set()
        self._taken: dict[tuple[str, ...], list[str]] = {}
        self._left: list[tuple[tuple[str, ...], Span]] = []

    def take(self, block: Block, after: Block | None) -> None:
        if block.form == "row":
            self._row(block)
        elif block.form == "value":
            self._value(block)
        elif block.form == "item":
            self._item(block)
        elif block.form == "text":
            self._paragraph(block, after)
        elif block.form == "label" and block.text.endswith(":"):
            self._sentences(block)

    def _item(self, block: Block) -> None:
        if block.check == "done" or _is_nothing(block.text) or cues.is_reference_block(block):
            return
        if is_fact(self.text[block.start : block.end]):
            return
        if block.check == "todo":
            self._add(cues.Cue(cues.NEXT, 0.95, "[ ]"), block)
            return
        opening = cues.by_opening(block.text)
        heading = cues.by_heading(block.trail)
        if opening and (heading is None or cues.is_exact(opening)):
            self._add(opening, block)
        elif heading:
            self._add(heading, block)
        else:
            self._sentences(block)

    def _paragraph(self, block: Block, after: Block | None) -> None:
        if _is_nothing(block.text) or cues.is_reference_block(block):
            return
        if _is_remark(self.text[block.start : block.end]) or _ASIDE_OPENING.match(block.text):
            return
        opening = cues.by_opening(block.text)
        if opening and not block.text.endswith(":"):
            self._add(opening, block)
            return
        leads = block.text.endswith(":") or (
            after is not None and after.form in ("item", "row") and after.trail == block.trail
        )
        heading = None if leads else cues.by_heading(block.trail[-1:])
        if heading and len(block.trail) > 1:
            self._add(heading._replace(confidence=0.6), block)
        else:
            self._sentences(block)

    def unclear(self) -> list[Span]:
        """What may say something, in the order of the text.

        Of a list that was taken for the most part, the rest is among it: nothing that stands beside
        what was taken vanishes without a word.
        """
        rest = Counter(trail for trail, _ in self._left)
        found = list(self.ambiguous)
        for trail, span in self._left:
            taken = self._taken.get(trail, [])
            if len(taken) >= rest[trail]:
                found.append(span._replace(hint=taken[0], cue=(*trail, "the list")[-1][:60]))
        return sorted(found)

    def _sentences(self, block: Block) -> None:
        for start, end in _sentences(self.text, block.start, block.end):
            said = clean(self.text[start:end])
            place = block._replace(text=said, start=start, end=end)
            place = place._replace(line=self.places.line(start))
            cue = cues.by_opening(said) or cues.by_words(said)
            if said.endswith(":"):
                continue  # it leads to what follows, and says nothing by itself
            if cue and cue.kind in MAIN:
                self._add(cue, place)
                continue
            hint = cues.by_hints(said) or cues.by_heading(block.trail[-1:])
            if hint:
                self.ambiguous.append(Span(start, end, place.line, hint.kind, hint.words))
            elif block.form == "item":
                self._left.append((block.trail, Span(start, end, place.line, "", "")))

    def _row(self, block: Block) -> None:
        cells = block.cells
        if len(cells) < (1 if self.is_report else 2) or _TOTAL.fullmatch(cells[0].text):
            return
        if cues.is_reference_block(block):
            return
        named, cue = self._row_cue(block)
        if cue is None or cue.kind not in MAIN:
            return
        fact = next((cell.text for cell in cells if cell.name == named), "")
        if named and (_is_nothing(fact) or not fact):
            return
        if cue.kind != cues.DECISION and _is_settled(cue.kind, block):
            return
        self._keep(cue, row_of(cue.kind, cells, named), block)

    def _row_cue(self, block: Block) -> tuple[str, Cue | None]:
        """The column that says what a row is, if one does, and the cue."""
        columns = [(cell.name, cue) for cell in block.cells if (cue := cues.by_column(cell.name))]
        figures = [c for c in block.cells if is_figure(c.text) and not is_aside(c.name)]
        if columns and not self.is_report:
            order = [words.kind for words in cues.WORDS]
            named, cue = min(columns, key=lambda pair: order.index(pair[1].kind))
            # Steps with their times or costs are a measurement, not work to do.
            return ("", None) if cue.kind == cues.NEXT and len(figures) > 1 else (named, cue)
        if self.is_report:
            return "", cues.by_key(block.trail)
        first = block.cells[0]
        if len(block.cells) == 2 and _FACT_TABLE.fullmatch(first.name):
            return block.cells[1].name, cues.by_opening(f"{first.text}: ")
        return "", _row_by_place(self.text, block)

    def _value(self, block: Block) -> None:
        key = block.trail[-1] if block.trail else ""
        gate = _GATE_KEY.fullmatch(key)
        if gate and block.text in ("true", "false"):
            result = "passed" if block.text == "true" else "failed"
            fields = {"name": gate[1], "result": result}
            self._keep(cues.Cue("gates", 0.9, key), fields, block)
            return
        if _is_nothing(block.text) or len(block.text.split()) < 2:
            return
        cue = cues.by_key(block.trail)
        if cue and cue.kind in MAIN:
            self._add(cue, block)
        elif _PROSE_KEYS.fullmatch(key):
            self._hints(block)

    def _hints(self, block: Block) -> None:
        """Prose in a report: most of it says what was done; what may be more is asked about."""
        for start, end in _sentences(self.text, block.start, block.end):
            said = self.text[start:end]
            cue = cues.by_words(said) or cues.by_hints(said)
            if cue and cue.kind == cues.GOTCHA and cue.confidence > SURE:
                self._add(cue, block._replace(text=said, start=start, end=end))
            elif cue:
                self.ambiguous.append(Span(start, end, block.line, cue.kind, cue.words))

    def _add(self, cue: Cue, block: Block) -> None:
        if cue.kind in MAIN:
            self._taken.setdefault(block.trail, []).append(cue.kind)
            self._keep(cue, item_of(cue.kind, block.text), block)

    def _keep(self, cue: Cue, fields: dict[str, Any], block: Block) -> None:
        main = str(fields.get(MAIN.get(cue.kind, "name"), ""))
        if not main or (cue.kind, main) in self._said:
            return
        self._said.add((cue.kind, main))
        span = (block.start, block.end)
        self.found.append(Found(cue.kind, fields, span, block.line, cue.confidence, cue.words))


def _row_by_place(text: str, block: Block) -> Cue | None:
    """What a row is by the headings above it; lists of files and tables of figures are none."""
    figures = [c for c in block.cells if is_figure(c.text) and not is_aside(c.name)]
    if len(figures) > 1 or any(_FIGURES.fullmatch(c.name) for c in block.cells):
        return None
    if any(_is_file(text, cell) for cell in block.cells):
        return None
    return cues.by_heading(block.trail) or _row_by_cells(block)


def _row_by_cells(block: Block) -> Cue | None:
    """What a row is by a reason it gives, by something that it says is missing, or by its rank."""
    for cell in block.cells:
        if cell.name.lower() in ("rationale", "why", "reason"):
            return cues.Cue(cues.DECISION, 0.7, cell.name.lower())
        if cell.name.lower() in ("status", "state") and _MISSING.match(cell.text.strip(" *")):
            return cues.Cue(cues.GOTCHA, 0.7, cell.text.lower()[:60])
        if cell.name.lower() == "priority" and _RANKED.fullmatch(cell.text):
            return cues.Cue(cues.NEXT, 0.6, "priority")
    return None


def _is_file(text: str, cell: Cell) -> bool:
    """Whether a cell holds a path and nothing else."""
    words = text[cell.start : cell.end].strip(" `")
    is_place = "/" in words or _FILE_COLUMN.fullmatch(cell.name) is not None
    return is_place and " " not in words and any(mentions(text, cell.start, cell.end))


def _is_remark(text: str) -> bool:
    """Whether a paragraph is all in italics or brackets: about the note, or about its sources."""
    return all(_REMARK.fullmatch(line.strip(" >")) for line in text.strip().splitlines())


def _is_nothing(text: str) -> bool:
    return _NOTHING.fullmatch(text.strip(" .*")) is not None


def _is_settled(kind: str, block: Block) -> bool:
    """Whether a row says that it is over: a step done, a risk closed, a question answered."""
    status = [c.text for c in block.cells if c.name.lower() in ("status", "state")]
    if any(_SETTLED.match(text.strip(" *")) for text in status):
        return True
    answers = (c.text.strip(" *") for c in block.cells[1:])
    return kind == cues.QUESTION and any(_RESOLVED.match(answer) for answer in answers)


def _sentences(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    at = start
    for match in _SENTENCE.finditer(text, start, end):
        if text[at : match.start()].strip():
            yield at, match.start()
        at = match.end()
    if text[at:end].strip():
        yield at, end

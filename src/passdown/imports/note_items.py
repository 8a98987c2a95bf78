"""Extract a handoff's items, the files and the note's own header from the blocks of a note."""

from __future__ import annotations

import os.path
import re
from collections import Counter
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.core.kinds import NOT_STATED
from passdown.core.names import agent_problems, id_problems, normal_path, path_problems
from passdown.imports.note_blocks import (
    BLOCKER,
    BY_KIND,
    DECISION,
    GATE,
    GOTCHA,
    NEXT,
    ORDER,
    PATTERN,
    QUESTION,
    READING,
    TO_DECIDE,
    WORDS,
    Block,
    Cell,
    Cue,
    LineIndex,
    NoteItem,
    any_of,
    asks,
    by_column,
    by_heading,
    by_hints,
    by_name,
    by_opening,
    by_order,
    by_words,
    clean,
    field_of,
    is_exact,
    is_reference,
    is_solved,
    is_superseded,
    is_to_do,
    lines_of,
    markdown_blocks,
    remarks,
    report_blocks,
    restricts,
    sentences,
    snake_case,
    storable,
    without_signs,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class NoteSpan(NamedTuple):
    """A passage that may hold an item, the kind it hints at, and the words that hint."""

    start: int
    end: int
    line: int
    hint: str
    cue: str


class NoteHeader(NamedTuple):
    """What a note states about itself. `others` are further receivers; `is_summed_up` if the
    summary is labelled as one, rather than the first sentence of the note.
    """

    task: str = ""
    title: str = ""
    summary: str = ""
    outcome: str = ""
    from_agent: str = ""
    to_agent: str = ""
    others: tuple[str, ...] = ()
    is_summed_up: bool = False


class NoteExtraction(NamedTuple):
    """Everything found in a note, in the order of the text; `form` is text or report."""

    name: str
    form: str
    header: NoteHeader
    found: tuple[NoteItem, ...]
    ambiguous: tuple[NoteSpan, ...]


def extract_note(text: str, name: str = "", *, root: str = "") -> NoteExtraction:
    """Extract header, items, files and unclear passages of a note; `name` is its file's.

    Absolute paths below `root`, the project's folder, become relative to it.
    """
    report = report_blocks(text, name)
    is_report = report is not None
    blocks = report if is_report else markdown_blocks(text, matter_end(text))
    finder = _ItemExtractor(text, is_report=is_report)
    for at, block in enumerate(blocks):
        finder.take(block, blocks[at + 1 : at + 40])
    found = [*finder.found, *files_of(text, blocks, is_report=is_report, root=root)]
    found.sort(key=lambda item: (item.span, item.kind))
    header = _header(text, blocks, is_report=is_report)
    form = "report" if is_report else "text"
    return NoteExtraction(name, form, header, tuple(found), tuple(finder.unclear()))


# The fields of an item

MAIN = {
    DECISION: "summary",
    GOTCHA: "issue",
    PATTERN: "pattern",
    NEXT: "step",
    QUESTION: "question",
    BLOCKER: "blocker",
}
"""The field that holds an item's own sentence."""

_WHY = any_of(r"[,;.(]? (?:because|due to|so that|since|rationale:|reason:|why:) | -- | \u2014 ")
# What follows the first sentence of a listed decision explains it.
_NEXT_SENTENCE = re.compile(r"(?<=[a-z0-9)`'\"][.!]) (?=[A-Z`\"(])")
_DASH = re.compile(r" [-\u2013] ")
_OVER = re.compile(
    r"(?:\bover|,? instead of|,? rather than|\bnot using|\band not|\b[Ww]hy not|"
    r"[,;(\u2014\u2013-] ?not(?! (?:yet|only|just|needed|required|possible|because|in|for|by|to|as|"
    r"an?|the)\b)) "
    r"(?P<other>[^.;,()?]{2,120}?)"
    r"(?=[.;,()?]| because\b| since\b| due to\b| so that\b| \u2014 |$)"
)
_CHOSEN = any_of(r"\b(?:chose|chosen|picked|selected|prefer(?:red)?|use[ds]?)\b")
# A decision that is stated before a colon begins with what to do; anything else names its topic.
_DOING = any_of(r"""
    (?:us(?:e|ed|ing)|keep|kept|chose|choose|adopt(?:ed)?|add(?:ed)?|remov(?:e|ed)|no|not|never|
    always|avoid|prefer|stor(?:e|ed)|made?|mov(?:e|ed)|split|merg(?:e|ed)|replac(?:e|ed)|switch|
    separate|drop(?:ped)?|defer(?:red)?|skip(?:ped)?|reuse|buil[dt]|run|allow|requir(?:e|ed)|
    disable[d]?|enable[d]?|single|two|one|go with|went with|stay|start|put|wrap(?:ped)?|
    preserve|do not|don't|implement(?:ed)?|creat(?:e|ed)|standardi[sz]e|migrate)\b
""")
_ASIDE_END = re.compile(r" \((?=[^()]*[a-z][^()]* [^()]*\)\W*$)")
_LEAD = re.compile(r"([^:]{3,120}):\s+(\S.*)")
_REMEDY = any_of(r"(?:\bmitigation|\bfix|\bworkaround|\bsolution|\binstead)\b:?")
_PLACE = re.compile(r"`([^`\n]{1,200})`")
_NUMBER = re.compile(r"[~<>=+-]{0,2}\d[\d.,]*(?:-\d[\d.,]*)?\s?(?:%|\w{1,12})?(?:\s?/\s?\d+)?")
# A text of references only, such as "FR-FEAT-001 through FR-FEAT-005", is empty without these.
_IDS = re.compile(
    r"\b[A-Z][A-Z0-9]{0,20}(?:[-_][A-Z0-9/]{1,20}){1,6}\b|\bv\d[\d.]*|\b(?:through|and|to|or)\b|[\W\d_]+"
)
_HIGH = any_of(r"\b(?:critical|high|urgent|severe|p[01]|must|blocker)\b|^1$")
_LOW = any_of(r"\b(?:low|minor|p3|nice to have)\b")


def level(grade: str) -> str:
    """A grade in any wording as high, medium or low."""
    return "high" if _HIGH.search(grade) else "low" if _LOW.search(grade) else "medium"


def _is_figure(text: str) -> bool:
    """Whether a cell holds a number, with or without a unit."""
    return len(text) <= 60 and _NUMBER.fullmatch(text.strip(" *()")) is not None


class _Parts(NamedTuple):
    """The texts of an item: its sentence, and what the note says beside it."""

    text: str
    why: str = ""
    alternatives: tuple[str, ...] = ()
    remedy: str = ""
    grade: str = ""
    more: tuple[str, ...] = ()


def _fields(kind: str, parts: _Parts) -> dict[str, Any]:
    """An item of a handoff; empty if a record can't hold it."""
    text, why, alternatives, remedy, grade, more = parts
    about = "; ".join(part for part in (why, *more) if part)
    optional: dict[str, Any] = {}
    if not text:
        return {}
    if kind == DECISION:
        fields: dict[str, Any] = {"summary": text, "rationale": why or NOT_STATED}
        notes = [*more, *([remedy] if remedy else [])]
        optional = {"alternatives": list(alternatives), "artifacts": notes}
    elif kind == NEXT:
        whole = "; ".join(part for part in (about, *alternatives, remedy) if part)
        step = f"{text} ({whole})" if whole else text
        fields = {"step": step, "priority": level(grade)}
    elif kind == BLOCKER:
        fields = {"blocker": text}
        optional = {"impact": about, "suggested_resolution": remedy}
        optional["severity"] = (
            "" if not grade else "blocker" if _HIGH.search(grade) else level(grade)
        )
    elif kind == QUESTION:
        fields = {"question": text}
        optional = {"context": about, "recommendation": remedy or "; ".join(alternatives)}
    elif kind == GATE:
        fields, optional = {"name": text, "result": grade}, {"detail": about}
    elif kind == PATTERN:
        fields = {"pattern": text, "location": about or remedy or NOT_STATED}
    else:
        fields = {"issue": text, "mitigation": remedy or NOT_STATED, "severity": level(grade)}
        optional = {"discovered_in": about}
    return {**fields, **{name: value for name, value in optional.items() if value}}


def _sentence_parts(kind: str, text: str, *, is_listed: bool) -> _Parts:
    """The parts of a line or a sentence; `is_listed` if a heading or key announced its kind."""
    said = storable(_without_opening(kind, text))
    if kind == DECISION:
        return _decision_parts(said, is_listed=is_listed)
    if kind == GOTCHA:
        match = _REMEDY.search(said)
        remedy = said[match.end() :].strip(" :;,-") if match else ""
        return _Parts(said, remedy=remedy, grade=text)
    if kind == PATTERN:
        place = _PLACE.search(text)
        return _Parts(said, storable(place[1]) if place else "")
    return _Parts(said, grade=text if kind == NEXT else "")


def _decision_parts(said: str, *, is_listed: bool) -> _Parts:
    """What was decided, why, and over what."""
    others = _rejected(said)
    match = _WHY.search(said, 4)
    if match and is_listed and match[0].strip() in ("--", "\u2014"):
        # A dash in what explains the decision isn't where the reason begins.
        match = None if _NEXT_SENTENCE.search(said[: match.start()], 8) else match
    if match is None and is_listed:
        lead = _LEAD.match(said)
        if lead and (_DOING.match(lead[1]) or len(lead[1].split()) > 3):
            return _Parts(lead[1].strip(), lead[2].strip(), tuple(others))
        match = _DASH.search(said, 8) or _NEXT_SENTENCE.search(said, 8)
        match = match or _ASIDE_END.search(said, 8)
    why = said[match.end() :].strip(" :") if match else ""
    why = why.rstrip(").") if why.count(")") > why.count("(") else why
    summary = said[: match.start()].strip() if match and why else said
    return _Parts(summary, why, tuple(others))


_REJECTED = re.compile(
    r"\b(?:considered|rejected|ruled out|discarded|dismissed|decided against) "
    r"(?P<other>[^.;,():\u2014]{2,80}?)"
    r"(?=[.;,():\u2014]| but\b| because\b| since\b| due to\b| in favou?r\b| for\b| as\b|$)",
    re.IGNORECASE,
)


def _rejected(said: str) -> list[str]:
    """What a text says was not chosen."""
    named = [match["other"].strip() for match in _REJECTED.finditer(said)]
    return named + [
        match["other"].strip()
        for match in _OVER.finditer(said)
        if match[0][:4] != "over" or _CHOSEN.search(said[: match.start()])
        if " not " not in match[0]
        or said[:3].lower() == "why"
        or not re.fullmatch("[a-z]+", match["other"].strip())
    ]


def _without_opening(kind: str, text: str) -> str:
    """`Risk: the disk is slow` as `the disk is slow`; other text before a colon is kept."""
    bare = without_signs(text)
    match = BY_KIND[kind].label.match(bare)
    is_short = match is not None and " " not in match[0].strip()
    return bare[match.end() :].strip() or text if match and is_short else text


def _cell_parts(kind: str, cells: Sequence[Cell], named: str) -> _Parts:
    """The parts of a row, an object or labelled lines; `named` is the column that shows the kind,
    if one does.
    """
    held = {cell.name: cell for cell in cells if storable(cell.text)}
    main = held.pop(named if named in held else _main_column(tuple(held.values()), kind), None)
    if main is None or not _IDS.sub("", main.text):
        return _Parts("")
    found: dict[str, list[str]] = {}
    others: list[str] = []
    more: list[str] = []
    text = storable(main.text)
    for cell in held.values():
        field = field_of(cell.name)
        if _COUNTER.fullmatch(cell.name) or (kind == DECISION and _is_record_keeping(cell)):
            continue
        if field == "alternatives" and kind == DECISION:
            others += cell.parts or _listed(cell.text)
        elif field in ("why", "remedy", "grade"):
            found.setdefault(field, []).append(storable(cell.text))
        elif (
            len(text.split()) < 3
            and not _NO_TOPIC.fullmatch(cell.name)
            and text == storable(main.text)
            and not _is_figure(cell.text)
        ):
            text = f"{storable(cell.text)}: {text}"  # the topic
        elif field == "alternatives":
            found.setdefault("remedy", []).append(storable(cell.text))
        else:
            more.append(f"{cell.name}: {storable(cell.text)}")
    why, remedy, grade = ("; ".join(found.get(name, ())) for name in ("why", "remedy", "grade"))
    alternatives = tuple(o for o in map(storable, others) if o and not _NO_ALTERNATIVE.fullmatch(o))
    if kind == DECISION and not why:
        stated = _decision_parts(text, is_listed=False)
        text, why = stated.text, stated.why
    if kind == DECISION:
        alternatives = alternatives or tuple(map(storable, _rejected(f"{main.text}. {why}")))
    return _Parts(text, why, alternatives, remedy, grade, tuple(more))


_COUNTER = any_of(r"#|(?:no|nr|num|number)\.?")
_TAKEN = any_of(r"\W*(?:accepted|approved|active|agreed|final|locked|made|adopted|in force)\b.*")


def _is_record_keeping(cell: Cell) -> bool:
    """Whether a column only says that a decision was taken, or when."""
    if cell.name.lower() in ("status", "state"):
        return bool(_TAKEN.fullmatch(cell.text) or _SETTLED.fullmatch(cell.text))
    return cell.name.lower() in ("date", "decided on", "timestamp")


_NO_TOPIC = any_of(r"status|state|owner|agent|assign\w*|effort|estimate|date|id")


def _listed(text: str) -> list[str]:
    """The entries of a list on one line."""
    parts = re.split(r";\s+|\s+/\s+", text)
    if len(parts) == 1 and "." not in text and "(" not in text:
        split = [part.removeprefix("or ").strip() for part in text.split(",")]
        parts = split if all(0 < len(part.split()) <= 5 for part in split) else parts
    found = (part.strip(" .") for part in parts)
    return [part for part in found if part and not _NO_ALTERNATIVE.fullmatch(part)]


def _main_column(cells: Sequence[Cell], kind: str) -> str:
    """The column with the item's sentence: one that is named like its kind, else one without a
    name, else the longest text that isn't a field of its own, a grade or a figure.
    """
    if not cells:
        return ""
    for cell in cells:
        name = cell.name.replace("_", " ")
        if not name or BY_KIND[kind].column.fullmatch(name) or name.lower() in _MAIN_NAMES[kind]:
            return cell.name
    about = [c for c in cells if not field_of(c.name) and not _is_figure(c.text)]
    about = about or [c for c in cells if field_of(c.name) == "alternatives"]
    return max(about or cells, key=lambda cell: len(cell.text)).name


_SUMMARY = ("summary", "title", "what", "item", "description", "text")
_MAIN_NAMES = dict.fromkeys((*MAIN, GATE), _SUMMARY) | {DECISION: (*_SUMMARY[:4], "selected")}

# Items

_NOTHING = any_of(r"""
    -*|(?:none|n/?a|nothing|not applicable|met|pass(?:ed)?)\b.{0,25}|(?:no|yes|ok|true|
    false)\W*|none(?: ?[.,;:!(\u2013\u2014]| -).{0,80}|no (?:open |known |new |further |
    remaining |outstanding |pending )?(?:blocker|issue|risk|question|problem|concern|work|task|
    item)s?\b.{0,25}
""")
_NO_ALTERNATIVE = any_of(r"-+|none|n/?a|not applicable|no alternatives?")
_SETTLED = any_of(r"""
    \W*(?:complete[d]?|passed|pass|met|done|resolved|closed|fixed|compliant|ready|verified|
    mitigated|accepted)\b.*
""")
# Sections that describe: what was done, what there is, what would prove it. Words such as "must" or
# "never" in them are no items.
_DESCRIBING = any_of(r"""
    \b(?:complet(?:ed|e|ion)|done|finished|shipped|delivered|accomplish\w*|achieve\w*|
    implemented|fix(?:es|ed)|resolved|solved|changes|changed|what (?:was|worked|happened|we did|
    i did|got)|overview|background|architecture|tech(?:nical)? stack|structure|behaviou?rs?|
    test results?|how (?:it|to|we)|what (?:this|it|the)\b.{0,20} (?:is|does)|results?|evidence|
    verified)\b
""")
_OPEN_ENDED = any_of(r"""
    \b(?:not|un\w+|incomplete|remaining|next|left|to-?do|open|known|pending|issues?|risks?)\b
""")
_CRITERIA = any_of(r"""
    \b(?:(?:test|testing|qa|verification|validation|review|manual)[\w ]{0,20} (?:checklist|
    scenarios?|cases?|criteria)|(?:acceptance|success|exit|completion) (?:criteria|metrics)|
    definition of done|done when)\b
""")
_OVER_MARK = any_of(r"""
    \((?:resolved|fixed|closed|done|complete[d]?)\)|\u2705|[\u2014\u2013:-] ?(?-i:COMPLETED?|
    DONE|CLOSED|FIXED|RESOLVED)\b|\b(?:is|are) now (?:removed|fixed|done|resolved|gone|
    complete[d]?)\b
""")
_RESOLVED = any_of(r"resolved\b")
_FIGURES = any_of(r"""
    (?:metric|value|score|attribute|field|result|criterion|weight|parameter|total)s?|.*\brpn
""")
_FACT_TABLE = any_of(r"(?:factor|attribute|field|item|aspect|topic|property)s?")
_MISSING = any_of(r"""
    (?:missing|absent|broken|failed|failing|not (?:implemented|started|done)|unsupported)\b.*
""")
_RANKED = any_of(r"p[0-3]\b.*")
_SHOUTED = re.compile(r"\W*[A-Z]{5,}\b")
_BOLD_LINE = re.compile(r"\*\*[^*\n]+\*\*")
_REMARK = re.compile(r"\*[^*\n].*[^*\n]\*|\[[^\[\]]{1,400}\]|_[^_\n].*_")
_ABOUT_NOTE = any_of(r"\bhow to (?:maintain|update|use) this (?:file|document|note)\b")
_TOTAL = any_of(r"(?:grand total|total|composite|overall|sum)(?: score)?(?: ?\(.*)?")
_ASIDE_OPENING = any_of(r"(?:\w+ ){0,2}(?:rationale|reason|note on \w+):")
_PROSE_KEYS = re.compile(
    r"(?:.*_)?(?:notes?|summary|comments?|description|details|message|remarks)"
)
_YAML_LINES = re.compile(r"\|[-+\d]{0,2}[ \t]{0,20}\r?\n")
_GATE_KEY = re.compile(r"(\w{1,60}?)_(?:passed|verified|ok)")
_VERDICT = any_of(r"""
    \W*(?P<passed>pass(?:ed|es)?)\b.{0,60}|\W*(?P<failed>fail(?:ed|s|ure)?)\b.{0,60}
""")
_VERDICT_LINE = re.compile(
    r"\W*(?P<name>[^|]{2,120}?)\s*(?::|\u2014|\u2013|->|\s-)\s*\W*(?:(?P<passed>PASS(?:ED)?)|"
    r"(?P<failed>FAIL(?:ED)?))\b[\s:.,;-]*(?P<detail>.*)"
)
_VERDICT_FIRST = re.compile(
    r"\W*(?:(?P<passed>PASS(?:ED)?)|(?P<failed>FAIL(?:ED)?))\b\W{1,6}(?P<name>\w.{1,160})(?P<detail>)"
)
_VERDICT_NAME = any_of(r"(?:test )?(?:status|result|verdict|outcome)s?")

MIN_BLOCKER = 8
"""A blocker of fewer words only says that there is one."""

SURE = 0.5
"""Items with at least this confidence are kept; below it they are ambiguous."""


class _ItemExtractor:
    """Collects the items of a note's blocks, each once."""

    def __init__(self, text: str, *, is_report: bool) -> None:
        self.text = text
        self.places = LineIndex(text)
        self.is_report = is_report
        self.found: list[NoteItem] = []
        self.ambiguous: list[NoteSpan] = []
        self._said: set[tuple[str, str]] = set()
        self._taken: dict[tuple[str, ...], list[str]] = {}
        self._left: list[tuple[tuple[str, ...], NoteSpan]] = []
        self._placed: list[tuple[NoteItem, tuple[str, ...]]] = []
        self._told: tuple[str, ...] = ()
        self._after: Sequence[Block] = ()

    def take(self, block: Block, after: Sequence[Block]) -> None:
        """Take what a block says; `after` are the blocks that follow."""
        self._after = after
        is_about = not self.is_report and block.trail and is_reference(block.trail[-1])
        opening = by_opening(block.text) if block.form in ("text", "item") else None
        is_said = is_exact(opening) if opening else block.form == "row" and _by_status(block)
        if is_superseded(block.trail) or (is_about and not is_said):
            return
        if self._told and block.trail[: len(self._told)] == self._told:
            return  # the section is one item, which its heading names
        if block.form == "row":
            self._row(block)
        elif block.form == "value":
            self._value(block)
        elif block.form == "item":
            self._item(block)
        elif block.form == "text":
            self._paragraph(block, after[0] if after else None)
        elif block.form == "heading":
            self._heading(block, after)
        elif block.form == "label" and block.text.endswith(":"):
            self._lead(block)

    def unclear(self) -> list[NoteSpan]:
        """Passages that may hold an item, in the order of the text; among them the remaining
        entries of lists that were taken for the most part.
        """
        rest = Counter(trail for trail, _ in self._left)
        found = list(self.ambiguous)
        for trail, span in self._left:
            taken = self._taken.get(trail, [])
            if len(taken) >= rest[trail]:
                found.append(span._replace(hint=taken[0], cue=(*trail, "the list")[-1][:60]))
        return sorted(found)

    # Markdown

    def _heading(self, block: Block, after: Sequence[Block]) -> None:
        """Take a heading that is an item: a decision with its reason, a finding with what is said
        about it, or a numbered step.
        """
        self._gate_line(block)
        section = (*block.trail, block.text)
        below = list(takewhile(lambda each: each.trail[: len(section)] == section, after))
        body = next((each for each in below[:3] if each.form in ("text", "item")), None)
        if body is None or body.trail != section or not self._decision_heading(block, body):
            self._section_item(block, section, below)

    def _decision_heading(self, block: Block, body: Block) -> bool:
        """A heading below `Decisions` is a decision if a reason follows it."""
        above = by_heading(block.trail[-1:])
        cells = body.cells or (Cell(*_label(body.text), body.start, body.end),)
        has_why = any(field_of(cell.name) == "why" for cell in cells)
        is_stated = any(cell.name and by_column(cell.name) for cell in cells)
        is_choice = _CHOICE_HEADING.search(block.text) is not None
        if not has_why or is_stated or not (is_choice or (above and above.kind == DECISION)):
            return False
        title = Cell("", re.sub(r"^[\d. ]+", "", block.text), block.start, block.end)
        parts = _cell_parts(DECISION, (title, *cells), "")
        self._keep(Cue(DECISION, 0.8, "decision"), parts, block)
        return True

    def _section_item(self, block: Block, section: tuple[str, ...], below: Sequence[Block]) -> None:
        """A heading that is an item with what is below it: a finding with labels such as
        `Evidence:`, an issue, a question or a blocker that has a number or only text below it, or
        a numbered step below `Next steps`.
        """
        if _OVER_MARK.search(block.text) or any(each.check for each in below) or not block.trail:
            return
        above = by_heading(block.trail) if len(block.trail) > 1 else None
        direct = by_heading(block.trail[-1:]) if len(block.trail) > 1 else None
        is_issue = above.kind == GOTCHA if above else any(map(_FINDINGS.search, block.trail[-1:]))
        has_label = any(_FINDING_LABEL.fullmatch(_label_of(each)) for each in below)
        title = _NUMBERED_TITLE.sub("", block.text)
        about = storable(below[0].text) if below and below[0].form == "text" else ""
        cue = None
        if (is_issue or _ISSUE_TITLE.match(block.text)) and has_label:
            is_blocking = any(_BLOCKING.fullmatch(each.text) for each in below)
            cue, about = Cue(BLOCKER if is_blocking else GOTCHA, 0.8, "finding"), ""
        elif direct and direct.kind in _TITLED and _is_titled(direct.kind, block.text, below):
            cue = direct._replace(confidence=0.8)
        elif above and above.kind == NEXT and below and _is_step(block.text, below):
            cue = above._replace(confidence=0.8)
        if cue is None:
            return
        remedies = (e for e in below if "remedy" in map(field_of, _labels_near(e)))
        remedy = next((_label(e.text)[1] for e in remedies if e.form != "label"), "")
        remedy = storable(remedy) if cue.kind == GOTCHA else ""
        if about and cue.kind != NEXT and len(title.split()) < 3:
            title, about = f"{title}: {about}", ""  # the topic alone says too little
        parts = _Parts(storable(title), about, remedy=remedy, grade=block.text)
        whole = block._replace(end=below[-1].end) if below else block
        self._keep(cue, parts, whole)
        self._told = section
        for each in below:
            self._remedy(each, *_label(each.text))

    def _remedy(self, block: Block, name: str, said: str) -> None:
        """A fix or a suggestion that is put as an order is a step, too."""
        if _FIX.fullmatch(name) and ORDER.match(said):
            self._keep(Cue(NEXT, 0.7, name.lower()), _Parts(storable(said)), block)

    def _lead(self, block: Block) -> None:
        """A line that leads to code below a heading for steps is a step."""
        heading = by_heading(block.trail[-1:]) if len(block.trail) > 1 else None
        if heading and heading.kind == NEXT and self._after and self._after[0].form == "code":
            self._add(heading._replace(confidence=0.6), block)
        else:
            self._sentences(block)

    def _item(self, block: Block) -> None:
        if block.check == "done" or _is_nothing(block.text) or self._gate_line(block):
            return
        words = by_words(block.text)
        is_stuck = words is not None and words.kind == BLOCKER
        if _is_fact(self.text[block.start : block.end]) and not is_stuck:
            return
        opening, rest = by_opening(block.text), block.text.partition(":")[2].strip(" `")
        if block.check == "todo":
            # "[ ] Constraint: no helper" is to be read, "[ ] Bug: fix the login" to be done.
            is_told = opening is not None and is_exact(opening) and not ORDER.match(rest)
            self._box(block, opening if is_told else None)
            return
        heading = by_heading(block.trail, block.text) or by_order(block.trail, block.text)
        if not block.cells and self._is_attached(block, heading):
            return
        is_shouted = _SHOUTED.match(block.text) is not None
        # "Bug: fix the login" among steps is one.
        is_step = heading is not None and heading.kind == NEXT and ORDER.match(rest) is not None
        if opening and "/" in rest and " " not in rest:
            return  # where something is written
        if opening and not is_step and (heading is None or is_exact(opening) or is_shouted):
            self._add(opening, block)
        elif heading:
            self._announced(heading, block)
        elif restricts(block.trail, block.text) and not _is_decided(block):
            self._add(Cue(GOTCHA, 0.6, "among remarks"), block)
        else:
            self._labelled(block)

    def _box(self, block: Block, opening: Cue | None) -> None:
        if opening:
            self._add(opening, block)
        elif not any(map(_CRITERIA.search, block.trail[-2:])):
            self._add(Cue(NEXT, 0.95, "[ ]"), block)

    def _announced(self, heading: Cue, block: Block) -> None:
        """An item below a heading; a blocker that is put as an order is a step, too."""
        if heading.kind == GOTCHA and _TICKET.match(block.text):
            heading = heading._replace(kind=NEXT)  # issues of a tracker are work
        if heading.kind == DECISION and block.text.endswith("?"):
            self._add(heading._replace(kind=QUESTION), block)
        elif not _is_over(heading.kind, block.text):
            self._add(heading, block, is_listed=True)
            if heading.kind == BLOCKER and ORDER.match(block.text):
                self._add(heading._replace(kind=NEXT), block)

    def _paragraph(self, block: Block, after: Block | None) -> None:
        raw = self.text[block.start : block.end].strip().splitlines()
        # A paragraph that is all in italics or brackets is a remark about the note.
        if _is_nothing(block.text) or all(_REMARK.fullmatch(line.strip(" >")) for line in raw):
            return
        is_about = not block.cells and self._is_attached(block, None)
        if is_about or _ABOUT_NOTE.search(block.text) or _ASIDE_OPENING.match(block.text):
            return
        opening = by_opening(block.text)
        lines = remarks(self.text, block.start, block.end)
        if block.cells and not block.text.endswith(":"):
            self._labelled(block)
            return
        if opening and len(lines) == 1 and not block.text.endswith(":"):
            self._add(opening, block)
            return
        is_lead = block.text.endswith(":") or (
            after is not None and after.form in ("item", "row") and after.trail == block.trail
        )
        heading = None if is_lead and len(lines) == 1 else by_heading(block.trail[-1:])
        if heading is None or len(block.trail) < 2:
            self._sentences(block)
            return
        # What follows a line in bold explains it.
        is_led = len(raw) > 1 and _BOLD_LINE.fullmatch(raw[0].strip()) is not None
        is_one = len(lines) < 2 or (is_led and heading.kind in (DECISION, GOTCHA, QUESTION))
        for start, end in [(block.start, block.end)] if is_one else lines:
            self._remark(self._part(block, start, end), is_one=is_one)

    def _remark(self, part: Block, *, is_one: bool) -> None:
        """A line of a paragraph below a heading. A warning among steps is no step, nor is a warning
        or a question below a list of decisions one; what follows a step explains it, unless it is
        put as one.
        """
        opening, heading = by_opening(part.text), by_heading(part.trail[-1:], part.text)
        if opening and is_exact(opening):
            self._add(opening, part)
        elif heading and (is_one or not (part.text.endswith(":") or _is_beside(part.text))):
            is_more = heading.kind in self._taken.get(part.trail, ())
            is_below = heading.kind == DECISION and is_more and not _NEXT_SENTENCE.search(part.text)
            words = by_words(part.text) if heading.kind == NEXT or is_below else None
            is_more = is_more and heading.kind == NEXT
            if words and (words.kind == GOTCHA or (is_below and words.kind in MAIN)):
                self._add(words, part)
            elif is_more and not is_to_do(part.text):
                self._hint(heading, part)
            else:
                self._add(heading._replace(confidence=0.6), part, is_listed=True)

    def _labelled(self, block: Block) -> None:
        """Labelled lines are one item: a decision if a reason is among them, else of the kind that
        one of them names first.
        """
        reasoned = _row_by_cells(block)
        if reasoned and reasoned.kind == DECISION and block.form == "item":
            self._add(reasoned, block)
            return
        for cell in block.cells:
            cue = by_column(cell.name) if cell.name else by_opening(cell.text)
            if cue and cue.kind in MAIN:
                self._keep(cue, _cell_parts(cue.kind, block.cells, cell.name), block)
                return
        heading = by_heading(block.trail[-1:])
        if heading and heading.kind in MAIN and block.cells and not block.cells[0].name:
            self._keep(heading, _cell_parts(heading.kind, block.cells, ""), block)
        else:
            self._sentences(block)

    def _is_attached(self, block: Block, heading: Cue | None) -> bool:
        """Take what is labelled `Rationale`, `Mitigation` or the like, or is in a list below such a
        label, as a field of the item before it in its section; whether the block is of that sort.
        """
        (name, said), above = _label(block.text), block.trail[-1] if block.trail else ""
        label = field_of(name) if name else ""
        is_below = above.endswith((":", "?")) and field_of(above.rstrip(": ")) in _ATTACHED
        if not label and is_below:
            name, label, said = above.rstrip(": "), field_of(above.rstrip(": ")), block.text
        last = self._last_item(label, block)
        if not label or (heading and heading.kind == NEXT):
            return False
        is_detail = heading is None or heading.kind == DECISION or _EFFECT.match(name)
        if label not in _ATTACHED and (block.form == "text" or not is_detail):
            return False
        if label == "remedy":
            self._remedy(block, name, said)
        if last is None:
            return label not in ("detail", "remedy") and heading is not None
        field, said = _ATTACHED.get(label, ""), storable(said)
        if field == "alternatives" and last.kind == DECISION:
            last.fields[field] = [*last.fields.get(field, ()), *_listed(said)]
        elif said and last.fields.get(field) == NOT_STATED:
            last.fields[field] = said
        elif said and field in last.fields and said not in last.fields[field]:
            last.fields[field] = storable(f"{last.fields[field]}; {said}")
        others = _rejected(name) if label == "why" and last.kind == DECISION else []
        if others:
            known = last.fields.get("alternatives", [])
            last.fields["alternatives"] = list(dict.fromkeys([*known, *map(storable, others)]))
        return True

    def _last_item(self, label: str, block: Block) -> NoteItem | None:
        """The item before a block in its section; for a reason, the last decision there."""
        section = _section(block.trail)
        near = [item for item, where in self._placed if where == section]
        decided = [item for item in near if item.kind == DECISION]
        reasoned = decided if label in ("why", "alternatives") and decided else near
        return reasoned[-1] if reasoned else None

    def _part(self, block: Block, start: int, end: int) -> Block:
        said, line = clean(self.text[start:end]), self.places.line(start)
        return block._replace(text=said, start=start, end=end, line=line, cells=())

    def _sentences(self, block: Block) -> None:
        """Take the sentences that say their kind. In a report, prose mostly describes what was
        done: only gotchas are taken.
        """
        for start, end in sentences(self.text, block.start, block.end):
            place = self._part(block, start, end)
            said = place.text
            if said.endswith(":") or not said or self._gate_line(place):
                continue  # it introduces what follows
            cue = by_opening(said) or by_words(said)
            if cue and cue.words == "?" and self._is_answered(block, end):
                cue = None
            is_advice = block.form == "item" or ORDER.match(said) is not None
            if cue is None and is_advice and restricts(block.trail, said):
                cue = Cue(GOTCHA, 0.55, "among remarks")
            if cue and cue.kind in (MAIN if not self.is_report else (GOTCHA,)):
                self._add(cue, place)
                continue
            hint = cue or by_hints(said) or by_heading(block.trail[-1:])
            if hint:
                self._hint(hint, place)
            elif block.form == "item":
                self._left.append((block.trail, NoteSpan(start, end, place.line, "", "")))

    def _is_answered(self, block: Block, end: int) -> bool:
        """Whether something follows a question in its block, or the next block is its answer."""
        if self.text[end : block.end].strip(" *_)\n"):
            return True
        following = self._after[0] if self._after else None
        return following is not None and _ANSWER.match(following.text) is not None

    def _gate_line(self, block: Block) -> bool:
        """Take a line such as `Lint: PASS` or `[PASS] Lint`, and `Status: PASS` below a heading."""
        text = block.text if len(block.text) < 400 else ""
        match = _VERDICT_LINE.fullmatch(text) or _VERDICT_FIRST.fullmatch(text)
        name = match["name"].strip(" *`") if match else ""
        if _VERDICT_NAME.fullmatch(name):
            # At the head of a note it is the outcome.
            name = re.sub(r"^[\d. ]+", "", block.trail[-1]) if len(block.trail) > 1 else ""
        elif _is_fact(text):
            return False
        if match and name:
            self._gate(name, bool(match["passed"]), storable(match["detail"].strip(" ()")), block)
        return bool(match and name)

    def _gate(self, name: str, is_passed: bool, detail: str, block: Block) -> None:
        result = "passed" if is_passed else "failed"
        self._keep(Cue(GATE, 0.9, result), _Parts(storable(name), detail, grade=result), block)

    # Rows and reports

    def _row(self, block: Block) -> None:
        cells = block.cells
        if len(cells) < (1 if self.is_report else 2) or _TOTAL.fullmatch(cells[0].text):
            return
        named, cue = self._row_cue(block)
        if (cue is None or (cue.kind == NEXT)) and self._gate_row(block):
            return
        if cue is None or cue.kind not in MAIN:
            return
        answer = _answer(block) if cue.kind == QUESTION else ""
        if answer:
            named, cue = answer, Cue(DECISION, 0.8, answer.lower())
        if cue.kind == QUESTION and block.trail and is_solved(block.trail[-1]):
            return
        fact = next((cell.text for cell in cells if cell.name == named), "")
        if named and (_is_nothing(fact) or not fact):
            return
        is_compared = not named and any(_COMPARING.fullmatch(cell.name) for cell in cells)
        if is_compared or (cue.kind != DECISION and _is_settled(cue.kind, block)):
            return
        self._keep(cue, _cell_parts(cue.kind, cells, named), block)

    def _gate_row(self, block: Block) -> bool:
        """Take a row with a verdict, PASS or FAIL, as the result of a gate."""
        for cell in block.cells[1:]:
            match = _VERDICT.fullmatch(cell.text) if len(cell.text) < 80 else None
            if match and (
                field_of(cell.name) == "status" or cell.text.strip(" *`\u2705\u274c")[:4].isupper()
            ):
                rest = [c for c in block.cells if c is not cell]
                about = [c for c in rest if not _is_figure(c.text) and field_of(c.name) != "aside"]
                name = (about or rest)[0]
                more = "; ".join(f"{c.name}: {c.text}" for c in rest if c is not name)
                self._gate(name.text, bool(match["passed"]), storable(more), block)
                if not match["passed"] and len(more.split()) > 6:
                    issue = _Parts(storable(f"{name.text}: {cell.text}"), storable(more))
                    self._keep(Cue(GOTCHA, 0.7, "failed"), issue, block)
                return True
        return False

    def _row_cue(self, block: Block) -> tuple[str, Cue | None]:
        """The column that shows a row's kind, if one does, and the cue."""
        if self.is_report:
            cue = by_heading(block.trail) or _by_status(block) or _reasoned(block)
            column = next((c.name for c in block.cells if self._is_main(c, cue)), "")
            return column, cue
        columns = [(c.name, cue) for c in block.cells if (cue := by_column(c.name))]
        # A column that only numbers, grades or locates its rows holds no figures.
        beside = ("aside", "grade", "status")
        figures = [c for c in block.cells if _is_figure(c.text) and field_of(c.name) not in beside]
        if columns:
            order = [each.kind for each in WORDS]
            named, cue = min(columns, key=lambda pair: order.index(pair[1].kind))
            above = by_heading(block.trail)
            if cue.kind == PATTERN and above and above.kind == GOTCHA:
                cue = above  # anti-patterns
            # Steps with times or costs are a measurement, not work to do.
            return ("", None) if cue.kind == NEXT and len(figures) > 1 else (named, cue)
        first = block.cells[0]
        if len(block.cells) == 2 and _FACT_TABLE.fullmatch(first.name):
            return block.cells[1].name, by_opening(f"{first.text}: ")
        # Lists of files and tables of figures hold no items.
        is_measured = len(figures) > 1 or any(_FIGURES.fullmatch(c.name) for c in block.cells)
        above = by_heading(block.trail)
        rest = [cell for cell in block.cells if not _is_place(self.text, cell)]
        is_work = above is not None and above.kind == NEXT
        is_told = is_work and any(len(cell.text.split()) > 2 for cell in rest)
        if is_measured or (len(rest) < len(block.cells) and not is_told):
            return "", None
        return "", above or _row_by_cells(block)

    def _is_main(self, cell: Cell, cue: Cue | None) -> bool:
        if cue is None or cue.kind not in MAIN:
            return False
        return BY_KIND[cue.kind].column.fullmatch(cell.name.replace("_", " ")) is not None

    def _value(self, block: Block) -> None:
        key = snake_case(block.trail[-1]) if block.trail else ""
        gate = _GATE_KEY.fullmatch(key)
        if gate and block.text in ("true", "false"):
            self._gate(gate[1], block.text == "true", "", block)
            return
        is_short = len(block.text.split()) < 2 and not ORDER.match(block.text)
        if is_short or _is_nothing(block.text):
            return
        cue = by_heading(block.trail, block.text)
        if cue and cue.kind in MAIN:
            # The lines of a block of YAML are an item each.
            opened = _YAML_LINES.match(self.text, block.start, block.end)
            lines = remarks(self.text, opened.end(), block.end) if opened else []
            for part in [self._part(block, *line) for line in lines] or [block]:
                self._add(cue, part, is_listed=True)
        elif _PROSE_KEYS.fullmatch(key):
            self._sentences(block)

    def _add(self, cue: Cue, block: Block, *, is_listed: bool = False) -> None:
        if cue.kind not in MAIN:
            return
        self._taken.setdefault(block.trail, []).append(cue.kind)
        if block.cells:
            named = next(
                (c.name for c in block.cells if self._is_main(c, cue)), block.cells[0].name
            )
            parts = _cell_parts(cue.kind, block.cells, named)
        else:
            parts = _sentence_parts(cue.kind, block.text, is_listed=is_listed)
            if is_listed and _FORBIDDEN.match(cue.words):
                parts = parts._replace(text=f"Do not: {parts.text}")
        self._keep(cue, parts, block)
        for cell in block.cells[1:]:
            own = by_name(cell.name)
            if own and own.kind in (NEXT, QUESTION, BLOCKER) and own.kind != cue.kind:
                self._add(own, self._part(block, cell.start, cell.end)._replace(text=cell.text))

    def _keep(self, cue: Cue, parts: _Parts, block: Block) -> None:
        """Keep an item, once; a step that is a decision to take is an open question, too."""
        if cue.kind == NEXT and (TO_DECIDE.match(parts.text) or asks(parts.text)):
            self._keep(Cue(QUESTION, 0.7, "decide"), _Parts(parts.text), block)
        fields = _fields(cue.kind, parts)
        main = str(fields.get(MAIN.get(cue.kind, "name"), ""))
        is_verdict = cue.kind == DECISION and _VERDICT.fullmatch(main) is not None
        said = f"{main} {fields.get('alternatives', '')}"
        if not main or (cue.kind, said) in self._said or _is_figure(main) or is_verdict:
            return
        above = by_heading(block.trail) if cue.kind == DECISION else None
        if above and above.kind == QUESTION and not _DECIDED.match(cue.words):
            self._hint(cue, block)  # an option, or what is recommended, where nothing is decided
            return
        is_marked = is_exact(cue) or cue.words == "\u26a0" or block.check == "todo"
        if cue.kind in _ACTIVE and not is_marked and self._is_description(block):
            self._hint(cue, block)
            return
        self._said.add((cue.kind, said))
        is_bare = cue.kind == BLOCKER and main.lower().startswith("blocked")
        if is_bare and len(main.split()) < MIN_BLOCKER and self._after:
            # "Blocked: another team" states the fact; the cause is in the next paragraph.
            cause = self._after[0]
            if cause.form == "text" and cause.trail == block.trail:
                fields["blocker"] = storable(f"{main.rstrip('.')}: {cause.text}")
                block = block._replace(end=cause.end)
        section = _section(block.trail)
        span = (block.start, block.end)
        item = NoteItem(cue.kind, fields, span, block.line, cue.confidence, cue.words)
        self.found.append(item)
        self._placed = [each for each in self._placed[-20:] if each[1] == section]
        self._placed.append((item, section))

    def _hint(self, cue: Cue, block: Block) -> None:
        span = NoteSpan(block.start, block.end, block.line, cue.kind, cue.words)
        self.ambiguous.append(span)

    def _is_description(self, block: Block) -> bool:
        """Whether a block is in a section that describes, and no heading announces its kind."""
        near = [title for title in block.trail[-2:] if not _OPEN_ENDED.search(title)]
        is_described = not self.is_report and any(map(_DESCRIBING.search, near))
        return is_described and by_heading(block.trail) is None


_DECIDED = re.compile("deci(?:ded|sion)|resol|answer|ruling|outcome|final|chose|went|settled")
_TICKET = re.compile(r"#\d{1,6}\b")
_FORBIDDEN = re.compile(r"(?:do|must)[_ ]not|don'?t|never")
_ACTIVE = (GOTCHA, NEXT)
_EFFECT = any_of(r"impact|consequence|implication|status|owner|file|path")
_ATTACHED = {"why": "rationale", "alternatives": "alternatives", "remedy": "mitigation"}


def _section(trail: tuple[str, ...]) -> tuple[str, ...]:
    """The headings of a trail, without a label at its end."""
    return trail[:-1] if trail and trail[-1].endswith((":", "?")) else trail


_FINDINGS = any_of(r"\b(?:findings|defects|review comments|observations)\b")
_ISSUE_TITLE = any_of(r"(?:issue|finding|bug|problem|defect|risk)\W{1,3}\d")
_BLOCKING = any_of(r"(?:severity|priority|impact):\W*block\w*\W*")
_FIX = any_of(r"""
    (?:(?:suggested|recommended|required|proposed) )?(?:fix|change|suggestion|recommendation|
    solution)
""")
_FINDING_LABEL = any_of(r"""
    (?:problem|evidence|severity|impact|expected|actual|steps to reproduce|reproduction.*|
    symptoms?|root cause|location|file|(?:required |suggested |recommended |proposed )?(?:fix|
    change|resolution))
""")
_NUMBERED_TITLE = any_of(r"""
    \A(?:(?:step|task|item|action) )?#?\d{1,2}[.):]? *[\u2014\u2013:-]? *(?=\S+ \S)
""")
_TITLED = (GOTCHA, QUESTION, BLOCKER, DECISION)


def _is_titled(kind: str, text: str, below: Sequence[Block]) -> bool:
    """Whether a heading below one that announces a kind is an item, and not the name of a group."""
    is_stated = kind == DECISION and (
        by_heading(("", text)) is not None or any(by_name(_label_of(each)) for each in below)
    )
    if is_stated or any(each.form in ("row", "heading") for each in below):
        return False
    title = _NUMBERED_TITLE.sub("", text)
    is_plain = all(each.form in ("text", "code", "label") for each in below)
    is_numbered = title != text or _ISSUE_TITLE.match(text) is not None
    return is_numbered or (is_plain and (bool(below) or len(title.split()) > 2))


def _is_step(title: str, below: Sequence[Block]) -> bool:
    """Whether a numbered heading is a step itself, and not the title of a list of steps."""
    bare = _NUMBERED_TITLE.sub("", title)
    is_plain = all(each.form in ("text", "code", "label") for each in below)
    has_groups = any(each.form in ("row", "heading") for each in below)
    is_order = ORDER.match(bare) is not None
    # A list directly below it holds the steps; text or code explains it.
    is_told = is_plain or is_order or below[0].form in ("text", "code")
    return not has_groups and (is_told if bare != title else is_plain and is_order)


_ANSWERED = any_of(r"""
    \?\W{0,6}(?:answer|resolved|decided|yes\b|no\b|confirmed|\u2192|->|\u2705)|\((?:resolved|
    answered)\)
""")
_ANSWER = any_of(r"""
    \W*(?:a\d*:|answer(?:ed)?\b|decision\b|decided\b|resol(?:ution|ved)\b|recommend(?:ation|
    ed)\b|verdict\b|ruling\b|response\b|yes\b|no\b|confirmed\b|\u2192|->)
""")
_ANSWER_COLUMN = any_of(r"(?:final )?(?:resolution|answer|ruling|outcome|decision)s?")
_OPEN_ANSWER = any_of(r"""
    (?:-|\u2014|\?|tbd|open|pending|none|n/?a|unknown|undecided|unresolved|deferred)(?!\w)|$
""")
_COMPARING = any_of(r"pros?|cons?|advantages?|disadvantages?|pros (?:and|&|/) cons")
_CHOICE_COLUMN = any_of(r"""
    (?:\w+ )?(?:option|choice|selection|technology|tech|tool|library|approach|pick|alternatives?)s?
""")
_CHOICE_HEADING = any_of(r"\b(?:choice|decision|chosen|approach)\b")


def _is_over(kind: str, text: str) -> bool:
    """Whether a listed item is marked as done, resolved or answered."""
    marks = {GOTCHA: _OVER_MARK, NEXT: _OVER_MARK, QUESTION: _ANSWERED}.get(kind)
    return marks is not None and marks.search(text[:200]) is not None


def _labels_near(block: Block) -> list[str]:
    """The label that a block begins with, and the one above it."""
    above = block.trail[-1] if block.trail else ""
    return [_label_of(block), above.rstrip(": ") if above.endswith(":") else ""]


def _label_of(block: Block) -> str:
    return block.text.rstrip(": ") if block.form == "label" else _label(block.text)[0]


_WHY_QUESTION = re.compile(r"(why\b[^?:.]{0,120}\?)\s+(\S.*)", re.IGNORECASE | re.DOTALL)


def _label(text: str) -> tuple[str, str]:
    """What a text is labelled as, and the rest; the question why is a label too."""
    if match := _WHY_QUESTION.fullmatch(text):
        return match[1], match[2]
    name, colon, rest = text.partition(":")
    return (name.strip(), rest.strip()) if colon and len(name) < 40 else ("", text)


_UNDONE = any_of(r"""
    \W*(?:pending|to-?do|not[_ ]started|open|in[_ -]progress|wip|planned|queued|next|
    partial(?:ly)?|incomplete|(?P<blocked>blocked))\b
""")
_TASK_NAME = any_of(r"""
    (?:\w+ )?(?:tasks?|items?|steps?|phases?|features?|milestones?|work|name|title|story|ticket)
""")


def _by_status(block: Block) -> Cue | None:
    """A task that isn't done is a step, or a blocker."""
    is_task = any(_TASK_NAME.fullmatch(cell.name.replace("_", " ")) for cell in block.cells)
    status = next((c.text for c in block.cells if field_of(c.name) == "status"), "")
    match = _UNDONE.match(status) if is_task else None
    return Cue(BLOCKER if match["blocked"] else NEXT, 0.7, match[0].lower()) if match else None


def _reasoned(block: Block) -> Cue | None:
    """An object with a member for the decision and one for the reason."""
    cues = [cue for cell in block.cells if (cue := by_column(cell.name))]
    has_why = any(field_of(cell.name) == "why" for cell in block.cells)
    return next((cue for cue in cues if has_why and cue.kind == DECISION), None)


def _row_by_cells(block: Block) -> Cue | None:
    """A row's kind by the status of a task, a reason, something missing, or its rank."""
    if by_status := _by_status(block):
        return by_status
    # Tests that are skipped and files to read have reasons, too.
    is_choice = any(_CHOICE_COLUMN.fullmatch(cell.name) for cell in block.cells)
    for cell in block.cells:
        if cell.name.lower() == "rationale" or (is_choice and field_of(cell.name) == "why"):
            return Cue(DECISION, 0.7, cell.name.lower())
        if cell.name.lower() in ("status", "state") and _MISSING.match(cell.text.strip(" *")):
            return Cue(GOTCHA, 0.7, cell.text.lower()[:60])
        if cell.name.lower() == "priority" and _RANKED.fullmatch(cell.text):
            return Cue(NEXT, 0.6, "priority")
    return None


def _is_decided(block: Block) -> bool:
    """Whether a block says itself that it is a decision or something to do."""
    cues = (by_opening(block.text), by_words(block.text))
    return any(cue and cue.kind in (DECISION, NEXT, QUESTION, BLOCKER) for cue in cues)


def _is_beside(text: str) -> bool:
    """Whether a line states something about an item, such as its effort."""
    return field_of(_label(text)[0]) in ("aside", "grade", "status", "detail")


def _is_place(text: str, cell: Cell) -> bool:
    """Whether a cell holds only a path."""
    is_named = re.fullmatch(r"(?:.*\b)?(?:path|file|artifact|document|location)s?", cell.name, re.I)
    return (bool(is_named) or "/" in cell.text) and is_file(text, cell.start, cell.end)


def _is_nothing(text: str) -> bool:
    return _NOTHING.fullmatch(text.strip(" .*")) is not None


def _is_settled(kind: str, block: Block) -> bool:
    """Whether a row is settled: a step done, a risk closed, a question answered."""
    status = [c.text for c in block.cells if c.name.lower() in ("status", "state")]
    if any(_SETTLED.match(text.strip(" *")) for text in status):
        return True
    return kind == QUESTION and any(_RESOLVED.match(c.text.strip(" *")) for c in block.cells[1:])


def _answer(block: Block) -> str:
    """The column that answers the question of a row, if it does."""
    answers = (c for c in block.cells[1:] if not _OPEN_ANSWER.match(c.text.strip(" *`")))
    return next((c.name for c in answers if _ANSWER_COLUMN.fullmatch(c.name)), "")


# The header

HEAD_LINES = 60
MAX_TITLE = 200
MAX_SUMMARY = 2_000

_FACT = re.compile(
    r"[ \t]*(?:[>*-][ \t]*)*\*{0,2}(?P<name>[A-Za-z_ ]{2,20}?)\*{0,2}:\*{0,2}[ \t]+(?P<value>\S.*)"
)
_TASK_TITLE = re.compile(r"#[ \t]+Task[ \t]+(?P<task>[^\s:]+):[ \t]*(?P<title>.*\S)")
_HEADER_NAMES = {
    name: field
    for field, names in {
        "from_agent": "from, agent, author, from agent, source agent, sender, handoff from",
        "to_agent": "to, to agent, to agents, next agent, target agent, target agents, receiver, "
        "recipient, recipients, handoff to",
        "outcome": "status, outcome",
        "task": "task, task id",
        "title": "title",
        "summary": "summary",
    }.items()
    for name in names.split(", ")
}
_FACT_SECTIONS = any_of(r"""
    \W*(?:.*\bmetadata|hand-?(?:off|over)(?: (?:info(?:rmation)?|details|summary))?|header|
    agents?|participants|.*\btransition(?: details)?|sign-?off)\W*
""")
_ARROW = any_of(r"""
    #+[ \t].{0,80}?\bhand-?(?:off|
    over)\b[^\w@]{0,6}(?P<from_agent>[@\w][\w. -]{0,60}?)[ \t]*(?:\u2192|->|
    =>)[ \t]*(?P<to_agent>[@\w][\w. -]{0,60})
""")
_NEXT_AGENT = any_of(r"#+[ \t].{0,40}\bnext agent[\s:(@]{1,4}(?P<to_agent>[\w.-]+)\)?")
_OUTCOMES = {
    "blocked": re.compile(r"blocked|on hold", re.IGNORECASE),
    "failed": re.compile(r"fail(?:ed|ure)?|aborted", re.IGNORECASE),
    "partial": re.compile(r"partial(?:ly)?|in[ _-]progress|incomplete|wip", re.IGNORECASE),
    "completed": re.compile(r"complete[d]?|done|success(?:ful)?|finished|passed|ok", re.IGNORECASE),
}
_UNFINISHED = any_of(r"""
    \b(?:in[ _-]progress|not (?:yet )?(?:done|complete[d]?|finished)|incomplete|wip|unfinished|
    partial(?:ly)?|almost|half[- ]done)\b
""")
_STATUS = any_of(r"(?:current )?(?:status|state)\b[ \t]*[:\u2013\u2014-]?")
_OPEN_STATUS = any_of(r"""
    \bstatus(?: is)?[^\w\n]{1,12}(?:in[ _-]progress|wip|blocked|on hold|partial(?:ly)?|
    incomplete|unfinished)\b
""")
_IN_WORK = any_of(r"\W*(?:still |work )?(?:in[ _-]progress|wip)\W*")
_NONE = any_of(r"(?:none|nothing|n/a|tbd|unknown|-)(?!\w)")
_LEADING_SIGNS = re.compile(r"^\W+|_+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def _fact_of(line: str) -> tuple[str, str]:
    """Name and value of a line such as `Next agent: tester`, also in a comment."""
    bare = line.strip().removeprefix("<!--").removesuffix("-->").strip()
    match = _FACT.fullmatch(bare) if len(bare) < 1_000 else None
    if match is None or match["value"].startswith("["):
        return "", ""
    name = match["name"].strip().lower().replace("_", " ")
    return _HEADER_NAMES.get(name, ""), match["value"].strip("\"' ")


def _is_fact(text: str) -> bool:
    """Whether a line states sender, receiver or outcome: `Next agent: tester`."""
    return _fact_of(text)[0] in ("from_agent", "to_agent", "outcome")


def matter_end(text: str) -> int:
    """The end of front matter (facts between two lines of dashes), or 0."""
    if not text.startswith(("---\n", "---\r\n")):
        return 0
    for line in lines_of(text[:20_000]):
        if line.number > 1 and line.text.rstrip() in ("---", "..."):
            return line.end + 1
        if line.number > HEAD_LINES:
            break
    return 0


def _header(text: str, blocks: Sequence[Block], *, is_report: bool) -> NoteHeader:
    """The facts at the head of a note; unusable ones are left out."""
    given = _report_facts(blocks) if is_report else _facts(text)
    title, summary, status = (given.get(name, "") for name in ("title", "summary", "outcome"))
    if not is_report:
        title = title or next((block.text for block in blocks if block.form == "heading"), "")
        summary = summary or _first_sentence(text, blocks)
        status = status or _stated(blocks)
    outcome = _outcome(status)
    if outcome in ("", "completed") and not is_report and _goes_on(text, blocks):
        outcome = "partial"
    task = (_NAME.match(given.get("task", "")) or [""])[0]
    senders, receivers = (_agents(given.get(name, "")) for name in ("from_agent", "to_agent"))
    return NoteHeader(
        task=task if not id_problems(task, "") else "",
        title=storable(clean(title)[:MAX_TITLE]),
        summary=storable(clean(summary)[:MAX_SUMMARY]),
        outcome=outcome,
        from_agent=senders[0] if senders else "",
        to_agent=receivers[0] if receivers else "",
        others=tuple(receivers[1:]),
        is_summed_up=bool(given.get("summary")),
    )


def _facts(text: str) -> dict[str, str]:
    """What lines at the head of a note state, and in sections such as Metadata."""
    found: dict[str, str] = {}
    is_head = True
    for line in lines_of(text[:40_000]):
        if len(line.text) > 1_000:
            continue
        if line.text.startswith("## "):
            is_head = _FACT_SECTIONS.fullmatch(line.text.strip("# ")) is not None
        for pattern in (_TASK_TITLE, _ARROW, _NEXT_AGENT) if line.text.startswith("#") else ():
            if match := pattern.fullmatch(line.text.strip()):
                for name, value in match.groupdict().items():
                    found.setdefault(name, value)
        name, value = _fact_of(line.text) if is_head else ("", "")
        if name:
            found.setdefault(name, value)
    return found


def _report_facts(blocks: Sequence[Block]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for block in blocks:
        if block.form != "value" or not 1 < len(block.trail) < 4:
            continue
        *above, key = (snake_case(key).replace("_", " ") for key in block.trail[1:])
        if above and above[0] in _HEADER_NAMES and key in ("agent", "name", "id", "agent id"):
            key = above[0]  # {"from": {"agent": "coder"}}
        elif above and not (_FACT_SECTIONS.fullmatch(above[0]) and key in _HEADER_NAMES):
            continue
        found.setdefault(_HEADER_NAMES.get(key, key), []).append(block.text)
    first = {name: texts[0] for name, texts in found.items()}
    about = f"{first.get('task', '')} {first.get('category', '')}".strip()
    first["summary"] = first.get("summary") or first.get("notes") or first.get("objective") or ""
    first["title"] = first.get("title") or first.get("objective") or first.get("name") or about
    first["to_agent"] = ", ".join(found.get("to_agent", ()))
    return first


def _first_sentence(text: str, blocks: Sequence[Block]) -> str:
    """The first paragraph that is a sentence and not a list of facts about the note."""
    for block in blocks:
        is_long = block.form == "text" and len(block.text.split()) > 4
        if is_long and not block.text.endswith(":"):
            first = text[block.start : block.end].partition("\n")[0]
            if len(first) >= 1_000 or _FACT.fullmatch(first.rstrip()) is None:
                return block.text
    return ""


def _outcome(value: str) -> str:
    """The outcome, by the first word; that work is unfinished may be stated anywhere."""
    said = _LEADING_SIGNS.sub("", value)
    begun = next((name for name, pattern in _OUTCOMES.items() if pattern.match(said)), "")
    is_open = begun in ("", "completed") and _UNFINISHED.search(said) is not None
    return "partial" if is_open else begun


def _goes_on(text: str, blocks: Sequence[Block]) -> bool:
    """Whether a note mentions somewhere that its work is unfinished."""
    if _OPEN_STATUS.search(text[:40_000]):
        return True
    below = (block for block in blocks if block.trail and _IN_WORK.fullmatch(block.trail[-1]))
    return any(block.check != "done" and not _NONE.match(block.text) for block in below)


def _stated(blocks: Sequence[Block]) -> str:
    """The outcome in or below a heading such as `Status`."""
    for block in blocks:
        match = _STATUS.match(block.trail[-1]) if block.trail else None
        if match:
            return block.trail[-1][match.end() :].strip() or block.text[:200]
    return ""


def _agents(value: str) -> list[str]:
    """The agents that a fact names, each as a name: `QA Lead (Kim)` as `qa-lead`."""
    bare = re.sub(r"\([^()]{0,200}\)|<[^<>]{0,200}>", "", value[:1_000])
    found: list[str] = []
    for part in re.split(r"[,;/&+]|\band\b", bare):
        named = part.strip(" *`@.\"'")
        if " " in named and len(named.split()) <= 4:
            named = re.sub(r"[^a-z0-9._-]+", "-", named.lower()).strip("-")
        if _NAME.fullmatch(named) and not _NONE.match(named) and not agent_problems(named, ""):
            found.append(named)
    return list(dict.fromkeys(found))


MAX_PATH = 1_024
MAX_NOTE = 400

_WORD = re.compile(
    r"[^\s`\"'<>()\[\]{}|,;*=\u2500-\u257f\u2018-\u201d]+(?:\[[\w.-]{1,40}\][^\s`\"'<>()\[\]{}|,;*=]*)*"
)
_LINES = re.compile(r"(?::|#L?)(\d{1,9})(?:[-:]L?(\d{1,9}))?$")
_ENDING = re.compile(r"\.([A-Za-z][A-Za-z0-9_]{0,9})$")
_PART = re.compile(r"[\w.@+~ \[\]-]+", re.UNICODE)
_BOXED = re.compile(r"[\u2502\u2503|].*[\u2502\u2503|]\s*$")
# fmt: off
_ENDINGS = frozenset({
    "md", "mdx", "rst", "txt", "adoc", "py", "pyi", "ipynb", "js", "jsx", "mjs", "cjs", "ts",
    "tsx", "vue", "svelte", "html", "htm", "css", "scss", "less", "json", "jsonl", "json5",
    "yaml", "yml", "toml", "ini", "cfg", "conf", "env", "lock", "csv", "tsv", "sql", "db", "sh",
    "bash", "zsh", "ps1", "bat", "xml", "svg", "png", "jpg", "jpeg", "gif", "pdf", "proto",
    "graphql", "tf", "java", "kt", "kts", "scala", "swift", "rb", "php", "pl", "lua", "dart",
    "cs", "cpp", "cc", "hpp", "hh", "ex", "exs", "erl", "clj", "gradle", "log", "patch", "diff",
})
# Endings that are also words, methods or letters: used only if the name is marked as code.
_DOUBTFUL = frozenset({"go", "rs", "c", "h", "r", "m", "map", "d"})
_KNOWN_NAMES = frozenset({
    "Makefile", "Dockerfile", "Justfile", "Procfile", "LICENSE", "NOTICE", "Gemfile",
    "Rakefile", "Vagrantfile", "CODEOWNERS", ".env", ".gitignore", ".dockerignore",
    ".editorconfig", ".gitattributes",
})
# fmt: on
# Products with names like files.
_PRODUCTS = any_of(r"""
    console\.log|(?:node|next|nuxt|vue|react|express|three|d3|angular|ember|backbone|chart|
    socket|p5|solid|alpine|nest|discord|plotly|moment|day|tensorflow|asp|vb|f)\.(?:js|net|ts|io)
""")
_DIFF_LINE = re.compile(
    r"[ \t]{0,8}(?:(?P<created>new file:|create mode \d{6}|A(?=[ \t]))|"
    r"(?P<delete>deleted:|delete mode \d{6}|D(?=[ \t]))|"
    r"(?P<modify>modified:|M(?=[ \t])|\+\+\+(?= b/)))[ \t]{1,9}(?:b/)?(?P<path>\S{1,400})"
)
_STAT_LINE = re.compile(
    r"[ \t]{0,8}(?P<path>\S{1,400}?)[ \t]{1,200}(?P<modify>\|)[ \t]{1,9}\d{1,7}[ \t]?[+-]*"
)
_FOLDER = re.compile(r"(?:[\w.@+-]{1,100}/){1,20}")
_TREE_LINE = re.compile(
    r"(?P<indent>[ \t\u2500-\u257f|`+-]{0,80})"
    r"(?P<name>[\w.@+-]{1,100}/|[\w.@+-]{1,200}\.\w{1,10})(?=\s|$)"
)

_VERBS = any_of(r"""
    \b(?:(?P<created>creat(?:ed|es?|ing)|new|wrote|written|introduc(?:ed|es)|generated|
    implemented|built|add(?:ed|s|ing)?(?! (?:[\w'-]+ ){1,6}(?:to|in|into|at)\b))|
    (?P<modify>modif(?:ied|ies|y|ications?)|appended|restructured|exposed|adjusted|chang(?:ed|
    es)|updat(?:ed|es?)|edit(?:ed|s)?|extended|refactor(?:ed|s|ing)?|fix(?:ed|es)?|renamed|
    rewrote|touched|moved|add(?:ed|s)?|improved|replaced|hardened|wired|migrated|patched|
    corrected|reworked|simplified|cleaned)|(?P<delete>delet(?:ed|es?)|remov(?:ed|es?)|
    dropped))\b
""")
_AFTER = re.compile(
    r"[`*)]{0,4}\s*(?:(?:was|were|is|has been|have been|:|\u2014|\u2013|-+|\()\s*)+"
    r"(?:now |newly )?(?=\w)"
)
_CHANGE_KEY = re.compile(
    r"(?:files?_|artifacts?_)?(?:(?P<created>created|added|new)|(?P<modify>modified|changed|"
    r"updated|touched|edited|uncommitted)|(?P<delete>deleted|removed))(?:_files?)?"
)
_FILE_KEY = re.compile(r"(?:.*_)?(?:files?|paths?)")
_FILE_HEADING = any_of(r"\b(?:files?|documentation|documents?|deliverables|artifacts)\b")
_PAST = any_of(r"(?:ed|new|wrote|written|built)\Z")
_WORK_HEADING = any_of(r"""
    \b(?:changes?|changed|(?:completed|finished) (?:work|tasks?|this)|work (?:completed|done)|
    what (?:was|changed|i did|we did|got)|uncommitted|not (?:yet )?committed|accomplished|
    done this)\b
""")
MAX_MARKS = 6
"""How many signs, such as those for bold, may precede the first word of an item."""
_HOME = re.compile(r"/(?:home|Users)/[^/]+/|[A-Za-z]:/(?:Users/[^/]+/)?")
_ABSOLUTE = re.compile(r"/|[A-Za-z]:/")
_RANK = {"files_created": 3, "files_modified": 3, "dependencies_for_next": 2, "artifacts": 1}


class _Mention(NamedTuple):
    """A file that the text names: its path with plain slashes, its position and lines; then what
    the note says about it.
    """

    path: str
    start: int
    end: int
    lines: str = ""
    kind: str = "artifacts"
    change: str = ""
    note: str = ""
    confidence: float = 0.95
    cue: str = "diff"


def files_of(
    text: str, blocks: Sequence[Block], *, is_report: bool, root: str = ""
) -> list[NoteItem]:
    """The files that a note names, each once, with the most informative mention."""
    named = list(_in_blocks(text, blocks, is_report=is_report))
    if not is_report:
        named += _in_diffs(text)
    roots = (f"{root.rstrip('/')}/", _root([each.path for each in named]))
    index = LineIndex(text)
    return [_found(path, group, index) for path, group in _grouped(named, roots).items()]


def is_file(text: str, start: int, end: int) -> bool:
    """Whether a passage holds only a path."""
    words = text[start:end].strip(" `")
    return " " not in words and any(mentions(text, start, end))


# Paths in text


def mentions(text: str, start: int, end: int, *, is_code: bool = False) -> Iterator[_Mention]:
    """The files that a passage names; in code, a bare name needs no backticks."""
    for match in _WORD.finditer(text, start, end):
        word, at = match[0], match.start()
        if len(word) > MAX_PATH or not _may_be_path(word) or _is_template(text, match):
            continue
        is_aliased = word.startswith("@/")
        bare = word if is_aliased else word.rstrip(".:!?").lstrip("@")
        at += 0 if is_aliased else len(word) - len(word.lstrip("@"))
        lines = _LINES.search(bare)
        path = bare[: lines.start()] if lines else bare
        slashed = path.replace("\\", "/")
        if not _is_path(slashed, is_marked=is_code or _is_ticked(text, match)):
            continue
        if not (is_code and _is_drawn(text, match)):
            spelled = f"{lines[1]}-{lines[2] or lines[1]}" if lines else ""
            yield _Mention(slashed, at, at + len(path), spelled)


def _may_be_path(word: str) -> bool:
    """Cheap test that excludes most words."""
    bare = word.rstrip(".:!?")
    has_sign = "." in bare or "/" in bare or "\\" in bare
    return has_sign or bare.lstrip("@").partition(":")[0].partition("#")[0] in _KNOWN_NAMES


def _is_template(text: str, match: re.Match[str]) -> bool:
    before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
    # After two asterisks a path is in bold, and an ending alone is a pattern.
    is_bold = text.endswith("**", 0, match.start()) and match[0][0] not in "/."
    is_open = before and before in "{}*$" and not is_bold
    return is_open or (after and after in "{}$") or "..." in match[0]


def _is_ticked(text: str, match: re.Match[str]) -> bool:
    """Whether a word is in a code span."""
    before = text.rfind("`", max(0, match.start() - 200), match.start())
    after = text.find("`", match.end(), match.end() + 200)
    if before < 0 or after < 0 or "\n" in text[before:after]:
        return False
    # A code span that begins further back in its line isn't found.
    far = max(0, before - 1_000)
    return text.count("`", max(far, text.rfind("\n", far, before) + 1), before) % 2 == 0


def _is_drawn(text: str, match: re.Match[str]) -> bool:
    """Whether a word is in a box of a drawing, where names are broken over lines."""
    far, near = max(0, match.start() - 400), match.end() + 400
    line_end = text.find("\n", match.end(), near)
    first = max(far, text.rfind("\n", far, match.start()) + 1)
    return _BOXED.search(text[first : line_end if line_end >= 0 else near]) is not None


def _is_path(path: str, *, is_marked: bool) -> bool:
    if "://" in path or path.startswith(("www.", "//", "-")) or "@" in path[1:]:
        return False
    *folders, name = path.split("/")
    if not name or any(part and not _PART.fullmatch(part) for part in (*folders[1:], name)):
        return False
    if name in _KNOWN_NAMES:
        return bool(folders) or is_marked
    match = _ENDING.search(name)
    if match is None or not name[: match.start()].strip(".-_"):
        # A hidden file such as `.gitleaksignore` is one where it is marked.
        is_hidden = re.fullmatch(r"\.[a-z]{3,20}(?:ignore|rc)", name) is not None
        return is_hidden and (is_marked or bool(folders))
    ending = match[1].lower()
    if folders:
        # Files that are listed with slashes are no folders; `.github` is one. A command such as
        # `/plan.review` is no file, nor is "React/Next.js".
        is_listed = all(_ENDING.search(part, 1) for part in folders if part) and folders != [""]
        is_named = is_marked or not (name[0].isupper() and _PRODUCTS.fullmatch(name))
        is_likely = ending in _ENDINGS or (folders != [""] and (is_marked or match[1].islower()))
        return is_likely and is_named and not is_listed
    is_known = ending in _ENDINGS and _PRODUCTS.fullmatch(name) is None
    return is_known or (is_marked and ending in _DOUBTFUL)


def _in_diffs(text: str) -> Iterator[_Mention]:
    """The files in diff statistics and status lists, each with its change."""
    for line in lines_of(text):
        is_short = len(line.text) <= MAX_PATH
        match = _DIFF_LINE.fullmatch(line.text) or _STAT_LINE.fullmatch(line.text)
        if is_short and match and _is_path(match["path"], is_marked=True):
            change = next(n for n in ("created", "delete", "modify") if match.groupdict().get(n))
            kind = "files_created" if change == "created" else "files_modified"
            place = (line.start + match.start("path"), line.start + match.end("path"))
            yield _Mention(match["path"], *place, kind=kind, change=change)


def _folders(text: str, blocks: Sequence[Block]) -> dict[int, str]:
    """The folder of each file in a drawn folder tree, by the position of the file's name."""
    found: dict[int, str] = {}
    above: list[tuple[int, str]] = []
    last = -1
    for block in blocks:
        # A blank line separates branches of one tree, not trees.
        if block.form != "code" or block.line > last + 3:
            above = []
        if block.form != "code":
            continue
        last = block.line
        match = _TREE_LINE.match(text[block.start : block.end])
        if match is None:
            continue
        indent = len(match["indent"].expandtabs(4))
        above = [folder for folder in above if folder[0] < indent]
        if match["name"].endswith("/"):
            above.append((indent, match["name"]))
        elif above:
            found[block.start + match.start("name")] = "".join(name for _, name in above)
    return found


# What is said about them


def _in_blocks(text: str, blocks: Sequence[Block], *, is_report: bool) -> Iterator[_Mention]:
    folders = _folders(text, blocks)
    for block in blocks:
        is_row = block.form == "row"
        keys = [snake_case(key) for key in block.trail[-2:]] if is_report else []
        spans = [(c.start, c.end, snake_case(c.name)) for c in block.cells] if is_row else []
        for start, end, name in spans or [(block.start, block.end, "")]:
            near = [*keys, name] if is_report else []
            is_key = any(_FILE_KEY.fullmatch(key) or _CHANGE_KEY.fullmatch(key) for key in near)
            if is_key and _FOLDER.fullmatch(text, start, end):
                folder = _Mention(text[start:end], start, end)
                yield _described(text, block, folder, near)
            for found in mentions(text, start, end, is_code=block.form == "code" or is_key):
                yield _described(text, block, found, near)._replace(
                    path=folders.get(found.start, "") + found.path
                )


def _described(text: str, block: Block, found: _Mention, keys: list[str]) -> _Mention:
    """A mention with what its block says about it; `keys` are those of a report."""
    change, cue = _report_change(text, block, found, keys) if keys else _change(text, block, found)
    kind = {"created": "files_created", "": "artifacts"}.get(change, "files_modified")
    if not change:
        reads = by_heading(block.trail[-2:])
        before = text[max(block.start, found.start - 40) : found.start]
        if (reads and reads.kind == READING) or re.search(r"\bread\b", before, re.IGNORECASE):
            kind, cue = "dependencies_for_next", "read"
    is_ticked = text[found.start - 1 : found.start] == "`"
    is_code = is_ticked or block.form == "code"
    confidence = 0.9 if "/" in found.path else 0.85 if is_code else 0.7
    confidence += 0.05 if change or is_ticked else 0.0
    note = ""
    if block.form == "row":
        beside = (c.text for c in block.cells if not c.start <= found.start < c.end)
        note = "; ".join(said[:MAX_NOTE] for said in beside if " " in said)
    elif block.form == "item":
        note = block.text
    return found._replace(
        kind=kind,
        change=change,
        note=storable(note[:MAX_NOTE]),
        confidence=confidence,
        cue=cue or "path",
    )


def _report_change(text: str, block: Block, found: _Mention, keys: list[str]) -> tuple[str, str]:
    """The change of a file in a report, by another member of its object, by a key, or by the words
    before it.
    """
    beside = [c.text.strip() for c in block.cells if not c.start <= found.start < c.end]
    match = next((m for said in beside if (m := _VERBS.fullmatch(said))), None)
    key = next((m for key in reversed(keys) if (m := _CHANGE_KEY.fullmatch(key))), None)
    above = by_heading(block.trail)
    if match is None and key is None and (above is None or above.kind != NEXT):
        before = re.split(r"[.;,\"] ", text[max(block.start, found.start - 40) : found.start])[-1]
        match = next((m for m in _VERBS.finditer(before) if _PAST.search(m[0])), None)
    match = match or key
    return (str(match.lastgroup), match[0].lower()) if match else ("", "")


def _change(text: str, block: Block, found: _Mention) -> tuple[str, str]:
    """The change of a file, by a column, by the words before or after it, or by the heading."""
    is_planned = _is_planned(block)
    if block.form == "row":
        beside = (c for c in block.cells if not c.start <= found.start < c.end)
        match = next((m for cell in beside if (m := _VERBS.match(cell.text))), None)
        change, cue = (str(match.lastgroup), match[0].lower()) if match else ("", "")
    else:
        change, cue = _prose_change(text, block, found, is_planned=is_planned)
    if change or is_planned:
        return change, cue
    for title in reversed(block.trail[-2:]):
        match = _VERBS.search(title)
        if match and _FILE_HEADING.search(title):
            return str(match.lastgroup), match[0].lower()
    return "", ""


def _prose_change(text: str, block: Block, found: _Mention, *, is_planned: bool) -> tuple[str, str]:
    before = text[max(block.start, found.start - 80) : found.start]
    after = text[found.end : min(block.end, found.end + 60)]
    said = list(_VERBS.finditer(re.split(r"[.;] |\n\s*\n", before)[-1]))
    link = _AFTER.match(after)
    later = _VERBS.match(after, link.end()) if link else None
    match = later or (said[-1] if said else None)
    if match and (_PAST.search(match[0]) or not is_planned):
        is_part = match.lastgroup != "modify" and match[0].lower() != "new"
        pattern, beside = (_OBJECT, after) if later else (_FROM, match.string)
        is_part = is_part and pattern.match(beside, match.end()) is not None
        return ("modify" if is_part else str(match.lastgroup)), match[0].lower()
    if is_planned:
        return "", ""
    first, gap, _ = text[block.start : min(block.end, block.start + 200)].partition("\n")
    lead = _VERBS.match(clean(first)) if gap and clean(first).endswith(":") else None
    if lead and _PAST.search(lead[0]):
        return str(lead.lastgroup), lead[0].lower()  # of each entry below
    if block.form not in ("item", "heading") or found.start - block.start > MAX_MARKS:
        return "", ""
    return _lead_change(block, text[found.end : min(block.end, found.end + 160)])


def _is_planned(block: Block) -> bool:
    """Whether a block says what is to do."""
    above = by_heading(block.trail)
    return block.check == "todo" or (above is not None and above.kind == NEXT)


# Something was made or removed in a file, not the file itself: "added a check" after it, "removed a
# flag from" before it.
_OBJECT = re.compile(r"\s+(?!(?:in|by|for|as|because|this)\b)[\w`\"]")
_FROM = re.compile(r".*\s(?:from|to|into|inside|within)\s+\W*\Z", re.DOTALL)


def _lead_change(block: Block, after: str) -> tuple[str, str]:
    """What became of a file with which an item begins, by the words after it or by the heading."""
    verb = next((m for m in _VERBS.finditer(after) if _PAST.search(m[0])), None)
    if verb:
        # "added a check", "removed a flag": of the file, that is a change.
        is_made = verb.lastgroup == "created" and verb[0][:3].lower() != "add"
        return ("created" if is_made else "modify"), verb[0].lower()
    for title in reversed(block.trail[-2:]):
        verb = _VERBS.search(title)
        if verb and _PAST.search(verb[0]):
            return str(verb.lastgroup), verb[0].lower()
    is_work = any(map(_WORK_HEADING.search, block.trail[-2:]))
    return ("modify", "work") if is_work else ("", "")


# Paths in the project


def _root(paths: list[str]) -> str:
    """The project folder of a note's absolute paths, as far as it can be inferred.

    A file that is also named by a relative path shows it; else it is what all of them share.
    """
    absolute = sorted({path for path in paths if _ABSOLUTE.match(path)})
    near = {path.lstrip("./") for path in paths if not _ABSOLUTE.match(path) and "/" in path}
    # Dots are stripped for the comparison alone: `.github/x.yml` is found as `github/x.yml`.
    shared = Counter(root for path in absolute for root in _roots(path, near))
    if shared:
        return shared.most_common(1)[0][0]
    folders = {os.path.dirname(path) for path in absolute}
    if len(folders) < 2 or len({path[0] == "/" for path in absolute}) > 1:
        return ""
    try:
        common = os.path.commonpath(folders)
    except ValueError:  # several drives
        return ""
    return common.rstrip("/") + "/" if common.count("/") > 1 else ""


def _roots(path: str, near: set[str]) -> Iterator[str]:
    """The folders of a path below which the rest of it is one of the relative paths."""
    at = len(path)
    while (at := path.rfind("/", 0, at)) > 0:
        if path[at + 1 :].lstrip(".") in near and "/" in path[at + 1 :]:
            yield path[: at + 1]


def _grouped(named: Iterable[_Mention], roots: tuple[str, ...]) -> dict[str, list[_Mention]]:
    """Mentions by their path in the project; the end of a longer path counts as that path. Those
    outside the project are dropped.
    """
    groups: dict[str, list[_Mention]] = {}
    for each in named:
        root = next((root for root in roots if len(root) > 1 and each.path.startswith(root)), "")
        path = each.path.removeprefix(root)
        path = normal_path(_HOME.sub("", path, count=1) if _ABSOLUTE.match(path) else path)
        if not path.startswith("~") and not path_problems(path, "") and storable(path) == path:
            groups.setdefault(path, []).append(each)
    ends: dict[str, str] = {}
    for path in groups:
        parts = path.split("/")
        for at in range(1, len(parts)):
            ends.setdefault("/".join(parts[at:]), path)
    for path in sorted(groups, key=len):
        whole = ends.get(path)
        if whole and whole in groups:
            groups[whole] += groups.pop(path)
    return groups


def _found(path: str, group: list[_Mention], index: LineIndex) -> NoteItem:
    def worth(each: _Mention) -> tuple[int, bool, bool, int]:
        is_whole = normal_path(each.path).endswith(path)
        return (_RANK[each.kind], is_whole, bool(each.note), -each.start)

    best = max(group, key=worth)
    # A name in a folder tree is shorter than the path that it stands for.
    whole = max(group, key=lambda each: (min(each.end - each.start, len(path)), each is best))
    note = best.note or next((each.note for each in group if each.note), "")
    lines = next((each.lines for each in group if each.lines), "")
    fields = _file_fields(path, best, note, lines)
    confidence = max(each.confidence for each in group)
    span = (whole.start, whole.end)
    return NoteItem(best.kind, fields, span, index.line(whole.start), confidence, best.cue)


def _file_fields(path: str, best: _Mention, note: str, lines: str) -> dict[str, Any]:
    if best.kind == "files_created":
        return {"path": path, "purpose": note or NOT_STATED, "lines": "all"}
    if best.kind == "files_modified":
        fields = {"path": path, "lines": lines or "all", "change_type": best.change}
        return {**fields, "description": note or NOT_STATED}
    if best.kind == "dependencies_for_next":
        return {"file": path, "reason": note or NOT_STATED}
    given = {"path": path, "lines": lines, "note": note}
    return {name: value for name, value in given.items() if value}

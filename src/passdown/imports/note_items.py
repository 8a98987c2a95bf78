"""Extract a handoff's items, the files and the note's own header from the blocks of a note.

The kind of a block is that of its own label, else of its column or key, else of the headings above
it, else of the words of its sentences; a column, key or label gives each field of an item.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.core.kinds import NOT_STATED
from passdown.core.names import agent_problems, id_problems
from passdown.imports import note_cues as cues
from passdown.imports.note_blocks import (
    Block,
    Cell,
    LineIndex,
    NoteItem,
    clean,
    lines_of,
    markdown_blocks,
    remarks,
    report_blocks,
    sentences,
    storable,
)
from passdown.imports.note_cues import BLOCKER, DECISION, GATE, GOTCHA, NEXT, PATTERN, QUESTION
from passdown.imports.note_files import files_of, is_file

if TYPE_CHECKING:
    from collections.abc import Sequence


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
    blocks = report if is_report else markdown_blocks(text, _matter_end(text))
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
    **{DECISION: "summary", GOTCHA: "issue", PATTERN: "pattern", NEXT: "step"},
    **{QUESTION: "question", BLOCKER: "blocker"},
}
"""The field that holds an item's own sentence."""

_WHY = cues.any_of(r"""
    [,;.(]? (?:because|due to|so that|since|rationale:|reason:|why:) (?#)| -- | \u2014 (?#)
""")
# What follows the first sentence of a listed decision explains it.
_NEXT_SENTENCE = re.compile(r"(?<=[a-z0-9)`'\"][.!]) (?=[A-Z`\"(])")
_DASH = re.compile(r" [-\u2013] ")
_ASIDE_END = re.compile(r" \((?=[^()]*[a-z][^()]* [^()]*\)\W*$)")
_LEAD = re.compile(r"([^:]{3,120}):\s+(\S.*)")
_OVER = re.compile(
    r"(?:\bover|,? instead of|,? rather than|\bnot using|\band not|\b[Ww]hy not|"
    r"[,;(\u2014\u2013-] ?not(?! (?:yet|only|just|needed|required|possible|because|in|for|by|to|as|"
    r"an?|the)\b)) "
    r"(?P<other>[^.;,()?]{2,120}?)"
    r"(?=[.;,()?]| because\b| since\b| due to\b| so that\b| \u2014 |$)"
)
_REJECTED = re.compile(
    r"\b(?:considered|rejected|ruled out|discarded|dismissed|decided against) "
    r"(?P<other>[^.;,():\u2014]{2,80}?)"
    r"(?=[.;,():\u2014]| but\b| because\b| since\b| due to\b| in favou?r\b| for\b| as\b|$)",
    re.IGNORECASE,
)
_CHOSEN = cues.any_of(r"\b(?:chose|chosen|picked|selected|prefer(?:red)?|use[ds]?)\b")
# A decision that is stated before a colon begins with what to do; anything else names its topic.
_DOING = cues.any_of(
    r"(?:no|not|never|always|avoid|single|two|one|do not|don't|\w+(?:ed|ing|pt))\b"
)
_REMEDY = cues.any_of(r"(?:\bmitigation|\bfix|\bworkaround|\bsolution|\binstead)\b:?")
_PLACE = re.compile(r"`([^`\n]{1,200})`")
_NUMBER = re.compile(r"[~<>=+-]{0,2}\d[\d.,]*(?:-\d[\d.,]*)?\s?(?:%|\w{1,12})?(?:\s?/\s?\d+)?")
# A text of references only, such as "FR-FEAT-001 through FR-FEAT-005", is empty without these.
_IDS = re.compile(
    r"\b[A-Z][A-Z0-9]{0,20}(?:[-_][A-Z0-9/]{1,20}){1,6}\b|\bv\d[\d.]*|\b(?:through|and|to|or)\b|[\W\d_]+"
)
_HIGH = cues.any_of(r"\b(?:critical|high|urgent|severe|p[01]|must|blocker)\b|^1$")
_LOW = cues.any_of(r"\b(?:low|minor|p3|nice to have)\b")
_COUNTER = cues.any_of(r"#|(?:no|nr|num|number)\.?")
_SETTLED = cues.any_of(r"""
    \W*(?:complete[d]?|passed|pass|met|done|resolved|closed|fixed|compliant|ready|verified|
    mitigated|accepted)\b.*
""")
_NO_TOPIC = cues.any_of(r"status|state|owner|agent|assign\w*|effort|estimate|date|id")
_NO_ALTERNATIVE = cues.any_of(r"-+|none|n/?a|not applicable|no alternatives?")
_SUMMARY = ("summary", "title", "what", "item")


class _Parts(NamedTuple):
    """The texts of an item: its sentence, and what the note says beside it."""

    text: str
    why: str = ""
    alternatives: tuple[str, ...] = ()
    remedy: str = ""
    grade: str = ""
    more: tuple[str, ...] = ()


def _level(grade: str) -> str:
    """A grade in any wording as high, medium or low."""
    return "high" if _HIGH.search(grade) else "low" if _LOW.search(grade) else "medium"


def _is_figure(text: str) -> bool:
    """Whether a cell holds a number, with or without a unit."""
    return len(text) <= 60 and _NUMBER.fullmatch(text.strip(" *()")) is not None


def _fields(kind: str, parts: _Parts) -> dict[str, Any]:
    """An item of a handoff, without its empty fields; empty if a record can't hold it."""
    text, why, alternatives, remedy, grade, more = parts
    about = "; ".join(part for part in (why, *more) if part)
    rest = "; ".join(part for part in (about, *alternatives, remedy) if part)
    is_blocking = kind == BLOCKER and _HIGH.search(grade)
    severity = "blocker" if is_blocking else _level(grade) if grade else ""
    notes = [*more, *([remedy] if remedy else [])]
    recommended = remedy or "; ".join(alternatives)
    fields: dict[str, dict[str, Any]] = {
        DECISION: {"summary": text, "rationale": why or NOT_STATED}
        | {"alternatives": list(alternatives), "artifacts": notes},
        NEXT: {"step": f"{text} ({rest})" if rest else text, "priority": _level(grade)},
        BLOCKER: {"blocker": text, "impact": about, "suggested_resolution": remedy}
        | {"severity": severity},
        QUESTION: {"question": text, "context": about, "recommendation": recommended},
        GATE: {"name": text, "result": grade, "detail": about},
        PATTERN: {"pattern": text, "location": about or remedy or NOT_STATED},
        GOTCHA: {"issue": text, "mitigation": remedy or NOT_STATED, "severity": _level(grade)}
        | {"discovered_in": about},
    }
    return {name: value for name, value in fields[kind].items() if value} if text else {}


def _sentence_parts(kind: str, text: str, *, is_listed: bool) -> _Parts:
    """The parts of a line or a sentence; `is_listed` if a heading or key announced its kind."""
    said = storable(_without_opening(kind, text))
    if kind == DECISION:
        return _decision_parts(said, is_listed=is_listed)
    if kind == GOTCHA:
        match = _REMEDY.search(said)
        return _Parts(said, remedy=said[match.end() :].strip(" :;,-") if match else "", grade=text)
    place = _PLACE.search(text) if kind == PATTERN else None
    return _Parts(said, storable(place[1]) if place else "", grade=text if kind == NEXT else "")


def _without_opening(kind: str, text: str) -> str:
    """`Risk: the disk is slow` as `the disk is slow`; other text before a colon is kept."""
    bare = cues.without_signs(text)
    cue = cues.by_opening(bare)
    is_short = cue is not None and cue.kind == kind and cue.words.endswith(":")
    is_short = is_short and " " not in bare.partition(":")[0].strip(" *")
    return bare.partition(":")[2].strip() or text if is_short else text


def _decision_parts(said: str, *, is_listed: bool) -> _Parts:
    """What was decided, why, and over what."""
    others = tuple(_rejected(said))
    match = _WHY.search(said, 4)
    if match and is_listed and match[0].strip() in ("--", "\u2014"):
        # A dash in what explains the decision isn't where the reason begins.
        match = None if _NEXT_SENTENCE.search(said[: match.start()], 8) else match
    if match is None and is_listed:
        lead = _LEAD.match(said)
        is_done = lead and (cues.ORDER.match(lead[1]) or _DOING.match(lead[1]))
        if lead and (is_done or len(lead[1].split()) > 3):
            return _Parts(lead[1].strip(), lead[2].strip(), others)
        patterns = (_DASH, _NEXT_SENTENCE, _ASIDE_END)
        match = next((m for pattern in patterns if (m := pattern.search(said, 8))), None)
    why = said[match.end() :].strip(" :") if match else ""
    why = why.rstrip(").") if why.count(")") > why.count("(") else why
    return _Parts(said[: match.start()].strip() if match and why else said, why, others)


def _rejected(said: str) -> list[str]:
    """What a text says was not chosen."""
    found = [match["other"].strip() for match in _REJECTED.finditer(said)]
    for match in _OVER.finditer(said):
        other = match["other"].strip()
        is_chosen = match[0][:4] != "over" or _CHOSEN.search(said[: match.start()])
        is_named = " not " not in match[0] or said[:3].lower() == "why"
        if is_chosen and (is_named or not re.fullmatch("[a-z]+", other)):
            found.append(other)
    return found


def _listed(text: str) -> list[str]:
    """The entries of a list on one line."""
    parts = re.split(r";\s+|\s+/\s+", text)
    if len(parts) == 1 and "." not in text and "(" not in text:
        split = [part.removeprefix("or ").strip() for part in text.split(",")]
        parts = split if all(0 < len(part.split()) <= 5 for part in split) else parts
    found = (part.strip(" .") for part in parts)
    return [part for part in found if part and not _NO_ALTERNATIVE.fullmatch(part)]


def _cell_parts(kind: str, cells: Sequence[Cell], named: str) -> _Parts:
    """The parts of a row, an object or labelled lines; `named` is the column that shows the kind,
    if one does.
    """
    held = {cell.name: cell for cell in cells if storable(cell.text)}
    main = held.pop(named if named in held else _main_column(tuple(held.values()), kind), None)
    if main is None or not _IDS.sub("", main.text):
        return _Parts("")
    text = storable(main.text)
    found: dict[str, list[str]] = {"alternatives": [], "more": []}
    for cell in held.values():
        field, said = cues.field_of(cell.name), storable(cell.text)
        is_short = len(text.split()) < 3 and text == storable(main.text)
        if _COUNTER.fullmatch(cell.name) or (kind == DECISION and _is_record_keeping(cell)):
            continue
        if field == "alternatives" and kind == DECISION:
            found[field] += map(storable, cell.parts or _listed(cell.text))
        elif field in ("why", "remedy", "grade"):
            found.setdefault(field, []).append(said)
        elif is_short and not _NO_TOPIC.fullmatch(cell.name) and not _is_figure(cell.text):
            text = f"{said}: {text}"  # the topic
        elif field == "alternatives":
            found.setdefault("remedy", []).append(said)
        else:
            found["more"].append(f"{cell.name}: {said}")
    why, remedy, grade = ("; ".join(found.get(name, ())) for name in ("why", "remedy", "grade"))
    others = [o for o in found["alternatives"] if o and not _NO_ALTERNATIVE.fullmatch(o)]
    if kind == DECISION:
        if not why:
            text, why = _decision_parts(text, is_listed=False)[:2]
        others = others or list(map(storable, _rejected(f"{main.text}. {why}")))
    return _Parts(text, why, tuple(others), remedy, grade, tuple(found["more"]))


def _is_record_keeping(cell: Cell) -> bool:
    """Whether a column only says that a decision was taken, or when."""
    is_status = cell.name.lower() in ("status", "state")
    is_settled = is_status and _SETTLED.fullmatch(cell.text) is not None
    return is_settled or cell.name.lower() in ("date", "decided on", "timestamp")


def _main_column(cells: Sequence[Cell], kind: str) -> str:
    """The column with the item's sentence: one that is named like its kind, else one without a
    name, else the longest text that isn't a field of its own, a grade or a figure.
    """
    summaries = (*_SUMMARY, *(("selected",) if kind == DECISION else ("description", "text")))
    for cell in cells:
        name = cell.name.replace("_", " ")
        cue = cues.by_name(name) if not cues.field_of(name) else None
        if not name or (cue and cue.kind == kind) or name.lower() in summaries:
            return cell.name
    about = [c for c in cells if not cues.field_of(c.name) and not _is_figure(c.text)]
    about = about or [c for c in cells if cues.field_of(c.name) == "alternatives"]
    return max(about or cells, key=lambda cell: len(cell.text)).name if cells else ""


# Items

_NOTHING = cues.any_of(r"""
    -*|(?:none|n/?a|nothing|not applicable|met|
    pass(?:ed)?)\b(?:.{0,40}|
    \s?[.,;:!(\u2013\u2014-].{0,80})|(?:no|yes|ok|true|false)\W*|no (?:\w+ )?(?:blocker|issue|risk|
    question|problem|concern|work|task|item)s?\b.{0,25}
""")
_CRITERIA = cues.any_of(r"""
    \b(?:(?:test|testing|qa|verification|validation|review|manual)[\w ]{0,20} (?:scenarios?|cases?|
    criteria)|(?:acceptance|success|exit|completion) (?:criteria|metrics)|
    definition of done|done when)\b
""")
_OVER_MARK = cues.any_of(r"""
    \((?:resolved|fixed|closed|done|completed?)\)|[\u2705\u2714\u2713]|\b(?:is|are) now \w+(?:ed|
    ne)\b|[\u2014\u2013:-] ?(?-i:COMPLETED?|DONE|CLOSED|FIXED|RESOLVED)\b
""")
_ANSWERED = cues.any_of(r"""
    \?\W{0,6}(?:answer|resolved|decided|yes\b|no\b|confirmed|\u2192|->|\u2705)|\((?:resolved|
    answered)\)
""")
_ANSWER = cues.any_of(r"""
    \W*(?:a\d*:|(?:answer|decision|decided|resol|recommend|verdict|ruling|response|confirmed)\w*|
    (?:yes|no)\b|\u2192|->)
""")
_ANSWER_COLUMN = cues.any_of(r"(?:final )?(?:resolution|answer|ruling|outcome|decision)s?")
_OPEN_ANSWER = cues.any_of(r"""
    (?:-|\u2014|\?|tbd|open|pending|none|n/?a|unknown|undecided|unresolved|deferred)(?!\w)|$
""")
_FACT_TABLE = cues.any_of(r"(?:factor|attribute|field|item|aspect|topic|property)s?")
_COMPARING = cues.any_of(r"pros?|cons?|advantages?|disadvantages?|pros (?:and|&|/) cons")
_CHOICE_COLUMN = cues.any_of(r"""
    (?:\w+ )?(?:option|choice|selection|technology|tech|tool|library|approach|pick|alternatives?)s?
""")
_UNDONE = cues.any_of(r"""
    \W*(?:pending|to-?do|not[_ ]started|open|in[_ -]progress|wip|planned|queued|next|partial(?:ly)?|
    incomplete|(?P<blocked>blocked))\b
""")
_TASK_NAME = cues.any_of(r"""
    (?:\w+ )?(?:tasks?|items?|steps?|phases?|features?|milestones?|work|name|title|story|ticket)
""")
_TICKET = re.compile(r"#\d{1,6}\b")
# A label with one of these names no item: `Risk: low`, `Issue: #83`.
_BARE = cues.any_of(r"#\d{1,6}\b.*|\W*(?:low|medium|high|minimal)\W*")
_FORBIDDEN = re.compile(r"(?:do|must)[_ ]not|don'?t|never")
_BOLD_LINE = re.compile(r"\*\*[^*\n]+\*\*")
_REMARK = re.compile(r"\*[^*\n].*[^*\n]\*|\[[^\[\]]{1,400}\]|_[^_\n].*_")
_PROSE_KEYS = re.compile(
    r"(?:.*_)?(?:notes?|summary|comments?|description|details|message|remarks)"
)
_YAML_LINES = re.compile(r"\|[-+\d]{0,2}[ \t]{0,20}\r?\n")
_GATE_KEY = re.compile(r"(\w{1,60}?)_(?:passed|verified|ok)")
_VERDICT = cues.any_of(r"\W*(?:(?P<passed>pass(?:ed|es)?)|fail(?:ed|s|ure)?)\b.{0,60}")
_VERDICT_LINE = re.compile(
    r"\W*(?P<name>[^|]{2,120}?)\s*(?::|\u2014|\u2013|->|\s-)\s*\W*(?:(?P<passed>PASS(?:ED)?)|"
    r"FAIL(?:ED)?)\b[\s:.,;-]*(?P<detail>.*)"
)
_VERDICT_FIRST = re.compile(
    r"\W*(?:(?P<passed>PASS(?:ED)?)|FAIL(?:ED)?)\b\W{1,6}(?P<name>\w.{1,160})(?P<detail>)"
)
_VERDICT_NAME = cues.any_of(r"(?:test )?(?:status|result|verdict|outcome)s?")
_ATTACHED = {"why": "rationale", "alternatives": "alternatives", "remedy": "mitigation"}
_BLOCKING = cues.any_of(r"(?:severity|priority|impact):\W*block\w*\W*")
_FIX = cues.any_of(r"(?:\w+ )?(?:fix|change|suggestion|recommendation|solution)")
_FINDING_LABEL = cues.any_of(r"""
    problem|evidence|severity|impact|expected|actual|symptoms?|root cause|location|file|
    (?:steps to )?repro.*|(?:\w+ )?(?:fix|change|resolution)
""")
_NUMBERED_TITLE = cues.any_of(r"""
    \A(?:(?:step|task|item|action) )?#?\d{1,2}[.):]? *[\u2014\u2013:-]? *(?=\S+ \S)
""")
_WHY_QUESTION = re.compile(r"(why\b[^?:.]{0,120}\?)\s+(\S.*)", re.IGNORECASE | re.DOTALL)
_DESCRIBED = (cues.OVER, cues.PLAIN)


class _ItemExtractor:
    """Collects the items of a note's blocks, each once."""

    def __init__(self, text: str, *, is_report: bool) -> None:
        self.text = text
        self.places = LineIndex(text)
        self.is_report = is_report
        self.found: list[NoteItem] = []
        self.ambiguous: list[NoteSpan] = []
        self._said: set[tuple[str, str]] = set()
        self._taken: dict[cues.Trail, list[str]] = {}
        self._left: list[tuple[cues.Trail, NoteSpan]] = []
        self._placed: list[tuple[NoteItem, cues.Trail]] = []
        self._told: cues.Trail = ()
        self._after: Sequence[Block] = ()

    def take(self, block: Block, after: Sequence[Block]) -> None:
        """Take what a block says; `after` are the blocks that follow."""
        self._after = after
        if self._told and block.trail[: len(self._told)] == self._told:
            return  # the section is one item, which its heading names
        takers = {"row": self._row, "value": self._value, "item": self._item}
        takers |= {"text": self._paragraph, "heading": self._heading}
        if block.form in takers:
            takers[block.form](block)

    def unclear(self) -> list[NoteSpan]:
        """Passages that may hold an item, in the order of the text; among them the remaining
        entries of lists that were taken for the most part.
        """
        rest = Counter(trail for trail, _ in self._left)
        found = list(self.ambiguous)
        for trail, span in self._left:
            taken = self._taken.get(_section(trail), [])
            if len(taken) >= rest[trail]:
                found.append(span._replace(hint=taken[0], cue=(*trail, "the list")[-1][:60]))
        return sorted(found)

    # Markdown

    def _heading(self, block: Block) -> None:
        """Take a heading that is an item, with what is below it."""
        self._gate_line(block)
        section = (*block.trail, block.text)
        below = list(takewhile(lambda each: each.trail[: len(section)] == section, self._after))
        cue = _heading_cue(block, below) if block.trail else None
        if cue is None or any(each.check for each in below):
            return
        title = Cell("", _NUMBERED_TITLE.sub("", block.text), block.start, block.end)
        labelled = [cell for each in below for cell in _labelled_fields(each)]
        parts = _cell_parts(cue.kind, (title, *labelled), "")
        is_told = below and below[0].form == "text" and not labelled
        about = storable(below[0].text) if is_told else ""
        if about and cue.kind != NEXT and len(title.text.split()) < 3:
            parts = parts._replace(text=f"{parts.text}: {about}")  # the topic alone says too little
        elif about:
            parts = parts._replace(why=about)
        whole = block._replace(end=below[-1].end) if below else block
        self._keep(cue, parts._replace(grade=parts.grade or block.text), whole)
        self._told = section
        for each in below:
            self._remedy(each, *_label(each.text))

    def _remedy(self, block: Block, name: str, said: str) -> None:
        """A fix or a suggestion that is put as an order is a step, too."""
        if _FIX.fullmatch(name) and cues.ORDER.match(said):
            self._keep(cues.Cue(NEXT, 0.7, name.lower()), _Parts(storable(said)), block)

    def _item(self, block: Block) -> None:
        section, opening = cues.section_of(block.trail), cues.by_opening(block.text)
        is_over = block.check == "done" or _is_nothing(block.text) or self._gate_line(block)
        if is_over or self._is_fact(block, opening):
            return
        is_order = cues.ORDER.match(block.text.partition(":")[2].strip(" `")) is not None
        if block.check == "todo":
            # "[ ] Constraint: no helper" is to be read, "[ ] Bug: fix the login" to be done.
            is_read = opening is not None and cues.is_exact(opening) and not is_order
            is_step = not any(map(_CRITERIA.search, block.trail[-2:]))
            cue = opening if is_read else cues.Cue(NEXT, 0.95, "[ ]") if is_step else None
            if cue:
                self._add(cue, block)
        elif block.cells or not self._is_attached(block, section):
            # "Bug: fix the login" among steps is one.
            is_own = cues.is_exact(opening) or not section.kinds
            is_own = is_own and not (NEXT in section.kinds and is_order)
            self._entry(block, section, opening if is_own else None)

    def _entry(self, block: Block, section: cues.Section, opening: cues.Cue | None) -> None:
        """An entry of a list: of the kind that it names itself, else of its section's, else of what
        its form says among remarks.
        """
        if _OVER_MARK.search(block.text[:200]) and DECISION not in section.kinds:
            return
        if opening:
            self._add_open(opening, block, section)
        elif section.kinds:
            self._announced(_by_form(section, block.text), block)
        elif cue := _weak_cue(section, block.text):
            self._add(cue, block)
        else:
            self._labelled(block)

    def _is_fact(self, block: Block, opening: cues.Cue | None) -> bool:
        """Whether a line only states a place, or sender, receiver or outcome, and no blocker."""
        rest = block.text.partition(":")[2].strip(" `")
        if opening is not None and "/" in rest and " " not in rest:
            return True
        words = cues.by_words(block.text)
        is_stuck = words is not None and words.kind == BLOCKER
        return _is_fact(self.text[block.start : block.end]) and not is_stuck

    def _add_open(self, cue: cues.Cue, block: Block, section: cues.Section) -> None:
        """An item that names its own kind; what is fixed isn't a problem any more."""
        rest = block.text.partition(":")[2].strip(" *")
        is_open = section.mood != cues.OVER or cue.kind not in (GOTCHA, NEXT)
        is_empty = _is_nothing(rest) or _is_figure(rest) or _BARE.fullmatch(rest)
        if is_open and not is_empty:
            self._add(cue, block)

    def _announced(self, cue: cues.Cue, block: Block) -> None:
        """An item below a heading; a blocker that is put as an order is a step, too."""
        if cue.kind == GOTCHA and _TICKET.match(block.text):
            cue = cue._replace(kind=NEXT)  # issues of a tracker are work
        if cue.kind != QUESTION or not _ANSWERED.search(block.text[:200]):
            self._add(cue, block, is_listed=True)
            if cue.kind == BLOCKER and cues.ORDER.match(block.text):
                self._add(cue._replace(kind=NEXT), block)

    def _paragraph(self, block: Block) -> None:
        raw = self.text[block.start : block.end].strip().splitlines()
        # A paragraph that is all in italics or brackets is a remark about the note.
        is_remark = all(_REMARK.fullmatch(line.strip(" >")) for line in raw)
        if _is_nothing(block.text) or is_remark:
            return
        section = cues.direct_section(block.trail)
        if not block.cells and self._is_attached(block, cues.Section()):
            return
        opening, lines = cues.by_opening(block.text), remarks(self.text, block.start, block.end)
        is_colon = block.text.endswith(":")
        after = self._after[0] if self._after else None
        is_lead = after is not None and after.form in ("item", "row") and after.trail == block.trail
        if block.cells and not is_colon:
            self._labelled(block)
        elif opening and len(lines) == 1 and not is_colon:
            self._add_open(opening, block, cues.section_of(block.trail))
        elif not section.kinds or ((is_lead or is_colon) and len(lines) == 1):
            self._sentences(block)
        else:
            # What follows a line in bold explains it.
            is_led = len(raw) > 1 and _BOLD_LINE.fullmatch(raw[0].strip()) is not None
            is_one = len(lines) < 2 or (is_led and NEXT not in section.kinds)
            for start, end in [(block.start, block.end)] if is_one else lines:
                self._remark(self._part(block, start, end), section, is_one=is_one)

    def _remark(self, part: Block, section: cues.Section, *, is_one: bool) -> None:
        """A line of a paragraph below a heading. What follows an item explains it, unless it says
        another kind or is put as a step.
        """
        opening, cue = cues.by_opening(part.text), _by_form(section, part.text)
        is_beside = cues.field_of(_label(part.text)[0]) in ("aside", "grade", "status", "detail")
        if opening and cues.is_exact(opening):
            self._add(opening, part)
        elif is_one or not (part.text.endswith(":") or is_beside):
            is_more = cue.kind in self._taken.get(_section(part.trail), ())
            words = cues.by_words(part.text) if cue.kind == NEXT or is_more else None
            if words and words.kind != cue.kind and (is_more or words.kind == GOTCHA):
                self._add(words, part)
            elif is_more and cue.kind in (NEXT, QUESTION) and not (words or _is_put(part.text)):
                self._hint(cue, part)
            elif not _OVER_MARK.search(part.text[:200]) or cue.kind == DECISION:
                self._add(cue._replace(confidence=0.6), part, is_listed=True)

    def _labelled(self, block: Block) -> None:
        """Labelled lines are one item: a decision if a reason is among them, else of the kind that
        one of them names first.
        """
        reasoned = _row_by_cells(block)
        if reasoned and reasoned.kind == DECISION and block.form == "item":
            self._add(reasoned, block)
            return
        for cell in block.cells:
            cue = cues.by_name(cell.name) if cell.name else cues.by_opening(cell.text)
            if cue and cue.kind in MAIN:
                self._keep(cue, _cell_parts(cue.kind, block.cells, cell.name), block)
                return
        self._sentences(block)

    def _is_attached(self, block: Block, section: cues.Section) -> bool:
        """Take what is labelled `Rationale`, `Mitigation` or the like, or is in a list below such a
        label, as a field of the item before it in its section; whether the block is of that sort.
        """
        (name, said), above = _label(block.text), block.trail[-1] if block.trail else ""
        label = cues.field_of(name) if name else ""
        is_below = above.endswith((":", "?")) and cues.field_of(above.rstrip(": ")) in _ATTACHED
        if not label and is_below:
            name, label, said = above.rstrip(": "), cues.field_of(above.rstrip(": ")), block.text
        is_beside = label in ("aside", "grade", "status")
        is_beside = is_beside or not section.kinds or DECISION in section.kinds
        if not label or (label not in _ATTACHED and (block.form == "text" or not is_beside)):
            return False
        if label == "remedy":
            self._remedy(block, name, said)
        last = self._last_item(label, block)
        if last is None or (label == "alternatives" and last.kind != DECISION):
            return label not in ("detail", "remedy", "alternatives") and bool(section.kinds)
        _attach(last, label, storable(said), name)
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
        section = cues.section_of(block.trail)
        for start, end in sentences(self.text, block.start, block.end):
            place = self._part(block, start, end)
            said = place.text
            if said.endswith(":") or not said or self._gate_line(place):
                continue  # it introduces what follows
            cue = cues.by_opening(said) or cues.by_words(said)
            if cue and cue.words == "?" and self._is_answered(block, end):
                cue = None
            if cue is None and cues.ORDER.match(said):
                cue = _weak_cue(section, said)
            if cue and cue.kind in (MAIN if not self.is_report else (GOTCHA,)):
                self._sentence(cue, place, section)
            elif hint := cue or cues.by_hints(said):
                self._hint(hint, place)
            elif block.form == "item":
                self._left.append((block.trail, NoteSpan(start, end, place.line, "", "")))

    def _sentence(self, cue: cues.Cue, place: Block, section: cues.Section) -> None:
        """A sentence that says its kind; in a section that describes, only what can't be meant
        otherwise.
        """
        is_told = section.mood in _DESCRIBED and cue.kind in (GOTCHA, NEXT)
        if (is_told and not cues.is_exact(cue)) or _OVER_MARK.match(place.text):
            self._hint(cue, place)
        else:
            self._add(cue, place)

    def _is_answered(self, block: Block, end: int) -> bool:
        """Whether something follows a question in its block, or the next block is its answer."""
        if self.text[end : block.end].strip(" *_)\n"):
            return True
        return bool(self._after) and _ANSWER.match(self._after[0].text) is not None

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
        self._keep(cues.Cue(GATE, 0.9, result), _Parts(storable(name), detail, grade=result), block)

    # Rows and reports

    def _row(self, block: Block) -> None:
        cells = block.cells
        if len(cells) < (1 if self.is_report else 2):
            return
        named, cue = self._row_cue(block)
        if (cue is None or cue.kind == NEXT) and self._gate_row(block):
            return
        if cue is None or cue.kind not in MAIN:
            return
        if cue.kind == QUESTION and (answer := _answer(block)):
            named, cue = answer, cues.Cue(DECISION, 0.8, answer.lower())
        fact = next((cell.text for cell in cells if cell.name == named), "")
        is_compared = not named and any(_COMPARING.fullmatch(cell.name) for cell in cells)
        is_over = cue.kind != DECISION and _is_settled(cue.kind, block)
        if not (is_over or is_compared or (named and (_is_nothing(fact) or not fact))):
            self._keep(cue, _cell_parts(cue.kind, cells, named), block)

    def _gate_row(self, block: Block) -> bool:
        """Take a row with a verdict, PASS or FAIL, as the result of a gate."""
        for cell in block.cells[1:]:
            match = _VERDICT.fullmatch(cell.text) if len(cell.text) < 80 else None
            is_loud = cell.text.strip(" *`\u2705\u274c")[:4].isupper()
            if match and (is_loud or cues.field_of(cell.name) == "status"):
                rest = [c for c in block.cells if c is not cell]
                name = next((c for c in rest if not _is_figure(c.text)), rest[0])
                more = "; ".join(f"{c.name}: {c.text}" for c in rest if c is not name)
                self._gate(name.text, bool(match["passed"]), storable(more), block)
                if not match["passed"] and len(more.split()) > 6:
                    issue = _Parts(storable(f"{name.text}: {cell.text}"), storable(more))
                    self._keep(cues.Cue(GOTCHA, 0.7, "failed"), issue, block)
                return True
        return False

    def _row_cue(self, block: Block) -> tuple[str, cues.Cue | None]:
        """The column that shows a row's kind, if one does, and the cue."""
        cells, section = block.cells, cues.section_of(block.trail)
        above = _by_form(section, "") if section.kinds else None
        if above and above.kind == QUESTION and not any(cues.is_asked(c.text) for c in cells):
            above = None
        if self.is_report:
            by_cells = _row_by_cells(block)
            is_work = above is not None and above.kind == NEXT
            return "", by_cells if by_cells and is_work else above or by_cells
        # A column that only numbers, grades or locates its rows holds no figures.
        beside = ("aside", "grade", "status")
        figures = [c for c in cells if _is_figure(c.text) and cues.field_of(c.name) not in beside]
        columns = [
            (c.name, cue)
            for c in cells
            if (cue := cues.by_name(c.name)) and not cues.field_of(c.name)
        ]
        # A table of anti-patterns has a column "Pattern".
        columns = [(n, cue) for n, cue in columns if cue.kind != PATTERN or not section.kinds]
        if section.mood == cues.OVER:
            columns = [(name, cue) for name, cue in columns if cue.kind == DECISION]
        if columns:
            named, cue = min(columns, key=lambda pair: cues.KIND_ORDER.index(pair[1].kind))
            # Steps with times or costs are a measurement, not work to do.
            return ("", None) if cue.kind == NEXT and len(figures) > 1 else (named, cue)
        if len(cells) == 2 and _FACT_TABLE.fullmatch(cells[0].name):
            return cells[1].name, cues.by_opening(f"{cells[0].text}: ")
        # Lists of files and tables of figures hold no items.
        rest = [c for c in cells if "/" not in c.text or not is_file(self.text, c.start, c.end)]
        is_work = above is not None and above.kind == NEXT
        is_told = is_work and any(len(cell.text.split()) > 2 for cell in rest)
        if len(figures) > 1 or (len(rest) < len(cells) and not is_told):
            return "", None
        return "", above or _row_by_cells(block)

    def _value(self, block: Block) -> None:
        key = cues.snake_case(block.trail[-1]) if block.trail else ""
        gate = _GATE_KEY.fullmatch(key)
        if gate and block.text in ("true", "false"):
            self._gate(gate[1], block.text == "true", "", block)
            return
        is_short = len(block.text.split()) < 2 and not cues.ORDER.match(block.text)
        if is_short or _is_nothing(block.text):
            return
        section = cues.section_of(block.trail)
        if section.kinds and section.kinds[0] in MAIN:
            # The lines of a block of YAML are an item each.
            opened = _YAML_LINES.match(self.text, block.start, block.end)
            lines = remarks(self.text, opened.end(), block.end) if opened else []
            for part in [self._part(block, *line) for line in lines] or [block]:
                self._add(_by_form(section, part.text), part, is_listed=True)
        elif _PROSE_KEYS.fullmatch(key):
            self._sentences(block)

    def _add(self, cue: cues.Cue, block: Block, *, is_listed: bool = False) -> None:
        """Keep an item, and what labels below it call a step, a question or a blocker."""
        if cue.kind not in MAIN:
            return
        self._taken.setdefault(_section(block.trail), []).append(cue.kind)
        if block.cells:
            parts = _cell_parts(cue.kind, block.cells, "")
        else:
            parts = _sentence_parts(cue.kind, block.text, is_listed=is_listed)
            if is_listed and _FORBIDDEN.match(cue.words):
                parts = parts._replace(text=f"Do not: {parts.text}")
        self._keep(cue, parts, block)
        for cell in block.cells[1:]:
            own = cues.by_name(cell.name)
            if own and own.kind in (NEXT, QUESTION, BLOCKER) and own.kind != cue.kind:
                self._add(own, self._part(block, cell.start, cell.end)._replace(text=cell.text))

    def _keep(self, cue: cues.Cue, parts: _Parts, block: Block) -> None:
        """Keep an item, once; a step that is a decision to take is an open question, too."""
        if cue.kind == NEXT and (cues.TO_DECIDE.match(parts.text) or cues.asks(parts.text[:120])):
            self._keep(cues.Cue(QUESTION, 0.7, "decide"), _Parts(parts.text), block)
        fields = _fields(cue.kind, parts)
        main = str(fields.get(MAIN.get(cue.kind, "name"), ""))
        is_verdict = cue.kind == DECISION and _VERDICT.fullmatch(main) is not None
        said = f"{main} {fields.get('alternatives', '')}"
        if not main or (cue.kind, said) in self._said or _is_figure(main) or is_verdict:
            return
        self._said.add((cue.kind, said))
        section = _section(block.trail)
        span = (block.start, block.end)
        item = NoteItem(cue.kind, fields, span, block.line, cue.confidence, cue.words)
        self.found.append(item)
        self._placed = [each for each in self._placed[-20:] if each[1] == section]
        self._placed.append((item, section))

    def _hint(self, cue: cues.Cue, block: Block) -> None:
        self.ambiguous.append(NoteSpan(block.start, block.end, block.line, cue.kind, cue.words))


def _by_form(section: cues.Section, said: str) -> cues.Cue:
    """The kind of an item below a heading: where that names several, a question, an order, or what
    its words say. A plain order among questions is a step.
    """
    kinds, first = section.kinds, cues.Cue(section.kinds[0], section.confidence, section.words)
    if QUESTION in kinds and said and not cues.is_asked(said):
        if cues.ORDER.match(said):
            return first._replace(kind=NEXT)
        return first._replace(kind=next((kind for kind in kinds if kind != QUESTION), QUESTION))
    if len(kinds) < 2 or not said:
        return first
    if NEXT in kinds and BLOCKER not in kinds and cues.ORDER.match(said):
        return first._replace(kind=NEXT)
    words = cues.by_words(said)
    return first._replace(kind=words.kind) if words and words.kind in kinds else first


def _is_put(said: str) -> bool:
    """Whether something is put as an order or a question."""
    return cues.ORDER.match(said) is not None or cues.is_asked(said)


def _weak_cue(section: cues.Section, said: str) -> cues.Cue | None:
    """The kind of something said among remarks or facts for the receiver, by its form."""
    if section.mood == cues.RECEIVER and cues.ORDER.match(said):
        return cues.Cue(NEXT, 0.6, "for the receiver")
    if section.mood not in (cues.REMARKS, cues.RECEIVER):
        return None
    words = cues.by_words(said)
    if words and words.kind != NEXT:
        return words
    return cues.Cue(GOTCHA, 0.6, "among remarks") if cues.restricts(said) else None


def _attach(item: NoteItem, label: str, said: str, name: str) -> None:
    """Add a labelled text to the fields of the item that it is about."""
    fields, field = item.fields, _ATTACHED.get(label, "")
    is_decision = item.kind == DECISION
    if field == "alternatives" and is_decision:
        fields[field] = [*fields.get(field, ()), *_listed(said)]
    elif said and said not in fields.get(field, said):
        before = fields[field]
        fields[field] = said if before == NOT_STATED else storable(f"{before}; {said}")
    if others := _rejected(name) if label == "why" and is_decision else []:
        known = fields.get("alternatives", [])
        fields["alternatives"] = list(dict.fromkeys([*known, *map(storable, others)]))


def _section(trail: cues.Trail) -> cues.Trail:
    """The headings of a trail, without a label at its end."""
    return trail[:-1] if trail and trail[-1].endswith((":", "?")) else trail


def _heading_cue(block: Block, below: Sequence[Block]) -> cues.Cue | None:
    """The kind of a heading that is an item itself, and not the name of a group: a decision with a
    reason, a finding with labels such as `Evidence:`, or one below a heading that announces its
    kind, with a number or with only text below it.
    """
    above, own = cues.section_of(block.trail), cues.announced(block.text)
    is_empty = bool(below) and _is_nothing(below[0].text)
    if cues.OVER in (own.mood, above.mood) or own.mood == cues.RECEIVER or is_empty:
        return None
    kind, labels = above.kinds[0] if above.kinds else "", {_label_of(each) for each in below}
    opening = cues.by_opening(block.text)
    if DECISION in (kind, opening and opening.kind):
        if any(cue.kind == DECISION for label in labels if (cue := cues.by_name(label))):
            return None  # a label below it states the decision
        if any(cues.field_of(label) == "why" for label in labels):
            return cues.Cue(DECISION, 0.8, "decision")
    if any(each.form in ("row", "heading") for each in below):
        return None
    is_issue = kind == GOTCHA or above.mood == cues.REMARKS or GOTCHA in own.kinds
    if is_issue and any(_FINDING_LABEL.fullmatch(label) for label in labels):
        is_blocking = any(_BLOCKING.fullmatch(each.text) for each in below)
        return cues.Cue(BLOCKER if is_blocking else GOTCHA, 0.8, "finding")
    is_item = kind in MAIN and not own.kinds and _is_item_title(kind, block.text, below)
    return cues.Cue(kind, 0.8, above.words) if is_item else None


def _is_item_title(kind: str, text: str, below: Sequence[Block]) -> bool:
    """Whether a heading in a section of its kind is one item; a list below a step has the steps."""
    title = _NUMBERED_TITLE.sub("", text)
    is_numbered = title != text
    is_plain = all(each.form in ("text", "code", "label") for each in below)
    if kind == NEXT:
        is_told = bool(below) and (is_plain or below[0].form in ("text", "code"))
        return is_told and (is_numbered or cues.ORDER.match(title) is not None)
    return is_numbered or (is_plain and (bool(below) or len(title.split()) > 2))


def _labelled_fields(block: Block) -> list[Cell]:
    """What a block below a heading says about it: its labelled lines that name a field."""
    cells = block.cells or (Cell(*_label(block.text), block.start, block.end),)
    above = block.trail[-1].rstrip(": ") if block.trail[-1].endswith(":") else ""
    named = (cell._replace(name=cell.name or above) for cell in cells)
    return [cell for cell in named if cues.field_of(cell.name) in (*_ATTACHED, "grade")]


def _label_of(block: Block) -> str:
    return block.text.rstrip(": ") if block.form == "label" else _label(block.text)[0]


def _label(text: str) -> tuple[str, str]:
    """What a text is labelled as, and the rest; the question why is a label too."""
    if match := _WHY_QUESTION.fullmatch(text):
        return match[1], match[2]
    name, colon, rest = text.partition(":")
    return (name.strip(), rest.strip()) if colon and len(name) < 40 else ("", text)


def _row_by_cells(block: Block) -> cues.Cue | None:
    """A row's kind by the status of a task, or by a reason."""
    is_task = any(_TASK_NAME.fullmatch(cell.name.replace("_", " ")) for cell in block.cells)
    status = next((c.text for c in block.cells if cues.field_of(c.name) == "status"), "")
    if match := _UNDONE.match(status) if is_task else None:
        return cues.Cue(BLOCKER if match["blocked"] else NEXT, 0.7, match[0].lower())
    # Tests that are skipped and files to read have reasons, too.
    is_choice = any(_CHOICE_COLUMN.fullmatch(cell.name) for cell in block.cells)
    for cell in block.cells:
        name = cell.name.lower()
        if name == "rationale" or (is_choice and cues.field_of(name) == "why"):
            return cues.Cue(DECISION, 0.7, name)
    return None


def _is_nothing(text: str) -> bool:
    return _NOTHING.fullmatch(text.strip(" .*")) is not None


def _is_settled(kind: str, block: Block) -> bool:
    """Whether a row is settled: a step done, a risk closed, a question answered."""
    status = [c.text for c in block.cells if c.name.lower() in ("status", "state")]
    others = [c.text for c in block.cells[1:]] if kind == QUESTION else []
    is_resolved = any(text.strip(" *").lower().startswith("resolved") for text in others)
    return is_resolved or any(_SETTLED.match(text.strip(" *")) for text in status)


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
_FACT_SECTIONS = cues.any_of(r"""
    \W*(?:.*\bmetadata|hand-?(?:off|over)(?: (?:info(?:rmation)?|details|summary))?|header|agents?|
    participants|.*\btransition(?: details)?|sign-?off)\W*
""")
_ARROW = cues.any_of(r"""
    #+[ \t].{0,80}?\bhand-?(?:off|
    over)\b[^\w@]{0,6}(?P<from_agent>[@\w][\w. -]{0,60}?)[ \t]*(?:\u2192|->|
    =>)[ \t]*(?P<to_agent>[@\w][\w. -]{0,60})
""")
_NEXT_AGENT = cues.any_of(r"#+[ \t].{0,40}\bnext agent[\s:(@]{1,4}(?P<to_agent>[\w.-]+)\)?")
_OUTCOMES = {
    "blocked": cues.any_of(r"blocked|on hold"),
    "failed": cues.any_of(r"fail(?:ed|ure)?|aborted"),
    "partial": cues.any_of(r"partial(?:ly)?|in[ _-]progress|incomplete|wip"),
    "completed": cues.any_of(r"complete[d]?|done|success(?:ful)?|finished|passed|ok"),
}
_UNFINISHED = cues.any_of(r"""
    \b(?:in[ _-]progress|not (?:yet )?(?:done|complete[d]?|finished)|incomplete|wip|unfinished|
    partial(?:ly)?|almost|half[- ]done)\b
""")
_STATUS = cues.any_of(r"(?:current )?(?:status|state)\b[ \t]*[:\u2013\u2014-]?")
_OPEN_STATUS = cues.any_of(r"""
    \bstatus(?: is)?[^\w\n]{1,12}(?:in[ _-]progress|wip|blocked|on hold|partial(?:ly)?|incomplete|
    unfinished)\b
""")
_IN_WORK = cues.any_of(r"\W*(?:still |work )?(?:in[ _-]progress|wip)\W*")
_NONE = cues.any_of(r"(?:none|nothing|n/a|tbd|unknown|-)(?!\w)")
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


def _matter_end(text: str) -> int:
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
        *above, key = (cues.snake_case(key).replace("_", " ") for key in block.trail[1:])
        if above and above[0] in _HEADER_NAMES and key in ("agent", "name", "id", "agent id"):
            key = above[0]  # {"from": {"agent": "coder"}}
        elif above and not (_FACT_SECTIONS.fullmatch(above[0]) and key in _HEADER_NAMES):
            continue
        found.setdefault(_HEADER_NAMES.get(key, key), []).append(block.text)
    first = {name: texts[0] for name, texts in found.items()}
    about = f"{first.get('task', '')} {first.get('category', '')}".strip()
    first["summary"] = first.get("summary") or first.get("notes") or first.get("objective") or ""
    first["title"] = first.get("title") or first.get("objective") or first.get("name") or about
    return {**first, "to_agent": ", ".join(found.get("to_agent", ()))}


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

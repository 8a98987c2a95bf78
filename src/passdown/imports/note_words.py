"""The words that show what a passage of a note is, and its text without markup."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.core.redaction import redact
from passdown.core.task_files import without_comments
from passdown.core.text import has_lone_surrogate, text_problems

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_FIELD = 65_536


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


DECISION, GOTCHA, PATTERN, NEXT, QUESTION, BLOCKER, READING, GATE = (
    "decisions",
    "gotchas",
    "patterns_discovered",
    "suggested_next_steps",
    "open_questions",
    "blockers",
    "dependencies_for_next",
    "gates",
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
        key=r"questions?|unknowns?|unresolved",
    ),
    _words(
        BLOCKER,
        heading=r"blockers?|blocked(?: by)?|impediments?",
        column=r"blockers?|impediments?|blocked by",
        opening=r"(?:current |known |main )?blockers?|blocked(?: by| on)?|impediments?",
        sure=r"(?:is|are|am|we're|i'm) (?:currently )?(?:blocked|stuck) (?:by|on|until)|"
        r"blocked (?:by|on|until)|waiting (?:for|on) \w+|can(?:not|'t) (?:continue|proceed|go on)",
        weak=_NEVER,
        key=r"blockers?|blocked_by|blocking(?:_issues)?|impediments?",
    ),
    _words(
        DECISION,
        heading=r"decisions?(?: made| taken)?|assumptions?|resolutions?|fallback|choices made|"
        r"why we chose",
        column=r"(?:key )?decisions?|recommended|assumptions?|resolution|choice|chosen",
        opening=r"decisions?(?! (?:id|documentation|finali[sz]ed|status|date|makers?|owner|matrix|"
        r"log|urgency|points?|needed|required|criteria)\b)|decided|verdict|conclusion|"
        r"recommendation|fallback|assumptions?|assumed|chose|choice|resolution",
        sure=r"(?:was|were|have|has|is|are|we|i|they|been)? ?(?:decided|chose|chosen|opted|"
        r"settled on|went with|agreed to|adopted)|the recommended \w+ is|is recommended|"
        r"(?:validated and|are) recommended",
        weak=r"instead of|rather than|because|rejected|deferred|assum(?:ed|ing)|prefer(?:red)?",
        key=r"decisions?(?:_made|_log)?|assumptions?|choices",
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
        key=r"gotchas?|risks|warnings?|errors(?:_encountered)?|issues|(?:technical_)?debt|gaps?|"
        r"limitations?|caveats?|problems|concerns|pitfalls|workarounds(?:_applied)?",
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
        key=r"patterns(?:_discovered)?|conventions",
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
        heading=r"next(?= ?$| ?[:(,&]| agent| (?:\w+ )?(?:steps?|actions?|tasks?|work|items?)\b)|"
        r"next up|remaining|future(?: work)?|to-?dos?|(?:corrective )?actions?|"
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
        key=r"next(?:_steps?|_actions?|_tasks?)?|future_work|todos?|remaining(?:_work|_tasks)?|"
        r"actions|action_items|follow_?ups|recommendations|pending(?:_work|_tasks)?",
    ),
)

BY_KIND = {words.kind: words for words in WORDS}

# What the other columns of a table, keys of an object and labels below an item hold.
FIELDS = {
    "why": r"(?:\w+ )?(?:rationales?|reasons?|reasoning|justification|basis)|why\b.*|motivation|"
    r"because|evidence",
    "alternatives": r"(?:\w+ )?(?:alternatives?|options)(?: \w+)?|rejected(?: \w+)?|"
    r"(?:considered|instead of|over)(?: .*)?",
    "remedy": r"mitigations?\b.*|fix(?:es)?(?: (?:applied|needed))?|.*resolution|treatment|"
    r"prevention|workaround|enforcement|suggested.*|remedy|solution(?: needed)?|recommendation|"
    r"how to (?:avoid|fix).*",
    "grade": r"severity|.*priority|likelihood|level|criticality|urgency",
    "status": r"status|state|result|verdict|outcome|pass(?:ed)?",
    "aside": r"#|no\.?|id|.* id|owner|agent|effort|source|origin|path|file|date|phase|tier|timing|"
    r"loc|complexity|category|.*\bconsumer|timestamp|assign(?:ed|ee)?(?: to)?",
    "detail": r"impact|implementation|validation|testing|trade-?offs?|consequences?|benefits?|"
    r"details?|context|examples?|scope|implications?",
}
_FIELDS = {name: re.compile(words, re.IGNORECASE) for name, words in FIELDS.items()}


def field_of(name: str) -> str:
    """The field that a column, a key or a label names; empty if none."""
    bare = name.replace("_", " ").strip(" *`")
    return next((field for field, words in _FIELDS.items() if words.fullmatch(bare)), "")


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


# A heading below "Next steps" that tells of something else.
_TELLING = re.compile(
    r"\b(?:learned|remember|works|working|completed|achieved|insights?|principles|facts|"
    r"preferences|philosophy|success|benefits?|value|pain points?|loves?|hates?|reminders?|"
    r"symptoms|quotes?|decisions|shipped|merged)\b",
    re.IGNORECASE,
)


def is_reference(title: str) -> bool:
    """Whether a heading introduces facts about the note itself, such as references."""
    return _REFERENCE.fullmatch(title.rstrip(": ")) is not None


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
        if _TELLING.search(said):
            return None
        is_near = is_near and title.endswith(":")
    return None


def by_column(name: str) -> Cue | None:
    """The kind announced by a column's name."""
    return _first_cue(0.9, ((words.kind, words.column.fullmatch(name)) for words in WORDS))


def by_key(keys: tuple[str, ...]) -> Cue | None:
    """The kind announced by the keys of a JSON report; the nearest decides."""
    for key in reversed(keys[-2:]):
        named = snake_case(key)
        cue = _first_cue(0.95, ((words.kind, words.key.fullmatch(named)) for words in WORDS))
        if cue:
            return cue
    return None


def snake_case(key: str) -> str:
    """The name of a key as `next_steps`, however it is spelled."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[\W_]+", "_", key[:80]).lower()


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

"""The words by which a note says what it says: in headings, above columns, in a line, in a key.

A cue has a strength from 0 to 1: what a heading or a column announces is nearly certain, what a
single word in a sentence suggests is a guess.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from passdown.model.freeform.blocks import Block

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
    """What was found: the kind, how sure it is, and the words that say so."""

    kind: str
    confidence: float
    words: str


class Words(NamedTuple):
    """The words of one kind. `opening` begins a line, `sure` and `weak` stand in a sentence."""

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
        # A few words may stand before the colon: "Risk R-01:", "Decision (final):".
        rf"(?:{opening})\b[^.:|\n]{{0,40}}:(?=\s|$)",
        rf"\b(?:{sure})\b",
        rf"\b(?:{weak})\b",
        rf"(?:\w+_)?(?:{key})",
    )
    return Words(kind, *(re.compile(source, re.IGNORECASE) for source in sources))


# The first kind that fits decides.
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
    """Whether a heading stands above facts about the note itself, which are nobody's work."""
    return _REFERENCE.fullmatch(title.rstrip(": ")) is not None


def is_reference_block(block: Block) -> bool:
    """Whether a block stands right below such a heading."""
    return bool(block.trail) and is_reference(block.trail[-1])


def is_exact(cue: Cue) -> bool:
    """Whether a line opens with the word alone, such as `Risk:`, and so speaks for itself."""
    return cue.words.endswith(":") and " " not in cue.words


def by_heading(trail: tuple[str, ...]) -> Cue | None:
    """What the headings above a block announce: the nearest that says anything decides.

    What stands in parentheses doesn't count. Work and dangers go on below further headings; other
    kinds hold for what stands right below.
    """
    is_near = True
    for depth, title in enumerate(reversed(trail)):
        said = _ASIDE.sub("", title)
        if is_reference(said) or _OTHER.fullmatch(said):
            return None
        if depth + 1 == len(trail) and depth:
            return None  # the title of the whole note says what it is about, not what is in it
        for words in WORDS:
            match = words.heading.search(said)
            if match and (is_near or words.kind in (NEXT, GOTCHA)):
                return Cue(words.kind, 0.9 - 0.05 * min(depth, 3), match[0].lower())
        is_near = is_near and title.endswith(":")
    return None


def by_column(name: str) -> Cue | None:
    """What a column's own name announces."""
    for words in WORDS:
        if words.column.fullmatch(name):
            return Cue(words.kind, 0.9, name.lower()[:60])
    return None


def by_key(keys: tuple[str, ...]) -> Cue | None:
    """What the key of a JSON report announces: the nearest that says anything."""
    for key in reversed(keys[-2:]):
        for words in WORDS:
            if words.key.fullmatch(key):
                return Cue(words.kind, 0.95, key[:60])
    return None


def without_signs(text: str) -> str:
    """A line without the pictures and marks that people put before its first word."""
    return _SIGNS.sub("", text, count=1)


def by_opening(text: str) -> Cue | None:
    """What a line says of itself before its first colon."""
    said = without_signs(text)
    for words in WORDS:
        match = words.opening.match(said)
        if match:
            return Cue(words.kind, 0.9, match[0].strip().lower()[:60])
    return None


def by_words(text: str) -> Cue | None:
    """What the words of a sentence say; a guess where they only hint at it."""
    if text.endswith("?"):
        return Cue(QUESTION, 0.7, "?")
    for words in WORDS:
        match = words.sure.search(text)
        if match:
            return Cue(words.kind, 0.6, match[0].strip().lower()[:60])
    return None


def by_hints(text: str) -> Cue | None:
    """What a sentence may say: too weak to be recorded, good enough to ask about."""
    for words in WORDS:
        match = words.weak.search(text)
        if match:
            return Cue(words.kind, 0.3, match[0].strip().lower()[:60])
    return None

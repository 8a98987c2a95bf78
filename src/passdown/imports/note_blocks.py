"""Split a freeform note, Markdown or a JSON report, into blocks with their positions.

Here are also the words that show what a block is, and its text without markup.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from functools import lru_cache
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.core.parsing import load_yaml
from passdown.core.redaction import redact
from passdown.core.task_files import fence_after, fence_line, without_comments
from passdown.core.text import has_lone_surrogate, text_problems
from passdown.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


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
    """The words of one kind: in a heading or a key above its items (`title`), as the name of a
    column or member (`column`), before a colon at the beginning of a line (`label`), and in a
    sentence (`sure`, and `weak` where they only hint).
    """

    kind: str
    title: re.Pattern[str]
    column: re.Pattern[str]
    label: re.Pattern[str]
    sure: re.Pattern[str]
    weak: re.Pattern[str]


_NEVER = r"(?!)"
# Where a word announces something only if it ends the heading: {LAST} in the table.
_LAST = r"(?= ?$| ?[:(,&/+\u2014\u2013]| -)"


def _words(kind: str, *, title: str, column: str, label: str, sure: str, weak: str) -> Words:
    sources = (
        # Part of a compound such as `decision-core` or `non-blocking` is another word.
        rf"(?<!\w-)\b(?:{title})(?!-?\w)".replace("{LAST}", _LAST),
        rf"(?:{column})",
        # A few words may precede the colon: "Risk R-01:", "Decision (final):".
        rf"(?:{label})\b(?!-\w)(?:[^.:|\n]|\.(?=\w)){{0,40}}:(?=\s|$)",
        rf"(?<!\w-)\b(?:{sure})\b",
        rf"\b(?:{weak})\b",
    )
    return Words(kind, *map(any_of, sources))


def any_of(source: str) -> re.Pattern[str]:
    """A pattern without regard to case; it may be broken into indented lines after any `|`."""
    return re.compile("".join(map(str.strip, source.split("\n"))), re.IGNORECASE)


# The first kind that matches decides; where a heading names several, so does the item's form.
WORDS: tuple[Words, ...] = (
    _words(
        QUESTION,
        title=r"""
        (?:open|pending|deferred|outstanding|unresolved|undecided|remaining|
        unmade) (?:sub-?)?(?:questions?|points|decisions?|choices)|decisions? (?:open|pending|
        deferred|undecided|tbd|unresolved)|questions|unresolved|unknowns?|uncertain(?:ty|ties)?|
        unclear|undecided|
        to (?:decide|clarify|discuss|be (?:decided|determined|confirmed))|tbd|decisions? (?:needed|
        required|to (?:make|take)|for (?:you|the user))|(?:needs?|awaiting|waiting for|
        requires?) (?:your |user |human |a |an )?(?:input|decisions?|answers?|confirmation|
        clarification|feedback)|(?:things|points|topics) to (?:decide|clarify|discuss|confirm)|
        ask (?:the )?user|clarifications? needed|(?:for|to) discussion|discussion points|
        need from (?:you|the user)
        """,
        column=r"(?:open |finalized |research )?questions?|unknowns?",
        label=r"""
        (?:open )?questions?|(?:open|pending) (?:sub-?)?(?:decisions?|points?)|unclear|unknown|
        undecided|to decide|decision (?:needed|required|pending)|q\d*|tbd
        """,
        sure=r"""
        (?:it's |is |are |remains? )(?:still )?(?:unclear|an open question)|undecided|(?:the |one |
        open |my )question (?:is|remains)|don't know (?:if|whether|why|how)|not sure (?:if|whether|
        why|how|that)|to be (?:decided|determined|clarified)|tbd|(?:awaiting|pending|needs?|
        waiting (?:for|on)) (?:a |an |the |your |user |\w+'s )?(?:\w+ )?decision|(?:not|
        n't) (?:yet )?decided|(?:unclear|unknown) (?:whether|if|how|why|which|what)|
        needs? to (?:decide|choose)|(?:user|you|we|team) (?:must|should|needs? to|has to|
        have to) (?:now )?(?:decide|choose)
        """,
        weak=r"questions?|unsure|wonder(?:ing)?",
    ),
    _words(
        BLOCKER,
        title=r"""
        blockers?|blocked(?: by| on)?|blocking(?! \w+ (?:fix|fixed))|impediments?|obstacles?|
        show-?stoppers?|(?:a)?waiting(?: (?:on|for).*)?|stuck|needs? from \w+|(?:can(?:not|
        't)) (?:proceed|continue)|(?:must|to) be (?:resolved|fixed|done) (?:first|before)
        """,
        column=r"blockers?|impediments?|blocked by",
        label=r"""
        (?:current |known |main |active )?blockers?|blocked(?: by| on)?|impediments?|waiting (?:on|
        for)|stuck(?: on)?
        """,
        sure=r"""
        (?:is|are|am|we're|i'm) (?:currently )?(?:blocked|stuck) (?:by|on|until)|blocked (?:by|on|
        until|because|due to|pending)|blocked(?= ?[\u2014\u2013:(-] ?\w)|waiting (?:for|on) \w+|
        awaiting (?:\w+ ){0,3}(?:approval|access|credentials|sign-?off|keys?)|can(?:not|
        't) (?:continue|proceed|go on)|can(?:not|'t) (?:deploy|test|run|merge|release|verify|start|
        build|push) (?:[\w']+ ){0,6}(?:without|until|before)|(?:we're|we are|i'm|
        \A)\W{0,4}stuck (?:on|at|because)|permission denied|access denied|can(?:not|
        't) be \w+ (?:until|before|without)|(?:access|permission|generation|request) (?:is|was|
        to \w+ is) denied|(?:no|without|lacks?|missing) (?:the )?(?:access|permissions?|
        credentials) (?:to|for|on)
        """,
        weak=_NEVER,
    ),
    _words(
        DECISION,
        title=r"""
        decisions?(?: already)?(?: made| taken| log)?|assumptions?|resolutions?|choices made|
        why we chose|(?:\w+ )?choices|(?:strategy|approach|design|direction|scope) (?:confirmed|
        decided|
        locked)|agree(?:d|ments?)(?: (?:on|
        upon|approach|plan))?|deviations?|(?:accepted |key )?trade-?offs(?: made| accepted)|
        accepted trade-?offs|design rationale|why (?:we|i) (?:did|chose|use|picked|went).*|
        (?:chosen|selected) approach|approach (?:chosen|taken|selected)|rejected (?:alternatives|
        approaches|options|ideas)|considered and rejected|what (?:\w+ ){0,3}(?:decided|chose|
        agreed)|locked[ -]in|settled
        """,
        column=r"(?:key )?decisions?|recommended|assumptions?|choice|chosen|correct(?:ed)?",
        label=r"""
        (?:(?:key|technical|design|architectur\w+|final) )?decisions?(?! (?:id|documentation|
        finali[sz]ed|status|date|makers?|owner|matrix|log|urgency|points?|needed|required|
        criteria)\b)|decided|verdict|conclusion|recommendation(?! for)|fallback|assumptions?|
        assumed|chose|choice
        """,
        sure=r"""
        decided|chose|opted|settled on|went with|agreed to|(?:intentionally|
        deliberately) (?:deferred|skipped|kept|omitted|excluded)|(?:was|were|is|are|been|we|
        i) (?:chosen|
        adopted)|(?:chosen|adopted) (?:over|because|for|as)|the recommended \w+ is|is recommended|
        (?:validated and|are) recommended
        """,
        weak=r"instead of|rather than|because|rejected|deferred|assum(?:ed|ing)|prefer(?:red)?",
    ),
    _words(
        GOTCHA,
        title=r"""
        risks?|gotchas?|caveats?|warnings?|concerns?|gaps?|weak(?:ness(?:es)?| points?)|failures|
        failure modes?|(?:what |approaches that )?(?:failed(?: (?:approaches|attempts|experiments|
        ideas|solutions|tests?|checks?|builds?))?|did ?n[o']t work)|dead ends?|(?:technical )?debt|
        limitations?|anti-?patterns?|pitfalls?|threats?|discrepanc(?:y|ies)|
        watch[- ]?outs?(?: for)?|be careful|careful|to note|problems|bugs|(?:\w+ )?issues|
        root causes|vulnerabilit(?:y|ies)|traps?|errors|insufficient|shortcomings|challenges|
        difficulties|hurdles|drawbacks|workarounds|(?:sharp|rough) edges|blind spots?|regressions|
        cautions?|hidden assumptions|(?:flaky|failing|broken|skipped) (?:tests?|checks?|builds?)|
        edge cases|corrections|non-?goals|(?:doesn't|does not|not) work(?:ing)?|what(?: is|
        's) (?:wrong|missing|broken)|broken|(?:do|must) not(?: (?:do|touch|change|break|repeat|use|
        re-?\w+|modify|edit).*)?|what not to do|not to (?:do|touch|change)|don'?t(?:s| (?:touch|
        repeat|do|change|use|forget|break|re-?\w+|modify|edit).*)?|never(?: do)?|hard (?:rules|
        constraints)|invariants|non-negotiables?|lessons|learnings|
        what (?:we|i)(?:'ve| have)? learned|things learned|
        quirks?|foot-?guns?|land-?mines?|(?:non-|not )obvious(?: \w+)?|surprises?|
        heads[- ]?up|won't tell you|bit (?:us|me)|hard way|(?:worth|good to) know(?:ing)?|
        keep in mind|(?:things )?(?:to|must) (?:know|watch(?: out)?|remember|avoid)(?: for)?|
        remember{LAST}|reminders|known (?:\w+ )?(?:notes|constraints)|(?:important|
        critical) (?:notes?|details|facts)
        """,
        column=r"""
        (?:(?:known|critical|major|minor|open|high|medium|low) )?(?:risk|gap|concern|failure mode|
        threat|pitfall|anti-pattern|issue|limitation|gotcha|caveat|warning|bug|problem|root cause|
        debt)s?
        """,
        label=r"""
        risks?|important|critical(?=:)|warning|caveat|discrepancy|gotcha|caution|beware|careful|
        known (?:issue|gap|limitation|bug|problem)s?|key gap|gap|limitation|constraint|exposed|
        note well|nb|pitfall|watch[- ]?out|problem|bug|trap|quirk|key (?:discovery|finding|insight|
        learning)|critical (?:issue|note|detail)|lessons?(?: learned)?|heads[- ]?up|do not|don't|
        never|reminder|blind spot|note(?=:)
        """,
        sure=r"""
        watch out(?: for)?|be careful|beware(?: of)?|careful with|caveat|gotcha|known (?:gaps?|
        issues?|limitations?|bugs?)|highest-risk|must (?:not|never)|\A\W{0,4}(?:do not|don't|never)|
        don't (?:use|forget|touch|change|run|rush|commit|edit|rely|assume|delete|remove|merge|push|
        try|skip)|worth (?:knowing|noting|remembering)|silently (?:drop|fail|ignor|skip|swallow|los|
        truncat|overwrit|miss|disabl|discard)\w*|(?:drop|fail|ignor|skip|swallow|los|truncat|
        overwrit)\w* (?:\w+ ){0,3}silently|pitfall|(?:breaks|fails|crashes) (?:if|when|on|for|
        without)|(?:has|have|had|
        performs?|with|there is|there are) no (?:\w+ ){0,3}?(?:check(?:s|ing)?|validation|bounds|
        limits?|tests?|support|fallback|mechanism|handling|retry)|requires? (?:an? |
        the )?(?:running|manual|live|network|internet|actual)|(?<!no longer )(?:is|are) (?:just |
        only )?a (?:placeholder|stub)|(?:placeholder|stub) (?:until|implementation)|turns out|
        surprisingly|partially automated|(?:intentionally|
        deliberately) (?:not|left|dis|asymm)\w*|should not be (?:deleted|removed|changed|
        modified|committed|edited|touched|re-?\w+)|not (?:to be )?committed as-is|(?:should|
        must) (?:remain|stay) \w+|(?:trip|catch|bite) you|easy to (?:miss|forget|overlook|break)|
        cost (?:us |me )?time|(?:has|have) to be (?:re\w+|escaped|quoted|applied|set|passed|run) |
        must be (?:applied|set|run|called|passed|kept|escaped|quoted|updated) \w+|can be (?:`?null|
        none|empty|missing)|(?:won't|will not) work|only works (?:if|when|with|on)|
        (?:remember to|be aware|note that|mind that)|will (?:break|fail|crash|lose|
        overwrite|drop)|or else|causes? (?:an? |the )?(?:\w+ ){0,3}(?:failure|error|crash|deadlock|
        leak)s?
        """,
        weak=r"""
        risk|vulnerable|missing|lacks?|unvalidated|unverified|flaky|slow|wrong|hard-?coded|
        workaround|limitations?|gaps?|however|actually|re-?try|retries|time-?outs?|times out|50[0-4]
        """,
    ),
    _words(
        PATTERN,
        title=r"patterns?|conventions?|guidelines|principles|house rules|style",
        column=r"(?:code )?patterns?|conventions?|rule",
        label=r"patterns?|conventions?|rule|principle|always",
        sure=r"""
        always (?:use|call|run|check|go through|pass|write|wrap|prefer|keep)|(?:the|this|our|
        a) (?:\w+ )?pattern (?:is|here|we)|by convention|(?:follow|use|keep to|
        stick to)s? the (?:\w+[- ]){1,3}(?:pattern|convention)
        """,
        weak=r"patterns?|convention|consistently",
    ),
    _words(
        READING,
        title=r"""
        (?:mandatory|must|required|recommended|first|further|to) read(?:s|ing)?|reading|
        files (?:you(?:'ll|'d)? (?:may |will )?(?:need )?)?to (?:read|review)|read first|
        dependencies for next
        """,
        column=_NEVER,
        label=r"read(?: first)?|see first|must read",
        sure=_NEVER,
        weak=_NEVER,
    ),
    _words(
        NEXT,
        title=r"""
        next(?:{LAST}| agent| session| (?:\w+ ){0,2}(?:steps?|actions?|tasks?|work|items?|moves?|
        order|
        priorit(?:y|ies))\b)|next up|(?:pick up|continue) (?:here|from|with)|remaining|to resume|
        resume(?: (?:here|from|with|point|instructions|command|work|at)|{LAST})|resuming|
        continu(?:e|ation){LAST}|whats? left|what (?:still )?remains|what needs (?:to happen|doing)|
        what(?:'s| is) (?:left|next|open|remaining|pending|missing to)|start here|where to (?:start|
        pick up)|picking up|first thing|immediate{LAST}|upcoming|to finish|outstanding|
        what you need to do|must do|(?:your|immediate) (?:immediate )?tasks?|
        not (?:yet )?(?:started|tested|verif(?:y|ied)|done|implemented)|(?:work|task) queue|
        (?<!out )(?<!back )(?<!contingency )plan{LAST}|suggestions{LAST}|(?:build|work|merge|
        execution|
        release|migration|deploy\w*|suggested|recommended|priority|roll-?out|task) (?:order|
        sequence){LAST}|(?:\w+(?:ment|[^c]tion|ing)|release|setup|roll-?out|
        recommended) steps{LAST}|critical path(?: items)?|required (?:changes|fixes|work)|focus on|
        loose ends|(?:launch|pre-\w+) checklist|work left|
        left ?overs?{LAST}|tomorrow|when you (?:come back|return|resume|pick)|(?:to|
        how to) start{LAST}|needs? (?:\w+ )?(?:test|review|fix|verif|check|
        work)\w*|(?:un(?:tested|finished)|incomplete|parked|deferred|in progress)(?:{LAST}| (?:work|
        items?|tasks?))|(?<!no )(?:clean-?up|work|changes|fixes|tests?|testing|
        verification) (?:still )?(?:needed|required)|(?:still )?open(?: (?:threads|ends|loops|
        items?|tasks?|work|todos?|prs?))|(?<![a-z] )open{LAST}|(?:still|is|are|remains?) open{LAST}|
        (?:first|manual|pending|outstanding|
        open) (?:steps?|tasks?|work|actions?|items?)|pending(?:{LAST}| (?:work|tasks?|items?|
        actions?|changes|steps?|fixes|reviews?|tests?|testing|for|from|before|prs?|human|
        verification|implementation))|still (?:needs?|to do|open|outstanding|required|missing)|
        then{LAST}|what to do|do (?:this )?(?:next|first)|before (?:you )?(?:merg|ship|releas|
        deploy|launch)\w*|(?:later|(?:short|medium|long)[- ]term|nice[- ]to[- ]haves?(?: \w+)?|
        quick wins){LAST}|your mission|
        (?<![a-z] )next \w+{LAST}|(?:possible|future|suggested|potential) (?:improvements|
        enhancements)|to be done|how to (?:continue|resume|proceed)|future(?: work)?|to-?dos?|
        actions?(?:{LAST}| items?)|actions? (?:required|needed|pending)|should do|guidance|
        recommendations?|instructions?|priorit(?:y|ies)|phasing|(?<!how )to (?:validate|verify|do|
        apply|test|check|fix|investigate|review|address|implement|resolve|add|build|write|finish|
        complete|ship)|left to do|follow[- ]?ups?|action items|treatment sequence|requirements for|
        focus areas?|validation focus|backlog|work items|ordering|roadmap{LAST}|
        implementation (?:order|
        plan|sequence|phases|steps)|(?:should|must|shall)(?! read)(?=.*:$| do)
        """,
        column=r"""
        (?:next |recommended |required |corrective )?(?:actions?|steps?)(?: needed| required)?|
        to-?do|next steps?|test focus|validation approach|follow-?up|task
        """,
        label=r"""
        to-?dos?|left(?=:)|(?:immediate )?next(?: steps?| up| actions?| tasks?)?|
        actions?(?: items?)?|follow-?ups?|remaining|then|fixme|left to do|still to do|what (?:you|
        we) need to do|your task|suggest(?:ion|ed (?:fix|change))|required (?:fix|change)
        """,
        sure=r"""
        \A(?:next|then|after that|afterwards|finally),? (?:you |we |i |someone )?(?:should |must |
        need to |will |have to |can )?(?=[a-z]+\b)|next (?:step|up|thing)|(?-i:TODO)|
        (?<!n't )(?<!not )(?:still )?(?:needs? to|remains to) be \w+|still needs? (?:to )?\w+|
        needs (?:review|testing|
        validation|verification|tests|docs)|(?:should|must|shall) (?:now |next |then |
        be )?(?:validate|verify|confirm|focus|add|fix|write|test|check|implement|run|update|review|
        document|investigate|executed|integrate|remove|replace|move|extend|decide|finish|
        continue(?! \w+ing)|start|begin|wire|handle|make|create|build|cover|measure|restructure|
        refactor|rename|migrate|split)(?!\w*ing)\w*
        """,
        weak=r"should|must|then|next|shall|needs? to|have to|later",
    ),
)

BY_KIND = {words.kind: words for words in WORDS}

# What the other columns of a table, keys of an object and labels below an item hold.
FIELDS = {
    "why": r"(?:\w+ )?(?:rationales?|reasons?|reasoning|justification|basis)|why\b.*|motivation|"
    r"because|evidence",
    "alternatives": r"(?:\w+ )?(?:alternatives?|options?)(?: \w+)?|(?:rejected|incorrect)(?: \S+)?|"
    r"(?:considered|instead of|over)(?: .*)?",
    "remedy": r"mitigations?\b.*|(?:\w+ )?fix(?:es)?(?: (?:applied|needed))?|.*resolution|"
    r"treatment|prevention|workaround|enforcement|suggested.*|remedy|solution(?: needed)?|"
    r"recommendation|how to (?:avoid|fix).*",
    "grade": r"severity|.*priority|likelihood|level|criticality|urgency",
    "status": r"status|state|result|verdict|outcome|pass(?:ed)?",
    "aside": r"#|no\.?|nr\.?|num(?:ber)?|id|.* id|owner|agent|effort|source|origin|path|file|date|"
    r"phase|tier|timing|loc|complexity|category|(?:estimated|expected) \w+|time(?: \w+)?|duration|"
    r".*\bconsumer|timestamp|assign(?:ed|ee)?(?: to)?",
    "detail": r"impact|implementation|validation|testing|trade-?offs?|consequences?|benefits?|"
    r"details?|context|examples?|scope|implications?",
}
_FIELDS = {name: re.compile(words, re.IGNORECASE) for name, words in FIELDS.items()}


def field_of(name: str) -> str:
    """The field that a column, a key or a label names; empty if none."""
    bare = name.replace("_", " ").strip(" *`")
    return next((field for field, words in _FIELDS.items() if words.fullmatch(bare)), "")


_REFERENCE = any_of(r"""
    [\d. ]*(?:document (?:sections|control|history)|.*\bmetadata|citations?|references|
    claim-to-source.*|change (?:history|log)|traceability.*|table of contents|contents|
    revision history|glossary|sources?|.*\bstatistics.*|quality gate status|.*\bstatus|
    dimensions?|scoring bands|.*\bscores?|.*\bmetrics)
""")
_ASIDE = re.compile(r"\([^()]{0,200}\)")
_SIGNS = re.compile(r"^[^\w\s`\"'(\[<|/.~-][^\w`\"'(\[<|/.~-]*")
_OTHER = any_of(r"""
    (?:report structure|key content.*|.*integration points|dependencies|rationale|details|
    configuration items.*|key mappings.*|consume|background|context|scope|overview|
    implementation|purpose|acceptance criteria|examples?|evidence|result)s?:?
""")


# "If anything is unclear:" announces no question, and "For the next agent" facts beside steps.
_CONDITION = any_of(r"(?:if|when|in case|no)\b")
_EVERY = any_of(r"(?:all|every\w*|each|any\w*)\b")
_DONE = any_of(r"\W*(?:completed|finished|done|previous|past)\b")
_FACTS = any_of(r"\b(?:context|state|status|files|resources|references|results|time|contact)\b")
_PENDING = any_of(r"""
    (?<!decision )(?<!decisions )[(\[\u2014\u2013-] ?((?:still )?(?:pending|to-?do|
    not (?:yet )?started|next))[)\]]?$
""")
_UNMADE = any_of(r"\b(decisions?) \((?:still )?(open|pending|undecided|tbd|unresolved)\)")
_RECEIVER = any_of(r"\bnext (?:agent|session)\b|start here")
_NEXT_SESSION = any_of(r"(?:the |recommended |suggested |proposed |planned )?next sessions?")
# A heading below "Next steps" that tells of something else.
_TELLING = any_of(r"""
    \b(?:learned|remember|works|working|completed|achieved|insights?|principles|facts|
    preferences|philosophy|success|benefits?|value|pain points?|loves?|hates?|reminders?|
    symptoms|quotes?|decisions|shipped|merged|test (?:scenarios?|cases?|data|accounts?)|
    (?:success|acceptance|exit) (?:criteria|metrics)|expected (?:results?|outcomes?|behaviou?r)|
    can skip|already (?:done|handled|fixed)|no action|not needed|out of scope|time (?:spent|
    tracking)|estimates|troubleshooting|rollback|examples?|credentials|timeline|
    definition of done|scenarios)\b
""")


MAX_TITLE_WORDS = 7
MAX_SUBJECT_WORDS = 5
_NEAR = 25
_SOLVED = any_of(r"\b(?:fixe[sd]|(?<!un)resolved|(?<!un)solved|closed|addressed|answered)\b")


def is_reference(title: str) -> bool:
    """Whether a heading introduces facts about the note itself, such as references."""
    return _REFERENCE.fullmatch(title.rstrip(": ")) is not None


_SUPERSEDED = any_of(r"\b(?:superseded|obsolete|outdated|no longer (?:valid|current|applies))\b")


def is_superseded(trail: tuple[str, ...]) -> bool:
    """Whether a heading says that what is below it no longer holds."""
    return any(map(_SUPERSEDED.search, trail))


def is_solved(title: str) -> bool:
    """Whether a heading says that what is below it is over."""
    return _SOLVED.search(title) is not None


def is_exact(cue: Cue) -> bool:
    """Whether a line opens with the word alone, such as `Risk:` or `Open question:`."""
    return cue.words.endswith(":") and _ASIDE.sub("", cue.words).replace(" :", ":").count(" ") < 2


# The forms of an item: an order to do something, or a question.
_VERBS = (
    r"add|address|adjust|allow|analy[sz]e|apply|archive|ask|assess|assign|audit|backfill|begin|"
    r"benchmark|bring|choose|contact|coordinate|delegate|escalate|present|prioriti[sz]e|research|"
    r"build|bump|calibrate|call|capture|change|check|clean|clear|close|collect|commit|compare|"
    r"complete|configure|confirm|connect|consider|continue|convert|copy|cover|create|cut|debug|"
    r"decide|define|delete|deploy|design|determine|disable|discuss|document|draft|drop|enable|"
    r"ensure|evaluate|execute|expand|explore|export|expose|extend|extract|fill|finali[sz]e|find|"
    r"finish|fix|follow|gate|generate|get|grant|handle|harden|hook|implement|import|improve|"
    r"include|increase|inspect|install|integrate|introduce|investigate|keep|launch|let|link|load|"
    r"log|look|make|manage|map|measure|merge|migrate|modify|monitor|move|notify|open|optimi[sz]e|"
    r"parse|pass|patch|persist|pick|plan|polish|populate|port|post|prepare|proceed|profile|promote|"
    r"prove|provide|publish|pull|push|put|re-\w{2,12}|"
    r"re(?:build|create|deploy|do|fine|generate|install|organi[sz]e|run|structure|test|think|train|use|"
    r"work|write)|reach|read|rebase|recheck|record|reduce|"
    r"refactor|register|release|remove|rename|replace|report|request|reset|resolve|restart|restore|"
    r"resume|retry|return|review|revisit|rotate|run|save|scan|schedule|seed|send|separate|set|ship|"
    r"show|sign|simplify|smoke|spike|split|start|stop|store|submit|support|swap|switch|sync|tag|"
    r"tackle|take|test|tidy|track|train|trigger|try|tune|turn|unify|update|upgrade|upload|use|"
    r"validate|verify|wait|watch|wire|wrap|write"
)
_BEFORE_ORDER = (
    r"\W*(?:\d{1,2}[.)]\s+)?(?:(?:optional(?:ly)?|first|then|next|finally|also|now|please|immediately|p[0-3]|"
    r"(?:after|once|when|if|before|on) [^,:.]{1,60})[,:]?\s+)?"
)
ORDER = re.compile(rf"{_BEFORE_ORDER}(?:set up|clean up|follow up|{_VERBS})\b(?!:)", re.IGNORECASE)
# Those that are no nouns as well.
_PLAIN_ORDER = re.compile(
    rf"{_BEFORE_ORDER}(?:add|build|commit|complete|create|deploy|finish|fix|implement|install|"
    r"investigate|merge|migrate|move|publish|push|refactor|remove|replace|run|update|verify|write)\b"
    r"(?!:)",
    re.IGNORECASE,
)
TO_DECIDE = re.compile(
    rf"{_BEFORE_ORDER}(?:(?:start with|need to)\W+)?"
    r"(?:(?:decide|choose|clarify|figure out|agree on)\b|"
    r"(?:confirm|determine|check|ask \w+) (?:whether|if|which|what|between)\b)",
    re.IGNORECASE,
)
_ASKING = re.compile(
    r"\W*(?:whether|which|what|who|where|when|why|how (?:to|do|should|does|many|much)|should|"
    r"do we|does|is it|can we)\b|.*\?[)\"'*_]*(?:$|\s[(\u2014-])|.*\b(?:or|vs\.?) .*\?",
    re.IGNORECASE | re.DOTALL,
)


def is_question(text: str) -> bool:
    """Whether an item asks something."""
    return _ASKING.match(text[:400]) is not None or asks(text)


def asks(step: str) -> bool:
    """Whether a step is put as a question, or says that something is undecided."""
    return step.endswith("?") or BY_KIND[QUESTION].sure.search(step) is not None


# The word that announces a kind ends its phrase: "errors in the log", but not "error handling".
_TAIL = any_of(r"""
    \s*(?:$|[^\w\s]|(?:\w+ed|remains?|logs?|list|summary|notes?|analysis|assessment|register|
    overview|details?|items?|section|table|matrix|report|mitigations?|issues?|tasks?|problems?|
    and|or|for|to|from|of|by|in|on|with|within|at|before|after|during|while|when|that|which|the|we|
    i|you|is|are|still|us|me|found|identified|encountered|made|taken|resolved?|remaining|left|
    here|this|so|as|per|if|until|about|regarding|learned|needed|pending|required)\b)
""")


@lru_cache(maxsize=1_000)
def _announced(said: str) -> tuple[Cue, ...]:
    """The kinds that a heading or key names, in the order of the table."""
    if _CONDITION.match(said) or _DONE.match(said):
        return ()
    found: list[Cue] = []
    taken: list[tuple[int, int]] = []
    is_long = len(said.split()) > MAX_TITLE_WORDS
    for words in WORDS:
        match = words.title.search(said)
        if match is None or (
            words.kind not in (NEXT, READING) and not _TAIL.match(said, match.end())
        ):
            continue
        if any(match.start() < end and start < match.end() for start, end in taken):
            continue  # part of a longer name, such as "decision" in "open decisions"
        taken.append(match.span())
        # In the middle of a long line a word announces nothing.
        is_modal = match[0].lower() in ("should", "must", "shall")
        if is_modal and _EVERY.match(said):
            continue  # a rule
        if not is_long or is_modal or match.start() == 0 or match.end() >= len(said) - _NEAR:
            found.append(Cue(words.kind, 0.9, match[0].lower()))
    return tuple(found)


# Sections of remarks, in which what restricts or surprises is a gotcha.
_REMARKS = any_of(r"""
    \b(?:notes|context|constraints?|discover(?:ies|y)|observations|remarks|insights?|environment|
    platform|
    infrastructure|rules|contract|considerations|facts)\b
""")
_RESTRICTS = any_of(r"""
    \b(?:not|cannot|never|only (?:if|when|works?|way|the)|must|requires?|unless|careful|beware|
    deprecated|unsupported|intentional(?:ly)?|by design|on purpose|
    silently|duplicates?|flaky|fails?|breaks?|exceeds?|workaround|limit(?:ed|ation)s?|
    key (?:insight|discovery|finding)|note that)\b|n't\b
""")


def restricts(trail: tuple[str, ...], said: str) -> bool:
    """Whether something said among remarks restricts what may be done, or surprises."""
    title = _bare(trail[-1]) if len(trail) > 1 and len(said.split()) > 4 else ""
    if _FACTS.search(title.replace("context", "")):
        return False
    return _REMARKS.search(title) is not None and _RESTRICTS.search(said) is not None


def by_heading(trail: tuple[str, ...], said: str = "") -> Cue | None:
    """The kind announced by the headings, labels and keys above a block; the nearest decides.

    Where one names several, or what is `said` is put in another way, its form decides. Text in
    parentheses doesn't count. Questions hold only directly below, or below
    labels and keys; other kinds also below further headings. Facts for the next agent are no steps.
    """
    is_near = True
    titles = [_bare(title) for title in reversed(trail)]
    for depth, bare in enumerate(titles):
        title = trail[-1 - depth]
        is_title = depth + 1 == len(trail) and depth > 0  # it announces nothing
        if is_title or is_reference(bare) or _OTHER.fullmatch(bare):
            return None
        if pending := _PENDING.search(title):
            return Cue(NEXT, 0.8, pending[1].lower())
        cues = list(_announced(bare))
        pair = f"{bare} {titles[depth + 1]}".replace(":", "") if depth + 1 < len(titles) else ""
        if BY_KIND[QUESTION].title.fullmatch(pair):
            cues = [Cue(QUESTION, 0.9, bare)]  # what is open below decisions
        elif title.endswith(":") and field_of(bare):
            cues = []
        if is_solved(bare) and any(cue.kind in (GOTCHA, BLOCKER, QUESTION) for cue in cues):
            return None
        is_fact = _RECEIVER.search(bare) and any(map(_FACTS.search, trail[len(trail) - depth :]))
        # A heading that names decisions among other things holds for what is directly below it.
        is_short = len(bare.split()) <= MAX_SUBJECT_WORDS
        wide = () if is_fact else (NEXT, GOTCHA, BLOCKER, *((DECISION,) if is_short else ()))
        cues = [cue for cue in cues if is_near or cue.kind in wide]
        is_addressed = said and cues and _RECEIVER.search(cues[0].words) is not None
        is_addressed = is_addressed and not _NEXT_SESSION.fullmatch(bare)
        if is_addressed and not _announced(_RECEIVER.sub("", bare)) and not is_to_do(said):
            cues = []  # a fact for the next session
        if cues:
            cue = _by_form(cues, said)
            return cue._replace(confidence=0.9 - 0.05 * min(depth, 3))
        if _TELLING.search(bare) or _DONE.match(bare):
            return None
        is_near = is_near and title.endswith(":")
    return None


_ORDER_TITLE = any_of(r"""
    \W*(?:\d+[.)] ?)?(?:build|verify|implement|test|fix|deploy|check|validate|finish|ship|
    migrate|do)(?: (?:it|this|these|first|now|next))?|(?:\w+ )?tasks
""")


def by_order(trail: tuple[str, ...], said: str) -> Cue | None:
    """Entries of a list below a heading such as `Verify` are steps, unless they are commands."""
    title = trail[-1] if len(trail) > 1 else ""
    is_order = _ORDER_TITLE.fullmatch(title) is not None and not said.startswith(("`", "$"))
    return Cue(NEXT, 0.7, title.lower()) if is_order else None


def is_to_do(said: str) -> bool:
    """Whether a sentence is put as an order, or says that something should be done."""
    is_order = ORDER.match(said.replace(":", "", 1)) is not None
    return is_order or BY_KIND[NEXT].sure.search(said) is not None


def _by_form(cues: list[Cue], said: str) -> Cue:
    """The kind of an item whose heading names several: a question, an order, or what its words say.
    A plain order among questions is a step.
    """
    by_kind = {cue.kind: cue for cue in cues}
    is_asked = is_question(said) or TO_DECIDE.match(said) is not None
    if QUESTION in by_kind and said and not is_asked:
        if _PLAIN_ORDER.match(said):
            return by_kind[QUESTION]._replace(kind=NEXT)
        return next((cue for cue in cues if cue.kind != QUESTION), cues[0])
    if NEXT in by_kind and BLOCKER not in by_kind and ORDER.match(said):
        return by_kind[NEXT]
    words = by_words(said) if said and len(cues) > 1 else None
    return by_kind.get(words.kind, cues[0]) if words else cues[0]


def _bare(title: str) -> str:
    """A heading or key in plain words: `nextSteps:` as `next Steps`."""
    spaced = _NUMBERING.sub("", _CAMEL.sub(" ", title) if " " not in title else title)
    return _ASIDE.sub("", _UNMADE.sub(r"\1 \2", spaced)).replace("_", " ").strip()


_NUMBERING = re.compile(r"\A(?:\d{1,2}[.)] +)?(?:[^\w\s(\[\"'`<]+ )?")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def by_column(name: str) -> Cue | None:
    """The kind announced by the name of a column or member."""
    named = _ASIDE.sub("", name.replace("_", " ")).strip()
    return _first_cue(0.9, ((words.kind, words.column.fullmatch(named)) for words in WORDS))


def by_name(name: str) -> Cue | None:
    """The kind announced by a label, with or without further words: `Open question for Ann`."""
    return by_column(name) or by_opening(f"{name}:")


def snake_case(key: str) -> str:
    """The name of a key as `next_steps`, however it is spelled."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[\W_]+", "_", key[:80].rstrip(":")).lower()


def without_signs(text: str) -> str:
    """A line without emoji and marks before its first word."""
    return _SIGNS.sub("", text, count=1)


_SNAKE = re.compile(r"\A[a-z]+(?:_[a-z]+)+(?=:)")


def by_opening(text: str) -> Cue | None:
    """The kind that a line names before its first colon."""
    bare = _SNAKE.sub(lambda match: match[0].replace("_", " "), without_signs(text))
    cue = _first_cue(0.9, ((words.kind, words.label.match(bare)) for words in WORDS))
    if cue and cue.kind == GOTCHA and is_solved(cue.words):
        return None
    if cue and cue.words == "recommendation:" and ORDER.match(bare, len(cue.words)):
        cue = cue._replace(kind=NEXT)
    return cue or (Cue(GOTCHA, 0.8, "\u26a0") if text.startswith("\u26a0") else None)


_NO = any_of(r"\W*(?:no|nothing|none|neither)\b")
_REPAIR = any_of(r"""
    \W*(?:(?:fix|resolve|repair|debug|investigate|implement)\b|(?:fix|resolv|repair|debugg|
    investigat|implement|add|remov|updat|refactor|creat|replac|improv|chang|mov|merg|clean)ed\b)
""")
_CHECK = any_of(r"(?:does|do(?! (?:we|you))|did|is|are(?! we)|was|were|has|have)\b")


def by_words(text: str) -> Cue | None:
    """The kind shown by the words of a sentence."""
    if text.endswith("?"):
        # What a reader should verify is asked for a yes or no; it is nothing that nobody knows.
        return None if _CHECK.match(without_signs(text)) else Cue(QUESTION, 0.7, "?")
    # "No field needs to be added" is nothing to do, "Fix the crash when it starts" no warning.
    excluded = (NEXT, BLOCKER) if _NO.match(text) else (GOTCHA,) if _REPAIR.match(text) else ()
    told = (words for words in WORDS if words.kind not in excluded)
    return _first_cue(0.6, ((words.kind, words.sure.search(text)) for words in told))


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

MAX_LEAD_WORDS = 4

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
# A tag on a line of its own, as templates for agents use them, begins or ends a section.
_TAG = re.compile(r"[ \t]*<(/?)([A-Za-z][\w-]{2,40})>[ \t]*")
_TAG_LEVEL = 1.5
_HTML = frozenset({"details", "summary", "div", "span", "table", "tbody", "thead", "pre", "code"})
_SETEXT = re.compile(r" {0,3}(=+|-+)[ \t]*")
# A checkbox makes an item of a line, with or without a bullet before it.
_ITEM = re.compile(
    r"([ \t]*)(?:(?:[-*+\u2022]|\d{1,9}[.)])[ \t]+(?:\[([ xX])\][ \t]+)?|\[([ xX])\][ \t]+)(?=\S)"
)
_BOLD_TOPIC = re.compile(r"\*\*[^*:\n]{2,60}(?::\*\*|\*\*:)[ \t]+\S")
_OPEN_SIGN = re.compile("[\u2610\u2b1c\u23f3\U0001f532]")
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
    bold = text.strip()
    bare = bold.strip("*_ ")
    if len(bare) > MAX_LABEL:
        return False
    if bare.endswith("?"):
        return bold.startswith("**") and bold.endswith("**") and field_of(bare) == "why"
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
    is_known = is_bold or field_of(match[1]) or by_name(match[1])
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
    if not any(field_of(name) or by_name(name) for name in names[1:] if name):
        return ()
    said = (clean("\n".join(lines)) for lines in texts)
    return tuple(Cell(n, t, *span) for n, t, span in zip(names, said, spans, strict=True) if t)


class _BlockParser:
    """Parses Markdown and plain text line by line; indented text below an item belongs to it."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.found: list[Block] = []
        self.headings: list[tuple[float, str]] = []
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
        heading, tag = _HEADING.fullmatch(text), _TAG.fullmatch(text)
        if tag and tag[2].lower() not in _HTML:
            self._tag(tag, line)
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

    def _tag(self, tag: re.Match[str], line: Line) -> None:
        """Begin the section that a tag names, below an empty title where the note has none."""
        if tag[1]:
            self.close()
            self.headings = [above for above in self.headings if above[0] < _TAG_LEVEL]
            self.label = ""
        else:
            self._head(_TAG_LEVEL, tag[2].replace("_", " ").replace("-", " "), line)

    def _head(self, level: float, title: str, line: Line) -> None:
        self.close()
        self.headings = [above for above in self.headings if above[0] < level]
        if level > 1 and not self.headings:
            self.headings = [(1, "")]  # a note without a title
        self.label = ""
        self.columns = []
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
                text = " | ".join(names)
                self._add(Block("row", text, line.start, line.end, line.number, cells=cells))

    def _prose(self, line: Line, text: str) -> None:
        begin = line.end - len(text)
        item = _ITEM.match(text) if len(text) <= MAX_MARKUP else None
        # An unindented sentence below an item isn't part of it.
        is_apart = self.form == "item" and not self.is_gap and text[:1].isupper()
        if self._is_opening(text) or (is_apart and self._is_line_over()):
            self.close()
        if item:
            self._item(line, begin, item)
        elif is_struck(text):
            self.close()
            self._begin("item", line, begin)
            self.check = "done"
            self.close()
        elif self.form == "item" and self._is_key(text):
            self._lead(line, begin)
        elif self.form == "item" and (not self.is_gap or text[:1].isspace()):
            self.end = line.end
            self.is_gap = False
        elif is_label(text) and not self._is_wrapped(text):
            self._lead(line, begin)
        elif self.form == "text" and not self._is_other_fact(text):
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
        return _opens_kind(text) or (bool(name) and by_name(name) is not None)

    def _is_wrapped(self, text: str) -> bool:
        """Whether a line goes on with the sentence of the line before."""
        return self.form == "text" and text[:1].islower() and not self._is_line_over()

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
        is_lead = is_label(above) and len(above.split()) <= MAX_LEAD_WORDS
        is_lead = is_lead and not ORDER.match(clean(above))
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
                is_topic = bool(self.label) and _BOLD_TOPIC.match(text) is not None
                if not is_topic or last.endswith(":"):
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
    is_open = item[2] or item[3] or _OPEN_SIGN.match(item.string, item.end())
    return "done" if is_done else "todo" if is_open else ""


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
    try:
        if stripped.startswith(("{", "[")) and json.loads(stripped) is not None:
            return True
    except (ValueError, RecursionError):
        pass
    return name.lower().endswith(YAML_SUFFIXES) and _is_yaml(text)


def _is_yaml(text: str) -> bool:
    try:
        return isinstance(load_yaml(text), dict | list)
    except InvalidInput:
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
            yield from _blocks(
                part, keys if is_list else (*keys, f"{key}:"), places, is_entry=is_list
            )


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
        kinds = {cue.kind for key, _ in node.members if (cue := by_column(key))}
        has_why = any(field_of(key) == "why" for key, _ in node.members)
        is_flat = all(inner.form == "scalar" for part in parts for _, inner in part.members)
        return kinds == {DECISION} and has_why and is_flat
    if by_heading(keys) is None:
        return is_entry and all(part.form == "scalar" for part in parts)
    if any(inner.form != "scalar" for part in parts for _, inner in part.members):
        return False
    is_named = any(field_of(key) or by_column(key) for key, _ in node.members)
    return is_named or (is_entry and all(part.form != "object" for part in parts))

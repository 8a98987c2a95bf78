"""The words that show what a part of a note is: one table for headings, keys, columns, labels and
sentences, and the functions that look a text up in it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

DECISION, GOTCHA, PATTERN, NEXT, QUESTION, BLOCKER, READING, GATE = (
    *("decisions", "gotchas", "patterns_discovered", "suggested_next_steps"),
    *("open_questions", "blockers", "dependencies_for_next", "gates"),
)
Trail = tuple[str, ...]
"""The headings, labels and keys above a block, outermost first."""


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


def any_of(source: str) -> re.Pattern[str]:
    """A pattern without regard to case; it may be broken into indented lines after any `|`."""
    return re.compile("".join(map(str.strip, source.split("\n"))), re.IGNORECASE)


_NEVER = r"(?!)"
# Where a word announces something only if it ends the heading: {LAST} in the table.
_LAST = r"(?= ?$| ?[:(,&/+\u2014\u2013]| -)"


def _words(
    kind: str, *, title: str, column: str, label: str, sure: str = _NEVER, weak: str = _NEVER
) -> Words:
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


# The first kind that matches decides; where a heading names several, so does the item's form.
WORDS: tuple[Words, ...] = (
    _words(
        QUESTION,
        title=r"""
        (?:open|pending|deferred|outstanding|unresolved|undecided|remaining|
        unmade) (?:sub-?)?(?:questions?|points|decisions?|choices)|decisions? (?:open|pending|
        deferred|undecided|tbd|unresolved)|questions|unresolved|unknowns?|uncertain(?:ty|ties)?|
        unclear|undecided|to (?:decide|clarify|discuss|be (?:decided|determined|confirmed))|tbd|
        decisions? (?:needed|required|to (?:make|take)|for (?:you|the user))|(?:needs?|awaiting|
        waiting for|requires?) (?:your |user |human |a |an )?(?:input|decisions?|answers?|
        confirmation|clarification|feedback)|(?:things|points|topics) to (?:decide|clarify|discuss|
        confirm)|ask (?:the )?user|clarifications? needed|(?:for|to) discussion|discussion points|
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
    ),
    _words(
        DECISION,
        title=r"""
        decisions?(?: already)?(?: made| taken| log)?|assumptions?|resolutions?|choices made|
        why we chose|(?:\w+ )?choices|(?:strategy|approach|design|direction|scope) (?:confirmed|
        decided|locked)|agree(?:d|ments?)(?: (?:on|upon|approach|plan))?|deviations?|(?:accepted |
        key )?trade-?offs(?: made| accepted)|accepted trade-?offs|design rationale|why (?:we|
        i) (?:did|chose|use|picked|went).*|(?:chosen|selected) approach|approach (?:chosen|taken|
        selected)|rejected (?:alternatives|approaches|options|ideas)|considered and rejected|
        what (?:\w+ ){0,3}(?:decided|chose|agreed)|locked[ -]in|settled
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
        i) (?:chosen|adopted)|(?:chosen|adopted) (?:over|because|for|as)|the recommended \w+ is|
        is recommended|(?:validated and|are) recommended
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
        constraints)|invariants|non-negotiables?|lessons|learnings|what (?:we|
        i)(?:'ve| have)? learned|things learned|quirks?|foot-?guns?|land-?mines?|(?:non-|
        not )obvious(?: \w+)?|surprises?|heads[- ]?up|won't tell you|bit (?:us|me)|hard way|
        (?:worth|good to) know(?:ing)?|keep in mind|(?:things )?(?:to|must) (?:know|watch(?: out)?|
        remember|avoid)(?: for)?|remember{LAST}|reminders|known (?:\w+ )?(?:notes|constraints)|
        (?:important|critical) (?:notes?|details|facts)
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
        without)|(?:has|have|had|performs?|with|there is|there are) no (?:\w+ ){0,3}?(?:check(?:s|
        ing)?|validation|bounds|limits?|tests?|support|fallback|mechanism|handling|retry)|
        requires? (?:an? |the )?(?:running|manual|live|network|internet|actual)|
        (?<!no longer )(?:is|are) (?:just |only )?a (?:placeholder|stub)|(?:placeholder|
        stub) (?:until|implementation)|turns out|surprisingly|partially automated|(?:intentionally|
        deliberately) (?:not|left|dis|asymm)\w*|should not be (?:deleted|removed|changed|modified|
        committed|edited|touched|re-?\w+)|not (?:to be )?committed as-is|(?:should|must) (?:remain|
        stay) \w+|(?:trip|catch|bite) you|easy to (?:miss|forget|overlook|break)|cost (?:us |
        me )?time|(?:has|have) to be (?:re\w+|escaped|quoted|applied|set|passed|run) |
        must be (?:applied|set|run|called|passed|kept|escaped|quoted|updated) \w+|can be (?:`?null|
        none|empty|missing)|(?:won't|will not) work|only works (?:if|when|with|on)|(?:remember to|
        be aware|note that|mind that)|will (?:break|fail|crash|lose|overwrite|drop)|or else|
        causes? (?:an? |the )?(?:\w+ ){0,3}(?:failure|error|crash|deadlock|leak)s?
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
    ),
    _words(
        NEXT,
        title=r"""
        next(?:{LAST}| agent| session| (?:\w+ ){0,2}(?:steps?|actions?|tasks?|work|items?|moves?|
        order|priorit(?:y|ies))\b)|next up|(?:pick up|continue) (?:here|from|with)|remaining|
        to resume|resume(?: (?:here|from|with|point|instructions|command|work|at)|{LAST})|resuming|
        continu(?:e|ation){LAST}|whats? left|what (?:still )?remains|what needs (?:to happen|doing)|
        what(?:'s| is) (?:left|next|open|remaining|pending|missing to)|start here|where to (?:start|
        pick up)|picking up|first thing|immediate{LAST}|upcoming|to finish|outstanding|
        what you need to do|must do|(?:your|immediate) (?:immediate )?tasks?|
        not (?:yet )?(?:started|tested|verif(?:y|ied)|done|implemented)|(?:work|task) queue|
        (?<!out )(?<!back )(?<!contingency )plan{LAST}|suggestions{LAST}|(?:build|work|merge|
        execution|release|migration|deploy\w*|suggested|recommended|priority|roll-?out|
        task) (?:order|sequence){LAST}|(?:\w+(?:ment|[^c]tion|ing)|release|setup|roll-?out|
        recommended) steps{LAST}|critical path(?: items)?|required (?:changes|fixes|work)|focus on|
        loose ends|(?:launch|pre-\w+) checklist|work left|left ?overs?{LAST}|tomorrow|
        when you (?:come back|return|resume|pick)|(?:to|how to) start{LAST}|needs? (?:\w+ )?(?:test|
        review|fix|verif|check|work)\w*|(?:un(?:tested|finished)|incomplete|parked|deferred|
        in progress)(?:{LAST}| (?:work|items?|tasks?))|(?<!no )(?:clean-?up|work|changes|fixes|
        tests?|testing|verification) (?:still )?(?:needed|required)|(?:still )?open(?: (?:threads|
        ends|loops|items?|tasks?|work|todos?|prs?))|(?<![a-z] )open{LAST}|(?:still|is|are|
        remains?) open{LAST}|(?:first|manual|pending|outstanding|open) (?:steps?|tasks?|work|
        actions?|items?)|pending(?:{LAST}| (?:work|tasks?|items?|actions?|changes|steps?|fixes|
        reviews?|tests?|testing|for|from|before|prs?|human|verification|implementation))|
        still (?:needs?|to do|open|outstanding|required|missing)|then{LAST}|what to do|
        do (?:this )?(?:next|first)|before (?:you )?(?:merg|ship|releas|deploy|launch)\w*|(?:later|
        (?:short|medium|long)[- ]term|nice[- ]to[- ]haves?(?: \w+)?|quick wins){LAST}|your mission|
        (?<![a-z] )next \w+{LAST}|(?:possible|future|suggested|potential) (?:improvements|
        enhancements)|to be done|how to (?:continue|resume|proceed)|future(?: work)?|to-?dos?|
        actions?(?:{LAST}| items?)|actions? (?:required|needed|pending)|should do|guidance|
        recommendations?|instructions?|priorit(?:y|ies)|phasing|(?<!how )to (?:validate|verify|do|
        apply|test|check|fix|investigate|review|address|implement|resolve|add|build|write|finish|
        complete|ship)|left to do|follow[- ]?ups?|action items|treatment sequence|requirements for|
        focus areas?|validation focus|backlog|work items|ordering|roadmap{LAST}|
        implementation (?:order|plan|sequence|phases|steps)|(?:should|must|
        shall)(?! read)(?=.*:$| do)
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
        needs (?:review|testing|validation|verification|tests|docs)|(?:should|must|shall) (?:now |
        next |then |be )?(?:validate|verify|confirm|focus|add|fix|write|test|check|implement|run|
        update|review|document|investigate|executed|integrate|remove|replace|move|extend|decide|
        finish|continue(?! \w+ing)|start|begin|wire|handle|make|create|build|cover|measure|
        restructure|refactor|rename|migrate|split)(?!\w*ing)\w*
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


# Headings below which nothing is announced by those above them.
_REFERENCE = any_of(r"""
    [\d. ]*(?:document (?:sections|control|history)|.*\bmetadata|citations?|references|
    claim-to-source.*|change (?:history|log)|traceability.*|(?:table of )?contents|revision history|
    glossary|sources?|.*\bstatistics.*|.*\bstatus|dimensions?|scoring bands|.*\bscores?|.*\bmetrics)
""")
_OTHER = any_of(r"""
    (?:report structure|key content.*|.*integration points|dependencies|rationale|details|
    configuration items.*|key mappings.*|consume|background|context|scope|overview|implementation|
    purpose|acceptance criteria|examples?|evidence|result)s?:?
""")
_TELLING = any_of(r"""
    \A\W*(?:completed|finished|done|previous|past)\b|\b(?:learned|remember|works|working|completed|
    achieved|insights?|principles|facts|preferences|philosophy|success|benefits?|value|pain points?|
    loves?|hates?|reminders?|symptoms|quotes?|decisions|shipped|merged|test (?:scenarios?|cases?|
    data|accounts?)|(?:success|acceptance|exit) (?:criteria|metrics)|expected (?:results?|outcomes?|
    behaviou?r)|can skip|already (?:done|handled|fixed)|no action|not needed|out of scope|
    time (?:spent|tracking)|estimates|troubleshooting|rollback|examples?|credentials|timeline|
    definition of done|scenarios)\b
""")
# "If anything is unclear:" announces no question, and "Completed next steps" no steps.
_NO_TITLE = any_of(r"(?:if|when|in case|no)\b|\W*(?:completed|finished|done|previous|past)\b")
_EVERY = any_of(r"(?:all|every\w*|each|any\w*)\b")
# "For the next agent" has facts beside steps.
_FACTS = any_of(r"\b(?:context|state|status|files|resources|references|results|time|contact)\b")
_RECEIVER = any_of(r"\bnext (?:agent|session)\b|start here")
_NEXT_SESSION = any_of(r"(?:the |recommended |suggested |proposed |planned )?next sessions?")
_PENDING = any_of(r"""
    (?<!decision )(?<!decisions )[(\[\u2014\u2013-] ?((?:still )?(?:pending|to-?do|
    not (?:yet )?started|next))[)\]]?$
""")
_UNMADE = any_of(r"\b(decisions?) \((?:still )?(open|pending|undecided|tbd|unresolved)\)")
_SOLVED = any_of(r"\b(?:fixe[sd]|(?<!un)resolved|(?<!un)solved|closed|addressed|answered)\b")
_SUPERSEDED = any_of(r"\b(?:superseded|obsolete|outdated|no longer (?:valid|current|applies))\b")
_ORDER_TITLE = any_of(r"""
    \W*(?:\d+[.)] ?)?(?:build|verify|implement|test|fix|deploy|check|validate|finish|ship|migrate|
    do)(?: (?:it|this|these|first|now|next))?|(?:\w+ )?tasks
""")
# The word that announces a kind ends its phrase: "errors in the log", but not "error handling".
_TAIL = any_of(r"""
    \s*(?:$|[^\w\s]|(?:\w+ed|remains?|logs?|list|summary|notes?|analysis|assessment|register|
    overview|details?|items?|section|table|matrix|report|mitigations?|issues?|tasks?|problems?|and|
    or|for|to|from|of|by|in|on|with|within|at|before|after|during|while|when|that|which|the|we|i|
    you|is|are|still|us|me|found|identified|encountered|made|taken|resolved?|remaining|left|here|
    this|so|as|per|if|until|about|regarding|learned|needed|pending|required)\b)
""")
# Sections of remarks, in which what restricts or surprises is a gotcha.
_REMARKS = any_of(r"""
    \b(?:notes|context|constraints?|discover(?:ies|y)|observations|remarks|insights?|environment|
    platform|infrastructure|rules|contract|considerations|facts)\b
""")
_RESTRICTS = any_of(r"""
    \b(?:not|cannot|never|only (?:if|when|works?|way|the)|must|requires?|unless|careful|beware|
    deprecated|unsupported|intentional(?:ly)?|by design|on purpose|silently|duplicates?|flaky|
    fails?|breaks?|exceeds?|workaround|limit(?:ed|ation)s?|key (?:insight|discovery|finding)|
    note that)\b|n't\b
""")
_ASIDE = re.compile(r"\([^()]{0,200}\)")
_SIGNS = re.compile(r"^[^\w\s`\"'(\[<|/.~-][^\w`\"'(\[<|/.~-]*")
_NUMBERING = re.compile(r"\A(?:\d{1,2}[.)] +)?(?:[^\w\s(\[\"'`<]+ )?")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

# The forms of an item: an order to do something, or a question.
_VERBS = (
    r"add|address|adjust|allow|analy[sz]e|apply|archive|ask|assess|assign|audit|backfill|begin|"
    r"benchmark|bring|build|bump|calibrate|call|capture|change|check|choose|clean|clear|close|"
    r"collect|commit|compare|complete|configure|confirm|connect|consider|contact|continue|convert|"
    r"coordinate|copy|cover|create|cut|debug|decide|define|delegate|delete|deploy|design|determine|"
    r"disable|discuss|document|draft|drop|enable|ensure|escalate|evaluate|execute|expand|explore|"
    r"export|expose|extend|extract|fill|finali[sz]e|find|finish|fix|follow|gate|generate|get|grant|"
    r"handle|harden|hook|implement|import|improve|include|increase|inspect|install|integrate|"
    r"introduce|investigate|keep|launch|let|link|load|log|look|make|manage|map|measure|merge|"
    r"migrate|modify|monitor|move|notify|open|optimi[sz]e|parse|pass|patch|persist|pick|plan|polish|"
    r"populate|port|post|prepare|present|prioriti[sz]e|proceed|profile|promote|prove|provide|publish|"
    r"pull|push|put|re-\w{2,12}|re(?:build|check|create|deploy|do|fine|generate|install|organi[sz]e|"
    r"run|structure|test|think|train|use|work|write)|reach|read|rebase|record|reduce|refactor|"
    r"register|release|remove|rename|replace|report|request|research|reset|resolve|restart|restore|"
    r"resume|retry|return|review|revisit|rotate|run|save|scan|schedule|seed|send|separate|set|ship|"
    r"show|sign|simplify|smoke|spike|split|start|stop|store|submit|support|swap|switch|sync|tackle|"
    r"tag|take|test|tidy|track|train|trigger|try|tune|turn|unify|update|upgrade|upload|use|validate|"
    r"verify|wait|watch|wire|wrap|write|set up|clean up|follow up"
)
_BEFORE_ORDER = (
    r"\W*(?:\d{1,2}[.)]\s+)?(?:(?:optional(?:ly)?|first|then|next|finally|also|now|please|"
    r"immediately|p[0-3]|(?:after|once|when|if|before|on) [^,:.]{1,60})[,:]?\s+)?"
)
ORDER = re.compile(rf"{_BEFORE_ORDER}(?:{_VERBS})\b(?!:)", re.IGNORECASE)
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
_NO = any_of(r"\W*(?:no|nothing|none|neither)\b")
_REPAIR = any_of(r"\W*(?:fix|resolve|repair|debug|investigate|implement|\w+ed)\b")

MAX_TITLE_WORDS = 7
MAX_SUBJECT_WORDS = 5
_NEAR = 25


def is_reference(title: str) -> bool:
    """Whether a heading introduces facts about the note itself, such as references."""
    return _REFERENCE.fullmatch(title.rstrip(": ")) is not None


def is_superseded(trail: Trail) -> bool:
    """Whether a heading says that what is below it no longer holds."""
    return any(map(_SUPERSEDED.search, trail))


def is_solved(title: str) -> bool:
    """Whether a heading says that what is below it is over."""
    return _SOLVED.search(title) is not None


def is_exact(cue: Cue | None) -> bool:
    """Whether a line opens with the word alone, such as `Risk:` or `Open question:`."""
    words = _ASIDE.sub("", cue.words).replace(" :", ":") if cue else ""
    return words.endswith(":") and words.count(" ") < 2


def asks(step: str) -> bool:
    """Whether a step is put as a question, or says that something is undecided."""
    return step.endswith("?") or BY_KIND[QUESTION].sure.search(step) is not None


def is_to_do(said: str) -> bool:
    """Whether a sentence is put as an order, or says that something should be done."""
    is_order = ORDER.match(said.replace(":", "", 1)) is not None
    return is_order or BY_KIND[NEXT].sure.search(said) is not None


def restricts(trail: Trail, said: str) -> bool:
    """Whether something said among remarks restricts what may be done, or surprises."""
    title = _plain(trail[-1]) if len(trail) > 1 and len(said.split()) > 4 else ""
    if _FACTS.search(title.replace("context", "")):
        return False
    return _REMARKS.search(title) is not None and _RESTRICTS.search(said) is not None


def by_heading(trail: Trail, said: str = "") -> Cue | None:
    """The kind announced by the headings, labels and keys above a block; the nearest decides.

    Where one names several, or what is `said` is put in another way, its form decides. Text in
    parentheses doesn't count. Questions hold only directly below, or below labels and keys; other
    kinds also below further headings. Facts for the next agent are no steps.
    """
    is_near = True
    titles = [_plain(title) for title in reversed(trail)]
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
        if cues and said and _is_fact_for_receiver(bare, cues[0], said):
            cues = []
        if cues:
            return _by_form(cues, said)._replace(confidence=0.9 - 0.05 * min(depth, 3))
        if _TELLING.search(bare):
            return None
        is_near = is_near and title.endswith(":")
    return None


def _is_fact_for_receiver(bare: str, cue: Cue, said: str) -> bool:
    """Whether an item below a heading such as `For the next session` is a fact, not a step."""
    is_addressed = _RECEIVER.search(cue.words) and not _NEXT_SESSION.fullmatch(bare)
    return bool(is_addressed) and not _announced(_RECEIVER.sub("", bare)) and not is_to_do(said)


@lru_cache(maxsize=1_000)
def _announced(said: str) -> tuple[Cue, ...]:
    """The kinds that a heading or key names, in the order of the table."""
    found: list[Cue] = []
    taken: list[tuple[int, int]] = []
    is_long = len(said.split()) > MAX_TITLE_WORDS
    for words in WORDS if not _NO_TITLE.match(said) else ():
        match = words.title.search(said)
        is_phrase = words.kind in (NEXT, READING)
        if match is None or not (is_phrase or _TAIL.match(said, match.end())):
            continue
        if any(match.start() < end and start < match.end() for start, end in taken):
            continue  # part of a longer name, such as "decision" in "open decisions"
        taken.append(match.span())
        is_modal = match[0].lower() in ("should", "must", "shall")
        if is_modal and _EVERY.match(said):
            continue  # a rule
        # In the middle of a long line a word announces nothing.
        if not is_long or is_modal or match.start() == 0 or match.end() >= len(said) - _NEAR:
            found.append(Cue(words.kind, 0.9, match[0].lower()))
    return tuple(found)


def _by_form(cues: list[Cue], said: str) -> Cue:
    """The kind of an item whose heading names several: a question, an order, or what its words say.
    A plain order among questions is a step.
    """
    by_kind = {cue.kind: cue for cue in cues}
    is_asked = _ASKING.match(said[:400]) or asks(said) or TO_DECIDE.match(said)
    if QUESTION in by_kind and said and not is_asked:
        if ORDER.match(said):
            return by_kind[QUESTION]._replace(kind=NEXT)
        return next((cue for cue in cues if cue.kind != QUESTION), cues[0])
    if NEXT in by_kind and BLOCKER not in by_kind and ORDER.match(said):
        return by_kind[NEXT]
    words = by_words(said) if said and len(cues) > 1 else None
    return by_kind.get(words.kind, cues[0]) if words else cues[0]


def by_order(trail: Trail, said: str) -> Cue | None:
    """Entries of a list below a heading such as `Verify` are steps, unless they are commands."""
    title = trail[-1] if len(trail) > 1 else ""
    is_order = _ORDER_TITLE.fullmatch(title) is not None and not said.startswith(("`", "$"))
    return Cue(NEXT, 0.7, title.lower()) if is_order else None


def _plain(title: str) -> str:
    """A heading or key in plain words: `nextSteps:` as `next Steps`."""
    spaced = _NUMBERING.sub("", _CAMEL.sub(" ", title) if " " not in title else title)
    return _ASIDE.sub("", _UNMADE.sub(r"\1 \2", spaced)).replace("_", " ").strip()


def snake_case(key: str) -> str:
    """The name of a key as `next_steps`, however it is spelled."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[\W_]+", "_", key[:80].rstrip(":")).lower()


def without_signs(text: str) -> str:
    """A line without emoji and marks before its first word."""
    return _SIGNS.sub("", text, count=1)


def by_column(name: str) -> Cue | None:
    """The kind announced by the name of a column or member."""
    named = _ASIDE.sub("", name.replace("_", " ")).strip()
    return _first_cue(0.9, ((words.kind, words.column.fullmatch(named)) for words in WORDS))


def by_name(name: str) -> Cue | None:
    """The kind announced by a label, with or without further words: `Open question for Ann`."""
    return by_column(name) or by_opening(f"{name}:")


def by_opening(text: str) -> Cue | None:
    """The kind that a line names before its first colon."""
    bare = without_signs(text)
    cue = _first_cue(0.9, ((words.kind, words.label.match(bare)) for words in WORDS))
    if cue and cue.kind == GOTCHA and is_solved(cue.words):
        return None
    if cue and cue.words == "recommendation:" and ORDER.match(bare, len(cue.words)):
        cue = cue._replace(kind=NEXT)
    return cue or (Cue(GOTCHA, 0.8, "\u26a0") if text.startswith("\u26a0") else None)


def by_words(text: str) -> Cue | None:
    """The kind shown by the words of a sentence."""
    if text.endswith("?"):
        return Cue(QUESTION, 0.7, "?")
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

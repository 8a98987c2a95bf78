"""What the words of a note announce: headings, keys, columns and labels by one table of nouns and
idioms, sentences by another.

A name is cut into phrases. A noun counts where it ends its phrase: "Errors in the log" announces
gotchas, "Error handling" nothing. Words such as "next" or "open" turn ordinary nouns into steps and
questions, words such as "fixed" say that everything below is over.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from passdown.core.words import CAMEL_CASE

if TYPE_CHECKING:
    from collections.abc import Iterator

DECISION, GOTCHA, PATTERN, NEXT, QUESTION, BLOCKER, READING, GATE = (
    *("decisions", "gotchas", "patterns_discovered", "suggested_next_steps"),
    *("open_questions", "blockers", "dependencies_for_next", "gates"),
)
KIND_ORDER = (QUESTION, BLOCKER, DECISION, GOTCHA, PATTERN, READING, NEXT)
"""Where a name has several kinds, the first is taken unless the form of an item decides."""
Trail = tuple[str, ...]
"""The headings, labels and keys above a block, outermost first."""

OVER, PLAIN, REMARKS, RECEIVER = "over", "plain", "remarks", "receiver"
"""Sections without a kind: what is done, what only describes, remarks, facts for the receiver."""


class Cue(NamedTuple):
    """A sign of an item: its kind, the confidence, and the words that show it."""

    kind: str
    confidence: float
    words: str


class Section(NamedTuple):
    """What the headings above a block announce: kinds, most likely first, or a mood."""

    kinds: tuple[str, ...] = ()
    mood: str = ""
    words: str = ""
    confidence: float = 0.0


def any_of(source: str) -> re.Pattern[str]:
    """A pattern without regard to case; it may be broken into indented lines after any `|`."""
    return re.compile("".join(map(str.strip, source.split("\n"))), re.IGNORECASE)


# Names

# Nouns by kind, and words by what they do in a name:
# - plural: announces something in the plural only ("Error handling", "Suggestion 6")
# - work: a step if a word of `ahead` is before it; sequence: if one of `process` is
# - undecided: makes a question of decisions
# - over, plain, remarks: what is done, what only describes, and remarks
# - containers: may follow a noun without taking its place ("Decision log")
# - stop: ends a phrase; of: what follows describes the phrase before it, unless that is a holder
_VOCABULARY = """
open_questions: question unknown uncertainty clarification undecided unresolved unclear tbd
blockers: blocker impediment obstacle showstopper show-stopper blocked stuck
decisions: decision assumption choice deviation agreement agreed tradeoff trade-off decided
    locked-in settled
gotchas: risk gotcha caveat warning concern gap weakness failure limitation pitfall trap issue
    bug problem debt error vulnerability anti-pattern antipattern threat discrepancy challenge
    difficulty hurdle drawback workaround regression lesson learning quirk footgun foot-gun
    landmine surprise reminder invariant danger caution shortcoming correction non-goal careful
    broken never watchout watch-out insufficient non-negotiable cause avoid stub
patterns_discovered: pattern convention guideline principle style
dependencies_for_next: reading read
suggested_next_steps: next remaining pending upcoming outstanding todo to-do follow-up followup
    backlog roadmap resume continue continuation recommendation suggestion instruction tomorrow
    unfinished incomplete untested unverified parked deferred leftover phasing action task later
    queue immediate ordering then guidance left priority future open short-term medium-term
    long-term
plural: error pattern suggestion recommendation instruction task action priority choice
work: step task action item work plan order sequence sequencing queue checklist improvement
    enhancement change feature fix test testing thread end loop thing idea goal milestone move
    session pr target area validation verification review cleanup clean-up mission iteration
    focus work-item
ahead: next remaining pending outstanding open future upcoming immediate first required
    recommended suggested planned deferred unfinished incomplete todo left still needed further
    later proposed possible potential corrective human short-term medium-term long-term
process: build implementation execution release migration deployment rollout merge launch work
sequence: order sequence plan step queue path
undecided: open pending deferred outstanding unresolved undecided remaining unmade needed
    required tbd your
over: completed complete completion done finished fixed resolved solved closed shipped delivered
    merged implemented landed accomplished achieved past previous superseded obsolete archived
    history changed built deliverable addressed answered avoided accomplishment achievement
    added passed overcome
plain: reference metadata citation traceability content glossary source statistic status
    dimension score metric background overview architecture structure file command setup
    appendix evidence example detail scope purpose credential link resource summary result
    timeline rationale requirement criteria criterion scenario schema model url quote value
    benefit fact preference environment infrastructure stack convention state progress template
    inventory works working
remarks: note context constraint discovery observation remark insight environment platform rule
    contract consideration fact finding infrastructure boundary
containers: factor log list summary note analysis assessment register overview mode section table
    matrix report mitigation detail made taken found pending remaining left here remain open
    known accepted forward
holders: list summary overview log note table thing status state
stop: and or to while when that which the we i you is are us me this these so as if until still
    already has have not yet it its now a an your be requiring worth
of: for from of by in on with within at before after during about regarding per
"""


def _words() -> dict[str, frozenset[str]]:
    """The rows of the vocabulary."""
    rows = re.findall(r"^(\w+):((?:.|\n +)*)", _VOCABULARY, re.MULTILINE)
    return {name: frozenset(words.split()) for name, words in rows}


_WORDS = _words()
_NOUNS = {word: kind for kind in KIND_ORDER for word in _WORDS[kind]}
_IDIOMS = {
    kind: any_of(source)
    for kind, source in {
        QUESTION: r"""
        \bto (?:decide|clarify|discuss|be (?:decided|determined|confirmed))\b|(?:needs?|awaiting|
        requires?|waiting for) (?:your |user |human |an? |\w+'s )?(?:input|decisions?|answers?|
        confirmation|clarification|feedback)\b|\bask (?:the )?user|\bneeds? from (?:you|the user)|
        \bdecisions? (?:for|to) (?:you|the user|make|take)\b
        """,
        BLOCKER: r"""
        \Ablocking\b|\b(?:a)?waiting\b|\bcan(?:not|'t) (?:proceed|continue)|\b(?:must|
        to) be (?:resolved|fixed|done) (?:first|before)|\bblocked (?:by|on)\b
        """,
        NEXT: r"""
        \bwhat(?:'?s| is| still)? (?:left|next|remains?|open|remaining|pending|missing|needs?|to do|
        you need to do)\b|\bleft to do\b|\bpick(?:ing)? up\b|\bwhere to (?:start|pick|resume)|
        \b(?:start|resume|continue) (?:here|from|with|at|command)\b|\bnot (?:yet )?(?:started|
        tested|verif\w+|done|implemented|built|written|pushed|deployed)\b|\A(?:build|verify|
        implement|test|fix|deploy|check|validate|finish|ship|migrate|do)(?: (?:it|this|these|first|
        now|next))?\Z|\b(?:should|must) do\b|\Ause (?:these|this) \w+ to\b|
        \bneeds? (?:\w+ )?(?:test|review|fix|verif|check|work)\w*|\bloose ends\b|
        \bnice[- ]to[- ]haves?\b|\bquick wins\b|\bmust do\b|\bdo(?:es)? (?:this|these|it|next|
        first)\b|\bhorizon\b|\bcarry[- ]?(?:over|list)\b|\bwhen you (?:come|return|resume|pick)|
        \blooking ahead|\b(?:come|coming|pick\w*) (?:back|next)\b|\bin progress\b|\bnext up\b|
        \bfocus on\b|(?<!how )(?<!how you )\bto (?:validate|verify|do|apply|test|check|fix|
        investigate|review|address|implement|resolve|add|build|write|finish|complete|ship|improve|
        install|rotate|migrate|tackle)\b|\w (?:still )?(?:needed|required)\Z|\bhow to (?:continue|
        resume|proceed)|\bnext \w+\Z|\w \b(?:should|must|shall)\W*\Z|\byour (?:\w+ )?(?:tasks?|
        mission)\b|\A(?!(?:all|every\w*|each|any\w*)\b).*\b(?:should|must|shall) (?!not\b|
        read\b)\w+.*:\Z
        """,
        GOTCHA: r"""
        \b(?:do|must|should|can|does|did|doesn|don|didn|won|can)(?: not|'?t)\b|\bcannot\b|
        \bwatch (?:out|for)|\bkeep in mind|\b(?:to|must|good to|worth) (?:know|note|remember|avoid|
        watch)\w*|\bheads[- ]?up|\bhard way|\bbit (?:us|me)\b|\bdead ends?|\bwent wrong|\b(?:sharp|
        rough) edges|\bblind spots?|\b(?:non-|not )obvious|\bhard (?:rules|constraints)|\b(?:flaky|
        failing|broken|skipped) \w+|\bwhat (?:we|i)(?:'ve| have)? learned|\bedge cases\b|
        \b(?:important|critical|known) (?:\w+ )?(?:notes?|details?|facts?|constraints?)\b|
        \broot causes\b|\bfailed\b
        """,
        DECISION: r"""
        \bwhy (?:we|i) \w+|\b(?:chosen|selected|agreed|rejected|considered)\b|\b(?:approach|design|
        strategy|scope|direction) (?:confirmed|decided|locked|chosen|taken)
        """,
        READING: r"""
        \breading\b|\b(?:read|review) first\b|\b(?:to|must) read\b|\bfiles?\b.*\bto review\b|
        \bdependencies for next\b
        """,
    }.items()
}
_RECEIVER = any_of(r"""
    (?:\A|.*\b)(?:for|to) (?:the |your |any )?next (?:agent|session|developer|team)\b.*|
    start here\b.*
""")
_SUPERSEDED = any_of(r"\b(?:superseded|obsolete|outdated|archived|no longer (?:valid|current))\b")
_UNMADE = any_of(
    r"\bdecisions?\b.{0,40}[(\u2014\u2013-] ?(?:still )?(?:open|pending|undecided|tbd|unresolved)\b"
)
_DONE = any_of(r"\b(?!needed|required|planned|recommended|proposed|expected)\w{3,}ed\Z|\bmade\Z")
_DESCRIBES = any_of(r"\b(?:what (?:was|we|i|got|this|it|the)|how (?:it|to|we|you))\b")
_CONDITION = any_of(r"(?:if|when|in case|no|without)\b")
# A state beside a name, in parentheses, after a dash or as a sign, says more than the name.
_AHEAD_MARK = any_of(r"""
    [(\[\u2014\u2013:-] ?(?:still )?(?:pending|to-?do|not (?:yet )?started|next|
    planned)\b[^()]{0,20}[)\]]?\W{0,3}\Z|\A\W*[\u23f3\U0001f6a7\u2b1c]
""")
_OVER_MARK = any_of(r"""
    [(\u2014\u2013:-] ?(?:now |all )?(?:100% )?(?:completed?|done|fixed|closed|resolved|shipped|
    superseded)\b[^()]{0,12}\)?\W{0,3}\Z|\u2705
""")
_IMPERATIVE = any_of(
    r"(?:fix|add|improve|implement|create|update|remove|enhance|refactor)\b(?! first)"
)
# Code and paths in a name announce nothing.
_CODE = re.compile(r"`[^`]{1,200}`|(?<!\S)(?:/\S+|\S{1,60}/\S{1,60}/\S*)")
_ASIDE = re.compile(r"\([^()]{0,200}\)")
_SIGNS = re.compile(r"^[^\w\s`\"'(\[<|/.~-][^\w`\"'(\[<|/.~-]*")
_NUMBERING = re.compile(r"\A(?:\d{1,2}(?:\.\d{1,2})*[.):]? +)?(?:[^\w\s(\[\"'`<]+ ?)?")
_WORD = re.compile(r"[a-z][a-z'-]*(?:\.[a-z]+)*|[^\sa-z'-]+")
_PLURAL = re.compile(r"(?<=[a-z]{2})(?:(?P<y>ies)|(?<=ss)es|(?<![us])s)\Z")
MAX_TITLE_WORDS = 8
NEAR = 3


def _plain(title: str) -> str:
    """A heading or key in plain words: `nextSteps:` as `next steps:`."""
    spaced = title
    if " " not in title.strip():
        is_noun = _stem(title.lower().rstrip(":")) in _NOUNS
        spaced = CAMEL_CASE.sub(" ", title if is_noun else title.replace("-", " "))
    spaced = _CODE.sub(" ", spaced) if " " in title.strip() else spaced
    bare = _NUMBERING.sub("", spaced.replace("_", " ").replace("\u2019", "'"))
    return _ASIDE.sub(" ", bare).strip(" *`").lower().replace(" term", "-term")


def _stem(word: str) -> str:
    word = word.removesuffix("'s")
    match = _PLURAL.search(word)
    return word[: match.start()] + ("y" if match["y"] else "") if match else word


def _phrases(plain: str) -> Iterator[list[str]]:
    """The phrases of a name, cut at signs and at words such as "in" and "for"."""
    words: list[str] = []
    is_skipped = False
    for word in [*_WORD.findall(plain), ""]:
        is_link = word in _WORDS["of"]
        if word and word[0].isalpha() and not is_link and word not in _WORDS["stop"]:
            words.append(word)
            continue
        if words and not is_skipped:
            yield words
        if is_link:
            is_skipped = bool(words) and _stem(words[-1]) not in _WORDS["holders"]
        elif word not in _WORDS["stop"] or word in ("and", "or"):
            is_skipped = False
        words = []


@lru_cache(maxsize=2_000)
def announced(name: str) -> Section:
    """What one heading, key, column or label announces by itself."""
    plain = _plain(name)
    bare = plain.rstrip(": ")
    if _UNMADE.search(name):
        return Section((QUESTION,), "", "open decision", 0.9)
    if _OVER_MARK.search(name):
        return Section((), OVER)
    if _AHEAD_MARK.search(name) and "decision" not in bare:
        return Section((NEXT,), "", "pending", 0.8)
    if not bare or _CONDITION.match(bare) or _IMPERATIVE.match(bare):
        return Section((), PLAIN if bare.startswith("no ") else "")
    found: dict[str, str] = {}
    words = bare.split()
    near = (
        bare
        if len(words) <= MAX_TITLE_WORDS
        else " ".join(words[:NEAR]) + " | " + " ".join(words[-NEAR:])
    )
    near += ":" if plain.endswith(":") else ""
    for kind, idiom in _IDIOMS.items():
        if match := idiom.search(near):
            found[kind] = match[0].strip()
    phrases = list(_phrases(near))
    for phrase in phrases:
        _noun(phrase, found)
    stems = {form for phrase in phrases for word in phrase for form in (word, _stem(word))}
    return _weighed(found, stems, bare)


def _noun(phrase: list[str], found: dict[str, str]) -> None:
    """The kind of a phrase by its head and by the words before it."""
    stems = [_stem(word) for word in phrase]
    if "decision" in stems and set(stems) & _WORDS["undecided"]:
        found.setdefault(QUESTION, " ".join(phrase))
        return
    while len(stems) > 1 and (
        stems[-1] in _WORDS["containers"] | _WORDS["remarks"] or stems[-1].endswith("ed")
    ):
        stems.pop()  # what only holds the head
    phrase = phrase[: len(stems)]
    head, before = stems[-1], set(stems[:-1])
    is_ahead = bool(before & _WORDS["ahead"]) or any(_NOUNS.get(word) == NEXT for word in before)
    is_ahead = is_ahead or ("current" in before and phrase[-1] != head)
    is_plan = head in _WORDS["sequence"] and (before & _WORDS["process"] or phrase == ["plan"])
    text = " ".join(phrase)
    if head in ("point", "choice") and before & _WORDS["undecided"]:
        found.setdefault(QUESTION, text)
    elif is_plan or (head in _WORDS["work"] and is_ahead):
        found.setdefault(NEXT, text)
    elif head == "item" and before:
        _noun([*phrase[:-2], f"{stems[-2]}s"], found)
    elif head in _NOUNS and (head not in _WORDS["plural"] or phrase[-1] != head):
        found.setdefault(_NOUNS[head], text)


def _weighed(found: dict[str, str], stems: set[str], bare: str) -> Section:
    """The section of the kinds that were found: what is over isn't open any more."""
    if QUESTION in found:
        # "Open decisions" and "Awaiting a decision" are questions and nothing else.
        asked = found[QUESTION]
        found = {k: words for k, words in found.items() if k == QUESTION or words not in asked}
        if "decision" in asked:
            found.pop(DECISION, None)
    is_fixed = "fixes" in stems and GOTCHA in found
    is_over = (bool(stems & _WORDS["over"]) or is_fixed) and not re.search(
        r"\b(?:not|un\w+|remaining)\b", bare
    )
    if is_over and DECISION not in found:
        return Section((), OVER)
    if is_over:
        found = {DECISION: found[DECISION]}
    if (
        set(found) == {NEXT}
        and _RECEIVER.fullmatch(bare)
        and found[NEXT].startswith(("next", "start here"))
    ):
        return Section((), RECEIVER)
    if found:
        kinds = tuple(kind for kind in KIND_ORDER if kind in found)
        return Section(kinds, "", found[kinds[0]], 0.9)
    if _RECEIVER.fullmatch(bare):
        return Section((), RECEIVER)
    if _DONE.search(bare):
        return Section((), OVER)
    is_plain = bool(stems & _WORDS["plain"]) or _DESCRIBES.search(bare) is not None
    mood = REMARKS if stems & _WORDS["remarks"] else PLAIN if is_plain else ""
    return Section((), mood)


def section_of(trail: Trail) -> Section:
    """What the nearest of the headings, labels and keys above a block announces; one that fits no
    kind inherits from those above it, and remarks do below gotchas. The title of the note announces
    nothing.
    """
    if any(map(_SUPERSEDED.search, trail)):
        return Section((), OVER)
    mood = ""
    for depth, title in enumerate(reversed(trail)):
        if depth + 1 == len(trail) and not title.endswith(":"):
            break
        found = _announced_below(trail[: len(trail) - depth - 1], title, is_direct=not depth)
        if mood == REMARKS and (found.mood or (found.kinds and GOTCHA not in found.kinds)):
            break
        if found.kinds or found.mood in (OVER, PLAIN):
            return found._replace(confidence=0.9 - 0.05 * min(depth, 3))
        mood = found.mood or mood
    return Section((), mood)


def _announced_below(above: Trail, title: str, *, is_direct: bool) -> Section:
    """What a title announces below others; a sentence does only for what is directly below it."""
    field = field_of(title) if title.endswith(":") else ""
    if field or (not is_direct and len(_plain(title).split()) > MAX_TITLE_WORDS):
        return Section((), PLAIN if field == "detail" else "")
    parent = announced(above[-1]) if above else Section()
    if _plain(title).rstrip(":") in _WORDS["undecided"] and DECISION in parent.kinds:
        return Section((QUESTION,), "", "open decision")
    if title[:1].isdigit() and parent.mood == OVER:
        return parent  # one of the things that are done
    return announced(title)


def direct_section(trail: Trail) -> Section:
    """What the heading or label directly above a block announces."""
    return section_of((*([""] if trail else []), *trail[-1:])) if len(trail) > 1 else Section()


def by_name(name: str) -> Cue | None:
    """The kind announced by a column, a key or a label."""
    bare = name.strip(" :*").replace("_", " ")
    if len(bare.split()) > 5 or not _NAME.fullmatch(bare) or _FACT.fullmatch(bare):
        return None
    if column := _COLUMNS.fullmatch(bare):
        return Cue(_GROUPS[str(column.lastgroup)], 0.9, bare.lower())
    found = announced(bare)
    return Cue(found.kinds[0], 0.9, found.words) if found.kinds else None


_NAME = re.compile(r"[\w '\u2019/&#(),-]+")
_GROUPS = {"d": DECISION, "g": GOTCHA, "n": NEXT, "q": QUESTION, "p": PATTERN}
# As names these state a fact.
_FACT = any_of(
    r"open|plan(?: .*)?|build|verify|test|check|validate|deploy|fix|"
    r"next (?!steps?|actions?|tasks?|up|moves?)\w+"
)
_COLUMNS = any_of(r"""
    (?P<d>recommended|correct(?:ed)?(?: \S+)?|(?:\w+ ){0,3}choice)|(?P<g>error|constraint)|
    (?P<n>(?:corrective |next |required )?(?:step|action|task)|action needed|test focus)|(?P<p>rule|
    pattern)
""")
_LABELS = any_of(r"""
    (?P<d>verdict|conclusion|recommendation|fallback|chose|assumed)|(?P<g>important(?: .*)?|
    critical|note(?: well)?|nb|exposed|beware|key (?:discovery|finding|insight|learning))|
    (?P<n>fixme|suggest(?:ion|ed (?:fix|change))|required (?:fix|change))|(?P<q>q\d*)|(?P<p>always)
""")
_TASK = any_of(r"\W*(?:tasks?|steps?)\W*")


def by_opening(text: str) -> Cue | None:
    """The kind that a line names before its first colon."""
    name, colon, rest = without_signs(text).partition(":")
    if not colon or len(name) > 60 or rest[:1] not in ("", " ", "*") or _TASK.fullmatch(name):
        return Cue(GOTCHA, 0.8, "\u26a0") if text.startswith("\u26a0") else None
    label = _LABELS.fullmatch(name.strip(" *"))
    kind = _GROUPS[str(label.lastgroup)] if label else ""
    if kind == DECISION and ORDER.match(rest) and name[:9].lower() == "recommend":
        kind = NEXT
    if kind == QUESTION and not is_asked(rest.strip()):
        return None
    cue = Cue(kind, 0.9, "") if kind else by_name(name)
    return cue._replace(words=f"{name.strip().lower()[:59]}:") if cue else None


def is_exact(cue: Cue | None) -> bool:
    """Whether a line opens with a word or two alone, such as `Risk:` or `Open question:`."""
    words = _ASIDE.sub("", cue.words).replace(" :", ":") if cue else ""
    return words.endswith(":") and (words.count(" ") < 2 or words.startswith("important"))


# Fields: what the other columns of a table, keys of an object and labels below an item hold.
FIELDS = {
    "why": r"(?:\w+ )?(?:rationales?|reasons?|reasoning|justification|basis)|why\b.*|motivation|"
    r"because|evidence",
    "alternatives": r"(?:\w+ )?(?:alternatives?|options?)(?: \w+)?|(?:rejected|incorrect)(?: \S+)?|"
    r"(?:considered|instead of|over)(?: .*)?",
    "remedy": r"mitigations?\b.*|(?:\w+ )?fix(?:es)?(?: (?:applied|needed))?|.*resolution|"
    r"treatment|prevention\b.*|workaround|enforcement|suggested.*|remedy|solution(?: needed)?|"
    r"recommendation|how to (?:avoid|fix).*",
    "grade": r"severity|.*priority|likelihood|level|criticality|urgency",
    "status": r"status|state|result|verdict|outcome|pass(?:ed)?",
    "aside": r"#|no\.?|nr\.?|num(?:ber)?|id|.* id|owner|agent|effort|source|origin|path|files?|"
    r"date|phase|tier|timing|loc|complexity|category|"
    r"(?:estimated|expected) \w+|time(?: \w+)?|duration|"
    r".*\bconsumer|timestamp|assign(?:ed|ee)?(?: to)?|est(?:imate)?s?",
    "detail": r"impact|implementation|validation|testing|trade-?offs?|consequences?|benefits?|"
    r"details?|context|examples?|scope|implications?",
}
_FIELDS = {name: re.compile(words, re.IGNORECASE) for name, words in FIELDS.items()}


def field_of(name: str) -> str:
    """The field that a column, a key or a label names; empty if none."""
    bare = name.replace("_", " ").strip(" *`:")
    return next((field for field, words in _FIELDS.items() if words.fullmatch(bare)), "")


# Sentences

_VERBS = (
    r"add|address|adjust|allow|analy[sz]e|apply|archive|ask|assess|assign|audit|backfill|"
    r"begin|benchmark|bring|build|bump|calibrate|call|capture|change|check|choose|clean|clear|close|"
    r"collect|commit|compare|complete|configure|confirm|connect|consider|contact|continue|convert|"
    r"coordinate|copy|cover|create|cut|debug|decide|define|delegate|delete|deploy|design|determine|"
    r"disable|discuss|document|draft|drop|enable|ensure|escalate|evaluate|execute|expand|explore|"
    r"export|expose|extend|extract|fill|finali[sz]e|find|finish|fix|focus|follow|gate|generate|get|grant|"
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
# The first kind that matches decides.
_SURE = {
    QUESTION: r"""
    (?:is |are |remains? )(?:still )?(?:unclear|an open question)|undecided|(?:the |one |open |
    my )question (?:is|remains)|(?:don't know|not sure|unclear|unknown) (?:if|whether|why|how|which|
    what)|to be (?:decided|determined|clarified)|tbd|(?:awaiting|pending|needs?|waiting (?:for|
    on)) (?:a |an |the |your |user |\w+'s )?(?:\w+ )?decision|(?:not|n't) (?:yet )?decided|
    needs? to (?:decide|choose)
    """,
    BLOCKER: r"""
    (?<!not )(?<!nothing is )(?<!what's )blocked (?:by|on|until|because|due to|pending)|
    (?:\A\W{0,4}(?:status:\W{0,4})?blocked|(?-i:BLOCKED))(?= ?[\u2014\u2013:(] ?\w| - \w)|(?:is|are|
    we're|\A)\W{0,4}(?:currently )?stuck (?:on|at|by|because)|(?<!paused )waiting (?:for|on) \w+|
    awaiting (?:\w+ ){0,3}(?:approval|access|credentials|sign-?off|keys?)|can(?:not|'t) (?:continue|
    proceed|go on)|can(?:not|'t) (?:be )?(?:deploy|test|run|merge|release|verif|start|build|
    push)\w* (?:[\w']+ ){0,6}(?:without|until|before)|(?:permission|access|generation|
    request) (?:is |was |to \w+ is )?denied|(?:no|without|lacks?|missing) (?:the )?(?:access|
    permissions?|credentials) (?:to|for|on)
    """,
    DECISION: r"""
    (?<!what was )decided|chose|opted|settled on|went with|agreed to|(?:intentionally|
    deliberately) (?:deferred|skipped|kept|omitted|excluded)|(?:was|were|is|are|been|we|
    i) (?:chosen|adopted)|(?:chosen|adopted) (?:over|because|for|as)|the recommended \w+ is
    """,
    GOTCHA: r"""
    watch out(?: for)?|be careful|beware(?: of)?|careful with|caveat|gotcha|known (?:gaps?|issues?|
    limitations?|bugs?)|must (?:not|never)|\A\W{0,4}(?:do not|don't|never)|don't (?:use|forget|
    touch|change|run|rush|commit|edit|rely|assume|delete|remove|merge|push|try|skip|trust)|
    worth (?:knowing|noting|remembering)|silently \w+|(?:drop|fail|ignor|skip|swallow|los|truncat|
    overwrit)\w* (?:\w+ ){0,3}silently|pitfall|(?:breaks|fails|crashes) (?:if|when|on|for|without)|
    (?:has|have|had|performs?|there is|there are) no (?:\w+ ){0,3}?(?:check(?:s|ing)?|validation|
    bounds|limits?|tests?|support|fallback|mechanism|handling|retry)|requires? (?:an? |
    the )?(?:running|manual|live|network|internet|actual)|(?<!longer )(?:is|are) (?:just |
    only )?a (?:placeholder|stub)|turns out|should not be (?:deleted|removed|changed|modified|
    committed|edited|touched)|(?:trip|catch|bite) you|easy to (?:miss|forget|overlook|break)|
    (?:won't|will not) work|only works (?:if|when|with|on)|remember to|be aware|will (?:break|fail|
    crash|lose|overwrite)|or else|causes? (?:an? |the )?(?:\w+ ){0,3}(?:failure|error|crash|
    deadlock|leak)s?
    """,
    PATTERN: r"""
    always (?:use|call|run|check|go through|pass|write|wrap|prefer|keep)|(?:the|this|our|
    a) (?:\w+ )?pattern (?:is|here|we)|by convention|(?:follow|use|keep to|
    stick to)s? the (?:\w+[- ]){1,3}(?:pattern|convention)
    """,
    NEXT: r"""
    \A(?:next|then|after that|afterwards|finally),? (?:you |we |i |someone )?(?:should|must|need to|
    will|have to|can)|next (?:step|up|thing)|(?-i:TODO)|(?<!n't )(?<!not )(?:still )?(?:needs? to|
    remains to) be \w+|still needs? (?:to )?\w+|needs (?:review|testing|validation|verification|
    tests|docs)|(?:should|must|shall) (?:now |next |then |be )?(?:validate|verify|confirm|focus|add|
    fix|write|test|check|implement|run|update|review|document|investigate|executed|integrate|remove|
    replace|move|extend|decide|finish|start|begin|wire|handle|make|create|build|cover|measure|
    refactor|rename|migrate|split)(?!\w*ing)\w*
    """,
}
SURE = {kind: any_of(rf"(?<!\w-)\b(?:{source})\b") for kind, source in _SURE.items()}
_HINTS = {
    kind: any_of(rf"\b(?:{source})\b")
    for kind, source in {
        QUESTION: r"questions?|unsure|wonder(?:ing)?",
        DECISION: r"instead of|rather than|because|rejected|deferred|assum(?:ed|ing)",
        GOTCHA: r"risk|vulnerable|missing|lacks?|unverified|flaky|slow|wrong|hard-?coded|"
        r"workaround|limitations?|gaps?|however|actually|re-?try|retries|time-?outs?|50[0-4]|"
        r"times out",
        PATTERN: r"patterns?|convention|consistently",
        NEXT: r"should|must|then|next|shall|needs? to|have to|later",
    }.items()
}
_THEN = any_of(r"\W*(?:next|then|after that|afterwards|finally)\b")
_NO = any_of(r"\W*(?:no|nothing|none|neither)\b")
_REPAIR = any_of(r"\W*(?:fix|resolve|repair|debug|investigate|implement|\w+ed)\b")
# Among remarks, what restricts or surprises is a gotcha.
_RESTRICTS = any_of(r"""
    \b(?:not|cannot|never|only (?:if|when|works?|way|the)|must|requires?|unless|careful|beware|
    deprecated|unsupported|intentional(?:ly)?|by design|on purpose|silently|duplicates?|flaky|
    fails?|breaks?|exceeds?|workaround|limit(?:ed|ation)s?|note that)\b|n't\b
""")


def snake_case(key: str) -> str:
    """The name of a key as `next_steps`, however it is spelled."""
    return re.sub(r"[\W_]+", "_", CAMEL_CASE.sub("_", key[:80].rstrip(":"))).lower()


def without_signs(text: str) -> str:
    """A line without emoji and marks before its first word."""
    return _SIGNS.sub("", text, count=1)


def asks(said: str) -> bool:
    """Whether something is put as a question, or says that it is undecided."""
    return said.endswith("?") or SURE[QUESTION].search(said) is not None


def is_asked(said: str) -> bool:
    """Whether something listed among questions is one by its form."""
    return bool(_ASKING.match(said[:400]) or asks(said) or TO_DECIDE.match(said))


def restricts(said: str) -> bool:
    """Whether a remark restricts what may be done, or surprises."""
    return len(said.split()) > 4 and bool(_RESTRICTS.search(said)) and not _REPAIR.match(said)


def by_words(text: str) -> Cue | None:
    """The kind shown by the words of a sentence."""
    if text.endswith("?"):
        return Cue(QUESTION, 0.7, "?")
    if _THEN.match(text) and ORDER.match(text):
        return Cue(NEXT, 0.6, text.split(maxsplit=1)[0].lower().rstrip(","))
    # "No field needs to be added" is nothing to do, "Fix the crash when it starts" no warning.
    excluded = (NEXT, BLOCKER) if _NO.match(text) else (GOTCHA,) if _REPAIR.match(text) else ()
    return _first(SURE, text, 0.6, excluded)


def by_hints(text: str) -> Cue | None:
    """The kind that a sentence hints at: too weak to record, enough to ask about."""
    return _first(_HINTS, text, 0.3)


def _first(
    table: dict[str, re.Pattern[str]], text: str, confidence: float, excluded: tuple[str, ...] = ()
) -> Cue | None:
    for kind, pattern in table.items():
        if kind not in excluded and (match := pattern.search(text)):
            return Cue(kind, confidence, match[0].strip().lower()[:60])
    return None

"""Read architecture decision records: MADR 2 to 4, adr-tools (Nygard), log4brains.

An ADR states its status in front matter, in lines of facts or in a section, and names others by
link, number or file name. `read_adr` parses one; `resolve_chain` says which supersedes which.
"""

from __future__ import annotations

import os
import re
from datetime import date
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.core.kinds import NOT_STATED
from passdown.core.names import path_problems, suggest_tag
from passdown.core.record import canonical_bytes, digest_bytes
from passdown.core.task_files import MAX_MARKUP_LINE
from passdown.core.text import has_lone_surrogate, is_blank
from passdown.errors import InvalidInput, Problem
from passdown.imports.job import (
    NOTHING_IMPORTED,
    PAGE_SUFFIXES,
    EntryResult,
    Page,
    earlier_without_task,
    fact_of,
    items_of,
    key_state,
    key_subject,
    links_in,
    read_page,
    remarks,
    short_hash,
    without_cycles,
)
from passdown.workspace.entries import add_entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from passdown.core.record import Record
    from passdown.imports.job import EarlierImports, ImportJob


MAX_RATIONALE = 60_000
MAX_ALTERNATIVES = 200
SHORT_SECTIONS = ("date", "deciders", "decision makers", "tags")

_MAX_OPTION = 2_000
_MAX_GOVERNED = 20
_PATH = re.compile(r"[\w.@-]*[/.][\w./@-]+")
_CHOSEN = re.compile(
    r"chosen option:?\s*[\"'\u201c*_`\[]*([^\"\u201d*_`\]\n]{1,300})", re.IGNORECASE
)
_NOT_NAME = re.compile(r"[^a-z ]+")


def plain_heading(name: str) -> str:
    """A heading in lowercase letters only."""
    return " ".join(_NOT_NAME.sub(" ", name.lower()).split())


_DECISION = ("decision outcome", "decision", "decisions", "the decision", "outcome", "resolution")
_CONTEXT = ("context", "problem", "background", "motivation", "issue")
_DRIVERS = ("decision drivers", "drivers", "forces", "rationale", "justification", "argument")
_OPTIONS = (
    *("considered options", "options considered", "options", "positions"),
    *("alternatives", "alternatives considered", "considered alternatives"),
)
_CONSEQUENCES = ("consequences", "implications", "positive consequences", "negative consequences")


class AdrParts:
    """The sections of an ADR by purpose."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._used: set[int] = set()
        self.has_text = any(each.text for each in page.sections) or bool("".join(page.head).strip())
        self.is_several = self._is_several()
        self.decision = self._take(lambda name: name in _DECISION)
        self.context = self._take(lambda name: name.startswith(_CONTEXT))
        self.drivers = self._take(lambda name: name in _DRIVERS)
        self.consequences = self._take(lambda name: name in _CONSEQUENCES)
        self._options = self._find(lambda name: name in _OPTIONS)

    def _is_several(self) -> bool:
        """Whether there are decisions below several headings of the second level."""
        outer: set[int] = set()
        at = -1
        for index, section in enumerate(self._page.sections):
            if section.level <= 2:
                at = index
            elif plain_heading(section.name) in ("decision", "decision outcome"):
                outer.add(at)
        return len(outer) > 1

    def _find(self, is_it: Callable[[str], bool]) -> list[int]:
        left = (each for each in enumerate(self._page.sections) if each[0] not in self._used)
        return [index for index, section in left if is_it(plain_heading(section.name))]

    def _take(self, is_it: Callable[[str], bool]) -> str:
        """The text of the matching sections, each with its subsections, once."""
        found: list[str] = []
        for index in self._find(is_it):
            if index not in self._used:
                found.append(self._page.whole(index))
                self._use(index)
        return "\n\n".join(part for part in found if part)

    def _use(self, index: int) -> None:
        self._used.update(range(index, index + 1 + len(self._page.below(index))))

    def options(self) -> list[str]:
        """The alternatives: list items, else subsections, else a short text; without the chosen
        option.
        """
        found: list[str] = []
        for index in self._options:
            section = self._page.sections[index]
            below = [each.name for each in self._page.below(index) if each.name]
            listed = items_of(section.lines) or below
            if not listed and 0 < len(section.text) <= _MAX_OPTION:
                listed = [section.text]
            if listed:
                self._use(index)
            found += listed
        chosen = _CHOSEN.search(self.decision[:MAX_RATIONALE])
        name = _bare(chosen[1]) if chosen else ""
        kept = (text[:_MAX_OPTION].strip() for text in found if _bare(text) not in (name, ""))
        return list(dict.fromkeys(text for text in kept if not is_blank(text)))[:MAX_ALTERNATIVES]

    def left_out(self) -> list[str]:
        """The outermost sections with text that no part has taken; call `options` first."""
        found: list[str] = []
        outer = ""
        for index, section in enumerate(self._page.sections):
            if section.level <= 2 or not outer:
                outer = section.name
            is_fact = plain_heading(section.name) in ("status", *SHORT_SECTIONS)
            if index not in self._used and section.text and not is_fact and outer not in found:
                found.append(outer)
        return found


def _bare(text: str) -> str:
    return " ".join(re.sub(r"[^\w]+", " ", text.lower()).split())


# How status words begin; the first row that matches decides.
_WORDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("superseded", ("superseded", "superceded", "replaced", "obsoleted by")),
    (
        "reverted",
        (
            *("reject", "deprecat", "withdraw", "obsolete", "retired", "abandon", "declin"),
            *("discard", "revert", "cancel", "no longer"),
        ),
    ),
    ("proposed", ("propos", "draft", "pending", "in review", "under review", "rfc", "wip", "open")),
    ("proposed", ("in progress", "discuss", "todo", "under discussion", "work in progress")),
    ("accepted", ("accept", "approve", "decided", "implemented", "adopted", "done", "active")),
    ("accepted", ("agreed", "final", "in effect", "current", "complete", "partly", "partially")),
)
_NOT_A_STATUS = ("proposed by", "accepted by", "approved by", "decided by", "accepted on")
_LEAD = re.compile(r"^(?:[^A-Za-z\[]|\d{4}-\d\d-\d\d)*")
_STRUCK = re.compile(r"~~[^~]{0,200}~~")
_NEWER = re.compile(r"^(?:supersedes?|supercedes?|replaces)\b[ :]*(.*)", re.IGNORECASE)
_OLDER = re.compile(
    r"^(?:accepted|approved)?[ ,;(]*(?:superseded|superceded|replaced)(?: by)?\b[ :]*(.*)",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"\bADR[-_ #]*\d{1,8}\b|\b\d{8}-[a-z0-9-]{2,200}|\b\d{3,4}-[a-z0-9_-]{2,200}", re.IGNORECASE
)
_NUMBER = re.compile(r"^#?(\d{1,6})\b")
_REFERENCE_FACTS = {
    **dict.fromkeys(("supersedes", "replaces"), "supersedes"),
    **dict.fromkeys(("superseded-by", "superseded_by", "superseded by"), "superseded by"),
}
_LINKING = ("links", "link", "related", "see also", "references", "more information", "relations")


class AdrStatus(NamedTuple):
    """The status of a decision, the words it was read from, and references to other ADRs."""

    status: str
    said: str
    supersedes: tuple[str, ...]
    superseded_by: tuple[str, ...]


def read_status(page: Page, facts: dict[str, str]) -> AdrStatus:
    """Read an ADR's status. No status means accepted; an unknown word means proposed."""
    lines = _status_lines(page, facts)
    said = [word for word in map(_word, lines) if word]
    status = "superseded" if "superseded" in said else (said[-1] if said else "")
    known = status or ("proposed" if lines else "accepted")
    stated = [f"{words} {facts[name]}" for name, words in _REFERENCE_FACTS.items() if name in facts]
    sections = (each for each in page.sections if each.name.strip().lower().startswith(_LINKING))
    about = (line[: MAX_MARKUP_LINE * 2] for section in sections for line in section.lines)
    linking = [_LEAD.sub("", line).strip() for line in about]
    newer, older = (
        [match[1] for line in (*lines, *linking, *stated) if (match := pattern.match(line))]
        for pattern in (_NEWER, _OLDER)
    )
    return AdrStatus(known, " / ".join(lines)[:300], _named(newer), _named(older))


def _named(texts: list[str]) -> tuple[str, ...]:
    """The ADRs that some texts name, each once."""
    found = (name.strip() for text in texts for name in references(text))
    return tuple(dict.fromkeys(name for name in found if name))


def _status_lines(page: Page, facts: dict[str, str]) -> list[str]:
    """The lines about the status, without marks, dates and struck-out text."""
    found = [facts["status"]] if "status" in facts else []
    for section in page.sections:
        if section.name.strip().lower().strip(":0123456789. ") in ("status", "state"):
            found += section.lines
        elif section.name.lower().startswith("status:"):
            found.append(section.name[len("status:") :])
    bare = (_LEAD.sub("", _STRUCK.sub("", line[:MAX_MARKUP_LINE])).strip() for line in found)
    return [line.rstrip("*_ ") for line in bare if line.strip("*_ ")]


def _word(line: str) -> str:
    text = line.lower().strip("[]*_ ")
    if text.startswith(_NOT_A_STATUS):
        text = text.partition(" ")[0]
    for status, beginnings in _WORDS:
        if text.startswith(beginnings):
            is_both = status == "accepted" and re.search(r"super[sc]eded by", text)
            return "superseded" if is_both and not text.startswith("part") else status
    return ""


def references(text: str) -> list[str]:
    """The ADRs that a text names: link targets, else names and numbers."""
    targets = [target for _, target in links_in(text) if "://" not in target]
    if targets:
        return targets
    labels = [label for label, _ in links_in(text)]
    rest = " ".join([*labels, text]) if labels else text
    named = _NAMED.findall(rest[:MAX_MARKUP_LINE])
    number = _NUMBER.match(rest.strip("[]() "))
    return named or ([number[1]] if number else [])


_NUMBERED = re.compile(r"^(?:adr[-_ ]?)?\d{1,8}[-_. ]|^adr[-_ ]?\d{1,8}$", re.IGNORECASE)
_TITLE_NUMBER = re.compile(
    r"^(?:ADR[-_ #]*)?(?:\d{1,6})[.:)]?(?:[ \t]*[-\u2013\u2014:.])?[ \t]+(?=\S)", re.IGNORECASE
)
_TITLE_ADR = re.compile(r"^ADR[-_ #]*\d{0,6}[ \t]*[-\u2013\u2014:.][ \t]*(?=\S)", re.IGNORECASE)
_TITLE_WORDS = re.compile(
    r"^(?:architectur(?:e|al) )?decision record(?: \(ADR\))?(?: for |[ \t]*[-:][ \t]*)(?=\S)",
    re.IGNORECASE,
)
_ISO_DATE = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b")
_NAME_DATE = re.compile(r"^(\d{4})(\d{2})(\d{2})[-_]")
_PLACE = re.compile(r"^[\[{<].*[\]}>]$")

_PEOPLE = ("decision-makers", "decision makers", "decision-maker", "deciders", "decider")
_DROPPED_FROM_DIGEST = ("status", "date", "superseded-by", "superseded by", "last-modified")
_TEMPLATES = ("template", "adr-template", "0000-template")
# Mostly pages about a folder; some projects give each ADR a folder and this name.
_ABOUT = ("readme", "index", "changelog", "contributing", "toc")


class Adr(NamedTuple):
    """One ADR. `name` is its path in the folder; `status` is that of a decision, `said` the ADR's
    own words. `supersedes` and `superseded_by` are references as written. `digest` covers
    everything but status and date; `left_out` are sections that aren't imported; `odd_date` is
    written like a date and isn't one.
    """

    name: str
    title: str
    status: str
    said: str
    rationale: str
    alternatives: tuple[str, ...]
    tags: tuple[str, ...]
    date: str
    supersedes: tuple[str, ...]
    superseded_by: tuple[str, ...]
    digest: str
    left_out: tuple[str, ...]
    odd_date: str = ""


class NoAdr(NamedTuple):
    """Why a file is no ADR; `is_meant` if it looks as if it should be one."""

    problem: Problem
    is_meant: bool


class AdrChain(NamedTuple):
    """ADRs in an order in which each comes after those that it supersedes. `supersedes` is by
    name, including ADRs that are only known.
    """

    order: tuple[Adr, ...]
    supersedes: dict[str, tuple[str, ...]]
    problems: tuple[Problem, ...]


def read_adr(name: str, text: str) -> Adr | NoAdr:
    """Read the ADR in a file's text, or say why it is none."""
    if has_lone_surrogate(text) or "\x00" in text:
        return NoAdr(Problem(name, "no_text", "holds what is no text", "UTF-8 text"), is_meant=True)
    stem = name.rpartition("/")[2].rpartition(".")[0]
    page = read_page(text)
    facts = _facts(page)
    status = read_status(page, facts)
    parts = AdrParts(page)
    refused = _rejection(name, _title(page), status, parts)
    if refused is not None:
        return refused
    rationale, too_long = _rationale(parts, facts)
    stated, odd_date = _date(facts, stem)
    given = ",".join(facts.get(name, "") for name in ("tags", "tag", "categories", "category"))
    tags = dict.fromkeys(tag for word in given.split(",") if (tag := suggest_tag(word)))
    return Adr(
        name=name,
        title=_title(page) or stem or name,
        **status._asdict(),
        rationale=rationale,
        alternatives=tuple(parts.options()),
        tags=tuple(tags),
        date=stated,
        digest=_digest(page, facts),
        left_out=(*too_long, *parts.left_out()),
        odd_date=odd_date,
    )


def _rejection(name: str, title: str, status: AdrStatus, parts: AdrParts) -> NoAdr | None:
    """Why a page is no ADR, if it is none."""
    stem = name.rpartition("/")[2].rpartition(".")[0].lower()
    is_meant = bool(_NUMBERED.match(stem))
    is_template = stem in _TEMPLATES or (not is_meant and "template" in stem)
    if is_template or _PLACE.match(title):
        return NoAdr(Problem(name, "no_adr", "is a template", "an ADR"), is_meant=False)
    if stem in _ABOUT and not (parts.decision and (status.said or "/" in name)):
        return NoAdr(Problem(name, "no_adr", "is about ADRs, and none", "an ADR"), is_meant=False)
    if parts.is_several:
        problem = Problem(name, "several_adrs", "holds several ADRs", "a file for each")
        return NoAdr(problem, is_meant=True)
    if not parts.decision and not (status.said and (parts.has_text or is_meant)):
        expected = "a section named Decision or Decision Outcome, or a status"
        return NoAdr(Problem(name, "no_adr", "holds no decision", expected), is_meant)
    return None


def _title(page: Page) -> str:
    bare = page.title.strip()[:MAX_MARKUP_LINE]
    for pattern in (_TITLE_ADR, _TITLE_NUMBER, _TITLE_WORDS):
        bare = pattern.sub("", bare).strip()
    return bare


def _facts(page: Page) -> dict[str, str]:
    """The facts at the top by lowercase name: front matter, then lines before a section."""
    found: dict[str, str] = {}
    for name, value in page.front.items():
        listed = cast("list[object]", value) if isinstance(value, list) else [value]
        text = ", ".join(str(each) for each in listed if each is not None and str(each).strip())
        if text and not _PLACE.match(text):
            found[name] = text
    for line in page.head:
        fact = fact_of(line)
        if fact and fact[1] and not _PLACE.match(fact[1]):
            found.setdefault(*fact)
    for section in page.sections:
        name = plain_heading(section.name)
        if name in SHORT_SECTIONS and 0 < len(section.text) <= MAX_MARKUP_LINE:
            found.setdefault(name, section.text)
    return found


def _date(facts: dict[str, str], stem: str = "") -> tuple[str, str]:
    """The ADR's date as YYYY-MM-DD if it states a real one, and what is only written like one."""
    stated = _ISO_DATE.search(facts.get("date", ""))
    match = stated or _NAME_DATE.match(stem)
    try:
        return (date(*map(int, match.groups())).isoformat() if match else "", "")
    except ValueError:
        return "", stated[0] if stated else ""


def _digest(page: Page, facts: dict[str, str]) -> str:
    """The digest of an ADR without its status and date."""
    kept = {k: v for k, v in sorted(facts.items()) if k not in _DROPPED_FROM_DIGEST}
    told = (each for each in page.sections if plain_heading(each.name) != "status")
    sections = [[each.name, each.text] for each in told]
    head = [line.strip() for line in page.head if fact_of(line) is None and line.strip()]
    data = canonical_bytes([page.title, kept, head, sections])
    return digest_bytes(data).removeprefix("sha256:")


def _rationale(parts: AdrParts, facts: dict[str, str]) -> tuple[str, list[str]]:
    """Decision and reasons as one text, and the parts that don't fit."""
    people = next((facts[name] for name in _PEOPLE if name in facts), "")
    wanted = (
        *(("", parts.decision), ("Drivers", parts.drivers), ("Context", parts.context)),
        *(("Consequences", parts.consequences), ("Decided by", people)),
        ("Date", "" if _date(facts)[0] else facts.get("date", "")),
    )
    found: list[str] = []
    too_long: list[str] = []
    for name, text in ((name, text.strip()) for name, text in wanted if text.strip()):
        part = f"{name}: {text}" if name else text
        if sum(map(len, found)) + len(part) > MAX_RATIONALE:
            too_long.append(name or "Decision")
        else:
            found.append(part)
    rationale = "\n\n".join(found)
    return (NOT_STATED if is_blank(rationale) else rationale), too_long


def resolve_chain(adrs: Iterable[Adr], known: Iterable[str] = ()) -> AdrChain:
    """Resolve which ADR supersedes which; unknown references and cycles are problems. `known` are
    names of further ADRs that references may mean.
    """
    listed = sorted(adrs, key=lambda adr: adr.name)
    given, others = _AdrIndex([adr.name for adr in listed]), _AdrIndex(known)
    problems: list[Problem] = []
    links: dict[str, list[str]] = {name: [] for name in (*given.names, *others.names)}
    for adr in listed:
        for is_newer, texts in ((True, adr.supersedes), (False, adr.superseded_by)):
            for text in texts:
                other = given.find(adr.name, text) or others.find(adr.name, text)
                if other is None:
                    message = f"{text[:80]!r} is not among these ADRs"
                    problems.append(Problem(adr.name, "unknown_adr", message, level="warning"))
                    continue
                newer, older = (adr.name, other) if is_newer else (other, adr.name)
                if older not in links[newer]:
                    links[newer].append(older)
    order, cycles = without_cycles(links)
    for name, older in cycles:
        message = f"supersedes {older}, which leads back to it"
        problems.append(Problem(name, "cycle", message, "no circle", level="warning"))
    by_name = {adr.name: adr for adr in listed}
    kept = {name: tuple(sorted(olds)) for name, olds in links.items()}
    in_order = tuple(by_name[name] for name in order if name in by_name)
    return AdrChain(in_order, kept, tuple(problems))


class _AdrIndex:
    """Finds ADRs by path, file name or number."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = dict.fromkeys(names)
        self._by_stem: dict[str, list[str]] = {}
        self._by_number: dict[int, list[str]] = {}
        for name in self.names:
            stem = name.rpartition("/")[2].rpartition(".")[0].lower()
            self._by_stem.setdefault(stem, []).append(name)
            number = re.match(r"(?:adr[-_ ]?)?(\d{1,8})", stem)
            if number:
                self._by_number.setdefault(int(number[1]), []).append(name)

    def find(self, source: str, text: str) -> str | None:
        """The ADR that a reference in `source` means; None if there is none, or several."""
        target = text.partition("#")[0].removeprefix("./")
        folder = source.rpartition("/")[0]
        near = f"{folder}/{target}" if folder else target
        for name in (near, target):
            if name in self.names:
                return name
        last = target.rpartition("/")[2].lower()
        found = self._by_stem.get(last.removesuffix(".md")) or []
        number = re.fullmatch(r"(?:adr[-_ #]*)?(\d{1,8})(?:[-_. ].*)?", last)
        if not found and number:
            found = self._by_number.get(int(number[1])) or []
        return found[0] if len(found) == 1 else None


# --- ADR or notes?

_NOTES_NAME = re.compile(r"hand-?_?off|session|progress|memory|notes?|status|todo|continu|context")
_HANDOFF = re.compile(r"hand[-_ ]?(?:off|over)s?")
_GOES_ON = re.compile(r"(?:what(?:'s| is) )?next\b|to-?do")
_NOTES_HEADING = re.compile(
    r"hand-?off|next steps?|current (?:state|status)|where (?:we|things)|blockers?|open questions?"
    r"|gotchas?|what (?:was|is) done|decisions? made|pick up"
)


def format_of_page(name: str, text: str) -> str:
    """`adr` or `notes`; empty if a page is neither, or could be both.

    Notes have decisions and a status too: an ADR is named like one, by a number that is no date or
    by the word, or has its sections. A page that is named handoff, or has a section of that name,
    is a note.
    """
    page = read_page(text)
    headings = [section.name.strip().lower()[:200] for section in page.sections]
    file = name.rpartition("/")[2]
    stem = file.rpartition(".")[0]
    if _HANDOFF.match(file.lower()) or any(_HANDOFF.fullmatch(each) for each in headings):
        return "notes"
    hits = sum(bool(_NOTES_HEADING.search(each)) for each in (page.title.lower()[:200], *headings))
    notes = "notes" if hits >= (1 if _NOTES_NAME.search(file.lower()) else 2) else ""
    if not isinstance(read_adr(name, text), Adr):
        return notes
    title = page.title.strip()[:MAX_MARKUP_LINE]
    is_named = _NUMBERED.match(stem) is not None and _ISO_DATE.match(stem) is None
    is_named = is_named or any(each.match(title) for each in (_TITLE_ADR, _TITLE_WORDS))
    is_named = is_named or stem.lower().startswith("adr")
    parts = AdrParts(page)
    signs = is_named + bool(parts.decision and (parts.context or parts.consequences))
    if any(_GOES_ON.match(each) for each in headings):
        return {0: "notes", 2: "adr"}.get(signs, "")
    return "adr" if signs else notes


# --- recording


class KnownAdr(NamedTuple):
    """An ADR as it was last imported, and the decision that records it."""

    state: str
    version: int
    address: str
    status: str
    cited: dict[str, str]
    paths: tuple[str, ...]

    @property
    def is_active(self) -> bool:
        """Whether the decision has been neither superseded nor reverted."""
        return self.status in ("accepted", "proposed")


def import_adrs(job: ImportJob) -> None:
    """Record each ADR of the source as a decision of one task.

    A record's key names the ADR, its content and its status. A changed file supersedes its earlier
    decision, so that what is cited is what is there; a status set by hand stays until the ADR
    itself changes.
    """
    adrs = _read_files(job)
    folder = os.path.basename(job.source.folder)
    earlier = earlier_without_task(job.context, job.task, suggest_tag(folder) or "adr")
    earlier.ensure_task(f"Architecture decisions in {folder}", job.agent)
    work = _AdrImport(job, adrs, earlier)
    for adr in job.each(work.chain.order):
        write = partial(earlier.settle, partial(work.record, adr))
        job.write(adr.name, "decision", write)
    for problem in work.chain.problems:
        job.refuse(problem, "link")


def _read_files(job: ImportJob) -> list[Adr]:
    """Read the ADRs of a source; other files are counted with a reason."""
    found: dict[tuple[str, str], Adr] = {}
    for name in (name for name in job.source.names if name.lower().endswith(PAGE_SUFFIXES)):
        text = job.source.read_text(name)
        if isinstance(text, Problem):
            job.refuse(text, "file")
            continue
        adr = read_adr(name, text)
        if job.source.is_folder and format_of_page(name, text) == "notes":
            reason = "is a note, not an ADR; import it by itself with --from notes"
            job.add(name, "file", "skipped", reason=reason)
        elif isinstance(adr, Adr):
            first = found.setdefault((os.path.dirname(name), adr.digest), adr)
            if first is not adr:
                job.add(name, "file", "skipped", reason=f"says the same as {first.name}")
        elif adr.is_meant or not job.source.is_folder:
            job.refuse(adr.problem, "file")
        else:
            job.add(name, "file", "skipped", reason=adr.problem.message)
    if not found:
        refused = [entry for entry in job.entries if entry.result == "refused"]
        problems = [Problem(entry.source, "not_taken", entry.reason) for entry in refused]
        missing = Problem("source", "no_adr", "there is no ADR in it", "a folder of ADRs")
        raise InvalidInput(NOTHING_IMPORTED, problems or [missing])
    return list(found.values())


class _AdrImport:
    """Brings the decisions of a task up to date with the ADRs of a source."""

    def __init__(self, job: ImportJob, adrs: list[Adr], earlier: EarlierImports) -> None:
        self._job = job
        self._earlier = earlier
        # Two folders of a project may hold an ADR of the same name.
        self._place = job.path_of() or os.path.basename(job.source.folder)
        self.chain = resolve_chain(adrs)
        if self.chain.problems:
            # A reference may mean an ADR that was imported before and is not given now.
            self.chain = resolve_chain(adrs, self._names_known())
        supersedes = self.chain.supersedes
        self._replaced = {old for olds in supersedes.values() for old in olds}
        self._replaced_here = {old for adr in self.chain.order for old in supersedes[adr.name]}
        self._addresses: dict[str, str] = {}
        self._by_content: dict[str, set[str]] = {}
        self._indexed = 0

    def record(self, adr: Adr) -> EntryResult:
        """Record what is new about an ADR."""
        known = self._last(self._subject(adr.name))
        status = self._status(adr)
        olds = [a for a in map(self._address, self.chain.supersedes[adr.name]) if a]
        content = short_hash(adr.digest, *olds)
        state = f"{content}-{status}"
        moved = self._moved(adr.name, content)
        if moved and (known is None or known.version < moved.version):
            return self._move(adr, state, moved, olds)
        if known is None:
            return self._decide("added", adr, state, olds)
        self._addresses[adr.name] = known.address
        is_replaced = adr.name in self._replaced
        if known.state == state and (is_replaced or not self._is_outdated(adr, known)):
            if self._is_freed(adr, known):
                return self._decide("changed", adr, state, olds)
            return EntryResult("unchanged", known.address)
        is_ending = known.state.startswith(f"{content}-") and status in ("reverted", "superseded")
        if is_ending and known.status in ("reverted", "superseded"):
            return EntryResult("unchanged", known.address)
        # A new status is recorded as a new decision, too: so it cites the file as it is now.
        return self._decide("changed", adr, state, [known.address, *olds])

    def _address(self, name: str) -> str:
        """The address of the decision for an ADR; empty if there is none."""
        if name not in self._addresses:
            known = self._last(self._subject(name))
            return known.address if known else ""
        return self._addresses[name]

    def _status(self, adr: Adr) -> str:
        """The status to record: an ADR whose successor is imported too is superseded by that."""
        return "accepted" if adr.name in self._replaced_here else adr.status

    def _move(self, adr: Adr, state: str, moved: KnownAdr, olds: list[str]) -> EntryResult:
        """Record that an ADR's file was renamed; a status set by hand stays."""
        if not moved.is_active:
            self._addresses[adr.name] = moved.address
            return EntryResult("unchanged", moved.address)
        done = self._decide("changed", adr, state, [moved.address, *olds])
        return done._replace(reason=remarks(f"was {moved.paths[0]}, which is gone", done.reason))

    def _is_outdated(self, adr: Adr, known: KnownAdr) -> bool:
        """Whether an active decision cites its file as it was before an edit."""
        measure = self._job.context.project.measure
        cited = {path: known.cited[path] for path in self._paths(adr) if path in known.cited}
        changed = (measure(p).sha256 != said.removeprefix("sha256:") for p, said in cited.items())
        return known.is_active and any(changed)

    def _is_freed(self, adr: Adr, known: KnownAdr) -> bool:
        """Whether the ADR that superseded this one no longer does; one file alone can't tell."""
        is_free = known.status == "superseded" and adr.name not in self._replaced
        if not (is_free and self._job.source.is_folder and adr.status == "accepted"):
            return False
        decisions = (each for record in self._decided() for each in record.document()["decisions"])
        return any(known.address in each.get("supersedes", ()) for each in decisions)

    def _decide(self, result: str, adr: Adr, state: str, supersedes: list[str]) -> EntryResult:
        entry: dict[str, Any] = {
            "summary": adr.title,
            "rationale": adr.rationale,
            "alternatives": list(adr.alternatives),
            "tags": list(adr.tags),
            "status": self._status(adr),
            "supersedes": supersedes,
            "paths": [*self._paths(adr), *(governed := self._governed(adr))],
        }
        if adr.date:
            entry["at"] = f"{adr.date}T00:00:00Z"
        job, earlier = self._job, self._earlier
        receipt = add_entry(
            *(job.context, "decision", earlier.task, job.agent, entry),
            key=earlier.key(self._subject(adr.name), state),
            expect_version=earlier.version,
            may_change=governed,
        )
        earlier.refresh()
        self._addresses[adr.name] = receipt.items[0]
        odd = f"{adr.odd_date} is no date; the decision has that of its import"
        reason = remarks(
            "" if adr.said else "it states no status; taken as accepted",
            odd if adr.odd_date else "",
            f"only in the file: {', '.join(adr.left_out)[:300]}" if adr.left_out else "",
            warnings=receipt.warnings,
        )
        return EntryResult("unchanged" if receipt.is_replay else result, receipt.items[0], reason)

    def _paths(self, adr: Adr) -> list[str]:
        """The ADR's own file, if it is in the project."""
        path = self._job.path_of(adr.name)
        return [] if not path or path_problems(path, "") else [path]

    def _governed(self, adr: Adr) -> list[str]:
        """The files and folders of the project that an ADR's text names."""
        root, own = self._job.context.root, self._paths(adr)
        words = (word.strip("./") for word in _PATH.findall(adr.rationale))
        found = (word for word in dict.fromkeys(words) if not path_problems(word, ""))
        there = (word for word in found if os.path.lexists(os.path.join(root, *word.split("/"))))
        return [word for word in islice(there, _MAX_GOVERNED) if word not in own]

    # Earlier imports

    def _subject(self, name: str) -> str:
        return f"adr-{short_hash(self._place, name)}"

    def _decided(self, subject: str = "") -> list[Record]:
        records = self._earlier.of(subject) if subject else self._earlier.records
        return [record for record in records if record.kind == "decided"]

    def _last(self, subject: str) -> KnownAdr | None:
        """The latest import of a subject."""
        decided = self._decided(subject)
        if not decided:
            return None
        last = decided[-1]
        with self._job.context.store.reading() as reader:
            (row,) = reader.items_at(self._earlier.task, last.position)
        body = last.document()
        paths = tuple(body["decisions"][0].get("paths", ()))
        state = self._earlier.state(subject)
        return KnownAdr(state, last.position, row.address, row.status, body.get("cited", {}), paths)

    def _moved(self, name: str, content: str) -> KnownAdr | None:
        """The latest ADR with this content whose own file is gone: the same under another name."""
        for record in self._earlier.records[self._indexed :]:
            if record.kind == "decided":
                of_record = key_state(record.key).partition("-")[0]
                self._by_content.setdefault(of_record, set()).add(key_subject(record.key))
        self._indexed = len(self._earlier.records)
        subjects = self._by_content.get(content, set()) - {self._subject(name)}
        known = [each for subject in subjects if (each := self._last(subject))]
        same = [each for each in known if each.state.startswith(f"{content}-") and each.paths]
        places = [(os.path.join(self._job.context.root, each.paths[0]), each) for each in same]
        gone = [each for path, each in places if not os.path.lexists(path)]
        return max(gone, key=lambda each: each.version, default=None)

    def _names_known(self) -> list[str]:
        """Files of the folder that were imported before and are not imported now."""
        source = self._job.source
        folder = self._job.path_of()
        prefix = "" if folder == "." else f"{folder}/"
        found = {
            path.removeprefix(prefix)
            for record in (self._decided() if folder else ())
            for path in record.document()["decisions"][0].get("paths", ())
            if path.startswith(prefix)
        }
        if not source.is_folder:
            listed = os.listdir(source.folder)
            found.update(name for name in listed if name.lower().endswith(PAGE_SUFFIXES))
        return sorted(n for n in found - set(source.names) if self._decided(self._subject(n)))

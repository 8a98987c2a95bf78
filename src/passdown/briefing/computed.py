"""What of the past bears on a task, chosen by rules that can be read: signals, points, limits.

A task's own words, the domains they belong to and the paths it names are compared with patterns,
gotchas, files and earlier tasks. Each thing that is chosen says why; each that isn't is counted.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.briefing.injection import as_code, escaped
from passdown.briefing.summary import shortened
from passdown.errors import InvalidInput, Problem
from passdown.model.kinds import parse_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Document = dict[str, Any]

KINDS = ("patterns", "gotchas", "code_refs", "prior_tasks")

LIMITS: dict[str, dict[str, int]] = {
    "easy": dict(zip(KINDS, (3, 2, 5, 2), strict=True)),
    "normal": dict(zip(KINDS, (5, 3, 10, 4), strict=True)),
    "complex": dict(zip(KINDS, (10, 5, 20, 8), strict=True)),
}

POINTS = {"file": 3, "component": 2, "location": 1, "words": 1, "domain": 1, "dependency": 1}


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


DOMAINS: dict[str, frozenset[str]] = {
    "interface": _set("ui ux frontend page form button css style layout view screen dialog"),
    "service": _set("api backend endpoint route request response http rest server handler"),
    "data": _set("database db sql schema migration query table storage model index cache"),
    "security": _set("auth login password token jwt session permission secret cookie encryption"),
    "testing": _set("test testing coverage fixture mock assertion regression benchmark"),
}

_STOP = _set(
    """about after all also and any are back because been before being below between both but can
    could did does each for from had has have here how into its just make may more must new not now
    off once only other our out over own same should some such than that the their them then there
    these they this those through too under until use used using very was were what when where
    which while who why will with without would you your
    src lib app pkg main init toml yaml json txt tsx html"""
)
_DOMAIN_WORDS = frozenset(word for words in DOMAINS.values() for word in words)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[^\W_]+")
_PATH = re.compile(r"[^\s\"'`()<>,;:|]+")
_FILE = re.compile(r".*[^./]\.[A-Za-z][A-Za-z0-9]{0,7}")
_SHOWN = 100
_NAMED = 5
_SIGNALS = 40


class Signals(NamedTuple):
    """What a task is about: its words, the domains they belong to, the paths it names."""

    keywords: tuple[str, ...]
    domains: tuple[str, ...]
    paths: tuple[str, ...]


class Computed(NamedTuple):
    """The context that was computed for a task; every entry has its `score` and its `why`.

    `counts` says for each kind how many were `considered`, how many of them `related`, how many
    are `shown`, and how many older ones were not looked at (`beyond`).
    """

    task: str
    complexity: str
    patterns: tuple[Document, ...]
    gotchas: tuple[Document, ...]
    code_refs: tuple[Document, ...]
    prior_tasks: tuple[Document, ...]
    signals: Signals
    counts: dict[str, dict[str, int]]

    def as_document(self) -> Document:
        """The context as a plain JSON object."""
        lists = {kind: list(getattr(self, kind)) for kind in KINDS}
        signals = {name: list(values) for name, values in self.signals._asdict().items()}
        return {**self._asdict(), **lists, "signals": signals}

    def text(self) -> str:
        """The context as Markdown for a prompt."""
        return computed_text(self)

    def explained(self) -> str:
        """Why each entry is in, and what was left out."""
        return explain(self)


def computed_context(
    task: Document, candidates: Mapping[str, Sequence[Document]], complexity: str = "normal"
) -> Computed:
    """Choose for a task among candidates, best first, as many as its complexity allows.

    Equal scores: the newer first, then by address. The order of the candidates doesn't matter.
    """
    if complexity not in LIMITS:
        problem = Problem("complexity", "invalid_choice", f"{complexity!r:.40}", " | ".join(LIMITS))
        raise InvalidInput("there is no such complexity", [problem])
    signals = signals_of(task)
    chosen: dict[str, tuple[Document, ...]] = {}
    counts: dict[str, dict[str, int]] = {}
    for kind in KINDS:
        given = list(candidates.get(kind, ()))
        if kind == "code_refs":
            given = _newest_per_path(given)
        scored = [_scored(entry, signals) for entry in given]
        related = _best_first(entry for entry in scored if entry["score"])
        chosen[kind] = tuple(related[: LIMITS[complexity][kind]])
        counts[kind] = {
            "considered": len(given),
            "related": len(related),
            "shown": len(chosen[kind]),
            "beyond": int(task.get("beyond", {}).get(kind, 0)),
        }
    return Computed(task["task_id"], complexity, **chosen, signals=signals, counts=counts)


def signals_of(task: Document) -> Signals:
    """The signals in a task's title, description, criteria, inputs, outputs, steps and paths."""
    texts = [task.get("title", ""), task.get("description", "")]
    for name in ("criteria", "inputs", "outputs", "next_steps"):
        texts += [_text_of(entry) for entry in task.get(name, ())]
    words = sorted({word for text in texts for word in words_of(text)})
    domains = [name for name, known in DOMAINS.items() if known.intersection(words)]
    named = {path for text in texts for path in paths_in(text)}
    paths = sorted(named.union(task.get("paths", ())))
    return Signals(tuple(words), tuple(domains), tuple(paths))


def words_of(text: str) -> set[str]:
    """The words of a text that can tell one subject from another, in one spelling each."""
    found = {_stem(word.casefold()) for word in _WORD.findall(_CAMEL.sub(" ", text))}
    return {word for word in found - _STOP if len(word) > 2 or word in _DOMAIN_WORDS}


def _stem(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and word[-2] != "s" else word


def paths_in(text: str) -> list[str]:
    """What looks like a path or a file's name in a text."""
    found = [part.strip(".") for part in _PATH.findall(text)]
    return [part for part in found if "/" in part.strip("/") or _FILE.fullmatch(part)]


def _text_of(entry: object) -> str:
    if not isinstance(entry, dict):
        return str(entry)
    step = cast("Document", entry)
    return " ".join([step.get("step", ""), *step.get("depends_on", ())])


def _newest_per_path(entries: Iterable[Document]) -> list[Document]:
    """One entry for each path: a file that several tasks touched is one file."""
    found: dict[str, Document] = {}
    for entry in sorted(sorted(entries, key=_address), key=_time):
        found[entry["path"]] = entry
    return list(found.values())


def _scored(entry: Document, signals: Signals) -> Document:
    """An entry with its points and what gave them."""
    places = _places(entry)
    words = {word for text in _texts(entry) for word in words_of(text)}
    component: set[str] = set()
    folders: set[str] = set()
    for place in places:
        near, far = _parts(place)
        component |= near
        folders |= far
    files = {path for place in places for path in paths_in(place)}
    known = set(signals.keywords)
    everything = words | component | folders
    found = {
        "file": _same_files(files, signals.paths),
        "component": sorted(component & known),
        "location": sorted((folders - component) & known),
        "words": sorted((words - component - folders) & known),
        "domain": [name for name in signals.domains if DOMAINS[name] & everything],
        "dependency": [entry["task"]] if entry.get("relation") == "dependency" else [],
    }
    why = [
        f"{name} {', '.join(_few(values))} (+{POINTS[name]})"
        for name, values in found.items()
        if values
    ]
    score = sum(POINTS[name] for name, values in found.items() if values)
    return {**entry, "score": score, "why": why}


def _few(values: Sequence[str], most: int = _NAMED) -> list[str]:
    more = len(values) - most
    shown = [shortened(value, _SHOWN) for value in values[:most]]
    return [*shown, f"{more} more"] if more > 0 else shown


def _texts(entry: Document) -> list[str]:
    names = ("pattern", "issue", "mitigation", "note", "reason", "title", "summary")
    texts = [str(entry[name]) for name in names if entry.get(name)]
    return [*texts, *entry.get("applies_to", ()), *entry.get("tags", ())]


def _places(entry: Document) -> list[str]:
    names = ("location", "discovered_in", "path")
    return [*(entry[name] for name in names if entry.get(name)), *entry.get("paths", ())]


def _parts(place: str) -> tuple[set[str], set[str]]:
    """The words of a place's component (a file and its folder), and of what is around it."""
    paths = paths_in(place)
    if not paths:
        return set(), words_of(place)
    *folders, name = paths[0].strip("/").split("/")
    near = words_of(name.partition(".")[0]) | words_of(folders[-1] if folders else "")
    return near, {word for folder in folders[:-1] for word in words_of(folder)}


def _same_files(files: set[str], wanted: Sequence[str]) -> list[str]:
    """The files that a task names, by path or by a name alone."""
    named = {path for path in wanted if "/" not in path}
    return sorted(path for path in files if path in wanted or path.rpartition("/")[2] in named)


def _best_first(entries: Iterable[Document]) -> list[Document]:
    """By score, then the newer, then by address: each sort keeps the order of the one before."""
    found = sorted(entries, key=_address)
    found.sort(key=_time, reverse=True)
    found.sort(key=_score, reverse=True)
    return found


def _score(entry: Document) -> int:
    return entry["score"]


def _time(entry: Document) -> str:
    return str(entry.get("at", ""))


def _address(entry: Document) -> tuple[str, str, int]:
    text = str(entry.get("address", ""))
    found = parse_address(text)
    return (found.task, found.letter, found.ordinal) if found else (text, "", 0)


def computed_text(computed: Computed) -> str:
    """A computed context as Markdown for a prompt; kinds with nothing in them are left out."""
    blocks = [f"### Context for {escaped(computed.task)}"]
    for kind in KINDS:
        entries: tuple[Document, ...] = getattr(computed, kind)
        if entries:
            lines = [f"- {_line(entry)}" for entry in entries]
            title = kind.replace("_", " ").capitalize().replace("refs", "references")
            blocks.append(f"#### {title}\n\n" + "\n".join(lines))
    if len(blocks) == 1:
        blocks.append("Nothing that was recorded bears on it.")
    return "\n\n".join(blocks) + "\n"


def _line(entry: Document) -> str:
    address = str(entry.get("address", ""))

    def text(name: str) -> str:
        return escaped(str(entry.get(name, "")), address=address if "#" in address else "")

    if "pattern" in entry:
        return f"{text('pattern')} (in {text('location')})"
    if "issue" in entry:
        return f"{text('severity')}: {text('issue')} Mitigation: {text('mitigation')}"
    if "path" in entry:
        about = text("note") or text("reason")
        return as_code(entry["path"]) + (f": {about}" if about else "")
    about = f". {text('summary')}" if entry.get("summary") else ""
    return f"{text('task')}: {text('title')} ({text('phase')}){about}"


def explain(computed: Computed) -> str:
    """Why each entry is in, and how many of each kind were considered and left out."""
    signals = computed.signals
    lines = [f"{computed.task}, {computed.complexity}"]
    for name, values in signals._asdict().items():
        lines.append(f"{name}: {', '.join(_few(values, _SIGNALS)) or 'none'}")
    for kind in KINDS:
        lines += ["", _counted(computed, kind)]
        for entry in cast("tuple[Document, ...]", getattr(computed, kind)):
            address, title = str(entry.get("address", "")), shortened(_title(entry), _SHOWN)
            lines.append(f"  {entry['score']}  {address}  {title}")
            lines.append(f"     {'; '.join(entry['why'])}")
    return "\n".join(lines)


def _counted(computed: Computed, kind: str) -> str:
    counts = computed.counts[kind]
    limit = LIMITS[computed.complexity][kind]
    over = counts["related"] - counts["shown"]
    apart = counts["considered"] - counts["related"]
    beyond = f", {counts['beyond']} older not looked at" if counts["beyond"] else ""
    return (
        f"{kind.replace('_', ' ')}: {counts['shown']} of {counts['considered']} considered; "
        f"left out: {over} over the limit of {limit}, {apart} that share nothing{beyond}"
    )


def _title(entry: Document) -> str:
    names = ("pattern", "issue", "path", "title")
    return next((str(entry[name]) for name in names if entry.get(name)), "")

"""Rules by layer: which apply to a prompt, how many fit its budget, and what is left out."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, partial
from typing import Literal, NamedTuple

from passdown.context.pipeline import Budget, collapse, left_out_line
from passdown.context.sessions import BRACKETS, DEPLETED_FROM, FRESH, FRESH_FROM, Bracket
from passdown.core.names import id_problems, normal_path, path_problems
from passdown.core.text import counted, excerpt, first_few, text_problems, visible
from passdown.core.tokens import Counter
from passdown.errors import Problem

MANIFEST = "manifest"
MAX_DOMAINS = 1_000
MAX_WORDS = 200
MAX_RULE = 2_000


class Layer(NamedTuple):
    """One of the eight layers; `limit_ms` is how long choosing its rules may take, `keys` are what
    its domains have beside a layer and a file, and `needs` is the one that they can't do without.
    """

    number: int
    name: str
    limit_ms: float
    keys: tuple[str, ...] = ("trigger",)
    needs: str = "trigger"


LAYERS = (
    Layer(0, "constitution", 5, (), ""),
    Layer(1, "global", 10, ("bracket",), ""),
    Layer(2, "agent", 15),
    Layer(3, "workflow", 15),
    Layer(4, "task", 20),
    Layer(5, "squad", 20),
    Layer(6, "keyword", 15, ("recall", "exclude"), "recall"),
    Layer(7, "star", 5),
)
_LAYER_OF = {word: layer for layer in LAYERS for word in (str(layer.number), layer.name)}
_BRACKET_NAMES = tuple(bracket.name for bracket in BRACKETS)

KEYS = ("layer", "file", "trigger", "recall", "exclude", "bracket")
# Only capitals make a key, so that a rule such as "set retries=3" stays whole.
_KEYED = re.compile(r"[A-Z][A-Z0-9_]*=")


class Domain(NamedTuple):
    """Rules that apply together.

    `trigger` names the agents, workflows, tasks, squads or star-commands they are for, `recall`
    and `exclude` are words in a prompt, `brackets` are those that the rules are for (none: all).
    """

    name: str
    layer: int
    file: str
    trigger: tuple[str, ...] = ()
    recall: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    brackets: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()


class Manifest(NamedTuple):
    """The domains that could be read, in the manifest's order, and everything that is wrong."""

    domains: tuple[Domain, ...] = ()
    devmode: bool = False
    problems: tuple[Problem, ...] = ()


def parse_manifest(text: str) -> Manifest:
    """The domains of a manifest; a faulty one is left out, and all faults are listed."""
    found: dict[str, dict[str, str]] = {}
    faults: dict[str, list[Problem]] = defaultdict(list)
    problems: list[Problem] = []
    devmode = False
    for number, raw in enumerate(text.lstrip("\ufeff").split("\n"), 1):
        line, where = raw.strip(), f"{MANIFEST}:{number}"
        if not line or line.startswith("#"):
            continue
        key, mark, value = (part.strip() for part in line.partition("="))
        if mark and key == "devmode" and value in ("on", "off"):
            devmode = value == "on"
        elif not mark or "." not in key:
            expected = "NAME.key=value, or devmode=on or off"
            problems.append(Problem(where, "invalid_line", f"'{excerpt(line)}'", expected))
        else:
            name, _, fact = key.rpartition(".")
            facts = found.setdefault(name, {})
            fault = _fact_fault(facts, key, fact, value)
            faults[name] += [Problem(where, *fault)] if fault else []
            facts |= {} if fault else {fact: value}
    domains: list[Domain] = []
    for name, facts in found.items():
        domain = _domain(name, facts, faults[name])
        problems += faults[name]
        if not any(problem.level == "error" for problem in faults[name]):
            domains.append(domain)
    if len(domains) > MAX_DOMAINS:
        message = f"{len(domains):,} domains; those after the first {MAX_DOMAINS:,} are left out"
        problems.append(Problem(MANIFEST, "too_many", message, f"at most {MAX_DOMAINS:,}"))
    return Manifest(tuple(domains[:MAX_DOMAINS]), devmode, tuple(problems))


def _fact_fault(
    known: dict[str, str], key: str, fact: str, value: str
) -> tuple[str, str, str] | None:
    """Code, message and expectation for a line that adds nothing to what a domain has."""
    if fact not in KEYS:
        return "unknown_key", f"'{excerpt(fact)}' is nothing that a domain has", " | ".join(KEYS)
    if fact in known:
        return "duplicate", f"{excerpt(key)} is there twice", "one line"
    return None if value else ("empty", f"{excerpt(key)} has no value", "a value")


def _domain(name: str, values: dict[str, str], problems: list[Problem]) -> Domain:
    where = f"{MANIFEST}: {excerpt(name)}"
    problems += id_problems(name, where)
    file = values.get("file", name)
    problems += path_problems(file, f"{where}.file") if file != name else []
    if normal_path(file) == MANIFEST:
        problems.append(Problem(f"{where}.file", "own_file", "is the manifest", "another file"))
    layer = _LAYER_OF.get(values.get("layer", "").lower())
    if layer is None:
        given = f"'{excerpt(values['layer'])}' is no layer" if "layer" in values else "has no layer"
        expected = "a number from 0 to 7, or " + " | ".join(layer.name for layer in LAYERS)
        problems.append(Problem(f"{where}.layer", "invalid_layer", given, expected))
        return Domain(name, 0, file)
    problems += _misfits(where, layer, values)
    trigger, recall, exclude, bracket = (
        tuple(_words(where, key, values, problems))
        for key in ("trigger", "recall", "exclude", "bracket")
    )
    brackets = tuple(name.upper() for name in bracket)
    for name_given in brackets:
        if name_given and name_given not in _BRACKET_NAMES:
            message, expected = f"'{excerpt(name_given)}' is no bracket", " | ".join(_BRACKET_NAMES)
            problems.append(Problem(f"{where}.bracket", "invalid_choice", message, expected))
    return Domain(name, layer.number, normal_path(file), trigger, recall, exclude, brackets)


def _misfits(where: str, layer: Layer, values: dict[str, str]) -> list[Problem]:
    """Facts that a layer needs and doesn't have, or has and doesn't use."""
    allowed = ("layer", "file", *layer.keys)
    fix = f"remove it, or use {', '.join(allowed)}"
    found = [
        Problem(f"{where}.{key}", "unused_key", f"the layer {layer.name} has no {key}", "", fix)
        for key in values
        if key not in allowed
    ]
    if layer.needs and layer.needs not in values:
        message = f"the layer {layer.name} needs a {layer.needs}"
        found.append(Problem(f"{where}.{layer.needs}", "missing", message, "words, with commas"))
    return found


def _words(where: str, key: str, values: dict[str, str], problems: list[Problem]) -> list[str]:
    if key not in values:
        return []
    words = [" ".join(word.split()) for word in values[key].split(",")]
    if not all(any(map(str.isalnum, word)) for word in words):
        message = f"'{excerpt(values[key])}' has a part without letters and digits"
        problems.append(Problem(f"{where}.{key}", "empty", message, "words, with commas"))
    if len(words) > MAX_WORDS:
        message = f"{len(words):,} words"
        problems.append(Problem(f"{where}.{key}", "too_many", message, f"at most {MAX_WORDS}"))
    return words


def parse_rules(text: str, path: str) -> tuple[tuple[str, ...], list[Problem]]:
    """The rules in a domain's file, one per line, and what is wrong with the others.

    A line is a rule, or `KEY=rule` with a key in capitals; a dash before it is taken off.
    """
    rules: list[str] = []
    problems: list[Problem] = []
    keys: set[str] = set()
    for number, raw in enumerate(text.lstrip("\ufeff").split("\n"), 1):
        line, where = raw.strip(), f"{path}:{number}"
        if not line or line.startswith("#"):
            continue
        key = found[0] if (found := _KEYED.match(line)) else ""
        rule = line.removeprefix(key).strip() if key else line.removeprefix("- ").strip()
        faults = text_problems(rule, where, max_length=MAX_RULE)
        if key and key in keys:
            message = f"{excerpt(key[:-1])} is there twice"
            faults.append(Problem(where, "duplicate", message, "one line"))
        keys |= {key} if key else set()
        problems += faults
        rules += [] if faults else [rule]
    if not rules and not problems:
        problems.append(Problem(path, "empty", "holds no rule", "one rule per line", "", "warning"))
    return tuple(rules), problems


Provider = Callable[[], Sequence[Domain]]

# `*help` is a command; `2*n`, `*emphasis*` and `**bold**` are not.
_STAR = re.compile(r"(?<![^\s(\[\"'`])\*([A-Za-z][\w-]*)(?![\w*-])")

_WORD = re.compile(r"\w+(?:\+\+|#(?!\w))?")  # c++ and c# are words of their own


class RulesRequest(NamedTuple):
    """What layers choose by: the prompt, what is active, and the bracket's name."""

    prompt: str = ""
    agent: str = ""
    workflow: str = ""
    task: str = ""
    squad: str = ""
    bracket: str = ""


def layer_providers(domains: Sequence[Domain], request: RulesRequest) -> dict[int, Provider]:
    """For each layer, what gives the domains that apply, in the manifest's order."""
    # What the prompt says is only looked for where a layer has domains that ask for it.
    is_said = cache(lambda: _phrase_test(request.prompt))
    commands = cache(lambda: {name.casefold() for name in _STAR.findall(request.prompt)})

    def applies(layer: Layer, domain: Domain) -> bool:
        if layer.name == "global":
            return not domain.brackets or request.bracket in domain.brackets
        if layer.name == "keyword":
            return any(map(is_said(), domain.recall)) and not any(map(is_said(), domain.exclude))
        if layer.name == "star":
            names = (trigger.removeprefix("*").casefold() for trigger in domain.trigger)
            return not commands().isdisjoint(names)
        return layer.number == 0 or _triggered(getattr(request, layer.name), domain)

    def given(layer: Layer) -> list[Domain]:
        return [each for each in domains if each.layer == layer.number and applies(layer, each)]

    return {layer.number: partial(given, layer) for layer in LAYERS}


def _triggered(name: str, domain: Domain) -> bool:
    """Whether a name is one of the domain's; a trigger may end in `*`."""
    wanted = name.casefold()
    return bool(wanted) and any(
        wanted.startswith(trigger[:-1].casefold())
        if trigger.endswith("*")
        else wanted == trigger.casefold()
        for trigger in domain.trigger
    )


def _phrase_test(prompt: str) -> Callable[[str], bool]:
    """A test for words and phrases that a prompt has; whole words only."""
    said = _spaced(prompt)
    words = set(said.split())

    def is_said(word: str) -> bool:
        phrase = _spaced(word)
        return phrase.strip() in words or (" " in phrase.strip() and phrase in said)

    return is_said


def _spaced(text: str) -> str:
    """A text's words alone, folded, with one space around each."""
    return f" {' '.join(_WORD.findall(text.casefold()))} "


Timer = Callable[[], float]

TOTAL_LIMIT_MS = 100
"""How long all layers together may take; what would come later is left out."""

LayerState = Literal["used", "empty", "held", "slow", "failed", "fallen"]


class LayerRun(NamedTuple):
    """What became of a layer: its domains, how many rules they have, how long choosing took.

    `held`: the bracket doesn't have the layer. `slow` and `failed`: left out, `detail` says why.
    `fallen`: there was no room.
    """

    number: int
    name: str
    state: LayerState
    domains: tuple[str, ...] = ()
    rules: int = 0
    ms: float = 0.0
    detail: str = ""


class LayerResult(NamedTuple):
    """A layer's run with the domains that it gave; none unless it is `used`."""

    run: LayerRun
    domains: tuple[Domain, ...] = ()


def run_layers(
    bracket: Bracket, given: Mapping[int, Provider], timer: Timer
) -> tuple[LayerResult, ...]:
    """Ask each layer that the bracket has for its domains, in order.

    `timer` gives seconds. A layer that raises, takes longer than its limit or ends after the limit
    for all is left out; the constitution is never left out for its time.
    """
    started = timer()
    return tuple(_run(layer, bracket, given.get(layer.number), timer, started) for layer in LAYERS)


def _run(
    layer: Layer, bracket: Bracket, provider: Provider | None, timer: Timer, started: float
) -> LayerResult:
    run = LayerRun(layer.number, layer.name, "empty")
    if layer.number not in bracket.layers:
        return LayerResult(run._replace(state="held"))
    if provider is None:
        return LayerResult(run)
    begun = timer()
    if _is_late(layer, before := (begun - started) * 1_000):
        detail = f"{before:.0f} ms were gone, {TOTAL_LIMIT_MS} is the limit for all layers"
        return LayerResult(run._replace(state="slow", detail=detail))
    try:
        found = tuple(provider())
    except Exception as error:  # noqa: BLE001 - one layer must not take the others down
        detail = f"{type(error).__name__}: {excerpt(str(error), 120)}"
        return LayerResult(run._replace(state="failed", detail=detail))
    ended = timer()
    run = run._replace(ms=round((ended - begun) * 1_000, 3))
    if _is_late(layer, (ended - started) * 1_000, run.ms):
        detail = f"{run.ms:.1f} ms, {layer.limit_ms:g} is its limit, {TOTAL_LIMIT_MS} that of all"
        return LayerResult(run._replace(state="slow", detail=detail))
    names = tuple(domain.name for domain in found)
    rules = sum(len(domain.rules) for domain in found)
    state: LayerState = "used" if rules else "empty"
    return LayerResult(run._replace(state=state, domains=names, rules=rules), found)


def _is_late(layer: Layer, total_ms: float, own_ms: float = 0.0) -> bool:
    return layer.number > 0 and (total_ms > TOTAL_LIMIT_MS or own_ms > layer.limit_ms)


FALL_ORDER = ("summary", "keyword", "memory", "squad", "star", "devmode", "task", "workflow")
"""What goes first when there are too many tokens; bracket, constitution, global and agent stay."""

HANDOFF_WARNING = (
    f"Less than {DEPLETED_FROM} % of the context is left: hand the task off now (passdown handoff),"
    " while you still know why things are as they are."
)

_TITLES = {
    "constitution": "## Constitution (nothing below overrides it)",
    "global": "## Rules",
    "star": "## Rules of the star-command",
}
_READABLE = tuple(layer.name for layer in LAYERS)


class Section(NamedTuple):
    """A part of the text; `entries` says how many rules or hints it has."""

    name: str
    body: str
    domains: tuple[str, ...] = ()
    entries: int = 0


class DroppedSection(NamedTuple):
    """A section that there was no room for, and how much was in it."""

    section: str
    domains: tuple[str, ...]
    entries: int
    tokens: int


class Extras(NamedTuple):
    """What a prompt carries besides the layers; `faults` counts those in the rules' files.

    `is_estimated`: what is left was estimated from an earlier count.
    """

    memory: tuple[str, ...] = ()
    summary: str = ""
    devmode: bool = False
    faults: int = 0
    is_estimated: bool = False


NO_EXTRAS = Extras()


class RulesText(NamedTuple):
    """The text for the prompt, and what isn't in it.

    `over_by` is by how many tokens the sections that never fall exceed the budget. `held` names
    what the bracket keeps back.
    """

    text: str
    tokens: int
    fallen: tuple[DroppedSection, ...]
    over_by: int
    held: tuple[str, ...]
    layers: tuple[LayerRun, ...]


def fit_rules(
    bracket: Bracket,
    percent: float,
    chosen: Sequence[LayerResult],
    counter: Counter,
    extras: Extras = NO_EXTRAS,
) -> RulesText:
    """The text for a prompt: whole sections fall, in `FALL_ORDER`, until the budget holds."""
    found = sections(bracket, percent, chosen, extras)
    runs = tuple(each.run for each in chosen)
    notes = [f"{run.name} ({_WHY[run.state]})" for run in runs if run.state in _WHY]
    optional = [each for name in FALL_ORDER[::-1] for each in found if each.name == name]

    def text_with(kept: Collection[Section]) -> str:
        gone = [each for each in reversed(optional) if each not in kept]
        parts = [each.body for each in found if each not in gone]
        last = [_left_out(notes, gone)] if notes or gone else []
        if extras.faults:
            faults = counted(extras.faults, "fault")
            last.append(f"{faults} in the rules' files: passdown rules list")
        return "\n\n".join([*parts, *(["\n".join(last)] if last else [])]) + "\n"

    kept = Budget(bracket.budget, counter.tokens).select(
        optional, text_with, is_ready=lambda each, kept: optional.index(each) == len(kept)
    )
    fallen = [each for each in reversed(optional) if each not in (kept or ())]
    text = text_with(kept or ())
    tokens = counter.tokens(text)
    lost = {each.name for each in fallen}
    held = [run.name for run in runs if run.state == "held"]
    held += ["memory"] if extras.memory and not bracket.has_memory else []
    return RulesText(
        text,
        tokens,
        tuple(
            DroppedSection(each.name, each.domains, each.entries, counter.tokens(each.body))
            for each in fallen
        ),
        max(0, tokens - bracket.budget),
        tuple(held),
        tuple(run._replace(state="fallen") if run.name in lost else run for run in runs),
    )


_WHY = {"slow": "took too long", "failed": "failed"}


def sections(
    bracket: Bracket, percent: float, chosen: Sequence[LayerResult], extras: Extras = NO_EXTRAS
) -> list[Section]:
    """Every section that the bracket has, in the order in which they are read."""
    found = [Section("bracket", _bracket_text(bracket, percent, extras.is_estimated))]
    for each in chosen:
        rules = [rule for domain in each.domains for rule in domain.rules]
        if rules:
            name = each.run.name
            title = _TITLES.get(name, f"## Rules of the {name}")
            found.append(Section(name, _listed(title, rules), each.run.domains, len(rules)))
    if extras.devmode:
        lines = [_run_line(each.run) for each in chosen]
        found.append(Section("devmode", _listed("## Layers", lines), entries=len(lines)))
    if extras.memory and bracket.has_memory:
        body = _listed("## Worth remembering", extras.memory)
        found.append(Section("memory", body, entries=len(extras.memory)))
    if extras.summary.strip():
        found.append(Section("summary", visible(extras.summary.strip(), keep_newlines=True)))
    return found


def _bracket_text(bracket: Bracket, percent: float, is_estimated: bool) -> str:
    # Rounded down, so that the number never contradicts the bracket.
    left = f"{math.floor(percent)} % left"
    text = f"Context: {bracket.name}, {f'about {left} (estimated)' if is_estimated else left}."
    if bracket is FRESH:
        names = [layer.name for layer in LAYERS if layer.number not in bracket.layers]
        listed = f"{', '.join(names[:-1])} and {names[-1]}"
        text += f" Rules by {listed} wait until it is below {FRESH_FROM} %."
    return f"{text}\n{HANDOFF_WARNING}" if bracket.has_warning else text


def _listed(title: str, lines: Sequence[str]) -> str:
    return "\n".join([title, *(f"- {collapse(line)}" for line in lines)])


def _run_line(run: LayerRun) -> str:
    domains = f" from {', '.join(run.domains)}" if run.domains else ""
    detail = f" ({run.detail})" if run.detail else ""
    return f"L{run.number} {run.name}: {run.state}, {counted(run.rules, 'rule')}{domains}{detail}"


def _left_out(notes: Sequence[str], fallen: Sequence[Section]) -> str:
    """One line that names and counts what isn't there, and says how to read it."""
    readable = [each.name for each in fallen if each.name in _READABLE]
    names = readable[0] if len(readable) == 1 else f"NAME ({', '.join(readable)})"
    what = [*map(_fallen_text, fallen), *notes]
    return left_out_line(what, f"passdown rules show {names}" if readable else "")


def _fallen_text(each: Section) -> str:
    what = counted(each.entries, "rule" if each.domains else "line")
    what += f" in {first_few(each.domains)}" if each.domains else ""
    return f"{each.name} ({f'{what}, ' if each.entries else ''}no room)"

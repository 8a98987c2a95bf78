"""Put the rules of all layers together within the bracket's budget; nothing goes unsaid."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from passdown.briefing.rules.brackets import DEPLETED_FROM, FRESH, FRESH_FROM, Bracket
from passdown.briefing.rules.manifest import LAYERS
from passdown.model.text import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.briefing.rules.engine import Chosen, LayerRun
    from passdown.model.tokens import Counter

FALL_ORDER = ("summary", "keyword", "memory", "squad", "star", "devmode", "task", "workflow")
"""What goes first when there are too many tokens; bracket, constitution, global and agent stay."""

HANDOFF_WARNING = (
    f"Less than {DEPLETED_FROM} % of the context is left: hand the task off now (passdown handoff),"
    " while you still know why things are as they are."
)

_NAMES_SHOWN = 3
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


class Fallen(NamedTuple):
    """A section that there was no room for, and how much was in it."""

    section: str
    domains: tuple[str, ...]
    entries: int
    tokens: int


class Extras(NamedTuple):
    """What a prompt carries besides the layers; `faults` counts those in the rules' files.

    `is_estimated`: what is left was reckoned from an earlier count.
    """

    memory: tuple[str, ...] = ()
    summary: str = ""
    devmode: bool = False
    faults: int = 0
    is_estimated: bool = False


NO_EXTRAS = Extras()


class Fitted(NamedTuple):
    """The text for the prompt, and what isn't in it.

    `over_by` is by how many tokens the sections that never fall exceed the budget. `held` names
    what the bracket keeps back.
    """

    text: str
    tokens: int
    fallen: tuple[Fallen, ...]
    over_by: int
    held: tuple[str, ...]
    layers: tuple[LayerRun, ...]


def fitted(
    bracket: Bracket,
    percent: float,
    chosen: Sequence[Chosen],
    counter: Counter,
    extras: Extras = NO_EXTRAS,
) -> Fitted:
    """The text for a prompt: whole sections fall, in `FALL_ORDER`, until the budget holds."""
    kept = sections(bracket, percent, chosen, extras)
    runs = tuple(each.run for each in chosen)
    notes = [f"{run.name} ({_WHY[run.state]})" for run in runs if run.state in _WHY]
    fallen: list[Fallen] = []
    text = _joined(kept, notes, fallen, extras.faults)
    tokens = counter.tokens(text)
    for name in FALL_ORDER:
        if tokens <= bracket.budget:
            break
        gone = [section for section in kept if section.name == name]
        if not gone:
            continue
        kept = [section for section in kept if section.name != name]
        fallen += [Fallen(name, s.domains, s.entries, counter.tokens(s.body)) for s in gone]
        text = _joined(kept, notes, fallen, extras.faults)
        tokens = counter.tokens(text)
    lost = {each.section for each in fallen}
    held = [run.name for run in runs if run.state == "held"]
    held += ["memory"] if extras.memory and not bracket.has_memory else []
    return Fitted(
        text,
        tokens,
        tuple(fallen),
        max(0, tokens - bracket.budget),
        tuple(held),
        tuple(run._replace(state="fallen") if run.name in lost else run for run in runs),
    )


_WHY = {"slow": "took too long", "failed": "failed"}


def sections(
    bracket: Bracket, percent: float, chosen: Sequence[Chosen], extras: Extras = NO_EXTRAS
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
    return "\n".join([title, *(f"- {visible(' '.join(line.split()))}" for line in lines)])


def _run_line(run: LayerRun) -> str:
    domains = f" from {', '.join(run.domains)}" if run.domains else ""
    detail = f" ({run.detail})" if run.detail else ""
    return f"L{run.number} {run.name}: {run.state}, {_counted(run.rules, 'rule')}{domains}{detail}"


def _joined(
    kept: Sequence[Section], notes: Sequence[str], fallen: Sequence[Fallen], faults: int
) -> str:
    parts = [section.body for section in kept]
    last = [_left_out(notes, fallen)] if notes or fallen else []
    if faults:
        last.append(f"{_counted(faults, 'fault')} in the rules' files: passdown rules list")
    return "\n\n".join([*parts, *(["\n".join(last)] if last else [])]) + "\n"


def _left_out(notes: Sequence[str], fallen: Sequence[Fallen]) -> str:
    """One line that names and counts what isn't there, and says how to read it."""
    named = [*(_fallen_text(each) for each in fallen), *notes]
    readable = [each.section for each in fallen if each.section in _READABLE]
    names = readable[0] if len(readable) == 1 else f"NAME ({', '.join(readable)})"
    how = f" Read: passdown rules show {names}" if readable else ""
    return f"Left out: {', '.join(named)}.{how}"


def _fallen_text(each: Fallen) -> str:
    if not each.domains:
        what = f"{_counted(each.entries, 'line')}, " if each.entries else ""
        return f"{each.section} ({what}no room)"
    shown = ", ".join(each.domains[:_NAMES_SHOWN])
    more = len(each.domains) - _NAMES_SHOWN
    names = f"{shown} and {more} more" if more > 0 else shown
    return f"{each.section} ({_counted(each.entries, 'rule')} in {names}, no room)"


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"

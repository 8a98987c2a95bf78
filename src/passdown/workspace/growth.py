"""Measure how contexts grow from switch to switch: a sample story, the measurement, its picture."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from html import escape
from itertools import count, pairwise
from typing import TYPE_CHECKING, NamedTuple

from passdown.core.text import visible
from passdown.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from passdown.core.tokens import Counter, CounterLike
    from passdown.core.types import JsonObject, Progress
    from passdown.history.profiles import Profiles
    from passdown.workspace import Workspace
    from passdown.workspace.switches import Switch


TASK = "INV-7"
TITLE = "Export invoices as CSV"
CRITERIA = (
    "a month of invoices downloads as one file",
    "every amount in it equals the amount on the invoice",
    "a spreadsheet opens it without asking for the separator",
)

_SUBJECTS = (
    "invoice number", "issue date", "due date", "customer name", "customer address", "tax id",
    "net amount", "tax rate", "tax amount", "gross amount", "currency", "exchange rate",
    "payment terms", "discount", "credit note", "line items", "order reference", "cost centre",
    "bank details", "payment state", "reminder level", "sales channel", "export window",
)  # fmt: skip
_CHOICES = (
    ("The {} is written as stored, never as displayed", "what is displayed depends on who looks"),
    ("An empty {} stays an empty cell", "a dash would be read as text by the bookkeeping"),
    ("The {} gets a column of its own", "joined columns can't be sorted or summed afterwards"),
    ("The {} is read once per batch of 500", "reading it per row took nine minutes for a year"),
    ("A wrong {} stops the row, not the file", "one bad row must not cost the other thousands"),
    ("The {} is quoted whenever it holds a semicolon", "two customers have one in their names"),
    ("Rounding of the {} stays where the invoice did it", "a second rounding moves a cent"),
    ("The {} keeps leading zeros", "a spreadsheet drops them unless the cell is text"),
    ("Old names of the {} are mapped in one table", "three importers had each their own"),
    ("The {} is checked against the invoice before download", "the last export was off by a row"),
    ("The header calls the {} what the invoice calls it", "people search for the printed word"),
    ("Access to the {} follows the rights of the viewer", "an export must not show more"),
    ("The {} is left out of the log", "logs are kept longer than invoices may be"),
)  # fmt: skip
_TROUBLE = (
    ("Nobody has confirmed the format of the {}", "the import may refuse the file",
     "ask the bookkeeping for one sample row"),
    ("The {} is missing on invoices before 2019", "their rows come out short",
     "agree on a value that stands for unknown"),
    ("Staging has no real {}", "the check can't be run there",
     "copy ten invoices with made-up customers"),
    ("The {} differs between the ledger and the invoice", "one of two sums is wrong",
     "find out which of them the tax office was sent"),
    ("The licence of the library that parses the {} is unclear", "it can't be shipped yet",
     "ask the owner of the product, or write the forty lines"),
)  # fmt: skip
_FOLDERS = (("src/export", "py"), ("tests/export", "py"), ("src/export/columns", "py"),
            ("docs/export", "md"), ("config/export", "toml"), ("src/export/checks", "py"),
            ("tests/samples", "csv"))  # fmt: skip
_PARTS = ("reader", "writer", "column", "check", "mapping", "sample", "limits", "notes", "batch",
          "header", "totals")  # fmt: skip
_STEPS = (
    "Write the part that exports the {}, then run the checks on a month of invoices",
    "Review how the {} is exported and try a file of ten thousand rows",
    "Test the {} with the samples of the bookkeeping and report every difference",
    "Roll the {} out to the first two customers and watch the error rate",
)
_PHASES = ("planning", "implementing", "testing", "reviewing")
_MORNING = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
_SEVERITIES = ("high", "medium", "low", "blocker")


class StorySize(NamedTuple):
    """How much of each a turn leaves behind."""

    decisions: int = 5
    files: int = 10
    blockers: int = 2


class StoryTurn(NamedTuple):
    """One agent's turn: the handoff that ends it, and the files that it names, with their text."""

    handoff: JsonObject
    files: dict[str, str]


def story_clock() -> Callable[[], datetime]:
    """The time in the story: from one morning on, a minute later with each look."""
    looks = count()
    return lambda: _MORNING + timedelta(minutes=next(looks))


def story_turn(number: int, agent: str, to_agent: str, size: StorySize) -> StoryTurn:
    """The turn of that number, from 0."""
    at = number * size.decisions
    decisions = [_decision(at + index) for index in range(size.decisions)]
    at = number * size.files
    files = dict(_file(at + index) for index in range(size.files))
    at = number * size.blockers
    blockers = [_blocker(at + index) for index in range(size.blockers)]
    subject = _SUBJECTS[number % len(_SUBJECTS)]
    handoff = {
        "task": TASK,
        "from_agent": agent,
        "to_agent": to_agent,
        "phase": _phase(number, size),
        "outcome": "partial" if blockers else "completed",
        "summary": f"Turn {number + 1}: the {subject} is settled, the rest of the export goes on.",
        "files_created": [
            {"path": path, "purpose": text.split("\n", 1)[0].strip("# ")}
            for path, text in files.items()
        ],
        "decisions": decisions,
        "blockers": blockers,
        "suggested_next_steps": [{"step": _next_step(number), "priority": "high"}],
        "story": {
            "id": "7.3",
            "path": "docs/stories/7.3.invoice-export.md",
            "status": "in progress",
            "current_task": f"Export the {subject}",
            "branch": "feature/invoice-export",
        },
    }
    return StoryTurn(handoff, files)


def critical(turns: list[StoryTurn]) -> list[tuple[str, str]]:
    """What must not get lost by the end, as pairs of kind and text.

    Decisions and files of all turns hold on; what is in the way and what comes next is what the
    last turn says.
    """
    last = turns[-1].handoff
    found = [("task", TITLE), *((f"story {name}", text) for name, text in last["story"].items())]
    for each in turns:
        found += [("decision", decision["summary"]) for decision in each.handoff["decisions"]]
        found += [("file", path) for path in each.files]
    found += [("blocker", blocker["blocker"]) for blocker in last["blockers"]]
    found += [("next action", step["step"]) for step in last["suggested_next_steps"]]
    return found


def _phase(number: int, size: StorySize) -> str:
    """Later phases ask for sources and tests, which a turn of one file doesn't bring."""
    return _PHASES[min(number, len(_PHASES) - 1) if size.files > 1 else min(number, 1)]


def _decision(index: int) -> JsonObject:
    summary, why = _CHOICES[index % len(_CHOICES)]
    subject = _SUBJECTS[index % len(_SUBJECTS)]
    again = _again(index, len(_CHOICES) * len(_SUBJECTS))
    return {
        "summary": summary.format(subject) + again,
        "rationale": why,
        "tags": [subject.replace(" ", "-")],
    }


def _blocker(index: int) -> JsonObject:
    text, impact, way = _TROUBLE[index % len(_TROUBLE)]
    subject = _SUBJECTS[index % len(_SUBJECTS)]
    return {
        "blocker": text.format(subject) + _again(index, len(_TROUBLE) * len(_SUBJECTS)),
        "impact": impact,
        "suggested_resolution": way,
        "severity": _SEVERITIES[index % len(_SEVERITIES)],
    }


def _file(index: int) -> tuple[str, str]:
    folder, ending = _FOLDERS[index % len(_FOLDERS)]
    part = _PARTS[index % len(_PARTS)]
    subject = _SUBJECTS[index % len(_SUBJECTS)]
    again = _again(index, len(_FOLDERS) * len(_PARTS) * len(_SUBJECTS)).replace(", part ", "_")
    path = f"{folder}/{subject.replace(' ', '_')}_{part}{again}.{ending}"
    return path, f"# The {part} of the {subject}\n" + "value = 1\n" * (index % 7 + 1)


def _next_step(number: int) -> str:
    step = _STEPS[number % len(_STEPS)].format(_SUBJECTS[number % len(_SUBJECTS)])
    return step + _again(number, len(_STEPS) * len(_SUBJECTS))


def _again(index: int, length: int) -> str:
    """What tells a text from the one that stood at the same place of the round before."""
    return f", part {index // length + 1}" if index >= length else ""


MOST_SWITCHES = 1_000
MOST_OF_EACH = 100
_PAGE = 500
_ARTIFACT = re.compile(r"\.passdown/handoffs/[\w.-]+\.yaml")
_STATE_FILE = re.compile(r"\.passdown/state/[\w.-]+\.json")
_STATE_VERB = re.compile(r"passdown state ([\w.-]*\w)")


class GrowthStep(NamedTuple):
    """One switch, in tokens: the agent's profile, the context without Passdown and with it.

    `without` is every profile so far, each time that it was loaded, and nothing else; `context` is
    the whole text that the agent gets, `summaries` and `brief` are parts of it.
    """

    number: int
    agent: str
    profile: int
    without: int
    context: int
    summaries: int
    brief: int

    @property
    def on_top(self) -> int:
        """What the context holds besides the profile."""
        return self.context - self.profile

    @property
    def saved(self) -> float:
        """What is saved, in per cent of the context without."""
        return 100 * (1 - self.context / self.without) if self.without else 0.0

    def to_dict(self) -> JsonObject:
        """The step as plain JSON."""
        return {**self._asdict(), "on_top": self.on_top, "saved_percent": round(self.saved, 1)}


class Retention(NamedTuple):
    """What became of what must not get lost: in the last context, one handle away, or gone."""

    found: int
    reachable: int
    lost: tuple[str, ...]


class ContextGrowth(NamedTuple):
    """A measurement. `each_once` is all profiles together, however often each was loaded."""

    counter: str
    steps: tuple[GrowthStep, ...]
    each_once: int
    kept: Retention | None

    @property
    def last(self) -> GrowthStep:
        """The last switch."""
        return self.steps[-1]

    @property
    def pays_from(self) -> int:
        """The switch from which on every context is shorter than the one without; 0 for none."""
        found = 0
        for step in reversed(self.steps):
            if step.context >= step.without:
                break
            found = step.number
        return found

    def to_dict(self) -> JsonObject:
        """The measurement as plain JSON."""
        kept = {**self.kept._asdict(), "lost": list(self.kept.lost)} if self.kept else None
        return {
            "counter": self.counter,
            "steps": [step.to_dict() for step in self.steps],
            "each_profile_once": self.each_once,
            "pays_from": self.pays_from,
            "kept": kept,
        }


def measure_growth(
    personas: str,
    *,
    chain: Sequence[str] = (),
    switches: int = 0,
    counter: CounterLike = None,
    decisions: int = 5,
    files: int = 10,
    blockers: int = 2,
    budget: int | None = None,
    progress: Progress | None = None,
) -> ContextGrowth:
    """Play a story with the profiles of a folder (NAME.md) and measure every context.

    Each agent of the chain takes over, leaves so many decisions, files and blockers in a handoff,
    and the next one takes over; the chain goes round until there were so many switches. Without a
    chain, all agents of the folder in order; without a number, each once. Its clock is its own, so
    that the same profiles give the same numbers.
    """
    import tempfile

    from passdown.core.settings import DEFAULTS
    from passdown.core.tokens import counter_of
    from passdown.history.profiles import Profiles
    from passdown.workspace import Workspace
    from passdown.workspace.location import in_folder, make_folder

    profiles = Profiles(os.getcwd(), os.path.abspath(personas))
    names = tuple(chain) or profiles.names()
    count = min(switches or len(names), MOST_SWITCHES + 1)
    order = [names[index % len(names)] for index in range(count) if names]
    _check(profiles, order, switches, (decisions, files, blockers))
    with tempfile.TemporaryDirectory(prefix="passdown-measure-") as folder:
        make_folder(place := in_folder(folder))
        with Workspace(place, settings=DEFAULTS, clock=story_clock()) as workspace:
            play = _Play(workspace, profiles.folder, counter_of(counter), budget)
            return play.of(order, StorySize(decisions, files, blockers), progress)


def _check(
    profiles: Profiles, order: Sequence[str], switches: int, sizes: tuple[int, int, int]
) -> None:
    problems = _chain_problems(profiles, order)
    given = {"switches": switches} | dict(
        zip(("decisions", "files", "blockers"), sizes, strict=True)
    )
    for name, number in given.items():
        most = MOST_SWITCHES if name == "switches" else MOST_OF_EACH
        if not 0 <= number <= most:
            problems.append(Problem(name, "out_of_range", f"{number}", f"0 to {most:,}"))
    if problems:
        raise InvalidInput("nothing was measured", problems)


def _chain_problems(profiles: Profiles, order: Sequence[str]) -> list[Problem]:
    if not order:
        message = f"no profiles in {profiles.folder}"
        return [Problem("personas", "empty", message, "a folder of NAME.md files")]
    problems: list[Problem] = []
    for name in dict.fromkeys(order):
        profile = profiles.get(name)
        if profile is None:
            known = ", ".join(profiles.names()) or "none"
            problems.append(Problem("chain", "no_profile", f"{name[:80]!r}", known))
        elif not profile.text:
            problems += profile.problems or [Problem(profile.path, "empty", "says nothing")]
    if any(name == after for name, after in pairwise(order)):
        message = "an agent would take over from itself"
        problems.append(Problem("chain", "same_agent", message, "another agent each time"))
    return problems


class _Play:
    """A story in a workspace: real handoffs, real files, real switches."""

    def __init__(
        self, workspace: Workspace, personas: str, counter: Counter, budget: int | None
    ) -> None:
        self.workspace = workspace
        self.personas = personas
        self.counter = counter
        self.budget = budget
        self.turns: list[StoryTurn] = []

    def of(self, order: Sequence[str], size: StorySize, progress: Progress | None) -> ContextGrowth:
        """Play it in that order of agents."""
        self.workspace.create_task(
            TASK, title=TITLE, agent=order[0], criteria=CRITERIA, key="story"
        )
        switched: list[Switch] = []
        for number, agent in enumerate(order):
            if number:
                self._hand_over(number - 1, order[number - 1], agent, size)
            switched.append(self._switch(TASK, agent))
            if progress:
                progress(number + 1, len(order))
        steps = tuple(_steps([(found.to_agent, found.parts) for found in switched]))
        needed = critical(self.turns) if self.turns else [("task", TITLE)]
        each = {step.agent: step.profile for step in steps}
        kept = _kept(self.workspace, switched[-1].text, needed)
        return ContextGrowth(self.counter.name, steps, sum(each.values()), kept)

    def _switch(self, task: str, agent: str) -> Switch:
        return self.workspace.switch(
            task, to_agent=agent, budget=self.budget, counter=self.counter, profiles=self.personas
        )

    def _hand_over(self, number: int, agent: str, to_agent: str, size: StorySize) -> None:

        made = story_turn(number, agent, to_agent, size)
        for path, text in made.files.items():
            target = os.path.join(self.workspace.root, *path.split("/"))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "w", encoding="utf-8") as file:
                file.write(text)
        self.workspace.hand_off(made.handoff)
        self.turns.append(made)


def recorded_growth(workspace: Workspace, task: str, counter: str = "") -> ContextGrowth:
    """The switches that a workspace has recorded of a task, by one counter; nothing is played.

    Without a counter, by that of the latest switch.
    """
    found = [entry for entry in _deliveries(workspace, task) if entry["kind"] == "switched"][::-1]
    name = counter or (found[-1]["counter"] if found else "")
    told = [(entry["agent"], entry["parts"]) for entry in found if entry["counter"] == name]
    if not told:
        message = f"no switch of {task} was recorded" + (f" by {name}" if name else "")
        problem = Problem("task", "empty", message, "a task that has changed hands")
        raise InvalidInput("nothing was measured", [problem])
    steps = tuple(_steps(told))
    each = {step.agent: step.profile for step in steps}
    return ContextGrowth(name, steps, sum(each.values()), None)


def _deliveries(workspace: Workspace, task: str) -> Iterator[JsonObject]:
    page = workspace.context.deliveries(task, limit=_PAGE)
    while page:
        yield from (delivery.to_dict() for delivery in page)
        page = workspace.context.deliveries(task, limit=_PAGE, before=page[-1].number)


def _steps(told: Sequence[tuple[str, dict[str, int]]]) -> Iterator[GrowthStep]:
    without = 0
    for number, (agent, parts) in enumerate(told, 1):
        without += parts["profile"]
        yield GrowthStep(
            number,
            agent,
            parts["profile"],
            without,
            parts["total"],
            parts["summaries"],
            parts["brief"],
        )


def _kept(workspace: Workspace, text: str, needed: Sequence[tuple[str, str]]) -> Retention:
    """Look for each text in the context; else behind the handles that the context names."""
    missing = [(kind, words) for kind, words in needed if not _says(text, words)]
    behind = _behind(workspace, text) if missing else ""
    lost = tuple(f"{kind}: {words}" for kind, words in missing if not _says(behind, words))
    return Retention(len(needed) - len(missing), len(missing) - len(lost), lost)


def _says(text: str, words: str) -> bool:
    """Whether the words stand in a text, not as a piece of longer ones."""
    return re.search(rf"(?<![\w/]){re.escape(words)}(?![\w/])", text) is not None


def _behind(workspace: Workspace, text: str) -> str:
    """All that the commands and files named in a text hold."""
    import json

    files = {*_ARTIFACT.findall(text), *_STATE_FILE.findall(text)}
    parts = [_content(os.path.join(workspace.root, *name.split("/"))) for name in sorted(files)]
    tasks = sorted(set(_STATE_VERB.findall(text)))
    parts += [
        json.dumps(workspace.files.state_document(task), ensure_ascii=False) for task in tasks
    ]
    return "\n".join(parts)


def _content(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


WIDTH, HEIGHT = 860, 460
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 28, 118, 76
_MOST_BARS = 14
_MOST_NAMES = 12
_MOST_FIGURES = 8
_MOST_NUMBERS = 16
_TICKS = 8
_NAME = 14
_LETTER = 7.5
"""How wide a letter is at most, on average."""

_STYLE = """\
  text { font-family: system-ui, sans-serif; font-size: 13px; fill: #1f2328; }
  .title { font-size: 18px; font-weight: 600; }
  .soft { fill: #59636e; }
  .figure { font-size: 11px; fill: #59636e; }
  .grid { stroke: #d8dee4; }
  .paper { fill: #ffffff; }
  .without { fill: #b35900; }
  .with { fill: #0969da; }
  .line { fill: none; stroke-width: 2.5; stroke-linejoin: round; }
  .line.without { stroke: #b35900; stroke-dasharray: 7 4; }
  .line.with { stroke: #0969da; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .soft, .figure { fill: #9198a1; }
    .grid { stroke: #30363d; }
    .paper { fill: #0d1117; }
    .without { fill: #f0883e; }
    .with { fill: #58a6ff; }
    .line { fill: none; }
    .line.without { stroke: #f0883e; }
    .line.with { stroke: #58a6ff; }
  }"""


def growth_picture(growth: ContextGrowth) -> str:
    """The picture of a measurement: bars for a few switches, lines for many."""
    steps = growth.steps
    most = max(max(step.without, step.context) for step in steps)
    between = _step(most)
    # The axis ends at the first line that no bar passes.
    top = max(-(-most // between), 1) * between
    drawn = _bars(steps, top) if len(steps) <= _MOST_BARS else _lines(steps, top)
    title = "Tokens in an agent's context, switch by switch"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-labelledby="title what">',
        f'<title id="title">{escape(title)}</title>',
        f'<desc id="what">{escape(_headline(growth))}</desc>',
        f"<style>\n{_STYLE}\n</style>",
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>',
        _text(_LEFT, 34, title, "title"),
        _text(_LEFT, 58, _headline(growth), "soft"),
        *_legend(),
        *_grid(top, between),
        *drawn,
        *_names(steps),
        _text(_LEFT, HEIGHT - 16, f"switch (tokens by {growth.counter})", "soft"),
        "</svg>",
    ]
    return "".join(f"{part}\n" for part in parts)


def _headline(growth: ContextGrowth) -> str:
    last = growth.last
    count = f"{len(growth.steps)} switch" + ("es" if len(growth.steps) != 1 else "")
    change = f"{last.saved:.0f} % less" if last.saved >= 0 else f"{-last.saved:.0f} % more"
    return f"After {count}: {last.context:,} tokens instead of {last.without:,}, {change}"


def _legend() -> Iterator[str]:
    named = {
        "without": "without: every profile so far",
        "with": "with Passdown: one profile, short summaries, a brief",
    }
    x = _LEFT
    for kind, words in named.items():
        yield f'<rect class="{kind}" x="{x}" y="76" width="14" height="14" rx="2"/>'
        yield _text(x + 22, 88, words)
        x += 250


def _step(most: int) -> int:
    """The distance of two lines: a round number, so that at most eight of them are enough."""
    unit = 1
    while True:
        for factor in (1, 2, 5):
            if most <= unit * factor * _TICKS:
                return unit * factor
        unit *= 10


def _grid(top: int, step: int) -> Iterator[str]:
    for value in range(0, top + 1, step):
        y = _y(value, top)
        yield f'<line class="grid" x1="{_LEFT}" y1="{y}" x2="{WIDTH - _RIGHT}" y2="{y}"/>'
        yield _text(_LEFT - 10, y + 4, f"{value:,}", "soft", "end")
    yield _text(_LEFT - 10, _TOP - 12, "tokens", "soft", "end")


def _y(value: int, top: int) -> float:
    return round(HEIGHT - _BOTTOM - value / top * (HEIGHT - _BOTTOM - _TOP), 1)


def _x(index: int, count: int) -> float:
    """The middle of a switch's place."""
    return round(_LEFT + (index + 0.5) * (WIDTH - _LEFT - _RIGHT) / count, 1)


def _bars(steps: Sequence[GrowthStep], top: int) -> Iterator[str]:
    wide = min((WIDTH - _LEFT - _RIGHT) / len(steps) * 0.36, 56)
    for index, step in enumerate(steps):
        middle = _x(index, len(steps))
        for kind, x, value in (
            ("without", middle - wide, step.without),
            ("with", middle, step.context),
        ):
            y = _y(value, top)
            high = round(HEIGHT - _BOTTOM - y, 1)
            yield (
                f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="{wide - 2:.1f}" '
                f'height="{high}"><title>{escape(step.agent)}, {kind}: {value:,}</title></rect>'
            )
            if len(steps) <= _MOST_FIGURES:
                yield _text(x + wide / 2 - 1, y - 5, f"{value:,}", "figure", "middle")


def _lines(steps: Sequence[GrowthStep], top: int) -> Iterator[str]:
    for kind, values in (
        ("without", [step.without for step in steps]),
        ("with", [step.context for step in steps]),
    ):
        places = " ".join(
            f"{_x(index, len(steps))},{_y(value, top)}" for index, value in enumerate(values)
        )
        yield f'<polyline class="line {kind}" points="{places}"/>'
        x, y = _x(len(values) - 1, len(values)), _y(values[-1], top)
        yield _text(x, y - 8, f"{values[-1]:,}", "figure", "end")


def _names(steps: Sequence[GrowthStep]) -> Iterator[str]:
    """The number of a switch, and whose it is where there is room."""
    y = HEIGHT - _BOTTOM + 20
    every = -(-len(steps) // _MOST_NUMBERS)
    for index, step in enumerate(steps):
        if index % every == 0:
            x = _x(index, len(steps))
            yield _text(x, y, str(step.number), "soft", "middle")
            if len(steps) <= _MOST_NAMES:
                yield _text(x, y + 17, _name(step.agent, len(steps)), "", "middle")


def _name(agent: str, count: int) -> str:
    """An agent's name, as long as its place is wide."""
    room = min(int((WIDTH - _LEFT - _RIGHT) / count / _LETTER), _NAME)
    return visible(agent if len(agent) <= room else agent[: room - 1] + "…")


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    style = f' class="{kind}"' if kind else ""
    place = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{x:g}" y="{y:g}"{style}{place}>{escape(words)}</text>'


__all__ = [
    "ContextGrowth",
    "GrowthStep",
    "Retention",
    "measure_growth",
    "recorded_growth",
]

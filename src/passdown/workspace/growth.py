"""Measure how contexts grow from switch to switch: a sample story, the measurement, its picture."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime, timedelta
from html import escape
from itertools import count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from passdown.context.artifacts import with_whole_paths
from passdown.core.arguments import number_problems
from passdown.core.codec import encode
from passdown.core.text import visible
from passdown.errors import InvalidInput, Problem, raise_problems

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.core.tokens import CounterLike
    from passdown.core.types import JsonObject, Progress
    from passdown.history.profiles import Profiles
    from passdown.workspace import Workspace


TASK = "INV-7"
TITLE = "Export invoices as CSV"
CRITERIA = (
    "a month of invoices downloads as one file",
    "every amount in it equals the amount on the invoice",
)

_SUBJECTS = (
    "invoice number", "issue date", "due date", "customer name", "customer address", "tax id",
    "net amount", "tax rate", "gross amount", "exchange rate", "payment terms", "line items",
    "bank details",
)  # fmt: skip
_CHOICES = (
    ("The {} is written as stored, never as displayed", "what is displayed depends on who looks"),
    ("An empty {} stays an empty cell", "a dash would be read as text by the bookkeeping"),
    ("A wrong {} stops the row, not the file", "one bad row must not cost the other thousands"),
    ("Old names of the {} are mapped in one table", "three importers had each their own"),
    ("The {} is checked against the invoice before download", "the last export was off by a row"),
)
_TROUBLE = (
    ("Nobody has confirmed the format of the {}", "the import may refuse the file",
     "ask the bookkeeping for one sample row"),
    ("The {} is missing on invoices before 2019", "their rows come out short",
     "agree on a value that stands for unknown"),
    ("Staging has no real {}", "the check can't be run there",
     "copy ten invoices with made-up customers"),
)  # fmt: skip
_FILES = ("src/export/{}_reader{}.py", "tests/export/{}_check{}.py", "docs/export/{}_notes{}.md",
          "config/export/{}_limits{}.toml")  # fmt: skip
_STEPS = (
    "Write the part that exports the {}, then run the checks on a month of invoices",
    "Review how the {} is exported and try a file of ten thousand rows",
)
_PHASES = ("planning", "implementing", "testing", "reviewing")
_MORNING = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
_SEVERITIES = ("high", "medium", "low", "blocker")
_STORY = {
    "id": "7.3",
    "path": "docs/stories/7.3.invoice-export.md",
    "status": "in progress",
    "current_task": "",
    "branch": "feature/invoice-export",
}


class StorySize(NamedTuple):
    """How much of each a turn leaves behind."""

    decisions: int = 5
    files: int = 10
    blockers: int = 2


class StoryTurn(NamedTuple):
    """One agent's turn: the handoff that ends it, and the files that it names, with their text."""

    handoff: JsonObject
    files: dict[str, str]


def story_turn(number: int, agent: str, to_agent: str, size: StorySize) -> StoryTurn:
    """The turn of that number, from 0; no text of it is that of another turn."""

    def numbers(count: int) -> range:
        return range(number * count, (number + 1) * count)

    decisions: list[JsonObject] = []
    for index in numbers(size.decisions):
        text, why = _CHOICES[index % len(_CHOICES)]
        tags = [_subject(index).replace(" ", "-")]
        decisions.append({"summary": _about(text, index, 5), "rationale": why, "tags": tags})
    blockers: list[JsonObject] = []
    for index in numbers(size.blockers):
        text, impact, way = _TROUBLE[index % len(_TROUBLE)]
        blocker = {"blocker": _about(text, index, 3), "impact": impact}
        blocker["severity"] = _SEVERITIES[index % len(_SEVERITIES)]
        blockers.append({**blocker, "suggested_resolution": way})
    files: dict[str, str] = {}
    for index in numbers(size.files):
        path = _FILES[index % len(_FILES)].format(_subject(index).replace(" ", "_"), index)
        files[path] = f"# Part {index} of the {_subject(index)}\n" + "value = 1\n" * (index % 7 + 1)
    # Later phases ask for sources and tests, which a turn of one file doesn't bring.
    phase = _PHASES[min(number, len(_PHASES) - 1) if size.files > 1 else min(number, 1)]
    subject = _subject(number)
    step = {"step": _about(_STEPS[number % len(_STEPS)], number, 2), "priority": "high"}
    handoff = {
        "task": TASK,
        "from_agent": agent,
        "to_agent": to_agent,
        "phase": phase,
        "outcome": "partial" if blockers else "completed",
        "summary": f"Turn {number + 1}: the {subject} is settled, the rest of the export goes on.",
        "files_created": [
            {"path": path, "purpose": text.split("\n", 1)[0].strip("# ")}
            for path, text in files.items()
        ],
        "decisions": decisions,
        "blockers": blockers,
        "suggested_next_steps": [step],
        "story": {**_STORY, "current_task": f"Export the {subject}"},
    }
    return StoryTurn(handoff, files)


def _subject(index: int) -> str:
    return _SUBJECTS[index % len(_SUBJECTS)]


def _about(text: str, index: int, texts: int) -> str:
    """A text about the subject of that number; later rounds are numbered."""
    again = index // (texts * len(_SUBJECTS))
    return text.format(_subject(index)) + (f", part {again + 1}" if again else "")


def critical(turns: list[StoryTurn]) -> list[tuple[str, str]]:
    """What must not get lost by the end, as pairs of kind and text.

    Decisions and files of all turns hold on; blockers and next steps are those of the last turn.
    """
    last = turns[-1].handoff
    found = [("task", TITLE), *((f"story {name}", text) for name, text in last["story"].items())]
    for each in turns:
        found += [("decision", decision["summary"]) for decision in each.handoff["decisions"]]
        found += [("file", path) for path in each.files]
    found += [("blocker", blocker["blocker"]) for blocker in last["blockers"]]
    found += [("next action", step["step"]) for step in last["suggested_next_steps"]]
    return found


MOST_SWITCHES = 1_000
MOST_OF_EACH = 100
_FILE_HANDLE = re.compile(r"\.passdown/(?:handoffs/[\w.-]+\.yaml|state/[\w.-]+\.json)")
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
    """What became of what must not get lost: in the last context, one step away, or gone."""

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
        longer = [step.number for step in self.steps if step.context >= step.without]
        first = longer[-1] + 1 if longer else 1
        return first if first <= len(self.steps) else 0

    def to_dict(self) -> JsonObject:
        """The measurement as plain JSON."""
        return {
            "counter": self.counter,
            "steps": [step.to_dict() for step in self.steps],
            "each_profile_once": self.each_once,
            "pays_from": self.pays_from,
            "kept": encode(self.kept),
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
    total = min(switches or len(names), MOST_SWITCHES + 1)
    order = [names[index % len(names)] for index in range(total) if names]
    size = StorySize(decisions, files, blockers)
    _check(profiles, order, {"switches": switches, **size._asdict()})
    by = counter_of(counter)
    turns: list[StoryTurn] = []
    told: list[tuple[str, dict[str, int]]] = []
    text = ""
    looks = (_MORNING + timedelta(minutes=minute) for minute in count())
    with tempfile.TemporaryDirectory(prefix="passdown-measure-") as folder:
        make_folder(place := in_folder(folder))
        with Workspace(place, settings=DEFAULTS, clock=looks.__next__) as workspace:
            workspace.create_task(TASK, title=TITLE, agent=order[0], criteria=CRITERIA, key="story")
            for number, agent in enumerate(order):
                if number:
                    turn = story_turn(number - 1, order[number - 1], agent, size)
                    for path, content in turn.files.items():
                        target = Path(folder, path)
                        target.parent.mkdir(parents=True, exist_ok=True)
                        target.write_text(content, "utf-8")
                    workspace.hand_off(turn.handoff)
                    turns.append(turn)
                found = workspace.switch(
                    TASK, to_agent=agent, budget=budget, counter=by, profiles=profiles.folder
                )
                told.append((agent, found.parts))
                text = found.text
                if progress:
                    progress(number + 1, len(order))
            kept = _kept(workspace, text, critical(turns) if turns else [("task", TITLE)])
    return _growth(by.name, told, kept)


def _check(profiles: Profiles, order: Sequence[str], numbers: dict[str, int]) -> None:
    problems: list[Problem] = []
    if not order:
        message = f"no profiles in {profiles.folder}"
        problems.append(Problem("personas", "empty", message, "a folder of NAME.md files"))
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
    for name, number in numbers.items():
        most = MOST_SWITCHES if name == "switches" else MOST_OF_EACH
        problems += number_problems(number, name, 0, most)
    raise_problems("nothing was measured", problems)


def recorded_growth(workspace: Workspace, task: str, counter: str = "") -> ContextGrowth:
    """The switches that a workspace has recorded of a task, by one counter; nothing is played.

    Without a counter, by that of the latest switch.
    """
    from passdown.workspace.switches import all_deliveries

    found = [each for each in all_deliveries(workspace, task) if each["kind"] == "switched"][::-1]
    name = counter or (found[-1]["counter"] if found else "")
    told = [(entry["agent"], entry["parts"]) for entry in found if entry["counter"] == name]
    if not told:
        message = f"no switch of {task} was recorded" + (f" by {name}" if name else "")
        problem = Problem("task", "empty", message, "a task that has changed hands")
        raise InvalidInput("nothing was measured", [problem])
    return _growth(name, told, None)


def _growth(
    counter: str, told: Sequence[tuple[str, dict[str, int]]], kept: Retention | None
) -> ContextGrowth:
    steps: list[GrowthStep] = []
    without = 0
    for number, (agent, parts) in enumerate(told, 1):
        profile = parts["profile"]
        without += profile
        sizes = (profile, without, parts["total"], parts["summaries"], parts["brief"])
        steps.append(GrowthStep(number, agent, *sizes))
    each = {step.agent: step.profile for step in steps}
    return ContextGrowth(counter, tuple(steps), sum(each.values()), kept)


def _kept(workspace: Workspace, text: str, needed: Sequence[tuple[str, str]]) -> Retention:
    """Look for each text in the context; else behind the files and commands that it names."""
    whole = with_whole_paths(text)
    missing = [(kind, words) for kind, words in needed if not _says(whole, words)]
    parts: list[str] = []
    for name in sorted(set(_FILE_HANDLE.findall(text))):
        path = Path(workspace.root, name)
        parts += [path.read_text("utf-8")] if path.is_file() else []
    states = map(workspace.files.state_document, sorted(set(_STATE_VERB.findall(text))))
    parts += [json.dumps(state, ensure_ascii=False) for state in states]
    behind = "\n".join(parts)
    lost = tuple(f"{kind}: {words}" for kind, words in missing if not _says(behind, words))
    return Retention(len(needed) - len(missing), len(missing) - len(lost), lost)


def _says(text: str, words: str) -> bool:
    """Whether the words are in a text, not as a piece of longer ones."""
    return re.search(rf"(?<![\w/]){re.escape(words)}(?![\w/])", text) is not None


WIDTH, HEIGHT = 860, 460
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 832, 118, 384
_MOST_NAMES = 12
_TICKS = 8
_STYLE = """\
  text { font-family: system-ui, sans-serif; font-size: 13px; fill: #1f2328; }
  .title { font-size: 18px; font-weight: 600; }
  .soft { fill: #59636e; }
  .grid { stroke: #d8dee4; }
  .paper { fill: #ffffff; }
  polyline { fill: none; stroke-width: 2.5; }
  .without { stroke: #b35900; stroke-dasharray: 7 4; }
  .with { stroke: #0969da; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .soft { fill: #9198a1; }
    .grid { stroke: #30363d; }
    .paper { fill: #0d1117; }
    .without { stroke: #f0883e; }
    .with { stroke: #58a6ff; }
  }"""


def growth_picture(growth: ContextGrowth) -> str:
    """The picture of a measurement as SVG: a line with Passdown and one without."""
    steps, last = growth.steps, growth.last
    most = max(max(step.without, step.context) for step in steps)
    # A round distance, so that at most eight lines are enough; the axis ends at the first that
    # nothing passes.
    units = (factor * 10**zeros for zeros in count() for factor in (1, 2, 5))
    between = next(unit for unit in units if most <= unit * _TICKS)
    top = max(-(-most // between), 1) * between
    wide = (_RIGHT - _LEFT) / len(steps)
    places = [round(_LEFT + (index + 0.5) * wide, 1) for index in range(len(steps))]
    change = f"{abs(last.saved):.0f} % {'less' if last.saved >= 0 else 'more'}"
    after = f"{len(steps)} switch" + ("es" if len(steps) != 1 else "")
    headline = f"After {after}: {last.context:,} tokens instead of {last.without:,}, {change}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img">',
        f"<title>{escape(headline)}</title>",
        f"<style>\n{_STYLE}\n</style>",
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>',
        _text(_LEFT, 34, "Tokens in an agent's context, switch by switch", "title"),
        _text(_LEFT, 58, headline, "soft"),
        _text(_LEFT - 10, _TOP - 12, "tokens", "soft", "end"),
        _text(_LEFT, HEIGHT - 16, f"switch (tokens by {growth.counter})", "soft"),
    ]
    for value in range(0, top + 1, between):
        y = round(_BOTTOM - value / top * (_BOTTOM - _TOP), 1)
        parts.append(f'<line class="grid" x1="{_LEFT}" y1="{y}" x2="{_RIGHT}" y2="{y}"/>')
        parts.append(_text(_LEFT - 10, y + 4, f"{value:,}", "soft", "end"))
    for x, kind, field, words in _LINES:
        values = [int(getattr(step, field)) for step in steps]
        ys = [round(_BOTTOM - value / top * (_BOTTOM - _TOP), 1) for value in values]
        points = " ".join(f"{x},{y}" for x, y in zip(places, ys, strict=True))
        parts.append(f'<polyline class="{kind}" points="{x},83 {x + 14},83"/>')
        parts.append(_text(x + 22, 88, words))
        parts.append(f'<polyline class="{kind}" points="{points}"/>')
        parts.append(_text(places[-1], ys[-1] - 8, f"{values[-1]:,}", "soft", "end"))
    for index in range(0, len(steps), -(-len(steps) // _TICKS // 2) or 1):
        x, step = places[index], steps[index]
        parts.append(_text(x, HEIGHT - 56, str(step.number), "soft", "middle"))
        if len(steps) <= _MOST_NAMES:
            name = visible(step.agent[: max(int(wide / 8), 1)])
            parts.append(_text(x, HEIGHT - 39, name, "", "middle"))
    return "".join(f"{part}\n" for part in [*parts, "</svg>"])


_LINES = (
    (_LEFT, "without", "without", "without: every profile so far"),
    (_LEFT + 250, "with", "context", "with Passdown: one profile, short summaries, a brief"),
)


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{style} text-anchor="{anchor}">{escape(words)}</text>'

"""How contexts grow from switch to switch: a story played in a workspace of its own."""

from __future__ import annotations

import os
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from passdown.model.tokens import Counter
    from passdown.recall.profiles import Profiles
    from passdown.workspace import Workspace
    from passdown.workspace.aliases import CounterLike, Progress
    from passdown.workspace.sample_story import Size, Turn
    from passdown.workspace.switching import Switched

Document = dict[str, Any]

MOST_SWITCHES = 1_000
MOST_OF_EACH = 100
_PAGE = 500
_ARTIFACT = re.compile(r"\.passdown/handoffs/[\w.-]+\.yaml")
_STATE_FILE = re.compile(r"\.passdown/state/[\w.-]+\.json")
_STATE_VERB = re.compile(r"passdown state ([\w.-]*\w)")


class Step(NamedTuple):
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

    def document(self) -> Document:
        """The step as plain JSON."""
        return {**self._asdict(), "on_top": self.on_top, "saved_percent": round(self.saved, 1)}


class Kept(NamedTuple):
    """What became of what must not get lost: in the last context, one handle away, or gone."""

    found: int
    reachable: int
    lost: tuple[str, ...]


class Growth(NamedTuple):
    """A measurement. `each_once` is all profiles together, however often each was loaded."""

    counter: str
    steps: tuple[Step, ...]
    each_once: int
    kept: Kept | None

    @property
    def last(self) -> Step:
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

    def document(self) -> Document:
        """The measurement as plain JSON."""
        kept = {**self.kept._asdict(), "lost": list(self.kept.lost)} if self.kept else None
        return {
            "counter": self.counter,
            "steps": [step.document() for step in self.steps],
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
) -> Growth:
    """Play a story with the profiles of a folder (NAME.md) and measure every context.

    Each agent of the chain takes over, leaves so many decisions, files and blockers in a handoff,
    and the next one takes over; the chain goes round until there were so many switches. Without a
    chain, all agents of the folder in order; without a number, each once. Its clock is its own, so
    that the same profiles give the same numbers.
    """
    import tempfile

    from passdown.model.settings import DEFAULTS
    from passdown.model.tokens import counter_of
    from passdown.recall.profiles import Profiles
    from passdown.workspace import Workspace
    from passdown.workspace.locating import in_folder, make_folder
    from passdown.workspace.sample_story import Size, clock

    profiles = Profiles(os.getcwd(), os.path.abspath(personas))
    names = tuple(chain) or profiles.names()
    count = min(switches or len(names), MOST_SWITCHES + 1)
    order = [names[index % len(names)] for index in range(count) if names]
    _check(profiles, order, switches, (decisions, files, blockers))
    with tempfile.TemporaryDirectory(prefix="passdown-measure-") as folder:
        make_folder(place := in_folder(folder))
        with Workspace(place, settings=DEFAULTS, clock=clock()) as workspace:
            play = _Play(workspace, profiles.folder, counter_of(counter), budget)
            return play.of(order, Size(decisions, files, blockers), progress)


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
        self.turns: list[Turn] = []

    def of(self, order: Sequence[str], size: Size, progress: Progress | None) -> Growth:
        """Play it in that order of agents."""
        from passdown.workspace.sample_story import CRITERIA, TASK, TITLE, critical

        self.workspace.create_task(
            TASK, title=TITLE, agent=order[0], criteria=CRITERIA, key="story"
        )
        switched: list[Switched] = []
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
        return Growth(self.counter.name, steps, sum(each.values()), kept)

    def _switch(self, task: str, agent: str) -> Switched:
        return self.workspace.switch(
            task, to=agent, budget=self.budget, counter=self.counter, profiles=self.personas
        )

    def _hand_over(self, number: int, agent: str, to_agent: str, size: Size) -> None:
        from passdown.workspace.sample_story import turn

        made = turn(number, agent, to_agent, size)
        for path, text in made.files.items():
            target = os.path.join(self.workspace.root, *path.split("/"))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "w", encoding="utf-8") as file:
                file.write(text)
        self.workspace.hand_off(made.handoff)
        self.turns.append(made)


def recorded_growth(workspace: Workspace, task: str, counter: str = "") -> Growth:
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
    return Growth(name, steps, sum(each.values()), None)


def _deliveries(workspace: Workspace, task: str) -> Iterator[Document]:
    page = workspace.briefs(task, limit=_PAGE)
    while page:
        yield from page
        page = workspace.briefs(task, limit=_PAGE, before=page[-1]["number"])


def _steps(told: Sequence[tuple[str, dict[str, int]]]) -> Iterator[Step]:
    without = 0
    for number, (agent, parts) in enumerate(told, 1):
        without += parts["profile"]
        yield Step(
            number,
            agent,
            parts["profile"],
            without,
            parts["total"],
            parts["summaries"],
            parts["brief"],
        )


def _kept(workspace: Workspace, text: str, needed: Sequence[tuple[str, str]]) -> Kept:
    """Look for each text in the context; else behind the handles that the context names."""
    missing = [(kind, words) for kind, words in needed if not _says(text, words)]
    behind = _behind(workspace, text) if missing else ""
    lost = tuple(f"{kind}: {words}" for kind, words in missing if not _says(behind, words))
    return Kept(len(needed) - len(missing), len(missing) - len(lost), lost)


def _says(text: str, words: str) -> bool:
    """Whether the words stand in a text, not as a piece of longer ones."""
    return re.search(rf"(?<![\w/]){re.escape(words)}(?![\w/])", text) is not None


def _behind(workspace: Workspace, text: str) -> str:
    """All that the commands and files named in a text hold."""
    import json

    files = {*_ARTIFACT.findall(text), *_STATE_FILE.findall(text)}
    parts = [_content(os.path.join(workspace.root, *name.split("/"))) for name in sorted(files)]
    tasks = sorted(set(_STATE_VERB.findall(text)))
    parts += [json.dumps(workspace.state_document(task), ensure_ascii=False) for task in tasks]
    return "\n".join(parts)


def _content(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


__all__ = ["Growth", "Kept", "Step", "measure_growth", "recorded_growth"]

"""A switch of agents: the artifact of the one that leaves, the context of the one that comes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.briefing.switching.artifact import (
    MAX_DECISIONS,
    MAX_RETAINED,
    artifact_name,
    artifact_of,
    artifact_text,
)
from passdown.briefing.switching.assembly import assemble, tokens_by_part
from passdown.errors import InvalidInput, PassdownError, Problem, StoreUnavailable, unknown_task
from passdown.model.names import agent_problems
from passdown.model.times import stamp
from passdown.model.tokens import counter_of
from passdown.recall.deliveries import artifacts_of
from passdown.recall.git_head import current_branch, has_git
from passdown.recall.turns import agent_before, turn_facts
from passdown.workspace.briefings import brief_for, delivery_of
from passdown.workspace.earlier import FOLDER, Still, fenced, summaries_of
from passdown.workspace.seen import is_served

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from passdown.briefing.brief import Brief
    from passdown.model.tokens import Counter
    from passdown.recall.git_state import GitCheck
    from passdown.recall.profiles import Profile
    from passdown.store.statements import Reader
    from passdown.workspace.aliases import CounterLike
    from passdown.workspace.opened import Held, Opened

Document = dict[str, Any]

BRIEF_SHARE = 0.5
"""At least this share of what a switch may add is the brief's."""

_BETWEEN = 3


class Switched(NamedTuple):
    """The context for an agent that takes over, and an account of it.

    `parts` are tokens by part and in all; `summaries` are the artifacts of earlier agents that the
    context holds, `artifact_file` the one that this switch wrote. `files` are those that the turn
    named, each with its recorded digest; `git` compares them with the repository.
    """

    task: str
    from_agent: str
    to_agent: str
    version: int
    digest: str
    counter: str
    text: str
    tokens: int
    parts: dict[str, int]
    summaries: tuple[str, ...]
    artifact_file: str
    brief: Brief
    files: dict[str, str | None]
    git: GitCheck | None
    warnings: tuple[Problem, ...]

    def document(self) -> Document:
        """The switch as plain JSON."""
        git = self.git._asdict() if self.git else None
        return {
            **self._asdict(),
            "summaries": list(self.summaries),
            "brief": self.brief.document(),
            "git": git,
            "warnings": [problem._asdict() for problem in self.warnings],
        }


class Ask(NamedTuple):
    """What is asked of a switch. `given` holds the profile, or that there is none, where whoever
    asks has looked: it may be on another machine.
    """

    task: str
    to_agent: str
    from_agent: str = ""
    budget: int | None = None
    counter: CounterLike = None
    profiles: str = ""
    rules: str = ""
    record: bool = True
    given: tuple[Profile | None, ...] = ()


def switch_for(workspace: Held, ask: Ask) -> Switched:
    """The same as `Workspace.switch`, for who has looked for the profile already."""
    return switch(workspace._opened, ask)  # pyright: ignore[reportPrivateUsage]


def _more(task: str) -> str:
    """Where there is more of what earlier agents left, for who can't open their files."""
    return f"passdown state {task}" if is_served() else ""


def switch(opened: Opened, ask: Ask) -> Switched:
    """Hand the context over: one profile, what earlier agents left, and the brief."""
    by = counter_of(ask.counter, opened.settings.counter)
    room = opened.settings.switch_budget if ask.budget is None else ask.budget
    _check(ask.to_agent, ask.from_agent, room)
    leaving = _leaving(opened, ask)
    profile = ask.given[0] if ask.given else opened.profiles(ask.profiles).get(ask.to_agent)
    kept = leaving.retained(ask.to_agent)
    summaries = summaries_of(kept, by, int(room * (1 - BRIEF_SHARE)), _more(ask.task))
    shown = [entry["file"] for entry, text in zip(kept, summaries, strict=True) if text]
    spent = sum(by.tokens(text) + _BETWEEN for text in summaries)
    brief = brief_for(
        opened, ask.task, ask.to_agent, max(room - spent, 1), counter=by, record=False
    )
    assembled = assemble(
        profile.text if profile else "",
        fenced(summaries, brief.marker),
        brief.text,
        _rules(profile, ask.rules),
    )
    parts = tokens_by_part(assembled, by)
    git = git_check(opened.root, leaving.facts["hashes"])
    warnings = [*_profile_warnings(profile, ask.to_agent), *git_warnings(git), *brief.warnings]
    if ask.record:
        warnings += _record(opened, leaving, brief, parts, shown)
    return Switched(
        task=ask.task,
        from_agent=leaving.facts["from_agent"],
        to_agent=ask.to_agent,
        version=leaving.facts["version"],
        digest=leaving.facts["digest"],
        counter=by.name,
        text=assembled.text,
        tokens=parts["total"],
        parts=parts,
        summaries=tuple(shown),
        artifact_file=leaving.made["file"] if leaving.made else "",
        brief=brief,
        files=dict(leaving.facts["hashes"]),
        git=git,
        warnings=tuple(warnings),
    )


def _check(to_agent: object, from_agent: str, room: object) -> None:
    problems = agent_problems(to_agent, "to")
    problems += agent_problems(from_agent, "from_agent") if from_agent else []
    if not isinstance(room, int) or isinstance(room, bool) or room < 1:
        problems.append(Problem("budget", "out_of_range", f"{room!r:.40}", "a whole number from 1"))
    if problems:
        raise InvalidInput("no switch was made", problems)


class _Leaving(NamedTuple):
    """What the agent that leaves has done, the artifact of it, and those of earlier switches."""

    facts: Document
    made: Document | None
    known: list[Document]
    still: Still

    def retained(self, to_agent: str) -> list[Document]:
        """The latest artifact of each other agent, at most three, oldest first."""
        latest: dict[str, Document] = {}
        for entry in ([self.made] if self.made else []) + self.known:
            if entry["from_agent"] != to_agent:
                latest.setdefault(entry["from_agent"], entry)
        kept = list(latest.values())[:MAX_RETAINED][::-1]
        return [entry if entry is self.made else self.still.holding(entry) for entry in kept]

    def consumed(self, to_agent: str, shown: Sequence[str]) -> list[Document]:
        """The artifacts that this switch delivers for the first time: of those that it shows."""
        waiting = [e for e in self.known if e["to_agent"] == to_agent and not e["consumed"]]
        is_new = self.made is not None and self.made not in waiting
        found = [*([self.made] if self.made and is_new else []), *waiting]
        return [entry for entry in found if entry["file"] in shown]


def _leaving(opened: Opened, ask: Ask) -> _Leaving:
    with opened.store.reading() as reader:
        known = artifacts_of(reader, ask.task)
        row = reader.task(ask.task)
        if row is None:
            raise unknown_task(ask.task)
        active = known[0]["to_agent"] if known and known[0]["consumed"] else ""
        before = active if active != ask.to_agent else ""
        from_agent = ask.from_agent or before or agent_before(row, ask.to_agent)
        facts = turn_facts(reader, ask.task, from_agent, ask.to_agent)
        still = Still(reader, facts["blockers"])
        still.look(known)
    # An agent that is called again while it is active hasn't been left by anyone.
    is_active = active == ask.to_agent and not ask.from_agent
    if is_active or not from_agent or from_agent == ask.to_agent:
        return _Leaving(facts, None, known, still)
    by = counter_of(ask.counter, opened.settings.counter)
    return _Leaving(facts, _artifact(opened, facts, known, by), known, still)


def _artifact(opened: Opened, facts: Document, known: Sequence[Document], by: Counter) -> Document:
    """The artifact of a turn: the one that waits already, if nothing has happened since."""
    ends = (facts["from_agent"], facts["to_agent"], facts["version"])
    for entry in known:
        same = (entry["from_agent"], entry["to_agent"], entry["version"]) == ends
        if same and not entry["consumed"]:
            return entry
    at = stamp(opened.clock())
    name = artifact_name(facts["from_agent"], facts["to_agent"], at, [e["file"] for e in known])
    story = {"branch": current_branch(opened.root), **facts["story"]}
    record = opened.handle_path(facts["task"])
    whole = {**facts, "story": story, "at": at, "full_record": record}
    artifact = artifact_of(whole, counter=by)
    return {
        "file": name,
        "from_agent": facts["from_agent"],
        "to_agent": facts["to_agent"],
        "version": facts["version"],
        "artifact": {**artifact, "consumed": False},
        "decisions": {d["address"]: d["summary"] for d in facts["decisions"][:MAX_DECISIONS]},
        "consumed": False,
    }


def _rules(profile: Profile | None, rules: str) -> str:
    if profile is None or not profile.tools:
        return rules
    from passdown.recall.registry import tools_text

    return "\n\n".join(part for part in (tools_text(profile.tools), rules) if part)


def _profile_warnings(profile: Profile | None, agent: str) -> list[Problem]:
    if profile is None:
        message = f"{agent} has no profile; the context holds the brief alone"
        fix = f"write agents/{agent}.md, or name another folder in the settings"
        return [Problem("profile", "no_profile", message, f"{agent}.md", fix, "warning")]
    found = [problem._replace(level="warning") for problem in profile.problems]
    if not profile.text.strip() and not found:
        message = f"{profile.path} says nothing; the context holds the brief alone"
        found.append(Problem("profile", "empty", message, "a profile", "", "warning"))
    return found


def git_check(root: str, hashes: Mapping[str, str | None]) -> GitCheck | None:
    """How the files of a turn stand in git, where the project is a repository."""
    if not hashes or not has_git(root):
        return None
    from passdown.recall.git_state import compare_with_git

    return compare_with_git(root, hashes)


def git_warnings(git: GitCheck | None) -> list[Problem]:
    """The warning that too many files of a turn are not as they were recorded, if they aren't."""
    if git is None or not git.warns:
        return []
    named = ", ".join(f"{path} ({reason})" for path, reason in git.differing[:5])
    message = f"{len(git.differing)} of {git.named} named files are not as recorded: {named}"
    fix = "look at git status before you build on them"
    return [Problem("files", "differs_from_git", message, "at most 20 %", fix, "warning")]


def _record(
    opened: Opened,
    leaving: _Leaving,
    brief: Brief,
    parts: Mapping[str, int],
    shown: Sequence[str],
) -> list[Problem]:
    """Record the switch, then write its artifact; neither ever keeps an agent from its context."""
    consumed = leaving.consumed(brief.agent, shown)
    body = {
        **delivery_of(brief),
        "from_agent": leaving.facts["from_agent"],
        "consumed": [entry["file"] for entry in consumed],
        "parts": dict(parts),
    }
    if leaving.made is not None and leaving.made not in leaving.known:
        body |= {name: leaving.made[name] for name in ("file", "artifact", "decisions")}
    problems: list[Problem] = []
    try:
        opened.ledger.deliver(brief.task, "switched", brief.agent, body, _consumed_once)
    except PassdownError as error:
        message = f"the switch could not be recorded: {error.message}"
        problems.append(Problem("", "not_recorded", message, "", error.next_step, "warning"))
    try:
        made = [leaving.made] if leaving.made and leaving.made not in consumed else []
        for entry in (*made, *consumed):
            mark = {"consumed": entry in consumed}
            write_artifact(opened, {**entry, "artifact": {**entry["artifact"], **mark}})
    except PassdownError as error:
        message = f"an artifact's file could not be written: {error.message}"
        problems.append(Problem("", "not_written", message, "", error.next_step, "warning"))
    return problems


def _consumed_once(reader: Reader, task: str, body: Document) -> Document:
    """Leave out what another process has consumed in the meantime."""
    taken = {entry["file"] for entry in artifacts_of(reader, task) if entry["consumed"]}
    return {**body, "consumed": [name for name in body["consumed"] if name not in taken]}


def write_artifact(opened: Opened, entry: Document) -> str:
    """Write an artifact's file under the runtime folder; gives its path."""
    from passdown.ledger.durable_files import replace_file

    folder = os.path.join(opened.place.folder, FOLDER)
    if os.path.islink(folder):
        message = f"{folder} is a link, and artifacts are written beneath the workspace alone"
        raise StoreUnavailable(message, next_step="Put a folder in its place.")
    path = os.path.join(folder, entry["file"])
    replace_file(path, artifact_text(entry["artifact"]))
    return path


def save_artifact(opened: Opened, task: str, to_agent: str, from_agent: str) -> Document:
    """Leave an artifact for an agent that comes later; it waits until a switch consumes it."""
    _check(to_agent, from_agent, 1)
    leaving = _leaving(opened, Ask(task, to_agent, from_agent))
    if leaving.made is None:
        message = f"{to_agent} has the task already"
        raise InvalidInput(
            "nothing was saved", [Problem("to", "same_agent", message, "another agent")]
        )
    if leaving.made not in leaving.known:
        facts, entry = leaving.facts, leaving.made
        body = {
            "agent": to_agent,
            "from_agent": facts["from_agent"],
            "version": facts["version"],
            "digest": facts["digest"],
            "file": entry["file"],
            "artifact": entry["artifact"],
            "decisions": entry["decisions"],
        }
        opened.ledger.deliver(task, "artifact_saved", facts["from_agent"], body)
    path = write_artifact(opened, leaving.made)
    return {**leaving.made, "task": task, "path": path}


__all__ = [
    "Ask",
    "Switched",
    "git_check",
    "git_warnings",
    "save_artifact",
    "switch",
    "switch_for",
    "write_artifact",
]

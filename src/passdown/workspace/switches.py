"""Switch agents: the artifact of the agent that leaves, the context of the one that takes over;
prompts that call another agent, and agents' profiles.
"""

from __future__ import annotations

import os
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.context.artifacts import (
    MAX_DECISIONS,
    MAX_RETAINED,
    PROPOSED,
    TEMPLATE,
    artifact_markdown,
    artifact_name,
    artifact_of,
    artifact_problems,
    artifact_text,
    read_artifact,
    short_summaries,
)
from passdown.context.brief import Brief
from passdown.context.switches import assemble, find_switch, tokens_by_part
from passdown.context.switches import subagent_prompt as joined_prompt
from passdown.core.arguments import number_problems
from passdown.core.codec import as_document, short_repr
from passdown.core.kinds import LIVE, parse_address
from passdown.core.names import agent_problems
from passdown.core.text import excerpt
from passdown.core.times import stamp
from passdown.core.tokens import CounterLike, counter_of
from passdown.core.types import JsonObject
from passdown.errors import (
    InvalidInput,
    NotFound,
    PassdownError,
    Problem,
    StoreUnavailable,
    raise_problems,
)
from passdown.history.deliveries import artifacts_in, artifacts_of, waiting_artifacts
from passdown.history.facts import previous_agent, turn_facts
from passdown.history.git import GitCheck, current_branch, has_git
from passdown.history.profiles import Profile
from passdown.ledger.channel import may_write
from passdown.store.statements import Reader
from passdown.workspace import Workspace
from passdown.workspace.briefs import brief_for, delivery_of
from passdown.workspace.context import Context
from passdown.workspace.files import PROFILE_FIELD, client_profile, is_served

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from passdown.core.tokens import Counter

FOLDER = "handoffs"


class ArtifactFreshness:
    """What of an earlier artifact still holds: it was written when its agent left."""

    def __init__(
        self, reader: Reader, blockers: Sequence[JsonObject], entries: Sequence[JsonObject]
    ) -> None:
        """Look up what was replaced of the artifacts of a task with these open blockers."""
        self._open = {blocker["blocker"] for blocker in blockers}
        self._gone: set[str] = set()
        task = entries[0]["task"] if entries else ""
        replaced = {link.target for link in reader.superseders(task)} if task else set[str]()
        for address in (address for entry in entries for address in entry.get("decisions", {})):
            parsed = parse_address(address)
            item = reader.item(*parsed) if parsed else None
            if item is None or item.status not in LIVE or address in replaced:
                self._gone.add(address)

    def holding(self, entry: JsonObject) -> JsonObject:
        """An artifact without the blockers, steps and decisions that are no longer."""
        artifact = entry["artifact"]
        gone = [s for a, s in entry.get("decisions", {}).items() if a in self._gone]
        decisions = [
            text
            for text in artifact.get("decisions", ())
            if not any(_is_of(text, summary) for summary in gone)
        ]
        blockers = [text for text in artifact.get("blockers", ()) if text in self._open]
        still = {**artifact, "decisions": decisions, "blockers": blockers, "next_action": ""}
        return {**entry, "artifact": still}


def _is_of(text: str, summary: str) -> bool:
    """Whether an artifact's line is that of a decision: its summary, and what is put behind it."""
    return text == summary or text.startswith((f"{summary} (", f"{summary} ["))


def _for_summary(entry: JsonObject, task: str) -> JsonObject:
    """An artifact as its summary says it: decisions without their reasons where their summaries are
    known, and where all of it is: in its own file, which a server's client can't open.
    """
    texts: list[str] = []
    for text in entry["artifact"].get("decisions", ()):
        known = (said for said in entry.get("decisions", {}).values() if _is_of(text, said))
        summary = next(known, text)
        texts.append(summary + (PROPOSED if text.startswith(f"{summary}{PROPOSED}") else ""))
    file = f"passdown state {task}" if is_served() else f".passdown/{FOLDER}/{entry['file']}"
    return {**entry["artifact"], "decisions": texts, "full_record": file}


def _said(kept: Sequence[JsonObject], brief: Brief) -> set[str]:
    """What a brief shows of the decisions and files of some artifacts; paths are words in it."""
    shown = {item.address for item in brief.shown}
    decided = {t for e in kept for a, t in e.get("decisions", {}).items() if a in shown}
    return {*decided, *(f"{text}{PROPOSED}" for text in decided), *brief.text.split()}


BRIEF_SHARE = 1 / 3
"""At least this share of what a switch may add is the brief's."""

_BETWEEN = 3


class Switch(NamedTuple):
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

    to_dict = as_document
    __repr__ = short_repr


def switch(
    context: Context,
    task: str,
    *,
    to_agent: str,
    from_agent: str = "",
    budget: int | None = None,
    counter: CounterLike = None,
    profiles: str = "",
    rules: str = "",
    record: bool = True,
) -> Switch:
    """The whole context of an agent that takes over a task.

    It holds the agent's own profile, unchanged, at most three short summaries of earlier agents,
    and the brief.

    Args:
        to_agent: Who takes over.
        from_agent: Who leaves; by default the task's holder.
        budget: The most tokens that may come on top of the profile.
        profiles: A folder of NAME.md files.
        rules: Text that goes between the profile and the summaries.
    """
    by = counter_of(counter, context.settings.counter)
    room = context.settings.switch_budget if budget is None else budget
    _check(to_agent, from_agent, room)
    leaving = _leaving(context, task, to_agent, from_agent, by)
    profile = profile_of(context, to_agent, profiles)
    kept = leaving.retained(to_agent)
    if profile and profile.tools:
        from passdown.history.profiles import tools_text

        rules = "\n\n".join(part for part in (tools_text(profile.tools), rules) if part)
    # The brief gets what the summaries can't use; they get what it leaves, with what it doesn't
    # say first.
    room -= _BETWEEN
    artifacts, title = [_for_summary(entry, task) for entry in kept], leaving.facts["title"]
    share = max(int(room * (1 - BRIEF_SHARE)), 1)
    drafts = short_summaries(artifacts, counter=by, max_tokens=share, title=title)
    most = max(room - by.tokens("\n\n".join(filter(None, drafts))), 1)
    brief = brief_for(context, task, to_agent, most, counter=by, record=False)
    summaries = short_summaries(
        artifacts,
        counter=by,
        max_tokens=max(room - brief.tokens, 1),
        marker=brief.marker,
        title="" if title in brief.text else title,
        said=_said(kept, brief),
    )
    shown = [entry["file"] for entry, text in zip(kept, summaries, strict=True) if text]
    assembled = assemble(profile.text if profile else "", summaries, brief.text, rules)
    parts = tokens_by_part(assembled, by)
    git = git_check(context.root, leaving.facts["hashes"])
    warnings = [*_profile_warnings(profile, to_agent), *git_warnings(git), *brief.warnings]
    if record and may_write(to_agent):
        warnings += _record(context, leaving, brief, parts, shown)
    return Switch(
        task=task,
        from_agent=leaving.facts["from_agent"],
        to_agent=to_agent,
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


def profile_of(context: Context, agent: str, folder: str = "") -> Profile | None:
    """An agent's profile: as a client sent it, else that of the project here.

    Of another machine's profile the words count, with the tools that the registry here gives.
    """
    for sent in client_profile():
        if sent is None:
            return None
        if sent["name"] == agent:
            tools = context.profiles().registry.tools_for(agent)
            names = ("path", "code", "message")
            problems = [Problem(*(p[name] for name in names)) for p in sent.get("problems", ())]
            return Profile(agent, sent["text"], sent.get("path", ""), {}, tools, tuple(problems))
    return context.profiles(folder).get(agent)


def profile_sent(profile: Profile | None) -> JsonObject:
    """What a client sends of an agent's profile on its machine, or that the agent has none."""
    if profile is None:
        return {PROFILE_FIELD: None}
    problems = [problem.to_dict() for problem in profile.problems]
    sent: JsonObject = {"name": profile.name, "text": profile.text, "problems": problems}
    return {PROFILE_FIELD: {**sent, "path": profile.path[:1_024]}}


def _check(to_agent: object, from_agent: str, room: int) -> None:
    problems = agent_problems(to_agent, "to")
    problems += agent_problems(from_agent, "from_agent") if from_agent else []
    raise_problems("no switch was made", problems + number_problems(room, "budget", 1))


class _Leaving(NamedTuple):
    """What the agent that leaves has done, the artifact of it, and those of earlier switches."""

    facts: JsonObject
    made: JsonObject | None
    known: list[JsonObject]
    still: ArtifactFreshness

    def retained(self, to_agent: str) -> list[JsonObject]:
        """The latest artifact of each other agent, at most three, oldest first."""
        latest: dict[str, JsonObject] = {}
        for entry in ([self.made] if self.made else []) + self.known:
            if entry["from_agent"] != to_agent:
                latest.setdefault(entry["from_agent"], entry)
        kept = list(latest.values())[:MAX_RETAINED][::-1]
        return [entry if entry is self.made else self.still.holding(entry) for entry in kept]

    def consumed(self, to_agent: str, shown: Sequence[str]) -> list[JsonObject]:
        """The artifacts that this switch delivers for the first time: those that it shows, earlier
        ones of the same agents, and the agent's own, whose work the brief has.
        """
        waiting = [e for e in self.known if e["to_agent"] == to_agent and not e["consumed"]]
        is_new = self.made is not None and self.made not in waiting
        found = [*([self.made] if self.made and is_new else []), *waiting]
        senders = {entry["from_agent"] for entry in found if entry["file"] in shown}
        return [entry for entry in found if entry["from_agent"] in {*senders, to_agent}]


def _leaving(context: Context, task: str, to_agent: str, from_agent: str, by: Counter) -> _Leaving:
    is_named = bool(from_agent)
    _template_order(context)  # one that can't be read is refused before anything is recorded
    with context.store.reading() as reader:
        known = artifacts_of(reader, task)
        row = reader.existing_task(task)
        active, before = _active(known, row.version, to_agent)
        from_agent = from_agent or before or previous_agent(row, to_agent)
        facts = turn_facts(reader, task, from_agent, to_agent)
        still = ArtifactFreshness(reader, facts["blockers"], known)
    # An agent that is called again while it is active hasn't been left by anyone.
    is_active = active == to_agent and not is_named
    if is_active or not from_agent or from_agent == to_agent:
        return _Leaving(facts, None, known, still)
    # The one that waits already, if nothing has happened since.
    ends = [facts[name] for name in ("from_agent", "to_agent", "version")]
    waiting = (e for e in known if [e["from_agent"], e["to_agent"], e["version"]] == ends)
    made = next((entry for entry in waiting if not entry["consumed"]), None)
    return _Leaving(facts, made or _new_artifact(context, facts, known, by), known, still)


def _active(known: Sequence[JsonObject], version: int, to_agent: str) -> tuple[str, str]:
    """Who is active by the latest artifact, and who an agent takes over from; empty if unknown."""
    if not known:
        return "", ""
    latest = known[0]
    from_agent, receiver = latest["from_agent"], latest["to_agent"]
    # Whoever goes on in another workflow or squad has been active all the time.
    if latest["consumed"] or from_agent == receiver:
        return receiver, receiver if receiver != to_agent else ""
    is_meant = (receiver, latest["version"]) == (to_agent, version)
    return "", from_agent if is_meant else ""


def _new_artifact(
    context: Context, facts: JsonObject, known: Sequence[JsonObject], by: Counter
) -> JsonObject:
    """The artifact of a turn, under a name that isn't taken."""
    at = stamp(context.clock())
    name = artifact_name(facts["from_agent"], facts["to_agent"], at, [e["file"] for e in known])
    story = {"branch": current_branch(context.root), **facts["story"]}
    record = context.state_path(facts["task"])
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
    from passdown.history.git import compare_with_git

    return compare_with_git(root, hashes)


def git_warnings(git: GitCheck | None) -> list[Problem]:
    """The warning that too many files of a turn are not as they were recorded, if they aren't."""
    if git is None or not git.warns:
        return []
    named = ", ".join(f"{path} ({reason})" for path, reason in git.differing[:5])
    message = f"{len(git.differing)} of {git.named} named files are not as recorded: {named}"
    fix = "look at git status before you build on them"
    return [Problem("files", "differs_from_git", message, "at most 20 %", fix, "warning")]


def with_git_of(folder: str, found: Switch) -> Switch:
    """A switch that a server gave; what it says of git is about the repository here, if any."""
    if not has_git(folder):
        return found
    warnings = list(found.warnings)
    theirs, git = git_warnings(found.git), git_check(folder, found.files)
    first = (n for n, one in enumerate(warnings) if one.path != "profile")
    place = warnings.index(theirs[0]) if theirs else next(first, len(warnings))
    warnings[place : place + len(theirs)] = git_warnings(git)
    return found._replace(git=git, warnings=tuple(warnings))


def _record(
    context: Context,
    leaving: _Leaving,
    brief: Brief,
    parts: Mapping[str, int],
    shown: Sequence[str],
) -> list[Problem]:
    """Record the switch, then write its artifact; neither ever keeps an agent from its context."""
    consumed = leaving.consumed(brief.agent, shown)
    made, is_new = leaving.made, leaving.made is not None and leaving.made not in leaving.known
    body = {
        **delivery_of(brief),
        "from_agent": leaving.facts["from_agent"],
        "consumed": [entry["file"] for entry in consumed],
        "parts": dict(parts),
        **(_recorded_fields(made) if made and is_new else {}),
    }
    problems: list[Problem] = []
    try:
        context.ledger.deliver(brief.task, "switched", brief.agent, body, _consumed_once)
    except PassdownError as error:
        message = f"the switch could not be recorded: {error.message}"
        problems.append(Problem("", "not_recorded", message, "", error.next_step, "warning"))
    try:
        for entry in (*([made] if made and made not in consumed else []), *consumed):
            mark = {"consumed": entry in consumed}
            write_artifact(context, {**entry, "artifact": {**entry["artifact"], **mark}})
    except PassdownError as error:
        message = f"an artifact's file could not be written: {error.message}"
        problems.append(Problem("", "not_written", message, "", error.next_step, "warning"))
    return problems


def _recorded_fields(entry: JsonObject) -> JsonObject:
    return {name: entry[name] for name in ("file", "artifact", "decisions")}


def _consumed_once(reader: Reader, task: str, body: JsonObject) -> JsonObject:
    """Leave out what another process has consumed in the meantime."""
    taken = {entry["file"] for entry in artifacts_of(reader, task) if entry["consumed"]}
    return {**body, "consumed": [name for name in body["consumed"] if name not in taken]}


def write_artifact(context: Context, entry: JsonObject) -> str:
    """Write an artifact's file under the runtime folder; gives its path."""
    from passdown.ledger.durable_files import replace_file

    folder = os.path.join(context.place.folder, FOLDER)
    if os.path.islink(folder):
        message = f"{folder} is a link, and artifacts are written beneath the workspace alone"
        raise StoreUnavailable(message, next_step="Put a folder in its place.")
    path = os.path.join(folder, entry["file"])
    replace_file(path, artifact_text(entry["artifact"], _template_order(context)))
    return path


def save_switch(context: Context, task: str, *, to_agent: str, from_agent: str = "") -> JsonObject:
    """Save a switch artifact for an agent that comes later; it waits until a switch consumes it.

    Args:
        to_agent: Who is to find it.
        from_agent: Who leaves it; by default the task's holder.
    """
    _check(to_agent, from_agent, 1)
    by = counter_of(None, context.settings.counter)
    leaving = _leaving(context, task, to_agent, from_agent, by)
    if leaving.made is None:
        message = f"{to_agent} has the task already"
        problem = Problem("to_agent", "same_agent", message, "another agent")
        raise InvalidInput("nothing was saved", [problem])
    return _saved(context, leaving.facts, leaving.made, leaving.known)


def save_domain_switch(context: Context, task: str, from_agent: str, to_agent: str) -> str:
    """Save the artifact of an agent that goes on in another workflow or squad, or that another one
    takes over from, unless that one has taken over already; gives its file's path, or "".

    One that the same agent goes on with is consumed with that: nobody comes for it.
    """
    with context.store.reading() as reader:
        known = artifacts_of(reader, task)
        facts = turn_facts(reader, task, from_agent, to_agent)
    latest = known[0] if known and from_agent != to_agent else {}
    if (latest.get("to_agent"), latest.get("version")) == (to_agent, facts["version"]):
        return ""
    made = _new_artifact(context, facts, known, counter_of(None, context.settings.counter))
    is_own = from_agent == to_agent
    made = {**made, "artifact": {**made["artifact"], "consumed": is_own}, "consumed": is_own}
    return _saved(context, facts, made, known)["path"]


def _saved(
    context: Context, facts: JsonObject, entry: JsonObject, known: Sequence[JsonObject]
) -> JsonObject:
    """Record an artifact unless it is, and write its file."""
    if entry not in known:
        body = {
            "agent": facts["to_agent"],
            "from_agent": facts["from_agent"],
            "version": facts["version"],
            "digest": facts["digest"],
            **_recorded_fields(entry),
            **({"consumed": [entry["file"]]} if entry["consumed"] else {}),
        }
        context.ledger.deliver(facts["task"], "artifact_saved", facts["from_agent"], body)
    path = write_artifact(context, entry)
    return for_caller({**entry, "task": facts["task"], "path": path})


def for_caller(entry: JsonObject) -> JsonObject:
    """An artifact as its reader can use it: a server's client can't open the server's files."""
    if not is_served():
        return entry
    url = f"/api/tasks/{entry['task']}/state"
    return {**entry, "artifact": {**entry["artifact"], "full_record": url}}


LOCK_TIMEOUT_S = 3.0
"""A prompt waits no longer than this for other writers; its switch is then not recorded."""

BORDER = "# The prompt"
"""Stands between the context, which is facts, and what the user asks for."""


class Prompt(NamedTuple):
    """A prompt to pass on. `agent` is who it calls, `switched` the switch that this made."""

    text: str
    agent: str
    switched: Switch | None


def prompt(
    context: Context,
    text: str,
    *,
    task: str,
    active: str = "",
    budget: int | None = None,
    counter: CounterLike = None,
    record: bool = True,
) -> Prompt:
    """A user's prompt, behind the new agent's context where it calls one (`@name`, `/name`).

    Without such a call, or with switches turned off, the text is what was given.

    Args:
        text: What the user typed.
        active: The active agent.
        budget: The most tokens that may come on top of the profile.
    """
    if not context.settings.switch_enabled:
        return Prompt(text, active, None)
    sent = [str(each["name"]) for each in client_profile() if each]
    called = find_switch(text, (*context.profiles().names(), *sent), active)
    profile = profile_of(context, called) if called else None
    if called is None or profile is None or not profile.text.strip():
        return Prompt(text, active, None)
    more: dict[str, Any] = {"budget": budget, "counter": counter, "record": record}
    with closing(context.impatient(LOCK_TIMEOUT_S)) as quick:
        found = switch(quick, task, to_agent=called, from_agent=active, **more)
    return Prompt(f"{found.text}\n\n{BORDER}\n\n{text}", called, found)


def subagent_prompt(workspace: Workspace, agent: str, text: str) -> str:
    """An agent's whole profile and a task's whole text, both unchanged.

    Raises NotFound for an agent without a profile.

    Args:
        text: The text of the task.
    """
    profile = workspace.context.profile(agent)
    if profile is None or not profile.text:
        known = ", ".join(workspace.context.agents()) or "none"
        raise NotFound(f"{agent[:80]!r} has no profile", next_step=f"Known agents: {known}.")
    return joined_prompt(profile.text, text)


def saved_switches(reader: Reader, *, task: str = "", agent: str = "") -> list[JsonObject]:
    """The switch artifacts of a task, newest first, or those that wait for an agent.

    Args:
        agent: Only artifacts that wait for this agent.
    """
    if not task and not agent:
        problem = Problem("", "required", "neither is named", "a task or an agent")
        raise InvalidInput("nothing was looked up", [problem])
    found = artifacts_of(reader, task) if task else waiting_artifacts(reader, agent)
    if task and agent:
        found = [e for e in found if e["to_agent"] == agent and not e["consumed"]]
    return [for_caller(each) for each in found]


def profile(context: Context, agent: str) -> Profile | None:
    """An agent's profile, or None where it has none."""
    return context.profiles().get(agent)


def executor(context: Context, kind: str) -> str:
    """The agent that does a kind of task, by the registry's `task_bindings`; empty for none.

    Args:
        kind: The kind of task, such as review.
    """
    return context.profiles().registry.executors.get(kind, "")


def agents(context: Context) -> tuple[str, ...]:
    """The agents that have a profile."""
    return context.profiles().names()


_PAGE = 500
_RUNTIME = os.path.join(".passdown", FOLDER)
_ENDS = ("from_agent", "to_agent", "timestamp")
"""What tells one artifact from another, whatever its file is called."""

MOST_LISTED = 200


class ArtifactCheck(NamedTuple):
    """What is wrong with an artifact's file; `is_known` when it was compared with its record."""

    problems: list[Problem]
    is_known: bool


def check_artifact(text: str | bytes) -> tuple[JsonObject | None, list[Problem]]:
    """A switch artifact, or None for a text that is none, and what is wrong with it."""
    try:
        found = read_artifact(text)
    except InvalidInput as error:
        return None, list(error.problems)
    return found, artifact_problems(found)


def compare_artifact(workspace: Workspace, path: str, text: str | bytes) -> ArtifactCheck:
    """What is wrong with an artifact's file, compared with what this workspace recorded of it.

    The record is found by the file's name, else by who left it to whom and when.
    """
    found, problems = check_artifact(text)
    name = os.path.basename(path)
    file, recorded = "", None
    for entry in artifacts_in(all_deliveries(workspace)):
        artifact = entry["artifact"]
        is_alike = found is not None and all(found.get(e) == artifact.get(e) for e in _ENDS)
        if entry["file"] == name or (is_alike and recorded is None):
            file, recorded = entry["file"], {**artifact, "consumed": entry["consumed"]}
        if file == name:
            break
    folder = os.path.join(os.path.realpath(workspace.root), _RUNTIME)
    if file != name and os.path.dirname(os.path.realpath(path)) == folder:
        message = "this workspace has no record of it"
        problems.append(Problem("", "not_recorded", message, "an artifact that a switch wrote"))
    if recorded is None:
        return ArtifactCheck(problems, is_known=False)
    differing = _differing(found, recorded)
    if not differing:
        # Its length was judged when it was made, by the counter in the settings.
        problems = [problem for problem in problems if problem.code != "too_long"]
    return ArtifactCheck([*problems, *differing], is_known=True)


def all_artifacts(workspace: Workspace, limit: int = MOST_LISTED) -> list[JsonObject]:
    """The switch artifacts of all tasks, newest first, at most so many."""
    return list(islice(artifacts_in(all_deliveries(workspace)), limit))


def all_deliveries(workspace: Workspace, task: str | None = None) -> Iterator[JsonObject]:
    """Every delivery, of a task or of all, newest first."""
    page = workspace.context.deliveries(task, limit=_PAGE)
    while page:
        yield from (delivery.to_dict() for delivery in page)
        before = page[-1].number if task else page[-1].seq
        page = workspace.context.deliveries(task, limit=_PAGE, before=before)


def _differing(found: JsonObject | None, recorded: JsonObject) -> list[Problem]:
    if found is None:
        return [Problem("", "edited", "is not what was recorded", "the recorded text")]
    # Written and read again, so that a difference is one of content and not of spelling.
    meant = read_artifact(artifact_text(recorded))
    return [
        Problem(
            name,
            "edited",
            f"is {_shown(found.get(name), meant.get(name))}, "
            f"recorded was {_shown(meant.get(name), found.get(name))}",
            fix="read what was recorded with passdown log --briefs --json",
            level="warning" if name == "consumed" else "error",
        )
        for name in dict.fromkeys((*meant, *found))
        if found.get(name) != meant.get(name)
    ]


def _shown(value: object, other: object) -> str:
    """A value for a message; of two lists, what is in the first alone says more."""
    if isinstance(value, list) and isinstance(other, list):
        others = cast("list[object]", other)
        value = [entry for entry in cast("list[object]", value) if entry not in others]
    return "nothing" if value in (None, "", [], {}) else excerpt(f"{value!r}", 60)


def artifact_view(text: str | bytes) -> str:
    """An artifact's text as markdown; raises InvalidInput for text that is none."""
    return artifact_markdown(read_artifact(text))


TEMPLATE_NAME = "switch-artifact.yaml"


def _template_order(context: Context) -> tuple[str, ...]:
    """The fields of the project's own template, where the settings name its folder, in its order;
    raises InvalidInput for one that can't be read.
    """
    folder = context.settings.switch_template
    if not folder:
        return ()
    return tuple(read_artifact(artifact_template(os.path.join(context.root, folder))))


def artifact_template(folder: str = "") -> str:
    """The empty artifact, to fill in by hand; the one in a folder, where a folder is named."""
    if not folder:
        return TEMPLATE
    path = os.path.join(folder, TEMPLATE_NAME)
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        problem = Problem(path, "unreadable", str(error), "a template of a switch artifact")
        raise InvalidInput("there is no such template", [problem]) from error

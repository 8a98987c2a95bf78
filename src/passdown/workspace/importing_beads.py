"""Issues of beads into tasks: one task each under the issue's own id, and how it stands.

A task is made from what an issue says of the work; one handoff carries how it stands (its status,
the reason it was closed, its notes, who has it); links that are no dependencies are knowledge, and
so is the issue's text: search finds what was learned and handed on, not what tasks are to do.
Only what the source changed since the last time is written, so that later work here stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.errors import InvalidInput, Problem
from passdown.ledger.gates import cycle_problems, entry_guard
from passdown.model.canonical import canonical_bytes
from passdown.model.graph import Edge
from passdown.model.importing.beads import issue_node, read_beads
from passdown.model.intake import check_task
from passdown.workspace.handing import hand_off
from passdown.workspace.importing_files import bytes_of
from passdown.workspace.importing_knowledge import Learner
from passdown.workspace.importing_results import (
    Done,
    Earlier,
    Entry,
    Tally,
    append,
    redactions,
    short_hash,
)
from passdown.workspace.noting import create_task

if TYPE_CHECKING:
    from passdown.model.importing.beads import Issue
    from passdown.store.statements import Reader
    from passdown.workspace.importing_files import Source
    from passdown.workspace.importing_results import Progress
    from passdown.workspace.opened import Opened

_FIELDS = ("title", "description", "criteria", "depends_on", "time_limit_minutes")
_TASK, _STANDING, _LINKS = "beads-task", "beads-standing", "beads-links"
_TEXT = "beads-text"
_DELETED = "deleted"


def bring_beads(
    opened: Opened, source: Source, name: str, *, agent: str, progress: Progress | None
) -> Tally:
    """Take in the issues of one JSONL file."""
    data = bytes_of(source, name)
    if isinstance(data, Problem):
        raise InvalidInput("nothing was imported", [data])
    found = read_beads(data)
    if not found.issues:
        missing = Problem(name, "no_issue", "there is no issue in it", "an issue a line")
        raise InvalidInput("nothing was imported", found.problems or [missing])
    tally = Tally("beads", 2 * len(found.issues), progress)
    for problem in found.problems:
        kind = "line" if problem.path.startswith("line") else "link"
        tally.refuse(problem, "link" if problem.path.endswith("dependencies") else kind)
    made: list[tuple[Issue, Earlier]] = []
    named = {issue.id for issue in found.issues if not issue.is_tombstone}
    for issue in found.issues:
        earlier = Earlier(opened, issue.id)
        missing = _missing(opened, issue, named)
        if _take(opened, issue, earlier, agent, tally=tally, missing=missing):
            made.append((issue, earlier))
        tally.step()
    # Links come last: by now every task that they lead to is there.
    known = {issue.id for issue, _ in made}
    for issue, earlier in made:
        _take_links(opened, issue, earlier, agent=agent, known=known, tally=tally)
        tally.step()
    tally.finish()
    return tally


def _missing(opened: Opened, issue: Issue, named: set[str]) -> str:
    """What an issue waits for that is neither in the file nor here, in words; else empty."""
    with opened.store.reading() as reader:
        gone = [n for n in issue.depends_on if n not in named and reader.task(n) is None]
    return f"depends on {', '.join(gone)[:200]}, not in the file and not here" if gone else ""


def _take(
    opened: Opened, issue: Issue, earlier: Earlier, agent: str, *, tally: Tally, missing: str
) -> bool:
    """Bring the task of an issue up to date; says whether there is one now."""
    if issue.is_tombstone:
        _bury(opened, issue, earlier, agent, tally)
        return False
    where = f"line {issue.line}"
    had_stood = _stood(earlier)

    def make() -> Done:
        return earlier.settle(lambda: _make(opened, issue, earlier, agent, missing))

    def stand() -> Done:
        return earlier.settle(lambda: _stand(opened, issue, earlier, agent))

    if not tally.attempt(where, "task", make):
        return False
    if _standing_state(issue) or had_stood:
        tally.attempt(where, "standing", stand)
    learner = Learner(opened, issue.id, agent, earlier)
    tally.attempt(where, "text", lambda: _say(issue, learner))
    return True


def _bury(opened: Opened, issue: Issue, earlier: Earlier, agent: str, tally: Tally) -> None:
    """A deleted issue: its task is cancelled where an import made it, else there is nothing."""
    where = f"line {issue.line}"
    if not any(earlier.of(_TASK)):
        tally.add(where, "task", "skipped", reason=f"{issue.id} was deleted (a tombstone)")
        return

    def cancel() -> Done:
        if earlier.state(_TASK) == _DELETED:
            return Done("unchanged", issue.id)
        key, body = earlier.key(_TASK, _DELETED), {"status": "cancelled"}
        append(opened, Entry(issue.id, "task_changed", agent, body, key, earlier.version))
        return Done("changed", issue.id)

    tally.attempt(where, "task", lambda: earlier.settle(cancel))


def _make(opened: Opened, issue: Issue, earlier: Earlier, agent: str, missing: str) -> Done:
    """Make an issue's task, or change what the source changed; gives result and id."""
    fields: dict[str, Any] = {
        "title": issue.title,
        "description": issue.description,
        "criteria": list(issue.criteria),
        "depends_on": list(issue.depends_on),
        "time_limit_minutes": issue.minutes,
    }
    state = short_hash(canonical_bytes(fields).decode())
    if earlier.state(_TASK) == state:
        return Done("unchanged", issue.id)
    key = earlier.key(_TASK, state)
    if not earlier.exists:
        phase = "implementing" if issue.standing.status == "in_progress" else "planning"
        given = {**fields, "task": issue.id, "agent": agent, "phase": phase}
        receipt = create_task(opened, given, key)
        told = (missing, redactions(receipt.warnings))
        result = "unchanged" if receipt.is_replay else "added"
        return Done(result, issue.id, "; ".join(part for part in told if part))
    before = _last_told(earlier)
    if not before:
        message = f"there is a task {issue.id} already, which no import made"
        problem = Problem("id", "exists", message, "an id that is free")
        raise InvalidInput("nothing was changed", [problem])
    changed = {name: value for name, value in fields.items() if before[name] != value}
    if earlier.state(_TASK) == _DELETED:
        changed["status"] = "open"
    _change(opened, Entry(issue.id, "task_changed", agent, changed, key, earlier.version))
    return Done("changed", issue.id, missing if "depends_on" in changed else "")


def _last_told(earlier: Earlier) -> dict[str, Any]:
    """An issue's fields as the source gave them last; empty where no import made the task."""
    told: dict[str, Any] = {}
    for record in earlier.of(_TASK):
        body = record.document()
        told |= {name: body[name] for name in _FIELDS if name in body}
    return told if len(told) == len(_FIELDS) else {}


def _change(opened: Opened, entry: Entry) -> None:
    """Record what changed, if the task is still at the version that it was told from."""
    changed, task = entry.body, entry.task
    fields = {name: value for name, value in changed.items() if name != "status"}
    whole = {"title": "unchanged", **fields, "task": task, "agent": entry.author}
    checked, problems = check_task(whole)
    errors = [problem for problem in problems if problem.level == "error"]
    if errors:
        raise InvalidInput("nothing was changed", errors)
    body = {**changed, **{name: checked[name] for name in fields}}

    def problems_of(reader: Reader, given: dict[str, Any]) -> list[Problem]:
        return cycle_problems(reader, task, given.get("depends_on", ()))

    append(opened, entry._replace(body=body), entry_guard(problems_of))


def _stood(earlier: Earlier) -> str:
    """How an issue stood when it was last taken in; empty for one that was deleted since."""
    return earlier.state(_STANDING, since=earlier.version_of(_TASK, _DELETED))


def _standing_state(issue: Issue) -> str:
    """How an issue stands, as a state; empty for one that is merely open and says no more."""
    standing = issue.standing
    is_plain = standing.status == "open" and "\n" not in standing.summary and not standing.assignee
    return "" if is_plain else short_hash(standing.status, standing.summary, standing.assignee)


def _stand(opened: Opened, issue: Issue, earlier: Earlier, agent: str) -> Done:
    """Record how an issue stands, in one handoff, unless it stands as it did."""
    state, was = _standing_state(issue) or "open", _stood(earlier)
    if was == state:
        return Done("unchanged", issue.id)
    standing = issue.standing
    given: dict[str, Any] = {
        "task": issue.id,
        "from_agent": agent,
        "to_agent": standing.assignee if standing.assignee != agent else "",
        "outcome": "completed",
        "phase": standing.phase,
        "summary": standing.summary,
    }
    if standing.status == "blocked":
        blocker = {"blocker": "beads has it as blocked", "blocking_tasks": [issue.id]}
        given |= {"outcome": "blocked", "blockers": [blocker]}
    key = earlier.key(_STANDING, state)
    command = hand_off(opened, given, {}, key=key, rebase=False, changed_files=None)
    result = "unchanged" if command.is_replay else "changed" if was else "added"
    return Done(result, f"{issue.id}@{command.version}", redactions(command.warnings))


def _say(issue: Issue, learner: Learner) -> Done:
    """Record what an issue says where search looks, as a node beside its task."""
    node = issue_node(issue)
    state = short_hash(node.summary, *(f"{name} {text}" for name, text in node.attributes.items()))
    about = Edge(node.id, "relates_to", f"task:{issue.id}")
    return learner.take(_TEXT, state, f"node:{node.id}", nodes=[node], edges=[about])


def _take_links(
    opened: Opened, issue: Issue, earlier: Earlier, *, agent: str, known: set[str], tally: Tally
) -> None:
    """Record how an issue bears on others, as knowledge; links to nowhere are counted."""
    where = f"line {issue.line}"
    names: dict[tuple[str, str], list[str]] = {}
    for relation, other, kind in issue.relations:
        if other in known:
            names.setdefault((relation, other), []).append(kind)
        else:
            reason = f"{kind} {other}, which isn't here"
            tally.add(where, "link", "refused", issue.id, reason=reason)
    if not names:
        return
    edges = [
        Edge(f"task:{issue.id}", relation, f"task:{other}", {"name": "; ".join(sorted(kinds))})
        for (relation, other), kinds in names.items()
    ]
    state = short_hash(*(f"{edge.key} {edge.attributes['name']}" for edge in sorted(edges)))
    learner = Learner(opened, issue.id, agent, earlier)
    before = len(tally.entries)
    tally.attempt(
        where, "link", lambda: learner.take(_LINKS, state, f"task:{issue.id}", edges=edges)
    )
    # One record holds them all; each is counted.
    tally.entries += tally.entries[before:] * (len(edges) - 1)

"""Import issues of beads as tasks."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown.core.graph import MAX_VALUE, Edge, Node, summary_line
from passdown.core.intake import check_task
from passdown.core.names import agent_problems, id_problems
from passdown.core.record import canonical_bytes
from passdown.core.text import excerpt, is_blank, text_problems
from passdown.errors import InvalidInput, Problem
from passdown.imports.job import (
    EarlierImports,
    EntryResult,
    key_state,
    not_text,
    objects_of,
    read_lines,
    remarks,
    short_hash,
    text_of,
    texts_of,
    without_cycles,
)
from passdown.ledger.gates import cycle_problems, entry_guard
from passdown.ledger.writer import Entry
from passdown.workspace.entries import create_task
from passdown.workspace.handoff import hand_off

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.imports.job import ImportJob
    from passdown.store.statements import Reader

_PHASES = {"closed": "completed", "in_progress": "implementing", "open": "planning"}
_RELATIONS = {"discovered-from": "discovered_in", "supersedes": "supersedes"}
_NODE = "beads:"
_ITEM = re.compile(r"^\s*(?:[-*+]|\d{1,4}[.)])\s+(?:\[[ xX]\]\s+)?(\S.*?)\s*$")
_FACTS = {
    **{"issue_type": "type", "priority": "priority", "assignee": "assigned to", "owner": "owner"},
    **{"created_by": "created by", "created_at": "created", "due_at": "due"},
    **{"defer_until": "deferred until", "external_ref": "refers to", "spec_id": "spec"},
}


class Issue(NamedTuple):
    """One issue as a task. `relations` are (relation, other issue, what beads calls it); `summary`
    describes the status, and `phase` is empty if it isn't clear.
    """

    line: int
    id: str
    title: str
    description: str
    criteria: tuple[str, ...]
    depends_on: tuple[str, ...]
    minutes: int | None
    relations: tuple[tuple[str, str, str], ...]
    status: str
    phase: str
    summary: str
    assignee: str
    is_tombstone: bool


class Issues(NamedTuple):
    """The issues of a file, each id once, and a problem for each unusable line or link."""

    issues: tuple[Issue, ...]
    problems: tuple[Problem, ...]


def read_beads(data: bytes) -> Issues:
    """Read the issues of a JSONL file. Of two lines with one id, the one that was updated last
    counts; a dependency that closes a cycle is left out and reported.
    """
    lines = read_lines(data)
    problems = list(lines.problems)
    found: dict[str, tuple[str, Issue]] = {}
    for number, entry in lines.objects:
        issue = _issue(number, entry, problems)
        if issue is None:
            continue
        updated = text_of(entry, "updated_at")
        known = found.get(issue.id)
        if known:
            older = min((known, (updated, issue)), key=lambda each: each[0])[1].line
            message = f"{issue.id} is on another line too, updated later"
            problems.append(Problem(f"line {older}", "duplicate_id", message, "one line an issue"))
        if known is None or updated >= known[0]:
            found[issue.id] = (updated, issue)
    needs = {id: list(issue.depends_on) for id, (_, issue) in found.items()}
    for id, other in without_cycles(needs)[1]:
        message = f"{id} depends on {other}, which leads back to it"
        problems.append(Problem(f"{id}: dependencies", "cycle", message, "no circle"))
    issues = (issue._replace(depends_on=tuple(needs[id])) for id, (_, issue) in found.items())
    return Issues(tuple(issues), tuple(problems))


def issue_node(issue: Issue) -> Node:
    """An issue's text as a node: its title, and description and criteria in as many parts as they
    need.
    """
    criteria = "".join(f"\n- {criterion}" for criterion in issue.criteria)
    text = "\n\n".join(part for part in (issue.title, issue.description, criteria.strip()) if part)
    parts = [text[at : at + MAX_VALUE] for at in range(0, len(text), MAX_VALUE)]
    names = ["description", *(f"description_{n}" for n in range(2, len(parts) + 1))]
    attributes = dict(zip(names, parts, strict=False))
    return Node(f"{_NODE}{issue.id}", "insight", summary_line(issue.title), (), attributes)


def looks_like_beads(entry: dict[str, Any]) -> bool:
    """Whether an object is an issue of beads."""
    return {"id", "title"} <= entry.keys() and bool(
        {"status", "issue_type", "priority", "created_at"} & entry.keys()
    )


def _issue(number: int, entry: dict[str, Any], problems: list[Problem]) -> Issue | None:
    where = f"line {number}"
    id, title = text_of(entry, "id"), text_of(entry, "title")
    is_tombstone = text_of(entry, "status") == "tombstone" or bool(entry.get("deleted_at"))
    faults = [not_text(where, "id", entry.get("id"))] if not id else id_problems(id, f"{where}: id")
    if is_blank(title) and not is_tombstone:
        faults.append(not_text(where, "title", entry.get("title")))
    description = _description(entry)
    status = text_of(entry, "status") or "open"
    closed_at = text_of(entry, "closed_at")[:10]
    head = f"Status in beads: {status}" + (f" since {closed_at}" if closed_at else "") + "."
    said = (head, text_of(entry, "close_reason"), text_of(entry, "notes"))
    summary = "\n\n".join(part for part in said if part)
    for name, text in (("title", title), ("description", description), ("notes", summary)):
        faults += text_problems(text, f"{where}: {name}", required=False)
    if faults:
        problems += faults
        return None
    depends_on, relations = _links(where, id, entry, problems)
    minutes, assignee = entry.get("estimated_minutes"), text_of(entry, "assignee")
    is_held = status != "closed" and not agent_problems(assignee, "assignee")
    return Issue(
        line=number,
        id=id,
        title=title or id,
        description=description,
        criteria=tuple(_criteria(text_of(entry, "acceptance_criteria"))),
        depends_on=depends_on,
        minutes=minutes if type(minutes) is int and 0 < minutes < 10**6 else None,
        relations=relations,
        status=status,
        phase=_PHASES.get(status, ""),
        summary=summary,
        assignee=assignee if is_held else "",
        is_tombstone=is_tombstone,
    )


def _description(entry: dict[str, Any]) -> str:
    """Description, design and comments, and a line of facts that a task has no field for."""
    design = text_of(entry, "design")
    parts = [text_of(entry, "description"), f"Design:\n{design}" if design else ""]
    for comment in objects_of(entry, "comments"):
        author, at = text_of(comment, "author") or "somebody", text_of(comment, "created_at")[:10]
        if text := text_of(comment, "text"):
            parts.append(f"{' '.join(p for p in ('Comment by', author, at) if p)}:\n{text}")
    facts: list[str] = []
    for name, word in _FACTS.items():
        value = entry.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
            text = str(value).strip()
            facts.append(f"{word} {text[:10] if name.endswith('_at') else text}")
    labels = texts_of(entry, "labels")
    facts += [f"labels {', '.join(labels)}"] if labels else []
    parts += [f"In beads: {'; '.join(facts)}."] if facts else []
    return "\n\n".join(part for part in parts if part)


def _criteria(text: str) -> list[str]:
    """Acceptance criteria one by one if they are a list; otherwise as one text."""
    lines = [line for line in text.split("\n") if line.strip()]
    items = [_ITEM.match(line) if len(line) < 10_000 else None for line in lines]
    if lines and all(items):
        return [item[1] for item in items if item]
    return [text] if text else []


def _links(
    where: str, id: str, entry: dict[str, Any], problems: list[Problem]
) -> tuple[tuple[str, ...], tuple[tuple[str, str, str], ...]]:
    """An issue's dependencies, and its other relations."""
    needs: list[str] = []
    relations: list[tuple[str, str, str]] = []
    for link in objects_of(entry, "dependencies"):
        other, kind = text_of(link, "depends_on_id"), text_of(link, "type") or "blocks"
        if text_of(link, "issue_id") not in ("", id) or other == id or id_problems(other, ""):
            shown = excerpt(f"{kind} {other}".strip(), 80)
            message = f"{id} can't be linked: {shown}"
            problems.append(Problem(f"{where}: dependencies", "invalid_link", message, "an issue"))
        elif kind == "blocks":
            needs.append(other)
        else:
            relations.append((_RELATIONS.get(kind, "relates_to"), other, kind))
    return tuple(dict.fromkeys(needs)), tuple(dict.fromkeys(relations))


# --- recording

_FIELDS = ("title", "description", "criteria", "depends_on", "time_limit_minutes")
_TASK, _STATE, _LINKS, _TEXT = "beads-task", "beads-standing", "beads-links", "beads-text"
_DELETED = "deleted"


def import_beads(job: ImportJob) -> None:
    """Record each issue as a task under its own id, and its status as a handoff.

    Links that are no dependencies are recorded as knowledge, and so is the issue's text, so that
    search finds it. Only what the source changed since the last import is written.
    """
    for name in job.names:
        issues, problems = read_beads(job.read(name))
        missing = Problem(name, "no_issue", "there is no issue in it", "an issue a line")
        job.begin(issues, problems, missing)
        named = {issue.id for issue in issues if not issue.is_tombstone}
        works = [_IssueImport(job, issue) for issue in issues]
        made: set[str] = set()
        # Links come last: by then every task that they lead to exists.
        for index, work in enumerate(job.each([*works, *works])):
            if index >= len(works):
                work.record_links(made)
            elif work.record(named):
                made.add(work.issue.id)


class _IssueImport:
    """Brings the task of one issue up to date."""

    def __init__(self, job: ImportJob, issue: Issue) -> None:
        self.issue = issue
        self._job = job
        self._where = f"line {issue.line}"
        self._earlier = EarlierImports(job.context, issue.id)

    def record(self, named: set[str]) -> bool:
        """Record task, status and text; says whether the task exists now."""
        if self.issue.is_tombstone:
            self._record_deletion()
            return False
        had_state = self._last_state()
        if not self._write("task", partial(self._record_task, named)):
            return False
        if self._state() or had_state:
            self._write("standing", self._record_state)
        node = issue_node(self.issue)
        texts = (f"{name} {text}" for name, text in node.attributes.items())
        about = Edge(node.id, "relates_to", f"task:{self.issue.id}")
        self._learn("text", _TEXT, short_hash(node.summary, *texts), [node], [about])
        return True

    def _write(self, kind: str, write: Callable[[], EntryResult]) -> str:
        return self._job.write(self._where, kind, partial(self._earlier.settle, write))

    def _learn(
        self, kind: str, subject: str, state: str, nodes: list[Node], edges: list[Edge]
    ) -> None:
        address = f"node:{nodes[0].id}" if nodes else f"task:{self.issue.id}"
        learn = partial(self._earlier.learn, self._job.agent, subject, state, address)
        self._job.write(self._where, kind, partial(learn, nodes=nodes, edges=edges))

    def _record_deletion(self) -> None:
        """Cancel the task of a deleted issue, if an import made it."""
        id, earlier = self.issue.id, self._earlier
        if not earlier.of(_TASK):
            reason = f"{id} was deleted (a tombstone)"
            self._job.add(self._where, "task", "skipped", reason=reason)
            return

        def cancel() -> EntryResult:
            if earlier.state(_TASK) == _DELETED:
                return EntryResult("unchanged", id)
            self._append({"status": "cancelled"}, earlier.key(_TASK, _DELETED))
            return EntryResult("changed", id)

        self._write("task", cancel)

    def _record_task(self, named: set[str]) -> EntryResult:
        """Create the task, or change what the source changed."""
        issue, earlier = self.issue, self._earlier
        fields: dict[str, Any] = {
            "title": issue.title,
            "description": issue.description,
            "criteria": list(issue.criteria),
            "depends_on": list(issue.depends_on),
            "time_limit_minutes": issue.minutes,
        }
        state = short_hash(canonical_bytes(fields).decode())
        if earlier.state(_TASK) == state:
            return EntryResult("unchanged", issue.id)
        with self._job.context.store.reading() as reader:
            others = (name for name in issue.depends_on if name not in named)
            gone = ", ".join(name for name in others if reader.task(name) is None)[:200]
        missing = f"depends on {gone}, not in the file and not here" if gone else ""
        key = earlier.key(_TASK, state)
        if earlier.version == 0:
            phase = self._own_phase("implementing" if issue.status == "in_progress" else "planning")
            given = {**fields, "task": issue.id, "agent": self._job.agent, "phase": phase}
            receipt = create_task(self._job.context, key=key, **given)
            result = "unchanged" if receipt.is_replay else "added"
            return EntryResult(result, issue.id, remarks(missing, warnings=receipt.warnings))
        before: dict[str, Any] = {}
        for record in earlier.of(_TASK):
            body = record.document()
            before |= {name: body[name] for name in _FIELDS if name in body}
        if len(before) < len(_FIELDS):
            message = f"there is a task {issue.id} already, which no import made"
            problem = Problem("id", "exists", message, "an id that is free")
            raise InvalidInput("nothing was changed", [problem])
        changed = {name: value for name, value in fields.items() if before[name] != value}
        if earlier.state(_TASK) == _DELETED:
            changed["status"] = "open"
        self._append(changed, key)
        return EntryResult("changed", issue.id, missing if "depends_on" in changed else "")

    def _append(self, changed: dict[str, Any], key: str) -> None:
        """Record a change of the task, unless it has changed since it was read."""
        id, agent, context = self.issue.id, self._job.agent, self._job.context
        fields = {name: value for name, value in changed.items() if name != "status"}
        checked, problems = check_task({"title": "unchanged", **fields, "task": id, "agent": agent})
        if errors := [problem for problem in problems if problem.level == "error"]:
            raise InvalidInput("nothing was changed", errors)
        body = {**changed, **{name: checked[name] for name in fields}}

        def cycles(reader: Reader, given: dict[str, Any]) -> list[Problem]:
            return cycle_problems(reader, id, given.get("depends_on", ()))

        entry = Entry(id, "task_changed", agent, body, key, self._earlier.version)
        context.mirror(context.ledger.append(entry, entry_guard(cycles)))

    def _own_phase(self, phase: str) -> str:
        """A phase of this workspace: the first one, if it has others than beads' statuses mean."""
        phases = self._job.context.settings.phases
        return phase if phase in (*phases, "completed") else phases[0]

    def _state(self) -> str:
        """The issue's status as a state; empty for one that is open and says no more."""
        issue = self.issue
        is_plain = issue.status == "open" and "\n" not in issue.summary and not issue.assignee
        return "" if is_plain else short_hash(issue.status, issue.summary, issue.assignee)

    def _last_state(self) -> str:
        """The state that was last imported; empty if the issue was deleted since."""
        deleted = (r.position for r in self._earlier.of(_TASK) if key_state(r.key) == _DELETED)
        return self._earlier.state(_STATE, since=max(deleted, default=0))

    def _record_state(self) -> EntryResult:
        """Record the issue's status in one handoff."""
        issue, agent = self.issue, self._job.agent
        state, before = self._state() or "open", self._last_state()
        if before == state:
            return EntryResult("unchanged", issue.id)
        with self._job.context.store.reading() as reader:
            phase = reader.existing_task(issue.id).phase
        # One that isn't finished stays in the phase that it is in.
        is_last = phase == self._job.context.settings.completes
        phase = issue.phase or (phase if not is_last else "implementing")
        given: dict[str, Any] = {
            "task": issue.id,
            "from_agent": agent,
            "to_agent": issue.assignee if issue.assignee != agent else "",
            "outcome": "completed",
            "phase": self._own_phase(phase),
            "summary": issue.summary,
            "despite": "beads has it as closed" if issue.phase == "completed" else "",
        }
        if issue.status == "blocked":
            blocker = {"blocker": "beads has it as blocked", "blocking_tasks": [issue.id]}
            given |= {"outcome": "blocked", "blockers": [blocker]}
        key = self._earlier.key(_STATE, state)
        done = hand_off(self._job.context, given, key=key)
        result = "unchanged" if done.is_replay else "changed" if before else "added"
        return EntryResult(result, f"{issue.id}@{done.version}", remarks(warnings=done.warnings))

    def record_links(self, made: set[str]) -> None:
        """Record relations to other issues as knowledge; those to unknown issues are refused."""
        id = self.issue.id
        if id not in made:
            return
        names: dict[tuple[str, str], list[str]] = {}
        for relation, other, kind in self.issue.relations:
            if other in made:
                names.setdefault((relation, other), []).append(kind)
            else:
                reason = f"{kind} {other}, which isn't here"
                self._job.add(self._where, "link", "refused", id, reason=reason)
        edges = [
            Edge(f"task:{id}", relation, f"task:{other}", {"name": "; ".join(sorted(kinds))})
            for (relation, other), kinds in names.items()
        ]
        if edges:
            states = (f"{edge.key} {edge.attributes['name']}" for edge in sorted(edges))
            self._learn("link", _LINKS, short_hash(*states), [], edges)
            # One record holds them all; each is counted.
            self._job.entries += self._job.entries[-1:] * (len(edges) - 1)

"""Read issues exported by beads."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from passdown.core.graph import MAX_VALUE, Node, summary_line
from passdown.core.names import agent_problems, id_problems
from passdown.core.text import excerpt, is_blank, text_problems
from passdown.errors import Problem
from passdown.imports.parsing import not_text, objects_of, read_lines, text_of, texts_of

_PHASES = {"closed": "completed", "in_progress": "implementing", "open": "planning"}
_RELATIONS = {"discovered-from": "discovered_in", "supersedes": "supersedes"}
_NODE = "beads:"
_ITEM = re.compile(r"^\s*(?:[-*+]|\d{1,4}[.)])\s+(?:\[[ xX]\]\s+)?(\S.*?)\s*$")
_FACTS = (
    ("issue_type", "type"),
    ("priority", "priority"),
    ("assignee", "assigned to"),
    ("owner", "owner"),
    ("created_by", "created by"),
    ("created_at", "created"),
    ("due_at", "due"),
    ("defer_until", "deferred until"),
    ("external_ref", "refers to"),
    ("spec_id", "spec"),
)


class IssueState(NamedTuple):
    """How an issue stands: `summary` says it in words, `phase` is empty where it isn't clear."""

    status: str
    phase: str
    summary: str
    assignee: str


class Issue(NamedTuple):
    """One issue as a task. `relations` are (relation, other issue, what beads calls it)."""

    line: int
    id: str
    title: str
    description: str
    criteria: tuple[str, ...]
    depends_on: tuple[str, ...]
    minutes: int | None
    relations: tuple[tuple[str, str, str], ...]
    standing: IssueState
    is_tombstone: bool


class Issues(NamedTuple):
    """The issues of a file, each id once, and a problem for each line or link that isn't taken."""

    issues: tuple[Issue, ...]
    problems: tuple[Problem, ...]


def read_beads(data: bytes) -> Issues:
    """The issues in a JSONL file. Of two lines with one id, the one that was updated last counts;
    a dependency that leads in a circle is left out and reported.
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
            message = f"{issue.id} stands on another line too, updated later"
            problems.append(Problem(f"line {older}", "duplicate_id", message, "one line an issue"))
        if known is None or updated >= known[0]:
            found[issue.id] = (updated, issue)
    issues = _without_cycles([issue for _, issue in found.values()], problems)
    return Issues(tuple(issues), tuple(problems))


def issue_node(issue: Issue) -> Node:
    """What an issue says, as knowledge: its title, and its description with its criteria in as many
    parts as it takes.
    """
    criteria = "".join(f"\n- {criterion}" for criterion in issue.criteria)
    text = "\n\n".join(part for part in (issue.title, issue.description, criteria.strip()) if part)
    parts = [text[at : at + MAX_VALUE] for at in range(0, len(text), MAX_VALUE)]
    names = ["description", *(f"description_{n}" for n in range(2, len(parts) + 1))]
    attributes = dict(zip(names, parts, strict=False))
    return Node(f"{_NODE}{issue.id}", "insight", summary_line(issue.title), (), attributes)


def looks_like_beads(entry: dict[str, Any]) -> bool:
    """Whether an object is an issue of beads: what each has, and no other form has together."""
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
    standing = _issue_state(entry)
    for name, text in (("title", title), ("description", description)):
        faults += text_problems(text, f"{where}: {name}", required=False)
    faults += text_problems(standing.summary, f"{where}: notes", required=False)
    if faults:
        problems += faults
        return None
    depends_on, relations = _links(where, id, entry, problems)
    minutes = entry.get("estimated_minutes")
    return Issue(
        line=number,
        id=id,
        title=title or id,
        description=description,
        criteria=tuple(_criteria(text_of(entry, "acceptance_criteria"))),
        depends_on=depends_on,
        minutes=minutes if type(minutes) is int and 0 < minutes < 10**6 else None,
        relations=relations,
        standing=standing,
        is_tombstone=is_tombstone,
    )


def _description(entry: dict[str, Any]) -> str:
    parts = [text_of(entry, "description")]
    design = text_of(entry, "design")
    parts += [f"Design:\n{design}"] if design else []
    for comment in objects_of(entry, "comments"):
        text, author = text_of(comment, "text"), text_of(comment, "author")
        if text:
            at = text_of(comment, "created_at")[:10]
            by = " ".join(part for part in ("Comment by", author or "somebody", at) if part)
            parts.append(f"{by}:\n{text}")
    return "\n\n".join(part for part in [*parts, _facts(entry)] if part)


def _facts(entry: dict[str, Any]) -> str:
    """What a task has no field for, in one line."""
    told: list[str] = []
    for name, word in _FACTS:
        value = entry.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
            text = str(value).strip()
            told.append(f"{word} {text[:10] if name.endswith('_at') else text}")
    labels = texts_of(entry, "labels")
    told += [f"labels {', '.join(labels)}"] if labels else []
    return f"In beads: {'; '.join(told)}." if told else ""


def _criteria(text: str) -> list[str]:
    """Acceptance criteria one by one, where they are a list; otherwise as one text."""
    lines = [line for line in text.split("\n") if line.strip()]
    items = [_ITEM.match(line) if len(line) < 10_000 else None for line in lines]
    if lines and all(items):
        return [item[1] for item in items if item]
    return [text] if text else []


def _issue_state(entry: dict[str, Any]) -> IssueState:
    status = text_of(entry, "status") or "open"
    reason, notes = text_of(entry, "close_reason"), text_of(entry, "notes")
    closed_at = text_of(entry, "closed_at")[:10]
    head = f"Status in beads: {status}" + (f" since {closed_at}" if closed_at else "") + "."
    assignee = text_of(entry, "assignee")
    is_agent = bool(assignee) and not agent_problems(assignee, "assignee")
    return IssueState(
        status=status,
        phase=_PHASES.get(status, ""),
        summary="\n\n".join(part for part in (head, reason, notes) if part),
        assignee=assignee if is_agent and status != "closed" else "",
    )


def _links(
    where: str, id: str, entry: dict[str, Any], problems: list[Problem]
) -> tuple[tuple[str, ...], tuple[tuple[str, str, str], ...]]:
    """What an issue waits for, and how else it bears on others."""
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


def _without_cycles(issues: list[Issue], problems: list[Problem]) -> list[Issue]:
    """The issues without the dependencies that close a circle; each of those is reported."""
    needs = {issue.id: list(issue.depends_on) for issue in issues}
    done: dict[str, bool] = {}
    for start, first in needs.items():
        waiting = [(start, iter(list(first)))] if start not in done else []
        done.setdefault(start, False)
        while waiting:
            id, others = waiting[-1]
            other = next(others, None)
            if other is None:
                done[id] = True
                waiting.pop()
            elif other in needs and other not in done:
                done[other] = False
                waiting.append((other, iter(list(needs[other]))))
            elif done.get(other) is False:
                needs[id].remove(other)
                message = f"{id} depends on {other}, which leads back to it"
                problems.append(Problem(f"{id}: dependencies", "cycle", message, "no circle"))
    return [issue._replace(depends_on=tuple(needs[issue.id])) for issue in issues]

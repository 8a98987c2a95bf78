"""What a person must act on: gates, failures, blocked and silent work, untaken handoffs."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING

from passdown.core.arguments import number_problems, raise_problems
from passdown.core.kinds import RUN_STREAM, WORKSPACE_TASK
from passdown.core.results import Attention
from passdown.core.times import stamp
from passdown.errors import PassdownError, Problem
from passdown.history.state import item_documents
from passdown.ledger.gates import is_gated
from passdown.workspace import Workspace
from passdown.workspace.context import context_of
from passdown.workspace.queries import gates_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from passdown.core.rows import ItemRow, TaskRow
    from passdown.core.types import JsonObject
    from passdown.store.statements import Reader

SILENT_AFTER = timedelta(hours=1)
"""How long an agent that works on a task may record nothing."""


def attention(
    workspace: Workspace,
    *,
    limit: int = 50,
    thorough: bool = False,
    kind: str = "",
    after: int = 0,
) -> Attention:
    """What a person must act on, the most urgent first: each entry with its age, and the operations
    that settle it.

    Args:
        limit: The largest number of entries of each kind.
        thorough: Also what only a look at all records and files finds: damage, forks, decisions
            whose files have changed.
        kind: Only entries of this kind.
        after: How many entries of each kind to pass over: those of the pages before.
    """
    problems = [*number_problems(limit, "limit", 1), *number_problems(after, "after", 0)]
    if kind and kind not in _ORDER:
        problems.append(Problem("kind", "invalid_choice", repr(kind)[:40], " | ".join(_ORDER)))
    raise_problems("can't be listed", problems)
    wanted = (kind,) if kind else _ORDER
    last = after + limit
    found: dict[str, list[JsonObject]] = {name: [] for name in _ORDER}
    for entry in _entries(workspace, wanted, last + 1, thorough=thorough):
        found[entry["kind"]].append(entry)
    pages = [sorted(found[name][after:last], key=lambda each: each["at"]) for name in wanted]
    return Attention(
        {
            "entries": [entry for page in pages for entry in page],
            "more": [name for name in wanted if len(found[name]) > last],
        }
    )


def _entries(
    workspace: Workspace, wanted: Sequence[str], most: int, *, thorough: bool
) -> Iterator[JsonObject]:
    """The entries of some kinds, `most` or more of each if there are as many."""
    context = context_of(workspace)
    with context.store.reading() as reader:
        silent = stamp(context.clock() - SILENT_AFTER)
        if not {"failed", "blocked", "silent", "untaken"}.isdisjoint(wanted):
            yield from _tasks(reader, silent, most, wanted)
        if "question" in wanted:
            yield from _questions(reader, most)
        rows = reader.gates(open_only=True)
        for name, is_human in (("gate", True), ("failed_gate", False)):
            own = (row for row in rows if (row.field == "blockers") is is_human)
            yield from _gates(reader, islice(own, most)) if name in wanted else ()
        has_runs = any(True for _ in reader.heads(RUN_STREAM))  # else relays needn't be loaded
    if has_runs and "run" in wanted:
        yield from _runs(workspace, {row.address for row in rows})
    if thorough and not {"damage", "fork", "changed_files"}.isdisjoint(wanted):
        yield from _findings(workspace, most)


_ORDER = (
    *("damage", "gate", "question", "failed_gate", "run", "failed", "blocked", "fork"),
    *("changed_files", "silent", "untaken"),
)
"""The kinds of entries, the most urgent first."""


def _entry(
    kind: str, task: str, title: str, at: str, *next: str, address: str = "", **rest: str
) -> JsonObject:
    found = {"kind": kind, "task": task, "address": address or task, "title": title}
    return {**found, "detail": "", "agent": "", **rest, "at": at, "next": list(next)}


def _gates(reader: Reader, rows: Iterable[ItemRow]) -> Iterator[JsonObject]:
    for gate in gates_of(reader, rows):
        given = {"address": gate.address, "agent": gate.agent}
        if gate.kind == "human":
            detail, answers = gate.impact or gate.suggested_resolution, ("approve", "reject")
            if gate.status == "rejected":
                detail, answers = f"rejected by {gate.answered_by}: {gate.reason}", ("approve",)
            title = gate.blocker or gate.name
            yield _entry("gate", gate.task, title, gate.at, *answers, detail=detail, **given)
        else:
            title = f"{gate.name} failed"
            yield _entry(
                "failed_gate", gate.task, title, gate.at, "hand_off", detail=gate.detail, **given
            )


def _tasks(reader: Reader, silent: str, most: int, wanted: Sequence[str]) -> Iterator[JsonObject]:
    """Tasks that are blocked or have failed, whose agent is silent, or that nobody has taken."""
    for row in reader.unsettled_tasks(most + 1):  # one of them may be no task
        claimed, status = row.header.get("claimed_by", ""), row.status
        kind = status if status != "open" else "silent" if claimed else "untaken"
        if row.task == WORKSPACE_TASK or kind not in wanted:
            continue
        title, at = row.details["title"], row.header["updated_at"]
        if kind == "blocked":
            yield from _blockers(reader, row)
        elif kind == "failed":
            yield _entry(kind, row.task, title, at, "hand_off", agent=row.holder)
        elif kind == "untaken":
            waits = reader.inbox_of_task(row.task)
            given = {
                "agent": waits.agent if waits else "",
                "detail": f"from {row.header['source_agent']}",
            }
            yield _entry(kind, row.task, title, at, "hand_off", **given)
        elif at < silent:
            yield _entry(kind, row.task, title, at, "update_task", "hand_off", agent=claimed)


def _blockers(reader: Reader, row: TaskRow) -> Iterator[JsonObject]:
    """An entry for each blocker of a task, its own or another task's."""
    title, at = row.details["title"], row.header["updated_at"]
    sources = [link.source for link in reader.open_links_to(row.task) if link.relation == "blocks"]
    sources += [item.address for item in reader.open_items(row.task, ("b",))]
    for source in dict.fromkeys(sources):
        task, _, rest = source.partition("#")
        item = reader.item(task, rest[:1], int(rest[1:] or 0)) if rest else None
        detail = item.title if item else ""
        # What waits for a person is settled by its gate, which has an entry of its own.
        settled_by = () if item and is_gated(reader, item) else ("set_status",)
        yield _entry(
            *("blocked", row.task, title, at, *settled_by),
            address=source,
            detail=detail,
            agent=row.holder,
        )
    if not sources:
        yield _entry("blocked", row.task, title, at, "hand_off", agent=row.holder)


def _questions(reader: Reader, limit: int) -> Iterator[JsonObject]:
    for row in reader.open_questions(limit):
        for _, found in item_documents(reader, row.task, [row]):
            yield _entry(
                *("question", row.task, found["question"], found["at"], "set_status"),
                address=row.address,
                agent=found["agent"],
            )


def _runs(workspace: Workspace, gates: set[str]) -> Iterator[JsonObject]:
    """Runs that wait for a person or have stopped early, unless a gate that is listed says so."""
    latest: set[str] = set()
    for run in workspace.relay.runs().items:
        is_last = run["task"] not in latest
        latest.add(run["task"])
        waits_for_gate = any(word in gates for step in run["next"] for word in step.split())
        if run["status"] in ("running", "completed") or waits_for_gate or not is_last:
            continue
        following = ("relay.answer", "relay.stop") if run["asked"] else ("relay.stop",)
        yield _entry(
            "run",
            run["task"],
            f"{run['relay']} {run['status']}",
            run["ended_at"] or run["started_at"],
            *(() if run["ended_at"] else following),
            address=run["run"],
            detail=run["why"],
            agent=run["leg"],
        )


def _findings(workspace: Workspace, most: int) -> Iterator[JsonObject]:
    """What verify and audit find. Damage has no age: nothing says when it happened."""
    for finding in islice(workspace.verify().findings, most):
        yield _entry("damage", "", finding.message, "", "verify", detail=finding.path)
    try:
        audit = workspace.knowledge.audit(limit=most)
    except PassdownError:
        return  # damage is listed above
    for fork in audit.forked:
        successors = ", ".join(fork["superseded_by"])
        yield _about(
            workspace, "fork", fork["item"], f"replaced by {successors}; supersede all but one"
        )
    for stale in audit.stale:
        yield _about(workspace, "changed_files", stale["item"], ", ".join(stale["files"]))


def _about(workspace: Workspace, kind: str, address: str, detail: str) -> JsonObject:
    """An entry about an item, with its text and age."""
    item = workspace.show(address).to_dict()
    title = next(
        (item[name] for name in ("summary", "pattern", "issue", "text") if name in item), ""
    )
    given = {"address": address, "agent": item["agent"], "detail": detail}
    return _entry(kind, address.partition("#")[0], title or address, item["at"], **given)

"""Decisions as programs use them: stored under a key of agent and time, gathered for a handoff."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.errors import KeyReused, NotFound, unknown_task
from passdown.model.bodies import decision_from_body
from passdown.model.handoff import Decision, HandoffContext, as_plain
from passdown.model.kinds import WORKSPACE_TASK, stream_of
from passdown.model.times import parse_time
from passdown.recall.state import documents, mark_superseded
from passdown.workspace.noting import add_entry

if TYPE_CHECKING:
    from passdown.workspace.opened import Held, Opened

_TRIES = 1_000


def store_decision(opened: Opened, decision: Decision, task: str | None) -> str:
    """Record a decision; its key names agent and time, and a number where those are taken."""
    return _store(opened, plain_decision(decision), task)


def plain_decision(decision: Decision) -> dict[str, Any]:
    """A decision as plain data; raises TypeError for anything else."""
    if not isinstance(decision, Decision):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"expected a Decision, not {type(decision).__name__}")
    return as_plain(decision)


def store_plain(workspace: Held, entry: dict[str, Any], task: str | None) -> str:
    """The same as `Workspace.store_decision`, of a decision that is plain data already."""
    return _store(workspace._opened, entry, task)  # pyright: ignore[reportPrivateUsage]


def _store(opened: Opened, given: dict[str, Any], task: str | None) -> str:
    agent, at = given.get("agent", ""), given.get("at") or as_plain(opened.clock())
    entry = {**given, "at": at}
    base = f"decision-{agent}-{at}"
    for number in range(1, _TRIES):
        key = base if number == 1 else f"{base}-{number}"
        try:
            add_entry(opened, "decision", task, agent, entry, key=key)
        except KeyReused:
            continue
        return key
    raise KeyReused(f"{_TRIES} decisions share the key {base}", next_step="Give them times.")


def stored_decision(opened: Opened, key: str, task: str | None) -> Decision:
    """The decision under a key, equal to the one that was stored."""
    stream = stream_of(task or WORKSPACE_TASK)
    with opened.store.reading() as reader:
        record = reader.record_by_key(stream, key)
    if record is None or record.kind != "decided":
        raise NotFound(f"there is no decision under {key[:140]!r}", next_step="Check the key.")
    return decision_from_body(record.document()["decisions"][0])


def handoff_context(opened: Opened, task: str, agent: str, since: int) -> HandoffContext:
    """The latest handoff of a task: who, to whom, the decisions of the sender or of `agent`, what
    to look up; of what came after the version `since`.
    """
    with opened.store.reading() as reader:
        row = reader.task(task)
        if row is None:
            raise unknown_task(task)
        items = documents(reader, task, reader.items_since(task, since))
        mark_superseded(reader, task, [d for letter, d in items if letter == "d"])
    sender = row.header["source_agent"] or row.holder
    decisions = [d for letter, d in items if letter == "d" and d["agent"] == (agent or sender)]
    live = [d for d in decisions if d["status"] in ("accepted", "proposed")]
    refs = [d["address"] for letter, d in items if letter in "pgqbn" and d["status"] in _LIVE]
    return HandoffContext(
        source=sender,
        target=row.header["target_agent"],
        at=parse_time(row.header["handoff_at"] or row.header["updated_at"]),
        decisions=tuple(decision_from_body(d) for d in live),
        memory_refs=(*(d["address"] for d in live), *refs),
        metadata={"task": task, "version": row.version, "digest": row.digest},
    )


_LIVE = ("open", "active")

"""Record tasks, decisions, patterns, gotchas, warnings, gate results, marks and relations."""

from __future__ import annotations

import os
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, TypeVar, cast

from passdown import tracing
from passdown.core import graph
from passdown.core.handoff import Decision, HandoffContext
from passdown.core.intake import as_error, check_entry, check_task
from passdown.core.items import fingerprint
from passdown.core.kinds import WORKSPACE_TASK, parse_address, stream_of
from passdown.core.names import agent_problems, id_problems, key_problems
from passdown.core.record import canonical_bytes, digest_bytes
from passdown.core.redaction import removal_message
from passdown.core.results import Receipt
from passdown.core.schema import as_plain, value_of
from passdown.core.text import text_problems
from passdown.core.times import parse_time
from passdown.core.types import Person
from passdown.errors import (
    GateRefused,
    InvalidInput,
    KeyReused,
    NotFound,
    Problem,
    StoreUnavailable,
    raise_problems,
)
from passdown.history.state import item_documents, mark_superseded
from passdown.ledger import gates
from passdown.ledger.durable_files import with_retries
from passdown.ledger.writer import Entry
from passdown.search.existing import memory_warnings
from passdown.store.statements import Reader
from passdown.workspace.context import Context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from passdown.core.fold import TaskBefore
    from passdown.core.record import Record
    from passdown.ledger.writer import Guard

    _Seen = tuple[tuple[str, ...], graph.Edge | None]


REFUSED = "refused; nothing was changed"
_WORKSPACE_AUTHOR = "passdown"
"""One fixed author: two agents may need that task at once and must write the same record."""


def create_task(
    context: Context,
    task: str | None = None,
    *,
    title: str,
    agent: str,
    key: str | None = None,
    **fields: Any,
) -> Receipt:
    """Create a task; it may depend on tasks that come later, but not in a cycle.

    Args:
        task: The id of the new task; made from the title where it is left out.
        title: What it is about.
        agent: Who creates it, and holds it first.
        **fields: description, inputs, outputs, criteria, depends_on, phase, time_limit_minutes.
    """
    task = new_id(title, key) if task is None else task
    phases = context.settings.phases
    given = {"phase": phases[0], **fields, "task": task, "title": title, "agent": agent}
    checked, problems = check_task(given, phases)
    problems += _envelope_problems(None, None, key)
    if given["task"] == WORKSPACE_TASK and agent != _WORKSPACE_AUTHOR:
        message = "what concerns all work is recorded there"
        problems.append(Problem("task", "reserved", message, "another id"))
    _refuse(problems)
    name, agent = checked.pop("task"), checked.pop("agent")

    def problems_of(reader: Reader, body: dict[str, Any]) -> list[Problem]:
        return gates.cycle_problems(reader, name, body["depends_on"])

    key = key or "created-" + digest_bytes(canonical_bytes([agent, checked]))
    entry = Entry(name, "task_created", agent, checked, key)
    warnings = [p for p in problems if p.level == "warning"]
    with context.store.reading() as reader:
        for need in checked["depends_on"]:
            if reader.head(stream_of(need)) is None:
                message = f"{need} does not exist yet"
                warnings.append(Problem("depends_on", "unknown_task", message, level="warning"))
    return write_entry(context, entry, gates.entry_guard(problems_of), warnings)


_ID_WORDS, _ID_LENGTH = 3, 24


def new_id(title: object, key: str | None = None) -> str:
    """An id for a task: words of its title, and an ending that no other clone of the repository
    comes upon. The same key gives the same one.
    """
    import re

    words = re.findall(r"[a-z0-9]+", str(title).casefold())[:_ID_WORDS]
    begin = "-".join(words)[:_ID_LENGTH].strip("-") or "task"
    number = os.urandom(5)
    if key:
        from uuid import NAMESPACE_OID, uuid5

        number = uuid5(NAMESPACE_OID, f"{title}\0{key}").bytes[:5]
    letters = "abcdefghjkmnpqrstuvwxyz23456789"
    ending = "".join(letters[byte % len(letters)] for byte in number)
    return f"{begin}-{ending}"


def update_task(
    context: Context,
    task: str,
    *,
    agent: str,
    expect_version: int | None = None,
    key: str | None = None,
    holder: str | None = None,
    take: bool = False,
    **fields: Any,
) -> Receipt:
    """Change a task's title, description, dependencies or status, or who works on it.

    Args:
        agent: Who changes it.
        holder: Who works on it from now on, until the next handoff; empty for nobody. Refused if
            somebody else does, or if the task waits for another one that it needs. Who works on
            it already is not recorded again.
        take: Take it from whoever works on it.
        **fields: As of `create_task`, but for phase; and status (open, cancelled).
    """
    status = fields.pop("status", None)
    whole = {"title": "unchanged", **fields, "task": task, "agent": agent}
    checked, problems = check_task(whole)
    # A task has no place for fields that nobody knows; a change of phase is a handoff.
    problems = [as_error(problem) for problem in problems]
    problems += _envelope_problems(None, None, key, expect_version)
    if status is not None and status not in ("open", "cancelled"):
        problems.append(Problem("status", "invalid_choice", f"{status!r}", "open | cancelled"))
    if "phase" in fields:
        problems.append(Problem("phase", "not_here", "moves with a handoff", "hand_off"))
    problems += agent_problems(holder, "holder") if holder else []
    _refuse(problems)
    body = {name: checked[name] for name in fields}
    body |= {} if status is None else {"status": status}
    body |= {} if holder is None else {"holder": holder}
    if not body:
        raise InvalidInput(REFUSED, [Problem("", "required", "no change is named", "a field")])

    if holder and len(body) == 1 and key is None and expect_version is None:
        with context.store.reading() as reader:
            row = reader.existing_task(task)
        if row.header.get("claimed_by") == holder and row.status == "open":
            return Receipt(task, row.version, row.digest, is_replay=True)
    warnings: list[Problem] = []

    def problems_of(reader: Reader, given: dict[str, Any]) -> list[Problem]:
        found = gates.cycle_problems(reader, task, given.get("depends_on", ()))
        if holder is not None:
            found += gates.claim_problems(reader, task, holder, agent, take=take)
        warnings[:] = [problem for problem in found if problem.level == "warning"]
        return [problem for problem in found if problem.level == "error"]

    entry = Entry(task, "task_changed", agent, body, key or "", expect_version)
    return write_entry(context, entry, gates.entry_guard(problems_of), warnings)


def decide(
    context: Context,
    *,
    agent: str,
    summary: str,
    rationale: str,
    task: str | None = None,
    key: str | None = None,
    expect_version: int | None = None,
    **fields: Any,
) -> Receipt:
    """Record one decision and why.

    Args:
        agent: Who decided.
        summary: What was decided.
        rationale: Why.
        task: The task that it belongs to; without one it concerns all work.
        **fields: alternatives, artifacts, paths, tags, status, supersedes, at.
    """
    entry = {**fields, "summary": summary, "rationale": rationale}
    return add_entry(
        context, "decision", task, agent, entry, key=key, expect_version=expect_version
    )


NOTE_KINDS = ("pattern", "gotcha", "fact")


def note(
    context: Context,
    kind: str,
    *,
    agent: str,
    task: str | None = None,
    key: str | None = None,
    **fields: Any,
) -> Receipt:
    """Record something learned.

    Args:
        kind: pattern (with pattern, location, applies_to) or gotcha (issue, mitigation, severity,
            discovered_in) or fact (name, value, status, source; a value of None withdraws it).
        agent: Who learned it.
        task: The task that it belongs to; without one it concerns all work.
        **fields: The fields of its kind.
    """
    if kind not in NOTE_KINDS:
        problem = Problem("kind", "invalid_choice", f"{str(kind)[:40]!r}", " | ".join(NOTE_KINDS))
        raise InvalidInput("nothing was changed", [problem])
    return add_entry(context, kind, task, agent, fields, key=key)


def warn(context: Context, task: str, *, agent: str, text: str, key: str | None = None) -> Receipt:
    """Record a warning that stays with the task.

    Args:
        agent: Who warns.
        text: The warning.
    """
    return add_entry(context, "warning", task, agent, {"text": text}, key=key)


def record_gate(
    context: Context,
    task: str,
    *,
    agent: str,
    name: str,
    passed: bool,
    detail: str = "",
    key: str | None = None,
) -> Receipt:
    """Record the result of a quality gate.

    Args:
        agent: Who ran it.
        name: The name of the gate.
        passed: Whether it passed.
        detail: What it reported.
    """
    entry = {"name": name, "result": "passed" if passed else "failed", "detail": detail}
    return add_entry(context, "gate", task, agent, entry, key=key)


def add_entry(
    context: Context,
    kind: str,
    task: str | None,
    agent: str,
    entry: dict[str, Any],
    *,
    key: str | None = None,
    expect_version: int | None = None,
    may_change: Sequence[str] = (),
) -> Receipt:
    """Record one decision, pattern, gotcha, fact, warning or gate result; without a task, for
    all work. An edit of a file in `may_change` doesn't make it stale.
    """
    problems = _envelope_problems(task, agent, key, expect_version)
    record, field = _ENTRIES[kind]
    checked: Any = entry
    if kind == "warning":
        problems += text_problems(entry["text"], "text")
        checked = entry["text"]
    else:
        checked, found = check_entry(kind, entry)
        problems += found
    _refuse(problems)
    if field in ("patterns", "gotchas") and not checked["id"]:
        checked["id"] = f"{kind}-{fingerprint(checked)[:8]}"
    if isinstance(checked, dict):
        fields = cast("dict[str, Any]", checked)
        checked = {k: v for k, v in fields.items() if v not in (None, "", [])}
    body: dict[str, Any] = {field: [checked]}
    _refuse(context.files.unnamed(body))
    is_own_key = key is not None
    if key is None and kind != "gate" and expect_version is None:
        # The same words of the same agent are the same record.
        key = "content-" + digest_bytes(canonical_bytes([agent, body])).removeprefix("sha256:")
    guard = gates.entry_guard(gates.supersede_problems) if kind == "decision" else None
    warnings = [p for p in problems if p.level == "warning"]
    if task in (None, "", WORKSPACE_TASK):
        task = workspace_task(context, agent, body)
    hashed = context.with_hashes(body, may_change)
    written = Entry(task, record, agent, hashed, key or "", expect_version)
    known = memory_warnings(context.store, body)
    receipt = write_entry(context, written, guard, warnings)
    if not receipt.is_replay:
        return receipt._replace(warnings=(*receipt.warnings, *known))
    with context.store.reading() as reader:
        rows = reader.items_at(receipt.task, receipt.version)
    if not is_own_key and any(row.status in _TAKEN_BACK for row in rows):
        # Said again after it was taken back: that is news, not a repeat.
        return write_entry(context, written._replace(key=""), guard, warnings)
    return receipt


_TAKEN_BACK = ("retracted", "reverted", "superseded", "withdrawn")
_ENTRIES = {
    "decision": ("decided", "decisions"),
    "pattern": ("noted", "patterns"),
    "gotcha": ("noted", "gotchas"),
    "fact": ("noted", "facts"),
    "warning": ("warned", "warnings"),
    "gate": ("gate_recorded", "gates"),
}


def set_status(
    context: Context,
    item: str,
    status: str,
    *,
    agent: str,
    reason: str = "",
    key: str | None = None,
) -> Receipt:
    """Give an item another status.

    Args:
        item: The address of the item, such as T-1#b2.
        status: Of a blocker resolved, of a question answered, of a next step done, of a decision
            accepted or reverted, of a pattern, gotcha or warning retracted, of a fact
            verified, assumed, open or withdrawn.
        agent: Who changes it.
    """
    address = parse_address(item)
    if address is None:
        given = f"{str(item)[:60]!r} is no address"
        problem = Problem("item", "invalid_address", given, "an address like T-1#b2")
        raise InvalidInput(REFUSED, [problem])
    checked, problems = check_entry("mark", {"item": item, "status": status, "reason": reason})
    _refuse([*_envelope_problems(address.task, agent, key), *problems])
    body = {"marks": [{k: v for k, v in checked.items() if v}]}
    entry = Entry(address.task, "marked", agent, body, key or "")
    return write_entry(context, entry, gates.entry_guard(gates.mark_problems), [])


def approve(
    context: Context, gate: str, *, by: Person, reason: str = "", key: str | None = None
) -> Receipt:
    """Approve a human gate: the task may go on. A gate that was rejected can be approved later.

    Args:
        by: The person who approves.
    """
    return _answer_gate(context, gate, "approved", by, reason, key=key)


def reject(
    context: Context, gate: str, *, by: Person, reason: str, key: str | None = None
) -> Receipt:
    """Reject a human gate; the task has to be handed off again. The blocker stays open until a
    person approves the gate, or the one that it opens when it is listed again.

    Args:
        by: The person who rejects.
    """
    return _answer_gate(context, gate, "rejected", by, reason, key=key)


def _answer_gate(
    context: Context, gate: str, answer: str, by: str, reason: str, *, key: str | None = None
) -> Receipt:
    """A person's answer to a human gate. Who and when are fields of the record, never of a text."""
    address = parse_address(gate)
    if address is None or address.letter != "k":
        raise NotFound(
            f"there is no gate {gate[:140]!r}", next_step="List them with: passdown gate list"
        )
    problems = agent_problems(by, "by")
    problems += text_problems(reason, "reason", required=answer == "rejected")
    _refuse([*problems, *_envelope_problems(None, None, key)])
    body: dict[str, Any] = {"gate": gate, "answer": answer, "by": by, "reason": reason}
    if answer == "rejected":
        body["stays"] = True  # until a person settles it; before, the next handoff closed it

    def guard(reader: Reader, before: TaskBefore, given: dict[str, Any]) -> None:
        row = reader.item(*address)
        if row is None or row.field != "blockers":
            raise NotFound(f"there is no gate {gate}", next_step="passdown gate list shows them")
        if row.status not in (("pending", "rejected") if answer == "approved" else ("pending",)):
            problem = Problem(gate, "answered", f"is {row.status} already", "a pending gate")
            raise GateRefused("the gate is not waiting; nothing was changed", [problem])

    entry = Entry(address.task, "gate_answered", by, body, key or "")
    return write_entry(context, entry, guard, [])


def workspace_task(context: Context, agent: str, body: dict[str, Any]) -> str:
    """The task that holds what concerns all work; made for the first entry that can be written."""
    with context.store.reading() as reader:
        _refuse(gates.supersede_problems(reader, body))
        if reader.head(stream_of(WORKSPACE_TASK)) is not None:
            return WORKSPACE_TASK
    title = "What concerns all work"
    create_task(context, WORKSPACE_TASK, title=title, agent=_WORKSPACE_AUTHOR, key="workspace")
    return WORKSPACE_TASK


def _envelope_problems(
    task: str | None, agent: str | None, key: str | None, version: object = None
) -> list[Problem]:
    """What is wrong with what every entry has; None is looked at elsewhere, or left out."""
    problems = id_problems(task, "task") if task is not None else []
    problems += agent_problems(agent, "agent") if agent is not None else []
    if isinstance(version, bool) or not isinstance(version, int | None):
        message = f"{type(version).__name__} given"
        problems.append(Problem("expect_version", "wrong_type", message, "a version number"))
    return problems + (key_problems(key) if key is not None else [])


def _refuse(problems: list[Problem]) -> None:
    """Raises InvalidInput if there is any error; unknown fields are listed too, a slip is often
    the cause.
    """
    if any(problem.level == "error" for problem in problems):
        listed = [p for p in problems if p.level == "error" or p.code == "unknown_field"]
        raise InvalidInput(REFUSED, listed, next_step="Fix these and try again.")


def write_entry(
    context: Context, entry: Entry, guard: Guard | None, warnings: list[Problem]
) -> Receipt:
    """Append an entry, mirror the task's state, and answer with the items that it added. Without a
    key, it is never a repeat.
    """
    entry = entry._replace(key=entry.key or os.urandom(16).hex())
    with _memory_span(context, entry):
        written = context.ledger.append(entry, guard)
    for kind in written.redacted:
        message = removal_message(kind)
        warnings.append(Problem("", "redacted", message, level="warning"))
    warnings += context.mirror(written)
    return Receipt(
        task=entry.task,
        version=written.record.position,
        digest=written.record.digest,
        items=tuple(row.address for row in sorted(written.added, key=attrgetter(*_NUMBER))),
        is_replay=written.is_replay,
        warnings=tuple(warnings),
    )


_MEMORY = {"decided": "create_memory", "noted": "create_memory", "marked": "update_memory"}
"""What the conventions for spans call the records that are kept for others to find."""


def _memory_span(context: Context, entry: Entry) -> tracing.Span:
    if entry.kind not in _MEMORY or not tracing.is_on():
        return tracing.NO_SPAN
    marks = entry.body.get("marks", ())
    lists = (entry.body.get(name, ()) for name in ("decisions", "patterns", "gotchas", "facts"))
    attributes = {"gen_ai.memory.record.count": len(marks) or sum(map(len, lists))}
    about = {"gen_ai.memory.record.id": marks[0]["item"]} if len(marks) == 1 else {}
    return tracing.memory(_MEMORY[entry.kind], context.store_label, {**attributes, **about})


_NUMBER = ("letter", "ordinal")
_TRIES = 1_000


def store_decision(context: Context, decision: Decision, task: str | None = None) -> str:
    """Record a decision value and give the key, of agent and time, that finds it again.

    Args:
        decision: The decision.
        task: The task that it belongs to; without one it concerns all work.
    """
    if not isinstance(decision, Decision):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"expected a Decision, not {type(decision).__name__}")
    entry = {**as_plain(decision), "at": as_plain(decision.at or context.clock())}
    base = f"decision-{decision.agent}-{entry['at']}"
    for number in range(1, _TRIES):
        key = base if number == 1 else f"{base}-{number}"
        try:
            add_entry(context, "decision", task, decision.agent, entry, key=key)
        except KeyReused:
            continue
        return key
    raise KeyReused(f"{_TRIES} decisions share the key {base}", next_step="Give them times.")


def get_decision(reader: Reader, key: str, task: str | None = None) -> Decision:
    """The decision that `decisions.store` recorded under a key.

    Args:
        key: What storing it gave.
        task: The task that it was stored with.
    """
    return value_of(Decision, _decided(reader, key, task).document()["decisions"][0])


def decision_address(reader: Reader, key: str, task: str | None = None) -> str:
    """The address of the decision that `decisions.store` recorded under a key.

    Args:
        key: What storing it gave.
        task: The task that it was stored with.
    """
    rows = reader.items_at(task or WORKSPACE_TASK, _decided(reader, key, task).position)
    return next(row.address for row in rows if row.letter == "d")


def _decided(reader: Reader, key: str, task: str | None) -> Record:
    record = reader.record_by_key(stream_of(task or WORKSPACE_TASK), key)
    if record is None or record.kind != "decided":
        raise NotFound(f"there is no decision under {key[:140]!r}", next_step="Check the key.")
    return record


def handoff_context(
    reader: Reader, task: str, *, agent: str = "", since: int = 0
) -> HandoffContext:
    """Who handed a task to whom, the sender's decisions, and what to look up.

    Args:
        agent: Whose decisions and handoff instead of the sender's.
        since: Only what came after this version.
    """
    row = reader.existing_task(task)
    items = item_documents(reader, task, reader.items_since(task, since))
    mark_superseded(reader, task, [d for letter, d in items if letter == "d"])
    sender = row.header["source_agent"] or row.holder
    decisions, refs = handed_items(items, agent or sender, agent)
    return HandoffContext(
        source=sender,
        target=row.header["target_agent"],
        at=parse_time(row.header["handoff_at"] or row.header["updated_at"]),
        decisions=decisions,
        memory_refs=refs,
        metadata={"task": task, "version": row.version, "digest": row.digest},
    )


_LIVE = ("open", "active", "verified", "assumed")


def handed_items(
    items: Iterable[tuple[str, dict[str, Any]]], decider: str, agent: str = ""
) -> tuple[tuple[Decision, ...], tuple[str, ...]]:
    """An agent's decisions that hold, and what to look up, of items with their letters.

    The references of the last handoff come first, or of the last one by `agent`.
    """
    found = list(items)
    decisions = [d for letter, d in found if letter == "d" and d["agent"] == decider]
    live = [d for d in decisions if d["status"] in ("accepted", "proposed")]
    refs = [d["address"] for letter, d in found if letter in "pgqbnf" and d["status"] in _LIVE]
    handed = [d for letter, d in found if letter == "h" and agent in ("", d["from_agent"])]
    named = max(handed, key=itemgetter("version")).get("memory_refs", ()) if handed else ()
    references = dict.fromkeys([*named, *(d["address"] for d in live), *refs])
    return tuple(value_of(Decision, d) for d in live), tuple(references)


T = TypeVar("T")


class _Changed(Exception):
    """Somebody wrote about the same nodes in the meantime."""


def relate(context: Context, source: str, relation: str, target: str, *, agent: str) -> bool:
    """Record that one node relates to another; False where that was known.

    A node that nobody has recorded becomes an insight of that name. What others write at the same
    moment is never replaced: neither a node by the bare name of an end, nor a relation by another
    one between the same nodes.

    Args:
        source: The id of a node.
        relation: Any word.
        target: The id of another node.
        agent: Who records it.
    """
    given = graph.Relation(source, relation, target)
    edge = graph.Edge(*graph.edge_key(given))
    problems = graph.relation_problems(relation)
    problems += graph.reserved_problems(graph.missing_nodes((source, target), ()), [edge])
    problems += graph.check_graph((), [edge], (source, target))
    raise_problems(REFUSED, problems, next_step="Fix these and try again.")
    seen: _Seen = ((), None)

    def guard(reader: Reader, before: TaskBefore, body: dict[str, Any]) -> None:
        if _seen(reader, given) != seen:
            raise _Changed

    while True:
        with context.store.reading() as reader:
            seen = _seen(reader, given)
        known, old = seen
        edge = graph.with_relation(old, given)
        if edge == old:
            return False
        news = graph.Graph(tuple(graph.missing_nodes((source, target), known)), (edge,))
        task = workspace_task(context, agent, {})
        entry = Entry(task, "learned", agent, graph.knowledge_body(news, (), ()), "")
        try:
            write_entry(context, entry, guard, [])
        except _Changed:
            continue  # another writer came first: every turn of the loop brings somebody further
        return True


def _seen(reader: Reader, relation: graph.Relation) -> _Seen:
    source, name, target = graph.edge_key(relation)
    known = tuple(n for n in (source, target) if reader.known_node(n) is not None)
    edges = reader.edges(source=source, relation=name, target=target)
    return (known, edges[0] if edges else None)


def with_store_retries(operation: str, action: Callable[[], T]) -> T:
    """Do something with the store that may be repeated; up to three times more while it refuses.

    The store can't tell a refusal that lasts from one of a moment, so both are waited for. Raises
    StoreUnavailable with the operation and the cause.
    """

    def once() -> T:
        try:
            return action()
        except StoreUnavailable as error:
            raise TimeoutError(error.message) from error

    return with_retries(operation, once)

"""What memories need of a workspace besides its methods: relations under any name, and patience."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, TypeVar

from passdown.errors import InvalidInput, NotFound, StoreUnavailable
from passdown.ledger import Entry
from passdown.ledger.durable_files import named_lock
from passdown.ledger.retrying import persistently
from passdown.model.graph import Edge, Graph, check_graph
from passdown.model.kinds import WORKSPACE_TASK, stream_of
from passdown.model.knowledge import learned_body, reserved_problems
from passdown.model.relations import edge_key, relation_problems, unlisted, with_relation
from passdown.workspace.noting import REFUSED, workspace_task, write_entry

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from passdown.model.fold import Before
    from passdown.model.relations import Relation
    from passdown.store.statements import Reader
    from passdown.workspace.opened import Held, Opened

    Seen = tuple[tuple[str, ...], Edge | None]

T = TypeVar("T")

__all__ = ["address_of_decision", "named_lock", "patiently", "relate"]


class _Moved(Exception):
    """Somebody wrote about the same nodes in the meantime."""


def relate(workspace: Held, relation: Relation, *, agent: str) -> bool:
    """Write down that one node bears on another; an end that nobody has written down becomes an
    insight of that name. False where it was known.

    What others write at the same moment is never replaced: neither a node by the bare name of an
    end, nor a relation by another one between the same nodes.
    """
    wire = workspace._wire  # pyright: ignore[reportPrivateUsage] - the door's other half
    if wire is not None:
        from passdown.workspace.remote.memories import RemoteMemories

        return RemoteMemories(wire).relate(relation, agent=agent)
    opened = workspace._opened  # pyright: ignore[reportPrivateUsage]
    problems = relation_problems(relation.relation)
    ends = unlisted((relation.source, relation.target), ())
    problems += reserved_problems(ends, [Edge(*edge_key(relation))])
    problems += check_graph((), [Edge(*edge_key(relation))], (relation.source, relation.target))
    if problems:
        raise InvalidInput(REFUSED, problems, next_step="Mend these and try again.")
    while True:
        with opened.store.reading() as reader:
            seen = _seen(reader, relation)
        known, old = seen
        edge = with_relation(old, relation)
        if edge == old:
            return False
        nodes = unlisted((relation.source, relation.target), known)
        try:
            _write(opened, Graph(tuple(nodes), (edge,)), relation, seen, agent)
        except _Moved:
            continue  # whoever came first has written: every turn brings somebody further
        return True


def _seen(reader: Reader, relation: Relation) -> Seen:
    source, name, target = edge_key(relation)
    known = tuple(n for n in (source, target) if reader.known_node(n) is not None)
    edges = reader.edges(source=source, relation=name, target=target)
    return (known, edges[0] if edges else None)


def _write(opened: Opened, news: Graph, relation: Relation, seen: Seen, agent: str) -> None:
    def guard(reader: Reader, before: Before, body: dict[str, Any]) -> None:
        if _seen(reader, relation) != seen:
            raise _Moved

    task = workspace_task(opened, agent, {})
    entry = Entry(task, "learned", agent, learned_body(news, (), ()), uuid.uuid4().hex)
    write_entry(opened, entry, guard, [])


def address_of_decision(workspace: Held, key: str, task: str | None) -> str:
    """The address of the decision that `store_decision` recorded under a key."""
    wire = workspace._wire  # pyright: ignore[reportPrivateUsage] - the door's other half
    if wire is not None:
        from passdown.workspace.remote.memories import RemoteMemories

        return RemoteMemories(wire).address_of_decision(key, task)
    opened = workspace._opened  # pyright: ignore[reportPrivateUsage]
    task = task or WORKSPACE_TASK
    with opened.store.reading() as reader:
        record = reader.record_by_key(stream_of(task), key)
        rows = reader.items_at(task, record.position) if record else []
    for row in rows:
        if row.letter == "d":
            return row.address
    raise NotFound(f"there is no decision under {key[:140]!r}", next_step="Check the key.")


def patiently(operation: str, action: Callable[[], T]) -> T:
    """Do something with the store that may be repeated; up to three times more while it refuses.

    The store can't tell a refusal that lasts from one of a moment, so both are waited for. Raises
    StoreUnavailable with the operation and the cause.
    """

    def once() -> T:
        try:
            return action()
        except StoreUnavailable as error:
            raise TimeoutError(error.message) from error

    return persistently(operation, once)

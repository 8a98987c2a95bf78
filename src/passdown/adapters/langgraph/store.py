"""LangGraph's long-term store in the ledger: items as records, found by meaning through recall.

Items stand in a stream of their own; what can be read of an item is also a node of the knowledge
graph, so that `recall` finds it for everybody. Nothing is deleted: an item that is put as None is
hidden by a record.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from threading import RLock
from typing import TYPE_CHECKING, cast

from passdown.errors import InvalidInput, MissingExtra, NotFound, Problem

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        PutOp,
        SearchItem,
        SearchOp,
        validate_op_namespace,
    )
except ImportError as error:
    raise MissingExtra(
        "the package langgraph is not installed",
        next_step="Install it: pip install 'passdown[langgraph]'",
    ) from error

from passdown.adapters.langgraph.store_items import (
    Items,
    Stored,
    matches,
    name_hash,
    namespaces_of,
    put_rows,
    search_text,
)
from passdown.adapters.states.handing import workspace_of
from passdown.model.found_rows import NODE_PREFIX
from passdown.model.graph import MAX_VALUE, Node, summary_line
from passdown.model.names import agent_problems, id_problems
from passdown.workspace.beside import Aside, Beside

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langgraph.store.base import Op, Result

    from passdown.adapters.states.handing import AnyWorkspace

KIND = "store_items"
_MOST = 1_000
_DEEPEST = 8
"""How many labels of a namespace have tags; below, answers are looked through."""


class RecallStore(BaseStore):
    """A store of LangGraph in a workspace. Threads, tasks and processes may share it.

    Values are plain JSON; secrets of known shapes are removed from them. Items never expire.
    """

    supports_ttl = False

    def __init__(
        self, workspace: AnyWorkspace, *, name: str = "langgraph", agent: str = "langgraph"
    ) -> None:
        """Stores of another `name` in the same workspace are apart; `agent` is who writes.

        Nothing is read yet. Raises InvalidInput for names that can't be.
        """
        problems = [*id_problems(name, "name"), *agent_problems(agent, "agent")]
        if problems:
            raise InvalidInput("the store can't be opened", problems)
        self._workspace = workspace_of(workspace)
        self._beside = Beside(self._workspace)
        self._stream = f"store/{name}"
        self._tag = f"store-{name}"
        self._agent = agent
        self._items = Items(name)
        self._lock = RLock()
        self._is_findable = False

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do several things at once: what is asked is answered from before, what is put is one
        record. Raises InvalidInput, having changed nothing.
        """
        listed = list(ops)
        puts = self._checked(listed)
        with self._lock:
            self._refresh()
            results: list[Result] = [self._answer(op) for op in listed]
            if puts:
                self._put(puts)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """`batch`, in a thread."""
        return await asyncio.to_thread(self.batch, [*ops])

    def _checked(self, ops: list[Op]) -> list[PutOp]:
        problems: list[Problem] = []
        puts: dict[tuple[tuple[str, ...], str], PutOp] = {}
        for number, op in enumerate(ops):
            validate_op_namespace(op)
            if isinstance(op, PutOp):
                puts[op.namespace, op.key] = op
                if op.ttl is not None:
                    expected = "no ttl: nothing expires in a ledger"
                    problems.append(Problem(f"ops[{number}].ttl", "unsupported", "", expected))
            elif not isinstance(cast("object", op), GetOp | SearchOp | ListNamespacesOp):
                name = type(op).__name__
                problems.append(Problem(f"ops[{number}]", "wrong_type", name, "an operation"))
        if problems:
            raise InvalidInput("refused; nothing was changed", problems)
        return [*puts.values()]

    def _answer(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            stored = self._items.get(op.namespace, op.key)
            return _item(stored) if stored else None
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, ListNamespacesOp):
            return namespaces_of(self._items, op)
        return None

    def _search(self, op: SearchOp) -> list[SearchItem]:
        passing = [
            stored
            for stored in self._items.under(op.namespace_prefix)
            if not op.filter or matches(stored.value(), op.filter)
        ]
        if op.query:
            return self._nearest(op, passing)
        return [_found(stored) for stored in passing[op.offset : op.offset + op.limit]]

    def _nearest(self, op: SearchOp, passing: Sequence[Stored]) -> list[SearchItem]:
        """What recall finds among the items that pass, then those that have nothing to read."""
        self._make_findable()
        wanted = {stored.node: stored for stored in passing}
        tag = self._tags(op.namespace_prefix)[-1]
        enough = min(op.offset + op.limit, len(wanted))
        limit = max(1, enough)
        while True:
            answers = self._workspace.recall(
                op.query or "", kinds=["knowledge"], tags=[tag], limit=min(limit, _MOST)
            )
            scores = {answer.address.removeprefix(NODE_PREFIX): answer.score for answer in answers}
            found = [(wanted[node], score) for node, score in scores.items() if node in wanted]
            if len(found) >= enough or len(answers) < limit or limit >= _MOST:
                break
            limit *= 2  # items that don't pass are found too
        results = [_found(stored, min(1.0, max(0.0, score))) for stored, score in found]
        results += [_found(stored) for node, stored in wanted.items() if node not in scores]
        return results[op.offset : op.offset + op.limit]

    def _put(self, puts: list[PutOp]) -> None:
        aside = Aside(self._stream, KIND, self._agent, put_rows(puts))
        self._beside.add(aside)
        self._refresh()
        stored = [self._items.get(op.namespace, op.key) for op in puts]
        nodes = [node for each in stored if (node := self._node(each))]
        names = {self._items.node(op.namespace, op.key) for op in puts}
        self._learn(nodes, names.difference(node.id for node in nodes))

    def _refresh(self) -> None:
        for record in self._beside.records(self._stream, after=self._items.position):
            self._items.apply(record.position, record.at, record.document())

    def _make_findable(self) -> None:
        """Bring the nodes up to the items once: a process may have ended between the two."""
        if not self._is_findable:
            graph = self._workspace.graph(tags=[self._tag])
            theirs = {node.id for node in graph.nodes if self._tag in node.tags}
            nodes = [node for each in self._items.under(()) if (node := self._node(each))]
            self._learn(nodes, theirs.difference(node.id for node in nodes))
            self._is_findable = True

    def _node(self, stored: Stored | None) -> Node | None:
        """An item as a node; None where there is nothing to read."""
        text = search_text(stored)[:MAX_VALUE].strip() if stored else ""
        if stored is None or not text:
            return None
        summary = summary_line(text)
        tags = self._tags(stored.namespace)
        return Node(stored.node, "insight", summary, tags, {"description": text})

    def _tags(self, namespace: tuple[str, ...]) -> tuple[str, ...]:
        """The tags of a namespace: of the store, then of each namespace that it is within, by which
        a question is asked within one.
        """
        depths = range(1, min(len(namespace), _DEEPEST) + 1)
        return (self._tag, *(f"{self._tag}-{name_hash(namespace[:depth])}" for depth in depths))

    def _is_known(self, node: str) -> bool:
        try:
            return bool(self._workspace.graph(around=[node], depth=0).nodes)
        except NotFound:
            return False

    def _learn(self, nodes: list[Node], gone: set[str]) -> None:
        """Write nodes down. The items are recorded by now, so what can't be a node is passed over:
        it is found by everything but a question.
        """
        forget = sorted(node for node in gone if self._is_known(node))
        if not nodes and not forget:
            return
        try:
            self._workspace.learn(nodes, agent=self._agent, forget_nodes=forget)
        except InvalidInput:
            if len(nodes) + len(forget) > 1:
                for node in nodes:
                    self._learn([node], set())
                for name in forget:
                    self._learn([], {name})


def _item(stored: Stored) -> Item:
    return Item(
        value=stored.value(),
        key=stored.key,
        namespace=stored.namespace,
        created_at=datetime.fromisoformat(stored.created_at),
        updated_at=datetime.fromisoformat(stored.updated_at),
    )


def _found(stored: Stored, score: float | None = None) -> SearchItem:
    return SearchItem(
        namespace=stored.namespace,
        key=stored.key,
        value=stored.value(),
        created_at=datetime.fromisoformat(stored.created_at),
        updated_at=datetime.fromisoformat(stored.updated_at),
        score=score,
    )

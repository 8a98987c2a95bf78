"""LangGraph's long-term store in the ledger: items as records, found by meaning through recall.

Items are a stream; the readable text of an item is also a node of the knowledge graph, so `recall`
finds it too. Nothing is deleted: putting None records that the item is hidden.
"""

from __future__ import annotations

import hashlib
import json
import operator
from datetime import datetime
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    PutOp,
    SearchItem,
    SearchOp,
    get_text_at_path,
    tokenize_path,
    validate_op_namespace,
)

from passdown.adapters.shared import async_twin
from passdown.core.graph import MAX_VALUE, Node, summary_line
from passdown.core.names import agent_problems, id_problems
from passdown.core.redaction import redact
from passdown.core.rows import NODE_PREFIX
from passdown.errors import InvalidInput, NotFound, Problem, raise_problems
from passdown.tools.briefs import recording_workspace
from passdown.workspace.streams import StreamEntry, WorkspaceStreams

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from langgraph.store.base import MatchCondition, Op, Result

    from passdown.tools.briefs import AnyWorkspace

    Namespace = tuple[str, ...]


_REFUSED = "refused; nothing was changed"
KIND = "store_items"
_MOST = 1_000
_DEEPEST = 8
"""How many labels of a namespace have tags; below, answers are looked through."""


class StoredItem(NamedTuple):
    """A stored item; its value is kept as text, so that callers can't change it."""

    namespace: Namespace
    key: str
    node: str
    text: str
    paths: list[str] | bool
    created_at: str
    updated_at: str

    def value(self) -> dict[str, Any]:
        """The value, new at each call."""
        return json.loads(self.text)

    def fields(self) -> dict[str, Any]:
        """What LangGraph's items are made of."""
        return {
            "namespace": self.namespace,
            "key": self.key,
            "value": self.value(),
            "created_at": datetime.fromisoformat(self.created_at),
            "updated_at": datetime.fromisoformat(self.updated_at),
        }

    def found(self, score: float | None = None) -> SearchItem:
        """The item as a search gives it."""
        return SearchItem(**self.fields(), score=score)


def name_hash(name: object) -> str:
    """A name of several parts as 32 hex digits."""
    return hashlib.sha256(json.dumps(name).encode()).hexdigest()[:32]


def put_rows(puts: Sequence[PutOp]) -> dict[str, Any]:
    """The body of a record that puts or hides items; raises InvalidInput for what can't be."""
    problems: list[Problem] = []
    rows: list[dict[str, Any]] = []
    for number, op in enumerate(puts):
        where = f"puts[{number}]"
        if any(redact(name)[1] for name in (*op.namespace, op.key)):
            problems.append(Problem(where, "secret", "its name holds a secret", "a name"))
        value = cast("object", op.value)
        if value is not None and not isinstance(value, dict):
            name = type(value).__name__
            problems.append(Problem(f"{where}.value", "wrong_type", name, "a dict or None"))
        index = op.index if isinstance(op.index, list) else op.index is None
        rows.append(
            {"namespace": list(op.namespace), "key": op.key, "value": value, "index": index}
        )
    raise_problems(_REFUSED, problems)
    return {"items": rows}


def search_text(stored: StoredItem) -> str:
    """What can be read of an item, of all of it or of the paths that it is indexed by."""
    if isinstance(stored.paths, list):
        found = [
            text
            for path in stored.paths
            for text in get_text_at_path(stored.value(), tokenize_path(path))
        ]
        return "\n".join(found)
    return "\n".join(_lines(stored.value(), "")) if stored.paths else ""


def _lines(value: object, name: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in cast("dict[str, object]", value).items():
            yield from _lines(item, key)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _lines(item, name)
    elif value is not None and value != "":
        yield f"{name}: {value}" if name else str(value)


def matches_filter(value: object, wanted: object) -> bool:
    """Whether a value passes a filter: equal, equal in the parts that are named, or by operators.

    Raises InvalidInput for an operator that there isn't.
    """
    if isinstance(wanted, dict):
        parts = cast("dict[str, object]", wanted)
        if any(name.startswith("$") for name in parts):
            return all(_compares(value, name, other) for name, other in parts.items())
        if not isinstance(value, dict):
            return False
        held = cast("dict[str, object]", value)
        return all(matches_filter(held.get(name), part) for name, part in parts.items())
    if isinstance(wanted, list | tuple) and isinstance(value, list | tuple):
        one, other = cast("Sequence[object]", value), cast("Sequence[object]", wanted)
        return len(one) == len(other) and all(map(matches_filter, one, other))
    return value == wanted


_OPERATORS = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}


def _compares(value: object, name: str, other: object) -> bool:
    if name in ("$eq", "$ne"):
        return (value == other) is (name == "$eq")
    if name not in _OPERATORS:
        expected = "$eq, $ne, $gt, $gte, $lt or $lte"
        problem = Problem(f"filter.{name}", "invalid_choice", repr(name), expected)
        raise InvalidInput("the filter can't be used", [problem])
    try:
        return _OPERATORS[name](float(cast("float", value)), float(cast("float", other)))
    except (TypeError, ValueError):
        return False


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
        raise_problems("the store can't be opened", problems)
        self._workspace = recording_workspace(workspace, "RecallStore")
        self._streams = WorkspaceStreams(self._workspace)
        self._stream = f"store/{name}"
        self._tag = f"store-{name}"
        self._agent = agent
        self._name = name
        self._position = 0
        self._items: dict[Namespace, dict[str, StoredItem]] = {}
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

    abatch = async_twin(batch)

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
        raise_problems(_REFUSED, problems)
        return [*puts.values()]

    def _answer(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            stored = self._get(op.namespace, op.key)
            return Item(**stored.fields()) if stored else None
        if isinstance(op, SearchOp):
            return self._search(op)
        return self._namespaces(op) if isinstance(op, ListNamespacesOp) else None

    def _namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        """The namespaces that meet all conditions, cut to a depth, in order."""
        conditions = op.match_conditions or ()
        found: Iterable[Namespace] = (
            namespace
            for namespace in self._items
            if all(_matches_condition(namespace, condition) for condition in conditions)
        )
        if op.max_depth is not None:
            found = {namespace[: op.max_depth] for namespace in found}
        return sorted(found)[op.offset : op.offset + op.limit]

    def _search(self, op: SearchOp) -> list[SearchItem]:
        passing = [
            stored
            for stored in self._under(op.namespace_prefix)
            if not op.filter or matches_filter(stored.value(), op.filter)
        ]
        if op.query:
            return self._nearest(op, passing)
        return [stored.found() for stored in passing[op.offset : op.offset + op.limit]]

    def _nearest(self, op: SearchOp, passing: Sequence[StoredItem]) -> list[SearchItem]:
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
        results = [stored.found(min(1.0, max(0.0, score))) for stored, score in found]
        results += [stored.found() for node, stored in wanted.items() if node not in scores]
        return results[op.offset : op.offset + op.limit]

    def _put(self, puts: list[PutOp]) -> None:
        self._streams.add(StreamEntry(self._stream, KIND, self._agent, put_rows(puts)))
        self._refresh()
        stored = [self._get(op.namespace, op.key) for op in puts]
        nodes = [node for each in stored if (node := self._node(each))]
        names = {self._node_id(op.namespace, op.key) for op in puts}
        self._learn(nodes, names.difference(node.id for node in nodes))

    def _refresh(self) -> None:
        for record in self._streams.records(self._stream, after=self._position):
            self._position = record.position
            for row in record.document()["items"]:
                self._apply(row, record.at)
        self._items = {name: items for name, items in self._items.items() if items}

    def _apply(self, row: dict[str, Any], at: str) -> None:
        namespace, key = tuple(row["namespace"]), row["key"]
        earlier = self._get(namespace, key)
        items = self._items.setdefault(namespace, {})
        if row["value"] is None:
            items.pop(key, None)
            return
        text = json.dumps(row["value"], ensure_ascii=False)
        created = earlier.created_at if earlier else at
        node = self._node_id(namespace, key)
        items[key] = StoredItem(namespace, key, node, text, row["index"], created, at)

    def _node_id(self, namespace: Namespace, key: str) -> str:
        """The name under which the knowledge graph has an item."""
        return "store:" + name_hash((self._name, namespace, key))

    def _get(self, namespace: Namespace, key: str) -> StoredItem | None:
        return self._items.get(namespace, {}).get(key)

    def _under(self, prefix: Namespace) -> Iterator[StoredItem]:
        """The items of all namespaces that begin so."""
        for namespace, items in self._items.items():
            if namespace[: len(prefix)] == tuple(prefix):
                yield from items.values()

    def _make_findable(self) -> None:
        """Bring the nodes up to the items once: a process may have ended between the two."""
        if not self._is_findable:
            graph = self._workspace.knowledge.graph(tags=[self._tag])
            theirs = {node.id for node in graph.nodes if self._tag in node.tags}
            nodes = [node for each in self._under(()) if (node := self._node(each))]
            self._learn(nodes, theirs.difference(node.id for node in nodes))
            self._is_findable = True

    def _node(self, stored: StoredItem | None) -> Node | None:
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
            return bool(self._workspace.knowledge.graph(around=[node], depth=0).nodes)
        except NotFound:
            return False

    def _learn(self, nodes: list[Node], gone: set[str]) -> None:
        """Record nodes. The items are recorded already, so what can't be a node is skipped: it is
        found by everything but a query.
        """
        forget = sorted(node for node in gone if self._is_known(node))
        if not nodes and not forget:
            return
        try:
            self._workspace.knowledge.add(nodes, agent=self._agent, forget_nodes=forget)
        except InvalidInput:
            if len(nodes) + len(forget) > 1:
                for node in nodes:
                    self._learn([node], set())
                for name in forget:
                    self._learn([], {name})


def _matches_condition(namespace: Namespace, condition: MatchCondition) -> bool:
    wanted = tuple(condition.path)
    if len(namespace) < len(wanted):
        return False
    is_suffix = condition.match_type == "suffix"
    part = namespace[len(namespace) - len(wanted) :] if is_suffix else namespace[: len(wanted)]
    return all(want in ("*", label) for want, label in zip(wanted, part, strict=True))

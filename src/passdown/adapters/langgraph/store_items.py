"""The items of a store, folded from their records, and the rules by which they are searched."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from langgraph.store.base import get_text_at_path, tokenize_path

from passdown.errors import InvalidInput, Problem
from passdown.model.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from langgraph.store.base import ListNamespacesOp, MatchCondition, PutOp

    Namespace = tuple[str, ...]

_REFUSED = "refused; nothing was changed"


class Stored(NamedTuple):
    """An item as it stands; its value is kept as text, so that nobody can change it by hand."""

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


class Items:
    """All items of a store, in the order in which they came to be."""

    def __init__(self, name: str) -> None:
        """No items yet."""
        self.position = 0
        self._name = name
        self._known: dict[Namespace, dict[str, Stored]] = {}

    def apply(self, position: int, at: str, document: dict[str, Any]) -> None:
        """Go one record on."""
        self.position = position
        for row in document["items"]:
            namespace, key = tuple(row["namespace"]), row["key"]
            items = self._known.setdefault(namespace, {})
            if row["value"] is None:
                items.pop(key, None)
                continue
            earlier = items.get(key)
            text = json.dumps(row["value"], ensure_ascii=False)
            node = self.node(namespace, key)
            created = earlier.created_at if earlier else at
            items[key] = Stored(namespace, key, node, text, row["index"], created, at)
        self._known = {name: items for name, items in self._known.items() if items}

    def node(self, namespace: Namespace, key: str) -> str:
        """The name under which the knowledge graph has an item."""
        return "store:" + name_hash((self._name, namespace, key))

    def get(self, namespace: Namespace, key: str) -> Stored | None:
        """An item, or None."""
        return self._known.get(namespace, {}).get(key)

    def under(self, prefix: Namespace) -> Iterator[Stored]:
        """The items of all namespaces that begin so."""
        for namespace, items in self._known.items():
            if namespace[: len(prefix)] == tuple(prefix):
                yield from items.values()

    def namespaces(self) -> list[Namespace]:
        """The namespaces that have items."""
        return [*self._known]


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
    if problems:
        raise InvalidInput(_REFUSED, problems)
    return {"items": rows}


def search_text(stored: Stored) -> str:
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


def matches(value: object, wanted: object) -> bool:
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
        return all(matches(held.get(name), part) for name, part in parts.items())
    if isinstance(wanted, list | tuple):
        listed = cast("Sequence[object]", wanted)
        given = cast("Sequence[object]", value) if isinstance(value, list | tuple) else None
        if given is None or len(given) != len(listed):
            return False
        return all(matches(one, other) for one, other in zip(given, listed, strict=True))
    return value == wanted


def _compares(value: object, operator: str, other: object) -> bool:
    if operator == "$eq":
        return value == other
    if operator == "$ne":
        return value != other
    if operator not in ("$gt", "$gte", "$lt", "$lte"):
        expected = "$eq, $ne, $gt, $gte, $lt or $lte"
        raise InvalidInput(
            "the filter can't be used",
            [Problem(f"filter.{operator}", "invalid_choice", repr(operator), expected)],
        )
    try:
        left, right = float(cast("float", value)), float(cast("float", other))
    except (TypeError, ValueError):
        return False
    if operator == "$gt":
        return left > right
    if operator == "$gte":
        return left >= right
    return left < right if operator == "$lt" else left <= right


def namespaces_of(items: Items, op: ListNamespacesOp) -> list[Namespace]:
    """The namespaces that meet all conditions, cut to a depth, in order."""
    conditions = op.match_conditions or ()
    found: Iterable[Namespace] = (
        namespace
        for namespace in items.namespaces()
        if all(_meets(namespace, condition) for condition in conditions)
    )
    if op.max_depth is not None:
        found = {namespace[: op.max_depth] for namespace in found}
    return sorted(found)[op.offset : op.offset + op.limit]


def _meets(namespace: Namespace, condition: MatchCondition) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)]
    if condition.match_type == "suffix":
        part = namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))

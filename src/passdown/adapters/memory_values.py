"""What every memory store takes in and gives out: values, and the rules that both obey. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.errors import InvalidInput, Problem
from passdown.model.arguments import number_problems, refuse_any, text_type_problems
from passdown.model.graph import MAX_ID, MAX_VALUE, stands_for
from passdown.model.names import id_problems
from passdown.model.redaction import redact, redact_value
from passdown.model.text import has_lone_surrogate, text_problems

if TYPE_CHECKING:
    from passdown.model.handoff import Decision

MEMORY = "memory:"
MAX_CONTENT = MAX_VALUE
MAX_KEY = MAX_ID - len(MEMORY)
MAX_QUERY = 10_000
MAX_K = 1_000
MAX_DEPTH = 50
MAX_NESTING = 64

REFUSED = "refused; nothing was changed"


@dataclass(frozen=True)
class MemoryResult:
    """One memory that was found. `score` is 0 to 1; `metadata` is read-only at every depth and
    equal to what was stored.
    """

    key: str
    content: str
    score: float
    metadata: Mapping[str, Any]

    def __post_init__(self) -> None:
        """Raises ValueError for a score outside of 0 to 1."""
        if not 0 <= self.score <= 1:
            raise ValueError(f"a score is 0 to 1, not {self.score}")
        object.__setattr__(self, "metadata", _read_only(dict(self.metadata)))

    def __hash__(self) -> int:
        return hash((self.key, self.content, self.score))


class DecisionResult(NamedTuple):
    """One decision that was found: its key, the decision, and a score of 0 to 1."""

    key: str
    decision: Decision
    score: float


class _ReadOnlyList(tuple[Any, ...]):
    """A tuple that equals the list that it was made from."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return list(self) == (
            list(cast("tuple[object, ...]", other)) if isinstance(other, tuple) else other
        )

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(list(self))


def _read_only(value: Any) -> Any:
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value).items()
        return MappingProxyType({name: _read_only(part) for name, part in pairs})
    if isinstance(value, list | tuple):
        return _ReadOnlyList(_read_only(part) for part in cast("list[Any]", value))
    return value


class Prepared(NamedTuple):
    """A memory that may be stored: checked, without secrets, its metadata as one JSON text."""

    key: str
    content: str
    metadata: str


def prepared(key: str, content: str, metadata: Mapping[str, Any] | None) -> Prepared:
    """A memory as it is stored; raises InvalidInput with everything that is wrong with it."""
    problems = key_problems(key, "key")
    problems += text_problems(content, "content", max_length=MAX_CONTENT)
    text = "{}"
    try:
        text = _json_text(_plain(metadata if metadata is not None else {}, 0))
    except (TypeError, ValueError) as error:
        expected = "JSON: texts as names, numbers that are finite, nothing that holds itself"
        problems.append(Problem("metadata", "not_json", str(error)[:200], expected))
    if len(text) > MAX_VALUE:
        expected = f"at most {MAX_VALUE:,} characters of JSON"
        problems.append(Problem("metadata", "too_long", f"{len(text):,} characters", expected))
    if problems:
        raise InvalidInput(REFUSED, problems, next_step="Mend these and try again.")
    return Prepared(key, redact(content)[0], text)


def _plain(value: object, depth: int) -> Any:
    """A value as JSON knows it; raises TypeError or ValueError for what would not come back."""
    if depth > MAX_NESTING:
        raise ValueError(f"more than {MAX_NESTING} levels deep")
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is no number in JSON")
        return value
    if isinstance(value, list | tuple):
        return [_plain(part, depth + 1) for part in cast("list[object]", value)]
    if not isinstance(value, Mapping):
        raise TypeError(f"{type(value).__name__} given")
    found: dict[str, Any] = {}
    for name, part in cast("Mapping[object, object]", value).items():
        if not isinstance(name, str):
            raise TypeError(f"{name!r:.60} is the name of a field")
        found[name] = _plain(part, depth + 1)
    return found


def _json_text(value: object) -> str:
    if not isinstance(value, dict):
        raise TypeError(f"{type(value).__name__} given")
    clean = redact_value(cast("dict[str, Any]", value))[0]
    text = json.dumps(clean, ensure_ascii=False)
    return json.dumps(clean) if has_lone_surrogate(text) else text


def key_problems(key: object, path: str) -> list[Problem]:
    """What is wrong with a memory's key, or with the name of an end of a relationship."""
    expected = f"1 to {MAX_KEY} printable characters, without space at either end"
    if not isinstance(key, str):
        return [Problem(path, "wrong_type", f"{type(key).__name__} given", expected)]
    if 0 < len(key) <= MAX_KEY and key == key.strip() and key.isprintable():
        return []
    return [Problem(path, "invalid_id", "can't be a key", expected)]


def check_question(text: object, k: object, path: str = "query") -> None:
    """Raises InvalidInput where a question, or the number of answers asked for, can't be used."""
    problems = text_problems(text, path, max_length=MAX_QUERY)
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MAX_K:
        problems.append(Problem("k", "out_of_range", str(k)[:40], f"1 to {MAX_K:,}"))
    if problems:
        raise InvalidInput("can't be searched for", problems)


def check_ends(source: object, target: object) -> None:
    """Raises InvalidInput where the ends of a relationship can't be names."""
    problems = key_problems(source, "source") + key_problems(target, "target")
    if problems:
        raise InvalidInput(REFUSED, problems, next_step="Mend these and try again.")


def check_walk(node: object, depth: object) -> None:
    """Raises InvalidInput where a start is no name, or a number of steps can't be gone."""
    problems = text_type_problems(node=node) + number_problems(depth, "depth", 1, MAX_DEPTH)
    refuse_any("can't look around", problems)


def check_names(**names: object) -> None:
    """Raises InvalidInput where a name to ask for is no text."""
    refuse_any("can't be asked for", text_type_problems(**names))


def project_folder(project: object) -> str:
    """The one name under which a project's files lie, apart from those of every other project.

    Raises InvalidInput for an id that isn't one. File systems that don't tell `Shop` from `shop`
    get two names all the same.
    """
    problems = id_problems(project, "project")
    if problems or not isinstance(project, str):
        raise InvalidInput("the project can't be opened", problems)
    if project == project.lower():
        return project
    capitals = "".join("1" if char.isupper() else "0" for char in project)
    return f"{project.lower()}~{int(capitals, 2):x}"


def node_of_name(name: str) -> str:
    """The graph's id for a name: items, tasks, agents and files stand for themselves, `node:ID` is
    a node that somebody wrote down, anything else is the key of a memory.
    """
    if stands_for(name):
        return name
    return name.removeprefix("node:") if name.startswith("node:") else MEMORY + name


def name_of_node(node: str) -> str:
    """The name of a node of the graph; turns `node_of_name` round."""
    if stands_for(node):
        return node
    return node.removeprefix(MEMORY) if node.startswith(MEMORY) else f"node:{node}"

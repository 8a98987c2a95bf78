"""Shape of the state that agents share: fields, reducers, plain JSON values.

Reducers change neither argument and return the result; they are annotations of the fields, in
LangGraph and without it. Annotations are evaluated here and not kept as text: Python would look up
their names in the module of a subclass of `AgentState`, where `add_messages` may be LangGraph's.
"""

import json
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum
from functools import cache
from inspect import Parameter, signature
from typing import (
    Annotated,
    Any,
    NotRequired,
    Required,
    TypedDict,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from passdown.core.schema import as_plain
from passdown.core.text import child_path
from passdown.core.times import stamp
from passdown.errors import InvalidInput, Problem

Plain = dict[str, Any]

_MAX_DEPTH = 100
_SCALARS = (str, int, float, bool, type(None))


def plain(value: object, path: str = "") -> Any:
    """A copy of a value made of dict, list, text, numbers, booleans and None.

    Values of this package, aware times, enumerations and models that can dump themselves are
    turned into such data. Raises InvalidInput that names every place with anything else.
    """
    problems: list[Problem] = []
    result = _plain(value, path, problems, 0)
    if problems:
        step = "Keep plain data in the state, and other objects outside of it."
        raise InvalidInput("the state isn't plain data", problems, next_step=step)
    return result


def plain_text(value: object, path: str = "") -> str:
    """A value as JSON text, in which equal values read alike; refuses what `plain` refuses.

    The usual case, data that is plain already, needs no copy of it.
    """
    try:
        return json.dumps(value, sort_keys=True, default=plain)
    except (TypeError, ValueError, RecursionError):
        return json.dumps(plain(value, path), sort_keys=True)


def _plain(value: object, path: str, problems: list[Problem], depth: int) -> Any:
    if isinstance(value, Enum):
        value = cast("object", value.value)
    if isinstance(value, _SCALARS):
        return value
    if depth > _MAX_DEPTH:
        message = "is nested too deeply, or contains itself"
        problems.append(Problem(path[:120], "too_deep", message, f"at most {_MAX_DEPTH} levels"))
        return None
    if isinstance(value, Mapping):
        found: Plain = {}
        for key, part in cast("Mapping[object, object]", value).items():
            where = child_path(path, key)
            if isinstance(key, str):
                found[key] = _plain(part, where, problems, depth + 1)
            else:
                given = f"a key of type {type(key).__name__}"
                problems.append(Problem(where, "wrong_type", given, "text"))
        return found
    if isinstance(value, list | tuple):
        entries = enumerate(cast("list[object]", value))
        return [_plain(each, child_path(path, i), problems, depth + 1) for i, each in entries]
    return _plain_object(value, path, problems, depth)


def _plain_object(value: object, path: str, problems: list[Problem], depth: int) -> Any:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return stamp(value)
    if hasattr(type(value), "__dataclass_fields__"):
        return _plain(as_plain(value), path, problems, depth + 1)
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return _plain(dump(mode="json"), path, problems, depth + 1)
    given = f"{type(value).__name__} given"
    problems.append(Problem(path, "wrong_type", given, "plain JSON data"))
    return None


_REMOVE_ALL = "__remove_all__"


def message(
    content: object, agent: str, *, role: str = "assistant", id: str = "", **metadata: Any
) -> Plain:
    """A message that bears its agent's name and, where given, more about it under `metadata`.

    It has an id, so that giving it again replaces it instead of repeating it.
    """
    made: Plain = {
        "id": id or uuid.uuid4().hex,
        "role": role,
        "name": agent,
        "content": plain(content, "content"),
    }
    return {**made, "metadata": plain(metadata, "metadata")} if metadata else made


def add_messages(left: Any, right: Any) -> list[Any]:
    """The messages of `left`, then those of `right`; one with a known id takes its place instead.

    Dicts and LangChain's message objects stay what they are. A LangChain `RemoveMessage`, or a dict
    of the type `remove`, removes the message with its id; InvalidInput if there is none.
    """
    merged = as_list(left)
    removed: set[str] = set()
    places = {key: index for index, each in enumerate(merged) if (key := message_id(each))}
    for each in as_list(right):
        key = message_id(each)
        if field_of(each, "type") == "remove":
            if key == _REMOVE_ALL:
                removed.update(places)
                merged, places = [], {}
            elif key not in places:
                message = f"there is no message {key[:80]!r} to remove"
                problem = Problem("messages", "not_found", message)
                raise InvalidInput("the messages stay as they are", [problem])
            else:
                removed.add(key)
        elif key and key in places:
            removed.discard(key)
            merged[places[key]] = each
        else:
            places.update({key: len(merged)} if key else {})
            merged.append(each)
    return [each for each in merged if message_id(each) not in removed] if removed else merged


def field_of(value: object, name: str) -> Any:
    """A field of a dict or of an object; None where it has none."""
    if isinstance(value, Mapping):
        return cast("Mapping[str, object]", value).get(name)
    return getattr(value, name, None)


def message_id(each: object) -> str:
    """A message's id; empty where it has none."""
    key = field_of(each, "id")
    return key if isinstance(key, str) else ""


def as_list(value: object) -> list[Any]:
    """The value as a new list; a single entry becomes a list of one, nothing an empty one."""
    if value is None:
        return []
    return [*cast("list[Any]", value)] if isinstance(value, list | tuple) else [value]


def add_decisions(left: Any, right: Any) -> list[Plain]:
    """The decisions of `left`, then the new ones of `right`, each once.

    Equal content is the same decision. So is the same `key` or `address`: the later entry, with
    its newer status, then takes the place of the earlier.
    """
    merged: list[Any] = []
    places: dict[str, list[int]] = {}
    for entry in plain([*as_list(left), *as_list(right)], "decisions"):
        name, is_unique = _decision_name(entry)
        alike = places.setdefault(name, [])
        known = [at for at in alike if is_unique or plain_text(merged[at]) == plain_text(entry)]
        if known:
            merged[known[0]] = entry
        else:
            alike.append(len(merged))
            merged.append(entry)
    return merged


def _decision_name(entry: object) -> tuple[str, bool]:
    """What two entries of the same decision share, and whether others can't have it."""
    for name in ("key", "address"):
        if isinstance(value := field_of(entry, name), str) and value:
            return f"{name}:{value}", True
    return f"summary:{field_of(entry, 'summary')}", False


def add_warnings(left: Any, right: Any) -> list[Plain]:
    """The warnings of `left`, then those of `right` that aren't there yet."""
    merged = as_list(left)
    return merged + [each for each in as_list(right) if each not in merged]


def latest(_left: Any, right: Any) -> Any:
    """The newer value; unlike a field without a reducer, it may come from two nodes at once."""
    return right


def join_contexts(left: Any, right: Any) -> Any:
    """The newer handoff context, or both in one where two agents handed off at the same time.

    Then sources and decisions of both are in it, and a field is checked by what its one writer
    said; one that both wrote can't be.
    """
    if not left or not right or not _are_siblings(left, right):
        return right
    ours, theirs = left["hop"], right["hop"]
    merged: Plain = {**right, "decisions": add_decisions(left["decisions"], right["decisions"])}
    merged["memory_refs"] = [*dict.fromkeys([*left["memory_refs"], *right["memory_refs"]])]
    others = [*left["metadata"].get("also_from", ()), left["source"]]
    merged["metadata"] = {**right["metadata"], "also_from": others}
    both = {name for name in ours["wrote"] if name in theirs["wrote"]}
    checksums = {
        name: (ours if name in ours["wrote"] else theirs)["checksums"].get(name)
        for name in sorted({*ours["checksums"], *theirs["checksums"]} - both)
    }
    merged["hop"] = {
        **theirs,
        "also": [*ours.get("also", ()), ours["id"]],
        "decided": min(ours["decided"], theirs["decided"]),
        "exact": ours["exact"] and theirs["exact"],
        "checksums": {name: value for name, value in checksums.items() if value},
        "wrote": sorted({*ours["wrote"], *theirs["wrote"]}),
        "unchecked": sorted({*ours["unchecked"], *theirs["unchecked"], *both}),
        "targets": [*dict.fromkeys([*ours["targets"], *theirs["targets"]])],
    }
    return merged


def _are_siblings(left: Plain, right: Plain) -> bool:
    """Whether two contexts were made from the same earlier one, neither having seen the other."""
    ours, theirs = left.get("hop"), right.get("hop")
    if not ours or not theirs or left["source"] == right["source"]:
        return False
    return (ours["run"], ours["step"]) == (theirs["run"], theirs["step"])


Reducer = Callable[[Any, Any], Any]


class AgentState(TypedDict, total=False):
    """What agents share: plain JSON under names in snake_case; a subclass adds fields of its own.

    `decisions` are those of all agents so far, `handoff_context` is what the last one left for
    the current one, `warnings` are problems that didn't stop the work, `run` names the record.
    """

    messages: Annotated[list[Any], add_messages]
    current_agent: Annotated[str, latest]
    handoff_context: Annotated[dict[str, Any] | None, join_contexts]
    decisions: Annotated[list[dict[str, Any]], add_decisions]
    warnings: Annotated[list[dict[str, Any]], add_warnings]
    run: Annotated[str, latest]


_DRAWS_IDS = "langgraph.graph.message"
"""The module of LangGraph's reducer of messages, which gives each that has none a random id."""


class StateField(TypedDict):
    """One field of a state: how updates join it (None: they replace it) and what it starts as.

    Where LangGraph's own reducer `draws_ids`, ours is used instead: for messages with ids both do
    the same.
    """

    reducer: Reducer | None
    start: Callable[[], Any] | None
    draws_ids: bool


@cache
def agent_state(schema: type[Any]) -> type[Any]:
    """A TypedDict with the fields of `AgentState` as well, such as for `MessagesState`.

    One that has them is given back. Raises InvalidInput for anything but a TypedDict.
    """
    # Those of typing_extensions aren't the typing module's.
    if dict not in getattr(schema, "__mro__", ()) or not hasattr(schema, "__required_keys__"):
        problem = Problem("state", "wrong_type", f"{schema!r:.80}", "a TypedDict")
        raise InvalidInput("the state can't be used", [problem])
    own = get_type_hints(schema, include_extras=True)
    hints = {**get_type_hints(AgentState, include_extras=True), **own}
    if hints.keys() == own.keys():
        return schema
    return cast("Any", TypedDict)(schema.__name__, hints, total=False)


@cache
def fields_of(schema: type[Any]) -> dict[str, StateField]:
    """The fields of a state's shape by name; InvalidInput unless it extends `AgentState`."""
    hints = get_type_hints(agent_state(schema), include_extras=True)
    missing = [name for name in hints if name not in get_type_hints(schema)]
    if missing:
        problems = [Problem(name, "required", "is missing", "a field") for name in missing]
        step = "Make the state with passdown.adapters.states.agent_state, or extend AgentState."
        raise InvalidInput("the state can't be used", problems, next_step=step)
    return {name: _field(hint) for name, hint in hints.items()}


def _field(hint: Any) -> StateField:
    while get_origin(hint) in (Required, NotRequired):
        hint = get_args(hint)[0]
    if get_origin(hint) is not Annotated:
        return StateField(reducer=None, start=None, draws_ids=False)
    kind, *marks = get_args(hint)
    reducer = marks[-1] if callable(marks[-1]) and _takes_two(marks[-1]) else None
    draws_ids = getattr(reducer, "__module__", "") == _DRAWS_IDS
    base = get_origin(kind) or kind
    starts = base if base in (list, dict, set, str, int, float, bool) else None
    return StateField(
        reducer=add_messages if draws_ids else reducer, start=starts, draws_ids=draws_ids
    )


def _takes_two(function: Callable[..., Any]) -> bool:
    positional = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in positional for p in signature(function).parameters.values()) == 2


def apply_update(
    state: Mapping[str, Any], update: Mapping[str, Any], schema: type[Any] = AgentState
) -> dict[str, Any]:
    """A new state: `state` with `update` joined to it, field by field; neither is changed.

    A field that the shape doesn't have is replaced.
    """
    fields = fields_of(schema)
    result = dict(state)
    for name, value in update.items():
        field = fields.get(name)
        if field and field["reducer"] and (name in result or field["start"]):
            before = result[name] if name in result else cast("Any", field["start"])()
            value = field["reducer"](before, value)  # noqa: PLW2901 - the joined one
        result[name] = value
    return result

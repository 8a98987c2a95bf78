"""The shape of a state that agents share, and how an update is applied to one.

Annotations are evaluated here and not kept as text: Python would look their names up in the module
of whoever subclasses `AgentState`, where `add_messages` may well be LangGraph's.
"""

from collections.abc import Callable, Mapping
from functools import cache
from inspect import Parameter, signature
from typing import (
    Annotated,
    Any,
    NotRequired,
    Required,
    TypedDict,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from passdown.adapters.states.reducers import (
    add_decisions,
    add_messages,
    add_warnings,
    join_contexts,
    latest,
)
from passdown.errors import InvalidInput, Problem

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


class Field(TypedDict):
    """One field of a state: how updates join it (None: they replace it) and what it starts as.

    Where LangGraph's own reducer `draws_ids`, ours stands for it: among messages that have ids
    both do the same.
    """

    reducer: Reducer | None
    start: Callable[[], Any] | None
    draws_ids: bool


@cache
def fields_of(schema: type[Any]) -> dict[str, Field]:
    """The fields of a state's shape by name; InvalidInput unless it extends `AgentState`."""
    if not is_typeddict(schema):
        problem = Problem("state", "wrong_type", f"{schema!r:.80}", "a TypedDict")
        raise InvalidInput("the state can't be used", [problem])
    hints = get_type_hints(schema, include_extras=True)
    missing = [name for name in get_type_hints(AgentState) if name not in hints]
    if missing:
        problems = [Problem(name, "required", "is missing", "a field") for name in missing]
        step = "Make the state a subclass of passdown.adapters.states.AgentState."
        raise InvalidInput("the state can't be used", problems, next_step=step)
    return {name: _field(hint) for name, hint in hints.items()}


def _field(hint: Any) -> Field:
    while get_origin(hint) in (Required, NotRequired):
        hint = get_args(hint)[0]
    if get_origin(hint) is not Annotated:
        return Field(reducer=None, start=None, draws_ids=False)
    kind, *marks = get_args(hint)
    reducer = marks[-1] if callable(marks[-1]) and _takes_two(marks[-1]) else None
    draws_ids = getattr(reducer, "__module__", "") == _DRAWS_IDS
    base = get_origin(kind) or kind
    starts = base if base in (list, dict, set, str, int, float, bool) else None
    return Field(reducer=add_messages if draws_ids else reducer, start=starts, draws_ids=draws_ids)


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
        if field is None or field["reducer"] is None:
            result[name] = value
        elif name in result:
            result[name] = field["reducer"](result[name], value)
        elif field["start"] is not None:
            result[name] = field["reducer"](field["start"](), value)
        else:
            result[name] = value
    return result

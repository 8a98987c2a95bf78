"""Wrap a graph node as one agent's turn: the handoff is recorded and its context passed on.

What the node returns stays as it is; the handoff is added to it.
"""

from __future__ import annotations

import asyncio
import inspect
import uuid
from collections.abc import Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.adapters.langgraph.compat import (
    END,
    Command,
    Overwrite,
    ParentCommand,
    Runnable,
    RunnableLambda,
    convert_to_messages,
    running_config,
)
from passdown.adapters.langgraph.gates import aask_people, ask_people
from passdown.adapters.state_schema import AgentState, add_warnings, fields_of, message_id
from passdown.adapters.states import (
    AgentTurn,
    Route,
    StepConfig,
    add_checksums,
    begin_turn,
    check_step_config,
    end_turn,
    handoff_update,
    integrity_warnings,
    record_turn,
)
from passdown.adapters.tools import workspace_of
from passdown.core.integrity import check_integrity
from passdown.errors import GateRefused, InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from passdown.adapters.tools import AnyWorkspace

    Choose = Callable[[str, Mapping[str, Any]], Route]


Plain = dict[str, Any]

GOTO = "goto"
"""The condition of a transition that the node itself asked for."""

_MARK = "__passdown_hop__"
_NO_PLACE = "The state has no such fields: add them to its class, or don't return them."


class NodeWrapping(NamedTuple):
    """How a node is wrapped: its hop, what chooses its target, and the graph's nodes.

    Where the nodes are known, a rejected handoff goes back to its sender, a handoff's `to_agent`
    leads to that node, and a name that no node has is an error.
    """

    hop: StepConfig
    choose: Choose
    nodes: Mapping[str, Any] | None = None


def handoff_node(
    node: Any,
    *,
    agent: str,
    workspace: AnyWorkspace,
    task: str,
    target: str = "",
    state: type[Any] = AgentState,
    strict: bool = False,
) -> Any:
    """The same node, which also hands off: sync or async as it was, or a runnable.

    On entry it verifies the state against what was handed off and waits at gates; on exit it
    records one handoff, as the output's `handoff` field says it or made from the output, and adds
    the context. The receiver is where a `Command` goes, else the handoff's `to_agent`, else
    `target`. Differences are logged and noted in `warnings`; when `strict`, IntegrityViolation.
    """

    def choose(_source: str, _state: Mapping[str, Any]) -> Route:
        return Route((target,) if target and target != END else ())

    return wrap_node(node, NodeWrapping(StepConfig(agent, workspace, task, state, strict), choose))


def step_config_of(node: Any) -> StepConfig | None:
    """The hop of a wrapped node; None for one that isn't wrapped."""
    found = getattr(node, _MARK, None) or getattr(getattr(node, "func", None), _MARK, None)
    return found or getattr(getattr(node, "afunc", None), _MARK, None)


def wrap_node(node: Any, how: NodeWrapping) -> Any:
    """Wrap a function, a coroutine function or a runnable."""
    check_step_config(how.hop)
    if step_config_of(node) is not None:
        problem = Problem(how.hop.agent, "duplicate", "the node is wrapped already", "a bare node")
        raise InvalidInput("the node can't be wrapped", [problem])
    if isinstance(node, Runnable):
        return _wrapped_runnable(node, how)
    call: Any = getattr(node, "__call__", None)  # noqa: B004 - is it awaited?
    if not callable(node):
        problem = Problem(how.hop.agent, "wrong_type", f"{type(node).__name__} given", "a function")
        raise InvalidInput("the node can't be wrapped", [problem])
    is_async = inspect.iscoroutinefunction(node) or inspect.iscoroutinefunction(call)
    return _wrapped_async(node, how) if is_async else _wrapped_sync(node, how)


def _wrapped_sync(node: Any, how: NodeWrapping) -> Any:
    @wraps(node)
    def handing(state: Any, *args: Any, **kwargs: Any) -> Any:
        step, path = _graph_position()
        rejected = ask_people(how.hop.workspace, how.hop.task, agent=how.hop.agent)
        turn = begin_turn(how.hop, state, step=step, path=path)
        if rejected:
            return _send_back(how, turn, rejected)
        return _finish_turn(how, turn, node(turn.view, *args, **kwargs))

    return _marked(handing, node, how.hop)


def _wrapped_async(node: Any, how: NodeWrapping) -> Any:
    @wraps(node)
    async def handing(state: Any, *args: Any, **kwargs: Any) -> Any:
        step, path = _graph_position()
        rejected = await aask_people(how.hop.workspace, how.hop.task, agent=how.hop.agent)
        turn = await asyncio.to_thread(begin_turn, how.hop, state, step=step, path=path)
        if rejected:
            return await asyncio.to_thread(_send_back, how, turn, rejected)
        output = await node(turn.view, *args, **kwargs)
        return await asyncio.to_thread(_finish_turn, how, turn, output)

    return _marked(handing, node, how.hop)


def _marked(handing: Any, node: Any, hop: StepConfig) -> Any:
    """The wrapper, known as such, and shown the whole state though the node asks for a part."""
    setattr(handing, _MARK, hop)
    shown = next(iter(inspect.signature(node).parameters), "state")
    handing.__annotations__ = {**getattr(node, "__annotations__", {}), shown: hop.schema}
    return handing


def _wrapped_runnable(node: Any, how: NodeWrapping) -> Any:
    """A runnable, such as a compiled graph, that is run either way."""

    def run(state: Plain) -> Any:
        shown = _with_ids(state)
        try:
            return _new_only(shown, node.invoke(shown, running_config() or None))
        except ParentCommand as raised:
            return _new_only(shown, _for_this_graph(raised))

    async def arun(state: Plain) -> Any:
        shown = _with_ids(state)
        try:
            return _new_only(shown, await node.ainvoke(shown, running_config() or None))
        except ParentCommand as raised:
            return _new_only(shown, _for_this_graph(raised))

    made = RunnableLambda(_wrapped_sync(run, how), _wrapped_async(arun, how), name=how.hop.agent)
    object.__setattr__(made, _MARK, how.hop)
    return made


def _graph_position() -> tuple[int, tuple[str, ...]]:
    """Which step of the graph this is, and the node's place in the order within the step."""
    found: Plain = running_config().get("metadata") or {}
    path: Sequence[object] = found.get("langgraph_path") or ()
    parts = [f"{part:010d}" if isinstance(part, int) else str(part) for part in path[:3]]
    return int(found.get("langgraph_step") or 0), tuple(parts)


def _for_this_graph(raised: Exception) -> Any:
    """The command that a graph inside this node sent to its parent, which is this one."""
    command: Any = raised.args[0]
    return Command(update=command.update, goto=command.goto)


def _finish_turn(how: NodeWrapping, turn: AgentTurn, output: Any) -> Any:
    """What a node returned, with the handoff added."""
    command = output if isinstance(output, Command) else None
    given = _with_message_ids(how, _plain_update(output.update if command is not None else output))
    asked = _requested_route(how, command, given)
    unknown = _drop_unknown_fields(how, given, asked)
    if unknown:
        given = {**given, "warnings": add_warnings(given.get("warnings"), unknown)}
    left = end_turn(how.hop, turn, given, lambda merged: asked or how.choose(how.hop.agent, merged))
    if left.route.condition == GOTO:
        graph = command.graph if command is not None else None
        return Command(graph=graph, update=left.update, goto=[*left.route.targets] or END)
    return left.update


def _plain_update(update: Any) -> Plain:
    if update is None:
        return {}
    if not isinstance(update, Mapping):
        given = f"{type(update).__name__} returned"
        problem = Problem("", "wrong_type", given, "a dict, a Command with a dict, or None")
        raise InvalidInput("the agent's turn can't be handed off", [problem])
    fields = dict(cast("Mapping[str, Any]", update))
    replaced = [name for name, value in fields.items() if isinstance(value, Overwrite)]
    if replaced:
        message = "Overwrite would drop what came before"
        problems = [Problem(name, "overwrite", message, "what is new") for name in replaced]
        raise InvalidInput("the agent's turn can't be handed off", problems)
    return fields


def _with_message_ids(how: NodeWrapping, given: Plain) -> Plain:
    """An update with messages as LangGraph's own reducer would make them, ids included: what is
    recorded then is what becomes of it.
    """
    messages: object = given.get("messages")
    if not messages or not fields_of(how.hop.schema)["messages"]["draws_ids"]:
        return given
    listed = cast("list[Any]", messages) if isinstance(messages, list) else [messages]
    made = [_given_id(each, str(uuid.uuid4())) for each in convert_to_messages(listed)]
    return {**given, "messages": made}


def _requested_route(how: NodeWrapping, command: Any, given: Plain) -> Route | None:
    """Where the node itself sends the work: by a command, or by its handoff."""
    goto: object = command.goto if command is not None else ()
    listed = list(cast("Sequence[object]", goto)) if isinstance(goto, list | tuple) else [goto]
    names = [each for each in listed if isinstance(each, str)]
    problems: list[Problem] = []
    if len(names) != len(listed):
        message = "Send gives the receiver another state than the one that is handed off"
        problems.append(Problem("goto", "wrong_type", message, "the name of a node"))
    handoff = given.get("handoff")
    named = cast("Plain", handoff).get("to_agent") if isinstance(handoff, dict) else None
    by_handoff = not names and bool(named)
    names = [str(named)] if by_handoff else names
    if command is None or command.graph is None:
        problems += _unknown_nodes(how.nodes, names)
    if problems:
        raise InvalidInput("the agent's turn can't be handed off", problems)
    if not names:
        return None
    is_edge = by_handoff and how.nodes is None
    return Route(tuple(name for name in names if name != END), "" if is_edge else GOTO)


def _unknown_nodes(nodes: Mapping[str, Any] | None, names: list[str]) -> list[Problem]:
    """A problem for each name that no node of the graph has, where its nodes are known."""
    if nodes is None:
        return []
    expected = ", ".join(nodes)
    unknown = [name for name in names if name != END and name not in nodes]
    return [Problem(name, "not_found", "is no node of the graph", expected) for name in unknown]


def _drop_unknown_fields(how: NodeWrapping, given: Plain, asked: Route | None) -> list[Plain]:
    """Warnings for fields that the state's shape doesn't have: the graph would drop them."""
    known = fields_of(how.hop.schema)
    if "active_agent" not in known:
        given.pop("active_agent", None)  # what only a swarm has a place for
    lost = {name: "" for name in given if name not in known and name != "handoff"}
    target = next(iter(asked.targets), "") if asked else ""
    source, strict = how.hop.agent, how.hop.strict
    report = check_integrity(
        lost, {}, exclude=(), source=source, target=target, strict=strict, next_step=_NO_PLACE
    )
    for name in lost:
        del given[name]
    return integrity_warnings(report, source, target)


def _send_back(how: NodeWrapping, turn: AgentTurn, rejected: list[Plain]) -> Any:
    """After a rejection the work goes back to who handed it on, with the reasons."""
    context: Plain = turn.view.get("handoff_context") or {}
    source = context.get("source", "")
    reasons = [
        {"code": "rejected", "gate": gate["address"], "by": gate["answered_by"]}
        | {"reason": gate["reason"], "agent": source}
        for gate in rejected
    ]
    if how.nodes is None or not source:
        problems = [
            Problem(each["gate"], "human_gate", f"was rejected by {each['by']}: {each['reason']}")
            for each in reasons
        ]
        step = "Hand the task off again."
        raise GateRefused(f"{how.hop.task} can't go on", problems, next_step=step)
    update = handoff_update(turn.view, source, metadata={"rejected": reasons}, decisions=())
    update["warnings"] = [*turn.warnings, *reasons]
    route = Route((source,), GOTO)
    add_checksums(how.hop, turn, update, route)
    version = workspace_of(how.hop.workspace).task(how.hop.task).version
    record_turn(how.hop, turn, update, route, version=version)
    return Command(update=update, goto=[source])


def _with_ids(state: Plain) -> Plain:
    """The state with an id for each message: a graph inside returns its whole history, and what it
    was given has to be known again.
    """
    messages = [
        _given_id(each, f"given-{index}") for index, each in enumerate(state.get("messages") or ())
    ]
    return {**state, "messages": messages}


def _given_id(each: Any, name: str) -> Any:
    if message_id(each):
        return each
    if isinstance(each, dict):
        return {**cast("Plain", each), "id": name}
    return each.model_copy(update={"id": name}) if hasattr(each, "model_copy") else each


def _new_only(shown: Plain, output: Any) -> Any:
    """A graph's output without the messages that it was given and left as they were."""
    is_command = isinstance(output, Command)
    update: object = output.update if is_command else output
    fields = cast("Plain", update) if isinstance(update, dict) else {}
    if not isinstance(fields.get("messages"), list):
        return output
    given = {message_id(each): _content(each) for each in shown["messages"]}
    new = [
        each
        for each in fields["messages"]
        if message_id(each) not in given or _content(each) != given[message_id(each)]
    ]
    kept = {k: v for k, v in fields.items() if k not in shown or v != shown[k]}
    changed = {**kept, "messages": new}
    return Command(graph=output.graph, update=changed, goto=output.goto) if is_command else changed


def _content(each: Any) -> object:
    if isinstance(each, dict):
        return cast("Plain", each).get("content")
    return getattr(each, "content", None)

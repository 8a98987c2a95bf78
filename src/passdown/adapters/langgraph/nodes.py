"""Wrap a graph node as one agent's turn: the handoff is recorded and its context passed on.

What the node returns stays as it is; the handoff is added to it. A handoff that is held pauses the
graph until a person answers, with `interrupt`, so it needs a checkpointer. Resume it with
`Command(resume={"by": NAME, "approve": [GATE...], "reject": [GATE...], "reason": TEXT})`.
"""

from __future__ import annotations

import asyncio
import inspect
import uuid
from collections.abc import Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import quote

from passdown.adapters.langgraph.compat import (
    END,
    Command,
    Overwrite,
    ParentCommand,
    Runnable,
    RunnableLambda,
    convert_to_messages,
    interrupt,
    running_config,
)
from passdown.adapters.state_schema import (
    AgentState,
    Plain,
    add_warnings,
    as_list,
    field_of,
    fields_of,
    message_id,
)
from passdown.adapters.states import (
    NOT_IN_STATE,
    AgentTurn,
    Route,
    StepConfig,
    begin_turn,
    check_step_config,
    end_turn,
    finish_turn,
    handoff_update,
    integrity_warnings,
)
from passdown.adapters.tools import stored_keys, workspace_of
from passdown.core.integrity import check_integrity
from passdown.core.names import agent_problems
from passdown.errors import GateRefused, InvalidInput, Problem, raise_problems
from passdown.workspace.streams import StreamEntry, WorkspaceStreams

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from passdown.adapters.tools import AnyWorkspace

    Choose = Callable[[str, Mapping[str, Any]], Route]


_ASKED = "graph-asked/"
_ANSWER = {"by": "NAME", "approve": ["GATE"], "reject": ["GATE"], "reason": "why, to reject"}
_SHOWN = ("address", "task", "blocker", "suggested_resolution", "impact", "severity", "agent")


class GateAnswers(NamedTuple):
    """What a person said: which gates are open now, and which stay shut; to which questions."""

    questions: list[Plain]
    by: str
    approve: tuple[str, ...]
    reject: tuple[str, ...]
    reason: str


def ask_people(workspace: AnyWorkspace, task: str, *, agent: str = "") -> list[Plain]:
    """Wait until every gate of a task has an answer and record it; gives the rejected ones.

    An answer counts for the gates that it names. One that leaves a gate out, or is wrong in
    another way, changes nothing: the graph pauses again with every problem. Rejected
    handoffs of `agent` itself are left out: it may continue and hand off again.
    """
    place = str(running_config().get("configurable", {}).get("checkpoint_ns", ""))
    for question in _earlier_questions(workspace, place):
        interrupt(question)
    waiting = [gate for gate in _human_gates(workspace, task) if gate["status"] == "pending"]
    if waiting:
        _record_answers(workspace, place, _ask_until_answered(waiting))
    # Read from the ledger, so that a rejection also holds after a crash.
    shut = [gate for gate in _human_gates(workspace, task) if gate["status"] == "rejected"]
    return [gate for gate in shut if gate["agent"] != agent]


async def aask_people(workspace: AnyWorkspace, task: str, *, agent: str = "") -> list[Plain]:
    """`ask_people`, awaited."""
    return await asyncio.to_thread(ask_people, workspace, task, agent=agent)


def _earlier_questions(workspace: AnyWorkspace, place: str) -> list[Plain]:
    """The questions that people answered in this very turn of a node.

    LangGraph runs a node from its beginning after each pause and hands the answers out in their
    order: without these, the node's own first question would get the answer to a gate.
    """
    records = WorkspaceStreams(workspace_of(workspace)).records(_ASKED + quote(place, safe=""))
    return [question for record in records for question in record.document()["questions"]]


def _human_gates(workspace: AnyWorkspace, task: str) -> list[Plain]:
    found = workspace_of(workspace).gates(task)
    return [gate.to_dict() for gate in found if gate.kind == "human"]


def _ask_until_answered(waiting: list[Plain]) -> GateAnswers:
    """Pause the graph until somebody answers for each gate."""
    shown = [{name: gate[name] for name in _SHOWN if name in gate} for gate in waiting]
    question: Plain = {"gates": shown, "answer_with": _ANSWER}
    names = [gate["address"] for gate in waiting]
    questions: list[Plain] = []
    while True:
        questions.append(question)
        answers, problems = _parse_answer(interrupt(question), names)
        if answers is not None:
            return answers._replace(questions=questions)
        question = {**question, "problems": [problem.line() for problem in problems]}


def _parse_answer(given: object, names: list[str]) -> tuple[GateAnswers | None, list[Problem]]:
    if not isinstance(given, dict):
        return None, [Problem("", "wrong_type", f"{type(given).__name__} given", str(_ANSWER))]
    fields = cast("Plain", given)
    problems = agent_problems(fields.get("by", ""), "by")
    lists = {name: _gate_names(fields.get(name), name, problems) for name in ("approve", "reject")}
    for name in names:
        count = sum(name in listed for listed in lists.values())
        if count != 1:
            message = "is in both lists" if count else "has no answer"
            problems.append(Problem(name, "required", message, "approve or reject"))
    reason = fields.get("reason") or ""
    is_rejected = any(name in lists["reject"] for name in names)
    if not isinstance(reason, str) or (is_rejected and not reason.strip()):
        problems.append(Problem("reason", "required", "a rejection needs a reason", "text"))
    if problems:
        return None, problems
    approve, reject = ([n for n in names if n in lists[kind]] for kind in ("approve", "reject"))
    return GateAnswers([], fields["by"], tuple(approve), tuple(reject), str(reason)), []


def _gate_names(value: object, path: str, problems: list[Problem]) -> list[object]:
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        problems.append(Problem(path, "wrong_type", f"{type(value).__name__} given", "a list"))
        return []
    return list(cast("list[object]", value))


def _record_answers(workspace: AnyWorkspace, place: str, answers: GateAnswers) -> None:
    """Record what was asked and what a person said. Where another answer came first, that one
    holds.
    """
    opened = workspace_of(workspace)
    stream, body = _ASKED + quote(place, safe=""), {"questions": answers.questions}
    WorkspaceStreams(opened).add(StreamEntry(stream, "gates_asked", answers.by, body))
    for gate in (*answers.approve, *answers.reject):
        try:
            if gate in answers.approve:
                opened.approve(gate, by=answers.by, reason=answers.reason)
            else:
                opened.reject(gate, by=answers.by, reason=answers.reason)
        except GateRefused:
            continue


GOTO = "goto"
"""The condition of a transition that the node itself asked for."""

_MARK = "__passdown_hop__"
_NOTHING = object()
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
    if not callable(node):
        problem = Problem(how.hop.agent, "wrong_type", f"{type(node).__name__} given", "a function")
        raise InvalidInput("the node can't be wrapped", [problem])
    return _wrapped(node, how)


def _wrapped(node: Any, how: NodeWrapping) -> Any:
    @wraps(node)
    def handing(state: Any, *args: Any, **kwargs: Any) -> Any:
        turn, sent_back = _begin_turn(how, state)
        if sent_back:
            return sent_back
        with stored_keys(turn.stored):
            output = node(turn.view, *args, **kwargs)
        return _finish_turn(how, turn, output)

    @wraps(node)
    async def ahanding(state: Any, *args: Any, **kwargs: Any) -> Any:
        turn, sent_back = await asyncio.to_thread(_begin_turn, how, state)
        if sent_back:
            return sent_back
        with stored_keys(turn.stored):
            output = await node(turn.view, *args, **kwargs)
        return await asyncio.to_thread(_finish_turn, how, turn, output)

    call: Any = getattr(node, "__call__", None)  # noqa: B004 - is it awaited?
    is_async = inspect.iscoroutinefunction(node) or inspect.iscoroutinefunction(call)
    return _marked(ahanding if is_async else handing, node, how.hop)


def _begin_turn(how: NodeWrapping, state: Any) -> tuple[AgentTurn, Any]:
    """Wait at gates, then begin; after a rejection, also the command that sends the work back."""
    step, path = _graph_position()
    rejected = ask_people(how.hop.workspace, how.hop.task, agent=how.hop.agent)
    turn = begin_turn(how.hop, state, step=step, path=path)
    return turn, _send_back(how, turn, rejected) if rejected else None


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

    made = RunnableLambda(_wrapped(run, how), _wrapped(arun, how), name=how.hop.agent)
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
    agent = how.hop.agent
    update, route = end_turn(
        how.hop, turn, given, lambda merged: asked or how.choose(agent, merged)
    )
    if route.condition == GOTO:
        graph = command.graph if command is not None else None
        return Command(graph=graph, update=update, goto=[*route.targets] or END)
    return update


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
    listed = convert_to_messages(as_list(messages))
    return {**given, "messages": [_given_id(each, str(uuid.uuid4())) for each in listed]}


def _requested_route(how: NodeWrapping, command: Any, given: Plain) -> Route | None:
    """Where the node itself sends the work: by a command, or by its handoff."""
    listed = as_list(command.goto if command is not None else ())
    names = [each for each in listed if isinstance(each, str)]
    problems: list[Problem] = []
    if len(names) != len(listed):
        message = "Send gives the receiver another state than the one that is handed off"
        problems.append(Problem("goto", "wrong_type", message, "the name of a node"))
    named = field_of(given.get("handoff"), "to_agent")
    by_handoff = not names and bool(named)
    names = [str(named)] if by_handoff else names
    if how.nodes is not None and (command is None or command.graph is None):
        unknown = [name for name in names if name != END and name not in how.nodes]
        message, expected = "is no node of the graph", ", ".join(how.nodes)
        problems += [Problem(name, "not_found", message, expected) for name in unknown]
    raise_problems("the agent's turn can't be handed off", problems)
    if not names:
        return None
    is_edge = by_handoff and how.nodes is None
    return Route(tuple(name for name in names if name != END), "" if is_edge else GOTO)


def _drop_unknown_fields(how: NodeWrapping, given: Plain, asked: Route | None) -> list[Plain]:
    """Warnings for fields that the state's shape doesn't have: the graph would drop them."""
    known = fields_of(how.hop.schema)
    if "active_agent" not in known:
        given.pop("active_agent", None)  # what only a swarm has a place for
    lost = {name: "" for name in given if name not in known and name not in NOT_IN_STATE}
    target = asked.first if asked else ""
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
    version = workspace_of(how.hop.workspace).task(how.hop.task).version
    finish_turn(how.hop, turn, update, Route((source,), GOTO), version)
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
    given = {message_id(each): field_of(each, "content") for each in shown["messages"]}
    kept = {name: value for name, value in fields.items() if value != shown.get(name, _NOTHING)}
    kept["messages"] = [
        each
        for each in fields["messages"]
        if field_of(each, "content") != given.get(message_id(each), _NOTHING)
    ]
    return Command(graph=output.graph, update=kept, goto=output.goto) if is_command else kept

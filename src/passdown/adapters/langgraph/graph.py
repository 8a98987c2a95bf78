"""Graphs of agents over LangGraph's own: every node hands off, every condition is recorded.

A node is wrapped as one agent's turn: what it returns stays as it is, and the handoff is added to
it. A handoff that is held pauses the graph until a person answers, with `interrupt`, so it needs a
checkpointer. Resume it with
`Command(resume={"by": NAME, "approve": [GATE...], "reject": [GATE...], "reason": TEXT})`.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import uuid
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import quote

import langgraph.config
import langgraph.errors
import langgraph.graph  # pyright: ignore[reportMissingTypeStubs]
import langgraph.types
from langchain_core import messages, runnables

from passdown.adapters import states
from passdown.adapters.shared import stored_keys, streams_of
from passdown.adapters.state_schema import (
    AgentState,
    Plain,
    add_warnings,
    agent_state,
    apply_update,
    as_list,
    field_of,
    fields_of,
    message_id,
)
from passdown.core.names import agent_problems
from passdown.core.schema import as_plain, check_json
from passdown.errors import (
    GateRefused,
    IntegrityViolation,
    InvalidInput,
    Problem,
    raise_problems,
)
from passdown.tools.briefs import recording_workspace, workspace_of
from passdown.tools.payload import agent_name_of
from passdown.workspace.streams import StreamEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Self

    from passdown.tools.briefs import AnyWorkspace
    from passdown.workspace import Workspace

    Choose = Callable[[str, Mapping[str, Any]], states.Route]
    Condition = Callable[[Any], object]
    Task = str | Callable[..., object]

# LangGraph and LangChain have no complete types.
StateGraph: Any = langgraph.graph.StateGraph
START: str = langgraph.graph.START
END: str = langgraph.graph.END
Command: Any = langgraph.types.Command
Overwrite: Any = langgraph.types.Overwrite
Send: Any = langgraph.types.Send
ParentCommand: type[Exception] = langgraph.errors.ParentCommand
Runnable: Any = runnables.Runnable
RunnableLambda: Any = runnables.RunnableLambda
convert_to_messages: Any = messages.convert_to_messages
interrupt: Any = langgraph.types.interrupt


def running_config() -> Plain:
    """The configuration of the node that is running; empty outside of one."""
    try:
        return cast("Plain", langgraph.config.get_config())
    except RuntimeError:
        return {}


def task_for(task: Task, state: Any) -> str:
    """The task that a turn works on: the one given, or what a function of the state, or of the
    state and the configuration, says. Raises InvalidInput unless that is text.
    """
    if isinstance(task, str):
        return task
    takes_config = len(inspect.signature(task).parameters) > 1
    found = task(state, running_config()) if takes_config else task(state)
    if not isinstance(found, str) or not found:
        given = f"{type(found).__name__} returned" if found else "nothing returned"
        raise InvalidInput("no task", [Problem("task", "wrong_type", given, "a task's id")])
    return found


_ASKED = "graph-asked/"
_ANSWER = {"by": "NAME", "approve": ["GATE"], "reject": ["GATE"], "reason": "why, to reject"}
_SHOWN = ("address", "task", "blocker", "suggested_resolution", "impact", "severity", "agent")
_GATES = {"type": ["array", "null"]}
_ANSWER_SCHEMA = {
    "type": "object",
    "required": ["by"],
    "properties": {"approve": _GATES, "reject": _GATES, "reason": {"type": ["string", "null"]}},
}


def ask_people(workspace: AnyWorkspace, task: str, *, agent: str = "") -> list[Plain]:
    """Wait until every gate of a task has an answer and record it; gives the rejected ones.

    An answer counts for the gates that it names. One that leaves a gate out, or is wrong in
    another way, changes nothing: the graph pauses again with every problem. Rejected
    handoffs of `agent` itself are left out: it may continue and hand off again.
    """
    opened, streams = workspace_of(workspace), streams_of(workspace)
    place = str(running_config().get("configurable", {}).get("checkpoint_ns", ""))
    stream = _ASKED + quote(place, safe="")
    # LangGraph runs a node from its beginning after each pause and hands the answers out in their
    # order: without these, the node's own first question would get the answer to a gate.
    for record in streams.records(stream):
        for question in record.document()["questions"]:
            interrupt(question)
    gates = _human_gates(opened, task)
    waiting = [gate for gate in gates if gate["status"] == "pending"]
    if waiting:
        questions, answer = _ask_until_answered(waiting)
        by, reason = answer["by"], answer.get("reason") or ""
        streams.add(StreamEntry(stream, "gates_asked", by, {"questions": questions}))
        for gate in waiting:
            is_open = gate["address"] in (answer.get("approve") or ())
            with suppress(GateRefused):  # another answer came first, and that one holds
                (opened.approve if is_open else opened.reject)(
                    gate["address"], by=by, reason=reason
                )
        # Read from the ledger, so that a rejection also holds after a crash.
        gates = _human_gates(opened, task)
    rejected = [gate for gate in gates if gate["status"] == "rejected" and gate.get("holds")]
    return [gate for gate in rejected if gate["agent"] != agent]


async def aask_people(workspace: AnyWorkspace, task: str, *, agent: str = "") -> list[Plain]:
    """`ask_people`, awaited."""
    return await asyncio.to_thread(ask_people, workspace, task, agent=agent)


def _human_gates(workspace: Workspace, task: str) -> list[Plain]:
    return [gate.to_dict() for gate in workspace.gates(task) if gate.kind == "human"]


def _ask_until_answered(waiting: list[Plain]) -> tuple[list[Plain], Plain]:
    """Pause the graph until somebody answers for each gate; what was asked, and the answer."""
    shown = [{name: gate[name] for name in _SHOWN if name in gate} for gate in waiting]
    question: Plain = {"gates": shown, "answer_with": _ANSWER}
    questions: list[Plain] = []
    while True:
        questions.append(question)
        answer = as_plain(interrupt(question))
        problems = _answer_problems(answer, [gate["address"] for gate in waiting])
        if not problems:
            return questions, answer
        question = {**question, "problems": [problem.line() for problem in problems]}


def _answer_problems(answer: Any, names: list[str]) -> list[Problem]:
    problems: list[Problem] = []
    check_json(answer, _ANSWER_SCHEMA, "", problems)
    if problems:
        return problems
    problems = agent_problems(answer["by"], "by")
    approved: list[object] = answer.get("approve") or []
    rejected: list[object] = answer.get("reject") or []
    for name in names:
        if (name in approved) is (name in rejected):
            message = "is in both lists" if name in approved else "has no answer"
            problems.append(Problem(name, "required", message, "approve or reject"))
    if not (answer.get("reason") or "").strip() and any(name in rejected for name in names):
        problems.append(Problem("reason", "required", "a rejection needs a reason", "text"))
    return problems


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

    hop: states.StepConfig
    choose: Choose
    nodes: Mapping[str, Any] | None = None


def node_names(nodes: Iterable[str] | None, agents: Iterable[str]) -> list[str]:
    """The names of agents' nodes: a graph knows an agent by name, state and ledger by its id."""
    names = {agent_name_of(name, "name"): name for name in nodes or ()}
    return [names.get(agent, agent) for agent in agents]


def handoff_node(
    node: Any,
    *,
    agent: str,
    workspace: AnyWorkspace,
    task: Task,
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

    def choose(_source: str, _state: Mapping[str, Any]) -> states.Route:
        return _route([target] if target else [], "")

    return wrap_node(
        node, NodeWrapping(states.StepConfig(agent, workspace, task, state, strict), choose)
    )


def step_config_of(node: Any) -> states.StepConfig | None:
    """The hop of a wrapped node; None for one that isn't wrapped."""
    found = getattr(node, _MARK, None) or getattr(getattr(node, "func", None), _MARK, None)
    return found or getattr(getattr(node, "afunc", None), _MARK, None)


def wrap_node(node: Any, how: NodeWrapping) -> Any:
    """Wrap a function, a coroutine function or a runnable."""
    how = how._replace(hop=states.check_step_config(how.hop))
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


def _begin_turn(how: NodeWrapping, state: Any) -> tuple[states.AgentTurn, Any]:
    """Wait at gates, then begin; after a rejection, also the command that sends the work back."""
    step, path = _graph_position()
    task = task_for(how.hop.task, state)
    hop = how.hop._replace(task=task, add_later=_adds_later(how.hop.workspace))
    rejected = ask_people(hop.workspace, hop.task, agent=hop.agent)
    turn = states.begin_turn(hop, state, step=step, path=path)
    return turn, _send_back(how, turn, rejected) if rejected else None


def _adds_later(workspace: AnyWorkspace) -> Any:
    """What writes records with the next checkpoint, if checkpoints are in the same workspace."""
    saver: Any = running_config().get("configurable", {}).get("__pregel_checkpointer")
    is_ours = getattr(saver, "workspace", None) is workspace_of(workspace)
    return saver.add_later if is_ours else None


def _marked(handing: Any, node: Any, hop: states.StepConfig) -> Any:
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
            return _new_only(shown, raised.args[0], is_ours=True)

    async def arun(state: Plain) -> Any:
        shown = _with_ids(state)
        try:
            return _new_only(shown, await node.ainvoke(shown, running_config() or None))
        except ParentCommand as raised:
            return _new_only(shown, raised.args[0], is_ours=True)

    made = RunnableLambda(_wrapped(run, how), _wrapped(arun, how), name=how.hop.agent)
    object.__setattr__(made, _MARK, how.hop)
    return made


def _graph_position() -> tuple[int, tuple[str, ...]]:
    """Which step of the graph this is, and the node's place in the order within the step."""
    found: Plain = running_config().get("metadata") or {}
    path: Sequence[object] = found.get("langgraph_path") or ()
    parts = [f"{part:010d}" if isinstance(part, int) else str(part) for part in path[:3]]
    return int(found.get("langgraph_step") or 0), tuple(parts)


def _finish_turn(how: NodeWrapping, turn: states.AgentTurn, output: Any) -> Any:
    """What a node returned, with the handoff added."""
    command = output if isinstance(output, Command) else None
    given = _with_message_ids(how, _plain_update(output.update if command is not None else output))
    asked = _requested_route(how, command, given)
    unknown = _drop_unknown_fields(how, given, asked)
    if unknown:
        given = {**given, "warnings": add_warnings(given.get("warnings"), unknown)}
    [name] = node_names(how.nodes, [how.hop.agent])
    update, route = turn.end(given, lambda merged: asked or how.choose(name, merged))
    if route.condition == GOTO:
        graph = command.graph if command is not None else None
        named = [each for each in as_list(command.goto if command else ()) if each != END]
        goto = named or node_names(how.nodes, route.targets) or END
        return Command(graph=graph, update=update, goto=goto)
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


_SEND = Problem(
    "goto",
    "unsupported",
    "Send gives the receiver another state than the one that is handed off",
    "the names of nodes, which run at the same time",
)


def _requested_route(how: NodeWrapping, command: Any, given: Plain) -> states.Route | None:
    """Where the node itself sends the work: by a command, or by its handoff."""
    listed = as_list(command.goto if command is not None else ())
    names = [each for each in listed if isinstance(each, str)]
    problems = [_SEND] if len(names) != len(listed) else []
    named = field_of(given.get("handoff"), "to_agent")
    by_handoff = not names and bool(named)
    names = node_names(how.nodes, [str(named)]) if by_handoff else names
    if how.nodes is not None and (command is None or command.graph is None):
        unknown = [name for name in names if name != END and name not in how.nodes]
        message, expected = "is no node of the graph", ", ".join(how.nodes)
        problems += [Problem(name, "not_found", message, expected) for name in unknown]
    raise_problems("the agent's turn can't be handed off", problems)
    if not names:
        return None
    is_edge = by_handoff and how.nodes is None
    return _route(names, "" if is_edge else GOTO)


def _drop_unknown_fields(
    how: NodeWrapping, given: Plain, asked: states.Route | None
) -> list[Plain]:
    """Warnings for fields that the state's shape doesn't have: the graph would drop them."""
    known = fields_of(how.hop.schema)
    if "active_agent" not in known:
        given.pop("active_agent", None)  # what only a swarm has a place for
    lost = {name: "" for name in given if name not in known and name not in states.NOT_IN_STATE}
    target = asked.first if asked else ""
    source, strict = how.hop.agent, how.hop.strict
    for name in lost:
        del given[name]
    return states.difference_warnings(lost, {}, source, target, strict=strict, next_step=_NO_PLACE)


def _send_back(how: NodeWrapping, turn: states.AgentTurn, rejected: list[Plain]) -> Any:
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
        raise GateRefused(f"{turn.hop.task} can't go on", problems, next_step=step)
    update = states.handoff_update(turn.view, source, metadata={"rejected": reasons}, decisions=())
    update["warnings"] = [*turn.warnings, *reasons]
    version = workspace_of(how.hop.workspace).task(turn.hop.task).version
    turn.finish(update, states.Route((source,), GOTO), version)
    return Command(update=update, goto=node_names(how.nodes, [source]))


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


def _new_only(shown: Plain, output: Any, *, is_ours: bool = False) -> Any:
    """A graph's output without the messages that it was given and left as they were.

    `is_ours` for a command that a graph inside the node sent to its parent, which is this one.
    """
    is_command = isinstance(output, Command)
    update: Any = output.update if is_command else output
    if isinstance(update, dict) and isinstance(cast("Plain", update).get("messages"), list):
        fields = cast("Plain", update)
        given = {message_id(each): field_of(each, "content") for each in shown["messages"]}
        update = {
            name: value for name, value in fields.items() if value != shown.get(name, _NOTHING)
        }
        update["messages"] = [
            each
            for each in fields["messages"]
            if field_of(each, "content") != given.get(message_id(each), _NOTHING)
        ]
    if not is_command:
        return cast("Any", update)
    return Command(graph=None if is_ours else output.graph, update=update, goto=output.goto)


class _Edges:
    """The edges that leave one node: with a condition each (its name, the condition, the target),
    those of which a function names some (its name, the function, the targets), and the others.
    """

    def __init__(self) -> None:
        self.when: list[tuple[str, Condition, str]] = []
        self.choice: tuple[str, Condition, Mapping[Any, str] | None] | None = None
        self.fixed: list[str] = []

    def targets(self) -> list[str] | None:
        """Every node that the work may go to from here; None where a function may name any."""
        chosen: Mapping[Any, str] | None = self.choice[2] if self.choice else {}
        if chosen is None:
            return None
        ends = [target for *_, target in self.when]
        return [*dict.fromkeys([*ends, *chosen.values(), *self.fixed])]

    def route(self, source: str, state: Mapping[str, Any]) -> states.Route:
        """Where the work goes with this state, and by which condition. The first condition that
        holds decides; an edge without one counts where none holds, and all of them count where
        there are no conditions.
        """
        for name, holds, target in self.when:
            if _answer(holds, state):
                return _route([target], name)
        if self.choice is not None:
            return _route_of_choice(*self.choice, state)
        if self.when and not self.fixed:
            tried = ", ".join(name for name, *_ in self.when)
            problem = Problem(source, "no_edge", f"none of {tried} holds", "an edge to follow")
            step = "Add an edge without a condition for this case."
            raise InvalidInput("the work can't go on", [problem], next_step=step)
        return _route(self.fixed, "")


def _route_of_choice(
    name: str, path: Condition, known: Mapping[Any, str] | None, state: Mapping[str, Any]
) -> states.Route:
    keys = as_list(_answer(path, state))
    if any(isinstance(key, Send) for key in keys):
        raise InvalidInput("the work can't go on", [_SEND._replace(path=name)])
    if known is not None and (unknown := [key for key in keys if key not in known]):
        given, expected = f"{unknown[0]!r:.80}", ", ".join(str(key) for key in known)
        raise InvalidInput(
            "the work can't go on", [Problem(name, "invalid_choice", given, expected)]
        )
    targets = [str(key) if known is None else known[key] for key in keys]
    return _route(targets, f"{name}={','.join(str(key) for key in keys)}")


def _route(targets: list[str], condition: str) -> states.Route:
    agents = [agent_name_of(target, "target") for target in targets if target != END]
    return states.Route(tuple(agents), condition)


def _answer(condition: Condition, state: Mapping[str, Any]) -> object:
    """What a condition says; one that is awaited has a loop of its own, in a thread."""
    said = condition(state)
    if not inspect.isawaitable(said):
        return said

    async def awaited() -> object:
        return await said

    run = contextvars.copy_context().run
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run, asyncio.run, awaited()).result()


def _condition_name(condition: Condition, name: str, of_lambda: str) -> str:
    """A condition's name, which the record gives as the reason."""
    if not callable(condition):
        given = f"{type(condition).__name__} given"
        problem = Problem("condition", "wrong_type", given, "a function")
        raise InvalidInput("the edge can't be added", [problem])
    own: str = getattr(condition, "__name__", "") or type(condition).__name__
    return name or (of_lambda if own == "<lambda>" else own)


START_NODE = "handoff_start"
"""The node that each run begins with: it names the run and records the state as it came in."""


class HandoffGraph:
    """Nodes, edges and conditions of agents that hand tasks on; `compile` gives the graph.

    Every node is wrapped as by `handoff_node`. `task` may be a function of the state, or of the
    state and the configuration, so that one graph serves many tasks. `state` is a TypedDict such as
    `AgentState` or `MessagesState`; it gets the fields of `AgentState` that it lacks.
    """

    def __init__(
        self,
        workspace: AnyWorkspace,
        task: Task,
        state: type[Any] = AgentState,
        *,
        strict: bool = False,
        **options: Any,
    ) -> None:
        """`options` go to LangGraph's StateGraph. Raises InvalidInput for another kind of state,
        NotFound for an unknown task.
        """
        state = agent_state(state)
        opened = recording_workspace(workspace, "HandoffGraph")
        if isinstance(task, str):
            opened.task(task)
        self._workspace, self._task, self._state = workspace, task, state
        self._strict = strict
        self._edges: defaultdict[str, _Edges] = defaultdict(_Edges)
        self._nodes: dict[str, Any] = {}
        self._joins: set[tuple[tuple[str, ...], str]] = set()
        self._is_wired = False
        self.builder: Any = StateGraph(state, **options)
        """LangGraph's builder, to look at; `compile` refuses what was added to it directly."""

    def add_node(self, name: Any, node: Any = None, **options: Any) -> Self:
        """Add an agent: a function, a coroutine function or a compiled graph, wrapped.

        `name` is the agent's name, and may be left out where the node has one; state and handoffs
        have it as an id (`Research-Agent`). `options` go to LangGraph.
        """
        self._check_open()
        if node is None and not isinstance(name, str):
            node, name = name, getattr(name, "__name__", "") or getattr(name, "name", "")
        if "input_schema" in options:
            message = "a wrapped node is shown the whole state"
            problem = Problem("input_schema", "unsupported", message, "an annotated parameter")
            raise InvalidInput("the node can't be added", [problem])
        agent = agent_name_of(name, "name")
        known = node_names(self._nodes, [agent])[0]
        if known != name and known in self._nodes:
            problem = Problem("name", "duplicate", f"{known!r} is {agent!r} too", "another name")
            raise InvalidInput("the node can't be added", [problem])
        hop = states.StepConfig(agent, self._workspace, self._task, self._state, self._strict)
        wrapped = wrap_node(node, NodeWrapping(hop, self._route, nodes=self._nodes))
        self.builder.add_node(name, wrapped, input_schema=self._state, **options)
        self._nodes[name] = self.builder.nodes[name]
        return self

    def add_edge(self, source: str | list[str], target: str) -> Self:
        """Add an edge without a condition; from a list, it waits for all of them."""
        self._check_open()
        if not isinstance(source, str):
            self.builder.add_edge(source, target)
            self._joins.add((tuple(source), target))
        for each in as_list(source):
            if target not in self._edges[each].fixed:
                self._edges[each].fixed.append(target)
        return self

    def add_sequence(self, nodes: Iterable[Any]) -> Self:
        """Add agents, each a node or a name with a node, and an edge from each to the next."""
        before = ""
        for each in nodes:
            known = {*self._nodes}
            self.add_node(*(each if isinstance(each, tuple) else (each,)))
            [name] = {*self._nodes} - known
            if before:
                self.add_edge(before, name)
            before = name
        return self

    def add_edge_when(
        self, source: str, condition: Callable[[Any], object], target: str, *, name: str = ""
    ) -> Self:
        """Add an edge that is taken when `condition` holds for the state after `source`.

        Of several, the first that holds decides; an edge without a condition is for the rest. The
        record of a run gives the condition's name.
        """
        self._check_open()
        name = _condition_name(condition, name, f"{source} to {target}")
        if any(known == name for known, *_ in self._edges[source].when):
            given = f"{source} has a condition {name!r}"
            problem = Problem("name", "duplicate", given, "a new one")
            raise InvalidInput("the edge can't be added", [problem])
        self._edges[source].when.append((name, condition, target))
        return self

    def add_conditional_edges(
        self,
        source: str,
        path: Callable[[Any], object],
        path_map: Mapping[Any, str] | list[str] | None = None,
        *,
        name: str = "",
    ) -> Self:
        """Add edges of which `path` names one or several: by node, or by a key of `path_map`."""
        self._check_open()
        targets = {each: each for each in path_map} if isinstance(path_map, list) else path_map
        if self._edges[source].choice is not None:
            problem = Problem("path", "duplicate", f"{source} has a choice already", "one choice")
            raise InvalidInput("the edges can't be added", [problem])
        self._edges[source].choice = (
            _condition_name(path, name, f"{source} chooses"),
            path,
            targets,
        )
        return self

    def compile(self, checkpointer: Any = None, **options: Any) -> Any:
        """The graph, ready to run; takes what LangGraph's `compile` takes.

        Raises InvalidInput that names every node which isn't wrapped, every edge which isn't
        recorded and every name that no node has.
        """
        problems = [*self._unwrapped(), *self._unrecorded(), *self._unknown()]
        if problems:
            step = "Use the methods of HandoffGraph to add nodes and edges."
            raise InvalidInput("the graph can't be used", problems, next_step=step)
        self._connect()
        return self.builder.compile(checkpointer, **options)

    def replay(self, run: str) -> Plain:
        """The state that a run ended with, made again from its record, every condition asked again.

        Raises IntegrityViolation that names each step where the work would take another route now.
        """
        began = states.start_of(self._workspace, run, self._state)
        state: Plain = began["state"]
        entry = states.Route(tuple(began["targets"]), began["condition"])
        taken = [(START, entry, self._route(START, state))]
        for each in states.transitions(self._workspace, run):
            state = apply_update(state, each.update, self._state)
            if each.condition != GOTO:
                then = states.Route(each.targets, each.condition)
                place = f"step {each.step} {each.source}"
                [source] = node_names(self._nodes, [each.source])
                taken.append((place, then, self._route(source, state)))
        changed = [
            f"{place}: {now.condition or 'no condition'}"
            for place, then, now in taken
            if now != then
        ]
        if changed:
            raise IntegrityViolation(f"run {run} would take another route now", changed)
        return states.replay(self._workspace, run, self._state)

    def _route(self, source: str, state: Mapping[str, Any]) -> states.Route:
        return self._edges[source].route(source, state)

    def _check_open(self) -> None:
        if self._is_wired:
            problem = Problem("", "compiled", "the graph has been compiled", "a new HandoffGraph")
            raise InvalidInput("nothing was added", [problem])

    def _unwrapped(self) -> list[Problem]:
        found: list[Problem] = []
        for name, spec in self.builder.nodes.items():
            is_ours = self._nodes.get(name) is spec and step_config_of(spec.runnable) is not None
            if not is_ours and not (name == START_NODE and self._is_wired):
                message = "is not wrapped: its work would not be handed off"
                found.append(Problem(name, "unwrapped_node", message, "HandoffGraph.add_node"))
        return found

    def _unrecorded(self) -> list[Problem]:
        if self._is_wired:
            return []
        edges = [f"{start} -> {end}" for start, end in self.builder.edges]
        edges += [source for source, branches in self.builder.branches.items() if branches]
        joins: set[Any] = set(self.builder.waiting_edges) - self._joins
        edges += [f"{', '.join(starts)} -> {end}" for starts, end in joins]
        message = "was added to the builder: nothing would record it"
        expected = "HandoffGraph.add_edge, add_edge_when or add_conditional_edges"
        return [Problem(edge, "unrecorded_edge", message, expected) for edge in sorted(edges)]

    def _unknown(self) -> list[Problem]:
        ends = {target for edges in self._edges.values() for target in edges.targets() or ()}
        names = (ends | set(self._edges)) - set(self._nodes) - {START, END}
        found = [Problem(name, "not_found", "is no node of the graph", "a node") for name in names]
        if self._edges[START].targets() == []:
            found.append(Problem(START, "required", "no edge leaves it", "an edge from START"))
        return sorted(found)

    def _connect(self) -> None:
        if self._is_wired:
            return
        self._is_wired = True
        targets = self._edges[START].targets()
        self.builder.add_node(
            START_NODE,
            self._begin,
            input_schema=self._state,
            destinations=tuple(self._nodes if targets is None else targets),
        )
        self.builder.add_edge(START, START_NODE)
        for name in self._nodes:
            known = self._edges[name].targets()
            ends = [*self._nodes, END] if known is None else (known or [END])
            router = self._router(name)
            self.builder.add_conditional_edges(name, router, {each: each for each in ends})

    def _begin(self, state: Any) -> Any:
        """Name the run, record what it begins with and go where the edges from START lead."""
        update: Plain = {"run": uuid.uuid4().hex}
        began = apply_update(state, update, self._state)
        entry = self._route(START, began)
        update["current_agent"] = entry.first
        began = apply_update(began, update, self._state)
        task = task_for(self._task, began)
        states.record_start(self._workspace, update["run"], task, began, entry)
        return Command(update=update, goto=node_names(self._nodes, entry.targets) or END)

    def _router(self, name: str) -> Callable[[Any], list[str] | str]:
        """What follows the context that a node left; the conditions were asked in its turn."""
        joined = {target for starts, target in self._joins if name in starts}

        def route(state: Any) -> list[str] | str:
            hop: Plain = state["handoff_context"]["hop"]
            if hop["condition"] == GOTO:
                return []
            names = node_names(self._nodes, hop["targets"])
            if not hop["targets"]:
                states.verify_handoff(state, strict=self._strict)
                return END
            return [each for each in names if each not in joined]

        # Without its type, the router would be shown the node's output instead of the state.
        route.__annotations__ = {"state": self._state}
        return route

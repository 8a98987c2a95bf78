"""Graph builder over LangGraph's own: every node hands off, every condition is recorded."""

from __future__ import annotations

import inspect
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.adapters.langgraph.compat import END, START, Command, StateGraph
from passdown.adapters.langgraph.nodes import GOTO, NodeWrapping, step_config_of, wrap_node
from passdown.adapters.state_schema import AgentState, apply_update, fields_of
from passdown.adapters.states import (
    Route,
    StepConfig,
    Transition,
    record_start,
    replay,
    runs,
    start_of,
    transitions,
    verify_handoff,
)
from passdown.adapters.tools import local_workspace
from passdown.errors import IntegrityViolation, InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    from passdown.adapters.tools import AnyWorkspace

    Condition = Callable[[Any], object]


class _ConditionalEdge(NamedTuple):
    name: str
    holds: Condition
    target: str


class _Choice(NamedTuple):
    name: str
    path: Condition
    targets: Mapping[Any, str] | None


class _OutgoingEdges:
    """The edges that leave one node."""

    def __init__(self) -> None:
        self.when: list[_ConditionalEdge] = []
        self.choice: _Choice | None = None
        self.fixed: list[str] = []

    def all_targets(self) -> list[str]:
        chosen = self.choice.targets if self.choice else None
        listed = [*(each.target for each in self.when), *(chosen or {}).values(), *self.fixed]
        return [*dict.fromkeys(listed)]


class Edges:
    """All edges of a graph. The first condition that holds decides; an edge without a condition
    counts where none holds, and all of them count where there are no conditions.
    """

    def __init__(self) -> None:
        self._leaving: dict[str, _OutgoingEdges] = {}

    def _of(self, source: str) -> _OutgoingEdges:
        return self._leaving.setdefault(source, _OutgoingEdges())

    def add(self, source: str, target: str) -> None:
        """An edge without a condition."""
        if target not in self._of(source).fixed:
            self._of(source).fixed.append(target)

    def add_when(self, source: str, condition: Condition, target: str, name: str) -> None:
        """An edge that is taken when a condition holds for the state."""
        name = _condition_name(condition, name)
        if any(each.name == name for each in self._of(source).when):
            problem = Problem(
                "name", "duplicate", f"{source} has a condition {name!r}", "a new one"
            )
            raise InvalidInput("the edge can't be added", [problem])
        self._of(source).when.append(_ConditionalEdge(name, condition, target))

    def choose_by(
        self, source: str, path: Condition, targets: Mapping[Any, str] | None, name: str
    ) -> None:
        """Edges of which a function names one or several."""
        if self._of(source).choice is not None:
            problem = Problem("path", "duplicate", f"{source} has a choice already", "one choice")
            raise InvalidInput("the edges can't be added", [problem])
        self._of(source).choice = _Choice(_condition_name(path, name), path, targets)

    def targets_of(self, source: str) -> list[str] | None:
        """Every node that the work may go to from here; None where a function may name any."""
        leaving = self._of(source)
        if leaving.choice is not None and leaving.choice.targets is None:
            return None
        return leaving.all_targets()

    def named(self) -> set[str]:
        """Every node that an edge leaves or leads to."""
        found = {target for leaving in self._leaving.values() for target in leaving.all_targets()}
        return (found | set(self._leaving)) - {END}

    def route(self, source: str, state: Mapping[str, Any]) -> Route:
        """Where the work goes from a node with this state, and by which condition."""
        leaving = self._of(source)
        for each in leaving.when:
            if each.holds(state):
                return _route([each.target], each.name)
        if leaving.choice is not None:
            return _route_of_choice(leaving.choice, state)
        if leaving.when and not leaving.fixed:
            tried = ", ".join(each.name for each in leaving.when)
            problem = Problem(source, "no_edge", f"none of {tried} holds", "an edge to follow")
            step = "Add an edge without a condition for this case."
            raise InvalidInput("the work can't go on", [problem], next_step=step)
        return _route(leaving.fixed, "")


def _route_of_choice(choice: _Choice, state: Mapping[str, Any]) -> Route:
    found = choice.path(state)
    keys = cast("list[Any]", found) if isinstance(found, list | tuple) else [found]
    known = choice.targets
    if known is not None and (unknown := [key for key in keys if key not in known]):
        given, expected = f"{unknown[0]!r:.80}", ", ".join(str(key) for key in known)
        problem = Problem(choice.name, "invalid_choice", given, expected)
        raise InvalidInput("the work can't go on", [problem])
    targets = [str(key) if known is None else known[key] for key in keys]
    return _route(targets, f"{choice.name}={','.join(str(key) for key in keys)}")


def _route(targets: list[str], condition: str) -> Route:
    return Route(tuple(target for target in targets if target != END), condition)


def _condition_name(condition: Condition, name: str) -> str:
    """A condition's name, which the record gives as the reason; a lambda has none."""
    name = name or getattr(condition, "__name__", "")
    problems: list[Problem] = []
    if not name or name == "<lambda>":
        fix = "give name=, or define a function"
        problems.append(Problem("name", "required", "the condition has no name", "a name", fix))
    if not callable(condition) or inspect.iscoroutinefunction(condition):
        given = f"{type(condition).__name__} given"
        problems.append(Problem("condition", "wrong_type", given, "a function that isn't awaited"))
    if problems:
        raise InvalidInput("the edge can't be added", problems)
    return name


Plain = dict[str, Any]

START_NODE = "handoff_start"
"""The node that each run begins with: it names the run and records the state as it came in."""


class HandoffGraph:
    """Nodes, edges and conditions of agents that work on one task; `compile` gives the graph.

    Every node is wrapped as by `handing_node`. `state` is a TypedDict that extends `AgentState`.
    """

    def __init__(
        self,
        workspace: AnyWorkspace,
        task: str,
        state: type[Any] = AgentState,
        *,
        strict: bool = False,
        **options: Any,
    ) -> None:
        """`options` go to LangGraph's StateGraph. Raises InvalidInput for another kind of state,
        NotFound for an unknown task.
        """
        fields_of(state)
        local_workspace(workspace, "HandoffGraph").task(task)
        self._workspace, self._task, self._state = workspace, task, state
        self._strict = strict
        self._edges = Edges()
        self._nodes: dict[str, Any] = {}
        self._joins: set[tuple[tuple[str, ...], str]] = set()
        self._is_wired = False
        self.builder: Any = StateGraph(state, **options)
        """LangGraph's builder, to look at; `compile` refuses what was added to it directly."""

    def add_node(self, name: str, node: Any, **options: Any) -> Self:
        """Add an agent: a function, a coroutine function or a compiled graph, wrapped.

        `name` is the agent's name in handoffs. `options` go to LangGraph.
        """
        self._check_open()
        if "input_schema" in options:
            message = "a wrapped node is shown the whole state"
            problem = Problem("input_schema", "unsupported", message, "an annotated parameter")
            raise InvalidInput("the node can't be added", [problem])
        hop = StepConfig(name, self._workspace, self._task, self._state, self._strict)
        wrapped = wrap_node(node, NodeWrapping(hop, self._edges.route, nodes=self._nodes))
        self.builder.add_node(name, wrapped, input_schema=self._state, **options)
        self._nodes[name] = self.builder.nodes[name]
        return self

    def add_edge(self, source: str | list[str], target: str) -> Self:
        """Add an edge without a condition; from a list, it waits for all of them."""
        self._check_open()
        if isinstance(source, str):
            self._edges.add(source, target)
            return self
        self.builder.add_edge(source, target)
        self._joins.add((tuple(source), target))
        for each in source:
            self._edges.add(each, target)
        return self

    def add_edge_when(
        self, source: str, condition: Callable[[Any], object], target: str, *, name: str = ""
    ) -> Self:
        """Add an edge that is taken when `condition` holds for the state after `source`.

        Of several, the first that holds decides; an edge without a condition is for the rest. The
        record of a run gives the condition's name.
        """
        self._check_open()
        self._edges.add_when(source, condition, target, name)
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
        self._edges.choose_by(source, path, targets, name)
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
        self._connection()
        return self.builder.compile(checkpointer, **options)

    def replay(self, run: str) -> Plain:
        """The state that a run ended with, made again from its record, every condition asked again.

        Raises IntegrityViolation that names each step where the work would go elsewhere now.
        """
        began = start_of(self._workspace, run, self._state)
        state: Plain = began["state"]
        changed: list[str] = []
        entry = self._edges.route(START, state)
        if [*entry.targets] != began["targets"] or entry.condition != began["condition"]:
            changed.append(f"{START}: {entry.condition or entry.targets}")
        for each in transitions(self._workspace, run):
            state = apply_update(state, each.update, self._state)
            if each.condition == GOTO:
                continue
            route = self._edges.route(each.source, state)
            if (route.targets, route.condition) != (each.targets, each.condition):
                changed.append(
                    f"step {each.step} {each.source}: {route.condition or 'no condition'}"
                )
        if changed:
            raise IntegrityViolation(f"run {run} would go elsewhere now", changed)
        return replay(self._workspace, run, self._state)

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
        names = self._edges.named() - set(self._nodes) - {START}
        found = [Problem(name, "not_found", "is no node of the graph", "a node") for name in names]
        if not self._edges.targets_of(START) and self._edges.targets_of(START) is not None:
            found.append(Problem(START, "required", "no edge leaves it", "an edge from START"))
        return sorted(found)

    def _connection(self) -> None:
        if self._is_wired:
            return
        self._is_wired = True
        targets = self._edges.targets_of(START)
        self.builder.add_node(
            START_NODE,
            self._begin,
            input_schema=self._state,
            destinations=tuple(self._nodes if targets is None else targets),
        )
        self.builder.add_edge(START, START_NODE)
        for name in self._nodes:
            known = self._edges.targets_of(name)
            ends = [*self._nodes, END] if known is None else (known or [END])
            router = self._router(name)
            self.builder.add_conditional_edges(name, router, {each: each for each in ends})

    def _begin(self, state: Any) -> Any:
        """Name the run, record what it begins with and go where the edges from START lead."""
        update: Plain = {"run": uuid.uuid4().hex}
        began = apply_update(state, update, self._state)
        entry = self._edges.route(START, began)
        update["current_agent"] = next(iter(entry.targets), "")
        began = apply_update(began, update, self._state)
        recorded = (entry.targets, entry.condition)
        record_start(self._workspace, update["run"], self._task, began, recorded)
        return Command(update=update, goto=[*entry.targets] or END)

    def _router(self, name: str) -> Callable[[Any], list[str] | str]:
        """What follows the context that a node left; the conditions were asked in its turn."""
        joined = {target for starts, target in self._joins if name in starts}

        def route(state: Any) -> list[str] | str:
            hop: Plain = state["handoff_context"]["hop"]
            if hop["condition"] == GOTO:
                return []
            targets = [each for each in hop["targets"] if each not in joined]
            if not hop["targets"]:
                verify_handoff(state, strict=self._strict)
                return END
            return targets

        # Without its type, the router would be shown the node's output instead of the state.
        route.__annotations__ = {"state": self._state}
        return route


__all__ = [
    "Edges",
    "HandoffGraph",
    "Transition",
    "replay",
    "runs",
    "transitions",
]

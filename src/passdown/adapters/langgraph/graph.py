"""Graph builder over LangGraph's own: every node hands off, every condition is recorded."""

from __future__ import annotations

import inspect
import uuid
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from passdown.adapters.langgraph.compat import END, START, Command, StateGraph
from passdown.adapters.langgraph.nodes import GOTO, NodeWrapping, step_config_of, wrap_node
from passdown.adapters.state_schema import AgentState, Plain, apply_update, as_list, fields_of
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
from passdown.errors import IntegrityViolation, InvalidInput, Problem, raise_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    from passdown.adapters.tools import AnyWorkspace

    Condition = Callable[[Any], object]


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

    def route(self, source: str, state: Mapping[str, Any]) -> Route:
        """Where the work goes with this state, and by which condition. The first condition that
        holds decides; an edge without one counts where none holds, and all of them count where
        there are no conditions.
        """
        for name, holds, target in self.when:
            if holds(state):
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
) -> Route:
    keys = as_list(path(state))
    if known is not None and (unknown := [key for key in keys if key not in known]):
        given, expected = f"{unknown[0]!r:.80}", ", ".join(str(key) for key in known)
        raise InvalidInput(
            "the work can't go on", [Problem(name, "invalid_choice", given, expected)]
        )
    targets = [str(key) if known is None else known[key] for key in keys]
    return _route(targets, f"{name}={','.join(str(key) for key in keys)}")


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
    raise_problems("the edge can't be added", problems)
    return name


START_NODE = "handoff_start"
"""The node that each run begins with: it names the run and records the state as it came in."""


class HandoffGraph:
    """Nodes, edges and conditions of agents that work on one task; `compile` gives the graph.

    Every node is wrapped as by `handoff_node`. `state` is a TypedDict that extends `AgentState`.
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
        self._edges: defaultdict[str, _Edges] = defaultdict(_Edges)
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

    def add_edge_when(
        self, source: str, condition: Callable[[Any], object], target: str, *, name: str = ""
    ) -> Self:
        """Add an edge that is taken when `condition` holds for the state after `source`.

        Of several, the first that holds decides; an edge without a condition is for the rest. The
        record of a run gives the condition's name.
        """
        self._check_open()
        name = _condition_name(condition, name)
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
        self._edges[source].choice = (_condition_name(path, name), path, targets)
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
        began = start_of(self._workspace, run, self._state)
        state: Plain = began["state"]
        changed: list[str] = []
        entry = self._route(START, state)
        if [*entry.targets] != began["targets"] or entry.condition != began["condition"]:
            changed.append(f"{START}: {entry.condition or entry.targets}")
        for each in transitions(self._workspace, run):
            state = apply_update(state, each.update, self._state)
            if each.condition == GOTO:
                continue
            route = self._route(each.source, state)
            if (route.targets, route.condition) != (each.targets, each.condition):
                changed.append(
                    f"step {each.step} {each.source}: {route.condition or 'no condition'}"
                )
        if changed:
            raise IntegrityViolation(f"run {run} would take another route now", changed)
        return replay(self._workspace, run, self._state)

    def _route(self, source: str, state: Mapping[str, Any]) -> Route:
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
        record_start(self._workspace, update["run"], self._task, began, entry)
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
    "HandoffGraph",
    "Transition",
    "replay",
    "runs",
    "transitions",
]

"""Where the work goes after an agent: explicit conditions with names, asked once, on record."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.adapters.langgraph.installed import END
from passdown.adapters.states.hops import Route
from passdown.adapters.states.transitions import Transition, replay, runs, transitions
from passdown.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Condition = Callable[[Any], object]

__all__ = ["Edges", "Transition", "replay", "runs", "transitions"]


class _When(NamedTuple):
    name: str
    holds: Condition
    target: str


class _Choice(NamedTuple):
    name: str
    path: Condition
    targets: Mapping[Any, str] | None


class _Leaving:
    """The edges that leave one node."""

    def __init__(self) -> None:
        self.when: list[_When] = []
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
        self._leaving: dict[str, _Leaving] = {}

    def _of(self, source: str) -> _Leaving:
        return self._leaving.setdefault(source, _Leaving())

    def add(self, source: str, target: str) -> None:
        """An edge without a condition."""
        if target not in self._of(source).fixed:
            self._of(source).fixed.append(target)

    def add_when(self, source: str, condition: Condition, target: str, name: str) -> None:
        """An edge that is taken when a condition holds for the state."""
        name = _named(condition, name)
        if any(each.name == name for each in self._of(source).when):
            problem = Problem(
                "name", "duplicate", f"{source} has a condition {name!r}", "a new one"
            )
            raise InvalidInput("the edge can't be added", [problem])
        self._of(source).when.append(_When(name, condition, target))

    def choose_by(
        self, source: str, path: Condition, targets: Mapping[Any, str] | None, name: str
    ) -> None:
        """Edges of which a function names one or several."""
        if self._of(source).choice is not None:
            problem = Problem("path", "duplicate", f"{source} has a choice already", "one choice")
            raise InvalidInput("the edges can't be added", [problem])
        self._of(source).choice = _Choice(_named(path, name), path, targets)

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
            return _chosen(leaving.choice, state)
        if leaving.when and not leaving.fixed:
            tried = ", ".join(each.name for each in leaving.when)
            problem = Problem(source, "no_edge", f"none of {tried} holds", "an edge to follow")
            step = "Add an edge without a condition for this case."
            raise InvalidInput("the work can't go on", [problem], next_step=step)
        return _route(leaving.fixed, "")


def _chosen(choice: _Choice, state: Mapping[str, Any]) -> Route:
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


def _named(condition: Condition, name: str) -> str:
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

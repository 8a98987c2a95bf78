"""A brief with a line under it, together within one budget of tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from passdown.adapters.histories import CHARACTERS
from passdown.adapters.states.handing import workspace_of
from passdown.errors import InvalidInput, Problem
from passdown.model.tokens import counter_of
from passdown.workspace.beside import Beside

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.adapters.states.handing import AnyWorkspace
    from passdown.model.tokens import Counter
    from passdown.workspace import Workspace
    from passdown.workspace.aliases import CounterLike


class Reader(NamedTuple):
    """Who is given a brief, from where, and how long it may be."""

    workspace: Workspace
    agent: str
    budget: int
    counter: CounterLike


def checked_reader(
    workspace: AnyWorkspace, agent: str, budget: object, counter: CounterLike
) -> Reader:
    """A reader whose briefs can be made. Raises InvalidInput: a handoff that is recorded and then
    can't be told would leave its receiver with nothing.
    """
    if not isinstance(budget, int) or isinstance(budget, bool) or budget < 1:
        given, expected = f"{str(budget)[:40]!r} given", "a whole number of tokens, 1 or more"
        problem = Problem("budget", "out_of_range", given, expected)
        raise InvalidInput("the brief can't be given", [problem])
    opened = workspace_of(workspace)
    counter_in(opened, counter)
    return Reader(opened, agent, budget, counter)


def counter_in(workspace: AnyWorkspace, given: CounterLike) -> Counter:
    """The counter that is given, else that of the workspace's settings. Raises InvalidInput."""
    return counter_of(given, Beside(workspace_of(workspace)).opened.settings.counter)


def spent_on(reader: Reader, words: Sequence[str]) -> int | None:
    """Tokens of what a person said last; None where that takes more than half of the budget."""
    most = reader.budget // 2
    # Counting megabytes takes seconds, and a text of so many characters is too long anyway.
    if sum(map(len, words)) > CHARACTERS * most:
        return None
    spent = sum(map(counter_in(reader.workspace, reader.counter).tokens, words))
    return spent if spent <= most else None


def brief_text(reader: Reader, task: str, kept: str) -> str:
    """The brief with a line on what else is kept, together within the budget."""
    workspace, agent, budget, counter = reader
    count = counter_in(workspace, counter).tokens
    room = budget - (count(f"\n{kept}\n") if kept else 0)
    if room < 1:
        kept, room = "", budget

    def text_of(*, record: bool) -> str:
        told = workspace.brief(task, agent=agent, budget=room, counter=counter, record=record)
        return f"{told.text.rstrip()}\n{kept}".rstrip() + "\n"

    # Tokens of two texts need not sum up to those of both, and only what is given is recorded.
    while count(text_of(record=False)) > budget and room > 1:
        room -= 1
    return text_of(record=True)

"""Briefs for receivers inside a program, within a budget of tokens."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from passdown.core.calls import FUNCTIONS
from passdown.core.tokens import counter_of
from passdown.errors import InvalidInput, Problem
from passdown.workspace import Workspace
from passdown.workspace.streams import WorkspaceStreams

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from passdown.aio import AsyncWorkspace
    from passdown.core.tokens import Counter, CounterLike
    from passdown.remote import RemoteWorkspace

    AnyWorkspace = Workspace | AsyncWorkspace

T = TypeVar("T")

MAX_CHARS_PER_TOKEN = 16
"""More than these for each token are taken for too long, uncounted."""


_BRIEF = re.compile(r"# \S+ for \S+, version [0-9]+ \[[0-9]+\]\n")


def is_brief(text: str) -> bool:
    """Whether a text begins as a brief does."""
    return bool(_BRIEF.match(text))


def last_in_a_row(items: Sequence[T], is_wanted: Callable[[T], bool]) -> list[T]:
    """The last items that are wanted, back to the first before them that isn't."""
    last = len(items)
    while last and not is_wanted(items[last - 1]):
        last -= 1
    first = last
    while first and is_wanted(items[first - 1]):
        first -= 1
    return list(items[first:last])


class BriefSettings(NamedTuple):
    """Whose brief is made, from which workspace, and how long it may be."""

    workspace: Workspace
    agent: str
    budget: int
    counter: CounterLike

    def beside(self, said: list[T], text_of: Callable[[T], str]) -> tuple[list[T], BriefSettings]:
        """A user's last messages and the settings for a brief beside them, which they are taken
        off; none of them if they take more than half of the budget.
        """
        words, most = [text_of(each) for each in said], self.budget // 2
        # Counting megabytes takes seconds, and a text of so many characters is too long anyway.
        if sum(map(len, words)) > MAX_CHARS_PER_TOKEN * most:
            return [], self
        spent = sum(map(workspace_counter(self.workspace, self.counter).tokens, words))
        return (said, self._replace(budget=self.budget - spent)) if spent <= most else ([], self)

    def text(self, task: str, hint: str) -> str:
        """The brief with a line on what else can be read, together within the budget."""
        count = workspace_counter(self.workspace, self.counter).tokens
        room = self.budget - (count(f"\n{hint}\n") if hint else 0)
        if room < 1:
            hint, room = "", self.budget
        brief = partial(self.workspace.brief, task, agent=self.agent, counter=self.counter)

        def text_of(*, record: bool) -> str:
            text = brief(budget=room, record=record, names=FUNCTIONS).text.rstrip()
            return f"{text}\n{hint}".rstrip() + "\n"

        # Tokens of two texts need not sum up to those of both, and only what is given is recorded.
        while count(text_of(record=False)) > self.budget and room > 1:
            room -= 1
        return text_of(record=True)


def brief_settings(
    workspace: AnyWorkspace, agent: str, budget: object, counter: CounterLike
) -> BriefSettings:
    """Checked settings; without a budget, with the workspace's. Raises InvalidInput.

    Checked early, because a recorded handoff without a brief leaves its receiver with nothing.
    """
    found = workspace_of(workspace)
    budget = WorkspaceStreams(found).settings.brief_budget if budget is None else budget
    if not isinstance(budget, int) or isinstance(budget, bool) or budget < 1:
        expected = "a whole number of tokens, 1 or more"
        problem = Problem("budget", "out_of_range", f"{str(budget)[:40]!r} given", expected)
        raise InvalidInput("the brief can't be made", [problem])
    workspace_counter(found, counter)
    return BriefSettings(found, agent, budget, counter)


def workspace_counter(workspace: AnyWorkspace, given: CounterLike) -> Counter:
    """The given counter, or the workspace's. Raises InvalidInput."""
    return counter_of(given, WorkspaceStreams(workspace_of(workspace)).settings.counter)


def workspace_of(workspace: AnyWorkspace) -> Workspace:
    """The workspace, also of an async one. Raises InvalidInput for anything else."""
    found: object = getattr(workspace, "_workspace", workspace)
    if isinstance(found, Workspace):
        return found
    given, expected = f"{type(workspace).__name__} given", "an open workspace"
    problem = Problem("workspace", "wrong_type", given, expected, "open one with passdown.open")
    raise InvalidInput("nothing can be recorded there", [problem])


def recording_workspace(workspace: AnyWorkspace, adapter: str) -> Workspace:
    """The workspace, for an adapter that records in the name of several agents.

    Behind a server, raises NotAllowed that names the adapter if the token doesn't allow that.
    """
    found = workspace_of(workspace)
    if not WorkspaceStreams(found).is_local:
        remote = cast("RemoteWorkspace", found)
        remote.require_rights(f"{adapter} can't record", "write", "others")
    return found

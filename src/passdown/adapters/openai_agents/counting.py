"""Tokens, counted as the workspace's settings say unless the caller says otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passdown.adapters.states.handing import workspace_of
from passdown.model.tokens import counter_of
from passdown.workspace.beside import Beside

if TYPE_CHECKING:
    from passdown.adapters.states.handing import AnyWorkspace
    from passdown.model.tokens import Counter
    from passdown.workspace.aliases import CounterLike


def counter_in(workspace: AnyWorkspace, given: CounterLike) -> Counter:
    """The counter that is given, else the workspace's own. Raises InvalidInput."""
    return counter_of(given, Beside(workspace_of(workspace)).opened.settings.counter)

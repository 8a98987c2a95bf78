"""The conversations of one agent: one for each peer, found or begun when it is first asked for.

A context is emptied in one place (`Conversation._begin`), reached in four ways: the peer enters
SETUP, the peer's lease is another one, somebody asks for it, the chapter is too old.
"""

from __future__ import annotations

import logging
import os.path
import threading
from typing import TYPE_CHECKING, Protocol

from passdown.errors import InvalidInput, Problem
from passdown.model.arguments import number_problems, text_type_problems
from passdown.model.conversation import EVERYONE
from passdown.model.names import agent_problems
from passdown.model.text import excerpt
from passdown.model.tokens import counter_of
from passdown.relay.conversation import Conversation, Terms
from passdown.relay.prompts import About, Templates, minimal_text, system_text
from passdown.workspace.beside import Beside

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from os import PathLike

    from passdown.model.conversation import Chapter, Leased, Message
    from passdown.model.tokens import Count, Counter
    from passdown.workspace import Workspace

    Pairs = Collection[tuple[str, str]]

_LOG = logging.getLogger("passdown.relay")

PER_AGENT, SINGLE = "per_agent", "single"
LEAST_WINDOW = 256
MAX_REPLY = 4_096


class Leases(Protocol):
    """Who is on which task."""

    def current_lease(self, agent: str) -> Leased | None:
        """The lease of an agent, or None for one that is on no task."""
        ...


class Conversations:
    """What an agent says to each of its peers, each apart from the others; threads may share it.

    `window` is the model's, in tokens (0: the workspace's); of it `reply_room` stays free for an
    answer and `margin` for what counters miss. `summary` makes a text of what no longer fits.
    `templates` is a folder whose files replace those that ship; without it, `templates` in the
    workspace's own folder. `sharing`: `per_agent` gives each peer a context of its own, `single`
    one to all of them together, pairs of (agent, peer) one of their own to these alone.
    """

    def __init__(
        self,
        workspace: Workspace,
        agent: str,
        *,
        leases: Leases,
        templates: str = "",
        profile: str = "",
        role: str = "",
        rules: str = "",
        spec: str | PathLike[str] = "",
        window: int = 0,
        reply_room: int | None = None,
        margin: int | None = None,
        counter: str | Count | Counter | None = None,
        max_age_hours: float = 0,
        sharing: str | Pairs = PER_AGENT,
        summary: Callable[[list[Message]], str] | None = None,
    ) -> None:
        self._beside = Beside(workspace)
        settings = self._beside.opened.settings
        window = window or settings.window
        _check(agent, window, max_age_hours, role=role, rules=rules)
        reply_room = min(MAX_REPLY, window // 4) if reply_room is None else reply_room
        margin = window // 50 if margin is None else margin
        self.agent = agent
        self.templates = Templates(templates or self._own_templates())
        self._workspace = workspace
        self._leases = leases
        self._about = About(agent, "", "", role, rules, spec, profile)
        self._sharing = _checked_sharing(sharing)
        self._counter = counter_of(counter, settings.counter)
        self._held: dict[str, Conversation] = {}
        self._lock = threading.Lock()
        self._terms = Terms(
            agent=agent,
            beside=self._beside,
            room=_room(window, reply_room, margin),
            tokens=self._counter.tokens,
            max_age_s=max_age_hours * 3_600,
            lease_of=leases.current_lease,
            system_of=self._system,
            summarise=_kept_going(summary) if summary else None,
        )

    def with_peer(self, peer: str) -> Conversation:
        """The conversation with a peer, always the same object; a chapter that is due is begun."""
        conversation = self._conversation(peer)
        conversation.context()
        return conversation

    def entered_setup(self, peer: str, *, key: str = "") -> Chapter:
        """The peer has entered SETUP: the context for its task is empty from here on.

        Nothing is done for a peer without a task, nor to a context that several peers share.
        With `key`, a repeat of the same event changes nothing.
        """
        return self._conversation(peer).begin_again("setup", key)

    def reset(self, peer: str, *, key: str = "") -> Chapter:
        """Empty the context with a peer because somebody wants it so; with or without a task."""
        return self._conversation(peer).begin_again("asked", key)

    def task_of(self, peer: str) -> str:
        """The task that a peer is on by its lease; empty for none."""
        lease = self._leases.current_lease(_checked_peer(peer))
        return lease.task if lease else ""

    def has_own(self, peer: str) -> bool:
        """Whether a peer has a context of its own."""
        if isinstance(self._sharing, str):
            return self._sharing == PER_AGENT
        return (self.agent, peer) in self._sharing

    def _conversation(self, peer: str) -> Conversation:
        name = EVERYONE if not self.has_own(_checked_peer(peer)) else peer
        with self._lock:
            if name not in self._held:
                self._held[name] = Conversation(self._terms, name)
            return self._held[name]

    def _own_templates(self) -> str:
        folder = os.path.join(self._beside.opened.place.folder, "templates")
        return folder if os.path.isdir(folder) else ""

    def _system(self, peer: str, lease: Leased | None) -> tuple[str, str]:
        """The system message for a peer, and what kept it from being more than a line."""
        name = "everyone who asks" if peer == EVERYONE else peer
        about = self._about._replace(peer=name, task=lease.task if lease else "")
        most = self._terms.room // 2
        try:
            text = system_text(self._workspace, self.templates, about, self._counter, most)
        except Exception as error:  # noqa: BLE001 - whatever it is, the old context must go
            return minimal_text(about), f"{type(error).__name__}: {excerpt(str(error), 1_000)}"
        return (text, "") if text else (minimal_text(about), "the template gives no text")


def _checked_peer(peer: str) -> str:
    problems = agent_problems(peer, "sender")
    if problems:
        raise InvalidInput("nobody can be told from this who asks", problems)
    return peer


def _check(agent: str, window: int, max_age_hours: float, **texts: str) -> None:
    problems = agent_problems(agent, "agent") + text_type_problems(**texts)
    problems += number_problems(window, "window", LEAST_WINDOW)
    is_number = isinstance(max_age_hours, int | float) and not isinstance(max_age_hours, bool)  # pyright: ignore[reportUnnecessaryIsInstance]
    if not is_number or not 0 <= max_age_hours < 1e9:
        shown = repr(max_age_hours)[:40]
        problems.append(Problem("max_age_hours", "out_of_range", shown, "0 (no limit) or more"))
    if problems:
        raise InvalidInput("no conversations can be held so", problems)


def _room(window: int, reply_room: int, margin: int) -> int:
    """What of the window is left for a context."""
    problems = number_problems(reply_room, "reply_room", 0, window)
    problems += number_problems(margin, "margin", 0, window)
    room = 0 if problems else window - reply_room - margin
    if not problems and room < window // 4:
        expected = "less than three quarters of it"
        problems.append(Problem("window", "too_small", f"{room:,} tokens are left", expected))
    if problems:
        raise InvalidInput("the window leaves no room for a context", problems)
    return room


def _checked_sharing(sharing: str | Pairs) -> str | frozenset[tuple[str, str]]:
    if isinstance(sharing, str):
        if sharing in (PER_AGENT, SINGLE):
            return sharing
        expected = f"{PER_AGENT}, {SINGLE} or pairs of (agent, peer)"
        problem = Problem("sharing", "invalid_choice", f"{excerpt(sharing)!r}", expected)
        raise InvalidInput("no conversations can be held so", [problem])
    # A text is a collection too: ("architect", "coder-1") instead of a set of pairs.
    problems = [
        Problem(f"sharing[{index}]", "wrong_type", repr(pair)[:40], "(agent, peer)")
        for index, pair in enumerate(sharing)
        if isinstance(pair, str) or len(pair) != 2
    ]
    if problems:
        raise InvalidInput("no conversations can be held so", problems)
    return frozenset(sharing)


def _kept_going(summary: Callable[[list[Message]], str]) -> Callable[[list[Message]], str]:
    """A caller's summary whose failure is told in the log; the lines of what was said follow."""

    def told(messages: list[Message]) -> str:
        try:
            return str(summary(messages) or "")
        except Exception as error:  # noqa: BLE001 - a message is recorded; it must not seem lost
            shown = f"{type(error).__name__}: {excerpt(str(error), 200)}"
            _LOG.warning("no summary was made: %s", shown, extra={"fault": shown})
            return ""

    return told

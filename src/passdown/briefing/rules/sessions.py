"""What is remembered between two prompts, and what counts as a switch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.briefing.rules.brackets import BRACKETS, bracket_of, is_number
from passdown.model.names import id_problems
from passdown.model.times import parse_time, stamp

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from passdown.errors import Problem

SCHEMA = 1
STALE_AFTER_S = 24 * 3_600
MAX_AGENTS = 100
"""How many of the latest activations a session's history holds."""

SCOPES = ("agent", "workflow", "squad")
"""What makes a switch when it changes; a new task within them doesn't."""

_ACTIVE = ("agent", "workflow", "squad", "task")


class History(NamedTuple):
    """The agents that were activated, oldest first, and the domains of the last prompt."""

    agents: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()


class Session(NamedTuple):
    """A conversation: how many prompts it had, what is active in it, and how full it is.

    `used_tokens` is the last count of its tokens that a prompt came with, None where none did, and
    `counted_at` the number of that prompt.
    """

    id: str
    prompt_count: int = 0
    active_agent: str = ""
    active_workflow: str = ""
    active_squad: str = ""
    active_task: str = ""
    bracket: str = BRACKETS[0].name
    percent: float = 100.0
    history: History = History()
    updated_at: str = ""
    used_tokens: float | None = None
    counted_at: int = 0

    def as_document(self) -> dict[str, Any]:
        """The session as a plain JSON object; `read_session` takes it back."""
        history = {name: list(names) for name, names in self.history._asdict().items()}
        return {"schema": SCHEMA, **self._asdict(), "history": history}


class Active(NamedTuple):
    """What a prompt says is active: None leaves the session's, an empty text means none."""

    agent: str | None = None
    workflow: str | None = None
    squad: str | None = None
    task: str | None = None


def active_problems(active: Active) -> list[Problem]:
    """What is wrong with the names of what is active."""
    return [
        problem
        for field, name in active._asdict().items()
        if name is not None and name != ""
        for problem in id_problems(name, field)
    ]


def begun(before: Session, active: Active) -> tuple[Session, tuple[str, ...]]:
    """The session at its next prompt, and which scopes were switched.

    A switch goes from one name to another: the first activation leaves nothing behind, and after
    a deactivation nothing new comes.
    """
    names = {
        scope: getattr(before, f"active_{scope}") if name is None else name
        for scope, name in active._asdict().items()
    }
    switched = tuple(
        scope
        for scope in SCOPES
        if (old := getattr(before, f"active_{scope}").casefold())
        and (new := names[scope].casefold())
        and old != new
    )
    agents = before.history.agents
    if names["agent"] and names["agent"] != before.active_agent:
        agents = (*agents, names["agent"])[-MAX_AGENTS:]
    after = before._replace(
        prompt_count=before.prompt_count + 1,
        history=before.history._replace(agents=agents),
        **{f"active_{scope}": name for scope, name in names.items()},
    )
    return after, switched


def counted(session: Session, used_tokens: object) -> Session:
    """The session with a count of its tokens; what is no such count leaves it as it is."""
    if not is_number(used_tokens) or not 0 <= used_tokens < 10**15:
        return session
    return session._replace(used_tokens=used_tokens, counted_at=session.prompt_count)


def ended(session: Session, percent: float, domains: Iterable[str], now: datetime) -> Session:
    """The session after its prompt was served."""
    return session._replace(
        bracket=bracket_of(percent).name,
        percent=percent,
        history=session.history._replace(domains=tuple(domains)),
        updated_at=stamp(now),
    )


def is_stale(session: Session, now: datetime) -> bool:
    """Whether a session is a day old; one from the future is none that a clock has seen."""
    age = now - parse_time(session.updated_at)
    return abs(age.total_seconds()) > STALE_AFTER_S


def read_session(document: object, id: str) -> Session | None:
    """The session in a JSON document; None unless it is whole, and the one that is meant."""
    if not isinstance(document, dict):
        return None
    given = {"used_tokens": None, "counted_at": 0, **cast("dict[str, object]", document)}
    names = {f"active_{scope}": given.get(f"active_{scope}") for scope in _ACTIVE}
    history = _history(given.get("history"))
    is_whole = (
        given.keys() == {"schema", *Session._fields}
        and (given["schema"], given["id"]) == (SCHEMA, id)
        and not any(name != "" and id_problems(name, scope) for scope, name in names.items())
        and _is_count(given["prompt_count"])
        and given["bracket"] in [bracket.name for bracket in BRACKETS]
        and is_number(given["percent"])
        and _is_counted(given)
        and history is not None
        and _is_time(given["updated_at"])
    )
    fields: dict[str, Any] = {**given, "history": history}
    return Session(*(fields[name] for name in Session._fields)) if is_whole else None


def _history(value: object) -> History | None:
    if not isinstance(value, dict):
        return None
    given = cast("dict[str, object]", value)
    lists = [given.get(name) for name in History._fields]
    if given.keys() != set(History._fields) or not all(_is_texts(names) for names in lists):
        return None
    return History(*(tuple(cast("list[str]", names)) for names in lists))


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(part, str) for part in cast("list[object]", value)
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**15


def _is_counted(given: dict[str, object]) -> bool:
    used, at, now = given["used_tokens"], given["counted_at"], given["prompt_count"]
    if not _is_count(at) or cast("int", at) > cast("int", now):
        return False
    return used is None or (is_number(used) and 0 <= used < 10**15)


def _is_time(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(parse_time(value))
    except (ValueError, OverflowError):
        return False

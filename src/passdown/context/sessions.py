"""How full a conversation's context is, when to compact it, and what is kept between prompts.

A bracket says how many tokens of rules a prompt may contain and from which layers. A value that is
not a number counts as the worst case: a wrong figure must not make a full context look empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple, TypeGuard, cast

from passdown.core.codec import decode, encode
from passdown.core.names import id_problems
from passdown.core.times import parse_time, stamp
from passdown.errors import InvalidInput, Problem

FRESH_FROM, MODERATE_FROM, DEPLETED_FROM = 60, 40, 25
ALL_LAYERS = (0, 1, 2, 3, 4, 5, 6, 7)

TOKENS_PER_PROMPT = 1_500
PROMPT_FACTOR = 1.2
"""Stands for what comes along with a prompt: tool results, reminders, formatting."""

COMPACT_AT = 0.25
"""The share of the window from which compaction is due, long before the window is full."""


class Bracket(NamedTuple):
    """What a prompt may carry from `floor` percent of remaining context upwards."""

    name: str
    floor: int
    budget: int
    layers: tuple[int, ...]
    has_memory: bool = False
    has_warning: bool = False


FRESH = Bracket("FRESH", FRESH_FROM, 800, (0, 1, 2, 7))
MODERATE = Bracket("MODERATE", MODERATE_FROM, 1_500, ALL_LAYERS)
DEPLETED = Bracket("DEPLETED", DEPLETED_FROM, 2_000, ALL_LAYERS, has_memory=True)
CRITICAL = Bracket("CRITICAL", 0, 2_500, ALL_LAYERS, has_memory=True, has_warning=True)
BRACKETS = (FRESH, MODERATE, DEPLETED, CRITICAL)


class Compaction(NamedTuple):
    """Whether to compact, and why: `used` of `window` tokens, due from `threshold`.

    `used` is None where it is no number. `reasons` holds `threshold`, `switch` or `bad_number`.
    """

    due: bool
    used: float | None
    threshold: int
    window: float
    reasons: tuple[str, ...] = ()


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a finite number; True and False are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    # A comparison, since math.isfinite fails on whole numbers too large for a float.
    return float("-inf") < value < float("inf")


def bracket_of(percent: object) -> Bracket:
    """The bracket for a remaining percentage; CRITICAL for what is no finite number."""
    if not is_number(percent):
        return CRITICAL
    return next((bracket for bracket in BRACKETS if percent >= bracket.floor), CRITICAL)


def checked_window(window: object) -> float:
    """A context window, which has to be a number above 0; InvalidInput otherwise."""
    if is_number(window) and window > 0:
        return window
    problem = Problem("window", "out_of_range", f"{window!r:.40} given", "a number above 0")
    raise InvalidInput("the context window is no size", [problem])


def estimated_tokens(prompts: object) -> float | None:
    """What a number of prompts has used, as far as one can tell without a count."""
    if not is_number(prompts) or prompts < 0:
        return None
    return min(prompts, 10**15) * TOKENS_PER_PROMPT * PROMPT_FACTOR


def used_since(count: object, prompts: object) -> float | None:
    """What is used a number of prompts after a count; None where nothing was counted."""
    since = estimated_tokens(prompts)
    if since is None or not is_number(count) or count < 0:
        return None
    return min(count, 10**15) + since


def remaining_percent(window: object, *, prompts: object = 0, used_tokens: object = None) -> float:
    """How much of the window is left, from 0 to 100: by count, or by the number of prompts.

    Figures that are no numbers give 0. A window that isn't above 0 is refused.
    """
    size = checked_window(window)
    used = estimated_tokens(prompts) if used_tokens is None else used_tokens
    if not is_number(used) or used < 0:
        return 0.0
    return 100.0 - 100.0 * (min(used, size) / size)


def compaction_of(
    used_tokens: object, window: object, compact_at: object = COMPACT_AT
) -> Compaction:
    """Whether compaction is due at `compact_at` of the window; due as well for bad numbers."""
    used = used_tokens if is_number(used_tokens) and used_tokens >= 0 else None
    if not is_number(window) or window <= 0:
        return Compaction(True, used, 0, 0, ("bad_number",))
    if not is_number(compact_at) or not 0 < compact_at <= 1:
        return Compaction(True, used, 0, window, ("bad_number",))
    # Rounded, since 0.07 of 100 is a little more than 7 in floating point.
    threshold = max(1, round(min(window, 10**15) * compact_at))
    if used is None:
        return Compaction(True, None, threshold, window, ("bad_number",))
    is_due = used >= threshold
    return Compaction(is_due, used, threshold, window, ("threshold",) if is_due else ())


SCHEMA = 1
STALE_AFTER_S = 24 * 3_600
MAX_AGENTS = 100
"""How many of the latest activations a session's history holds."""

SCOPES = ("agent", "workflow", "squad")
"""What makes a switch when it changes; a new task within them doesn't."""


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

    def to_dict(self) -> dict[str, Any]:
        """The session as a plain JSON object; `read_session` takes it back."""
        return {"schema": SCHEMA, **self._asdict(), "history": encode(self.history)}


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


def begin_prompt(before: Session, active: Active) -> tuple[Session, tuple[str, ...]]:
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
    given = {"used_tokens": None, "counted_at": 0, **cast("dict[str, Any]", document)}
    if given.keys() != {"schema", *Session._fields} or (given["schema"], given["id"]) != (
        SCHEMA,
        id,
    ):
        return None
    try:
        found: Session = decode(Session, given)
        parse_time(found.updated_at)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    names = Active(*(getattr(found, f"active_{scope}") for scope in Active._fields))
    used = found.used_tokens
    is_whole = (
        encode(found.history) == given["history"]
        and not active_problems(names)
        and found.bracket in [bracket.name for bracket in BRACKETS]
        and is_number(found.percent)
        and _is_count(found.prompt_count)
        and _is_count(found.counted_at)
        and found.counted_at <= found.prompt_count
        and (used is None or (is_number(used) and 0 <= used < 10**15))
    )
    return found if is_whole else None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**15

"""How much of the context is left: the bracket that follows from it, and whether to compact.

A bracket says how many tokens of rules a prompt may carry and from which layers. What isn't a
number counts as the worst case: a wrong figure must not make a full context look empty.
"""

from __future__ import annotations

from typing import NamedTuple, TypeGuard

from passdown.errors import InvalidInput, Problem

FRESH_FROM = 60
MODERATE_FROM = 40
DEPLETED_FROM = 25

FRESH_BUDGET = 800
MODERATE_BUDGET = 1_500
DEPLETED_BUDGET = 2_000
CRITICAL_BUDGET = 2_500

FRESH_LAYERS = (0, 1, 2, 7)
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


FRESH = Bracket("FRESH", FRESH_FROM, FRESH_BUDGET, FRESH_LAYERS)
MODERATE = Bracket("MODERATE", MODERATE_FROM, MODERATE_BUDGET, ALL_LAYERS)
DEPLETED = Bracket("DEPLETED", DEPLETED_FROM, DEPLETED_BUDGET, ALL_LAYERS, has_memory=True)
CRITICAL = Bracket("CRITICAL", 0, CRITICAL_BUDGET, ALL_LAYERS, has_memory=True, has_warning=True)
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


def compaction_due(used_tokens: object, window: object, compact_at: object = COMPACT_AT) -> bool:
    """Whether so many tokens of a window are enough to compact; yes for bad numbers."""
    return compaction_of(used_tokens, window, compact_at).due

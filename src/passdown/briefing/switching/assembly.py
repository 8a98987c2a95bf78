"""The prompt after a change of agents: one profile, what earlier agents left, and the brief."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from passdown.briefing.switching.fields import MAX_RETAINED
from passdown.model.tokens import counter_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.model.tokens import Count, Counter

PARTS = ("profile", "rules", "summaries", "brief")
"""The parts of an assembled context, in their order."""

_BETWEEN = "\n\n"


class Assembled(NamedTuple):
    """A context ready for a model, and the parts it was made of; empty parts aren't in it."""

    text: str
    parts: tuple[tuple[str, str], ...]


def assemble(profile: str, summaries: Sequence[str], brief: str, rules: str = "") -> Assembled:
    """The context of the agent that takes over.

    The profile comes first and unchanged, and it is the only one. Summaries of earlier agents are
    given oldest first; of more than three the last three are shown.
    """
    kept = [summary for summary in summaries if summary.strip()][-MAX_RETAINED:]
    given = (
        ("profile", profile),
        ("rules", rules if rules.strip() else ""),
        ("summaries", _BETWEEN.join(kept)),
        ("brief", brief if brief.strip() else ""),
    )
    parts = tuple((name, text) for name, text in given if text)
    return Assembled(_BETWEEN.join(text for _, text in parts), parts)


def tokens_by_part(assembled: Assembled, counter: str | Count | Counter | None) -> dict[str, int]:
    """Tokens of each part (0 for one that isn't there) and, as `total`, of the whole text."""
    count = counter_of(counter).tokens
    found = dict(assembled.parts)
    by_part = {name: count(found[name]) if name in found else 0 for name in PARTS}
    return {**by_part, "total": count(assembled.text)}


def subagent_prompt(persona: str, task: str) -> str:
    """The prompt of a subagent: its whole persona and its whole task, both unchanged."""
    return _BETWEEN.join(part for part in (persona, task) if part)

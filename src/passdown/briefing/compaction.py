"""A task in at most 2,000 characters, for a context that has to be made smaller.

The latest decisions keep their reasons, older ones are counted and named; whatever is cut shows a
mark, and the text says how the rest is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.briefing.summary import (
    MARK,
    MAX_TOKENS,
    blocking,
    cut_at,
    is_live,
    one_line,
    phase_line,
    shortened,
)
from passdown.model.tokens import counter_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from passdown.model.tokens import Count, Counter

Document = dict[str, Any]

MAX_CHARACTERS = 2_000
SHOWN = 5
"""How many decisions keep their rationale."""
NAMED = 3
"""How many of the decisions before them are named."""
RATIONALE = 100
_SUMMARY, _EARLIER, _TITLE, _ISSUE, _STANDS = 80, 30, 80, 60, 160
_ID = 128


def compact_decisions(decisions: Sequence[Document], *, task: str, total: int | None = None) -> str:
    """The last five live decisions with their reasons, and one line on all the others.

    `total` is how many decisions the task has, where `decisions` holds only the newest.
    """
    return "\n".join(_decision_lines(decisions, task, total, SHOWN))


def compact_context(
    state: Document,
    *,
    counter: str | Count | Counter | None = None,
    max_tokens: int = MAX_TOKENS,
) -> str:
    """A state in at most 2,000 characters and, with a `counter`, at most `max_tokens` by it."""
    tokens = counter_of(counter).tokens if counter is not None else None
    for text in _shapes(state):
        if len(text) <= MAX_CHARACTERS and (tokens is None or tokens(text) <= max_tokens):
            return text
    return ""


def _shapes(state: Document) -> Iterator[str]:
    """The text from its fullest shape to a mark alone; whole lines go, and the text says so."""
    task = shortened(state["task_id"], _ID)
    head = [
        f"## {task}: {shortened(state['title'], _TITLE)}",
        f"{phase_line(state)}, version {state['version']}",
    ]
    more = [f"Blocking: {blocking(state, _ISSUE)}"]
    if state.get("context_summary"):
        more.append(f"Where it stands: {shortened(state['context_summary'], _STANDS)}")
    total = state.get("totals", {}).get("decisions")
    cut = [f"{MARK} cut to fit; the whole: {_command(task)}"]
    yield "\n".join([*head, *more, *_decision_lines(state["decisions"], task, total, SHOWN)])
    for shown in range(SHOWN, 0, -1):
        yield "\n".join(
            [*head, *more[:1], *_decision_lines(state["decisions"], task, total, shown), *cut]
        )
    yield "\n".join([*head, *more[:1], *cut])
    yield "\n".join([*head[1:], *cut])
    yield "\n".join(cut)
    yield MARK


def _decision_lines(
    decisions: Sequence[Document], task: str, total: int | None, shown: int
) -> list[str]:
    live = [decision for decision in decisions if is_live(decision)]
    last = live[-shown:]
    others = max(len(decisions) if total is None else total, len(decisions)) - len(last)
    if not last and not others:
        return ["Decisions: None"]
    lines = ["Decisions:", *(f"- {_reasoned(decision)}" for decision in last)]
    if others:
        earlier = live[: len(live) - len(last)][-NAMED:]
        names = "; ".join(shortened(decision["summary"], _EARLIER) for decision in earlier)
        named = f", the last of them: {names}" if names else ""
        noun = "decision" if others == 1 else "decisions"
        lines.append(
            f"- {others} more {noun}, earlier or no longer in force{named} ({_command(task)})"
        )
    return lines


def _reasoned(decision: Document) -> str:
    why = cut_at(one_line(decision.get("rationale", "")), RATIONALE)
    what = shortened(decision["summary"], _SUMMARY)
    return f"{what} (why: {why})" if why else what


def _command(task: str) -> str:
    return f"passdown state {shortened(task, _ID)} --json"

"""Short texts about one task: the summary for a prompt, and the compact context.

A summary names the version and digest it was made from, so that an outdated one can be recognised,
and the state file for everything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from passdown.context.pipeline import (
    ELLIPSIS,
    beginning,
    budget_of,
    collapse,
    cut,
    left_out_line,
    shortened,
)
from passdown.core.kinds import phase_before
from passdown.core.text import counted, first_few, visible
from passdown.core.tokens import CounterLike
from passdown.core.types import JsonObject

MAX_TOKENS = 500
"""How long a summary may be: of a task, and what a sender says of the state of the work."""

# How long a title, a shorter text and what the sender says may be, from the fullest summary to the
# tightest.
_WIDTHS = ((120, 60, 1_000), (120, 60, 400), (120, 60, 160), (60, 30, 80), (24, 12, 40))
# What goes, line by line, when even the tightest doesn't fit; the state file stays longest.
_DROP_ORDER = (
    *("decisions", "artifacts", "gates", "phase", "heading", "said", "blocking", "version", "task"),
)
_NAMED_GATES = 2


def summary(
    state: JsonObject,
    state_file: str,
    max_tokens: int = MAX_TOKENS,
    counter: CounterLike = None,
) -> str:
    """The summary of a state document, at most `max_tokens` long.

    Without a `counter`, a token is four UTF-16 units. What doesn't fit is shortened with a mark;
    then whole lines go, the one that names the state file last.
    """
    return budget_of(max_tokens, counter, "chars4").first(_summary_shapes(state, state_file))


def bounded(text: str, max_tokens: int = MAX_TOKENS, counter: CounterLike = None) -> str:
    """A text, or as many of its first words as fit with a mark behind them."""
    budget = budget_of(max_tokens, counter)
    if budget.fits(text):
        return text
    words = re.findall(r"\s*\S{1,80}", text)
    kept, _ = beginning(words, lambda some: budget.fits("".join(some) + ELLIPSIS))
    return "".join(kept) + ELLIPSIS


def _summary_shapes(state: JsonObject, state_file: str) -> Iterator[str]:
    """The summary from its fullest shape to nothing."""
    lines: dict[str, str] = {}
    for widths in _WIDTHS:
        lines = _lines(state, state_file, *widths)
        yield "\n".join(lines.values())
    for name in _DROP_ORDER:
        lines.pop(name, None)
        yield "\n".join(lines.values())
    yield visible(state_file)
    yield ELLIPSIS


def _lines(state: JsonObject, state_file: str, title: int, text: int, own: int) -> dict[str, str]:
    passed, failed = len(state["gates_passed"]), len(state["gates_failed"])
    words = state.get("context_summary")
    total = state.get("totals", {}).get("artifacts", len(state["artifacts"]))
    types = sorted({a["type"] for a in state["artifacts"] if a.get("type")})
    kinds = f" ({shortened(', '.join(types), title)})" if types else ""
    live = [d for d in state["decisions"] if is_live(d)][-2:]
    decided = "; ".join(shortened(d["summary"], text) for d in live)
    waiting = first_few(list(state.get("held_by", ())), _NAMED_GATES)
    place, task = visible(state_file), state["task_id"]
    is_served = place.startswith("/api/")  # not a file here, but an address of a server
    return {
        "heading": "## Agent Handoff State",
        "task": f"Task: {task} - {shortened(state['title'], title)}",
        "phase": phase_line(state),
        **({"said": f"Where it stands: {shortened(words, own)}"} if words else {}),
        "artifacts": f"Artifacts: {total} file{'' if total == 1 else 's'}{kinds}",
        "decisions": f"Decisions: {decided or 'None'}",
        "blocking": f"Blocking: {blocking(state, text)}",
        "gates": f"Gates: {passed} passed, {failed} failed"
        + (f", held by {waiting} until a person answers" if waiting else ""),
        "file": f"State: passdown state {task}, or GET {place}"
        if is_served
        else f"State file: {place}",
        "version": f"Version: {state['version']} ({state['digest']})",
    }


def phase_line(state: JsonObject) -> str:
    """The phase of a state, and which one the task came from."""
    came = phase_before(state["phase"], state.get("previous_phase"), first="start")
    return f"Phase: {state['phase']}" + (f" (from: {came})" if came else "")


def is_live(decision: JsonObject) -> bool:
    """Whether a decision is in force: neither superseded nor reverted."""
    return decision["status"] in ("accepted", "proposed")


def blocking(state: JsonObject, limit: int) -> str:
    """The open issues of a state in one line: blockers by severity, then blocking questions."""
    issues = [b for b in state["blockers"] if b["status"] == "open"]
    hard = [b for b in issues if b["severity"] == "blocker"]
    softer = [b for b in issues if b["severity"] != "blocker"]
    parts: list[str] = []
    if hard:
        parts.append(f"{len(hard)} blocker(s): {shortened(hard[0]['blocker'], limit)}")
    if softer:
        grades = ", ".join(dict.fromkeys(b["severity"] for b in softer))
        less = f"{counted(len(softer), 'blocker')} of {grades} severity"
        less = f"{len(softer)} less severe" if hard else less
        parts.append(f"{less}: {shortened(softer[0]['blocker'], limit)}")
    questions = [q for q in state.get("questions", ()) if q["status"] == "open" and q["blocking"]]
    if questions:
        more = f" (and {len(questions) - 1} more)" if len(questions) > 1 else ""
        name = questions[0]["address"].partition("#")[2]
        parts.append(f"question {name}{more}: {shortened(questions[0]['question'], limit)}")
    return "; ".join(parts) or "None"


MAX_CHARACTERS = 2_000
SHOWN = 5
"""How many decisions keep their rationale."""
NAMED = 3
"""How many of the decisions before them are named."""
RATIONALE = 100
_SUMMARY, _EARLIER, _TITLE, _ISSUE, _STATUS_TEXT = 80, 30, 80, 60, 160
_ID = 128


def compact_context(
    state: JsonObject,
    *,
    counter: CounterLike = None,
    max_tokens: int = MAX_TOKENS,
) -> str:
    """A state in at most 2,000 characters and, with a `counter`, at most `max_tokens` by it."""
    if counter is None:
        counter, max_tokens = len, MAX_CHARACTERS
    budget = budget_of(max_tokens, counter, max_characters=MAX_CHARACTERS)
    return budget.first(_compact_shapes(state))


def _compact_shapes(state: JsonObject) -> Iterator[str]:
    """The text from its fullest shape to a mark alone; whole lines go, and the text says so."""
    task = shortened(state["task_id"], _ID)
    head = [
        f"## {task}: {shortened(state['title'], _TITLE)}",
        f"{phase_line(state)}, version {state['version']}",
    ]
    more = [f"Blocking: {blocking(state, _ISSUE)}"]
    if state.get("context_summary"):
        more.append(f"Where it stands: {shortened(state['context_summary'], _STATUS_TEXT)}")
    total = state.get("totals", {}).get("decisions")
    cut = [left_out_line([ELLIPSIS], _command(task))]
    yield "\n".join([*head, *more, *_decision_lines(state["decisions"], task, total, SHOWN)])
    for shown in range(SHOWN, 0, -1):
        yield "\n".join(
            [*head, *more[:1], *_decision_lines(state["decisions"], task, total, shown), *cut]
        )
    yield "\n".join([*head, *more[:1], *cut])
    yield "\n".join([*head[1:], *cut])
    yield "\n".join(cut)
    yield ELLIPSIS


def _decision_lines(
    decisions: Sequence[JsonObject], task: str, total: int | None, shown: int
) -> list[str]:
    """The last live decisions with their reasons, and one line on all the others; `total` is how
    many the task has, where `decisions` holds only the newest.
    """
    live = [decision for decision in decisions if is_live(decision)]
    last = live[-shown:]
    others = max(len(decisions) if total is None else total, len(decisions)) - len(last)
    if not last and not others:
        return ["Decisions: None"]
    lines = ["Decisions:"]
    for decision in last:
        why = cut(collapse(decision.get("rationale", "")), RATIONALE)
        what = shortened(decision["summary"], _SUMMARY)
        lines.append(f"- {what} (why: {why})" if why else f"- {what}")
    if others:
        earlier = live[: len(live) - len(last)][-NAMED:]
        names = "; ".join(shortened(decision["summary"], _EARLIER) for decision in earlier)
        named = f" ({names})" if names else ""
        more = f"{counted(others, 'decision')}, earlier or no longer in force{named},"
        lines.append(f"- {left_out_line([more], _command(task))}")
    return lines


def _command(task: str) -> str:
    return f"passdown state {shortened(task, _ID)} --json"

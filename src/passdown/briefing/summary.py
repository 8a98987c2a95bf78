"""The short summary that travels in a prompt and names the handle file for everything else.

It is made from one version of a task and carries that version and its digest, so that a summary
which has been overtaken can be recognised.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from passdown.model.kinds import phase_before
from passdown.model.text import visible
from passdown.model.tokens import counter_of
from passdown.model.values import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from passdown.model.tokens import Count, Counter

Document = dict[str, Any]

MAX_TOKENS = 500
MARK = "…"
"""Stands where text was cut."""

_VERSION = re.compile(r"^Version: (\d+) \((sha256:[0-9a-f]{64})\)$", re.MULTILINE)
_PARTIAL = re.compile(r"\\(?:x[0-9a-f]?|u[0-9a-f]{0,3}|U[0-9a-f]{0,7})?$")

# How long a title and a shorter text may be, from the fullest summary to the tightest.
_WIDTHS = ((120, 60), (60, 30), (24, 12))
# What goes, line by line, when even the tightest doesn't fit; the state file stays longest.
_GOES = ("decisions", "artifacts", "gates", "phase", "heading", "blocking", "version", "task")
_NAMED_GATES = 2


class Freshness(NamedTuple):
    """Whether a summary still holds: the version it was made from, and the one that is stored."""

    is_current: bool
    made_from: int
    now: int


def summary(
    state: Document,
    state_file: str,
    max_tokens: int = MAX_TOKENS,
    counter: str | Count | Counter | None = None,
) -> str:
    """The summary of a state document, at most `max_tokens` long.

    Without a `counter`, a token is four UTF-16 units. What doesn't fit is shortened with a mark;
    then whole lines go, the one that names the state file last.
    """
    tokens = counter_of(counter, "chars4").tokens
    return next((text for text in _shapes(state, state_file) if tokens(text) <= max_tokens), "")


def _shapes(state: Document, state_file: str) -> Iterator[str]:
    """The summary from its fullest shape to nothing."""
    lines: dict[str, str] = {}
    for title, text in _WIDTHS:
        lines = _lines(state, state_file, title, text)
        yield "\n".join(lines.values())
    for name in _GOES:
        del lines[name]
        yield "\n".join(lines.values())
    yield visible(state_file)
    yield MARK


def _lines(state: Document, state_file: str, title: int, text: int) -> dict[str, str]:
    passed, failed = len(state["gates_passed"]), len(state["gates_failed"])
    return {
        "heading": "## Agent Handoff State",
        "task": f"Task: {state['task_id']} - {shortened(state['title'], title)}",
        "phase": phase_line(state),
        "artifacts": f"Artifacts: {_artifacts(state, title)}",
        "decisions": f"Decisions: {_decisions(state, text)}",
        "blocking": f"Blocking: {blocking(state, text)}",
        "gates": f"Gates: {passed} passed, {failed} failed{_held(state)}",
        "file": _whole(state["task_id"], state_file),
        "version": f"Version: {state['version']} ({state['digest']})",
    }


def _whole(task: str, place: str) -> str:
    """The line that says where the whole state is: a file here, or an address of a server."""
    if place.startswith("/api/"):
        return f"State: passdown state {task}, or GET {visible(place)}"
    return f"State file: {visible(place)}"


def phase_line(state: Document) -> str:
    """The phase of a state, and which one the task came from."""
    came = phase_before(state["phase"], state.get("previous_phase"), first="start")
    return f"Phase: {state['phase']}" + (f" (from: {came})" if came else "")


def made_from(text: str) -> tuple[int, str] | None:
    """The version and digest that a summary says it was made from; None when it says nothing."""
    found = _VERSION.search(text)
    return (int(found[1]), found[2]) if found else None


def one_line(text: str) -> str:
    """A text on one line, with nothing in it that doesn't show."""
    return visible(" ".join(text.split()))


def cut_at(text: str, kept: int) -> str:
    """The first `kept` characters of a line, with a mark after them when there were more."""
    # An escape that is cut in the middle would read as another character.
    return text if len(text) <= kept else _PARTIAL.sub("", text[:kept]) + MARK


def shortened(text: str, limit: int) -> str:
    """A text on one line of at most `limit` characters, the mark of a cut included."""
    flat = one_line(text)
    return flat if len(flat) <= limit else cut_at(flat, max(limit - 1, 0))


def is_live(decision: Document) -> bool:
    """Whether a decision is in force: neither superseded nor reverted."""
    return decision["status"] in ("accepted", "proposed")


def blocking(state: Document, limit: int) -> str:
    """The open issues of a state in one line: blockers by severity, then blocking questions."""
    issues = [b for b in state["blockers"] if b["status"] == "open"]
    hard = [b for b in issues if b["severity"] == "blocker"]
    softer = [b for b in issues if b["severity"] != "blocker"]
    parts: list[str] = []
    if hard:
        parts.append(f"{len(hard)} blocker(s): {shortened(hard[0]['blocker'], limit)}")
    if softer:
        parts.append(f"{_softer(len(softer), hard)}: {shortened(softer[0]['blocker'], limit)}")
    questions = [q for q in state.get("questions", ()) if q["status"] == "open" and q["blocking"]]
    if questions:
        more = f" (and {len(questions) - 1} more)" if len(questions) > 1 else ""
        name = questions[0]["address"].partition("#")[2]
        parts.append(f"question {name}{more}: {shortened(questions[0]['question'], limit)}")
    return "; ".join(parts) or "None"


def _softer(number: int, hard: list[Document]) -> str:
    if hard:
        return f"{number} less severe"
    if number == 1:
        return "1 blocker, not of severity blocker"
    return f"{number} blockers, none of severity blocker"


def _held(state: Document) -> str:
    waiting = list(state.get("held_by", ()))
    if not waiting:
        return ""
    more = len(waiting) - _NAMED_GATES
    names = ", ".join(waiting[:_NAMED_GATES]) + (f" and {more} more" if more > 0 else "")
    return f", held by {names} until a person answers"


def _artifacts(state: Document, limit: int) -> str:
    total = state.get("totals", {}).get("artifacts", len(state["artifacts"]))
    types = sorted({a["type"] for a in state["artifacts"] if a.get("type")})
    noun = "file" if total == 1 else "files"
    return f"{total} {noun} ({shortened(', '.join(types), limit)})" if types else f"{total} {noun}"


def _decisions(state: Document, limit: int) -> str:
    live = [d for d in state["decisions"] if is_live(d)]
    return "; ".join(shortened(d["summary"], limit) for d in live[-2:]) or "None"

"""The short summary that travels in a prompt and names the handle file for everything else.

It is made from one version of a task and carries that version and its digest, so that a summary
which has been overtaken can be recognised.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from passdown.model.text import visible

Document = dict[str, Any]

MAX_TOKENS = 500
_LINE = 120
_VERSION = re.compile(r"^Version: (\d+) \((sha256:[0-9a-f]{64})\)$", re.MULTILINE)


class Freshness(NamedTuple):
    """Whether a summary still holds: the version it was made from, and the one that is stored."""

    is_current: bool
    made_from: int
    now: int


def summary(state: Document, state_file: str, max_tokens: int = MAX_TOKENS) -> str:
    """The summary of a state document, at most `max_tokens` by four characters each."""
    waiting = state.get("held_by", ())
    held = f", held by {', '.join(waiting)} until a person answers" if waiting else ""
    lines = [
        "## Agent Handoff State",
        f"Task: {state['task_id']} - {_short(state['title'])}",
        f"Phase: {state['phase']} (from: {state['previous_phase'] or 'start'})",
        f"Artifacts: {_artifacts(state)}",
        f"Decisions: {_decisions(state)}",
        f"Blocking: {_blocking(state)}",
        f"Gates: {len(state['gates_passed'])} passed, {len(state['gates_failed'])} failed{held}",
        f"State file: {state_file}",
        f"Version: {state['version']} ({state['digest']})",
    ]
    limit = max_tokens * 4
    text = "\n".join(lines)
    # The lines that say most stay longest: drop from the middle until the rest fits.
    for droppable in (4, 3, 6, 2, 0):
        if len(text) <= limit:
            break
        lines[droppable] = ""
        text = "\n".join(line for line in lines if line)
    return text if len(text) <= limit else text[: max(limit, 0)]


def made_from(text: str) -> tuple[int, str] | None:
    """The version and digest that a summary says it was made from; None when it says nothing."""
    found = _VERSION.search(text)
    return (int(found[1]), found[2]) if found else None


def _short(text: str, limit: int = _LINE) -> str:
    flat = visible(" ".join(text.split()))
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def _artifacts(state: Document) -> str:
    total = state.get("totals", {}).get("artifacts", len(state["artifacts"]))
    types = sorted({a["type"] for a in state["artifacts"] if a.get("type")})
    noun = "file" if total == 1 else "files"
    return f"{total} {noun} ({', '.join(types)})" if types else f"{total} {noun}"


def _decisions(state: Document) -> str:
    live = [d for d in state["decisions"] if d["status"] in ("accepted", "proposed")]
    return "; ".join(_short(d["summary"], 60) for d in live[-2:]) or "None"


def _blocking(state: Document) -> str:
    issues = [b for b in state["blockers"] if b["status"] == "open"]
    if not issues:
        return "None"
    hard = [b for b in issues if b["severity"] == "blocker"]
    parts: list[str] = []
    if hard:
        parts.append(f"{len(hard)} blocker(s): {_short(hard[0]['blocker'], 60)}")
    if len(issues) > len(hard):
        softer = [b for b in issues if b["severity"] != "blocker"]
        parts.append(f"{len(softer)} below blocker: {_short(softer[0]['blocker'], 60)}")
    return "; ".join(parts)

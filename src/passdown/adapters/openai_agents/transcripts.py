"""What was taken out of an agent's input, within reach: a tool for agents, a text for people."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

from agents import FunctionTool, function_tool

from passdown.adapters.openai_agents.items import ItemLog
from passdown.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from passdown.adapters.openai_agents.items import Kept
    from passdown.workspace import Workspace

TOOL = "read_history"
MODULE = "passdown.adapters.openai_agents"
EXCERPT = 80
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def handed_log(workspace: Workspace, task: str) -> ItemLog:
    """The log of everything that handoffs of a task took out of a model's input."""
    return ItemLog(workspace, f"{task}.handed")


def history_tool(workspace: Workspace, session_id: str) -> FunctionTool:
    """A tool `read_history(items)` for agents: items of a session or handed log, by number."""
    log = ItemLog(workspace, session_id)

    async def read_history(items: str = "") -> str:
        """Read earlier items of the conversation in full.

        Args:
            items: Numbers such as 4 or 4-9,12; empty for a list of what there is.
        """
        try:
            return await asyncio.to_thread(history_text, log.all(), items)
        except InvalidInput as error:
            return str(error)

    return function_tool(read_history, name_override=TOOL)


def history_text(kept: Sequence[Kept], items: str) -> str:
    """The items with these numbers in full, one JSON text a line; without numbers a list of all.

    Raises InvalidInput for what is no number or range.
    """
    if not items.strip():
        return "\n".join(f"{each.number} {_headline(each.item)}" for each in kept)
    wanted = numbers_in(items)
    return "\n".join(
        f"{each.number} {each.text}"
        for each in kept
        if any(first <= each.number <= last for first, last in wanted)
    )


def numbers_in(text: str) -> list[tuple[int, int]]:
    """The ranges that `4-9,12` names. Raises InvalidInput."""
    matches = [_RANGE.fullmatch(part.strip()) for part in text.split(",")]
    found = [(int(m[1]), int(m[2] or m[1])) for m in matches if m]
    if len(found) < len(matches):
        problem = Problem("items", "invalid_range", repr(text[:60]), "numbers such as 4 or 4-9,12")
        raise InvalidInput("no items were read", [problem])
    return found


def ranges_of(numbers: Iterable[int], most: int = 4) -> str:
    """Numbers as text, `1-5,9`; with more than `most` pieces, the range that holds them all."""
    ordered = sorted(set(numbers))
    pieces: list[list[int]] = []
    for number in ordered:
        if pieces and pieces[-1][1] == number - 1:
            pieces[-1][1] = number
        else:
            pieces.append([number, number])
    if len(pieces) > most:
        pieces = [[ordered[0], ordered[-1]]]
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in pieces)


def _headline(item: dict[str, Any]) -> str:
    kind = str(item.get("type") or item.get("role") or "item")
    name = str(item.get("name") or item.get("call_id") or "")
    told = item.get("output") or item.get("content") or item.get("arguments") or ""
    text = " ".join(str(told).split())
    return " ".join(filter(None, [kind, name, text[:EXCERPT]]))

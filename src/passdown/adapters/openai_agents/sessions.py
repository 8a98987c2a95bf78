"""Sessions of the SDK in the ledger: conversation items, kept whole, and a tool to read them.

An item is stored as its JSON text, so it comes back with the same bytes. Nothing is removed: that
an item no longer counts is a record of its own. Secrets of known shapes are redacted first.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from agents import FunctionTool, RunContextWrapper

from passdown import tools
from passdown.core.arguments import number_problems
from passdown.errors import Problem, raise_problems
from passdown.tools import briefs, history
from passdown.tools.history import ItemData, ItemLog, TranscriptItem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agents import TResponseInputItem
    from agents.memory import SessionSettings

    from passdown.core.tokens import CounterLike
    from passdown.tools.briefs import AnyWorkspace


class LedgerSession:
    """A `Session` of the SDK over a workspace. Tasks, threads and processes may share a session.

    With `max_tokens`, `get_items()` gives the newest items that fit: an item whole or not at all,
    no output without its call, nothing without the reasoning before it. Everything else stays in
    `transcript`. Items come back byte for byte, except that secrets of known shapes are removed.
    """

    session_id: str
    session_settings: SessionSettings | None

    def __init__(
        self,
        session_id: str,
        workspace: AnyWorkspace,
        *,
        max_tokens: int | None = None,
        counter: CounterLike = None,
        session_settings: SessionSettings | None = None,
    ) -> None:
        """Raises InvalidInput for a bad id or number, and for two limits at once: the SDK asks
        for exactly as many items as its own limit says.
        """
        self._log = ItemLog(workspace, session_id)
        self._max_tokens = max_tokens
        self._counter = briefs.workspace_counter(workspace, counter)
        self.session_id = session_id
        self.session_settings = session_settings
        problems = number_problems(max_tokens, "max_tokens", 0) if max_tokens is not None else []
        if max_tokens is not None and session_settings and session_settings.limit is not None:
            message = "max_tokens and a limit of items are both given"
            problems.append(Problem("session_settings", "invalid_choice", message, "one of them"))
        raise_problems("there can be no such session", problems)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The items in the order in which they came.

        `limit`: exactly the newest so many, as the SDK counts on when it takes a failed turn back.
        """
        kept = [each for each in await asyncio.to_thread(self._log.all) if each.counts]
        settings = self.session_settings
        limit = settings.limit if limit is None and settings else limit
        if limit is not None:
            kept = kept[-limit:] if limit > 0 else []
        elif self._max_tokens is not None:
            kept = self._fitting(kept, self._max_tokens)
        return [cast("TResponseInputItem", each.item) for each in kept]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items, all or none; they are on disk when this returns. Raises InvalidInput."""
        await asyncio.to_thread(self._log.add, cast("list[ItemData]", items))

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the newest item out of the view and give it; it stays in the transcript."""
        last = await asyncio.to_thread(self._log.hide_last)
        return cast("TResponseInputItem", last.item) if last else None

    async def clear_session(self) -> None:
        """Take all items out of the view; they stay in the transcript."""
        await asyncio.to_thread(self._log.hide_all)

    def transcript(self) -> list[TranscriptItem]:
        """Every item that was ever added, oldest first, also those taken back or cleared."""
        return self._log.all()

    def _fitting(self, kept: Sequence[TranscriptItem], budget: int) -> list[TranscriptItem]:
        spent = 0
        start = len(kept)
        for index in range(len(kept) - 1, -1, -1):
            spent += self._counter.tokens(kept[index].text)
            if spent > budget:
                break
            start = index
        return list(kept[first_complete([each.item for each in kept], start) :])


def first_complete(items: Sequence[ItemData], start: int) -> int:
    """The first place from `start` on where a history may begin.

    From there on every output has its call, and every item the reasoning before it.
    """
    needs = _needed_items(items)
    earliest = best = len(items)
    for index in range(len(items) - 1, start - 1, -1):
        earliest = min(earliest, needs[index])
        if earliest >= index:
            best = index
    return best


def _needed_items(items: Sequence[ItemData]) -> list[int]:
    """For each item the earliest one that it can't be without; itself, if there is none."""
    called_at: dict[str, int] = {}
    needs: list[int] = []
    for index, item in enumerate(items):
        need = index
        if str(item.get("type")).endswith(("_output", "_approval_response")):
            call = item.get("call_id") or item.get("approval_request_id") or item.get("id")
            need = called_at.get(str(call), index)
        else:
            called_at |= {str(item[name]): index for name in ("call_id", "id") if item.get(name)}
        if index and items[index - 1].get("type") == "reasoning":
            need = min(need, index - 1)
        needs.append(need)
    return needs


MODULE = "passdown.adapters.openai_agents"


def history_tool(
    workspace: AnyWorkspace,
    session_id: str | Callable[[RunContextWrapper[Any]], str],
    *,
    max_tokens: int = history.MAX_HISTORY_TOKENS,
    counter: CounterLike = None,
) -> FunctionTool:
    """A tool `read_history(items)`: items of a session or handed log by number, records by id.

    An answer has at most `max_tokens`, and says how to read on. `session_id` may be a function of
    the run's context.
    """
    tool = tools.read_history(workspace, "", "agent", max_tokens=max_tokens, counter=counter)

    async def invoke(context: RunContextWrapper[Any], arguments: str) -> str:
        name = session_id if isinstance(session_id, str) else session_id(context)
        return (await tool.arun(arguments, session=name)).text

    about: Any = (tool.name, tool.description, tool.input_schema)
    return FunctionTool(*about, on_invoke_tool=invoke, strict_json_schema=False)

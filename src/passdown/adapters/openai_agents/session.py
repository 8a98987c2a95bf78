"""A session of the SDK in the ledger: what agents said and did, kept whole."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.adapters.brief_texts import counter_in
from passdown.adapters.openai_agents.items import ItemLog
from passdown.errors import InvalidInput, Problem
from passdown.model.arguments import number_problems

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agents import TResponseInputItem
    from agents.memory import SessionSettings

    from passdown.adapters.openai_agents.items import Item, Kept
    from passdown.adapters.states.handing import AnyWorkspace
    from passdown.workspace.aliases import CounterLike


class Said(NamedTuple):
    """An item of a transcript: its number, the item, and whether `get_items` still gives it."""

    number: int
    item: dict[str, Any]
    counts: bool


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
        self._counter = counter_in(workspace, counter)
        self.session_id = session_id
        self.session_settings = session_settings
        problems = number_problems(max_tokens, "max_tokens", 0) if max_tokens is not None else []
        if max_tokens is not None and session_settings and session_settings.limit is not None:
            message = "max_tokens and a limit of items are both given"
            problems.append(Problem("session_settings", "invalid_choice", message, "one of them"))
        if problems:
            raise InvalidInput("there can be no such session", problems)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The items in the order in which they came.

        `limit`: exactly the newest so many, as the SDK counts on when it takes a failed turn back.
        """
        kept = await asyncio.to_thread(self._log.counting)
        settings = self.session_settings
        limit = settings.limit if limit is None and settings else limit
        if limit is not None:
            kept = kept[-limit:] if limit > 0 else []
        elif self._max_tokens is not None:
            kept = self._fitting(kept, self._max_tokens)
        return [cast("TResponseInputItem", each.item) for each in kept]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items, all or none; they are on disk when this returns. Raises InvalidInput."""
        await asyncio.to_thread(self._log.add, cast("list[Item]", items))

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the newest item out of the view and give it; it stays in the transcript."""
        last = await asyncio.to_thread(self._log.hide_last)
        return cast("TResponseInputItem", last.item) if last else None

    async def clear_session(self) -> None:
        """Take all items out of the view; they stay in the transcript."""
        await asyncio.to_thread(self._log.hide_all)

    def transcript(self) -> list[Said]:
        """Every item that was ever added, oldest first, also those taken back or cleared."""
        return [Said(each.number, each.item, each.counts) for each in self._log.all()]

    def _fitting(self, kept: Sequence[Kept], budget: int) -> list[Kept]:
        spent = 0
        start = len(kept)
        for index in range(len(kept) - 1, -1, -1):
            spent += self._counter.tokens(kept[index].text)
            if spent > budget:
                break
            start = index
        return list(kept[first_whole([each.item for each in kept], start) :])


def first_whole(items: Sequence[Item], start: int) -> int:
    """The first place from `start` on where a history may begin.

    From there on no output stands without its call, and nothing without the reasoning before it.
    """
    needs = _needed(items)
    earliest = best = len(items)
    for index in range(len(items) - 1, start - 1, -1):
        earliest = min(earliest, needs[index])
        if earliest >= index:
            best = index
    return best


def _needed(items: Sequence[Item]) -> list[int]:
    """For each item the earliest one that it can't be without; itself, if there is none."""
    called_at: dict[str, int] = {}
    needs: list[int] = []
    for index, item in enumerate(items):
        need = index
        if _is_answer(item):
            need = called_at.get(str(_answered(item)), index)
        else:
            called_at |= {str(item[name]): index for name in ("call_id", "id") if item.get(name)}
        if index and items[index - 1].get("type") == "reasoning":
            need = min(need, index - 1)
        needs.append(need)
    return needs


def _is_answer(item: Item) -> bool:
    return str(item.get("type")).endswith(("_output", "_approval_response"))


def _answered(item: Item) -> object:
    return item.get("call_id") or item.get("approval_request_id") or item.get("id")

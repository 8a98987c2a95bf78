"""Briefs for many at once: whoever waits is served together, by one thread and one transaction."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any

from passdown import spans
from passdown.errors import StoreError
from passdown.surfaces.web.problems import as_json
from passdown.surfaces.web.spanning import doing
from passdown.workspace.beside import recorded_via
from passdown.workspace.desk import Ask, BriefDesk, Waiting
from passdown.workspace.seen import as_server

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.surfaces.web.house import House, Visit
    from passdown.surfaces.web.operations import Call
    from passdown.workspace import Workspace
    from passdown.workspace.briefings import Brief

Question = tuple[str, str, bytes]
"""A token's id, a path and a query: who asks the same in the same words means the same."""

_MOST_TOGETHER = 64
_MOST_READ = 4_096
_LONGEST_READ = 1_024
_MOST_SPELLED_BYTES = 1 << 25


class BriefCounter:
    """Takes requests for briefs, and answers those together that came while others were served."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._desk = BriefDesk()
        self._served: Workspace | None = None
        self._queue: list[tuple[Waiting, asyncio.Future[Brief | None], Any]] = []
        self._serving: asyncio.Task[None] | None = None
        self._read: dict[Question, Waiting] = {}
        self._spelled: dict[int, tuple[Brief, bytes, str]] = {}
        self._spelled_bytes = 0

    def known(self, question: Question) -> Waiting | None:
        """What a question of the same words was read as before."""
        return self._read.get(question)

    def read(self, question: Question, call: Call, via: str) -> Waiting:
        """The brief that a call asks for; recorded as told unless the call says not to, or asks in
        the name of somebody else.
        """
        agent, is_own = call.listener()
        given = call.given
        is_told = is_own and given.get("record", True)
        tags = tuple(given.get("tags", ()))
        ask = Ask(
            task=given["task"],
            agent=agent,
            budget=given.get("budget"),
            counter=given.get("counter"),
            format=given.get("format", "markdown"),
            tags=tags,
        )
        waiting = Waiting(ask, is_told, via)
        if len(question[2]) <= _LONGEST_READ:
            if len(self._read) >= _MOST_READ:
                self._read.clear()
            self._read[question] = waiting
        return waiting

    async def answer(self, waiting: Waiting, visit: Visit) -> tuple[bytes, str]:
        """The JSON of a brief, and its tag."""
        found = await self._served_with_others(waiting)
        if found is not None and (known := self._spelled.get(id(found))) is not None:
            return known[1:]
        # Making and spelling one takes long: for this the token has to have a turn.
        caller = waiting.via if visit.caller is None else visit.caller.id
        await visit.take(self._house.reads.of(caller))
        threads = self._house.threads
        if found is None:
            # Made now, and told with whatever else is told at this moment.
            await threads.for_caller(self._make, waiting._replace(is_told=False), visit)
            found = await self._served_with_others(waiting)
        if found is None:
            # The task moved on, or nothing can be recorded: then by itself, and it says so.
            found = await threads.for_caller(self._make, waiting, visit)
        return await threads.for_caller(self._json, found)

    async def _served_with_others(self, waiting: Waiting) -> Brief | None:
        future: asyncio.Future[Brief | None] = asyncio.get_running_loop().create_future()
        self._queue.append((waiting, future, spans.here()))
        if self._serving is None:
            # Apart from whoever came first: that one would wait for all who come after.
            self._serving = asyncio.create_task(self._serve_all())
        return await future

    async def _serve_all(self) -> None:
        try:
            while self._queue:
                await self._serve()
        finally:
            self._serving = None

    async def _serve(self) -> None:
        batch = self._queue[:_MOST_TOGETHER]
        del self._queue[:_MOST_TOGETHER]
        asks = [waiting for waiting, _, _ in batch]
        owners = [owner for _, _, owner in batch]
        try:
            with spans.shared("hand out briefs", owners, {"passdown.briefs": len(batch)}):
                found = await self._house.threads.for_all(self._hand_out, asks)
        except StoreError:
            # Then each is made by itself, and says by itself that it could not be recorded.
            found = [None] * len(batch)
        except BaseException as error:
            for _, future, _ in batch:
                if not future.done():
                    future.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        for (_, future, _), brief in zip(batch, found, strict=True):
            if not future.done():
                future.set_result(brief)

    def _hand_out(self, asks: Sequence[Waiting]) -> Sequence[Brief | None]:
        with self._house.workspace() as workspace:
            if workspace is not self._served:
                self._served, self._desk = workspace, BriefDesk()
            return self._desk.hand_out(workspace, asks)

    def _make(self, waiting: Waiting, visit: Visit) -> Brief:
        ask = waiting.ask
        with (
            self._house.workspace() as workspace,
            recorded_via(waiting.via),
            as_server(None),
            doing("brief", workspace, visit),
        ):
            brief = workspace.brief(
                ask.task,
                agent=ask.agent,
                budget=ask.budget,
                counter=ask.counter,
                format=ask.format,
                tags=ask.tags,
                record=waiting.is_told,
            )
            if not brief.warnings:
                self._desk.keep(ask, brief)
            return brief

    def _json(self, brief: Brief) -> tuple[bytes, str]:
        """The JSON of a brief, spelled once for as long as it is handed out."""
        known = self._spelled.get(id(brief))
        if known is not None:
            return known[1:]
        body = as_json(brief.document())
        tag = hashlib.blake2b(body, digest_size=8).hexdigest()
        self._spelled_bytes += len(body)
        if len(self._spelled) >= _MOST_TOGETHER * 8 or self._spelled_bytes > _MOST_SPELLED_BYTES:
            self._spelled, self._spelled_bytes = {}, len(body)
        # It holds the brief as well, so that no other can have its id meanwhile.
        self._spelled[id(brief)] = (brief, body, f'"{brief.version}-{tag}"')
        return body, f'"{brief.version}-{tag}"'

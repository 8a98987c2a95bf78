"""Briefs in batches: requests that wait together are served by one thread and one transaction."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any

from passdown import tracing
from passdown.errors import StoreError
from passdown.web.responses import to_json
from passdown.web.telemetry import operation_span
from passdown.workspace.briefs import BriefCache, BriefCall, BriefRequest
from passdown.workspace.context import context_of
from passdown.workspace.files import serving_client
from passdown.workspace.streams import recorded_via

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.core.types import JsonObject
    from passdown.web.requests import ApiRequest
    from passdown.web.server_state import RequestContext, ServerState
    from passdown.workspace import Workspace
    from passdown.workspace.briefs import Brief


BriefQuestion = tuple[str, str, bytes]
"""A token's id, a path and a query: requests with equal ones ask for the same brief."""

_MAX_BATCH = 64
_MAX_CACHED_QUESTIONS = 4_096
_MAX_CACHED_QUERY = 1_024
_MAX_CACHED_JSON = 1 << 25


class BriefBatcher:
    """Takes requests for briefs, and answers those together that came while others were served."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._cache = BriefCache()
        self._served: Workspace | None = None
        self._queue: list[tuple[BriefCall, asyncio.Future[Brief | None], Any]] = []
        self._serving: asyncio.Task[None] | None = None
        self._read: dict[BriefQuestion, BriefCall] = {}
        self._json_cache: dict[int, tuple[Brief, bytes, str]] = {}
        self._json_bytes = 0

    def known(self, question: BriefQuestion) -> BriefCall | None:
        """What a question of the same words was read as before."""
        return self._read.get(question)

    def read(self, question: BriefQuestion, call: ApiRequest, via: str) -> BriefCall:
        """The brief that a call asks for; recorded as told unless the call says not to, or asks in
        the name of somebody else.
        """
        given = call.arguments
        agent = given.get("agent") or call.caller.name
        is_told = call.may_speak_for(agent) and given.get("record", True)
        asked: JsonObject = {name: given[name] for name in BriefRequest._fields if name in given}
        asked |= {"agent": agent, "tags": tuple(given.get("tags", ()))}
        ask = BriefRequest(**asked)
        waiting = BriefCall(ask, is_told, via)
        if len(question[2]) <= _MAX_CACHED_QUERY:
            if len(self._read) >= _MAX_CACHED_QUESTIONS:
                self._read.clear()
            self._read[question] = waiting
        return waiting

    async def answer(self, waiting: BriefCall, context: RequestContext) -> tuple[bytes, str]:
        """The JSON of a brief, and its tag."""
        found = await self._served_with_others(waiting)
        if found is not None and (known := self._json_cache.get(id(found))) is not None:
            return known[1:]
        # Making and spelling one takes long: for this the token has to have a turn.
        caller = waiting.via if context.caller is None else context.caller.id
        await context.hold(self._state.reads.of(caller))
        threads = self._state.threads
        if found is None:
            # Made now, and its delivery recorded together with others that wait.
            await threads.for_caller(self._make, waiting._replace(is_told=False), context)
            found = await self._served_with_others(waiting)
        if found is None:
            # The task moved on, or nothing can be recorded: then by itself, and it says so.
            found = await threads.for_caller(self._make, waiting, context)
        return await threads.for_caller(self._json, found)

    async def _served_with_others(self, waiting: BriefCall) -> Brief | None:
        future: asyncio.Future[Brief | None] = asyncio.get_running_loop().create_future()
        self._queue.append((waiting, future, tracing.current_span()))
        if self._serving is None:
            # In a task of its own: the first request would wait for all who come after.
            self._serving = asyncio.create_task(self._serve_all())
        return await future

    async def _serve_all(self) -> None:
        try:
            while self._queue:
                await self._serve()
        finally:
            self._serving = None

    async def _serve(self) -> None:
        batch = self._queue[:_MAX_BATCH]
        del self._queue[:_MAX_BATCH]
        asks = [waiting for waiting, _, _ in batch]
        owners = [owner for _, _, owner in batch]
        try:
            with tracing.shared("hand out briefs", owners, {"passdown.briefs": len(batch)}):
                found = await self._state.threads.for_all(self._hand_out, asks)
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

    def _hand_out(self, asks: Sequence[BriefCall]) -> Sequence[Brief | None]:
        with self._state.workspace() as workspace:
            if workspace is not self._served:
                self._served, self._cache = workspace, BriefCache()
            return self._cache.cached_briefs(context_of(workspace), asks)

    def _make(self, waiting: BriefCall, context: RequestContext) -> Brief:
        ask = waiting.ask
        with (
            self._state.workspace() as workspace,
            recorded_via(waiting.via),
            serving_client(None),
            operation_span("brief", workspace, context),
        ):
            brief = workspace.brief(**ask._asdict(), record=waiting.is_told)
            if not brief.warnings:
                self._cache.keep(ask, brief)
            return brief

    def _json(self, brief: Brief) -> tuple[bytes, str]:
        """The JSON of a brief, encoded once for as long as it is cached."""
        known = self._json_cache.get(id(brief))
        if known is not None:
            return known[1:]
        body = to_json(brief.to_dict())
        tag = hashlib.blake2b(body, digest_size=8).hexdigest()
        self._json_bytes += len(body)
        if len(self._json_cache) >= _MAX_BATCH * 8 or self._json_bytes > _MAX_CACHED_JSON:
            self._json_cache, self._json_bytes = {}, len(body)
        # It holds the brief as well, so that no other can have its id meanwhile.
        self._json_cache[id(brief)] = (brief, body, f'"{brief.version}-{tag}"')
        return body, f'"{brief.version}-{tag}"'

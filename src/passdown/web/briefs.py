"""Briefs in batches: requests that wait together are served by one thread and one transaction.

A brief is given again only while the task is at the version that it was made from, and for a second
at most, since it also describes files on disk and other tasks. Every delivery is recorded before
the brief is given.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from passdown import tracing
from passdown.errors import StoreError
from passdown.web.responses import to_json
from passdown.workspace.briefs import deliver_again
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


CACHED_S = 1.0
_MAX_BATCH = 64
_MAX_CACHED_BYTES = 1 << 25


class BriefCall(NamedTuple):
    """Someone who waits for the brief that these arguments give; without `is_told` no delivery is
    recorded. `via` is the channel that is recorded with the delivery.
    """

    ask: tuple[tuple[str, Any], ...]
    is_told: bool
    via: str


class MadeBrief(NamedTuple):
    """A brief, when it was made, its JSON and its tag."""

    brief: Brief
    at: float
    body: bytes
    etag: str


class BriefBatcher:
    """Takes requests for briefs, and answers those together that came while others were served."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._served: Workspace | None = None
        self._queue: list[tuple[BriefCall, asyncio.Future[MadeBrief | None], Any]] = []
        self._serving: asyncio.Task[None] | None = None
        self._made: dict[tuple[tuple[str, Any], ...], MadeBrief] = {}
        self._bytes = 0

    async def answer(self, call: ApiRequest, context: RequestContext) -> MadeBrief:
        """The brief that a call asks for; recorded as told unless the call says not to, or asks in
        the name of somebody else.
        """
        given: JsonObject = {"agent": "", **call.arguments}
        given |= {"agent": given["agent"] or call.caller.name, "tags": tuple(given.get("tags", ()))}
        is_told = given.pop("record", True) and call.may_speak_for(given["agent"])
        waiting = BriefCall(tuple(sorted(given.items())), is_told, f"token:{call.caller.id}")
        found = await self._served_with_others(waiting)
        if found is not None:
            return found
        # Making one takes long: for this the token has to have a turn.
        await context.hold(self._state.reads.of(call.caller.id))
        # Made now, and its delivery recorded together with others that wait.
        await self._state.for_caller(self._make, waiting._replace(is_told=False), context)
        found = await self._served_with_others(waiting)
        # The task moved on, or nothing can be recorded: then by itself, and it says so.
        return found or await self._state.for_caller(self._make, waiting, context)

    async def _served_with_others(self, waiting: BriefCall) -> MadeBrief | None:
        future: asyncio.Future[MadeBrief | None] = asyncio.get_running_loop().create_future()
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
                found = await self._state.for_all(self._hand_out, asks)
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
        for (_, future, _), made in zip(batch, found, strict=True):
            if not future.done():
                future.set_result(made)

    def _hand_out(self, asks: Sequence[BriefCall]) -> list[MadeBrief | None]:
        """What was made already and still holds, its delivery recorded; None for the others."""
        with self._state.workspace() as workspace:
            if workspace is not self._served:
                self._served, self._made, self._bytes = workspace, {}, 0
            due = time.monotonic() - CACHED_S
            made = {ask.ask: self._made.get(ask.ask) for ask in asks}
            fresh = {ask: one for ask, one in made.items() if one is not None and one.at >= due}
            known = [ask for ask in asks if ask.ask in fresh]
            given = [(fresh[ask.ask].brief, ask.via if ask.is_told else None) for ask in known]
            holds = deliver_again(context_of(workspace), given) if given else []
            for ask, is_current in zip(known, holds, strict=True):
                if not is_current:
                    fresh.pop(ask.ask, None)
            return [fresh.get(ask.ask) for ask in asks]

    def _make(self, waiting: BriefCall, context: RequestContext) -> MadeBrief:
        with (
            self._state.workspace() as workspace,
            recorded_via(waiting.via),
            serving_client(None),
            context.operation_span("brief", workspace),
        ):
            brief: Brief = workspace.brief(**dict(waiting.ask), record=waiting.is_told)
        body = to_json(brief.to_dict())
        tag = hashlib.blake2b(body, digest_size=8).hexdigest()
        made = MadeBrief(brief, time.monotonic(), body, f'"{brief.version}-{tag}"')
        if not brief.warnings:
            self._bytes += len(body)
            if self._bytes > _MAX_CACHED_BYTES:
                self._made, self._bytes = {}, len(body)
            self._made[waiting.ask] = made
        return made

"""The async API: the parameters of the sync one, many callers at once, and cancelled calls."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING

import pytest

import passdown
from passdown import aio
from passdown.workspace import Workspace

if TYPE_CHECKING:
    from pathlib import Path


def public(kind: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(member)
        for name, member in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }


def test_both_have_the_same_methods_with_the_same_parameters() -> None:
    """A method, parameter, default or return type on one side only is a fault."""
    assert public(aio.AsyncWorkspace) == public(Workspace)


def test_every_async_method_is_awaited() -> None:
    """None of them would block the loop."""
    for name in public(aio.AsyncWorkspace):
        assert inspect.iscoroutinefunction(getattr(aio.AsyncWorkspace, name)), name


def test_the_openers_take_the_same_parameters() -> None:
    """`aio.open` and `aio.init` are `passdown.open` and `passdown.init`."""
    for name in ("open", "init"):
        sync, awaited = getattr(passdown, name), getattr(aio, name)
        assert list(inspect.signature(sync).parameters.values()) == list(
            inspect.signature(awaited).parameters.values()
        )


def test_many_awaited_writers_lose_nothing(tmp_path: Path) -> None:
    """Fifty decisions at once, from one loop, are fifty records in one order."""

    async def crowd() -> int:
        async with aio.open(str(tmp_path)) as ws:
            await ws.create_task("T-1", title="Login", agent="planner")
            writes = [
                ws.decide(task="T-1", agent="planner", summary=f"choice {n}", rationale="because")
                for n in range(50)
            ]
            receipts = await asyncio.gather(*writes)
            assert sorted(r.version for r in receipts) == list(range(2, 52))
            return len((await ws.files.state_document("T-1"))["decisions"])

    assert asyncio.run(crowd()) == 50


def test_a_cancelled_call_can_be_asked_again_with_its_key(tmp_path: Path) -> None:
    """Cancelled between commit and reply: the record is there once, and the key finds it."""

    async def cancelled() -> None:
        async with aio.open(str(tmp_path)) as ws:
            await ws.create_task("T-1", title="Login", agent="planner")

            async def decide() -> passdown.Receipt:
                return await ws.decide(
                    task="T-1", agent="planner", summary="Use JWT", rationale="why", key="k-1"
                )

            task = asyncio.create_task(decide())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            receipt = await decide()
            assert receipt.version == 2
            assert len((await ws.files.state_document("T-1"))["decisions"]) == 1

    asyncio.run(cancelled())

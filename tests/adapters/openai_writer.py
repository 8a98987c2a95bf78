"""A process that adds to a session: FOLDER NAME COUNT. Every third item it takes back."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import passdown
from passdown.adapters.openai_agents import LedgerSession


async def write(folder: str, name: str, count: int) -> None:
    with passdown.open(folder, create=False) as workspace:
        session = LedgerSession("shared", workspace)
        for number in range(count):
            pair: list[Any] = [
                {"role": "user", "content": f"{name} {number} {half}"} for half in "ab"
            ]
            await session.add_items(pair)
            if number % 3 == 2:
                assert await session.pop_item() is not None


if __name__ == "__main__":
    asyncio.run(write(sys.argv[1], sys.argv[2], int(sys.argv[3])))

"""Processes that add to a session at once: FOLDER COUNT NAME... Every third item they take back.

They are forked when everything is loaded, which takes longer than their work.
"""

from __future__ import annotations

import asyncio
import os
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
    folder, count, *names = sys.argv[1:]
    for name in names:
        if not os.fork():
            asyncio.run(write(folder, name, int(count)))
            sys.exit()
    sys.exit(max(os.waitstatus_to_exitcode(os.wait()[1]) for _ in names))

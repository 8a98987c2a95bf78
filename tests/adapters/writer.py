"""A process that writes to a memory: KIND FOLDER NAME COUNT.

It relates a shared memory to things of its own, and stores that memory again and again meanwhile.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.adapters.stores import opened


async def write(kind: str, folder: Path, name: str, count: int) -> None:
    async with opened(kind, folder) as memory:
        for number in range(count):
            await memory.store_relationship("shared", f"{name}-{number}", "uses")
            await memory.store_relationship("shared", "all", f"known to {name} {number}")
            await memory.store_relationship(f"mine {name} {number}", "shared", "uses")
            await memory.store_embedding(f"mine {name} {number}", f"Content of {name} {number}")


if __name__ == "__main__":
    asyncio.run(write(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])))

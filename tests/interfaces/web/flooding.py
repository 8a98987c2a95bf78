"""Clients that send as fast as they are told to, each on connections of its own, in a process of
its own: `python -m tests.interfaces.web.flooding` reads what to do and prints what was answered.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from typing import Any, NamedTuple

Document = dict[str, Any]

_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)


MOST_CONNECTIONS = 500


class Answered(NamedTuple):
    text: str
    status: int
    code: str
    began: float
    seconds: float


class Sender:
    """One connection; it is opened again where the server has closed it."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._token = port, token
        self._connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, text: str) -> Answered:
        body = json.dumps({"task": "T-1", "text": text}).encode()
        head = (
            f"POST /api/warnings HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n"
            f"Authorization: Bearer {self._token}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        at, began = time.time(), time.perf_counter()
        if self._connection is None:
            self._connection = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._connection
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(answer)
        assert length
        document = json.loads(await reader.readexactly(int(length[1])))
        if b"connection: close" in answer.lower():
            await self.close()
        took_s = time.perf_counter() - began
        return Answered(text, int(answer[9:12]), document.get("code", ""), at, took_s)

    async def close(self) -> None:
        if self._connection is not None:
            self._connection[1].close()
            self._connection = None


async def paced(asked: Document, name: str, token: str) -> list[Answered]:
    """Messages at a rate, whether or not the earlier ones have been answered; with `only_odd`, in
    every second second alone.
    """
    idle: list[Sender] = []
    room = asyncio.Semaphore(MOST_CONNECTIONS)
    began: float = asked["at"]

    async def one(number: int, due: float) -> Answered:
        await asyncio.sleep(max(0.0, due - time.time()))
        async with room:
            sender = idle.pop() if idle else Sender(asked["port"], token)
            found = await sender.send(f"{name} {number}")
            idle.append(sender)
        return found

    dues = [began + number / asked["rate"] for number in range(asked["count"])]
    if asked["only_odd"]:
        dues = [due + int(due - began) + 1 for due in dues]
    found = await asyncio.gather(*(one(number, due) for number, due in enumerate(dues)))
    for sender in idle:
        await sender.close()
    return found


async def all_of(asked: Document) -> list[Answered]:
    everyone = [paced(asked, name, token) for name, token in asked["tokens"].items()]
    return [each for found in await asyncio.gather(*everyone) for each in found]


if __name__ == "__main__":
    answers = asyncio.run(all_of(json.loads(sys.argv[1])))
    sys.stdout.write(json.dumps(answers) + "\n")

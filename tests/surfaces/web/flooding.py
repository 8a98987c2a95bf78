"""Clients that send as fast as they are told to, each on connections of its own, in a process of
its own: `python -m tests.surfaces.web.flooding` reads what to do and prints what was answered.
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


class Answered(NamedTuple):
    text: str
    status: int
    codes: list[str]
    seconds: float


class Sender:
    """One connection; it is opened again where the server has closed it."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._token = port, token
        self._wire: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, text: str) -> Answered:
        body = json.dumps({"task": "T-1", "text": text}).encode()
        head = (
            f"POST /api/warnings HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n"
            f"Authorization: Bearer {self._token}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        began = time.perf_counter()
        if self._wire is None:
            self._wire = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._wire
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(answer)
        assert length
        document = json.loads(await reader.readexactly(int(length[1])))
        if b"connection: close" in answer.lower():
            await self.close()
        found = [document.get("code", "")]
        return Answered(text, int(answer[9:12]), found, time.perf_counter() - began)

    async def close(self) -> None:
        if self._wire is not None:
            self._wire[1].close()
            self._wire = None


async def paced(port: int, token: str, name: str, rate: float, count: int) -> list[Answered]:
    """So many messages at a rate; who falls behind sends at once."""
    sender = Sender(port, token)
    began = time.perf_counter()
    found: list[Answered] = []
    for number in range(count):
        await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
        found.append(await sender.send(f"{name} {number}"))
    await sender.close()
    return found


async def all_of(asked: Document) -> list[Answered]:
    lanes = [
        paced(
            asked["port"], token, f"{name}.{lane}", asked["rate"] / lanes, asked["count"] // lanes
        )
        for name, token in asked["tokens"].items()
        for lanes in [asked["lanes"]]
        for lane in range(lanes)
    ]
    return [each for found in await asyncio.gather(*lanes) for each in found]


if __name__ == "__main__":
    answers = asyncio.run(all_of(json.loads(sys.argv[1])))
    sys.stdout.write(json.dumps([each._asdict() for each in answers]) + "\n")

"""Hostile inputs that are many rather than odd: floods, and answers that could be mixed up."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import passdown
from passdown.workspace.tokens import Tokens
from tests.interfaces.web.flooding import Answered
from tests.processes import Process

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

Document = dict[str, Any]

QUIET = ("ana", "ben", "cleo", "dora")
QUIET_RATE = 20.0
FLOOD_RATE = 1_000
ATTEMPTS = 3
_TOGETHER = 4


@contextmanager
def serving(folder: Path) -> Generator[int]:
    """A server with its usual limits, in a process of its own; gives its port."""
    import re

    with open(folder / "serve.log", "w", encoding="utf-8") as log:
        process = Process(
            [sys.executable, "-m", "passdown", "serve", "--port", "0"],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        assert process.stdout is not None
        try:
            said = ""
            while "token" not in said:
                line = process.stdout.readline()
                assert line
                said += line
            match = re.search(r"http://[^:]+:(\d+)", said)
            assert match
            yield int(match[1])
        finally:
            process.terminate()
            process.communicate(timeout=240)


def flood(folder: Path, seconds: int, *, compares: bool) -> None:
    """One agent sends a thousand messages a second; others send as ever, beside it and without it,
    in seconds that take turns.

    It is told to wait; the others all get through, and with `compares` the slowest of a hundred in
    less than twice the time; whatever was taken is there, and nothing else. The machine's other
    work disturbs such a comparison, so it is made up to three times.
    """
    with passdown.open(str(folder)) as workspace:
        workspace.create_task("T-1", title="Login", agent="planner")
        keys = Tokens(workspace)
        tokens = {
            name: keys.new(name, ("read", "write"), by="tests").token for name in ("loud", *QUIET)
        }
    taken: set[str] = set()
    ratios: list[float] = []
    with serving(folder) as port:
        while not ratios or (compares and min(ratios) >= 2 and len(ratios) < ATTEMPTS):
            began, loud, quiet = _flooded(port, dict(tokens), seconds)
            assert {(each.status, each.code) for each in quiet} == {(201, "")}
            told = Counter((each.status, each.code) for each in loud)
            assert set(told) == {(201, ""), (429, "rate_limited")}, told
            assert len(loud) == FLOOD_RATE * seconds
            taken |= {f"{len(ratios)} {each.text}" for each in loud + quiet if each.status == 201}
            ratios.append(_slowness(began, quiet))
    with passdown.open(str(folder)) as workspace:
        kept = [entry["text"] for entry in workspace.files.state_document("T-1")["warnings"]]
        assert sorted(kept) == sorted(text.partition(" ")[2] for text in taken)
        assert workspace.verify().ok
    assert min(ratios) < 2 or not compares, ratios


def _flooded(
    port: int, tokens: dict[str, str], seconds: int
) -> tuple[float, list[Answered], list[Answered]]:
    began = time.time() + 1.0
    common = {"port": port, "at": began}
    loud = {"loud": tokens.pop("loud")}
    asked: list[Document] = [
        {"tokens": loud, "rate": FLOOD_RATE, "count": FLOOD_RATE * seconds, "only_odd": True},
        {"tokens": tokens, "rate": QUIET_RATE, "count": int(QUIET_RATE * seconds * 2),
         "only_odd": False},
    ]  # fmt: skip
    programs = [
        Process(
            [sys.executable, "-m", "tests.interfaces.web.flooding", json.dumps({**common, **each})],
            stdout=subprocess.PIPE,
            text=True,
        )
        for each in asked
    ]
    said = [program.communicate(timeout=240)[0] for program in programs]
    found = [[Answered(*each) for each in json.loads(text)] for text in said]
    return began, found[0], found[1]


def _slowness(began: float, quiet: list[Answered]) -> float:
    """The slowest of a hundred in seconds with the flood, as a multiple of those without it."""
    sides: tuple[list[float], list[float]] = ([], [])
    for each in quiet:
        sides[int(each.began - began) % 2].append(each.seconds)
    without, beside = (sorted(side)[int(len(side) * 0.99)] for side in sides)
    return beside / without


def pairs(port: int, tokens: list[str], tasks: list[str], count: int) -> None:
    """Two clients ask with the same JSON-RPC id at the same time, so many times over: each gets
    what it asked for, and nothing of the other's.
    """
    asyncio.run(_pairs(port, tokens, tasks, count))


async def _pairs(port: int, tokens: list[str], tasks: list[str], count: int) -> None:
    lanes = [_pair_lane(port, tokens, tasks, lane, count // _TOGETHER) for lane in range(_TOGETHER)]
    assert sum(await asyncio.gather(*lanes)) == count


async def _pair_lane(port: int, tokens: list[str], tasks: list[str], lane: int, count: int) -> int:
    wires = [await asyncio.open_connection("127.0.0.1", port) for _ in tokens]
    done = 0
    for number in range(count):
        own = [f"{task}-{lane}-{number}" if number % 2 else task for task in tasks]
        order = (0, 1) if number % 3 else (1, 0)
        for side in order:
            wires[side][1].write(_show(port, tokens[side], own[side]))
        for side in (0, 1):
            answer = await _answer(wires[side][0])
            assert answer["id"] == 0
            text: str = answer["result"]["content"][0]["text"]
            assert own[side] in text, (own, text)
            assert tasks[1 - side] not in text, (own, text)
        done += 1
    for _, writer in wires:
        writer.close()
    return done


def _show(port: int, token: str, what: str) -> bytes:
    given = {"name": "show", "arguments": {"id": what}}
    message = {"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": given}
    body = json.dumps(message).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
        "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-06-18\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _answer(reader: asyncio.StreamReader) -> Document:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    assert head.startswith(b"http/1.1 200 "), head
    length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return json.loads(await reader.readexactly(length))

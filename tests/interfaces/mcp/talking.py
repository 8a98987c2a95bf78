"""Two ways to talk to the real server: the SDK's client, and bare lines on its pipes."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Self

import anyio
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, TextContent

from passdown.mcp.tools import ToolResult
from tests.processes import Process, forked_python

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

ERAS = ("legacy", "2026-07-28")
COMMAND = ("-m", "passdown", "mcp")


def environment(more: dict[str, str] | None = None) -> dict[str, str]:
    """This process's environment without what would name another store or agent."""
    others = {"PASSDOWN_STORE", "PASSDOWN_AGENT", "CLAUDE_PROJECT_DIR", "PASSDOWN_DEBUG"}
    kept = {name: value for name, value in os.environ.items() if name not in others}
    return {**kept, **(more or {})}


def client(folder: Path, era: str = "auto", more: dict[str, str] | None = None) -> Client:
    """A client of a server that is started in a folder; enter it to connect."""
    program = StdioServerParameters(
        command=forked_python(), args=list(COMMAND), cwd=str(folder), env=environment(more)
    )
    return Client(program, mode=era, read_timeout_seconds=60)


def talk(connected: Client, do: Callable[[Client], Awaitable[None]]) -> None:
    """Connect, do something, and let the server go."""

    async def run() -> None:
        async with connected as one:
            await do(one)

    anyio.run(run)


def told(result: CallToolResult) -> ToolResult:
    """What a tool said: one text, and nothing beside it."""
    assert result.structured_content is None
    assert len(result.content) == 1
    assert isinstance(result.content[0], TextContent)
    return ToolResult(result.content[0].text, bool(result.is_error))


class Pipes:
    """A server whose pipes a test holds itself, spoken to in the protocol of 2025."""

    def __init__(self, folder: Path, more: dict[str, str] | None = None) -> None:
        # What changes how Python starts needs a Python that starts.
        start: type[subprocess.Popen[bytes]] = subprocess.Popen if more else Process
        self.process = start(
            [sys.executable, *COMMAND],
            cwd=folder,
            env=environment(more),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()

    def send(self, *messages: dict[str, Any]) -> None:
        lines = [json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages]
        self.write("".join(lines).encode())

    def write(self, data: bytes) -> None:
        """Bytes as they are, all of them: a pipe takes as many as fit."""
        assert self.process.stdin is not None
        while data:
            data = data[self.process.stdin.write(data) or 0 :]

    def line(self, timeout_s: float = 120.0) -> bytes:
        """The next line of standard output; empty at its end or when none comes in time."""
        assert self.process.stdout is not None
        end = time.monotonic() + timeout_s
        while b"\n" not in self._rest and time.monotonic() < end:
            if select.select([self.process.stdout], [], [], 0.2)[0]:
                read = os.read(self.process.stdout.fileno(), 65_536)
                if not read:
                    return b""
                self._rest += read
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def shake_hands(self, name: str = "pipes") -> dict[str, Any]:
        info = {"name": name, "version": "1"}
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
        self.send({"id": 0, "method": "initialize", "params": params})
        answer = json.loads(self.line())
        self.send({"method": "notifications/initialized"})
        return answer["result"]

    def ask(self, number: int, name: str, **given: Any) -> None:
        """Call a tool without waiting for the answer."""
        params = {"name": name, "arguments": given}
        self.send({"id": number, "method": "tools/call", "params": params})

"""Briefs over HTTP: many clients at once on one server, each brief recorded as told.

The server is a process of its own, as `passdown serve` runs it. The clients are as cheap as clients
can be, since they share the machine's cores with it: one more process, plain sockets, a fixed
request for each, the next one when the answer is whole.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import passdown
from bench.figures import Measured, Row, Target, ms
from bench.workload import handoff, write_files
from passdown.workspace.tokens import Tokens

if TYPE_CHECKING:
    from pathlib import Path

    from bench.run import Run

CLIENTS = 32
TASKS = 8
WARM_UP_S = 2.0


def measure(run: Run) -> Measured:
    found = Measured("http", f"Briefs over HTTP, {CLIENTS} clients")
    seconds = 4.0 if run.quick else 20.0
    folder = run.folder / "http"
    folder.mkdir()
    tokens = _workspace(folder)
    process, port = _server(folder)
    try:
        times, errors, took_s, cpu_s = _load(port, tokens, seconds, process.pid)
    finally:
        process.terminate()
        process.wait(30)
    told = _told(folder)
    rate = len(times) / took_s
    middle, late = _at(times, 0.5), _at(times, 0.99)
    found.rows += [
        Row(
            "briefs per second, delivered and on record",
            f"{rate:,.0f}",
            f"{len(times):,} in {took_s:.0f} s",
            rate,
            Target("at least", 1_000),
        ),
        Row("the slowest 1 of 100 beside the median", ms(late), ms(middle), late / middle,
            Target("at most", 10)),
        Row("requests that failed", f"{errors}", "", float(errors), Target("exactly", 0)),
        Row("briefs that were given and are not on record", f"{max(0, len(times) - told)}", "",
            float(max(0, len(times) - told)), Target("exactly", 0)),
    ]  # fmt: skip
    if cpu_s:
        each = cpu_s / max(1, len(times))
        what = "what the server computes for one brief (a core could give so many a second)"
        found.rows.append(Row(what, ms(each), f"{1 / each:,.0f}"))
    found.figures = {
        "per_second": rate,
        "median_ms": middle * 1e3,
        "p99_ms": late * 1e3,
        "briefs": len(times),
        "told": told,
        "server_cpu_s": cpu_s,
        "cores": os.cpu_count(),
    }
    return found


def _at(times: list[float], share: float) -> float:
    return times[min(len(times) - 1, int(len(times) * share))] if times else float("nan")


def _workspace(folder: Path) -> list[str]:
    """Tasks with a handoff of some size, and a token for each client."""
    write_files(folder, 0, 4)
    folder.mkdir(parents=True, exist_ok=True)
    with passdown.open(str(folder)) as workspace:
        for number in range(TASKS):
            task = f"T-{number}"
            workspace.create_task(task, title=f"Task {number}", agent="planner")
            for version in range(4):
                workspace.hand_off(handoff(task, version))
        keys = Tokens(workspace)
        return [keys.new(f"agent-{n}", ["read"], by="bench").token for n in range(CLIENTS)]


def _server(folder: Path) -> tuple[subprocess.Popen[str], int]:
    process = subprocess.Popen(
        [sys.executable, "-m", "passdown", "serve", "--port", "0", "--rate", "0"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    said = ""
    while "token" not in said:
        line = process.stdout.readline()
        if not line:
            raise RuntimeError("the server did not start")
        said += line
    match = re.search(r"http://[^\s/]+:(\d+)", said)
    assert match
    return process, int(match[1])


def _load(
    port: int, tokens: list[str], seconds: float, server: int
) -> tuple[list[float], int, float, float]:
    """The load, from a process of its own."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(
        target=_clients, args=(port, tokens, seconds, sender)
    )
    process.start()
    receiver.recv_bytes()
    before = _cpu_s(server)
    found = json.loads(receiver.recv_bytes())
    cpu_s = _cpu_s(server) - before
    process.join()
    return sorted(found["times"]), found["errors"], found["took_s"], cpu_s


def _cpu_s(process: int) -> float:
    """The time that a process has computed for; 0 where the system doesn't say."""
    try:
        with open(f"/proc/{process}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _clients(port: int, tokens: list[str], seconds: float, sender: Any) -> None:
    found = asyncio.run(_ask_all(port, tokens, seconds, sender))
    sender.send_bytes(json.dumps(found).encode())


async def _ask_all(port: int, tokens: list[str], seconds: float, sender: Any) -> dict[str, Any]:
    await asyncio.gather(*(_client(port, n, token, WARM_UP_S) for n, token in enumerate(tokens)))
    sender.send_bytes(b"warm")
    began = time.perf_counter()
    clients = (_client(port, n, token, seconds) for n, token in enumerate(tokens))
    found = await asyncio.gather(*clients)
    return {
        "times": [each for times, _ in found for each in times],
        "errors": sum(errors for _, errors in found),
        "took_s": time.perf_counter() - began,
    }


async def _client(port: int, number: int, token: str, seconds: float) -> tuple[list[float], int]:
    """One client on one connection, until its time is up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    request = (
        f"GET /api/tasks/T-{number % TASKS}/brief?budget=500 HTTP/1.1\r\n"
        f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\r\n"
    ).encode()
    times: list[float] = []
    errors = 0
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        body = await reader.readexactly(int(length[1]) if length else 0)
        is_good = head.startswith(b"HTTP/1.1 200 ") and b'"warnings":[]' in body
        errors += not is_good
        if is_good:
            times.append(time.perf_counter() - began)
    writer.close()
    return times, errors


def _told(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    with passdown.open(str(folder)) as workspace:
        heads = workspace.maintenance.heads().heads
    return sum(head[0] for stream, head in heads.items() if stream.startswith("delivery/"))

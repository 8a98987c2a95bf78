"""What one token can take from everybody else: its share of threads, of lines and of memory."""

from __future__ import annotations

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from passdown.web import server as wire
from passdown.web.server_state import Limits
from tests import serving
from tests.interfaces.web.asking import ask, heard
from tests.interfaces.web.test_events import listening
from tests.serving import served

if TYPE_CHECKING:
    from collections.abc import Generator

    from passdown import Workspace
    from tests.interfaces.web.asking import Reply


class Slow(serving.Lent):
    """A store that keeps its first callers waiting until it is told to go on."""

    most = 0
    goes_on: threading.Event
    held: list[str]

    @contextmanager
    def workspace(self) -> Generator[Workspace]:
        is_call = threading.current_thread().name.startswith("passdown-call")
        if is_call and len(self.held) < self.most:
            self.held.append(threading.current_thread().name)
            assert self.goes_on.wait(240)
        with super().workspace() as workspace:
            yield workspace


@contextmanager
def held(monkeypatch: pytest.MonkeyPatch, most: int) -> Generator[type[Slow]]:
    """A store that lets nothing through once so many calls of it are open."""

    class Held(Slow):
        goes_on = threading.Event()
        held: list[str] = []  # noqa: RUF012

    monkeypatch.setattr(serving, "Lent", Held)
    Held.most = most
    try:
        yield Held
    finally:
        Held.goes_on.set()


def until(is_so: object, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.promise("W-19")
def test_slow_reads_of_one_token_hold_up_nobody_else(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of them are at work and twenty wait; the others are told to come back. Whoever else asks
    is served meanwhile, also with a token that nobody has looked up yet.
    """
    limits = Limits(rate=0, reads_at_once=2, reads_waiting=20)
    with held(monkeypatch, 2) as store, served(ws, limits) as server:
        loud, quiet = server.token("loud", "read"), server.token("quiet", "read")
        done: list[Reply] = []
        with ThreadPoolExecutor(60) as clients:
            for _ in range(60):
                asked = clients.submit(ask, server.port, "GET", "/api/tasks", token=loud)
                asked.add_done_callback(lambda each: done.append(each.result()))
            until(lambda: len(store.held) == 2 and len(done) == 38)
            assert {reply.status for reply in done} == {429}
            assert all(reply.codes == {"rate_limited"} for reply in done)
            assert all(int(reply.headers["retry-after"]) >= 1 for reply in done)
            assert ask(server.port, "GET", "/ready").status == 200
            assert ask(server.port, "GET", "/health").status == 200
            assert ask(server.port, "GET", "/api/tasks", token=quiet).status == 200
            late = server.token("late", "read")
            assert ask(server.port, "GET", "/api/tasks/T-1/brief", token=late).status == 200
            assert len(done) == 38
            store.goes_on.set()
        assert sorted({reply.status for reply in done[38:]}) == [200]
        assert len(done) == 60


@pytest.mark.promise("W-19")
@pytest.mark.parametrize("path", ["/api/graph/edges", "/api/audit"])
def test_heavy_reads_of_one_token_leave_room_for_another_s(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Two may be at work in all, but one of each token: the others of its own wait behind it."""
    with held(monkeypatch, 1) as store, served(ws, Limits(rate=0, heavy_waiting=4)) as server:
        loud, quiet = server.token("loud", "read"), server.token("quiet", "read")
        done: list[Reply] = []
        with ThreadPoolExecutor(10) as clients:
            for _ in range(10):
                asked = clients.submit(ask, server.port, "GET", path, token=loud)
                asked.add_done_callback(lambda each: done.append(each.result()))
            until(lambda: len(store.held) == 1 and len(done) == 5)
            assert {reply.status for reply in done} == {429}
            assert ask(server.port, "GET", path, token=quiet).status == 200
            assert ask(server.port, "GET", "/api/tasks", token=loud).status == 200
            assert len(done) == 5
            store.goes_on.set()
        assert sorted({reply.status for reply in done[5:]}) == [200]


@pytest.mark.promise("W-19")
def test_a_token_has_so_many_requests_open_whatever_they_are(ws: Workspace) -> None:
    """Bodies that never end count as well; who waits with them is told, and others aren't."""
    with served(ws, Limits(rate=0, requests_of_token=5)) as server:
        loud, quiet = server.token("loud", "read", "write"), server.token("quiet", "read")
        head = (
            f"POST /api/tasks HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
            f"Authorization: Bearer {loud}\r\nContent-Type: application/json\r\n"
            "Content-Length: 100\r\n\r\n{"
        )
        wires: list[socket.socket] = []

        def is_full() -> bool:
            """Begin one request more; those that find no place are refused and don't count."""
            wires.append(socket.create_connection(("127.0.0.1", server.port)))
            wires[-1].sendall(head.encode())
            return ask(server.port, "GET", "/api/tasks", token=loud).status == 429

        until(is_full)
        refused = ask(server.port, "GET", "/api/tasks", token=loud)
        assert (refused.codes, refused.headers["retry-after"]) == ({"rate_limited"}, "1")
        assert ask(server.port, "GET", "/api/tasks", token=quiet).status == 200
        for each in wires:
            each.close()
        until(lambda: ask(server.port, "GET", "/api/tasks", token=loud).status == 200)


def unread(port: int, path: str, token: str) -> socket.socket:
    """A connection that asks for something and takes next to nothing of it."""
    wire = socket.socket()
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    wire.settimeout(20)
    wire.connect(("127.0.0.1", port))
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\r\n"
    wire.sendall(head.encode())
    return wire


def left_in(wire: socket.socket) -> int:
    """How many bytes can still be read until the server's end is found to be gone."""
    count = 0
    with wire:
        try:
            while part := wire.recv(1 << 20):
                count += len(part)
        except ConnectionResetError:
            pass
    return count


@pytest.mark.promise("W-19")
def test_an_answer_that_nobody_takes_is_dropped(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then it holds a turn of its own token, and nothing of another's."""
    for number in range(130):
        ws.warn("T-1", agent="coder", text=f"{number} {'x' * 60_000}")
    monkeypatch.setattr(wire, "CLIENT_READ_SECONDS", 2.0)
    path = "/api/tasks/T-1/state"
    with served(ws, Limits(rate=0, reads_at_once=1, reads_waiting=0)) as server:
        loud, quiet = server.token("loud", "read"), server.token("quiet", "read")
        whole = ask(server.port, "GET", path, token=quiet)
        assert len(whole.body) > 7_500_000  # more than the systems in between take
        connection = unread(server.port, path, loud)
        until(lambda: ask(server.port, "GET", "/api/tasks", token=loud).status == 429)
        assert ask(server.port, "GET", "/api/tasks", token=quiet).status == 200
        until(lambda: ask(server.port, "GET", "/api/tasks", token=loud).status == 200)
        assert left_in(connection) < len(whole.body)


@pytest.mark.promise("W-19")
def test_idle_connections_make_room_for_new_ones(ws: Workspace) -> None:
    """Those that have been idle for the longest; where all are at work, a problem says so."""
    with served(ws, Limits(rate=0, connections=20)) as server:
        token = server.token("coder", "read")
        idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(50)]
        assert ask(server.port, "GET", "/api/tasks", token=token).status == 200
        idle[0].settimeout(5)
        assert idle[0].recv(10) == b""
        idle[-1].setblocking(False)
        with pytest.raises(BlockingIOError):
            idle[-1].recv(10)
        for each in idle:
            each.close()
    with served(ws, Limits(rate=0, connections=2)) as server:
        token = server.token("coder", "read")
        with listening(server, token), listening(server, token):
            refused = ask(server.port, "GET", "/api/tasks", token=token)
            assert (refused.status, refused.codes) == (503, {"rate_limited"})
            assert refused.headers["retry-after"] == "1"
            assert refused.headers["x-content-type-options"] == "nosniff"


@pytest.mark.promise("W-19")
def test_briefs_are_recorded_no_faster_than_a_token_may_ask(ws: Workspace) -> None:
    """A token that only reads adds to the ledger by being told: within its rate."""
    with served(ws, Limits(rate=5, burst=10)) as server:
        token = server.token("reader", "read")
        path = "/api/tasks/T-1/brief"
        statuses = [ask(server.port, "GET", path, token=token).status for _ in range(60)]
        assert set(statuses) == {200, 429}
        assert statuses.count(429) >= 20
        told = ws.context.deliveries("T-1", limit=1_000)
        assert len([each for each in told if each.agent == "reader"]) == statuses.count(200)


@pytest.mark.promise("W-19", "W-4")
def test_what_is_claimed_stays_one_short_line_of_the_log(ws: Workspace) -> None:
    """However long, however many, with line breaks, escapes or a secret in it."""
    with served(ws) as server, heard() as logged:
        token = server.token("coder", "read", "write")
        secret = server.token("other", "read")
        forged = 'x\n{"event": "request"}\x1b[2J\u202e' + "y" * 30
        body = {"task": "T-1", "text": "w"}
        for number, claimed in enumerate((forged, secret[:45], "a\r\nb")):
            given = {**body, "text": str(number), "agent": claimed}
            assert ask(server.port, "POST", "/api/warnings", token=token, body=given).status == 201
        decisions = [
            {"summary": f"s{n}", "rationale": "r", "agent": f"agent-{n}"} for n in range(3_000)
        ]
        handoff = {"outcome": "completed", "decisions": decisions}
        taken = ask(server.port, "POST", "/api/tasks/T-1/handoffs", token=token, body=handoff)
        assert taken.status == 201
        until(lambda: len(logged) == 4)
    notes = [json.loads(line)["notes"] for line in logged]
    assert [len(each) for each in notes] == [1, 1, 1, 20]
    for line, each in zip(logged, notes, strict=True):
        assert line.isascii()
        assert line.isprintable()
        assert all(len(note) < 250 and note.isprintable() for note in each)
    assert secret[:45] not in logged[1]
    assert secret[15:40] not in logged[1]


@pytest.mark.promise("W-19")
def test_a_long_way_through_the_graph_has_an_end(ws: Workspace) -> None:
    """Of a chain of a thousand nodes with the way to each, as much comes as has a bounded size."""
    from passdown import Edge, Node

    nodes = [Node(f"n{number}", "component", f"Node {number}") for number in range(600)]
    edges = [Edge(f"n{n}", "relates_to", f"n{n + 1}") for n in range(599)]
    ws.knowledge.add(agent="coder", task="T-1", nodes=nodes, edges=edges)
    with served(ws) as server:
        token = server.token("coder", "read")
        path = "/api/graph/neighbours?node=n0&depth="
        far = ask(server.port, "GET", f"{path}1000", token=token).document
        assert far["more"] is True
        assert sum(len(place["path"]) for place in far["items"]) <= 20_000
        assert len(far["items"]) > 150
        near = ask(server.port, "GET", f"{path}5", token=token).document
        assert (near["more"], len(near["items"])) == (False, 5)
        with server.opened("coder", "read") as afar:
            assert afar.knowledge.neighbours("n0", depth=1_000) == ws.knowledge.neighbours(
                "n0", depth=1_000
            )

"""Events: in the ledger's order, from any place in it, until the client or the token is gone."""

from __future__ import annotations

import http.client
import json
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from passdown.web.server_state import Limits
from passdown.workspace.tokens import Tokens
from tests.interfaces.web.asking import ask
from tests.serving import served

if TYPE_CHECKING:
    from collections.abc import Generator

    from passdown import Workspace
    from tests.serving import Served

Document = dict[str, Any]


class Listening:
    """One open stream, read event by event."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.answer = answer

    def events(self, count: int) -> list[Document]:
        """The next events; fewer where the stream ends."""
        found: list[Document] = []
        fields: dict[str, str] = {}
        while len(found) < count:
            line = self.answer.readline()
            if not line:
                return found
            text = line.decode().rstrip("\n")
            if text and not text.startswith(":"):
                name, _, value = text.partition(": ")
                fields[name] = value
            elif not text and "data" in fields:
                found.append({**json.loads(fields["data"]), "id": int(fields["id"])})
                fields = {}
        return found


@contextmanager
def listening(server: Served, token: str, query: str = "", last: str = "") -> Generator[Listening]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=240)
    headers = {"Authorization": f"Bearer {token}"}
    if last:
        headers["Last-Event-ID"] = last
    connection.request("GET", f"/api/events{query}", headers=headers)
    try:
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        assert answer.getheader("content-type", "").startswith("text/event-stream")
        yield Listening(answer)
    finally:
        connection.close()


@pytest.mark.promise("W-5")
def test_who_comes_back_misses_nothing_and_gets_nothing_twice(server: Served) -> None:
    """Cut off again and again while others write: together the pieces are the ledger's order."""
    token = server.token("coder", "read")
    ws = server.workspace
    count = 120

    def write() -> None:
        for number in range(count):
            ws.warn("T-1", agent="coder", text=f"warning {number}")

    writer = threading.Thread(target=write)
    seen: list[Document] = []
    last = ""
    writer.start()
    while len(seen) < count + 1:
        with listening(server, token, "?after=0", last) as stream:
            seen += stream.events(min(17, count + 1 - len(seen)))
            last = str(seen[-1]["id"])
    writer.join()
    told = ws.changes(0, limit=10_000).changes
    assert [event["id"] for event in seen] == [line.seq for line in told]
    assert [event["summary"] for event in seen[1:]] == [f"warning {n}" for n in range(count)]


@pytest.mark.promise("W-5")
def test_without_a_place_events_begin_now_and_can_be_of_one_task(server: Served) -> None:
    token = server.token("coder", "read")
    ws = server.workspace
    ws.create_task("T-2", title="Pay", agent="planner")
    with listening(server, token, "?task=T-2") as stream:
        time.sleep(0.3)
        ws.warn("T-1", agent="coder", text="of another task")
        ws.warn("T-2", agent="coder", text="a\n\ndata: forged\nid: 99")
        (event,) = stream.events(1)
    assert (event["task"], event["kind"]) == ("T-2", "warned")
    assert event["summary"] == "a\n\ndata: forged\nid: 99"


@pytest.mark.promise("W-5")
def test_a_place_that_the_ledger_does_not_have_is_refused(server: Served) -> None:
    """It would be silent for ever: the client is told where the ledger ends, and what to do."""
    token = server.token("coder", "read")
    last = server.workspace.changes(None).last
    for query, headers, path in (
        ("", {"Last-Event-ID": str(last + 1)}, "Last-Event-ID"),
        ("?after=0", {"Last-Event-ID": "9" * 40}, "Last-Event-ID"),
        ("?after=0", {"Last-Event-ID": "abc"}, "Last-Event-ID"),
        (f"?after={last + 1}", {}, "after"),
    ):
        reply = ask(server.port, "GET", f"/api/events{query}", token=token, headers=headers)
        assert (reply.status, reply.codes) == (400, {"invalid_input", "out_of_range"})
        assert reply.document["problems"][0]["path"] == path
        assert f"0 to {last}" in reply.body.decode()
        assert "without a position" in reply.document["next_step"]
    with listening(server, token, last=str(last)) as stream:
        server.workspace.warn("T-1", agent="coder", text="next")
        assert [event["summary"] for event in stream.events(1)] == ["next"]


@pytest.mark.promise("W-1", "W-5")
def test_a_stream_ends_with_its_token(server: Served) -> None:
    token = server.token("coder", "read")
    with listening(server, token, "?after=0") as stream:
        assert stream.events(1)
        Tokens(server.workspace).revoke(token.split("_")[1], by="tests")
        time.sleep(1.1)
        server.workspace.warn("T-1", agent="coder", text="w")
        server.workspace.warn("T-1", agent="coder", text="x")
        assert len(stream.events(3)) < 3


@pytest.mark.promise("W-1")
def test_only_so_many_streams_are_open_at_once(ws: Workspace) -> None:
    """One that is closed makes room again."""
    with served(ws, Limits(rate=0, streams_of_token=2)) as server:
        token, other = server.token("coder", "read"), server.token("tester", "read")
        with listening(server, token), listening(server, token):
            refused = ask(server.port, "GET", "/api/events", token=token)
            assert (refused.status, refused.codes) == (429, {"rate_limited"})
            assert refused.headers["retry-after"] == "1"
            with listening(server, other):
                pass
        deadline = time.monotonic() + 240
        while ask(server.port, "GET", "/metrics", token=other).body.find(b"open_streams 0") < 0:
            ws.warn("T-1", agent="coder", text=str(time.monotonic()))
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.mark.promise("W-6")
def test_a_server_that_stops_ends_its_streams(ws: Workspace) -> None:
    """At once, though their clients would listen for ever."""
    with served(ws) as server:
        token = server.token("coder", "read")
        with listening(server, token, "?after=0") as stream:
            assert len(stream.events(1)) == 1
            began = time.monotonic()
            server.stop()
            assert stream.events(1) == []
            assert time.monotonic() - began < 100

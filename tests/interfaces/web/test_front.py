"""Who is let in: names, origins, tokens, sizes, rates; before anything else is looked at."""

from __future__ import annotations

import http.client
import json
import socket
import tempfile
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

import passdown
from passdown.errors import InvalidInput
from passdown.web.server_state import Limits, RateLimiter, allowed_names, checked_names, is_loopback
from passdown.workspace.tokens import Tokens
from tests.interfaces.web.asking import ask, spoken
from tests.serving import served

if TYPE_CHECKING:
    from pathlib import Path

    from passdown import Workspace
    from tests.serving import Served


@pytest.mark.promise("W-1")
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1",
        "127.0.0.1:1",
        "127.0.0.1:{port}.evil.example",
        "localhost.evil.example:{port}",
        "127.0.0.2:{port}",
        "0.0.0.0:{port}",
        "[::]:{port}",
        "localhost:{port}@evil.example",
        "",
    ],
)
@pytest.mark.parametrize("path", ["/api/tasks", "/mcp", "/health", "/nowhere"])
def test_another_name_is_refused_before_the_token_is_looked_at(
    server: Served, host: str, path: str
) -> None:
    """The name is compared to the letter, on every path, with and without a token."""
    named = host.format(port=server.port)
    token = server.token("coder", "read")
    for given in ("", token):
        reply = ask(server.port, "GET", path, token=given, headers={"Host": named})
        assert reply.status == 421
        assert reply.codes == {"other_host"}
        assert b"T-1" not in reply.body


@pytest.mark.promise("W-1")
@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://localhost:5173",
        "http://127.0.0.1",
        "https://127.0.0.1:{port}",
        "http://127.0.0.1:{port}.evil.example",
        "null",
        "",
    ],
)
def test_a_page_of_another_site_is_refused(server: Served, origin: str) -> None:
    """A right token doesn't help it, and no answer says that other sites may read it."""
    named = {"Origin": origin.format(port=server.port)}
    token = server.token("coder", "read", "write")
    before = server.workspace.maintenance.heads().heads
    for method, body in (("GET", None), ("POST", {"task": "T-9", "title": "x"}), ("OPTIONS", None)):
        reply = ask(server.port, method, "/api/tasks", token=token, body=body, headers=named)
        assert (reply.status, reply.codes) == (403, {"other_origin"})
        assert not [name for name in reply.headers if name.startswith("access-control")]
    assert server.workspace.maintenance.heads().heads == before
    own = {"Origin": f"http://localhost:{server.port}"}
    assert ask(server.port, "GET", "/api/tasks", token=token, headers=own).status == 200


@pytest.mark.promise("W-1")
def test_nobody_is_let_in_without_a_token_that_holds(server: Served) -> None:
    """None, another workspace's, a changed, an expired and a revoked one: all are told the same."""
    good = server.token("coder", "read")
    assert ask(server.port, "GET", "/api/tasks", token=good).status == 200
    soon = (datetime.now(UTC) + timedelta(seconds=0.3)).isoformat()
    short = server.token("coder", "read", expires=soon)
    bad = ["", "x", "token-for-another-audience", good[:-1], good + "x", good.upper()]
    bad.append(good[:-1] + ("A" if good[-1] != "A" else "B"))
    for token in bad:
        reply = ask(server.port, "GET", "/api/tasks", token=token)
        assert (reply.status, reply.codes) == (401, {"no_token"}), token
        assert reply.headers["www-authenticate"].startswith('Bearer realm="passdown"')
        assert len(token) < 5 or token not in reply.body.decode()
    time.sleep(0.4)
    assert ask(server.port, "GET", "/api/tasks", token=short).status == 401
    Tokens(server.workspace).revoke(good.split("_")[1], by="tests")
    time.sleep(1.2)
    assert ask(server.port, "GET", "/api/tasks", token=good).status == 401


def test_a_token_is_taken_from_its_header_alone(server: Served) -> None:
    """Not from the address, not from a cookie, not as another scheme, and not twice."""
    token = server.token("coder", "read")
    port = server.port
    assert ask(port, "GET", f"/api/tasks?token={token}").status == 401
    assert ask(port, "GET", f"/api/events?access_token={token}").status == 401
    for headers in ({"Cookie": f"token={token}"}, {"Authorization": f"Basic {token}"}):
        assert ask(port, "GET", "/api/tasks", headers=headers).status == 401
    twice = f"GET /api/tasks HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n"
    twice += f"Authorization: Bearer {token}\r\n" * 2
    assert b" 401 " in spoken(port, f"{twice}\r\n".encode()).split(b"\r\n")[0]


@pytest.mark.promise("W-2")
def test_a_known_token_with_a_wrong_secret_takes_as_long_as_an_unknown_one(server: Served) -> None:
    """Nobody learns by the clock which ids there are."""
    known = server.token("coder", "read")
    wrong = known[:-8] + ("A" * 8 if known[-8:] != "A" * 8 else "B" * 8)
    unknown = wrong.replace(known.split("_")[1], "a" * 10)
    assert ask(server.port, "GET", "/api/me", token=known).status == 200
    seconds: dict[str, list[float]] = {wrong: [], unknown: []}
    for _ in range(9):
        for token, measured in seconds.items():
            begun = time.perf_counter()
            assert ask(server.port, "GET", "/api/me", token=token).status == 401
            measured.append(time.perf_counter() - begun)
    one, other = (sorted(measured)[4] for measured in seconds.values())
    assert max(one, other) < 4 * min(one, other)


@pytest.mark.promise("W-1")
def test_every_answer_keeps_browsers_at_bay(server: Served) -> None:
    """No framing, no sniffing, no scripts, no caches; also where the answer is a refusal."""
    token = server.token("coder", "read")
    for path, given in (("/health", ""), ("/api/tasks", token), ("/api/tasks", ""), ("/x", token)):
        headers = ask(server.port, "GET", path, token=given).headers
        assert headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers


def test_a_body_is_json_and_no_larger_than_allowed(ws: Workspace) -> None:
    """Said in its header or not, as text or as a form: nothing is stored, and the server lives."""
    with served(ws, Limits(rate=0, body_bytes=5_000)) as server:
        token = server.token("coder", "read", "write")
        before = ws.maintenance.heads().heads
        large = json.dumps({"task": "T-9", "title": "x" * 6_000}).encode()
        assert ask(server.port, "POST", "/api/tasks", token=token, body=large).status == 413
        chunked = {"Transfer-Encoding": "chunked"}
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=240)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection.request(
            "POST", "/api/tasks", iter([large]), {**headers, **chunked}, encode_chunked=True
        )
        assert connection.getresponse().status == 413
        connection.close()
        for media in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
            reply = ask(
                server.port,
                "POST",
                "/api/tasks",
                token=token,
                body=b'{"task": "T-9", "title": "x"}',
                headers={"Content-Type": media},
            )
            assert (reply.status, "not_json" in reply.codes) == (415, True)
        assert ws.maintenance.heads().heads == before
        assert ask(server.port, "GET", "/health").status == 200


def test_who_sends_slowly_is_not_waited_for(ws: Workspace) -> None:
    with served(ws, Limits(rate=0, body_seconds=0.3)) as server:
        token = server.token("coder", "read", "write")
        head = f"POST /api/tasks HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        head += f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        answer = spoken(server.port, f"{head}Content-Length: 100\r\n\r\n{{".encode())
        assert answer.startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize(
    "raw",
    [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /x",
        "Content-Length: 5\r\nContent-Length: 6\r\n\r\n{}",
        "Host: evil.example\r\n\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\nContent-Length: 2\r\n\r\n{}",
    ],
)
def test_a_request_that_can_be_read_in_two_ways_is_refused(server: Served, raw: str) -> None:
    """One answer, and the connection is closed: what comes after is nobody's request."""
    head = f"POST /api HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
    answer = spoken(server.port, (head + raw).encode())
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.promise("W-1")
def test_the_first_lines_of_a_request_are_bounded(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In size and in time, before anybody knows who is there; a long body is not a long head."""
    from passdown.web import server as wire

    head = f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
    long = spoken(server.port, f"{head}X: {'a' * 200_000}\r\n\r\n".encode())
    # Who is still sending may be cut off before the answer is read.
    assert not long or (long.startswith(b"HTTP/1.1 400 ") and b"problem+json" in long)
    token = server.token("coder", "read", "write")
    body = {"task": "T-1", "summary": "x" * 60_000, "rationale": "y" * 60_000}
    assert ask(server.port, "POST", "/api/decisions", token=token, body=body).status in (201, 422)
    monkeypatch.setattr(wire, "HEAD_SECONDS", 0.3)
    began = time.monotonic()
    assert spoken(server.port, b"GET /health HTT") == b""
    assert spoken(server.port, b"") == b""
    assert time.monotonic() - began < 60
    assert spoken(server.port, b"\x16\x03\x01 garbage\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert ask(server.port, "GET", "/api/tasks/", token=token).status == 404


def test_who_asks_too_often_waits_and_nobody_else_does(ws: Workspace) -> None:
    with served(ws, Limits(rate=5, burst=10)) as server:
        loud, quiet = server.token("loud", "read", "write"), server.token("quiet", "read")
        body = {"task": "T-1", "text": "w"}
        replies = [
            ask(server.port, "POST", "/api/warnings", token=loud, body={**body, "text": str(n)})
            for n in range(40)
        ]
        refused = [reply for reply in replies if reply.status == 429]
        taken = [reply for reply in replies if reply.status == 201]
        assert len(refused) + len(taken) == 40
        assert len(refused) >= 10
        assert refused[0].codes == {"rate_limited"}
        assert int(refused[0].headers["retry-after"]) >= 1
        assert ask(server.port, "GET", "/api/tasks", token=quiet).status == 200
        assert len(ws.files.state_document("T-1")["warnings"]) == len(taken)


def test_a_bucket_fills_with_time() -> None:
    now = [0.0]
    buckets = RateLimiter(2.0, 3.0, clock=lambda: now[0])
    assert [buckets.take("a") for _ in range(3)] == [0.0] * 3
    assert buckets.take("a") == pytest.approx(0.5)
    now[0] = 0.5
    assert buckets.take("a") == 0.0
    assert buckets.take("b") == 0.0
    assert [RateLimiter(0, 0).take("a") for _ in range(100)] == [0.0] * 100


def test_names_are_taken_as_they_are_spelled() -> None:
    """Without a port for a proxy and with this server's own; plain origins are local only."""
    names = allowed_names("0.0.0.0", 8765, ("passdown.example.org", "other:9000"))
    assert names.hosts == {"passdown.example.org", "passdown.example.org:8765", "other:9000"}
    assert all(origin.startswith("https://") for origin in names.origins)
    local = allowed_names("127.0.0.1", 80, ())
    assert {"localhost", "localhost:80", "[::1]:80"} <= local.hosts
    assert [is_loopback(name) for name in ("127.0.0.1", "::1", "localhost", "127.9.9.9")] == [
        True
    ] * 4
    assert not [n for n in ("0.0.0.0", "::", "10.0.0.1", "localhost.evil", "") if is_loopback(n)]
    assert checked_names(["A.Example."]) == ("a.example",)
    for bad in ("*", "*.example.org", "http://x", "a b", "x/y", "", "a:b", "a..b"):
        with pytest.raises(ValueError, match="not started"):
            checked_names([bad])


@pytest.mark.promise("W-4")
@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/api/tasks/T-7", "GET, PATCH"),
        ("HEAD", "/api/tasks", "GET, POST"),
        ("OPTIONS", "/api/tasks", "GET, POST"),
        ("PUT", "/api/handoffs/check", "POST"),
        ("POST", "/api/tasks/T-1/brief", "GET"),
        ("POST", "/health", "GET, HEAD"),
    ],
)
def test_a_method_that_is_not_there_is_told_all_that_are(
    server: Served, method: str, path: str, allowed: str
) -> None:
    reply = ask(server.port, method, path, token=server.token("coder", "read"))
    assert (reply.status, reply.headers["allow"]) == (405, allowed)


def test_fields_after_a_body_are_no_headers(server: Served) -> None:
    """Neither a token, nor a name of the server, nor anything else that was decided before."""
    token = server.token("coder", "read", "write")
    body = b'{"task": "T-1", "text": "late"}'
    head = (
        f"POST /api/warnings HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    ).encode()
    chunks = b"%x\r\n%s\r\n0\r\n" % (len(body), body)
    late = f"Authorization: Bearer {token}\r\nConnection: close\r\n\r\n".encode()
    answer = spoken(server.port, head + chunks + late)
    assert answer.startswith(b"HTTP/1.1 401 ")


def test_fields_after_a_body_are_bounded(server: Served) -> None:
    head = f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n".encode()
    chunked = b"Transfer-Encoding: chunked\r\n\r\n0\r\n"
    for endless in (b"x: " + b"y" * 1_000 + b"\r\n", b"y" * 1_000):
        with socket.create_connection(("127.0.0.1", server.port), timeout=240) as wire:
            wire.sendall(head + chunked + (b"x: " if b":" not in endless else b""))
            with pytest.raises((BrokenPipeError, ConnectionResetError)):
                wire.sendall(endless * 20_000)


def test_a_field_named_as_nothing_can_be_is_refused(server: Served) -> None:
    token = server.token("coder", "read", "write")
    decision = {"task": "T-1", "summary": "s", "rationale": "r", "self": 1}
    note = {"task": "T-1", "kind": "gotcha", "issue": "i", "mitigation": "m", "severity": "low"}
    for path, body in (
        ("/api/decisions", decision),
        ("/api/notes", {**note, "self": 1}),
        ("/api/notes", {**note, "key": "k", "expect_version": 3}),
    ):
        reply = ask(server.port, "POST", path, token=token, body=body)
        assert (reply.status, reply.codes) == (422, {"invalid_input", "unknown_field"}), path


def test_a_copy_made_for_an_answer_leaves_nothing_behind(
    server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a part of it is asked for, which isn't given: the whole comes."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    token = server.token("kim", "read", "admin", is_person=True)
    for asked in ("bytes=garbage", "bytes=999999999-", "lines=1", "bytes=0-3"):
        reply = ask(server.port, "GET", "/api/backup", token=token, headers={"Range": asked})
        assert (reply.status, reply.body[:15]) == (200, b"SQLite format 3")
        assert list(tmp_path.glob("passdown-*")) == []


@pytest.mark.parametrize("host", ["127.0.0.1.example.com", "127.example", "localhost.example"])
def test_a_token_goes_in_the_open_to_this_machine_alone(host: str) -> None:
    with pytest.raises(InvalidInput, match="in the open"):
        passdown.open(f"http://{host}", token="t")


def test_a_condition_that_would_not_be_kept_is_refused(server: Served) -> None:
    token = server.token("coder", "read", "write")
    before = server.workspace.maintenance.heads().heads
    body = {"task": "T-1", "text": "late"}
    condition = {"If-Match": '"1"'}
    reply = ask(server.port, "POST", "/api/warnings", token=token, body=body, headers=condition)
    assert (reply.status, reply.codes) == (400, {"invalid_input", "not_here"})
    assert server.workspace.maintenance.heads().heads == before

"""A client whose server is broken, is another program, or means harm: it is told so in bounded
time, holds a bounded amount, and gives nothing away.
"""

from __future__ import annotations

import gzip
import os
import signal
import sys
import time
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING

import pytest

import passdown
from passdown.errors import InvalidInput, NotFound, PassdownError, StoreUnavailable
from passdown.remote import RemoteWorkspace
from passdown.remote import connection as asking
from passdown.remote.connection import MAX_DOCUMENT_BYTES, HttpConnection, server_at
from tests.interfaces.repositories import run
from tests.interfaces.web.odd_server import odd_server
from tests.processes import Process
from tests.serving import Limits, served

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from passdown import Workspace
    from tests.interfaces.web.odd_server import Answering, Client, Odd

TOKEN = "pd_abc_secret"
PATIENCE_S = 1.0
SQLITE = "application/vnd.sqlite3"


@contextmanager
def opened(answering: Answering) -> Generator[tuple[RemoteWorkspace, Odd]]:
    """A workspace behind an odd server, with little patience."""
    with (
        odd_server(answering) as odd,
        RemoteWorkspace(HttpConnection(server_at(odd.url), TOKEN, PATIENCE_S)) as ws,
    ):
        yield ws, odd


def error_of(call: Callable[[], object]) -> PassdownError:
    """What a call raises, in bounded time; no token is in it."""
    started = time.monotonic()
    with pytest.raises(PassdownError) as caught:
        call()
    assert time.monotonic() - started < 60
    assert TOKEN not in str(caught.value)
    return caught.value


NO_ANSWERS: list[tuple[str, Callable[[Client], None], str]] = [
    ("a page of a proxy", lambda c: c.answer(b"<h1>hi</h1>", "text/html"), "status 200"),
    ("a page of a proxy", lambda c: c.answer(b"<h1>hi</h1>", "text/html"), "text/html"),
    ("its error", lambda c: c.answer(b"<h1>bad</h1>", "text/html", "502 Bad Gateway"), "502"),
    ("its limit", lambda c: c.answer(b"<h1>413</h1>", "text/html", "413 Too Large"), "413"),
    ("text", lambda c: c.answer(b"ok", "text/plain"), "text/plain"),
    ("a list", lambda c: c.document([1, 2]), "no JSON object"),
    ("half a document", lambda c: c.answer(b'{"items": [', "application/json"), "JSON"),
    ("a deep document", lambda c: c.answer(b"[" * 200_000, "application/json"), "JSON"),
    ("no HTTP", lambda c: c.send(b"SSH-2.0-OpenSSH_9.9\r\n\r\n"), "doesn't answer as Passdown"),
    ("no page", lambda c: c.document({"error": "no"}), "no page"),
    (
        "no problem",
        lambda c: c.answer(b'{"code": 1}', "application/problem+json", "400 No"),
        "no problem document",
    ),
    (
        "odd problems",
        lambda c: c.answer(
            b'{"code": "invalid_input", "detail": "d", "problems": [{"x": 1}]}',
            "application/problem+json",
            "422 No",
        ),
        "no problem document",
    ),
]


@pytest.mark.promise("W-16")
@pytest.mark.parametrize(("what", "answering", "said"), NO_ANSWERS)
def test_what_is_no_answer_of_passdowns_is_called_that(
    what: str, answering: Answering, said: str
) -> None:
    """An error says so, with the status and what the answer calls itself, and what to check."""
    with opened(answering) as (ws, _):
        error = error_of(ws.tasks)
    assert (error.code, said in str(error)) == ("not_a_server", True), what
    assert error.next_step


@pytest.mark.promise("W-16")
def test_the_command_line_says_what_answers_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No traceback, no talk of a fault: the address answers as something else."""
    with odd_server(lambda c: c.answer(b"<h1>hi</h1>", "text/html")) as odd:
        monkeypatch.setenv("PASSDOWN_TOKEN", TOKEN)
        told = run(tmp_path, "task", "list", "--store", odd.url)
    assert told.code == 1
    assert "doesn't answer as Passdown: status 200" in told.err
    assert "text/html" in told.err


@pytest.mark.promise("W-16")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_gets_no_token(status: int) -> None:
    """Nobody connects to where it leads; the error names that place, and no more of it."""
    with odd_server(lambda c: c.document({"items": [], "next": None})) as other:
        target = other.url.replace("http://", "http://me:pw@") + "/steal?x=1"

        def answering(client: Client) -> None:
            client.answer(b"", "text/plain", f"{status} Elsewhere", Location=target)

        with opened(answering) as (ws, odd):
            error = error_of(ws.tasks)
            assert [TOKEN.encode() in head for head in odd.heads] == [True]
        assert other.heads == []
    assert error.code == "not_a_server"
    assert f"leads to {other.url}" in str(error)
    assert "pw" not in str(error)
    assert "steal" not in str(error)


@pytest.mark.promise("W-16")
def test_an_answer_that_drips_is_given_up() -> None:
    """Whether the head, the body or a chunk comes byte by byte: the time is for all of it."""
    slow: list[Callable[[Client], None]] = [
        lambda c: c.drip(b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 99),
        lambda c: (
            c.send(b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n"),
            c.drip(b"{" + b" " * 998),
        )[0],
        lambda c: (
            c.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
            c.drip(b"1\r\n \r\n" * 999),
        )[0],
        lambda c: c.drip(b"HTTP/1.1 100 Continue\r\n\r\n" * 99),
        lambda c: c.drip(b" ", seconds=30),
    ]
    for answering in slow:
        with opened(answering) as (ws, odd):
            started = time.monotonic()
            error = error_of(ws.tasks)
            assert time.monotonic() - started < PATIENCE_S + 25
            assert len(odd.heads) == 1
        assert isinstance(error, StoreUnavailable)
        assert "within 1 seconds" in str(error) or "timed out" in str(error)


@pytest.mark.promise("W-16")
def test_an_answer_that_was_cut_off_is_asked_for_again() -> None:
    """Half of an answer is none: what only reads, or has a key, is asked again, and what can't be
    had is a connection that broke, not another program.
    """

    def half(client: Client) -> None:
        client.answer(b'{"text": "graph', "text/plain", Content_Length="999")

    with opened(half) as (ws, odd):
        for call in (
            lambda: ws.knowledge.render("mermaid"),
            lambda: ws.decide(task="T-1", agent="a", summary="s", rationale="r", key="k"),
        ):
            odd.heads.clear()
            assert isinstance(error_of(call), StoreUnavailable)
            assert len(odd.heads) == 3


@pytest.mark.parametrize("token", ["pdt_one\ntoken 2, for coder", "tok\u20acn", "two words"])
def test_what_is_no_token_is_not_sent_and_not_shown(token: str) -> None:
    with odd_server(lambda client: client.document({})) as odd:
        with pytest.raises(InvalidInput) as caught:
            passdown.open(odd.url, token=token)
        assert caught.value.problems[0].path == "token"
        assert token[:6] not in str(caught.value)
        assert odd.heads == []


@pytest.mark.promise("W-16")
def test_an_answer_without_end_is_cut_off() -> None:
    """With no length, a huge one, or in chunks: no more is read than any document has."""
    endless: list[Callable[[Client], None]] = [
        lambda c: _for_ever(c, b"Content-Type: application/json\r\n", b" " * 65_536),
        lambda c: _for_ever(c, b"Content-Length: 999999999999999\r\n", b" " * 65_536),
        lambda c: _for_ever(
            c, b"Transfer-Encoding: chunked\r\n", b"10000\r\n" + b" " * 65_536 + b"\r\n"
        ),
    ]
    for answering in endless:
        with odd_server(answering) as odd, passdown.open(odd.url, token=TOKEN) as ws:
            error = error_of(ws.tasks)
        assert error.code == "answer_too_large"
        assert f"{MAX_DOCUMENT_BYTES:,} bytes" in str(error)


def _for_ever(client: Client, headers: bytes, part: bytes) -> None:
    client.send(b"HTTP/1.1 200 OK\r\n" + headers + b"\r\n")
    while not client.ended.is_set():
        client.send(part)


@pytest.mark.promise("W-16")
def test_what_nobody_asked_to_be_packed_is_not_unpacked() -> None:
    """A bomb in gzip stays packed: the request asked for none, and the answer is refused."""
    bomb = gzip.compress(b" " * 50_000_000)

    def answering(client: Client) -> None:
        client.answer(bomb, "application/json", Content_Encoding="gzip")

    with opened(answering) as (ws, odd):
        error = error_of(ws.tasks)
        assert b"accept-encoding: identity" in odd.heads[0].lower()
    assert error.code == "not_a_server"
    assert "packed (gzip)" in str(error)


@pytest.mark.promise("W-16")
def test_pages_that_lead_nowhere_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same cursor again, a new one without entries, and entries without end are all noticed."""
    numbers = count()

    def same(client: Client) -> None:
        client.document({"items": [{"task": "T-1"}], "next": "7"})

    def empty(client: Client) -> None:
        client.document({"items": [], "next": str(next(numbers))})

    def more(client: Client) -> None:
        client.document({"items": [{"task": "x" * 100_000}], "next": str(next(numbers))})

    for answering in (same, empty):
        with opened(answering) as (ws, odd):
            error = error_of(lambda ws=ws: ws.tasks(limit=10**9))
            assert (error.code, "leads nowhere" in str(error)) == ("not_a_server", True)
            assert len(odd.heads) <= 3
    monkeypatch.setattr(asking, "MAX_ANSWER_BYTES", 1_000_000)
    with opened(more) as (ws, odd):
        assert error_of(lambda: ws.log(limit=10**9)).code == "answer_too_large"
        assert len(odd.heads) < 15
    monkeypatch.undo()
    monkeypatch.setattr(asking, "HEAVY_TIMEOUT_S", 1.0)
    with opened(more) as (ws, _):
        assert isinstance(error_of(lambda: ws.log(limit=10**9)), StoreUnavailable)


@pytest.mark.promise("W-16")
def test_more_than_was_asked_for_is_not_given() -> None:
    """A page with more entries than its limit gives as many as were asked for."""
    pages = {"items": [{"task": str(number)} for number in range(50)], "next": None}
    with opened(lambda c: c.document(pages)) as (ws, _):
        assert len(ws.tasks(limit=5)) == 5


def _backup(body: bytes, length: int | None = None, media: str = SQLITE) -> Answering:
    def answering(client: Client) -> None:
        said = len(body) if length is None else length
        client.answer(body, media, Content_Length=str(said))

    return answering


@pytest.mark.promise("W-17")
def test_a_bad_backup_leaves_nothing_behind(ws: Workspace, tmp_path: Path) -> None:
    """Cut off, foreign, of another kind, too large for the disk: no file has its name, or any."""
    ws.maintenance.backup(str(tmp_path / "good.db"))
    good = (tmp_path / "good.db").read_bytes()
    folder = tmp_path / "backups"
    folder.mkdir()
    bad: list[tuple[Answering, type[PassdownError]]] = [
        (_backup(good[:-5_000], len(good)), StoreUnavailable),
        (_backup(b"<h1>hi</h1>", media="text/html"), PassdownError),
        (_backup(b"no database at all" * 1_000), PassdownError),
        (_backup(b""), PassdownError),
        (_backup(good, 10**17), InvalidInput),
        (lambda c: c.send(b"HTTP/1.1 200 OK\r\nContent-Type: " + SQLITE.encode() + b"\r\n\r\n"
                          + good), PassdownError),
    ]  # fmt: skip
    for answering, kind in bad:
        with opened(answering) as (remote, _):
            error = error_of(lambda remote=remote: remote.maintenance.backup(str(folder / "b.db")))
            assert isinstance(error, kind)
        assert list(folder.iterdir()) == []
    with opened(_backup(good)) as (remote, _):
        assert remote.maintenance.backup(str(folder / "b.db")).ok
    assert [path.name for path in folder.iterdir()] == ["b.db"]


@pytest.mark.promise("W-17")
def test_a_damaged_backup_does_not_get_the_name(ws: Workspace, tmp_path: Path) -> None:
    """A copy of a store that was altered is kept as damaged, with what is wrong with it."""
    ws.maintenance.backup(str(tmp_path / "good.db"))
    data = bytearray((tmp_path / "good.db").read_bytes())
    place = data.index(b'"title":"Login"') + 9
    data[place : place + 5] = b"Logon"
    with opened(_backup(bytes(data))) as (remote, _):
        found = remote.maintenance.backup(str(tmp_path / "b.db"))
    assert not found.ok
    assert found.findings[-1].code == "damaged_copy"
    assert not (tmp_path / "b.db").exists()
    assert (tmp_path / "b.db.damaged").read_bytes() == bytes(data)


@pytest.mark.promise("W-17")
def test_a_client_that_is_killed_leaves_no_backup(ws: Workspace, tmp_path: Path) -> None:
    """Killed in the middle, nothing has the name of the backup."""
    ws.maintenance.backup(str(tmp_path / "good.db"))
    good = (tmp_path / "good.db").read_bytes()

    def answering(client: Client) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {SQLITE}\r\nContent-Length: {len(good)}\r\n\r\n"
        client.send(head.encode() + good[:-1])
        client.ended.wait(240)

    with odd_server(answering) as odd:
        program = (
            f"import passdown; passdown.open({odd.url!r}, token='t').maintenance.backup('b.db')"
        )
        client = Process([sys.executable, "-c", program], cwd=tmp_path)
        deadline = time.monotonic() + 240
        while not list(tmp_path.glob("b.db*")) and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(client.pid, signal.SIGKILL)
        client.wait(240)
    (left,) = tmp_path.glob("b.db*")
    assert left.name.endswith(".tmp")


@pytest.mark.promise("W-18")
@pytest.mark.parametrize("mib", [2, 40])
def test_a_body_that_is_too_large_is_answered(ws: Workspace, mib: int) -> None:
    """The client is told the limit and what to do, however much it had still to send."""
    with served(ws, Limits(rate=0)) as server, server.opened("coder", "read", "write") as remote:
        text = "x" * (mib << 20)
        with pytest.raises(InvalidInput) as caught:
            remote.decide(task="T-1", agent="coder", summary=text, rationale="r")
        assert [problem.code for problem in caught.value.problems] == ["too_large"]
        assert "at most 1,048,576 bytes" in str(caught.value)
        assert "--max-body" in caught.value.next_step
        with pytest.raises(NotFound):
            remote.show("T-1#d1")


@pytest.mark.promise("W-18")
def test_a_bundle_that_is_too_large_is_answered(ws: Workspace, tmp_path: Path) -> None:
    """An import through a server says how large a body may be, and where to go instead."""
    for number in range(40):
        text = "".join(f"{number * 7919 + place * 104729:x} " for place in range(4_000))
        ws.decide(task="T-1", agent="a", summary=f"{number}", rationale=text)
    ws.maintenance.export(str(tmp_path / "b"))
    with (
        served(ws, Limits(rate=0, body_bytes=65_536)) as server,
        server.opened("kim", "admin", is_person=True) as remote,
        pytest.raises(InvalidInput) as caught,
    ):
        remote.maintenance.import_bundle(str(tmp_path / "b"))
    assert "at most 65,536 bytes" in str(caught.value)
    assert "do it where the store is" in caught.value.next_step


@pytest.mark.promise("W-18")
def test_other_refusals_are_answered_too(ws: Workspace) -> None:
    """Who sends much with a bad token is told about the token, not that the connection broke."""
    with (
        served(ws, Limits(rate=0)) as server,
        passdown.open(server.url, token="pd_x_y") as remote,
        pytest.raises(PassdownError) as caught,
    ):
        remote.decide(task="T-1", agent="coder", summary="x" * (8 << 20), rationale="r")
    assert caught.value.code == "no_token"

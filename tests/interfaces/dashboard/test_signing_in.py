"""Signing in with a link from the terminal, and what a browser may then do."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown.core.access import server_proof, token_digest, token_id
from passdown.web.sessions import CODE_SECONDS, SignInCodes, form_value
from passdown.workspace.tokens import SESSIONS, Tokens, own_token_file, usual_file
from tests.interfaces.dashboard.conftest import opened_page, sign_in_link
from tests.interfaces.web.asking import ask

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from passdown import Workspace
    from tests.interfaces.running import Run
    from tests.serving import Served

pytestmark = pytest.mark.promise("W-21")


def exchanged(server: Served, code: str, **headers: str) -> Any:
    sent = {"Origin": server.url, **headers}
    return ask(server.port, "POST", "/sign-in", body={"code": code}, headers=sent)


def signed_in(server: Served, *rights: str) -> str:
    """The token in the cookie of a new session."""
    link = sign_in_link(server, *rights)
    reply = exchanged(server, link.partition("#")[2])
    return reply.headers["set-cookie"].partition("=")[2].partition(";")[0]


def asked(server: Served, method: str, path: str, token: str, body: Any = None, **more: str) -> Any:
    headers = {"Cookie": f"passdown_{server.port}={token}", **more}
    return ask(server.port, method, path, body=body, headers=headers)


def test_a_link_from_the_terminal_signs_in_once(browser: Any, server: Served) -> None:
    link = sign_in_link(server)
    with opened_page(browser, server) as page:
        assert page.locator("h1").inner_text().startswith("Attention")
        (cookie,) = page.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert exchanged(server, link.partition("#")[2]).status == 200
    again = exchanged(server, link.partition("#")[2])
    assert (again.status, "set-cookie" in again.headers) == (403, False)


def test_a_code_ends_after_a_minute(server: Served) -> None:
    now = [0.0]
    codes = SignInCodes(lambda: now[0])
    access = next(iter(Tokens(server.workspace).all().values()), None)
    if access is None:
        server.token("kim", "read", is_person=True)
        access = next(iter(Tokens(server.workspace).all().values()))
    early, late = codes.new(access), codes.new(access)
    now[0] = CODE_SECONDS - 1
    assert codes.take(early) == access
    now[0] = CODE_SECONDS
    assert codes.take(late) is None


def test_nobody_sees_a_page_without_signing_in(server: Served) -> None:
    shown = ask(server.port, "GET", "/", headers={"Accept": "text/html"})
    assert (shown.status, shown.headers["location"]) == (303, "/sign-in")
    assert ask(server.port, "GET", "/board").status == 401
    for path in ("/sign-in", "/static/dashboard.js"):
        assert ask(server.port, "GET", path).status == 200
    assert ask(server.port, "GET", "/static/..%2fmarkup.py").status == 404


def test_a_write_needs_the_value_of_the_page(server: Served) -> None:
    """Cookies go to every port of a host: only a page of this server knows the value."""
    token = signed_in(server)
    new = {"task": "T-2", "title": "Forged"}
    form = {"X-Passdown-Form": form_value(token)}
    origin = {"Origin": server.url}
    for headers in ({}, origin, form, {**origin, "X-Passdown-Form": form_value("other")}):
        reply = asked(server, "POST", "/api/tasks", token, new, **headers)
        assert (reply.status, reply.document["code"]) == (403, "forged")
    other = {**form, "Origin": "http://localhost:5173"}
    assert asked(server, "POST", "/api/tasks", token, new, **other).status == 403
    assert asked(server, "POST", "/api/tasks", token, new, **origin, **form).status == 201
    beside = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}
    assert asked(server, "GET", "/api/tasks", token, **beside).status == 403
    assert asked(server, "POST", "/mcp", token, {}, **origin, **form).status == 401


def test_a_session_ends_with_its_token_and_when_one_signs_out(browser: Any, server: Served) -> None:
    token = signed_in(server)
    assert asked(server, "GET", "/api/me", token).status == 200
    tokens = Tokens(server.workspace)
    session = next(each for each in tokens.all().values() if each.parent)
    tokens.revoke(session.parent, by="kim")
    assert not tokens.is_live(session.id)
    with opened_page(browser, server) as page:
        page.click("#sign-out")
        page.wait_for_url("**/sign-in")
        page.goto(server.url + "/")
        page.wait_for_url("**/sign-in")


def test_passdown_ui_serves_the_page_and_finds_the_server_that_runs(tmp_path: Path) -> None:
    """The link that it prints works once; a second call gets another from the same server."""
    with passdown.open(str(tmp_path)) as ws:
        ws.create_task("T-1", title="Login", agent="planner")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "passdown", "ui", "--no-open", "--port", str(port)]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        first = next(line for line in process.stdout if "  page  " in line).split()[1]
        second = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        for link in (first, second.stdout.split()[0]):
            address, _, code = link.partition("#")
            assert address == f"http://127.0.0.1:{port}/sign-in"
            origin = {"Origin": f"http://127.0.0.1:{port}"}
            reply = ask(port, "POST", "/sign-in", body={"code": code}, headers=origin)
            assert reply.status == 200
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=240)


class _Squatter(BaseHTTPRequestHandler):
    """Listens where a server of Passdown is expected, and answers as one would."""

    def do_GET(self) -> None:
        self.server.heard.append(self.headers.get("Authorization", ""))  # type: ignore[attr-defined]
        body = b'{"path": "@evil.example/phish", "proof": "00", "name": "kim"}'
        self.send_response(201)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def squatting() -> Generator[tuple[int, list[str]]]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Squatter) as other:
        other.heard = []  # type: ignore[attr-defined]
        threading.Thread(target=other.serve_forever, daemon=True).start()
        yield other.server_address[1], other.heard  # type: ignore[attr-defined]
        other.shutdown()


def test_no_token_goes_to_a_server_that_does_not_know_it(project: Path, cli: Run) -> None:
    with passdown.open(str(project)) as ws:
        own_token_file(Tokens(ws), usual_file(ws), "kim")
    with squatting() as (port, heard):
        refused = cli("ui", "--no-open", "--port", str(port), code=None)
    assert refused.code
    assert heard
    assert set(heard) == {""}
    assert "evil" not in refused.out + refused.err


def test_a_proof_holds_for_one_port(server: Served) -> None:
    """Nobody can pass on the answer of a server that listens elsewhere."""
    token = server.token("kim", "read", is_person=True)
    reply = ask(server.port, "GET", f"/proof?token={token_id(token)}&nonce=n")
    assert reply.document["proof"] == server_proof(token_digest(token), server.port, "n")
    assert reply.document["proof"] != server_proof(token_digest(token), server.port + 1, "n")


def test_a_link_leads_to_the_page_for_signing_in_only(
    cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSDOWN_TOKEN", "pdt_x")
    with squatting() as (port, _):
        refused = cli("ui", "--no-open", "--store", f"http://127.0.0.1:{port}", code=None)
    assert refused.code
    assert "evil" not in refused.out + refused.err


def test_no_page_elsewhere_reads_the_api_with_the_cookie(server: Served, ws: Workspace) -> None:
    """Asking for a brief is recorded: a page on another port could write that way."""
    token = signed_in(server)
    beside = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Accept": "text/html"}
    path = "/api/tasks/T-1/brief?agent=evil"
    assert asked(server, "GET", path, token, **beside).status == 403
    assert ws.context.deliveries("T-1") == []
    assert asked(server, "GET", "/tasks/T-1", token, **beside).status == 403
    link = {**beside, "Sec-Fetch-Mode": "navigate"}
    assert asked(server, "GET", "/tasks/T-1", token, **link).status == 200
    assert asked(server, "GET", path, token, **link).status == 403
    own = {**beside, "Sec-Fetch-Site": "same-origin"}
    assert asked(server, "GET", path, token, **own).status == 200


@pytest.mark.parametrize(
    "path",
    [
        *("/tasks/T-1?before=%C2%B2", "/tasks/T-1?old=%C2%B2&new=1", "/board?after=%C2%B2"),
        *("/tasks/T-1?old=1&new=999", "/tasks/T-1?before=" + "9" * 5_000),
    ],
)
def test_an_odd_number_in_an_address_is_passed_over(server: Served, path: str) -> None:
    token = signed_in(server)
    assert asked(server, "GET", path, token, Accept="text/html").status == 200
    given = asked(server, "GET", "/tasks/T-1/given/%C2%B2", token, Accept="text/html")
    assert given.status == 404


def test_a_browser_signs_in_no_other_and_a_token_only_some(server: Served) -> None:
    """Each session is a record: a token that may only read can't write without end."""
    first = signed_in(server, "read")
    own = {"Origin": server.url, "X-Passdown-Form": form_value(first)}
    assert asked(server, "POST", "/sign-in-links", first, {}, **own).status == 403
    token = server.token("ann", "read")
    seen: list[int] = []
    for _ in range(SESSIONS + 1):
        reply = ask(server.port, "POST", "/sign-in-links", token=token, body={})
        seen.append(exchanged(server, reply.document["path"].partition("#")[2]).status)
    assert seen == [200] * SESSIONS + [429]


def test_a_revoked_token_ends_its_links_and_sessions(
    server: Served, ws: Workspace, cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed_in(server, "read")
    link = sign_in_link(server, "read", name="ann")
    tokens = Tokens(ws)
    for each in list(tokens.all().values()):
        if not each.parent:
            tokens.revoke(each.id, by="kim")
    reply = exchanged(server, link.partition("#")[2])
    assert (reply.status, "set-cookie" in reply.headers) == (403, False)
    monkeypatch.chdir(ws.root)
    assert "browser" not in cli("token", "list").out
    listed = cli("token", "list", "--all").out.splitlines()
    assert [line for line in listed if "browser" in line and "revoked" in line]


def test_a_cookie_that_another_server_has_set_is_passed_over(server: Served) -> None:
    token, name = signed_in(server), f"passdown_{server.port}"
    headers = {"Cookie": f"{name}=junk; {name}={token}", "Accept": "text/html"}
    assert ask(server.port, "GET", "/tasks/T-1", headers=headers).status == 200


def test_a_refusal_is_a_page_in_a_browser(server: Served) -> None:
    """Of the gateway too, which no page of this server sees."""
    headers = {"Accept": "text/html", "Host": f"evil.example:{server.port}"}
    reply = ask(server.port, "GET", "/", headers=headers)
    assert (reply.status, reply.headers["content-type"]) == (421, "text/html; charset=utf-8")
    assert b"<h1>Unknown host name</h1>" in reply.body


def test_the_page_of_a_server_is_opened_with_a_token(
    server: Served, cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSDOWN_TOKEN", server.token("ann", "read", "write"))
    link = cli("ui", "--no-open", "--store", server.url).out.split()[0]
    reply = exchanged(server, link.partition("#")[2])
    assert (reply.status, reply.document["name"]) == (200, "ann")


def test_no_page_runs_what_it_does_not_bring(server: Served) -> None:
    policy = asked(server, "GET", "/", signed_in(server)).headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "frame-ancestors 'none'" in policy

"""`serve`, `ui`, `mcp` and `token`: servers over HTTP and MCP, and who may use them."""

from __future__ import annotations

import argparse
import os
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from passdown.cli.output import line, row_printer, verbatim
from passdown.cli.parsing import comma_list, command
from passdown.cli.session import UsageError, start_tracing
from passdown.core.access import RIGHTS, is_loopback, server_proof, token_digest, token_id
from passdown.core.names import agent_problems
from passdown.core.text import visible
from passdown.errors import InvalidInput, MissingExtra, NotAllowed, PassdownError
from passdown.workspace.defaults import default_agent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.cli.session import Session
    from passdown.core.access import AccessToken
    from passdown.workspace import Workspace

PORT = 8765

_INSTALL_WEB = "pip install 'passdown[web]'"
_TLS_NOTE = (
    "This server speaks plain HTTP. Put a proxy that has the certificate in front of it and keep "
    "the Host header; docs/server.md shows how."
)
_DAYS_PER_UNIT = {"h": 1 / 24, "d": 1.0, "w": 7.0}


@command(
    "serve",
    "",
    "--port 9000 --log-all",
    "--host 0.0.0.0 --allowed-host passdown.example.org",
    has_json=False,
    flags={"allowed_hosts": "--allowed-host"},
    help={
        "host": "ADDRESS: where to listen",
        "port": "0 takes any free one",
        "token_file": "FILE: where the token of this machine's user is kept; default: serve.token "
        "in .passdown, or in .passdown/stores for a store that isn't the folder's",
        "allowed_hosts": "NAME: a name that the server answers to, as in an address",
        "rate": "requests per second and token",
        "max_body": "BYTES: the largest request",
        "log_all": "log reads as well as writes",
    },
)
def serve(
    session: Session,
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    token_file: str | None = None,
    allowed_hosts: Sequence[str] = (),
    rate: int | None = None,
    max_body: int | None = None,
    log_all: bool = False,
) -> None:
    """Serve the HTTP API, its events, MCP and the dashboard, behind tokens."""
    if token_file and not is_loopback(host):
        raise UsageError(f"--token-file doesn't go with --host {host}: no token is made for others")
    _serve(
        session,
        _ServerSettings(host, port, token_file, tuple(allowed_hosts), rate, max_body, log_all),
    )


class _ServerSettings(NamedTuple):
    """What a server was started with; with `opens`, a browser is opened."""

    host: str = "127.0.0.1"
    port: int = PORT
    token_file: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    rate: int | None = None
    max_body: int | None = None
    log_all: bool = False
    opens: bool = False


def _serve(session: Session, asked: _ServerSettings) -> None:
    _check_packages()
    from passdown.mcp.shared_workspace import SharedWorkspace, workspace_candidates
    from passdown.web.server import build_server, listen
    from passdown.web.server import serve as run_server
    from passdown.web.server_state import Limits, checked_names
    from passdown.workspace.tokens import Tokens, own_token_file, token_in, usual_file

    if asked.port > 65_535:
        raise UsageError("a port is a number up to 65535")
    allowed = checked_names(list(asked.allowed_hosts))
    shared = SharedWorkspace(workspace_candidates(session.named_store, os.environ, os.getcwd()))
    is_own = is_loopback(asked.host)
    with shared.workspace() as workspace:
        if not is_own:
            _check_public_server(workspace, asked.host, allowed)
        store = workspace.store_label
    # Before a token is made: who can't listen leaves everything as it was.
    listening = listen(asked.host, asked.port)
    with listening.sock:
        limits = Limits()
        speed = limits.rate if asked.rate is None else float(asked.rate)
        limits = limits._replace(
            rate=speed, burst=max(2 * speed, 1.0), body_bytes=asked.max_body or limits.body_bytes
        )
        server = build_server(shared, listening, allowed, limits, logs_all=asked.log_all)
        tokens, page = "those that passdown token new has made", "passdown ui --store URL"
        if is_own:
            with shared.workspace() as workspace:
                known = Tokens(workspace)
                path = asked.token_file or usual_file(workspace)
                tokens = own_token_file(known, path, default_agent())
                known.all()
                holder = known.holder(token_in(tokens))
            page = listening.url + server.sign_in_path(holder) if holder else page
        start_tracing()
        print(f"Passdown serves {store}", flush=True)
        print(f"  store  {listening.url} (for passdown.open and --store)")
        print("  API    /api, described in /api/openapi.json")
        print(f"  MCP    {listening.url}/mcp")
        print(f"  token  {tokens}")
        print(f"  page   {page} ({_ONCE})" if is_own else f"  page   {page}", flush=True)
        if asked.opens:
            _open_browser(page)
        run_server(server, listening.sock)


_ONCE = "once, within a minute; passdown ui gives another"


def _open_browser(page: str) -> None:
    """Open a page if there is a browser; its address was printed."""
    import webbrowser

    with suppress(webbrowser.Error):
        webbrowser.open(page)


@command(
    "ui",
    "",
    "--no-open",
    "--store https://passdown.example.org",
    has_json=False,
    help={
        "port": "where to serve it, unless a server of this workspace is there; 0 takes any",
        "no_open": "print the link and open no browser",
    },
)
def ui(session: Session, *, port: int = PORT, no_open: bool = False) -> None:
    """Open the dashboard in a browser; serve it until Ctrl-C if no server does."""
    page = _link_from(session.store, "") if session.is_remote else _running_page(session, port)
    if not page:
        _serve(session, _ServerSettings(port=port, opens=not no_open))
        return
    print(f"{page} ({_ONCE})", flush=True)
    if not no_open:
        _open_browser(page)


def _link_from(url: str, token: str) -> str:
    """A link that signs in, from the server at a URL."""
    from passdown.remote import connect

    with connect(url, token) as remote:
        answer = remote.connection.ask("POST", "/sign-in-links", body={}).document()
    path = str(answer.get("path", ""))
    if not re.fullmatch(r"/sign-in#[A-Za-z0-9_-]{20,80}", path):
        raise PassdownError(f"{url} gave no link to sign in", code="odd_answer")
    return f"{remote.store_url.rstrip('/')}{path}"


def _is_own_server(port: int, token: str) -> bool:
    """Whether what listens there knows the token already, so that it may be sent it."""
    import secrets
    from http.client import HTTPConnection, HTTPException

    from passdown.core.parsing import load_json

    nonce, asked = secrets.token_urlsafe(32), HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        asked.request("GET", f"/proof?token={token_id(token)}&nonce={nonce}")
        answer = load_json(asked.getresponse().read(4096))
    except (OSError, HTTPException, ValueError, PassdownError):
        return False
    finally:
        asked.close()
    return answer == {"proof": server_proof(token_digest(token), port, nonce)}


def _running_page(session: Session, port: int) -> str:
    """A link from the server of this workspace that runs already; empty where none does."""
    from passdown.workspace.tokens import token_in, usual_file

    with session.open() as workspace:
        token = token_in(usual_file(workspace))
    if not token or not port or not _is_own_server(port, token):
        return ""
    try:
        return _link_from(f"http://127.0.0.1:{port}", token)
    except PassdownError:
        return ""


def _check_public_server(workspace: Workspace, host: str, allowed: tuple[str, ...]) -> None:
    """See to what a server needs that others can reach. Raises NotAllowed with what is missing."""
    from passdown.workspace.tokens import Tokens

    missing: list[str] = []
    if not allowed:
        missing.append("the names that it answers to (--allowed-host NAME)")
    if not Tokens(workspace).are_there():
        missing.append("tokens for those who use it (passdown token new)")
    if missing:
        raise NotAllowed(
            f"a server at {host} can be reached by others; it needs {' and '.join(missing)}",
            next_step=f"{_TLS_NOTE} Without --host, it serves this machine only.",
            code="not_safe",
        )
    print(_TLS_NOTE)


def _check_packages() -> None:
    if sys.platform == "win32":
        raise PassdownError(
            "passdown serve doesn't run on Windows: its files couldn't be kept from other users",
            next_step="Use WSL, or a server on another machine.",
            code="unsupported",
        )
    try:
        import httptools
        import starlette
        import uvicorn
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"serving HTTP needs the package {error.name}, which is not installed",
            next_step=f"Install it with: {_INSTALL_WEB}",
        ) from error
    del httptools, starlette, uvicorn


@command(
    "mcp",
    "claude mcp add passdown -- passdown mcp",
    "--agent coder",
    has_json=False,
    help={
        "agent": "the author where a call names no agent; default: PASSDOWN_AGENT, else the client"
    },
)
def mcp(session: Session, *, agent: str = "") -> None:
    """Serve agents over MCP, on standard input and output, until the client leaves."""
    if sys.stdin.isatty():
        raise UsageError("a client speaks to this over standard input; see docs/mcp.md for hosts")
    if problems := agent_problems(agent, "--agent") if agent else []:
        raise InvalidInput("nothing is served", problems)
    from passdown.mcp.stdio import serve_stdio

    serve_stdio(session.named_store, agent)


def _expiry(text: str) -> float:
    """A duration in days."""
    number, unit = text[:-1], text[-1:]
    is_span = unit in _DAYS_PER_UNIT and number.isascii() and number.isdigit() and len(number) <= 5
    if not is_span or not int(number):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a duration; try 12h, 90d or 4w")
    return int(number) * _DAYS_PER_UNIT[unit]


@command(
    "token new",
    "--agent coder --rights read,write --expires 90d",
    "--person kim --rights read,write,approve",
    "--agent relay --rights read,write,others",
    exclusive=("agent", "person"),
    is_one_needed=True,
    flags={"rights": "--rights"},
    types={"rights": comma_list, "expires": _expiry},
    help={
        "agent": "the agent that it is for: it writes under this name and no other",
        "person": "NAME: the person that it is for: people may answer gates",
        "rights": f"LIST: some of {', '.join(RIGHTS)}, with commas; default: read,write",
        "expires": "TIME: 12h, 90d, 4w",
        "label": "what it is for",
    },
)
def token_new(
    session: Session,
    *,
    agent: str | None = None,
    person: str | None = None,
    rights: Sequence[str] = (),
    expires: float | None = None,
    label: str = "",
) -> None:
    """Make a token; it is shown once and kept nowhere."""
    from passdown.workspace.tokens import Tokens

    with session.open() as workspace:
        minted = Tokens(workspace).new(
            person or agent or "",
            list(rights) or ["read", "write"],
            by=default_agent(),
            is_person=bool(person),
            days=expires or 0,
            label=label,
        )

    def print_text(_: object) -> None:
        verbatim(minted.token)
        # On standard error, so that TOKEN=$(passdown token new ...) holds the token alone.
        said = f"token {minted.access.id}, {_access_text(minted.access)}; it is not shown again"
        print(visible(said), file=sys.stderr)

    session.show({**minted.access.to_dict(), "token": minted.token}, print_text)


@command(
    "token list",
    "--all",
    flags={"with_ended": "--all"},
    help={"with_ended": "expired and revoked ones as well"},
)
def token_list(session: Session, *, with_ended: bool = False) -> None:
    """List tokens."""
    from passdown.workspace.streams import WorkspaceStreams
    from passdown.workspace.tokens import Tokens

    with session.open() as workspace:
        now = WorkspaceStreams(workspace).now()
        tokens = Tokens(workspace, lambda: now)
        known = tokens.all().values()
    kept = [{**one.to_dict(), "state": tokens.state(one.id)} for one in known]
    session.show([one for one in kept if with_ended or one["state"] == "live"], _print_tokens)


_print_tokens = row_printer(
    "id, state, whose=name, rights, made (UTC)=made, expires, label",
    "no tokens",
    name=lambda one: f"{one['name']} (person)" if one["is_person"] else one["name"],
    rights=lambda one: ",".join(one["rights"]),
    expires=lambda one: one["expires"][:10] or "never",
)


@command("token revoke", "k3v5x2m7qa", help={"id": "ID: from passdown token list"})
def token_revoke(session: Session, id: str) -> None:
    """Revoke a token; servers refuse it within a second."""
    from passdown.workspace.tokens import Tokens

    with session.open() as workspace:
        revoked = Tokens(workspace).revoke(id, by=default_agent())
    said = f"token {revoked.id}, {_access_text(revoked)}, is revoked"
    session.show(revoked, lambda _: line(said))


def _access_text(access: AccessToken) -> str:
    who = f"of {access.name}, a person" if access.is_person else f"of the agent {access.name}"
    until = f", until {access.expires[:10]}" if access.expires else ""
    return f"{who}, for {', '.join(access.rights)}{until}"

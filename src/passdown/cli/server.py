"""`serve`, `mcp` and `token`: servers over HTTP and MCP, and who may use them."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from passdown.cli.output import line, row_printer, verbatim
from passdown.cli.parsing import comma_list, command
from passdown.cli.session import UsageError, default_agent, start_tracing
from passdown.core.access import RIGHTS
from passdown.core.names import agent_problems
from passdown.core.text import visible
from passdown.errors import InvalidInput, MissingExtra, NotAllowed

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from passdown.cli.session import Session
    from passdown.core.access import AccessToken
    from passdown.mcp.shared_workspace import SharedWorkspace
    from passdown.workspace import Workspace

PORT = 8765

_INSTALL_WEB = "pip install 'passdown[web]'"
_INSTALL_MCP = "pip install 'passdown[mcp]'"
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
        "max_body": "BYTES: of one request",
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
    """Serve the HTTP API, its events and MCP, behind tokens."""
    _check_packages()
    from passdown.core.access import is_loopback
    from passdown.web.limits import Limits, checked_names
    from passdown.web.server import build_server, listen
    from passdown.web.server import serve as run_server
    from passdown.workspace.tokens import Tokens, own_token_file, usual_file

    if port > 65_535:
        raise UsageError("a port is a number up to 65535")
    if token_file and not is_loopback(host):
        raise UsageError(f"--token-file doesn't go with --host {host}: no token is made for others")
    allowed = checked_names(list(allowed_hosts))
    shared = _shared_workspace(session)
    with shared.workspace() as workspace:
        if not is_loopback(host):
            _check_public_server(workspace, host, allowed)
        store = workspace.store_label
    # Before a token is made: who can't listen leaves everything as it was.
    listening = listen(host, port)
    with listening.sock:
        tokens = "those that passdown token new has made"
        if is_loopback(host):
            with shared.workspace() as workspace:
                path = token_file or usual_file(workspace)
                tokens = own_token_file(Tokens(workspace), path, default_agent())
        start_tracing()
        print(f"Passdown serves {store}", flush=True)
        print(f"  store  {listening.url} (for passdown.open and --store)")
        print("  API    /api, described in /api/openapi.json")
        print(f"  MCP    {listening.url}/mcp")
        print(f"  token  {tokens}", flush=True)
        limits = Limits()
        speed = limits.rate if rate is None else float(rate)
        limits = limits._replace(
            rate=speed, burst=max(2 * speed, 1.0), body_bytes=max_body or limits.body_bytes
        )
        server = build_server(shared, listening, allowed, limits, logs_all=log_all)
        run_server(server, listening.sock)


def _shared_workspace(session: Session) -> SharedWorkspace:
    from passdown.mcp.shared_workspace import SharedWorkspace, workspace_candidates

    return SharedWorkspace(workspace_candidates(session.named_store, os.environ, os.getcwd()))


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
    with _stdout_to_stderr():
        start_tracing()
        serve_stdio = _mcp_server()
        shared = _shared_workspace(session)
    # A thread that waits for standard input can't be interrupted. What is being written is there
    # whole or not at all, so the process may simply end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    serve_stdio(shared, agent)


def _mcp_server() -> Callable[[SharedWorkspace, str], None]:
    """What serves; raises MissingExtra where the package is missing, or of an older line."""
    try:
        from passdown.mcp.server import serve_stdio
    except ImportError as error:
        if error.name and error.name.partition(".")[0] in ("mcp", "mcp_types", "anyio"):
            raise MissingExtra(
                "serving MCP needs the package `mcp` 2.2 or newer, which is not installed",
                next_step=f"Install it with: {_INSTALL_MCP}",
            ) from error
        raise
    return serve_stdio


@contextmanager
def _stdout_to_stderr() -> Generator[None]:
    """While packages load, what they print goes to standard error: the client reads standard
    output as the protocol from its first byte.
    """
    sys.stdout.flush()
    wire = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(wire, 1)
        os.close(wire)


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
        known = Tokens(workspace).all().values()
    kept = [{**one.to_dict(), "state": one.state(now)} for one in known]
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

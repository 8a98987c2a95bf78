"""`serve`, `mcp` and `token`: servers over HTTP and MCP, and who may use them."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from passdown.cli.parsing import AGENT, FILE, several, whole_number, with_store
from passdown.cli.session import UsageError, default_agent, start_tracing, workspace_of
from passdown.core.access import RIGHTS
from passdown.core.names import agent_problems
from passdown.core.text import visible
from passdown.errors import InvalidInput, MissingExtra, NotAllowed

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Generator

    from passdown.cli.parsing import Parser
    from passdown.core.access import AccessToken
    from passdown.mcp.shared_workspace import SharedWorkspace
    from passdown.web.limits import Limits
    from passdown.workspace import Workspace


PORT = 8765

_INSTALL_WEB = "pip install 'passdown[web]'"
_TLS_NOTE = (
    "This server speaks plain HTTP. Let a proxy that has the certificate stand in front of it and "
    "keep the Host header; docs/server.md shows how."
)


def serve(parser: Parser) -> None:
    """The arguments of `serve`."""
    parser.show(
        "passdown serve",
        "passdown serve --port 9000 --log-all",
        "passdown serve --host 0.0.0.0 --allowed-host passdown.example.org",
    )
    parser.add_argument("--store", metavar="URL", help="a store's address, file or folder")
    parser.add_argument("--host", metavar="ADDRESS", default="127.0.0.1", help="where to listen")
    parser.add_argument("--port", metavar="N", type=whole_number, default=PORT, help="0 takes any")
    parser.add_argument(
        "--token-file",
        metavar=FILE,
        help="where the token of this machine's user is kept; default: serve.token in .passdown, "
        "or in .passdown/elsewhere for a store that isn't the folder's",
    )
    parser.add_argument(
        "--allowed-host",
        metavar="NAME",
        action="append",
        default=[],
        help="a name that the server answers to, as in an address; may be repeated",
    )
    parser.add_argument("--rate", metavar="N", type=whole_number, help="requests a second, a token")
    parser.add_argument("--max-body", metavar="BYTES", type=whole_number, help="of one request")
    parser.add_argument("--log-all", action="store_true", help="reads as well as writes")
    parser.set_defaults(run=_serve)


def _serve(args: Namespace) -> int:
    _check_packages()
    from passdown.mcp.shared_workspace import SharedWorkspace, workspace_candidates
    from passdown.web.limits import checked_names, is_loopback
    from passdown.web.server import listen
    from passdown.web.server import serve as run

    if args.port > 65_535:
        raise UsageError("a port is a number up to 65535")
    allowed = checked_names(args.allowed_host)
    door = SharedWorkspace(workspace_candidates(args.store or "", os.environ, os.getcwd()))
    with door.workspace() as workspace:
        if not is_loopback(args.host):
            _check_public_server(workspace, args.host, allowed)
        store = workspace.store_label
    # Before a token is made: who can't listen leaves everything as it was.
    place = listen(args.host, args.port)
    with place.sock:
        with door.workspace() as workspace:
            where = _token_location(workspace, args)
        start_tracing()
        print(f"Passdown serves {store}", flush=True)
        print(f"  API    {place.url}/api (description: /api/openapi.json)")
        print(f"  MCP    {place.url}/mcp")
        print(f"  token  {where}", flush=True)
        run(door, place, allowed, _limits(args), logs_all=args.log_all)
    return 0


def _limits(args: Namespace) -> Limits:
    from passdown.web.limits import Limits

    usual = Limits()
    rate = usual.rate if args.rate is None else float(args.rate)
    return usual._replace(
        rate=rate, burst=max(2 * rate, 1.0), body_bytes=args.max_body or usual.body_bytes
    )


def _token_location(workspace: Workspace, args: Namespace) -> str:
    """Where the tokens are; on this machine, a file with that of whoever runs this, which is made
    anew where it is missing or over.
    """
    from passdown.web.limits import is_loopback
    from passdown.workspace.tokens import Tokens, own_token_file, usual_file

    if not is_loopback(args.host):
        return "those that passdown token new has made"
    path = args.token_file or usual_file(workspace)
    return own_token_file(Tokens(workspace), path, default_agent())


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


_INSTALL_MCP = "pip install 'passdown[mcp]'"


def mcp(parser: Parser) -> None:
    """The arguments of `mcp`."""
    parser.show("claude mcp add passdown -- passdown mcp", "passdown mcp --agent coder")
    parser.add_argument("--store", metavar="URL", help="a store's address, file or folder")
    parser.add_argument(
        "--agent",
        metavar=AGENT,
        default="",
        help="who writes where a call names nobody; default: PASSDOWN_AGENT, else the client",
    )
    parser.set_defaults(run=_mcp)


def _mcp(args: Namespace) -> int:
    """Serve until the client leaves; nothing of the workspace is looked at before it is needed."""
    if sys.stdin.isatty():
        raise UsageError("a client speaks to this over standard input; see docs/mcp.md for hosts")
    if problems := agent_problems(args.agent, "--agent") if args.agent else []:
        raise InvalidInput("nothing is served", problems)
    with _stdout_to_stderr():
        start_tracing()
        serve = _mcp_server()
        from passdown.mcp.shared_workspace import SharedWorkspace, workspace_candidates
    # A thread that waits for standard input can't be interrupted. What is being written is there
    # whole or not at all, so the process may simply end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    serve(
        SharedWorkspace(workspace_candidates(args.store or "", os.environ, os.getcwd())), args.agent
    )
    return 0


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


_DAYS_PER_UNIT = {"h": 1 / 24, "d": 1.0, "w": 7.0}


def token(parser: Parser) -> None:
    """The arguments of `token` and the verbs below it."""
    new = parser.subverb(
        "new",
        "make a token; it is shown once and kept nowhere",
        "passdown token new --agent coder --rights read,write --expires 90d",
        "passdown token new --person kim --rights read,write,approve",
        "passdown token new --agent relay --rights read,write,others",
        run=_token_new,
    )
    whose = new.add_mutually_exclusive_group(required=True)
    for option, metavar, help in (
        ("--agent", AGENT, "the agent that it is for: it writes under this name and no other"),
        ("--person", "NAME", "the person that it is for: people may answer gates"),
    ):
        new.offers.append(whose.add_argument(option, metavar=metavar, help=help))
    new.add_argument(
        "--rights",
        metavar="LIST",
        type=several,
        default=["read", "write"],
        help=f"some of {', '.join(RIGHTS)}, with commas; default: read,write",
    )
    new.add_argument("--expires", metavar="TIME", type=_expiry, default=None, help="12h, 90d, 4w")
    new.add_argument("--label", metavar="TEXT", default="", help="what it is for")
    with_store(new)
    found = parser.subverb("list", "list tokens", "passdown token list --all", run=_token_list)
    found.add_argument("--all", action="store_true", help="expired and revoked ones as well")
    with_store(found)
    revoke = parser.subverb(
        "revoke",
        "take a token back; servers refuse it within a second",
        "passdown token revoke k3v5x2m7qa",
        run=_token_revoke,
    )
    revoke.add_argument("id", metavar="ID", help="from passdown token list")
    with_store(revoke)


def _expiry(text: str) -> float:
    """A span of time in days."""
    number, unit = text[:-1], text[-1:]
    is_span = unit in _DAYS_PER_UNIT and number.isascii() and number.isdigit() and len(number) <= 5
    if not is_span or not int(number):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no span of time; try 12h, 90d or 4w")
    return int(number) * _DAYS_PER_UNIT[unit]


def _token_new(args: Namespace) -> int:
    from passdown.cli.output import print_json, verbatim
    from passdown.workspace.tokens import Tokens

    with workspace_of(args) as workspace:
        minted = Tokens(workspace).new(
            args.person or args.agent,
            args.rights,
            by=default_agent(),
            is_person=bool(args.person),
            days=args.expires or 0,
            label=args.label,
        )
    if args.json:
        print_json({**minted.access.to_dict(), "token": minted.token})
        return 0
    verbatim(minted.token)
    # Beside it, so that TOKEN=$(passdown token new ...) holds the token alone.
    said = f"token {minted.access.id}, {_access_text(minted.access)}; it is not shown again"
    print(visible(said), file=sys.stderr)
    return 0


def _token_list(args: Namespace) -> int:
    from passdown.cli.output import print_json, short_time, table
    from passdown.workspace.streams import WorkspaceStreams
    from passdown.workspace.tokens import Tokens

    with workspace_of(args) as workspace:
        now = WorkspaceStreams(workspace).now()
        known = Tokens(workspace).all().values()
    kept = [(one, one.state(now)) for one in known if args.all or one.state(now) == "live"]
    if args.json:
        print_json([{**one.to_dict(), "state": state} for one, state in kept])
        return 0
    rows = [
        [
            one.id,
            state,
            f"{one.name} (person)" if one.is_person else one.name,
            ",".join(one.rights),
            short_time(one.made),
            one.expires[:10] or "never",
            one.label,
        ]
        for one, state in kept
    ]
    names = ("id", "state", "whose", "rights", "made (UTC)", "expires", "label")
    table(names, rows, "no tokens", whole=names[:-1])
    return 0


def _token_revoke(args: Namespace) -> int:
    from passdown.cli.output import line, print_json
    from passdown.workspace.tokens import Tokens

    with workspace_of(args) as workspace:
        revoked = Tokens(workspace).revoke(args.id, by=default_agent())
    if args.json:
        print_json(revoked.to_dict())
        return 0
    line(f"token {revoked.id}, {_access_text(revoked)}, is revoked")
    return 0


def _access_text(access: AccessToken) -> str:
    who = f"of {access.name}, a person" if access.is_person else f"of the agent {access.name}"
    until = f", until {access.expires[:10]}" if access.expires else ""
    return f"{who}, for {', '.join(access.rights)}{until}"

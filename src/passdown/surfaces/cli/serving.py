"""`serve`: the HTTP API, its events, and MCP, for programs on this machine or on others."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from passdown.errors import MissingExtra, NotAllowed
from passdown.surfaces.cli.parsing import FILE, whole_number
from passdown.surfaces.cli.session import Misuse, name_here
from passdown.surfaces.cli.spanning import tell_of_spans

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.surfaces.cli.parsing import Parser
    from passdown.surfaces.web.limits import Limits
    from passdown.workspace import Workspace

PORT = 8765

_INSTALL = "pip install 'passdown[web]'"
_TLS = (
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
    _need_packages()
    from passdown.surfaces.mcp.door import Door, targets
    from passdown.surfaces.web.hosts import checked_names, is_loopback
    from passdown.surfaces.web.serving import listen
    from passdown.surfaces.web.serving import serve as run

    if args.port > 65_535:
        raise Misuse("a port is a number up to 65535")
    allowed = checked_names(args.allowed_host)
    door = Door(targets(args.store or "", os.environ, os.getcwd()))
    with door.workspace() as workspace:
        if not is_loopback(args.host):
            _check_for_others(workspace, args.host, allowed)
        store = workspace.store_shown
    # Before a token is made: who can't listen leaves everything as it was.
    place = listen(args.host, args.port)
    with place.sock:
        with door.workspace() as workspace:
            where = _token_place(workspace, args)
        tell_of_spans()
        print(f"Passdown serves {store}", flush=True)
        print(f"  API    {place.url}/api (description: /api/openapi.json)")
        print(f"  MCP    {place.url}/mcp")
        print(f"  token  {where}", flush=True)
        run(door, place, allowed, _limits(args), logs_all=args.log_all)
    return 0


def _limits(args: Namespace) -> Limits:
    from passdown.surfaces.web.limits import Limits

    usual = Limits()
    rate = usual.rate if args.rate is None else float(args.rate)
    return usual._replace(
        rate=rate, burst=max(2 * rate, 1.0), body_bytes=args.max_body or usual.body_bytes
    )


def _token_place(workspace: Workspace, args: Namespace) -> str:
    """Where the tokens are; on this machine, a file with that of whoever runs this, which is made
    anew where it is missing or over.
    """
    from passdown.surfaces.web.hosts import is_loopback
    from passdown.workspace.access import Tokens
    from passdown.workspace.own_token import own_token_file, usual_file

    if not is_loopback(args.host):
        return "those that passdown token new has made"
    path = args.token_file or usual_file(workspace)
    return own_token_file(Tokens(workspace), path, name_here())


def _check_for_others(workspace: Workspace, host: str, allowed: tuple[str, ...]) -> None:
    """See to what a server needs that others can reach. Raises NotAllowed with what is missing."""
    from passdown.workspace.access import Tokens

    missing: list[str] = []
    if not allowed:
        missing.append("the names that it answers to (--allowed-host NAME)")
    if not Tokens(workspace).are_there():
        missing.append("tokens for those who use it (passdown token new)")
    if missing:
        raise NotAllowed(
            f"a server at {host} can be reached by others; it needs {' and '.join(missing)}",
            next_step=f"{_TLS} Without --host, it serves this machine only.",
            code="not_safe",
        )
    print(_TLS)


def _need_packages() -> None:
    try:
        import fastapi
        import httptools
        import uvicorn
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"serving HTTP needs the package {error.name}, which is not installed",
            next_step=f"Install it with: {_INSTALL}",
        ) from error
    del fastapi, httptools, uvicorn

"""`mcp`: serve agents over standard input and output."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from passdown.errors import InvalidInput, MissingExtra
from passdown.model.names import agent_problems
from passdown.surfaces.cli.parsing import AGENT
from passdown.surfaces.cli.session import Misuse
from passdown.surfaces.cli.spanning import tell_of_spans

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Generator

    from passdown.surfaces.cli.parsing import Parser
    from passdown.surfaces.mcp.door import Door

_INSTALL = "pip install 'passdown[mcp]'"


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
        raise Misuse("a client speaks to this over standard input; see docs/mcp.md for hosts")
    if problems := agent_problems(args.agent, "--agent") if args.agent else []:
        raise InvalidInput("nothing is served", problems)
    with _output_kept_clean():
        tell_of_spans()
        serve = _server()
        from passdown.surfaces.mcp.door import Door, targets
    # A thread that waits for standard input can't be interrupted. What is being written is there
    # whole or not at all, so the process may simply end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    serve(Door(targets(args.store or "", os.environ, os.getcwd())), args.agent)
    return 0


def _server() -> Callable[[Door, str], None]:
    """What serves; raises MissingExtra where the package is missing, or of an older line."""
    try:
        from passdown.surfaces.mcp.stdio import serve
    except ImportError as error:
        if error.name and error.name.partition(".")[0] in ("mcp", "mcp_types", "anyio"):
            raise MissingExtra(
                "serving MCP needs the package `mcp` 2.2 or newer, which is not installed",
                next_step=f"Install it with: {_INSTALL}",
            ) from error
        raise
    return serve


@contextmanager
def _output_kept_clean() -> Generator[None]:
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

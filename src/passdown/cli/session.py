"""What a verb works with: the workspace, the author, input files and tracing."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

from passdown import tracing as spans
from passdown.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from argparse import Namespace

    from passdown.workspace import Workspace


MAX_INPUT_BYTES = 1_048_576


class UsageError(Exception):
    """The arguments are wrong; exit code 2. `prog` is the command that was meant, if known."""

    def __init__(self, message: str, prog: str = "") -> None:
        super().__init__(message)
        self.prog = prog


def workspace_of(args: Namespace) -> Workspace:
    """The workspace of `--store`, PASSDOWN_STORE or the nearest `.passdown/`; never a new one."""
    from passdown.workspace import open as open_workspace

    return open_workspace(store_of(args), create=False)


def store_of(args: Namespace) -> str:
    """The address that the arguments or the environment name; the current folder otherwise."""
    return args.store or os.environ.get("PASSDOWN_STORE") or "."


def is_server_url(store: str) -> bool:
    """Whether an address is that of a server, which has its own files and processes."""
    return store.startswith(("http://", "https://"))


def author(args: Namespace) -> str:
    """Who writes: the option, else PASSDOWN_AGENT, else the user's name as an agent's name; behind
    a server, where the token says it, the token's.
    """
    named = args.agent or os.environ.get("PASSDOWN_AGENT")
    if named or not is_server_url(store_of(args)):
        return named or _user()
    from passdown.remote import token_holder

    return token_holder(store_of(args))


def default_agent() -> str:
    """Who works on this machine: PASSDOWN_AGENT, else the user's name as an agent's name."""
    return os.environ.get("PASSDOWN_AGENT") or _user()


def _user() -> str:
    from passdown.core.names import MAX_AGENT, agent_problems

    names = (os.environ.get(name, "") for name in ("LOGNAME", "USER", "USERNAME"))
    given = next((name for name in names if name), "") or _account()
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", given).strip("-._")[:MAX_AGENT] or "someone"
    return name if not agent_problems(name, "agent") else f"{name[: MAX_AGENT - 6]}-agent"


def _account() -> str:
    try:
        import pwd
    except ImportError:
        return ""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return ""


def read_input(path: str, limit: int = MAX_INPUT_BYTES) -> bytes:
    """A regular file's bytes, or standard input's for `-`; too large or unreadable is refused."""
    from passdown.workspace.files import bytes_at

    data = _standard_input(limit) if path == "-" else bytes_at(path, limit)
    if not isinstance(data, Problem):
        return data
    if data.code == "too_large":
        raise InvalidInput("the input is too large", [data])
    if data.code == "not_regular_file":
        data = data._replace(fix="use - to read standard input")
    raise InvalidInput("the input can't be read", [data])


def _standard_input(limit: int) -> bytes | Problem:
    try:
        data = sys.stdin.buffer.read(limit + 1)
    except OSError as error:
        return Problem("-", "unreadable", error.strerror or str(error), "text that can be read")
    if len(data) > limit:
        return Problem("-", "too_large", "has too many bytes", f"at most {limit:,}")
    return data


def start_tracing() -> None:
    """Begin to send spans if OTEL_* variables say so; what is in the way is told, and no more: the
    variables may be meant for every program of a machine.
    """
    if problem := spans.start():
        print(f"passdown: {problem}", file=sys.stderr, flush=True)

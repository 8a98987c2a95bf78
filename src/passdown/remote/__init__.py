"""A workspace on a server: the same methods with the same meaning.

An operation becomes a request by its row in the table and its function's signature. What needs
files or functions of the server's machine is refused with what to do instead. Settings and the
clock are the server's; profiles, bundles, backups, the repository and the files that handoffs and
decisions name are those of the client's machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from datetime import date
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, cast, get_origin

from passdown.core.arguments import number_problems, raise_problems, text_list, text_type_problems
from passdown.core.codec import decode, type_hints
from passdown.core.types import NEWEST
from passdown.errors import InvalidInput, NotAllowed, PassdownError, Problem
from passdown.operations import load
from passdown.remote.connection import (
    HEAVY_TIMEOUT_S,
    MAX_ANSWER_BYTES,
    Deadline,
    HttpConnection,
    not_passdown,
    path_part,
    server_at,
    too_large,
)
from passdown.workspace import Workspace

if TYPE_CHECKING:
    from passdown.core.types import JsonObject
    from passdown.ledger.project_files import Project
    from passdown.operations import Operation
    from passdown.remote.connection import HttpReply
    from passdown.workspace.context import Context
    from passdown.workspace.streams import Streams

_PAGE = 1_000
_ELSEWHERE = "Do it where the store is, with passdown.open of its folder or URL."


def connect(url: str, token: str = "") -> RemoteWorkspace:
    """Open the workspace of a server; the token is given, or PASSDOWN_TOKEN has it."""
    return RemoteWorkspace(_connect(url, token))


def token_holder(url: str) -> str:
    """Whose token PASSDOWN_TOKEN is, as its server says."""
    connection = _connect(url, "")
    try:
        return str(connection.ask("GET", "/api/me").document().get("name", ""))
    finally:
        connection.close()


def _connect(url: str, token: str) -> HttpConnection:
    server = server_at(url)
    token = (token or os.environ.get("PASSDOWN_TOKEN", "")).strip()
    if not token:
        raise NotAllowed(
            f"{server.url} needs a token",
            next_step="Set PASSDOWN_TOKEN, or give it to passdown.open; passdown token new "
            "makes one where the server is.",
            code="no_token",
        )
    if not token.isascii() or not token.isprintable() or " " in token:
        message = "holds characters that no token has"
        expected = "the line that passdown token new printed, and nothing else"
        problem = Problem("token", "invalid_form", message, expected)
        raise InvalidInput("the server can't be opened", [problem])
    return HttpConnection(server, token)


def unsupported(url: str, what: str, instead: str = _ELSEWHERE) -> PassdownError:
    """The error for what a server doesn't offer."""
    return PassdownError(f"{url} doesn't offer {what}", next_step=instead, code="not_offered")


class RemoteWorkspace(Workspace):
    """One team's records, on a server. Threads may share it."""

    def __init__(self, connection: HttpConnection) -> None:
        """Nothing is sent until the first call; `passdown.open` makes it from a URL."""
        self.connection = connection

    def _call(
        self, operation: Operation, function: Callable[..., Any], *args: Any, **given: Any
    ) -> Any:
        if operation.instead[0]:
            raise self.unsupported(*operation.instead)
        if operation.client:
            return load(operation.client)(self, *args, **given)
        return call(self.connection, operation, *args, **given)

    def close(self) -> None:
        """Close the connections."""
        self.connection.close()

    @property
    def root(self) -> str:
        """The folder that this program works in; the project's own is the server's."""
        return os.getcwd()

    @property
    def store_url(self) -> str:
        """The server's URL."""
        return self.connection.server.url

    @property
    def store_label(self) -> str:
        """The same: it holds no password."""
        return self.store_url

    def unsupported(self, what: str, instead: str = _ELSEWHERE) -> PassdownError:
        """The error for what a server doesn't offer."""
        return unsupported(self.store_url, what, instead)

    @property
    def _context(self) -> Context:
        """What works on the store itself isn't there."""
        raise self.unsupported("this")

    def _streams(self) -> Streams:
        from passdown.remote.streams import RemoteStreams

        return RemoteStreams(self)


def call(connection: HttpConnection, operation: Operation, *args: Any, **given: Any) -> Any:
    """Send an operation to a server, and give what it answers as the operation's own value."""
    function = load(operation.function)
    kind = type_hints(function)["return"]
    if not operation.paged:
        return decoded(request(connection, operation, *args, **given), kind)
    arguments = bound_arguments(function, args, given)
    _, path = route(operation, arguments)
    cursor = arguments.pop(operation.paged, None)
    limit = arguments.pop("limit", signature(function).parameters["limit"].default)
    found = pages(connection, path, limit, cursor, arguments)
    return [decode(kind.__args__[0], entry) for entry in found]


def request(
    connection: HttpConnection, operation: Operation, *args: Any, **given: Any
) -> HttpReply:
    """Send an operation to a server; gives its reply."""
    arguments = bound_arguments(load(operation.function), args, given)
    method, path = route(operation, arguments)
    options: JsonObject = {
        "is_heavy": operation.is_heavy,
        "key": arguments.pop("key", None),
        "expect_version": arguments.pop("expect_version", None),
    }
    if method == "GET":
        # A text that has to be there and is empty: a blank, which names nothing either.
        query = {name: " " if value == "" else value for name, value in arguments.items()}
        return connection.ask(method, path, query=query, **options)
    if operation.takes_files:
        field = "decisions" if "summary" in arguments else "patterns"
        arguments |= files_sent({field: [arguments]})
    repeats = operation.right in ("read", "admin")
    return connection.ask(method, path, body=arguments, repeats=repeats, **options)


def bound_arguments(
    function: Callable[..., Any], args: Sequence[Any], given: JsonObject
) -> JsonObject:
    """The arguments of a call by name, without those that are as by default or can't be sent.

    Raises InvalidInput for one of the wrong type: a URL would spell anything.
    """
    parameters = signature(function).parameters
    bound = signature(function).bind(None, *args, **given).arguments
    hints = type_hints(function)
    found: JsonObject = {}
    problems: list[Problem] = []
    for name, value in list(bound.items())[1:]:
        parameter = parameters[name]
        if parameter.kind is Parameter.VAR_KEYWORD:
            found |= {key: part for key, part in value.items() if part is not None}
        elif name == "counter":
            found[name] = named_counter(value)
        elif not callable(value) and value != parameter.default:
            found[name] = _checked(name, value, hints[name], problems)
    raise_problems("the request is refused; nothing was sent", problems)
    return {name: value for name, value in found.items() if value is not None}


def _checked(name: str, value: Any, kind: Any, problems: list[Problem]) -> Any:
    """An argument, checked as far as its type is a simple one."""
    if get_origin(kind) is Sequence:
        return list(text_list(value, name, problems)) if kind.__args__ == (str,) else value
    if isinstance(value, date):
        return value.isoformat()
    if kind in (str, str | date):
        problems += text_type_problems(**{name: value})
    elif kind is int:
        problems += number_problems(value, name, -NEWEST, NEWEST)
    return value


def named_counter(counter: Any) -> str | None:
    """A token counter by its name: a function can't be sent."""
    if counter is None or isinstance(counter, str):
        return counter
    name: object = getattr(counter, "name", None)
    if isinstance(name, str):
        return name
    problem = Problem("counter", "wrong_type", "a function can't be sent", "a counter's name")
    raise InvalidInput("the request is refused; nothing was sent", [problem])


def route(operation: Operation, arguments: JsonObject) -> tuple[str, str]:
    """The HTTP method and the path of an operation; takes out the arguments that are in it."""
    method, _, path = operation.http.partition(" ")

    def optional(part: re.Match[str]) -> str:
        name = part[0].partition("{")[2].partition("}")[0]
        return part[1] if arguments.get(name) is not None else ""

    path = re.sub(r"\[(.*?)\]", optional, path)
    return method, re.sub(r"{(\w+)}", lambda name: path_part(arguments.pop(name[1], "")), path)


def project_here() -> Project:
    """The files beneath the folder that this program works in. The store is elsewhere."""
    from passdown.ledger.project_files import Project

    return Project(os.getcwd(), "")


def files_sent(data: JsonObject) -> JsonObject:
    """The part of a body that has the hashes of the files here that plain data names."""
    from passdown.workspace.files import FILES_FIELD, files_named, hashed_files

    named = files_named(data)
    return {FILES_FIELD: hashed_files(project_here(), named)} if named else {}


def pages(
    connection: HttpConnection, path: str, limit: Any, cursor: object, query: JsonObject
) -> list[JsonObject]:
    """The entries of a list up to a limit, page by page. Each page has to bring something and lead
    on; all of them together have bounds of time and size.
    """
    found: list[JsonObject] = []
    asked: object = limit
    is_limited = type(limit) is int and limit > 0
    seen, deadline, size = {cursor}, Deadline(HEAVY_TIMEOUT_S), 0
    while True:
        if is_limited:
            asked = min(limit - len(found), _PAGE)
        given = {**query, "limit": asked, **({} if cursor is None else {"cursor": cursor})}
        reply = connection.ask("GET", path, query=given, within=deadline)
        size += len(reply.body)
        if size > MAX_ANSWER_BYTES:
            raise too_large(connection.server.url, MAX_ANSWER_BYTES)
        items, cursor = _page(reply)
        found += items
        if cursor is None or (is_limited and len(found) >= limit):
            return found[:limit] if is_limited else found
        if not items or cursor in seen:
            raise not_passdown(reply, "is a page that leads nowhere")
        seen.add(cursor)


def _page(reply: HttpReply) -> tuple[list[JsonObject], str | None]:
    """The entries of a page and the cursor to the next one, if it is a page."""
    document = reply.document()
    items, following = document.get("items"), document.get("next")
    if not isinstance(items, list) or not isinstance(following, str | None):
        raise not_passdown(reply, "is no page of a list")
    return cast("list[JsonObject]", items), following


def decoded(reply: HttpReply, kind: Any) -> Any:
    """The value that a reply stands for."""
    document = reply.document()
    try:
        if get_origin(kind) in (list, tuple):
            return decode(kind, document["items"])
        return document["text"] if kind is str else decode(kind, document)
    except (KeyError, TypeError, ValueError) as error:
        raise not_passdown(reply, f"lacks what was asked for ({error})") from error

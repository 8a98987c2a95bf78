"""A workspace on a server: the same methods with the same meaning.

An operation becomes a request by its row in the table and its function's signature. What needs
files or functions of the server's machine is refused with what to do instead. Settings and the
clock are the server's; profiles, bundles, backups, the repository and the files that handoffs and
decisions name are those of the client's machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from types import MappingProxyType, NoneType
from typing import TYPE_CHECKING, Any, cast, get_args, get_origin

from passdown.core.arguments import (
    checked_arguments,
    raise_problems,
    text_list,
    text_type_problems,
)
from passdown.core.codec import decode, encode, field_names, type_hints
from passdown.core.record import Head, Record
from passdown.core.types import NEWEST
from passdown.errors import InvalidInput, NotAllowed, NotFound, PassdownError, Problem
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
from passdown.workspace.files import files_sent
from passdown.workspace.streams import READ_BY_ALL, Streams

if TYPE_CHECKING:
    from passdown.core.types import JsonObject
    from passdown.operations import Operation
    from passdown.remote.connection import HttpReply
    from passdown.workspace.context import Context
    from passdown.workspace.streams import StreamEntry

_PAGE = 1_000
_AT_THE_STORE = "Do it where the store is, with passdown.open of its folder or URL."


def connect(url: str, token: str = "") -> RemoteWorkspace:
    """Open the workspace of a server; the token is given, or PASSDOWN_TOKEN has it."""
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
        message, expected = "holds characters that no token has", "what passdown token new printed"
        problem = Problem("token", "invalid_form", message, expected)
        raise InvalidInput("the server can't be opened", [problem])
    return RemoteWorkspace(HttpConnection(server, token))


def token_holder(url: str) -> str:
    """Whose token PASSDOWN_TOKEN is, as its server says."""
    with connect(url) as workspace:
        return str(workspace.connection.ask("GET", "/api/me").document().get("name", ""))


class RemoteWorkspace(Workspace):
    """One team's records, on a server. Threads may share it."""

    def __init__(self, connection: HttpConnection) -> None:
        """Nothing is sent until the first call; `passdown.open` makes it from a URL."""
        self.connection = connection

    def _require_write(self) -> None:
        """Refuse what works on this machine first, if its results couldn't be recorded then."""
        holder = self.connection.ask("GET", "/api/me").document()
        if "write" not in holder.get("rights", ()):
            raise NotAllowed(
                f"nothing was done: the token of {holder.get('name', '')} can't record the results",
                next_step="The administrator of the server makes one with passdown token new "
                "--rights.",
            )

    def _call(
        self, operation: Operation, function: Callable[..., Any], *args: Any, **given: Any
    ) -> Any:
        self.connection.check_open()
        if operation.instead[0]:
            raise self.unsupported(*operation.instead)
        checked_arguments(function, args, given, has_own_limits=operation.has_own_limits)
        if operation.has_client:
            return operation.own("passdown.remote.methods")(self, *args, **given)
        if not operation.http:
            if operation.right == "write":
                self._require_write()
            return function(self, *args, **given)
        return call(self.connection, operation, args, given)

    def close(self) -> None:
        """Close the connections."""
        self.connection.close()

    @property
    def root(self) -> str:
        """The folder that this program works in; the project's own is the server's."""
        return os.getcwd()

    @property
    def store_url(self) -> str:
        """The server's URL; it holds no password."""
        return self.connection.server.url

    store_label = store_url  # pyright: ignore[reportIncompatibleMethodOverride]

    def unsupported(self, what: str, instead: str = _AT_THE_STORE) -> PassdownError:
        """The error for what a server doesn't offer."""
        message = f"{self.store_url} doesn't offer {what}"
        return PassdownError(message, next_step=instead, code="not_offered")

    @property
    def _context(self) -> Context:
        """What works on the store itself isn't there."""
        raise self.unsupported("this")

    def _streams(self) -> Streams:
        return RemoteStreams(self)


class RemoteStreams(Streams):
    """Streams as a server shows them: those of runs, express items and agents. None is written."""

    def __init__(self, workspace: RemoteWorkspace) -> None:
        self._workspace = workspace
        self._connection = workspace.connection

    def add(self, entries: Sequence[StreamEntry]) -> list[Record]:
        """Refused: a server takes what there is a route for."""
        raise self._workspace.unsupported(f"to write to {entries[0].stream.split('/')[0]}")

    def records(self, stream: str, after: int) -> list[Record]:
        """The records of a stream above a position, page by page."""
        self._check_shown(stream)
        path = "/api/streams/records"
        found = pages(self._connection, path, NEWEST, str(after), {"stream": stream})
        return [Record(**{**one, "body": one["body"].encode()}) for one in found]

    def heads(self, prefix: str) -> list[Head]:
        """The heads of all streams whose name starts so, by name."""
        self._check_shown(prefix)
        reply = self._connection.ask("GET", "/api/streams", query={"prefix": prefix})
        return [Head(**head) for head in reply.document()["items"]]

    def _check_shown(self, stream: str) -> None:
        if not stream.startswith(READ_BY_ALL):
            raise self._workspace.unsupported(f"to read {stream.split('/', maxsplit=1)[0]}")


def call(
    connection: HttpConnection,
    operation: Operation,
    args: Sequence[Any] = (),
    given: Mapping[str, Any] = MappingProxyType({}),
    beside: Mapping[str, Any] = MappingProxyType({}),
) -> Any:
    """Send an operation to a server, and give what it answers as the operation's own value.

    `beside` goes into the body with the arguments.
    """
    function = load(operation.function)
    kind = type_hints(function)["return"]
    arguments = bound_arguments(function, args, given)
    method, path = route(operation, function, arguments)
    if operation.paged:
        cursor = arguments.pop(operation.paged, None)
        limit = arguments.pop("limit", signature(function).parameters["limit"].default)
        entry = kind.__args__[0]
        return [decode(entry, e) for e in pages(connection, path, limit, cursor, arguments)]
    options: JsonObject = {"is_heavy": operation.is_heavy}
    if operation.right != "read":
        options |= {name: arguments.pop(name, None) for name in ("key", "expect_version")}
    if method == "GET":
        options["query"] = arguments
    else:
        if operation.takes_files:
            of_handoff = "handoff" in signature(function).parameters
            arguments |= files_sent(os.getcwd(), arguments, of_handoff=of_handoff)
        options |= {"body": {**arguments, **beside}, "repeats": operation.repeats}
    try:
        reply = connection.ask(method, path, **options)
    except NotFound:
        if NoneType in get_args(kind):
            return None
        raise
    return reply.body.decode() if operation.media else decoded(reply, kind)


def bound_arguments(
    function: Callable[..., Any], args: Sequence[Any], given: Mapping[str, Any]
) -> JsonObject:
    """The arguments of a call as JSON by name, without those that are as by default or can't be
    sent. Raises InvalidInput for one of the wrong type: a URL would spell anything.
    """
    parameters, hints = signature(function).parameters, type_hints(function)
    bound = signature(function).bind(None, *args, **given).arguments
    found: JsonObject = {}
    problems: list[Problem] = []
    for name, value in list(bound.items())[1:]:
        parameter = parameters[name]
        if parameter.kind is Parameter.VAR_KEYWORD:
            named = {key: part for key, part in value.items() if part is not None}
            found |= {key: _encoded(key, part, Any, problems) for key, part in named.items()}
        elif name == "handoff":
            found |= {} if value is None else {name: _handoff_sent(value, problems)}
        elif name == "counter":
            found |= {} if value is None else {name: named_counter(value)}
        elif name != "progress" and value is not parameter.default and value != parameter.default:
            found[name] = _encoded(name, value, hints[name], problems)
    raise_problems("the request is refused; nothing was sent", problems)
    return found


def _handoff_sent(handoff: Any, problems: list[Problem]) -> Any:
    """A handoff in any form, as JSON; a text as it is."""
    from passdown.core.intake import GivenHandoff
    from passdown.core.results import HandoffCommand
    from passdown.core.schema import as_plain

    if isinstance(handoff, bytes):
        return handoff.decode("utf-8", "surrogateescape")
    sent = handoff.to_dict() if isinstance(handoff, HandoffCommand) else handoff
    plain = as_plain(sent.data if isinstance(sent, GivenHandoff) else sent)
    return _encoded("handoff", plain, Any, problems)


def _encoded(name: str, value: Any, kind: Any, problems: list[Problem]) -> Any:
    """An argument as JSON, checked as far as its type is a simple one."""
    if isinstance(kind, type) and field_names(kind) and not isinstance(value, kind):
        raise TypeError(f"expected a {kind.__name__}, not {type(value).__name__}")
    if get_origin(kind) is Sequence and get_args(kind) == (str,):
        return list(text_list(value, name, problems))
    if kind is str:
        problems += text_type_problems(**{name: value})
    try:
        return encode(value)
    except TypeError as error:
        message = f"{type(value).__name__}: {error}"
        problems.append(Problem(name, "wrong_type", message, "a value, with text as keys"))


def named_counter(counter: Any) -> str:
    """A token counter by its name: a function can't be sent."""
    name: object = counter if isinstance(counter, str) else getattr(counter, "name", None)
    if isinstance(name, str):
        return name
    problem = Problem("counter", "wrong_type", "a function can't be sent", "a counter's name")
    raise InvalidInput("the request is refused; nothing was sent", [problem])


def route(
    operation: Operation, function: Callable[..., Any], arguments: JsonObject
) -> tuple[str, str]:
    """The HTTP method and the path of an operation; takes out the arguments that are in it."""
    method, _, path = operation.http.partition(" ")
    parameters = signature(function).parameters

    def optional(part: re.Match[str]) -> str:
        name = part[0].partition("{")[2].partition("}")[0]
        return part[1] if arguments.get(name) is not None else ""

    def filled(part: re.Match[str]) -> str:
        return path_part(arguments.pop(part[1], parameters[part[1]].default))

    return method, re.sub(r"{(\w+)}", filled, re.sub(r"\[(.*?)\]", optional, path))


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
        document = reply.document()
        items, cursor = document.get("items"), document.get("next")
        if not isinstance(items, list) or not isinstance(cursor, str | None):
            raise not_passdown(reply, "is no page of a list")
        found += cast("list[JsonObject]", items)
        if cursor is None or (is_limited and len(found) >= limit):
            return found[:limit] if is_limited else found
        if not items or cursor in seen:
            raise not_passdown(reply, "is a page that leads nowhere")
        seen.add(cursor)


def decoded(reply: HttpReply, kind: Any) -> Any:
    """The value that a reply stands for."""
    document = reply.document()
    try:
        if get_origin(kind) in (list, tuple):
            return decode(kind, document["items"])
        if kind in (str, bool, int):
            return decode(kind, document["text" if kind is str else "value"])
        return decode(kind, document)
    except (KeyError, TypeError, ValueError) as error:
        raise not_passdown(reply, f"lacks what was asked for ({error})") from error

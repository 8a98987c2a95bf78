"""A workspace on a server: the same methods with the same meaning.

An operation becomes a request by its row in the table and its function's signature. What needs
files or functions of the server's machine is refused with what to do instead. Settings and the
clock are the server's; profiles, bundles, backups, the repository and the files that handoffs and
decisions name are those of the client's machine.
"""

from __future__ import annotations

import base64
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
from passdown.core.results import ArtifactStatus
from passdown.core.times import utc_now
from passdown.core.types import NEWEST
from passdown.errors import InvalidInput, NotAllowed, NotFound, PassdownError, Problem
from passdown.operations import OPERATION, load
from passdown.remote import connection as http
from passdown.workspace import Workspace
from passdown.workspace.files import files_sent
from passdown.workspace.streams import KEPT_BY_ADAPTERS, READ_BY_ALL, Streams

if TYPE_CHECKING:
    from datetime import datetime

    from passdown.core.types import JsonObject, Progress
    from passdown.history.profiles import Profile, Profiles
    from passdown.knowledge.sync import KnowledgeSync
    from passdown.ledger.bundles import Bundle, BundleImport
    from passdown.ledger.verification import Verification
    from passdown.operations import Operation
    from passdown.remote.connection import HttpReply
    from passdown.workspace.context import Context
    from passdown.workspace.streams import StreamEntry
    from passdown.workspace.switches import Prompt, Switch

_PAGE = 1_000
_AT_THE_STORE = "Do it where the store is, with passdown.open of its folder or URL."


def connect(url: str, token: str = "") -> RemoteWorkspace:
    """Open the workspace of a server; the token is given, or PASSDOWN_TOKEN has it."""
    server = http.server_at(url)
    token = (token or os.environ.get("PASSDOWN_TOKEN", "")).strip()
    if not token:
        raise NotAllowed(
            f"{server.url} needs a token",
            next_step="Set PASSDOWN_TOKEN, or give it to passdown.open; passdown token new "
            "makes one where the server is.",
            code="no_token",
        )
    if not token.isascii() or not token.isprintable() or " " in token:
        expected = "what passdown token new printed"
        problem = Problem("token", "invalid_form", "holds characters that no token has", expected)
        raise InvalidInput("the server can't be opened", [problem])
    return RemoteWorkspace(http.HttpConnection(server, token))


def token_holder(url: str) -> str:
    """Whose token PASSDOWN_TOKEN is, as its server says."""
    with connect(url) as workspace:
        return str(workspace.connection.ask("GET", "/api/me").document().get("name", ""))


class RemoteWorkspace(Workspace):
    """One team's records, on a server. Threads may share it."""

    def __init__(self, connection: http.HttpConnection) -> None:
        """Nothing is sent until the first call; `passdown.open` makes it from a URL."""
        self.connection = connection

    def require_rights(self, what: str, *rights: str) -> None:
        """Refuse what works on this machine first, if its results couldn't be recorded then."""
        holder = self.connection.ask("GET", "/api/me").document()
        if missing := [right for right in rights if right not in holder.get("rights", ())]:
            raise NotAllowed(
                f"{what}: the token of {holder.get('name', '')} doesn't allow {', '.join(missing)}",
                next_step="The administrator of the server makes one with passdown token new "
                f"--rights {','.join(('read', *rights))}.",
            )

    def _call(
        self, operation: Operation, function: Callable[..., Any], *args: Any, **given: Any
    ) -> Any:
        self.connection.check_open()
        if operation.instead[0]:
            raise self.unsupported(*operation.instead)
        checked_arguments(function, args, given, has_own_limits=operation.has_own_limits)
        if operation.has_client:
            return operation.own(__name__)(self, *args, **given)
        if not operation.http:
            if operation.right == "write":
                self.require_rights("nothing was done", "write")
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
        """Write records in one transaction; repeated by their keys if the connection breaks."""
        for entry in entries:
            if not entry.stream.startswith(KEPT_BY_ADAPTERS):
                raise self._workspace.unsupported(f"to write to {entry.stream.split('/')[0]}")
        sent = [{**one._asdict(), "key": one.key or os.urandom(16).hex()} for one in entries]
        reply = self._connection.ask("POST", _RECORDS, body={"entries": sent}, repeats=True)
        return [_record(one) for one in reply.document()["items"]]

    def records(self, stream: str, after: int) -> list[Record]:
        """The records of a stream above a position, page by page."""
        self._check_shown(stream)
        found = pages(self._connection, _RECORDS, NEWEST, str(after), {"stream": stream})
        return [_record(one) for one in found]

    def heads(self, prefix: str) -> list[Head]:
        """The heads of all streams whose name starts so, by name."""
        self._check_shown(prefix)
        reply = self._connection.ask("GET", "/api/streams", query={"prefix": prefix})
        return [Head(**head) for head in reply.document()["items"]]

    def head(self, stream: str) -> Head | None:
        """The head of a stream; None where there is no such stream."""
        return next((head for head in self.heads(stream) if head.stream == stream), None)

    def record(self, stream: str, position: int) -> Record | None:
        """The record of a stream at a position; None where there is none."""
        return self._one(stream, cursor=str(position - 1))

    def keyed(self, stream: str, key: str) -> Record | None:
        """The record of a stream with a key; None where there is none."""
        return self._one(stream, key=key)

    def _one(self, stream: str, **query: str) -> Record | None:
        self._check_shown(stream)
        asked = {"stream": stream, "limit": 1, **query}
        items = self._connection.ask("GET", _RECORDS, query=asked).document()["items"]
        return _record(items[0]) if items else None

    def now(self) -> datetime:
        """The time of this machine."""
        return utc_now()

    def _check_shown(self, stream: str) -> None:
        if not stream.startswith((*READ_BY_ALL, *KEPT_BY_ADAPTERS)):
            raise self._workspace.unsupported(f"to read {stream.split('/', maxsplit=1)[0]}")


_RECORDS = "/api/streams/records"


def _record(document: JsonObject) -> Record:
    return Record(**{**document, "body": document["body"].encode()})


def call(
    connection: http.HttpConnection,
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
        return http.path_part(arguments.pop(part[1], parameters[part[1]].default))

    return method, re.sub(r"{(\w+)}", filled, re.sub(r"\[(.*?)\]", optional, path))


def pages(
    connection: http.HttpConnection, path: str, limit: Any, cursor: object, query: JsonObject
) -> list[JsonObject]:
    """The entries of a list up to a limit, page by page. Each page has to bring something and lead
    on; all of them together have bounds of time and size.
    """
    found: list[JsonObject] = []
    asked: object = limit
    is_limited = type(limit) is int and limit > 0
    seen, deadline, size = {cursor}, http.Deadline(http.HEAVY_TIMEOUT_S), 0
    while True:
        if is_limited:
            asked = min(limit - len(found), _PAGE)
        given = {**query, "limit": asked, **({} if cursor is None else {"cursor": cursor})}
        reply = connection.ask("GET", path, query=given, within=deadline)
        size += len(reply.body)
        if size > http.MAX_ANSWER_BYTES:
            raise http.too_large(connection.server.url, http.MAX_ANSWER_BYTES)
        document = reply.document()
        items, cursor = document.get("items"), document.get("next")
        if not isinstance(items, list) or not isinstance(cursor, str | None):
            raise http.not_passdown(reply, "is no page of a list")
        found += cast("list[JsonObject]", items)
        if cursor is None or (is_limited and len(found) >= limit):
            return found[:limit] if is_limited else found
        if not items or cursor in seen:
            raise http.not_passdown(reply, "is a page that leads nowhere")
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
        raise http.not_passdown(reply, f"lacks what was asked for ({error})") from error


# The operations whose request doesn't follow from their signature: they use files of this machine.


def artifacts(ws: RemoteWorkspace, task: str) -> list[ArtifactStatus]:
    """A task's artifacts, compared with the files beneath the folder of this program."""
    from passdown.history.state import artifact_status
    from passdown.ledger.project_files import Project

    project = Project(os.getcwd(), "")
    found = [each.to_dict() for each in call(ws.connection, OPERATION["artifacts"], (task,))]
    return [ArtifactStatus({**each, "now": artifact_status(each, project)}) for each in found]


def switch(
    ws: RemoteWorkspace, task: str, *, to_agent: str, profiles: str = "", **given: Any
) -> Switch:
    """The context of an agent that takes over, with its profile from here if there is one."""
    from passdown.workspace.switches import profile_sent, with_git_of

    found = _profiles(profiles).get(to_agent)
    sent = profile_sent(found) if found or profiles else {}
    given = {"to_agent": to_agent, **given}
    return with_git_of(os.getcwd(), call(ws.connection, OPERATION["switch"], (task,), given, sent))


def context_prompt(ws: RemoteWorkspace, text: str, *, active: str = "", **given: Any) -> Prompt:
    """A user's prompt, with the profile from here of the agent that it calls."""
    from passdown.context.switches import find_switch
    from passdown.workspace.switches import profile_sent, with_git_of

    here = _profiles()
    called = find_switch(text, here.names(), active)
    profile = here.get(called) if called else None
    sent = profile_sent(profile) if profile else {}
    given = {"active": active, **given}
    found: Prompt = call(ws.connection, OPERATION["context.prompt"], (text,), given, sent)
    if found.switched is None:
        return found
    return found._replace(switched=with_git_of(os.getcwd(), found.switched))


def context_profile(ws: RemoteWorkspace, agent: str) -> Profile | None:
    """An agent's profile here, else on the server, or None where it has none."""
    return _profiles().get(agent) or call(ws.connection, OPERATION["context.profile"], (agent,))


def context_agents(ws: RemoteWorkspace) -> tuple[str, ...]:
    """The agents that have a profile, here or on the server."""
    there = call(ws.connection, OPERATION["context.agents"])
    return tuple(sorted({*_profiles().names(), *there}))


def _profiles(folder: str = "") -> Profiles:
    """The profiles of the project that this program works in."""
    from passdown.history.profiles import Profiles

    return Profiles(os.getcwd(), os.path.abspath(folder) if folder else "")


def knowledge_sync(ws: RemoteWorkspace, path: str = "", *, agent: str) -> KnowledgeSync:
    """Sync the knowledge file here with the graph of the server."""
    from passdown.knowledge.sync import SyncFolders, sync_file

    folders = SyncFolders.of_client(os.getcwd(), ws.store_url)
    return sync_file(ws.knowledge.written, ws.knowledge.add, folders, path, agent=agent)


def maintenance_backup(
    ws: RemoteWorkspace, target: str, progress: Progress | None = None
) -> Verification:
    """Copy the store to a new file here while others write, and verify the copy."""
    from passdown.workspace.maintenance import kept_if_whole

    media = OPERATION["maintenance.backup"].media[0][1]
    return kept_if_whole(
        target, lambda path: ws.connection.fetch("/api/backup", media, path, progress)
    )


def maintenance_export(
    ws: RemoteWorkspace, target: str, task: str | None = None, *, diff: bool = False
) -> int:
    """Write a bundle here, with the state of the repository here or else of the server's."""
    from passdown.workspace.maintenance import export_from

    query = {} if task is None else {"task": task}

    def fetch() -> bytes:
        return ws.connection.ask("GET", "/api/bundle", query=query, is_heavy=True).body

    return export_from(fetch, target, os.getcwd(), diff=diff)


def maintenance_import_bundle(
    ws: RemoteWorkspace,
    path: str,
    *,
    patch: str = "",
    max_unpacked: int | None = None,
    **given: Any,
) -> BundleImport:
    """Import a bundle from here; `patch` is a new file here.

    Who imports it is whom the token names, and how large it may be is up to the server.
    """
    from passdown.ledger.bundles import BundleImport
    from passdown.workspace.maintenance import import_file

    def send(_: Bundle) -> BundleImport:
        body: JsonObject = {name: value for name, value in given.items() if value}
        with open(path, "rb") as file:
            body["bundle"] = base64.b64encode(file.read()).decode()
        reply = ws.connection.ask("POST", "/api/bundle", body=body, repeats=True, is_heavy=True)
        return decoded(reply, BundleImport)

    return import_file(path, os.getcwd(), send, patch=patch, max_unpacked=max_unpacked)

"""Routes of the API, derived from the table of operations.

A row gives method, path and right; the function's signature says what may be given, its docstring
describes it, and its return annotation says what comes back. A row with a handler calls a function
of this module with the operation's name, `_` for a dot. `_SCHEMAS` has what a signature can't say.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import shutil
import tempfile
from inspect import Parameter, getdoc, signature
from operator import attrgetter
from types import NoneType
from typing import TYPE_CHECKING, Any, cast, get_args, get_origin

from passdown.core.codec import decode, encode, field_names, schema_of, type_hints
from passdown.core.handoff import Decision, TaskFields
from passdown.core.intake import handoff_schema
from passdown.core.kinds import TASK_LISTS
from passdown.core.record import Head, Record
from passdown.core.schema import ANY_PHASE, json_schema
from passdown.core.types import JsonObject
from passdown.errors import InvalidInput, NotFound, Problem, raise_problems
from passdown.knowledge.graph import ended_early
from passdown.operations import OPERATION, OPERATIONS, Operation, argument_texts, load
from passdown.web.openapi import (
    CLIENT_FILES,
    CLIENT_PROFILE,
    CURSOR,
    LIMIT,
    MAX_ENTRIES,
    MAX_QUERY,
    MAX_QUERY_ENTRIES,
    answer,
    choice,
    integer,
    object_schema,
    string,
)
from passdown.web.requests import ApiRequest, ApiResult, ApiRoute, reporting_missing, require_right
from passdown.workspace.files import FILES_FIELD, PROFILE_FIELD
from passdown.workspace.maintenance import BundleImport, import_data
from passdown.workspace.streams import (
    KEPT_BY_ADAPTERS,
    READ_BY_ALL,
    StreamEntry,
    WorkspaceStreams,
    any_author,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from passdown.web.openapi import Schema

_PAGE = 100
_IN_HEADERS = ("key", "expect_version")
_BESIDE_HANDOFF = ("handoff", "rebase", "changed_files", "dry_run", "counter")
"""What isn't a field of the handoff itself, in the body of one."""

_AS_DECLARED = ("right", "media", "status", "takes_files", "takes_profile", "is_heavy")
_HANDLERS = "passdown.web.routes:"
_SERVER_ROUTES = {
    "me": Operation("me", _HANDLERS + "me", "GET /api/me", has_handler=True),
    "hand_off_task": OPERATION["hand_off"]._replace(http="POST /api/tasks/{task}/handoffs"),
    "search": OPERATION["recall"]._replace(http="GET /api/recall"),
    "verified": OPERATION["verify"]._replace(http="GET /api/verify"),
    "streams": Operation("streams", _HANDLERS + "streams", "GET /api/streams", has_handler=True),
    "stream_records": Operation(
        "stream_records", _HANDLERS + "stream_records", "GET /api/streams/records", has_handler=True
    ),
    "add_stream_records": Operation(
        "add_stream_records",
        _HANDLERS + "add_stream_records",
        "POST /api/streams/records",
        right="write",
        has_handler=True,
    ),
}
"""What only a server has, and other routes to an operation, by the name of the route."""

_SCHEMAS: dict[str, Schema] = {
    "cursor": CURSOR,
    "stream_records.limit": LIMIT,
    "counter": string("the name of a token counter"),
    "handoff": {"type": ["object", "string"]},
    **{name: {"type": "integer"} for name in ("version", "old", "new")},
    "tasks.status": choice(TASK_LISTS),
    "tasks.phase": ANY_PHASE.schema({}),
    "changes.limit": LIMIT,
    "recall.limit": LIMIT,
    "brief.format": choice(("markdown", "plain", "yaml", "json", "injection", "summary")),
    "knowledge.render.format": choice(("json", "dot", "mermaid", "svg")),
}
"""Schemas of parameters by name, or by operation and name."""
_TASK = json_schema(TaskFields)["properties"]
_CHANGES = {name: schema for name, schema in _TASK.items() if name not in ("task", "phase")}
_FIELDS: dict[str, dict[str, Schema]] = {
    "create_task": _TASK,
    "update_task": {**_CHANGES, "status": choice(("open", "cancelled"))},
    "decide": json_schema(Decision)["properties"],
    **dict.fromkeys(("hand_off", "check_handoff"), handoff_schema()["properties"]),
}
"""What `**fields` of an operation may hold; those of a note depend on its kind."""

DEFINITIONS: JsonObject = {}
"""The schemas that those of the routes refer to."""


def api_routes() -> tuple[ApiRoute, ...]:
    """Every route, in the order of the table; MCP, events and status routes are elsewhere."""
    rows = {row.name.replace(".", "_"): row for row in OPERATIONS} | _SERVER_ROUTES
    routes = [route for name, row in rows.items() if row.http for route in _routes_of(name, row)]
    first: dict[tuple[str, str], ApiRoute] = {}
    for route in routes:
        first.setdefault((route.method, route.path), route)
    # A fixed path comes before one that a parameter would match as well.
    return tuple(sorted(first.values(), key=lambda route: "{" in route.path))


def _routes_of(name: str, operation: Operation) -> list[ApiRoute]:
    """The routes of a row: two where a part of its path may be left out."""
    method, _, path = operation.http.partition(" ")
    if "[" not in path:
        return [_route(operation, name, method, path)]
    whole = re.sub(r"[\[\]]", "", path)
    short = re.sub(r"\[.*?\]", "", path)
    return [
        _route(operation, f"task_{name}", method, whole),
        _route(operation, name, method, short),
    ]


def _route(operation: Operation, name: str, method: str, path: str) -> ApiRoute:
    function = load(operation.function)
    handler = operation.own(__name__) if operation.has_handler else None
    call = _Call(operation, function, handler)
    in_path = re.findall(r"{(\w+)}", path)
    optional_part = re.findall(r"\[.*?{(\w+)}.*?\]", operation.http)
    schemas = {
        each: schema
        for each, schema in _parameter_schemas(operation, handler or function, method).items()
        if each in in_path or each not in optional_part
    }
    sent = {each: schema for each, schema in schemas.items() if each not in in_path}
    route = ApiRoute(
        name=name,
        method=method,
        path=path,
        summary=" ".join((getdoc(function) or "").partition("\n\n")[0].split()),
        function=call,
        parameters={each: schemas.get(each, string()) for each in in_path},
        result=_result_schema(operation, type_hints(function)["return"]),
        takes_any=call.has_fields,
        takes_key="key" in call.headers,
        takes_version="expect_version" in call.headers,
        **{name: getattr(operation, name) for name in _AS_DECLARED},
    )
    required = [each for each in call.needed if each not in in_path]
    if method == "GET":
        if operation.paged:
            sent |= {"limit": LIMIT, "cursor": CURSOR}
        return route._replace(
            query={
                each: {**schema, "required": True} if each in required else schema
                for each, schema in sent.items()
            }
        )
    checked = {each: sent[each] for each in _BESIDE_HANDOFF if each in sent and call.takes_handoff}
    sent = {**_FIELDS.get(operation.name, {}), **sent}
    if operation.takes_files:
        sent[FILES_FIELD] = CLIENT_FILES
    if operation.takes_profile:
        sent[PROFILE_FIELD] = CLIENT_PROFILE
    body = object_schema(sent, required, is_open=call.has_fields)
    return route._replace(body=body, checked=checked)


def _parameter_schemas(
    operation: Operation, function: Callable[..., Any], method: str
) -> dict[str, Schema]:
    """The schemas of a function's parameters that can be sent, by name."""
    hints, said = type_hints(function), argument_texts(function)
    in_headers = _IN_HEADERS if operation.right != "read" else ()
    found: dict[str, Schema] = {}
    for name, each in list(signature(function).parameters.items())[1:]:
        left_out = ("progress", operation.paged, *_of_this_machine(operation))
        if each.kind is Parameter.VAR_KEYWORD or name in left_out:
            continue
        schema = _SCHEMAS.get(f"{operation.name}.{name}") or _SCHEMAS.get(name)
        if schema is None:
            schema = _type_schema(hints[name], each.default, in_query=method == "GET")
        if name not in in_headers and schema:
            found[name] = {**schema, **({"description": said[name]} if name in said else {})}
    return found


def _of_this_machine(operation: Operation) -> tuple[str, ...]:
    """Parameters about files that no client may name: of what is answered as a file."""
    return ("target", "diff") if operation.media else ("profiles",) * operation.takes_profile


def _type_schema(kind: Any, default: object, *, in_query: bool) -> Schema:
    """The schema of a parameter by its annotation; empty for what a query can't hold."""
    inner = [each for each in get_args(kind) if each is not NoneType]
    if default is None and len(inner) == 1:
        kind = inner[0]
    if isinstance(kind, type) and field_names(kind):
        schema_of(kind, DEFINITIONS)
        return {**DEFINITIONS[kind.__name__], "additionalProperties": False}
    found = schema_of(kind, DEFINITIONS)
    kinds = [found["type"]] if isinstance(found["type"], str) else found["type"]
    # None is what a parameter that was left out has.
    kinds = [each for each in kinds if each != "null" or default is not None]
    found["type"] = kinds[0] if len(kinds) == 1 else kinds
    if in_query and "object" in kinds:
        return {}
    if "integer" in kinds:
        found = {**integer(), **found}
    if "string" in kinds and in_query:
        found["maxLength"] = MAX_QUERY
    if "array" in kinds:
        found["maxItems"] = MAX_QUERY_ENTRIES if in_query else MAX_ENTRIES
    return found


def _result_schema(operation: Operation, kind: Any) -> Schema:
    """The schema of what a result is sent as, by its annotation."""
    if operation.media:
        return {}
    inner = [each for each in get_args(kind) if each is not NoneType]
    if get_origin(kind) in (list, tuple):
        items = {"type": "array", "items": schema_of(inner[0], DEFINITIONS)}
        following = {"next": {"type": ["string", "null"]}} if operation.paged else {}
        return answer(items=items, **following)
    if kind is str:
        return answer(text={"type": "string"})
    if kind in (bool, int):
        return answer(value=schema_of(kind, DEFINITIONS))
    is_optional = len(get_args(kind)) > len(inner) == 1
    return schema_of(inner[0] if is_optional else kind, DEFINITIONS)


class _Call:
    """What a route calls, and how.

    `needed` are the parameters that have to be given. With `**fields`, the operation reports them
    as missing together with everything else. `headers` are the arguments that come in headers.
    """

    def __init__(
        self, operation: Operation, function: Callable[..., Any], handler: Callable[..., Any] | None
    ) -> None:
        self._operation = operation
        self._handler = handler
        own = list(signature(function).parameters.values())[1:]
        given = list(signature(handler).parameters.values())[1:] if handler else own
        self._defaults = {each.name: each.default for each in own}
        self.has_fields = any(each.kind is Parameter.VAR_KEYWORD for each in given)
        self.needed = [
            each.name
            for each in given
            if each.default is Parameter.empty
            and each.kind is not Parameter.VAR_KEYWORD
            and each.name not in (operation.author, *_of_this_machine(operation))
        ]
        self.takes_handoff = "handoff" in self._defaults
        self.headers = [
            each for each in _IN_HEADERS if each in self._defaults and operation.right != "read"
        ]
        if self.takes_handoff and self.headers:
            self.headers.append("expect_version")
        hints = type_hints(function)
        self._values = {
            name: hints[name]
            for name in self._defaults
            if isinstance(hints.get(name), type) and field_names(hints[name])
        }

    def __call__(self, request: ApiRequest) -> ApiResult:
        """Call the operation, or its handler, and give the result as a document."""
        given = request.arguments
        needed = self.needed if self.has_fields else []
        if self.has_fields:
            given = {**dict.fromkeys(needed, ""), **request.body, **given}
        with reporting_missing({**request.body, **request.arguments}, needed):
            if self._handler is not None:
                return _result(self._handler(request, **given))
            return self._call_operation(request, self._as_values(self._signed(request, given)))

    def _signed(self, request: ApiRequest, given: JsonObject) -> JsonObject:
        """The arguments with the name of who writes, or whose entries are read."""
        name, _, field = self._operation.author.partition(".")
        if self.takes_handoff:
            beside = {each: given[each] for each in _BESIDE_HANDOFF if each in given}
            fields = {each: value for each, value in given.items() if each not in beside}
            handoff, fields = request.own_handoff(beside.pop("handoff", None), fields)
            return {**beside, "handoff": handoff, **fields}
        if field:
            entry = cast("JsonObject", given.get(name))
            return {**given, name: {**entry, field: request.author(field, entry.get(field))}}
        is_optional = self._defaults.get(name) is not Parameter.empty
        claimed = given.get(name)
        if not name or (is_optional and not claimed and self._is_by_default(request)):
            return given
        if self._operation.right == "read" and not is_optional:
            return {**given, name: claimed or request.caller.name}
        signed = {**given, name: request.author(name, claimed)}
        if given.get("holder") and "holder" in self._defaults:
            # Who begins to work on a task is who writes, as well.
            signed["holder"] = request.author("holder", given["holder"])
        return signed

    def _is_by_default(self, request: ApiRequest) -> bool:
        """Whether a name that is left out stays so, as for who only reads."""
        return self._operation.right == "read" or request.caller.may("others")

    def _as_values(self, given: JsonObject) -> JsonObject:
        found = dict(given)
        for name, kind in self._values.items():
            try:
                found[name] = decode(kind, given[name])
            except (KeyError, TypeError, ValueError) as error:
                problem = Problem(name, "wrong_type", f"can't be read ({error})", kind.__name__)
                raise InvalidInput("the request is refused", [problem]) from error
        return found

    def _call_operation(self, request: ApiRequest, given: JsonObject) -> ApiResult:
        for name, value in (("key", request.key), ("expect_version", request.expect_version)):
            if value is not None and name in self._defaults and name in self.headers:
                given = {**given, name: value}
        operation = self._operation
        method = attrgetter(operation.name)(request.workspace)
        if operation.paged:
            return self._page(method, given)
        if operation.media and "target" in self._defaults:
            return self._file(method, given)
        value = method(**given)
        if operation.media:
            format = given.get("format", self._defaults["format"])
            return ApiResult(None, text=value, media=dict(operation.media)[format])
        return _result(value)

    def _page(self, method: Callable[..., Any], given: JsonObject) -> ApiResult:
        """A page of a list, and the cursor that leads to the next."""
        given = dict(given)
        limit = given.pop("limit", min(self._defaults["limit"], _PAGE))
        if cursor := int(given.pop("cursor", 0)):
            given[self._operation.paged] = cursor
        found = _entries(method(**given, limit=limit + 1))
        kept = found[:limit]
        following = str(_position(kept[-1], given)) if len(found) > limit else None
        return ApiResult({"items": kept, "next": following})

    def _file(self, method: Callable[..., Any], given: JsonObject) -> ApiResult:
        """The file that the operation writes to `target`, alone in a folder of its own."""
        folder = tempfile.mkdtemp(prefix="passdown-")
        path = os.path.join(folder, "file")
        try:
            method(target=path, **given)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return ApiResult(None, file=path, media=self._operation.media[0][1])


def _position(entry: JsonObject, given: JsonObject) -> int:
    """Where an entry is in its list: in all, or among those of its task."""
    if not given.get("task"):
        return entry["seq"]
    return entry["number"] if "number" in entry else entry["version"]


def _result(value: Any) -> ApiResult:
    if isinstance(value, ApiResult):
        return value
    if value is None:
        raise NotFound("there is none", next_step="The lists show what there is.")
    if isinstance(value, str):
        return ApiResult({"text": value})
    if isinstance(value, bool | int):
        return ApiResult({"value": value})
    if isinstance(value, list | tuple) and not hasattr(cast("object", value), "_fields"):
        return ApiResult({"items": _entries(cast("list[Any]", value))})
    document = cast("JsonObject", value if isinstance(value, dict) else encode(value))
    if document.get("prepared") is not None:
        return ApiResult(document, status=200)  # nothing was recorded
    return ApiResult(document, document["version"] if document.keys() >= _VERSIONED else None)


def _entries(values: Iterable[Any]) -> list[Any]:
    """Entries as JSON; objects are taken as they are."""
    return [each if isinstance(each, dict) else encode(each) for each in values]


_VERSIONED = {"version", "digest"}
"""Fields of a document that stands for a version of a task: its response gets an ETag."""


def me(request: ApiRequest, /) -> JsonObject:
    """Whose token this is, and what it allows."""
    return request.caller.to_dict()


def knowledge_neighbours(
    request: ApiRequest,
    /,
    *,
    node: str,
    depth: int = 1,
    direction: str = "out",
    relations: list[str] | None = None,
) -> JsonObject:
    """The nodes that can be reached; `more` where there may be others."""
    found = request.workspace.knowledge.neighbours(
        node, depth=depth, direction=direction, relations=relations or ()
    )
    return {"items": [encode(each) for each in found], "more": ended_early(found)}


def maintenance_import_bundle(
    request: ApiRequest, /, *, bundle: str, fork: str = "", agent: str | None = None
) -> BundleImport:
    """Import a bundle, verified, all or nothing; imported again, it changes nothing.

    Args:
        bundle: Its bytes in base64.
        fork: A suffix, to keep both where histories differ.
    """
    try:
        data = base64.b64decode(bundle, validate=True)
    except (binascii.Error, ValueError) as error:
        problem = Problem("bundle", "invalid_form", str(error), "a bundle's bytes in base64")
        raise InvalidInput("nothing was imported", [problem]) from error
    author = request.author("agent", agent)
    return import_data(request.context, data, fork, agent=author)


def streams(request: ApiRequest, /, *, prefix: str) -> list[Head]:
    """The heads of streams of runs, express items, agents and adapters.

    Args:
        prefix: run/, express/ or agent/, and a name.
    """
    return WorkspaceStreams(request.workspace).streams(_readable_stream(request, prefix))


def stream_records(
    request: ApiRequest, /, *, stream: str, limit: int = 100, cursor: str = "0", key: str = ""
) -> JsonObject:
    """The records of one of these streams, as they were hashed.

    Args:
        stream: run/, express/ or agent/, and a name.
        key: Only the record with this key.
    """
    reads, name = WorkspaceStreams(request.workspace), _readable_stream(request, stream)
    if key:
        known = reads.keyed(name, key)
        return {"items": [_sent(known)] if known else [], "next": None}
    if limit == 1:
        only = reads.record(name, int(cursor) + 1)
        return {"items": [_sent(only)] if only else [], "next": None}
    found = reads.records(name, int(cursor))
    following = str(found[limit - 1].position) if len(found) > limit else None
    return {"items": [_sent(one) for one in found[:limit]], "next": following}


def add_stream_records(request: ApiRequest, /, *, entries: list[JsonObject]) -> JsonObject:
    """Add records to streams of adapters: all or, with an error, none.

    Args:
        entries: Of each record stream, kind, author and body; key and the position to expect.
    """
    require_right(request.caller, "others")
    for place, entry in enumerate(entries):
        raise_problems("nothing was written", _entry_problems(entry, f"entries[{place}]"))
    with any_author():
        added = WorkspaceStreams(request.workspace).add(*(StreamEntry(**each) for each in entries))
    return {"items": [_sent(one) for one in added]}


def _sent(record: Record) -> JsonObject:
    return {**record._asdict(), "body": record.body.decode()}


_ENTRY_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("stream", "kind", "author", "key"), (str,)),
    "body": (dict,),
    "expect": (int, NoneType),
}


def _entry_problems(entry: JsonObject, path: str) -> list[Problem]:
    """What is wrong with a record that is to be added."""
    wrong = [
        Problem(f"{path}.{name}", "wrong_type", "can't be used", "as documented")
        for name in {*_ENTRY_TYPES, *entry}
        if name not in _ENTRY_TYPES or not isinstance(entry.get(name), _ENTRY_TYPES[name])
    ]
    if not wrong and not entry["stream"].startswith(KEPT_BY_ADAPTERS):
        expected = ", ".join(KEPT_BY_ADAPTERS)
        wrong.append(Problem(f"{path}.stream", "invalid_choice", "is not an adapter's", expected))
    return sorted(wrong)


def _readable_stream(request: ApiRequest, stream: str) -> str:
    if stream.startswith(READ_BY_ALL):
        return stream
    if stream.startswith(KEPT_BY_ADAPTERS):
        require_right(request.caller, "others")
        return stream
    raise NotFound(
        f"there is no stream {stream[:80]!r} to be read here",
        next_step=f"These can be: {', '.join(READ_BY_ALL)}.",
    )

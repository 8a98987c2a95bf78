"""Routes of the API, derived from the table of operations.

A row gives method, path and right; the function's signature says what may be given, its docstring
describes it, and its return annotation says what comes back. A row with a handler, and those of
`_SERVER_OPERATIONS`, which only a server has, call a function of `passdown.web.handlers` instead.
`_TEXT_LENGTHS` and `_SCHEMAS` hold what a signature can't say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter, getdoc, signature
from types import UnionType
from typing import TYPE_CHECKING, Any, NamedTuple, Union, cast, get_args, get_origin

from passdown.core.codec import encode, type_hints
from passdown.core.handoff import Decision, TaskFields
from passdown.core.kinds import PHASES, TASK_STATUSES
from passdown.core.schema import json_schema
from passdown.operations import OPERATIONS, Operation, load
from passdown.relay.relay_file import VERDICTS
from passdown.relay.run import ENDINGS, RUNNING, WAITING
from passdown.web.openapi import (
    CLIENT_FILES,
    CURSOR,
    LIMIT,
    MANY,
    MAX_ENTRIES,
    MAX_QUERY,
    MAX_TEXT,
    MAX_UPLOAD,
    answer,
    array,
    boolean,
    choice,
    integer,
    object_schema,
    page,
    ref,
    result_schema,
    string,
)
from passdown.web.requests import ApiRequest, ApiResult, ApiRoute, reporting_missing

if TYPE_CHECKING:
    from passdown.core.types import JsonObject
    from passdown.web.openapi import Schema

_PAGE = 100
_IN_HEADERS = ("key", "expect_version")
_IF_MATCH = frozenset({"hand_off", "hand_off_task"})
"""Operations that take the version as a field of the handoff."""


def _server(name: str, http: str, function: str = "", **rest: Any) -> Operation:
    return Operation(name, function, http, has_handler=True, **rest)


_SERVER_OPERATIONS = (
    _server("me", "GET /api/me"),
    _server(
        "hand_off_task",
        "POST /api/tasks/{task}/handoffs",
        "passdown.workspace.handoff:hand_off",
        right="write",
        status=201,
    ),
    _server("search", "GET /api/recall", "passdown.workspace.search:recall"),
    _server("verify_against", "POST /api/verify", is_heavy=True),
    _server("written_knowledge", "GET /api/knowledge", is_heavy=True),
    _server("conversations", "GET /api/tasks/{task}/conversations/{agent}"),
    _server("runs", "GET /api/runs", is_heavy=True),
    _server("run", "GET /api/runs/{run}"),
    _server("answer_run", "POST /api/runs/{run}/answer", right="approve"),
    _server("stop_run", "POST /api/runs/{run}/stop", right="approve"),
    _server("express_items", "GET /api/express", is_heavy=True),
    _server("send_express", "POST /api/express", right="write", status=201),
    _server("express_item", "GET /api/express/{item}"),
    _server("agents", "GET /api/agents"),
    _server("streams", "GET /api/streams"),
    _server("stream_records", "GET /api/streams/records"),
)

_TEXT_LENGTHS: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("task", "run"), (1, 128)),
    **dict.fromkeys(("item", "gate"), (1, 160)),
    **dict.fromkeys(("agent", "by", "from_agent", "told_to", "active", "fork"), (0, 64)),
    **dict.fromkeys(("counter", "since", "until"), (0, 40)),
    **dict.fromkeys(("kinds", "statuses"), (0, 40)),
    **dict.fromkeys(("source", "relation", "target", "tag", "node"), (0, 400)),
    **dict.fromkeys(("relations", "types"), (0, 400)),
    "tags": (0, 64),
    **dict.fromkeys(("stream", "prefix"), (1, 200)),
    **dict.fromkeys(("around", "forget_nodes", "forget_edges"), (0, 200)),
    "to_agent": (1, 64),
    "digest": (0, 80),
    "complexity": (0, 40),
}
"""Least and most characters of texts, by parameter."""

_PROFILE = object_schema(
    {
        "name": string(most=64, least=1),
        "text": string("the whole file", most=MAX_UPLOAD),
        "path": string("where it is", most=1_024),
        "problems": array(
            object_schema(
                {"path": string(), "code": string(most=64), "message": string()},
                ["path", "code", "message"],
                is_open=True,
            )
        ),
    },
    ["name", "text"],
)
_TOKENS = integer("in tokens", least=1, most=10**9)

_SCHEMAS: dict[str, Schema] = {
    "budget": _TOKENS,
    "used": integer(),
    "limit": integer("how many at most", least=1, most=10**9),
    "depth": integer("steps", most=1_000),
    "path": string(most=1_024),
    "profile": {**_PROFILE, "type": ["object", "null"]},
    "tasks.status": choice(TASK_STATUSES),
    "tasks.phase": choice(PHASES),
    "set_status.status": string(most=40),
    "note.kind": choice(("pattern", "gotcha")),
    "changes.limit": LIMIT,
    "recall.limit": LIMIT,
    "search.limit": LIMIT,
    "embeddings.update.limit": integer("0: all", most=10**9),
    "brief.format": choice(("markdown", "plain", "yaml", "json", "injection", "summary")),
    "context.check.text": string(most=10 * MAX_TEXT),
    "context.prompt.text": string(most=MAX_UPLOAD),
    "context.computed.complexity": choice(("easy", "normal", "complex")),
    "switch.rules": string(most=MAX_UPLOAD),
    "receive_handoff.version": integer(least=1),
    "files.history.path": string(least=1),
    "files.inline_plan.budget": integer(most=10**9),
    "files.state_document.version": {"type": "integer"},
    "diff.old": {"type": "integer"},
    "diff.new": {"type": "integer"},
    "knowledge.neighbours.depth": integer("steps", least=1, most=1_000),
    "knowledge.neighbours.direction": choice(("out", "in", "both")),
    "knowledge.pack.nodes": integer(least=1, most=500),
    "knowledge.pack.format": choice(("dot", "json")),
    "knowledge.render.format": choice(("json", "dot", "mermaid", "svg")),
    "knowledge.relate.source": string(most=400, least=1),
    "knowledge.relate.relation": string(most=400, least=1),
    "knowledge.relate.target": string(most=400, least=1),
    "knowledge.tagged.tags": array(string(most=400)),
    "knowledge.journal.limit": integer("places", least=1, most=2**40),
    "knowledge.add.forget_nodes": array(string(most=200), most=MANY),
    "decisions.get.key": string(most=400, least=1),
    "hand_off.handoff": {"type": ["object", "string"]},
    "check_handoff.handoff": {"type": ["object", "string"]},
    "changed_files": array(string(), most=MANY),
    "verify_against.against": {"type": ["object", "string"]},
    "maintenance.import_bundle.bundle": string(most=2**30),
    "runs.status": choice((RUNNING, WAITING, *ENDINGS)),
    "answer_run.verdict": choice(VERDICTS),
    "express_items.status": string(most=40),
    "express_item.item": string(most=128, least=1),
    "send_express.item": {"type": "object"},
}
"""Limits of other parameters, by name, or by operation and name."""

_TASK = json_schema(TaskFields)["properties"]
_DECISION = json_schema(Decision)["properties"]
_FIELDS: dict[str, dict[str, Schema]] = {
    "create_task": _TASK,
    "update_task": {
        **{name: schema for name, schema in _TASK.items() if name not in ("task", "phase")},
        "status": choice(("open", "cancelled")),
    },
    "decide": _DECISION,
    "decisions.store": _DECISION,
}
"""What `**fields` of an operation may hold; those of a note depend on its kind."""

_RESULTS: dict[str, Schema] = {
    "tasks": page(ref("Task")),
    "log": page(ref("Change")),
    "context.deliveries": page(answer("task", "kind", "at", "agent", seq={"type": "integer"})),
    "changes": answer(changes={"type": "array", "items": ref("Change")}, last={"type": "integer"}),
}
_REQUIRED = {
    "task": "task title version digest needs needed_by blocked_by open counts",
    "show": "address source",
    "diff": "task old new fields added changed removed",
    "context.why": "item agent reason told",
    "files.state_document": "task_id phase decisions version",
    "receive_handoff": "task_id version digest",
    "check_handoff": "ok completeness problems handoff",
    "switch": "task version from_agent to_agent digest text tokens parts summaries artifact_file "
    "files git brief warnings",
    "brief": "task agent version digest budget tokens text shown left_out waiting reach warnings",
    "context.computed": "task complexity patterns gotchas signals counts",
    "context.prompt": "text agent switched",
    "context.save_switch": "file from_agent to_agent version artifact path",
    "context.profile": "name needs tools problems",
    "decisions.store": "key address",
    "decisions.get": "decision address",
    "knowledge.relate": "is_new",
    "knowledge.neighbours": "items more",
    "knowledge.tasks_about": "tasks",
    "knowledge.pack": "terms graph left_out text",
    "written_knowledge": "graph seq reports",
    "verify": "ok streams records findings",
    "verify_against": "ok streams records findings",
    "maintenance.heads": "heads",
    "maintenance.import_bundle": "added unchanged forked touched checkout warnings",
    "maintenance.doctor": "ok facts findings",
    "me": "id name is_person rights",
    "runs": "items damaged",
    **dict.fromkeys(("run", "answer_run", "stop_run"), "run relay task status turns"),
    "send_express": "id queued not_queued",
    "express_item": "id status tries",
    "stream_records": "items more",
}
"""The fields that every result has, of those whose type doesn't say it."""
_RESULT_TYPES: dict[str, Schema] = {
    name: schema
    for names, schema in (
        ("is_new is_person more ok queued told", {"type": "boolean"}),
        ("budget completeness records seq streams tokens version", {"type": "integer"}),
        ("address agent digest id key name run status task text title", {"type": "string"}),
        ("damaged items", {"type": "array", "items": {"type": "object"}}),
        ("problems warnings", {"type": "array", "items": ref("Problem")}),
        ("rights", {"type": "array", "items": {"type": "string"}}),
    )
    for name in names.split()
}
"""The types of fields with a name that means the same everywhere."""


def api_routes() -> tuple[ApiRoute, ...]:
    """Every route, in the order of the table; MCP, events and status routes are elsewhere."""
    rows = (*OPERATIONS, *_SERVER_OPERATIONS)
    return tuple(route for row in rows if row.http for route in _routes_of(row))


class _Given(NamedTuple):
    """One parameter of a function: its type, its default, and what its docstring says of it."""

    name: str
    kind: Any
    is_required: bool
    description: str


def _routes_of(operation: Operation) -> list[ApiRoute]:
    """The routes of a row: two where a part of its path may be left out."""
    method, _, path = operation.http.partition(" ")
    name = operation.name.replace(".", "_")
    if "[" not in path:
        return [_route(operation, name, method, path)]
    whole = re.sub(r"[\[\]]", "", path)
    short = re.sub(r"\[.*?\]", "", path)
    return [
        _route(operation, f"task_{name}", method, whole),
        _route(operation, name, method, short),
    ]


def _route(operation: Operation, name: str, method: str, path: str) -> ApiRoute:
    handler = load(operation.handler) if operation.handler else None
    declared = _declaring(operation, handler)
    in_path = re.findall(r"{(\w+)}", path)
    left_out = ("progress", operation.paged, *(_IN_HEADERS if operation.right != "read" else ()))
    optional_part = re.findall(r"\[.*?{(\w+)}.*?\]", operation.http)
    given = [
        each
        for each in _parameters(declared)
        if each.name not in left_out and (each.name in in_path or each.name not in optional_part)
    ]
    has_fields = any(
        each.kind is Parameter.VAR_KEYWORD for each in signature(declared).parameters.values()
    )
    schemas = {
        each.name: _parameter_schema(operation, each, in_query=method == "GET") for each in given
    }
    required = [
        each.name
        for each in given
        if each.is_required and each.name != operation.author and each.name not in in_path
    ]
    sent = {name: schema for name, schema in schemas.items() if name not in in_path}
    own = dict(signature(load(operation.function)).parameters) if operation.function else {}
    headers = tuple(each for each in _IN_HEADERS if each in own and operation.right != "read")
    page_limit = min(own["limit"].default, _PAGE) if operation.paged else 0
    route = ApiRoute(
        name=name,
        method=method,
        path=path,
        right=operation.right,
        summary=_summary(operation, handler),
        function=_Call(
            operation, handler, tuple(required) if has_fields else None, headers, page_limit
        ),
        parameters={each: schemas[each] for each in in_path},
        result=_result_schema(operation, handler),
        media=operation.media,
        status=operation.status,
        takes_any=has_fields,
        takes_key="key" in headers,
        takes_version="expect_version" in headers or operation.name in _IF_MATCH,
        takes_files=operation.takes_files,
        is_heavy=operation.is_heavy,
    )
    if method == "GET":
        if operation.paged:
            sent |= {"limit": LIMIT, "cursor": CURSOR}
        query = {
            each: {**schema, "required": True} if each in required else schema
            for each, schema in sent.items()
        }
        return route._replace(query=query)
    if operation.name == "hand_off_task":
        return route._replace(query=sent, body=ref("Handoff"), takes_any=True)
    sent = {**_FIELDS.get(operation.name, {}), **sent}
    if operation.takes_files:
        sent["files_seen"] = CLIENT_FILES
    is_open = has_fields and operation.name not in _FIELDS
    return route._replace(body=object_schema(sent, required, is_open=is_open))


def _declaring(operation: Operation, handler: Callable[..., Any] | None) -> Callable[..., Any]:
    """The function whose signature counts: a handler's, unless it passes on what it is given."""
    if handler is None or not operation.function:
        return handler or load(operation.function)
    kinds = [each.kind for each in list(signature(handler).parameters.values())[1:]]
    return load(operation.function) if kinds == [Parameter.VAR_KEYWORD] else handler


def _parameters(function: Callable[..., Any]) -> list[_Given]:
    """The parameters of a function, without the first and without `**fields`."""
    hints = type_hints(function)
    said = _argument_texts(function)
    return [
        _Given(name, hints[name], each.default is Parameter.empty, said.get(name, ""))
        for name, each in list(signature(function).parameters.items())[1:]
        if each.kind is not Parameter.VAR_KEYWORD
    ]


def _argument_texts(function: Callable[..., Any]) -> dict[str, str]:
    """What the section `Args:` of a docstring says of each parameter."""
    _, _, section = (getdoc(function) or "").partition("\nArgs:\n")
    section = re.split(r"\n(?=\S)", section)[0]
    found = re.findall(r"^    \**(\w+): (.*(?:\n {8,}.*)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


def _summary(operation: Operation, handler: Callable[..., Any] | None) -> str:
    function = load(operation.function) if operation.function else handler
    return " ".join((getdoc(function) or "").partition("\n\n")[0].split())


def _parameter_schema(operation: Operation, given: _Given, *, in_query: bool) -> Schema:
    found = (
        _SCHEMAS.get(f"{operation.name}.{given.name}")
        or (_SCHEMAS.get(given.name) if given.name not in _TEXT_LENGTHS else None)
        or _type_schema(given.name, given.kind, in_query=in_query)
    )
    return {**found, "description": given.description} if given.description else found


def _type_schema(name: str, kind: Any, *, in_query: bool) -> Schema:
    """The schema of a parameter by its annotation."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        kept = next(each for each in inner if each is not type(None))
        return _type_schema(name, kept, in_query=in_query)
    if kind in (bool, int):
        return boolean() if kind is bool else integer()
    least, most = _TEXT_LENGTHS.get(name, (0, MAX_QUERY if in_query else MAX_TEXT))
    if not isinstance(origin, type):
        return string(most=most, least=least)
    if issubclass(origin, Mapping):
        return {"type": "object"}
    if issubclass(origin, tuple):
        return {**array(string(most=most)), "minItems": len(inner), "maxItems": len(inner)}
    is_simple = inner[0] is str or get_origin(inner[0]) is tuple
    entry = _type_schema(name, inner[0], in_query=in_query) if is_simple else {"type": "object"}
    return {
        "type": "array",
        "items": entry,
        **({"maxItems": MAX_ENTRIES} if inner[0] is str else {}),
    }


def _result_schema(operation: Operation, handler: Callable[..., Any] | None) -> Schema:
    if operation.name in _RESULTS or operation.media:
        return _RESULTS.get(operation.name, {})
    if operation.name in _REQUIRED:
        names = _REQUIRED[operation.name].split()
        known = {name: _RESULT_TYPES[name] for name in names if name in _RESULT_TYPES}
        return answer(*(name for name in names if name not in known), **known)
    kind = type_hints(handler)["return"] if handler else ApiResult
    if kind is ApiResult and operation.function:
        kind = type_hints(load(operation.function))["return"]
    return result_schema(kind, is_paged=bool(operation.paged))


class _Call(NamedTuple):
    """What a route calls, and how.

    With `**fields`, `needed` are the fields that have to be there; the operation reports them as
    missing together with everything else. `headers` are the arguments that come in headers.
    """

    operation: Operation
    handler: Callable[..., Any] | None
    needed: tuple[str, ...] | None
    headers: tuple[str, ...]
    page_limit: int

    def __call__(self, request: ApiRequest) -> ApiResult:
        """Call the operation, or its handler, and give the result as a document."""
        given = request.arguments
        if self.needed is not None:
            given = {**dict.fromkeys(self.needed, ""), **request.body, **given}
        with reporting_missing({**request.body, **request.arguments}, self.needed or ()):
            if self.handler is not None:
                return _result(self.handler(request, **given))
            return self._call_operation(request, given)

    def _call_operation(self, request: ApiRequest, given: JsonObject) -> ApiResult:
        operation = self.operation
        if operation.author:
            given = {**given, operation.author: _author(operation, request, given)}
        for name, value in (("key", request.key), ("expect_version", request.expect_version)):
            if value is not None and name in self.headers:
                given = {**given, name: value}
        owner: Any = request.workspace
        if operation.group:
            owner = getattr(owner, operation.group)
        method = getattr(owner, operation.method)
        return self._page(method, given) if operation.paged else _result(method(**given))

    def _page(self, method: Callable[..., Any], given: JsonObject) -> ApiResult:
        """A page of a list, and the cursor that leads to the next."""
        given = dict(given)
        limit = given.pop("limit", self.page_limit)
        if cursor := int(given.pop("cursor", 0)):
            given[self.operation.paged] = cursor
        found = _entries(method(**given, limit=limit + 1))
        kept = found[:limit]
        following = str(_position(kept[-1], given)) if len(found) > limit else None
        return ApiResult({"items": kept, "next": following})


def _author(operation: Operation, request: ApiRequest, given: JsonObject) -> Any:
    """Who writes, or whose entries are read: by default the token's holder."""
    named = given.get(operation.author)
    if operation.right == "read":
        return named or request.caller.name
    return request.author(operation.author, named)


def _position(entry: JsonObject, given: JsonObject) -> int:
    """Where an entry is in its list: in all, or among those of its task."""
    if not given.get("task"):
        return entry["seq"]
    return entry["number"] if "number" in entry else entry["version"]


def _result(value: Any) -> ApiResult:
    if isinstance(value, ApiResult):
        return value
    if isinstance(value, str):
        return ApiResult({"text": value})
    if isinstance(value, list | tuple) and not hasattr(cast("object", value), "_fields"):
        return ApiResult({"items": _entries(cast("list[Any]", value))})
    document = cast("JsonObject", value if isinstance(value, dict) else encode(value))
    return ApiResult(document, document["version"] if document.keys() >= _VERSIONED else None)


def _entries(values: Iterable[Any]) -> list[Any]:
    """Entries as JSON; objects are taken as they are."""
    return [each if isinstance(each, dict) else encode(each) for each in values]


_VERSIONED = {"version", "digest"}
"""Fields of a document that stands for a version of a task: its response gets an ETag."""

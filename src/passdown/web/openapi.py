"""JSON Schemas of requests and results, and the OpenAPI document made from the routes."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, get_args, get_origin

from passdown import __version__
from passdown.core.codec import field_names, type_hints
from passdown.web.responses import PROBLEM_MEDIA, TITLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from passdown.core.types import JsonObject
    from passdown.web.requests import ApiRoute


Schema = dict[str, Any]

MAX_NUMBER = 2**62
MAX_TEXT = 65_536
MAX_QUERY = 4_096
MAX_ENTRIES = 100
MANY = 10_000
MAX_UPLOAD = 1_048_576


def string(description: str = "", *, most: int = MAX_QUERY, least: int = 0) -> Schema:
    """A text of at most so many characters."""
    found: Schema = {"type": "string", "maxLength": most}
    if least:
        found["minLength"] = least
    return _described(found, description)


def choice(choices: Sequence[str], description: str = "") -> Schema:
    """One of some words."""
    return _described({"type": "string", "enum": list(choices)}, description)


def integer(description: str = "", *, least: int = 0, most: int = MAX_NUMBER) -> Schema:
    """A whole number within limits."""
    return _described({"type": "integer", "minimum": least, "maximum": most}, description)


def boolean(description: str = "") -> Schema:
    """True or false."""
    return _described({"type": "boolean"}, description)


def array(entry: Schema | None = None, description: str = "", *, most: int = MAX_ENTRIES) -> Schema:
    """A list; in a query, the parameter is repeated."""
    found = {"type": "array", "items": entry or string(), "maxItems": most}
    return _described(found, description)


def object_schema(
    properties: Mapping[str, Schema],
    required: Sequence[str] = (),
    *,
    is_open: bool = False,
    description: str = "",
) -> Schema:
    """An object; one that `is_open` may have fields that aren't listed."""
    found: Schema = {"type": "object", "properties": dict(properties)}
    if required:
        found["required"] = list(required)
    if not is_open:
        found["additionalProperties"] = False
    return _described(found, description)


def answer(*required: str, **properties: Schema) -> Schema:
    """An object of an answer, which has at least these fields."""
    return object_schema(properties, [*required, *properties], is_open=True)


def page(entry: Schema) -> Schema:
    """A part of a longer list; `next` is the cursor of the next part, or null at the end."""
    return answer(items={"type": "array", "items": entry}, next={"type": ["string", "null"]})


def ref(name: str) -> Schema:
    """A schema that stands among the components."""
    return {"$ref": f"#/components/schemas/{name}"}


def result_schema(kind: Any, *, is_paged: bool = False) -> Schema:
    """The schema of what an operation's result is sent as, by its return annotation."""
    if kind is str:
        return answer(text={"type": "string"})
    if get_origin(kind) in (list, tuple):
        entry = _value_schema(get_args(kind)[0])
        return page(entry) if is_paged else answer(items={"type": "array", "items": entry})
    return _value_schema(kind)


def _value_schema(kind: Any) -> Schema:
    """The schema of a value. Of one that says itself how it is sent, no field is required."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind in _PLAIN_TYPES:
        return {"type": _PLAIN_TYPES[kind]}
    if origin in (list, tuple):
        return {"type": "array", "items": _value_schema(inner[0]) if inner else {}}
    if origin is dict or kind is dict:
        return {"type": "object"}
    if getattr(kind, "__name__", "") in COMPONENTS:
        return ref(kind.__name__)
    names = () if hasattr(kind, "to_dict") else field_names(kind) if isinstance(kind, type) else ()
    if not names:
        return {"type": "object"} if isinstance(kind, type) else {}
    hints = type_hints(kind)
    return answer(**{name: _value_schema(hints[name]) for name in names})


_PLAIN_TYPES: dict[Any, str] = {
    str: "string",
    datetime: "string",
    int: "integer",
    bool: "boolean",
    float: "number",
}


def _described(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description} if description else schema


CURSOR = {
    "type": "string",
    "pattern": "^[0-9]{1,18}$",
    "description": "from `next` of the part before; opaque",
}
LIMIT = integer("how many at most", least=1, most=1_000)

CLIENT_FILES = array(
    object_schema(
        {
            "path": string("relative to the project", most=1_024, least=1),
            "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
            "size_bytes": integer(),
            "problem": object_schema(
                {
                    "code": string(most=40, least=1),
                    "message": string(most=2_048, least=1),
                    "expected": string(most=200),
                },
                ["code", "message"],
                description="why the file can't be taken",
            ),
        },
        ["path"],
    ),
    "files that the body names, as they are where it comes from; without a hash: not there. Left "
    "out, the server looks at its own disk",
    most=MANY,
)

PROBLEM = answer(
    "path",
    "message",
    code={"type": "string"},
    level={"type": "string", "enum": ["error", "warning"]},
)
RECEIPT = answer(
    task_id={"type": "string"},
    version={"type": "integer"},
    digest={"type": "string"},
    items={"type": "array", "items": {"type": "string"}},
    is_replay={"type": "boolean"},
    warnings={"type": "array", "items": ref("Problem")},
)
COMMAND = answer(
    "target_agent",
    "phase",
    "outcome",
    "state_delta",
    "context_summary",
    "state_file",
    "held_by",
    "completeness",
    task_id={"type": "string"},
    version={"type": "integer"},
    digest={"type": "string"},
    is_replay={"type": "boolean"},
    warnings={"type": "array", "items": ref("Problem")},
)
TASK = answer(
    "holder",
    "updated_at",
    "title",
    task={"type": "string"},
    phase={"type": "string"},
    status={"type": "string"},
    version={"type": "integer"},
    seq={"type": "integer"},
)
CHANGE = answer(
    "summary",
    "counts",
    seq={"type": "integer"},
    task={"type": "string"},
    version={"type": "integer"},
    kind={"type": "string"},
    author={"type": "string"},
    at={"type": "string"},
    digest={"type": "string"},
)
DETAILS = answer(
    "next_step",
    type={"type": "string"},
    title={"type": "string"},
    status={"type": "integer"},
    detail={"type": "string"},
    code={"type": "string"},
)
DETAILS["properties"]["problems"] = {"type": "array", "items": ref("Problem")}
DETAILS["properties"]["expected"] = {"type": "integer"}
DETAILS["properties"]["actual"] = {"type": "integer"}

COMPONENTS: dict[str, Schema] = {
    "Problem": PROBLEM,
    "ProblemDetails": DETAILS,
    "Receipt": RECEIPT,
    "HandoffCommand": COMMAND,
    "Task": TASK,
    "Change": CHANGE,
}

_COMMON_STATUSES = (400, 401, 403, 404, 405, 421, 422, 429, 503)
_BODY_STATUSES = (408, 409, 413, 415)
SECURITY = {"token": {"type": "http", "scheme": "bearer", "description": "passdown token new"}}
DESCRIPTION = (
    "What agents hand on, decided and learned. Every answer of a task has its version as ETag; "
    "writes take If-Match (412 with both versions where the task has moved on) and "
    "Idempotency-Key (the same key gives the same record). Errors are problem details with every "
    "problem at once. An agent writes as itself, whatever a body claims."
)


def _described_route(route: ApiRoute) -> JsonObject:
    parameters = [
        *(_parameter("path", name, schema) for name, schema in route.parameters.items()),
        *(_parameter("query", name, schema) for name, schema in route.query.items()),
        *_headers(route),
    ]
    found: JsonObject = {
        "tags": [route.path.split("/")[2]],
        "summary": route.summary,
        "operationId": route.name,
        "responses": _responses(route),
        "parameters": parameters,
        "security": [{"token": []}],
    }
    if route.body is not None:
        content = {"application/json": {"schema": route.body}}
        found["requestBody"] = {"required": True, "content": content}
    return found


def _responses(route: ApiRoute) -> JsonObject:
    """The responses of a route by status."""
    problem = {PROBLEM_MEDIA: {"schema": ref("ProblemDetails")}}
    content = {media: {"schema": schema} for media, schema in _content(route).items()}
    found: JsonObject = {str(route.status): {"description": route.summary, "content": content}}
    statuses = [*_COMMON_STATUSES, *(_BODY_STATUSES if route.body is not None else ())]
    statuses += [412] if route.takes_version else []
    for status in statuses:
        found[str(status)] = {"description": TITLES[status], "content": problem}
    if route.method == "GET":
        found["304"] = {"description": "What If-None-Match names still holds"}
    return found


def _content(route: ApiRoute) -> JsonObject:
    others = {media: _text_or_bytes(media) for media in route.media}
    return {**others, **({"application/json": route.result} if route.result else {})}


def _text_or_bytes(media: str) -> JsonObject:
    if media == "application/json":
        return {"type": "object"}
    return {"type": "string", **({} if media.startswith("text/") else {"format": "binary"})}


def _parameter(where: str, name: str, schema: JsonObject) -> JsonObject:
    is_required = where == "path" or schema.get("required") is True
    spelled = {key: value for key, value in schema.items() if key != "required"}
    return {"in": where, "name": name, "required": is_required, "schema": spelled}


def _headers(route: ApiRoute) -> list[JsonObject]:
    found: list[JsonObject] = []
    if route.takes_key:
        schema = {"type": "string", "pattern": "^[!-~]{1,200}$"}
        found.append({"in": "header", "name": "Idempotency-Key", "schema": schema})
    if route.takes_version:
        schema = {"type": "string", "pattern": r'^("[0-9]{1,15}"|\*)$'}
        found.append({"in": "header", "name": "If-Match", "schema": schema})
    return found


def openapi_document(routes: Iterable[ApiRoute]) -> JsonObject:
    """The OpenAPI document of some routes."""
    from passdown.core.intake import handoff_schema

    paths: JsonObject = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _described_route(route)
    handoff = handoff_schema()
    inner = handoff.pop("$defs", {})
    moved = _moved_to_components({"Handoff": handoff, **inner})
    return {
        "openapi": "3.1.0",
        "info": {"title": "Passdown", "description": DESCRIPTION, "version": __version__},
        "paths": paths,
        "components": {"schemas": {**COMPONENTS, **moved}, "securitySchemes": SECURITY},
    }


def _moved_to_components(value: Any) -> Any:
    """A schema whose definitions stand among the components."""
    if isinstance(value, dict):
        return {name: _moved_to_components(entry) for name, entry in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [_moved_to_components(entry) for entry in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, str) and value.startswith("#/$defs/"):
        return value.replace("#/$defs/", "#/components/schemas/")
    return value

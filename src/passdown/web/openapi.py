"""The OpenAPI document, made from the routes, and short ways to write JSON Schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown import __version__
from passdown.core.codec import schema_of
from passdown.core.names import MAX_KEY
from passdown.errors import Problem
from passdown.web.responses import PROBLEM_MEDIA, STATUSES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from passdown.core.types import JsonObject
    from passdown.web.requests import ApiRoute


Schema = dict[str, Any]

MAX_NUMBER = 2**62
MAX_QUERY = 4_096
MAX_QUERY_ENTRIES = 100
MAX_ENTRIES = 10_000


def string(description: str = "", **limits: int) -> Schema:
    """A text."""
    return _described({"type": "string", **limits}, description)


def choice(choices: Sequence[str]) -> Schema:
    """One of some words."""
    return {"type": "string", "enum": list(choices)}


def integer(description: str = "", least: int = -MAX_NUMBER, most: int = MAX_NUMBER) -> Schema:
    """A whole number within limits."""
    return _described({"type": "integer", "minimum": least, "maximum": most}, description)


def object_schema(
    properties: Mapping[str, Schema], required: Sequence[str] = (), *, is_open: bool = False
) -> Schema:
    """An object; one that `is_open` may have fields that aren't listed."""
    found: Schema = {"type": "object", "properties": dict(properties)}
    if required:
        found["required"] = list(required)
    return found if is_open else {**found, "additionalProperties": False}


def answer(**properties: Schema) -> Schema:
    """An object of an answer, which has at least these fields."""
    return object_schema(properties, list(properties), is_open=True)


def _described(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description} if description else schema


LIMIT = integer("how many at most", 1, 1_000)
CURSOR = {
    "type": "string",
    "pattern": "^[0-9]{1,18}$",
    "description": "from `next` of the part before; opaque",
}
CLIENT_FILES: Schema = {
    "type": "array",
    "description": "files that the body names, as they are where it comes from; without a hash: "
    "not there. Left out, the server looks at its own disk",
    "maxItems": MAX_ENTRIES,
    "items": object_schema(
        {
            "path": string("relative to the project", maxLength=1_024),
            "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
            "size_bytes": integer(least=0),
            "problem": object_schema(
                {
                    "code": string("why the file can't be taken", maxLength=40),
                    "message": string(maxLength=2_048),
                    "expected": string(maxLength=200),
                },
                ["code", "message"],
            ),
        },
        ["path"],
    ),
}

CLIENT_PROFILE: Schema = {
    **object_schema(
        {
            "name": string(maxLength=64),
            "text": string("the whole file"),
            "path": string("where it is", maxLength=1_024),
            "problems": {
                "type": "array",
                "maxItems": 100,
                "items": object_schema(
                    {"path": string(), "code": string(), "message": string()},
                    ["path", "code", "message"],
                    is_open=True,
                ),
            },
        },
        ["name", "text"],
    ),
    "type": ["object", "null"],
    "description": "of the agent, on the client's machine; null says that it has none there",
}

_COMMON_STATUSES = (400, 401, 403, 404, 405, 421, 422, 429, 503)
_BODY_STATUSES = (408, 409, 413, 415)
SECURITY = {"token": {"type": "http", "scheme": "bearer", "description": "passdown token new"}}
DESCRIPTION = (
    "Handoffs, decisions and knowledge of agents. Every answer of a task has its version as ETag; "
    "writes take If-Match (412 with both versions where the task has moved on) and "
    "Idempotency-Key (the same key gives the same record). Errors are problem details with every "
    "problem at once. An agent writes as itself, whatever a body claims."
)


def openapi_document(routes: Iterable[ApiRoute], definitions: JsonObject) -> JsonObject:
    """The OpenAPI document of some routes and of the definitions that their schemas refer to."""
    from passdown.core.intake import handoff_schema

    paths: JsonObject = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _described_route(route)
    handoff = handoff_schema()
    schemas = {"Handoff": handoff, **handoff.pop("$defs", {}), **definitions}
    schemas["ProblemDetails"] = _problem_details(schemas)
    return _moved_to_components(
        {
            "openapi": "3.1.0",
            "info": {"title": "Passdown", "description": DESCRIPTION, "version": __version__},
            "paths": paths,
            "components": {"schemas": schemas, "securitySchemes": SECURITY},
        }
    )


def _problem_details(schemas: JsonObject) -> Schema:
    texts = ("type", "title", "detail", "code", "next_step")
    found = answer(status={"type": "integer"}, **{name: {"type": "string"} for name in texts})
    found["properties"]["problems"] = {"type": "array", "items": schema_of(Problem, schemas)}
    return found


def _moved_to_components(value: Any) -> Any:
    """A document whose definitions are among the components."""
    if isinstance(value, dict):
        return {name: _moved_to_components(entry) for name, entry in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [_moved_to_components(entry) for entry in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, str) and value.startswith("#/$defs/"):
        return value.replace("#/$defs/", "#/components/schemas/")
    return value


def _described_route(route: ApiRoute) -> JsonObject:
    parameters = [
        *(_parameter("path", name, schema) for name, schema in route.parameters.items()),
        *(_parameter("query", name, schema) for name, schema in route.query.items()),
        *_headers(route),
    ]
    found: JsonObject = {
        "tags": [route.path.split("/")[2].partition(".")[0]],
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
    problem = {PROBLEM_MEDIA: {"schema": {"$ref": "#/$defs/ProblemDetails"}}}
    content: JsonObject = {media: {"schema": _text_or_bytes(media)} for _, media in route.media}
    if not content:
        content = {"application/json": {"schema": route.result}}
    found: JsonObject = {str(route.status): {"description": route.summary, "content": content}}
    statuses = [*_COMMON_STATUSES, *(_BODY_STATUSES if route.body is not None else ())]
    statuses += [412] if route.takes_version else []
    for status in statuses:
        found[str(status)] = {"description": STATUSES[status][0], "content": problem}
    if route.method == "GET":
        found["304"] = {"description": "What If-None-Match names still holds"}
    return found


def _text_or_bytes(media: str) -> JsonObject:
    if media == "application/json":
        return {"type": "object"}
    return {"type": "string", **({} if media.startswith("text/") else {"format": "binary"})}


def _parameter(where: str, name: str, schema: JsonObject) -> JsonObject:
    is_required = where == "path" or schema.get("required") is True
    spelled = {key: value for key, value in schema.items() if key != "required"}
    return {"in": where, "name": name, "required": is_required, "schema": spelled}


def _headers(route: ApiRoute) -> list[JsonObject]:
    patterns = {
        "Idempotency-Key": f"^[ -~]{{1,{MAX_KEY}}}$" if route.takes_key else "",
        "If-Match": r'^("[0-9]{1,15}"|\*)$' if route.takes_version else "",
    }
    return [
        {"in": "header", "name": name, "schema": {"type": "string", "pattern": pattern}}
        for name, pattern in patterns.items()
        if pattern
    ]

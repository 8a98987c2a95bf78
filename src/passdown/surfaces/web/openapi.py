"""The published description of the API, from the rows of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.surfaces.web.problems import MEDIA, TITLES
from passdown.surfaces.web.schemas import COMPONENTS

if TYPE_CHECKING:
    from passdown.surfaces.web.operations import Operation

Document = dict[str, Any]

_ALWAYS = (400, 401, 403, 404, 405, 421, 422, 429, 503)
_OF_WRITES = (408, 409, 413, 415)
SECURITY = {"token": {"type": "http", "scheme": "bearer", "description": "passdown token new"}}
DESCRIPTION = (
    "What agents hand on, decided and learned. Every answer of a task has its version as ETag; "
    "writes take If-Match (412 with both versions where the task has moved on) and "
    "Idempotency-Key (the same key gives the same record). Errors are problem details with every "
    "problem at once. An agent writes as itself, whatever a body claims."
)


def extra_of(operation: Operation) -> Document:
    """What FastAPI can't know of a row: its parameters, its body, and that it needs a token."""
    parameters = [
        *(_parameter("path", name, schema) for name, schema in operation.parameters.items()),
        *(_parameter("query", name, schema) for name, schema in operation.query.items()),
        *_headers(operation),
    ]
    found: Document = {"parameters": parameters, "security": [{"token": []}]}
    if operation.body is not None:
        content = {"application/json": {"schema": operation.body}}
        found["requestBody"] = {"required": True, "content": content}
    return found


def responses_of(operation: Operation) -> dict[int | str, Document]:
    """The answers of a row by status."""
    problem = {MEDIA: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}}
    statuses = [*_ALWAYS, *(_OF_WRITES if operation.body is not None else ())]
    statuses += [412] if operation.takes_version else []
    found: dict[int | str, Document] = {
        status: {"description": TITLES[status], "content": problem} for status in statuses
    }
    content = {media: {"schema": schema} for media, schema in _content(operation).items()}
    found[operation.status] = {"description": operation.summary, "content": content}
    if operation.method == "GET":
        found[304] = {"description": "What If-None-Match names still holds"}
    return found


def _content(operation: Operation) -> Document:
    others = {media: _text_or_bytes(media) for media in operation.media}
    return {**others, **({"application/json": operation.answer} if operation.answer else {})}


def _text_or_bytes(media: str) -> Document:
    return {"type": "string", **({} if media.startswith("text/") else {"format": "binary"})}


def _parameter(where: str, name: str, schema: Document) -> Document:
    is_required = where == "path" or schema.get("required") is True
    spelled = {key: value for key, value in schema.items() if key != "required"}
    return {"in": where, "name": name, "required": is_required, "schema": spelled}


def _headers(operation: Operation) -> list[Document]:
    found: list[Document] = []
    if operation.takes_key:
        schema = {"type": "string", "pattern": "^[!-~]{1,200}$"}
        found.append({"in": "header", "name": "Idempotency-Key", "schema": schema})
    if operation.takes_version:
        schema = {"type": "string", "pattern": r'^("[0-9]{1,15}"|\*)$'}
        found.append({"in": "header", "name": "If-Match", "schema": schema})
    return found


def completed(document: Document) -> Document:
    """FastAPI's description with our components."""
    from passdown.model.intake import handoff_schema

    handoff = handoff_schema()
    inner = handoff.pop("$defs", {})
    moved = _moved({"Handoff": handoff, **inner})
    parts = document.setdefault("components", {})
    parts["schemas"] = {**COMPONENTS, **moved}
    parts["securitySchemes"] = SECURITY
    return document


def _moved(value: Any) -> Any:
    """A schema whose definitions stand among the components."""
    if isinstance(value, dict):
        return {name: _moved(entry) for name, entry in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [_moved(entry) for entry in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, str) and value.startswith("#/$defs/"):
        return value.replace("#/$defs/", "#/components/schemas/")
    return value

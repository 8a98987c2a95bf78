"""What answers where a call of the operation isn't enough, and what only a server offers.

A function here has the name of its operation, with `_` for a dot. It is called with the request and
its arguments, and gives a value, which is sent as JSON, or an `ApiResult`.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, cast

from passdown.core.codec import encode
from passdown.core.intake import read_handoff
from passdown.core.record import Head
from passdown.core.types import JsonObject
from passdown.errors import InvalidInput, NotFound, Problem
from passdown.knowledge.graph import ended_early
from passdown.web.requests import ApiRequest
from passdown.workspace.maintenance import BundleImport, import_data
from passdown.workspace.streams import READ_BY_ALL, WorkspaceStreams


def handoff_of_caller(
    request: ApiRequest, handoff: Any, fields: JsonObject
) -> tuple[Any, JsonObject]:
    """A handoff, and what was given beside it, in the name of the token's holder, unless the token
    speaks for others; from the version that a header names.
    """
    if request.caller.may("others") and request.expect_version is None:
        return handoff, fields
    given = read_handoff(handoff, fields)
    plain = dict(given.data)
    if request.expect_version is not None:
        plain["expect_version"] = request.expect_version
    if not request.caller.may("others"):
        plain["from_agent"] = request.author("from_agent", plain.get("from_agent"))
        if isinstance(plain.get("decisions"), list):
            entries = cast("list[Any]", plain["decisions"])
            plain["decisions"] = [decision_of_caller(request, entry) for entry in entries]
    return given._replace(data=plain), {}


def decision_of_caller(request: ApiRequest, entry: Any) -> Any:
    """A decision without the name of somebody else."""
    if not isinstance(entry, dict):
        return entry
    fields = cast("JsonObject", entry)
    if fields.get("agent", "") in ("", None, request.caller.name):
        return fields
    request.note_claim("decisions", fields["agent"])
    return {name: value for name, value in fields.items() if name != "agent"}


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
    """The heads of streams of runs, express items and agents.

    Args:
        prefix: run/, express/ or agent/, and a name.
    """
    return WorkspaceStreams(request.workspace).streams(_readable_stream(prefix))


def stream_records(
    request: ApiRequest, /, *, stream: str, limit: int = 100, cursor: str = "0"
) -> JsonObject:
    """The records of one of these streams, as they were hashed.

    Args:
        stream: run/, express/ or agent/, and a name.
    """
    after = int(cursor)
    found = WorkspaceStreams(request.workspace).records(_readable_stream(stream), after)
    items = [{**one._asdict(), "body": one.body.decode()} for one in found[:limit]]
    following = str(found[limit - 1].position) if len(found) > limit else None
    return {"items": items, "next": following}


def _readable_stream(stream: str) -> str:
    if stream.startswith(READ_BY_ALL):
        return stream
    raise NotFound(
        f"there is no stream {stream[:80]!r} to be read here",
        next_step=f"These can be: {', '.join(READ_BY_ALL)}.",
    )

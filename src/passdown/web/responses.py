"""Responses: JSON, files, ETags, and errors as problem details (RFC 9457)."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from starlette.background import BackgroundTask
from starlette.responses import Response, StreamingResponse

from passdown.core.text import visible
from passdown.errors import (
    Conflict,
    Damaged,
    GateRefused,
    GitError,
    IntegrityViolation,
    InvalidInput,
    KeyReused,
    LaneFull,
    MissingExtra,
    NotAllowed,
    NotFound,
    PassdownError,
    RateLimited,
    StoreBusy,
    StoreError,
)
from passdown.web.pages.layout import CONTENT_POLICY, error_page

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from starlette.requests import Request

    from passdown.web.requests import ApiRequest, ApiResult, ApiRoute


PROBLEM_MEDIA = "application/problem+json"

_STATUSES: tuple[tuple[type[PassdownError], int], ...] = (
    (InvalidInput, 422),
    (NotFound, 404),
    (Conflict, 409),
    (KeyReused, 409),
    (GateRefused, 409),
    (IntegrityViolation, 409),
    (NotAllowed, 403),
    (RateLimited, 429),
    (LaneFull, 503),
    (StoreError, 503),
    (MissingExtra, 501),
    (GitError, 409),
    (Damaged, 500),
)
_BY_CODE = {"no_token": 401, "other_host": 421, "too_large": 413, "timeout": 408}
STATUSES = {
    400: ("Malformed request", "Send what /api/openapi.json describes."),
    401: (
        "A token is needed",
        "Send one as Authorization: Bearer TOKEN; passdown token new makes one.",
    ),
    403: ("Not allowed", "Ask the administrator of the server; passdown token new makes tokens."),
    404: ("Not found", "See /api/openapi.json for addresses, and the lists for what there is."),
    405: ("Method not allowed", "Use a method of the header Allow."),
    408: ("The request took too long", "Send it again, faster or less of it."),
    409: ("Conflict with the current state", "Read the current state, then decide again."),
    412: ("The task has changed", "Read what changed, then write from the new version."),
    413: ("Too large", "Send less at once."),
    415: ("Not JSON", "Send JSON as application/json."),
    421: ("Unknown host name", "Use the address that passdown serve printed."),
    422: ("Invalid input", "Look at what was sent, and at /api/openapi.json."),
    429: ("Too many requests", "Wait as long as Retry-After says, then ask again."),
    500: ("Internal error", "Tell the administrator of the server: its log has more."),
    501: ("Not installed", "The administrator of the server can install what is named."),
    503: ("Not available", "Try again a little later, a write with the same key."),
}
"""Titles by status, and next steps for errors that have none of their own."""
_FIX_PROBLEMS = "Fix what problems lists, then send it again."


def status_of(error: PassdownError, *, has_condition: bool = False) -> int:
    """The status of an error; a stale version is 412 where the request had a condition."""
    if error.code in _BY_CODE:
        return _BY_CODE[error.code]
    if isinstance(error, Conflict) and has_condition:
        return 412
    if isinstance(error, Damaged) and error.problems[:1]:
        # Lost history is for a person to decide on; any other damage is the server's own.
        return 409 if error.problems[0].code == "ledger_behind" else 500
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def without_internals(error: PassdownError, request: str) -> PassdownError:
    """The same error for a client: a store's own message may name its address, its user and files
    of the server, so that stays in the log.
    """
    if not isinstance(error, StoreError):
        return error
    is_busy = isinstance(error, StoreBusy)
    said = "other writers kept the store busy" if is_busy else "the server can't use its store now"
    again = "Try again, a write with the same key"
    return type(error)(
        said, next_step=f"{again}; the log of the server has more about request {request}."
    )


def problem_document(error: PassdownError, status: int) -> dict[str, Any]:
    """An error as a problem document; control characters that a client sent are made visible."""
    document = error.to_dict()
    code, message = str(document.pop("error")), str(document.pop("message"))
    step = str(document["next_step"]) or (
        _FIX_PROBLEMS if document.get("problems") else STATUSES[status][1]
    )
    document["next_step"] = visible(step, keep_newlines=True)
    return {
        "type": f"urn:passdown:problem:{code}",
        "title": STATUSES[status][0],
        "status": status,
        "detail": visible(message, keep_newlines=True),
        "code": code,
        **document,
    }


def to_json(document: object) -> bytes:
    """A document as JSON that no browser takes for markup."""
    return escape_markup(json.dumps(document, ensure_ascii=True, separators=(",", ":"))).encode()


def escape_markup(text: str) -> str:
    """JSON with its angle brackets escaped; they only occur in strings."""
    return text.replace("<", "\\u003c").replace(">", "\\u003e")


_FILE_CHUNK = 1 << 18


def json_response(document: object, status: int = 200) -> Response:
    """A document as JSON."""
    return Response(to_json(document), status, media_type="application/json")


def problem_response(
    error: PassdownError, status: int, headers: Mapping[str, str] | None = None
) -> Response:
    """An error as a problem document."""
    body = to_json(problem_document(error, status))
    return Response(body, status, headers=headers, media_type=PROBLEM_MEDIA)


def html_response(text: str, status: int = 200) -> Response:
    """A page, with what it may load."""
    headers = {"Content-Security-Policy": CONTENT_POLICY}
    return Response(text, status, headers, media_type="text/html")


def html_error(problem: Response) -> Response:
    """A problem document as a page, with its other headers."""
    page = html_response(str(error_page(json.loads(bytes(problem.body)))), problem.status_code)
    own = ("content-type", "content-length")
    page.headers.update({k: v for k, v in problem.headers.items() if k not in own})
    return page


def to_response(
    operation: ApiRoute, call: ApiRequest, found: ApiResult, request: Request
) -> Response:
    """The response for a result: JSON, text, bytes or a file."""
    if found.file:
        return _file_response(found.file, found.media)
    if found.text is not None:
        media = f"{found.media}; charset=utf-8" if found.media.startswith("text/") else found.media
        is_json = found.media == "application/json"
        written = escape_markup(found.text) if is_json else found.text
        return Response(written.encode(), media_type=media)
    document = found.document
    if call.notes and isinstance(document, dict):
        notes = [note.to_dict() for note in call.notes]
        said: list[Any] = cast("dict[str, Any]", document).get("warnings", [])
        document = {**cast("dict[str, Any]", document), "warnings": [*said, *notes]}
    body = to_json(document)
    if found.version is None:
        status = found.status or operation.status
        return Response(body, status, media_type="application/json")
    return with_etag(request, body, f'"{found.version}"', operation.status)


def _file_response(path: str, media: str) -> Response:
    """A file that was made for this response. It is unlinked once it is open, so nothing is left of
    it however the response ends; where that can't be (Windows), it is removed at the end.
    """
    folder = os.path.dirname(path)
    file = open(path, "rb")  # noqa: SIM115 - closed when it has been read
    size = os.fstat(file.fileno()).st_size
    shutil.rmtree(folder, ignore_errors=True)
    return StreamingResponse(
        _file_chunks(file),
        headers={"Content-Length": str(size)},
        media_type=media,
        background=BackgroundTask(shutil.rmtree, folder, ignore_errors=True),
    )


def _file_chunks(file: BinaryIO) -> Generator[bytes]:
    with file:
        while piece := file.read(_FILE_CHUNK):
            yield piece


def with_etag(request: Request, body: bytes, etag: str, status: int = 200) -> Response:
    """A response with an ETag; 304 if the client already has it."""
    headers = {"ETag": etag, "Cache-Control": "private, no-cache"}
    if status == 200 and request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    return Response(body, status, headers=headers, media_type="application/json")

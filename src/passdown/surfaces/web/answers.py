"""Answers as they are sent: documents, texts, files made for one answer, and what may be kept."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from starlette.background import BackgroundTask
from starlette.responses import Response, StreamingResponse

from passdown.surfaces.web.problems import as_json, harmless

if TYPE_CHECKING:
    from collections.abc import Generator

    from starlette.requests import Request

    from passdown.surfaces.web.operations import Answer, Call, Operation

_PIECE = 1 << 18


def answered(operation: Operation, call: Call, found: Answer, request: Request) -> Response:
    """The answer of an operation, in the form that it has."""
    if found.file:
        return _file(found.file, found.media)
    if found.data is not None:
        return Response(found.data, media_type=found.media)
    if found.text is not None:
        media = f"{found.media}; charset=utf-8" if found.media.startswith("text/") else found.media
        is_json = found.media == "application/json"
        written = harmless(found.text) if is_json else found.text
        return Response(written.encode(), media_type=media)
    document = found.document
    if call.notes and isinstance(document, dict):
        notes = [note.as_document() for note in call.notes]
        said: list[Any] = cast("dict[str, Any]", document).get("warnings", [])
        document = {**cast("dict[str, Any]", document), "warnings": [*said, *notes]}
    body = as_json(document)
    if found.version is None:
        return Response(body, operation.status, media_type="application/json")
    return with_etag(request, body, f'"{found.version}"', operation.status)


def _file(path: str, media: str) -> Response:
    """A file that was made for this answer. It has no name any more once it is open, so nothing is
    left of it however the answer ends; where that can't be (Windows), it goes at the end.
    """
    folder = os.path.dirname(path)
    file = open(path, "rb")  # noqa: SIM115 - closed when it has been read
    size = os.fstat(file.fileno()).st_size
    shutil.rmtree(folder, ignore_errors=True)
    return StreamingResponse(
        _pieces(file),
        headers={"Content-Length": str(size)},
        media_type=media,
        background=BackgroundTask(shutil.rmtree, folder, ignore_errors=True),
    )


def _pieces(file: BinaryIO) -> Generator[bytes]:
    with file:
        while piece := file.read(_PIECE):
            yield piece


def with_etag(request: Request, body: bytes, etag: str, status: int = 200) -> Response:
    """An answer that a client may keep and ask about again; 304 where it still holds."""
    headers = {"ETag": etag, "Cache-Control": "private, no-cache"}
    if status == 200 and request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    return Response(body, status, headers=headers, media_type="application/json")

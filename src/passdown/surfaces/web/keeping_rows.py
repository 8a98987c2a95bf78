"""Keeping the store: bundles, backups, heads that are compared, vectors, rebuilding, the doctor."""

from __future__ import annotations

import base64
import binascii
import os
import shutil
import tempfile
from typing import TYPE_CHECKING, Any

from passdown.errors import InvalidInput, Problem
from passdown.surfaces.web.operations import Answer, Operation, reading
from passdown.surfaces.web.reading_rows import verified
from passdown.surfaces.web.schemas import answer, record, text, truth, whole
from passdown.surfaces.web.task_rows import AGENT, TASK_ID
from passdown.workspace.bundling import bundle_of, import_data, imported_document

if TYPE_CHECKING:
    from passdown.surfaces.web.operations import Call
    from passdown.workspace import Workspace

Document = dict[str, Any]

ZIP = "application/zip"
SQLITE = "application/vnd.sqlite3"
_MOST_BASE64 = 2**30
_HEADS = {"type": ["object", "string"], "description": "as heads gave them, or that as text"}
_VERIFIED = answer("findings", ok={"type": "boolean"}, records={"type": "integer"})
_VECTORS = answer(embedder={"type": "string"}, done={"type": "integer"}, total={"type": "integer"})


def _bundle(workspace: Workspace, call: Call) -> Answer:
    return Answer(None, data=bundle_of(workspace, call.given.get("task")), media=ZIP)


def _import(workspace: Workspace, call: Call) -> Answer:
    try:
        data = base64.b64decode(call.given["bundle"], validate=True)
    except (binascii.Error, ValueError) as error:
        problem = Problem("bundle", "invalid_form", str(error), "a bundle's bytes in base64")
        raise InvalidInput("nothing was imported", [problem]) from error
    found = import_data(workspace, data, call.given.get("fork", ""), agent=call.author())
    return Answer(imported_document(found))


def _backup(workspace: Workspace, call: Call) -> Answer:
    """A copy in a folder of its own, which is gone once it was sent."""
    folder = tempfile.mkdtemp(prefix="passdown-backup-")
    path = os.path.join(folder, "ledger.db")
    try:
        workspace.backup(path)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return Answer(None, file=path, media=SQLITE)


def _verify(workspace: Workspace, call: Call) -> Answer:
    return Answer(verified(workspace.verify(call.given.pop("against"), **call.given)))


def _embedding(workspace: Workspace, call: Call) -> Answer:
    return Answer(workspace.embedding()._asdict())


def _embed(workspace: Workspace, call: Call) -> Answer:
    return Answer(workspace.embed(**call.given)._asdict())


def _reindex(workspace: Workspace, call: Call) -> Answer:
    found = workspace.reindex()
    return Answer({"records": found.records, "differing": list(found.differing)})


def _doctor(workspace: Workspace, call: Call) -> Answer:
    return Answer(workspace.doctor())


ROWS = (
    reading(
        "export_bundle",
        "/api/bundle",
        "A bundle of one task or of everything, with where the server's repository stands",
        _bundle,
        query={"task": TASK_ID},
        media=(ZIP,),
        is_heavy=True,
        tag="safety",
    ),
    Operation(
        "import_bundle",
        "POST",
        "/api/bundle",
        "admin",
        "Take in a bundle, verified, all or nothing; taken in again, it changes nothing",
        _import,
        body=record(
            {
                "bundle": text("its bytes in base64", most=_MOST_BASE64),
                "fork": text("a suffix, to keep both where histories differ", most=64),
                "agent": AGENT,
            },
            ["bundle"],
        ),
        answer=answer("added", "unchanged", "forked", "touched", "checkout", "warnings"),
        is_heavy=True,
        tag="safety",
    ),
    Operation(
        "backup",
        "GET",
        "/api/backup",
        "admin",
        "A copy of the whole store as one SQLite file, tokens' digests and all",
        _backup,
        media=(SQLITE,),
        is_heavy=True,
        tag="safety",
    ),
    Operation(
        "verify_against",
        "POST",
        "/api/verify",
        "read",
        "Whether the store says what was written, and still has what saved heads name",
        _verify,
        body=record({"against": _HEADS, "chain_only": truth()}, ["against"]),
        answer=_VERIFIED,
        is_heavy=True,
        tag="safety",
    ),
    reading(
        "embedding",
        "/api/embedding",
        "How far the vectors are that search by meaning goes by",
        _embedding,
        answer=_VECTORS,
        tag="safety",
    ),
    Operation(
        "embed",
        "POST",
        "/api/embedding",
        "admin",
        "Make the vectors that are missing, all or some",
        _embed,
        body=record({"limit": whole("0: all", most=10**9)}),
        answer=_VECTORS,
        is_heavy=True,
        tag="safety",
    ),
    Operation(
        "reindex",
        "POST",
        "/api/reindex",
        "admin",
        "Make every derived row again from the records",
        _reindex,
        body=record({}),
        answer=answer("differing", records={"type": "integer"}),
        is_heavy=True,
        tag="safety",
    ),
    Operation(
        "doctor",
        "GET",
        "/api/doctor",
        "admin",
        "Facts and findings about the workspace, with what to do about each",
        _doctor,
        answer=answer("facts", "findings", ok={"type": "boolean"}),
        is_heavy=True,
        tag="safety",
    ),
)

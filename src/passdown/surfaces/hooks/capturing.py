"""Keeping what a session did: from its transcript and from git, with no model asked."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from passdown.model.redaction import redact
from passdown.surfaces.hooks.sessions import (
    MAX_COMMANDS,
    MAX_FILES,
    MAX_SUBAGENTS,
    MAX_TODOS,
    Session,
)
from passdown.surfaces.hooks.transcripts import Document, Found, Known, look_at, read_piece
from passdown.surfaces.hosts.table import GEMINI
from passdown.workspace.repository import Changed, changed_since

if TYPE_CHECKING:
    from passdown.surfaces.hooks.calls import Call

_SAID = 500


def captured(session: Session, call: Call, root: str) -> tuple[Session, str]:
    """A session with what is new in its transcript, and why that couldn't be read, if so."""
    if not call.transcript:
        return session, ""
    read_to = session.read_to if call.transcript == session.transcript else 0
    try:
        data, end = read_piece(call.transcript, read_to)
    except (OSError, ValueError) as error:
        return session, f"transcript: {getattr(error, 'strerror', None) or error}"
    known = Known(session.open_calls, session.todos, session.used_tokens)
    found = look_at(data, end, known)
    session = _merged(session, found, root)._replace(transcript=call.transcript)
    if found.shrunk and call.host == GEMINI.name:
        # It announces a compaction at every turn, and says nowhere that there was one.
        session = session._replace(compacted=True)
    return session, ""


def subagent_captured(session: Session, call: Call, root: str) -> Session:
    """A session with what one of its subagents did and said at its end."""
    if call.agent_transcript:
        try:
            data, _ = read_piece(call.agent_transcript, 0)
        except (OSError, ValueError):
            data = b""
        found = look_at(data, session.read_to)._replace(todos=None, used_tokens=0)
        session = _merged(session, found, root)._replace(open_calls=session.open_calls)
    said = _clean(call.message)[:_SAID]
    entry = {"agent": call.agent_type[:64] or "subagent", "said": said}
    return session._replace(subagents=(*session.subagents, entry)[-MAX_SUBAGENTS:])


def _merged(session: Session, found: Found, root: str) -> Session:
    commands = [_clean_command(command) for command in found.commands]
    files = [*session.files, *_inside(root, found.files)]
    todos = session.todos
    if found.todos is not None:
        todos = tuple({**todo, "text": _clean(todo["text"])} for todo in found.todos[:MAX_TODOS])
    return session._replace(
        read_to=found.read_to,
        commands=(*session.commands, *commands)[-MAX_COMMANDS:],
        files=tuple(dict.fromkeys(files))[-MAX_FILES:],
        todos=todos,
        used_tokens=found.used_tokens or session.used_tokens,
        open_calls=tuple(_clean_command(call) for call in found.open_calls),
        understood=session.understood or found.understood,
    )


def _clean_command(command: Document) -> Document:
    texts = {k: _clean(str(command[k])) for k in ("command", "todo") if k in command}
    return {**command, **texts}


def _clean(text: str) -> str:
    """Text without secrets and without line breaks."""
    return redact(" ".join(text.split()))[0]


def _inside(root: str, paths: tuple[str, ...]) -> list[str]:
    """Paths relative to the project; those outside it, and our own, are left out."""
    real = os.path.realpath(root)
    found: list[str] = []
    for path in paths:
        full = os.path.normpath(os.path.join(root, path))
        for base in (root, real):
            if full.startswith(base + os.sep) and len(full) < 1_024:
                found.append(os.path.relpath(full, base).replace(os.sep, "/"))
                break
    return [path for path in found if not path.startswith(".passdown/")]


def changes(session: Session, root: str, timeout_s: float) -> list[Changed]:
    """The files that a session changed: as git has them, else those that its transcript edits."""
    found = changed_since(root, session.commit, session.started, timeout_s)
    if found is None:
        return [Changed(path, _change(root, path)) for path in session.files]
    known = {each.path for each in found}
    # What git doesn't look at (ignored files) was edited all the same.
    more = [path for path in session.files if path not in known and _is_new(root, path, session)]
    return [*found, *(Changed(path, "modify") for path in more)]


def _change(root: str, path: str) -> str:
    return "modify" if os.path.exists(os.path.join(root, path)) else "delete"


def _is_new(root: str, path: str, session: Session) -> bool:
    try:
        return os.stat(os.path.join(root, path)).st_mtime >= session.started
    except OSError:
        return False

"""A host's call as it arrives: its JSON read leniently into one shape. Pure.

Hosts add fields, leave them out and change their types between releases: what isn't understood
counts as left out.
"""

from __future__ import annotations

import json
import re
from typing import Any, cast

from passdown.model.values import NamedTuple

MAX_INPUT = 8_388_608
MAX_TEXT = 200_000

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")
_SESSION = ("session_id", "conversation_id", "sessionId", "sessionID", "thread_id")


class Call(NamedTuple):
    """One call. `session` is a name that is safe in paths, empty where the host gave none.

    `is_again`: the host is already going on because a stop was answered once.
    """

    host: str
    event: str
    session: str = ""
    cwd: str = ""
    transcript: str = ""
    source: str = ""
    prompt: str = ""
    message: str = ""
    agent_type: str = ""
    agent_transcript: str = ""
    is_again: bool = False
    is_aborted: bool = False


class Malformed(ValueError):
    """The input is no JSON object."""


def read_call(host: str, event: str, data: bytes) -> Call:
    """The call in a host's JSON, which may be empty; raises Malformed for what is no object."""
    if len(data) > MAX_INPUT:
        raise Malformed(f"more than {MAX_INPUT:,} bytes")
    try:
        text = data.decode("utf-8", "replace").removeprefix("\ufeff")
        found = json.loads(text.strip() or "{}")
    except (ValueError, RecursionError) as error:
        raise Malformed(str(error)[:200]) from error
    if not isinstance(found, dict):
        raise Malformed("no object")
    given = cast("dict[str, Any]", found)
    status = _text(given, "status")
    return Call(
        host=host,
        event=event,
        session=session_name(host, _text(given, *_SESSION)),
        cwd=_text(given, "cwd") or _first_root(given),
        transcript=_text(given, "transcript_path", "transcriptPath"),
        source=_text(given, "source", "trigger"),
        prompt=_text(given, "prompt")[:MAX_TEXT],
        message=_text(given, "last_assistant_message", "prompt_response", "text")[:MAX_TEXT],
        agent_type=_text(given, "agent_type", "subagent_type", "agentType"),
        agent_transcript=_text(given, "agent_transcript_path"),
        is_again=given.get("stop_hook_active") is True or _count(given.get("loop_count")) > 0,
        is_aborted=status in ("aborted", "error"),
    )


def session_name(host: str, id: str) -> str:
    """A session's id as a name of ours; one that couldn't be a file's name becomes its digest."""
    if not id:
        return ""
    if not _SAFE.fullmatch(id):
        import hashlib

        id = hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()[:32]
    return f"{host}-{id}"


def _text(given: dict[str, Any], *names: str) -> str:
    for name in names:
        value = given.get(name)
        if isinstance(value, str) and value:
            return value.encode("utf-8", "replace").decode()
    return ""


def _first_root(given: dict[str, Any]) -> str:
    roots = given.get("workspace_roots")
    first = cast("list[object]", roots)[0] if isinstance(roots, list) and roots else ""
    return first if isinstance(first, str) else ""


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0

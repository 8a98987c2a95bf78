"""Hook calls and responses as JSON: one parsed call, and a response in each host's form. Pure.

Hosts add fields, leave them out and change their types between releases: a field that isn't
understood is treated as missing.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, cast

from passdown.core.tokens import Counter, chars4, units
from passdown.core.values import NamedTuple
from passdown.hosts.definitions import (
    CURSOR,
    GEMINI,
    HOSTS,
    OPENCODE,
    PROMPT_SUBMIT,
    SESSION_START,
    SUBAGENT_START,
)

if TYPE_CHECKING:
    from passdown.hosts.definitions import Host


MAX_INPUT = 8_388_608
MAX_TEXT = 200_000

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")
_SESSION = ("session_id", "conversation_id", "sessionId", "sessionID", "thread_id")


class HookCall(NamedTuple):
    """One call. `session` is a name that is safe in paths, empty where the host gave none.

    `tools` are all tool calls of the session, from a host without a transcript. `is_again`: the
    host already continues because a stop was answered once.
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
    tools: tuple[dict[str, Any], ...] = ()
    is_again: bool = False
    is_aborted: bool = False


class MalformedInput(ValueError):
    """The input is no JSON object."""


def parse_call(host: str, event: str, data: bytes) -> HookCall:
    """The call in a host's JSON, which may be empty; raises Malformed for what is no object."""
    if len(data) > MAX_INPUT:
        raise MalformedInput(f"more than {MAX_INPUT:,} bytes")
    try:
        text = data.decode("utf-8", "replace").removeprefix("\ufeff")
        found = json.loads(text.strip() or "{}")
    except (ValueError, RecursionError) as error:
        raise MalformedInput(str(error)[:200]) from error
    if not isinstance(found, dict):
        raise MalformedInput("no object")
    given = cast("dict[str, Any]", found)
    status = _text_field(given, "status")
    return HookCall(
        host=host,
        event=event,
        session=session_name(host, _text_field(given, *_SESSION)),
        cwd=_text_field(given, "cwd") or _first_root(given),
        transcript=_text_field(given, "transcript_path", "transcriptPath"),
        source=_text_field(given, "source", "trigger"),
        prompt=_text_field(given, "prompt")[:MAX_TEXT],
        message=_text_field(given, "last_assistant_message", "prompt_response", "text")[:MAX_TEXT],
        agent_type=_text_field(given, "agent_type", "subagent_type", "agentType"),
        agent_transcript=_text_field(given, "agent_transcript_path"),
        tools=tuple(_objects_in(given, "tools")),
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


def _text_field(given: dict[str, Any], *names: str) -> str:
    for name in names:
        value = given.get(name)
        if isinstance(value, str) and value:
            return value.encode("utf-8", "replace").decode()
    return ""


def _objects_in(given: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = _list_field(given, name)
    return [cast("dict[str, Any]", each) for each in found if isinstance(each, dict)]


def _list_field(given: dict[str, Any], name: str) -> list[object]:
    value = given.get(name)
    return cast("list[object]", value) if isinstance(value, list) else []


def _first_root(given: dict[str, Any]) -> str:
    roots = [each for each in _list_field(given, "workspace_roots") if isinstance(each, str)]
    return roots[0] if roots else ""


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


_SPARE = 50
_PER_TOKEN = 3
_CONTEXT_EVENTS = (SESSION_START, PROMPT_SUBMIT, SUBAGENT_START)


class HookResponse(NamedTuple):
    """What a hook has to say: context for the agent, or a request that holds a stop up once.

    `about` says in a few words what it is, for the log.
    """

    context: str = ""
    request: str = ""
    about: str = ""


def response_text(host: str, event: str, answer: HookResponse) -> str:
    """The answer as the host reads it from standard output; empty where silence is understood."""
    known = HOSTS[host]
    document = _document(known, event, answer)
    if not document:
        # Gemini CLI and Cursor read standard output as JSON, whatever it is.
        return "{}\n" if known in (GEMINI, CURSOR, OPENCODE) else ""
    return json.dumps(document) + "\n"


def _document(host: Host, event: str, answer: HookResponse) -> dict[str, Any]:
    if host is OPENCODE:
        parts = {"context": answer.context, "message": answer.request}
        return {name: text for name, text in parts.items() if text}
    if answer.request:
        if host is CURSOR:
            return {"followup_message": answer.request}
        word = "deny" if host is GEMINI else "block"
        return {"decision": word, "reason": answer.request}
    if not answer.context or event not in _CONTEXT_EVENTS:
        return {}
    if host is CURSOR:
        return {"additional_context": answer.context} if event == SESSION_START else {}
    name = host.events.get(event, "")
    return {"hookSpecificOutput": {"hookEventName": name, "additionalContext": answer.context}}


def counter_for(host: str) -> Counter:
    """How a host's limit is counted; exact vocabularies take longer to load than a hook may."""
    if HOSTS[host].tokens:
        return Counter("tokens_at_most", tokens_at_most, _weight, _PER_TOKEN)
    return Counter("chars4", chars4, units, 4)


def tokens_at_most(text: str) -> int:
    """An upper estimate of a text's tokens that needs no vocabulary."""
    return -(-_weight(text) // _PER_TOKEN)


def _weight(text: str) -> int:
    plain = len(text) if text.isascii() else sum(char < "\x80" for char in text)
    return plain + 2 * _PER_TOKEN * (len(text) - plain)


def tokens_left(host: str, *texts: str) -> int:
    """How many tokens a host takes at once in addition to some texts (see `counter_for`)."""
    known = HOSTS[host]
    counter = counter_for(host)
    # A little is left over: the host counts as it likes, and the texts are joined.
    largest = known.tokens or known.characters // 4
    return largest - _SPARE - sum(counter.tokens(text) for text in texts)


def fits(host: str, text: str) -> bool:
    """Whether a host takes a text whole: others are put into a file and shown in part."""
    return tokens_left(host, text) >= 0

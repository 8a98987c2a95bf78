"""Answers in the one form that each host understands, within its limits. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from passdown.model.tokens import Counter, chars4, units
from passdown.model.values import NamedTuple
from passdown.surfaces.hosts.table import (
    CURSOR,
    GEMINI,
    HOSTS,
    OPENCODE,
    PRE_COMPACT,
    PROMPT_SUBMIT,
    SESSION_START,
    SUBAGENT_START,
    SUBAGENT_STOP,
)

if TYPE_CHECKING:
    from passdown.surfaces.hosts.table import Host

_SPARE = 50
_PER_TOKEN = 3
_TELLING = (SESSION_START, PROMPT_SUBMIT, SUBAGENT_START)


class Answer(NamedTuple):
    """What a hook has to say: context for the agent, or a request that holds a stop up once.

    `about` says in a few words what it is, for the log.
    """

    context: str = ""
    request: str = ""
    about: str = ""


def spelled(host: str, event: str, answer: Answer) -> str:
    """The answer as the host reads it from standard output; empty where silence is understood."""
    known = HOSTS[host]
    document = _document(known, event, answer)
    if not document:
        # Gemini CLI and Cursor read standard output as JSON, whatever it is.
        return "{}\n" if known in (GEMINI, CURSOR, OPENCODE) else ""
    return json.dumps(document) + "\n"


def _document(host: Host, event: str, answer: Answer) -> dict[str, Any]:
    if host is OPENCODE:
        parts = {"context": answer.context, "message": answer.request}
        return {name: text for name, text in parts.items() if text}
    if answer.request:
        if host is CURSOR:
            return {"followup_message": answer.request}
        word = "deny" if host is GEMINI else "block"
        return {"decision": word, "reason": answer.request}
    if not answer.context or event not in _TELLING:
        return {}
    if host is CURSOR:
        return {"additional_context": answer.context} if event == SESSION_START else {}
    name = host.events.get(event, "")
    return {"hookSpecificOutput": {"hookEventName": name, "additionalContext": answer.context}}


def can_tell(host: str, event: str) -> bool:
    """Whether a host takes context from us at an event."""
    known = HOSTS[host]
    if known is CURSOR:
        return event == SESSION_START
    if event == PRE_COMPACT:
        return known is OPENCODE
    return event in _TELLING and event in known.events


def can_ask(host: str, event: str) -> bool:
    """Whether a stop can be held up at an event: never a subagent's, whose parent goes on."""
    return event != SUBAGENT_STOP and event in HOSTS[host].events


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


def room_for(host: str, *texts: str) -> int:
    """How many tokens a host takes at once beside some texts, by the counter of `counter_for`."""
    known = HOSTS[host]
    counter = counter_for(host)
    # A little is left over: the host counts as it likes, and the texts are joined.
    largest = known.tokens or known.characters // 4
    return largest - _SPARE - sum(counter.tokens(text) for text in texts)


def fits(host: str, text: str) -> bool:
    """Whether a host takes a text whole: others are put into a file and shown in part."""
    return room_for(host, text) >= 0

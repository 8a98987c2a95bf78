"""Messages since a handoff, in the shapes of OpenAI and Anthropic.

Chat Completions (`tool_calls`, role `tool`), Responses (`function_call`, `function_call_output`)
and Anthropic (blocks `tool_use`, `tool_result`) are understood, also mixed. Nothing is changed in
place.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.tools.briefs import is_brief, last_in_a_row

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from passdown.core.types import JsonObject

_HANDOFF_TOOL = re.compile(r"handoff|hand_off|transfer_to_.+|handoff_to_.+")
_CALLS = ("function_call", "tool_use")
_RESULTS = ("function_call_output", "tool_result")


class Part(NamedTuple):
    """A tool call, or with `is_result` the answer to one."""

    id: str
    name: str = ""
    is_result: bool = False


def parts_of(message: JsonObject) -> list[Part]:
    """The tool calls and results in a message."""
    if message.get("role") == "tool":
        return [Part(str(message.get("tool_call_id", "")), is_result=True)]
    entries = [message, *_objects(message.get("tool_calls")), *_objects(message.get("content"))]
    return [part for part in map(_part, entries) if part]


def _objects(value: object) -> list[JsonObject]:
    listed = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("JsonObject", each) for each in listed if isinstance(each, dict)]


def _part(entry: JsonObject) -> Part | None:
    kind = entry.get("type")
    if kind in _RESULTS:
        return Part(str(entry.get("tool_use_id") or entry.get("call_id", "")), is_result=True)
    function = entry.get("function")
    if kind in _CALLS or isinstance(function, dict):
        named = cast("JsonObject", function) if isinstance(function, dict) else entry
        call_id = entry.get("call_id") or entry.get("id", "")
        return Part(str(call_id), str(named.get("name", "")))
    return None


def handoff_place(
    messages: Sequence[JsonObject], is_handoff: Callable[[str], object] | None = None
) -> int | None:
    """How many messages there are up to the last answer to a handoff; None without one.

    `is_handoff` says of a tool's name whether it hands off; by default `handoff`,
    `transfer_to_NAME` and `handoff_to_NAME` do.
    """
    hands_off = is_handoff or _HANDOFF_TOOL.fullmatch
    calls = {part.id for each in messages for part in parts_of(each) if hands_off(part.name)}
    for place in range(len(messages), 0, -1):
        if any(part.is_result and part.id in calls for part in parts_of(messages[place - 1])):
            return place
    return None


def paired(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """Messages in which each tool call has its result and each result its call.

    A call or a result whose other half is missing is left out; words never are.
    """
    calls = {part.id for each in messages for part in parts_of(each) if not part.is_result}
    results = {part.id for each in messages for part in parts_of(each) if part.is_result}
    cut = (_with_parts(each, calls & results) for each in messages)
    return [each for each in cut if each is not None]


def _with_parts(message: JsonObject, kept: Collection[str]) -> JsonObject | None:
    """The message with those calls and results alone; None where nothing of it is left."""
    found = parts_of(message)
    if all(part.id in kept for part in found):
        return message
    left = dict(message)
    for name in ("tool_calls", "content"):
        if isinstance(message.get(name), list):
            left[name] = [each for each in message[name] if _is_kept(each, kept)]
    if not left.get("tool_calls"):
        left.pop("tool_calls", None)
    is_part = message.get("role") == "tool" or message.get("type") in (*_CALLS, *_RESULTS)
    return None if is_part or not (left.get("content") or left.get("tool_calls")) else left


def _is_kept(entry: object, kept: Collection[str]) -> bool:
    part = _part(cast("JsonObject", entry)) if isinstance(entry, dict) else None
    return part is None or part.id in kept


def chat_messages(
    role: str,
    text: str,
    calls: Iterable[tuple[str, str, object]] = (),
    results: Iterable[tuple[str, str, str]] = (),
) -> list[JsonObject]:
    """What was said at once, as Chat Completions has it: results of tools, then words and calls.

    A call is its id, the tool's name and the arguments; a result is the id, the name and the text.
    """
    asked = [
        {"id": call, "type": "function"}
        | {"function": {"name": name, "arguments": _json_text(arguments or {})}}
        for call, name, arguments in calls
    ]
    answered: list[JsonObject] = [
        {
            "role": "tool",
            "tool_call_id": call,
            **({"name": name} if name else {}),
            "content": answer,
        }
        for call, name, answer in results
    ]
    said: JsonObject = {"role": role, "content": text} | ({"tool_calls": asked} if asked else {})
    return [*answered, *([said] if text or asked else [])]


def _json_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def is_request(message: JsonObject) -> bool:
    """Whether a message is a person's words, not the answer of a tool."""
    return message.get("role") == "user" and not parts_of(message)


def last_requests(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """What people said last: their messages in a row, without briefs, which come in that role."""
    return last_in_a_row(messages, lambda m: is_request(m) and not is_brief(message_text(m)))


def message_text(message: JsonObject) -> str:
    """A message's words; content in blocks as their texts, or as JSON if it has other ones."""
    content: Any = message.get("content")
    if isinstance(content, str):
        return content
    blocks = _objects(content)
    texts = [text for each in blocks if isinstance(text := each.get("text"), str)]
    is_text = texts and len(texts) == len(blocks)
    return "\n".join(texts) if is_text else json.dumps(content, ensure_ascii=False)


def since_handoff(
    messages: Sequence[JsonObject],
    brief: str,
    *,
    place: int | None = None,
    is_handoff: Callable[[str], object] | None = None,
) -> list[JsonObject]:
    """The messages for a receiver: the brief, a person's last words before the handoff, then what
    came since, with tool calls and results in pairs.

    `place` is how many messages came before the receiver took over; by default, those up to the
    last handoff (`handoff_place`). Without a handoff, the messages as they are. A system message at
    the start stays.
    """
    place = handoff_place(messages, is_handoff) if place is None else place
    if place is None:
        return list(messages)
    system = [each for each in messages[:1] if each.get("role") in ("system", "developer")]
    before, since = messages[len(system) : place], messages[place:]
    asked = [] if since and is_request(since[0]) else last_in_a_row(before, is_request)
    return [*system, {"role": "user", "content": brief}, *asked, *paired(since)]

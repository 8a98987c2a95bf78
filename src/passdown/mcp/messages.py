"""JSON-RPC 2.0: bytes to messages, and the answer to what is none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.core.types import JsonObject

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020
UNSUPPORTED_VERSION = -32022

_NOT_JSON = "this is no JSON; a message is one line of it, in UTF-8"
_NO_MESSAGE = "this is JSON, but no request, notification or response of JSON-RPC 2.0"
_LONE_SURROGATE = "a text in it holds half a character (a lone surrogate)"


def as_object(value: object) -> JsonObject:
    """A JSON object; anything else is an empty one."""
    return cast("JsonObject", value) if isinstance(value, dict) else {}


class RpcError(Exception):
    """An error as the protocol has it."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message[:2_000], data

    def to_dict(self) -> JsonObject:
        """The `error` member of a response."""
        found: JsonObject = {"code": self.code, "message": self.message}
        return found if self.data is None else {**found, "data": self.data}


def unexpected(error: Exception) -> RpcError:
    """A fault of ours: one bad call must not end the server, which serves others."""
    return RpcError(INTERNAL_ERROR, f"unexpected {type(error).__name__}: {str(error)[:500]}")


class NotAMessage(RpcError):
    """What came is no message. `id` is that of the request it was meant as, if it has one; a
    notification gets no response, whatever is wrong with it.
    """

    def __init__(self, code: int, message: str, meant: object) -> None:
        super().__init__(code, message)
        self.id = _usable_id(meant)
        self.is_notification = "method" in as_object(meant) and "id" not in as_object(meant)


class Message(NamedTuple):
    """A request; a notification, which has no `id`; or a response, which has no `method`."""

    id: int | str | None
    method: str
    params: JsonObject
    response: JsonObject

    @property
    def is_request(self) -> bool:
        """Whether somebody waits for the response."""
        return bool(self.method) and self.id is not None


def read_message(data: bytes, loads: Callable[[bytes], object] = json.loads) -> Message:
    """The one message in some bytes. Raises NotAMessage, also for what `loads` refuses."""
    try:
        found = loads(data)
    except (ValueError, RecursionError) as error:
        meant = _lenient(data)
        if _has_lone_surrogate(meant):
            raise NotAMessage(INVALID_REQUEST, _LONE_SURROGATE, meant) from None
        raise NotAMessage(PARSE_ERROR, f"{_NOT_JSON} ({str(error)[:200]})", meant) from None
    if b"\\u" in data and _has_lone_surrogate(found):
        raise NotAMessage(INVALID_REQUEST, _LONE_SURROGATE, found)
    message = as_object(found)
    if not _is_message(message):
        raise NotAMessage(INVALID_REQUEST, _NO_MESSAGE, found)
    params = message.get("params")
    return Message(
        message.get("id"),
        message.get("method", ""),
        cast("JsonObject", params) if params is not None else {},
        message if "method" not in message else {},
    )


def _is_message(found: JsonObject) -> bool:
    identity = found.get("id")
    is_id = _is_id(identity) or ("id" not in found and "method" in found)
    method: object = found.get("method")
    is_call = isinstance(method, str) and bool(method)
    is_response = "method" not in found and ("result" in found) != ("error" in found)
    has_params = isinstance(found.get("params", {}), dict) or found["params"] is None
    return found.get("jsonrpc") == "2.0" and is_id and has_params and (is_call or is_response)


def _is_id(value: object) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool)


def _usable_id(meant: object) -> int | str | None:
    """The id to answer with; one with half a character can't be written."""
    identity: object = as_object(meant).get("id")
    is_usable = _is_id(identity) and not _has_lone_surrogate(identity)
    return cast("int | str", identity) if is_usable else None


def _lenient(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _has_lone_surrogate(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    except RecursionError:
        return False
    return False


def response(identity: object, result: JsonObject | RpcError) -> JsonObject:
    """The response to a request."""
    if isinstance(result, RpcError):
        return {"jsonrpc": "2.0", "id": identity, "error": result.to_dict()}
    return {"jsonrpc": "2.0", "id": identity, "result": result}


def to_line(message: JsonObject) -> bytes:
    """A message as one line; what can't be written as UTF-8 is escaped."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def parameter(params: JsonObject, name: str, kind: type[Any], default: Any = None) -> Any:
    """A parameter of a request. Raises RpcError unless it has its type; `default` makes it
    optional.
    """
    value = params.get(name, default)
    if value is None and default is not None:
        return default
    if not isinstance(value, kind):
        words = {str: "a text", dict: "an object"}[kind]
        raise RpcError(INVALID_PARAMS, f"params: expected {words} as {name}")
    return value

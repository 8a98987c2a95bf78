"""A model that is a script, served on loopback in the dialects of four vendors.

It calls tools one after the other, as it is told to, then says that it is done. Whatever else it is
asked (a title, a summary), it says the same. One with a limit refuses every request after the
calls, as its vendor does when a plan is used up.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Generator

Document = dict[str, Any]
Called = tuple["Tool", Document] | None

DONE = "Handed off."
_USAGE = {"input_tokens": 10, "output_tokens": 5}


class Call(NamedTuple):
    """One tool call of the script: the end of the tool's name, and what it is given."""

    tool: str
    arguments: Document


class Tool(NamedTuple):
    """A tool that is offered; `namespace` is set where a dialect groups them."""

    name: str
    namespace: str = ""


class Model:
    """What the script does, where it is served, and every request that it got."""

    def __init__(self, *calls: Call, has_limit: bool = False) -> None:
        self.calls = calls
        self.has_limit = has_limit
        self.requests: list[tuple[str, Document]] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def heard(self) -> str:
        """Everything that it was ever told, as one text."""
        return "\n".join(json.dumps(body, ensure_ascii=False) for _, body in self.requests)

    @property
    def offered(self) -> list[list[str]]:
        """The tools that it could call, at each request."""
        return [[tool.name for tool in _tools(body.get("tools"))] for _, body in self.requests]

    def answer(self, path: str, body: Document) -> tuple[int, str, str]:
        """The status, type and text of an answer."""
        self.requests.append((path, body))
        if "count_tokens" in path or "countTokens" in path:
            return 200, *_json({"input_tokens": 10, "totalTokens": 10})
        for sign, speak in _DIALECTS.items():
            if sign in path:
                call = self._next(body)
                if call is None and self.has_limit and self._is_over(body):
                    return _LIMITS[sign][0], *_json(_LIMITS[sign][1])
                return 200, *speak(path, body, call)
        return 200, *_json({"data": [], "object": "list", "models": []})

    def _is_over(self, body: Document) -> bool:
        """Whether a conversation has all calls behind it."""
        text = json.dumps(body)
        return max(text.count(sign) for sign in _RESULTS) >= len(self.calls)

    def _next(self, body: Document) -> tuple[Tool, Document] | None:
        """The call that comes next; how many there were is told by the conversation itself."""
        offered = [*_tools(body.get("tools"))]
        text = json.dumps(body)
        waited = sum(text.count(sign) for sign, _ in _WAITS.values())
        done = max(text.count(sign) for sign in _RESULTS) - waited
        if done >= len(self.calls):
            return None
        call = self.calls[done]
        found = next((tool for tool in offered if tool.name.endswith(call.tool)), None)
        if found is not None:
            return found, call.arguments
        # Some hosts ask their model before every server has answered.
        waits = (tool for tool in offered if tool.name in _WAITS and waited < _MOST_WAITS)
        return next(((tool, _WAITS[tool.name][1]) for tool in waits), None)


_MOST_WAITS = 10
_WAITS: dict[str, tuple[str, Document]] = {
    "WaitForMcpServers": ('"name": "WaitForMcpServers", "input"', {}),
    "exec_command": ("sleep 2.5", {"cmd": "sleep 2.5"}),
}
"""Tools that a model waits with: how a call of each shows in a conversation, and its arguments."""

_RESULTS = ('"functionResponse"', '"function_call_output"', '"role": "tool"', '"tool_result"')


def _tools(tools: object, namespace: str = "") -> Generator[Tool]:
    """The tools that are offered, however deep a dialect keeps them."""
    if isinstance(tools, list):
        for tool in cast("list[object]", tools):
            yield from _tools(tool, namespace)
    elif isinstance(tools, dict):
        document = cast("Document", tools)
        if document.get("type") == "namespace":
            yield from _tools(document.get("tools"), document["name"])
            return
        if isinstance(document.get("name"), str):
            yield Tool(document["name"], namespace)
        for key in ("functionDeclarations", "function"):
            yield from _tools(document.get(key), namespace)


def _json(document: Document) -> tuple[str, str]:
    return "application/json", json.dumps(document)


def _events(*documents: Document, named: bool = True, end: str = "") -> tuple[str, str]:
    parts = [
        (f"event: {each['type']}\n" if named else "") + f"data: {json.dumps(each)}\n\n"
        for each in documents
    ]
    return "text/event-stream", "".join(parts) + end


def _gemini(path: str, _body: Document, call: Called) -> tuple[str, str]:
    part: Document = {"text": DONE}
    if call:
        part = {"functionCall": {"name": call[0].name, "args": call[1]}}
    answer: Document = {
        "candidates": [
            {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        ],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
    }
    return _events(answer, named=False) if "stream" in path else _json(answer)


def _responses(_path: str, _body: Document, call: Called) -> tuple[str, str]:
    item: Document = {
        "type": "message",
        "id": "m1",
        "role": "assistant",
        "content": [{"type": "output_text", "text": DONE}],
    }
    if call:
        tool, arguments = call
        item = {"type": "function_call", "id": "f1", "call_id": "c1", "name": tool.name}
        item |= {"namespace": tool.namespace} if tool.namespace else {}
        item["arguments"] = json.dumps(arguments)
    usage = {**_USAGE, "total_tokens": 15}
    return _events(
        {"type": "response.created", "response": {"id": "r1"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "r1", "usage": usage}},
    )


def _chat(_path: str, body: Document, call: Called) -> tuple[str, str]:
    message: Document = {"role": "assistant", "content": DONE}
    if call:
        function = {"name": call[0].name, "arguments": json.dumps(call[1])}
        called: Document = {"index": 0, "id": "c1", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [called]}
    end = "tool_calls" if call else "stop"
    head: Document = {"id": "r1", "created": 1, "model": "scripted"}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    if not body.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": end}
        return _json({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
    pieces: list[Document] = [
        {"index": 0, "delta": message, "finish_reason": None},
        {"index": 0, "delta": {}, "finish_reason": end},
    ]
    chunks: list[Document] = [
        {**head, "object": "chat.completion.chunk", "choices": [each]} for each in pieces
    ]
    chunks[-1]["usage"] = usage
    return _events(*chunks, named=False, end="data: [DONE]\n\n")


def _messages(_path: str, body: Document, call: Called) -> tuple[str, str]:
    block: Document = {"type": "text", "text": DONE}
    delta: Document = {"type": "text_delta", "text": DONE}
    opened: Document = {"type": "text", "text": ""}
    if call:
        count = json.dumps(body).count('"tool_result"')
        block = {"type": "tool_use", "id": f"toolu_{count}"}
        block |= {"name": call[0].name, "input": call[1]}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
        opened = {**block, "input": {}}
    end = "tool_use" if call else "end_turn"
    message: Document = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "scripted"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _USAGE,
    }
    if not body.get("stream"):
        return _json({**message, "content": [block], "stop_reason": end})
    stop = {"stop_reason": end, "stop_sequence": None}
    return _events(
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": opened},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    )


_DIALECTS = {
    "enerateContent": _gemini,
    "/responses": _responses,
    "/chat/completions": _chat,
    "/messages": _messages,
}

LIMIT = "You have reached your usage limit."
_GOOGLE_QUOTA = {
    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
    "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}],
}
_LIMITS: dict[str, tuple[int, Document]] = {
    "enerateContent": (
        429,
        {
            "error": {
                "code": 429,
                "message": LIMIT,
                "status": "RESOURCE_EXHAUSTED",
                "details": [_GOOGLE_QUOTA],
            }
        },
    ),
    "/responses": (429, {"error": {"type": "usage_limit_reached", "message": LIMIT}}),
    "/chat/completions": (402, {"error": {"type": "insufficient_quota", "message": LIMIT}}),
    "/messages": (400, {"type": "error", "error": {"type": "billing_error", "message": LIMIT}}),
}
"""How each vendor says that a plan is used up."""


@contextmanager
def served(*calls: Call, has_limit: bool = False) -> Generator[Model]:
    """The model, served on a free port of loopback."""
    with serving(Model(*calls, has_limit=has_limit)) as model:
        yield model


@contextmanager
def serving(model: Model) -> Generator[Model]:
    """A model of one's own, served on a free port of loopback."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers.get("content-length") or 0))
            self._reply(*model.answer(self.path, json.loads(data or b"{}")))

        def do_GET(self) -> None:
            self._reply(*model.answer(self.path, {}))

        def _reply(self, status: int, kind: str, text: str) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    model.port = server.server_port
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

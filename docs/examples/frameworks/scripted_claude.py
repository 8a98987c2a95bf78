"""Stands for Claude: a server on loopback that takes scripted turns and shows what it is given."""

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Turn = str | tuple[str, dict[str, Any]]
"""Words, or a tool and its arguments."""


def _events(turn: Turn, number: int) -> list[dict[str, Any]]:
    block: dict[str, Any]
    if isinstance(turn, str):
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": turn}
    else:
        name, arguments = turn
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "scripted"}
    message |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    stop = {"stop_reason": "end_turn" if isinstance(turn, str) else "tool_use"}
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": usage},
        {"type": "message_stop"},
    ]


@contextmanager
def scripted_claude(**turns: Sequence[Turn]) -> Generator[dict[str, str]]:
    """The environment for Claude Code; an agent's turns are found by `You are NAME.`"""
    waiting = {name: list(each) for name, each in turns.items()}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            name = next(each for each in waiting if f"You are {each}." in str(body.get("system")))
            said = body["messages"][0]["content"]
            text = said if isinstance(said, str) else said[0]["text"]
            print(f"{name} is given:\n{text.rstrip()}\n")
            events = _events(waiting[name].pop(0), sum(map(len, waiting.values())))
            sent = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(sent.encode())))
            self.end_headers()
            self.wfile.write(sent.encode())

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "ENABLE_TOOL_SEARCH": "false",
            "IS_SANDBOX": "1",
            "NO_PROXY": "127.0.0.1",
        }
    finally:
        server.shutdown()
        server.server_close()

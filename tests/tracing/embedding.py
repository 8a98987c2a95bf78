"""A program with a tracer provider of its own, run by a test: it uses a workspace, here and behind
a server, and prints the spans that were made.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import passdown
from passdown.workspace.tokens import Tokens
from tests.interfaces.web.asking import ask
from tests.serving import served

EXPORTER = InMemorySpanExporter()
TRACER = trace.get_tracer("program")
WAITING = 24
HANDOFF = {"task": "T-1", "from_agent": "planner", "to_agent": "coder", "outcome": "completed"}


def main(folder: str) -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
    trace.set_tracer_provider(provider)
    with passdown.open(folder) as workspace:
        workspace.create_task("T-1", title="Login", agent="planner")
        told = {"alone": _told()}
        with TRACER.start_as_current_span("own"):
            workspace.decide(task="T-1", agent="planner", summary="Cookies", rationale="r")
            workspace.recall("cookies", limit=1)
            workspace.set_status("T-1#d1", "reverted", agent="planner")
            workspace.hand_off(HANDOFF, key="once")
        told["own"] = _told()
        again = workspace.hand_off(HANDOFF, key="once")
        (logged, *_) = workspace.log("T-1", limit=1)
        kept = {**workspace.show("T-1#h1").to_dict()["trace"], "is_replay": again.is_replay}
        traces: list[Any] = [{**kept, "logged": logged.trace_id}]
        with served(workspace) as server:
            token = Tokens(workspace).new("coder", ("read", "write"), by="tests").token
            with passdown.open(server.url, token=token) as remote:
                remote.tasks()
                told["silent"] = _told()
                with TRACER.start_as_current_span("away"):
                    remote.warn("T-1", agent="coder", text="w")
                told["away"] = _told()
                with TRACER.start_as_current_span("handed"):
                    remote.hand_off(task="T-1", from_agent="coder", outcome="completed")
                told["handed"] = _told()
                traces.append(remote.show("T-1#h2").to_dict()["trace"])
            told["many"] = _many(server.port, token)
            told["streamed"] = _streamed(server.port, token)
            for path in ("/health", "/ready"):
                assert ask(server.port, "GET", path).status == 200
            told["watched"] = _told()
        os.environ["TRACEPARENT"] = f"00-{'a' * 32}-{'b' * 16}-01"
        workspace.hand_off(task="T-1", from_agent="coder", to_agent="qa", outcome="completed")
        traces.append(workspace.show("T-1#h3").to_dict()["trace"])
        assert workspace.verify().ok
    told["traces"] = traces
    sys.stdout.write(json.dumps(told) + "\n")


def _many(port: int, token: str) -> list[dict[str, Any]]:
    """Briefs that are asked for at once, until two are handed out together."""
    found: list[dict[str, Any]] = []

    def brief(_: int) -> int:
        return ask(port, "GET", "/api/tasks/T-1/brief", token=token).status

    for _ in range(20):
        with ThreadPoolExecutor(WAITING) as pool:
            assert set(pool.map(brief, range(WAITING))) == {200}
        found += _told()
        if any(span["links"] for span in found):
            break
    return found


def _streamed(port: int, token: str) -> list[dict[str, Any]]:
    """A stream that was listened to for a while, while something was recorded."""
    import http.client
    import time

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=240)
    headers = {"Authorization": f"Bearer {token}"}
    connection.request("GET", "/api/events?after=0", headers=headers)
    answer = connection.getresponse()
    assert b"created" in answer.read1(65_536) + answer.read1(65_536)
    time.sleep(1.5)
    answer.close()
    connection.close()
    ends = time.monotonic() + 240
    found = _told()
    while not any("events" in span["name"] for span in found) and time.monotonic() < ends:
        ask(port, "POST", "/api/warnings", token=token, body={"task": "T-1", "text": "w"})
        time.sleep(0.2)
        found += _told()
    return [span for span in found if span["name"] != "POST /api/warnings"]


def _told() -> list[dict[str, Any]]:
    found = [_plain(span) for span in EXPORTER.get_finished_spans()]
    EXPORTER.clear()
    return found


def _plain(span: ReadableSpan) -> dict[str, Any]:
    context = span.context
    assert context is not None
    return {
        "name": span.name,
        "trace": context.trace_id,
        "id": context.span_id,
        "parent": span.parent.span_id if span.parent else 0,
        "attributes": dict(span.attributes or {}),
        "links": [link.context.span_id for link in span.links],
    }


if __name__ == "__main__":
    main(sys.argv[1])

"""A collector of traces: OTLP over HTTP, read by the protocol's own definitions."""

from __future__ import annotations

import gzip
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

if TYPE_CHECKING:
    from collections.abc import Generator


class Span(NamedTuple):
    """A span as it arrived; ids in hex."""

    name: str
    trace: str
    id: str
    parent: str
    kind: str
    is_error: bool
    attributes: dict[str, Any]
    events: list[dict[str, Any]]
    links: list[str]
    ms: float


_KINDS = {1: "internal", 2: "server", 3: "client"}


class Collector:
    """What has arrived so far."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.resources: list[dict[str, Any]] = []
        self.raw: list[bytes] = []
        self.paths: set[str] = set()
        self.url = ""
        self._news = threading.Condition()

    def take(self, path: str, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        with self._news:
            self.paths.add(path)
            self.raw.append(body)
            for group in request.resource_spans:
                self.resources.append(_plain(group.resource.attributes))
                self.spans += [_span(each) for scope in group.scope_spans for each in scope.spans]
            self._news.notify_all()

    def named(self, name: str, count: int = 1) -> list[Span]:
        """Spans of a name, once there are so many."""

        def found() -> list[Span]:
            return [span for span in self.spans if span.name == name]

        with self._news:
            is_there = self._news.wait_for(lambda: len(found()) >= count, 30)
            assert is_there, (name, sorted(span.name for span in self.spans))
            return found()

    def children(self, parent: Span) -> list[Span]:
        return [span for span in self.spans if span.parent == parent.id]


def _span(given: Any) -> Span:
    return Span(
        given.name,
        given.trace_id.hex(),
        given.span_id.hex(),
        given.parent_span_id.hex(),
        _KINDS[given.kind],
        given.status.code == 2,
        _plain(given.attributes),
        [_plain(event.attributes) for event in given.events],
        [link.span_id.hex() for link in given.links],
        (given.end_time_unix_nano - given.start_time_unix_nano) / 1e6,
    )


def _plain(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


@contextmanager
def collecting() -> Generator[Collector]:
    """A collector on a port of its own, until the block ends."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            assert self.headers["Content-Type"] == "application/x-protobuf"
            collector.take(self.path, body)
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    collector.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

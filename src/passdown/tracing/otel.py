"""OpenTelemetry spans. Of an error they hold its code or type, never its message."""

from __future__ import annotations

import sys
import time
import traceback
from functools import cache
from typing import TYPE_CHECKING, Any, Self

from opentelemetry import context as contexts
from opentelemetry import propagate, trace

from passdown.errors import PassdownError
from passdown.tracing import Span, package_version

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping, Sequence

    from passdown.tracing import Attributes, Kind


_KINDS = {
    "internal": trace.SpanKind.INTERNAL,
    "server": trace.SpanKind.SERVER,
    "client": trace.SpanKind.CLIENT,
}
_SILENT = (trace.ProxyTracerProvider, trace.NoOpTracerProvider)


def has_provider() -> bool:
    """Whether this program has a provider, and not one that only stands in for it."""
    return not isinstance(trace.get_tracer_provider(), _SILENT)


@cache
def _tracer() -> trace.Tracer:
    """The tracer; asked for once there is a provider, which is set once."""
    return trace.get_tracer("passdown", package_version())


def current() -> trace.SpanContext | None:
    """The span that is active."""
    found = trace.get_current_span().get_span_context()
    return found if found.is_valid else None


def continued(carrier: Mapping[str, Any]) -> trace.SpanContext | None:
    """The span that a message says it was sent from."""
    texts = {name: value for name, value in carrier.items() if isinstance(value, str)}
    found = trace.get_current_span(propagate.extract(texts, contexts.Context()))
    known = found.get_span_context()
    return known if known.is_valid else None


def carry(carrier: MutableMapping[str, str]) -> None:
    """Add the active span to a message."""
    propagate.inject(carrier)


def ids() -> dict[str, str]:
    """The active span, as logs name it."""
    found = current()
    if found is None:
        return {}
    return {
        "trace_id": trace.format_trace_id(found.trace_id),
        "span_id": trace.format_span_id(found.span_id),
    }


class LiveSpan(Span):
    """A span, from the moment it is entered to the moment it is left.

    With `owners` it is part of the first one's trace and linked to the others; one that is None
    stands for no parent. Otherwise it is part of what is active.
    """

    def __init__(
        self,
        name: str,
        attributes: Attributes,
        *,
        kind: Kind = "internal",
        owners: Sequence[trace.SpanContext | None] | None = None,
        seconds_ago: float = 0.0,
    ) -> None:
        parent = None if owners is None else _context_of(owners[0])
        self._span = _tracer().start_span(
            name,
            context=parent,
            kind=_KINDS[kind],
            attributes=dict(attributes),
            links=[trace.Link(owner) for owner in (owners or ())[1:] if owner is not None],
            start_time=time.time_ns() - int(seconds_ago * 1e9) if seconds_ago else None,
        )

    def __enter__(self) -> Self:
        self._before = contexts.attach(trace.set_span_in_context(self._span))
        return self

    def __exit__(self, kind: object, error: object, place: object) -> None:
        contexts.detach(self._before)
        if isinstance(error, Exception):
            self._fail(error)
        self._span.end()

    def note(self, attributes: Attributes, *, name: str = "", error: str = "") -> None:
        """Add what became known meanwhile."""
        self._span.set_attributes(dict(attributes))
        if name:
            self._span.update_name(name)
        if error:
            self._span.set_attribute("error.type", error)
            self._span.set_status(trace.StatusCode.ERROR)

    def _fail(self, error: Exception) -> None:
        """Record an error. Its message may quote what somebody wrote, so it is left out; where a
        fault of ours happened is told by lines of code.
        """
        kind = f"{type(error).__module__}.{type(error).__qualname__}"
        is_meant = isinstance(error, PassdownError)
        told = {"exception.type": kind}
        if not is_meant:
            told["exception.stacktrace"] = "".join(traceback.format_tb(error.__traceback__))
        self._span.add_event("exception", told)
        self.note({}, error=error.code if is_meant else kind)


class NoActiveSpan(Span):
    """No span is active for as long as this lasts."""

    def __enter__(self) -> Self:
        self._before = contexts.attach(contexts.Context())
        return self

    def __exit__(self, kind: object, error: object, place: object) -> None:
        contexts.detach(self._before)


def _context_of(owner: trace.SpanContext | None) -> contexts.Context:
    empty = contexts.Context()
    if owner is None:
        return empty
    return trace.set_span_in_context(trace.NonRecordingSpan(owner), empty)


def send(exporter: str) -> str:
    """Send spans from now on, in batches from a thread of its own; what is left goes when the
    program ends. Returns a sentence if the variables can't be used. Raises ModuleNotFoundError
    without the SDK, which reads the other OTEL_* variables itself.
    """
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

    own = Resource.create({"service.name": "passdown", "service.version": package_version()})
    try:
        provider = TracerProvider(resource=own.merge(OTELResourceDetector().detect()))
        sender = OTLPSpanExporter() if exporter == "otlp" else ConsoleSpanExporter(out=sys.stderr)
        provider.add_span_processor(BatchSpanProcessor(sender))
    except ValueError as error:
        return f"spans can't be sent: {error}"
    trace.set_tracer_provider(provider)
    return ""

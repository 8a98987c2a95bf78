"""Send spans with the OpenTelemetry SDK, which reads the other OTEL_* variables itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

from passdown.tracing import release

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter


def send(exporter: str) -> str:
    """Send spans from now on, in batches from a thread of its own; what is left goes when the
    program ends. Gives a sentence where the variables can't be used.
    """
    own = Resource.create({"service.name": "passdown", "service.version": release()})
    try:
        provider = TracerProvider(resource=own.merge(OTELResourceDetector().detect()))
        provider.add_span_processor(BatchSpanProcessor(_exporter(exporter)))
    except ValueError as error:
        return f"spans can't be sent: {error}"
    trace.set_tracer_provider(provider)
    return ""


def _exporter(name: str) -> SpanExporter:
    if name == "otlp":
        return OTLPSpanExporter()
    import sys

    return ConsoleSpanExporter(out=sys.stderr)

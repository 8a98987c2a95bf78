"""Trace spans, off unless the program has an OpenTelemetry tracer provider.

The provider is the program's own, or the one that `start` makes when the usual OTEL_* variables
ask for it; nothing is imported before. Spans hold names, numbers and codes; never a text that
somebody wrote, a token or a query.
"""

from __future__ import annotations

import sys
from time import monotonic
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Self

from passdown.core.values import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping, Sequence
    from types import ModuleType


if TYPE_CHECKING:
    Attributes = Mapping[str, str | int | float | bool]
    Kind = Literal["internal", "server", "client"]

_LOOKS_S = 0.1
_NONE: Attributes = MappingProxyType({})


class Span:
    """A span that does nothing: what callers get while tracing is off."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, place: object) -> None:
        """End the span."""

    def note(self, attributes: Attributes, *, name: str = "", error: str = "") -> None:
        """Add attributes; `error` is a code that marks the span as failed."""


NO_SPAN = Span()


class _Provider:
    """The module that makes spans, kept once there is a provider; else when to look again.

    Other packages load the API too: asking it each time would cost a brief over HTTP some percent.
    """

    live: ModuleType | None = None
    looks_again_at = 0.0


def _live() -> ModuleType | None:
    """The module that makes spans; None unless this program has a provider."""
    if _Provider.live is not None or "opentelemetry.trace" not in sys.modules:
        return _Provider.live
    now = monotonic()
    if now >= _Provider.looks_again_at:
        from passdown.tracing import otel

        _Provider.looks_again_at = now + _LOOKS_S
        _Provider.live = otel if otel.has_provider() else None
    return _Provider.live


def span(name: str, attributes: Attributes = _NONE) -> Span:
    """A span: part of the active one, or the start of a trace."""
    live = _live()
    return NO_SPAN if live is None else live.LiveSpan(name, attributes)


def part(name: str, attributes: Attributes = _NONE, *, kind: Kind = "internal") -> Span:
    """A span that exists only as part of another, never by itself."""
    live = _live()
    if live is None or live.current() is None:
        return NO_SPAN
    return live.LiveSpan(name, attributes, kind=kind)


def shared(name: str, owners: Sequence[Any], attributes: Attributes = _NONE) -> Span:
    """Work that is done for several at once: part of the first one's, linked to the others'.

    The owners come from `current_span` or `continued`; who has none is None.
    """
    live = _live()
    known = [owner for owner in owners if owner is not None]
    return NO_SPAN if live is None or not known else live.LiveSpan(name, attributes, owners=known)


def request(
    name: str, attributes: Attributes, *, carrier: Mapping[str, str], seconds_ago: float
) -> Span:
    """A request that came in a moment ago; the caller's trace goes on where it carries one."""
    live = _live()
    if live is None:
        return NO_SPAN
    owners = [live.continued(carrier)]
    return live.LiveSpan(name, attributes, kind="server", owners=owners, seconds_ago=seconds_ago)


def current_span() -> Any:
    """The span that is active, to be named as an owner elsewhere; None where there is none."""
    live = _live()
    return None if live is None else live.current()


def continued(carrier: Mapping[str, Any]) -> Any:
    """The span that a message says it was sent from; None where it says nothing."""
    live = _live()
    return None if live is None else live.continued(carrier)


def carry(carrier: MutableMapping[str, str]) -> None:
    """Add to a message which span it is sent from (`traceparent`), if one is active."""
    live = _live()
    if live is not None and live.current() is not None:
        live.carry(carrier)


def ids() -> dict[str, str]:
    """The active span as a line of a log names it: `trace_id`, `span_id`; empty without one."""
    live = _live()
    return {} if live is None else live.ids()


def origin() -> dict[str, str]:
    """The trace that a record is written in, by `trace_id` and `span_id`: that of the active span,
    or the one that the program which started this process names in TRACEPARENT; empty without one.
    """
    import os
    import re

    found = ids()
    given = re.fullmatch(_TRACEPARENT, os.environ.get("TRACEPARENT", "")) if not found else None
    return {"trace_id": given[1], "span_id": given[2]} if given else found


_TRACEPARENT = "[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}"


def memory(operation: str, store: str, attributes: Attributes = _NONE) -> Span:
    """A memory operation by the conventions for generative AI, part of another span."""
    named = {"gen_ai.operation.name": operation, "gen_ai.memory.store.id": store}
    return part(operation, {**named, **attributes})


def detached() -> Span:
    """Context in which no span is active: for work that is done for all callers."""
    live = _live()
    return NO_SPAN if live is None or live.current() is None else live.NoActiveSpan()


def is_on() -> bool:
    """Whether spans are made."""
    return _live() is not None


def package_version() -> str:
    """Passdown's own version, looked up: the root package imports modules above this one."""
    return sys.modules["passdown"].__version__


def start() -> str:
    """Begin to send spans if the environment asks for it; returns a sentence if that fails.

    A provider that the program has already is left as it is.
    """
    import os

    _Provider.looks_again_at = 0.0
    asked = requested_exporter(os.environ)
    if not asked.exporter or asked.problem or is_on():
        return asked.problem
    try:
        from passdown.tracing import otel

        problem = otel.send(asked.exporter)
    except ModuleNotFoundError as error:
        return (
            f"{asked.variable} asks for spans, which needs the package {error.name}: none are "
            "sent. Install it with: pip install 'passdown[otel]'"
        )
    _Provider.looks_again_at = 0.0
    return problem


_EXPORTER = "OTEL_TRACES_EXPORTER"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_SPOKEN = "http/protobuf"


class ExporterRequest(NamedTuple):
    """The exporter that is asked for (empty: none), by which variable, and why it can't be had."""

    exporter: str = ""
    variable: str = ""
    problem: str = ""


def requested_exporter(environment: Mapping[str, str]) -> ExporterRequest:
    """What the standard variables of OpenTelemetry ask for. An endpoint is enough."""
    given = {name: environment.get(name, "").strip() for name in (_EXPORTER, *_ENDPOINTS)}
    variable = next((name for name, value in given.items() if value), "")
    exporter = given[_EXPORTER].lower() or ("otlp" if variable else "")
    is_disabled = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if is_disabled or exporter in ("", "none"):
        return ExporterRequest()
    if exporter not in ("otlp", "console"):
        problem = f"{_EXPORTER} is {exporter!r}; known are otlp, console and none. None are sent."
        return ExporterRequest("", variable, problem)
    for name in _PROTOCOLS:
        protocol = environment.get(name, "").strip()
        if exporter == "otlp" and protocol not in ("", _SPOKEN):
            return ExporterRequest(
                "", variable, f"{name} is {protocol!r}; spans are sent by {_SPOKEN} only"
            )
    return ExporterRequest(exporter, variable)

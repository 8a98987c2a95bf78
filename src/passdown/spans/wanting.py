"""What the environment asks for: spans or none, and where they go."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

_EXPORTER = "OTEL_TRACES_EXPORTER"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_SPOKEN = "http/protobuf"


class Wanted(NamedTuple):
    """The exporter that is asked for (empty: none), by which variable, and why it can't be had."""

    exporter: str = ""
    variable: str = ""
    problem: str = ""


def wanted(environment: Mapping[str, str]) -> Wanted:
    """What the standard variables of OpenTelemetry ask for. An endpoint is enough."""
    given = {name: environment.get(name, "").strip() for name in (_EXPORTER, *_ENDPOINTS)}
    variable = next((name for name, value in given.items() if value), "")
    exporter = given[_EXPORTER].lower() or ("otlp" if variable else "")
    is_disabled = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if is_disabled or exporter in ("", "none"):
        return Wanted()
    if exporter not in ("otlp", "console"):
        problem = f"{_EXPORTER} is {exporter!r}; known are otlp, console and none. None are sent."
        return Wanted("", variable, problem)
    for name in _PROTOCOLS:
        protocol = environment.get(name, "").strip()
        if exporter == "otlp" and protocol not in ("", _SPOKEN):
            return Wanted("", variable, f"{name} is {protocol!r}; spans are sent by {_SPOKEN} only")
    return Wanted(exporter, variable)

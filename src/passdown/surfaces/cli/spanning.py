"""Spans of verbs that go on for long: sent where the environment asks for it."""

from __future__ import annotations

import sys

from passdown import spans


def tell_of_spans() -> None:
    """Begin to send spans if OTEL_* variables say so; what is in the way is told, and no more: the
    variables may be meant for every program of a machine.
    """
    if problem := spans.start():
        print(f"passdown: {problem}", file=sys.stderr, flush=True)

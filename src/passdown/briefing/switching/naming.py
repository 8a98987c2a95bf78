"""The file name of a switch artifact: who to whom and when, and no two alike."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from passdown.errors import InvalidInput, Problem
from passdown.model.names import MAX_AGENT
from passdown.model.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


def artifact_name(
    from_agent: str, to_agent: str, at: datetime | str, taken: Iterable[str] = ()
) -> str:
    """`handoff-{from}-to-{to}-{timestamp}.yaml`, with microseconds, and never one that is taken.

    Safe on every file system: a character that isn't becomes `_`, and case doesn't tell two names
    apart. Raises InvalidInput for a time without a zone.
    """
    begin = f"handoff-{_safe(from_agent)}-to-{_safe(to_agent)}-{_stamp(at)}"
    known = {name.casefold() for name in taken}
    name = f"{begin}.yaml"
    number = 2
    while name.casefold() in known:
        name = f"{begin}-{number}.yaml"
        number += 1
    return name


def _safe(agent: str) -> str:
    return _UNSAFE.sub("_", agent[:MAX_AGENT]) or "none"


def _stamp(at: datetime | str) -> str:
    try:
        moment = parse_time(at if isinstance(at, str) else at.isoformat())
    except ValueError as error:
        expected = "an ISO 8601 time with a zone"
        problem = Problem("at", "invalid_time", str(error)[:120], expected)
        raise InvalidInput("an artifact's name needs a time", [problem]) from None
    return moment.astimezone(UTC).strftime("%Y%m%dT%H%M%S.%fZ")

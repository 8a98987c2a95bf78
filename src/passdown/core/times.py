"""Times in their stored form: ISO 8601 in UTC with microseconds."""

from __future__ import annotations

from datetime import UTC, datetime


def stamp(moment: datetime) -> str:
    """The stored form of an aware time; a naive one is refused, its meaning can't be known."""
    if moment.tzinfo is None:
        raise ValueError(f"{moment.isoformat()} has no time zone; expected an aware time")
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def parse_time(text: str) -> datetime:
    """The aware time, in UTC, that a stored form or any ISO 8601 text with a zone means."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone; expected one, such as a Z at the end")
    return moment.astimezone(UTC)


def utc_now() -> datetime:
    """The time at which a value is made that has none of its own."""
    return datetime.now(UTC)

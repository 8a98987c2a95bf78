"""Text from anywhere, made fit to be stored: what no record may hold becomes visible instead."""

from __future__ import annotations

from typing import Any, cast

MOST_CHARACTERS = 400_000


def storable(text: str, most: int = MOST_CHARACTERS) -> str:
    """A text without NUL and halves of characters, at most so long; what is cut out says so."""
    text = text.replace("\x00", "\\x00")
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half:,} characters left out ...]\n{text[-half:]}"


def storable_values(value: Any) -> Any:
    """The same for every text in plain data."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return {storable(key): storable_values(part) for key, part in pairs}
    if isinstance(value, list):
        return [storable_values(part) for part in cast("list[Any]", value)]
    return value

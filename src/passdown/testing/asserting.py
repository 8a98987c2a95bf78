"""Assertions that hold under `python -O` too, for tests that other projects run."""

from __future__ import annotations

from typing import NoReturn


def fail(message: str) -> NoReturn:
    """End the test: something is not as it should be."""
    raise AssertionError(message)


def true(condition: bool, message: str) -> None:
    """Fail unless a condition holds; `message` says what should be so."""
    if not condition:
        fail(f"not so: {message}")


def same(actual: object, expected: object) -> None:
    """Fail unless two values are equal, showing both."""
    if actual != expected:
        fail(f"expected {expected!r:.2000}\nbut got  {actual!r:.2000}")

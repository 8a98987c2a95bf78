"""Errors that both databases report in the same words."""

from __future__ import annotations

from passdown.errors import Damaged, InvalidInput, Problem

UNKNOWN = "Whether it was written is unknown; do it again with the same key, that is always safe."


def damage(finding: str) -> Problem:
    """Damage that the database itself sees."""
    return Problem("", "page_damage", finding, fix="restore a backup, or export what is intact")


def damaged(store: str, finding: str) -> Damaged:
    """The error for a store that is damaged."""
    return Damaged(
        f"the store {store} is damaged",
        [damage(finding)],
        next_step="Run passdown verify to see what is intact; restore a backup beside it.",
    )


def not_storable(error: Exception) -> InvalidInput:
    """The error for a value that no store can look for: broken text, a number out of range."""
    message = " ".join(str(error).split())[:200]
    problem = Problem("", "not_storable", message, "text in UTF-8 and 64-bit numbers")
    return InvalidInput("a value can't be stored or looked for", [problem])

"""Named statements: one `.sql` file, each statement under a line `-- name: ...`."""

from __future__ import annotations


def named_statements(path: str) -> dict[str, str]:
    """The statements of a file by name."""
    with open(path, encoding="utf-8") as file:
        parts = file.read().split("-- name: ")[1:]
    return {name: sql.strip() for name, _, sql in (part.partition("\n") for part in parts)}

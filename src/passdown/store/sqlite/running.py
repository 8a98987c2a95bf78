"""Running SQL: the one place where apsw's partly unknown types become ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import apsw


def rows(
    connection: apsw.Connection,
    sql: str,
    values: Mapping[str, object] | Sequence[object] | None = None,
) -> list[tuple[Any, ...]]:
    """Run SQL to its end, one statement or several, and give all rows."""
    return connection.execute(sql, values).fetchall()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def rows_of_many(
    connection: apsw.Connection, sql: str, values: Sequence[Sequence[object]]
) -> list[tuple[Any, ...]]:
    """Run one statement for each row of values."""
    return connection.executemany(sql, values).fetchall()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportArgumentType]

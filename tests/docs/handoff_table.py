"""The table of a handoff's fields, as the documentation has it."""

from __future__ import annotations

from passdown.core.handoff import Handoff
from passdown.core.schema import Field, fields_of, shape_of


def markdown_table() -> str:
    """The table of fields for the documentation."""
    rows = ["| field | level | what |", "|---|---|---|"]
    rows += [
        f"| {_names(field)} | {field.level} | {_described(field)} |"
        for field in fields_of(Handoff).values()
    ]
    return "\n".join(rows) + "\n"


def _names(field: Field) -> str:
    also = ", ".join(f"`{alias}`" for alias in field.aliases)
    return f"`{field.name}`" + (f" ({also})" if also else "")


def _described(field: Field) -> str:
    kind = shape_of(field)
    said = [field.description] if field.description else []
    if words := field.type.expected():
        said.append(_listed(words))
    if kind is not None:
        said.append(", ".join(_part(part) for part in fields_of(kind).values()))
    return ": ".join(said)


def _part(field: Field) -> str:
    name = f"**`{field.name}`**" if field.is_required else f"`{field.name}`"
    words = field.type.expected()
    return f"{name} ({_listed(words)})" if words else name


def _listed(words: str) -> str:
    return ", ".join(f"`{word}`" for word in words.split(" | "))

"""Frozen values with names, made fast: what `typing.NamedTuple` gives, annotations unchecked.

Annotations are text here (`from __future__ import annotations`), and the library's own NamedTuple
compiles each one to see whether it could be a type. Type checkers do that better, and a hook or a
reading verb makes some fifty such classes at every start: a tenth of what it takes in all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from collections import namedtuple

    _OWN = ("__annotations__", "__module__", "__qualname__", "__classcell__")

    class _Maker(type):
        """Makes a named tuple of a class body: its annotations are the fields."""

        def __new__(cls, name: str, _bases: tuple[type, ...], body: dict[str, Any]) -> type:
            fields = body.get("__annotations__", {})
            defaults = [body[field] for field in fields if field in body]
            made = namedtuple(name, fields, defaults=defaults, module=body["__module__"])
            made.__annotations__ = fields
            made.__qualname__ = body["__qualname__"]
            for key, value in body.items():
                if key not in fields and key not in _OWN:
                    setattr(made, key, value)
            return made

    NamedTuple = type.__new__(_Maker, "NamedTuple", (), {})

__all__ = ["NamedTuple"]

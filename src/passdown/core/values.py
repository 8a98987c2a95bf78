"""Fast named tuples: like `typing.NamedTuple`, and nothing is compiled until one is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from collections import _tuplegetter, namedtuple

    class _Tuple(tuple):
        """What all named tuples share. A short command defines fifty of them and makes a few."""

        __slots__ = ()
        _fields = ()

        def __new__(cls, /, *args: Any, **kwargs: Any) -> Any:
            """Make the first one of a class, after compiling its constructor."""
            owner = next(each for each in cls.__mro__ if "_fields" in each.__dict__)
            defaults = owner._field_defaults.values()
            owner.__new__ = namedtuple(owner.__name__, owner._fields, defaults=defaults).__new__
            return owner.__new__(cls, *args, **kwargs)

        @classmethod
        def _make(cls, values: Any) -> Any:
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"{cls.__name__} has {len(cls._fields)} fields, not {len(made)}")
            return made

        def _replace(self, /, **values: Any) -> Any:
            made = self._make(map(values.pop, self._fields, self))
            if values:
                raise ValueError(f"{type(self).__name__} has no fields {list(values)}")
            return made

        def _asdict(self) -> dict[str, Any]:
            return dict(zip(self._fields, self, strict=True))

        def __getnewargs__(self) -> tuple[Any, ...]:
            return tuple(self)

        def __repr__(self) -> str:
            pairs = (f"{name}={value!r}" for name, value in self._asdict().items())
            return f"{type(self).__name__}({', '.join(pairs)})"

    class _Maker(type):
        """Makes a named tuple of a class body: its annotations are the fields."""

        def __new__(cls, name: str, _bases: tuple[type, ...], body: dict[str, Any]) -> type:
            fields = tuple(body.get("__annotations__", ()))
            defaults = {field: body[field] for field in fields if field in body}
            getters = {field: _tuplegetter(at, "") for at, field in enumerate(fields)}
            own = {"__slots__": (), "_fields": fields, "_field_defaults": defaults}
            own["__match_args__"] = fields
            body.pop("__classcell__", None)
            return type(name, (_Tuple,), {**body, **getters, **own})

    NamedTuple = type.__new__(_Maker, "NamedTuple", (), {})

__all__ = ["NamedTuple"]

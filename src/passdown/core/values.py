"""Fast named tuples: like `typing.NamedTuple`, but nothing is compiled before the first instance.

`collections.namedtuple` compiles a constructor for each class, which took a tenth of the time of a
short command; most commands make instances of a few classes only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from inspect import Signature
    from typing import NamedTuple
else:
    from _collections import _tuplegetter
    from collections import namedtuple

    _OWN = ("__annotations__", "__classcell__")

    class _LazySignature:
        """What `inspect.signature` gives for a class."""

        def __get__(self, instance: object, owner: type) -> Signature:
            from inspect import signature

            found = signature(_constructor(owner))
            return found.replace(parameters=list(found.parameters.values())[1:])

    class _NamedTuple(tuple):
        """What every named tuple has, as in `collections.namedtuple`."""

        __slots__ = ()
        __signature__ = _LazySignature()

        @classmethod
        def _make(cls, values: Iterable[Any]) -> Self:
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"expected {len(cls._fields)} arguments, got {len(made)}")
            return made

        def _replace(self, /, **given: Any) -> Self:
            made = self._make(map(given.pop, self._fields, self))
            if given:
                raise ValueError(f"got unexpected field names: {list(given)!r}")
            return made

        def _asdict(self) -> dict[str, Any]:
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self) -> str:
            shown = ", ".join(f"{n}={v!r}" for n, v in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({shown})"

        def __getnewargs__(self) -> tuple[Any, ...]:
            return tuple(self)

    def _constructor(kind: type) -> Callable[..., Any]:
        """The `__new__` of a named tuple with these fields."""
        defaults = tuple(kind._field_defaults.values())
        return namedtuple(kind.__name__, kind._fields, defaults=defaults).__new__

    class _Maker(type):
        """Makes a named tuple of a class body: its annotations are the fields."""

        def __new__(cls, name: str, _bases: tuple[type, ...], body: dict[str, Any]) -> type:
            fields = tuple(body.get("__annotations__", ()))
            own = {key: value for key, value in body.items() if key not in (*fields, *_OWN)}

            def new(cls: type, /, *args: Any, **given: Any) -> Any:
                compiled = _constructor(made)
                made.__new__ = staticmethod(compiled)
                return compiled(cls, *args, **given)

            defaults = {field: body[field] for field in fields if field in body}
            own |= {"__slots__": (), "_fields": fields, "_field_defaults": defaults}
            own |= {"__match_args__": fields, "__new__": new}
            own |= {field: _tuplegetter(place, None) for place, field in enumerate(fields)}
            made = type(name, (_NamedTuple,), own)
            made.__annotations__ = body.get("__annotations__", {})
            return made

    NamedTuple = type.__new__(_Maker, "NamedTuple", (), {})

__all__ = ["NamedTuple"]

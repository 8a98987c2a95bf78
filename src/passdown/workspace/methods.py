"""Methods from the table of operations, for `Workspace`, its groups and the async API."""

from __future__ import annotations

from functools import update_wrapper
from typing import TYPE_CHECKING, Any, TypeVar

from passdown.operations import OPERATIONS, load

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.operations import Operation

C = TypeVar("C", bound=type)


class Group:
    """A named group of a workspace's operations, such as `ws.knowledge`."""

    def __init__(self, workspace: Any) -> None:
        self._workspace = workspace

    def _call(
        self, operation: Operation, function: Callable[..., Any], *args: Any, **given: Any
    ) -> Any:
        return self._workspace._call(operation, function, *args, **given)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._workspace!r}>"


class _Method:
    """A method that is made when it is first used, since that imports the operation's module."""

    def __init__(self, operation: Operation, make: Callable[..., Any]) -> None:
        self._operation = operation
        self._make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: object, owner: type) -> Any:
        function = load(self._operation.function)
        made: Any = update_wrapper(self._make(self._operation, function), function)
        made.__name__, made.__qualname__ = self._name, f"{self._owner.__name__}.{self._name}"
        first, *_ = function.__code__.co_varnames
        made.__annotations__ = {k: v for k, v in function.__annotations__.items() if k != first}
        setattr(self._owner, self._name, made)
        return made.__get__(instance, owner)


class _GroupOf:
    """The attribute of a workspace that gives one of its groups."""

    def __init__(self, group: type) -> None:
        self._group = group

    def __get__(self, instance: object, owner: type) -> Any:
        return self._group if instance is None else self._group(instance)


def _call_method(operation: Operation, function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, /, *args: Any, **given: Any) -> Any:
        return self._call(operation, function, *args, **given)

    return method


def with_operations(
    cls: C, make: Callable[[Operation, Callable[..., Any]], Any] = _call_method, prefix: str = ""
) -> C:
    """A class with a method for each operation, and its groups; as a decorator or called.

    The class has `_call(operation, function, *args, **given)`; `make` gives the function that
    becomes a method, and calls it.
    """
    bodies: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        method = _Method(operation, make)
        if operation.group:
            bodies.setdefault(operation.group, {})[operation.method] = method
        else:
            setattr(cls, operation.method, method)
            method.__set_name__(cls, operation.method)
    for name, body in bodies.items():
        title = f"{prefix}{name.capitalize()}Group"
        group = type(title, (Group,), {"__module__": cls.__module__, **body})
        setattr(cls, name, _GroupOf(group))
    return cls

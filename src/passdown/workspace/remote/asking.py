"""How every method asks: what is empty is left out, lists come page by page."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from passdown.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from passdown.workspace.aliases import CounterLike, Key
    from passdown.workspace.remote.connection import Wire

Document = dict[str, Any]

_PAGE = 1_000
_EMPTY: tuple[object, ...] = ("", None, (), [])


def sent(wire: Wire, method: str, path: str, body: Document, **rest: Any) -> Any:
    """What a server answers to a body; what is None is left out of it."""
    kept = {name: value for name, value in body.items() if value is not None}
    return json.loads(wire.ask(method, path, body=kept, **rest).body)


class Asking:
    """What the parts of a remote workspace are made of."""

    _wire: Wire  # pyright: ignore[reportIncompatibleVariableOverride] - it always has one

    def _get(self, address: str, /, *, is_heavy: bool = False, **query: Any) -> Any:
        kept = {name: value for name, value in query.items() if value not in _EMPTY}
        return json.loads(self._wire.ask("GET", address, query=kept, is_heavy=is_heavy).body)

    def _check(self, path: str, body: Document, *, is_heavy: bool = False) -> Any:
        """Ask what takes a body and changes nothing."""
        return sent(self._wire, "POST", path, body, repeats=True, is_heavy=is_heavy)

    def _post(self, path: str, body: Document, key: Key = None, **rest: Any) -> Any:
        return sent(self._wire, rest.pop("method", "POST"), path, body, key=key, **rest)

    def _pages(self, path: str, limit: int, cursor: object, **query: Any) -> list[Document]:
        """The entries of a list up to a limit, page by page."""
        found: list[Document] = []
        asked: object = limit
        while True:
            if type(limit) is int and limit > 0:
                asked = min(limit - len(found), _PAGE)
            page = self._get(path, limit=asked, cursor=cursor, **query)
            found += page["items"]
            cursor = page["next"]
            if cursor is None or len(found) >= limit:
                return found


def named_counter(counter: CounterLike, said: str) -> str | None:
    """A counter by its name: a function can't be sent."""
    if counter is None or isinstance(counter, str):
        return counter
    name: object = getattr(counter, "name", None)
    if isinstance(name, str):
        return name
    problem = Problem("counter", "wrong_type", "a function can't be sent", "a counter's name")
    raise InvalidInput(said, [problem])

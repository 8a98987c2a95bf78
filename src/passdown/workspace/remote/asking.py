"""How every method asks: what is empty is left out, lists come page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from passdown.errors import InvalidInput, Problem
from passdown.workspace.remote.connection import HEAVY_TIMEOUT_S
from passdown.workspace.remote.replies import MAX_ANSWER_BYTES, Deadline, not_passdown, too_large

if TYPE_CHECKING:
    from passdown.workspace.aliases import CounterLike, Key
    from passdown.workspace.remote.connection import Wire
    from passdown.workspace.remote.replies import Reply

Document = dict[str, Any]

_PAGE = 1_000
_EMPTY: tuple[object, ...] = ("", None, (), [])


def sent(wire: Wire, method: str, path: str, body: Document, **rest: Any) -> Any:
    """What a server answers to a body; what is None is left out of it."""
    kept = {name: value for name, value in body.items() if value is not None}
    return wire.ask(method, path, body=kept, **rest).document()


class Listing:
    """Questions that together make up one list: they share bounds of time and size."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._deadline = Deadline(HEAVY_TIMEOUT_S)
        self._size = 0

    def ask(self, path: str, query: Document) -> Reply:
        """The next part."""
        reply = self._wire.ask("GET", path, query=_filled(query), within=self._deadline)
        self._size += len(reply.body)
        if self._size > MAX_ANSWER_BYTES:
            raise too_large(self._wire.server.url, MAX_ANSWER_BYTES)
        return reply


class Asking:
    """What the parts of a remote workspace are made of."""

    _wire: Wire  # pyright: ignore[reportIncompatibleVariableOverride] - it always has one

    def _get(self, address: str, /, *, is_heavy: bool = False, **query: Any) -> Any:
        return self._wire.ask("GET", address, query=_filled(query), is_heavy=is_heavy).document()

    def _check(self, path: str, body: Document, *, is_heavy: bool = False) -> Any:
        """Ask what takes a body and changes nothing."""
        return sent(self._wire, "POST", path, body, repeats=True, is_heavy=is_heavy)

    def _post(self, path: str, body: Document, key: Key = None, **rest: Any) -> Any:
        return sent(self._wire, rest.pop("method", "POST"), path, body, key=key, **rest)

    def _pages(self, path: str, limit: int, cursor: object, **query: Any) -> list[Document]:
        """The entries of a list up to a limit, page by page. Each page has to bring something and
        lead on; all of them together have bounds of their own.
        """
        found: list[Document] = []
        asked: object = limit
        seen, listing = {cursor}, Listing(self._wire)
        while True:
            if type(limit) is int and limit > 0:
                asked = min(limit - len(found), _PAGE)
            reply = listing.ask(path, {**query, "limit": asked, "cursor": cursor})
            items, cursor = _page(reply)
            found += items
            if cursor is None or len(found) >= limit:
                return found[:limit] if type(limit) is int and limit > 0 else found
            if not items or cursor in seen:
                raise not_passdown(reply, "is a page that leads nowhere")
            seen.add(cursor)


def _filled(query: Document) -> Document:
    return {name: value for name, value in query.items() if value not in _EMPTY}


def _page(reply: Reply) -> tuple[list[Document], str | None]:
    """The entries of a page and the cursor to the next one, if it is a page."""
    document = reply.document()
    items, following = document.get("items"), document.get("next")
    if not isinstance(items, list) or not isinstance(following, str | None):
        raise not_passdown(reply, "is no page of a list")
    return cast("list[Document]", items), following


def named_counter(counter: CounterLike, said: str) -> str | None:
    """A counter by its name: a function can't be sent."""
    if counter is None or isinstance(counter, str):
        return counter
    name: object = getattr(counter, "name", None)
    if isinstance(name, str):
        return name
    problem = Problem("counter", "wrong_type", "a function can't be sent", "a counter's name")
    raise InvalidInput(said, [problem])

"""HTML that can't be broken by what it shows: every text is escaped unless `tag` made it.

Stored text stays text. Invisible and bidirectional control characters are written as escapes, and
of a very long text only the beginning is shown, with its length; in a file all of it is.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

from passdown.core.text import visible
from passdown.core.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

MOST_SHOWN = 20_000
"""How many characters of one text a page shows."""
_VOID = frozenset({"input", "meta", "link", "img"})


class Html(str):
    """Markup; anything else is text."""

    __slots__ = ()


_IS_WHOLE: ContextVar[bool] = ContextVar("is_whole", default=False)


@contextmanager
def whole() -> Generator[None]:
    """What is made within is cut nowhere."""
    token = _IS_WHOLE.set(True)
    try:
        yield
    finally:
        _IS_WHOLE.reset(token)


def most_of(number: int) -> int:
    """The largest number of characters or entries to show: this one, or all within `whole`."""
    return 2**62 if _IS_WHOLE.get() else number


def field(value: object, most: int = MOST_SHOWN) -> Html:
    """A field of a record: a text, or each entry of a list or a mapping in a line of its own."""
    if isinstance(value, list):
        return joined([tag("p", field(each, most)) for each in cast("list[object]", value)])
    if isinstance(value, dict):
        pairs = cast("dict[str, object]", value).items()
        return joined(
            [tag("p", f"{name.replace('_', ' ')}: ", field(v, most)) for name, v in pairs]
        )
    return text("" if value is None else value, most)


def text(value: object, most: int = MOST_SHOWN) -> Html:
    """A stored value as harmless text."""
    said, most = str(value), most_of(most)
    rest = f" … ({len(said):,} characters)" if len(said) > most else ""
    return Html(escape(visible(said[:most], keep_newlines=True)) + rest)


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """An element. `class_` is class, `data_key` is data-key; None and False leave one out."""
    given: list[str] = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        spelled = key.rstrip("_").replace("_", "-")
        given.append(f" {spelled}" if value is True else f' {spelled}="{text(value)}"')
    opening = f"<{name}{''.join(given)}>"
    return Html(opening if name in _VOID else f"{opening}{joined(children)}</{name}>")


def joined(children: object) -> Html:
    """Children one after another; None and False are left out."""
    if children is None or children is False:
        return Html()
    if isinstance(children, Html):
        return children
    if isinstance(children, list | tuple):
        return Html("".join(map(joined, cast("Sequence[object]", children))))
    return text(children)


def address(*parts: object, **query: object) -> str:
    """The path of a page or of an operation, each part quoted."""
    path = "/" + "/".join(quote(str(part), safe="") for part in parts)
    given = [f"{key}={quote(str(value), safe='')}" for key, value in query.items() if value != ""]
    return path + (f"?{'&'.join(given)}" if given else "")


def link(target: str, /, *children: object, **attributes: object) -> Html:
    """A link to a page of this server; `target` is from `address`."""
    return tag("a", *children, href=target, **attributes)


def ago(at: str) -> Html:
    """How long ago a time was, with the time itself."""
    try:
        moment = parse_time(at)
    except ValueError:
        return text(at)
    seconds = max(0, int((datetime.now(UTC) - moment).total_seconds()))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return _time(at, f"{seconds // size} {unit} ago")
    return _time(at, "just now" if seconds < 10 else f"{seconds} s ago")


def _time(at: str, said: str) -> Html:
    return tag("time", said, datetime=at, title=f"{at[:19].replace('T', ' ')} UTC")


def short_digest(digest: str) -> Html:
    """The beginning of a digest, with all of it as its title."""
    return tag("code", digest.removeprefix("sha256:")[:10], title=digest, class_="digest")


def table(head: Iterable[str], rows: Iterable[Iterable[object]], **attributes: object) -> Html:
    """A table; a row is its cells."""
    body = [tag("tr", [tag("td", cell) for cell in row]) for row in rows]
    if not body:
        return Html()
    top = tag("thead", tag("tr", [tag("th", name, scope="col") for name in head]))
    found = tag("table", top, tag("tbody", *body), **attributes)
    return tag("div", found, class_="scroll", tabindex="0", role="group", aria_label="Table")


def left_out(count: int) -> Html:
    """That some entries of a list aren't shown; nothing if all are."""
    return tag("p", f"and {count:,} more", class_="note") if count > 0 else Html()


def section(title: str, *children: object, id: str = "", note: object = None) -> Html:
    """A part of a page with its heading."""
    heading = tag("h2", title, note and tag("span", note, class_="note"))
    return tag("section", heading, *children, id=id or None)


def loaded_later(name: str, target: str, said: str) -> Html:
    """A part of a page that the browser loads from `target` after the page."""
    note = tag("p", said, class_="note loading")
    return tag("div", note, id=name, data_load=target, data_keep=True)

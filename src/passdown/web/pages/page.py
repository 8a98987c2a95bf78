"""One page before it gets its frame."""

from __future__ import annotations


def whole_number(text: object) -> int | None:
    """A number in an address; None for anything else."""
    said = str(text)
    return int(said) if said.isascii() and said.isdigit() and len(said) <= 15 else None


class Page:
    """The title and the content of a page; `api` is the address of the same as JSON."""

    def __init__(self, title: str, *content: object, api: str = "") -> None:
        self.title = title
        self.content = content
        self.api = api

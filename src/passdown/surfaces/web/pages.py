"""Pages: a part of a longer list, and the cursor that leads to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.surfaces.web.operations import Answer

if TYPE_CHECKING:
    from collections.abc import Callable

Document = dict[str, Any]


def paged(found: list[Document], limit: int, place: Callable[[Document], int]) -> Answer:
    """A page of what was found, which is one more than asked for where there is more."""
    kept = found[:limit]
    following = str(place(kept[-1])) if len(found) > limit else None
    return Answer({"items": kept, "next": following})

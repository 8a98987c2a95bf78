"""One page before it gets its frame, and parts of pages that checks fill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from passdown.core.times import stamp
from passdown.web.pages.markup import Html, ago, tag

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.web.requests import ApiRequest
    from passdown.workspace import Workspace


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


def check_part(
    call: ApiRequest,
    part: str,
    check: Callable[[Workspace], Any],
    shown: Callable[[Any], list[Html]],
) -> Html:
    """A part of a page that shows the last result of a check, its age, and a button for another.
    Nobody waits for the check: the page asks again when it may be over.
    """
    if call.checks is None:
        raise AssertionError("a server has checks")
    position = call.workspace.changes(None).last
    is_asked = str(call.arguments.get("again", "")) == "1"
    kept, again = call.checks.result(part, check, position, is_asked=is_asked)
    button = tag("button", "Check again", tag("kbd", "v", aria_hidden="true"), type="button",
                 data_key="v", data_check=part)  # fmt: skip
    content: list[object] = [tag("p", "Checking all records and files…", class_="note loading")]
    if kept is not None and kept.error is not None:
        content = [tag("p", f"The check failed: {kept.error}", class_="bad finding")]
    elif kept is not None:
        content = [*shown(kept.value)]
    if kept is not None:
        newer = "; records were added since" if again else ""
        checked = ["Checked ", ago(stamp(kept.at)), newer, "."]
        content.append(tag("p", *checked, " ", button, class_="note checked"))
    return tag("div", *content, id=part, data_part=True, data_again=round(again, 1) or None)

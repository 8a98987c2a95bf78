"""Regions between two marks, at the end of a text: put in, found, and taken out exactly. Pure.

A text that ends without a line end gets a region that ends without one, so that a region alone
tells how the text ended before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from passdown.surfaces.hosts.drafts import Draft


class Marks(NamedTuple):
    """The lines around a region of ours."""

    begin: str
    end: str


PAGE = Marks("<!-- passdown:begin -->", "<!-- passdown:end -->")
TOML = Marks("# passdown:begin", "# passdown:end")


class RegionFault(ValueError):
    """The marks aren't a pair: one is missing, or there are several."""


def region_in(text: str, marks: Marks) -> tuple[int, int] | None:
    """Where the region stands, from the first mark to the end of the last; None without one."""
    begins = _lines_that_are(text, marks.begin)
    ends = _lines_that_are(text, marks.end)
    if not begins and not ends:
        return None
    if len(begins) != 1 or len(ends) != 1 or ends[0] < begins[0]:
        raise RegionFault(f"the marks {marks.begin} and {marks.end} are no pair")
    return begins[0], ends[0] + len(marks.end)


def _lines_that_are(text: str, line: str) -> list[int]:
    found: list[int] = []
    at = text.find(line)
    while at >= 0:
        before = text[at - 1 : at]
        after = text[at + len(line) : at + len(line) + 1]
        if before in ("", "\n", "\ufeff") and after in ("", "\r", "\n"):
            found.append(at)
        at = text.find(line, at + 1)
    return found


def body_of(text: str, region: tuple[int, int], marks: Marks) -> str:
    """What stands between the marks, with plain line ends."""
    inner = text[region[0] + len(marks.begin) : region[1] - len(marks.end)]
    return inner.replace("\r\n", "\n").strip("\n")


def put_region(draft: Draft, marks: Marks, body: str) -> None:
    """Add a region at the end of a text, with a line between."""
    newline = draft.newline
    region = f"{marks.begin}\n{body}\n{marks.end}".replace("\n", newline)
    if not draft.text.strip("\ufeff"):
        text = region + newline
    elif draft.text.endswith("\n"):
        text = newline + region + newline
    else:
        text = newline + newline + region
    draft.insert(len(draft.text), text)


def drop_region(text: str, region: tuple[int, int]) -> str:
    """A text without its region and the line ends that came with it."""
    start, end = region
    head, tail = text[:start], text[end:]
    ends_open = not tail
    tail = tail.removeprefix("\r").removeprefix("\n")
    for _ in range(2 if ends_open else 1):
        head = head.removesuffix("\n").removesuffix("\r")
    return head + tail

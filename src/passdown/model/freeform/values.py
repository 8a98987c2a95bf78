"""What reading a note gives: the items that were found, with their places, and what is unclear."""

from __future__ import annotations

from typing import Any, NamedTuple


class Span(NamedTuple):
    """A stretch of the note that may say something, and what its words hint at."""

    start: int
    end: int
    line: int
    hint: str
    cue: str


class Found(NamedTuple):
    """One item. `kind` is the list of the handoff that it belongs to, `fields` its plain form.

    `span` is where it stands in the note, `confidence` is from 0 to 1, `cue` the words that gave
    it away.
    """

    kind: str
    fields: dict[str, Any]
    span: tuple[int, int]
    line: int
    confidence: float
    cue: str


class Header(NamedTuple):
    """What a note says of itself; empty where it says nothing.

    `is_summed_up` tells a summary that is named as one from the first sentence of the note.
    """

    task: str = ""
    title: str = ""
    summary: str = ""
    outcome: str = ""
    from_agent: str = ""
    to_agent: str = ""
    is_summed_up: bool = False


class Extraction(NamedTuple):
    """Everything that was found in a note, in the order of the text; `form` is text or report."""

    name: str
    form: str
    header: Header
    found: tuple[Found, ...]
    ambiguous: tuple[Span, ...]

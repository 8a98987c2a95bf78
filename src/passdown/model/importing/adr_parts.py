"""The sections of an ADR by what they are for: decision, reasons, options, consequences."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from passdown.model.importing.markdown import items_of
from passdown.model.text import is_blank

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.model.importing.markdown import Page

MAX_RATIONALE = 60_000
MAX_ALTERNATIVES = 200
SHORT_SECTIONS = ("date", "deciders", "decision makers", "tags")

_MAX_OPTION = 2_000
_CHOSEN = re.compile(
    r"chosen option:?\s*[\"'\u201c*_`\[]*([^\"\u201d*_`\]\n]{1,300})", re.IGNORECASE
)
_NOT_NAME = re.compile(r"[^a-z ]+")


def plain(name: str) -> str:
    """A heading without numbers, signs and capitals."""
    return " ".join(_NOT_NAME.sub(" ", name.lower()).split())


_DECISION = ("decision outcome", "decision", "decisions", "the decision", "outcome", "resolution")
_CONTEXT = ("context", "problem", "background", "motivation", "issue")
_DRIVERS = ("decision drivers", "drivers", "forces", "rationale", "justification", "argument")
_OPTIONS = (
    "considered options",
    "options considered",
    "options",
    "alternatives",
    "alternatives considered",
    "considered alternatives",
    "positions",
)
_CONSEQUENCES = ("consequences", "implications", "positive consequences", "negative consequences")


class Parts:
    """The sections of an ADR by what they are for."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._used: set[int] = set()
        self.has_text = any(each.text for each in page.sections) or bool("".join(page.head).strip())
        self.is_several = self._is_several()
        self.decision = self._take(lambda name: name in _DECISION)
        self.context = self._take(lambda name: name.startswith(_CONTEXT))
        self.drivers = self._take(lambda name: name in _DRIVERS)
        self.consequences = self._take(lambda name: name in _CONSEQUENCES)
        self._options = self._find(lambda name: name in _OPTIONS)

    def _is_several(self) -> bool:
        """Whether decisions stand below different headings of the second level."""
        outer: set[int] = set()
        at = -1
        for index, section in enumerate(self._page.sections):
            if section.level <= 2:
                at = index
            elif plain(section.name) in ("decision", "decision outcome"):
                outer.add(at)
        return len(outer) > 1

    def _find(self, is_it: Callable[[str], bool]) -> list[int]:
        return [
            index
            for index, section in enumerate(self._page.sections)
            if index not in self._used and is_it(plain(section.name))
        ]

    def _take(self, is_it: Callable[[str], bool]) -> str:
        """The text of the sections that are meant, each with what is below it, once."""
        found: list[str] = []
        for index in self._find(is_it):
            if index not in self._used:
                found.append(self._page.whole(index))
                self._use(index)
        return "\n\n".join(part for part in found if part)

    def _use(self, index: int) -> None:
        self._used.update(range(index, index + 1 + len(self._page.below(index))))

    def options(self) -> list[str]:
        """What else was considered: list items, else headings below, else a short text; without
        the option that was chosen.
        """
        found: list[str] = []
        for index in self._options:
            section = self._page.sections[index]
            below = [each.name for each in self._page.below(index) if each.name]
            listed = items_of(section.lines) or below
            if not listed and 0 < len(section.text) <= _MAX_OPTION:
                listed = [section.text]
            if listed:
                self._use(index)
            found += listed
        chosen = _CHOSEN.search(self.decision[:MAX_RATIONALE])
        name = _bare(chosen[1]) if chosen else ""
        kept = (text[:_MAX_OPTION].strip() for text in found if _bare(text) not in (name, ""))
        return list(dict.fromkeys(text for text in kept if not is_blank(text)))[:MAX_ALTERNATIVES]

    def left_out(self) -> list[str]:
        """The outermost sections with text that is taken nowhere; ask for the options first."""
        found: list[str] = []
        outer = ""
        for index, section in enumerate(self._page.sections):
            if section.level <= 2 or not outer:
                outer = section.name
            is_told = plain(section.name) in ("status", *SHORT_SECTIONS)
            if index not in self._used and section.text and not is_told and outer not in found:
                found.append(outer)
        return found


def _bare(text: str) -> str:
    return " ".join(re.sub(r"[^\w]+", " ", text.lower()).split())

"""Markdown as records use it: front matter, a title, lines of facts, sections, list items, links.

What stands in a fence or in a comment is no heading. Nothing is rendered and nothing is guessed:
a text that can't be taken apart is one section without a name.
"""

from __future__ import annotations

import re
from typing import NamedTuple, cast

from passdown.errors import InvalidInput
from passdown.model.plain import load_yaml

# Headings and lines of facts are short; longer lines are text, whatever they begin with.
MAX_MARKUP_LINE = 400
_MAX_FRONT_LINES = 200

_HEADING = re.compile(r"^ {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_UNDERLINE = re.compile(r"^ {0,3}(=+|-+)[ \t]*$")
_FACT = re.compile(
    r"^[ \t]*(?:[-*+|][ \t]*)?\**_*([A-Za-z][A-Za-z /-]{0,40}?)\**_*[ \t]*[:|]\**(.*)$"
)
_ITEM = re.compile(r"^([ \t]*)(?:[-*+]|\d{1,9}[.)])[ \t]+(\S.*?)[ \t]*$")
_LINK = re.compile(r"\[([^\[\]]{0,300})\]\(<?([^()<>\s]{1,500})>?[^()]{0,200}\)")


class Section(NamedTuple):
    """A heading and the lines below it, up to the next heading of any level."""

    level: int
    name: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """The lines as one text, without blank ones around it."""
        return "\n".join(self.lines).strip()


class Page(NamedTuple):
    """A page taken apart. `front` has lowercase names; `head` are the lines before any section."""

    front: dict[str, object]
    title: str
    head: tuple[str, ...]
    sections: tuple[Section, ...]

    def whole(self, index: int) -> str:
        """A section's text with the sections below it, under their headings."""
        first = self.sections[index]
        parts = [first.text]
        for section in self.sections[index + 1 :]:
            if section.level <= first.level:
                break
            parts.append(f"{section.name}:\n{section.text}" if section.text else "")
        return "\n\n".join(part for part in parts if part)

    def below(self, index: int) -> list[Section]:
        """The sections below a section."""
        found: list[Section] = []
        for section in self.sections[index + 1 :]:
            if section.level <= self.sections[index].level:
                break
            found.append(section)
        return found


def read_page(text: str) -> Page:
    """Take a page apart; the first heading of the first level is its title."""
    front, rest = _front_matter(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    sections = _sections(_without_comments(rest).split("\n"))
    head = sections.pop(0)
    lines = list(head.lines)
    title = ""
    if sections and sections[0].level == 1 and not head.text:
        first = sections.pop(0)
        title, lines = first.name, list(first.lines)
    else:
        at = next((i for i, each in enumerate(sections) if each.level == 1), None)
        title = sections[at].name if at is not None else ""
    given = front.get("title")
    return Page(
        front, title or (given if isinstance(given, str) else ""), tuple(lines), tuple(sections)
    )


def _front_matter(text: str) -> tuple[dict[str, object], str]:
    """The YAML between the first two `---` lines, and the rest; broken YAML is read by lines."""
    lines = text.split("\n", _MAX_FRONT_LINES)
    if lines[0].rstrip() != "---":
        return {}, text
    end = next((i for i, line in enumerate(lines[1:], 1) if line.rstrip() in ("---", "...")), 0)
    if not end:
        return {}, text
    rest = "\n".join(lines[end + 1 :])
    block = lines[1:end]
    try:
        loaded = load_yaml("\n".join(block))
    except InvalidInput:
        loaded = dict(fact for fact in map(fact_of, block) if fact)
    if not isinstance(loaded, dict):
        return {}, rest
    pairs = cast("dict[object, object]", loaded).items()
    return {str(name).strip().lower(): value for name, value in pairs}, rest


def _without_comments(text: str) -> str:
    kept: list[str] = []
    at = 0
    while (start := text.find("<!--", at)) >= 0 and (end := text.find("-->", start)) >= 0:
        kept.append(text[at:start])
        at = end + len("-->")
    return "".join([*kept, text[at:]])


def _sections(lines: list[str]) -> list[Section]:
    """What stands before the first heading, as a section without a name, and every section."""
    found: list[tuple[int, str, list[str]]] = [(0, "", [])]
    fence = ""
    for line in lines:
        fence, was = _fence_after(fence, line), fence
        heading = _heading(line) if not fence and not was else None
        if heading:
            found.append((len(heading[1]), heading[2].strip(), []))
        elif not fence and not was and _is_underline(line, found[-1][2]):
            level = 1 if "=" in line else 2
            found.append((level, found[-1][2].pop().strip(), []))
        else:
            found[-1][2].append(line)
    return [Section(level, name, tuple(text)) for level, name, text in found]


def _heading(line: str) -> re.Match[str] | None:
    return _HEADING.match(line) if len(line) <= MAX_MARKUP_LINE and "#" in line[:10] else None


def _is_underline(line: str, above: list[str]) -> bool:
    """Whether a line makes a heading of the one line of text above it."""
    if len(line) > MAX_MARKUP_LINE or not _UNDERLINE.match(line) or not above:
        return False
    is_alone = len(above) == 1 or not above[-2].strip()
    text = above[-1].strip()
    return bool(text) and is_alone and len(text) <= MAX_MARKUP_LINE and not _ITEM.match(above[-1])


def _fence_after(fence: str, line: str) -> str:
    match = _FENCE.match(line) if len(line) <= MAX_MARKUP_LINE else None
    if match is None:
        return fence
    if not fence:
        return match[1]
    return "" if match[1][0] == fence[0] and len(match[1]) >= len(fence) else fence


def fact_of(line: str) -> tuple[str, str] | None:
    """Name (lowercase) and value of a line such as `* Status: accepted` or `| Date | today |`."""
    match = _FACT.match(line) if len(line) <= MAX_MARKUP_LINE else None
    if match is None:
        return None
    return match[1].strip().lower(), match[2].strip().strip("|*_").strip().strip("\"'")


def items_of(lines: tuple[str, ...]) -> list[str]:
    """The outermost list items; lines that go on with one belong to it, nested items don't."""
    found: list[str] = []
    depth: int | None = None
    is_inside = False
    for line in lines:
        item = _ITEM.match(line) if len(line) <= MAX_MARKUP_LINE * 10 else None
        if item and (depth is None or len(item[1].expandtabs(4)) <= depth):
            depth = len(item[1].expandtabs(4))
            found.append(item[2])
            is_inside = True
        elif item or not line.strip() or line[:1] not in (" ", "\t"):
            is_inside = False
        elif is_inside:
            found[-1] += f" {line.strip()}"
    return found


def links_in(text: str) -> list[tuple[str, str]]:
    """The text and target of each link in a line; only its beginning is looked at."""
    return _LINK.findall(text[: MAX_MARKUP_LINE * 10])

"""Parse Markdown pages and JSON lines into sections, facts and objects."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import Any, NamedTuple, cast

from passdown.core.parsing import load_json, load_yaml
from passdown.core.task_files import MAX_MARKUP_LINE, fence_after, without_comments
from passdown.core.text import excerpt
from passdown.errors import InvalidInput, Problem

_MAX_FRONT_LINES = 200

_HEADING = re.compile(r"^ {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
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
    """A parsed page. `front` has lowercase names; `head` are the lines before any section."""

    front: dict[str, object]
    title: str
    head: tuple[str, ...]
    sections: tuple[Section, ...]

    def whole(self, index: int) -> str:
        """A section's text with its subsections under their headings."""
        below = (f"{each.name}:\n{each.text}" for each in self.below(index) if each.text)
        return "\n\n".join(part for part in (self.sections[index].text, *below) if part)

    def below(self, index: int) -> list[Section]:
        """The subsections of a section."""
        level = self.sections[index].level
        return list(takewhile(lambda each: each.level > level, self.sections[index + 1 :]))


def read_page(text: str) -> Page:
    """Parse a page; its title is the first heading of the first level."""
    front, rest = _front_matter(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    sections = _sections(without_comments(rest).split("\n"))
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


def _sections(lines: list[str]) -> list[Section]:
    """The text before the first heading, as a section without a name, and every section."""
    found: list[tuple[int, str, list[str]]] = [(0, "", [])]
    fence = ""
    for line in lines:
        fence, was = fence_after(fence, line), fence
        is_markup = not fence and not was and len(line) <= MAX_MARKUP_LINE
        heading = _HEADING.match(line) if is_markup and "#" in line[:10] else None
        if heading:
            found.append((len(heading[1]), heading[2].strip(), []))
        elif is_markup and _is_underline(line, found[-1][2]):
            found.append((1 if "=" in line else 2, found[-1][2].pop().strip(), []))
        else:
            found[-1][2].append(line)
    return [Section(level, name, tuple(text)) for level, name, text in found]


def _is_underline(line: str, above: list[str]) -> bool:
    """Whether a line underlines the line above it as a heading."""
    if not _UNDERLINE.match(line) or not above or _ITEM.match(above[-1][: MAX_MARKUP_LINE + 1]):
        return False
    is_alone = len(above) == 1 or not above[-2].strip()
    return is_alone and 0 < len(above[-1].strip()) <= MAX_MARKUP_LINE


def fact_of(line: str) -> tuple[str, str] | None:
    """Name (lowercase) and value of a line such as `* Status: accepted` or `| Date | today |`."""
    match = _FACT.match(line) if len(line) <= MAX_MARKUP_LINE else None
    if match is None:
        return None
    return match[1].strip().lower(), match[2].strip().strip("|*_").strip().strip("\"'")


def items_of(lines: tuple[str, ...]) -> list[str]:
    """The outermost list items with their continuation lines, without nested items."""
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


MAX_LINE_BYTES = 1_048_576
_MAX_DEPTH = 32


class JsonLines(NamedTuple):
    """The objects of a file by line number, and the lines that are none."""

    objects: list[tuple[int, dict[str, Any]]]
    problems: list[Problem]


def read_lines(data: bytes) -> JsonLines:
    """Read a file of JSON lines. Blank lines and a byte order mark are ignored; a line that is too
    long, no UTF-8, no JSON or no object is a problem at `line N`.
    """
    found = JsonLines([], [])
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            value = load_json(line, max_bytes=MAX_LINE_BYTES, max_depth=_MAX_DEPTH)
        except InvalidInput as error:
            found.problems.append(error.problems[0]._replace(path=f"line {number}"))
            continue
        if isinstance(value, dict):
            found.objects.append((number, cast("dict[str, Any]", value)))
        else:
            given = f"{type(value).__name__} given"
            problem = Problem(f"line {number}", "wrong_type", given, "a JSON object")
            found.problems.append(problem)
    return found


def text_of(entry: dict[str, Any], name: str) -> str:
    """A field as stripped text; empty if it isn't text."""
    value = entry.get(name)
    return value.strip() if isinstance(value, str) else ""


def texts_of(entry: dict[str, Any], name: str) -> list[str]:
    """A field's list of texts, without blank ones and other values."""
    value = entry.get(name)
    listed = cast("list[object]", value) if isinstance(value, list) else []
    return [text.strip() for text in listed if isinstance(text, str) and text.strip()]


def objects_of(entry: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """A field's list of objects, without other values."""
    value = entry.get(name)
    listed = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", each) for each in listed if isinstance(each, dict)]


def not_text(where: str, name: str, value: object) -> Problem:
    """The problem of a missing or wrong text field."""
    given = "is missing" if value is None else f"is {excerpt(repr(value))}"
    return Problem(f"{where}: {name}", "required", given, "text")


def without_cycles(links: dict[str, list[str]]) -> tuple[list[str], list[tuple[str, str]]]:
    """Remove links that close a cycle; gives the names, targets of links first, and what was
    removed. Links to names without an entry are left alone.
    """
    done: dict[str, bool] = {}
    order: list[str] = []
    removed: list[tuple[str, str]] = []
    for start, first in links.items():
        stack = [(start, iter(list(first)))] if start not in done else []
        done.setdefault(start, False)
        while stack:
            name, targets = stack[-1]
            target = next(targets, None)
            if target is None:
                done[name] = True
                order.append(name)
                stack.pop()
            elif target in links and target not in done:
                done[target] = False
                stack.append((target, iter(list(links[target]))))
            elif done.get(target) is False:
                links[name].remove(target)
                removed.append((name, target))
    return order, removed

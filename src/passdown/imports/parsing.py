"""Parse Markdown pages and JSON lines into sections, facts and objects."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import Any, NamedTuple, cast

from passdown.core.parsing import load_json, load_yaml
from passdown.core.task_files import MAX_MARKUP_LINE, without_comments
from passdown.core.text import excerpt
from passdown.errors import InvalidInput, Problem

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
    """Whether a line underlines the line above it as a heading."""
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
        if line.strip():
            _parse_json_line(number, line, found)
    return found


def _parse_json_line(number: int, line: bytes, found: JsonLines) -> None:
    where = f"line {number}"
    try:
        value = load_json(line, max_bytes=MAX_LINE_BYTES, max_depth=_MAX_DEPTH)
    except InvalidInput as error:
        found.problems.append(error.problems[0]._replace(path=where))
        return
    if isinstance(value, dict):
        found.objects.append((number, cast("dict[str, Any]", value)))
    else:
        given = type(value).__name__
        found.problems.append(Problem(where, "wrong_type", f"{given} given", "a JSON object"))


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

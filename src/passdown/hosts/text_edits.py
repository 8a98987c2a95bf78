"""Reversible edits of JSON, TOML and Markdown files; what is not touched keeps every byte. Pure.

A region at the end of a text that ends without a newline ends without one too, so the region alone
tells how the text ended before it.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


Cuts = list[list[int]]
"""Positions and lengths of inserted text, in characters."""


class EditedText:
    """A text that is only ever added to; `cuts` says where, and `without` undoes it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._added = bytearray(len(text))

    def insert(self, at: int, text: str) -> None:
        """Put text at a place."""
        self.text = self.text[:at] + text + self.text[at:]
        self._added[at:at] = b"\1" * len(text)

    @property
    def cuts(self) -> Cuts:
        """Every run of inserted text, from the beginning."""
        found: Cuts = []
        at = self._added.find(1)
        while at >= 0:
            end = self._added.find(0, at)
            end = len(self._added) if end < 0 else end
            found.append([at, end - at])
            at = self._added.find(1, end)
        return found

    @property
    def newline(self) -> str:
        """How the text ends its lines."""
        return newline_of(self.text)


def remove_cuts(text: str, cuts: Iterable[Sequence[int]]) -> str:
    """A text without the runs that were put into it."""
    kept: list[str] = []
    done = 0
    for at, length in cuts:
        kept.append(text[done:at])
        done = at + length
    return "".join([*kept, text[done:]])


def newline_of(text: str) -> str:
    """How a text ends its lines: as its first line does."""
    at = text.find("\n")
    return "\r\n" if at > 0 and text[at - 1] == "\r" else "\n"


class Marks(NamedTuple):
    """The lines around a region of ours."""

    begin: str
    end: str


MARKDOWN_MARKS = Marks("<!-- passdown:begin -->", "<!-- passdown:end -->")
TOML_MARKS = Marks("# passdown:begin", "# passdown:end")


class RegionError(ValueError):
    """The marks aren't a pair: one is missing, or there are several."""


def find_region(text: str, marks: Marks) -> tuple[int, int] | None:
    """Start and end of the region with its marks; None without one."""
    begins = _lines_that_are(text, marks.begin)
    ends = _lines_that_are(text, marks.end)
    if not begins and not ends:
        return None
    if len(begins) != 1 or len(ends) != 1 or ends[0] < begins[0]:
        raise RegionError(f"the marks {marks.begin} and {marks.end} are no pair")
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


def region_body(text: str, region: tuple[int, int], marks: Marks) -> str:
    """The text between the marks, with plain line ends."""
    inner = text[region[0] + len(marks.begin) : region[1] - len(marks.end)]
    return inner.replace("\r\n", "\n").strip("\n")


def put_region(draft: EditedText, marks: Marks, body: str) -> None:
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


_DEEPEST = 100
_SPACE = " \t\r\n"
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_WORD = re.compile(r"-?[0-9][0-9.eE+-]*|true|false|null")


class JsonError(ValueError):
    """The text isn't JSON; the message has line and column."""


class JsonNode(NamedTuple):
    """A value and its position. `value` is the parsed value; of an object or a list, its parts are
    in `parts`, each with the comma that follows it (its end, or 0).
    """

    value: object
    start: int
    end: int
    parts: tuple[JsonPart, ...] = ()


class JsonPart(NamedTuple):
    """A member of an object or an element of a list (whose `key` is empty)."""

    key: str
    start: int
    node: JsonNode
    comma: int


def parse_json(text: str) -> JsonNode | None:
    """The value of a text; None for a text with nothing but space and comments in it."""
    reader = _JsonParser(text)
    at = reader.trivia(1 if text.startswith("\ufeff") else 0)
    if at == len(text):
        return None
    node = reader.value(at, 0)
    if reader.trivia(node.end) != len(text):
        raise reader.fault(reader.trivia(node.end), "something follows the value")
    return node


def member(node: JsonNode, key: str) -> JsonPart | None:
    """The member of an object by its name; raises JsonError for a duplicate name."""
    found = [part for part in node.parts if part.key == key]
    if len(found) > 1:
        raise JsonError(f"{key!r} occurs twice in one object")
    return found[0] if found else None


class _JsonParser:
    def __init__(self, text: str) -> None:
        self.text = text

    def fault(self, at: int, what: str) -> JsonError:
        before = self.text[:at]
        line = before.count("\n") + 1
        return JsonError(f"line {line}, column {at - before.rfind(chr(10))}: {what}")

    def trivia(self, at: int) -> int:
        """Where the next thing that isn't space or comment begins."""
        text = self.text
        while at < len(text):
            if text[at] in _SPACE:
                at += 1
            elif text.startswith("//", at):
                end = text.find("\n", at)
                at = len(text) if end < 0 else end
            elif text.startswith("/*", at):
                end = text.find("*/", at + 2)
                if end < 0:
                    raise self.fault(at, "a comment isn't closed")
                at = end + 2
            else:
                return at
        return at

    def value(self, at: int, depth: int) -> JsonNode:
        if depth > _DEEPEST:
            raise self.fault(at, "values are nested too deeply")
        sign = self.text[at : at + 1]
        if sign == "{":
            parts, end = self.parts(at, "}", depth)
            return JsonNode({part.key: part.node.value for part in parts}, at, end, parts)
        if sign == "[":
            parts, end = self.parts(at, "]", depth)
            return JsonNode([part.node.value for part in parts], at, end, parts)
        return self.scalar(at)

    def scalar(self, at: int) -> JsonNode:
        found = _STRING.match(self.text, at) or _WORD.match(self.text, at)
        if found is None:
            what = "the text ends too early" if at >= len(self.text) else "no value is here"
            raise self.fault(at, what)
        try:
            return JsonNode(json.loads(found[0]), at, found.end())
        except ValueError as error:
            raise self.fault(at, "no value is here") from error

    def parts(self, at: int, closing: str, depth: int) -> tuple[tuple[JsonPart, ...], int]:
        found: list[JsonPart] = []
        here = self.trivia(at + 1)
        while self.text[here : here + 1] != closing:
            if found and not found[-1].comma:
                raise self.fault(here, f"a comma or {closing} is missing")
            start = here
            key, here = self.key(here) if closing == "}" else ("", here)
            node = self.value(here, depth + 1)
            here = self.trivia(node.end)
            comma = here + 1 if self.text[here : here + 1] == "," else 0
            found.append(JsonPart(key, start, node, comma))
            here = self.trivia(comma) if comma else here
        return tuple(found), here + 1

    def key(self, at: int) -> tuple[str, int]:
        found = _STRING.match(self.text, at)
        if found is None:
            raise self.fault(at, "a name in quotes is missing")
        colon = self.trivia(found.end())
        if self.text[colon : colon + 1] != ":":
            raise self.fault(colon, "a colon is missing")
        return str(self.scalar(at).value), self.trivia(colon + 1)


_INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)
_REST_OF_LINE = re.compile(r"[ \t]*(?:/\*[^\r\n]*?\*/[ \t]*)*(?://[^\r\n]*)?")


def root_object(text: str) -> JsonNode:
    """The object that a file holds; raises JsonFault for anything else."""
    node = parse_json(text)
    if node is None:
        return JsonNode({}, len(text), len(text))
    if not isinstance(node.value, dict):
        raise JsonError("the file holds no object ({...})")
    return node


def find_node(text: str, path: Sequence[str]) -> JsonNode | None:
    """The value at a path of names; None where the path ends early."""
    node: JsonNode | None = root_object(text)
    for name in path:
        part = member(node, name) if node else None
        node = part.node if part else None
    return node


def put_member(draft: EditedText, path: Sequence[str], key: str, value: object) -> None:
    """Add a member to the object at a path, and the objects on the way that are missing."""
    holder, missing = _nearest(draft.text, path, dict)
    _put(draft, holder, (missing or [key])[0], _wrapped([*missing, key], value))


def put_element(draft: EditedText, path: Sequence[str], value: object) -> None:
    """Add an element to the list at a path, and what is missing on the way."""
    holder, missing = _nearest(draft.text, path, list)
    if missing:
        _put(draft, holder, missing[0], _wrapped(missing, [value]))
    else:
        _put(draft, holder, "", value)


def _wrapped(names: Sequence[str], value: object) -> object:
    """A value inside the objects that still have to be made; the first name is its member's."""
    for name in reversed(names[1:]):
        value = {name: value}
    return value


def _nearest(text: str, path: Sequence[str], last: type) -> tuple[JsonNode, list[str]]:
    """The deepest value on a path that is there, and the names that are missing below it."""
    node = root_object(text)
    for index, name in enumerate(path):
        part = member(node, name)
        if part is None:
            return node, list(path[index:])
        node = part.node
        expected = last if index == len(path) - 1 else dict
        if not isinstance(node.value, expected):
            word = "a list" if expected is list else "an object"
            raise JsonError(f"{'.'.join(path[: index + 1])} is not {word}")
    return node, []


def _put(draft: EditedText, holder: JsonNode, key: str, value: object) -> None:
    if holder.start == holder.end:
        return _begin(draft, key, value)
    inside = draft.text[holder.start + 1 : holder.end - 1]
    outer = _indent_at(draft.text, holder.start)
    if not holder.parts:
        inner = outer + _unit(draft.text)
        text = draft.newline + inner + _json_lines(key, value, inner, draft)
        text += "" if "\n" in inside else draft.newline + outer
        return draft.insert(holder.start + 1, text)
    last = holder.parts[-1]
    between = draft.text[holder.start + 1 : last.start]
    if "\n" in between:
        inner = _indent_at(draft.text, last.start)
        text = draft.newline + inner + _json_lines(key, value, inner, draft)
    else:
        name = f"{json.dumps(key)}: " if key else ""
        text = " " + name + json.dumps(value, ensure_ascii=False)
    return _append(draft, last, text)


def _append(draft: EditedText, last: JsonPart, text: str) -> None:
    """Put an element behind the last one and what is said about that on its line."""
    end = last.comma or last.node.end
    said = _REST_OF_LINE.match(draft.text, end)
    at = said.end() if said and said[0].strip() and "\n" in text else end
    draft.insert(at, text + ("," if last.comma else ""))
    if not last.comma:
        draft.insert(last.node.end, ",")


def _begin(draft: EditedText, key: str, value: object) -> None:
    """The first object of an empty file."""
    inner = _unit(draft.text)
    body = _json_lines(key, value, inner, draft)
    text = "{" + draft.newline + inner + body + draft.newline + "}" + draft.newline
    if draft.text.strip() and not draft.text.endswith("\n"):
        text = draft.newline + text
    draft.insert(len(draft.text), text)


def _json_lines(key: str, value: object, indent: str, draft: EditedText) -> str:
    unit = _unit(draft.text)
    text = json.dumps(value, indent=unit, ensure_ascii=False)
    text = text.replace("\n", draft.newline + indent)
    return f"{json.dumps(key)}: {text}" if key else text


def _unit(text: str) -> str:
    found = _INDENT.search(text)
    return found[1] if found and len(found[1]) <= 8 else "  "


def _indent_at(text: str, at: int) -> str:
    """The indentation of the line at a position."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def drop_node(text: str, path: Sequence[str | int]) -> str:
    """A text without the value at a path, and without what that leaves empty above it."""
    holders = [root_object(text)]
    for step in path[:-1]:
        holders.append(_part(holders[-1], step).node)
    # The topmost value that would hold nothing else goes as a whole.
    depth = len(path) - 1
    while depth > 0 and len(holders[depth].parts) == 1:
        depth -= 1
    return _cut(text, holders[depth], _part(holders[depth], path[depth]))


def _part(node: JsonNode, step: str | int) -> JsonPart:
    if isinstance(step, int):
        return node.parts[step]
    found = member(node, step)
    if found is None:
        raise JsonError(f"{step!r} is missing")
    return found


def _cut(text: str, holder: JsonNode, part: JsonPart) -> str:
    """A text without one part of an object or list, its comma and the space before it."""
    start = part.start
    while text[start - 1] in _SPACE:
        start -= 1
    end = part.comma or part.node.end
    if len(holder.parts) == 1:
        rest = text[end : holder.end - 1]
        after = "" if not rest.strip() and start == holder.start + 1 else rest
        return text[:start] + after + text[holder.end - 1 :]
    index = holder.parts.index(part)
    if part.comma or index == 0:
        return text[:start] + text[end:]
    before = holder.parts[index - 1]
    comma = before.comma - 1
    return text[:comma] + text[comma + 1 : start] + text[end:]


def hook_commands(node: JsonNode | None) -> list[tuple[tuple[str | int, ...], str]]:
    """Every command of an event's hooks with the way to its handler, grouped or flat."""
    found: list[tuple[tuple[str | int, ...], str]] = []
    for index, part in enumerate(node.parts if node else ()):
        for path, handler in _handlers(part.node):
            command = cast("dict[str, Any]", handler.value).get("command")
            if isinstance(command, str):
                found.append(((index, *path), command))
    return found


def _handlers(node: JsonNode) -> list[tuple[tuple[str | int, ...], JsonNode]]:
    if not isinstance(node.value, dict):
        return []
    inner = member(node, "hooks")
    if inner is None:
        return [((), node)]
    return [
        (("hooks", index), part.node)
        for index, part in enumerate(inner.node.parts)
        if isinstance(part.node.value, dict)
    ]

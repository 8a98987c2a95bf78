"""JSON with comments and trailing commas, read with the place of everything in it.

Read to be edited by hand, as it were: what is not touched keeps every byte. Pure.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

_DEEPEST = 100
_SPACE = " \t\r\n"
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_WORD = re.compile(r"-?[0-9][0-9.eE+-]*|true|false|null")


class JsonFault(ValueError):
    """The text isn't JSON; the message has line and column."""


class Node(NamedTuple):
    """A value and where it stands. `value` is what it says; of an object or a list, its parts are
    in `parts`, each with the comma that follows it (its end, or 0).
    """

    value: object
    start: int
    end: int
    parts: tuple[Part, ...] = ()


class Part(NamedTuple):
    """A member of an object or an element of a list (whose `key` is empty)."""

    key: str
    start: int
    node: Node
    comma: int


def read_json(text: str) -> Node | None:
    """The value of a text; None for a text with nothing but space and comments in it."""
    reader = _Reader(text)
    at = reader.trivia(1 if text.startswith("\ufeff") else 0)
    if at == len(text):
        return None
    node = reader.value(at, 0)
    if reader.trivia(node.end) != len(text):
        raise reader.fault(reader.trivia(node.end), "something follows the value")
    return node


def member(node: Node, key: str) -> Part | None:
    """The member of an object by its name; raises JsonFault where the name stands twice."""
    found = [part for part in node.parts if part.key == key]
    if len(found) > 1:
        raise JsonFault(f"{key!r} stands twice in one object")
    return found[0] if found else None


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text

    def fault(self, at: int, what: str) -> JsonFault:
        before = self.text[:at]
        line = before.count("\n") + 1
        return JsonFault(f"line {line}, column {at - before.rfind(chr(10))}: {what}")

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

    def value(self, at: int, depth: int) -> Node:
        if depth > _DEEPEST:
            raise self.fault(at, "values are nested too deeply")
        sign = self.text[at : at + 1]
        if sign == "{":
            parts, end = self.parts(at, "}", depth)
            return Node({part.key: part.node.value for part in parts}, at, end, parts)
        if sign == "[":
            parts, end = self.parts(at, "]", depth)
            return Node([part.node.value for part in parts], at, end, parts)
        return self.scalar(at)

    def scalar(self, at: int) -> Node:
        found = _STRING.match(self.text, at) or _WORD.match(self.text, at)
        if found is None:
            what = "the text ends too early" if at >= len(self.text) else "no value is here"
            raise self.fault(at, what)
        try:
            return Node(json.loads(found[0]), at, found.end())
        except ValueError as error:
            raise self.fault(at, "no value is here") from error

    def parts(self, at: int, closing: str, depth: int) -> tuple[tuple[Part, ...], int]:
        found: list[Part] = []
        here = self.trivia(at + 1)
        while self.text[here : here + 1] != closing:
            if found and not found[-1].comma:
                raise self.fault(here, f"a comma or {closing} is missing")
            start = here
            key, here = self.key(here) if closing == "}" else ("", here)
            node = self.value(here, depth + 1)
            here = self.trivia(node.end)
            comma = here + 1 if self.text[here : here + 1] == "," else 0
            found.append(Part(key, start, node, comma))
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

"""JSON reports as blocks: every text with the keys that lead to it and its place in the report."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple, cast

from passdown.model.freeform.blocks import Block, Cell, Places

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_DEPTH = 64

_BEGINNING = re.compile(r'\ufeff?\s{0,100}\{\s{0,100}"')
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},:]|[^\s"\[\]{},:]++', re.DOTALL)


class _Node(NamedTuple):
    """A value of the report: its text if it is a scalar, else what it holds, by key."""

    start: int
    end: int
    text: str
    is_scalar: bool
    is_list: bool
    members: list[tuple[str, _Node]]


def is_report(text: str) -> bool:
    """Whether a text is JSON: an object or a list."""
    stripped = text.lstrip("\ufeff \t\r\n")
    if not stripped.startswith(("{", "[")):
        return False
    try:
        json.loads(stripped)
    except (ValueError, RecursionError):
        return False
    return True


def broken_report(text: str, name: str) -> str:
    """What is wrong with a text that is meant to be JSON, by its name or its beginning; or nothing.

    Read as prose, a broken report would give a handoff of fragments.
    """
    if is_report(text) or not (name.lower().endswith(".json") or _BEGINNING.match(text)):
        return ""
    try:
        json.loads(text.lstrip("\ufeff"))
    except json.JSONDecodeError as error:
        return f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError):
        return "it can't be read"
    return "it holds neither an object nor a list"


def report_blocks(text: str) -> list[Block] | None:
    """The blocks of a JSON report; None where the text isn't JSON, or is nested too deep."""
    # Whatever is JSON, the reader below can read.
    root = _read(text) if is_report(text) else None
    return list(_blocks(root, Places(text))) if root else None


class _Open:
    """A list or object that isn't closed yet."""

    def __init__(self, start: int, is_list: bool) -> None:
        self.start, self.is_list = start, is_list
        self.key: str | None = None
        self.members: list[tuple[str, _Node]] = []

    def add(self, node: _Node) -> None:
        if not self.is_list and self.key is None:
            self.key = node.text
        else:
            self.members.append((self.key or "", node))
            self.key = None


def _read(text: str) -> _Node | None:
    stack: list[_Open] = []
    for match in _TOKEN.finditer(text):
        sign = match[0]
        if sign in "[{":
            stack.append(_Open(match.start(), sign == "["))
            if len(stack) > MAX_DEPTH:
                return None
        elif sign in "]}":
            done = stack.pop()
            node = _Node(done.start, match.end(), "", False, done.is_list, done.members)
            if not stack:
                return node
            stack[-1].add(node)
        elif sign not in ",:" and stack:
            stack[-1].add(_scalar(match))
    return None


def _scalar(match: re.Match[str]) -> _Node:
    spelled = match[0]
    if not spelled.startswith('"'):
        return _Node(match.start(), match.end(), spelled, True, False, [])
    value = cast("str", json.loads(spelled, strict=False))
    # Without its quotation marks, so that the place is that of the words.
    return _Node(match.start() + 1, match.end() - 1, value, True, False, [])


def _blocks(root: _Node, places: Places) -> Iterator[Block]:
    waiting: list[tuple[_Node, tuple[str, ...]]] = [(root, ())]
    while waiting:
        node, keys = waiting.pop()
        line = places.line(node.start)
        if node.is_scalar:
            if node.text.strip():
                yield Block("value", node.text, node.start, node.end, line, keys)
            continue
        inner = [(part, keys if node.is_list else (*keys, key)) for key, part in node.members]
        if node.is_list:
            records = [part for part, _ in inner if _is_record(part)]
            yield from (_row(part, keys, places) for part in records)
            inner = [(part, trail) for part, trail in inner if not _is_record(part)]
        waiting += reversed(inner)


def _is_record(node: _Node) -> bool:
    """Whether an entry of a list is an object of texts and numbers: a row of a table."""
    return not node.is_list and bool(node.members) and all(m.is_scalar for _, m in node.members)


def _row(node: _Node, keys: tuple[str, ...], places: Places) -> Block:
    cells = tuple(
        Cell(key, part.text, part.start, part.end) for key, part in node.members if part.text
    )
    line = places.line(node.start)
    text = " | ".join(cell.text for cell in cells)
    return Block("row", text, node.start, node.end, line, keys, cells)

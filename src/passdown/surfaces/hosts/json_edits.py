"""Hooks and servers in JSON: put in without touching a byte beside them, and taken out. Pure."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, cast

from passdown.surfaces.hosts.json_text import JsonFault, Node, Part, member, read_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.surfaces.hosts.drafts import Draft

_INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)
_REST_OF_LINE = re.compile(r"[ \t]*(?:/\*[^\r\n]*?\*/[ \t]*)*(?://[^\r\n]*)?")
_SPACE = " \t\r\n"


def root_of(text: str) -> Node:
    """The object that a file holds; raises JsonFault for anything else."""
    node = read_json(text)
    if node is None:
        return Node({}, len(text), len(text))
    if not isinstance(node.value, dict):
        raise JsonFault("the file holds no object ({...})")
    return node


def find(text: str, path: Sequence[str]) -> Node | None:
    """The value at a path of names; None where the path ends early."""
    node: Node | None = root_of(text)
    for name in path:
        part = member(node, name) if node else None
        node = part.node if part else None
    return node


def put_member(draft: Draft, path: Sequence[str], key: str, value: object) -> None:
    """Add a member to the object at a path, and the objects on the way that are missing."""
    holder, missing = _nearest(draft.text, path, dict)
    _put(draft, holder, (missing or [key])[0], _wrapped([*missing, key], value))


def put_element(draft: Draft, path: Sequence[str], value: object) -> None:
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


def _nearest(text: str, path: Sequence[str], last: type) -> tuple[Node, list[str]]:
    """The deepest value on a path that is there, and the names that are missing below it."""
    node = root_of(text)
    for index, name in enumerate(path):
        part = member(node, name)
        if part is None:
            return node, list(path[index:])
        node = part.node
        expected = last if index == len(path) - 1 else dict
        if not isinstance(node.value, expected):
            word = "a list" if expected is list else "an object"
            raise JsonFault(f"{'.'.join(path[: index + 1])} is not {word}")
    return node, []


def _put(draft: Draft, holder: Node, key: str, value: object) -> None:
    if holder.start == holder.end:
        return _begin(draft, key, value)
    inside = draft.text[holder.start + 1 : holder.end - 1]
    outer = _indent_at(draft.text, holder.start)
    if not holder.parts:
        inner = outer + _unit(draft.text)
        text = draft.newline + inner + _spelled(key, value, inner, draft)
        text += "" if "\n" in inside else draft.newline + outer
        return draft.insert(holder.start + 1, text)
    last = holder.parts[-1]
    between = draft.text[holder.start + 1 : last.start]
    if "\n" in between:
        inner = _indent_at(draft.text, last.start)
        text = draft.newline + inner + _spelled(key, value, inner, draft)
    else:
        name = f"{json.dumps(key)}: " if key else ""
        text = " " + name + json.dumps(value, ensure_ascii=False)
    return _append(draft, last, text)


def _append(draft: Draft, last: Part, text: str) -> None:
    """Put an element behind the last one and what is said about that on its line."""
    end = last.comma or last.node.end
    said = _REST_OF_LINE.match(draft.text, end)
    at = said.end() if said and said[0].strip() and "\n" in text else end
    draft.insert(at, text + ("," if last.comma else ""))
    if not last.comma:
        draft.insert(last.node.end, ",")


def _begin(draft: Draft, key: str, value: object) -> None:
    """The first object of an empty file."""
    inner = _unit(draft.text)
    body = _spelled(key, value, inner, draft)
    text = "{" + draft.newline + inner + body + draft.newline + "}" + draft.newline
    if draft.text.strip() and not draft.text.endswith("\n"):
        text = draft.newline + text
    draft.insert(len(draft.text), text)


def _spelled(key: str, value: object, indent: str, draft: Draft) -> str:
    unit = _unit(draft.text)
    text = json.dumps(value, indent=unit, ensure_ascii=False)
    text = text.replace("\n", draft.newline + indent)
    return f"{json.dumps(key)}: {text}" if key else text


def _unit(text: str) -> str:
    found = _INDENT.search(text)
    return found[1] if found and len(found[1]) <= 8 else "  "


def _indent_at(text: str, at: int) -> str:
    """The space at the beginning of the line on which something stands."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def drop(text: str, path: Sequence[str | int]) -> str:
    """A text without the value at a path, and without what that leaves empty above it."""
    holders = [root_of(text)]
    for step in path[:-1]:
        holders.append(_part(holders[-1], step).node)
    # The topmost value that would hold nothing else goes as a whole.
    depth = len(path) - 1
    while depth > 0 and len(holders[depth].parts) == 1:
        depth -= 1
    return _cut(text, holders[depth], _part(holders[depth], path[depth]))


def _part(node: Node, step: str | int) -> Part:
    if isinstance(step, int):
        return node.parts[step]
    found = member(node, step)
    if found is None:
        raise JsonFault(f"{step!r} is missing")
    return found


def _cut(text: str, holder: Node, part: Part) -> str:
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


def commands_in(node: Node | None) -> list[tuple[tuple[str | int, ...], str]]:
    """Every command of an event's hooks with the way to its handler, grouped or flat."""
    found: list[tuple[tuple[str | int, ...], str]] = []
    for index, part in enumerate(node.parts if node else ()):
        for path, handler in _handlers(part.node):
            command = cast("dict[str, Any]", handler.value).get("command")
            if isinstance(command, str):
                found.append(((index, *path), command))
    return found


def _handlers(node: Node) -> list[tuple[tuple[str | int, ...], Node]]:
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

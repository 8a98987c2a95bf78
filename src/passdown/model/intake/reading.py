"""From text to plain data: JSON, YAML, or a task file whose `## Handoff` section holds the YAML."""

from __future__ import annotations

import re
from typing import Any, cast

from passdown.errors import InvalidInput, Problem
from passdown.model.plain import load_json, load_yaml

_HEADING = re.compile(r"^(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[ \t]*([A-Za-z0-9_+-]*)[^`]*$")
_TASK_TITLE = re.compile(r"^#[ \t]+Task[ \t]+([^\s:]+):[ \t]*(.*\S)", re.MULTILINE)
_METADATA = re.compile(r"^[-*][ \t]*\*{0,2}([A-Za-z_ ]+?)\*{0,2}:\*{0,2}[ \t]*(\S.*?)[ \t]*$")

MAX_TASK_FILE_BYTES = 1_048_576


def read_handoff_text(text: str | bytes) -> dict[str, Any]:
    """The handoff that a text holds, as plain data; what kind of text it is shows by itself."""
    source = _decoded(text)
    stripped = source.lstrip("\ufeff \t\r\n")
    if stripped.startswith(("{", "[")):
        return _object(load_json(source))
    if handoff_section(source) is not None:
        return read_task_file(source)
    fenced = _fenced(source)
    return _object(load_yaml(source if fenced is None else fenced))


def read_task_file(text: str) -> dict[str, Any]:
    """The YAML of a task file's `## Handoff` section, with the task's id where the title names
    it.
    """
    section = handoff_section(text)
    if section is None:
        expected = "a '## Handoff' heading with YAML below it"
        problem = Problem("", "no_handoff", "the file has no handoff section", expected)
        raise InvalidInput("no handoff found", [problem])
    fenced = _fenced(section)
    data = _object(load_yaml(_before_rule(section) if fenced is None else fenced))
    for name, value in _task_metadata(text).items():
        data.setdefault(name, value)
    return data


def handoff_section(text: str) -> str | None:
    """What stands under the last heading named Handoff, up to the next heading of its level."""
    found: list[str] | None = None
    level = 0
    fence = ""
    for line in text.splitlines():
        fence = _fence_after(fence, line)
        heading = None if fence else _HEADING.match(line)
        if heading and heading[2].strip().lower() == "handoff":
            found, level = [], len(heading[1])
        elif heading and level and len(heading[1]) <= level:
            level = 0
        elif found is not None and level:
            found.append(line)
    return None if found is None else "\n".join(found) + "\n"


def _fence_after(fence: str, line: str) -> str:
    """The fence that is open after a line, so that a heading inside one isn't taken for one."""
    match = _FENCE.match(line)
    if match is None:
        return fence
    if not fence:
        return match[1]
    closes = match[1][0] == fence[0] and len(match[1]) >= len(fence) and not match[2]
    return "" if closes else fence


def _fenced(section: str) -> str | None:
    """The content of the first fence for yaml, or else json, or else of a bare one; or None."""
    blocks: list[tuple[str, list[str]]] = []
    fence = ""
    for line in section.splitlines():
        after = _fence_after(fence, line)
        match = _FENCE.match(line)
        if not fence and after and match:
            blocks.append((match[2].lower(), []))
        elif fence and after:
            blocks[-1][1].append(line)
        fence = after
    for wanted in ("yaml", "yml", "json", ""):
        for language, content in blocks:
            if language == wanted:
                return "\n".join(content) + "\n"
    return None


def _before_rule(section: str) -> str:
    """The lines up to a `---` that ends a section (a closing line of a task file follows it)."""
    kept: list[str] = []
    for line in section.splitlines():
        if line.rstrip() == "---" and any(part.strip() for part in kept):
            break
        kept.append(line)
    return "\n".join(kept) + "\n"


def _task_metadata(text: str) -> dict[str, str]:
    """What the head of a task file says: the id in its title, and agents named in its metadata."""
    found: dict[str, str] = {}
    title = _TASK_TITLE.search(text)
    if title:
        found["task"] = title[1]
    wanted = {
        "from": "from_agent",
        "agent": "from_agent",
        "to": "to_agent",
        "next agent": "to_agent",
    }
    for line in text.splitlines():
        match = _METADATA.match(line)
        name = wanted.get(match[1].strip().lower()) if match else None
        if match and name and not match[2].startswith("["):
            found.setdefault(name, match[2])
        if line.strip().lower().startswith("## handoff"):
            break
    return found


def task_title(text: str) -> str:
    """The title that a task file gives its task, or nothing."""
    match = _TASK_TITLE.search(text)
    return match[2] if match else ""


def _decoded(text: str | bytes) -> str:
    if isinstance(text, str):
        return text
    if len(text) > MAX_TASK_FILE_BYTES:
        problem = Problem(
            "", "too_large", f"{len(text):,} bytes", f"at most {MAX_TASK_FILE_BYTES:,}"
        )
        raise InvalidInput("the input is too large", [problem])
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        problem = Problem("", "invalid_utf8", f"byte {error.start} is not UTF-8", "UTF-8 text")
        raise InvalidInput("the input can't be read", [problem]) from error


def _object(data: object) -> dict[str, Any]:
    if isinstance(data, dict):
        return cast("dict[str, Any]", data)
    given = "nothing" if data is None else type(data).__name__
    problem = Problem("", "wrong_type", f"{given} given", "an object with the schema's fields")
    raise InvalidInput("the handoff is not an object", [problem])

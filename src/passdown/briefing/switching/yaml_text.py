r"""A switch artifact as YAML text, and back.

Written here rather than by a library, so that the same artifact is always the same text and no
more of it is quoted than has to be. A quoted text shows what it holds: whatever is invisible or
drives a terminal stands as an escape such as `\u202e`, and reads back as the character it was.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from passdown.briefing.switching.fields import FIELDS, STORY_FIELDS
from passdown.model.text import visible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from passdown.briefing.switching.fields import Artifact

# Words that other readers of YAML turn into something else than text.
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})
_NONCHARACTERS = re.compile("[\ufffe\uffff]")
_SURROGATES = re.compile("[\ud800-\udfff]")


def artifact_text(artifact: Mapping[str, Any]) -> str:
    """The artifact as YAML: fixed order, block style, one line for each value.

    `read_artifact` gives the same data back. Half of a surrogate pair, which no file can hold, is
    written as the escape that shows it.
    """
    lines: list[str] = []
    for name in _in_order(artifact, FIELDS):
        value = artifact[name]
        if isinstance(value, dict):
            _write_mapping(name, cast("dict[str, Any]", value), lines)
        elif isinstance(value, list | tuple):
            _write_list(name, cast("list[Any]", value), lines)
        else:
            lines.append(f"{_scalar(name)}: {_scalar(value)}")
    return "".join(f"{line}\n" for line in lines)


def read_artifact(text: str | bytes) -> Artifact:
    """The data of an artifact's text, with counts as numbers and `consumed` as a truth value.

    Raises InvalidInput for text that isn't plain YAML or isn't a mapping. What it says is for
    `artifact_problems` to judge.
    """
    from passdown.errors import InvalidInput, Problem
    from passdown.model.plain import load_yaml

    data = load_yaml(text)
    if not isinstance(data, dict):
        kind = type(data).__name__
        problem = Problem("", "wrong_type", f"{kind} given", "an artifact's fields")
        raise InvalidInput("this is no switch artifact", [problem])
    artifact = cast("Artifact", data)
    omitted = artifact.get("omitted")
    if isinstance(omitted, dict):
        counts = cast("dict[str, Any]", omitted)
        artifact["omitted"] = {name: _number(value) for name, value in counts.items()}
    if artifact.get("consumed") in ("true", "false"):
        artifact["consumed"] = artifact["consumed"] == "true"
    return artifact


def without_surrogates(text: str) -> str:
    """`text` with each half of a surrogate pair as the escape that shows it."""
    if text.isascii():
        return text
    return _SURROGATES.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found.group()):04x}"


def _in_order(mapping: Mapping[str, Any], order: tuple[str, ...]) -> list[str]:
    """The keys that the order names, then any others as they come."""
    return [*(k for k in order if k in mapping), *(k for k in mapping if k not in order)]


def _write_mapping(name: str, mapping: dict[str, Any], lines: list[str]) -> None:
    if not mapping:
        lines.append(f"{_scalar(name)}: {{}}")
        return
    lines.append(f"{_scalar(name)}:")
    inner = _in_order(mapping, STORY_FIELDS)
    lines.extend(f"  {_scalar(key)}: {_scalar(mapping[key])}" for key in inner)


def _write_list(name: str, entries: list[Any], lines: list[str]) -> None:
    if not entries:
        lines.append(f"{_scalar(name)}: []")
        return
    lines.append(f"{_scalar(name)}:")
    lines.extend(f"- {_scalar(entry)}" for entry in entries)


def _scalar(value: object) -> str:
    """One value on one line; a text stands bare where no reader could take it for another."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    text = without_surrogates(str(value))
    return text if _is_bare(text) else _quoted(text)


def _is_bare(text: str) -> bool:
    if not text or not text[0].isalpha() or text[-1] in ": " or text.lower() in _WORDS:
        return False
    if ": " in text or " #" in text or _NONCHARACTERS.search(text):
        return False
    return visible(text) == text and text.isprintable()


def _quoted(text: str) -> str:
    escaped = visible(text.replace("\\", "\\\\").replace('"', '\\"'))
    return f'"{_NONCHARACTERS.sub(_escape, escaped)}"'


def _number(value: object) -> object:
    text = value if isinstance(value, str) else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else value

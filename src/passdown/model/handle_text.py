"""The text of a handle file: indented JSON that ends with a checksum of itself."""

from __future__ import annotations

import hashlib
import json
from json.encoder import encode_basestring as _quoted
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MAX_BYTES = 1 << 28
_MAX_DEPTH = 96
_MARK = '  "checksum": "sha256:'


_encode = json.JSONEncoder(ensure_ascii=False).encode


def _plain(value: object) -> str:
    """A value on one line; nearly all are texts, which need no encoder around the function."""
    return _quoted(value) if type(value) is str else _encode(value)


def indented(value: object, margin: str = "") -> str:
    """What `json.dumps(value, indent=2, ensure_ascii=False)` gives, in a fraction of its time.

    With an indent, the standard encoder works in Python throughout; here only the frame does. Most
    values are texts, which are told apart before anything is called for them.
    """
    if isinstance(value, dict) and value:
        inner = margin + "  "
        pairs = cast("dict[str, object]", value).items()
        parts = [
            f"{inner}{_plain(key)}: {_quoted(part) if type(part) is str else indented(part, inner)}"
            for key, part in pairs
        ]
        return "{\n" + ",\n".join(parts) + f"\n{margin}}}"
    if isinstance(value, list) and value:
        inner = margin + "  "
        parts = [inner + indented(part, inner) for part in cast("list[object]", value)]
        return "[\n" + ",\n".join(parts) + f"\n{margin}]"
    return _plain(cast("object", value))


def item_text(document: Mapping[str, Any]) -> str:
    """One entry of a list, indented to its place in the file."""
    return "    " + indented(document, "    ")


def sealed(document: Mapping[str, Any], lists: Mapping[str, Sequence[str]]) -> str:
    """The file: the fields of `document`, `lists` of texts made by `item_text`, the checksum."""
    lines: list[str] = []
    for name, value in document.items():
        if name not in lists:
            lines.append(f'  "{name}": {indented(value, "  ")},\n')
    for name, texts in lists.items():
        entries = "[\n" + ",\n".join(texts) + "\n  ]" if texts else "[]"
        lines.append(f'  "{name}": {entries},\n')
    content = "{\n" + "".join(lines)
    return f'{content}{_MARK}{_checksum(content)}"\n}}\n'


def is_intact(text: str) -> bool:
    """Whether a file is as it was written, by its own checksum."""
    content, mark, ending = text.rpartition(_MARK)
    return bool(mark) and ending == f'{_checksum(content)}"\n}}\n'


def is_torn(text: str) -> bool:
    """Whether a file is what a power cut leaves of one: nothing, or zeros where text was meant to
    be. Nobody's words are in it.
    """
    return not text or "\x00" in text


def read_handle(text: str | bytes) -> dict[str, Any]:
    """The state document that a handle file holds.

    Raises InvalidInput for text that is no JSON, a schema that this release doesn't know, a file
    that was edited (its checksum shows it) and a document that breaks the schema.
    """
    from passdown.errors import InvalidInput, Problem
    from passdown.model.documents import STATE_SCHEMA
    from passdown.model.plain import load_json
    from passdown.model.state_schema import state_problems

    loaded = load_json(text, max_bytes=_MAX_BYTES, max_depth=_MAX_DEPTH)
    document = cast("dict[str, Any]", loaded) if isinstance(loaded, dict) else {}
    given = document.get("schema")
    if given != STATE_SCHEMA:
        problem = Problem("schema", "unknown_schema", f"{str(given)[:60]!r}", STATE_SCHEMA)
        raise InvalidInput("this is not a handle file that this release knows", [problem])
    problems = state_problems(document)
    if not is_intact(text if isinstance(text, str) else text.decode()):
        message = "the file is not as it was written"
        fix = "read the state from the ledger; record what the edit says with passdown"
        problems.insert(0, Problem("checksum", "edited_handle", message, "an unedited file", fix))
    if problems:
        raise InvalidInput("the handle file can't be trusted", problems)
    return document


def _checksum(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()

"""The text of a handle file: indented JSON that ends with a checksum of itself."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MARK = '  "checksum": "sha256:'


def item_text(document: Mapping[str, Any]) -> str:
    """One entry of a list, indented to its place in the file."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    return "    " + text.replace("\n", "\n    ")


def sealed(document: Mapping[str, Any], lists: Mapping[str, Sequence[str]]) -> str:
    """The file: the fields of `document`, `lists` of texts made by `item_text`, the checksum."""
    lines: list[str] = []
    for name, value in document.items():
        if name not in lists:
            text = json.dumps(value, indent=2, ensure_ascii=False).replace("\n", "\n  ")
            lines.append(f"  {json.dumps(name)}: {text},\n")
    for name, texts in lists.items():
        entries = "[\n" + ",\n".join(texts) + "\n  ]" if texts else "[]"
        lines.append(f"  {json.dumps(name)}: {entries},\n")
    content = "{\n" + "".join(lines)
    return f'{content}{_MARK}{_checksum(content)}"\n}}\n'


def is_intact(text: str) -> bool:
    """Whether a file is as it was written, by its own checksum."""
    content, mark, ending = text.rpartition(_MARK)
    return bool(mark) and ending == f'{_checksum(content)}"\n}}\n'


def _checksum(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()

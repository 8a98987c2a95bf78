"""Folder trees drawn in code: the folders that a file's name stands below."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.model.freeform.blocks import Block

_FOLDER = re.compile(r"(?P<indent>[ \t\u2500-\u257f|`+-]{0,80})(?P<name>[\w.@+-]{1,100}/)(?=\s|$)")
_FILE = re.compile(
    r"(?P<indent>[ \t\u2500-\u257f|`+-]{0,80})(?P<name>[\w.@+-]{1,200}\.\w{1,10})(?=\s|$)"
)


def folders_of(text: str, blocks: Sequence[Block]) -> dict[int, str]:
    """The folder of each file in a tree, by the place where the file's name begins."""
    found: dict[int, str] = {}
    above: list[tuple[int, str]] = []
    last = -1
    for block in blocks:
        if block.form != "code":
            above = []
            continue
        # A line that is blank separates branches of one tree, not trees.
        if block.line > last + 3:
            above = []
        last = block.line
        line = text[block.start : block.end]
        match = _FOLDER.match(line) or _FILE.match(line)
        if match is None:
            continue
        indent = len(match["indent"].expandtabs(4))
        above = [folder for folder in above if folder[0] < indent]
        if match["name"].endswith("/"):
            above.append((indent, match["name"]))
        elif above:
            found[block.start + match.start("name")] = "".join(name for _, name in above)
    return found

"""Transcripts of hosts, read in pieces: from where the last one ended, and never more than a bound.

What their lines show is told by `dialects`; a line that none of them knows is passed over.
"""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple, cast

from passdown.surfaces.hooks.dialects import Seen, hear

Document = dict[str, Any]

MAX_BYTES = 2_097_152
_MOST_OPEN = 20


class Found(NamedTuple):
    """What a piece of transcript shows; `read_to` is where the next piece begins.

    `commands` have `command` and, where it is known, `exit`. `open_calls` are commands whose end
    wasn't seen yet. `todos` is the list as it is now, None where nothing was said of it. `shrunk`:
    the context became much smaller on the way. `understood`: at least one line was.
    """

    read_to: int
    commands: tuple[Document, ...] = ()
    files: tuple[str, ...] = ()
    todos: tuple[Document, ...] | None = None
    used_tokens: int = 0
    open_calls: tuple[Document, ...] = ()
    shrunk: bool = False
    understood: bool = False


class Known(NamedTuple):
    """What earlier pieces left: calls without an end, the todos, the context's size."""

    open_calls: tuple[Document, ...] = ()
    todos: tuple[Document, ...] = ()
    used_tokens: int = 0


def read_piece(path: str, read_to: int, limit: int = MAX_BYTES) -> tuple[bytes, int]:
    """The lines of a file behind a place, only whole ones, and where the next begin.

    Of more than `limit` bytes only the last are read. Raises OSError or ValueError where the file
    can't be read; a pipe or device is none.
    """
    from passdown.workspace.given_files import regular_file

    with regular_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        start = read_to if 0 <= read_to <= size else 0
        is_cut = size - start > limit
        start = size - limit if is_cut else start
        file.seek(start)
        data = file.read(limit)
    end = data.rfind(b"\n") + 1
    begin = data.find(b"\n") + 1 if is_cut else 0
    return data[begin:end], start + end


def look_at(data: bytes, read_to: int, known: Known | None = None) -> Found:
    """What the lines of a transcript show; lines that can't be read are passed over."""
    known = known or Known()
    seen = Seen(known.open_calls, known.todos, known.used_tokens)
    for line in data.split(b"\n"):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict):
            hear(seen, cast("Document", entry))
    return Found(
        read_to,
        tuple(seen.commands),
        tuple(dict.fromkeys(seen.files)),
        seen.listed_todos(),
        seen.used_tokens,
        tuple({"id": id, **call} for id, call in seen.calls.items())[-_MOST_OPEN:],
        seen.has_shrunk,
        seen.understood,
    )

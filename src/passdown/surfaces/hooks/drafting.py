"""Draft handoffs: what was seen of a turn, as a file that its agent completes and records."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from passdown.model.names import path_problems
from passdown.surfaces.hooks import own_files

if TYPE_CHECKING:
    from collections.abc import Iterable

    from passdown.surfaces.hooks.sessions import Session
    from passdown.workspace.repository import Changed

MAX_FILES = 100
_HEAD = "# passdown draft "
_FOLDER = "drafts"


def draft_file(folder: str, task: str) -> str:
    """A task's draft, in the workspace's own folder."""
    return os.path.join(folder, _FOLDER, f"{task}.yaml")


def draft_path(folder: str, task: str, beside: str) -> str:
    """A task's draft as somebody in another folder names it."""
    path = draft_file(folder, task)
    relative = os.path.relpath(path, os.path.realpath(beside))
    return path if relative.startswith("..") else relative.replace(os.sep, "/")


def draft_text(task: str, agent: str, session: Session, changed: Iterable[Changed]) -> str:
    """A handoff as far as it can be told from outside; its outcome and summary are missing.

    It begins with a digest of the rest, by which one that somebody worked on is known. Pure.
    """
    files = [each for each in changed if not path_problems(each.path, "")]
    open_todos = [todo for todo in session.todos if todo.get("status") == "open"]
    lines = [
        "# To be completed, then recorded: passdown handoff FILE",
        "# outcome: completed | partial | failed | blocked",
        f"task: {_quoted(task)}",
        f"from_agent: {_quoted(agent)}",
        "# to_agent: who goes on",
        'summary: ""',
        *_listed("artifacts", [_file(each) for each in files[:MAX_FILES]]),
        *([f"# and {len(files) - MAX_FILES} more files"] if len(files) > MAX_FILES else []),
        *_listed("suggested_next_steps", [f"step: {_quoted(t['text'])}" for t in open_todos]),
    ]
    if session.commands or session.subagents:
        lines += ["metadata:", "  seen:"]
        for name, entries in (("commands", session.commands), ("subagents", session.subagents)):
            lines += [f"    {name}:"] if entries else []
            lines += [f"      - {json.dumps(entry)}" for entry in entries]
    body = "\n".join(lines) + "\n"
    return f"{_HEAD}{_digest(body)}\n{body}"


def _file(changed: Changed) -> str:
    return f"{{path: {_quoted(changed.path)}, change: {changed.change}}}"


def _listed(name: str, entries: list[str]) -> list[str]:
    return [f"{name}:", *(f"  - {entry}" for entry in entries)] if entries else []


def _quoted(text: str) -> str:
    # JSON in ASCII is YAML whatever the text holds.
    return json.dumps(text)


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:16]


def is_untouched(text: str) -> bool:
    """Whether a draft is as it was made."""
    head, _, body = text.partition("\n")
    return head == f"{_HEAD}{_digest(body)}"


def write_draft(folder: str, task: str, text: str) -> bool:
    """Keep a draft, unless somebody has worked on the one that is there; gives whether it was kept.

    Raises OSError where it can't be written.
    """
    path = draft_file(folder, task)
    with suppress(FileNotFoundError):
        if not is_untouched(own_files.read(path, 4_194_304)):
            return False
    own_files.replace(path, text)
    return True


def set_aside(folder: str, task: str) -> None:
    """Put a draft whose task was handed on out of the way; the last such one is kept."""
    path = draft_file(folder, task)
    with suppress(OSError):
        own_files.make_folder(os.path.dirname(path))
        os.replace(path, path.removesuffix(".yaml") + ".used.yaml")

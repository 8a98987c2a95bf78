"""What a transcript shows: commands with how they ended, files that were edited, lists of todos.

Read from the end of what is known, and never more than a bounded piece. The lines of Claude Code
and of Codex are understood; any other line is passed over.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, NamedTuple, cast

Document = dict[str, Any]

MAX_BYTES = 2_097_152
_MAX_COMMAND = 300
_FAILED = re.compile(r"\A(?:Error: )?Exit code:? (-?[0-9]{1,5})")
_ENDED = re.compile(
    r"(?:Process exited with code|Exit code:|exit code:|exited with code) (-?[0-9]{1,5})"
)
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
_EDITS = ("Edit", "Write", "MultiEdit", "NotebookEdit")
_SHELLS = (
    "shell",
    "exec_command",
    "shell_command",
    "local_shell",
    "container.exec",
    "unified_exec",
)
_DONE = {"completed": "completed", "done": "completed", "cancelled": "cancelled"}


class Found(NamedTuple):
    """What a piece of transcript shows; `read_to` is where the next piece begins.

    `commands` have `command` and, where it is known, `exit`. `open_calls` are commands whose end
    wasn't seen yet. `todos` is the last list, None where there was none.
    """

    read_to: int
    commands: tuple[Document, ...] = ()
    files: tuple[str, ...] = ()
    todos: tuple[Document, ...] | None = None
    used_tokens: int = 0
    open_calls: tuple[Document, ...] = ()


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


def look_at(data: bytes, read_to: int, open_calls: tuple[Document, ...] = ()) -> Found:
    """What the lines of a transcript show; lines that can't be read are passed over."""
    seen = _Seen(open_calls)
    for line in data.split(b"\n"):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict):
            seen.entry(cast("Document", entry))
    return Found(
        read_to,
        tuple(seen.commands),
        tuple(dict.fromkeys(seen.files)),
        seen.todos,
        seen.used_tokens,
        tuple({"id": id, **call} for id, call in seen.calls.items())[-20:],
    )


class _Seen:
    def __init__(self, open_calls: tuple[Document, ...]) -> None:
        self.commands: list[Document] = []
        self.files: list[str] = []
        self.todos: tuple[Document, ...] | None = None
        self.used_tokens = 0
        self.calls: dict[str, Document] = {
            str(call.get("id")): {"command": str(call.get("command", ""))} for call in open_calls
        }

    def entry(self, entry: Document) -> None:
        payload = entry.get("payload")
        if isinstance(payload, dict):
            self.codex(cast("Document", payload))
            return
        message = entry.get("message")
        if isinstance(message, dict):
            self.claude(cast("Document", message), counts=entry.get("isSidechain") is not True)

    def claude(self, message: Document, *, counts: bool) -> None:
        if counts:
            self.usage(message.get("usage"))
        content = message.get("content")
        for block in cast("list[object]", content) if isinstance(content, list) else []:
            if not isinstance(block, dict):
                continue
            part = cast("Document", block)
            if part.get("type") == "tool_use":
                self.claude_tool(part, _object(part.get("input")))
            elif part.get("type") == "tool_result":
                self.claude_result(part)

    def claude_tool(self, part: Document, given: Document) -> None:
        name = part.get("name")
        if name == "Bash":
            self.begin(part.get("id"), given.get("command"))
        elif name in _EDITS:
            self.edited(given.get("file_path") or given.get("notebook_path"))
        elif name == "TodoWrite":
            self.plan(given.get("todos"), "content")

    def claude_result(self, part: Document) -> None:
        text = _plain(part.get("content"))
        found = _FAILED.match(text)
        if part.get("is_error") is True:
            self.end(part.get("tool_use_id"), int(found[1]) if found else None, failed=True)
        else:
            self.end(part.get("tool_use_id"), 0)

    def codex(self, payload: Document) -> None:
        kind = payload.get("type")
        if kind == "function_call":
            given = _object(payload.get("arguments"))
            self.codex_call(payload.get("name"), payload.get("call_id"), given)
        elif kind == "local_shell_call":
            command = _object(payload.get("action")).get("command")
            self.begin(payload.get("call_id"), _joined(command))
        elif kind == "custom_tool_call" and payload.get("name") == "apply_patch":
            self.patched(payload.get("input"))
        elif kind in ("function_call_output", "custom_tool_call_output"):
            self.end(payload.get("call_id"), _exit_code(payload.get("output")))
        elif kind == "token_count":
            info = _object(payload.get("info"))
            self.usage(info.get("last_token_usage"))

    def codex_call(self, name: object, id: object, given: Document) -> None:
        if name in _SHELLS:
            command = _joined(given.get("command") or given.get("cmd"))
            self.begin(id, command)
            self.patched(command)
        elif name == "update_plan":
            self.plan(given.get("plan"), "step")
        elif name == "apply_patch":
            self.patched(given.get("input") or given.get("patch"))

    def begin(self, id: object, command: object) -> None:
        if isinstance(command, str) and command.strip() and isinstance(id, str):
            self.calls[id] = {"command": command.strip()[:_MAX_COMMAND]}

    def end(self, id: object, code: int | None, *, failed: bool = False) -> None:
        call = self.calls.pop(id, None) if isinstance(id, str) else None
        if call is None:
            return
        known = {"exit": code} if code is not None else {}
        self.commands.append({**call, **known, **({"failed": True} if failed else {})})

    def edited(self, path: object) -> None:
        if isinstance(path, str) and path:
            self.files.append(path)

    def patched(self, text: object) -> None:
        if isinstance(text, str) and "*** " in text:
            self.files += [name.strip() for name in _PATCHED.findall(text)]

    def plan(self, listed: object, key: str) -> None:
        if not isinstance(listed, list):
            return
        entries = [_object(each) for each in cast("list[object]", listed)]
        self.todos = tuple(
            {"text": each[key][:500], "status": _DONE.get(str(each.get("status")), "open")}
            for each in entries
            if isinstance(each.get(key), str) and each[key].strip()
        )

    def usage(self, usage: object) -> None:
        given = _object(usage)
        names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        counts = [given.get(name) for name in (*names, "output_tokens")]
        total = sum(each for each in counts if type(each) is int and 0 <= each < 10**12)
        self.used_tokens = total or self.used_tokens


def _object(value: object) -> Document:
    """An object, also one that is spelled as text; empty for anything else."""
    if isinstance(value, str) and value.startswith("{"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return cast("Document", value) if isinstance(value, dict) else {}


def _joined(command: object) -> str:
    """A command as text; of a shell's arguments, the script alone."""
    if isinstance(command, str):
        return command
    if not isinstance(command, list):
        return ""
    words = [str(word) for word in cast("list[object]", command)]
    if len(words) == 3 and words[1] in ("-lc", "-c"):
        return words[2]
    return " ".join(words)


def _plain(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = cast("list[object]", content) if isinstance(content, list) else []
    texts = [_object(block).get("text") for block in blocks]
    return "\n".join(text for text in texts if isinstance(text, str))


def _exit_code(output: object) -> int | None:
    """How a command of Codex ended, in any of the forms that its releases have written."""
    given = _object(output)
    code = _object(given.get("metadata")).get("exit_code", given.get("exit_code"))
    if type(code) is int:
        return code
    text = output if isinstance(output, str) else _plain(given.get("content", given.get("output")))
    found = _ENDED.search(text[:2000])
    return int(found[1]) if found else None

"""What one line of a transcript shows, in the dialects of Claude Code, Codex and Gemini CLI. Pure.

Hosts change their lines between releases: what isn't understood counts as left out.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

Document = dict[str, Any]

_MAX_COMMAND = 300
_MAX_TODO = 500
_FAILED = re.compile(r"\A(?:Error: )?Exit code:? (-?[0-9]{1,5})")
_ENDED = re.compile(
    r"(?:Process exited with code|Exit [Cc]ode:|exit code:|exited with code) (-?[0-9]{1,5})"
)
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
_NUMBERED = re.compile(r"#([0-9]{1,9})\b")
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
_GONE = "deleted"


class Seen:
    """What was seen so far; beside it what earlier pieces left open."""

    def __init__(
        self,
        open_calls: tuple[Document, ...] = (),
        todos: tuple[Document, ...] = (),
        used_tokens: int = 0,
    ) -> None:
        self.commands: list[Document] = []
        self.files: list[str] = []
        self.used_tokens = used_tokens
        self.has_shrunk = False
        self.understood = False
        self.calls: dict[str, Document] = {
            str(call.get("id")): {k: v for k, v in call.items() if k != "id"} for call in open_calls
        }
        self._todos = list(todos)
        self._has_todos = False
        self._ended: set[str] = set()

    def begin(self, id: object, command: object) -> None:
        """A command was started; one that has ended is told again by some hosts."""
        if not isinstance(id, str) or id in self._ended:
            return
        if isinstance(command, str) and command.strip():
            self.calls[id] = {"command": command.strip()[:_MAX_COMMAND]}

    def end(self, id: object, code: int | None, *, failed: bool = False, text: str = "") -> None:
        """A call ended; one that made a todo gives it its number in `text`."""
        call = self.calls.pop(id, None) if isinstance(id, str) else None
        if call is None:
            return
        self._ended.add(str(id))
        if "todo" in call:
            self._number(str(call["todo"]), text, failed=failed)
            return
        known = {"exit": code} if code is not None else {}
        self.commands.append({**call, **known, **({"failed": True} if failed else {})})

    def edited(self, path: object) -> None:
        """A file was edited."""
        if isinstance(path, str) and path:
            self.files.append(path)

    def patched(self, text: object) -> None:
        """Files were edited by a patch in Codex's own form."""
        if isinstance(text, str) and "*** " in text:
            self.files += [name.strip() for name in _PATCHED.findall(text)]

    def plan(self, listed: object, key: str) -> None:
        """The whole list of todos was written."""
        if not isinstance(listed, list):
            return
        entries = [as_object(each) for each in cast("list[object]", listed)]
        self._has_todos = True
        self._todos = [
            {"text": each[key][:_MAX_TODO], "status": _status(each.get("status"))}
            for each in entries
            if isinstance(each.get(key), str) and each[key].strip()
        ]

    def add_todo(self, id: object, text: object) -> None:
        """One todo was made; its number comes with the end of the call."""
        if isinstance(text, str) and text.strip() and isinstance(id, str):
            self.calls[id] = {"todo": text.strip()[:_MAX_TODO]}

    def _number(self, todo: str, text: str, *, failed: bool) -> None:
        found = _NUMBERED.search(text)
        if not failed:
            number = {"number": found[1]} if found else {}
            self._has_todos = True
            self._todos.append({"text": todo, "status": "open", **number})

    def mark_todo(self, number: object, status: object) -> None:
        """One todo was changed."""
        if not isinstance(status, str):
            return
        self._has_todos = True
        kept = [t for t in self._todos if status != _GONE or t.get("number") != str(number)]
        self._todos = [
            {**todo, "status": _status(status)} if todo.get("number") == str(number) else todo
            for todo in kept
        ]

    def listed_todos(self) -> tuple[Document, ...] | None:
        """The todos as they are now; None where nothing was said of them."""
        return tuple(self._todos) if self._has_todos else None

    def usage(self, *counts: object) -> None:
        """How many tokens the last turn had: much fewer than the one before is a compaction."""
        total = sum(each for each in counts if type(each) is int and 0 <= each < 10**12)
        if total:
            self.has_shrunk |= total * 2 < self.used_tokens
            self.used_tokens = total


def _status(status: object) -> str:
    return _DONE.get(str(status), "open")


def hear(seen: Seen, entry: Document) -> None:
    """Take in one line of a transcript, whoever wrote it."""
    payload, message = entry.get("payload"), entry.get("message")
    if isinstance(payload, dict):
        seen.understood = True
        _codex(seen, cast("Document", payload))
    elif isinstance(message, dict):
        seen.understood = True
        _claude(seen, cast("Document", message), counts=entry.get("isSidechain") is not True)
    elif entry.get("type") == "gemini":
        seen.understood = True
        _gemini(seen, entry)


def _claude(seen: Seen, message: Document, *, counts: bool) -> None:
    if counts:
        usage = as_object(message.get("usage"))
        names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        seen.usage(*(usage.get(name) for name in (*names, "output_tokens")))
    for part in _objects(message.get("content")):
        if part.get("type") == "tool_use":
            _claude_tool(seen, part, as_object(part.get("input")))
        elif part.get("type") == "tool_result":
            _claude_result(seen, part)


def _claude_tool(seen: Seen, part: Document, given: Document) -> None:
    name = part.get("name")
    if name == "Bash":
        seen.begin(part.get("id"), given.get("command"))
    elif name in _EDITS:
        seen.edited(given.get("file_path") or given.get("notebook_path"))
    elif name == "TodoWrite":
        seen.plan(given.get("todos"), "content")
    elif name == "TaskCreate":
        seen.add_todo(part.get("id"), given.get("subject"))
    elif name == "TaskUpdate":
        seen.mark_todo(given.get("taskId"), given.get("status"))


def _claude_result(seen: Seen, part: Document) -> None:
    text = _plain(part.get("content"))
    if part.get("is_error") is True:
        found = _FAILED.match(text)
        seen.end(part.get("tool_use_id"), int(found[1]) if found else None, failed=True)
    else:
        seen.end(part.get("tool_use_id"), 0, text=text)


def _codex(seen: Seen, payload: Document) -> None:
    kind = payload.get("type")
    if kind == "function_call":
        given = as_object(payload.get("arguments"))
        _codex_call(seen, payload.get("name"), payload.get("call_id"), given)
    elif kind == "local_shell_call":
        command = as_object(payload.get("action")).get("command")
        seen.begin(payload.get("call_id"), _joined(command))
    elif kind == "custom_tool_call" and payload.get("name") == "apply_patch":
        seen.patched(payload.get("input"))
    elif kind in ("function_call_output", "custom_tool_call_output"):
        seen.end(payload.get("call_id"), _exit_code(payload.get("output")))
    elif kind == "token_count":
        usage = as_object(as_object(payload.get("info")).get("last_token_usage"))
        seen.usage(usage.get("input_tokens"), usage.get("output_tokens"))


def _codex_call(seen: Seen, name: object, id: object, given: Document) -> None:
    if name in _SHELLS:
        command = _joined(given.get("command") or given.get("cmd"))
        seen.begin(id, command)
        seen.patched(command)
    elif name == "update_plan":
        seen.plan(given.get("plan"), "step")
    elif name == "apply_patch":
        seen.patched(given.get("input") or given.get("patch"))


def _gemini(seen: Seen, entry: Document) -> None:
    """A line of Gemini CLI; it writes one again when the calls in it have ended."""
    tokens = as_object(entry.get("tokens"))
    seen.usage(tokens.get("input"), tokens.get("output"))
    for call in _objects(entry.get("toolCalls")):
        name, given = call.get("name"), as_object(call.get("args"))
        if name == "run_shell_command":
            seen.begin(call.get("id"), given.get("command"))
            if call.get("result") is not None:
                _gemini_result(seen, call)
        elif name in ("write_file", "replace"):
            seen.edited(given.get("file_path"))
        elif name == "write_todos":
            seen.plan(given.get("todos"), "description")


def _gemini_result(seen: Seen, call: Document) -> None:
    failed = call.get("status") in ("error", "cancelled")
    found = _ENDED.search(json.dumps(call["result"])[:4000])
    code = int(found[1]) if found else None
    if code is None and not failed:
        code = 0
    seen.end(call.get("id"), code, failed=failed)


def as_object(value: object) -> Document:
    """An object, also one that is spelled as text; empty for anything else."""
    if isinstance(value, str) and value.startswith("{"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return cast("Document", value) if isinstance(value, dict) else {}


def _objects(value: object) -> Iterator[Document]:
    for each in cast("list[object]", value) if isinstance(value, list) else []:
        if isinstance(each, dict):
            yield cast("Document", each)


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
    texts = [block.get("text") for block in _objects(content)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _exit_code(output: object) -> int | None:
    """How a command of Codex ended, in any of the forms that its releases have written."""
    given = as_object(output)
    code = as_object(given.get("metadata")).get("exit_code", given.get("exit_code"))
    if type(code) is int:
        return code
    text = output if isinstance(output, str) else _plain(given.get("content", given.get("output")))
    found = _ENDED.search(text[:2000])
    return int(found[1]) if found else None

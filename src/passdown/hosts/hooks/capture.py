"""What a session did, read from its transcript and from git, kept as a draft handoff.

Transcripts of Claude Code, Codex and Gemini CLI are read in bounded parts, from where the last one
ended. Hosts change their lines between releases: a line that isn't understood is skipped.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from passdown.core.kinds import STOPS
from passdown.core.names import path_problems
from passdown.core.redaction import redact
from passdown.hosts.definitions import GEMINI
from passdown.hosts.hooks.files import (
    MAX_COMMANDS,
    MAX_FILES,
    MAX_SUBAGENTS,
    MAX_TODOS,
    HookSession,
    make_folder,
    read_own_file,
    replace_own_file,
)
from passdown.workspace.repository import ChangedFile, changed_since, touched_since

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import ModuleType

    from passdown.core.types import JsonObject
    from passdown.hosts.hooks.protocol import HookCall


_LONGEST = {"command": 300, "todo": 500}
_FAILED = re.compile(r"\A(?:Error: )?Exit code:? (-?[0-9]{1,5})")
_ENDED = re.compile(
    r"(?:Process exited with code|Exit [Cc]ode:|exit code:|exited with code) (-?[0-9]{1,5})"
)
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
_NUMBERED = re.compile(r"#([0-9]{1,9})\b")
_SHELLS = "shell exec_command shell_command local_shell container.exec unified_exec"
_TOOLS: dict[str, tuple[str, tuple[str, ...]]] = {
    **dict.fromkeys(("Bash", "run_shell_command", "bash"), ("run", ("command",))),
    **dict.fromkeys(_SHELLS.split(), ("run", ("command", "cmd"))),
    **dict.fromkeys(
        ("Edit", "Write", "MultiEdit", "NotebookEdit"), ("edit", ("file_path", "notebook_path"))
    ),
    **dict.fromkeys(("write_file", "replace"), ("edit", ("file_path",))),
    **dict.fromkeys(("edit", "write"), ("edit", ("filePath",))),
    "apply_patch": ("patch", ("input", "patch", "patchText")),
    **dict.fromkeys(("TodoWrite", "todowrite", "write_todos"), ("plan", ("todos",))),
    "update_plan": ("plan", ("plan",)),
    "TaskCreate": ("todo", ("subject",)),
    "TaskUpdate": ("mark", ("taskId",)),
}
"""What a tool of any host does, and the fields that say with what."""
_DONE = {"completed": "completed", "done": "completed", "cancelled": "cancelled"}
_GONE = "deleted"


class TranscriptReader:
    """What new lines of a transcript show, on top of what earlier parts left open.

    `commands` have `command` and, where it is known, `exit`. `calls` are commands whose end wasn't
    seen yet, by id. `has_shrunk`: the context became much smaller on the way. `understood`: at
    least one line was.
    """

    def __init__(self, session: HookSession) -> None:
        self.commands: list[JsonObject] = []
        self.files: list[str] = []
        self.todos = list(session.todos)
        self.used_tokens = session.used_tokens
        self.has_shrunk = False
        self.understood = False
        self.calls: dict[str, JsonObject] = {
            str(call.get("id")): {k: v for k, v in call.items() if k != "id"}
            for call in session.open_calls
        }
        self._ended: set[str] = set()

    def read(self, data: bytes) -> None:
        """Read lines in any host's form; what can't be read is skipped."""
        for line in data.split(b"\n"):
            entry = as_object(line)
            payload, message = entry.get("payload"), entry.get("message")
            if isinstance(payload, dict):
                _codex(self, cast("JsonObject", payload))
            elif isinstance(message, dict) and entry.get("type") in ("user", "assistant"):
                is_main = entry.get("isSidechain") is not True
                _claude(self, cast("JsonObject", message), is_main=is_main)
            elif entry.get("type") == "gemini":
                _gemini(self, entry)
            elif isinstance(entry.get("tool"), str):
                _opencode(self, entry)
            else:
                continue
            self.understood = True

    def use(self, name: object, id: object, given: JsonObject) -> None:
        """A tool was called; one that isn't known is left out."""
        does, fields = _TOOLS.get(str(name), ("", ()))
        value = next((given[field] for field in fields if given.get(field)), None)
        if does == "run":
            command = _joined(value)
            self.begin(id, command)
            self.patched(command)
        elif does == "edit":
            self.files += [value] if isinstance(value, str) else []
        elif does == "patch":
            self.patched(value)
        elif does == "plan":
            self.plan(value)
        elif does == "todo":
            self.begin(id, value, "todo")
        elif does == "mark":
            self.mark_todo(value, given.get("status"))

    def begin(self, id: object, command: object, kind: str = "command") -> None:
        """A command was started, or a todo is made (its number comes with the end of the call).

        Some hosts repeat a call that has ended.
        """
        if isinstance(id, str) and id not in self._ended and isinstance(command, str):
            text = command.strip()[: _LONGEST[kind]]
            if text:
                self.calls[id] = {kind: _redacted_line(text)}

    def end(self, id: object, code: int | None, *, failed: bool = False, text: str = "") -> None:
        """A call ended; one that made a todo gives it its number in `text`."""
        call = self.calls.pop(id, None) if isinstance(id, str) else None
        if call is None:
            return
        self._ended.add(str(id))
        if "todo" not in call:
            known = {"exit": code} if code is not None else {}
            self.commands.append({**call, **known, **({"failed": True} if failed else {})})
        elif not failed:
            found = _NUMBERED.search(text)
            number = {"number": found[1]} if found else {}
            self.todos.append({"text": call["todo"], "status": "open", **number})

    def patched(self, text: object) -> None:
        """Files were edited by a patch in Codex's own form."""
        if isinstance(text, str) and "*** " in text:
            self.files += [name.strip() for name in _PATCHED.findall(text)]

    def plan(self, listed: object) -> None:
        """The whole list of todos was written."""
        if not isinstance(listed, list):
            return
        todos: list[JsonObject] = []
        for each in map(as_object, cast("list[object]", listed)):
            texts = [each.get(key) for key in ("content", "step", "description")]
            text = next((text for text in texts if isinstance(text, str) and text.strip()), "")
            if text:
                status = _DONE.get(str(each.get("status")), "open")
                todos.append({"text": _redacted_line(text[: _LONGEST["todo"]]), "status": status})
        self.todos = todos

    def mark_todo(self, number: object, status: object) -> None:
        """One todo was changed."""
        if not isinstance(status, str):
            return
        kept = [t for t in self.todos if status != _GONE or t.get("number") != str(number)]
        self.todos = [
            {**t, "status": _DONE.get(status, "open")} if t.get("number") == str(number) else t
            for t in kept
        ]

    def usage(self, *counts: object) -> None:
        """How many tokens the last turn had: much fewer than the one before is a compaction."""
        total = sum(each for each in counts if type(each) is int and 0 <= each < 10**12)
        if total:
            self.has_shrunk |= total * 2 < self.used_tokens
            self.used_tokens = total


def _claude(seen: TranscriptReader, message: JsonObject, *, is_main: bool) -> None:
    if is_main:
        usage = as_object(message.get("usage"))
        names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        seen.usage(*(usage.get(name) for name in (*names, "output_tokens")))
    for part in _objects(message.get("content")):
        if part.get("type") == "tool_use":
            seen.use(part.get("name"), part.get("id"), as_object(part.get("input")))
        elif part.get("type") == "tool_result":
            text = _content_text(part.get("content"))
            failed = part.get("is_error") is True
            found = _FAILED.match(text) if failed else None
            code = (int(found[1]) if found else None) if failed else 0
            seen.end(part.get("tool_use_id"), code, failed=failed, text=text)


def _codex(seen: TranscriptReader, payload: JsonObject) -> None:
    kind, name, id = payload.get("type"), payload.get("name"), payload.get("call_id")
    if kind == "function_call":
        seen.use(name, id, as_object(payload.get("arguments")))
    elif kind == "local_shell_call":
        seen.use("local_shell", id, as_object(payload.get("action")))
    elif kind == "custom_tool_call":
        seen.use(name, id, {"input": payload.get("input")})
    elif kind in ("function_call_output", "custom_tool_call_output"):
        seen.end(id, _exit_code(payload.get("output")))
    elif kind == "token_count":
        usage = as_object(as_object(payload.get("info")).get("last_token_usage"))
        seen.usage(usage.get("input_tokens"), usage.get("output_tokens"))


def _gemini(seen: TranscriptReader, entry: JsonObject) -> None:
    """A line of Gemini CLI; it writes one again when the calls in it have ended."""
    tokens = as_object(entry.get("tokens"))
    seen.usage(tokens.get("input"), tokens.get("output"))
    for call in _objects(entry.get("toolCalls")):
        seen.use(call.get("name"), call.get("id"), as_object(call.get("args")))
        if call.get("result") is not None:
            found = _ENDED.search(json.dumps(call["result"])[:4000])
            failed = call.get("status") in ("error", "cancelled")
            code = int(found[1]) if found else None if failed else 0
            seen.end(call.get("id"), code, failed=failed)


def _opencode(seen: TranscriptReader, call: JsonObject) -> None:
    """A call that has ended, as our plugin sends it."""
    code, id = call.get("exit"), f"call {len(seen.commands)}"
    seen.use(call["tool"], id, as_object(call.get("input")))
    seen.end(id, code if type(code) is int else None, failed=call.get("status") == "error")


def as_object(value: object) -> JsonObject:
    """An object, also one that is spelled as text; empty for anything else."""
    if isinstance(value, str | bytes):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _objects(value: object) -> Iterator[JsonObject]:
    for each in cast("list[object]", value) if isinstance(value, list) else []:
        if isinstance(each, dict):
            yield cast("JsonObject", each)


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


def _content_text(content: object) -> str:
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
    text = (
        output
        if isinstance(output, str)
        else _content_text(given.get("content", given.get("output")))
    )
    found = _ENDED.search(text[:2000])
    return int(found[1]) if found else None


MAX_TRANSCRIPT_BYTES = 2_097_152
_MOST_OPEN = 20
_SAID = 500


def read_new_lines(path: str, read_to: int, limit: int = MAX_TRANSCRIPT_BYTES) -> tuple[bytes, int]:
    """The lines of a file behind a place, only whole ones, and where the next begin.

    Of more than `limit` bytes only the last are read. Raises OSError or ValueError where the file
    can't be read; a pipe or device is none.
    """
    from passdown.workspace.files import regular_file

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


def capture_session(session: HookSession, call: HookCall, root: str) -> tuple[HookSession, str]:
    """A session with what is new in its transcript, and why that couldn't be read, if so."""
    session = session.reading(call.transcript)
    if call.tools:
        new = call.tools[session.read_to :]
        data, end = "\n".join(map(json.dumps, new)).encode(), len(call.tools)
    elif not session.transcript:
        return session, ""
    else:
        try:
            data, end = read_new_lines(session.transcript, session.read_to)
        except (OSError, ValueError) as error:
            return session, f"transcript: {getattr(error, 'strerror', None) or error}"
    seen = TranscriptReader(session)
    seen.read(data)
    session = _with_work(session, seen, root)._replace(
        read_to=end,
        todos=tuple(seen.todos[:MAX_TODOS]),
        used_tokens=seen.used_tokens,
        open_calls=tuple({"id": id, **call} for id, call in seen.calls.items())[-_MOST_OPEN:],
    )
    if seen.has_shrunk and call.host == GEMINI.name:
        # It announces a compaction at every turn, and says nowhere that there was one.
        session = session._replace(compacted=True)
    return session, ""


def capture_subagent(session: HookSession, call: HookCall, root: str) -> HookSession:
    """A session with what one of its subagents did and said at its end."""
    if call.agent_transcript:
        seen = TranscriptReader(HookSession())
        with suppress(OSError, ValueError):
            seen.read(read_new_lines(call.agent_transcript, 0)[0])
        session = _with_work(session, seen, root)
    said = _redacted_line(call.message)[:_SAID]
    entry = {"agent": call.agent_type[:64] or "subagent", "said": said}
    return session._replace(subagents=(*session.subagents, entry)[-MAX_SUBAGENTS:])


def _with_work(session: HookSession, seen: TranscriptReader, root: str) -> HookSession:
    files = dict.fromkeys([*session.files, *relative_paths(root, seen.files)])
    return session._replace(
        commands=(*session.commands, *seen.commands)[-MAX_COMMANDS:],
        files=tuple(files)[-MAX_FILES:],
        understood=session.understood or seen.understood,
    )


def _redacted_line(text: str) -> str:
    """Text without secrets and without line breaks."""
    return redact(" ".join(text.split()))[0]


def relative_paths(root: str, paths: Iterable[str], system: ModuleType = os.path) -> list[str]:
    """Paths relative to the project, with slashes; those outside it, and our own, are left out.

    `system` is the module for the paths of the system that they come from.
    """
    found: list[str] = []
    for path in paths:
        full = system.normpath(system.join(root, path))
        for base in (root, system.realpath(root)):
            start = system.normcase(base + system.sep)
            if system.normcase(full).startswith(start) and len(full) < 1_024:
                found.append(full[len(start) :].replace(system.sep, "/"))
                break
    return [path for path in found if not path.startswith(".passdown/")]


def changed_files(session: HookSession, root: str, timeout_s: float) -> list[ChangedFile]:
    """The files that a session changed: as git has them, else those that its transcript edits."""
    found = changed_since(root, session.commit, session.started, timeout_s)
    if found is None:
        kept = {path for path in session.files if os.path.exists(os.path.join(root, path))}
        return [ChangedFile(p, "modify" if p in kept else "delete") for p in session.files]
    known = {each.path for each in found}
    # What git doesn't look at (ignored files) was edited all the same.
    more = [path for path in session.files if path not in known and _is_new(root, path, session)]
    return [*found, *(ChangedFile(path, "modify") for path in more)]


def _is_new(root: str, path: str, session: HookSession) -> bool:
    try:
        return touched_since(os.path.join(root, path), session.started)
    except OSError:
        return False


MAX_DRAFT_FILES = 100
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


def draft_text(
    task: str,
    agent: str,
    session: HookSession,
    changed: Iterable[ChangedFile],
    *,
    is_new: bool = False,
) -> str:
    """A handoff as far as it is known from outside; outcome and summary are missing.

    It begins with a digest of the rest, by which one that somebody worked on is known. With
    `is_new` it names the title of the task that it creates. Pure.
    """
    files = [each for each in changed if not path_problems(each.path, "")]
    open_todos = [todo for todo in session.todos if todo.get("status") == "open"]
    lines = [
        "# Complete this, then record it: passdown handoff FILE",
        "# outcome: completed | partial | failed | blocked",
        f"# stopped: {' | '.join(STOPS)} (with partial, if something ran out)",
        f"task: {_quoted(task)}",
        f"from_agent: {_quoted(agent)}",
        "# to_agent: who continues; completed without one completes the task",
        'summary: ""',
        *_listed(
            "artifacts",
            [f"{{path: {_quoted(f.path)}, change: {f.change}}}" for f in files[:MAX_DRAFT_FILES]],
        ),
        *(
            [f"# and {len(files) - MAX_DRAFT_FILES} more files"]
            if len(files) > MAX_DRAFT_FILES
            else []
        ),
        *_listed("suggested_next_steps", [f"step: {_quoted(t['text'])}" for t in open_todos]),
    ]
    if is_new or session.commands or session.subagents:
        lines.append("metadata:")
    if is_new:
        lines.append(f"  title: {_quoted(session.title)}")
    if session.commands or session.subagents:
        lines.append("  seen:")
        for name, entries in (("commands", session.commands), ("subagents", session.subagents)):
            lines += [f"    {name}:"] if entries else []
            lines += [f"      - {json.dumps(entry)}" for entry in entries]
    body = "\n".join(lines) + "\n"
    return f"{_HEAD}{_digest(body)}\n{body}"


def _listed(name: str, entries: list[str]) -> list[str]:
    return [f"{name}:", *(f"  - {entry}" for entry in entries)] if entries else []


def _quoted(text: str) -> str:
    # JSON in ASCII is YAML whatever the text holds.
    return json.dumps(text)


def _digest(body: str) -> str:
    """A checksum that tells edited drafts apart; loading `hashlib` would take too long here."""
    from binascii import crc32

    data = body.encode()
    return f"{crc32(data):08x}-{len(data)}"


def is_untouched(text: str) -> bool:
    """Whether a draft is as it was made."""
    head, _, body = text.partition("\n")
    if head == f"{_HEAD}{_digest(body)}":
        return True
    import hashlib  # for drafts of earlier releases

    return head == f"{_HEAD}{hashlib.sha256(body.encode()).hexdigest()[:16]}"


def write_draft(folder: str, task: str, text: str) -> bool:
    """Keep a draft, unless somebody has worked on the one that is there; gives whether it was kept.

    Raises OSError where it can't be written.
    """
    path = draft_file(folder, task)
    with suppress(FileNotFoundError):
        if not is_untouched(read_own_file(path, 4_194_304)):
            return False
    replace_own_file(path, text)
    return True


def archive_draft(folder: str, task: str) -> None:
    """Archive the draft of a task that was handed off; the last one is kept."""
    path = draft_file(folder, task)
    with suppress(OSError):
        make_folder(os.path.dirname(path))
        os.replace(path, path.removesuffix(".yaml") + ".used.yaml")

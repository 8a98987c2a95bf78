"""A host in miniature: calls hooks as hosts do, and writes the transcripts that they write."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

from tests.processes import run_python

Document = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]


class Heard(NamedTuple):
    """What a hook answered: the exit code, its two streams, and the first as JSON."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Document:
        return json.loads(self.out) if self.out.strip() else {}

    @property
    def context(self) -> str:
        """The context that Claude Code, Codex or Gemini CLI would take from it."""
        return self.json.get("hookSpecificOutput", {}).get("additionalContext", "")

    @property
    def request(self) -> str:
        """Why a stop is held up."""
        return self.json.get("reason", "")


def environment(**more: str) -> dict[str, str]:
    """The environment of a host, without anything that a developer may have set."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PASSDOWN_")}
    return {**kept, "PYTHONPATH": str(ROOT / "src"), **more}


def hook_command(host: str, event: str) -> list[str]:
    return [sys.executable, "-m", "passdown", "hook", host, event]


class Host:
    """A session of a host in a project."""

    def __init__(self, root: Path, name: str = "claude", session: str = "s-1") -> None:
        self.root = root
        self.name = name
        self.session = session
        self.env = environment()
        self.transcript = root.parent / f"{name}-{session}.jsonl"

    def fires(self, event: str, data: bytes | None = None, **fields: Any) -> Heard:
        """Run one hook; its input is what a host sends, or `data` as it is."""
        given = {"session_id": self.session, "cwd": str(self.root), "hook_event_name": event}
        if self.transcript.exists():
            given["transcript_path"] = str(self.transcript)
        body = json.dumps({**given, **fields}).encode() if data is None else data
        done = run_python(
            hook_command(self.name, event),
            input=body,
            cwd=self.root,
            env=self.env,
            capture_output=True,
            timeout=240,
            check=False,
        )
        return Heard(done.returncode, done.stdout.decode(), done.stderr.decode())

    def writes(self, *lines: Document) -> None:
        """Lines at the end of the transcript."""
        with self.transcript.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)

    @property
    def log(self) -> list[Document]:
        path = self.root / ".passdown/logs/hooks.log"
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def used(name: str, id: str, **given: Any) -> Document:
    """A line of Claude Code: its model calls a tool."""
    block = {"type": "tool_use", "id": id, "name": name, "input": given}
    return {"type": "assistant", "message": {"role": "assistant", "content": [block]}}


def resulted(id: str, text: str = "", *, failed: bool = False) -> Document:
    """A line of Claude Code: how a tool ended."""
    block = {"type": "tool_result", "tool_use_id": id, "content": text, "is_error": failed}
    return {"type": "user", "message": {"role": "user", "content": [block]}}

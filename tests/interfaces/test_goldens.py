"""What the command line takes and prints as JSON is what was recorded, verb by verb.

After an intended change, `python -m tests.interfaces.test_goldens` records it again.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from passdown import workspace
from passdown.cli.main import VERBS, main, parser_of

ARGUMENTS = Path(__file__).parent / "goldens" / "arguments.json"
OUTPUT = Path(__file__).parent / "goldens" / "output.json"

START = datetime(2026, 1, 9, 10, 0, tzinfo=UTC)
_FILES = {
    "src/login.py": "print('in')\n",
    "note.yaml": "task: T-1\nfrom_agent: coder\nto_agent: reviewer\noutcome: partial\n"
    "blockers:\n  - blocker: is this legal?\n    requires_human: true\n"
    "suggested_next_steps:\n  - step: ask\n",
    "T-9.md": "# T-9: Logout\n\n## Objective\n\nEnd a session.\n\n## Handoff\n\n```yaml\n"
    "from_agent: coder\noutcome: completed\nsummary: it ends\n"
    "suggested_next_steps:\n  - step: try it\n```\n",
    "notes/free.md": "# Notes\n\nWe decided to use Redis because logout has to be immediate.\n"
    "TODO: write the tests.\n",
    "bad.yaml": "task: T-1\noutcome: maybe\nblockers: [1]\n",
    "docs/adr/0001-use-redis.md": "# 1. Use Redis\n\n## Status\n\nAccepted\n\n"
    "## Context\n\nSessions.\n\n"
    "## Decision\n\nWe will use Redis.\n\n## Consequences\n\nOne more server.\n",
    "agents/coder.md": "# Coder\n\nYou write code.\n",
    "agents/planner.md": "# Planner\n\nYou plan.\n",
    "graph.json": '{"nodes": [{"id": "redis", "type": "component", '
    '"summary": "Keeps sessions"}], "edges": []}',
}

_WRITES = (
    "task new T-1 --title Login --criterion works --agent planner",
    "task new T-2 --title Tests --needs T-1 --phase testing --agent planner",
    "task set T-2 --description more --agent planner --expect-version 1",
    "decide JWT --why sessions --task T-1 --agent planner --tag auth,web --alternative cookies",
    "decide Redis --why logout --task T-1 --agent planner --supersedes T-1#d1 --path src/login.py",
    "note gotcha clock --mitigation convert --severity high --task T-1 --agent planner",
    "note pattern codes --location src/login.py --tag auth --task T-1 --agent planner",
    "handoff --task T-1 --from planner --to coder --outcome completed --phase implementing "
    "--file src/login.py --next write --dry-run",
    "handoff --task T-1 --from planner --to coder --outcome completed --phase implementing "
    "--file src/login.py --next write "
    "--decision a::b --gotcha c::d --question why --read src/login.py::see",
    "gate record T-1 --name lint --passed --agent coder",
    "warn T-1 mind-the-gap --agent coder",
    "mark T-1#q1 answered --reason because --agent coder",
    "handoff note.yaml --key k1",
    "handoff note.yaml --key k1",
    "handoff bad.yaml",
    "handoff bad.yaml --dry-run",
    "handoff --task T-1 --outcome blocked --from coder",
    "handoff --task T-404 --outcome completed --from coder",
    "ingest T-9.md --agent coder",
    "ingest T-9.md --agent coder",
    "migrate notes/free.md --dry-run --agent coder",
    "migrate notes/free.md --agent coder",
    "import docs/adr --agent kim --dry-run",
    "import docs/adr --agent kim",
    "knowledge add redis --type component --summary Sessions --tag auth --edge uses:T-1#d1 "
    "--agent kim",
    "knowledge add redis --tag web --agent kim",
    "knowledge add --file graph.json --agent kim",
    "knowledge forget redis --edge uses:T-1#d1 --agent kim",
)

_READS = (
    "task list",
    "task list --all",
    "task list --status open --phase testing --limit 1",
    "task show T-1",
    "task show T-404",
    "state T-1",
    "state T-1 --at 3",
    "state T-1 --as state-file",
    "state T-1 --as switch-artifact",
    "state T-1 --files",
    "state T-1 --budget 100",
    "state T-404",
    "summary T-1",
    "inbox reviewer",
    "log",
    "log T-1 --limit 2",
    "log T-1 --before 3",
    "log T-1 --briefs",
    "show T-1#d1",
    "show node:redis",
    "show redis",
    "show T-1#z1",
    "diff T-1 1 3",
    "diff T-1 1 99",
    "history T-1 src/login.py",
    "brief T-1 --agent reviewer --no-record",
    "brief T-1 --agent reviewer --budget 60 --counter chars4",
    "brief T-1 --agent reviewer --format yaml --no-record",
    "why T-1#d1 --agent reviewer",
    "context T-2",
    "context T-2 --for computed --complexity easy --explain",
    "context T-2 --for compact",
    "switch --task T-1 --to coder --no-record",
    "switch --task T-1 --to coder --profiles agents",
    "artifact save --task T-1 --to coder",
    "artifact list",
    "artifact list --agent coder",
    "rules list",
    "rules inject --session s1 --agent coder hello",
    "rules show keyword",
    "measure --personas agents --switches 3 --counter chars4",
    "recall clock --words",
    "recall redis --kind decision --task T-1 --words --live",
    "recall nothing --agent nobody --words",
    "embed --status",
    "graph show",
    "graph show --around T-1#d2 --depth 2",
    "graph near T-1#d2",
    "graph tagged auth",
    "graph about auth",
    "graph tags",
    "knowledge show redis",
    "knowledge pack T-1 --nodes 3",
    "knowledge sync --agent kim",
    "journal",
    "journal T-1",
    "audit",
    "gate list",
    "gate list T-1 --all",
    "gate approve T-1#k2 --by kim --reason fine",
    "gate reject T-1#k2 --by kim --reason late",
    "runs",
    "runs R-404",
    "agents",
    "express list",
    "express show x404",
    "verify",
    "verify --chain-only",
    "heads export",
    "backup copy.db",
    "export t1.passdown --task T-1",
    "import t1.passdown",
    "reindex",
    "doctor --no-start",
    "token new --agent coder --rights read",
    "token list --all",
    "draft T-2 --agent coder --print",
    "schema",
    "schema task",
    "schema state",
    "init --host claude --print",
    "init",
    "plugin plug --host claude",
    "state",
    "state T-1 --wrong",
    "nothing",
    "brief T-1 --budget 0",
    "measure --personas agents --task T-1",
)

# Keys, and so digests, are random; so are tokens.
_VARYING = (
    (r"sha256:[0-9a-f]{64}", "DIGEST"),
    (r'"key": "(cli-)?[0-9a-f]{32}"', '"key": "RANDOM"'),
    (r"pdt_[a-z0-9]+_[\w-]+", "TOKEN"),
    (r'"id": "[a-z0-9]{10}"', '"id": "TOKEN-ID"'),
    (r'"made": "[^"]*"', '"made": "TIME"'),
    (r'"ms": [\d.]+', '"ms": 0'),
)
# Of these, the fields alone: what they say is the business of other tests.
_SHAPES = ("brief", "switch", "measure", "schema", "doctor", "init", "plugin", "draft")
_LONG = 100


def recorded_arguments() -> dict[str, dict[str, Any]]:
    """Every verb with its arguments: how many values, whether it is required, the choices."""
    found: dict[str, dict[str, Any]] = {}
    for verb in VERBS:
        parser = parser_of(verb)
        for name in parser.subverbs or ("",):
            below = parser.below(name) if name else parser
            found[f"{verb} {name}".strip()] = {
                str(" ".join(action.option_strings) or action.metavar or action.dest): [
                    action.nargs,
                    action.required,
                    list(action.choices) if action.choices else None,
                ]
                for action in below.arguments
            }
    return found


def recorded_output(folder: Path) -> dict[str, Any]:
    """Exit code and JSON of every command, in order, in a project in this folder."""
    for name, text in _FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    opened, now = workspace.open, [START]

    def open_then(store: str, *, create: bool) -> workspace.Workspace:
        return opened(store, create=create, clock=lambda: now[0])

    found: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        for name in ("PASSDOWN_STORE", "PASSDOWN_AGENT", "COLUMNS"):
            patch.delenv(name, raising=False)
        patch.chdir(folder)
        patch.setattr(workspace, "open", open_then)
        run("init", folder)
        for number, command in enumerate((*_WRITES, *_READS), 1):
            now[0] += timedelta(minutes=1)
            found[f"{number:03} {command}"] = run(command, folder)
    return found


def run(command: str, folder: Path) -> Any:
    """One command with --json: its exit code, and what it printed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        code = main([*command.split(), "--json"])
    text = out.getvalue().replace(str(folder), "PROJECT")
    for pattern, word in _VARYING:
        text = re.sub(pattern, word, text)
    document = json.loads(text)
    if command.split(maxsplit=1)[0] in _SHAPES and code == 0:
        document["data"] = sorted(document["data"])
    return [code, _short(document)]


def _short(document: Any) -> Any:
    """A document whose long texts are left out."""
    if isinstance(document, dict):
        return {name: _short(value) for name, value in document.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(document, list):
        return [_short(value) for value in document]  # pyright: ignore[reportUnknownVariableType]
    return "..." if isinstance(document, str) and len(document) > _LONG else document


def test_the_arguments_of_every_verb_are_those_that_were_recorded() -> None:
    expected = json.loads(ARGUMENTS.read_text("utf-8"))
    found = json.loads(json.dumps(recorded_arguments()))
    for verb in {**expected, **found}:
        assert found.get(verb) == expected.get(verb), verb


def test_the_json_of_every_verb_is_what_was_recorded(tmp_path: Path) -> None:
    expected = json.loads(OUTPUT.read_text("utf-8"))
    found = recorded_output(tmp_path)
    assert list(found) == list(expected)
    for command, answer in found.items():
        assert answer == expected[command], command


def _record() -> None:
    ARGUMENTS.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        recorded = {
            ARGUMENTS: recorded_arguments(),
            OUTPUT: recorded_output(Path(folder).resolve()),
        }
    for path, document in recorded.items():
        lines = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in document.items())
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    _record()

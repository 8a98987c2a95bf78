"""Reading starts fast because it loads little."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown.relay.agents import AgentStates
from passdown.relay.relay_file import check_relay
from passdown.relay.runs import Runs

if TYPE_CHECKING:
    from pathlib import Path

HEAVY = {
    "anyio",
    "asyncio",
    "dataclasses",
    "dbos",
    "inspect",
    "logging",
    "mcp",
    "mcp_types",
    "numpy",
    "pathlib",
    "pydantic",
    "shutil",
    "subprocess",
    "tempfile",
    "tomllib",
    "urllib",
    "uuid",
    "yaml",
    "zipfile",
}


@pytest.mark.parametrize(
    "argv",
    [
        ["state", "T-1", "--json"],
        ["state", "T-1"],
        ["log", "--json"],
        ["show", "T-1#d1"],
        ["completion", "--offer", "bash", "--", "state", ""],
        ["inbox", "coder"],
        ["gate", "list"],
        ["brief", "T-1", "--no-record", "--agent", "reviewer"],
        ["why", "T-1#d1", "--agent", "reviewer"],
        ["recall", "clock", "--words"],
        ["graph", "show"],
        ["graph", "near", "T-1#d1", "--json"],
        ["graph", "about", "auth"],
        ["knowledge", "show", "T-1#d1"],
        ["journal", "T-1"],
        ["runs"],
        ["runs", "R-1"],
        ["runs", "--json"],
        ["agents"],
        ["agents", "--mermaid", "coder"],
        ["embed", "--status"],
        ["help"],
        ["help", "mcp"],
    ],
    ids=" ".join,
)
def test_reading_verbs_load_nothing_heavy(
    filled: Path, project_root: Path, argv: list[str]
) -> None:
    with passdown.open(str(filled)) as ws:
        relay: dict[str, Any] = {"relay": "x", "agents": {"a": {"runner": {"script": "s"}}}}
        relay["legs"] = [{"leg": "one", "agent": "a"}]
        Runs(ws).start(check_relay(relay), "T-1", by="eva")
        AgentStates(ws).move("a", "SETUP")
    source = (
        "import sys\nfrom passdown.cli.main import main\n"
        f"code = main({argv!r})\nimport json\n"
        "print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", source],
        env={"PYTHONPATH": str(project_root / "src"), "PATH": ""},
        cwd=filled,
        capture_output=True,
        text=True,
        check=False,
    )
    code, modules = json.loads(done.stderr)
    assert code == 0
    assert HEAVY & set(modules) == set()


def test_a_stop_opens_no_store_that_nobody_has_written_to_since(
    filled: Path, project_root: Path
) -> None:
    """Agents stop at every turn; what the last look at the store has found still holds."""
    subprocess.run(["git", "init", "-q"], cwd=filled, check=True)
    call = json.dumps({"session_id": "s", "cwd": str(filled)})

    def modules(event: str) -> set[str]:
        source = (
            "import sys, json\nfrom passdown.cli.main import main\n"
            f"assert main(['hook', 'claude', '{event}']) == 0\n"
            "print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
        )
        done = subprocess.run(
            [sys.executable, "-c", source],
            env={**os.environ, "PYTHONPATH": str(project_root / "src")},
            cwd=filled,
            input=call,
            capture_output=True,
            text=True,
            check=True,
        )
        return set(json.loads(done.stderr))

    assert "apsw" in modules("session-start")
    for event in ("prompt-submit", "stop", "stop"):
        assert {"apsw", "subprocess", "hashlib"} & modules(event) == set()
    with passdown.open(str(filled)) as ws:
        ws.warn("T-1", text="mind the gap", agent="a")
    assert "apsw" in modules("stop")
    assert "apsw" not in modules("stop")


SERVED = """
import sys
from passdown.cli.main import main
assert main(["mcp"]) == 0
print(sorted(sys.modules))
"""


@pytest.mark.parametrize("method", ["initialize", "tools/list"])
def test_the_mcp_server_answers_first_requests_without_anything_heavy(
    filled: Path, project_root: Path, method: str
) -> None:
    """Hosts send their first request to the model with the tools that they have by then."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x"}}
    sent: list[dict[str, Any]] = [{"id": 0, "method": "initialize", "params": hello}]
    if method != "initialize":
        sent += [{"method": "notifications/initialized"}, {"id": 1, "method": method}]
    done = subprocess.run(
        [sys.executable, "-c", SERVED],
        env={"PYTHONPATH": str(project_root / "src"), "PATH": ""},
        cwd=filled,
        input="".join(json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in sent),
        capture_output=True,
        text=True,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == sum("id" in each for each in sent)
    assert all("result" in answer for answer in answers)
    # What it prints itself goes to standard error: its output is the protocol's.
    modules = set(json.loads(done.stderr.replace("'", '"')))
    unneeded = {"apsw", "argparse", "passdown.mcp.tools", "passdown.workspace"}
    assert (HEAVY | unneeded) & modules == set()


@pytest.mark.parametrize(
    "argv",
    [
        ["handoff", "--task", "T-1", "--outcome", "completed", "--from", "reviewer"],
        ["decide", "--task", "T-1", "--agent", "a", "--why", "r", "s"],
        ["task", "new", "T-9", "--title", "t", "--agent", "a"],
    ],
    ids=" ".join,
)
def test_writing_verbs_load_no_pydantic(filled: Path, project_root: Path, argv: list[str]) -> None:
    source = (
        "import sys\nfrom passdown.cli.main import main\n"
        f"assert main({argv!r}) in (0, 1)\nprint('pydantic' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", source],
        env={"PYTHONPATH": str(project_root / "src"), "PATH": ""},
        cwd=filled,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "False"


def test_only_the_verb_that_is_asked_for_is_loaded(filled: Path, project_root: Path) -> None:
    source = (
        "import sys\nfrom passdown.cli.main import main\nmain(['inbox', 'coder'])\n"
        "print(*(m for m in sys.modules if m.startswith('passdown.cli.')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", source],
        env={"PYTHONPATH": str(project_root / "src"), "PATH": ""},
        cwd=filled,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {name.rpartition(".")[2] for name in done.stdout.splitlines()[-1].split()}
    assert loaded == {"main", "parsing", "output", "history", "session"}

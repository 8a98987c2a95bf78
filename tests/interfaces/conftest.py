"""A project folder with a workspace, and two ways to run the command line in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from passdown.cli.main import main
from tests.interfaces.running import Answer, Run, Start, filled_project
from tests.processes import Process, run_python

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with an empty workspace in it."""
    for name in ("PASSDOWN_STORE", "PASSDOWN_AGENT", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert main(["init"]) == 0
    return folder


@pytest.fixture
def cli(project: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command inside this process."""

    def run(*argv: str, code: int | None = 0) -> Answer:
        capsys.readouterr()
        result = main(argv)
        out, err = capsys.readouterr()
        answer = Answer(result, out, err)
        assert code is None or result == code, answer
        return answer

    return run


@pytest.fixture
def as_json(cli: Run) -> Callable[..., Any]:
    """Run a command with --json and give what it printed."""

    def run(*argv: str, code: int = 0) -> Any:
        return json.loads(cli(*argv, "--json", code=code).out)

    return run


@pytest.fixture
def program(project: Path) -> Run:
    """Run the real program in a process of its own."""

    def run(*argv: str, code: int | None = 0) -> Answer:
        done = run_python(
            [sys.executable, "-m", "passdown", *argv],
            cwd=project,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        answer = Answer(done.returncode, done.stdout, done.stderr)
        assert code is None or done.returncode == code, answer
        return answer

    return run


@pytest.fixture
def start(project: Path) -> Iterator[Start]:
    """Start the real program and don't wait for it; what still runs at the end is ended."""
    started: list[subprocess.Popen[str]] = []

    def run(*argv: str) -> subprocess.Popen[str]:
        process = Process(
            [sys.executable, "-m", "passdown", *argv],
            cwd=project,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        with process:
            process.kill()


@pytest.fixture
def filled(project: Path, cli: Run) -> Path:
    """The project with a task, decisions, notes, files, handoffs and a gate."""
    filled_project(project, cli)
    return project

"""A project folder with a workspace, and two ways to run the command line in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from passdown.cli.main import main
from tests.interfaces.running import Answer, Run, Start, data_of, filled_project
from tests.processes import Process, run_python

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[2]


SETTINGS = ("PASSDOWN_STORE", "PASSDOWN_AGENT", "COLUMNS")


@pytest.fixture(scope="session")
def empty_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an empty workspace, to be copied."""
    folder = tmp_path_factory.mktemp("prepared") / "empty"
    folder.mkdir()
    run_there(folder, "init")
    return folder


@pytest.fixture(scope="session")
def filled_folder(empty_project: Path) -> Path:
    """The same with a task, decisions, notes, files, handoffs and a gate."""
    folder = empty_project.with_name("filled")
    shutil.copytree(empty_project, folder)
    filled_project(folder, partial(run_there, folder))
    return folder


def run_there(folder: Path, *argv: str, code: int | None = 0) -> Answer:
    """Run a command in a folder."""
    with pytest.MonkeyPatch.context() as patch:
        for name in SETTINGS:
            patch.delenv(name, raising=False)
        patch.chdir(folder)
        assert main(argv) == code
    return Answer(0, "", "")


@pytest.fixture
def project(empty_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with an empty workspace in it."""
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "project"
    shutil.copytree(empty_project, folder)
    monkeypatch.chdir(folder)
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
        return data_of(cli(*argv, "--json", code=code).out)

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
def filled(project: Path, filled_folder: Path) -> Path:
    """The project with a task, decisions, notes, files, handoffs and a gate."""
    shutil.rmtree(project / ".passdown")
    shutil.copytree(filled_folder, project, dirs_exist_ok=True)
    return project

"""Hooks in a repository that means harm, or that is merely odd: nothing of it is run, nothing that
is somebody else's is written or removed, and no process is left.
"""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from tests.interfaces.hosting import Host
from tests.interfaces.repositories import git, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LIMIT_S = 100


@pytest.fixture
def repository(project: Path, need_program: Callable[[str], str]) -> Path:
    """A repository with one task, and a file that every filter and driver is meant for."""
    need_program("git")
    git(project, "init", "-q")
    (project / ".gitattributes").write_text("*.txt filter=x=y\n*.md filter=x diff=x\n", "utf-8")
    (project / "a.md").write_text("one\n", "utf-8")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "first")
    assert run(project, "task", "new", "T-1", "--title", "Login").code == 0
    return project


def _programs(repository: Path, program: str) -> None:
    """Settings of a repository that name a program wherever git would run one."""
    for name in (
        "filter.x.clean",
        "filter.x.process",
        "diff.x.textconv",
        "diff.x.command",
        "diff.external",
        "core.fsmonitor",
        "core.pager",
    ):
        git(repository, "config", name, program)


def _draft(repository: Path) -> str:
    return (repository / ".passdown/drafts/T-1.yaml").read_text("utf-8")


@pytest.mark.promise("H-14")
def test_programs_that_a_repository_names_are_not_run(repository: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    _programs(repository, f"touch '{ran}'; cat")
    host = Host(repository)
    host.fires("session-start", source="startup")
    (repository / "a.md").write_text("two\n", "utf-8")
    assert "T-1" in host.fires("stop").request
    assert '"a.md", change: modify' in _draft(repository)
    flags = ("--task", "T-1", "--outcome", "completed", "--file", "a.md", "--dry-run")
    assert run(repository, "handoff", *flags, "--changed-git").code == 0
    assert run(repository, "draft", "T-1").code == 0
    assert not ran.exists()


@pytest.mark.promise("H-14")
def test_a_filter_whose_name_no_option_can_hold_is_not_run(
    repository: Path, tmp_path: Path
) -> None:
    """`-c filter.x=y.clean=` would set something else and leave the filter on."""
    ran = tmp_path / "ran"
    (repository / "b.txt").write_text("one\n", "utf-8")
    git(repository, "add", "b.txt")
    git(repository, "commit", "-q", "-m", "second")
    with (repository / ".git/config").open("a", encoding="utf-8") as file:
        file.write(f'[filter "x=y"]\n\tclean = "touch \'{ran}\'; cat"\n')
    host = Host(repository)
    host.fires("session-start", source="startup")
    (repository / "b.txt").write_text("two\n", "utf-8")
    assert host.fires("stop").code == 0
    flags = ("--task", "T-1", "--outcome", "completed", "--file", "b.txt", "--dry-run")
    assert "'=' in its name" in run(repository, "handoff", *flags, "--changed-git").err
    assert run(repository, "export", str(tmp_path / "x"), "--task", "T-1", "--diff").code == 1
    assert not ran.exists()
    git(repository, "status")
    assert ran.exists(), "else this shows nothing"


FILTERS = {
    "included": "[include]\n\tpath = more\n",
    "older form": "[filter.x]\n\t{}\n",
    "after another": '[core][filter "x"] {}\n',
    "in capitals": '[FILTER "x"]\n\t{}\n',
    "quoted": '[filter "\\x"]\n\t{}\n',
}


@pytest.mark.promise("H-14")
@pytest.mark.parametrize("form", FILTERS)
def test_a_filter_is_not_run_however_its_settings_are_written(
    repository: Path, tmp_path: Path, form: str
) -> None:
    ran = tmp_path / "ran"
    clean = f"clean = \"touch '{ran}'; cat\""
    (repository / ".git/more").write_text(f'[filter "x"]\n\t{clean}\n', "utf-8")
    with (repository / ".git/config").open("a", encoding="utf-8") as file:
        file.write(FILTERS[form].format(clean))
    host = Host(repository)
    host.fires("session-start", source="startup")
    (repository / "a.md").write_text("two\n", "utf-8")
    assert "T-1" in host.fires("stop").request
    assert '"a.md", change: modify' in _draft(repository)
    assert not ran.exists()
    git(repository, "add", "a.md")
    assert ran.exists(), "else this shows nothing"


@pytest.mark.promise("H-14")
def test_programs_that_a_submodule_names_are_not_run(repository: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    inner = tmp_path / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / ".gitattributes").write_text("*.md filter=x\n", "utf-8")
    (inner / "i.md").write_text("one\n", "utf-8")
    git(inner, "add", "-A")
    git(inner, "commit", "-q", "-m", "first")
    git(repository, "submodule", "add", "-q", str(inner), "sub")
    git(repository, "commit", "-q", "-m", "second")
    _programs(repository / "sub", f"touch '{ran}'; cat")
    host = Host(repository)
    host.fires("session-start", source="startup")
    (repository / "sub/i.md").write_text("two\n", "utf-8")
    assert host.fires("stop").code == 0
    assert run(repository, "export", str(tmp_path / "x"), "--task", "T-1", "--diff").code == 0
    assert not ran.exists()


@pytest.mark.promise("H-14")
def test_what_git_started_ends_with_it(repository: Path, tmp_path: Path) -> None:
    """A git that takes too long is ended with its children, also while a prompt waits for it."""
    (repository / ".passdown/agents").mkdir()
    (repository / ".passdown/agents/reviewer.md").write_text("You read closely.", "utf-8")
    done = ("--task", "T-1", "--outcome", "completed", "--file", "a.md", "--from", "coder")
    done = (*done, "--to", "reviewer")
    assert run(repository, "handoff", *done).code == 0
    programs = tmp_path / "bin"
    programs.mkdir()
    mark = "600.25" + str(os.getpid())
    (programs / "git").write_text(f"#!/bin/sh\nsleep {mark}\necho\n", "utf-8")
    (programs / "git").chmod(0o755)
    host = Host(repository)
    host.fires("session-start", source="startup")
    host.env["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    assert host.fires("stop").code == 0
    assert "You read closely." in host.fires("prompt-submit", prompt="@reviewer look").context
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert mark not in listed.stdout


@pytest.mark.promise("H-14")
@pytest.mark.parametrize("name", ["hooks", "logs", "drafts"])
def test_a_folder_that_is_a_link_is_not_followed(
    repository: Path, tmp_path: Path, name: str
) -> None:
    """Somebody else's files are behind it: more of them than sessions are kept."""
    others = tmp_path / "others"
    others.mkdir()
    for number in range(900):
        (others / f"{number}.txt").write_text("mine", "utf-8")
    (others / "T-1.yaml").write_text("mine", "utf-8")
    (others / "hooks.log").write_text("mine", "utf-8")
    before = {path.name: path.read_text("utf-8") for path in others.iterdir()}
    (repository / ".passdown" / name).symlink_to(others)
    host = Host(repository)
    assert "Login" in host.fires("session-start", source="startup").context
    (repository / "new.py").write_text("1", "utf-8")
    for event in ("pre-compact", "subagent-stop", "stop", "session-end"):
        assert host.fires(event).code == 0
    if name == "drafts":
        refused = run(repository, "draft", "T-1")
        assert refused.code == 1
        assert "Traceback" not in refused.err
    assert {path.name: path.read_text("utf-8") for path in others.iterdir()} == before


@pytest.mark.promise("H-14")
def test_a_log_that_is_a_link_is_not_followed(repository: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("mine", "utf-8")
    (repository / ".passdown/logs").mkdir()
    (repository / ".passdown/logs/hooks.log").symlink_to(other)
    assert "Login" in Host(repository).fires("session-start", source="startup").context
    assert other.read_text("utf-8") == "mine"


@pytest.mark.promise("H-8")
@pytest.mark.parametrize("name", ["logs/hooks.log", "hooks/claude-s-1.json", "drafts/T-1.yaml"])
def test_a_pipe_in_the_place_of_a_file_keeps_nobody(repository: Path, name: str) -> None:
    pipe = repository / ".passdown" / name
    pipe.parent.mkdir(exist_ok=True)
    os.mkfifo(pipe)
    host = Host(repository)
    begun = time.monotonic()
    assert "Login" in host.fires("session-start", source="startup").context
    (repository / "new.py").write_text("1", "utf-8")
    assert host.fires("stop").code == 0
    assert time.monotonic() - begun < LIMIT_S
    assert "T-1" in run(repository, "doctor").out + run(repository, "task", "list").out

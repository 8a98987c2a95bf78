"""Agents in several worktrees of one repository, in submodules and nested folders: one store."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown.errors import NotFound
from passdown.workspace.location import locate
from tests.folders import new_folder
from tests.interfaces.mcp.talking import client, talk, told
from tests.interfaces.repositories import git
from tests.interfaces.repositories import run as run_in
from tests.interfaces.running import data_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mcp import Client


def committed(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "src").mkdir()
    (folder / "src" / name).write_text(name, "utf-8")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    return folder


@pytest.fixture
def repository(tmp_path: Path, need_program: Callable[[str], str]) -> Path:
    need_program("git")
    return committed(tmp_path / "shop", "a.py")


def run(folder: Path, *argv: str) -> str:
    """What the command line prints in a folder; it must not fail."""
    done = run_in(folder, *argv)
    assert done.code == 0, done.err
    return done.out


def tasks(folder: Path) -> list[str]:
    return [task["task"] for task in data_of(run(folder, "task", "list", "--json"))]


def made(folder: Path, task: str) -> None:
    with passdown.init(str(folder)) as ws:
        ws.create_task(task, title=task, agent="planner")


@pytest.mark.promise("M-8")
def test_a_linked_worktree_works_with_the_main_ones_store_and_its_own_files(
    repository: Path, tmp_path: Path
) -> None:
    made(repository, "T-1")
    other = tmp_path / "elsewhere" / "feature"
    git(repository, "worktree", "add", "-q", "-b", "feature", str(other))
    (other / "src" / "new.py").write_text("only here", "utf-8")
    nested = other / "src"
    given = ("--task", "T-1", "--outcome", "completed", "--file", "src/new.py")
    run(nested, "handoff", *given, "--summary", "Done there.")
    artifact = data_of(run(repository, "show", "T-1#a1", "--json"))
    assert artifact["sha256"] == hashlib.sha256(b"only here").hexdigest()
    assert not (other / ".passdown").exists()
    place = locate(str(nested), create=False)
    assert (place.root, place.folder) == (str(other), str(repository / ".passdown"))

    async def do(one: Client) -> None:
        assert "- T-1 (" in told(await one.call_tool("tasks", {})).text
        decision = {"summary": "x", "rationale": "y", "task": "T-1"}
        assert not told(await one.call_tool("decide", decision)).is_error

    talk(client(nested), do)
    assert data_of(run(repository, "state", "T-1", "--json"))["version"] == 3


@pytest.mark.promise("M-8")
def test_agents_in_four_worktrees_write_at_once_and_lose_nothing(
    repository: Path, tmp_path: Path
) -> None:
    made(repository, "T-1")
    folders = [repository]
    for name in ("one", "two", "three"):
        folders.append(repository / ".worktrees" / name if name == "one" else tmp_path / name)
        git(repository, "worktree", "add", "-q", "-b", name, str(folders[-1]))

    def work(number: int) -> None:
        for turn in range(3):
            words = (f"choice {number}/{turn}", "--why", "y", "--task", "T-1")
            run(folders[number], "decide", *words)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    with passdown.open(new_folder(tmp_path / "two")) as ws:
        assert len(ws.state("T-1").decisions) == 12
        assert ws.verify().ok


@pytest.mark.promise("M-8")
def test_a_store_made_in_a_linked_worktree_outlives_it(repository: Path, tmp_path: Path) -> None:
    """Git throws ignored files away with a worktree, without asking."""
    other = tmp_path / "feature"
    git(repository, "worktree", "add", "-q", "-b", "feature", str(other))
    said = run(other, "init")
    assert "kept in the main one" in said
    assert data_of(run(other, "init", "--json"))["made"] is False
    run(other, "task", "new", "T-1", "--title", "Login")
    git(repository, "worktree", "remove", str(other))
    assert tasks(repository) == ["T-1"]


def test_a_folder_that_the_main_worktree_lacks_belongs_to_its_top(
    repository: Path, tmp_path: Path
) -> None:
    other = tmp_path / "feature"
    git(repository, "worktree", "add", "-q", "-b", "feature", str(other))
    (other / "new").mkdir()
    run(other / "new", "init")
    assert locate(str(other / "new"), create=False).root == str(other)
    assert tasks(repository) == []


def test_a_repositorys_store_comes_before_one_that_is_above_the_worktree(
    repository: Path, tmp_path: Path
) -> None:
    made(tmp_path, "ABOVE")
    other = tmp_path / "feature"
    git(repository, "worktree", "add", "-q", "-b", "feature", str(other))
    assert tasks(other) == ["ABOVE"]
    made(repository, "T-1")
    assert tasks(other / "src") == ["T-1"]
    own = locate(str(other), create=False)._replace(
        folder=str(other / ".passdown"), url=f"sqlite:///{other}/.passdown/ledger.db"
    )
    os.mkdir(own.folder)
    with passdown.open(own.url) as ws:
        ws.create_task("OWN", title="OWN", agent="planner")
    assert tasks(other / "src") == ["OWN"]
    assert tasks(repository) == ["T-1"]


def test_a_submodule_has_the_store_of_what_it_is_part_of_unless_it_has_its_own(
    repository: Path, tmp_path: Path
) -> None:
    library = committed(tmp_path / "library", "b.py")
    git(repository, "submodule", "add", "-q", str(library), "lib")
    git(repository, "commit", "-q", "-m", "second")
    made(repository, "T-1")
    assert tasks(repository / "lib" / "src") == ["T-1"]
    made(repository / "lib", "L-1")
    assert tasks(repository / "lib" / "src") == ["L-1"]
    other = tmp_path / "library-feature"
    git(repository / "lib", "worktree", "add", "-q", "-b", "feature", str(other))
    assert tasks(other) == ["L-1"]


def test_worktrees_of_a_bare_repository_share_the_store_above_them(
    repository: Path, tmp_path: Path
) -> None:
    group = tmp_path / "group"
    git(tmp_path, "clone", "-q", "--bare", str(repository), str(group / ".bare"))
    (group / ".git").write_text("gitdir: ./.bare\n", "utf-8")
    for name in ("one", "two"):
        git(group, "worktree", "add", "-q", "-b", name, str(group / name))
    made(group, "T-1")
    assert [tasks(group / name) for name in ("one", "two")] == [["T-1"], ["T-1"]]


@pytest.mark.parametrize("is_known", [True, False], ids=["its own", "planted"])
def test_a_git_file_is_believed_only_where_its_repository_knows_it(
    repository: Path, tmp_path: Path, is_known: bool
) -> None:
    made(repository, "T-1")
    other = tmp_path / "feature"
    git(repository, "worktree", "add", "-q", "-b", "feature", str(other))
    planted = tmp_path / "unpacked"
    planted.mkdir()
    (planted / ".git").write_text((other / ".git").read_text("utf-8"), "utf-8")
    folder = other if is_known else planted
    target: dict[str, Any] = {"target": str(folder), "create": False}
    if is_known:
        assert locate(**target).folder == str(repository / ".passdown")
    else:
        with pytest.raises(NotFound):
            locate(**target)


@pytest.mark.parametrize(
    "content", ["", "gitdir: /nowhere", "gitdir: " + "x" * 9_000, "\x00", "gitdir:"]
)
def test_a_git_file_of_any_content_does_no_harm(tmp_path: Path, content: str) -> None:
    (tmp_path / ".git").write_text(content, "utf-8")
    with pytest.raises(NotFound):
        locate(str(tmp_path), create=False)
    made(tmp_path, "T-1")
    assert tasks(tmp_path) == ["T-1"]

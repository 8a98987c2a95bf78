"""Named files against a real git repository."""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from passdown.history.git import GitCheck, compare_with_git

if TYPE_CHECKING:
    from collections.abc import Callable


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=T", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=m")
    subprocess.run(
        ["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, timeout=240
    )


def put(folder: Path, path: str, text: str) -> str:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def repository(tmp_path: Path, need_program: Callable[[str], str]) -> Path:
    need_program("git")
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q")
    for name in ("a.py", "b.py", "sub dir/ü name.py", "gone.py", "old.py"):
        put(folder, name, name)
    put(folder, ".gitignore", "*.log\n.passdown/\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.promise("S2-30")
def test_files_that_git_and_the_record_agree_on(repository: Path) -> None:
    changed = put(repository, "b.py", "changed")
    new = put(repository, "new dir/file with 'quotes'.py", "new")
    staged = put(repository, "staged.py", "staged")
    git(repository, "add", "staged.py")
    named = {
        "a.py": sha("a.py"),
        "sub dir/ü name.py": None,
        "b.py": f"sha256:{changed}",
        "new dir/file with 'quotes'.py": new,
        "staged.py": staged,
    }
    assert compare_with_git(str(repository), named) == GitCheck(True, 5)


@pytest.mark.promise("S2-30")
def test_each_difference_has_its_reason(repository: Path) -> None:
    (repository / "gone.py").unlink()
    git(repository, "mv", "old.py", "renamed.py")
    put(repository, "b.py", "changed")
    log = put(repository, "out.log", "ignored")
    put(repository, "also new.txt", "x")
    outside = repository.parent / "outside.py"
    outside.write_text("x")
    (repository / "link.py").symlink_to(outside)
    named = {
        "a.py": sha("a.py"),
        "renamed.py": sha("old.py"),
        "gone.py": sha("gone.py"),
        "old.py": None,
        "b.py": sha("b.py"),
        "out.log": log,
        "../x.py": None,
        "link.py": None,
    }
    check = compare_with_git(str(repository), named)
    reasons = dict(check.differing)
    assert {path: reasons[path] for path in ("gone.py", "old.py", "b.py", "out.log")} == {
        "gone.py": "missing",
        "old.py": "missing",
        "b.py": "changed since it was recorded",
        "out.log": "git doesn't know it",
    }
    assert "parent folder" in reasons["../x.py"]
    assert "leads out of" in reasons["link.py"]
    assert set(named) - set(reasons) == {"a.py", "renamed.py"}
    assert check.unnamed == ("also new.txt",)
    assert (check.named, check.share, check.warns, check.problem) == (8, 0.75, True, "")


@pytest.mark.promise("S2-30")
def test_a_warning_is_due_above_a_fifth(repository: Path) -> None:
    named: dict[str, str | None] = {f"n{n}.py": put(repository, f"n{n}.py", "x") for n in range(5)}
    assert not compare_with_git(str(repository), named).warns
    (repository / "n0.py").unlink()
    fifth = compare_with_git(str(repository), named)
    assert (fifth.share, fifth.warns) == (0.2, False)
    (repository / "n1.py").unlink()
    assert compare_with_git(str(repository), named).warns


def test_nothing_named_is_nothing_different(repository: Path) -> None:
    put(repository, "x.py", "x")
    assert compare_with_git(str(repository), {}) == GitCheck(True, 0, unnamed=("x.py",))


def test_a_project_below_the_top_of_its_repository(repository: Path) -> None:
    put(repository, "elsewhere.py", "x")
    deep = put(repository, "sub dir/deep.py", "x")
    put(repository, "sub dir/.passdown/state/T-1.json", "{}")
    (repository / ".gitignore").write_text("*.log\n")
    root = repository / "sub dir"
    check = compare_with_git(str(root), {"deep.py": deep, "ü name.py": sha("sub dir/ü name.py")})
    assert check == GitCheck(True, 2)


def test_a_name_spelled_decomposed_is_the_same_name(repository: Path) -> None:
    name = "é.py"
    put(repository, unicodedata.normalize("NFD", name), "x")
    assert compare_with_git(str(repository), {name: sha("x")}) == GitCheck(True, 1)
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "second")
    assert compare_with_git(str(repository), {name: sha("x")}) == GitCheck(True, 1)


def test_patterns_in_a_name_are_taken_literally(repository: Path) -> None:
    put(repository, "*.log", "x")  # ignored, though the pattern would match what is tracked
    put(repository, "-a.py", "x")
    git(repository, "add", "--", "-a.py")
    git(repository, "commit", "-q", "-m", "second")
    check = compare_with_git(str(repository), {"*.log": None, "-a.py": None})
    assert check.differing == (("*.log", "git doesn't know it"),)


def test_a_name_that_is_no_text_does_no_harm(repository: Path) -> None:
    try:
        (Path(os.fsdecode(os.fsencode(repository) + b"/\xff.py"))).write_text("x")
    except OSError:
        pytest.skip("this disk refuses such names")
    check = compare_with_git(str(repository), {"a.py": None})
    assert check.unnamed == ("\\xff.py",)


@pytest.mark.promise("S2-30")
def test_without_a_repository_nothing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    check = compare_with_git(str(tmp_path), {"a.py": None})
    assert (check.is_repository, check.warns, check.named) == (False, False, 1)
    assert "not a git repository" in check.problem
    missing = compare_with_git(str(tmp_path / "nowhere"), {})
    assert (missing.is_repository, bool(missing.problem)) == (False, True)


def test_without_git_nothing_is_said(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(repository))
    check = compare_with_git(str(repository), {"a.py": None})
    assert (check.is_repository, check.warns) == (False, False)
    assert "can't be started" in check.problem


@pytest.mark.promise("S2-30")
def test_a_git_that_hangs_is_ended_with_all_it_started(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    fake = programs / "git"
    fake.write_text("#!/bin/sh\nsleep 60 &\nsleep 60\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    begin = time.monotonic()
    check = compare_with_git(str(repository), {"a.py": None}, timeout_s=0.3)
    assert time.monotonic() - begin < 60
    assert (check.is_repository, check.warns) == (False, False)
    assert check.problem == "git took longer than 0.3 s"


def test_git_is_asked_and_not_changed(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a hook nor a watcher runs, the index stays, and a hook's surroundings don't count."""
    trap = repository / ".git" / "trap"
    trap.write_text(f"#!/bin/sh\ntouch '{repository}/trapped'\n")
    trap.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(trap))
    (repository / "a.py").touch()
    index = (repository / ".git" / "index").read_bytes()
    (repository / "trapped").unlink(missing_ok=True)
    monkeypatch.setenv("GIT_DIR", str(repository / "nowhere"))
    assert compare_with_git(str(repository), {"a.py": sha("a.py")}) == GitCheck(True, 1)
    assert not (repository / "trapped").exists()
    assert (repository / ".git" / "index").read_bytes() == index

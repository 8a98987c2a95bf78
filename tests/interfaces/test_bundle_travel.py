"""A task travels in one file to another machine: another clone, another store, another agent."""

from __future__ import annotations

import json
import os
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown.core.checkout import Checkout, checkout_warning, read_checkout
from passdown.errors import InvalidInput
from tests.interfaces.hosting import Host
from tests.interfaces.mcp.talking import client, talk, told
from tests.interfaces.repositories import git, run
from tests.interfaces.running import data_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mcp import Client


@pytest.fixture
def here(tmp_path: Path, need_program: Callable[[str], str]) -> Path:
    """A repository with work on a branch: committed, uncommitted and new; one attempt failed."""
    need_program("git")
    folder = tmp_path / "here"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "app.py").write_text("one\n", "utf-8")
    (folder / "latin.txt").write_bytes(b"caf\xe9\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    git(tmp_path, "clone", "-q", str(folder), str(tmp_path / "there"))
    git(folder, "checkout", "-q", "-b", "feature")
    (folder / "app.py").write_text("two\n", "utf-8")
    git(folder, "commit", "-q", "-am", "second")
    (folder / "app.py").write_text("three\n", "utf-8")
    (folder / "latin.txt").write_bytes(b"caf\xe9s\n")
    (folder / "new file.py").write_text("new\n", "utf-8")
    with passdown.init(str(folder)) as ws:
        ws.create_task("T-1", title="Login", agent="planner", criteria=["it survives a reload"])
        ws.hand_off(
            {
                "task": "T-1",
                "from_agent": "claude",
                "outcome": "failed",
                "summary": "Sessions in memory: lost with every restart.",
                "blockers": [
                    {
                        "blocker": "the proxy drops cookies over 4 KB",
                        "suggested_resolution": "keep tokens small",
                    }
                ],
                "suggested_next_steps": [{"step": "try JWT"}],
            }
        )
        ws.hand_off(
            {
                "task": "T-1",
                "from_agent": "claude",
                "to_agent": "codex",
                "outcome": "partial",
                "summary": "JWT works; refresh is missing.",
                "decisions": [
                    {
                        "summary": "JWT in a cookie",
                        "rationale": "scripts cannot read it",
                        "alternatives": ["localStorage"],
                    }
                ],
                "artifacts": [{"path": "new file.py", "change": "created"}],
                "suggested_next_steps": [{"step": "add refresh tokens", "priority": "high"}],
                "blockers": [{"blocker": "no key for staging"}],
            }
        )
    return folder


@pytest.fixture
def there(here: Path, tmp_path: Path) -> Path:
    with passdown.init(str(tmp_path / "there")):
        pass
    return tmp_path / "there"


@pytest.mark.promise("M-9")
def test_another_agent_on_another_machine_goes_on_from_the_file_alone(
    here: Path, there: Path, tmp_path: Path
) -> None:
    bundle = tmp_path / "T-1.passdown"
    exported = run(here, "export", str(bundle), "--task", "T-1", "--diff")
    assert exported.code == 0, exported.err
    commit = git(here, "rev-parse", "HEAD")
    assert f"git: branch 'feature' at {commit[:10]}, with uncommitted changes to" in exported.out
    imported = run(there, "import", str(bundle), "--patch", str(tmp_path / "changes.patch"))
    assert imported.code == 0, imported.err
    for words in ("task/T-1", "3 records added", "branch 'feature' at", "here it is branch 'main'"):
        assert words in " ".join(imported.out.split()), imported.out
    brief = run(there, "brief", "T-1", "--agent", "codex", "--budget", "2000")
    for words in (
        "Sessions in memory: lost with every restart.",
        "JWT works; refresh is missing.",
        "add refresh tokens",
        "Over: localStorage",
        "it survives a reload",
    ):
        assert words in brief.out, brief.out
    assert f"this work was based on branch 'feature' at {commit[:10]}" in brief.err

    async def do(one: Client) -> None:
        said = told(await one.call_tool("brief", {"task": "T-1", "agent": "codex"})).text
        assert "this work was based on branch 'feature'" in said

    talk(client(there), do)
    for host in ("claude", "codex"):
        hosted = Host(there, host)
        said = hosted.fires("session-start", source="startup").context
        assert f"- note: git: this work was based on branch 'feature' at {commit[:10]}" in said
        said = hosted.fires("subagent-start", agent_type="Explore").context
        assert "this work was based on branch 'feature'" in said
        assert hosted.log[-1]["level"] == "ok"
    profiles = there / ".passdown/agents"
    profiles.mkdir()
    (profiles / "reviewer.md").write_text("You read code closely.", "utf-8")
    said = Host(there).fires("prompt-submit", prompt="@reviewer look").context
    assert "You read code closely." in said
    assert "this work was based on branch 'feature'" in said
    git(there, "fetch", "-q", str(here), "feature:feature")
    git(there, "checkout", "-q", "feature")
    git(there, "apply", str(tmp_path / "changes.patch"))
    for name in ("app.py", "latin.txt", "new file.py"):
        assert (there / name).read_bytes() == (here / name).read_bytes()
    git(there, "add", "app.py", "latin.txt", "new file.py")
    git(there, "commit", "-q", "-m", "third")
    done = ("--task", "T-1", "--from", "codex", "--outcome", "completed", "--summary", "All done.")
    assert run(there, "handoff", *done).code == 0
    assert run(there, "brief", "T-1", "--agent", "kim").err == ""
    assert "mind:" not in Host(there).fires("session-start", source="resume").context
    back = tmp_path / "back.passdown"
    assert run(there, "export", str(back), "--task", "T-1").code == 0
    assert "1 record added" in run(here, "import", str(back)).out
    assert run(here, "verify").code == 0
    assert run(there, "verify").code == 0


def test_where_nothing_differs_nothing_is_said(here: Path, there: Path, tmp_path: Path) -> None:
    git(here, "add", "app.py", "latin.txt", "new file.py")
    git(here, "commit", "-q", "-m", "third")
    git(there, "fetch", "-q", str(here), "feature:feature")
    git(there, "checkout", "-q", "feature")
    bundle = str(tmp_path / "b.passdown")
    assert data_of(run(here, "export", bundle, "--json").out)["git"]["uncommitted"] == 0
    imported = data_of(run(there, "import", bundle, "--json").out)
    assert imported["warnings"] == []
    assert imported["checkout"]["branch"] == "feature"
    assert run(there, "brief", "T-1", "--agent", "codex").err == ""


def test_the_file_has_the_tasks_name_unless_told_otherwise(here: Path) -> None:
    done = run(here, "export", "--task", "T-1")
    assert (done.code, "'T-1.passdown'" in done.out) == (0, False), "it is no change of the work's"
    assert (here / "T-1.passdown").is_file()
    refused = run(here, "export", "--task", "T-1")
    assert (refused.code, "File exists" in refused.err) == (1, True)


def test_a_secret_does_not_leave_with_the_changes(here: Path, tmp_path: Path) -> None:
    (here / "keys.py").write_text("token = 'ghp_" + "a1B2" * 9 + "'\n", "utf-8")
    bundle = tmp_path / "b.passdown"
    refused = run(here, "export", str(bundle), "--diff")
    assert refused.code == 1
    assert "looks like a secret" in refused.err
    assert not bundle.exists()
    assert run(here, "export", str(bundle)).code == 0


def test_making_a_bundle_changes_nothing_in_the_repository(here: Path, tmp_path: Path) -> None:
    (here / ".git" / "hooks" / "post-index-change").write_text("#!/bin/sh\ntouch ran\n", "utf-8")
    os.chmod(here / ".git" / "hooks" / "post-index-change", 0o755)
    asked = ("--no-optional-locks", "status", "--porcelain")
    before = git(here, *asked), (here / ".git" / "index").read_bytes()
    assert run(here, "export", str(tmp_path / "b.passdown"), "--diff").code == 0
    assert (git(here, *asked), (here / ".git" / "index").read_bytes()) == before
    assert not (here / "ran").exists()


def test_without_a_repository_or_a_commit_a_bundle_has_no_git_state(
    project: Path, tmp_path: Path
) -> None:
    bundle = tmp_path / "b.passdown"
    assert data_of(run(project, "export", str(bundle), "--json").out)["git"] is None
    refused = run(project, "export", str(tmp_path / "c.passdown"), "--diff")
    assert (refused.code, (tmp_path / "c.passdown").exists()) == (1, False)
    git(project, "init", "-q")
    made = run(project, "export", str(tmp_path / "d.passdown"), "--json")
    assert data_of(made.out)["git"] is None


def edited(bundle: Path, change: Callable[[dict[str, bytes]], None]) -> None:
    with zipfile.ZipFile(bundle) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def _patched(members: dict[str, bytes]) -> None:
    members["changes.patch"] += b"+evil\n"


def _unpatched(members: dict[str, bytes]) -> None:
    del members["changes.patch"]


def _stateless(members: dict[str, bytes]) -> None:
    manifest = json.loads(members["manifest.json"])
    del manifest["checkout"]
    members["manifest.json"] = json.dumps(manifest).encode()


def _moved(members: dict[str, bytes]) -> None:
    members["manifest.json"] = members["manifest.json"].replace(b'"feature"', b'"main"')


def _record(members: dict[str, bytes]) -> None:
    members["records.jsonl"] = members["records.jsonl"].replace(b"JWT works", b"JWT fails")


def _more(members: dict[str, bytes]) -> None:
    members["../up"] = b"x"


@pytest.mark.promise("M-9")
@pytest.mark.parametrize("change", [_patched, _unpatched, _stateless, _moved, _record, _more])
def test_a_bundle_that_was_altered_is_refused_whole(
    here: Path, there: Path, tmp_path: Path, change: Callable[[dict[str, bytes]], None]
) -> None:
    bundle, patch = tmp_path / "b.passdown", tmp_path / "p.patch"
    assert run(here, "export", str(bundle), "--task", "T-1", "--diff").code == 0
    edited(bundle, change)
    with passdown.open(str(there)) as ws:
        with pytest.raises(InvalidInput):
            ws.maintenance.import_bundle(str(bundle), patch=str(patch))
        assert ws.tasks() == []
    assert not patch.exists()


def test_a_patch_is_not_written_when_the_import_is_refused(
    here: Path, there: Path, tmp_path: Path
) -> None:
    bundle, patch = tmp_path / "b.passdown", tmp_path / "p.patch"
    run(here, "export", str(bundle), "--task", "T-1", "--diff")
    with passdown.open(str(there)) as ws:
        ws.create_task("T-1", title="Another", agent="kim")
        with pytest.raises(InvalidInput, match="refused"):
            ws.maintenance.import_bundle(str(bundle), patch=str(patch))
        assert not patch.exists()
        patch.write_text("mine", "utf-8")
        with pytest.raises(InvalidInput):
            ws.maintenance.import_bundle(str(bundle), fork="from-here", patch=str(patch))
        assert patch.read_text("utf-8") == "mine"
        found = ws.maintenance.import_bundle(str(bundle), fork="from-here")
        assert found.forked == {"task/T-1": "task/T-1.from-here"}
        warning = ws.brief("T-1.from-here", agent="codex").warnings[0]
        assert warning.code == "another_checkout"


STOOD: dict[str, Any] = Checkout("main", "a" * 40, 1, ("x.py",)).document()


@pytest.mark.parametrize(
    "change",
    [
        {"commit": "HEAD"},
        {"commit": 5},
        {"branch": None},
        {"files": "x.py"},
        {"files": [1]},
        {"files": ["x"] * 201, "uncommitted": 201},
        {"uncommitted": 0},
        {"uncommitted": True},
        {"uncommitted": 10**20},
        {"patch_sha256": "x"},
        {"branch": "x" * 5_000},
        {"more": 1},
    ],
    ids=str,
)
def test_a_git_state_that_is_none_is_refused(change: dict[str, Any]) -> None:
    assert read_checkout(STOOD).document() == STOOD
    with pytest.raises(InvalidInput):
        read_checkout({**STOOD, **change})


def test_hostile_names_stay_in_their_line() -> None:
    there = Checkout("x\x1b[2J\n# Orders", "a" * 40, 2, ("a\nIgnore all", "b\u202e"))
    warning = checkout_warning(there, None)
    assert warning is not None
    assert not {"\x1b", "\n", "\u202e"} & set(warning.line())

"""Artifacts: references with hash and size, their history, and what has become of the files."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown.errors import GateRefused, InvalidInput, NotFound
from passdown.testing import fixed_clock, full_handoff, write_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from passdown import HandoffCommand, Workspace


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    write_files(str(tmp_path))
    with passdown.open(str(tmp_path), clock=fixed_clock()) as workspace:
        workspace.create_task("T-1", title="Login", agent="planner")
        yield workspace


def hand_off(ws: Workspace, *paths: str, **fields: Any) -> HandoffCommand:
    artifacts = [{"path": path} for path in paths]
    return ws.hand_off({"task": "T-1", "outcome": "completed", "artifacts": artifacts, **fields})


@pytest.mark.promise("S1-3")
def test_an_artifact_is_a_reference_with_hash_and_size(ws: Workspace, tmp_path: Path) -> None:
    """Path, type, SHA-256 and size are recorded; the content is nowhere in the workspace."""
    secret_word = "xylophone-4711"
    write_files(str(tmp_path), {"src/new.py": f"{secret_word}\n", "docs/a.md": "", "x.toml": "a=1"})
    hand_off(ws, "src/new.py", "docs/a.md", "x.toml", "tests/test_jwt.py")
    found = {a["path"]: a for a in ws.files.state_document("T-1")["artifacts"]}
    assert {path: a["type"] for path, a in found.items()} == {
        "src/new.py": "source",
        "docs/a.md": "doc",
        "x.toml": "config",
        "tests/test_jwt.py": "test",
    }
    data = (tmp_path / "src" / "new.py").read_bytes()
    assert found["src/new.py"]["sha256"] == hashlib.sha256(data).hexdigest()
    assert found["src/new.py"]["size_bytes"] == len(data)
    assert found["docs/a.md"]["size_bytes"] == 0
    assert found["docs/a.md"]["sha256"] == hashlib.sha256(b"").hexdigest()
    ws.close()
    for path in (tmp_path / ".passdown").rglob("*"):
        if path.is_file():
            assert secret_word.encode() not in path.read_bytes()


@pytest.mark.promise("S1-4")
def test_changed_and_missing_files_are_reported(ws: Workspace, tmp_path: Path) -> None:
    """Each artifact is the same, changed or missing since the handoff that named it."""
    hand_off(ws, "src/auth/jwt.py", "src/config.py", "tests/test_jwt.py")
    assert {a.now for a in ws.artifacts("T-1")} == {"same"}
    write_files(str(tmp_path), {"src/config.py": "POOL = 5\n"})
    (tmp_path / "tests" / "test_jwt.py").unlink()
    now = {a.path: a.now for a in ws.artifacts("T-1")}
    assert now == {
        "src/auth/jwt.py": "same",
        "src/config.py": "changed",
        "tests/test_jwt.py": "missing",
    }
    with pytest.raises(NotFound):
        ws.artifacts("T-9")


@pytest.mark.promise("S1-4")
def test_a_deleted_file_is_the_same_while_it_stays_deleted(ws: Workspace, tmp_path: Path) -> None:
    """A file that a handoff deleted is as it was left; one that is back has changed."""
    hand_off(ws, "src/config.py")
    (tmp_path / "src" / "config.py").unlink()
    gone = {"path": "src/config.py", "lines": "all", "change_type": "delete", "description": "d"}
    hand_off(ws, files_modified=[gone])
    assert [a.now for a in ws.artifacts("T-1")] == ["same"]
    write_files(str(tmp_path), {"src/config.py": "back"})
    assert [a.now for a in ws.artifacts("T-1")] == ["changed"]


@pytest.mark.promise("S1-4")
def test_a_file_that_was_never_seen_is_missing(tmp_path: Path) -> None:
    """Where files needn't be on disk, one that isn't there is reported as missing, not the same."""
    settings = passdown.Settings(artifacts_on_disk=False)
    with passdown.open(str(tmp_path), settings=settings) as ws:
        ws.create_task("T-1", title="t", agent="a")
        hand_off(ws, "src/elsewhere.py")
        assert [a.now for a in ws.artifacts("T-1")] == ["missing"]


@pytest.mark.promise("S1-26", "P-4")
def test_a_path_named_again_updates_its_entry_and_keeps_its_history(
    ws: Workspace, tmp_path: Path
) -> None:
    """One entry per path, with the newest hash; every former one can be read."""
    hashes: list[str] = []
    for number in range(3):
        text = f"POOL = {number}\n"
        write_files(str(tmp_path), {"src/config.py": text})
        hashes.append(hashlib.sha256(text.encode()).hexdigest())
        hand_off(ws, "src/config.py", "src/auth/jwt.py", summary=f"step {number}")
    state = ws.files.state_document("T-1")
    assert sorted(a["path"] for a in state["artifacts"]) == ["src/auth/jwt.py", "src/config.py"]
    history = ws.files.history("T-1", "src/config.py")
    assert [(a.sha256, a.version) for a in history] == list(zip(hashes, (2, 3, 4), strict=True))
    assert ws.show(history[0].address).sha256 == hashes[0]
    assert ws.files.history("T-1", "src/none.py") == []
    (changed,) = [
        c for c in ws.diff("T-1", 2, 4).changed["artifacts"] if c["new"]["path"] == "src/config.py"
    ]
    assert (changed["old"]["sha256"], changed["new"]["sha256"]) == (hashes[0], hashes[2])


@pytest.mark.promise("S1-5")
def test_sizes_decide_what_fits_inline(ws: Workspace, tmp_path: Path) -> None:
    """Within a token budget as many files as possible are inline; the rest stay references."""
    sizes = {"src/a.py": 4, "src/b.py": 40, "src/c.py": 400, "src/d.py": 41}
    write_files(str(tmp_path), {path: "x" * size for path, size in sizes.items()})
    hand_off(ws, *sizes)
    plan = ws.files.inline_plan("T-1", 22)
    assert plan == {
        "budget_tokens": 22,
        "used_tokens": 22,
        "inline": ["src/a.py", "src/b.py", "src/d.py"],
        "references": ["src/c.py"],
    }
    assert ws.files.inline_plan("T-1", 21)["inline"] == ["src/a.py", "src/b.py"]
    assert ws.files.inline_plan("T-1", 0)["inline"] == []
    everything = ws.files.inline_plan("T-1", 10_000)
    assert (everything["references"], everything["used_tokens"]) == ([], 1 + 10 + 11 + 100)


@pytest.mark.promise("S3-3", "S3-4", "S1-3")
def test_file_lists_become_artifacts(ws: Workspace) -> None:
    """What a note says of created and changed files is kept with hash and size."""
    ws.hand_off(full_handoff())
    found = {a["path"]: a for a in ws.files.state_document("T-1")["artifacts"]}
    made, changed = found["src/auth/jwt.py"], found["src/config.py"]
    assert (made["change"], made["lines"], made["note"]) == (
        "created",
        "1-2",
        "Signs and checks tokens",
    )
    assert (changed["change"], changed["lines"]) == ("modify", "1-1")
    assert changed["note"].startswith("A larger pool")
    assert all(a["size_bytes"] > 0 and len(a["sha256"]) == 64 for a in found.values())


@pytest.mark.promise("S1-3", "P-7")
@pytest.mark.parametrize("is_windows", [False, True], ids=["posix", "as on Windows"])
def test_links_pipes_and_folders_are_no_artifacts(
    ws: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_windows: bool
) -> None:
    """What leads out of the project or isn't a file is refused without being read; on Windows too,
    where a file can't be opened relative to an open folder.
    """
    if is_windows:
        monkeypatch.setattr(os, "supports_dir_fd", set[object]())
    (tmp_path / "out").symlink_to("/etc")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "inside.py").symlink_to(tmp_path / "src" / "config.py")
    os.mkfifo(tmp_path / "pipe")
    for path, code in [
        ("out/passwd", "path_escapes_root"),
        ("pipe", "not_regular_file"),
        ("src", "not_regular_file"),
        ("loop", "not_regular_file"),
    ]:
        with pytest.raises(GateRefused) as caught:
            hand_off(ws, path)
        assert [(p.path, p.code) for p in caught.value.problems] == [("artifacts[0].path", code)]
    assert ws.state("T-1").version == 1
    hand_off(ws, "inside.py")
    assert ws.state("T-1").artifacts[0].size_bytes == 9


@pytest.mark.promise("S1-3")
def test_one_file_has_one_spelling(ws: Workspace, tmp_path: Path) -> None:
    """Composed and decomposed letters and extra dots name one artifact; listed twice is refused."""
    write_files(str(tmp_path), {"src/é.py": "x"})
    hand_off(ws, "src/e\u0301.py")
    hand_off(ws, "./src//\u00e9.py", summary="again")
    assert [a.path for a in ws.state("T-1").artifacts] == ["src/\u00e9.py"]
    with pytest.raises(InvalidInput, match="duplicate_path"):
        hand_off(ws, "src/config.py", "src/./config.py")

"""A store on a disk that can't be written is read, and says what a write would need."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import passdown
from passdown import Settings
from passdown.errors import StoreUnavailable
from tests.processes import run_python

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from passdown import Workspace

    Mount = Callable[[], Path]

QUICK = Settings(embedder="none")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    with passdown.open(str(folder), settings=QUICK) as ws:
        ws.create_task("T-1", title="Log in", agent="planner")
        decide(ws, "Sessions live in Redis")
    return folder


@pytest.fixture
def read_only(project: Path, tmp_path: Path) -> Iterator[Mount]:
    """Shows the project in a place where nothing can be written; that needs rights that not
    everyone has.
    """
    place = tmp_path / "mounted"
    place.mkdir()
    mounts: list[str] = []

    def mount() -> Path:
        for options in (["--bind", str(project)], ["-o", "remount,ro,bind"]):
            command = ["mount", *options, str(place)]
            made = subprocess.run(command, capture_output=True, text=True, check=False)
            if made.returncode:
                pytest.skip(f"nothing can be mounted: {made.stderr}")
            mounts[:] = [str(place)]
        return place

    yield mount
    for each in mounts:
        subprocess.run(["umount", each], check=True)


def decide(ws: Workspace, summary: str) -> str:
    return ws.decide(task="T-1", agent="planner", summary=summary, rationale="so").items[0]


def named(folder: Path) -> list[tuple[str, int]]:
    return sorted((str(p), p.stat().st_mtime_ns) for p in (folder / ".passdown").rglob("*"))


@pytest.mark.promise("S0-41")
def test_a_store_that_can_not_be_written_is_read(read_only: Mount, tmp_path: Path) -> None:
    place = read_only()
    before = named(place)
    with passdown.open(str(place), settings=QUICK) as ws:
        assert [found.address for found in ws.recall("redis")] == ["T-1#d1"]
        assert ws.show("T-1#d1").summary == "Sessions live in Redis"
        assert "Sessions live in Redis" in ws.brief("T-1", agent="coder").text
        assert ws.knowledge.graph(around=["T-1#d1"]).edges
        assert ws.knowledge.journal().schema
        assert ws.knowledge.audit().standing == {"decision": 1}
        assert ws.verify().findings == ()
        ws.maintenance.backup(str(tmp_path / "copy.db"))
        with pytest.raises(StoreUnavailable, match="read-only") as caught:
            decide(ws, "Another")
    assert "passdown backup FILE" in caught.value.next_step
    assert named(place) == before
    with passdown.open(f"sqlite:///{tmp_path / 'copy.db'}", settings=QUICK) as ws:
        assert decide(ws, "Another") == "T-1#d2"


@pytest.mark.promise("S0-41")
@pytest.mark.parametrize(
    "verb", ["recall redis --words", "journal", "verify", "doctor", "task list", "log T-1"]
)
def test_reading_verbs_work_there(read_only: Mount, verb: str) -> None:
    command = [sys.executable, "-m", "passdown", *verb.split()]
    ran = run_python(command, cwd=read_only(), capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_what_a_writer_keeps_in_its_log_is_read_too(project: Path, read_only: Mount) -> None:
    with passdown.open(str(project), settings=QUICK) as writer:
        decide(writer, "Logins are logged")
        with passdown.open(str(read_only()), settings=QUICK) as ws:
            assert len(ws.recall("sessions logins")) == 2
            decide(writer, "Logins are counted")
            assert len(ws.recall("sessions logins")) == 3


def test_a_log_that_can_not_be_read_there_is_named(project: Path, read_only: Mount) -> None:
    """A copy of the file and its log, without the index that a writer keeps of it."""
    ledger = project / ".passdown" / "ledger.db"
    with passdown.open(str(project), settings=QUICK) as ws:
        decide(ws, "Logins are logged")
        kept = {
            name: (ledger.parent / name).read_bytes() for name in ("ledger.db", "ledger.db-wal")
        }
    for name, data in kept.items():
        (ledger.parent / name).write_bytes(data)
    with pytest.raises(StoreUnavailable, match="in its log") as caught:
        passdown.open(str(read_only()), settings=QUICK)
    assert "Copy the folder" in caught.value.next_step
    with passdown.open(str(project), settings=QUICK) as ws:
        assert len(ws.recall("sessions logins")) == 2

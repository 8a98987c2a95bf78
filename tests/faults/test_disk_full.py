"""A full disk gives a clear error, loses nothing, and is over as soon as there is space again."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

import passdown
from passdown.errors import StoreUnavailable
from tests.faults.tools import (
    faults_of,
    make_store,
    read_acks,
    result_of,
    retried,
    start_worker,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one MiB; mounting it needs rights that not everyone has."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
        why = mounted.stderr.strip() if mounted.returncode else ""
    except FileNotFoundError:
        why = "there is no mount program"
    if why:
        pytest.skip(f"a small disk can't be mounted: {why}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.promise("P-1", "P-3")
def test_a_full_disk_loses_nothing(small_disk: Path, tmp_path: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(300_000))
    project = small_disk / "project"
    make_store(project, ["T-1"])
    acks = tmp_path / "acks"
    told = result_of(start_worker("disk_full", folder=str(project), acks=str(acks)))
    assert told["error"] == "StoreUnavailable"
    assert "full" in told["message"].lower() or "no space" in told["message"].lower()
    acked = read_acks(acks)
    assert len(acked) > 3
    left = [path.name for path in project.rglob("*.tmp")]
    assert left == []
    ballast.unlink()
    with passdown.open(str(project)) as ws:
        assert faults_of(ws, acked) == []
        again = write(ws, "T-1", told["key"])
        assert retried(ws, [again]) == []
        after = write(ws, "T-1", "h-after")
        assert faults_of(ws, [*acked, again, after]) == []


def test_one_workspace_goes_on_when_there_is_space_again(small_disk: Path) -> None:
    """The same object, without being opened again."""
    project = small_disk / "project"
    make_store(project, ["T-1"])
    with passdown.open(str(project)) as ws:
        ballast = small_disk / "ballast"
        fill(ballast)
        with pytest.raises(StoreUnavailable, match="full"):
            write_many(ws)
        ballast.unlink()
        after = write(ws, "T-1", "h-after")
        assert faults_of(ws, [after]) == []


def write_many(ws: passdown.Workspace) -> None:
    for number in range(300):
        write(ws, "T-1", f"h-{number}")


def fill(path: Path) -> None:
    """Write to a file until the disk has no space left."""
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            return

"""A backup taken while others write is whole, and has all that was acknowledged before it began."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

import pytest

import passdown
from passdown.errors import InvalidInput, PassdownError, StoreError
from tests.faults.tools import (
    Ack,
    lost_or_doubled,
    make_store,
    read_acks,
    soak_count,
    start_worker,
    state_of,
    write,
)
from tests.folders import new_folder

if TYPE_CHECKING:
    from pathlib import Path

WRITERS = 2


def check_backups(tmp_path: Path, count: int) -> None:
    project = tmp_path / "project"
    make_store(project, [f"T-{n}" for n in range(WRITERS)])
    files = [tmp_path / f"acks-{n}" for n in range(WRITERS)]
    workers = [
        start_worker(
            "loop",
            folder=str(project),
            acks=str(files[n]),
            tries=str(tmp_path / f"tries-{n}"),
            tasks=[f"T-{n}"],
            seed=n,
            name=str(n),
        )
        for n in range(WRITERS)
    ]
    before: list[Ack] = []
    try:
        while not all(file.exists() for file in files):
            assert all(worker.poll() is None for worker in workers)
            time.sleep(0.01)
        with passdown.open(str(project)) as ws:
            for number in range(count):
                before = [ack for file in files for ack in read_acks(file)]
                target = tmp_path / f"copy-{number}.db"
                assert ws.maintenance.backup(str(target)).ok
                check_copy(target, before)
                target.unlink()
        assert all(worker.poll() is None for worker in workers)
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
    after = [ack for file in files for ack in read_acks(file)]
    assert len(after) > len(before), "nobody wrote meanwhile"


def check_copy(target: Path, acks: list[Ack]) -> None:
    assert target.stat().st_mode & 0o777 == 0o600
    assert not list(target.parent.glob(target.name + "?*"))
    with passdown.open(str(target), create=False) as copy:
        assert copy.verify().ok
        assert lost_or_doubled(copy, acks) == []
    for ending in ("-wal", "-shm"):
        target.with_name(target.name + ending).unlink(missing_ok=True)


@pytest.mark.promise("P-1")
def test_backups_under_load_are_whole(tmp_path: Path) -> None:
    check_backups(tmp_path, 4)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_many_backups_under_load(tmp_path: Path) -> None:
    check_backups(tmp_path, soak_count("BACKUPS", 200))


def test_control_a_plain_copy_of_the_file_lacks_records(tmp_path: Path) -> None:
    """Copying the database file alone is no backup: what is in its log is missing."""
    project = tmp_path / "project"
    make_store(project, ["T-1"])
    with passdown.open(str(project)) as ws:
        acks = [write(ws, "T-1", f"h-{n}") for n in range(10)]
        copier = start_copy(project / ".passdown" / "ledger.db", tmp_path / "copy.db")
        try:
            with passdown.open(str(copier)) as copy:
                lost = lost_or_doubled(copy, acks)
        except PassdownError as error:
            lost = [str(error)]
    assert lost


def start_copy(source: Path, target: Path) -> Path:
    """Copy a file in another process: opening it in this one would drop the store's locks."""
    import subprocess

    subprocess.run(["cp", "-p", str(source), str(target)], check=True)
    return target


def test_a_backup_equals_its_source(tmp_path: Path) -> None:
    make_store(tmp_path / "project", ["T-1"])
    with passdown.open(new_folder(tmp_path / "project")) as ws:
        for number in range(5):
            write(ws, "T-1", f"h-{number}")
        steps: list[tuple[int, int]] = []
        ws.maintenance.backup(
            str(tmp_path / "copy.db"), lambda done, total: steps.append((done, total))
        )
        seen = state_of(ws)
    assert steps[-1][0] == steps[-1][1] > 0
    with passdown.open(str(tmp_path / "copy.db")) as copy:
        assert state_of(copy) == seen


def test_a_backup_can_be_put_in_the_place_of_the_store(tmp_path: Path) -> None:
    make_store(tmp_path / "project", ["T-1"])
    with passdown.open(new_folder(tmp_path / "project")) as ws:
        ack = write(ws, "T-1", "h-1")
        ws.maintenance.backup(str(tmp_path / "copy.db"))
    restored = tmp_path / "restored" / ".passdown"
    restored.mkdir(parents=True, mode=0o700)
    shutil.copy(tmp_path / "copy.db", restored / "ledger.db")
    with passdown.open(str(restored.parent)) as ws:
        assert lost_or_doubled(ws, [ack]) == []
        assert write(ws, "T-1", "h-2").version == 3


def test_an_existing_target_is_refused_and_left_alone(tmp_path: Path) -> None:
    make_store(tmp_path, ["T-1"])
    target = tmp_path / "taken.db"
    target.write_text("mine", "utf-8")
    with passdown.open(str(tmp_path)) as ws:
        with pytest.raises(InvalidInput, match="exists"):
            ws.maintenance.backup(str(target))
        assert target.read_text("utf-8") == "mine"
        with pytest.raises(InvalidInput, match="exist"):
            ws.maintenance.export(str(target))
        assert target.read_text("utf-8") == "mine"


@pytest.mark.parametrize("name", ["no/such/folder/copy.db", "project/.passdown/ledger.db/copy.db"])
def test_a_target_that_can_not_be_is_a_typed_error(tmp_path: Path, name: str) -> None:
    make_store(tmp_path / "project", ["T-1"])
    with passdown.open(new_folder(tmp_path / "project")) as ws:
        with pytest.raises((StoreError, InvalidInput)):
            ws.maintenance.backup(str(tmp_path / name))
        assert write(ws, "T-1", "h-1").version == 2


def test_of_two_backups_to_one_name_one_is_refused(tmp_path: Path) -> None:
    """The other one has the name by the time that the first is done; its copy stays."""
    for name in ("one", "two"):
        make_store(tmp_path / name, [name])
    target = str(tmp_path / "copy.db")
    with (
        passdown.open(str(tmp_path / "one")) as one,
        passdown.open(str(tmp_path / "two")) as two,
    ):
        done: list[bool] = []

        def meanwhile(_: int, __: int) -> None:
            if not done:
                done.append(two.maintenance.backup(target).ok)

        with pytest.raises(InvalidInput, match="taken"):
            one.maintenance.backup(target, meanwhile)
    assert done == [True]
    with passdown.open(target) as copy:
        assert [task.task for task in copy.tasks()] == ["two"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.db", "one", "two"]

"""Several writers on one task: one order, nothing lost, nothing doubled, every stale one told."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown.errors import Conflict
from passdown.store.sqlite import SqliteStore
from tests.faults.tools import (
    faults_of,
    handoff_for,
    make_store,
    read_acks,
    result_of,
    soak_count,
    start_worker,
    write,
)
from tests.folders import new_folder

if TYPE_CHECKING:
    from pathlib import Path

PROCESSES = 4


def run_compare_and_set(tmp_path: Path, count: int, **options: Any) -> tuple[list[Any], int]:
    """Several processes write to one task, each from the version it has read."""
    make_store(tmp_path / "project", ["T-1"])
    folder = str(tmp_path / "project")
    acks = tmp_path / "acks"
    workers = [
        start_worker(
            "compare_and_set",
            folder=folder,
            task="T-1",
            name=str(n),
            count=count,
            acks=str(acks),
            **options,
        )
        for n in range(PROCESSES)
    ]
    refused = sum(result_of(worker, 3600)["refused"] for worker in workers)
    return [json.loads(line) for line in acks.read_text("utf-8").splitlines()], refused


def stale_writes(acks: list[Any]) -> list[Any]:
    """Accepted writes that don't follow the version they were made from."""
    return [ack for ack in acks if ack[2] != ack[1] + 1]


def check_compare_and_set(tmp_path: Path, count: int) -> None:
    acks, refused = run_compare_and_set(tmp_path, count)
    total = PROCESSES * count
    assert refused > 0, "no writer was ever stale: the test shows nothing"
    assert stale_writes(acks) == []
    assert sorted(ack[2] for ack in acks) == list(range(2, total + 2))
    with passdown.open(new_folder(tmp_path / "project")) as ws:
        log = ws.log("T-1", limit=10**9)
        stored = {line.version: (line.digest, line.summary) for line in log}
        assert stored.keys() == set(range(1, total + 2))
        for key, seen, version, digest in acks:
            assert stored[version] == (digest, f"{key} after {seen}")
        decisions = Counter(d.summary for d in ws.state("T-1").decisions)
        assert decisions == Counter(f"{key} after {seen}" for key, seen, _, _ in acks)
        assert faults_of(ws, []) == []
        assert ws.maintenance.doctor().facts["state_files"]["current"] == 1


@pytest.mark.promise("P-2", "S1-17", "S1-32")
def test_no_update_of_one_task_is_lost(tmp_path: Path) -> None:
    check_compare_and_set(tmp_path, 10)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_no_update_of_one_task_is_lost_in_many(tmp_path: Path) -> None:
    check_compare_and_set(tmp_path, soak_count("UPDATES", 8_000) // PROCESSES)


def test_control_blind_writers_are_seen_to_be_stale(tmp_path: Path) -> None:
    """Without naming the version, the same run has writes that don't follow what was read."""
    acks, refused = run_compare_and_set(tmp_path, 6, blind=True)
    assert refused == 0
    assert stale_writes(acks) != []


@pytest.mark.promise("P-2", "S1-32")
def test_processes_on_tasks_of_their_own(tmp_path: Path) -> None:
    make_store(tmp_path / "project", [])
    acks = tmp_path / "acks"
    common = {"folder": str(tmp_path / "project"), "count": 8, "acks": str(acks), "create": True}
    workers = [start_worker("some", task=f"T-{n}", name=str(n), **common) for n in range(PROCESSES)]
    for worker in workers:
        result_of(worker)
    acked = read_acks(acks)
    assert len(acked) == PROCESSES * 8
    with passdown.open(new_folder(tmp_path / "project")) as ws:
        assert [task.version for task in ws.tasks()] == [9] * PROCESSES
        state_files = ws.maintenance.doctor().facts["state_files"]
        assert state_files == {
            "current": PROCESSES,
            "missing": 0,
            "old": 0,
            "edited": 0,
            "ahead": 0,
        }
        assert faults_of(ws, acked) == []


@pytest.mark.promise("S1-32")
def test_many_threads_share_one_workspace(tmp_path: Path) -> None:
    threads, count = 12, 6
    tasks = ["T-1", *(f"T-{n}" for n in range(0, threads, 2))]
    make_store(tmp_path / "project", tasks)
    acks = tmp_path / "acks"
    worker = start_worker(
        "threads", folder=str(tmp_path / "project"), threads=threads, count=count, acks=str(acks)
    )
    assert result_of(worker) == {"failures": []}
    acked = read_acks(acks)
    assert len(acked) == threads * count
    with passdown.open(new_folder(tmp_path / "project")) as ws:
        assert ws.task("T-1").version == 1 + threads // 2 * count
        state_files = ws.maintenance.doctor().facts["state_files"]
        assert state_files == {
            "current": len(tasks),
            "missing": 0,
            "old": 0,
            "edited": 0,
            "ahead": 0,
        }
        assert faults_of(ws, acked) == []


@pytest.mark.promise("P-2", "S1-17")
@pytest.mark.parametrize(("expected", "actual"), [(1, 3), (2, 3), (4, 3), (99, 3)])
def test_a_stale_writer_is_told_both_versions(tmp_path: Path, expected: int, actual: int) -> None:
    make_store(tmp_path, ["T-1"])
    with passdown.open(str(tmp_path)) as ws:
        write(ws, "T-1", "h-1")
        write(ws, "T-1", "h-2")
        before = ws.files.state_document("T-1")
        for key in (None, "h-3"):
            with pytest.raises(Conflict) as refused:
                ws.hand_off(handoff_for("T-1", "h-3"), key=key, expect_version=expected)
            assert (refused.value.expected, refused.value.actual) == (expected, actual)
            assert f"version {expected}" in str(refused.value)
            assert f"version {actual}" in str(refused.value)
        assert ws.files.state_document("T-1") == before


@pytest.mark.promise("P-3")
def test_two_processes_that_retry_one_key_write_one_record(tmp_path: Path) -> None:
    make_store(tmp_path / "project", ["T-1"])
    acks = tmp_path / "acks"
    common = {"folder": str(tmp_path / "project"), "task": "T-1", "acks": str(acks), "count": 15}
    workers = [start_worker("some", name="same", **common) for _ in range(3)]
    for worker in workers:
        result_of(worker)
    acked = read_acks(acks)
    assert set(Counter(acked).values()) == {3}
    with passdown.open(new_folder(tmp_path / "project")) as ws:
        assert ws.task("T-1").version == 16
        assert faults_of(ws, acked) == []


def test_a_reader_sees_one_moment(tmp_path: Path) -> None:
    make_store(tmp_path, ["T-1"])
    store = SqliteStore(str(tmp_path / ".passdown" / "ledger.db"))
    with passdown.open(str(tmp_path)) as ws, store.reading() as reader:
        before = reader.dump()
        write(ws, "T-1", "h-1")
        assert reader.dump() == before
        assert reader.totals() == (1, 1)
    with store.reading() as reader:
        assert reader.totals() == (1, 2)
    store.close()


@pytest.mark.promise("P-1")
@pytest.mark.parametrize("name", ["ledger.db", "ledger.db-shm", "ledger.db-wal"])
def test_the_store_is_no_artifact(tmp_path: Path, name: str) -> None:
    """Reading a store's files as artifacts would drop this process's locks on them."""
    make_store(tmp_path, ["T-1"])
    with passdown.open(str(tmp_path)) as ws:
        write(ws, "T-1", "h-1")
        handoff = {**handoff_for("T-1", "h-2"), "artifacts": [{"path": f".passdown/{name}"}]}
        assert not ws.check_handoff(handoff).ok

"""Opening a store: many at once, behind a frozen writer, half made, foreign, unsafe, forked."""

from __future__ import annotations

import json
import os
import signal
import stat
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import apsw
import pytest

import passdown
from passdown.core.settings import Settings
from passdown.errors import (
    Damaged,
    ForeignSchema,
    NewerSchema,
    PassdownError,
    StoreBusy,
    StoreError,
    StoreUnavailable,
    UnsafeStore,
)
from passdown.store.sqlite import SqliteStore
from passdown.store.sqlite.schema import rows
from tests.faults.tools import (
    faults_of,
    make_store,
    read_acks,
    result_of,
    seeded,
    soak_count,
    start_worker,
    write,
)

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

AT_ONCE = 8


def database(folder: Path) -> Path:
    return folder / ".passdown" / "ledger.db"


def open_at_once(folder: Path) -> None:
    """One round: eight processes open a store that isn't there yet, and write."""
    folder.mkdir()
    at = time.time() + 1.0
    workers = [
        start_worker("first_open", folder=str(folder), name=f"{n}", at=at) for n in range(AT_ONCE)
    ]
    results = [result_of(worker) for worker in workers]
    assert all(result["ok"] for result in results)
    with passdown.open(str(folder)) as ws:
        names = {task.task for task in ws.tasks(with_workspace=True)}
        assert names == {"workspace", *(f"own-{n}" for n in range(AT_ONCE))}
        common = [line.key for line in ws.log("workspace", limit=100)]
        assert sorted(common[:-1]) == [f"d-{n}" for n in range(AT_ONCE)]
        assert faults_of(ws, []) == []


@pytest.mark.promise("P-2", "S1-32")
def test_eight_processes_open_a_fresh_store_at_the_same_instant(tmp_path: Path) -> None:
    for number in range(2):
        open_at_once(tmp_path / str(number))


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_sixteen_hundred_first_opens(tmp_path: Path) -> None:
    for number in range(soak_count("OPENS", 1_600) // AT_ONCE):
        open_at_once(tmp_path / str(number))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A workspace with one task."""
    folder = tmp_path / "project"
    make_store(folder, ["T-1"])
    return folder


def holding(worker: subprocess.Popen[str]) -> int:
    """The process id of a worker that has taken the write lock."""
    assert worker.stdout is not None
    return json.loads(worker.stdout.readline())["holding"]


def wait_until_stopped(process: int) -> None:
    while Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "T":
        time.sleep(0.005)


@pytest.fixture
def frozen(project: Path) -> Iterator[int]:
    """The id of a process that is stopped in the middle of a write transaction."""
    worker = start_worker("hold", path=str(database(project)))
    process = holding(worker)
    if Path("/proc").is_dir():
        wait_until_stopped(process)
    yield process
    worker.kill()
    worker.communicate()


@pytest.mark.promise("S1-16")
def test_a_frozen_writer_is_named_after_the_time_limit(project: Path, frozen: int) -> None:
    limit = 1.0
    with passdown.open(str(project), settings=Settings(lock_timeout_s=limit)) as ws:
        began = time.monotonic()
        with pytest.raises(StoreBusy) as refused:
            write(ws, "T-1", "h-1")
        took = time.monotonic() - began
        assert limit * 0.95 <= took <= limit + 60
        assert f"process {frozen}" in str(refused.value)
        assert "stopped" in str(refused.value)
        assert ws.task("T-1").version == 1


@pytest.mark.promise("S1-16")
def test_a_writer_waits_for_thirty_seconds_by_default(
    project: Path, frozen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No setting says it; the clock of the wait goes by its pauses alone."""
    now = [0.0]

    def pause(seconds: float) -> None:
        now[0] += seconds

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=pause)
    with passdown.open(str(project)) as ws:
        monkeypatch.setattr("passdown.store.sqlite.errors.time", clock)
        with pytest.raises(StoreBusy, match=f"for 30 s .*process {frozen}"):
            write(ws, "T-1", "h-1")
    assert now[0] == pytest.approx(30, abs=0.001)


@pytest.mark.promise("S1-16")
def test_a_waiting_writer_backs_off_with_jitter(
    project: Path, frozen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pauses grow, each between half and all of its step; two writers don't wait in step."""
    assert frozen
    waits: list[list[float]] = []
    real = time.sleep

    def noted(seconds: float) -> None:
        waits[-1].append(seconds)
        real(seconds)

    monkeypatch.setattr("passdown.store.sqlite.errors.time.sleep", noted)
    for _ in range(2):
        waits.append([])
        with (
            passdown.open(str(project), settings=Settings(lock_timeout_s=1.0)) as ws,
            pytest.raises(StoreBusy),
        ):
            write(ws, "T-1", "h-1")
    for found in waits:
        steps = [min(0.0005 * 2**number, 0.05) for number in range(len(found))]
        shares = [pause / step for pause, step in zip(found[:-1], steps, strict=False)]
        assert len(found) > 12
        assert all(0.5 <= share <= 1 for share in shares), shares
        assert max(shares) - min(shares) > 0.2, "the same share of each step is no jitter"
        assert sum(found[8:12]) > 10 * sum(found[:4])
    assert waits[0] != waits[1]


def test_readers_do_not_wait_for_a_frozen_writer(project: Path, frozen: int) -> None:
    began = time.monotonic()
    with passdown.open(str(project), settings=Settings(lock_timeout_s=200)) as ws:
        assert ws.state("T-1").version == 1
        assert ws.verify().ok
        ws.maintenance.backup(str(project / "copy.db"))
    assert time.monotonic() - began < 100
    assert frozen


@pytest.mark.promise("S1-16")
def test_writing_works_at_once_after_a_frozen_writer_is_gone(project: Path, frozen: int) -> None:
    with passdown.open(str(project)) as ws:
        os.kill(frozen, signal.SIGKILL)
        began = time.monotonic()
        ack = write(ws, "T-1", "h-1")
        assert time.monotonic() - began < 60
        assert faults_of(ws, [ack]) == []


@pytest.mark.promise("S1-16")
def test_a_thread_that_gives_up_does_not_take_the_lock_away(project: Path) -> None:
    """Asking who holds a lock must not release it: closing a file drops a process's locks on it."""
    worker = start_worker("busy_thread", path=str(database(project)))
    assert worker.stdout is not None
    told = json.loads(worker.stdout.readline())["told"]
    assert "locked" in told[0]
    try:
        with (
            passdown.open(str(project), settings=Settings(lock_timeout_s=0.3)) as ws,
            pytest.raises(StoreBusy, match=f"process {worker.pid}"),
        ):
            write(ws, "T-1", "h-1")
    finally:
        worker.communicate("\n")
    assert worker.returncode == 0


def kill_during_open(folder: Path, delay: float) -> None:
    """Kill a process some time after it began to make a store; then the store must open."""
    folder.mkdir()
    worker = start_worker("first_open", folder=str(folder), name="x", at=0.0)
    while not (folder / ".passdown").exists() and worker.poll() is None:
        time.sleep(0.0005)
    time.sleep(delay)
    worker.kill()
    worker.communicate()
    with passdown.open(str(folder)) as ws:
        ws.create_task("T-1", title="after the kill", agent="planner")
        ack = write(ws, "T-1", "h-1")
        assert faults_of(ws, [ack]) == []
        facts = ws.maintenance.doctor().facts
    assert (facts["journal_mode"], facts["synchronous"]) == ("wal", "EXTRA")


def test_a_kill_during_the_first_open_leaves_a_store_that_opens(tmp_path: Path) -> None:
    rng = seeded("first open")
    for number in range(12):
        kill_during_open(tmp_path / str(number), rng.random() * 0.03)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_many_kills_during_the_first_open(tmp_path: Path) -> None:
    rng = seeded("first opens")
    for number in range(soak_count("FIRST_KILLS", 500)):
        kill_during_open(tmp_path / str(number), rng.random() * 0.05)


def raw(path: Path, *statements: str) -> None:
    """Change a database behind Passdown's back, and leave no log beside it."""
    connection = apsw.Connection(str(path))
    for statement in statements:
        rows(connection, statement)
    rows(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def refused_untouched(folder: Path, kind: type[PassdownError]) -> str:
    """Opening is refused with this error, and the file's bytes stay as they are."""
    path = database(folder)
    before = path.read_bytes()
    with pytest.raises(kind) as refused:
        passdown.open(str(folder))
    assert path.read_bytes() == before
    return str(refused.value)


@pytest.mark.promise("S1-19")
def test_a_newer_schema_is_refused_and_left_alone(project: Path) -> None:
    raw(database(project), "PRAGMA user_version = 99")
    words = refused_untouched(project, NewerSchema)
    assert "99" in words
    assert "newer release" in words


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE extra (a)",
        "CREATE VIEW extra AS SELECT * FROM records",
        "CREATE TRIGGER extra AFTER INSERT ON records BEGIN DELETE FROM inbox; END",
        "CREATE INDEX extra ON records (author)",
        "DROP TRIGGER records_stay",
        "ALTER TABLE inbox ADD COLUMN extra TEXT",
        "PRAGMA application_id = 7",
    ],
)
def test_an_altered_schema_is_refused_and_left_alone(project: Path, statement: str) -> None:
    raw(database(project), statement)
    refused_untouched(project, ForeignSchema)


def test_a_foreign_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    database(tmp_path).parent.mkdir(mode=0o700)
    raw(database(tmp_path), "CREATE TABLE theirs (a)", "INSERT INTO theirs VALUES (1)")
    database(tmp_path).chmod(0o600)
    assert "not a Passdown store" in refused_untouched(tmp_path, ForeignSchema)


@pytest.mark.promise("S1-19")
@pytest.mark.parametrize("content", [b"not a database at all" * 300, b"{}", b"\0" * 5000])
def test_what_is_no_database_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    database(tmp_path).parent.mkdir(mode=0o700)
    database(tmp_path).write_bytes(content)
    database(tmp_path).chmod(0o600)
    before = database(tmp_path).read_bytes()
    with pytest.raises((Damaged, StoreError)):
        passdown.open(str(tmp_path))
    assert database(tmp_path).read_bytes() == before


def test_a_folder_in_the_place_of_the_store_is_refused(tmp_path: Path) -> None:
    database(tmp_path).mkdir(parents=True, mode=0o700)
    database(tmp_path).parent.chmod(0o700)
    with pytest.raises(StoreError):
        passdown.open(str(tmp_path))


def test_a_pipe_in_the_place_of_the_store_is_refused(tmp_path: Path) -> None:
    database(tmp_path).parent.mkdir(mode=0o700)
    os.mkfifo(database(tmp_path), 0o600)
    with pytest.raises(StoreUnavailable, match="regular"):
        passdown.open(str(tmp_path))


@pytest.mark.parametrize(
    ("of", "mode"), [("ledger.db", 0o666), ("ledger.db", 0o620), (".", 0o777), (".", 0o770)]
)
def test_what_others_may_write_to_is_refused(project: Path, of: str, mode: int) -> None:
    (project / ".passdown" / of).chmod(mode)
    with pytest.raises(UnsafeStore, match="chmod"):
        passdown.open(str(project))


def test_new_files_are_private(project: Path) -> None:
    with passdown.open(str(project), settings=Settings(kept_versions=1)) as ws:
        for number in range(5):
            write(ws, "T-1", f"h-{number}")
        ws.maintenance.backup(str(project / "copy.db"))
        ws.maintenance.export(str(project / "bundle.zip"))
        made = [p for p in project.rglob("*") if p.name != ".gitignore"]
        assert any(p.name.endswith("-wal") for p in made)
        modes = {str(p): stat.S_IMODE(p.stat().st_mode) for p in made}
    wanted = {str(p): 0o700 if p.is_dir() else 0o600 for p in made if p.exists()}
    assert {p: oct(m) for p, m in modes.items() if p in wanted and m != wanted[p]} == {}


@pytest.mark.promise("S1-32")
def test_both_sides_of_a_fork_write_with_one_workspace(project: Path, tmp_path: Path) -> None:
    count = 20
    acks = tmp_path / "acks"
    worker = start_worker("fork", folder=str(project), acks=str(acks), count=count)
    assert result_of(worker) == {"child": 0}
    with passdown.open(str(project)) as ws:
        assert ws.task("T-1").version == 3 + 2 * count
        assert faults_of(ws, read_acks(acks)) == []


def test_a_connection_that_can_not_roll_back_is_not_used_again(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(str(database(project)))
    refuse: Callable[[object], bool] = lambda _: False  # noqa: E731
    monkeypatch.setattr("passdown.store.sqlite.store._roll_back", refuse)
    with pytest.raises(ZeroDivisionError), store.writing([]):
        raise ZeroDivisionError
    monkeypatch.undo()
    with store.writing([]) as writer:
        assert writer.head("task/T-1") is not None
    store.close()

"""What was acknowledged survives a power cut at any moment, on a disk that honours sync."""

from __future__ import annotations

import itertools
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import pytest

import passdown
from passdown import Settings
from passdown.core.kinds import task_of
from passdown.errors import PassdownError
from passdown.ledger.verification import verify
from passdown.ledger.writer import Entry, Ledger
from passdown.store.sqlite import SqliteStore
from tests.faults.cut_disk import Disk
from tests.faults.tools import seeded, soak_count, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from passdown import Workspace

Level = Literal["EXTRA", "NORMAL", "OFF"]

_numbers = itertools.count()
DATABASE = "/on-this-disk/ledger.db"


class Run(NamedTuple):
    """A disk with its log, and after how many entries of the log each write was acknowledged."""

    disk: Disk
    acks: list[tuple[int, str, str, str]]  # moment, stream, key, digest
    entries: dict[str, Entry]


def make_entries(folder: Path) -> list[Entry]:
    """Some real writes: two tasks, handoffs and decisions."""
    entries: list[Entry] = []
    with passdown.open(str(folder)) as ws:
        for task in ("T-1", "T-2"):
            ws.create_task(task, title=task, agent="planner", description="long " * 300)
        for number in range(5):
            write(ws, "T-1", f"h-{number}")
            write(ws, "T-2", f"d-{number}", "decide")
        with ws._context.store.reading() as reader:  # pyright: ignore[reportPrivateUsage]
            for record in reader.tail():
                task = task_of(record.stream) or ""
                body: dict[str, Any] = record.document()
                entries.append(Entry(task, record.kind, record.author, body, record.key))
    return entries


def chosen_level(folder: Path, durability: str = Settings().durability) -> Level:
    """The level that a workspace with this setting has its database at, not one named here."""
    with passdown.open(str(folder), settings=Settings(durability=durability)) as ws:
        facts = ws._context.store.facts()  # pyright: ignore[reportPrivateUsage]
        return cast("Level", facts["synchronous"])


def run_writes(entries: list[Entry], level: Level, *, lies: bool = False) -> Run:
    """Write everything to a new disk: with checkpoints on the way, and a restart in the middle."""
    name = f"cut-{next(_numbers)}"
    disk = Disk(name, DATABASE, lies=lies)
    acks: list[tuple[int, str, str, str]] = []
    half = len(entries) // 2
    for part in (entries[:half], entries[half:]):
        store = SqliteStore(DATABASE, vfs=name, exclusive=True, synchronous=level)
        connection = store._writer_connection()  # pyright: ignore[reportPrivateUsage]
        connection.wal_autocheckpoint(40)
        ledger = Ledger(store)
        for entry in part:
            record = ledger.append(entry).record
            acks.append((len(disk.log), record.stream, record.key, record.digest))
        store.close()
    disk.unregister()
    return Run(disk, acks, {entry.key: entry for entry in entries})


def cuts(run: Run, count: int, rounds: int) -> Iterator[tuple[int, dict[str, bytes], int]]:
    """(moment, files, number) of disk states: every moment of the log, several states each."""
    rng = seeded("cuts")
    seen: set[int] = set()
    number = 0
    for _ in range(rounds):
        for moment in range(len(run.disk.log) + 1):
            files = run.disk.after_cut(moment, rng)
            mark = hash((moment, *sorted(files.items())))
            if mark in seen:
                continue
            seen.add(mark)
            number += 1
            yield moment, files, number
            if number >= count:
                return


def faults_after(run: Run, moment: int, files: dict[str, bytes], folder: Path) -> list[str]:
    """What a store opened from these files lacks or shows that it may not."""
    for name, content in files.items():
        (folder / Path(name).name).write_bytes(content)
    path = folder / "ledger.db"
    path.chmod(0o600)
    try:
        store = SqliteStore(str(path))
        try:
            found = [f"damage: {finding.line()}" for finding in verify(store).findings]
            with store.reading() as reader:
                for acked, stream, key, digest in run.acks:
                    record = reader.record_by_key(stream, key)
                    if acked <= moment and (record is None or record.digest != digest):
                        found.append(f"lost: {stream} {key}")
        finally:
            store.close()
    except PassdownError as error:
        found = [f"damage: {error}"]
    return found


def check_retry(run: Run, folder: Path) -> None:
    """Everything can be written again with its key, and is there once."""
    store = SqliteStore(str(folder / "ledger.db"))
    try:
        ledger = Ledger(store)
        for entry in run.entries.values():
            ledger.append(entry)
        assert verify(store).ok
        with store.reading() as reader:
            keys = Counter((record.stream, record.key) for record in reader.tail())
        assert set(keys.values()) == {1}
        assert len(keys) == len(run.entries)
    finally:
        store.close()


def count_faults(
    run: Run, scratch: Path, count: int, rounds: int = 1_000
) -> tuple[int, Counter[str]]:
    """(states tried, states with lost records or damage)."""
    tried = 0
    bad: Counter[str] = Counter()
    for moment, files, number in cuts(run, count, rounds):
        folder = scratch / str(number)
        folder.mkdir()
        found = faults_after(run, moment, files, folder)
        tried += 1
        bad.update({line.partition(":")[0] for line in found})
        if not found and number % 20 == 0:
            check_retry(run, folder)
        shutil.rmtree(folder)
    return tried, bad


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: these files need no real disk."""
    memory = Path("/dev/shm")
    folder = memory / f"passdown-cuts-{tmp_path.parent.name}-{tmp_path.name}"
    if not memory.is_dir():
        folder = tmp_path / "scratch"
    folder.mkdir(mode=0o700)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def entries(tmp_path: Path) -> list[Entry]:
    return make_entries(tmp_path)


@pytest.mark.promise("P-1")
def test_no_power_cut_loses_what_was_acknowledged(
    entries: list[Entry], scratch: Path, tmp_path: Path
) -> None:
    run = run_writes(entries, chosen_level(tmp_path))
    tried, bad = count_faults(run, scratch, 300)
    assert tried >= 200
    assert not bad


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_many_power_cuts(entries: list[Entry], scratch: Path, tmp_path: Path) -> None:
    count = soak_count("CUTS", 50_000)
    run = run_writes(entries, chosen_level(tmp_path))
    tried, bad = count_faults(run, scratch, count, rounds=count)
    assert tried == count
    assert not bad


def test_control_without_sync_records_are_lost(entries: list[Entry], scratch: Path) -> None:
    _, bad = count_faults(run_writes(entries, "OFF"), scratch, 150)
    assert bad["lost"] + bad["damage"] > 10


def test_control_a_lying_disk_loses_records(
    entries: list[Entry], scratch: Path, tmp_path: Path
) -> None:
    _, bad = count_faults(run_writes(entries, chosen_level(tmp_path), lies=True), scratch, 150)
    assert bad["lost"] + bad["damage"] > 10


def test_control_the_weaker_level_loses_the_last_moments(
    entries: list[Entry], scratch: Path, tmp_path: Path
) -> None:
    """`durability="normal"` may lose records, but never damages the chain."""
    _, bad = count_faults(run_writes(entries, chosen_level(tmp_path, "normal")), scratch, 300)
    assert bad["lost"] > 0
    assert bad["damage"] == 0


def _left_of(new: bytes, old: bytes) -> list[bytes | None]:
    """What a power cut may leave under the name of a file that was replaced without a sync."""
    cuts = range(0, len(new), max(len(new) // 12, 1))
    zeros = [new[:at] + b"\x00" * (len(new) - at) for at in cuts]
    return [None, old, new, *(new[:at] for at in cuts), *zeros]


@pytest.mark.promise("P-1", "P-9")
def test_no_interface_shows_a_wrong_state_after_a_power_cut(tmp_path: Path) -> None:
    """A state file isn't synced: it may be whole, old, torn or gone. Whoever is given its path
    finds the state that the ledger has, and what is read through the library always is that.
    """
    quiet = Settings(embedder="none")
    with passdown.open(str(tmp_path), settings=quiet) as ws:
        ws.create_task("T-1", title="Login", agent="planner")
        write(ws, "T-1", "h-0")
        path = tmp_path / ws.files.state_file("T-1")
        old = path.read_bytes()
        write(ws, "T-1", "h-1")
        new, expected = path.read_bytes(), ws.state("T-1").document
        summary = ws.context.summary("T-1")
    ways: list[Callable[[Workspace], object]] = [
        lambda ws: ws.brief("T-1", agent="coder", format="summary", record=False),
        lambda ws: ws.context.summary("T-1"),
        lambda ws: ws.files.state_file("T-1"),
        lambda ws: ws.maintenance.doctor(),
    ]
    for left in _left_of(new, old):
        for way in ways:
            path.unlink(missing_ok=True)
            if left is not None:
                path.write_bytes(left)
            with passdown.open(str(tmp_path), settings=quiet) as ws:
                assert ws.state("T-1").document == expected
                way(ws)
                assert path.read_bytes() == new
                assert ws.context.summary("T-1") == summary
    for kept in path.parent.glob("*.edited-*"):
        assert kept.read_bytes() == new[: kept.stat().st_size], "only a beginning is kept aside"

"""One failed system call, or a kill at one, never loses, never damages and never lies."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

import passdown
from passdown.errors import InvalidInput
from tests.faults.tools import (
    Ack,
    faults_of,
    make_store,
    read_acks,
    retried,
    soak_count,
    spread,
    write,
)
from tests.faults.traced import FAULTS, Call, Fault, Outcome, calls_of, run_with
from tests.folders import new_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STEPS = ("open", "hand_off", "backup", "import", "decide", "export", "reindex")
HOT = "hot-"  # before the name of a step: on a store whose last writer was killed
BEFORE = 5  # records of T-1 before an operation


class Templates(NamedTuple):
    """Folders that a run starts from, by step."""

    folder: Path

    def copy(self, step: str, target: Path) -> None:
        shutil.copytree(self.folder / step, target, symlinks=True)


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    base = tmp_path_factory.mktemp("templates")
    (base / "open").mkdir()
    make_store(base / "hand_off", ["T-1"])
    with passdown.open(new_folder(base / "hand_off")) as ws:
        for number in range(BEFORE - 1):
            write(ws, "T-1", f"h-{number}")
    make_store(base / "killed", ["T-1"])
    with passdown.open(new_folder(base / "killed")) as ws:
        for number in range(BEFORE - 1):
            write(ws, "T-1", f"h-{number}")
        # In another process: closing the files here would drop the store's locks.
        subprocess.run(["cp", "-rp", str(base / "killed"), str(base / "hot-hand_off")], check=True)
    for step in STEPS[2:]:
        shutil.copytree(base / "hand_off", base / step)
        shutil.copytree(base / "hot-hand_off", base / (HOT + step))
    make_store(base / "other", ["T-2"])
    with passdown.open(new_folder(base / "other")) as ws:
        for number in range(3):
            write(ws, "T-2", f"h-{number}")
        for step in ("import", "hot-import"):
            ws.maintenance.export(str(base / step / "other.zip"))
    return Templates(base)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in memory where there is one; its name is always equally long."""
    memory = Path("/dev/shm")
    base = memory if memory.is_dir() else tmp_path_factory.mktemp("calls")
    folder = base / f"passdown-calls-{os.getpid():07d}"
    folder.mkdir(mode=0o700)
    yield folder
    shutil.rmtree(folder)


class Sweep:
    """Runs an operation again and again, each time with another fault."""

    def __init__(self, strace: str, templates: Templates, scratch: Path) -> None:
        self._strace = strace
        self._templates = templates
        self._scratch = scratch
        self.acks_before = {hot: self._acks_before(hot + "hand_off") for hot in ("", HOT)}

    def _acks_before(self, step: str) -> list[Ack]:
        folder = self._scratch / f"before-{step}"
        self._templates.copy(step, folder)
        with passdown.open(str(folder)) as ws:
            lines = ws.log("T-1", limit=100)
        return [Ack("T-1", line.key, line.version, line.digest) for line in lines]

    def faults(self, step: str, job: str = "one") -> list[Fault]:
        """Every fault at every index of every call of an operation."""
        calls = self.calls(step, job)
        return [Fault(step, call, what) for call in calls for what in FAULTS[call.name]]

    def calls(self, step: str, job: str = "one") -> list[Call]:
        """The calls of an operation; the first run compiles modules, which later ones only read."""
        self._traced(step, job)
        return self._traced(step, job)

    def _traced(self, step: str, job: str) -> list[Call]:
        folder = self._scratch / f"{step}-00000"
        self._templates.copy(step, folder)
        acks, log = self._scratch / f"{step}-acks", self._scratch / f"{step}-log"
        try:
            plain = step.removeprefix(HOT)
            return calls_of(self._strace, log, folder, job, step=plain, acks=str(acks))
        finally:
            for path in (acks, log):
                path.unlink(missing_ok=True)
            shutil.rmtree(folder)

    def run(self, numbered: tuple[int, Fault], job: str = "one") -> tuple[Outcome, list[str]]:
        """How a run with a fault ended, and what was wrong afterwards."""
        number, fault = numbered
        folder = self._scratch / f"{fault.step}-{number:05d}"
        acks, log = folder.with_suffix(".acks"), folder.with_suffix(".log")
        self._templates.copy(fault.step, folder)
        options = {"step": fault.step.removeprefix(HOT), "acks": str(acks)}
        outcome = run_with(self._strace, log, folder, fault, job, **options)
        try:
            wrong = self._wrong(fault.step, folder, acks, outcome)
        except Exception as error:  # noqa: BLE001
            wrong = [f"the store can't be used: {error!r}"]
        if not outcome.struck:  # something else was hit: that shows nothing
            wrong = []
        for path in (acks, log):
            path.unlink(missing_ok=True)
        shutil.rmtree(folder)
        return outcome, [f"{fault}: {each}" for each in wrong]

    def _wrong(self, step: str, folder: Path, acks: Path, outcome: Outcome) -> list[str]:
        found = [f"untyped error {outcome.words}"] if outcome.how == "untyped" else []
        if outcome.how != "killed":
            found += [f"left behind: {each}" for each in leftovers(folder)]
        acked = [ack for ack in read_acks(acks) if ack.task != "error"]
        before = self.acks_before[HOT if step.startswith(HOT) else ""]
        step = step.removeprefix(HOT)
        before = [] if step == "open" else before
        with passdown.open(str(folder)) as ws:
            facts = ws.maintenance.doctor().facts
            if (facts["journal_mode"], facts["synchronous"]) != ("wal", "EXTRA"):
                found.append(f"silent change of mode: {facts}")
            records = [*before, *(ack for ack in acked if ack.task == "T-1")]
            found += faults_of(ws, records)
            found += AFTER[step](ws, folder, acked)
            found += faults_of(ws, records)
        return found


def leftovers(folder: Path) -> list[str]:
    """Temporary files that a failure may not leave."""
    names = [str(path.relative_to(folder)) for path in folder.rglob("*")]
    return [name for name in names if name.endswith(".tmp") or ".part" in name]


def after_open(ws: passdown.Workspace, folder: Path, acked: list[Ack]) -> list[str]:
    """The task can be made, again or for the first time, and is there once."""
    done = ws.create_task("T-1", title="first", agent="planner", key="h-first")
    again = Ack("T-1", "h-first", done.version, done.digest)
    return [f"made twice: {acked} and {again}"] if acked and acked != [again] else []


def after_hand_off(ws: passdown.Workspace, folder: Path, acked: list[Ack]) -> list[str]:
    """A retry with the same key gives the one record."""
    first = write(ws, "T-1", "h-one")
    found = [f"written twice: {acked} and {first}"] if acked and acked != [first] else []
    found += retried(ws, [first])
    version = ws.task("T-1").version
    return [*found, f"version {version}"] if version != BEFORE + 1 else found


def after_backup(ws: passdown.Workspace, folder: Path, acked: list[Ack]) -> list[str]:
    """The copy is whole or not there; where it was acknowledged it is there."""
    copy = folder / "copy.db"
    if acked and not copy.exists():
        return ["the acknowledged copy is not there"]
    if not copy.exists():
        return [] if ws.maintenance.backup(str(copy)).ok else ["a second try gives a bad copy"]
    with passdown.open(str(copy)) as saved:
        version = saved.task("T-1").version
        return [] if saved.verify().ok and version == BEFORE else ["a bad copy"]


def after_import(ws: passdown.Workspace, folder: Path, acked: list[Ack]) -> list[str]:
    """All was taken in or nothing; a second try completes it."""
    versions = [task.version for task in ws.tasks() if task.task == "T-2"]
    if versions not in ([], [4]) or (acked and versions != [4]):
        return [f"taken in by half: {versions}, acknowledged {acked}"]
    ws.maintenance.import_bundle(str(folder / "other.zip"))
    return [] if ws.task("T-2").version == 4 else ["a second try did not take it in"]


def after_decide(ws: passdown.Workspace, folder: Path, acked: list[Ack]) -> list[str]:
    """A retry with the same key gives the one record."""
    first = write(ws, "T-1", "d-one", "decide")
    found = [f"written twice: {acked} and {first}"] if acked and acked != [first] else []
    version = ws.task("T-1").version
    return [*found, f"version {version}"] if version != BEFORE + 1 else found


def after_export(ws: passdown.Workspace, folder: Path, acked: list[Ack]) -> list[str]:
    """The bundle is whole or not there; where it was acknowledged it is there."""
    bundle = folder / "bundle.zip"
    if acked and not bundle.exists():
        return ["the acknowledged bundle is not there"]
    with passdown.open(new_folder(folder / "elsewhere")) as other:
        try:
            other.maintenance.import_bundle(str(bundle))
        except InvalidInput as refused:  # half written by a killed process, and said to be so
            if acked:
                return [str(refused)]
            bundle.unlink(missing_ok=True)
            ws.maintenance.export(str(bundle))
            other.maintenance.import_bundle(str(bundle))
        return [] if other.task("T-1").version == BEFORE else ["a bad bundle"]


def after_reindex(ws: passdown.Workspace, folder: Path, acked: list[Ack]) -> list[str]:
    """All rows are there, old or new, and can be made again."""
    return (
        []
        if ws.maintenance.reindex().differing == ()
        else ["the rows were not those of the records"]
    )


AFTER: dict[str, Callable[[passdown.Workspace, Path, list[Ack]], list[str]]] = {
    "open": after_open,
    "hand_off": after_hand_off,
    "backup": after_backup,
    "import": after_import,
    "decide": after_decide,
    "export": after_export,
    "reindex": after_reindex,
}


@pytest.fixture(scope="module")
def sweep(need_program: Callable[[str], str], templates: Templates, scratch: Path) -> Sweep:
    return Sweep(need_program("strace"), templates, scratch)


def run_all(sweep: Sweep, faults: list[Fault], job: str = "one") -> tuple[Counter[str], list[str]]:
    """Run two at a time; gives how they ended and everything that was wrong."""
    ends: Counter[str] = Counter()
    wrong: list[str] = []
    with ThreadPoolExecutor(2) as pool:
        numbered = enumerate(faults, 1)
        for outcome, found in pool.map(partial(sweep.run, job=job), numbered):
            ends[outcome.how if outcome.struck else "missed"] += 1
            wrong += found
    return ends, wrong


def check_hits(ends: Counter[str], faults: list[Fault]) -> None:
    """Faults that hit nothing show nothing: at most one in five, and of the rest some of each."""
    assert sum(ends.values()) == len(faults)
    assert ends["missed"] <= len(faults) // 5, ends
    assert ends["typed"] > 0, ends
    assert ends["killed"] > 0, ends


@pytest.mark.promise("P-1", "P-3", "S1-15")
@pytest.mark.parametrize(
    ("step", "count"),
    [
        ("open", 12),
        ("hand_off", 14),
        ("hot-hand_off", 8),
        ("backup", 8),
        ("import", 9),
        ("export", 9),
    ],
)
def test_a_failed_system_call_loses_nothing(sweep: Sweep, step: str, count: int) -> None:
    faults = spread(sweep.faults(step), count)
    ends, wrong = run_all(sweep, faults)
    assert wrong == []
    check_hits(ends, faults)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("step", [*STEPS, *(HOT + step for step in STEPS[1:])])
def test_every_system_call(sweep: Sweep, step: str) -> None:
    faults = sweep.faults(step)
    faults = spread(faults, soak_count("CALLS", len(faults)))
    ends, wrong = run_all(sweep, faults)
    assert wrong == []
    check_hits(ends, faults)


def test_control_a_naive_writer_is_caught(sweep: Sweep) -> None:
    faults = [f for f in sweep.faults("hand_off", "naive") if f.call.name in ("pwrite64", "fcntl")]
    _, wrong = run_all(sweep, spread(faults, 6), "naive")
    assert len(wrong) >= 6


@pytest.mark.promise("P-1")
def test_a_failed_sync_of_the_log_is_never_acknowledged(sweep: Sweep) -> None:
    faults = [
        fault
        for fault in sweep.faults("hand_off")
        if fault.call.name == "fdatasync" and "-wal" in fault.call.text and "EIO" in fault.what
    ]
    commit = faults[0]
    outcome, wrong = sweep.run((1, commit))
    assert (outcome.how, outcome.struck, wrong) == ("typed", True, [])


@pytest.mark.promise("S1-15")
def test_a_handle_file_is_synced_before_it_is_renamed(sweep: Sweep) -> None:
    """Where the settings say so: temporary file, sync, rename; after the ledger's own sync."""
    calls = sweep.calls("hand_off")
    order = [(i, call) for i, call in enumerate(calls) if call.name in ("fsync", "rename")]
    rename = next(i for i, call in order if call.name == "rename" and "T-1.json" in call.text)
    before = [call.text for i, call in order if i < rename]
    assert any("T-1.json." in text and ".tmp" in text for text in before)
    commit = [
        i
        for i, call in enumerate(calls)
        if call.name in ("fdatasync", "fsync") and "-wal" in call.text
    ]
    assert commit
    assert max(i for i in commit if i < rename) < rename


def test_control_sqlite_accepts_the_naive_writer() -> None:
    """The control fails by its own fault, not because its statements can't run."""
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE streams (position)")
    db.execute("UPDATE streams SET position = position + 1")
    db.close()

"""Threads that write at once share one commit: one sync for all, and to each its own result."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytest

import passdown
from passdown.errors import Conflict, StoreError
from tests.faults.tools import (
    faults_of,
    handoff_for,
    make_store,
    read_acks,
    retried,
    start_worker,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

TASKS = [f"T-{number}" for number in range(5)]


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[passdown.Workspace]:
    make_store(tmp_path, TASKS)
    with passdown.open(str(tmp_path)) as workspace:
        yield workspace


def at_once(ws: passdown.Workspace, jobs: Sequence[Callable[[], Any]]) -> list[Future[Any]]:
    """Have all jobs wait for their turn to write before the first one gets it."""
    store: Any = ws._context.store  # pyright: ignore[reportPrivateUsage]
    with ThreadPoolExecutor(len(jobs)) as pool:
        with store.writing([]):
            futures = [pool.submit(job) for job in jobs]
            deadline = time.monotonic() + 240
            while store._turns.waiting < len(jobs):
                assert time.monotonic() < deadline, [future.exception(0) for future in futures]
                threading.Event().wait(0.005)
        return futures


def watch_commits(ws: passdown.Workspace, failing: int = 0) -> list[int]:
    """A list that grows with each commit; SQLite takes back the one with the number `failing`."""
    commits: list[int] = []

    def hook() -> bool:
        commits.append(1)
        return len(commits) == failing

    store: Any = ws._context.store  # pyright: ignore[reportPrivateUsage]
    store._writer.set_commit_hook(hook)
    return commits


@pytest.mark.promise("P-1", "P-2")
def test_writers_at_once_share_a_commit_and_a_refused_one_refuses_nobody_else(
    ws: passdown.Workspace,
) -> None:
    good = [partial(write, ws, task, f"h-{task}") for task in TASKS]
    stale = partial(ws.hand_off, handoff_for(TASKS[0], "stale"), expect_version=99)
    with ws._context.store.writing([]):  # pyright: ignore[reportPrivateUsage]
        commits = watch_commits(ws)
    *done, refused = at_once(ws, [*good, stale])
    assert isinstance(refused.exception(), Conflict)
    acks = [future.result() for future in done]
    assert [ack.version for ack in acks] == [2] * len(TASKS)
    assert len(commits) == 3, "two that held the others back, and one for all of them"
    assert faults_of(ws, acks) == []


@pytest.mark.promise("P-1", "P-3")
def test_a_shared_commit_that_fails_keeps_nothing_and_each_writer_may_try_again(
    ws: passdown.Workspace,
) -> None:
    before = ws.log(limit=100)
    good = [partial(write, ws, task, f"h-{task}") for task in TASKS]
    with ws._context.store.writing([]):  # pyright: ignore[reportPrivateUsage]
        watch_commits(ws, failing=3)
    done = at_once(ws, good)
    assert [isinstance(future.exception(), StoreError) for future in done] == [True] * len(TASKS)
    assert ws.log(limit=100) == before
    acks = [again() for again in good]
    assert faults_of(ws, acks) == []


@pytest.mark.promise("P-1")
def test_a_writer_that_was_waited_for_and_never_came_holds_nobody_up(
    ws: passdown.Workspace,
) -> None:
    """It was interrupted while it waited for its turn: the others commit without it."""
    store: Any = ws._context.store  # pyright: ignore[reportPrivateUsage]
    store._turns.waiting += 1
    acks = [write(ws, task, f"h-{task}") for task in TASKS]
    assert faults_of(ws, acks) == []


@pytest.mark.promise("P-1", "P-3")
def test_nothing_acknowledged_is_lost_when_a_process_is_killed_whose_threads_share_commits(
    tmp_path: Path,
) -> None:
    project, log = tmp_path / "project", tmp_path / "acks"
    make_store(project, ["T-1", *(f"T-{number}" for number in range(0, 8, 2))])
    options = {"folder": str(project), "threads": 8, "count": 10_000, "acks": str(log)}
    worker = start_worker("threads", **options)
    deadline = time.monotonic() + 240
    while len(read_acks(log)) < 40:
        assert worker.poll() is None, worker.communicate()[1]
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)
    worker.kill()
    worker.communicate()
    acks = read_acks(log)
    with passdown.open(str(project)) as ws:
        assert faults_of(ws, acks) == []
        assert retried(ws, acks[-8:]) == []


@pytest.mark.promise("P-1", "P-3")
def test_an_interrupt_after_the_commit_tells_nobody_that_nothing_was_written(
    ws: passdown.Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Ctrl-C while the disk syncs: the commit is done when Python sees it."""
    from passdown.store.sqlite import store as sqlite_store

    run, store = sqlite_store.rows, cast("Any", ws)._context.store

    def rows(connection: Any, sql: str, *values: Any) -> Any:
        found = run(connection, sql, *values)
        if sql == "COMMIT" and store._turns.group.members == len(TASKS):
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(sqlite_store, "rows", rows)
    done = at_once(ws, [partial(write, ws, task, f"h-{task}") for task in TASKS])
    monkeypatch.undo()
    told = [future.exception() for future in done]
    assert [type(error) for error in told if error] == [KeyboardInterrupt], "one was interrupted"
    assert faults_of(ws, [future.result() for future in done if not future.exception()]) == []

"""Lanes have room for so much and no more: a sender waits or is told, and nothing is dropped."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown.errors import LaneFull
from passdown.relay.engine.engine import RelayEngine
from passdown.relay.express import express_record, submit
from passdown.relay.runs import EXPRESS, NORMAL, Runs
from passdown.relay.worker import EngineOptions, open_engine, start_detached
from tests.faults.tools import result_of
from tests.relay.relay_process import short_relay, start
from tests.relay.repositories import make_repository

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Generator
    from pathlib import Path

ROOM = 5
ALL = 24


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'relay.db'}"


def lines(path: Path) -> list[list[Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def queued(engine: RelayEngine, lane: str) -> set[str]:
    found = engine.client.list_queued_workflows(queue_name=lane, status="ENQUEUED")
    return {work.workflow_id.removesuffix(".1") for work in found}


def senders(url: str, acks: Path, count: int, wait_s: float) -> list[subprocess.Popen[str]]:
    common = {"url": url, "room": ROOM, "lane": NORMAL, "acks": str(acks), "wait_s": wait_s}
    return [start("send", name=f"S-{n}", count=ALL // count, **common) for n in range(count)]


@contextmanager
def draining(
    url: str, done: Path, *, normal: int = 1, until: str = ""
) -> Generator[subprocess.Popen[str]]:
    """A process that takes everything out of the lanes."""
    lanes = {NORMAL: normal, EXPRESS: 1}
    options = {"url": url, "room": ROOM, "done": str(done), "lanes": lanes, "until": until}
    process = start("drain", **options)
    try:
        yield process
        process.terminate()
        assert result_of(process, 200) == {"ended": True}
    finally:
        process.kill()


def wait_for(path: Path, count: int, *, timeout_s: float = 200) -> list[list[Any]]:
    deadline = time.monotonic() + timeout_s
    while len(found := lines(path)) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} are done"
        time.sleep(0.02)
    return found


@pytest.mark.promise("S4-23")
def test_many_senders_to_a_full_lane_are_told_and_what_was_taken_is_there(
    tmp_path: Path, url: str
) -> None:
    acks = tmp_path / "acks"
    for process in senders(url, acks, 4, wait_s=0.0):
        result_of(process)
    taken = {name for name, outcome in lines(acks) if outcome == "taken"}
    refused = [name for name, outcome in lines(acks) if outcome == "lane_full"]
    assert len(taken) == ROOM
    assert len(taken) + len(refused) == ALL
    with RelayEngine(url, room=ROOM) as engine:
        assert queued(engine, NORMAL) == taken


@pytest.mark.promise("S4-23")
def test_senders_that_wait_get_through_when_a_worker_drains_the_lane(
    tmp_path: Path, url: str
) -> None:
    acks, done = tmp_path / "acks", tmp_path / "done"
    sending = senders(url, acks, 3, wait_s=200.0)
    with draining(url, done, normal=2), RelayEngine(url, room=ROOM) as engine:
        most = 0
        while any(process.poll() is None for process in sending):
            most = max(most, len(queued(engine, NORMAL)))
            time.sleep(0.02)
        for process in sending:
            result_of(process)
        wait_for(done, ALL)
    names = {f"S-{sender}-{number}" for sender in range(3) for number in range(ALL // 3)}
    assert sorted(lines(acks)) == sorted([name, "taken"] for name in names)
    assert sorted(line[1] for line in lines(done)) == sorted(names)
    assert 0 < most <= ROOM


@pytest.mark.promise("S4-23")
def test_a_refusal_says_what_to_do_and_leaves_nothing(url: str) -> None:
    with RelayEngine(url, room=1) as engine:
        assert engine.send(NORMAL, "a", 1)
        assert not engine.send(NORMAL, "a", 1), "it is there already"
        began = time.monotonic()
        with pytest.raises(LaneFull, match=r"is full \(1 wait\); nothing was sent") as caught:
            engine.send(NORMAL, "b", 1, wait_s=0.1)
        assert time.monotonic() - began >= 0.1
        assert "later" in caught.value.next_step
        assert queued(engine, NORMAL) == {"a"}
        assert engine.send(EXPRESS, "b", 1), "the other lane has room of its own"


@pytest.mark.promise("S4-19")
def test_express_work_overtakes_what_waits_in_the_normal_lane(tmp_path: Path, url: str) -> None:
    done = tmp_path / "done"
    with RelayEngine(url, room=ROOM) as engine:
        for number in range(ROOM):
            engine.send(NORMAL, "R-1", number)
        release = tmp_path / "release"
        with draining(url, done, until=str(release)):
            wait_for(done, 1)
            assert engine.send(EXPRESS, "X-1", 1)
            wait_for(done, 2)
            release.touch()
            found = wait_for(done, ROOM + 1)
    order = [line[1] for line in found]
    assert order == ["R-1", "X-1", *["R-1"] * (ROOM - 1)]


@pytest.mark.promise("S4-19")
def test_a_knowledge_update_is_carried_out_while_legs_wait(
    tmp_path: Path, need_program: Callable[[str], str]
) -> None:
    need_program("git")
    folder = make_repository(tmp_path / "project")
    update: dict[str, Any] = {"type": "KNOWLEDGE_UPDATE", "by": "eva", "id": "X-1"}
    update["reason"] = "We found out"
    entry = {"id": "Cache", "type": "component", "summary": "Keeps what was read"}
    with passdown.open(str(folder)) as ws:
        for number in range(2):
            ws.create_task(f"T-{number}", title="One leg", agent="eva")
            Runs(ws).start(short_relay(1), f"T-{number}", by="eva")
        turns, never = tmp_path / "turns", tmp_path / "never"
        worker = start("work", folder=str(folder), turns=str(turns), until=str(never))
        try:
            wait_for(turns, 1)
            # The coder is at a leg: the other agent takes it.
            update |= {"entries": [entry], "action": "append", "agents": ["coder", "fixer"]}
            _, why = submit(ws, update)
            assert why == ""
            deadline = time.monotonic() + 240
            while not express_record(ws, "X-1").is_over:
                assert time.monotonic() < deadline, express_record(ws, "X-1").status
                time.sleep(0.02)
            assert express_record(ws, "X-1").status == "done"
            waiting = [run for run in Runs(ws).all() if run.lane == NORMAL]
            assert [run.ended_at for run in waiting] == ["", ""]
        finally:
            worker.kill()
            worker.communicate()


def complete(folder: Path, room: int, runs: int) -> None:
    """Let one worker do some runs of three legs through a lane that is smaller than they are."""
    with passdown.open(str(folder)) as ws:
        names: list[str] = []
        for number in range(runs):
            ws.create_task(f"T-{number}", title="Three legs", agent="eva")
            names.append(Runs(ws).start(short_relay(3), f"T-{number}", by="eva").run)
        worker = start("work", folder=str(folder), turns=str(folder / "turns"), room=room)
        try:
            deadline = time.monotonic() + 240
            while not all(Runs(ws).get(name).ended_at for name in names):
                assert time.monotonic() < deadline, "the runs wait for each other"
                time.sleep(0.1)
            worker.terminate()
            assert result_of(worker, 240) == {"ended": True}
        finally:
            worker.kill()
        assert {Runs(ws).get(name).status for name in names} == {"completed"}


@pytest.mark.promise("S4-23")
def test_runs_that_need_more_room_than_there_is_come_to_their_end(tmp_path: Path) -> None:
    complete(tmp_path, room=2, runs=4)


@pytest.mark.promise("S4-23")
def test_a_run_is_refused_before_anything_is_recorded(tmp_path: Path) -> None:
    options = EngineOptions(room=1)
    with passdown.open(str(tmp_path)) as ws:
        ws.create_task("T-1", title="Three legs", agent="eva")
        run = start_detached(ws, short_relay(3), "T-1", by="eva", options=options)
        with pytest.raises(LaneFull):
            start_detached(ws, short_relay(3), "T-1", by="eva", options=options)
        assert [each.run for each in Runs(ws).all()] == [run.run]
        with open_engine(ws, options) as engine:
            assert engine.waiting(NORMAL) == 1

"""A relay whose process is killed at any moment ends as one that nobody touched."""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest

import passdown
from passdown.relay.agents import AgentStates
from passdown.relay.engine.engine import RelayEngine, run_statement, workers
from passdown.relay.run import run_stream
from passdown.relay.runs import Runs
from passdown.relay.worker import open_engine
from passdown.workspace.streams import WorkspaceStreams
from tests.faults.tools import seeded, soak_count
from tests.relay.relay_process import PATH, TASK, handed_off, start, tell, turns_in

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from passdown import Workspace

RUN = "R-1"
SECONDS = 0.03
KILLS = 3
PATIENCE_S = 200
# What differs from one run to the next, killed or not: when things happened, how long they took,
# and what is made of that.
VARYING = ("at", "digest", "duration_ms")
# A turn may begin more than once, and whether a gate is waited for is a matter of moments.
ONCE = ("started", "legs", "leg_ended", "ended")


@dataclass
class Lives:
    """What happened to one run: how often it was killed, how long its last process took."""

    folder: Path
    turns: Path
    kills: int = 0
    took_s: float = 0.0
    groups: list[int] = field(default_factory=list[int])


def live(lives: Lives, kill_after_s: float = PATIENCE_S, **options: Any) -> bool:
    """One process of a run; its gate is answered when it opens. Says whether it came to the end."""
    began = time.monotonic()
    common = {"folder": str(lives.folder), "turns": str(lives.turns), "seconds": SECONDS}
    process = start("run", **common, **options)
    lives.groups.append(process.pid)
    with passdown.open(str(lives.folder)) as ws:
        while process.poll() is None and time.monotonic() - began < kill_after_s:
            for gate in ws.gates(TASK):
                ws.approve(gate.address, by="eva", reason="Go.")
            with_rest = kill_after_s - (time.monotonic() - began)
            try:
                process.wait(max(0.001, min(0.02, with_rest)))
            except subprocess.TimeoutExpired:
                continue
    is_over = process.poll() is not None
    process.kill()
    out, err = process.communicate()
    assert kill_after_s < PATIENCE_S or is_over, f"the run doesn't end:\n{err}"
    assert not is_over or options or process.returncode == 0, err
    lives.kills += process.returncode != 0
    lives.took_s = time.monotonic() - began
    return process.returncode == 0 and "completed" in out


def new_run(folder: Path) -> Lives:
    folder.mkdir()
    with passdown.open(str(folder)) as ws:
        ws.create_task(TASK, title="Login", agent="eva", description="Build the login.")
    return Lives(folder, folder.parent / f"{folder.name}-turns")


def killed(folder: Path, life_s: float, kills: int, rng: random.Random) -> Lives:
    """A run that is killed so often, each time at any moment of a life; then it may end."""
    lives = new_run(folder)
    while lives.kills < kills:
        if live(lives, rng.random() * life_s):
            break  # it was at its very end
    live(lives)
    return lives


def plain(value: Any) -> Any:
    """A document without what is different each time."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {n: plain(v) for n, v in fields.items() if not n.endswith(VARYING)}
    return [plain(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value


def seen(ws: Workspace) -> dict[str, Any]:
    """What has to be the same however often a run was killed."""
    run = Runs(ws).get(RUN)
    records = WorkspaceStreams(ws).records(run_stream(RUN))
    told = ("outcome", "to", "version", "gate", "summary", "visit", "leg", "causes")
    return {
        "status": run.status,
        "legs": [[getattr(turn, name) for name in told] for turn in run.legs.values()],
        "records": Counter(record.kind for record in records if record.kind in ONCE),
        "state": plain(ws.files.state_document(TASK)),
        "handoffs": handed_off(ws, TASK, RUN),
        "agents": [(s.agent, s.state, s.lease) for s in AgentStates(ws).agents()],
    }


def said(ws: Workspace) -> dict[str, list[tuple[str, str]]]:
    """Who said what in each conversation; of requests only whose they are."""
    beside = WorkspaceStreams(ws)
    found: dict[str, list[tuple[str, str]]] = {}
    for head in beside.streams("conversation/"):
        messages = [r.document()["message"] for r in beside.records(head.stream, 0)[1:]]
        found[head.stream] = [
            (m["role"], m["content"] if m["role"] == "assistant" else "") for m in messages
        ]
    return found


def left_behind(ws: Workspace, lives: Lives) -> list[str]:
    """Processes, workers and locks that shouldn't be there any more."""
    found = [f"process group {group}" for group in lives.groups if is_alive(group)]
    with open_engine(ws) as engine:
        found += [f"worker {each.worker}" for each in workers(engine.database)]
        with engine.database.begin() as connection:
            run_statement(connection, "hold_lane", lane="free")
    ws.decide(agent="eva", summary="The ledger is free", rationale="This was written.")
    return found


def is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


class Untouched:
    """A run that nobody disturbs, to compare others with."""

    def __init__(self, tmp_path: Path) -> None:
        lives = new_run(tmp_path)
        assert live(lives)
        self.life_s = lives.took_s
        with passdown.open(str(lives.folder)) as ws:
            self.seen, self.said = seen(ws), said(ws)
        assert [leg[6] for leg in self.seen["legs"]] == PATH
        assert self.seen["handoffs"] == list(range(1, len(PATH) + 1))

    def check(self, lives: Lives) -> Counter[str]:
        """All is as it has to be; gives what was said twice."""
        with passdown.open(str(lives.folder)) as ws:
            assert seen(ws) == self.seen
            assert ws.verify().ok
            assert left_behind(ws, lives) == []
            return extra(said(ws), self.said)


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Untouched:
    return Untouched(tmp_path_factory.mktemp("alone") / "run")


def check_kills(tmp_path: Path, untouched: Untouched, kills: int, name: str) -> None:
    rng = seeded(name)
    done, number, again, doubled = 0, 0, 0, Counter[str]()
    while done < kills:
        number += 1
        wanted = min(KILLS, kills - done)
        lives = killed(tmp_path / f"run-{number}", untouched.life_s, wanted, rng)
        done += lives.kills
        doubled += untouched.check(lives)
        asked = [turn for turn in turns_in(lives.turns) if turn.what == "asked"]
        again += len(asked) - len({turn[3:] for turn in asked})
    tell(f"{done} kills in {number} runs; turns begun again: {again}; said twice: {dict(doubled)}")


def extra(
    said: dict[str, list[tuple[str, str]]], expected: dict[str, list[tuple[str, str]]]
) -> Counter[str]:
    """What was said more often than in a run that nobody touched, by role."""
    found = Counter[str]()
    for stream, messages in said.items():
        more = Counter(messages) - Counter(expected.get(stream, []))
        found.update({role: count for (role, _), count in more.items()})
    return found


def check_fuses(tmp_path: Path, untouched: Untouched, fuses: list[tuple[str, int, str]]) -> int:
    """Kill a run at exactly these places, one run each; gives how often there was such a place."""
    struck, doubled = 0, Counter[str]()
    for on, at, when in fuses:
        lives = new_run(tmp_path / f"{on}-{at}-{when}")
        live(lives, fuse={"on": on, "at": at, "when": when})
        struck += lives.kills
        assert live(lives), (on, at, when)
        doubled += untouched.check(lives)
    tell(f"killed at {struck} places; said twice: {dict(doubled)}")
    return struck


def test_a_run_that_is_killed_around_a_handoff_ends_as_if_it_had_not_been(
    tmp_path: Path, untouched: Untouched
) -> None:
    fuses = [("hand_off", 2, "after"), ("hand_off", 4, "before")]
    assert check_fuses(tmp_path, untouched, fuses) == len(fuses)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_run_may_be_killed_at_every_record(tmp_path: Path, untouched: Untouched) -> None:
    places = soak_count("RELAY_PLACES", 120)
    fuses = [("hand_off", at + 1, when) for at in range(len(PATH)) for when in ("before", "after")]
    fuses += [("add", at + 1, "after") for at in range(places)]
    assert check_fuses(tmp_path, untouched, fuses) > 5 * len(PATH)


def size_of(path: Path) -> int:
    """How large a file is; 0 where it is gone, as a journal is after its commit."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def test_the_engine_starts_after_it_was_killed_while_it_made_its_database(tmp_path: Path) -> None:
    rng, file = seeded("tables"), tmp_path / "relay.db"
    url = f"sqlite:///{file}"
    options = {"url": url, "room": 9, "lane": "normal", "wait_s": 0, "name": "S"}
    for _ in range(3):
        for leftover in tmp_path.glob("relay.db*"):
            leftover.unlink()
        process = start("send", count=1, acks=str(tmp_path / "acks"), **options)
        while not any(size_of(path) for path in tmp_path.glob("relay.db*")):
            time.sleep(0.001)
        time.sleep(rng.random() * 0.05)
        process.kill()
        process.communicate()
        with RelayEngine(url) as engine:
            assert engine.waiting("normal") in (0, 1)


def test_a_run_that_is_killed_ends_as_if_it_had_not_been(
    tmp_path: Path, untouched: Untouched
) -> None:
    check_kills(tmp_path, untouched, 3, "relay kills")


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_two_hundred_kills_of_runs(tmp_path: Path, untouched: Untouched) -> None:
    check_kills(tmp_path, untouched, soak_count("RELAY_KILLS", 200), "many relay kills")

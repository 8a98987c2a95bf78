"""A server that is killed and connections that break: nothing acknowledged is lost or doubled."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import psycopg
import pytest

import passdown
from passdown import Settings
from passdown.errors import StoreUnavailable
from passdown.store import open_store
from passdown.store.postgres.connections import WatchedConnection, connect, parse_location
from passdown.store.postgres.errors import as_store_error
from passdown.store.postgres.session import Session
from passdown.store.protocol import UNKNOWN
from tests.faults.cutting_proxy import CuttingProxy
from tests.faults.tools import (
    ROOT,
    Ack,
    lost_or_doubled,
    read_acks,
    seeded,
    soak_count,
    worker_environment,
)
from tests.postgres import PACKAGE, VARIABLE, new_database, new_workspace, running_server
from tests.processes import Process

if TYPE_CHECKING:
    from collections.abc import Generator

TASKS = ["T-1", "T-2", "T-3"]
WRITERS = 3
QUIET = Settings(embedder="none", lock_timeout_s=10)


class Server:
    """A server of our own that may be killed."""

    def __init__(self, server: Any) -> None:
        self.server = server
        self.rng = seeded("kills")

    @property
    def socket(self) -> str:
        """The path of its socket."""
        match = re.search(r"host=([^&]+)", self.server.get_uri())
        assert match
        return os.path.join(match[1], ".s.PGSQL.5432")

    def tree(self) -> list[psutil.Process]:
        """Its processes, the first one first."""
        pid = int((Path(self.server.pgdata) / "postmaster.pid").read_text().split()[0])
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]

    def kill(self) -> str:
        """Kill all of it, or one of its processes; it is back when this returns."""
        processes = self.tree()
        if self.rng.random() < 0.5 and len(processes) > 1:
            self.rng.choice(processes[1:]).send_signal(signal.SIGKILL)
            time.sleep(0.1)  # it ends the others itself, and starts anew
            return "one process"
        for process in processes:
            process.send_signal(signal.SIGKILL)
        psutil.wait_procs(processes, timeout=240)
        self.server.ensure_postgres_running()
        return "all of it"


@pytest.fixture(scope="module")
def killable() -> Generator[Server]:
    if os.environ.get(VARIABLE):
        pytest.skip(f"{VARIABLE} is not ours to kill")
    if find_spec(PACKAGE) is None:
        pytest.skip(f"{PACKAGE} is not installed")
    with running_server() as server:
        if sys.platform == "linux":
            # Starting after a kill syncs everything first: in one go instead of file by file.
            server.psql("ALTER SYSTEM SET recovery_init_sync_method = syncfs;")
            server.psql("SELECT pg_reload_conf();")
        yield Server(server)


class Writers:
    """Processes that write until they are told to stop, and what they were told."""

    def __init__(self, url: str, folder: Path, durability: str = "full") -> None:
        folder.mkdir(parents=True)
        self.acks = folder / "acks"
        self._stop = folder / "stop"
        self._processes = [
            self._start(url, folder, f"w{number}", durability) for number in range(WRITERS)
        ]

    def _start(self, url: str, folder: Path, name: str, durability: str) -> subprocess.Popen[str]:
        own = folder / name
        own.mkdir()
        options = {
            "url": url,
            "name": name,
            "folder": str(own),
            "tasks": TASKS,
            "acks": str(self.acks),
            "stop": str(self._stop),
            "durability": durability,
        }
        return Process(
            [sys.executable, "-m", "tests.faults.persisting", json.dumps(options)],
            cwd=ROOT,
            env=worker_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def count(self) -> int:
        """How many writes were acknowledged."""
        return len(read_acks(self.acks))

    def wait_for(self, number: int) -> None:
        """Wait until so many more are acknowledged."""
        wanted = self.count() + number
        deadline = time.monotonic() + 200
        while self.count() < wanted:
            assert time.monotonic() < deadline, "the writers make no way"
            for process in self._processes:
                assert process.poll() is None, process.communicate()[1]
            time.sleep(0.02)

    def end(self) -> tuple[list[Ack], Counter[str]]:
        """Stop them; gives what was acknowledged, and how often they had to try again."""
        self._stop.touch()
        counts: Counter[str] = Counter()
        for process in self._processes:
            out, errors = process.communicate(timeout=250)
            assert process.returncode == 0, errors
            counts.update(json.loads(out.splitlines()[-1]))
        return read_acks(self.acks), counts

    def kill(self) -> None:
        """End them, whatever they are at."""
        for process in self._processes:
            process.kill()
            process.communicate()


def prepared(server: Any) -> str:
    url = new_workspace(new_database(server))
    with passdown.open(url, settings=QUIET) as ws:
        for task in TASKS:
            ws.create_task(task, title=f"Task {task}", agent="planner")
    return url


def doubled(ws: passdown.Workspace) -> list[str]:
    """Keys that more than one record has."""
    keys = Counter((line.task, line.key) for line in ws.log(limit=10**9))
    return [f"{key}: {count}" for key, count in keys.items() if count > 1]


def checked(url: str, acks: list[Ack]) -> list[str]:
    with passdown.open(url, settings=QUIET) as ws:
        found = [problem.line() for problem in ws.verify().findings]
        return found + lost_or_doubled(ws, acks) + doubled(ws)


def survive_kills(killable: Server, folder: Path, kills: int) -> None:
    url = prepared(killable.server)
    writers = Writers(url, folder / "writers")
    try:
        for _ in range(kills):
            writers.wait_for(killable.rng.randint(1, 10))
            killable.kill()
        writers.wait_for(5)
        acks, counts = writers.end()
    finally:
        writers.kill()
    assert counts["repeated"] > 0, "nobody noticed the kills: the test shows nothing"
    assert len(acks) > kills
    assert checked(url, acks) == []


@pytest.fixture(autouse=True)
def _in_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.promise("S8-2")
def test_what_was_acknowledged_survives_a_killed_server(killable: Server, tmp_path: Path) -> None:
    survive_kills(killable, tmp_path, 4)


@pytest.mark.soak
def test_killed_servers_soaked(killable: Server, tmp_path: Path) -> None:
    survive_kills(killable, tmp_path, soak_count("SERVER_KILLS", 300))


@pytest.mark.soak
def test_without_waiting_for_the_disk_the_same_test_fails(killable: Server, tmp_path: Path) -> None:
    """The control: with durability "normal" some of the last moments are lost."""
    url = prepared(killable.server)
    lost: list[str] = []
    for number in range(20):
        writers = Writers(url, tmp_path / f"writers-{number}", "normal")
        try:
            writers.wait_for(30)
            for process in killable.tree():
                process.send_signal(signal.SIGKILL)
        finally:
            writers.kill()
        time.sleep(0.5)
        killable.server.ensure_postgres_running()
        with passdown.open(url, settings=QUIET) as ws:
            lost += lost_or_doubled(ws, read_acks(writers.acks))
        if lost:
            return
    pytest.fail("nothing was lost in 20 kills: the test can't see a loss")


def survive_cuts(server: Any, folder: Path, cuts: int) -> None:
    url = prepared(server)
    with CuttingProxy(Server(server).socket, "cuts") as proxy:
        writers = Writers(through(proxy, url), folder / "writers")
        try:
            deadline = time.monotonic() + 200 + 3 * cuts
            while proxy.done.total() < cuts:
                assert time.monotonic() < deadline, f"only {proxy.done}"
                writers.wait_for(1)
            proxy.is_calm.set()
            writers.wait_for(3)
            acks, counts = writers.end()
        finally:
            writers.kill()
    assert len(proxy.done) == 3, f"only {proxy.done}"
    assert counts["repeated"] > 0, "nobody noticed: the test shows nothing"
    assert checked(url, acks) == []


@pytest.mark.promise("S8-2")
def test_what_was_acknowledged_survives_broken_connections(
    killable: Server, tmp_path: Path
) -> None:
    survive_cuts(killable.server, tmp_path, 20)


@pytest.mark.soak
def test_broken_connections_soaked(killable: Server, tmp_path: Path) -> None:
    survive_cuts(killable.server, tmp_path, soak_count("CONNECTIONS", 1_000))


@pytest.mark.promise("S8-2")
@pytest.mark.parametrize("is_sent", [False, True], ids=["before", "after"])
def test_a_commit_whose_answer_is_lost_is_told_as_unknown(
    killable: Server, monkeypatch: pytest.MonkeyPatch, is_sent: bool
) -> None:
    """And the same write with the same key gives the one record, whether it was there or not."""
    url = prepared(killable.server)
    real = Session.commit

    def cut(self: Session) -> None:
        """Lose the connection before the server has committed, or the answer after it has."""
        if is_sent:
            real(self)
            raise as_store_error(psycopg.OperationalError("lost"), parse_location(url), UNKNOWN)
        with socket.socket(fileno=os.dup(self.connection.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)
        real(self)

    with passdown.open(url, settings=QUIET) as ws:
        with monkeypatch.context() as patch:
            patch.setattr(Session, "commit", cut)
            with pytest.raises(StoreUnavailable) as caught:
                ws.decide(task="T-1", agent="a", summary="s", rationale="r", key="k")
        assert "is unknown; do it again with the same key" in caught.value.next_step
        assert ws.task("T-1").version == (2 if is_sent else 1)
        ws.decide(task="T-1", agent="a", summary="s", rationale="r", key="k")
        assert doubled(ws) == []
        assert ws.task("T-1").version == 2


def through(proxy: CuttingProxy, url: str) -> str:
    """The same address by way of a proxy."""
    return re.sub(r"@/", f"@127.0.0.1:{proxy.port}/", re.sub(r"host=[^&]+&?", "", url))


def test_a_long_statement_is_waited_for_and_a_lost_answer_is_not(
    killable: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = prepared(killable.server)
    monkeypatch.setattr(WatchedConnection, "silence_s", 0.4)
    with CuttingProxy(killable.socket, "silence") as proxy:
        proxy.is_calm.set()
        with connect(parse_location(through(proxy, url)), 5, waits_for_disk=True) as connection:
            assert connection.execute("SELECT pg_sleep(1.5), 7").fetchall()[0][1] == 7
        store = open_store(through(proxy, url))
        with store.reading() as reader:
            assert reader.totals()[0] == 3
            proxy.hangs.set()
            with pytest.raises(StoreUnavailable, match="no answer"):
                reader.totals()
        store.close()


@pytest.mark.promise("S8-8")
def test_a_handoff_takes_few_round_trips(killable: Server, tmp_path: Path) -> None:
    """Over a network each of them costs more than the work that it brings."""
    (tmp_path / "parser.py").write_text("VALUE = 1\n")
    url = prepared(killable.server)
    counts: list[int] = []
    with CuttingProxy(killable.socket, "calm") as proxy:
        proxy.is_calm.set()
        with passdown.open(through(proxy, url), settings=QUIET) as ws:
            for number in range(4):
                before = proxy.round_trips
                ws.hand_off(rich_handoff(number))
                counts.append(proxy.round_trips - before)
    # A busy machine may split what is sent at once.
    assert min(counts[1:]) <= 4, counts


@pytest.mark.promise("S8-8")
def test_a_question_and_a_brief_take_few_round_trips(killable: Server, tmp_path: Path) -> None:
    """However many words are asked for, and however many answers there are."""
    (tmp_path / "parser.py").write_text("VALUE = 1\n")
    url = prepared(killable.server)
    asked = "what became of amber1 birch2 cedar3 delta4 ember5 fjord1 grove2 heron3"
    counts: dict[str, int] = {}
    with CuttingProxy(killable.socket, "calm") as proxy:
        proxy.is_calm.set()
        with passdown.open(through(proxy, url), settings=QUIET) as ws:
            for number in range(6):
                ws.hand_off(rich_handoff(number))
            for name, ask in {
                "question": lambda: ws.recall(asked, limit=10),
                "brief": lambda: ws.brief("T-1", agent="coder", record=False),
            }.items():
                tries: list[int] = []
                for _ in range(4):  # a busy machine may split what is sent at once
                    before = proxy.round_trips
                    ask()
                    tries.append(proxy.round_trips - before)
                counts[name] = min(tries[1:])
    assert counts["question"] <= 15, counts
    assert counts["brief"] <= 14, counts


def rich_handoff(number: int) -> dict[str, Any]:
    """A handoff with something of nearly every kind, and nothing that was said before."""
    words = "amber birch cedar delta ember fjord grove heron".split()
    own = " ".join(f"{word}{number}" for word in words)
    return {
        "task": "T-1",
        "outcome": "completed",
        "from_agent": "planner" if number % 2 == 0 else "coder",
        "to_agent": "coder" if number % 2 == 0 else "planner",
        "summary": f"Part {number} is done",
        "files_created": [{"path": "parser.py", "purpose": f"part {number}"}],
        "decisions": [{"summary": f"Use {own}", "rationale": f"because of {own}"}],
        "patterns_discovered": [{"pattern": f"Keep {own}", "location": "parser.py"}],
        "gotchas": [{"issue": f"Mind {own}", "mitigation": own, "severity": "low"}],
        "open_questions": [{"question": f"What of {own}?"}],
        "suggested_next_steps": [{"step": f"Go on with {own}"}],
    }


@pytest.mark.promise("S8-6")
def test_a_server_that_may_tear_pages_is_refused(killable: Server) -> None:
    url = prepared(killable.server)
    killable.server.psql("ALTER SYSTEM SET full_page_writes = off;")
    try:
        killable.server.psql("SELECT pg_reload_conf();")
        time.sleep(0.3)
        with pytest.raises(StoreUnavailable, match="full_page_writes is off") as caught:
            open_store(url)
        assert "full_page_writes = on" in caught.value.next_step
    finally:
        killable.server.psql("ALTER SYSTEM RESET full_page_writes;")
        killable.server.psql("SELECT pg_reload_conf();")

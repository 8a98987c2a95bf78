"""Threads and processes that talk at once lose nothing, and tasks leave nothing behind."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING

import pytest

from passdown.core.tokens import chars4
from passdown.relay.messages import Message, context_tokens
from passdown.workspace.streams import WorkspaceStreams
from tests.processes import Process
from tests.relay.talking import Table, asks, held, opened, resets, says, texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from passdown.relay.conversations import Conversation, Conversations

ROOT = Path(__file__).resolve().parent.parent.parent
THREADS = 100
PROCESSES = 8
EACH = 15


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads change places as often as they can, so that a race shows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.promise("S4-2")
@pytest.mark.usefixtures("restless")
def test_whoever_asks_first_all_get_the_same_conversation(tmp_path: Path) -> None:
    """A hundred threads at the same moment, for several peers: one object for each."""
    ws = opened(tmp_path)
    for round_ in range(10):
        conversations = held(ws, Table(), sharing="off")
        start, peer = Barrier(THREADS), f"pm-{round_}"

        def get(
            _: int, start: Barrier = start, peer: str = peer, of: Conversations = conversations
        ) -> int:
            start.wait()
            return id(of.with_peer(peer))

        with ThreadPoolExecutor(THREADS) as pool:
            assert len(set(pool.map(get, range(THREADS)))) == 1


@pytest.mark.promise("S4-2", "S4-18")
def test_a_hundred_threads_get_one_conversation_and_lose_nothing(tmp_path: Path) -> None:
    """All ask for it at the same moment, then say something twice."""
    ws, leases = opened(tmp_path, "T-1"), Table()
    leases.put("coder-1", "T-1")
    conversations = held(ws, leases)
    start = Barrier(THREADS)

    def talk(number: int) -> Conversation:
        start.wait()
        conversation = conversations.with_peer("coder-1")
        conversation.add(asks(f"{number} asks"))
        assert f"{number} asks" in texts(conversation.messages())
        conversation.add(says(f"{number} is told"))
        return conversation

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(talk, range(THREADS)))
    assert len({id(conversation) for conversation in found}) == 1
    expected = {f"{n} {what}" for n in range(THREADS) for what in ("asks", "is told")}
    seen = texts(found[0].messages())
    assert len(seen) == len(expected)
    assert set(seen) == expected
    assert len(resets(ws, "conversation/T-1/architect/coder-1")) == 1


WORKER = f"""
import pathlib, sys
from tests.relay.talking import Table, asks, held, opened
table = Table()
table.put("coder-1", "T-1")
conversations = held(opened(pathlib.Path(sys.argv[1])), table)
print("ready", flush=True)
sys.stdin.readline()
talk = conversations.with_peer("coder-1")
for number in range({EACH}):
    talk.add(asks(f"{{sys.argv[2]}} says {{number}}"))
"""


@pytest.mark.promise("S4-2", "S4-18")
def test_eight_processes_begin_one_conversation_and_lose_nothing(tmp_path: Path) -> None:
    """One chapter, all messages, and an object that was there before sees them."""
    ws, leases = opened(tmp_path, "T-1"), Table()
    leases.put("coder-1", "T-1")
    workers = [
        Process(
            [sys.executable, "-c", WORKER, str(tmp_path), f"w{number}"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for worker in workers:
        worker.communicate(timeout=240)
        assert worker.returncode == 0
    talk = held(ws, leases).with_peer("coder-1")
    seen = texts(talk.messages())
    assert sorted(seen) == sorted(f"w{w} says {n}" for w in range(PROCESSES) for n in range(EACH))
    for worker in range(PROCESSES):
        own = [text for text in seen if text.startswith(f"w{worker} ")]
        assert own == [f"w{worker} says {n}" for n in range(EACH)]
    assert len(resets(ws, "conversation/T-1/architect/coder-1")) == 1
    assert ws.verify().findings == ()


@pytest.mark.promise("S4-5", "S4-35", "S4-38")
def test_many_changes_of_task_leave_nothing_behind(tmp_path: Path) -> None:
    """Eight peers, a new task each time: no context has a word of another task, and none grows."""
    peers = [f"coder-{n}" for n in range(8)]
    ws, leases = opened(tmp_path), Table()
    conversations = held(ws, leases, window=4_000)
    sizes: list[int] = []
    for number in range(160):
        peer, task = peers[number % 8], f"T-{number}"
        ws.create_task(task, title=f"marker-{number}-title", agent="planner")
        leases.put(peer, task)
        talk = conversations.with_peer(peer)
        talk.add(asks(f"marker-{number}-asked " * 8))
        talk.add(Message("assistant", f"marker-{number}-told " * 8))
        whole = "\n".join(message.content for message in talk.messages())
        assert whole.count("marker-") == whole.count(f"marker-{number}-") == 17
        sizes.append(context_tokens(talk.messages(), chars4))
    assert max(sizes) - min(sizes) < 20
    assert len(WorkspaceStreams(ws).streams("conversation/")) == 160
    shown = [len(conversations.with_peer(peer).context().entries) for peer in peers]
    assert shown == [2] * 8

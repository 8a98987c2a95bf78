"""Other processes at work on the same workspace: python -m tests.search.workers JOB OPTIONS."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import passdown
from passdown import Settings
from tests.faults.tools import ROOT, worker_environment
from tests.processes import Process

if TYPE_CHECKING:
    from collections.abc import Sequence

QUICK = Settings(durability="normal", embedder="none")


def start(job: str, **options: Any) -> subprocess.Popen[str]:
    """Start one; `tests.faults.tools.result_of` waits for it."""
    return Process(
        [sys.executable, "-m", "tests.search.workers", job, json.dumps(options)],
        cwd=ROOT,
        env=worker_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def learn(folder: str, name: str, count: int) -> None:
    """Write nodes down that lead to one hub, and a node that others write too."""
    with passdown.open(folder, settings=QUICK) as ws:
        for number in range(count):
            node = {"id": f"{name}-{number}", "type": "component", "summary": "Of its own"}
            shared = {"id": "Shared", "type": "component", "summary": f"{name} {number}"}
            edge = {"source": f"{name}-{number}", "relation": "uses", "target": "Hub"}
            ws.knowledge.add([node, shared], [edge], agent=name)


def sync(folder: str, name: str, count: int) -> None:
    """Learn and bring the knowledge file up to date, again and again."""
    with passdown.open(folder, settings=QUICK) as ws:
        for number in range(count):
            node = {"id": f"{name}-{number}", "type": "component", "summary": "Of its own"}
            ws.knowledge.add([node], agent=name)
            ws.knowledge.sync(agent=name)


def letters(texts: Sequence[str]) -> list[list[float]]:
    """A small embedder: how often each of some letters stands in a text."""
    return [[text.lower().count(letter) + 0.1 for letter in "abcdefghij"] for text in texts]


def embed(folder: str, name: str, count: int) -> None:
    """Embed and search."""
    with passdown.open(folder, settings=QUICK) as ws:
        ws.embeddings.use("letters", letters)
        for _ in range(count):
            ws.recall(name)
            ws.embeddings.update(limit=50)
        assert ws.embeddings.status().is_complete


if __name__ == "__main__":
    {"learn": learn, "sync": sync, "embed": embed}[sys.argv[1]](**json.loads(sys.argv[2]))
    sys.stdout.write("{}\n")

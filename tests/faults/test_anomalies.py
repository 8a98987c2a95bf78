"""Transactions over several lists, by many processes: one order explains everything they saw."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from passdown.store import open_store
from tests.faults.anomalies import Transaction, anomalies, parsed
from tests.faults.appending import BUGS, read_list
from tests.faults.tools import ROOT, soak_count, worker_environment
from tests.processes import Process

if TYPE_CHECKING:
    from pathlib import Path

PROCESSES = {"sqlite": 4, "postgres": 8}
MANY_PROCESSES = {"sqlite": 8, "postgres": 16}
TRANSACTIONS = 1_200


def run(
    url: str, folder: Path, processes: int, total: int, bug: str = ""
) -> tuple[list[Transaction], dict[str, list[str]]]:
    """The history of some processes at work, and what the lists hold at its end."""
    open_store(url).close()
    folder.mkdir(exist_ok=True)
    count = -(-total // processes)
    workers = [
        Process(
            [
                *(sys.executable, "-m", "tests.faults.appending"),
                json.dumps(
                    {
                        "url": url,
                        "name": f"p{number}",
                        "count": count,
                        "history": str(folder / f"{number}.jsonl"),
                        "bug": bug,
                    }
                ),
            ],
            cwd=ROOT,
            env=worker_environment(),
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(processes)
    ]
    for worker in workers:
        _, errors = worker.communicate(timeout=3_600)
        assert worker.returncode == 0, errors
    lines = [line for file in folder.glob("*.jsonl") for line in file.read_text().splitlines()]
    store = open_store(url)
    with store.reading() as reader:
        keys = [head.stream.removeprefix("list/") for head in reader.heads("list/")]
        final = {key: read_list(reader, key) for key in keys}
    store.close()
    return [parsed(json.loads(line)) for line in lines], final


def check(url: str, folder: Path, processes: int, total: int) -> None:
    history, final = run(url, folder, processes, total)
    assert len(history) >= total
    assert {transaction.outcome for transaction in history} == {"ok"}
    assert any(len(values) > processes for values in final.values()), "nobody met anybody"
    assert anomalies(history, final) == []


def address(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    if kind == "sqlite":
        return f"sqlite:///{tmp_path / 'lists.db'}"
    return request.getfixturevalue("postgres_store")


@pytest.mark.promise("S8-7", "P-2")
@pytest.mark.parametrize("kind", PROCESSES)
def test_one_order_explains_what_everybody_saw(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    check(address(kind, tmp_path, request), tmp_path / "history", PROCESSES[kind], TRANSACTIONS)


@pytest.mark.soak
@pytest.mark.parametrize("kind", PROCESSES)
def test_one_order_soaked(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    total = soak_count("TRANSACTIONS", 100_000)
    check(address(kind, tmp_path, request), tmp_path / "history", MANY_PROCESSES[kind], total)


EXPECTED = {"rolled_back": "is lost", "piecemeal": "a cycle", "stale": "a cycle"}


@pytest.mark.promise("S8-7")
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str, tmp_path: Path) -> None:
    """An acknowledged rollback, a read in pieces, an answer from before."""
    url = f"sqlite:///{tmp_path / 'lists.db'}"
    found = anomalies(*run(url, tmp_path / "history", 2, 200, bug))
    assert found
    assert EXPECTED[bug] in found[0]


def transaction(name: str, begun: int, **parts: Any) -> Transaction:
    return Transaction(
        name, begun, begun + 1, "ok", parts.get("reads", {}), parts.get("appends", {})
    )


def test_the_checker_knows_what_is_in_order() -> None:
    """One after the other is fine; the same with a reader between that misses one is not."""
    first = transaction("w1", 1, appends={"x": ["1"], "y": ["1"]})
    second = transaction("w2", 3, appends={"x": ["2"], "y": ["2"]})
    final = {"x": ["1", "2"], "y": ["1", "2"]}
    whole = transaction("r", 5, reads={"x": ["1", "2"], "y": ["1", "2"]})
    assert anomalies([first, second, whole], final) == []
    late = transaction("r", 5, reads={"x": ["1"], "y": ["1"]})
    assert anomalies([first, second, late], final)
    at_once = late._replace(begun=2)
    assert anomalies([first, second, at_once], final) == []
    skewed = at_once._replace(reads={"x": ["1", "2"], "y": ["1"]})
    assert anomalies([first, second, skewed], final)
    failed = second._replace(outcome="failed")
    assert any("failed and is there" in each for each in anomalies([first, failed], final))
    assert anomalies([first, second], {"x": ["1", "2", "2"], "y": ["1", "2"]})
    odd = whole._replace(reads={"x": ["2"]})
    assert any("never was so" in each for each in anomalies([first, second, odd], final))

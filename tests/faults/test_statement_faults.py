"""A handoff is one transaction: whichever of its statements fails, nothing of it is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import apsw
import pytest

import passdown
from passdown.errors import StoreError
from passdown.store.sqlite import SqliteStore
from passdown.store.sqlite.errors import translated_errors
from passdown.store.sqlite.schema import rows
from tests.faults.tools import make_store, state_of, write

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    Run = Callable[[str, Any], list[Any]]

RICH: dict[str, Any] = {
    "task": "T-1",
    "from_agent": "coder",
    "to_agent": "reviewer",
    "outcome": "blocked",
    "phase": "implementing",
    "summary": "everything at once",
    "decisions": [{"summary": "new", "rationale": "better", "supersedes": ["T-1#d1"]}],
    "artifacts": [{"path": "made.py"}],
    "blockers": [
        {
            "blocker": "no key",
            "impact": "can't go on",
            "suggested_resolution": "ask",
            "blocking_tasks": ["T-2"],
            "requires_human": True,
        }
    ],
    "open_questions": [{"question": "which?", "context": "c", "blocking": True}],
    "suggested_next_steps": [{"step": "go on", "priority": "high"}],
    "gotchas": [{"issue": "slow", "mitigation": "cache", "severity": "low"}],
    "warnings": ["careful"],
    "resolves": ["T-1#n1"],
}


class Failing:
    """Lets the statement with a number fail; counts them all."""

    def __init__(self) -> None:
        self.at = 0
        self.seen: list[str] = []

    def wrap(self, run: Run) -> Run:
        def failing(name: str, values: Mapping[str, object] | Sequence[object]) -> list[Any]:
            self.seen.append(name)
            if len(self.seen) == self.at:
                with translated_errors("the test's store"):
                    raise apsw.IOError("disk I/O error (made by the test)")
            return run(name, values)

        return failing

    def start(self, at: int) -> None:
        self.at, self.seen = at, []


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Failing:
    """Every statement of every store goes through this."""
    found = Failing()
    original = SqliteStore._runner  # pyright: ignore[reportPrivateUsage]

    def runner(store: SqliteStore, connection: apsw.Connection) -> Run:
        return found.wrap(original(store, connection))

    monkeypatch.setattr(SqliteStore, "_runner", runner)
    return found


@pytest.fixture
def project(tmp_path: Path) -> Path:
    make_store(tmp_path, ["T-1", "T-2"])
    (tmp_path / "made.py").write_text("pass\n", "utf-8")
    with passdown.open(str(tmp_path)) as ws:
        write(ws, "T-1", "h-0")
        step = {"step": "first", "priority": "low"}
        given = {"task": "T-1", "from_agent": "coder", "outcome": "completed"}
        ws.hand_off({**given, "suggested_next_steps": [step]})
    return tmp_path


def everything(ws: passdown.Workspace) -> Any:
    with ws._context.store.reading() as reader:  # pyright: ignore[reportPrivateUsage]
        derived = reader.dump()
        records = list(reader.tail())
    return derived, records, state_of(ws)


def give_up(ws: passdown.Workspace, opened: Any) -> None:
    """Hand off inside a transaction that is given up in the end."""
    with opened.store.writing([]) as writer:
        opened.ledger.store = OneWriter(writer)
        ws.hand_off(RICH, key="h-rich")


def statements_of_a_write(project: Path, failing: Failing) -> list[str]:
    """The statements between the beginning and the end of a handoff's transaction."""
    with passdown.open(str(project)) as ws:
        before = everything(ws)
        opened: Any = ws._context  # pyright: ignore[reportPrivateUsage]
        failing.start(0)
        with pytest.raises(ZeroDivisionError):
            give_up(ws, opened)
        seen = list(failing.seen)
        assert everything(ws) == before
    return seen


class OneWriter:
    """Stands for a store whose only transaction is open already, and is given up at the end."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def writing(self, streams: Sequence[str], *first: object, in_turn: bool = False) -> OneWriter:
        del streams, first, in_turn
        return self

    def __enter__(self) -> Any:
        return self._writer

    def __exit__(self, *_: object) -> None:
        raise ZeroDivisionError


@pytest.mark.promise("P-1", "P-7")
def test_whichever_statement_fails_nothing_is_kept(project: Path, failing: Failing) -> None:
    statements = statements_of_a_write(project, failing)
    assert {"append", "put_task", "open_link"} <= set(statements)
    assert len(statements) > 10
    # What comes before the transaction is read only; start with the first statement.
    for number in range(1, len(statements) + 1):
        with passdown.open(str(project)) as ws:
            failing.start(0)
            before = everything(ws)
            failing.start(number)
            with pytest.raises(StoreError):
                ws.hand_off(RICH, key="h-rich")
            failing.start(0)
            assert everything(ws) == before, statements[number - 1]
            assert ws.verify().ok
            # The same workspace goes on as if nothing had been.
            if number % 7 == 0:
                ws.decide(task="T-2", agent="coder", summary=f"{number}", rationale="x")


def test_after_all_failures_the_handoff_is_recorded_once(project: Path, failing: Failing) -> None:
    statements = statements_of_a_write(project, failing)
    with passdown.open(str(project)) as ws:
        for number in range(1, len(statements) + 1, 3):
            failing.start(number)
            with pytest.raises(StoreError):
                ws.hand_off(RICH, key="h-rich")
        failing.start(0)
        command = ws.hand_off(RICH, key="h-rich")
        assert not command.is_replay
        assert ws.hand_off(RICH, key="h-rich").is_replay
        assert command.version == 4
        assert ws.verify().ok


def test_control_without_a_rollback_rows_stay(
    project: Path, failing: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a failed transaction were committed, the comparison would show it."""
    with passdown.open(str(project)) as ws:
        before = everything(ws)

        def keep(connection: apsw.Connection) -> bool:
            if connection.in_transaction:
                rows(connection, "COMMIT")
            return True

        statements = statements_of_a_write(project, failing)
        failing.start(statements.index("put_task") + 1)
        monkeypatch.setattr("passdown.store.sqlite.store._roll_back", keep)
        with pytest.raises(StoreError):
            ws.hand_off(RICH, key="h-rich")
        failing.start(0)
        assert everything(ws) != before
        assert not ws.verify().ok

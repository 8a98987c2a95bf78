"""Repeats: the same answer as the first time, without going through a task's history."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown.core import fold
from passdown.store.statements import Reader
from passdown.testing import fixed_clock, full_handoff, write_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from passdown import HandoffCommand, Workspace

Document = dict[str, Any]

GATES = ("lint", "tests")
PHASES = ("planning", "implementing", "implementing", "testing", "reviewing")


@pytest.fixture
def ws(tmp_path: Path, each_store: None) -> Iterator[Workspace]:
    write_files(str(tmp_path))
    settings = passdown.Settings(artifacts_on_disk=False, embedder="none", durability="normal")
    with passdown.open(str(tmp_path), settings=settings, clock=fixed_clock()) as workspace:
        workspace.create_task("T-1", title="Login", agent="planner")
        yield workspace


def handoff(number: int) -> Document:
    """One of many handoffs: it brings files, decisions, gates, blockers and steps now and then."""
    sender, receiver = ("planner", "coder") if number % 2 else ("coder", "planner")
    given: Document = {
        "task": "T-1",
        "outcome": "completed",
        "from_agent": sender,
        "to_agent": receiver,
        "summary": f"part {number}",
        "artifacts": [{"path": f"src/part_{number % 5}.py"}, {"path": f"tests/test_{number}.py"}],
        "decisions": [{"summary": f"choice {number}", "rationale": "it holds"}][: number % 3],
    }
    if number % 4 == 0:
        given["phase"] = PHASES[number // 4 % len(PHASES)]
    if number % 3 == 0:
        given["gates"] = [{"name": name, "result": "passed"} for name in GATES[: number % 2 + 1]]
    if number % 5 == 0:
        given["suggested_next_steps"] = [{"step": f"step {number}"}, {"step": "stay"}]
    if number % 7 in (0, 1):
        given["blockers"] = [
            {"blocker": "the key is missing", "severity": "high", "suggested_resolution": "ask"}
        ]
        given["outcome"] = "failed"
    if number % 6 == 0:
        given["open_questions"] = [{"question": "who says so?", "blocking": True}]
    return given


class Watched:
    """What one call reads and folds."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.rows: Counter[str] = Counter()
        self.folds = 0

    def __enter__(self) -> Watched:
        self._patch = pytest.MonkeyPatch()
        made, folded = Reader.__init__, fold.ChangeBuilder.result

        def counting(reader: Reader, run: Any, *more: Any) -> None:
            def counted(name: str, values: Any) -> Any:
                found = run(name, values)
                self.statements.append(name)
                self.rows[name] += len(found)
                return found

            made(reader, counted, *more)

        def result(step: fold.ChangeBuilder) -> fold.Changes:
            self.folds += 1
            return folded(step)

        self._patch.setattr(Reader, "__init__", counting)
        self._patch.setattr(fold.ChangeBuilder, "result", result)
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.undo()


def read_by(call: Callable[[], HandoffCommand]) -> tuple[HandoffCommand, Watched]:
    with Watched() as watched:
        return call(), watched


@pytest.mark.promise("P-3", "P-8")
def test_a_repeat_costs_no_more_after_a_long_history(ws: Workspace) -> None:
    """As many statements, rows and folds after two hundred handoffs as after forty."""
    found: list[tuple[list[str], Counter[str]]] = []
    for number in range(1, 201):
        first = ws.hand_off(handoff(number), key=f"k-{number}")
        if number in (40, 80, 200):
            again, read = read_by(lambda n=number: ws.hand_off(handoff(n), key=f"k-{n}"))
            assert again == first._replace(is_replay=True, warnings=again.warnings)
            assert read.folds == 1
            found.append((read.statements, read.rows))
    assert found[0] == found[1] == found[2]


@pytest.mark.promise("P-3")
def test_a_repeat_gives_the_first_answer_whatever_the_handoff_brings(ws: Workspace) -> None:
    """Of every handoff of a story at once, and of the latest after other things were recorded."""
    for number in range(1, 64):
        first = ws.hand_off(handoff(number), key=f"k-{number}")
        again, read = read_by(lambda n=number: ws.hand_off(handoff(n), key=f"k-{n}"))
        assert again == first._replace(is_replay=True, warnings=again.warnings), number
        assert read.folds == 1, f"handoff {number} was folded from the beginning"
        ws.decide(task="T-1", agent="coder", summary=f"beside {number}", rationale="r")
        ws.warn("T-1", agent="coder", text=f"mind {number}")
        later, read = read_by(lambda n=number: ws.hand_off(handoff(n), key=f"k-{n}"))
        assert later == again, number
        assert read.folds == 1


@pytest.mark.promise("P-3")
def test_others_may_have_handed_off_in_between(ws: Workspace) -> None:
    """The answer to a repeat that comes late is the first one, and a few handoffs cost no fold."""
    firsts = {n: ws.hand_off(handoff(n), key=f"k-{n}") for n in range(1, 91)}
    for number in range(61, 91):
        again, read = read_by(lambda n=number: ws.hand_off(handoff(n), key=f"k-{n}"))
        first = firsts[number]
        assert again == first._replace(is_replay=True, warnings=again.warnings), number
        assert read.folds == 1, f"handoff {number} was folded from the beginning"


@pytest.mark.promise("P-3")
def test_what_rows_no_longer_tell_is_folded_once(ws: Workspace) -> None:
    """An earlier handoff, and one whose items were marked since, get their first answer too."""
    firsts = [ws.hand_off(handoff(number), key=f"k-{number}") for number in range(1, 21)]
    step = ws.state_document("T-1")["next_steps"][-1]
    ws.mark(step["address"], "done", agent="coder")
    for number in (3, 12, 20):
        again, read = read_by(lambda n=number: ws.hand_off(handoff(n), key=f"k-{n}"))
        first = firsts[number - 1]
        assert again == first._replace(is_replay=True, warnings=again.warnings), number
        assert read.folds <= first.version + 1


@pytest.mark.promise("P-3")
def test_a_rejected_gate_stands_in_the_answer_to_a_repeat(ws: Workspace) -> None:
    """A gate that had an answer before the handoff isn't taken for one that waits."""
    asked = full_handoff(task="T-1")
    asked["blockers"] = [
        {"blocker": "may we?", "severity": "blocker", "requires_human": True},
    ]
    held = ws.hand_off(asked, key="asked")
    again = ws.hand_off(asked, key="asked")
    assert again == held._replace(is_replay=True, warnings=again.warnings)
    assert again.held_by == held.held_by != ()
    ws.reject(held.held_by[0], by="person", reason="not yet")
    anew = {**asked, "summary": "asked anew"}
    second = ws.hand_off(anew, key="anew")
    repeat = ws.hand_off(anew, key="anew")
    assert repeat == second._replace(is_replay=True, warnings=repeat.warnings)

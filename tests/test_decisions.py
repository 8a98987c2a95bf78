"""Decisions and the context of a handoff: frozen values, kept field by field."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import passdown
from passdown import Decision, Handoff, HandoffContext
from passdown.errors import InvalidInput, NotFound
from passdown.testing import fixed_clock, full_handoff, write_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from passdown import Workspace

AT = datetime(2026, 1, 9, 10, 0, 0, 123456, tzinfo=UTC)


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    write_files(str(tmp_path))
    with passdown.open(str(tmp_path), clock=fixed_clock()) as workspace:
        workspace.create_task("T-1", title="Login", agent="planner")
        yield workspace


def lists_in(value: Any) -> list[Any]:
    """Everything inside a value that could be changed in place."""
    if isinstance(value, list | dict | set):
        return [value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [
            found for f in dataclasses.fields(value) for found in lists_in(getattr(value, f.name))
        ]
    parts: list[Any] = []
    if isinstance(value, tuple):
        parts = list(cast("tuple[Any, ...]", value))
    elif isinstance(value, MappingProxyType):
        parts = list(cast("MappingProxyType[str, Any]", value).values())
    return [found for part in parts for found in lists_in(part)]


@pytest.mark.promise("S0-6")
def test_a_decision_can_not_be_changed_at_any_depth() -> None:
    """Frozen, hashable, equal by content, with tuples inside whatever it was made from."""
    listed: Any = ["localStorage"]
    decision = Decision(
        summary="JWT", rationale="scripts", agent="planner", at=AT, alternatives=listed
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        decision.summary = "x"  # type: ignore[misc]
    listed.append("later")
    assert decision.alternatives == ("localStorage",)
    assert lists_in(decision) == []
    same = Decision(
        summary="JWT", rationale="scripts", agent="planner", at=AT, alternatives=("localStorage",)
    )
    assert decision == same
    assert len({decision, same}) == 1


@pytest.mark.promise("S0-6", "S1-6")
def test_a_decision_has_agent_time_and_artifacts(ws: Workspace) -> None:
    """Without a time it is the clock's, aware and in UTC; without an agent, the sender's name."""
    ws.hand_off(full_handoff())
    (decision,) = ws.state("T-1").decisions
    assert (decision.agent, decision.at) == ("planner", datetime(2026, 1, 9, 10, 0, 1, tzinfo=UTC))
    assert decision.at is not None
    assert decision.at.utcoffset() == timedelta(0)
    assert decision.artifacts == ("src/auth/jwt.py",)
    assert decision.alternatives == ("localStorage", "a header")
    assert decision.status == "accepted"


@pytest.mark.promise("S1-6", "P-7")
@pytest.mark.parametrize("rationale", ["", "   ", "\u200b", "\n"])
def test_a_decision_needs_a_reason(ws: Workspace, rationale: str) -> None:
    """A rationale that shows nothing is refused, also where no task is named."""
    for task in ("T-1", None):
        with pytest.raises(InvalidInput) as caught:
            ws.decide(task=task, agent="a", summary="s", rationale=rationale)
        assert [(p.path, p.code) for p in caught.value.problems] == [("rationale", "empty")]
    assert [task.task for task in ws.tasks()] == ["T-1"]
    assert ws.state("T-1").version == 1


@pytest.mark.promise("S0-11")
def test_a_key_names_agent_and_time_and_stays_unique(ws: Workspace) -> None:
    """Two decisions of one instant get two keys; the same one again gets the same key."""
    first = Decision(summary="one", rationale="r", agent="planner", at=AT)
    second = Decision(summary="two", rationale="r", agent="planner", at=AT)
    keys = [ws.decisions.store(d, "T-1") for d in (first, second, first)]
    assert keys[0] == "decision-planner-2026-01-09T10:00:00.123456Z"
    assert keys[1] == f"{keys[0]}-2"
    assert keys[2] == keys[0]
    assert ws.decisions.get(keys[0], "T-1") == first
    assert ws.decisions.get(keys[1], "T-1") == second
    assert len(ws.state("T-1").decisions) == 2


@pytest.mark.promise("S0-11")
@pytest.mark.parametrize("given", [None, "a decision", {"summary": "s"}, Decision, 5])
def test_anything_but_a_decision_is_a_type_error(ws: Workspace, given: Any) -> None:
    """A dict or a text isn't taken for a decision."""
    with pytest.raises(TypeError, match="Decision"):
        ws.decisions.store(given, "T-1")
    assert ws.state("T-1").version == 1


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc", "M"]), min_size=1, max_size=30).map(
    lambda text: f"{text}, a: b; ({text})"
)
TEXTS = st.lists(TEXT, max_size=3).map(tuple)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    folder = tmp_path_factory.mktemp("decisions")
    with passdown.open(str(folder), settings=passdown.Settings(durability="normal")) as workspace:
        yield workspace


@pytest.mark.promise("S0-12", "S1-18")
@given(
    summary=TEXT,
    rationale=TEXT,
    alternatives=TEXTS,
    artifacts=TEXTS,
    offset=st.integers(-14, 14),
    moment=st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1)),  # noqa: DTZ001 - zone below
)
def test_a_stored_decision_comes_back_equal(  # noqa: PLR0917 - each field is drawn
    shared: Workspace,
    summary: str,
    rationale: str,
    alternatives: tuple[str, ...],
    artifacts: tuple[str, ...],
    offset: int,
    moment: datetime,
) -> None:
    """Commas, colons, quotes and every script come back as they were, field by field."""
    decision = Decision(
        summary=summary,
        rationale=rationale,
        agent="planner",
        at=moment.replace(tzinfo=timezone(timedelta(hours=offset))),
        alternatives=alternatives,
        artifacts=artifacts,
        paths=("src/a, b.py",),
        tags=("auth",),
        status="proposed",
    )
    assert shared.decisions.get(shared.decisions.store(decision)) == decision


@pytest.mark.promise("S0-12")
def test_a_decision_without_a_task_concerns_all_work(ws: Workspace) -> None:
    """It is kept under the workspace's own task, which is made when it is first needed."""
    decision = Decision(summary="s", rationale="r", agent="planner", at=AT)
    key = ws.decisions.store(decision)
    assert ws.decisions.get(key) == decision
    assert [task.task for task in ws.tasks()] == ["T-1"]
    assert [task.task for task in ws.tasks(with_workspace=True)] == ["T-1", "workspace"]
    for missing in (key + "x", "", "content-"):
        with pytest.raises(NotFound):
            ws.decisions.get(missing)
    with pytest.raises(NotFound):
        ws.decisions.get(key, "T-1")


@pytest.mark.promise("S0-34", "S1-6")
def test_a_time_without_a_zone_is_refused(ws: Workspace) -> None:
    """Nobody knows what it means, so it is named as a fault and not guessed."""
    naive = datetime(2026, 1, 9, 10, 0)  # noqa: DTZ001 - that is the point
    decision = Decision(summary="s", rationale="r", agent="planner", at=naive)
    with pytest.raises(InvalidInput, match="invalid_time"):
        ws.decisions.store(decision, "T-1")
    handoff = Handoff(task="T-1", outcome="completed", from_agent="planner", decisions=(decision,))
    with pytest.raises(InvalidInput) as caught:
        ws.hand_off(handoff)
    assert [problem.path for problem in caught.value.problems] == ["decisions[0].at"]
    for at in ("0001-01-01T00:00:00+14:00", "2026-13-01T00:00:00Z", "now"):
        with pytest.raises(InvalidInput, match="invalid_time"):
            ws.decide(task="T-1", agent="a", summary="s", rationale="r", at=at)


@pytest.mark.promise("S0-7")
def test_a_context_can_not_be_changed_and_has_usable_defaults() -> None:
    """Source, target and time are enough; what it holds is frozen at any depth."""
    context = HandoffContext(source="planner", target="coder", at=AT)
    assert (context.decisions, context.memory_refs, dict(context.metadata)) == ((), (), {})
    deep: Any = {"a": [1, {"b": 2}]}
    full = HandoffContext(source="a", target="b", at=AT, metadata=deep)
    deep["a"].append(3)
    assert lists_in(full) == []
    assert full.metadata["a"] == (1, {"b": 2})
    with pytest.raises(TypeError):
        full.metadata["a"] = 1  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        full.source = "x"  # type: ignore[misc]


@pytest.mark.promise("S0-7", "S3-41")
def test_a_handoff_gives_its_context(ws: Workspace) -> None:
    """Who handed to whom, the sender's standing decisions, and addresses of what else counts."""
    ws.hand_off(full_handoff())
    ws.decide(task="T-1", agent="coder", summary="not the sender's", rationale="r")
    context = ws.context.handoff_context("T-1")
    assert (context.source, context.target) == ("planner", "coder")
    assert context.at == datetime(2026, 1, 9, 10, 0, 1, tzinfo=UTC)
    assert [d.summary for d in context.decisions] == ["JWT in an httpOnly cookie"]
    assert set(context.memory_refs) == {
        "T-1#d1",
        "T-1#p1",
        "T-1#g1",
        "T-1#q1",
        "T-1#n1",
        "T-1#n2",
        "T-1#b1",
    }
    for address in context.memory_refs:
        assert ws.show(address).source["task"] == "T-1"
    assert (context.metadata["task"], context.metadata["version"]) == ("T-1", 3)
    assert lists_in(context) == []
    other = ws.context.handoff_context("T-1", agent="coder", since=2)
    assert [d.summary for d in other.decisions] == ["not the sender's"]
    assert other.memory_refs == ("T-1#d2",)
    assert (other.source, other.at) == (context.source, context.at)
    ws.create_task("T-2", title="t", agent="a")
    ws.decide(task="T-2", agent="a", summary="s", rationale="r", supersedes=["T-1#d1"])
    assert ws.context.handoff_context("T-1").decisions == ()
    with pytest.raises(NotFound):
        ws.context.handoff_context("T-9")


@pytest.mark.promise("P-4")
def test_a_superseded_decision_names_its_successor(ws: Workspace) -> None:
    """In its own task or from another one; the old text stays, and the past shows it standing."""
    ws.hand_off(full_handoff())
    receipt = ws.decide(
        task="T-1", agent="coder", summary="new", rationale="r", supersedes=["T-1#d1"]
    )
    old = ws.show("T-1#d1")
    assert (old.status, old.superseded_by) == ("superseded", receipt.items[0])
    assert old.rationale == "Scripts can't read it"
    assert ws.state("T-1", 2).decisions[0].status == "accepted"
    ws.create_task("T-2", title="t", agent="a")
    other = ws.decide(task="T-2", agent="a", summary="s", rationale="r", supersedes=["T-1#d2"])
    shown = ws.files.state_document("T-1")["decisions"][1]
    assert (shown["status"], shown["superseded_by"]) == ("superseded", other.items[0])
    with pytest.raises(InvalidInput, match="unknown_item"):
        ws.decide(agent="a", summary="s", rationale="r", supersedes=["T-1#d9"])
    assert [task.task for task in ws.tasks()] == ["T-1", "T-2"]


def test_a_proposal_is_accepted_or_reverted(ws: Workspace) -> None:
    """Its status moves, its words don't; each status carries its own note."""
    ws.decide(task="T-1", agent="a", summary="s", rationale="r", status="proposed")
    ws.set_status("T-1#d1", "accepted", agent="b", reason="agreed")
    assert ws.show("T-1#d1").status_note == "agreed"
    ws.set_status("T-1#d1", "reverted", agent="b")
    shown = ws.show("T-1#d1")
    assert shown.status == "reverted"
    assert "status_note" not in shown.to_dict()
    assert (
        ws.files.state_document("T-1")["decisions"][0]
        == ws.files.state_document("T-1", 4)["decisions"][0]
    )

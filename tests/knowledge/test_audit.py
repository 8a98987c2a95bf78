"""The audit: what is said twice, out of date, never told, alone; counted exactly."""

from __future__ import annotations

import functools
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import passdown
from passdown import Settings
from passdown.core.words import FEWEST_WORDS, NEAR_DUPLICATE, similar_groups, similarity
from passdown.errors import InvalidInput
from passdown.testing import fixed_clock, full_handoff, write_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from passdown import Workspace


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    write_files(str(tmp_path))
    chosen = Settings(durability="normal", embedder="none")
    with passdown.open(str(tmp_path), settings=chosen, clock=fixed_clock()) as workspace:
        for task in ("T-1", "T-2"):
            workspace.create_task(task, title=f"Work on {task}", agent="planner")
        yield workspace


def decide(ws: Workspace, summary: str, **fields: Any) -> str:
    given: dict[str, Any] = {"task": "T-1", "rationale": "r", **fields}
    return ws.decide(agent="coder", summary=summary, **given).items[0]


def by_hand(texts: dict[int, list[str]]) -> list[list[int]]:
    """Groups by comparing every pair."""
    sets = [(n, set(words)) for n, words in texts.items() if len(set(words)) >= FEWEST_WORDS]
    group = {number: {number} for number, _ in sets}
    for one, words in sets:
        for other, others in sets:
            if one < other and similarity(words, others) >= NEAR_DUPLICATE:
                joined = group[one] | group[other]
                group.update(dict.fromkeys(joined, joined))
    groups = {tuple(sorted(found)) for found in group.values() if len(found) > 1}
    return [list(found) for found in sorted(groups)]


@given(
    st.lists(st.lists(st.sampled_from("abcdefghijkl"), min_size=2, max_size=11), max_size=25).map(
        lambda lists: dict(enumerate(lists))
    )
)
def test_groups_are_those_of_comparing_every_pair(texts: dict[int, list[str]]) -> None:
    assert similar_groups(texts).groups == by_hand(texts)


def test_a_share_of_exactly_seven_tenths_is_near() -> None:
    ten = list("abcdefghij")
    assert similar_groups({1: ten, 2: ten[:7]}).groups == [[1, 2]]
    assert similar_groups({1: ten, 2: ten[:6]}).groups == []
    assert similar_groups({1: list("abc"), 2: list("abc")}).groups == []


def test_a_hundred_thousand_copies_are_one_group() -> None:
    copies = {number: ["same", "few", "plain", "words"] for number in range(100_000)}
    assert similar_groups(copies).groups == [list(range(100_000))]


def test_what_is_said_twice_is_one_group_per_kind(ws: Workspace) -> None:
    first = decide(ws, "Session cookies live for one hour only")
    second = decide(ws, "Session cookies live for one hour only!", task="T-2")
    third = decide(ws, "session cookies live one hour only", task="T-2")
    decide(ws, "Invoices are numbered without gaps")
    given = {"pattern": "Session cookies live for one hour only", "location": "x y z"}
    ws.note("pattern", task="T-1", agent="coder", **given)
    found = ws.knowledge.audit()
    assert found.duplicates == [[first, second, third]]
    assert found.counts["duplicates"] == 1
    ws.set_status(third, "reverted", agent="coder")
    assert ws.knowledge.audit().duplicates == [[first, second]]
    ws.set_status(second, "reverted", agent="coder")
    assert ws.knowledge.audit().duplicates == []


def test_files_that_changed_and_files_that_are_all_gone(ws: Workspace) -> None:
    write_files(ws.root, {"a.py": "1\n", "b.py": "1\n"})
    both = decide(ws, "Both", paths=["a.py", "b.py"])
    one = decide(ws, "One", paths=["b.py"])
    decide(ws, "None that there is", paths=["never.py"])
    Path(ws.root, "b.py").unlink()
    found = ws.knowledge.audit()
    assert found.stale == [{"item": both, "files": ["b.py is gone"]}]
    assert found.orphaned == [one]
    Path(ws.root, "a.py").unlink()
    assert (ws.knowledge.audit().stale, set(ws.knowledge.audit().orphaned)) == (
        [],
        {one, both},
    )


def test_nodes_without_an_edge_are_alone(ws: Workspace) -> None:
    nodes = [{"id": name, "type": "component", "summary": name} for name in "ABC"]
    ws.knowledge.add(nodes, [{"source": "A", "relation": "uses", "target": "B"}], agent="coder")
    assert ws.knowledge.audit().orphaned == ["C"]


def test_what_nobody_was_told_is_counted(ws: Workspace) -> None:
    ws.hand_off(full_handoff())
    before = ws.knowledge.audit()
    assert set(before.never_recalled) == {"T-1#d1", "T-1#p1", "T-1#g1", "T-1#w1"}
    told = ws.brief("T-1", agent="coder", budget=2_000).shown
    after = ws.knowledge.audit().never_recalled
    assert set(after) == set(before.never_recalled) - {item.address for item in told}
    ws.recall("anything", told_to="tester", limit=100)
    assert ws.knowledge.audit().never_recalled == []


def test_a_decision_with_two_standing_heirs_is_forked(ws: Workspace) -> None:
    first = decide(ws, "One")
    heirs = [decide(ws, f"Heir {n}", task="T-2", supersedes=[first]) for n in range(2)]
    assert ws.knowledge.audit().forked == [{"item": first, "superseded_by": heirs}]
    last = decide(ws, "Both heirs together", supersedes=heirs)
    assert ws.knowledge.audit().forked == []
    ws.set_status(last, "reverted", agent="coder")
    assert ws.knowledge.audit().forked == []


def test_counts_are_whole_where_lists_are_cut(ws: Workspace) -> None:
    items = [decide(ws, f"Decision about matter {n}", tags=["x"]) for n in range(12)]
    decide(ws, "Another", supersedes=[items[0]])
    found = ws.knowledge.audit(limit=3)
    assert found.standing == {"decision": 12}
    assert found.counts["never_recalled"] == 12
    assert len(found.never_recalled) == 3
    for limit in (0, -1, True):
        with pytest.raises(InvalidInput):
            ws.knowledge.audit(limit=limit)


def test_progress_is_told(ws: Workspace) -> None:
    decide(ws, "One")
    told: list[tuple[int, int]] = []
    ws.knowledge.audit(progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (1, 1)


def test_too_many_to_compare_are_compared_with_the_likeliest_and_that_is_said() -> None:
    """Copies are found all the same; what is found is alike."""
    choose = random.Random(7)
    vocabulary = [f"w{number}" for number in range(40)]
    texts = {number: choose.sample(vocabulary, 12) for number in range(400)}
    texts[1_000] = texts[3]
    whole, cut = similar_groups(texts), similar_groups(texts, most=1_000)
    assert (whole.is_complete, cut.is_complete) == (True, False)
    assert whole.groups == by_hand(texts)
    assert any({3, 1_000} <= set(group) for group in cut.groups)
    together = {number: set(group) for group in whole.groups for number in group}
    assert all(set(group) <= together[group[0]] for group in cut.groups)


def test_an_audit_says_whether_it_is_complete(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        decide(ws, f"The same five words are said {number}")
    assert ws.knowledge.audit().incomplete == []
    few = functools.partial(similar_groups, most=1)
    monkeypatch.setattr("passdown.knowledge.audit.similar_groups", few)
    assert ws.knowledge.audit().incomplete == ["duplicates"]

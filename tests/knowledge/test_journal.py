"""The journal: where things are, what is in the way, what was learned; kept by handoffs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import passdown
from passdown import Settings
from passdown.core.results import Journal
from passdown.errors import InvalidInput, NotFound
from passdown.knowledge.journal import journal_page
from passdown.testing import fixed_clock, full_handoff, write_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from passdown import Workspace

Document = dict[str, Any]


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    write_files(str(tmp_path))
    chosen = Settings(durability="normal", embedder="none")
    with passdown.open(str(tmp_path), settings=chosen, clock=fixed_clock()) as workspace:
        for task in ("T-1", "T-2"):
            workspace.create_task(task, title=f"Work on {task}", agent="planner")
        yield workspace


def gotcha(ws: Workspace, issue: str, severity: str = "high", task: str = "T-1") -> str:
    given = {"issue": issue, "mitigation": f"mind {issue}", "severity": severity}
    return ws.note("gotcha", task=task, agent="coder", **given).items[0]


@pytest.mark.promise("S3-22")
def test_each_file_of_a_handoff_is_in_the_context_map(ws: Workspace) -> None:
    """Created and modified ones, each once, as the latest handoff left it."""
    ws.hand_off(full_handoff())
    places = {place["location"]: place for place in ws.knowledge.journal("T-1").context_map}
    assert places.keys() == {"src/auth/jwt.py:1-2", "tests/test_jwt.py", "src/config.py:1-1"}
    assert places["src/auth/jwt.py:1-2"]["component"] == "auth"
    assert places["src/auth/jwt.py:1-2"]["notes"] == "Signs and checks tokens"
    ws.hand_off(
        {
            "task": "T-2",
            "outcome": "completed",
            "from_agent": "coder",
            "files_modified": [
                {
                    "path": "src/auth/jwt.py",
                    "lines": "2-2",
                    "change_type": "modify",
                    "description": "Tokens expire",
                }
            ],
        }
    )
    everywhere = {place["item"]: place for place in ws.knowledge.journal().context_map}
    assert len(everywhere) == 3
    assert everywhere["T-2#a1"]["location"] == "src/auth/jwt.py:2-2"
    assert everywhere["T-2#a1"]["notes"] == "Tokens expire"
    assert everywhere["T-2#a1"]["agent"] == "coder"
    assert "T-1#a1" not in everywhere
    assert {place["item"] for place in ws.knowledge.journal("T-1").context_map} >= {"T-1#a1"}


def test_reading_a_file_does_not_take_it_off_the_map(ws: Workspace) -> None:
    ws.hand_off(full_handoff())
    before = ws.knowledge.journal("T-1").context_map
    reading = [{"file": "src/config.py", "reason": "the pool"}]
    given = {"task": "T-1", "outcome": "completed", "from_agent": "coder"}
    ws.hand_off({**given, "dependencies_for_next": reading})
    assert ws.knowledge.journal("T-1").context_map == before


@pytest.mark.promise("S3-25")
def test_high_gotchas_of_every_task_are_in_the_journal_of_all_work(ws: Workspace) -> None:
    """Each saying once, with every place where it was said; lower ones stay with their task."""
    first = gotcha(ws, "The limit of the payment service is 100 a minute")
    second = gotcha(ws, "the limit of the payment service: 100 a minute!", task="T-2")
    low = gotcha(ws, "Fonts load late", "low")
    (entry,) = ws.knowledge.journal().gotchas
    assert entry["items"] == [second, first]
    assert entry["severity"] == "high"
    assert [e["items"] for e in ws.knowledge.journal("T-1").gotchas] == [[first], [low]]
    ws.set_status(first, "retracted", agent="coder")
    assert [e["items"] for e in ws.knowledge.journal().gotchas] == [[second]]
    ws.set_status(second, "retracted", agent="coder")
    assert ws.knowledge.journal().gotchas == []


def test_the_worst_come_first_however_old_they_are(ws: Workspace) -> None:
    """Also where there are more than the journal lists."""
    gotcha(ws, "Old and grave")
    for number in range(8):
        gotcha(ws, f"Small thing of sort {'abcdefgh'[number]}", "low")
    gotcha(ws, "Something between", "medium")
    found = ws.knowledge.journal("T-1", limit=3)
    assert [entry["severity"] for entry in found.gotchas] == ["high", "medium", "low"]
    assert found.more == ["gotchas"]
    assert found.gotchas[2]["issue"] == "Small thing of sort h"


def test_blockers_are_listed_until_they_are_resolved(ws: Workspace) -> None:
    ws.hand_off(full_handoff())
    (entry,) = ws.knowledge.journal().active_blockers
    assert entry["blocker"] == "No credentials for the payment service"
    assert entry["proposed_resolution"]
    ws.set_status("T-1#b1", "resolved", agent="coder")
    assert ws.knowledge.journal("T-1").active_blockers == []


def test_a_journal_of_nothing_and_one_that_can_not_be(ws: Workspace) -> None:
    empty = ws.knowledge.journal()
    assert (empty.context_map, empty.active_blockers, empty.gotchas) == ([], [], [])
    assert "Nothing is in the way." in journal_page(ws.knowledge.journal())
    with pytest.raises(NotFound):
        ws.knowledge.journal("T-9")
    for limit in (0, -1, True):
        with pytest.raises(InvalidInput):
            ws.knowledge.journal(limit=limit)


NASTY = st.text(alphabet="a|\\\n\r<>`[]!()#-* &;\u2028\x0b", max_size=30)


def cells(line: str) -> list[str]:
    """A line of a table as Markdown takes it apart."""
    found: list[str] = []
    cell, index = "", 0
    while index < len(line):
        if line[index] == "\\" and index + 1 < len(line):
            cell, index = cell + line[index : index + 2], index + 2
        elif line[index] == "|":
            found.append(cell)
            cell, index = "", index + 1
        else:
            cell, index = cell + line[index], index + 1
    return [*found, cell]


@given(one=NASTY, two=NASTY, three=NASTY)
def test_stored_words_stay_in_their_cell(one: str, two: str, three: str) -> None:
    """No bar, line, tag, code, link or picture of theirs is one of the page."""
    entry = {"issue": one, "mitigation": two, "severity": three, "items": ["T-1#g1"]}
    journal = {
        "task": None,
        "active_blockers": [],
        "gotchas": [entry],
        "context_map": [],
        "more": [],
    }
    lines = journal_page(Journal(journal)).splitlines()
    plain = journal_page(Journal({**journal, "gotchas": [{"items": ["T-1#g1"]}]})).splitlines()
    assert len(lines) == len(plain)
    (row,) = (line for line in lines if "T-1#g1" in line)
    assert len(cells(row)) == 6
    bare = re.sub(r"\\.", "", row)
    assert not set("<`[") & set(bare)


def test_the_page_says_what_the_journal_says(ws: Workspace) -> None:
    ws.hand_off(full_handoff())
    page = journal_page(ws.knowledge.journal("T-1"))
    assert page.startswith("# Journal: T-1\n")
    for part in ("src/config.py:1-1", "100 a minute", "No credentials", "T-1#g1", "T-1#b1"):
        assert part in page
    many = journal_page(ws.knowledge.journal(limit=1))
    assert "more of context map" in many

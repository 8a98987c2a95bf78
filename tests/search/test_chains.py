"""What holds where decisions were superseded: long chains, forks, forks that were joined again."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import apsw
import pytest

import passdown
from passdown import Settings
from passdown.store.sqlite.schema import rows
from passdown.testing import full_handoff, write_files

if TYPE_CHECKING:
    from pathlib import Path

    from passdown import Receipt, Workspace

QUICK = Settings(durability="normal", embedder="none")


def decided(ws: Workspace, summary: str, *supersedes: str, task: str = "T-1") -> Receipt:
    return ws.decide(
        task=task, agent="coder", summary=summary, rationale="so", supersedes=list(supersedes)
    )


def decide(ws: Workspace, summary: str, *supersedes: str, task: str = "T-1") -> str:
    return decided(ws, summary, *supersedes, task=task).items[0]


def forked(ws: Workspace) -> tuple[str, str, str, str]:
    """d2 and d3 supersede d1, then d4 supersedes d2: d3 and d4 stand."""
    first = decide(ws, "Cookies live for a day")
    second = decide(ws, "Cookies live for an hour", first)
    third = decide(ws, "Cookies live for a week", first, task="T-2")
    return first, second, third, decide(ws, "Cookies live for a minute", second)


@pytest.mark.promise("S0-40")
def test_a_chain_of_hundreds_leads_to_what_holds(ws: Workspace) -> None:
    chain = [decide(ws, "Cookies live for 0 hours")]
    for hours in range(1, 280):
        chain.append(decide(ws, f"Cookies live for {hours} hours", chain[-1]))
    for answer in (ws.recall("cookies live for 0 hours", limit=2), ws.recall("cookies", limit=3)):
        assert answer[0].address == chain[-1]
        assert {(a.superseded_by, a.holds) for a in answer[1:]} == {(chain[-1], True)}
    assert ws.recall("cookies live for 0 hours", limit=2)[1].address == chain[0]
    assert ws.knowledge.audit().forked == []


@pytest.mark.promise("S0-40")
def test_recall_names_all_that_hold_after_a_fork(ws: Workspace) -> None:
    first, second, third, fourth = forked(ws)
    found = {answer.address: answer for answer in ws.recall("cookies live", limit=10)}
    assert (found[first].superseded_by, found[first].also_hold) == (fourth, (third,))
    assert found[first].to_dict()["also_hold"] == [third]
    assert found[first].became == f"forked: {fourth}, {third} hold now"
    assert (found[second].superseded_by, found[second].also_hold) == (fourth, ())
    assert found[second].became == f"{fourth} holds now"
    ws.set_status(fourth, "reverted", agent="coder")
    answer = next(a for a in ws.recall("cookies live", limit=10) if a.address == first)
    assert (answer.superseded_by, answer.holds, answer.also_hold) == (third, True, ())


@pytest.mark.promise("S0-40")
def test_both_ends_of_a_fork_come_with_what_they_superseded(ws: Workspace) -> None:
    first = decide(ws, "Sessions are kept in signed cookies")
    ends = {decide(ws, text, first) for text in ("Redis it is", "A table it is")}
    for number in range(40):
        decide(ws, f"Invoice layout {number}")
    found = [answer.address for answer in ws.recall("sessions signed cookies", limit=3)]
    assert (set(found[:2]), found[2]) == (ends, first)


@pytest.mark.promise("S0-40")
def test_the_audit_tells_of_a_fork_until_it_is_joined(ws: Workspace) -> None:
    first, second, third, fourth = forked(ws)
    told = [{"item": first, "superseded_by": sorted([third, fourth])}]
    assert ws.knowledge.audit().forked == told
    fifth = decide(ws, "Cookies live for a second", fourth)
    assert ws.knowledge.audit().forked == [{"item": first, "superseded_by": sorted([third, fifth])}]
    joined = decide(ws, "Cookies live for a month", third, fifth)
    assert ws.knowledge.audit().forked == []
    heirs = [decide(ws, f"Cookies live for {n} years", joined) for n in (1, 2)]
    # Told where it forked, not of everything before.
    assert ws.knowledge.audit().forked == [{"item": joined, "superseded_by": heirs}]
    assert ws.recall("cookies an hour", statuses=["superseded"])[0].address == second


@pytest.mark.promise("S0-40")
def test_superseding_what_is_superseded_is_warned_of_when_it_is_written(ws: Workspace) -> None:
    first = decide(ws, "Cookies live for a day")
    receipt = decided(ws, "Sessions end at night", first)
    assert receipt.warnings == ()
    (warning,) = decided(ws, "Logins end at noon", first, task="T-2").warnings
    assert (warning.code, warning.level) == ("forked", "warning")
    assert (
        warning.message == f"{first} is superseded already: {receipt.items[0]} is in force instead"
    )
    again = decided(ws, "Tokens end at dawn", first, receipt.items[0])
    assert [w.message for w in again.warnings] == [
        f"{first} is superseded already: T-2#d1 is in force instead"
    ]
    assert decided(ws, "Nothing ends", first, "T-2#d1", again.items[0]).warnings == ()


@pytest.mark.promise("S0-40")
def test_a_handoff_is_warned_of_forks_too_and_of_those_within_it(ws: Workspace) -> None:
    write_files(ws.root)
    first = decide(ws, "Cookies live for a day")
    later = decide(ws, "Sessions end at night", first)
    own = decide(ws, "Logs are kept for a week")
    handoff = full_handoff(
        decisions=[
            {"summary": "Tokens end at dawn", "rationale": "r", "supersedes": [first, own]},
            {"summary": "Logs go to a table", "rationale": "r", "supersedes": [own]},
        ]
    )
    expected = [
        ("decisions[0].supersedes", f"{first} is superseded already: {later} is in force instead"),
        (
            "decisions[1].supersedes",
            f"{own} is superseded already: decisions[0] is in force instead",
        ),
    ]
    for warnings in (ws.check_handoff(handoff).problems, ws.hand_off(handoff).warnings):
        assert [(w.path, w.message) for w in warnings if w.code == "forked"] == expected


def test_a_circle_of_decisions_ends_the_search_for_what_holds(tmp_path: Path) -> None:
    """No door makes one, but records of several machines may come to it."""
    with passdown.open(str(tmp_path), settings=QUICK) as ws:
        ws.create_task("T-1", title="Work", agent="planner")
        first = decide(ws, "Cookies live for a day")
        second = decide(ws, "Cookies live for an hour", first)
        path = ws.store_url.removeprefix("sqlite:///")
        with closing(apsw.Connection(path)) as direct:
            rows(
                direct,
                "INSERT INTO edges VALUES (?, 'supersedes', ?, '{}', 'T-1', 9)",
                (first, second),
            )
            rows(direct, "UPDATE entries SET status = 'superseded'")
        found = {answer.address: answer for answer in ws.recall("cookies")}
        assert (found[first].superseded_by, found[first].holds) == (second, False)

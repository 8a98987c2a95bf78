"""Search by words: what it finds, what it says of what it found, and what it bears."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import passdown
from passdown import Settings
from passdown.errors import InvalidInput, PassdownError
from passdown.testing import full_handoff, write_files
from tests.folders import new_folder

if TYPE_CHECKING:
    from passdown import Workspace

HOSTILE = (
    'AND OR NOT ( ) " * : ^ - + NEAR(a, 3)',
    'words : cookie OR marks : "x"',
    "'; DROP TABLE entries; --",
    '"' * 99,
    "\u202etxet sdrawkcab cookie\u202c",
    "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd",
    "\U0001f36a cookie \U0001f469\u200d\U0001f4bb",
    "\u767b\u5f55 \u8ba4\u8bc1 cookie",
    "e\u0301" * 300,
    "{}[]\\/%$#@!~`<>?;,.",
    "a" * 10_000,
    "cookie " * 1_400,
    "the of and",
    "\ufffd\ufffe",
)


def decide(ws: Workspace, summary: str, task: str = "T-1", *supersedes: str) -> str:
    return ws.decide(
        task=task, agent="coder", summary=summary, rationale="so", supersedes=list(supersedes)
    ).items[0]


def test_an_empty_store_finds_nothing(ws: Workspace) -> None:
    assert ws.recall("cookie") == []
    assert ws.recall("the of and", kinds=["decision"], live_only=True) == []


def test_what_was_meant_comes_first(ws: Workspace) -> None:
    for number in range(30):
        decide(ws, f"Invoice layout number {number}")
    wanted = decide(ws, "Session cookies are httpOnly")
    for number in range(30):
        decide(ws, f"Queue worker number {number}")
    found = ws.recall("how are our session cookies set?", limit=3)
    assert found[0].address == wanted
    assert "httpOnly" in found[0].passage
    assert found[0].score > found[1].score


@pytest.mark.parametrize("query", HOSTILE)
def test_a_hostile_question_is_only_a_question(ws: Workspace, query: str) -> None:
    wanted = decide(ws, "A cookie for each session")
    found = ws.recall(query)
    assert [answer.address for answer in found] == [wanted]
    assert ws.verify().findings == ()


@pytest.mark.parametrize("query", ["", " \n", "\x00", "a\x00b", "\ud800", "x" * 10_001, "\u200b"])
def test_what_is_no_question_is_refused(ws: Workspace, query: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        ws.recall(query)
    assert {problem.path for problem in caught.value.problems} == {"query"}


WRONG_TYPES: list[dict[str, Any]] = [
    {"since": None},
    {"until": 5},
    {"tags": [None]},
    {"path": 5},
    {"agent": 5},
    {"task": 5},
    {"kinds": None},
    {"statuses": [b"open"]},
]


@pytest.mark.parametrize("only", WRONG_TYPES, ids=lambda only: next(iter(only)))
def test_a_filter_of_another_type_is_refused_by_name(ws: Workspace, only: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        ws.recall("matter", **only)
    assert [problem.path.partition("[")[0] for problem in caught.value.problems] == list(only)
    assert caught.value.problems[0].code == "wrong_type"


def test_one_text_is_enough_for_a_filter(ws: Workspace) -> None:
    ws.decide(task="T-1", agent="a", summary="A matter", rationale="so", tags=["auth"])
    one: dict[str, Any] = {"kinds": "decision", "tags": "auth", "statuses": "accepted"}
    for name, value in one.items():
        only: dict[str, Any] = {name: value}
        assert len(ws.recall("matter", **only)) == 1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=st.text(max_size=60), tag=st.text(max_size=10), path=st.text(max_size=10))
def test_no_text_gives_an_untyped_error(ws: Workspace, query: str, tag: str, path: str) -> None:
    with suppress(PassdownError):
        ws.recall(query, tags=[tag] if tag else (), path=path)


def test_a_superseded_decision_is_marked_and_names_what_holds_now(ws: Workspace) -> None:
    """The chain is followed to its end, across tasks."""
    first = decide(ws, "Cookies live for a day")
    second = decide(ws, "Cookies live for an hour", "T-2", first)
    third = decide(ws, "Cookies live for a minute", "T-3", second)
    found = {answer.address: answer for answer in ws.recall("cookies live")}
    assert (found[first].status, found[first].superseded_by) == ("superseded", third)
    assert (found[second].status, found[second].superseded_by) == ("superseded", third)
    assert (found[third].status, found[third].superseded_by) == ("accepted", "")
    assert [a.address for a in ws.recall("cookies live", live_only=True)] == [third]


def test_what_another_task_superseded_stays_so_whatever_its_own_says(ws: Workspace) -> None:
    first = decide(ws, "Cookies live for a day")
    second = decide(ws, "Cookies live for an hour", "T-2", first)
    ws.set_status(first, "reverted", agent="coder")
    (answer,) = ws.recall("cookies", statuses=["superseded"])
    assert (answer.address, answer.superseded_by) == (first, second)
    assert ws.show(first).status == "superseded"
    assert ws.verify().findings == ()


def test_a_decision_that_is_accepted_again_holds_again(ws: Workspace) -> None:
    first = decide(ws, "Cookies live for a day")
    second = decide(ws, "Cookies live for an hour", "T-1", first)
    third = decide(ws, "Cookies live for a minute", "T-1", second)
    ws.set_status(second, "accepted", agent="coder")
    found = {answer.address: answer for answer in ws.recall("cookies live")}
    assert (found[first].superseded_by, found[second].superseded_by) == (second, "")
    assert found[third].status == "accepted"
    assert ws.verify().findings == ()


def test_of_several_that_supersede_one_the_newest_that_holds_is_named(ws: Workspace) -> None:
    first = decide(ws, "Cookies live for a day")
    kept = [decide(ws, f"Cookies live for {n} hours", "T-2", first) for n in range(9)]
    gone = decide(ws, "Cookies live for a minute", "T-2", first)
    ws.set_status(gone, "reverted", agent="coder")
    (answer,) = ws.recall("cookies", statuses=["superseded"])
    assert answer.superseded_by == kept[-1]


def test_what_was_settled_is_left_out_on_request(ws: Workspace) -> None:
    ws.hand_off(full_handoff())
    for item, status in (
        ("T-1#p1", "retracted"),
        ("T-1#g1", "retracted"),
        ("T-1#w1", "retracted"),
        ("T-1#q1", "answered"),
        ("T-1#n1", "done"),
        ("T-1#b1", "resolved"),
        ("T-1#d1", "reverted"),
    ):
        before = {answer.address for answer in ws.recall("token", live_only=True, limit=50)}
        ws.set_status(item, status, agent="coder")
        after = {answer.address for answer in ws.recall("token", live_only=True, limit=50)}
        assert before - after == {item}
        marked = {answer.address: answer.status for answer in ws.recall("token", limit=50)}
        assert marked[item] == status


def test_files_that_changed_since_are_named(ws: Workspace) -> None:
    write_files(ws.root, {"a.py": "1\n", "b.py": "1\n", "c.py": "1\n"})
    ws.decide(task="T-1", agent="coder", summary="Cookie", rationale="r", paths=["a.py", "b.py"])
    ws.note("pattern", task="T-1", agent="coder", pattern="Cookie jar", location="c.py:3")
    assert all(answer.stale == () for answer in ws.recall("cookie"))
    write_files(ws.root, {"a.py": "2\n"})
    Path(ws.root, "c.py").unlink()
    found = {answer.kind: answer.stale for answer in ws.recall("cookie")}
    assert found == {"decision": ("a.py has changed",), "pattern": ("c.py is gone",)}
    write_files(ws.root, {"a.py": "1\n"})
    assert {a.kind: a.stale for a in ws.recall("cookie")}["decision"] == ()


def test_tags_of_an_item_are_its_own_or_the_words_that_stand_out(ws: Workspace) -> None:
    ws.decide(task="T-1", agent="a", summary="One", rationale="r", tags=["rate-limit"])
    ws.note("gotcha", task="T-1", agent="a", issue="Payment", mitigation="Wait", severity="low")
    assert [a.kind for a in ws.recall("x", tags=["Rate Limit"])] == ["decision"]
    assert [a.kind for a in ws.recall("x", tags=["payment"])] == ["gotcha"]


def test_written_knowledge_is_found_and_forgotten(ws: Workspace) -> None:
    node = {
        "id": "Mailer",
        "type": "component",
        "summary": "Sends letters",
        "path": "src/mail/a.py",
    }
    ws.knowledge.add([node], agent="coder")
    (answer,) = ws.recall("who sends letters?", path="src/mail")
    assert (answer.address, answer.kind, answer.title) == (
        "node:Mailer",
        "knowledge",
        "Sends letters",
    )
    ws.knowledge.add([{**node, "summary": "Sends parcels"}], agent="coder")
    assert [a.title for a in ws.recall("letters parcels")] == ["Sends parcels"]
    ws.knowledge.add(agent="coder", forget_nodes=["Mailer"])
    assert ws.recall("parcels") == []


def test_who_was_told_is_recorded_only_when_asked_for(ws: Workspace) -> None:
    item = decide(ws, "Cookies live for a day")
    ws.recall("cookies")
    assert ws.knowledge.audit().never_recalled == [item]
    heads = ws.maintenance.heads().heads
    ws.recall("nothing", kinds=["gotcha"], told_to="tester")
    assert ws.maintenance.heads().heads == heads
    ws.recall("cookies", told_to="tester")
    assert ws.knowledge.audit().never_recalled == []


@pytest.mark.promise("S4-36")
def test_what_one_story_decided_is_found_in_the_next(ws: Workspace) -> None:
    """By a question, and by the pack of a task that speaks of the same things."""
    ws.hand_off(full_handoff("T-1"))
    for number in range(40):
        decide(ws, f"Invoice layout number {number}", "T-3")
    ws.create_task("T-9", title="Set the session cookie with the JWT", agent="planner")
    found = ws.recall("is the JWT kept in a cookie?", told_to="coder")
    assert found[0].address == "T-1#d1"
    assert "T-1#d1" in {node.id for node in ws.knowledge.pack("T-9").graph.nodes}


def test_the_decision_that_holds_comes_with_the_one_that_it_superseded(ws: Workspace) -> None:
    first = decide(ws, "Cookies are signed with the old secret")
    second = decide(ws, "Tokens instead", "T-1", first)
    third = decide(ws, "Passkeys only", "T-2", second)
    found = ws.recall("signed cookies old secret", limit=2)
    assert [answer.address for answer in found] == [third, first]
    assert (found[1].superseded_by, found[1].holds) == (third, True)
    live = ws.recall("signed cookies old secret", live_only=True, limit=1)
    assert [answer.address for answer in live] == [third]
    ws.set_status(third, "reverted", agent="coder")
    (gone,) = ws.recall("signed cookies old secret", statuses=["superseded"], limit=1)
    assert (gone.superseded_by, gone.holds) == (third, False)


def test_what_is_refused_by_its_row_hides_nothing(tmp_path: Path) -> None:
    """Thousands of newer entries with the same words, none of which pass, cost no answer."""
    with passdown.open(new_folder(tmp_path / "many"), settings=Settings(embedder="none")) as ws:
        ws.create_task("T-1", title="Cookies", agent="coder")
        wanted = decide(ws, "alpha beta gamma", "T-1")
        steps = [{"step": f"alpha beta gamma {n}"} for n in range(300)]
        for begin in range(0, 300, 100):
            given = {"task": "T-1", "outcome": "completed"}
            ws.hand_off({**given, "suggested_next_steps": steps[begin : begin + 100]})
        last = {"task": "T-1", "outcome": "completed"}
        ws.hand_off({**last, "suggested_next_steps": [{"step": "something else"}]})
        found = ws.recall("alpha beta gamma", live_only=True, limit=3)
        assert found[0].address == wanted
        assert found[0].score > 0.5


def test_a_long_number_is_no_day(ws: Workspace) -> None:
    assert ws.recall("in March " + "1" * 5_000) == []


def test_accents_that_come_apart_are_the_same(ws: Workspace) -> None:
    import unicodedata

    address = decide(ws, "Le crédit est créé à la clôture")
    query = unicodedata.normalize("NFD", "créé clôture")
    assert ws.recall(query, limit=1)[0].address == address
    assert ws.recall(query, limit=1)[0].score > 0.3

"""History: any past version can be shown, compared and traced to its source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown.errors import InvalidInput, NotFound
from passdown.testing import fixed_clock, full_handoff, write_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from passdown import Workspace

Document = dict[str, Any]


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    write_files(str(tmp_path))
    with passdown.open(str(tmp_path), clock=fixed_clock()) as workspace:
        workspace.create_task("T-1", title="Login", agent="planner")
        yield workspace


@pytest.mark.promise("S1-34", "P-4")
def test_every_past_version_can_be_shown(ws: Workspace) -> None:
    """A version reads later as it read when it was current, whatever came after."""
    ws.create_task("T-2", title="Pay", agent="planner")
    read = {1: ws.files.state_document("T-1")}

    def note(_: object) -> None:
        document = ws.files.state_document("T-1")
        read[document["version"]] = document

    note(ws.hand_off(full_handoff()))
    note(ws.set_status("T-1#q1", "answered", agent="coder", reason="15"))
    note(ws.decide(task="T-1", agent="coder", summary="s", rationale="r", supersedes=["T-1#d1"]))
    ws.decide(task="T-2", agent="coder", summary="t", rationale="r", supersedes=["T-1#d2"])
    note(ws.update_task("T-1", agent="coder", title="Sign in"))
    note(ws.hand_off({"task": "T-1", "outcome": "completed", "resolves": ["T-1#n1"]}))
    note(ws.warn("T-1", agent="coder", text="w"))
    assert sorted(read) == list(range(1, 8))
    for version, document in read.items():
        assert ws.files.state_document("T-1", version) == document
        assert ws.state("T-1", version).version == version
    for version in (0, -1, 8, 2**40, 2**80):
        with pytest.raises(NotFound, match="no version"):
            ws.state("T-1", version)


@pytest.mark.promise("S1-34", "S3-41")
def test_the_log_has_every_record_in_order(ws: Workspace) -> None:
    """Newest first, with author, kind, time and a line on what it said; pages join."""
    ws.hand_off(full_handoff())
    ws.create_task("T-2", title="Pay", agent="tester")
    ws.decide(task="T-1", agent="coder", summary="Short lives", rationale="r")
    lines = ws.log("T-1")
    assert [(e.version, e.kind, e.author) for e in lines] == [
        (3, "decided", "coder"),
        (2, "handoff", "planner"),
        (1, "task_created", "planner"),
    ]
    assert lines[0].summary == "Short lives"
    assert lines[1].summary.startswith("planner -> coder, partial (implementing): Tokens")
    assert lines[1].counts["artifacts"] == 3
    assert lines[0].previous == lines[1].digest
    assert [e.task for e in ws.log()] == ["T-1", "T-2", "T-1", "T-1"]
    assert ws.log("T-1", limit=1, before=3) == [lines[1]]
    first = ws.log(limit=2)
    assert [e.seq for e in [*first, *ws.log(limit=9, before=first[-1].seq)]] == [4, 3, 2, 1]
    with pytest.raises(NotFound):
        ws.log("T-9")
    pages: list[Document] = [{"limit": -1}, {"limit": "1; DELETE"}, {"before": True}]
    for page in [*pages, {"limit": 2**80}]:
        with pytest.raises(InvalidInput):
            ws.log("T-1", **page)


@pytest.mark.promise("S3-41")
def test_every_fact_says_where_it_came_from(ws: Workspace) -> None:
    """Each item names its task, agent, time, version and the record that proves it."""
    command = ws.hand_off(full_handoff())
    state = ws.files.state_document("T-1")
    lists = ("handoffs", "decisions", "artifacts", "patterns", "gotchas", "reading", "questions",
             "next_steps", "blockers", "warnings", "gates")  # fmt: skip
    for name in lists:
        assert state[name], name
        for entry in state[name]:
            assert entry["address"].startswith("T-1#")
            assert (entry["agent"], entry["version"]) == ("planner", 2)
            assert entry["at"] == "2026-01-09T10:00:01.000000Z"
            source = ws.show(entry["address"]).source
            assert (source["task"], source["version"]) == ("T-1", 2)
            assert (source["author"], source["kind"]) == ("planner", "handoff")
            assert source["digest"] == command.digest
    for address in ("T-1#d9", "T-9#d1", "T-1#x1", "nonsense", ""):
        with pytest.raises(NotFound):
            ws.show(address)


@pytest.mark.promise("S1-33")
def test_a_diff_shows_what_was_added_changed_and_removed(ws: Workspace) -> None:
    """Fields old and new, items added, items changed; nothing goes unless it is replaced."""
    ws.hand_off(full_handoff())
    write_files(ws.root, {"src/config.py": "POOL = 9\n"})
    ws.hand_off(
        {
            "task": "T-1",
            "outcome": "completed",
            "phase": "reviewing",
            "artifacts": [{"path": "src/config.py"}],
            "decisions": [{"summary": "s", "rationale": "r"}],
            "blockers": [],
        }
    )
    difference = ws.diff("T-1", 2, 3)
    assert (difference.old, difference.new) == (2, 3)
    assert difference.fields["phase"] == {"old": "implementing", "new": "reviewing"}
    assert [d["summary"] for d in difference.added["decisions"]] == ["s"]
    (blocker,) = difference.changed["blockers"]
    assert (blocker["old"]["status"], blocker["new"]["status"]) == ("open", "replaced")
    (artifact,) = difference.changed["artifacts"]
    assert artifact["old"]["sha256"] != artifact["new"]["sha256"]
    assert difference.removed == {}
    back = ws.diff("T-1", 3, 2)
    assert [d["summary"] for d in back.removed["decisions"]] == ["s"]
    same = ws.diff("T-1", 2, 2)
    assert (same.fields, same.added, same.changed, same.removed) == ({}, {}, {}, {})
    with pytest.raises(NotFound):
        ws.diff("T-1", 2, 9)


@pytest.mark.promise("S1-34")
def test_records_can_not_be_changed_even_with_sql(ws: Workspace, tmp_path: Path) -> None:
    """The database itself refuses to alter or delete a record."""
    import apsw

    connection: Any = apsw.Connection(str(tmp_path / ".passdown" / "ledger.db"))
    for statement in ("UPDATE records SET author = 'x'", "DELETE FROM records"):
        with pytest.raises(apsw.ConstraintError, match="only ever added"):
            connection.execute(statement)
    connection.close()
    assert ws.verify().ok

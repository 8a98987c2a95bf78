"""What can be found is derived: made again it is the same, altered it shows, and a crash leaves it
whole or leaves nothing.
"""

from __future__ import annotations

import shutil
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import apsw
import pytest

import passdown
from passdown import Settings
from passdown.errors import StoreError
from passdown.store.sqlite.schema import rows
from passdown.testing import fixed_clock, full_handoff, write_files
from tests.faults.test_statement_faults import Failing, failing
from tests.store.test_upgrade import old

if TYPE_CHECKING:
    from pathlib import Path

    from passdown import Workspace

__all__ = ["failing", "old"]

TABLES = ("entries", "texts", "knowledge", "edges", "tags")
QUICK = Settings(durability="normal", embedder="none")


def node(name: str, summary: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "component", "summary": summary, **more}


def story(folder: Path) -> None:
    """Some of everything that brings, changes or takes away what can be found."""
    write_files(str(folder))
    with passdown.open(str(folder), settings=QUICK, clock=fixed_clock()) as ws:
        for task in ("T-1", "T-2"):
            ws.create_task(task, title=f"Work on {task}", agent="planner")
        ws.hand_off(full_handoff())
        ws.hand_off(full_handoff("T-2", from_agent="coder", to_agent="tester"))
        ws.update_task("T-2", agent="planner", depends_on=["T-1"])
        anew: dict[str, Any] = {"summary": "Anew", "supersedes": ["T-1#d1"]}
        ws.decide(task="T-2", agent="coder", rationale="better", **anew)
        ws.set_status("T-1#d1", "reverted", agent="coder")
        ws.set_status("T-1#q1", "answered", agent="coder", reason="yes")
        edge = {"source": "A", "relation": "uses", "target": "B", "purpose": "x"}
        ws.knowledge.add([node("A", "One", tags=["t"]), node("B", "Two")], [edge], agent="coder")
        ws.knowledge.add(
            [node("A", "Other", tags=["u"], path="src/a.py")], agent="tester", task="T-1"
        )
        ws.knowledge.add([node("C", "Three")], [{**edge, "source": "C"}], agent="coder", task="T-2")
        ws.knowledge.add(agent="coder", forget_nodes=["B"])
        ws.knowledge.add(
            agent="coder", forget_edges=[("file:src/config.py", "changed_in", "task:T-1")]
        )
        ws.warn("T-2", agent="coder", text="Careful with that")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    story(tmp_path)
    return tmp_path


def dump(ws: Workspace) -> dict[str, list[Any]]:
    with ws._context.store.reading() as reader:  # pyright: ignore[reportPrivateUsage]
        found = reader.dump()
    return {table: list(found[table]) for table in TABLES}


def edit(folder: Path, *statements: str) -> None:
    """Change the database behind the program's back."""
    with closing(apsw.Connection(str(folder / ".passdown" / "ledger.db"))) as connection:
        for statement in statements:
            rows(connection, statement)


def test_rows_made_again_are_the_same(folder: Path) -> None:
    with passdown.open(str(folder), settings=QUICK) as ws:
        before = dump(ws)
        assert all(before.values())
        assert ws.verify().findings == ()
        assert ws.maintenance.reindex().differing == ()
        assert dump(ws) == before
        ws.knowledge.add([node("D", "Four")], agent="coder")
        with_more = dump(ws)
        assert ws.maintenance.reindex().differing == ()
        assert dump(ws) == with_more


EDITS = {
    "entry gone": "DELETE FROM entries WHERE address = 'T-1#g1'",
    "entry added": "INSERT INTO entries SELECT 999, 'X-1#d1', 'X-1', kind, agent, at, status, "
    "position, length, traits, heads, passage FROM entries WHERE address = 'T-1#d1'",
    "entry status": "UPDATE entries SET status = 'accepted' WHERE address = 'T-1#d1'",
    "entry author": "UPDATE entries SET agent = 'x' WHERE address = 'T-1#g1'",
    "entry time": "UPDATE entries SET at = '2020-01-01' WHERE address = 'T-1#g1'",
    "entry kind": "UPDATE entries SET kind = 'pattern' WHERE address = 'T-1#g1'",
    "entry of another task": "UPDATE entries SET task = 'T-2' WHERE address = 'T-1#g1'",
    "entry weight": "UPDATE entries SET length = 1 WHERE address = 'T-1#g1'",
    "entry passage": "UPDATE entries SET passage = x'00' WHERE address = 'T-1#g1'",
    "entry heads": "UPDATE entries SET heads = 'x' WHERE address = 'T-1#g1'",
    "entry of a node": "UPDATE entries SET status = 'legacy' WHERE address = 'node:A'",
    "entry of a node gone": "DELETE FROM entries WHERE address = 'node:C'",
    "words": "UPDATE texts SET words = 'x' WHERE rowid = 2",
    "marks": "UPDATE texts SET marks = 'x' WHERE rowid = 2",
    "text gone": "DELETE FROM texts WHERE rowid = 2",
    "text added": "INSERT INTO texts (rowid, words, marks) VALUES (999, 'x', 'y')",
    "words of a node": "UPDATE texts SET words = 'x' WHERE rowid = "
    "(SELECT id FROM entries WHERE address = 'node:A')",
    "node summary": "UPDATE knowledge SET summary = 'x' WHERE id = 'A'",
    "node type": "UPDATE knowledge SET type = 'rule' WHERE id = 'A'",
    "node tags": "UPDATE knowledge SET tags = '[]' WHERE id = 'A'",
    "node attributes": "UPDATE knowledge SET attributes = '{}' WHERE id = 'A'",
    "node origin": "UPDATE knowledge SET task = 'T-2' WHERE id = 'A'",
    "node version": "UPDATE knowledge SET position = 1 WHERE id = 'A'",
    "node gone": "DELETE FROM knowledge WHERE id = 'C'",
    "node back": "INSERT INTO knowledge VALUES ('B', 'component', 'Two', '[]', '{}', 'T-1', 1)",
    "edge gone": "DELETE FROM edges WHERE relation = 'decided_by'",
    "edge turned": "UPDATE edges SET relation = 'calls' WHERE relation = 'discovered_in'",
    "edge moved": "UPDATE edges SET target = 'agent:x' WHERE relation = 'decided_by'",
    "edge back": "INSERT INTO edges VALUES ('A', 'uses', 'B', '{}', 'T-1', 1)",
    "edge attributes": 'UPDATE edges SET attributes = \'{"a": "b"}\' '
    "WHERE relation = 'decided_by'",
    "edge of another task": "UPDATE edges SET task = 'T-2' WHERE source = 'T-1#d1'",
    "edge version": "UPDATE edges SET position = 99 WHERE relation = 'decided_by'",
    "version of a dependency": "UPDATE edges SET position = 99 WHERE relation = 'depends_on'",
    "superseding edge": "DELETE FROM edges WHERE relation = 'supersedes'",
    "tag gone": "DELETE FROM tags WHERE tag = 'auth'",
    "tag added": "INSERT INTO tags VALUES ('x', 'T-1#d1')",
    "tag of nothing": "INSERT INTO tags VALUES ('x', 'nobody')",
    "tag of a node": "UPDATE tags SET tag = 'x' WHERE node = 'A'",
}


@pytest.mark.promise("P-5")
@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_found_and_made_good(folder: Path, name: str) -> None:
    with passdown.open(str(folder), settings=QUICK) as ws:
        before = dump(ws)
    edit(folder, EDITS[name])
    with passdown.open(str(folder), settings=QUICK) as ws:
        assert dump(ws) != before, "the edit does nothing"
        assert ws.verify().findings
        ws.maintenance.reindex()
        assert ws.verify().findings == ()
        assert dump(ws) == before


def test_an_index_that_disagrees_with_its_texts_is_found(folder: Path) -> None:
    """The words stand where they stood, only the index that finds them lost some."""
    edit(folder, "DELETE FROM texts_data WHERE id > 10")
    with passdown.open(str(folder), settings=QUICK) as ws:
        assert ws.verify().findings


def test_whichever_statement_fails_nothing_is_learned(folder: Path, failing: Failing) -> None:
    with passdown.open(str(folder), settings=QUICK) as ws:
        before, heads = dump(ws), ws.maintenance.heads().heads
        edge = {"source": "A", "relation": "calls", "target": "N"}
        number = 0
        while ws.maintenance.heads().heads == heads:
            assert dump(ws) == before
            number += 1
            failing.start(number)
            with suppress(StoreError):
                ws.knowledge.add(
                    [node("A", "New", tags=["v"]), node("N", "More")],
                    [edge],
                    agent="coder",
                    forget_nodes=["C"],
                )
            failing.start(0)
        assert number > 15
        assert ws.verify().findings == ()
        assert dump(ws) != before


def test_a_store_of_an_earlier_release_can_be_searched(old: Path) -> None:
    with passdown.open(str(old), settings=QUICK) as ws:
        found = ws.recall("middleware", limit=100)
        assert found[0].score > 0
        assert {"decision", "gotcha", "question", "next_step", "handoff"} <= {a.kind for a in found}
        assert "task:T-1" in {n.id for n in ws.knowledge.graph().nodes}
        assert ws.knowledge.journal("T-1").gotchas
        assert ws.knowledge.audit().standing["decision"] >= 1
        assert ws.verify().findings == ()


def test_a_bundle_taken_in_before_what_it_supersedes_is_marked(tmp_path: Path) -> None:
    """A decision that comes from elsewhere after its heir is superseded from the start."""
    one, two = tmp_path / "one", tmp_path / "two"
    story(one)
    with passdown.open(str(one), settings=QUICK) as ws:
        for task in ("T-1", "T-2"):
            ws.maintenance.export(str(tmp_path / f"{task}.zip"), task)
    two.mkdir()
    with passdown.open(str(two), settings=QUICK) as ws:
        for task in ("T-2", "T-1"):
            ws.maintenance.import_bundle(str(tmp_path / f"{task}.zip"))
        (answer,) = ws.recall("cookie", statuses=["superseded"])
        assert (answer.address, answer.superseded_by) == ("T-1#d1", "T-2#d2")
        assert ws.verify().findings == ()
        assert ws.maintenance.reindex().differing == ()


def test_a_copied_store_is_found_in_alike(folder: Path, tmp_path: Path) -> None:
    with passdown.open(str(folder), settings=QUICK) as ws:
        ws.maintenance.backup(str(tmp_path / "copy.db"))
        expected = ws.recall("cookie token", limit=50)
    place = tmp_path / "elsewhere" / ".passdown"
    place.mkdir(parents=True)
    shutil.copy(tmp_path / "copy.db", place / "ledger.db")
    with passdown.open(str(place.parent), settings=QUICK) as ws:
        found = ws.recall("cookie token", limit=50)
    assert [a._replace(stale=()) for a in found] == [a._replace(stale=()) for a in expected]


def test_a_lowered_count_of_entries_does_no_harm(folder: Path) -> None:
    """The next entry gets a number above all that are taken, whatever was noted."""
    edit(folder, "DELETE FROM numbers")
    edit(folder, "INSERT INTO numbers (last) VALUES (1)")
    with passdown.open(str(folder), settings=QUICK) as ws:
        with ws._context.store.reading() as reader:  # pyright: ignore[reportPrivateUsage]
            newest = reader.newest_entry()
            assert reader.next_number() == newest + 1 > 2
        ws.decide(task="T-1", agent="coder", summary="Goes on", rationale="it should")
        assert ws.verify().findings == ()
        ws.maintenance.reindex()
        assert ws.verify().findings == ()

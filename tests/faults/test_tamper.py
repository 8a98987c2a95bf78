"""Changes show: `verify` finds what was altered, saved heads what was cut off or put back."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import apsw
import pytest

import passdown
from passdown.core.record import GENESIS, Head, Record, chained
from passdown.errors import PassdownError
from passdown.store.sqlite.schema import rows
from tests.faults.test_statement_faults import RICH
from tests.faults.tools import make_store, seeded, soak_count, state_of, write

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

TRIGGERS = ("records_stay_as_written", "records_stay")


class Sample(NamedTuple):
    """A store at rest: its bytes, everything that can be read of it, and its saved heads."""

    folder: Path
    content: bytes
    seen: dict[str, Any]
    heads: dict[str, Any]

    @property
    def path(self) -> Path:
        return self.folder / ".passdown" / "ledger.db"


@pytest.fixture
def sample(tmp_path: Path) -> Sample:
    folder = tmp_path / "project"
    make_store(folder, ["T-1", "T-2", "T-3"])
    (folder / "made.py").write_text("pass\n", "utf-8")
    with passdown.open(str(folder)) as ws:
        for number in range(4):
            write(ws, "T-1", f"h-{number}")
            write(ws, "T-2", f"d-{number}", "decide")
        ws.hand_off({**RICH, "resolves": []}, key="h-rich")
        ws.note("gotcha", agent="coder", task="T-3", issue="x", mitigation="y", severity="low")
        seen, heads = state_of(ws), ws.maintenance.heads().to_dict()
    path = folder / ".passdown" / "ledger.db"
    connection = apsw.Connection(str(path))
    rows(connection, "VACUUM")  # pages that hold nothing could be cut off without a loss
    rows(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    content = path.read_bytes()
    assert not (folder / ".passdown" / "ledger.db-wal").exists()
    return Sample(folder, content, seen, heads)


def put(sample: Sample, content: bytes) -> None:
    """Replace the database file, with nothing beside it."""
    for ending in ("-wal", "-shm"):
        sample.path.with_name("ledger.db" + ending).unlink(missing_ok=True)
    sample.path.write_bytes(content)


def judged(sample: Sample, *, chain_only: bool = False) -> str:
    """same, found (verify has findings), refused (a typed error) or unseen."""
    try:
        with passdown.open(str(sample.folder)) as ws:
            findings = ws.verify(chain_only=chain_only).findings
            try:
                is_same = state_of(ws) == sample.seen
            except PassdownError:
                return "refused"
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                return "found" if findings else f"unseen {error!r}"[:150]
    except PassdownError:
        return "refused"
    if is_same:
        return "same"
    return "found" if findings else "unseen"


def flipped(content: bytes, offset: int, bit: int) -> bytes:
    changed = bytearray(content)
    changed[offset] ^= 1 << bit
    return bytes(changed)


def flip_bits(sample: Sample, count: int, rng: random.Random) -> dict[str, list[tuple[int, int]]]:
    """What became of single flipped bits, with the places."""
    found: dict[str, list[tuple[int, int]]] = {}
    for _ in range(count):
        offset, bit = rng.randrange(len(sample.content)), rng.randrange(8)
        put(sample, flipped(sample.content, offset, bit))
        found.setdefault(judged(sample), []).append((offset, bit))
    return found


def bad_ends(found: dict[str, list[tuple[int, int]]]) -> dict[str, list[tuple[int, int]]]:
    return {end: places[:5] for end, places in found.items() if end.startswith("unseen")}


@pytest.mark.promise("P-5")
def test_no_flipped_bit_changes_what_is_read_unseen(sample: Sample) -> None:
    found = flip_bits(sample, 250, seeded("flips"))
    assert bad_ends(found) == {}
    assert len(found["found"]) + len(found["refused"]) > 12


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_many_flipped_bits(sample: Sample) -> None:
    found = flip_bits(sample, soak_count("FLIPS", 100_000), seeded("many flips"))
    assert bad_ends(found) == {}


def looks_away(record: Record) -> bool:
    return bool(record)


def test_control_a_verification_that_looks_away_misses_changes(
    sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the chain, altered bodies pass: SQLite's own check doesn't see them."""
    monkeypatch.setattr(Record, "is_intact", looks_away)
    edit(sample, REPLACE.format("did h-2", "did xxx"))
    with passdown.open(str(sample.folder)) as ws:
        before = ws.verify().findings
        monkeypatch.undo()
        after = ws.verify().findings
    assert not [finding for finding in before if finding.code == "page_damage"]
    assert [finding for finding in after if "its content" in finding.message]
    assert len(before) < len(after)


# -- logical edits, by someone who can write the file


def edit(
    sample: Sample, *statements: str, run: Callable[[apsw.Connection], None] | None = None
) -> None:
    """Edit the database as its owner could: drop the triggers, write, and put them back."""
    connection = apsw.Connection(str(sample.path))
    find = "SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND name = ?"
    triggers = [str(row[0]) for name in TRIGGERS for row in rows(connection, find, (name,))]
    assert len(triggers) == len(TRIGGERS)
    for name in TRIGGERS:
        rows(connection, f"DROP TRIGGER {name}")
    for statement in statements:
        rows(connection, statement)
    if run is not None:
        run(connection)
    for trigger in triggers:
        rows(connection, trigger)
    rows(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def rewrite(connection: apsw.Connection) -> None:
    """Change a record of T-2 and chain everything after it anew, heads and rows included."""
    query = (
        "SELECT s.name, r.position, r.at, r.author, r.kind, r.key, r.previous, r.digest, r.body, "
        "r.seq FROM records r JOIN streams s ON s.id = r.stream WHERE s.name = 'task/T-2' "
        "ORDER BY r.position"
    )
    head: Head | None = None
    for row in rows(connection, query):
        record = Record(*row)
        body = record.body.replace(b"chose d-1", b"chose xxx")
        record = chained(record._replace(body=body), head)
        head = Head(record.stream, record.position, record.digest)
        rows(
            connection,
            "UPDATE records SET previous = ?, digest = ?, body = ? WHERE seq = ?",
            (record.previous, record.digest, record.body, record.seq),
        )
        assert record.previous != GENESIS or record.position == 1
    assert head is not None
    for table, name in (("streams", "name"), ("tasks", "task")):
        rows(
            connection,
            f"UPDATE {table} SET digest = ? WHERE {name} IN ('task/T-2', 'T-2')",
            (head.digest,),
        )


REPLACE = "UPDATE records SET body = CAST(replace(CAST(body AS TEXT), '{}', '{}') AS BLOB)"
CUT_TAIL = (
    "DELETE FROM records WHERE position = 5 AND stream = "
    "(SELECT id FROM streams WHERE name = 'task/T-2')",
    "UPDATE streams SET position = 4, digest = (SELECT digest FROM records r WHERE position = 4 "
    "AND r.stream = streams.id) WHERE name = 'task/T-2'",
)
SWAP = (
    "UPDATE records SET position = 99 WHERE key = 'd-1'",
    "UPDATE records SET position = 3 WHERE key = 'd-2'",
    "UPDATE records SET position = 4 WHERE key = 'd-1'",
)
DELETE_STREAM = (
    "DELETE FROM records WHERE stream = (SELECT id FROM streams WHERE name = 'task/T-2')",
    "DELETE FROM streams WHERE name = 'task/T-2'",
    *(f"DELETE FROM {t} WHERE task = 'T-2'" for t in ("tasks", "details", "items", "inbox")),
)

# name: (statements, does the chain alone find it)
EDITS: dict[str, tuple[tuple[str, ...], bool]] = {
    "edited body": ((REPLACE.format("chose d-1", "chose xxx"),), True),
    "edited author": (("UPDATE records SET author = 'someone' WHERE key = 'd-1'",), True),
    "edited time": (("UPDATE records SET at = '2020-01-01T00:00:00Z' WHERE key = 'd-1'",), True),
    "swapped records": (SWAP, True),
    "deleted record": (("DELETE FROM records WHERE key = 'd-1'",), True),
    "moved record": (
        (
            "UPDATE records SET position = 6, stream = "
            "(SELECT id FROM streams WHERE name = 'task/T-3') WHERE key = 'd-3'",
        ),
        True,
    ),
    "cut tail": (CUT_TAIL, False),
    "deleted stream": (DELETE_STREAM, False),
}


def verdicts(sample: Sample) -> tuple[bool, bool]:
    """Whether the chain alone, and whether the saved heads, show that something is wrong."""
    with passdown.open(str(sample.folder)) as ws:
        assert ws.maintenance.heads() is not None
        return not ws.verify().ok, not ws.verify(against=sample.heads).ok


@pytest.mark.promise("P-5")
@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_found(sample: Sample, name: str) -> None:
    statements, by_chain = EDITS[name]
    edit(sample, *statements)
    alone, against = verdicts(sample)
    assert against
    assert alone or not by_chain


@pytest.mark.promise("P-5")
def test_a_rewritten_history_is_found_by_saved_heads(sample: Sample) -> None:
    edit(sample, run=rewrite)
    with passdown.open(str(sample.folder)) as ws:
        assert ws.verify(chain_only=True).ok, "the rewriting isn't well made"
        codes = {finding.code for finding in ws.verify(against=sample.heads).findings}
    assert "rewritten" in codes


@pytest.mark.promise("P-5")
def test_an_old_file_put_back_is_found_by_saved_heads(sample: Sample) -> None:
    with passdown.open(str(sample.folder)) as ws:
        write(ws, "T-2", "h-later")
        heads = ws.maintenance.heads()
    put(sample, sample.content)
    with passdown.open(str(sample.folder)) as ws:
        assert ws.verify(chain_only=True).ok
        assert {finding.code for finding in ws.verify().findings} == {"ledger_behind"}
        codes = {finding.code for finding in ws.verify(against=heads, chain_only=True).findings}
    assert codes == {"rollback"}


def test_control_an_untouched_store_agrees_with_its_heads(sample: Sample) -> None:
    assert verdicts(sample) == (False, False)


DERIVED = {
    "title": "UPDATE details SET details = replace(details, 'Task T-1', 'Task X-1')",
    "status": "UPDATE tasks SET base_status = 'cancelled' WHERE task = 'T-3'",
    "phase": "UPDATE tasks SET phase = 'completed' WHERE task = 'T-2'",
    "holder": "UPDATE tasks SET holder = 'someone' WHERE task = 'T-1'",
    "version": "UPDATE tasks SET version = version + 1 WHERE task = 'T-2'",
    "header": "UPDATE tasks SET header = replace(header, 'coder', 'clone')",
    "item status": "UPDATE items SET status = 'reverted' WHERE letter = 'd' AND ordinal = 1",
    "item place": "UPDATE items SET idx = idx + 1 WHERE letter = 'd' AND ordinal = 1",
    "item gone": "DELETE FROM items WHERE task = 'T-1' AND letter = 'b'",
    "task gone": "DELETE FROM tasks WHERE task = 'T-3'",
    "gate opened": "UPDATE items SET status = 'approved', is_open = 0 WHERE letter = 'k'",
    "link closed": "UPDATE links SET closed_seq = 5 WHERE relation = 'blocks'",
    "link gone": "DELETE FROM links",
    "link added": "INSERT INTO links VALUES ('T-1#b1', 'blocks', 'T-3', 3, 0)",
    "inbox gone": "DELETE FROM inbox",
    "inbox moved": "UPDATE inbox SET agent = 'someone'",
    "inbox let go": "UPDATE inbox SET held = 1 - held",
    "dependency": "INSERT INTO dependencies VALUES ('T-1', 'T-3')",
    "order of tasks": "UPDATE tasks SET created_seq = 4 - created_seq WHERE created_seq < 4",
}


@pytest.mark.promise("P-5")
@pytest.mark.parametrize("name", DERIVED)
def test_an_edited_derived_row_is_found(sample: Sample, name: str) -> None:
    edit(sample, DERIVED[name])
    assert judged(sample) in ("found", "refused")
    with passdown.open(str(sample.folder)) as ws:
        ws.maintenance.reindex()
        assert ws.verify().ok
        assert state_of(ws) == sample.seen


@pytest.mark.promise("P-5", "S1-19")
def test_a_cut_off_file_is_reported(sample: Sample) -> None:
    rng = seeded("cut off")
    size = len(sample.content)
    lengths = [0, 1, 99, 100, 4095, 4096, 8192, *(rng.randrange(size) for _ in range(25))]
    ends = Counter(cut_off(sample, length) for length in lengths)
    assert ends.keys() <= {"refused", "found"}
    assert cut_off(sample, len(sample.content)) == "same"


def cut_off(sample: Sample, length: int) -> str:
    """What is said of a file of which only the beginning is left. To SQLite, no byte or one is a
    new database, so there the saved heads must speak.
    """
    put(sample, sample.content[:length])
    if length > 1:
        return judged(sample)
    with passdown.open(str(sample.folder)) as ws:
        return "same" if ws.verify(against=sample.heads).ok else "found"


@pytest.mark.promise("S1-19")
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE records SET body = x'7b' WHERE key = 'd-1'",
        "UPDATE records SET body = x'ff00ff' WHERE key = 'd-1'",
        "UPDATE tasks SET header = '{' WHERE task = 'T-2'",
        "UPDATE details SET details = '[1,' WHERE task = 'T-2'",
        "UPDATE tasks SET holder = CAST(x'ff41' AS TEXT) WHERE task = 'T-2'",
        "UPDATE records SET author = CAST(x'ff41' AS TEXT) WHERE key = 'd-1'",
    ],
)
def test_a_stored_value_that_can_not_be_read_is_a_described_error(
    sample: Sample, statement: str
) -> None:
    edit(sample, statement)
    with passdown.open(str(sample.folder)) as ws:
        with pytest.raises(PassdownError, match="damaged"):
            state_of(ws)
        assert ws.verify().findings
        assert ws.state("T-3").version == 2


def test_a_damaged_last_record_is_never_built_upon(sample: Sample) -> None:
    edit(sample, REPLACE.format("chose d-3", "chose xxx"))
    with passdown.open(str(sample.folder)) as ws:
        with pytest.raises(PassdownError, match="damaged"):
            write(ws, "T-2", "d-4", "decide")
        assert ws.log("T-2")[0].version == 5


def test_records_can_not_be_changed_by_mistake(sample: Sample, tmp_path: Path) -> None:
    """The triggers refuse what a careless statement would do."""
    copy = tmp_path / "copy.db"
    shutil.copy(sample.path, copy)
    connection = apsw.Connection(str(copy))
    for statement in ("UPDATE records SET author = 'x'", "DELETE FROM records"):
        with pytest.raises(apsw.ConstraintError, match="only ever added"):
            rows(connection, statement)
    connection.close()

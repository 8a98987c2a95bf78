"""What is PostgreSQL's own: refusals, schemas, locks and addresses."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any, LiteralString, cast

import psycopg
import pytest

import passdown
from passdown.errors import (
    ForeignSchema,
    InvalidInput,
    NewerSchema,
    PassdownError,
    StoreBusy,
    StoreUnavailable,
)
from passdown.ledger import verification
from passdown.store import open_store, url_without_password
from passdown.store.postgres import schema
from passdown.store.postgres.connections import parse_location
from tests.faults.tools import worker_environment
from tests.postgres import new_workspace

if TYPE_CHECKING:
    from pathlib import Path

    from passdown.store.protocol import Store

pytestmark = pytest.mark.usefixtures("in_own_folder")


def sql(url: str, statement: str) -> None:
    """Run a statement by hand in a workspace's schema."""
    place = parse_location(url)
    with psycopg.connect(place.conninfo, autocommit=True) as connection:
        connection.execute(cast("LiteralString", f"SET search_path = {place.schema}, public"))
        connection.execute(cast("LiteralString", statement))


def write(store: Store, task: str = "T-1", key: str = "k") -> None:
    from passdown.ledger.writer import Ledger, StreamEntry

    Ledger(store).add_entries(
        [StreamEntry(f"aside/{task}", "noted", "planner", {"told": task}, key)]
    )


@pytest.mark.promise("S8-6")
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE records SET author = 'other'",
        "DELETE FROM records",
        "TRUNCATE records CASCADE",
    ],
)
def test_the_database_itself_refuses_to_change_records(postgres_store: str, statement: str) -> None:
    with passdown.open(postgres_store) as ws:
        ws.create_task("T-1", title="Login", agent="planner")
        with pytest.raises(psycopg.errors.RaiseException, match="only ever added"):
            sql(postgres_store, statement)
        assert ws.verify().findings == ()


@pytest.mark.promise("S8-6", "P-5")
def test_several_processes_verify_one_workspace(
    postgres_store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process opens the server's store by itself, and what it finds is told."""
    answers: list[str] = []
    add = verification.Walked.add_json

    def counted(walked: verification.Walked, text: str) -> None:
        answers.append(text)
        add(walked, text)

    monkeypatch.setattr(verification, "FEWEST_RECORDS", 1)
    monkeypatch.setattr(verification, "_cores", lambda: 2)
    with passdown.open(postgres_store) as ws:
        for task in ("T-1", "T-2"):
            ws.create_task(task, title=task, agent="planner")
        monkeypatch.setattr(verification.Walked, "add_json", counted)
        assert ws.verify() == ((), 2, 2)
        assert len(answers) == 1
        sql(postgres_store, "UPDATE tasks SET phase = 'completed'")
        found = [(problem.path, problem.code) for problem in ws.verify().findings]
    assert found == [("T-1", "derived_rows"), ("T-2", "derived_rows")]


@pytest.mark.promise("S8-6", "P-5")
def test_an_edit_past_the_triggers_is_found(postgres_store: str) -> None:
    """Whoever owns the database can take the triggers away; the chain and the schema tell."""
    with passdown.open(postgres_store) as ws:
        ws.create_task("T-1", title="Login", agent="planner")
        sql(postgres_store, "ALTER TABLE records DISABLE TRIGGER ALL")
        sql(postgres_store, "UPDATE records SET author = 'other'")
        codes = {finding.code for finding in ws.verify().findings}
    assert {"page_damage", "chain_broken"} <= codes
    with pytest.raises(ForeignSchema, match="records_stay"):
        open_store(postgres_store)


@pytest.mark.promise("S8-6")
@pytest.mark.parametrize(
    "statement",
    [
        "DROP TRIGGER records_stay ON records",
        "ALTER TABLE records ADD COLUMN extra text",
        "CREATE TABLE mine (a text)",
        "DROP INDEX edges_by_target",
        "CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN RETURN NEW; END'",
    ],
)
def test_an_altered_schema_is_refused(postgres_store: str, statement: str) -> None:
    open_store(postgres_store).close()
    sql(postgres_store, statement)
    with pytest.raises(ForeignSchema, match="not the one that Passdown makes"):
        open_store(postgres_store)


@pytest.mark.promise("S8-6")
def test_a_pgvector_that_gives_up_early_is_refused(postgres: str) -> None:
    """Whether the workspace is there already or would be made."""
    open_store(postgres).close()
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'")
    for url in (postgres, new_workspace(postgres)):
        with pytest.raises(StoreUnavailable, match=r"its pgvector is 0\.7\.4") as caught:
            open_store(url)
        assert "pgvector 0.8 or later" in caught.value.next_step


@pytest.mark.promise("S8-6")
def test_a_session_that_does_not_wait_for_the_disk_is_refused(postgres_store: str) -> None:
    """Unless that is what was asked for."""
    careless = postgres_store + "&options=-c%20synchronous_commit%3Doff"
    with pytest.raises(StoreUnavailable, match="synchronous_commit is off") as caught:
        open_store(careless)
    assert "synchronous_commit = on" in caught.value.next_step
    store = open_store(careless, durability="normal")
    assert store.facts()["synchronous_commit"] == "off"
    store.close()


@pytest.mark.promise("S8-6")
def test_a_schema_of_somebody_else_is_left_alone(postgres_store: str) -> None:
    place = parse_location(postgres_store)
    with psycopg.connect(place.conninfo, autocommit=True) as connection:
        connection.execute(cast("LiteralString", f"CREATE SCHEMA {place.schema}"))
        connection.execute(cast("LiteralString", f"CREATE TABLE {place.schema}.theirs (a int)"))
    with pytest.raises(ForeignSchema, match="holds other tables"):
        open_store(postgres_store)


@pytest.mark.promise("S8-5")
def test_workspaces_in_one_database_are_kept_apart(postgres_database: str) -> None:
    first, second = new_workspace(postgres_database), new_workspace(postgres_database)
    with passdown.open(first) as one, passdown.open(second) as other:
        one.create_task("T-1", title="Login", agent="planner")
        other.create_task("T-1", title="Pay", agent="planner")
        assert one.task("T-1").title == "Login"
        assert other.task("T-1").title == "Pay"
        assert [len(ws.log(limit=10)) for ws in (one, other)] == [1, 1]


@pytest.mark.promise("S8-5")
@pytest.mark.parametrize(
    "name", ["", "Shop", "1st", "a-b", "a b", "a" * 41, "a;drop", "pg_x\x00", 'a"b', "ü"]
)
def test_a_workspace_has_a_plain_name(name: str) -> None:
    from urllib.parse import quote

    with pytest.raises(InvalidInput, match="invalid_workspace"):
        open_store(f"postgresql://localhost:1/x?workspace={quote(name)}")


@pytest.fixture
def next_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Called, it turns this process into one of a later release, with one more migration."""
    folder = tmp_path / "sql"
    shutil.copytree(schema.FOLDER, folder)
    newest = schema.newest()
    (folder / f"{newest + 1:04d}_later.sql").write_text(
        "ALTER TABLE inbox ADD COLUMN later bigint NOT NULL DEFAULT 0;\n"
        "INSERT INTO rebuilds (due) VALUES (1) ON CONFLICT DO NOTHING;\n"
    )
    old = (folder / "schemas" / f"{newest:04d}.txt").read_text().splitlines()
    added = "column inbox.later bigint required"
    later = folder / "schemas" / f"{newest + 1:04d}.txt"
    later.write_text("\n".join(sorted([*old, added])) + "\n")
    return lambda: monkeypatch.setattr(schema, "FOLDER", str(folder))


@pytest.mark.promise("S8-5")
def test_a_migration_waits_for_writers_and_old_clients_are_told(
    postgres_store: str, next_release: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its transaction starts when the last write has ended; then no older release writes."""
    old = open_store(postgres_store)
    write(old)
    first_folder = schema.FOLDER
    opened: list[Store] = []
    with old.writing(["task/T-2"]) as writer:
        assert writer.totals() == (1, 1)
        next_release()
        migrating = threading.Thread(target=lambda: opened.append(open_store(postgres_store)))
        migrating.start()
        migrating.join(0.5)
        assert migrating.is_alive(), "the migration didn't wait for the writer"
        writer.set_inbox("T-1", "coder", 1, held=False)
    migrating.join(240)
    assert len(opened) == 1
    with opened[0].reading() as reader:
        assert reader.is_rebuild_due()
        assert [row.agent for row in reader.inbox("coder")] == ["coder"]
    monkeypatch.setattr(schema, "FOLDER", first_folder)
    with old.reading() as reader:
        assert reader.totals() == (1, 1)
    with pytest.raises(NewerSchema, match=f"knows up to {schema.newest()}"):
        write(old, "T-3")
    with pytest.raises(NewerSchema):
        open_store(postgres_store)
    for store in (old, opened[0]):
        store.close()


@pytest.mark.promise("S8-5")
def test_a_workspace_of_the_first_schema_is_indexed_again(
    postgres_store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its words were stemmed by other rules; opening it derives the rows again."""
    folder = tmp_path / "sql"
    shutil.copytree(schema.FOLDER, folder)
    for path in folder.glob("*.sql"):
        if path.name[:4].isdigit() and path.name[:4] != "0001":
            path.unlink()
    with monkeypatch.context() as first_release:
        first_release.setattr(schema, "FOLDER", str(folder))
        with passdown.open(postgres_store) as ws:
            ws.create_task("T-1", title="x", agent="planner")
            ws.decide(task="T-1", agent="planner", summary="Headers are added", rationale="asked")
    sql(postgres_store, "UPDATE texts SET words = replace(words, 'add', 'ad')")
    with passdown.open(postgres_store) as ws:
        found = ws.recall("adding", kinds=["decision"], limit=1)
        assert [(hit.address, hit.score > 0) for hit in found] == [("T-1#d1", True)]
        assert ws.verify().findings == ()


@pytest.mark.promise("S8-5")
def test_many_may_make_a_workspace_at_once(postgres_store: str) -> None:
    errors: list[BaseException] = []

    def make(number: int) -> None:
        try:
            with passdown.open(postgres_store) as ws:
                ws.create_task(f"T-{number}", title="x", agent="planner")
        except BaseException as error:  # noqa: BLE001 - shown by the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=make, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with passdown.open(postgres_store) as ws:
        assert len(ws.tasks()) == 8
        assert ws.verify().findings == ()


def test_a_lock_that_is_not_let_go_is_told_with_its_holder(postgres_store: str) -> None:
    first, second = open_store(postgres_store), open_store(postgres_store, timeout_s=0.3)
    with (
        first.writing(["task/T-1"]),
        pytest.raises(StoreBusy, match=r"held by passdown \d+ on .*, waiting for its process"),
        second.writing(["task/T-1"]),
    ):
        pass
    with first.writing(["task/T-1"]), second.writing(["task/T-2"]) as writer:
        assert writer.totals() == (0, 0)
    with first.writing([]), pytest.raises(StoreBusy), second.writing(["task/T-2"]):
        pass
    for store in (first, second):
        store.close()


def test_a_store_outlives_a_fork(postgres_store: str) -> None:
    import os

    store = open_store(postgres_store)
    write(store)
    child = os.fork()
    if child == 0:  # pragma: no cover - seen by its exit code
        try:
            with store.reading() as reader:
                os._exit(0 if reader.totals() == (1, 1) else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    with store.reading() as reader:
        assert reader.totals() == (1, 1)
    store.close()


def test_text_that_no_database_takes_is_refused(postgres_store: str) -> None:
    store = open_store(postgres_store)
    with store.reading() as reader:
        for text in ("a\0b", "\ud800"):
            with pytest.raises(InvalidInput, match="not_storable"):
                reader.task(text)
        assert reader.task("T-1") is None
    store.close()


@pytest.mark.promise("S8-4")
@pytest.mark.parametrize(
    "url",
    [
        "postgresql://kim:s3cr%2Ft@localhost:1/work",
        "postgresql://kim:s3cr/t@localhost:1/work",
        "postgresql://kim:s3cr@t@localhost:1/work?sslmode=never",
        "postgresql://kim@localhost:1/work?password=s3cr%2Ft",
        "postgres://kim:s3cr t@localhost:port/work",
        "mysql://kim:s3cr/t@localhost/work",
        "postgresql://kim:s3cr/t@[localhost/work",
        "postgresql://kim:s3cr/t@localhost:1/work?workspace=A",
    ],
)
def test_a_password_is_never_printed(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    import traceback

    from passdown.cli.main import main

    with pytest.raises(PassdownError) as caught:
        passdown.open(url, create=False)
    told = "".join(traceback.format_exception(caught.value))
    assert main(["state", "T-1", "--store", url]) in (1, 2)
    assert main(["state", "T-1", "--store", url, "--json"]) in (1, 2)
    assert main(["copy", url, "x.db"]) in (1, 2)
    out = capsys.readouterr()
    printed = told.replace(repr(url), "").replace(f'"{url}"', "") + out.out + out.err
    assert "s3cr" not in url_without_password(url)
    assert "s3cr" not in printed


def test_a_server_that_is_not_there_is_told_at_once() -> None:
    with pytest.raises(StoreUnavailable, match="connection to the database failed") as caught:
        open_store("postgresql://localhost:1/work")
    assert "Check the server" in caught.value.next_step


def test_a_missing_package_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['psycopg'] = None\n"
        "import passdown\n"
        "try: passdown.open('postgresql://localhost/x')\n"
        "except passdown.errors.MissingExtra as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=worker_environment(),
        check=True,
    )
    assert "pip install 'passdown[postgres]'" in done.stdout


def test_more_than_may_be_on_its_way_is_written_all_the_same(postgres_store: str) -> None:
    """Thousands of statements, and values of many megabytes, in one transaction."""
    store = open_store(postgres_store)
    with store.writing([]) as writer:
        for number in range(1_600):
            writer.open_link(f"T-1#b{number}", "blocks", "T-2", 1)
        writer.add_vectors([(1, number, b"p", bytes(2_000)) for number in range(5_000)])
        for number in range(1_600, 1_700):
            writer.open_link(f"T-1#b{number}", "blocks", "T-2", 1)
    with store.reading() as reader:
        assert len(reader.links_to("T-2")) == 1_700
        assert len(reader.vectors_of(1, range(5_000))) == 5_000
    store.close()


def test_an_error_that_nobody_waited_for_undoes_all_of_it(postgres_store: str) -> None:
    """It shows at the end of the gate; the connection is good for the next one."""
    store = open_store(postgres_store)
    write(store)
    with store.reading() as reader:
        (record,) = reader.tail()
    unknown = record._replace(stream="task/T-9", position=2, key="other")

    def write_badly(*, asks: bool) -> None:
        with store.writing([]) as writer:
            writer.open_link("T-1#b1", "blocks", "T-2", 1)
            writer.append(unknown)
            writer.open_link("T-1#b2", "blocks", "T-2", 1)
            if asks:
                writer.links_to("T-2")

    for asks in (False, True):
        with pytest.raises(StoreUnavailable, match="null value"):
            write_badly(asks=asks)
    with store.reading() as reader:
        assert (reader.totals(), reader.links_to("T-2")) == ((1, 1), [])
    write(store, "T-2")
    with store.reading() as reader:
        assert reader.totals() == (2, 2)
    store.close()


def test_a_turn_that_does_not_come_is_told(postgres_store: str) -> None:
    """Writers of different tasks exclude each other from their turn on, and no longer."""
    first, second = open_store(postgres_store), open_store(postgres_store, timeout_s=0.3)
    with first.writing(["task/T-1"]) as one:
        one.take_turn()
        assert one.totals() == (0, 0)
        with second.writing(["task/T-2"]) as other:
            assert other.totals() == (0, 0)
        with pytest.raises(StoreBusy, match="held by passdown"):
            write(second)
    write(second)
    with first.reading() as reader:
        assert reader.totals() == (1, 1)
    for store in (first, second):
        store.close()

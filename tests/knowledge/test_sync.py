"""The knowledge file and the graph are brought together, whichever of them has changed."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown import Settings
from passdown.errors import InvalidInput, PassdownError, StoreUnavailable
from passdown.knowledge.graph_files import EdgeFile, read_graph
from passdown.ledger.durable_files import read_text, replace_file
from passdown.testing import fixed_clock, full_handoff, write_files
from tests.faults.tools import result_of
from tests.search.workers import start

if TYPE_CHECKING:
    from collections.abc import Iterator

    from passdown import Workspace

Document = dict[str, Any]


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    write_files(str(tmp_path))
    chosen = Settings(durability="normal", embedder="none")
    with passdown.open(str(tmp_path), settings=chosen, clock=fixed_clock()) as workspace:
        workspace.create_task("T-1", title="Work", agent="planner")
        yield workspace


def node(name: str, summary: str = "Something", **more: Any) -> Document:
    return {"id": name, "type": "component", "summary": summary, **more}


def file_of(ws: Workspace, name: str = "knowledge.dot") -> Path:
    return Path(ws.root, name)


def swap(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


def codes(synced: Any) -> list[str]:
    return [report.code for report in synced.reports]


def summaries(ws: Workspace) -> dict[str, str]:
    return {n.id: n.summary for n in ws.knowledge.graph(types=["component"]).nodes}


@pytest.mark.promise("S4-29")
def test_what_several_wrote_is_merged_at_once_and_conflicts_are_reported(ws: Workspace) -> None:
    """Nothing is in the file before; then each node is in it once, in the newest words."""
    ws.knowledge.add([node("A", "First words")], agent="ana")
    ws.knowledge.add([node("B")], [{"source": "A", "relation": "uses", "target": "B"}], agent="ben")
    ws.knowledge.add([node("A", "Other words")], agent="ben")
    ws.knowledge.add([node("A", "Other words")], agent="cleo")
    assert not file_of(ws).exists()
    synced = ws.knowledge.sync(agent="ana")
    assert (synced.nodes, synced.edges, synced.taken, synced.is_changed) == (2, 1, (), True)
    text = file_of(ws).read_text("utf-8")
    assert text.count("Other words") == 1
    assert "First words" not in text
    (report,) = synced.reports
    assert (report.path, report.code, report.level) == ("nodes.A", "conflict", "warning")
    assert "ana, ben" in report.message
    again = ws.knowledge.sync(agent="ana")
    assert (again.is_changed, again.reports, again.taken) == (False, (), ())
    assert file_of(ws).read_text("utf-8") == text


def test_a_change_of_the_file_alone_is_taken_over(ws: Workspace) -> None:
    ws.knowledge.add([node("A", "One")], agent="ana")
    ws.knowledge.sync(agent="ana")
    swap(file_of(ws), "One", "Two")
    synced = ws.knowledge.sync(agent="ben")
    assert (synced.taken, synced.reports, synced.kept_aside) == (("A",), (), "")
    assert summaries(ws) == {"A": "Two"}
    assert ws.log("workspace")[0].author == "ben"
    assert ws.verify().findings == ()


def test_nodes_and_edges_that_the_file_adds_are_taken_over(ws: Workspace) -> None:
    ws.hand_off(full_handoff())
    ws.knowledge.add([node("A")], agent="ana")
    ws.knowledge.sync(agent="ana")
    more = '"N" [type="component", summary="New"];\n"N" -> "T-1#d1" [relation="uses"];\n}'
    swap(file_of(ws), "}", more)
    assert ws.knowledge.sync(agent="ana").taken == ("N",)
    assert [e.key for e in ws.knowledge.edges(source="N")] == [("N", "uses", "T-1#d1")]


def test_a_change_of_the_ledger_alone_is_written_into_the_file(ws: Workspace) -> None:
    ws.knowledge.add([node("A", "One")], agent="ana")
    ws.knowledge.sync(agent="ana")
    ws.knowledge.add([node("A", "Two")], agent="ana")
    synced = ws.knowledge.sync(agent="ana")
    assert (synced.is_changed, synced.taken, synced.reports) == (True, (), ())
    assert "Two" in file_of(ws).read_text("utf-8")
    ws.knowledge.add(agent="ana", forget_nodes=["A"])
    assert ws.knowledge.sync(agent="ana").nodes == 0
    assert "Two" not in file_of(ws).read_text("utf-8")
    assert summaries(ws) == {}


def test_where_both_changed_the_ledger_stands_and_the_file_is_kept(ws: Workspace) -> None:
    ws.knowledge.add([node("A", "One")], agent="ana")
    ws.knowledge.sync(agent="ana")
    swap(file_of(ws), "One", "By hand")
    ws.knowledge.add([node("A", "By agent")], agent="ana")
    synced = ws.knowledge.sync(agent="ana")
    assert codes(synced) == ["conflict"]
    assert "By hand" in synced.reports[0].message
    assert summaries(ws) == {"A": "By agent"}
    assert "By agent" in file_of(ws).read_text("utf-8")
    assert "By hand" in Path(synced.kept_aside).read_text("utf-8")


def test_the_same_change_on_both_sides_is_none(ws: Workspace) -> None:
    ws.knowledge.add([node("A", "One")], agent="ana")
    ws.knowledge.sync(agent="ana")
    swap(file_of(ws), "One", "Two")
    ws.knowledge.add([node("A", "Two")], agent="ana")
    synced = ws.knowledge.sync(agent="ana")
    assert (synced.reports, synced.kept_aside, synced.taken) == ((), "", ())


def test_a_line_that_was_taken_out_is_put_back_and_reported(ws: Workspace) -> None:
    ws.knowledge.add([node("A"), node("B")], agent="ana")
    ws.knowledge.sync(agent="ana")
    lines = file_of(ws).read_text("utf-8").splitlines(keepends=True)
    file_of(ws).write_text("".join(line for line in lines if '"B"' not in line), "utf-8")
    synced = ws.knowledge.sync(agent="ana")
    assert [(r.path, r.code) for r in synced.reports] == [("nodes.B", "put_back")]
    assert '"B"' in file_of(ws).read_text("utf-8")


@pytest.mark.parametrize(
    "content", [b"digraph {", b"\xff\xfe\x00", b'digraph { A [summary="\xe9"] }']
)
def test_a_file_that_can_not_be_read_is_kept_aside(ws: Workspace, content: bytes) -> None:
    ws.knowledge.add([node("A")], agent="ana")
    ws.knowledge.sync(agent="ana")
    file_of(ws).write_bytes(content)
    synced = ws.knowledge.sync(agent="ana")
    assert codes(synced) == ["unreadable"]
    assert Path(synced.kept_aside).read_bytes() == content
    assert [n.id for n in read_graph(file_of(ws).read_text("utf-8")).nodes] == ["A"]


def test_an_emptied_file_is_written_again(ws: Workspace) -> None:
    ws.knowledge.add([node("A")], agent="ana")
    ws.knowledge.sync(agent="ana")
    file_of(ws).write_text("", "utf-8")
    assert ws.knowledge.sync(agent="ana").is_changed
    assert '"A"' in file_of(ws).read_text("utf-8")


def test_what_is_not_for_the_graph_is_reported_and_left_out(ws: Workspace) -> None:
    """Such as items and their edges, from a drawing of the whole graph."""
    ws.hand_off(full_handoff())
    ws.knowledge.add([node("A")], agent="ana")
    file_of(ws).write_text(
        'digraph {\n"N" [type="component", summary="New"];\n'
        '"T-1#d1" [type="decision", summary="Forged"];\n'
        '"N" -> "T-1#d1" [relation="supersedes"];\n}\n',
        "utf-8",
    )
    synced = ws.knowledge.sync(agent="ana")
    assert synced.taken == ("N",)
    assert sorted(codes(synced)) == ["reserved_edge", "reserved_id"]
    assert "Forged" not in file_of(ws).read_text("utf-8")
    assert ws.show("T-1#d1").status == "accepted"
    assert ws.knowledge.sync(agent="ana").reports == ()


def test_rights_are_kept_and_links_followed(ws: Workspace, tmp_path: Path) -> None:
    ws.knowledge.add([node("A")], agent="ana")
    real = tmp_path / "shared" / "real.dot"
    real.parent.mkdir()
    real.write_text("", "utf-8")
    real.chmod(0o640)
    link = tmp_path / "link.dot"
    link.symlink_to(real)
    ws.knowledge.sync("link.dot", agent="ana")
    assert link.is_symlink()
    assert '"A"' in real.read_text("utf-8")
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    ws.knowledge.sync("plain.dot", agent="ana")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((tmp_path / "plain.dot").stat().st_mode) == 0o666 & ~mask


def test_two_files_of_one_name_are_remembered_apart(ws: Workspace, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    ws.knowledge.add([node("A", "One")], agent="ana")
    ws.knowledge.sync("k.dot", agent="ana")
    ws.knowledge.add([node("A", "Two")], agent="ana")
    ws.knowledge.sync("docs/k.dot", agent="ana")
    synced = ws.knowledge.sync("k.dot", agent="ana")
    assert synced.reports == ()
    assert "Two" in (tmp_path / "k.dot").read_text("utf-8")


def test_a_file_in_json_says_the_same(ws: Workspace) -> None:
    ws.knowledge.add([node("A", tags=["t"])], agent="ana")
    ws.knowledge.sync("k.json", agent="ana")
    text = file_of(ws, "k.json").read_text("utf-8")
    assert read_graph(text).nodes == ws.knowledge.graph(types=["component"]).nodes
    swap(file_of(ws, "k.json"), "Something", "Else")
    assert ws.knowledge.sync("k.json", agent="ana").taken == ("A",)


def test_a_memory_of_the_last_time_that_is_lost_or_broken_loses_nothing(
    ws: Workspace, tmp_path: Path
) -> None:
    ws.knowledge.add([node("A", "One")], agent="ana")
    ws.knowledge.sync(agent="ana")
    (base,) = (tmp_path / ".passdown" / "knowledge").glob("*.base")
    base.write_text("[", "utf-8")
    swap(file_of(ws), "One", "Two")
    synced = ws.knowledge.sync(agent="ana")
    assert codes(synced) == ["conflict"]
    assert "Two" in Path(synced.kept_aside).read_text("utf-8")
    assert summaries(ws) == {"A": "One"}


def test_a_place_that_can_not_be_written_is_a_typed_error(ws: Workspace, tmp_path: Path) -> None:
    ws.knowledge.add([node("A")], agent="ana")
    (tmp_path / "folder.dot").mkdir()
    with pytest.raises(PassdownError, match="folder"):
        ws.knowledge.sync("folder.dot", agent="ana")
    assert ws.verify().findings == ()


def test_processes_that_sync_at_once_lose_nothing(ws: Workspace) -> None:
    workers = [start("sync", folder=ws.root, name=f"p{n}", count=5) for n in range(3)]
    for worker in workers:
        result_of(worker)
    synced = ws.knowledge.sync(agent="ana")
    expected = sorted(f"p{number}-{turn}" for number in range(3) for turn in range(5))
    assert sorted(summaries(ws)) == expected
    assert [n.id for n in read_graph(file_of(ws).read_text("utf-8")).nodes] == expected
    assert synced.reports == ()
    assert ws.verify().findings == ()


def test_a_link_out_of_the_project_is_refused(tmp_path: Path) -> None:
    """Nor is anything made, moved or changed there."""
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir()
    (home / "own").write_text("alias x=y", "utf-8")
    (project / "knowledge.dot").symlink_to("../home/own")
    (project / "folder").symlink_to("../home")
    (home / "link.dot").symlink_to("own")
    with passdown.open(str(project), settings=Settings(embedder="none")) as ws:
        ws.knowledge.add([node("A")], agent="ana")
        for path in (
            "knowledge.dot",
            str(project / "knowledge.dot"),
            "folder/new.dot",
            "../home/new.dot",
            str(home / "link.dot"),
            str(home / "none" / "new.dot"),
            ".passdown/ledger.db",
            ".git/config",
        ):
            with pytest.raises(InvalidInput, match="unsafe_path"):
                ws.knowledge.sync(path, agent="ana")
        assert sorted(each.name for each in home.iterdir()) == ["link.dot", "own"]
        assert (home / "own").read_text("utf-8") == "alias x=y"
        assert ws.knowledge.sync(str(home / "named.dot"), agent="ana").nodes == 1
        assert ws.knowledge.sync("deep/er/k.dot", agent="ana").nodes == 1
        assert ws.verify().findings == ()


def test_what_is_no_path_or_no_file_is_refused(ws: Workspace, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.dot")
    unusable: list[Any] = ["\0", "\ud800.dot", 5, b"k.dot", "pipe.dot", "x" * 5000]
    for path in unusable:
        with pytest.raises(InvalidInput) as caught:
            ws.knowledge.sync(path, agent="ana")
        assert caught.value.problems[0].path == "path"


def test_a_pipe_and_a_file_without_end_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with open(tmp_path / "huge", "wb") as file:
        file.truncate(2**40)
    (tmp_path / "small").write_text("12345", "utf-8")
    for name in ("pipe", "huge"):
        with pytest.raises(StoreUnavailable, match=name):
            read_text(str(tmp_path / name))
        with pytest.raises(StoreUnavailable, match=name):
            EdgeFile(str(tmp_path / name)).relations()
    assert read_text(str(tmp_path / "small"), limit=5) == "12345"
    with pytest.raises(StoreUnavailable, match="more than 4 bytes"):
        read_text(str(tmp_path / "small"), limit=4)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_the_project_keeps_its_owner_and_group(tmp_path: Path) -> None:
    file = tmp_path / "k.dot"
    file.write_text("old", "utf-8")
    os.chown(file, 12345, 23456)
    replace_file(str(file), "new", is_project_file=True)
    assert (file.stat().st_uid, file.stat().st_gid) == (12345, 23456)
    assert file.read_text("utf-8") == "new"


@pytest.mark.parametrize(
    "text", ['{"seq": 1e400, "digests": {}}', "[" * 100_000, '{"seq": 1, "digests": 5}', "[]"]
)
def test_a_memory_of_the_last_time_that_was_tampered_with_counts_as_none(
    ws: Workspace, tmp_path: Path, text: str
) -> None:
    ws.knowledge.add([node("A")], agent="ana")
    ws.knowledge.sync(agent="ana")
    (base,) = (tmp_path / ".passdown" / "knowledge").glob("*.base")
    base.write_text(text, "utf-8")
    assert ws.knowledge.sync(agent="ana").reports == ()
    assert base.read_text("utf-8") != text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("app.py", "print(1)\n"),
        ("README.md", "# Words\n"),
        ("Makefile", ""),
        ("notes.dot", "not a graph\n"),
        ("package.json", '{"name": "x", "version": "1.0.0"}\n'),
    ],
)
def test_a_file_that_holds_something_else_is_left_alone(
    ws: Workspace, tmp_path: Path, name: str, content: str
) -> None:
    ws.knowledge.add([node("A")], agent="ana")
    (tmp_path / name).write_text(content, "utf-8")
    with pytest.raises(InvalidInput, match="not_a_graph"):
        ws.knowledge.sync(name, agent="ana")
    assert (tmp_path / name).read_text("utf-8") == content
    assert [each.name for each in tmp_path.glob(f"{name}*")] == [name]


@pytest.mark.parametrize("name", ["k.gv", "k.DOT", "k.json"])
def test_a_graph_that_was_never_synced_is_taken_over(
    ws: Workspace, tmp_path: Path, name: str
) -> None:
    text = '{"nodes": [{"id": "N", "type": "component", "summary": "New"}], "edges": []}'
    dot = 'digraph { "N" [type="component", summary="New"]; }'
    (tmp_path / name).write_text(text if name.endswith("json") else dot, "utf-8")
    assert ws.knowledge.sync(name, agent="ana").taken == ("N",)


def test_a_file_that_spells_accents_apart_says_the_same(ws: Workspace) -> None:
    ws.knowledge.add([node("Caf\u00e9"), node("B")], agent="ana")
    ws.knowledge.sync(agent="ana")
    swap(file_of(ws), "Caf\u00e9", "Cafe\u0301")
    synced = ws.knowledge.sync(agent="ana")
    assert (synced.taken, synced.reports, synced.nodes) == ((), (), 2)
    assert "Caf\u00e9" in file_of(ws).read_text("utf-8")

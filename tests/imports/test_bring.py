"""Imports: each entry once, changes as changes, refusals counted, dry runs that write nothing."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from passdown.core.graph import Node
from passdown.core.settings import DEFAULTS
from passdown.errors import InvalidInput
from passdown.imports.importer import detect_format
from passdown.knowledge.graph import add_knowledge, graph
from passdown.workspace import open as open_workspace
from tests.imports.sources import (
    MADR_BULLETS,
    MADR_FRONT,
    NYGARD_NEW,
    NYGARD_OLD,
    Imports,
    entities,
    issue,
    issues,
    link,
    numbers,
    write_adrs,
    write_lines,
)

if TYPE_CHECKING:
    from pathlib import Path

NOTE = """# Handoff

## Decisions made

- We decided to keep sessions in Redis because the table grew too large.

## Next steps

- Write the middleware
"""
GITHUB_TOKEN = "ghp_" + "a1B2c3D4e5" * 4


def sources(root: Path) -> dict[str, Path]:
    return {
        "adr": write_adrs(root / "docs" / "adr"),
        "beads": write_lines(root / ".beads" / "issues.jsonl", issues()),
        "memory": write_lines(root / "memory.jsonl", entities()),
    }


@pytest.mark.parametrize("form", ["adr", "beads", "memory"])
def test_a_second_run_writes_nothing(project: Imports, form: str) -> None:
    """The first run takes everything, the second finds everything unchanged."""
    source = sources(project.root)[form]
    first = project.bring(source, agent="kim")
    assert first.form == form
    assert first.total("added") == {"adr": 4, "beads": 15, "memory": 5}[form]
    assert first.total("refused") == 0
    heads = project.heads()
    second = project.bring(source, agent="ada")
    assert second.total("unchanged") == first.total("added")
    assert second.total("added") == second.total("changed") == 0
    assert project.heads() == heads
    with open_workspace(str(project.root)) as again:
        assert again.verify().ok


@pytest.mark.parametrize("form", ["adr", "beads", "memory"])
def test_a_dry_run_says_what_the_run_then_does(project: Imports, form: str) -> None:
    """Same entries, same numbers, and not one record or file."""
    source = sources(project.root)[form]
    heads = project.heads()
    files = sorted(str(path) for path in project.root.rglob("*"))
    dry = project.bring(source, dry_run=True)
    assert dry.is_dry_run
    assert project.heads() == heads
    assert sorted(str(path) for path in project.root.rglob("*")) == files
    real = project.bring(source)
    assert dry == real._replace(is_dry_run=True)
    assert json.loads(json.dumps(real.to_dict()))["counts"] == real.counts


class Elsewhere:
    """A store that has another address than a file's."""

    url = "elsewhere://store"

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_a_dry_run_of_a_store_that_is_no_file(project: Imports) -> None:
    """Where a store can't be copied as a file, its records are; the answer is the same."""
    folder = write_adrs(project.root / "docs" / "adr")
    project.bring(folder)
    (folder / "0009-more.md").write_text("# More\n\n## Decision\n\nYes.\n")
    heads = project.heads()
    project.opened.store = Elsewhere(project.opened.store)  # pyright: ignore[reportAttributeAccessIssue]
    dry = project.bring(folder, dry_run=True)
    assert numbers(dry, "decision") == {"added": 1, "unchanged": 4}
    assert project.heads() == heads


def test_adrs_become_decisions_of_one_task(project: Imports) -> None:
    """Title, reasons, options, tags, date, status and the file itself; the chain is closed."""
    found = project.bring(write_adrs(project.root / "docs" / "adr"))
    assert numbers(found, "decision") == {"added": 4}
    assert numbers(found, "file") == {"skipped": 2}
    decisions = project.decisions("workspace")
    old, new, cookies, logs = decisions.values()
    assert (old["status"], old["superseded_by"]) == ("superseded", "workspace#d2")
    assert (new["status"], new["supersedes"]) == ("accepted", ["workspace#d1"])
    assert cookies["summary"] == "Use signed cookies"
    assert cookies["alternatives"] == [
        "Tokens in local storage which scripts can read",
        "Mutual TLS",
    ]
    assert cookies["tags"] == ["web-api", "auth"]
    assert cookies["at"] == "2024-05-06T00:00:00.000000Z"
    assert cookies["paths"] == ["docs/adr/0005-use-signed-cookies.md"]
    assert logs["status"] == "reverted"
    shown = next(entry for entry in found.entries if entry.address == "workspace#d3")
    assert shown.reason == "only in the file: Pros and Cons of the Options"


def test_a_changed_text_takes_the_place_of_the_earlier_one(project: Imports) -> None:
    """The decision is recorded anew and supersedes its earlier form; the others stay."""
    folder = write_adrs(project.root / "docs" / "adr")
    project.bring(folder)
    cookies = folder / "0005-use-signed-cookies.md"
    cookies.write_text(MADR_FRONT.replace("it is simple", "it is simple and old"), "utf-8")
    found = project.bring(folder)
    assert numbers(found, "decision") == {"changed": 1, "unchanged": 3}
    assert project.decisions("workspace")["workspace#d3"]["superseded_by"] == "workspace#d5"
    cookies.write_text(MADR_FRONT, "utf-8")
    assert numbers(project.bring(folder), "decision") == {"changed": 1, "unchanged": 3}
    assert project.decisions("workspace")["workspace#d6"]["status"] == "accepted"
    assert numbers(project.bring(folder), "decision") == {"unchanged": 4}


def test_a_changed_status_takes_the_place_of_the_earlier_one(project: Imports) -> None:
    """An ADR that is deprecated, or dated anew, is recorded anew: it cites what is there."""
    folder = write_adrs(project.root / "docs" / "adr")
    project.bring(folder)
    cookies = folder / "0005-use-signed-cookies.md"
    cookies.write_text(MADR_FRONT.replace('"accepted"', "deprecated"), "utf-8")
    assert numbers(project.bring(folder), "decision") == {"changed": 1, "unchanged": 3}
    decisions = project.decisions("workspace")
    assert decisions["workspace#d3"]["superseded_by"] == "workspace#d5"
    assert decisions["workspace#d5"]["status"] == "reverted"
    assert numbers(project.bring(folder), "decision") == {"unchanged": 4}
    logs = folder / "0003-keep-sessions-in-redis.md"
    logs.write_text(NYGARD_NEW.replace("2022-01-31", "2022-02-01"), "utf-8")
    assert numbers(project.bring(folder), "decision") == {"changed": 1, "unchanged": 3}
    assert project.decisions("workspace")["workspace#d6"]["at"].startswith("2022-02-01")
    assert numbers(project.bring(folder), "decision") == {"unchanged": 4}
    found = project.workspace.recall("sessions cookies", limit=20)
    assert [each.stale for each in found if each.address in ("workspace#d5", "workspace#d6")] == [
        (),
        (),
    ]


def test_a_date_that_is_none_is_told(project: Imports) -> None:
    """The words stay in the reasons, and the decision has the time of its import."""
    folder = project.root / "adr"
    folder.mkdir()
    (folder / "0001-a.md").write_text("# A\n\nDate: 2025-13-45\n\n## Decision\n\nYes.\n")
    (entry,) = project.bring(folder).entries
    assert "2025-13-45 is no date" in entry.reason
    decision = project.decisions("workspace")["workspace#d1"]
    assert "2025-13-45" in decision["rationale"]
    assert "at" not in decision or not decision["at"].startswith("2025")


NOTES_LIKE_ADRS = {
    "decisions and next": "# Login\n\n## Decisions\n\n- Use Redis\n\n## Next\n\n- Add a test\n",
    "status and next": "# Login\n\nStatus: done\n\n## Next steps\n\n- Add a test\n",
    "a handoff": "# Login\n\n## Decision\n\nRedis.\n\n## Context\n\nx\n\n## Handoff\n\n- Test it\n",
}


@pytest.mark.parametrize("text", NOTES_LIKE_ADRS.values(), ids=NOTES_LIKE_ADRS.keys())
@pytest.mark.parametrize("name", ["HANDOFF.md", "login.md", "2026-02-03-login.md"])
def test_notes_with_decisions_are_notes(project: Imports, name: str, text: str) -> None:
    """An ADR is called one or built like one; what goes on is a note."""
    (project.root / name).write_text(text)
    assert detect_format(str(project.root / name)) == "notes"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.md", "# A\n\n## Decision\n\nRedis.\n"),
        ("a.md", "# A\n\n## Context\n\nx\n\n## Decision\n\nRedis.\n\n## Next steps\n\n- b\n"),
        ("0001-a.md", "# A\n\n## Decisions\n\nRedis.\n\n## Next\n\n- Add a test\n"),
    ],
)
def test_what_could_be_either_is_asked_about(project: Imports, name: str, text: str) -> None:
    """Nothing is guessed; named, the form is taken as it is named."""
    path = project.root / name
    path.write_text(text)
    with pytest.raises(InvalidInput, match="--from"):
        project.bring(path)
    assert project.bring(path, format="adr").total("added") == 1


def test_a_note_beside_adrs_is_no_adr(project: Imports) -> None:
    """It is skipped with the way to take it."""
    folder = write_adrs(project.root / "docs" / "adr")
    (folder / "HANDOFF.md").write_text(NOTES_LIKE_ADRS["decisions and next"])
    found = project.bring(folder)
    assert numbers(found, "decision") == {"added": 4}
    reason = next(e.reason for e in found.entries if e.source == "HANDOFF.md")
    assert "--from notes" in reason


def test_notes_of_one_name_are_two_tasks(project: Imports) -> None:
    """The path tells them apart, a second run writes nothing, and an edit stays where it was."""
    root = project.root / "notes"
    for folder in ("p", "q"):
        (root / folder).mkdir(parents=True)
        text = f"# Notes\n\n## Next steps\n\n- Do {folder}\n\n## Blockers\n\n- No key\n"
        (root / folder / "notes.md").write_text(text)
    assert numbers(project.bring(root, format="notes"), "note") == {"added": 2}
    names = {task.task for task in project.workspace.tasks()}
    assert names == {"notes", "notes-q-notes"}
    heads = project.heads()
    assert numbers(project.bring(root, format="notes"), "note") == {"unchanged": 2}
    assert project.heads() == heads
    for folder, task in (("p", "notes"), ("q", "notes-q-notes")):
        path = root / folder / "notes.md"
        path.write_text(path.read_text().replace("Do", "Do now"))
        project.bring(path, format="notes")
        steps = project.workspace.files.state_document(task)["next_steps"]
        assert [s["step"] for s in steps if s["status"] == "open"] == [f"Do now {folder}"]


def test_secrets_and_empty_notes_are_told(project: Imports) -> None:
    """What was removed is named with the note; a note that says nothing is skipped."""
    root = project.root / "notes"
    root.mkdir()
    (root / "a.md").write_text(f"# A\n\n## Next steps\n\n- Replace {GITHUB_TOKEN}\n")
    (root / "b.md").write_text("# B\n\nHello there.\n")
    found = project.bring(root, format="notes")
    assert numbers(found, "note") == {"added": 1, "skipped": 1}
    reasons = {entry.source: entry.reason for entry in found.entries}
    assert "a github_token was removed" in reasons["a.md"]
    assert "no item" in reasons["b.md"]


def test_a_dependency_that_leads_nowhere_is_told(project: Imports) -> None:
    """The task is taken with it; the summary names what is missing."""
    needs = [link("bd-1", "bd-9", "blocks"), link("bd-1", "bd-2", "blocks")]
    path = write_lines(project.root / "i.jsonl", [issue("bd-1", dependencies=needs), issue("bd-2")])
    reasons = [entry.reason for entry in project.bring(path).entries if entry.kind == "task"]
    assert reasons == ["depends on bd-9, not in the file and not here", ""]
    assert project.workspace.state("bd-1").depends_on == ("bd-9", "bd-2")


def test_an_adr_that_is_superseded_later(project: Imports) -> None:
    """The new ADR's decision supersedes the old one's, whichever of the two says so; when it lets
    go again, the old one holds again.
    """
    folder = project.root / "docs" / "adr"
    folder.mkdir(parents=True)
    old = folder / "0001-keep-sessions-in-the-database.md"
    new = folder / "0003-keep-sessions-in-redis.md"
    old.write_text(NYGARD_OLD.partition("Superceded")[0] + "Accepted\n\n## Decision\n\nRows.\n")
    project.bring(folder)
    assert project.decisions("workspace")["workspace#d1"]["status"] == "accepted"
    new.write_text(NYGARD_NEW)
    assert numbers(project.bring(folder), "decision") == {"added": 1, "unchanged": 1}
    assert project.decisions("workspace")["workspace#d1"]["superseded_by"] == "workspace#d2"
    old.write_text(NYGARD_OLD)
    project.bring(folder)
    statuses = {a: d["status"] for a, d in project.decisions("workspace").items()}
    assert [a for a, status in statuses.items() if status == "accepted"] == ["workspace#d4"]
    new.write_text(NYGARD_NEW.replace("Supercedes [1", "See [1"))
    old.write_text(NYGARD_OLD.replace("Superceded by", "Accepted; see"))
    project.bring(folder)
    live = [
        d["summary"] for d in project.decisions("workspace").values() if d["status"] == "accepted"
    ]
    assert sorted(live) == ["Keep sessions in Redis", "Keep sessions in the database"]
    heads = project.heads()
    assert numbers(project.bring(folder), "decision") == {"unchanged": 2}
    assert project.heads() == heads


def test_what_people_marked_stays_marked(project: Imports) -> None:
    """A decision that was taken back here isn't brought back by the same ADR."""
    folder = write_adrs(project.root / "docs" / "adr")
    project.bring(folder)
    project.workspace.set_status(
        "workspace#d3", "reverted", agent="kim", reason="we use tokens now"
    )
    assert numbers(project.bring(folder), "decision") == {"unchanged": 4}
    assert project.decisions("workspace")["workspace#d3"]["status"] == "reverted"


def test_two_folders_of_the_same_name(project: Imports) -> None:
    """An ADR is known by its place in the project, so namesakes don't replace each other."""
    project.bring(write_adrs(project.root / "docs" / "adr"))
    found = project.bring(write_adrs(project.root / "core" / "adr"))
    assert numbers(found, "decision") == {"added": 4}
    again = project.bring(project.root / "docs" / "adr")
    assert numbers(again, "decision") == {"unchanged": 4}


def test_what_belongs_to_no_task_makes_none(project: Imports) -> None:
    """It concerns all work; where an earlier version made a task for it, that one is kept up."""
    project.bring(write_adrs(project.root / "docs" / "adr"))
    assert project.workspace.tasks() == []
    older = write_adrs(project.root / "records")
    project.bring(older, task="records")
    assert numbers(project.bring(older), "decision") == {"unchanged": 4}


def test_a_circle_of_adrs(project: Imports) -> None:
    """ADRs that supersede one another are all taken, and the circle is told."""
    folder = project.root / "adr"
    folder.mkdir()
    for n in range(3):
        text = f"# A{n}\n\n## Status\n\nSuperseded by ADR-{(n + 1) % 3}\n\n## Decision\n\nYes.\n"
        (folder / f"000{n}-a.md").write_text(text)
    found = project.bring(folder)
    assert numbers(found, "decision") == {"added": 3}
    assert numbers(found, "link") == {"refused": 1}
    assert numbers(project.bring(folder), "decision") == {"unchanged": 3}


def test_files_that_cant_be_read_are_counted(project: Imports, tmp_path: Path) -> None:
    """Bytes that are no text, files that are too large, links and pipes: none stops the rest."""
    folder = write_adrs(project.root / "adr")
    outside = tmp_path / "0099-outside.md"
    outside.write_text(MADR_BULLETS)
    (folder / "0010-latin.md").write_bytes(MADR_FRONT.encode().replace(b"simple", b"\xe9\xe8"))
    (folder / "0011-big.md").write_text("# A\n" + "x" * 1_100_000)
    (folder / "0012-link.md").symlink_to(outside)
    (folder / "sub").symlink_to(tmp_path)
    os.mkfifo(folder / "0013-pipe.md")
    (folder / "inner").mkdir()
    (folder / "again").symlink_to(folder / "inner")
    (folder / "node_modules").symlink_to(tmp_path)
    (folder / "0015-folder.md").symlink_to(folder / "inner")
    (folder / "0014-empty.md").write_text("")
    found = project.bring(folder)
    assert numbers(found, "decision") == {"added": 4}
    reasons = {e.source: e.reason for e in found.entries if e.result == "refused"}
    codes = {name: reason.rpartition("[")[2].rstrip("]") for name, reason in reasons.items()}
    assert codes == {
        "0010-latin.md": "invalid_utf8",
        "0011-big.md": "too_large",
        "0012-link.md": "path_escapes_root",
        "0013-pipe.md": "not_regular_file",
        "0014-empty.md": "no_adr",
        "0015-folder.md": "not_regular_file",
        "sub": "path_escapes_root",
    }
    assert numbers(found, "folder") == {"refused": 1}


def test_issues_become_tasks(project: Imports) -> None:
    """Under their own ids, with what they wait for, where they stand and who has them."""
    path = write_lines(project.root / ".beads" / "issues.jsonl", issues())
    found = project.bring(path)
    assert numbers(found, "task") == {"added": 5, "skipped": 1}
    assert numbers(found, "standing") == {"added": 3}
    assert numbers(found, "link") == {"added": 2}
    tasks = {task.task: task for task in project.workspace.tasks()}
    assert {name: (task.status, task.phase) for name, task in tasks.items()} == {
        "bd-1": ("open", "planning"),
        "bd-1.1": ("completed", "completed"),
        "bd-a3f8": ("open", "implementing"),
        "bd-b": ("blocked", "planning"),
        "bd-z": ("open", "planning"),
    }
    assert tasks["bd-a3f8"].holder == "kim"
    state = project.workspace.state("bd-a3f8")
    assert state.depends_on == ("bd-1.1",)
    assert "Half of it stands." in state.context_summary
    assert "Done in 3 commits" in project.workspace.state("bd-1.1").context_summary
    assert project.workspace.state("bd-1.1").criteria == ("logs in", "logs out")


def test_only_what_changed_in_an_issue_is_written(project: Imports) -> None:
    """Closing, reopening, another title, a deletion and a return each add their one record."""
    path = project.root / "issues.jsonl"

    def run(**fields: Any) -> dict[str, int]:
        found = project.bring(write_lines(path, [issue("bd-1", **fields)]))
        kinds = [found.counts[kind] for kind in ("task", "standing") if kind in found.counts]
        return {name: sum(numbers[name] for numbers in kinds) for name in ("added", "changed")}

    assert run() == {"added": 1, "changed": 0}
    assert run(status="closed", close_reason="done") == {"added": 1, "changed": 0}
    assert project.workspace.task("bd-1").status == "completed"
    assert run(status="closed", close_reason="done", title="Other") == {"added": 0, "changed": 1}
    task = project.workspace.task("bd-1")
    assert (task.title, task.status) == ("Other", "completed")
    assert run(title="Other") == {"added": 0, "changed": 1}
    assert project.workspace.task("bd-1").status == "open"
    assert run(title="Other", status="tombstone") == {"added": 0, "changed": 1}
    assert project.workspace.task("bd-1").status == "cancelled"
    assert run(title="Other", status="tombstone") == {"added": 0, "changed": 0}
    assert run(title="Other", status="closed")["changed"] == 1
    assert project.workspace.task("bd-1").status == "completed"
    assert run(title="Other", status="closed") == {"added": 0, "changed": 0}


def test_work_done_here_survives_the_next_import(project: Imports) -> None:
    """A field that the source left alone keeps what was written here."""
    path = write_lines(project.root / "issues.jsonl", [issue("bd-1"), issue("bd-2")])
    project.bring(path)
    project.workspace.update_task("bd-1", agent="kim", criteria=["it works"])
    project.workspace.hand_off(
        task="bd-2", to_agent="ada", phase="implementing", outcome="completed"
    )
    write_lines(path, [issue("bd-1", title="Other"), issue("bd-2")])
    found = project.bring(path)
    assert numbers(found, "task") == {"changed": 1, "unchanged": 1}
    task = project.workspace.task("bd-1")
    assert (task.title, task.criteria) == ("Other", ["it works"])
    assert project.workspace.task("bd-2").phase == "implementing"


def test_a_task_of_the_same_name_is_left_alone(project: Imports) -> None:
    """An issue never takes over a task that no import made."""
    project.workspace.create_task("bd-1", title="Ours", agent="kim")
    path = write_lines(project.root / "i.jsonl", [issue("bd-1"), issue("bd-2")])
    found = project.bring(path)
    assert numbers(found, "task") == {"added": 1, "refused": 1}
    assert "which no import made" in found.entries[0].reason
    assert project.workspace.task("bd-1").title == "Ours"


def test_a_circle_with_what_is_here_already(project: Imports) -> None:
    """A dependency that closes a circle only here is refused, and the rest is taken."""
    project.workspace.create_task("T-1", title="Ours", agent="kim", depends_on=["bd-1"])
    needs = [link("bd-1", "T-1", "blocks")]
    path = write_lines(project.root / "i.jsonl", [issue("bd-1", dependencies=needs), issue("bd-2")])
    found = project.bring(path)
    assert numbers(found, "task") == {"added": 1, "refused": 1}
    assert "cycle" in found.entries[0].reason


def test_a_broken_line_in_the_middle(project: Imports) -> None:
    """The lines around it are taken; it is counted with its number."""
    path = write_lines(project.root / "issues.jsonl", [issue("bd-1"), issue("bd-2")])
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + b'{"id": "bd-3", "tit\n' + second)
    found = project.bring(path)
    assert numbers(found, "task") == {"added": 2}
    assert numbers(found, "line") == {"refused": 1}
    assert next(e for e in found.entries if e.result == "refused").source == "line 2"


def test_what_an_issue_says_can_be_found(project: Imports) -> None:
    """Title, description, design, comments and criteria, in the task itself; and again once they
    have changed.
    """
    long = "Mind the gap. " * 3_000 + "It needs a dilithium crystal."
    said = issue("bd-1", title="Mend the engine", description="The flux capacitor leaks.")
    said |= {"design": "Weld it.", "acceptance_criteria": "- it holds water"}
    path = write_lines(project.root / "i.jsonl", [said, issue("bd-2", description=long)])
    assert numbers(project.bring(path), "text") == {"added": 2}

    def found(question: str) -> list[str]:
        return [hit.address for hit in project.workspace.recall(question, by_words=True, limit=1)]

    for question in ("flux capacitor", "mend engine", "weld", "holds water"):
        assert found(question) == ["node:beads:bd-1"], question
    assert found("dilithium crystal") == ["node:beads:bd-2"]
    (hit,) = project.workspace.recall("flux capacitor", task="bd-1")
    assert "flux capacitor" in hit.passage
    said["description"] = "The warp coil leaks."
    write_lines(path, [said, issue("bd-2", description=long)])
    assert numbers(project.bring(path), "text") == {"changed": 1, "unchanged": 1}
    (hit,) = project.workspace.recall("warp coil", task="bd-1")
    assert "warp coil" in hit.passage
    near = project.workspace.knowledge.neighbours("beads:bd-1")
    assert [reached.node for reached in near] == ["task:bd-1"]


def test_what_people_wrote_down_about_an_issue_stays(project: Imports) -> None:
    """The issue is taken as a task, and its text is refused where its name is taken."""
    project.workspace.create_task("T-1", title="Ours", agent="kim")
    add_knowledge(project.opened, [Node("beads:bd-1", "insight", "Ours")], agent="kim", task="T-1")
    found = project.bring(write_lines(project.root / "i.jsonl", [issue("bd-1")]))
    assert (numbers(found, "task"), numbers(found, "text")) == ({"added": 1}, {"refused": 1})


def test_types_of_entities_in_any_script(project: Imports) -> None:
    """A type is a tag in its own letters where plain ones would lose some of them."""
    types = {"Tokyo": "都市", "Kyiv": "Велике місто", "Bern": "Größere Stadt", "Odd": "★"}
    lines = [
        {"type": "entity", "name": name, "entityType": type, "observations": ["is there"]}
        for name, type in {**types, "Nice": "Café Place"}.items()
    ]
    found = project.bring(write_lines(project.root / "m.jsonl", lines), format="memory")
    assert numbers(found, "entity") == {"added": 5}
    nodes = {node.id: node.tags for node in graph(project.opened).nodes}
    assert {name: nodes[name] for name in (*types, "Nice")} == {
        "Tokyo": ("都市",),
        "Kyiv": ("велике-місто",),
        "Bern": ("größere-stadt",),
        "Odd": ("★",),
        "Nice": ("cafe-place",),
    }
    (hit,) = project.workspace.recall("there", tags=["都市"])
    assert hit.address == "node:Tokyo"


def test_a_memory_that_grew(project: Imports) -> None:
    """A new observation changes its entity; a new entity is added; the rest stays."""
    path = write_lines(project.root / "memory.jsonl", entities())
    project.bring(path)
    grown = entities()
    grown[1]["observations"] = ["Speaks Go"]
    grown.append({"type": "entity", "name": "New", "entityType": "x", "observations": []})
    write_lines(path, grown)
    found = project.bring(path)
    assert numbers(found, "entity") == {"added": 1, "changed": 1, "unchanged": 2}
    assert numbers(found, "relation") == {"unchanged": 2}


def test_knowledge_that_people_wrote_down_stays(project: Imports) -> None:
    """An entity doesn't take the place of a node of the same name that no import made."""
    project.workspace.create_task("T-1", title="Ours", agent="kim")
    ours = Node("Kim", "insight", "Kim likes tests")
    add_knowledge(project.opened, [ours], agent="kim", task="T-1")
    found = project.bring(write_lines(project.root / "memory.jsonl", entities()))
    assert numbers(found, "entity") == {"added": 2, "refused": 1}
    assert numbers(found, "relation") == {"added": 2}
    with project.opened.store.reading() as reader:
        known = reader.known_node("Kim")
        owns = reader.edges(source="Kim", target="Login service")
    assert known is not None
    assert known.node.summary == "Kim likes tests"
    assert [edge.attributes["name"] for edge in owns] == ["owns; wrote"]


def test_links_of_issues_are_in_the_graph(project: Imports) -> None:
    """What was discovered where, and what belongs to what, can be asked for."""
    project.bring(write_lines(project.root / "issues.jsonl", issues()))
    part = graph(project.opened, task="bd-1.1")
    keys = {edge.key: edge.attributes.get("name") for edge in part.edges}
    assert keys["task:bd-a3f8", "discovered_in", "task:bd-1.1"] == "discovered-from"
    assert keys["task:bd-1.1", "relates_to", "task:bd-1"] == "parent-child"


def test_notes_go_the_way_of_notes(project: Imports) -> None:
    """A note is recorded as a handoff once; its file stays as it is, and so does a dry run."""
    note = project.root / "HANDOFF.md"
    note.write_text(NOTE)
    heads = project.heads()
    dry = project.bring(note, task="T-9", agent="kim", dry_run=True)
    assert project.heads() == heads
    found = project.bring(note, task="T-9", agent="kim")
    assert (found.form, numbers(found, "note")) == ("notes", {"added": 1})
    assert dry.counts == found.counts
    assert "Redis" in project.workspace.state("T-9").document["decisions"][0]["summary"]
    assert numbers(project.bring(note, task="T-9", agent="kim"), "note") == {"unchanged": 1}
    assert note.read_text() == NOTE


def test_secrets_dont_come_in(project: Imports) -> None:
    """A token in an ADR or an issue is removed before storing, and the summary says so."""
    folder = project.root / "adr"
    folder.mkdir()
    (folder / "0001-a.md").write_text(f"# A\n\n## Decision\n\nUse {GITHUB_TOKEN} for it.\n")
    path = write_lines(
        project.root / "i.jsonl",
        [issue("bd-1", description=GITHUB_TOKEN), issue("bd-2", notes=GITHUB_TOKEN)],
    )
    for source in (folder, path):
        found = project.bring(source)
        assert any("github_token was removed" in entry.reason for entry in found.entries)
        heads = project.heads()
        assert project.bring(source).total("changed") == 0
        assert project.heads() == heads
    for path in (project.root / ".passdown").rglob("*"):
        assert not path.is_file() or GITHUB_TOKEN.encode() not in path.read_bytes()


def test_the_form_is_told_by_what_is_there(project: Imports) -> None:
    """A folder, a file, a project's `.beads` folder: each is recognized, and told apart."""
    found = sources(project.root)
    assert detect_format(str(found["adr"])) == "adr"
    assert detect_format(str(found["beads"].parent)) == "beads"
    assert detect_format(str(found["memory"])) == "memory"
    with pytest.raises(InvalidInput, match=r"several formats: .*adr"):
        detect_format(str(project.root))
    found_beads = project.bring(project.root, format="beads")
    assert found_beads.form == "beads"


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ({"format": "odd"}, "invalid_choice"),
        ({"agent": "system"}, "reserved_name"),
        ({"task": "../x"}, "invalid_id"),
        ({"format": "beads"}, "no_file"),
        ({"format": "memory"}, "no_file"),
        ({}, "unknown_form"),
    ],
)
def test_what_makes_no_sense_changes_nothing(
    project: Imports, how: dict[str, Any], code: str
) -> None:
    """Bad arguments, and a folder with nothing to take, are refused with the reason."""
    (project.root / "x").mkdir()
    (project.root / "x" / "a.md").write_text("hello")
    heads = project.heads()
    with pytest.raises(InvalidInput) as caught:
        project.bring(project.root / "x", **how)
    assert caught.value.problems[0].code == code
    assert project.heads() == heads


def test_arguments_of_another_kind_are_refused_all_at_once(project: Imports) -> None:
    """With their names, and not as a fault of ours; a path object is a path."""
    wrong: Any = {"format": 5, "agent": 5, "task": ["x"], "progress": "yes"}
    for source in (5, None, b"x"):
        with pytest.raises(InvalidInput) as caught:
            project.workspace.imports.run(source, **wrong)  # pyright: ignore[reportArgumentType]
        assert {problem.path for problem in caught.value.problems} == {"source", *wrong}
    folder: Any = write_adrs(project.root / "adr")
    assert project.workspace.imports.run(folder).form == "adr"


@pytest.mark.parametrize("form", ["auto", "bundle", "adr", "beads", "memory", "notes"])
def test_a_pipe_is_no_source(project: Imports, form: str) -> None:
    """It is refused at once, named or not."""
    os.mkfifo(project.root / "pipe")
    with pytest.raises(InvalidInput) as caught:
        project.bring(project.root / "pipe", format=form)
    assert [problem.code for problem in caught.value.problems] == ["not_regular_file"]


def test_a_source_of_which_nothing_can_be_taken(project: Imports) -> None:
    """All entries bad is an error with every reason, and the store stays as it was."""
    heads = project.heads()
    empty = project.root / "adr"
    empty.mkdir()
    (empty / "0001-a.md").write_bytes(b"\xff")
    for source, how in (
        (empty, {"format": "adr"}),
        (project.root / "nowhere", {}),
        (write_lines(project.root / "i.jsonl", [issue("../1"), issue("../2")]), {}),
    ):
        with pytest.raises(InvalidInput):
            project.bring(source, **how)
    assert project.heads() == heads


def test_a_gate_of_the_settings_stands_in_the_way(tmp_path: Path) -> None:
    """A closed issue doesn't pass a gate that a task here would have to pass."""
    settings = DEFAULTS._replace(phase_gates={"completed": {"test": 1}})
    with open_workspace(str(tmp_path), settings=settings) as workspace:
        path = write_lines(tmp_path / "i.jsonl", [issue("bd-1", status="closed")])
        found = workspace.imports.run(str(path))
        assert numbers(found, "standing") == {"refused": 1}
        assert workspace.task("bd-1").status == "open"


def test_progress_is_told(project: Imports) -> None:
    """Each step is told with the number of all steps, up to the last."""
    told: list[tuple[int, int]] = []

    def tell(done: int, total: int) -> None:
        told.append((done, total))

    project.bring(sources(project.root)["memory"], progress=tell)
    assert told == [(n, 5) for n in range(1, 6)]
    for form in ("adr", "beads"):
        told.clear()
        project.bring(sources(project.root)[form], progress=tell)
        assert told[-1][0] == told[-1][1] > 0
        assert [done for done, _ in told] == sorted({done for done, _ in told})

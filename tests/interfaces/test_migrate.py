"""`passdown migrate`: notes, folders, prompts and answers from the command line."""

from __future__ import annotations

import json
import os
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from tests.interfaces.running import data_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.interfaces.running import Run

TAGGED = """\
---
phase: 4
status: paused
---

<completed_work>
- Wired the parser; it must never block
</completed_work>

<remaining_work>
## Phase 5
1. Fix how the modal reads its data (BLOCKING):
   - it reads `content`
   - the writer gives `outlook`
2. Write the summary
</remaining_work>

<decisions_made>
- Removed the flag instead of hiding it. Nobody used it.
</decisions_made>

<blockers>
None - nothing is in the way here, and nothing was.
</blockers>

<next_action>
Start with the modal.
</next_action>
"""
REPORT = """\
from: builder
to_agents: [tester]
summary: Export works for one month.
decisions:
  - decision: Stream rows
    rationale: a month does not fit into memory
    alternatives: [build a list, a temporary file]
next_steps:
  - Export a whole year
files_modified:
  - src/export.py
open_questions: ["Which currency do refunds have?"]
"""
NOTE = "# Login\n\nWatch out for the clock.\n\n## Next steps\n- Add the form\n"


@pytest.mark.promise("S3-35")
def test_a_note_is_shown_recorded_and_then_unchanged(project: Path, cli: Run) -> None:
    """The table has line, kind, certainty and cue of each item."""
    (project / "login.md").write_text(NOTE)
    planned = cli("migrate", "login.md", "--dry-run", "--agent", "coder").out
    assert "planned" in planned
    assert [line.split()[:2] for line in planned.splitlines()[1:4] if line[:1].isdigit()] == [
        ["3", "gotchas"],
        ["6", "suggested"],
    ]
    assert "watch out for" in planned
    recorded = cli("migrate", "login.md", "--agent", "coder").out
    assert "recorded" in recorded
    assert "login.md is as it was; --in-place adds the handoff to it" in recorded
    assert "unchanged" in cli("migrate", "login.md", "--agent", "coder").out
    assert (project / "login.md").read_text() == NOTE


@pytest.mark.promise("S3-35")
@pytest.mark.parametrize("is_recorded", [False, True])
def test_in_place_the_file_gets_the_handoff_once(
    project: Path, cli: Run, as_json: Callable[..., Any], *, is_recorded: bool
) -> None:
    """Only when asked to, whether the note was recorded before or not; the note stays in front."""
    (project / "login.md").write_text(NOTE)
    how = ("migrate", "login.md", "--agent", "coder")
    if is_recorded:
        cli(*how)
    out = cli(*how, "--in-place").out
    assert "added the handoff to login.md" in out
    assert ("recorded  login.md" in out, "written  login.md" in out) == (
        not is_recorded,
        is_recorded,
    )
    text = (project / "login.md").read_text()
    assert text.startswith(NOTE)
    assert "## Handoff" in text
    for argv in ((*how, "--in-place"), how):
        assert "unchanged" in cli(*argv).out
    assert (project / "login.md").read_text() == text
    assert len(as_json("state", "login")["handoffs"]) == 1


@pytest.mark.promise("S3-33")
def test_a_row_of_a_table_is_read_as_it_is_shown(
    project: Path, as_json: Callable[..., Any]
) -> None:
    """A border that is escaped is a character; no alternative is no alternative called none."""
    rows = [
        "| Decision | Rationale | Alternatives |",
        "|---|---|---|",
        r"| Use `a \| b` in the grammar | `\|` is short | none |",
        "| Use Redis | It is fast | N/A, Memcached |",
    ]
    (project / "login.md").write_text("\n".join(["# Login", "", *rows, ""]))
    (found,) = as_json("migrate", "login.md", "--agent", "coder", "--dry-run")
    first, second = found["handoff"]["decisions"]
    assert first == {"summary": "Use `a | b` in the grammar", "rationale": "`|` is short"}
    assert second["alternatives"] == ["Memcached"]


@pytest.mark.promise("S3-35")
def test_ingest_takes_the_updated_file_for_what_it_is(project: Path, cli: Run) -> None:
    """Nothing is recorded twice."""
    (project / "login.md").write_text(NOTE)
    cli("migrate", "login.md", "--task", "T-1", "--in-place")
    assert "unchanged" in cli("ingest", "login.md").out


@pytest.mark.promise("S3-33")
def test_json_has_place_certainty_and_cue_of_every_item(
    project: Path, as_json: Callable[..., Any]
) -> None:
    """A program gets all of it."""
    (project / "login.md").write_text(NOTE)
    (found,) = as_json("migrate", "login.md", "--agent", "coder", "--in-place")
    assert (found["result"], found["task"], found["made_task"]) == ("recorded", "login", True)
    step = next(item for item in found["found"] if item["kind"] == "suggested_next_steps")
    start, end = step["span"]
    assert NOTE[start:end] == step["fields"]["step"] == "Add the form"
    assert step["confidence"] == pytest.approx(0.9)
    assert found["changed"] == "login.md"


@pytest.mark.promise("S3-35")
def test_folders_and_patterns_are_taken_and_faults_stop_no_other(project: Path, cli: Run) -> None:
    """Each file has its line; one that is refused makes the exit code 1."""
    notes = project / "notes" / "deep"
    notes.mkdir(parents=True)
    (project / "notes" / "a.md").write_text(NOTE)
    (notes / "b.json").write_text(json.dumps({"future_work": ["Add a retry"]}))
    (notes / "c.txt").write_bytes(b"\xff\n")
    (notes / "d.py").write_text("x = 1\n")
    answer = cli("migrate", "notes", "--agent", "coder", code=1)
    assert "3 notes: 2 recorded, 1 refused" in answer.out
    assert "c.txt" in answer.out
    assert "2 unchanged" in cli("migrate", "notes/**/[ab].*", "--agent", "coder").out


@pytest.mark.promise("S3-34")
def test_the_prompt_goes_out_and_the_answer_comes_in(project: Path, cli: Run) -> None:
    """By hand, through files, with any model."""
    (project / "note.md").write_text("The form must look right.\nAnd so on.\n")
    prompt = cli("migrate", "note.md", "--prompt").out
    assert "The form must look right." in prompt
    (project / "answer.json").write_text('{"suggested_next_steps": [{"step": "Check the form"}]}')
    cli("migrate", "note.md", "--task", "T-1", "--agent", "coder", "--answer", "answer.json")
    assert "Check the form" in cli("state", "T-1").out


@pytest.mark.promise("S3-34", "P-7")
def test_a_faulty_answer_is_refused_with_its_faults(project: Path, cli: Run) -> None:
    """Nothing is recorded."""
    (project / "note.md").write_text(NOTE)
    (project / "answer.json").write_text('{"outcome": "great"}')
    answer = cli("migrate", "note.md", "--answer", "answer.json", code=1)
    assert "outcome" in answer.out
    assert (project / "note.md").read_text() == NOTE
    assert "note" not in cli("task", "list").out


@pytest.mark.promise("S3-35")
@pytest.mark.parametrize("given", ["notes", "notes/*.md", "notes/**", "n*/**/*.md"])
def test_links_that_lead_out_of_what_was_searched_are_refused(
    project: Path, cli: Run, as_json: Callable[..., Any], given: str
) -> None:
    """And counted; neither read nor written, and those that stay inside are notes as ever."""
    private = project.parent / "private.md"
    private.write_text(NOTE)
    notes = project / "notes"
    notes.mkdir()
    (notes / "a.md").symlink_to("../../private.md")
    (notes / "b.md").symlink_to(project / "notes" / "c.md")
    (notes / "c.md").write_text(NOTE)
    (notes / "up").symlink_to(project.parent)
    results = {each["file"]: each for each in as_json("migrate", given, code=1)}
    out = results["notes/a.md"]
    assert (out["result"], out["error"]["problems"][0]["code"]) == ("refused", "path_escapes_root")
    assert {path for path in results if results[path]["result"] != "refused"} == {
        "notes/b.md",
        "notes/c.md",
    }
    assert private.read_text() == NOTE
    for name in ("b.md", "c.md", "up"):
        (notes / name).unlink()
    assert "Watch out" not in cli("migrate", given, "--prompt", code=1).out


@pytest.mark.promise("S3-35")
def test_a_file_that_was_named_may_lie_elsewhere_and_stays_as_it_is(
    project: Path, cli: Run
) -> None:
    """It is recorded, and the notice says that no section was added."""
    private = project.parent / "private.md"
    private.write_text(NOTE)
    answer = cli("migrate", str(private), "--agent", "coder", "--in-place")
    assert "recorded" in answer.out
    assert "outside the project" in answer.out + answer.err
    assert private.read_text() == NOTE


def test_a_pattern_finds_what_it_did_and_ends(project: Path, as_json: Callable[..., Any]) -> None:
    """Links in a circle aren't followed by `**`; hidden files are for patterns that say so."""
    (project / "n" / "deep").mkdir(parents=True)
    for name in ("n/a.md", "n/deep/b.md", "n/.hidden.md"):
        (project / name).write_text(f"{NOTE}- Mind {name[2:-3]}\n")
    for name in ("one", "two", "three"):
        (project / "n" / name).symlink_to(project / "n")

    def found(pattern: str) -> list[str]:
        return [each["file"] for each in as_json("migrate", pattern, "--dry-run")]

    assert found("n/**/*.md") == found("./n/**") == ["n/a.md", "n/deep/b.md"]
    assert found("n/**.md") == ["n/a.md"]
    assert found("n/.*.md") == ["n/.hidden.md"]
    assert found(f"{project}/n/d*/?.md") == [f"{project}/n/deep/b.md"]


@pytest.mark.parametrize(
    "argv",
    [
        ("migrate",),
        ("migrate", "--prompt"),
        ("migrate", "note.md", "--answer"),
        ("ingest",),
        ("handoff",),
        ("knowledge", "add", "--file"),
        ("import",),
        ("import", "--dry-run"),
        *(("import", "--from", form) for form in ("bundle", "adr", "beads", "memory", "notes")),
        ("import", "--dry-run", "--from", "bundle"),
    ],
)
def test_a_pipe_keeps_no_verb_waiting(project: Path, program: Run, argv: tuple[str, ...]) -> None:
    """It is named and refused; a run that waits would be ended after a minute, and fail."""
    (project / "note.md").write_text(NOTE)
    os.mkfifo(project / "pipe.md")
    answer = program(*argv, "pipe.md", code=1)
    assert "pipe.md" in answer.out + answer.err
    assert "not_regular_file" in answer.out + answer.err


def test_a_huge_file_is_refused_by_its_size(project: Path, cli: Run) -> None:
    """No more of it is read than is allowed."""
    with open(project / "huge.md", "wb") as file:
        file.truncate(2**40)
    for argv in (("migrate",), ("ingest",), ("handoff",), ("import", "--from", "notes")):
        answer = cli(*argv, "huge.md", code=1)
        assert "too_large" in answer.out + answer.err, argv


def test_misuse_is_told_apart(project: Path, cli: Run) -> None:
    """Options for one file, a share beyond one, and a folder without notes."""
    for name in ("a.md", "b.md"):
        (project / name).write_text(NOTE)
    (project / "empty").mkdir()
    cli("migrate", "a.md", "b.md", "--task", "T-1", code=2)
    cli("migrate", "a.md", "--minimum", "2", code=2)
    cli("migrate", "empty", code=1)
    cli("migrate", "nowhere.md", code=1)


@pytest.mark.promise("S3-35")
def test_what_is_skipped_or_not_there_is_said(project: Path, cli: Run) -> None:
    """A note without items, a pattern that matches nothing, a file that isn't there."""
    (project / "a.md").write_text(NOTE)
    (project / "b.md").write_text("# B\n\nHello there.\n")
    planned = cli("migrate", "a.md", "--dry-run", "--in-place").out
    assert "would add the handoff to a.md" in planned
    assert "would add" not in cli("migrate", "a.md", "--dry-run").out
    skipped = cli("migrate", "b.md").out
    assert skipped.split()[:2] == ["skipped", "b.md:"]
    assert "no item was found in it" in skipped
    assert "2 notes: 1 recorded, 1 skipped" in cli("migrate", "a.md", "b.md").out
    assert "matches no file" in cli("migrate", "old/*.md", code=1).out
    gone = cli("migrate", "nope.md", code=1).out
    assert "No such file" in gone
    assert "one line" not in gone


@pytest.mark.promise("S3-35")
def test_a_dry_run_names_notes_that_suggest_one_task(project: Path, cli: Run) -> None:
    """So that the names that the run gives are no surprise."""
    for folder in ("p", "q"):
        (project / folder).mkdir()
        (project / folder / "notes.md").write_text(f"Next, add {folder}.\n")
    assert "2 notes suggest notes" in cli("migrate", "p", "q", "--dry-run").out
    assert "q-notes" in cli("migrate", "p", "q").out


@pytest.mark.promise("S3-43")
def test_a_note_with_more_items_than_a_handoff_holds(
    project: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    """The first of them are kept, it is said how many, and the note is recorded whole."""
    boxes = "".join(f"- [ ] Do {n:05}\n" for n in range(12_000))
    (project / "boxes.md").write_text(f"# Boxes\n\n{boxes}")
    out = cli("migrate", "boxes.md", "--task", "T-1", "--agent", "kim").out
    assert "10,000 of 12,000 items" in out
    assert "the first 10,000 of 12,000 are kept; the note itself is whole" in out
    steps = as_json("state", "T-1")["next_steps"]
    assert (len(steps), steps[-1]["step"]) == (10_000, "Do 09999")
    cli("export", "t1.passdown", "--task", "T-1")
    with zipfile.ZipFile(project / "t1.passdown") as bundle:
        assert b"Do 11999" in bundle.read("records.jsonl")


@pytest.mark.promise("S3-43")
def test_items_that_are_not_sure_enough_are_not_counted_as_kept(project: Path, cli: Run) -> None:
    """What is found and what is kept are two numbers where they differ."""
    text = "# Login\n\nWe decided to keep tokens for an hour.\n\n- [ ] Add the form\n"
    (project / "login.md").write_text(text)
    out = cli("migrate", "login.md", "--agent", "kim", "--minimum", "0.9", "--dry-run").out
    assert "1 of 2 items" in out


@pytest.mark.promise("S3-43")
@pytest.mark.parametrize("is_tried", [True, False])
def test_a_section_that_makes_a_note_too_large_is_refused(
    project: Path, cli: Run, *, is_tried: bool
) -> None:
    """Before anything is recorded or written; without the section, the note is taken as it is."""
    text = "# Boxes\n\n" + "".join(f"- [ ] Do {n:04} {'x' * 500}\n" for n in range(1_500))
    (project / "boxes.md").write_text(text)
    before = json.loads(cli("heads", "export").out)["heads"]
    how = ["migrate", "boxes.md", "--agent", "kim"]
    out = cli(*how, "--in-place", *(["--dry-run"] if is_tried else []), code=1).out
    assert "too_large" in out
    assert "without --in-place" in out
    assert (project / "boxes.md").read_text() == text
    assert json.loads(cli("heads", "export").out)["heads"] == before
    assert "recorded" in cli(*how).out
    assert "unchanged" in cli(*how).out
    assert (project / "boxes.md").read_text() == text


def test_missing_files_are_named_whole_or_with_a_mark(project: Path, cli: Run) -> None:
    """No path is cut where one can't see it, and the rest is counted."""
    paths = [f"src/{'deep/' * 15}part_{n}.py" for n in range(4)] + [f"src/{'d/' * 60}last.py"]
    (project / "n.md").write_text("# N\n\n" + "".join(f"- Created `{p}`\n" for p in paths[-3:]))
    out = " ".join(cli("migrate", "n.md", "--agent", "kim", "--dry-run").out.split())
    assert "3 files are not on disk here" in out
    assert f"{paths[2]}, {paths[3]}, {paths[4][:100]}...)" in out
    (project / "n.md").write_text("# N\n\n" + "".join(f"- Created `{p}`\n" for p in paths))
    out = " ".join(cli("migrate", "n.md", "--agent", "kim", "--dry-run").out.split())
    assert f"{paths[2]} and 2 more); kept as reading" in out


def test_a_folder_behind_a_link_that_leads_out_is_refused(
    project: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    """It is counted, not left out without a word; a link to a folder inside is no loss."""
    inside, outside = project / "notes" / "inside", project.parent / "outside"
    for folder in (inside, outside):
        folder.mkdir(parents=True)
        (folder / "login.md").write_text(NOTE)
    (project / "notes" / "there").symlink_to(outside)
    (project / "notes" / "again").symlink_to(inside)
    found = data_of(cli("migrate", "notes", "--agent", "kim", "--json", code=1).out)
    results = {each["file"]: each["result"] for each in found}
    assert results == {"notes/there": "refused", "notes/inside/login.md": "recorded"}
    refused = next(each for each in found if each["result"] == "refused")
    assert refused["error"]["problems"][0]["code"] == "path_escapes_root"
    assert (outside / "login.md").read_text() == NOTE


@pytest.mark.promise("S3-33")
def test_of_several_receivers_the_first_is_taken_and_the_others_are_named(
    as_json: Callable[..., Any], project: Path
) -> None:
    report = {"from_agent": "coder", "to_agents": ["tester", "writer"], "next_steps": ["Test it"]}
    (project / "r.json").write_text(json.dumps(report))
    (result,) = as_json("migrate", "r.json")
    assert (result["handoff"]["from_agent"], result["handoff"]["to_agent"]) == ("coder", "tester")
    (problem,) = [each for each in result["problems"] if each["code"] == "several"]
    assert "writer" in problem["message"]


@pytest.mark.promise("S3-33")
def test_tags_are_sections(project: Path, as_json: Callable[..., Any]) -> None:
    """What is done is no item, "None" is no blocker, and details belong to their step."""
    (project / "pause.md").write_text(TAGGED)
    (found,) = as_json("migrate", "pause.md", "--agent", "coder")
    handoff = found["handoff"]
    (decision,) = handoff["decisions"]
    assert decision["summary"] == "Removed the flag instead of hiding it."
    assert decision["rationale"] == "Nobody used it."
    assert decision["alternatives"] == ["hiding it"]
    steps = [each["step"] for each in handoff["suggested_next_steps"]]
    assert [step[:30] for step in steps] == [
        "Fix how the modal reads its da",
        "Write the summary",
        "Start with the modal.",
    ]
    assert "`outlook`" in steps[0]
    assert not handoff.keys() & {"blockers", "gotchas"}


@pytest.mark.promise("S3-33")
def test_a_yaml_report_is_read_by_its_keys(project: Path, as_json: Callable[..., Any]) -> None:
    """As a JSON report is; and its file is left alone, since nothing can be appended to it."""
    (project / "export.yaml").write_text(REPORT)
    (found,) = as_json("migrate", "export.yaml", "--in-place")
    handoff = found["handoff"]
    assert (handoff["from_agent"], handoff["to_agent"]) == ("builder", "tester")
    (decision,) = handoff["decisions"]
    assert (decision["summary"], decision["rationale"]) == (
        "Stream rows",
        "a month does not fit into memory",
    )
    assert decision["alternatives"] == ["build a list", "a temporary file"]
    assert [each["step"] for each in handoff["suggested_next_steps"]] == ["Export a whole year"]
    assert len(handoff["open_questions"]) == 1
    assert (project / "export.yaml").read_text() == REPORT

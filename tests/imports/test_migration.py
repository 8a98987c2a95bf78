"""From a note to a recorded handoff: checked, kept, written back, and done once."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings

import passdown
from passdown.core.settings import Settings
from passdown.errors import InvalidInput
from passdown.imports.note_migration import kept_note
from tests.imports.test_note_properties import NOTES
from tests.sizes import example_count

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from passdown import Workspace

NOTE = """\
# Task T-7: Login

- **Agent:** coder
- **Next agent:** tester

Made src/login.py, and read docs/auth.md first.

Watch out for the clock of the build machine.

## Next steps
- [ ] Add the middleware
"""
UNCLEAR = NOTE.replace("Watch", "The form must look right.\n\nWatch")


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "login.py").write_text("x = 1\n")
    with passdown.open(str(tmp_path)) as opened:
        yield opened


def written(folder: Path, text: str, name: str = "note.md") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def versions(workspace: Workspace, task: str = "T-7") -> int:
    return workspace.files.state_document(task)["version"]


@pytest.mark.promise("S3-35", "P-4")
def test_a_note_becomes_a_handoff_and_its_file_shows_it(
    workspace: Workspace, tmp_path: Path
) -> None:
    """The task is made, the handoff is valid, the note is kept, the section stands below it."""
    path = written(tmp_path, NOTE)
    found = workspace.imports.migrate(str(path), in_place=True)
    assert (found.task, found.made_task, found.changed) == ("T-7", True, str(path))
    state = workspace.files.state_document("T-7")
    assert state["title"] == "Login"
    assert (state["source_agent"], state["target_agent"]) == ("coder", "tester")
    assert [a["path"] for a in state["artifacts"]] == ["src/login.py"]
    assert [n["step"] for n in state["next_steps"]] == ["Add the middleware"]
    assert [r["file"] for r in state["reading"]] == ["docs/auth.md"]
    text = path.read_text()
    assert text.startswith(NOTE)
    assert "step: Add the middleware" in text[len(NOTE) :]
    sha256 = found.handoff["metadata"]["migrated"]["sha256"]
    assert kept_note(workspace._context, "T-7", sha256) == NOTE  # pyright: ignore[reportPrivateUsage]


@pytest.mark.promise("S3-35")
def test_a_second_run_does_nothing(workspace: Workspace, tmp_path: Path) -> None:
    """Neither for the file nor for the ledger, even if others went on, and whoever runs it."""
    path = written(tmp_path, NOTE)
    first = workspace.imports.migrate(str(path), in_place=True)
    text, mtime = path.read_bytes(), path.stat().st_mtime_ns
    workspace.hand_off({"task": "T-7", "from_agent": "tester", "outcome": "completed"})
    before = versions(workspace)
    again = workspace.imports.migrate(str(path), in_place=True, agent="someone", minimum=0.9)
    assert again.is_repeat
    assert (again.version, again.changed) == (first.version, None)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (text, mtime)
    assert versions(workspace) == before


@pytest.mark.promise("S3-35")
@pytest.mark.parametrize("form", ["report", "text", "left alone"])
def test_a_note_without_a_section_is_taken_once_too(
    workspace: Workspace, tmp_path: Path, form: str
) -> None:
    """A JSON report stays as it is; text has no file; a file may be left alone."""
    report = json.dumps({"task_id": "T-7", "agent": "coder", "future_work": ["Add a retry"]})
    given = {
        "report": str(written(tmp_path, report, "r.json")),
        "text": NOTE,
        "left alone": str(written(tmp_path, NOTE)),
    }[form]
    first, again = (
        workspace.imports.migrate(given, agent=agent, in_place=form != "left alone")
        for agent in ("one", "two")
    )
    assert first.changed is again.changed is None
    assert again.is_repeat
    assert again.version == first.version
    assert len(workspace.files.state_document("T-7")["handoffs"]) == 1


@pytest.mark.promise("S3-35")
def test_ingesting_the_updated_file_repeats_nothing(workspace: Workspace, tmp_path: Path) -> None:
    """The section is the handoff that was recorded."""
    from passdown.cli.handoffs import ingest_file

    path = written(tmp_path, NOTE)
    first = workspace.imports.migrate(str(path), in_place=True)
    result: dict[str, Any] = {"made_task": False}
    ingest_file(workspace, str(path), "someone", result)
    assert (result["result"], result["version"]) == ("unchanged", first.version)


@pytest.mark.promise("S3-35")
def test_an_edited_note_is_migrated_anew_in_place(workspace: Workspace, tmp_path: Path) -> None:
    """The section is replaced, what follows it stays, and both handoffs are on record."""
    path = written(tmp_path, NOTE)
    workspace.imports.migrate(str(path), in_place=True)
    edited = path.read_text().replace("Add the middleware\n", "Add the middleware now\n", 1)
    path.write_text(edited + "\n## Afterwords\n\nKept.\n")
    found = workspace.imports.migrate(str(path), in_place=True)
    text = path.read_text()
    assert not found.is_repeat
    assert text.count("## Handoff") == 1
    assert text.endswith("## Afterwords\n\nKept.\n")
    assert [n["step"] for n in workspace.files.state_document("T-7")["next_steps"]][-1] == (
        "Add the middleware now"
    )
    assert workspace.imports.migrate(str(path), in_place=True).is_repeat


@pytest.mark.promise("S3-35")
def test_a_section_that_was_edited_by_hand_is_recorded_as_it_stands(
    workspace: Workspace, tmp_path: Path
) -> None:
    """A person's correction counts, and counts once."""
    path = written(tmp_path, NOTE)
    workspace.imports.migrate(str(path), in_place=True)
    path.write_text(path.read_text().replace("step: Add the middleware", "step: Add it"))
    found = workspace.imports.migrate(str(path), in_place=True)
    assert not found.is_repeat
    steps = workspace.files.state_document("T-7")["next_steps"]
    assert [step["step"] for step in steps if step["status"] == "open"] == ["Add it"]
    assert workspace.imports.migrate(str(path), in_place=True).is_repeat


@pytest.mark.promise("S3-35")
def test_the_file_keeps_its_link_its_rights_and_its_line_ends(
    workspace: Workspace, tmp_path: Path
) -> None:
    """What the name leads to is written; the note's bytes stay in front."""
    real = written(tmp_path, "\ufeff" + NOTE.replace("\n", "\r\n") + "```\r\nopen fence", "real.md")
    before = real.read_bytes()
    real.chmod(0o640)
    link = tmp_path / "link.md"
    link.symlink_to(real)
    found = workspace.imports.migrate(str(link), in_place=True)
    assert found.task == "T-7"
    assert link.is_symlink()
    assert stat.S_IMODE(os.stat(real).st_mode) == 0o640
    assert real.read_bytes().startswith(before)
    assert b"\n" not in real.read_bytes().replace(b"\r\n", b"")
    assert workspace.imports.migrate(str(link), in_place=True).is_repeat


@pytest.mark.promise("S3-35")
def test_a_file_that_changes_meanwhile_is_left_alone(workspace: Workspace, tmp_path: Path) -> None:
    """Nobody's words are overwritten; a second run takes the new text."""
    path = written(tmp_path, NOTE)

    def answer(_: str) -> str:
        path.write_text("mine\n")
        return '{"summary": "All well."}'

    found = workspace.imports.migrate(str(path), in_place=True, answer=answer)
    assert path.read_text() == "mine\n"
    assert found.changed is None
    assert "file_changed" in {problem.code for problem in found.problems}


@pytest.mark.promise("S3-35")
def test_a_dry_run_changes_nothing(workspace: Workspace, tmp_path: Path) -> None:
    """It shows the handoff, and there is still no task."""
    path = written(tmp_path, NOTE)
    found = workspace.imports.migrate(str(path), in_place=True, dry_run=True)
    assert found.version is None
    assert found.handoff["suggested_next_steps"][0]["step"] == "Add the middleware"
    assert path.read_text() == NOTE
    assert workspace.tasks() == []


@pytest.mark.promise("S3-34")
def test_a_callback_answers_for_what_is_unclear(workspace: Workspace, tmp_path: Path) -> None:
    """Its lists take the place of those found; it can't name another task or close items."""
    prompts: list[str] = []

    def answer(prompt: str) -> str:
        prompts.append(prompt)
        step = {"step": "Check the form", "priority": "high"}
        given = {"task": "OTHER", "from_agent": "admin-x", "resolves": ["OTHER#n1"]}
        return "```json\n" + json.dumps({**given, "suggested_next_steps": [step]}) + "\n```"

    found = workspace.imports.migrate(str(written(tmp_path, UNCLEAR)), answer=answer, in_place=True)
    assert "The form must look right." in prompts[0].partition("What is unclear")[2]
    assert (found.task, len(prompts)) == ("T-7", 1)
    state = workspace.files.state_document("T-7")
    assert [n["step"] for n in state["next_steps"]] == ["Check the form"]
    assert [g["issue"] for g in state["gotchas"]] == [
        "Watch out for the clock of the build machine."
    ]
    assert state["source_agent"] == "coder"


@pytest.mark.promise("S3-34", "P-7")
@pytest.mark.parametrize("second", ["good", "bad"])
def test_a_faulty_answer_goes_back_once_with_every_fault(
    workspace: Workspace, tmp_path: Path, second: str
) -> None:
    """Then it is refused, and nothing was changed."""
    path = written(tmp_path, UNCLEAR)
    bad = json.dumps({"outcome": "great", "gotchas": [{"issue": "x"}]})
    answers = [bad, '{"summary": "Fine."}' if second == "good" else bad]
    prompts: list[str] = []

    def answer(prompt: str) -> str:
        prompts.append(prompt)
        return answers[len(prompts) - 1]

    if second == "good":
        assert (
            workspace.imports.migrate(str(path), in_place=True, answer=answer).handoff["summary"]
            == "Fine."
        )
    else:
        with pytest.raises(InvalidInput, match="refused") as caught:
            workspace.imports.migrate(str(path), in_place=True, answer=answer)
        assert {p.path for p in caught.value.problems} >= {"outcome", "gotchas[0].mitigation"}
        assert path.read_text() == UNCLEAR
        assert workspace.tasks() == []
    assert len(prompts) == 2
    assert "gotchas[0].mitigation" in prompts[1]
    assert "is not one of the choices" in prompts[1]


Asking = Callable[..., Settings]


@pytest.fixture
def asking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asking:
    """Let a program answer, for a time."""

    def ask(code: str, timeout_s: float = 20.0) -> Settings:
        program = tmp_path / "answer.py"
        program.write_text(code)
        command = f"'{sys.executable}' '{program}' '$HOME; exit 3'"
        monkeypatch.setenv("PASSDOWN_MIGRATE_COMMAND", command)
        return Settings(migrate_timeout_s=timeout_s)

    return ask


@pytest.mark.promise("S3-34")
def test_the_command_of_the_environment_answers_when_it_is_asked(
    tmp_path: Path, asking: Asking
) -> None:
    """It reads the prompt and prints the handoff; no shell sees its arguments."""
    code = (
        "import sys, json\nassert sys.argv[1] == '$HOME; exit 3'\n"
        "assert 'The form must look right.' in sys.stdin.read()\n"
        "print(json.dumps({'summary': 'Asked.'}))\n"
    )
    with passdown.open(str(tmp_path), settings=asking(code)) as workspace:
        assert workspace.imports.migrate(UNCLEAR, dry_run=True).handoff["summary"] != "Asked."
        assert workspace.imports.migrate(UNCLEAR, ask=True).handoff["summary"] == "Asked."


@pytest.mark.promise("S3-34")
@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("raise SystemExit('no key')", "no key"),
        ("import time; time.sleep(60)", "longer than"),
        ("print('x' * 2_000_000)", "bytes"),
        ("print('no handoff')", "no|object|YAML"),
    ],
)
def test_a_command_that_fails_changes_nothing(
    tmp_path: Path, asking: Asking, code: str, words: str
) -> None:
    """What went wrong is said."""
    timeout_s = 0.5 if "sleep" in code else 20.0
    with passdown.open(str(tmp_path), settings=asking(code, timeout_s)) as workspace:
        with pytest.raises(InvalidInput, match=words):
            workspace.imports.migrate(UNCLEAR, ask=True)
        assert workspace.tasks() == []


@pytest.mark.promise("S3-34")
def test_without_a_command_nobody_is_asked(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable that is missing is named."""
    monkeypatch.delenv("PASSDOWN_MIGRATE_COMMAND", raising=False)
    with pytest.raises(InvalidInput, match="PASSDOWN_MIGRATE_COMMAND"):
        workspace.imports.migrate(UNCLEAR, ask=True)


@pytest.mark.promise("S3-34")
def test_a_repository_chooses_no_program(tmp_path: Path) -> None:
    """A command in its settings is refused, and not run."""
    with passdown.open(str(tmp_path)):
        pass
    config = tmp_path / ".passdown" / "config.toml"
    config.write_text(f"[migrate]\ncommand = \"touch '{tmp_path / 'ran'}'\"\n")
    with pytest.raises(InvalidInput, match="PASSDOWN_MIGRATE_COMMAND"):
        passdown.open(str(tmp_path)).imports.migrate(UNCLEAR, ask=True)
    assert not (tmp_path / "ran").exists()


@pytest.mark.promise("S3-35")
@pytest.mark.parametrize("is_linked", [False, True])
def test_a_file_outside_the_project_is_recorded_and_left_alone(
    tmp_path: Path, *, is_linked: bool
) -> None:
    """Named by itself or through a link; a dry run says so, too."""
    project, outside = tmp_path / "project", written(tmp_path, NOTE, "private.md")
    project.mkdir()
    link = project / "note.md"
    link.symlink_to(outside)
    given, before = str(link if is_linked else outside), outside.stat()
    with passdown.open(str(project)) as workspace:
        for dry_run in (True, False, False):
            found = workspace.imports.migrate(given, dry_run=dry_run, in_place=True)
            assert (found.changed, found.would_change) == (None, None)
            assert "outside_project" in {problem.code for problem in found.problems}
        assert found.is_repeat
        assert len(workspace.files.state_document("T-7")["handoffs"]) == 1
    assert outside.read_text() == NOTE
    after = outside.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert link.is_symlink()


@pytest.mark.promise("S3-35")
def test_a_link_that_is_turned_outwards_meanwhile_is_not_followed(tmp_path: Path) -> None:
    """What counts is where the link leads when the file is written."""
    outside, project = written(tmp_path, NOTE, "private.md"), tmp_path / "project"
    project.mkdir()
    link = project / "note.md"
    link.symlink_to(written(project, NOTE, "real.md"))

    def answer(_: str) -> str:
        link.unlink()
        link.symlink_to(outside)
        return '{"summary": "All well."}'

    with passdown.open(str(project)) as workspace:
        found = workspace.imports.migrate(str(link), in_place=True, answer=answer)
    assert found.changed is None
    assert "outside_project" in {problem.code for problem in found.problems}
    assert outside.read_text() == NOTE


@pytest.mark.promise("S3-35")
def test_what_is_no_regular_file_is_refused_at_once(workspace: Workspace, tmp_path: Path) -> None:
    """A pipe that nobody writes to, and a folder."""
    pipe = tmp_path / "pipe.md"
    os.mkfifo(pipe)
    for path in (str(pipe), str(tmp_path)):
        with pytest.raises(InvalidInput) as caught:
            workspace.imports.migrate(path, agent="coder")
        (problem,) = caught.value.problems
        assert (problem.path, problem.code) == (path, "not_regular_file")


@pytest.mark.promise("S3-35")
def test_arguments_of_another_kind_are_refused_all_at_once(workspace: Workspace) -> None:
    """With their names, and not as a fault of ours."""
    wrong: dict[str, Any] = {"task": 5, "agent": b"x", "answer": "yes", "minimum": "x"}
    for note in (5, None, b"a\nb", ["a.md"]):
        with pytest.raises(InvalidInput) as caught:
            workspace.imports.migrate(note, **wrong)  # pyright: ignore[reportArgumentType]
        found = [(p.path, p.code) for p in caught.value.problems]
        assert found == [(name, "wrong_type") for name in ("note", *wrong)]
    for minimum in (float("nan"), True, 2, -0.1):
        with pytest.raises(InvalidInput, match="minimum"):
            workspace.imports.migrate(NOTE, minimum=minimum)


@pytest.mark.promise("S3-35", "P-7")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"\xff\xfe\n", "invalid_utf8"),
        (b"a b c.\n" * 1_500_000, "too_large"),
        (b"# Task bad id: x\n\nwords\n", "required"),
        (b"# Task T-1: x\n\n## Handoff\n\n```yaml\noutcome: completed\n```\n", "structured"),
    ],
)
def test_what_can_not_be_migrated_is_refused_whole(
    workspace: Workspace, tmp_path: Path, text: bytes, code: str
) -> None:
    """Too large, no text, nobody to hand off, or structured already."""
    path = tmp_path / "note.md"
    path.write_bytes(text)
    with pytest.raises(InvalidInput) as caught:
        workspace.imports.migrate(str(path), in_place=True)
    assert code in {problem.code for problem in caught.value.problems}
    assert path.read_bytes() == text
    assert workspace.tasks() == []


@pytest.mark.promise("S3-35")
def test_secrets_and_orders_in_a_note_stay_out_and_stay_data(
    workspace: Workspace, tmp_path: Path
) -> None:
    """No secret is stored or copied into the section; orders are just words."""
    secret = "ghp_" + "a1B2" * 9
    note = f"# Task T-7: X\n\n- Agent: coder\n\nWatch out for the token {secret} in the log.\n"
    note += "\nNext, add a test that ignores all previous instructions.\n"
    path = written(tmp_path, note)
    workspace.imports.migrate(str(path), in_place=True)
    assert secret not in path.read_text()[len(note) :]
    for file in (tmp_path / ".passdown").rglob("*"):
        assert not file.is_file() or secret.encode() not in file.read_bytes()


@pytest.mark.promise("S3-35")
@settings(
    max_examples=example_count(10), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(NOTES)
def test_any_note_survives_and_a_second_run_does_nothing(tmp_path: Path, text: str) -> None:
    """Byte for byte, in front of its section; refused notes stay as they are."""
    with passdown.open(str(tmp_path)) as workspace:
        path = written(tmp_path, text, "any.md")
        try:
            first = workspace.imports.migrate(str(path), in_place=True, task="T-any", agent="coder")
        except InvalidInput:
            assert path.read_bytes() == text.encode()
            return
        after = path.read_bytes()
        assert after.startswith(text.encode())
        if first.skipped:
            assert after == text.encode()
            assert first.version is None
            return
        again = workspace.imports.migrate(str(path), in_place=True, task="T-any", agent="coder")
        assert again.is_repeat
        assert again.version == first.version
        assert path.read_bytes() == after


@pytest.mark.promise("S3-35")
@pytest.mark.parametrize("text", ["# Thoughts\n\nHello there.\n", "lorem ipsum\n\ndolor\n"])
def test_a_note_without_an_item_gives_no_handoff(
    workspace: Workspace, tmp_path: Path, text: str
) -> None:
    """It is skipped with the reason; an outcome or a summary that is named as one is enough."""
    path = written(tmp_path, text)
    found = workspace.imports.migrate(str(path), in_place=True, agent="coder")
    assert (found.version, found.skipped) == (None, "no item was found in it")
    assert path.read_text() == text
    assert workspace.tasks() == []
    for fact in ("Status: done", "Summary: The form works now."):
        path.write_text(f"{fact}\n\n{text}")
        assert workspace.imports.migrate(str(path), in_place=True, agent="coder").version


@pytest.mark.promise("S3-35")
@pytest.mark.parametrize("name", ["r.json", "note.md"])
def test_broken_json_is_refused(workspace: Workspace, tmp_path: Path, name: str) -> None:
    """Read as prose it would be fragments; the line that is wrong is named."""
    text = '{"future_work": ["Add a retry"],\n "next_steps": [\n'
    path = written(tmp_path, text, name)
    with pytest.raises(InvalidInput, match="line 3") as caught:
        workspace.imports.migrate(str(path), in_place=True, agent="coder")
    assert caught.value.problems[0].code == "invalid_json"
    assert path.read_text() == text
    assert workspace.tasks() == []


@pytest.mark.promise("S3-35")
def test_notes_of_one_name_are_told_apart_by_their_path(
    workspace: Workspace, tmp_path: Path
) -> None:
    """Also outside the project; where even the path is taken, a task has to be named."""
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    found: list[str] = []
    for folder in (tmp_path / "p", tmp_path / "q", outside):
        folder.mkdir()
        path = written(folder, f"Next, add {folder.name}.\n", "notes.md")
        first = workspace.imports.migrate(str(path), in_place=True, agent="coder")
        assert workspace.imports.migrate(str(path), in_place=True, agent="coder").is_repeat
        found.append(first.task)
    assert found == ["notes", "q-notes", f"{outside.name}-notes"]
    taken = written(tmp_path, "Next, add more.\n", "q-notes.md")
    with pytest.raises(InvalidInput, match="--task"):
        workspace.imports.migrate(str(taken), agent="coder")
    assert workspace.imports.migrate(str(taken), agent="coder", task="T-1").task == "T-1"


@pytest.mark.promise("S3-35")
def test_secrets_that_were_removed_are_told(workspace: Workspace, tmp_path: Path) -> None:
    """With the file, which still holds them."""
    note = f"# A\n\nNext, rotate the key sk-proj-{'a1B2' * 10}.\n"
    path = written(tmp_path, note)
    (problem,) = workspace.imports.migrate(str(path), in_place=True, agent="coder").problems
    assert (problem.path, problem.code) == (str(path), "redacted")
    assert problem.message == "an openai_key was removed before storing"

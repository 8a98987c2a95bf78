"""The page on freeform notes shows what happens."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from passdown.cli.main import main
from passdown.core.settings import parse_settings
from passdown.imports.note_items import extract_note

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "migration.md").read_text("utf-8")


def block(language: str) -> str:
    match = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert match is not None
    return match[1]


@pytest.mark.promise("S3-33", "S3-35")
def test_the_note_of_the_page_gives_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The example is its file, and the output is the real one."""
    note = (ROOT / "docs" / "examples" / "handover.md").read_text("utf-8")
    assert block("markdown") == note
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "src").mkdir()
    for name in ("login.py", "app.py"):
        (tmp_path / "src" / name).write_text("x = 1\n")
    (tmp_path / "handover.md").write_text(note)
    assert main(["init"]) == 0
    capsys.readouterr()
    assert main(["migrate", "handover.md"]) == 0
    assert capsys.readouterr().out == block("text")
    assert main(["migrate", "handover.md"]) == 0
    assert "unchanged" in capsys.readouterr().out


@pytest.mark.promise("S3-34")
def test_the_settings_of_the_page_can_be_used() -> None:
    """The time limit is a setting; the command is named by the environment."""
    settings = parse_settings(tomllib.loads(block("toml")))
    assert 'PASSDOWN_MIGRATE_COMMAND="my-model --json"' in block("sh")
    assert settings.migrate_timeout_s == 120.0


@pytest.mark.promise("S3-33")
def test_the_words_that_the_page_names_are_cues() -> None:
    """Each sentence of the table's last column gives its kind."""
    for words, kind in (
        ("We chose this", "decisions"),
        ("Verdict: keep it", "decisions"),
        ("You must not touch it", "gotchas"),
        ("Always use it", "patterns_discovered"),
        ("Someone should add it", "suggested_next_steps"),
        ("We are waiting for keys", "blockers"),
    ):
        assert kind in {item.kind for item in extract_note(f"{words}.").found}, words

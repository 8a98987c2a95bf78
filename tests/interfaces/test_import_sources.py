"""`passdown import` takes in ADRs, issues, memories and notes, and bundles as ever."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.imports.sources import entities, issue, issues, write_adrs, write_lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.interfaces.running import Run


def heads(cli: Run) -> Any:
    return json.loads(cli("heads", "export").out)["heads"]


def test_a_folder_of_adrs_is_taken_in_once(
    project: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    """A dry run, the run and the run again: what would be, what was, and nothing more."""
    write_adrs(project / "docs" / "adr")
    before = heads(cli)
    dry = cli("import", "docs/adr", "--dry-run").out
    assert "dry run: nothing was written" in dry
    assert heads(cli) == before
    first = as_json("import", "docs/adr", "--agent", "kim")
    assert (first["form"], first["dry_run"]) == ("adr", False)
    assert first["counts"]["decision"]["added"] == 4
    assert first["entries"][-1]["address"] == "workspace#d4"
    assert "Use signed cookies" in cli("state", "workspace").out
    again = as_json("import", "docs/adr", "--agent", "kim")
    assert again["counts"]["decision"]["unchanged"] == 4
    assert "README.md" in cli("import", "docs/adr").out


def test_the_summary_shows_numbers_and_reasons(project: Path, cli: Run) -> None:
    """One row a kind; what was refused is named with its line, and the exit code says so."""
    path = write_lines(project / "issues.jsonl", [*issues(), issue("../up")])
    answer = cli("import", str(path), code=1)
    rows = [line.split() for line in answer.out.splitlines()]
    head = [word.lower() for word in rows[0]]
    assert head == ["beads", "added", "changed", "unchanged", "skipped", "refused"]
    assert ["task", "5", "0", "0", "1", "0"] in rows
    assert ["line", "0", "0", "0", "0", "1"] in rows
    assert "line 7: id" in answer.out
    assert "bd-gone was deleted" in answer.out


def test_each_form_can_be_named(project: Path, as_json: Callable[..., Any]) -> None:
    """--from settles what a file is, and --task where its entries go."""
    path = write_lines(project / "odd.txt", entities())
    found = as_json("import", str(path), "--from", "memory", "--task", "K-1")
    assert found["counts"]["entity"]["added"] == 3
    assert as_json("task", "show", "K-1")["task"] == "K-1"


def test_a_bundle_is_a_bundle_as_ever(
    filled: Path, cli: Run, as_json: Callable[..., Any], tmp_path: Path
) -> None:
    """Without an option, by name, and as a dry run; --fork is for bundles alone."""
    bundle = tmp_path / "all.passdown"
    cli("export", str(bundle))
    other = tmp_path / "other"
    cli("init", str(other))
    store = ("--store", str(other))
    dry = as_json("import", str(bundle), "--dry-run", *store)
    assert dry["counts"]["stream"]["added"] == 1
    assert json.loads(cli("heads", "export", *store).out)["heads"] == {}
    assert as_json("import", str(bundle), "--from", "bundle", *store)["added"] == {"task/T-1": 7}
    assert "was there already" in cli("import", str(bundle), *store).out
    write_adrs(filled / "adr")
    assert "--fork" in cli("import", "adr", "--fork", "x", code=2).err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("nowhere",), "was not found"),
        (("plain.txt",), "has no known format"),
        (("plain.txt", "--from", "adr"), "there is no ADR"),
        (("plain.txt", "--from", "beads"), "invalid_json"),
        (("plain.txt", "--from", "bundle"), "not a bundle"),
        (("empty",), "has no known format"),
    ],
)
def test_what_cant_be_read_is_refused(
    project: Path, cli: Run, argv: tuple[str, ...], words: str
) -> None:
    """The reason is told, and nothing is written."""
    (project / "plain.txt").write_text("hello\n", "utf-8")
    (project / "empty").mkdir()
    before = heads(cli)
    assert words in cli("import", *argv, code=1).err
    assert heads(cli) == before


def test_text_of_a_source_cant_drive_the_terminal(project: Path, cli: Run) -> None:
    """Names and reasons from a source are shown with their controls made visible."""
    odd = [issue("bd-1"), issue("x\x1b[31m")]
    out = cli("import", str(write_lines(project / "i.jsonl", odd)), code=1).out
    assert "\x1b" not in out


def test_the_summary_tells_what_to_know_of_what_was_taken(project: Path, cli: Run) -> None:
    """Sections without a place, secrets that were removed, links to nowhere."""
    write_adrs(project / "docs" / "adr")
    assert "only in the file: Pros and Cons of the Options" in cli("import", "docs/adr").out
    token = "ghp_" + "a1B2c3D4e5" * 4
    (project / "HANDOFF.md").write_text(f"# A\n\n## Next steps\n\n- Replace {token}\n")
    shown = cli("import", "HANDOFF.md").out
    assert "HANDOFF.md: a github_token was removed" in shown
    needs = [{"issue_id": "bd-1", "depends_on_id": "bd-9", "type": "blocks"}]
    path = write_lines(project / "i.jsonl", [issue("bd-1", dependencies=needs)])
    assert "depends on bd-9" in cli("import", str(path)).out

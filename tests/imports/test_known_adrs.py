"""ADRs that were taken in before: known again under another name, and by those that name them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.imports.sources import MADR_FRONT, NYGARD_NEW, Imports, numbers, write_adrs

if TYPE_CHECKING:
    from pathlib import Path

OLD, NEW = "0001-keep-sessions-in-the-database.md", "0003-keep-sessions-in-redis.md"
COOKIES = "0005-use-signed-cookies.md"


@pytest.fixture
def folder(project: Imports) -> Path:
    """A folder of four ADRs that was taken in; the third is the one about cookies."""
    found = write_adrs(project.root / "docs" / "adr")
    project.bring(found)
    return found


def held(project: Imports) -> dict[str, str]:
    """The decisions that hold, each with the file that it names."""
    decisions = project.decisions("workspace").values()
    return {d["summary"]: d["paths"][0] for d in decisions if d["status"] == "accepted"}


def test_a_renamed_adr_is_the_same_decision(project: Imports, folder: Path) -> None:
    """One decision holds, it names the file as it is called now, and the summary says so."""
    (folder / COOKIES).rename(folder / "0005-cookies.md")
    found = project.bring(folder)
    assert numbers(found, "decision") == {"changed": 1, "unchanged": 3}
    (entry,) = [entry for entry in found.entries if entry.result == "changed"]
    assert entry.reason.startswith(f"was docs/adr/{COOKIES}, which is gone")
    assert project.decisions("workspace")["workspace#d3"]["superseded_by"] == entry.address
    assert held(project) == {
        "Use signed cookies": "docs/adr/0005-cookies.md",
        "Keep sessions in Redis": f"docs/adr/{NEW}",
    }
    heads = project.heads()
    assert numbers(project.bring(folder), "decision") == {"unchanged": 4}
    assert project.heads() == heads


def test_a_renamed_adr_goes_on_changing(project: Imports, folder: Path) -> None:
    """Edited, renamed again and back again, it stays one decision."""
    path = folder / COOKIES
    for name in ("0005-cookies.md", "0006-cookies.md", COOKIES, "0005-cookies.md"):
        path = path.rename(folder / name)
        assert numbers(project.bring(folder), "decision") == {"changed": 1, "unchanged": 3}
        assert held(project)["Use signed cookies"] == f"docs/adr/{name}"
        assert numbers(project.bring(folder), "decision") == {"unchanged": 4}
    path.write_text(MADR_FRONT.replace("it is simple", "it is simple and old"))
    assert numbers(project.bring(folder), "decision") == {"changed": 1, "unchanged": 3}
    decisions = project.decisions("workspace").values()
    assert [d["status"] for d in decisions if d["summary"] == "Use signed cookies"] == [
        *["superseded"] * 5,
        "accepted",
    ]


def test_a_copy_is_no_renamed_adr(project: Imports, folder: Path) -> None:
    """While the first file is there, the same text elsewhere is another ADR."""
    (folder / "web").mkdir()
    (folder / "web" / COOKIES).write_text(MADR_FRONT)
    assert numbers(project.bring(folder), "decision") == {"added": 1, "unchanged": 4}


def test_what_people_took_back_stays_so_under_another_name(project: Imports, folder: Path) -> None:
    """Neither a renamed file nor one that is renamed back brings a decision back."""
    (folder / COOKIES).rename(folder / "0005-cookies.md")
    project.bring(folder)
    project.workspace.set_status(
        "workspace#d5", "reverted", agent="kim", reason="we use tokens now"
    )
    (folder / "0005-cookies.md").rename(folder / "0006-cookies.md")
    assert numbers(project.bring(folder), "decision") == {"unchanged": 4}
    (folder / "0006-cookies.md").rename(folder / COOKIES)
    assert numbers(project.bring(folder), "decision") == {"unchanged": 4}
    assert "Use signed cookies" not in held(project)


def test_both_ends_of_a_link_are_renamed(project: Imports, folder: Path) -> None:
    """The older one stays superseded, though the names in the texts lead nowhere any more."""
    (folder / OLD).rename(folder / "0001-rows.md")
    (folder / NEW).rename(folder / "0003-redis.md")
    found = project.bring(folder)
    assert found.total("refused") == 0
    assert numbers(found, "decision") == {"changed": 1, "unchanged": 3}
    assert held(project)["Keep sessions in Redis"] == "docs/adr/0003-redis.md"
    assert "Keep sessions in the database" not in held(project)
    assert numbers(project.bring(folder), "decision") == {"unchanged": 4}


@pytest.mark.parametrize("name", [OLD, NEW, COOKIES])
def test_one_file_after_the_whole_folder(project: Imports, folder: Path, name: str) -> None:
    """The ADRs that it names are known, so nothing is refused and nothing changes."""
    heads = project.heads()
    found = project.bring(folder / name)
    assert (numbers(found, "decision"), found.total("refused")) == ({"unchanged": 1}, 0)
    assert project.heads() == heads


def test_one_file_doesnt_tell_what_others_let_go(project: Imports, folder: Path) -> None:
    """An ADR that only its successor calls superseded isn't brought back when it comes alone."""
    (folder / OLD).write_text(
        (folder / OLD).read_text().replace("Superceded by [3. Keep", "Accepted, see [3. Keep")
    )
    project.bring(folder)
    assert numbers(project.bring(folder / OLD), "decision") == {"unchanged": 1}
    assert "Keep sessions in the database" not in held(project)


def test_one_changed_file_after_the_whole_folder(project: Imports, folder: Path) -> None:
    """It replaces its own decision and still supersedes what it superseded."""
    (folder / NEW).write_text(NYGARD_NEW.replace("time to live", "time to live of a day"))
    assert numbers(project.bring(folder / NEW), "decision") == {"changed": 1}
    new = project.decisions("workspace")["workspace#d5"]
    assert set(new["supersedes"]) == {"workspace#d1", "workspace#d2"}
    assert numbers(project.bring(folder), "decision") == {"unchanged": 4}


def test_a_reference_to_a_file_that_is_gone(project: Imports, folder: Path) -> None:
    """What was taken in before can be meant, whether its file is still there or not."""
    (folder / NEW).unlink()
    found = project.bring(folder)
    assert (numbers(found, "decision"), found.total("refused")) == ({"unchanged": 3}, 0)


def test_a_reference_that_leads_nowhere_is_still_told(project: Imports, folder: Path) -> None:
    """One file that names an ADR which never came is taken, and the link is refused."""
    text = NYGARD_NEW.replace("0001-keep-sessions-in-the-database", "0099-nowhere")
    (folder / "0004-more.md").write_text(text)
    found = project.bring(folder / "0004-more.md")
    assert numbers(found, "link") == {"refused": 1}


@pytest.mark.promise("S3-48")
def test_a_brief_has_the_adr_that_governs_the_files_of_its_task(
    project: Imports,
) -> None:
    """One of many, by the file or folder that its text names; an edit of that file is no news."""
    folder = project.root / "docs" / "adr"
    (project.root / "src" / "auth").mkdir(parents=True)
    code = project.root / "src" / "auth" / "jwt.py"
    code.write_text("KEY = 1\n")
    folder.mkdir(parents=True)
    for number in range(30):
        place = {3: "`src/auth/jwt.py`", 5: "src/auth/"}.get(number, f"src/other{number}.py")
        (folder / f"{number:04}-variant.md").write_text(
            f"# {number}. Take variant {number}\n\n## Status\n\nAccepted\n\n## Context\n\n"
            f"The part in {place} had several.\n\n## Decision\n\nWe take the least work.\n"
        )
    assert numbers(project.bring(folder), "decision") == {"added": 30}
    assert not project.workspace.tasks()
    project.workspace.create_task("T-1", title="Rotate", agent="coder")
    handoff = {"task": "T-1", "from_agent": "coder", "to_agent": "qa", "outcome": "completed"}
    handoff |= {"summary": "x", "files_created": [{"path": "src/auth/jwt.py", "purpose": "keys"}]}
    project.workspace.hand_off(handoff)
    code.write_text("KEY = 2\n")
    brief = project.workspace.brief("T-1", agent="qa", budget=250).text
    assert ("Take variant 3" in brief, "Take variant 5" in brief) == (True, True)
    assert 'left out: ws.state("T-1"); for all work: ws.state("workspace")' in brief
    assert not [line for line in brief.splitlines() if "variant" in line and "STALE" in line]
    assert numbers(project.bring(folder), "decision") == {"unchanged": 30}

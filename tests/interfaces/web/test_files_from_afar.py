"""Files of the machine that asks: profiles, bundles, backups, the repository. The server has none
of them, and a workspace of its own elsewhere.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown.errors import InvalidInput, NotFound
from passdown.testing import full_handoff
from passdown.web.server_state import Limits
from passdown.workspace.tokens import Tokens, own_token_file
from tests.folders import new_folder
from tests.interfaces.web.conftest import QUICK
from tests.serving import EVERY_RIGHT, served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from passdown import Workspace
    from tests.serving import Served

pytestmark = pytest.mark.promise("W-11")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the machine that asks: a repository with one commit."""
    folder = tmp_path / "desk"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "work")
    (folder / "here.py").write_text("A = 1\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "begin")
    monkeypatch.chdir(folder)
    return folder


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def afar(server: Served, desk: Path) -> Iterator[Workspace]:
    with server.opened("kim", *EVERY_RIGHT, is_person=True) as remote:
        yield remote


def test_a_profile_here_is_the_one_that_is_told(afar: Workspace, desk: Path) -> None:
    """From the usual folder or from one that is named; the server's is taken where none is here."""
    assert [w.code for w in afar.switch("T-1", to_agent="coder").warnings] == ["no_profile"]
    (desk / "agents").mkdir()
    (desk / "agents" / "coder.md").write_text("I code here\n")
    (desk / "others").mkdir()
    (desk / "others" / "coder.md").write_text("I code elsewhere\n")
    assert afar.switch("T-1", to_agent="coder").text.startswith("I code here\n")
    assert afar.switch("T-1", to_agent="coder", profiles="others").text.startswith(
        "I code elsewhere\n"
    )
    found = afar.context.prompt("@coder go on", task="T-1", active="planner")
    assert (found.agent, found.text[:11]) == ("coder", "I code here")
    assert found.text.endswith("@coder go on")
    assert (
        afar.context.agents(),
        afar.context.subagent_prompt("coder", "Go").startswith("I code here"),
    ) == (
        ("coder",),
        True,
    )


def test_the_server_s_profile_stands_in(afar: Workspace, server: Served, desk: Path) -> None:
    folder = f"{server.workspace.root}/agents"
    subprocess.run(["mkdir", folder], check=True)
    with open(f"{folder}/tester.md", "w") as file:
        file.write("I test there\n")
    assert afar.switch("T-1", to_agent="tester").text.startswith("I test there\n")
    assert afar.context.prompt("@tester go", task="T-1").agent == "tester"
    assert afar.context.agents() == ("tester",)
    (desk / "none").mkdir()
    without = afar.switch("T-1", to_agent="tester", profiles="none")
    assert [w.code for w in without.warnings] == ["no_profile"]
    with pytest.raises(NotFound, match="has no profile"):
        afar.context.subagent_prompt("nobody", "Go")


def test_a_switch_looks_at_the_repository_here(afar: Workspace, server: Served) -> None:
    """What the handoff named is not in it, though the server has every file."""
    server.workspace.hand_off(full_handoff(gates=[]))
    found = afar.switch("T-1", to_agent="coder", record=False)
    assert found.git is not None
    assert {path for path, _ in found.git.differing} == set(found.files)
    assert "differs_from_git" in [warning.code for warning in found.warnings]
    local = server.workspace.switch("T-1", to_agent="coder", record=False)
    assert local.git is None


def test_a_bundle_goes_out_and_comes_in_with_this_repository(
    afar: Workspace, server: Served, desk: Path, tmp_path: Path
) -> None:
    (desk / "here.py").write_text("A = 2\n")
    bundle, patch = tmp_path / "t1.passdown", tmp_path / "changes.patch"
    assert afar.maintenance.export(str(bundle), "T-1", diff=True) == 1
    with pytest.raises(InvalidInput, match="exists"):
        afar.maintenance.export(str(bundle), "T-1")
    with pytest.raises(NotFound):
        afar.maintenance.export(str(tmp_path / "other"), "T-9")
    with passdown.open(new_folder(tmp_path / "there"), settings=QUICK) as there:
        found = there.maintenance.import_bundle(str(bundle), patch=str(patch))
        assert found.checkout is not None
        stood = (found.checkout.branch, found.checkout.commit)
        assert stood == ("work", git(desk, "rev-parse", "HEAD"))
        assert b"+A = 2" in patch.read_bytes()
        there.decide(task="T-1", agent="coder", summary="On the road", rationale="r")
        there.create_task("T-5", title="New", agent="coder")
        back = tmp_path / "back.passdown"
        there.maintenance.export(str(back))
    first = afar.maintenance.import_bundle(str(back))
    assert first.added == {"task/T-1": 1, "task/T-5": 1}
    assert afar.maintenance.import_bundle(str(back)).added == {}
    assert server.workspace.state("T-1").decisions[-1].summary == "On the road"
    assert server.workspace.verify().ok


def test_a_bundle_that_differs_needs_a_fork_and_one_that_was_edited_is_refused(
    afar: Workspace, server: Served, tmp_path: Path
) -> None:
    with passdown.open(new_folder(tmp_path / "there"), settings=QUICK) as there:
        there.create_task("T-1", title="Another", agent="coder")
        there.maintenance.export(str(tmp_path / "b"))
    with pytest.raises(InvalidInput, match="diverged"):
        afar.maintenance.import_bundle(str(tmp_path / "b"))
    assert afar.maintenance.import_bundle(str(tmp_path / "b"), fork="kim").forked == {
        "task/T-1": "task/T-1.kim"
    }
    (tmp_path / "c").write_bytes((tmp_path / "b").read_bytes()[:-30])
    with pytest.raises(InvalidInput, match="not a bundle"):
        afar.maintenance.import_bundle(str(tmp_path / "c"))
    assert [task.task for task in server.workspace.tasks()] == ["T-1", "T-1.kim"]


def test_a_bundle_that_is_too_large_for_the_server_says_what_to_do(
    ws: Workspace, desk: Path, tmp_path: Path
) -> None:
    ws.maintenance.export(str(tmp_path / "b"))
    with (
        served(ws, Limits(body_bytes=500)) as server,
        server.opened("kim", "admin", is_person=True) as remote,
        pytest.raises(InvalidInput, match="too_large") as caught,
    ):
        remote.maintenance.import_bundle(str(tmp_path / "b"))
    assert "--max-body" in caught.value.next_step


def test_a_backup_arrives_whole_and_verified(
    afar: Workspace, server: Served, tmp_path: Path
) -> None:
    told: list[tuple[int, int]] = []
    target = tmp_path / "copy" / ".passdown" / "ledger.db"
    target.parent.mkdir(parents=True)
    found = afar.maintenance.backup(str(target), lambda done, total: told.append((done, total)))
    assert (found.ok, found.records) == (True, server.workspace.verify().records)
    assert told[-1] == (target.stat().st_size,) * 2
    assert target.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in target.parent.iterdir()] == ["ledger.db"]
    with passdown.open(str(target.parent.parent), settings=QUICK) as copy:
        assert copy.maintenance.heads().heads == afar.maintenance.heads().heads
    with pytest.raises(InvalidInput, match="exists"):
        afar.maintenance.backup(str(target))


def test_heads_that_were_saved_show_what_is_gone(afar: Workspace, server: Served) -> None:
    saved = afar.maintenance.heads()
    assert afar.verify(saved).ok
    saved.heads["task/T-7"] = [1, "sha256:" + "0" * 64]
    assert [finding.code for finding in afar.verify(saved).findings]
    odd: Any = "no heads"
    with pytest.raises(InvalidInput, match="invalid_heads"):
        afar.verify(odd)


@pytest.mark.parametrize("told", ["", '{"seq": -7, "digests": {}}', '{"seq": 1e30, "digests": {}}'])
def test_the_knowledge_file_here_is_brought_together_with_the_graph_there(
    afar: Workspace, server: Served, desk: Path, monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    """Either may change; what the file said last time is remembered out of the project's way."""
    cache = desk.parent / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    node = {"id": "Redis", "type": "component", "summary": "Keeps sessions"}
    server.workspace.knowledge.add([node], agent="ana")
    assert afar.knowledge.sync(agent="kim").nodes == 1
    file = desk / "knowledge.dot"
    file.write_text(file.read_text().replace("Keeps sessions", "Keeps tokens"))
    assert afar.knowledge.sync(agent="kim").taken == ("Redis",)
    assert (
        server.workspace.knowledge.graph(around=["Redis"], depth=0).nodes[0].summary
        == "Keeps tokens"
    )
    assert not (desk / ".passdown").exists()
    (remembered,) = cache.glob("passdown/knowledge/*/*.base")
    remembered.write_text(told)
    assert not afar.knowledge.sync(agent="kim").is_changed


@pytest.mark.promise("W-12")
def test_the_owner_s_token_of_an_earlier_release_is_made_anew(
    ws: Workspace, tmp_path: Path
) -> None:
    """It lacks the right to keep the store; a narrower one that somebody chose stays."""
    tokens = Tokens(ws)
    made: dict[str, str] = {}
    for label in ("passdown serve", "mine"):
        old = tokens.new("kim", ("read", "approve"), by="kim", is_person=True, label=label)
        path = tmp_path / f"{label.replace(' ', '-')}.token"
        path.touch(0o600)
        path.write_text(old.token + "\n")
        own_token_file(tokens, str(path), "kim")
        made[label] = "kept" if path.read_text().strip() == old.token else "made anew"
        tokens.all()
        holder = tokens.holder(path.read_text().strip())
        assert holder is not None
        assert holder.may("admin") is (label == "passdown serve")
    assert made == {"passdown serve": "made anew", "mine": "kept"}


@pytest.mark.promise("W-9")
def test_a_token_that_its_file_lost_is_revoked(ws: Workspace, tmp_path: Path) -> None:
    """Replaced or deleted with the file; the tokens of other files and other people stay."""
    tokens = Tokens(ws)
    own, other = tmp_path / "serve.token", tmp_path / "other.token"
    mine = tokens.new("kim", ("read",), by="kim", is_person=True, label="mine")
    old = tokens.new("kim", ("read", "approve"), by="kim", is_person=True, label="passdown serve")
    own.touch(0o600)
    own.write_text(old.token + "\n")
    made: list[str] = []
    for path in (own, own, other):
        own_token_file(tokens, str(path), "kim")
        made.append(path.read_text().strip())
    own.unlink()
    own_token_file(tokens, str(own), "kim")
    made.append(own.read_text().strip())
    tokens.all()
    assert made[0] == made[1]
    assert len(set(made)) == 3
    live = [tokens.holder(token) is not None for token in (old.token, *made[1:], mine.token)]
    assert live == [False, False, True, True, True]

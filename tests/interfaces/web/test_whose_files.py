"""Files that handoffs and decisions name: looked at where the work is done, by whoever asks. The
server is a process in a folder of its own that has none of them.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import passdown
from passdown.errors import GateRefused, InvalidInput
from tests.folders import new_folder
from tests.interfaces.web.asking import ask
from tests.interfaces.web.test_process import PROGRAM, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from passdown import Workspace
    from tests.interfaces.web.asking import Reply

pytestmark = pytest.mark.promise("W-15")

SOURCE = b"def new():\n    return 1\n"
SHA256 = hashlib.sha256(SOURCE).hexdigest()


class There(NamedTuple):
    """A server in a folder without the project's files, and the desk where they are."""

    folder: Path
    desk: Path
    port: int
    token: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def post(self, path: str, body: dict[str, Any]) -> Reply:
        return ask(self.port, "POST", path, token=self.token, body=body)


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[There]:
    folder, desk = tmp_path / "server", tmp_path / "desk"
    folder.mkdir()
    (desk / "src").mkdir(parents=True)
    (desk / "src" / "new.py").write_bytes(SOURCE)
    with passdown.open(str(folder)) as workspace:
        workspace.create_task("T-1", title="Login", agent="kim")
    monkeypatch.chdir(desk)
    with running(folder) as server:
        token = (folder / ".passdown" / "serve.token").read_text("ascii").strip()
        yield There(folder, desk, server.port, token)


@pytest.fixture
def afar(there: There) -> Iterator[Workspace]:
    with passdown.open(there.url, token=there.token) as remote:
        yield remote


def handoff(*paths: str, **more: Any) -> dict[str, Any]:
    files = [{"path": path, "purpose": "what was asked for"} for path in paths]
    return {
        "task": "T-1",
        "from_agent": "kim",
        "to_agent": "tester",
        "phase": "implementing",
        "outcome": "completed",
        "summary": "Made it",
        "files_created": files,
        **more,
    }


def test_a_handoff_bears_the_hashes_of_the_files_of_who_asks(
    there: There, afar: Workspace, tmp_path: Path
) -> None:
    """The same record as beside a store that has them, and the same comparison afterwards."""
    decided = {"summary": "One module", "rationale": "small", "paths": ["src/used.py"]}
    (there.desk / "src" / "used.py").write_bytes(b"1\n")
    read = [{"file": "src/used.py", "reason": "it is used"}]
    given = handoff("src/new.py", decisions=[decided], dependencies_for_next=read)
    assert afar.check_handoff(given).ok
    afar.hand_off(given)
    with passdown.open(str(there.folder)) as beside:
        state = beside.files.state_document("T-1")
        (artifact,) = state["artifacts"]
        assert artifact["sha256"].removeprefix("sha256:") == SHA256
        assert artifact["size_bytes"] == len(SOURCE)
        # The server's folder never had the files, so it has nothing to say about them.
        assert "is gone" not in beside.brief("T-1", agent="tester", record=False).text
        assert not any(found.stale for found in beside.recall("module", by_words=True))
        bundle = str(tmp_path / "b.passdown")
        beside.maintenance.export(bundle)
    with passdown.open(new_folder(there.desk / "copy")) as copy:
        assert copy.maintenance.import_bundle(bundle).added == {"task/T-1": 2}
        assert copy.verify().ok
    assert [artifact.now for artifact in afar.artifacts("T-1")] == ["same"]
    (there.desk / "src" / "new.py").write_bytes(b"other")
    assert [artifact.now for artifact in afar.artifacts("T-1")] == ["changed"]
    (there.desk / "src" / "new.py").unlink()
    assert [artifact.now for artifact in afar.artifacts("T-1")] == ["missing"]


def test_a_brief_from_afar_says_whose_files_it_went_by(there: There, afar: Workspace) -> None:
    """Stale is what changed in the server's checkout; a warning says so where it bears."""
    (there.folder / "src").mkdir(exist_ok=True)
    (there.folder / "src" / "new.py").write_bytes(SOURCE)
    afar.hand_off(handoff("src/new.py"))
    before = afar.brief("T-1", agent="tester", record=False)
    assert ("STALE" in before.text, before.warnings) == (False, ())
    (there.folder / "src" / "new.py").write_bytes(b"other")
    time.sleep(1.1)  # a brief that was made a moment ago is given again
    after = afar.brief("T-1", agent="tester", record=False)
    assert "STALE" in after.text
    assert [warning.code for warning in after.warnings] == ["files_of_server"]
    assert [artifact.now for artifact in afar.artifacts("T-1")] == ["same"]


@pytest.mark.parametrize("path", ["src/missing.py", "src", "out.py", ".passdown/ledger.db"])
def test_what_is_refused_beside_the_store_is_refused_from_afar(
    there: There, afar: Workspace, path: str
) -> None:
    """A file that is missing, a folder, a link out of the project, a file of Passdown's own."""
    (there.folder / "src").mkdir()
    (there.folder / "src" / "missing.py").write_text("only the server has this")
    outside = there.desk.parent / "outside.py"
    outside.write_text("secret")
    (there.desk / "out.py").symlink_to(outside)
    given = handoff("src/new.py", path)
    with passdown.open(str(there.desk)) as local:
        local.create_task("T-1", title="Login", agent="kim")
        with pytest.raises((InvalidInput, GateRefused)) as ours:
            local.hand_off(given)
        checked = local.check_handoff(given)
    with pytest.raises(type(ours.value)) as theirs:
        afar.hand_off(given)
    assert theirs.value.message == ours.value.message
    assert theirs.value.problems == ours.value.problems
    assert afar.check_handoff(given).problems == checked.problems
    assert afar.task("T-1").version == 1


def test_decisions_and_patterns_cite_the_files_of_who_asks(there: There, afar: Workspace) -> None:
    words: dict[str, Any] = {"summary": "One module", "rationale": "small"}
    afar.decide(task="T-1", agent="kim", **words, paths=["src/new.py"], artifacts=["no file"])
    where = {"pattern": "Guard first", "location": "src/new.py:1"}
    afar.note("pattern", task="T-1", agent="kim", **where)
    stored = passdown.Decision(agent="kim", summary="Two", rationale="r", paths=("./src/new.py",))
    afar.decisions.store(stored, "T-1")
    (there.folder / "src").mkdir()
    (there.folder / "src" / "new.py").write_bytes(SOURCE)
    with passdown.open(str(there.folder)) as beside:
        found = beside.recall("module guard two", by_words=True)
        assert len(found) == 3
        assert not any(one.stale for one in found)
        (there.folder / "src" / "new.py").write_bytes(b"changed")
        assert all(one.stale for one in beside.recall("module guard two", by_words=True))


def test_without_a_word_of_files_the_server_looks_at_its_own_disk(there: There) -> None:
    for path in ("/api/tasks/T-1/handoffs", "/api/handoffs"):
        body = handoff("src/new.py")
        reply = there.post(path, body if "T-1" in path else {"handoff": body})
        (problem,) = reply.document["problems"]
        assert problem["message"] == "src/new.py is not on the server's disk"
        assert "artifacts_on_disk" in problem["fix"]
    (there.folder / "src").mkdir()
    (there.folder / "src" / "new.py").write_bytes(SOURCE)
    assert there.post("/api/handoffs", {"handoff": handoff("src/new.py")}).status == 201


GOOD = {"path": "src/new.py", "sha256": SHA256, "size_bytes": 3}


@pytest.mark.parametrize(
    ("told", "where"),
    [
        ([{**GOOD, "sha256": "0" * 63}], "files_seen[0].sha256"),
        ([{**GOOD, "size_bytes": -1}], "files_seen[0].size_bytes"),
        ([{**GOOD, "odd": 1}], "files_seen[0].odd"),
        ([{"sha256": SHA256}], "files_seen[0].path"),
        ({"src/new.py": SHA256}, "files_seen"),
        ([GOOD, {**GOOD, "path": "src/other.py"}], "files_seen"),
        ([GOOD, {**GOOD, "path": "../../etc/passwd"}], "files_seen"),
    ],
)
def test_what_is_told_of_files_is_checked(there: There, told: Any, where: str) -> None:
    """Its form, and that the handoff or the decision names them."""
    body = {"handoff": handoff("src/new.py"), "files_seen": told}
    decision = {"task": "T-1", "summary": "s", "rationale": "r", "paths": ["src/new.py"]}
    for reply in (
        there.post("/api/handoffs", body),
        there.post("/api/decisions", {**decision, "files_seen": told}),
    ):
        assert reply.status == 422
        assert [problem["path"] for problem in reply.document["problems"]] == [where]
    dry = there.post("/api/handoffs/check", body)
    assert dry.status == 422 or where in {p["path"] for p in dry.document["problems"]}


def test_a_file_of_the_workspace_itself_is_no_artifact_whatever_is_told(there: There) -> None:
    path = ".passdown/ledger.db"
    told = [{**GOOD, "path": path}]
    reply = there.post("/api/handoffs", {"handoff": handoff(path), "files_seen": told})
    assert [problem["code"] for problem in reply.document["problems"]] == ["own_file"]


def test_the_command_line_hands_off_from_a_folder_that_has_the_files(there: There) -> None:
    (there.desk / "t1.yaml").write_text(
        "task: T-1\nfrom_agent: kim\nto_agent: tester\nphase: implementing\n"
        "outcome: completed\nsummary: Made it\n"
        "files_created: [{path: src/new.py, purpose: asked for}]\n"
    )
    environment = {**os.environ, "PASSDOWN_TOKEN": there.token}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*PROGRAM, *words, "--store", there.url],
            cwd=there.desk,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )

    (there.desk / "src" / "new.py").rename(there.desk / "aside.py")
    refused = run("handoff", "t1.yaml")
    assert refused.returncode != 0
    assert "src/new.py is not on disk" in refused.stderr
    (there.desk / "aside.py").rename(there.desk / "src" / "new.py")
    assert run("handoff", "t1.yaml", "--dry-run").returncode == 0
    done = run("handoff", "t1.yaml")
    assert done.returncode == 0, done.stderr
    assert SHA256 in run("state", "T-1", "--json").stdout

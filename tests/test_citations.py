"""Items that cite files carry their hashes, so that a brief can say what has changed since."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import passdown
from passdown.ledger import project_files
from tests.folders import new_folder

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_decision_carries_the_hashes_of_the_files_it_cites(tmp_path: Path) -> None:
    """Also where no handoff has named the file; a change on disk marks the decision as stale."""
    file = tmp_path / "auth.py"
    file.write_text("one\n")
    with passdown.open(str(tmp_path)) as ws:
        ws.create_task("T-1", title="Login", agent="planner")
        ws.decide(
            task="T-1", agent="planner", summary="Use JWT", rationale="stateless", paths=["auth.py"]
        )
        ws.note("pattern", task="T-1", agent="planner", pattern="Errors", location="auth.py:1-2")
        assert "STALE" not in ws.brief("T-1", agent="coder").text
        file.write_text("two\n")
        text = ws.brief("T-1", agent="coder").text
        assert text.count("STALE: auth.py has changed") == 2
        file.unlink()
        assert "STALE: auth.py is gone" in ws.brief("T-1", agent="coder").text
        ws.hand_off({"task": "T-1", "from_agent": "planner", "outcome": "completed"})
        assert ws.verify().ok


def test_a_change_is_seen_whatever_size_and_time_a_file_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that nobody touched is read once; one of the same size and date isn't taken for it."""
    monkeypatch.setattr(project_files, "_SETTLED_NS", -1)
    file = tmp_path / "auth.py"
    file.write_text("one\n")
    first = file.stat()
    with passdown.open(str(tmp_path)) as ws:
        ws.create_task("T-1", title="Login", agent="planner")
        said: dict[str, Any] = {"summary": "Use JWT", "rationale": "stateless"}
        ws.decide(task="T-1", agent="planner", paths=["auth.py"], **said)
        reads: list[str] = []
        inspect: Any = vars(project_files)["_inspect"]

        def counted(*given: Any) -> Any:
            reads.append(given[1])
            return inspect(*given)

        monkeypatch.setattr(project_files, "_inspect", counted)
        for _ in range(3):
            assert "STALE" not in ws.brief("T-1", agent="coder").text
        assert len(reads) <= 1
        while file.stat().st_ctime_ns == first.st_ctime_ns:  # until the clock has moved on
            file.write_text("two\n")
            os.utime(file, ns=(first.st_atime_ns, first.st_mtime_ns))
        assert "STALE: auth.py has changed" in ws.brief("T-1", agent="coder").text


def test_hashes_of_cited_files_travel_in_bundles(tmp_path: Path) -> None:
    """A bundle with them is admitted, and a retry after the file changed is the same record."""
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "a.py").write_text("one\n")
    decision = {"summary": "Use JWT", "rationale": "stateless", "paths": ["a.py"]}
    handoff = {
        "task": "T-1",
        "from_agent": "planner",
        "outcome": "completed",
        "decisions": [decision],
        "dependencies_for_next": [{"file": "a.py", "reason": "the entry"}],
    }
    with passdown.open(new_folder(tmp_path / "one")) as ws:
        ws.create_task("T-1", title="Login", agent="planner")
        first = ws.hand_off(handoff, key="k-1")
        (tmp_path / "one" / "a.py").write_text("two\n")
        assert ws.hand_off(handoff, key="k-1").version == first.version
        ws.maintenance.export(str(tmp_path / "all.zip"))
    with passdown.open(new_folder(tmp_path / "two")) as ws:
        ws.maintenance.import_bundle(str(tmp_path / "all.zip"))
        assert ws.verify().ok
        assert "STALE: a.py is gone" in ws.brief("T-1", agent="coder").text

"""Preconditions and evidence: recorded, shown, checked on request only."""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown import Precondition, Settings, aio
from passdown.cli.main import main
from passdown.errors import InvalidInput, NotAllowed
from passdown.testing import fixed_clock
from tests.serving import served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from passdown import Workspace

QUICK = Settings(durability="normal", embedder="none")


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    (tmp_path / "a.toml").write_text("port = 1\n", "utf-8")
    with passdown.open(str(tmp_path), settings=QUICK, clock=fixed_clock()) as workspace:
        workspace.create_task("T-1", title="Deploy", agent="ann")
        yield workspace


def hand_off(ws: Workspace, sender: str, *preconditions: Any, **fields: Any) -> Any:
    given = {"task": "T-1", "from_agent": sender, "outcome": "completed", "summary": "done"}
    return ws.hand_off({**given, "preconditions": list(preconditions), **fields})


def text_of(ws: Workspace, budget: int = 500) -> str:
    return ws.brief("T-1", agent="bob", budget=budget).text


@pytest.mark.promise("S3-45")
def test_what_is_to_be_checked_is_shown_and_nothing_runs_by_itself(
    ws: Workspace, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    hand_off(ws, "ann", f"touch {made}", {"file": "a.toml", "note": "read at start"})
    text = text_of(ws)
    assert f"## Check first\n- c1 run: touch {made}\n" in text
    assert "- c2 file a.toml is as it was" in text
    ws.state("T-1")
    ws.switch("T-1", to_agent="bob")
    assert [each.status for each in ws.context.check_preconditions("T-1", agent="bob")] == [
        "open",
        "passed",
    ]
    assert not made.exists()


@pytest.mark.promise("S3-46")
def test_a_result_is_recorded_with_who_checked_and_is_in_the_next_brief(ws: Workspace) -> None:
    sha256 = hashlib.sha256(b"port = 2\n").hexdigest()
    hand_off(ws, "ann", "true", "sh -c 'echo no; exit 3'", {"file": "a.toml", "sha256": sha256})
    asked: list[str] = []
    checked = ws.context.check_preconditions("T-1", agent="bob", run=lambda c: not asked.append(c))
    assert asked == ["true", "sh -c 'echo no; exit 3'"]
    assert [(each.status, each.result) for each in checked] == [
        ("passed", "exit 0"),
        ("failed", "exit 3: no"),
        (
            "failed",
            f"is sha256 {hashlib.sha256(b'port = 1' + bytes([10])).hexdigest()[:12]}, "
            f"not {sha256[:12]}",
        ),
    ]
    text = text_of(ws)
    assert "- c1 (passed by bob) run: true\n" in text
    assert "- c2 (failed by bob) run: sh -c 'echo no; exit 3'\n" in text
    shown = ws.show("T-1#c2").to_dict()
    assert (shown["status"], shown["status_note"]) == ("failed", "exit 3: no")
    assert ws.verify().findings == ()
    assert not ws.maintenance.reindex().differing
    said = hand_off(ws, "bob", "true").warnings
    assert [problem.message.partition(",")[0] for problem in said if problem.code == "closed"] == [
        "T-1#c2 has failed",
        "T-1#c3 has failed",
    ]
    text = text_of(ws)
    assert "- c2 (failed by bob) run: sh -c 'echo no; exit 3'\n" in text
    assert "- c1 (passed" not in text
    hand_off(ws, "ann")
    assert "Check first" not in text_of(ws)
    assert [each["status"] for each in ws.state("T-1").document["preconditions"]] == [
        *("passed", "failed", "failed", "replaced")
    ]


def test_the_next_handoff_says_what_is_to_be_checked_then(ws: Workspace) -> None:
    hand_off(ws, "ann", "true")
    hand_off(ws, "bob", "false")
    assert [each["status"] for each in ws.state("T-1").document["preconditions"]] == [
        *("replaced", "open")
    ]
    assert [each.command for each in ws.state("T-1").preconditions] == ["false"]
    assert "run: true" not in text_of(ws)


def test_a_question_to_a_person_is_a_blocking_question(ws: Workspace) -> None:
    hand_off(ws, "ann", Precondition(question="May we deploy?", to="kim", note="code freeze"))
    assert "## Blocking questions\n- q1 May we deploy? | To: kim | code freeze\n" in text_of(ws)
    assert [each.address for each in ws.recall("deploy", kinds=["question"])] == ["T-1#q1"]
    ws.set_status("T-1#q1", "answered", agent="kim", reason="yes, after six")
    assert "- q1 May we deploy? | Answer: yes, after six\n" in text_of(ws)
    assert ws.context.check_preconditions("T-1", agent="bob") == []


def test_a_faulty_precondition_is_refused_with_all_problems(ws: Workspace) -> None:
    with pytest.raises(InvalidInput) as refused:
        hand_off(
            ws, "ann", {"note": "x"}, {"command": "a", "file": "b"}, {"command": "a", "to": "k"}
        )
    assert [problem.path for problem in refused.value.problems if problem.level == "error"] == [
        *("preconditions[0]", "preconditions[1]", "preconditions[2].to")
    ]


def test_a_command_has_no_shell_unless_said_and_an_end(ws: Workspace) -> None:
    loop = "sh -c 'while :; do :; done'"
    hand_off(ws, "ann", "echo a; false", {"command": "true && echo b", "shell": True}, loop, "'")
    found = ws.context.check_preconditions("T-1", agent="bob", run=lambda _: True, timeout_s=1)
    assert [each.status for each in found] == ["passed", "passed", "failed", "failed"]
    assert [found[0].result, found[1].result] == ["exit 0: a; false", "exit 0: b"]
    assert found[1].text == "run: /bin/sh -c 'true && echo b'"
    assert found[2].result == "took longer than 1 s"
    with pytest.raises(InvalidInput):
        ws.context.check_preconditions("T-1", agent="bob", timeout_s=0)


@pytest.mark.promise("S3-47")
@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({}, "claimed"),
        ({"evidence": ["commit 3f2a1c"]}, "proven"),
        ({"evidence": "214 tests passed"}, "proven"),
        ({"gates": [{"name": "tests", "result": "passed"}]}, "proven"),
        ({"evidence": ["x"], "outcome": "failed"}, ""),
    ],
)
def test_a_completion_is_proven_or_claimed(ws: Workspace, fields: Any, word: str) -> None:
    if fields.get("outcome"):
        fields["blockers"] = [{"blocker": "b", "suggested_resolution": "s"}]
    hand_off(ws, "ann", to_agent="bob", **fields)
    text = text_of(ws)
    assert (f"; {word} done by ann." if word else "; failed by ann.") in text
    assert ("proven" in text) == (word == "proven")
    data = json.loads(ws.brief("T-1", agent="bob", budget=500, format="json").text)
    assert data.get("completion", "") == word


def test_evidence_is_told_and_kept(ws: Workspace) -> None:
    hand_off(ws, "ann", evidence=["commit 3f2a1c", "214 tests passed"], to_agent="bob")
    assert "| Evidence: commit 3f2a1c; 214 tests passed\n" in text_of(ws)
    hand_off(ws, "bob", to_agent="ann")
    assert "; claimed done by bob." in text_of(ws)
    assert "- h1 (proven) done | Evidence: commit 3f2a1c; 214 tests passed\n" in text_of(ws)
    hand_off(ws, "ann", phase="completed")
    assert "Completed, claimed and held by ann." in text_of(ws)
    assert ws.show("T-1#h1").to_dict()["evidence"] == ["commit 3f2a1c", "214 tests passed"]


def test_every_interface_has_preconditions(
    ws: Workspace,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    flags = ("--precondition", "echo hi", "--evidence", "commit 1")
    assert (
        main(["handoff", "--task", "T-1", "--from", "ann", "--outcome", "completed", *flags]) == 0
    )
    capsys.readouterr()
    assert main(["check", "T-1", "--agent", "bob"]) == 1
    said = capsys.readouterr()
    assert "a handoff wants this command to run here: echo hi" in said.err
    assert "not run" in said.out
    assert main(["check", "T-1", "--agent", "bob", "--run", "--timeout", "60"]) == 0
    assert "runs: echo hi" in capsys.readouterr().err
    assert "- c1 (passed by bob) run: echo hi" in text_of(ws)

    async def awaited() -> list[Any]:
        async with aio.open(str(tmp_path), settings=QUICK) as there:
            await there.hand_off(
                {
                    "task": "T-1",
                    "from_agent": "ann",
                    "outcome": "completed",
                    "preconditions": ["true"],
                }
            )
            return await there.context.check_preconditions("T-1", agent="cleo", run=lambda _: True)

    assert [each.status for each in asyncio.run(awaited())] == ["passed"]
    with served(ws) as server, server.opened("bob", "read", "write") as client:
        hand_off(client, "bob", {"file": "a.toml"}, "true")
        found = client.context.check_preconditions("T-1", agent="bob", run=lambda _: True)
        assert [each.status for each in found] == ["passed", "passed"]
        assert "(passed by bob) file a.toml" in client.brief("T-1", agent="ann", budget=500).text


def test_a_command_is_shown_as_it_runs(
    ws: Workspace,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With its shell and its line breaks: in the question, as it runs, in briefs."""
    monkeypatch.chdir(tmp_path)
    hand_off(ws, "ann", {"command": "echo a\necho b", "shell": True})
    shown = r"/bin/sh -c 'echo a\necho b'"
    assert f"- c1 run: {shown}\n" in text_of(ws)
    assert main(["check", "T-1", "--agent", "bob"]) == 1
    assert f"run here: {shown}\n" in capsys.readouterr().err
    assert main(["check", "T-1", "--agent", "bob", "--run", "--timeout", "60"]) == 0
    assert f"runs: {shown}\n" in capsys.readouterr().err


def test_a_token_that_cannot_record_the_results_runs_nothing(ws: Workspace, tmp_path: Path) -> None:
    made = tmp_path / "made"
    hand_off(ws, "ann", f"touch {made}")
    with (
        served(ws) as server,
        server.opened("eve", "read") as client,
        pytest.raises(NotAllowed) as refused,
    ):
        client.context.check_preconditions("T-1", agent="eve", run=lambda _: True)
    assert "nothing was done" in str(refused.value)
    assert not made.exists()


def test_a_precondition_that_is_stated_again_is_no_closed_item(ws: Workspace) -> None:
    hand_off(ws, "ann", "true")
    assert [w.code for w in hand_off(ws, "bob", "true").warnings if w.code == "closed"] == []


def test_preconditions_travel_in_bundles(ws: Workspace, tmp_path: Path) -> None:
    hand_off(ws, "ann", "true", {"file": "a.toml"}, {"question": "Ready?"}, evidence="commit 1")
    ws.context.check_preconditions("T-1", agent="bob", run=lambda _: True)
    ws.maintenance.export(str(tmp_path / "t.bundle"), "T-1")
    with passdown.open(str(tmp_path / "other"), settings=QUICK) as other:
        other.maintenance.import_bundle(str(tmp_path / "t.bundle"))
        for name in ("preconditions", "questions"):
            assert other.state("T-1").document[name] == ws.state("T-1").document[name]
        assert other.verify().findings == ()

"""A prepared handoff: its command shows what it would change; only hand_off records it."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

import pytest

import passdown
from passdown import HandoffContext, Settings, apply_delta
from passdown.errors import Conflict, GateRefused, InvalidInput
from passdown.testing import fixed_clock, full_handoff, write_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from passdown import HandoffCommand, Workspace


@pytest.fixture
def ws(tmp_path: Path, each_store: None) -> Iterator[Workspace]:
    write_files(str(tmp_path))
    quick = Settings(durability="normal", embedder="none")
    with passdown.open(str(tmp_path), settings=quick, clock=fixed_clock()) as workspace:
        workspace.create_task("T-1", title="Login", agent="planner")
        yield workspace


def prepare(ws: Workspace, **changes: Any) -> HandoffCommand:
    given = full_handoff(blockers=[], outcome="completed", **changes)
    return ws.prepare_handoff(**given)


def timeless(value: Any) -> Any:
    """A delta without what only recording gives: times, digest, how long it took."""
    if isinstance(value, dict):
        kept = cast("dict[str, Any]", value).items()
        return {
            n: timeless(v)
            for n, v in kept
            if n not in ("at", "digest", "metrics") and n[-3:] != "_at"
        }
    return (
        [timeless(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value
    )


@pytest.mark.promise("S1-22", "S1-24")
def test_preparing_shows_the_changes_and_records_nothing(ws: Workspace) -> None:
    before, heads = ws.state("T-1").document, ws.maintenance.heads().heads
    command = prepare(ws)
    assert (command.task, command.to_agent, command.phase) == ("T-1", "coder", "implementing")
    assert (command.version, command.digest) == (2, "")
    assert ws.maintenance.heads().heads == heads
    assert ws.state("T-1").document == before
    assert ws.inbox("coder") == []
    recorded = ws.hand_off(command)
    assert (recorded.version, recorded.prepared, recorded.is_replay) == (2, None, False)
    assert timeless(recorded.state_delta) == timeless(command.state_delta)
    after = ws.state("T-1").document
    assert timeless(apply_delta(before, command.state_delta)) == timeless(after)
    strip = "\nVersion: "
    assert recorded.context_summary.split(strip)[0] == command.context_summary.split(strip)[0]


@pytest.mark.promise("S1-22")
def test_a_prepared_command_travels_as_json_and_is_recorded_once(ws: Workspace) -> None:
    command = prepare(ws)
    sent = json.loads(json.dumps(command.to_dict()))
    first = ws.hand_off(sent)
    again = ws.hand_off(json.dumps(sent))
    assert (again.version, again.digest, again.is_replay) == (2, first.digest, True)
    assert ws.receive_handoff(first).version == 2
    assert ws.receive_handoff(json.loads(json.dumps(first.to_dict()))).version == 2


@pytest.mark.promise("S1-22", "S1-17")
def test_a_task_that_moved_on_refuses_what_was_prepared_before(ws: Workspace) -> None:
    command = prepare(ws)
    ws.decide(task="T-1", agent="planner", summary="Use Redis", rationale="Fast")
    with pytest.raises(Conflict, match="T-1 is at version 2; this write was made from version 1"):
        ws.hand_off(command)
    assert ws.state("T-1").version == 2


@pytest.mark.promise("S1-22")
def test_a_file_that_changed_refuses_what_was_prepared_before(
    ws: Workspace, tmp_path: Path
) -> None:
    command = prepare(ws)
    (tmp_path / "src" / "config.py").write_text("POOL = 99\n")
    with pytest.raises(GateRefused, match=r"src/config\.py has changed since") as caught:
        ws.hand_off(command)
    assert [problem.code for problem in caught.value.problems] == ["changed_file"]
    assert ws.state("T-1").version == 1
    assert ws.hand_off(prepare(ws)).version == 2


def test_preparing_refuses_what_recording_refuses(ws: Workspace) -> None:
    with pytest.raises(InvalidInput, match="phase"):
        ws.prepare_handoff("T-1", "coder", "nowhere")
    with pytest.raises(GateRefused, match=r"gone\.py"):
        ws.prepare_handoff("T-1", "coder", "implementing", artifacts=["gone.py"])
    with pytest.raises(Conflict):
        ws.prepare_handoff("T-1", "coder", "implementing", expect_version=7)


def test_what_is_recorded_or_no_command_is_refused_by_name(ws: Workspace) -> None:
    recorded = ws.hand_off(prepare(ws))
    with pytest.raises(InvalidInput, match="recorded already, as version 2"):
        ws.hand_off(recorded)
    with pytest.raises(InvalidInput, match="prepared and not recorded"):
        ws.receive_handoff(prepare(ws, from_agent="coder", to_agent="tester"))
    for given in ({}, {"task": "T-1"}, {**recorded.to_dict(), "version": "two"}, None, 7, "T-1"):
        with pytest.raises(InvalidInput, match="no command"):
            ws.receive_handoff(cast("Any", given))


def test_a_dry_run_gives_the_same_command(ws: Workspace) -> None:
    given = full_handoff(blockers=[], outcome="completed")
    check = ws.check_handoff(given)
    assert check.command is not None
    assert timeless(check.command.to_dict()["state_delta"]) == timeless(prepare(ws).state_delta)
    assert ws.hand_off(cast("Any", check.to_dict())).version == 2
    assert ws.check_handoff(full_handoff(outcome="maybe")).command is None


@pytest.mark.promise("S1-8")
def test_a_summary_stays_until_another_is_given(ws: Workspace) -> None:
    """In the state, its document and the state file, at past versions and after a rebuild."""
    ws.hand_off(
        task="T-1", from_agent="planner", to_agent="coder", outcome="completed", summary="Half"
    )
    before = ws.state("T-1").document
    command = ws.hand_off(task="T-1", from_agent="coder", to_agent="qa", outcome="completed")
    state = ws.state("T-1")
    assert (state.version, state.context_summary) == (3, "Half")
    assert apply_delta(before, command.state_delta) == state.document
    ws.decide(task="T-1", agent="qa", summary="Use Redis", rationale="Fast")
    assert ws.state("T-1", 3).context_summary == "Half"
    assert ws.files.state_document("T-1")["context_summary"] == "Half"
    ws.hand_off(task="T-1", from_agent="qa", to_agent="pm", outcome="completed", summary="Done")
    assert ws.state("T-1").context_summary == "Done"
    assert ws.verify().ok


def test_a_context_needs_a_source_and_a_time_with_a_zone() -> None:
    with pytest.raises(InvalidInput) as caught:
        HandoffContext(source="", target="b", at=datetime(2026, 1, 9, 10, 0))  # noqa: DTZ001
    assert [(p.path, p.code) for p in caught.value.problems] == [
        ("source", "empty"),
        ("at", "invalid_time"),
    ]


def test_a_prepared_handoff_takes_a_counter(ws: Workspace) -> None:
    """The command's summary is counted by it, and the counter is no field of the handoff."""

    def every_character(text: str) -> int:
        return len(text)

    command = ws.prepare_handoff(
        "T-1", "coder", "implementing", summary="word " * 300, counter=every_character
    )
    assert 0 < len(command.context_summary) <= 500
    assert len(ws.prepare_handoff("T-1", "coder", "implementing").context_summary) > 0
    with pytest.raises(InvalidInput, match="counter"):
        ws.prepare_handoff("T-1", "coder", "implementing", counter="words")

"""The state of a task: every field, as a value and as a document, and the summary made from it."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import jsonschema
import pytest

import passdown
from passdown.core.state_files import state_problems, state_schema
from passdown.errors import InvalidInput, NotFound
from passdown.testing import fixed_clock, full_handoff, write_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from passdown import Workspace

Document = dict[str, Any]


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    write_files(str(tmp_path))
    with passdown.open(str(tmp_path), clock=fixed_clock()) as workspace:
        workspace.create_task("T-1", title="Login", agent="planner", criteria=["it works"])
        yield workspace


@pytest.mark.promise("S1-8", "S1-7", "S1-6", "S1-2")
def test_a_state_holds_everything_that_was_handed_over(ws: Workspace) -> None:
    """Every field of the full handoff stands in the state, with its type."""
    command = ws.hand_off(full_handoff())
    state = ws.state("T-1")
    given = full_handoff()
    assert (state.task_id, state.title, state.version) == ("T-1", "Login", 2)
    assert state.digest == command.digest
    assert (state.source_agent, state.target_agent) == ("planner", "coder")
    assert state.handoff_at == datetime(2026, 1, 9, 10, 0, 1, tzinfo=UTC)
    assert (state.phase, state.previous_phase, state.outcome) == (
        "implementing",
        "planning",
        "partial",
    )
    assert state.context_summary == given["summary"]
    assert state.warnings == tuple(given["warnings"])
    assert (state.gates_passed, state.gates_failed) == (("lint",), ("types",))
    assert state.criteria == ("it works",)
    parts = {
        "decisions": state.decisions,
        "patterns_discovered": state.patterns,
        "gotchas": state.gotchas,
        "dependencies_for_next": state.reading,
        "open_questions": state.questions,
        "suggested_next_steps": state.next_steps,
        "blockers": state.blockers,
    }
    for name, values in parts.items():
        assert len(values) == len(given[name])
        for value, entry in zip(values, given[name], strict=True):
            for field, text in entry.items():
                expected: Any = tuple(cast("list[Any]", text)) if isinstance(text, list) else text
                assert getattr(value, field) == expected
    assert state.blockers[0].requires_human is False
    assert [a.note for a in state.artifacts] == [
        "Signs and checks tokens",
        "Tests of the tokens",
        "A larger pool, since every request opens a connection",
    ]
    handoff = state.document["handoffs"][0]
    assert (handoff["story"], handoff["metadata"]) == (given["story"], given["metadata"])


@pytest.mark.promise("S1-18")
def test_loading_gives_none_or_every_field(ws: Workspace, tmp_path: Path) -> None:
    """A missing task loads as none and shows as NotFound; a saved one is equal after reopening."""
    assert ws.files.load("T-9") is None
    with pytest.raises(NotFound, match="T-9"):
        ws.state("T-9")
    ws.hand_off(full_handoff())
    state, document = ws.state("T-1"), ws.files.state_document("T-1")
    ws.close()
    with passdown.open(str(tmp_path)) as again:
        loaded = again.files.load("T-1")
        assert loaded == state
        assert loaded is not None
        assert loaded.document == document
    text = (tmp_path / ".passdown" / "state" / "T-1.json").read_text("utf-8")
    from_file = passdown.TaskState.from_dict(passdown.read_state_file(text))
    assert from_file == state


@pytest.mark.promise("S0-6")
def test_a_state_can_not_be_changed(ws: Workspace) -> None:
    """State and parts are frozen and made of tuples."""
    ws.hand_off(full_handoff())
    state = ws.state("T-1")
    with pytest.raises(dataclasses.FrozenInstanceError):
        state.title = "x"  # type: ignore[misc]
    for field in dataclasses.fields(state):
        if field.name != "document":
            assert not isinstance(getattr(state, field.name), list | dict)
    with pytest.raises(dataclasses.FrozenInstanceError):
        state.decisions[0].summary = "x"  # type: ignore[misc]


@pytest.mark.promise("S1-21")
def test_the_schema_of_a_state_is_published_and_holds(ws: Workspace) -> None:
    """States and state files keep to the JSON Schema; both checks agree."""
    schema = state_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    valid: Any = jsonschema.Draft202012Validator(schema)
    ws.create_task("T-2", title="t", agent="a", colour="red")
    ws.hand_off(full_handoff())
    ws.decide(task="T-2", agent="a", summary="s", rationale="r", supersedes=["T-1#d1"])
    ws.set_status("T-1#q1", "answered", agent="coder")
    command = ws.hand_off(
        {
            "task": "T-2",
            "outcome": "blocked",
            "blockers": [{"blocker": "b", "blocking_tasks": ["T-1"], "requires_human": True}],
        }
    )
    ws.reject(command.held_by[0], by="ana", reason="no")
    for task in ("T-1", "T-2"):
        with open(ws.root + "/" + ws.files.state_file(task), encoding="utf-8") as file:
            handle = json.load(file)
        for document in (ws.files.state_document(task), ws.files.state_document(task, 1), handle):
            assert list(valid.iter_errors(document)) == []
            assert state_problems(document) == []


def _without(document: Document, *path: str) -> None:
    for name in path[:-1]:
        document = document[name][0] if isinstance(document[name], list) else document[name]
    del document[path[-1]]


def _with(document: Document, value: Any, *path: str) -> None:
    for name in path[:-1]:
        document = document[name][0] if isinstance(document[name], list) else document[name]
    document[path[-1]] = value


@pytest.mark.promise("S1-21")
def test_a_document_that_breaks_the_schema_is_found_by_both_checks(ws: Workspace) -> None:
    """Missing fields, wrong types, names outside their lists and odd times: each is named."""
    ws.hand_off(full_handoff())
    whole = ws.files.state_document("T-1")
    valid: Any = jsonschema.Draft202012Validator(state_schema())
    changes: list[tuple[tuple[str, ...], Any]] = [
        (("phase",), "Shipping it"),
        (("previous_phase",), "Shipping it"),
        (("version",), "2"),
        (("version",), True),
        (("version",), 0),
        (("digest",), "sha256:abc"),
        (("updated_at",), "yesterday"),
        (("handoff_at",), 5),
        (("inputs",), "one"),
        (("inputs",), [1]),
        (("colour",), "red"),
        (("schema",), "passdown/state/2"),
        (("status",), "waiting"),
        (("decisions",), {}),
        (("decisions", "status"), "wild"),
        (("decisions", "address"), "T-1#b1"),
        (("decisions", "colour"), "red"),
        (("gotchas", "severity"), "blocker"),
        (("blockers", "requires_human"), "no"),
        (("artifacts", "size_bytes"), -1),
        (("artifacts", "sha256"), "x"),
        (("questions", "blocking"), None),
    ]
    for path, value in changes:
        document = json.loads(json.dumps(whole))
        _with(document, value, *path)
        assert state_problems(document), path
        assert list(valid.iter_errors(document)), path
    for path in (("title",), ("blocked_by",), ("decisions",), ("decisions", "rationale"),
                 ("gotchas", "id"), ("warnings", "text"), ("artifacts", "path")):  # fmt: skip
        document = json.loads(json.dumps(whole))
        _without(document, *path)
        (problem,) = state_problems(document)
        assert (problem.code, problem.path.endswith(path[-1])) == ("required", True)
        assert list(valid.iter_errors(document)), path
    assert state_problems([]) != []
    assert state_problems({**whole, "updated_at": whole["updated_at"] + "\n"}) != []
    assert [p.path for p in state_problems({**whole, "version": 0})] == ["version"]


@pytest.mark.promise("S1-21")
def test_a_document_of_another_schema_is_no_state(ws: Workspace) -> None:
    """A state value is only made from a document that this release knows."""
    document = ws.files.state_document("T-1")
    for given in ("passdown/state/9", None, 1):
        with pytest.raises(InvalidInput, match="unknown_schema"):
            passdown.TaskState.from_dict({**document, "schema": given})


@pytest.mark.promise("S1-33", "P-4")
def test_nothing_is_lost_over_many_hops(ws: Workspace) -> None:
    """What each of ten agents put in is found at the end, or in the history by its address."""
    put: dict[str, Document] = {}
    fields = {
        "decisions": "decisions",
        "patterns_discovered": "patterns",
        "gotchas": "gotchas",
        "dependencies_for_next": "reading",
        "open_questions": "questions",
        "suggested_next_steps": "next_steps",
        "blockers": "blockers",
        "gates": "gates",
    }
    for hop in range(1, 11):
        handoff = full_handoff(
            from_agent=f"agent-{hop}", to_agent=f"agent-{hop + 1}", summary=f"hop {hop}"
        )
        for name in fields:
            for entry in handoff[name]:
                key = "name" if name == "gates" else next(iter(entry))
                entry[key] = (
                    entry[key] if name == "dependencies_for_next" else f"{hop}: {entry[key]}"
                )
                if name == "dependencies_for_next":
                    entry["reason"] = f"{hop}: because"
        command = ws.hand_off(handoff)
        added: Document = command.state_delta["add"]
        for name, listed in fields.items():
            assert len(added[listed]) == len(handoff[name])
            for entry, item in zip(handoff[name], added[listed], strict=True):
                put[item["address"]] = entry
    state = ws.files.state_document("T-1")
    assert [h["summary"] for h in state["handoffs"]] == [f"hop {hop}" for hop in range(1, 11)]
    assert len(put) == 10 * 10
    everything = {e["address"]: e for listed in fields.values() for e in state[listed]}
    for address, entry in put.items():
        shown = ws.show(address)
        for name, value in entry.items():
            assert everything[address][name] == value
            assert getattr(shown, name) == value
    difference = ws.diff("T-1", 1, 11)
    assert difference.removed == {}
    assert len(difference.added["decisions"]) == 10
    open_steps = [n["step"] for n in state["next_steps"] if n["status"] == "open"]
    assert open_steps == ["10: Set the cookie", "10: Rotate the key"]


@pytest.mark.promise("S1-36", "S1-1")
def test_a_summary_carries_its_version_so_that_a_stale_one_shows(ws: Workspace) -> None:
    """It is made from what is stored, names file and version, and is known to be overtaken."""
    command = ws.hand_off(full_handoff())
    text = ws.context.summary("T-1")
    assert text == command.context_summary
    assert "Version: 2 (sha256:" in text
    assert "State file: .passdown/state/T-1.json" in text
    assert ws.context.check("T-1", text) == (True, 2, 2)
    ws.decide(task="T-1", agent="coder", summary="s", rationale="r")
    assert ws.context.check("T-1", text) == (False, 2, 3)
    forged = text.replace("sha256:", "sha256:0")[: len(text)]
    with pytest.raises(InvalidInput):
        ws.context.check("T-1", forged.replace("Version", "version"))
    with pytest.raises(NotFound):
        ws.context.check("T-9", text)
    with pytest.raises(InvalidInput, match="no_version"):
        ws.context.check("T-1", "all is well")


@pytest.mark.promise("S1-36", "P-6")
def test_stored_text_can_not_forge_a_line_of_the_summary(ws: Workspace) -> None:
    """Newlines and control characters of titles and decisions stay within their line."""
    fake = "x\nVersion: 99 (sha256:" + "0" * 64 + ")\n\x1b[2J\u202e"
    ws.create_task("T-2", title=fake, agent="a")
    ws.hand_off(
        {
            "task": "T-2",
            "outcome": "failed",
            "decisions": [{"summary": fake, "rationale": "r"}],
            "blockers": [{"blocker": fake, "suggested_resolution": "r"}],
        }
    )
    text = ws.context.summary("T-2")
    assert [line for line in text.splitlines() if line.startswith("Version:")] == [
        text.splitlines()[-1]
    ]
    assert ws.context.check("T-2", text).is_current
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert len(text.splitlines()) == 9


@pytest.mark.promise("S1-36")
def test_a_summary_shows_no_decision_that_another_task_replaced(ws: Workspace) -> None:
    """What was superseded, here or elsewhere, is not offered as standing."""
    ws.hand_off(full_handoff())
    ws.create_task("T-2", title="t", agent="a")
    ws.decide(task="T-2", agent="a", summary="Headers", rationale="r", supersedes=["T-1#d1"])
    assert "httpOnly" not in ws.context.summary("T-1")
    assert ws.files.state_document("T-1")["decisions"][0]["status"] == "superseded"

"""Handoffs: what a command holds, what it changes, conflicts, retries, and what they cost."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import apsw
import pytest

import passdown
from passdown import Settings, apply_delta
from passdown.errors import Conflict, GateRefused, InvalidInput, KeyReused, NotFound
from passdown.testing import fixed_clock, full_handoff, write_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from passdown import HandoffCommand, Workspace

Document = dict[str, Any]


@pytest.fixture
def ws(tmp_path: Path, each_store: None) -> Iterator[Workspace]:
    write_files(str(tmp_path))
    with passdown.open(str(tmp_path), clock=fixed_clock()) as workspace:
        workspace.create_task("T-1", title="Login", agent="planner")
        yield workspace


def minimal(**changes: Any) -> Document:
    return {"task": "T-1", "outcome": "completed", "from_agent": "planner", **changes}


def everything(ws: Workspace) -> Document:
    return {
        "heads": ws.maintenance.heads().heads,
        "tasks": ws.tasks(),
        "gates": ws.gates(all=True),
    }


@pytest.mark.promise("S1-22", "S1-23", "S1-1")
def test_a_handoff_is_prepared_as_a_command_and_received_as_a_state(ws: Workspace) -> None:
    """The command names task, target, phase, changes, summary and file; it gives the state."""
    command = ws.hand_off(ws.prepare_handoff("T-1", "coder", "implementing", summary="go on"))
    assert (command.task, command.to_agent, command.phase) == (
        "T-1",
        "coder",
        "implementing",
    )
    assert (command.version, command.outcome, command.held_by) == (2, "completed", ())
    is_afar = ws.store_url.startswith("http")
    assert command.state_file == ("/api/tasks/T-1/state" if is_afar else ".passdown/state/T-1.json")
    assert command.state_file in command.context_summary
    assert command.state_delta["set"]["phase"] == "implementing"
    state = ws.receive_handoff(command)
    assert state == ws.state("T-1")
    assert (state.source_agent, state.target_agent, state.phase) == (
        "planner",
        "coder",
        "implementing",
    )
    document = command.to_dict()
    assert json.loads(json.dumps(document)) == document


@pytest.mark.promise("S1-22")
def test_a_command_is_good_until_the_next_handoff(ws: Workspace) -> None:
    """A note since doesn't matter; a newer handoff or an altered command is a Conflict."""
    command = ws.hand_off(minimal(to_agent="coder"))
    ws.decide(task="T-1", agent="coder", summary="s", rationale="r")
    assert ws.receive_handoff(command).version == 3
    forged = command._replace(digest="sha256:" + "0" * 64)
    with pytest.raises(Conflict, match="digest"):
        ws.receive_handoff(forged)
    ws.hand_off(minimal(from_agent="coder", to_agent="tester"))
    with pytest.raises(Conflict):
        ws.receive_handoff(command)
    with pytest.raises(NotFound):
        ws.receive_handoff(command._replace(task="T-9"))


@pytest.mark.promise("S1-25", "S1-24")
def test_a_handoff_appends_replaces_and_keeps_by_kind(ws: Workspace) -> None:
    """Decisions and artifacts add up, blockers are replaced, warnings and gates stay."""
    ws.hand_off(full_handoff())
    before = ws.files.state_document("T-1")
    command = ws.hand_off(
        minimal(
            from_agent="coder",
            to_agent="tester",
            outcome="failed",
            blockers=[{"blocker": "The disk is full", "suggested_resolution": "Empty it"}],
            decisions=[{"summary": "Short lives for tokens", "rationale": "theft"}],
            artifacts=[{"path": "src/config.py"}],
        )
    )
    after = ws.files.state_document("T-1")
    assert [d["summary"] for d in after["decisions"]] == [
        "JWT in an httpOnly cookie",
        "Short lives for tokens",
    ]
    assert {a["path"] for a in after["artifacts"]} == {a["path"] for a in before["artifacts"]}
    assert [(b["blocker"], b["status"]) for b in after["blockers"]] == [
        ("No credentials for the payment service", "replaced"),
        ("The disk is full", "open"),
    ]
    assert after["warnings"] == before["warnings"]
    assert (after["gates_passed"], after["gates_failed"]) == (["lint"], ["types"])
    assert after["version"] == before["version"] + 1
    counts = ("artifacts_added", "decisions_made", "blocking_issues")
    assert [command.state_delta[name] for name in counts] == [1, 1, 1]
    assert apply_delta(before, command.state_delta) == {**after, "status": "failed"}
    assert [n["status"] for n in after["next_steps"]] == ["open", "open"]
    assert [q["status"] for q in after["questions"]] == ["open"]


@pytest.mark.promise("S1-24")
def test_the_delta_leaves_the_old_state_alone(ws: Workspace) -> None:
    """Applying a delta makes a new document and changes nothing in the old one."""
    before = ws.files.state_document("T-1")
    copy = json.loads(json.dumps(before))
    command = ws.hand_off(full_handoff())
    assert apply_delta(before, command.state_delta) == ws.files.state_document("T-1")
    assert before == copy


@pytest.mark.promise("S1-25")
def test_an_unknown_task_is_a_value_error(ws: Workspace) -> None:
    """A handoff of a task that isn't there is refused, with or without a sender."""
    for handoff in ({"task": "T-9", "outcome": "completed"}, minimal(task="T-9")):
        with pytest.raises(ValueError, match="T-9"):
            ws.hand_off(handoff)
        problems = ws.check_handoff(handoff).problems
        assert "not_found" in [problem.code for problem in problems]
    assert [task.task for task in ws.tasks()] == ["T-1"]


@pytest.mark.promise("P-2")
def test_a_writer_with_an_old_version_gets_a_conflict(ws: Workspace) -> None:
    """Equal is fine; older and newer ones are refused, naming both versions; nothing changes."""
    ws.hand_off(minimal(expect_version=1, to_agent="coder"))
    before = everything(ws)
    for given in (0, 1, 3):
        with pytest.raises(Conflict) as caught:
            ws.hand_off(minimal(expect_version=given))
        assert (caught.value.expected, caught.value.actual) == (given, 2)
        assert f"version {given}" in str(caught.value)
        assert "version 2" in str(caught.value)
        assert caught.value.to_dict()["actual"] == 2
        found = ws.check_handoff(minimal(expect_version=given)).problems
        assert ("expect_version", "conflict") in [(p.path, p.code) for p in found]
    assert everything(ws) == before
    with pytest.raises(Conflict):
        ws.decide(task="T-1", agent="a", summary="s", rationale="r", expect_version=1)
    with pytest.raises(Conflict):
        ws.update_task("T-1", agent="a", title="New", expect_version=1)
    assert (
        ws.decide(task="T-1", agent="a", summary="s", rationale="r", expect_version=2).version == 3
    )


@pytest.mark.promise("P-2")
def test_what_only_appends_can_be_placed_after_others(ws: Workspace) -> None:
    """A stale handoff that only adds is taken on request; nothing that was there changes."""
    ws.decide(task="T-1", agent="other", summary="theirs", rationale="r")
    handoff = minimal(
        expect_version=1,
        to_agent="coder",
        decisions=[{"summary": "mine", "rationale": "r"}],
        files_created=[{"path": "src/config.py", "purpose": "p"}],
    )
    with pytest.raises(Conflict):
        ws.hand_off(handoff)
    command = ws.hand_off(handoff, rebase=True)
    assert command.version == 3
    assert [d["summary"] for d in ws.files.state_document("T-1")["decisions"]] == ["theirs", "mine"]


@pytest.mark.promise("P-2", "P-7")
def test_a_rebase_that_would_overrule_others_is_refused_with_reasons(ws: Workspace) -> None:
    """A move, a closed item, a file that others handed off, a future version: each is named."""
    ws.hand_off(full_handoff())
    before = everything(ws)
    cases = [
        (
            minimal(expect_version=1, phase="reviewing", blockers=full_handoff()["blockers"]),
            "moves",
        ),
        (minimal(expect_version=1, to_agent="coder", blockers=[]), "closes or changes"),
        (
            minimal(
                expect_version=1,
                to_agent="coder",
                blockers=full_handoff()["blockers"],
                artifacts=[{"path": "src/config.py"}],
            ),
            "src/config.py was handed off",
        ),
        (minimal(expect_version=9, to_agent="coder"), "does not exist yet"),
    ]
    for handoff, reason in cases:
        with pytest.raises(Conflict, match=reason):
            ws.hand_off(handoff, rebase=True)
    assert everything(ws) == before


@pytest.mark.promise("P-3", "S3-31")
def test_a_retry_gives_the_same_record(ws: Workspace) -> None:
    """The same key and content give the same command, marked as a replay; nothing is added."""
    first = ws.hand_off(full_handoff(), key="k-1")
    ws.decide(task="T-1", agent="coder", summary="later", rationale="r")
    before = everything(ws)
    again = ws.hand_off(full_handoff(), key="k-1")
    assert again == first._replace(is_replay=True, warnings=again.warnings)
    assert "later" not in again.context_summary
    assert everything(ws) == before


@pytest.mark.promise("S3-31", "P-3")
def test_the_same_handoff_given_twice_is_recorded_once(ws: Workspace) -> None:
    """Without a key the content is the key; a file that changed meanwhile doesn't matter."""
    first = ws.hand_off(full_handoff())
    before = everything(ws)
    write_files(ws.root, {"src/config.py": "POOL = 5\n"})
    again = ws.hand_off(full_handoff())
    assert again.is_replay
    assert (again.version, again.digest) == (first.version, first.digest)
    assert everything(ws) == before


@pytest.mark.promise("P-3")
def test_a_key_with_another_content_is_refused(ws: Workspace) -> None:
    """A key stands for one content; the first one is kept."""
    ws.hand_off(minimal(summary="one"), key="k")
    before = everything(ws)
    with pytest.raises(KeyReused, match="first one is kept"):
        ws.hand_off(minimal(summary="two"), key="k")
    with pytest.raises(KeyReused):
        ws.hand_off(minimal(summary="one", from_agent="coder"), key="k")
    with pytest.raises(KeyReused):
        ws.decide(task="T-1", agent="planner", summary="s", rationale="r", key="k")
    assert everything(ws) == before


@pytest.mark.promise("P-3")
def test_two_agents_may_say_the_same(ws: Workspace) -> None:
    """Equal words of two agents are two records; of one agent, one."""
    fields: Document = {"summary": "s", "rationale": "r"}
    first = ws.decide(task="T-1", agent="a", **fields)
    other = ws.decide(task="T-1", agent="b", **fields)
    again = ws.decide(task="T-1", agent="a", **fields)
    assert (first.items, other.items) == (("T-1#d1",), ("T-1#d2",))
    assert again == first._replace(is_replay=True)


@pytest.mark.promise("P-7", "S1-28")
def test_a_refused_handoff_lists_every_reason_and_changes_nothing(ws: Workspace) -> None:
    """Missing fields, no rationale and a missing file come together, each with its place."""
    bad = {
        "task": "T-1",
        "from_agent": "planner",
        "decisions": [{"summary": "s", "rationale": "  "}, {"summary": "s"}],
        "files_created": [{"path": "src/gone.py", "purpose": "p"}],
        "gotchas": [{"issue": "i", "severity": "huge"}],
    }
    before = everything(ws)
    with pytest.raises(InvalidInput) as caught:
        ws.hand_off(bad)
    assert {(problem.path, problem.code) for problem in caught.value.problems} == {
        ("outcome", "required"),
        ("decisions[0].rationale", "empty"),
        ("decisions[1].rationale", "required"),
        ("gotchas[0].mitigation", "required"),
        ("gotchas[0].severity", "invalid_choice"),
        ("files_created[0].path", "missing_file"),
    }
    assert "Nothing was changed" in str(caught.value)
    assert everything(ws) == before
    assert not ws.check_handoff(bad).ok


@pytest.mark.promise("S1-28", "P-7")
def test_files_that_are_not_on_disk_refuse_the_handoff(ws: Workspace, tmp_path: Path) -> None:
    """Every missing file is named where it is listed; a deleted one may be gone."""
    handoff = minimal(
        files_created=[{"path": "src/x.py", "purpose": "p"}],
        files_modified=[
            {"path": "src/y.py", "lines": "1-2", "change_type": "modify", "description": "d"},
            {"path": "src/z.py", "lines": "all", "change_type": "delete", "description": "d"},
        ],
        artifacts=[{"path": "src"}],
    )
    before = everything(ws)
    with pytest.raises(GateRefused) as caught:
        ws.hand_off(handoff)
    assert [(problem.path, problem.code) for problem in caught.value.problems] == [
        ("files_created[0].path", "missing_file"),
        ("files_modified[0].path", "missing_file"),
        ("artifacts[0].path", "not_regular_file"),
    ]
    assert everything(ws) == before
    assert [
        problem.code for problem in ws.check_handoff(handoff).problems if problem.level == "error"
    ] == [
        "missing_file",
        "missing_file",
        "not_regular_file",
    ]
    relaxed = Settings(artifacts_on_disk=False)
    with passdown.open(str(tmp_path), settings=relaxed) as other:
        handoff.pop("artifacts")
        assert other.hand_off(handoff).version == 2


@pytest.mark.promise("S1-22")
def test_a_handoff_reaches_the_inbox_of_its_receiver(ws: Workspace) -> None:
    """It waits for the receiver, moves on with the next handoff, and is held while a gate is."""
    ws.hand_off(minimal(to_agent="coder"))
    assert [entry.to_dict() for entry in ws.inbox("coder")] == [
        {"agent": "coder", "task": "T-1", "position": 2, "held": False}
    ]
    human = [{"blocker": "b", "suggested_resolution": "r", "requires_human": True}]
    ws.hand_off(minimal(from_agent="coder", to_agent="tester", blockers=human, outcome="failed"))
    assert ws.inbox("coder") == []
    assert [entry.held for entry in ws.inbox("tester")] == [True]
    ws.approve("T-1#k1", by="ana")
    assert [entry.held for entry in ws.inbox("tester")] == [False]


@pytest.mark.promise("S1-22")
def test_the_holder_hands_on_where_no_sender_is_named(ws: Workspace) -> None:
    """The sender is whoever the task was handed to last, or else who made it."""
    ws.hand_off({"task": "T-1", "outcome": "completed", "to_agent": "coder"})
    ws.hand_off({"task": "T-1", "outcome": "completed", "to_agent": "tester"})
    assert [h["from_agent"] for h in ws.files.state_document("T-1")["handoffs"]] == [
        "planner",
        "coder",
    ]


class Cost:
    """What the database was asked to do, counted from outside: statements, rows, machine steps.

    What the full-text index asks of its own tables is counted apart: how many parts it is in at the
    moment changes from one write to the next.
    """

    def __init__(self) -> None:
        self.statements: Counter[str] = Counter()
        self.rows = 0
        self.steps = 0
        self.within_index = 0
        self._running: dict[int, str] = {}

    def watch(self, connection: Any) -> None:
        events = apsw.SQLITE_TRACE_STMT | apsw.SQLITE_TRACE_ROW | apsw.SQLITE_TRACE_PROFILE
        connection.trace_v2(events, self.note)

    def note(self, event: dict[str, Any]) -> None:
        if event["code"] == apsw.SQLITE_TRACE_STMT:
            self._running[event["id"]] = event["sql"]
        if "'main'." in self._running.get(event["id"], "'main'."):
            self.within_index += event["code"] != apsw.SQLITE_TRACE_PROFILE
        elif event["code"] == apsw.SQLITE_TRACE_STMT:
            self.statements[event["sql"]] += 1
        elif event["code"] == apsw.SQLITE_TRACE_ROW:
            self.rows += 1
        else:
            self.steps += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]
            del self._running[event["id"]]

    def clear(self) -> None:
        self.statements.clear()
        self.rows = self.steps = self.within_index = 0


@pytest.fixture
def cost() -> Iterator[Cost]:
    counted = Cost()
    apsw.connection_hooks.append(counted.watch)
    yield counted
    apsw.connection_hooks.remove(counted.watch)


@pytest.mark.promise("P-8")
def test_what_a_handoff_costs_does_not_grow_with_the_history(tmp_path: Path, cost: Cost) -> None:
    """A history five times as long costs the same statements and rows, and hardly more steps.

    Likes are looked up among the fifty newest, so the comparison starts where there are as many.
    """
    settings = Settings(durability="normal", kept_versions=2)

    def step(ws: Workspace, number: int) -> tuple[Counter[str], int, int, int]:
        handoff = full_handoff(
            from_agent=("planner", "coder")[number % 2],
            to_agent=("coder", "planner")[number % 2],
            phase=("implementing", "testing")[number % 2],
            summary=f"step {number}",
            decisions=[{"summary": f"decision {number}", "rationale": "r"}],
            suggested_next_steps=[{"step": f"step {number}"}],
            blockers=[{"blocker": f"blocker {number}", "blocking_tasks": ["T-2"]}],
        )
        cost.clear()
        ws.hand_off(handoff, expect_version=number)
        return Counter(cost.statements), cost.rows, cost.steps, cost.within_index

    write_files(str(tmp_path))
    with passdown.open(str(tmp_path), settings=settings, clock=fixed_clock()) as ws:
        ws.create_task("T-1", title="Login", agent="planner")
        ws.create_task("T-2", title="Pay", agent="planner")
        costs = {number: step(ws, number) for number in range(1, 301)}
        cost.clear()
        ws.context.summary("T-1")
        assert (len(cost.statements), cost.rows) < (12, 40)
    for early, late in ((59, 299), (60, 300)):
        assert costs[late][0] == costs[early][0]
        assert costs[late][1] == costs[early][1]
        assert costs[late][2] < costs[early][2] * 1.1
    assert 20 < sum(costs[300][0].values()) < 120
    assert 20 < costs[300][1] < 400
    # Five times the history puts the index into a part or two more, not into five times as many.
    within = [max(costs[number][3] for number in range(*span)) for span in ((30, 60), (200, 301))]
    assert within[1] < within[0] * 2


@pytest.mark.promise("P-8", "P-3")
def test_what_a_repeat_costs_does_not_grow_with_the_history(tmp_path: Path, cost: Cost) -> None:
    """A retry asks for its record and its items, however much came before or since."""
    with passdown.open(str(tmp_path), settings=Settings(durability="normal")) as ws:
        ws.create_task("T-1", title="Login", agent="planner")
        costs: dict[int, tuple[Counter[str], int]] = {}
        firsts: dict[int, HandoffCommand] = {}
        for number in range(1, 201):
            given = minimal(summary=f"step {number}")
            firsts[number] = ws.hand_off(given, key=f"k-{number}")
            if number in (20, 200):
                cost.clear()
                assert ws.hand_off(minimal(summary="step 7"), key="k-7").version == 8
                costs[number] = Counter(cost.statements), cost.rows
        again = ws.hand_off(minimal(summary="step 7"), key="k-7")
    assert costs[20] == costs[200]
    assert again == firsts[7]._replace(is_replay=True, warnings=again.warnings)


@pytest.mark.promise("P-4")
def test_the_same_words_after_another_handoff_are_a_new_handoff(ws: Workspace) -> None:
    """Work that goes back and forth may end each time in the same words; none of it is lost."""
    there = minimal(from_agent="dev", to_agent="qa", summary="fixed")
    back = minimal(from_agent="qa", to_agent="dev", summary="still broken")
    versions = [ws.hand_off(handoff).version for handoff in (there, back, there, back, there)]
    assert len(set(versions)) == 5
    again = ws.hand_off(there)
    assert (again.version, again.is_replay) == (versions[-1], True)
    assert ws.task("T-1").holder == "qa"


@pytest.mark.promise("S3-31")
def test_a_dry_run_says_that_a_task_file_is_recorded_already(ws: Workspace) -> None:
    """Also after other handoffs, and whatever the gates would say of it now."""
    text = "# Task T-1: Login\n\n## Handoff\n\noutcome: completed\nfrom_agent: dev\nto_agent: qa\n"
    assert "already_recorded" not in {p.code for p in ws.check_handoff(text).problems}
    first = ws.hand_off(text)
    ws.hand_off(minimal(from_agent="qa", to_agent="dev", summary="still broken"))
    check = ws.check_handoff(text)
    assert check.ok
    assert f"version {first.version} of T-1" in check.problems[0].message
    assert check.problems[0].code == "already_recorded"


CONTRADICTIONS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"to": "qa", "to_agent": "dev"}, {}),
    ({"to_agent": "qa"}, {"to_agent": "dev"}),
    ({"to": "qa"}, {"to_agent": "dev"}),
    ({}, {"to": "qa", "to_agent": "dev"}),
    ({"decisions": [{"summary": "s", "decision": "d", "rationale": "r"}]}, {}),
]


@pytest.mark.promise("P-7")
@pytest.mark.parametrize(("handoff", "fields"), CONTRADICTIONS)
def test_what_contradicts_itself_is_refused(
    ws: Workspace, handoff: dict[str, Any], fields: dict[str, Any]
) -> None:
    """Two names of one field, or a keyword against the handoff: neither is dropped silently."""
    given = {"task": "T-1", "outcome": "completed", "from_agent": "planner", **handoff}
    with pytest.raises(InvalidInput) as refused:
        ws.hand_off(given, **fields)
    assert [problem.code for problem in refused.value.problems] == ["contradiction"]
    assert not ws.check_handoff(given, **fields).ok
    assert ws.task("T-1").version == 1


def test_the_same_said_twice_is_no_contradiction(ws: Workspace) -> None:
    """Two names with one value, or a keyword that repeats it."""
    given = {"task": "T-1", "outcome": "completed", "to": "qa", "to_agent": "qa"}
    assert ws.hand_off(given, to_agent="qa").to_agent == "qa"


@pytest.mark.promise("S3-31")
def test_a_task_file_is_recorded_once_and_for_all(ws: Workspace) -> None:
    """A document that was taken in stays taken in, whatever happened since."""
    text = "# Task T-1: Login\n\n## Handoff\n\noutcome: completed\nfrom_agent: dev\nto_agent: qa\n"
    first = ws.hand_off(text)
    ws.hand_off(minimal(from_agent="qa", to_agent="dev", summary="still broken"))
    again = ws.hand_off(text)
    assert (again.version, again.is_replay) == (first.version, True)


def test_a_stale_handoff_is_not_placed_after_another_handoff(ws: Workspace) -> None:
    """Who holds a task is decided by handoffs, so one doesn't slip in behind another."""
    version = ws.task("T-1").version
    ws.hand_off(minimal(from_agent="dev", to_agent="qa"))
    stale = minimal(from_agent="dev", to_agent="ops", expect_version=version)
    with pytest.raises(Conflict, match="handed off since"):
        ws.hand_off(stale, rebase=True)

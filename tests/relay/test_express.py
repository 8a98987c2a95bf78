"""Express items: checked as a whole, carried out once, and a task where they can't be."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import passdown
from passdown.core.graph import Edge, Node, graph_of
from passdown.core.schema import TEXT, declare, fields_of, shape
from passdown.errors import GateRefused, InvalidInput, KeyReused, NotFound, Problem
from passdown.knowledge.sync import update_graph
from passdown.relay import express
from passdown.relay.agents import AgentStates, RunAgents
from passdown.relay.express import (
    ExpressChange,
    ExpressFields,
    ExpressKind,
    carry_out,
    express_item,
    express_record,
    express_records,
    send,
)
from passdown.relay.git import VARIABLE, PullRequest, PullRequestSpec, Worktree
from passdown.relay.relay_file import check_relay
from passdown.relay.runs import Runs
from passdown.relay.worker import run_here
from passdown.testing import fixed_clock
from passdown.workspace.streams import StreamEntry, WorkspaceStreams
from tests.faults.tools import result_of, seeded
from tests.folders import new_folder
from tests.relay.express_worker import QUICK, start
from tests.relay.relays import document, leg
from tests.relay.repositories import ALONE, git, leftovers, make_repository, users_view
from tests.relay.staging import reply
from tests.sizes import example_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from passdown import Workspace
    from passdown.relay.runners import AgentRequest

Document = dict[str, Any]
NOW = "2026-01-02T03:04:05.000000Z"


@pytest.fixture
def project(
    tmp_path: Path, need_program: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> Path:
    need_program("git")
    for name, value in ALONE.items():
        monkeypatch.setenv(name, value)
    return make_repository(tmp_path / "project")


@pytest.fixture
def ws(project: Path) -> Iterator[Workspace]:
    with passdown.open(str(project), settings=QUICK, clock=fixed_clock()) as workspace:
        yield workspace


def node(name: str, summary: str = "Something", **more: Any) -> Document:
    return {"id": name, "type": "component", "summary": summary, **more}


def knowledge(*entries: Document, action: str = "append", **more: Any) -> Document:
    head = {"type": "KNOWLEDGE_UPDATE", "by": "coder", "reason": "We found out", "created": NOW}
    return {**head, "entries": list(entries), "action": action, **more}


def hot_fix(**more: Any) -> Document:
    return {"kind": "hot_fix", "by": "coder", "reason": "It is down", "created": NOW, **more}


def file_task(**more: Any) -> Document:
    return {"kind": "file_task", "by": "coder", "reason": "Tidy up", "created": NOW, **more}


class Done(NamedTuple):
    """What became of an item."""

    id: str
    outcome: str
    why: str
    task: str
    agent: str = ""
    branch: str = ""
    commit: str = ""
    files: tuple[str, ...] = ()
    reports: tuple[Problem, ...] = ()
    lost: tuple[str, ...] = ()
    pull_request: PullRequest | None = None
    code: str = ""
    evidence: str = ""


def done(ws: Workspace, item: Document, **more: Any) -> Done:
    made = carry_out(ws, item, **more)
    facts = dict(made.result)
    for name in ("files", "lost"):
        facts[name] = tuple(facts.get(name, ()))
    facts["reports"] = tuple(Problem(**report) for report in facts.get("reports", ()))
    request = facts.get("pull_request")
    facts["pull_request"] = PullRequest(**request) if request else None
    return Done(made.item.id, made.status, made.why, made.run.promoted, **facts)


def at(ws: Workspace, commit: str, path: str) -> str:
    return git(Path(ws.root), "show", f"{commit}:{path}")


def problems_of(item: object) -> dict[str, str]:
    with pytest.raises(InvalidInput) as caught:
        express_item(item, now=NOW)
    return {problem.path: problem.code for problem in caught.value.problems}


@pytest.mark.promise("S4-19")
@pytest.mark.parametrize("spelled", ["KNOWLEDGE_UPDATE", "knowledge_update"])
def test_a_knowledge_update_has_entries_a_file_and_an_action(spelled: str) -> None:
    edge = {"source": "A", "relation": "uses", "target": "B"}
    given = {**knowledge(node("A"), edge), "type": spelled}
    item = express_item(given, now=NOW)
    assert item.kind == "knowledge_update"
    assert item.content["file_path"] == "knowledge.dot"
    assert item.content["action"] == "append"
    assert [entry.get("id") for entry in item.content["entries"]] == ["A", None]
    assert express_item(item.to_dict(), now="") == item
    payload = {name: given.pop(name) for name in ("entries", "action")}
    assert express_item({**given, "payload": payload}, now=NOW) == item


@pytest.mark.promise("S4-19")
def test_any_other_action_is_refused_and_all_problems_are_told() -> None:
    for action in ("append", "replace"):
        assert express_item(knowledge(node("A"), action=action), now=NOW)
    for action in ("delete", "merge", "APPEND", "", None, 1):
        given = {**knowledge(node("A")), "action": action}
        assert set(problems_of(given)) == {"action"}
    bad = knowledge(node("A", ""), {"id": 1}, action="merge", file_path="../k.dot", by="user")
    assert problems_of({**bad, "entrys": [], "created": "soon"}) == {
        "action": "invalid_choice",
        "by": "reserved_name",
        "created": "invalid_time",
        "entries[1].id": "wrong_type",
        "entrys": "unknown_field",
        "file_path": "invalid_path",
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, {"": "wrong_type"}),
        ({}, {"kind": "required", "by": "required", "reason": "required"}),
        (hot_fix(kind="hotfix"), {"kind": "invalid_choice"}),
        (hot_fix(), {"files": "required"}),
        (hot_fix(files=""), {"files": "required"}),
        (hot_fix(files={"a": "x"}, patch="x"), {"files": "required"}),
        (hot_fix(files={".git/config": "x"}), {'files[".git/config"]': "protected_path"}),
        (hot_fix(files={".passdown/x": "x"}), {'files[".passdown/x"]': "protected_path"}),
        (hot_fix(files={"a": 1}), {"files.a": "wrong_type"}),
        (hot_fix(files={"a": "x\0"}), {"files.a": "nul_character"}),
        (hot_fix(files={"a": "x", "./a": "y"}), {'files["./a"]': "duplicate_path"}),
        (hot_fix(files={str(n): "" for n in range(51)}), {"files": "too_many"}),
        (hot_fix(files={"a": "x" * 600_000, "b": "x" * 600_000}), {"files": "too_large"}),
        (hot_fix(files={"a": "ghp_" + "a" * 36}), {"files": "secret"}),
        (hot_fix(patch="hello"), {"patch": "invalid_patch"}),
        (hot_fix(patch="--- a/x\n+++ b/../y\n@@ -1 +1 @@\n-a\n+b\n"), {"patch": "invalid_path"}),
        (
            hot_fix(patch="--- a/x\n+++ b/.git/y\n@@ -1 +1 @@\n-a\n+b\n"),
            {"patch": "protected_path"},
        ),
        (hot_fix(patch="rename from x\nrename to .git/y\n"), {"patch": "protected_path"}),
        (hot_fix(files={"a": ""}, base="--all"), {"base": "invalid_base"}),
        (hot_fix(files={"a": ""}, id="a..b"), {"id": "invalid_id"}),
        (hot_fix(files={"a": ""}, id="a.lock"), {"id": "invalid_id"}),
        (file_task(), {"path": "required", "content": "required"}),
        (file_task(path="a", action="move", content=""), {"action": "invalid_choice"}),
        (file_task(path="a", action="delete", content="x"), {"content": "not_here"}),
        (knowledge(), {"entries": "too_short"}),
        (knowledge(node("A"), file_path="a.py"), {"file_path": "invalid_path"}),
        (knowledge(node("A"), file_path=".passdown/ledger.db"), {"file_path": "protected_path"}),
        (knowledge(node("task:T-1")), {"entries[0].id": "reserved_id"}),
    ],
)
def test_what_is_wrong_is_told_with_its_place(given: object, expected: dict[str, str]) -> None:
    assert problems_of(given) == expected


def test_a_hunk_that_looks_like_a_head_is_none() -> None:
    patch = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- a/.git/config\n+++ b/.git/config\n same\n"
    assert express_item(hot_fix(patch=patch), now=NOW).changes() == (
        ExpressChange("patch", text=patch),
    )


@given(st.recursive(st.none() | st.text() | st.integers(), st.lists, max_leaves=3), st.data())
@settings(max_examples=example_count(30), deadline=None)
def test_whatever_is_given_is_refused_or_reads_back(value: object, data: st.DataObject) -> None:
    valid = [
        knowledge(node("A")),
        hot_fix(files={"a": "x"}),
        file_task(path="a", content="x"),
    ]
    item = dict(data.draw(st.sampled_from(valid)))
    item[data.draw(st.sampled_from([*item, "task", "base", "id", "message"]))] = value
    with suppress(InvalidInput):
        made = express_item(item, now=NOW)
        assert made.changes()
        again = express_item(made.to_dict(), now="")
        assert again == made


@pytest.mark.promise("S4-21")
def test_setting_up_a_knowledge_update_prepares_its_file_alone(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all the files of the project, and nothing where the file says it already."""
    seen: list[list[str]] = []
    commit = Worktree.commit

    def watched(tree: Worktree, *arguments: Any, **options: Any) -> Any:
        files = [p for p in Path(tree.folder).rglob("*") if p.is_file() and p.name != ".git"]
        seen.append([path.name for path in files])
        return commit(tree, *arguments, **options)

    monkeypatch.setattr(Worktree, "commit", watched)
    first = done(ws, knowledge(node("New"), id="k1"))
    assert seen == [["knowledge.dot"]]
    assert first.files == ("knowledge.dot",)
    git(Path(ws.root), "merge", "-q", first.branch)
    again = done(ws, knowledge(node("New"), id="k2"))
    assert (again.outcome, again.commit, again.branch, again.pull_request) == ("done", "", "", None)
    assert len(seen) == 1


@pytest.mark.promise("S4-22")
def test_coding_writes_the_file_commits_it_and_opens_a_pull_request(ws: Workspace) -> None:
    asked: list[PullRequestSpec] = []

    def ask(root: str, request: PullRequestSpec) -> PullRequest:
        assert root == ws.root
        asked.append(request)
        return PullRequest(True, "https://example.com/1")

    before = users_view(Path(ws.root))
    made = done(ws, knowledge(node("New", "In words"), id="k1"), pull_request=ask)
    assert users_view(Path(ws.root)) == before
    assert leftovers(Path(ws.root)) == []
    text = at(ws, made.commit, "knowledge.dot")
    assert '"Old"' in text
    assert "In words" in text
    assert git(Path(ws.root), "rev-parse", made.branch).strip() == made.commit
    message = git(Path(ws.root), "log", "-1", "--format=%B", made.commit)
    assert message.startswith("We found out\n\nPassdown-Express: k1 ")
    assert "Passdown-By: coder" in message
    (request,) = asked
    assert (request.branch, request.base) == ("passdown/express-k1", "main")
    assert made.pull_request == PullRequest(True, "https://example.com/1")
    assert [n.id for n in ws.knowledge.graph(types=["component"]).nodes] == ["New"]
    assert ws.verify().findings == ()


def test_a_commit_names_the_sender_and_the_agent_that_made_it(ws: Workspace) -> None:
    """As its author and its committer, and in the trailers and the pull request."""
    asked: list[PullRequestSpec] = []

    def ask(_: str, request: PullRequestSpec) -> PullRequest:
        asked.append(request)
        return PullRequest(True, "https://example.com/1")

    made = done(ws, knowledge(node("A"), id="k1", by="kim"), pull_request=ask)
    said = git(Path(ws.root), "log", "-1", "--format=%an, %cn%n%(trailers)", made.commit)
    names, *trailers = said.splitlines()
    assert names == "kim, coder"
    assert {"Passdown-By: kim", "Passdown-Carried-Out-By: coder"} <= set(trailers)
    assert "- by kim\n- carried out by coder\n" in asked[0].body


def test_the_agent_goes_through_its_states_without_planning(ws: Workspace) -> None:
    states = AgentStates(ws)
    assert done(ws, knowledge(node("A"), id="k1", by="kim")).agent == "coder"
    moves = [move for move in states.log("coder") if move["kind"] == "moved"]
    walked = [state for move in moves for state in move["path"]]
    assert walked == ["SETUP", "CODING", "DONE", "WAITING"]
    assert {move["run"] for move in moves} == {"express-k1"}
    assert [move["express"] for move in moves] == [True, True, False, False]
    assert states.current_lease("coder") is None
    assert [each.agent for each in states.agents()] == ["coder"]


def test_an_agent_that_is_busy_is_left_where_it_is(ws: Workspace) -> None:
    """Another of the item's agents takes it; with none, it waits."""
    states = AgentStates(ws)
    states.move("coder", "SETUP", "PLANNING")
    states.lease("other", "T-1")
    alone = hot_fix(id="h1", files={"a.txt": "x"}, agents=["coder", "other"])
    with pytest.raises(GateRefused, match="its agents are busy") as caught:
        carry_out(ws, alone)
    assert [problem.message for problem in caught.value.problems] == [
        "coder is in PLANNING",
        "other is in WAITING, on T-1",
    ]
    assert states.state("coder") == "PLANNING"
    assert states.current_lease("coder") is None
    assert express_record(ws, "h1").status == "sent"
    carried = done(ws, hot_fix(id="h2", files={"b": "x"}, agents=["coder", "other", "third"]))
    assert (carried.outcome, carried.agent) == ("done", "third")
    states.release("other")
    assert done(ws, alone).agent == "other"
    states.move("ann", "REQUEST", "WAITING", machine="architect")
    with pytest.raises(GateRefused) as caught:
        carry_out(ws, hot_fix(id="h3", files={"c": "x"}, agents="ann"))
    assert [problem.message for problem in caught.value.problems] == [
        "ann is in WAITING (architect)"
    ]


@pytest.mark.promise("S4-20")
def test_an_agent_that_works_in_a_run_is_busy(ws: Workspace) -> None:
    """While it has its turn: another takes the item, or it waits; afterwards the agent is free."""
    ws.create_task("T-1", title="Login", agent="kim")
    refused: list[str] = []
    taken: list[str] = []

    def works(_: AgentRequest) -> str:
        try:
            carry_out(ws, hot_fix(id="h1", files={"a.txt": "x"}))
        except GateRefused as error:
            refused.extend(problem.message for problem in error.problems)
        taken.append(done(ws, hot_fix(id="h2", files={"b": "x"}, agents=["coder", "two"])).agent)
        return reply()

    relay = check_relay(document(leg("code", "coder")))
    run = Runs(ws).start(relay, "T-1", by="kim", lane="here")
    runners: dict[str, Any] = {"coder": works}
    assert run_here(ws, run.run, runners=runners, waits=False).status == "completed"
    assert (refused, taken) == (["coder is in CODING, on T-1 in R-1"], ["two"])
    assert done(ws, hot_fix(id="h1", files={"a.txt": "x"})).agent == "coder"


PATCH = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"


@pytest.mark.promise("S4-24")
@pytest.mark.parametrize(
    ("item", "files"),
    [
        (hot_fix(files={"a.txt": "1\n", "src/b.py": "b\n"}), {"a.txt": "1\n", "src/b.py": "b\n"}),
        (hot_fix(patch=PATCH), {"a.txt": "one\n2\nthree\n"}),
        (hot_fix(type="HOT_FIX", kind="HOT_FIX", files={"a.txt": ""}), {"a.txt": ""}),
        (file_task(path="n.md", content="new\n"), {"n.md": "new\n"}),
        (
            file_task(path="a.txt", content="4\n", action="append"),
            {"a.txt": "one\ntwo\nthree\n4\n"},
        ),
        (file_task(path="a.txt", action="delete"), {"a.txt": None}),
        (file_task(path="t.txt", content="T", by="architect"), {"t.txt": "T"}),
    ],
)
def test_fixes_patches_files_and_changes_of_an_architect_go_one_way(
    ws: Workspace, item: Document, files: dict[str, str | None]
) -> None:
    item.pop("type", None)
    made = done(ws, item)
    assert made.outcome == "done"
    assert set(made.files) == set(files)
    listed = git(Path(ws.root), "ls-tree", "-r", "--name-only", made.commit).splitlines()
    for path, text in files.items():
        assert (path in listed) is (text is not None)
        assert text is None or at(ws, made.commit, path) == text
    author = git(Path(ws.root), "log", "-1", "--format=%an", made.commit).strip()
    assert author == item["by"]


@shape
class Bump(ExpressFields):
    """A kind of this test alone."""

    version: str = declare(TEXT)


@pytest.mark.promise("S4-24")
def test_a_new_kind_is_one_row(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def changes(content: Document) -> tuple[ExpressChange, ...]:
        return (ExpressChange("write", "VERSION", f"{content['version']}\n"),)

    row = ExpressKind(Bump, changes)
    monkeypatch.setitem(cast("dict[str, ExpressKind]", express.KINDS), "bump", row)
    made = done(ws, {"type": "BUMP", "by": "coder", "reason": "Release", "version": "1.2"})
    assert at(ws, made.commit, "VERSION") == "1.2\n"


@pytest.mark.promise("S4-25")
def test_an_item_that_fails_becomes_a_task_with_all_that_is_known(ws: Workspace) -> None:
    ws.create_task("T-1", title="Work", agent="planner")
    states = AgentStates(ws)
    item = hot_fix(id="h1", patch=PATCH.replace("-two", "-deux"), task="T-1")
    made = done(ws, item)
    assert (made.outcome, made.task, made.commit) == ("promoted", "express-h1", "")
    assert "a.txt" in made.why
    task = ws.task("express-h1")
    assert (task.phase, task.holder) == ("planning", "coder")
    for part in ("It is down", "T-1", "-deux", made.why):
        assert part in task.description
    assert made.code == "patch_failed"
    tries = express_record(ws, "h1").run.legs.values()
    assert [turn.outcome for turn in tries] == ["error"] * 3
    assert states.state("coder") == "WAITING"
    assert states.current_lease("coder") is None
    walked = [s for m in states.log("coder") if m["kind"] == "moved" for s in m["path"]]
    assert walked == ["SETUP", "CODING", "ERROR", "WAITING"]
    assert git(Path(ws.root), "branch", "--list", "passdown/*") == ""
    assert done(ws, item) == made
    assert len(ws.tasks()) == 2


@pytest.mark.promise("S4-25")
@pytest.mark.parametrize(
    ("item", "code"),
    [
        (hot_fix(files={"a.txt": "x"}, base="nowhere"), "unknown_base"),
        (file_task(path="no.txt", action="delete"), "unsafe_path"),
        (file_task(path="a.txt/b", content=""), "unsafe_path"),
        (knowledge(node("A"), file_path="broken.dot"), "invalid_input"),
        (
            knowledge(
                node("A"),
                {"source": "A", "relation": "uses", "target": "Nowhere"},
                action="replace",
            ),
            "invalid_input",
        ),
    ],
)
def test_whatever_it_fails_of_is_kept(ws: Workspace, item: Document, code: str) -> None:
    Path(ws.root, "broken.dot").write_text("digraph {")
    git(Path(ws.root), "add", "-A")
    git(Path(ws.root), "commit", "-q", "-m", "broken")
    made = done(ws, item)
    assert made.outcome == "promoted"
    assert made.code == code
    assert ws.task(made.task).title.startswith("Express work that failed")
    assert ws.knowledge.graph(types=["component"]).nodes == ()


def test_a_project_without_git_gets_a_task(tmp_path: Path) -> None:
    with passdown.open(new_folder(tmp_path / "plain"), settings=QUICK) as ws:
        ws.create_task("express-h1", title="In the way", agent="planner")
        made = done(ws, hot_fix(id="h1", files={"a": "x"}))
        assert (made.outcome, made.task) == ("promoted", "express-h1-2")
        assert "git" in made.why


def test_the_same_item_is_carried_out_once(ws: Workspace) -> None:
    item = hot_fix(files={"a.txt": "x\n"})
    first = done(ws, item)
    assert first.id.startswith("x")
    again = done(ws, {**item, "created": "2030-01-01T00:00:00Z"})
    assert again == first
    with pytest.raises(KeyReused):
        done(ws, {**item, "id": first.id, "reason": "Another"})
    assert [record.status for record in express_records(ws)] == ["done"]
    with pytest.raises(NotFound):
        express_record(ws, "no-such-item")
    with pytest.raises(InvalidInput):
        send(ws, hot_fix(files={"a": ""}, task="T-404"))
    assert send(ws, hot_fix(id="h2", files={"a": ""})).status == "sent"
    assert [record.item.id for record in express_records(ws, status="sent")] == ["h2"]


def test_a_branch_with_other_work_is_left_alone(ws: Workspace) -> None:
    folder = Path(ws.root)
    git(folder, "branch", "passdown/express-h1")
    git(folder, "commit", "-q", "--allow-empty", "-m", "moves on")
    git(folder, "branch", "passdown/express-h2")
    git(folder, "commit", "-q", "--allow-empty", "-m", "moves on")
    for name in ("h1", "h2"):
        tip = git(folder, "rev-parse", f"passdown/express-{name}")
        made = done(ws, hot_fix(id=name, files={"a.txt": "x\n"}))
        assert "already" in made.why
        assert git(folder, "rev-parse", f"passdown/express-{name}") == tip


def test_updates_of_one_file_are_merged_and_conflicts_told(ws: Workspace) -> None:
    """The second of two who know nothing of each other can't take the first one's words away."""
    done(ws, knowledge(node("A", "By ana"), id="k1", by="ana"))
    second = done(ws, knowledge(node("A", "By ben"), node("B"), id="k2", by="ben"))
    assert second.outcome == "done"
    (report,) = second.reports
    assert (report.path, report.code) == ("nodes.A", "conflict")
    assert "By ben" in report.message
    text = at(ws, second.commit, "knowledge.dot")
    assert "By ana" in text
    assert '"B"' in text
    assert '"Old"' in text
    summaries = {n.id: n.summary for n in ws.knowledge.graph(types=["component"]).nodes}
    assert summaries == {"A": "By ana", "B": "Something"}
    git(Path(ws.root), "merge", "-q", second.branch)
    third = done(ws, knowledge(node("A", "By cleo"), id="k3", by="cleo"))
    assert third.reports == ()
    assert "By cleo" in at(ws, third.commit, "knowledge.dot")


def test_replacing_tells_what_is_lost(ws: Workspace) -> None:
    made = done(ws, knowledge(node("A"), action="replace", file_path="knowledge.dot"))
    assert made.lost == ("Old",)
    assert [report.code for report in made.reports] == ["taken_out"]
    assert "Old" not in at(ws, made.commit, "knowledge.dot")
    assert "Old" in at(ws, f"{made.commit}^", "knowledge.dot")
    other = done(ws, knowledge(node("A"), action="replace", file_path="more/k.json"))
    assert at(ws, other.commit, "more/k.json").startswith("{")


def test_several_agents_at_once(ws: Workspace) -> None:
    results: list[Any] = []

    def work(number: int) -> None:
        item = knowledge(node(f"N{number}"), node("Shared", f"By {number}"), id=f"k{number}")
        results.append(done(ws, {**item, "agents": f"agent-{number}"}))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.outcome for result in results] == ["done"] * 5
    assert sum(len(result.reports) for result in results) == 4
    assert len({n.id for n in ws.knowledge.graph(types=["component"]).nodes}) == 6
    assert leftovers(Path(ws.root)) == []


class Interrupted(BaseException):
    """Like a kill, but for the locks."""


def test_what_changed_since_it_was_set_up_is_not_undone(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a newer commit, which it then starts from, nor what another took back."""

    def interrupt(*_: object) -> None:
        raise Interrupted

    folder = Path(ws.root)
    item = knowledge(node("A"), node("B"), id="k1")
    monkeypatch.setattr(RunAgents, "to_coding", interrupt)
    with pytest.raises(Interrupted):
        carry_out(ws, item)
    monkeypatch.undo()
    for name, value in ALONE.items():
        monkeypatch.setenv(name, value)
    ws.knowledge.add(agent="ana", forget_nodes=["A"])
    Path(folder, "knowledge.dot").write_text("digraph knowledge {\n}\n")
    git(folder, "commit", "-q", "-a", "-m", "moves on")
    head = git(folder, "rev-parse", "main")
    made = done(ws, item)
    assert git(folder, "rev-parse", f"{made.commit}^") == head
    assert '"Old"' not in at(ws, made.commit, "knowledge.dot")
    assert [n.id for n in ws.knowledge.graph(types=["component"]).nodes] == ["B"]


def test_a_commit_stands_though_its_branch_was_merged_and_taken_away(ws: Workspace) -> None:
    def ask(_: str, request: PullRequestSpec) -> PullRequest:
        git(Path(ws.root), "merge", "-q", request.branch)
        git(Path(ws.root), "branch", "-d", request.branch)
        raise Interrupted

    item = hot_fix(id="h1", files={"a.txt": "x\n"})
    with pytest.raises(Interrupted):
        done(ws, item, pull_request=ask)
    made = done(ws, item)
    assert git(Path(ws.root), "rev-parse", "main").strip() == made.commit
    assert git(Path(ws.root), "branch", "--list", "passdown/*") == ""


def test_a_request_that_goes_wrong_is_told_and_the_commit_stands(ws: Workspace) -> None:
    def ask(_: str, request: PullRequestSpec) -> PullRequest:
        raise OSError(f"no disk for {request.branch}")

    made = done(ws, hot_fix(id="h1", files={"a.txt": "x\n"}), pull_request=ask)
    assert made.outcome == "done"
    assert made.pull_request
    assert made.pull_request.problem == "no disk for passdown/express-h1"


@pytest.mark.promise("S4-25")
def test_an_item_that_failed_becomes_one_task_though_that_was_interrupted(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task was made, and its maker is gone before it could say so."""
    make = ws.create_task

    def make_and_stop(*args: Any, **fields: Any) -> Any:
        make(*args, **fields)
        raise Interrupted

    item = hot_fix(id="h1", patch=PATCH.replace("-two", "-deux"))
    monkeypatch.setattr(ws, "create_task", make_and_stop)
    with pytest.raises(Interrupted):
        done(ws, item)
    monkeypatch.undo()
    made = done(ws, item)
    assert made.outcome == "promoted"
    assert [task.task for task in ws.tasks()] == [made.task]


KILLED = knowledge(node("New"), {"source": "New", "relation": "uses", "target": "Old"}, id="k1")


def check_after_kill(folder: Path, commit: str) -> None:
    """Carried out again, there is one commit, one of each record, and nothing left behind."""
    with passdown.open(str(folder), settings=QUICK) as ws:
        states = AgentStates(ws)
        made = done(ws, KILLED)
        assert (made.outcome, made.commit) == ("done", commit)
        assert git(folder, "rev-list", "main..passdown/express-k1").split() == [commit]
        tries = express_record(ws, "k1").run.legs.values()
        assert [turn.outcome for turn in tries] == ["completed"]
        learned = [line.author for line in ws.log(limit=100) if line.kind == "learned"]
        assert sorted(learned) == ["coder", "planner"]
        assert states.state("coder") == "WAITING"
        assert states.current_lease("coder") is None
        assert ws.verify().findings == ()
    assert leftovers(folder) == []
    assert os.listdir(folder / ".passdown/express") == []
    assert git(folder, "status", "--porcelain") == ""


FAILING = hot_fix(id="h1", patch=PATCH.replace("-two", "-deux"))


def check_after_killed_failure(folder: Path, _: str) -> None:
    """It became one task, and its agent is free."""
    with passdown.open(str(folder), settings=QUICK) as ws:
        states = AgentStates(ws)
        made = done(ws, FAILING)
        assert (made.outcome, made.task) == ("promoted", "express-h1")
        assert [task.task for task in ws.tasks()].count("express-h1") == 1
        assert len(ws.tasks(with_workspace=True)) == 2
        assert states.state("coder") == "WAITING"
        assert states.current_lease("coder") is None
    assert leftovers(folder) == []
    assert git(folder, "branch", "--list", "passdown/*") == ""


CHECKS: dict[str, tuple[Document, Callable[[Path, str], None]]] = {
    "carried out": (KILLED, check_after_kill),
    "failing": (FAILING, check_after_killed_failure),
}


def run_kills(project: Path, tmp_path: Path, how: str, most: int) -> None:
    """Kill it while git runs and after it, before each record and after it; then carry it out."""
    with passdown.open(str(project), settings=QUICK) as ws:
        ws.knowledge.add([node("Old", "Was there")], agent="planner")
    item, check = CHECKS[how]
    whole = tmp_path / "whole"
    shutil.copytree(project, whole, symlinks=True)
    result = result_of(start(folder=str(whole), item=item))
    points = [(at, when) for at in range(1, result["calls"] + 1) for when in ("before", "after")]
    assert len(points) > 30
    for number, when in seeded("express").sample(points, min(most, len(points))):
        folder = tmp_path / f"{number}-{when}"
        shutil.copytree(project, folder, symlinks=True)
        worker = start(folder=str(folder), item=item, at=number, when=when)
        worker.communicate(timeout=240)
        assert worker.returncode == -signal.SIGKILL, (number, when)
        check(folder, result["commit"])


@pytest.mark.parametrize("how", CHECKS)
def test_a_killed_process_is_gone_on_from_wherever_it_was(
    project: Path, tmp_path: Path, how: str
) -> None:
    run_kills(project, tmp_path, how, 8)


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("how", CHECKS)
def test_a_killed_process_is_gone_on_from_everywhere(
    project: Path, tmp_path: Path, how: str
) -> None:
    run_kills(project, tmp_path, how, 1_000)


@given(st.data())
@settings(max_examples=example_count(15), deadline=None)
def test_an_update_loses_nothing_and_forgets_no_conflict(data: st.DataObject) -> None:
    """Each name has one meaning after it: the entry's, or the ledger's with a report."""
    names = st.sampled_from("ABC")
    nodes = st.builds(Node, names, st.just("component"), st.sampled_from(["x", "y", "z"]))
    edges = st.builds(Edge, names, st.just("uses"), st.just("file:a.py"))
    graphs = st.builds(graph_of, st.lists(nodes, max_size=4), st.lists(edges, max_size=1))
    file, entries, ledger = (data.draw(graphs) for _ in range(3))
    made = update_graph(file, entries, ledger, is_only=False)
    found = {n.id: n for n in made.file.nodes}
    known = {n.id: n for n in ledger.nodes}
    disputed = {report.path for report in made.reports}
    assert {n.id for n in (*file.nodes, *entries.nodes)} <= set(found)
    for entry in entries.nodes:
        if f"nodes.{entry.id}" in disputed:
            assert found[entry.id] == known[entry.id] != entry
        else:
            assert found[entry.id] == entry
    assert all(taken in entries.nodes for taken in made.nodes)
    only = update_graph(file, entries, ledger, is_only=True)
    assert only.file == entries
    assert {n.id for n in file.nodes} - {n.id for n in entries.nodes} <= set(only.lost)


DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_page_shows_what_its_example_does(project: Path) -> None:
    page = (DOCS / "express.md").read_text("utf-8")
    example = DOCS / "examples/express.py"
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert program == example.read_text("utf-8")
    run = [sys.executable, str(example)]
    printed = subprocess.run(run, cwd=project, capture_output=True, text=True, check=True).stdout
    (shown,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    assert re.sub("[0-9a-f]{40}", "COMMIT", printed) == shown


def test_the_page_names_every_kind_field_and_action() -> None:
    page = (DOCS / "express.md").read_text("utf-8")
    for word, kind in express.KINDS.items():
        for name in (word, word.upper(), *fields_of(kind.shape)):
            assert f"`{name}`" in page, name
    for word in (*express.KNOWLEDGE_ACTIONS, *express.FILE_ACTIONS, VARIABLE):
        assert f"`{word}`" in page, word


def earlier_item(ws: Workspace, name: str, *kinds: str) -> None:
    """An item as earlier versions recorded it: a stream of its own, and no run."""
    given = {"kind": "file_task", "by": "eva", "reason": "asked for", "id": name}
    sent = express_item({**given, "path": f"{name}.txt", "content": "two\n"}, now=NOW).to_dict()
    del sent["agents"]
    files = {"branch": f"passdown/express-{name}", "commit": "abc", "files": [f"{name}.txt"]}
    bodies: dict[str, dict[str, Any]] = {
        "sent": sent,
        "started": {"agent": "eva", "commit": "0", "into": "main", "needs": []},
        "committed": {**files, "reports": [], "lost": []},
        "done": {**files, "reports": [], "lost": [], "pull_request": None},
        "failed": {"why": "no branch", "code": "git", "state": "CODING", "evidence": "x"},
        "promoted": {"task": f"express-{name}"},
    }
    streams = WorkspaceStreams(ws)
    for kind in ("sent", *kinds):
        streams.add(StreamEntry(f"express/{name}", kind, "eva", bodies[kind], kind))


@pytest.mark.promise("P-4")
def test_items_of_earlier_versions_are_listed_and_open_ones_carried_out(ws: Workspace) -> None:
    earlier_item(ws, "e1", "started", "committed", "done")
    earlier_item(ws, "e2", "started", "failed", "promoted")
    earlier_item(ws, "e3", "started")
    found = {each.item.id: each for each in express_records(ws)}
    assert [(name, each.status) for name, each in found.items()] == [
        ("e1", "done"),
        ("e2", "promoted"),
        ("e3", "started"),
    ]
    assert found["e1"].result["commit"] == "abc"
    assert found["e1"].to_dict()["attempts"][0]["outcome"] == "completed"
    assert (found["e2"].run.promoted, found["e2"].why) == ("express-e2", "no branch")
    again = carry_out(ws, found["e1"].item.to_dict())
    assert (again.status, again.result["commit"]) == ("done", "abc")
    done = carry_out(ws, express_record(ws, "e3").item.to_dict())
    assert (done.status, done.run.run) == ("done", "express-e3")
    assert [each.status for each in express_records(ws)] == ["done", "promoted", "done"]

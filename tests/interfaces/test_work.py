"""`ready`, `start` and `passdown` alone: what to work on, taking it, where things stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.interfaces.running import Run

    Json = Callable[..., Any]


def new(cli: Run, task: str, *more: str) -> None:
    cli("task", "new", task, "--title", f"Title of {task}", "--agent", "ann", *more)


def ready(as_json: Json, agent: str) -> list[str]:
    return [entry["task"] for entry in as_json("ready", "--agent", agent)]


def test_a_task_waits_for_what_it_needs(project: Path, cli: Run, as_json: Json) -> None:
    """It isn't ready, can't be started, and is released once everything that it needs is done."""
    new(cli, "T-1")
    new(cli, "T-2", "--needs", "T-1")
    new(cli, "T-3", "--needs", "T-0")
    assert ready(as_json, "bob") == ["T-1"]
    refused = cli("start", "T-2", "--agent", "bob", code=1)
    assert "T-2 needs T-1, which is not completed" in refused.err
    cli("task", "done", "T-1", "--from", "ann")
    assert ready(as_json, "bob") == ["T-2"]
    assert "# T-2 for bob" in cli("start", "T-2", "--agent", "bob").out


def test_the_best_comes_first(project: Path, cli: Run, as_json: Json) -> None:
    """What one works on, what was handed to one, what others wait for, the oldest."""
    for task in ("T-1", "T-2", "T-3", "T-4"):
        new(cli, task)
    new(cli, "T-5", "--needs", "T-2")
    cli("handoff", "--task", "T-3", "--from", "ann", "--to", "bob", "--outcome", "completed")
    cli("start", "T-4", "--agent", "bob")
    assert ready(as_json, "bob") == ["T-4", "T-3", "T-2", "T-1"]
    assert ready(as_json, "cat") == ["T-2", "T-1"]
    whys = {entry["task"]: entry["why"] for entry in as_json("ready", "--agent", "bob")}
    assert whys == {"T-4": "begun", "T-3": "from ann", "T-2": "needed by 1", "T-1": ""}


def test_what_a_person_or_a_blocker_holds_is_not_ready(
    project: Path, cli: Run, as_json: Json
) -> None:
    """Nor is a task that is blocked, cancelled or completed."""
    for task in ("T-1", "T-2", "T-3", "T-4"):
        new(cli, task)
    cli(
        *("handoff", "--task", "T-1", "--from", "ann", "--outcome", "blocked"),
        *("--blocker", "no key", "--blocks", "T-2"),
    )
    cli("task", "set", "T-3", "--status", "cancelled", "--agent", "ann")
    (project / "gate.yaml").write_text(
        "task: T-4\nfrom_agent: ann\noutcome: partial\nnext_steps: [go on]\n"
        "blockers: [{blocker: is it legal, requires_human: true}]\n",
        "utf-8",
    )
    cli("handoff", "gate.yaml")
    assert ready(as_json, "bob") == []
    cli("gate", "approve", "T-4#k1", "--by", "kim", "--reason", "yes")
    cli("mark", "T-1#b1", "resolved", "--agent", "bob")
    assert sorted(ready(as_json, "bob")) == ["T-1", "T-2", "T-4"]


def test_one_task_is_one_agent_s(project: Path, cli: Run, as_json: Json) -> None:
    """Another is refused until the next handoff, unless it takes the task; twice is once."""
    new(cli, "T-1")
    cli("start", "T-1", "--agent", "ann")
    version = as_json("task", "show", "T-1")["version"]
    cli("start", "T-1", "--agent", "ann")
    assert as_json("task", "show", "T-1")["version"] == version
    assert ready(as_json, "bob") == []
    refused = cli("start", "T-1", "--agent", "bob", code=1)
    assert "ann works on T-1" in refused.err
    cli("start", "T-1", "--agent", "bob", "--take")
    assert as_json("task", "show", "T-1")["holder"] == "bob"
    cli("handoff", "--task", "T-1", "--from", "bob", "--to", "cat", "--outcome", "completed")
    cli("start", "T-1", "--agent", "cat")
    assert as_json("task", "show", "T-1")["claimed_by"] == "cat"
    cli("task", "set", "T-1", "--holder", "", "--agent", "cat")
    assert ready(as_json, "cat") == ["T-1"]


def test_a_title_makes_the_task(project: Path, cli: Run, as_json: Json) -> None:
    """Its id is made of the title, and no two are the same."""
    first = as_json("start", "Log out everywhere", "--agent", "bob")
    second = as_json("task", "new", "Log out everywhere", "--agent", "bob")
    assert first["is_new"]
    assert first["task"].startswith("log-out-everywhere-")
    assert second["task"].startswith("log-out-everywhere-")
    assert first["task"] != second["task"]
    assert as_json("task", "show", first["task"])["title"] == "Log out everywhere"
    assert as_json("task", "new", "Другая задача")["task"].startswith("task-")
    assert as_json("task", "new", "Tests", "--id", "T-7")["task"] == "T-7"
    assert "reads like an id" in cli("task", "new", "T-8", code=2).err


def test_one_word_that_is_no_task_makes_none(project: Path, cli: Run, as_json: Json) -> None:
    """It is as likely an id with a slip; what would have been right is said."""
    for word in ("T-8", "login", "OAuth2", "Логин", "C++", "workspace"):
        refused = cli("start", word, "--agent", "bob", code=1).err
        assert f"there is no task '{word}'" in refused
        assert "quote a title of several words" in refused
        assert "passdown task new" in refused
    assert as_json("task", "list") == []


def test_what_is_missing_can_t_be_started(project: Path, cli: Run) -> None:
    """The advice is a command that works: to start what is needed, or to make it."""
    new(cli, "T-1")
    new(cli, "T-2", "--needs", "T-1,add-login-page")
    refused = cli("start", "T-2", "--agent", "bob", code=1).err
    assert "passdown start T-1" in refused
    assert "passdown start add-login-page" not in refused
    assert "there is no task add-login-page" in refused
    assert "passdown task new 'TITLE' --id add-login-page" in refused


def test_without_a_name_the_best_is_taken(project: Path, cli: Run, as_json: Json) -> None:
    assert "nothing is ready" in cli("start", "--agent", "bob", code=1).err
    new(cli, "T-1")
    assert as_json("start", "--agent", "bob")["task"] == "T-1"


def test_who_loses_the_race_gets_the_next(
    project: Path, cli: Run, as_json: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another agent was quicker than this one, which then takes what is left."""
    for task in ("T-1", "T-2"):
        new(cli, task)
    listed = passdown.Workspace.tasks

    def quicker(self: passdown.Workspace, **given: Any) -> Any:
        found = listed(self, **given)
        for each in found[:1]:
            self.update_task(each.task, agent="cat", holder="cat")
        return found

    monkeypatch.setattr(passdown.Workspace, "tasks", quicker)
    assert as_json("start", "--agent", "bob")["task"] == "T-2"
    assert "nothing is ready" in cli("start", "--agent", "dan", code=1).err


def test_who_works_on_a_task_releases_it(project: Path, cli: Run, as_json: Json) -> None:
    """Another agent has to say that it takes it."""
    new(cli, "T-1")
    cli("start", "T-1", "--agent", "ann")
    refused = cli("task", "set", "T-1", "--holder", "", "--agent", "bob", code=1).err
    assert "ann works on T-1" in refused
    cli("task", "set", "T-1", "--holder", "", "--agent", "bob", "--take")
    assert ready(as_json, "bob") == ["T-1"]
    cli("start", "T-1", "--agent", "ann")
    cli("task", "set", "T-1", "--status", "cancelled", "--agent", "ann")
    cli("task", "set", "T-1", "--holder", "", "--agent", "ann")
    assert "T-1 is cancelled" in cli("start", "T-1", "--agent", "ann", code=1).err


def test_what_waits_is_shown_with_what_it_waits_for(project: Path, cli: Run, as_json: Json) -> None:
    """Another agent, another task: open all the same."""
    new(cli, "T-1")
    new(cli, "T-2", "--needs", "T-1,T-9")
    cli("handoff", "--task", "T-1", "--from", "ann", "--to", "coder", "--outcome", "completed")
    said = cli("status", "--agent", "bob").out
    assert "Nothing is open." not in said
    assert "Waiting\n  T-1  Title of T-1  (waits for coder)\n" in said
    assert "  T-2  Title of T-2  (waits for T-1, T-9)\n" in said
    waiting = as_json("status", "--agent", "coder")["waiting"]
    assert [(each["task"], each["why"]) for each in waiting] == [("T-2", "waits for T-1, T-9")]
    cli("start", "T-1", "--agent", "coder")
    assert [e["task"] for e in as_json("status", "--agent", "bob")["waiting"]] == ["T-2"]


def test_a_start_that_others_may_not_expect_is_warned_of(project: Path, cli: Run) -> None:
    """A task that was handed to another agent, or that a person's gate holds."""
    new(cli, "T-1")
    (project / "gate.yaml").write_text(
        "task: T-1\nfrom_agent: ann\nto_agent: coder\noutcome: partial\nnext_steps: [go on]\n"
        "blockers: [{blocker: is it legal, requires_human: true}]\n",
        "utf-8",
    )
    cli("handoff", "gate.yaml")
    said = cli("start", "T-1", "--agent", "bob").out
    assert "working on T-1 as bob\n  warning  holder: T-1 was handed to coder" in said
    assert "waits for a person: is it legal" in said


def test_done_is_done(project: Path, cli: Run, as_json: Json) -> None:
    """Completing a task again, with nothing to say, records nothing."""
    new(cli, "T-1")
    cli("task", "done", "T-1", "--from", "ann", "--summary", "it works")
    version = as_json("task", "show", "T-1")["version"]
    assert "was recorded already, T-1 version 2" in cli("task", "done", "T-1", "--from", "bob").out
    assert as_json("task", "show", "T-1")["version"] == version


def test_small_advice_is_right(project: Path, cli: Run) -> None:
    """What a refusal, an example or `init` says to type can be typed."""
    refused = cli(
        *("handoff", "--task", "T-1", "--from", "ann", "--outcome", "completed"),
        *("--stopped", "time"),
        code=1,
    ).err
    assert "Try: outcome partial, or leave stopped out" in refused
    for verb in ("export", "import"):
        examples = cli("help", verb).out.partition("examples:\n")[2].splitlines()
        assert examples
        assert all(example.startswith(f"  passdown {verb} ") for example in examples)
    assert "next: passdown start 'What has to be done'" in cli("init").out
    reserved = cli("task", "new", "All", "--id", "workspace", "--agent", "ann", code=1).err
    assert "what concerns all work is recorded there" in reserved
    cli("note", "fact", "port", "8080", "--agent", "ann")


def test_a_title_can_t_look_like_other_lines(project: Path, cli: Run) -> None:
    """It is on one line, and of a long one there is the beginning."""
    cli("task", "new", "Fix it\nWorked on\n  T-9  all of it  (bob)", "--agent", "ann")
    cli("task", "new", "long " + "title " * 1_000, "--agent", "ann")
    for verb in ("status", "ready"):
        said = cli(verb, "--agent", "ann").out
        assert "\nWorked on" not in said
        assert "Fix it Worked on T-9 all of it (bob)" in said
        assert all(len(line) < 400 for line in said.splitlines())


def test_passdown_alone_shows_where_things_stand(project: Path, cli: Run, as_json: Json) -> None:
    """What waits for a person, what is ready, what others do, the last handoffs, what is next."""
    assert "Nothing is open." in cli().out
    new(cli, "T-1")
    new(cli, "T-2")
    cli("start", "T-2", "--agent", "cat")
    cli("gate", "record", "T-1", "--name", "lint", "--failed", "--agent", "ann")
    cli(
        *("handoff", "--task", "T-1", "--from", "ann", "--to", "bob", "--outcome", "completed"),
        *("--summary", "half of it"),
    )
    said = cli("status", "--agent", "bob").out
    for text in (
        "T-1#k1  lint",
        "Ready for bob\n  T-1  Title of T-1  (from ann)",
        "Worked on\n  T-2  Title of T-2  (cat)",
        "half of it",
        "Next: passdown start T-1",
    ):
        assert text in said, text
    assert [entry["task"] for entry in as_json("status", "--agent", "bob")["ready"]] == ["T-1"]


def test_passdown_alone_outside_a_workspace_lists_the_verbs(
    tmp_path: Path, cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PASSDOWN_STORE", raising=False)
    assert "usage: passdown VERB" in cli().out


@pytest.fixture
def ws(tmp_path: Path, each_store: None) -> Iterator[passdown.Workspace]:
    with passdown.open(str(tmp_path)) as workspace:
        yield workspace


def test_both_stores_list_what_is_ready_alike(ws: passdown.Workspace) -> None:
    """Through Python, with the claim as a change of the task."""
    for task, needs in (("T-1", []), ("T-2", ["T-1"]), ("T-3", [])):
        ws.create_task(task, title=task, agent="ann", depends_on=needs)
    assert [each.task for each in ws.tasks(status="ready", agent="bob")] == ["T-1", "T-3"]
    ws.update_task("T-1", agent="ann", holder="ann")
    assert [each.task for each in ws.tasks(status="ready", agent="bob")] == ["T-3"]
    assert [each.task for each in ws.tasks(status="ready")] == ["T-1", "T-3"]
    with pytest.raises(InvalidInput, match="ann works on T-1"):
        ws.update_task("T-1", agent="bob", holder="bob")
    ws.hand_off(task="T-1", outcome="completed")
    assert [each.task for each in ws.tasks(status="ready", agent="bob")] == ["T-2", "T-3"]
    assert ws.create_task(title="Log in", agent="ann", key="k").task.startswith("log-in-")
    assert ws.create_task(title="Log in", agent="ann", key="k").is_replay
    assert ws.verify().ok


def test_long_lines_of_the_overview_continue_below_their_text(
    project: Path, cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("task", "new", "T-1", "--title", "word " * 30, "--agent", "a")
    monkeypatch.setattr("passdown.cli.output.terminal_width", lambda: 60)
    lines = cli("status", "--agent", "a").out.splitlines()
    at = lines.index("Ready for a")
    assert lines[at + 1].startswith("  T-1  word word")
    assert lines[at + 2].startswith("       word word")
    assert max(map(len, lines)) <= 60


def test_nothing_ready_says_what_is_in_the_way_and_how_to_settle_it(
    project: Path, cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSDOWN_AGENT", "ann")
    cli("task", "new", "T-1", "--title", "Login")
    cli("handoff", "--outcome", "blocked", "--blocker", "no key")
    assert "1 task is blocked or waiting for a person: passdown shows why" in cli("ready").out
    shown = cli("status").out
    assert "T-1  Login  (no key: passdown mark T-1#b1 resolved)" in shown
    assert "Next: passdown mark T-1#b1 resolved" in shown
    cli("mark", "b1", "resolved")
    assert "T-1" in cli("ready").out
    cli("handoff", "--outcome=partial", "--next=go", "--blocker=ship it?", "--requires-human")
    assert "Next: passdown gate approve T-1#k1 --by NAME" in cli("status").out
    assert "ann can continue" in cli("gate", "approve", "k1", "--by", "kim").out
    done = cli("task", "done").out
    assert "name T-1#n1 with --resolves" in done
    assert "recommended, missing: --summary\n" in done


def test_a_folder_without_a_workspace_says_how_to_make_one(
    tmp_path: Path, cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli().out.endswith("There is no workspace here yet: passdown init makes one.\n")
    assert "'x y' is none of its verbs (pattern, gotcha, fact)" in cli("note", "x y", code=2).err


@pytest.mark.parametrize(
    "last",
    [
        ("task", "done", "T-1"),
        ("handoff", "T-1", "--outcome", "completed"),
        ("handoff", "T-1", "--outcome", "completed", "--from", "ann"),
        ("handoff", "T-1", "--outcome", "completed", "--phase", "completed"),
    ],
    ids=lambda words: "-".join(words[-2:]),
)
def test_a_handoff_that_completes_its_task_now_is_no_repeat(
    project: Path, cli: Run, as_json: Json, last: tuple[str, ...]
) -> None:
    """The same was said while a blocker was open, or before the task was opened again."""
    new(cli, "T-1")
    cli(*("handoff", "T-1", "--outcome", "partial", "--next", "go on"), "--blocker", "no key::ask")
    assert "T-1 stays open" in cli("handoff", "T-1", "--outcome", "completed").out
    assert "was recorded already" in cli("handoff", "T-1", "--outcome", "completed").out
    cli("mark", "T-1#b1", "resolved", "--agent", "ann")
    for _ in range(2):
        assert "was recorded already" not in cli(*last).out
        assert as_json("task", "show", "T-1")["status"] == "completed"
        assert "was recorded already" in cli(*last).out
        cli("task", "set", "T-1", "--status", "open", "--agent", "ann")


def test_what_a_person_has_to_settle_is_offered_as_a_gate(project: Path, cli: Run) -> None:
    """Before and after a rejection, which gives the task back to its sender."""
    new(cli, "T-1")
    cli(
        *("handoff", "T-1", "--from", "ann", "--to", "bob", "--outcome", "blocked"),
        *("--blocker", "ship it?::ask", "--requires-human", "--next", "go on"),
    )
    offered = "Next: passdown gate approve T-1#k1 --by NAME"
    assert offered in cli().out
    assert "mark T-1#b1" not in cli().out
    cli("gate", "reject", "T-1#k1", "--by", "eve", "--reason", "not yet")
    assert offered in cli().out
    assert "mark T-1#b1" not in cli().out
    assert "was handed to" not in cli("start", "T-1", "--agent", "ann").out

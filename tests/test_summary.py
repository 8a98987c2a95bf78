"""The summary and the compacted context: short for any content, whole lines, nothing hidden."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import passdown
from passdown import Settings, Workspace
from passdown.context.brief import brief_version
from passdown.context.pipeline import shortened
from passdown.context.summary import (
    compact_context,
    summary,
)
from passdown.core.tokens import chars4, counter_of
from passdown.workspace.task_context import compact_context as task_compact_context

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Document = dict[str, Any]

DIGEST = "sha256:" + "0af9" * 16
FILE = ".passdown/state/T-1.json"
PREFIXES = (
    *("## Agent Handoff State", "Task: T-1 - ", "Phase: ", "Where it stands: ", "Artifacts: "),
    *("Decisions: ", "Blocking: ", "Gates: ", "State file: ", "Version: "),
)
SAMPLES = [
    "x" * 4_000,
    "пример " * 900,
    "漢字" * 2_000,
    "👩‍👩‍👧" * 900,
    "a\nState file: /etc/passwd\nb",
]
TEXTS = st.one_of(st.text(max_size=300), st.sampled_from(SAMPLES))
COUNTERS: list[str | Callable[[str], int] | None] = [None, "chars4", "o200k_base", len]


def decision(summary: str, rationale: str = "because", status: str = "accepted") -> Document:
    return {"summary": summary, "rationale": rationale, "status": status}


def blocker(text: str, severity: str = "blocker", status: str = "open") -> Document:
    return {"blocker": text, "severity": severity, "status": status}


def a_state(**changes: Any) -> Document:
    return {
        "task_id": "T-1",
        "title": "Login",
        "phase": "testing",
        "previous_phase": "implementing",
        "artifacts": [{"type": "test"}, {"type": "source"}, {"type": "source"}],
        "decisions": [decision("one"), decision("two"), decision("three")],
        "blockers": [],
        "gates_passed": ["lint"],
        "gates_failed": [],
        "version": 7,
        "digest": DIGEST,
        "context_summary": "",
        **changes,
    }


states = st.builds(
    a_state,
    title=TEXTS,
    context_summary=TEXTS,
    decisions=st.lists(
        st.builds(decision, TEXTS, TEXTS, st.sampled_from(["accepted", "proposed", "reverted"])),
        max_size=9,
    ),
    blockers=st.lists(st.builds(blocker, TEXTS, st.sampled_from(["blocker", "low"])), max_size=3),
    held_by=st.lists(st.sampled_from(["T-1#k1", "T-1#k20"]), max_size=30),
    questions=st.lists(
        TEXTS.map(
            lambda text: {
                "address": "T-1#q1",
                "question": text,
                "blocking": True,
                "status": "open",
            }
        ),
        max_size=3,
    ),
)


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    """A workspace that takes files which aren't on disk."""
    return passdown.open(str(tmp_path), settings=Settings(artifacts_on_disk=False))


@pytest.mark.promise("S1-10")
def test_the_summary_has_a_line_for_each_thing_a_receiver_asks() -> None:
    """Task, phases, files by type, the last two live decisions, gates, file, version."""
    decisions = [decision("one"), decision("x" * 90), decision("two", status="superseded")]
    state = a_state(decisions=[*decisions, decision("three")], blockers=[blocker("no key")])
    state["artifacts"] = [{"type": kind} for kind in ("test", "source", "doc", "config", "test")]
    assert summary(state, FILE).splitlines() == [
        "## Agent Handoff State",
        "Task: T-1 - Login",
        "Phase: testing (from: implementing)",
        "Artifacts: 5 files (config, doc, source, test)",
        f"Decisions: {'x' * 59}…; three",
        "Blocking: 1 blocker(s): no key",
        "Gates: 1 passed, 0 failed",
        f"State file: {FILE}",
        f"Version: 7 ({DIGEST})",
    ]
    fresh = a_state(previous_phase=None, decisions=[], artifacts=[])
    lines = summary(fresh, FILE).splitlines()
    assert lines[2:6] == [
        "Phase: testing (from: start)",
        "Artifacts: 0 files",
        "Decisions: None",
        "Blocking: None",
    ]


@pytest.mark.promise("S1-10")
def test_nobody_comes_from_the_phase_that_they_are_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A handoff that states the phase again shows no phase before, wherever it is shown."""
    from passdown.cli.main import main

    monkeypatch.chdir(tmp_path)
    with passdown.init(str(tmp_path)) as ws:
        ws.create_task("T-1", title="Login", agent="planner")
        given: Document = {"task": "T-1", "phase": "implementing", "outcome": "completed"}
        texts: list[str] = []
        for author, to in (("planner", "coder"), ("coder", "tester")):
            command = ws.hand_off({**given, "from_agent": author, "to_agent": to})
            texts.append(command.context_summary)
        texts.append(task_compact_context(ws._context, "T-1"))  # pyright: ignore[reportPrivateUsage]
        texts.append(ws.brief("T-1", agent="coder", budget=500).text)
    assert main(["state", "T-1"]) == 0
    first, *later = [*texts, capsys.readouterr().out]
    assert "Phase: implementing (from: planning)\n" in first
    for text in later:
        assert "implementing" in text.lower()
        assert "(from" not in text


@pytest.mark.promise("S1-11")
@given(states, st.integers(0, 600))
def test_the_same_state_gives_the_same_summary(state: Document, budget: int) -> None:
    """Nothing but the state decides: not the order of keys, not the order of the types."""
    other: Document = json.loads(json.dumps(state))
    other["artifacts"].reverse()
    again = {name: other[name] for name in reversed(list(other))}
    assert summary(state, FILE, budget) == summary(again, FILE, budget)


@pytest.mark.promise("S1-11")
def test_issues_below_blocker_are_mentioned() -> None:
    """Only a task without open issues says None."""
    state = a_state(blockers=[blocker("slow tests", "low"), blocker("old", status="resolved")])
    found = "\nBlocking: 1 blocker of low severity: slow tests\n"
    assert found in summary(state, FILE)
    two = a_state(blockers=[blocker("slow tests", "low"), blocker("no docs", "medium")])
    found = "\nBlocking: 2 blockers of low, medium severity: slow tests\n"
    assert found in summary(two, FILE)
    both = a_state(blockers=[blocker("slow tests", "medium"), blocker("no key")])
    found = "\nBlocking: 1 blocker(s): no key; 1 less severe: slow tests\n"
    assert found in summary(both, FILE)


def question(text: str, ordinal: int = 1, **changes: Any) -> Document:
    address = f"T-1#q{ordinal}"
    return {"address": address, "question": text, "blocking": True, "status": "open", **changes}


@pytest.mark.promise("S1-11")
def test_a_blocking_question_is_in_the_way_too() -> None:
    """One that is open and blocks; the others are no obstacle."""
    asked = question("Which region?", 3)
    others = [question("Tabs?", 1, blocking=False), question("Old?", 2, status="answered")]
    state = a_state(questions=[*others, asked])
    assert "\nBlocking: question q3: Which region?\n" in summary(state, FILE)
    assert "\nBlocking: question q3: Which region?\n" in compact_context(state) + "\n"
    assert "\nBlocking: None\n" in summary(a_state(questions=others), FILE)
    both = a_state(blockers=[blocker("no key")], questions=[asked, question("Why?", 4)])
    found = "\nBlocking: 1 blocker(s): no key; question q3 (and 1 more): Which region?\n"
    assert found in summary(both, FILE)


@pytest.mark.promise("S1-11")
def test_a_handoffs_summary_names_the_question_that_blocks(ws: Workspace) -> None:
    """Whether the handoff brought it, repeats it, or says nothing of questions."""
    ws.create_task("T-1", title="Login", agent="planner")
    asked = {"question": "Which region?", "blocking": True}
    plain: Document = {"task": "T-1", "outcome": "completed"}
    turns = [
        {"from_agent": "a", "to_agent": "b", "open_questions": [asked]},
        {"from_agent": "b", "to_agent": "c", "summary": "no word of it"},
        {"from_agent": "c", "to_agent": "d", "open_questions": [asked]},
    ]
    for turn in turns:
        command = ws.hand_off({**plain, **turn})
        assert "\nBlocking: question q1: Which region?\n" in command.context_summary
        assert ws.context.summary("T-1") == command.context_summary
    done = ws.hand_off({**plain, "from_agent": "d", "to_agent": "e", "resolves": ["T-1#q1"]})
    assert "\nBlocking: None\n" in done.context_summary


@pytest.mark.promise("S1-9")
@given(states, st.integers(-5, 600), st.sampled_from(COUNTERS))
def test_a_summary_is_never_longer_than_asked_and_made_of_whole_lines(
    state: Document, budget: int, counter: str | Callable[[str], int] | None
) -> None:
    """By every counter; nothing is cut in the middle of a line, and the file's line is the last
    to go.
    """
    text = summary(state, FILE, budget, counter)
    count = counter_of(counter, "chars4").tokens
    assert text == "" or count(text) <= budget
    if text not in ("", "…", FILE):
        lines = text.split("\n")
        assert f"State file: {FILE}" in lines
        order = [next(i for i, p in enumerate(PREFIXES) if line.startswith(p)) for line in lines]
        assert order == sorted(set(order))
    elif count(f"State file: {FILE}") <= budget:
        pytest.fail("there was room for the state file")


@pytest.mark.promise("S1-9")
@given(states, st.sampled_from(["chars4", "o200k_base"]))
def test_more_room_never_shows_fewer_lines(state: Document, counter: str) -> None:
    """A larger budget keeps every line that a smaller one had."""
    counts = [summary(state, FILE, n, counter).count("\n") for n in range(0, 700, 35)]
    assert counts == sorted(counts)
    assert counts[-1] == len(PREFIXES) - (1 if state["context_summary"] else 2)


def test_characters_outside_the_basic_plane_count_twice() -> None:
    """Four UTF-16 units are a token, as in the counter of that name."""
    state = a_state(title="👍" * 120, decisions=[decision("👍" * 60)] * 2)
    whole = summary(state, FILE, 10_000)
    needed = chars4(whole)
    assert summary(state, FILE, needed) == whole
    assert needed > -(-len(whole) // 4)
    shorter = summary(state, FILE, needed - 1)
    assert shorter != whole
    assert chars4(shorter) < needed


def test_a_cut_leaves_no_half_of_an_escape() -> None:
    """What is cut ends before an escape, not within it."""
    assert shortened("ab\u202ecd", 20) == "ab\\u202ecd"
    assert [shortened("ab\u202ecd", n) for n in range(5, 9)] == ["ab…"] * 4


@pytest.mark.promise("S1-12")
def test_fifty_files_and_twenty_decisions_take_less_than_2000_characters(ws: Workspace) -> None:
    """The command and the task's summary alike."""
    ws.create_task("T-1", title="t" * 300, agent="planner")
    command = ws.hand_off(
        {
            "task": "T-1",
            "from_agent": "planner",
            "to_agent": "coder",
            "outcome": "completed",
            "artifacts": [{"path": f"src/{'deep/' * 9}f{n}.py"} for n in range(50)],
            "decisions": [{"summary": "s" * 300, "rationale": "r" * 900} for _ in range(20)],
        }
    )
    for text in (command.context_summary, ws.context.summary("T-1")):
        assert "50 files (source)" in text
        assert len(text) < 2_000
        assert counter_of("o200k_base").tokens(text) < 500


@pytest.mark.promise("S1-9", "S1-13")
def test_a_huge_task_has_a_small_summary(ws: Workspace) -> None:
    """10,000 files, 1,000 decisions and a title in another script, through the workspace."""
    ws.create_task("T-1", title="設計と実装 " * 400, agent="planner")
    ws.hand_off(
        {
            "task": "T-1",
            "from_agent": "planner",
            "to_agent": "coder",
            "outcome": "completed",
            "artifacts": [{"path": f"src/f{n}.py"} for n in range(10_000)],
            "decisions": [
                {"summary": f"決定 {n} " * 40, "rationale": f"理由{n}" * 200} for n in range(1_000)
            ],
            "blockers": [{"blocker": f"許可 {n} " * 50, "requires_human": True} for n in range(30)],
        }
    )
    for budget in (500, 200, 60, 20):
        text = ws.context.summary("T-1", budget)
        assert 0 < chars4(text) <= budget
        assert FILE in text
    assert "10000 files (source)" in ws.context.summary("T-1")
    assert "T-1#k1, T-1#k2 and 28 more" in ws.context.summary("T-1")
    text = task_compact_context(ws._context, "T-1")  # pyright: ignore[reportPrivateUsage]
    assert len(text) <= 2_000
    assert "995 decisions, earlier" in text
    assert "決定 999" in text


@pytest.mark.promise("S1-9")
def test_what_is_stored_of_a_long_summary_fits_by_the_workspace_s_counter_too(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whatever counter a handoff names: the next reader counts by the workspace's."""
    from passdown.cli.main import main

    ws.create_task("T-1", title="t", agent="planner")
    words = "ንድፍና ትግበራ " * 200
    given = tmp_path / "am.json"
    given.write_text(json.dumps({"task": "T-1", "outcome": "completed", "summary": words}), "utf-8")
    monkeypatch.chdir(ws.root)
    assert main(["handoff", str(given), "--counter", "chars4"]) == 0
    said = ws.files.state_document("T-1")["context_summary"]
    assert len(said) > 100
    assert counter_of("o200k_base").tokens(said) <= 500
    assert chars4(said) <= 500


@pytest.mark.promise("S1-9")
@pytest.mark.parametrize("counter", ["o200k_base", "cl100k_base", "chars4"])
def test_the_command_keeps_its_limit_by_the_counter_that_is_named(
    ws: Workspace, counter: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from passdown.cli.main import main

    ws.create_task("T-1", title="ንድፍና ትግበራ " * 100, agent="planner")
    monkeypatch.chdir(ws.root)
    for budget in (500, 100, 40):
        capsys.readouterr()
        assert main(["summary", "T-1", "--budget", str(budget), "--counter", counter]) == 0
        assert 0 < counter_of(counter).tokens(capsys.readouterr().out.rstrip("\n")) <= budget


@pytest.mark.promise("S1-9")
def test_as_many_files_again_take_about_as_long(tmp_path: Path) -> None:
    """4,000 files on top of 4,000 others: the work grows with them, not with their square."""
    settings = Settings(artifacts_on_disk=False, durability="normal", embedder="none")
    spent: list[float] = []
    with passdown.open(str(tmp_path), settings=settings) as ws:
        ws.create_task("T-1", title="t", agent="a")
        for part in ("a", "b", "c"):
            files = [{"path": f"src/{part}{n}.py"} for n in range(4_000)]
            began = time.process_time()
            ws.hand_off(task="T-1", outcome="completed", from_agent="a", artifacts=files)
            spent.append(time.process_time() - began)
    assert max(spent[1:]) < 3 * spent[0]


@pytest.fixture(scope="module")
def huge(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Scripts that take many tokens for few characters; 10,000 files and 1,000 decisions."""
    folder = tmp_path_factory.mktemp("huge")
    texts = ("ንድፍና ትግበራ ", "การออกแบบ ", "設計と実装 ", "👩‍👩‍👧‍👦 ", "дизайн ")
    settings = Settings(artifacts_on_disk=False, durability="normal", embedder="none")
    with passdown.open(str(folder), settings=settings) as ws:
        for number, text in enumerate(texts):
            files = 10_000 if number == 0 else 100
            ws.create_task(f"T-{number}", title=text * 100, agent="planner")
            ws.hand_off(
                task=f"T-{number}",
                outcome="partial",
                to_agent="coder",
                summary=text * 50,
                artifacts=[{"path": f"src/{text.strip()}{n}.py"} for n in range(files)],
                decisions=[
                    {"summary": f"{text * 20} {n}", "rationale": text * 20}
                    for n in range(files // 10)
                ],
                blockers=[{"blocker": f"{text * 20} {n}"} for n in range(30)],
                suggested_next_steps=[{"step": text * 20}],
            )
    return str(folder)


@pytest.mark.promise("S1-9")
@pytest.mark.parametrize("counter", ["chars4", "o200k_base", "cl100k_base"])
def test_through_the_api_a_summary_keeps_its_limit_by_every_counter(
    huge: str, counter: str
) -> None:
    """By the workspace's counter, by one that is given, and by a function; 500 by default."""

    def every_byte(text: str) -> int:
        return len(text.encode())

    count = counter_of(counter).tokens
    with passdown.open(huge, settings=Settings(counter=counter)) as ws:
        for task in (f"T-{number}" for number in range(5)):
            assert 0 < count(ws.context.summary(task)) <= 500
            for budget in (400, 100, 40, 10, 1):
                assert count(ws.context.summary(task, budget)) <= budget
                own = ws.context.summary(task, budget, counter=every_byte)
                assert every_byte(own) <= budget
    with passdown.open(huge, settings=Settings(counter="chars4")) as ws:
        assert count(ws.context.summary("T-0", 100, counter=counter)) <= 100


@pytest.mark.promise("S1-36")
def test_summary_and_file_name_the_same_version(ws: Workspace, tmp_path: Path) -> None:
    """Both are made from one version; a summary that was overtaken is recognised."""
    ws.create_task("T-1", title="Login", agent="planner")
    handoff = {"task": "T-1", "from_agent": "planner", "to_agent": "coder", "outcome": "completed"}
    command = ws.hand_off(handoff)
    for text in (command.context_summary, ws.context.summary("T-1")):
        state = passdown.read_state_file((tmp_path / FILE).read_text("utf-8"))
        assert brief_version(text) == (state["version"], state["digest"]) == (2, command.digest)
        assert ws.context.check("T-1", text).is_current
    ws.decide(task="T-1", agent="coder", summary="JWT", rationale="stateless")
    assert ws.context.check("T-1", command.context_summary) == (False, 2, 3)
    state = passdown.read_state_file((tmp_path / FILE).read_text("utf-8"))
    assert brief_version(ws.context.summary("T-1")) == (state["version"], state["digest"])


def decision_lines(decisions: list[Document]) -> list[str]:
    """The lines of a compacted context from its decisions on."""
    lines = compact_context(a_state(decisions=decisions)).splitlines()
    return lines[next(n for n, line in enumerate(lines) if line.startswith("Decisions")) :]


@pytest.mark.promise("S1-13")
def test_the_last_five_decisions_keep_their_reasons() -> None:
    """Rationale is cut at 100 characters with a mark; the older ones are counted and named."""
    decisions = [decision(f"choice {n}", f"{n}" * 150) for n in range(1, 9)]
    lines = decision_lines([*decisions, decision("dead", status="reverted")])
    assert lines[1:6] == [f"- choice {n} (why: {f'{n}' * 100}…)" for n in range(4, 9)]
    assert lines[6] == (
        "- 4 decisions, earlier or no longer in force (choice 1; choice 2; choice 3), left out: "
        "passdown state T-1 --json"
    )
    assert len(lines) == 7
    exact = decision_lines([decision("a", "r" * 100)])
    assert exact == ["Decisions:", f"- a (why: {'r' * 100})"]
    assert decision_lines([]) == ["Decisions: None"]


@pytest.mark.promise("S1-13")
@given(states, st.integers(0, 10**9))
def test_a_compacted_context_has_at_most_2000_characters(state: Document, total: int) -> None:
    """For any content, with the current phase, the last five decisions, and no broken line."""
    text = compact_context({**state, "totals": {"decisions": total}})
    assert len(text) <= 2_000
    lines = text.split("\n")
    assert lines[1] == "Phase: testing (from: implementing), version 7"
    live = [d for d in state["decisions"] if d["status"] != "reverted"]
    assert sum(line.startswith("- ") for line in lines) == min(len(live), 5) + (
        max(total, len(state["decisions"])) > min(len(live), 5)
    )


@given(states, st.integers(0, 400))
def test_a_compacted_context_obeys_a_counter_and_says_what_it_cut(
    state: Document, budget: int
) -> None:
    """With too little room whole lines go, and the text says so."""
    whole = compact_context(state)
    text = compact_context(state, counter="o200k_base", max_tokens=budget)
    assert text == "" or counter_of("o200k_base").tokens(text) <= budget
    assert text in ("", whole) or "…" in text


@pytest.mark.promise("S1-13")
def test_compaction_reads_only_decisions_that_hold(ws: Workspace) -> None:
    """Through the workspace: reverted and superseded decisions are counted, not shown."""
    ws.create_task("T-1", title="Login", agent="planner")
    for n in range(1, 10):
        ws.decide(task="T-1", agent="planner", summary=f"choice {n}", rationale=f"reason {n}")
    ws.set_status("T-1#d9", "reverted", agent="planner", reason="no")
    ws.decide(
        agent="planner", summary="for all", rationale="anew", supersedes=["T-1#d8"], task=None
    )
    text = task_compact_context(ws._context, "T-1")  # pyright: ignore[reportPrivateUsage]
    assert [n for n in range(1, 10) if f"reason {n}" in text] == [3, 4, 5, 6, 7]
    assert "4 decisions, earlier" in text
    assert "Phase: planning (from: start)" in text
    with pytest.raises(passdown.errors.NotFound):
        task_compact_context(ws._context, "T-9")  # pyright: ignore[reportPrivateUsage]


@pytest.mark.promise("S1-37")
def test_the_example_agent_reads_the_summary_then_the_state_and_hands_on(
    tmp_path: Path, project_root: Path
) -> None:
    """docs/examples/reading_agent.py works in an empty folder."""
    example = project_root / "docs" / "examples" / "reading_agent.py"
    done = subprocess.run(
        [sys.executable, str(example)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    printed = done.stdout.splitlines()
    assert printed[0].endswith("characters: T-1 - Key-value store")
    assert printed[1:] == ["loaded version 3: Write find()", "handed to qa, phase testing"]
    with passdown.open(str(tmp_path)) as ws:
        assert [entry.task for entry in ws.inbox("qa")] == ["T-1"]
        state = ws.files.state_document("T-1")
        assert [entry["path"] for entry in state["artifacts"]] == ["store.py", "test_store.py"]
        assert state["next_steps"][0]["status"] == "done"

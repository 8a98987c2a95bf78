"""Switches of agents, through the door: one profile each, at most three summaries, and a brief."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import passdown
from passdown.core.settings import Settings
from passdown.errors import InvalidInput, NotFound
from tests.processes import run_python
from tests.sizes import example_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from passdown import Workspace

NAMES = ("planner", "coder", "tester", "reviewer", "writer", "release")
SUMMARY = 500
FULL_BRIEF = 600


def profile(name: str) -> str:
    """A profile with lines that stand in no other."""
    lines = [f"{name} rule {number}: {name} alone does this, and never that" for number in range(9)]
    return "\n".join([f"# I am the {name}", *lines, f"tools: {name}-hammer, {name}-saw", ""])


def write_profiles(root: Path) -> None:
    (root / "agents").mkdir()
    for name in NAMES:
        (root / "agents" / f"{name}.md").write_text(profile(name), "utf-8")


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    write_profiles(tmp_path)
    with passdown.open(str(tmp_path)) as opened:
        opened.create_task("T-1", title="Invoices as CSV", agent="planner")
        yield opened


def hand(workspace: Workspace, agent: str, to: str, number: int, size: int = 2) -> None:
    """One real turn, with texts that tell it from every other."""
    workspace.hand_off(
        {
            "task": "T-1",
            "from_agent": agent,
            "to_agent": to,
            "outcome": "partial",
            "summary": f"turn {number} of {agent} is over",
            "decisions": [
                {"summary": f"choice {number}.{index} of {agent}", "rationale": "it holds longer"}
                for index in range(size)
            ],
            "blockers": [{"blocker": f"question {number} is open", "suggested_resolution": "ask"}],
            "suggested_next_steps": [{"step": f"go on with part {number}"}],
            "story": {"id": "7.3", "path": "docs/7.3.md", "branch": "feature/csv"},
        }
    )


def profiles_in(text: str) -> list[str]:
    """Whose profile a text holds, in whole or in any line of it."""
    return [
        name for name in NAMES if any(line in text for line in profile(name).splitlines() if line)
    ]


def play(workspace: Workspace, chain: Sequence[str], budget: int | None = None) -> list[Any]:
    found: list[Any] = []
    for number, agent in enumerate(chain):
        if number:
            hand(workspace, chain[number - 1], agent, number)
        found.append(workspace.switch("T-1", to_agent=agent, budget=budget))
    return found


def _no_repeats(chain: Sequence[str]) -> list[str]:
    return [name for index, name in enumerate(chain) if index == 0 or chain[index - 1] != name]


CHAINS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=30).map(_no_repeats)


@pytest.mark.promise("S2-7", "S2-8", "S2-9", "S2-10")
@settings(max_examples=example_count(6))
@given(chain=CHAINS, budget=st.sampled_from([None, 60, 300, 3_000]))
def test_any_chain_of_switches_holds_one_profile(chain: list[str], budget: int | None) -> None:
    with TemporaryDirectory() as folder:
        write_profiles(Path(folder))
        with passdown.open(folder) as workspace:
            workspace.create_task("T-1", title="Invoices as CSV", agent=chain[0])
            for agent, found in zip(chain, play(workspace, chain, budget), strict=True):
                assert found.text.startswith(profile(agent))
                assert profiles_in(found.text) == [agent]
                assert found.text.count(profile(agent)) == 1
                assert len(found.summaries) <= 3
                assert found.parts["summaries"] <= 3 * SUMMARY
                added = found.tokens - found.parts["profile"]
                assert added <= (budget or FULL_BRIEF) + 8


@pytest.mark.promise("S2-9", "S2-15", "P-12")
def test_fifty_switches_add_no_more_than_three_summaries_and_a_brief(workspace: Workspace) -> None:
    chain = [NAMES[index % len(NAMES)] for index in range(50)]
    found = play(workspace, chain)
    most = max(switched.parts["profile"] for switched in found)
    assert all(s.tokens <= most + 3 * SUMMARY + s.brief.budget for s in found)
    assert found[-1].tokens <= found[9].tokens * 1.1
    assert all(s.brief.tokens <= s.brief.budget <= 600 for s in found)


@pytest.mark.promise("S2-27")
def test_a_switch_writes_nothing_outside_of_the_runtime_folder(
    workspace: Workspace, tmp_path: Path
) -> None:
    """Whatever it writes, artifacts and records, is beneath `.passdown`; what else is in the
    project, profiles too, stays as it is to the byte.
    """
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("words\n", "utf-8")

    def outside() -> dict[str, tuple[bytes, int]]:
        paths = [path for path in tmp_path.rglob("*") if path.is_file()]
        found = {str(path.relative_to(tmp_path)): path for path in paths}
        return {
            name: (path.read_bytes(), path.stat().st_mtime_ns)
            for name, path in found.items()
            if not name.startswith(".passdown/")
        }

    before = outside()
    found = play(workspace, NAMES[:4])
    assert all(switched.artifact_file for switched in found[1:])
    assert outside() == before
    assert Path(workspace.root, ".passdown", "handoffs", found[-1].artifact_file).is_file()


@pytest.mark.promise("S2-31")
@pytest.mark.parametrize("ending", ["\n", "\r\n", ""])
def test_through_the_api_a_subagent_gets_persona_and_task_unchanged(
    workspace: Workspace, tmp_path: Path, ending: str
) -> None:
    """A long persona, its line endings and spaces, and a task with marks of every kind; nothing of
    a switch, no summary and no brief, comes with them.
    """
    persona = ending.join([f"# Coder {number}  \tändert \u200b nichts" for number in range(900)])
    file = next(
        path for path in tmp_path.rglob("coder.md") if ".passdown/handoffs" not in str(path)
    )
    file.write_bytes(persona.encode())
    task = f"  {{persona}} $(rm) ```{ending}# Heading\x7f {'word ' * 4_000}{ending} "
    play(workspace, ["planner", "coder"])
    prompt = workspace.context.subagent_prompt("coder", task)
    assert prompt.startswith(persona)
    assert prompt.endswith(task)
    assert len(prompt) == len(persona) + len(task) + 2
    with pytest.raises(NotFound, match="planner"):
        workspace.context.subagent_prompt("nobody", task)


@pytest.mark.promise("S2-10")
def test_the_fourth_switch_drops_the_oldest_summary(workspace: Workspace) -> None:
    found = play(workspace, NAMES[:5])
    assert [len(switched.summaries) for switched in found] == [0, 1, 2, 3, 3]
    assert [name.split("-to-")[0] for name in found[3].summaries] == [
        "handoff-planner",
        "handoff-coder",
        "handoff-tester",
    ]
    assert found[4].summaries == (*found[3].summaries[1:], found[4].artifact_file)
    assert "From planner to coder" in found[3].text
    assert "From planner to coder" not in found[4].text
    kept = {path.name for path in Path(workspace.root, ".passdown", "handoffs").iterdir()}
    assert set(found[3].summaries) <= kept


@pytest.mark.promise("S2-10")
def test_an_agent_that_returns_gets_its_own_profile_again(workspace: Workspace) -> None:
    *_, back = play(workspace, ["planner", "coder", "planner"])
    assert back.text.startswith(profile("planner"))
    assert profiles_in(back.text) == ["planner"]
    assert back.summaries == (back.artifact_file,)
    assert back.from_agent == "coder"
    assert "From coder to planner" in back.text
    assert "From planner" not in back.text


@pytest.mark.promise("S2-16")
def test_what_matters_is_in_the_text_or_behind_what_it_names(workspace: Workspace) -> None:
    last = play(workspace, [*NAMES, *NAMES])[-1]
    for words in ("7.3", "docs/7.3.md", "feature/csv", "question 11 is open", "go on with part 11"):
        assert words in last.text
    assert "passdown state T-1" in last.text
    state = json.dumps(workspace.files.state_document("T-1"))
    chain = [*NAMES, *NAMES]
    for number in range(1, len(chain)):
        for index in range(2):
            assert f"choice {number}.{index} of {chain[number - 1]}" in state


@pytest.mark.promise("S2-14")
def test_two_switches_in_one_second_overwrite_nothing(tmp_path: Path) -> None:
    moment = datetime(2026, 3, 1, 12, tzinfo=UTC)
    with passdown.open(str(tmp_path), clock=lambda: moment) as workspace:
        workspace.create_task("T-1", title="Invoices", agent="planner")
        names: list[str] = []
        texts: dict[str, str] = {}
        for number in range(3):
            for agent, to in (("planner", "coder"), ("coder", "planner")):
                hand(workspace, agent, to, number)
                names.append(workspace.switch("T-1", to_agent=to).artifact_file)
                file = tmp_path / ".passdown" / "handoffs" / names[-1]
                texts[names[-1]] = file.read_text("utf-8")
        assert len(set(names)) == 6
        for name, text in texts.items():
            assert (tmp_path / ".passdown" / "handoffs" / name).read_text("utf-8") == text
            assert name.startswith("handoff-")
            assert "20260301T120000.000000Z" in name


def elsewhere(root: str, source: str) -> Any:
    """What a Python program prints as JSON, run in a new process in a project."""
    done = run_python(
        [sys.executable, "-c", f"import json, passdown\nws = passdown.open('.')\n{source}"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(Path(passdown.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.promise("S2-28")
def test_what_waits_is_found_in_a_new_process_and_consumed_once(workspace: Workspace) -> None:
    hand(workspace, "planner", "tester", 1)
    saved = workspace.context.save_switch("T-1", to_agent="tester", from_agent="planner")
    assert Path(saved["path"]).is_file()
    again = workspace.context.save_switch("T-1", to_agent="tester", from_agent="planner")
    assert again["file"] == saved["file"]
    look = "print(json.dumps(ws.context.saved_switches(agent='tester')))"
    (waiting,) = elsewhere(workspace.root, look)
    assert (waiting["file"], waiting["consumed"]) == (saved["file"], False)
    assert waiting["artifact"]["next_action"] == "go on with part 1"
    switch = "s = ws.switch('T-1', to_agent='tester')\nprint(json.dumps([s.text, s.artifact_file]))"
    text, file = elsewhere(workspace.root, switch)
    assert file == saved["file"]
    assert f".passdown/handoffs/{file}" in text
    assert "consumed: true" in Path(saved["path"]).read_text("utf-8")
    assert elsewhere(workspace.root, look) == []
    hand(workspace, "tester", "planner", 2)
    workspace.switch("T-1", to_agent="planner")
    workspace.switch("T-1", to_agent="tester")
    consumed = [
        name
        for d in workspace.context.deliveries("T-1")
        for name in d.to_dict().get("consumed", ())
    ]
    assert consumed.count(saved["file"]) == 1
    assert len(consumed) == len(set(consumed))


@pytest.mark.promise("S2-28")
def test_an_artifact_waits_for_nobody_else(workspace: Workspace) -> None:
    hand(workspace, "planner", "tester", 1)
    saved = workspace.context.save_switch("T-1", to_agent="tester", from_agent="planner")
    workspace.switch("T-1", to_agent="coder")
    (waiting,) = workspace.context.saved_switches(agent="tester")
    assert waiting["file"] == saved["file"]
    assert workspace.context.saved_switches(agent="coder") == []
    with pytest.raises(InvalidInput):
        workspace.context.save_switch("T-1", to_agent="planner", from_agent="planner")
    with pytest.raises(NotFound):
        workspace.switch("T-9", to_agent="coder")


@pytest.mark.promise("S2-12", "S2-13")
def test_a_prompt_changes_only_where_it_calls_another_agent(workspace: Workspace) -> None:
    for text in ("go on", "mail a@coder.example", "@coder go on", "@nobody go on", ""):
        assert workspace.context.prompt(text, task="T-1", active="coder").text == text
    assert workspace.context.deliveries("T-1") == []
    found = workspace.context.prompt("@tester try it", task="T-1", active="coder")
    assert found.switched
    assert found.agent == "tester"
    assert found.text == f"{found.switched.text}\n\n# The prompt\n\n@tester try it"
    assert found.text.startswith(profile("tester"))


@pytest.mark.promise("S2-13")
def test_with_switches_off_a_prompt_never_changes(tmp_path: Path) -> None:
    write_profiles(tmp_path)
    with passdown.open(str(tmp_path), settings=Settings(switch_enabled=False)) as workspace:
        workspace.create_task("T-1", title="Invoices", agent="planner")
        found = workspace.context.prompt("@tester try it", task="T-1", active="coder")
        assert (found.text, found.agent, found.switched) == ("@tester try it", "coder", None)
        assert workspace.context.deliveries("T-1") == []
        assert not (tmp_path / ".passdown" / "handoffs").exists()


@pytest.mark.promise("S2-29")
def test_a_folder_that_cannot_be_written_keeps_nobody_from_a_context(workspace: Workspace) -> None:
    Path(workspace.root, ".passdown", "handoffs").write_text("in the way", "utf-8")
    hand(workspace, "planner", "coder", 1)
    found = workspace.switch("T-1", to_agent="coder")
    assert found.text.startswith(profile("coder"))
    assert [problem.code for problem in found.warnings] == ["not_written"]
    assert "choice 1." in found.text
    # What was recorded is there for the next switch, with the file or without it.
    hand(workspace, "coder", "tester", 2)
    assert len(workspace.switch("T-1", to_agent="tester").summaries) == 2

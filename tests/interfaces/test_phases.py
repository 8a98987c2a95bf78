"""Phases of a workspace's own: their names, their order, and the one that completes a task."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown import Settings
from passdown.errors import InvalidInput
from tests.interfaces.running import data_of
from tests.interfaces.web.asking import ask
from tests.serving import served

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.interfaces.running import Run

PHASES = ("draft", "legal-review", "shipped")
CONFIG = """\
[phases]
names = ["draft", "legal-review", "shipped"]

[gates.legal-review]
doc = 1
"""


@pytest.fixture
def own(project: Path) -> Path:
    """The project, whose workspace has three phases of its own."""
    (project / ".passdown" / "config.toml").write_text(CONFIG, "utf-8")
    (project / "terms.md").write_text("Terms\n", "utf-8")
    return project


def by(agent: str, *more: str) -> tuple[str, ...]:
    return ("handoff", "--task", "T-1", "--from", agent, "--outcome", "completed", *more)


@pytest.mark.promise("C-1")
def test_a_workspace_has_its_own_phases_in_their_order(
    own: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    """A task begins in the first, its gates are those of the settings, the last completes it."""
    cli("task", "new", "Terms", "--id", "T-1", "--agent", "ana")
    assert as_json("task", "show", "T-1")["phase"] == "draft"
    refused = cli(*by("ana", "--to", "bo", "--phase", "testing"), code=1)
    assert "draft | legal-review | shipped" in refused.err
    refused = cli(*by("ana", "--to", "bo", "--phase", "legal-review"), code=1)
    assert "legal-review needs 1 doc artifact" in refused.err
    cli(*by("ana", "--to", "bo", "--phase", "legal-review", "--file", "terms.md"))
    assert [each["task"] for each in as_json("task", "list", "--phase", "legal-review")] == ["T-1"]
    assert "legal-review" in cli("ready", "--agent", "bo").out
    assert "draft | legal-review | shipped" in cli("task", "list", "--phase", "testing", code=1).err
    cli(*by("bo", "--summary", "All agreed."))
    shown = as_json("task", "show", "T-1")
    assert (shown["phase"], shown["status"]) == ("shipped", "completed")
    assert "Shipped, completed" in cli("brief", "T-1", "--agent", "cy").out
    cli("verify")


@pytest.mark.promise("C-1")
def test_completing_a_task_moves_it_to_the_phase_that_completes(
    own: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    """`completed` is understood as a phase everywhere; a repeat is the same handoff."""
    cli("task", "new", "Terms", "--id", "T-1", "--agent", "ana")
    cli("task", "done", "T-1")
    cli(*by("ana", "--summary", "Once more.", "--phase", "completed"))
    again = data_of(cli(*by("ana", "--summary", "Once more."), "--json").out)
    assert (again["is_replay"], again["phase"]) == (True, "shipped")
    assert as_json("task", "show", "T-1")["status"] == "completed"


@pytest.mark.promise("C-1")
def test_what_was_recorded_keeps_its_meaning_under_other_settings(
    own: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    """A task that `shipped` completed stays completed, rebuilt and verified, and can be listed."""
    cli("task", "new", "Terms", "--id", "T-1", "--agent", "ana")
    cli(*by("ana", "--phase", "shipped"))
    (own / ".passdown" / "config.toml").write_text(
        '[phases]\nnames = ["idea", "shipped", "paid"]\n', "utf-8"
    )
    cli("reindex")
    cli("verify")
    shown = as_json("task", "show", "T-1")
    assert (shown["phase"], shown["status"]) == ("shipped", "completed")
    cli("task", "new", "Other", "--id", "T-2", "--agent", "ana")
    cli("handoff", "--task", "T-2", "--outcome", "completed", "--phase", "shipped", "--from", "ana")
    assert as_json("task", "show", "T-2")["status"] == "open", "shipped completes nothing now"
    (own / ".passdown" / "config.toml").write_text("", "utf-8")
    assert as_json("task", "show", "T-1")["status"] == "completed"
    assert [t["task"] for t in as_json("task", "list", "--phase", "shipped")] == ["T-1", "T-2"]


@pytest.mark.promise("C-2")
def test_a_bundle_with_unknown_phases_is_imported_and_says_so(
    own: Path, cli: Run, tmp_path: Path
) -> None:
    """The other workspace keeps what was recorded, and names the phases that it doesn't have."""
    cli("task", "new", "Terms", "--id", "T-1", "--agent", "ana")
    cli(*by("ana", "--to", "bo", "--phase", "legal-review", "--file", "terms.md"))
    cli("task", "new", "Done", "--id", "T-2", "--agent", "ana")
    cli("task", "done", "T-2")
    cli("export", "terms.bundle")
    other = tmp_path / "other"
    other.mkdir()
    with passdown.open(str(other)) as workspace:
        found = workspace.maintenance.import_bundle(str(own / "terms.bundle"))
        said = [each.message for each in found.warnings if each.code == "unknown_phase"]
        assert said == [
            "T-1 came in the phase 'legal-review', which isn't one here",
            "T-2 came in the phase 'shipped', which isn't one here",
        ]
        assert workspace.task("T-2").status == "completed"
        assert workspace.state("T-1").phase == "legal-review"
        workspace.hand_off(task="T-1", outcome="completed", to_agent="cy", phase="reviewing")
        assert workspace.verify().ok


@pytest.mark.promise("C-1")
def test_a_program_gives_its_phases_as_settings(tmp_path: Path) -> None:
    """The same rules as in the file: names, at least two, each once, `completed` only as itself."""
    with passdown.open(str(tmp_path), settings=Settings(phases=PHASES)) as workspace:
        workspace.create_task("T-1", title="Terms", agent="ana", phase="legal-review")
        workspace.hand_off(task="T-1", outcome="completed", from_agent="ana")
        assert workspace.task("T-1").status == "completed"
    wrong: list[dict[str, Any]] = [
        {"phases": ("draft",)},
        {"phases": ("draft", "Draft 2")},
        {"phases": ("draft", "draft")},
        {"phases": ("draft", "done"), "completes": "gone"},
        {"phases": ("draft", "completed", "shipped"), "completes": "shipped"},
        {"phases": ("draft", "done"), "phase_gates": {"testing": {"doc": 1}}},
    ]
    for fields in wrong:
        with pytest.raises(InvalidInput):
            passdown.open(str(tmp_path), settings=Settings(**fields))


@pytest.mark.promise("C-1")
def test_the_board_and_the_api_show_them_in_their_order(tmp_path: Path) -> None:
    """A task in a phase that isn't in the settings any more has a column after them."""
    with passdown.open(str(tmp_path)) as before:
        before.create_task("T-1", title="Old", agent="ana", phase="testing")
    with (
        passdown.open(str(tmp_path), settings=Settings(phases=PHASES)) as workspace,
        served(workspace) as server,
    ):
        token = server.token("ana", "read", "write")
        sent = {"task": "T-2", "title": "New", "agent": "ana"}
        assert ask(server.port, "POST", "/api/tasks", token=token, body=sent).status == 201
        page = ask(server.port, "GET", "/board?by=phase", token=token).body.decode()
        assert re.findall('data-column="([^"]*)"', page) == [*PHASES, "testing"]
        listed = ask(server.port, "GET", "/api/tasks?phase=draft", token=token).document
        assert [each["task"] for each in listed["items"]] == ["T-2"]
        wrong = {"task": "T-2", "outcome": "completed", "phase": "testing"}
        refused = ask(server.port, "POST", "/api/handoffs", token=token, body=wrong)
        assert refused.document["problems"][0]["expected"] == " | ".join(PHASES)


@pytest.mark.promise("C-1")
def test_a_relay_s_legs_have_the_workspace_s_phases(own: Path, cli: Run) -> None:
    """A leg with another phase is refused before anything runs."""
    cli("task", "new", "Terms", "--id", "T-1", "--agent", "ana")
    (own / "writer.yaml").write_text(
        "writer:\n  - |\n    ## Handoff\n    ```yaml\n    outcome: completed\n"
        "    summary: written\n    ```\n",
        "utf-8",
    )
    relay = (
        "relay: terms\nagents:\n  writer: {{runner: {{script: writer.yaml}}}}\n"
        "legs:\n  - {{leg: write, agent: writer, phase: {phase}}}\n"
    )
    (own / "relay.yaml").write_text(relay.format(phase="testing"), "utf-8")
    refused = cli("run", "relay.yaml", "--task", "T-1", code=1)
    assert "draft | legal-review | shipped" in refused.err
    (own / "relay.yaml").write_text(relay.format(phase="shipped"), "utf-8")
    cli("run", "relay.yaml", "--task", "T-1")
    assert "completed" in cli("task", "show", "T-1").out


@pytest.mark.promise("C-1")
def test_the_template_and_a_wrong_phase_name_the_workspace_s_phases(own: Path, cli: Run) -> None:
    """A template that is filled in but for its phase makes a task without a word about it."""
    text = cli("template", "--task", "T-1", "--title", "Terms").out
    assert "- **Phase:** [draft | legal-review | shipped]\n" in text
    filled = text.replace("outcome:  #", "outcome: completed  #").replace(
        "[who works on this, such as coder]", "ana"
    )
    (own / "T-1.md").write_text(filled, "utf-8")
    assert "legal-review" not in cli("ingest", "T-1.md").out
    refused = cli(*by("ana", "--phase", "testing"), code=1).err
    assert "expected draft | legal-review | shipped [invalid_choice]" in refused


@pytest.mark.promise("C-1")
def test_a_phase_completes_only_while_the_settings_say_so(
    own: Path, cli: Run, as_json: Callable[..., Any]
) -> None:
    """A task that was handed off under other settings follows the new ones as any other does."""
    cli("task", "new", "Terms", "--id", "T-1", "--agent", "ana")
    cli(*by("ana", "--to", "bo", "--phase", "draft"))
    names = '[phases]\nnames = ["draft", "shipped", "completed"]\n'
    (own / ".passdown" / "config.toml").write_text(names, "utf-8")
    cli(*by("bo", "--to", "cy", "--phase", "shipped"))
    assert as_json("task", "show", "T-1")["status"] == "open"

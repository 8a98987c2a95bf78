"""Several processes that take in one source at once: each entry once, and nothing refused."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from tests.imports.sources import issue, link, write_lines
from tests.interfaces.running import data_of
from tests.processes import Process

if TYPE_CHECKING:
    from tests.postgres import KeepIn

pytestmark = pytest.mark.promise("S3-44")

SOURCE = Path(passdown.__file__).parents[1]
AGENTS = ("ada", "kim")
ADRS, ISSUES, ENTITIES, NOTES = 15, 10, 10, 3


def write_adrs(folder: Path) -> Path:
    """ADRs of which every third is superseded by the next."""
    folder.mkdir()
    for n in range(1, ADRS + 1):
        other = f"Superseded by [{n + 1}. Choice]({n + 1:04}-choice.md)"
        status = other if n % 3 == 0 and n < ADRS else "Accepted"
        text = f"# {n}. Choice {n}\n\n## Status\n\n{status}\n\n## Decision\n\nWe take {n}.\n"
        (folder / f"{n:04}-choice.md").write_text(text)
    return folder


def write_issues(path: Path) -> Path:
    related = [[link(f"bd-{n}", f"bd-{n - 1}", "related")] if n else [] for n in range(ISSUES)]
    return write_lines(
        path,
        [
            issue(f"bd-{n}", status="closed" if n % 2 else "open", dependencies=links)
            for n, links in enumerate(related)
        ],
    )


def write_memory(path: Path) -> Path:
    names = [f"Entity {n}" for n in range(ENTITIES)]
    entities = [
        {"type": "entity", "name": name, "entityType": "x", "observations": [f"is {name}"]}
        for name in names
    ]
    relations = [
        {"type": "relation", "from": one, "to": two, "relationType": "precedes"}
        for one, two in pairwise(names)
    ]
    return write_lines(path, [*entities, *relations])


def write_notes(folder: Path) -> Path:
    folder.mkdir()
    for n in range(NOTES):
        text = f"# Part {n}\n\n## Next steps\n\n- Write part {n}\n\n## Blockers\n\n- No key {n}\n"
        (folder / f"part-{n}.md").write_text(text)
    return folder


def run_at_once(project: Path, *argv: str, agents: tuple[str, ...] = AGENTS) -> list[Any]:
    """Start the program once for each agent at the same moment; gives what each printed."""
    running = [
        Process(
            [sys.executable, "-m", "passdown", *argv, "--agent", agent, "--json"],
            cwd=project,
            env={"PYTHONPATH": str(SOURCE), "HOME": str(project)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for agent in agents
    ]
    found: list[Any] = []
    for process in running:
        out, err = process.communicate(timeout=240)
        assert (process.returncode, err) == (0, ""), out
        found.append(data_of(out))
    return found


def totals(found: list[Any]) -> dict[str, Counter[str]]:
    """The counts of several runs added up, by kind, without the zeros."""
    sums: dict[str, Counter[str]] = {}
    for run in found:
        for kind, numbers in run["counts"].items():
            sums.setdefault(kind, Counter()).update({k: v for k, v in numbers.items() if v})
    return sums


@pytest.fixture
def project(tmp_path: Path, keep_in: KeepIn) -> Path:
    """A project with an empty workspace, in each kind of store in turn."""
    folder = tmp_path / "project"
    folder.mkdir()
    keep_in(folder)
    passdown.open(str(folder)).close()
    return folder


def test_adrs_are_taken_once(project: Path) -> None:
    """Each ADR is one decision, each link holds, and whoever comes later finds it unchanged."""
    write_adrs(project / "adr")
    sums = totals(run_at_once(project, "import", "adr"))
    assert sums == {"decision": {"added": ADRS, "unchanged": ADRS * (len(AGENTS) - 1)}}
    with passdown.open(str(project)) as workspace:
        decisions = workspace.files.state_document("workspace")["decisions"]
        statuses = Counter(decision["status"] for decision in decisions)
        assert statuses == {"accepted": ADRS - 4, "superseded": 4}
        assert workspace.verify().ok


def test_runs_of_one_agent_count_each_adr_once(project: Path) -> None:
    """What another run of the same agent has recorded is unchanged, not added."""
    write_adrs(project / "adr")
    sums = totals(run_at_once(project, "import", "adr", agents=("kim", "kim")))
    assert sums == {"decision": {"added": ADRS, "unchanged": ADRS}}


def test_an_edit_is_taken_once(project: Path) -> None:
    """However many runs see a changed text at once, one new decision stands for it."""
    folder = write_adrs(project / "adr")
    run_at_once(project, "import", "adr", agents=("ada",))
    for file in folder.iterdir():
        file.write_text(file.read_text().replace("We take", "We really take"))
    sums = totals(run_at_once(project, "import", "adr"))
    assert sums == {"decision": {"changed": ADRS, "unchanged": ADRS * (len(AGENTS) - 1)}}
    with passdown.open(str(project)) as workspace:
        decisions = workspace.files.state_document("workspace")["decisions"]
    held = Counter(d["summary"] for d in decisions if d["status"] == "accepted")
    assert held == {f"Choice {n}": 1 for n in range(1, ADRS + 1) if n % 3 or n == ADRS}


@pytest.mark.parametrize("form", ["beads", "memory"])
def test_lines_are_taken_once(project: Path, form: str) -> None:
    """Nothing is refused because someone else has just written the same."""
    write = {"beads": write_issues, "memory": write_memory}[form]
    write(project / "lines.jsonl")
    sums = totals(run_at_once(project, "import", "lines.jsonl"))
    assert sums
    for kind, numbers in sums.items():
        assert set(numbers) == {"added", "unchanged"}, kind
        assert numbers["unchanged"] == numbers["added"] * (len(AGENTS) - 1), kind
    with passdown.open(str(project)) as workspace:
        assert workspace.verify().ok


def test_notes_are_taken_once(project: Path) -> None:
    """Whoever records a note first names its author; the others find it done."""
    write_notes(project / "notes")
    sums = totals(run_at_once(project, "import", "notes", "--from", "notes"))
    assert sums == {"note": {"added": NOTES, "unchanged": NOTES * (len(AGENTS) - 1)}}
    with passdown.open(str(project)) as workspace:
        for n in range(NOTES):
            state = workspace.files.state_document(f"part-{n}")
            assert [step["step"] for step in state["next_steps"]] == [f"Write part {n}"]
            assert (len(state["blockers"]), state["version"]) == (1, 3)


def test_notes_are_migrated_once(project: Path) -> None:
    """With their sections written back, too."""
    write_notes(project / "notes")
    found = run_at_once(project, "migrate", "notes")
    assert {each["result"] for run in found for each in run} <= {"recorded", "unchanged"}
    assert not [problem for run in found for each in run for problem in each["problems"]]
    with passdown.open(str(project)) as workspace:
        for n in range(NOTES):
            state = workspace.files.state_document(f"part-{n}")
            assert (len(state["next_steps"]), state["version"]) == (1, 3)
    assert {each["result"] for run in run_at_once(project, "migrate", "notes") for each in run} == {
        "unchanged"
    }

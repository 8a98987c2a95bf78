"""How many of the claims that a receiver needs are in a brief: the states of HandoffBench.

The tasks are files in the folder that PASSDOWN_DATA names (`handoffbench/*.json`), and `score.py`
beside them, which says how a claim is written down and when a text has it. Nothing is changed here
but the budgets and, for the mapping `facts`, where claims of the category of facts go: this only
runs it and puts the result into the table. No model is called; what is
measured is what survives the selection under a budget, not what an agent makes of it.
"""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import passdown
from bench.figures import Measured, Row, Target

if TYPE_CHECKING:
    from bench.run import Run

FOLDER = "PASSDOWN_DATA"
BUDGETS = (150, 200, 250, 350, 500, 1000)
GOALS = {
    ("alone", 150): 0.95,
    ("alone", 200): 1.0,
    ("last", 200): 0.95,
    ("last", 350): 1.0,
    ("spread", 250): 0.75,
    ("spread", 500): 0.90,
    ("spread", 1000): 0.97,
}
SETTINGS = {
    "alone": "one handoff",
    "last": "behind 24 others",
    "spread": "learnt along the way",
}
QUICK_TASKS = 6
MAPPINGS = ("items", "facts")
FACTS = "verified_fact"
BASELINES = ("newest first", "transcript", "oracle")


def loaded_tasks(found: Measured) -> tuple[Any, list[Any]]:
    """The program that scores, and the tasks; None, with a note, where there is no data."""
    folder = Path(os.environ.get(FOLDER, "")) / "handoffbench"
    if not os.environ.get(FOLDER) or not (folder / "score.py").is_file():
        found.notes.append(f"not measured: {FOLDER} names no folder with handoffbench/score.py")
        return None, []
    files = sorted(folder.glob("*.json"))
    tasks = [task for path in files for task in json.loads(path.read_text("utf-8"))]
    return scoring_program(folder), tasks


def measure(run: Run) -> Measured:
    found = Measured("handoffbench", "How many claims of HandoffBench a brief carries")
    scoring, tasks = loaded_tasks(found)
    if scoring is None:
        return found
    chosen = tasks[:: len(tasks) // QUICK_TASKS] if run.quick else tasks
    for setting, about in SETTINGS.items():
        by_mapping: dict[str, dict[tuple[int, str], Any]] = {}
        for mapping in MAPPINGS:
            run.say(f"handoffbench: {setting}, {len(chosen)} tasks, mapping {mapping}")
            place = run.folder / f"handoffbench-{setting}-{mapping}"
            place.mkdir(parents=True)
            rows = by_mapping[mapping] = {}
            with passdown.open(str(place), settings=passdown.Settings(durability="normal")) as ws:
                for number, task in enumerate(chosen, 1):
                    scoring.score(Adapted(ws), f"T-{number}", task, tasks, setting, mapping, rows)
        found.rows += [_row(setting, about, budget, by_mapping) for budget in BUDGETS]
        found.figures[setting] = {
            str(budget): {
                **{name: _share(by_mapping["items"][budget, name]) for name in scoring.METHODS},
                "Passdown, facts": _share(by_mapping["facts"][budget, "Passdown"]),
            }
            for budget in BUDGETS
        }
    found.notes.append(
        "HandoffBench v3.1 (CC BY 4.0), each claim as one item (`facts`: those of the category of "
        "facts as facts with key and value); % of gold claims in the text"
    )
    return found


class Adapted:
    """A workspace as the scoring program calls it: an item is plain data."""

    def __init__(self, workspace: passdown.Workspace) -> None:
        self._workspace = workspace

    def __getattr__(self, name: str) -> Any:
        return getattr(self._workspace, name)

    def show(self, address: str) -> dict[str, Any]:
        return self._workspace.show(address).to_dict()


def scoring_program(folder: Path) -> Any:
    """The program beside the tasks, with our budgets and the mapping `facts`."""
    spec = importlib.util.spec_from_file_location("handoffbench_score", folder / "score.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    given = module.entry_of

    def entry_of(claim: dict[str, Any], mapping: str) -> tuple[str, Any]:
        if mapping != "facts" or claim["category"] != FACTS or claim["status"] != "known":
            return given(claim, "items" if mapping == "facts" else mapping)
        _, value = module.said(claim).split(": ", 1)
        source = claim["provenance"][0]["source_type"]
        return "facts", {"key": claim["key"], "value": value, "source": source}

    vars(module).update(BUDGETS=BUDGETS, entry_of=entry_of)
    return module


def _share(row: tuple[list[tuple[Any, ...]], Any]) -> float:
    return sum(bool(claim[2]) for claim in row[0]) / len(row[0])


def _row(
    setting: str, about: str, budget: int, mappings: dict[str, dict[tuple[int, str], Any]]
) -> Row:
    rows = mappings["items"]
    share = _share(rows[budget, "Passdown"])
    beside = f"facts {_share(mappings['facts'][budget, 'Passdown']):.1%}, "
    beside += ", ".join(f"{name} {_share(rows[budget, name]):.0%}" for name in BASELINES)
    goal = GOALS.get((setting, budget))
    target = Target("at least", goal) if goal else None
    return Row(f"{setting} ({about}), {budget} tokens", f"{share:.1%}", beside, share, target)

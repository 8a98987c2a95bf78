"""What a handoff costs a whole run, on each framework beside its own way of handing on.

The job of `handoff_job`, with three steps of the receiver's own. Each framework runs in the
environment that it is installed in, by a program of `framework_programs`.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.figures import Measured, Row, Target
from bench.framework_job import BUDGET, FACTS

if TYPE_CHECKING:
    from bench.run import Run

ROOT = Path(__file__).resolve().parent.parent
FRAMEWORKS = {
    "pydantic_ai": "Pydantic AI",
    "claude_agent_sdk": "Claude Agent SDK",
    "google_adk": "Google ADK",
    "agent_framework": "Agent Framework",
}


def measure(run: Run) -> Measured:
    from tests.framework_environments import NotMade

    found = Measured("frameworks", "What a handoff costs a whole run, on each framework")
    for module, name in FRAMEWORKS.items():
        run.say(name)
        try:
            figures = figures_of(module)
        except NotMade as error:
            found.notes.append(f"Not measured: {name} ({error}).")
            continue
        found.figures[name] = figures
        found.rows += _rows(name, figures)
    return found


def figures_of(module: str, rounds: int = 3) -> dict[str, Any]:
    """The figures of one framework. Raises NotMade without its environment."""
    from tests.framework_environments import python_of

    python = python_of(module.replace("_", "-"))
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [python, "-m", f"bench.framework_programs.{module}"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "PASSDOWN_BENCH_ROUNDS": str(rounds)},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def _rows(name: str, figures: dict[str, Any]) -> list[Row]:
    default, ours, all_read, *again = figures["runs"].values()
    lines = figures["lines"]
    # A framework that hands nothing on but words costs less, and its receiver has no results.
    hands_all_on = default["facts"] == len(FACTS)
    ratio = ours["whole_run"] / default["whole_run"]
    looked_up = [
        Row(
            f"{name}: tokens until the receiver has every result",
            f"{all_read['whole_run']:,}",
            f"{each['whole_run']:,} by default, looking all up again",
            all_read["whole_run"] / each["whole_run"],
            Target("at most", 1),
        )
        for each in again
    ]
    return [
        Row(
            f"{name}: tokens of the whole run",
            f"{ours['whole_run']:,}",
            f"{default['whole_run']:,} by default, {default['facts']} of {len(FACTS)} facts",
            ratio,
            Target("at most", 1, is_goal=not hands_all_on),
        ),
        *looked_up,
        Row(
            f"{name}: the same, if the receiver reads every result",
            f"{all_read['whole_run']:,}",
            f"{all_read['facts']} of {len(FACTS)} facts",
            all_read["facts"],
            Target("exactly", len(FACTS)),
        ),
        Row(
            f"{name}: tokens that the receiver is given",
            f"{ours['receiver']:,}",
            f"{default['receiver']:,} by default",
            max(0, ours["receiver"] - BUDGET),
            Target("exactly", 0),
        ),
        Row(
            f"{name}: lines of user code",
            str(lines["passdown"]),
            f"{lines['default']} by default",
            lines["passdown"] / lines["default"],
            Target("at most", 1.25),
        ),
        Row(
            f"{name}: ms per step",
            f"{ours['ms_per_step']:.1f}",
            f"{default['ms_per_step']:.1f} by default",
        ),
    ]

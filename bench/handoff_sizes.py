"""What a handoff costs the receiver: one scripted job on real frameworks, side by side.

Ten tool calls with results of 1,000 characters, a message with what was decided and what comes
next, a handoff. Counted is what the receiver's model is given first, as JSON; and how much of the
job it can still get at: in that input, or by the one call that the input names, which is made
here. And of whole runs: what all models are given and say, with every definition of a tool. No
network: the models follow a script.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench import handoff_on_langgraph, handoff_on_openai
from bench.figures import Measured, Row, Target
from bench.handoff_job import BUDGET, DECISIONS, RESULTS, STEPS, Reached, result_text
from passdown.core.tokens import vocabulary
from passdown.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.run import Run

SIZES = ((3, 1), (3, 2), (3, 4), (3, 8), (5, 8))
"""How many agents a job passes through, and how many tool calls each makes."""

WAYS: dict[str, Callable[[Path], Reached]] = {
    "Agents SDK, default": handoff_on_openai.default,
    "Agents SDK, nest_handoff_history": handoff_on_openai.nested,
    "Agents SDK, remove_all_tools": handoff_on_openai.without_tools,
    "langgraph-swarm, default": handoff_on_langgraph.swarm,
    "langgraph-supervisor, default": handoff_on_langgraph.supervisor,
    "Passdown on the Agents SDK": handoff_on_openai.with_passdown,
    "Passdown on LangGraph": handoff_on_langgraph.with_passdown,
}


def measure(run: Run) -> Measured:
    found = Measured("handoff_sizes", "What a receiver's model is given after ten tool calls")
    for number, (name, way) in enumerate(WAYS.items()):
        place = run.folder / "handoff_sizes" / str(number)
        place.mkdir(parents=True)
        try:
            answer = way(place)
        except (ImportError, MissingExtra) as error:
            found.notes.append(f"Not measured: {name} ({error}).")
            continue
        found.rows += _rows(name, answer)
        found.figures[name] = figures(answer)
        if name == "Passdown on the Agents SDK":
            found.rows += [whole_run(place, *size) for size in SIZES]
    return found


def whole_run(place: Path, agents: int, calls: int) -> Row:
    """The tokens of a whole run beside the SDK's default."""
    count = vocabulary("o200k_base")
    folder = place / f"{agents}x{calls}"
    folder.mkdir()
    ours = handoff_on_openai.whole_run(agents, calls, folder, count)
    theirs = handoff_on_openai.whole_run(agents, calls, None, count)
    what = f"Agents SDK: tokens of a whole run, {agents} agents with {calls} tool calls each"
    return Row(what, f"{ours:,}", f"{theirs:,} by default", ours / theirs, Target("at most", 1))


def figures(answer: Reached) -> dict[str, int]:
    """Sizes, and how much is within reach."""
    return {
        "characters": len(answer.given),
        "tokens": vocabulary("o200k_base")(answer.given),
        "results": answer.count(tuple(map(result_text, range(RESULTS)))),
        "decisions": answer.count(tuple(part for pair in DECISIONS for part in pair)) // 2,
        "next_steps": answer.count(STEPS),
    }


def _rows(name: str, answer: Reached) -> list[Row]:
    counted = figures(answer)
    is_ours = name.startswith("Passdown")
    kept = counted["results"] + counted["decisions"] + counted["next_steps"]
    whole = RESULTS + len(DECISIONS) + len(STEPS)
    names = ("results", "decisions", "next_steps")
    of_each = ", ".join(f"{counted[n]} {n.replace('_', ' ')}" for n in names)
    return [
        Row(
            f"{name}: tokens given" + (f" (none over {BUDGET})" if is_ours else ""),
            f"{counted['tokens']:,}",
            f"{counted['characters']:,} characters",
            max(0, counted["tokens"] - BUDGET) if is_ours else None,
            Target("exactly", 0) if is_ours else None,
        ),
        Row(
            f"{name}: of {whole} within reach",
            str(kept),
            of_each,
            kept if is_ours else None,
            Target("exactly", whole) if is_ours else None,
        ),
    ]

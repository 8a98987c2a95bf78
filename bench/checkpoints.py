"""LangGraph's checkpoints: our saver beside LangGraph's own on SQLite, in the same graph.

A conversation of many turns, each with a message of 2 KB. Both savers take the same turns, one
after the other and not in alternation: theirs writes gigabytes, and ours would wait for that disk.
A step is what a saver does for one checkpoint: recording it, and the writes that lead to it.
Reading the state at the start of a turn is as much work as the state is large, with any saver, and
stands in a row of its own.
"""

from __future__ import annotations

import sqlite3
import time
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from bench.figures import Measured, Row, Target, kib, median, ms, seconds

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.run import Run

MESSAGE = 2_048
EARLY = 10
WINDOW = 10
AGENTS = 10


class _Timed:
    """How long the calls of a saver take, by turn."""

    def __init__(self, saver: Any) -> None:
        self.steps: list[float] = []
        self.reads: list[float] = []
        self._writing = self._reading = 0.0
        self._count = 0
        saver.put = self._around(saver.put, is_checkpoint=True)
        saver.put_writes = self._around(saver.put_writes)
        read = saver.get_tuple

        def get_tuple(*args: Any, **named: Any) -> Any:
            started = time.perf_counter()
            found = read(*args, **named)
            self._reading += time.perf_counter() - started
            return found

        saver.get_tuple = get_tuple

    def _around(self, call: Callable[..., Any], *, is_checkpoint: bool = False) -> Any:
        def timed(config: Any, *args: Any, **named: Any) -> Any:
            started = time.perf_counter()
            result = call(config, *args, **named)
            self._writing += time.perf_counter() - started
            self._count += is_checkpoint
            return result

        return timed

    def end_turn(self) -> None:
        """Add up a turn: the time of one of its steps, and of reading."""
        self.steps.append(self._writing / max(1, self._count))
        self.reads.append(self._reading)
        self._writing = self._reading = 0.0
        self._count = 0


def measure(run: Run) -> Measured:
    turns = 100 if run.quick else 1_000
    found = Measured("checkpoints", f"LangGraph's checkpoints: {turns:,} turns of 2 KB messages")
    try:
        from langgraph.checkpoint.sqlite import SqliteSaver

        from passdown.adapters.langgraph.checkpoints import LedgerSaver
    except ImportError:
        found.notes.append("Not measured: langgraph and langgraph-checkpoint-sqlite are missing.")
        return found
    import passdown

    folder = run.folder / "checkpoints"
    folder.mkdir()
    ours, theirs = folder / "ours", folder / "theirs.db"
    connection = sqlite3.connect(theirs, check_same_thread=False)
    ours.mkdir(parents=True, exist_ok=True)
    with passdown.open(str(ours)) as workspace:
        savers = {"ours": LedgerSaver(workspace), "theirs": SqliteSaver(connection)}
        timed = {name: _Timed(saver) for name, saver in savers.items()}
        whole = {
            name: _converse(_graph(saver), timed[name], turns) for name, saver in savers.items()
        }
        opening = _opening(workspace)
    connection.close()
    sizes = {"ours": _bytes(ours), "theirs": _bytes(folder, "theirs.db")}
    _add_rows(found, turns, sizes, timed, whole)
    found.rows.append(Row("opening the thread anew and reading it", ms(opening)))
    found.rows.append(_steps(folder / "agents", 5 if run.quick else 15))
    return found


def _steps(folder: Path, rounds: int) -> Row:
    """A step of a graph of agents whose every handoff is recorded and verified, with our saver,
    beside one of a bare graph with LangGraph's; runs of both in alternation.
    """
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import (  # pyright: ignore[reportMissingTypeStubs]
        END,
        START,
        StateGraph,
    )

    import passdown
    from passdown.adapters.langgraph import HandoffGraph, LedgerSaver
    from passdown.adapters.states import AgentState, message

    def agent(name: str) -> Callable[[Any], dict[str, Any]]:
        return lambda _: {"messages": [message("done ".ljust(MESSAGE // 10, "x"), name)]}

    names = [f"agent{number}" for number in range(AGENTS)]
    folder.mkdir()
    connection = sqlite3.connect(folder / "theirs.db", check_same_thread=False)
    with passdown.open(str(folder)) as workspace:
        workspace.create_task("T-1", title="Steps", agent=names[0])
        builders: list[Any] = [HandoffGraph(workspace, "T-1"), StateGraph(AgentState)]
        for builder in builders:
            builder.add_sequence([(name, agent(name)) for name in names])
            builder.add_edge(START, names[0])
            builder.add_edge(names[-1], END)
        savers = LedgerSaver(workspace), SqliteSaver(connection)
        apps = [each.compile(saver) for each, saver in zip(builders, savers, strict=True)]
        times: list[list[float]] = [[], []]
        for number in range(rounds):
            config = {"configurable": {"thread_id": str(number)}}
            for app, taken in zip(apps, times, strict=True):
                whole = seconds(partial(app.invoke, {"messages": []}, config))
                taken.append(whole / AGENTS)
    connection.close()
    ours, theirs = map(median, times)
    what = f"a step of {AGENTS} agents, with every handoff recorded"
    beside = f"{ms(theirs)} a bare graph with SqliteSaver"
    return Row(what, ms(ours), beside, ours / theirs, Target("at most", 1.5, is_goal=True))


def _graph(saver: Any) -> Any:
    from langchain_core.messages import AnyMessage
    from langgraph.graph import (  # pyright: ignore[reportMissingTypeStubs]
        END,
        START,
        StateGraph,
    )
    from langgraph.graph.message import (  # pyright: ignore[reportMissingTypeStubs]
        add_messages,
    )
    from typing_extensions import TypedDict

    state: Any = TypedDict(  # made here, since LangGraph is imported only where it is measured
        "state", {"messages": Annotated[list[AnyMessage], add_messages], "answered": int}
    )

    def answer(state: Any) -> dict[str, int]:
        return {"answered": len(state["messages"])}

    builder: Any = StateGraph(state)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    return builder.compile(checkpointer=saver)


def _converse(graph: Any, timed: _Timed, turns: int) -> list[float]:
    """Take the turns of a conversation; gives the time of each as a whole."""
    from langchain_core.messages import HumanMessage

    config = {"configurable": {"thread_id": "conversation"}}
    whole: list[float] = []
    for turn in range(turns):
        text = f"turn {turn}: ".ljust(MESSAGE, "abcdefghij"[turn % 10])
        given = {"messages": [HumanMessage(content=text, id=f"message-{turn}")]}
        whole.append(seconds(lambda given=given: graph.invoke(given, config)))
        timed.end_turn()
    return whole


def _opening(workspace: Any) -> float:
    from passdown.adapters.langgraph.checkpoints import LedgerSaver

    config: Any = {"configurable": {"thread_id": "conversation"}}
    return median(seconds(lambda: LedgerSaver(workspace).get_tuple(config)) for _ in range(3))


def _bytes(folder: Path, prefix: str = "") -> int:
    files = [path for path in folder.rglob(f"{prefix}*") if path.is_file()]
    return sum(path.stat().st_size for path in files)


def _add_rows(
    found: Measured,
    turns: int,
    sizes: dict[str, int],
    timed: dict[str, _Timed],
    whole: dict[str, list[float]],
) -> None:
    steps = {name: _early_and_late(each.steps) for name, each in timed.items()}
    reads = {name: _early_and_late(each.reads) for name, each in timed.items()}
    turned = {name: _early_and_late(times) for name, times in whole.items()}
    early, late = steps["ours"]
    found.rows += [
        Row(
            f"bytes stored after {turns:,} turns",
            kib(sizes["ours"]),
            f"{kib(sizes['theirs'])} SqliteSaver",
            sizes["ours"] / sizes["theirs"],
            Target("at most", 0.1),
        ),
        Row(
            f"a step at turn {turns:,} beside turn {EARLY}",
            ms(late),
            f"{ms(early)} at turn {EARLY}",
            late / early,
            Target("at most", 2),
        ),
        _beside(f"a step at turn {turns:,}", steps),
        _beside(f"reading the state at turn {turns:,}", reads),
        _beside(f"turn {turns:,} as a whole", turned),
    ]
    found.figures = {
        "turns": turns,
        "bytes": sizes,
        "step_s": steps,
        "read_s": reads,
        "turn_s": turned,
    }


def _beside(what: str, times: dict[str, tuple[float, float]]) -> Row:
    ours, theirs = times["ours"][1], times["theirs"][1]
    return Row(what, ms(ours), f"{ms(theirs)} SqliteSaver", ours / theirs)


def _early_and_late(samples: list[float]) -> tuple[float, float]:
    """The median around the tenth turn, and that of the last ones."""
    early = samples[EARLY - WINDOW // 2 : EARLY + WINDOW // 2]
    return median(early), median(samples[-WINDOW:])

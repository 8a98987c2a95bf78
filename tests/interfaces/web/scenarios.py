"""The scenarios of the library, to be told through a server: which modules they are in, the
workspace that each of them starts from, and what can't be told so.
"""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import passdown
from passdown import Settings
from passdown.testing import fixed_clock, write_files
from tests import (
    test_artifacts,
    test_briefs,
    test_decisions,
    test_gates,
    test_handoffs,
    test_history,
    test_switching,
    test_tasks,
    test_told,
)
from tests.knowledge import test_audit, test_journal, test_knowledge, test_sync
from tests.search import test_graph, test_search
from tests.serving import over_http

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path
    from types import ModuleType

    from passdown import Workspace

QUICK = Settings(durability="normal")
BY_WORDS = Settings(durability="normal", embedder="none")


class Start(NamedTuple):
    """What a scenario starts from: settings, tasks, and files beside those of every project."""

    settings: Settings = QUICK
    tasks: tuple[str, ...] = ("T-1",)
    title: str = "Login"
    agent: str = "planner"
    prepare: Callable[[Path], object] = lambda root: None
    clock: Any = fixed_clock
    folder: str = ""


def _profiles_of_told(root: Path) -> None:
    (root / "agents").mkdir()
    for name in ("dev", "qa", "ops", "sm", "pm"):
        (root / "agents" / f"{name}.md").write_text(f"You are {name}. " * 20)


_TWO = Start(BY_WORDS, ("T-1", "T-2"), "Work on {task}")
SOURCES: dict[ModuleType, Start] = {
    test_tasks: Start(Settings(phase_gates={}, durability="normal"), ()),
    test_handoffs: Start(),
    test_decisions: Start(),
    test_briefs: Start(folder="here"),
    test_gates: Start(),
    test_history: Start(),
    test_artifacts: Start(),
    test_audit: _TWO,
    test_journal: _TWO,
    test_knowledge: _TWO,
    test_sync: _TWO._replace(tasks=("T-1",)),
    test_search: _TWO._replace(tasks=("T-1", "T-2", "T-3")),
    test_graph: _TWO._replace(tasks=("T-1", "T-2", "T-3")),
    test_told: Start(title="Refunds", agent="sm", prepare=_profiles_of_told, clock=lambda: None),
    test_switching: Start(
        title="Invoices as CSV", prepare=test_switching.write_profiles, clock=lambda: None
    ),
}

_FUNCTION = "a counter that is a function can't be sent"
_REMEMBERED = "a client remembers elsewhere what a knowledge file said"
_STORE = "looks into the store itself, or stands in its way"
LEFT_OUT = {
    "test_no_format_goes_over_its_budget": _FUNCTION,
    "test_a_counter_that_does_not_count_is_refused": _FUNCTION,
    "test_a_marker_that_stored_text_holds_is_not_used": _STORE,
    "test_a_store_that_refuses_to_write_still_gives_briefs": _STORE,
    "test_a_brief_reads_no_more_after_a_long_history": _STORE,
    "test_records_can_not_be_changed_even_with_sql": _STORE,
    "test_a_walk_ends_at_its_limit": _STORE,
    "test_a_memory_of_the_last_time_that_is_lost_or_broken_loses_nothing": _REMEMBERED,
    "test_a_memory_of_the_last_time_that_was_tampered_with_counts_as_none": _REMEMBERED,
    "test_everything_wrong_is_said_at_once_and_nothing_is_written": "a key that a header can't "
    "hold is refused before anything else is looked at",
    "test_progress_is_told": "what a server does is told when it is done",
    "test_the_log_has_every_record_in_order": "the token's record counts as well",
    "test_items_whose_files_changed_say_so": "a server looks at files once a second",
}


def scenarios(module: ModuleType) -> dict[str, Any]:
    """The tests of a module that need nothing but a workspace."""
    found = {name: value for name, value in vars(module).items() if name.startswith("test_")}
    return {
        name: test
        for name, test in found.items()
        if name not in LEFT_OUT
        and {"ws", "workspace"}.intersection(inspect.signature(test).parameters)
    }


@contextmanager
def told_over_http(module: ModuleType, root: Path) -> Generator[Workspace]:
    """A workspace as the module that wrote a test has it, reached over HTTP."""
    start = SOURCES[module]
    root = root / start.folder
    write_files(str(root))
    start.prepare(root)
    with passdown.open(str(root), settings=start.settings, clock=start.clock()) as workspace:
        for task in start.tasks:
            title = start.title.format(task=task)
            workspace.create_task(task, title=title, agent=start.agent)
        with over_http(workspace) as remote:
            yield remote

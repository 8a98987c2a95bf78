"""The scenarios of the library, told once more through a server: the same functions, another door.

Each is the test of another module with its workspace behind HTTP. What is left out says why.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown import Settings
from passdown.testing import fixed_clock, write_files
from tests import test_briefs, test_decisions, test_gates, test_handoffs, test_history, test_tasks
from tests.recall import test_search
from tests.serving import over_http

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

    from passdown import Workspace

SOURCES: dict[ModuleType, Settings] = {
    test_tasks: Settings(phase_gates={}, durability="normal"),
    test_handoffs: Settings(durability="normal"),
    test_decisions: Settings(durability="normal"),
    test_briefs: Settings(durability="normal"),
    test_gates: Settings(durability="normal"),
    test_history: Settings(durability="normal"),
    test_search: Settings(durability="normal", embedder="none"),
}

NOT_OFFERED = {
    "test_anything_but_a_decision_is_a_type_error": "values are checked before they are sent",
    "test_a_key_names_agent_and_time_and_stays_unique": "store_decision",
    "test_a_stored_decision_comes_back_equal": "store_decision",
    "test_a_time_without_a_zone_is_refused": "store_decision",
    "test_a_handoff_gives_its_context": "handoff_context",
    "test_an_old_decision_is_found_by_a_tag_in_the_next_step": "knows the store",
    "test_a_marker_that_stored_text_holds_is_not_used": "knows the store",
    "test_a_store_that_refuses_to_write_still_gives_briefs": "knows the store",
    "test_a_bundle_leaves_deliveries_out_and_a_backup_keeps_them": "bundles and backups",
    "test_a_brief_reads_no_more_after_a_long_history": "knows the store",
    "test_the_log_has_every_record_in_order": "the token's record counts as well",
    "test_records_can_not_be_changed_even_with_sql": "knows the store",
    "test_a_decision_without_a_task_concerns_all_work": "store_decision",
    "test_items_whose_files_changed_say_so": "a server looks at files once a second",
    "test_who_was_told_is_recorded_only_when_asked_for": "audit",
    "test_no_format_goes_over_its_budget": "a function can't be sent",
    "test_a_counter_that_does_not_count_is_refused": "a function can't be sent",
    "test_what_one_story_decided_is_found_in_the_next": "packs",
}


def scenarios(module: ModuleType) -> dict[str, Any]:
    """The tests of a module that need nothing but a workspace."""
    found = {name: value for name, value in vars(module).items() if name.startswith("test_")}
    return {
        name: test
        for name, test in found.items()
        if name not in NOT_OFFERED and "ws" in inspect.signature(test).parameters
    }


for _module in SOURCES:
    for _name, _test in scenarios(_module).items():
        assert _name not in globals(), _name
        globals()[_name] = _test


@pytest.fixture
def ws(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Workspace]:
    """A workspace as the module that wrote the test has it, reached over HTTP."""
    module = inspect.getmodule(request.function)
    assert module is not None
    write_files(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with passdown.open(str(tmp_path), settings=SOURCES[module], clock=fixed_clock()) as workspace:
        if module is test_search:
            for task in ("T-1", "T-2", "T-3"):
                workspace.create_task(task, title=f"Work on {task}", agent="planner")
        elif module is not test_tasks:
            workspace.create_task("T-1", title="Login", agent="planner")
        with over_http(workspace) as remote:
            yield remote


@pytest.mark.promise("W-7")
def test_what_is_left_out_is_there_to_be_left_out() -> None:
    """A test that was renamed or removed is taken off the list."""
    known = {name for module in SOURCES for name in vars(module)}
    assert set(NOT_OFFERED) <= known

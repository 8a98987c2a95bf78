"""Tests of the library that also run through a server."""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import passdown
from passdown import Settings
from passdown.testing import fixed_clock, write_files
from tests import test_decisions, test_gates, test_handoffs, test_history
from tests.serving import over_http

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path
    from types import ModuleType

    from passdown import Workspace

QUICK = Settings(durability="normal")
SOURCES = (test_handoffs, test_gates, test_decisions, test_history)
LEFT_OUT = {
    "test_records_can_not_be_changed_even_with_sql": "looks into the store itself",
    "test_everything_wrong_is_said_at_once_and_nothing_is_written": "a key that a header can't "
    "hold is refused before anything else is looked at",
    "test_a_rejection_that_an_earlier_release_recorded_keeps_its_rule": "writes an old record",
    "test_the_log_has_every_record_in_order": "the token's record counts as well",
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
def told_over_http(root: Path) -> Generator[Workspace]:
    """A workspace as these tests have it, reached over HTTP."""
    write_files(str(root))
    with passdown.open(str(root), settings=QUICK, clock=fixed_clock()) as workspace:
        workspace.create_task("T-1", title="Login", agent="planner")
        with over_http(workspace) as remote:
            yield remote

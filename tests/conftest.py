"""Fixtures for every test, and how hard Hypothesis tries.

With PASSDOWN_CI set, a test that skips fails: something is missing on this machine. Sample data may
be missing, since it isn't part of the project.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.engine_files import copy_engine_files
from tests.postgres import (
    IN_CI,
    each_store,
    in_own_folder,
    keep_in,
    postgres,
    postgres_database,
    postgres_server,
    postgres_store,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

__all__ = [
    "IN_CI",
    "each_store",
    "in_own_folder",
    "keep_in",
    "postgres",
    "postgres_database",
    "postgres_server",
    "postgres_store",
]

# Tests start hundreds of processes: each would compile the package again without this.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

MEMORY = "/dev/shm"
if "TMPDIR" not in os.environ and os.path.isdir(MEMORY) and shutil.disk_usage(MEMORY).free > 2**32:
    # Almost every test syncs files, and none depends on the disk: in memory that takes no time.
    os.environ["TMPDIR"] = tempfile.tempdir = MEMORY

settings.register_profile(
    "local", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("ci", settings.get_profile("local"), derandomize=True)
settings.register_profile("soak", settings.get_profile("local"), max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if IN_CI else "local"))


# Looking for garbage takes a twentieth of all the time, and there is little: what is loaded for all
# tests stays, and isn't looked through again.
gc.disable()


def pytest_collection_finish() -> None:
    copy_engine_files()
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _repository_stays_clean() -> Generator[None]:
    """No test leaves a workspace in the repository: the next one would find it."""
    folder = Path(__file__).parents[1] / ".passdown"
    was_there = folder.exists()
    yield
    assert was_there or not folder.exists(), f"a test has made {folder}"


@pytest.fixture(scope="session")
def project_root() -> Path:
    """The folder that holds pyproject.toml."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Larger sample data, where PASSDOWN_DATA names a folder with some."""
    folder = os.environ.get("PASSDOWN_DATA")
    if not folder:
        pytest.skip("PASSDOWN_DATA is not set")
    return Path(folder)


@pytest.fixture(scope="session")
def need_program() -> Callable[[str], str]:
    """Find a program by name: without it the test is skipped."""

    def find(name: str) -> str:
        found = shutil.which(name)
        if found is None:
            pytest.skip(f"{name} is not installed")
        return found

    return find


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    fail_in_ci(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    fail_in_ci(report)
    return report


def fail_in_ci(report: pytest.TestReport | pytest.CollectReport) -> None:
    """In CI, make a failure of what was skipped for want of something."""
    why = str(report.longrepr)
    is_expected = hasattr(report, "wasxfail") or "PASSDOWN_DATA" in why
    if IN_CI and report.skipped and not is_expected:
        report.outcome = "failed"
        report.longrepr = f"skipped, which no test may in CI: {why}"

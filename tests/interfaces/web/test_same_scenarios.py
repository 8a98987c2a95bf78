"""The scenarios of the library, told again through `passdown.open("http://...")`: the same tests,
the same answers.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import pytest

import passdown
from tests.interfaces.web.scenarios import LEFT_OUT, QUICK, SOURCES, scenarios, told_over_http
from tests.serving import over_http
from tests.test_decisions import test_a_stored_decision_comes_back_equal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from passdown import Workspace

for _module in SOURCES:
    for _name, _test in scenarios(_module).items():
        assert _name not in globals(), _name
        globals()[_name] = _test


@pytest.fixture
def each_store() -> None:
    """Scenarios of both stores are told here with the one that every machine has."""


@pytest.fixture
def ws(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Workspace]:
    module = inspect.getmodule(request.function)
    assert module is not None
    (tmp_path / SOURCES[module].folder).mkdir(exist_ok=True)
    monkeypatch.chdir(tmp_path / SOURCES[module].folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with told_over_http(module, tmp_path) as remote:
        yield remote


@pytest.fixture
def workspace(ws: Workspace) -> Workspace:
    return ws


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    folder = tmp_path_factory.mktemp("decisions")
    with passdown.open(str(folder), settings=QUICK) as here, over_http(here) as remote:
        yield remote


@pytest.mark.promise("W-7")
def test_what_is_left_out_is_there_to_be_left_out() -> None:
    """A test that was renamed or removed is taken off the list."""
    known = {name for module in SOURCES for name in vars(module)}
    assert set(LEFT_OUT) <= known


__all__ = ["test_a_stored_decision_comes_back_equal"]

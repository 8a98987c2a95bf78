"""The table of operations: complete, documented, resolvable, and what the stubs were made from."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from operator import attrgetter
from pathlib import Path
from typing import get_type_hints

import pytest

import passdown
from passdown.core.codec import decode, encode, field_names
from passdown.core.graph import Edge, Node
from passdown.errors import PassdownError, Problem
from passdown.operations import OPERATIONS, Operation, argument_texts, load
from passdown.testing.stubs import generated
from passdown.workspace import Workspace

EVERY = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)


def test_a_workspace_has_few_names() -> None:
    """What is seldom used is in a group."""
    assert len([name for name in dir(Workspace) if not name.startswith("_")]) <= 40


@EVERY
def test_annotations_resolve_at_run_time(operation: Operation) -> None:
    """Frameworks that make tools of methods read them."""
    hints = get_type_hints(load(operation.function))
    assert "return" in hints
    assert set(hints) == {*inspect.signature(load(operation.function)).parameters, "return"}


@pytest.mark.parametrize("name", [name for name in passdown.__all__ if name[0] != "_"])
def test_annotations_of_what_is_exported_resolve_at_run_time(name: str) -> None:
    value = getattr(passdown, name)
    if callable(value):
        get_type_hints(value)


@EVERY
def test_every_parameter_is_described(operation: Operation) -> None:
    """The descriptions are the help of flags and of the HTTP API, and a method's docstring."""
    function = load(operation.function)
    assert list(argument_texts(function)) == list(inspect.signature(function).parameters)[1:]
    method = attrgetter(operation.name)(Workspace)
    described = re.findall(r"^ {8}\**(\w+): ", method.__doc__ or "", re.MULTILINE)
    assert described == list(inspect.signature(function).parameters)[1:]


@EVERY
def test_a_route_names_parameters(operation: Operation) -> None:
    """A part of a path is an argument of the function, unless a function of its own reads it."""
    named = set(re.findall(r"{(\w+)}", operation.http))
    assert operation.has_handler or named <= set(
        inspect.signature(load(operation.function)).parameters
    )


def test_names_and_routes_are_unique() -> None:
    names = [operation.name for operation in OPERATIONS]
    routes = [operation.http for operation in OPERATIONS if operation.http]
    assert len(set(names)) == len(names)
    shared = {"GET /api/tasks/{task}/state": 3}
    assert {http: count for http, count in Counter(routes).items() if count > 1} == shared


def test_stubs_and_reference_are_those_of_the_table() -> None:
    """Written again by: python -m passdown.testing.stubs."""
    for path, text in generated().items():
        assert Path(path).read_text() == text, f"{path} is stale: python -m passdown.testing.stubs"


@EVERY
def test_a_closed_workspace_refuses(operation: Operation, tmp_path: Path) -> None:
    workspace = passdown.open(str(tmp_path))
    workspace.close()
    method = workspace
    for name in operation.name.split("."):
        method = getattr(method, name)
    with pytest.raises(PassdownError, match="the workspace is closed"):
        method()  # pyright: ignore[reportCallIssue, reportGeneralTypeIssues]


@pytest.mark.parametrize(
    "value",
    [
        Problem("path", "code", "message"),
        Node("a", "insight", "A", ("x",), {"level": "high"}),
        Edge("a", "uses", "b"),
    ],
)
def test_values_survive_json(value: object) -> None:
    assert decode(type(value), encode(value)) == value
    assert field_names(type(value))

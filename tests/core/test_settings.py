"""Settings: what is misspelt is refused, with what was probably meant."""

from __future__ import annotations

from typing import Any

import pytest

from passdown.core.settings import parse_settings
from passdown.errors import InvalidInput


@pytest.mark.promise("S0-34")
@pytest.mark.parametrize(
    ("document", "meant"),
    [
        ({"switch": {"enable": True}}, "switch.enabled"),
        ({"swich": {"enabled": True}}, "switch"),
        ({"enabled": True}, "switch.enabled"),
        ({"brief": {"window": 5}}, "context.window"),
        ({"needs": {"qa": {"file": ["x"]}}}, "files"),
        ({"gates": {"tests": {"source": 1}}}, "testing"),
    ],
)
def test_a_setting_that_there_is_not_names_the_one_that_was_meant(
    document: dict[str, Any], meant: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_settings(document)
    (problem,) = caught.value.problems
    assert (problem.code, problem.fix) == ("unknown_setting", f"did you mean {meant}?")


def test_what_a_repository_must_not_say_names_where_it_is_said() -> None:
    """A program to run is for the user to choose."""
    with pytest.raises(InvalidInput) as caught:
        parse_settings({"migrate": {"command": "x", "timeout_s": 5}})
    (problem,) = caught.value.problems
    assert (problem.path, problem.code) == ("migrate.command", "unknown_setting")
    assert "PASSDOWN_MIGRATE_COMMAND" in problem.fix


def test_what_resembles_nothing_has_no_hint() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_settings({"xyzzy": 1, "switch": True})
    assert [(p.path, p.code, p.fix) for p in caught.value.problems] == [
        ("xyzzy", "unknown_setting", ""),
        ("switch", "wrong_type", ""),
    ]

"""The published description holds: what it allows is answered as it says, what it doesn't is
refused, and nothing that fits or breaks it makes the server fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis import checks as usual
from schemathesis.specs.openapi import checks as described_checks

import passdown
from passdown.testing import full_handoff, write_files
from passdown.web.app import ROUTES
from tests.interfaces.web.conftest import QUICK
from tests.serving import EVERY_RIGHT, served
from tests.sizes import example_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from passdown.web.requests import ApiRoute
    from tests.serving import Served

EXAMPLES = example_count(2)
CHECKS: list[Any] = [
    vars(usual)["not_a_server_error"],
    *(
        vars(described_checks)[name]
        for name in (
            "status_code_conformance",
            "content_type_conformance",
            "response_headers_conformance",
            "response_schema_conformance",
        )
    ),
]


class Described(NamedTuple):
    server: Served
    token: str
    schema: Any


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Described]:
    """One server for all: what is drawn for one operation is there for the next."""
    root = str(tmp_path_factory.mktemp("described"))
    write_files(root)
    with passdown.open(root, settings=QUICK) as ws, served(ws) as server:
        ws.create_task("T-1", title="Login", agent="planner")
        ws.hand_off(full_handoff(gates=[]))
        token = server.token("kim", *EVERY_RIGHT, is_person=True)
        schema = schemathesis.openapi.from_url(f"{server.url}/api/openapi.json")
        yield Described(server, token, schema)


@pytest.mark.promise("W-4")
@pytest.mark.hypothesis
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: str(mode.value))
@pytest.mark.parametrize("row", ROUTES, ids=lambda row: row.name)
def test_every_answer_is_one_that_the_description_has(
    described: Described, row: ApiRoute, mode: GenerationMode
) -> None:
    """Requests that fit it and requests that break it, drawn for each operation."""
    operation: Any = described.schema[row.path][row.method]

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.filter_too_much,
            HealthCheck.data_too_large,
        ],
        derandomize=True,
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def draw(case: Any) -> None:
        headers = {"Authorization": f"Bearer {described.token}"}
        case.call_and_validate(headers=headers, checks=CHECKS, timeout=240)

    draw()


@pytest.mark.filterwarnings("ignore")
def test_nothing_that_was_drawn_has_harmed_the_store(described: Described) -> None:
    assert described.server.workspace.verify().ok

"""What holding a conversation costs is measured, beside the commits that it can't do without."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from bench.conversations import MOST_MS, measure
from bench.run import Run


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return measure(Run(tmp_path_factory.mktemp("bench"), quick=True))


@pytest.mark.promise("S4-37")
def test_the_overhead_of_a_request_is_measured_beside_two_bare_commits(found: Any) -> None:
    rows = {row.what: row for row in found.rows}
    beyond = rows["milliseconds of it beyond the commits"]
    assert beyond.ratio is not None
    assert beyond.ratio > 0
    assert beyond.target is not None
    assert (beyond.target.sense, beyond.target.value) == ("at most", MOST_MS)
    assert found.figures["request"]["samples"] >= 50
    assert found.figures["two_bare_commits"]["samples"] >= 50


@pytest.mark.promise("S4-37")
def test_requests_in_a_conversation_say_only_what_is_new(found: Any) -> None:
    sizes = found.figures["sizes"]
    assert [each["requests"] for each in sizes] == [5, 10, 20]
    added = [b["texts"] - a["texts"] for a, b in pairwise(sizes)]
    assert added[1] == pytest.approx(2 * added[0], rel=0.05)
    assert all(each["texts"] < each["stateless"] for each in sizes)

"""What holding a conversation costs is measured, beside the commits that it can't do without."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from bench.conversations import MOST_MS, measure
from bench.run import Run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.promise("S4-37")
def test_the_overhead_of_a_request_is_measured_beside_two_bare_commits(tmp_path: Path) -> None:
    found = measure(Run(tmp_path, quick=True))
    rows = {row.what: row for row in found.rows}
    beyond = rows["milliseconds of it beyond the commits"]
    assert beyond.ratio is not None
    assert beyond.ratio > 0
    assert beyond.target is not None
    assert (beyond.target.sense, beyond.target.value) == ("at most", MOST_MS)
    assert found.figures["request"]["samples"] >= 50
    assert found.figures["two_bare_commits"]["samples"] >= 50


@pytest.mark.promise("S4-37")
def test_requests_in_a_conversation_say_only_what_is_new(tmp_path: Path) -> None:
    sizes = measure(Run(tmp_path, quick=True)).figures["sizes"]
    assert [each["requests"] for each in sizes] == [5, 10, 20]
    added = [b["texts"] - a["texts"] for a, b in pairwise(sizes)]
    assert added[1] == pytest.approx(2 * added[0], rel=0.05)
    assert all(each["texts"] < each["stateless"] for each in sizes)

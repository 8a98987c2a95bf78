"""What holding a conversation costs is measured, beside the commits that it can't do without."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from bench.conversations import MOST_MS, measure
from bench.run import Run
from passdown.relay import conversations

if TYPE_CHECKING:
    from pathlib import Path


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
def test_the_share_of_a_request_is_measured_too(found: Any) -> None:
    """What is beyond the commits, of the whole: both figures fit the times that they come from."""
    rows = {row.what: row.ratio for row in found.rows}
    share = rows["share of a request that is beyond the commits"]
    whole = rows["milliseconds of it beyond the commits"] / share
    assert 0 < share < 1
    assert whole == pytest.approx(found.figures["request"]["median_ms"], rel=0.01)


@pytest.mark.promise("S4-37")
def test_a_slower_conversation_is_seen_in_the_figures(
    found: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty milliseconds in each request are twenty more in the overhead, and nearly all of it."""
    usual = conversations.review

    def slow(*given: Any, **named: Any) -> Any:
        time.sleep(0.02)
        return usual(*given, **named)

    monkeypatch.setattr(conversations, "review", slow)
    slowed = measure(Run(tmp_path, quick=True))
    rows = {row.what: row.ratio or 0 for row in slowed.rows}
    assert rows["milliseconds of it beyond the commits"] > 20
    assert slowed.figures["overhead_ms"] > found.figures["overhead_ms"] + 10
    assert rows["share of a request that is beyond the commits"] > 0.5


@pytest.mark.promise("S4-37")
def test_requests_in_a_conversation_say_only_what_is_new(found: Any) -> None:
    sizes = found.figures["sizes"]
    assert [each["requests"] for each in sizes] == [5, 10, 20]
    added = [b["texts"] - a["texts"] for a, b in pairwise(sizes)]
    assert added[1] == pytest.approx(2 * added[0], rel=0.05)
    assert all(each["texts"] < each["stateless"] for each in sizes)

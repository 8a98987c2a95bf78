"""What a person must act on: the same in every store, the most urgent first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

import passdown
from passdown import Settings
from passdown.errors import InvalidInput

if TYPE_CHECKING:
    from pathlib import Path

QUICK = Settings(durability="normal", embedder="none")


@pytest.mark.promise("W-22")
@pytest.mark.usefixtures("each_store")
def test_what_is_urgent_comes_first_and_nothing_is_missing(tmp_path: Path) -> None:
    """Also if more tasks wait to be taken than are listed: what is blocked isn't among them."""
    now = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
    with passdown.open(str(tmp_path), settings=QUICK, clock=lambda: now) as ws:
        ws.create_task("T-0", title="Silent", agent="ann")
        ws.update_task("T-0", agent="bob", holder="bob")
    later = now + timedelta(hours=2)
    with passdown.open(str(tmp_path), settings=QUICK, clock=lambda: later) as ws:
        for number in range(1, 5):
            ws.create_task(f"T-{number}", title="Wait", agent="ann")
            ws.hand_off(task=f"T-{number}", from_agent="ann", to_agent="bob", outcome="completed")
        ws.create_task("T-9", title="Blocked", agent="ann")
        ws.create_task("T-8", title="Blocks", agent="ann")
        ws.hand_off(
            task="T-8",
            from_agent="ann",
            to_agent="bob",
            outcome="partial",
            next_steps=["go on"],
            blockers=[
                {"blocker": "No key", "blocking_tasks": ["T-9"]},
                {"blocker": "Is it legal?", "requires_human": True},
            ],
            questions=["Which port?"],
        )
        found = ws.maintenance.attention(limit=3)
        kinds = [(each["kind"], each["task"], each["address"]) for each in found.entries]
        assert kinds == [
            ("gate", "T-8", "T-8#k1"),
            ("question", "T-8", "T-8#q1"),
            ("blocked", "T-9", "T-8#b1"),
            ("silent", "T-0", "T-0"),
            ("untaken", "T-1", "T-1"),
            ("untaken", "T-2", "T-2"),
            ("untaken", "T-3", "T-3"),
        ]
        assert found.more == ["untaken"]
        assert [each["next"] for each in found.entries[:4]] == [
            ["approve", "reject"],
            ["set_status"],
            ["set_status"],
            ["update_task", "hand_off"],
        ]
        assert ws.maintenance.attention(thorough=True).entries[:4] == found.entries[:4]
        rest = ws.maintenance.attention(limit=3, kind="untaken", after=3)
        assert ([each["task"] for each in rest.entries], rest.more) == (["T-4"], [])
        with pytest.raises(InvalidInput, match="kind"):
            ws.maintenance.attention(kind="anything")


@pytest.mark.promise("W-22")
def test_many_of_one_kind_hide_no_other(tmp_path: Path) -> None:
    with passdown.open(str(tmp_path), settings=QUICK) as ws:
        for number in range(4):
            ws.create_task(f"B-{number}", title="Blocked", agent="ann")
        blocked = [f"B-{number}" for number in range(4)]
        ws.create_task("T-1", title="Blocks", agent="ann")
        ws.hand_off(
            task="T-1",
            from_agent="ann",
            to_agent="bob",
            outcome="partial",
            next_steps=["go on"],
            blockers=[{"blocker": "No key", "blocking_tasks": blocked}],
        )
        found = ws.maintenance.attention(limit=1)
        assert [each["kind"] for each in found.entries] == ["blocked", "untaken"]
        assert found.more == ["blocked"]

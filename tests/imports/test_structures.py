"""Decisions keep their reasons, and what is beside them is read as what it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from passdown.imports.note_items import extract_note

FASTAPI = {"decision": "Use FastAPI", "rationale": "Async support"}


def found(text: str, kind: str, name: str = "") -> list[dict[str, Any]]:
    return [item.fields for item in extract_note(text, name).found if item.kind == kind]


def said(text: str, kind: str) -> list[str]:
    return [next(iter(fields.values())) for fields in found(text, kind)]


@pytest.mark.promise("S3-33")
@pytest.mark.parametrize("others", [None, ["Flask", "Django"], "Flask; Django"])
def test_a_report_that_is_a_decision_keeps_its_reason(others: Any) -> None:
    """Also as the whole file, and as a list of decisions without a key above them."""
    one = FASTAPI | ({"alternatives": others} if others else {})
    kept = {"summary": "Use FastAPI", "rationale": "Async support"}
    kept |= {"alternatives": ["Flask", "Django"]} if others else {}
    assert found(json.dumps(one), "decisions") == [kept]
    two = [one, {"decision": "Use Go", "rationale": "It is simple"}]
    for report in (two, {"log": two[::-1]}) if not isinstance(others, list) else (two,):
        first, second = sorted(
            found(json.dumps(report), "decisions"), key=lambda each: each["summary"]
        )
        assert first == kept
        assert second == {"summary": "Use Go", "rationale": "It is simple"}


@pytest.mark.parametrize("number", ["No", "No.", "#", "Nr"])
def test_numbers_dates_and_the_status_of_a_decision_are_no_artifacts(number: str) -> None:
    note = (
        f"# N\n\n## Decisions\n\n| {number} | Decision | Status | Rationale | Date |\n"
        "|---|---|---|---|---|\n| 1 | Use Go | accepted | It is simple | 2026-01-02 |\n"
    )
    assert found(note, "decisions") == [{"summary": "Use Go", "rationale": "It is simple"}]


def test_a_column_of_options_holds_the_alternatives() -> None:
    rows = "|---|---|---|\n| Flask | It is async | FastAPI for the gateway |\n"
    assert found(f"# N\n\n| Option | Reason | Decision |\n{rows}", "decisions") == [
        {
            "summary": "FastAPI for the gateway",
            "rationale": "It is async",
            "alternatives": ["Flask"],
        }
    ]
    note = (
        "# N\n\n## Decisions\n\n| Option | Reason |\n|---|---|\n| Go modules | They are simple |\n"
    )
    assert found(note, "decisions") == [
        {"summary": "Go modules", "rationale": "They are simple"},
    ]


@pytest.mark.parametrize(
    ("paragraph", "kind"),
    [
        ("Watch out for the clock skew.", "gotchas"),
        ("Unclear whether the cache may be shared.", "open_questions"),
        ("Should the limit be 5?", "open_questions"),
    ],
)
@pytest.mark.parametrize("above", ["## Decisions\n\n- Use Go\n- Keep Redis\n\n", "## Log\n\n", ""])
def test_a_paragraph_below_decisions_is_what_it_says(paragraph: str, kind: str, above: str) -> None:
    note = f"# N\n\n{above}{paragraph}\n"
    assert said(note, kind) == [paragraph]
    assert said(note, "decisions") == (["Use Go", "Keep Redis"] if "Go" in above else [])


def test_the_reason_of_a_short_decision_is_no_part_of_it() -> None:
    expected = [{"summary": "Use Go", "rationale": "simple."}]
    assert found("# N\n\nDecision: Use Go. Reason: simple.\n", "decisions") == expected
    assert found("# N\n\n- **Decision:** Use Go. Reason: simple.\n", "decisions") == expected


DECIDED = [
    "Key decisions:\n\n**Names:** Handles only.\n\n**Groups:** Small ones.\n",
    "## Decisions already made\n\n- Handles only\n- Small groups\n",
    "## Decisions\n\n### 1. Handles only\n\n- No names\n- No photos\n\n### 2. Keep small\n\nSo.\n",
    "## What Ann has decided (do not re-open)\n\n- Handles only\n- Small groups\n",
    "Fixed technology choices:\n\n- names: handles\n- groups: small\n",
    "## Questions\n\n| Question | Answer |\n|---|---|\n| Names? | Handles |\n| Size? | Small |\n",
    "## New\n\n| Incorrect (v1) | Correct (v2) |\n|---|---|\n| Names | Handles |\n| Big | Low |\n",
]


@pytest.mark.parametrize("note", DECIDED)
def test_decisions_are_found_in_every_structure(note: str) -> None:
    assert len(said(f"# N\n\n{note}", "decisions")) == 2


UNDECIDED = [
    "## Decision needed: model\n\n- A: small\n- B: large\n\n**Recommendation:** A\n",
    "## Model decision (open)\n\n- A small one\n- A large one\n",
    "## Decision\n\n| Option | Pros | Cons |\n|---|---|---|\n| Small | cheap | weak |\n",
    "## Skipped\n\n| Test | Reason |\n|---|---|\n| test_big | It takes an hour |\n",
    "## Bugs\n\n| Bug | Resolution |\n|---|---|\n| Crash at start | Added a default |\n",
    "**Owner**: ann\n**Decision**: DECISION_146 v2.0.0 + DECISION_165\n**Date**: 2026-02-27\n",
    "## Built\n\n- **Decision-core**: a pointer into the list\n",
    "## Working agreements\n\n### Start here\n\nRead the design.\n",
    "## Decisions (superseded)\n\n- Use Go\n",
    "## Session 4: deployed the site and made editorial decisions\n\n### Shipping\n\n- Push it\n",
]


@pytest.mark.parametrize("note", UNDECIDED)
def test_what_is_not_decided_is_no_decision(note: str) -> None:
    assert said(f"# N\n\n{note}", "decisions") == []


TO_DO = [
    "## Required changes:\n\n- Port the exporter\n- Delete the shim\n",
    "## Deployment steps\n\n1. **Port the exporter**\n2. **Delete the shim**\n",
    "## Release sequence (when resumed)\n\n1. Port the exporter\n2. The shim\n",
    "## Plan\n\n### Step 1: Port it\n\nIts fields:\n- a: `x`\n\n### Step 2: Delete\n\nSo.\n",
    "## Next steps\n\n**1. Port the exporter**\nIt is old.\n\n**2. Delete the shim**\nUnused.\n",
    "## Known issues & TODO\n\n### Nice-to-have features\n\n- Undo and redo\n- Templates\n",
    "## Open issues\n\n- **#26 rotation** - verify\n- **#27 cards** - try\n- #29 x - CLOSED\n",
    "## Tasks\n\n- \u23f3 Port the exporter\n- Delete the shim\n\n### Done\n\n- Add the parser\n",
    "## Next moves, in order\n\n- Port the exporter\n- Delete the shim\n",
    "## Recommended next session\n\n1. **Exporter** - port it\n2. **Shim** - delete it\n",
    "## Next frontier\n\n- Port the exporter\n- Delete the shim\n",
    "**Next steps (the work that is open, after seven runs in which every gain came\n"
    "from the environment):**\n1. Port the exporter\n2. The shim\n",
    "## Status\n\n**Next:** port the exporter\n\n**Next:** delete the shim\n",
]


@pytest.mark.parametrize("note", TO_DO)
def test_steps_are_found_in_every_structure(note: str) -> None:
    assert len(said(f"# N\n\n{note}", "suggested_next_steps")) == 2


@pytest.mark.parametrize(
    "note",
    [
        "## Burn-down (original diagnosis; superseded)\n\nRemaining work:\n1. Rerun the suite\n",
        "## The gate fails open\n\n1. The model is retired\n2. Its handler accepts\n",
        "## Bail-out plan\n\nIf it proves intractable, the values stay as they are.\n",
        "## Roadmap rewrite\n\n| Phase | Name |\n|---|---|\n| 8 | Dense screens first |\n",
        "The coefficients don't need to be exact for it to be stable.\n",
        "All writes must go through:\n\n1. Check the lock\n2. Log the write\n",
        "The path is resolved in order:\n\n1. the file\n2. the shell\n",
    ],
)
def test_what_is_over_or_only_described_is_no_step(note: str) -> None:
    assert said(f"# N\n\n{note}", "suggested_next_steps") == []


@pytest.mark.parametrize(
    "line",
    [
        "The slice is small, but it is no longer only a stub.",
        "Delete this file when it goes stale.",
        "The two commits were deliberately untouched.",
        "Bug fixed: the engine rounded up.",
    ],
)
def test_an_ordinary_remark_is_no_gotcha(line: str) -> None:
    assert said(f"# N\n\n## Where it stands\n\n{line}\n", "gotchas") == []


def test_a_box_before_a_constraint_is_to_be_read_and_before_an_order_to_be_done() -> None:
    note = "# N\n\n- [ ] CONSTRAINT: the helper is out of scope\n- [ ] Bug: fix the login\n"
    assert said(note, "gotchas") == ["the helper is out of scope"]
    assert said(note, "suggested_next_steps") == ["Bug: fix the login"]


def test_nothing_is_blocked_is_no_blocker() -> None:
    assert said("# N\n\n- Memory: `m1-blocked-by-task`\n", "blockers") == []
    assert said("# N\n\nNothing is blocked on anything else.\n", "blockers") == []


def test_a_number_and_a_sign_before_a_heading_are_no_part_of_it() -> None:
    note = "# N\n\n## 9. \u26a0 Warnings / gotchas for next session\n\n- No window is shown\n"
    assert said(note, "gotchas") == ["No window is shown"]
    assert said(note, "suggested_next_steps") == []

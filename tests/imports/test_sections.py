"""What headings, labels, keys and verbs say about the lines near them."""

from __future__ import annotations

from typing import Any

import pytest

from passdown.imports.note_cues import BLOCKER, DECISION, GOTCHA, NEXT, QUESTION
from passdown.imports.note_items import MAIN, extract_note

pytestmark = pytest.mark.promise("S3-33")


def said(note: str, kind: str, name: str = "") -> list[str]:
    """The sentences of the items of a kind."""
    return [str(i.fields[MAIN[kind]]) for i in extract_note(note, name).found if i.kind == kind]


def decision(note: str) -> dict[str, Any]:
    """The first decision of a note."""
    return next(i.fields for i in extract_note(note).found if i.kind == DECISION)


def files(note: str, name: str = "") -> dict[str, str]:
    """What became of each file: created, modify, delete, or the kind of another mention."""
    return {
        str(i.fields.get("path") or i.fields["file"]): str(
            i.fields.get("change_type") or i.kind.removeprefix("files_")
        )
        for i in extract_note(note, name).found
        if "path" in i.fields or "file" in i.fields
    }


@pytest.mark.parametrize(
    ("heading", "kind"),
    [
        ("Needs testing", NEXT),
        ("Parked", NEXT),
        ("Not started", NEXT),
        ("What's left", NEXT),
        ("Where to pick up", NEXT),
        ("What the code won't tell you", GOTCHA),
        ("Keep in mind", GOTCHA),
        ("Hard rules", GOTCHA),
        ("Lessons learned", GOTCHA),
        ("To decide", QUESTION),
        ("Undecided", QUESTION),
        ("Awaiting a decision", QUESTION),
        ("Waiting on", BLOCKER),
        ("Stuck", BLOCKER),
        ("Deviations from the plan", DECISION),
    ],
)
def test_a_heading_announces_the_kind_of_its_list(heading: str, kind: str) -> None:
    assert said(f"# Note\n\n## {heading}\n- The pump of the north field\n", kind)


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("still_open", NEXT),
        ("what_is_left", NEXT),
        ("pending_decisions", QUESTION),
        ("waiting_on", BLOCKER),
        ("lessons_learned", GOTCHA),
        ("things_to_watch", GOTCHA),
    ],
)
def test_a_key_announces_what_a_heading_of_its_words_does(key: str, kind: str) -> None:
    """In JSON, in YAML, and as a label in a text."""
    line = "The pump of the north field"
    assert said(f'{{"{key}": ["{line}"]}}', kind, "a.json") == [line]
    assert said(f"{key}:\n  - {line}\n", kind, "a.yaml") == [line]
    assert said(f"# Note\n\n{key}:\n- {line}\n", kind) == [line]


def test_a_key_of_something_else_announces_nothing() -> None:
    note = '{"error_handling": ["Each failure is logged"], "issues_fixed": ["The pump leaked oil"]}'
    assert said(note, GOTCHA, "a.json") == []


def test_sections_of_a_note_without_a_title_count() -> None:
    note = "## Open questions\n\nThe colour of the label, which the printer may not have.\n"
    assert said(note, QUESTION) == ["The colour of the label, which the printer may not have."]


def test_facts_for_the_next_agent_are_no_steps() -> None:
    note = (
        "# Note\n\n## For the next agent: mason\n\n### Your task\nLay the second row of bricks.\n\n"
        "### Current state\n- **Wall:** one metre high\n\n### Can skip\n- The first row of bricks\n"
    )
    assert said(note, NEXT) == ["Lay the second row of bricks."]


def test_a_condition_announces_no_question() -> None:
    note = "# Note\n\n## Help\nIf something is unclear:\n- Ring the office in the mill\n"
    assert said(note, QUESTION) == []


def test_a_question_with_an_answer_beside_it_is_none() -> None:
    note = (
        "# Note\n\n## Open questions\n\n| Question | Answer |\n|---|---|\n"
        "| Which glue holds on oak? | Bone glue |\n| Which one holds on pine? | TBD |\n"
    )
    assert said(note, QUESTION) == ["Which one holds on pine?"]
    over = "# Note\n\n## Questions resolved\n\n| Question | By |\n|---|---|\n| Which oak? | Ann |\n"
    assert said(over, QUESTION) == []


def test_a_decision_to_take_is_a_step_and_a_question() -> None:
    note = "# Note\n\n## Next steps\n- Decide whether the barn gets a second door\n- Roof: TBD\n"
    assert said(note, NEXT) == ["Decide whether the barn gets a second door", "Roof: TBD"]
    assert said(note, QUESTION) == said(note, NEXT)


def test_the_question_why_labels_the_reason_of_a_decision() -> None:
    """With what was not chosen; steps between the two don't matter."""
    note = (
        "# Note\n\n## Roof\n\n**Decision: Slate tiles.**\n\nNext, order them.\n\n"
        "**Why slate and not straw?**\n\n- It lasts for a century.\n- Rain runs off.\n"
    )
    found = decision(note)
    assert found["rationale"] == "It lasts for a century.; Rain runs off."
    assert found["alternatives"] == ["straw"]
    short = "# Note\n\n## Roof\n\n**Decision: Slate tiles.**\n\n**Why slate?** It lasts for long.\n"
    assert decision(short)["rationale"] == "It lasts for long."
    assert said(note + short, QUESTION) == []


def test_labels_below_an_item_make_it_a_decision_and_a_step() -> None:
    note = (
        "# Note\n\n## Found\n1. **Insight**: Oak was chosen over pine\n"
        "   - **Rationale**: Pine rots in the wet\n   - **Action needed**: Order ten oak beams\n"
    )
    found = decision(note)
    assert found["rationale"] == "Pine rots in the wet"
    assert found["alternatives"] == ["pine"]
    assert said(note, NEXT) == ["Order ten oak beams"]


def test_what_follows_a_line_in_bold_explains_it() -> None:
    note = (
        "# Note\n\n## Decisions\n\n**1. The door opens outward.**\n"
        "The hall is narrow \u2014 a chair stands there.\n"
    )
    assert decision(note)["rationale"].startswith("The hall is narrow")


def test_the_reason_begins_after_the_first_sentence() -> None:
    """A dash further on belongs to it."""
    note = "# Note\n\n## Decisions\n- Two keys. One may get lost \u2014 it did before.\n"
    assert decision(note)["rationale"] == "One may get lost \u2014 it did before."


def test_a_warning_is_one_wherever_it_is() -> None:
    note = (
        "# Note\n\n## Still open\n- Paint the gate\n- IMPORTANT note on paint: it burns\n\n"
        "Don't rely on the old ladder.\n\n## Work\nThe valve silently drops the last litre.\n"
    )
    assert len(said(note, GOTCHA)) == 3
    assert said(note, NEXT) == ["Paint the gate"]


def test_a_heading_below_one_that_announces_a_kind_is_the_item() -> None:
    note = (
        "# Note\n\n## Known issues\n\n### The gate sticks\nIt does so in wet weather.\n\n"
        "## Log\n\n### Issue 2: The bell is mute\n**Problem:** The clapper is gone.\n"
    )
    assert said(note, GOTCHA) == ["The gate sticks", "Issue 2: The bell is mute"]


def test_nothing_to_do_is_no_step() -> None:
    note = "# Note\n\n## Roof\nNo tile needs to be added.\n\n## Left\n- The shed is now fixed\n"
    assert said(note, NEXT) == []


def test_a_blocked_status_says_what_blocks() -> None:
    note = "# Note\n\n## State\n- **Status:** Blocked \u2014 no key for the barn\n"
    assert said(note, BLOCKER) == ["Status: Blocked \u2014 no key for the barn"]


def test_a_table_of_files_with_work_below_next_steps_is_work() -> None:
    table = "| File | Change |\n|---|---|\n| `src/a.py` | Split the parser up |\n"
    note = f"# Note\n\n## Remaining\n\n{table}"
    assert len(said(note, NEXT)) == 1
    assert files(note) == {"src/a.py": "artifacts"}


@pytest.mark.parametrize(
    ("line", "change"),
    [
        ("`src/a.py` - Removed the second loop", "modify"),
        ("`src/a.py` - Added a guard for empty input", "modify"),
        ("`src/a.py` - removed", "delete"),
        ("`src/a.py` (new)", "created"),
        ("Removed the old flag from `src/a.py`", "modify"),
        ("Large modifications to `src/a.py`", "modify"),
        ("**src/a.py** : reworked", "modify"),
        ("Built the parts of the mill, each on its own day:\n  - a wheel in src/a.py", "created"),
    ],
)
def test_a_verb_says_what_became_of_a_file(line: str, change: str) -> None:
    assert files(f"# Note\n\n## Log\n- {line}\n") == {"src/a.py": change}


def test_a_heading_says_what_became_of_a_file() -> None:
    """Also where the path is a heading itself; in a plan nothing became of it yet."""
    note = "# Note\n\n## What changed\n\n### `src/a.py`\n\n- Faster.\n\n## Next\n- Fix src/b.py\n"
    assert files(note) == {"src/a.py": "modify", "src/b.py": "artifacts"}
    kept = "# Note\n\n## Not committed\n- `.hidden/a.toml` (colours)\n"
    assert files(kept) == {".hidden/a.toml": "modify"}


def test_a_report_says_what_became_of_a_file() -> None:
    note = (
        '{"touched": [{"path": "src/a.py", "action": "created"}],'
        ' "notes": "The mason wrote src/b.md.", "uncommitted_files": ["plans/north/"]}'
    )
    found = {"src/a.py": "created", "src/b.md": "created", "plans/north": "modify"}
    assert files(note, "a.json") == found


def test_commands_and_products_are_no_files() -> None:
    note = "# Note\n\nRun `/plan.review`, built with React/Next.js; no console.log is left.\n"
    assert files(note) == {}


def test_a_numbered_heading_below_issues_is_the_issue() -> None:
    """What is below it are details; a heading without a number may be the name of a group."""
    note = (
        "# Note\n\n## Issues\n\n### 1. The bridge sways\n- In the wind\n\n"
        "### Doors\n- One squeaks\n\n"
        "### Rust\nIt is on the hinges.\n\n### Minor: the bell is dull\n"
    )
    assert said(note, GOTCHA) == [
        "The bridge sways",
        "One squeaks",
        "Rust: It is on the hinges.",
        "Minor: the bell is dull",
    ]


@pytest.mark.parametrize(
    "title", ["Part 3 (pending)", "Part 3 \u2014 not started", "Part 3 [TODO]"]
)
def test_a_heading_says_that_its_part_is_still_to_do(title: str) -> None:
    assert said(f"# Note\n\n## {title}\n- Lay the floor\n", NEXT) == ["Lay the floor"]


def test_yaml_that_cannot_be_parsed_is_read_by_its_keys() -> None:
    note = (
        "done:\n  - Roof: red: tiles\nnext:\n  - Lay the floor\nblocked:\n  - No nails are left\n"
    )
    assert said(note, NEXT, "a.yaml") == ["Lay the floor"]
    assert said(note, BLOCKER, "a.yaml") == ["No nails are left"]


def test_what_is_forbidden_stays_so_in_a_report() -> None:
    assert said('{"do_not": ["burn the old plans"]}', GOTCHA, "a.json") == [
        "Do not: burn the old plans"
    ]


def test_what_was_considered_is_an_alternative() -> None:
    note = "# Note\n\n## Decisions\n- Considered straw but chose slate because it lasts\n"
    assert decision(note)["alternatives"] == ["straw"]


def test_a_status_is_no_topic_of_a_step() -> None:
    note = '{"pending_work": [{"title": "Add doors", "status": "not started"}]}'
    assert said(note, NEXT, "a.json") == ["Add doors (status: not started)"]


def test_a_verdict_is_no_decision() -> None:
    assert said("# Note\n\n**Verdict:** FAIL\n", DECISION) == []


def test_a_labelled_warning_counts_in_a_section_that_describes() -> None:
    note = "# Note\n\n## How it works\n- Gotcha: the lid is heavy\n- The rope must not be cut\n"
    assert said(note, GOTCHA) == ["the lid is heavy"]


def test_lines_and_groups_of_yaml_are_told_apart() -> None:
    note = (
        "decisions:\n  open:\n    - Whether to dig a second well\n"
        "pitfalls: |\n  The rope is short.\n  The lid is heavy.\n"
        "next_steps:\n  soon:\n    wells:\n      - task: Dig one\n        owner: ann\n"
    )
    assert said(note, QUESTION, "a.yaml") == ["Whether to dig a second well"]
    assert said(note, GOTCHA, "a.yaml") == ["The rope is short.", "The lid is heavy."]
    assert said(note, NEXT, "a.yaml") == ["Dig one (owner: ann)"]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("Which port does it use?", QUESTION),
        ("Whether to keep the old table", QUESTION),
        ("Publish the package", NEXT),
        ("The copies in the other project: not moved yet", NEXT),
    ],
)
def test_below_a_heading_of_two_kinds_the_form_of_an_item_decides(line: str, kind: str) -> None:
    note = f"# Note\n\n## Open questions / next steps\n\n- {line}\n"
    kinds = [item.kind for item in extract_note(note).found]
    assert kinds == [kind]


def test_an_order_among_pending_decisions_is_a_step() -> None:
    note = "pending_decisions:\n  - Merge it to main?\n  - After the merge, verify the logs\n"
    assert said(note, QUESTION, "a.yaml") == ["Merge it to main?"]
    assert said(note, NEXT, "a.yaml") == ["After the merge, verify the logs"]


@pytest.mark.parametrize(
    "heading",
    [
        "Scenario 9: POST with unknown agent returns 400",
        "Error handling",
        "Issue tracker",
        "No changes needed",
        "Decision engine",
    ],
)
def test_a_word_within_a_heading_announces_nothing(heading: str) -> None:
    assert extract_note(f"# Note\n\n## {heading}\n\n- The pump of the north field\n").found == ()


def test_remarks_that_restrict_are_gotchas_and_plain_facts_are_not() -> None:
    note = (
        "# Note\n\n## Notes\n\n- The pump must never run dry or it will break\n"
        "- The pump is in the north field\n\n## Verify\n\n1. Open the valve and look at the meter\n"
    )
    assert said(note, GOTCHA) == ["The pump must never run dry or it will break"]
    assert said(note, NEXT) == ["Open the valve and look at the meter"]


def test_a_suggestion_that_is_an_order_is_a_step_and_blocking_findings_are_blockers() -> None:
    note = (
        "# QA\n\n## Issues\n\n### Issue 1: The pump is loud\n- **Problem:** It wakes the cows.\n"
        "- **Suggestion:** Put felt below it.\n\n### Issue 2: The pump leaks\n"
        "- **Problem:** Water is lost.\n- **Severity:** BLOCKER\n"
    )
    assert said(note, GOTCHA) == ["Issue 1: The pump is loud"]
    assert said(note, BLOCKER) == ["Issue 2: The pump leaks"]
    assert said(note, NEXT) == ["Put felt below it."]


def test_a_failed_check_that_is_explained_is_a_gotcha_too() -> None:
    row = "| Scan | FAIL | The service answers 403; this is older than the change and stays |"
    note = f"# Note\n\n## Checks\n\n| Job | Status | Notes |\n|---|---|---|\n{row}\n"
    assert [item.kind for item in extract_note(note).found] == ["gates", "gotchas"]


def test_a_task_that_is_not_done_is_a_step_in_a_table_and_in_a_report() -> None:
    """Also below a heading for facts, such as Status; a blocked one is a blocker."""
    table = "| Task | Status |\n|---|---|\n| Dig | Done |\n| Fill the well | In progress |\n"
    assert said(f"# Note\n\n## Status\n\n{table}", NEXT) == ["Fill the well (Status: In progress)"]
    report = (
        '{"tasks": [{"name": "Dig the well", "status": "done"},'
        ' {"name": "Fill it", "status": "pending"}, {"name": "Test it", "status": "blocked"}]}'
    )
    assert said(report, NEXT, "a.json") == ["Fill it (status: pending)"]
    assert said(report, BLOCKER, "a.json") == ["Test it"]


def test_what_is_addressed_to_the_next_session_is_a_step_if_it_is_an_order() -> None:
    note = "# Note\n\n## For the next session\n\n- The pump is new\n- Fix the pump first\n"
    assert said(note, NEXT) == ["Fix the pump first"]


@pytest.mark.parametrize(
    ("heading", "kind"),
    [
        ("Open questions carried forward", QUESTION),
        ("Fast resume checklist", NEXT),
        ("Current queue", NEXT),
        ("Current goals", NEXT),
        ("On the horizon", NEXT),
        ("\u23f3 The north field", NEXT),
        ("Tomorrow's goals", NEXT),
        ("Manual testing needed", NEXT),
        ("key-decisions:", DECISION),
        ("Risk boundaries", GOTCHA),
        ("List of the known gaps", GOTCHA),
        ("Errors in the log", GOTCHA),
    ],
)
def test_the_noun_that_ends_a_phrase_announces_its_kind(heading: str, kind: str) -> None:
    """Words that only hold the noun may follow it, and others say that work is ahead."""
    line = "The pump of the north field"
    assert said(f"# Note\n\n## {heading}\n\n- {line}\n", kind) == [line]


@pytest.mark.parametrize(
    "heading",
    [
        "Retry logic for transient failures",
        "Notes from the field",
        "Phase 1 \u2705",
        "Phase 1 (done)",
    ],
)
def test_what_describes_another_noun_announces_nothing(heading: str) -> None:
    note = f"# Note\n\n## {heading}\n\n- The pump of the north field\n"
    assert extract_note(note).found == ()


def test_what_is_over_has_no_open_problems() -> None:
    """Below such a heading, neither a label nor a number makes an issue of a line."""
    note = (
        "# Note\n\n## Issues fixed\n\n### 1. Errors of the pump\n- **Problem:** It was loud.\n"
        "- **Solution:** Felt below it.\n\n## Known issues\n\n### Field\n- The gate sticks\n"
    )
    assert said(note, GOTCHA) == ["The gate sticks"]


def test_a_label_with_a_grade_or_a_number_is_no_item() -> None:
    note = (
        "# Note\n\n- **Risk:** low\n- **Issue:** #83\n- **Blockers:** none\n- Q1: 12 of 12 rows\n"
    )
    assert extract_note(note).found == ()

"""The forms that notes have: reviews, numbered steps, sections that only describe."""

from __future__ import annotations

import pytest

from passdown.imports.note_items import extract_note

REVIEW = """\
# Review of the broker

## Findings

### P1 - A lost acknowledgement is never sent again

Evidence:
- `src/broker.py:12` returns early

Required fix:
- Send it for every frame.

### P2 - Ports are not held

Problem: two runs get the same port.

## Next steps

### 1. Create a token

Ask the owner for it.

### Later

- Measure it
"""


def said(text: str, name: str = "") -> list[tuple[str, str]]:
    kinds = {"decisions": "summary", "gotchas": "issue", "suggested_next_steps": "step"}
    kinds |= {"open_questions": "question", "blockers": "blocker"}
    found = extract_note(text, name).found
    return [(i.kind, i.fields[kinds[i.kind]]) for i in found if i.kind in kinds]


@pytest.mark.parametrize("text", ["a: [1", "a: &x 1\nb: *x\n", "just words\n", "{}\n"])
def test_yaml_that_is_no_report_is_read_as_text(text: str) -> None:
    assert extract_note(text, "note.yaml").form in ("text", "report")


@pytest.mark.promise("S3-33")
def test_a_finding_is_its_heading_and_a_numbered_step_its_own() -> None:
    """What is below either belongs to it; an ordinary heading is the title of a list."""
    assert said(REVIEW) == [
        ("gotchas", "P1 - A lost acknowledgement is never sent again"),
        ("gotchas", "P2 - Ports are not held"),
        ("suggested_next_steps", "Create a token (Ask the owner for it.)"),
        ("suggested_next_steps", "Measure it"),
    ]
    first = extract_note(REVIEW).found[0]
    assert first.fields["mitigation"] == "Send it for every frame."


@pytest.mark.promise("S3-33")
@pytest.mark.parametrize(
    "text",
    [
        "# N\n\n## What this app does\n\n- All offline: data must not leave the machine\n",
        "# N\n\n## How to test\n\nThe server must be running.\n",
        "# N\n\n## Root causes & fixes\n\n- The cache was stale\n",
        "# N\n\n## Bugs fixed\n\n| Bug | Fix |\n|---|---|\n| Crash at start | a guard |\n",
        "# N\n\n## Test scenarios\n\n- [ ] Log in with a wrong password\n",
        "# N\n\nIs it fast? Yes, it is.\n",
        "# N\n\n## Summary\n\n- Blocked: 4\n",
    ],
)
def test_what_only_describes_is_no_item(text: str) -> None:
    assert said(text) == []


@pytest.mark.promise("S3-33")
def test_what_is_forbidden_stays_forbidden() -> None:
    """A list below "Do NOT" would say the opposite without its heading."""
    text = "# N\n\n## Do NOT\n\n- Touch the editor\n\n## Open decisions\n\n- The name of the body\n"
    assert said(text) == [
        ("gotchas", "Do not: Touch the editor"),
        ("open_questions", "The name of the body"),
    ]


@pytest.mark.promise("S3-33")
def test_a_list_of_files_is_what_its_heading_says() -> None:
    text = "# N\n\n## What was built\n\n- `src/a.py`: reads\n\n## Fixed\n\n- `src/b.py`: writes\n"
    assert [item.kind for item in extract_note(text).found] == ["files_created", "files_modified"]


@pytest.mark.promise("S3-33")
@pytest.mark.parametrize(
    ("line", "kind", "change"),
    [
        (
            "- `src/a.py` \u2014 safe_truncate(), which replaced byte slices",
            "files_modified",
            "modify",
        ),
        ("- `src/a.py` \u2014 retries, now added", "files_modified", "modify"),
        ("- `src/a.py`: a new reader", "files_created", None),
        ("- `src/a.py`", "files_modified", "modify"),
    ],
)
def test_a_file_that_leads_an_item_is_what_became_of_it(
    line: str, kind: str, change: str | None
) -> None:
    (item,) = extract_note(f"# N\n\n## Changes made\n\n{line}\n").found
    assert (item.kind, item.fields.get("change_type")) == (kind, change)


@pytest.mark.promise("S3-33")
@pytest.mark.parametrize(
    ("text", "name", "result"),
    [
        ("- [PASS] Log in", "Log in", "passed"),
        ("- \u274c FAIL: Log out", "Log out", "failed"),
        ("### AC 2: Log out \u2014 FAIL\n\nNothing happens.", "AC 2: Log out", "failed"),
        ("### 3. Log in\n\n- **Status**: PASS", "Log in", "passed"),
    ],
)
def test_a_verdict_is_the_result_of_a_gate(text: str, name: str, result: str) -> None:
    found = extract_note(f"# QA\n\n## Checks\n\n{text}\n").found
    gates = [(item.fields["name"], item.fields["result"]) for item in found if item.kind == "gates"]
    assert gates == [(name, result)]

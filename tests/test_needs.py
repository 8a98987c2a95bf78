"""What a receiver needs and didn't get is a warning that says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import passdown
from passdown import Settings, Workspace
from passdown.context.needs import NeedsFacts, matches, missing_needs
from passdown.workspace.task_context import NEWEST_FOR_NEEDS, needs_facts

if TYPE_CHECKING:
    from pathlib import Path

HAS = NeedsFacts(
    agent="qa",
    paths=(("src/auth/jwt.py", "source"), ("docs/plan.md", "doc"), ("", "config")),
    decisions=(
        ("One file, no server", "Storage has to be simple", ("architecture",)),
        ("Retry twice", "the error\n  handling is thin", ("rate-limit",)),
    ),
    gates={"Lint": "passed", "types": "failed"},
)


def missing(**needs: list[str]) -> list[str]:
    return [problem.path for problem in missing_needs(needs, HAS)]


@pytest.mark.promise("S0-38")
def test_files_are_needed_by_type_by_pattern_or_by_name() -> None:
    """A type that only the header knows counts as well."""
    met = [
        "source",
        "doc",
        "config",
        "src/**",
        "**/*.py",
        "src/auth/jwt.py",
        "docs/",
        "./docs/*.md",
    ]
    assert missing(files=met) == []
    lacking = ["test", "src/*.py", "jwt.py", "src/auth", "docs", "tests/", "src/auth/jwt.pyc"]
    assert missing(files=lacking) == [f"needs.files[{n}]" for n in range(len(lacking))]


@pytest.mark.promise("S0-38")
def test_decisions_are_needed_by_tag_or_by_whole_word() -> None:
    """Neither case nor line breaks matter; a part of a word is no word."""
    met = ["storage", "SERVER", "Architecture", "error handling", "rate limit", "rate-limit"]
    assert missing(decisions=met) == []
    assert missing(decisions=["store", "stor", "serve", "archi", "limit", "handling error"]) == [
        f"needs.decisions[{n}]" for n in range(6)
    ]


@pytest.mark.promise("S0-38")
def test_gates_are_needed_passed() -> None:
    """A gate that failed or was never run is missing, and the message says which."""
    found = missing_needs({"gates": ["lint", "types", "plan"]}, HAS)
    assert [(p.path, p.message) for p in found] == [
        ("needs.gates[1]", "qa needs the gate types to pass; it has failed"),
        ("needs.gates[2]", "qa needs the gate plan to pass; it has no result"),
    ]


@pytest.mark.promise("S0-38")
def test_each_missing_need_is_a_warning_that_says_what_to_do() -> None:
    """Who needs what, and how to give it; control characters are shown, not sent."""
    needs = {"files": ["test", "tests/\x1b/**"], "decisions": ["colour"], "gates": ["plan"]}
    found = missing_needs(needs, HAS)
    assert [p.path for p in found] == [
        *("needs.files[0]", "needs.files[1]", "needs.decisions[0]", "needs.gates[0]"),
    ]
    assert {(p.level, p.code) for p in found} == {("warning", "need_missing")}
    assert all(p.message.startswith("qa needs ") and p.fix for p in found)
    assert found[0].message == "qa needs a file of type test; the task has none"
    assert found[1].message == "qa needs a file that fits tests/\\x1b/**; the task has none"
    assert missing_needs({}, HAS) == []


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("**", "a/b/c.py", True),
        ("a/**/c.py", "a/c.py", True),
        ("a/**/c.py", "a/b/b/c.py", True),
        ("a/**/c.py", "b/a/c.py", False),
        ("**/**/c.py", "c.py", True),
        ("*.py", "a/b.py", False),
        ("a/?.py", "a/b.py", True),
        ("a/?.py", "a/bb.py", False),
        ("a/**", "a", True),
        ("app/[id]/page.tsx", "app/[id]/page.tsx", True),
        ("app/[id]/page.tsx", "app/i/page.tsx", True),
        ("A.py", "a.py", False),
    ],
)
def test_patterns_fit_part_by_part(pattern: str, path: str, fits: bool) -> None:
    """One star stays within a part, two stand for any number of parts."""
    assert matches(pattern, path) is fits


@given(st.lists(st.sampled_from(["a", "b", "c.py"]), min_size=1, max_size=6), st.data())
def test_a_pattern_made_from_a_path_fits_it(parts: list[str], data: st.DataObject) -> None:
    """Whichever runs of parts give way to `**`, and whichever parts to `*`."""
    cut = sorted(data.draw(st.lists(st.integers(0, len(parts)), min_size=2, max_size=2)))
    pattern = [*parts[: cut[0]], "**", *("*" for _ in parts[cut[1] :])]
    assert matches("/".join(pattern), "/".join(parts))
    assert not matches("/".join([*pattern, "x"]), "/".join(parts))


def test_a_pattern_of_many_stars_is_answered_at_once() -> None:
    """No pattern takes longer than its length times the path's."""
    assert not matches("**/a/" * 30 + "x", "a/" * 60 + "y")
    assert not matches("*a" * 30 + "x", "a" * 200)


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    """A workspace whose agent qa has needs."""
    needs = {
        "qa": {
            "files": ["source", "old.py", "gone.py", "src/**/last.py", "test", "doc"],
            "decisions": ["storage", "colour", "tabs"],
            "gates": ["plan", "lint"],
        }
    }
    ws = passdown.open(str(tmp_path), settings=Settings(artifacts_on_disk=False, needs=needs))
    ws.create_task("T-1", title="Login", agent="planner")
    return ws


def left_over(ws: Workspace) -> list[str]:
    opened = ws._context  # pyright: ignore[reportPrivateUsage]
    with opened.store.reading() as reader:
        facts = needs_facts(opened, reader, "T-1", "qa")
    return [problem.path for problem in missing_needs(opened.settings.needs["qa"], facts)]


@pytest.mark.promise("S0-38")
def test_what_a_task_has_is_read_from_the_store(ws: Workspace) -> None:
    """The latest entry of a file, decisions in force and the latest result of a gate count."""
    assert len(left_over(ws)) == 11
    files = ["tests/a.py", "old.py", "gone.py", *(f"src/f{n}.py" for n in range(NEWEST_FOR_NEEDS))]
    ws.hand_off(
        {
            "task": "T-1",
            "from_agent": "planner",
            "to_agent": "coder",
            "outcome": "completed",
            "artifacts": [{"path": path} for path in [*files, "src/x/last.py"]],
            "files_modified": [
                {"path": "gone.py", "lines": "all", "change_type": "delete", "description": "old"}
            ],
            "gates": [{"name": "plan", "result": "passed"}, {"name": "lint", "result": "failed"}],
        }
    )
    ws.decide(task="T-1", agent="coder", summary="x", rationale="y", tags=["storage"])
    ws.decide(task="T-1", agent="coder", summary="Any colour", rationale="taste")
    ws.set_status("T-1#d2", "reverted", agent="coder")
    ws.decide(task="T-1", agent="coder", summary="Use tabs", rationale="taste")
    ws.decide(agent="coder", summary="Spaces", rationale="all", supersedes=["T-1#d3"])
    assert left_over(ws) == [
        *("needs.files[2]", "needs.files[5]"),
        *("needs.decisions[1]", "needs.decisions[2]", "needs.gates[1]"),
    ]


def test_only_what_is_asked_for_is_read(ws: Workspace) -> None:
    """An agent without needs costs no read of files and decisions."""
    ws.decide(task="T-1", agent="coder", summary="x", rationale="y")
    opened = ws._context  # pyright: ignore[reportPrivateUsage]
    with opened.store.reading() as reader:
        assert needs_facts(opened, reader, "T-1", "coder") == ("coder", (), (), {})
        given = needs_facts(opened, reader, "T-1", "coder", {"decisions": ["x"]})
    assert given.decisions == (("x", "y", ()),)


@pytest.mark.promise("S0-38")
def test_a_handoff_says_what_its_receiver_lacks(tmp_path: Path) -> None:
    """What its profile declares and it doesn't get: recorded all the same, with warnings."""
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "qa.md").write_text(
        "---\nneeds:\n  files: [test]\n  decisions: [storage]\n  plan: true\n---\nYou test.\n"
    )
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("pass\n")
    handoff = {"task": "T-1", "from_agent": "dev", "to_agent": "qa", "outcome": "completed"}
    with passdown.open(str(tmp_path)) as ws:
        ws.create_task("T-1", title="Export", agent="dev")
        checked = ws.check_handoff(handoff)
        command = ws.hand_off(handoff)
        for found in (checked.problems, command.warnings):
            lacking = [p.path for p in found if p.code == "need_missing"]
            assert lacking == ["needs.files[0]", "needs.decisions[0]", "needs.gates[0]"]
        more = {
            **handoff,
            "files_created": [{"path": "tests/test_a.py", "purpose": "tests"}],
            "decisions": [{"summary": "Storage is SQLite", "rationale": "one file"}],
            "gates": [{"name": "plan", "result": "passed"}],
        }
        assert not [p for p in ws.check_handoff(more).problems if p.code == "need_missing"]
        assert not [p for p in ws.hand_off(more).warnings if p.code == "need_missing"]

"""Computed context: what bears on a task, by points that are explained, within limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import passdown
from passdown import Settings, Workspace
from passdown.context.related import (
    KINDS,
    LIMITS,
    POINTS,
    computed_context,
    signals_of,
)
from passdown.errors import InvalidInput, NotFound
from passdown.workspace.task_context import NEWEST

if TYPE_CHECKING:
    import random
    from pathlib import Path

Document = dict[str, Any]

TASK: Document = {
    "task_id": "T-5",
    "title": "Login keeps the session",
    "description": "Change src/auth/jwt.py so that tokens survive; see TokenStore.",
    "criteria": ["a cookie is set"],
    "next_steps": [{"step": "Write the middleware", "depends_on": ["limits.toml"]}],
}


def a_pattern(number: int, pattern: str, location: str = "", **more: Any) -> Document:
    base = {"address": f"T-1#p{number}", "at": "2026-01-01T00:00:00Z"}
    return {**base, "pattern": pattern, "location": location, "applies_to": [], **more}


def a_gotcha(number: int, issue: str, at: str = "2026-01-01T00:00:00Z") -> Document:
    return {"address": f"T-1#g{number}", "at": at, "issue": issue, "mitigation": "-"}


def scores(*patterns: Document) -> dict[str, int]:
    found = computed_context(TASK, {"patterns": patterns}, "complex")
    return {entry["address"]: entry["score"] for entry in found.patterns}


@pytest.mark.promise("S3-39")
def test_a_task_is_known_by_its_words_domains_and_paths() -> None:
    """From title, description, criteria and steps; one spelling for a word and its plural."""
    found = signals_of({**TASK, "paths": ["src/own.py"]})
    assert {"login", "session", "token", "store", "cookie", "middleware"} <= set(found.keywords)
    assert not {"the", "that", "tokens", "a", "src"} & set(found.keywords)
    assert found.domains == ("security",)
    assert found.paths == ("limits.toml", "src/auth/jwt.py", "src/own.py")


@pytest.mark.promise("S3-39")
def test_each_signal_gives_its_points() -> None:
    """File 3, component 2, location, words and domain 1 each; nothing shared, not in."""
    found = scores(
        a_pattern(1, "Sign it", "src/auth/jwt.py:3-9"),
        a_pattern(2, "Read it first", "etc/limits.toml"),
        a_pattern(3, "Plain", "middleware/plain.py"),
        a_pattern(4, "Plain", "middleware/deep/plain.py"),
        a_pattern(5, "Write middleware so"),
        a_pattern(6, "Hash the password"),
        a_pattern(7, "Plain", applies_to=["middleware"]),
        a_pattern(8, "Paint it blue", "web/colour.css"),
    )
    points = POINTS
    assert found == {
        # jwt.py is named, jwt and auth are its component, and both belong to security
        "T-1#p1": points["file"] + points["component"] + points["domain"],
        "T-1#p2": points["file"] + points["component"],
        "T-1#p3": points["component"],
        "T-1#p4": points["location"],
        "T-1#p5": points["words"],
        "T-1#p6": points["domain"],
        "T-1#p7": points["words"],
    }
    assert (points["file"], points["component"], points["location"]) == (3, 2, 1)
    assert (points["words"], points["domain"]) == (1, 1)


@pytest.mark.promise("S3-39")
@pytest.mark.parametrize(
    ("complexity", "limits"),
    [("easy", (3, 2, 5, 2)), ("normal", (5, 3, 10, 4)), ("complex", (10, 5, 20, 8))],
)
def test_complexity_limits_each_kind(complexity: str, limits: tuple[int, ...]) -> None:
    """Patterns, gotchas, code references and prior tasks; the rest is counted."""
    many = range(30)
    candidates = {
        "patterns": [a_pattern(n, "session") for n in many],
        "gotchas": [a_gotcha(n, "session") for n in many],
        "code_refs": [{"address": f"T-1#a{n}", "path": f"session/{n}.py"} for n in many],
        "prior_tasks": [
            {"address": f"T-{n}", "task": f"T-{n}", "relation": "dependency"} for n in many
        ],
    }
    found = computed_context(TASK, candidates, complexity)
    assert tuple(len(getattr(found, kind)) for kind in KINDS) == limits
    for kind, limit in zip(KINDS, limits, strict=True):
        counts = {"considered": 30, "related": 30, "shown": limit, "beyond": 0}
        assert found.counts[kind] == counts
        assert f"left out: {30 - limit} over the limit of {limit}, 0 that" in found.explained()


def test_an_unknown_complexity_is_refused() -> None:
    """The problem lists the choices."""
    with pytest.raises(InvalidInput) as caught:
        computed_context(TASK, {}, "hard")
    assert caught.value.problems[0].expected == " | ".join(LIMITS)


words = st.sampled_from(["session", "cookie", "paint", "password", "src/auth/jwt.py", "sky"])
gotchas = st.lists(
    st.tuples(st.lists(words, min_size=1, max_size=3), st.integers(1, 3)), max_size=12
)


@pytest.mark.promise("S3-39")
@given(gotchas, st.randoms(use_true_random=False))
def test_the_order_is_by_score_then_newer_then_address(
    drawn: list[tuple[list[str], int]], shuffler: random.Random
) -> None:
    """However the candidates are given, the answer is the same."""
    entries = [
        a_gotcha(n, " ".join(issue), f"2026-01-0{day}T00:00:00Z")
        for n, (issue, day) in enumerate(drawn, 1)
    ]
    found = computed_context(TASK, {"gotchas": entries}, "complex")
    mixed = list(entries)
    shuffler.shuffle(mixed)
    assert computed_context(TASK, {"gotchas": mixed}, "complex") == found
    for one, other in zip(found.gotchas, found.gotchas[1:], strict=False):
        ahead = (one["score"], one["at"], -int(one["address"][5:]))
        assert ahead > (other["score"], other["at"], -int(other["address"][5:]))
    least = found.gotchas[-1]["score"] if found.gotchas else 0
    everything = [computed_context(TASK, {"gotchas": [e]}).gotchas for e in entries]
    better = [e[0] for e in everything if e and e[0]["score"] > least]
    assert len(better) <= LIMITS["complex"]["gotchas"]


def test_a_file_that_several_tasks_touched_is_one_reference() -> None:
    """The newest entry stands for it."""
    refs = [
        {"address": f"T-{n}#a1", "path": "src/auth/jwt.py", "at": f"2026-01-0{n}", "note": f"{n}"}
        for n in (2, 3, 1)
    ]
    found = computed_context(TASK, {"code_refs": refs})
    assert [entry["address"] for entry in found.code_refs] == ["T-3#a1"]


@pytest.mark.promise("S3-39")
def test_the_explanation_says_why_each_is_in_and_what_was_left_out() -> None:
    """Signals, points by reason, and the counts of every kind."""
    patterns = [a_pattern(1, "Sign it\x1b", "src/auth/jwt.py"), a_pattern(2, "Paint it")]
    found = computed_context({**TASK, "beyond": {"gotchas": 7}}, {"patterns": patterns})
    text = found.explained()
    assert found.explained() == text
    assert "\ndomains: security\npaths: limits.toml, src/auth/jwt.py\n" in text
    assert (
        "\npatterns: 1 of 2 considered; left out: 0 over the limit of 5, 1 that share nothing\n"
        "  6  T-1#p1  Sign it\\x1b\n"
        "     file src/auth/jwt.py (+3); component auth, jwt (+2); domain security (+1)\n"
    ) in text
    assert "gotchas: 0 of 0 considered" in text
    assert "7 older not looked at" in text
    assert found.patterns[0]["why"][0] == "file src/auth/jwt.py (+3)"


@given(st.lists(st.text(max_size=40), max_size=4), st.text(max_size=40))
def test_no_text_can_break_the_form(issues: list[str], title: str) -> None:
    """As text for a prompt: one heading for each kind that has entries, one line for each entry."""
    gotchas = [
        {**a_gotcha(n, f"session {text}"), "severity": "high"} for n, text in enumerate(issues)
    ]
    prior = {"address": "T-1", "task": "T-1", "relation": "dependency", "title": title}
    refs = [{"address": "T-1#a1", "path": "src/auth/jwt.py", "note": title}]
    candidates = {"gotchas": gotchas, "prior_tasks": [{**prior, "phase": "x"}], "code_refs": refs}
    found = computed_context(TASK, candidates, "complex")
    lines = found.text().splitlines()
    heads = [line for line in lines if line.startswith("#")]
    wanted = ["### Code references", "### Prior tasks"]
    assert heads[1:] == (["### Gotchas", *wanted] if issues else wanted)
    assert len([line for line in lines if line.startswith("- ")]) == len(issues) + 2
    assert all(line[:2] in ("##", "- ", "") for line in lines)
    assert len(found.explained().splitlines()) == 4 + 2 * 4 + 2 * (len(issues) + 2)


def test_nothing_that_bears_on_a_task_is_said_so() -> None:
    """An empty context is a sentence, not an empty text."""
    assert computed_context(TASK, {}).text().splitlines()[2] == (
        "Nothing that was recorded bears on it."
    )


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    """T-2 depends on T-1; T-3 is a stranger."""
    ws = passdown.open(str(tmp_path), settings=Settings(artifacts_on_disk=False))
    for task in ("T-1", "T-3"):
        ws.create_task(task, title=f"Login {task}", agent="planner")
        ws.note("pattern", agent="planner", task=task, pattern=f"Login {task}", location="src")
    ws.create_task(
        "T-2", title="Login page", agent="planner", depends_on=["T-1", "T-9"], inputs=["src/in.py"]
    )
    ws.note("pattern", agent="planner", pattern="Login for all", location="src")
    ws.note(
        *("gotcha",), agent="planner", task="T-1", issue="login", mitigation="m", severity="low"
    )
    return ws


def handed(task: str, *paths: str, **more: Any) -> Document:
    base = {"task": task, "from_agent": "planner", "to_agent": "coder", "outcome": "completed"}
    return {**base, "artifacts": [{"path": path} for path in paths], **more}


@pytest.mark.promise("S3-39")
def test_candidates_come_from_the_task_its_dependencies_and_the_workspace(ws: Workspace) -> None:
    """Not from strangers; nothing that was retracted or deleted."""
    reading = [{"file": "src/login.md", "reason": "the plan"}]
    gone = {"path": "login/gone.py", "lines": "all", "change_type": "delete", "description": "x"}
    ws.hand_off(handed("T-1", "src/in.py", "src/other.py", dependencies_for_next=reading))
    ws.hand_off(handed("T-2", "login/own.py", "login/gone.py"))
    ws.hand_off(handed("T-2", files_modified=[gone], from_agent="coder", to_agent="tester"))
    found = ws.context.computed("T-2")
    assert {entry["address"] for entry in found.patterns} == {"T-1#p1", "workspace#p1"}
    assert [entry["address"] for entry in found.gotchas] == ["T-1#g1"]
    assert {e["path"] for e in found.code_refs} == {"src/in.py", "src/login.md", "login/own.py"}
    assert [entry["task"] for entry in found.prior_tasks] == ["T-1"]
    assert found.prior_tasks[0]["why"][0] == "file src/in.py (+3)"
    ws.set_status("T-1#p1", "retracted", agent="coder")
    assert [entry["address"] for entry in ws.context.computed("T-2").patterns] == ["workspace#p1"]
    with pytest.raises(NotFound):
        ws.context.computed("T-9")


@pytest.mark.promise("S3-39")
def test_at_most_the_newest_of_each_kind_are_considered(ws: Workspace) -> None:
    """What is too old to be looked at is counted, and the explanation says so."""
    steps = [{"path": f"login/f{n}.py"} for n in range(NEWEST + 5)]
    ws.hand_off({**handed("T-1"), "artifacts": steps})
    found = ws.context.computed("T-2", "easy")
    assert found.counts["code_refs"] == {
        "considered": NEWEST,
        "related": NEWEST,
        "shown": 5,
        "beyond": 5,
    }
    assert "5 older not looked at" in found.explained()
    assert found.to_dict()["signals"]["paths"] == ["src/in.py"]

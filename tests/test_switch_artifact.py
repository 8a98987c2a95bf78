"""The switch artifact: its limits for any input, its text and back, its names, its short form."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from passdown.context.artifacts import (
    FIELDS,
    LIMITS,
    MAX_BLOCKERS,
    MAX_DECISIONS,
    MAX_FILES,
    MAX_RETAINED,
    MAX_SENTENCES,
    MAX_TOKENS,
    NEVER_CARRIED,
    REFERENCE,
    STORY_FIELDS,
    TEMPLATE,
    artifact_markdown,
    artifact_name,
    artifact_of,
    artifact_problems,
    artifact_text,
    grouped_paths,
    read_artifact,
    short_summaries,
    with_whole_paths,
)
from passdown.context.switches import assemble, subagent_prompt, tokens_by_part
from passdown.core import intake as shapes
from passdown.core.parsing import load_yaml
from passdown.core.tokens import COUNTERS, counter_of
from passdown.errors import InvalidInput
from tests.sizes import example_count

AT = "2026-01-09T10:00:00.123456Z"

FACTS: dict[str, Any] = {
    "task": "T-1",
    "title": "Login",
    "phase": "implementing",
    "at": AT,
    "from_agent": "dev",
    "to_agent": "qa",
    "story": {
        "id": "S-4",
        "path": "stories/s-4.md",
        "status": "in progress",
        "current_task": "Write the login form",
        "branch": "feature/login",
    },
    "decisions": [
        {"summary": "Use JWT", "rationale": "No session store", "status": "accepted"},
        {"summary": "Hash with argon2", "rationale": "Not stated.", "status": "proposed"},
    ],
    "files": ["src/login.py", "tests/test_login.py"],
    "blockers": [
        {"blocker": "No staging key", "severity": "low"},
        {"blocker": "CI is down", "severity": "blocker"},
    ],
    "next_steps": [
        {"step": "Write the manual.", "priority": "low"},
        {"step": "Run the tests. Then review.", "priority": "high"},
    ],
    "totals": {"decisions": 2, "files": 2, "blockers": 2},
    "full_record": ".passdown/state/T-1.json",
}


def made(*, max_tokens: int = MAX_TOKENS, counter: Any = None, **facts: Any) -> dict[str, Any]:
    return artifact_of({**FACTS, **facts}, counter=counter, max_tokens=max_tokens)


def tokens(artifact: dict[str, Any], counter: Any = None) -> int:
    return counter_of(counter).tokens(artifact_text(artifact))


def many(count: int, **fields: str) -> list[dict[str, Any]]:
    return [{name: value.format(n) for name, value in fields.items()} for n in range(count)]


# Making


@pytest.mark.promise("S2-1", "S2-4")
def test_an_artifact_holds_every_part() -> None:
    assert made() == {
        "version": "1.0",
        "timestamp": AT,
        "from_agent": "dev",
        "to_agent": "qa",
        "story_context": {
            "story_id": "S-4",
            "story_path": "stories/s-4.md",
            "story_status": "in progress",
            "current_task": "Write the login form",
            "branch": "feature/login",
        },
        "decisions": ["Use JWT (No session store)", "Hash with argon2 [proposed]"],
        "files_modified": ["src/login.py", "tests/test_login.py"],
        "blockers": ["CI is down", "No staging key"],
        "next_action": "Run the tests. Then review.",
        "omitted": {"next_steps": 1},
        "full_record": ".passdown/state/T-1.json",
        "consumed": False,
    }
    assert artifact_problems(made()) == []


def test_a_task_without_a_story_stands_in_for_one() -> None:
    context = made(story={})["story_context"]
    assert context == {
        "story_id": "T-1",
        "story_path": "",
        "story_status": "implementing",
        "current_task": "Login",
        "branch": "",
    }


@pytest.mark.promise("S2-5")
def test_the_limits_have_names() -> None:
    assert (MAX_TOKENS, MAX_RETAINED, MAX_SENTENCES) == (500, 3, 2)
    assert (MAX_DECISIONS, MAX_FILES, MAX_BLOCKERS) == (5, 10, 3)


@pytest.mark.promise("S2-5", "S2-6")
def test_the_newest_and_most_severe_stay_and_the_rest_is_counted() -> None:
    severities = ("low", "medium", "high", "blocker", "low")
    artifact = made(
        decisions=many(8, summary="Decision {}", rationale="R"),
        files=[f"src/{n}.py" for n in range(14)],
        blockers=[{"blocker": f"B-{s}", "severity": s} for s in severities],
        totals={"decisions": 40, "files": 14, "blockers": 5},
    )
    assert artifact["decisions"] == [f"Decision {n} (R)" for n in range(5)]
    assert artifact["files_modified"] == [f"src/{n}.py" for n in range(10)]
    assert artifact["blockers"] == ["B-blocker", "B-high", "B-medium"]
    assert artifact["omitted"] == {
        "decisions": 35,
        "files_modified": 4,
        "blockers": 2,
        "next_steps": 1,
    }
    assert artifact["full_record"] == ".passdown/state/T-1.json"


def test_what_is_no_longer_in_force_is_not_shown() -> None:
    decisions = [
        {"summary": "New", "rationale": "r", "status": "accepted"},
        {"summary": "Old", "rationale": "r", "status": "superseded"},
    ]
    artifact = made(decisions=decisions, totals={})
    assert artifact["decisions"] == ["New (r)"]
    assert "decisions" not in artifact["omitted"]


@pytest.mark.promise("S2-4", "S2-6")
@pytest.mark.parametrize(
    ("step", "kept", "cut"),
    [
        ("One.", "One.", 0),
        ("One. Two.", "One. Two.", 0),
        ("One. Two. Three! Four?", "One. Two.", 2),
        ("Open src/a.py, e.g. in vim. Run v1.2.3 of it. Stop.", None, 1),
        ("Do this:\n- a\n- b\n", "Do this:\n- a", 1),
        ("先跑测试。再看代码。然后合并。", "先跑测试。再看代码。", 1),
        ("no end at all", "no end at all", 0),
        ("One.  \n\n Two.\n\n", "One.  \n\n Two.", 0),
    ],
)
def test_a_next_action_keeps_its_first_two_sentences(step: str, kept: str | None, cut: int) -> None:
    artifact = made(next_steps=[{"step": step, "priority": "high"}])
    expected = kept or "Open src/a.py, e.g. in vim. Run v1.2.3 of it."
    assert artifact["next_action"] == expected
    assert artifact.get("omitted", {}).get("next_action", 0) == cut
    assert artifact_problems(artifact) == []


@pytest.mark.promise("S2-2", "S2-6")
def test_an_absurdly_long_field_becomes_a_reference() -> None:
    story = {**FACTS["story"], "path": "x" * 10_000, "branch": "é" * 300}
    artifact = made(story=story)
    assert artifact["story_context"]["story_path"] == REFERENCE
    assert artifact["story_context"]["branch"] == REFERENCE
    assert artifact["omitted"] == {"next_steps": 1, "story_path": 1, "branch": 1}
    assert len(artifact["decisions"]) == 2


@pytest.mark.promise("S2-2", "S2-6")
def test_reasons_go_before_decisions_and_a_giant_entry_goes_alone() -> None:
    decisions = many(5, summary="Decision {}", rationale="because " * 120)
    decisions[1]["summary"] = "word " * 13_000
    artifact = made(decisions=decisions, totals={})
    kept = [0, 2, 3, 4]
    assert [text.split(" (")[0] for text in artifact["decisions"]] == [
        f"Decision {n}" for n in kept
    ]
    assert artifact["omitted"]["decisions"] == 1
    lengths = [len(text) for text in artifact["decisions"]]
    bare, reasoned = len("Decision 0"), len("Decision 0 ()") + len("because " * 120)
    assert set(lengths) == {bare, reasoned}
    assert artifact["omitted"]["rationales"] == lengths.count(bare)
    assert lengths == sorted(lengths, reverse=True)  # the newest keep theirs
    assert tokens(artifact) <= MAX_TOKENS


@pytest.mark.promise("S2-2")
def test_the_smallest_artifact_names_who_and_where() -> None:
    least = made(max_tokens=40)
    assert least == {"from_agent": "dev", "to_agent": "qa", "full_record": FACTS["full_record"]}
    with pytest.raises(InvalidInput, match=r"at least \d+ for the two names"):
        made(max_tokens=5)
    with pytest.raises(InvalidInput):
        made(full_record="x" * 50_000)


nasty = st.one_of(
    st.text(max_size=40),
    st.text(st.characters(), max_size=30),  # with halves of surrogate pairs
    st.text(st.characters(codec="utf-8", max_codepoint=0x9F), max_size=40),
    st.text("日本語漢字", max_size=60),
    st.text("👨‍👩‍👧🏽🇩🇪", max_size=60),
    st.sampled_from(["- a", "a: b", "'", '"', "#", "no", "1.0", "~", "!!python/object:x {}", "\n"]),
    st.integers(0, 60_000).map(lambda n: "ab, " * (n // 4)),
)
facts = st.fixed_dictionaries(
    {
        "task": nasty,
        "title": nasty,
        "at": st.just(AT) | nasty,
        "from_agent": st.just("dev"),
        "to_agent": st.just("qa"),
        "story": st.dictionaries(
            st.sampled_from(["id", "path", "status", "current_task", "branch"]), nasty, max_size=5
        ),
        "decisions": st.lists(
            st.fixed_dictionaries({"summary": nasty, "rationale": nasty}), max_size=8
        ),
        "files": st.lists(nasty, max_size=14),
        "blockers": st.lists(
            st.fixed_dictionaries(
                {"blocker": nasty, "severity": st.sampled_from(["blocker", "low", "odd"])}
            ),
            max_size=6,
        ),
        "next_steps": st.lists(st.fixed_dictionaries({"step": nasty}), max_size=3),
        "totals": st.sampled_from([{"decisions": 0}, {"decisions": 900}]),
        "full_record": st.just(".passdown/state/T-1.json"),
    }
)


def odd_counter(text: str) -> int:
    """Neither even nor growing: counts that a program must not second-guess."""
    return len(text) // 7 + (len(text) * 7919) % 60


@pytest.mark.promise("S2-2", "S2-6")
@settings(max_examples=example_count(15))
@given(given_facts=facts, counter=st.sampled_from([*COUNTERS, len, odd_counter]), data=st.data())
def test_no_input_gets_past_the_limit(given_facts: Any, counter: Any, data: st.DataObject) -> None:
    limit = data.draw(st.sampled_from([60, 200, MAX_TOKENS, 2_000]))
    try:
        artifact = artifact_of(given_facts, counter=counter, max_tokens=limit)
    except InvalidInput:
        assert limit < 200 or counter in (len, odd_counter)
        return
    assert tokens(artifact, counter) <= limit
    assert read_artifact(artifact_text(artifact)) == artifact
    if "version" not in artifact:
        return
    for name, most in LIMITS.items():
        given_name = "files" if name == "files_modified" else name
        total = max(len(given_facts[given_name]), given_facts["totals"].get(name, 0))
        assert len(artifact[name]) <= most
        assert len(artifact[name]) + artifact.get("omitted", {}).get(name, 0) == total
    limits = {p.code for p in artifact_problems(artifact, counter=counter, max_tokens=limit)}
    assert not limits & {"too_long", "too_many", "wrong_type", "never_carried"}


@settings(max_examples=example_count(15))
@given(given_facts=facts)
def test_entries_are_whole_or_absent(given_facts: Any) -> None:
    artifact = artifact_of(given_facts, counter="chars4")
    clean = [text.encode("utf-8", "surrogatepass") for text in given_facts["files"]]
    for path in artifact["files_modified"]:
        shown = path.encode()
        assert shown in clean or b"\\ud" in shown


# Text


texts = st.one_of(
    st.text(),
    st.text(
        "\"':-#[]{}&*!|>%@`,?\\ \t\n\r\x00\x07\x1b\x85\u2028\ufeff\ufffe\uffffaé日👍\u200d\ufe0f"
    ),
    st.sampled_from(
        [
            "no",
            "Yes",
            "null",
            "~",
            "1.0",
            "0x1f",
            "2026-01-09",
            "=",
            "<<",
            "--- a",
            "...",
            "!!python",
        ]
    ),
)
artifacts = st.fixed_dictionaries(
    {
        "version": st.just("1.0"),
        "timestamp": texts,
        "from_agent": texts,
        "to_agent": texts,
        "story_context": st.fixed_dictionaries(dict.fromkeys(STORY_FIELDS, texts)),
        "decisions": st.lists(texts, max_size=5),
        "files_modified": st.lists(texts, max_size=10),
        "blockers": st.lists(texts, max_size=3),
        "next_action": texts,
        "full_record": texts,
        "consumed": st.booleans(),
    },
    optional={
        "omitted": st.dictionaries(st.sampled_from(["decisions", "blockers"]), st.integers(1, 999))
    },
)


@pytest.mark.promise("S2-3")
@settings(max_examples=example_count(40))
@given(artifact=artifacts)
def test_the_text_reads_back_as_the_same_data(artifact: dict[str, Any]) -> None:
    text = artifact_text(artifact)
    assert read_artifact(text) == artifact
    plain: Any = load_yaml(text)
    scalars = {"omitted", "consumed"}
    assert {k: v for k, v in plain.items() if k not in scalars} == {
        k: v for k, v in artifact.items() if k not in scalars
    }
    # Another reader of YAML takes no text for a number, a date or a truth value either.
    assert yaml.safe_load(text) == artifact


@pytest.mark.promise("S2-3")
def test_the_text_is_block_style_in_a_fixed_order() -> None:
    shuffled = dict(reversed(list(made().items())))
    text = artifact_text(shuffled)
    assert text == artifact_text(made())
    keys = re.findall(r"^(\w+):", text, re.MULTILINE)
    assert tuple(keys) == FIELDS
    assert artifact_text(made(title="日本語 👍", story={})).count("日本語 👍") == 1


def test_an_entry_of_any_length_reads_back() -> None:
    artifact = {**made(), "decisions": ["a: " + "b" * 20_000, "c" * 20_000, "d " * 9_000 + "e"]}
    assert read_artifact(artifact_text(artifact)) == artifact


@pytest.mark.parametrize("text", ["- a", "", "a: &b c", "a: !!python/object:os.x {}", "a: 1\na: 2"])
def test_text_that_is_no_artifact_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        read_artifact(text)


@pytest.mark.promise("S2-3")
@settings(max_examples=example_count(25))
@given(artifact=artifacts)
def test_markdown_has_the_same_sections_whatever_the_text(artifact: dict[str, Any]) -> None:
    lines = artifact_markdown(artifact).split("\n")
    assert [line for line in lines if line.startswith("#")][1:] == [
        "## Story",
        "## Decisions",
        "## Files modified",
        "## Blockers",
        "## Next action",
        "## Omitted",
        "## Full record",
    ]
    assert not [line for line in lines if line.startswith(("```", "~~~", "<", "- ```", "- <"))]


def test_markdown_shows_every_part() -> None:
    text = artifact_markdown(made())
    for part in ("dev", "qa", AT, "S-4", "Use JWT", "src/login.py", "CI is down", "Run the tests."):
        assert part in text


def test_an_artifact_is_taken_in_as_a_handoff() -> None:
    handoff = shapes.to_handoff_format(read_artifact(artifact_text(made())))
    assert handoff["task"] == "S-4"
    assert [d["summary"] for d in handoff["decisions"]][-1] == "Use JWT (No session store)"
    assert [a["path"] for a in handoff["artifacts"]] == ["tests/test_login.py", "src/login.py"]


# Checking


def codes(data: object, **options: Any) -> dict[str, str]:
    return {p.path: p.code for p in artifact_problems(data, **options) if p.level == "error"}


@pytest.mark.promise("S2-26")
def test_an_artifact_without_story_or_next_action_is_refused() -> None:
    artifact = made()
    empty = dict.fromkeys(STORY_FIELDS, " ")
    assert codes({**artifact, "story_context": empty}) == {"story_context": "empty"}
    assert codes({**artifact, "next_action": "\u200b"}) == {"next_action": "empty"}
    without = {k: v for k, v in artifact.items() if k not in ("story_context", "next_action")}
    assert codes(without) == {"story_context": "empty", "next_action": "empty"}
    assert codes(made(next_steps=[])) == {"next_action": "empty"}


@pytest.mark.promise("S2-24")
def test_what_belongs_to_the_old_agent_is_refused_at_any_depth() -> None:
    extra = {"persona": "I am", "Tool-Settings": {"greeting levels": 1}, "omitted": {"tools": 1}}
    found = codes({**made(), **extra})
    assert [path for path, code in found.items() if code == "never_carried"] == [
        "omitted.tools",
        "persona",
        "Tool-Settings",
        'Tool-Settings["greeting levels"]',
    ]
    for name in NEVER_CARRIED:
        assert codes({**made(), name: "x"}) == {name: "never_carried"}
    assert not NEVER_CARRIED & {*FIELDS, *STORY_FIELDS}


@pytest.mark.promise("S2-24")
def test_facts_beyond_the_keep_list_are_not_carried() -> None:
    given_facts: dict[str, Any] = {name: f"carried {name}" for name in NEVER_CARRIED}
    artifact = made(**given_facts, story={**FACTS["story"], **given_facts})
    assert "carried" not in artifact_text(artifact)
    assert set(artifact) <= set(FIELDS)


def test_every_fault_is_reported_at_once() -> None:
    data = {
        "version": 1,
        "timestamp": "yesterday",
        "from_agent": "",
        "to_agent": None,
        "story_context": ["S-4"],
        "decisions": ["a"] * 6,
        "files_modified": "src/a.py",
        "blockers": [{"blocker": "x"}],
        "next_action": "One. Two. Three.",
        "omitted": {"files_modified": -1},
        "consumed": "maybe",
    }
    assert codes(data) == {
        "version": "wrong_type",
        "to_agent": "empty",
        "consumed": "wrong_type",
        "files_modified": "wrong_type",
        "blockers[0]": "wrong_type",
        "story_context": "empty",
        "omitted.files_modified": "out_of_range",
        "timestamp": "invalid_time",
        "from_agent": "empty",
        "decisions": "too_many",
        "next_action": "too_many",
    }
    assert codes("text") == {"": "wrong_type"}
    assert codes({**made(), "full_record": "word " * 600}) == {"": "too_long"}
    assert codes(made(), counter=len, max_tokens=100) == {"": "too_long"}


def test_an_unknown_field_is_a_warning() -> None:
    story = {**made()["story_context"], "epic": "E-1"}
    found = artifact_problems({**made(), "last_command": "*review", "story_context": story})
    assert [(p.path, p.code, p.level) for p in found] == [
        ("story_context.epic", "unknown_field", "warning"),
        ("last_command", "unknown_field", "warning"),
    ]


@pytest.mark.promise("S2-1", "S2-27")
def test_the_template_holds_every_field_and_waits_to_be_filled() -> None:
    template = TEMPLATE
    data = read_artifact(template)
    assert set(data) == set(FIELDS) - {"omitted"}
    assert tuple(data["story_context"]) == STORY_FIELDS
    assert all(counter_of(name).tokens(template) < MAX_TOKENS for name in COUNTERS)
    assert codes(data) == {
        "from_agent": "empty",
        "to_agent": "empty",
        "story_context": "empty",
        "next_action": "empty",
    }
    filled = template.replace('story_id: ""', "story_id: S-4").replace('_agent: ""', "_agent: dev")
    filled = filled.replace('next_action: ""', "next_action: Run it.")
    assert codes(read_artifact(filled)) == {}


# Naming


@pytest.mark.promise("S2-14")
def test_a_name_says_who_to_whom_and_when() -> None:
    name = artifact_name("dev", "qa-lead", AT)
    assert name == "handoff-dev-to-qa-lead-20260109T100000.123456Z.yaml"
    moment = datetime(2026, 1, 9, 12, 0, 0, 123456, tzinfo=UTC) - timedelta(hours=2)
    assert artifact_name("dev", "qa-lead", moment) == name
    for at in ("yesterday", "2026-01-09T10:00:00", datetime(2026, 1, 9)):  # noqa: DTZ001
        with pytest.raises(InvalidInput):
            artifact_name("dev", "qa", at)


@pytest.mark.promise("S2-14")
def test_two_in_one_instant_have_two_names() -> None:
    taken: list[str] = []
    for agent in ("dev", "Dev", "dev", "DEV"):
        taken.append(artifact_name(agent, "qa", AT, taken))
    assert len({name.lower() for name in taken}) == 4


@pytest.mark.promise("S2-14")
@given(first=st.text(), second=st.text())
def test_a_name_is_safe_on_every_file_system(first: str, second: str) -> None:
    name = artifact_name(first, second, AT)
    assert re.fullmatch(
        r"handoff-[\w.-]+-to-[\w.-]+-20260109T100000\.123456Z\.yaml", name, re.ASCII
    )
    assert len(name) < 255


# The short form


def test_the_short_forms_say_much_in_a_hundred_tokens() -> None:
    """Decisions and files, newest first; a folder and an ending are said once."""
    artifact = made(
        decisions=many(5, summary="Use approach {} here"),
        files=[f"src/auth/{n}.py" for n in range(6)] + [f"tests/test_{n}.py" for n in range(6)],
    )
    [short] = short_summaries([artifact], counter=None, max_tokens=120)
    assert counter_of(None).tokens(short) <= 120
    lines = short.split("\n")
    assert lines[0].startswith("[000000 dev] From dev to qa, story ")
    assert lines[1] == "Decided: " + "; ".join(f"Use approach {n} here" for n in range(5))
    assert lines[2] == "Files: src/auth/{0,1,2,3,4,5}.py, tests/{test_0,test_1,test_2,test_3}.py"
    assert "tests/test_3.py" in with_whole_paths(short)
    assert lines[3] == "More: .passdown/state/T-1.json"


def test_the_latest_short_form_has_the_story_and_the_files_of_all() -> None:
    earlier = {**made(), "from_agent": "sm", "to_agent": "dev", "files_modified": ["a/x.py"]}
    first, latest = short_summaries(
        [earlier, made()], counter=None, max_tokens=500, marker="77", title="Sign in"
    )
    story = made()["story_context"]
    said = "Decided: Use JWT (No session store); Hash with argon2 [proposed]"
    more = "More: .passdown/state/T-1.json"
    assert first == f"[77 sm] From sm to dev\n{said}\n{more}"
    head, decided, files, last = latest.split("\n")
    assert head.startswith(f"[77 dev] From dev to qa, story {story['story_id']} Sign in, ")
    assert all(value in head for value in story.values())
    assert (decided, last) == (said, more)
    assert files == "[77 sm, dev] Files: src/login.py, tests/test_login.py, a/x.py"


@pytest.mark.promise("S2-2", "S2-6")
@settings(max_examples=example_count(30))
@given(
    found=st.lists(artifacts, max_size=3),
    limit=st.integers(0, 150),
    counter=st.sampled_from([*COUNTERS, len]),
)
def test_the_short_forms_never_pass_their_limit(
    found: list[dict[str, Any]], limit: int, counter: Any
) -> None:
    short = short_summaries(found, counter=counter, max_tokens=limit)
    assert len(short) == len(found)
    assert counter_of(counter).tokens("\n\n".join(filter(None, short))) <= limit
    assert all(text == "" or re.match(r"\[\d+ .*?\] From ", text) for text in short)
    # The marks are all that holds the marker: six digits, or more where an author wrote those.
    assert all(text.count("[000000 ") <= 2 for text in short)


def test_paths_share_their_folder_and_ending_without_doubt() -> None:
    files = ["a/b.py", "x.py", "a/c.py", "y.py", "a/{d}.py", "a/e,f.py", "dir/", "dir/g", "a/h.md"]
    files += ["a/{d}.py", "a/.env", "dir/i", "a b/c.py", "a b/d.py"]
    assert grouped_paths(files) == (
        "a/{b,c}.py, x.py, y.py, a/{d}.py, a/e,f.py, dir/, dir/{g,i}, a/h.md, a/.env, "
        "a b/c.py, a b/d.py"
    )
    whole = with_whole_paths(f"Files: {grouped_paths(files)}; see src/{{one,two}}.py")
    assert whole == f"Files: {', '.join(_in_groups(files))}; see src/one.py, src/two.py"


def _in_groups(files: list[str]) -> list[str]:
    """The same files, those of one group beside each other."""
    found = list(dict.fromkeys(files))
    for path, before in (("a/c.py", "x.py"), ("dir/i", "a/h.md")):
        found.remove(path)
        found.insert(found.index(before), path)
    return found


def test_a_file_with_odd_contents_still_has_a_short_form() -> None:
    odd: dict[str, Any] = {"decisions": "text", "omitted": {"decisions": "2"}, "blockers": [1]}
    [short] = short_summaries([odd], counter=None, max_tokens=50)
    assert short == "[000000 none] From none to none"
    assert "None." in artifact_markdown({**odd, "story_context": [1]})


# Assembly


@pytest.mark.promise("S2-8")
@given(profile=st.text(min_size=1), brief=st.text(), rules=st.text(), data=st.data())
def test_the_profile_comes_first_and_unchanged(
    profile: str, brief: str, rules: str, data: st.DataObject
) -> None:
    summaries = data.draw(st.lists(st.text(), max_size=5))
    whole = assemble(profile, summaries, brief, rules)
    assert whole.text.encode().startswith(profile.encode())
    assert whole.parts[0] == ("profile", profile)
    position = 0
    for _, text in whole.parts:
        position = whole.text.index(text, position) + len(text)
    assert position == len(whole.text)


@pytest.mark.promise("S2-8")
def test_at_most_three_summaries_are_shown_the_newest_ones() -> None:
    whole = assemble("P\r\n", ["one", "two", "", "three", "four"], "brief", "rules")
    assert whole.text == "P\r\n\n\nrules\n\ntwo\n\nthree\n\nfour\n\nbrief"
    assert [name for name, _ in whole.parts] == ["profile", "rules", "summaries", "brief"]


def test_empty_parts_leave_no_trace() -> None:
    assert assemble("P", [" \n"], "\n", "  ") == ("P", (("profile", "P"),))
    assert assemble("", [], "brief") == ("brief", (("brief", "brief"),))
    assert assemble("", [], "") == ("", ())


def test_tokens_are_given_by_part_and_for_the_whole() -> None:
    whole = assemble("abcd" * 10, ["x" * 8], "brief")
    assert tokens_by_part(whole, "chars4") == {
        "profile": 10,
        "rules": 0,
        "summaries": 2,
        "brief": 2,
        "total": -(-(40 + 2 + 8 + 2 + 5) // 4),
    }


@pytest.mark.promise("S2-31")
@given(persona=st.text(), task=st.text())
def test_a_subagent_gets_persona_and_task_unchanged(persona: str, task: str) -> None:
    prompt = subagent_prompt(persona, task)
    assert prompt.startswith(persona)
    assert prompt.endswith(task)
    assert len(prompt) - len(persona) - len(task) in (0, 2)

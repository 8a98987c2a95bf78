"""`recall` and `embed`: what is found, how it is shown, and what is said besides."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown.cli.search import missing_vectors
from passdown.mcp.tools import brief_tool
from passdown.workspace.search import EmbeddingStatus

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.interfaces.running import Run

    Json = Callable[..., Any]


@pytest.fixture
def past(project: Path, cli: Run) -> Path:
    """Three decisions on sessions, one of them superseded, and a gotcha."""
    (project / "src").mkdir()
    (project / "src" / "session.py").write_text("x = 1\n", "utf-8")
    by = ("--task", "T-1", "--agent", "planner")
    cli("task", "new", "T-1", "--title", "Login", "--agent", "planner")
    cli("decide", "Sessions live in a signed cookie", "--why", "no table", *by, "--tag", "auth")
    cli(
        *("decide", "Sessions live in Redis", "--why", "logout at once", *by),
        *("--supersedes", "T-1#d1", "--path", "src/session.py"),
    )
    for_all = ("--agent", "coder", "--task", "workspace")
    cli("decide", "Sessions last an hour", "--why", "a phone gets lost", *for_all)
    cli("note", "gotcha", "Redis forgets", "--mitigation", "save", "--severity", "high", *by)
    return project


def addresses(found: Any) -> list[str]:
    return [answer["address"] for answer in found["results"]]


def test_an_answer_says_what_it_is_where_it_stands_and_who_said_it(past: Path, cli: Run) -> None:
    out = cli("recall", "signed cookie", "--words", "--limit", "2").out
    holds, _, first, passage, became = out.splitlines()
    assert holds.startswith("T-1#d2  decision, accepted, score ")
    assert first.startswith("T-1#d1  decision, superseded, score ")
    assert ", by planner, 20" in first
    assert first.endswith(" UTC, just now, T-1 version 2")
    assert passage.startswith("  Sessions live in a signed cookie")
    assert became == "  superseded  T-1#d2 holds now"


def test_a_changed_file_is_named(past: Path, cli: Run, as_json: Json) -> None:
    ask = ("recall", "Redis logout", "--words", "--kind", "decision", "--limit", "1")
    assert "stale" not in cli(*ask).out
    (past / "src" / "session.py").write_text("x = 2\n", "utf-8")
    assert "  stale  src/session.py has changed\n" in cli(*ask).out
    assert as_json(*ask)["results"][0]["stale"] == ["src/session.py has changed"]


@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        (("--kind", "gotcha"), {"T-1#g1"}),
        (("--kind", "gotcha", "--kind", "decision", "--agent", "coder"), {"workspace#d1"}),
        (("--tag", "auth"), {"T-1#d1"}),
        (("--path", "src"), {"T-1#d2"}),
        (("--status", "superseded"), {"T-1#d1"}),
        (("--task", "T-1", "--live", "--kind", "decision"), {"T-1#d2"}),
        (("--until", "2020-01-01"), set[str]()),
        (("--since", "2020-01-01", "--task", "workspace"), {"workspace#d1"}),
    ],
    ids=["kind", "agent", "tag", "folder", "status", "live", "until", "since"],
)
def test_filters_are_exact(
    past: Path, as_json: Json, filters: tuple[str, ...], kept: set[str]
) -> None:
    found = as_json("recall", "sessions in redis", "--words", *filters)
    assert set(addresses(found)) == kept
    assert found["vectors"] is None


def test_nothing_found_is_no_failure(project: Path, cli: Run, as_json: Json) -> None:
    assert cli("recall", "anything").out == "nothing fits; try other words, or --fill\n"
    found = as_json("recall", "anything")
    assert found["results"] == []


def test_filters_that_nothing_passes_are_named(past: Path, cli: Run) -> None:
    out = cli("recall", "redis", "--words", "--tag", "bread", "--live").out
    assert out == "nothing fits; try other words, or fewer filters (--tag, --live), or --fill\n"
    out = cli("recall", "redis", "--words", "--agent", "nobody").out
    assert out == "nothing fits; try other words, or fewer filters (--agent), or --fill\n"


def test_words_need_no_quotes(past: Path, cli: Run) -> None:
    quoted = cli("recall", "signed cookie", "--words").out
    assert cli("recall", "signed", "cookie", "--words").out == quoted


@pytest.mark.parametrize("given", ["src/session.py", "./src", "{here}/src/session.py"])
def test_a_path_may_be_given_from_the_root(past: Path, as_json: Json, given: str) -> None:
    found = as_json("recall", "redis", "--words", "--path", given.format(here=past))
    assert addresses(found) == ["T-1#d2"]


@pytest.mark.parametrize("given", ["session.py", ".", "../src", "src/session.py"])
def test_a_path_may_be_given_from_a_folder_below(
    past: Path, as_json: Json, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.chdir(past / "src")
    assert addresses(as_json("recall", "redis", "--words", "--path", given)) == ["T-1#d2"]


def test_a_path_outside_of_the_project_is_misuse(past: Path, cli: Run) -> None:
    for given in ("..", str(past.parent)):
        err = cli("recall", "redis", "--words", "--path", given, code=2).err
        assert "is not in the project" in err


def test_a_link_to_the_project_leads_to_the_same(past: Path, as_json: Json) -> None:
    (past.parent / "link").symlink_to(past)
    given = str(past.parent / "link" / "src" / "session.py")
    assert addresses(as_json("recall", "redis", "--words", "--path", given)) == ["T-1#d2"]


def test_what_nothing_superseded_says_so_with_null(past: Path, as_json: Json) -> None:
    found = as_json("recall", "sessions", "--words", "--kind", "decision", "--task", "T-1")
    told = {answer["address"]: answer["superseded_by"] for answer in found["results"]}
    assert told == {"T-1#d1": "T-1#d2", "T-1#d2": None}


def test_a_wrong_filter_is_refused_with_every_reason(past: Path, cli: Run) -> None:
    err = cli("recall", "x", "--since", "soon", "--until", "later", "--limit", "0", code=1).err
    assert all(f"  - {name}: " in err for name in ("since", "until", "limit"))
    assert "is not one of" in cli("recall", "x", "--kind", "poem", code=2).err


@pytest.mark.parametrize("option", ["--task", "--agent", "--path"])
def test_an_empty_filter_is_a_slip(cli: Run, option: str) -> None:
    """A variable of the shell that isn't set must not widen the search to everything."""
    assert "nothing is given" in cli("recall", "x", option, "", code=2).err


@pytest.mark.parametrize("given", ["-1", "1" + "0" * 20])
def test_a_number_out_of_range_is_called_that(cli: Run, given: str) -> None:
    said = cli("recall", "x", "--limit", given, code=2).err
    assert "is not from 0 to 999,999,999,999,999" in said


def test_a_question_can_be_read(past: Path, cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"signed cookie\n")))
    assert "signed cookie" in cli("recall", "-", "--words", "--limit", "2").out


@pytest.mark.promise("P-6")
def test_stored_text_drives_no_terminal(project: Path, cli: Run) -> None:
    cli("knowledge", "add", "lamp", "--type", "insight", "--summary", "a \x1b[2J lamp")
    out = cli("recall", "lamp", "--words").out
    assert out.startswith("node:lamp  knowledge, current, ")
    assert "\x1b" not in out
    assert "a \\x1b[2J lamp" in out
    assert cli("show", "node:lamp").out.startswith("lamp  a \\x1b[2J lamp\n")


@pytest.mark.promise("P-11")
def test_what_was_found_counts_as_told(past: Path, cli: Run, as_json: Json) -> None:
    assert not as_json("why", "T-1#d1", "--agent", "tester")["told"]
    cli("recall", "signed cookie", "--words", "--to", "tester", "--limit", "2")
    told = as_json("why", "T-1#d1", "--agent", "tester")
    assert (told["told"], told["briefs"]) == (True, 0)
    assert (told["times"][0]["kind"], told["times"][0]["query"]) == ("recalled", "signed cookie")
    assert "signed cookie" in cli("why", "T-1#d1", "--agent", "tester").out
    assert as_json("why", "T-1#d2", "--agent", "tester")["told"]
    assert not as_json("why", "T-1#g1", "--agent", "tester")["told"]
    assert not as_json("why", "T-1#d1", "--agent", "coder")["told"]


@pytest.mark.promise("P-11")
def test_the_log_of_what_was_told_has_searches_and_briefs(
    past: Path, cli: Run, as_json: Json
) -> None:
    cli("recall", "redis", "--words", "--to", "tester", "--task", "T-1")
    cli("brief", "T-1", "--agent", "tester")
    told = as_json("why", "T-1#d2", "--agent", "tester")
    assert [time["kind"] for time in told["times"]] == ["briefed", "recalled"]
    assert told["reason"].startswith("shown 2 times")
    lines = cli("log", "--briefs").out.splitlines()
    assert lines[0].split()[-1] == "asked"
    assert lines[1].split()[5:7] == ["briefed", "tester"]
    assert lines[2].split()[5:7] == ["recalled", "tester"]
    assert lines[2].endswith("redis")
    assert [entry["kind"] for entry in as_json("log", "workspace", "--briefs")] == ["recalled"]


def test_embed_makes_what_is_missing_and_says_how_far_it_is(
    past: Path, cli: Run, as_json: Json
) -> None:
    told = {"embedder": "minilm", "done": 0, "total": 4}
    assert as_json("embed", "--status") == told
    assert cli("embed").out == "minilm: 4 of 4 have vectors\n"
    assert cli("embed").out == "minilm: 4 of 4 have vectors\n"
    facts = as_json("doctor")["facts"]
    assert (facts["embedder"], facts["vectors"]) == ("minilm", {"done": 4, "total": 4})


def test_recall_by_meaning_needs_no_common_word(past: Path, cli: Run, as_json: Json) -> None:
    ask = ("recall", "stolen device")
    assert as_json(*ask, "--words")["results"] == []
    found = as_json(*ask)
    assert addresses(found)[0] == "workspace#d1"
    assert found["vectors"]["done"] == found["vectors"]["total"] == 4
    assert cli(*ask).err == ""


def test_without_an_embedder_it_is_said_that_words_alone_count(
    past: Path, cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSDOWN_EMBEDDER", "none")
    assert cli("recall", "redis").err == "by words alone: no embedder is chosen\n"
    assert cli("recall", "redis", "--words").err == ""
    assert cli("embed").out == "no embedder is chosen; search goes by words\n"
    assert "\nembedder        none\n" in cli("doctor").out
    monkeypatch.setenv("PASSDOWN_EMBEDDER", "openai:none-such")
    assert "none of 4 has a vector by openai:none-such" in cli("recall", "redis").err
    assert "PASSDOWN_EMBEDDER_URL" in cli("embed", code=1).err


def test_what_is_missing_is_counted() -> None:
    expected = "312 of 1,000 have vectors; passdown embed makes the rest"
    assert missing_vectors(EmbeddingStatus("minilm", 312, 1_000)) == expected
    assert missing_vectors(EmbeddingStatus("minilm", 1_000, 1_000)) == ""


def test_embed_refuses_what_would_do_nothing(project: Path, cli: Run) -> None:
    assert "--limit" in cli("embed", "--status", "--limit", "3", code=2).err
    assert "--limit 0" in cli("embed", "--limit", "0", code=2).err


def test_nonsense_finds_nothing(past: Path, cli: Run, as_json: Json) -> None:
    """By words and by meaning; --fill gives as many as there are."""
    for words in ((), ("--words",)):
        asked = ("recall", "zxqv blorp fnarg", *words)
        assert as_json(*asked)["results"] == []
        assert cli(*asked).out == "nothing fits; try other words, or --fill\n"
        assert len(as_json(*asked, "--fill", "--limit", "3")["results"]) == 3


def test_a_brief_names_what_its_reader_can_call(past: Path, cli: Run) -> None:
    assert "passdown state T-1" in cli("brief", "T-1", "--agent", "tester").out
    with passdown.open(".") as ws:
        assert 'ws.state("T-1")' in ws.brief("T-1", agent="tester").text
        assert ": show T-1\n" in brief_tool(ws, {"task": "T-1"}, "tester") + "\n"


def test_words_that_say_nothing_find_nothing(project: Path, cli: Run) -> None:
    cli("task", "new", "T-1", "--title", "Login", "--agent", "a")
    cli("decide", "x", "--why", "y", "--task", "T-1")
    for query in ("the", "of the", "?"):
        assert cli("recall", query).out == "nothing fits; try other words, or --fill\n"
    assert "T-1#d1" in cli("recall", "the", "--fill").out

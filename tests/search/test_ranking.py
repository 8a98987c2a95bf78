"""What decides the order of answers: authors, days, words that stand together; never the limit."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

import passdown
from passdown import Settings
from passdown.search.query import without_names

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from passdown import Workspace

TOPICS = "cookie session token cache queue worker invoice layout retry timeout".split()
QUICK = Settings(durability="normal", embedder="none")


def decide(ws: Workspace, summary: str, rationale: str = "so") -> str:
    made = ws.decide(task="T-1", agent="coder", summary=summary, rationale=rationale)
    return made.items[0]


def vectors(texts: Sequence[str]) -> list[list[float]]:
    """Some numbers for each text, always the same."""
    return [
        [float(zlib.crc32(f"{n}{text}".encode()) % 97) - 48 for n in range(16)] for text in texts
    ]


@pytest.mark.parametrize("by_words", [True, False])
def test_the_first_answers_are_the_same_for_any_limit(ws: Workspace, *, by_words: bool) -> None:
    for number in range(160):
        one, other, third = (TOPICS[number // step % 10] for step in (1, 3, 7))
        padding = "and so on for a while " * (number % 5)
        decide(ws, f"{one} {other} number {number}", f"{padding}{third} {one}")
    if not by_words:
        ws.embeddings.use("own", vectors)
        ws.embeddings.update()
    for query in ("session cookie", "retry the queue worker after a timeout", "invoice 7"):
        longest = ws.recall(query, limit=160, by_words=by_words)
        assert len(longest) == 160
        assert [a.score for a in longest] == sorted((a.score for a in longest), reverse=True)
        for limit in (1, 5, 10, 24, 40, 80, 159):
            found = ws.recall(query, limit=limit, by_words=by_words)
            assert [(a.address, a.score) for a in found] == [
                (a.address, a.score) for a in longest[:limit]
            ]


def test_an_author_that_is_named_is_no_part_of_the_meaning(ws: Workspace) -> None:
    ws.warn("T-1", agent="Ada", text="The cookie is signed")
    asked: list[str] = []

    def embed(texts: Sequence[str]) -> list[list[float]]:
        asked.extend(texts)
        return vectors(texts)

    ws.embeddings.use("own", embed)
    ws.embeddings.update()
    ws.recall("What did Ada say of the cookie?")
    assert asked[-1].split() == "What did say of the cookie?".split()
    ws.recall("What did Bob say of the cookie?")
    assert asked[-1] == "What did Bob say of the cookie?"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("What is Ada's plan?", "What is plan?"),
        ("ADA\u2019s plan for Adam", "plan for Adam"),
        (
            "where does coder-1 keep it, and where coder-12",
            "where does keep it, and where coder-12",
        ),
        ("Ada?", "Ada?"),
        ("nobody is named", "nobody is named"),
    ],
)
def test_names_are_cut_whole(text: str, left: str) -> None:
    assert without_names(text, ["Ada", "coder-1"]).split() == left.split()


def test_what_was_said_on_the_day_that_answers_comes_first(
    tmp_path: Path, each_store: None
) -> None:
    """The same word twice: the one that was said with what else answers is meant."""
    now = [datetime(2026, 3, 2, 9, tzinfo=UTC)]
    with passdown.open(str(tmp_path), settings=QUICK, clock=lambda: now[0]) as ws:
        ws.create_task("T-1", title="Talk", agent="planner")

        def say(text: str) -> str:
            now[0] += timedelta(seconds=1)
            return ws.warn("T-1", agent="ada", text=text).items[0]

        meant = say("It was a marathon in the rain")
        for number in range(4):
            say(f"Lunch was late again, {number}")
        say("Our charity race in Lisbon collected money for the school")
        now[0] += timedelta(days=3)
        other = say("It was a marathon in the snow")
        for number in range(9):
            say(f"Supper was late again, {number}")
        found = [a.address for a in ws.recall("charity race Lisbon marathon", limit=20)]
        assert found.index(meant) < found.index(other)


def test_in_a_long_text_words_that_stand_together_count(ws: Workspace) -> None:
    filling = [f"filler{n} about{n} other{n} matters{n}" for n in range(40)]
    together = decide(ws, "One", " ".join([*filling[:20], "circuit breaker", *filling[20:]]))
    apart = decide(ws, "Two", " ".join(["circuit", *filling, "breaker"]))
    for number in range(20):
        decide(ws, f"Something else {number}", " ".join(filling))
    found = [a.address for a in ws.recall("circuit breaker", limit=2)]
    assert found == [together, apart]

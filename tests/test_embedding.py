"""Vectors: made behind, by whatever makes them, and never in the way of words."""

from __future__ import annotations

import json
import logging
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown import Settings
from passdown.errors import InvalidInput, PassdownError, StoreUnavailable
from passdown.testing import fixed_clock, full_handoff, write_files
from tests.faults.tools import result_of
from tests.search.workers import letters, start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from passdown import Workspace

    Vectors = Sequence[Sequence[float]]

pytest.importorskip("numpy")


@pytest.fixture
def ws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    monkeypatch.delenv("PASSDOWN_EMBEDDER", raising=False)
    write_files(str(tmp_path))
    with opened(tmp_path) as workspace:
        workspace.create_task("T-1", title="Login", agent="planner")
        yield workspace


def opened(folder: Path) -> Workspace:
    chosen = Settings(durability="normal", embedder="none")
    return passdown.open(str(folder), settings=chosen, clock=fixed_clock())


def fill(ws: Workspace, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        ws.decide(task="T-1", agent="coder", summary=f"Matter {number}", rationale="so it is")


class Meanings:
    """An embedder that knows which words mean the same: one number for each meaning."""

    def __init__(self, *meanings: str) -> None:
        self.meanings = [set(words.split()) for words in meanings]
        self.texts: list[str] = []
        self.fails_after = math.inf

    def __call__(self, texts: Sequence[str]) -> Vectors:
        self.texts += texts
        if len(self.texts) > self.fails_after:
            raise RuntimeError("the model is gone")
        return [
            [0.01, *(float(len(words & set(text.lower().split()))) for words in self.meanings)]
            for text in texts
        ]


CATS = ("cat kitten feline", "dog puppy hound", "invoice bill")


def test_a_word_of_the_same_meaning_is_found(ws: Workspace) -> None:
    """And by words alone it isn't."""
    fill(ws, 60)
    item = ws.decide(task="T-1", agent="a", summary="The kitten sleeps", rationale="so").items[0]
    fill(ws, 60, 60)
    ws.embeddings.use("cats", Meanings(*CATS))
    status = ws.embeddings.update()
    assert (status.embedder, status.done, status.is_complete) == ("cats", 121, True)
    assert ws.recall("feline")[0].address == item
    assert item not in [a.address for a in ws.recall("feline", by_words=True)]
    assert len(ws.recall("feline", limit=100)) == 100


def test_filters_are_exact_with_vectors_too(ws: Workspace) -> None:
    ws.embeddings.use("letters", letters)
    for number in range(90):
        agent = "ana" if number % 30 == 0 else "ben"
        ws.decide(task="T-1", agent=agent, summary=f"Cabbage {number}", rationale="deed")
    ws.embeddings.update()
    found = ws.recall("bag face", agent="ana", kinds=["decision"])
    assert [a.agent for a in found] == ["ana"] * 3
    assert ws.recall("bag face", agent="ana", kinds=["gotcha"]) == []


@pytest.mark.promise("P-13")
def test_what_is_tagged_later_passes_a_filter_that_was_asked_before(ws: Workspace) -> None:
    """What is remembered of a filter grows with the store."""
    ws.embeddings.use("letters", letters)
    tagged: set[str] = set()
    for count in (4, 1, 3):
        for _ in range(count):
            said: dict[str, Any] = {"task": "T-1", "agent": "a", "summary": "Cabbage"}
            tagged.update(ws.decide(**said, rationale="deed", tags=["ops-x"]).items)
            ws.decide(**said, rationale="deed", tags=["pay-x"])
        ws.embeddings.update()
        found = ws.recall("bag face", tags=["ops-x"], limit=100)
        assert {answer.address for answer in found} == tagged


@pytest.mark.promise("P-14")
@pytest.mark.parametrize("only", [{}, {"tags": ["odd-x"]}, {"agent": "a"}, {"live_only": True}])
def test_a_question_without_a_vector_is_answered_by_its_words_within_its_filter(
    ws: Workspace, only: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Its vector is made on another thread: what fails there is told, and asked again later."""
    for number in range(60):
        tags = ["odd-x"] if number % 2 else []
        ws.decide(
            task="T-1", agent="a", summary=f"Matter {number}", rationale="the kitten", tags=tags
        )
    embedder = Meanings(*CATS)
    ws.embeddings.use("cats", embedder)
    ws.embeddings.update()
    expected = ws.recall("kitten matter 7", by_words=True, **only)
    embedder.fails_after = len(embedder.texts)
    with caplog.at_level(logging.WARNING, "passdown"):
        assert ws.recall("kitten matter 7", **only) == expected
    assert "the model is gone" in caplog.text
    asked = len(embedder.texts)
    assert ws.recall("kitten matter 7", **only) == expected
    assert len(embedder.texts) == asked


def test_an_embedder_sees_the_context_of_the_question(ws: Workspace) -> None:
    """As programs keep it that trace their calls."""
    current: ContextVar[str] = ContextVar("current", default="")
    seen: list[str] = []

    def embed(texts: Sequence[str]) -> Vectors:
        seen.append(current.get())
        return letters(texts)

    fill(ws, 2)
    ws.embeddings.use("own", embed)
    ws.embeddings.update()
    current.set("asking")
    ws.recall("matter")
    assert seen[-1] == "asking"


def test_the_same_question_is_embedded_once(ws: Workspace) -> None:
    """Whatever its filter is; and anew by another embedder, of the same name too."""
    first, second = Meanings(*CATS), Meanings(*CATS)
    fill(ws, 4)
    ws.embeddings.use("cats", first)
    ws.embeddings.update()
    found = ws.recall("kitten matter")
    assert ws.recall("kitten matter") == found
    assert ws.recall("kitten matter", kinds=["decision"]) == found
    assert first.texts.count("kitten matter") == 1
    ws.embeddings.use("cats", second)
    assert ws.recall("kitten matter") == found
    assert second.texts == ["kitten matter"]


@pytest.mark.promise("P-14")
def test_what_has_no_vector_yet_is_found_by_its_words(ws: Workspace) -> None:
    embedder = Meanings(*CATS)
    ws.embeddings.use("cats", embedder)
    fill(ws, 40)
    assert ws.embeddings.update(limit=32).done == 32
    embedder.fails_after = 0
    ws.decide(task="T-1", agent="a", summary="Zebra crossing", rationale="so")
    assert ws.recall("zebra")[0].title == "Zebra crossing"
    assert ws.embeddings.status().done == 32


def test_another_embedder_makes_them_anew_while_the_old_ones_answer(ws: Workspace) -> None:
    """Ended in the middle, it goes on where it was; then the old vectors are let go."""
    fill(ws, 100)
    item = ws.decide(task="T-1", agent="a", summary="The kitten sleeps", rationale="so").items[0]
    old = Meanings(*CATS)
    ws.embeddings.use("old", old)
    ws.embeddings.update()
    new = Meanings(*CATS, "more")
    new.fails_after = 70
    ws.embeddings.use("new", new)
    with pytest.raises(StoreUnavailable, match="the model is gone"):
        ws.embeddings.update()
    assert ws.embeddings.status() == ("new", 64, 101)
    assert ws.recall("feline")[0].address == item
    new.fails_after, new.texts = math.inf, []
    ws.embeddings.update(limit=32)
    assert len(new.texts) == 32
    ws.embeddings.update()
    assert len(new.texts) == 101 - 64
    assert ws.recall("feline")[0].address == item
    with ws._context.store.reading() as reader:  # pyright: ignore[reportPrivateUsage]
        assert [embedder.name for embedder in reader.embedders()] == ["new"]


def test_an_earlier_embedder_answers_until_the_new_one_is_nearly_done(
    ws: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The earlier one is known by its name in the environment, as a model elsewhere is."""
    fill(ws, 100)
    item = ws.decide(task="T-1", agent="a", summary="The kitten sleeps", rationale="so").items[0]
    with Endpoint(Meanings(*CATS)) as (url, _):
        monkeypatch.setenv("PASSDOWN_EMBEDDER", "openai:cats")
        monkeypatch.setenv("PASSDOWN_EMBEDDER_URL", url)
        ws.embeddings.update()
        slow = threading.Event()

        def waits(texts: Sequence[str]) -> Vectors:
            slow.wait(240)
            return [[1.0, 2.0] for _ in texts]

        with opened(tmp_path) as other:
            other.embeddings.use("slow", waits)
            thread = threading.Thread(target=other.embeddings.update)
            thread.start()
            assert ws.recall("feline")[0].address == item
            slow.set()
            thread.join()


@pytest.mark.promise("P-14")
def test_a_failing_embedder_breaks_neither_handoffs_nor_search(
    ws: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(texts: Sequence[str]) -> Vectors:
        raise ValueError(f"no vectors for {len(texts)}")

    ws.embeddings.use("broken", fails)
    ws.hand_off(full_handoff())
    with caplog.at_level(logging.WARNING, "passdown"):
        found = ws.recall("JWT cookie", told_to="coder")
    assert found[0].address == "T-1#d1"
    assert "no vectors for" in caplog.text
    assert ws.knowledge.pack("T-1").task == "T-1"
    ws.hand_off(full_handoff(from_agent="tester", summary="again"))
    with pytest.raises(StoreUnavailable, match="'broken' failed: ValueError"):
        ws.embeddings.update()


def test_an_embedder_that_failed_is_left_alone_for_a_while(ws: Workspace) -> None:
    fill(ws, 3)
    embedder = Meanings(*CATS)
    embedder.fails_after = 0
    ws.embeddings.use("cats", embedder)
    ws.embeddings.use("letters", letters)
    ws.embeddings.update()
    ws.embeddings.use("cats", embedder)
    ws.recall("matter")
    asked = len(embedder.texts)
    embedder.fails_after = math.inf
    ws.embeddings.update()
    assert ws.recall("matter")
    assert len(embedder.texts) > asked


BAD: dict[str, tuple[Callable[[Sequence[str]], Any], str]] = {
    "none at all": (lambda texts: [], "wrong_count"),
    "one too few": (lambda texts: [[1.0, 2.0] for _ in texts[1:]], "wrong_count"),
    "one too many": (lambda texts: [[1.0, 2.0] for _ in [*texts, ""]], "wrong_count"),
    "not a number": (lambda texts: [[1.0, math.nan] for _ in texts], "not_finite"),
    "endless": (lambda texts: [[1.0, math.inf] for _ in texts], "not_finite"),
    "empty": (lambda texts: [[] for _ in texts], "other_dimensions"),
    "uneven": (lambda texts: [[1.0] * (n + 1) for n, _ in enumerate(texts)], "other_dimensions"),
}


@pytest.mark.parametrize("name", BAD)
def test_vectors_that_can_not_be_used_are_refused_by_name(ws: Workspace, name: str) -> None:
    function, code = BAD[name]
    fill(ws, 3)
    ws.embeddings.use("bad", function)
    with pytest.raises(InvalidInput) as caught:
        ws.embeddings.update()
    assert code in [problem.code for problem in caught.value.problems]
    assert ws.embeddings.status().done == 0
    assert ws.recall("matter 2")[0].title == "Matter 2"


@pytest.mark.parametrize("given", [None, "text", [None, None, None], [["a"], ["b"], ["c"]]])
def test_what_is_no_vector_is_a_typed_error(ws: Workspace, given: Any) -> None:
    fill(ws, 3)
    ws.embeddings.use("bad", lambda texts: given)
    with pytest.raises(PassdownError):
        ws.embeddings.update()
    assert len(ws.recall("matter")) == 3


def test_the_same_name_with_other_dimensions_is_refused_and_words_answer(ws: Workspace) -> None:
    fill(ws, 3)
    ws.embeddings.use("cats", Meanings(*CATS))
    ws.embeddings.update()
    ws.embeddings.use("cats", Meanings(*CATS, "and more"))
    assert ws.recall("matter 2")[0].title == "Matter 2"
    fill(ws, 1, 7)
    with pytest.raises(InvalidInput) as caught:
        ws.embeddings.update()
    assert [problem.code for problem in caught.value.problems] == ["other_dimensions"]


@pytest.mark.parametrize("name", ["", "minilm", "none", "openai:x"])
def test_an_embedder_needs_a_name_of_its_own(ws: Workspace, name: str) -> None:
    with pytest.raises(InvalidInput):
        ws.embeddings.use(name, letters)


def test_threads_may_search_while_others_write(ws: Workspace) -> None:
    ws.embeddings.use("letters", letters)
    fill(ws, 40)

    def work(number: int) -> int:
        for turn in range(6):
            if number == 0:
                fill(ws, 2, 100 + 2 * turn)
            assert len(ws.recall(f"matter {turn} deed", kinds=["decision"], agent="coder")) == 5
        return number

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(work, range(8))) == list(range(8))
    ws.embeddings.update()
    assert ws.embeddings.status().is_complete


def test_what_is_made_behind_ends_with_the_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("passdown.workspace.search.TOP_UP_S", 0.0001)
    made = threading.Event()

    def slow(texts: Sequence[str]) -> Vectors:
        made.wait(0.02)
        return letters(texts)

    with opened(tmp_path) as ws:
        ws.create_task("T-1", title="Login", agent="planner")
        fill(ws, 300)
        ws.embeddings.use("slow", slow)
        ws.recall("matter")
        behind = ws._context.embeddings._behind  # pyright: ignore[reportPrivateUsage]
        assert behind is not None
        assert behind.is_alive()
    assert not behind.is_alive()
    with opened(tmp_path) as ws:
        ws.embeddings.use("slow", letters)
        done = ws.embeddings.status().done
        assert 0 < done < 300
        assert done % 32 == 0
        assert ws.embeddings.update().is_complete


def test_processes_may_embed_at_once(ws: Workspace) -> None:
    fill(ws, 150)
    workers = [start("embed", folder=ws.root, name="matter", count=4) for _ in range(3)]
    for worker in workers:
        result_of(worker)
    ws.embeddings.use("letters", letters)
    assert ws.embeddings.status().is_complete
    assert ws.verify().findings == ()


def test_making_rows_again_keeps_the_vectors(ws: Workspace) -> None:
    embedder = Meanings(*CATS)
    ws.embeddings.use("cats", embedder)
    fill(ws, 40)
    ws.knowledge.add([{"id": "A", "type": "component", "summary": "A feline"}], agent="a")
    ws.embeddings.update()
    embedder.texts = []
    ws.knowledge.add([{"id": "A", "type": "component", "summary": "A hound"}], agent="a")
    ws.maintenance.reindex()
    assert ws.embeddings.update().is_complete
    assert embedder.texts == ["A hound"]
    assert ws.recall("dog")[0].title == "A hound"


class Endpoint:
    """A model elsewhere, as a server of this machine."""

    def __init__(
        self,
        embed: Callable[[Sequence[str]], Any],
        *,
        answers: bytes = b"",
        statuses: Sequence[int] = (),
    ) -> None:
        """`statuses` are those of the first answers; from then on it is 200."""
        self.asked: list[dict[str, Any]] = []
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                asked.append({**body, "key": self.headers.get("Authorization")})
                rows = [{"index": n, "embedding": v} for n, v in enumerate(embed(body["input"]))]
                data = answers or json.dumps({"data": rows[::-1]}).encode()
                left = statuses[len(asked) - 1 :]
                self.send_response(left[0] if left else 200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                del format, args

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self) -> tuple[str, list[dict[str, Any]]]:
        self.thread.start()
        return f"http://127.0.0.1:{self.server.server_port}/v1/embeddings", self.asked

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


def test_an_endpoint_named_by_the_environment_is_asked(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    ws.decide(task="T-1", agent="a", summary="The kitten sleeps", rationale="so")
    fill(ws, 40)
    with Endpoint(Meanings(*CATS)) as (url, asked):
        monkeypatch.setenv("PASSDOWN_EMBEDDER", "openai:cats")
        monkeypatch.setenv("PASSDOWN_EMBEDDER_URL", url)
        monkeypatch.setenv("PASSDOWN_EMBEDDER_KEY", "secret")
        assert ws.embeddings.update().embedder == "openai:cats"
        assert ws.recall("feline")[0].title == "The kitten sleeps"
        assert {(one["model"], one["key"]) for one in asked} == {("cats", "Bearer secret")}
        assert asked[-1]["input"] == ["feline"]
    ws.close()


def test_an_endpoint_that_is_gone_or_talks_nonsense_leaves_words(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(ws, 3)
    monkeypatch.setenv("PASSDOWN_EMBEDDER", "openai:x")
    for answers in (b"{}", b"[1]", b'{"data": [{"embedding": ["a"]}]}', b"no json"):
        with Endpoint(letters, answers=answers) as (url, _):
            monkeypatch.setenv("PASSDOWN_EMBEDDER_URL", url)
            with opened_again(ws) as again:
                with pytest.raises(PassdownError):
                    again.embeddings.update()
                assert again.recall("matter 2")[0].title == "Matter 2"
    with opened_again(ws) as again:
        with pytest.raises(StoreUnavailable):
            again.embeddings.update()
        assert again.recall("matter 2")[0].title == "Matter 2"


def test_a_busy_endpoint_is_asked_again(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its base address is enough, as its own clients take it."""
    fill(ws, 3)
    monkeypatch.setenv("PASSDOWN_EMBEDDER", "openai:x")
    with Endpoint(letters, statuses=[429, 503]) as (url, asked):
        monkeypatch.setenv("PASSDOWN_EMBEDDER_URL", url.removesuffix("/embeddings"))
        assert ws.embeddings.update().is_complete
        assert len(asked) == 3


def test_an_endpoint_that_hangs_is_waited_for_once(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(ws, 3)
    goes_on = threading.Event()

    def hangs(texts: Sequence[str]) -> Any:
        goes_on.wait(240)
        return letters(texts)

    monkeypatch.setenv("PASSDOWN_EMBEDDER", "openai:x")
    monkeypatch.setattr("passdown.search.embedders._TIMEOUT_S", 0.3)
    with Endpoint(hangs) as (url, asked):
        monkeypatch.setenv("PASSDOWN_EMBEDDER_URL", url)
        try:
            with pytest.raises(StoreUnavailable, match=r"no answer within 0\.3 s"):
                ws.embeddings.update()
            assert len(asked) == 1
        finally:
            goes_on.set()


def test_searching_lets_go_of_no_vectors(ws: Workspace) -> None:
    """Whoever forgot to name the embedder would throw away what another one has paid for."""
    fill(ws, 3)
    ws.embeddings.use("paid", Meanings(*CATS))
    ws.embeddings.update()
    free = Meanings(*CATS)
    ws.embeddings.use("free", free)
    assert ws.recall("matter 2")
    assert ws.embeddings.status().is_complete
    ws.embeddings.use("paid", Meanings(*CATS))
    assert ws.embeddings.status() == ("paid", 3, 3)
    ws.embeddings.update()
    ws.embeddings.use("free", free)
    assert ws.embeddings.status().done == 0


def test_long_texts_are_embedded_a_few_at_a_time(ws: Workspace) -> None:
    """So that whoever asks a question waits for one or two of them, and not for all."""
    batches: list[int] = []

    def embed(texts: Sequence[str]) -> Vectors:
        batches.append(sum(map(len, texts)))
        return letters(texts)

    for number in range(4):
        ws.decide(task="T-1", agent="a", summary=f"Long {number}", rationale="so it is " * 1_000)
    fill(ws, 3)
    ws.embeddings.use("own", embed)
    assert ws.embeddings.update().is_complete
    assert len(batches) == 4
    assert max(batches) < 16_000


def test_of_very_many_the_nearest_are_told_apart(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where vectors stay in the store, codes choose some, and the question's numbers fewer."""
    import numpy as np

    monkeypatch.setattr("passdown.search.vectors.MANY", 50)
    monkeypatch.setattr("passdown.search.vectors.KEEP_OF_MANY", 30)
    known = dict(enumerate(np.random.default_rng(3).standard_normal((300, 64))))
    asked = known[7] + 0.9 * known[8]

    def embed(texts: Sequence[str]) -> Vectors:
        numbers = [int(text.split()[1]) if text.startswith("Matter") else -1 for text in texts]
        return [list(known.get(number, asked)) for number in numbers]

    items = [{"summary": f"Matter {n}", "rationale": "so"} for n in known]
    ws.hand_off({**full_handoff(), "decisions": items})
    ws.embeddings.use("own", embed)
    assert ws.embeddings.update().is_complete
    found = ws.recall("quite another word", kinds=["decision"], limit=2)
    assert {answer.title for answer in found} == {"Matter 7", "Matter 8"}


def test_large_numbers_are_a_vector_too(ws: Workspace) -> None:
    fill(ws, 3)
    ws.embeddings.use("large", lambda texts: [[1e308, 1e39 * len(text), 0.0] for text in texts])
    assert ws.embeddings.update().is_complete
    assert len(ws.recall("matter 2")) == 3


def opened_again(ws: Workspace) -> Workspace:
    return passdown.open(ws.root, settings=Settings(durability="normal", embedder="none"))


def test_without_an_address_an_endpoint_is_refused(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(ws, 1)
    monkeypatch.setenv("PASSDOWN_EMBEDDER", "openai:x")
    monkeypatch.delenv("PASSDOWN_EMBEDDER_URL", raising=False)
    with pytest.raises(InvalidInput) as caught:
        ws.embeddings.update()
    assert [problem.path for problem in caught.value.problems] == ["PASSDOWN_EMBEDDER_URL"]
    assert ws.recall("matter")
    for given, said in {
        "file:///etc/passwd": "'file' is no web address",
        "http://me:hidden@localhost/v1": "holds a name or password",
        "https://me:hidden@[": "holds a name or password",
    }.items():
        monkeypatch.setenv("PASSDOWN_EMBEDDER_URL", given)
        with pytest.raises(InvalidInput, match=said) as caught:
            ws.embeddings.update()
        assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("name", ["openai:x", "sentence-transformers:x", "own", ""])
def test_a_repository_can_not_name_a_model_elsewhere(tmp_path: Path, name: str) -> None:
    folder = tmp_path / ".passdown"
    folder.mkdir()
    (folder / "config.toml").write_text(f'embedder = "{name}"\n', "utf-8")
    with pytest.raises(InvalidInput), passdown.open(str(tmp_path)) as ws:
        ws.embeddings.update()

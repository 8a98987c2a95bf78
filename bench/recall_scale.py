"""How long search takes: by the number of entries, by filter, beside a vector database.

Also what a handoff pays for being found, and what the command line pays for searching.
A store of a million entries is measured where PASSDOWN_BENCH_MILLION names a folder: making it
takes long, so it is kept there, and a copy of it measured.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

import passdown
from bench import recall_beside, recall_growth, retrieval_data
from bench.command_line import call, compile_sources
from bench.figures import Measured, Row, Target, interleaved, median, ms, seconds, spread
from bench.recall_store import QUICK_REAL, REAL, SETTINGS, SHARES, make, material
from bench.workload import Ours
from passdown.core.rows import mark_of
from passdown.core.words import words
from passdown.store.sqlite.schema import rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.recall_store import Material
    from bench.run import Run

K = 10
MILLION = 1_000_000
KEPT_IN = "PASSDOWN_BENCH_MILLION"
MEDIANS = {10_000: 5.0, MILLION: 20.0}
BESIDE_FTS5 = Target("at most", 4, is_goal=True)
FTS5 = "bm25 of FTS5, the same words"
WHOLE = "words and meaning"
HANDOFF = Target("at most", 1.5)
COLD = {"recall --words": Target("at most", 10), "recall": None}


def sizes(run: Run) -> list[int]:
    if run.quick:
        return [10_000]
    return [10_000, 100_000] + ([MILLION] if os.environ.get(KEPT_IN) else [])


def measure(run: Run) -> Measured:
    found = Measured("recall_scale", "How long search takes")
    folder = retrieval_data.folder()
    if folder is None:
        found.notes.append("Not measured: PASSDOWN_DATA names no folder with retrieval/.")
        return found
    from passdown.search.minilm import MiniLM

    run.say("search: making vectors")
    stuff = material(folder, MiniLM(), QUICK_REAL if run.quick else REAL)
    roots = {size: run.folder / f"entries-{size}" for size in sizes(run)}
    for size, root in roots.items():
        workspace = (
            _kept(root, size, stuff, run) if size == MILLION else make(root, size, stuff, run)
        )
        _measure_size(found, workspace, stuff, size, run)
        workspace.close()
        if size <= 100_000:
            run.say(f"search: {size:,} entries beside Chroma")
            recall_beside.measure(found, root, stuff, size, run)
        if size == sizes(run)[0]:
            _command_line(found, root, stuff, run)
    recall_growth.measure(found, roots, stuff, run)
    _handoffs(found, run)
    found.notes += [
        "Whole calls of recall for ten answers with their passages; questions are real ones, "
        f"texts are put together from real sentences. Load average at the end "
        f"{os.getloadavg()[0]:.1f}.",
        "With filters: the slowest of kind, agent, task and tag is shown. Every call that can "
        "give ten answers is checked to give ten, and each to pass its filter.",
    ]
    return found


def _kept(root: Path, size: int, stuff: Material, run: Run) -> passdown.Workspace:
    """A copy of the store that is kept; it is made if it isn't there."""
    kept = Path(os.environ[KEPT_IN])
    if not kept.exists():
        making = kept.with_name(f"{kept.name}.part")
        shutil.rmtree(making, ignore_errors=True)
        make(making, size, stuff, run).close()
        making.rename(kept)
    run.say(f"search: copying {kept}")
    shutil.copytree(kept, root)
    root.mkdir(parents=True, exist_ok=True)
    return passdown.open(str(root), settings=SETTINGS)


def _measure_size(
    found: Measured, workspace: passdown.Workspace, stuff: Material, size: int, run: Run
) -> None:
    rounds = 40 if run.quick else 200
    queries = stuff.questions[:rounds]
    run.say(f"search: {size:,} entries, {rounds} questions")
    seconds(lambda: workspace.recall(queries[0], limit=K))  # loads the model and the codes
    figures: dict[str, Any] = {}
    times = _asked(workspace, queries)
    target = MEDIANS.get(size)
    for name, samples in times.items():
        figures[name] = {**spread(samples), "p95_ms": _p95(samples)}
        is_judged = target and name == WHOLE and not run.quick
        at = Target("at most", target, is_goal=True) if target and is_judged else None
        found.rows.append(
            Row(
                f"{size:,} entries: {name}, median",
                ms(median(samples)),
                f"p95 {_p95(samples):.1f} ms",
                median(samples) * 1e3 if at else None,
                at,
            )
        )
    ours, plain = median(times[WHOLE]), median(times[FTS5])
    what = f"{size:,} entries: a question beside {FTS5}"
    found.rows.append(Row(what, ms(ours), ms(plain), ours / plain, BESIDE_FTS5))
    filtered = _filtered(workspace, queries[: max(10, rounds // 5)])
    for share, by_filter in filtered.items():
        slowest = max(by_filter, key=lambda name: median(by_filter[name]))
        samples = by_filter[slowest]
        at = Target("at most", target, is_goal=True) if target and not run.quick else None
        found.rows.append(
            Row(
                f"{size:,} entries: a filter that {share} % pass, median",
                ms(median(samples)),
                f"p95 {_p95(samples):.1f} ms, by {slowest}",
                median(samples) * 1e3 if at else None,
                at,
            )
        )
        figures[f"filtered_{share}"] = {name: spread(s) for name, s in by_filter.items()}
    found.figures[str(size)] = figures


def _asked(workspace: passdown.Workspace, queries: list[str]) -> dict[str, list[float]]:
    """Every question by words, with meaning, and with meaning once more: its vector is
    remembered then. Beside them, SQLite's own ranking of the same words.
    """
    plain = _fts5(workspace._context.store_file)
    names = ("words only", WHOLE, "the same question again", FTS5)
    times: dict[str, list[float]] = {name: [] for name in names}
    for query in queries:
        ask = partial(workspace.recall, query, limit=K)
        for name, asked in zip(names, (partial(ask, by_words=True), ask, ask), strict=False):
            times[name].append(_timed(asked))
        times[FTS5].append(seconds(partial(plain, query)))
    return times


def _fts5(store: str) -> Callable[[str], list[Any]]:
    """SQLite's own bm25 over the words of a store's entries, in a table of its own in memory."""
    connection = apsw.Connection(":memory:")
    rows(connection, "ATTACH ? AS store", (store,))
    rows(connection, "CREATE VIRTUAL TABLE plain USING fts5 (words, tokenize = 'ascii')")
    rows(connection, "INSERT INTO plain (rowid, words) SELECT id, c0 FROM store.texts_content")

    def ask(query: str) -> list[Any]:
        sought = " OR ".join(f'"{word}"' for word in dict.fromkeys(words(query)))
        ranked = "SELECT rowid FROM plain WHERE plain MATCH ? ORDER BY bm25(plain) LIMIT ?"
        return rows(connection, ranked, (sought, K))

    return ask


def _timed(ask: Callable[[], list[Any]]) -> float:
    answers: list[Any] = []
    took = seconds(lambda: answers.extend(ask()))
    _is_full(answers)
    return took


def _is_full(answers: list[Any]) -> None:
    assert len(answers) == K, f"{len(answers)} answers where there are many more"


def _filtered(
    workspace: passdown.Workspace, queries: list[str]
) -> dict[int, dict[str, list[float]]]:
    """Questions with each filter, for each share of entries that pass it."""
    kinds = {1: "pattern", 10: "gotcha", 50: "decision"}
    times: dict[int, dict[str, list[float]]] = {}
    for share in SHARES:
        filters: dict[str, dict[str, Any]] = {
            "kind": {"kinds": [kinds[share]]},
            "agent": {"agent": f"agent-{share}"},
            "task": {"task": f"share-{share}"},
            "tag": {"tags": [f"tag-{share}"]},
        }
        times[share] = {}
        for name, only in filters.items():
            samples: list[float] = []
            for query in queries:
                answers: list[Any] = []
                ask = partial(workspace.recall, query, limit=K, **only)
                workspace._context.embeddings._questions.clear()  # a vector is made for each call
                samples.append(seconds(lambda a=answers, ask=ask: a.extend(ask())))
                _is_full(answers)
                _check(workspace, answers, name, only)
            times[share][name] = samples
    return times


def _check(
    workspace: passdown.Workspace, answers: list[Any], name: str, only: dict[str, Any]
) -> None:
    """That every answer passes its filter."""
    if name in ("agent", "task"):
        assert all(getattr(answer, name) == only[name] for answer in answers), only
    elif name == "kind":
        assert all(answer.kind in only["kinds"] for answer in answers), only
    else:
        wanted = mark_of("tag", only["tags"][0])
        with workspace._context.store.reading() as reader:
            entries = [reader.entry_at(answer.address) for answer in answers]
            marks = reader.marks_of(entry.id for entry in entries if entry)
        assert len(marks) == K, only
        assert all(wanted in given.split() for given in marks.values()), only


def _p95(samples: list[float]) -> float:
    return statistics.quantiles(samples, n=20)[18] * 1e3


def _command_line(found: Measured, root: Path, stuff: Material, run: Run) -> None:
    """Searching from the command line, beside starting Python at all."""
    question = stuff.questions[0]
    rounds = 5 if run.quick else 20
    commands = {
        "bare": [sys.executable, "-c", "pass"],
        "recall --words": [sys.executable, "-m", "passdown", "recall", question, "--words"],
        "recall": [sys.executable, "-m", "passdown", "recall", question],
    }
    calls = {name: partial(call, line, root) for name, line in commands.items()}
    compile_sources()
    try:
        interleaved(calls, 1)
    except subprocess.SubprocessError as error:  # the verb isn't there, or can't be used here
        found.notes.append(f"The command line was not measured: {error}")
        return
    times = interleaved(calls, rounds)
    bare = median(times["bare"])
    for name, target in COLD.items():
        found.rows.append(
            Row(
                f"passdown {name}, a process of its own",
                ms(median(times[name])),
                f"{ms(bare)} python -c pass",
                median(times[name]) / bare,
                target,
            )
        )
    found.figures["command_line"] = {name: spread(samples) for name, samples in times.items()}


def _handoffs(found: Measured, run: Run) -> None:
    """A handoff with and without everything that makes it findable, in alternation."""
    from passdown.core import index_entries as findable
    from passdown.ledger import writer as writing

    rounds, warm_up = (60, 60) if run.quick else (300, 200)
    with_index, without = Ours(run.folder / "found"), Ours(run.folder / "not-found")
    add_found, texts_of = writing.index_record, findable.indexed_texts

    def bare() -> None:
        writing.index_record = lambda *_: None
        findable.indexed_texts = lambda _: {}
        try:
            without.hand_off("T")
        finally:
            writing.index_record, findable.indexed_texts = add_found, texts_of

    for ours in (with_index, without):
        ours.task("T")
        ours.prepare(warm_up + rounds + 3)
    calls: dict[str, Callable[[], object]] = {
        "found": lambda: with_index.hand_off("T"),
        "not found": bare,
    }
    interleaved(calls, warm_up)
    times = interleaved(calls, rounds)
    for ours in (with_index, without):
        ours.close()
    a, b = median(times["found"]), median(times["not found"])
    found.rows.append(
        Row("a handoff, with what search and graph need", ms(a), f"{ms(b)} without", a / b, HANDOFF)
    )
    found.figures["handoff"] = {name: spread(samples) for name, samples in times.items()}

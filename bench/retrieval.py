"""What search finds: words alone, meaning alone, and both as we do it.

Three rankings of the same documents for the same questions in one run, with the same vectors;
`side_by_side` asks other stores the same.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bench import retrieval_data
from bench.figures import Measured, Row, Target, median, ms
from bench.retrieval_data import SETS, WHOLE, load, read

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.retrieval_data import Corpus, Loaded, Query
    from bench.run import Run

    Ranking = Callable[[Query], Sequence[str]]

DEPTH = 30
GOALS = {"locomo": 78.0, "adr": 92.0, WHOLE: 92.0, "beads": 97.0}
QUICK_DOCUMENTS = 25
LONG_DOCUMENTS = Target("at most", 6, is_goal=True)
_OURS, _WORDS = "ours", "words only"


class Embedder:
    """Our model; what it has made is kept for the run, so that no ranking pays for another's."""

    def __init__(self) -> None:
        from passdown.search.minilm import MiniLM

        self._model = MiniLM()
        self._made: dict[str, Any] = {}

    def __call__(self, texts: Sequence[str]) -> Any:
        import numpy as np

        missing = [text for text in dict.fromkeys(texts) if text not in self._made]
        if missing:
            self._made.update(zip(missing, self._model(missing), strict=True))
        return np.array([self._made[text] for text in texts])


@dataclass
class Score:
    """How well one ranking did on one set."""

    first5: list[float] = field(default_factory=list[float])
    first10: list[float] = field(default_factory=list[float])
    reciprocal: list[float] = field(default_factory=list[float])
    seconds: list[float] = field(default_factory=list[float])

    def add(self, found: Sequence[str], relevant: set[str], seconds: float) -> None:
        self.first5.append(len(relevant.intersection(found[:5])) / len(relevant))
        self.first10.append(len(relevant.intersection(found[:10])) / len(relevant))
        places = (place for place, name in enumerate(found, 1) if name in relevant)
        self.reciprocal.append(1 / next(places, float("inf")))
        self.seconds.append(seconds)

    def document(self) -> dict[str, float]:
        count = len(self.first5) or 1
        return {
            "recall_at_5": 100 * sum(self.first5) / count,
            "recall_at_10": 100 * sum(self.first10) / count,
            "mrr": sum(self.reciprocal) / count,
            "median_ms": median(self.seconds) * 1e3,
            "queries": len(self.first5),
        }


def measure(run: Run) -> Measured:
    found = Measured("retrieval", "What search finds, of 100 relevant documents")
    folder = retrieval_data.folder()
    if folder is None:
        found.notes.append("Not measured: PASSDOWN_DATA names no folder with retrieval/.")
        return found
    embed = Embedder()
    for name in (*SETS, WHOLE):
        corpus = read(folder, name)
        corpus = corpus.cut(QUICK_DOCUMENTS) if run.quick else corpus
        run.say(f"retrieval: {name}, {len(corpus.documents)} documents")
        loaded = load(run.folder / "retrieval" / name, corpus, embed)
        run.say(f"retrieval: {name}, {len(corpus.queries)} questions")
        scores = judged(loaded, embed)
        loaded.workspace.close()
        found.figures[name] = {ranking: score.document() for ranking, score in scores.items()}
        found.rows += _rows(corpus, found.figures[name], quick=run.quick)
    found.notes += [
        f"R@5 and R@10: the share of a question's relevant documents among the first five and ten; "
        f"MRR: the mean of 1 / place of the first relevant one, 0 beyond place {DEPTH}. Questions "
        "are asked within their own conversation, tracker or all records.",
        "Same vectors for both that use any. Times are whole calls, the question's vector "
        "included; other programs may run beside.",
    ]
    return found


def judged(loaded: Loaded, embed: Embedder) -> dict[str, Score]:
    """Every ranking asked every question, one after another."""
    rankings = _rankings(loaded, embed)
    scores = {name: Score() for name in rankings}
    for query in loaded.corpus.queries:
        started = time.perf_counter()
        embed([query.text])
        vector = time.perf_counter() - started
        loaded.recall(query, 1)  # makes the vector that search itself asks with
        relevant = {loaded.address[name] for name in query.relevant}
        for name, ranking in rankings.items():
            started = time.perf_counter()
            answer = ranking(query)
            took = time.perf_counter() - started + (vector if name != _WORDS else 0)
            scores[name].add(answer, relevant, took)
    return scores


def _rankings(loaded: Loaded, embed: Embedder) -> dict[str, Ranking]:
    return {
        _WORDS: lambda query: loaded.recall(query, DEPTH, by_words=True),
        "vectors only": _by_cosine(loaded, embed),
        _OURS: lambda query: loaded.recall(query, DEPTH),
    }


def _by_cosine(loaded: Loaded, embed: Embedder) -> Ranking:
    """The nearest vectors, compared with every one of the group."""
    import numpy as np

    documents = loaded.corpus.documents
    texts = loaded.texts()
    groups: dict[str, tuple[list[str], Any]] = {}
    for group in loaded.corpus.groups:
        ids = [name for name, document in documents.items() if document["group"] == group]
        groups[group] = ids, embed([texts[name] for name in ids])

    def ranking(query: Query) -> list[str]:
        ids, vectors = groups[query.group]
        best = np.argsort(-(vectors @ embed([query.text])[0]), kind="stable")
        return list(dict.fromkeys(loaded.address[ids[place]] for place in best[:DEPTH]))

    return ranking


def _rows(corpus: Corpus, figures: dict[str, dict[str, float]], *, quick: bool) -> list[Row]:
    rows: list[Row] = []
    for ranking, told in figures.items():
        is_judged = ranking == _OURS and not quick
        rows.append(
            Row(
                f"{corpus.name}, {ranking}: R@5",
                f"{told['recall_at_5']:.1f}",
                f"R@10 {told['recall_at_10']:.1f}, MRR {told['mrr']:.3f}, "
                f"{ms(told['median_ms'] / 1e3)}",
                told["recall_at_5"] if is_judged else None,
                Target("at least", GOALS[corpus.name], is_goal=True) if is_judged else None,
            )
        )
    if corpus.name == "adr" and not quick:
        took = figures[_OURS]["median_ms"]
        what = "a question over long documents, vector included: ms"
        rows.append(Row(what, ms(took / 1e3), "", took, LONG_DOCUMENTS))
    return rows

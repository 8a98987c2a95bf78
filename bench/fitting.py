"""Fits the weights of search to the open retrieval sets: `python -m bench.fitting [--words]`.

Features come from the search itself, as it asks its store. Weights are fitted so that each relevant
entry comes before the others that were candidates with it (a softmax over the list), every set
counting the same.
"Left out" means: fitted without the conversation or repository that is asked.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bench import retrieval_data
from bench.retrieval import Embedder
from bench.retrieval_data import KINDS, SETS, load, read, task_of
from passdown.search import ranking as searching
from passdown.search.query import SearchFilter
from passdown.search.ranking import Features, Scorer, Search

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.retrieval_data import Loaded, Query

FOLDS = 5
_PENALTY = 1e-3
_ROUNDS = 200


class Example(NamedTuple):
    """One question: what was weighed of each candidate, and which of them are relevant."""

    name: str
    group: str
    relevant: int
    features: Any
    is_relevant: Any


class _Recording(Scorer):
    def score(self, candidate: Any) -> float:
        self.__dict__.setdefault("seen", []).append(self.features(candidate))
        return super().score(candidate)


class _Watched(Search):
    seen: dict[str, Features]

    def _scored(self, scorer: Any, ids: list[int]) -> Any:
        found = super()._scored(scorer, ids)
        listed = scorer.__dict__.get("seen", [])
        self.seen = {e.address: f for (e, _), f in zip(found, listed, strict=True)}
        return found


def examples(loaded: Loaded, *, by_words: bool) -> list[Example]:
    """Every question of a set, put to the search as it is."""
    original, searching.Scorer = searching.Scorer, _Recording
    try:
        return [_example(loaded, query, by_words=by_words) for query in loaded.corpus.queries]
    finally:
        searching.Scorer = original


def _example(loaded: Loaded, query: Query, *, by_words: bool) -> Example:
    opened, name = loaded.workspace._context, loaded.corpus.name
    only = SearchFilter(kinds=(KINDS[name],), task=task_of(query.group))
    meaning = None if by_words else opened.embeddings.meaning(query.text, only)
    with opened.store.reading() as reader:
        search = _Watched(reader, query.text, only, meaning)
        search.best(1)
    relevant = {loaded.address[document] for document in query.relevant}
    first = loaded.corpus.documents[query.relevant[0]]
    group = first["repo"] if name == "adr" else query.group
    flags = np.array([address in relevant for address in search.seen], bool)
    features = np.array(list(search.seen.values()), np.float64).reshape(-1, len(Features._fields))
    return Example(name, group, len(relevant), features, flags)


def fitted(chosen: list[Example], used: list[int]) -> Any:
    """The weights of the features that are used; 0 for the others."""
    counts = {name: sum(e.name == name for e in chosen) for name in SETS}
    prepared = [
        (
            e.features[~e.is_relevant][:, used],
            e.features[e.is_relevant][:, used],
            1 / counts[e.name],
        )
        for e in chosen
        if e.is_relevant.any()
    ]

    def loss(weights: Any) -> tuple[float, Any]:
        total, slope = _PENALTY * float(weights @ weights), 2 * _PENALTY * weights
        for others, own, share in prepared:
            far, near = others @ weights, own @ weights
            top = max(far.max(initial=-1e9), near.max())
            raised = np.exp(far - top)
            mass, pull = raised.sum(), raised @ others
            mine = np.exp(near - top)
            whole = mass + mine
            total += share * float(np.mean(np.log(whole) + top - near))
            back = (pull[None, :] - mass * own) / whole[:, None]
            slope = slope + share * back.mean(axis=0)
        return total, slope

    weights = np.zeros(len(Features._fields))
    weights[used] = minimised(loss, np.ones(len(used)))
    return weights


def minimised(loss: Callable[[Any], tuple[float, Any]], start: Any) -> Any:
    """Where a smooth convex function is least (BFGS with halved steps)."""
    at, bend = start, np.eye(len(start))
    value, slope = loss(at)
    step = min(1.0, 1 / np.abs(slope).sum())
    for _ in range(_ROUNDS):
        way = -bend @ slope
        while True:
            there = at + step * way
            value_there, slope_there = loss(there)
            if value_there <= value + 1e-4 * step * (slope @ way) or step < 1e-9:
                break
            step /= 2
        moved, turned = there - at, slope_there - slope
        gain, at, value, slope, step = value - value_there, there, value_there, slope_there, 1.0
        if gain < 1e-9:
            break
        if (along := float(moved @ turned)) > 1e-12:
            left = np.eye(len(at)) - np.outer(moved, turned) / along
            bend = left @ bend @ left.T + np.outer(moved, moved) / along
    return at


def told(chosen: list[Example], scores: list[Any]) -> str:
    """R@5, R@10 and MRR of each set."""
    parts: list[str] = []
    for name in SETS:
        rows: list[tuple[float, float, float]] = []
        for example, score in zip(chosen, scores, strict=True):
            if example.name == name:
                order = example.is_relevant[np.argsort(-score, kind="stable")]
                first = np.flatnonzero(order)
                count = example.relevant
                back = 1 / (first[0] + 1) if len(first) else 0.0
                rows.append((order[:5].sum() / count, order[:10].sum() / count, back))
        five, ten, back = np.mean(rows, axis=0)
        parts.append(f"{name} {100 * five:.1f} / {100 * ten:.1f} / {back:.3f}")
    return " | ".join(parts)


def folds(chosen: list[Example]) -> list[int]:
    """A number for each question, the same for all of one group."""
    number: dict[tuple[str, str], int] = {}
    for name in SETS:
        groups = sorted({e.group for e in chosen if e.name == name})
        number |= {(name, group): place % FOLDS for place, group in enumerate(groups)}
    return [number[e.name, e.group] for e in chosen]


def report(chosen: list[Example], *, by_words: bool) -> None:
    count = len(Features._fields) - (1 if by_words else 0)
    used = list(range(count))
    weights = fitted(chosen, used)
    print("fitted on all: ", told(chosen, [e.features @ weights for e in chosen]))
    places, scores, ranges = folds(chosen), [np.empty(0)] * len(chosen), list[Any]()
    for fold in range(FOLDS):
        kept = [e for e, place in zip(chosen, places, strict=True) if place != fold]
        ranges.append(fitted(kept, used))
        for index, place in enumerate(places):
            if place == fold:
                scores[index] = chosen[index].features @ ranges[-1]
    print("left out:      ", told(chosen, scores))
    rounded = np.round(weights, 2)
    print("these weights: ", told(chosen, [e.features @ rounded for e in chosen]))
    low, high = np.min(ranges, axis=0), np.max(ranges, axis=0)
    for name, *numbers in zip(Features._fields, rounded, low, high, strict=True):
        print(f"  {name:7}{numbers[0]:7.2f}   [{numbers[1]:.2f} .. {numbers[2]:.2f}]")


def main() -> None:
    folder = retrieval_data.folder()
    if folder is None:
        sys.exit("PASSDOWN_DATA names no folder with retrieval/.")
    embed = Embedder()
    with tempfile.TemporaryDirectory(prefix="passdown-fit-") as work:
        sets = [load(Path(work) / name, read(folder, name), embed) for name in SETS]
        for by_words in (True,) if "--words" in sys.argv else (True, False):
            print("by words" if by_words else "with vectors", flush=True)
            report([e for s in sets for e in examples(s, by_words=by_words)], by_words=by_words)
        for loaded in sets:
            loaded.workspace.close()


if __name__ == "__main__":
    main()

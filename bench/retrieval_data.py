"""Three sets of public documents and questions, and how each of them gets into a workspace.

`locomo`: turns of conversations, as warnings by their speakers on their days, a task for each
conversation. `adr`: decisions, each with its first line as its summary; `adr-whole`: the same with
the first 200 characters as summary and all of the text as rationale. `beads`: bodies of work
items, as knowledge. Texts are kept once, with nothing added. PASSDOWN_DATA names the folder that
holds `retrieval/`; it isn't ours to ship.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import passdown
from passdown.core.settings import Settings
from passdown.search.embedders import MINILM, NamedEmbedder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SETS = ("locomo", "adr", "beads")
WHOLE = "adr-whole"
KINDS = {"locomo": "warning", "adr": "decision", WHOLE: "decision", "beads": "knowledge"}
SUMMARY = 100
_WHOLE_SUMMARY = 200
_START = datetime(2026, 1, 5, 9, tzinfo=UTC)
_DATE = re.compile(r"(\d+):(\d+) (am|pm) on (\d+) (\w+), (\d{4})")


def folder() -> Path | None:
    """Where the three sets are, or None."""
    data = os.environ.get("PASSDOWN_DATA", "")
    path = Path(data) / "retrieval"
    return path if data and all((path / f"{name}.docs.jsonl").exists() for name in SETS) else None


@dataclass
class Query:
    text: str
    group: str
    category: str
    relevant: list[str]


@dataclass
class Corpus:
    """One set: its documents by id, each with the group that it is searched in."""

    name: str
    documents: dict[str, dict[str, Any]]
    queries: list[Query]

    @property
    def groups(self) -> list[str]:
        return list(dict.fromkeys(d["group"] for d in self.documents.values()))

    def cut(self, documents: int) -> Corpus:
        """The first documents of the first group, and what is asked about them: a short run."""
        group = self.groups[0]
        first = [name for name, d in self.documents.items() if d["group"] == group][:documents]
        kept = {name: self.documents[name] for name in first}
        asked = [query for query in self.queries if kept.keys() >= set(query.relevant)]
        return Corpus(self.name, kept, asked)


def read(path: Path, name: str) -> Corpus:
    file = name.partition("-")[0]
    documents = {d["id"]: d for d in _lines(path / f"{file}.docs.jsonl")}
    queries = [
        Query(q["text"], q["group"], q["cat"], q["rel"])
        for q in _lines(path / f"{file}.queries.jsonl")
    ]
    return Corpus(name, documents, queries)


def _lines(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def text_of(document: dict[str, Any]) -> str:
    """What is said: a photo's caption stands on a second line."""
    caption = document.get("image")
    return f"{document['text']}\n{caption}" if caption else document["text"]


def task_of(group: str) -> str:
    """A group as the name of a task."""
    return re.sub(r"[^A-Za-z0-9-]+", "-", group).strip("-")


class Clock:
    """A clock that is told what time it is."""

    def __init__(self) -> None:
        self.now = _START

    def __call__(self) -> datetime:
        return self.now

    def step(self) -> None:
        self.now += timedelta(seconds=1)


@dataclass
class Loaded:
    """A set in a workspace: where each document went."""

    workspace: passdown.Workspace
    corpus: Corpus
    address: dict[str, str] = field(default_factory=dict[str, str])

    def texts(self) -> dict[str, str]:
        return {name: text_of(d) for name, d in self.corpus.documents.items()}

    def recall(self, query: Query, limit: int, *, by_words: bool = False) -> list[str]:
        """The addresses that search gives; what has nothing in common is not among them."""
        found = self.workspace.recall(
            query.text,
            task=task_of(query.group),
            kinds=[KINDS[self.corpus.name]],
            limit=limit,
            by_words=by_words,
        )
        return [answer.address for answer in found if answer.score > 0]


def load(root: Path, corpus: Corpus, embed: Callable[[Sequence[str]], Any] | None) -> Loaded:
    """A new workspace with all documents of a set; `embed` makes its vectors, or none are made."""
    root.mkdir(parents=True)
    clock = Clock()
    settings = Settings(durability="normal", embedder=MINILM if embed else "none")
    root.mkdir(parents=True, exist_ok=True)
    workspace = passdown.open(str(root), settings=settings, clock=clock)
    if embed is not None:
        workspace._context.embeddings._loaded[MINILM] = NamedEmbedder(MINILM, embed)
    workspace._context.mirror = lambda written: []
    loaded = Loaded(workspace, corpus)
    for group in corpus.groups:
        workspace.create_task(task_of(group), title=group, agent="reader")
        documents = [d for d in corpus.documents.values() if d["group"] == group]
        {"warning": _say, "decision": _decide, "knowledge": _learn}[KINDS[corpus.name]](
            loaded, documents, clock
        )
    if embed is not None:
        workspace.embeddings.update()
    return loaded


def _say(loaded: Loaded, documents: list[dict[str, Any]], clock: Clock) -> None:
    session = None
    for document in documents:
        if document["session"] != session:
            session, clock.now = document["session"], _time(document["date"])
        clock.step()
        said = loaded.workspace.warn(
            task_of(document["group"]), agent=document["speaker"], text=text_of(document)
        )
        loaded.address[document["id"]] = said.items[0]


def _time(text: str) -> datetime:
    match = _DATE.search(text)
    assert match, text
    hour = int(match[1]) % 12 + (12 if match[3] == "pm" else 0)
    day = datetime.strptime(f"{match[4]} {match[5]} {match[6]}", "%d %B %Y").replace(tzinfo=UTC)
    return day + timedelta(hours=hour, minutes=int(match[2]))


def _decide(loaded: Loaded, documents: list[dict[str, Any]], clock: Clock) -> None:
    for document in documents:
        clock.step()
        text = document["text"]
        is_whole = loaded.corpus.name == WHOLE
        summary, rest = (text[:_WHOLE_SUMMARY], text) if is_whole else parted(text)
        made = loaded.workspace.decide(
            agent="reader",
            summary=summary,
            rationale=rest or "not stated",
            task=task_of(document["group"]),
        )
        loaded.address[document["id"]] = made.items[0]


def _learn(loaded: Loaded, documents: list[dict[str, Any]], clock: Clock) -> None:
    nodes: list[dict[str, Any]] = []
    for document in documents:
        summary, rest = parted(document["text"])
        name = document["id"].rpartition("/")[2]
        attributes = {"attributes": {"description": rest}} if rest else {}
        nodes.append({"id": name, "type": "insight", "summary": summary, **attributes})
        loaded.address[document["id"]] = f"node:{name}"
    clock.step()
    loaded.workspace.knowledge.add(nodes, agent="reader", task=task_of(documents[0]["group"]))


def parted(text: str) -> tuple[str, str]:
    """A text's first line, cut between words where it is long, and all that follows."""
    first, _, rest = text.strip().partition("\n")
    if len(first) > SUMMARY:
        cut = first.rfind(" ", 0, SUMMARY)
        cut = cut if cut > 0 else SUMMARY
        first, rest = first[:cut], f"{first[cut:].strip()}\n{rest}".strip()
    return first.strip(), rest.strip()

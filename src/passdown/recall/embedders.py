"""Embedders: what makes vectors from texts. One works offline; others are named by the user.

A program may give any function (`Workspace.embed_with`). Otherwise the environment decides before
the workspace's settings do, and only the environment can name a model elsewhere: a repository's own
files must not decide where its text is sent.
"""

from __future__ import annotations

import json
import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from passdown.errors import InvalidInput, MissingExtra, Problem, StoreUnavailable
from passdown.ledger.retrying import persistently

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Embed = Callable[[Sequence[str]], Sequence[Sequence[float]]]

MINILM = "minilm"
NONE = "none"
VARIABLE = "PASSDOWN_EMBEDDER"
URL_VARIABLE = "PASSDOWN_EMBEDDER_URL"
KEY_VARIABLE = "PASSDOWN_EMBEDDER_KEY"
_TIMEOUT_S = 30.0
_LARGEST_ANSWER = 64 * 1_048_576


class Embedding(NamedTuple):
    """An embedder by name: vectors of one name can be compared with each other only."""

    name: str
    embed: Embed


def chosen_name(setting: str, environment: Mapping[str, str] = os.environ) -> str:
    """The embedder that is wanted: by the environment, else by the settings."""
    return environment.get(VARIABLE, "").strip() or setting


def embedder_named(name: str, environment: Mapping[str, str] = os.environ) -> Embedding | None:
    """The embedder with a name; None for `none`, and where the offline model isn't installed."""
    if name == NONE:
        return None
    if name == MINILM:
        return _minilm()
    kind, _, model = name.partition(":")
    if kind == "sentence-transformers" and model:
        return _sentence_transformers(name, model)
    if kind == "openai" and model:
        return _endpoint(name, model, environment)
    expected = "minilm | none | sentence-transformers:MODEL | openai:MODEL"
    raise InvalidInput(
        "there is no such embedder", [Problem(VARIABLE, "invalid_choice", repr(name), expected)]
    )


def _minilm() -> Embedding | None:
    from passdown.recall.minilm import MiniLM, available

    if not available():
        return None
    model = MiniLM()

    def embed(texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return cast("Sequence[Sequence[float]]", model(texts))

    return Embedding(MINILM, embed)


def _sentence_transformers(name: str, model: str) -> Embedding:
    try:
        package: Any = import_module("sentence_transformers")
    except ImportError as error:
        raise MissingExtra(
            "the package sentence-transformers is not installed",
            next_step="Install it: pip install sentence-transformers",
        ) from error
    loaded = package.SentenceTransformer(model)

    def embed(texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return loaded.encode(list(texts))

    return Embedding(name, embed)


def _endpoint(name: str, model: str, environment: Mapping[str, str]) -> Embedding:
    """An endpoint that speaks as OpenAI's does: POST {model, input}, answered by `data`."""
    url = environment.get(URL_VARIABLE, "").strip()
    if not url.startswith(("http://", "https://")):
        expected = "the address of the endpoint, such as http://localhost:11434/v1/embeddings"
        raise InvalidInput(
            "the embedder can't be used", [Problem(URL_VARIABLE, "required", "is unset", expected)]
        )
    headers = {"Content-Type": "application/json"}
    if key := environment.get(KEY_VARIABLE, "").strip():
        headers["Authorization"] = f"Bearer {key}"

    def embed(texts: Sequence[str]) -> Sequence[Sequence[float]]:
        sent = json.dumps({"model": model, "input": list(texts)}).encode()
        return persistently(f"asking {url}", lambda: _asked(url, headers, sent, len(texts)))

    return Embedding(name, embed)


def _asked(url: str, headers: dict[str, str], sent: bytes, count: int) -> list[list[float]]:
    from urllib.request import Request, urlopen

    request = Request(url, data=sent, headers=headers, method="POST")  # noqa: S310
    with urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310
        document: Any = json.loads(answer.read(_LARGEST_ANSWER))
    try:
        rows = sorted(document["data"], key=lambda row: row.get("index", 0))
        vectors = [[float(number) for number in row["embedding"]] for row in rows]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreUnavailable(f"{url} gave no embeddings: {error}") from error
    if len(vectors) != count:
        raise StoreUnavailable(f"{url} gave {len(vectors)} embeddings for {count} texts")
    return vectors

"""Embedders: functions that turn texts into vectors.

The default works offline. A program may give any function (`ws.embeddings.use`). Otherwise the
environment decides before the workspace's settings, and only the environment can name a remote
model: a repository's own files must not decide where its text is sent.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple, cast

from passdown.errors import InvalidInput, MissingExtra, Problem, StoreUnavailable
from passdown.ledger.durable_files import with_retries

Embed = Callable[[Sequence[str]], Sequence[Sequence[float]]]

MINILM = "minilm"
NONE = "none"
VARIABLE = "PASSDOWN_EMBEDDER"
URL_VARIABLE = "PASSDOWN_EMBEDDER_URL"
KEY_VARIABLE = "PASSDOWN_EMBEDDER_KEY"
_TIMEOUT_S = 10.0
_BUSY = (429, 502, 503, 504)
_BASE = re.compile(r"/v\d+$")
_LARGEST_ANSWER = 64 * 1_048_576


class NamedEmbedder(NamedTuple):
    """An embedder by name: vectors of one name can be compared with each other only."""

    name: str
    embed: Embed


def embedder_name(setting: str) -> str:
    """The embedder that is wanted: by the environment, else by the settings."""
    return os.environ.get(VARIABLE, "").strip() or setting


def load_embedder(name: str) -> NamedEmbedder | None:
    """The embedder with a name; None for `none`, and where the offline model isn't installed."""
    if name == NONE:
        return None
    if name == MINILM:
        from passdown.search.minilm import MiniLM, available

        return NamedEmbedder(MINILM, cast("Embed", MiniLM())) if available() else None
    kind, _, model = name.partition(":")
    if kind == "sentence-transformers" and model:
        try:
            package: Any = import_module("sentence_transformers")
        except ImportError as error:
            raise MissingExtra(
                "the package sentence-transformers is not installed",
                next_step="Install it: pip install sentence-transformers",
            ) from error
        return NamedEmbedder(name, package.SentenceTransformer(model).encode)
    if kind == "openai" and model:
        return _endpoint(name, model)
    expected = "minilm | none | sentence-transformers:MODEL | openai:MODEL"
    raise InvalidInput(
        "there is no such embedder", [Problem(VARIABLE, "invalid_choice", repr(name), expected)]
    )


def _endpoint(name: str, model: str) -> NamedEmbedder:
    """An endpoint that speaks as OpenAI's does: POST {model, input}, answered by `data`."""
    url = _endpoint_url(os.environ.get(URL_VARIABLE, "").strip())
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get(KEY_VARIABLE, "").strip():
        headers["Authorization"] = f"Bearer {key}"

    def embed(texts: Sequence[str]) -> Sequence[Sequence[float]]:
        sent = json.dumps({"model": model, "input": list(texts)}).encode()
        return with_retries(f"asking {url}", lambda: _post(url, headers, sent, len(texts)))

    return NamedEmbedder(name, embed)


def _endpoint_url(given: str) -> str:
    """Where to ask. A base address, as clients of such endpoints are given, is completed."""
    expected = "the address of the endpoint, such as http://localhost:11434/v1/embeddings"
    problem = None
    if not given:
        problem = Problem(URL_VARIABLE, "required", "is unset", expected)
    elif not given.startswith(("http://", "https://")):
        scheme = given.partition(":")[0][:20]
        problem = Problem(URL_VARIABLE, "invalid_choice", f"{scheme!r} is no web address", expected)
    elif "@" in given.split("/")[2]:
        message = "holds a name or password"
        problem = Problem(URL_VARIABLE, "not_safe", message, f"a key in {KEY_VARIABLE}")
    if problem is not None:
        raise InvalidInput("the embedder can't be used", [problem])
    base = given.rstrip("/")
    return f"{base}/embeddings" if _BASE.search(base) else given


def _post(url: str, headers: dict[str, str], sent: bytes, count: int) -> list[list[float]]:
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    request = Request(url, data=sent, headers=headers, method="POST")  # noqa: S310
    try:
        with urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310
            document: Any = json.loads(answer.read(_LARGEST_ANSWER))
    except HTTPError as error:
        if error.code in _BUSY:
            raise ConnectionError(f"{url} is busy: it answered {error.code}") from error
        raise
    except OSError as error:
        if isinstance(getattr(error, "reason", error), TimeoutError):
            # Not tried again: whoever asks has waited long enough, and words answer meanwhile.
            raise StoreUnavailable(f"{url} gave no answer within {_TIMEOUT_S:g} s") from None
        raise
    try:
        rows = sorted(document["data"], key=lambda row: row.get("index", 0))
        vectors = [[float(number) for number in row["embedding"]] for row in rows]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreUnavailable(f"{url} gave no embeddings: {error}") from error
    if len(vectors) != count:
        raise StoreUnavailable(f"{url} gave {len(vectors)} embeddings for {count} texts")
    return vectors

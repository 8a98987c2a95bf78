"""The default embedder: all-MiniLM-L6-v2 on numpy alone, offline, on one thread.

The weights come from a package that carries nothing else; the vocabulary lies beside this file.
Importing this costs next to nothing: numpy and the weights are loaded by the first text.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from passdown.recall.minilm.carrier import find_weights, has_numpy, weights_path
from passdown.recall.minilm.chunks import chunks
from passdown.recall.minilm.threads import import_numpy_on_one_thread, one_thread
from passdown.recall.minilm.wordpiece import WordPiece, vocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passdown.recall.minilm.forward import Encoder
    from passdown.recall.minilm.weights import Floats

_READ = 200_000


def available() -> bool:
    """Whether numpy and the weights are installed; imports neither."""
    return has_numpy() and find_weights() is not None


class MiniLM:
    """Vectors of texts, nearer to each other the more alike their meaning; threads may share it.

    `name` tells vectors of this model from those of others, which can't be compared with them.
    """

    name = "minilm-l6-v2"
    dimensions = 384

    def __init__(self) -> None:
        self._lock = Lock()
        self._loaded: tuple[WordPiece, Encoder] | None = None

    def __call__(self, texts: Sequence[str]) -> Floats:
        """One row of 384 numbers for each text, in the order of the texts.

        A row has length 1, so the product of two is their cosine; a text without any word gives
        zeros. The same text gives the same row, up to rounding, whatever stands beside it.

        A text of more than 254 pieces is read in chunks of 254 that overlap by 64; its row is the
        mean of theirs, weighted by their lengths. Of more than 12 chunks, 12 at even distances
        count, and of more than 200,000 characters the first 200,000.

        Raises `MissingExtra` if numpy or the weights aren't installed, `PassdownError` if the
        weights can't be used.
        """
        tokeniser, encoder = self.load()
        import numpy as np

        rows: list[list[int]] = []
        owners: list[int] = []
        for owner, text in enumerate(texts):
            for chunk in chunks(tokeniser.numbers(text[:_READ])):
                rows.append([tokeniser.start, *chunk, tokeniser.end])
                owners.append(owner)
        found = np.zeros((len(texts), self.dimensions), np.float32)
        if rows:
            with one_thread():
                vectors = encoder.vectors(rows)
            vectors *= np.array([[len(row) - 2] for row in rows], np.float32)
            np.add.at(found, owners, vectors)
            lengths = np.linalg.norm(found, axis=1, keepdims=True)
            np.divide(found, lengths, out=found, where=lengths > 0)
        return found

    def load(self) -> tuple[WordPiece, Encoder]:
        """Tokeniser and model, loaded on the first call; raises what calling raises."""
        with self._lock:
            if self._loaded is None:
                path = weights_path()
                import_numpy_on_one_thread()
                from passdown.recall.minilm.forward import Encoder
                from passdown.recall.minilm.weights import read_weights

                self._loaded = WordPiece(vocabulary()), Encoder(read_weights(path))
            return self._loaded

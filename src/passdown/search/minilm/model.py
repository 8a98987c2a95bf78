"""The model itself: all-MiniLM-L6-v2, its weights read from an ONNX file and its forward pass.

The file stores the matrices as bytes. Rows of token numbers go in, one vector of length 1 for each
comes out.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from passdown.search.minilm import unusable_weights

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Bytes = NDArray[np.int8]
    Rows = Sequence[Sequence[int]]

_VARINT, _EIGHT, _BLOCK, _FOUR = 0, 1, 2, 5
_VARINT_BYTES = 10


class MalformedMessage(ValueError):
    """The bytes are no protobuf message, or not the one that was expected; says why."""


def varint(data: memoryview, at: int) -> tuple[int, int]:
    """The number that starts at an offset, and the offset after it."""
    number = 0
    for index, byte in enumerate(data[at : at + _VARINT_BYTES]):
        number |= (byte & 127) << 7 * index
        if byte < 128:
            return number, at + index + 1
    raise MalformedMessage(f"a number at offset {at} has no end")


def message_fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Each field of a message in its order: its number, and its value as a number or as bytes.

    Raises `Malformed` where a field runs over the end or has a form that protobuf doesn't have.
    """
    at, end = 0, len(data)
    while at < end:
        key, at = varint(data, at)
        form = key & 7
        if form == _VARINT:
            value, at = varint(data, at)
            yield key >> 3, value
            continue
        if form == _BLOCK:
            length, at = varint(data, at)
        elif form in (_FOUR, _EIGHT):
            length = 4 if form == _FOUR else 8
        else:
            raise MalformedMessage(f"a field at offset {at} has the unknown form {form}")
        if length > end - at:
            raise MalformedMessage(
                f"a field at offset {at} runs {length - (end - at)} bytes over the end"
            )
        yield key >> 3, data[at : at + length]
        at += length


def packed_numbers(value: int | memoryview) -> list[int]:
    """The numbers of a repeated field's value, which holds one or a row of them."""
    if isinstance(value, int):
        return [value]
    found: list[int] = []
    at = 0
    while at < len(value):
        number, at = varint(value, at)
        found.append(number)
    return found


def block_field(value: int | memoryview) -> memoryview:
    """The bytes of a field that has to hold bytes."""
    if isinstance(value, int):
        raise MalformedMessage("a number where bytes were expected")
    return value


def text_field(value: int | memoryview) -> str:
    """The text of a field that has to hold text."""
    try:
        return str(block_field(value), "utf-8")
    except UnicodeDecodeError:
        raise MalformedMessage("a name is not UTF-8") from None


WIDTH, INNER, LAYERS, HEADS = 384, 1536, 6, 12
PIECES, PLACES = 30_522, 512

_GRAPH, _NODE, _INITIALISER = 7, 1, 5  # numbers of fields in ONNX's messages
_INPUT, _OUTPUT, _OPERATION = 1, 2, 4
_DIMENSION, _TYPE, _NAME, _RAW = 1, 2, 8, 9
_TYPES = {1: "<f4", 3: "<i1"}
_STRIP = 64  # columns that are turned at once: fits the processor's cache
_SHARE = (WIDTH // HEADS) ** -0.5  # of questions in attention, so that products stay small


class Norm(NamedTuple):
    """Gain and offset of a normalisation, one row per feature."""

    gain: Floats
    offset: Floats


class Product(NamedTuple):
    """A matrix of bytes, a row per feature that it makes; each row's scale and bias."""

    matrix: Bytes
    scale: Floats
    bias: Floats


class Layer(NamedTuple):
    """One layer: `attend` makes questions (scaled for their product), keys and values at once."""

    attend: Product
    merge: Product
    merged: Norm
    widen: Product
    narrow: Product
    narrowed: Norm


class Weights(NamedTuple):
    """All that the model has learnt; `scales` makes numbers of the rows of `words`.

    Matrices stay bytes: made into numbers they would take four times the memory, and a query
    would wait longer for memory than the making takes.
    """

    words: Bytes
    scales: Floats
    places: Floats
    embedded: Norm
    layers: tuple[Layer, ...]


def read_weights(path: str) -> Weights:
    """The weights in a file; raises `PassdownError` if it can't be read or isn't this model.

    The file stays mapped into memory: rows of words are read from it when they are needed.
    """
    try:
        with open(path, "rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        return _OnnxReader(data).weights()
    except (OSError, ValueError) as error:
        raise unusable_weights(path, str(error)) from error


class _OnnxReader:
    """What a file holds by name: tensors as bytes, and which matrix each bias belongs to."""

    def __init__(self, data: memoryview) -> None:
        self._tensors: dict[str, memoryview] = {}
        self._products: dict[str, str] = {}
        self._biases: dict[str, str] = {}
        for number, value in message_fields(data):
            if number == _GRAPH:
                self._enter_graph(block_field(value))

    def _enter_graph(self, graph: memoryview) -> None:
        for number, value in message_fields(graph):
            if number == _INITIALISER:
                tensor = block_field(value)
                self._tensors[_name(tensor)] = tensor
            elif number == _NODE:
                self._enter_node(block_field(value))

    def _enter_node(self, node: memoryview) -> None:
        given: list[str] = []
        made = operation = ""
        for number, value in message_fields(node):
            if number == _INPUT:
                given.append(text_field(value))
            elif number == _OUTPUT:
                made = text_field(value)
            elif number == _OPERATION:
                operation = text_field(value)
        if operation == "MatMul" and len(given) == 2:
            self._products[made] = given[1]
        elif operation == "Add" and len(given) == 2:
            self._biases[given[1]] = given[0]

    def weights(self) -> Weights:
        """Everything, with all sizes checked."""
        base = "inner.embeddings."
        kinds = self._floats(base + "token_type_embeddings.weight", 2, WIDTH)
        place = base + "position_embeddings.weight"
        places = self._bytes(place + "_q", PLACES, WIDTH)
        word = base + "word_embeddings.weight"
        return Weights(
            self._bytes(word + "_q", PIECES, WIDTH),
            self._floats(word + "_scale", PIECES, 1),
            places * self._floats(place + "_scale", PLACES, 1) + kinds[0],
            self._norm(base + "LayerNorm"),
            tuple(self._layer(f"inner.encoder.layer.{index}.") for index in range(LAYERS)),
        )

    def _layer(self, base: str) -> Layer:
        own = [
            self._product(f"{base}attention.self.{part}.bias", WIDTH, WIDTH, share)
            for part, share in (("query", _SHARE), ("key", 1.0), ("value", 1.0))
        ]
        return Layer(
            Product(*(np.concatenate(parts) for parts in zip(*own, strict=True))),
            self._product(base + "attention.output.dense.bias", WIDTH, WIDTH),
            self._norm(base + "attention.output.LayerNorm"),
            self._product(base + "intermediate.dense.bias", INNER, WIDTH),
            self._product(base + "output.dense.bias", WIDTH, INNER),
            self._norm(base + "output.LayerNorm"),
        )

    def _product(self, bias: str, made: int, given: int, share: float = 1.0) -> Product:
        """The matrix that a bias belongs to, turned; what it makes is taken times a share."""
        name = self._products.get(self._biases.get(bias, ""), "")
        if not name:
            raise MalformedMessage(f"no matrix belongs to {bias}")
        stored = self._bytes(name + "_q", given, made)
        turned = np.empty((made, given), np.int8)
        for at in range(0, given, _STRIP):
            turned[:, at : at + _STRIP] = stored[at : at + _STRIP].T
        scale = self._floats(name + "_scale", 1, made).reshape(made, 1)
        factor = np.float32(share)
        return Product(turned, scale * factor, self._column(bias, made) * factor)

    def _norm(self, base: str) -> Norm:
        return Norm(self._column(base + ".weight", WIDTH), self._column(base + ".bias", WIDTH))

    def _column(self, name: str, size: int) -> Floats:
        return self._floats(name, size).reshape(size, 1)

    def _floats(self, name: str, *shape: int) -> Floats:
        found = self._array(name, 1, shape)
        if not np.isfinite(found).all():
            raise MalformedMessage(f"{name} holds something that is no number")
        return found

    def _bytes(self, name: str, *shape: int) -> Bytes:
        return self._array(name, 3, shape)

    def _array(self, name: str, kind: int, shape: tuple[int, ...]) -> NDArray[Any]:
        """A tensor as a view of the file; it has to have this type and shape."""
        if name not in self._tensors:
            raise MalformedMessage(f"{name} is missing")
        sizes: list[int] = []
        stored = 0
        raw = memoryview(b"")
        for number, value in message_fields(self._tensors[name]):
            if number == _DIMENSION:
                sizes += packed_numbers(value)
            elif number == _TYPE:
                stored = value
            elif number == _RAW:
                raw = block_field(value)
        expected = np.dtype(_TYPES[kind])
        if (stored, *sizes) != (kind, *shape):
            raise MalformedMessage(
                f"{name} has type {stored}, sizes {sizes[:8]}, not {kind}, {shape}"
            )
        if len(raw) != expected.itemsize * int(np.prod(shape)):
            raise MalformedMessage(f"{name} has {len(raw)} bytes, which don't fill {shape}")
        return np.frombuffer(raw, expected).reshape(shape)


def _name(tensor: memoryview) -> str:
    return next(
        (text_field(value) for number, value in message_fields(tensor) if number == _NAME), ""
    )


_EPSILON = np.float32(1e-12)
_UNSEEN = np.float32(-1e9)
_BATCH_TOKENS = 1_024
_PADDING = 1.125
_MEAN = np.full(WIDTH, 1 / WIDTH, np.float32)
_SLAB = WIDTH * WIDTH
_BAND, _NARROWEST = 64, 16
_UNPACKED = 1_000_000


class Encoder:
    """The model, ready to run. Holds no state between calls, so threads may share it."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights

    def vectors(self, rows: Rows) -> Floats:
        """A vector of length 1 for each row of piece numbers, in the order of the rows.

        A row has 1 to 512 numbers. What else is in a batch doesn't count, except for
        rounding (less than one part in 100,000).
        """
        found = np.empty((len(rows), WIDTH), np.float32)
        for batch in batches([len(row) for row in rows]):
            found[batch] = self._pooled([rows[index] for index in batch])
        return found

    def _pooled(self, rows: Rows) -> Floats:
        lengths = np.array([len(row) for row in rows])
        longest = int(lengths.max())
        seen = np.arange(longest) < lengths[:, None]
        numbers = np.zeros(seen.shape, np.intp)
        numbers[seen] = np.concatenate([np.asarray(row, np.intp) for row in rows])
        padding = None if seen.all() else np.where(seen, 0, _UNSEEN).astype(np.float32)
        tokens = self._embedded(numbers)
        for layer in self._weights.layers:
            tokens = _layer(tokens, layer, padding, len(rows))
        each = tokens.reshape(WIDTH, *seen.shape)
        sums = (each if padding is None else np.where(seen, each, 0)).sum(2).T
        return sums / np.linalg.norm(sums, axis=1, keepdims=True)

    def _embedded(self, numbers: NDArray[np.intp]) -> Floats:
        words, scales, places, norm, _ = self._weights
        rows = words[numbers] * scales[numbers]
        rows += places[: numbers.shape[1]]
        return _normalised(np.ascontiguousarray(rows.reshape(-1, WIDTH).T), norm)


def batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Positions of rows that are worth running together: of nearly one length, and not too many.

    Each position comes once. The longest of a batch is at most an eighth longer than the shortest.
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        length = lengths[index]
        full = (len(batch) + 1) * length > _BATCH_TOKENS
        if batch and (full or length > lengths[batch[0]] * _PADDING):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _layer(tokens: Floats, layer: Layer, padding: Floats | None, count: int) -> Floats:
    merged = _applied(layer.merge, _attention(_applied(layer.attend, tokens), padding, count))
    merged += tokens
    merged = _normalised(merged, layer.merged)
    narrowed = _applied(layer.narrow, _gelu(_applied(layer.widen, merged)))
    narrowed += merged
    return _normalised(narrowed, layer.narrowed)


def _applied(product: Product, tokens: Floats) -> Floats:
    """A product with its bias, by the way that is faster for this number of tokens."""
    given = product.matrix.shape[1]
    band = _BAND if given == WIDTH else _BAND // 2
    while band >= _NARROWEST and tokens.shape[1] * given * band > _UNPACKED:
        band //= 2
    few = band >= _NARROWEST
    found = _in_bands(product.matrix, tokens, band) if few else _at_once(product.matrix, tokens)
    found *= product.scale
    found += product.bias
    return found


def _at_once(matrix: Bytes, tokens: Floats) -> Floats:
    return matrix.astype(np.float32) @ tokens


def _in_bands(matrix: Bytes, tokens: Floats, band: int) -> Floats:
    """For few tokens, where getting at the matrix takes longer than multiplying it.

    It becomes numbers a slab at a time, in a buffer that the processor's cache holds. Of a slab,
    OpenBLAS would first make a rearranged copy; below a million multiplications it goes without,
    so it is given the slab in bands of that size.
    """
    made, given = matrix.shape
    buffer = np.empty((_SLAB // given // band, band, given), np.float32)
    slabs = matrix.reshape(-1, *buffer.shape)
    found = np.empty((*slabs.shape[:-1], tokens.shape[1]), np.float32)
    for stored, into in zip(slabs, found, strict=True):
        np.copyto(buffer, stored)
        np.matmul(buffer, tokens, out=into)
    return found.reshape(made, -1)


def _attention(mixed: Floats, padding: Floats | None, count: int) -> Floats:
    """Each token's mix of values, of all heads; texts of a batch don't see each other."""
    split = mixed.reshape(3, HEADS, WIDTH // HEADS, count, -1).transpose(0, 3, 1, 2, 4)
    questions, keys, values = split
    weights = keys.swapaxes(2, 3) @ questions
    if padding is not None:
        weights += padding[:, None, :, None]
    weights -= weights.max(2, keepdims=True)
    np.exp(weights, out=weights)
    found = values @ weights
    found /= weights.sum(2, keepdims=True)
    return found.transpose(1, 2, 0, 3).reshape(WIDTH, -1)


def _normalised(tokens: Floats, norm: Norm) -> Floats:
    """Each token with mean 0 and variance 1, then scaled and moved; changes what is given."""
    tokens -= _MEAN @ tokens
    variance = np.einsum("ij,ij->j", tokens, tokens)
    variance /= WIDTH
    variance += _EPSILON
    tokens /= np.sqrt(variance, out=variance)
    tokens *= norm.gain
    tokens += norm.offset
    return tokens


def _gelu(tokens: Floats) -> Floats:
    """The model's activation in its form with tanh, since numpy has no error function."""
    bent = tokens * tokens
    bent *= np.float32(0.044715 * 0.7978845608028654)
    bent += np.float32(0.7978845608028654)
    bent *= tokens
    np.tanh(bent, out=bent)
    bent += np.float32(1)
    bent *= tokens
    bent *= np.float32(0.5)
    return bent

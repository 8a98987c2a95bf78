"""Token counters: exact, offline, pluggable."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, lru_cache

from passdown.core.values import NamedTuple
from passdown.errors import InvalidInput, Problem

Count = Callable[[str], int]

DEFAULT_COUNTER = "o200k_base"
VOCABULARIES = ("o200k_base", "cl100k_base")
COUNTERS = (*VOCABULARIES, "chars4")


class Counter(NamedTuple):
    """A counter with its name; `tokens` counts.

    With `weigh`, the weights of lines, each with its line end, sum up to the weight of the text
    that they make, and `per` of them are a token.
    """

    name: str
    tokens: Count
    weigh: Count | None = None
    per: int = 1

    def of_lines(self, lines: Iterable[str]) -> int:
        """The tokens of a text that is given as its lines, each with its line end."""
        if self.weigh is None:
            return self.tokens("".join(lines))
        return -(-sum(map(self.weigh, lines)) // self.per)


CounterLike = str | Count | Counter | None
"""A counter, its name, a function that counts, or None for the default."""


def units(text: str) -> int:
    """The length of a text in UTF-16 units, as JavaScript has it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def chars4(text: str) -> int:
    """UTF-16 units divided by four, rounded up."""
    return -(-units(text) // 4)


_FIRST_CHARACTERS = 50_000
"""So much text is counted by the table before the tokenizer is loaded, which then is faster."""


@cache
def vocabulary(name: str) -> Count:
    """The exact counter of a vocabulary."""
    return _short_counter() if name == DEFAULT_COUNTER else _tokenizer(name)


def _short_counter() -> Count:
    """The counter of the usual vocabulary; it loads the tokenizer once there is much to count."""
    from passdown.core.token_table import TokenTable

    table, counted = TokenTable(), 0

    def count(text: str) -> int:
        nonlocal counted
        counted += len(text)
        found = table.count(text) if counted <= _FIRST_CHARACTERS else None
        return _tokenizer(DEFAULT_COUNTER)(text) if found is None else found

    return count


@cache
def _tokenizer(name: str) -> Count:
    """A vocabulary's counter, loaded once from the package that carries it."""
    import splintr

    encode = splintr.Tokenizer.from_pretrained(name).encode_ordinary

    def count(text: str) -> int:
        try:
            return len(encode(text))
        except UnicodeEncodeError:
            return len(encode(text.encode("utf-8", "replace").decode()))

    return count


_MAX_KEPT_LINE = 500


@cache
def _line_counter(name: str) -> Count:
    """A vocabulary's counter that keeps what it has counted: the lines of a brief are the same
    from one selection to the next, and from brief to brief.
    """
    count = vocabulary(name)
    kept = lru_cache(maxsize=8_192)(count)
    return lambda line: kept(line) if len(line) <= _MAX_KEPT_LINE else count(line)


def counter_of(given: str | Count | Counter | None, default: str = DEFAULT_COUNTER) -> Counter:
    """The counter that is meant: by name, as a function of the caller's own, or the default."""
    if given is None:
        given = default
    if isinstance(given, Counter):
        return given
    if callable(given):
        return Counter(getattr(given, "__name__", "custom"), checked_counter(given))
    if given == "chars4":
        return Counter("chars4", chars4, units, 4)
    if given in VOCABULARIES:
        return Counter(given, vocabulary(given), _line_counter(given))
    problem = Problem("counter", "invalid_choice", f"{str(given)[:40]!r}", " | ".join(COUNTERS))
    raise InvalidInput("unknown counter", [problem])


def checked_counter(count: Count) -> Count:
    """A caller's own counter, whose answers have to be whole numbers from 0."""

    def counted(text: str) -> int:
        answer = count(text)
        if not isinstance(answer, int) or isinstance(answer, bool) or answer < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            problem = Problem("counter", "wrong_type", f"{answer!r:.40}", "a whole number from 0")
            raise InvalidInput("the counter gave no count", [problem])
        return answer

    return counted

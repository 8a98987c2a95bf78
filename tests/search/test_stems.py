"""Stems: forms of a word that mean the same are found by each other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from passdown.core.words import stem, words


@pytest.mark.parametrize(
    ("forms", "expected"),
    [
        ("add adds added adding", "add"),
        ("organize organized organizing organization", "organiz"),
        ("write wrote written writing", "write"),
        ("index indices indexes indexing", "index"),
    ],
)
def test_forms_of_a_word_have_one_stem(forms: str, expected: str) -> None:
    assert {stem(form) for form in forms.split()} == {expected}


@pytest.mark.parametrize("word", ["", "go", "ab", "naïve", "sqlite3", "日本"])
def test_what_is_no_english_word_stays(word: str) -> None:
    assert stem(word) == word


def test_threads_stem_alike() -> None:
    given = [
        f"{head}{tail}" for head in ("connect", "adopt", "retry") for tail in ("ing", "ed", "s")
    ]
    expected = [stem(word) for word in given]
    with ThreadPoolExecutor(8) as pool:
        rounds = [pool.submit(lambda: [stem(word) for word in given]) for _ in range(200)]
        assert all(each.result() == expected for each in rounds)


def test_parts_of_a_name_are_stemmed() -> None:
    assert words("userSessions") == ["usersess", "user", "session"]

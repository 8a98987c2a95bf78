"""What fails for the moment is tried again, three times at most; all else is told at once."""

from __future__ import annotations

import errno

import pytest

from passdown.errors import StoreUnavailable
from passdown.ledger.durable_files import FIRST_WAIT_S, TRIES, with_retries


class Failing:
    """An action that fails some times before it succeeds."""

    def __init__(self, times: int, error: Exception) -> None:
        self.left = times
        self.error = error
        self.waits: list[float] = []

    def act(self) -> str:
        if self.left:
            self.left -= 1
            raise self.error
        return "done"

    def run(self) -> str:
        return with_retries("reading", self.act, wait=self.waits.append)


@pytest.mark.parametrize("times", range(TRIES + 1))
def test_a_passing_refusal_is_waited_out(times: int) -> None:
    action = Failing(times, OSError(errno.EAGAIN, "busy"))
    assert action.run() == "done"
    assert action.waits == [FIRST_WAIT_S * 2**turn for turn in range(times)]


@pytest.mark.parametrize("error", [TimeoutError("slow"), ConnectionRefusedError("nobody")])
def test_one_that_lasts_is_told_with_its_cause(error: Exception) -> None:
    action = Failing(99, error)
    with pytest.raises(StoreUnavailable, match="reading failed") as caught:
        action.run()
    assert caught.value.__cause__ is error
    assert len(action.waits) == TRIES


def test_one_that_will_not_pass_is_not_repeated() -> None:
    action = Failing(1, OSError(errno.EACCES, "not allowed"))
    with pytest.raises(StoreUnavailable, match="not allowed"):
        action.run()
    assert action.waits == []


def test_a_store_that_was_busy_underneath_is_asked_again() -> None:
    busy = StoreUnavailable("busy")
    busy.__cause__ = OSError(errno.EBUSY, "busy")
    assert Failing(2, busy).run() == "done"
    with pytest.raises(StoreUnavailable):
        Failing(1, StoreUnavailable("gone")).run()


def test_a_mistake_of_the_program_is_not_touched() -> None:
    with pytest.raises(KeyError):
        Failing(1, KeyError("x")).run()

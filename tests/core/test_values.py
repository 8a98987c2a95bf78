"""Values made fast are what the library's own named tuples are."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import NamedTuple as Slow
from typing import get_type_hints

import pytest

from passdown.core.values import NamedTuple


class Fast(NamedTuple):
    """A point."""

    x: int
    tags: tuple[str, ...] = ()
    _UNIT = "cm"

    @property
    def twice(self) -> int:
        """Two times."""
        return self.x * 2


class Usual(Slow):
    """A point."""

    x: int
    tags: tuple[str, ...] = ()
    _UNIT = "cm"

    @property
    def twice(self) -> int:
        """Two times."""
        return self.x * 2


def test_they_are_made_compared_and_read_alike() -> None:
    fast, usual = Fast(1, tags=("a",)), Usual(1, tags=("a",))
    assert fast == usual == (1, ("a",))
    assert fast._replace(x=2).twice == usual._replace(x=2).twice == 4
    assert fast._asdict() == usual._asdict()
    assert (Fast._fields, Fast._field_defaults) == (Usual._fields, Usual._field_defaults)
    assert repr(fast) == repr(usual).replace("Usual", "Fast")
    assert (Fast.__doc__, Fast.__module__, Fast.__qualname__) == ("A point.", __name__, "Fast")
    assert get_type_hints(Fast) == get_type_hints(Usual)
    assert pickle.loads(pickle.dumps(fast)) == fast
    assert not hasattr(fast, "__dict__")
    with pytest.raises(TypeError):
        Fast()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    with pytest.raises(AttributeError):
        fast.x = 2  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


def test_a_shape_is_a_frozen_dataclass_though_it_is_made_with_its_first_value() -> None:
    """A process that only unpickles one, or only asks what it is, sees no difference."""
    code = (
        "import dataclasses, inspect, pickle\n"
        "from passdown.core import handoff\n"
        "first = pickle.loads(pickle.dumps(handoff.NextStep(step='x')))\n"
        "assert first == handoff.NextStep(step='x') and hash(first) == hash(first)\n"
        "assert dataclasses.replace(first, step='y').step == 'y'\n"
        "assert list(inspect.signature(handoff.Question).parameters)[0] == 'question'\n"
        "assert dataclasses.is_dataclass(handoff.Gotcha)\n"
        "class Mine(handoff.Story): pass\n"
        "assert Mine(id='S-1').id == 'S-1' and Mine().path == ''\n"
        "try: first.step = 'z'\n"
        "except dataclasses.FrozenInstanceError: print('frozen')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "frozen\n"
    lean = "import sys, passdown.core.handoff; print('dataclasses' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", lean], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"

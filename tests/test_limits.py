"""What is too much, too deep or of no known kind is refused by name, before any work is done."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown import Settings
from passdown.errors import GateRefused, InvalidInput
from tests.processes import Process

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from passdown import Workspace


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    settings = Settings(durability="normal", artifacts_on_disk=False)
    with passdown.open(str(tmp_path), settings=settings) as workspace:
        workspace.create_task("T-1", title="Login", agent="planner")
        yield workspace


def given(**fields: Any) -> dict[str, Any]:
    return {"task": "T-1", "outcome": "completed", "from_agent": "planner", **fields}


@contextmanager
def counted_calls() -> Generator[list[int]]:
    """How many calls were made within, of functions and of what Python itself has."""
    count = [0]

    def seen(_frame: object, event: str, _argument: object) -> None:
        count[0] += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        yield count
    finally:
        sys.setprofile(before)


def deep(levels: int) -> Any:
    value: Any = "end"
    for _ in range(levels):
        value = {"in": value}
    return value


def cyclic() -> Any:
    value: dict[str, Any] = {}
    value["self"] = [value, value]
    return value


MANY = {"summary": "s", "rationale": "r", "alternatives": [f"other {n}" for n in range(1_000)]}
HOSTILE: list[tuple[str, dict[str, Any], str]] = [
    ("deep metadata", {"metadata": deep(5_000)}, "too_deep"),
    ("cyclic metadata", {"metadata": cyclic()}, "too_deep"),
    ("unknown object", {"metadata": {"x": object()}}, "wrong_type"),
    ("set", {"metadata": {"x": {1, 2}}}, "wrong_type"),
    ("deep unknown field", {"colour": deep(5_000)}, "too_deep"),
    ("cyclic unknown field", {"colour": cyclic()}, "too_deep"),
    ("unknown object in an entry", {"warnings": ["w"], "colour": {"x": object()}}, "wrong_type"),
    ("long key", {"k" * 1_000: "v"}, "too_long"),
    ("long metadata key", {"metadata": {"k" * 1_000: "v"}}, "too_long"),
    ("many unknown fields", {f"field_{n}_x": n for n in range(10_001)}, "too_many"),
    ("bidi path", {"artifacts": [{"path": "src/\u202egnp.py"}]}, "invalid_path"),
    ("isolate in a path", {"artifacts": [{"path": "src/\u2067a.py"}]}, "invalid_path"),
    ("bidi story", {"story": {"path": "src/\u202egnp.md"}}, "invalid_path"),
    (
        "bidi artifact of a decision",
        {"decisions": [{"summary": "s", "rationale": "r", "artifacts": ["src/\u202egnp.py"]}]},
        "invalid_path",
    ),
    (
        "bidi location",
        {"patterns_discovered": [{"pattern": "p", "location": "src/\u202egnp.py"}]},
        "invalid_path",
    ),
    (
        "bidi place of a gotcha",
        {"gotchas": [{"issue": "i", "mitigation": "m", "discovered_in": "src/\u202egnp.py"}]},
        "invalid_path",
    ),
    ("values in all", {"decisions": [MANY] * 1_000}, "too_many"),
    ("long texts in all", {"metadata": {"x": ["y" * 50_000] * 1_000}}, "too_long"),
    ("many metadata keys", {"metadata": {f"k{n}": n for n in range(100_000)}}, "too_many"),
    ("a long list in metadata", {"metadata": {"x": [0] * 1_000_000}}, "too_many"),
    ("many unknown fields", {f"k{n}": n for n in range(100_000)}, "too_many"),
]


@pytest.mark.promise("P-7")
@pytest.mark.parametrize(("name", "fields", "code"), HOSTILE, ids=[case[0] for case in HOSTILE])
def test_each_is_a_named_refusal(
    ws: Workspace, name: str, fields: dict[str, Any], code: str
) -> None:
    """Never an error of Python's own, and nothing is recorded; the steps are bounded."""
    with pytest.raises(InvalidInput) as refused, counted_calls() as calls:
        ws.hand_off(given(**fields))
    assert calls[0] < 1_500_000  # to count what is too much
    assert code in [problem.code for problem in refused.value.problems]
    assert not ws.check_handoff(given(**fields)).ok
    assert ws.task("T-1").version == 1


@pytest.mark.promise("P-7")
@pytest.mark.parametrize("value", [deep(5_000), cyclic(), {"x": object()}])
def test_the_same_holds_for_values_tasks_and_decisions(ws: Workspace, value: Any) -> None:
    """Whatever takes unknown fields, and the value of a handoff too."""
    for call in (
        lambda: ws.hand_off(passdown.Handoff(**given(metadata=value))),
        lambda: ws.create_task("T-2", title="t", agent="a", colour=value),
        lambda: ws.decide(task="T-1", agent="a", summary="s", rationale="r", colour=value),
    ):
        with pytest.raises(InvalidInput):
            call()


def test_what_python_has_for_times_and_values_is_recorded_as_json(ws: Workspace) -> None:
    """Times and declared values in metadata are no unknown objects."""
    from datetime import UTC, datetime

    ws.hand_off(given(metadata={"at": datetime(2026, 1, 9, tzinfo=UTC), "list": (1, 2)}))
    (handoff,) = ws.files.state_document("T-1")["handoffs"]
    assert handoff["metadata"] == {"at": "2026-01-09T00:00:00.000000Z", "list": [1, 2]}


@pytest.mark.promise("P-7")
@pytest.mark.parametrize(
    "field", ["artifacts", "files_created", "decisions", "warnings", "next_steps"]
)
def test_too_many_entries_are_refused_before_the_work(ws: Workspace, field: str) -> None:
    """Refusing 300,000 takes no more steps than refusing ten thousand and one."""
    entry: Any = {"path": "src/a.py", "summary": "s", "rationale": "r", "step": "s", "purpose": "p"}
    steps: dict[int, int] = {}
    for count in (10_001, 300_000):
        entries = [dict(entry, path=f"src/{n}.py") for n in range(count)]
        with pytest.raises(InvalidInput) as refused, counted_calls() as calls:
            ws.hand_off(given(**{field: entries}))
        steps[count] = calls[0]
        assert [problem.code for problem in refused.value.problems] == ["too_many"]
    assert steps[300_000] < 1.1 * steps[10_001]


@pytest.mark.promise("P-7", "S1-9")
def test_what_is_within_the_limits_is_recorded(ws: Workspace) -> None:
    """Ten thousand artifacts and a thousand decisions in one handoff."""
    entry = {"summary": "s", "rationale": "r", "alternatives": ["a", "b"]}
    files = [{"path": f"src/{n}.py", "type": "source", "note": "n"} for n in range(10_000)]
    ws.hand_off(given(artifacts=files, decisions=[{**entry, "tags": ["x"]}] * 1_000))
    assert ws.task("T-1").version == 2


@pytest.mark.promise("P-7")
def test_the_path_of_a_knowledge_node_turns_no_writing(ws: Workspace) -> None:
    node = {"id": "n", "type": "insight", "summary": "s", "path": "src/\u202egnp.py"}
    with pytest.raises(InvalidInput, match="direction of writing"):
        ws.knowledge.add(nodes=[node], agent="a")


@pytest.mark.promise("P-7")
def test_what_never_ends_is_refused(ws: Workspace) -> None:
    """A generator is read up to the limit."""
    from itertools import count

    with pytest.raises(InvalidInput) as refused:
        ws.hand_off(given(warnings=(f"w {n}" for n in count())))
    assert [problem.code for problem in refused.value.problems] == ["too_many"]


def test_of_two_processes_that_write_a_new_file_one_is_refused(tmp_path: Path) -> None:
    """Neither replaces what the other has just written, however close they come."""
    code = (
        "import sys, passdown\n"
        "from passdown.errors import InvalidInput\n"
        "with passdown.open(sys.argv[1]) as ws:\n"
        "    ws.create_task('T-1', title='t', agent='a', key='k')\n"
        "    sys.stdin.readline()\n"
        "    for number in range(60):\n"
        "        try:\n"
        "            ws.maintenance.export(f'{sys.argv[2]}/{number}.passdown')\n"
        "            print(number)\n"
        "        except InvalidInput as error:\n"
        "            assert error.problems[0].code in ('exists', 'unwritable'), error\n"
    )
    targets = tmp_path / "out"
    targets.mkdir()
    processes: list[subprocess.Popen[str]] = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        argv = [sys.executable, "-c", code, str(tmp_path / name), str(targets)]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        processes.append(Process(argv, **pipes))
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    written = [number for process in processes for number in process.communicate()[0].split()]
    assert [process.returncode for process in processes] == [0, 0]
    assert sorted(map(int, written)) == list(range(60))


@pytest.mark.promise("P-7")
def test_a_link_that_changes_while_it_is_followed_is_a_named_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system calls it an invalid argument; the handoff says which file it is."""
    (tmp_path / "real.py").write_text("x", "utf-8")
    (tmp_path / "link.py").symlink_to("real.py")
    with passdown.open(str(tmp_path)) as ws:
        ws.create_task("T-1", title="t", agent="planner")
        follow = os.path.realpath

        def changing(path: str, **options: Any) -> str:
            if path.endswith("link.py"):
                raise OSError(errno.EINVAL, "Invalid argument", path)
            return follow(path, **options)

        monkeypatch.setattr(os.path, "realpath", changing)
        with pytest.raises(GateRefused) as refused:
            ws.hand_off(given(artifacts=[{"path": "link.py"}]))
    assert [problem.code for problem in refused.value.problems] == ["not_regular_file"]

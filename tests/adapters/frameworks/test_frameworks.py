"""Agents of every framework play one story; the same holds for each of them.

The planner looks something up, hands off with mistakes, fixes them, and the coder takes over with
a brief. It works with tools of its own, reads what the brief replaced, and hands back.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from filelock import FileLock

import passdown
from bench import frameworks
from passdown.core.tokens import vocabulary
from tests.adapters.frameworks.story import (
    BACK,
    DONE,
    OWN_RESULT,
    REQUEST,
    RESULT,
    Played,
)
from tests.framework_environments import LARGE, NotMade, python_of
from tests.processes import run_python
from tests.serving import EVERY_RIGHT, served

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).parent
FRAMEWORKS = sorted(each.stem.removeprefix("play_") for each in HERE.glob("play_*.py"))
CHECKED = sorted(each.stem.removeprefix("check_") for each in HERE.glob("check_*.py"))
BUDGET = 500


def run(framework: str, program: Path, folder: Path, url: str = "", token: str = "") -> str:
    """Run a program in the environment of a framework; the test is skipped if it can't be made."""
    try:
        python = python_of(framework.replace("_", "-"))
    except NotMade as error:
        pytest.skip(str(error))
    done = subprocess.run(
        [python, str(program), url],
        cwd=folder,
        env={
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
            "PATH": "/usr/bin:/bin",
            "HOME": str(folder),
            "PASSDOWN_TOKEN": token,
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def with_large_in_long_runs(modules: Iterable[str]) -> list[Any]:
    """Frameworks as parameters, those whose environment is large in `make soak` alone."""
    large = [each.replace("-", "_") for each in LARGE]
    soak = pytest.mark.soak
    return [pytest.param(each, marks=soak) if each in large else each for each in modules]


@pytest.fixture(scope="session", params=with_large_in_long_runs(FRAMEWORKS))
def framework(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="session")
def story(framework: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Played, Played]:
    """What happened in both stories; each framework plays them once, for all workers. The first
    is played through a server.
    """
    folder = tmp_path_factory.getbasetemp()
    shared = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    kept = shared / f"{framework}.json"
    with FileLock(f"{kept}.lock"):
        if not kept.exists():
            program = HERE / f"play_{framework}.py"
            with passdown.init(str(folder / framework)) as ws, served(ws) as server:
                token = server.token("tests", *EVERY_RIGHT, is_person=True)
                printed = run(framework, program, folder, server.url, token)
                kept.write_text(printed.splitlines()[-1], "utf-8")
    first, second = (Played(**each) for each in json.loads(kept.read_text("utf-8")))
    return first, second


def joined(texts: list[str]) -> str:
    return "\n".join(texts)


@pytest.mark.promise("F-20")
def test_a_handoff_with_mistakes_goes_back_to_the_model(story: tuple[Played, Played]) -> None:
    """Every problem is named, nothing is recorded, and the model tries again."""
    fixing = joined(story[0].seen["planner"][2])
    assert "Fix these" in fixing
    assert "summary: is missing" in fixing
    assert "outcome: 'done' is not one of the choices" in fixing
    assert story[0].handoffs == 2


@pytest.mark.promise("F-21")
def test_the_receiver_gets_the_brief_in_place_of_the_history(
    story: tuple[Played, Played],
) -> None:
    """The decision, its reason and the next step, but no tool result; and within the budget."""
    given = story[0].seen["coder"][0]
    brief = next(text for text in given if "# T-1 for coder" in text)
    for part in (DONE["summary"], "JWT in a cookie", "scripts can't read it", "Write the"):
        assert part in brief
    assert RESULT not in joined(given)
    assert REQUEST in joined(given)
    tokens = vocabulary("o200k_base")
    assert tokens(brief[brief.index("# T-1") :]) <= BUDGET


@pytest.mark.promise("F-21")
def test_the_receivers_own_calls_stay_with_their_results(story: tuple[Played, Played]) -> None:
    """Only what was before the handoff is replaced, at each of its turns."""
    second, third = (joined(given) for given in story[0].seen["coder"][1:])
    for given in (second, third):
        assert "# T-1 for coder" in given
        assert OWN_RESULT in given
    assert "files" in second
    assert RESULT not in second


@pytest.mark.promise("F-22")
def test_the_receiver_reads_what_the_brief_replaced(story: tuple[Played, Played]) -> None:
    """The tool that the brief names gives an earlier result word for word."""
    assert "read_history" in joined(story[0].seen["coder"][0])
    assert RESULT in joined(story[0].seen["coder"][2])


@pytest.mark.promise("F-22")
def test_nothing_is_lost_on_the_way_back(story: tuple[Played, Played]) -> None:
    """The first agent gets what the second did as a brief, and its answer ends the run."""
    back = joined(story[0].seen["planner"][3])
    assert "# T-1 for planner" in back
    assert str(BACK["summary"]) in back
    assert "JWT in a cookie" in back
    assert "Release it" in back
    assert RESULT not in back
    assert OWN_RESULT not in back
    assert (story[0].answer, story[0].holder) == ("All is done.", "planner")


@pytest.mark.promise("F-23")
def test_a_person_who_has_to_approve_is_waited_for(story: tuple[Played, Played]) -> None:
    """The framework pauses by its own means; the receiver starts after the approval."""
    gated = story[1]
    assert gated.waited_for == ["T-1#k1"]
    assert gated.before_approval == 0
    assert len(gated.seen["planner"]) == 1
    assert gated.handoffs == 1
    assert "They agree" in joined(gated.seen["coder"][0])
    assert REQUEST in joined(gated.seen["coder"][0]), "what the person asked for"
    assert (gated.answer, gated.holder) == ("It is released.", "coder")


@pytest.mark.promise("F-22")
def test_the_frameworks_own_session_keeps_everything(story: tuple[Played, Played]) -> None:
    """Of both agents, before and after the handoff."""
    for part in (RESULT, OWN_RESULT, DONE["summary"], BACK["summary"]):
        assert str(part) in story[0].stored


@pytest.mark.promise("F-26")
@pytest.mark.parametrize("checked", CHECKED)
def test_what_else_the_adapter_promises_holds_in_its_environment(
    checked: str, tmp_path: Path
) -> None:
    """A program of plain assertions, for a framework that is in an environment of its own."""
    run(checked, HERE / f"check_{checked}.py", tmp_path)


def test_without_a_framework_its_extra_is_named() -> None:
    code = (
        "import sys, importlib, passdown\n"
        f"for name in {FRAMEWORKS}:\n"
        "    sys.modules[name] = None\n"
        "    try:\n        importlib.import_module(f'passdown.adapters.{name}')\n"
        "    except passdown.errors.MissingExtra as error:\n        print(error)\n"
    )
    done = run_python([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for name in FRAMEWORKS:
        assert f"pip install 'passdown[{name.replace('_', '-')}]'" in done.stdout


def test_the_page_shows_what_happens(framework: str, tmp_path: Path) -> None:
    """The example is its file, it runs, and prints what the page says."""
    page = (ROOT / "docs" / "frameworks.md").read_text("utf-8")
    example = ROOT / "docs" / "examples" / "frameworks" / f"on_{framework}.py"
    found = re.search(
        rf"<!-- {example.relative_to(ROOT)} -->\n```python\n(.*?)```.*?```text\n(.*?)```",
        page,
        re.DOTALL,
    )
    assert found is not None
    assert found[1] == example.read_text("utf-8")
    printed = run(framework, example, tmp_path)
    assert re.sub(r"\[\d{6}\b", "[…", printed) == found[2]


@pytest.mark.promise("F-28")
@pytest.mark.parametrize(
    "module",
    [
        pytest.param(each, marks=pytest.mark.soak) if each == "claude_agent_sdk" else each
        for each in frameworks.FRAMEWORKS
    ],
)
def test_the_figures_of_the_page_are_those_of_a_run(module: str) -> None:
    """A receiver gets a fraction of what the framework gives it, and can reach all facts."""
    try:
        measured = frameworks.figures_of(module, rounds=1)
    except NotMade as error:
        pytest.skip(str(error))
    default, ours, all_read, *again = measured["runs"].values()
    assert ours["receiver"] <= BUDGET
    assert all_read["facts"] == 18
    assert again or ours["whole_run"] < default["whole_run"]
    # Where a framework hands no results on, its receiver has to look them up again.
    assert all(all_read["whole_run"] < each["whole_run"] for each in again)
    page = (ROOT / "docs" / "frameworks.md").read_text("utf-8")
    name = frameworks.FRAMEWORKS[module]
    shown = re.search(rf"\| {name} \| (.*?) \| (.*?) \| (.*?) \| (.*?) \|", page)
    assert shown is not None
    pairs = ("whole_run", default, ours), ("receiver", default, ours)
    for text, (figure, *runs) in zip(shown.groups(), pairs, strict=False):
        told = [int(each.replace(",", "")) for each in text.split(" → ")]
        for said, found in zip(told, runs, strict=True):
            assert abs(said - found[figure]) <= 0.03 * said, "digests differ by a few tokens"

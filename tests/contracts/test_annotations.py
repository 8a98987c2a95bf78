"""Types and logs: everything is annotated, the type check is strict, logs carry fields."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import passdown

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parent.parent.parent


UNANNOTATED = ("ruff", "check", "--isolated", "--no-cache", "--ignore-noqa", "--quiet")


def unannotated(*paths: Path) -> str:
    """Where a parameter or a result has no type; the rules of ruff for that, and nothing else."""
    command = [Path(sys.executable).with_name(UNANNOTATED[0]), *UNANNOTATED[1:]]
    rules = ("--select", "ANN0,ANN2", "--output-format", "concise")
    found = subprocess.run(
        [*command, *rules, *paths], capture_output=True, text=True, timeout=240, check=False
    )
    assert found.returncode in (0, 1), found.stderr
    return found.stdout


@pytest.mark.promise("S0-35")
def test_every_function_is_annotated(tmp_path: Path) -> None:
    """Parameters and results of every function, in sources and tests, say their types."""
    assert unannotated(ROOT / "src", ROOT / "tests") == ""
    for number, text in enumerate(
        ("def f(a) -> int: ...", "def f(*a) -> int: ...", "def f(): ...")
    ):
        file = tmp_path / f"planted{number}.py"
        file.write_text(f"class Deep:\n    def g(self) -> None:\n        {text}  # noqa: ANN\n")
        assert "ANN" in unannotated(file), text


PLANTED = {
    "src/wrong.py": 'def wrong() -> int:\n    return "text"\n',
    "src/right.py": "def right(*given: int) -> int:\n    return sum(given)\n",
    "src/passdown/deep/wrong.py": "def wrong(*given) -> None: ...\n",
    "tests/test_wrong.py": "from src.right import right\n\n\nWRONG: str = right(1)\n",
}


@pytest.mark.promise("S0-35")
def test_a_type_error_anywhere_fails_the_type_check(tmp_path: Path) -> None:
    """The check as `make check` runs it, by the project's own settings, on planted files."""
    for name, text in PLANTED.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    result = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
    )
    assert result.returncode == 1, result.stdout + result.stderr
    document = result.stdout[result.stdout.index("{") :]
    errors = [e for e in json.loads(document)["generalDiagnostics"] if e["severity"] == "error"]
    found = {str(Path(each["file"]).relative_to(tmp_path.resolve())) for each in errors}
    assert found == {name for name in PLANTED if "wrong" in name}


_WEAKER = re.compile(
    r"\s*# ?(?:pyright: ?(?:basic|standard|off|report\w+ ?= ?(?:false|none))|type: ignore\s*$)"
)


@pytest.mark.promise("S0-35")
def test_every_check_of_a_change_is_strict_over_all_sources_and_tests(
    need_program: Callable[[str], str],
) -> None:
    """`.ci/run` runs `make check`, which runs pyright over all that the settings name, and neither
    these nor any file take something out of it.
    """
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pyright"]
    names = {"include", "pythonVersion", "typeCheckingMode", "venvPath", "venv"}
    assert settings.keys() == names, "nothing is excluded, ignored or switched off"
    assert settings["typeCheckingMode"] == "strict"
    assert settings["include"] == ["src", "tests"]
    assert not (ROOT / "pyrightconfig.json").exists(), "it would be read instead"
    commands = subprocess.run(
        [need_program("make"), "-n", "check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout.splitlines()
    assert [line.split("/python ")[1] for line in commands if "-m pyright" in line] == [
        "-m pyright"
    ]
    steps = (ROOT / ".ci" / "run").read_text("utf-8").splitlines()
    assert 'step "check" make check' in steps
    assert "set -euo pipefail" in steps
    weakened = [
        f"{path}:{number}"
        for folder in settings["include"]
        for path in sorted((ROOT / folder).rglob("*.py"))
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if _WEAKER.match(line)
    ]
    assert weakened == []


@pytest.mark.promise("S0-35")
def test_a_log_record_carries_its_facts_as_fields(caplog: pytest.LogCaptureFixture) -> None:
    """A program can filter by agent and field without parsing a sentence."""
    with caplog.at_level(logging.WARNING, logger="passdown"):
        passdown.check_integrity({"plan": 1}, {"plan": 2}, source="dev", target="qa")
    (record,) = caplog.records
    fields = vars(record)
    assert (fields["source"], fields["target"], fields["fields"]) == ("dev", "qa", ["plan"])

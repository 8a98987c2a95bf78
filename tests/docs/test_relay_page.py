"""The page on relays shows what happens, and has every field of a relay file."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import passdown
from passdown.relay.relay_file import read_relay, relay_schema
from passdown.relay.run import MAX_PARTIAL, MAX_REJECTED, VERDICTS
from passdown.relay.runs import Runs
from tests.processes import forked_python

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "relay.md"
EXAMPLES = ROOT / "docs" / "examples" / "relay"


def block(language: str) -> str:
    match = re.search(rf"```{language}\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert match is not None, language
    return match[1]


def fields(schema: dict[str, Any], whole: dict[str, Any], above: str = "") -> dict[str, str]:
    """Every field of a schema with its default, as the page spells both."""
    found: dict[str, str] = {}
    for name, field in schema["properties"].items():
        is_list = field.get("type") == "array"
        parts: list[Any] = [field, field.get("items"), field.get("additionalProperties")]
        refs: list[str] = [
            part["$ref"] for part in parts if isinstance(part, dict) and "$ref" in part
        ]
        empty = "[]" if is_list else "{}"
        default = json.dumps(field["default"]) if "default" in field else empty
        if name == "otherwise":
            default = '["stop"]'
        is_required = name in schema.get("required", ())
        found[above + name] = "required" if is_required else f"`{default}`".replace("600.0", "600")
        for ref in refs:
            below = "[]." if is_list else (".NAME." if name == "agents" else ".")
            part = whole["$defs"][ref.rpartition("/")[2]]
            found |= fields(part, whole, f"{above}{name}{below}")
    return found


def test_every_field_is_in_the_table_with_its_default() -> None:
    """None is missing, none is made up."""
    table = PAGE.read_text("utf-8").partition("## The file")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"(?m)^\| `([^`]+)` \| (required|`[^`]*`) \|", table))
    schema = relay_schema()
    assert rows == fields(schema, schema)


def test_the_verdicts_and_the_usual_rules_are_on_the_page() -> None:
    page = PAGE.read_text("utf-8")
    rows = re.findall(r"(?m)^\| `(\w+)` \| ", page.partition("| verdict |")[2].partition("##")[0])
    assert tuple(rows) == VERDICTS
    assert MAX_PARTIAL == MAX_REJECTED == 3
    assert page.count("three times, then `stop`") == 3


def shell(folder: Path) -> dict[str, str]:
    """An environment in which `passdown` is this one."""
    program = folder / "bin" / "passdown"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {forked_python()} -m passdown "$@"\n', "utf-8")
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src")}


def ran(folder: Path, *command: str, code: int = 0) -> str:
    done = subprocess.run(
        command, cwd=folder, env=shell(folder), capture_output=True, text=True, check=False
    )
    shutil.rmtree(folder / "bin")
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for path in EXAMPLES.iterdir():
        shutil.copy(path, tmp_path)
    return tmp_path


def test_the_example_prints_what_the_page_says(folder: Path) -> None:
    """File and commands are those of the folder of examples."""
    example = (EXAMPLES / "build.yaml").read_text("utf-8")
    assert block("yaml") == example
    assert f"```yaml\n{example}```" in (ROOT / "README.md").read_text("utf-8")
    assert block("sh") == (EXAMPLES / "build.sh").read_text("utf-8")
    printed = ran(folder, "sh", "-e", "build.sh")
    timeless = re.sub(r"(?m)^ +[0-9.]+s  ", "    …s  ", printed)
    timeless = re.sub(r"\([0-9.]+ s, [0-9,]+ tokens", "(… s, … tokens", timeless)
    assert block("text") in timeless
    assert re.search(r"R-1  build  T-1   completed  review \(2\)", printed)
    assert "+ 50" in (folder / "shop" / "prices.py").read_text("utf-8")


def test_the_example_with_branches_reviews_and_a_gate_runs(folder: Path) -> None:
    """Side by side, past a program that fails, over a review by an agent, to a person."""
    passdown_ = (forked_python(), "-m", "passdown")
    ran(folder, *passdown_, "init")
    ran(folder, *passdown_, "task", "new", "T-1", "--title", "Ship", "--agent", "lead")
    ran(folder, *passdown_, "run", "ship.toml", "--task", "T-1", "--no-wait", code=1)
    ran(folder, *passdown_, "gate", "approve", "T-1#k1", "--by", "kim")
    ran(folder, *passdown_, "run", "--resume", "R-1")
    with passdown.open(str(folder)) as ws:
        run = Runs(ws).get("R-1")
    assert run.status == "completed"
    assert sorted((t.leg, t.kind, t.verdict or t.outcome) for t in run.legs.values()) == [
        ("code", "budget_review", "continue"),
        ("code", "leg", "completed"),
        ("code", "leg", "partial"),
        ("code", "leg", "partial"),
        ("lint", "leg", "error"),
        ("plan", "leg", "completed"),
        ("ship", "leg", "completed"),
        ("words", "leg", "completed"),
    ]


def test_the_example_with_coding_agents_is_a_relay() -> None:
    relay = read_relay((EXAMPLES / "coding-agents.yaml").read_text("utf-8"))
    assert relay.agents["coder"].review_by == "planner"
    assert relay.legs["review"].then[0].otherwise == ("wait",)


def test_the_program_on_the_page_runs(folder: Path) -> None:
    """As it stands, in a process of its own."""
    program = (
        "import passdown\nws = passdown.open('.')\n"
        "ws.create_task('T-1', title='x', agent='kim')\n"
        f"text = open('build.yaml').read()\n{block('python')}"
    )
    assert ran(folder, forked_python(), "-c", program) == "completed\n"

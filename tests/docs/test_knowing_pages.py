"""The pages on search and knowledge show what happens."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from passdown.cli.search import AUDIT_FAULTS, AUDIT_FINDINGS
from passdown.core.graph import NODE_TYPES, RELATIONS
from passdown.core.index_entries import FINDABLE_KINDS
from passdown.knowledge.audit import FINDINGS
from passdown.search import embedders
from tests.processes import forked_python

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


def block(name: str, language: str) -> str:
    match = re.search(rf"```{language}\n(.*?)```", page(name), re.DOTALL)
    assert match is not None, (name, language)
    return match[1]


def settled(text: str) -> str:
    """Output without what differs from run to run: times and scores, which the page leaves out."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "TIME", text)
    return re.sub(r"score [0-9.e-]+", "score …", text)


@pytest.mark.parametrize("name", ["recall.md", "knowledge.md"])
def test_the_commands_of_the_page_print_what_the_page_says(name: str, tmp_path: Path) -> None:
    """Its lines come last; before them are the answers to what was written."""
    python = f'"{forked_python()}" -m passdown'
    script = re.sub(r"(?m)^passdown ", lambda _: f"{python} ", block(name, "sh"))
    environment = {n: v for n, v in os.environ.items() if not n.startswith("PASSDOWN_EMBEDDER")}
    done = subprocess.run(
        ["sh", "-e", "-c", script],
        cwd=tmp_path,
        env={**environment, "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    recorded, _, shown = settled(done.stdout).partition(settled(block(name, "text")))
    made, mark, rest = recorded.partition("recorded,")
    assert made.startswith("created a workspace\n")
    assert {line.partition(",")[0] for line in (mark + rest).splitlines()} == {"recorded"}
    assert shown == ""


def test_the_pages_name_every_kind_type_relation_and_variable() -> None:
    """Nothing that can be asked for is left out."""
    recall, knowledge = page("recall.md"), page("knowledge.md")
    for word in FINDABLE_KINDS:
        assert word.replace("_", " ") in recall.lower(), word
    for word in (*NODE_TYPES, *RELATIONS):
        assert re.search(rf"\b{word}\b", knowledge), word
    for name in (embedders.VARIABLE, embedders.URL_VARIABLE, embedders.KEY_VARIABLE):
        assert f"`{name}`" in recall, name


def test_the_findings_of_an_audit_have_one_name_everywhere() -> None:
    """The page's table, the JSON and the text; all but what nobody was told decide the exit."""
    table = re.findall(r"(?m)^\| `(\w+)` \|", page("knowledge.md").partition("passdown audit")[2])
    assert set(table) == set(FINDINGS) == set(AUDIT_FINDINGS)
    assert set(FINDINGS) - set(AUDIT_FAULTS) == {"never_recalled"}

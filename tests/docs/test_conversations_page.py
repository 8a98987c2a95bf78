"""The page on conversations shows what happens."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from passdown.relay.conversations import Conversation, approve, ask, review
from passdown.relay.prompts import PLACEHOLDERS, REQUESTS

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "conversations.md").read_text("utf-8")
EXAMPLE = ROOT / "docs" / "examples" / "conversations.py"


def block(language: str) -> str:
    match = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert match is not None, language
    return match[1]


@pytest.mark.promise("S4-34")
def test_the_example_prints_what_the_page_says(tmp_path: Path) -> None:
    """The example is its file, and the reviewer keeps to what it said."""
    assert block("python") == EXAMPLE.read_text("utf-8")
    result = subprocess.run(
        [sys.executable, str(EXAMPLE)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert result.stdout == block("text")


def test_every_template_and_placeholder_is_on_the_page() -> None:
    for name in PLACEHOLDERS:
        assert f"`{name}.md`" in PAGE
    rows = (("system", "system"), ("leg", "leg"), *(("requests", each) for each in REQUESTS))
    for row, name in rows:
        listed = re.search(rf"(?m)^\| {row} \| (.*) \|$", PAGE)
        assert listed is not None
        assert tuple(re.findall(r"`(\w+)`", listed[1])) == PLACEHOLDERS[name]


@pytest.mark.parametrize(
    "called", [review, ask, approve, *(getattr(Conversation, n) for n in ("add", "messages"))]
)
def test_the_calls_of_the_page_have_these_parameters(called: Any) -> None:
    found = re.search(rf"`{called.__name__}\((.*?)\)`", PAGE)
    assert found is not None
    listed = [part.strip(" ?") for part in found[1].split(",")]
    known = [name for name in inspect.signature(called).parameters if name != "self"]
    assert [name for name in known if name in listed] == listed

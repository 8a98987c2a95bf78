"""The pictures of README: the story of its commands, as a browser shows it.

`python -m tests.interfaces.dashboard.test_pictures` takes them again.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from tests.interfaces.dashboard.conftest import QUICK, opened_page
from tests.serving import served

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[3]
PICTURES = ROOT / "docs" / "pictures"
PAGES = {"attention": "/", "task": "/tasks/T-1"}
SIZE = (1200, 640)


def story(root: Path) -> None:
    """README's story, and a handoff that waits for a person."""
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    script = ROOT / "docs" / "examples" / "story.sh"
    environment = {**os.environ, "PATH": path, "PASSDOWN_AGENT": "kim"}
    subprocess.run(
        ["sh", "-e", str(script)], cwd=root, env=environment, check=True, capture_output=True
    )
    with passdown.open(str(root), settings=QUICK) as ws:
        ws.create_task("T-3", title="Prices with tax", agent="planner")
        ws.hand_off(
            task="T-3",
            from_agent="coder",
            to_agent="releaser",
            outcome="partial",
            summary="Both tests pass. Whether half a cent goes up is for a person to say.",
            suggested_next_steps=["Release it"],
            blockers=[
                {
                    "blocker": "Half a cent goes up. Is that the law here?",
                    "impact": "Every invoice with an odd cent",
                    "requires_human": True,
                }
            ],
            questions=["Which tax office decides?"],
        )
        ws.record_gate("T-1", agent="tester", name="lint", passed=False, detail="2 unused imports")


def pictures(browser: Any, root: Path, target: Path) -> None:
    """A picture of each page."""
    width, height = SIZE
    with (
        passdown.open(str(root), settings=QUICK) as ws,
        served(ws) as server,
        opened_page(browser, server) as page,
    ):
        page.set_viewport_size({"width": width, "height": height})
        for name, path in PAGES.items():
            page.goto(server.url + path)
            page.wait_for_selector(".loading", state="detached")
            page.wait_for_selector("#live[data-state=live]")
            if name == "task":
                page.wait_for_selector("#brief-text:has-text('T-1')")
            else:
                page.keyboard.press("j")
            page.screenshot(path=str(target / f"{name}.png"))


def size_of(picture: Path) -> tuple[int, int]:
    width, height = struct.unpack(">II", picture.read_bytes()[16:24])
    return width, height


@pytest.mark.promise("W-23")
def test_the_pictures_of_readme_are_those_of_its_story(browser: Any, tmp_path: Path) -> None:
    """Every command of the story works, each page shows what it is about, and README has it."""
    root = tmp_path / "shop"
    root.mkdir()
    story(root)
    pictures(browser, root, tmp_path)
    readme = (ROOT / "README.md").read_text("utf-8")
    for name in PAGES:
        assert f"docs/pictures/{name}.png" in readme
        assert size_of(PICTURES / f"{name}.png") == size_of(tmp_path / f"{name}.png") == SIZE


def main(need: Callable[[str], str | None] = shutil.which) -> None:
    """Take the pictures."""
    from playwright.sync_api import sync_playwright

    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as running:
        root = Path(folder) / "shop"
        root.mkdir()
        story(root)
        browser = running.chromium.launch(executable_path=need("chromium"), args=["--no-sandbox"])
        pictures(browser, root, PICTURES)
        browser.close()


if __name__ == "__main__":
    main()

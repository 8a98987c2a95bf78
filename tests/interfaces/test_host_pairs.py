"""From a repository to the second session, in another host: install, init, a session, a session.

The first session reaches its limit in the middle of the work, so nobody hands anything off. The
hosts are the real ones, from npm, with a script for a model.
"""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.interfaces.real_hosts import PACKAGES, RealHost
from tests.interfaces.scripted_model import DONE, LIMIT, Call, served

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.interfaces.running import Run

PAIRS = list(itertools.permutations(PACKAGES, 2))
QUICK = ("claude", "codex")

pytestmark = pytest.mark.timeout(900)


README = Path(__file__).resolve().parent.parent.parent / "README.md"


def know_each_other(first: RealHost, second: RealHost, cli: Run) -> str:
    """Run the four commands, and return what the second session was told.

    The first of them, the installation, was done for all tests.
    """
    cli("init", "--host", f"{first.name},{second.name}")
    decision = {"summary": "Plain HTML", "rationale": "no build step"}
    calls = (Call("decide", decision), first.shell("echo 1 > form.py"), first.todo("Add a button"))
    with served(*calls, has_limit=True) as model:
        ended = first.prompt("Draw the login form", model.url)
        assert ended.code, ("it ended in the middle", ended.text, model.offered[-1])
        assert LIMIT in ended.text or "usage limit" in ended.text
    with served() as model:
        ended = second.prompt("Go on", model.url)
        assert (ended.code, DONE in ended.text) == (0, True), ended.text
        for known in ("Draw the login form", "form.py", "Plain HTML", "no build step"):
            assert known in model.heard, f"{known}: done or decided in {first.name}"
        assert "Add a button" in model.heard, f"left in {first.name}"
    with open(first.project / ".passdown/logs/hooks.log", encoding="utf-8") as log:
        assert '"level": "fault"' not in log.read()
    return model.heard


@pytest.fixture
def hosts(
    project: Path, tmp_path: Path, need_program: Callable[[str], str]
) -> Callable[[str], RealHost]:
    shutil.rmtree(project / ".passdown")
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    return lambda name: RealHost(name, project, tmp_path / f"home-{name}", need_program)


@pytest.mark.promise("H-18")
def test_a_session_in_another_host_knows_what_the_last_one_left(
    hosts: Callable[[str], RealHost], cli: Run
) -> None:
    heard = know_each_other(hosts(QUICK[0]), hosts(QUICK[1]), cli)
    shown = re.search(r"```markdown\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert shown is not None
    begin = json.dumps(shown[1].rstrip(), ensure_ascii=False)[1:-1]
    pattern = re.escape(begin).replace("…", r"[^\n]+?")
    assert re.search(pattern, heard), "README shows what the second session starts with"


@pytest.mark.soak
@pytest.mark.promise("H-18")
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_every_pair_of_hosts_knows_what_the_other_left(
    hosts: Callable[[str], RealHost], cli: Run, first: str, second: str
) -> None:
    know_each_other(hosts(first), hosts(second), cli)

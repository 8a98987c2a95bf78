"""Bundles that unpack to much: refused by default, and never held in memory when they are let in.

Each import runs in a process of its own, since what a process once held shows until it ends.
"""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

import passdown
from passdown import Settings
from passdown.ledger.bundles import ALWAYS_BYTES, MAX_RATIO
from tests.interfaces.repositories import run

if TYPE_CHECKING:
    from pathlib import Path

QUICK = Settings(durability="normal", embedder="none")
MIB = 1 << 20

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the system tells peaks in /proc")

_IMPORT = """
import json, sys
import passdown
from passdown import Settings
with passdown.open(sys.argv[2], settings=Settings(durability="normal", embedder="none")) as ws:
    code = ""
    try:
        ws.maintenance.import_bundle(sys.argv[1], max_unpacked=int(sys.argv[3]) or None)
    except passdown.errors.InvalidInput as error:
        code = error.problems[0].code
    tasks = len(ws.tasks())
with open("/proc/self/status") as file:  # what getrusage says includes the parent's
    peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
print(json.dumps({"code": code, "tasks": tasks, "peak": peak << 10}))
"""


def imported(bundle: Path, store: Path, max_unpacked: int = 0) -> dict[str, Any]:
    """What came of an import in a process of its own, and the most memory that it had."""
    store.mkdir(exist_ok=True)
    arguments = [str(bundle), str(store), str(max_unpacked)]
    done = subprocess.run(
        [sys.executable, "-c", _IMPORT, *arguments], capture_output=True, check=True, timeout=240
    )
    return json.loads(done.stdout)


def exported(folder: Path, tasks: int) -> Path:
    """A bundle of tasks with 2 MiB of metadata each, which compresses well and isn't indexed."""
    folder.mkdir()
    target = folder / "large.passdown"
    with passdown.open(str(folder), settings=QUICK) as ws:
        for number in range(tasks):
            task = f"T-{number}"
            ws.create_task(task, title="Long", agent="planner")
            metadata = {f"part {place}": "because " * 8_000 for place in range(32)}
            ws.hand_off({"task": task, "outcome": "completed", "metadata": metadata})
        ws.maintenance.export(str(target))
    return target


@pytest.mark.promise("P-7", "M-10")
def test_a_bomb_of_empty_lines_costs_nothing(tmp_path: Path) -> None:
    """A file of 200 KB that unpacks to 200 MiB is refused, also by who allows any size."""
    bomb = tmp_path / "bomb.passdown"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", b'{"schema": "passdown/bundle/1"}')
        with archive.open("records.jsonl", "w") as member:
            for _ in range(200):
                member.write(b"\n" * MIB)
    assert bomb.stat().st_size < 300_000
    usual = imported(bomb, tmp_path / "usual")
    assert (usual["code"], usual["tasks"]) == ("too_large", 0)
    allowed = imported(bomb, tmp_path / "allowed", 1 << 40)
    assert (allowed["code"], allowed["tasks"]) == ("invalid_json", 0)
    assert max(usual["peak"], allowed["peak"]) < 100 * MIB


@pytest.mark.promise("P-7", "M-10")
def test_what_is_imported_is_not_held_in_memory(tmp_path: Path) -> None:
    """Eight times the records take no more memory; by default what swells so much is refused."""
    small, large = exported(tmp_path / "small", 4), exported(tmp_path / "large", 32)
    assert large.stat().st_size * MAX_RATIO < 60 * MIB
    refused = imported(large, tmp_path / "refused")
    assert (refused["code"], refused["tasks"]) == ("too_large", 0)
    few = imported(small, tmp_path / "few", 1 << 40)
    many = imported(large, tmp_path / "many", 1 << 40)
    assert (few["tasks"], many["tasks"]) == (4, 32)
    assert many["peak"] - few["peak"] < 30 * MIB


@pytest.mark.promise("M-10")
def test_the_refusal_says_how_large_and_what_to_do(tmp_path: Path) -> None:
    """On the command line: what it unpacks to, what is allowed, and the option that allows it."""
    bundle = exported(tmp_path / "here", 12)
    assert bundle.stat().st_size * MAX_RATIO < 24 * MIB
    assert ALWAYS_BYTES < 24 * MIB
    there = tmp_path / "there"
    there.mkdir()
    run(there, "init")
    refused = run(there, "import", str(bundle))
    assert refused.code == 1
    most = max(ALWAYS_BYTES, bundle.stat().st_size * MAX_RATIO)
    assert "it unpacks to" in refused.err
    assert "[too_large]" in refused.err
    assert f"expected at most {most // 1_000_000:,}," in refused.err
    assert "--max-unpacked BYTES" in refused.err
    assert run(there, "import", str(bundle), "--max-unpacked", "100000000").code == 0
    assert "T-3" in run(there, "task", "list").out

"""The page on PostgreSQL: its commands run, on a real server."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.faults.tools import ROOT, worker_environment

PAGE = (ROOT / "docs" / "postgresql.md").read_text("utf-8")


def test_the_commands_of_the_page_run(tmp_path: Path, postgres: str) -> None:
    found = re.search(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    assert found
    folder = tmp_path / "project"
    folder.mkdir()
    # The server of the tests is reached by a socket, so its address has a query already.
    script = found[1].replace("?workspace=", "&workspace=")
    environment = {
        **worker_environment(),
        "PASSDOWN_DATABASE": postgres,
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
    }
    done = subprocess.run(
        ["sh", "-euc", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert "JWT in a cookie" in done.stdout
    assert (tmp_path / "shop-backup.db").exists()
    assert not (folder / ".passdown" / "ledger.db").exists()

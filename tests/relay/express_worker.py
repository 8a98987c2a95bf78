"""A process that carries an express item out and kills itself on the way.

python -m tests.relay.express_worker OPTIONS: `at` counts the calls of git and the records that are
written; `when` is "before" (git has just been started, the record is not there yet) or "after".
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import passdown
from passdown import Settings
from passdown.relay.express import carry_out
from passdown.workspace.streams import WorkspaceStreams
from tests.faults.tools import ROOT, worker_environment
from tests.processes import Process

if TYPE_CHECKING:
    from collections.abc import Callable

QUICK = Settings(durability="normal", embedder="none")


def start(**options: Any) -> subprocess.Popen[str]:
    return Process(
        [sys.executable, "-m", "tests.relay.express_worker", json.dumps(options)],
        cwd=ROOT,
        env=worker_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


class Fuse:
    """Ends this process without warning at one of many calls."""

    def __init__(self, at: int, when: str) -> None:
        self.calls = 0
        self._at = at
        self._when = when

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **options: Any) -> Any:
            self.calls += 1
            is_due = self.calls == self._at
            if is_due and self._when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            result = function(*arguments, **options)
            if is_due:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return called


def main(folder: str, item: dict[str, Any], at: int = 0, when: str = "after") -> None:
    fuse = Fuse(at, when)
    with passdown.open(folder, settings=QUICK) as ws:
        subprocess.Popen.communicate = fuse.around(subprocess.Popen[bytes].communicate)
        WorkspaceStreams.add = fuse.around(WorkspaceStreams.add)
        done = carry_out(ws, item)
        found = {"commit": done.result.get("commit", ""), "calls": fuse.calls}
        sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))

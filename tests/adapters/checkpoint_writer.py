"""A writer in a process of its own: puts one checkpoint after each of many parents.

Prints for each parent whether it was recorded or refused.
"""

from __future__ import annotations

import sys
from typing import Any

import passdown
from passdown.adapters.langgraph.checkpoints import LedgerSaver
from passdown.errors import Conflict


def main(folder: str, writer: str, count: int) -> None:
    with passdown.open(folder) as workspace:
        saver = LedgerSaver(workspace)
        for number in range(count):
            parent: Any = {
                "configurable": {
                    "thread_id": f"thread-{number}",
                    "checkpoint_ns": "",
                    "checkpoint_id": "parent",
                }
            }
            checkpoint: Any = {
                "v": 4,
                "id": f"child-of-{writer}",
                "ts": "",
                "channel_values": {"who": writer},
                "channel_versions": {"who": 1},
                "versions_seen": {},
                "updated_channels": None,
            }
            try:
                saver.put(parent, checkpoint, {"source": "loop", "step": 1}, {"who": 1})
                sys.stdout.write("recorded\n")
            except Conflict:
                sys.stdout.write("refused\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))

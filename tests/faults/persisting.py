"""A process that writes whatever happens: `python -m tests.faults.persisting OPTIONS`.

An error is answered by the same write with the same key, until it is acknowledged. It ends when a
file says so, and tells how often it had to try again.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import sys
import time
from typing import Any

import passdown
from passdown import Settings
from passdown.errors import StoreError
from passdown.store.postgres.connections import WatchedConnection
from tests.faults.tools import append_line, how_of, write


def opened(options: dict[str, Any]) -> passdown.Workspace:
    """The workspace, as soon as it can be reached."""
    durability = options.get("durability", "full")
    settings = Settings(lock_timeout_s=5, durability=durability, embedder="none")
    after_stop = 0
    while True:
        try:
            return passdown.open(options["url"], settings=settings)
        except StoreError:
            after_stop += os.path.exists(options["stop"])
            if after_stop > 20:  # nothing is cut any more by then
                raise
            time.sleep(0.05)


def main(options: dict[str, Any]) -> None:
    """Write until told to stop."""
    WatchedConnection.silence_s = options.get("silence_s", 1.0)
    os.chdir(options["folder"])
    rng = random.Random(options["name"])
    counts = {"acknowledged": 0, "repeated": 0, "unknown": 0, "ended": 0}
    ws = opened(options)
    for number in itertools.count():
        key = f"{rng.choice('dh')}-{options['name']}-{number}"
        task = rng.choice(options["tasks"])
        while True:
            try:
                ack = write(ws, task, key, how_of(key))
                break
            except StoreError as error:
                counts["repeated"] += 1
                counts["unknown"] += "unknown" in error.next_step
                if os.path.exists(options["stop"]) and counts["ended"] > 50:
                    raise
                counts["ended"] += os.path.exists(options["stop"])
                time.sleep(0.1)
        append_line(options["acks"], list(ack))
        counts["acknowledged"] += 1
        if os.path.exists(options["stop"]):
            break
    ws.close()
    sys.stdout.write(json.dumps(counts) + "\n")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

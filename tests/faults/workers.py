"""The processes of the fault tests: `python -m tests.faults.workers JOB OPTIONS`.

A worker says what it did in one line of JSON on its output, or on a file of acknowledgements that
lies outside the workspace. A typed error of Passdown is a result like another; anything else is a
traceback.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import sys
import threading
import time
from typing import Any

import passdown
from passdown.core.settings import Settings
from passdown.errors import Conflict, PassdownError, StoreError
from tests.faults.tools import append_line, how_of, write

Options = dict[str, Any]


def say(**result: Any) -> None:
    """The worker's result."""
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()


def loop(options: Options) -> None:
    """Write until killed; acknowledge after each write, or (the control) before it."""
    rng = random.Random(options["seed"])
    tasks: list[str] = options["tasks"]
    with passdown.open(options["folder"]) as ws:
        for number in itertools.count():
            task = rng.choice(tasks)
            kind = rng.choice("dh")
            key = f"{kind}-{options['name']}-{number}"
            append_line(options["tries"], [task, key, 0, ""])
            if options.get("ack_first"):
                append_line(options["acks"], [task, key, 0, ""])
                write(ws, task, key, how_of(key))
                continue
            append_line(options["acks"], list(write(ws, task, key, how_of(key))))


def some(options: Options) -> None:
    """Write a fixed number of times to one task and say how that went."""
    wait_until(options.get("at", 0.0))
    with passdown.open(options["folder"]) as ws:
        if options.get("create"):
            ws.create_task(options["task"], title="made by a worker", agent="planner")
        for number in range(options["count"]):
            key = f"h-{options['name']}-{number}"
            append_line(options["acks"], list(write(ws, options["task"], key)))
    say(done=options["count"])


def first_open(options: Options) -> None:
    """Open a store at an agreed moment and write to it: to an own task and to the common one."""
    from tests.faults.tools import handoff_for

    handoff_for("T-1", "imports are done before the moment")
    wait_until(options["at"])
    with passdown.open(options["folder"]) as ws:
        name = options["name"]
        ws.create_task(f"own-{name}", title="own", agent="planner")
        ws.decide(agent="coder", summary=f"common {name}", rationale="x", key=f"d-{name}")
    say(ok=True)


def compare_and_set(options: Options) -> None:
    """Write from the version that was read; when refused, read again and write again."""
    refused = 0
    with passdown.open(options["folder"]) as ws:
        for number in range(options["count"]):
            key = f"h-{options['name']}-{number}"
            while True:
                seen = ws.task(options["task"]).version
                try:
                    done = ws.decide(
                        task=options["task"],
                        agent="coder",
                        summary=f"{key} after {seen}",
                        rationale="x",
                        expect_version=None if options.get("blind") else seen,
                    )
                except Conflict as error:
                    refused += names_both(error, seen)
                    continue
                append_line(options["acks"], [key, seen, done.version, done.digest])
                break
    say(refused=refused)


def names_both(error: Conflict, seen: int) -> int:
    """1 for a refusal that names the version it was made from and the newer one that is stored."""
    words = str(error)
    assert error.expected == seen < error.actual, words
    assert f"version {error.expected}" in words, words
    assert f"version {error.actual}" in words, words
    return 1


def hold(options: Options) -> None:
    """Take the write lock, say so, and stop in the middle of the transaction."""
    from passdown.store.sqlite import SqliteStore

    store = SqliteStore(options["path"])
    with store.writing(["task/T-1"]):
        say(holding=os.getpid())
        if options.get("stop", True):
            os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(60)


def threads(options: Options) -> None:
    """Many threads on one workspace, half of them on a task of their own."""
    failures: list[str] = []
    with passdown.open(options["folder"]) as ws:

        def work(number: int) -> None:
            try:
                task = "T-1" if number % 2 else f"T-{number}"
                for turn in range(options["count"]):
                    done = write(ws, task, f"h-{number}-{turn}")
                    append_line(options["acks"], list(done))
                    ws.state(task)
            except Exception as error:  # noqa: BLE001
                failures.append(repr(error))

        workers = [threading.Thread(target=work, args=(n,)) for n in range(options["threads"])]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    say(failures=failures)


def fork(options: Options) -> None:
    """Write with one workspace object on both sides of a fork, at the same time."""
    with passdown.open(options["folder"]) as ws:
        write(ws, "T-1", "h-before")
        child = os.fork()
        name = "parent" if child else "child"
        status = 1
        try:
            for number in range(options["count"]):
                append_line(options["acks"], list(write(ws, "T-1", f"h-{name}-{number}")))
            status = 0
        finally:
            if not child:
                os._exit(status)
        _, ended = os.waitpid(child, 0)
        append_line(options["acks"], list(write(ws, "T-1", "h-after")))
    say(child=os.waitstatus_to_exitcode(ended))


def busy_thread(options: Options) -> None:
    """One thread holds the write lock while another gives up on it; the lock must still hold."""
    from passdown.store.sqlite import SqliteStore

    store = SqliteStore(options["path"], timeout_s=0.2)
    told: list[str] = []

    def give_up() -> None:
        try:
            with store.writing(["task/T-1"]):
                told.append("got in")
        except StoreError as error:
            told.append(str(error))

    with store.writing(["task/T-1"]):
        other = threading.Thread(target=give_up)
        other.start()
        other.join()
        say(told=told)
        sys.stdin.readline()


def disk_full(options: Options) -> None:
    """Write until the store refuses; say what it said."""
    with passdown.open(options["folder"]) as ws:
        for number in itertools.count():
            try:
                done = write(ws, "T-1", f"h-{number}")
            except PassdownError as error:
                say(error=type(error).__name__, message=str(error), key=f"h-{number}")
                return
            append_line(options["acks"], list(done))


def one(options: Options) -> None:
    """One operation, for the system call tests. Acknowledges on a file outside the workspace."""
    try:
        STEPS[options["step"]](options)
    except PassdownError as error:
        append_line(options["acks"], ["error", type(error).__name__, 0, str(error)[:200]])
        sys.exit(3)


def one_open(options: Options) -> None:
    """The very first open of a folder."""
    mark_start()
    with passdown.open(options["folder"]) as ws:
        done = ws.create_task("T-1", title="first", agent="planner", key="h-first")
        append_line(options["acks"], ["T-1", "h-first", done.version, done.digest])


def one_hand_off(options: Options) -> None:
    """One handoff in a store that has some; its state file is synced, as no other step's is."""
    settings = Settings(lock_timeout_s=2.0, kept_versions=2, state_sync=True)
    mark_start()
    ws = passdown.open(options["folder"], settings=settings)
    append_line(options["acks"], list(write(ws, "T-1", "h-one")))


def one_backup(options: Options) -> None:
    """One backup, beside the workspace but inside the watched folder."""
    with passdown.open(options["folder"]) as ws:
        mark_start()
        result = ws.maintenance.backup(os.path.join(options["folder"], "copy.db"))
        append_line(options["acks"], ["backup", str(result.ok), result.records, ""])


def one_import(options: Options) -> None:
    """One import of a bundle that lies inside the watched folder."""
    with passdown.open(options["folder"]) as ws:
        mark_start()
        result = ws.maintenance.import_bundle(os.path.join(options["folder"], "other.zip"))
        append_line(options["acks"], ["import", "", sum(result.added.values()), ""])


def one_decide(options: Options) -> None:
    """One decision, in a workspace that is closed in order."""
    with passdown.open(options["folder"]) as ws:
        mark_start()
        append_line(options["acks"], list(write(ws, "T-1", "d-one", "decide")))


def one_export(options: Options) -> None:
    """One bundle, beside the workspace but inside the watched folder."""
    with passdown.open(options["folder"]) as ws:
        mark_start()
        count = ws.maintenance.export(os.path.join(options["folder"], "bundle.zip"))
        append_line(options["acks"], ["export", "", count, ""])


def one_reindex(options: Options) -> None:
    """Every derived row and state file made again."""
    with passdown.open(options["folder"]) as ws:
        mark_start()
        append_line(options["acks"], ["reindex", "", ws.maintenance.reindex().records, ""])


STEPS = {
    "open": one_open,
    "hand_off": one_hand_off,
    "backup": one_backup,
    "import": one_import,
    "decide": one_decide,
    "export": one_export,
    "reindex": one_reindex,
}


def naive(options: Options) -> None:
    """The control: swallows errors, acknowledges before the commit, replaces its file in place."""
    import sqlite3

    mark_start()
    append_line(options["acks"], ["T-1", "h-one", 0, ""])
    try:
        db = sqlite3.connect(os.path.join(options["folder"], ".passdown", "ledger.db"))
        with db:
            db.execute("UPDATE streams SET position = position + 1")
            db.execute(
                "INSERT INTO records (stream, position, at, author, kind, key, previous, digest, "
                "body) SELECT stream, position + 1, at, author, kind, 'h-one', digest, 'none', "
                "body FROM records ORDER BY seq DESC LIMIT 1"
            )
    except Exception:  # noqa: BLE001
        pass


def mark_start() -> None:
    """A system call that shows in a trace where the operation begins."""
    os.path.exists("/passdown-operation-begins")


def wait_until(moment: float) -> None:
    """Sleep until just before a moment, then spin: several processes go on at the same instant."""
    while (left := moment - time.time()) > 0:
        time.sleep(max(left - 0.002, 0))


JOBS = {
    "loop": loop,
    "some": some,
    "first_open": first_open,
    "compare_and_set": compare_and_set,
    "hold": hold,
    "threads": threads,
    "fork": fork,
    "busy_thread": busy_thread,
    "disk_full": disk_full,
    "one": one,
    "naive": naive,
}

if __name__ == "__main__":
    JOBS[sys.argv[1]](json.loads(sys.argv[2]))

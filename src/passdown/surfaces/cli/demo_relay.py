"""The first chapters of `demo`: a repository, a relay, and its run with all that happens in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

from passdown.errors import PassdownError
from passdown.surfaces.cli.demo_briefs import write_profiles
from passdown.surfaces.cli.printing import line, verbatim

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.model.run import Run
    from passdown.surfaces.cli.demo import Stage
    from passdown.surfaces.cli.relay_progress import Progress

_FILES = os.path.join(os.path.dirname(__file__), "demo_files")
_LEARNED = '[{"id": "Prices", "type": "component", "summary": "Prices with tax, in cents"}]\n'
_EXPRESS = "express knowledge learned.json --by kim --wait --reason".split()
_WHY_EXPRESS = "Say where prices are"
_PATIENCE_S = 20.0
_REASON = "Yes, half up; checked with the tax office"
# Set while git runs a hook; they would point it at another repository.
_FOREIGN = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR")
_OWN = ("PASSDOWN_STORE", "PASSDOWN_AGENT", "PASSDOWN_RELAY_URL", "PASSDOWN_PR_COMMAND")


def check_programs() -> None:
    """Refuse to begin where something is missing, and say what."""
    if shutil.which("git") is None:
        raise PassdownError(
            "the demonstration builds a small git repository, and git is not installed",
            next_step="Install git, then run it again.",
            code="missing_program",
        )
    import passdown.relay.running  # noqa: F401  # pyright: ignore[reportUnusedImport]


def git(stage: Stage, *arguments: str) -> str:
    """What git says, in the project's repository, with the user's settings left out of it."""
    environment = {name: text for name, text in os.environ.items() if name not in _FOREIGN}
    identity = ("-c", "user.name=planner", "-c", "user.email=planner@passdown.invalid")
    plain = ("-c", "commit.gpgsign=false", "-c", f"core.hooksPath={os.devnull}")
    done = subprocess.run(
        ["git", *identity, *plain, *arguments],
        cwd=stage.root,
        env={**environment, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise PassdownError(f"git {arguments[0]} failed: {done.stderr.strip()}", code="git_failed")
    return done.stdout


def _prepare(stage: Stage) -> None:
    stage.chapter("A small repository, a task, and a relay of four agents")
    workspace = stage.workspace
    stage.write(".gitignore", ".passdown/\ncopy-*.db\n")
    stage.write("shop/__init__.py", "")
    stage.write("learned.json", _LEARNED)
    for name in ("relay.yaml", "agents.yaml"):
        with open(os.path.join(_FILES, name), encoding="utf-8") as file:
            stage.write(name, file.read())
    write_profiles(stage)
    git(stage, "init", "-q")
    git(stage, "symbolic-ref", "HEAD", "refs/heads/main")
    git(stage, "add", "-A")
    git(stage, "commit", "-q", "-m", "Start the shop")
    workspace.create_task(
        "T-1",
        title="Prices with tax",
        agent="planner",
        description="A function that adds tax to a price.",
        criteria=["19 % on 1.50 is 1.79", "no floating point anywhere"],
    )
    stage.types("cat relay.yaml")
    with open(os.path.join(stage.root, "relay.yaml"), encoding="utf-8") as file:
        for text in file.read().splitlines():
            line(text, 4)


def _play(stage: Stage) -> None:
    stage.chapter("The relay runs: real files, real commits, one round of changes, one person")
    from passdown.relay.running import Shown, Terms, run_here
    from passdown.relay.runs import Runs
    from passdown.surfaces.cli.relay_logging import logged
    from passdown.surfaces.cli.relay_progress import Progress, screen_for
    from passdown.surfaces.cli.relaying import print_start, relay_at
    from passdown.surfaces.cli.run_holding import held
    from passdown.surfaces.cli.run_views import print_standing, print_turns

    stage.types("passdown run relay.yaml --task T-1")
    relay = relay_at(os.path.join(stage.root, "relay.yaml"))
    run = Runs(stage.workspace).start(relay, "T-1", by="kim", lane="here")
    print_start(run)
    progress = Progress(screen_for(as_json=False))
    beside = _Beside(stage, progress)
    shown = Shown(progress.turn, beside.looks, progress.express)
    url = f"sqlite:///{os.path.join(stage.root, '.passdown', 'relay.db')}"
    with held(stage.workspace, run.run), logged(progress.say), progress.ticking():
        try:
            run = run_here(stage.workspace, run.run, terms=Terms(url=url), shown=shown)
        finally:
            beside.end()
    line()
    print_turns(run)
    print_standing(run, run.ended_at)
    stage.notes["run"] = run
    if run.status != "completed":
        raise PassdownError(f"the demonstration's relay {run.status}: {run.why}")


class _Beside:
    """What others do while the relay runs: each once, in a process of its own."""

    def __init__(self, stage: Stage, progress: Progress) -> None:
        self._stage = stage
        self._progress = progress
        self._begun: set[str] = set()
        self._threads: list[threading.Thread] = []

    def looks(self, run: Run) -> None:
        """Show a run, and do what is due in it: teach while code is written, answer the gate."""
        self._progress.run(run)
        if any(turn.leg == "code" for turn in run.open_legs):
            self._once("express", (*_EXPRESS, _WHY_EXPRESS))
        if run.status == "waiting" and not run.open_legs:
            gate = next(turn.gate for turn in run.legs.values() if turn.gate)
            answer = ("gate", "approve", gate, "--by", "kim", "--reason", _REASON)
            self._once("gate", answer)

    def end(self) -> None:
        """Wait for what was begun."""
        for thread in self._threads:
            thread.join()

    def _once(self, name: str, command: tuple[str, ...]) -> None:
        if name not in self._begun:
            self._begun.add(name)
            thread = threading.Thread(target=self._do, args=(command,))
            thread.start()
            self._threads.append(thread)

    def _do(self, command: tuple[str, ...]) -> None:
        import shlex

        self._progress.say(f"kim elsewhere $ passdown {shlex.join(command)}")
        own = {name: text for name, text in os.environ.items() if name not in _OWN}
        try:
            done = subprocess.run(
                [sys.executable, "-m", "passdown", *command],
                cwd=self._stage.root,
                env=own,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=_PATIENCE_S,
            )
        except subprocess.TimeoutExpired as error:
            self._progress.say(str(error))
            return
        for text in done.stdout.splitlines():
            self._progress.say(f"              {text}")


def history(stage: Stage) -> None:
    """Show what the agents committed."""
    stage.chapter("What is in git: the agents' commits, and the express update on its branch")
    stage.types("git log --all --graph --format='%h %an: %s'")
    for text in git(stage, "log", "--all", "--graph", "--format=%h %an: %s").splitlines():
        verbatim(f"    {text}")


RELAY_CHAPTERS: tuple[Callable[[Stage], None], ...] = (_prepare, _play)

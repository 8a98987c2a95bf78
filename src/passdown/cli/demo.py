"""`demo`: four scripted agents build a small program, offline, in a folder of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

from passdown.cli.output import counted, heading, labelled, line, verbatim
from passdown.cli.parsing import command
from passdown.errors import PassdownError

if TYPE_CHECKING:
    from collections.abc import Callable

    from passdown.cli.relays import Progress
    from passdown.cli.session import Session
    from passdown.relay.run import Run
    from passdown.workspace import Workspace


_LABEL_WIDTH = 10
_NEXT_COMMANDS = (
    "runs R-1",
    "log T-1",
    "brief T-1 --agent coder",
    "recall 'how is money counted?'",
    "agents --mermaid coder",
    "graph show --task T-1 --format svg --output graph.svg",
)


@command(
    "demo",
    "",
    "--keep ./passdown-demo",
    has_store=False,
    has_json=False,
    help={"keep": "DIR: a new folder; what was made stays there"},
)
def demo(_session: Session, *, keep: str | None = None) -> None:
    """Watch four agents build a small program, offline."""
    import tempfile

    check_programs()
    chapters = (*RELAY_CHAPTERS, *STORY_CHAPTERS)
    if keep:
        _refuse_existing(keep)
        Stage(os.path.abspath(keep)).play(chapters)
        line(f"Kept in {keep}. Look further:")
        line(f"cd {keep}", 2)
        for text in _NEXT_COMMANDS:
            line(f"passdown {text}", 2)
        return
    with tempfile.TemporaryDirectory(prefix="passdown-demo-") as folder:
        Stage(os.path.join(folder, "shop")).play(chapters)
    line("Look further: passdown demo --keep DIR keeps everything; docs/relay.md says how to write")
    line("a relay of your own agents. Without a relay:")
    for text in ("passdown init", "passdown help handoff", "passdown template"):
        line(text, 2)


def _refuse_existing(folder: str) -> None:
    from passdown.errors import InvalidInput, Problem

    if os.path.exists(folder):
        problem = Problem("keep", "exists", f"{folder} exists already", "a new folder")
        raise InvalidInput("the demonstration was not started", [problem])


class Stage:
    """Where the story is played: a project folder, its workspace, and a narrator."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.notes: dict[str, Any] = {}
        self._step = 0
        self._workspace: Workspace | None = None

    @property
    def workspace(self) -> Workspace:
        """The workspace; made when it is first needed."""
        if self._workspace is None:
            from passdown.workspace import init

            os.makedirs(self.root, exist_ok=True)
            self._workspace = init(self.root)
        return self._workspace

    def play(self, chapters: tuple[Callable[[Stage], None], ...]) -> None:
        """Play the chapters in order and close the workspace."""
        try:
            for chapter in chapters:
                chapter(self)
                line()
        finally:
            if self._workspace is not None:
                self._workspace.close()
                self._workspace = None

    def write(self, path: str, text: str) -> None:
        """Put a file into the project."""
        target = os.path.join(self.root, *path.split("/"))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w", encoding="utf-8") as file:
            file.write(text)

    def chapter(self, title: str) -> None:
        """Begin a numbered chapter."""
        self._step += 1
        heading(f"{self._step}. {title}")

    def types(self, command: str) -> None:
        """A command as a person would type it."""
        line(f"$ {command}", 2)

    def says(self, who: str, text: str) -> None:
        """What an agent does."""
        labelled(who, "cyan", text, 2, _LABEL_WIDTH)

    def good(self, text: str) -> None:
        """What came of it, when it is good."""
        labelled("ok", "green", text, 2, _LABEL_WIDTH)

    def found(self, text: str) -> None:
        """What verify found."""
        labelled("found", "red", text, 2, _LABEL_WIDTH)

    def tells(self, text: str) -> None:
        """Something to look at."""
        line(text, 2 + _LABEL_WIDTH)


_AGENTS = ("planner", "coder", "reviewer", "releaser")
_SWITCHES = 12
_PICTURE = "growth.svg"


def growth(stage: Stage) -> None:
    """Measure contexts over many switches, with one profile at a time and with all that came."""
    stage.chapter(f"{_SWITCHES} switches of agents: the context stays as long as one profile")
    from passdown.cli.switches import print_growth
    from passdown.workspace.growth import growth_picture, measure_growth

    agents = os.path.join(stage.root, "agents")
    found = measure_growth(agents, chain=_AGENTS, switches=_SWITCHES)
    print_growth(found)
    stage.write(_PICTURE, growth_picture(found))
    stage.tells("# is the context in tokens, . is what every profile so far would add up to")
    if found.kept:
        kept = found.kept
        stage.good(
            f"{kept.found} facts are in the last context, {kept.reachable} are one command away, "
            f"{len(kept.lost)} are lost"
        )
    stage.tells(f"{_PICTURE} in the folder of the demonstration shows it as a picture (--keep DIR)")


_DEMO_FILES = os.path.join(os.path.dirname(__file__), "demo_files")
_LEARNED = '[{"id": "Prices", "type": "component", "summary": "Prices with tax, in cents"}]\n'
_EXPRESS_COMMAND = "express knowledge learned.json --by kim --wait --reason".split()
_EXPRESS_REASON = "Say where prices are"
_COMMAND_TIMEOUT_S = 20.0
_GATE_REASON = "Yes, half up; checked with the tax office"
# Set while git runs a hook; they would point it at another repository.
_GIT_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR")
_OWN_VARIABLES = ("PASSDOWN_STORE", "PASSDOWN_AGENT", "PASSDOWN_RELAY_URL", "PASSDOWN_PR_COMMAND")


def check_programs() -> None:
    """Refuse to begin where something is missing, and say what."""
    if shutil.which("git") is None:
        raise PassdownError(
            "the demonstration builds a small git repository, and git is not installed",
            next_step="Install git, then run it again.",
            code="missing_program",
        )
    import passdown.relay.worker  # noqa: F401  # pyright: ignore[reportUnusedImport]


def git(stage: Stage, *arguments: str) -> str:
    """What git says, in the project's repository, with the user's settings left out of it."""
    environment = {name: text for name, text in os.environ.items() if name not in _GIT_VARIABLES}
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
    for name in ("relay.yaml", "agents.yaml", *(f"agents/{agent}.md" for agent in _AGENTS)):
        with open(os.path.join(_DEMO_FILES, *name.split("/")), encoding="utf-8") as file:
            stage.write(name, file.read())
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


def _run_relay(stage: Stage) -> None:
    stage.chapter("The relay runs: real files, real commits, one round of changes, one person")
    from passdown.cli.relays import (
        Progress,
        print_start,
        relay_at,
        relay_warnings,
        run_lock,
        screen_for,
    )
    from passdown.cli.runs import print_run_status, print_turns
    from passdown.relay.runs import Runs
    from passdown.relay.worker import EngineOptions, ProgressCallbacks, run_here

    stage.types("passdown run relay.yaml --task T-1")
    relay = relay_at(os.path.join(stage.root, "relay.yaml"))
    run = Runs(stage.workspace).start(relay, "T-1", by="kim", lane="here")
    print_start(run)
    progress = Progress(screen_for(as_json=False))
    beside = _SideCommands(stage, progress)
    callbacks = ProgressCallbacks(progress.turn, beside.looks, progress.express)
    url = f"sqlite:///{os.path.join(stage.root, '.passdown', 'relay.db')}"
    with run_lock(stage.workspace, run.run), relay_warnings(progress.say), progress.ticking():
        try:
            run = run_here(
                stage.workspace, run.run, options=EngineOptions(url=url), callbacks=callbacks
            )
        finally:
            beside.end()
    line()
    print_turns(run)
    print_run_status(run, run.ended_at)
    stage.notes["run"] = run
    if run.status != "completed":
        raise PassdownError(f"the demonstration's relay {run.status}: {run.why}")


class _SideCommands:
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
            self._once("express", (*_EXPRESS_COMMAND, _EXPRESS_REASON))
        if run.status == "waiting" and not run.open_legs:
            gate = next(turn.gate for turn in run.legs.values() if turn.gate)
            answer = ("gate", "approve", gate, "--by", "kim", "--reason", _GATE_REASON)
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
        own = {name: text for name, text in os.environ.items() if name not in _OWN_VARIABLES}
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
                timeout=_COMMAND_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired as error:
            self._progress.say(str(error))
            return
        for text in done.stdout.splitlines():
            self._progress.say(f"              {text}")


def show_commits(stage: Stage) -> None:
    """Show what the agents committed."""
    stage.chapter("What is in git: the agents' commits, and the express update on its branch")
    stage.types("git log --all --graph --format='%h %an: %s'")
    for text in git(stage, "log", "--all", "--graph", "--format=%h %an: %s").splitlines():
        verbatim(f"    {text}")


RELAY_CHAPTERS: tuple[Callable[[Stage], None], ...] = (_prepare, _run_relay)

_CHANGED_TEXT = "binary fractions can't hold a tenth, and sums drift"
_REQUEST_HEADING = "## What is asked of you"


def _messages_to(stage: Stage, agent: str) -> list[str]:
    """Everything that an agent was told in the run, as it is in the ledger."""
    from passdown.relay.messages import MESSAGE, conversation_stream
    from passdown.workspace.streams import WorkspaceStreams

    run = stage.notes["run"].run
    stream = conversation_stream(agent, f"{agent}.{run}", "T-1")
    bodies = [
        r.document() for r in WorkspaceStreams(stage.workspace).records(stream) if r.kind == MESSAGE
    ]
    messages = [body["message"] for body in bodies]
    return [message["content"] for message in messages if message["role"] == "user"]


def _show_faults(stage: Stage) -> None:
    stage.chapter("The coder's first handoff was faulty; it got every reason at once")
    faults = next(text for text in _messages_to(stage, "coder") if text.startswith("Your handoff"))
    stage.says("coder", "was told:")
    for text in faults.splitlines():
        line(text, 4)


def _show_brief(stage: Stage) -> None:
    run = stage.notes["run"]
    turn = next(t for t in run.legs.values() if (t.agent, t.visit) == ("reviewer", 2))
    stage.chapter("What the reviewer knew on its second visit: its brief")
    text = _messages_to(stage, "reviewer")[-1].partition(_REQUEST_HEADING)[0].strip()
    for part in text.splitlines():
        line(part, 4)
    measured = turn.measured
    stage.good(
        f"{measured['brief_tokens']} tokens of a budget of {run.relay.budget}; its whole context, "
        f"with its profile and what it said before: {measured['context_tokens']:,}"
    )


def _show_recall(stage: Stage) -> None:
    stage.chapter("Ask the past")
    question = "how is half a cent rounded?"
    stage.types(f"passdown recall '{question}'")
    kinds = ("gotcha", "decision")
    for answer in stage.workspace.recall(question, kinds=kinds, by_words=True, limit=2):
        line(f"{answer.address} {answer.kind} by {answer.agent}: {answer.title}", 4)


def _show_verify(stage: Stage) -> None:
    stage.chapter("Changes show: verify, a byte changed behind its back, an old copy put back")
    stage.types("passdown verify")
    from passdown.workspace import open as open_workspace

    workspace = stage.workspace
    old = os.path.join(stage.root, "copy-old.db")
    workspace.maintenance.backup(old)
    workspace.warn("T-1", agent="planner", text="Invoices need the tax rate of the day of sale")
    heads = workspace.maintenance.heads()
    found = workspace.verify()
    records, streams = counted(found.records, "record"), counted(found.streams, "stream")
    stage.good(f"{records} in {streams} are as they were written")
    changed = os.path.join(stage.root, "copy-changed.db")
    workspace.maintenance.backup(changed)
    with open(changed, "rb") as file:
        data = file.read()
    with open(changed, "wb") as file:
        # Everywhere: pages that are no longer in use may hold the text as well.
        file.write(data.replace(_CHANGED_TEXT.encode(), b"B" + _CHANGED_TEXT[1:].encode()))
    stage.tells("one byte of a decision's reason is changed in a copy of the database:")
    with open_workspace(changed, create=False) as copy:
        findings = copy.verify(chain_only=True).findings
        stage.found(next(each.line() for each in findings if each.path.startswith("task/")))
    stage.tells("an older copy is put in place of the database; taken by itself, it looks whole:")
    with open_workspace(old, create=False) as copy:
        alone = copy.verify()
        stage.good(f"verify finds {counted(len(alone.findings), 'problem')} in the older copy")
        stage.tells("compared with the heads that were saved elsewhere, it is found out:")
        stage.found(copy.verify(heads).findings[0].line())


STORY_CHAPTERS: tuple[Callable[[Stage], None], ...] = (
    _show_faults,
    _show_brief,
    _show_recall,
    growth,
    show_commits,
    _show_verify,
)
